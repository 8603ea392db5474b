"""What the first lines of a run on models say of it: whose rate it is, and how far such models are off."""

from __future__ import annotations

import pytest

from brickyard import profiles
from brickyard.bricks.spread import KINDS, basis_words, kinds_of, spread_of
from brickyard.cli import main

CACHES = "This may be the rate of a cache"
LIMIT = "The storage, not the generator, was the limit"
FACTOR = "lie within a factor of"


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["run", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


def ad_hoc(capsys: pytest.CaptureFixture[str], target: str, rw: str, request: str, depth: int, *more: str) -> str:
    return shown(capsys, "--rw", rw, "--bs", request, "--iodepth", str(depth), *more, target)


@pytest.mark.parametrize(
    ("target", "rw", "request_size", "depth", "runtime"),
    [
        ("sim:zfs-raidz2", "write", "1m", 8, "2s"),
        ("sim:zfs-raidz2", "randwrite", "128k", 64, "1s"),
        ("sim:overland-2007-sata", "randwrite", "8k", 32, "2s"),
        ("sim:overland-2007-sata", "randwrite", "8k", 32, "10s"),
        ("sim:nearline-20tb", "write", "1m", 8, "2s"),
        # All of it in the SLC cache; behind that, a quarter of the rate.
        ("sim:firecuda-530-1000", "write", "128k", 32, "5s"),
    ],
)
def test_a_rate_of_caches_is_no_headline(
    capsys: pytest.CaptureFixture[str], target: str, rw: str, request_size: str, depth: int, runtime: str
) -> None:
    said = ad_hoc(capsys, target, rw, request_size, depth, "--runtime", runtime)
    assert CACHES in said
    assert LIMIT not in said
    assert FACTOR not in said


def test_pages_out_of_memory_are_no_headline(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--runtime", "12s", "--direct", "0", "--set", "region=0..16MiB")
    said = ad_hoc(capsys, "sim:nearline-20tb", "randread", "8k", 1, *more)
    assert CACHES in said
    assert "came from memory" in said
    assert LIMIT not in said


def test_what_a_disk_sustains_is_a_headline(capsys: pytest.CaptureFixture[str]) -> None:
    read = ad_hoc(capsys, "sim:nearline-20tb", "randread", "8k", 4, "--runtime", "5s")
    assert CACHES not in read
    assert LIMIT in read
    assert FACTOR in read
    written = ad_hoc(capsys, "sim:nearline-20tb", "write", "1m", 8, "--runtime", "30s")
    assert CACHES not in written
    assert FACTOR in written


def test_models_above_drives_have_a_basis_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    zfs = ad_hoc(capsys, "sim:zfs-raidz2", "randread", "8k", 4, "--runtime", "5s")
    assert "Nine of ten published figures of ZFS lie within a factor of" in zfs
    buffered = ad_hoc(capsys, "sim:nearline-20tb", "randread", "8k", 4, "--runtime", "5s", "--direct", "0")
    assert "How far models of page caches and file systems are off is not known" in buffered
    assert FACTOR not in buffered


def test_the_basis_of_a_figure_is_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    from brickyard.advise.simulate import Brick

    plans = {
        io: profiles.validate(profiles.read("random-4k-qd32"), [f"io={io}", "verify=false"])
        for io in ("direct", "buffered")
    }

    def kinds(name: str, io: str = "direct") -> list[str]:
        return kinds_of(Brick(name).resolve().brick, plans[io])

    assert kinds("zfs-raidz2") == ["zfs"]
    assert kinds("nearline-20tb") == ["rotating"]
    assert kinds("nearline-20tb", "buffered") == ["buffered"]
    assert kinds("nearline-20tb,members=4,level=raid10,other_drive=nvme-tlc-3840,other_members=2") == [
        "rotating",
        "ssd-reads",
    ]
    assert [kind for kind in KINDS if spread_of(kind) is None] == ["buffered", "trims"]
    assert "not known" in basis_words("buffered")


DURABLE = ("--runtime", "2s", "--direct", "0", "--set", "sync=dsync", "--set", "file_system=xfs")
UNSAFE = "may acknowledge a write before it is safe from a power cut"


def test_the_warning_of_a_power_cut_tells_what_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    plain = ad_hoc(capsys, "sim:nearline-20tb", "randwrite", "4k", 1, "--runtime", "2s")
    assert UNSAFE in plain
    assert 'use `sync = "dsync"`' in plain
    assert UNSAFE not in ad_hoc(capsys, "sim:nearline-20tb", "randwrite", "4k", 1, *DURABLE)
    without = ad_hoc(capsys, "sim:nearline-20tb", "randwrite", "4k", 1, *DURABLE, "--set", "page_cache.barriers=false")
    assert f"{UNSAFE}, even if it is a durable write, since `page_cache.barriers` is off" in without
    assert 'use `sync = "dsync"`' not in without
