"""Duty: which condition is held around a cell's run, and how long a modelled brick takes to be whole again.

Refusal: a model is never held, since its condition is part of it; arrays are the business of `brickyard.conditions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from brickyard import arrays, bricks, conditions
from brickyard.errors import BadInputError
from brickyard.store import Json
from brickyard.study.runner import RunSpec


def holding(
    spec: RunSpec,
    *,
    manage: bool,
    rate_bytes_per_s: int | None,
    neighbour: str | None,
    array: str | None,
    say: Callable[[str], None],
    stopped: Callable[[], bool] | None = None,
) -> AbstractContextManager[conditions.Held | None]:
    """A real array is watched in normal condition too: one at work is not normal."""
    if any(bricks.is_modelled(target) for target in spec.targets):
        return nullcontext()
    asked = spec.condition != "normal"
    if not asked and (len(spec.targets) != 1 or (array is None and arrays.find(spec.targets[0]) is None)):
        return nullcontext()
    if len(spec.targets) != 1:
        raise BadInputError("a condition is that of one array; name one target")
    return conditions.hold(
        spec.targets[0],
        spec.condition,
        manage=manage,
        rate_bytes_per_s=rate_bytes_per_s,
        neighbour=neighbour,
        array=array,
        say=say,
        stopped=stopped,
    )


def modelled_redundancy_s(spec: RunSpec) -> float | None:
    """The time until a failed member is whole again at the model's pace beside this load; a real array is watched."""
    from brickyard import _core
    from brickyard.advise.lifetime import rebuild_hours

    if spec.condition != "rebuilding" or "bricks" not in spec.options:
        return None
    texts = {**bricks.texts(), **spec.options["bricks"]}
    name = spec.targets[0].removeprefix(bricks.MODELLED)
    found: Json = json.loads(_core.brick(name, texts, spec.options["overrides"]))
    writes = any(float(s["operations"]["write"]) > 0 for p in json.loads(spec.plan)["phase"] for s in p["stream"])
    hours = rebuild_hours(found["brick"], writes=writes)
    return None if hours is None else hours * 3600
