"""Duty: how the array stood while a run went on, out of its record. Refusal: it judges nothing; `conditions` did."""

from __future__ import annotations

import msgspec

from brickyard.ready import ready
from brickyard.schema import Condition, ConditionSample, Document, words_of
from brickyard.store import Record


def condition_check(record: Record) -> Document | None:
    """`valid`, `reason`, `samples` and `array`, or None where no array was watched.

    A run that was killed has its samples and no judgement: `valid` is None.
    """
    judged = next((event for event in record.documents_of(Condition)), None)
    told = [{k: v for k, v in event.items() if k != "event"} for event in record.documents_of(ConditionSample)]
    if judged is None:
        return {"condition": record.info.condition, "valid": None, "reason": "", "samples": told} if told else None
    return judged if "samples" in judged else {**judged, "samples": told}


def condition_judged(record: Record) -> Condition | None:
    """None where no array was watched, or the run was killed."""
    return next(iter(record.of(Condition)), None)


def condition_samples(record: Record) -> list[ConditionSample]:
    """Each look at the array. Early versions had them in the judgement."""
    early = [msgspec.convert(event, _EarlyJudgement).samples for event in record.documents_of(Condition)]
    return record.of(ConditionSample) if not early or early[0] is None else early[0]


class _EarlyJudgement(msgspec.Struct):
    samples: list[ConditionSample] | None = None


class _Array(msgspec.Struct):
    """What of an array's sheet is said here."""

    level: str = ""
    members_wanted: int | None = None


def condition_words(record: Record) -> str:
    """`rebuilding, from 12 % to 47 %`; empty where nobody asked for a condition and the array was at rest."""
    name = record.info.condition.replace("_", " ")
    judged, samples = condition_judged(record), condition_samples(record)
    if judged is None and not samples:
        return "" if name == "normal" else name
    if judged is not None and not judged.valid:
        return f"NOT {name}: {words_of(judged.reason)}"
    if name == "normal":
        return ""
    shares = [share for sample in samples if (share := sample.progress_share) is not None]
    course = f", from {shares[0]:.0%} to {shares[-1]:.0%}".replace("%", " %") if shares else " throughout"
    array = msgspec.convert((judged.array if judged else None) or {}, _Array)
    return f"{name}{course}" + (f" ({array.level} of {array.members_wanted})" if array.level else "")


ready(list[ConditionSample], _Array, _EarlyJudgement)
