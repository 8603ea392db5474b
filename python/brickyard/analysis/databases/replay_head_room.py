"""Duty: how much more than the log's load the databases carry, and the load curve with its rate within a limit. Pure.

Refusal: what is too short is not judged, and a piece of a log is never called the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from brickyard.analysis.databases.replay_runs import (
    away_s,
    calls_per_s,
    ends,
    logs_read,
    pace_kind,
    replay_asked,
    service_cells,
)
from brickyard.analysis.databases.replay_served import Served, ServedDocument, served, served_words
from brickyard.analysis.databases.replay_warnings import BLINK_S
from brickyard.analysis.figures.cells import marked_time
from brickyard.analysis.figures.load_curve import CurvePoint, Limit, curve_point, usable
from brickyard.analysis.figures.offered_share import offered
from brickyard.analysis.figures.totals import rated_intervals
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.schema import PhaseEnd, PhaseReason
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_ns, format_percent, format_seconds

# A start, a stop and a second of anything else weigh little in so much.
JUDGED_S = 5.0
JUDGED_CALLS = 1000
FAILED_SHARE_MAX = 0.01  # as of the unsent: beyond it another load was served than the log's


@dataclass(frozen=True)
class HeadRoom:
    """How much more the databases carry than the log's average load, or than that of a piece of it."""

    fire_hose_per_s: float
    normal_per_s: float
    factor: float
    of: str  # "log": all of it that was asked for; "piece": what a duration left of it
    span_s: float | None  # of the log's time, that `normal_per_s` is the average over
    busiest_second_calls: int | None
    fire_hose_s: float
    fire_hose_calls: int
    served: Served

    @property
    def is_judged(self) -> bool:
        return self.fire_hose_s >= JUDGED_S and self.fire_hose_calls >= JUDGED_CALLS

    def document(self) -> HeadRoomDocument:
        own = {name: getattr(self, name) for name in HeadRoomDocument.__struct_fields__}
        return HeadRoomDocument(**{**own, "served": self.served.document()})


class HeadRoomDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The same for `--json`."""

    fire_hose_per_s: float
    normal_per_s: float
    factor: float
    of: str
    span_s: float | None
    busiest_second_calls: int | None
    fire_hose_s: float
    fire_hose_calls: int
    served: ServedDocument
    is_judged: bool


@dataclass(frozen=True)
class LogLoad:
    """What a log asks for by its own stamps."""

    calls: int
    span_s: float
    busiest_second_calls: int | None

    @property
    def per_s(self) -> float:
        return average_per_s(self.calls, self.span_s, self.busiest_second_calls)


def log_span_s(first_ns: int | None, last_ns: int | None) -> float:
    """From the first stamp to the end of the last: stamps of whole seconds last one each."""
    if first_ns is None or last_ns is None:
        return 0.0
    is_whole = first_ns % 1_000_000_000 == 0 and last_ns % 1_000_000_000 == 0
    return (last_ns - first_ns) / 1e9 + is_whole


def average_per_s(calls: int, span_s: float, busiest_second_calls: int | None) -> float:
    """No average is above the busiest second, as that of a few calls in less than a second would be."""
    most = busiest_second_calls or calls
    return min(calls / span_s, float(most)) if span_s > 0 else float(most)


def log_load(record: Record) -> LogLoad | None:
    """Of a run that read its logs to their end once; None of any other."""
    told = logs_read(record)
    reasons = {end.reason for end in record.of(PhaseEnd)}
    if reasons != {PhaseReason.END_OF_LOG} or not told or len(told) < len(ends(record)):
        return None
    known = [item for item in told if item.last_ns is not None]
    calls = sum(item.calls for item in known)
    if not calls:
        return None
    first_ns = min((item.first_ns for item in known if item.first_ns is not None), default=None)
    span_s = log_span_s(first_ns, max((item.last_ns for item in known if item.last_ns is not None), default=None))
    # Drivers count their own seconds: the busiest of all is known where they agree on which it is.
    peaks = [item for item in known if item.calls]
    is_one = len({item.peak_second_unix_s for item in peaks}) == 1
    return LogLoad(calls, span_s, sum(item.peak_second_calls for item in peaks) if is_one else None)


def head_room(records: list[Record]) -> HeadRoom | None:
    """Fire-hose rate over the log's average. Where no run read the whole log, over the rate of the piece replayed.

    None where one of both was not measured, or where not all of the load was served (`spoilt`).
    """
    hoses, timed = _both(records)
    fire = calls_per_s(hoses)
    if not fire or not timed or spoilt(records):
        return None
    speed = _constant_speed(timed[0]) or 1.0
    load = next((found for record in [*timed, *hoses] if (found := log_load(record))), None)
    length_s, calls = (sum(column) / len(hoses) for column in zip(*map(_issued, hoses), strict=True))
    if load is None:
        spans, due = (sum(column) for column in zip(*map(_due, timed), strict=True))
        normal = due / spans / speed if spans else 0.0
        of, span_s, busiest = "piece", spans / len(timed) * speed, None
    else:
        normal, of, span_s, busiest = load.per_s, "log", load.span_s, load.busiest_second_calls
    if not normal:
        return None
    return HeadRoom(fire, normal, fire / normal, of, span_s, busiest, length_s, round(calls), served(hoses))


def _both(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """The fire hoses, and the replays at the constant speed that is nearest to the log's own."""
    done = [record for record in records if record.info.outcome == "done"]
    speeds = {speed: [r for r in done if _constant_speed(r) == speed] for speed in map(_constant_speed, done) if speed}
    timed = speeds[min(speeds, key=lambda s: abs(s - 1))] if speeds else []
    return [record for record in done if pace_kind(record) == "fire_hose"], timed


def spoilt(records: list[Record]) -> str:
    """Why two replays tell no headroom though both ended: calls that failed cost a server less than served ones."""
    hoses, timed = _both(records)
    if not hoses or not timed:
        return ""
    for record in (*hoses, *timed):
        for number, path in enumerate(record.info.targets):
            if (down_s := away_s([record], number)) >= BLINK_S:
                return f"{path} could not be reached for {format_seconds(down_s)} of run {record.info.id}"
        cells = service_cells(record)
        errors = sum(item.errors for item in cells)
        all_of = errors + sum(item.requests for item in cells)
        if errors > FAILED_SHARE_MAX * all_of:
            return f"{format_count(errors)} of {format_count(all_of)} calls failed in run {record.info.id}"
    return ""


def _issued(record: Record) -> tuple[float, int]:
    """For how long calls were issued, and how many were answered."""
    spans = rated_intervals(record, 0)
    starts = {span.start_ns for span in spans}
    calls = sum(item.requests for item in service_cells(record) if item.start_ns in starts)
    return sum(span.end_ns - span.start_ns for span in spans) / 1e9, calls


def _due(record: Record) -> tuple[float, int]:
    """For how long calls were issued, and how many were due: those that failed or were not sent were, too."""
    length_s, calls = _issued(record)
    starts = {span.start_ns for span in rated_intervals(record, 0)}
    errors = sum(item.errors for item in service_cells(record) if item.start_ns in starts)
    return length_s, calls + errors + sum(end.unsent for end in record.of(PhaseEnd))


def _constant_speed(record: Record) -> float | None:
    if pace_kind(record) != "time_synchronized":
        return None
    text = str(replay_asked(record).pace.speed).strip().rstrip("xX×").strip()
    return float(text) if " " not in text else None


def offered_points(records: list[Record]) -> list[CurvePoint]:
    """Runs at fixed or Poisson rates as points of a load curve."""
    found = []
    for record in records:
        rate = replay_asked(record).pace.rate_per_s
        if rate:
            found.append(curve_point(record, float(rate) * offered(record).share))
    return sorted(found, key=lambda point: point.offered_per_s)


CURVE_COLUMNS = ["offered/s", "calls/s", "mean", *MEDIAN_AND_P99, "max", "unsent", "errors", ""]


def curve_row(point: CurvePoint) -> list[str]:
    times = (point.mean_ns, *(point.percentiles.get(name) for name in MEDIAN_AND_P99), point.max_ns)
    few = (False, *map(point.is_marked, MEDIAN_AND_P99), False)
    told = zip(times, few, strict=True)
    return [
        format_iops(point.offered_per_s),
        format_iops(point.achieved_per_s),
        *(marked_time(time_ns, is_of_few=of_few, of_length=point.overloaded) for time_ns, of_few in told),
        format_count(point.unsent),
        format_count(point.errors),
        "overloaded" if point.overloaded else "",
    ]


@dataclass(frozen=True)
class Within:
    """The highest offered rate up to which all kept a limit; the first that broke it, or of which that is not known."""

    figure: str
    above_ns: int
    rate_per_s: float | None
    broken_at_per_s: float | None
    unmeasured_at_per_s: float | None


def within(records: list[Record], limit: Limit | None) -> Within | None:
    points = offered_points(records)
    if limit is None or not points:
        return None
    best, worst = usable(points, limit)
    unmeasured = worst is not None and not worst.overloaded and not worst.errors and _lacks(worst, limit)
    return Within(
        figure=limit.figure,
        above_ns=limit.above_ns,
        rate_per_s=best.offered_per_s if best else None,
        broken_at_per_s=worst.offered_per_s if worst and not unmeasured else None,
        unmeasured_at_per_s=worst.offered_per_s if worst and unmeasured else None,
    )


def is_kept(records: list[Record], limit: Limit | None) -> bool:
    """Whether an offered rate kept the limit; also where no rate was offered, or no limit asked for."""
    found = within(records, limit)
    return found is None or found.rate_per_s is not None


def _lacks(point: CurvePoint, limit: Limit) -> bool:
    """Too few calls for the percentile."""
    return point.time_ns(limit.figure) is None


def factor_words(factor: float) -> str:
    """As the study put it, "400 % of"; beyond twenty times per cent are hard to read."""
    return f"{format_percent(factor)} of" if factor < 20 else f"{factor:,.0f} times"


def verdict_lines(records: list[Record], limit: Limit | None = None) -> list[str]:
    lines = []
    room = head_room(records)
    if room is not None:
        lines += head_room_lines(room)
    elif why := spoilt(records):
        lines.append(f"Headroom: not computed, because {why}: the databases did not serve the log's load.")
    found = within(records, limit)
    if found and limit:
        said = f"{limit.figure} response within {format_ns(limit.above_ns)}"
        best, broken, unmeasured = found.rate_per_s, found.broken_at_per_s, found.unmeasured_at_per_s
        if unmeasured:
            few = f"not measured: too few calls for {limit.figure} at {format_iops(unmeasured)} calls/s"
            lines.append(f"{said}: up to {format_iops(best)} calls/s; above that {few}." if best else f"{said}: {few}.")
        elif best is None:
            lines.append(f"{said}: not at any offered rate.")
        elif broken:
            lines.append(f"{said}: up to {format_iops(best)} calls/s; not at {format_iops(broken)}.")
        else:
            lines.append(f"{said}: at least {format_iops(best)} calls/s, the highest rate tried.")
    return lines


def head_room_lines(room: HeadRoom) -> list[str]:
    normal = f"{format_iops(room.normal_per_s)} calls/s"
    span = f" over {format_seconds(room.span_s)}" if room.span_s else ""
    if room.of == "log":
        of = f"the log's average load ({normal}{span})"
        if room.busiest_second_calls:
            busiest = factor_words(room.fire_hose_per_s / room.busiest_second_calls)
            of += f", {busiest} its busiest second ({format_count(room.busiest_second_calls)} calls)"
    else:
        of = f"the part of the log that was replayed (its first{span.removeprefix(' over')}: {normal})"
    fire = f"{format_iops(room.fire_hose_per_s)} calls/s as fast as possible"
    whence = served_words(room.served)
    if room.is_judged and room.served.is_from_memory:
        # Of bricks it says nothing, so neither do its words.
        return [f"Headroom: {whence}. From memory alone, the servers serve {factor_words(room.factor)} {of}; {fire}."]
    if room.is_judged:
        return [f"Headroom: the databases can serve {factor_words(room.factor)} {of}; {fire}; {whence}."]
    length = f"{format_seconds(room.fire_hose_s)} and {format_count(room.fire_hose_calls)} calls"
    return [
        f"Headroom: too short to judge: {fire} lasted {length}, but at least {JUDGED_S:.0f} s and "
        f"{format_count(JUDGED_CALLS)} calls are needed; use a longer log, or --again with --duration. By this "
        "measurement it would be"
        f" {factor_words(room.factor)} {of}; {whence}."
    ]
