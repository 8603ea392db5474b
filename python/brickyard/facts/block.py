"""The fact sheet of one block device, without what is below it.

Duty: identity, queue limits and attachment of a device out of /sys. Refusal: it does not descend; that is `stack`.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

from brickyard.schema.sheets import Reasons, not_known
from brickyard.schema.target_sheet import DeviceSheet, QueueSheet

from . import bus
from .roots import SECTOR_BYTES, Roots, binary, flag, number, text


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


def queue_facts(roots: Roots, name: str) -> QueueSheet:
    """Queue limits; a partition has those of its disk."""
    base = queue_directory(roots, name)
    if not os.path.isdir(base):
        return QueueSheet(unknown={"scheduler": not_known("this device has no queue in sysfs")})
    discard = number(base, "discard_max_bytes")
    return QueueSheet(
        logical_block_bytes=number(base, "logical_block_size"),
        physical_block_bytes=number(base, "physical_block_size"),
        minimum_io_bytes=number(base, "minimum_io_size"),
        optimal_io_bytes=number(base, "optimal_io_size"),
        nr_requests=number(base, "nr_requests"),
        max_sectors_kib=number(base, "max_sectors_kb"),
        max_hw_sectors_kib=number(base, "max_hw_sectors_kb"),
        max_segments=number(base, "max_segments"),
        max_segment_bytes=number(base, "max_segment_size"),
        rq_affinity=number(base, "rq_affinity"),
        nomerges=number(base, "nomerges"),
        wbt_lat_us=number(base, "wbt_lat_usec"),
        read_ahead_kib=number(base, "read_ahead_kb"),
        discard_granularity_bytes=number(base, "discard_granularity"),
        discard_max_bytes=discard,
        write_zeroes_max_bytes=number(base, "write_zeroes_max_bytes"),
        dma_alignment_mask=number(base, "dma_alignment"),
        chunk_sectors=number(base, "chunk_sectors"),
        atomic_write_max_bytes=number(base, "atomic_write_max_bytes"),
        rotational=flag(base, "rotational"),
        fua=flag(base, "fua"),
        io_poll=flag(base, "io_poll"),
        iostats=flag(base, "iostats"),
        add_random=flag(base, "add_random"),
        stable_writes=flag(base, "stable_writes"),
        scheduler=parse_scheduler(text(base, "scheduler")),
        write_cache=text(base, "write_cache"),
        zoned=text(base, "zoned"),
        discard=None if discard is None else discard > 0,
    ).explained("this kernel or driver does not tell")


def queue_directory(roots: Roots, name: str) -> str:
    own = os.path.realpath(roots.at_sys("class", "block", name))
    base = os.path.join(own, "queue")
    return base if os.path.isdir(base) else os.path.join(os.path.dirname(own), "queue")


@dataclass(frozen=True)
class DriveIdentity:
    vendor: str | None
    model: str | None
    serial: str | None
    firmware: str | None
    controller: str | None = None
    """Of an NVMe drive, as is the next."""
    controller_paths: int | None = None


def identity(roots: Roots, name: str) -> DriveIdentity:
    """Model, serial number and firmware as each kind of device tells them."""
    base = roots.at_sys("class", "block", name)
    device = os.path.join(base, "device")
    if name.startswith("nvme"):
        controllers = bus.controllers_of_nvme(roots, name)
        here = controllers[0] if controllers else device
        return DriveIdentity(
            vendor=None,
            model=text(here, "model"),
            serial=text(here, "serial"),
            firmware=text(here, "firmware_rev"),
            controller=os.path.basename(here),
            controller_paths=len(controllers),
        )
    vendor = text(device, "vendor")
    return DriveIdentity(
        # virtio gives a PCI vendor number here, which names no maker.
        vendor=None if (vendor or "").startswith("0x") else vendor,
        model=text(device, "model") or text(device, "name"),
        serial=parse_vpd_serial(binary(os.path.join(device, "vpd_pg80")))
        or text(device, "serial")
        or text(base, "serial"),
        firmware=text(device, "rev") or text(device, "fwrev"),
    )


def attach(sheet: DeviceSheet, roots: Roots, show_serial: bool) -> None:
    """Adds what only a device that is a thing of its own has: identity, transport, adapter."""
    name, reasons, untold = sheet.name, Reasons(), "the device does not tell"
    told = identity(roots, name)
    sheet.vendor = reasons.of("vendor", told.vendor, untold)
    sheet.model = reasons.of("model", told.model, untold)
    sheet.firmware = reasons.of("firmware", told.firmware, untold)
    sheet.controller, sheet.controller_paths = told.controller, told.controller_paths
    shown = told.serial if show_serial or not told.serial else hidden_serial(roots, told.serial)
    sheet.serial = reasons.of("serial", shown, untold)
    if told.serial and not show_serial:
        sheet.serial_salt = salt(roots)[1]
    sheet.transport = reasons.of("transport", bus.transport(roots, name), "the path in sysfs names none")
    sheet.virtual = bus.is_virtual(told.model, told.vendor, sheet.transport)
    path = os.path.realpath(roots.at_sys("class", "block", name))
    if name.startswith("nvme"):
        path = next(iter(bus.controllers_of_nvme(roots, name)), path)
    sheet.adapter = reasons.ask("adapter", lambda: bus.adapter(roots, path), "no PCI function is above this device")
    sheet.port = reasons.ask("port", lambda: bus.port_speed(roots, name))
    depth = number(roots.at_sys("class", "block", name, "device", "queue_depth"))
    sheet.device_queue_depth = reasons.of("device_queue_depth", depth, "this transport reports none")
    sheet.unknown.update(reasons.unknown)


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


def sheet(roots: Roots, name: str, show_serial: bool) -> DeviceSheet:
    """Everything about one device that does not concern the devices below it."""
    base = roots.at_sys("class", "block", name)
    reasons = Reasons()
    sectors, kind = number(base, "size"), kind_of(roots, name)
    made = DeviceSheet(
        name=name,
        path=os.path.join(roots.dev, name.replace("!", "/")),
        type=kind,
        major_minor=reasons.of("major_minor", text(base, "dev")),
        size_bytes=reasons.of("size_bytes", None if sectors is None else sectors * SECTOR_BYTES),
        read_only=reasons.of("read_only", flag(base, "ro")),
        queue=queue_facts(roots, name),
        holders=as_holders(roots, name),
        unknown=reasons.unknown,
    )
    if kind == "partition":
        start = number(base, "start")
        made.partition = number(base, "partition")
        made.start_bytes = None if start is None else start * SECTOR_BYTES
        made.alignment_offset_bytes = number(base, "alignment_offset")
    elif kind == "disk":
        attach(made, roots, show_serial)
    elif kind == "zram":
        made.compression = parse_scheduler(text(base, "comp_algorithm"))
    return made


def as_holders(roots: Roots, name: str) -> list[str]:
    try:
        return sorted(os.listdir(roots.at_sys("class", "block", name, "holders")))
    except OSError:
        return []
