"""Duty: what a ramp found at each of its steps. Refusal: a phase without a ramp has no steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from brickyard import _core
from brickyard.analysis.figures import cells
from brickyard.analysis.figures.latency import Latency, latency_of
from brickyard.analysis.figures.load_curve import WITHIN, CurvePoint, Limit, Mark
from brickyard.analysis.figures.totals import phase_name, profile_phase, waited
from brickyard.percentiles import MEDIAN_AND_P99, is_percentile, least_count, percentile_of
from brickyard.schema import Document, Knob, KnobEvent, RampEnd, RampStep, in_rate, is_request
from brickyard.schema.plan import Limit as RampLimit
from brickyard.schema.plan import LimitFigure, TimeKind
from brickyard.store import IntervalCost, Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, three_digits

COLUMNS = ("knob", "value", "IOPS", "MiB/s", "mean", *MEDIAN_AND_P99, "errors", "judged", "limit")
KNOBS = {"depth": "depth", "workers": "workers", "rate_per_s": "rate", "load_percent": "load"}


@dataclass(frozen=True)
class Step:
    """All intervals of a phase that had the same value of its knob. Response times are of every single request; what
    the ramp judged, which may be whole chains, one operation or service times, is in `judged`."""

    phase: int
    phase_name: str
    knob: str
    value: float
    iops: float
    bytes_per_s: float
    errors: int
    response: Latency | None
    within: bool | None = None
    """Whether the limit was kept; None where there is none."""
    overloaded: bool = False
    judged: float | None = None
    """The limited figure as the ramp compared it: ns, requests/s, bytes/s or frames; None where there is no limit."""
    judged_words: str = ""


def steps(record: Record) -> list[Step]:
    """In the order in which the ramp went through them; warm-up and drain are left out."""
    spans: dict[tuple[int, str, float], list[IntervalCost]] = {}
    for cost in record.spans():
        if not cost.warmup and not cost.drain and (knob := _knob(cost.knob)):
            spans.setdefault((cost.phase, *knob), []).append(cost)
    judged = {(told.phase, str(told.knob), turned(told.knob, told.value)): told for told in record.of(RampStep)}
    made = [(key, _step(record, *key, costs)) for key, costs in spans.items()]
    return [
        replace(
            step,
            within=told.within,
            overloaded=told.overloaded,
            judged=told.figure,
            judged_words=figure_words(ramp_limit(record, step.phase), told.figure),
        )
        if (told := judged.get(key))
        else step
        for key, step in made
    ]


def step_spans(record: Record, step: Step) -> set[int]:
    """When the intervals of a step began."""
    return {
        cost.start_ns
        for cost in record.spans(step.phase)
        if not cost.warmup and not cost.drain and _knob(cost.knob) == (step.knob, step.value)
    }


def figure_words(limit: RampLimit | None, figure: float) -> str:
    if limit is None:
        return ""
    if limit.when is LimitFigure.IOPS:
        return f"{format_iops(figure)} IOPS"
    if limit.when is LimitFigure.THROUGHPUT:
        return f"{format_mib_per_s(figure)} MiB/s"
    if limit.when is LimitFigure.DROPPED:
        return f"{format_count(round(figure))} dropped"
    of = [str(limit.operation.value)] if limit.operation else []
    of += ["service"] if limit.of is TimeKind.SERVICE else []
    return " ".join([*of, limit.when, format_ns(figure)])


def _knob(told: KnobEvent | None) -> tuple[str, float] | None:
    """The one knob that is turned."""
    turned = ((name, getattr(told, key, None)) for key, name in KNOBS.items())
    return next(((name, float(value)) for name, value in turned if value is not None), None)


def _step(record: Record, phase: int, knob: str, value: float, costs: list[IntervalCost]) -> Step:
    starts, length_ns = {cost.start_ns for cost in costs}, sum(cost.end_ns - cost.start_ns for cost in costs)
    items = [i for i in record.intervals if i.phase == phase and i.start_ns in starts]
    once = [item for item in items if item.measure == "service" and is_request(item.operation)]
    counted = in_rate({item.operation for item in once})
    rated = [item for item in once if item.operation in counted]
    answers = [item for item in waited(record, items) if item.measure == "response"]
    return Step(
        phase=phase,
        phase_name=phase_name(record, phase),
        knob=knob,
        value=value,
        iops=sum(item.requests for item in rated) / length_ns * 1e9 if length_ns else 0.0,
        bytes_per_s=sum(item.bytes for item in rated) / length_ns * 1e9 if length_ns else 0.0,
        errors=sum(item.errors for item in once),
        response=latency_of(answers),
    )


def step_rows(found: list[Step]) -> list[list[str]]:
    """Rows for `COLUMNS`."""
    return [
        [
            step.knob,
            step_words(step.value),
            format_iops(step.iops),
            format_mib_per_s(step.bytes_per_s),
            format_ns(step.response.mean_ns) if step.response else cells.DASH,
            *(cells.percentile_cell(step.response, name) for name in MEDIAN_AND_P99),
            format_count(step.errors),
            step.judged_words,
            _limit_word(step),
        ]
        for step in found
    ]


def _limit_word(step: Step) -> str:
    if step.overloaded:
        return "overloaded"
    return {None: "", True: "within", False: "beyond"}[step.within]


def found_words(record: Record) -> list[str]:
    """What the search of each ramp came to: one line each."""
    said = []
    for end in record.of(RampEnd):
        phase, knob, limit = end.phase, end.knob, ramp_limit(record, end.phase)
        if limit is None:
            continue
        is_rate = limit.when in ("iops", "throughput")
        threshold = limit_text(limit.below if is_rate else limit.above, limit.when)
        said_limit = f"{limit.when} {'at least' if is_rate else 'within'} {threshold}"
        found, beyond = end.found, end.beyond
        if found is None:
            said.append(f"{phase_name(record, phase)}: {said_limit}: not with any {knob} that was tried")
            continue
        least = "least" if is_rate else "highest"
        rest = (
            f"; {step_words(turned(knob, beyond))} {'misses it' if is_rate else 'does not keep it'}"
            if beyond is not None
            else ""
        )
        rest = rest or "; every value that was tried kept the limit"
        said.append(
            f"{phase_name(record, phase)}: {said_limit}: {least} {knob} {step_words(turned(knob, found.value))}, with "
            f"{format_iops(found.rate_per_s)} IOPS and {format_mib_per_s(found.bytes_per_s)} MiB/s{rest}"
            f"{_too_few(limit.when, found)}{_without_rest(record, phase, is_rate=is_rate)}"
        )
    return said


def _without_rest(record: Record, phase: int, *, is_rate: bool) -> str:
    """Said of a search over rates: the queue that a rate beyond the limit leaves behind lengthens the next step."""
    asked = profile_phase(record, phase)
    ramp = asked.ramp if asked else None
    searched = ramp is not None and ramp.search is not None and ramp.knob in (Knob.RATE, Knob.LOAD)
    if is_rate or not searched or not any(step.overloaded or not step.within for step in record.of(RampStep)):
        return ""
    return (
        "; this was a single search whose steps follow each other without a pause, so a higher value may keep the "
        "limit: `brickyard load-curve --limit` starts each step on an idle target, and searches three times"
    )


def _too_few(figure: str, step: RampStep) -> str:
    """Said where fewer than ten requests lie beyond the percentile that decided."""
    if not is_percentile(figure):
        return ""
    requests = step.rate_per_s * (step.end_ns - step.start_ns) / 1e9
    needed = least_count(percentile_of(figure))
    if requests >= needed:
        return ""
    return f"; judged by {requests:,.0f} requests, but {figure} needs {needed:,}: make `every` longer"


def turned(knob: str, value: float) -> float:
    """What a knob stands at when it is turned to this value: there is no half worker."""
    return float(max(int(value), 1)) if is_whole(knob) else float(value)


def is_whole(knob: str) -> bool:
    return knob not in ("rate", "load")


def step_words(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else three_digits(value)


def limit_text(threshold: float | str | None, figure: str) -> str:
    """The threshold of a limit as a person writes it: 20 ms, 5,000 IOPS, 200 MiB/s, 0 frames."""
    if figure == "iops":
        return f"{format_iops(float(threshold or 0))} IOPS"
    if figure == "throughput":
        moved = float(threshold or 0) if not isinstance(threshold, str) else _core.parse_bytes_per_s(threshold)
        return f"{format_mib_per_s(moved)} MiB/s"
    if figure == "dropped":
        return f"{float(threshold or 0):g} frames"
    return format_ns(_core.parse_duration_ns(str(threshold)))


def step_document(step: Step) -> Document:
    return {
        "phase": step.phase_name,
        "knob": step.knob,
        "value": step.value,
        "iops": step.iops,
        "bytes_per_s": step.bytes_per_s,
        "errors": step.errors,
        "judged": step.judged,
        "within": step.within,
        "overloaded": step.overloaded,
        "response_mean_ns": step.response.mean_ns if step.response else None,
        **{f"response_{n}_ns": step.response.percentiles[n] if step.response else None for n in MEDIAN_AND_P99},
    }


def by_phase(found: list[Step]) -> dict[str, list[Step]]:
    grouped: dict[tuple[int, str], list[Step]] = {}
    for step in found:
        grouped.setdefault((step.phase, step.phase_name), []).append(step)
    return {name: group for (_, name), group in grouped.items()}


def as_point(record: Record, step: Step) -> CurvePoint | None:
    """A step as a point of a curve over its knob; None where nothing ended."""
    if step.response is None:
        return None
    return CurvePoint(
        run=record.info.id,
        offered_per_s=step.value,
        achieved_per_s=step.iops,
        requests=1,
        unsent=1 if step.overloaded else 0,
        errors=step.errors,
        mean_ns=step.response.mean_ns,
        max_ns=step.response.max_ns,
        percentiles=dict(step.response.percentiles),
    )


def limit_of(record: Record, phase: int) -> Limit | None:
    """The limit of a ramp as a line of its picture, where it is of the times that are drawn: response times of every
    single request."""
    limit = ramp_limit(record, phase)
    if limit is None or limit.when not in ("mean", *MEDIAN_AND_P99) or limit.of is not TimeKind.RESPONSE:
        return None
    asked = profile_phase(record, phase)
    if limit.operation is not None or any(stream.chain for stream in (asked.stream if asked else [])):
        return None
    return Limit(limit.when, _core.parse_duration_ns(str(limit.above)))


def found_marks(record: Record, phase: int) -> list[Mark]:
    """The value that the ramp of a phase found within its limit."""
    return [
        Mark(WITHIN, turned(end.knob, end.found.value), f"{end.knob} {step_words(turned(end.knob, end.found.value))}")
        for end in record.of(RampEnd)
        if end.phase == phase and end.found is not None and ramp_limit(record, phase) is not None
    ]


def ramp_limit(record: Record, phase: int) -> RampLimit | None:
    """What the ramp of a phase was held against."""
    asked = profile_phase(record, phase)
    return asked.ramp.limit if asked and asked.ramp else None
