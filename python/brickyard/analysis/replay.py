"""Duty: replays → pages, drivers, seconds, disks beside calls, head room; tables as rows of text. Pure.

Refusal: no percentile is averaged. Repetitions' maxima are, as the study's "mean of the maxima" is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from brickyard import _core
from brickyard.analysis.cells import DASH
from brickyard.analysis.latency import Latency, is_supported, latency_of
from brickyard.analysis.load_curve import CurvePoint, Limit, curve_point, usable
from brickyard.analysis.totals import rated_intervals, stream_name, stream_plan
from brickyard.store import Interval, Json, Record
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    format_seconds,
    three_digits,
)

COLD_S = 10  # seconds that a cold start is looked at; the study saw maxima of several seconds in its first ones
BLINK_S = 0.1  # a database that was away for less took new connections at once
LINK_SHARE_MAX = 0.8  # of a link's speed: from here on protocol overhead may fill the rest

SQLSTATES = {
    "08001": "no connection",
    "08006": "connection lost",
    "22": "data exception",
    "23": "constraint violated",
    "28": "not authorized",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "42": "syntax or access rule",
    "53": "out of resources",
    "53100": "disk full",
    "53300": "too many connections",
    "54": "limit exceeded",
    "55P03": "lock not available",
    "57014": "canceled, as by statement_timeout",
    "57P": "server shut down or starting",
    "58": "system error",
    "XX": "internal error",
}
"""By state, else by its longest known beginning (PostgreSQL manual, appendix A)."""

PAGE_COLUMNS = [
    *("page", "calls", "calls/s", "mean", "p50", "p95", "p99", "max", "mean of max"),
    *("first byte", "last byte", "rows", "MiB", "errors", "diverged"),
]


def is_replay(record: Record) -> bool:
    return record.info.plan.get("kind") == "replay"


@dataclass(frozen=True)
class PageFigures:
    """One page, on one brick or on all, over one run or several repetitions."""

    page: str
    calls: int
    errors: int
    bytes: int
    rows: int
    diverged: int
    per_s: float | None
    response: Latency | None
    p95_ns: int | None
    first_byte_ns: float | None
    last_byte_ns: float | None
    mean_of_max_ns: float | None
    away_s: float = 0.0


def pages(records: list[Record], *, by_brick: bool = True) -> list[PageFigures]:
    """Repetitions of one load together; a last line holds all pages."""
    groups: dict[str, list[int]] = {}
    for stream in range(len(_streams(records[0]))):
        name = stream_name(records[0], 0, stream) if by_brick else stream_plan(records[0], 0, stream).get("page", "")
        groups.setdefault(name, []).append(stream)
    found = [_figures(name, streams, records) for name, streams in groups.items()]
    every = [stream for streams in groups.values() for stream in streams]
    return [*found, _figures("all", every, records)] if len(found) > 1 else found


def bricks(records: list[Record]) -> list[PageFigures]:
    """The same by database; nothing where there is one."""
    targets = sorted({int(stream["target"]) for stream in _streams(records[0])})
    if len(targets) < 2:
        return []
    found = []
    for target in targets:
        own = [n for n, stream in enumerate(_streams(records[0])) if stream["target"] == target]
        shown = records[0].info.targets[target]
        figures = _figures(f"brick {target}: {shown}", own, records)
        found.append(replace(figures, away_s=away_s(records, target)))
    return found


def _streams(record: Record) -> list[Json]:
    return list(record.info.plan["phase"][0]["stream"])


def _figures(name: str, streams: list[int], records: list[Record]) -> PageFigures:
    wanted = set(streams)
    items = [item for record in records for item in record.intervals if item.stream in wanted]
    of = {m: [i for i in items if i.measure == m] for m in ("service", "response", "first_byte")}
    # A cell of failures alone is stored under the first measure there is.
    once = of["service"]
    response = latency_of(of["response"])
    maxima = [m for record in records if (m := _max(record, wanted)) is not None]
    extra = [row for record in records for row in _by_stream(record) if row["stream"] in wanted]
    service, first = latency_of(of["service"]), latency_of(of["first_byte"])
    return PageFigures(
        page=name,
        calls=sum(i.requests for i in once),
        errors=sum(i.errors for i in once),
        bytes=sum(i.bytes for i in once),
        rows=sum(int(row.get("rows", 0)) for row in extra),
        diverged=sum(int(row.get("diverged", 0)) for row in extra),
        per_s=_rate(records, wanted),
        response=response,
        p95_ns=_p95(response),
        first_byte_ns=first.mean_ns if first else None,
        last_byte_ns=service.mean_ns if service else None,
        mean_of_max_ns=fmean(maxima) if maxima else None,
    )


def _by_stream(record: Record) -> list[Json]:
    return [row for end in record.events_of("phase_end") for row in dig_replay(end).get("by_stream", [])]


def dig_replay(end: Json) -> Json:
    found = end.get("replay")
    return found if isinstance(found, dict) else {}


def _max(record: Record, streams: set[int]) -> int | None:
    found = [i.max_ns for i in record.intervals if i.stream in streams and i.measure == "response"]
    return max(found, default=None)


def _p95(figures: Latency | None) -> int | None:
    if figures is None or not is_supported(figures.count, 95.0):
        return None
    return min(_core.histogram_percentiles(figures.histogram, [95.0])[0], figures.max_ns)


def _rate(records: list[Record], streams: set[int] | None = None) -> float | None:
    """Calls a second over the time in which they were issued, and their databases could be reached and had some."""
    span_ns, calls = 0, 0
    for record in records:
        spans = rated_intervals(record, 0)
        starts = {span.start_ns for span in spans}
        issuing_ns = sum(span.end_ns - span.start_ns for span in spans)
        served_ns = _served_ns(record, streams)
        span_ns += issuing_ns if served_ns is None else min(issuing_ns, served_ns)
        calls += sum(i.requests for i in _once(record) if i.start_ns in starts and (not streams or i.stream in streams))
    return calls / span_ns * 1e9 if span_ns else None


def _served_ns(record: Record, streams: set[int] | None) -> int | None:
    """For how long a database served, or one of several did; drivers that ended early wait for no other."""
    targets = {int(stream["target"]) for n, stream in enumerate(_streams(record)) if not streams or n in streams}
    told = [end for end in ends(record) if "served_ns" in end]
    if len(targets) == 1:
        return max((int(end["served_ns"][target]) for end in told for target in targets), default=None)
    return max((int(end["any_served_ns"]) for end in told), default=None)


def away_s(records: list[Record], target: int) -> float:
    """For how long a database could not be reached while calls were issued; by the driver that lacked it longest."""
    told = [[int(end["away_ns"][target]) for end in ends(record) if "away_ns" in end] for record in records]
    return sum(max(found, default=0) for found in told) / 1e9


def _once(record: Record) -> list[Interval]:
    return [item for item in record.intervals if item.measure == "service"]


def calls_per_s(records: list[Record]) -> float | None:
    return _rate(records)


def page_rows(records: list[Record], *, by_brick: bool = True) -> list[list[str]]:
    """The study's table 8 and what it did not show. Times but the last two are response times."""
    return [_page_row(item) for item in pages(records, by_brick=by_brick)]


def brick_table(records: list[Record]) -> tuple[list[str], list[list[str]]]:
    """The same by database; for how long one was down, where one was."""
    found = bricks(records)
    columns = ["database", *PAGE_COLUMNS[1:]]
    rows = [_page_row(item) for item in found]
    if any(item.away_s for item in found):
        columns.append("down")
        rows = [[*row, _down(item)] for row, item in zip(rows, found, strict=True)]
    return columns, rows


def _down(item: PageFigures) -> str:
    return format_seconds(item.away_s) if item.away_s else DASH


def _page_row(item: PageFigures) -> list[str]:
    shown = item.response.percentiles if item.response else {}
    return [
        item.page,
        format_count(item.calls),
        DASH if item.per_s is None else format_iops(item.per_s),
        format_ns(item.response.mean_ns if item.response else None),
        format_ns(shown.get("p50")),
        format_ns(item.p95_ns),
        format_ns(shown.get("p99")),
        format_ns(item.response.max_ns if item.response else None),
        format_ns(item.mean_of_max_ns),
        format_ns(item.first_byte_ns),
        format_ns(item.last_byte_ns),
        format_count(item.rows),
        format_mib_per_s(item.bytes),
        format_count(item.errors),
        format_count(item.diverged),
    ]


def driver_rates(records: list[Record]) -> dict[int, float]:
    """Calls a second of each driver over its own time with a database, counted from 0; repetitions together."""
    calls: Counter[int] = Counter()
    spans: Counter[int] = Counter()
    for record in records:
        own: Counter[int] = Counter()
        for event in record.events_of("drivers"):
            for item in event["drivers"]:
                if not item["drain"]:
                    calls[item["driver"]] += item["requests"]
                    own[item["driver"]] += event["end_ns"] - event["start_ns"]
        served = {end["driver"]: int(end["any_served_ns"]) for end in ends(record) if "any_served_ns" in end}
        spans.update({driver: min(span_ns, served.get(driver, span_ns)) for driver, span_ns in own.items()})
    return {driver: calls[driver] / spans[driver] * 1e9 for driver in sorted(calls) if spans[driver]}


def by_pace(records: list[Record]) -> dict[str, list[Record]]:
    """Runs of one pace are repetitions of each other."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(pace_name(record), []).append(record)
    return found


def pace_name(record: Record) -> str:
    pace = record.info.plan["replay"]["pace"]
    name = str(record.info.plan["phase"][0]["name"])
    if pace["kind"] == "time_synchronized":
        speed = str(pace["speed"])
        return name if speed in ("1", "1x") else f"{name} at {speed}"
    return f"{name} {three_digits(pace['rate_per_s'])}/s" if "rate_per_s" in pace else name


def throughput_rows(records: list[Record]) -> tuple[list[str], list[list[str]]]:
    """The study's table 7: calls a second, one line a driver, one column a pace; the last line is all of them."""
    groups = by_pace(records)
    rates = {name: driver_rates(group) for name, group in groups.items()}
    drivers = sorted({driver for found in rates.values() for driver in found})
    rows = [
        [f"driver {driver + 1}", *(_per_s(rates[name].get(driver)) for name in groups)]
        for driver in drivers
        if len(drivers) > 1
    ]
    return ["calls/s", *groups], [*rows, ["all", *(_per_s(calls_per_s(group)) for group in groups.values())]]


def _per_s(value: float | None) -> str:
    return DASH if value is None else format_iops(value)


# A start, a stop and a second of anything else weigh little in so much.
JUDGED_S = 5.0
JUDGED_CALLS = 1000


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

    @property
    def is_judged(self) -> bool:
        return self.fire_hose_s >= JUDGED_S and self.fire_hose_calls >= JUDGED_CALLS

    def document(self) -> Json:
        return {**asdict(self), "is_judged": self.is_judged}


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
    told = [end.get("logs") for end in ends(record)]
    reasons = {end.get("reason") for end in record.events_of("phase_end")}
    if reasons != {"end of log"} or not told or not all(told):
        return None
    known = [item for item in told if item and item.get("last_ns") is not None]
    calls = sum(int(item["calls"]) for item in known)
    if not calls:
        return None
    span_s = log_span_s(min(i["first_ns"] for i in known), max(i["last_ns"] for i in known))
    # Drivers count their own seconds: the busiest of all is known where they agree on which it is.
    peaks = [item for item in known if item["calls"]]
    is_one = len({item["peak_second_unix_s"] for item in peaks}) == 1
    return LogLoad(calls, span_s, sum(item["peak_second_calls"] for item in peaks) if is_one else None)


def head_room(records: list[Record]) -> HeadRoom | None:
    """Fire-hose rate over the log's average. Where no run read the whole log, over the rate of the piece replayed."""
    done = [record for record in records if record.info.outcome == "done"]
    hoses = [record for record in done if _kind(record) == "fire_hose"]
    fire = calls_per_s(hoses)
    speeds = {speed: [r for r in done if _constant_speed(r) == speed] for speed in map(_constant_speed, done) if speed}
    if not fire or not speeds:
        return None
    speed = min(speeds, key=lambda s: abs(s - 1))
    load = next((found for record in [*speeds[speed], *hoses] if (found := log_load(record))), None)
    length_s, calls = (sum(column) / len(hoses) for column in zip(*map(_issued, hoses), strict=True))
    if load is None:
        normal = (calls_per_s(speeds[speed]) or 0.0) / speed
        of, span_s, busiest = "piece", fmean(_issued(record)[0] for record in speeds[speed]) * speed, None
    else:
        normal, of, span_s, busiest = load.per_s, "log", load.span_s, load.busiest_second_calls
    return HeadRoom(fire, normal, fire / normal, of, span_s, busiest, length_s, round(calls)) if normal else None


def _issued(record: Record) -> tuple[float, int]:
    """For how long calls were issued, and how many."""
    spans = rated_intervals(record, 0)
    starts = {span.start_ns for span in spans}
    calls = sum(item.requests for item in _once(record) if item.start_ns in starts)
    return sum(span.end_ns - span.start_ns for span in spans) / 1e9, calls


def _kind(record: Record) -> str:
    return str(record.info.plan["replay"]["pace"]["kind"])


def _constant_speed(record: Record) -> float | None:
    if _kind(record) != "time_synchronized":
        return None
    text = str(record.info.plan["replay"]["pace"]["speed"]).strip().rstrip("xX×").strip()
    return float(text) if " " not in text else None


def offered_points(records: list[Record]) -> list[CurvePoint]:
    """Runs at fixed or Poisson rates as points of a load curve."""
    found = []
    for record in records:
        rate = record.info.plan["replay"]["pace"].get("rate_per_s")
        if rate:
            found.append(curve_point(record, float(rate)))
    return sorted(found, key=lambda point: point.offered_per_s)


CURVE_COLUMNS = ["offered/s", "calls/s", "mean", "p50", "p99", "max", "unsent", "errors", ""]


def curve_row(point: CurvePoint) -> list[str]:
    return [
        format_iops(point.offered_per_s),
        format_iops(point.achieved_per_s),
        format_ns(point.mean_ns),
        *(format_ns(point.percentiles.get(name)) for name in ("p50", "p99")),
        format_ns(point.max_ns),
        format_count(point.unsent),
        format_count(point.errors),
        "overloaded" if point.overloaded else "",
    ]


def within(records: list[Record], limit: Limit | None) -> Json | None:
    """The highest offered rate up to which all kept the limit."""
    points = offered_points(records)
    if limit is None or not points:
        return None
    best, worst = usable(points, limit)
    unmeasured = worst is not None and not worst.overloaded and not worst.errors and _lacks(worst, limit)
    return {
        "figure": limit.figure,
        "above_ns": limit.above_ns,
        "rate_per_s": best.offered_per_s if best else None,
        "broken_at_per_s": worst.offered_per_s if worst and not unmeasured else None,
        "unmeasured_at_per_s": worst.offered_per_s if worst and unmeasured else None,
    }


def _lacks(point: CurvePoint, limit: Limit) -> bool:
    """Too few calls for the percentile."""
    return limit.figure != "mean" and point.percentiles.get(limit.figure) is None


@dataclass(frozen=True)
class Second:
    """One interval: calls beside what the server's disks did meanwhile."""

    start_s: float
    length_s: float
    calls: int
    errors: int
    mean_ns: float | None
    max_ns: int | None
    disk: Json | None


def course(record: Record) -> list[Second]:
    """Each interval of a run; disks by the samples nearest to its ends."""
    groups: dict[int, list[Interval]] = defaultdict(list)
    for item in record.intervals:
        groups[item.start_ns].append(item)
    disks = disk_course(record)
    found = []
    for cost in rated_intervals(record, 0):
        items = groups.get(cost.start_ns, [])
        once = [i for i in items if i.measure == "service"]
        responses = [i for i in items if i.measure == "response"]
        calls = sum(i.requests for i in once)
        weighted = sum(i.mean_ns * i.requests for i in responses)
        found.append(
            Second(
                start_s=cost.start_ns / 1e9,
                length_s=(cost.end_ns - cost.start_ns) / 1e9,
                calls=calls,
                errors=sum(i.errors for i in once),
                mean_ns=weighted / calls if calls else None,
                max_ns=max((i.max_ns for i in responses), default=None),
                disk=_nearest(disks, cost.end_ns / 1e9),
            )
        )
    return found


def _nearest(disks: list[Json], at_s: float) -> Json | None:
    return next((d for d in disks if d["start_s"] < at_s <= d["end_s"]), None)


def disk_course(record: Record) -> list[Json]:
    """What the devices below the servers did between two samples: requests, bytes, queue, service and busy share."""
    devices = _target_devices(record)
    if not devices:
        return []
    series = [device["series"] for device in devices]
    length = min(len(columns["at_ns"]) for columns in series)
    found = []
    for i in range(1, length):
        start_ns, end_ns = series[0]["at_ns"][i - 1], series[0]["at_ns"][i]
        if end_ns > start_ns:
            deltas = [{k: c[k][i] - c[k][i - 1] for k in c if k not in ("at_ns", "in_flight")} for c in series]
            found.append({"start_s": start_ns / 1e9, "end_s": end_ns / 1e9, **_disk(deltas, end_ns - start_ns)})
    return found


def disk_total(record: Record) -> Json | None:
    """The same over the whole run."""
    deltas = [device["delta"] for device in _target_devices(record) if device.get("delta")]
    watched = dig_watch(record)
    if not deltas or not watched:
        return None
    return _disk(deltas, int(watched[0].get("duration_ns") or 0))


def dig_watch(record: Record) -> list[Json]:
    return [item for item in (record.info.watch or {}).get("targets", []) if item]


def _target_devices(record: Record) -> list[Json]:
    """The devices that the servers' file systems lie on, each once."""
    found: dict[str, Json] = {}
    for item in dig_watch(record):
        for number, device in (item.get("devices") or {}).items():
            if "target" in device["roles"]:
                found.setdefault(number, device)
    return list(found.values())


def _disk(deltas: list[dict[str, int]], span_ns: int) -> Json:
    total: Counter[str] = Counter()
    for delta in deltas:
        total.update({key: value for key, value in delta.items() if isinstance(value, int)})
    requests = total["read_requests"] + total["write_requests"]
    waited_ms = total["read_ms"] + total["write_ms"]
    seconds = max(span_ns, 1) / 1e9
    return {
        "reads_per_s": total["read_requests"] / seconds,
        "writes_per_s": total["write_requests"] / seconds,
        "read_bytes_per_s": total["read_bytes"] / seconds,
        "write_bytes_per_s": total["write_bytes"] / seconds,
        "queue": total["weighted_ms"] / 1e3 / seconds,
        "service_ns": waited_ms * 1e6 / requests if requests else None,
        "busy_share": min(total["busy_ms"] / 1e3 / seconds / max(len(deltas), 1), 1.0),
    }


DISK_COLUMNS = ["reads/s", "writes/s", "MiB/s read", "MiB/s written", "queue", "service", "busy"]


def disk_cells(disk: Json | None) -> list[str]:
    if disk is None:
        return [DASH] * len(DISK_COLUMNS)
    return [
        format_iops(disk["reads_per_s"]),
        format_iops(disk["writes_per_s"]),
        format_mib_per_s(disk["read_bytes_per_s"]),
        format_mib_per_s(disk["write_bytes_per_s"]),
        three_digits(disk["queue"]),
        format_ns(disk["service_ns"]),
        format_percent(disk["busy_share"]),
    ]


COURSE_COLUMNS = ["second", "calls/s", "mean", "max", "errors"]


def cold_rows(record: Record) -> list[list[str]]:
    """The first seconds one by one, and all that came after them."""
    seconds = course(record)
    first, rest = seconds[:COLD_S], seconds[COLD_S:]
    rows = [_second_row(f"{s.start_s:.0f} to {s.start_s + s.length_s:.3g}", [s]) for s in first]
    return [*rows, _second_row("all after", rest)] if rest else rows


def _second_row(name: str, seconds: list[Second]) -> list[str]:
    calls = sum(s.calls for s in seconds)
    length_s = sum(s.length_s for s in seconds)
    means = sum((s.mean_ns or 0) * s.calls for s in seconds)
    maxima = [s.max_ns for s in seconds if s.max_ns is not None]
    return [
        name,
        format_iops(calls / length_s) if length_s else DASH,
        format_ns(means / calls if calls else None),
        format_ns(max(maxima, default=None)),
        format_count(sum(s.errors for s in seconds)),
    ]


def error_rows(records: list[Record]) -> list[list[str]]:
    """Errors by SQLSTATE, the most frequent first."""
    counts: Counter[str] = Counter()
    for record in records:
        for end in record.events_of("phase_end"):
            counts.update(end.get("errors_by_errno") or {})
    return [[state, sqlstate_words(state), format_count(count)] for state, count in counts.most_common()]


def sqlstate_words(state: str) -> str:
    for length in (5, 3, 2):
        if words := SQLSTATES.get(state[:length]):
            return words
    return ""


def ends(record: Record) -> list[Json]:
    """What each driver said at its end."""
    return [item for end in record.events_of("phase_end") for item in dig_replay(end).get("drivers", [])]


def slowest(record: Record, count: int = 10) -> list[Json]:
    found = [{**call, "driver": end["driver"]} for end in ends(record) for call in end["slowest_calls"]]
    return sorted(found, key=lambda call: -int(call["response_ns"]))[:count]


SLOW_COLUMNS = ["at", "page", "parameters", "service", "response"]


def slow_rows(record: Record) -> list[list[str]]:
    return [
        [
            f"{call['at_ns'] / 1e9:.3f} s",
            stream_name(record, 0, call["stream"]),
            str(call["values"]),
            format_ns(call["service_ns"]),
            format_ns(call["response_ns"]),
        ]
        for call in slowest(record)
    ]


def torn_logs(record: Record) -> dict[str, str]:
    """Logs that could not be read to their end, and why."""
    told = [log for end in ends(record) for log in (end.get("logs") or {}).get("logs", [])]
    return {log["path"]: log["torn"] for log in told if log.get("torn")}


def issued_calls(record: Record) -> int:
    """Those that were answered, those that failed and those that were due and not sent."""
    unsent = sum(int(end.get("unsent") or 0) for end in record.events_of("phase_end"))
    return unsent + sum(int(end.get("calls") or 0) + int(end.get("errors") or 0) for end in ends(record))


LATE_COLUMNS = ["", "calls", "p50", "p99", "max"]


def late_rows(records: list[Record]) -> list[list[str]]:
    """How late calls went after their due instants, and how much of it each driver itself added (driver lag)."""
    measures = {"sent after due": "lateness", "of it driver lag": "driver_lag"}
    found = {name: _measured(records, measure) for name, measure in measures.items()}
    return [_late_row(name, late) for name, late in found.items() if late is not None]


def _measured(records: list[Record], measure: str) -> Latency | None:
    return latency_of(i for record in records for i in record.intervals if i.measure == measure)


def _late_row(name: str, found: Latency) -> list[str]:
    shown = [format_ns(found.percentiles.get(percentile)) for percentile in ("p50", "p99")]
    return [name, format_count(found.count), *shown, format_ns(found.max_ns)]


def late_document(records: list[Record]) -> Json:
    found = {}
    for measure in ("lateness", "driver_lag"):
        late = _measured(records, measure)
        if late is not None:
            percentiles = {f"{name}_ns": value for name, value in late.percentiles.items()}
            found[measure] = {"mean_ns": late.mean_ns, "max_ns": late.max_ns, **percentiles}
    return found


def log_counts(record: Record) -> Json:
    """What the logs held, over all drivers."""
    total: Counter[str] = Counter()
    paths: Counter[str] = Counter()
    for end in ends(record):
        told = end.get("logs") or {}
        total.update({k: told.get(k, 0) for k in ("lines", "requests", "calls", "bad_lines", "unmatched", "late")})
        total["unusable"] += sum(item["requests"] for item in told.get("unusable", []))
        paths.update({item["path"]: item["requests"] for item in told.get("unmatched_paths", [])})
    share = total["calls"] / total["requests"] if total["requests"] else None
    return {**total, "covered_share": share, "unmatched_paths": paths.most_common(5)}


def coverage_words(record: Record) -> str:
    found = log_counts(record)
    if not found.get("requests"):
        return ""
    text = f"{share_words(found['covered_share'])} of {format_count(found['requests'])} requests became calls"
    if found["bad_lines"]:
        text += f", {format_count(found['bad_lines'])} lines could not be read"
    if found["unusable"]:
        text += f", {format_count(found['unusable'])} lacked a usable parameter"
    if found["unmatched_paths"]:
        most = ", ".join(f"{path} ({format_count(count)})" for path, count in found["unmatched_paths"][:3])
        text += f"; not mapped: {most}"
    return text


def share_words(share: float | None) -> str:
    """A coverage of 99.96 % is not all."""
    if share is None:
        return DASH
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


def replay_warnings(record: Record) -> list[Json]:
    """What must be known before believing a replay's figures."""
    found: list[Json] = []

    def warn(identifier: str, text: str, remedy: str, severity: str = "warning") -> None:
        found.append({"id": identifier, "severity": severity, "text": text, "remedy": remedy})

    if any("calls" in end for end in ends(record)) and not issued_calls(record):
        warn("no_calls", "No call was made: this run measured nothing.", "See --explain, --from and --until.")
    for place, why in torn_logs(record).items():
        text = f"{place} is torn: {why}; what came before was replayed."
        warn("torn_log", text, "Copy or compress the log again: its end is missing.")
    for end in ends(record):
        name = f"Driver {end['driver'] + 1}"
        lag = end.get("driver_lag")
        if lag and not end["keeps_pace"]:
            text = f"{name} did not keep its pace: by itself it was {format_ns(lag['p99_ns'])} late (p99)."
            warn("driver_pace", text, "Use more drivers, or a host with idle processors.")
        if end["starved_share"] > 0.1:
            text = f"{name} waited {format_percent(end['starved_share'])} of the time for its log to be read."
            warn("driver_log", text, "Decompress the log first, or use more drivers.")
        if sum(end["lost_connections"]):
            lost, again = sum(end["lost_connections"]), sum(end["reconnects"])
            text = f"{name} lost {format_count(lost)} connections and made {format_count(again)} again."
            warn("lost_connections", text, "See the server's log for why.")
        if end["diverged"]:
            pages_told = ", ".join(f"{page}: {format_count(n)}" for page, n in end["diverged_pages"].items())
            text = f"{name} got another number of rows than expected in {format_count(end['diverged'])} calls"
            warn("divergence", f"{text} ({pages_told}).", "Check that the database holds what the log asks for.")
    found += _site_warnings(record)
    return found


def _down_warning(record: Record, number: int, target: Json) -> list[Json]:
    """A database that was down at the beginning, or for longer than a blink."""
    down_s = away_s([record], number)
    if target.get("unreachable"):
        text = f"{target['path']} could not be reached when the run began: {target['unreachable']}."
    elif down_s >= BLINK_S:
        text = f"{target['path']} could not be reached for {format_seconds(down_s)} of the run."
    else:
        return []
    remedy = "Its rate counts the time in which it served; its calls meanwhile failed, or waited for the only database."
    return [{"id": "brick_down", "severity": "warning", "text": text, "remedy": remedy}]


def _site_warnings(record: Record) -> list[Json]:
    found: list[Json] = []
    for number, target in enumerate(record.info.engine.get("targets", [])):
        found += _down_warning(record, number, target)
        link = target.get("link")
        speed = (link or {}).get("megabit_per_s")
        if not speed:
            continue
        rate = max((_bytes_per_s(event) for event in record.events_of("drivers")), default=0.0) * 8 / 1e6
        if rate > LINK_SHARE_MAX * speed:
            text = f"The drivers' network was full: {rate:,.0f} Mbit/s of results over {link['device']} of {speed:,}."
            remedy = "Drive from other hosts, or over a faster network: the databases may carry more."
            found.append({"id": "driver_network", "severity": "warning", "text": text, "remedy": remedy})
    covered = log_counts(record)["covered_share"]
    if covered is not None and covered < 0.9:
        text = f"Only {share_words(covered)} of the requests became calls."
        remedy = "See the most frequent others with --explain, and add them to the mapping."
        found.append({"id": "coverage", "severity": "warning", "text": text, "remedy": remedy})
    return found


def _bytes_per_s(event: Json) -> float:
    span_ns = max(int(event["end_ns"]) - int(event["start_ns"]), 1)
    # A stub of an interval says little.
    return sum(d["bytes"] for d in event["drivers"]) / span_ns * 1e9 if span_ns > 0.5e9 else 0.0


def factor_words(factor: float) -> str:
    """As the study put it, "400 % of"; beyond a hundred times per cent are hard to read."""
    return f"{format_percent(factor)} of" if factor < 100 else f"{factor:,.0f} times"


def verdict_lines(records: list[Record], limit: Limit | None = None) -> list[str]:
    lines = []
    room = head_room(records)
    if room is not None:
        lines += head_room_lines(room)
    found = within(records, limit)
    if found and limit:
        said = f"{limit.figure} response within {format_ns(limit.above_ns)}"
        best, broken, unmeasured = (found[f"{key}_per_s"] for key in ("rate", "broken_at", "unmeasured_at"))
        if unmeasured:
            few = f"not measured: too few calls for {limit.figure} at {format_iops(unmeasured)} calls/s"
            lines.append(f"{said}: up to {format_iops(best)} calls/s; beyond {few}." if best else f"{said}: {few}.")
        elif best is None:
            lines.append(f"{said}: at no rate that was offered.")
        else:
            end = f"; no longer at {format_iops(broken)}" if broken else ""
            lines.append(f"{said}: up to {format_iops(best)} calls/s{end}.")
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
        of = f"the piece of the log that was replayed (its first{span.removeprefix(' over')}: {normal})"
    fire = f"{format_iops(room.fire_hose_per_s)} calls/s as fast as possible"
    if room.is_judged:
        return [f"Head room: the databases can serve {factor_words(room.factor)} {of}; {fire}."]
    length = f"{format_seconds(room.fire_hose_s)} and {format_count(room.fire_hose_calls)} calls"
    return [
        f"Head room: too short to judge: {fire} lasted {length}, of at least {JUDGED_S:.0f} s and"
        f" {format_count(JUDGED_CALLS)} calls; use a longer log, or --again with --duration. By this it would be"
        f" {factor_words(room.factor)} {of}."
    ]


def replay_document(records: list[Record], limit: Limit | None = None) -> Json:
    """What belongs to all runs of one command."""
    room = head_room(records)
    return {
        "paces": {
            name: {
                "runs": [record.info.id for record in group],
                "calls_per_s": calls_per_s(group),
                "driver_calls_per_s": [rate for _, rate in sorted(driver_rates(group).items())],
                "pages": [page_document(item) for item in pages(group)],
                "bricks": [page_document(item) for item in bricks(group)],
                "errors_by_sqlstate": {state: int(count.replace(",", "")) for state, _, count in error_rows(group)},
                "late": late_document(group),
                "disk": disk_total(group[0]),
                "logs": log_counts(group[0]),
            }
            for name, group in by_pace(records).items()
        },
        "head_room": None if room is None else room.document(),
        "limit": within(records, limit),
    }


def page_document(item: PageFigures) -> dict[str, Any]:
    shown = item.response
    percentiles = {f"{name}_ns": value for name, value in shown.percentiles.items()} if shown else {}
    return {
        "page": item.page,
        "calls": item.calls,
        "calls_per_s": item.per_s,
        "errors": item.errors,
        "rows": item.rows,
        "bytes": item.bytes,
        "diverged": item.diverged,
        "response": {"mean_ns": shown.mean_ns, "max_ns": shown.max_ns, "p95_ns": item.p95_ns, **percentiles}
        if shown
        else None,
        "mean_of_max_ns": item.mean_of_max_ns,
        "away_s": item.away_s,
        "first_byte_mean_ns": item.first_byte_ns,
        "last_byte_mean_ns": item.last_byte_ns,
    }
