"""Duty: loading as a load: one tile a transaction, as the study's loader did, every transaction timed.

A closed loop: each client makes a tile, calls `terraserver.load`, and takes the next one when that has been committed.
It tells the events that every run tells. Where tiles are missing it brings those; where all are there, a new version
of each.

Refusal: what the call does is in `terraserver.sql`; nothing here is faster than one row a transaction.
"""

from __future__ import annotations

import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brickyard import _core
from brickyard.databases.connect import connected, spoken
from brickyard.databases.jpeg import base_pictures, make_tile, mean_tile_bytes, pools, tile_key
from brickyard.databases.layout import SCALES, Tiles
from brickyard.databases.terraserver import Brick, prepare
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.schema import (
    SCHEMA,
    Bound,
    CellEvent,
    CellEventMeasures,
    ClockFacts,
    Counted,
    Cpu,
    Duration,
    End,
    Engine,
    EngineOfLoader,
    ErrorEvent,
    ErrorKind,
    Event,
    Interval,
    IoPath,
    Measure,
    PhaseEnd,
    PhaseReason,
    PhaseStart,
    RunOutcome,
    Start,
    TargetFacts,
    TargetKind,
    encode,
    other_end,
)
from brickyard.schema.plan import (
    ClosedPace,
    OtherKind,
    OtherPhase,
    OtherPlan,
    OtherStream,
    SequentialAddress,
    SizeShare,
)
from brickyard.store import Store
from brickyard.study.replays.run import local_volume
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec

if TYPE_CHECKING:
    import psycopg

# What decides how fast one row a transaction can be.
SETTINGS = ("shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "wal_buffers", "max_wal_size")
INTERVAL_NS = 1_000_000_000
OPERATION = Counted.LOAD
CALL = "select terraserver.load(%s::int2, %s::int2, %s::int4, %s::int4, %s::int2, %s::int4, %b)"
BOUND_SHARE = 0.9
"""Of one core, which is all that Python's threads have, or of the threads of pgbench: above it, these are the limit."""
MOST_ERRORS = 20  # that are told one by one; all are counted


@dataclass(frozen=True)
class LoadSpec:
    """What is loaded, by how many clients of each brick, and for how long at most."""

    dsns: list[str]
    bricks: list[Brick]
    clients: int
    duration_ns: int | None

    def plan(self) -> OtherPlan:
        several = len(self.dsns) > 1
        streams = [
            OtherStream(
                name=f"load on brick {number}" if several else OPERATION,
                target=number,
                operations={OPERATION: 100.0},
                request=[SizeShare(size=round(mean_tile_bytes(theme)), share=100 / len(SCALES)) for theme in SCALES],
                address=SequentialAddress(apart=False),
                region="0..100%",
                workers=self.clients,
                depth=1,
                pace=ClosedPace(),
            )
            for number in range(len(self.dsns))
        ]
        lasts = Duration(self.duration_ns) if self.duration_ns else None
        return OtherPlan(
            kind=OtherKind.LOAD,
            title="TerraServer's loader, one tile a transaction",
            source="Barclay, Chong, Gray: A Quick Look at SATA Disk Performance, MSR-TR-2003-70",
            seed=self.bricks[0].seed,
            interval=Duration(INTERVAL_NS),
            load={"clients": self.clients, **self.bricks[0].described()},
            phase=[OtherPhase(name=OPERATION, duration=lasts, stream=streams)],
        )


def load_measured(store: Store, listener: Listener, interrupt: Interrupt, spec: LoadSpec) -> RunResult:
    """One run, in the store."""
    if not 1 <= spec.clients <= 64:
        raise BadInputError(f"--clients {spec.clients}: from 1 to 64")
    for theme in SCALES:
        base_pictures(theme)
    pools()
    clients, targets = [], []
    for number, (dsn, brick) in enumerate(zip(spec.dsns, spec.bricks, strict=True)):
        with connected(dsn) as connection:
            prepare(connection, brick, spoken(dsn))
            work = _Work(connection, brick)
            targets.append(_target(connection, spoken(dsn)))
        clients += [_Client(number, dsn, work) for _ in range(spec.clients)]
    run = RunSpec(
        profile="terraserver-load",
        plan=spec.plan(),
        targets=[spoken(dsn) for dsn in spec.dsns],
        places=tuple(
            place for target in targets if (place := local_volume(target.data_directory, target.server_address))
        ),
        start=lambda: MeasuredLoad(clients, targets, spec.duration_ns),
    )
    return Runner(store, listener, interrupt).run(run)


def _target(connection: psycopg.Connection[Any], name: str) -> TargetFacts:
    row = connection.execute(
        "select pg_database_size(current_database()), host(inet_server_addr()), current_setting('server_version')"
    ).fetchone()
    settings = [
        (name, told[0]) for name in SETTINGS if (told := connection.execute(f"show {name}".encode()).fetchone())
    ]
    place = connection.execute("select setting from pg_settings where name = 'data_directory'").fetchone()
    size, address, version = row if row else (0, None, "")
    directory = place[0] if place else None
    return TargetFacts(
        path=name,
        kind=TargetKind.POSTGRESQL,
        size_bytes=size,
        version=version,
        server_address=address,
        data_directory=directory,
        is_local=local_volume(directory, address) is not None,
        settings=settings,
    )


class _Work:
    """The units of one brick that are to be loaded, handed out to its clients."""

    def __init__(self, connection: psycopg.Connection[Any], brick: Brick) -> None:
        there = {number for (number,) in connection.execute("select unit from terraserver.loaded").fetchall()}
        units = list(enumerate(brick.layout.units(brick.number)))
        missing = [(number, unit) for number, unit in units if number not in there]
        self.brick, self.lock = brick, threading.Lock()
        self.is_new = bool(missing)
        self._left = iter(missing or units)

    def next(self) -> tuple[int, tuple[Tiles, ...]] | None:
        with self.lock:
            return next(self._left, None)


@dataclass
class _Tally:
    """What one brick's clients did in the interval under way."""

    times_ns: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    errors: int = 0


class _Client:
    """One connection and its thread."""

    def __init__(self, brick: int, dsn: str, work: _Work) -> None:
        self.brick, self.dsn, self.work = brick, dsn, work

    def tiles(self) -> Iterator[tuple[int | None, tuple[int, ...], bytes]]:
        """Tile after tile; with the last one of a unit that was missing, the unit's number."""
        seed = self.work.brick.seed
        while (taken := self.work.next()) is not None:
            number, unit = taken
            left = sum(part.count for part in unit)
            for part in unit:
                for x, y in part.addresses():
                    left -= 1
                    key = tile_key(seed, part.theme, part.scale, part.scene, x, y, 1 if self.work.is_new else 2)
                    where = (part.theme, part.scale, x, y, part.scene, part.image)
                    yield number if self.work.is_new and not left else None, where, make_tile(part.theme, key)


class MeasuredLoad:
    """A load under way, with the face of the core's runs."""

    def __init__(self, clients: Sequence[_Client], targets: Sequence[TargetFacts], duration_ns: int | None) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._tallies = [_Tally() for _ in targets]
        self._states: Counter[str] = Counter()
        self._errors: list[ErrorEvent] = []
        self._lost = ""
        self._begun_ns = time.monotonic_ns()
        self._boundary_ns, self._index = 0, 0
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._first_usage = self._usage
        self._busy = self._most_busy = 0.0
        self._duration_ns = duration_ns
        self._ended = self._was_stopped = False
        start = Start(
            schema=SCHEMA,
            start_unix_ns=time.time_ns(),
            engine=Engine.POSTGRESQL,
            engine_reason=EngineOfLoader(clients=len(clients) // len(targets)),
            io=IoPath.NO,
            clock=ClockFacts(source="CLOCK_MONOTONIC", read_cost_ns=0.0),
            targets=list(targets),
        )
        self._pending: list[Event] = [start, PhaseStart(phase=0, name=OPERATION, start_ns=0)]
        self._threads = [threading.Thread(target=self._drive, args=(client,), daemon=True) for client in clients]
        for thread in self._threads:
            thread.start()

    def events(self, timeout_ms: int) -> list[str]:
        """What has happened; waits so long if nothing has."""
        deadline_ns = time.monotonic_ns() + timeout_ms * 1_000_000
        while not self._pending and not self._ended:
            now_ns = time.monotonic_ns() - self._begun_ns
            if self._duration_ns is not None and now_ns >= self._duration_ns:
                self._stop.set()
            if not any(thread.is_alive() for thread in self._threads):
                self._end()
            elif now_ns >= self._boundary_ns + INTERVAL_NS:
                self._close_interval()
            elif time.monotonic_ns() >= deadline_ns:
                break
            else:
                time.sleep(0.005)
        told, self._pending = self._pending, []
        return [encode(event) for event in told]

    def stop(self) -> None:
        self._was_stopped = True
        self._stop.set()

    abandon = stop

    def finished(self) -> bool:
        return self._ended and not self._pending

    def _drive(self, client: _Client) -> None:
        try:
            with connected(client.dsn) as connection:
                for unit, where, picture in client.tiles():
                    if self._stop.is_set():
                        return
                    self._one(connection, client.brick, where, picture)
                    if unit is not None:
                        tiles = sum(part.count for part in client.work.brick.layout.units(client.brick)[unit])
                        connection.execute(
                            "insert into terraserver.loaded values (%s, %s, 0) on conflict do nothing", (unit, tiles)
                        )
        except (BrickyardError, OSError) as error:
            with self._lock:
                self._lost = self._lost or one_line(error)

    def _one(self, connection: psycopg.Connection[Any], brick: int, where: tuple[int, ...], picture: bytes) -> None:
        import psycopg

        begun_ns = time.monotonic_ns()
        try:
            connection.execute(CALL, (*where, picture))
        except psycopg.Error as error:
            self._count_error(brick, error, time.monotonic_ns() - self._begun_ns)
            if connection.broken:
                raise
            return
        taken_ns = time.monotonic_ns() - begun_ns
        with self._lock:
            tally = self._tallies[brick]
            tally.times_ns[taken_ns] += 1
            tally.bytes += len(picture)

    def _count_error(self, brick: int, error: psycopg.Error, at_ns: int) -> None:
        state = error.sqlstate or "08006"  # connection_failure, which libpq tells without a state
        with self._lock:
            self._tallies[brick].errors += 1
            self._states[state] += 1
            if len(self._errors) < MOST_ERRORS:
                self._errors.append(
                    ErrorEvent(
                        at_ns=at_ns,
                        phase=0,
                        stream=brick,
                        operation=OPERATION,
                        offset_bytes=0,
                        request_bytes=0,
                        kind=ErrorKind.SQLSTATE,
                        text=f"{state}: {one_line(error)}",
                    )
                )

    def _close_interval(self, *, is_last: bool = False) -> None:
        """Tells what was done since the last boundary; the last interval may be shorter."""
        now_ns = time.monotonic_ns() - self._begun_ns
        end_ns = now_ns if is_last else self._boundary_ns + INTERVAL_NS
        with self._lock:
            tallies, self._tallies = self._tallies, [_Tally() for _ in self._tallies]
            errors, self._errors = self._errors, []
        usage = resource.getrusage(resource.RUSAGE_SELF)
        user_ns = int((usage.ru_utime - self._usage.ru_utime) * 1e9)
        system_ns = int((usage.ru_stime - self._usage.ru_stime) * 1e9)
        self._usage = usage
        span_ns = max(end_ns - self._boundary_ns, 1)
        busy = min((user_ns + system_ns) / span_ns, 1.0)
        if not is_last or span_ns > INTERVAL_NS // 4:  # a stub of an interval says little
            self._most_busy = max(self._most_busy, busy)
        self._pending += errors
        self._pending.append(
            Interval(
                phase=0,
                index=self._index,
                start_ns=self._boundary_ns,
                end_ns=end_ns,
                warmup=False,
                drain=False,
                cells=[_cell(n, tally) for n, tally in enumerate(tallies) if tally.times_ns or tally.errors],
                cpu=Cpu(user_ns=user_ns, system_ns=system_ns),
                loop_busy_share=busy,
            )
        )
        self._boundary_ns, self._index = end_ns, self._index + 1

    def _end(self) -> None:
        self._close_interval(is_last=True)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        is_bound = self._most_busy > BOUND_SHARE
        self._pending += [
            PhaseEnd(
                phase=0,
                end_ns=self._boundary_ns,
                reason=self._reason(),
                unsent=0,
                outstanding=0,
                errors_by_errno=dict(self._states),
                errors_by_kind={},
                slowest=[],
                cpu=Cpu(
                    user_ns=int((usage.ru_utime - self._first_usage.ru_utime) * 1e9),
                    system_ns=int((usage.ru_stime - self._first_usage.ru_stime) * 1e9),
                ),
                generator_bound=is_bound,
                generator_bound_reason=Bound.CPU if is_bound else Bound.NO,
                loops=1,
                loop_busy_share=self._most_busy,
                loop_cpu_share=self._most_busy,
            ),
            End(end_ns=self._boundary_ns, outcome=self._outcome(), message=other_end(self._lost)),
        ]
        self._ended = True

    def _reason(self) -> PhaseReason:
        if self._was_stopped:
            return PhaseReason.INTERRUPTED
        return PhaseReason.DURATION if self._stop.is_set() else PhaseReason.DONE

    def _outcome(self) -> RunOutcome:
        if self._was_stopped:
            return RunOutcome.INTERRUPTED
        return RunOutcome.FAILED if self._lost else RunOutcome.DONE


def _cell(stream: int, tally: _Tally) -> CellEvent:
    count = sum(tally.times_ns.values())
    measures = CellEventMeasures()
    if count:
        histogram = _core.Histogram.of_counts(sorted(tally.times_ns.items()))
        p50, p99 = histogram.percentiles_ns([50.0, 99.0])
        measure = Measure(
            mean_ns=sum(value * times for value, times in tally.times_ns.items()) / count,
            p50_ns=p50,
            p99_ns=p99,
            max_ns=max(tally.times_ns),
            histogram=histogram.text(),
        )
        # A closed loop: a tile is due when the one before it is in.
        measures = CellEventMeasures(service=measure, response=measure)
    return CellEvent(
        stream=stream,
        operation=OPERATION,
        requests=count,
        bytes=tally.bytes,
        errors=tally.errors,
        depth_max=0,
        measures=measures,
    )
