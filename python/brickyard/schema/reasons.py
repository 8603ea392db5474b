"""Why a run's requests reached its targets as they did, in words. Each reason's words are in crates/record, beside its
type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from brickyard import _core
from brickyard.schema.generated import Start


@dataclass(frozen=True, slots=True)
class StartReasons:
    """Of the engine, of buffered I/O, and of how many requests one call submits; empty where there is none."""

    engine: str
    io: str
    submit: str


def reasons_of(start: Start) -> StartReasons:
    typed = {"engine": start.engine_reason, "io": start.io_reason, "submit": start.submit_reason}
    return StartReasons(*_core.reasons_in_words(msgspec.json.encode(typed).decode()))


def start_document(kept: Mapping[str, Any], start: Start | None) -> dict[str, object]:
    """A start as its writer put it, for people and other programs: they read its reasons as words."""
    if start is None:
        return dict(kept)
    said = reasons_of(start)
    submit = {"submit_reason": said.submit} if start.submit_reason else {}
    return {**kept, "engine_reason": said.engine, "io_reason": said.io, **submit}
