"""Events from JSON and to it. An event that does not fit its type is an error of whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from brickyard.schema.generated import Bound, Event
from brickyard.schema.older import upgraded

SCHEMA = 1
"""The version of the events as they are described here (`record::event::SCHEMA`); a writer puts it into its `Start`."""

_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_ENCODER = msgspec.json.Encoder()


def decode(text: str | bytes) -> Event:
    """An event of this version; fields that a later version has added are left out. Raises msgspec.ValidationError."""
    return _DECODER.decode(text)


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


def bound_of(end: Mapping[str, Any]) -> Bound | None:
    """Why the generator was the limit of a phase, from the document of its end; None where it was not, or an earlier or
    later version gave a reason that is not known here."""
    text = end.get("generator_bound_reason")
    return Bound(text) if end.get("generator_bound") and text in {Bound.OWN, Bound.CPU} else None
