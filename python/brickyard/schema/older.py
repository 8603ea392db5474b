"""What stores hold that were written before events had a version, put as the types have it now.

Nothing is changed in a store; old events are read anew each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The loader of databases said in words what every other writer says by a name.
_BOUND = {"the loader used all of the one core that it can use": "cpu"}
_REASON = {"stopped": "interrupted"}


def upgraded(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event as a writer of this version would have put it."""
    if event.get("event") != "phase_end":
        return event
    reason, bound = event.get("reason"), event.get("generator_bound_reason")
    if reason not in _REASON and bound not in _BOUND:
        return event
    return {
        **event,
        "reason": _REASON.get(str(reason), reason),
        "generator_bound_reason": _BOUND.get(str(bound), bound),
    }


def plan_kind(plan: Mapping[str, Any]) -> str:
    """Who carried a plan out that is no profile; empty where it is one. Imported plans did not say so."""
    if kind := plan.get("kind"):
        return str(kind)
    streams = [stream for phase in plan.get("phase", ()) for stream in phase.get("stream", ())]
    return "import" if any("options" in stream for stream in streams) else ""
