"""Duty: Iometer's results (results.csv) → what was printed: of each access specification the row of all managers.

Columns are found by their names, which Iometer's versions share (ManagerList::SaveResults); decimal and binary
megabytes differ between them and are not read. Response times are means and maxima in ms; there are
neither minima nor percentiles. The part of the disk that was used stands in every row, or in those of workers and disks
alone.

Refusal: a file whose last test was cut off before its row of all managers is no result.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from brickyard.errors import BadInputError
from brickyard.formats.fio_units import LARGEST
from brickyard.formats.profile_parts import RANDOM, SEQUENTIAL, Address
from brickyard.formats.tool_result import (
    Ends,
    Moved,
    Printed,
    PrintedLoad,
    PrintedTimes,
    ToolResult,
    count_of,
    garbled,
    ns_of,
    profile_of,
)
from brickyard.ready import ready
from brickyard.schema import Counted
from brickyard.units import SECTOR_BYTES

TOOL = "iometer"
HEAD = "'Target Type"
SPECIFICATION, LINES = "'Access specification name", "'size"
CUT = "The file ends before the figures of its last test, which is missing here."
START, LENGTH = "Starting Sector", "Maximum Size"
ROW_KINDS = ("ALL", "MANAGER", "WORKER", "DISK")
AMBIGUOUS = 1 << 63
"""Iometer prints a negative number, or it as an unsigned one, where its workers differ."""
ROUGH = "Iometer prints no run time; it is the requests over the IOps."


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a row, by the names of its columns."""

    specification: str = msgspec.field(name="Access Specification Name")
    iops: float = msgspec.field(name="IOps")
    disks: int = msgspec.field(name="# Disks", default=0)
    depth: int = msgspec.field(name="Queue Depth", default=0)
    read_count: int = msgspec.field(name="Read I/Os")
    write_count: int = msgspec.field(name="Write I/Os")
    read_bytes: int = msgspec.field(name="Bytes Read")
    write_bytes: int = msgspec.field(name="Bytes Written")
    read_errors: int = msgspec.field(name="Read Errors")
    write_errors: int = msgspec.field(name="Write Errors")
    read_ms: float = msgspec.field(name="Average Read Response Time")
    write_ms: float = msgspec.field(name="Average Write Response Time")
    read_longest_ms: float = msgspec.field(name="Maximum Read Response Time")
    write_longest_ms: float = msgspec.field(name="Maximum Write Response Time")

    @property
    def reads(self) -> Moved:
        return _moved(
            Counted.READ, self.read_count, self.read_bytes, self.read_errors, self.read_ms, self.read_longest_ms
        )

    @property
    def writes(self) -> Moved:
        return _moved(
            Counted.WRITE, self.write_count, self.write_bytes, self.write_errors, self.write_ms, self.write_longest_ms
        )


@dataclass(frozen=True)
class _Test:
    row: _Row
    """Of all managers."""
    places: set[tuple[int, int]]
    """Start and length in sectors, of each row that has both; a length of 0 is the whole disk."""

    @property
    def unclear(self) -> str:
        """Why it is not known which part of the disk was used."""
        if not self.places:
            return f"neither {START} nor {LENGTH} is in a row of it"
        is_one = len(self.places) == 1 and all(0 <= number < AMBIGUOUS for number in next(iter(self.places)))
        return "" if is_one else f"{START} and {LENGTH} differ between its rows or workers"


def read_iometer(name: str, text: str) -> ToolResult:
    """Raises BadInputError where it is no result of Iometer, or only a part of one."""
    try:
        rows = list(csv.reader(text.splitlines()))
        tests = list(_tests(rows))
        if not tests:
            raise BadInputError("Iometer's results have no row of all managers (ALL); the file was cut off")
        specifications = _specifications(rows)
        phases = [_phase(test, specifications, number) for number, test in enumerate(tests, 1)]
        targets = list(dict.fromkeys(row[1] for row in rows if row[0:1] == ["DISK"] and len(row) > 1))
        began, version = _after(rows, "'Time Stamp"), _after(rows, "'Version")
    except (ValueError, KeyError, IndexError, OverflowError, csv.Error) as error:
        raise garbled(TOOL, error) from error
    profile = profile_of(TOOL, name, "direct", phases)
    is_cut = sum(row[:1] == ["'Access specifications"] for row in rows) > len(tests)
    notes = (ROUGH, CUT) if is_cut else (ROUGH,)
    unclear = next((f"test {number}: {test.unclear}" for number, test in enumerate(tests, 1) if test.unclear), "")
    return ToolResult(TOOL, version, _unix_ns(began), targets, "direct", phases, profile, notes, unclear)


def _unix_ns(text: str) -> int:
    """`2007-03-21 14:05:09:123`, the clock of that host."""
    found = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?::(\d{1,3}))?", text)
    if found is None:
        raise BadInputError("Iometer's results have no time stamp")
    seconds = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    return (round(seconds) * 1000 + int(found[2] or 0)) * 1_000_000


def _after(rows: list[list[str]], name: str) -> str:
    """The line below the first that begins so."""
    at = next((n for n, row in enumerate(rows) if row and row[0].startswith(name)), None)
    return ",".join(rows[at + 1]).strip() if at is not None and at + 1 < len(rows) else ""


def _tests(rows: list[list[str]]) -> Iterator[_Test]:
    """The row of all managers of each test, and what the rows below it say of the disk."""
    names: list[str] = []
    test: _Test | None = None
    for row in rows:
        if row and row[0].startswith(HEAD):
            names = [row[0].lstrip("'"), *row[1:]]
        if not names or row[:1] not in ([kind] for kind in ROW_KINDS):
            continue
        told = {name: cell.strip() for name, cell in zip(names, row, strict=False) if cell.strip()}
        if row[0] == "ALL":
            if len(row) < names.index("Write I/Os") + 1:
                raise BadInputError("Iometer's last row is cut off")
            if test is not None:
                yield test
            test = _Test(msgspec.convert(told, _Row, strict=False), set())
        if test is not None and START in told and LENGTH in told:
            test.places.add((_sectors(told[START]), _sectors(told[LENGTH])))
    if test is not None:
        yield test


def _sectors(text: str) -> int:
    number = int(text)
    if LARGEST // SECTOR_BYTES // 2 < number < AMBIGUOUS:
        raise ValueError(f"{text} is more sectors than a disk has")
    return number


def _specifications(rows: list[list[str]]) -> dict[str, list[list[int]]]:
    """The lines of each access specification by its name: size, share, reads, random and so on."""
    found: dict[str, list[list[int]]] = {}
    own: list[list[int]] | None = None
    last = ""
    for row in rows:
        if not row:
            continue
        if row[0].startswith("'"):
            last = row[0]
            own = own if last.startswith(LINES) else None
        elif last.startswith(SPECIFICATION):
            own = found.setdefault(row[0].strip(), [])
            last = ""
        elif last.startswith(LINES) and own is not None:
            own.append([int(cell) for cell in row if cell.strip()])
    return found


def _phase(test: _Test, specifications: dict[str, list[list[int]]], number: int) -> Printed:
    row = test.row
    name = row.specification.strip()
    moved = [row.reads, row.writes]
    requests = sum(one.requests for one in moved)
    if not row.iops or not requests:
        raise BadInputError(f"test {number} ({name}) has no request")
    seconds = requests / row.iops
    # What several disks were asked for together is no one stream.
    ends = None
    if row.disks == 1 and row.depth > 0 and not test.unclear:
        start, length = (sectors * SECTOR_BYTES for sectors in next(iter(test.places)))
        ends = Ends(seconds=max(1, round(seconds)), region_bytes=length or None, start_bytes=start)
    asked = _asked(specifications.get(name, []), max(1, row.disks), max(1, row.depth))
    return Printed(f"{number}: {name}", seconds, replace(asked, ends=ends), moved)


def _moved(
    operation: Counted, requests: int, moved_bytes: int, errors: int, mean_ms: float, longest_ms: float
) -> Moved:
    times = PrintedTimes(mean_ms * 1e6, ns_of(longest_ms)) if requests else None
    return Moved(operation, count_of(requests), count_of(moved_bytes), count_of(errors), times)


def _asked(lines: list[list[int]], disks: int, depth: int) -> PrintedLoad:
    if len(lines) != 1 or len(lines[0]) < 7:
        return PrintedLoad(workers=disks, depth=depth)
    size_bytes, _, reads, random, delay, burst, align, *_ = lines[0]
    if delay or burst > 1:
        return PrintedLoad(workers=disks, depth=depth)
    mixed = Address("runs", random=float(random))
    address = SEQUENTIAL if not random else RANDOM if random == 100 else mixed
    # 0 is "on a sector boundary" in Iometer.
    return PrintedLoad(size_bytes, reads, address, disks, depth, align_bytes=align or SECTOR_BYTES)


ready(_Row)
