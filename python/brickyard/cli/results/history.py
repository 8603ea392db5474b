"""Duty: `brickyard history`. Refusal: no figures are computed here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from brickyard.analysis.figures.named import COMPARABLE, FIGURES, Figure
from brickyard.analysis.figures.totals import UNKNOWN_TARGET
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging.history import RUNS_MIN, History, histories
from brickyard.analysis.judging.marks import MARKS, marks_of
from brickyard.analysis.judging.run_figures import RunFigures
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.cli.parts.selection import leave_out, open_store
from brickyard.cli.results.compare import parse_confidence, write_pictures
from brickyard.cli.results.runs import READ_AT_ONCE, since_unix_ns
from brickyard.errors import BadInputError, Remedy, nearest
from brickyard.facts.target import NO_PATH
from brickyard.schema import Document
from brickyard.store import RunHead, Store
from brickyard.study.running.summaries import figures_of_runs
from brickyard.units import format_count, format_name, format_runs

REPEATS_WHY = "same seed on a modelled target, or a result that was imported again"
NOTED_FROM = 100  # runs, which take some seconds


def history(
    target: str,
    /,
    *,
    figure: Annotated[str, Parameter(help="iops, mib_per_s, response_mean, response_p99 …")] = "iops",
    profile: Annotated[str | None, Parameter(help="Only runs of this profile.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only runs since a day (2026-01-31), or within a period up to now (2h, 7d).")
    ] = None,
    confidence: Annotated[str, Parameter(help="Confidence from which a change is reported, at least 50%.")] = "95%",
    output: options.Pictures = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """A figure of every workload on a target over all runs in the store, and the runs at which it changed permanently.

    Parameters
    ----------
    target
        A path or sim:NAME. A relative path is looked up in this directory first.
    """
    if figure not in COMPARABLE:
        raise BadInputError(f"--figure {figure}: is not a figure with a history", nearest(figure, COMPARABLE))
    since_ns = since_unix_ns(since) if since else 0
    sure = parse_confidence(confidence)
    with open_store(store) as kept:
        runs = kept.heads()
        asked = [run for run in runs if run.created_unix_ns >= since_ns and profile in (None, run.profile)]
        chosen = _meant(target, asked) or _by_name(target, asked)
        if not chosen:
            known = sorted({path for run in runs for path in run.targets})
            raise BadInputError(f"{target}: no run on it in {kept.place}", nearest(target, known))
        good = {run.id: run for run in chosen if run.is_valid}
        figures = figures_of_runs(kept, list(good), leave_out, _note)
        known_runs = [(good[run], _on(target, good[run], found)) for run, found in figures.items()]
        found = histories(known_runs, figure, kept.record, confidence=sure)
        _say_together(target, figures, is_all=not found)
        loads = {item.name: _workload(kept, item) for item in found}
        marks = _marks(kept, found)
    pictures = _draw(found, loads, output) if output else []
    if json:
        emit(
            {
                "target": target,
                "figure": figure,
                "unit": unit_of(FIGURES[figure]),
                "marks": marks,
                "histories": [
                    {**_document(h), "unit": unit_of(h.figure), "workload": loads[h.name] or None} for h in found
                ],
                "pictures": pictures,
            }
        )
        return 0
    shown = [item for item in found if len(item.points) >= RUNS_MIN or not good[item.points[0].run].marks.is_step]
    _print(shown, loads, pictures, sure)
    for mark, marked in marks.items():
        print_line(stdout(), f"{format_runs(marked)}: {mark}: {MARKS[mark]}", "dim")
    if len(shown) < len(found):
        steps = (
            f"{len(found) - len(shown)} workloads whose rates were chosen by a search or load curve are left "
            "out; --json has them"
        )
        print_line(stdout(), steps, "dim")
    return 0


def _marks(store: Store, found: Sequence[History]) -> dict[str, list[int]]:
    """Runs among the points without whose mark a figure would be taken for what it is not."""
    runs = sorted({point.run for item in found for point in item.points})
    marked: dict[str, list[int]] = {}
    for first in range(0, len(runs), READ_AT_ONCE):
        for run in store.runs(runs[first : first + READ_AT_ONCE]):
            for mark in marks_of(run):
                marked.setdefault(mark, []).append(run.id)
    return marked


def _note(count: int) -> None:
    if count > NOTED_FROM:
        words = f"computing the figures of {format_count(count)} runs; they are kept in the store for the next time"
        print_line(stderr(), words)


def _say_together(target: str, figures: Mapping[int, RunFigures], *, is_all: bool) -> None:
    """Of runs by another program on several targets, what they did on this one may not be known."""
    runs = [run for run, of in figures.items() if any(part.target == UNKNOWN_TARGET for part in of.parts)]
    if not runs:
        return
    said = f"what {format_runs(runs)} did on several targets together"
    if is_all:
        whole = Remedy(f"`brickyard show {runs[-1]}` has the figures of all of them")
        raise BadInputError(f"{target} has no history: {said} is not known of each of them", whole)
    print_line(stderr(), f"left out: {said}")


def _on(target: str, run: RunHead, figures: RunFigures) -> RunFigures:
    """Of a run on several targets, what it did on this one."""
    mine = _numbers(target, run) or [number for number, (name, _) in enumerate(places(run)) if name == target]
    kept = [part for part in figures.parts if part.target is None or part.target in mine]
    return structs.replace(figures, parts=kept)


def _meant(target: str, runs: list[RunHead]) -> list[RunHead]:
    return [run for run in runs if _numbers(target, run)]


def _numbers(target: str, run: RunHead) -> list[int]:
    """Which of a run's targets it is. A relative name stands for another file in each directory: it is the file that
    counts."""
    if NO_PATH.match(target):
        return [number for number, path in enumerate(run.targets) if path == target]
    names, file = (target, os.path.abspath(target)), os.path.realpath(target)
    return [
        number
        for number, (name, place) in enumerate(places(run))
        if (name in names if os.path.isabs(name) else place == file)
    ]


def _by_name(target: str, runs: list[RunHead]) -> list[RunHead]:
    """Runs that were given this name in some other directory, if all of them were on one file."""
    found: dict[str, list[RunHead]] = {}
    for run in runs:
        for name, place in places(run):
            if name == target:
                found.setdefault(place, []).append(run)
    if len(found) > 1:
        several = "; ".join(f"{place} ({format_runs([run.id for run in same])})" for place, same in found.items())
        raise BadInputError(f"{target}: is the name of several files: {several}; give the full path of one of them")
    return next(iter(found.values()), [])


def places(run: RunHead) -> list[tuple[str, str]]:
    """Each target as it was named, and the file that it was."""
    known = run.real_paths[: len(run.targets)]
    return [(name, real or name) for name, real in zip_longest(run.targets, known)]


def unit_of(figure: Figure) -> str:
    """Of the values in the document; times are in ns there."""
    return "ns" if figure.kind == "time" else figure.unit


def _workload(store: Store, item: History) -> str:
    """What its runs asked for; of very many, the first and the newest, which it then says."""
    runs = list(dict.fromkeys(point.run for point in item.points))
    if len(runs) <= READ_AT_ONCE:
        return workload_words([store.record(run) for run in runs])
    words = workload_words([store.record(runs[0]), store.record(runs[-1])])
    return f"{words} (of the first run and the newest)" if words else ""


def _draw(found: list[History], loads: dict[tuple[str, ...], str], folder: Path) -> list[str]:
    from brickyard.report.compare_charts import history_picture

    long = [item for item in found if len(item.points) > 1]
    drawn = [history_picture(item, number, loads[item.name]) for number, item in enumerate(long, 1)]
    return write_pictures(drawn, folder)


def _print(found: list[History], loads: dict[tuple[str, ...], str], pictures: list[str], sure: float) -> None:
    console = stdout()
    title = " and ".join(dict.fromkeys(item.figure.title for item in found))
    columns = [("load", "left"), ("runs", "right"), ("first", "right"), ("newest", "right"), ("changes", "left")]
    rows = [
        [
            format_name(item.name),
            str(len(item.points)),
            item.figure.words(item.points[0].value),
            item.figure.words(item.points[-1].value),
            _changes(item),
        ]
        for item in found
    ]
    if rows:
        console.print(table(title, columns, rows))
    for item in found:
        if words := loads[item.name]:
            print_line(console, f"{format_name(item.name)}: {words}", "dim")
    if repeats := sorted({run for item in found for run in item.repeats}):
        print_line(console, f"left out, as each repeats an earlier run: {format_runs(repeats)} ({REPEATS_WHY})", "dim")
    if any(len(item.points) >= RUNS_MIN for item in found):
        note = (
            "if nothing changed and runs are independent, at most "
            f"{(1 - sure) * 100:.2g} % of histories show a change; with runs that follow each other closely, more do "
            "(docs/statistics.md)"
        )
        print_line(console, note, "dim")
    for item in found:
        for turn in item.turns:
            before, after = item.figure.words(turn.before), item.figure.words(turn.after)
            print_line(
                console,
                f"{format_name(item.name)}: from run {turn.run} ({_when(turn.unix_ns)}) on {before} → {after},"
                f" {turn.share * 100:+.1f} %",
            )
            for other in turn.differing:
                print_line(console, f"  at that moment: {other.label}: {other.words}")
    for path in pictures:
        console.print(f"picture: {path}", markup=False, soft_wrap=True)


def _changes(item: History) -> str:
    if len(item.points) < RUNS_MIN:
        return f"needs at least {RUNS_MIN} runs"
    return "none" if not item.turns else f"at run {', '.join(str(turn.run) for turn in item.turns)}"


def _when(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M")


def _document(item: History) -> Document:
    return {
        "load": list(item.name),
        "repeats": len(item.repeats),
        "points": [{"run": p.run, "unix_ns": p.unix_ns, "value": p.value} for p in item.points],
        "changes": [
            {
                "run": turn.run,
                "unix_ns": turn.unix_ns,
                "before": turn.before,
                "after": turn.after,
                "share": turn.share,
                "differing": [{"label": d.label, "values": [list(v) for v in d.values]} for d in turn.differing],
            }
            for turn in item.turns
        ],
    }
