"""Duty: a watch for Prometheus: as text with classic buckets, and as protobuf, where histograms are native ones too.
Refusal: opens no socket.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from brickyard.units import NS
from brickyard.watch.seen import READS, Pairs, SeenCell, time_ns
from brickyard.watch.totals import WatchTotals

BOUNDS_NS = [1000 * 4**power for power in range(13)]
"""From 1 µs to 17 s by fours."""
TEXT = "text/plain"
TEXT_TYPE = f"{TEXT}; version=0.0.4; charset=utf-8"
PROTOBUF = "application/vnd.google.protobuf"
MESSAGE = "io.prometheus.client.MetricFamily"
PROTOBUF_TYPE = f"{PROTOBUF}; proto={MESSAGE}; encoding=delimited"
DELIMITED = {f"proto={MESSAGE.lower()}", "encoding=delimited"}
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
KINDS = {COUNTER: 0, GAUGE: 1, HISTOGRAM: 4}
SCHEMA = 2
"""Four native buckets for each doubling, 19 % wide: those of the watch are at most an eighth wide, and narrower native
ones would stay empty between them."""
ZERO_S = 1e-9
AHEAD = {
    "ahead_followed_bytes": "Bytes that were read ahead and followed in the page cache.",
    "ahead_used_bytes": "Bytes that were read ahead and used later.",
    "ahead_dropped_bytes": "Bytes that were read ahead and dropped from the page cache unused.",
}
MOST_ACCEPTED = 64
"""Kinds of answers that one request may name."""

Labels = dict[str, str]


@dataclass(frozen=True)
class Times:
    """A histogram by the buckets of the watch."""

    buckets: Pairs
    sum_ns: int

    @property
    def count(self) -> int:
        return sum(number for _, number in self.buckets)

    def up_to(self) -> Iterator[tuple[float, int]]:
        """Bound in seconds, and the count of those buckets that end at or below it."""
        for bound in BOUNDS_NS:
            yield bound / NS, sum(number for bucket, number in self.buckets if time_ns(bucket + 1) <= bound)
        yield math.inf, self.count

    def native(self) -> tuple[int, list[tuple[int, int]]]:
        """How many took no time, and the native buckets: number and count. A bucket of the watch counts where its
        middle lies."""
        zero = sum(number for bucket, number in self.buckets if bucket == 0)
        counts: Counter[int] = Counter()
        for bucket, number in self.buckets:
            if bucket:
                middle_s = (time_ns(bucket) + time_ns(bucket + 1)) / 2 / NS
                counts[math.ceil(math.log2(middle_s) * (1 << SCHEMA))] += number
        return zero, sorted(counts.items())


@dataclass(frozen=True)
class WatchFamily:
    name: str
    kind: str
    about: str
    samples: list[tuple[Labels, int | Times]]


def exposition(totals: WatchTotals, method: str) -> str:
    return "".join(f"{line}\n" for family in _families(totals, method) for line in _lines(family))


def protobuf_exposition(totals: WatchTotals, method: str) -> bytes:
    """A length and a message for each family (`metrics.proto` of Prometheus' client_model). A histogram has its classic
    buckets and its native ones, and the server takes those that it is configured for."""
    families = [_family(family) for family in _families(totals, method)]
    return b"".join(_varint(len(one)) + one for one in families)


def wants_protobuf(accept: str) -> bool:
    """Whether whoever asks takes protobuf at least as gladly as text, by the header of its request."""
    taken = dict(_accepted(accept))
    return taken.get(PROTOBUF, 0.0) > 0 and taken[PROTOBUF] >= taken.get(TEXT, 0.0)


def _accepted(accept: str) -> Iterator[tuple[str, float]]:
    for kind in accept.split(",")[:MOST_ACCEPTED]:
        name, *words = (word.strip() for word in kind.lower().split(";"))
        if name == PROTOBUF and not DELIMITED.issubset(words):
            continue
        try:
            yield name, float(next((word[2:] for word in words if word.startswith("q=")), "1"))
        except ValueError:
            continue


def _families(totals: WatchTotals, method: str) -> Iterator[WatchFamily]:
    yield WatchFamily("brickyard_watch_info", GAUGE, "How requests are seen.", [({"method": method}, 1)])
    for name, about in (
        ("requests", "Requests that ended."),
        ("bytes", "Bytes of requests that ended."),
        ("errors", "Requests that failed."),
        ("sequential_bytes", "Bytes of requests that begin where another ended."),
    ):
        yield WatchFamily(
            f"brickyard_watch_{name}_total", COUNTER, about,
            [(labels, getattr(cell, name)) for labels, cell in _cells(totals)],
        )  # fmt: skip
    for name, about in AHEAD.items() if totals.sees_ahead else ():
        yield WatchFamily(
            f"brickyard_watch_{name}_total", COUNTER, about,
            [({"device": one.name}, getattr(one.cell(*READS), name)) for one in totals.devices.values()],
        )  # fmt: skip
    yield WatchFamily(
        "brickyard_watch_in_flight", GAUGE, "Requests in the device at the end of the last interval.",
        [({"device": one.name}, one.in_flight) for one in totals.devices.values()],
    )  # fmt: skip
    if method == "counters":
        return
    yield WatchFamily(
        "brickyard_watch_seconds", HISTOGRAM, "From the arrival of a request to its end.",
        [(labels, Times(cell.total, cell.total_ns)) for labels, cell in _cells(totals)],
    )  # fmt: skip
    yield WatchFamily(
        "brickyard_watch_lost_total", COUNTER, "Events that were lost.",
        [({"what": what}, getattr(totals.lost, what)) for what in totals.lost.__struct_fields__],
    )  # fmt: skip


def _cells(totals: WatchTotals) -> Iterator[tuple[Labels, SeenCell]]:
    for device in totals.devices.values():
        for operation, cell in device.cells.items():
            yield {"device": device.name, "operation": operation}, cell


# ---- text


def _lines(family: WatchFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {family.about}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in family.samples:
        if isinstance(value, Times):
            for bound_s, count in value.up_to():
                le = "+Inf" if math.isinf(bound_s) else f"{bound_s:g}"
                yield f"{family.name}_bucket{_braces({**labels, 'le': le})} {count}"
            yield f"{family.name}_sum{_braces(labels)} {value.sum_ns / NS:.9f}"
            yield f"{family.name}_count{_braces(labels)} {value.count}"
        else:
            yield f"{family.name}{_braces(labels)} {value}"


def _braces(labels: Labels) -> str:
    escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in labels.items())
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


# ---- protobuf: the numbers of fields are those of metrics.proto


def _family(family: WatchFamily) -> bytes:
    head = _bytes(1, family.name.encode()) + _bytes(2, family.about.encode()) + _whole(3, KINDS[family.kind])
    return head + b"".join(_bytes(4, _metric(family.kind, labels, value)) for labels, value in family.samples)


def _metric(kind: str, labels: Labels, value: int | Times) -> bytes:
    pairs = b"".join(_bytes(1, _bytes(1, name.encode()) + _bytes(2, value.encode())) for name, value in labels.items())
    if isinstance(value, Times):
        return pairs + _bytes(7, _histogram(value))
    return pairs + _bytes(3 if kind == COUNTER else 2, _double(1, value))


def _histogram(times: Times) -> bytes:
    zero, native = times.native()
    classic = (_bytes(3, _whole(1, count) + _double(2, bound_s)) for bound_s, count in times.up_to())
    parts = [_whole(1, times.count), _double(2, times.sum_ns / NS), *classic]
    parts += [_whole(5, _zigzag(SCHEMA)), _double(6, ZERO_S), _whole(7, zero)]
    parts += [_bytes(12, _whole(1, _zigzag(offset)) + _whole(2, length)) for offset, length in _spans(native)]
    before = 0
    for _, count in native:
        parts.append(_whole(13, _zigzag(count - before)))
        before = count
    return b"".join(parts)


def _spans(native: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of neighbours: the distance from the one before (of the first one, its number) and the length."""
    spans: list[tuple[int, int]] = []
    following: int | None = None
    for number, _ in native:
        if number == following:
            offset, length = spans[-1]
            spans[-1] = (offset, length + 1)
        else:
            spans.append((number - (following or 0), 1))
        following = number + 1
    return spans


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
