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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Thread
from types import TracebackType

from brickyard.schema.sheets import Reasons, not_known
from brickyard.schema.target_sheet import DeviceSheet, TargetSheet, TemperatureSheet
from brickyard.schema.watch_sheet import (
    AT,
    ArrayState,
    CpuSeries,
    CpuSheet,
    ForeignIo,
    Identity,
    ProcessUse,
    StartAndEnd,
    ThrottleSheet,
    WatchedDevice,
    WatchSheet,
)

from . import arrays, cgroups, emulated, foreign, health, stack
from .counters import (
    LEVELS,
    STEAL,
    OpenFile,
    counted,
    cpu_shares,
    difference,
    parse_cpus,
    parse_stat,
    read_number,
    throttle_files,
)
from .foreign import OwnIo
from .roots import Roots, text
from .server_io import NotCounted, parse_process_io
from .target import NO_PATH, target_facts

STAT_PATIENCE_S = 0.5

ALL_CPUS = "cpu"  # what /proc/stat calls the sum of all
# The store keeps as many intervals a run; samples are cumulative, so leaving out every other one loses no count.
SAMPLES_MAX = 3600
# 80 characters a CPU, for more CPUs than there are.
CPU_READ_BYTES = 1 << 19
SERIES_FIELDS = (
    *("read_requests", "read_bytes", "write_requests", "write_bytes", "busy_ms", "in_flight"),
    *("read_ms", "write_ms", "weighted_ms"),
)


@dataclass(frozen=True)
class AtEnd:
    """What is read at both ends only: a temperature is a command to the drive, which could delay a request."""

    identity: Identity | None
    throttles: int | None
    group_throttles: int | None
    process: ProcessUse
    temperature: dict[str, TemperatureSheet]
    arrays: dict[str, ArrayState]
    emulated: dict[str, emulated.EmulatedStatus]


@dataclass(frozen=True)
class Reading:
    at_ns: int
    """Since the start."""
    devices: dict[str, dict[str, int] | None] = field(default_factory=dict)
    cpus: dict[str, dict[str, int]] = field(default_factory=dict)
    end: AtEnd | None = None

    @property
    def all_cpus(self) -> dict[str, int] | None:
        return self.cpus.get(ALL_CPUS)


@dataclass(frozen=True)
class PossibleEnd:
    """What is counted at an instant that may turn out to have been the end."""

    counted: Reading
    process: ProcessUse


@dataclass(frozen=True)
class SeriesPoint:
    """What a series keeps of a reading: a few numbers a device, and the sum of all CPUs."""

    at_ns: int
    devices: dict[str, tuple[int, ...] | None]
    cpu: dict[str, int] | None


class Watch:
    """Watches what lies below a target: `with Watch(path) as watch: …; watch.sample(); …` and then `watch.result()`."""

    def __init__(
        self, target_path: str, roots: Roots | None = None, used: Callable[[], ProcessUse] | None = None
    ) -> None:
        """`used`: by those who carry the load, where it is not this process."""
        self.roots = roots or Roots()
        self._used = used
        self.target_path = target_path
        self.unknown: dict[str, str] = {}
        self.samples: list[SeriesPoint] = []
        self.stride, self.calls = 1, 0
        self.started_ns: int | None = None
        self.ended_ns: int | None = None
        self.first = Reading(0)
        self.last: Reading | None = None
        self.possible_ends: list[PossibleEnd] = []
        self.nodes: list[DeviceSheet] = []
        self.facts = TargetSheet(path=target_path)
        self.stat_files: dict[str, OpenFile] = {}
        self.cpu_file = OpenFile("")
        self.throttles: list[OpenFile] = []
        self.group_file = OpenFile("")

    def __enter__(self) -> Watch:
        try:
            self._open()
        except Exception as error:
            self.unknown["watch"] = not_known(f"{type(error).__name__}: {error}")
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
        self.ended_ns = self.started_ns + self.last.at_ns
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

    def may_end(self) -> None:
        """Reads what `end_at` can make the end. Outside the `with` it does nothing."""
        if self.started_ns is not None and self.ended_ns is None:
            self.possible_ends.append(PossibleEnd(self._counters(), self._process()))

    def end_at(self, number: int) -> None:
        """After `stop`: what was watched ended at one of the possible ends, by their order. Temperatures, arrays,
        identity and throttling stay those of the stop."""
        chosen = self.possible_ends[number]
        at_ns, end = chosen.counted.at_ns, self.last.end if self.last else None
        self.last = replace(chosen.counted, end=replace(end, process=chosen.process) if end else None)
        self.samples = [*(one for one in self.samples if one.at_ns < at_ns), compact(self.last)]

    def _open(self) -> None:
        self.facts = target_facts(self.target_path, False, self.roots)
        self.nodes = stack.devices(self.facts.stack)
        if not self.nodes:
            self.unknown[foreign.DEVICES] = not_known(self.facts.why("stack", "no device is below the target"))
        for node in self.nodes:
            self.stat_files[node.number] = OpenFile(self.roots.at_sys("dev", "block", node.number, "stat"))
            if node.queue and node.queue.iostats is False:
                self.unknown[node.name] = not_known(f"counting is off in {node.name}'s queue/iostats")
        self.cpu_file = OpenFile(self.roots.at_proc("stat"))
        self.throttles = throttle_files(self.roots)
        self.group_file = OpenFile(cgroups.throttle_file(self.roots) or "")

    def _counters(self, total_only: bool = False) -> Reading:
        """What is cheap: everything here is a read of an open file."""
        at_ns = time.monotonic_ns() - (self.started_ns or 0)
        devices = {number: parse_stat(file.read()) for number, file in self.stat_files.items()}
        return Reading(at_ns, devices, parse_cpus(self.cpu_file.read(CPU_READ_BYTES), total_only))

    def _full(self) -> Reading:
        try:
            counted = self._counters()
            return replace(counted, end=self._at_end())
        except Exception as error:
            self.unknown["watch"] = not_known(f"{type(error).__name__}: {error}")
            return Reading(time.monotonic_ns() - (self.started_ns or 0))

    def _at_end(self) -> AtEnd:
        counts = [read_number(file) for file in self.throttles]
        drives = stack.bottom(self.nodes)
        return AtEnd(
            identity=identity(self.target_path),
            throttles=sum(count or 0 for count in counts) if self.throttles else None,
            group_throttles=cgroups.parse_cpu_stat(self.group_file.read() or b""),
            process=self._process(),
            temperature={node.name: health.temperature(self.roots, node.name) for node in drives},
            arrays={node.name: array_state(self.roots, node) for node in self.nodes if node.type in ("md", "dm")},
            emulated=emulated_disks(self.nodes),
        )

    def _process(self) -> ProcessUse:
        if self._used is not None:
            return self._used()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        use = ProcessUse(user_ns=int(usage.ru_utime * 1e9), system_ns=int(usage.ru_stime * 1e9))
        if told := text(self.roots.at_proc("self", "io")):
            counted = parse_process_io(told)
            use.read_bytes, use.write_bytes = counted.read_bytes, counted.write_bytes
        return use

    def _keep(self, sample: SeriesPoint) -> None:
        self.samples.append(sample)
        if len(self.samples) > SAMPLES_MAX:
            self.samples = self.samples[::2]
            self.stride *= 2

    def foreign_io(self, ours: OwnIo | NotCounted) -> ForeignIo:
        """The target's device counters minus ours, or those of a server (`ServerIo`), or why they are not known."""
        if isinstance(ours, NotCounted):
            return ForeignIo(known=False, reason=ours.reason)
        last = self.last or self._counters()
        try:
            return foreign.compare(
                self.facts, self._deltas(last), ours, self._process_between(last),
                duration_ns=last.at_ns, unknown=self.unknown,
            )  # fmt: skip
        except Exception as error:
            return ForeignIo(known=False, reason=not_known(f"{type(error).__name__}: {error}"))

    def _deltas(self, last: Reading) -> dict[str, dict[str, int] | None]:
        result: dict[str, dict[str, int] | None] = {}
        for node in self.nodes:
            before, after = self.first.devices.get(node.number), last.devices.get(node.number)
            result[node.number] = difference(before, after) if before and after else None
        return result

    def _process_between(self, last: Reading) -> ProcessUse | None:
        return last.end.process.since(self.first.end.process) if last.end and self.first.end else None

    def top_devices(self) -> set[str]:
        """Those that the target's own file system lies on."""
        return {node.number for node in stack.tops(self.facts.stack)}

    def result(self, ours: OwnIo | NotCounted | None = None) -> WatchSheet:
        """Everything seen; with `ours` also the foreign I/O."""
        last = self.last or self._counters()
        first_end, last_end = self.first.end, last.end
        reasons = Reasons()
        reasons.unknown.update(self.unknown)
        return WatchSheet(
            duration_ns=last.at_ns,
            samples=len(self.samples),
            sample_stride=self.stride,
            devices=reasons.ask("devices", lambda: self._device_results(last)),
            cpu=reasons.ask("cpu", lambda: self._cpu_results(last)),
            throttle=reasons.ask("throttle", lambda: self._throttle_results(last)),
            temperature=StartAndEnd(
                start=first_end.temperature if first_end else None, end=last_end.temperature if last_end else None
            ),
            identity=StartAndEnd(
                start=first_end.identity if first_end else None, end=last_end.identity if last_end else None
            ),
            arrays=StartAndEnd(
                start=first_end.arrays if first_end else None, end=last_end.arrays if last_end else None
            ),
            late=StartAndEnd(
                start=_late_counts(first_end.emulated) if first_end else None,
                end=_late_counts(last_end.emulated) if last_end else None,
            ),
            faults=_faults(first_end, last_end),
            process=reasons.ask("process", lambda: self._process_between(last), "the watch has not ended"),
            foreign=reasons.of(
                "foreign", None if ours is None else self.foreign_io(ours), "no counts of our own were given"
            ),
            unknown=reasons.unknown,
        )

    def _device_results(self, last: Reading) -> dict[str, WatchedDevice]:
        top = self.top_devices()
        low = {node.number for node in stack.bottom(self.facts.stack)}
        deltas = self._deltas(last)
        return {
            node.number: WatchedDevice(
                name=node.name,
                roles=[role for role, group in (("target", top), ("bottom", low)) if node.number in group],
                delta=deltas[node.number],
                series=self._series(node.number),
            )
            for node in self.nodes
        }

    def _series(self, number: str) -> dict[str, list[int]]:
        """Cumulative counts since the start at each sample, as columns."""
        first = self.samples[0].devices.get(number) if self.samples else None
        told = [(sample.at_ns, here) for sample in self.samples if first and (here := sample.devices.get(number))]
        columns = {AT: [at_ns for at_ns, _ in told]}
        for index, name in enumerate(SERIES_FIELDS):
            start = 0 if name in LEVELS or not first else first[index]
            columns[name] = [counted(name, start, here[index]) for _, here in told]
        return columns

    def _cpu_results(self, last: Reading) -> CpuSheet | None:
        before, after = self.first.cpus, last.cpus
        if not self.first.all_cpus or not last.all_cpus:
            return None
        each = {name: cpu_shares(before[name], after[name]) for name in after if name != ALL_CPUS and name in before}
        stolen = {name: max(0, after[name].get(STEAL, 0) - before[name].get(STEAL, 0)) for name in each}
        # The kernel rounds each line by itself, so a tick of one CPU may be missing in the line of all.
        missed = sum(stolen.values()) - (last.all_cpus.get(STEAL, 0) - self.first.all_cpus.get(STEAL, 0))
        of_all = {**last.all_cpus, STEAL: last.all_cpus.get(STEAL, 0) + max(0, missed)}
        total, series = cpu_shares(self.first.all_cpus, of_all), CpuSeries()
        for earlier, later in itertools.pairwise(self.samples):
            if earlier.cpu and later.cpu:
                shares = cpu_shares(earlier.cpu, later.cpu)
                series.at_ns.append(later.at_ns)
                series.busy_share.append(shares.busy_share)
                series.steal_share.append(shares.steal_share)
        return CpuSheet(
            busy_share=total.busy_share,
            steal_share=total.steal_share,
            steal_of_demand_share=total.steal_of_demand_share,
            worst_steal_share=max((shares.steal_share or 0.0 for shares in each.values()), default=0.0),
            worst_steal_ticks=max(stolen.values(), default=0),
            each=each,
            series=series,
        )

    def _throttle_results(self, last: Reading) -> ThrottleSheet:
        first_end, last_end = self.first.end, last.end
        both = (first_end, last_end) if first_end and last_end else None
        return ThrottleSheet(
            cpu_events=gap(both[0].throttles, both[1].throttles) if both else None,
            cgroup_events=gap(both[0].group_throttles, both[1].group_throttles) if both else None,
        ).explained(
            cpu_events="this CPU counts no thermal throttling", cgroup_events="no CPU control group counts here"
        )


def compact(reading: Reading) -> SeriesPoint:
    columns = {
        number: tuple(told[name] for name in SERIES_FIELDS) if told else None
        for number, told in reading.devices.items()
    }
    return SeriesPoint(reading.at_ns, columns, reading.all_cpus)


def identity(path: str) -> Identity | None:
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
        return Identity(exists=False)
    is_file = stat.S_ISREG(found.st_mode)
    return Identity(
        exists=True,
        device=found.st_dev,
        inode=found.st_ino,
        size_bytes=found.st_size if is_file else None,
        links=found.st_nlink if is_file else None,
    )


def gap(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else max(0, last - first)


def emulated_disks(nodes: list[DeviceSheet]) -> dict[str, emulated.EmulatedStatus]:
    """Of emulated disks that answer, by the names of their devices."""
    files = {node.name: node.loop.backing_file for node in nodes if node.loop and node.loop.emulated}
    told = {name: emulated.status(file) for name, file in files.items() if file}
    return {name: status for name, status in told.items() if status is not None}


def _late_counts(disks: dict[str, emulated.EmulatedStatus]) -> dict[str, int]:
    return {name: status.late for name, status in disks.items()}


def _faults(start: AtEnd | None, end: AtEnd | None) -> dict[str, list[str]] | None:
    """Of emulated disks that had some; None where none had."""
    if start is None or end is None:
        return None
    found = {
        name: emulated.faults_between(status, end.emulated.get(name, status)) for name, status in start.emulated.items()
    }
    return {name: faults for name, faults in found.items() if faults} or None


def array_state(roots: Roots, node: DeviceSheet) -> ArrayState:
    """State of an array now: what it does beside its work, how far it is, how many members are missing."""
    if node.type == "dm":
        raid = arrays.dm_facts(roots, node.name).raid if node.dm and node.dm.raid else None
        return ArrayState(
            under_way=arrays.under_way(raid.sync_action) if raid else None, degraded=raid.degraded if raid else None
        )
    facts = arrays.md_facts(roots, node.name)
    return ArrayState(
        under_way=arrays.under_way(facts.sync_action),
        degraded=facts.degraded,
        done_share=facts.sync_done_share,
        array_state=facts.array_state,
    )
