"""Duty: `brickyard replay`. Refusal: what a log or a mapping means is known to the core alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import _core
from brickyard.analysis import replay as replays
from brickyard.analysis import replay_runs
from brickyard.analysis.summary import run_document
from brickyard.cli import options
from brickyard.cli.characterize import EXIT_CODES
from brickyard.cli.load_curve import parse_limit
from brickyard.cli.output import emit, stderr, stdout
from brickyard.cli.progress import CALLS, Terminal
from brickyard.cli.replay_tables import print_explained, print_replay
from brickyard.cli.tables import print_circumstances, print_warnings
from brickyard.databases.connect import split_dsns
from brickyard.errors import BAD_INPUT, INTERRUPTED, BadInputError, one_line
from brickyard.store import Json, Store
from brickyard.study.interrupt import Interrupt
from brickyard.study.replay import ReplaySpec, check, why_no_call, with_pace
from brickyard.study.replay import explain as explained
from brickyard.study.replay import replay as replay_once
from brickyard.study.replay_drivers import STDIN
from brickyard.study.runner import RunResult


def replay(
    *logs: str,
    mapping: Annotated[
        Path,
        Parameter(name=["--map", "-m"], validator=options.READ, help="The mapping of requests to calls, a TOML file."),
    ],
    to: Annotated[
        tuple[str, ...],
        Parameter(name="--to", negative="", help="Connection string; several, by comma or repeated, share the calls."),
    ] = (),
    explain: Annotated[bool, Parameter(negative="", help="Show what the logs would do; connect to nothing.")] = False,
    pace: Annotated[
        str,
        Parameter(help="fire-hose, time-synchronized, both, fixed:RATE, poisson:RATE[,RATE…], or a speed such as 4x."),
    ] = "time-synchronized",
    speed: Annotated[str, Parameter(help='Of the log\'s time: 4x, 0.5, or "1x to 10x over 10min".')] = "1x",
    drivers: Annotated[
        int, Parameter(help="Processes that drive: a log or more each, or a share of the sessions.")
    ] = 1,
    sessions: Annotated[int, Parameter(help="Of each driver with each database: calls in flight at the most.")] = 20,
    duration: Annotated[str | None, Parameter(help="End after this time, such as 60s.")] = None,
    repeat: Annotated[int, Parameter(help="How often each pace is run.")] = 1,
    limit: Annotated[
        str | None, Parameter(help="With several rates: find the highest within it, such as p99:50ms.")
    ] = None,
    again: Annotated[
        bool, Parameter(negative="", help="Begin with the logs again when they end, until --duration.")
    ] = False,
    in_order: Annotated[
        str | None, Parameter(help="Calls of one client keep their order: client, or cookie:NAME.")
    ] = None,
    format: Annotated[str, Parameter(help="auto, w3c, combined (common, too) or json.")] = "auto",  # noqa: A002
    field: Annotated[
        tuple[str, ...], Parameter(negative="", help="Name a JSON key or W3C field, such as --field time=ts. Repeat.")
    ] = (),
    window: Annotated[str, Parameter(help="How far out of order lines may be.")] = "10s",
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
        seed=seed,
        from_time=since,
        until_time=until,
        duration_ns=None if duration is None else _length_ns(duration),
        again=again,
        patience_ns=_ns("--patience", patience),
    )
    if explain:
        return _explain(spec, as_json=json)
    if repeat < 1:
        raise BadInputError(f"--repeat {repeat}: at least 1")
    asked = parse_limit(limit)
    specs = with_pace(spec, pace)
    if len(specs) * repeat > 1 and STDIN in logs:
        raise BadInputError("standard input can be read once; a pace that runs several times needs files")
    for one in specs:
        one.orders(None)
        check(one)
    with Store(store) as kept, Interrupt() as interrupt, Terminal(words=CALLS) as terminal:
        results = _run(kept, terminal, interrupt, [one for one in specs for _ in range(repeat)])
        records = [kept.record(result.run) for result in results]
    if json:
        documents = [run_document(record) for record in records]
        emit({"runs": documents, "replay": replays.replay_document(records, asked)})
    else:
        console = stdout()
        for result in results:
            if result.outcome != "done":
                console.print(f"Run {result.run} {result.outcome}: {result.message}", markup=False, soft_wrap=True)
        print_warnings(console, records)
        console.print()
        print_circumstances(console, records)
        console.print()
        print_replay(console, records, asked)
    return EXIT_CODES.get(results[-1].outcome, BAD_INPUT)


def _run(store: Store, terminal: Terminal, interrupt: Interrupt, specs: list[ReplaySpec]) -> list[RunResult]:
    """One run after the other; more than one make a study."""
    terminal.expect(len(specs))
    study: int | None = None
    if len(specs) > 1:
        about: Json = {"verb": "replay", "paces": list(dict.fromkeys(spec.pace for spec in specs))}
        study = store.add_study(f"Replay of {specs[0].title()}", about)
    results: list[RunResult] = []
    try:
        for number, spec in enumerate(specs):
            same = [s for s in specs[:number] if s == spec]
            labels: Json = {"pace": spec.pace}
            if specs.count(spec) > 1:
                labels["repetition"] = len(same) + 1
            results.append(replay_once(store, terminal, interrupt, spec, labels if study else None, study))
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
        print_explained(stdout(), told["document"])
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
