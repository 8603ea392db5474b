"""Duty: fill a brick with tiles by COPY, as fast as the server takes them; go on where a killed load stopped.

A unit of some 500 tiles and the row that says so are one transaction. Commits don't wait for the log to be durable
here: what a crash of the server takes away goes with its row, and the next load brings it again.

Refusal: no rate of this is a benchmark figure; `measured` loads as a loader under measurement does.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brickyard.databases.connect import connected, spoken
from brickyard.databases.jpeg import base_pictures, make_tile, pools, tile_key
from brickyard.databases.layout import SCALES, Tiles
from brickyard.databases.terraserver import Brick, prepare
from brickyard.errors import BrickyardError

if TYPE_CHECKING:
    import psycopg

# PostgreSQL's binary COPY: signature, flags, length of the extension; then rows of fields with their lengths; then -1.
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_END = struct.pack(">h", -1)
ROW = struct.Struct(">hihihihiiiiiiiii")
COPY_TILES = "copy terraserver.tile (theme, scale, scene, x, y, version, image_id, picture) from stdin (format binary)"
REMAINS = (
    "delete from terraserver.tile where theme = %s and scale = %s and scene = %s and x between %s and %s"
    " and y between %s and %s"
)
BATCH_BYTES = 1 << 18  # written at once: large enough that calls cost nothing, small enough to stay in the cache
LISTEN_S = 0.2  # how often whoever watches is told, and Ctrl-C is looked at


Work = tuple[str, list[tuple[int, tuple[Tiles, ...]]], int]
"""A database, the units that it lacks with their numbers, and the seed of their pictures."""


@dataclass
class Progress:
    """How far a load is, over all bricks; read by whoever shows it."""

    tiles: int = 0
    done_tiles: int = 0
    done_bytes: int = 0
    resumed_tiles: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, tiles: int, size_bytes: int) -> None:
        with self.lock:
            self.done_tiles += tiles
            self.done_bytes += size_bytes


@dataclass(frozen=True)
class Loaded:
    """What a load brought. Seconds and bytes are those of this load, tiles those that are there now."""

    tiles: int
    resumed_tiles: int
    bytes: int
    seconds: float
    finished: bool
    notes: tuple[str, ...]

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


class Stop:
    """Ends a load between two units."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def stop(self) -> None:
        self.asked.set()

    abandon = stop


def load(
    dsns: Sequence[str], bricks: Sequence[Brick], workers: int, stop: Stop, listen: Callable[[Progress], None]
) -> Loaded:
    """Brings every unit that is not there yet, with `workers` connections to each brick."""
    progress = Progress()
    work: list[Work] = []
    for dsn, brick in zip(dsns, bricks, strict=True):
        with connected(dsn) as connection:
            prepare(connection, brick, spoken(dsn))
            there = dict(connection.execute("select unit, tiles from terraserver.loaded").fetchall())
        units = list(enumerate(brick.layout.units(brick.number)))
        progress.tiles += sum(part.count for _, unit in units for part in unit)
        progress.resumed_tiles += sum(there.values())
        missing = [(number, unit) for number, unit in units if number not in there]
        work += [(dsn, missing[worker::workers], brick.seed) for worker in range(workers) if missing[worker::workers]]
    progress.done_tiles = progress.resumed_tiles
    for theme in SCALES:
        base_pictures(theme)
    pools()  # coded before threads want them
    begun = time.monotonic()
    _in_threads(work, progress, stop, listen)
    seconds = time.monotonic() - begun
    finished = progress.done_tiles == progress.tiles
    notes = [] if not finished else [note for dsn in dsns for note in _settle(dsn)]
    return Loaded(progress.done_tiles, progress.resumed_tiles, progress.done_bytes, seconds, finished, tuple(notes))


def _in_threads(work: Sequence[Work], progress: Progress, stop: Stop, listen: Callable[[Progress], None]) -> None:
    if not work:
        return
    with ThreadPoolExecutor(len(work)) as pool:
        pending = {pool.submit(_load_units, part, progress, stop) for part in work}
        try:
            while pending:
                done, pending = wait(pending, LISTEN_S, FIRST_COMPLETED)
                listen(progress)
                for one in done:
                    one.result()
        except BaseException:
            stop.stop()  # the others end after their unit
            raise


def _load_units(work: Work, progress: Progress, stop: Stop) -> None:
    dsn, units, seed = work
    with ExitStack() as stack:
        connection = stack.enter_context(connected(dsn))
        connection.execute("set synchronous_commit = off")
        for number, unit in units:
            if stop.asked.is_set():
                return
            brought = _load_unit(connection, number, unit, seed)
            progress.add(sum(part.count for part in unit), brought)


def _load_unit(connection: psycopg.Connection[Any], number: int, unit: Sequence[Tiles], seed: int) -> int:
    brought = 0
    with connection.transaction():
        cursor = connection.cursor()
        for part in unit:  # what a measured load brought of a unit that it did not finish
            here = (
                part.theme,
                part.scale,
                part.scene,
                part.x,
                part.x + part.width - 1,
                part.y,
                part.y + part.height - 1,
            )
            cursor.execute(REMAINS, here)
        with cursor.copy(COPY_TILES) as copy:
            for batch, size_bytes in _batches(unit, seed):
                copy.write(batch)
                brought += size_bytes
        tiles = sum(part.count for part in unit)
        if cursor.rowcount != tiles:
            raise BrickyardError(f"{cursor.rowcount} of {tiles} tiles were taken; see the server's log")
        cursor.execute("insert into terraserver.loaded values (%s, %s, %s)", (number, tiles, brought))
    return brought


def _batches(unit: Sequence[Tiles], seed: int) -> Iterator[tuple[bytes, int]]:
    """A unit in COPY's binary form, and how many bytes of pictures are in each piece."""
    pieces, held, pictures = [COPY_HEAD], 0, 0
    for part in unit:
        theme, scale, scene, image = part.theme, part.scale, part.scene, part.image
        for x, y in part.addresses():
            picture = make_tile(theme, tile_key(seed, theme, scale, scene, x, y, 1))
            size = len(picture)
            pieces += (ROW.pack(8, 2, theme, 2, scale, 2, scene, 4, x, 4, y, 4, 1, 4, image, size), picture)
            held += size + ROW.size
            pictures += size
            if held >= BATCH_BYTES:
                yield b"".join(pieces), pictures
                pieces, held, pictures = [], 0, 0
    pieces.append(COPY_END)
    yield b"".join(pieces), pictures


def _settle(dsn: str) -> list[str]:
    """Leaves nothing to do for later that would disturb a measurement: hint bits, statistics, dirty pages."""
    import psycopg

    with connected(dsn) as connection:
        connection.execute("vacuum (freeze, analyze) terraserver.tile")
        connection.execute("analyze terraserver.image, terraserver.place, terraserver.download_area")
        try:
            connection.execute("checkpoint")
        except psycopg.errors.InsufficientPrivilege:
            return [
                f"{spoken(dsn)}: no CHECKPOINT after the load, since the account may not; the server writes it later"
            ]
    return []
