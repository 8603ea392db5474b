"""Censuses: who is slow beside its peers, and who is left alone."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from scipy import stats

from brickyard.analysis.studies.census import Peer, census, least_score
from brickyard.analysis.studies.census_answer import words
from brickyard.report.study_tables import census_tables
from support import MS


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


def test_the_spread_of_units_is_named_as_what_it_is() -> None:
    """The MAD of 90, 100 and 130 is 10."""
    units = [Peer(f"u{value}", {"iops": value}, {}, {}, {}) for value in (90.0, 100.0, 130.0)]
    (table,) = census_tables(census(units), [])
    (row,) = table.rows
    assert row[list(table.columns).index("spread (1.4826 × MAD)")] == "14.8%"


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


def alike(count: int, sigma: float, draw: random.Random) -> list[Peer]:
    """Healthy units with five figures and intervals of a steady load, log-normal about one middle."""
    made = []
    for number in range(count):
        figures = {f"f{figure}": math.exp(draw.gauss(0, sigma)) for figure in range(3)}
        times = {f"t{figure}": math.exp(draw.gauss(0, sigma)) for figure in range(2)}
        own = draw.gauss(0, sigma)
        series = [(4.0, MS * math.exp(own + draw.gauss(0, 0.05))) for _ in range(12)]
        made.append(Peer(f"u{number}", figures, times, {"model": "m"}, {"read": series}))
    return made


@pytest.mark.parametrize(("count", "sigma"), [(5, 0.1), (20, 0.1), (50, 0.05), (250, 0.05)])
def test_a_healthy_census_names_somebody_in_five_of_a_hundred(count: int, sigma: float) -> None:
    draw, tried = random.Random(count), 60 if count > 100 else 200
    named = sum(bool(census(alike(count, sigma, draw)).slow) for _ in range(tried))
    assert stats.binomtest(named, tried, 0.05, alternative="greater").pvalue > 0.001, f"{named} of {tried}"


def test_the_farthest_of_alike_units_is_as_far_by_draws_as_by_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = least_score(200, 0.01)
    monkeypatch.setattr("brickyard.analysis.studies.census.MOST_DRAWN", 100)
    assert least_score.__wrapped__(200, 0.01) == pytest.approx(drawn, rel=0.05)


def test_a_unit_with_errors_is_named_and_is_nobodys_peer() -> None:
    units = healthy(12, 3)
    units[4] = replace(units[4], errors=54_000, figures={"iops": 1e6})
    found = census(units)
    assert found.errors == {"u4": 54_000}
    assert (found.judged, found.slow) == (11, [])
    said = words(found, [])
    assert said[0].startswith("Requests failed on u4 (54,000).")
    assert "None of 11 units" in said[1]
    assert max(spread.high for spread in found.spreads if spread.name == "iops") < 1e6


def test_kinds_of_few_units_are_not_judged_nor_mixed() -> None:
    disks = [replace(unit, name=f"hdd{n}", traits={"model": "hdd"}) for n, unit in enumerate(healthy(2, 1))]
    disks = [replace(unit, figures={"iops": 1.0}) for unit in disks]
    flash = [replace(unit, traits={"model": "ssd"}) for unit in healthy(4, 2)]
    found = census([*disks, *flash])
    assert (found.too_few, found.slow) == (True, [])
    assert words(found, []) == [
        "Not judged, since at least 5 units of a kind are needed: hdd (2), ssd (4).",
        "No unit was judged.",
    ]
    found = census([*disks, *(replace(unit, traits={"model": "A"}) for unit in healthy(10, 4))])
    assert "hdd (2)" in words(found, [])[0]
    assert "None of 10 units" in words(found, [])[1]


def test_units_are_compared_with_their_own_kind() -> None:
    units = healthy(40, 5)
    slower = [
        Peer(f"old{n}", {"iops": u.figures["iops"] / 3}, u.times, {**u.traits, "model": "old"}, {})
        for n, u in enumerate(healthy(10, 6))
    ]
    assert census([*units, *slower]).slow == []
