"""Which of the things that cells count are requests, and which are counted beside their requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from brickyard.schema.generated import Counted
from brickyard.schema.plan import (
    CreateFiles,
    Operations,
    OtherKind,
    OtherPlan,
    OtherStream,
    Plan,
    ReadFile,
    RewriteFile,
    SeekFile,
    StepWord,
    Stream,
    SyncMode,
    Transactions,
    WriteFile,
)

CHAIN, FRAME, COMMIT = Counted.CHAIN, Counted.FRAME, Counted.COMMIT
CHAINS: frozenset[str] = frozenset({CHAIN, Counted.CREATE_FILE, Counted.READ_FILE, Counted.APPEND_FILE, FRAME, COMMIT})
"""Whole chains, frames and commits; their requests are counted by operation as well, so sums leave these out."""
METADATA: frozenset[str] = frozenset(
    {Counted.CREATE, Counted.OPEN, Counted.CLOSE, Counted.STAT, Counted.UNLINK, Counted.MKDIR, Counted.RMDIR}
)
"""Move no data of a file; never in one rate with those that do."""
FLUSH = Counted.FLUSH
READS: frozenset[str] = frozenset({Counted.READ, Counted.GET})
WRITES: frozenset[str] = frozenset({Counted.WRITE, Counted.APPEND, Counted.PUT})


def is_request(operation: str) -> bool:
    """One request, in counts and failures, flushes and operations on names among them. Whole chains, frames and commits
    are counted beside their requests."""
    return operation not in CHAINS


def is_on_data(operation: str) -> bool:
    """A request that stands in tables with an IOPS column; operations on names have rates of their own."""
    return operation not in CHAINS | METADATA


def has_bytes(operation: str) -> bool:
    """Whether it moves or trims data, so that its throughput is a figure."""
    return is_on_data(operation) and operation != FLUSH


def in_rate(operations: Iterable[str]) -> frozenset[str]:
    """Of all that a phase did, the operations that its IOPS and MiB/s count: every request on data but flushes, each of
    which belongs to the write before it. Flushes are counted where nothing else was done."""
    found = frozenset(filter(is_request, operations))
    return found if found == {FLUSH} else frozenset(filter(has_bytes, found))


def writes(stream: Stream) -> bool:
    """Whether a profile's stream writes; a program and a trace say that themselves."""
    return stream.operations.write > 0 or StepWord.WRITE in stream.chain


def flushes(stream: Stream) -> bool:
    """Whether a stream asks for its writes to be flushed: each of them (`sync`), after some of them, in its mix or
    chain, or before its files are closed."""
    of_files = isinstance(stream.program, CreateFiles | Transactions | WriteFile) and stream.program.fsync
    mixed = StepWord.FLUSH in stream.chain if stream.chain else stream.operations.flush > 0
    return of_files or mixed or stream.flush_every is not None or stream.sync is not SyncMode.NONE


def flushes_each_write(stream: Stream) -> bool:
    """Whether each write is on the medium when it ends, or else the flush or the file that it belongs to."""
    if stream.program is not None or stream.sync is not SyncMode.NONE:
        return flushes(stream)
    if stream.chain:
        ends = (step for step in reversed(stream.chain) if step in (StepWord.WRITE, StepWord.FLUSH))
        return next(ends, None) == StepWord.FLUSH
    return stream.flush_every is not None and stream.flush_every.writes == 1


_READING, _WRITING = ReadFile | RewriteFile | SeekFile, CreateFiles | WriteFile | RewriteFile | SeekFile


def reads_data(stream: Stream) -> bool:
    """Whether a stream reads by requests, a chain or a program; a trace says that itself."""
    program = stream.program
    if isinstance(program, Transactions):
        return program.bias_read > 0
    if program is not None:
        return isinstance(program, _READING)
    return StepWord.READ in stream.chain if stream.chain else stream.operations.read > 0


def writes_data(stream: Stream) -> bool:
    """Whether a stream writes by requests, a chain or a program; a trace says that itself."""
    if stream.program is not None:
        return isinstance(stream.program, _WRITING | Transactions)
    return writes(stream)


class Flushed(msgspec.Struct, frozen=True):
    """Of a target whose writes are all flushed."""

    reads: bool
    """Whether it is read, too."""


def flushed(plan: Plan | OtherPlan | None, target: int) -> Flushed | None:
    """None where a target is not written, where writes stay in memory, and where a trace or another tool decides it."""
    phases = plan.phase if isinstance(plan, Plan) else []
    streams = [stream for phase in phases for stream in phase.stream if stream.target == target]
    writing = [stream for stream in streams if writes_data(stream)]
    if not writing or any(stream.trace for stream in streams) or not all(map(flushes, writing)):
        return None
    return Flushed(any(map(reads_data, streams)))


def asks_databases(plan: Plan | OtherPlan | None) -> bool:
    """Whether requests go to a server, and not to a file or device."""
    return isinstance(plan, OtherPlan) and plan.kind in (OtherKind.REPLAY, OtherKind.LOAD, OtherKind.PGBENCH)


class Queued(Protocol):
    """A load of workers that each keep a queue."""

    @property
    def workers(self) -> int | None: ...

    @property
    def depth(self) -> int | None: ...


def in_flight_total(load: Queued) -> int:
    """Requests that a load may have in flight at once: workers × queue depth. 0 where its depth is not known."""
    return (load.workers or 1) * (load.depth or 0)


def target_count(plan: Plan) -> int:
    """How many targets a run of a profile needs."""
    return 1 + max(stream.target for phase in plan.phase for stream in phase.stream)


def is_paced(operation: str, asked: Stream | OtherStream | None) -> bool:
    """Whether a stream's pace, and so its count of what was due, is of these: chains where it has them, else requests
    without the flushes that its writes owe."""
    if isinstance(asked, Stream) and asked.chain:
        return operation == CHAIN
    return is_request(operation) and not is_owed(operation, asked)


def is_owed(operation: str, asked: Stream | OtherStream | None) -> bool:
    """Whether these are the flushes that a stream's writes owe."""
    return isinstance(asked, Stream) and asked.flush_every is not None and operation == FLUSH


def commits(stream: Stream) -> bool:
    """Whether each write is made durable by a flush of its own, so that both together are a commit."""
    every = stream.flush_every
    return every is not None and every.writes == 1 and stream.operations.write > 0 and not stream.operations.flush


def is_timed(operation: str) -> bool:
    """Requests and commits: what has times of its own where operations are told apart."""
    return is_request(operation) or operation == COMMIT


def is_waited(operation: str, asked: Stream | OtherStream | None) -> bool:
    """Whether times of all requests are of these: whoever commits waits for a write and its flush, so commits stand for
    both; of other streams, whoever asked waits for each request."""
    if operation == COMMIT:
        return True
    in_commit = isinstance(asked, Stream) and commits(asked) and operation in (Counted.WRITE, FLUSH)
    return is_request(operation) and not in_commit


def shares(operations: Operations) -> dict[str, float]:
    """Per cent of each operation that a stream mixes, as a profile lists them."""
    found = {Counted.READ: operations.read, Counted.WRITE: operations.write}
    found |= {Counted.FLUSH: operations.flush, Counted.TRIM: operations.trim}
    return {str(name): share for name, share in found.items()}
