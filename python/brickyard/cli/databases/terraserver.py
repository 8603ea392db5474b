"""Duty: `brickyard terraserver load, mapping, drop`: an example. Refusal: the work is in `brickyard.databases`."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from brickyard import _core
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_text, stderr, stdout
from brickyard.cli.parts.progress import PLAIN_EVERY_S
from brickyard.databases import loading, terraserver
from brickyard.databases.connect import split_dsns, spoken
from brickyard.databases.layout import Layout
from brickyard.databases.loading import Loaded
from brickyard.errors import BAD_INPUT, DONE, INTERRUPTED, BadInputError
from brickyard.outputs import write_whole
from brickyard.reading import parsed_bytes
from brickyard.schema import Document
from brickyard.study.running.interrupt import Interrupt
from brickyard.units import format_mib_per_s, format_size

DEFAULT_SIZE = "256MiB"

app = App(name="terraserver", help="The TerraServer database: load it, generate its traffic, run a demonstration.")
app.command("brickyard.cli.databases.terraserver_traffic:traffic", name="traffic", help="Web logs of a busy site.")
app.command(
    "brickyard.cli.databases.terraserver_demo:demo",
    name="demo",
    help="One full run on a temporary server, in 2 minutes.",
)

To = Annotated[
    str,
    Parameter(name="--to", help="Database as postgresql://USER@HOST:PORT/NAME; several bricks with commas between."),
]
Seed = Annotated[int, Parameter(help="Seed; the same seed and size give the same tiles.")]


class LoadProgress:
    """A bar in a terminal, a line every few seconds elsewhere."""

    def __init__(self, console: Console, what: str = "tiles") -> None:
        self.console, self._what = console, what
        self._live = console.is_terminal
        self._spoke_s = time.monotonic()
        self._begun_s = self._spoke_s
        self._task: TaskID | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def __call__(self, progress: loading.Progress) -> None:
        now = time.monotonic()
        rate = progress.done_bytes / max(now - self._begun_s, 1e-9)
        text = f"{progress.done_tiles:,} of {progress.tiles:,} {self._what}  {format_mib_per_s(rate)} MiB/s"
        if self._live:
            if self._task is None:
                self._task = self._bar.add_task("loading", total=progress.tiles, figures="")
            self._bar.update(self._task, completed=progress.done_tiles, figures=text)
        elif now - self._spoke_s >= PLAIN_EVERY_S:
            self._spoke_s = now
            self.console.print(f"loading: {text}")


@app.command
def load(
    *,
    to: To,
    size: Annotated[str, Parameter(help="Bytes of pictures in all bricks together, such as 2GiB.")] = DEFAULT_SIZE,
    seed: Seed = terraserver.DEFAULT_SEED,
    workers: Annotated[
        int | None, Parameter(help="Connections to each brick: 2 by default, 1 with --measured.")
    ] = None,
    measured: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Measure the load: one tile per transaction, timed, recorded as a run in the store.",
        ),
    ] = False,
    duration: Annotated[str | None, Parameter(help="With --measured: end after this time, such as 60s.")] = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Load tiles into a database at full speed; with several DSNs, each database gets its share.

    The tiles are in their own schema `terraserver`. A load that was interrupted or killed continues where it stopped
    when it is started again with the same size, seed and databases. With --measured, if all tiles are already loaded,
    each is replaced by a new version.
    """
    if workers is not None and not 1 <= workers <= 64:
        raise BadInputError(f"--workers {workers}: from 1 to 64")
    console = stderr()
    dsns = split_dsns(to)
    layout = Layout(parsed_bytes(size, "--size"), len(dsns))
    if measured:
        bricks = [terraserver.Brick(layout, seed, number) for number in range(len(dsns))]
        return _measured(dsns, bricks, workers or 1, duration, store, as_json=json)
    if duration is not None or store is not None:
        given = [name for name, value in (("--duration", duration), ("--store", store)) if value is not None]
        belong = "belongs" if len(given) == 1 else "belong"
        raise BadInputError(
            f"{' and '.join(given)} {belong} to --measured; a load without --measured ends when all tiles are "
            "loaded, and is not recorded as a run"
        )
    stop = loading.Stop()
    with Interrupt() as interrupt, LoadProgress(console) as progress:
        interrupt.attach(stop)
        loaded = loading.load(
            dsns, [terraserver.Brick(layout, seed, number) for number in range(len(dsns))], workers or 2, stop, progress
        )
    for note in loaded.notes:
        console.print(f"note: {note}", markup=False)
    if json:
        emit(_document(loaded, layout, dsns))
    else:
        stdout().print(_sentence(loaded, layout), markup=False)
    return DONE if loaded.finished else INTERRUPTED


def _measured(
    dsns: list[str],
    bricks: list[terraserver.Brick],
    clients: int,
    duration: str | None,
    place: Path | None,
    *,
    as_json: bool,
) -> int:
    from brickyard.analysis.judging.summary import run_document
    from brickyard.cli.parts.output import EXIT_CODES
    from brickyard.cli.parts.progress import Terminal
    from brickyard.cli.parts.tables import print_run
    from brickyard.databases.measured import LoadSpec, load_measured
    from brickyard.store import Store

    try:
        duration_ns = None if duration is None else _core.parse_duration_ns(duration)
    except ValueError as error:
        raise BadInputError(f"--duration {duration}: {error}") from error
    with Store(place) as kept:
        with Interrupt() as interrupt, Terminal(words="tiles/s") as terminal:
            result = load_measured(kept, terminal, interrupt, LoadSpec(dsns, bricks, clients, duration_ns))
        record = kept.record(result.run)
    if as_json:
        emit(run_document(record))
    else:
        print_run(stdout(), record)
    return EXIT_CODES.get(result.outcome, BAD_INPUT)


def _document(loaded: Loaded, layout: Layout, dsns: list[str]) -> Document:
    return {
        "tiles": loaded.tiles,
        "tiles_resumed": loaded.resumed_tiles,
        "bytes": loaded.bytes,
        "seconds": loaded.seconds,
        "bytes_per_s": loaded.bytes_per_s,
        "finished": loaded.finished,
        "cities": layout.cities,
        "bricks": [spoken(dsn) for dsn in dsns],
        "notes": list(loaded.notes),
    }


def _sentence(loaded: Loaded, layout: Layout) -> str:
    if not loaded.finished:
        return f"interrupted: {loaded.tiles:,} of {layout.tiles:,} tiles are there; the same command continues"
    if loaded.resumed_tiles == loaded.tiles:
        return f"all {loaded.tiles:,} tiles of {layout.cities} cities were there already"
    before = f", {loaded.resumed_tiles:,} were there already" if loaded.resumed_tiles else ""
    return (
        f"{loaded.tiles:,} tiles of {layout.cities} cities{before}; {format_size(loaded.bytes)} in {loaded.seconds:.1f}"
        f" s, {format_mib_per_s(loaded.bytes_per_s)} MiB/s"
    )


@app.command
def mapping(*, to: To | None = None, output: options.Output = None, json: options.Json = False) -> int:
    """Write the mapping from web pages to database calls that `brickyard replay` takes.

    Parameters
    ----------
    to
        The loaded bricks; without it, the mapping of a single database.
    """
    if to is None:
        text = terraserver.text_of("terraserver.toml")
    else:
        text = terraserver.mapping_text(terraserver.bricks_of(split_dsns(to))[0].layout)
    if output is not None:
        try:
            write_whole(output, text, stream=True)
        except OSError as error:
            raise BadInputError(f"{output}: cannot be written: {error.strerror}; name another place") from error
    if json:
        emit({"mapping": text, "path": str(output) if output else None})
    elif output is None:
        print_text(text)
    else:
        stdout().print(f"{output}", markup=False)
    return DONE


@app.command
def drop(*, to: To, json: options.Json = False) -> int:
    """Drop the schema `terraserver`, if Brickyard made it."""
    dsns = split_dsns(to)
    dropped = [spoken(dsn) for dsn in dsns if terraserver.drop(dsn)]
    if json:
        emit({"dropped": dropped})
    else:
        stdout().print(
            "\n".join(f"dropped from {name}" for name in dropped) or "no TerraServer database there", markup=False
        )
    return DONE
