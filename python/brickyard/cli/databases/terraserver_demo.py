"""Duty: `brickyard terraserver demo`: run it, print the study's tables 7 and 8. Refusal: no figure of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard.analysis.databases import replay as replays
from brickyard.analysis.databases import replay_head_room, replay_runs
from brickyard.analysis.databases import terraserver as tables
from brickyard.analysis.databases.replay_served import cold_words, served, served_words
from brickyard.analysis.judging.summary import run_document
from brickyard.cli.databases.terraserver import LoadProgress, Seed
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import CALLS, Terminal
from brickyard.cli.parts.tables import print_warnings
from brickyard.databases import terraserver
from brickyard.databases.connect import split_dsns
from brickyard.databases.demo import SERVERS, Demo, demonstrate
from brickyard.errors import BAD_INPUT, FAILED, BadInputError
from brickyard.reading import parsed_bytes
from brickyard.store import Record, Store, command_on
from brickyard.study.replays.series import MAX_ERRORS, why_failed
from brickyard.study.running.interrupt import Interrupt
from brickyard.units import format_mib_per_s, format_size

DEFAULT_SIZE = "640MiB"  # two and a half times what the server then may use; loaded in half a minute
# Of a server with 32 MB of buffers and 80 sessions, which were seen to take 160 MiB; with less the kernel ends it.
LEAST_MEMORY = 224 << 20
CACHED_SHARE = 10  # of the database, one part in so many fits beside


def demo(
    *,
    size: Annotated[str, Parameter(help="Size of the pictures.")] = DEFAULT_SIZE,
    seconds: Annotated[int, Parameter(help="Length of each of the four runs.")] = 15,
    repeat: Annotated[int, Parameter(help="Number of runs at each pace.")] = 2,
    memory: Annotated[
        str | None,
        Parameter(
            help="Memory for Brickyard's own server and its page cache, or `all`; by default 224 MiB and a tenth "
            "of --size."
        ),
    ] = None,
    place: Annotated[
        Path | None,
        Parameter(validator=options.FOLDER, help="Directory for the database, on the volume to be measured."),
    ] = None,
    to: Annotated[
        str | None,
        Parameter(help="Use this database of yours; without this option a server is started for the demonstration."),
    ] = None,
    settings: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            negative="",
            show_default=False,
            help="A setting of Brickyard's own server, such as --set shared_buffers=1GB.",
        ),
    ] = (),
    seed: Seed = terraserver.DEFAULT_SEED,
    output: options.ReportPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Start a PostgreSQL server, load a TerraServer database larger than its memory, replay a Monday's busiest hour at
    both paces.

    Prints tables 7 and 8 beside those of the study, and the headroom. The server is removed afterwards; with --to, the
    loaded data stay.
    """
    if not 1 <= seconds <= 3600 or not 1 <= repeat <= 100:
        raise BadInputError(f"--seconds {seconds} --repeat {repeat}: 1 to 3,600 seconds, 1 to 100 times")
    pairs = [setting.partition("=") for setting in settings]
    if not all(name and equals for name, equals, _ in pairs):
        raise BadInputError("--set: write NAME=VALUE, such as shared_buffers=1GB")
    if to is not None and (place is not None or memory is not None or pairs or len(split_dsns(to)) > 1):
        raise BadInputError(
            "--to names a server of yours; --place, --memory and --set are for the server that is started without --to"
        )
    size_bytes = parsed_bytes(size, "--size")
    console = stderr()
    with Store(store) as kept:
        with Interrupt() as interrupt, Terminal(words=CALLS) as terminal:
            shown = demonstrate(
                kept,
                terminal,
                interrupt,
                size_bytes=size_bytes,
                seconds=seconds,
                repeat=repeat,
                seed=seed,
                place=place,
                dsn=to,
                memory_bytes=_memory(memory, size_bytes),
                settings={name: value for name, _, value in pairs},
                watch_load=lambda: LoadProgress(console),
            )
        records = [kept.record(result.run) for result in shown.results]
        page = _draw(kept, shown, records, output) if output is not None else None
    failed = [*_starved(shown), *why_failed(records, MAX_ERRORS, check=False)]
    if json:
        documents = [run_document(record) for record in records]
        emit(
            {
                "runs": documents,
                "replay": replays.replay_document(records),
                "server": shown.server or {},
                "failed": failed,
                **({"report": str(page)} if page is not None else {}),
            }
        )
    else:
        _print(shown, records, failed, page or _how_to_draw(shown, kept.place))
    return FAILED if failed else EXIT_CODES.get(shown.results[-1].outcome, BAD_INPUT)


def _starved(shown: Demo) -> list[str]:
    """Why the figures are of a server that was killed meanwhile."""
    if not shown.killed or shown.memory_bytes is None:
        return []
    return [
        f"the server was killed, since it needed more memory than the {format_size(shown.memory_bytes)} that it was "
        "given; the figures say nothing of the database; give it more with --memory"
    ]


def _draw(store: Store, shown: Demo, records: list[Record], output: Path) -> Path:
    """The report of the study, as `brickyard report` writes it."""
    from brickyard.report.page import write_report

    return write_report(records, store.studies(shown.study)[0], output)


def _how_to_draw(shown: Demo, place: Path) -> str:
    return f"{command_on(place, f'report s{shown.study}')} writes a page with pictures"


def _print(shown: Demo, records: list[Record], failed: list[str], report: Path | str) -> None:
    console = stdout()
    for line in failed:
        print_line(console, f"Failed: {line}", "bold red")
    for name, group in replay_runs.by_pace(records).items():
        print_line(console, f"{name[0].upper()}{name[1:]}: {served_words(served(group))}.")
        if said := cold_words(group[0]):
            print_line(console, said)
    for line in replay_head_room.verdict_lines(records):
        print_line(console, line, "bold")
    console.print()
    print_warnings(console, records)
    server = f"PostgreSQL {shown.server.version} of our own" if shown.server else "your server"
    print_line(
        console,
        f"{shown.loaded.tiles:,} tiles of {shown.layout.cities} cities, {_loaded_words(shown)}, in {server}; replayed "
        "from a busy Monday hour of "
        f"{SERVERS} web servers with {shown.requests:,} requests",
    )
    for title, names, rows in tables.study_tables(records):
        console.print()
        console.print(table(title, _columns(names), rows))
    console.print()
    print_line(console, tables.NOTE)
    print_line(console, f"report: {report}")


def _loaded_words(shown: Demo) -> str:
    if shown.loaded.bytes == 0:
        return "loaded before"
    return f"loaded at {format_mib_per_s(shown.loaded.bytes_per_s)} MiB/s"


def _columns(names: list[str]) -> list[tuple[str, str]]:
    return [(name, "left" if name in ("server", "page", "study: server") else "right") for name in names]


def _memory(given: str | None, size_bytes: int) -> int | None:
    if given == "all":
        return None
    if given is None:
        return LEAST_MEMORY + size_bytes // CACHED_SHARE
    found = parsed_bytes(given, "--memory")
    if found < LEAST_MEMORY:
        raise BadInputError(f"--memory {given}: at least {format_size(LEAST_MEMORY)}, which 80 sessions need")
    return found
