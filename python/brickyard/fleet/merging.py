"""Duty: the events of many hosts as those of one run. Numbers of phases, streams and targets become those of the whole;
intervals with the same boundaries become one; times are moved to one clock.

Histograms of hosts stay apart here, each in its own stream's cell. Whoever reads several streams merges them.

Refusal: no clock is read, nothing is sent, and no event of a host is dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from brickyard.fleet.shares import HostPart
from brickyard.schema import (
    Cpu,
    DepthReached,
    End,
    Event,
    HostsDiffer,
    HostsValue,
    Interval,
    NoteOfHosts,
    PhaseEnd,
    PhaseFacts,
    PhaseReason,
    PhaseStart,
    SlowEvent,
    Start,
    StartFact,
    StartNote,
    StreamFacts,
    StreamUnsent,
    VerifiedEvent,
    encode,
)
from brickyard.schema.plan import Plan

PATIENCE_S = 1.5  # an interval is told so long after the first host told it; what comes later is one of its own
SLOWEST = 16  # the slowest requests of a phase, as many as one host names
TIMES = ("at_ns", "due_ns", "from_ns", "start_ns", "end_ns")

Key = tuple[int, int, bool]
Placed = TypeVar("Placed", bound=msgspec.Struct)


class Merger:
    """Takes what hosts say, gives what the run says."""

    def __init__(self, parts: Iterable[HostPart]) -> None:
        self._parts = {part.host: part for part in parts}
        self._moved: dict[str, int] = dict.fromkeys(self._parts, 0)
        self._has_phase: dict[int, int] = {}
        self._waiting: dict[Key, dict[str, Interval]] = defaultdict(dict)
        self._since: dict[Key, float] = {}
        self._told_up_to: dict[tuple[str, int], int] = {}
        self._told_below: dict[int, int] = defaultdict(int)
        self._phase_ends: dict[int, dict[str, PhaseEnd]] = defaultdict(dict)
        self._ended_phases: set[int] = set()
        self._gone: set[str] = set()
        self.ends: dict[str, End] = {}
        self.last_ns = 0

    def hear(self, host: str, event: Event, now_s: float) -> list[Event]:
        """What follows at once from an event of a host."""
        part, moved_ns = self._parts[host], self._moved[host]
        if isinstance(event, End):
            self.ends[host] = event
            return []
        if isinstance(event, Start):
            return []
        if isinstance(event, PhaseStart):
            return self._phase(host, replace(event, phase=part.phases[event.phase]))
        if isinstance(event, Interval):
            streams = part.streams[event.phase]
            cells = [replace(cell, stream=streams[cell.stream]) for cell in event.cells]
            told = replace(_placed(event, part, moved_ns), cells=cells)
            key = (told.phase, told.index, told.drain)
            self._waiting[key][host] = told
            self._since.setdefault(key, now_s)
            self._told_up_to[(host, told.phase)] = told.index
            return []
        if isinstance(event, PhaseEnd):
            streams = part.streams[event.phase]
            end = replace(
                _placed(event, part, moved_ns),
                slowest=[
                    replace(item, stream=streams[item.stream], at_ns=item.at_ns + moved_ns) for item in event.slowest
                ],
                frames=[replace(item, stream=streams[item.stream]) for item in event.frames],
                unsent_by_stream=[replace(item, stream=streams[item.stream]) for item in event.unsent_by_stream],
                ended_by_stream=[],  # other hosts may go on with the stream
            )
            self._phase_ends[end.phase][host] = end
            return []
        return [_placed(event, part, moved_ns)]

    def _phase(self, host: str, event: PhaseStart) -> list[Event]:
        """All hosts begin a phase at one instant; on the run's clock that is where the first that tells it has it."""
        phase, start_ns = event.phase, event.start_ns
        if phase in self._has_phase:
            self._moved[host] = self._has_phase[phase] - start_ns
            return []
        at_ns = max(start_ns + self._moved[host], self.last_ns)
        self._has_phase[phase] = at_ns
        self._moved[host] = at_ns - start_ns
        return [replace(event, start_ns=at_ns)]

    def gone(self, host: str) -> None:
        """Nobody waits for this host any more."""
        self._gone.add(host)

    def back(self, host: str) -> None:
        self._gone.discard(host)

    def whole(self, now_s: float, *, all_of_it: bool = False) -> list[Event]:
        """Intervals that all hosts have told, or for which the others were waited for long enough; ends of phases."""
        found: list[Event] = []
        for key in sorted(self._waiting):
            phase, index, _ = key
            waits = not all_of_it and index >= self._told_below[phase] and now_s - self._since[key] < PATIENCE_S
            if waits and any(self._owes(host, phase, index) for host in self._parts):
                break
            self._told_below[phase] = max(self._told_below[phase], index + 1)
            self._since.pop(key)
            found.append(self._interval(list(self._waiting.pop(key).values())))
        for phase in sorted(set(self._phase_ends) - self._ended_phases):
            waiting = [host for host, part in self._parts.items() if phase in part.phases and self._is_due(host)]
            told = self._phase_ends[phase]
            if all_of_it or all(host in told for host in waiting):
                if any(key[0] == phase for key in self._waiting):
                    continue
                self._ended_phases.add(phase)
                ended = merged_end(list(told.values()))
                self.last_ns = max(self.last_ns, ended.end_ns)
                found.append(ended)
        return found

    def has_ended(self, phase: int) -> bool:
        return phase in self._ended_phases

    def _is_due(self, host: str) -> bool:
        return host not in self._gone and host not in self.ends

    def _owes(self, host: str, phase: int, index: int) -> bool:
        """Whether a host is still to tell an interval."""
        if phase not in self._parts[host].phases or not self._is_due(host) or host in self._phase_ends[phase]:
            return False
        return self._told_up_to.get((host, phase), -1) < index

    def _interval(self, told: list[Interval]) -> Interval:
        merged = replace(
            told[0],
            start_ns=min(item.start_ns for item in told),
            end_ns=max(item.end_ns for item in told),
            cells=sorted((cell for item in told for cell in item.cells), key=lambda cell: cell.stream),
            cpu=_cpu(item.cpu for item in told),
            loop_busy_share=max(item.loop_busy_share for item in told),
        )
        self.last_ns = max(self.last_ns, merged.end_ns)
        return merged


def _placed(event: Placed, part: HostPart, by_ns: int) -> Placed:
    """An event with the numbers and times of the whole run; what is in its lists stays as it was."""
    changed: dict[str, int] = {}
    own = getattr(event, "phase", None)
    if own is not None:
        changed["phase"] = part.phases[own]
        if (stream := getattr(event, "stream", None)) is not None:
            changed["stream"] = part.streams[own][stream]
    if (target := getattr(event, "target", None)) is not None:
        changed["target"] = part.whole_targets[target]
    changed |= {name: at + by_ns for name in TIMES if (at := getattr(event, name, None)) is not None}
    return replace(event, **changed)


def merged_end(ends: list[PhaseEnd]) -> PhaseEnd:
    """The ends of a phase on all hosts as one."""
    bound = [end for end in ends if end.generator_bound]
    odd = [end for end in ends if end.reason is not PhaseReason.DURATION]
    verified = [end.verified for end in ends if end.verified is not None]
    slowest: list[SlowEvent] = sorted((item for end in ends for item in end.slowest), key=lambda one: -one.response_ns)
    return replace(
        (odd or ends)[0],
        end_ns=max(end.end_ns for end in ends),
        unsent=sum(end.unsent for end in ends),
        unsent_by_stream=_unsent(ends),
        outstanding=sum(end.outstanding for end in ends),
        errors_by_errno=summed(end.errors_by_errno for end in ends),
        errors_by_kind=summed(end.errors_by_kind for end in ends),
        slowest=slowest[:SLOWEST],
        verified=_verified(verified),
        cpu=_cpu(end.cpu for end in ends),
        generator_bound=bool(bound),
        generator_bound_reason=(bound or ends)[0].generator_bound_reason,
        loops=sum(end.loops for end in ends),
        loop_busy_share=max(end.loop_busy_share for end in ends),
        loop_cpu_share=max((one for end in ends if (one := end.loop_cpu_share) is not None), default=None),
        cpu_wait_share=max((one for end in ends if (one := end.cpu_wait_share) is not None), default=None),
        frames=[item for end in ends for item in end.frames],
        depth=_depth(end.depth for end in ends),
    )


def _depth(told: Iterable[DepthReached | None]) -> DepthReached | None:
    """Summed over the hosts that looked, as over the loops of one."""
    known = [one for one in told if one is not None]
    if not known:
        return None
    return DepthReached(at_once=sum(one.at_once for one in known), in_flight=sum(one.in_flight for one in known))


def _unsent(ends: list[PhaseEnd]) -> list[StreamUnsent]:
    found = Counter[int]()
    for end in ends:
        found.update({told.stream: told.unsent for told in end.unsent_by_stream})
    return [StreamUnsent(stream=stream, unsent=unsent) for stream, unsent in sorted(found.items())]


def _verified(told: list[VerifiedEvent]) -> VerifiedEvent | None:
    if not told:
        return None
    return VerifiedEvent(
        checked_blocks=sum(one.checked_blocks for one in told),
        damaged_blocks=sum(one.damaged_blocks for one in told),
        unchecked_blocks=sum(one.unchecked_blocks for one in told),
    )


def _cpu(told: Iterable[Cpu]) -> Cpu:
    system_ns = user_ns = 0
    for one in told:
        system_ns += one.system_ns
        user_ns += one.user_ns
    return Cpu(system_ns=system_ns, user_ns=user_ns)


def merged_start(parts: list[HostPart], starts: Mapping[str, Start], phases: list[PhaseFacts]) -> Start:
    """What all hosts said at their beginning; where they are not alike, a note says so."""
    told = [starts[part.host] for part in parts if part.host in starts]
    noted: dict[str, tuple[StartNote, list[str]]] = {}
    for host, start in starts.items():
        for text, note in {encode(note): note for note in start.notes}.items():
            noted.setdefault(text, (note, []))[1].append(host)
    notes: list[StartNote] = [NoteOfHosts(hosts=hosts, note=note) for note, hosts in noted.values()]
    for fact, values in (
        (StartFact.ENGINE, {host: start.engine.value for host, start in starts.items()}),
        (StartFact.IO, {host: start.io.value for host, start in starts.items()}),
    ):
        by_value: dict[str, list[str]] = defaultdict(list)
        for host, value in values.items():
            by_value[value].append(host)
        if len(by_value) > 1:
            said = [HostsValue(value=value, hosts=hosts) for value, hosts in by_value.items()]
            notes.append(HostsDiffer(fact=fact, values=said))
    return replace(
        told[0],
        start_unix_ns=min(start.start_unix_ns for start in told),
        targets=[
            replace(target, path=f"{part.host}:{target.path}")
            for part in parts
            if part.host in starts
            for target in starts[part.host].targets
        ],
        phases=phases,
        notes=notes,
    )


def phases_of(plan: Plan) -> list[PhaseFacts]:
    """The phases of a whole run, as its start tells them."""
    return [
        PhaseFacts(
            name=phase.name,
            streams=[
                StreamFacts(
                    name=stream.name,
                    target=stream.target,
                    workers=stream.workers,
                    depth=stream.depth,
                    verify=stream.verify,
                )
                for stream in phase.stream
            ],
        )
        for phase in plan.phase
    ]


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for item in counts:
        total.update(item)
    return dict(sorted(total.items()))
