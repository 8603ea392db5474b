"""Duty: whether the commits of a run of pgbench were durable, by the settings that its server said it had, unless its
script chooses by itself.

Refusal: what the storage below does with a flush is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.errors import BadInputError
from brickyard.schema.plan import OtherPlan
from brickyard.store import RunInfo

OF_SESSIONS = "synchronous_commit"
"""Each transaction may set it for itself."""
OF_COMMITS = ("fsync", OF_SESSIONS)
"""Settings of PostgreSQL with which, switched off, a power cut loses what a client was told is committed."""
OF_PAGES = ("full_page_writes",)
"""With these, it may leave pages that are half old and half new."""


def undurable(info: RunInfo) -> list[str]:
    """What made its commits not durable: `fsync=off`; nothing where they were, or where that is not known."""
    return switched_off(info, [name for name in OF_COMMITS if name != OF_SESSIONS or not _script_chooses(info)])


def is_unknown(info: RunInfo) -> bool:
    """Its script chooses which commits are durable, and nothing else says that none was."""
    return _script_chooses(info) and not undurable(info)


def _script_chooses(info: RunInfo) -> bool:
    """The text that a record keeps has no comments."""
    if not info.is_pgbench:
        return False
    try:
        plan = info.plan
    except BadInputError:  # a damaged record
        return False
    asked = plan.pgbench if isinstance(plan, OtherPlan) else None
    return asked is not None and OF_SESSIONS in (asked.script_text or "").lower()


def switched_off(info: RunInfo, names: Sequence[str]) -> list[str]:
    if not info.is_pgbench or not info.opened:
        return []
    own = dict(info.opened[0].settings or [])
    return [f"{name}=off" for name in names if own.get(name) == "off"]
