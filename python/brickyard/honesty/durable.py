"""Duty: what a durable write costs on a target, by method, size and number of writers: the plans and their runs.

The methods are those of PostgreSQL's `wal_sync_method`, in the order of its `pg_test_fsync`, and a request overwrites
one place again and again, as there. The plans are made out of one stream of the honesty profiles, so that one place
says what an overwrite is.

Refusal: it judges nothing, and every run goes through the ordinary runner.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import convert
from msgspec.structs import replace

from brickyard import profiles
from brickyard.honesty.figures import DIRTY, OVERWRITE
from brickyard.honesty.measure import Declared, OneStudy
from brickyard.schema import Duration, Start
from brickyard.schema.plan import (
    EngineChoice,
    FlushCall,
    FlushEvery,
    IoMode,
    Phase,
    Plan,
    RandomAddress,
    SizeShare,
    SyncMode,
)
from brickyard.store import Store
from brickyard.study.running.aim import Aim
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, RunResult

SIZES_BYTES = (512, 4096, 8192, 16384, 65536)
PAGE_BYTES = 8192  # of PostgreSQL's log, and the size of pg_test_fsync's writes
WRITERS = (1, 8, 64)
SLOTS_BYTES = WRITERS[-1] * PAGE_BYTES  # where writers side by side put their pages
REPETITIONS = 3  # of all cells, in turn, so that what changes meanwhile falls on all of them
EACH_NS, WARMUP_NS, INTERVAL_NS = 300_000_000, 50_000_000, 50_000_000
HONESTY_NS = 1_000_000_000  # of each phase of the overwrites
DIRTY_NS = 5_000_000_000  # at most, of each amount of dirty data
ETCD_NS = 4_000_000_000
DIRECT, BUFFERED, ETCD = "durable-direct", "durable-buffered", "etcd-fdatasync"


class Method(StrEnum):
    """A value of PostgreSQL's `wal_sync_method`, in the order of pg_test_fsync."""

    OPEN_DATASYNC = "open_datasync"
    FDATASYNC = "fdatasync"
    FSYNC = "fsync"
    OPEN_SYNC = "open_sync"


OPENED = {Method.OPEN_DATASYNC: SyncMode.DSYNC, Method.OPEN_SYNC: SyncMode.SYNC}
FLUSHED = {Method.FDATASYNC: FlushCall.FDATASYNC, Method.FSYNC: FlushCall.FSYNC}


@dataclass(frozen=True)
class WriteCell:
    """One phase: so many writers, each of which makes requests of a size durable by a method."""

    method: Method
    request_bytes: int
    writers: int = 1

    @property
    def name(self) -> str:
        return f"{self.method} {self.request_bytes} B, {self.writers} at once"


def cells(method: Method, align_bytes: int) -> list[WriteCell]:
    """By size for one writer; pages of more writers where databases have them, by their usual methods."""
    sizes = [WriteCell(method, size) for size in SIZES_BYTES if size % max(align_bytes, 1) == 0]
    many = method in (Method.OPEN_DATASYNC, Method.FDATASYNC)
    return sizes + [WriteCell(method, PAGE_BYTES, writers) for writers in WRITERS if many and writers > 1]


def plan_of(methods: tuple[Method, ...], align_bytes: int, io: IoMode) -> Plan:
    """The cells of some methods, one after the other; threads that call write and fsync, as databases do."""
    base = profiles.validate(profiles.read(OVERWRITE), [])
    phases = [_phase(base.phase[0], cell) for method in methods for cell in cells(method, align_bytes)]
    return replace(
        base,
        title="Durable writes by method, size and number of writers",
        about="One place overwritten again and again, each write durable by a method of wal_sync_method.",
        io=io,
        engine=EngineChoice.PSYNC,
        interval=Duration(INTERVAL_NS),
        phase=phases,
    )


def _phase(base: Phase, cell: WriteCell) -> Phase:
    stream = replace(
        base.stream[0],
        name="log",
        request=[SizeShare(size=cell.request_bytes)],
        region=f"0..{SLOTS_BYTES if cell.writers > 1 else cell.request_bytes}B",
        workers=cell.writers,
        sync=OPENED.get(cell.method, SyncMode.NONE),
        flush_every=FlushEvery(writes=1, call=FLUSHED[cell.method]) if cell.method in FLUSHED else None,
    )
    if cell.writers > 1:
        stream = replace(stream, address=RandomAddress())
    return replace(base, name=cell.name, duration=Duration(EACH_NS), warmup=Duration(WARMUP_NS), stream=[stream])


def shortened(name: str, most_ns: int) -> Plan:
    """A profile none of whose phases lasts longer."""
    plan = profiles.validate(profiles.read(name), [])
    phases = [
        replace(phase, duration=Duration(min(phase.duration.ns if phase.duration else most_ns, most_ns)))
        for phase in plan.phase
    ]
    return replace(plan, interval=Duration(INTERVAL_NS), phase=phases)


def measure(
    store: Store, listener: Listener, interrupt: Interrupt, aimed: Aim, declared: Declared
) -> tuple[int, list[RunResult]]:
    """The study and its runs. The first tells the alignment."""
    study = OneStudy(store, listener, interrupt, aimed, "durable", declared, 3 + 2 * REPETITIONS)
    if study.run([(OVERWRITE, shortened(OVERWRITE, HONESTY_NS))]):
        align = convert(study.results[0].start, Start).targets[0].align_bytes
        opened, flushed = plan_of(tuple(OPENED), align, IoMode.DIRECT), plan_of(tuple(FLUSHED), 1, IoMode.BUFFERED)
        rest = [*[(DIRECT, opened), (BUFFERED, flushed)] * REPETITIONS]
        rest += [(name, shortened(name, most_ns)) for name, most_ns in ((DIRTY, DIRTY_NS), (ETCD, ETCD_NS))]
        study.run(rest)
    return study.end()
