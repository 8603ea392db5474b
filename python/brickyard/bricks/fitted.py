"""Duty: what is known of models that `advise fit` made: how far they are off the workloads that were fitted to or held
out, and what was not measured at all. How far models of products are off published figures says nothing of them.

Refusal: nothing is computed; it is what the fit wrote into the brick's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from brickyard.schema.operations import writes
from brickyard.schema.plan import Plan

MARK = "brickyard advise fit"
"""In the text of each brick that was fitted."""
NO_WRITES = "no writes were measured; the write path is assumed"
_ERRORS = re.compile(r'median error [^\n";]+')


def words(texts: Mapping[str, str], plan: Plan | None) -> str | None:
    """Of the texts that a brick is made of, without a full stop; None where none of them was fitted."""
    fitted = [text for text in texts.values() if MARK in text]
    if not fitted:
        return None
    errors = "; ".join(found[0].rstrip(".") for text in fitted if (found := _ERRORS.search(text)))
    said = f"the model was fitted by `advise fit`{f' ({errors})' if errors else ''}"
    if any(NO_WRITES in text for text in fitted) and (plan is None or _may_write(plan)):
        return (
            f"{said} to reads alone: no writes were measured, so its write path is assumed, and figures of a workload "
            "that writes may be off by any factor"
        )
    return f"{said}; how far it is off for workloads unlike those that were measured is not known"


def _may_write(plan: Plan) -> bool:
    return any(writes(stream) or stream.program or stream.trace for phase in plan.phase for stream in phase.stream)
