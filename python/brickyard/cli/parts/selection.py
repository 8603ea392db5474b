"""Duty: which runs a person means: `12`, `3-7`, `3-7,9`, `s2` for a study, `latest`.

Refusal: a word that names nothing is refused, not ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from brickyard.cli.parts.output import print_line, stderr
from brickyard.errors import BadInputError, nearest, one_line
from brickyard.store import Baseline, Record, RunHead, Store, StudyInfo, command_on
from brickyard.store.damage import DamagedRunError
from brickyard.store.store import LAST_ID

HOW = "name a run (12), several (3-7,9), a study (s2, NAME or NAME@LABEL) or latest"


@dataclass(frozen=True)
class Selection:
    records: list[Record]
    study: StudyInfo | None


def open_store(place: Path | None, *, may_be_cut: bool = False) -> Store:
    """The store for reading; `may_be_cut` where it is to be saved."""
    return Store(place, must_exist=True, may_be_cut=may_be_cut)


def select(store: Store, words: tuple[str, ...]) -> Selection:
    """The records of the runs that were named. Without a word it is the newest study or the newest run, whichever is
    newer."""
    ids, studies = named_runs(store, words)
    return Selection(readable(store, ids), whole_study(ids, studies))


def whole_study(ids: list[int], studies: list[StudyInfo]) -> StudyInfo | None:
    """The one study that was named, and nothing beside it."""
    return studies[0] if len(studies) == 1 and ids == studies[0].runs else None


def part_words(store: Store, run: int) -> str:
    """Where one run was named that is a part of a study; else nothing."""
    study = next((head.study for head in store.heads(run, run)), None)
    if study is None:
        return ""
    return f"run {run} alone; {command_on(store.place, f'report s{study}')} is about all runs of its study"


def named_runs(store: Store, words: tuple[str, ...]) -> tuple[list[int], list[StudyInfo]]:
    """The numbers of the runs, each once in the order in which they were named, and the studies among them."""
    newest = store.newest()
    if newest is None:
        raise BadInputError(
            f"{store.place}: no run in this store yet; {command_on(store.place, 'characterize')} makes some"
        )
    if not words:
        words = (f"s{newest.study}",) if newest.study is not None else (str(newest.id),)
    ids: list[int] = []
    named: list[StudyInfo] = []
    for word in [part for listed in words for part in _listed(store, listed)]:
        if word == "latest":
            ids.append(newest.id)
        elif match := re.fullmatch(r"s(\d+)", word):
            study = next(iter(store.studies(int(match[1]))), None)
            if study is None or not study.runs:
                raise BadInputError(f"{word}: no such study in {store.place}; {HOW}")
            named.append(study)
            ids += study.runs
        elif match := re.fullmatch(r"(\d+)(?:-(\d+))?", word):
            ids += _span(store, int(match[1]), int(match[2] or match[1]))
        elif labelled := _of_study(store, word):
            ids += labelled
        else:
            raise BadInputError(f"{word}: not a run; {HOW}")
    return list(dict.fromkeys(ids)), named


def _listed(store: Store, word: str) -> list[str]:
    """The parts of `3-7,9`, as `brickyard` words several runs; a name may have a comma of its own."""
    parts = [part.strip() for part in word.split(",")]
    if len(parts) == 1 or _of_study(store, word):
        return [word]
    if not all(parts):
        raise BadInputError(f"{word}: nothing stands before or after a comma; write a list of runs such as 3-7,9")
    return parts


def kept_baseline(store: Store, name: str, option: str = "") -> Baseline:
    """The baseline of a name, which `option` gave."""
    known = store.baselines()
    if name not in known:
        hint = nearest(name, known, "" if known else f"{command_on(store.place, 'baseline save NAME')} makes one")
        raise BadInputError(f"{option}{name}: no such baseline", hint)
    return known[name]


def readable(store: Store, runs: list[int]) -> list[Record]:
    """Records of the runs. Of several, those that are damaged are left out and named; one alone is refused."""
    if len(runs) == 1:
        return [store.record(runs[0])]
    found = []
    for run in runs:
        try:
            found.append(store.record(run))
        except DamagedRunError as error:
            leave_out(error)
    return found


def leave_out(error: DamagedRunError) -> None:
    print_line(stderr(), f"warning: left out: {one_line(error)}")


def _of_study(store: Store, word: str) -> list[int]:
    """The good runs of a study by its name, of one label where it is named; of a cell measured twice the newest."""
    name, at, label = word.partition("@")
    good = [
        run
        for run in store.heads()
        if run.marks.study == name and (not at or run.marks.label == label) and run.is_valid
    ]
    if good:
        _one_study(good, {study.id: study for study in store.studies()}, word)
    return sorted({run.marks.cell: run.id for run in good}.values())


def _one_study(runs: list[RunHead], studies: dict[int, StudyInfo], word: str) -> None:
    """Refuses a name that files of different texts share, or whose cells are of different targets or plans."""
    texts = {studies[run.study].kept.text for run in runs if run.study in studies}
    cells: dict[object, set[str]] = {}
    for run in runs:
        marks = run.marks
        place = marks.label, frozenset((marks.levels or {}).items()), marks.repetition
        cells.setdefault(place, set()).add(marks.cell)
    if len(texts) > 1 or any(len(found) > 1 for found in cells.values()):
        told = ", ".join(f"s{number}" for number in sorted({run.study for run in runs if run.study is not None}))
        raise BadInputError(
            f"{word}: several studies of different files, targets or plans have this name ({told}); name one of them"
        )


def _span(store: Store, first: int, last: int) -> list[int]:
    found = [run.id for run in store.heads(first, last)] if max(first, last) <= LAST_ID else []
    if not found:
        name = str(first) if first == last else f"{first}-{last}"
        raise BadInputError(f"run {name}: not in {store.place}; {command_on(store.place, 'runs')} lists what there is")
    if found[-1] != max(first, last):
        said = f"note: {first}-{last}: the last of these runs in {store.place} is {found[-1]}"
        print_line(stderr(), said)
    return found
