"""What a target is: kind, file system, and the stack of devices below it.

Duty: the part of a target's facts that the system tells without asking a drive. Refusal: no health, no cache; those
ask drives and cost time.
"""

from __future__ import annotations

import os
import re
import stat

from brickyard.schema.modelled import is_modelled
from brickyard.schema.sheets import Reasons, not_known
from brickyard.schema.target_sheet import DeviceSheet, StorePlace, TargetSheet

from . import mounts, stack
from .roots import Roots

# Targets that are no path: a simulated brick, a database.
NO_PATH = re.compile(r"^(sim:|[a-z][a-z0-9+]*://)")


def drives(facts: TargetSheet) -> list[DeviceSheet]:
    """The devices at the bottom of a target's stack."""
    return stack.bottom(facts.stack)


def target_facts(path: str, show_serial: bool, roots: Roots) -> TargetSheet:
    """Kind, file system and stack of a target, without asking any drive."""
    try:
        return describe(path, show_serial, roots)
    except Exception as error:
        return TargetSheet(path=path, unknown={"kind": not_known(f"{type(error).__name__}: {error}")})


def describe(path: str, show_serial: bool, roots: Roots) -> TargetSheet:
    if NO_PATH.match(path):
        kind = "sim" if is_modelled(path) else "service"
        reason = not_known("a simulated brick" if kind == "sim" else "a service, not a path")
        return TargetSheet(path=path, kind=kind, unknown={"stack": reason})
    mode = mode_of(path)
    if mode is not None and stat.S_ISBLK(mode):
        sheet = describe_block(path, show_serial, roots)
    else:
        sheet = describe_file(path, mode, show_serial, roots)
    nodes, reasons = stack.devices(sheet.stack), Reasons()
    sheet.real_path = os.path.realpath(path)
    sheet.devices = [node.name for node in nodes]
    sheet.leaf_devices = [node.number for node in drives(sheet)]
    sheet.virtual = any(node.virtual or node.type == "loop" for node in nodes)
    sheet.volatile_write_cache = reasons.of(
        "volatile_write_cache", volatile(sheet), "no drive tells its write cache setting"
    )
    sheet.unknown.update(reasons.unknown)
    return sheet


def mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return None


def describe_block(path: str, show_serial: bool, roots: Roots) -> TargetSheet:
    reasons, number = Reasons(), mounts.device_id_of_node(path) or ""
    name = stack.name_of(roots, number)
    node = stack.device_node(roots, name, show_serial) if name else None
    if not name:
        reasons.unknown["stack"] = not_known(f"device {number} is not listed in sysfs")
    return TargetSheet(
        path=path,
        kind="block",
        stack=[node] if node else [],
        device=reasons.of("device", name, "it is not listed in sysfs"),
        major_minor=reasons.of("major_minor", number or None),
        size_bytes=reasons.of("size_bytes", node.size_bytes if node else None),
        mount=reasons.of("mount", None, "a device is measured without its file system"),
        mounted_at=mounts.mounted_at(roots, number),
        unknown=reasons.unknown,
    )


def describe_file(path: str, mode: int | None, show_serial: bool, roots: Roots) -> TargetSheet:
    kind = (
        "file"
        if mode is not None and stat.S_ISREG(mode)
        else "directory"
        if mode is not None and stat.S_ISDIR(mode)
        else "missing"
    )
    if mode is not None and kind == "missing":
        kind = "other"
    place = path if kind != "missing" else existing_parent(path)
    sheet, reasons = TargetSheet(path=path, kind=kind, place=place), Reasons()
    if kind == "file":
        found, untold = mounts.allocation(path), "the file system does not tell"
        sheet.size_bytes = reasons.of("size_bytes", found.size_bytes, untold)
        sheet.allocated_bytes = reasons.of("allocated_bytes", found.allocated_bytes, untold)
        sheet.hole_bytes = reasons.of("hole_bytes", found.hole_bytes, untold)
        sheet.unwritten_bytes = reasons.of("unwritten_bytes", found.unwritten_bytes, untold)
        sheet.never_written = reasons.of("never_written", found.never_written, untold)
    else:
        reasons.of("size_bytes", None, "there is no such file yet" if kind == "missing" else "it is no file")
    sheet.mount = mounts.mount_facts(roots, place)
    sheet.stack, reason = stack.file_system_nodes(roots, place, show_serial)
    if reason:
        reasons.unknown["stack"] = not_known(reason)
    several = reason or "the file system has several devices"
    node = sheet.stack[0] if len(sheet.stack) == 1 else None
    sheet.device = reasons.of("device", node.name if node else None, several)
    sheet.major_minor = reasons.of("major_minor", node.major_minor if node else None, several)
    sheet.unknown.update(reasons.unknown)
    return sheet


def existing_parent(path: str) -> str:
    """The nearest directory above a file that is not there yet."""
    here = os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(here) and here != os.path.dirname(here):
        here = os.path.dirname(here)
    return here


def volatile(facts: TargetSheet) -> bool | None:
    """Whether a drive below keeps acknowledged writes in a cache that loses them with the power."""
    told = [node.has_volatile_write_cache for node in drives(facts)]
    if any(told):
        return True
    return None if not told or None in told else False


def store_facts(store_path: str, roots: Roots | None = None) -> StorePlace:
    """Where the store lies, for the warning that it lies on the device under test.

    Its folder is looked at, never the file: to close any descriptor of a file gives up all locks that this process
    holds on it (fcntl(2)), those of SQLite included, and the next process would take the write-ahead log away.
    """
    facts = target_facts(os.path.dirname(os.path.abspath(store_path)), False, roots or Roots())
    return StorePlace(path=store_path, place=facts.place, devices=facts.leaf_devices)
