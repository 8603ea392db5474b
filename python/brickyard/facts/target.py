"""What a target is: kind, file system, and the stack of devices below it.

Duty: the part of a target's facts that the system tells without asking a drive. Refusal: no health, no cache; those
ask drives and cost time.
"""

from __future__ import annotations

import os
import re
import stat

from . import block, mounts, stack
from .roots import Json, Known, Roots

# Targets that are no path: a simulated brick, a database.
NO_PATH = re.compile(r"^(sim:|[a-z][a-z0-9+]*://)")


def drives(facts: Json) -> list[Json]:
    """The devices at the bottom of a target's stack."""
    return stack.bottom(facts.get("stack") or [])


def target_facts(path: str, show_serial: bool, roots: Roots) -> Json:
    """Kind, file system and stack of a target, without asking any drive."""
    try:
        return describe(path, show_serial, roots)
    except Exception as error:
        reason = f"not known: {type(error).__name__}: {error}"
        return {"path": path, "kind": None, "stack": [], "leaf_devices": [], "unknown": {"kind": reason}}


def describe(path: str, show_serial: bool, roots: Roots) -> Json:
    if NO_PATH.match(path):
        kind = "sim" if path.startswith("sim:") else "service"
        reason = "not known: a simulated brick" if kind == "sim" else "not known: a service, not a path"
        return {"path": path, "kind": kind, "stack": [], "leaf_devices": [], "unknown": {"stack": reason}}
    known = Known(path=path, real_path=os.path.realpath(path))
    mode = mode_of(path)
    if mode is not None and stat.S_ISBLK(mode):
        known.put("kind", "block")
        describe_block(known, path, show_serial, roots)
    else:
        describe_file(known, path, mode, show_serial, roots)
    nodes = known.values["stack"]
    known.put("devices", [node["name"] for node in stack.devices(nodes)])
    known.put("leaf_devices", [node["major_minor"] for node in stack.bottom(nodes)])
    known.put("virtual", any(node.get("virtual") or node.get("type") == "loop" for node in stack.devices(nodes)))
    known.put("volatile_write_cache", volatile(nodes), "no drive tells its write cache setting")
    return known.done()


def mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return None


def describe_block(known: Known, path: str, show_serial: bool, roots: Roots) -> None:
    number = mounts.device_id_of_node(path) or ""
    name = stack.name_of(roots, number)
    known.put("stack", [stack.device_node(roots, name, show_serial)] if name else [])
    node = known.values["stack"][0] if name else {}
    if not name:
        known.unknown["stack"] = f"not known: device {number} is not listed in sysfs"
    known.put("device", name, "it is not listed in sysfs")
    known.put("major_minor", number or None)
    known.put("size_bytes", node.get("size_bytes"))
    known.put("mount", None, "a device is measured without its file system")
    known.put("mounted_at", mounts.mounted_at(roots, number))


def describe_file(known: Known, path: str, mode: int | None, show_serial: bool, roots: Roots) -> None:
    kind = (
        "file"
        if mode is not None and stat.S_ISREG(mode)
        else "directory"
        if mode is not None and stat.S_ISDIR(mode)
        else "missing"
    )
    if mode is not None and kind == "missing":
        kind = "other"
    known.put("kind", kind)
    place = path if kind != "missing" else existing_parent(path)
    known.put("place", place)
    if kind == "file":
        for key, value in mounts.allocation(path).items():
            if key != "unknown":
                known.put(key, value, "the file system does not tell")
    else:
        known.put("size_bytes", None, "there is no such file yet" if kind == "missing" else "it is no file")
    known.put("mount", mounts.mount_facts(roots, place))
    nodes, reason = stack.file_system_nodes(roots, place, show_serial)
    known.put("stack", nodes)
    if reason:
        known.unknown["stack"] = f"not known: {reason}"
    several = reason or "the file system has several devices"
    known.put("device", nodes[0]["name"] if len(nodes) == 1 else None, several)
    known.put("major_minor", nodes[0].get("major_minor") if len(nodes) == 1 else None, several)


def existing_parent(path: str) -> str:
    """The nearest directory above a file that is not there yet."""
    here = os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(here) and here != os.path.dirname(here):
        here = os.path.dirname(here)
    return here


def volatile(nodes: list[Json]) -> bool | None:
    """Whether a drive below keeps acknowledged writes in a cache that loses them with the power."""
    told = [block.volatile_write_cache(node.get("queue") or {}) for node in stack.bottom(nodes)]
    if any(told):
        return True
    return None if not told or None in told else False


def store_facts(store_path: str, roots: Roots | None = None) -> Json:
    """Where the store lies, for the warning that it lies on the device under test.

    Its folder is looked at, never the file: to close any descriptor of a file gives up all locks that this process
    holds on it (fcntl(2)), those of SQLite included, and the next process would take the write-ahead log away.
    """
    facts = target_facts(os.path.dirname(os.path.abspath(store_path)), False, roots or Roots())
    return {"path": store_path, "place": facts.get("place"), "devices": facts.get("leaf_devices", [])}
