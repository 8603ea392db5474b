"""Duty: two sets of runs, like with like: which figures changed, by how much, and whether that is more than noise.

Refusal: runs of different loads or levels are never paired, runs on different storage or in different conditions never
pooled; what has no counterpart is told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from brickyard.analysis.figures.all_rows import AllRow, all_rates, all_times
from brickyard.analysis.figures.batches import Batches
from brickyard.analysis.figures.conditions import BEFORE, by_condition, stretches
from brickyard.analysis.figures.independent import Repeat, independent, is_same_computation, same_result
from brickyard.analysis.figures.latency import Latency, together
from brickyard.analysis.figures.marked import marks_words
from brickyard.analysis.figures.named import FIGURES, Figure, figure_of, percentile_of_all
from brickyard.analysis.figures.ramp_result import by_step
from brickyard.analysis.figures.samples import CONFIDENCE, Difference, Sample, difference, in_family, sample
from brickyard.analysis.figures.sending import FROM_DUE, length_told
from brickyard.analysis.figures.totals import Totals, totals
from brickyard.analysis.judging.differing import load_hash, load_words, loads_apart
from brickyard.analysis.judging.groups import StorageState, group_of, none_shared, told_apart
from brickyard.errors import BadInputError
from brickyard.schema import Document, Timed, is_on_data
from brickyard.store import Record, RunInfo
from brickyard.store.record import COMPLETIONS
from brickyard.units import format_name, format_runs

COMPARED = ("iops", "response_mean", "response_p99")
SERVICE_COMPARED = ("iops", "service_mean", "service_p99")
Name = tuple[str, ...]
_Apart = dict[Name, dict[str, tuple[str, list[Record]]]]
"""Names under which there are several loads: of each by its hash what tells it from the others, and its runs."""


@dataclass(frozen=True)
class Change:
    """One figure of one stream and operation on both sides.

    `within` is the noise within the two runs where each side is one: how far apart repeated runs are, it does not say.
    """

    name: Name
    figure: Figure
    before: Sample
    after: Sample
    difference: Difference
    within: float | None = None

    @property
    def worse_by(self) -> float:
        """Above zero where it got worse, as a share of what it was."""
        return -self.difference.share if self.figure.more_is_better else self.difference.share

    @property
    def is_partial(self) -> bool:
        """Some runs of a side lack the figure."""
        return bool(self.before.lacking or self.after.lacking)

    @property
    def most_worse_by(self) -> float | None:
        """The end of the interval at which it got worse by the most; None where there is no interval."""
        low, high = self.difference.low, self.difference.high
        return high if not self.figure.more_is_better else None if low is None else -low

    @property
    def least_worse_by(self) -> float | None:
        """The end of the interval at which it got worse by the least; None where there is no interval."""
        low, high = self.difference.low, self.difference.high
        return low if not self.figure.more_is_better else None if high is None else -high

    def document(self) -> Document:
        found = self.difference
        return {
            "load": list(self.name),
            "figure": self.figure.name,
            "before": self.before.centre,
            "after": self.after.centre,
            "n_before": self.before.n,
            "n_after": self.after.n,
            "difference": {
                "share": found.share,
                "low": found.low,
                "high": found.high,
                "seen": found.seen,
                "p": found.test.p if found.test else None,
                "sees": found.sees,
            },
            "noise": "unknown" if found.seen is None else "between runs",
            "noise_within_runs": self.within,
        }


@dataclass(frozen=True)
class Shift:
    """The latencies of one stream and operation on both sides as whole distributions."""

    name: Name
    measure: str
    """`response`, or `service` where a side has no response times (fio knows no due instant)."""
    before: Latency
    after: Latency
    distance: float
    at_ns: int

    def document(self) -> Document:
        sides = {
            side: {
                "mean_ns": item.mean_ns,
                **{f"{n}_ns": v for n, v in item.percentiles.items()},
                "max_ns": item.max_ns,
            }
            for side, item in (("before", self.before), ("after", self.after))
        }
        about = {"load": list(self.name), "measure": self.measure}
        return {**about, **sides, "largest_distance": self.distance, "at_ns": self.at_ns}


@dataclass(frozen=True)
class Lack:
    """A figure that some runs lack, such as a p99 of too few requests; `runs` of each side are those without it."""

    name: Name
    figure: Figure
    runs: tuple[tuple[int, ...], tuple[int, ...]]
    is_lost: bool
    """It was measured before, and in no run after."""
    is_partial: bool
    """Both sides have it, each at least in one run."""

    def document(self) -> Document:
        return {
            "load": list(self.name),
            "figure": self.figure.name,
            "runs_before": list(self.runs[0]),
            "runs_after": list(self.runs[1]),
            "lost": self.is_lost,
        }


@dataclass(frozen=True)
class Failures:
    """Failed requests of all that were sent, on both sides."""

    name: Name
    failed: tuple[int, int]
    sent: tuple[int, int]

    @property
    def shares(self) -> tuple[float, float]:
        before, after = (failed / sent if sent else 0.0 for failed, sent in zip(self.failed, self.sent, strict=True))
        return before, after

    def is_worse(self, tolerance: float) -> bool:
        """Any failure where there was none; else a share that grew by more than the tolerance and `FAILED_MIN`."""
        before, after = self.shares
        return after - before > (max(tolerance * before, FAILED_MIN) if before else 0.0)


FAILED_MIN = 1e-5
"""A growth of the share of failed requests up to one in 100,000 is let pass where some failed before: our choice."""


@dataclass(frozen=True)
class Comparison:
    changes: list[Change]
    shifts: list[Shift]
    only_before: list[Name]
    only_after: list[Name]
    failures: list[Failures]
    lacking: list[Lack]
    repeats: list[Repeat]
    unlike: tuple[list[int], list[int]]
    """Runs of each side that are left out, as the other has none on their storage in their condition."""
    is_same_computation: bool = False
    """All runs of both sides are on models, with the same seeds and loads."""


@dataclass
class _Side:
    """One stream and operation in all repetitions of one load."""

    found: list[tuple[Record, Totals]]
    batches: list[Batches]
    """Of each run; one that is alone tells its own noise."""

    def groups(self) -> dict[StorageState, _Side]:
        found: dict[StorageState, _Side] = {}
        for item, batches in zip(self.found, self.batches, strict=True):
            group = found.setdefault(group_of(item[0]), _Side([], []))
            group.found.append(item)
            group.batches.append(batches)
        return found


@dataclass(frozen=True)
class Sides:
    """The runs of two sides that ended validly, and by side the others."""

    before: list[Record]
    after: list[Record]
    left_out: dict[str, list[int]]

    def without(self, unlike: tuple[list[int], list[int]]) -> Sides:
        kept = [
            [record for record in side if record.info.id not in left]
            for side, left in zip((self.before, self.after), unlike, strict=True)
        ]
        return replace(self, before=kept[0], after=kept[1])


def valid_sides(before: Sequence[Record], after: Sequence[Record]) -> Sides:
    """Raises BadInputError where a side has no valid run, or a run is on both."""
    asked = {"BEFORE": before, "AFTER": after}
    kept = [[record for record in side if record.info.is_valid] for side in asked.values()]
    for name, side in zip(asked, kept, strict=True):
        if not side:
            raise BadInputError(f"{name}: none of its runs ended validly, so there is nothing to compare")
    left_out = {name: [record.info.id for record in side if not record.info.is_valid] for name, side in asked.items()}
    found = Sides(before=kept[0], after=kept[1], left_out=left_out)
    one, other = (
        {same_result(record) or (record.info.id, record.info.created_unix_ns) for record in side} for side in kept
    )
    if one == other:
        told, again = (format_runs([record.info.id for record in side]) for side in kept)
        are = told if told == again else f"the same result ({told}; {again})"
        same = f"both sides are {are}; comparing a run with itself shows nothing"
        raise BadInputError("; ".join([same, *left_out_words(found)]))
    if twice := sorted({record.info.id for record in kept[0] if _is_among(record, kept[1])}):
        runs = format_runs(twice)
        raise BadInputError(f"{runs}: on both sides, whose runs must be independent repetitions; name it on one side")
    return found


def _is_among(record: Record, side: Sequence[Record]) -> bool:
    """By number and instant, as two stores have the same numbers."""
    info = record.info
    return any((other.info.id, other.info.created_unix_ns) == (info.id, info.created_unix_ns) for other in side)


def left_out_words(sides: Sides) -> list[str]:
    return [
        f"{name}: left out, as {'it' if len(runs) == 1 else 'they'} did not end validly: {format_runs(runs)}"
        for name, runs in sides.left_out.items()
        if runs
    ]


def compare(
    before: Sequence[Record],
    after: Sequence[Record],
    *,
    names: Sequence[str] = COMPARED,
    confidence: float = CONFIDENCE,
) -> Comparison:
    (before, one_repeats), (after, other_repeats) = independent(before), independent(after)
    apart = _apart(before, after)
    changing = _changes(*before, *after)
    one, other = _sides(before, apart, changing), _sides(after, apart, changing)
    by_load = False
    if not any(name in other for name in one) and one and other:
        # The same load under another name, such as a job that another program ran.
        alike = [_sides(side, apart, changing, by_load=True) for side in (before, after)]
        if by_load := any(name in alike[1] for name in alike[0]):
            one, other = _with_own_names(alike[0], alike[1])
    one, other, unlike = _like(one, other, by_load=by_load)
    both = [name for name in one if name in other]
    changes: list[Change] = []
    lacking: list[Lack] = []
    for name in both:
        for figure in (FIGURES[n] for n in names):
            asked = figure_of(figure, one[name].found[0][1].operation)
            change = _change(name, asked, one[name], other[name], confidence)
            if change is not None:
                changes.append(change)
            lack = _lack(name, asked, one[name], other[name])
            if lack is not None:
                lacking.append(lack)
    together = in_family([change.difference for change in changes], confidence)
    changes = [
        replace(change, difference=found) for change, found in zip(changes, together, strict=True) if found is not None
    ]
    if same := is_same_computation(before, after):
        changes = [replace(change, difference=_exactly_none(change.difference)) for change in changes]
    return Comparison(
        changes=changes,
        shifts=[shift for name in both if (shift := _shift(name, one[name], other[name])) is not None],
        only_before=[name for name in one if name not in other],
        only_after=[name for name in other if name not in one],
        failures=[_failures(name, one[name], other[name]) for name in both],
        lacking=lacking,
        repeats=[*one_repeats, *other_repeats],
        unlike=unlike,
        is_same_computation=same,
    )


def _exactly_none(found: Difference) -> Difference:
    return replace(found, share=0.0, low=0.0, high=0.0, seen=False, is_exact=True)


_Named = dict[Name, _Side]
_Stored = dict[Name, dict[StorageState, None]]
"""The storage of a side, whatever its condition: by the levels of a study, which may tell it apart, else all of it."""


def _like(one: _Named, other: _Named, *, by_load: bool) -> tuple[_Named, _Named, tuple[list[int], list[int]]]:
    """Where a side has several storages, or several groups under a name, each of them is compared with itself; one may
    be compared with any other. Returns both sides, and the runs whose group the other side lacks."""
    stored = _stored(_records(one), by_load=by_load), _stored(_records(other), by_load=by_load)
    left: tuple[_Named, _Named] = ({}, {})
    like = _split(one, other, stored, left[0]), _split(other, one, stored[::-1], left[1])
    used = {record.info.id for name in like[0] if name in like[1] for side in like for record, _ in side[name].found}
    if any(left) and not used:
        raise BadInputError(none_shared(*map(_runs_by_group, (one, other))))
    unlike: tuple[list[int], list[int]] = ([], [])
    for side, parts, runs in zip(like, left, unlike, strict=True):
        for name, part in parts.items():
            lacking = {record.info.id for record, _ in part.found} - used
            runs.extend(lacking)
            if not lacking:  # other parts of these runs are compared
                side[name] = part
    return *like, (sorted(set(unlike[0])), sorted(set(unlike[1])))


def _records(side: _Named) -> list[Record]:
    return [record for pooled in side.values() for record, _ in pooled.found]


def _stored(records: Iterable[Record], *, by_load: bool = False) -> _Stored:
    found: _Stored = {}
    for record in records:
        found.setdefault(() if by_load else _levels(record), {})[group_of(record).in_any_condition] = None
    return found


def _told(groups: Collection[StorageState], stored: Collection[StorageState]) -> dict[StorageState, str]:
    """What tells the groups of a name apart; of one alone its storage, where other names have another."""
    if len(groups) > 1:
        return told_apart(groups)
    told = told_apart(stored) if len(stored) > 1 else {}
    return {group: told.get(group.in_any_condition, "") for group in groups}


def _levels(record: Record) -> Name:
    return () if record.info.marks.levels is None else marks_words(record.info.marks)


def _runs_by_group(side: _Named) -> dict[StorageState, list[int]]:
    found: dict[StorageState, set[int]] = {}
    for record in _records(side):
        found.setdefault(group_of(record), set()).add(record.info.id)
    return {group: sorted(runs) for group, runs in found.items()}


def _split(side: _Named, opposite: _Named, stored: tuple[_Stored, _Stored], left: _Named) -> _Named:
    """A side with the groups of a name as names of their own; `left` gets those that the other side lacks."""
    found: _Named = {}
    for name, pooled in side.items():
        mine, others = pooled.groups(), opposite[name].groups() if name in opposite else {}
        several = [*mine, *others]
        if others and len(mine) == len(others) == 1:
            both = [of.get(_levels(pooled.found[0][0]), of.get((), {})) for of in stored]
            several = [*both[0], *both[1]] if max(map(len, both)) > 1 else []
            mine, others = ({group.in_any_condition: part for group, part in of.items()} for of in (mine, others))
        if not others or not several:
            found[name] = pooled
            continue
        told = told_apart(several)
        for group, part in mine.items():
            (found if group in others else left)[_with_words(name, told[group])] = part
    return found


@dataclass(frozen=True)
class Repeated:
    """One figure of one stream and operation over all repetitions."""

    name: Name
    figure: Figure
    sample: Sample | None
    """A percentile may be of more runs than have one each; of another figure that some lack there is none."""
    runs: int
    lacking: tuple[int, ...] = ()
    """Runs without the figure."""


def _one_of_all(
    name: Name, figure: Figure, values: Sequence[tuple[Record, float | None]], whole: float | None, confidence: float
) -> list[Repeated]:
    """Of two repetitions or more. One may have a row of rates and one of times, or several streams of one name."""
    runs = {record.info.id for record, _ in values}
    lacking = tuple(sorted(runs - {record.info.id for record, value in values if value is not None}))
    own = [value for _, value in values if value is not None]
    if len(runs) < 2 or not (own or whole is not None):
        return []
    of = sample(own, whole=whole, confidence=confidence, lacking=len(lacking), resolution=figure.resolution)
    if not own and whole is not None:
        of = Sample((), whole, None, None, len(lacking))
    return [Repeated(name, figure, of, len(runs), lacking)]


def repeated(records: Sequence[Record], *, confidence: float = CONFIDENCE) -> list[Repeated]:
    """Figures of valid repetitions that are independent of each other, with their intervals; none of fewer than two.
    Runs on other storage, or in another condition, are no repetitions of each other. What several streams or operations
    did together comes last."""
    single, _ = independent([record for record in records if record.info.is_valid])
    found, apart = [], _apart(single)
    stored = _stored(single)
    for pooled, sides in _sides(single, apart, _changes(*single)).items():
        groups = sides.groups()
        told = _told(groups, stored[_levels(sides.found[0][0])])
        for group, side in groups.items():
            name = _with_words(pooled, told[group])
            if not apart:
                name = with_called(name, side.found[0][0].info)
            for figure in (figure_of(FIGURES[n], side.found[0][1].operation) for n in default_figures(records)):
                values = [(record, _value(row, figure)) for record, row in side.found]
                found += _one_of_all(name, figure, values, _whole(side, figure), confidence)
    return [*found, *_repeated_together(single, apart, default_figures(records), confidence)]


LOADS_TOLD = 3
"""Loads of repetitions that have a sentence each; of more, their table says it all."""


def together_words(found: Sequence[Repeated]) -> list[str]:
    """The figures of repetitions together, in a sentence for each load and operation."""
    names = list(dict.fromkeys(item.name for item in found))
    if len(names) > LOADS_TOLD:
        return []
    said = []
    for name in names:
        own = [item for item in found if item.name == name]
        figures = "; ".join(f"{item.figure.title} {_centre_words(item)}" for item in own)
        said.append(f"{own[0].runs} runs together, {format_name(name)}: {figures}.")
    return said


def _centre_words(item: Repeated) -> str:
    text, of = item.figure.text, item.sample
    if of is None:
        return text(None)
    between = "" if of.low is None or of.high is None else f" (95 % interval {text(of.low)} to {text(of.high)})"
    return f"{text(of.centre)}{between}"


_AllOf = list[tuple[Record, AllRow]]


def _repeated_together(
    records: Sequence[Record], apart: _Apart, names: Sequence[str], confidence: float
) -> list[Repeated]:
    found, stored = [], _stored(records)
    for pooled, rows in _all_of(records, apart).items():
        groups: dict[StorageState, _AllOf] = {}
        for record, row in rows:
            groups.setdefault(group_of(record), []).append((record, row))
        told = _told(groups, stored[_levels(rows[0][0])])
        for group, own in groups.items():
            name = _with_words(pooled, told[group])
            for figure in (FIGURES[name_] for name_ in names):
                values = [(record, _value_of_all(row, figure)) for record, row in own]
                if figure.measure == Timed.RESPONSE and any(length_told(record) for record, _ in own):
                    continue
                times = [row.times for _, row in own] if figure.measure == Timed.RESPONSE else []
                whole = percentile_of_all(figure, times)
                found += _one_of_all(name, figure, values, whole, confidence)
    return found


def _all_of(records: Sequence[Record], apart: _Apart) -> dict[Name, _AllOf]:
    """The rows `all` of each load; the steps of a ramp have none."""
    found: dict[Name, _AllOf] = {}
    changing = _changes(*records)
    for record in records:
        for condition, part in ((condition, part) for step, condition, part in _parts(record) if not step):
            rows = totals(part)
            for row in (*all_rates(part, rows), *all_times(part, rows)):
                name = _with_words(_name(record, row, apart), _stood(record, condition, changing))
                found.setdefault(name, []).append((record, row))
    return found


def _changes(*records: Record) -> bool:
    """Whether a condition changed in any of the runs: the others are then said to be normal, which they are compared
    as."""
    return any(stretches(record) for record in records)


def _stood(record: Record, words: str, changing: bool) -> str:
    """The condition of a part for its name, which has that of the run if it is not normal."""
    own = record.info.condition
    said = words or (own if changing else "")
    return "" if said == own != BEFORE else said


def _with_words(name: Name, *words: str) -> Name:
    """Before the operation."""
    return (*name[:-1], *filter(None, words), name[-1])


def _value_of_all(row: AllRow, figure: Figure) -> float | None:
    if figure.kind == "rate":
        return row.iops
    return None if row.times is None or figure.measure != Timed.RESPONSE else _time(row.times, figure)


def default_figures(*sides: Sequence[Record]) -> tuple[str, ...]:
    """Those of response times, or of service times where a side has no others (fio knows no due instant)."""
    has_response = all(any(i.measure == "response" for i in record.intervals) for side in sides for record in side)
    if has_response:
        return COMPARED
    # fio's percentiles may leave out the call that submits a request; its means do not.
    kinds = {any(w.id == COMPLETIONS for w in record.info.warnings) for side in sides for record in side}
    return SERVICE_COMPARED if len(kinds) < 2 else tuple(n for n in SERVICE_COMPARED if not FIGURES[n].is_percentile)


def _sides(records: Sequence[Record], apart: _Apart, changing: bool, *, by_load: bool = False) -> dict[Name, _Side]:
    found: dict[Name, _Side] = {}
    overloaded = set[Name]()
    for record in records:
        of_record = Counter[Name]()
        for step, condition, part in _parts(record):
            batches, lengths = Batches(part), length_told(part)
            for row in totals(part):
                name = (asked_words(record, row), row.operation) if by_load else _name(record, row, apart)
                name = _with_words(name, step, _stood(record, condition, changing))
                of_record[name] += 1
                if of_record[name] > 1:  # such as one model twice, which is no repetition of itself
                    name = _with_words(name, f"no. {of_record[name]}")
                side = found.setdefault(name, _Side([], []))
                side.found.append((record, row))
                side.batches.append(batches)
                if (row.phase, row.stream) in lengths:
                    overloaded.add(name)
    # Without the times of some runs alone, those of the others would be of the runs that happened to be faster.
    for name in overloaded:
        found[name].found = [(record, _without_length(row)) for record, row in found[name].found]
    return found


def _parts(record: Record) -> Iterator[tuple[str, str, Record]]:
    """What of a run was one load in one condition, with words for both."""
    for step, whole in by_step(record):
        for condition, part in by_condition(whole):
            yield step, condition, part


def _without_length(row: Totals) -> Totals:
    return replace(row, measures={name: times for name, times in row.measures.items() if name not in FROM_DUE})


def length_lines(records: Sequence[Record]) -> list[str]:
    """That response times of some runs are no figures of these."""
    if not (runs := [record.info.id for record in records if length_told(record)]):
        return []
    are, they = ("is", "it was") if len(runs) == 1 else ("are", "they were")
    more = "" if len(runs) == len(records) else ", and neither are those of the other runs beside them"
    told = f"response times tell how long {they}, and are not among the figures{more}"
    return [f"{format_runs(runs)} {are} overloaded: {told}"]


def _apart(*sides: Sequence[Record]) -> _Apart:
    """Where runs of one side bear one name and are of several loads, such as a profile with two values of `--set`:
    these are never pooled."""
    found: dict[Name, dict[str, list[Record]]] = {}
    several = set()
    for side in sides:
        mine: dict[Name, set[str]] = {}
        for record in side:
            name, load = record_name(record), load_hash(record)
            mine.setdefault(name, set()).add(load)
            found.setdefault(name, {}).setdefault(load, []).append(record)
        several |= {name for name, loads in mine.items() if len(loads) > 1}
    return {
        name: {
            load: (words, runs)
            for words, (load, runs) in zip(
                loads_apart([runs[0] for runs in loads.values()]), loads.items(), strict=True
            )
        }
        for name, loads in found.items()
        if name in several
    }


def asked_words(record: Record, row: Totals) -> str:
    """What a row asks of the storage without any name: the hash of its plan, and its place there."""
    return f"load {record.info.load_hash}{_place(record, row)}"


def _place(record: Record, row: Totals) -> str:
    plan = record.info.plan
    several = len(plan.phase) > 1 or any(len(phase.stream) > 1 for phase in plan.phase)
    return f", phase {row.phase + 1}, stream {row.stream + 1}" if several else ""


def _with_own_names(one: dict[Name, _Side], other: dict[Name, _Side]) -> tuple[dict[Name, _Side], dict[Name, _Side]]:
    """Sides that were paired by what they ask, under the names that their streams have: `log`, or `log / log-write`
    where these differ. Where that would leave two of one name, all keep what they ask; one load that has a
    title is called by that."""
    told: dict[Name, Name] = {}
    for asked in dict.fromkeys((*one, *other)):
        names = dict.fromkeys(_own_name(*side[asked].found[0]) for side in (one, other) if asked in side)
        told[asked] = (" / ".join(names), *asked[1:])
    if len(set(told.values())) < len(told):
        rows = {**other, **one}
        runs = [record for side in (one, other) for found in side.values() for record, _ in found.found]
        titles = {(record.info.load_hash, record.info.plan.title) for record in runs}
        title = titles.pop()[1] if len(titles) == 1 else ""
        if not title:
            return one, other
        told = {asked: (f"{title}{_place(*rows[asked].found[0])}", *asked[1:]) for asked in told}
    renamed = [{told[asked]: found for asked, found in side.items()} for side in (one, other)]
    return renamed[0], renamed[1]


def _own_name(record: Record, row: Totals) -> str:
    """Of one stream, the title of the load; a condition in which sides differ is told above the table."""
    return ", ".join(_place_names(record, row)) or record.info.title or record.info.profile


def record_name(record: Record) -> Name:
    """What must be alike: the levels of a study, or the profile, the condition and what else sets a run apart."""
    marks = record.info.marks
    if marks.levels is not None:
        return marks_words(marks)
    condition = () if record.info.condition == "normal" else (record.info.condition,)
    return (record.info.profile, *condition, *marks_words(marks))


def with_called(name: Name, info: RunInfo) -> Name:
    """Behind the name of the profile, what tells this load from others of it; the levels of a study say so by
    themselves."""
    if not info.called or name[0] != info.profile or info.marks.levels is not None:
        return name
    return (name[0], info.called, *name[1:])


def _name(record: Record, row: Totals | AllRow, apart: _Apart) -> Name:
    """With load, phase, stream and operation, as far as there are several."""
    name = record_name(record)
    told = [apart[name][load_hash(record)][0]] if name in apart else []
    return (*name, *told, *_place_names(record, row), row.operation)


def _place_names(record: Record, row: Totals | AllRow) -> list[str]:
    """The names of phase and stream, as far as there are several."""
    phases = record.info.plan.phase
    streams = max((len(phase.stream) for phase in phases), default=1)
    return [*([row.phase_name] if len(phases) > 1 else []), *([row.stream_name] if streams > 1 else [])]


def _change(name: Name, figure: Figure, one: _Side, other: _Side, confidence: float) -> Change | None:
    before, after = (_sample(side, figure, confidence) for side in (one, other))
    if before is None or after is None:
        return None
    found = difference(after, before, resolution=_resolution(figure, one, other), confidence=confidence)
    if found is None:
        return None
    once = before.n == after.n == 1
    return Change(name, figure, before, after, found, _within(one, other, figure, confidence) if once else None)


def _within(one: _Side, other: _Side, figure: Figure, confidence: float) -> float | None:
    """Half the interval of the ratio of two single runs, were there no noise but that within them."""
    shares = []
    for side in (one, other):
        found = side.batches[0].noise_within(figure, side.found[0][1], confidence)
        if found is None:
            return None
        shares.append(found.share)
    return math.hypot(*shares)


def _lack(name: Name, figure: Figure, one: _Side, other: _Side) -> Lack | None:
    """None where all runs have the figure, or none has."""
    without = [
        tuple(record.info.id for record, row in side.found if _value(row, figure) is None) for side in (one, other)
    ]
    has = [len(runs) < len(side.found) for runs, side in zip(without, (one, other), strict=True)]
    if not any(without) or not any(has):
        return None
    return Lack(name, figure, (without[0], without[1]), is_lost=has[0] and not has[1], is_partial=all(has))


def _failures(name: Name, one: _Side, other: _Side) -> Failures:
    failed = [sum(row.errors for _, row in side.found) for side in (one, other)]
    sent = [
        count + sum(row.requests for _, row in side.found) for count, side in zip(failed, (one, other), strict=True)
    ]
    return Failures(name, (failed[0], failed[1]), (sent[0], sent[1]))


def _resolution(figure: Figure, *sides: _Side) -> float:
    """Rates come from counts: a run of 300 requests tells no two apart that differ by less than one in 300."""
    if figure.kind not in ("rate", "mib"):
        return figure.resolution
    return max((1 / row.requests for side in sides for _, row in side.found if row.requests), default=0.0)


def _sample(side: _Side, figure: Figure, confidence: float) -> Sample | None:
    values = [value for _, row in side.found if (value := _value(row, figure)) is not None]
    lacking = len(side.found) - len(values)
    whole, resolution = _whole(side, figure), figure.resolution
    return sample(values, whole=whole, confidence=confidence, lacking=lacking, resolution=resolution)


def _whole(side: _Side, figure: Figure) -> float | None:
    """None where requests of a run have no times: it is of all requests, or of none."""
    if len(side.found) < 2 or any(row.requests and figure.measure not in row.measures for _, row in side.found):
        return None
    return percentile_of_all(figure, (row.measures.get(figure.measure) for _, row in side.found))


def _value(row: Totals, figure: Figure) -> float | None:
    if figure.kind == "rate":
        return row.iops if row.is_rated else None
    if figure.kind == "mib":
        return row.bytes_per_s / (1 << 20) if row.is_rated and is_on_data(row.operation) else None
    whole = row.measures.get(figure.measure)
    return None if whole is None else _time(whole, figure)


def _time(whole: Latency, figure: Figure) -> float | None:
    point = figure.name.removeprefix(f"{figure.measure}_")
    if point in ("mean", "max"):
        return float(whole.mean_ns if point == "mean" else whole.max_ns)
    value = whole.percentiles.get(point)
    return None if value is None else float(value)


def _shift(name: Name, one: _Side, other: _Side) -> Shift | None:
    """The largest distance between the two distribution functions (Kolmogorov and Smirnov's), and where it is."""
    both = [row for side in (one, other) for _, row in side.found]
    measure = "response" if all("response" in row.measures for row in both) else "service"
    sides = [_merged(side, measure) for side in (one, other)]
    if sides[0] is None or sides[1] is None:
        return None
    low = max(1, min(side.min_ns or 0 for side in sides if side))
    high = max(side.max_ns for side in sides if side)
    edges = sorted({round(low * (high / low) ** (step / EDGES)) for step in range(EDGES + 1)} | {high + 1})
    shares = []
    for side in sides:
        assert side is not None
        counts = side.histogram.counts(edges)
        total, sums = 0, []
        for count in counts:
            total += count
            sums.append(total / side.count)
        shares.append(sums)
    apart = [abs(a - b) for a, b in zip(*shares, strict=True)]
    worst = max(range(len(apart)), key=apart.__getitem__)
    return Shift(name, measure, sides[0], sides[1], apart[worst], edges[worst + 1])


EDGES = 100  # steps of a few per cent, as fine as the histograms' own buckets over three decades


def _merged(side: _Side, measure: str) -> Latency | None:
    return together(row.measures[measure] for _, row in side.found if measure in row.measures)


def loads_differ(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """Profiles whose plan is another on the two sides, although they bear one name: each with the keys that differ; and
    those that have several loads on one side, which the other side has not all."""
    sides: list[dict[str, dict[str, Record]]] = [{}, {}]
    for number, records in enumerate((before, after)):
        for record in records:
            levels = record.info.marks.levels
            key = ", ".join(levels.values()) if levels else record.info.profile
            sides[number].setdefault(key, {}).setdefault(load_hash(record), record)
    apart = {
        ", ".join(name): loads
        for name, loads in _apart(before, after).items()
        if {load_hash(record) for record in before if record_name(record) == name}
        != {load_hash(record) for record in after if record_name(record) == name}
    }
    return [
        f"{key}: {load_words(next(iter(plans.values())), next(iter(sides[1][key].values())))}"
        for key, plans in sides[0].items()
        if key in sides[1] and key not in apart and not set(plans) & set(sides[1][key])
    ] + [
        f"{name} is the name of several workloads: "
        + "; ".join(f"{words} ({format_runs([run.info.id for run in runs])})" for words, runs in loads.values())
        for name, loads in apart.items()
    ]
