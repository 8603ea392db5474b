"""Duty: from a target or an address to its array, and all arrays of this host. Refusal: it changes nothing."""

from __future__ import annotations

import os

from brickyard.arrays.array import Array
from brickyard.arrays.host import Host
from brickyard.arrays.md import Md, md_names
from brickyard.errors import BadInputError
from brickyard.facts import stack
from brickyard.facts.target import target_facts


def named(address: str, host: Host | None = None) -> Array:
    """The array of an address."""
    place = host or Host()
    if not os.path.exists(address):
        raise BadInputError(f"{address}: no such array; `brickyard array list` shows what there is")
    found = find(address, place)
    if found is None:
        raise BadInputError(
            f"{address}: lies on no array that is known here; `brickyard array list` shows what there is"
        )
    return found


def find(target: str, host: Host | None = None) -> Array | None:
    """The array that a target lies on, the nearest first; None where there is none that this host's kernel knows."""
    place = host or Host()
    facts = target_facts(target, False, place.roots)
    for node in stack.walk(facts.get("stack") or []):
        if node.get("type") == "md":
            return Md(str(node["name"]), place)
    return None


def all_arrays(host: Host | None = None) -> list[Array]:
    """Every array that the kernel tells of."""
    place = host or Host()
    return [Md(name, place) for name in md_names(place)]
