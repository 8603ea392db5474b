"""Duty: the classes of models that a brick can be fitted with: which parameters, and which measurements tell each.

Every parameter is fitted to the loads that it decides, one after the other, twice over; the text of the brick says to
which. What no measurement tells is taken over from like products and called derived.

Refusal: no class has a parameter for a single cell, so what a class cannot do shows as its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brickyard.advise.fitting.model import (
    ALONE,
    LARGE_ALONE,
    LARGE_DEEP,
    LATENCY,
    PARALLEL,
    STREAM,
    STREAM_SMALL,
    WRITE_LATENCY,
    WRITE_PARALLEL,
    WRITE_SMALL,
    WRITE_STREAM,
    Model,
    Stage,
    Test,
    Values,
    both,
    deep,
    durable,
    large,
    mixed,
    most_mb,
    number,
    random,
    sequential,
    small,
    write,
)
from brickyard.advise.fitting.seen import Seen

CACHED_WRITES = 0.7  # writes that end in less than this share of a read's time cannot have waited for the medium


MERGED_FROM = 32 * 1024  # Amazon counts smaller ones one each, however they lie
IO_UNITS = (1 << 30, 1 << 18, 1 << 17, 1 << 16, 1 << 15, 1 << 14)
"""None, and what providers count a request in: 256 KiB (Amazon) down to 16 KiB."""


def cloud(loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None) -> Model:
    most = max(s.iops for s in loads)
    tail = 0.1 * read_ns
    values: Values = {
        "capacity_bytes": capacity_bytes,
        "iops": most,
        "burst_ios": 1,
        "io_unit_bytes": 1 << 30,
        "merge_from_bytes": 0,
        "mb_per_s": max(s.bytes_per_s for s in loads) / 1e6,
        "burst_bytes": 1 << 20,
        "read_latency": max(read_ns - tail, 1e3),
        "write_latency": max((write_ns or read_ns) - tail, 1e3),
        "latency_tail": tail,
        "seed": 1,
    }
    spent = _fullest(loads, small)
    stages = [
        Stage("latency_tail", "the tail of random reads, 1 in flight", LATENCY, tails=True),
        Stage("read_latency", "random reads, 1 in flight", LATENCY),
        Stage("write_latency", "small writes, 1 in flight", WRITE_LATENCY),
        *_bucket(values, spent, both(small, deep), REQUESTS),
        *_bucket(values, None if spent else _fullest(loads, large), both(large, deep), BYTES),
        Stage("io_unit_bytes", "requests of all sizes, many in flight", deep, choices=IO_UNITS),
        Stage("merge_from_bytes", "sequential requests", both(sequential, large), choices=(0, MERGED_FROM)),
    ]
    derived = {
        "capacity_bytes": "what was measured",
        "burst_ios": "no run of small requests spent credits",
        "burst_bytes": "no run of large requests spent credits",
        "seed": "any",
    }
    if write_ns is None:
        derived["write_latency"] = "as reads; writes were not measured"
    return Model("a capped volume (cloud, throttled)", "cloud", values, tuple(stages), derived)


def _fullest(loads: Sequence[Seen], *tests: Test) -> Seen | None:
    """Of the runs whose rate fell, the one that was longest above the rate that lasted."""
    found = [s for s in loads if s.step and all(test(s) for test in tests)]
    return max(found, key=lambda s: s.step.surplus if s.step else 0.0, default=None)


REQUESTS, BYTES = ("iops", "burst_ios", "peak_iops"), ("mb_per_s", "burst_bytes", "peak_mb_per_s")


def _bucket(values: Values, fallen: Seen | None, deeply: Test, names: tuple[str, str, str]) -> list[Stage]:
    """The stages of a cap, and of its credits where the rate of a run fell: those are what was done above the rate that
    lasted, while other loads were too short to spend them."""
    rate, credit, peak = names
    what = "small" if names == REQUESTS else "large"
    if fallen is None or fallen.step is None:
        return [Stage(rate, f"{what} requests, many in flight", deeply)]
    unit = 1.0 if names == REQUESTS else float(fallen.request_bytes)
    per_s = unit if names == REQUESTS else unit / 1e6
    step = fallen.step
    values |= {rate: step.lasting_per_s * per_s, credit: step.surplus * unit, peak: step.first_per_s * per_s}
    of_this: Test = lambda s: s is fallen  # noqa: E731
    words = f"the fall of {fallen.label}"
    return [
        Stage(peak, words, of_this, course="first_per_s"),
        Stage(rate, words, of_this, course="lasting_per_s"),
        Stage(credit, words, of_this, course="surplus"),
    ]


DIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PAGES = (4096, 8192, 16384, 32768, 65536, 131072, 262144)


def flash(loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None, *, cached: bool) -> Model:
    overhead = min(0.5 * read_ns, write_ns or 0.1 * read_ns) if cached else 0.1 * read_ns
    program_ns = 8 * 16384 / most_mb(loads, write) * 1e3  # of 8 dies
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
    plp = Stage("power_loss_protection", "durable writes", durable, choices=(True, False))
    writes = [
        Stage("command_overhead", "small writes, 1 in flight", WRITE_LATENCY),
        latency,
        Stage("program_time", "large sequential writes", WRITE_STREAM),
        Stage("over_provision_percent", "random writes, many in flight", WRITE_PARALLEL, lowest=2, highest=100),
        plp,
    ]
    fallen = _fullest(loads, write, sequential) or _fullest(loads, write)
    speed = 1.0
    if fallen is not None and fallen.step is not None and cached:
        speed = fallen.step.first_per_s / fallen.step.lasting_per_s
        writes[2:3] = _slc(values, fallen)
    if not cached:
        writes = [
            Stage("program_time", "writes", write),
            Stage("over_provision_percent", "random writes", both(write, random), lowest=2, highest=100),
        ]
    derived = {
        "capacity_bytes": "what was measured",
        "dies_per_channel": "in channels",
        "map_bytes": "usual",
        "pages_per_block": "usual",
        "slc_program_time": "as much faster as the first rate of a run of writes was; the link may hide more",
        "slc_cache_bytes": "no run of writes filled an SLC cache",
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
    fitted = (*stages, *writes) if write_ns is not None else tuple(stages)
    return Model(name, "ssd", values, fitted, derived, _flash_rules(speed))


def _slc(values: Values, fallen: Seen) -> list[Stage]:
    """What was written until the rate fell went to an SLC cache, which nothing empties while it is written."""
    step = fallen.step
    assert step is not None
    values["slc_cache_bytes"] = step.done * fallen.request_bytes
    values["program_time"] = number(values, "slc_program_time") * step.first_per_s / step.lasting_per_s
    of_this: Test = lambda s: s is fallen  # noqa: E731
    words = f"the fall of {fallen.label}"
    return [
        Stage("program_time", words, of_this, course="lasting_per_s", against=True),
        Stage("slc_cache_bytes", words, of_this, course="done"),
    ]


def _flash_rules(speed: float) -> Callable[[Values], None]:
    def rules(values: Values) -> None:
        values["slc_program_time"] = number(values, "program_time") / speed

    return rules


ROTATIONS = (5400, 5900, 7200, 10_000, 15_000)
SEEK_SHARES = {"track": 0.2, "full": 2.0}
"""Track-to-track and full stroke beside the average seek: the middle of what the modelled drives' data sheets say."""
ENTRIES = (8, 16, 32, 64, 128, 256, 512, 1024)
WINDOWS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 256)
INNER_SHARE = 0.5  # of the outer rate: data sheets of all years say from 0.45 to 0.6


def rotating(loads: Sequence[Seen], capacity_bytes: int, read_ns: float, write_ns: float | None) -> Model:
    seek_ns = max(read_ns - 4.2e6, 1e6)
    cached = write_ns is not None and write_ns < CACHED_WRITES * read_ns * 1.2
    outer = most_mb(loads, STREAM)
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
        Stage("rpm", "durable sequential writes, one a revolution", durable, choices=ROTATIONS),
        seek,
        Stage("inner_mb_per_s", "large random reads, 1 in flight", both(random, LARGE_ALONE), lowest=1.0),
        Stage("scheduler", deep, PARALLEL, choices=("none", "sptf")),
        Stage("queue_depth", deep, PARALLEL, choices=(4, 8, 16, 32, 64, 128)),
        Stage("age_limit", deep, PARALLEL, lowest=1e7, highest=5e9),
    ]
    if cached:
        stages.append(Stage("destage_window", "small random writes", WRITE_SMALL, choices=WINDOWS))
        stages.append(Stage("write_cache_entries", "a mix of reads and writes", mixed, choices=ENTRIES))
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
    return Model("a rotating drive", "rotating", values, tuple(stages), derived, _rotating_rules)


def _seeks(average_ns: float) -> Values:
    found: Values = {}
    for name, share in (("track", SEEK_SHARES["track"]), ("average", 1.0), ("full", SEEK_SHARES["full"])):
        found[f"seek_{name}_read"] = average_ns * share
        found[f"seek_{name}_write"] = average_ns * share + WRITE_SETTLE_NS
    return found


WRITE_SETTLE_NS = 5e5  # what data sheets of 2000 to 2010 add to average seeks for writing: 0.5 to 1 ms


def _rotating_rules(values: Values) -> None:
    """Seeks by the average one, rates by the outer one."""
    values.update(_seeks(number(values, "seek_average_read")))
    outer = number(values, "outer_mb_per_s")
    values["inner_mb_per_s"] = min(number(values, "inner_mb_per_s"), outer)
    values["interface_mb_per_s"] = max(300.0, 2 * outer)
