"""Duty: one record out of those that hosts kept for themselves, when the head died before it had them.

Refusal: nothing of a host's own record is changed or removed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.fleet import cluster
from brickyard.fleet.merging import Merger, merged_start
from brickyard.fleet.shares import part_of
from brickyard.schema import RunFacts, plan_text, read_plan
from brickyard.store import Json, Store

OWN = "brickyard_record"


@dataclass(frozen=True)
class KeptRecord:
    """What one host has of a run."""

    note: Json
    events: list[Json]

    @property
    def host(self) -> str:
        return str(self.note["host"])


def read_kept(lines: Iterable[str], name: str) -> KeptRecord:
    """A record; its last line may be cut, where the host died."""
    events: list[Json] = []
    note: Json | None = None
    for line in lines:
        try:
            item = json.loads(line)
        except ValueError:
            break
        if note is None:
            if not isinstance(item, dict) or item.get(OWN) != 1:
                raise BadInputError(f"{name}: is no record that a host of a fleet kept")
            note = item
        else:
            events.append(item)
    if note is None:
        raise BadInputError(f"{name}: is no record that a host of a fleet kept")
    return KeptRecord(note, events)


def from_files(places: Iterable[Path]) -> list[KeptRecord]:
    found = []
    for place in places:
        for path in sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]:
            try:
                found.append(read_kept(path.read_text("utf-8", errors="replace").splitlines(), str(path)))
            except OSError as error:
                raise BadInputError(f"{path}: cannot be read: {error.strerror}") from error
    return found


def from_hosts(ray: Any, hosts: Iterable[str]) -> list[KeptRecord]:
    """What lies on the hosts of the fleet now."""
    found = []
    for host in hosts:
        agent = cluster.agent_on(ray, host)
        try:
            for name in ray.get(agent.kept.remote()):
                content = b""
                while part := base64.b64decode(ray.get(agent.read.remote(name, len(content)))):
                    content += part
                found.append(read_kept(content.decode(errors="replace").splitlines(), f"{host}:{name}"))
        finally:
            ray.kill(agent)
    return found


def by_run(kept: Iterable[KeptRecord]) -> dict[str, list[KeptRecord]]:
    found: dict[str, list[KeptRecord]] = defaultdict(list)
    for item in kept:
        found[str(item.note["run"])].append(item)
    return dict(found)


def collected(store: Store) -> set[str]:
    """Runs that are in the store already, whole or not."""
    return {
        str(info.options["fleet_run"])
        for info in store.runs()
        if "fleet_run" in info.options and "collected" in info.options
    }


def _kind(event: Mapping[str, object]) -> str:
    """Empty for words that are no event."""
    return str(event.get("event", ""))


def merge(store: Store, run_name: str, kept: list[KeptRecord]) -> int:
    """Adds a run out of what its hosts kept; gives back its number."""
    note = kept[0].note
    plan = read_plan(json.dumps(note["plan"]))
    parts = [part_of(document) for document in note["parts"]]
    starts = {item.host: event for item in kept for event in item.events if _kind(event) == "start"}
    if not starts:
        raise BadInputError(f"{run_name}: no host had begun; nothing was measured")
    number = store.add_run(
        profile=run_name.rpartition("-")[0],
        profile_hash=hashlib.sha256(plan_text(plan).encode()).hexdigest(),
        plan=plan,
        condition="normal",
        targets=note["targets"],
        options={"hosts": [part.host for part in parts], "share": note["share"], "fleet_run": run_name, "collected": 1},
        software_version=_core.version(),
        facts=RunFacts(),
    )
    merger = Merger(parts)
    phases = [
        {
            "name": phase.name,
            "streams": [
                {"name": s.name, "target": s.target, "workers": s.workers, "depth": s.depth, "verify": s.verify}
                for s in phase.stream
            ],
        }
        for phase in plan.phase
    ]
    store.add_events(number, [merged_start(parts, starts, phases)])
    told_to_all = (event for item in kept for event in item.events if _kind(event) == "fleet")
    events: list[Json] = [event for event in [next(told_to_all, None)] if event is not None]
    for item in kept:
        for event in item.events:
            if _kind(event) not in ("", "fleet"):
                events += merger.hear(item.host, event, 0.0)
    events += merger.whole(0.0, all_of_it=True)
    present = {item.host for item in kept}
    for part in parts:
        end = merger.ends.get(part.host)
        reason = "" if end else ("its record has no end" if part.host in present else "no record of it was found")
        events.append(
            {
                "event": "host_end",
                "host": part.host,
                "outcome": end["outcome"] if end else "failed",
                "message": end["message"] if end else reason,
                "kept": "",
            }
        )
    store.add_events(number, events)
    missing = [part.host for part in parts if part.host not in merger.ends]
    stopped = [host for host, end in merger.ends.items() if end["outcome"] != "done"]
    outcome = "failed" if missing else ("interrupted" if stopped else "done")
    message = f"collected from {len(present)} of {len(parts)} hosts"
    message += f"; no end of {', '.join(missing)}" if missing else ""
    message += f"; stopped early: {', '.join(stopped)}" if stopped else ""
    store.end_run(number, {"event": "end", "end_ns": merger.last_ns, "outcome": outcome, "message": message}, None, [])
    return number
