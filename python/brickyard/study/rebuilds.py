"""Duty: how long a modelled brick takes to be whole again, as an event of its run.

A model says at which pace its controller rebuilds beside this load; a real array is watched instead.

Refusal: where nothing is rebuilt nothing is said.
"""

from __future__ import annotations

import json

from brickyard import bricks
from brickyard.store import Json
from brickyard.study.holding import Sampling, Unheld
from brickyard.study.runner import RunSpec


class _Pace(Sampling):
    def __init__(self, event: Json) -> None:
        super().__init__(Unheld())
        self._event = event

    def event(self, condition: str) -> Json | None:
        return self._event


def modelled_pace(spec: RunSpec) -> Sampling | None:
    from brickyard import _core
    from brickyard.advise.lifetime import rebuild_hours

    if spec.condition != "rebuilding":
        return None
    texts = {**bricks.texts(), **spec.options["bricks"]}
    found: Json = json.loads(_core.brick(spec.targets[0].removeprefix("sim:"), texts, spec.options["overrides"]))
    writes = any(float(s["operations"]["write"]) > 0 for p in json.loads(spec.plan)["phase"] for s in p["stream"])
    hours = rebuild_hours(found["brick"], writes=writes)
    if hours is None:
        return None
    capacity = found["brick"]["drive"]["capacity_bytes"]
    bytes_each = capacity if isinstance(capacity, int) else _core.parse_bytes(str(capacity))
    return _Pace(
        {
            "event": "condition",
            "condition": spec.condition,
            "valid": True,
            "reason": "",
            "samples": [],
            "time_to_redundancy_s": hours * 3600,
            "rebuild_bytes_per_s": bytes_each / (hours * 3600),
        }
    )
