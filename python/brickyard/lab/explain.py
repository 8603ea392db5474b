"""Duty: why a state lost what was acknowledged: the writes that it needed, found by judging the state again with them,
and the flush that should have made them durable.

Refusal: what no verdict showed is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from brickyard.lab.explore import Exploration, Outcome, Worker, read_recording, refusal
from brickyard.lab.orders import CORRUPT, KEPT, LOST, Describe, Flush, Promise, Ready, State, Surroundings, Verdict
from brickyard.lab.program import describe
from brickyard.units import format_size

JUDGED_MOST = 48  # states that are judged to find the writes of one: some 20 s
NAMED_MOST = 4


@dataclass(frozen=True)
class Explained:
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
        volatile = f"Of {self.state.volatile_writes:,} volatile writes, this state lacks {len(gone):,} or parts of them"
        if not gone:
            return ["No volatile write is missing: what was acknowledged had not been written to the disk at all."]
        if self.needed is None:
            return [f"{volatile}. With all of them the check finds it too: it had not been written to the disk at all."]
        writes = {write.record: write for write in gone}
        named = [
            f"record {record:,} ({format_size(writes[record].bytes)} at {writes[record].offset_bytes:,})"
            for record in self.needed[:NAMED_MOST]
        ]
        more = f" and {len(self.needed) - NAMED_MOST:,} more" if len(self.needed) > NAMED_MOST else ""
        most = "" if self.is_least else ", perhaps not all of which it needs"
        return [f"{volatile}. The check passes with {', '.join(named)}{more}{most}."]

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
            return ["The software acknowledged it without a write and a flush that the disk could keep."]
        return [f"No flush began after record {last:,} and ended before the acknowledgement: it never came."]


def _span(flush: Flush) -> str:
    return f"{flush.start:,} to {flush.end:,}"


def explain(wanted: Exploration, outcome: Outcome, tell: Callable[[int], None] = lambda _done: None) -> list[Explained]:
    """The first state of each kind of finding."""
    seeds = [outcome.first[kind][0] for kind in (LOST, CORRUPT) if kind in outcome.first]
    if not seeds:
        return []
    recording = read_recording(wanted.log)
    _, around = describe(Describe(wanted.drawing(recording), 1, seeds))
    states = {state.seed: state for state in outcome.drawn}
    found = []
    for seed, near in zip(seeds, around, strict=True):
        verdict = outcome.verdicts[seed]
        needed, is_least = _needed(wanted, seed, near, tell)
        promise = _promise(recording.promises, verdict)
        found.append(Explained(states[seed], verdict, near, promise, needed, is_least))
    return found


def _promise(promises: Sequence[Promise], verdict: Verdict) -> Promise | None:
    missing = verdict.missing
    if missing is None:
        return None
    later = [p for p in promises if p.client == missing.client and p.number >= missing.number]
    return min(later, key=lambda p: (p.number, p.at), default=None)


def _needed(
    wanted: Exploration, seed: str, near: Surroundings, tell: Callable[[int], None]
) -> tuple[tuple[int, ...] | None, bool]:
    """First the shortest beginning of the missing writes with which all is well, then what of it can be left out."""
    gone = [write.record for write in near.writes if write.volatile and write.kept_bytes < write.bytes]
    with Trial(wanted, seed, tell) as trial:
        if not gone or not trial.passes(gone):
            return None, True
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
            if size == 1 and (len(needed) == before or len(needed) == 1):
                return tuple(needed), True
            size = max(1, size // 2)
        return tuple(needed), False


class Trial:
    """Judges one state with more of its volatile writes, a bounded number of times."""

    def __init__(self, wanted: Exploration, seed: str, tell: Callable[[int], None]) -> None:
        self._order = wanted.judging(read_recording(wanted.log))
        self._seed, self._tell, self.left = seed, tell, JUDGED_MOST
        self._worker: Worker | None = None

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def passes(self, more: Sequence[int]) -> bool:
        if self._worker is None:
            self._worker = Worker(self._order)
            line = self._worker.line(self._order.timeout_s)
            try:
                msgspec.json.decode(line, type=Ready)
            except msgspec.MsgspecError:
                raise refusal(line) from None
        self.left -= 1
        self._tell(JUDGED_MOST - self.left)
        self._worker.tell(" ".join([self._seed, *map(str, more)]).encode())
        line = self._worker.line(self._order.timeout_s)
        try:
            return msgspec.json.decode(line, type=Verdict).kind == KEPT
        except msgspec.MsgspecError:  # it hung or died: such a state did not pass, and the next trial gets a new worker
            self._end()
            return False
