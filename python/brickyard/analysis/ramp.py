"""Duty: what a ramp found at each of its steps. Refusal: a phase without a ramp has no steps."""

from __future__ import annotations

from dataclasses import dataclass

from brickyard.analysis import cells
from brickyard.analysis.latency import Latency, latency_of, with_max
from brickyard.analysis.totals import phase_name, whole_intervals
from brickyard.store import CHAINS, IntervalCost, Json, Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, three_digits

COLUMNS = ("knob", "value", "IOPS", "MiB/s", "mean", "p50", "p99", "errors")
KNOBS = {"depth": "depth", "workers": "workers", "rate_per_s": "rate"}


@dataclass(frozen=True)
class Step:
    """All intervals of a phase that had the same value of its knob. The response time is what a ramp is judged by."""

    phase: int
    phase_name: str
    knob: str
    value: float
    iops: float
    bytes_per_s: float
    errors: int
    response: Latency | None


def steps(record: Record) -> list[Step]:
    """In the order in which the ramp went through them; warm-up and drain are left out."""
    spans: dict[tuple[int, str, float], list[IntervalCost]] = {}
    for cost in whole_intervals(record):
        if not cost.warmup and not cost.drain and (knob := _knob(cost.knob)):
            spans.setdefault((cost.phase, *knob), []).append(cost)
    return [_step(record, *key, costs) for key, costs in spans.items()]


def _knob(told: Json | None) -> tuple[str, float] | None:
    """The one knob that is turned."""
    turned = [(name, told[key]) for key, name in KNOBS.items() if told.get(key) is not None] if told else []
    return (turned[0][0], float(turned[0][1])) if turned else None


def _step(record: Record, phase: int, knob: str, value: float, costs: list[IntervalCost]) -> Step:
    starts, length_ns = {cost.start_ns for cost in costs}, sum(cost.end_ns - cost.start_ns for cost in costs)
    items = [i for i in record.intervals if i.phase == phase and i.start_ns in starts and i.operation not in CHAINS]
    once = [item for item in items if item.measure == "service"]
    answers = [item for item in items if item.measure == "response"]
    return Step(
        phase=phase,
        phase_name=phase_name(record, phase),
        knob=knob,
        value=value,
        iops=sum(item.requests for item in once) / length_ns * 1e9 if length_ns else 0.0,
        bytes_per_s=sum(item.bytes for item in once) / length_ns * 1e9 if length_ns else 0.0,
        errors=sum(item.errors for item in once),
        response=with_max(latency_of(answers), max((item.max_ns for item in answers), default=0)),
    )


def step_rows(found: list[Step]) -> list[list[str]]:
    """Rows for `COLUMNS`."""
    return [
        [
            step.knob,
            f"{step.value:,.0f}" if step.value == int(step.value) else three_digits(step.value),
            format_iops(step.iops),
            format_mib_per_s(step.bytes_per_s),
            format_ns(step.response.mean_ns) if step.response else cells.DASH,
            *(format_ns(step.response.percentiles[name]) if step.response else cells.DASH for name in ("p50", "p99")),
            format_count(step.errors),
        ]
        for step in found
    ]


def step_document(step: Step) -> Json:
    return {
        "phase": step.phase_name,
        "knob": step.knob,
        "value": step.value,
        "iops": step.iops,
        "bytes_per_s": step.bytes_per_s,
        "errors": step.errors,
        "response_mean_ns": step.response.mean_ns if step.response else None,
        **{f"response_{n}_ns": step.response.percentiles[n] if step.response else None for n in ("p50", "p99")},
    }


def by_phase(found: list[Step]) -> dict[str, list[Step]]:
    grouped: dict[tuple[int, str], list[Step]] = {}
    for step in found:
        grouped.setdefault((step.phase, step.phase_name), []).append(step)
    return {name: group for (_, name), group in grouped.items()}
