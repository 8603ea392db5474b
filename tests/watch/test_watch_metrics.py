"""Metrics of a watch, as Prometheus reads them."""

from __future__ import annotations

import itertools
import re
import signal
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brickyard.watch import metrics
from brickyard.watch.seen import SeenCell, SeenDevice, WatchInterval
from brickyard.watch.totals import WatchTotals
from support import SECOND
from watch_support import BRICKYARD, WAIT_S, fio, loop, seen_by_kernel, time_bucket

__all__ = ["loop"]


@seen_by_kernel
def test_metrics_are_prometheus_text(loop: str) -> None:
    command = [*BRICKYARD, "watch", loop, "--for", "20s", "--every", "200ms", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next(found[1] for line in process.stderr if (found := re.search(r"(http://\S+)", line)))
            next(line for line in process.stderr if line.startswith("watching"))
            fio(loop, "--rw=randread", "--bs=4k", "--io_size=2m", "--ioengine=psync")
            time.sleep(0.6)
            text = urllib.request.urlopen(address, timeout=5).read().decode()
            asks = urllib.request.Request(address, headers={"Accept": SERVER_ACCEPTS})
            with urllib.request.urlopen(asks, timeout=5) as answer:
                kind, native = answer.headers["Content-Type"], answer.read()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=WAIT_S)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    reads = [s for s in families["brickyard_watch_requests"].samples if s.labels["operation"] == "read"]
    assert reads[0].value == 512
    buckets = [s for s in families["brickyard_watch_seconds"].samples if s.name.endswith("_bucket")]
    assert buckets[-1].labels["le"] == "+Inf"
    assert [s.value for s in buckets] == sorted(s.value for s in buckets)
    assert kind == metrics.PROTOBUF_TYPE
    assert sum(native_buckets(native, "read").values()) == 512


SERVER_ACCEPTS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""Of a Prometheus server that keeps native histograms."""


VARINT, EIGHT_BYTES, LENGTH = 0, 1, 2


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Of a protobuf message: numbers, and values by their wire type."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 0x80:
                return value

    while at < len(message):
        key = varint()
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            yield number, varint()
        elif wire == EIGHT_BYTES:
            yield number, struct.unpack_from("<d", message, at)[0]
            at += 8
        else:
            assert wire == LENGTH
            length = varint()
            yield number, message[at : at + length]
            at += length
    assert at == len(message)


def of(message: bytes, number: int) -> list[Any]:
    return [value for one, value in fields(message) if one == number]


def signed(value: int) -> int:
    return value >> 1 if value % 2 == 0 else -(value + 1 >> 1)


def native_buckets(body: bytes, operation: str) -> dict[int, int]:
    """Native buckets of an operation's times as a server reads them, by the numbers of `metrics.proto`."""
    families = {of(family, 1)[0]: family for _, family in delimited(body)}
    (histogram,) = (
        of(metric, 7)[0]
        for metric in of(families[b"brickyard_watch_seconds"], 4)
        if [b"operation", operation.encode()] in [[of(pair, 1)[0], of(pair, 2)[0]] for pair in of(metric, 1)]
    )
    assert of(families[b"brickyard_watch_seconds"], 3) == [4], "a histogram"
    assert signed(of(histogram, 5)[0]) == 2
    assert of(histogram, 6)[0] > 0, "without a zero bucket it would be a classic one"
    numbers: list[int] = []
    begin = 0
    for span in of(histogram, 12):
        begin += signed(of(span, 1)[0])
        numbers += range(begin, begin + of(span, 2)[0])
        begin = numbers[-1] + 1
    counts = list(itertools.accumulate(signed(delta) for delta in of(histogram, 13)))
    assert sum(counts) + of(histogram, 7)[0] == of(histogram, 1)[0]
    classic = [(of(bucket, 2)[0], of(bucket, 1)[0]) for bucket in of(histogram, 3)]
    assert classic == sorted(classic)
    assert classic[-1] == (float("inf"), of(histogram, 1)[0])
    return dict(zip(numbers, counts, strict=True))


def delimited(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Each message behind its length: as if it were a field of that length."""
    at = 0
    while at < len(body):
        end, shift, length = at, 0, 0
        while True:
            length |= (body[end] & 0x7F) << shift
            end, shift = end + 1, shift + 7
            if body[end - 1] < 0x80:
                break
        yield at, body[end : end + length]
        at = end + length


def test_native_histograms_hold_what_was_seen() -> None:
    """A server finds each time in the bucket where it belongs, and negative numbers of buckets, gaps and falls too."""
    times_ns = {0: 3, 900: 5, 80_000: 400, 1_000_000: 1, 1_250_000: 70, 2_500_000_000: 2}
    pairs = [(time_bucket(ns), count) for ns, count in times_ns.items()]
    cell = SeenCell("read", sum(times_ns.values()), total=pairs, total_ns=sum(n * c for n, c in times_ns.items()))
    totals = WatchTotals()
    totals.add(WatchInterval(0, SECOND, [SeenDevice("sda", [cell, SeenCell("write")])]))
    body = metrics.protobuf_exposition(totals, "bpf")
    found = native_buckets(body, "read")
    assert sum(found.values()) == sum(times_ns.values()) - times_ns[0]
    for ns, count in times_ns.items():
        if ns:
            # Between the bounds that a server knows; the bucket of the watch may reach beyond by half its width.
            inside = [c for n, c in found.items() if 2 ** ((n - 1) / 4) * 0.93 <= ns / 1e9 <= 2 ** (n / 4) * 1.07]
            assert count in inside, (ns, found)
    assert native_buckets(body, "write") == {}


@pytest.mark.parametrize(
    ("accept", "native"),
    [
        (SERVER_ACCEPTS, True),
        ("text/plain;version=0.0.4;q=0.6," + SERVER_ACCEPTS, True),
        (SERVER_ACCEPTS.replace("q=0.6", "q=0.1"), False),
        (SERVER_ACCEPTS.replace("q=0.6", "q=nothing"), False),
        ("application/vnd.google.protobuf;proto=another.Message;encoding=delimited", False),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_native_histograms_go_to_whoever_asks_for_them(accept: str, native: bool) -> None:
    assert metrics.wants_protobuf(accept) == native
