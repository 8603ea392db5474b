"""Duty: when a fio job starts and what ends it → the limits of a phase.

Refusal: which jobs share a phase is for `fio_job` to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_options import is_harmless
from brickyard.formats.fio_stream import is_random, part_of_file
from brickyard.formats.fio_units import fio_bytes, fio_flag, fio_int, fio_number, fio_time_us
from brickyard.store import Json

FIGURES = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p99.9", 100.0: "max"}
STEADY_ROUNDS = (3, 1000)  # as many as a profile takes
CHECK_US = 1_000_000  # fio looks once a second unless steadystate_check_interval says otherwise


@dataclass(frozen=True)
class Ends:
    """`limits` are keys of a phase; `start_us` counts from the start of the group of jobs."""

    start_us: int
    duration_us: int
    limits: Json
    notes: tuple[str, ...] = field(default=())

    def limits_key(self) -> str:
        return repr(sorted(self.limits.items(), key=lambda item: item[0]))

    def is_timed(self) -> bool:
        """Whether time alone ends it, so that its end is known beforehand."""
        return set(self.limits) == {"duration"}

    def end_us(self) -> int:
        return self.start_us + self.duration_us

    def lasting(self, duration_us: int) -> Ends:
        return replace(self, duration_us=duration_us, limits={"duration": toml_text.duration(duration_us)})


def read_ends(options: dict[str, str], *, depth: int, clones: int, lanes: int) -> Ends:
    """`clones` are fio's processes, `lanes` how many of them are workers of one stream (else each is a stream)."""
    notes: list[str] = []
    limits: Json = {}
    start_us = _start(options)
    runtime = fio_time_us("runtime", options.get("runtime", "0"), default="s")
    if runtime:
        limits["duration"] = toml_text.duration(runtime)
    if not (runtime and fio_flag("time_based", options.get("time_based", "0"))):
        limits |= _amount(options, clones, lanes)
    if "fill_device" in options and not is_harmless("fill_device", options["fill_device"]):
        notes.append("fill_device: goes through the region once; the target is not filled until it is full.")
    warmup = fio_time_us("ramp_time", options.get("ramp_time", "0"), default="s")
    if "latency_target" in options:
        notes.append("latency_target: here the depth grows until the target is missed; fio searches up and down.")
        limits |= _latency(options, depth)
    if "max_latency" in options:
        limits["stop"] = {
            "when": "max",
            "above": toml_text.duration(fio_time_us("max_latency", options["max_latency"], default="us")),
        }
    if "steadystate" in options:
        limits["steady"] = _steady(options)
        if ramp := fio_time_us("steadystate_ramp_time", options.get("steadystate_ramp_time", "0"), default="s"):
            warmup = max(warmup, ramp)
            notes.append("ss_ramp is warm-up here, which all figures exclude; fio includes it.")
    if warmup:
        limits["warmup"] = toml_text.duration(warmup)
    return Ends(start_us, runtime, limits, tuple(notes))


def _start(options: dict[str, str]) -> int:
    text = options.get("startdelay", "0")
    if "-" in text:
        raise BadInputError(f"startdelay={text}: a delay drawn by chance; write one time")
    return fio_time_us("startdelay", text, default="s")


def _amount(options: dict[str, str], clones: int, lanes: int) -> Json:
    """Bytes and requests are those of a phase, of all clones; passes are those of each stream."""
    if "number_ios" in options:
        return {"requests": fio_int("number_ios", options["number_ios"], low=1, high=1 << 50) * clones}
    loops = fio_int("loops", options.get("loops", "1"), low=1, high=1 << 31)
    if "io_size" not in options:
        both = part_of_file(options)
        if both is not None and both[0] < both[1] and is_random(options):
            return {"bytes": toml_text.size(both[0] * clones * loops)}
        return {"passes": loops * lanes}
    if options["io_size"].endswith("%"):
        share = fio_number("io_size", options["io_size"].removesuffix("%"), low=0.01, high=100)
        return {"passes": f"{share:g}%"} if loops * lanes == 1 else {"passes": share / 100 * loops * lanes}
    return {"bytes": toml_text.size(fio_bytes("io_size", options["io_size"]) * clones * loops)}


def _latency(options: dict[str, str], depth: int) -> Json:
    """fio looks for the depth that still meets a target; here the depth grows until it is missed."""
    percent = fio_number("latency_percentile", options.get("latency_percentile", "100"), high=100)
    if percent not in FIGURES:
        raise BadInputError(f"latency_percentile={percent:g}: there are {', '.join(f'{p:g}' for p in FIGURES)}")
    window = fio_time_us("latency_window", options.get("latency_window", "1s"), default="us")
    target = fio_time_us("latency_target", options["latency_target"], default="us")
    found: Json = {"stop": {"when": FIGURES[percent], "above": toml_text.duration(target)}}
    if depth > 1:
        found["ramp"] = {"knob": "depth", "from": 1, "to": depth, "factor": 2, "every": toml_text.duration(window)}
    return found


def _steady(options: dict[str, str]) -> Json:
    """fio's criteria over a window of looks: how far each may be from the mean, or the slope a look (steadystate.c)."""
    kind, _, limit = options["steadystate"].partition(":")
    measures = {"iops": "iops", "bw": "throughput", "lat": "mean_service"}
    measure = kind.removesuffix("_slope")
    if measure not in measures or not limit.endswith("%"):
        raise BadInputError(
            f"steadystate={options['steadystate']}: there are iops, bw, lat, and each with _slope, in %"
        )
    share = fio_number("steadystate", limit.removesuffix("%"), high=100)
    is_slope = kind.endswith("_slope")
    span = fio_time_us("steadystate_duration", options.get("steadystate_duration", "0"), default="s")
    if not span:
        raise BadInputError("steadystate needs steadystate_duration, the span that is looked at")
    look = options.get("steadystate_check_interval")
    every = CHECK_US if look is None else fio_time_us("steadystate_check_interval", look, default="s")
    low, high = STEADY_ROUNDS
    rounds = span // max(1, every)
    if not low <= rounds <= high:
        raise BadInputError(f"steadystate: {rounds} looks within steadystate_duration; there are {low} to {high} here")
    return {
        "measure": measures[measure],
        "round": toml_text.duration(every),
        "rounds": rounds,
        # No look further than the limit from the mean means a range of at most twice the limit.
        "range": 100 if is_slope else min(100, 2 * share),
        # fio's slope is that from one look to the next; ours is over the whole window.
        "slope": min(100, share * (rounds - 1)) if is_slope else 100,
        "stop": True,
    }
