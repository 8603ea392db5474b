"""Duty: a load curve in words and rows, alike for the terminal and the page, out of the runs of its study.

Refusal: no figure that `analysis.figures.load_curve` did not give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.latency import FEW_EVENTS, FEW_EVENTS_WORDS
from brickyard.analysis.figures.load_curve import (
    BEND_SHARE,
    CAPACITY,
    WITHIN,
    Bend,
    CurvePoint,
    Knee,
    Limit,
    Mark,
    capacity,
    knee,
    knee_mark,
    most_achieved,
    open_below_closed,
    rate_mark,
    usable,
)
from brickyard.analysis.figures.search import (
    GROWN,
    Step,
    rates,
)
from brickyard.analysis.figures.sending import UNSENT_SHARE_MAX, sent
from brickyard.analysis.judging import summary
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.groups import target_words
from brickyard.analysis.studies.curve_limit import AGAIN, CUT, VARIED, capital, is_known, limit_line, step_time
from brickyard.analysis.studies.curves import Curve, is_of_search
from brickyard.analysis.studies.sustained import of_model
from brickyard.percentiles import MEDIAN_AND_P99, PERCENTILE_NAMES
from brickyard.schema.operations import commits, reads_data
from brickyard.schema.plan import Plan
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_ns, format_percent, format_seconds, three_digits

RATES = ("of closed loop", "offered/s", "achieved/s")
COUNTS = ("unsent", "errors", "")
UNSENT, GREW = "overloaded: requests were left unsent", "overloaded: the queue grew"
"""Although no less was done than offered."""
FURTHER = 4  # times the highest rate that was offered, as a proposal where it did not saturate


def curve_circumstances(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Those of the curve's own runs; the lines of the profile and the generator count the steps of searches as well."""
    curve = [record for record in records if not is_of_search(record)] or list(records)
    lines = summary.circumstances(curve)
    if len(records) == 1:
        return lines
    closed = sum(run_name(record) == "closed loop" for record in curve)
    steps = len(records) - len(curve)
    counted = [
        (closed, "closed loop", "closed loops"),
        (len(curve) - closed, "level", "levels"),
        (steps, "step of searches", "steps of searches"),
    ]
    words = ", ".join(f"{number} {many if number > 1 else one}" for number, one, many in counted if number)
    said = f"{curve[0].info.profile}: {words}"
    of_all = [(label, text) for label, text in summary.circumstances(list(records)) if label == "Generator"]
    instead = dict([("Profile", said), *of_all])
    return [(label, instead.get(label, text)) for label, text in lines]


def run_name(record: Record) -> str:
    """Of a run in pictures: by its rate where it is one of a load curve."""
    marks = record.info.marks
    if marks.offered_per_s is not None:
        return f"{format_iops(marks.offered_per_s)}/s"
    if marks.loop == "closed":
        return "closed loop"
    return f"run {record.info.id}"


def run_names(records: Sequence[Record], name: Callable[[Record], str] = run_name) -> dict[int, str]:
    """Of the runs of one picture, with their conditions where these differ."""
    several = len({record.info.condition for record in records}) > 1
    of = {r.info.id: f" ({r.info.condition.replace('_', ' ')})" if several else "" for r in records}
    return {record.info.id: f"{name(record)}{of[record.info.id]}" for record in records}


def curve_answer(curve: Curve, records: Sequence[Record], notes: Sequence[str] = ()) -> Answer:
    """`notes` are those of the study."""
    if records:
        curve = replace(curve, noun=sent(records[0]).noun, model=of_model(records[0]))
    first, *rest = found_lines(curve)
    limits = [f"{capital(line)}." for line in (*notes, first)]
    said = tuple(f"{capital(line)}." for line in rest)
    return Answer(_question(records), said, belief(records, *limits))


def _question(records: Sequence[Record]) -> str:
    if not records:
        return "How much load does the target sustain, and with what response time?"
    info = records[0].info
    state = "" if info.condition == "normal" else f" ({info.condition.replace('_', ' ')})"
    return f"How much of {info.load} does {target_words(records)}{state} sustain, and with what response time?"


def curve_columns(limit: Limit | None) -> list[tuple[str, str]]:
    """Names, and what stands above each."""
    times = ("mean", *_percentiles(limit), "max")
    return [*((name, "") for name in RATES), *((name, "response time") for name in times), *((n, "") for n in COUNTS)]


def _percentiles(limit: Limit | None) -> list[str]:
    """Those of the table: the limited one is among them."""
    wanted = {*MEDIAN_AND_P99, *([limit.figure] if limit else [])}
    return [name for name in PERCENTILE_NAMES if name in wanted]


def curve_row(point: CurvePoint, maximum_per_s: float, limit: Limit | None = None) -> list[str]:
    """One cell for each of `curve_columns`."""
    return [
        format_percent(point.offered_per_s / maximum_per_s),
        format_iops(point.offered_per_s),
        achieved_words(point),
        format_ns(point.mean_ns),
        *(point.percentile_text(name) for name in _percentiles(limit)),
        format_ns(point.max_ns),
        format_count(point.unsent),
        format_count(point.errors),
        "" if not point.overloaded else "overloaded" if point.saturated else GREW if point.backlog_grew else UNSENT,
    ]


def achieved_words(point: CurvePoint) -> str:
    """Arrivals are random: what was achieved may be above what was offered, by chance."""
    if point.overloaded or point.chance is None:
        return format_iops(point.achieved_per_s)
    return f"{format_iops(point.achieved_per_s)} ± {format_percent(point.chance)}"


def curve_notes(records: Sequence[Record], rows: list[list[str]], curve: Curve) -> list[str]:
    """What the times are of, where that is more than one request each, what the signs mean that are there, and whose
    response times are those of a queue."""
    plans = [record.info.plan for record in records if isinstance(record.info.plan, Plan)]
    streams = [stream for plan in plans[:1] for phase in plan.phase for stream in phase.stream]
    said = []
    reads = "reads and " if any(map(reads_data, streams)) else ""
    if any(map(commits, streams)):
        said.append(f"response times are of {reads}commits, a write and its flush each")
    elif any(stream.flush_every for stream in streams):
        each = reads.replace(" and", ",")
        said.append(f"rates are of {reads}writes, response times of {each}writes and flushes alike")
    if any(DASH in row for row in rows):
        said.append(f"{DASH}: fewer than ten requests lie beyond the percentile")
    said_of_few = any(FEW_EVENTS in line for line in found_lines(curve))
    if said_of_few or any(point.is_marked(name) for point in curve.points for name in _percentiles(curve.limit)):
        said.append(FEW_EVENTS_WORDS)
    if any("±" in row[RATES.index("achieved/s")] for row in rows):
        said.append("±: two standard deviations of the number of random (Poisson) arrivals in the measured time")
    return [*said, *(_backlog_words(point, curve) for point in curve.points if point.began_with_backlog)]


def _backlog_words(point: CurvePoint, curve: Curve) -> str:
    share = format_percent(point.offered_per_s / curve.maximum_per_s)
    measured, warmup = (format_seconds(time_ns / 1e9) for time_ns in (point.measured_ns, point.warmup_ns))
    return (
        f"{share}: the {measured} that were measured began with a backlog from the warm-up of {warmup}, so response "
        "times are the wait in that queue and grow with the length of the run"
    )


def found_lines(curve: Curve) -> list[str]:
    lines = [
        f"closed loop at the profile's depth: {format_iops(curve.maximum_per_s)}/s. Percentages are of this rate, "
        "which may be below the capacity"
    ]
    most = capacity(curve.points, curve.maximum_per_s, curve.steps)
    if (reached := open_below_closed(curve.points, curve.maximum_per_s, curve.steps)) is not None:
        lines.append(
            f"capacity: not known. The closed loop achieved {format_iops(curve.maximum_per_s)}/s, but open loops only "
            f"{format_iops(reached)}/s, with requests left unsent: the target's performance varied, or the generator "
            "lacked CPU. Measure again when nothing else runs"
        )
    elif most:
        offered = most_achieved(curve.points, curve.steps)
        by = "the highest rate that was achieved"
        if offered < most:
            by = f"as achieved in the closed loop. Open loops achieved up to {format_iops(offered)}/s"
        lines.append(f"capacity: about {format_iops(most)}/s, {by}")
    elif sound := [point for point in curve.points if not point.overloaded]:
        last = max(sound, key=lambda point: point.offered_per_s)
        best = _best_kept_up(curve)
        rate, figure, time = last.offered_per_s, "mean", format_ns(last.mean_ns)
        # A disk may be slower where a stream comes to later, and caches fill: longer than that is not known.
        lasted = f" for {format_seconds(last.measured_ns / 1e9)}" if last.measured_ns else ""
        if curve.limit and best is not None and best.rate_per_s > rate:
            rate, figure, time, lasted = best.rate_per_s, curve.limit.figure, step_time(best), ""
        kept = (
            f"the target kept up with at least {format_iops(rate)}/s{lasted}, with a {figure} response time of {time}"
        )
        growth = _growth_words(last) if lasted else ""
        lines.append(_beyond_words(curve, rate) or f"{kept}{growth}{_overload_words(curve, rate)}")
    bent = knee(curve.points)
    if curve.is_cut and bent.point is None:
        lines.append("knee: not known")
    else:
        lines.append(f"knee: {knee_words(bent, lowest_overload(curve), _best_kept_up(curve))}")
    if curve.limit:
        lines.insert(1, limit_line(curve, curve.limit))  # it was asked for, so it is the answer
    if curve.is_cut:
        tried = [*(point.offered_per_s for point in curve.points), *(step.rate_per_s for step in curve.steps)]
        highest = max(tried, default=0.0)
        known = f"of rates above {format_iops(highest)}/s nothing is known" if highest else "no rate was measured"
        lines.insert(1, f"{CUT}: {known}")
    return lines


def curve_marks(curve: Curve) -> list[Mark]:
    """What `found_lines` says, as places on the axis of the offered rate: the rate within the limit, knee, capacity."""
    marks = []
    if curve.limit and is_known(curve, curve.limit):
        if (found := rates(curve.searches)) is not None:
            marks.append(rate_mark(WITHIN, found.centre, found.low, found.high))
        elif (best := usable(curve.points, curve.limit)[0]) is not None:
            marks.append(rate_mark(WITHIN, best.offered_per_s))
    marks += knee_mark(knee(curve.points))
    most = capacity(curve.points, curve.maximum_per_s, curve.steps)
    return [*marks, rate_mark(CAPACITY, most)] if most else marks


def lowest_overload(curve: Curve) -> float | None:
    """The lowest rate at which a step of a search overloaded the target."""
    return min((step.rate_per_s for step in curve.steps if not step.kept_up), default=None)


def _best_kept_up(curve: Curve) -> Step | None:
    """The step of a search with the highest rate that did not overload the target, below all that did."""
    lowest = lowest_overload(curve) or math.inf
    kept = (step for step in curve.steps if step.kept_up and step.value_ns is not None and step.rate_per_s < lowest)
    return max(kept, key=lambda step: step.rate_per_s, default=None)


def _beyond_words(curve: Curve, rate_per_s: float) -> str:
    """A short step may keep up, as far as that is judged, with a little more than what others achieved that did not."""
    most = max((step.achieved_per_s for step in curve.steps if not step.kept_up), default=0.0)
    if not rate_per_s * (1 - 2 * UNSENT_SHARE_MAX) <= most < rate_per_s:
        return ""
    return (
        f"the target keeps up with about {format_iops(most)}/s, which steps of searches achieved that overloaded it. A "
        f"step at {format_iops(rate_per_s)}/s kept up too, perhaps only because it was short"
    )


def _growth_words(point: CurvePoint) -> str:
    if point.growth is None or point.growth <= GROWN:
        return ""
    return f" ({three_digits(point.growth)} times as long in the second half as in the first: the queue may be growing)"


def _overload_words(curve: Curve, kept_per_s: float) -> str:
    lowest = lowest_overload(curve)
    if lowest is None:
        return ""
    said = f"a search overloaded it at {format_iops(lowest)}/s"
    return f". But {said}: {VARIED}. {AGAIN}" if lowest < kept_per_s else f"; {said}"


def knee_words(found: Knee, overload_per_s: float | None = None, step: Step | None = None) -> str:
    """`overload_per_s`: a rate beyond the levels that overloaded the target; `step`: one that did not."""
    return f"{_bend_words(found, overload_per_s, step)}{_slower_words(found)}"


def _bend_words(found: Knee, overload_per_s: float | None, step: Step | None) -> str:
    if found.point:
        return (
            f"{format_iops(found.point.offered_per_s)}/s, with a mean response time of "
            f"{format_ns(found.point.mean_ns)}. There, rate divided by mean response time (Kleinrock's power) is "
            f"greatest{_near_words(found)}"
        )
    if found.bend is Bend.TOO_FEW or found.end is None:
        return "none, since fewer than three of the rates did not overload the target"
    if found.bend is Bend.BELOW:
        return "at or below the lowest offered rate. Offer lower rates with --levels"
    if overload_per_s is not None and overload_per_s > found.end.offered_per_s:
        return (
            f"between {format_iops(found.end.offered_per_s)}/s, the highest level, and "
            f"{format_iops(overload_per_s)}/s, where a search overloaded the target. "
            f"--max-rate {math.ceil(overload_per_s)} adds the levels between"
        )
    most = max(found.end.offered_per_s, step.rate_per_s if step else 0.0)
    return (
        f"not reached. The target was not overloaded up to {format_iops(most)}/s, where the search "
        f"ended before saturation. Continue with --max-rate {math.ceil(FURTHER * most)}"
    )


def _slower_words(found: Knee) -> str:
    if found.unexplained is None:
        return ""
    slow, fast = (f"{format_ns(one.mean_ns)} at {format_iops(one.offered_per_s)}/s" for one in found.unexplained)
    return f". But the mean response time was {slow} and only {fast}, which load does not explain: measure again"


def _near_words(found: Knee) -> str:
    if len(found.near) < 2:
        return ""
    low, high = (format_iops(point.offered_per_s) for point in (found.near[0], found.near[-1]))
    return f"; at the levels from {low} to {high}/s, this power is at most {format_percent(BEND_SHARE)} smaller"
