"""Everything below a target as a tree, from the device it is on down to the drives.

Duty: descend through partitions, loop devices, device mapper, md, bcache and file systems. Refusal: it interprets
nothing; each node is the fact sheet of its own kind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from brickyard.schema.sheets import not_known
from brickyard.schema.target_sheet import DeviceSheet

from . import arrays, block, mounts
from .roots import Roots, entries

# Deeper than any sane stack: partition on crypt on LVM on md on partition on disk is six.
DEPTH_MAX = 24


def name_of(roots: Roots, major_minor: str) -> str | None:
    """The kernel's name of a device number."""
    directory = roots.at_sys("dev", "block", major_minor)
    return os.path.basename(os.path.realpath(directory)) if os.path.isdir(directory) else None


def device_node(roots: Roots, name: str, show_serial: bool, above: tuple[str, ...] = ()) -> DeviceSheet:
    """The fact sheet of a device with those of everything below it under `below`."""
    if name in above or len(above) >= DEPTH_MAX:
        return DeviceSheet(name=name, type="loop in the stack", unknown={"below": not_known("it is above itself")})
    try:
        node = block.sheet(roots, name, show_serial)
        if node.type == "md":
            node.md = arrays.md_facts(roots, name)
        elif node.type == "dm":
            node.dm = arrays.dm_facts(roots, name)
        elif node.type == "loop":
            node.loop = arrays.loop_facts(roots, name)
        elif node.type == "bcache":
            node.bcache = arrays.bcache_facts(roots, name)
        node.below = below(roots, node, show_serial, (*above, name))
    except Exception as error:
        return DeviceSheet(name=name, unknown={"type": not_known(f"{type(error).__name__}: {error}")})
    return node


def below(roots: Roots, node: DeviceSheet, show_serial: bool, above: tuple[str, ...]) -> list[DeviceSheet]:
    base = roots.at_sys("class", "block", node.name)
    if node.type == "partition":
        disk = os.path.basename(os.path.dirname(os.path.realpath(base)))
        return [device_node(roots, disk, show_serial, above)]
    if node.loop:
        path = node.loop.backing_file
        return [file_node(roots, path, show_serial, above)] if path else []
    return [device_node(roots, name, show_serial, above) for name in entries(base, "slaves")]


def file_node(roots: Roots, path: str, show_serial: bool, above: tuple[str, ...] = ()) -> DeviceSheet:
    """A file: its allocation, its mount, and the devices of its file system."""
    space = mounts.allocation(path)
    nodes, reason = file_system_nodes(roots, path, show_serial, above)
    return DeviceSheet(
        name=path,
        path=path,
        type="file",
        size_bytes=space.size_bytes,
        allocated_bytes=space.allocated_bytes,
        hole_bytes=space.hole_bytes,
        unwritten_bytes=space.unwritten_bytes,
        mount=mounts.mount_facts(roots, path),
        below=nodes,
        unknown={**space.unknown, "below": not_known(reason)} if reason else space.unknown,
    )


def file_system_nodes(
    roots: Roots, path: str, show_serial: bool, above: tuple[str, ...] = ()
) -> tuple[list[DeviceSheet], str]:
    """The devices directly below the file system that holds a path, each with what is below it, else why not."""
    mount = mounts.mount_of(roots, path)
    if mount is None:
        return [], "no mount point holds this path"
    if mount.file_system == "overlay":
        upper = mounts.option(mount.super_options, "upperdir")
        mark = f"overlay {mount.mount_point}"
        if not upper or not os.path.isdir(upper) or mark in above:
            return [], "an overlay whose upper directory cannot be seen from here"
        return file_system_nodes(roots, upper, show_serial, (*above, mark))
    numbers, reason = mounts.devices_below(roots, mount)
    names = [name for number in numbers if (name := name_of(roots, number))]
    if numbers and not names:
        return [], "the device below the file system is not listed in sysfs, as in a container"
    return [device_node(roots, name, show_serial, above) for name in names], reason


def walk(nodes: list[DeviceSheet]) -> Iterator[DeviceSheet]:
    """Every node of a tree, from the top."""
    for node in nodes:
        yield node
        yield from walk(node.below)


def devices(nodes: list[DeviceSheet]) -> list[DeviceSheet]:
    """Every device of a tree, each once."""
    return _each_once(walk(nodes))


def bottom(nodes: list[DeviceSheet]) -> list[DeviceSheet]:
    """The devices that have no device below them: the drives."""
    return [node for node in devices(nodes) if not devices(node.below)]


def tops(nodes: list[DeviceSheet]) -> list[DeviceSheet]:
    """The devices that the target lies on directly, each once."""
    return _each_once(nodes)


def _each_once(nodes: Iterable[DeviceSheet]) -> list[DeviceSheet]:
    found: dict[str, DeviceSheet] = {}
    for node in nodes:
        if node.number:
            found.setdefault(node.number, node)
    return list(found.values())
