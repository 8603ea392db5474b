"""Duty: a plan that options of fio made → its title, in fio's words: all that it asks of the storage.

How long it runs, and which engine sends the requests, is no part of it. Refusal: a title of several phases, or of
streams that differ in more than where their clones work.
"""

from __future__ import annotations

import re

from msgspec import structs

from brickyard.schema.duration import duration_text
from brickyard.schema.plan import (
    IoMode,
    Moves,
    NormalAddress,
    OpenPace,
    ParetoAddress,
    PermutationAddress,
    Plan,
    RandomAddress,
    RunsAddress,
    SequentialAddress,
    SizeShare,
    Stream,
    StridedAddress,
    SyncMode,
    ZipfAddress,
    ZonesAddress,
)
from brickyard.units import format_iops

FILE_OF_FIO = "filename"
"""The option of a job of fio that names its files."""
COLON = re.compile(r"(?<!\\):")


def split_names(filename: str) -> list[str]:
    """The names in a `filename`; a colon of their own has a backslash before it."""
    return [name for name in COLON.split(filename) if name]


def file_name(name: str) -> str:
    """What the file of one of these names is called."""
    return name.replace("\\:", ":")


# fio's default, kb_base=1024, turns the standards around: k and ki are 1024, and kib is 1000 (`__get_mult_bytes` in its
# parse.c; its HOWTO says that ki is 1000).
PREFIX = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
RW = {
    ("read", False): "read",
    ("write", False): "write",
    ("trim", False): "trim",
    ("read", True): "randread",
    ("write", True): "randwrite",
    ("trim", True): "randtrim",
    ("mixed", False): "rw",
    ("mixed", True): "randrw",
}


def fio_size(size_bytes: int) -> str:
    """As short as fio's words have it: `4k`."""
    for power, unit in reversed([(power, unit) for unit, power in PREFIX.items()]):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return str(size_bytes)


def distribution(address: ZipfAddress | ParetoAddress | NormalAddress) -> str:
    """As fio's `random_distribution` has it."""
    match address:
        case ZipfAddress(theta=theta):
            return f"zipf:{theta:g}"
        case ParetoAddress(skew=skew):
            return f"pareto:{1 - skew / 100:g}"
        case NormalAddress(deviation=deviation):
            return f"normal:{deviation:g}"


def title_of_options(plan: Plan) -> str | None:
    """The title of a plan that has no other source than options, whatever became of it since; None where it is of
    several phases, or of streams that are no clones."""
    clones = [structs.replace(clone, name="", target=0, region="", workers=1) for clone in plan.phase[0].stream]
    return None if len(plan.phase) > 1 or any(clone != clones[0] for clone in clones) else fio_title(plan)


def fio_title(plan: Plan) -> str:
    clones = plan.phase[0].stream
    stream = clones[0]
    workers = sum(clone.workers for clone in clones)
    paces = [clone.pace.rate for clone in clones if isinstance(clone.pace, OpenPace)]
    parts = [
        _operations(stream),
        _sizes(stream.request),
        f"depth {stream.depth}",
        f"pause {duration_text(stream.think.ns // 1000)}" if stream.think.ns else "",
        f"{workers} workers" if workers > 1 else "",
        f"{stream.operations.read:g} % reads" if 0 < stream.operations.read < 100 else "",
        _places(stream),
        "buffered" if plan.io is IoMode.BUFFERED else "",
        *(_durable(stream) if stream.operations.write else ()),
        f"{format_iops(sum(paces))} requests/s" if paces else "",
    ]
    return ", ".join(part for part in parts if part)


CURSORS = "reads and writes share one cursor in Brickyard; fio has a cursor for each"


def has_other_cursors(stream: Stream) -> bool:
    """Whether reads and writes go on where the last request of either ended, and in fio where one of their own did."""
    is_mixed = sum(bool(getattr(stream.operations, kind)) for kind in Moves) > 1
    return is_mixed and isinstance(stream.address, SequentialAddress | StridedAddress | RunsAddress)


def _operations(stream: Stream) -> str:
    used = [kind for kind in ("read", "write", "trim") if getattr(stream.operations, kind)]
    is_random = not isinstance(stream.address, SequentialAddress | StridedAddress)
    return RW[used[0] if len(used) == 1 else "mixed", is_random]


def _sizes(mix: list[SizeShare]) -> str:
    of = [[item for item in mix if item.of is kind] for kind in (None, *Moves)]
    return ",".join(_split(items) for items in of if items)


def _split(items: list[SizeShare]) -> str:
    if len(items) == 1:
        return fio_size(items[0].size)
    return ":".join(f"{fio_size(item.size)}/{item.share:g}" for item in items)


def _places(stream: Stream) -> str:
    """Where requests go; empty where fio's default is: in order, or each block once at random."""
    match stream.address:
        case SequentialAddress() | PermutationAddress():
            return ""
        case RandomAddress():  # of several sizes, fio's own map does not come to a permutation
            return "norandommap" if len(stream.request) == 1 else ""
        case StridedAddress(stride=stride):
            return f"stride {fio_size(stride)}"
        case RunsAddress(random=share):
            return f"{share:g} % random"
        case ZonesAddress(zones=zones):
            return "zoned:" + ":".join(f"{zone.requests:g}/{zone.region}" for zone in zones)
        case ZipfAddress() | ParetoAddress() | NormalAddress() as found:
            return distribution(found)
        case other:
            raise TypeError(f"no option of fio makes an address such as {other}")


def _durable(stream: Stream) -> list[str]:
    sync = [] if stream.sync is SyncMode.NONE else [f"sync={stream.sync}"]
    return [*sync, f"{stream.flush_every.call}={stream.flush_every.writes}"] if stream.flush_every else sync
