"""Duty: the runs of two sides, and of repetitions, brought together by load, storage and condition.

Refusal: runs of different loads or levels are never paired, runs on different storage or in different conditions never
pooled; what has no counterpart is told. No figure is judged here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from msgspec import structs

from brickyard.analysis.figures.all_rows import AllRow
from brickyard.analysis.figures.batches import Batches
from brickyard.analysis.figures.conditions import BEFORE, by_condition, stretches
from brickyard.analysis.figures.independent import same_result
from brickyard.analysis.figures.latency import Latency
from brickyard.analysis.figures.marked import marks_words
from brickyard.analysis.figures.named import LATENCY, Figure, figure_of, percentile_of_all
from brickyard.analysis.figures.ramp_result import by_step
from brickyard.analysis.figures.reach import MOST_BYTES, region_place
from brickyard.analysis.figures.sending import FROM_DUE, length_told
from brickyard.analysis.figures.totals import Totals, shared_latency, totals
from brickyard.analysis.judging.differing import asked_hash, load_words, loads_apart
from brickyard.analysis.judging.groups import StorageState, group_of, none_shared, told_apart
from brickyard.errors import BadInputError
from brickyard.schema import Timed, is_on_data, plan_document
from brickyard.schema.load_hash import load_hash
from brickyard.schema.plan import Plan, Stream
from brickyard.store import Record, RunInfo
from brickyard.units import format_runs

COMPARED = ("iops", "response_mean", "response_p99")

SERVICE_COMPARED = ("iops", "service_mean", "service_p99")

LATENCY_COMPARED = ("iops", "latency_mean", "latency_p99")

Name = tuple[str, ...]

Hashed = Callable[[RunInfo], str]


def _hash_in_bytes(info: RunInfo, *, of_any_length: bool = False) -> str:
    """With regions in bytes, as far as the sizes of the targets are known: all of a file of 256 MiB is what a job of
    fio with `size=256m` asks for."""
    plan = info.plan
    if not isinstance(plan, Plan):
        return load_hash(info.plan_document, of_any_length=of_any_length)
    sizes = [target.data_bytes or target.size_bytes for target in info.opened]
    phases = [
        structs.replace(phase, stream=[_in_bytes(stream, sizes) for stream in phase.stream]) for phase in plan.phase
    ]
    return load_hash(plan_document(structs.replace(plan, phase=phases)), of_any_length=of_any_length)


def _in_bytes(stream: Stream, sizes: Sequence[int]) -> Stream:
    if stream.trace is not None or not stream.region:  # requests of a trace or program have places of their own
        return stream
    length = sizes[stream.target] if stream.target < len(sizes) else None
    if length is None and "%" in stream.region:
        return stream
    low, high = region_place(stream.region, MOST_BYTES if length is None else length)
    return structs.replace(stream, region=f"{low}B..{high}B")


HASH: Hashed = attrgetter("load_hash")
HASH_OF_ANY_LENGTH: Hashed = attrgetter("load_hash_of_any_length")
HASH_IN_BYTES_OF_ANY_LENGTH: Hashed = partial(_hash_in_bytes, of_any_length=True)
HASHES: tuple[Hashed, ...] = (HASH, _hash_in_bytes, HASH_OF_ANY_LENGTH, HASH_IN_BYTES_OF_ANY_LENGTH)
"""Those that tell more apart first."""

Apart = dict[Name, dict[str, tuple[str, list[Record]]]]
"""Names under which there are several loads: of each by its hash what tells it from the others, and its runs."""


@dataclass
class Pooled:
    """One stream and operation in all repetitions of one load."""

    found: list[tuple[Record, Totals]]
    batches: list[Batches]
    """Of each run; one that is alone tells its own noise."""

    def groups(self) -> dict[StorageState, Pooled]:
        found: dict[StorageState, Pooled] = {}
        for item, batches in zip(self.found, self.batches, strict=True):
            group = found.setdefault(group_of(item[0]), Pooled([], []))
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


_Named = dict[Name, Pooled]

_Stored = dict[Name, dict[StorageState, None]]
"""The storage of a side, whatever its condition: by the levels of a study, which may tell it apart, else all of it."""


def paired(before: Sequence[Record], after: Sequence[Record]) -> tuple[_Named, _Named, tuple[list[int], list[int]]]:
    """Both sides by name, and the runs of each that are left out, as the other has none on their storage in their
    condition."""
    apart = several_loads(before, after)
    changing = any_changes(*before, *after)
    one, other = sides_of(before, apart, changing), sides_of(after, apart, changing)
    by_load = False
    if not any(name in other for name in one) and one and other:
        # The same load under another name, such as a job that another program ran.
        hashed = hash_of_both(before, after)
        alike = [sides_of(side, apart, changing, hashed) for side in (before, after)]
        if by_load := any(name in alike[1] for name in alike[0]):
            one, other = _with_own_names(alike[0], alike[1], hashed)
    return _like(one, other, by_load=by_load)


def hash_of_both(before: Sequence[Record], after: Sequence[Record]) -> Hashed:
    """The hash under which loads of other names are one: that of the whole load, or, where the sides have none in
    common, with the sizes of their targets, or of what it asks for any time."""
    for hashed in HASHES[:-1]:
        if {hashed(record.info) for record in before} & {hashed(record.info) for record in after}:
            return hashed
    return HASHES[-1]


def _like(one: _Named, other: _Named, *, by_load: bool) -> tuple[_Named, _Named, tuple[list[int], list[int]]]:
    """Where a side has several storages, or several groups under a name, each of them is compared with itself; one may
    be compared with any other. Returns both sides, and the runs whose group the other side lacks."""
    stored = stored_of(_records(one), by_load=by_load), stored_of(_records(other), by_load=by_load)
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


def stored_of(records: Iterable[Record], *, by_load: bool = False) -> _Stored:
    found: _Stored = {}
    for record in records:
        found.setdefault(() if by_load else levels_of(record), {})[group_of(record).in_any_condition] = None
    return found


def levels_of(record: Record) -> Name:
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
            both = [of.get(levels_of(pooled.found[0][0]), of.get((), {})) for of in stored]
            several = [*both[0], *both[1]] if max(map(len, both)) > 1 else []
            mine, others = ({group.in_any_condition: part for group, part in of.items()} for of in (mine, others))
        if not others or not several:
            found[name] = pooled
            continue
        told = told_apart(several)
        for group, part in mine.items():
            (found if group in others else left)[with_words(name, told[group])] = part
    return found


def any_changes(*records: Record) -> bool:
    """Whether a condition changed in any of the runs: the others are then said to be normal, which they are compared
    as."""
    return any(stretches(record) for record in records)


def stood(record: Record, words: str, changing: bool) -> str:
    """The condition of a part for its name, which has that of the run if it is not normal."""
    own = record.info.condition
    said = words or (own if changing else "")
    return "" if said == own != BEFORE else said


def with_words(name: Name, *words: str) -> Name:
    """Before the operation."""
    return (*name[:-1], *filter(None, words), name[-1])


def default_figures(*sides: Sequence[Record]) -> tuple[str, ...]:
    """Those of response times, of service times where no run has others (fio knows no due instant), or of latencies
    where some have."""
    records = [record for side in sides for record in side]
    has_response = {any(i.measure == Timed.RESPONSE for i in record.intervals) for record in records}
    if False not in has_response:
        return COMPARED
    return LATENCY_COMPARED if True in has_response else SERVICE_COMPARED


def shared_percentiles(measure: str, *sides: Pooled) -> str | None:
    """Whose time the percentiles of all runs are of where that is not the measure itself, such as fio's clat; None
    where they are of different times, which compare with nothing: fio's clat may leave out the call that submits a
    request. Its means do not."""
    every = [row.measures[measure] for side in sides for _, row in side.found if measure in row.measures]
    found = {item.percentiles_of for item in every}
    return None if len(found) > 1 else next(iter(found), "")


def figure_of_sides(figure: Figure, *sides: Pooled) -> Figure | None:
    """A figure as it is called for what the sides have; None where theirs compare with nothing."""
    asked = figure_of(figure, sides[0].found[0][1].operation)
    if not figure.is_percentile:
        return asked
    whose = shared_percentiles(figure.measure, *sides)
    return None if whose is None else asked.of_time(whose)


def sides_of(
    records: Sequence[Record], apart: Apart, changing: bool, hashed: Hashed | None = None
) -> dict[Name, Pooled]:
    """By name, or by what is asked where `hashed` says which hash of it counts."""
    found: dict[Name, Pooled] = {}
    overloaded = set[Name]()
    for record in records:
        of_record = Counter[Name]()
        for step, condition, part in parts_of(record):
            batches, lengths = Batches(part), length_told(part)
            for row in totals(part):
                name = (asked_words(record, row, hashed), row.operation) if hashed else row_name(record, row, apart)
                name = with_words(name, step, stood(record, condition, changing))
                of_record[name] += 1
                if of_record[name] > 1:  # such as one model twice, which is no repetition of itself
                    name = with_words(name, f"no. {of_record[name]}")
                side = found.setdefault(name, Pooled([], []))
                side.found.append((record, _with_latency(part, row)))
                side.batches.append(batches)
                if (row.phase, row.stream) in lengths:
                    overloaded.add(name)
    # Without the times of some runs alone, those of the others would be of the runs that happened to be faster.
    for name in overloaded:
        found[name].found = [(record, _without_length(row)) for record, row in found[name].found]
    return found


def parts_of(record: Record) -> Iterator[tuple[str, str, Record]]:
    """What of a run was one load in one condition, with words for both."""
    for step, whole in by_step(record):
        for condition, part in by_condition(whole):
            yield step, condition, part


def _with_latency(record: Record, row: Totals) -> Totals:
    found = shared_latency(record, row)
    return row if found is None else replace(row, measures={**row.measures, LATENCY: found})


def _without_length(row: Totals) -> Totals:
    return replace(row, measures={name: times for name, times in row.measures.items() if name not in FROM_DUE})


def length_lines(records: Sequence[Record]) -> list[str]:
    """That response times of some runs are no figures of these."""
    if not (runs := [record.info.id for record in records if length_told(record)]):
        return []
    are, they = ("is", "it was") if len(runs) == 1 else ("are", "they were")
    none = "none" if len(runs) == len(records) else "those of no run"
    return [f"{format_runs(runs)} {are} overloaded: response times depend on how long {they}, so {none} are compared"]


def several_loads(*sides: Sequence[Record]) -> Apart:
    """Where runs of one side bear one name and are of several loads, such as a profile with two values of `--set`:
    these are never pooled."""
    found: dict[Name, dict[str, list[Record]]] = {}
    several = set()
    for side in sides:
        mine: dict[Name, set[str]] = {}
        for record in side:
            name, load = record_name(record), asked_hash(record)
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


def asked_words(record: Record, row: Totals, hashed: Hashed = HASH) -> str:
    """What a row asks of the storage without any name: the hash of its plan, and its place there."""
    return f"load {hashed(record.info)}{_place(record, row)}"


def _place(record: Record, row: Totals) -> str:
    plan = record.info.plan
    several = len(plan.phase) > 1 or any(len(phase.stream) > 1 for phase in plan.phase)
    return f", phase {row.phase + 1}, stream {row.stream + 1}" if several else ""


def _with_own_names(
    one: dict[Name, Pooled], other: dict[Name, Pooled], hashed: Hashed
) -> tuple[dict[Name, Pooled], dict[Name, Pooled]]:
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
        titles = {(hashed(record.info), record.info.plan.title) for record in runs}
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
    called = info.called_beside_levels
    return (name[0], called, *name[1:]) if called and name[0] == info.profile else name


def row_name(record: Record, row: Totals | AllRow, apart: Apart) -> Name:
    """With load, phase, stream and operation, as far as there are several."""
    name = record_name(record)
    told = [apart[name][asked_hash(record)][0]] if name in apart else []
    return (*name, *told, *_place_names(record, row), row.operation)


def _place_names(record: Record, row: Totals | AllRow) -> list[str]:
    """The names of phase and stream, as far as there are several."""
    phases = record.info.plan.phase
    streams = max((len(phase.stream) for phase in phases), default=1)
    return [*([row.phase_name] if len(phases) > 1 else []), *([row.stream_name] if streams > 1 else [])]


def whole_of(side: Pooled, figure: Figure) -> float | None:
    """None where requests of a run have no times: it is of all requests, or of none."""
    if len(side.found) < 2 or any(row.requests and figure.measure not in row.measures for _, row in side.found):
        return None
    return percentile_of_all(figure, (row.measures.get(figure.measure) for _, row in side.found))


def value_of(row: Totals, figure: Figure) -> float | None:
    if figure.kind == "rate":
        return row.iops if row.is_rated else None
    if figure.kind == "mib":
        return row.bytes_per_s / (1 << 20) if row.is_rated and is_on_data(row.operation) else None
    whole = row.measures.get(figure.measure)
    return None if whole is None else time_of(whole, figure)


def time_of(whole: Latency, figure: Figure) -> float | None:
    point = figure.name.removeprefix(f"{figure.measure}_")
    if point in ("mean", "max"):
        return float(whole.mean_ns if point == "mean" else whole.max_ns)
    value = whole.percentiles.get(point)
    return None if value is None else float(value)


def loads_differ(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """Profiles whose plan is another on the two sides, although they bear one name: each with the keys that differ; and
    those that have several loads on one side, which the other side has not all."""
    sides: list[dict[str, dict[str, Record]]] = [{}, {}]
    for number, records in enumerate((before, after)):
        for record in records:
            levels = record.info.marks.levels
            key = ", ".join(levels.values()) if levels else record.info.profile
            sides[number].setdefault(key, {}).setdefault(asked_hash(record), record)
    apart = {
        ", ".join(name): loads
        for name, loads in several_loads(before, after).items()
        if {asked_hash(record) for record in before if record_name(record) == name}
        != {asked_hash(record) for record in after if record_name(record) == name}
    }
    renamed = [] if set(sides[0]) & set(sides[1]) else _lengths_differ(before, after)
    return (
        renamed
        + [
            f"{key}: {load_words(next(iter(plans.values())), next(iter(sides[1][key].values())))}"
            for key, plans in sides[0].items()
            if key in sides[1] and key not in apart and not set(plans) & set(sides[1][key])
        ]
        + [
            f"{name} is the name of several workloads: "
            + "; ".join(f"{words} ({format_runs([run.info.id for run in runs])})" for words, runs in loads.values())
            for name, loads in apart.items()
        ]
    )


def _lengths_differ(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """Loads of other names that are one but for how long they take."""
    hashed = hash_of_both(before, after)
    if hashed not in (HASH_OF_ANY_LENGTH, HASH_IN_BYTES_OF_ANY_LENGTH):
        return []
    others = {hashed(record.info): record for record in after}
    pairs = {HASH(one.info): (one, others[hashed(one.info)]) for one in before if hashed(one.info) in others}
    return [f"{one.info.profile} / {other.info.profile}: {load_words(one, other)}" for one, other in pairs.values()]
