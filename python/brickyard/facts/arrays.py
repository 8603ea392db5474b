"""Fact sheets of what joins or maps devices: md, device mapper, bcache, loop.

Duty: level, chunk, members, state and mapping. Refusal: it changes nothing and asks no array to do anything.
"""

from __future__ import annotations

import re

from .roots import Json, Known, Roots, as_number, entries, flag, number, text

DM_PREFIXES = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"), ("part", "partition"), ("VDO-", "vdo"))


def parse_progress(words: str | None) -> float | None:
    """The share done out of md's '1234 / 5678' sectors, or None where nothing is under way."""
    match = re.match(r"(\d{1,20}) / (\d{1,20})$", words or "")
    return int(match.group(1)) / int(match.group(2)) if match and int(match.group(2)) else None


def md_facts(roots: Roots, name: str) -> Json:
    base = roots.at_sys("class", "block", name, "md")
    known = Known()
    for key, value in (
        ("level", text(base, "level")),
        ("raid_disks", number(base, "raid_disks")),
        ("chunk_bytes", number(base, "chunk_size")),
        ("layout", text(base, "layout")),
        ("array_state", text(base, "array_state")),
        ("sync_action", text(base, "sync_action")),
        ("sync_completed", text(base, "sync_completed")),
        ("sync_speed_kib_per_s", number(base, "sync_speed")),
        ("degraded", number(base, "degraded")),
        ("mismatch_count", number(base, "mismatch_cnt")),
        ("stripe_cache_size", number(base, "stripe_cache_size")),
        ("consistency_policy", text(base, "consistency_policy")),
        ("bitmap", text(base, "bitmap", "location")),
        ("metadata_version", text(base, "metadata_version")),
        ("uuid", text(base, "uuid")),
    ):
        known.put(key, value, "this level or kernel does not tell")
    done = parse_progress(known.values["sync_completed"])
    known.put("sync_done_share", done, "nothing is under way")
    known.put("members", [md_member(base, entry) for entry in entries(base) if entry.startswith("dev-")])
    return known.done()


def md_member(base: str, entry: str) -> Json:
    return {
        "name": entry.removeprefix("dev-"),
        "state": text(base, entry, "state"),
        "slot": as_number(text(base, entry, "slot")),
        "errors": number(base, entry, "errors"),
        "recovery_start": text(base, entry, "recovery_start"),
    }


def dm_facts(roots: Roots, name: str) -> Json:
    base = roots.at_sys("class", "block", name, "dm")
    known = Known()
    known.put("mapping", text(base, "name"))
    uuid = text(base, "uuid")
    known.put("uuid", uuid, "this mapping has none")
    known.put("suspended", flag(base, "suspended"))
    owner = next((words for prefix, words in DM_PREFIXES if (uuid or "").startswith(prefix)), None)
    known.put("owner", owner, "its identifier does not tell")
    mapping = known.values["mapping"]
    answer, reason = roots.tools.run("dmsetup", "table", mapping) if mapping else (None, "the mapping has no name")
    kinds = parse_dm_table(answer or "")
    known.put("targets", kinds or None, reason or "dmsetup lists none")
    if "raid" in kinds and mapping:
        answer, reason = roots.tools.run("dmsetup", "status", mapping)
        known.put("raid", parse_dm_raid(answer or ""), reason or "dmsetup status cannot be read")
    return known.done()


def parse_dm_table(content: str) -> list[str]:
    """The kinds of target of a mapping, each once, in order: linear, striped, crypt, raid, thin …"""
    found = (match.group(1) for match in re.finditer(r"^(?:\S+: )?\d+ \d+ ([\w-]+)", content, re.MULTILINE))
    return list(dict.fromkeys(found))


def parse_dm_raid(content: str) -> Json | None:
    """dm-raid's status: level, members, one letter each (A alive, a alive and not in sync, D dead), sectors in sync."""
    match = re.search(r" raid (\w+) (\d{1,6}) ([AaDd-]+) (\d{1,20})/(\d{1,20})(?: (\w+))?", content)
    if not match:
        return None
    level, members, health, done, total, action = match.groups()
    return {
        "level": level,
        "raid_disks": int(members),
        "degraded": health.count("D") + health.count("d"),
        "in_sync_share": int(done) / int(total) if int(total) else None,
        "sync_action": action,
    }


def bcache_facts(roots: Roots, name: str) -> Json:
    base = roots.at_sys("class", "block", name, "bcache")
    known = Known()
    for key in ("cache_mode", "state", "dirty_data", "sequential_cutoff", "writeback_percent"):
        known.put(key, text(base, key))
    words = known.values["cache_mode"]
    match = re.search(r"\[(\w+)\]", words or "")
    known.put("cache_mode", match.group(1) if match else words)
    return known.done()


def loop_facts(roots: Roots, name: str) -> Json:
    base = roots.at_sys("class", "block", name, "loop")
    known = Known()
    path = text(base, "backing_file")
    known.put("deleted", None if path is None else path.endswith(" (deleted)"), "no file is behind it")
    known.put("backing_file", path.removesuffix(" (deleted)") if path else None, "no file is behind it")
    known.put("offset_bytes", number(base, "offset"))
    known.put("size_limit_bytes", number(base, "sizelimit"))
    known.put("direct_io", flag(base, "dio"))
    return known.done()


def under_way(md: Json) -> str | None:
    """What an array is doing beside its work: resync, recover, check, repair, reshape; None for nothing."""
    action = md.get("sync_action")
    return None if action in (None, "idle", "frozen") else str(action)
