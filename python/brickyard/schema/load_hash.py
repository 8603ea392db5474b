"""Duty: one hash for plans that ask the same of the storage, whatever their profile, phases and streams are called.

It is taken of the document as the store keeps it, so that a plan of an older version keeps its hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from brickyard.schema.plan import OtherKind

LENGTHS = ("duration", "requests", "bytes", "passes", "warmup")
"""How long a phase takes, as a plan can say it."""
KIND, NEWER = "kind", "pace"
"""What tells a plan that is no profile, and what earlier versions did not keep of the streams of an imported result."""


def load_hash(plan: Mapping[str, Any], *, of_any_length: bool = False) -> str:
    """What fio's JSON does not tell (a random map, whether time alone ends a job) is left out. For plans
    `of_any_length`, so is how long each phase takes."""
    without = NEWER if plan.get(KIND) == OtherKind.IMPORT else ""
    phases = [_unnamed(phase, without) for phase in plan.get("phase", [])]
    if of_any_length:
        phases = [{key: value for key, value in phase.items() if key not in LENGTHS} for phase in phases]
    # Which engine was named is how it is carried out; a comparison tells it by itself.
    asked = {key: plan.get(key) for key in ("io", "cache", "reap")}
    # Unset, the queue decides; a load that sets it is another.
    asked |= {key: plan[key] for key in ("submit",) if plan.get(key)}
    return hashlib.sha256(json.dumps({**asked, "phase": phases}, sort_keys=True).encode()).hexdigest()[:8]


def _unnamed(phase: Mapping[str, Any], without: str) -> dict[str, object]:
    streams = [
        {**stream, "name": "", "address": {"kind": "random"}}
        if (stream.get("address") or {}).get("kind") == "permutation"
        else {**stream, "name": ""}
        for stream in phase.get("stream", [])
    ]
    streams = [{key: value for key, value in stream.items() if key != without} for stream in streams]
    return {**phase, "name": "", "passes": None if phase.get("duration") else phase.get("passes"), "stream": streams}
