"""Duty: the class of an array: alike disks behind a controller that may end writes in a cache of its own.

Reads of one request at a time tell a member, reads of many how many members there are, whatever the level: all of them
read. What is left of the writes' rate tells the level: a small write takes 1, 2, 4 or 6 operations of members. So each
level that so many members can have is a class of its own, beside who ends writes, and kept-back loads choose.

Refusal: flash behind a controller is not told from one flash drive of more dies, and is fitted as that. A rebuild is
nothing that was measured; its pace is the controller's whose file stands below the fitted values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brickyard import bricks
from brickyard.advise.fitting.classes import (
    CACHED_WRITES,
    ENTRIES,
    INNER_SHARE,
    ROTATIONS,
    WINDOWS,
)
from brickyard.advise.fitting.model import (
    LARGE_DEEP,
    LATENCY,
    PARALLEL,
    STREAM,
    STREAM_SMALL,
    WRITE_LATENCY,
    WRITE_SMALL,
    Model,
    Stage,
    Test,
    Values,
    alone,
    both,
    changing,
    durable,
    first,
    large,
    literal,
    mean_ns,
    mixed,
    most_mb,
    number,
    quoted,
    random,
    read,
    sequential,
    small,
    steady,
    write,
)
from brickyard.advise.fitting.seen import ENOUGH_REQUESTS, Seen

DRIVE, CONTROLLER = "barracuda-es-500", "intel-srcasj4"
"""Files of a disk and of a controller with a cache, below the fitted values: what those leave out is theirs."""
MEMBERS = (*range(1, 17), 18, 20, 22, 24, 28, 32, 36, 40, 48, 56, 64, 80, 96, 128)
STRIPES = tuple(16 * 1024 << power for power in range(7))  # what controllers and md offer: 16 KiB to 1 MiB
QUEUES = (4, 8, 16, 32, 64)
AHEADS = (0, 1 << 20, 4 << 20, 16 << 20)
MIRROR_READS = ("idle", "alternate", "nearer")
DATA_MEMBERS = {"jbod": (1, 0), "raid0": (1, 0), "raid1": (2, 0), "raid10": (2, 0), "raid5": (1, 1), "raid6": (1, 2)}
"""How many members hold a byte, and how many hold parity."""
WRITES_EACH = {"jbod": 1, "raid0": 1, "raid1": 2, "raid10": 2, "raid5": 4, "raid6": 6}
"""Operations of members that a small write takes (Chen et al. 1994)."""
DRIVES, CACHE, NOBODY = "the drives cache writes", "a write-back cache", "nothing caches writes"
APART = 3.0  # a write at random that takes so many times one in sequence waits for an arm
DRIVES_WRITES = 8_000  # of a steady load: with a fifth more before, it fills the caches of 16 drives of 100 writes each
ON_MEDIUM_NS = 3e6  # a durable write that takes longer waited for a revolution: 4 ms at 15,000 a minute
ON_MEDIUM = both(durable, sequential, alone, lambda s: mean_ns(s) > ON_MEDIUM_NS)


TRACK_SHARE, FULL_SHARE = 0.09, 2.06
WRITE_SHARE, WRITE_TRACK_NS = 1.12, 2e5
"""Seeks beside the average one of reads: medians of the modelled drives' data sheets. A cache sorts what it destages,
so that the short ones decide the pace of its writes."""


@dataclass
class ArrayModel(Model):
    capacity_bytes: int = 0
    caching: str = NOBODY
    is_family: bool = False
    """Stands for all levels, of which nothing is known before the members are."""
    write_ns: float | None = None

    def follow(self) -> None:
        self.values.update(_seeks(number(self.values, "drive.seek_average_read")))
        outer = number(self.values, "drive.outer_mb_per_s")
        self.values |= {"drive.inner_mb_per_s": outer * INNER_SHARE, "drive.interface_mb_per_s": max(300.0, 2 * outer)}
        copies, parity = DATA_MEMBERS[str(self.values["level"])]
        data = max(1, (round(number(self.values, "members")) - parity) // copies)
        self.values["drive.capacity_bytes"] = max(self.capacity_bytes // data, 1 << 20)
        ahead = number(self.values, "controller.read_ahead_bytes")
        if self.caching != CACHE:
            self.values["controller.cache_bytes"] = 8 * ahead

    def own(self) -> dict[str, str]:
        shipped = bricks.texts()
        parts = (f"drives/{DRIVE}", f"controllers/{CONTROLLER}")
        return {"arrays/fit": self.text("fit", "", "", {}), **{place: shipped[place] for place in parts}}

    def text(self, title: str, about: str, source: str, fitted: dict[str, str]) -> str:
        lines = [f"title = {quoted(title)}", f"source = {quoted(source)}"]
        lines += [f"# {line}" for line in about.splitlines()]
        lines += [f'drive = "{DRIVE}"  # its values are all changed below', f'controller = "{CONTROLLER}"']
        own = [key for key in self.values if "." not in key]
        lines += [f"{key} = {literal(key, self.values[key])}  # {self.basis(key, fitted)}" for key in own]
        for part in ("drive", "controller"):
            keys = [key for key in self.values if key.startswith(f"{part}.")]
            short = {key: key.split(".", 1)[1] for key in keys}
            lines += ["", f"[changes.{part}]"]
            lines += [f"{short[key]} = {literal(short[key], self.values[key])}" for key in keys]
            lines += ["", f"[basis.{part}]"]
            lines += [f"{short[key]} = {quoted(self.basis(key, fitted))}" for key in keys]
        return "\n".join(lines) + "\n"

    def variants(self, loads: Sequence[Seen]) -> list[Model]:
        if not self.is_family:
            return []
        count = round(number(self.values, "members"))
        if self.write_ns is None:
            return [self._of_level("jbod" if count == 1 else "raid0", NOBODY, loads)]
        read_ns = number(self.values, "drive.seek_average_read") + 30e9 / number(self.values, "drive.rpm")
        cached = self.write_ns < CACHED_WRITES * read_ns
        cachings = (DRIVES, CACHE) if cached else (NOBODY,)
        if any(_room(s) > max(ENTRIES) * count * s.request_bytes for s in loads if write(s)):
            cachings = (CACHE,)  # more than drives have room for
        elif cached and _depends_on_address(loads):
            cachings = (DRIVES,)
        return [self._of_level(level, caching, loads) for caching in cachings for level in levels_of(count)]

    def _of_level(self, level: str, caching: str, loads: Sequence[Seen]) -> Model:
        count = round(number(self.values, "members"))
        values: Values = {
            "level": level,
            "members": count + count % 2 if level == "raid10" else count,
            "drive.write_cache": caching != NOBODY,
            "controller.drive_write_cache": caching == DRIVES,
            "controller.write_back": caching == CACHE,
            "controller.battery": caching == CACHE,
        }
        if caching == CACHE:
            values["controller.cache_bytes"] = cache_bytes(loads)
        if level in ("raid1", "raid10"):
            values["controller.mirror_stream_mb_per_s"] = 4 * most_mb(loads, STREAM)
        told = "" if self.write_ns is not None else ", writes not measured"
        model = replace(
            self,
            name=f"an array, {level}, {caching}" if not told else f"an array of disks{told}",
            values={**self.values, **values},
            caching=caching,
            is_family=False,
            derived=_derived(self.write_ns, caching),
            alike={},
            most_writes=ENOUGH_REQUESTS if caching == CACHE else DRIVES_WRITES,
        )
        model.stages = (*_mirroring(level), *_reading(level, again=True), *_writing(caching, loads))
        model.first_stages = (*_members(level, count), *_mirroring(level), *_writing(caching, loads))
        model.follow()
        return model


def array(loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None) -> Model:
    """The family of arrays, with what reads tell of it."""
    deepest = max((s.iops for s in loads if PARALLEL(s)), default=1e9 / read_ns)
    count = min(MEMBERS, key=lambda n: abs(n - deepest * read_ns / 1e9))
    streaming = most_mb(loads, both(read, large))
    outer = max(30.0, min(200.0, streaming / count))
    values: Values = {
        "level": "jbod" if count == 1 else "raid0",
        "members": count,
        "stripe": 64 * 1024,
        "drive.capacity_bytes": capacity_bytes,
        "drive.rpm": _usual_rpm(read_ns),
        "drive.heads": 4,
        "drive.zones": 16,
        "drive.outer_mb_per_s": outer,
        "drive.inner_mb_per_s": outer * INNER_SHARE,
        **_seeks(max(read_ns - 30e9 / _usual_rpm(read_ns), 1e6)),
        "drive.head_switch": 1e6,
        "drive.write_settle": 0,
        "drive.command_overhead": 1e5,
        "drive.interface_mb_per_s": 300.0,
        "drive.scheduler": "none",
        "drive.queue_depth": 32,
        "drive.age_limit": 5e8,
        "drive.cache_bytes": 16 << 20,
        "drive.read_segments": 16,
        "drive.read_ahead_bytes": 512 * 1024,
        "drive.write_cache": False,
        "drive.write_cache_entries": 64,
        "drive.destage_window": 8,
        "controller.ports": 0,
        "controller.bus_mb_per_s": streaming,
        "controller.bus_read_efficiency": 1.0,
        "controller.bus_write_efficiency": 1.0,
        "controller.read_command": 5e4,
        "controller.write_command": min(write_ns or 5e4, 1e5),
        "controller.command_holds_bus": False,
        "controller.link_mb_per_s": 0.0,
        "controller.links": 0,
        "controller.mirror_stream_mb_per_s": 0.0,
        "controller.mirror_read": "idle",
        "controller.cache_bytes": 0,
        "controller.write_back": False,
        "controller.battery": False,
        "controller.read_ahead_bytes": 0,
        "controller.drive_write_cache": False,
    }
    return ArrayModel(
        "an array", "array", values, _reading("raid0", again=False), {}, capacity_bytes=capacity_bytes, is_family=True,
        write_ns=write_ns,
    )  # fmt: skip


def _seeks(average_ns: float) -> Values:
    return {
        "drive.seek_track_read": average_ns * TRACK_SHARE,
        "drive.seek_track_write": average_ns * TRACK_SHARE + WRITE_TRACK_NS,
        "drive.seek_average_read": average_ns,
        "drive.seek_average_write": average_ns * WRITE_SHARE,
        "drive.seek_full_read": average_ns * FULL_SHARE,
        "drive.seek_full_write": average_ns * FULL_SHARE * WRITE_SHARE,
    }


def _usual_rpm(read_ns: float) -> int:
    """By random reads: 15.6, 12.7, 8 and 5.7 ms are what data sheets of 5,400 to 15,000 rpm come to."""
    return 15_000 if read_ns < 6.7e6 else 10_000 if read_ns < 10e6 else 7200 if read_ns < 15e6 else 5400


def levels_of(count: int) -> tuple[str, ...]:
    if count == 1:
        return ("jbod",)
    if count == 2:
        return ("raid0", "raid1")
    return ("raid0", "raid5") if count == 3 else ("raid0", "raid10", "raid5", "raid6")


def cache_bytes(loads: Sequence[Seen]) -> float:
    """Where a rate fell, the room that was filled until then; else at least what was written without a fall."""
    rooms = [s.step.surplus * s.request_bytes for s in loads if write(s) and s.step is not None]
    if rooms:
        return max(rooms)
    return max((s.iops * s.seconds * s.request_bytes for s in loads if write(s) and not s.parts), default=64 << 20)


def _reading(level: str, *, again: bool) -> tuple[Stage, ...]:
    """What reads tell; how a member orders its queue, and the stripe, are looked for once."""
    words = "small random reads, many in flight"
    seek = Stage("drive.seek_average_read", "small random reads, 1 in flight", LATENCY)
    sizes = both(read, random, large)
    outer = Stage("drive.outer_mb_per_s", "large random reads", sizes)
    command = Stage("controller.read_command", "small sequential reads, 1 in flight", STREAM_SMALL, highest=2e6)
    counts = tuple(n for n in MEMBERS if n >= 4 and n % 2 == 0) if level == "raid10" else MEMBERS
    counts = {"jbod": (1,), "raid1": (2,), "raid5": MEMBERS[2:], "raid6": MEMBERS[3:]}.get(level, counts)
    age = Stage("drive.age_limit", words, PARALLEL, lowest=1e7, highest=5e9, when=_sorts)
    queue = Stage("drive.queue_depth", words, PARALLEL, choices=QUEUES, scan=True, when=_sorts)
    members = Stage("members", words, PARALLEL, choices=counts, nested=(queue, age))
    return (
        Stage("drive.rpm", "durable sequential writes, one a revolution", ON_MEDIUM, ROTATIONS),
        seek,
        members if again else Stage("drive.scheduler", words, PARALLEL, choices=("none", "sptf"), nested=(members,)),
        Stage("stripe", "large random reads", sizes, STRIPES, (outer,), scan=not again),
        Stage("controller.bus_mb_per_s", "large reads, many in flight", LARGE_DEEP, gain=0.01),
        Stage("controller.read_ahead_bytes", "sequential reads", both(read, sequential), AHEADS, (command,)),
        seek,
    )


def _sorts(values: Values) -> bool:
    return values["drive.scheduler"] != "none"


def _members(level: str, count: int) -> tuple[Stage, ...]:
    """The arms of a pair share their work better than single ones do, so that fewer do as much: they are looked for
    again, with how each orders its queue, and are an even number."""
    if level != "raid10":
        return ()
    queued = next(s for s in _reading(level, again=False) if s.parameter == "drive.scheduler")
    members = queued.nested[0]
    counts = tuple(n for n in members.choices if count / 2 <= float(n) <= count + 1)
    return (replace(queued, nested=(replace(members, choices=counts, scan=True),)),)


def _mirroring(level: str) -> tuple[Stage, ...]:
    if level not in ("raid1", "raid10"):
        return ()
    cap = Stage("controller.mirror_stream_mb_per_s", "large sequential reads", STREAM, gain=0.02)
    return (Stage("controller.mirror_read", "reads of all sizes", read, MIRROR_READS, (cap,), scan=True),)


def _writing(caching: str, loads: Sequence[Seen]) -> tuple[Stage, ...]:
    fallen = [s for s in loads if write(s) and s.step]
    command = Stage("controller.write_command", "small writes, 1 in flight", WRITE_LATENCY, highest=5e6)
    streams = both(write, large)
    stages = [Stage("controller.bus_write_efficiency", "large writes", streams, highest=2.0)]
    if caching == CACHE and any(large(s) for s in fallen):
        fastest = max(filter(large, fallen), key=_first_bytes)
        of_it: Test = lambda s: s is fastest  # noqa: E731
        words = f"the first rate of {fastest.label}"
        stages = [Stage("controller.bus_write_efficiency", words, of_it, course="first_per_s", highest=2.0)]
    held: Test = lambda s: both(write, small, steady)(s) or both(read, sequential)(s)  # noqa: E731
    reading = Stage("controller.read_command", "small sequential reads, 1 in flight", STREAM_SMALL, highest=2e6)
    words = "small writes and sequential reads"
    stages += [command, Stage("controller.command_holds_bus", words, held, (False, True), (command, reading)), *stages]
    if caching == DRIVES:
        stages += [
            Stage("drive.destage_window", "small random writes", WRITE_SMALL, choices=WINDOWS),
            Stage("drive.write_cache_entries", "a mix of reads and writes", mixed, choices=ENTRIES),
        ]
    if caching == CACHE and fallen:
        fullest = max(fallen, key=_room)
        room: Test = lambda s: s is fullest  # noqa: E731
        stages.append(Stage("controller.cache_bytes", f"the fall of {fullest.label}", room, course="surplus"))
    elif caching == CACHE and any(write(s) and s.parts for s in loads):
        stages.append(Stage("controller.cache_bytes", "writes that became slower", both(write, changing)))
    if caching == CACHE:
        words, choices = "writes that became slower", (False, True)
        stages.append(Stage("controller.drive_write_cache", words, both(write, changing), choices))
        stages.append(Stage("controller.battery", "durable writes", durable, choices=(True, False)))
    return tuple(stages)


def _first_bytes(s: Seen) -> float:
    return s.step.first_per_s * s.request_bytes if s.step else 0.0


def _depends_on_address(loads: Sequence[Seen]) -> bool:
    """Whether writes at random take much longer than those in sequence, and none became slower: a cache with room for
    all of them would have ended both alike."""
    scattered, ordered = (first(loads, WRITE_LATENCY, address) for address in (random, sequential))
    if scattered is None or ordered is None or any(s.parts for s in loads if write(s)):
        return False
    return mean_ns(scattered) > APART * mean_ns(ordered)


def _room(s: Seen) -> float:
    return s.step.surplus * s.request_bytes if s.step else 0.0


def _derived(write_ns: float | None, caching: str) -> dict[str, str]:
    cached = "writes end sooner than reads" if caching != NOBODY else "writes end no sooner than reads"
    derived = {
        "level": "of the levels the one that predicts best",
        "drive.capacity_bytes": "what was measured, shared out",
        "drive.inner_mb_per_s": "by the outer rate",
        "drive.rpm": "usual; only durable writes that wait for the medium tell it",
        **dict.fromkeys(("drive.heads", "drive.zones", "drive.head_switch"), "usual"),
        "drive.write_settle": "in the write seeks",
        "drive.interface_mb_per_s": "above the media rate",
        "drive.write_cache": cached,
        **dict.fromkeys(_seeks(1.0), "the average seek by the shares of like drives"),
        "controller.ports": "without a limit",
        "controller.bus_read_efficiency": "in bus_mb_per_s",
        "controller.link_mb_per_s": "only members that are faster than their ports would tell it",
        "controller.write_back": cached,
        "controller.battery": "only durable writes tell it",
        "controller.drive_write_cache": cached,
    }
    if caching == CACHE:
        derived["controller.cache_bytes"] = "at least: so much was written and the rate did not fall"
        derived["controller.drive_write_cache"] = "a cache with a battery stands before caches without one"
    if write_ns is None:
        unmeasured = ("level", "drive.write_cache", "controller.write_back", "controller.write_command")
        derived |= dict.fromkeys(unmeasured, "writes were not measured")
    return derived
