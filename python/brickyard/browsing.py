"""Duty: what is in the store for whoever browses it: lists of runs, one run with its answer, tables and pictures, two
sides beside each other, files to take away, notes and labels, baselines.

Refusal: no figure is computed here; every text and table is what the report and the commands have.
"""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec

from brickyard import analysis, outputs, rulers
from brickyard.analysis.databases.pgbench import is_pgbench
from brickyard.analysis.databases.replay_runs import is_replay
from brickyard.analysis.figures.difference_words import difference_text
from brickyard.analysis.figures.moments import HEAT_EDGES_NS, Moment, moments
from brickyard.analysis.figures.samples import quantile
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging import summary as summaries
from brickyard.analysis.judging.answers import Answer, answer
from brickyard.analysis.judging.comparison import Change
from brickyard.analysis.judging.differing import differing_between
from brickyard.analysis.judging.gate import Compared, Finding
from brickyard.analysis.judging.groups import series_of, state_words
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.judging.pairing import left_out_words, length_lines
from brickyard.analysis.judging.repetitions import repeated
from brickyard.analysis.judging.run_figures import PartFigures, RunFigures
from brickyard.analysis.judging.verdict import verdict
from brickyard.analysis.judging.verdict_words import VERDICT_COLUMNS, verdict_rows, verdict_title
from brickyard.api import Measured, compare
from brickyard.errors import BadInputError, BrickyardError
from brickyard.ready import ready
from brickyard.report.comparison_words import (
    assumptions,
    comparison_document,
    errors_unknown_lines,
    gate_lines,
    lack_lines,
    mark_words,
    noise_words,
    repeat_lines,
    unlike_words,
    unrecorded_lines,
    verdict_lines,
)
from brickyard.report.export import Form, write_export
from brickyard.report.tables import Table, failure_table, repetitions_table, slowest_table, totals_tables
from brickyard.schema import Document
from brickyard.schema.operations import has_bytes
from brickyard.store import Annotation, Baseline, Cursor, Record, RunHead, Store
from brickyard.store.damage import DamagedRunError
from brickyard.store.record import RUNNING, RunMarks
from brickyard.study.running.summaries import kept_figures
from brickyard.units import format_runs

__all__ = [
    "HEAT_EDGES_NS",
    "PAGE_RUNS_MAX",
    "TYPES",
    "BadInputError",
    "Download",
    "Listing",
    "Moment",
    "Page",
    "Pictures",
    "Row",
    "RunQuery",
    "ShownRun",
    "Thresholds",
    "TwoSides",
    "annotate",
    "compared",
    "course",
    "downloaded",
    "judged",
    "load",
    "noise_words",
    "pin",
    "requirement_names",
    "shown",
    "together",
]

BASELINE = re.compile(r"[A-Za-z][\w.-]{0,60}")
NOTE_MAX, LABEL_MAX, LABELS_MAX = 10_000, 60, 20
PICTURES_KEPT = 64
"""Drawn pictures in memory; each is some 100 kB and took about a second to draw."""
PAGE_RUNS_MAX = 500
"""Runs of one page of the list."""

Download = Literal["json", "csv", "parquet", "html"]
TYPES: dict[Download, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html; charset=utf-8",
}


class RowFigures(msgspec.Struct, frozen=True):
    """What one operation of a run came to."""

    operation: str
    iops: float | None
    mib_per_s: float | None
    response_p50_ns: float | None
    response_p99_ns: float | None


class Row(msgspec.Struct, frozen=True):
    """A run in a list."""

    run: int
    study: int | None
    created_unix_ns: int
    profile: str
    targets: list[str]
    outcome: str
    invalid: str
    labels: list[str]
    note: str
    called: str = ""
    """What tells its load from others of its profile; empty where that is the profile as it is."""
    name: list[str] = []
    """The profile, or the levels of a study's cell."""
    parts: list[RowFigures] = []
    """Empty where the run has no summary yet; one is made when a list of figures is asked for."""


class Page(msgspec.Struct, frozen=True):
    """Some of the runs that were found, the newest first."""

    rows: list[Row]
    found: int
    whole: int
    first: int


@dataclass(frozen=True)
class RunQuery:
    """Which runs are wanted; empty text and None mean any."""

    words: str = ""
    """All of these words must be in the profile, a target, a label or the note."""
    profile: str = ""
    outcome: str = ""
    label: str = ""
    since_unix_ns: int = 0


class Listing:
    """The runs of a store, kept in memory and read on from where they ended; those without an end are read again."""

    def __init__(self, place: Path | None) -> None:
        self.place = place
        self._lock = Lock()
        self._heads: dict[int, RunHead] = {}
        self._store_id: tuple[int, int] | None = None

    def page(self, asked: RunQuery, first: int = 0, count: int = 50) -> Page:
        with self._lock, Store(self.place) as store:
            self._read_on(store)
            heads = list(self._heads.values())
            said = store.annotations()
            words = asked.words.casefold().split()
            found = [head for head in reversed(heads) if _fits(head, said.get(head.id), asked, words)]
            shown = found[first : first + min(count, PAGE_RUNS_MAX)]
            ids = [head.id for head in shown]
            kept = kept_figures(store, ids)
            called = {run.id: run.called_beside_levels for run in store.runs(ids)}
        rows = [_row(head, called.get(head.id, ""), said.get(head.id), kept.get(head.id)) for head in shown]
        return Page(rows, len(found), len(heads), first)

    def alike(self, record: Record) -> list[int]:
        """Earlier runs of the same profile on the same targets that came to a good end, the newest first."""
        with self._lock, Store(self.place) as store:
            self._read_on(store)
            return [
                head.id
                for head in reversed(self._heads.values())
                if head.id < record.info.id
                and (head.profile, head.targets) == (record.info.profile, record.info.targets)
                and head.is_valid
            ]

    def of_study(self, study: int) -> list[int]:
        """Its valid runs, as of the last look."""
        with self._lock:
            return [head.id for head in self._heads.values() if head.study == study and head.is_valid]

    def _read_on(self, store: Store) -> None:
        file = store.place.stat()
        if self._store_id != (file.st_dev, file.st_ino):  # another store has taken the name
            self._store_id, self._heads = (file.st_dev, file.st_ino), {}
        last = max(self._heads, default=0)
        for number, head in list(self._heads.items()):
            if head.outcome == RUNNING:
                self._heads.update({found.id: found for found in store.heads(number, number)})
        self._heads.update({head.id: head for head in store.heads(last + 1)})


def _fits(head: RunHead, said: Annotation | None, asked: RunQuery, words: Sequence[str]) -> bool:
    if asked.profile and head.profile != asked.profile:
        return False
    if asked.outcome and asked.outcome != ("invalid" if head.invalid else head.outcome):
        return False
    if asked.label and (said is None or asked.label not in said.labels):
        return False
    if head.created_unix_ns < asked.since_unix_ns:
        return False
    if not words:
        return True
    study = f"s{head.study}" if head.study else ""
    of_people = [said.note, *said.labels] if said else []
    text = " ".join([str(head.id), study, head.profile, *head.targets, *of_people]).casefold()
    return all(word in text for word in words)


def _row(head: RunHead, called: str, said: Annotation | None, figures: RunFigures | None) -> Row:
    return Row(
        run=head.id,
        study=head.study,
        created_unix_ns=head.created_unix_ns,
        profile=head.profile,
        targets=head.targets,
        outcome=head.outcome,
        invalid=head.invalid,
        labels=list(said.labels) if said else [],
        note=said.note if said else "",
        called=called,
        name=list(figures.name) if figures else [],
        parts=[_row_figures(part) for part in figures.parts] if figures else [],
    )


def _row_figures(part: PartFigures) -> RowFigures:
    of = part.values.get
    called = ", ".join(filter(None, (part.operation, part.condition.replace("_", " "))))
    throughput = of("mib_per_s") if has_bytes(part.operation) else None
    return RowFigures(called, of("iops"), throughput, of("response_p50"), of("response_p99"))


@dataclass(frozen=True)
class ShownRun:
    """One run as a page has it."""

    record: Record
    answer: Answer
    when: str
    workload: str
    circumstances: list[tuple[str, str]]
    tables: list[Table]
    warnings: list[Any]
    said: Annotation
    baselines: list[str]
    last: int | None
    """The run of an equal load on the same targets, in the same state, that came before."""
    no_last: str
    """Where there is none, what was looked at."""
    state: str
    """What `--set` changed of a model, and the condition."""
    alike_baseline: tuple[str, list[int]] | None
    """The newest baseline of an equal load on the same targets, in the same state, that this run is no part of."""

    @property
    def document(self) -> Any:
        """The run as `show --json` has it."""
        return summaries.run_document(self.record)


def shown(store: Store, run: int, listing: Listing) -> ShownRun:
    record = store.record(run)
    said, tables = _found(record)
    known = store.baselines()
    alike = listing.alike(record)
    last = _last_like(store, record, alike)
    return ShownRun(
        record=record,
        answer=said,
        when=summaries.when(record.info),
        workload=workload_words([record]),
        circumstances=summaries.circumstance_lines(record),
        tables=[table for table in [*tables, slowest_table([record])] if table.rows],
        warnings=distinct_warnings([record]),
        said=store.annotations().get(run, Annotation()),
        baselines=[name for name, (_, runs) in known.items() if run in runs],
        last=last,
        no_last="" if last is not None else _none_like(len(alike)),
        state=state_words(record.info),
        alike_baseline=_baseline_like(store, record, known),
    )


def together(store: Store, record: Record, listing: Listing) -> list[Table]:
    """The table of all repetitions of `run --repeat`, of which the run is one; none where it is not."""
    marks = record.info.marks
    if record.info.study is None or marks != RunMarks(repetition=marks.repetition) or is_replay(record):
        return []
    runs = listing.of_study(record.info.study)
    if len(runs) > TOGETHER_MAX:
        return []
    try:
        records = [record if run == record.info.id else store.record(run) for run in runs]
    except DamagedRunError:
        return []  # `report` names it
    found = repeated(records)
    return [repetitions_table(records, found)] if found else []


TOGETHER_MAX = 20
"""Repetitions that the page of one of them reads; of more, `report` has the table."""


def _found(record: Record) -> tuple[Answer, list[Table]]:
    """What the report of a run says first, and its tables."""
    if record.intervals and (is_replay(record) or is_pgbench(record)):
        from brickyard.report.page import database_answer, database_tables  # loading what draws takes long

        return database_answer([record]), database_tables([record])
    failures = failure_table([record])
    tables = [*totals_tables([record]), *([failures] if failures else [])]
    return answer([record], analysis.characterization([record])), tables


def _baseline_like(store: Store, record: Record, known: dict[str, Baseline]) -> tuple[str, list[int]] | None:
    wanted = series_of(record)
    for name, (_, runs) in sorted(known.items(), key=lambda item: -item[1][0]):
        if record.info.id in runs:
            continue
        first = next(iter(store.runs(runs[:1])), None)
        if first is not None and first.targets == record.info.targets and series_of(Record(first)) == wanted:
            return name, runs[:BASELINE_RUNS]
    return None


BASELINE_RUNS = 20
"""Of a baseline, so many runs are compared with one on its page; `compare` takes all."""


def requirement_names() -> list[str]:
    """The requirements that ship with Brickyard."""
    return rulers.names()


def checked_requirements(words: Sequence[str]) -> list[rulers.Ruler]:
    """Requirements by name or written out; a path is none, since whoever asks may not say what is opened."""
    kept = [word.strip() for word in words if word.strip()]
    if len(kept) > THRESHOLDS_MAX or any(len(word) > 100 for word in kept):
        raise BadInputError(f"at most {THRESHOLDS_MAX} thresholds of at most 100 characters")
    known = rulers.names()
    for word in kept:
        if "<" not in word and ">" not in word and word.partition(":")[0] not in known:
            raise BadInputError(f"{word}: no such requirement; there are {', '.join(known)}, or write p99<=5ms")
    return [rulers.read(word) for word in kept]


THRESHOLDS_MAX = 10
THRESHOLDS_MARK = re.compile(rb'\A{"thresholds":')


@dataclass(frozen=True)
class Judgement:
    """One requirement with what became of it."""

    title: str
    word: str
    """`pass`, `fail`, `not measured` or `not applicable`."""
    columns: tuple[str, ...]
    rows: list[list[str]]


def judged(record: Record, words: Sequence[str]) -> list[Judgement]:
    found = [verdict(record, ruler, lasting=True) for ruler in checked_requirements(words)]
    return [Judgement(verdict_title(one), one.word, VERDICT_COLUMNS, verdict_rows(one)) for one in found]


class _Kept(msgspec.Struct):
    thresholds: int = 1
    profiles: dict[str, list[str]] = {}


class Thresholds:
    """By profile, what its runs are judged by on their pages."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._lock = Lock()

    def all(self) -> dict[str, list[str]]:
        try:
            return msgspec.json.decode(self.place.read_bytes(), type=_Kept).profiles
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise BrickyardError(f"{self.place}: the thresholds cannot be read ({error}); move it away") from error

    def keep(self, profile: str, words: Sequence[str]) -> list[str]:
        """Those of one profile from now on; none where there are no words."""
        checked_requirements(words)
        kept = [word.strip() for word in words if word.strip()]
        with self._lock:
            profiles = {**self.all(), profile: kept}
            found = _Kept(profiles={name: told for name, told in profiles.items() if told})
            outputs.folder(self.place.parent)
            outputs.write_whole(self.place, msgspec.json.encode(found), THRESHOLDS_MARK)
        return kept


def _last_like(store: Store, record: Record, alike: Sequence[int]) -> int | None:
    wanted = series_of(record)
    found = store.runs(alike[:LAST_TRIED])
    return next((info.id for info in reversed(found) if series_of(Record(info)) == wanted), None)


def _none_like(earlier: int) -> str:
    if not earlier:
        return "There is no earlier valid run of this profile on this target."
    some = "the earlier valid run" if earlier == 1 else f"the last {min(earlier, LAST_TRIED)} valid runs"
    return (
        f"There is no run to compare with: {some} of this profile on this target had another load, another condition "
        "or other settings of the model."
    )


LAST_TRIED = 20
"""Earlier runs of the same profile that are looked at for one with an equal load."""


def course(store: Store, run: int) -> list[Moment]:
    """The intervals of a run, as its live display had them."""
    [info] = store.runs([run])
    news = store.news(run, Cursor())
    return moments(info, news.intervals, news.costs)


class Pictures:
    """The pictures of runs, drawn when they are asked for the first time."""

    def __init__(self, place: Path | None) -> None:
        self.place = place
        self._drawn: OrderedDict[tuple[int, ...], dict[str, tuple[str, str, str]]] = OrderedDict()
        self._lock = Lock()

    def names(self, runs: Sequence[int]) -> list[tuple[str, str, str]]:
        """Name, title and caption of each picture."""
        return [(name, title, caption) for name, (title, caption, _) in self._of(runs).items()]

    def svg(self, runs: Sequence[int], name: str) -> str:
        found = self._of(runs).get(name)
        if found is None:
            raise BadInputError("no such picture")
        return found[2]

    def _of(self, runs: Sequence[int]) -> dict[str, tuple[str, str, str]]:
        key = tuple(runs)
        with self._lock:  # one at a time: drawing takes a core, which the runs may need
            if key not in self._drawn:
                from brickyard.report.page import draw_figures  # loading what draws takes longer than all the rest

                with Store(self.place) as store:
                    records = [store.record(run) for run in runs]
                figures = draw_figures(records) if any(record.intervals for record in records) else []
                drawn = {
                    picture.name: (figure.title, figure.caption, picture.svg)
                    for figure in figures
                    for picture in figure.pictures
                }
                if any(record.info.outcome == RUNNING for record in records):
                    return drawn
                self._drawn[key] = drawn
                if len(self._drawn) > PICTURES_KEPT:
                    self._drawn.popitem(last=False)
            self._drawn.move_to_end(key)
            return self._drawn[key]


def downloaded(store: Store, runs: Sequence[int], form: Download) -> bytes:
    """A file to take away: the export of all intervals, or the report as one page with its pictures in it."""
    records = [store.record(run) for run in runs]
    if form == "html":
        from brickyard.report.page import draw_figures, render

        return render(records, None, draw_figures(records)).encode()
    forms: dict[Download, Form] = {"json": "json", "csv": "csv", "parquet": "parquet"}
    file = io.BytesIO()
    write_export(records, forms[form], file)
    return file.getvalue()


@dataclass(frozen=True)
class TwoSides:
    """Two sides as a page shows them."""

    compared: Compared
    differing: list[tuple[str, str]]
    rows: list[tuple[Change, str, Finding]]
    """Each change with its difference in words and what the gate finds."""
    document: Document
    """As `compare --json` has it."""
    worse: list[str]
    """What got worse or is not measured any more, in words."""
    told: list[str]
    """What was judged, what these runs could have shown, and what is open."""
    notes: list[str]

    @property
    def footnotes(self) -> list[str]:
        """What the marks in the differences mean."""
        return mark_words([words for _, words, _ in self.rows])


def compared(store: Store, before: Sequence[int], after: Sequence[int], tolerance: float = 0.05) -> TwoSides:
    """Raises BadInputError where there is nothing to compare."""
    found = compare(*([Measured(store.record(run)) for run in runs] for runs in (before, after)), tolerance=tolerance)
    records = [found.sides.before, found.sides.after]
    differing = differing_between(records[0], records[1])
    rows = [(item.change, difference_text(item.change.difference), item.finding) for item in found.judged.judged]
    if not rows:
        raise BadInputError("the two sides have no load in common that was measured on both")
    notes = [
        *([found.judged.barred] if found.judged.barred else []),
        *left_out_words(found.sides),
        *unlike_words(found.comparison),
        *length_lines([*records[0], *records[1]]),
        *errors_unknown_lines(found.comparison),
        *assumptions(found.judged, []),
    ]
    worse = verdict_lines(found.comparison, found.judged, tolerance)
    document = {
        **comparison_document(found.comparison, found.judged, records[0], records[1], differing, worse, []),
        "changes": [{**one.document(), "verdict": finding.value, "words": words} for one, words, finding in rows],
        "differing": [
            {"label": one.label, "values": [list(value) for value in one.values], "words": one.words}
            for one in differing
        ],
        "loads_differ": found.loads_differ,
        "left_out": found.sides.left_out,
        "notes": notes,
        "not_judged": None,
    }
    return TwoSides(
        found,
        [
            *((item.label, item.words) for item in differing if not item.unrecorded),
            *unrecorded_lines(differing, [*records[0], *records[1]]),
        ],
        rows,
        document,
        worse,
        [*repeat_lines(found.comparison), *gate_lines(found.judged, tolerance), *lack_lines(found.comparison)],
        notes,
    )


def annotate(store: Store, run: int, note: str, labels: Sequence[str], author: str, seen: int) -> Annotation:
    """Keeps what people say of a run; each change is kept, and the newest is shown."""
    words = list(dict.fromkeys(" ".join(label.split()) for label in labels if label.strip()))
    if len(note) > NOTE_MAX:
        raise BadInputError(f"a note has at most {NOTE_MAX:,} characters")
    if len(words) > LABELS_MAX or any(len(word) > LABEL_MAX for word in words):
        raise BadInputError(f"at most {LABELS_MAX} labels of at most {LABEL_MAX} characters")
    return store.annotate(run, note, words, author, seen)


def load() -> None:
    """Loads what the first difference, prediction and picture need, which takes longer than any of them."""
    quantile(10.0, 0.975)
    import_module("brickyard.report.page")


def pin(store: Store, name: str, runs: Sequence[int]) -> None:
    """Keeps runs as a baseline under a name. Raises BadInputError where the name has other runs already."""
    if not BASELINE.fullmatch(name):
        raise BadInputError("the name of a baseline is a letter and then letters, digits, - . or _")
    for record in (store.record(run) for run in runs):
        if not record.info.is_valid:
            raise BadInputError(f"run {record.info.id}: did not end validly, so it cannot be a baseline")
    known = store.baselines().get(name)
    if known and list(known.runs) != list(runs):
        command = f"`brickyard baseline save {name} {' '.join(map(str, runs))} --replace`"
        raise BadInputError(
            f"{name}: is a baseline already, of {format_runs(known.runs)}; choose another name, or run {command}"
        )
    store.add_baseline(name, runs)


ready(_Kept)
