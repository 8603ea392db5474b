"""Duty: `brickyard replay`. Refusal: what a log or a mapping means is known to the core alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from brickyard import _core
from brickyard.analysis import replay as replays
from brickyard.analysis import replay_runs, replay_warnings
from brickyard.analysis.load_curve import Limit
from brickyard.analysis.summary import run_document
from brickyard.cli import judging as judges
from brickyard.cli import options
from brickyard.cli.characterize import EXIT_CODES
from brickyard.cli.load_curve import parse_limit
from brickyard.cli.output import emit, print_line, stderr, stdout
from brickyard.cli.progress import CALLS, Terminal
from brickyard.cli.replay_tables import print_explained, print_replay
from brickyard.cli.tables import print_circumstances, print_warnings
from brickyard.databases.connect import split_dsns
from brickyard.errors import BAD_INPUT, DONE, FAILED, INTERRUPTED, BadInputError, one_line
from brickyard.store import Json, Record, Store
from brickyard.study.interrupt import Interrupt
from brickyard.study.replay import ReplaySpec, why_no_call, with_pace
from brickyard.study.replay import check as checked
from brickyard.study.replay import explain as explained
from brickyard.study.replay import replay as replay_once
from brickyard.study.replay_drivers import STDIN
from brickyard.study.runner import RunResult
from brickyard.units import format_percent

MAX_ERRORS = 0.01  # as of the unsent: beyond it another load was served than the log's


def replay(
    *logs: str,
    mapping: Annotated[
        Path,
        Parameter(name=["--map", "-m"], validator=options.READ, help="The mapping of requests to calls, a TOML file."),
    ],
    to: Annotated[
        tuple[str, ...],
        Parameter(
            name="--to",
            negative="",
            show_default=False,
            help="Connection string; several, by comma or repeated, share the calls.",
        ),
    ] = (),
    explain: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show what the logs would do; connect to nothing.")
    ] = False,
    pace: Annotated[
        str,
        Parameter(help="fire-hose, time-synchronized, both, fixed:RATE, poisson:RATE[,RATE…], or a speed such as 4x."),
    ] = "time-synchronized",
    speed: Annotated[str, Parameter(help='Of the log\'s time: 4x, 0.5, or "1x to 10x over 10min".')] = "1x",
    drivers: Annotated[
        int, Parameter(help="Processes that drive: a log or more each, or a share of the sessions.")
    ] = 1,
    sessions: Annotated[
        int, Parameter(help="Of each driver: calls in flight at the most; several databases share them evenly.")
    ] = 20,
    duration: Annotated[str | None, Parameter(help="End after this time, such as 60s.")] = None,
    repeat: Annotated[int, Parameter(help="How often each pace is run.")] = 1,
    limit: Annotated[
        str | None, Parameter(help="With several rates: find the highest within it, such as p99:50ms.")
    ] = None,
    again: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Begin with the logs again when they end, until --duration."),
    ] = False,
    in_order: Annotated[
        str | None, Parameter(help="Calls of one client keep their order: client, or cookie:NAME.")
    ] = None,
    format: Annotated[str, Parameter(help="auto, w3c, combined (common, too) or json.")] = "auto",  # noqa: A002
    field: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="Name a JSON key or W3C field, such as --field time=ts. Repeat."
        ),
    ] = (),
    window: Annotated[str, Parameter(help="How far out of order lines may be.")] = "10s",
    sort: Annotated[
        Literal["auto", "always", "never"],
        Parameter(help="Sort all calls first, on disk where they are many: auto does where --window is too short."),
    ] = "auto",
    keep_outliers: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Replay requests whose stamps are far from all others, too."),
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
        bool, Parameter(negative="", show_default=False, help="Allow what changes the state of this host.")
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
            help="Exit with 1 when calls were not sent as the log has them, or a ruler is not met.",
        ),
    ] = False,
    since: Annotated[
        str | None, Parameter(name="--from", help="Only requests from then on, 2003-06-02T10:00:00Z.")
    ] = None,
    until: Annotated[str | None, Parameter(help="Only requests before then.")] = None,
    patience: Annotated[str, Parameter(help="How long all databases may be unreachable.")] = "30s",
    seed: Annotated[int, Parameter(help="Of instants within a logged second, and of Poisson arrivals.")] = 1,
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
        raise BadInputError("--drop-caches: changes what this host has cached, for others too; add --manage")
    spec = ReplaySpec(
        logs=list(logs),
        mapping_text=_read(mapping),
        mapping_name=mapping.name,
        to=databases,
        speed=speed,
        drivers=drivers,
        sessions=sessions,
        in_order=in_order,
        format=format,
        fields=field,
        window_s=_ns("--window", window) // 1_000_000_000,
        sort=sort,
        keep_outliers=keep_outliers,
        drop_caches=drop_caches,
        seed=seed,
        from_time=since,
        until_time=until,
        duration_ns=None if duration is None else _length_ns(duration),
        again=again,
        patience_ns=_ns("--patience", patience),
    )
    if explain:
        return _explain(spec, as_json=json)
    asked = parse_limit(limit)
    runs = _runs(spec, pace, repeat)
    with Store(store) as kept, Interrupt() as interrupt, Terminal(words=CALLS) as terminal:
        results = _run(kept, terminal, interrupt, runs)
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
    return judge.exit_code(records, FAILED if failed else DONE)


def _runs(spec: ReplaySpec, pace: str, repeat: int) -> list[tuple[ReplaySpec, Json]]:
    """What is run one after the other, each with what is known of its logs, which are read once for all."""
    if repeat < 1:
        raise BadInputError(f"--repeat {repeat}: at least 1")
    specs = with_pace(spec, pace)
    if len(specs) * repeat > 1 and STDIN in spec.logs:
        raise BadInputError("standard input can be read once; a pace that runs several times needs files")
    for one in specs:
        one.orders()
    known = [checked(specs[0])]
    known += [checked(one, known[0]) for one in specs[1:]]
    return [pair for pair in zip(specs, known, strict=True) for _ in range(repeat)]


def _show(results: list[RunResult], records: list[Record], limit: Limit | None, judge: judges.Judging) -> None:
    console = stdout()
    for result in results:
        if result.outcome != "done":
            console.print(f"Run {result.run} {result.outcome}: {result.message}", markup=False, soft_wrap=True)
    print_replay(console, records, limit)
    console.print()
    print_circumstances(console, records)
    console.print()
    print_warnings(console, records)
    for record in records:
        judge.print(console, record)


def why_failed(records: list[Record], most_errors: float, *, check: bool) -> list[str]:
    """What makes the exit code 1: too many failed calls; with --check also calls that were not sent as logged."""
    said = []
    for record in records:
        share = replay_runs.error_share([record])
        if share is not None and share > most_errors:
            limit = f"--max-errors {format_percent(most_errors)}"
            said.append(f"{format_percent(share)} of the calls of run {record.info.id} failed, more than {limit}")
        if check and (words := replay_warnings.distorted(record) or replay_warnings.unverified(record)):
            said.append(f"run {record.info.id}: {words}; sort the calls with --sort always")
    return said


def _run(
    store: Store, terminal: Terminal, interrupt: Interrupt, asked: list[tuple[ReplaySpec, Json]]
) -> list[RunResult]:
    """One run after the other; more than one make a study."""
    specs = [spec for spec, _ in asked]
    terminal.expect(len(specs))
    study: int | None = None
    if len(specs) > 1:
        about: Json = {"verb": "replay", "paces": list(dict.fromkeys(spec.pace for spec in specs))}
        study = store.add_study(f"Replay of {specs[0].title()}", about)
    results: list[RunResult] = []
    try:
        for number, (spec, known) in enumerate(asked):
            same = [s for s in specs[:number] if s == spec]
            labels: Json = {"pace": spec.pace}
            if specs.count(spec) > 1:
                labels["repetition"] = len(same) + 1
            results.append(replay_once(store, terminal, interrupt, spec, labels if study else None, study, known))
            if results[-1].outcome != "done":
                break
            if results[-1].outcome == "done" and not replay_runs.issued_calls(store.record(results[-1].run)):
                raise BadInputError(why_no_call(spec))
    finally:
        if study is not None:
            store.end_study(study, results[-1].outcome if results else "failed", [])
    return results


def _explain(spec: ReplaySpec, *, as_json: bool) -> int:
    if STDIN not in spec.logs:
        stderr().print("reading", ", ".join(spec.logs), markup=False, soft_wrap=True)
    told = explained(spec)
    if as_json:
        emit(told)
    else:
        print_explained(stdout(), told["document"], told["look"], is_sorted=told["sort"])
    return INTERRUPTED if told["interrupted"] else 0


def _read(place: Path) -> str:
    try:
        return place.read_text("utf-8")
    except OSError as error:
        raise BadInputError(f"--map {place}: {error.strerror}; name the mapping's TOML file") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"--map {place}: is not text in UTF-8") from error


def _length_ns(duration: str) -> int:
    found = _ns("--duration", duration)
    if not found:
        raise BadInputError(f"--duration {duration}: a replay of no length measures nothing; give it a second or more")
    return found


def _ns(option: str, text: str) -> int:
    try:
        return _core.parse_duration_ns(text)
    except ValueError as error:
        raise BadInputError(f"{option} {text}: {one_line(error)}") from error
