"""The fact sheet of one block device, without what is below it.

Duty: identity, queue limits and attachment of a device out of /sys. Refusal: it does not descend; that is `stack`.
"""

from __future__ import annotations

import hashlib
import os
import re

from . import bus
from .roots import Json, Known, Roots, binary, flag, number, text

# The kernel counts a device's size in 512 bytes whatever its block size (Documentation/ABI/stable/sysfs-block).
SECTOR_BYTES = 512

QUEUE_NUMBERS = {
    "logical_block_bytes": "logical_block_size",
    "physical_block_bytes": "physical_block_size",
    "minimum_io_bytes": "minimum_io_size",
    "optimal_io_bytes": "optimal_io_size",
    "nr_requests": "nr_requests",
    "max_sectors_kib": "max_sectors_kb",
    "max_hw_sectors_kib": "max_hw_sectors_kb",
    "max_segments": "max_segments",
    "max_segment_bytes": "max_segment_size",
    "rq_affinity": "rq_affinity",
    "nomerges": "nomerges",
    "wbt_lat_us": "wbt_lat_usec",
    "read_ahead_kib": "read_ahead_kb",
    "discard_granularity_bytes": "discard_granularity",
    "discard_max_bytes": "discard_max_bytes",
    "write_zeroes_max_bytes": "write_zeroes_max_bytes",
    "dma_alignment_mask": "dma_alignment",
    "chunk_sectors": "chunk_sectors",
    "atomic_write_max_bytes": "atomic_write_max_bytes",
}
QUEUE_FLAGS = ("rotational", "fua", "io_poll", "iostats", "add_random", "stable_writes")


def salt(roots: Roots) -> tuple[str, str]:
    """The salt for serial numbers and its name: it stays the same on one host, so a drive's records still match."""
    for name, path in (
        ("machine-id", os.path.join(roots.etc, "machine-id")),
        ("DMI product UUID", roots.at_sys("class", "dmi", "id", "product_uuid")),
        ("host name", roots.at_proc("sys", "kernel", "hostname")),
    ):
        value = text(path)
        if value and value != "uninitialized":
            return value, name
    return "", "none"


def hidden_serial(roots: Roots, serial: str) -> str:
    """The first 16 hex digits of SHA-256 over salt and serial number: enough to tell a host's drives apart."""
    return "sha256:" + hashlib.sha256(f"{salt(roots)[0]}\0{serial}".encode()).hexdigest()[:16]


def parse_scheduler(words: str | None) -> str | None:
    """The one in brackets of 'none [mq-deadline] kyber'."""
    match = re.search(r"\[([\w-]+)\]", words or "")
    return match.group(1) if match else words


def parse_vpd_rotation(content: bytes | None) -> int | None:
    """Revolutions a minute by page B1 (SBC-4, 6.6.2: bytes 4 and 5); None where none are told, or nothing turns."""
    if content is None or len(content) < 6 or content[1] != 0xB1:
        return None
    rate = int.from_bytes(content[4:6], "big")
    return rate if 0x0401 <= rate <= 0xFFFE else None


def parse_vpd_serial(content: bytes | None) -> str | None:
    """The unit serial number page of SCSI (SPC, page 80h): four bytes of head, of which the last two are the length."""
    if content is None or len(content) < 5 or content[1] != 0x80:
        return None
    length = int.from_bytes(content[2:4], "big")
    return content[4 : 4 + length].decode("ascii", "replace").strip("\0 ") or None


def queue_facts(roots: Roots, name: str) -> Json:
    """Queue limits; a partition has those of its disk."""
    base = queue_directory(roots, name)
    known = Known()
    if not os.path.isdir(base):
        known.put("scheduler", None, "this device has no queue in sysfs")
        return known.done()
    missing = "this kernel or driver does not tell"
    for key, file_name in QUEUE_NUMBERS.items():
        known.put(key, number(base, file_name), missing)
    for file_name in QUEUE_FLAGS:
        known.put(file_name, flag(base, file_name), missing)
    known.put("scheduler", parse_scheduler(text(base, "scheduler")), missing)
    known.put("write_cache", text(base, "write_cache"), missing)
    known.put("zoned", text(base, "zoned"), missing)
    discard = known.values["discard_max_bytes"]
    known.put("discard", None if discard is None else discard > 0, missing)
    return known.done()


def queue_directory(roots: Roots, name: str) -> str:
    own = os.path.realpath(roots.at_sys("class", "block", name))
    base = os.path.join(own, "queue")
    return base if os.path.isdir(base) else os.path.join(os.path.dirname(own), "queue")


def identity(roots: Roots, name: str) -> Json:
    """Model, serial number and firmware as each kind of device tells them."""
    base = roots.at_sys("class", "block", name)
    device = os.path.join(base, "device")
    if name.startswith("nvme"):
        controllers = bus.controllers_of_nvme(roots, name)
        here = controllers[0] if controllers else device
        return {
            "vendor": None,
            "model": text(here, "model"),
            "serial": text(here, "serial"),
            "firmware": text(here, "firmware_rev"),
            "controller": os.path.basename(here),
            "controller_paths": len(controllers),
        }
    vendor = text(device, "vendor")
    return {
        # virtio gives a PCI vendor number here, which names no maker.
        "vendor": None if (vendor or "").startswith("0x") else vendor,
        "model": text(device, "model") or text(device, "name"),
        "serial": parse_vpd_serial(binary(os.path.join(device, "vpd_pg80")))
        or text(device, "serial")
        or text(base, "serial"),
        "firmware": text(device, "rev") or text(device, "fwrev"),
    }


def attached(roots: Roots, name: str, show_serial: bool) -> Json:
    """What only a device that is a thing of its own has: identity, transport, adapter."""
    known = Known()
    told = identity(roots, name)
    serial = told.pop("serial")
    for key, value in told.items():
        known.put(key, value, "the device does not tell")
    known.put(
        "serial", serial if show_serial or not serial else hidden_serial(roots, serial), "the device does not tell"
    )
    if serial and not show_serial:
        known.put("serial_salt", salt(roots)[1])
    words = bus.transport(roots, name)
    known.put("transport", words, "the path in sysfs names none")
    known.put("virtual", bus.is_virtual(told.get("model"), told.get("vendor"), words))
    path = os.path.realpath(roots.at_sys("class", "block", name))
    if name.startswith("nvme"):
        path = next(iter(bus.controllers_of_nvme(roots, name)), path)
    known.ask("adapter", lambda: bus.adapter(roots, path), "no PCI function is above this device")
    known.ask("port", lambda: bus.port_speed(roots, name))
    depth = number(roots.at_sys("class", "block", name, "device", "queue_depth"))
    known.put("device_queue_depth", depth, "this transport reports none")
    return known.done()


def kind_of(roots: Roots, name: str) -> str:
    base = roots.at_sys("class", "block", name)
    if os.path.exists(os.path.join(base, "partition")):
        return "partition"
    for entry, kind in (("md", "md"), ("dm", "dm"), ("bcache", "bcache")):
        if os.path.isdir(os.path.join(base, entry)) and (kind != "bcache" or name.startswith("bcache")):
            return kind
    for prefix, kind in (
        ("loop", "loop"),
        ("zram", "zram"),
        ("ram", "ram"),
        ("nbd", "nbd"),
        ("drbd", "drbd"),
        ("null", "null"),
    ):
        if re.fullmatch(prefix + r"(b|_)?\d+", name):
            return kind
    return "disk"


def sheet(roots: Roots, name: str, show_serial: bool) -> Json:
    """Everything about one device that does not concern the devices below it."""
    base = roots.at_sys("class", "block", name)
    known = Known(name=name, path=os.path.join(roots.dev, name.replace("!", "/")), type=kind_of(roots, name))
    known.put("major_minor", text(base, "dev"))
    sectors = number(base, "size")
    known.put("size_bytes", None if sectors is None else sectors * SECTOR_BYTES)
    known.put("read_only", flag(base, "ro"))
    result = known.done()
    if result["type"] == "partition":
        start = number(base, "start")
        result["partition"] = number(base, "partition")
        result["start_bytes"] = None if start is None else start * SECTOR_BYTES
        result["alignment_offset_bytes"] = number(base, "alignment_offset")
    result["queue"] = queue_facts(roots, name)
    if result["type"] == "disk":
        own = attached(roots, name, show_serial)
        result["unknown"].update(own.pop("unknown"))
        result.update(own)
    if result["type"] == "zram":
        result["compression"] = parse_scheduler(text(base, "comp_algorithm"))
    result["holders"] = as_holders(roots, name)
    return result


def as_holders(roots: Roots, name: str) -> list[str]:
    try:
        return sorted(os.listdir(roots.at_sys("class", "block", name, "holders")))
    except OSError:
        return []


def volatile_write_cache(queue: Json) -> bool | None:
    """The kernel says 'write back' of a device that needs a flush before what it acknowledged is safe."""
    words = queue.get("write_cache")
    return None if words is None else words == "write back"
