"""Duty: whether the samples of a run show the condition that it was to be measured in. Refusal: it asks no array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.schema import (
    ArrayInOtherState,
    ArrayNeverLookedAt,
    ArrayTurned,
    BackgroundWork,
    ConditionReason,
    HeldCondition,
    SampledState,
    WorkBrokeOff,
    WorkDelayed,
    WorkDelayedAtBegin,
    WorkEnded,
    WorkNotUnderWay,
    WorkNotYetBegun,
    WorkStoodStill,
)

Sample = tuple[int, SampledState, float | None]
"""Unix time in ns, the state, and how far it is, from 0 to 1."""

# A rebuild is said to stand still only after several looks at it; md itself updates its figure every 3 s at the latest.
STANDSTILL_NS = 10_000_000_000
STATE_OF: dict[str, SampledState] = {
    HeldCondition.NORMAL: SampledState.NORMAL,
    HeldCondition.DEGRADED: SampledState.DEGRADED,
    HeldCondition.REBUILDING: SampledState.REBUILDING,
    HeldCondition.NEIGHBOUR_REBUILDING: SampledState.REBUILDING,
    HeldCondition.SCRUBBING: SampledState.SCRUBBING,
    HeldCondition.INITIALIZING: SampledState.INITIALIZING,
    HeldCondition.WRITE_CACHE_ON: SampledState.WRITE_CACHE_ON,
    HeldCondition.WRITE_CACHE_OFF: SampledState.WRITE_CACHE_OFF,
}
WORK_OF = {
    SampledState.REBUILDING: BackgroundWork.REBUILD,
    SampledState.SCRUBBING: BackgroundWork.SCRUB,
    SampledState.INITIALIZING: BackgroundWork.INITIALIZATION,
}


@dataclass(frozen=True)
class Validity:
    valid: bool
    reason: ConditionReason | None
    """Where it is not valid."""
    samples: list[Sample]


def judge(condition: HeldCondition, samples: Sequence[Sample]) -> Validity:
    """Valid where every sample shows the state that the condition stands for."""
    kept = list(samples)
    reason = _deviation(STATE_OF[condition], kept)
    return Validity(reason is None, reason, kept)


def _deviation(wanted: SampledState, samples: list[Sample]) -> ConditionReason | None:
    if not samples:
        return ArrayNeverLookedAt()
    work, first = WORK_OF.get(wanted), next((sample for sample in samples if sample[1] is not wanted), None)
    if first is None:
        return None if work is None else _standstill(work, samples)
    if work is None:
        after_ns = None if first == samples[0] else first[0] - samples[0][0]
        return ArrayInOtherState(state=first[1], wanted=wanted, after_ns=after_ns)
    if first == samples[0]:
        return _not_begun(work, first[1], later=any(sample[1] is wanted for sample in samples))
    match first[1]:
        case SampledState.DELAYED:
            return WorkDelayed(work=work)
        case SampledState.NORMAL:
            return WorkEnded(work=work, before_ns=samples[-1][0] - first[0])
        case SampledState.DEGRADED:
            return WorkBrokeOff(work=work, before_ns=samples[-1][0] - first[0])
        case state:
            return ArrayTurned(state=state, after_ns=first[0] - samples[0][0])


def _not_begun(work: BackgroundWork, state: SampledState, *, later: bool) -> ConditionReason:
    if state is SampledState.DELAYED:
        return WorkDelayedAtBegin(work=work)
    return WorkNotYetBegun(work=work, state=state) if later else WorkNotUnderWay(work=work, state=state)


def _standstill(work: BackgroundWork, samples: list[Sample]) -> WorkStoodStill | None:
    """Where nothing moved from the first sample to the last."""
    shares = {share for _, _, share in samples}
    if samples[-1][0] - samples[0][0] < STANDSTILL_NS or len(shares) > 1 or shares == {None}:
        return None
    return WorkStoodStill(work=work, at_share=shares.pop() or 0.0)
