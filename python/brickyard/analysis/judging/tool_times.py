"""Duty: what times that another tool printed tell of response times, where it knows no due instants.

In a loop without a rate, a request is due when the one before it has ended; a time from before its submission to its
end is then its response time. fio's `lat` is such a time. Its `clat` begins when the call that submits has ended, but
with a synchronous engine, whose requests are one call, before that call (`td_io_queue` in fio's sources). diskspd's
begins before the call (`issueNextIO` in its sources). Where a part of the response time is missing, a printed time is
its lower bound.

Refusal: no time is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brickyard.analysis.figures.imported import CLAT, clat_warnings
from brickyard.analysis.figures.totals import Totals, asked_stream
from brickyard.percentiles import PERCENTILE_NAMES
from brickyard.rulers import Requirement
from brickyard.schema import COMMIT, FLUSH, WRITES
from brickyard.schema.plan import ClosedPace, Stream
from brickyard.store import Record
from brickyard.store.record import COMPLETIONS, DISKSPD, FIO, NO_TOTALS

NO_COMMITS = "{tool} reports no commits, each a write and its flush"
SUBMISSION = "fio's clat leaves out the call that submits a request; run fio with lat_percentiles=1"
NO_LAT = "fio's clat leaves out the call that submits a request; run fio without disable_lat=1"
FLUSHES = "fio's times of flushes are those of the call only with a synchronous engine; run fio with ioengine=psync"
AT_A_RATE = "{tool}'s times leave out how late a request was sent, and {load}"


@dataclass(frozen=True)
class ToolTime:
    """A figure that a tool printed in place of a response time."""

    whose: str
    lacks: str = ""
    """What of the response time it leaves out, so that it is at least this long; empty where it leaves out nothing."""


def tool_time(record: Record, rows: Sequence[Totals], requirement: Requirement) -> ToolTime | None:
    """Of a figure of the service times of rows; None where Brickyard measured them, and where nobody knows what the
    times of a tool begin with."""
    tool = record.info.tool
    if tool not in (FIO, DISKSPD):
        return None
    said = _of_fio(record, rows, requirement.figure) if tool == FIO else ToolTime("diskspd's latency")
    if requirement.measure == "service":
        return said
    asked = [asked_stream(record, row.phase, row.stream) for row in rows]
    if all(one is not None and isinstance(one.pace, ClosedPace) and _is_plain(one) for one in asked):
        return said
    has_rate = any(one is not None and one.pace is not None for one in asked)
    load = "the load has a rate" if has_rate else "whether the load had a rate is not known"
    return replace(said, lacks=AT_A_RATE.format(tool=tool, load=load))


def _is_plain(asked: object) -> bool:
    return not (isinstance(asked, Stream) and (asked.frames or asked.trace))


def _of_fio(record: Record, rows: Sequence[Totals], figure: str) -> ToolTime:
    flushes = [row for row in rows if row.operation == FLUSH]
    if len(flushes) == len(rows):
        return ToolTime("fio's times of flushes")
    said = _of_requests(record, rows, figure)
    return replace(said, whose=f"{said.whose} and times of flushes") if flushes else said


def _of_requests(record: Record, rows: Sequence[Totals], figure: str) -> ToolTime:
    warned = {found for row in rows for found in clat_warnings(record, row.phase, row.stream, row.operation)}
    if NO_TOTALS in warned:
        return ToolTime(CLAT, NO_LAT)
    if figure not in PERCENTILE_NAMES or not warned:
        return ToolTime("fio's lat")
    return ToolTime(CLAT, SUBMISSION if COMPLETIONS in warned else "")


def untimed_words(record: Record, rows: Sequence[Totals], requirement: Requirement) -> str:
    """Why a tool's result has no such time; empty where Brickyard measured it, or where the tool did nothing that it
    would be of."""
    tool = record.info.tool
    if not tool:
        return ""
    if requirement.operation == COMMIT or commits(rows):
        named = f"; name the flushes: 'flush.{requirement.figure}<=LIMIT'" if tool == FIO else ""
        return NO_COMMITS.format(tool=tool) + named
    if not any(row.requests for row in rows):
        return ""
    if tool == FIO and all(row.operation == FLUSH for row in rows):
        return FLUSHES
    if tool in (FIO, DISKSPD):
        return f"{tool} printed no times of them"
    return f"{tool} reports no {requirement.measure} time"


def commits(rows: Sequence[Totals]) -> bool:
    """Whether each write of a tool's stream was flushed, by how many there were: whoever asks for a time of such a
    stream means that of both."""
    written: dict[tuple[int, int], int] = {}
    flushed: dict[tuple[int, int], int] = {}
    for row in rows:
        key = row.phase, row.stream
        if row.operation in WRITES:
            written[key] = written.get(key, 0) + row.requests
        elif row.operation == FLUSH:
            flushed[key] = flushed.get(key, 0) + row.requests
    return any(count and flushed.get(key, 0) > count * 2 / 3 for key, count in written.items())
