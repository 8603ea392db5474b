"""Fact sheets of what joins or maps devices: md, device mapper, bcache, loop.

Duty: level, chunk, members, state and mapping. Refusal: it changes nothing and asks no array to do anything.
"""

from __future__ import annotations

import re

from brickyard.schema.sheets import Reasons
from brickyard.schema.target_sheet import BcacheSheet, DmRaid, DmSheet, LoopSheet, MdMember, MdSheet

from . import emulated
from .roots import Roots, as_number, entries, flag, number, text

DM_PREFIXES = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"), ("part", "partition"), ("VDO-", "vdo"))


def parse_progress(words: str | None) -> float | None:
    """The share done out of md's '1234 / 5678' sectors, or None where nothing is under way."""
    match = re.match(r"(\d{1,20}) / (\d{1,20})$", words or "")
    return int(match.group(1)) / int(match.group(2)) if match and int(match.group(2)) else None


def md_facts(roots: Roots, name: str) -> MdSheet:
    base = roots.at_sys("class", "block", name, "md")
    completed = text(base, "sync_completed")
    return MdSheet(
        level=text(base, "level"),
        raid_disks=number(base, "raid_disks"),
        chunk_bytes=number(base, "chunk_size"),
        layout=text(base, "layout"),
        array_state=text(base, "array_state"),
        sync_action=text(base, "sync_action"),
        sync_completed=completed,
        sync_speed_kib_per_s=number(base, "sync_speed"),
        degraded=number(base, "degraded"),
        mismatch_count=number(base, "mismatch_cnt"),
        stripe_cache_size=number(base, "stripe_cache_size"),
        consistency_policy=text(base, "consistency_policy"),
        bitmap=text(base, "bitmap", "location"),
        metadata_version=text(base, "metadata_version"),
        uuid=text(base, "uuid"),
        sync_done_share=parse_progress(completed),
        members=[md_member(base, entry) for entry in entries(base) if entry.startswith("dev-")],
    ).explained("this level or kernel does not tell", sync_done_share="nothing is under way")


def md_member(base: str, entry: str) -> MdMember:
    return MdMember(
        name=entry.removeprefix("dev-"),
        state=text(base, entry, "state"),
        slot=as_number(text(base, entry, "slot")),
        errors=number(base, entry, "errors"),
        recovery_start=text(base, entry, "recovery_start"),
    )


def dm_facts(roots: Roots, name: str) -> DmSheet:
    base = roots.at_sys("class", "block", name, "dm")
    reasons = Reasons()
    mapping, uuid = reasons.of("mapping", text(base, "name")), text(base, "uuid")
    owner = next((words for prefix, words in DM_PREFIXES if (uuid or "").startswith(prefix)), None)
    answer, reason = roots.tools.run("dmsetup", "table", mapping) if mapping else (None, "the mapping has no name")
    kinds = parse_dm_table(answer or "")
    sheet = DmSheet(
        mapping=mapping,
        uuid=reasons.of("uuid", uuid, "this mapping has none"),
        suspended=reasons.of("suspended", flag(base, "suspended")),
        owner=reasons.of("owner", owner, "its identifier does not tell"),
        targets=reasons.of("targets", kinds or None, reason or "dmsetup lists none"),
        unknown=reasons.unknown,
    )
    if "raid" in kinds and mapping:
        answer, reason = roots.tools.run("dmsetup", "status", mapping)
        sheet.raid = reasons.of("raid", parse_dm_raid(answer or ""), reason or "dmsetup status cannot be read")
    return sheet


def parse_dm_table(content: str) -> list[str]:
    """The kinds of target of a mapping, each once, in order: linear, striped, crypt, raid, thin …"""
    found = (match.group(1) for match in re.finditer(r"^(?:\S+: )?\d+ \d+ ([\w-]+)", content, re.MULTILINE))
    return list(dict.fromkeys(found))


def parse_dm_raid(content: str) -> DmRaid | None:
    """dm-raid's status: level, members, one letter each (A alive, a alive and not in sync, D dead), sectors in sync."""
    match = re.search(r" raid (\w+) (\d{1,6}) ([AaDd-]+) (\d{1,20})/(\d{1,20})(?: (\w+))?", content)
    if not match:
        return None
    level, members, health, done, total, action = match.groups()
    return DmRaid(
        level=level,
        raid_disks=int(members),
        degraded=health.count("D") + health.count("d"),
        in_sync_share=int(done) / int(total) if int(total) else None,
        sync_action=action,
    )


def bcache_facts(roots: Roots, name: str) -> BcacheSheet:
    base = roots.at_sys("class", "block", name, "bcache")
    words = text(base, "cache_mode")
    match = re.search(r"\[(\w+)\]", words or "")
    return BcacheSheet(
        cache_mode=match.group(1) if match else words,
        state=text(base, "state"),
        dirty_data=text(base, "dirty_data"),
        sequential_cutoff=text(base, "sequential_cutoff"),
        writeback_percent=text(base, "writeback_percent"),
    ).explained()


def loop_facts(roots: Roots, name: str) -> LoopSheet:
    base = roots.at_sys("class", "block", name, "loop")
    path, none = text(base, "backing_file"), "no file is behind it"
    return LoopSheet(
        deleted=None if path is None else path.endswith(" (deleted)"),
        backing_file=path.removesuffix(" (deleted)") if path else None,
        offset_bytes=number(base, "offset"),
        size_limit_bytes=number(base, "sizelimit"),
        direct_io=flag(base, "dio"),
        emulated=emulated.emulated(path),
    ).explained(deleted=none, backing_file=none)


def under_way(action: str | None) -> str | None:
    """What an array is doing beside its work, by its sync_action: resync, recover, check, repair, reshape; None for
    nothing."""
    return None if action in (None, "idle", "frozen") else action
