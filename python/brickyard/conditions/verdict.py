"""Duty: whether the samples of a run show the condition that it was to be measured in. Refusal: it asks no array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.units import format_seconds

Sample = tuple[int, str, float | None]
"""Unix time in ns, the state's name, and how far it is, from 0 to 1."""

# A rebuild is said to stand still only after several looks at it; md itself updates its figure every 3 s at the latest.
STANDSTILL_NS = 10_000_000_000
STATE_OF = {
    "normal": "normal",
    "degraded": "degraded",
    "rebuilding": "rebuilding",
    "neighbour_rebuilding": "rebuilding",
    "scrubbing": "scrubbing",
    "initializing": "initializing",
    "write_cache_on": "write_cache_on",
    "write_cache_off": "write_cache_off",
}
WORDS = {"rebuilding": "the rebuild", "scrubbing": "the scrub", "initializing": "the initialization"}


@dataclass(frozen=True)
class Validity:
    valid: bool
    reason: str
    samples: list[Sample]


def judge(condition: str, samples: Sequence[Sample]) -> Validity:
    """Valid where every sample shows the state that the condition stands for."""
    kept = list(samples)
    wanted = STATE_OF[condition]
    if not kept:
        return Validity(False, "the array was never looked at while the run went on", kept)
    others = [sample for sample in kept if sample[1] != wanted]
    if others:
        return Validity(False, _deviation(wanted, kept, others[0]), kept)
    if wanted in WORDS and (standstill := _standstill(kept)):
        return Validity(False, f"{WORDS[wanted]} stood still at {standstill}", kept)
    return Validity(True, "", kept)


def _deviation(wanted: str, samples: list[Sample], first: Sample) -> str:
    what = WORDS.get(wanted)
    if what is None:
        when = "" if first == samples[0] else f" {_seconds(samples[0], first)} after the run's begin"
        return f"the array was {_plain(first[1])}, not {_plain(wanted)}{when}"
    if first == samples[0]:
        if first[1] == "delayed":
            return f"{what} had not begun: it was delayed by work on the same disks"
        later = any(sample[1] == wanted for sample in samples)
        return f"{what} {'had not yet begun' if later else 'was not under way'}: the array was {_plain(first[1])}"
    if first[1] == "delayed":
        return f"{what} was delayed by work on the same disks"
    if first[1] in ("normal", "degraded"):
        done = "ended" if first[1] == "normal" else "broke off"
        return f"{what} {done} {_seconds(first, samples[-1])} before the run did"
    return f"the array turned {_plain(first[1])} {_seconds(samples[0], first)} after the run's begin"


def _standstill(samples: list[Sample]) -> str | None:
    """The share at which nothing moved from the first sample to the last."""
    shares = {share for _, _, share in samples}
    if samples[-1][0] - samples[0][0] < STANDSTILL_NS or len(shares) > 1 or shares == {None}:
        return None
    return f"{(shares.pop() or 0.0) * 100:.1f} %"


def _seconds(earlier: Sample, later: Sample) -> str:
    return format_seconds((later[0] - earlier[0]) / 1e9)


def _plain(state: str) -> str:
    return state.replace("_", " ")
