"""Each shipped load asks for what its study asked: seen in the requests themselves, on a real file.

A phase of 100 requests tells all of them (it keeps the 100 slowest), so sizes, operations and places can be counted.
The seeds are fixed, so the same requests come every time and no chi-squared test fails by chance.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from brickyard import _core, profiles
from brickyard.cli import main
from brickyard.schema import plan_document, plan_text

KIB, MIB = 1 << 10, 1 << 20
DATA_START = MIB
PATIENCE_S = 60
DATA_BYTES = 48 * MIB
CHI_SQUARED = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 9: 27.88, 10: 29.59}
"""What chance exceeds once in a thousand, by degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.4)."""


@dataclass(frozen=True)
class Request:
    stream: int
    operation: str
    offset: int
    size: int
    at_ns: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@pytest.fixture(scope="module")
def brick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loads") / "brick"
    events(path, "dd-write", create_bytes=DATA_BYTES)
    return path


def events(path: Path, name: str, *changes: str, create_bytes: int | None = None) -> list[dict[str, Any]]:
    """All that the core tells of a run that must end well."""
    plan = profiles.validate(profiles.read(name), list(changes))
    run = _core.start(plan_text(plan), [str(path)], json.dumps({"create_bytes": create_bytes, "overwrite": []}))
    told: list[dict[str, Any]] = []
    until = time.monotonic() + PATIENCE_S
    while not run.finished():
        assert time.monotonic() < until, f"{name} does not end: {told[-3:]}"
        told += [json.loads(text) for text in run.events(1000)]
    assert told[-1]["outcome"] == "done", told[-1]
    assert not any(event["event"] == "error" for event in told)
    return told


def requests(path: Path, name: str, *changes: str, seeds: int = 1) -> list[Request]:
    """The requests of runs that were cut down to 100 a phase, in the order of a run's time.

    Flushes that follow writes come on top of a limit of requests.
    """
    found = []
    for seed in range(1, seeds + 1):
        told = events(path, name, "warmup=0s", "requests=100", f"seed={seed}", *changes)
        for end in (event for event in told if event["event"] == "phase_end"):
            found += [
                Request(s["stream"], s["operation"], s["offset_bytes"] - DATA_START, s["request_bytes"], s["at_ns"])
                for s in sorted(end["slowest"], key=lambda s: (s["at_ns"], s["offset_bytes"]))
            ]
    assert len(found) % 100 == 0 or any(r.operation == "flush" for r in found)
    return found


def assert_shares(values: Iterable[object], shares: dict[object, float]) -> None:
    """Chi-squared against shares in per cent; a value that is not among them may not occur."""
    counts = Counter(values)
    assert set(counts) <= set(shares)
    total = sum(counts.values())
    off = sum((counts[v] - total * share / 100) ** 2 / (total * share / 100) for v, share in shares.items())
    assert off < CHI_SQUARED[len(shares) - 1], counts


def assert_uniform(found: Sequence[Request], first: float = 0.0, last: float = 1.0) -> None:
    """The requests begin anywhere between two shares of the data, and in each fifth of it equally often."""
    span = (last - first) * DATA_BYTES
    fifths = [int((r.offset - first * DATA_BYTES) / (span - r.size) * 5 * 0.9999) for r in found]
    assert all(r.offset % min(r.size for r in found) == 0 for r in found)
    assert_shares(fifths, dict.fromkeys(range(5), 20.0))


def assert_sequential(found: Sequence[Request]) -> None:
    """Every request begins where the one before ended."""
    assert all(b.offset == a.end for a, b in pairwise(found))


def by_place(found: Iterable[Request]) -> list[Request]:
    return sorted(found, key=lambda r: r.offset)


EVEN_VIDEO = {256 * KIB: 33.3, 512 * KIB: 33.3, MIB: 33.4}
WEB = {512 << k: 16.8 for k in range(5)} | {32 * KIB << k: 16 / 6 for k in range(6)}
RANDOM_APPLICATIONS = [
    ("overland-file-print", 2, 80, {4 * KIB: 35, 8 * KIB: 10, 16 * KIB: 10, 32 * KIB: 10, 64 * KIB: 35}),
    ("overland-web-server", 4, 95, WEB),
    ("overland-web-server-text", 4, 80, {4 * KIB << k: 20 for k in range(5)}),
]
SEQUENTIAL_APPLICATIONS = [
    ("overland-hd-video", 1, 75, {512 * KIB: 50, MIB: 50}),
    ("overland-sd-video", 1, 75, EVEN_VIDEO),
    ("overland-large-file", 2, 90, {256 * KIB << k: 25 for k in range(4)}),
]


@pytest.mark.parametrize(("name", "workers", "reads", "sizes"), RANDOM_APPLICATIONS)
def test_random_applications(name: str, workers: int, reads: float, sizes: dict[object, float], brick: Path) -> None:
    found = requests(brick, name, seeds=20)
    assert_shares((r.size for r in found), sizes)
    assert_shares((r.operation for r in found), {"read": reads, "write": 100 - reads})
    assert_uniform([r for r in found if r.size <= 64 * KIB])
    assert lanes(name) == (workers, 1)


@pytest.mark.parametrize(("name", "workers", "reads", "sizes"), SEQUENTIAL_APPLICATIONS)
def test_sequential_applications(
    name: str, workers: int, reads: float, sizes: dict[object, float], brick: Path
) -> None:
    assert lanes(name) == (workers, 1)
    # One worker, so that the order of the ends is the order of the requests; the cursor wraps at the end of the data.
    found = requests(brick, name, "workers=1", seeds=5)
    assert_shares((r.size for r in found), sizes)
    assert_shares((r.operation for r in found), {"read": reads, "write": 100 - reads})
    breaks = [(a, b) for a, b in pairwise(found) if b.offset != a.end]
    assert all(b.offset == 0 for a, b in breaks)
    assert len(breaks) < len(found) / 20


def lanes(name: str) -> tuple[int, int]:
    plan = plan_document(profiles.validate(profiles.read(name), []))
    stream = plan["phase"][0]["stream"][0]
    return stream["workers"], stream["depth"]


def test_workstation_is_four_fifths_sequential(brick: Path) -> None:
    found = requests(brick, "overland-workstation", seeds=10)
    assert_shares((r.size for r in found), {2 * KIB << k: 25 for k in range(4)})
    assert_shares((r.operation for r in found), {"read": 80, "write": 20})
    continued = [
        any(b.offset == a.end for a in found[start:index])
        for index, b in enumerate(found)
        if index % 100
        for start in [index - index % 100]
    ]
    # A continued request begins where an earlier one ended, though random ones may lie between.
    assert_shares(continued, {True: 80, False: 20})


def test_exchange_runs_five_streams_at_once(brick: Path) -> None:
    found = requests(brick, "overland-exchange", seeds=10)
    streams = [[r for r in found if r.stream == s] for s in range(5)]
    asked = [("read", 4), ("write", 16), ("write", 8), ("write", 64), ("read", 64)]
    for stream, (operation, kib) in zip(streams, asked, strict=True):
        assert len(stream) == 200
        assert {(r.operation, r.size) for r in stream} == {(operation, kib * KIB)}
    assert_uniform(streams[0], 0, 0.6)
    assert_uniform(streams[1], 0, 0.6)
    for stream in streams[2:]:
        assert_sequential(stream[:20])
    assert all(r.offset >= 0.6 * DATA_BYTES and r.end <= 0.65 * DATA_BYTES for r in streams[2])
    assert all(r.offset >= 0.65 * DATA_BYTES for r in streams[3])
    assert all(r.end <= 0.6 * DATA_BYTES for r in streams[4])
    first = [r.at_ns for r in found if r.at_ns < max(s[0].at_ns for s in streams)]
    assert first, "streams that run at once do not wait for one another"


@pytest.mark.parametrize("operation", ["read", "write"])
def test_controller_comparison(operation: str, brick: Path) -> None:
    found = by_place(requests(brick, f"sqlio-controller-{operation}"))
    assert {(r.operation, r.size) for r in found} == {(operation, 256 * KIB)}
    assert {r.offset for r in found} == {256 * KIB * k for k in range(100)}
    assert lanes(f"sqlio-controller-{operation}") == (1, 4)


@pytest.mark.parametrize("size_kib", [0.5, 4, 1024])
def test_drive_comparison(size_kib: float, brick: Path) -> None:
    size = int(size_kib * KIB)
    found = requests(brick, "overland-drive-random", f"request={size}", seeds=10)
    assert {r.size for r in found} == {size}
    assert_shares((r.operation for r in found), {"read": 67, "write": 33})
    assert_uniform(found)
    assert lanes("overland-drive-random") == (2, 32)


def test_obl_load_falls_into_hot_spots(brick: Path) -> None:
    # Requests are shared out among all requesters, so there must be few for all to be at work.
    found = requests(brick, "obl-load", 'ramp={ knob = "workers", from = 4, to = 4, step = 1, every = "5s" }', seeds=20)
    assert {(r.operation, r.size) for r in found} == {("read", 8 * KIB)}
    part = DATA_BYTES / 10
    hot = [0.45 <= (r.offset % part) / part < 0.55 for r in found]
    # 80 % on purpose, and of the 20 % that fall anywhere a tenth by chance.
    assert_shares(hot, {True: 82, False: 18})
    assert_shares((int(r.offset // part) for r in found), dict.fromkeys(range(10), 10.0))


def test_obl_load_adds_requesters_until_the_limit(brick: Path) -> None:
    ramp = 'ramp={ knob = "workers", from = 1, to = 512, factor = 1.5, every = "40ms" }'
    told = events(brick, "obl-load", "interval=40ms", "duration=600ms", ramp)
    depths = [c["depth_max"] for e in told if e["event"] == "interval" for c in e["cells"]]
    assert depths[0] <= 2
    assert max(depths) > 20
    knobs = [e["knob"]["workers"] for e in told if e["event"] == "interval" and e["knob"]]
    assert knobs == sorted(knobs)
    short = ["interval=20ms", "ramp.every=60ms", "ramp.settle=20ms", "ramp.limit.above=1ns"]
    stopped = events(brick, "obl-load", *short)
    assert next(e for e in stopped if e["event"] == "phase_end")["reason"] == "ramp"
    assert next(e for e in stopped if e["event"] == "ramp_end")["found"] is None


def test_obl_disk_grows_its_requests(brick: Path) -> None:
    found = requests(brick, "obl-disk")
    phases = [found[k : k + 100] for k in range(0, len(found), 100)]
    asked = [(operation, 2 * KIB << k) for operation in ("read", "write") for k in range(7)]
    assert [(p[0].operation, p[0].size) for p in phases] == asked
    for phase in phases:
        assert len({(r.operation, r.size) for r in phase}) == 1
        assert_sequential(phase)
    apart = requests(brick, "obl-disk", "workers=4")[:100]
    assert {r.offset for r in apart} == {lane * DATA_BYTES // 4 + 2 * KIB * k for lane in range(4) for k in range(25)}


@pytest.mark.parametrize("operation", ["read", "write"])
def test_dd_copies_the_whole_target_once(operation: str, brick: Path) -> None:
    told = events(brick, f"dd-{operation}", "request=512KiB")
    (end,) = (event for event in told if event["event"] == "phase_end")
    assert end["reason"] == "passes"
    offsets = [s["offset_bytes"] - DATA_START for s in sorted(end["slowest"], key=lambda s: s["at_ns"])]
    assert offsets == list(range(0, DATA_BYTES, 512 * KIB))
    assert {s["operation"] for s in end["slowest"]} == {operation}


def test_sector_flush_writes_one_sector_and_flushes_each_time(brick: Path) -> None:
    found = requests(brick, "sector-flush", "requests=50")
    assert {(r.offset, r.size) for r in found if r.operation == "write"} == {(0, 512)}
    assert [r.operation for r in found] == ["write", "flush"] * 50


def test_group_commit_shares_a_flush(brick: Path) -> None:
    found = requests(brick, "group-commit", "requests=80")
    flushes = [index for index, r in enumerate(found) if r.operation == "flush"]
    assert flushes == [16, 33, 50, 67, 84]
    assert len(found) == 85
    writes = [r for r in found if r.operation == "write"]
    assert {r.size for r in writes} == {8 * KIB}
    assert_sequential(writes)


def test_burn_in_checks_what_it_reads(brick: Path) -> None:
    found = requests(brick, "burn-in", seeds=10)
    assert {r.size for r in found} == {8 * KIB}
    assert_shares((r.operation for r in found), {"read": 50, "write": 50})
    assert_uniform(found)
    plan = plan_document(profiles.validate(profiles.read("burn-in"), []))
    assert plan["phase"][0]["stream"][0]["verify"] is True


def test_iowork_goes_through_the_file_and_then_through_a_tenth(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "brick"
    for is_new in (True, False):
        size = ("--size", "16MiB") if is_new else ()
        assert main(["run", "iowork", str(path), *size, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [(t["phase"], t["operation"], t["requests"]) for t in document["totals"]] == [
            ("sequential-write", "write", 2048),
            ("sequential-read", "read", 2048),
            ("random-write", "write", 204),
            ("random-read", "read", 204),
        ]
        assert all(t["bytes"] == t["requests"] * 8 * KIB for t in document["totals"])
        assert document["engine"]["io"] == "buffered"
    assert main(["run", "iowork", str(path), "--json", "--set", "random-read.requests=100"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"][3]["requests"] == 100


def test_iowork_asks_for_twice_the_memory(capsys: Any) -> None:
    code = main(["run", "iowork", "--dry-run", "--json"])
    document = json.loads(capsys.readouterr().out)
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    bytes_asked = 2 * int(memory.split()[1]) * KIB
    if code == 2:  # too much for this disk, and a dry run says what the run would
        assert f"{bytes_asked / KIB**3:.1f} GiB do not fit" in document["error"]
        return
    assert code == 0
    assert document["forecast"]["fill_bytes"] == bytes_asked
    assert document["forecast"]["written_bytes"] == pytest.approx(1.1 * bytes_asked)
    assert [phase["passes"] for phase in document["plan"]["phase"]] == [1, 1, 0.1, 0.1]


def test_iowork_places_are_random(brick: Path) -> None:
    found = requests(brick, "iowork", "sequential-write.passes=1", seeds=8)
    random = [r for index, r in enumerate(found) if index // 100 % 4 >= 2]
    assert_uniform(random)
    assert_sequential(found[:100])
