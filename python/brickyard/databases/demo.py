"""Duty: the whole way once: a server of our own, a small brick, a Monday's log, its replay in both paces.

Refusal: no figures. The server and the logs are gone afterwards; the runs stay in the store.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.databases import terraserver
from brickyard.databases.ephemeral import Server, ServerFacts, ephemeral_postgres
from brickyard.databases.layout import Layout
from brickyard.databases.loading import Loaded, Progress, Stop, load
from brickyard.databases.memory import MemoryGroup, drop_file_caches, memory_group
from brickyard.databases.traffic import Traffic, spots_of, write_log, zipf_weights
from brickyard.errors import BrickyardError
from brickyard.store import Store
from brickyard.store.record import RunMarks
from brickyard.study.replays.run import ReplaySpec, check, replay
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, RunResult

SERVERS = 4  # logs and drivers, as in the study
REQUESTS = 1_800_000  # that the study's servers got on their Monday, on average
FASTEST_PER_S = 40_000  # calls that no two cores reach; longer logs would not be read to their end
OWN_SERVER = "terraserver-demo"  # its port and directory are others each time
BUSIEST = (17, 18)  # the hour, in UTC, of which a piece is replayed
MONDAY = datetime.date(2003, 6, 2)
SETTINGS = {
    "shared_buffers": "32MB",  # about half of the default brick, so that not all of it is in the server's own cache
    "max_connections": "200",  # four drivers of 20 sessions, and room
}


@dataclass(frozen=True)
class Demo:
    """What a demonstration was, and what came of it."""

    layout: Layout
    loaded: Loaded
    requests: int
    server: ServerFacts | None
    """Of our own; None of a server that was there."""
    study: int
    results: list[RunResult]
    memory_bytes: int | None = None
    """What our own server was given."""
    killed: int = 0
    """Processes of our own server that the kernel killed because that was too little."""


def demonstrate(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    *,
    size_bytes: int,
    seconds: int,
    repeat: int,
    seed: int,
    place: Path | None,
    dsn: str | None,
    memory_bytes: int | None,
    settings: Mapping[str, str],
    watch_load: Callable[[], AbstractContextManager[Callable[[Progress], None]]],
) -> Demo:
    """Fire hose and time synchronized, each `repeat` times `seconds` long, against our own server or `dsn`.

    Our own has `memory_bytes` for itself and its page cache, where this host lets us limit them; None is no limit.
    """
    layout = Layout(size_bytes)
    brick = terraserver.Brick(layout, seed, 0)
    limited: AbstractContextManager[MemoryGroup | str] = (
        memory_group() if dsn is None and memory_bytes is not None else nullcontext("")
    )
    with ExitStack() as undo:
        group = undo.enter_context(limited)
        own: AbstractContextManager[Server | None] = nullcontext(None)
        if dsn is None:
            within = group if isinstance(group, MemoryGroup) else None
            own = ephemeral_postgres(place, settings={**SETTINGS, **settings}, group=within)
        server, folder = undo.enter_context(own), undo.enter_context(outputs.temporary_folder("brickyard-logs-"))
        to = server.dsn if server is not None else str(dsn)
        for note in server.notes if server is not None else []:
            listener.note(note)
        stop = Stop()
        interrupt.attach(stop)
        with watch_load() as watched:
            loaded = load([to], [brick], 2, stop, watched)
        interrupt.attach(None)
        if not loaded.finished:
            raise KeyboardInterrupt
        if server is not None and memory_bytes is not None:
            _confine(server, group, memory_bytes, listener)
        listener.note(f"{loaded.tiles:,} tiles of {layout.cities} cities loaded; writing the logs of {SERVERS} servers")
        logs, requests = _write_logs(folder, layout, seed, seconds * FASTEST_PER_S // SERVERS, interrupt)
        about = server.facts() if server is not None else None
        told = msgspec.to_builtins(about) if about is not None else {}
        study = store.add_study("TerraServer", {"verb": "terraserver demo", "size_bytes": size_bytes, "server": told})
        results: list[RunResult] = []
        named = (OWN_SERVER,) if dsn is None else ()
        try:
            _replay_both(store, listener, interrupt, logs, to, layout, seconds, repeat, study, results, named)
        finally:
            store.end_study(study, results[-1].outcome if results else "failed", [])
        killed = group.killed() if isinstance(group, MemoryGroup) else 0
        return Demo(layout, loaded, requests, about, study, results, memory_bytes, killed)


def _confine(server: Server, group: MemoryGroup | str, memory_bytes: int, listener: Listener) -> None:
    """After the load, which may use all memory; what it left in the caches is dropped, so that the start is cold."""
    server.stop()
    drop_file_caches(str(server.data))
    if isinstance(group, MemoryGroup):
        group.limit(memory_bytes)
    else:
        listener.note(f"the server's memory is not limited: {group}; a database that fits in it is served from memory")
    server.start()


def _replay_both(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    logs: list[str],
    to: str,
    layout: Layout,
    seconds: int,
    repeat: int,
    study: int,
    results: list[RunResult],
    named: tuple[str, ...],
) -> None:
    listener.expect(2 * repeat)
    known = None
    for pace in ("fire-hose", "time-synchronized"):
        spec = ReplaySpec(
            logs=logs,
            mapping_text=terraserver.mapping_text(layout),
            mapping_name="terraserver.toml",
            to=[to],
            pace=pace,
            drivers=SERVERS,
            duration_ns=seconds * 1_000_000_000,
            databases_named=named,
            logs_named=tuple(Path(log).name for log in logs),
        )
        known = check(spec, known)
        for repetition in range(1, repeat + 1):
            marks = RunMarks(pace=pace, repetition=repetition)
            results.append(replay(store, listener, interrupt, spec, marks, study, known))
            if results[-1].outcome != "done":
                return


def _write_logs(folder: Path, layout: Layout, seed: int, enough: int, interrupt: Interrupt) -> tuple[list[str], int]:
    """The hour's logs, as far as they are needed: each ends with the quarter in which it has `enough` lines."""
    traffic = Traffic(layout, seed, REQUESTS, SERVERS, 1, MONDAY, 1.0, 0.0, 0.03, BUSIEST)
    spots = spots_of(layout, seed)
    weights = zipf_weights(len(spots), traffic.theta)
    made, requests = [], 0
    for name, server, day in traffic.logs():
        path = folder / name
        with outputs.whole_file(path) as file:
            lines = 0
            for piece in write_log(traffic, spots, weights, server, day):
                file.write(piece.encode("ascii"))
                lines += piece.count("\n")
                if interrupt.requested:
                    raise KeyboardInterrupt
                if lines >= enough:
                    break
            requests += lines
        made.append(str(path))
    if not requests:
        raise BrickyardError("the logs are empty")
    return made, requests - 4 * len(made)
