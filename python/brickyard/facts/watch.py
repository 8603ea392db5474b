"""What happened on host and devices while a run was under way, beside the run.

Duty: counters of every device in a target's stack, CPU and steal, throttling, temperature, array state; at the start,
at the end, and at each sample. Refusal: it stays out of the way: a sample reads open files and never asks a drive.
"""

from __future__ import annotations

import itertools
import os
import resource
import stat
import time
from threading import Thread
from types import TracebackType
from typing import Any

from . import arrays, cgroups, foreign, health, stack
from .counters import (
    LEVELS,
    OpenFile,
    counted,
    cpu_shares,
    difference,
    parse_cpus,
    parse_stat,
    read_number,
    throttle_files,
)
from .roots import Json, Known, Roots, text
from .target import NO_PATH, target_facts

STAT_PATIENCE_S = 0.5

# The store keeps as many intervals a run; samples are cumulative, so leaving out every other one loses no count.
SAMPLES_MAX = 3600
# 80 characters a CPU, for more CPUs than there are.
CPU_READ_BYTES = 1 << 19
SERIES_FIELDS = (
    *("read_requests", "read_bytes", "write_requests", "write_bytes", "busy_ms", "in_flight"),
    *("read_ms", "write_ms", "weighted_ms"),
)


class Watch:
    """Watches what lies below a target: `with Watch(path) as watch: …; watch.sample(); …` and then `watch.result()`."""

    def __init__(self, target_path: str, roots: Roots | None = None) -> None:
        self.roots = roots or Roots()
        self.target_path = target_path
        self.unknown: dict[str, str] = {}
        self.samples: list[Json] = []
        self.stride, self.calls = 1, 0
        self.started_ns: int | None = None
        self.ended_ns: int | None = None
        self.first: Json = {}
        self.last: Json = {}
        self.nodes: list[Json] = []
        self.facts: Json = {}
        self.stat_files: dict[str, OpenFile] = {}
        self.cpu_file = OpenFile("")
        self.throttles: list[OpenFile] = []
        self.group_file = OpenFile("")

    def __enter__(self) -> Watch:
        try:
            self._open()
        except Exception as error:
            self.unknown["watch"] = f"not known: {type(error).__name__}: {error}"
        self.started_ns = time.monotonic_ns()
        self.first = self._full()
        self._keep(compact(self.first))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """The last sample; called again it does nothing."""
        if self.started_ns is None or self.ended_ns is not None:
            return
        self.last = self._full()
        self.ended_ns = self.started_ns + int(self.last["at_ns"])
        self.samples.append(compact(self.last))
        for file in (*self.stat_files.values(), *self.throttles, self.cpu_file, self.group_file):
            file.close()

    def sample(self) -> None:
        """One more point of the series; meant for once a second. Outside the `with` it does nothing."""
        if self.started_ns is None or self.ended_ns is not None:
            return
        self.calls += 1
        if self.calls % self.stride:
            return
        self._keep(compact(self._counters(total_only=True)))

    def _open(self) -> None:
        self.facts = target_facts(self.target_path, False, self.roots)
        tree = self.facts.get("stack") or []
        self.nodes = stack.devices(tree)
        if not self.nodes:
            reason = self.facts.get("unknown", {}).get("stack", "not known: no device is below the target")
            self.unknown["devices"] = reason
        for node in self.nodes:
            self.stat_files[node["major_minor"]] = OpenFile(
                self.roots.at_sys("dev", "block", node["major_minor"], "stat")
            )
            if node.get("queue", {}).get("iostats") is False:
                self.unknown[node["name"]] = f"not known: counting is off in {node['name']}'s queue/iostats"
        self.cpu_file = OpenFile(self.roots.at_proc("stat"))
        self.throttles = throttle_files(self.roots)
        self.group_file = OpenFile(cgroups.throttle_file(self.roots) or "")

    def _counters(self, total_only: bool = False) -> Json:
        """What is cheap: everything here is a read of an open file."""
        at_ns = time.monotonic_ns() - (self.started_ns or 0)
        return {
            "at_ns": at_ns,
            "devices": {number: parse_stat(file.read()) for number, file in self.stat_files.items()},
            "cpus": parse_cpus(self.cpu_file.read(CPU_READ_BYTES), total_only),
        }

    def _full(self) -> Json:
        """With what is read at both ends only: a temperature is a command to the drive, which could delay a request."""
        try:
            return {**self._counters(), **self._ends()}
        except Exception as error:
            self.unknown["watch"] = f"not known: {type(error).__name__}: {error}"
            return {"at_ns": time.monotonic_ns() - (self.started_ns or 0), "devices": {}, "cpus": {}}

    def _ends(self) -> Json:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        counts = [read_number(file) for file in self.throttles]
        return {
            "identity": identity(self.target_path),
            "throttles": sum(count or 0 for count in counts) if self.throttles else None,
            "group_throttles": cgroups.parse_cpu_stat(self.group_file.read() or b""),
            "process": {
                "user_ns": int(usage.ru_utime * 1e9),
                "system_ns": int(usage.ru_stime * 1e9),
                **self._process_io(),
            },
            "temperature": {
                node["name"]: health.temperature(self.roots, node["name"]) for node in stack.bottom(self.nodes)
            },
            "arrays": {
                node["name"]: array_state(self.roots, node) for node in self.nodes if node["type"] in ("md", "dm")
            },
        }

    def _process_io(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for line in (text(self.roots.at_proc("self", "io")) or "").splitlines():
            name, colon, count = line.partition(": ")
            if colon and name in ("read_bytes", "write_bytes") and count.isdigit():
                found[name] = int(count)
        return found

    def _keep(self, sample: Json) -> None:
        self.samples.append(sample)
        if len(self.samples) > SAMPLES_MAX:
            self.samples = self.samples[::2]
            self.stride *= 2

    def foreign_io(self, ours: Json) -> Json:
        """The target's device counters minus ours; `ours` holds {read,write}_{bytes,requests}.

        Or those of a server (`ServerIo`), or why they are not known.
        """
        if ours.get("known") is False:
            return ours
        last = self.last or self._counters()
        try:
            deltas = self._deltas(last)
            process = minus(self.first.get("process"), last.get("process")) or {}
            duration_ns = int(last.get("at_ns", 0))
            dirty_bytes = int(ours.get("dirty_bytes", 0))
            told = foreign.compare(
                self.facts, deltas, ours, process,
                duration_ns=duration_ns, unknown=self.unknown, dirty_bytes=dirty_bytes,
            )  # fmt: skip
            return {**told, "whose": ours.get("whose", "our own")} if told["known"] else told
        except Exception as error:
            return {"known": False, "reason": f"not known: {type(error).__name__}: {error}"}

    def _deltas(self, last: Json) -> dict[str, dict[str, int] | None]:
        result: dict[str, dict[str, int] | None] = {}
        for node in self.nodes:
            number = node["major_minor"]
            before, after = self.first.get("devices", {}).get(number), last.get("devices", {}).get(number)
            result[number] = difference(before, after) if before and after else None
        return result

    def top_devices(self) -> set[str]:
        """Those that the target's own file system lies on."""
        return {node["major_minor"] for node in stack.tops(self.facts.get("stack") or [])}

    def result(self, ours: Json | None = None) -> Json:
        """Everything seen, ready for JSON; with `ours` also the foreign I/O."""
        last = self.last or self._counters()
        known = Known(duration_ns=last.get("at_ns", 0), samples=len(self.samples), sample_stride=self.stride)
        known.unknown.update(self.unknown)
        known.ask("devices", lambda: self._device_results(last))
        known.ask("cpu", lambda: self._cpu_results(last))
        known.ask("throttle", lambda: self._throttle_results(last))
        known.put("temperature", {"start": self.first.get("temperature"), "end": last.get("temperature")})
        known.put("identity", {"start": self.first.get("identity"), "end": last.get("identity")})
        known.put("arrays", {"start": self.first.get("arrays"), "end": last.get("arrays")})
        known.ask("process", lambda: minus(self.first.get("process"), last.get("process")), "the watch has not ended")
        known.put("foreign", None if ours is None else self.foreign_io(ours), "no counts of our own were given")
        return known.done()

    def _device_results(self, last: Json) -> Json:
        tree = self.facts.get("stack") or []
        top = {node["major_minor"] for node in stack.tops(tree)}
        low = {node["major_minor"] for node in stack.bottom(tree)}
        deltas = self._deltas(last)
        result: Json = {}
        for node in self.nodes:
            number = node["major_minor"]
            roles = [role for role, group in (("target", top), ("bottom", low)) if number in group]
            result[number] = {
                "name": node["name"],
                "roles": roles,
                "delta": deltas[number],
                "series": self._series(number),
            }
        return result

    def _series(self, number: str) -> Json:
        """Cumulative counts since the start at each sample, as columns."""
        columns: Json = {"at_ns": [], **{name: [] for name in SERIES_FIELDS}}
        first = self.samples[0]["devices"].get(number) if self.samples else None
        for sample in self.samples:
            here = sample["devices"].get(number)
            if first is None or here is None:
                continue
            columns["at_ns"].append(sample["at_ns"])
            for name, start, value in zip(SERIES_FIELDS, first, here, strict=True):
                columns[name].append(value if name in LEVELS else counted(name, start, value))
        return columns

    def _cpu_results(self, last: Json) -> Json | None:
        before, after = self.first.get("cpus", {}), last.get("cpus", {})
        if "cpu" not in before or "cpu" not in after:
            return None
        each = {name: cpu_shares(before[name], after[name]) for name in after if name != "cpu" and name in before}
        series: dict[str, list[Any]] = {"at_ns": [], "busy_share": [], "steal_share": []}
        for earlier, later in itertools.pairwise(self.samples):
            if earlier["cpu"] and later["cpu"]:
                shares = cpu_shares(earlier["cpu"], later["cpu"])
                series["at_ns"].append(later["at_ns"])
                series["busy_share"].append(shares["busy_share"])
                series["steal_share"].append(shares["steal_share"])
        worst = max((shares["steal_share"] or 0.0 for shares in each.values()), default=0.0)
        return {**cpu_shares(before["cpu"], after["cpu"]), "worst_steal_share": worst, "each": each, "series": series}

    def _throttle_results(self, last: Json) -> Json:
        known = Known()
        known.put("cpu_events", gap(self.first, last, "throttles"), "this CPU counts no thermal throttling")
        known.put("cgroup_events", gap(self.first, last, "group_throttles"), "no CPU control group counts here")
        return known.done()


def compact(reading: Json) -> Json:
    """What a series keeps of a reading: a few numbers a device, and the sum of all CPUs."""
    columns = {
        number: tuple(told[name] for name in SERIES_FIELDS) if told else None
        for number, told in reading["devices"].items()
    }
    return {"at_ns": reading["at_ns"], "devices": columns, "cpu": reading["cpus"].get("cpu")}


def identity(path: str) -> Json | None:
    """By what a file is known again, whatever lies at its path: None where it is no path, or nobody answers."""
    if NO_PATH.match(path):
        return None
    answers: list[os.stat_result | None] = []

    def ask() -> None:
        try:
            answers.append(os.stat(path))
        except OSError:
            answers.append(None)

    # A file system that hangs holds up whoever asks it, and a run on it has to end nevertheless.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(STAT_PATIENCE_S)
    if not answers:
        return None
    found = answers[0]
    if found is None:
        return {"exists": False}
    told = {"exists": True, "device": found.st_dev, "inode": found.st_ino}
    is_file = stat.S_ISREG(found.st_mode)
    return {**told, "size_bytes": found.st_size, "links": found.st_nlink} if is_file else told


def gap(before: Json, after: Json, key: str) -> int | None:
    first, last = before.get(key), after.get(key)
    return None if first is None or last is None else max(0, last - first)


def minus(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, int] | None:
    if before is None or after is None:
        return None
    return {name: after[name] - before[name] for name in after if name in before}


def array_state(roots: Roots, node: Json) -> Json:
    """State of an array now: what it does beside its work, how far it is, how many members are missing."""
    if node["type"] == "dm":
        raid = node.get("dm", {}).get("raid")
        raid = arrays.dm_facts(roots, node["name"]).get("raid") if raid else None
        return {"under_way": arrays.under_way(raid or {}), "degraded": (raid or {}).get("degraded")}
    facts = arrays.md_facts(roots, node["name"])
    return {
        "under_way": arrays.under_way(facts),
        "done_share": facts["sync_done_share"],
        "degraded": facts["degraded"],
        "array_state": facts["array_state"],
    }
