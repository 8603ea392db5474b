"""Duty: what one fio job asks of the storage → a stream: operations, sizes, places, rates, durability.

Refusal: when jobs run and what ends them is `fio_job`'s business; what a stream can't say is refused with its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from brickyard import _core
from brickyard.errors import BadInputError, meant, near
from brickyard.formats import toml_text
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_options import FioOptions
from brickyard.formats.fio_passes import ends_by_itself, random_passes, size_bytes, strided_passes
from brickyard.formats.fio_units import (
    by_direction,
    fio_bytes,
    fio_flag,
    fio_int,
    fio_number,
    fio_rate,
    fio_time_us,
    has_unit,
)
from brickyard.formats.profile_parts import (
    RANDOM,
    SEQUENTIAL,
    Address,
    Inline,
    OpenLoop,
    ProfileFlushes,
    ProfileSize,
    ProfileStream,
    ProfileZone,
    Shares,
)
from brickyard.schema.duration import duration_text

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
ENGINES = {
    "io_uring": "io_uring",
    **dict.fromkeys(("libaio", "posixaio", "windowsaio"), "auto"),
    **dict.fromkeys(("psync", "sync", "pvsync", "pvsync2"), "psync"),
}
ALIKE = 0.75
"""How alike a direction must be for a guess: `reed` is, and of `readrand` nobody knows which word is meant."""
ONE_CURSOR = "Reads and writes move one cursor here; fio has a cursor for each."
MAX_SIZES = 256  # of a bsrange: 4k to 1m
BS_DEFAULT = "4k"
ETCD_BYTES = 2300  # of IBM Cloud's command that tests storage for etcd
Sizes = dict[str, dict[int, float]]  # by operation in use: size in bytes → share


FLUSHES_ONCE_FROM = (3, 38)
"""The version since which fio looks at what it issued last ("td: Replace last_was_sync with last_ddir_issued", "io_u:
Ensure fsync only after write(s)"). Before, it looked at what had ended last."""
QUEUES_FLUSHES = frozenset({"io_uring", "posixaio"})
"""Engines that flush while other requests are in flight; libaio waits until none is."""


def flushes_again(*, reads: bool, depth: int, writes: int) -> str:
    """When a fio before `FLUSHES_ONCE_FROM` flushes more often than after each number of `writes`: with reads in the
    job, or, with an engine of `QUEUES_FLUSHES`, with several requests in flight. Empty where it does not."""
    if reads:
        return "after each read that follows a flushed write"
    return "until the first flush has ended" if depth > 1 and writes > 1 else ""


@dataclass(frozen=True)
class Work:
    """A job's stream, and what has to be said of it."""

    stream: ProfileStream
    depth: int
    notes: tuple[str, ...]
    reads: bool
    passes: float
    """Of the stream, which are one loop of the job."""


def read_work(job: Job, jobs: int) -> Work:
    """The stream of a job and of all its `jobs` clones together; its target and clones are for the caller to place."""
    asked = job.asked
    notes: list[str] = []
    ops, is_random, step_bytes = _operations(asked)
    sizes = _sizes(asked, ops)
    notes += _rounded_words(asked, sizes)
    _check_sectors(sizes)
    align = _align(asked, sizes) if is_random else _step_of(sizes)
    think_us = fio_time_us("thinktime", asked.thinktime, default="us")
    pace, ops = _pace(job, ops, sizes, jobs, notes)
    engine = asked.ioengine
    depth = fio_int("iodepth", asked.iodepth, low=1, high=4096)
    queued = depth if engine in QUEUES_FLUSHES else 1
    if depth > 1 and (why := one_at_a_time(job)):
        notes.append(f"iodepth={depth} has no effect with {why}, so depth is 1.")
        depth = 1
    if depth > 1 and think_us:
        notes.append(
            f"iodepth={depth} has no effect with thinktime: fio waits for the end of all requests in flight before it"
            " pauses, after each request, so depth is 1."
        )
        depth = queued = 1
    is_verified = verifies(asked)
    flush_every = _flush_every(asked)
    if flush_every is not None and not ops.write:
        notes.append(f"{flush_every.call}={flush_every.writes} has no effect: the job writes nothing.")
        flush_every = None
    if flush_every is not None and (
        again := flushes_again(reads=bool(ops.read), depth=queued, writes=flush_every.writes)
    ):
        notes.append(
            f"{flush_every.call}={flush_every.writes}: here one flush follows each such number of writes, as in fio"
            f" from {version_words(FLUSHES_ONCE_FROM)} on; before, fio flushed again {again}."
        )
    stream = ProfileStream(
        name=plain_name(job.name),
        operations=ops,
        request=_request(sizes),
        align=None if align is None else toml_text.size(align),
        address=_address(asked, ops, sizes, align, step_bytes, notes, is_random=is_random),
        workers=jobs,
        depth=depth,
        think=duration_text(think_us) if think_us else None,
        pace=pace,
        sync=_sync(asked),
        flush_every=flush_every,
        data=_data(asked) or None,
        verify=is_verified or None,
    )
    if is_verified:
        notes.append("Blocks carry Brickyard's own stamps instead of fio's checksums.")
    passes = _passes(asked, ops, sizes, align, step_bytes, notes)
    return Work(stream, depth, tuple(notes), bool(ops.read), passes)


def is_direct(asked: FioOptions) -> bool:
    """`buffered` is the opposite of `direct`; of both, `override` has kept the last."""
    if asked.buffered is not None:
        return not fio_flag("buffered", asked.buffered)
    return asked.direct is not None and fio_flag("direct", asked.direct)


def one_at_a_time(job: Job) -> str:
    """With what a job has one request in flight on each file, whatever its iodepth; empty where it has a queue."""
    engine = job.asked.ioengine
    if ENGINES.get(engine) == "psync":
        return f"fio's ioengine={engine}"
    if engine == "libaio" and not is_direct(job.asked):
        return "fio's ioengine=libaio and buffered I/O, which Linux issues one request at a time"
    if engine == "posixaio":
        return "fio's ioengine=posixaio on Linux, whose C library issues the requests of a file one at a time"
    return ""


def _passes(
    asked: FioOptions, ops: Shares, sizes: Sizes, align: int | None, step_bytes: int, notes: list[str]
) -> float:
    """Of the stream, which are one loop of the job."""
    one = _one_size(sizes)
    if step_bytes and one is not None:
        # The direction that has more requests is the first at the end of its file.
        return strided_passes(asked, one, step_bytes + one, max(ops.by_name.values()) / 100, notes)
    total = sum(ops.by_name.values())
    mean_bytes = sum(share / total * _mean_bytes(sizes[name]) for name, share in ops.by_name.items())
    return random_passes(asked, one, mean_bytes, align)


def _mean_bytes(mix: dict[int, float]) -> float:
    return sum(size * share for size, share in mix.items()) / max(1e-9, sum(mix.values()))


def plain_name(name: str) -> str:
    return name.replace(".", "-")


def verifies(asked: FioOptions) -> bool:
    return asked.verify not in ("0", "none")


def version_words(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _operations(asked: FioOptions) -> tuple[Shares, bool, int]:
    """Shares, whether offsets are random, and how many bytes a sequential job leaves out after each request."""
    rw, _, modifier = asked.rw.lower().partition(":")
    if rw not in DIRECTIONS:
        alike = near(rw, DIRECTIONS, ALIKE)
        said = f"rw={rw} has no counterpart here; there are {', '.join(DIRECTIONS)}"
        raise BadInputError(said, meant(rw, alike) if alike else None)
    kind, is_random = DIRECTIONS[rw]
    step_bytes = 0
    if modifier.startswith("-"):
        raise BadInputError(f"rw={rw}:{modifier}: goes backwards, which no address pattern here does")
    if modifier and is_random and fio_int("rw", modifier, low=1) > 1:
        raise BadInputError(
            f"rw={rw}:{modifier}: {modifier} requests in a row at each random offset, as none does here"
        )
    if modifier and not is_random:
        step_bytes = fio_bytes("rw", modifier)
    if kind != "mixed":
        return Shares(**{kind: 100}), is_random, step_bytes
    if asked.rwmixwrite is not None:
        read = 100 - fio_number("rwmixwrite", asked.rwmixwrite, high=100)
    else:
        read = fio_number("rwmixread", asked.rwmixread, high=100)
    return toml_text.operations(read), is_random, step_bytes


def _sizes(asked: FioOptions, ops: Shares) -> Sizes:
    """Of each operation in use."""
    if asked.bssplit is not None:
        texts = by_direction(asked.bssplit, BS_DEFAULT)
        return {name: _split(texts[name]) for name in ops.used}
    if asked.bsrange is not None:
        texts = by_direction(asked.bsrange, BS_DEFAULT)
        return {name: range_sizes(texts[name]) for name in ops.used}
    texts = by_direction(asked.bs, BS_DEFAULT)
    return {name: {fio_bytes("bs", texts[name]): 100.0} for name in ops.used}


def _check_sectors(sizes: Sizes) -> None:
    odd = next((size for mix in sizes.values() for size in mix if _core.sector_advice(size)), None)
    if odd is None:
        return
    near = (
        "; the profile etcd-fdatasync that ships is fio's test of etcd with whole sectors"
        if odd == ETCD_BYTES and list(sizes) == ["write"]
        else ""
    )
    if odd == 0:
        raise BadInputError("bs=0: must be above 0, such as 4k")
    raise BadInputError(f"bs={odd}: {_core.sector_advice(odd)}{near}")


def range_sizes(text: str) -> dict[int, float]:
    """The sizes of a `bsrange` with their shares in per cent: the multiples of its lowest one, alike, and its highest
    one for what is left (`__get_next_buflen` in fio's sources)."""
    low_text, _, high_text = text.partition("-")
    low, high = fio_bytes("bsrange", low_text), fio_bytes("bsrange", high_text or low_text)
    if not 0 < low <= high or high // low > MAX_SIZES:
        raise BadInputError(f"bsrange={text}: more than {MAX_SIZES} sizes, or none")
    if high % low == 0:
        return {low * k: 100 * low / high for k in range(1, high // low + 1)}
    return {low * k: 100 * low / high for k in range(1, high // low + 1)} | {high: 100 * (high % low) / high}


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
    least = min(shares)
    if not least:
        return shares
    rounded: dict[int, float] = {}
    for size, part in shares.items():
        if part > 0:
            # fio rounds each down to a multiple of the smallest that is named (`get_next_buflen`).
            rounded[size // least * least] = rounded.get(size // least * least, 0) + part
    return rounded


def _rounded_words(asked: FioOptions, sizes: Sizes) -> list[str]:
    if asked.bssplit is None:
        return []
    texts = by_direction(asked.bssplit, BS_DEFAULT)
    named = {fio_bytes("bssplit", item.partition("/")[0]) for name in sizes for item in texts[name].split(":")}
    lost = sorted(named - {size for mix in sizes.values() for size in mix})
    if not any(size % _least_bytes(asked, name, sizes[name]) for name in sizes for size in lost):
        return []
    return [f"bssplit={asked.bssplit}: sizes are rounded down to multiples of the smallest, as in fio."]


def _alike(sizes: Sizes) -> dict[int, float] | None:
    """The one mix of all operations, if they have one."""
    mixes = list(sizes.values())
    return mixes[0] if all(mix == mixes[0] for mix in mixes) else None


def _request(sizes: Sizes) -> str | list[ProfileSize]:
    mix = _alike(sizes)
    return toml_text.request(mix) if mix is not None else toml_text.request_by_operation(sizes)


def _align(asked: FioOptions, sizes: Sizes) -> int | None:
    if asked.blockalign is None:
        return None
    texts = by_direction(asked.blockalign, "0")
    aligns = {name: fio_bytes("blockalign", texts[name]) or min(mix) for name, mix in sizes.items()}
    if all(aligns[name] == min(mix) for name, mix in sizes.items()) and len(set(aligns.values())) > 1:
        return None  # as each operation has it by itself
    found = set(aligns.values())
    if len(found) > 1:
        raise BadInputError(f"blockalign={asked.blockalign}: reads and writes of a stream have one alignment")
    return found.pop()


def _step_of(sizes: Sizes) -> int | None:
    """What a cursor moves by, where that is less than the smallest request."""
    every = {size for mix in sizes.values() for size in mix}
    step = math.gcd(*every)
    return None if step == min(every) else step


def _address(
    asked: FioOptions,
    ops: Shares,
    sizes: Sizes,
    align: int | None,
    step_bytes: int,
    notes: list[str],
    *,
    is_random: bool,
) -> Address:
    if not is_random:
        notes += [f"{option} has no effect with rw={asked.rw}, as in fio." for option in _for_random(asked)]
        return _in_order(ops, sizes, step_bytes, notes)
    share = _random_share(asked, ops)
    has_own_align = align is not None and any(align != min(mix) for mix in sizes.values())
    if (given := asked.random_distribution) != "random":
        if share < 100:
            raise BadInputError(f"percentage_random with random_distribution={given}: no address here has both")
        if not given.startswith("zoned"):
            _check_hot(asked, sizes, has_own_align=has_own_align)
        return _distribution(given, notes)
    if share < 100:
        notes += _of_runs(asked, ops, sizes, align)
        return Address("runs", random=share)
    if fio_flag("norandommap", asked.norandommap) or has_own_align:  # which turns fio's map off
        return RANDOM
    one = _one_size(sizes)
    if one is not None and align in (None, one):
        return Address("permutation")
    if all(len(mix) == 1 for mix in sizes.values()):
        effect = "and ends a pass before it has moved as much as here: it does fewer requests, unless time ends it"
    else:
        effect = "and shortens requests that meet it: its mean request is smaller, and it does more of them"
    notes.append(
        "Offsets are uniform, and each request has its whole size. fio's map (no norandommap) keeps offsets from what"
        f" this pass has touched, {effect}. With norandommap=1 both do the same."
    )
    return RANDOM


def _of_runs(asked: FioOptions, ops: Shares, sizes: Sizes, align: int | None) -> list[str]:
    """What differs from fio where some requests are random and the others follow them."""
    said = [ONE_CURSOR] if len(ops.used) > 1 else []
    has_time = asked.io_size is None and ends_by_itself(asked)
    if not has_time and not _fits(sizes, align, size_bytes(asked)):
        said.append(
            f"percentage_random={asked.percentage_random}: fio ends a loop at the first sequential request that does"
            " not fit before the end of its file, so it may do less than here; with time_based=1, both do the same."
        )
    return said


def _fits(sizes: Sizes, align: int | None, region_bytes: int | None) -> bool:
    """Whether some size always fits before the end: all are multiples of the smallest, to which they are aligned."""
    for mix in sizes.values():
        unit = min(mix)
        if align not in (None, unit) or any(size % unit for size in [*mix, region_bytes or 0]):
            return False
    return True


def _check_hot(asked: FioOptions, sizes: Sizes, *, has_own_align: bool) -> None:
    """fio draws blocks of the smallest size, and ends at the first that lies behind the end of its file."""
    given = f"random_distribution={asked.random_distribution}"
    if has_own_align:
        raise BadInputError(
            f"blockalign={asked.blockalign} with {given}: fio draws blocks of bs and multiplies"
            " their number by blockalign, so that requests lie elsewhere; leave blockalign out"
        )
    least = {min(mix) for mix in sizes.values()}
    if len(least) > 1:
        raise BadInputError(
            f"{given} with other sizes of reads than of writes: fio draws blocks of the smallest size for both, and"
            " ends at the first write or read behind the end of its file; write a job for each"
        )
    region_bytes, block_bytes = size_bytes(asked), least.pop()
    if region_bytes is not None and region_bytes % block_bytes:
        raise BadInputError(
            f"{given} with a size that is no multiple of {block_bytes}: fio ends at the first request for the rest of"
            " its file; make size a multiple of bs"
        )


def _for_random(asked: FioOptions) -> list[str]:
    """The options that tell of random offsets where they are."""
    share, given = asked.percentage_random, asked.random_distribution
    found = [] if share is None else [f"percentage_random={share}"]
    found += [] if asked.blockalign is None else [f"blockalign={asked.blockalign}"]
    return found if given == "random" else [*found, f"random_distribution={given}"]


def _random_share(asked: FioOptions, ops: Shares) -> float:
    """Per cent of random offsets."""
    texts = by_direction(asked.percentage_random or "100", "100")
    shares = {fio_number("percentage_random", texts[name], high=100) for name in ops.used}
    if len(shares) > 1:
        raise BadInputError("percentage_random: reads and writes of a stream have one share of random offsets")
    return shares.pop()


def _one_size(sizes: Sizes) -> int | None:
    mix = _alike(sizes)
    return next(iter(mix)) if mix is not None and len(mix) == 1 else None


def _in_order(ops: Shares, sizes: Sizes, step_bytes: int, notes: list[str]) -> Address:
    if len(ops.used) > 1:
        notes.append(ONE_CURSOR)
    if not step_bytes:
        return SEQUENTIAL
    one = _one_size(sizes)
    if one is None:
        raise BadInputError(f"rw=…:{step_bytes}: steps over a part after requests of several sizes")
    return Address("strided", stride=toml_text.size(step_bytes + one))


def _distribution(text: str, notes: list[str]) -> Address:
    kind, _, parameters = text.replace("zoned_abs=", "zoned_abs:").partition(":")
    first, _, center = parameters.partition(":")
    name = "random_distribution"
    if kind in ("zipf", "pareto", "normal") and center:
        notes.append(f"{name}={text}: where the most frequent block lies is not kept, only how frequent each is.")
    if kind == "zipf":
        return Address("zipf", theta=fio_number(name, first or "1.1", high=10))
    if kind == "pareto":
        skew = round(100 - fio_number(name, first or "0.2", low=0.001, high=0.5) * 100, 6)
        return Address("pareto", skew=skew)
    if kind == "normal":
        return Address("normal", deviation=fio_number(name, first or "0", high=100))
    if kind in ("zoned", "zoned_abs"):
        if "," in parameters:
            raise BadInputError(f"{name}={text}: reads and writes of a stream have the same zones")
        items = [item.partition("/")[::2] for item in parameters.split(":")]
        return zones(f"{name}={text}", items, is_absolute=kind == "zoned_abs")
    raise BadInputError(
        f"{name}={kind} has no counterpart here; there are random, zipf, pareto, normal, zoned and zoned_abs"
    )


def zones(said: str, items: list[tuple[str, str]], *, is_absolute: bool) -> Address:
    """Zones one behind the other, from shares of requests and sizes (in bytes, or per cent of the region).

    A share or size that is left out gets an equal part of what the others leave.
    """
    shares = [None if not share.strip() else fio_number(said, share, high=100) for share, _ in items]
    lengths = [
        None if not size.strip() else fio_bytes(said, size) if is_absolute else fio_number(said, size, high=100)
        for _, size in items
    ]
    if is_absolute and None in lengths:
        raise BadInputError(f"{said}: each zone needs a size")
    whole_shares, whole_lengths = _filled(said, shares), _filled(said, lengths, is_absolute=is_absolute)
    found, at = [], 0.0
    for share, length in zip(whole_shares, whole_lengths, strict=True):
        if not length:
            raise BadInputError(f"{said}: a zone is empty")
        edges = [
            toml_text.size(int(x)) if is_absolute else (f"{min(100, round(x, 6)):g}%" if x else "0")
            for x in (at, at + length)
        ]
        found.append(ProfileZone(share, "..".join(edges)))
        at += length
    return Address("zones", zones=found)


def _filled(said: str, values: list[float | None], *, is_absolute: bool = False) -> list[float]:
    left = 100 - sum(value for value in values if value is not None)
    missing = values.count(None)
    if not is_absolute and (left < -1e-6 or (not missing and left > 1e-6 and sum(v or 0 for v in values) <= 0)):
        raise BadInputError(f"{said}: more than 100 %, or nothing")
    return [left / missing if value is None else value for value in values]


def _pace(job: Job, ops: Shares, sizes: Sizes, jobs: int, notes: list[str]) -> tuple[OpenLoop | None, Shares]:
    """The pace of all clones, and the operations: rates of both directions decide them as well, as in fio."""
    asked = job.asked
    rates = _rates(job, sizes, notes)
    if rates is None:
        return None, ops
    if fio_time_us("thinktime", asked.thinktime, default="us"):
        raise BadInputError("thinktime with rate: a request here is due by its rate or after a pause, not by both")
    process = asked.rate_process
    if process not in ("linear", "poisson"):
        raise BadInputError(f"rate_process={process}: there are linear and poisson")
    total = sum(rates.values())
    arrivals = "poisson" if process == "poisson" else "constant"
    notes.append("Rates are open loops: the wait of a late request counts in its response time, but not in fio's.")
    pace = OpenLoop(float(total * jobs), arrivals)
    if len(rates) > 1:
        shares = {name: round(rate / total * 100, 9) for name, rate in rates.items()}
        if any(abs(share - ops.by_name[name]) > 1e-6 for name, share in shares.items()):
            each = " and ".join(f"{rate * jobs:g} {name}s/s" for name, rate in rates.items())
            notes.append(f"fio's rate holds for each direction, {each}, so it decides the mix.")
        if arrivals == "constant" and not job.rates_requests:
            notes.append(DRAWN.format(total=f"{total * jobs:g}"))
        return pace, Shares(**shares)
    return pace, ops


DRAWN = (
    "fio holds the rate of each direction by itself; here {total} requests/s are one rate, and each request is a read "
    "or a write by chance, by their shares, so the counts of a second vary."
)


def job_rate(job: Job) -> float:
    """Requests/s of one job, of its reads and writes together; 0 where none is given."""
    ops, _, _ = _operations(job.asked)
    return sum((_rates(job, _sizes(job.asked, ops), []) or {}).values())


def _rates(job: Job, sizes: Sizes, notes: list[str]) -> dict[str, float] | None:
    """Requests/s of one job by operation; a rate without a comma holds for each direction."""
    asked = job.asked
    if asked.rate_iops is not None and asked.rate is not None:
        raise BadInputError("rate and rate_iops exclude each other, in fio too; leave one of them out")
    option, given = ("rate", asked.rate) if asked.rate_iops is None else ("rate_iops", asked.rate_iops)
    if given is None:
        return None
    texts = by_direction(given, "0")
    found = {name: _requests_per_s(job, name, texts[name], mix, notes) for name, mix in sizes.items()}
    limited = [name for name, rate in found.items() if rate]
    if not limited:
        return None
    if len(limited) < len(found):
        raise BadInputError(f"a rate for {limited[0]}s alone: the other direction of a stream has it too")
    why = None if job.rates_requests else SIZES_IN_RATE.get((option, asked.rate_process))
    if why and any(_least_bytes(asked, name, mix) < max(mix) for name, mix in sizes.items()):
        each = " and ".join(f"{rate:,.6g} {name}s/s" for name, rate in found.items())
        notes.append(f"{option}={given} with several request sizes: {why}. That is {each} of each job, as here.")
    return found


SIZES_IN_RATE = {
    ("rate_iops", "linear"): "fio's constant rate counts bytes, rate_iops times the smallest size",
    ("rate", "poisson"): "with rate_process=poisson, fio divides the rate by the smallest size",
}
"""Where fio's rate is not what its words say; by option and `rate_process`."""


def _requests_per_s(job: Job, name: str, text: str, mix: dict[int, float], notes: list[str]) -> float:
    """A rate of fio's is bytes/s; `rate_iops` is so many of the smallest size, and Poisson's pauses are those of the
    smallest size, whatever size a request has (`__setup_rate` and `usec_for_io` in fio's sources)."""
    asked = job.asked
    least_bytes, is_poisson = _least_bytes(asked, name, mix), asked.rate_process == "poisson"
    if asked.rate_iops is None:
        rate_bytes = fio_bytes("rate", text)
        if not is_poisson:
            return plain_rate(rate_bytes, _mean_bytes(mix))
        if 0 < rate_bytes < least_bytes:
            raise BadInputError(f"rate={text} with rate_process=poisson: fio ends where it is less than one request/s")
        return float(rate_bytes // least_bytes)
    rate = fio_rate("rate_iops", text)
    if has_unit(text):
        unit = "kib is 1000" if text.strip().lower().endswith("ib") else "k is 1024"
        notes.append(f"rate_iops={text} is {rate:,.0f} requests/s, as fio reads it ({unit}).")
    is_plain = is_poisson or job.rates_requests
    return rate if is_plain else round(rate * least_bytes / _mean_bytes(mix), 9)


def _least_bytes(asked: FioOptions, name: str, mix: dict[int, float]) -> int:
    """Of the sizes that a job names for an operation, also those that no request has."""
    if asked.bssplit is None:
        return min(mix)
    items = by_direction(asked.bssplit, BS_DEFAULT)[name].split(":")
    return min(fio_bytes("bssplit", item.partition("/")[0]) for item in items)


def plain_rate(rate_bytes: int, mean_bytes: float) -> float:
    """Requests/s, as a person would write them where whole bytes/s do not tell the difference."""
    rate = rate_bytes / mean_bytes
    plain = round(rate, 3)
    return plain if abs(plain * mean_bytes - rate_bytes) <= 0.5 else rate


def _sync(asked: FioOptions) -> str | None:
    modes = {"0": "none", "none": "none", "1": "sync", "": "sync", "sync": "sync", "dsync": "dsync"}
    if asked.sync is None:
        return None
    if asked.sync not in modes:
        raise BadInputError(f"sync={asked.sync}: there are none, sync and dsync")
    return modes[asked.sync]


def _flush_every(asked: FioOptions) -> ProfileFlushes | None:
    calls = [
        ProfileFlushes(writes, call)
        for call, given in (("fsync", asked.fsync), ("fdatasync", asked.fdatasync))
        if (writes := fio_int(call, given, high=1 << 31))
    ]
    if len(calls) > 1:
        raise BadInputError("fsync and fdatasync together: a stream flushes in one way")
    return calls[0] if calls else None


def _data(asked: FioOptions) -> Inline:
    said = (
        ("compressible", "buffer_compress_percentage", asked.buffer_compress_percentage),
        ("duplicate", "dedupe_percentage", asked.dedupe_percentage),
    )
    return {key: fio_number(option, given, high=100) for key, option, given in said if given is not None}


def goes_everywhere(asked: FioOptions) -> bool:
    """Whether requests go to all of the file, also where less than the file is moved."""
    return asked.rw.startswith("rand") or ":" in asked.rw


def part_of_file(asked: FioOptions) -> tuple[int, int] | None:
    """`size` and `filesize` where they differ. fio moves as much as `size`, at most the file: random and strided
    requests go to all of the file, others to its first part. Without both, or where they are equal, None."""
    size, filesize, offset = asked.size, asked.filesize, asked.offset or "0"
    if size is None or filesize is None or size == filesize:
        return None
    if "%" in size + filesize or "-" in filesize or offset != "0":
        raise BadInputError(f"size={size} with filesize={filesize}: give both in bytes, as one number, without offset")
    found = fio_bytes("size", size), fio_bytes("filesize", filesize)
    return None if found[0] == found[1] else found


def read_region(asked: FioOptions, shift: str = "") -> str | None:
    """Where a job works; `shift` is added to its offset (of clones with offset_increment)."""
    offset = asked.offset or "0"
    size = asked.size or asked.filesize or "100%"
    if (both := part_of_file(asked)) is not None:
        part_bytes, file_bytes = both
        size = str(file_bytes if goes_everywhere(asked) else min(part_bytes, file_bytes))
    percents = [text.endswith("%") for text in (offset, shift or offset)]
    if len(set(percents)) > 1 and offset != "0":
        step = asked.offset_increment
        raise BadInputError(f"offset={offset} with offset_increment={step}: give both in bytes or both in per cent")
    ends_whole = size == "100%"
    if (shift or offset).endswith("%"):
        low = fio_number("offset", offset.removesuffix("%"), high=100)
        low += fio_number("offset_increment", shift.removesuffix("%")) if shift else 0
        if not size.endswith("%"):
            raise BadInputError(f"offset={offset} with size={size}: give both in bytes or both in per cent")
        high = min(100.0, low + fio_number("size", size.removesuffix("%"), high=100))
        if low >= high:
            raise BadInputError(f"offset={low:g}%: nothing of the target is left behind it")
        return f"{low:g}%..{high:g}%" if (low, high) != (0, 100) else None
    low_bytes = fio_bytes("offset", offset) + (fio_bytes("offset_increment", shift) if shift else 0)
    if ends_whole:
        return toml_text.region(low_bytes, None)
    if size.endswith("%"):
        if low_bytes:
            raise BadInputError(f"offset={offset} with size={size}: give both in bytes or both in per cent")
        return f"0..{fio_number('size', size.removesuffix('%'), high=100):g}%"
    return toml_text.region(low_bytes, fio_bytes("size", size))
