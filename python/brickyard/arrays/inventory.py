"""Duty: the disks of this host, what each hangs on, and the LED of its place in an enclosure, as the kernel has them
below /sys. Refusal: no disk is asked or woken; an LED is set only where the kernel has a file for it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from brickyard.arrays.host import Host
from brickyard.errors import BadInputError
from brickyard.facts.bus import adapter, pci_functions, transport
from brickyard.facts.roots import entries, number, text


@dataclass(frozen=True)
class Slot:
    """A disk's place in an enclosure (drivers/misc/enclosure.c: /sys/class/enclosure/ENCLOSURE/SLOT)."""

    enclosure: str
    slot: str
    locate: bool | None
    """Whether its LED blinks; None where the enclosure has none."""
    fault: bool | None
    place: str
    """The file of the LED."""


@dataclass(frozen=True)
class Disk:
    name: str
    model: str
    serial: str
    firmware: str
    size_bytes: int
    rotates: bool | None
    transport: str
    controller: str
    """The address of a controller; empty where it hangs on none."""
    slot: Slot | None

    @property
    def identity(self) -> str:
        """What stays the same when names change."""
        return self.serial or self.name


@dataclass(frozen=True)
class Controller:
    address: str
    title: str
    driver: str
    firmware: str
    link: str
    disks: list[str] = field(default_factory=list)


def disks(host: Host) -> list[Disk]:
    """Whole disks with a device below them; loops, md and mappings are none."""
    slots = _slots(host)
    return [_disk(host, name, slots) for name in entries(host.roots.at_sys("class", "block")) if _is_disk(host, name)]


def _is_disk(host: Host, name: str) -> bool:
    base = host.roots.at_sys("class", "block", name)
    if re.fullmatch(r"(sr|fd)\d+", name) or not number(base, "size"):
        return False
    return os.path.exists(os.path.join(base, "device")) and not os.path.exists(os.path.join(base, "partition"))


def _disk(host: Host, name: str, slots: dict[str, Slot]) -> Disk:
    base = host.roots.at_sys("class", "block", name)
    device = os.path.realpath(os.path.join(base, "device"))
    functions = pci_functions(host.roots, device)
    words = ((text(device, "vendor") or "").strip(), (text(device, "model") or "").strip())  # virtio has a PCI number
    told = (text(device, "firmware_rev") or text(device, "rev") or "").strip()
    rotates = text(base, "queue", "rotational")
    return Disk(
        name,
        model=" ".join(word for word in words if word and not word.startswith("0x")),
        serial=(text(device, "serial") or text(base, "serial") or text(device, "wwid") or "").strip(),
        firmware=told,
        size_bytes=(number(base, "size") or 0) * 512,
        rotates=None if rotates is None else rotates == "1",
        transport=transport(host.roots, name) or "",
        controller=os.path.basename(functions[0]) if functions else "",
        slot=slots.get(device),
    )


def _slots(host: Host) -> dict[str, Slot]:
    """By the real path of the device in each."""
    found: dict[str, Slot] = {}
    home = host.roots.at_sys("class", "enclosure")
    for enclosure in entries(home):
        for name in entries(os.path.join(home, enclosure)):
            here = os.path.join(home, enclosure, name)
            device = os.path.join(here, "device")
            if not os.path.exists(os.path.join(here, "slot")) or not os.path.exists(device):
                continue
            locate, fault = text(here, "locate"), text(here, "fault")
            found[os.path.realpath(device)] = Slot(
                (text(home, enclosure, "id") or enclosure).strip(),
                (text(here, "slot") or name).strip(),
                None if locate is None else locate.strip() != "0",
                None if fault is None else fault.strip() != "0",
                os.path.join(here, "locate"),
            )
    return found


def set_locate(host: Host, name: str, *, on: bool) -> Slot:
    """Lets the LED of a disk's place blink, or not."""
    disk = next((one for one in disks(host) if one.name == name), None)
    if disk is None:
        raise BadInputError("no such disk")
    if disk.slot is None or disk.slot.locate is None:
        raise BadInputError(f"{name}: is in no enclosure with an LED that the kernel can set")
    host.write(disk.slot.place, "1" if on else "0")
    return disk.slot


def controllers(host: Host, known: list[Disk]) -> list[Controller]:
    """What disks hang on, by its address on the bus."""
    found: dict[str, Controller] = {}
    for disk in known:
        if not disk.controller:
            continue
        if disk.controller in found:
            found[disk.controller].disks.append(disk.name)
            continue
        device = os.path.realpath(host.roots.at_sys("class", "block", disk.name, "device"))
        function = adapter(host.roots, device)
        if function is None:
            continue
        words = " ".join(filter(None, (function.vendor, function.device)))
        ids = f"{function.vendor_id or '?'}:{function.device_id or '?'}"
        link = function.link.current_speed_gt_per_s if function.link else None
        width = function.link.current_width if function.link else None
        found[disk.controller] = Controller(
            disk.controller,
            words or ids,
            function.driver or "",
            _firmware(host, device),
            f"{link:g} GT/s × {width}" if link and width else "",
            [disk.name],
        )
    return list(found.values())


def _firmware(host: Host, device: str) -> str:
    """Host adapters of mpt3sas, megaraid_sas and smartpqi have theirs beside their SCSI host."""
    for entry in entries(host.roots.at_sys("class", "scsi_host")):
        base = host.roots.at_sys("class", "scsi_host", entry)
        if f"/{entry}/" in f"{device}/":
            told = [text(base, name) for name in ("version_fw", "fw_version", "firmware_revision", "firmware_version")]
            return next((words.strip() for words in told if words), "")
    return ""
