"""Duty: `brickyard replay`. Refusal: what a log or a mapping means is known to the core alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from brickyard.analysis.databases import replay as replays
from brickyard.analysis.databases import replay_head_room
from brickyard.analysis.figures.load_curve import Limit
from brickyard.analysis.judging.summary import run_document
from brickyard.cli.measuring.load_curve import parse_limit
from brickyard.cli.parts import judging as judges
from brickyard.cli.parts import on_hosts, options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stderr, stdout
from brickyard.cli.parts.progress import CALLS, Terminal
from brickyard.cli.parts.replay_tables import print_explained, print_replay
from brickyard.cli.parts.tables import print_circumstances
from brickyard.databases.connect import split_dsns
from brickyard.errors import BAD_INPUT, DONE, FAILED, INTERRUPTED, BadInputError
from brickyard.schema.logs import logs_explained
from brickyard.store import Record, Store
from brickyard.study.replays.drivers import STDIN
from brickyard.study.replays.run import ReplaySpec
from brickyard.study.replays.run import explain as explained
from brickyard.study.replays.series import (
    MAX_ERRORS,
    carry_out,
    option_ns,
    planned,
    spec_of,
    why_failed,
)
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import RunResult


def replay(
    *logs: str,
    mapping: Annotated[
        Path,
        Parameter(name=["--map", "-m"], validator=options.READ, help="TOML file that maps requests to calls."),
    ],
    to: Annotated[
        tuple[str, ...],
        Parameter(
            name="--to",
            negative="",
            show_default=False,
            help="Connection string. Several databases, separated by commas or given by repeating the option, share "
            "the calls.",
        ),
    ] = (),
    explain: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show what the logs would do; connect to nothing.")
    ] = False,
    pace: Annotated[
        str,
        Parameter(help="fire-hose, time-synchronized, both, fixed:RATE, poisson:RATE[,RATE…], or a speed such as 4x."),
    ] = "time-synchronized",
    speed: Annotated[
        str, Parameter(help='Speed relative to the log\'s time: 4x, 0.5, or "1x to 10x over 10min".')
    ] = "1x",
    drivers: Annotated[
        int,
        Parameter(
            help="Number of driver processes: each takes one or more logs, or a share of the sessions; with "
            "--hosts, one per host."
        ),
    ] = 1,
    hosts: on_hosts.DrivenOn = None,
    lost: on_hosts.WhenLost = "keep",
    sessions: Annotated[
        int, Parameter(help="The most calls in flight per driver; several databases share them evenly.")
    ] = 20,
    duration: Annotated[str | None, Parameter(help="End after this time, such as 60s.")] = None,
    repeat: Annotated[int, Parameter(help="Number of runs at each pace.")] = 1,
    limit: Annotated[
        str | None, Parameter(help="With several rates: find the highest rate within this limit, such as p99:50ms.")
    ] = None,
    again: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="When the logs end, start them again, until --duration."),
    ] = False,
    in_order: Annotated[
        str | None, Parameter(help="Calls of one client keep their order: client, or cookie:NAME.")
    ] = None,
    format: Annotated[  # noqa: A002
        str, Parameter(help="Format of the logs: auto, w3c, combined (also for common) or json.")
    ] = "auto",
    field: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="Name a JSON key or W3C field, such as --field time=ts. Repeat."
        ),
    ] = (),
    window: Annotated[str, Parameter(help="Time by which lines may be out of order.")] = "10s",
    sort: Annotated[
        Literal["auto", "always", "never"],
        Parameter(
            help="Sort all calls before the replay, on disk if there are many; auto sorts if --window is too short."
        ),
    ] = "auto",
    keep_outliers: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Also replay requests whose time stamps are far from all others."
        ),
    ] = False,
    drop_caches: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Drop the page cache of the servers' files before each run; needs --manage.",
        ),
    ] = False,
    manage: Annotated[
        bool, Parameter(negative="", show_default=False, help="Allow changes to the state of this host.")
    ] = False,
    max_errors: Annotated[
        str, Parameter(help="Share of calls that may fail; beyond it the exit code is 1.")
    ] = f"{MAX_ERRORS:.0%}",
    ruler: judges.Rulers = (),
    check: Annotated[
        bool,
        Parameter(
            name="--check",
            negative="",
            show_default=False,
            help="Exit with 1 if calls were not sent as logged or returned other rows, or a requirement is not met.",
        ),
    ] = False,
    since: Annotated[
        str | None, Parameter(name="--from", help="Only requests from this time on, such as 2003-06-02T10:00:00Z.")
    ] = None,
    until: Annotated[str | None, Parameter(help="Only requests before this time.")] = None,
    patience: Annotated[
        str, Parameter(help="End the run after all databases have been unreachable for this long.")
    ] = "30s",
    seed: Annotated[int, Parameter(help="Seed for the instants within a logged second, and for Poisson arrivals.")] = 1,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Replay web logs against a database: each request as the call that its page makes.

    Parameters
    ----------
    logs
        W3C extended (IIS), common or combined (Apache, nginx), JSON lines; plain, gzip or zstd; - is standard input.
    """
    logs = tuple(STDIN if log == "/dev/stdin" else log for log in logs)
    databases = split_dsns(*to)
    judge = judges.judging(ruler, check and bool(ruler))
    most_errors = judges.most_errors(max_errors)
    if drop_caches and not manage:
        raise BadInputError(
            "--drop-caches: changes the page cache of this host, which affects other programs too; add --manage"
        )
    driven_on = () if explain else on_hosts.hosts_of_drivers(hosts, drivers)
    spec = replace(
        spec_of(logs, mapping, databases, duration),
        speed=speed,
        drivers=len(driven_on) or drivers,
        sessions=sessions,
        in_order=in_order,
        format=format,
        fields=field,
        window_s=option_ns("--window", window) // 1_000_000_000,
        sort=sort,
        keep_outliers=keep_outliers,
        drop_caches=drop_caches,
        seed=seed,
        from_time=since,
        until_time=until,
        hosts=driven_on,
        again=again,
        patience_ns=option_ns("--patience", patience),
    )
    if explain:
        return _explain(spec, as_json=json)
    asked = _limit(limit, pace)
    runs = planned(spec, pace, repeat)
    places = on_hosts.places_of(spec, runs[0].known, lost)
    with Store(store) as kept, Interrupt() as interrupt, Terminal(words=CALLS) as terminal:
        if places is not None:
            places.say = terminal.note
        results = carry_out(kept, terminal, interrupt, runs, places).results
        records = [kept.record(result.run) for result in results]
    failed = why_failed(records, most_errors, check=check)
    if json:
        documents = [{**run_document(record), **judge.document(record)} for record in records]
        emit({"runs": documents, "replay": replays.replay_document(records, asked), "failed": failed})
    else:
        _show(results, records, asked, judge)
        for line in failed:
            print_line(stdout(), f"Failed: {line}", "bold red")
    if results[-1].outcome != "done":
        return EXIT_CODES.get(results[-1].outcome, BAD_INPUT)
    return judge.exit_code(records, DONE if not failed and replay_head_room.is_kept(records, asked) else FAILED)


def _limit(text: str | None, pace: str) -> Limit | None:
    if text is not None and pace.partition(":")[0] not in ("fixed", "poisson"):
        raise BadInputError(f"--limit {text}: needs offered rates, such as --pace poisson:200,400,800")
    return parse_limit(text)


def _show(results: list[RunResult], records: list[Record], limit: Limit | None, judge: judges.Judging) -> None:
    console = stdout()
    for result in results:
        if result.outcome != "done":
            words = ": ".join(filter(None, (f"Run {result.run} {result.outcome}", result.message)))
            print_line(console, words)
    print_replay(console, records, limit)
    console.print()
    print_circumstances(console, records)
    for record in records:
        judge.print(console, record)


def _explain(spec: ReplaySpec, *, as_json: bool) -> int:
    if STDIN not in spec.logs:
        print_line(stderr(), f"reading {', '.join(spec.logs)}")
    text = explained(spec)
    logs = logs_explained(text)
    if as_json:
        emit(msgspec.json.decode(text))
    else:
        print_explained(stdout(), logs)
    return INTERRUPTED if logs.interrupted else 0
