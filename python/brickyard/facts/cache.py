"""The cache of a drive or its controller, as far as the system tells.

Duty: bytes of cache below a target. Refusal: it guesses nothing from a model's name.
"""

from __future__ import annotations

import re

from brickyard.schema.target_sheet import DeviceSheet, MountSheet, TargetSheet

from . import mounts
from .health import dig, parse_json
from .roots import Roots
from .target import drives, target_facts

STORCLI = ("storcli64", "storcli", "perccli64", "perccli")
NO_CACHE = 0  # memory is as fast as any cache of it would be
UNITS = {"KB": 1 << 10, "KIB": 1 << 10, "MB": 1 << 20, "MIB": 1 << 20, "GB": 1 << 30, "GIB": 1 << 30}


def parse_hdparm_cache(content: str) -> int | None:
    """Bytes out of 'cache/buffer size  = 65536 KBytes'; drives that say 'unknown' give None."""
    match = re.search(r"cache/buffer size\s*=\s*(\d{1,12}) ?KBytes", content)
    # hdparm prints the drive's count of 512-byte sectors divided by two, so its KByte is 1024 bytes.
    return int(match.group(1)) * 1024 if match and int(match.group(1)) else None


def parse_size(words: object) -> int | None:
    """Bytes of the '4096MB' or '4.00 GB' of a controller's tool, whose units are binary."""
    match = re.match(
        r"\s*(\d{1,9}(?:\.\d{1,4})?)\s*([KMG]i?B)\b", words if isinstance(words, str) else "", re.IGNORECASE
    )
    return int(float(match.group(1)) * UNITS[match.group(2).upper()]) or None if match else None


def pci_of_storcli(words: object) -> str | None:
    """0000:65:00.0 out of StorCLI's domain:bus:device:function '00:65:00:00'."""
    parts = words.split(":") if isinstance(words, str) else []
    try:
        domain, bus_number, device, function = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return f"{domain:04x}:{bus_number:02x}:{device:02x}.{function:x}"


def parse_storcli(content: str) -> dict[str, int]:
    """Cache bytes by PCI address out of `storcli /call show all J`."""
    found: dict[str, int] = {}
    controllers = dig(parse_json(content), "Controllers")
    for controller in controllers if isinstance(controllers, list) else []:
        data = dig(controller, "Response Data")
        address = pci_of_storcli(dig(data, "Basics", "PCI Address"))
        size = parse_size(dig(data, "HwCfg", "On Board Memory Size"))
        if address and size:
            found[address] = size
    return found


def controller_caches(roots: Roots) -> dict[str, int]:
    for program in STORCLI:
        if roots.tools.find(program):
            answer, _ = roots.tools.run(program, "/call", "show", "all", "J")
            return parse_storcli(answer or "")
    return {}


def node_cache(roots: Roots, node: DeviceSheet, controllers: dict[str, int]) -> tuple[int | None, str]:
    """Cache bytes of one drive, its controller's first: a controller with its own cache hides that of its drives."""
    if node.is_in_memory or any(is_in_memory(file.mount) for file in node.below):
        return NO_CACHE, ""
    if _address(node) in controllers:
        return controllers[_address(node)], ""
    if node.virtual:
        return None, "not known: a virtual disk hides the caches of its host"
    if node.transport in ("sata", "sata on sas"):
        answer, reason = roots.tools.run("hdparm", "-I", node.path or "")
        size = parse_hdparm_cache(answer) if answer else None
        return size, "" if size else reason or "not known: the drive does not tell"
    return None, f"not known: {node.transport or 'this kind of'} drives do not tell their cache"


def _address(node: DeviceSheet) -> str:
    return (node.adapter.address if node.adapter else None) or ""


def is_in_memory(mount: MountSheet | None) -> bool:
    return mount is not None and mount.file_system in mounts.MEMORY


def cache_facts(facts: TargetSheet, roots: Roots) -> tuple[int | None, str]:
    """Cache bytes below a target, or None and why: one unknown part makes the sum unknown."""
    nodes = drives(facts)
    if not nodes:
        return (NO_CACHE, "") if is_in_memory(facts.mount) else (None, "not known: no drive can be seen")
    controllers = controller_caches(roots)
    total, counted = 0, set()
    for node in nodes:
        size, reason = node_cache(roots, node, controllers)
        if size is None:
            return None, reason
        address = _address(node)
        if address in controllers and address in counted:
            continue
        counted.add(address)
        total += size
    return total, ""


def cache_bytes(target: str | TargetSheet, roots: Roots | None = None) -> int | None:
    """Bytes of device and controller cache below a path or a target; None is "cache unknown"."""
    place = roots or Roots()
    try:
        facts = target_facts(target, False, place) if isinstance(target, str) else target
        return facts.cache_bytes if facts.cache_was_asked else cache_facts(facts, place)[0]
    except Exception:
        return None
