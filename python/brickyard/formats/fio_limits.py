"""Duty: when a fio job starts and what ends it → the limits of a phase.

Refusal: which jobs share a phase is for `fio_job` to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_options import FioOptions, is_harmless
from brickyard.formats.fio_passes import loops_of, size_bytes
from brickyard.formats.fio_stream import goes_everywhere, part_of_file
from brickyard.formats.fio_units import fio_bytes, fio_flag, fio_int, fio_number, fio_time_us
from brickyard.formats.profile_parts import Inline, Limits
from brickyard.percentiles import is_percentile, percentile_of
from brickyard.schema.duration import duration_text
from brickyard.schema.plan import Figure

FIGURES = {percentile_of(name): str(name) for name in Figure if is_percentile(name)} | {100.0: str(Figure.MAX)}
STEADY_ROUNDS = (3, 1000)  # as many as a profile takes
CHECK_US = 1_000_000  # fio looks once a second unless steadystate_check_interval says otherwise


@dataclass(frozen=True)
class Ends:
    """`start_us` counts from the start of the group of jobs."""

    start_us: int
    duration_us: int
    limits: Limits
    bytes_moved: int | None = None
    """What `limits.bytes` says."""
    notes: tuple[str, ...] = field(default=())

    def of_jobs(self, count: int) -> Limits:
        """Of a phase of so many jobs that end alike: bytes and requests are those of all of them together."""
        return replace(
            self.limits,
            requests=self.limits.requests and self.limits.requests * count,
            bytes=None if self.bytes_moved is None else toml_text.size(self.bytes_moved * count),
        )

    def is_timed(self) -> bool:
        """Whether time alone ends it, so that its end is known beforehand."""
        return self.limits.duration is not None and self.limits == Limits(duration=self.limits.duration)

    def end_us(self) -> int:
        return self.start_us + self.duration_us

    def lasting(self, duration_us: int) -> Ends:
        return replace(self, duration_us=duration_us, limits=Limits(duration=duration_text(duration_us)))


def is_time_based(asked: FioOptions) -> bool:
    return fio_time_us("runtime", asked.runtime, default="s") > 0 and fio_flag("time_based", asked.time_based)


def read_ends(asked: FioOptions, *, depth: int, clones: int, lanes: int, passes: float) -> Ends:
    """`clones` are fio's processes, `lanes` how many of them are workers of one stream (else each is a stream), and
    `passes` of a stream are one loop."""
    notes: list[str] = []
    limits, bytes_moved = Limits(), None
    start_us = _start(asked)
    runtime = fio_time_us("runtime", asked.runtime, default="s")
    if runtime:
        limits = replace(limits, duration=duration_text(runtime))
    if not is_time_based(asked):
        limits, bytes_moved = _amount(asked, limits, clones, lanes * passes)
    if asked.fill_device is not None and not is_harmless("fill_device", asked.fill_device):
        notes.append("fill_device: goes through the region once; the target is not filled until it is full.")
    warmup = fio_time_us("ramp_time", asked.ramp_time, default="s")
    if asked.latency_target is not None:
        searched = "here the depth grows until the target is missed; fio searches up and down"
        alone = "at a depth of 1 there is nothing to search; the run stops when the target is missed"
        notes.append(f"latency_target: {searched if depth > 1 else alone}.")
        limits = _latency(asked, asked.latency_target, limits, depth)
    if asked.max_latency is not None:
        most = duration_text(fio_time_us("max_latency", asked.max_latency, default="us"))
        limits = replace(limits, stop={"when": "max", "above": most})
    if asked.steadystate is not None:
        limits = replace(limits, steady=_steady(asked, asked.steadystate))
        if ramp := fio_time_us("steadystate_ramp_time", asked.steadystate_ramp_time, default="s"):
            warmup = max(warmup, ramp)
            notes.append("ss_ramp is warm-up here, which all figures exclude; fio includes it.")
    if warmup and limits.requests:
        notes.append("number_ios with ramp_time: requests of the warm-up count here, too; fio counts those after it.")
    if warmup:
        limits = replace(limits, warmup=duration_text(warmup))
    return Ends(start_us, runtime, limits, bytes_moved, tuple(notes))


def _start(asked: FioOptions) -> int:
    text = asked.startdelay
    if "-" in text:
        raise BadInputError(f"startdelay={text}: a delay drawn by chance; write one time")
    return fio_time_us("startdelay", text, default="s")


def _amount(asked: FioOptions, limits: Limits, clones: int, passes: float) -> tuple[Limits, int | None]:
    """Bytes and requests are those of a phase, of all clones; `passes`, which are one loop, are those of each stream. A
    job that has gone through its file ends before its number of requests is reached."""
    loops = loops_of(asked)
    if asked.number_ios is not None:
        requests = fio_int("number_ios", asked.number_ios, low=1, high=1 << 50)
        limits = replace(limits, requests=requests * clones * loops)
    passes *= loops
    if asked.io_size is None:
        both = part_of_file(asked)
        if both is not None and both[0] < both[1] and goes_everywhere(asked):
            moved = min(both[0] * loops, round(both[1] * passes)) if ":" in asked.rw else both[0] * loops
            return _of_bytes(limits, moved * clones)
        whole_bytes = size_bytes(asked)
        if passes > 1 and passes != int(passes) and whole_bytes is not None:
            return _of_bytes(limits, whole_bytes * clones * loops)  # no number of aligned places has exactly so many
        return replace(limits, passes=_plain(passes)), None
    if asked.io_size.endswith("%"):
        share = fio_number("io_size", asked.io_size.removesuffix("%"), low=0.01, high=100)
        return replace(limits, passes=f"{share:g}%" if passes == 1 else _plain(share / 100 * passes)), None
    moved = fio_bytes("io_size", asked.io_size)
    file_bytes = size_bytes(asked)
    # fio's loops are through the file; it adds those that io_size lacks.
    once = moved if file_bytes is None else min(moved, file_bytes)
    return _of_bytes(limits, max(moved, once * loops) * clones)


def _plain(passes: float) -> float:
    return int(passes) if passes == int(passes) else passes


def _of_bytes(limits: Limits, count: int) -> tuple[Limits, int]:
    return replace(limits, bytes=toml_text.size(count)), count


def _latency(asked: FioOptions, latency: str, limits: Limits, depth: int) -> Limits:
    """fio looks for the depth that still meets a target; here the depth grows until it is missed."""
    percent = fio_number("latency_percentile", asked.latency_percentile, high=100)
    if percent not in FIGURES:
        raise BadInputError(f"latency_percentile={percent:g}: there are {', '.join(f'{p:g}' for p in FIGURES)}")
    window = fio_time_us("latency_window", asked.latency_window, default="us")
    target = fio_time_us("latency_target", latency, default="us")
    ramp: Inline = {"knob": "depth", "from": 1, "to": depth, "factor": 2, "every": duration_text(window)}
    stop = {"when": FIGURES[percent], "above": duration_text(target)}
    return replace(limits, stop=stop, ramp=ramp if depth > 1 else None)


def _steady(asked: FioOptions, criterion: str) -> Inline:
    """fio's criteria over a window of looks: how far each may be from the mean, or the slope a look (steadystate.c)."""
    kind, _, limit = criterion.partition(":")
    measures = {"iops": "iops", "bw": "throughput", "lat": "mean_service"}
    measure = kind.removesuffix("_slope")
    if measure not in measures or not limit.endswith("%"):
        raise BadInputError(f"steadystate={criterion}: there are iops, bw, lat, and each with _slope, in %")
    share = fio_number("steadystate", limit.removesuffix("%"), high=100)
    is_slope = kind.endswith("_slope")
    span = fio_time_us("steadystate_duration", asked.steadystate_duration, default="s")
    if not span:
        raise BadInputError("steadystate needs steadystate_duration, the span that is looked at")
    look = asked.steadystate_check_interval
    every = CHECK_US if look is None else fio_time_us("steadystate_check_interval", look, default="s")
    low, high = STEADY_ROUNDS
    rounds = span // max(1, every)
    if not low <= rounds <= high:
        raise BadInputError(f"steadystate: {rounds} looks within steadystate_duration; there are {low} to {high} here")
    return {
        "measure": measures[measure],
        "round": duration_text(every),
        "rounds": rounds,
        # No look further than the limit from the mean means a range of at most twice the limit.
        "range": 100 if is_slope else min(100, 2 * share),
        # fio's slope is that from one look to the next; ours is over the whole window.
        "slope": min(100, share * (rounds - 1)) if is_slope else 100,
        "stop": True,
    }
