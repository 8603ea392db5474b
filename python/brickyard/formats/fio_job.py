"""Duty: fio jobs → a profile. Jobs that run together are streams of a phase; `stonewall` begins the next one.

Refusal: an option without a counterpart is refused by its name; so is a value that a profile can't express.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_file import Job, read_jobs
from brickyard.formats.fio_units import by_direction, fio_bytes, fio_flag, fio_int, fio_number, fio_time_us
from brickyard.store import Json

DIRECTIONS = {
    "read": ("read", False),
    "write": ("write", False),
    "trim": ("trim", False),
    "randread": ("read", True),
    "randwrite": ("write", True),
    "randtrim": ("trim", True),
    "rw": ("mixed", False),
    "readwrite": ("mixed", False),
    "randrw": ("mixed", True),
}
ENGINES = {"io_uring": "io_uring", "libaio": "auto", **dict.fromkeys(("psync", "sync", "pvsync", "pvsync2"), "psync")}
MAX_SIZES = 64  # of a bsrange; more sizes than this would no longer be a mix that a person reads
FIGURES = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p99.9", 100.0: "max"}
# These change nothing of what is asked of the storage, or are what Brickyard does anyway.
WITHOUT_EFFECT = {
    "group_reporting",
    "thread",
    "description",
    "refill_buffers",
    "randrepeat",
    "invalidate",
    "name",
    "new_group",
}
KNOWN = WITHOUT_EFFECT | frozenset(
    [
        "rw",
        "rwmixread",
        "rwmixwrite",
        "percentage_random",
        "bs",
        "bsrange",
        "bssplit",
        "blockalign",
        "size",
        "io_size",
        "offset",
        "offset_increment",
        "filename",
        "directory",
        "direct",
        "sync",
        "fsync",
        "fdatasync",
        "ioengine",
        "iodepth",
        "numjobs",
        "runtime",
        "time_based",
        "loops",
        "ramp_time",
        "startdelay",
        "stonewall",
        "rate",
        "rate_iops",
        "rate_process",
        "thinktime",
        "random_distribution",
        "norandommap",
        "randseed",
        "buffer_compress_percentage",
        "dedupe_percentage",
        "verify",
        "do_verify",
        "latency_target",
        "latency_window",
        "latency_percentile",
        "steadystate",
        "steadystate_duration",
    ]
)


@dataclass
class Imported:
    """A profile, and what fio would have called its targets, in their order."""

    text: str
    targets: list[str]
    notes: list[str]


@dataclass
class _Import:
    targets: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    top: Json = field(default_factory=dict)

    def target(self, name: str) -> int:
        if name not in self.targets:
            self.targets.append(name)
        return self.targets.index(name)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def agree(self, job: Job, key: str, value: object) -> None:
        """What holds for a whole profile must be the same in every job."""
        if self.top.setdefault(key, value) != value:
            raise BadInputError(f"job {job.name}: {key} differs between jobs, and a profile has one for all of them")


def import_fio(name: str, text: str, directory: Path) -> Imported:
    """A job file as a profile."""
    jobs = read_jobs(text, directory)
    state = _Import()
    phases: list[Json] = []
    for number, job in enumerate(jobs):
        try:
            streams, limits = _job(state, job)
        except BadInputError as error:
            raise BadInputError(f"job {job.name}: {str(error).removeprefix(f'job {job.name}: ')}") from error
        starts = number == 0 or ("stonewall" in job.options and fio_flag("stonewall", job.options["stonewall"]))
        if starts or not phases:
            phases.append({"name": _unique(job.name, phases), **limits, "stream": []})
        elif {key: phases[-1].get(key) for key in limits} != limits or set(phases[-1]) - {"name", "stream"} != set(
            limits
        ):
            raise BadInputError(
                f"job {job.name}: ends otherwise than the jobs it runs beside, and a phase has one end;"
                " give them the same runtime or size, or stonewall"
            )
        phases[-1]["stream"] += streams
        phases += _verifying(job, streams, phases)
    about = ["Imported from a fio job file.", *state.notes]
    made = toml_text.profile_text(name, f"fio: {name}", f"fio job file {name}", about, phases, **state.top)
    return Imported(made, state.targets, state.notes)


def _unique(name: str, phases: list[Json]) -> str:
    taken = {phase["name"] for phase in phases}
    plain = name.replace(".", "-")
    return (
        plain if plain not in taken else next(f"{plain}-{n}" for n in range(2, 10_000) if f"{plain}-{n}" not in taken)
    )


def _verifying(job: Job, streams: list[Json], phases: list[Json]) -> list[Json]:
    """fio reads back what a write job has written once it is done; unless do_verify=0 says not to."""
    writes_only = all(s["operations"].get("write") == 100 for s in streams)
    if not (writes_only and any(s.get("verify") for s in streams)) or not fio_flag(
        "do_verify", job.options.get("do_verify", "1")
    ):
        return []
    keep = ("name", "target", "request", "align", "region", "depth", "verify")
    back = [
        {**{k: v for k, v in s.items() if k in keep}, "operations": {"read": 100}, "address": "sequential"}
        for s in streams
    ]
    return [{"name": _unique(f"{job.name}-verify", phases), "passes": 1, "stream": back}]


def _job(state: _Import, job: Job) -> tuple[list[Json], Json]:
    options = job.options
    unknown = sorted(set(options) - KNOWN)
    if unknown:
        raise BadInputError(f"fio's option {unknown[0]} has no counterpart here; take it out of the job file")
    if "startdelay" in options and fio_time_us("startdelay", options["startdelay"], default="s"):
        raise BadInputError("startdelay: streams of a phase begin together; use stonewall to order jobs")
    state.agree(job, "io", "direct" if fio_flag("direct", options.get("direct", "0")) else "buffered")
    engine = options.get("ioengine", "psync")
    if engine not in ENGINES:
        raise BadInputError(f"ioengine={engine} has no counterpart here; there are {', '.join(ENGINES)}")
    state.agree(job, "engine", ENGINES[engine])
    if "randseed" in options:
        state.agree(job, "seed", fio_int("randseed", options["randseed"], high=(1 << 63) - 1))
    jobs = fio_int("numjobs", options.get("numjobs", "1"), low=1, high=1024)
    stream = _stream(state, job, jobs, is_sync=ENGINES[engine] == "psync")
    streams = _apart(job, stream, jobs) if "offset_increment" in options else [stream]
    return streams, _limits(job, stream, jobs)


def _stream(state: _Import, job: Job, jobs: int, *, is_sync: bool) -> Json:
    options = job.options
    ops, is_random = _operations(options)
    sizes, align = _sizes(options, ops)
    depth = fio_int("iodepth", options.get("iodepth", "1"), low=1, high=4096)
    stream: Json = {
        "name": job.name.replace(".", "-"),
        "target": state.target(_file(job)),
        "operations": ops,
        "request": toml_text.request(sizes),
        "align": None if align is None else toml_text.size(align),
        "address": _address(state, options, sizes, align, jobs, is_random=is_random),
        "region": _region(options),
        "workers": jobs,
        "depth": 1 if is_sync else depth,
        **_pace(state, options, sizes, jobs),
        **_durability(options),
    }
    data = {
        key: fio_number(name, options[name], high=100)
        for key, name in (("compressible", "buffer_compress_percentage"), ("duplicate", "dedupe_percentage"))
        if name in options
    }
    if data:
        stream["data"] = data
    if options.get("verify", "0") not in ("0", "none"):
        stream["verify"] = True
        state.note("Blocks carry Brickyard's own stamps instead of fio's checksums.")
    return stream


def _file(job: Job) -> str:
    filename = job.options.get("filename", "")
    if re.search(r"(?<!\\):", filename):
        raise BadInputError(f"filename={filename}: several files in one job; write a job for each")
    if "$" in filename:
        raise BadInputError(f"filename={filename}: fio's keywords in names have no counterpart here")
    name = filename.replace("\\:", ":") or f"{job.name}.0.0"
    return str(Path(job.options.get("directory", "")) / name)


def _operations(options: dict[str, str]) -> tuple[Json, bool]:
    rw = options.get("rw", "read").lower()
    if rw not in DIRECTIONS:
        raise BadInputError(f"rw={rw} has no counterpart here; there are {', '.join(DIRECTIONS)}")
    kind, is_random = DIRECTIONS[rw]
    if kind != "mixed":
        return {"read": 0, kind: 100} if kind != "read" else {"read": 100}, is_random
    if "rwmixwrite" in options:
        read = 100 - fio_number("rwmixwrite", options["rwmixwrite"], high=100)
    else:
        read = fio_number("rwmixread", options.get("rwmixread", "50"), high=100)
    return toml_text.operations(read), is_random


def _one_for_all(option: str, text: str, ops: Json) -> str:
    """The value that holds for all directions in use; a stream has one request mix."""
    used = {v for v, key in zip(by_direction(text), ("read", "write", "trim"), strict=True) if ops.get(key)}
    if len(used) != 1:
        raise BadInputError(f"{option}={text}: reads and writes of one job differ; write a job for each")
    return used.pop()


def _sizes(options: dict[str, str], ops: Json) -> tuple[dict[int, float], int | None]:
    align = None
    if "blockalign" in options:
        align = fio_bytes("blockalign", _one_for_all("blockalign", options["blockalign"], ops))
    if "bssplit" in options:
        return _split(_one_for_all("bssplit", options["bssplit"], ops)), align
    if "bsrange" in options:
        low_text, _, high_text = _one_for_all("bsrange", options["bsrange"], ops).partition("-")
        low, high = fio_bytes("bsrange", low_text), fio_bytes("bsrange", high_text or low_text)
        if not 0 < low <= high or high // low > MAX_SIZES:
            raise BadInputError(f"bsrange={options['bsrange']}: more than {MAX_SIZES} sizes, or none")
        return {low * k: 100 / (high // low) for k in range(1, high // low + 1)}, align
    size = fio_bytes("bs", _one_for_all("bs", options.get("bs", "4k"), ops))
    return {size: 100.0}, align


def _split(text: str) -> dict[int, float]:
    shares: dict[int, float] = {}
    open_sizes = []
    for item in text.split(":"):
        size_text, _, share = item.partition("/")
        size = fio_bytes("bssplit", size_text)
        if share.strip():
            shares[size] = shares.get(size, 0) + fio_number("bssplit", share, high=100)
        else:
            open_sizes.append(size)
    rest = 100 - sum(shares.values())
    if rest < -1e-6 or (not open_sizes and abs(rest) > 1e-6):
        raise BadInputError(f"bssplit={text}: the shares don't sum to 100")
    for size in open_sizes:
        shares[size] = shares.get(size, 0) + rest / len(open_sizes)
    return {size: share for size, share in shares.items() if share > 0}


def _address(
    state: _Import, options: dict[str, str], sizes: dict[int, float], align: int | None, jobs: int, *, is_random: bool
) -> object:
    if not is_random:
        if jobs > 1 and "offset_increment" not in options:
            state.note(
                "Sequential clones of a job have parts of the region to themselves, so that none rides on another."
            )
            return {"kind": "sequential", "apart": True}
        return "sequential"
    kind, _, parameter = options.get("random_distribution", "random").partition(":")
    if kind == "zipf":
        return {"kind": "zipf", "theta": fio_number("random_distribution", parameter or "1.1", high=10)}
    if kind == "pareto":
        share = fio_number("random_distribution", parameter or "0.2", low=0.001, high=0.5)
        return {"kind": "pareto", "skew": round(100 - share * 100, 6)}
    if kind != "random":
        raise BadInputError(f"random_distribution={kind} has no counterpart here; there are random, zipf and pareto")
    if "percentage_random" in options:
        share = fio_number("percentage_random", options["percentage_random"].split(",")[0], high=100)
        if share < 100:
            return {"kind": "mixed", "random": share}
    one_size = len(sizes) == 1 and align in (None, *sizes)
    if one_size and not fio_flag("norandommap", options.get("norandommap", "0")):
        return "permutation"
    return "random"


def _region(options: dict[str, str]) -> str | None:
    offset, size = options.get("offset", "0"), options.get("size", "100%")
    if offset.endswith("%") or (size.endswith("%") and offset not in ("0", "0%")):
        low = fio_number("offset", offset.removesuffix("%"), high=100) if offset.endswith("%") else None
        if low is None or not size.endswith("%"):
            raise BadInputError(f"offset={offset} with size={size}: give both in bytes or both in per cent")
        return f"{low:g}%..{min(100.0, low + fio_number('size', size.removesuffix('%'), high=100)):g}%"
    if size.endswith("%"):
        share = fio_number("size", size.removesuffix("%"), high=100)
        return None if share == 100 else f"0..{share:g}%"
    return toml_text.region(fio_bytes("offset", offset), fio_bytes("size", size))


def _apart(job: Job, stream: Json, jobs: int) -> list[Json]:
    options = job.options
    if "size" not in options or options["size"].endswith("%"):
        raise BadInputError("offset_increment needs size in bytes, so that each clone has a region")
    step, size = fio_bytes("offset_increment", options["offset_increment"]), fio_bytes("size", options["size"])
    first = fio_bytes("offset", options.get("offset", "0"))
    share = {"pace": {**stream["pace"], "rate": stream["pace"]["rate"] / jobs}} if "pace" in stream else {}
    return [
        {
            **stream,
            "name": f"{stream['name']}-{n + 1}",
            "workers": 1,
            "region": toml_text.region(first + n * step, size),
            **share,
        }
        for n in range(jobs)
    ]


def _pace(state: _Import, options: dict[str, str], sizes: dict[int, float], jobs: int) -> Json:
    pace: Json = {}
    process = options.get("rate_process", "linear")
    if process not in ("linear", "poisson"):
        raise BadInputError(f"rate_process={process}: there are linear and poisson")
    mean_bytes = sum(size * share for size, share in sizes.items()) / sum(sizes.values())
    rate = None
    if "rate_iops" in options:
        rate = sum(fio_number("rate_iops", part) for part in _rates(options["rate_iops"]))
    elif "rate" in options:
        rate = sum(fio_bytes("rate", part) for part in _rates(options["rate"])) / max(mean_bytes, 1)
    if rate is not None:
        arrivals = "poisson" if process == "poisson" else "constant"
        pace["pace"] = {"loop": "open", "rate": float(rate * jobs), "arrivals": arrivals}
        state.note("Rates are open loops: a late request keeps its due time, where fio would begin counting late.")
    if "thinktime" in options and (think := fio_time_us("thinktime", options["thinktime"], default="us")):
        pace["think"] = f"{think}us"
    return pace


def _rates(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) != 1:
        raise BadInputError(f"rate {text}: reads and writes of one job have rates of their own; write a job for each")
    return parts


def _durability(options: dict[str, str]) -> Json:
    found: Json = {}
    sync = {"0": "none", "none": "none", "1": "sync", "": "sync", "sync": "sync", "dsync": "dsync"}
    if "sync" in options:
        if options["sync"] not in sync:
            raise BadInputError(f"sync={options['sync']}: there are none, sync and dsync")
        found["sync"] = sync[options["sync"]]
    for call in ("fsync", "fdatasync"):
        writes = fio_int(call, options.get(call, "0"), high=1 << 31)
        if writes and "flush_every" in found:
            raise BadInputError("fsync and fdatasync together: a stream flushes in one way")
        if writes:
            found["flush_every"] = {"writes": writes, "call": call}
    return found


def _limits(job: Job, stream: Json, jobs: int) -> Json:
    options = job.options
    limits: Json = {}
    runtime = fio_time_us("runtime", options.get("runtime", "0"), default="s")
    if runtime:
        limits["duration"] = f"{runtime}us"
    if not (runtime and fio_flag("time_based", options.get("time_based", "0"))):
        if "io_size" in options:
            limits["bytes"] = toml_text.size(fio_bytes("io_size", options["io_size"]) * jobs)
        else:
            loops = fio_int("loops", options.get("loops", "1"), low=1, high=1 << 31)
            limits["passes"] = loops * (1 if "offset_increment" in options else jobs)
    if "ramp_time" in options and (ramp := fio_time_us("ramp_time", options["ramp_time"], default="s")):
        limits["warmup"] = f"{ramp}us"
    if "latency_target" in options:
        limits |= _latency(options, int(stream["depth"]))
    if "steadystate" in options:
        limits["steady"] = _steady(options)
    return limits


def _latency(options: dict[str, str], depth: int) -> Json:
    """fio looks for the depth that still meets a target; here the depth grows until it is missed."""
    percent = fio_number("latency_percentile", options.get("latency_percentile", "100"), high=100)
    if percent not in FIGURES:
        raise BadInputError(f"latency_percentile={percent:g}: there are {', '.join(f'{p:g}' for p in FIGURES)}")
    window = fio_time_us("latency_window", options.get("latency_window", "1s"), default="us")
    target = fio_time_us("latency_target", options["latency_target"], default="us")
    found: Json = {"stop": {"when": FIGURES[percent], "above": f"{target}us"}}
    if depth > 1:
        found["ramp"] = {"knob": "depth", "from": 1, "to": depth, "factor": 2, "every": f"{window}us"}
    return found


def _steady(options: dict[str, str]) -> Json:
    """fio's criteria: how far from the mean (half of a range), or the slope."""
    kind, _, limit = options["steadystate"].partition(":")
    measures = {"iops": "iops", "bw": "throughput"}
    measure = kind.removesuffix("_slope")
    if measure not in measures or not limit.endswith("%"):
        raise BadInputError(
            f"steadystate={options['steadystate']}: there are iops, iops_slope, bw, bw_slope in per cent"
        )
    share = fio_number("steadystate", limit.removesuffix("%"), high=100)
    is_slope = kind.endswith("_slope")
    span = fio_time_us("steadystate_duration", options.get("steadystate_duration", "0"), default="s")
    if not span:
        raise BadInputError("steadystate needs steadystate_duration, the span that is looked at")
    return {
        "measure": measures[measure],
        "round": f"{max(1, span // 5)}us",
        "rounds": 5,
        "range": 100 if is_slope else min(100, 2 * share),
        "slope": share if is_slope else 100,
        "stop": True,
    }
