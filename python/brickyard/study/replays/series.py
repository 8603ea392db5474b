"""Duty: the runs that the pace of a replay asks for, one after the other; more than one make a study. What makes a
replay that came to its end a bad one.

Refusal: it shows nothing; how one run goes is known to `replay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brickyard import _core
from brickyard.analysis.databases import replay_pages, replay_runs, replay_warnings
from brickyard.errors import BadInputError, one_line
from brickyard.schema.logs import ReplayKnown
from brickyard.store import Record, Store
from brickyard.store.record import RunMarks
from brickyard.study.replays.drivers import STDIN, Places
from brickyard.study.replays.run import ReplaySpec, check, refuse, replay, why_no_call, with_pace
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, RunResult
from brickyard.units import format_percent

MAX_ERRORS = 0.01  # as of the unsent: beyond it another load was served than the log's


@dataclass(frozen=True)
class PlannedReplay:
    """One run, with what is known of its logs, which are read once for all runs."""

    spec: ReplaySpec
    known: ReplayKnown


@dataclass(frozen=True)
class ReplaySeries:
    """What came of several runs."""

    study: int | None
    results: list[RunResult]


def spec_of(logs: Sequence[str], mapping: Path, databases: Sequence[str], duration: str | None) -> ReplaySpec:
    """Web logs, the mapping of their requests to calls, the databases that share these, and for how long."""
    return ReplaySpec(
        logs=list(logs),
        mapping_text=read_mapping(mapping),
        mapping_name=mapping.name,
        to=list(databases),
        duration_ns=None if duration is None else length_ns(duration),
    )


def planned(spec: ReplaySpec, pace: str, repeat: int) -> list[PlannedReplay]:
    """What is run one after the other. Raises BadInputError for what cannot be."""
    specs = _specs(spec, pace, repeat)
    known = [check(specs[0])]
    known += [check(one, known[0]) for one in specs[1:]]
    return [PlannedReplay(*pair) for pair in zip(specs, known, strict=True) for _ in range(repeat)]


def refuse_impossible(spec: ReplaySpec, pace: str, repeat: int) -> None:
    """Raises BadInputError where `planned` would, but for what only shows when whole logs are read."""
    for one in _specs(spec, pace, repeat):
        refuse(one)
    for log in spec.logs:
        try:
            with Path(log).open("rb") as file:
                file.read(1)
        except OSError as error:
            raise BadInputError(f"{log}: {error.strerror}; check the path") from error


def _specs(spec: ReplaySpec, pace: str, repeat: int) -> list[ReplaySpec]:
    if repeat < 1:
        raise BadInputError(f"--repeat {repeat}: at least 1")
    specs = with_pace(spec, pace)
    if len(specs) * repeat > 1 and STDIN in spec.logs:
        raise BadInputError("standard input can be read once; a pace that runs several times needs files")
    for one in specs:
        one.orders()
    return specs


def carry_out(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    runs: list[PlannedReplay],
    places: Places | None = None,
) -> ReplaySeries:
    """One run after the other, up to the first that does not come to a good end."""
    specs = [one.spec for one in runs]
    listener.expect(len(specs))
    study: int | None = None
    if len(specs) > 1:
        about = {"verb": "replay", "paces": list(dict.fromkeys(spec.pace for spec in specs))}
        study = store.add_study(f"Replay of {specs[0].title()}", about)
    results: list[RunResult] = []
    try:
        for number, one in enumerate(runs):
            again = specs[:number].count(one.spec) + 1 if specs.count(one.spec) > 1 else None
            own = RunMarks(pace=one.spec.pace, repetition=again) if study is not None else RunMarks()
            results.append(replay(store, listener, interrupt, one.spec, own, study, one.known, places))
            if results[-1].outcome != "done":
                break
            if not replay_runs.issued_calls(store.record(results[-1].run)):
                raise BadInputError(why_no_call(one.spec))
    finally:
        if study is not None:
            store.end_study(study, results[-1].outcome if results else "failed", [])
    return ReplaySeries(study, results)


def why_failed(records: list[Record], most_errors: float, *, check: bool) -> list[str]:
    """What makes the exit code 1: too many failed calls; with --check also calls that were not sent as logged, or that
    returned another number of rows than expected."""
    said = []
    for record in records:
        share = replay_runs.error_share([record])
        if share is not None and share > most_errors:
            limit = f"--max-errors {format_percent(most_errors)}"
            said.append(f"{format_percent(share)} of the calls of run {record.info.id} failed, more than {limit}")
        if check and (order := replay_warnings.distorted(record) or replay_warnings.unverified(record)):
            said.append(f"run {record.info.id}: {order.words()}; sort the calls with --sort always")
        if check and (offered := replay_warnings.unoffered(record)):
            words = offered.words()
            said.append(f"run {record.info.id}: {words[0].lower()}{words[1:]}")
        if check and (diverged := replay_pages.divergence_words([record])):
            said.append(f"run {record.info.id}: {diverged}; load the data that the log requests")
    return said


def read_mapping(place: Path) -> str:
    try:
        return place.read_text("utf-8")
    except OSError as error:
        raise BadInputError(f"--map {place}: {error.strerror}; name the mapping's TOML file") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"--map {place}: is not text in UTF-8") from error


def length_ns(duration: str) -> int:
    found = option_ns("--duration", duration)
    if not found:
        raise BadInputError(f"--duration {duration}: a replay of no length measures nothing; give it a second or more")
    return found


def option_ns(option: str, text: str) -> int:
    try:
        return _core.parse_duration_ns(text)
    except ValueError as error:
        raise BadInputError(f"{option} {text}: {one_line(error)}") from error
