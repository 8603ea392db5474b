"""How a device is attached: transport, host bus adapter, link speed, PCIe width.

Duty: read the path of a device through /sys. Refusal: it judges nothing; a slow link is told with what it could be.
"""

from __future__ import annotations

import os
import re

import msgspec

from brickyard.ready import ready
from brickyard.schema.sheets import not_known
from brickyard.schema.target_sheet import AdapterSheet, NarrowestLink, PcieLink, PortSheet

from .roots import Roots, ancestors, as_number, entries, link_name, text

PCI_ADDRESS = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")

# Payload share of a lane by line code, PCI Express Base Specification: 8b/10b to generation 2, 128b/130b to
# generation 5, and 242 of 256 bytes of a FLIT in generation 6.
LINE_CODE = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 242 / 256}

# Model names that the makers of virtual machines and clouds give their disks.
VIRTUAL_MODEL = re.compile(
    r"qemu|vbox|vmware|virtual|msft|amazon elastic block|persistentdisk|nvme_card|"
    r"blockvolume|openstack|xensource|amazon ec2 nvme instance",
    re.IGNORECASE,
)


def gigatransfers(words: str | None) -> float | None:
    """The 8.0 of '8.0 GT/s PCIe'."""
    match = re.match(r"(\d{1,3}(?:\.\d{1,2})?) ?GT/s", words or "")
    return float(match.group(1)) if match else None


def pcie_bytes_per_s(speed: float | None, width: int | None) -> int | None:
    """What a PCIe link carries in one direction, before the packets' own heads."""
    if speed is None or not width or speed not in LINE_CODE:
        return None
    return int(speed * 1e9 * LINE_CODE[speed] * width / 8)


def pcie_link(directory: str) -> PcieLink:
    """Current and possible speed and width of one PCIe function."""
    speed, width = _speed_and_width(directory, "current")
    max_speed, max_width = _speed_and_width(directory, "max")
    return PcieLink(
        current_speed_gt_per_s=speed,
        current_width=width,
        current_bytes_per_s=pcie_bytes_per_s(speed, width),
        max_speed_gt_per_s=max_speed,
        max_width=max_width,
        max_bytes_per_s=pcie_bytes_per_s(max_speed, max_width),
    ).explained("this function reports no PCIe link, as functions of virtual machines and of the chipset do not")


def _speed_and_width(directory: str, when: str) -> tuple[float | None, int | None]:
    width = as_number(text(directory, f"{when}_link_width"))
    # A function without a link shows width 0, or 255 where the register reads as all ones.
    return gigatransfers(text(directory, f"{when}_link_speed")), width if width and width < 255 else None


def pci_functions(roots: Roots, device: str) -> list[str]:
    """The PCI functions between a device and the processor, nearest first."""
    return [
        here
        for here in ancestors(device, roots.sys)
        if PCI_ADDRESS.match(os.path.basename(here)) and text(here, "vendor") and text(here, "class")
    ]


class PciNames(msgspec.Struct, rename="pascal"):
    """What lspci calls a function."""

    vendor: str | None = None
    device: str | None = None


def parse_lspci(content: str) -> PciNames:
    """Out of `lspci -vmm`."""
    rows = (line.partition(":") for line in content.splitlines())
    return msgspec.convert({key.strip(): value.strip() for key, colon, value in rows if colon}, PciNames)


def adapter(roots: Roots, device: str) -> AdapterSheet | None:
    """The PCI function that a device hangs on, or None where there is none."""
    functions = pci_functions(roots, device)
    if not functions:
        return None
    here = functions[0]
    node = as_number(text(here, "numa_node"))
    answer, reason = roots.tools.run("lspci", "-vmm", "-D", "-s", os.path.basename(here))
    names = parse_lspci(answer or "")
    unnamed = reason or "lspci does not name it"
    return AdapterSheet(
        address=os.path.basename(here),
        vendor_id=text(here, "vendor"),
        device_id=text(here, "device"),
        subsystem_vendor_id=text(here, "subsystem_vendor"),
        subsystem_device_id=text(here, "subsystem_device"),
        class_id=text(here, "class"),
        revision=text(here, "revision"),
        driver=link_name(here, "driver"),
        numa_node=node if node is not None and node >= 0 else None,
        vendor=names.vendor,
        device=names.device,
        link=pcie_link(here),
        narrowest_link=narrowest(functions),
    ).explained(
        driver="no driver is bound", numa_node="the machine has one memory node", vendor=unnamed, device=unnamed
    )


def narrowest(functions: list[str]) -> NarrowestLink | None:
    """The slowest link on the way to the processor: a fast drive behind a narrow slot is a narrow drive."""
    found: list[tuple[int, str]] = []
    for here in functions:
        rate = pcie_link(here).current_bytes_per_s
        if rate is not None:
            found.append((rate, os.path.basename(here)))
    return NarrowestLink(address=min(found)[1], bytes_per_s=min(found)[0]) if found else None


def controllers_of_nvme(roots: Roots, name: str) -> list[str]:
    """Directories of the controllers of an NVMe namespace; with multipath it hangs on a subsystem of several."""
    device = os.path.realpath(roots.at_sys("class", "block", name, "device"))
    if re.fullmatch(r"nvme\d+", os.path.basename(device)):
        return [device]
    return [
        os.path.realpath(os.path.join(device, entry)) for entry in entries(device) if re.fullmatch(r"nvme\d+", entry)
    ]


def transport(roots: Roots, name: str) -> str | None:
    """nvme, nvme-tcp, sata, sas, usb, virtio … or None."""
    if name.startswith("nvme"):
        for controller in controllers_of_nvme(roots, name):
            words = text(controller, "transport")
            if words:
                return "nvme" if words == "pcie" else f"nvme-{words}"
        return "nvme"
    for prefix, words in (("mmcblk", "mmc"), ("xvd", "xen"), ("nbd", "nbd"), ("rbd", "ceph-rbd"), ("pmem", "pmem")):
        if name.startswith(prefix):
            return words
    path = os.path.realpath(roots.at_sys("class", "block", name))
    return path_transport(roots, "/" + os.path.relpath(path, os.path.realpath(roots.sys)), name)


def path_transport(roots: Roots, path: str, name: str) -> str | None:
    """The transport that the buses on a device's way in sysfs spell out; the first that fits counts."""
    found = re.search(r"/(host\d+)/", path + "/")
    host = found.group(1) if found else None
    ata = text(roots.at_sys("class", "block", name, "device", "vendor")) == "ATA"
    signs = (
        (re.search(r"/usb\d+/", path), "usb"),
        (re.search(r"/ata\d+/", path), "sata"),
        (host and os.path.isdir(roots.at_sys("class", "fc_host", host)), "fibre-channel"),
        ("/session" in path or (host and os.path.isdir(roots.at_sys("class", "iscsi_host", host))), "iscsi"),
        ("/end_device-" in path, "sata on sas" if ata else "sas"),
        ("/virtio" in path, "virtio-scsi" if host else "virtio"),
        ("/vmbus" in path or "VMBUS" in path, "hyper-v"),
        (host, "scsi"),
    )
    return next((words for sign, words in signs if sign), None)


def port_speed(roots: Roots, name: str) -> PortSheet:
    """Speed of the cable between adapter and drive, where it is not PCIe."""
    path = os.path.realpath(roots.at_sys("class", "block", name))
    sheet = PortSheet()
    port = re.search(r"/ata(\d+)/", path)
    found: str | None = None
    if port:
        found = text(roots.at_sys("class", "ata_link", f"link{port.group(1)}", "sata_spd"))
        sheet.limit = text(roots.at_sys("class", "ata_link", f"link{port.group(1)}", "hw_sata_spd_limit"))
        if sheet.limit is None:
            sheet.unknown["limit"] = not_known("the adapter does not tell")
    elif "/end_device-" in path:
        directory = next(
            (here for here in ancestors(path, roots.sys) if os.path.basename(here).startswith("port-")), ""
        )
        rates = [
            text(directory, entry, "sas_phy", entry, "negotiated_linkrate")
            for entry in entries(directory)
            if entry.startswith("phy-")
        ]
        found = next((rate for rate in rates if rate), None)
    elif "/usb" in path:
        rate = next((text(here, "speed") for here in ancestors(path, roots.sys) if text(here, "idVendor")), None)
        found = f"{rate} Mbit/s" if rate else None
    sheet.words = found if found and "unknown" not in found.lower() else None
    if sheet.words is None:
        sheet.unknown["words"] = not_known("this transport reports no link speed")
    return sheet


def is_virtual(model: str | None, vendor: str | None, transport_words: str | None) -> bool:
    """Whether a hypervisor serves this disk."""
    words = transport_words or ""
    return words.startswith(("virtio", "xen", "hyper-v")) or bool(VIRTUAL_MODEL.search(f"{vendor or ''} {model or ''}"))


ready(PciNames)
