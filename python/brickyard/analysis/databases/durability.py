"""Duty: whether the commits of a run of pgbench were durable, by the settings that its server said it had.

Refusal: what the storage below does with a flush is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.store import RunInfo

OF_COMMITS = ("fsync", "synchronous_commit")
"""Settings of PostgreSQL with which, switched off, a power cut loses what a client was told is committed."""
OF_PAGES = ("full_page_writes",)
"""With these, it may leave pages that are half old and half new."""


def undurable(info: RunInfo) -> list[str]:
    """What made its commits not durable: `fsync=off`; nothing where they were."""
    return switched_off(info, OF_COMMITS)


def switched_off(info: RunInfo, names: Sequence[str]) -> list[str]:
    if not info.is_pgbench or not info.opened:
        return []
    own = dict(info.opened[0].settings or [])
    return [f"{name}=off" for name in names if own.get(name) == "off"]
