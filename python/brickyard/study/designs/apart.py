"""Duty: refuse --set where it would make levels of a factor alike: in a key in which their profiles, or the words of
their models, differ, or as a whole. Their names, the tables' titles and the source's figures tell them apart by it.

Levels that --only leaves out count as well: one that runs alone keeps its name, too.

Refusal: keys that a factor sets itself are known without a look at profiles (`cells`). A preset of pgbench gives way to
single settings, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from brickyard import bricks
from brickyard.databases.pgbench_plan import KIND
from brickyard.errors import BadInputError
from brickyard.profiles import SAME_LOAD
from brickyard.schema import plan_values
from brickyard.study.designs.cells import Specs, StudyCell, Wishes, refused_change, siblings
from brickyard.study.designs.design import Design
from brickyard.study.running.runner import RunSpec

HOW_LONG = (*SAME_LOAD, "duration", "warmup", "transactions", "verify")
"""Keys of a profile that leave it the same load."""
Place = tuple[str, ...]


@dataclass(frozen=True)
class _Comes:
    """What a cell comes to: the values of its plan and of its target's words by their places, and its models."""

    values: Mapping[Place, object]
    models: str


def check_apart(design: Design, wishes: Wishes, cells: Sequence[StudyCell], folder: Path | None) -> None:
    """Raises BadInputError for the first change that makes levels alike."""
    if not wishes.changes:
        return
    bare = _Known(Specs(design, replace(wishes, changes=()), folder))
    changed = _Known(Specs(design, wishes, folder))
    families = {
        (factor.name, frozenset((name, level) for name, level in cell.levels.items() if name != factor.name)): (
            factor,
            cell,
        )
        for cell in cells
        if cell.recipe.profile != KIND
        for factor in design.factors
    }
    for factor, cell in families.values():
        family = siblings(design, wishes, cell, factor)
        if len(family) > 1 and _are_alike([bare.of(one) for one in family], [changed.of(one) for one in family]):
            raise refused_change(design, factor, _guilty(design, wishes, family, bare, folder))


class _Known:
    """What is worked out once."""

    def __init__(self, specs: Specs) -> None:
        self._specs = specs
        self._of: dict[tuple[object, ...], _Comes] = {}

    def of(self, cell: StudyCell) -> _Comes:
        key = (*cell.levels.values(), *cell.targets)
        if key not in self._of:
            self._of[key] = _comes(self._specs.spec(cell, 1), cell)
        return self._of[key]


def _comes(spec: RunSpec, cell: StudyCell) -> _Comes:
    values = {place: value for place, value in _flat(plan_values(spec.plan), ()) if place[-1] not in HOW_LONG}
    if not cell.is_modelled:
        return _Comes(values, "")
    overrides = spec.options.changes
    models = [bricks.describe(target, overrides).brick for target in cell.targets]
    # What --set says comes last, so that a key of a target's own words has its value no longer.
    said = {change.partition("=")[0].strip() for change in overrides}
    words: dict[Place, object] = {
        ("target", key): value
        for target in cell.targets
        for key, _, value in (word.partition("=") for word in target.split(",")[1:])
        if key not in said
    }
    alike = [{key: value for key, value in model.items() if key not in ("name", "title")} for model in models]
    return _Comes({**values, **words}, repr(alike))


def _flat(value: object, place: Place) -> Iterator[tuple[Place, object]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _flat(below, (*place, str(key)))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _flat(below, (*place, str(number)))
    else:
        yield place, value


def _are_alike(before: Sequence[_Comes], after: Sequence[_Comes]) -> bool:
    """Whether fewer of them differ in some place, or as a whole, than without the changes."""
    places = {place for comes in before for place in comes.values}
    looks: list[Callable[[_Comes], object]] = [_whole, *(partial(_at, place) for place in places)]
    return any(len(set(map(look, after))) < len(set(map(look, before))) for look in looks)


def _at(place: Place, comes: _Comes) -> object:
    return comes.values.get(place)


def _whole(comes: _Comes) -> tuple[str, str]:
    return repr(sorted((place, value) for place, value in comes.values.items() if place[0] != "target")), comes.models


def _guilty(
    design: Design,
    wishes: Wishes,
    family: Sequence[StudyCell],
    bare: _Known,
    folder: Path | None,
) -> str:
    """The first change that does it by itself, or else all of them."""
    before = [bare.of(one) for one in family]
    for change in wishes.changes:
        alone = _Known(Specs(design, replace(wishes, changes=(change,)), folder))
        try:
            if _are_alike(before, [alone.of(one) for one in family]):
                return change
        except BadInputError:
            continue
    return " ".join(wishes.changes)
