"""What a record holds beside plan and events: the facts of host and targets, what was watched, and the warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from brickyard.ready import ready
from brickyard.schema.host_sheet import HostSheet
from brickyard.schema.sheets import stored
from brickyard.schema.target_sheet import StorePlace, TargetSheet
from brickyard.schema.watch_sheet import WatchSheet


class ProcessMark(msgspec.Struct, kw_only=True):
    """The process that a run belongs to. Numbers are used again, so its start and the boot are part of it."""

    pid: int
    start_ticks: int | None = None
    """Of the clock, since the boot."""
    boot_id: str | None = None


class HostKnown(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One host of a run on many, and its targets in their order, before the run."""

    host: str
    sheet: HostSheet | None = None
    targets: list[TargetSheet] = msgspec.field(default_factory=list)
    records: StorePlace | None = None
    """Where its worker keeps a record."""
    why: str = ""
    """Why nothing is known of it."""


class HostWatched(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What happened beside the load on one host of many, on each of its targets."""

    host: str
    targets: list[WatchSheet] = msgspec.field(default_factory=list)
    why: str = ""
    """Why it was not watched to the end."""


class RunFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The circumstances of a run when it began. Imported runs and modelled ones know few of them or none."""

    host: HostSheet | None = None
    targets: list[TargetSheet] = msgspec.field(default_factory=list)
    """In the order of the run's targets; none where nobody looked."""
    process: ProcessMark | None = None
    hosts: list[HostKnown] = msgspec.field(default_factory=list)
    """Of a run on many hosts; `host` is then the one that started them."""


class RunWatch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What happened beside a run on each target; none where it ended before it began."""

    targets: list[WatchSheet | None] = msgspec.field(default_factory=list)
    hosts: list[HostWatched] = msgspec.field(default_factory=list)
    """Of a run on many hosts."""


def facts_of(document: Mapping[str, Any]) -> RunFacts:
    """Out of a store of any version. Raises msgspec.ValidationError."""
    return msgspec.convert(document, RunFacts)


def watch_of(document: Mapping[str, Any]) -> RunWatch:
    """Out of a store of any version. Raises msgspec.ValidationError."""
    return msgspec.convert(document, RunWatch)


def facts_document(facts: RunFacts) -> dict[str, Any]:
    """As a store keeps it."""
    process = {"process": stored(facts.process)} if facts.process else {}
    hosts = {"hosts": stored(facts.hosts)} if facts.hosts else {}
    return {"host": stored(facts.host or {}), "targets": stored(facts.targets), **process, **hosts}


def watch_document(watch: RunWatch) -> dict[str, Any]:
    """As a store keeps it."""
    hosts = {"hosts": stored(watch.hosts)} if watch.hosts else {}
    return {"targets": stored(watch.targets), **hosts}


ready(RunFacts, RunWatch, HostKnown, HostWatched)
