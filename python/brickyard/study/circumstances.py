"""Duty: the facts that belong to a run (host, target, what else happened meanwhile) and the warnings that follow.

Refusal: no fact is gathered here; `brickyard.facts` knows where each one stands.
"""

from __future__ import annotations

import time

from brickyard import _core, bricks, facts
from brickyard.analysis import pgbench, replay_runs, replay_warnings, summary
from brickyard.analysis.steadiness import steadiness_warnings
from brickyard.analysis.totals import asked_stream
from brickyard.bricks import caches
from brickyard.schema import HangEvent, PhaseEnd, PowerCut
from brickyard.schema.plan import OtherKind, OtherPlan, Plan
from brickyard.store import READS, WRITES, Json, Record, Store

# Of plans that go to a server, not to a file or device.
DATABASE_KINDS = (OtherKind.REPLAY, OtherKind.LOAD, OtherKind.PGBENCH)
NOT_OF_DATABASES = {"cache_unknown", "smaller_than_cache", "unwritten", "unwritten_unknown"}
NOT_OF_REPLAYS = {*NOT_OF_DATABASES, "volatile_write_cache"}
SAMPLE_EVERY_S = 1.0  # a sample reads a few open files; more often would tell no more


def collect(targets: list[str]) -> Json:
    """Facts about the host and each target, taken once before the first run of a study."""
    found = [facts.collect(target) for target in targets]
    if not found:  # what is measured lies on another host; the generator's host still counts
        return {"host": facts.collect("/")["host"], "targets": []}
    return {"host": found[0]["host"], "targets": [item["target"] for item in found]}


class Watching:
    """The counters of the host and the devices from the first phase of a run to its end.

    Filling comes before, so that what a device has carried can be held against what was asked of it.
    """

    def __init__(self, targets: list[str], *, are_servers: bool = False) -> None:
        self._watches = [facts.Watch(target) for target in targets]
        self._servers = [facts.ServerIo(target) for target in targets] if are_servers else []
        self._sampled_s: float | None = None

    def event(self, event: Json) -> None:
        if event["event"] == "phase" and self._sampled_s is None:
            # Servers are looked at before and after their devices: what falls between is nobody else's.
            for server in self._servers:
                server.start()
            for watch in self._watches:
                watch.__enter__()
            self._sampled_s = time.monotonic()
        elif self._sampled_s is not None and time.monotonic() - self._sampled_s >= SAMPLE_EVERY_S:
            self._sampled_s = time.monotonic()
            for watch in self._watches:
                watch.sample()

    def stop(self) -> None:
        """Ends the watch; what it saw can be asked for afterwards."""
        for watch in self._watches:
            watch.stop()
        for server in self._servers:
            server.stop()

    def results(self, record: Record) -> list[Json]:
        if self._sampled_s is None:
            return []
        if self._servers:
            return [watch.result(self._of_servers(watch)) for watch in self._watches]
        return [watch.result(ours(record, target)) for target, watch in enumerate(self._watches)]

    def _of_servers(self, watch: facts.Watch) -> Json:
        """What all servers of the run did on the devices of one of them, each server once."""
        found: dict[object, Json] = {}
        for server, other in zip(self._servers, self._watches, strict=True):
            if watch.top_devices() & other.top_devices():
                told = server.told()
                if not told["known"]:
                    return told
                found[told["pid"]] = told
        dirty_bytes = max((told["dirty_bytes"] for told in found.values()), default=0)
        sums = {name: sum(told[name] for told in found.values()) for name in ("read_bytes", "write_bytes")}
        return {**sums, "dirty_bytes": dirty_bytes, "whose": "the server's"}


def ours(record: Record, target: int) -> Json:
    """What the run itself asked of one target, warm-up included, to be told apart from what others did."""
    counts = {"read_bytes": 0, "read_requests": 0, "write_bytes": 0, "write_requests": 0}
    for item in record.intervals:
        stream = asked_stream(record, item.phase, item.stream)
        if (
            item.measure == "service"
            and item.operation in READS | WRITES
            and (stream.target if stream else 0) == target
        ):
            side = "read" if item.operation in READS else "write"
            counts[f"{side}_bytes"] += item.bytes
            counts[f"{side}_requests"] += item.requests
    return counts


def asks_databases(plan: Plan | OtherPlan) -> bool:
    return isinstance(plan, OtherPlan) and plan.kind in DATABASE_KINDS


def _written(record: Record) -> int:
    return sum(item.bytes for item in record.intervals if item.measure == "service" and item.operation in WRITES)


def _volatile_caches(record: Record) -> list[Json]:
    """The modelled targets with caches that a power cut empties."""
    modelled = bricks.resolved_of(record.info.targets, record.info.options)
    found = zip(record.info.targets, map(caches.volatile, modelled), strict=False)
    return [{"path": target, "caches": told} for target, told in found if told]


def warnings(store: Store, record: Record, watched: list[Json]) -> list[Json]:
    """What the reader must know before believing a figure of this run."""
    info = record.info
    found: list[Json] = facts.warnings(
        {
            "facts": {"host": info.facts["host"], "target": info.facts["targets"]},
            "watch": watched,
            "start": info.engine,
            "intervals": summary.interval_documents(record),
            "phase_ends": record.documents_of(PhaseEnd),
            "hangs": record.documents_of(HangEvent),
            "totals": {"write_bytes": _written(record)},
            "power_cuts": record.documents_of(PowerCut),
            "power_cuts_ns": bricks.power_cuts_ns(info.targets, info.options),
            "volatile_caches": _volatile_caches(record),
            "failures_ns": bricks.failures_ns(info.targets, info.options),
            "plan": info.plan_document,
            "store": facts.store_facts(str(store.place)),
            "release_build": _core.is_release_build(),
        }
    )
    if replay_runs.is_replay(record):
        # A log's load is not meant to be steady, and what the server's cache takes off its disks is the server's merit.
        found = [item for item in found if item["id"] not in NOT_OF_REPLAYS]
        judged = replay_warnings.replay_warnings(record, watched)
    else:
        judged = [*steadiness_warnings(record), *pgbench.pgbench_warnings(record)]
        if asks_databases(info.plan):
            found = [item for item in found if item["id"] not in NOT_OF_DATABASES]
    return sorted([*judged, *found], key=lambda item: item["severity"] != "warning")


def invalid_condition(condition: str, reason: str) -> Json:
    """The run does not stand for what it was to be measured in."""
    return {
        "id": "condition",
        "severity": "error",
        "reason": reason,
        "text": f"This run does not show the condition {condition.replace('_', ' ')}: {reason}.",
        "remedy": "Measure for a shorter time, or let the work go slower with --rebuild-rate."
        if condition in ("rebuilding", "neighbour_rebuilding", "scrubbing", "initializing")
        else "Wait until the array is at rest (`brickyard array show`), and measure again.",
    }
