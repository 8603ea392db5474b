"""Warnings about the place of a run: the target, what is below it, and the host.

Duty: rules over facts and what was watched. Refusal: a simulated run has no place, so these rules stay silent on it,
but for the caches that its model has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from brickyard.analysis.judging.cached import CACHED_SHARE_MAX
from brickyard.analysis.judging.crowding import crowding, waited
from brickyard.analysis.judging.judged import Judged, item
from brickyard.facts import stack
from brickyard.facts.arrays import under_way
from brickyard.schema import (
    ArrayState,
    DeviceSheet,
    EmulatedSheet,
    Identity,
    IoPath,
    RunWarning,
    TargetKind,
    TargetSheet,
    UnwrittenBytes,
    UnwrittenUnknown,
    WatchSheet,
)
from brickyard.schema.plan import Plan, SyncMode

# Time that the hypervisor took away: above one part in a hundred latencies near the tail are its, not the storage's.
STEAL_SHARE_MAX = 0.01
# A cache of a quarter of the target answers a quarter of uniform requests; below that, the cache is measured
# (Overland's guide, 2007).
CACHE_FACTOR = 4


def targets(run: Judged) -> list[TargetSheet]:
    return [] if run.is_simulated else run.targets


def watches(run: Judged) -> list[WatchSheet]:
    return [] if run.is_simulated else run.watches


def nodes(run: Judged) -> list[DeviceSheet]:
    """Every device below any target, each once."""
    found: dict[str, DeviceSheet] = {}
    for target in targets(run):
        for node in stack.devices(target.stack):
            found.setdefault(node.number, node)
    return list(found.values())


def drives(run: Judged) -> list[DeviceSheet]:
    found: dict[str, DeviceSheet] = {}
    for target in targets(run):
        for node in stack.bottom(target.stack):
            found.setdefault(node.number, node)
    return list(found.values())


def replaced(run: Judged) -> Iterator[RunWarning]:
    """A target that is not what it was at the beginning; what the run measured is gone, or was cut meanwhile."""
    for index, watch in enumerate(watches(run)):
        ends = watch.identity
        if ends is None or ends.start is None or ends.end is None:
            continue
        path = run.targets[index].path if index < len(run.targets) else "The target"
        if what := _became(ends.start, ends.end):
            yield item(
                "target_changed",
                "warning",
                f"{path} {what} during the run.",
                "Find out what changed the file, and measure again: the figures are for a file that no longer "
                "exists in that form.",
            )


def _became(first: Identity, last: Identity) -> str:
    if not first.exists:
        return ""
    if not last.exists:
        return "was removed"
    if (first.device, first.inode) != (last.device, last.inode):
        return "was replaced by another"
    if (last.size_bytes or 0) < (first.size_bytes or 0):
        return f"was cut from {size(first.size_bytes or 0)} to {size(last.size_bytes or 0)}"
    return f"lost one of its {first.links} hard links" if (last.links or 0) < (first.links or 0) else ""


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def write_cache(run: Judged) -> Iterator[RunWarning]:
    # What lives in memory is lost with the power anyway; another note says so.
    held = [node for node in drives(run) if node.type not in ("zram", "ram", "null")]
    names = [node.name for node in held if node.has_volatile_write_cache]
    if names:
        shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        yield item(
            "volatile_write_cache",
            "note" if run.write_bytes == 0 else "warning",
            f"The write cache of {shown} is volatile and on (write back): {len(names)} of "
            f"{len(held)} drives may acknowledge a write before it is safe from a power cut.",
            'To measure durable writes, use `sync = "dsync"` or flushes in the profile, or turn the cache off '
            "(hdparm -W0, sdparm --clear=WCE).",
        )


def modelled_write_cache(run: Judged) -> Iterator[RunWarning]:
    """The same of a modelled brick, whose caches the model knows. A durable write ends when it is on the medium, unless
    a page cache keeps its flushes from the device."""
    is_durable = asks_for_durable_writes(run)
    kept = {
        opened.path
        for opened in (run.start.targets if run.start else [])
        if opened.page_cache is not None and not opened.page_cache.barriers
    }
    for target in run.volatile_caches if run.write_bytes != 0 else ():
        if is_durable and target.path not in kept:
            continue
        remedy = (
            'To measure durable writes, use `sync = "dsync"` or flushes in the profile, or --condition write-cache-off '
            "if drives cache writes."
        )
        text = "may acknowledge a write before it is safe from a power cut"
        if target.path in kept:
            text = f"{text}, even if it is a durable write, since `page_cache.barriers` is off"
            remedy = "To measure durable writes, use --set page_cache.barriers=true or --condition write-cache-off."
        yield item(
            "volatile_write_cache",
            "warning",
            f"{target.path} {text}: {' and '.join(target.caches)}.",
            remedy,
        )


def asks_for_durable_writes(run: Judged) -> bool:
    """Whether each write of a run is to be on the medium when it ends."""
    if not isinstance(run.plan, Plan):
        return False
    streams = [stream for phase in run.plan.phase for stream in phase.stream]
    plain = [s for s in streams if not (s.chain or s.trace or s.program or s.frames)]
    writing = [stream for stream in plain if stream.operations.write]
    return len(plain) == len(streams) and bool(writing) and all(s.sync is not SyncMode.NONE for s in writing)


@dataclass
class _Busy:
    """An array over the whole run: the worst that was seen of it."""

    degraded: int = 0
    level: str | None = None
    members: int | None = None
    under_way: str | None = None
    done_share: float | None = None

    def add(self, state: ArrayState) -> None:
        self.degraded = max(self.degraded, state.degraded or 0)
        if state.under_way and not self.under_way:
            self.under_way = state.under_way
            self.done_share = state.done_share if isinstance(state.done_share, float) else None


def _at_first(node: DeviceSheet) -> _Busy | None:
    if md := node.md:
        return _Busy(md.degraded or 0, md.level, md.raid_disks, under_way(md.sync_action), md.sync_done_share)
    if raid := node.dm.raid if node.dm else None:
        return _Busy(raid.degraded or 0, raid.level, raid.raid_disks, under_way(raid.sync_action), raid.in_sync_share)
    return None


def arrays_busy(run: Judged) -> Iterator[RunWarning]:
    seen = {node.name: busy for node in nodes(run) if (busy := _at_first(node))}
    for watch in watches(run):
        ends = (watch.arrays.start, watch.arrays.end) if watch.arrays else ()
        for name, state in (pair for end in ends for pair in (end or {}).items()):
            seen.setdefault(name, _Busy()).add(state)
    for name, worst in sorted(seen.items()):
        yield from array_items(name, worst)
    for target in targets(run):
        mount = target.mount
        if mount and mount.btrfs and mount.btrfs.missing_members:
            yield item(
                "array_degraded",
                "warning",
                f"The btrfs at {mount.mount_point} is degraded: {mount.btrfs.missing_members} members are missing.",
                "Replace the missing member, or compare this run only with others in the degraded condition.",
            )


def array_items(name: str, state: _Busy) -> Iterator[RunWarning]:
    level = f" ({state.level})" if state.level else ""
    if state.under_way:
        done = state.done_share
        yield item(
            "array_syncing",
            "warning",
            f"The array {name}{level} was busy with {state.under_way} during the "
            f"run{f', {done:.1%} done' if done is not None else ''}.",
            "Wait until sync_action is idle, or compare this run only with others of the same condition.",
        )
    if state.degraded:
        of = f" of {state.members}" if state.members else ""
        yield item(
            "array_degraded",
            "warning",
            f"The array {name}{level} is degraded: {state.degraded}{of} members are missing.",
            "Replace the missing member, or compare this run only with others in the degraded condition.",
        )


def target_bytes(run: Judged, index: int, target: TargetSheet | None) -> int | None:
    opened = run.start.targets[index] if run.start and index < len(run.start.targets) else None
    told = (opened.data_bytes, opened.size_bytes) if opened else ()
    return next((value for value in (*told, target.size_bytes if target else None) if value), None)


def memory(run: Judged) -> Iterator[RunWarning]:
    total = run.host.memory_bytes
    if run.start is None or run.start.io is not IoPath.BUFFERED or run.is_simulated or not total:
        return
    for index, target in enumerate(targets(run)):
        if is_directory(run, index):
            yield from fits_memory(run, target, total)
            continue
        here = target_bytes(run, index, target)
        if here and here < total:
            yield item(
                "smaller_than_memory",
                "warning",
                f"{target.path} has {size(here)} and the host {size(total)} of memory: this buffered run may have been "
                "served from the page cache.",
                "Use O_DIRECT, or a file larger than the memory.",
            )


def modelled_page_cache(run: Judged) -> Iterator[RunWarning]:
    """How much of a run on models was answered by their page caches, which counted it."""
    for did in run.page_caches:
        opened = run.start.targets[did.target] if run.start and did.target < len(run.start.targets) else None
        if opened is None or opened.page_cache is None:
            continue
        memory = size(opened.page_cache.memory_bytes)
        asked = did.hits + did.misses
        from_memory = max(0.0, 1 - did.read_pages / asked) if asked else 0.0
        if from_memory > CACHED_SHARE_MAX:
            yield item(
                "smaller_than_memory",
                "warning",
                f"{from_memory:.0%} of the pages that were read from {opened.path} came from the {memory} of its "
                "modelled page cache: these are figures of the cache as well.",
                'Use a larger region or less memory (--set memory=256MiB), or io = "direct".',
            )
        unwritten = did.dirty_pages / did.dirtied_pages if did.dirtied_pages else 0.0
        if unwritten > CACHED_SHARE_MAX:
            yield item(
                "smaller_than_memory",
                "warning",
                f"{unwritten:.0%} of the pages that were written to {opened.path} were still in the {memory} of its "
                "modelled page cache when the run ended: these are figures of the cache as well.",
                "Write more, use less memory (--set memory=256MiB), or flush (`fsync = true`).",
            )


def is_directory(run: Judged, index: int) -> bool:
    started = run.start.targets if run.start else []
    return index < len(started) and started[index].kind is TargetKind.DIRECTORY


def fits_memory(run: Judged, target: TargetSheet, total: int) -> Iterator[RunWarning]:
    """Files that programs have made: all that was written is at least as much as there is to read."""
    written = run.write_bytes
    if written == 0:
        yield item(
            "smaller_than_memory",
            "note",
            f"Only metadata (names) were written to {target.path}: they may have been served from memory.",
            "Use more files, or flush them (`fsync = true`), to measure the storage.",
        )
    elif written is not None and written < total:
        yield item(
            "smaller_than_memory",
            "warning",
            f"The {size(written)} that were written to {target.path} fit into the host's "
            f"{size(total)} of memory: the figures describe the page cache more than the storage.",
            "Use files that together are larger than the memory, or flush them (`fsync = true`).",
        )


def device_cache(run: Judged) -> Iterator[RunWarning]:
    for index, target in enumerate(targets(run)):
        cache, here = target.cache_bytes, target_bytes(run, index, target)
        if cache is None:
            if target.kind in ("service", "sim") or is_directory(run, index):
                continue
            yield item(
                "cache_unknown",
                "note",
                f"The cache below {target.path} is unknown ({target.why('cache_bytes', 'not reported')}), so it is not "
                f"known whether {size(here) if here else 'the target'} is large enough to exceed it.",
                "Look the cache up in the data sheet and use a target of at least four times its size.",
            )
        elif here and here < CACHE_FACTOR * cache:
            yield item(
                "smaller_than_cache",
                "warning",
                f"{target.path} has {size(here)}, only {here / cache:.1f} times the {size(cache)} of cache below it.",
                f"Use a target of at least {size(CACHE_FACTOR * cache)}, four times the cache.",
            )


def unwritten(run: Judged) -> Iterator[RunWarning]:
    if run.is_simulated or run.start is None:
        return
    for index, opened in enumerate(run.start.targets):
        if isinstance(opened.unwritten, UnwrittenUnknown):
            yield item(
                "unwritten_unknown",
                "warning",
                f"What share of {opened.path} has ever been written is unknown; never-written parts are read without "
                "accessing the medium.",
                "Write the whole target once before reading it.",
            )
            continue
        empty, whole = 0, target_bytes(run, index, None)
        if isinstance(opened.unwritten, UnwrittenBytes):
            empty = opened.unwritten.bytes
        elif opened.unwritten is None and index < len(run.targets):
            # Facts are gathered before preparation, which fills the holes and says "none".
            empty = (run.targets[index].hole_bytes or 0) + (run.targets[index].unwritten_bytes or 0)
        if empty:
            share = f" ({min(empty / whole, 1.0):.1%})" if whole else ""
            yield item(
                "unwritten",
                "warning",
                f"{size(empty)} of {opened.path}{share} were never written, and are read without accessing the medium.",
                "Write the whole target once before reading it.",
            )


def neighbours(run: Judged) -> Iterator[RunWarning]:
    for watch in watches(run):
        foreign = watch.foreign
        if foreign is None:
            continue
        if not foreign.known:
            yield item(
                "foreign_unknown",
                "note",
                "Whether others used the device during the run is not known "
                f"({str(foreign.reason).removeprefix('not known: ')}).",
                "Make sure that nothing else uses the device.",
            )
        sides = (("read", foreign.read), ("written", foreign.write))
        parts = [(side, part) for side, part in sides if part and part.seen]
        if parts:
            words = " and ".join(f"{size(part.foreign_bytes or 0)} {side}" for side, part in parts)
            mine = " and ".join(f"{size(part.ours_bytes)} {side}" for side, part in parts)
            yield item(
                "foreign_io",
                "warning",
                f"Other programs used {', '.join(foreign.devices or [])} during the run: {words}, "
                f"besides {foreign.whose or 'our own'} {mine}.",
                "Stop what else uses the device, and measure again.",
            )


def processor(run: Judged) -> Iterator[RunWarning]:
    for watch in watches(run):
        cpu = watch.cpu
        total, worst = (cpu.steal_share or 0.0, cpu.worst_steal_share or 0.0) if cpu else (0.0, 0.0)
        if max(total, worst) > STEAL_SHARE_MAX:
            yield item(
                "steal",
                "warning",
                f"The hypervisor took {total:.1%} of the CPU time during the run (steal), and {worst:.1%} on the most "
                "affected CPU.",
                "Measure on a quieter or dedicated host, and do not trust the tail of the latencies.",
            )
        yield from _crowded(run, watch)
        if held := watch.throttle.cgroup_events if watch.throttle else None:
            yield item(
                "cpu_quota",
                "warning",
                f"The control group's CPU quota throttled this process {held} times during the run.",
                "Raise the container's CPU limit.",
            )
    governors = (run.host.frequency.governors if run.host.frequency else None) or {}
    slow = {name: count for name, count in governors.items() if name != "performance"}
    if slow and not run.is_simulated:
        cores = sum(governors.values())
        words = ", ".join(f"{name} on {count} of {cores} cores" for name, count in sorted(slow.items()))
        yield item(
            "governor",
            "note",
            f"The CPU frequency governor is not performance ({words}), so latencies of short requests depend "
            "on how busy the CPU is.",
            "Set the governor with `cpupower frequency-set -g performance`.",
        )


def _crowded(run: Judged, watch: WatchSheet) -> Iterator[RunWarning]:
    found = crowding(run.start, watch)
    # Where waits for a CPU were counted, the warning of these names who had the CPUs.
    if found is not None and not any(map(waited, run.phase_ends)):
        yield item(
            "cpu_shared",
            "warning",
            f"{found.words[0].upper()}{found.words[1:]}, so requests may have waited for a CPU.",
            "Stop what else runs on this host, and measure again.",
        )


def heat(run: Judged) -> Iterator[RunWarning]:
    for watch in watches(run):
        if events := watch.throttle.cpu_events if watch.throttle else None:
            yield item(
                "cpu_throttled",
                "warning",
                f"The CPU was throttled {events} times during the run because it was too hot.",
                "Improve the cooling, and measure again.",
            )
        after = (watch.temperature.end if watch.temperature else None) or {}
        for name, sensor in sorted(after.items()):
            now, limit = sensor.celsius, sensor.max_celsius
            # An unset limit reads as absolute zero or as 65261 °C, the ends of the register.
            if now is not None and limit is not None and 0 < limit <= now:
                yield item(
                    "drive_hot",
                    "warning",
                    f"{name} was at {now:.0f} °C at the end of the run, at or above the {limit:.0f} °C at which it "
                    "throttles.",
                    "Improve the cooling, let the device cool down, and measure again.",
                )


def _below_store(run: Judged) -> list[str]:
    """Devices of targets on which the store of a run lies too."""
    below = {number for target in targets(run) for number in target.leaf_devices}
    shared = sorted(below & set(run.store.devices)) if run.store else []
    return [node.name for node in drives(run) if node.number in shared] or shared


def store(run: Judged) -> Iterator[RunWarning]:
    if run.store and (names := _below_store(run)):
        yield item(
            "store_on_device",
            "warning",
            f"The store {run.store.path} lies on {', '.join(names)}, the device under test, and writes to "
            "it every second.",
            "Put the store on another device with --store.",
        )


def records(run: Judged) -> Iterator[RunWarning]:
    """The same of the record that a worker keeps on its host; a model has no device."""
    if run.store and (names := _below_store(run)):
        yield item(
            "store_on_device",
            "note",
            f"The worker's own record (below {os.path.dirname(run.store.path)}) lies on {', '.join(names)}, the device "
            "under test, and is written to every second.",
            "Set XDG_STATE_HOME on the host to a place on another device before `brickyard fleet up`.",
        )


def _emulated(device: str, disk: EmulatedSheet) -> RunWarning:
    fast = f", {disk.speed:g} times as fast as the model" if disk.speed != 1 else ""
    timed = "without delays" if disk.model == "none" else f"timed by {disk.model}{fast}"
    return item(
        "emulated",
        "note",
        f"{device} is a disk that brickyard lab emulates, {timed}, cache {disk.cache}: no drive was measured.",
        "Compare it with runs on disks that were made in the same way.",
    )


def late(run: Judged) -> Iterator[RunWarning]:
    """An emulated disk on a host that was too busy is slower than its model."""
    for watch in watches(run):
        if watch.late is None or watch.late.start is None or watch.late.end is None:
            continue
        for name, count in watch.late.end.items():
            if (since := count - watch.late.start.get(name, 0)) > 0:
                yield item(
                    "emulated_late",
                    "warning",
                    f"The emulated disk {name} answered {since:,} requests late: it was slower than its model.",
                    "Measure again when the host is less busy.",
                )


def virtual(run: Judged) -> Iterator[RunWarning]:
    for node in nodes(run):
        if node.loop and node.loop.emulated:
            yield _emulated(node.name, node.loop.emulated)
        elif node.type == "loop":
            cached = node.loop is not None and node.loop.direct_io is False
            yield item(
                "loop",
                "warning" if cached else "note",
                f"{node.name} is a loop device over {node.loop.backing_file if node.loop else None}"
                + (
                    ", which goes through the page cache even with O_DIRECT: the figures are partly those of memory."
                    if cached
                    else ": its file system is part of what was measured."
                ),
                "Attach it with `losetup --direct-io=on`, or measure the device itself."
                if cached
                else "Measure the device itself if you want figures without the file system.",
            )
        elif node.virtual:
            yield item(
                "virtual_disk",
                "note",
                f"{node.name} ({node.transport or node.model}) is a virtual disk: the host's cache and other guests "
                "are part of what was measured.",
                "Repeat the run at other times of the day, and compare only runs of the same kind of virtual machine.",
            )
        elif node.type in ("zram", "ram", "null"):
            yield item(
                "memory_device",
                "note",
                f"{node.name} is a memory device: the figures are those of the kernel, not of a drive.",
                "Name a real drive to measure one.",
            )
