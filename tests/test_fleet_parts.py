"""What a run on many hosts is made of, without Ray: shares, clocks, merging, records that hosts kept, censuses."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from brickyard import _core, profiles
from brickyard.analysis.census import Peer, census
from brickyard.errors import BadInputError
from brickyard.fleet.clocks import offset_of, start_bound
from brickyard.fleet.hosts import read_hosts
from brickyard.fleet.merging import Merger
from brickyard.fleet.shares import Division, divide
from brickyard.schema.plan import Plan
from brickyard.store import Json
from support import MS, SECOND, US, cell, histogram, interval

HOSTS = ["a", "b", "c"]


def load(*changes: str, pace: str = "") -> Plan:
    text = f"""
title = "fleet"
[[phase]]
duration = "1s"
[[phase.stream]]
request = "4KiB"
address = "random"
{pace}
"""
    return profiles.validate(profiles.ProfileText("fleet", text, "fleet"), list(changes))


def phases_of(division: Division, host: str) -> list[Json]:
    (part,) = [part for part in division.parts if part.host == host]
    found: list[Json] = part.plan["phase"]
    return found


def test_copies_split_and_partition_are_arithmetic() -> None:
    asked = load("workers=7", pace='pace = { loop = "open", rate = 1000 }')
    copies = divide("x", asked, HOSTS, ["/data/f"], "copies")
    split = divide("x", asked, HOSTS, ["/data/f"], "split")
    partition = divide("x", asked, HOSTS, ["/data/f"], "partition")
    rates = [phases_of(split, host)[0]["stream"][0]["pace"]["rate"] for host in HOSTS]
    assert sum(rates) == pytest.approx(1000, rel=1e-9)
    assert [phases_of(copies, host)[0]["stream"][0]["pace"]["rate"] for host in HOSTS] == [1000.0] * 3
    regions = [phases_of(partition, host)[0]["stream"][0]["region"] for host in HOSTS]
    assert regions == ["0%..33.3333333%", "33.3333333%..66.6666667%", "66.6666667%..100%"]
    assert len({part.plan["seed"] for part in copies.parts}) == 3, "hosts ask for different addresses"


def test_a_closed_loop_is_split_by_its_workers() -> None:
    split = divide("x", load("workers=7"), HOSTS, ["/data/f"], "split")
    assert [phases_of(split, host)[0]["stream"][0]["workers"] for host in HOSTS] == [3, 2, 2]
    with pytest.raises(BadInputError, match="cannot be divided over 3 hosts; raise workers or depth"):
        divide("x", load("workers=1", "depth=2"), HOSTS, ["/data/f"], "split")


def test_streams_for_named_hosts_and_targets_of_their_own() -> None:
    two = profiles.validate(profiles.read("overland-oltp-two-hosts"), ["workers=8"])
    found = divide("oltp", two, ["a", "b"], ["a:/dev/sdb", "b:/dev/sdc"], "copies", ["a:/dev/sdb", "b:/dev/sdc"])
    assert found.targets == ["a:/dev/sdb", "b:/dev/sdc"]
    assert [part.targets for part in found.parts] == [["/dev/sdb"], ["/dev/sdc"]]
    assert [part.overwrite for part in found.parts] == [["/dev/sdb"], ["/dev/sdc"]]
    (first,), (second,) = (phases_of(found, host)[0]["stream"] for host in ("a", "b"))
    assert (first["workers"], second["workers"]) == (8, 8)
    assert (first["region"], second["region"]) == ("0B..50%", "50%..100%"), "neither overwrites what the other verifies"


@pytest.mark.parametrize(
    ("changes", "targets", "overwrite", "words"),
    [
        ([], ["/f", "/g"], [], "the workload has 1 targets on each host"),
        (["requests=5"], ["/f"], [], "requests would end or pace each host apart"),
        ([], ["/dev/sdb"], ["/dev/sdb"], "with --hosts name host and device"),
        ([], ["/dev/sdb"], ["d:/dev/sdb"], "with --hosts name host and device"),
    ],
)
def test_what_has_no_answer_is_refused(
    changes: list[str], targets: list[str], overwrite: list[str], words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        divide("x", load(*changes), HOSTS, targets, "copies", overwrite)


def test_the_bound_of_a_clock_holds_whatever_the_way_back_takes() -> None:
    """A clock that is 5 ms ahead, over ways of random and unequal length."""
    draw = random.Random(3)
    for _ in range(200):
        trips = []
        for number in range(30):
            sent = number * MS
            reading = sent + draw.randrange(50 * US, 900 * US)
            trips.append((sent, reading + 5 * MS, reading + draw.randrange(20 * US, 900 * US)))
        found = offset_of(trips)
        assert abs(found.offset_ns - 5 * MS) <= found.bound_ns
        assert found.bound_ns < MS


def test_a_clock_that_is_set_meanwhile_is_known_to_nobody() -> None:
    trips = [(0, 50 * US, 100 * US), (MS, 9 * MS, MS + 100 * US)]
    assert offset_of(trips).bound_ns > SECOND
    assert start_bound([offset_of(trips[:1])] * 3) == 2 * offset_of(trips[:1]).bound_ns
    assert start_bound([offset_of(trips[:1])]) == 0, "one host begins with itself"


def of_host(values: list[int], index: int) -> Json:
    start = index * SECOND
    return interval(start, start + SECOND, cell(values), index=index)


def test_histograms_of_hosts_are_merged_and_a_late_host_is_waited_for() -> None:
    division = divide("x", load(), HOSTS, ["/f"], "copies")
    merger = Merger(division.parts)
    for host in HOSTS:
        merger.hear(host, {"event": "phase", "phase": 0, "name": "m", "start_ns": 0}, 0.0)
    merger.hear("a", of_host([10 * US] * 99, 0), 1.0)
    merger.hear("b", of_host([20 * US] * 99, 0), 1.0)
    assert merger.whole(1.1) == [], "c is still to tell its interval"
    merger.hear("c", of_host([9 * MS] * 2, 0), 1.2)
    (told,) = merger.whole(1.2)
    assert [item["stream"] for item in told["cells"]] == [0, 1, 2]
    merged = _core.histogram_merge([item["measures"]["response"]["histogram"] for item in told["cells"]])
    everything = _core.histogram_merge([histogram([10 * US] * 99 + [20 * US] * 99 + [9 * MS] * 2)])
    assert _core.histogram_percentiles(merged, [50, 99, 99.9]) == _core.histogram_percentiles(
        everything, [50, 99, 99.9]
    )


def test_a_host_that_is_gone_holds_nobody_up() -> None:
    merger = Merger(divide("x", load(), HOSTS, ["/f"], "copies").parts)
    for host in HOSTS:
        merger.hear(host, {"event": "phase", "phase": 0, "name": "m", "start_ns": 0}, 0.0)
    merger.gone("c")
    merger.hear("a", of_host([MS], 0), 1.0)
    merger.hear("b", of_host([MS], 0), 1.0)
    assert len(merger.whole(1.0)) == 1
    merger.back("c")
    merger.hear("c", of_host([MS], 0), 9.0)
    (late,) = merger.whole(9.0)
    assert [item["stream"] for item in late["cells"]] == [2], "what it did meanwhile is an event of its own"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing required field `head`"),
        ('[head]\naddress="h"\n', "missing required field `host`"),
        ('[head]\naddress="h"\n[[host]]\nname="all"\naddress="x"\n', "'all' is no name for a host"),
        ('[head]\naddress="h"\n[[host]]\nname="a;b"\naddress="x"\n', "'a;b' is no name for a host"),
        ('[head]\naddress="h"\n[[host]]\nname="a"\naddress="x"\n' * 1 + '[[host]]\nname="a"\naddress="y"\n', "once"),
    ],
)
def test_a_file_of_hosts_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    place = tmp_path / "hosts.toml"
    place.write_text(text)
    with pytest.raises(BadInputError, match=words):
        read_hosts(place)


def test_without_ray_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('none')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from brickyard.fleet import needs_ray; needs_ray()"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "many hosts need Ray, which is not installed: pip install 'brickyard[fleet]'" in done.stderr.splitlines()[-1]


def healthy(count: int, seed: int, spread: float = 0.03) -> list[Peer]:
    draw = random.Random(seed)
    made = []
    for number in range(count):
        own = draw.gauss(1, spread)
        series = [(depth, 8 * MS * depth / own * draw.gauss(1, 0.05)) for depth in (1.0, 4.0, 16.0) for _ in range(8)]
        traits = {"model": "m", "firmware": draw.choice(["1.0", "1.1", "2.0"]), "kernel": "6.1"}
        made.append(Peer(f"u{number}", {"iops": 100 * own}, {"p99": 30 * MS / own}, traits, {"read": series}))
    return made


def test_a_census_names_the_slow_ones_and_what_they_have_in_common() -> None:
    units = healthy(200, 1)
    for number in (7, 90, 150):
        old = units[number]
        traits = {**old.traits, "firmware": "9.9"}
        units[number] = Peer(old.name, {"iops": old.figures["iops"] / 2}, old.times, traits, old.series)
    found = census(units)
    assert found.slow[:3] == sorted(
        found.slow[:3], key=lambda name: -max(f.factor for f in found.findings if f.unit == name)
    )
    assert set(found.slow) == {"u7", "u90", "u150"}
    (common,) = found.common
    assert (common.trait, common.value, common.slow_with, common.others_with) == ("firmware", "9.9", 3, 0)


def test_a_unit_that_is_slow_for_a_while_is_found_by_its_peers() -> None:
    units = healthy(60, 2)
    old = units[33]
    series = list(old.series["read"])
    series[9:13] = [(load, time * 4) for load, time in series[9:13]]
    units[33] = Peer(old.name, old.figures, old.times, old.traits, {"read": series})
    found = census(units)
    assert [(f.unit, f.how) for f in found.findings] == [("u33", "intervals")]


def test_healthy_units_are_left_alone_and_few_are_not_judged() -> None:
    named = sum(bool(census(healthy(100, seed)).slow) for seed in range(40))
    assert named <= 4, f"{named} of 40 healthy censuses name somebody"
    assert census(healthy(4, 1)).too_few
    assert not census(healthy(4, 1)).slow


def test_units_are_compared_with_their_own_kind() -> None:
    units = healthy(40, 5)
    slower = [
        Peer(f"old{n}", {"iops": u.figures["iops"] / 3}, u.times, {**u.traits, "model": "old"}, {})
        for n, u in enumerate(healthy(10, 6))
    ]
    assert census([*units, *slower]).slow == []
