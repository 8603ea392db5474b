"""Duty: `brickyard lab crash` and `brickyard lab durability`.

Refusal: states are drawn and judged in `brickyard.lab`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from brickyard import _core, outputs
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.errors import DONE, FAILED, BadInputError, one_line
from brickyard.lab import worker
from brickyard.lab.checks import COMMAND, found_program
from brickyard.lab.durability import Result
from brickyard.lab.durability import durability as experiment_of
from brickyard.lab.explore import LOGS_GONE, Exploration, Outcome, bound_words, explore, facts_of, read_recording
from brickyard.lab.explore import record as record_log
from brickyard.lab.orders import Setup
from brickyard.lab.rooms import LOGS, own_folder
from brickyard.reading import parsed_bytes
from brickyard.schema import Document
from brickyard.units import format_percent, format_seconds

app = App(name="crash", help="Record a workload; look at its crash states.")
SAY_EVERY_S = 5.0  # as progress of a run
TORN = {"none": 0, "512": 512, "4096": 4096, "4KiB": 4096}

Command = Annotated[
    str, Parameter(allow_leading_hyphen=True, help="With the workload `command`: the command, after --.")
]
LogPlace = Annotated[Path, Parameter(name="--log", validator=options.READ, help="Folder of a recorded log.")]
NewLog = Annotated[Path, Parameter(name="--log", validator=options.FOLDER, help="A new folder for the log.")]
Settings = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", help="A setting of the software, such as fsync=off. May be repeated."),
]
Cache = Annotated[str, Parameter(help="What the disk does with flushes: honest, off, lying:50 or lossy:1/50.")]
Torn = Annotated[str, Parameter(help="Surviving writes may be torn at 512 or 4096 bytes, or none.")]
Aim = Annotated[str, Parameter(help="Where to cut: mixed, acknowledgements, or marks (checkpoints).")]
Seed = Annotated[int, Parameter(help="Seed; the same log and seed give the same states.")]
Report = Annotated[
    Path | None,
    Parameter(validator=options.REPORT, group=options.OUTPUT, help="Write a page with pictures into a folder."),
]
Workers = Annotated[int, Parameter(help="Number of states judged at the same time, one core each.")]
CORES = max(1, len(os.sched_getaffinity(0)))


class Saying:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self._said_s = time.monotonic()

    def __call__(self, what: str, done: int, all_: int) -> None:
        now = time.monotonic()
        if all_ and now - self._said_s < SAY_EVERY_S:
            return
        self._said_s = now
        print_line(stderr(), f"{what}: {done:,} of {all_:,} states" if all_ else what)


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise BadInputError(f"--set {text}: write NAME=VALUE, such as --set fsync=off")
    return dict(text.split("=", 1) for text in given)


@app.command
def record(
    workload: Annotated[
        str, Parameter(help="postgres, sqlite, files, store, or command with one after --.")
    ] = "postgres",
    /,
    *command: Command,
    log: NewLog,
    duration: Annotated[str, Parameter(help="Duration of the workload.")] = "10s",
    fs: Annotated[str, Parameter(name="--fs", help="ext4, xfs or btrfs.")] = "ext4",
    mount_options: Annotated[str, Parameter(help="Mount options, such as nobarrier.")] = "",
    size: Annotated[str, Parameter(help="Size of the disk.")] = "1GiB",
    settings: Settings = (),
    json: options.Json = False,
) -> int:
    """Run a workload on a disk that logs its requests, with the position of every acknowledgement."""
    setup = Setup(
        workload,
        fs,
        mount_options,
        _settings(settings),
        _seconds(duration),
        4,
        parsed_bytes(size, "--size"),
        list(command),
    )
    recording = record_log(setup, log)
    if json:
        emit({"log": str(log), "acknowledged": len(recording.promises), "version": recording.version})
    else:
        story = recording.story
        print_line(
            stdout(),
            f"{log}: {recording.version}, {len(recording.promises):,} acknowledgements in {story.end - story.begin:,}"
            " records",
        )
    return DONE


def _seconds(text: str) -> float:
    try:
        seconds = _core.parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise BadInputError(f"--duration {text}: {one_line(error)}") from error
    if not 0.1 <= seconds <= 3600:
        raise BadInputError(f"--duration {text}: use 100ms to 1h")
    return seconds


@app.command(name="explore")
def explore_(
    *command: Command,
    log: LogPlace,
    check: Annotated[
        str | None,
        Parameter(
            help="postgres, sqlite, files, store, or command with one after --; by default the check of the "
            "recorded workload."
        ),
    ] = None,
    states: Annotated[int, Parameter(help="Number of states to draw.")] = 1000,
    seed: Seed = 1,
    only: Annotated[tuple[str, ...], Parameter(negative="", help="Judge only the state with this seed again.")] = (),
    cache: Cache = "honest",
    torn: Torn = "512",
    aim: Aim = "mixed",
    workers: Workers = CORES,
    report: Report = None,
    json: options.Json = False,
) -> int:
    """Draw crash states of a log, judge each distinct one, and count what was lost or damaged.

    Exit code 1 if anything was lost or damaged, or if a state could not be judged.
    """
    if states < 1 or workers < 1:
        raise BadInputError("--states and --workers are at least 1")
    _refuse_seed(seed)
    recording = read_recording(log)
    wanted = Exploration(
        log,
        check or (COMMAND if command else recording.setup.workload),
        cache,
        aim,
        _torn_bytes(torn),
        states,
        seed,
        only,
        command,
        workers,
    )
    say = Saying()
    outcome = explore(wanted, lambda done, all_: say("judged", done, all_))
    page = _reported([(f"cache {cache}, cuts {aim}, torn {torn}", wanted, outcome)], report)
    if json:
        emit(_document(outcome) | {"log_hash": outcome.log.hash if outcome.log else None} | page)
    else:
        _print_outcome(wanted, outcome)
        _print_page(page)
    return FAILED if outcome.found or outcome.not_judged else DONE


def _refuse_seed(seed: int) -> None:
    if not 0 <= seed < 1 << 64:
        raise BadInputError(f"--seed {seed}: use a number from 0 to 2^64 - 1")


def _torn_bytes(torn: str) -> int:
    if torn not in TORN:
        raise BadInputError(f"--torn {torn}: use 512, 4096 or none")
    return TORN[torn]


def _reported(explored: list[tuple[str, Exploration, Outcome]], place: Path | None) -> dict[str, str]:
    if place is None:
        return {}
    from brickyard.report.lab import Explored, write_lab_report

    print_line(stderr(), "report: searching for the writes that the first states needed")
    return {"report": str(write_lab_report([Explored(*one) for one in explored], place))}


def _print_page(page: dict[str, str]) -> None:
    for name, place in page.items():
        print_line(stdout(), f"{name}: {place}")


@app.command
def look(
    *command: Command,
    log: LogPlace,
    only: Annotated[str, Parameter(help="The seed of the state.")],
    cache: Cache = "honest",
    torn: Torn = "512",
    aim: Aim = "mixed",
) -> int:
    """Mount one crash state and start a shell, or the command after --, in its root. Changes are not kept.

    Give the same --cache, --torn and --aim as to `explore`.
    """
    if os.geteuid() != 0:
        raise BadInputError("the lab mounts disks, which only root may; run it as root")
    wanted = Exploration(log, "files", cache, aim, _torn_bytes(torn))
    words = found_program(command) or [os.environ.get("SHELL") or "/bin/sh"]
    recording = read_recording(log)
    facts_of(wanted, recording)
    return worker.look(wanted.judging(recording), only, words)


def _document(outcome: Outcome) -> Document:
    return {
        "states": outcome.states,
        "distinct": outcome.distinct,
        "cuts": len(outcome.cuts),
        "share_at_most": outcome.share_at_most,
        "kept": outcome.kept,
        "lost": outcome.lost,
        "corrupt": outcome.corrupt,
        "not_judged": outcome.not_judged,
        "first": {kind: {"seed": seed, "why": why} for kind, (seed, why) in outcome.first.items()},
    }


def _print_outcome(wanted: Exploration, outcome: Outcome) -> None:
    console = stdout()
    names = ("states", "distinct", "cuts", "kept", "lost", "corrupt", "not judged")
    row = [outcome.states, outcome.distinct, len(outcome.cuts), outcome.kept, outcome.lost, outcome.corrupt]
    row.append(outcome.not_judged)
    console.print(table("Crash states", [(name, "right") for name in names], [[f"{n:,}" for n in row]]))
    if bound := bound_words(outcome):
        print_line(console, bound)
    for kind, (seed, why) in outcome.first.items():
        print_line(console, f"{kind}, first in --only {seed} {wanted.options}: {why}")


def durability(
    workload: Annotated[str, Parameter(help="postgres, sqlite, files or store (of Brickyard's runs).")] = "postgres",
    /,
    *,
    states: Annotated[
        int, Parameter(help="Number of crash states for each configuration; controls get a tenth of it.")
    ] = 1000,
    duration: Annotated[str, Parameter(help="Duration of each workload.")] = "10s",
    fs: Annotated[str, Parameter(name="--fs", help="ext4, xfs or btrfs.")] = "ext4",
    seed: Seed = 1,
    logs: Annotated[
        Path | None,
        Parameter(validator=options.FOLDER, help="A folder in which to keep the logs, for `lab crash explore`."),
    ] = None,
    report: Report = None,
    json: options.Json = False,
) -> int:
    """Cut the power at many points of a database's workload, and count what it loses, compared with controls that must
    lose data.

    Exit code 1 if a configuration that must keep everything loses data, if a control does not show what it must, or if
    a state could not be judged.
    """
    if states < 1:
        raise BadInputError("--states is at least 1")
    _refuse_seed(seed)
    setup = Setup(workload=workload, load_s=_seconds(duration), file_system=fs)
    with ExitStack() as ending:
        place = outputs.folder(logs) if logs else ending.enter_context(own_folder(LOGS))
        results = list(experiment_of(setup, states, seed, place, Saying(), logs_stay=bool(logs)))
        page = _reported([(one.configuration.name, one.wanted, one.outcome) for one in results], report)
    if json:
        emit({"configurations": [_configuration(result) for result in results], **page})
    else:
        _print_results(results)
        _print_page(page)
    return DONE if all(result.as_it_should for result in results) else FAILED


def _configuration(result: Result) -> Document:
    return {
        "name": result.configuration.name,
        "must_fail": result.configuration.must_fail,
        "as_it_should": result.as_it_should,
        "why_not": result.why_not or None,
        "version": result.version,
        "commits_per_s": result.commits / result.load_s,
        "judging_s": result.judging_s,
        "log": str(result.wanted.log) if result.wanted.log_stays else None,
        "cache": result.wanted.cache,
        "aim": result.wanted.aim,
        "torn_bytes": result.wanted.torn_bytes,
        **_document(result.outcome),
    }


def _judged_words(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Equal states are judged once."""
    drawn, distinct = sum(one.states for one in outcomes), sum(one.distinct for one in outcomes)
    of_these = "" if distinct == drawn else f" ({distinct:,} distinct, each judged once)"
    return f"{drawn:,} states{of_these} were judged in {format_seconds(seconds)}"


def _print_results(results: list[Result]) -> None:
    names = ("states", "distinct", "lost", "corrupt", "unjudged", "found")
    columns = [("configuration", "left"), *((name, "right") for name in names), ("right", "left")]
    rows = []
    for result in results:
        found = result.outcome
        numbers = (found.states, found.distinct, found.lost, found.corrupt, found.not_judged)
        right = "yes" if result.as_it_should else "NO"
        share = format_percent(found.found / found.states)
        rows.append([result.configuration.name, *(f"{number:,}" for number in numbers), share, right])
    console = stdout()
    versions = ", ".join(sorted({result.version for result in results}))
    console.print(table(f"Crash states of {versions}", columns, rows))
    print_line(console, _judged_words([result.outcome for result in results], sum(one.judging_s for one in results)))
    console.print()
    for result in results:
        if why_not := result.why_not:
            print_line(console, f"{result.configuration.name}: not right: {why_not}")
        if not result.configuration.must_fail and (bound := bound_words(result.outcome)):
            print_line(console, f"{result.configuration.name}: {bound}")
        for kind, (seed, why) in result.outcome.first.items():
            print_line(console, f"{result.configuration.name}: {kind}, first in {result.wanted.named(seed)}: {why}")
    if any(result.outcome.first and not result.wanted.log_stays for result in results):
        print_line(console, LOGS_GONE)
