"""Duty: the first line of a record that a host keeps. Refusal: nothing of a run is in it but what was asked."""

from __future__ import annotations

from typing import Literal

import msgspec

from brickyard.fleet.shares import HostPart
from brickyard.schema import Document


class Note(msgspec.Struct, frozen=True):
    """The run, and the host that kept it."""

    brickyard_record: Literal[1]
    run: str
    plan: Document
    targets: list[str]
    parts: list[HostPart]
    host: str
    share: str
