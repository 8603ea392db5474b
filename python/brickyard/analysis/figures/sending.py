"""Duty: how much of what was due in a phase was sent, in the units of its pace: chains of a stream that has them, else
requests without the flushes that its writes owe; and which of its streams fell behind, or would have in a longer phase.

Refusal: nothing of a steady state. What was not sent is only known of a whole phase, and so is what it is a share of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from brickyard.analysis.figures.backlog import Growing, growing
from brickyard.analysis.figures.hosts import fleet_of
from brickyard.analysis.figures.scheduled import begins_all, not_begun, not_read, pgbench_asked
from brickyard.analysis.figures.totals import (
    asked_stream,
    asked_targets,
    full_stream_name,
    profile_phase,
    stream_name,
)
from brickyard.schema import PhaseEnd, in_flight_total, is_paced
from brickyard.schema.plan import ClosedPace, OtherKind, OtherPlan, OtherStream, Plan, Stream
from brickyard.schema.warning import listed
from brickyard.store import Record
from brickyard.units import format_count, format_ns, only_percent

UNSENT_SHARE_MAX = 0.01
"""More that was due and not sent makes another load of it: percentiles up to p99 are then those of what was sent."""
FROM_DUE = ("response", "lateness")
"""Measures that begin when a request is due, so that a queue that grows is in them."""
SLOTS_MANY = 256
"""As many as `load-curve` allows in flight: storage that leaves requests unsent with these does not do the rate. With
fewer, the number bounds the rate, by Little's law."""
TRANSACTIONS = "transactions"
UNSENT_MIN = 10
"""A stream beside others fell behind if it left at least so many: at the end of a phase a few are due all the same."""


@dataclass(frozen=True)
class SentStream:
    """Of one stream in one phase."""

    phase: int
    stream: int
    name: str
    sent: int
    unsent: int
    slots: int = 0
    """How many may be in flight, if all of these were; else 0."""

    @property
    def due(self) -> int:
        return self.sent + self.unsent


@dataclass(frozen=True)
class Sent:
    """`sent` is also what failed and what was never answered."""

    sent: int
    unsent: int
    noun: str = "requests"
    behind: tuple[SentStream, ...] = ()
    """The streams that did not keep up; empty also where it is not known which of them left what was unsent."""
    growing: tuple[Growing, ...] = ()
    """Streams whose backlog grew, though all that was due was sent: so many requests may be in flight."""
    slots: dict[int, int] = field(default_factory=dict)
    """By stream with a pace, of one phase: how many requests may be in flight, if all of these were; else 0."""
    in_time: bool = False
    """All were sent in the end, but `unsent` of them after the time in which all were due."""

    @property
    def most_in_flight(self) -> int:
        """Of the streams that fell behind (all with a pace, where it is not known which) together; 0 where one of them
        had a slot free throughout, so that another one would not have helped it."""
        own = [one.slots for one in self.behind] or list(self.slots.values())
        return sum(own) if own and all(own) else 0

    @property
    def due(self) -> int:
        return self.sent + self.unsent

    @property
    def is_sustained(self) -> bool:
        """Whether a longer phase would have the same response times."""
        return self.kept_up and not self.growing

    @property
    def kept_up(self) -> bool:
        """A slow stream of few requests is not hidden by many requests of another that keeps up."""
        return is_kept_up(self.unsent, self.due) and not self.behind


def is_kept_up(unsent: float, due: float) -> bool:
    return unsent <= UNSENT_SHARE_MAX * due


def sent(record: Record, phase: int | None = None) -> Sent:
    """Of a phase with its warm-up and its last answers, or of all phases."""
    ends = [end for end in record.of(PhaseEnd) if phase in (None, end.phase)]
    done = Counter[bool]()
    of_stream = Counter[tuple[int, int]]()
    for item in record.intervals if phase is None else record.intervals_of(phase):
        asked = asked_stream(record, item.phase, item.stream)
        if item.measure == "service" and is_paced(item.operation, asked):
            done[_is_closed(asked)] += item.requests + item.errors
            of_stream[item.phase, item.stream] += item.requests + item.errors
    begun = (done[False] or done[True]) + sum(end.outstanding for end in ends)
    left, in_time = sum(end.unsent for end in ends), False
    if not left and len(ends) == 1:
        left, in_time = not_begun(record, ends[0], begun), begins_all(record, ends[0])
    elif not is_kept_up(left, begun + left) and len(ends) == 1:
        left = max(left, not_read(record, ends[0], begun))
    return Sent(
        sent=begun - left if in_time else begun,
        unsent=left,
        noun=_noun(record, [end.phase for end in ends]),
        behind=tuple(_behind(record, ends, of_stream)),
        growing=tuple(one for end in ends for one in growing(record, end.phase)),
        slots=_slots(record, phase) if phase is not None else {},
        in_time=in_time,
    )


def _slots(record: Record, phase: int) -> dict[int, int]:
    """See `Sent.slots`. On many hosts, each may have all the slots of the plan, so nothing is known of them."""
    asked = profile_phase(record, phase)
    if (program := pgbench_asked(record)) is not None:
        return {0: program.clients}  # each begins what is due as soon as it is free
    if asked is None or fleet_of(record) is not None:
        return {}
    bounds = dict[int, Counter[int]]()
    for key in {(one.stream, one.operation) for one in record.intervals_of(phase)}:
        own = Counter[int]()
        for one in record.intervals_of(phase):
            if (one.stream, one.operation) == key and one.measure == "service":
                own[one.start_ns] += one.in_flight_bound
        bounds[key[0]] = bounds.get(key[0], Counter()) | own
    allowed = {number: in_flight_total(one) for number, one in enumerate(asked.stream) if not _is_closed(one)}
    return {
        number: most if most <= max(bounds.get(number, Counter()).values(), default=0) else 0
        for number, most in allowed.items()
    }


def _behind(record: Record, ends: list[PhaseEnd], done: Counter[tuple[int, int]]) -> Iterable[SentStream]:
    """By phase and stream; a stream that is alone in its phase is the phase."""
    for end in ends:
        for told in end.unsent_by_stream if len(asked_targets(record, end.phase)) > 1 else []:
            name = full_stream_name(record, end.phase, told.stream)
            slots = _slots(record, end.phase).get(told.stream, 0)
            found = SentStream(end.phase, told.stream, name, done[end.phase, told.stream], told.unsent, slots)
            if found.unsent >= UNSENT_MIN and not is_kept_up(found.unsent, found.due):
                yield found


@dataclass(frozen=True)
class Length:
    """Why the response times of a stream tell how long its phase was."""

    words: str
    kept_up: bool
    """False where the rate was not kept; if it was, a longer phase might have other times."""
    slots: int = 0
    """How many requests may be in flight, if all of these were; else 0."""
    noun: str = "requests"


def length_told(record: Record) -> dict[tuple[int, int], Length]:
    """By phase and stream, those whose response times are not those of the rate that was asked for: much of what was
    due was not sent (all open streams of a phase where it is not known which; of a ramp, which goes beyond what the
    storage does on purpose, it says nothing), or the backlog grew."""
    found = dict[tuple[int, int], Length]()
    for end in record.of(PhaseEnd):
        asked, told = profile_phase(record, end.phase), sent(record, end.phase)
        for grew in told.growing:
            times = " and ".join(
                f"{format_ns(mean_ns)} in the {which} quarter"
                for mean_ns, which in ((grew.first_mean_ns, "first"), (grew.last_mean_ns, "last"))
            )
            found[end.phase, grew.stream] = Length(
                f"the queue grew: mean response time {times} of the measured time",
                kept_up=True,
                slots=told.slots.get(grew.stream, 0),
                noun=told.noun,
            )
        if asked is not None and asked.ramp is not None:
            continue
        if told.behind:
            found |= {(one.phase, one.stream): _unsent_length(one, told.noun) for one in told.behind}
        elif not told.kept_up:
            own = ((end.phase, stream) for stream in range(len(asked_targets(record, end.phase))))
            unsent = _unsent_length(told, told.noun)
            found |= {key: unsent for key in own if not _is_closed(asked_stream(record, *key))}
    return found


def _unsent_length(told: Sent | SentStream, noun: str) -> Length:
    slots = told.most_in_flight if isinstance(told, Sent) else told.slots
    most = f" with {in_flight_words(slots, noun)}" if slots else ""
    in_time = " in time" if isinstance(told, Sent) and told.in_time else ""
    words = f"{only_percent(told.sent / told.due)} of the {noun} that were due could be sent{in_time}{most}"
    return Length(words, kept_up=False, slots=slots, noun=noun)


def in_flight_words(slots: int, noun: str = "requests") -> str:
    """`noun` is that of `Sent`; whatever is no program's has requests in flight."""
    of = TRANSACTIONS if noun == TRANSACTIONS else "requests"
    return f"at most {format_count(slots)} {of.removesuffix('s') if slots == 1 else of} in flight"


@dataclass(frozen=True)
class FewSlots:
    """Of closed loops that may have so few requests in flight that more of them may find storage that does more."""

    slots: int
    of: str = ""
    """Which streams, where others beside them have a rate, frames or a program of their own: ` in stream log`."""

    @property
    def words(self) -> str:
        return f"{in_flight_words(self.slots)}{self.of}"


def few_slots(record: Record, phase: int, streams: Collection[int]) -> FewSlots | None:
    """How many requests the closed loops among these streams may have in flight together (a chain has one at a time);
    None where they are many, or there are none, where the depth grows, where many hosts have one each, and where a
    stream beside them did not keep its rate, which the storage or its own slots bound."""
    of_phase = profile_phase(record, phase)
    if fleet_of(record) is not None or of_phase is None or of_phase.ramp is not None:
        return None
    closed = [n for n in sorted(streams) if _is_bound_by_slots(asked_stream(record, phase, n))]
    slots = sum(in_flight_total(of_phase.stream[number]) for number in closed)
    if not 0 < slots < SLOTS_MANY:
        return None
    if len(closed) == len(streams):
        return FewSlots(slots)
    if any((phase, number) in length_told(record) for number in streams):
        return None
    names = listed([stream_name(record, phase, number) for number in closed])
    return FewSlots(slots, f" in stream{'s' if len(closed) > 1 else ''} {names}")


def _is_bound_by_slots(asked: Stream | OtherStream | None) -> bool:
    """Whether a stream sends its next request as soon as a slot is free: frames and programs have a pace of theirs."""
    return isinstance(asked, Stream) and _is_closed(asked) and not asked.frames and not asked.program


def _is_closed(asked: Stream | OtherStream | None) -> bool:
    """A closed loop leaves nothing unsent, so that its requests would hide what an open one beside it leaves."""
    return isinstance(asked, Stream) and isinstance(asked.pace, ClosedPace) and asked.trace is None


def asked_noun(plan: Plan | OtherPlan | None) -> str:
    """What a run asks for, in the plural: what fails or does not."""
    if not isinstance(plan, OtherPlan):
        return "requests"
    return {OtherKind.REPLAY: "calls", OtherKind.PGBENCH: TRANSACTIONS}.get(plan.kind, "requests")


def _noun(record: Record, phases: list[int]) -> str:
    if isinstance(record.info.plan, OtherPlan):
        return asked_noun(record.info.plan)
    found = (profile_phase(record, phase) for phase in phases)
    streams = [stream for asked in found if asked for stream in asked.stream]
    chained = {bool(stream.chain) for stream in [s for s in streams if not _is_closed(s)] or streams}
    return {(True,): "chains", (False, True): "requests and chains"}.get(tuple(sorted(chained)), "requests")
