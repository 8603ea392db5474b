"""Duty: what a shipped profile leaves open until its target's size is known: how many requests a share of it are.

Refusal: whatever the user has set stays; profiles of the user's own are left alone.
"""

from __future__ import annotations

from brickyard import facts, profiles
from brickyard.store import Json

DATA_START_BYTES = 1 << 20  # where the data of an existing target begin, behind our header
MEMORY_FACTOR = 2  # iowork's file was twice the memory (Kirkwood 2003); smaller, and it measures the cache
BLOCKS_SHARE = {"iowork": {"random-write": 0.1, "random-read": 0.1}}
"""Phases that touch a share of the target's blocks (iowork: 10 %, Kirkwood 2003)."""


def own_size(profile: profiles.ProfileText) -> str | None:
    """The size that a profile's file has where nobody says another."""
    if not _is_shipped(profile, "iowork"):
        return None
    memory = (facts.collect("/")["host"].get("memory") or {}).get("total_bytes")
    return str(MEMORY_FACTOR * int(memory)) if memory else None


def fitted(profile: profiles.ProfileText, plan: Json, size_bytes: int | None, *, is_new: bool) -> list[str]:
    """Overrides that fit a profile to its target, to be applied before those of the user.

    A file that is to be made gets its size in data; one that exists has the header in its size.
    """
    shares = BLOCKS_SHARE.get(profile.name, {})
    if not shares or size_bytes is None or not _is_shipped(profile, profile.name):
        return []
    data_bytes = size_bytes if is_new else size_bytes - DATA_START_BYTES
    found = []
    for phase in plan["phase"]:
        if phase["name"] in shares:
            blocks = data_bytes // int(phase["stream"][0]["request"][0]["size"])
            found.append(f"{phase['name']}.requests={max(1, int(blocks * shares[phase['name']]))}")
    return found


def _is_shipped(profile: profiles.ProfileText, name: str) -> bool:
    return profile.name == name and name in profiles.names() and profiles.read(name).place == profile.place
