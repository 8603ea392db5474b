"""Duty: of a load, the kinds of which models often miss published figures by far, in words that stand beside answers.

Refusal: nothing is corrected; the figures are those that `spread` keeps.
"""

from __future__ import annotations

from brickyard.bricks import spread
from brickyard.schema.plan import Plan, StepWord, Stream, SyncMode


def words(drive_kind: str, plan: Plan) -> list[str]:
    """A sentence for each such kind of load that a stream of the plan is."""
    loads = sorted({_load(stream) for phase in plan.phase for stream in phase.stream})
    return [said for load in loads if (said := spread.far_off(drive_kind, load, spread.rows()))]


def _load(stream: Stream) -> str:
    asked, steps = stream.operations, set(stream.chain)
    flushes = stream.flush_every is not None or stream.sync is not SyncMode.NONE
    return spread.load_of(
        reads=StepWord.READ in steps if steps else asked.read > 0,
        writes=StepWord.WRITE in steps if steps else asked.write > 0,
        durable=flushes or asked.flush > 0 or StepWord.FLUSH in steps,
    )
