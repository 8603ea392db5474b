"""Warnings about the place of a run: the target, what is below it, and the host.

Duty: rules over facts and what was watched. Refusal: a simulated run has no place, so these rules stay silent on it,
but for the caches that its model has.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import stack
from .arrays import under_way
from .block import volatile_write_cache
from .caveats_run import cell_sum, item, rows, section, simulated
from .roots import Json

# Time that the hypervisor took away: above one part in a hundred latencies near the tail are its, not the storage's.
STEAL_SHARE_MAX = 0.01
# Where the CPUs are this busy and others have this part of them, a thread that wants to run often waits for its turn.
BUSY_SHARE_MAX = 0.85
OTHERS_SHARE_MAX = 0.2
# A cache of a quarter of the target answers a quarter of uniform requests.
CACHE_FACTOR = 4


def targets(record: Json) -> list[Json]:
    return [] if simulated(record) else rows(section(record, "facts"), "target")


def nodes(record: Json) -> list[Json]:
    """Every device below any target, each once."""
    found: dict[str, Json] = {}
    for target in targets(record):
        for node in stack.devices(target.get("stack") or []):
            found.setdefault(node["major_minor"], node)
    return list(found.values())


def drives(record: Json) -> list[Json]:
    found: dict[str, Json] = {}
    for target in targets(record):
        for node in stack.bottom(target.get("stack") or []):
            found.setdefault(node["major_minor"], node)
    return list(found.values())


def watches(record: Json) -> list[Json]:
    return [] if simulated(record) else rows(record, "watch")


def replaced(record: Json) -> Iterator[Json]:
    """A target that is not what it was at the beginning; what the run measured is gone, or was cut meanwhile."""
    for index, watch in enumerate(watches(record)):
        first, last = section(watch, "identity", "start"), section(watch, "identity", "end")
        if not first.get("exists") or not last:
            continue
        known = targets(record)
        path = known[index].get("path") if index < len(known) else "The target"
        if not last.get("exists"):
            what = "was removed"
        elif any(first.get(key) != last.get(key) for key in ("device", "inode")):
            what = "was replaced by another"
        elif (last.get("size_bytes") or 0) < (first.get("size_bytes") or 0):
            what = f"was cut from {size(first['size_bytes'])} to {size(last.get('size_bytes') or 0)}"
        elif (last.get("links") or 0) < (first.get("links") or 0):
            what = f"lost one of its {first['links']} names"
        else:
            continue
        yield item(
            "target_changed",
            "warning",
            f"{path} {what} while the run went on.",
            "See who did it, and measure again: the figures are of a file that is no longer there as it was.",
        )


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def wrote(record: Json) -> bool | None:
    """Whether the run wrote, or None where the record does not tell."""
    total = section(record, "totals").get("write_bytes")
    if total is not None:
        return bool(total)
    cells = [cell for interval in rows(record, "intervals") for cell in rows(interval, "cells")]
    return any(cell.get("operation") == "write" and cell_sum(cell, "requests") for cell in cells) if cells else None


def write_cache(record: Json) -> Iterator[Json]:
    # What lives in memory is lost with the power anyway; another note says so.
    held = [node for node in drives(record) if node.get("type") not in ("zram", "ram", "null")]
    names = [node["name"] for node in held if volatile_write_cache(section(node, "queue"))]
    if names:
        shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        yield item(
            "volatile_write_cache",
            "note" if wrote(record) is False else "warning",
            f"The write cache of {shown} is volatile and on (write back): {len(names)} of "
            f"{len(held)} drives may "
            "answer a write before it is safe from a power cut.",
            'For the speed of durable writes use `sync = "dsync"` or flushes in the profile, '
            "or turn the cache off (hdparm -W0, sdparm --clear=WCE).",
        )


def modelled_write_cache(record: Json) -> Iterator[Json]:
    """The same of a modelled brick, whose caches the model knows."""
    for target in rows(record, "volatile_caches"):
        yield item(
            "volatile_write_cache",
            "note" if wrote(record) is False else "warning",
            f"{target['path']} may answer a write before it is safe from a power cut: "
            f"{' and '.join(target['caches'])}.",
            'For the speed of durable writes use `sync = "dsync"` or flushes in the profile, or --condition '
            "write-cache-off where drives cache.",
        )


def arrays_busy(record: Json) -> Iterator[Json]:
    seen: dict[str, Json] = {}
    for node in nodes(record):
        facts = section(node, "md") or section(node, "dm", "raid")
        if facts:
            done = facts.get("sync_done_share")
            done = facts.get("in_sync_share") if done is None else done
            seen[node["name"]] = {
                "degraded": facts.get("degraded") or 0,
                "level": facts.get("level"),
                "members": facts.get("raid_disks"),
                "under_way": under_way(facts),
                "done_share": done,
            }
    for watch in watches(record):
        for end in ("start", "end"):
            for name, state in section(watch, "arrays", end).items():
                known = seen.setdefault(name, {})
                known["degraded"] = max(known.get("degraded") or 0, state.get("degraded") or 0)
                if state.get("under_way") and not known.get("under_way"):
                    known.update(under_way=state["under_way"], done_share=state.get("done_share"))
    for name, state in sorted(seen.items()):
        yield from array_items(name, state)
    for target in targets(record):
        missing = section(target, "mount", "btrfs").get("missing_members")
        if missing:
            yield item(
                "array_degraded",
                "warning",
                f"The btrfs at {section(target, 'mount').get('mount_point')} is degraded: {missing} members "
                "are missing.",
                "Replace the missing member, or compare this run only with others of the degraded condition.",
            )


def array_items(name: str, state: Json) -> Iterator[Json]:
    level = f" ({state['level']})" if state.get("level") else ""
    if state.get("under_way"):
        done = state.get("done_share")
        yield item(
            "array_syncing",
            "warning",
            f"The array {name}{level} was busy with {state['under_way']} during the "
            f"run{f', {done:.1%} done' if done is not None else ''}.",
            "Wait until sync_action is idle, or compare this run only with others of the same condition.",
        )
    if state.get("degraded"):
        of = f" of {state['members']}" if state.get("members") else ""
        yield item(
            "array_degraded",
            "warning",
            f"The array {name}{level} is degraded: {state['degraded']}{of} members are missing.",
            "Replace the missing member, or compare this run only with others of the degraded condition.",
        )


def target_bytes(record: Json, index: int, target: Json) -> int | None:
    started = rows(section(record, "start"), "targets")
    told = started[index] if index < len(started) else {}
    for value in (told.get("data_bytes"), told.get("size_bytes"), target.get("size_bytes")):
        if value:
            return int(value)
    return None


def memory(record: Json) -> Iterator[Json]:
    total = section(record, "facts", "host", "memory").get("total_bytes")
    if section(record, "start").get("io") != "buffered" or not total:
        return
    for index, target in enumerate(targets(record)):
        if is_directory(record, index):
            yield from fits_memory(record, target, total)
            continue
        here = target_bytes(record, index, target)
        if here and here < total:
            yield item(
                "smaller_than_memory",
                "warning",
                f"{target.get('path')} has {size(here)} and the host {size(total)} of memory: this buffered "
                "run can be answered out of the page cache.",
                "Use O_DIRECT, or a file larger than the memory.",
            )


def is_directory(record: Json, index: int) -> bool:
    started = rows(section(record, "start"), "targets")
    return index < len(started) and started[index].get("kind") == "directory"


def fits_memory(record: Json, target: Json, total: int) -> Iterator[Json]:
    """Files that programs have made: all that was written is at least as much as there is to read."""
    written = section(record, "totals").get("write_bytes")
    if written == 0:
        yield item(
            "smaller_than_memory",
            "note",
            f"Nothing but names was written to {target.get('path')}: its metadata may have been served from memory.",
            "Use more files, or flush them (`fsync = true`), if the storage is to be judged.",
        )
    elif written is not None and written < total:
        yield item(
            "smaller_than_memory",
            "warning",
            f"The {size(written)} that were written to {target.get('path')} fit into the host's "
            f"{size(total)} of memory: these are figures of the page cache more than of the storage.",
            "Use files that together are larger than the memory, or flush them (`fsync = true`).",
        )


def device_cache(record: Json) -> Iterator[Json]:
    for index, target in enumerate(targets(record)):
        cache, here = target.get("cache_bytes"), target_bytes(record, index, target)
        if cache is None:
            if target.get("kind") in ("service", "sim") or is_directory(record, index):
                continue
            reason = str(section(target, "unknown").get("cache_bytes") or "not told").removeprefix("not known: ")
            yield item(
                "cache_unknown",
                "note",
                f"The cache below {target.get('path')} is unknown ({reason}), so nothing says whether "
                f"{size(here) if here else 'the target'} is large enough to defeat it.",
                "Look the cache up in the data sheet and use a target of at least four times its size.",
            )
        elif here and here < CACHE_FACTOR * cache:
            yield item(
                "smaller_than_cache",
                "warning",
                f"{target.get('path')} has {size(here)}, only {here / cache:.1f} times the {size(cache)} of "
                "cache below it.",
                f"Use a target of at least {size(CACHE_FACTOR * cache)}, four times the cache.",
            )


def unwritten(record: Json) -> Iterator[Json]:
    if simulated(record):
        return
    facts = targets(record)
    for index, target in enumerate(rows(section(record, "start"), "targets")):
        told, path = target.get("unwritten"), target.get("path")
        if told == "unknown":
            yield item(
                "unwritten_unknown",
                "warning",
                f"What share of {path} was ever written is unknown, and what never was is read without "
                "touching the medium.",
                "Write the whole target once before reading it.",
            )
            continue
        empty, whole = unwritten_bytes(told), target_bytes(record, index, target)
        if told is None and index < len(facts):
            # Facts are gathered before preparation, which fills the holes and says "none".
            empty = (facts[index].get("hole_bytes") or 0) + (facts[index].get("unwritten_bytes") or 0)
        if empty:
            share = f" ({min(empty / whole, 1.0):.1%})" if whole else ""
            yield item(
                "unwritten",
                "warning",
                f"{size(empty)} of {path}{share} were never written, and are read without touching the medium.",
                "Write the whole target once before reading it.",
            )


def unwritten_bytes(told: object) -> int | None:
    """What the start of a run tells: a count of bytes as text, or a word."""
    return int(told) if isinstance(told, (str, int)) and str(told).isdecimal() else None


def neighbours(record: Json) -> Iterator[Json]:
    for watch in watches(record):
        foreign = section(watch, "foreign")
        if foreign and foreign.get("known") is False:
            reason = str(foreign.get("reason")).removeprefix("not known: ")
            yield item(
                "foreign_unknown",
                "note",
                f"Whether others used the device during the run is not known ({reason}).",
                "Make sure that nothing else uses it.",
            )
        parts = [(name, section(foreign, name)) for name in ("read", "write") if section(foreign, name).get("seen")]
        if parts:
            words = " and ".join(
                f"{size(part['foreign_bytes'])} {'read' if name == 'read' else 'written'}" for name, part in parts
            )
            mine = " and ".join(
                f"{size(part['ours_bytes'])} {'read' if name == 'read' else 'written'}" for name, part in parts
            )
            yield item(
                "foreign_io",
                "warning",
                f"Other programs used {', '.join(map(str, foreign.get('devices') or []))} during the run: {words}, "
                f"besides {foreign.get('whose', 'our own')} {mine}.",
                "Stop what else uses the device, and measure again.",
            )


def processor(record: Json) -> Iterator[Json]:
    for watch in watches(record):
        cpu = section(watch, "cpu")
        total, worst = cpu.get("steal_share") or 0.0, cpu.get("worst_steal_share") or 0.0
        if max(total, worst) > STEAL_SHARE_MAX:
            yield item(
                "steal",
                "warning",
                f"The hypervisor took away {total:.1%} of the CPU time during the run, and {worst:.1%} on the "
                "CPU it hit most.",
                "Measure on a quieter or dedicated host, and do not trust the tail of the latencies.",
            )
        yield from _crowded(record, watch)
        held = section(watch, "throttle").get("cgroup_events") or 0
        if held:
            yield item(
                "cpu_quota",
                "warning",
                f"The control group's CPU quota held this process back {held} times during the run.",
                "Raise the container's CPU limit.",
            )
    governors = section(section(record, "facts", "host", "frequency"), "governors")
    slow = {name: count for name, count in governors.items() if name != "performance"}
    if slow and not simulated(record):
        total = sum(governors.values())
        words = ", ".join(f"{name} on {count} of {total} cores" for name, count in sorted(slow.items()))
        yield item(
            "governor",
            "note",
            f"The CPU frequency governor is not performance ({words}), so latencies of short requests depend "
            "on how busy the CPU is.",
            "Set it with `cpupower frequency-set -g performance`.",
        )


def _crowded(record: Json, watch: Json) -> Iterator[Json]:
    """Only where this process does the work itself: drivers of a replay, fio and servers are processes of their own."""
    if section(record, "start").get("engine") not in ("io_uring", "psync"):
        return
    cpu, own, lasted_ns = section(watch, "cpu"), section(watch, "process"), watch.get("duration_ns") or 0
    busy, cores = cpu.get("busy_share") or 0.0, len(section(cpu, "each"))
    if not (own and lasted_ns and cores):
        return
    others = busy - (own.get("user_ns", 0) + own.get("system_ns", 0)) / lasted_ns / cores
    if busy > BUSY_SHARE_MAX and others > OTHERS_SHARE_MAX:
        yield item(
            "cpu_shared",
            "warning",
            f"The CPUs were {busy:.0%} busy, {others:.0%} with other processes, so requests may have waited for a CPU.",
            "Stop what else runs on this host, and measure again.",
        )


def heat(record: Json) -> Iterator[Json]:
    for watch in watches(record):
        events = section(watch, "throttle").get("cpu_events") or 0
        if events:
            yield item(
                "cpu_throttled",
                "warning",
                f"The CPU slowed down {events} times during the run because it was too hot.",
                "Improve the cooling, and measure again.",
            )
        for name, after in sorted(section(watch, "temperature", "end").items()):
            now, limit = after.get("celsius"), after.get("max_celsius")
            # An unset limit reads as absolute zero or as 65261 °C, the ends of the register.
            if now is not None and limit is not None and 0 < limit <= now:
                yield item(
                    "drive_hot",
                    "warning",
                    f"{name} was at {now:.0f} °C at the end of the run, at or above the {limit:.0f} °C from "
                    "which it slows down.",
                    "Improve the cooling, let it rest, and measure again.",
                )


def store(record: Json) -> Iterator[Json]:
    place = section(record, "store")
    below = {number for target in targets(record) for number in target.get("leaf_devices") or []}
    shared = sorted(below & set(place.get("devices") or []))
    if shared:
        names = [node["name"] for node in drives(record) if node["major_minor"] in shared] or shared
        yield item(
            "store_on_device",
            "warning",
            f"The store {place.get('path')} lies on {', '.join(names)}, the device under test, and writes to "
            "it every second.",
            "Put the store on another device with --store.",
        )


def virtual(record: Json) -> Iterator[Json]:
    for node in nodes(record):
        if node.get("type") == "loop":
            loop = section(node, "loop")
            cached = loop.get("direct_io") is False
            yield item(
                "loop",
                "warning" if cached else "note",
                f"{node['name']} is a loop device over {loop.get('backing_file')}"
                + (
                    ", which goes through the page cache even with O_DIRECT: memory was measured in part."
                    if cached
                    else ": its file system is part of what was measured."
                ),
                "Attach it with `losetup --direct-io=on`, or measure the device itself."
                if cached
                else "Measure the device itself if that is what you want to know.",
            )
        elif node.get("virtual"):
            yield item(
                "virtual_disk",
                "note",
                f"{node['name']} ({node.get('transport') or node.get('model')}) is a virtual disk: the host's "
                "cache and neighbours are part of what was measured.",
                "Repeat the run at other times of the day, and compare only runs of the same kind of virtual machine.",
            )
        elif node.get("type") in ("zram", "ram", "null"):
            yield item(
                "memory_device",
                "note",
                f"{node['name']} lives in memory: the figures are the kernel's, not those of a drive.",
                "Name a real drive to measure one.",
            )
