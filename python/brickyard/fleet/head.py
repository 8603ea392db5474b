"""Duty: a run on many hosts, with the face of a run of the core: prepared everywhere, begun at one instant, followed,
merged, and ended with the truth about hosts that were lost.

Refusal: no request is seen here, no figure computed. A host is believed dead by its own silence, not by Ray's word.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from brickyard import bricks
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.fleet import cluster
from brickyard.fleet.agent import apart_ns
from brickyard.fleet.answers import HostFacts, Taken, answer_of
from brickyard.fleet.clocks import Offset, offset_of, start_bound
from brickyard.fleet.eyes import eyes
from brickyard.fleet.merging import Merger, merged_start, phases_of
from brickyard.fleet.notes import Note
from brickyard.fleet.sending import pieces, traces_of, with_traces_at
from brickyard.fleet.shares import Division, HostPart, shared_places
from brickyard.fleet.words import ClockState, HeadLost, RecordLost, Word, WorkerBegan, WorkerReady, heard
from brickyard.schema import (
    End,
    EndReason,
    Event,
    Fleet,
    FleetHost,
    HostAbandoned,
    HostAsWritten,
    HostBack,
    HostBegan,
    HostClockUnknown,
    HostDied,
    HostEnd,
    HostEnded,
    HostKnown,
    HostLost,
    HostNamed,
    HostNeverBegan,
    HostReason,
    HostsFailed,
    HostSilent,
    HostsMissing,
    HostWatched,
    HostWorkerEnded,
    LoadShare,
    RunOutcome,
    Start,
    StartLate,
    StartRefused,
    encode,
    plan_document,
    plan_text,
    words_of,
)
from brickyard.schema.plan import Plan
from brickyard.study.running.circumstances import HostSeen
from brickyard.study.running.forecast import forecast

LOOK_S = 30.0  # at a host and its targets, some of which are asked by programs
WATCHED_S = 8.0  # for what was seen beside the load, of all hosts
AGENT_S = 120.0  # Ray starts a Python on each host
READY_S = 60.0  # a worker opens its targets, or refuses them
TAKE_S = 1.0  # a host without news answers so often
SILENT_S = 4.0  # then it is named; users are promised 5 s
ABANDON_S = 5.0  # who was told to end at once and has not by then is missing
RETURN_S = 9.0  # its worker stops by itself after 10 s, and nothing is to come then
LEAD_NS = 400_000_000  # from the word to the instant; a word takes some ms
TRIPS, MOST_TRIPS = 30, 200
TRIP_S = 1.0
CLOCKS_S, CLOCKS_A_HOST_S = 2.0, 0.1  # for all of it
WELL_KNOWN_SHARE = 0.25  # of what is allowed; a clock that is known so well is asked no more
WORKER_VARIABLE = "BRICKYARD_WORKER"

Told = TypeVar("Told")
Lost = Literal["keep", "end"]
Late = Literal["mark", "refuse"]


@dataclass(frozen=True)
class FleetWishes:
    """What is asked of a run on many hosts, beside its load."""

    share: LoadShare = LoadShare.COPIES
    tolerance_ns: int = 1_000_000
    late: Late = "mark"
    lost: Lost = "keep"
    words: tuple[str, ...] = ()
    """For every worker, such as the size of a file that it makes."""


@dataclass
class FarHost:
    """What is known of one host."""

    part: HostPart
    plan: Plan
    agent: Any
    pending: Any = None
    since: int = 0
    heard_s: float = 0.0
    retry_s: float = 0.0
    shares: bool = False
    """A target of it is another host's as well."""
    started: bool = False
    start: Start | None = None
    ready: int | None = None
    """The phase of the whole run that it is ready for."""
    dead: bool = False
    lost_s: float | None = None
    ended: bool = False
    code: int | None = None
    facts: HostFacts = field(default_factory=lambda: HostFacts(0))
    clock: ClockState = field(default_factory=ClockState)
    offset: Offset | None = None
    kept: str = ""
    traces: dict[str, str] = field(default_factory=dict)
    """Of the files that lie here, where it has them."""
    instants: dict[int, Any] = field(default_factory=dict)
    """Of each phase, what its worker was told."""
    why: HostReason | None = None
    """What there is to say of how its load ended, or of why it was lost."""
    known: HostKnown | None = None
    """None where its targets are models."""
    looking: Any = None
    watched: Any = None
    """What it says of the time of the load; None until it is asked."""
    is_watched: bool = False


def worker_program() -> bytes:
    """The static worker that is sent to the hosts."""
    named = os.environ.get(WORKER_VARIABLE)
    shipped = resources.files("brickyard.fleet") / "brickyard-worker"
    try:
        return Path(named).read_bytes() if named else shipped.read_bytes()
    except OSError as error:
        raise BadInputError(
            f"the worker for hosts cannot be read: {one_line(error)}; build it with `make programs`, or name it in"
            f" {WORKER_VARIABLE}"
        ) from error


class FleetRun:
    """Workers that are prepared; then a run under way."""

    def __init__(
        self, ray: Any, division: Division, wishes: FleetWishes, run_name: str, say: Callable[[str], None]
    ) -> None:
        self._ray = ray
        self._division = division
        self._wishes = wishes
        self._run_name = run_name
        self._say = say
        self._merger = Merger(division.parts)
        self._phases = [plan.name for plan in division.plan.phase]
        self._next_phase = 0
        self._begun: set[int] = set()
        self._told_start = False
        self._finished = False
        self._wants: list[str] = []
        self._ending_s: float | None = None
        self._abandoned_s: float | None = None
        self._refused: StartRefused | None = None
        self._waiting_for: FarHost | None = None
        self._queue: list[FarHost] = []
        self._began_s = time.monotonic()
        self._apart_ns = apart_ns()
        self._watches: dict[str, HostWatched] = {}
        self.notes: list[str] = []
        """What is in no event of the run."""
        self.hosts = [
            FarHost(part, plan, cluster.agent_on(ray, part.host))
            for part, plan in zip(division.parts, division.plans, strict=True)
        ]
        try:
            self._prepare()
        except BaseException:
            self._forget()  # nothing was measured
            self.close()
            raise

    def _prepare(self) -> None:
        program = self._ray.put(worker_program())
        self._each(AGENT_S, [host.agent.place.remote(program) for host in self.hosts], "takes no worker")
        self._look()
        for host, facts in zip(
            self.hosts,
            self._each(AGENT_S, [host.agent.facts.remote(host.part.targets) for host in self.hosts], "says nothing"),
            strict=True,
        ):
            host.facts = answer_of(host.part.host, facts, HostFacts)
        self._take_looks()
        self._look_for_shared()
        self._send_traces()
        # Hosts that share a target are prepared one after another: the first fills it, the next ones find it filled.
        shared = any(host.shares for host in self.hosts)
        first, self._queue = (self.hosts[:1], self.hosts[1:]) if shared else (self.hosts, [])
        for host in first:
            self._start(host)
        deadline_s = time.monotonic() + READY_S
        self._told: list[Event] = []
        while any(host.start is None and not host.ended for host in first):
            self._listen(0.05)
            if time.monotonic() > deadline_s:
                silent = ", ".join(host.part.host for host in first if host.start is None)
                raise BrickyardError(f"{silent}: the worker was not ready within {READY_S:.0f} s")
        for host in first:
            if host.ended and host.start is None:
                kind = BadInputError if host.code == BadInputError.exit_code else BrickyardError
                raise kind(
                    f"{host.part.host}: {host.part.named(words_of(host.why)) or 'the worker ended before it began'}"
                )

    def _look(self) -> None:
        """Asks each host what is known of it and its targets; a model is known here."""
        real = [host for host in self.hosts if not all(map(bricks.is_modelled, host.part.targets))]
        if not real:
            return
        try:
            found = eyes()
        except (BrickyardError, OSError) as error:
            for host in real:
                host.known = HostKnown(host=host.part.host, why=one_line(error))
            return
        archive, native = self._ray.put(found.archive), self._ray.put(found.native)
        for host in real:
            host.looking = host.agent.look.remote(archive, native, host.part.targets)

    def _take_looks(self) -> None:
        """A host that cannot be looked at carries its load nevertheless, and the record says why."""
        deadline_s = time.monotonic() + LOOK_S
        for host in self.hosts:
            if host.looking is not None:
                said, why = self._answer(host.looking, deadline_s)
                known = _read(said, HostKnown) if said else None
                host.known = known or HostKnown(host=host.part.host, why=why or "its answer cannot be read")

    def _answer(self, asked: Any, until_s: float) -> tuple[str, str]:
        """What a host says, or why it does not."""
        try:
            return str(self._ray.get(asked, timeout=max(0.1, until_s - time.monotonic()))), ""
        except self._ray.exceptions.GetTimeoutError:
            return "", "it did not answer in time"
        except self._ray.exceptions.RayTaskError as error:
            return "", one_line(error.cause)[:200]
        except self._ray.exceptions.RayError as error:
            return "", one_line(error)[:200]

    def _take_watches(self) -> None:
        until_s = time.monotonic() + WATCHED_S
        for host in self.hosts:
            if host.known is None or host.known.why:
                continue
            name = host.part.host
            if host.watched is None:
                why = "it was lost" if host.lost_s is not None else "the workload did not run to its end"
                self._watches[name] = HostWatched(host=name, why=why)
                continue
            said, why = self._answer(host.watched, until_s)
            watched = _read(said, HostWatched) if said else None
            self._watches[name] = watched or HostWatched(host=name, why=why or "its answer cannot be read")

    def seen(self) -> list[HostSeen]:
        """What is known of each host; what happened there once the run has ended."""
        return [
            HostSeen(host.part.host, host.part.whole_targets, host.start, host.known, self._watches.get(host.part.host))
            for host in self.hosts
        ]

    def _note(self, text: str) -> None:
        """Also in the record, where no event has it."""
        self.notes.append(text)
        self._say(text)

    def _look_for_shared(self) -> None:
        """One device under several hosts is meant where they have parts of it, or streams of their own; else refused
        where it is written to, since each host would write over what another wrote, and said where it is read."""
        meant = self._wishes.share is LoadShare.PARTITION or self._division.has_named_hosts
        for host in self.hosts:
            host.shares = meant and not any(bricks.is_modelled(target) for target in host.part.targets)
        told = [] if meant else [(host.part.host, host.part.targets, host.facts.identities) for host in self.hosts]
        by_name = {host.part.host: host for host in self.hosts}
        for one, other, same in shared_places(told):
            if self._changes_targets():
                raise BadInputError(
                    f"{same}, and each host would overwrite the data of the other; use --share partition"
                )
            self._note(f"{same}: every host reads all of it, and what one reads a cache may have from another")
            if one != other:
                by_name[one].shares = by_name[other].shares = True

    def _changes_targets(self) -> bool:
        expected = forecast(self._division.plan, [])
        return expected.writes or expected.trims

    def _send_traces(self) -> None:
        """Each trace to the hosts that issue it, where it has no name and goes with our process there."""
        for path in traces_of(self._division.plan):
            having = [host for host in self.hosts if path in traces_of(host.plan)]
            for piece in pieces(path):
                sent = self._ray.put(piece)
                asked = [host.agent.keep_log.remote(len(host.traces), sent) for host in having]
                places = self._each(AGENT_S, asked, f"takes no copy of {path}", having)
            for host, place in zip(having, places, strict=True):
                host.traces[path] = str(place)

    def _each(self, within_s: float, asked: list[Any], otherwise: str, of: list[FarHost] | None = None) -> list[Any]:
        """The answers of all hosts, or of some."""
        found = []
        deadline_s = time.monotonic() + within_s
        for host, ref in zip(of or self.hosts, asked, strict=True):
            try:
                found.append(self._ray.get(ref, timeout=max(0.1, deadline_s - time.monotonic())))
            except self._ray.exceptions.GetTimeoutError as error:
                raise BrickyardError(f"{host.part.host}: {otherwise}; see `brickyard fleet status`") from error
            except self._ray.exceptions.RayTaskError as error:
                raise BrickyardError(f"{host.part.host}: {otherwise}: {one_line(error.cause)[:300]}") from error
            except self._ray.exceptions.RayError as error:
                raise BrickyardError(f"{host.part.host}: {otherwise}: {one_line(error)[:300]}") from error
        return found

    def _start(self, host: FarHost) -> None:
        part = host.part
        modelled = any(bricks.is_modelled(target) for target in part.targets)
        note = Note(
            brickyard_record=1,
            run=self._run_name,
            plan=plan_document(self._division.plan),
            targets=self._division.targets,
            parts=self._division.parts,
            host=part.host,
            share=self._wishes.share,
        )
        words = [*self._wishes.words, *(["--shared"] if host.shares else [])]
        for path in part.overwrite:
            words += ["--overwrite", path]
        asked = host.agent.start.remote(
            run=self._run_name,
            plan=plan_text(with_traces_at(host.plan, host.traces)),
            targets=part.targets,
            bricks=json.dumps(bricks.texts()) if modelled else "",
            note=json.dumps(msgspec.to_builtins(note)),
            words=words,
        )
        try:
            host.kept = self._ray.get(asked, timeout=AGENT_S)
        except self._ray.exceptions.RayError as error:
            raise BrickyardError(f"{part.host}: the worker cannot be started: {one_line(error)[:300]}") from error
        host.started = True
        host.heard_s = time.monotonic()
        host.agent.say.remote("clock")

    def stop(self) -> None:
        self._wants.append("stop")

    def abandon(self) -> None:
        self._abandoned_s = self._abandoned_s or time.monotonic()
        self._wants.append("abandon")

    def finished(self) -> bool:
        return self._finished

    def events(self, timeout_ms: int) -> list[str]:
        """Events since the last call as JSON; waits up to `timeout_ms` for the first."""
        found, self._told = self._told, []
        if not self._finished:
            self._speak()
            self._listen(0.0 if found else timeout_ms / 1000)
            found += self._told
            self._told = []
            now_s = time.monotonic()
            found += self._silences(now_s)
            found += self._steps()
            found += self._merger.whole(now_s)
            if self._is_over(now_s):
                found += self._closing()
        return [encode(event) for event in found]

    def _speak(self) -> None:
        for word in self._wants:
            self._ending_s = self._ending_s or time.monotonic()
            for host in self.hosts:
                if not host.ended and host.started:
                    host.agent.say.remote(word)
                if not host.started:
                    host.ended = True
        self._wants = []

    def _listen(self, wait_s: float) -> None:
        """Takes what hosts have said, and asks them again."""
        now_s = time.monotonic()
        for host in self.hosts:
            if host.pending is None and host.started and not host.ended and not host.dead and now_s >= host.retry_s:
                host.pending = host.agent.take.remote(host.since, TAKE_S)
        asked = {host.pending: host for host in self.hosts if host.pending is not None}
        if not asked:
            time.sleep(wait_s)
            return
        ready, _ = self._ray.wait(list(asked), num_returns=1, timeout=wait_s)
        if ready and len(asked) > 1:
            ready, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0)
        for ref in ready:
            self._taken(asked[ref], ref)

    def _taken(self, host: FarHost, ref: Any) -> None:
        host.pending = None
        try:
            taken = answer_of(host.part.host, self._ray.get(ref), Taken)
        except BrickyardError as error:
            host.dead = True
            host.why = host.why or HostAsWritten(text=str(error))
            return
        except self._ray.exceptions.ActorDiedError:
            host.dead = True
            host.why = host.why or HostDied()
            return
        except self._ray.exceptions.RayError:
            host.retry_s = time.monotonic() + 0.2  # cut off for a moment, or for longer: silence decides
            return
        if taken.lines or taken.code is not None:  # of the worker, not of our process beside it
            host.heard_s = time.monotonic()
        host.since = taken.next
        for line in taken.lines:
            self._heard(host, line)
        if taken.code is not None:
            host.code = taken.code
            host.ended = True
            errors = [line for line in taken.errors.splitlines() if line.strip()]
            if errors and host.why is None:
                host.why = HostAsWritten(text=errors[-1].removeprefix("brickyard-worker: "))

    def _heard(self, host: FarHost, line: str) -> None:
        said = heard(line)
        if said is None:
            return
        if isinstance(said, Word):
            self._word(host, said)
            return
        if isinstance(said, Start):
            host.start = said
            if not self._told_start and all(other.start is not None for other in self.hosts if not other.dead):
                self._told_start = True
                starts = {other.part.host: other.start for other in self.hosts if other.start is not None}
                self._told.append(merged_start(self._division.parts, starts, phases_of(self._division.plan)))
        if isinstance(said, End):
            if said.message is not None:
                host.why = HostEnded(reason=said.message)
            if host.is_watched and host.watched is None:
                host.watched = host.agent.watched.remote()
        self._told += self._merger.hear(host.part.host, said, time.monotonic())

    def _word(self, host: FarHost, said: Word) -> None:
        name = host.part.host
        match said:
            case WorkerReady():
                host.ready = host.part.phases[said.phase]
            case ClockState():
                host.clock = said
            case WorkerBegan():
                self._began(host, said)
            case RecordLost():
                self._note(f"{name}: keeps no copy of its record: {said.message}")
                host.kept = ""
            case HeadLost():
                host.why = HostAbandoned(silent_ns=said.silent_ns)

    def _began(self, host: FarHost, said: WorkerBegan) -> None:
        name, phase = host.part.host, host.part.phases[said.phase]
        late_ns, moved_ns = said.late_ns, said.clock_moved_ns
        if host.start is not None and host.start.engine == "sim":  # its clock is virtual, and nobody's
            late_ns = moved_ns = 0
        self._told.append(
            HostBegan(
                host=name,
                phase=phase,
                instant_unix_ns=self._instant(host, phase),
                late_ns=late_ns,
                clock_moved_ns=moved_ns,
            )
        )
        if late_ns > self._wishes.tolerance_ns:
            self._take_late(StartLate(host=name, late_ns=late_ns, allowed_ns=self._wishes.tolerance_ns))
        if abs(moved_ns) > self._wishes.tolerance_ns:
            self._say(f"{name}: its clock was set by {moved_ns / 1e6:.1f} ms during the phase")

    def _take_late(self, late: StartLate) -> None:
        """A start that is looser than was allowed is said, and may be refused."""
        self._say(words_of(late))
        if self._wishes.late == "refuse" and self._refused is None:
            self._refused = StartRefused(late=late)
            self.stop()

    def _silences(self, now_s: float) -> list[Event]:
        """Hosts that fell silent, or whose worker ended before its load did; and those that are heard again."""
        found: list[Event] = []
        for host in self.hosts:
            name = host.part.host
            if not host.started:
                continue
            has_end = name in self._merger.ends
            silent_s = now_s - host.heard_s
            if host.lost_s is not None:
                if not host.dead and not host.ended and silent_s < 1.0:
                    host.lost_s = None
                    self._merger.back(name)
                    self._say(f"{name}: answers again")
                    found.append(HostBack(host=name, at_ns=self._merger.last_ns))
                continue
            if has_end or (not host.dead and not host.ended and silent_s < SILENT_S):
                continue
            reason = _why_lost(host, silent_s)
            host.dead = host.dead or host.ended
            host.lost_s = now_s
            host.why = reason
            self._merger.gone(name)
            streams = list(dict.fromkeys(stream for phase in host.part.names for stream in phase))
            self._say(f"{name}: lost: {words_of(reason)}; its share is missing: {', '.join(streams)}")
            found.append(HostLost(host=name, at_ns=self._merger.last_ns, reason=reason, streams=streams))
            if self._wishes.lost == "end" or self._next_phase == 0:
                self._note(f"ending the run without {name}")
                self.stop()
        return found

    def _live(self) -> list[FarHost]:
        return [
            host
            for host in self.hosts
            if host.lost_s is None and not host.dead and host.part.host not in self._merger.ends
        ]

    def _steps(self) -> list[Event]:
        """Starts the next host that has to wait for another, or the next phase for which all are ready."""
        live = self._live()
        if self._ending_s is not None:
            return []
        if self._queue:
            if all(host.ready is not None for host in live if host.started):
                self._start(self._queue.pop(0))
            return []
        phase = self._next_phase
        if phase >= len(self._phases) or not live:
            return []
        before = [host for host in live if phase - 1 in host.part.phases]
        if phase and any(host.ready in (None, phase - 1) and len(host.part.phases) > 1 for host in before):
            return []
        having = [host for host in live if phase in host.part.phases]
        if not having:
            self._next_phase += 1
            return []
        if any(host.ready != phase for host in having) or not self._told_start:
            return []
        if phase and not self._merger.has_ended(phase - 1):
            return []
        self._next_phase += 1
        return self._go(phase, having)

    def _begin_watches(self, hosts: list[FarHost]) -> None:
        """Before the first phase of each, while clocks are compared."""
        for host in hosts:
            if not host.is_watched and host.known is not None and not host.known.why:
                host.is_watched = True
                host.agent.watch.remote()

    def _go(self, phase: int, hosts: list[FarHost]) -> list[Event]:
        """Compares clocks, and names the instant to each host in its own."""
        for host in hosts:
            host.offset = None
        self._begin_watches(hosts)
        self._compare_clocks(hosts)
        known = [host for host in hosts if host.offset is not None]
        for host in hosts:
            if host.offset is None:
                host.why = HostClockUnknown()
                host.agent.say.remote("abandon")
        found: list[Event] = []
        told = self._fleet_event()
        is_first = phase == 0 or not self._begun
        if is_first or not told.within_tolerance:
            found.append(told)
            if not told.within_tolerance:
                self._take_late(StartLate(late_ns=told.bound_ns, allowed_ns=told.tolerance_ns))
                if self._refused is not None:
                    return found
        if is_first:
            kept = encode(told)
            for host in known:
                host.agent.say.remote(f"keep {kept}")
        self._begun.add(phase)
        instant_ns = self._now_ns() + LEAD_NS
        for host in known:
            own_ns = instant_ns + (host.offset.offset_ns if host.offset else 0)
            host.instants[phase] = host.agent.begin.remote(host.part.phases.index(phase), own_ns)
        return found

    def _now_ns(self) -> int:
        """Real time as it was set when the run was begun, and on from there."""
        return time.monotonic_ns() + self._apart_ns

    def _instant(self, host: FarHost, phase: int) -> int:
        """The start as the host's worker was told it, by the clock there; 0 where the host cannot say it any more."""
        try:
            return int(self._ray.get(host.instants[phase], timeout=TRIP_S))
        except (KeyError, self._ray.exceptions.RayError):
            return 0

    def _compare_clocks(self, hosts: list[FarHost]) -> None:
        """Round trips, one host after another, until all clocks are known well or the time for it is over."""
        trips: dict[str, list[tuple[int, int, int]]] = {host.part.host: [] for host in hosts}
        until_s = time.monotonic() + max(CLOCKS_S, CLOCKS_A_HOST_S * len(hosts))
        left = list(hosts)
        while left and time.monotonic() < until_s:
            for host in list(left):
                mine = trips[host.part.host]
                try:
                    sent_ns = self._now_ns()
                    reading_ns = self._ray.get(host.agent.now.remote(), timeout=TRIP_S)
                    mine.append((sent_ns, reading_ns, self._now_ns()))
                except self._ray.exceptions.RayError:
                    left.remove(host)
                    continue
                host.heard_s = time.monotonic()
                host.offset = offset_of(mine)
                well = WELL_KNOWN_SHARE * self._wishes.tolerance_ns
                if len(mine) >= MOST_TRIPS or (len(mine) >= TRIPS and host.offset.bound_ns <= well):
                    left.remove(host)
            self._listen(0.0)  # nobody falls silent meanwhile, on either side

    def _fleet_event(self) -> Fleet:
        offsets = [host.offset for host in self.hosts if host.offset is not None]
        bound_ns = start_bound(offsets)
        return Fleet(
            share=self._wishes.share,
            bound_ns=bound_ns,
            tolerance_ns=self._wishes.tolerance_ns,
            within_tolerance=bound_ns <= self._wishes.tolerance_ns,
            hosts=[self._fleet_host(host) for host in self.hosts],
        )

    def _fleet_host(self, host: FarHost) -> FleetHost:
        from brickyard.fleet.agent import OTHER_CORES

        offset = host.offset or Offset(0, 0, 0)
        return FleetHost(
            host=host.part.host,
            targets=host.part.whole_targets,
            seed=host.plan.seed,
            offset_ns=offset.offset_ns,
            bound_ns=offset.bound_ns,
            round_trip_ns=offset.round_trip_ns,
            synchronized=host.clock.synchronized,
            max_error_ns=host.clock.max_error_ns,
            core_free=host.facts.cpus >= OTHER_CORES,
            facts=host.facts.facts,
        )

    def _is_over(self, now_s: float) -> bool:
        if self._abandoned_s is not None and now_s - self._abandoned_s > ABANDON_S:
            return True
        for host in self.hosts:
            if host.part.host in self._merger.ends or host.dead or (host.ended and not host.started):
                continue
            if host.lost_s is not None and now_s - host.heard_s > RETURN_S:
                continue
            return False
        return True

    def _closing(self) -> list[Event]:
        found = self._merger.whole(time.monotonic(), all_of_it=True)
        ends = self._merger.ends
        missing = [host for host in self.hosts if host.part.host not in ends and host.started]
        told = [(host, ends[host.part.host].outcome) for host in self.hosts if host.part.host in ends]
        failed = [host for host, outcome in told if outcome is RunOutcome.FAILED]
        stopped = [host for host, outcome in told if outcome is RunOutcome.INTERRUPTED]
        if not missing:
            self._forget()
        outcome = RunOutcome.DONE
        message: EndReason | None = None
        if self._refused is not None:
            outcome, message = RunOutcome.FAILED, self._refused
        elif missing:
            outcome = RunOutcome.FAILED
            named = [HostNamed(host=host.part.host, reason=host.why or HostNeverBegan()) for host in missing]
            message = HostsMissing(ended=len(ends), hosts=len(self.hosts), missing=named)
        elif failed:
            outcome, message = RunOutcome.FAILED, _hosts_failed(failed)
        elif stopped or len(ends) < len(self.hosts):
            by_itself = [host for host in stopped if host.why is not None]
            outcome = RunOutcome.FAILED if by_itself and self._ending_s is None else RunOutcome.INTERRUPTED
            message = _hosts_failed(by_itself) if by_itself else None
        for host in self.hosts:
            end = ends.get(host.part.host)
            found.append(
                HostEnd(
                    host=host.part.host,
                    outcome=end.outcome if end else RunOutcome.FAILED,
                    message=host.why,
                    kept=host.kept if missing else "",
                )
            )
        self._finished = True
        self._take_watches()
        self.close()
        found.append(End(end_ns=self._merger.last_ns, outcome=outcome, message=message))
        return found

    def _forget(self) -> None:
        """Has the hosts remove their records; one that stays is known as collected already."""
        with suppress(Exception):
            asked = [host.agent.forget.remote() for host in self.hosts if host.started and not host.dead]
            self._ray.get(asked, timeout=SILENT_S)

    def close(self) -> None:
        """Ends what still lives on the hosts; those that are lost end by themselves."""
        ending = []
        for host in self.hosts:
            if not host.dead:  # a worker that hangs is killed by our process beside it, if that can be reached
                with suppress(Exception):
                    ending.append(host.agent.end.remote())
        if ending:
            with suppress(Exception):
                self._ray.wait(ending, num_returns=len(ending), timeout=SILENT_S)
        for host in self.hosts:
            with suppress(Exception):
                self._ray.kill(host.agent)


def _why_lost(host: FarHost, silent_s: float) -> HostReason:
    if host.dead:
        return host.why or HostDied()
    if host.ended:
        return HostWorkerEnded(exit_code=host.code, after=host.why)
    return HostSilent(silent_ns=round(silent_s * 1e9))


def _hosts_failed(hosts: Iterable[FarHost]) -> HostsFailed:
    return HostsFailed(hosts=[HostNamed(host=host.part.host, reason=host.why) for host in hosts])


def _read(text: str, kind: type[Told]) -> Told | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return None
