"""Duty: the loads behind the rule-of-thumb charts. Refusal: runs nothing; what the studies have as profiles is used."""

from __future__ import annotations

from brickyard import profiles
from brickyard.schema.plan import Plan

LOAD = """title = "{title}"
[[phase]]
name = "measure"
duration = "{seconds}s"
warmup = "{warmup}s"
[[phase.stream]]
name = "load"
operations = {{ read = {reads}, write = {writes} }}
request = [{sizes}]
align = "{align}"
address = "{address}"
region = "{region}"
workers = {workers}
depth = {depth}
"""


def plan(
    title: str,
    sizes: str | tuple[str, ...],
    address: str,
    depth: int,
    *,
    reads: float = 100,
    workers: int = 1,
    region: str = "0..100%",
    seconds: int = 20,
    warmup: int = 2,
) -> Plan:
    """A load of one stream; several request sizes have equal shares."""
    several = (sizes,) if isinstance(sizes, str) else sizes
    text = LOAD.format(
        title=title,
        sizes=", ".join(f'{{ size = "{size}", share = {100 / len(several):g} }}' for size in several),
        align=several[0],
        address=address,
        depth=depth,
        workers=workers,
        reads=reads,
        writes=100 - reads,
        region=region,
        seconds=seconds,
        warmup=warmup,
    )
    return profiles.validate(profiles.ProfileText(title, text, ""), [])
