"""Duty: what a run of pgbench was set to where that is not the default, as `--set` has it; the defaults themselves.

It is taken of what the store keeps of a run, so that runs of earlier versions have it too.

Refusal: what may be set is not checked here.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from brickyard.schema.duration import duration_text
from brickyard.schema.plan import OtherPlan, PgbenchAsked

SETTING = "pg."
"""Before the name of a setting of the server."""
HASH_SHOWN = 12
"""Digits of a hash that tell contents apart."""
PGBENCH = PgbenchAsked(
    scale=10,
    clients=1,
    threads=0,
    transactions=1000,
    script="tpcb-like",
    protocol="prepared",
    server="wheel",
    checksums="default",
    preset="default",
)
"""What a run of pgbench is without `--set`; its threads are `usual_threads`."""
KIRKWOOD = {
    "shared_buffers": "40000kB",
    "wal_buffers": "800kB",
    "max_wal_size": "480MB",
    "checkpoint_completion_target": "0",
    "autovacuum": "off",
}
"""5000 and 100 pages of 8 KiB; three times 10 segments of 16 MiB; checkpoints that are not spread, and no autovacuum,
as in the PostgreSQL of 2003."""
PRESETS: dict[str, dict[str, str]] = {"default": {}, "kirkwood-2003": KIRKWOOD}


def usual_threads(clients: int, cores: int) -> int:
    """As many as there are cores, at most one a client."""
    return max(1, min(clients, cores))


def changes_of(plan: OtherPlan, cores: int) -> list[str]:
    """`scale=100`, `pg.fsync=off`: what a run does other than one without `--set`, on a host of so many cores. Always
    in this order, the settings of the server by name, so that equal loads have equal words."""
    return [f"{key}={value}" for key, value in _pgbench(plan, plan.pgbench, cores)] if plan.pgbench else []


def _pgbench(plan: OtherPlan, asked: PgbenchAsked, cores: int) -> Iterator[tuple[str, object]]:
    yield from _unlike(asked, "scale", "clients")
    if asked.threads != usual_threads(asked.clients, cores):
        yield "threads", asked.threads
    lasts = next((phase.duration for phase in plan.phase), None)
    if lasts:
        yield "duration", duration_text(lasts.ns // 1000)
    else:
        yield from _unlike(asked, "transactions")
    if asked.rate_per_s is not None:
        yield "rate", f"{asked.rate_per_s:.15g}"
    if asked.script_hash is not None:
        yield "script", f"{os.path.basename(asked.script)} (SHA-256 {asked.script_hash[:HASH_SHOWN]})"
    else:
        yield from _unlike(asked, "script")
    yield from _unlike(asked, "protocol", "server", "preset", "checksums")
    of_preset = PRESETS.get(asked.preset, {})
    yield from ((f"{SETTING}{name}", of) for name, of in sorted(asked.settings.items()) if of_preset.get(name) != of)


def _unlike(asked: PgbenchAsked, *keys: str) -> Iterator[tuple[str, object]]:
    yield from ((key, value) for key in keys if (value := getattr(asked, key)) != getattr(PGBENCH, key))
