"""The fact sheet of a host and a target: the circumstances without which no number is shown.

Duty: put the sheets of host, file and devices together. Refusal: it never raises; what cannot be had is null, and
the reason stands under `unknown`.
"""

from __future__ import annotations

from . import cache, health, host
from .roots import Json, Roots
from .target import drives, target_facts


def collect(target_path: str, show_serial: bool = False, roots: Roots | None = None) -> Json:
    """{"host": …, "target": …}, ready for JSON."""
    place = roots or Roots()
    return {"host": host.host_facts(place), "target": collect_target(target_path, show_serial, place)}


def collect_target(target_path: str, show_serial: bool = False, roots: Roots | None = None) -> Json:
    """The "target" of collect() alone, with health and caches."""
    place = roots or Roots()
    facts = target_facts(target_path, show_serial, place)
    try:
        for node in drives(facts):
            node["health"] = health.smart(place, node["path"]) if node["type"] == "disk" else None
            node["temperature"] = health.temperature(place, node["name"])
        facts["cache_bytes"], reason = cache.cache_facts(facts, place)
        if reason:
            facts["unknown"]["cache_bytes"] = reason
    except Exception as error:
        facts.setdefault("unknown", {})["health"] = f"not known: {type(error).__name__}: {error}"
        facts.setdefault("cache_bytes", None)
    return facts
