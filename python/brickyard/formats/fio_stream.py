"""Duty: what one fio job asks of the storage → a stream: operations, sizes, places, rates, durability.

Refusal: when jobs run and what ends them is `fio_job`'s business; what a stream can't say is refused with its reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from brickyard.errors import SECTOR_BYTES, BadInputError, sector_advice
from brickyard.formats import toml_text
from brickyard.formats.fio_file import Job
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
ENGINES = {
    "io_uring": "io_uring",
    **dict.fromkeys(("libaio", "posixaio", "windowsaio"), "auto"),
    **dict.fromkeys(("psync", "sync", "pvsync", "pvsync2"), "psync"),
}
MAX_SIZES = 256  # of a bsrange: 4k to 1m
BS_DEFAULT = "4k"
ETCD_BYTES = 2300  # of IBM Cloud's command that tests storage for etcd
Sizes = dict[str, dict[int, float]]  # by operation in use: size in bytes → share


@dataclass(frozen=True)
class Work:
    """A job's stream, and what has to be said of it."""

    stream: Json
    notes: tuple[str, ...]
    reads: bool


def read_work(job: Job, jobs: int) -> Work:
    """The stream of a job and of all its `jobs` clones together; its target and clones are for the caller to place."""
    options = job.options
    notes: list[str] = []
    ops, is_random, step_bytes = _operations(options)
    sizes = _sizes(options, ops)
    _check_sectors(sizes)
    align = _align(options, sizes)
    pace = _pace(options, ops, sizes, jobs, notes)
    ops = pace.pop("operations", ops)
    engine = options.get("ioengine", "psync")
    depth = fio_int("iodepth", options.get("iodepth", "1"), low=1, high=4096)
    if ENGINES[engine] == "psync" and depth > 1:
        notes.append(f"iodepth={depth} has no effect with fio's ioengine={engine}, so depth is 1.")
        depth = 1
    if depth > 1 and "think" in pace:
        raise BadInputError(
            f"thinktime with iodepth={depth}: fio pauses the whole job after each request, while here each request in"
            " flight would pause by itself; use iodepth=1, and numjobs for more of them"
        )
    stream: Json = {
        "name": job.name.replace(".", "-"),
        "target": 0,
        "operations": ops,
        "request": _request(sizes),
        "align": None if align is None else toml_text.size(align),
        "address": _address(options, ops, sizes, align, step_bytes, notes, is_random=is_random),
        "region": None,
        "workers": jobs,
        "depth": depth,
        **pace,
        **_durability(options),
    }
    if data := _data(options):
        stream["data"] = data
    if options.get("verify", "0") not in ("0", "none"):
        stream["verify"] = True
        notes.append("Blocks carry Brickyard's own stamps instead of fio's checksums.")
    return Work(stream, tuple(notes), "read" in used(ops))


def _operations(options: dict[str, str]) -> tuple[Json, bool, int]:
    """Shares, whether offsets are random, and how many bytes a sequential job leaves out after each request."""
    rw, _, modifier = options.get("rw", "read").lower().partition(":")
    if rw not in DIRECTIONS:
        raise BadInputError(f"rw={rw} has no counterpart here; there are {', '.join(DIRECTIONS)}")
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
        return {"read": 0, kind: 100} if kind != "read" else {"read": 100}, is_random, step_bytes
    if "rwmixwrite" in options:
        read = 100 - fio_number("rwmixwrite", options["rwmixwrite"], high=100)
    else:
        read = fio_number("rwmixread", options.get("rwmixread", "50"), high=100)
    return toml_text.operations(read), is_random, step_bytes


def used(ops: Json) -> list[str]:
    return [name for name in ("read", "write", "trim") if ops.get(name)]


def _sizes(options: dict[str, str], ops: Json) -> Sizes:
    """Of each operation in use."""
    if "bssplit" in options:
        texts = by_direction(options["bssplit"], BS_DEFAULT)
        return {name: _split(texts[name]) for name in used(ops)}
    if "bsrange" in options:
        texts = by_direction(options["bsrange"], BS_DEFAULT)
        return {name: _range(texts[name]) for name in used(ops)}
    texts = by_direction(options.get("bs", BS_DEFAULT), BS_DEFAULT)
    return {name: {fio_bytes("bs", texts[name]): 100.0} for name in used(ops)}


def _check_sectors(sizes: Sizes) -> None:
    odd = next((size for mix in sizes.values() for size in mix if size % SECTOR_BYTES), None)
    if odd is None:
        return
    near = (
        "; the profile etcd-fdatasync that ships is fio's test of etcd with whole sectors"
        if odd == ETCD_BYTES and list(sizes) == ["write"]
        else ""
    )
    raise BadInputError(f"bs={odd}: {sector_advice(odd)}{near}")


def _range(text: str) -> dict[int, float]:
    low_text, _, high_text = text.partition("-")
    low, high = fio_bytes("bsrange", low_text), fio_bytes("bsrange", high_text or low_text)
    if not 0 < low <= high or high // low > MAX_SIZES:
        raise BadInputError(f"bsrange={text}: more than {MAX_SIZES} sizes, or none")
    return {low * k: 100 / (high // low) for k in range(1, high // low + 1)}


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


def _alike(sizes: Sizes) -> dict[int, float] | None:
    """The one mix of all operations, if they have one."""
    mixes = list(sizes.values())
    return mixes[0] if all(mix == mixes[0] for mix in mixes) else None


def _request(sizes: Sizes) -> object:
    mix = _alike(sizes)
    return toml_text.request(mix) if mix is not None else toml_text.request_by_operation(sizes)


def _align(options: dict[str, str], sizes: Sizes) -> int | None:
    if "blockalign" not in options:
        return None
    texts = by_direction(options["blockalign"], "0")
    aligns = {name: fio_bytes("blockalign", texts[name]) or min(mix) for name, mix in sizes.items()}
    if all(aligns[name] == min(mix) for name, mix in sizes.items()) and len(set(aligns.values())) > 1:
        return None  # as each operation has it by itself
    found = set(aligns.values())
    if len(found) > 1:
        raise BadInputError(f"blockalign={options['blockalign']}: reads and writes of a stream have one alignment")
    return found.pop()


def _address(
    options: dict[str, str],
    ops: Json,
    sizes: Sizes,
    align: int | None,
    step_bytes: int,
    notes: list[str],
    *,
    is_random: bool,
) -> object:
    if not is_random:
        return _in_order(ops, sizes, step_bytes, notes)
    if (given := options.get("random_distribution", "random")) != "random":
        return _distribution(given, notes)
    if "percentage_random" in options:
        texts = by_direction(options["percentage_random"], "100")
        shares = {fio_number("percentage_random", texts[name], high=100) for name in used(ops)}
        if len(shares) > 1:
            raise BadInputError("percentage_random: reads and writes of a stream have one share of random offsets")
        if (share := shares.pop()) < 100:
            return {"kind": "runs", "random": share}
    if fio_flag("norandommap", options.get("norandommap", "0")):
        return "random"
    one = _one_size(sizes)
    if one is not None and align in (None, one):
        return "permutation"
    notes.append("Offsets are uniform; fio's map would keep them from what this pass has touched (no norandommap).")
    return "random"


def _one_size(sizes: Sizes) -> int | None:
    mix = _alike(sizes)
    return next(iter(mix)) if mix is not None and len(mix) == 1 else None


def _in_order(ops: Json, sizes: Sizes, step_bytes: int, notes: list[str]) -> object:
    if len(used(ops)) > 1:
        notes.append("Reads and writes move one cursor here; fio has a cursor for each.")
    if not step_bytes:
        return "sequential"
    one = _one_size(sizes)
    if one is None:
        raise BadInputError(f"rw=…:{step_bytes}: steps over a part after requests of several sizes")
    notes.append("Where the region ends, the next round begins one block further; fio's begins at the same block.")
    return {"kind": "strided", "stride": toml_text.size(step_bytes + one)}


def _distribution(text: str, notes: list[str]) -> object:
    kind, _, parameters = text.replace("zoned_abs=", "zoned_abs:").partition(":")
    first, _, center = parameters.partition(":")
    name = "random_distribution"
    if kind in ("zipf", "pareto", "normal") and center:
        notes.append(f"{name}={text}: where the most frequent block lies is not kept, only how frequent each is.")
    if kind == "zipf":
        return {"kind": "zipf", "theta": fio_number(name, first or "1.1", high=10)}
    if kind == "pareto":
        return {"kind": "pareto", "skew": round(100 - fio_number(name, first or "0.2", low=0.001, high=0.5) * 100, 6)}
    if kind == "normal":
        return {"kind": "normal", "deviation": fio_number(name, first or "0", high=100)}
    if kind in ("zoned", "zoned_abs"):
        if "," in parameters:
            raise BadInputError(f"{name}={text}: reads and writes of a stream have the same zones")
        items = [item.partition("/")[::2] for item in parameters.split(":")]
        return zones(f"{name}={text}", items, is_absolute=kind == "zoned_abs")
    raise BadInputError(
        f"{name}={kind} has no counterpart here; there are random, zipf, pareto, normal, zoned and zoned_abs"
    )


def zones(said: str, items: list[tuple[str, str]], *, is_absolute: bool) -> Json:
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
        found.append({"requests": share, "region": "..".join(edges)})
        at += length
    return {"kind": "zones", "zones": found}


def _filled(said: str, values: list[float | None], *, is_absolute: bool = False) -> list[float]:
    left = 100 - sum(value for value in values if value is not None)
    missing = values.count(None)
    if not is_absolute and (left < -1e-6 or (not missing and left > 1e-6 and sum(v or 0 for v in values) <= 0)):
        raise BadInputError(f"{said}: more than 100 %, or nothing")
    return [left / missing if value is None else value for value in values]


def _pace(options: dict[str, str], ops: Json, sizes: Sizes, jobs: int, notes: list[str]) -> Json:
    """The pace of all clones; rates of both directions also decide the `operations`, as in fio."""
    think = fio_time_us("thinktime", options.get("thinktime", "0"), default="us")
    rates = _rates(options, sizes)
    if rates is None:
        return {"think": toml_text.duration(think)} if think else {}
    if think:
        raise BadInputError("thinktime with rate: a request here is due by its rate or after a pause, not by both")
    process = options.get("rate_process", "linear")
    if process not in ("linear", "poisson"):
        raise BadInputError(f"rate_process={process}: there are linear and poisson")
    total = sum(rates.values())
    arrivals = "poisson" if process == "poisson" else "constant"
    notes.append("Rates are open loops: a late request keeps its due time, where fio would begin counting late.")
    found: Json = {"pace": {"loop": "open", "rate": float(total * jobs), "arrivals": arrivals}}
    if len(rates) > 1:
        shares = {name: round(rate / total * 100, 9) for name, rate in rates.items()}
        if any(abs(shares[name] - ops[name]) > 1e-6 for name in shares):
            each = " and ".join(f"{rate * jobs:g} {name}s/s" for name, rate in rates.items())
            notes.append(f"fio's rate holds for each direction, {each}, so it decides the mix.")
        found["operations"] = {name: shares.get(name, 0.0) for name in ("read", *shares)}
    return found


def _rates(options: dict[str, str], sizes: Sizes) -> dict[str, float] | None:
    """Requests/s of one job by operation; a rate without a comma holds for each direction."""
    found: dict[str, float] = {}
    for option in ("rate_iops", "rate"):
        if option not in options or found:
            continue
        for name, text in by_direction(options[option], "0").items():
            if name not in sizes:
                continue
            if option == "rate_iops":
                found[name] = fio_number(option, text)
            else:
                mix = sizes[name]
                mean_bytes = sum(size * share for size, share in mix.items()) / max(1e-9, sum(mix.values()))
                found[name] = fio_bytes(option, text) / max(1.0, mean_bytes)
    limited = [name for name, rate in found.items() if rate]
    if not limited:
        return None
    if len(limited) < len(found):
        raise BadInputError(f"a rate for {limited[0]}s alone: the other direction of a stream has it too")
    return found


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


def _data(options: dict[str, str]) -> Json:
    return {
        key: fio_number(name, options[name], high=100)
        for key, name in (("compressible", "buffer_compress_percentage"), ("duplicate", "dedupe_percentage"))
        if name in options
    }


def is_random(options: dict[str, str]) -> bool:
    return options.get("rw", "read").startswith("rand")


def _place(options: dict[str, str]) -> tuple[str | None, str | None, str]:
    size, filesize, offset = map(options.get, ("size", "filesize", "offset"))
    return size, filesize, offset or "0"


def part_of_file(options: dict[str, str]) -> tuple[int, int] | None:
    """`size` and `filesize` where they differ. fio moves as much as `size`, at most the file: random requests go to all
    of the file, others to its first part. Without both, or where they are equal, None."""
    size, filesize, offset = _place(options)
    if size is None or filesize is None or size == filesize:
        return None
    if "%" in size + filesize or "-" in filesize or offset != "0":
        raise BadInputError(f"size={size} with filesize={filesize}: give both in bytes, as one number, without offset")
    found = fio_bytes("size", size), fio_bytes("filesize", filesize)
    return None if found[0] == found[1] else found


def read_region(options: dict[str, str], shift: str = "") -> str | None:
    """Where a job works; `shift` is added to its offset (of clones with offset_increment)."""
    part, whole, offset = _place(options)
    size = part or whole or "100%"
    if (both := part_of_file(options)) is not None:
        part_bytes, file_bytes = both
        size = str(file_bytes if is_random(options) else min(part_bytes, file_bytes))
    percents = [text.endswith("%") for text in (offset, shift or offset)]
    if len(set(percents)) > 1 and offset != "0":
        raise BadInputError(f"offset={offset} with offset_increment={shift}: give both in bytes or both in per cent")
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


def file_names(job: Job, jobs: int) -> list[str]:
    """What fio calls the file of each clone; one name where all share it."""
    options = job.options
    filename = options.get("filename", "")
    if re.search(r"(?<!\\):", filename):
        raise BadInputError(f"filename={filename}: several files share a job's depth in fio, and no stream does that")
    if "$" in filename:
        raise BadInputError(f"filename={filename}: fio's keywords in names have no counterpart here")
    directory = options.get("directory", "")
    if re.search(r"(?<!\\):", directory):
        raise BadInputError(f"directory={directory}: several directories; name the file of each job with filename")
    start = f"{directory.rstrip('/')}/" if directory else ""
    if filename:
        return [start + filename.replace("\\:", ":")]
    form = options.get("filename_format", "$jobname.$jobnum.$filenum")
    names = [
        form.replace("$jobname", job.name).replace("$jobnum", str(number)).replace("$filenum", "0")
        for number in range(jobs)
    ]
    if any("$" in name for name in names):
        raise BadInputError(f"filename_format={form}: there are $jobname, $jobnum and $filenum here")
    return [start + name for name in dict.fromkeys(names)]
