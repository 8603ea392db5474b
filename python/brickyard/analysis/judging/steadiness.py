"""Duty: warnings about a run's course: too short to judge, not steady, steady no more, noisy between intervals.

Refusal: no figure of its own; intervals and variation are those of `figures.totals`, the steady state the engine's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from brickyard import schema
from brickyard.analysis.figures.conditions import stretches
from brickyard.analysis.figures.named import IOPS, RATES_BY_OPERATION
from brickyard.analysis.figures.sending import asked_noun, sent
from brickyard.analysis.figures.steady import State, steady
from brickyard.analysis.figures.totals import (
    asked_phase,
    full_intervals,
    profile_phase,
    rated_intervals,
    rates,
    variation,
)
from brickyard.schema import PhaseReason, RunWarning, Unit, in_rate, is_request, warned
from brickyard.schema.plan import SteadyRule
from brickyard.store import Record

# A spread of a tenth between intervals is twice what a quiet device shows and hides differences of that size.
VARIATION_MAX = 0.10
# Both SNIA criteria and a spread need five rounds.
INTERVALS_MIN = 5
# Beyond this share of the measured time, the wait for the last answers makes mean latencies those of another load.
DRAIN_SHARE = 0.10
THE_PHASE = "{phase:Phase|Phases} {phase}"


def steadiness_warnings(record: Record) -> list[RunWarning]:
    phases = sorted({cost.phase for cost in record.costs if not cost.warmup and not cost.drain})
    return [*_late(record), *_short(record, phases), *_unsteady(record, phases), *_noisy(record, phases)]


def _name(record: Record, phase: int) -> str:
    asked = asked_phase(record, phase)
    return asked.name if asked and asked.name else str(phase + 1)


def _count(record: Record, phase: int) -> int:
    return len(rated_intervals(record, phase, with_transient=True))


def _is_ramp(record: Record, phase: int) -> bool:
    """A ramp changes the load on purpose."""
    turned = any(cost.knob for cost in record.costs if cost.phase == phase)
    asked = profile_phase(record, phase)
    return bool(asked and asked.ramp) or turned


def _late(record: Record) -> Iterator[RunWarning]:
    """Storage that answered long after a phase's end: rate times latency is then not what was in flight. That it was
    asked for more than it does is said elsewhere."""
    for phase in sorted({cost.phase for cost in record.costs}):
        measured = [cost for cost in record.spans(phase) if not cost.warmup]
        drain_ns = sum(cost.end_ns - cost.start_ns for cost in measured if cost.drain)
        rated_ns = sum(cost.end_ns - cost.start_ns for cost in measured if not cost.drain)
        # Where nothing was measured before the end, there is no rate to mistrust.
        if rated_ns and drain_ns > DRAIN_SHARE * rated_ns and sent(record, phase).is_sustained:
            yield warned(
                "late",
                "warning",
                "In {phase:phase|phases} {phase} the last answer came {drain} after the end of the {rated} that were "
                "measured. Late requests are in the request counts and the latencies, but not in the rates.",
                "Make the run longer than the storage's longest pause, or find out what made it pause.",
                phase=_name(record, phase),
                drain=Unit.NS.of(drain_ns),
                rated=Unit.NS.of(rated_ns),
            )


def _short(record: Record, phases: list[int]) -> Iterator[RunWarning]:
    """A program ends by itself, and has many phases: one sentence for all that were short."""
    short = [phase for phase in phases if _count(record, phase) < INTERVALS_MIN]
    programs = [phase for phase in short if (p := profile_phase(record, phase)) and any(s.program for s in p.stream)]
    for phase in short:
        if phase not in programs:
            ended, remedy = _ended(record, phase)
            yield warned(
                "short",
                "warning",
                f"{THE_PHASE} {{phase:was|were}} measured for {_intervals(_count(record, phase))}{ended}; fewer than "
                f"{INTERVALS_MIN} intervals are too few to judge spread or steady state.",
                f"{remedy}, or set a shorter interval.",
                phase=_name(record, phase),
                intervals=Unit.NUMBER.of(_count(record, phase)),
            )
    if programs:
        yield warned(
            "short",
            "warning",
            f"Too short to judge spread or steady state (below {INTERVALS_MIN} intervals): {{programs}}.",
            "Use more or larger files, or set a shorter interval.",
            programs=", ".join(_name(record, phase) for phase in programs),
        )


AMOUNTS = {PhaseReason.REQUESTS: "requests", PhaseReason.BYTES: "bytes", PhaseReason.PASSES: "passes"}


def _ended(record: Record, phase: int) -> tuple[str, str]:
    """What ended a phase before its duration, if anything did, and what makes the next one longer."""
    reason = next((end.reason for end in record.of(schema.PhaseEnd) if end.phase == phase), None)
    asked = profile_phase(record, phase)
    if reason not in AMOUNTS or asked is None or asked.duration is None:
        return "", "Measure longer"
    key = AMOUNTS[reason]
    return f", as its limit of {key} ended it before its duration", f"Raise `{key}`"


def _intervals(count: int) -> str:
    return "{intervals} {intervals:interval|intervals}" if count else "less than one interval"


def _unsteady(record: Record, phases: list[int]) -> Iterator[RunWarning]:
    for phase in phases:
        found = steady(record, phase)
        if found is None or _is_ramp(record, phase):
            continue
        events = [event for event in record.of(schema.Steady) if event.phase == phase]
        if found.state is State.NEVER and _count(record, phase) >= INTERVALS_MIN:
            asked = profile_phase(record, phase)
            rule = steady_rule(asked.steady) if asked and asked.steady else ""
            yield warned(
                "not_steady",
                "warning",
                f"{THE_PHASE} did not reach steady state{{rule}}.",
                "Measure longer, precondition the target first, or read the figures as those of a device that has "
                "not settled.",
                phase=_name(record, phase),
                rule=rule,
            )
        if found.state is State.LEFT:
            last = max(events, key=lambda event: event.at_ns)
            yield warned(
                "left_steady",
                "warning",
                f"{THE_PHASE} left steady state again at {{at}}: range {{range}}, slope {{slope}}.",
                "Look at temperature, cache and background work of the device at that time, and measure longer.",
                phase=_name(record, phase),
                at=Unit.SECONDS.of(last.at_ns / 1e9),
                range=Unit.PERCENT_TENTHS.of(last.range_percent / 100),
                slope=Unit.PERCENT_TENTHS.of(last.slope_percent / 100),
            )


def steady_rule(asked: SteadyRule) -> str:
    """The rule of the plan in words, with the plan's own figures."""
    limits = f"range at most {asked.range:g} %, slope at most {asked.slope:g} %"
    return f" ({limits} of {asked.measure} over {asked.rounds} rounds)"


def _noisy_remedy(record: Record, *, few: bool) -> str:
    if few:
        return "Measure with longer intervals."
    if stretches(record):
        return "Its conditions differ: their table has the figures of each."
    if record.info.is_modelled:
        return "A model has no other load: look at its course, and use a longer warm-up if its caches were filling."
    return "Look for other load on host and device, and repeat the run to see how much the means differ."


def _rate_name(record: Record, counted: frozenset[str]) -> str:
    """Of what was counted: nobody's transactions are IOPS, and neither are operations on names."""
    if (noun := asked_noun(record.info.plan)) != "requests":
        return f"{noun}/s"
    names = {RATES_BY_OPERATION.get(operation, IOPS) for operation in counted}
    return "operations/s" if not counted else names.pop() if len(names) == 1 else IOPS


def _noisy(record: Record, phases: list[int]) -> Iterator[RunWarning]:
    for phase in phases:
        whole = full_intervals(record, phase)
        if len(whole) < INTERVALS_MIN or _is_ramp(record, phase):
            continue
        every = [item for item in record.intervals if item.phase == phase and item.measure == "service"]
        counted = in_rate({item.operation for item in every})
        # A phase that works on names alone has no IOPS, and a rate that may be noisy all the same.
        requests = [item for item in every if (item.operation in counted if counted else is_request(item.operation))]
        found = variation(rates(record, phase, requests))
        if found is None or found <= VARIATION_MAX:
            continue
        # Counting n independent events alone spreads by 1/sqrt(n): few slow requests are no sign of a disturbance.
        starts = {span.start_ns for span in whole}
        mean = sum(item.requests for item in requests if item.start_ns in starts) / len(whole)
        alone = 1 / math.sqrt(mean)
        few = found <= 2 * alone
        nouns = asked_noun(record.info.plan)
        explained = f"; with so few {nouns} per interval ({{requests}}), chance alone gives {{chance}}"
        rate = _rate_name(record, counted)
        yield warned(
            "noisy",
            "note" if few else "warning",
            f"{THE_PHASE} {{phase:is|are}} noisy: {rate} vary by {{variation}} between {{intervals}} intervals "
            f"(coefficient of variation){explained if few else ''}.",
            _noisy_remedy(record, few=few),
            phase=_name(record, phase),
            variation=Unit.VARIATION.of(found),
            intervals=Unit.NUMBER.of(len(whole)),
            requests=Unit.NUMBER.of(mean),
            chance=Unit.PERCENT.of(alone),
        )
