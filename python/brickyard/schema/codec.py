"""Events and plans from JSON and to it. What does not fit its type is an error of whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from brickyard import _core
from brickyard.ready import ready
from brickyard.schema.duration import Duration, read_duration
from brickyard.schema.generated import (
    End,
    EndAsWritten,
    EndReason,
    Event,
    RunOutcome,
)
from brickyard.schema.older import plan_kind, upgraded
from brickyard.schema.plan import OtherPlan, Plan

SCHEMA = 3
"""The version of the events as they are described here (`record::event::SCHEMA`); a writer puts it into its `Start`."""

Document = dict[str, object]
"""What is written as JSON for people and other programs. Nothing here reads one: its values have no type."""

_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_ENCODER = msgspec.json.Encoder()


def decode(text: str | bytes) -> Event:
    """An event of this version; fields that a later version has added are left out. Raises msgspec.ValidationError."""
    return _DECODER.decode(text)


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and how its writer put it: that is what a store keeps, so that nothing is lost."""

    event: Event
    text: str


def told(text: str) -> Told:
    """An event of a run under way. Raises msgspec.ValidationError."""
    return Told(decode(text), text)


def failed_end(reason: EndReason | str) -> End:
    """The end of a run that could not tell its own; a text is what somebody else said."""
    message = EndAsWritten(text=reason) if isinstance(reason, str) else reason
    return End(end_ns=0, outcome=RunOutcome.FAILED, message=message)


def encode(value: msgspec.Struct) -> str:
    """An event, or a part of one, as it stands in a store."""
    return _ENCODER.encode(value).decode()


def typed(event: Mapping[str, Any]) -> Event:
    """An event out of a store of any version, or of a writer that makes plain documents."""
    found: Event = msgspec.convert(upgraded(event), Event)
    return found


def tag_of(kind: type[msgspec.Struct]) -> str:
    """What the field `event` says of a type."""
    return str(kind.__struct_config__.tag)


def plan_of(document: Mapping[str, Any]) -> Plan | OtherPlan:
    """A plan out of a store of any version. Raises msgspec.ValidationError."""
    if kind := plan_kind(document):
        return msgspec.convert({**document, "kind": kind}, OtherPlan, dec_hook=read_duration)
    return msgspec.convert(document, Plan, dec_hook=read_duration)


def read_plan(text: str) -> Plan:
    """A plan as the core writes it."""
    return _PLAN_DECODER.decode(text)


def plan_text(plan: Plan | OtherPlan) -> str:
    """A plan as the core writes it: equal plans are equal texts. Raises ValueError where the core refuses the plan."""
    text = _PLAN_ENCODER.encode(plan).decode()
    return _core.canonical(text) if isinstance(plan, Plan) else text


def writes_one_at_a_time(plan: Plan) -> bool:
    """Whether each stream issues one request after another, writes among them: through the page cache, the core then
    has psync rather than io_uring. Raises ValueError where the core refuses the plan."""
    return _core.writes_one_at_a_time(_PLAN_ENCODER.encode(plan).decode())


def plan_document(plan: Plan | OtherPlan) -> dict[str, Any]:
    """A plan as a store keeps it."""
    found: dict[str, Any] = msgspec.json.decode(plan_text(plan))
    return found


def plan_values(plan: Plan | OtherPlan) -> dict[str, Any]:
    """Every key of a plan, those that have their default included."""
    found: dict[str, Any] = msgspec.to_builtins(plan, enc_hook=_written)
    return found


def values_of(part: Any) -> dict[str, Any]:
    """Every key of a part of a plan."""
    found: dict[str, Any] = msgspec.to_builtins(part, enc_hook=_written)
    return found


def _written(value: Any) -> str:
    if not isinstance(value, Duration):
        raise NotImplementedError(f"no writing of {type(value)}")
    return str(value)


_PLAN_DECODER: msgspec.json.Decoder[Plan] = msgspec.json.Decoder(Plan, dec_hook=read_duration)
_PLAN_ENCODER = msgspec.json.Encoder(enc_hook=_written)


ready(OtherPlan, End)
