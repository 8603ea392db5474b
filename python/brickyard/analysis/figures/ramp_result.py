"""Duty: what stands for a phase that turned a knob: the step that its ramp found, or words that say what a mean is of.

A ramp with a limit has a result, the last step on the right side of the limit: its figures are the phase's headline,
and what requirements judge. A mean over all steps is that of no load that was offered, and one over the conditions of a
brick whose member failed is that of none of them.

Refusal: no step is judged anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from brickyard.analysis.figures.conditions import of_words, only
from brickyard.analysis.figures.ramp import Step, figure_words, ramp_limit, step_spans, step_words, steps, turned
from brickyard.analysis.figures.totals import PhaseRate, phase_name, phase_rates
from brickyard.schema import RampEnd, RampStep
from brickyard.store import Record


@dataclass(frozen=True)
class RampResult:
    """`words` say what the figures are of. `trouble` says why the phase has no single figure; empty where it has."""

    found: RampStep | None
    words: str
    trouble: str = ""


def ramp_results(record: Record) -> dict[int, RampResult]:
    """Of each phase that turned a knob."""
    found = steps(record)
    ends = {end.phase: end for end in record.of(RampEnd)}
    of_phase: dict[int, list[Step]] = {}
    for step in found:
        of_phase.setdefault(step.phase, []).append(step)
    return {phase: _result(record, ends.get(phase), phase, own) for phase, own in of_phase.items() if len(own) > 1}


def _result(record: Record, end: RampEnd | None, phase: int, own: list[Step]) -> RampResult:
    knob, values = own[0].knob, [step.value for step in own]
    mean = f"mean over the {len(own)} steps of the ramp, {knob} {step_words(min(values))} to {step_words(max(values))}"
    if ramp_limit(record, phase) is None:
        return RampResult(None, mean, "a ramp without a limit has no single figure; set ramp.limit, or run one step")
    if end is None:
        return RampResult(None, mean, "the ramp did not come to its end")
    if end.found is None:
        return RampResult(None, f"no step kept the limit; {mean}", "no step of the ramp kept its limit")
    at = f"at {knob} {step_words(turned(knob, end.found.value))}, the step that the ramp found"
    return RampResult(end.found, at + _beyond_words(record, end))


def _beyond_words(record: Record, end: RampEnd) -> str:
    """The other end of what the limit lies between, with its figure."""
    told = next((s for s in record.of(RampStep) if (s.phase, s.value) == (end.phase, end.beyond)), None)
    if told is None:
        return ""
    figure = figure_words(ramp_limit(record, end.phase), told.figure)
    return f", since {end.knob} {step_words(turned(end.knob, told.value))} had {figure}"


def at_result(record: Record, results: Mapping[int, RampResult] | None = None) -> Record:
    """The record with the intervals of the steps alone that its ramps found; phases without a result stay whole."""
    found = ramp_results(record) if results is None else results
    chosen = {phase: result.found for phase, result in found.items() if result.found is not None}
    if not chosen:
        return record

    def is_of_result(phase: int, start_ns: int, end_ns: int) -> bool:
        step = chosen.get(phase)
        return step is None or (step.start_ns <= start_ns and end_ns <= step.end_ns)

    costs = [cost for cost in record.costs if is_of_result(cost.phase, cost.start_ns, cost.end_ns)]
    left = {(cost.phase, cost.start_ns) for cost in costs}
    # Of a record whose step has no whole interval of its own, the phase stays whole.
    lacking = chosen.keys() - {phase for phase, _ in left}
    if lacking:
        return at_result(record, {phase: result for phase, result in found.items() if phase not in lacking})
    intervals = [item for item in record.intervals if (item.phase, item.start_ns) in left]
    return replace(record, intervals=intervals, costs=costs)


def by_step(record: Record) -> list[tuple[str, Record]]:
    """The record in parts that each were one load, with words for those that are a step of a ramp: of a ramp with a
    result the step that it found, of any other each step by itself. What turned no knob stays whole, without words."""
    results = ramp_results(record)
    if not results:
        return [("", record)]
    parts = []
    plain = only(record, {(cost.phase, cost.start_ns) for cost in record.costs if cost.phase not in results})
    if plain.costs:
        parts.append(("", plain))
    for phase, result in results.items():
        if result.found is not None:
            found = at_result(record, {phase: result})
            own = {(cost.phase, cost.start_ns) for cost in found.costs if cost.phase == phase}
            parts.append(("the step that the ramp found", only(found, own)))
            continue
        for step in (step for step in steps(record) if step.phase == phase):
            own = {(phase, start_ns) for start_ns in step_spans(record, step)}
            parts.append((f"{step.knob} {step_words(step.value)}", only(record, own)))
    return parts


def closing_rates(record: Record) -> list[PhaseRate]:
    """What a run's last line says of each phase."""
    results = ramp_results(record)
    words = {phase_name(record, phase): said for phase, said in headline_words(record, results).items()}
    rates = phase_rates(at_result(record, results))
    return [replace(rate, of=words.get(rate.phase_name, "")) for rate in rates]


def headline_words(record: Record, results: Mapping[int, RampResult]) -> dict[int, str]:
    """What the figures of a phase are of, where that is not one load in one condition."""
    at = at_result(record, results)
    found = {
        phase: [results[phase].words if phase in results else "", of_words(at, phase)]
        for phase in dict.fromkeys(cost.phase for cost in at.costs)
    }
    return {phase: ", ".join(filter(None, parts)) for phase, parts in found.items() if any(parts)}
