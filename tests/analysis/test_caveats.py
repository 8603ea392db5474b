"""Warnings: each is raised by its cause with the figure in it, and not by a record just short of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import support
from brickyard import schema
from brickyard.analysis.figures.sending import Sent
from brickyard.analysis.judging import caveats
from brickyard.analysis.judging.judged import IntervalSums, Judged
from brickyard.schema.plan import (
    EngineChoice,
    IoMode,
    Operations,
    OtherKind,
    OtherPlan,
    Phase,
    Plan,
    RandomAddress,
    Stream,
)

GIB = 1 << 30
SECOND = 10**9


PART = {
    "device_bytes": 1100,
    "device_requests": 1,
    "ours_bytes": 1000,
    "ours_requests": 1,
    "copies": 1,
    "foreign_bytes": 100,
    "seen": False,
}


def intervals(counts: list[int], phase: int = 0, **fields: Any) -> list[dict[str, Any]]:
    return [
        {
            "event": "interval",
            "phase": phase,
            "index": index,
            "start_ns": index * SECOND,
            "end_ns": (index + 1) * SECOND,
            "warmup": False,
            "knob": None,
            "cells": [{"stream": 0, "operation": "read", "requests": count, "bytes": count * 4096, "errors": 0}],
            **fields,
        }
        for index, count in enumerate(counts)
    ]


def sound() -> dict[str, Any]:
    """A record that deserves no warning at all."""
    drive = {
        "name": "nvme0n1",
        "major_minor": "259:0",
        "type": "disk",
        "transport": "nvme",
        "virtual": False,
        "queue": {"write_cache": "write through"},
        "below": [],
    }
    target = {
        "path": "/data/scratch",
        "kind": "file",
        "size_bytes": 64 * GIB,
        "cache_bytes": GIB,
        "stack": [drive],
        "leaf_devices": ["259:0"],
        "hole_bytes": 0,
        "unwritten_bytes": 0,
        "unknown": {},
    }
    frequency = {"governors": {"performance": 8}}
    shares = {"busy_share": 0.2, "steal_share": 0.009, "worst_steal_share": 0.01}
    return {
        "facts": {"host": {"memory": {"total_bytes": 32 * GIB}, "frequency": frequency}, "target": target},
        "watch": {
            "cpu": shares,
            "throttle": {"cpu_events": 0, "cgroup_events": 0},
            "arrays": {"start": {}, "end": {}},
            "temperature": {"end": {"nvme0n1": {"celsius": 69.0, "max_celsius": 70.0}}},
            "foreign": {"known": True, "seen": False, "devices": ["nvme0n1"], "read": PART, "write": PART},
        },
        "start": {
            "engine": "io_uring",
            "engine_reason": {"kind": "offered"},
            "io": "direct",
            "phases": [{"name": "measure", "streams": []}],
            "targets": [
                {
                    "path": "/data/scratch",
                    "kind": "file",
                    "size_bytes": 64 * GIB,
                    "data_bytes": 64 * GIB,
                    "unwritten": {"kind": "none"},
                }
            ],
        },
        "intervals": intervals([1000, 1010, 990, 1000, 1005]),
        "phase_ends": [
            {
                "phase": 0,
                "unsent": 0,
                "outstanding": 0,
                "errors_by_errno": {},
                "errors_by_kind": {},
                "generator_bound": False,
            }
        ],
        "hangs": [],
        "plan": {"io": "direct", "engine": "auto"},
        "store": {"path": "/var/lib/store", "devices": ["8:0"]},
        "release_build": True,
    }


def judged(record: dict[str, Any]) -> Judged:
    """The types of a record that names only what a warning looks at."""
    cells = [(interval, cell) for interval in record["intervals"] for cell in interval["cells"]]
    whole = [(interval, cell) for interval, cell in cells if cell["operation"] not in schema.CHAINS]
    kind, targets, watches = record["plan"].pop("kind", None), record["facts"]["target"], record["watch"]
    hang = {"at_ns": 0, "offset_bytes": 0, "operation": "read", "phase": 0, "request_bytes": 4096}
    return Judged(
        host=msgspec.convert(record["facts"]["host"], schema.HostSheet),
        targets=msgspec.convert(targets if isinstance(targets, list) else [targets], list[schema.TargetSheet]),
        watches=msgspec.convert(watches if isinstance(watches, list) else [watches], list[schema.WatchSheet]),
        start=msgspec.convert({**support.start_event(), **record["start"]}, schema.Start),
        intervals=[
            IntervalSums(
                interval["phase"], interval["end_ns"], cell["requests"], cell["errors"], not interval.get("warmup")
            )
            for interval, cell in whole
        ],
        sent={
            end["phase"]: Sent(
                sum(cell["requests"] for _, cell in whole), end["unsent"], "calls" if kind else "requests"
            )
            for end in record["phase_ends"]
        },
        phase_ends=[msgspec.convert({**support.phase_end(), **end}, schema.PhaseEnd) for end in record["phase_ends"]],
        hangs=[msgspec.convert({**hang, "event": "hang", **told}, schema.HangEvent) for told in record["hangs"]],
        write_bytes=sum(cell["bytes"] for _, cell in cells if cell["operation"] == "write"),
        plan=OtherPlan(kind=OtherKind(kind))
        if kind
        else Plan(io=IoMode(record["plan"]["io"]), engine=EngineChoice(record["plan"]["engine"])),
        store=msgspec.convert(record["store"], schema.StorePlace),
        is_release_build=record["release_build"],
    )


def put(record: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    here: Any = record
    for key in parents:
        here = here[int(key)] if isinstance(here, list) else here[key]
    here[int(last) if isinstance(here, list) else last] = value


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    record = sound()
    for path, value in changes.items():
        put(record, path, value)
    return record


def test_a_sound_record_has_no_warning() -> None:
    assert caveats.warnings(judged(sound())) == []


def test_an_empty_record_has_no_warning() -> None:
    assert caveats.warnings(Judged()) == []


def test_streams_that_go_through_the_same_blocks_in_order_are_told() -> None:
    def found(*streams: Stream) -> list[str]:
        return [one.text for one in caveats.warnings(Judged(plan=Plan(phase=[Phase(name="a", stream=list(streams))])))]

    clone = Stream(region="0B..1GiB")
    (text,) = found(clone, clone, clone)
    assert text.startswith("In phase a, 3 streams read the same blocks in order")
    writes = Operations(read=0.0, write=100.0, flush=0.0, trim=0.0)
    changes: list[dict[str, Any]] = [{"region": "1GiB..2GiB"}, {"target": 1}, {"address": RandomAddress()}]
    for change in changes:
        assert found(clone, msgspec.structs.replace(clone, **change)) == []
    wrote = msgspec.structs.replace(clone, operations=writes)
    assert len(found(wrote, wrote)) == 1, "caches join writes of the same blocks"


CASES: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "volatile_write_cache",
        "warning",
        {"facts.target.stack.0.queue.write_cache": "write back", "intervals.0.cells.0.operation": "write"},
        "nvme0n1 is volatile",
    ),
    ("volatile_write_cache", "note", {"facts.target.stack.0.queue.write_cache": "write back"}, "1 of 1 drives"),
    (
        "array_syncing",
        "warning",
        {"watch.arrays.end": {"md0": {"under_way": "resync", "degraded": 0, "done_share": 0.5}}},
        "resync during the run, 50.0%",
    ),
    ("array_degraded", "warning", {"watch.arrays.start": {"md0": {"under_way": None, "degraded": 2}}}, "2 members"),
    (
        "array_degraded",
        "warning",
        {"facts.target.mount": {"mount_point": "/b", "btrfs": {"missing_members": 1}}},
        "/b is degraded: 1",
    ),
    (
        "smaller_than_memory",
        "warning",
        {
            "start.io": "buffered",
            "plan.io": "buffered",
            "start.targets.0.data_bytes": 31 * GIB,
            "facts.target.cache_bytes": GIB,
        },
        "31.0 GiB and the host 32.0 GiB",
    ),
    ("smaller_than_cache", "warning", {"facts.target.cache_bytes": 16 * GIB + 1}, "4.0 times the 16.0 GiB"),
    ("cache_unknown", "note", {"facts.target.cache_bytes": None}, "64.0 GiB"),
    ("generator_bound", "warning", {"phase_ends.0.generator_bound": True, "phase_ends.0.loop_busy_share": 0.97}, "97%"),
    (
        "generator_bound",
        "warning",
        {
            "phase_ends.0.generator_bound": True,
            "phase_ends.0.loop_busy_share": 0.97,
            "phase_ends.0.loop_cpu_share": 0.61,
        },
        "its own work took 61% of its loops' time",
    ),
    ("cpu_waited", "warning", {"phase_ends.0.cpu_wait_share": 0.59}, "waited for a CPU 59% of the time; requests"),
    (
        "cpu_waited",
        "warning",
        {"phase_ends.0.cpu_wait_share": 0.18, "phase_ends.0.depth": {"in_flight": 8.0, "at_once": 4.0}},
        "waited for a CPU 18% of the time; requests",
    ),
    (
        "depth_not_reached",
        "warning",
        {"phase_ends.0.cpu_wait_share": 0.05, "phase_ends.0.depth": {"in_flight": 8.0, "at_once": 1.0}},
        "the storage had 1.0 requests at a time, not 8.0",
    ),
    (
        "depth_not_reached",
        "warning",
        {"phase_ends.0.cpu_wait_share": 0.02, "phase_ends.0.depth": {"in_flight": 8.0, "at_once": 4.0}},
        "the storage had 4.0 requests at a time, not 8.0",
    ),
    (
        "cpu_waited",
        "warning",
        {
            "phase_ends.0.cpu_wait_share": 0.59,
            "start.engine": "io_uring",
            "watch.cpu": {"busy_share": 0.95, "each": {"cpu0": {}, "cpu1": {}}},
            "watch.process": {"user_ns": 5 * 10**9, "system_ns": 2 * 10**9},
            "watch.duration_ns": 10 * 10**9,
        },
        "59% of the time: something else used the CPUs (the CPUs were 95% busy; other processes took 60%)",
    ),
    (
        "generator_bound",
        "warning",
        {"phase_ends.0.generator_bound": True, "phase_ends.0.generator_bound_reason": "cpu"},
        "including the kernel's work for the storage",
    ),
    *(
        (
            "generator_bound",
            "warning",
            {
                "plan.kind": kind,
                "phase_ends.0.generator_bound": True,
                "phase_ends.0.generator_bound_reason": reason,
            },
            said,
        )
        for kind, reason, said in (
            ("replay", schema.Bound.CPU, "a driver used a whole core"),
            ("replay", schema.Bound.OWN, "a driver waited for its log"),
            ("load", schema.Bound.CPU, "the loader was the limit, not the database"),
        )
    ),
    (
        "damage",
        "warning",
        {"phase_ends.0.errors_by_kind": {"bits": 1, "misplaced": 2}},
        "3 reads of blocks returned data other than what was written (changed bits: 1, blocks from elsewhere: 2)",
    ),
    (
        "unverified",
        "warning",
        {"phase_ends.0.verified": {"checked_blocks": 0, "unchecked_blocks": 5000, "damaged_blocks": 0}},
        "none of the 5,000 blocks that it read could be checked",
    ),
    (
        "unverified",
        "warning",
        {"phase_ends.0.verified": {"checked_blocks": 90, "unchecked_blocks": 910, "damaged_blocks": 0}},
        "only 9 % of the",
    ),
    (
        "unverified",
        "warning",
        {"phase_ends.0.verified": {"checked_blocks": 0, "unchecked_blocks": 0, "damaged_blocks": 0}},
        "reads none of them: nothing was checked",
    ),
    ("hung_requests", "warning", {"hangs": [{"outstanding_ns": 20 * 10**6}]}, "outstanding for 20.0 ms"),
    (
        "foreign_io",
        "warning",
        {"watch.foreign.write": {**PART, "seen": True, "foreign_bytes": 5 * GIB, "ours_bytes": GIB}},
        "5.0 GiB written, besides our own 1.0 GiB",
    ),
    (
        "foreign_io",
        "warning",
        {
            "watch.foreign.write": {**PART, "seen": True, "foreign_bytes": 5 * GIB, "ours_bytes": GIB},
            "start.targets.0.kind": "file",
        },
        "Other programs, or the file system for its journal, used",
    ),
    ("foreign_unknown", "note", {"watch.foreign": {"known": False, "reason": "not known: NFS"}}, "(NFS)"),
    ("steal", "warning", {"watch.cpu.steal_share": 0.011}, "1.1%"),
    ("steal", "warning", {"watch.cpu.worst_steal_share": 0.2}, "20.0% on the most affected CPU"),
    (
        "cpu_shared",
        "warning",
        {
            "start.engine": "io_uring",
            "watch.cpu": {"busy_share": 0.95, "each": {"cpu0": {}, "cpu1": {}}},
            "watch.process": {"user_ns": 5 * 10**9, "system_ns": 2 * 10**9},
            "watch.duration_ns": 10 * 10**9,
        },
        "95% busy; other processes took 60%, so requests may have waited for a CPU",
    ),
    (
        "cpu_shared",
        "note",
        {
            "start.engine": "io_uring",
            "phase_ends.0.cpu_wait_share": 0.01,
            "watch.cpu": {"busy_share": 0.95, "each": {"cpu0": {}, "cpu1": {}}},
            "watch.process": {"user_ns": 5 * 10**9, "system_ns": 2 * 10**9},
            "watch.duration_ns": 10 * 10**9,
        },
        "95% busy; other processes took 60%; the generator waited for a CPU 1% of the time",
    ),
    ("cpu_quota", "warning", {"watch.throttle.cgroup_events": 4}, "4 times"),
    ("cpu_throttled", "warning", {"watch.throttle.cpu_events": 3}, "3 times"),
    ("drive_hot", "warning", {"watch.temperature.end.nvme0n1.celsius": 70.0}, "70 °C"),
    ("store_on_device", "warning", {"store.devices": ["8:0", "259:0"]}, "/var/lib/store lies on nvme0n1"),
    (
        "not_direct",
        "warning",
        {"start.io": "buffered", "start.io_reason": {"kind": "in_memory"}, "facts.host.memory.total_bytes": GIB},
        "(the file system keeps files in memory, so there is nothing to go to directly)",
    ),
    (
        "psync",
        "warning",
        {"start.engine": "psync", "start.engine_reason": {"kind": "not_set_up", "error": "EINVAL"}},
        "(io_uring could not be set up: EINVAL)",
    ),
    (
        "nothing_measured",
        "warning",
        {"phase_ends.0.reason": "bytes", **{f"intervals.{number}.warmup": True for number in range(5)}},
        "nothing was measured: it reached its limit of bytes during the warm-up",
    ),
    ("overloaded", "warning", {"phase_ends.0.unsent": 51}, "51 of 5056 requests that were due (1.0%)"),
    (
        "errors",
        "warning",
        {"phase_ends.0.errors_by_errno": {"EIO": 3}, "phase_ends.0.errors_by_kind": {"errno": 3, "short": 1}},
        "4 requests failed (EIO 3, short 1) beside 5005",
    ),
    (
        "no_room",
        "warning",
        {"phase_ends.0.errors_by_errno": {"ENOSPC": 30, "EIO": 3}},
        "The file system was full: 33 requests failed",
    ),
    (
        "no_room",
        "warning",
        {"phase_ends.0.errors_by_errno": {"ENOSPC": 3}, "start.targets.0.kind": "block"},
        "The device had no room left: 3 requests failed",
    ),
    (
        "errors",
        "warning",
        {"phase_ends.0.errors_by_errno": {"EMFILE": 3}},
        "No more files may be open: 3 requests failed",
    ),
    ("errors", "warning", {"phase_ends.0.errors_by_errno": {"ENOSPC": 3, "EIO": 30}}, "33 requests failed (EIO 30, "),
    (
        "hung_requests",
        "warning",
        {"hangs": [{"outstanding_ns": 16 * SECOND}, {"outstanding_ns": 15 * SECOND}]},
        "2 requests hung; the longest had been outstanding for 16.0 s when it was reported",
    ),
    ("outstanding", "warning", {"phase_ends.0.outstanding": 7}, "7 requests"),
    (
        "blank_blocks",
        "warning",
        {
            "start.targets.0.unwritten": {"kind": "unknown"},
            "facts.target.looked_at_blocks": 64,
            "facts.target.blank_blocks": 16,
        },
        "16 of 64 blocks of /data/scratch (25.0%) hold only zeros",
    ),
    (
        "none_blank",
        "note",
        {
            "start.targets.0.unwritten": {"kind": "unknown"},
            "facts.target.looked_at_blocks": 64,
            "facts.target.blank_blocks": 0,
        },
        "with 95 % confidence at least 95 % of it holds data",
    ),
    ("unwritten_unknown", "warning", {"start.targets.0.unwritten": {"kind": "unknown"}}, "/data/scratch"),
    (
        "unwritten",
        "warning",
        {"start.targets.0.unwritten": {"kind": "bytes", "bytes": 16 * GIB}},
        "16.0 GiB of /data/scratch (25.0%)",
    ),
    (
        "virtual_disk",
        "note",
        {"facts.target.stack.0.virtual": True, "facts.target.stack.0.transport": "virtio"},
        "a virtual disk: the host's cache and other guests are part of what was measured",
    ),
    (
        "loop_cached",
        "warning",
        {
            "facts.target.stack.0.type": "loop",
            "facts.target.stack.0.loop": {"direct_io": False, "backing_file": "/img"},
        },
        "page cache even with O_DIRECT",
    ),
    (
        "loop",
        "note",
        {"facts.target.stack.0.type": "loop", "facts.target.stack.0.loop": {"direct_io": True, "backing_file": "/img"}},
        "/img",
    ),
    (
        "emulated",
        "note",
        {
            "facts.target.stack.0.type": "loop",
            "facts.target.stack.0.loop": {"emulated": {"name": "p", "model": "sim:m", "cache": "lying", "speed": 10.0}},
        },
        "timed by sim:m, 10 times as fast as the model, cache lying",
    ),
    ("emulated_late", "warning", {"watch.late": {"start": {"loop0": 2}, "end": {"loop0": 9}}}, "7 requests late"),
    (
        "emulated_fault",
        "warning",
        {"watch.faults": {"loop0": ["slow 4", "fail 0"]}},
        "faults during the run: slow 4, fail 0",
    ),
    ("memory_device", "note", {"facts.target.stack.0.type": "zram"}, "is a memory device"),
    (
        "governor",
        "note",
        {"facts.host.frequency.governors": {"performance": 7, "powersave": 1}},
        "powersave on 1 of 8 cores",
    ),
    ("debug_build", "warning", {"release_build": False}, "debug build"),
]


def test_frames_count_beside_their_requests_in_the_overload_warning() -> None:
    record = changed({"phase_ends.0.unsent": 51})
    for interval in record["intervals"]:
        frames = {"stream": 0, "operation": "frame", "requests": 1000, "bytes": 0, "errors": 0}
        interval["cells"] += [frames, {**frames, "operation": "create_file"}]
    (found,) = [item for item in caveats.warnings(judged(record)) if item.id == "overloaded"]
    assert "51 of 5056 requests that were due (1.0%)" in found.text


@pytest.mark.parametrize(
    ("writes", "remedy"),
    [(0.0, "Add an earlier phase that writes the region"), (50.0, "Measure longer, or in a smaller")],
)
def test_a_remedy_for_unchecked_blocks_is_not_what_the_run_does(writes: float, remedy: str) -> None:
    record = changed({"phase_ends.0.verified": {"checked_blocks": 90, "unchecked_blocks": 910, "damaged_blocks": 0}})
    operations = Operations(read=100.0 - writes, write=writes, flush=0.0, trim=0.0)
    asked = Plan(phase=[Phase(name="measure", stream=[Stream(operations=operations, verify=True)])])
    found = caveats.warnings(replace(judged(record), plan=asked))
    (said,) = [item for item in found if item.id == "unverified"]
    assert said.remedy.startswith(remedy)


@pytest.mark.parametrize(("identifier", "severity", "changes", "words"), CASES, ids=[case[0] for case in CASES])
def test_each_cause_raises_its_warning_alone(
    identifier: str, severity: str, changes: dict[str, Any], words: str
) -> None:
    found = caveats.warnings(judged(changed(changes)))
    assert [(item.id, item.severity) for item in found] == [(identifier, severity)]
    text, remedy = found[0].text, found[0].remedy
    assert words in text
    assert text.endswith(".")
    assert not text.startswith("None")
    assert remedy.endswith(".")
    assert "\n" not in text + remedy


CUT = {"phase": 0, "start_ns": 5 * SECOND, "end_ns": 5 * SECOND + 10**6, "requests": 1}

QUIET: list[tuple[str, dict[str, Any]]] = [
    ("just within the unsent share", {"phase_ends.0.unsent": 50}),
    (
        "buffered was asked for",
        {"start.io": "buffered", "plan.io": "buffered", "start.io_reason": {"kind": "requested"}},
    ),
    ("psync was asked for", {"start.engine": "psync", "plan.engine": "psync"}),
    ("four times the cache", {"facts.target.cache_bytes": 16 * GIB}),
    ("the filled holes of before", {"facts.target.hole_bytes": 64 * GIB}),
    ("an array that is frozen does nothing", {"facts.target.stack.0.md": {"sync_action": "frozen", "degraded": 0}}),
    (
        "most was verified",
        {"phase_ends.0.verified": {"checked_blocks": 900, "unchecked_blocks": 100, "damaged_blocks": 0}},
    ),
    ("a sensor without limits", {"watch.temperature.end.nvme0n1.max_celsius": -273.15}),
]


@pytest.mark.parametrize("changes", [case[1] for case in QUIET], ids=[case[0] for case in QUIET])
def test_what_is_no_cause_is_not_warned_of(changes: dict[str, Any]) -> None:
    assert caveats.warnings(judged(changed(changes))) == []


def test_a_replay_is_spoken_of_in_the_words_of_databases() -> None:
    changes = {
        "plan.kind": "replay",
        "phase_ends.0.unsent": 51,
        "phase_ends.0.errors_by_errno": {"57014": 3},
        "phase_ends.0.outstanding": 2,
    }
    said = " ".join(f"{warning.text} {warning.remedy}" for warning in caveats.warnings(judged(changed(changes))))
    assert "51 of 5056 calls that were due (1.0%) were never sent: the database did not keep up" in said
    assert "3 calls failed (57014 3)" in said
    for word in ("storage", "kernel", "offset", "device", "requests"):
        assert word not in said


def test_a_simulated_run_is_not_blamed_for_the_host() -> None:
    record = changed(
        {
            "start.engine": "sim",
            "watch.cpu.steal_share": 0.5,
            "facts.target.cache_bytes": None,
            "facts.host.frequency.governors": {"powersave": 8},
            "start.targets.0.unwritten": {"kind": "unknown"},
        }
    )
    assert caveats.warnings(judged(record)) == []


def test_flushed_writes_are_not_called_those_of_memory() -> None:
    def said(kind: str = "file", **asked: object) -> str:
        record = changed({"start.io": "buffered", "plan.io": "buffered", "start.targets.0.data_bytes": GIB})
        record["start"]["targets"][0]["kind"] = kind
        run = judged(record)
        written: dict[str, object] = {"operations": {"read": 0, "write": 100}, **asked}
        plan = msgspec.convert({"phase": [{"stream": [written]}]}, Plan)
        found = caveats.warnings(replace(run, plan=plan, write_bytes=GIB))
        return " ".join(one.text for one in found if one.id == "smaller_than_memory")

    assert "this buffered run may have been" in said()
    assert said(flush_every={"writes": 1}) == said(sync="dsync") == ""
    mixed = said(flush_every={"writes": 1}, operations={"read": 50, "write": 50})
    assert "writes were flushed, but reads may have been served from the page cache" in mixed

    transactions = {"kind": "transactions", "size": "4KiB"}
    assert "the page cache more than the storage" in said("directory", program=transactions)
    flushed = said("directory", program={**transactions, "fsync": True})
    assert "were flushed, but fit into the host's 32.0 GiB of memory: reads may have come" in flushed
    assert said("directory", program={**transactions, "fsync": True, "bias_read": -1}) == ""


def test_several_targets_and_watches_are_each_judged() -> None:
    record = sound()
    second = copy.deepcopy(record["facts"]["target"])
    second.update(path="/other", size_bytes=GIB, cache_bytes=GIB)
    record["facts"]["target"] = [record["facts"]["target"], second]
    hot = copy.deepcopy(record["watch"])
    hot["throttle"]["cpu_events"] = 1
    record["watch"] = [record["watch"], hot]
    assert {item.id for item in caveats.warnings(judged(record))} == {"smaller_than_cache", "cpu_throttled"}


def test_warnings_come_before_notes() -> None:
    record = changed({"facts.target.cache_bytes": None, "release_build": False, "watch.cpu.steal_share": 0.5})
    severities = [item.severity for item in caveats.warnings(judged(record))]
    assert severities == sorted(severities, reverse=True)


def test_what_is_judged_is_not_changed() -> None:
    run = judged(changed({"watch.arrays.end": {"md0": {"under_way": "resync", "degraded": 0}}}))
    before = copy.deepcopy(run)
    caveats.warnings(run)
    assert run == before


def test_a_rule_that_fails_leaves_the_others_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: Judged) -> Iterator[schema.RunWarning]:
        raise ValueError(f"not {run.asked}")
        yield

    monkeypatch.setattr(caveats, "RULES", (broken, *caveats.RULES))
    found = caveats.warnings(judged(changed({"release_build": False})))
    assert [item.id for item in found] == ["debug_build", "unreadable"]
    assert "The warning rule broken could not process this record (ValueError: not requests)" in found[1].text
