"""Duty: Demartek's tables of SQLIOSim and Jetstress of 2009 beside what was run now, and the orders that both have.

Refusal: no total of theirs is compared with one of ours as such. How long their runs took is not printed, and a total
grows with time; orders and who was ahead of whom are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from statistics import fmean

import msgspec

from brickyard import shipped
from brickyard.analysis.figures.cells import DASH, Told
from brickyard.analysis.figures.server_tables import JETSTRESS_COLUMNS
from brickyard.analysis.figures.servers import Jetstress, jetstress, test_files, warnings_of_15_s
from brickyard.analysis.studies.published import Cells, Judged
from brickyard.ready import ready
from brickyard.schema.generated import ServerFileEnd
from brickyard.store import Record
from brickyard.units import format_count, three_digits

STUDY = "demartek-servers"
SIZES = {"small": "500-1,000 MB", "big": "5,000-10,000 MB"}
GROUP = "orders of SQLIOSim's totals"
WHY = "a total grows with the requests in flight, and how many SQLIOSim posts is not documented"
DEVICES = {"SSD": "ssd", "SAS 15000 rpm": "sas", "SATA 7200 rpm": "sata"}
JETSTRESS_ROWS = {"ssd": "SSD flat out", "sas-raid1-2": "SAS-B", "sata-raid1-2": "SATA-C"}


class PublishedTest(msgspec.Struct, frozen=True):
    """A row of their table of SQLIOSim."""

    device: str
    raid: str
    disks: int
    small_throttled: int
    small_total_ms: float
    big_throttled: int
    big_total_ms: float

    @property
    def name(self) -> str:
        """As the study calls the arrangement."""
        device = DEVICES[self.device]
        return device if self.raid == "none" else f"{device}-{self.raid}-{self.disks}"

    def throttled(self, size: str) -> int:
        return {"small": self.small_throttled, "big": self.big_throttled}[size]

    def total_ms(self, size: str) -> float:
        return {"small": self.small_total_ms, "big": self.big_total_ms}[size]


class PublishedJetstress(msgspec.Struct, frozen=True):
    """A row of their table of Jetstress. Times are shown as they were printed."""

    server: int
    configuration: str
    achieved_iops: float
    db_reads_per_s: float
    db_writes_per_s: float
    log_writes_per_s: float
    db_read_s: str
    db_write_s: str
    log_write_s: str


@cache
def published_tests() -> list[PublishedTest]:
    return msgspec.convert(_rows("sqliosim"), list[PublishedTest], strict=False)


@cache
def published_jetstress() -> list[PublishedJetstress]:
    return msgspec.convert(_rows("jetstress"), list[PublishedJetstress], strict=False)


def _rows(name: str) -> list[dict[str, str]]:
    return shipped.rows("brickyard.studies", f"demartek_2009_{name}")


def tables(study: str, records: Sequence[Record]) -> list[Told]:
    """Title, columns and rows; none for another study."""
    if study != STUDY or not records:
        return []
    runs = _by_load(records)
    sizes = [size for size in SIZES if size in runs]
    found = [_sqliosim(size, runs[size]) for size in sizes]
    if sizes:
        found.append(_orders({size: _totals(runs[size]) for size in sizes}))
    return [*found, _jetstress(runs["jetstress"])] if "jetstress" in runs else found


def judged(study: str, records: Sequence[Record], cells: Cells) -> list[Judged]:
    """Who was ahead of whom in the published totals, size by size, and whether all of these pairs are so here. A size
    of which an arrangement is missing is not judged."""
    if study != STUDY:
        return []
    found = []
    for size, ours in _by_size(records).items():
        if any(size in levels.values() for levels in cells.missing):
            found.append(Judged(f"orders of SQLIOSim's totals, {SIZES[size]}", "", None))
            continue
        theirs = _their_totals(size, ours)
        for words, pairs in _claims(sorted(ours)):
            known = [(one, other) for one, other in pairs if one in ours and other in ours]
            same = sum(_is_shorter(ours, pair) == _is_shorter(theirs, pair) for pair in known)
            said = f"{words} in {_ahead(theirs, known)} pairs (SQLIOSim, {SIZES[size]})"
            if known:
                here = f"{same} of {len(known)} pairs ordered as published"
                found.append(Judged(said, here, same == len(known), why=WHY, group=GROUP))
    return found


def _by_size(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    return {size: _totals(runs) for size, runs in _by_load(records).items() if size in SIZES}


def _by_load(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """By load, then by arrangement."""
    runs: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        levels = record.info.marks.levels or {}
        runs[levels["load"]][levels["arrangement"]].append(record)
    return runs


def _their_totals(size: str, among: Mapping[str, float]) -> dict[str, float]:
    return {row.name: row.total_ms(size) for row in published_tests() if row.name in among}


def _is_shorter(totals: Mapping[str, float], pair: tuple[str, str]) -> bool:
    return totals[pair[0]] < totals[pair[1]]


def _totals(runs: Mapping[str, Sequence[Record]]) -> dict[str, float]:
    """Total I/O time of the database file in ms, the mean of repetitions."""
    return {name: fmean(_database(record).total_io_ns / 1e6 for record in records) for name, records in runs.items()}


def _database(record: Record) -> ServerFileEnd:
    return next(file for file in test_files(record) if not file.log)


def _sqliosim(size: str, runs: Mapping[str, Sequence[Record]]) -> Told:
    columns = (
        "",
        "throttled",
        "total I/O time, ms",
        "rank",
        "over 15 s",
        "published: throttled",
        "published: total I/O time, ms",
        "published: rank",
    )
    totals = _totals(runs)
    theirs = {row.name: row for row in published_tests()}
    their_totals = {name: row.total_ms(size) for name, row in theirs.items() if name in totals}
    rows = []
    for name in [name for name in theirs if name in runs]:
        records, row = runs[name], theirs[name]
        rows.append(
            [
                name,
                format_count(round(fmean(_database(record).throttled for record in records))),
                format_count(round(totals[name])),
                str(_rank(totals, name)),
                format_count(sum(map(warnings_of_15_s, records))),
                format_count(row.throttled(size)),
                format_count(int(their_totals[name])),
                str(_rank(their_totals, name)),
            ]
        )
    return (
        f"SQLIOSim, {SIZES[size]}, compared with Demartek's figures of 2009; rank 1 has the shortest total",
        columns,
        rows,
    )


def _rank(totals: Mapping[str, float], name: str) -> int:
    """Of totals as they are shown: what reads alike has one rank."""
    return 1 + sum(round(value) < round(totals[name]) for value in totals.values())


def _ahead(totals: Mapping[str, float], pairs: Sequence[tuple[str, str]]) -> str:
    """In how many of these pairs the first took less time."""
    both = [(one, other) for one, other in pairs if one in totals and other in totals]
    return f"{sum(totals[one] < totals[other] for one, other in both)} of {len(both)}" if both else DASH


def _claims(names: Sequence[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    disks = [name for name in names if name != "ssd"]
    striped = [
        (f"{d}-raid10-8", f"{d}-{other}") for d in ("sas", "sata") for other in ("raid1-2", "raid5-5", "raid5-10")
    ]
    arrangements = ("raid1-2", "raid10-8", "raid5-5", "raid5-10")
    return [
        ("SSD ahead of disks", [("ssd", name) for name in disks]),
        ("RAID-10 of 8 ahead of RAID-1 and RAID-5", striped),
        ("SAS ahead of SATA, same arrangement", [(f"sas-{each}", f"sata-{each}") for each in arrangements]),
        ("RAID-5 of 10 ahead of RAID-5 of 5", [(f"{d}-raid5-10", f"{d}-raid5-5") for d in ("sas", "sata")]),
    ]


def _orders(ours: Mapping[str, Mapping[str, float]]) -> Told:
    """Who was ahead of whom, published and here, and in how many of all pairs both agree."""
    columns = ("", *(f"{SIZES[size]}: {word}" for size in ours for word in ("published", "here")))
    theirs = {size: _their_totals(size, totals) for size, totals in ours.items()}
    names = sorted({name for totals in ours.values() for name in totals})
    rows = [
        [words, *(_ahead(totals[size], pairs) for size in ours for totals in (theirs, ours))]
        for words, pairs in _claims(names)
    ]
    agreed = ["all pairs, ordered as published"]
    for size in ours:
        pairs = list(combinations(ours[size], 2))
        same = sum(_is_shorter(ours[size], pair) == _is_shorter(theirs[size], pair) for pair in pairs)
        agreed += [DASH, f"{same} of {len(pairs)}"]
    return "Shorter total I/O time under SQLIOSim: in how many pairs", columns, [*rows, agreed]


def _jetstress(runs: Mapping[str, Sequence[Record]]) -> Told:
    columns = ("", *JETSTRESS_COLUMNS)
    theirs = {row.configuration: row for row in published_jetstress() if row.server == 1}
    rows = []
    for name in [name for name in JETSTRESS_ROWS if name in runs]:
        records, row = runs[name], theirs[JETSTRESS_ROWS[name]]
        keys = ("achieved_iops", "db_reads_per_s", "db_writes_per_s", "log_writes_per_s")
        times = ("db_read_s", "db_write_s", "log_write_s")
        rows.append(
            [
                f"published: {row.configuration}",
                *(three_digits(getattr(row, key)) for key in keys),
                *(getattr(row, key) for key in times),
            ]
        )
        found = [jet for record in records if (jet := jetstress(record))]
        rows.append([f"here: {name}", *(_rate(found, key) for key in keys), *(_seconds(found, key) for key in times)])
    return "Jetstress, compared with Demartek's figures of 2009", columns, rows


def _rate(found: Sequence[Jetstress], key: str) -> str:
    return three_digits(fmean(getattr(jet, key) for jet in found)) if found else DASH


def _seconds(found: Sequence[Jetstress], key: str) -> str:
    values = [value for jet in found if (value := getattr(jet, key)) is not None]
    return f"{fmean(values):.3f}" if values else DASH


ready(list[PublishedTest], list[PublishedJetstress])
