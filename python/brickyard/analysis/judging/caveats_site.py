"""Warnings about the place of a run: the target, what is below it, and the host.

Duty: rules over facts and what was watched. Refusal: a simulated run has no place, so these rules stay silent on it,
but for the caches that its model has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from brickyard.analysis.figures.reach import may_read, reached_bytes
from brickyard.analysis.figures.stolen import stolen_shares
from brickyard.analysis.judging.cached import (
    BLANK,
    CACHED_SHARE_MAX,
    EMULATED,
    EMULATED_FAULT,
    SHARED_BLOCKS,
    SMALLER_THAN_CACHE,
    TRIMMED_READS,
    WRITTEN_UNKNOWN,
)
from brickyard.analysis.judging.crowding import CPU_FULL, CPU_SHARED, CROWDED, crowding, full_host, wait_share, waited
from brickyard.analysis.judging.judged import Judged
from brickyard.analysis.judging.page_cached import cached_loops, is_cached_loop
from brickyard.analysis.judging.sharing import shared
from brickyard.analysis.judging.unwritten import never_read_bytes
from brickyard.facts import stack
from brickyard.facts.arrays import under_way
from brickyard.schema import (
    ArrayState,
    DeviceSheet,
    EmulatedSheet,
    Engine,
    Flushed,
    Identity,
    IoPath,
    RunWarning,
    TargetKind,
    TargetSheet,
    Unit,
    WatchSheet,
    asks_databases,
    flushed,
    flushes,
    flushes_each_write,
    warned,
    writes_data,
)
from brickyard.schema.plan import Plan
from brickyard.schema.warning import Value, tally

FOREIGN_IO = "foreign_io"

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
        before, after = ends.start.size_bytes or 0, ends.end.size_bytes or 0
        if what := _became(ends.start, ends.end):
            yield warned(
                "target_changed",
                "warning",
                f"{{target}} {what} during the run.",
                "Find out what changed the file, and measure again: the figures are for a file that no longer "
                "exists in that form.",
                gravity=1 - after / before if "{after}" in what else None,
                target=path,
                before=size(before),
                after=size(after),
                links=Unit.NUMBER.of(ends.start.links or 0),
            )


def _became(first: Identity, last: Identity) -> str:
    """As a part of a template."""
    if not first.exists:
        return ""
    if not last.exists:
        return "{target:was|were} removed"
    if (first.device, first.inode) != (last.device, last.inode):
        return "{target:was|were} replaced by another"
    if (last.size_bytes or 0) < (first.size_bytes or 0):
        return "{target:was|were} cut from {before} to {after}"
    return "lost one of {target:its|their} {links} hard links" if (last.links or 0) < (first.links or 0) else ""


size = Unit.BYTES_TENTHS.of


LOOP_CACHED = "loop_cached"
FLUSHES_SAY = "The profile's flushes make the writes before them safe."


def _durable_remedy(run: Judged, switch: str) -> str | None:
    """How to measure durable writes where the profile does not; None where each write of the run is one."""
    if asks_databases(run.plan):
        return f"A database's own flushes make its commits safe (`fsync = on`); without them, {switch}."
    streams = [stream for phase in run.plan.phase for stream in phase.stream] if isinstance(run.plan, Plan) else []
    writing = [stream for stream in streams if stream.trace or writes_data(stream)]
    if not writing or any(stream.trace or not flushes(stream) for stream in writing):
        return (
            'To measure durable writes, use `sync = "dsync"` or a flush after each write (`flush_every`) in the '
            f"profile, or {switch}."
        )
    return None if all(map(flushes_each_write, writing)) else FLUSHES_SAY


def write_cache(run: Judged) -> Iterator[RunWarning]:
    # What lives in memory is lost with the power anyway; another note says so.
    held = [node for node in drives(run) if not node.is_in_memory]
    names = [node.name for node in held if node.has_volatile_write_cache]
    remedy = _durable_remedy(run, "turn the cache off (hdparm -W0, sdparm --clear=WCE)")
    if names and remedy:
        more = "" if len(names) == 1 else " and {more} more"
        yield warned(
            "volatile_write_cache",
            "note" if run.write_bytes == 0 or remedy is FLUSHES_SAY else "warning",
            f"The write cache of {{drive}}{more} is volatile and on (write back): {{volatile}} of {{drives}} drives "
            "may acknowledge a write before it is safe from a power cut.",
            remedy,
            gravity=len(names) / len(held),
            drive=names[0],
            more=Unit.NUMBER.of(len(names) - 1),
            volatile=Unit.NUMBER.of(len(names)),
            drives=Unit.NUMBER.of(len(held)),
        )


def modelled_write_cache(run: Judged) -> Iterator[RunWarning]:
    """The same of a modelled brick, whose caches the model knows. A durable write ends when it is on the medium, unless
    a page cache keeps its flushes from the device."""
    remedy = _durable_remedy(run, "--condition write-cache-off if drives cache writes")
    kept = {
        opened.path
        for opened in (run.start.targets if run.start else [])
        if opened.page_cache is not None and not opened.page_cache.barriers
    }
    for target in run.volatile_caches if run.write_bytes != 0 else ():
        text = "may acknowledge a write before it is safe from a power cut"
        if target.path in kept:
            text = f"{text}, even if it is a durable write, since `page_cache.barriers` is off"
            said = "To measure durable writes, use --set page_cache.barriers=true or --condition write-cache-off."
        elif remedy is None:
            continue
        else:
            said = remedy
        yield warned(
            "volatile_write_cache",
            "note" if said is FLUSHES_SAY else "warning",
            f"{{target}} {text}: {{caches}}.",
            said,
            target=target.path,
            caches=" and ".join(target.caches),
        )


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
            yield warned(
                "array_degraded",
                "warning",
                "The btrfs at {place} is degraded: {missing} members are missing.",
                "Replace the missing member, or compare this run only with others in the degraded condition.",
                place=str(mount.mount_point),
                missing=Unit.NUMBER.of(mount.btrfs.missing_members),
            )


def array_items(name: str, state: _Busy) -> Iterator[RunWarning]:
    array = "The array {array} ({level})" if state.level else "The array {array}"
    names: dict[str, Value] = {"array": name, "level": state.level or ""}
    if state.under_way:
        done = state.done_share
        yield warned(
            "array_syncing",
            "warning",
            f"{array} was busy with {{work}} during the run{', {done} done' if done is not None else ''}.",
            "Wait until sync_action is idle, or compare this run only with others of the same condition.",
            work=state.under_way,
            done=Unit.SHARE_TENTHS.of(done or 0.0),
            also=names,
        )
    if state.degraded:
        members = state.members or 0
        yield warned(
            "array_degraded",
            "warning",
            f"{array} is degraded: {{missing}}{' of {members}' if members else ''} members are missing.",
            "Replace the missing member, or compare this run only with others in the degraded condition.",
            gravity=state.degraded / members if members else None,
            missing=Unit.NUMBER.of(state.degraded),
            members=Unit.NUMBER.of(members),
            also=names,
        )


def target_bytes(run: Judged, index: int, target: TargetSheet | None) -> int | None:
    opened = run.start.targets[index] if run.start and index < len(run.start.targets) else None
    told = (opened.data_bytes, opened.size_bytes) if opened else ()
    return next((value for value in (*told, target.size_bytes if target else None) if value), None)


def reached(run: Judged, index: int, target: TargetSheet | None) -> int | None:
    """How much of a target its streams work in."""
    whole = target_bytes(run, index, target)
    return reached_bytes(run.plan, index, whole) if whole and isinstance(run.plan, Plan) else whole


def memory(run: Judged) -> Iterator[RunWarning]:
    total = run.host.memory_bytes
    if run.start is None or run.is_simulated or not total:
        return
    is_buffered = run.start.io is IoPath.BUFFERED
    for index, target in enumerate(targets(run)):
        loops = [] if is_buffered else cached_loops(target)
        if not is_buffered and not loops:
            continue
        is_flushed = flushed(run.plan, index)
        if is_directory(run, index):
            yield from fits_memory(run, target, total, is_flushed)
            continue
        here = reached(run, index, target)
        if here and here < total and (is_flushed is None or is_flushed.reads):
            run_words = f"this run, which goes through {' and '.join(loops)}," if loops else "this buffered run"
            what = "writes were flushed, but reads" if is_flushed else run_words
            yield warned(
                "smaller_than_memory",
                "warning",
                f"{{target}} {{target:has|have}} {{size}} and the host {{memory}} of memory: {what} may have been "
                "served from the page cache.",
                "Attach it with `losetup --direct-io=on`, or use a file larger than the memory."
                if loops
                else "Use O_DIRECT, or a file larger than the memory.",
                gravity=total / here,
                target=target.path,
                size=size(here),
                memory=size(total),
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
            yield warned(
                "smaller_than_memory",
                "warning",
                "{share} of the pages that were read from {target} came from the {memory} of {target:its|their} "
                "modelled page cache: these are figures of the cache as well.",
                'Use a larger region or less memory (--set memory=256MiB), or io = "direct".',
                share=Unit.SHARE.of(from_memory),
                target=opened.path,
                memory=memory,
            )
        unwritten = did.dirty_pages / did.dirtied_pages if did.dirtied_pages else 0.0
        if unwritten > CACHED_SHARE_MAX:
            yield warned(
                "smaller_than_memory",
                "warning",
                "{share} of the pages that were written to {target} were still in the {memory} of {target:its|their} "
                "modelled page cache when the run ended: these are figures of the cache as well.",
                "Write more, use less memory (--set memory=256MiB), or flush (`fsync = true`).",
                share=Unit.SHARE.of(unwritten),
                target=opened.path,
                memory=memory,
            )


def is_directory(run: Judged, index: int) -> bool:
    started = run.start.targets if run.start else []
    return index < len(started) and started[index].kind is TargetKind.DIRECTORY


def fits_memory(run: Judged, target: TargetSheet, total: int, is_flushed: Flushed | None) -> Iterator[RunWarning]:
    """Files that programs have made: all that was written is at least as much as there is to read."""
    written = run.write_bytes
    if written == 0:
        did = ", and flushed: looking them up" if is_flushed else ": they"
        yield warned(
            "smaller_than_memory",
            "note",
            f"Only metadata (names) were written to {{target}}{did} may have been served from memory.",
            f"Use more files{'' if is_flushed else ', or flush them (`fsync = true`)'}, to measure the storage.",
            target=target.path,
        )
    elif written is not None and written < total and (is_flushed is None or is_flushed.reads):
        fit = "fit into the host's {memory} of memory"
        what = (
            f"were flushed, but {fit}: reads may have come from the page cache."
            if is_flushed
            else f"{fit}: the figures describe the page cache more than the storage."
        )
        yield warned(
            "smaller_than_memory",
            "warning",
            f"The {{written}} that were written to {{target}} {what}",
            "Use files that together are larger than the memory"
            f"{'.' if is_flushed else ', or flush them (`fsync = true`).'}",
            gravity=total / written,
            target=target.path,
            written=size(written),
            memory=size(total),
        )


def device_cache(run: Judged) -> Iterator[RunWarning]:
    for index, target in enumerate(targets(run)):
        cache, here = target.cache_bytes, reached(run, index, target)
        if cache is None:
            if target.kind in ("service", "sim") or is_directory(run, index):
                continue
            yield warned(
                "cache_unknown",
                "note",
                "The cache below {target} is unknown ({why}), so it is not known whether "
                f"{'{size}' if here else 'the target'} is large enough to exceed it.",
                "Look the cache up in the data sheet and use a target of at least four times its size.",
                target=target.path,
                why=target.why("cache_bytes", "not reported"),
                size=size(here or 0),
            )
        elif here and here < CACHE_FACTOR * cache:
            yield _smaller_than_cache(target.path, here, cache)


def modelled_read_cache(run: Judged) -> Iterator[RunWarning]:
    """Reads of a part of a modelled target that its own caches hold."""
    if not run.is_simulated or run.start is None or not isinstance(run.plan, Plan):
        return
    streams = [stream for phase in run.plan.phase for stream in phase.stream]
    for index, (opened, cache) in enumerate(zip(run.start.targets, run.read_caches_bytes, strict=False)):
        here = reached(run, index, None)
        if here and here < CACHE_FACTOR * cache and any(s.operations.read and s.target == index for s in streams):
            yield _smaller_than_cache(opened.path, here, cache)


def _smaller_than_cache(path: str, here: int, cache: int) -> RunWarning:
    return warned(
        SMALLER_THAN_CACHE,
        "warning",
        "The run works in {size} of {target}, only {times} times the {cache} of cache below {target:it|them}.",
        "Use at least {enough}, four times the cache.",
        gravity=cache / here,
        target=path,
        size=size(here),
        times=Unit.TENTHS.of(here / cache),
        cache=size(cache),
        enough=size(CACHE_FACTOR * cache),
    )


def unwritten(run: Judged) -> Iterator[RunWarning]:
    if run.is_simulated or run.start is None:
        return
    for index, opened in enumerate(run.start.targets):
        if isinstance(run.plan, Plan) and not may_read(run.plan, index):
            continue
        sheet = run.targets[index] if index < len(run.targets) else None
        empty, whole = never_read_bytes(run.plan, index, opened, sheet)
        if empty is None and opened.unwritten is not None:
            yield _unknown_share(opened.path, sheet, whole)
        if empty:
            part = "" if whole == target_bytes(run, index, None) else "what is read of "
            yield warned(
                "unwritten",
                "warning",
                f"{{size}} of {part}{{target}}{' ({share})' if whole else ''} were never written, and are read without "
                "accessing the medium.",
                "Write the whole target once before reading it.",
                size=size(empty),
                target=opened.path,
                share=Unit.SHARE_TENTHS.of(min(empty / whole, 1.0) if whole else 0.0),
            )


def _unknown_share(path: str, sheet: TargetSheet | None, read_bytes: int | None) -> RunWarning:
    """Where no header and no file system tells what was written, a few blocks do, if they are of what is read."""
    looked, blank = (sheet.looked_at_blocks, sheet.blank_blocks) if sheet else (None, None)
    of = (sheet.looked_at_bytes or sheet.size_bytes) if sheet else None
    is_of_these = read_bytes is None or of is None or abs(of - read_bytes) <= HEADERS_BYTES
    if not looked or blank is None or not is_of_these:
        return warned(
            WRITTEN_UNKNOWN,
            "warning",
            "What share of {target} has ever been written is unknown; never-written parts are read without "
            "accessing the medium.",
            "Write the whole target once before reading it.",
            target=path,
        )
    if blank:
        return warned(
            BLANK,
            "warning",
            "{blank} of {looked} blocks of {target} ({share}) hold only zeros, as blocks do that were never written or "
            "were trimmed; such blocks are read without accessing the medium.",
            "Write the whole target once before reading it, with data that are not zeros.",
            blank=Unit.COUNT.of(blank),
            looked=Unit.COUNT.of(looked),
            target=path,
            share=Unit.SHARE_TENTHS.of(blank / looked),
        )
    return warned(
        "none_blank",
        "note",
        "What share of {target} has ever been written is not recorded; none of {looked} blocks that were looked at is "
        "blank, so with 95 % confidence at least {share} of it holds data.",
        "Write the whole target once to be sure.",
        looked=Unit.COUNT.of(looked),
        target=path,
        share=Unit.PERCENT.of(UNSEEN_CHANCE ** (1 / looked)),
    )


HEADERS_BYTES = 2 << 20  # a look at a whole device leaves out the MiB of the header, and the data end at a whole MiB
UNSEEN_CHANCE = 0.05  # the chance that so few blanks are seen where there are more


def trimmed_reads(run: Judged) -> Iterator[RunWarning]:
    """Models read such blocks as others."""
    if run.is_simulated or run.start is None:
        return
    for one in run.trimmed_reads:
        yield warned(
            TRIMMED_READS,
            "warning",
            "In phase {phase}, up to {share} of what was read of {target} had been trimmed by the run itself, and was "
            "read without accessing the medium.",
            "Write the blocks again before they are read, or read them in a run of its own: it fills what an earlier "
            "one trimmed.",
            gravity=one.share,
            share=Unit.SHARE_TENTHS.of(one.share),
            phase=run.phase_name(one.phase),
            target=run.start.targets[one.target].path,
        )


def shared_blocks(run: Judged) -> Iterator[RunWarning]:
    """Also on models, whose caches answer the same reads and join the same writes."""
    for number, phase in enumerate(run.plan.phase if isinstance(run.plan, Plan) else ()):
        if found := shared(phase):
            yield warned(
                SHARED_BLOCKS,
                "warning",
                f"In {{phase:phase|phases}} {{phase}}, {{streams}} streams {found.do} the same blocks in order, each "
                f"with a cursor of its own: caches of the drive, the controller or the host may {found.caches_may}.",
                "Give each stream a region of its own (`offset_increment` in fio).",
                phase=run.phase_name(number),
                streams=Unit.NUMBER.of(found.streams),
            )


def neighbours(run: Judged) -> Iterator[RunWarning]:
    for watch in watches(run):
        foreign = watch.foreign
        if foreign is None:
            continue
        if not foreign.known:
            yield warned(
                "foreign_unknown",
                "note",
                "Whether others used the device during the run is not known ({why}).",
                "Make sure that nothing else uses the device.",
                why=str(foreign.reason).removeprefix("not known: "),
            )
        sides = (("read", foreign.read), ("written", foreign.write))
        parts = [(side, part) for side, part in sides if part and part.seen]
        if parts:
            words = " and ".join(f"{{foreign_{side}}} {side}" for side, _ in parts)
            mine = " and ".join(f"{{ours_{side}}} {side}" for side, _ in parts)
            sizes = {f"foreign_{side}": size(part.foreign_bytes or 0) for side, part in parts}
            # What this process moved besides went to other targets of the run, or to its store.
            ours = {side: part.ours_bytes + (part.own_beside_bytes or 0) for side, part in parts}
            sizes |= {f"ours_{side}": size(number) for side, number in ours.items()}
            # A flush of ours makes a file system write its journal, which no counter tells from others' writes.
            kinds = {target.kind for target in run.start.targets} if run.start else set()
            may_be_journal = bool(kinds - {TargetKind.BLOCK}) and any(side == "written" for side, _ in parts)
            yield warned(
                FOREIGN_IO,
                "warning",
                f"Other programs{', or the file system for its journal,' if may_be_journal else ''} used {{devices}} "
                f"during the run: {words}, besides {{whose}} {mine}.",
                f"Stop what else uses the device{', if anything does' if may_be_journal else ''}, and measure again.",
                devices=", ".join(foreign.devices or []),
                whose=foreign.whose or "our own",
                also=sizes,
            )


def processor(run: Judged) -> Iterator[RunWarning]:
    yield from _full(run)
    for watch in watches(run):
        total, worst = stolen_shares(watch.cpu)
        if max(total, worst) > STEAL_SHARE_MAX:
            yield warned(
                "steal",
                "warning",
                "The hypervisor took {total} of the CPU time during the run (steal), and {worst} on the most "
                "affected CPU.",
                "Measure on a quieter or dedicated host, and do not trust the tail of the latencies.",
                total=Unit.SHARE_TENTHS.of(total),
                worst=Unit.SHARE_TENTHS.of(worst),
            )
        yield from _crowded(run, watch)
        if held := watch.throttle.cgroup_events if watch.throttle else None:
            yield warned(
                "cpu_quota",
                "warning",
                "The control group's CPU quota throttled this process {held} times during the run.",
                "Raise the container's CPU limit.",
                held=Unit.NUMBER.of(held),
            )
    governors = (run.host.frequency.governors if run.host.frequency else None) or {}
    slow = {name: count for name, count in governors.items() if name != "performance"}
    if slow and not run.is_simulated:
        cores = sum(governors.values())
        words, values = tally(dict(sorted(slow.items())), "{name} on {number} of {cores} cores")
        yield warned(
            "governor",
            "note",
            f"The CPU frequency governor is not performance ({words}), so latencies of short requests depend "
            "on how busy the CPU is.",
            "Set the governor with `cpupower frequency-set -g performance`.",
            gravity=sum(slow.values()) / cores,
            cores=Unit.NUMBER.of(cores),
            also=values,
        )


def _crowded(run: Judged, watch: WatchSheet) -> Iterator[RunWarning]:
    found = crowding(run.start, watch)
    # Where a phase waited long for a CPU, the warning of that names who had the CPUs.
    if found is None or any(map(waited, run.phase_ends)):
        return
    share = wait_share(run.phase_ends)
    crowded = f"{CROWDED[0].upper()}{CROWDED[1:]}"
    told = f"{crowded}, so requests may have waited for a CPU."
    if share is not None:
        told = f"{crowded}; the generator waited for a CPU {{waited}} of the time."
    yield warned(
        CPU_SHARED,
        "warning" if share is None else "note",
        told,
        "Stop what else runs on this host, and measure again.",
        also={**found.values, **({} if share is None else {"waited": Unit.SHARE.of(share)})},
    )


def _full(run: Judged) -> Iterator[RunWarning]:
    busy = full_host(run.plan, run.watches)
    if busy is not None:
        yield warned(
            CPU_FULL,
            "warning",
            "The CPUs of this host were {busy} busy, with what sent the calls, a database on this host and all else "
            "that ran; how long calls waited for a CPU is not known.",
            "If something else runs on this host, stop it, and measure again.",
            busy=Unit.SHARE.of(busy),
        )


def heat(run: Judged) -> Iterator[RunWarning]:
    for watch in watches(run):
        if events := watch.throttle.cpu_events if watch.throttle else None:
            yield warned(
                "cpu_throttled",
                "warning",
                "The CPU was throttled {events} times during the run because it was too hot.",
                "Improve the cooling, and measure again.",
                events=Unit.NUMBER.of(events),
            )
        after = (watch.temperature.end if watch.temperature else None) or {}
        for name, sensor in sorted(after.items()):
            now, limit = sensor.celsius, sensor.max_celsius
            # An unset limit reads as absolute zero or as 65261 °C, the ends of the register.
            if now is not None and limit is not None and 0 < limit <= now:
                yield warned(
                    "drive_hot",
                    "warning",
                    "{sensor} was at {now} at the end of the run, at or above the {limit} at which it throttles.",
                    "Improve the cooling, let the device cool down, and measure again.",
                    gravity=now - limit,
                    sensor=name,
                    now=Unit.CELSIUS.of(now),
                    limit=Unit.CELSIUS.of(limit),
                )


def _below_store(run: Judged) -> list[str]:
    """Devices of targets on which the store of a run lies too."""
    below = {number for target in targets(run) for number in target.leaf_devices}
    shared = sorted(below & set(run.store.devices)) if run.store else []
    return [node.name for node in drives(run) if node.number in shared] or shared


def store(run: Judged) -> Iterator[RunWarning]:
    if run.start is not None and run.start.engine is Engine.FIO:
        return  # what fio measured is stored when fio has ended
    if run.store and (names := _below_store(run)):
        yield warned(
            "store_on_device",
            "warning",
            "The store {store} lies on {devices}, the device under test, and writes to it every second.",
            "Put the store on another device with --store.",
            store=run.store.path,
            devices=", ".join(names),
        )


def records(run: Judged) -> Iterator[RunWarning]:
    """The same of the record that a worker keeps on its host; a model has no device."""
    if run.store and (names := _below_store(run)):
        yield warned(
            "store_on_device",
            "note",
            "The worker's own record (below {place}) lies on {devices}, the device under test, and is written to every "
            "second.",
            "Set XDG_STATE_HOME on the host to a place on another device before `brickyard fleet up`.",
            place=os.path.dirname(run.store.path),
            devices=", ".join(names),
        )


def _emulated(device: str, disk: EmulatedSheet) -> RunWarning:
    fast = ", {speed} times as fast as the model" if disk.speed != 1 else ""
    timed = "without delays" if disk.model == "none" else f"timed by {{model}}{fast}"
    return warned(
        EMULATED,
        "note",
        f"{{device}} is a disk that brickyard lab emulates, {timed}, cache {{cache}}: no drive was measured.",
        "Compare it with runs on disks that were made in the same way.",
        device=device,
        model=disk.model,
        cache=disk.cache,
        speed=Unit.FACTOR.of(disk.speed),
    )


def late(run: Judged) -> Iterator[RunWarning]:
    """An emulated disk on a host that was too busy is slower than its model."""
    for watch in watches(run):
        if watch.late is None or watch.late.start is None or watch.late.end is None:
            continue
        for name, count in watch.late.end.items():
            if (since := count - watch.late.start.get(name, 0)) > 0:
                yield warned(
                    "emulated_late",
                    "warning",
                    "The emulated disk {device} answered {late} requests late: it was slower than its model.",
                    "Measure again when the host is less busy.",
                    device=name,
                    late=Unit.COUNT.of(since),
                )


def faults(run: Judged) -> Iterator[RunWarning]:
    """An emulated disk with a fault is another disk than the same one without."""
    for watch in watches(run):
        for name, found in (watch.faults or {}).items():
            yield warned(
                EMULATED_FAULT,
                "warning",
                "The emulated disk {device} had faults during the run: {faults}.",
                "Compare it with runs on a disk with the same faults; `brickyard lab status` lists them.",
                device=name,
                faults=", ".join(found),
            )


def virtual(run: Judged) -> Iterator[RunWarning]:
    for node in nodes(run):
        if node.loop and node.loop.emulated:
            yield _emulated(node.name, node.loop.emulated)
        elif node.type == "loop":
            cached = is_cached_loop(node)
            yield warned(
                LOOP_CACHED if cached else "loop",
                "warning" if cached else "note",
                "{device} is a loop device over {file}"
                + (
                    ", which goes through the page cache even with O_DIRECT: the figures are partly those of memory."
                    if cached
                    else ": its file system is part of what was measured."
                ),
                "Attach it with `losetup --direct-io=on`, or measure the device itself."
                if cached
                else "Measure the device itself if you want figures without the file system.",
                device=node.name,
                file=str(node.loop.backing_file if node.loop else None),
            )
        elif node.virtual:
            yield warned(
                "virtual_disk",
                "note",
                "{device} ({kind}) is a virtual disk: the host's cache and other guests are part of what was measured.",
                "Repeat the run at other times of the day, and compare only runs of the same kind of virtual machine.",
                device=node.name,
                kind=str(node.transport or node.model),
            )
        elif node.is_in_memory:
            yield warned(
                "memory_device",
                "note",
                "{device} is a memory device: the figures are those of the kernel, not of a drive.",
                "Name a real drive to measure one.",
                device=node.name,
            )
