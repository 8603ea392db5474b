"""Duty: whether a replay's calls were served from memory or from the disks, and what a cold start did to it. Pure.

A verdict about disks needs reads from them: below ten in a hundred calls, a server mostly waits for memory. With a disk
that takes 10 ms and a memory that takes 0.1 ms, calls of which one in ten reads are as slow as the disk makes them, and
those of which one in a thousand does tell nothing about it.

How many reads of a device were the servers' is estimated by their share of the bytes, since the kernel counts requests
by device alone. Where others read more bytes than the servers, there is no verdict, unless even the most reads that the
servers' bytes can have been are too few.

Refusal: devices that cannot be seen are not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from brickyard.analysis.databases.replay_disks import (
    COLD_S,
    WHOLE_DEVICE,
    Second,
    course,
    target_devices,
    watched_targets,
)
from brickyard.analysis.databases.replay_runs import service_cells
from brickyard.ready import ready
from brickyard.schema import Unit, WatchSheet
from brickyard.schema.warning import Value, Wording, wording_of
from brickyard.schema.watch_sheet import disk_counts
from brickyard.store import Record
from brickyard.units import format_iops, three_digits

READS_JUDGED = 0.10
LEAST_SHARE = 0.5
"""Of the bytes read. Neighbours with large requests have fewer reads than their bytes say; with this share or more, the
servers made at most twice the estimated reads."""
LEAST_READ_BYTES = 4096  # a page; PostgreSQL reads two at a time
OTHERS_LEFT_OUT = f"whole device; in the first {COLD_S} s without all that others read during the run"
COLD_FACTOR = 2.0  # of reads for each call, at the start against later: from here on the start was cold


@dataclass(frozen=True)
class Served:
    """Requests that the devices below the servers carried for each call; None where they are not seen."""

    reads_per_call: float | None
    writes_per_call: float | None
    database_bytes: int | None
    memory_bytes: int | None
    memory_set_by: str = ""
    by_run: Mapping[int, float] = field(default_factory=dict)
    """Disk reads for each call of every repetition, by the run's number, where several are told together."""
    calls: int = 0
    is_estimate: bool = False
    """Whether others read from these devices, too."""
    is_uncertain: bool = False
    """Whether, in any run, they read so much more than the servers that the estimate supports no verdict."""

    @property
    def is_from_memory(self) -> bool | None:
        """In every run; a mean of a cold run and a warm one is neither."""
        if self.reads_per_call is None or self.is_uncertain:
            return None
        return all(map(_from_memory, self.by_run.values() or [self.reads_per_call]))

    @property
    def is_mixed(self) -> bool:
        return not self.is_uncertain and len(set(map(_from_memory, self.by_run.values()))) > 1

    def document(self) -> ServedDocument:
        where = {True: "memory", False: "disks", None: "unknown"}[self.is_from_memory]
        return ServedDocument(
            where="mixed" if self.is_mixed else where,
            disk_reads_per_call=self.reads_per_call,
            disk_reads_per_call_by_run=tuple(self.by_run.values()),
            disk_writes_per_call=self.writes_per_call,
            database_bytes=self.database_bytes,
            memory_bytes=self.memory_bytes,
            memory_set_by=self.memory_set_by or None,
        )


def _from_memory(reads_per_call: float) -> bool:
    return reads_per_call < READS_JUDGED


class ServedDocument(msgspec.Struct, frozen=True, kw_only=True, rename={"where": "from"}):
    """The same for `--json`."""

    where: str
    disk_reads_per_call: float | None
    disk_reads_per_call_by_run: tuple[float, ...]
    disk_writes_per_call: float | None
    database_bytes: int | None
    memory_bytes: int | None
    memory_set_by: str | None


class _Memory(msgspec.Struct, frozen=True):
    bytes: int
    set_by: str


class _ServerTarget(msgspec.Struct, frozen=True):
    """What the beginning of a replay says of a server beyond other beginnings."""

    size_bytes: int | None = None
    memory: _Memory | None = None


class _Began(msgspec.Struct, frozen=True):
    targets: list[_ServerTarget] = msgspec.field(default_factory=list)


def served(records: list[Record], watch: list[WatchSheet] | None = None) -> Served:
    """Of repetitions together; `watch` is what was seen of a run whose record does not hold it yet."""
    reads = writes = 0.0
    calls, is_seen = 0, bool(records)
    is_estimate = is_uncertain = False
    for record in records:
        told = watched_targets(record) if watch is None else watch
        deltas = [device.delta for device in target_devices(told) if device.delta]
        counted = disk_counts(deltas)
        # A replay over several databases of which one is elsewhere has reads that nobody counted.
        is_seen = is_seen and bool(deltas) and len(told) == len(record.info.opened)
        share = _servers_share(told, "read")
        reads += counted.read_requests * share
        writes += counted.write_requests * _servers_share(told, "write")
        calls_here = sum(item.requests for item in service_cells(record))
        calls += calls_here
        is_estimate |= share < 1
        most = min(float(counted.read_requests), counted.read_bytes * share / LEAST_READ_BYTES)
        is_uncertain |= share < LEAST_SHARE and not _from_memory(most / max(calls_here, 1))
    targets = msgspec.convert(records[0].info.engine, _Began).targets if records else []
    least = min((target.memory for target in targets if target.memory), key=lambda item: item.bytes, default=None)
    is_told = is_seen and calls > 0
    return Served(
        reads / calls if is_told else None,
        writes / calls if is_told else None,
        sum(target.size_bytes or 0 for target in targets) or None,
        least.bytes if least else None,
        least.set_by if least else "",
        _by_run(records) if is_told and watch is None else {},
        calls,
        is_estimate,
        is_uncertain,
    )


def _by_run(records: list[Record]) -> dict[int, float]:
    found = {record.info.id: served([record]).reads_per_call for record in records} if len(records) > 1 else {}
    return {run: reads for run, reads in found.items() if reads is not None}


def _servers_share(watch: list[WatchSheet], direction: str) -> float:
    """Of the bytes read from or written to the devices, by the kernel's accounts of the servers; all where these are
    not known. A file system that writes each byte more than once does so for the server too."""
    known = [item.foreign for item in watch if item.foreign and item.foreign.known]
    told = [foreign.read if direction == "read" else foreign.write for foreign in known]
    parts = [part for part in told if part]
    device = sum(part.device_bytes for part in parts)
    if not device or len(known) < len(watch):
        return 1.0
    return min(1.0, sum(part.ours_bytes * (part.copies or 1) for part in parts) / device)


def per_hundred(per_call: float) -> str:
    return three_digits(per_call * 100)


def served_words(found: Served) -> str:
    """What a rate is a rate of; no capital and no full stop."""
    return served_wording(found).words()


def served_wording(found: Served) -> Wording:
    sizes, values = _sizes(found)
    if not found.calls:
        return wording_of("nothing: no call was answered")
    if found.reads_per_call is None or found.writes_per_call is None:
        return wording_of(
            "not known whether from memory or from disks: the servers' devices are not visible (servers must run on"
            f" this host, and the role needs pg_read_all_settings){sizes}",
            also=values,
        )
    estimated = ", estimated by bytes" if found.is_estimate else ""
    if found.is_mixed:
        return _mixed_wording(found.by_run, estimated, sizes, values)
    values["reads"], values["writes"] = (
        Unit.RATE.of(per_call * 100) for per_call in (found.reads_per_call, found.writes_per_call)
    )
    if found.is_uncertain:
        return wording_of(
            "not known whether from memory or from disks: other programs read more from the servers' devices than the"
            " servers did, so the estimate of {reads} disk reads per 100 calls is uncertain (stop these programs and"
            f" replay again){sizes}",
            also=values,
        )
    reads = f"{{reads}} disk reads per 100 calls{estimated}"
    by_run = found.by_run.values()
    if by_run and max(by_run) >= max(READS_JUDGED, COLD_FACTOR * min(by_run)):
        reads += ", by run {by_run}"
        values["by_run"] = ", ".join(map(per_hundred, by_run))
    if not found.is_from_memory:
        return wording_of(f"served from the disks: {reads}{sizes}", also=values)
    writes = " and {writes} writes" if found.writes_per_call >= READS_JUDGED else ""
    return wording_of(
        f"served from memory: {reads}{writes}; the figures show nothing about the disks{sizes}", also=values
    )


def _mixed_wording(by_run: Mapping[int, float], estimated: str, sizes: str, values: dict[str, Value]) -> Wording:
    for side, is_memory in (("disk", False), ("memory", True)):
        runs = {run: reads for run, reads in by_run.items() if _from_memory(reads) is is_memory}
        values[f"{side}_runs"], values[f"{side}_reads"] = list(map(str, runs)), list(map(per_hundred, runs.values()))
    return wording_of(
        "served from the disks in {disk_runs:run|runs} {disk_runs} ({disk_reads} disk reads per 100 calls"
        f"{estimated}), from memory in {{memory_runs:run|runs}} {{memory_runs}} ({{memory_reads}}){sizes}",
        also=values,
    )


def _sizes(found: Served) -> tuple[str, dict[str, Value]]:
    if not found.database_bytes:
        return "", {}
    text, values = "database of {database}", {"database": Unit.BYTES.of(found.database_bytes)}
    if found.memory_bytes:
        whose = "server limited to" if found.memory_set_by == "control group" else "host with"
        text += f", {whose} {{memory}} of memory"
        values["memory"] = Unit.BYTES.of(found.memory_bytes)
    return f" ({text})", dict(values)


def cold_words(record: Record) -> str:
    """What a cold start did to the first seconds; nothing where there was none."""
    seconds = course(record)
    first, rest = seconds[:COLD_S], seconds[COLD_S:]
    others = _others_reads(record)
    early, late = reads_per_call(first, others), reads_per_call(rest)
    if early is None or late is None or early < max(READS_JUDGED, COLD_FACTOR * late):
        return ""
    rates = [sum(s.calls for s in part) / sum(s.length_s for s in part) for part in (first, rest)]
    return (
        f"A cold start: {'at least ' if others else ''}{per_hundred(early)} disk reads per 100 calls and "
        f"{format_iops(rates[0])} calls/s in the first {COLD_S} s, {per_hundred(late)} and {format_iops(rates[1])} "
        f"calls/s after that ({WHOLE_DEVICE if not others else OTHERS_LEFT_OUT})."
    )


def _others_reads(record: Record) -> float:
    """In the whole run, by the kernel's accounts of the servers; none where these are not known."""
    told = watched_targets(record)
    counted = disk_counts(device.delta for device in target_devices(told) if device.delta)
    return counted.read_requests * (1 - _servers_share(told, "read"))


def reads_per_call(seconds: list[Second], others: float = 0.0) -> float | None:
    """Of the devices, at least, where others may have made so many of them; None where the devices were not seen or
    nothing was called."""
    known = [s for s in seconds if s.disk is not None]
    calls = sum(s.calls for s in known)
    reads = sum(s.disk.reads_per_s * s.length_s for s in known if s.disk is not None)
    return max(reads - others, 0.0) / calls if calls else None


ready(_Began)
