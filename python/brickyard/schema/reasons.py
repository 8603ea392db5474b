"""Why things are as events report them, in words. Each reason's words are in crates/record, beside its type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from brickyard import _core
from brickyard.schema.generated import (
    AllWritten,
    BufferedReason,
    ConditionReason,
    EndAsWritten,
    EndReason,
    EngineReason,
    HostReason,
    Start,
    StartLate,
    StartNote,
    SubmitReason,
    TargetFacts,
    Unwritten,
    UnwrittenBytes,
)

Reason = EngineReason | BufferedReason | SubmitReason | StartNote | StartLate | ConditionReason | HostReason | EndReason

_KINDS = {
    "engine": EngineReason,
    "buffered": BufferedReason,
    "submit": SubmitReason,
    "note": StartNote,
    "condition": ConditionReason,
    "host": HostReason,
    "end": EndReason,
}
_KIND_OF = {StartLate: "late"} | {kind: name for name, union in _KINDS.items() for kind in get_args(union)}
_WORDED = {
    "host_lost": {"reason": "host"},
    "host_end": {"message": "host"},
    "condition": {"reason": "condition"},
}
"""The fields of events that are reasons, and of which kind."""


@dataclass(frozen=True, slots=True)
class StartReasons:
    """Of the engine, of buffered I/O, and of how many requests one call submits; empty where there is none."""

    engine: str
    io: str
    submit: str


def words_of(reason: Reason | None) -> str:
    """Empty where there is none."""
    if reason is None:
        return ""
    return _core.reason_in_words(_KIND_OF[type(reason)], msgspec.json.encode(reason).decode())


def other_end(text: str) -> EndAsWritten | None:
    """The end of a run in the words of who refused or failed; None where there are none."""
    return EndAsWritten(text=text) if text else None


def reasons_of(start: Start) -> StartReasons:
    return StartReasons(words_of(start.engine_reason), words_of(start.io_reason), words_of(start.submit_reason))


def unwritten_document(unwritten: Unwritten | None) -> str:
    """`none`, `unknown`, or how many bytes were never written; empty where nobody can say."""
    match unwritten:
        case None:
            return ""
        case UnwrittenBytes():
            return str(unwritten.bytes)
        case AllWritten():
            return "none"
        case _:
            return "unknown"


def start_document(kept: Mapping[str, Any], start: Start | None) -> dict[str, object]:
    """A start as its writer put it, for people and other programs: they read its reasons as words."""
    if start is None:
        return dict(kept)
    said = reasons_of(start)
    found: dict[str, object] = {**kept, "engine_reason": said.engine, "io_reason": said.io}
    if start.submit_reason:
        found["submit_reason"] = said.submit
    if start.notes:
        found["notes"] = [words_of(note) for note in start.notes]
    match kept:
        case {"targets": targets}:
            found["targets"] = [_target_document(*pair) for pair in zip(targets, start.targets, strict=True)]
    return found


def _target_document(kept: Mapping[str, Any], opened: TargetFacts) -> Mapping[str, Any]:
    return {**kept, "unwritten": unwritten_document(opened.unwritten)} if "unwritten" in kept else kept


def event_document(kept: Mapping[str, Any]) -> dict[str, object]:
    """An event as its writer put it, for people and other programs: they read its reasons as words."""
    match kept:
        case {"event": str(tag)} if tag in _WORDED:
            return {**kept, **{key: _in_words(kind, kept.get(key)) for key, kind in _WORDED[tag].items()}}
    return dict(kept)


def _in_words(kind: str, value: Any) -> str:
    """A reason as a store has it; until version 3 they had its words."""
    if value is None or isinstance(value, str):
        return value or ""
    return _core.reason_in_words(kind, json.dumps(value))
