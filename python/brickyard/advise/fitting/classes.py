"""Duty: the classes of models that a brick can be fitted with: which parameters, and which measurements tell each.

Every parameter is fitted to the loads that it decides, one after the other, twice over; the text of the brick says to
which. What no measurement tells is taken over from like products and called derived.

Refusal: no class has a parameter for a single cell, so what a class cannot do shows as its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from brickyard.advise.fitting.seen import MIXED, READ, WRITE, Seen

Values = dict[str, float | str | bool]
Test = Callable[[Seen], bool]
SMALL_BYTES, LARGE_BYTES = 16 * 1024, 32 * 1024
"""Below, the number of requests limits; above, the bytes do."""
CACHED_WRITES = 0.7  # writes that end in less than this share of a read's time cannot have waited for the medium


@dataclass(frozen=True)
class Stage:
    """One parameter and the loads that it is fitted to. With `choices`, in their order, it takes one of these, and
    `nested` parameters are fitted anew for each; else it is any value above 0."""

    parameter: str
    words: str
    takes: Test
    choices: tuple[float | str | bool, ...] = ()
    nested: tuple[Stage, ...] = ()
    tails: bool = False
    """Also to the 90th percentile of the service time."""
    lowest: float = 0.0
    highest: float = float("inf")


@dataclass
class Model:
    """A class with values for its parameters."""

    name: str
    kind: str
    values: Values
    stages: tuple[Stage, ...]
    derived: dict[str, str] = field(default_factory=dict)
    """Why a value that is fitted to nothing is what it is."""

    def text(self, title: str, about: str, source: str, fitted: dict[str, str]) -> str:
        head = [f"title = {_quoted(title)}", f"source = {_quoted(source)}", f"about = {_quoted(about)}"]
        lines = [*head, f'kind = "{self.kind}"', ""]
        lines += [f"{key} = {_literal(key, value)}" for key, value in self.values.items()]
        lines += ["", "[basis]"]
        for key in self.values:
            words = f"fitted to {fitted[key]}" if key in fitted else f"derived: {self.derived.get(key, 'not measured')}"
            lines.append(f"{key} = {_quoted(words)}")
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


RATES = ("_mb_per_s", "_percent")
TIMES = ("_time", "_latency", "_overhead", "_interval", "_tail", "_switch", "_settle", "_limit")


def _literal(key: str, value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if key.startswith("seek_") or key.endswith(TIMES):
        return f'"{max(0, round(value))}ns"'
    if key.endswith(RATES):
        return f"{value:.3f}"
    return str(max(0, round(value)))


def _alone(s: Seen) -> bool:
    return s.in_flight == 1


def _small(s: Seen) -> bool:
    return s.request_bytes <= SMALL_BYTES


def _large(s: Seen) -> bool:
    return s.request_bytes >= LARGE_BYTES


def _read(s: Seen) -> bool:
    return s.operation == READ


def _write(s: Seen) -> bool:
    return s.operation == WRITE and not s.is_durable


def _durable(s: Seen) -> bool:
    return s.operation == WRITE and s.is_durable


def _random(s: Seen) -> bool:
    return s.address == "random"


def _sequential(s: Seen) -> bool:
    return s.address == "sequential"


def _deep(s: Seen) -> bool:
    return s.in_flight > 1


def _mixed(s: Seen) -> bool:
    return s.operation == MIXED


def both(*tests: Test) -> Test:
    """A load that passes all of these."""
    return lambda s: all(test(s) for test in tests)


LATENCY = both(_read, _random, _small, _alone)
PARALLEL = both(_read, _random, _small, _deep)
LARGE_ALONE = both(_read, _large, _alone)
ALONE = both(_read, _alone)
LARGE_DEEP = both(_read, _large, _deep)
STREAM = both(_read, _sequential, _large)
STREAM_SMALL = both(_read, _sequential, _small, _alone)
WRITE_LATENCY = both(_write, _small, _alone)
WRITE_STREAM = both(_write, _sequential, _large)
WRITE_PARALLEL = both(_write, _random, _deep)
WRITE_SMALL = both(_write, _random, _small)


def _mean_ns(s: Seen) -> float:
    """Mean service time, by Little's law."""
    return s.in_flight * 1e9 / s.iops


def first(loads: Sequence[Seen], *tests: Test) -> Seen | None:
    """Of the loads that pass, the one with the fewest requests in flight and the smallest of them."""
    found = [s for s in loads if all(test(s) for test in tests)]
    return min(found, key=lambda s: (s.in_flight, s.request_bytes), default=None)


def _most_mb(loads: Sequence[Seen], test: Test) -> float:
    return max((s.bytes_per_s / 1e6 for s in loads if test(s)), default=100.0)


def classes(loads: Sequence[Seen], capacity_bytes: int) -> list[Model]:
    """Every class that could be meant, with first values; which it is, the errors decide."""
    lone = first(loads, _read, _random) or first(loads)
    if lone is None:
        return []
    read_ns = _mean_ns(lone) / lone.in_flight if lone.in_flight > 1 else _mean_ns(lone)
    wrote = first(loads, _write, _random, _small)
    write_ns = _mean_ns(wrote) if wrote and wrote.in_flight == 1 else None
    found = []
    if read_ns >= LEAST_ROTATING_NS:
        found.append(_rotating(loads, capacity_bytes, read_ns, write_ns))
    found.append(_cloud(loads, capacity_bytes, read_ns, write_ns))
    cached = write_ns is None or write_ns < CACHED_WRITES * read_ns
    found.append(_flash(loads, capacity_bytes, read_ns, write_ns, cached=True))
    if write_ns is not None and not cached:
        found.append(_flash(loads, capacity_bytes, read_ns, write_ns, cached=False))
    return found


LEAST_ROTATING_NS = 2.5e6
"""The fastest disks turned 15,000 times a minute: half a turn is 2 ms, and their arms moved in 3 ms on the average."""


IO_UNITS = (1 << 30, 1 << 18, 1 << 17, 1 << 16, 1 << 15, 1 << 14)
"""None, and what providers count a request in: 256 KiB (Amazon) down to 16 KiB."""


def _cloud(loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None) -> Model:
    most = max(s.iops for s in loads)
    tail = 0.1 * read_ns
    values: Values = {
        "capacity_bytes": capacity_bytes,
        "iops": most,
        "burst_ios": 1,
        "io_unit_bytes": 1 << 30,
        "mb_per_s": max(s.bytes_per_s for s in loads) / 1e6,
        "burst_bytes": 1 << 20,
        "read_latency": max(read_ns - tail, 1e3),
        "write_latency": max((write_ns or read_ns) - tail, 1e3),
        "latency_tail": tail,
        "seed": 1,
    }
    stages = (
        Stage("latency_tail", "the tail of random reads, 1 in flight", LATENCY, tails=True),
        Stage("read_latency", "random reads, 1 in flight", LATENCY),
        Stage("write_latency", "small writes, 1 in flight", WRITE_LATENCY),
        Stage("iops", "small requests, many in flight", both(_small, _deep)),
        Stage("mb_per_s", "large requests, many in flight", both(_large, _deep)),
        Stage("io_unit_bytes", "requests of all sizes, many in flight", _deep, choices=IO_UNITS),
    )
    derived = {
        "capacity_bytes": "what was measured",
        "burst_ios": "no burst was looked for",
        "burst_bytes": "no burst was looked for",
        "seed": "any",
    }
    if write_ns is None:
        derived["write_latency"] = "as reads; writes were not measured"
    return Model("a capped volume (cloud, throttled)", "cloud", values, stages, derived)


DIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PAGES = (4096, 8192, 16384, 32768, 65536, 131072, 262144)


def _flash(
    loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None, *, cached: bool
) -> Model:
    overhead = min(0.5 * read_ns, write_ns or 0.1 * read_ns) if cached else 0.1 * read_ns
    program_ns = 8 * 16384 / _most_mb(loads, _write) * 1e3  # of 8 dies
    if not cached:
        program_ns = max((write_ns or 1e5) - overhead, 1e3) * 4  # a quarter of a page each
    values: Values = {
        "capacity_bytes": capacity_bytes,
        "channels": 8,
        "dies_per_channel": 1,
        "page_bytes": 16 * 1024,
        "map_bytes": 4096,
        "pages_per_block": 256,
        "read_time": max(read_ns - overhead, 1e3),
        "program_time": program_ns,
        "slc_program_time": program_ns,
        "erase_time": 0,
        "over_provision_percent": 100.0,
        "slc_cache_bytes": 0,
        "dram_cache_bytes": 8 << 20,
        "power_loss_protection": True,
        "channel_mb_per_s": 1200.0,
        "interface_mb_per_s": max(s.bytes_per_s for s in loads) / 1e6,
        "command_overhead": overhead,
        "steady": True,
        "write_cache": cached,
        "command_interval": 1e9 / max(s.iops for s in loads) * 0.9,
    }
    interval = Stage("command_interval", "small random reads, many in flight", PARALLEL)
    channel = Stage("channel_mb_per_s", "large reads, 1 in flight", LARGE_ALONE)
    latency = Stage("read_time", "small random reads, 1 in flight", LATENCY)
    stages = [
        latency,
        Stage("channels", "small random reads, many in flight", PARALLEL, choices=DIES, nested=(interval,)),
        Stage("page_bytes", "reads of all sizes, 1 in flight", ALONE, choices=PAGES, nested=(latency, channel)),
        Stage("interface_mb_per_s", "large reads, many in flight", LARGE_DEEP),
    ]
    plp = Stage("power_loss_protection", "durable writes", _durable, choices=(True, False))
    writes = [
        Stage("command_overhead", "small writes, 1 in flight", WRITE_LATENCY),
        latency,
        Stage("program_time", "large sequential writes", WRITE_STREAM),
        Stage("over_provision_percent", "random writes, many in flight", WRITE_PARALLEL, lowest=2, highest=100),
        plp,
    ]
    if not cached:
        writes = [
            Stage("program_time", "writes", _write),
            Stage("over_provision_percent", "random writes", both(_write, _random), lowest=2, highest=100),
        ]
    derived = {
        "capacity_bytes": "what was measured",
        "dies_per_channel": "in channels",
        "map_bytes": "usual",
        "pages_per_block": "usual",
        "slc_program_time": "no SLC cache was looked for",
        "slc_cache_bytes": "no SLC cache was looked for",
        "erase_time": "in program_time",
        "dram_cache_bytes": "full before anything counts",
        "power_loss_protection": "only durable writes tell it",
        "steady": "what was measured is taken for what lasts",
        "write_cache": "writes end sooner than reads" if cached else "writes end no sooner than reads",
        "command_overhead": "a tenth of a read",
    }
    if write_ns is None:
        assumed = ("program_time", "over_provision_percent", "write_cache", "command_overhead")
        derived |= dict.fromkeys(assumed, "writes were not measured")
    name = "flash" if cached else "flash that writes through"
    return Model(name, "ssd", values, (*stages, *writes) if write_ns is not None else tuple(stages), derived)


ROTATIONS = (5400, 5900, 7200, 10_000, 15_000)
SEEK_SHARES = {"track": 0.2, "full": 2.0}
"""Track-to-track and full stroke beside the average seek: the middle of what the modelled drives' data sheets say."""
ENTRIES = (8, 16, 32, 64, 128, 256, 512, 1024)
WINDOWS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 256)
INNER_SHARE = 0.5  # of the outer rate: data sheets of all years say from 0.45 to 0.6


def _rotating(loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None) -> Model:
    seek_ns = max(read_ns - 4.2e6, 1e6)
    cached = write_ns is not None and write_ns < CACHED_WRITES * read_ns * 1.2
    outer = _most_mb(loads, STREAM)
    values: Values = {
        "capacity_bytes": capacity_bytes,
        "rpm": 7200,
        "heads": 4,
        "zones": 16,
        "outer_mb_per_s": outer,
        "inner_mb_per_s": outer * INNER_SHARE,
        **_seeks(seek_ns),
        "head_switch": 1e6,
        "write_settle": 0,
        "command_overhead": 1e5,
        "interface_mb_per_s": max(300.0, 2 * outer),
        "scheduler": "none",
        "queue_depth": 32,
        "age_limit": 5e8,
        "cache_bytes": 16 << 20,
        "read_segments": 16,
        "read_ahead_bytes": 512 * 1024,
        "write_cache": cached,
        "write_cache_entries": 64,
        "destage_window": 8,
    }
    alone, deep = "small random reads, 1 in flight", "small random reads, many in flight"
    seek = Stage("seek_average_read", alone, LATENCY)
    stages = [
        Stage("outer_mb_per_s", "large sequential reads", STREAM),
        Stage("command_overhead", "small sequential reads, 1 in flight", STREAM_SMALL, highest=2e6),
        Stage("rpm", "durable sequential writes, one a revolution", _durable, choices=ROTATIONS),
        seek,
        Stage("inner_mb_per_s", "large random reads, 1 in flight", both(_random, LARGE_ALONE), lowest=1.0),
        Stage("scheduler", deep, PARALLEL, choices=("none", "sptf")),
        Stage("queue_depth", deep, PARALLEL, choices=(4, 8, 16, 32, 64, 128)),
        Stage("age_limit", deep, PARALLEL, lowest=1e7, highest=5e9),
    ]
    if cached:
        stages.append(Stage("destage_window", "small random writes", WRITE_SMALL, choices=WINDOWS))
        stages.append(Stage("write_cache_entries", "a mix of reads and writes", _mixed, choices=ENTRIES))
    derived = {
        "capacity_bytes": "what was measured",
        "inner_mb_per_s": "half of the outer rate",
        "heads": "usual",
        "zones": "usual",
        "head_switch": "usual",
        "rpm": "usual; only durable writes tell it",
        "write_settle": "in the write seeks",
        "interface_mb_per_s": "above the media rate",
        "write_cache": "writes end sooner than reads" if cached else "writes end no sooner than reads",
        **dict.fromkeys(_seeks(seek_ns), "the average seek by the shares of like drives"),
    }
    if write_ns is None:
        derived["write_cache"] = "writes were not measured"
    return Model("a rotating drive", "rotating", values, tuple(stages), derived)


def _seeks(average_ns: float) -> Values:
    found: Values = {}
    for name, share in (("track", SEEK_SHARES["track"]), ("average", 1.0), ("full", SEEK_SHARES["full"])):
        found[f"seek_{name}_read"] = average_ns * share
        found[f"seek_{name}_write"] = average_ns * share + WRITE_SETTLE_NS
    return found


WRITE_SETTLE_NS = 5e5  # what data sheets of 2000 to 2010 add to average seeks for writing: 0.5 to 1 ms


def follow(model: Model) -> None:
    """Sets what is derived from fitted values."""
    if model.kind == "rotating":
        average = model.values["seek_average_read"]
        outer = model.values["outer_mb_per_s"]
        assert isinstance(average, (int, float))
        assert isinstance(outer, (int, float))
        model.values.update(_seeks(float(average)))
        inner = model.values["inner_mb_per_s"]
        assert isinstance(inner, (int, float))
        model.values["inner_mb_per_s"] = min(inner, outer)
        model.values["interface_mb_per_s"] = max(300.0, 2 * outer)
    if model.kind == "ssd":
        model.values["slc_program_time"] = model.values["program_time"]
