"""Duty: a design with its command line → cells: for each combination of levels, what is to be run where.

A cell's identity is a hash of the study's name, its levels, the repetition and everything that decides what the run
does. A finished run with that identity is never repeated, and a changed profile, target or brick makes a new cell.

Refusal: nothing is run, and no target is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import msgspec
from msgspec import UNSET, structs

from brickyard import bricks, profiles
from brickyard.analysis.figures.pivot import Where
from brickyard.bricks.resolved import Resolved
from brickyard.conditions import written
from brickyard.databases.connect import WORDS, is_dsn, spoken
from brickyard.databases.pgbench_plan import KIND, changed_by
from brickyard.errors import BadInputError, nearest, one_line
from brickyard.reading import parsed_bytes_per_s
from brickyard.schema import LoadShare, RunOptions
from brickyard.schema.plan import Plan
from brickyard.store.record import RunMarks
from brickyard.study.designs.design import CONDITIONS, PLACE, Design, Factor, Level, Recipe
from brickyard.study.designs.holding import SetUp
from brickyard.study.running.fit import own_size
from brickyard.study.running.runner import RunSpec
from brickyard.study.running.seeds import seed_of


@dataclass(frozen=True)
class Wishes:
    """What the command line adds to a design."""

    targets: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    repetitions: int | None = None
    label: str = ""
    create_bytes: int | None = None
    overwrite: tuple[str, ...] = ()
    destroys_data: bool = False
    manage: bool = False
    prices: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyCell:
    """One combination of levels with what it comes to."""

    levels: Mapping[str, str]
    recipe: Recipe
    usd: float | None

    @property
    def targets(self) -> tuple[str, ...]:
        return self.recipe.targets or ()

    @property
    def is_modelled(self) -> bool:
        return any(bricks.is_modelled(target) for target in self.targets)

    @property
    def share(self) -> LoadShare:
        return LoadShare(self.recipe.share or LoadShare.COPIES)

    @property
    def condition(self) -> str:
        return self.recipe.condition or "normal"

    @property
    def set_up(self) -> SetUp:
        rate = self.recipe.rebuild_rate
        return SetUp(
            self.targets,
            self.condition,
            self.recipe.neighbour,
            self.recipe.array,
            parsed_bytes_per_s(rate, "rebuild_rate") if rate else None,
        )

    @property
    def name(self) -> str:
        return ", ".join(map(written, self.levels.values()))


@dataclass(frozen=True)
class Layout:
    """All cells, how many combinations of their levels are excluded, and what there is to say about those left out."""

    cells: list[StudyCell]
    excluded: int
    notes: list[str] = field(default_factory=list)


def lay_out(design: Design, wishes: Wishes) -> Layout:
    """Every combination that is not excluded; with --target only those for which a target was named."""
    aims = [_aim(design, text) for text in wishes.targets]
    only = chosen(design, wishes.only)
    prices = _prices(design, wishes.prices)
    found: list[StudyCell] = []
    excluded = aimless = 0
    for combination in product(*(_wanted(factor, only) for factor in design.factors)):
        levels = {factor.name: level.name for factor, level in zip(design.factors, combination, strict=True)}
        if any(_fits(levels, where) for where in design.exclude):
            excluded += 1
            continue
        if not aims and any(level.needs_target for level in combination):
            continue
        cell = _cell(design, combination, levels, prices)
        if aims:
            target = next((path for where, path in aims if _fits(levels, where)), None)
            if target is None:
                aimless += 1
                continue
            cell = replace(cell, recipe=replace(cell.recipe, targets=_targets_of(target)))
        found.append(_filled(design, cell, combination))
    if not found:
        raise BadInputError(f"{design.name}: no combination of levels is left to run")
    _check_factors(design, found, aims)
    _check_changes(design, found, wishes.changes)
    notes = []
    if design.question and (narrowed := [name for name in design.answer if name in only]):
        kept = "; ".join(f"{name}: {', '.join(map(written, only[name]))}" for name in narrowed)
        notes.append(f"the answer covers only the levels that --only leaves ({kept})")
    if aimless:
        are, them = ("is", "it") if aimless == 1 else ("are", "them")
        notes.append(f"{combinations_words(aimless)} {are} left out: no --target was named for {them}")
    return Layout(found, excluded, notes)


def _wanted(factor: Factor, only: Where) -> list[Level]:
    """The levels that are named; else all but those that have to be."""
    if factor.name in only:
        return [level for level in factor.levels if level.name in only[factor.name]]
    return [level for level in factor.levels if not level.is_asked_for]


KEYS = ("profile", "target", "condition", "neighbour", "array", "rebuild_rate", "hosts", "share")
"""Of a run, as a design writes them; a factor that is called like one is most likely meant for it."""


def _check_factors(design: Design, cells: list[StudyCell], aims: list[tuple[Where, str]]) -> None:
    """Between levels that run the same nothing but noise can differ, which no table may call a difference."""
    for factor in design.factors:
        varies = len({cell.levels[factor.name] for cell in cells}) > 1
        if not varies or _sets_something(design, factor) or any(factor.name in where for where, _ in aims):
            continue
        name = factor.name
        remedy = (
            f'{name} = "{{{name}}}" in [base]' if name in KEYS else f'set = {{ KEY = "{{value}}" }} in [factor.{name}]'
        )
        raise BadInputError(f"{design.name}: factor {name} sets nothing; write {remedy}")


def _sets_something(design: Design, factor: Factor) -> bool:
    """Whether a level has a key of its own, or some text or the choice of an override asks for the level."""
    if any(level.recipe != Recipe() for level in factor.levels):
        return True
    if any(factor.name in override.where for override in design.overrides):
        return True
    everywhere = [design.base, *(override.recipe for override in design.overrides)]
    everywhere += [recipe for each in design.factors for recipe in (each.recipe, *(i.recipe for i in each.levels))]
    # A value of one factor may ask for another factor's.
    values = {text for each in design.factors for level in each.levels for text in PLACE.findall(level.value)}
    used = {name for recipe in everywhere for name in recipe.places()} | values
    return factor.name in used or "value" in factor.recipe.places()


def _check_changes(design: Design, cells: list[StudyCell], changes: Sequence[str]) -> None:
    """--set comes last, and would have all levels of a factor run the same under names that tell them apart."""
    for change in changes:
        for factor in design.factors:
            if any(_overlap(_key_of(change), _key_of(own)) for own in _changes_of(design, factor, cells)):
                raise refused_change(design, factor, change)


def refused_change(design: Design, factor: Factor, change: str) -> BadInputError:
    level = written(factor.levels[0].name)
    return BadInputError(
        f"{design.name}: --set {change}: factor {factor.name} sets {'.'.join(_key_of(change))}, and its"
        f" levels would keep their names; choose levels with --only {factor.name}={level}, or change a copy of the file"
        f" (`brickyard study show {design.name}` prints it)"
    )


def siblings(design: Design, wishes: Wishes, cell: StudyCell, factor: Factor) -> list[StudyCell]:
    """A cell with all others that differ from it in the level of one factor, whether or not --only leaves them."""
    found = []
    for level in factor.levels:
        levels = {**cell.levels, factor.name: level.name}
        is_left_out = level.is_asked_for or level.needs_target or any(_fits(levels, where) for where in design.exclude)
        if is_left_out and levels != cell.levels:
            continue
        combination = [each.level(levels[each.name]) for each in design.factors]
        made = _cell(design, combination, levels, {})
        if wishes.targets:
            made = replace(made, recipe=replace(made.recipe, targets=cell.targets))
        found.append(_filled(design, made, combination))
    return found


def _changes_of(design: Design, factor: Factor, cells: list[StudyCell]) -> Iterator[str]:
    """What the levels that are run decide: by keys of their own, or by a text elsewhere that asks for the factor."""
    named = {cell.levels[factor.name] for cell in cells}
    overrides = [item for item in design.overrides if any(_fits(cell.levels, item.where) for cell in cells)]
    own = [factor.recipe, *(level.recipe for level in factor.levels if level.name in named)]
    for recipe in [*own, *(item.recipe for item in overrides if factor.name in item.where)]:
        yield from (*recipe.changes, *recipe.modelled_changes)
    for recipe in [design.base, *(item.recipe for item in overrides)]:
        for change in (*recipe.changes, *recipe.modelled_changes):
            if factor.name in PLACE.findall(change):
                yield change


def _key_of(change: str) -> tuple[str, ...]:
    return tuple(change.partition("=")[0].strip().split("."))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two keys reach one place: `depth` is that of every phase and stream, `measure.depth` of one phase."""
    shorter, longer = sorted((one, other), key=len)
    same_leaf = shorter[-1] == longer[-1] and shorter[:-1] == longer[: len(shorter) - 1]
    return same_leaf or shorter == longer[: len(shorter)] or (len(shorter) == 1 and shorter[0] in longer)


def combinations_words(count: int) -> str:
    return "1 combination" if count == 1 else f"{count} combinations"


def _cell(
    design: Design, combination: Sequence[Level], levels: Mapping[str, str], prices: dict[tuple[str, str], float]
) -> StudyCell:
    recipe, usd = design.base, None
    for factor, level in zip(design.factors, combination, strict=True):
        recipe = recipe.under(_own(factor.recipe, level)).under(_own(level.recipe, level))
        price = prices.get((factor.name, level.name), level.usd)
        usd = price if usd is None else usd + (price or 0.0)
    for override in design.overrides:
        if _fits(levels, override.where):
            recipe = recipe.under(override.recipe)
            usd = override.usd if override.usd is not None else usd
    return StudyCell(dict(levels), recipe, usd)


def _own(recipe: Recipe, level: Level) -> Recipe:
    return _replaced(recipe, {"value": level.value})


def _filled(design: Design, cell: StudyCell, combination: Sequence[Level]) -> StudyCell:
    values = {factor.name: level.value for factor, level in zip(design.factors, combination, strict=True)}
    recipe = _replaced(cell.recipe, values)
    if recipe.profile is None:
        raise BadInputError(f"{design.name}: {cell.name}: no profile; write profile = … in [base] or in a level")
    if not recipe.targets:
        raise BadInputError(f"{design.name}: {cell.name}: no target; name one with --target, or write target = …")
    if recipe.condition is not None and recipe.condition.replace("-", "_") not in CONDITIONS:
        known = ", ".join(map(written, CONDITIONS))
        raise BadInputError(f"{design.name}: {cell.name}: condition {recipe.condition} is not one of {known}")
    if recipe.share is not None and recipe.share not in tuple(LoadShare):
        raise BadInputError(f"{design.name}: {cell.name}: share {recipe.share} is not one of {', '.join(LoadShare)}")
    if recipe.hosts is not None:
        _check_hosts(design, recipe, cell.name)
    return replace(cell, recipe=recipe)


def _check_hosts(design: Design, recipe: Recipe, name: str) -> None:
    """What only the host of a study can do."""
    conditions = {
        "condition": recipe.condition not in (None, "normal"),
        "neighbour": recipe.neighbour is not None,
        "array": recipe.array is not None,
        "rebuild_rate": recipe.rebuild_rate is not None,
        f"profile = {KIND}": recipe.profile == KIND,
    }
    for key, is_set in conditions.items():
        if is_set:
            raise BadInputError(f"{design.name}: {name}: {key}: works on one host; leave hosts out of such cells")


def _replaced(recipe: Recipe, values: Mapping[str, str]) -> Recipe:
    def put(text: str) -> str:
        return PLACE.sub(lambda match: values.get(match[1], match[0]), text)

    def one(text: str | None) -> str | None:
        return None if text is None else put(text)

    return Recipe(
        profile=one(recipe.profile),
        targets=None if recipe.targets is None else tuple(put(target) for target in recipe.targets),
        condition=one(recipe.condition),
        neighbour=one(recipe.neighbour),
        array=one(recipe.array),
        rebuild_rate=one(recipe.rebuild_rate),
        hosts=one(recipe.hosts),
        share=one(recipe.share),
        changes=tuple(put(change) for change in recipe.changes),
        modelled_changes=tuple(put(change) for change in recipe.modelled_changes),
    )


def _fits(levels: Mapping[str, str], where: Where) -> bool:
    return all(levels[name] in wanted for name, wanted in where.items())


def chosen(design: Design, words: Sequence[str]) -> Where:
    """`--only drive=WD --only drive=Maxtor --only condition=normal`: one of the levels of each named factor."""
    found: Where = {}
    names = [factor.name for factor in design.factors]
    for word in words:
        name, equals, level = (part.strip() for part in word.partition("="))
        if not equals or name not in names:
            raise BadInputError(f"--only {word}: write FACTOR=LEVEL", nearest(name, names))
        found[name] = (*found.get(name, ()), _level_named(design, name, level, f"--only {word}"))
    return found


def _level_named(design: Design, factor: str, word: str, place: str) -> str:
    levels = design.factor(factor).levels
    found = [level.name for level in levels if _is_called(level, word)]
    if not found:
        known = [written(level.name) for level in levels]
        raise BadInputError(f"{place}: no such level of {factor}", nearest(word, known))
    return found[0]


def _is_called(level: Level, word: str) -> bool:
    return word in (level.name, level.label, written(level.name))


def _aim(design: Design, text: str) -> tuple[Where, str]:
    """`PATH` for every cell, `LEVEL=PATH`, or `LEVEL,LEVEL=PATH` for a combination; FACTOR:LEVEL where two agree."""
    head, equals, path = text.partition("=")
    if not equals or "://" in head or head.strip() in WORDS or head.startswith(("/", ".", bricks.MODELLED)):
        return {}, text
    if not path:
        raise BadInputError(f"--target {text}: names no target")
    where: Where = {}
    for word in head.split(","):
        name, level = _factor_of(design, word.strip(), f"--target {text}")
        where[name] = (level,)
    return where, path


def shown_aim(design: Design, text: str) -> str:
    """As it is kept: no password of a DSN stands in it."""
    _, target = _aim(design, text)
    return text.removesuffix(target) + spoken(target) if is_dsn(target) else text


def _factor_of(design: Design, word: str, place: str) -> tuple[str, str]:
    """The factor and level that a word means."""
    factor, colon, rest = word.partition(":")
    if colon and factor in [f.name for f in design.factors]:
        return factor, _level_named(design, factor, rest, place)
    found = [(f.name, lv.name) for f in design.factors for lv in f.levels if _is_called(lv, word)]
    if len(found) > 1:
        ways = " or ".join(f"{name}:{level}" for name, level in found)
        raise BadInputError(f"{place}: {word} is a level of several factors; write {ways}")
    if not found:
        known = [written(level.name) for f in design.factors for level in f.levels]
        raise BadInputError(f"{place}: {word} is not a level", nearest(word, known))
    return found[0]


def _targets_of(path: str) -> tuple[str, ...]:
    """Several targets of one profile are joined by +; a path that has one in it exists as it is."""
    if bricks.is_modelled(path) or os.path.lexists(path):
        return (path,)
    return tuple(path.split("+"))


def _prices(design: Design, words: Sequence[str]) -> dict[tuple[str, str], float]:
    found = {}
    for word in words:
        name, _, amount = word.rpartition("=")
        try:
            usd = float(amount)
        except ValueError:
            usd = -1.0
        if not name or not 0 <= usd < float("inf"):
            raise BadInputError(f"--price {word}: write LEVEL=USD, such as raid10=1400")
        found[_factor_of(design, name, f"--price {word}")] = usd
    return found


class Specs:
    """Makes runs of cells; what many cells share is worked out once."""

    def __init__(self, design: Design, wishes: Wishes, folder: Path | None) -> None:
        self._design, self._wishes, self._folder = design, wishes, folder
        self._texts: dict[str, profiles.ProfileText] = {}
        self._bricks: dict[tuple[str, tuple[str, ...]], Resolved] = {}
        self._titles: dict[tuple[str, tuple[str, ...]], str] = {}

    def spec(self, cell: StudyCell, repetition: int) -> RunSpec:
        """The run of one repetition, with a seed of its own."""
        try:
            return self._spec(cell, repetition)
        except BadInputError as error:
            raise BadInputError(f"{self._design.name}: {cell.name}: {one_line(error)}") from error

    def _spec(self, cell: StudyCell, repetition: int) -> RunSpec:
        if cell.recipe.profile == KIND:
            return self._pgbench(cell, repetition)
        text = self._profile(str(cell.recipe.profile))
        changes = [change for change in self._changes(cell) if not (cell.is_modelled and bricks.is_override(change))]
        plan = profiles.validate(text, [f"seed={seed_of(self._design.seed, repetition)}", *changes])
        plan = structs.replace(plan, title=self._title(text, tuple(changes)))
        if cell.recipe.hosts is not None:
            spec = RunSpec(text.name, plan, list(cell.targets), RunOptions(hosts=cell.recipe.hosts, share=cell.share))
            return self._labelled(spec, cell, repetition)
        options = self._modelled(cell) if cell.is_modelled else self._real(cell, plan)
        spec = RunSpec(text.name, plan, list(cell.targets), options, condition=cell.condition)
        return self._labelled(spec, cell, repetition)

    def _changes(self, cell: StudyCell) -> tuple[str, ...]:
        """Of profile and modelled bricks; what the user changes comes last."""
        on_models = cell.recipe.modelled_changes if cell.is_modelled else ()
        return (*cell.recipe.changes, *on_models, *self._wishes.changes)

    def _title(self, text: profiles.ProfileText, changes: tuple[str, ...]) -> str:
        """What a level sets is said of its run as if a user had set it: no run bears the name of another load."""
        key = text.name, changes
        if key not in self._titles:
            self._titles[key] = profiles.changed(text, changes).title
        return self._titles[key]

    def _pgbench(self, cell: StudyCell, repetition: int) -> RunSpec:
        """Its server is made when the first run of its set begins."""
        from brickyard.study.running.pgbench import run_spec

        (target,) = cell.targets
        study = [f"seed={seed_of(self._design.seed, repetition)}", *cell.recipe.changes]
        changes = changed_by(study, self._wishes.changes)
        return self._labelled(replace(run_spec(target, changes), condition=cell.condition), cell, repetition)

    def _labelled(self, spec: RunSpec, cell: StudyCell, repetition: int) -> RunSpec:
        marks = RunMarks(
            levels=dict(cell.levels),
            repetition=repetition,
            study=self._design.name,
            label=self._wishes.label or "",
            usd=cell.usd,
            rebuild_rate=cell.recipe.rebuild_rate or "",
        )
        return replace(spec, marks=structs.replace(marks, cell=self._identity(spec, marks)))

    def _profile(self, name: str) -> profiles.ProfileText:
        """A profile of the user's own may stand beside the study's file."""
        if name not in self._texts:
            beside = self._folder / name if self._folder and name.endswith(".toml") else None
            self._texts[name] = profiles.read(str(beside) if beside and beside.is_file() else name)
        return self._texts[name]

    def _modelled(self, cell: StudyCell) -> RunOptions:
        """The condition is one of the model's own."""
        if not bricks.all_modelled(cell.targets):
            raise BadInputError("real and modelled targets have different clocks; name targets of one kind only")
        overrides = (
            *(change for change in self._changes(cell) if bricks.is_override(change)),
            bricks.condition_override(cell.condition),
        )
        found = [self._resolved(target, overrides) for target in cell.targets]
        texts = {key: text for item in found for key, text in item.texts.items()}
        if cell.recipe.rebuild_rate:
            rate = parsed_bytes_per_s(cell.recipe.rebuild_rate, "rebuild_rate")
            overrides += bricks.paced([item.brick for item in found], rate)
        return RunOptions(bricks=texts, overrides=list(overrides))

    def _resolved(self, target: str, overrides: tuple[str, ...]) -> Resolved:
        key = target, overrides
        if key not in self._bricks:
            self._bricks[key] = bricks.resolve(target, overrides)
        return self._bricks[key]

    def _real(self, cell: StudyCell, plan: Plan) -> RunOptions:
        missing = any(not os.path.lexists(target) for target in cell.targets)
        own = own_size(plan) if missing and self._wishes.create_bytes is None else None
        return RunOptions(
            create_bytes=(int(own) if own else self._wishes.create_bytes) if missing else None,
            overwrite=[path for path in self._wishes.overwrite if path in cell.targets],
            destroys_data=self._wishes.destroys_data,
        )

    def _identity(self, spec: RunSpec, marks: RunMarks) -> str:
        named = structs.replace(marks, usd=None)
        model = spec.options if spec.options.is_modelled else None
        what: list[object] = [named, spec.plan_text, spec.targets, spec.condition, model]
        what += [spec.options] if spec.options.hosts is not UNSET else []
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=msgspec.to_builtins).encode()).hexdigest()[:32]
