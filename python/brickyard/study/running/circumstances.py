"""Duty: the facts that belong to a run (host, target, what else happened meanwhile) and the warnings that follow.

Refusal: no fact is gathered here; `brickyard.facts` knows where each one stands.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from msgspec import structs

from brickyard import _core, bricks, facts
from brickyard.analysis.databases import pgbench, replay_runs, replay_warnings
from brickyard.analysis.figures.hosts import fleet_of, host_note, host_warnings
from brickyard.analysis.figures.moments import planned_ns
from brickyard.analysis.figures.reach import may_read, read_places
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.figures.stalls import stalls
from brickyard.analysis.figures.totals import asked_stream
from brickyard.analysis.figures.trimmed import trimmed_reads
from brickyard.analysis.judging import caveats
from brickyard.analysis.judging.alike import hosts_alike
from brickyard.analysis.judging.judged import Judged, VolatileCaches
from brickyard.analysis.judging.steadiness import steadiness_warnings
from brickyard.analysis.judging.summary import interval_sums
from brickyard.bricks import caches
from brickyard.facts import blank
from brickyard.schema import (
    Event,
    HangEvent,
    HostKnown,
    HostSheet,
    HostWatched,
    PageCache,
    PhaseEnd,
    PhaseStart,
    PowerCut,
    RunFacts,
    RunWarning,
    Start,
    TargetSheet,
    WatchSheet,
    asks_databases,
    warned,
)
from brickyard.schema.conditions import ANY_AT_WORK
from brickyard.schema.plan import OtherPlan, Plan
from brickyard.schema.sheets import not_known
from brickyard.store import READS, WRITES, Interval, Record, Store
from brickyard.study.running.sizes import unknown_area
from brickyard.watch.beside import NoWatch, WatchBeside, beside

NOT_OF_DATABASES = {
    "blank_blocks",
    "cache_unknown",
    "none_blank",
    "smaller_than_cache",
    "trimmed_reads",
    "unwritten",
    "unwritten_unknown",
}
NOT_OF_REPLAYS = {*NOT_OF_DATABASES, "volatile_write_cache"}
SAMPLE_EVERY_S = 1.0  # a sample reads a few open files; more often would tell no more
POSSIBLE_END_EVERY_S = 0.25  # of a run that is over by its plan; the device's own counters are no finer than some ms
POSSIBLE_ENDS_MAX = 240  # a minute of them; a driver reads the rest of its log for 5 s


def collect(targets: list[str]) -> RunFacts:
    """Facts about the host and each target, taken once before the first run of a study. Where there is no target, what
    is measured lies on another host; the generator's host still counts."""
    host = facts.host_facts(facts.Roots())
    return RunFacts(host=host, targets=[facts.collect_target(target) for target in targets])


def looked_at(known: RunFacts, plan: object) -> RunFacts:
    """With what blocks of devices hold that the run may read, where no header tells all: right before it, as the run
    before it may have trimmed some."""
    if not isinstance(plan, Plan) or not any(sheet.kind == "block" for sheet in known.targets):
        return known
    return structs.replace(known, targets=[_looked_at(sheet, plan, n) for n, sheet in enumerate(known.targets)])


def _looked_at(sheet: TargetSheet, plan: Plan, target: int) -> TargetSheet:
    area = unknown_area(sheet.path) if sheet.kind == "block" and may_read(plan, target) else None
    if area is None:
        return sheet
    places = [(area.start_bytes + low, area.start_bytes + high) for low, high in read_places(plan, target, area.bytes)]
    return blank.keep(sheet, blank.look(sheet.path, places))


class Watching:
    """The counters of the host and the devices from the first phase of a run to the end of its last.

    Filling comes before, so that what a device has carried can be held against what was asked of it. A run may need
    seconds after its last phase, as a replay whose drivers read the rest of their log: what happens then is not
    counted. So from the planned end on, counters are read several times a second, and `results` takes the first ones
    that were read after the last phase had ended.
    """

    def __init__(
        self,
        targets: list[str],
        slow: WatchBeside | NoWatch,
        *,
        are_servers: bool = False,
        planned_ns: int | None = None,
    ) -> None:
        self._watches = [facts.Watch(target) for target in targets]
        self._slow = slow
        self._servers = [facts.ServerIo(target) for target in targets] if are_servers else []
        self._sampled_s: float | None = None
        self._planned_ns = planned_ns
        self._start_unix_ns = 0
        self._phase_ns = 0
        self._began_ns: int | None = None
        """When the first phase began, by the monotonic clock; all instants of the run are its own."""
        self._counting: list[facts.Watch | facts.ServerIo] = [*self._watches, *self._servers]
        self._possible_ends_ns: list[int] = []
        self._is_stopped = False
        self._ended_ns: int | None = None
        """If that was before the stop."""

    def __enter__(self) -> Watching:
        # Servers are looked at before and after their devices: what falls between is nobody else's.
        for server in self._servers:
            server.start()
        for watch in self._watches:
            watch.__enter__()
        if isinstance(self._slow, WatchBeside):
            self._slow.begin(self._planned_ns)
        self._sampled_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def event(self, event: Event) -> None:
        if isinstance(event, Start):
            self._start_unix_ns = event.start_unix_ns
        if isinstance(event, PhaseStart) and self._sampled_s is None:
            self.__enter__()
            # Drivers are told an instant that is still to come.
            lead_ns = max(0, self._start_unix_ns + event.start_ns - time.time_ns())
            self._began_ns, self._phase_ns = time.monotonic_ns() + lead_ns, event.start_ns
        else:
            self.look()

    def look(self) -> None:
        """Meant to be called often; samples once a second, and not before the begin."""
        if self._sampled_s is not None and time.monotonic() - self._sampled_s >= SAMPLE_EVERY_S:
            self._sampled_s = time.monotonic()
            for watch in self._watches:
                watch.sample()
        self._look_for_end()

    def _look_for_end(self) -> None:
        if self._began_ns is None or self._planned_ns is None or self._is_stopped:
            return
        last_ns = self._possible_ends_ns[-1] if self._possible_ends_ns else 0
        now_ns = time.monotonic_ns()
        is_over = now_ns >= self._began_ns + self._planned_ns
        is_due = now_ns - last_ns >= POSSIBLE_END_EVERY_S * 1e9
        if is_over and is_due and len(self._possible_ends_ns) < POSSIBLE_ENDS_MAX:
            # As at the stop: devices before servers.
            for one in self._counting:
                one.may_end()
            self._possible_ends_ns.append(now_ns)

    def _end_with(self, record: Record) -> None:
        """Leaves out what came after the last phase."""
        ends = record.of(PhaseEnd)
        if self._began_ns is None or not ends:
            return
        end_ns = self._began_ns + ends[-1].end_ns - self._phase_ns
        chosen = next((number for number, at_ns in enumerate(self._possible_ends_ns) if at_ns >= end_ns), None)
        if chosen is not None:
            self._ended_ns = self._possible_ends_ns[chosen]
            for one in self._counting:
                one.end_at(chosen)

    def stop(self) -> None:
        """Ends the watch; what it saw can be asked for afterwards."""
        self._is_stopped = True
        if isinstance(self._slow, WatchBeside):
            self._slow.stop()
        for watch in self._watches:
            watch.stop()
        for server in self._servers:
            server.stop()

    def results(self, record: Record) -> list[WatchSheet]:
        if self._sampled_s is None:
            return []
        self._end_with(record)
        if self._servers:
            sheets = [watch.result(self._of_servers(watch)) for watch in self._watches]
        else:
            sheets = [watch.result(ours(record, target)) for target, watch in enumerate(self._watches)]
        for sheet in sheets:
            if isinstance(self._slow, WatchBeside):
                sheet.slow = self._slow.seen(self._ended_ns)
            else:
                sheet.unknown["slow"] = not_known(self._slow.reason)
        return sheets

    def _of_servers(self, watch: facts.Watch) -> facts.OwnIo | facts.NotCounted:
        """What all servers of the run did on the devices of one of them, each server once."""
        found: dict[int, facts.ServerCounts] = {}
        for server, other in zip(self._servers, self._watches, strict=True):
            if watch.top_devices() & other.top_devices():
                told = server.told()
                if isinstance(told, facts.NotCounted):
                    return told
                found[told.pid] = told
        return facts.OwnIo(
            read_bytes=sum(told.read_bytes for told in found.values()),
            write_bytes=sum(told.write_bytes for told in found.values()),
            dirty_bytes=max((told.dirty_bytes for told in found.values()), default=0),
            whose="the server's",
        )


def watch_beside(known: RunFacts, plan: Plan | OtherPlan) -> WatchBeside | NoWatch:
    """One watch of all devices that the targets lie on."""
    numbers = dict.fromkeys(node.number for sheet in known.targets for node in facts.tops(sheet.stack))
    planned = planned_ns(plan)
    return beside([number for number in numbers if number], planned / 1e9 if planned is not None else None)


def ours(record: Record, target: int) -> facts.OwnIo:
    """What the run itself asked of one target, warm-up included, to be told apart from what others did."""

    def is_of_target(item: Interval) -> bool:
        stream = asked_stream(record, item.phase, item.stream)
        return (stream.target if stream else 0) == target

    asked = [item for item in record.intervals if item.measure == "service" and is_of_target(item)]
    reads = [item for item in asked if item.operation in READS]
    writes = [item for item in asked if item.operation in WRITES]
    return facts.OwnIo(
        read_bytes=sum(item.bytes for item in reads),
        read_requests=sum(item.requests for item in reads),
        write_bytes=sum(item.bytes for item in writes),
        write_requests=sum(item.requests for item in writes),
    )


def _written(record: Record) -> int:
    return sum(item.bytes for item in record.intervals if item.measure == "service" and item.operation in WRITES)


def _volatile_caches(record: Record) -> list[VolatileCaches]:
    """The modelled targets with caches that a power cut empties."""
    modelled = bricks.resolved_of(record.info.targets, record.info.asked)
    found = zip(record.info.targets, map(caches.volatile, modelled), strict=False)
    return [VolatileCaches(target, told) for target, told in found if told]


@dataclass(frozen=True)
class HostSeen:
    """What one host of a run on many said of itself: its targets by their numbers in the run, how its engine began."""

    host: str
    targets: list[int]
    start: Start | None
    known: HostKnown | None
    """None where its targets are models."""
    watched: HostWatched | None = None


def of_hosts(record: Record, seen: Sequence[HostSeen]) -> list[RunWarning]:
    """What a run on each host alone would be warned of."""
    found = {}
    for one in seen:
        known = one.known or HostKnown(host=one.host)
        sheets = one.watched.targets if one.watched else []
        for target, place, sheet in zip(one.targets, known.targets, sheets, strict=False):
            sheet.foreign = facts.foreign_of(place, sheet, ours(record, target))
        found[one.host] = Judged(
            host=known.sheet or HostSheet(),
            targets=known.targets,
            watches=sheets,
            start=one.start,
            write_bytes=sum(ours(record, target).write_bytes for target in one.targets),
            plan=record.info.plan,
            store=known.records,
        )
    return hosts_alike(found)


def unseen_of(seen: Sequence[HostSeen]) -> dict[str, str]:
    """Hosts beside whose load nobody looked, and why; models have nothing beside them."""
    whys = {
        one.host: one.known.why or (one.watched.why if one.watched else "the load did not begin")
        for one in seen
        if one.known is not None
    }
    return {host: why for host, why in whys.items() if why}


def warnings(
    store: Store, record: Record, watched: list[WatchSheet], seen: Sequence[HostSeen] = (), notes: Sequence[str] = ()
) -> list[RunWarning]:
    """What the reader must know before believing a figure of this run; `seen` and `notes` of one on many hosts."""
    info = record.info
    is_far = fleet_of(record) is not None or bool(seen)
    found = caveats.warnings(
        Judged(
            host=info.facts.host or HostSheet(),
            targets=info.facts.targets,
            watches=watched,
            start=info.start,
            intervals=interval_sums(record),
            sent={end.phase: sent(record, end.phase) for end in record.of(PhaseEnd)},
            stalls=stalls(record),
            phase_ends=record.of(PhaseEnd),
            hangs=record.of(HangEvent),
            trimmed_reads=trimmed_reads(record),
            write_bytes=_written(record),
            power_cuts=record.of(PowerCut),
            page_caches=record.of(PageCache),
            power_cuts_ns=bricks.power_cuts_ns(info.targets, info.asked),
            read_caches_bytes=[caches.to_read_bytes(brick) for brick in bricks.resolved_of(info.targets, info.asked)]
            if info.is_modelled
            else [],
            volatile_caches=_volatile_caches(record),
            failures_ns=bricks.failures_ns(info.targets, info.asked),
            plan=info.plan,
            is_of_curve=info.marks.offered_per_s is not None or info.marks.searched_per_s is not None,
            store=facts.store_facts(str(store.place)),
            is_release_build=_core.is_release_build(),
        ),
        caveats.OF_RUN if is_far and not replay_runs.is_replay(record) else caveats.RULES,
    )
    found += of_hosts(record, seen)
    told = [host_note(text) for text in notes]
    if replay_runs.is_replay(record):
        # A log's load is not meant to be steady, and what the server's cache takes off its disks is the server's merit.
        found = [item for item in found if item.id not in NOT_OF_REPLAYS]
        judged = [*host_warnings(record), *replay_warnings.replay_warnings(record, watched)]
    else:
        unseen = unseen_of(seen) if seen else None
        # Other tools print one interval a phase, and say so.
        steadiness = [] if info.is_by_tool else steadiness_warnings(record)
        judged = [*host_warnings(record, unseen), *steadiness, *pgbench.pgbench_warnings(record)]
        if asks_databases(info.plan):
            found = [item for item in found if item.id not in NOT_OF_DATABASES]
    return sorted([*judged, *found, *told], key=lambda item: item.severity != "warning")


def invalid_condition(condition: str, reason: str) -> RunWarning:
    """The run does not stand for what it was to be measured in."""
    return warned(
        "condition",
        "error",
        "This run does not show the condition {condition}: {why}.",
        "Measure for a shorter time, or let the work go slower with --rebuild-rate."
        if condition in ANY_AT_WORK
        else "Wait until the array is at rest (`brickyard array show`), and measure again.",
        reason=reason,
        condition=condition.replace("_", " "),
        why=reason,
    )
