"""Duty: `brickyard terraserver demo`: run it, print the study's tables 7 and 8. Refusal: no figure of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard.analysis import replay as replays
from brickyard.analysis import replay_head_room, replay_runs
from brickyard.analysis import terraserver as tables
from brickyard.analysis.summary import run_document
from brickyard.cli import options
from brickyard.cli.characterize import EXIT_CODES
from brickyard.cli.output import emit, stderr, stdout, table
from brickyard.cli.progress import CALLS, Terminal
from brickyard.cli.tables import print_warnings
from brickyard.cli.terraserver import LoadProgress, Seed
from brickyard.databases import terraserver
from brickyard.databases.connect import split_dsns
from brickyard.databases.demo import SERVERS, Demo, demonstrate
from brickyard.errors import BAD_INPUT, BadInputError
from brickyard.reading import parsed_bytes
from brickyard.store import Record, Store
from brickyard.study.interrupt import Interrupt
from brickyard.units import format_mib_per_s

DEFAULT_SIZE = "64MiB"


def demo(
    *,
    size: Annotated[str, Parameter(help="Bytes of pictures.")] = DEFAULT_SIZE,
    seconds: Annotated[int, Parameter(help="Length of each of the four runs.")] = 15,
    repeat: Annotated[int, Parameter(help="Runs of each pace.")] = 2,
    place: Annotated[
        Path | None,
        Parameter(validator=options.FOLDER, help="Directory on the volume on which the database shall lie."),
    ] = None,
    to: Annotated[str | None, Parameter(help="A database of yours instead of an own server.")] = None,
    settings: Annotated[
        tuple[str, ...],
        Parameter(name="--set", negative="", help="A setting of our own server, such as --set shared_buffers=1GB."),
    ] = (),
    seed: Seed = terraserver.DEFAULT_SEED,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Start a PostgreSQL, load a small TerraServer, and replay a Monday's busiest hour in both paces.

    Prints tables 7 and 8 with those of the study beside, and the head room. The server is gone afterwards; with
    --to, what was loaded stays.
    """
    if not 1 <= seconds <= 3600 or not 1 <= repeat <= 100:
        raise BadInputError(f"--seconds {seconds} --repeat {repeat}: 1 to 3,600 seconds, 1 to 100 times")
    pairs = [setting.partition("=") for setting in settings]
    if not all(name and equals for name, equals, _ in pairs):
        raise BadInputError("--set: write NAME=VALUE, such as shared_buffers=1GB")
    if to is not None and (place is not None or pairs or len(split_dsns(to)) > 1):
        raise BadInputError("--to names one server of yours; --place and --set are for an own one")
    console = stderr()
    with Store(store) as kept:
        with Interrupt() as interrupt, Terminal(words=CALLS) as terminal:
            shown = demonstrate(
                kept,
                terminal,
                interrupt,
                size_bytes=parsed_bytes(size, "--size"),
                seconds=seconds,
                repeat=repeat,
                seed=seed,
                place=place,
                dsn=to,
                settings={name: value for name, _, value in pairs},
                watch_load=lambda: LoadProgress(console),
            )
        records = [kept.record(result.run) for result in shown.results]
    if json:
        documents = [run_document(record) for record in records]
        emit({"runs": documents, "replay": replays.replay_document(records), "server": shown.server})
    else:
        _print(shown, records)
    return EXIT_CODES.get(shown.results[-1].outcome, BAD_INPUT)


def _print(shown: Demo, records: list[Record]) -> None:
    console = stdout()
    print_warnings(console, records)
    console.print()
    server = f"PostgreSQL {shown.server['version']} of our own" if shown.server else "your server"
    console.print(
        f"{shown.loaded.tiles:,} tiles of {shown.layout.cities} cities, {_loaded_words(shown)}, in {server}; out of a"
        f" busy Monday hour of {SERVERS} web servers with {shown.requests:,} requests",
        markup=False,
        soft_wrap=True,
    )
    by_kind = replay_runs.by_pace(records)
    columns = _columns(tables.THROUGHPUT_COLUMNS, ("server", "study: server"))
    if "fire hose" in by_kind:
        console.print()
        console.print(table("Table 7. Fire hose", columns, tables.throughput_rows(by_kind["fire hose"])))
    for number, (name, group) in enumerate(by_kind.items()):
        console.print()
        title = f"Table 8{'ab'[number] if len(by_kind) > 1 else ''}. Response time in ms, {name}"
        console.print(table(title, _columns(tables.RESPONSE_COLUMNS, ("page",)), tables.response_rows(group)))
    console.print()
    for line in replay_head_room.verdict_lines(records):
        console.print(line, style="bold", soft_wrap=True, markup=False)
    console.print(
        f"The study's figures are of two bricks of 2003 (MSR-TR-2003-70). brickyard report s{shown.study} draws these.",
        markup=False,
        soft_wrap=True,
    )


def _loaded_words(shown: Demo) -> str:
    if shown.loaded.bytes == 0:
        return "loaded before"
    return f"loaded at {format_mib_per_s(shown.loaded.bytes_per_s)} MiB/s"


def _columns(names: list[str], left: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, "left" if name in left else "right") for name in names]
