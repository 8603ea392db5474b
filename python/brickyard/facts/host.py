"""The fact sheet of the host: processor, memory, kernel, virtualization, limits.

Duty: the circumstances on the side of the machine that asks. Refusal: nothing about storage; that is `target`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import resource
from collections import Counter
from dataclasses import dataclass

import msgspec

from brickyard.ready import ready
from brickyard.schema.host_sheet import (
    DirtySheet,
    FrequencySheet,
    HostSheet,
    LimitsSheet,
    MemorySheet,
    ProcessorSheet,
    UringSheet,
    VirtualizationSheet,
)
from brickyard.schema.sheets import Reasons

from .cgroups import cgroup_facts
from .roots import Roots, as_number, binary, entries, number, text

# io_uring_setup(2); the number is the same on every architecture but Alpha, whose own table is offset by 110.
IO_URING_SETUP = 425
IO_URING_PARAMS_BYTES = 120

BOOT_OPTIONS = {
    "mitigations",
    "spectre_v2",
    "nopti",
    "pti",
    "isolcpus",
    "nohz_full",
    "rcu_nocbs",
    "idle",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "cpuidle.off",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "iommu.strict",
    "iommu.passthrough",
    "transparent_hugepage",
    "hugepages",
    "nvme.poll_queues",
    "threadirqs",
    "preempt",
    "clocksource",
    "tsc",
    "nosmt",
    "pcie_aspm",
    "nvme_core.default_ps_max_latency_us",
    "scsi_mod.use_blk_mq",
}


class _CpuRow(
    msgspec.Struct,
    rename={
        "model_name": "model name",
        "arm_model": "Model",
        "other_model": "cpu model",
        "vendor": "vendor_id",
        "arm_vendor": "CPU implementer",
        "arm_flags": "Features",
        "socket": "physical id",
        "core": "core id",
        "mhz": "cpu MHz",
    },
):
    """What /proc/cpuinfo tells of one processor."""

    processor: str | None = None
    model_name: str | None = None
    arm_model: str | None = None
    other_model: str | None = None
    vendor: str | None = None
    arm_vendor: str | None = None
    microcode: str | None = None
    flags: str | None = None
    arm_flags: str = ""
    socket: str | None = None
    core: str | None = None
    mhz: str = ""


@dataclass(frozen=True)
class CpuInfo:
    """What /proc/cpuinfo tells of all of them."""

    model: str | None
    vendor: str | None
    microcode: str | None
    flags: frozenset[str]
    sockets: int | None
    physical_cores: int | None
    current_mhz: float | None


def parse_cpuinfo(content: str) -> CpuInfo:
    """Model, flags and current frequencies; ARM kernels name no model."""
    read: list[dict[str, str]] = [{}]
    for line in content.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            if read[-1]:
                read.append({})
            continue
        read[-1][key.strip()] = value.strip()
    rows = msgspec.convert(read, list[_CpuRow])
    rows = [row for row in rows if row.processor is not None] or rows[:1]
    first = rows[0]
    sockets = {row.socket for row in rows if row.socket is not None}
    cores = {("0" if row.socket is None else row.socket, row.core) for row in rows if row.core is not None}
    megahertz = [float(row.mhz) for row in rows if re.fullmatch(r"\d{1,6}(\.\d+)?", row.mhz)]
    return CpuInfo(
        model=first.model_name or first.arm_model or first.other_model,
        vendor=first.vendor or first.arm_vendor,
        microcode=first.microcode,
        flags=frozenset((first.arm_flags if first.flags is None else first.flags).split()),
        sockets=len(sockets) or None,
        physical_cores=len(cores) or None,
        current_mhz=max(megahertz, default=None),
    )


def cpu_facts(roots: Roots) -> ProcessorSheet:
    told = parse_cpuinfo(text(roots.at_proc("cpuinfo")) or "")
    reasons = Reasons()
    untold = "/proc/cpuinfo does not tell"
    return ProcessorSheet(
        model=reasons.of("model", told.model, untold),
        vendor=reasons.of("vendor", told.vendor, untold),
        microcode=reasons.of("microcode", told.microcode, untold),
        sockets=reasons.of("sockets", told.sockets, untold),
        physical_cores=reasons.of("physical_cores", told.physical_cores, untold),
        current_mhz=reasons.of("current_mhz", told.current_mhz, untold),
        architecture=reasons.ask("architecture", platform.machine),
        logical_cores=reasons.ask("logical_cores", os.cpu_count),
        usable_cores=reasons.ask("usable_cores", lambda: len(os.sched_getaffinity(0))),
        invariant_tsc={"constant_tsc", "nonstop_tsc"} <= told.flags if told.flags else None,
        smt=text(roots.at_sys("devices", "system", "cpu", "smt", "control")),
        unknown=reasons.unknown,
    ).explained()


def frequency_facts(roots: Roots) -> FrequencySheet:
    """Governors with the number of cores each, and the range the frequency may take."""
    base = roots.at_sys("devices", "system", "cpu")
    cores = [entry for entry in entries(base) if re.fullmatch(r"cpu\d+", entry)]
    governors = Counter(words for core in cores if (words := text(base, core, "cpufreq", "scaling_governor")))
    lowest = [value for core in cores if (value := number(base, core, "cpufreq", "scaling_min_freq"))]
    highest = [value for core in cores if (value := number(base, core, "cpufreq", "scaling_max_freq"))]
    no_turbo, boost = number(base, "intel_pstate", "no_turbo"), number(base, "cpufreq", "boost")
    idle = [
        text(base, "cpu0", "cpuidle", state, "name")
        for state in entries(base, "cpu0", "cpuidle")
        if state.startswith("state")
    ]
    return FrequencySheet(
        governors=dict(sorted(governors.items())) or None,
        min_khz=min(lowest, default=None),
        max_khz=max(highest, default=None),
        driver=text(base, "cpu0", "cpufreq", "scaling_driver"),
        energy_preference=text(base, "cpu0", "cpufreq", "energy_performance_preference"),
        turbo=no_turbo == 0 if no_turbo is not None else boost == 1 if boost is not None else None,
        idle_states=[words for words in idle if words] or None,
    ).explained("cpufreq is not offered here, as in most virtual machines", idle_states="cpuidle is not offered here")


def parse_meminfo(content: str) -> dict[str, int]:
    """Bytes by name; lines without kB are counts."""
    found: dict[str, int] = {}
    for name, count, unit in re.findall(r"^([\w()]+):\s+(\d{1,18})( kB)?\s*$", content, re.MULTILINE):
        found[name] = int(count) * (1024 if unit else 1)
    return found


class _MemInfo(
    msgspec.Struct,
    rename={
        "total": "MemTotal",
        "available": "MemAvailable",
        "cached": "Cached",
        "dirty": "Dirty",
        "swap_total": "SwapTotal",
        "swap_free": "SwapFree",
        "huge_pages": "HugePages_Total",
        "huge_page": "Hugepagesize",
    },
):
    """Bytes, but for the count of huge pages."""

    total: int | None = None
    available: int | None = None
    cached: int | None = None
    dirty: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    huge_pages: int | None = None
    huge_page: int | None = None


def memory_facts(roots: Roots) -> MemorySheet:
    told = msgspec.convert(parse_meminfo(text(roots.at_proc("meminfo")) or ""), _MemInfo)
    words = text(roots.at_sys("kernel", "mm", "transparent_hugepage", "enabled"))
    match = re.search(r"\[(\w+)\]", words or "")
    return MemorySheet(
        total_bytes=told.total,
        available_bytes=told.available,
        cached_bytes=told.cached,
        dirty_bytes=told.dirty,
        swap_total_bytes=told.swap_total,
        swap_free_bytes=told.swap_free,
        huge_pages=told.huge_pages,
        huge_page_bytes=told.huge_page,
        transparent_huge_pages=match.group(1) if match else None,
    ).explained("/proc/meminfo does not tell", transparent_huge_pages="this kernel has none")


def container(roots: Roots) -> str | None:
    """The kind of container this runs in, as far as it lets itself be seen."""
    if os.path.exists(os.path.join(os.path.dirname(roots.etc.rstrip("/")) or "/", ".dockerenv")):
        return "docker"
    if os.path.exists(os.path.join(roots.run, ".containerenv")):
        return "podman"
    for word in (binary(roots.at_proc("1", "environ")) or b"").split(b"\0"):
        if word.startswith(b"container="):
            return word[10:].decode("utf-8", "replace") or "container"
    match = re.search(r"docker|lxc|kubepods|libpod|containerd", text(roots.at_proc("1", "cgroup")) or "")
    return match.group(0) if match else text(roots.run, "systemd", "container")


def virtualization_facts(roots: Roots, hypervisor_flag: bool) -> VirtualizationSheet:
    dmi = roots.at_sys("class", "dmi", "id")
    reason = "there is no DMI here" if not os.path.isdir(dmi) else "DMI does not tell"
    hypervisor = text(roots.at_sys("hypervisor", "type"))
    return VirtualizationSheet(
        hypervisor_flag=hypervisor_flag,
        product=text(dmi, "product_name"),
        product_vendor=text(dmi, "sys_vendor"),
        hypervisor=hypervisor,
        container=container(roots) or "none seen",
        virtual_machine=hypervisor_flag or hypervisor is not None,
    ).explained(reason, hypervisor="/sys/hypervisor does not tell")


def io_uring_setup() -> str:
    """ "ok", or the name of the error that io_uring_setup(2) gives: a seccomp filter shows nowhere else."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        handle = call(IO_URING_SETUP, 1, ctypes.create_string_buffer(IO_URING_PARAMS_BYTES))
        if handle >= 0:
            os.close(handle)
            return "ok"
        return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
    except (OSError, AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def io_uring_facts(roots: Roots) -> UringSheet:
    reasons = Reasons()
    setup = reasons.ask("setup", io_uring_setup)
    return UringSheet(
        # Documentation/admin-guide/sysctl/kernel.rst: 0 all, 1 only the group io_uring_group and CAP_SYS_ADMIN, 2
        # nobody.
        disabled=number(roots.at_proc("sys", "kernel", "io_uring_disabled")),
        setup=setup,
        usable=setup == "ok",
        unknown=reasons.unknown,
    ).explained("kernels before 6.6 have no such setting")


def parse_os_release(content: str) -> str | None:
    match = re.search(r'^PRETTY_NAME=(["\']?)(.*?)\1\s*$', content, re.MULTILINE)
    return match.group(2) or None if match else None


def boot_options(command_line: str) -> list[str]:
    """Boot options that change how fast storage is; the rest of the line may hold what is nobody's business."""
    return [word for word in command_line.split() if word.partition("=")[0] in BOOT_OPTIONS]


def timer_slack_ns(roots: Roots) -> int | None:
    return number(roots.at_proc("self", "timerslack_ns"))


def limits() -> LimitsSheet:
    reasons = Reasons()

    def soft(field: str, name: int) -> int | str | None:
        value = reasons.ask(field, lambda: resource.getrlimit(name)[0])
        return "unlimited" if value == resource.RLIM_INFINITY else value

    return LimitsSheet(
        memlock_bytes=soft("memlock_bytes", resource.RLIMIT_MEMLOCK),
        open_files=soft("open_files", resource.RLIMIT_NOFILE),
        unknown=reasons.unknown,
    )


def load_average(roots: Roots) -> list[float] | None:
    words = (text(roots.at_proc("loadavg")) or "").split()[:3]
    return [float(word) for word in words] if len(words) == 3 else None


def uptime_s(roots: Roots) -> float | None:
    words = (text(roots.at_proc("uptime")) or "").split()
    return float(words[0]) if words else None


def host_facts(roots: Roots) -> HostSheet:
    """Everything about the host; never raises."""
    reasons = Reasons()
    ask = reasons.ask
    clock = roots.at_sys("devices", "system", "clocksource", "clocksource0")
    return HostSheet(
        name=ask("name", lambda: text(roots.at_proc("sys", "kernel", "hostname"))),
        cpu=ask("cpu", lambda: cpu_facts(roots)),
        frequency=ask("frequency", lambda: frequency_facts(roots)),
        memory=ask("memory", lambda: memory_facts(roots)),
        kernel=ask("kernel", lambda: text(roots.at_proc("sys", "kernel", "osrelease"))),
        kernel_version=ask("kernel_version", lambda: text(roots.at_proc("sys", "kernel", "version"))),
        boot_options=ask("boot_options", lambda: boot_options(text(roots.at_proc("cmdline")) or "")),
        os=ask("os", lambda: parse_os_release(text(roots.etc, "os-release") or ""), "/etc/os-release does not tell"),
        virtualization=ask("virtualization", lambda: virtualization_facts(roots, _hypervisor_flag(roots))),
        uptime_s=ask("uptime_s", lambda: uptime_s(roots)),
        load_average=ask("load_average", lambda: load_average(roots)),
        io_uring=ask("io_uring", lambda: io_uring_facts(roots)),
        clock_source=ask("clock_source", lambda: text(clock, "current_clocksource")),
        clock_sources=ask("clock_sources", lambda: (text(clock, "available_clocksource") or "").split() or None),
        timer_slack_ns=ask("timer_slack_ns", lambda: timer_slack_ns(roots)),
        limits=ask("limits", limits),
        cgroup=ask("cgroup", lambda: cgroup_facts(roots)),
        root=ask("root", lambda: os.geteuid() == 0),
        boot_id=ask("boot_id", lambda: text(roots.at_proc("sys", "kernel", "random", "boot_id"))),
        vm_dirty=ask("vm_dirty", lambda: dirty_settings(roots)),
        unknown=reasons.unknown,
    )


def _hypervisor_flag(roots: Roots) -> bool:
    return "hypervisor" in parse_cpuinfo(text(roots.at_proc("cpuinfo")) or "").flags


def dirty_settings(roots: Roots) -> DirtySheet:
    def setting(name: str) -> int | None:
        return as_number(text(roots.at_proc("sys", "vm", name)))

    return DirtySheet(
        dirty_ratio=setting("dirty_ratio"),
        dirty_background_ratio=setting("dirty_background_ratio"),
        dirty_bytes=setting("dirty_bytes"),
        dirty_background_bytes=setting("dirty_background_bytes"),
        swappiness=setting("swappiness"),
    )


ready(list[_CpuRow], _MemInfo)
