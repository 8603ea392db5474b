"""What tests of a run on many hosts share: a host's events, and runs that hosts made."""

from __future__ import annotations

from brickyard import profiles
from brickyard.fleet.merging import Merger, merged_start
from brickyard.fleet.shares import divide
from brickyard.schema import (
    End,
    EndAsWritten,
    Event,
    HostAsWritten,
    HostEnd,
    HostLost,
    LoadShare,
    PhaseStart,
    RunFacts,
    RunOutcome,
    Start,
    typed,
)
from brickyard.schema.plan import Plan
from brickyard.store import Json, Store
from support import MS, SECOND, cell, interval, start_event

HOSTS = ["a", "b", "c"]


def load(*changes: str, pace: str = "") -> Plan:
    text = f"""
title = "fleet"
[[phase]]
duration = "1s"
[[phase.stream]]
request = "4KiB"
address = "random"
{pace}
"""
    return profiles.validate(profiles.ProfileText("fleet", text, "fleet"), list(changes))


def of_host(values: list[int], index: int) -> Event:
    start = index * SECOND
    return typed(interval(start, start + SECOND, cell(values), index=index))


def told_to_all() -> Json:
    hosts = [
        {
            "host": host, "targets": [at], "seed": 1, "offset_ns": 0, "bound_ns": 0, "round_trip_ns": 0,
            "synchronized": True, "max_error_ns": 0, "core_free": True, "facts": {},
        }
        for at, host in enumerate("ab")
    ]  # fmt: skip
    told = {"event": "fleet", "share": "copies", "bound_ns": 0, "tolerance_ns": MS, "within_tolerance": True}
    return {**told, "hosts": hosts}


def two_hosts(store: Store, *more: Event) -> int:
    """Twelve intervals of 1 s, of which b told three before it was lost; each of 100 requests."""
    division = divide("x", load(), ["a", "b"], ["/f"], LoadShare.COPIES)
    merger = Merger(division.parts)
    number = store.add_run(
        profile="x",
        profile_hash="",
        plan=division.plan,
        condition="normal",
        targets=division.targets,
        options={"hosts": ["a", "b"], "share": "copies", "fleet_run": "x-1"},
        software_version="",
        facts=RunFacts(),
    )
    started = typed(start_event())
    assert isinstance(started, Start)
    events: list[Event] = [
        merged_start(division.parts, {"a": started, "b": started}, []),
        typed(told_to_all()),
    ]
    for host in "ab":
        events += merger.hear(host, PhaseStart(phase=0, name="m", start_ns=0), 0.0)
    for index in range(12):
        merger.hear("a", of_host([MS] * 100, index), 0.0)
        if index < 3:
            merger.hear("b", of_host([MS] * 100, index), 0.0)
        if index == 3:
            merger.gone("b")
        events += merger.whole(0.0)
    events.append(HostLost(host="b", at_ns=3 * SECOND, reason=HostAsWritten(text="killed"), streams=["b"]))
    events += [
        HostEnd(host=host, outcome=outcome, kept="")
        for host, outcome in (("a", RunOutcome.DONE), ("b", RunOutcome.FAILED))
    ]
    store.add_events(number, [*events, *more])
    store.end_run(number, End(end_ns=12 * SECOND, outcome=RunOutcome.FAILED, message=EndAsWritten(text="b")), None, [])
    return number
