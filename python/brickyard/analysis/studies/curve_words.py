"""Duty: a load curve in words and rows, alike for the terminal and the page, out of the runs of its study.

Refusal: no figure that `analysis.figures.load_curve` did not give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from brickyard import _core
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
    curve_point,
    knee,
    knee_mark,
    most_achieved,
    open_below_closed,
    rate_mark,
    step_of,
    stream_rates,
    usable,
)
from brickyard.analysis.figures.search import (
    GROWN,
    OWN,
    SEARCHES,
    Carried,
    Step,
    carried,
    enough,
    fewest,
    growing,
    rates,
)
from brickyard.analysis.figures.sending import UNSENT_SHARE_MAX, sent
from brickyard.analysis.judging import summary
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.groups import target_words
from brickyard.analysis.studies.sustained import Sustained, is_wide, of_model, sustained_words
from brickyard.bricks.spread import spread_of
from brickyard.percentiles import MEDIAN_AND_P99, PERCENTILE_NAMES
from brickyard.schema.operations import commits, reads_data
from brickyard.schema.plan import Plan
from brickyard.store import Record, StudyInfo
from brickyard.units import format_count, format_iops, format_ns, format_percent, format_seconds, three_digits

RATES = ("of closed loop", "offered/s", "achieved/s")
COUNTS = ("unsent", "errors", "")
UNSENT, GREW = "overloaded: requests were left unsent", "overloaded: the queue grew"
"""Although no less was done than offered."""
SEARCHED_NEAR = 0.1
"""Levels this near to what searches found may keep a limit by chance."""
FAR_ABOVE, FAR_SLOWER = 1.5, 2.0
"""A rate so many times another has times at least as long; where they are so many times shorter, it is no chance."""
FURTHER = 4  # times the highest rate that was offered, as a proposal where it did not saturate


@dataclass(frozen=True)
class Curve:
    maximum_per_s: float
    """What the closed loop reached, from which the offered rates were taken."""
    points: list[CurvePoint]
    limit: Limit | None = None
    searches: list[Carried] = field(default_factory=list)
    is_cut: bool = False
    """It was interrupted or failed: rates that it would have offered were not."""
    noun: str = "requests"
    model: tuple[str, float | None] | None = None
    """As `of_model` has it."""

    @property
    def sustained(self) -> Sustained:
        kind, cap_per_s = self.model or (None, None)
        spread = spread_of(kind) if kind else None
        found = rates(self.searches)
        return Sustained("", found, self.maximum_per_s, False, spread, kind, cap_per_s, noun=self.noun)

    @property
    def steps(self) -> list[Step]:
        return [step for found in self.searches for step in found.steps]


def curve_of(study: StudyInfo | None, records: Sequence[Record]) -> Curve | None:
    """The curve whose runs these are; None where they are none, or too few to draw one."""
    closed = [record for record in records if record.info.marks.loop == "closed"]
    if study is None or study.kept.curve is None or len(closed) != 1:
        return None
    maximum = sum(stream_rates(closed[0]).values())
    points = [
        curve_point(record, offered)
        for record in records
        if record.info.is_valid and (offered := record.info.marks.offered_per_s) is not None
    ]
    points.sort(key=lambda point: point.offered_per_s)
    limit = limit_of(study)
    if not any(point.mean_ns for point in points):
        return None
    searches = searches_of(records, limit) if limit else []
    return Curve(maximum, points, limit, searches, is_cut=study.outcome != "done")


def searches_of(records: Sequence[Record], limit: Limit) -> list[Carried]:
    """The searches whose steps are among these runs."""
    steps: dict[int, list[Step]] = {}
    for record in records:
        number, rate = record.info.marks.search, record.info.marks.searched_per_s
        if number is not None and rate is not None and record.info.is_valid:
            steps.setdefault(number, []).append(step_of(curve_point(record, rate), limit))
    return [carried(found) for _, found in sorted(steps.items())]


def is_of_search(record: Record) -> bool:
    """Whether a run is a step of a search for a limit, and no level of the curve."""
    return record.info.marks.searched_per_s is not None


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


def limit_of(study: StudyInfo) -> Limit | None:
    curve = study.kept.curve
    if curve is None or not curve.limit:
        return None
    figure, _, above = curve.limit.partition(":")
    return Limit(figure, _core.parse_duration_ns(above))


def curve_answer(curve: Curve, records: Sequence[Record], notes: Sequence[str] = ()) -> Answer:
    """`notes` are those of the study."""
    if records:
        curve = replace(curve, noun=sent(records[0]).noun, model=of_model(records[0]))
    first, *rest = found_lines(curve)
    limits = [f"{_capital(line)}." for line in (*notes, first)]
    said = tuple(f"{_capital(line)}." for line in rest)
    return Answer(_question(records), said, belief(records, *limits))


def _question(records: Sequence[Record]) -> str:
    if not records:
        return "How much load does the target sustain, and with what response time?"
    info = records[0].info
    state = "" if info.condition == "normal" else f" ({info.condition.replace('_', ' ')})"
    return f"How much of {info.load} does {target_words(records)}{state} sustain, and with what response time?"


def _capital(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}"


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
            rate, figure, time, lasted = best.rate_per_s, curve.limit.figure, _step_time(best), ""
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
        lines.insert(1, f"the measurement did not end: {known}")
    return lines


def curve_marks(curve: Curve) -> list[Mark]:
    """What `found_lines` says, as places on the axis of the offered rate: the rate within the limit, knee, capacity."""
    marks = []
    if curve.limit and is_kept(curve, curve.limit) and not curve.is_cut:
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


VARIED = "the target's performance varied over time. Measure again when nothing else runs"


def _overload_words(curve: Curve, kept_per_s: float) -> str:
    lowest = lowest_overload(curve)
    if lowest is None:
        return ""
    said = f"a search overloaded it at {format_iops(lowest)}/s"
    return f". But {said}: {VARIED}" if lowest < kept_per_s else f"; {said}"


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


def limit_line(curve: Curve, limit: Limit) -> str:
    head = f"{limit.figure} response time within {format_ns(limit.above_ns)}"
    if contradiction := _kept_by_levels_alone(curve, limit) or _broken_while_cut(curve, limit):
        return f"{head}: {contradiction}"
    line = f"{head}: {_within_words(curve, limit)}"
    if not curve.is_cut and not is_kept(curve, limit) and not any(found.best for found in curve.searches):
        return f"{line}{_lowest_words(curve, limit)}"  # longer runs would not keep it either
    if contradiction := _out_of_order(curve, limit) or _broken_below(curve, limit) or _kept_above(curve, limit):
        return f"{line}{contradiction}"
    if curve.searches and (grew := growing_words(curve.searches)):
        line += f". {_capital(grew)}: use a longer --each"
    few = fewest(curve.searches, limit.figure) if curve.searches else _few_of_best(curve, limit)
    return line if few is None else f"{line}. {_capital(search_words(few, limit.figure))}: use a longer --each"


def _kept_by_levels_alone(curve: Curve, limit: Limit) -> str:
    """Where levels kept the limit, and searches later found no rate that does: the two contradict each other."""
    kept = [step for point in curve.points if (step := step_of(point, limit)).holds]
    if curve.is_cut or not curve.searches or not kept or any(found.best for found in curve.searches):
        return ""
    most = max(kept, key=lambda step: step.rate_per_s)
    return (
        f"not known. The searches found no rate that keeps it{_lowest_words(curve, limit)}. But the level of "
        f"{format_iops(most.rate_per_s)}/s kept it, with {_step_time(most)}: {VARIED}"
    )


def _broken_while_cut(curve: Curve, limit: Limit) -> str:
    """Where a search that did not end broke the limit at or below a rate that kept it: "at least" would be false."""
    steps = [*curve.steps, *(step_of(point, limit) for point in curve.points)]
    kept = max((step for step in steps if step.holds), key=lambda step: step.rate_per_s, default=None)
    if not curve.is_cut or kept is None:
        return ""
    broke = [step for step in steps if not step.holds and step.value_ns and step.rate_per_s <= kept.rate_per_s]
    if not broke:
        return ""
    worst = max(broke, key=lambda step: step.value_ns or 0)
    return (
        f"not known. The measurement did not end. It was {_step_time(kept)} at {format_iops(kept.rate_per_s)}/s, but "
        f"{_step_time(worst)} at {format_iops(worst.rate_per_s)}/s: {VARIED}"
    )


def _out_of_order(curve: Curve, limit: Limit) -> str:
    """Two rates of which the lower one broke the limit, with times far above those of the higher one: they do not
    follow the rate, so that a search finds whatever was there. The longest time of all is of one request."""
    steps = [*curve.steps, *(step_of(point, limit) for point in curve.points)]
    known = [(step, step.value_ns) for step in steps if step.kept_up and step.value_ns is not None]
    pairs = [
        (value / other, step, higher)
        for step, value in known
        if not step.holds
        for higher, other in known
        if higher.rate_per_s >= FAR_ABOVE * step.rate_per_s and value >= FAR_SLOWER * other
    ]
    if not pairs or limit.figure == "max":
        return ""
    _, low, high = max(pairs, key=lambda pair: pair[0])
    return (
        f". But it was {_step_time(low)} at {format_iops(low.rate_per_s)}/s, and {_step_time(high)} at "
        f"{format_iops(high.rate_per_s)}/s: how much load keeps the limit is not known, since {VARIED}"
    )


def _broken_below(curve: Curve, limit: Limit) -> str:
    """Levels below the rate that the searches found that broke the limit: the two contradict each other."""
    found = rates(curve.searches) if curve.searches else None
    if found is None:
        return ""
    steps = [(point, step_of(point, limit)) for point in curve.points if point.offered_per_s < found.centre]
    broke = [step for _, step in steps if not step.holds and step.value_ns is not None]
    if not broke:
        return ""
    worst = max(broke, key=lambda step: step.value_ns or 0)
    count = f"{len(broke)} lower levels" if len(broke) > 1 else "a lower level"
    return f". But {count} broke it, with {_step_time(worst)} at {format_iops(worst.rate_per_s)}/s: {VARIED}"


def _kept_above(curve: Curve, limit: Limit) -> str:
    """A level well above the rate that the searches found that kept the limit: they broke it for another cause."""
    found = rates(curve.searches) if curve.searches else None
    if found is None:
        return ""
    beyond = max(found.high or found.centre, found.centre) * (1 + SEARCHED_NEAR)
    kept = [step for point in curve.points if (step := step_of(point, limit)).holds and step.rate_per_s > beyond]
    if not kept:
        return ""
    most = max(kept, key=lambda step: step.rate_per_s)
    return f". But the level of {format_iops(most.rate_per_s)}/s kept it, with {_step_time(most)}: {VARIED}"


def is_kept(curve: Curve, limit: Limit) -> bool:
    """Whether a rate is known that keeps the limit: found by every search where there are any."""
    if curve.searches:
        found = rates(curve.searches)
        return found is not None and not is_wide(found)
    return usable(curve.points, limit)[0] is not None


def _lowest_words(curve: Curve, limit: Limit) -> str:
    """What the lowest rate had; with few requests there is no percentile, and the next rate that has one is named."""
    steps = [*curve.steps, *(step_of(p, limit) for p in curve.points)]
    known = [(step.rate_per_s, step.value_ns, step) for step in steps if step.value_ns is not None]
    if not known:
        return ""
    rate, _, lowest = min(known, key=lambda one: one[:2])
    return f"; at {format_iops(rate)}/s it is {_step_time(lowest)}"


def _step_time(step: Step) -> str:
    """The limited figure, with the mark that a table of it would have."""
    return format_ns(step.value_ns) + (FEW_EVENTS if step.is_of_few_events else "")


def _few_of_best(curve: Curve, limit: Limit) -> int | None:
    """Requests of the rate that the answer rests on, where they are too few."""
    best, _ = usable(curve.points, limit)
    return best.requests if best and best.requests < enough(limit.figure) else None


def growing_words(found: Sequence[Carried]) -> str:
    """That an answer may rest on queues that the end of a step kept short; empty where it does not."""
    count = growing(found)
    if not count:
        return ""
    return (
        f"in {count} of {len(found)} searches, response times more than doubled within the step that the answer rests "
        "on, as those of a queue that grows, so longer steps may find a lower rate"
    )


def search_words(few: int, figure: str) -> str:
    return (
        f"the smallest step has {format_count(few)} requests; with fewer than {format_count(enough(figure))} for the "
        f"{figure}, a search finds a rate that is too high"
    )


def _cut_words(curve: Curve, limit: Limit) -> str:
    """A search that did not end knows no highest rate."""
    steps = [*curve.steps, *(step_of(point, limit) for point in curve.points)]
    kept = max((step.rate_per_s for step in steps if step.holds), default=None)
    if kept is None:
        return f"at no rate that was measured{_lowest_words(curve, limit)}"
    return f"at least {format_iops(kept)}/s, the highest measured rate that kept it"


def _within_words(curve: Curve, limit: Limit) -> str:
    if curve.is_cut:
        return _cut_words(curve, limit)
    if not curve.searches:
        best, worst = usable(curve.points, limit)
        if best is None:
            return "at no measured rate"
        rate = format_iops(best.offered_per_s)
        return f"up to {rate}/s; not at {format_iops(worst.offered_per_s)}" if worst else f"at least {rate}/s; {KEPT}"
    each = [format_iops(rate) for rate in sorted(found.best.rate_per_s for found in curve.searches if found.best)]
    found = rates(curve.searches)
    if found is None:
        count = len(curve.searches)
        most = f" in {count - len(each)} of {count} searches; otherwise up to {', '.join(each)}/s" if each else ""
        return f"at no measured rate{most}"
    is_broken = bool(_broken_below(curve, limit))
    end = (
        _at_capacity(curve.steps, is_broken_below=is_broken)
        if all(_ends_at_capacity(one) for one in curve.searches)
        else ""
    )
    said = sustained_words(curve.sustained, found)
    if len(each) < 2:
        return f"{said}{end}. A single search gives no interval: use --searches {SEARCHES}"
    return f"{said}. The {len(each)} searches, {OWN}, found {', '.join(each[:-1])} and {each[-1]}{end}"


def _ends_at_capacity(found: Carried) -> bool:
    """Whether every rate that did not hold overloaded the target, so that the limit itself was never broken."""
    beyond = [step for step in found.steps if not step.holds]
    return bool(beyond) and not any(step.kept_up for step in beyond)


def _at_capacity(steps: Sequence[Step], *, is_broken_below: bool) -> str:
    """What lies on either side of the rate that was found, unless the steps contradict each other."""
    over = min(step.rate_per_s for step in steps if not step.kept_up)
    kept = max(step.rate_per_s for step in steps if step.holds)
    if kept <= over * (1 + SEARCHED_NEAR):
        return FULL_FROM if is_broken_below else f"{FULL_FROM}; below, it kept the limit"
    return f". But {format_iops(over)}/s overloaded the target, and {format_iops(kept)}/s kept the limit: {VARIED}"


FULL_FROM = ". From about this rate on, the target is overloaded"
KEPT = "the target kept the limit at every offered rate: raise --max-rate"
