"""Duty: one record out of those that hosts kept for themselves, when the head died before it had them; and the end of
those that the store has.

Refusal: nothing of a host's own record is changed; none is removed that the store lacks, unless that is asked for.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from brickyard import _core
from brickyard.errors import BadInputError, one_line
from brickyard.fleet import cluster
from brickyard.fleet.merging import Merger, merged_start, phases_of
from brickyard.fleet.notes import Note
from brickyard.schema import (
    End,
    Event,
    Fleet,
    FleetEnd,
    HostEnd,
    HostEnded,
    HostLost,
    HostReason,
    HostRecordCut,
    HostRecordMissing,
    HostRecordOpen,
    Interval,
    RunCollected,
    RunFacts,
    RunOutcome,
    Start,
    plan_text,
    read_plan,
    typed,
)
from brickyard.store import Record, Store
from brickyard.store.record import DAMAGED, RUNNING

GOES_ON, IS_WHOLE = "which goes on", "already, with all that was kept"  # of a run, behind its number
BY_ITSELF_NS = 12_000_000_000  # a worker to which nobody speaks stops its load within 10 s, and drains for 2 s


@dataclass(frozen=True)
class KeptRecord:
    """What one host has of a run."""

    note: Note
    events: list[Event]
    place: str = ""
    """HOST:NAME on a host, or a path here."""
    bytes: int = 0

    @property
    def host(self) -> str:
        return self.note.host


def read_kept(lines: Iterable[str], name: str) -> KeptRecord:
    """A record; its last line may be cut, where the host died. Words of the worker are no events."""
    events: list[Event] = []
    note: Note | None = None
    for line in lines:
        try:
            item = json.loads(line)
        except ValueError:
            break
        try:
            if note is None:
                note = msgspec.convert(item, Note)
            elif isinstance(item, dict) and "event" in item:
                events.append(typed(item))
        except msgspec.ValidationError as error:
            raise BadInputError(f"{name}: is no record that a host of a fleet kept: {one_line(error)}") from error
    if note is None or note.host not in {part.host for part in note.parts}:
        raise BadInputError(f"{name}: is no record that a host of a fleet kept")
    return KeptRecord(note, events)


@dataclass(frozen=True)
class RecordsFound:
    """Records, and what lies among them and is none, by name and with the reason."""

    kept: list[KeptRecord] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Of all of them, in bytes."""

    def take(self, lines: Iterable[str], name: str, size: int = 0) -> None:
        self.sizes[name] = size
        try:
            self.kept.append(replace(read_kept(lines, name), place=name, bytes=size))
        except BadInputError as error:
            self.left[name] = str(error).removeprefix(f"{name}: ")


def from_files(places: Iterable[Path]) -> RecordsFound:
    """A file that was named has to be a record; one in a folder that was named need not be."""
    found = RecordsFound()
    for place in places:
        for path in sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]:
            try:
                lines = path.read_text("utf-8", errors="replace").splitlines()
            except OSError as error:
                raise BadInputError(f"{path}: cannot be read: {error.strerror}") from error
            if path == place:
                found.kept.append(replace(read_kept(lines, str(path)), place=str(path), bytes=path.stat().st_size))
            else:
                found.take(lines, str(path), path.stat().st_size)
    return found


def from_hosts(ray: Any, hosts: Iterable[str]) -> RecordsFound:
    """What lies on the hosts of the fleet now."""
    found = RecordsFound()
    for host in hosts:
        agent = cluster.agent_on(ray, host)
        try:
            for name in ray.get(agent.kept.remote()):
                content = b""
                while part := base64.b64decode(ray.get(agent.read.remote(name, len(content)))):
                    content += part
                found.take(content.decode(errors="replace").splitlines(), f"{host}:{name}", len(content))
        except ray.exceptions.RayError as error:
            found.left[host] = f"its records cannot be read: {one_line(error)[:200]}"
        finally:
            ray.kill(agent)
    return found


def by_run(kept: Iterable[KeptRecord]) -> dict[str, list[KeptRecord]]:
    found: dict[str, list[KeptRecord]] = defaultdict(list)
    for item in kept:
        found[item.note.run].append(item)
    return dict(found)


def known(store: Store, run_name: str, kept: Iterable[KeptRecord]) -> str:
    """Why a run is not to be collected: the store has all of it, it goes on, or there is nothing of it; empty where it
    is.

    A run that ended without some hosts is collected if these have kept more than the store has of them, and so is one
    that was collected too early.
    """
    kept = list(kept)
    if not any(isinstance(event, Interval) for item in kept for event in item.events):
        return "no host had begun; nothing was measured"
    for info in store.runs():
        if info.options.get("fleet_run") != run_name or info.outcome == DAMAGED:
            continue
        if info.outcome == RUNNING:
            return f"is run {info.id}, {GOES_ON}"
        collected = info.options.get("collected")
        if isinstance(collected, int) and collected > 1:  # 1: by a version that did not count
            if intervals_of(kept) <= collected:
                return f"is run {info.id} {IS_WHOLE}"
        elif info.ended_unix_ns is not None and not _has_more(store.record(info.id), kept):
            return f"is run {info.id} {IS_WHOLE}"
    return ""


@dataclass(frozen=True)
class Removal:
    """Which records are to go, by place, with the reason; and which stay, with theirs."""

    goes: dict[str, str] = field(default_factory=dict)
    stays: dict[str, str] = field(default_factory=dict)


def to_remove(store: Store, found: RecordsFound, *, uncollected: bool = False) -> Removal:
    """Records of runs that the store has whole. `uncollected`: the others as well, but none of a run that goes on."""
    removal = Removal()
    for name, items in by_run(found.kept).items():
        why = known(store, name, items)
        for item in items:
            if why.endswith(IS_WHOLE):
                removal.goes[item.place] = why
            elif why.endswith(GOES_ON):
                removal.stays[item.place] = why
            else:
                said = why or "not collected"
                (removal.goes if uncollected else removal.stays)[item.place] = said
    for place, why in found.left.items():
        can_go = uncollected and place in found.sizes
        (removal.goes if can_go else removal.stays)[place] = why
    return removal


def remove(ray: Any, found: RecordsFound, removal: Removal) -> Removal:
    """Removes what is to go from its hosts; gives back what has gone, and what stays after all."""
    done = Removal(stays=dict(removal.stays))
    by_host: dict[str, list[str]] = defaultdict(list)
    for place in removal.goes:
        by_host[place.partition(":")[0]].append(place)
    for host, places in by_host.items():
        agent = cluster.agent_on(ray, host)
        try:
            for place in places:
                try:
                    why = str(ray.get(agent.remove.remote(place.partition(":")[2], found.sizes[place])))
                except ray.exceptions.RayError as error:
                    why = f"cannot be removed: {one_line(error)[:200]}"
                if why:
                    done.stays[place] = why
                else:
                    done.goes[place] = removal.goes[place]
        finally:
            ray.kill(agent)
    return done


def _has_more(record: Record, kept: Iterable[KeptRecord]) -> bool:
    """Whether a host kept more intervals than came of it."""
    phases = record.info.plan.phase
    for item in kept:
        mine = {target for part in item.note.parts if part.host == item.host for target in part.whole_targets}
        came = {
            (one.phase, one.start_ns) for one in record.intervals if phases[one.phase].stream[one.stream].target in mine
        }
        has = sum(isinstance(event, Interval) and bool(event.cells) for event in item.events)
        if has > len(came):
            return True
    return False


def intervals_of(kept: Iterable[KeptRecord]) -> int:
    """How many intervals hosts have kept."""
    return sum(isinstance(event, Interval) for item in kept for event in item.events)


def cut_off(kept: list[KeptRecord]) -> list[str]:
    """Hosts whose records end with the run, since nobody was there to end it; none where a host came to its own end."""
    ends = {item.host: event for item in kept for event in item.events if isinstance(event, End)}
    if any(end.outcome is RunOutcome.DONE for end in ends.values()):
        return []
    reach = {
        item.host: max((event.end_ns for event in item.events if isinstance(event, Interval)), default=0)
        for item in kept
    }
    latest_ns = max(reach.values(), default=0)
    return [host for host, at_ns in reach.items() if host not in ends and 0 < at_ns >= latest_ns - BY_ITSELF_NS]


def _last_common(kept: list[KeptRecord], cut: list[str]) -> tuple[int, int] | None:
    """The last interval, by phase and number, that all of these hosts have; None where there is no such limit."""
    last = [
        max(_place(item, event) for event in item.events if isinstance(event, Interval))
        for item in kept
        if item.host in cut
    ]
    return min(last, default=None)


def _place(item: KeptRecord, event: Interval) -> tuple[int, int]:
    (part,) = (part for part in item.note.parts if part.host == item.host)
    return part.phases[event.phase], event.index


def merge(store: Store, run_name: str, kept: list[KeptRecord]) -> int:
    """Adds a run out of what its hosts kept; gives back its number."""
    note = kept[0].note
    plan = read_plan(json.dumps(note.plan))
    parts = note.parts
    starts = {item.host: event for item in kept for event in item.events if isinstance(event, Start)}
    if not starts:
        raise BadInputError(f"{run_name}: no host had begun; nothing was measured")
    number = store.add_run(
        profile=run_name.rpartition("-")[0],
        profile_hash=hashlib.sha256(plan_text(plan).encode()).hexdigest(),
        plan=plan,
        condition="normal",
        targets=note.targets,
        options={
            "hosts": [part.host for part in parts],
            "share": note.share,
            "fleet_run": run_name,
            "collected": intervals_of(kept),
        },
        software_version=_core.version(),
        facts=RunFacts(),
    )
    merger, cut = Merger(parts), cut_off(kept)
    last = _last_common(kept, cut)
    store.add_events(number, [merged_start(parts, starts, phases_of(plan))])
    told_to_all = (event for item in kept for event in item.events if isinstance(event, Fleet))
    events: list[Event] = list(islice(told_to_all, 1))
    for item in kept:
        for event in item.events:
            if not isinstance(event, Fleet) and not (
                last and isinstance(event, Interval) and _place(item, event) > last
            ):
                events += merger.hear(item.host, event, 0.0)
    events += merger.whole(0.0, all_of_it=True)
    present = {item.host for item in kept}
    for part in parts:
        end = merger.ends.get(part.host)
        why: HostReason = HostRecordOpen() if part.host in present else HostRecordMissing()
        outcome = end.outcome if end else RunOutcome.FAILED
        if part.host in cut:
            why, outcome = HostRecordCut(), RunOutcome.INTERRUPTED
        elif end is None:  # its rate is over the time that it delivered, and in no sum
            streams = list(dict.fromkeys(stream for phase in part.names for stream in phase))
            events.append(HostLost(host=part.host, at_ns=merger.last_ns, reason=why, streams=streams))
        events.append(HostEnd(host=part.host, outcome=outcome, message=_said(end) if end else why, kept=""))
    store.add_events(number, events)
    missing = [part.host for part in parts if part.host not in merger.ends and part.host not in cut]
    stopped = [host for host, end in merger.ends.items() if end.outcome is not RunOutcome.DONE]
    outcome = RunOutcome.FAILED if missing else (RunOutcome.INTERRUPTED if stopped or cut else RunOutcome.DONE)
    found = FleetEnd(found=len(present), hosts=len(parts), without_end=missing, cut=cut, stopped=stopped)
    store.end_run(number, End(end_ns=merger.last_ns, outcome=outcome, message=RunCollected(found=found)), None, [])
    return number


def _said(end: End) -> HostReason | None:
    """What the end of a host's own load says."""
    return HostEnded(reason=end.message) if end.message is not None else None
