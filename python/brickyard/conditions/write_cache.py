"""Duty: switch the volatile write caches of the drives below a target, and say how they stand.

A SCSI or ATA drive is switched through sysfs (`scsi_disk/*/cache_type`, which sends MODE SELECT), a virtio disk through
its own `cache_type`, an NVMe drive by `nvme set-feature`; where that is refused, hdparm or sdparm do it. Refusal:
`queue/write_cache` alone only tells the kernel to send no more flushes, so it is never used to switch a cache; it is
made to agree with what the drive was told.
"""

from __future__ import annotations

import glob
import os

from brickyard.arrays.host import Host
from brickyard.arrays.steps import WriteCacheStep
from brickyard.errors import BadInputError, BrickyardError
from brickyard.facts.roots import text
from brickyard.facts.target import drives, target_facts
from brickyard.schema import SampledState

ON, OFF = "write back", "write through"


def drive_names(target: str, host: Host) -> list[str]:
    found = [node.name for node in drives(target_facts(target, False, host.roots))]
    if not found:
        raise BadInputError(f"{target}: no drive can be seen below it, so no write cache can be switched")
    return found


def setting(host: Host, drive: str) -> str | None:
    """`write back` or `write through`, as the drive's driver tells it, else as the kernel believes."""
    for path in _files(host, drive):
        value = text(path)
        if value:
            return ON if value.startswith(ON) else OFF
    return text(host.roots.at_sys("class", "block", drive, "queue", "write_cache"))


def state_of(target: str, host: Host) -> SampledState:
    """`write_cache_on` where every drive has it on, `write_cache_off` where none has, else `mixed` or `unknown`."""
    found = {setting(host, drive) for drive in drive_names(target, host)}
    if None in found:
        return SampledState.UNKNOWN
    if len(found) > 1:
        return SampledState.MIXED
    return SampledState.WRITE_CACHE_ON if found == {ON} else SampledState.WRITE_CACHE_OFF


def switch(host: Host, drive: str, value: str) -> None:
    """Tries the ways in turn and looks whether the drive says so."""
    refused = []
    for way in (_by_driver, _by_nvme, _by_hdparm, _by_sdparm):
        try:
            if not way(host, drive, value):
                continue
        except BrickyardError as error:
            refused.append(str(error))
            continue
        believed = host.roots.at_sys("class", "block", drive, "queue", "write_cache")
        if text(believed) not in (None, value):
            host.write(believed, value)
        if setting(host, drive) == value:
            return
        refused.append(f"the drive still says {setting(host, drive)}")
    words = "; ".join(refused) or "neither its driver nor hdparm, sdparm or nvme can do it"
    raise BadInputError(f"{drive}: its write cache cannot be switched: {words}")


def put_back(host: Host, step: WriteCacheStep) -> str:
    drive, value = step.drive, step.value
    if setting(host, drive) == value:
        return ""
    switch(host, drive, value)
    return f"the write cache of {drive} is {value} again"


def _files(host: Host, drive: str) -> list[str]:
    base = host.roots.at_sys("class", "block", drive)
    return [*glob.glob(os.path.join(base, "device", "scsi_disk", "*", "cache_type")), os.path.join(base, "cache_type")]


def _by_driver(host: Host, drive: str, value: str) -> bool:
    paths = [path for path in _files(host, drive) if text(path) is not None]
    for path in paths:
        host.write(path, value)
    return bool(paths)


def _by_nvme(host: Host, drive: str, value: str) -> bool:
    if not drive.startswith("nvme"):
        return False
    # NVM Express Base Specification: feature 06h, Volatile Write Cache, bit 0.
    device = os.path.join(host.roots.dev, drive)
    host.must("nvme", "set-feature", device, "-f", "6", "-v", "1" if value == ON else "0")
    told = host.must("nvme", "get-feature", device, "-f", "6")
    if ("00000001" in told) != (value == ON):
        raise BrickyardError("the drive did not take the setting")
    return True


def _by_hdparm(host: Host, drive: str, value: str) -> bool:
    if host.roots.tools.find("hdparm") is None:
        return False
    host.must("hdparm", "-W1" if value == ON else "-W0", os.path.join(host.roots.dev, drive))
    return True


def _by_sdparm(host: Host, drive: str, value: str) -> bool:
    if host.roots.tools.find("sdparm") is None:
        return False
    host.must("sdparm", "--set=WCE" if value == ON else "--clear=WCE", os.path.join(host.roots.dev, drive))
    return True
