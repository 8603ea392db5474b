"""Duty: the events of many hosts as those of one run. Numbers of phases, streams and targets become those of the whole;
intervals with the same boundaries become one; times are moved to one clock.

Histograms of hosts stay apart here, each in its own stream's cell. Whoever reads several streams merges them.

Refusal: no clock is read, nothing is sent, and no event of a host is dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from brickyard.fleet.shares import HostPart
from brickyard.store import Json

PATIENCE_S = 1.5  # an interval is told so long after the first host told it; what comes later is one of its own
SLOWEST = 16  # the slowest requests of a phase, as many as one host names
TIMES = ("at_ns", "due_ns", "from_ns", "start_ns", "end_ns")

Key = tuple[int, int, bool]


class Merger:
    """Takes what hosts say, gives what the run says."""

    def __init__(self, parts: Iterable[HostPart]) -> None:
        self._parts = {part.host: part for part in parts}
        self._moved: dict[str, int] = dict.fromkeys(self._parts, 0)
        self._has_phase: dict[int, int] = {}
        self._waiting: dict[Key, dict[str, Json]] = defaultdict(dict)
        self._since: dict[Key, float] = {}
        self._told_up_to: dict[tuple[str, int], int] = {}
        self._told_below: dict[int, int] = defaultdict(int)
        self._phase_ends: dict[int, dict[str, Json]] = defaultdict(dict)
        self._ended_phases: set[int] = set()
        self._gone: set[str] = set()
        self.ends: dict[str, Json] = {}
        self.last_ns = 0

    def hear(self, host: str, event: Json, now_s: float) -> list[Json]:
        """What follows at once from an event of a host."""
        part, kind = self._parts[host], event["event"]
        if kind == "end":
            self.ends[host] = event
            return []
        if kind == "start":
            return []
        own_phase = int(event.get("phase") or 0)
        event = self._mapped(part, event)
        if kind == "phase":
            return self._phase(host, event)
        self._move(event, self._moved[host])
        if kind == "interval":
            key = (event["phase"], event["index"], event["drain"])
            self._waiting[key][host] = event
            self._since.setdefault(key, now_s)
            self._told_up_to[(host, event["phase"])] = event["index"]
            return []
        if kind == "phase_end":
            for item in event.get("slowest", []):
                item["stream"] = part.streams[own_phase][item["stream"]]
                item["at_ns"] += self._moved[host]
            for item in event.get("frames", []):
                item["stream"] = part.streams[own_phase][item["stream"]]
            self._phase_ends[event["phase"]][host] = event
            return []
        return [event]

    def _mapped(self, part: HostPart, event: Json) -> Json:
        event = dict(event)
        own = event.get("phase")
        if own is not None:
            event["phase"] = part.phases[own]
            if isinstance(event.get("stream"), int):
                event["stream"] = part.streams[own][event["stream"]]
            if "cells" in event:
                event["cells"] = [{**cell, "stream": part.streams[own][cell["stream"]]} for cell in event["cells"]]
        if isinstance(event.get("target"), int):
            event["target"] = part.whole_targets[event["target"]]
        return event

    @staticmethod
    def _move(event: Json, by_ns: int) -> None:
        for name in TIMES:
            if isinstance(event.get(name), int):
                event[name] += by_ns

    def _phase(self, host: str, event: Json) -> list[Json]:
        """All hosts begin a phase at one instant; on the run's clock that is where the first that tells it has it."""
        phase, start_ns = event["phase"], event["start_ns"]
        if phase in self._has_phase:
            self._moved[host] = self._has_phase[phase] - start_ns
            return []
        at_ns = max(start_ns + self._moved[host], self.last_ns)
        self._has_phase[phase] = at_ns
        self._moved[host] = at_ns - start_ns
        return [{**event, "start_ns": at_ns}]

    def gone(self, host: str) -> None:
        """Nobody waits for this host any more."""
        self._gone.add(host)

    def back(self, host: str) -> None:
        self._gone.discard(host)

    def whole(self, now_s: float, *, all_of_it: bool = False) -> list[Json]:
        """Intervals that all hosts have told, or for which the others were waited for long enough; ends of phases."""
        found: list[Json] = []
        for key in sorted(self._waiting):
            phase, index, _ = key
            waits = not all_of_it and index >= self._told_below[phase] and now_s - self._since[key] < PATIENCE_S
            if waits and any(self._owes(host, phase, index) for host in self._parts):
                break
            self._told_below[phase] = max(self._told_below[phase], index + 1)
            self._since.pop(key)
            found.append(self._interval(list(self._waiting.pop(key).values())))
        for phase in sorted(set(self._phase_ends) - self._ended_phases):
            waiting = [host for host, part in self._parts.items() if phase in part.phases and self._is_due(host)]
            told = self._phase_ends[phase]
            if all_of_it or all(host in told for host in waiting):
                if any(key[0] == phase for key in self._waiting):
                    continue
                self._ended_phases.add(phase)
                ended = merged_end(list(told.values()))
                self.last_ns = max(self.last_ns, ended["end_ns"])
                found.append(ended)
        return found

    def has_ended(self, phase: int) -> bool:
        return phase in self._ended_phases

    def _is_due(self, host: str) -> bool:
        return host not in self._gone and host not in self.ends

    def _owes(self, host: str, phase: int, index: int) -> bool:
        """Whether a host is still to tell an interval."""
        if phase not in self._parts[host].phases or not self._is_due(host) or host in self._phase_ends[phase]:
            return False
        return self._told_up_to.get((host, phase), -1) < index

    def _interval(self, told: list[Json]) -> Json:
        merged = {
            **told[0],
            "start_ns": min(item["start_ns"] for item in told),
            "end_ns": max(item["end_ns"] for item in told),
            "cells": sorted((cell for item in told for cell in item["cells"]), key=lambda cell: int(cell["stream"])),
            "cpu": summed(item["cpu"] for item in told),
            "loop_busy_share": max(item["loop_busy_share"] for item in told),
        }
        self.last_ns = max(self.last_ns, merged["end_ns"])
        return merged


def merged_end(ends: list[Json]) -> Json:
    """The ends of a phase on all hosts as one."""
    bound = [end for end in ends if end["generator_bound"]]
    odd = [end for end in ends if end["reason"] != "duration"]
    verified = [end["verified"] for end in ends if end.get("verified")]
    slowest = sorted((item for end in ends for item in end["slowest"]), key=lambda item: -int(item["response_ns"]))
    return {
        **(odd or ends)[0],
        "end_ns": max(end["end_ns"] for end in ends),
        "unsent": sum(end["unsent"] for end in ends),
        "outstanding": sum(end["outstanding"] for end in ends),
        "errors_by_errno": summed(end["errors_by_errno"] for end in ends),
        "errors_by_kind": summed(end["errors_by_kind"] for end in ends),
        "slowest": slowest[:SLOWEST],
        "verified": summed(verified) if verified else None,
        "cpu": summed(end["cpu"] for end in ends),
        "generator_bound": bool(bound),
        "generator_bound_reason": (bound or ends)[0]["generator_bound_reason"],
        "loops": sum(end["loops"] for end in ends),
        "loop_busy_share": max(end["loop_busy_share"] for end in ends),
        "frames": [item for end in ends for item in end.get("frames", [])],
        "depth": None,
    }


def merged_start(parts: list[HostPart], starts: dict[str, Json], phases: list[Json]) -> Json:
    """What all hosts said at their beginning; where they are not alike, a note says so."""
    told = [starts[part.host] for part in parts if part.host in starts]
    merged = {
        **told[0],
        "start_unix_ns": min(start["start_unix_ns"] for start in told),
        "targets": [
            {**target, "path": f"{part.host}:{target['path']}"}
            for part in parts
            if part.host in starts
            for target in starts[part.host]["targets"]
        ],
        "phases": phases,
        "notes": [note for start in told for note in start.get("notes", [])],
    }
    for key in ("engine", "io"):
        by_value: dict[str, list[str]] = defaultdict(list)
        for host, start in starts.items():
            by_value[start[key]].append(host)
        if len(by_value) > 1:
            said = "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in by_value.items())
            merged["notes"].append(f"{key} is not the same on all hosts: {said}")
    return merged


def summed(counts: Iterable[Any]) -> Json:
    total: Counter[str] = Counter()
    for item in counts:
        total.update(item)
    return dict(sorted(total.items()))
