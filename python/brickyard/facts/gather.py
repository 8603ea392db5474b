"""The fact sheets of a host and a target: the circumstances without which no number is shown.

Duty: put the sheets of host, file and devices together. Refusal: it never raises; what cannot be had is null, and
the reason stands under `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass

from brickyard.schema.host_sheet import HostSheet
from brickyard.schema.sheets import not_known
from brickyard.schema.target_sheet import TargetSheet

from . import cache, health, host
from .roots import Roots
from .target import drives, target_facts


@dataclass(frozen=True)
class Collected:
    host: HostSheet
    target: TargetSheet


def collect(target_path: str, show_serial: bool = False, roots: Roots | None = None) -> Collected:
    place = roots or Roots()
    return Collected(host.host_facts(place), collect_target(target_path, show_serial, place))


def collect_target(target_path: str, show_serial: bool = False, roots: Roots | None = None) -> TargetSheet:
    """The sheet of a target with health and caches."""
    place = roots or Roots()
    facts = target_facts(target_path, show_serial, place)
    try:
        for node in drives(facts):
            node.health = health.smart(place, node.path or "") if node.type == "disk" else None
            node.temperature = health.temperature(place, node.name)
        facts.cache_bytes, reason = cache.cache_facts(facts, place)
        if reason:
            facts.unknown["cache_bytes"] = reason
    except Exception as error:
        facts.unknown["health"] = not_known(f"{type(error).__name__}: {error}")
    return facts
