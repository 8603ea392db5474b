"""Duty: why a state lost what was acknowledged: the writes that it needed, found by judging the state again with them,
and the flush that should have made them durable.

Refusal: what no verdict showed is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brickyard.lab.explore import Exploration, Judge, Outcome, Witness, read_recording
from brickyard.lab.orders import (
    CORRUPT,
    KEPT,
    LOST,
    NOT_JUDGED,
    Describe,
    Flush,
    LogFacts,
    Promise,
    Recording,
    State,
    Surroundings,
    Verdict,
)
from brickyard.lab.program import describe
from brickyard.units import format_size

JUDGED_MOST = 48  # states that are judged to find the writes of one: some 20 s
NAMED_MOST = 4
EARLIER_MOST = 8


@dataclass(frozen=True)
class LossExplained:
    """A state in which something is missing."""

    state: State
    verdict: Verdict
    around: Surroundings
    promise: Promise | None
    """What was acknowledged and is missing."""
    needed: tuple[int, ...] | None
    """Volatile writes, by their records, with which the check passes, and without any of which it may not; none where
    all volatile writes together do not suffice."""
    is_least: bool
    """No write could be left out of `needed`; else the search ended before."""
    unknown: str = ""
    """Why `needed` could not be found out, where a state that decides it was not judged."""

    @property
    def sentences(self) -> list[str]:
        return [*self._acknowledged(), *self._needed(), *self._flush()]

    def _acknowledged(self) -> list[str]:
        cut = f"The power failed after {self.state.cut:,} records"
        if self.promise is None:
            return [f"{cut}: {self.verdict.why}."]
        return [
            f"Client {self.promise.client} was told that {self.promise.number:,} is durable when the log had"
            f" {self.promise.at:,} records. {cut}, and it is not there."
        ]

    def _needed(self) -> list[str]:
        gone = [write for write in self.around.writes if write.volatile and write.kept_bytes < write.bytes]
        volatile = f"This state lacks {len(gone):,} of {self.state.volatile_writes:,} volatile writes, or parts of them"
        if self.unknown:
            return [f"{volatile}. Which of them it needed could not be found out: {self.unknown}."]
        if self.needed is None and self.promise is None:
            return [f"{volatile}. The damage is there with all of them too."]
        if self.needed is None:
            return [f"{volatile}. None of them brings it back: it had not been written to the disk by then."]
        writes = {write.record: write for write in gone}
        named = [
            f"record {record:,} ({format_size(writes[record].bytes)} at {writes[record].offset_bytes:,})"
            for record in self.needed[:NAMED_MOST]
        ]
        more = f" and {len(self.needed) - NAMED_MOST:,} more" if len(self.needed) > NAMED_MOST else ""
        most = "" if self.is_least else "; fewer may do"
        passes = "It is there with" if self.promise else "The check passes with"
        return [f"{volatile}. {passes} {', '.join(named)}{more}{most}."]

    def _flush(self) -> list[str]:
        if self.verdict.kind != LOST or self.promise is None:
            return []
        last = self.needed[-1] if self.needed else None
        ended = [flush for flush in self.around.flushes if flush.end is not None and flush.end < self.promise.at]
        covering = [flush for flush in ended if last is not None and flush.start > last]
        if covering:
            did = "and made nothing durable: the disk ignored it" if not covering[0].works else "and worked"
            return [
                f"The flush of records {_span(covering[0])} began after them, ended before the acknowledgement, {did}."
            ]
        if last is None:
            return []
        return [f"No flush began after record {last:,} and ended before the acknowledgement: it never came."]


def _span(flush: Flush) -> str:
    return f"{flush.start:,} to {flush.end:,}"


def explain(
    wanted: Exploration, outcome: Outcome, tell: Callable[[int], None] = lambda _done: None
) -> list[LossExplained]:
    """The first state of each kind of finding."""
    seeds = [outcome.first[kind][0] for kind in (LOST, CORRUPT) if kind in outcome.first]
    if not seeds:
        return []
    recording = read_recording(wanted.log)
    assert outcome.log is not None
    _, around = describe(Describe(wanted.drawing(recording), 1, seeds))
    states = {state.seed: state for state in outcome.drawn}
    found = []
    for seed, near in zip(seeds, around, strict=True):
        with LossTrial(wanted, recording, outcome.log, seed, tell) as trial:
            verdict, promise = _earliest(trial, outcome.verdicts[seed], recording.promises)
            gone = [write.record for write in near.writes if write.volatile and write.kept_bytes < write.bytes]
            # What came after the acknowledgement cannot be what it rested on.
            before = [record for record in gone if promise is None or record < promise.at]
            needed, is_least, unknown = _needed(trial, before)
        found.append(LossExplained(states[seed], verdict, near, promise, needed, is_least, unknown))
    return found


def _earliest(trial: LossTrial, verdict: Verdict, promises: Sequence[Promise]) -> tuple[Verdict, Promise | None]:
    """The earliest acknowledgement that is missing; a check names any. From then on, only those up to it count."""
    promise = _promise(promises, verdict)
    for _ in range(EARLIER_MOST):
        if promise is None:
            break
        trial.until = promise.at
        again = trial.judged([])
        earlier = _promise(promises, again)
        if earlier is None or earlier.at >= promise.at:
            break
        verdict, promise = again, earlier
    return verdict, promise


def _promise(promises: Sequence[Promise], verdict: Verdict) -> Promise | None:
    missing = verdict.missing
    if missing is None:
        return None
    later = [p for p in promises if p.client == missing.client and p.number >= missing.number]
    return min(later, key=lambda p: (p.number, p.at), default=None)


def _needed(trial: LossTrial, gone: list[int]) -> tuple[tuple[int, ...] | None, bool, str]:
    """First the shortest beginning of the missing writes with which all is well, then what of it can be left out.

    A write stays where it is not known whether it can be left out.
    """
    if not gone:
        return None, True, ""
    passes = trial.passes(gone)
    if not passes:
        return None, passes is False, "" if passes is False else trial.unknown
    low, high = 0, len(gone)
    while high - low > 1 and trial.left:
        middle = (low + high) // 2
        low, high = (low, middle) if trial.passes(gone[:middle]) else (middle, high)
    needed, size = gone[:high], max(1, high // 2)
    while trial.left:
        at, before = 0, len(needed)
        while at < len(needed) and trial.left and len(needed) > 1:
            fewer = needed[:at] + needed[at + size :]
            if fewer and trial.passes(fewer):
                needed = fewer
            else:
                at += size
        if len(needed) == 1 or (size == 1 and len(needed) == before):
            return tuple(needed), not trial.unknown, ""
        size = max(1, size // 2)
    return tuple(needed), False, ""


class LossTrial:
    """Judges one state with more of its volatile writes, a bounded number of times."""

    def __init__(
        self, wanted: Exploration, recording: Recording, facts: LogFacts, seed: str, tell: Callable[[int], None]
    ) -> None:
        self._judge = Judge(wanted.judging(recording))
        self._witness = Witness(wanted.good(recording, facts))
        self._seed, self._tell, self.left = seed, tell, JUDGED_MOST
        self.until: int | None = None
        """Only what was acknowledged at this count of records is asked for."""
        self.unknown = ""
        """Why a trial was not judged, if one was not."""

    def __enter__(self) -> LossTrial:
        return self

    def __exit__(self, *_: object) -> None:
        self._judge.end()
        self._witness.end()

    def passes(self, more: Sequence[int]) -> bool | None:
        """None where that could not be judged."""
        verdict = self.judged(more)
        if verdict.kind != NOT_JUDGED:
            return verdict.kind == KEPT
        self.unknown = verdict.why
        return None

    def judged(self, more: Sequence[int]) -> Verdict:
        self.left -= 1
        self._tell(JUDGED_MOST - self.left)
        until = "" if self.until is None else f"@{self.until}"
        return self._witness.believed(self._judge.judged(self._seed + until, *map(str, more)))
