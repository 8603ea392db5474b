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

from .cgroups import cgroup_facts
from .roots import Json, Known, Roots, as_number, binary, entries, number, text

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


def parse_cpuinfo(content: str) -> Json:
    """Model, flags and current frequencies; ARM kernels name no model."""
    rows: list[dict[str, str]] = [{}]
    for line in content.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            if rows[-1]:
                rows.append({})
            continue
        rows[-1][key.strip()] = value.strip()
    rows = [row for row in rows if "processor" in row] or rows[:1]
    first = rows[0]
    sockets = {row["physical id"] for row in rows if "physical id" in row}
    cores = {(row.get("physical id", "0"), row["core id"]) for row in rows if "core id" in row}
    megahertz = [float(row["cpu MHz"]) for row in rows if re.fullmatch(r"\d{1,6}(\.\d+)?", row.get("cpu MHz", ""))]
    return {
        "model": first.get("model name") or first.get("Model") or first.get("cpu model"),
        "vendor": first.get("vendor_id") or first.get("CPU implementer"),
        "microcode": first.get("microcode"),
        "flags": first.get("flags", first.get("Features", "")).split(),
        "sockets": len(sockets) or None,
        "physical_cores": len(cores) or None,
        "current_mhz": max(megahertz, default=None),
    }


def cpu_facts(roots: Roots) -> Json:
    told = parse_cpuinfo(text(roots.at_proc("cpuinfo")) or "")
    known = Known()
    flags = told.pop("flags")
    for key, value in told.items():
        known.put(key, value, "/proc/cpuinfo does not tell")
    known.ask("architecture", platform.machine)
    known.ask("logical_cores", os.cpu_count)
    known.ask("usable_cores", lambda: len(os.sched_getaffinity(0)))
    known.put("invariant_tsc", "constant_tsc" in flags and "nonstop_tsc" in flags if flags else None)
    known.put("smt", (text(roots.at_sys("devices", "system", "cpu", "smt", "control"))))
    return {**known.done(), "hypervisor_flag": "hypervisor" in flags}


def frequency_facts(roots: Roots) -> Json:
    """Governors with the number of cores each, and the range the frequency may take."""
    base = roots.at_sys("devices", "system", "cpu")
    cores = [entry for entry in entries(base) if re.fullmatch(r"cpu\d+", entry)]
    known = Known()
    reason = "cpufreq is not offered here, as in most virtual machines"
    governors = Counter(words for core in cores if (words := text(base, core, "cpufreq", "scaling_governor")))
    known.put("governors", dict(sorted(governors.items())) or None, reason)
    lowest = [value for core in cores if (value := number(base, core, "cpufreq", "scaling_min_freq"))]
    highest = [value for core in cores if (value := number(base, core, "cpufreq", "scaling_max_freq"))]
    known.put("min_khz", min(lowest, default=None), reason)
    known.put("max_khz", max(highest, default=None), reason)
    known.put("driver", text(base, "cpu0", "cpufreq", "scaling_driver"), reason)
    known.put("energy_preference", text(base, "cpu0", "cpufreq", "energy_performance_preference"), reason)
    no_turbo, boost = number(base, "intel_pstate", "no_turbo"), number(base, "cpufreq", "boost")
    turbo = no_turbo == 0 if no_turbo is not None else boost == 1 if boost is not None else None
    known.put("turbo", turbo, reason)
    idle = [
        text(base, "cpu0", "cpuidle", state, "name")
        for state in entries(base, "cpu0", "cpuidle")
        if state.startswith("state")
    ]
    known.put("idle_states", [words for words in idle if words] or None, "cpuidle is not offered here")
    return known.done()


def parse_meminfo(content: str) -> dict[str, int]:
    """Bytes by name; lines without kB are counts."""
    found: dict[str, int] = {}
    for name, count, unit in re.findall(r"^([\w()]+):\s+(\d{1,18})( kB)?\s*$", content, re.MULTILINE):
        found[name] = int(count) * (1024 if unit else 1)
    return found


def memory_facts(roots: Roots) -> Json:
    told = parse_meminfo(text(roots.at_proc("meminfo")) or "")
    known = Known()
    for key, name in (
        ("total_bytes", "MemTotal"),
        ("available_bytes", "MemAvailable"),
        ("cached_bytes", "Cached"),
        ("dirty_bytes", "Dirty"),
        ("swap_total_bytes", "SwapTotal"),
        ("swap_free_bytes", "SwapFree"),
        ("huge_pages", "HugePages_Total"),
        ("huge_page_bytes", "Hugepagesize"),
    ):
        known.put(key, told.get(name), "/proc/meminfo does not tell")
    words = text(roots.at_sys("kernel", "mm", "transparent_hugepage", "enabled"))
    match = re.search(r"\[(\w+)\]", words or "")
    known.put("transparent_huge_pages", match.group(1) if match else None, "this kernel has none")
    return known.done()


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


def virtualization_facts(roots: Roots, hypervisor_flag: bool) -> Json:
    known = Known(hypervisor_flag=hypervisor_flag)
    dmi = roots.at_sys("class", "dmi", "id")
    reason = "there is no DMI here" if not os.path.isdir(dmi) else "DMI does not tell"
    known.put("product", text(dmi, "product_name"), reason)
    known.put("product_vendor", text(dmi, "sys_vendor"), reason)
    known.put("hypervisor", text(roots.at_sys("hypervisor", "type")), "/sys/hypervisor does not tell")
    known.put("container", container(roots) or "none seen")
    known.put("virtual_machine", hypervisor_flag or known.values["hypervisor"] is not None)
    return known.done()


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


def io_uring_facts(roots: Roots) -> Json:
    known = Known()
    value = number(roots.at_proc("sys", "kernel", "io_uring_disabled"))
    # Documentation/admin-guide/sysctl/kernel.rst: 0 all, 1 only the group io_uring_group and CAP_SYS_ADMIN, 2 nobody.
    known.put("disabled", value, "kernels before 6.6 have no such setting")
    known.ask("setup", io_uring_setup)
    known.put("usable", known.values["setup"] == "ok")
    return known.done()


def parse_os_release(content: str) -> str | None:
    match = re.search(r'^PRETTY_NAME=(["\']?)(.*?)\1\s*$', content, re.MULTILINE)
    return match.group(2) or None if match else None


def boot_options(command_line: str) -> list[str]:
    """Boot options that change how fast storage is; the rest of the line may hold what is nobody's business."""
    return [word for word in command_line.split() if word.partition("=")[0] in BOOT_OPTIONS]


def timer_slack_ns(roots: Roots) -> int | None:
    return number(roots.at_proc("self", "timerslack_ns"))


def limits() -> Json:
    known = Known()

    def soft(name: int) -> int | str:
        value = resource.getrlimit(name)[0]
        return "unlimited" if value == resource.RLIM_INFINITY else value

    known.ask("memlock_bytes", lambda: soft(resource.RLIMIT_MEMLOCK))
    known.ask("open_files", lambda: soft(resource.RLIMIT_NOFILE))
    return known.done()


def load_average(roots: Roots) -> list[float] | None:
    words = (text(roots.at_proc("loadavg")) or "").split()[:3]
    return [float(word) for word in words] if len(words) == 3 else None


def uptime_s(roots: Roots) -> float | None:
    words = (text(roots.at_proc("uptime")) or "").split()
    return float(words[0]) if words else None


def host_facts(roots: Roots) -> Json:
    """Everything about the host; never raises."""
    known = Known()
    known.ask("name", lambda: text(roots.at_proc("sys", "kernel", "hostname")))
    known.ask("cpu", lambda: cpu_facts(roots))
    known.ask("frequency", lambda: frequency_facts(roots))
    known.ask("memory", lambda: memory_facts(roots))
    known.ask("kernel", lambda: text(roots.at_proc("sys", "kernel", "osrelease")))
    known.ask("kernel_version", lambda: text(roots.at_proc("sys", "kernel", "version")))
    known.ask("boot_options", lambda: boot_options(text(roots.at_proc("cmdline")) or ""))
    known.ask("os", lambda: parse_os_release(text(roots.etc, "os-release") or ""), "/etc/os-release does not tell")
    flag = bool((known.values["cpu"] or {}).pop("hypervisor_flag", False))
    known.ask("virtualization", lambda: virtualization_facts(roots, flag))
    known.ask("uptime_s", lambda: uptime_s(roots))
    known.ask("load_average", lambda: load_average(roots))
    known.ask("io_uring", lambda: io_uring_facts(roots))
    clock = roots.at_sys("devices", "system", "clocksource", "clocksource0")
    known.ask("clock_source", lambda: text(clock, "current_clocksource"))
    known.ask("clock_sources", lambda: (text(clock, "available_clocksource") or "").split() or None)
    known.ask("timer_slack_ns", lambda: timer_slack_ns(roots))
    known.ask("limits", limits)
    known.ask("cgroup", lambda: cgroup_facts(roots))
    known.ask("root", lambda: os.geteuid() == 0)
    known.ask("boot_id", lambda: text(roots.at_proc("sys", "kernel", "random", "boot_id")))
    known.ask("vm_dirty", lambda: dirty_settings(roots))
    return known.done()


def dirty_settings(roots: Roots) -> dict[str, int | None]:
    """How much a buffered write may leave in memory; 0 in a bytes setting means that the ratio counts."""
    names = ("dirty_ratio", "dirty_background_ratio", "dirty_bytes", "dirty_background_bytes", "swappiness")
    return {name: as_number(text(roots.at_proc("sys", "vm", name))) for name in names}
