"""Limits that a control group puts on this process, of version 1 and version 2.

Duty: find the group of this process and those above it, and read their limits. Refusal: it sets none.
"""

from __future__ import annotations

import os

import msgspec

from brickyard.ready import ready
from brickyard.schema.host_sheet import GroupSheet, IoLimit

from .mounts import parse_mountinfo
from .roots import Roots, as_number, binary, text

# Version 1 writes "no limit" as the largest page-aligned 64-bit number; anything near it is none.
NO_LIMIT = 1 << 60

# Files of version 1, and what version 2 calls the same.
V1_IO = {
    "read_bps_device": "rbps",
    "write_bps_device": "wbps",
    "read_iops_device": "riops",
    "write_iops_device": "wiops",
}


def groups_of(roots: Roots, process: str = "self") -> dict[str, str]:
    """Path of a process's group by controller of version 1, and under "" for version 2."""
    found: dict[str, str] = {}
    for line in (text(roots.at_proc(process, "cgroup")) or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                found[controller] = parts[2]
    return found


def directories(roots: Roots, controller: str, process: str = "self") -> list[str]:
    """A process's group's directory and those above it, nearest first; empty where the hierarchy is not mounted."""
    group = groups_of(roots, process).get(controller)
    if group is None:
        return []
    # The last one mounted on a place is the one that is seen there.
    for mount in reversed(parse_mountinfo(text(roots.at_proc("self", "mountinfo")) or "")):
        fits = (
            mount.file_system == "cgroup2"
            if not controller
            else (mount.file_system == "cgroup" and controller in mount.super_options.split(","))
        )
        if fits:
            return chain(mount.mount_point, inside(group, mount.root))
    return []


def inside(group: str, root: str) -> str:
    """The part of a group's path below what is mounted: a container mounts only its own branch."""
    root = root.rstrip("/")
    return group[len(root) :] if root and (group == root or group.startswith(root + "/")) else group


def chain(top: str, group: str) -> list[str]:
    here = os.path.normpath(os.path.join(top, group.lstrip("/")))
    found: list[str] = []
    while here.startswith(top):
        if os.path.isdir(here):
            found.append(here)
        if here == top:
            break
        here = os.path.dirname(here)
    return found


def cpu_limit(roots: Roots) -> float | None:
    """The smallest number of cores that any group above allows, or None for no limit."""
    found: list[float] = []
    for here in directories(roots, ""):
        words = (text(here, "cpu.max") or "").split()
        if len(words) == 2 and (quota := as_number(words[0])) and (period := as_number(words[1])):
            found.append(quota / period)
    for here in directories(roots, "cpu"):
        quota, period = as_number(text(here, "cpu.cfs_quota_us")), as_number(text(here, "cpu.cfs_period_us"))
        if quota and period and quota > 0:
            found.append(quota / period)
    return min(found, default=None)


def memory_limit(roots: Roots, process: str = "self") -> int | None:
    found = [as_number(text(here, "memory.max")) for here in directories(roots, "", process)]
    found += [as_number(text(here, "memory.limit_in_bytes")) for here in directories(roots, "memory", process)]
    return min((limit for limit in found if limit and limit < NO_LIMIT), default=None)


def io_limits(roots: Roots) -> list[IoLimit]:
    """Limits on bytes or requests a second, by device number."""
    found: list[dict[str, str | int]] = []
    for here in directories(roots, ""):
        for line in (text(here, "io.max") or "").splitlines():
            words = line.split()
            limits = {
                key: count
                for word in words[1:]
                if (key := word.partition("=")[0]) and (count := as_number(word.partition("=")[2]))
            }
            if limits:
                found.append({"device": words[0], **limits})
    for here in directories(roots, "blkio"):
        for file_name, name in V1_IO.items():
            for line in (text(here, f"blkio.throttle.{file_name}") or "").splitlines():
                words = line.split()
                if len(words) == 2 and (count := as_number(words[1])):
                    found.append({"device": words[0], name: count})
    return msgspec.convert(found, list[IoLimit])


def cpuset(roots: Roots) -> str | None:
    for controller, file_name in (
        ("", "cpuset.cpus.effective"),
        ("cpuset", "cpuset.effective_cpus"),
        ("cpuset", "cpuset.cpus"),
    ):
        for here in directories(roots, controller)[:1]:
            if words := text(here, file_name):
                return words
    return None


def throttle_file(roots: Roots) -> str | None:
    """The file that counts how often our group was held back for want of CPU quota."""
    for controller in ("", "cpu"):
        for here in directories(roots, controller)[:1]:
            path = os.path.join(here, "cpu.stat")
            if b"nr_throttled" in (binary(path) or b""):
                return path
    return None


def parse_cpu_stat(content: bytes) -> int | None:
    for line in content.decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "nr_throttled":
            return as_number(words[1])
    return None


def cgroup_facts(roots: Roots) -> GroupSheet:
    """Limits; None means that none is set, and `version` says which hierarchies were looked at."""
    groups = groups_of(roots)
    versions = [words for words, there in (("v2", directories(roots, "")), ("v1", any(groups))) if there]
    return GroupSheet(
        version="+".join(versions) or None,
        groups=groups,
        cpu_cores_limit=cpu_limit(roots),
        memory_limit_bytes=memory_limit(roots),
        io_limits=io_limits(roots),
        cpuset=cpuset(roots),
    ).explained(version="no control group is mounted", cpuset="no cpuset controller is mounted")


ready(list[IoLimit])
