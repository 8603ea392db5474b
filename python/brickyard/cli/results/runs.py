"""Duty: `brickyard runs`: what is in the store, the newest last, each run with the figures that were kept at its end.

Refusal: no figure is computed, and no run is read for one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.latency import FEW_EVENTS, FEW_EVENTS_WORDS
from brickyard.analysis.figures.marked import by_tool, marks_words
from brickyard.analysis.figures.named import IOPS
from brickyard.analysis.judging.groups import state_of
from brickyard.analysis.judging.marks import MARKS, marks_of
from brickyard.analysis.judging.run_figures import PhaseFigures, RunFigures
from brickyard.analysis.judging.summary import when
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stdout, table
from brickyard.cli.parts.selection import named_runs, open_store
from brickyard.conditions import written
from brickyard.errors import BadInputError
from brickyard.reading import span_seconds
from brickyard.schema import Document, stored
from brickyard.store import RunHead, RunInfo, Store, StudyInfo, command_on
from brickyard.store.record import DAMAGED, Outcome
from brickyard.study.running.summaries import kept_figures
from brickyard.units import format_iops, format_name, format_ns, format_runs

WORST_FIRST: tuple[Outcome, ...] = ("failed", DAMAGED, "running", "interrupted", "done")
"""The outcome that stands for the runs of a study."""
NAMES_SHOWN = 8
ROWS = 50
"""Shown unless runs are named or another number is given."""
COUNT = re.compile(r"^(at least )?\d+ ")
READ_AT_ONCE = 200  # runs whose facts are in memory
COLUMNS = ("run", "started", "outcome", "IOPS", "p99", "workload", "target")
FIGURES = ("IOPS", "p99")


def runs(
    *runs: str,
    profile: Annotated[str | None, Parameter(help="Only runs of this profile.")] = None,
    target: Annotated[str | None, Parameter(help="Only runs whose target contains this text.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only runs since a day (2026-01-31), or within a period up to now (2h, 7d).")
    ] = None,
    outcome: Annotated[Outcome | None, Parameter(help="Only runs with this outcome.")] = None,
    study: Annotated[str | None, Parameter(help="The runs of one study, such as s3.")] = None,
    each: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show every run of studies and searches in its own row.")
    ] = False,
    limit: Annotated[
        int | None,
        Parameter(help=f"Show at most N rows, the newest; 0 shows all. [default: {ROWS}, or all runs that are named]"),
    ] = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """List the runs in the store; those of a study or search are one row.

    Parameters
    ----------
    runs
        Only these: runs (12 or 3-7,9), a study (s2, NAME or NAME@LABEL) or latest, each run in its own row.
    """
    if study is not None and not re.fullmatch(r"s\d+", study):
        raise BadInputError(f"--study {study}: name it as `brickyard runs` does, such as s3")
    if limit is None:
        limit = 0 if runs else ROWS
    elif limit < 0:
        raise BadInputError(f"--limit {limit}: 0 for all, or more")
    since_ns = since_unix_ns(since) if since else 0
    with open_store(store) as kept:
        # What is shown is read whole, so that a damaged run is seen; of the others only what is filtered by. Of a
        # study with more than READ_AT_ONCE runs the others are read as heads.
        listed: Sequence[RunHead] = kept.runs() if outcome == DAMAGED else kept.heads()
        named = set(named_runs(kept, runs)[0]) if runs else None
        found = [
            run
            for run in listed
            if (named is None or run.id in named)
            and (profile is None or run.profile == profile)
            and (target is None or any(target in path for path in run.targets))
            and run.created_unix_ns >= since_ns
            and (outcome is None or run.outcome == outcome)
            and (study is None or f"s{run.study}" == study)
        ]
        if json:
            shown = [run.id for run in (found[-limit:] if limit else found)]
            emit({"runs": documents(kept, shown), "found": len(found)})
            return 0
        if not found and listed:
            print_line(stdout(), _none_words(listed, profile, target))
            return 0
        studies = {one.id: one for one in kept.studies()} if study is None and named is None and not each else {}
        folded = _folded(found, studies)
        groups = folded[-limit:] if limit else folded
        print_runs(kept, groups, studies)
    if len(groups) < len(folded):
        stdout().print(f"{len(folded) - len(groups)} older rows are not shown; --limit 0 shows all")
    return 0


def documents(store: Store, ids: Sequence[int]) -> list[Document]:
    figures = kept_figures(store, ids)
    return [_document(run, figures.get(run.id)) for run in _whole(store, ids)]


def print_runs(store: Store, groups: Sequence[list[RunHead]], studies: Mapping[int, StudyInfo]) -> None:
    """A row for each group of runs, which is a single one or one of these studies."""
    rows = list(_rows(store, groups, studies))
    kept_of = kept_figures(store, [group[0].id for group in groups if len(group) == 1])
    told = {group[0].id: _headline(kept_of.get(group[0].id)) for group in groups if group[0].outcome == "done"}
    cells = [
        [*row[:3], *(_figures(told.get(group[0].id)) if len(group) == 1 else ("", "")), *row[3:]]
        for group, row in zip(groups, rows, strict=True)
    ]
    columns = [(name, "right" if name in ("run", *FIGURES) else "left") for name in COLUMNS]
    console = stdout()
    console.print(table("", columns, cells, wrapped=("workload", "target"), keys=1))
    known = {run: figures for run, figures in told.items() if figures is not None}
    for line in _notes(store.place, groups, known, cells):
        print_line(console, line, "dim")


def _headline(figures: RunFigures | None) -> PhaseFigures | None:
    """Those of a run's only phase: no figure stands for several."""
    return figures.phases[0] if figures is not None and len(figures.phases) == 1 else None


def _figures(of: PhaseFigures | None) -> tuple[str, str]:
    if of is None:
        return DASH, DASH
    p99 = format_ns(of.response_p99_ns) + (FEW_EVENTS if of.p99_is_of_few_events else "")
    if of.rate_per_s is None:
        return DASH, p99
    unit = "" if of.unit == IOPS else f" {of.unit}"
    return f"{format_iops(of.rate_per_s)}{unit}", p99


def _notes(
    place: Path, groups: Sequence[Sequence[RunHead]], told: Mapping[int, PhaseFigures], cells: Sequence[Sequence[str]]
) -> Iterator[str]:
    """What the signs of the table mean."""
    if any(len(group) > 1 for group in groups):
        yield "the runs of a study share one row: --study s1 lists those of s1, --each those of all studies"
    if told:
        yield f"p99: of the response time; {command_on(place, 'show RUN')} has all figures of a run"
    if any(figures.p99_is_of_few_events for figures in told.values()):
        yield FEW_EVENTS_WORDS
    outcomes = {COUNT.sub("", mark) for row in cells for mark in row[COLUMNS.index("outcome")].split(", ")}
    yield from (f"{mark}: {words}" for mark, words in MARKS.items() if mark in outcomes)
    of: dict[str, list[int]] = {}
    for run, figures in told.items():
        if figures.of:
            of.setdefault(figures.of, []).append(run)
    yield from (f"{format_runs(ids)}: {words}" for words, ids in of.items())
    if any(DASH in row for row in cells):
        yield (
            f"{DASH}: not known, since the run did not end well or ended during its warm-up, has several phases, had "
            "too few requests for a p99 or could not send all that were due, or was made by another program, which "
            "reports no response time, or by an earlier version of Brickyard"
        )


def _whole(store: Store, ids: Sequence[int]) -> Iterator[RunInfo]:
    for first in range(0, len(ids), READ_AT_ONCE):
        yield from store.runs(ids[first : first + READ_AT_ONCE])


def _rows(store: Store, groups: Sequence[list[RunHead]], studies: Mapping[int, StudyInfo]) -> Iterator[list[str]]:
    for some in _some_at_once(groups):
        whole = {run.id: run for run in store.runs([run.id for group in some for run in group[:READ_AT_ONCE]])}
        yield from (_row(whole[group[0].id], [whole.get(run.id, run) for run in group], studies) for group in some)


def _some_at_once(groups: Sequence[list[RunHead]]) -> Iterator[list[list[RunHead]]]:
    """So many of them that no more runs are in memory than is meant."""
    some: list[list[RunHead]] = []
    for group in groups:
        if some and sum(map(len, some)) + len(group) > READ_AT_ONCE:
            yield some
            some = []
        some.append(group)
    if some:
        yield some


def _folded(found: Sequence[RunHead], studies: Mapping[int, StudyInfo]) -> list[list[RunHead]]:
    """Each run alone, or with the others of its study where that is one of these; in the order of their last runs."""
    groups: dict[tuple[str, int], list[RunHead]] = {}
    for run in found:
        key = ("study", run.study) if run.study is not None and run.study in studies else ("run", run.id)
        groups.setdefault(key, []).append(run)
    return sorted(groups.values(), key=lambda group: group[-1].id)


def _none_words(listed: Sequence[RunHead], profile: str | None, target: str | None) -> str:
    """What there is instead of the profile or target that no run has."""
    profiles = sorted({run.profile for run in listed})
    targets = sorted({path for run in listed for path in run.targets})
    if profile is not None and profile not in profiles:
        return f"no run of {profile}; there are runs of {_some(profiles)}"
    if target is not None and not any(target in path for path in targets):
        return f"no run on {target}; there are runs on {_some(targets)}"
    return "no run matches; leave out an option"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"{', '.join(names[:NAMES_SHOWN])}{more}"


def _row(first: RunInfo, runs: Sequence[RunHead], studies: Mapping[int, StudyInfo]) -> list[str]:
    """Several runs are a study, and bear its name where a run has its number."""
    study = f"s{first.study}" if first.study else ""
    if len(runs) == 1:
        of_study = f"{study}: " if study and not studies else ""
        words = of_study + ", ".join(text for text in (first.profile, _load(first)) if text)
        return [str(first.id), when(first), _outcome(first), words, ", ".join(first.targets)]
    targets = list(dict.fromkeys(path for run in runs for path in run.targets))
    many = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
    whole = studies[first.study] if first.study is not None else None
    name = whole.name.removesuffix(f" on {targets[0]}") if whole else ""
    counts = Counter(run.outcome for run in runs)
    worst = next((outcome for outcome in WORST_FIRST if counts[outcome]), first.outcome)
    if whole and worst == "interrupted":
        worst = whole.outcome  # the same command went on with it, and ended it
    unlike = [f"{count} {outcome}" for outcome, count in counts.items() if outcome != "done" and count < len(runs)]
    called = {run.called_beside_levels for run in runs if isinstance(run, RunInfo)}
    alike = [words for words in called if words and len(called) == 1 and words not in name]
    load = ", ".join([*alike, f"{len(runs)} runs ({first.id}-{runs[-1].id})", *_states(runs), *unlike])
    return [study, when(first), ", ".join((worst, *_marks(runs))), f"{name}: {load}", targets[0] + many]


def _marks(runs: Sequence[RunHead]) -> list[str]:
    """Those of the runs, with how many have each where not all do; of a long study, only some are read whole."""
    known = [run for run in runs if isinstance(run, RunInfo)]
    counts = Counter(mark for run in known for mark in marks_of(run))
    least = "at least " if len(known) < len(runs) else ""
    return [mark if count == len(runs) else f"{least}{count} {mark}" for mark, count in counts.items()]


def _outcome(run: RunInfo) -> str:
    return ", ".join((run.outcome, *marks_of(run)))


def since_unix_ns(text: str, now: datetime | None = None) -> int:
    """The beginning of a span that ends now, or of a day."""
    if (span_s := span_seconds(text)) is not None:
        moment = (now or datetime.now().astimezone()) - timedelta(seconds=span_s)
    else:
        try:
            moment = datetime.fromisoformat(text).astimezone()
        except ValueError as error:
            raise BadInputError(
                f"--since {text}: write a day such as 2026-01-31, or a period such as 2h or 7d"
            ) from error
    return int(moment.timestamp() * 1e9)


def _load(run: RunInfo) -> str:
    """What sets a run apart from others of its profile."""
    tool = "" if run.marks.engine else by_tool(run.tool)  # marks name it already
    return ", ".join(words for words in (run.called_beside_levels, _labels(run), *_states([run]), tool) if words)


def _states(runs: Sequence[RunHead]) -> list[str]:
    """What was changed of the model in all of these runs, and their conditions, unless all are normal. Of a long study,
    only those of the runs that are read whole."""
    changes, conditions = zip(*(state_of(run) for run in runs if isinstance(run, RunInfo)), strict=True)
    told = list(dict.fromkeys(conditions))
    same = changes[:1] if len(set(changes)) == 1 else ()
    return [words for words in (*same, *(told if told != ["normal"] else ())) if words]


def _labels(run: RunInfo) -> str:
    marks = run.marks
    again = () if marks.repetition is None else (f"repetition {marks.repetition}",)
    return format_name((*map(written, marks_words(marks)), *again))


def _document(run: RunInfo, figures: RunFigures | None) -> Document:
    return {
        "run": run.id,
        "study": run.study,
        "labels": run.labels,
        "profile": run.profile,
        "title": run.title,
        "profile_hash": run.profile_hash,
        "condition": run.condition,
        "targets": run.targets,
        "created_unix_ns": run.created_unix_ns,
        "outcome": run.outcome,
        "message": run.message,
        "warnings": stored(run.warnings),
        "phases": None if figures is None else figures.phases,
    }
