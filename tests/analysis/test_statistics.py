"""The statistics are held against their claims: by simulation where the truth is known, by scipy, and by real runs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aa
from brickyard.analysis.figures.batches import batch_means
from brickyard.analysis.figures.difference_words import difference_text
from brickyard.analysis.figures.named import FIGURES
from brickyard.analysis.figures.pivot import Observation, pivot
from brickyard.analysis.figures.samples import (
    Difference,
    Sample,
    adjusted_p,
    difference,
    in_family,
    repetitions_for,
    sample,
    welch,
)
from brickyard.analysis.figures.search import enough
from brickyard.analysis.judging.comparison import Change, Comparison, compare
from brickyard.analysis.judging.gate import Finding, Gate, Judged, gate
from brickyard.analysis.studies.answer import change_words, study_answer
from brickyard.cli import main
from brickyard.cli.results.compare import parse_share
from brickyard.errors import BadInputError
from brickyard.report.comparison_words import ONE_SIDED, gate_lines, verdict_lines
from brickyard.store import Record, Store
from brickyard.study.designs.design import read_design
from brickyard.study.designs.texts import read as study_text
from support import MS, SECOND, add_run, cell, interval, phase_end

RATES = st.floats(1, 1e6)
EQUAL, UNEQUAL = aa.NOISES[:2]


def made(*values: float) -> Sample:
    found = sample(values)
    assert found is not None
    return found


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("noise", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_intervals_of_a_ratio_cover_what_they_say(noise: aa.Noise, n: int) -> None:
    assert 0.93 <= aa.coverage(noise, n, n) <= 0.97


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_intervals_of_one_figure_cover_what_they_say(n: int) -> None:
    assert 0.93 <= aa.single_coverage(n, aa.normal) <= 0.97


def test_few_and_uneven_repetitions_and_heavy_tails_do_not_say_too_much() -> None:
    assert aa.coverage(EQUAL, 2, 2) >= 0.95
    assert aa.coverage(UNEQUAL, 2, 2) >= 0.95
    assert aa.coverage(EQUAL, 3, 10) >= 0.925
    assert 0.93 <= aa.coverage(EQUAL, 5, 1) <= 0.97
    for noise in aa.NOISES[2:]:
        assert aa.coverage(noise, 3, 3) >= 0.95


@pytest.mark.parametrize("noise", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_a_gate_over_90_equal_figures_fails_in_fewer_than_one_of_twenty_cases(noise: aa.Noise) -> None:
    for n in (5, 3):
        found = aa.gates(noise, n)
        assert found.failed <= 0.05
        assert found.seen <= 0.05
    assert aa.gates(noise, 3, tolerance=0.0).failed <= 0.05  # of the same comparisons as the last ones


def test_a_gate_finds_what_it_says_it_finds() -> None:
    assert aa.gates(EQUAL, 10, 0.30, 1).failed >= 0.95
    assert aa.gates(EQUAL, 5, 0.30).found >= 0.95


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_change_that_repetitions_are_said_to_see_is_seen_in_four_of_five_cases(n: int) -> None:
    said, seen = aa.power(n)
    assert 0.05 < said < 0.30
    assert 0.75 <= seen <= 0.85


@pytest.mark.parametrize("draw", [aa.normal, aa.heavy], ids=["normal", "heavy"])
def test_a_history_of_equal_runs_has_few_changes_and_a_lasting_fall_is_found(draw: aa.Draw) -> None:
    assert aa.false_changes(20, draw) <= 0.05
    assert aa.found_changes(5.0, 5) >= 0.9


def test_noise_within_a_run_minds_that_neighbours_are_alike() -> None:
    for correlation, covered in ((0.0, 0.93), (0.5, 0.92), (0.8, 0.92)):
        told, held = aa.within(300, correlation)
        assert told > 0.9
        assert held >= covered
    # As if intervals were independent: the interval is far too narrow, which is what the batches mend.
    dice = np.random.default_rng(3)
    values = dice.standard_normal(400)
    for at in range(1, len(values)):
        values[at] += 0.8 * values[at - 1]
    rates = [float(value) for value in 1000 + 50 * values]

    def means(count: int) -> list[float]:
        edges = [number * len(rates) // count for number in range(count + 1)]
        return [sum(rates[a:b]) / (b - a) for a, b in pairwise(edges)]

    found = batch_means(len(rates), means, 0.95)
    assert found is not None
    assert found.share > 2 * 1.96 * float(np.std(rates)) / math.sqrt(len(rates)) / 1000
    assert batch_means(29, means, 0.95) is None, "too few intervals to see correlation"


@pytest.mark.parametrize(("spread", "step"), [(0.3, 1), (0.6, 1), (1.5, 1), (1.8, 300 / 128)])
@pytest.mark.parametrize("n", [2, 3])
def test_figures_of_few_values_are_not_called_different_more_often(n: int, spread: float, step: float) -> None:
    """Counts of some 300 requests, and readings of buckets: equal ones look as if they had no noise."""
    dice = np.random.default_rng([n, int(10 * spread)])
    families, seen = 400, 0
    for _ in range(families):
        read = np.round((300 + spread * dice.standard_normal((10, 2, n))) / step) * step
        found = [difference(made(*one), made(*other), resolution=step / 300) for one, other in read.tolist()]
        seen += any(item is not None and item.seen for item in in_family(found))
    assert seen / families < 0.05


def test_welch_and_the_family_are_those_of_scipy() -> None:
    dice = random.Random(2)
    for n, m in ((3, 3), (4, 9), (10, 5)):
        one = [dice.lognormvariate(7, 0.1) for _ in range(n)]
        other = [dice.lognormvariate(7, 0.3) for _ in range(m)]
        test = welch(one, other)
        assert test is not None
        theirs = stats.ttest_ind(np.log(one), np.log(other), equal_var=False)
        assert test.p == pytest.approx(theirs.pvalue)
        ends = theirs.confidence_interval(0.95)
        assert test.interval(0.95) == pytest.approx((math.expm1(ends.low), math.expm1(ends.high)))
    for size in (1, 2, 90):
        values = [dice.random() ** 3 for _ in range(size)]
        assert adjusted_p(values) == pytest.approx(list(stats.false_discovery_control(values)))
    ends = stats.t.interval(0.95, 2, np.mean(np.log([90, 100, 120])), stats.sem(np.log([90, 100, 120])))
    found = made(90, 100, 120)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(ends)))
    assert found.centre == pytest.approx(float(stats.gmean([90, 100, 120])))


@given(st.lists(RATES, min_size=2, max_size=8), st.sampled_from(["mean", "median"]))
def test_an_interval_holds_its_figure(values: list[float], how: str) -> None:
    found = sample(values, how)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    slack = 1e-9 * max(values)
    assert found.low <= found.centre + slack
    assert found.centre <= found.high + slack
    assert found == sample(values, how), "the same values give the same interval"


@given(st.lists(st.floats(1, 100), min_size=2, max_size=6), st.floats(0.01, 100))
def test_a_difference_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    plain = difference(made(*values), made(50, 51, 52))
    other = difference(made(*(v * factor for v in values)), made(*(v * factor for v in (50, 51, 52))))
    assert plain is not None
    assert other is not None
    assert plain.test is not None
    assert other.test is not None
    assert other.share == pytest.approx(plain.share, abs=1e-9)
    assert other.test.p == pytest.approx(plain.test.p, abs=1e-6)


def test_what_is_equal_is_never_called_equal() -> None:
    near, apart = difference(made(100, 104, 98), made(101, 97, 103)), difference(made(150, 149, 152), made(99, 104, 98))
    assert near is not None
    assert near.seen is False
    assert near.sees is not None
    assert 0.05 < near.sees < 0.2
    assert difference_text(near).endswith(") ~"), "the interval is shown where nothing was seen"
    told = difference_text(replace(near, low=-0.0001, high=0.5))
    assert "(-0.0 to +50.0) ~" in told, "an interval with zero in it does not seem to begin there"
    assert apart is not None
    assert apart.seen is True
    assert apart.low is not None
    assert 0.3 < apart.low < apart.share
    wild = difference(made(10, 10, 10_000), made(10, 11, 9))
    assert wild is not None
    assert wild.seen is False
    assert difference_text(wild).startswith("+9"), "a tenfold rise within noise is still shown as one"
    assert wild.sees is not None
    assert wild.sees > 9
    once = difference(made(120), made(100))
    assert once is not None
    assert (once.seen, once.low, once.sees) == (None, None, None)
    same = difference(made(100, 100, 100), made(100, 100, 100))
    assert same is not None
    assert same.seen is False
    step = difference(made(101, 101, 101), made(100, 100, 100))
    assert step is not None
    assert step.seen is True
    blurred = difference(made(100.7, 100.7, 100.7), made(100, 100, 100), resolution=1 / 128)
    assert blurred is not None
    assert blurred.seen is False, "one bucket of a histogram apart"


def test_zeros_are_compared_as_they_are() -> None:
    found = difference(made(0, 50, 100, 90), made(10, 11, 12, 9))
    assert found is not None
    assert found.share == pytest.approx(60 / 10.5 - 1)
    assert found.test is not None
    assert not found.test.is_log
    assert difference(made(1, 2), made(0, 0)) is None


def test_a_lone_comparison_and_a_family_are_told_apart() -> None:
    alone = difference(made(108, 110, 109), made(100, 101, 103))
    assert alone is not None
    assert alone.seen
    assert in_family([alone]) == [alone]
    noise = [difference(made(100 + k, 104, 98), made(101, 97, 103)) for k in range(60)]
    together = in_family([alone, *noise])[0]
    assert together is not None
    assert not together.seen
    assert together.sees is not None
    assert alone.sees is not None
    assert together.sees > alone.sees
    assert alone.low is not None
    assert alone.low > 0
    assert (together.low, together.high) == (0.0, alone.high), "the range of what is not seen holds zero"


def test_advised_repetitions_decide() -> None:
    wanted = repetitions_for(0.06, 0.05, 0.10)
    assert wanted is not None
    assert 10 < wanted < 40
    assert repetitions_for(5.0, 0.01, 0.05) is None


def change(before: tuple[float, ...], after: tuple[float, ...], name: str = "iops") -> Change:
    apart = difference(made(*after), made(*before))
    assert apart is not None
    return Change(("load",), FIGURES[name], made(*before), made(*after), apart)


# Difference and noise as shares, of IOPS; the bound is a loss of 5 %.
@pytest.mark.parametrize(
    ("loss", "noise"),
    [(0.0, 0.03), (0.02, (0.01, 0.05)), (-0.03, 0.10), (0.035, 0.02), (0.08, 0.03), (0.2, (0.1, 0.2))],
)
def test_the_repetitions_that_are_advised_decide_in_four_of_five_cases(
    loss: float, noise: float | tuple[float, float]
) -> None:
    noises = noise if isinstance(noise, tuple) else (noise, noise)

    def judged(before: Sequence[float], after: Sequence[float]) -> list[Judged]:
        """Beside a figure that held, as a family."""
        calm = change((100.0, 101.0, 99.0), (100.0, 101.0, 99.0))
        of_both = [calm, change(tuple(before), tuple(after))]
        found = in_family([item.difference for item in of_both])
        return gate(
            [replace(item, difference=one) for item, one in zip(of_both, found, strict=True) if one is not None], 0.05
        ).judged

    def sides(n: int, scaled: Callable[[int], Any]) -> list[list[float]]:
        means = (math.log(100), math.log(100 * (1 - loss)))
        return [list(np.exp(mean + sd * scaled(n))) for mean, sd in zip(means, noises, strict=True)]

    # Three values of exactly this mean and this noise.
    needed = judged(*sides(3, lambda _: np.array([-1.0, 0.0, 1.0])))[1].repetitions
    assert needed is not None
    draw = np.random.default_rng(20)

    def decided(n: int) -> float:
        findings = [judged(*sides(n, draw.standard_normal))[1].finding for _ in range(400)]
        assert Finding.WORSE not in findings or loss > 0.05 or findings.count(Finding.WORSE) < 0.05 * 400
        return 1 - findings.count(Finding.INCONCLUSIVE) / 400

    assert decided(needed) > 0.76  # 0.8, less two standard errors of 400 cases
    assert decided(max(2, needed * 3 // 5)) < 0.76


def test_a_difference_at_the_limit_is_decided_by_no_number_of_repetitions() -> None:
    (judged,) = gate([change((100, 103, 97), (95.1, 98.1, 92.1))], 0.05).judged
    assert (judged.finding, judged.repetitions) == (Finding.INCONCLUSIVE, None)


def test_a_gate_tells_worse_held_and_inconclusive_apart() -> None:
    worse, held = ((100, 101, 99, 100), (80, 81, 79, 80)), ((100, 101, 99, 100), (100, 99.5, 100, 101))
    unclear = (100, 130, 80, 90), (85, 120, 70, 95)
    judged = gate([change(*worse), change(*held), change(*unclear), change((100,), (50,))], 0.05)
    found = [item.finding for item in judged.judged]
    assert found == [Finding.WORSE, Finding.HELD, Finding.INCONCLUSIVE, Finding.ONCE]
    assert judged.repetitions == [item.repetitions for item in judged.judged if item.finding is Finding.INCONCLUSIVE]
    assert judged.repetitions[0] > 20
    (line,) = [line for line in gate_lines(judged, 0.05) if line.startswith("inconclusive")]
    assert line.endswith("; that it is worse by more than 5 % is not certain")
    # Alone it fails, beside nine that held it may be chance.
    slower = change((100, 100, 100), (92, 90, 91))
    assert gate([slower], 0.05).judged[0].finding is Finding.WORSE
    beside = gate([slower, *[change((100, 101, 99), (100, 101, 99))] * 9], 0.05)
    (line,) = [line for line in gate_lines(beside, 0.05) if line.startswith("inconclusive")]
    assert line.endswith("; all of its interval is above 5 %, but of 10 figures some intervals are so by chance")
    # Of times more is worse, and what got better is not worse.
    assert gate([change(*worse, name="response_mean")], 0.05).judged[0].finding is Finding.HELD
    times = change((100, 101, 99, 100), (120, 121, 119, 120), "response_mean")
    assert gate([times], 0.05).judged[0].finding is Finding.WORSE
    assert gate([times], 0.30).judged[0].finding is Finding.HELD


@given(
    st.lists(st.floats(50, 200), min_size=2, max_size=6), st.floats(0, 0.5), st.sampled_from(["iops", "response_p99"])
)
def test_what_held_is_within_the_tolerance_over_all_of_the_interval_that_is_shown(
    after: list[float], tolerance: float, name: str
) -> None:
    one = change((99.0, 100.0, 101.0), tuple(after), name)
    (judged,) = gate([one], tolerance).judged
    assert one.difference.low is not None
    assert one.difference.high is not None
    most = -one.difference.low if name == "iops" else one.difference.high
    assert (judged.finding is Finding.HELD) == (most <= tolerance and judged.finding is not Finding.WORSE)


def test_a_fall_that_only_the_test_of_one_side_finds_is_not_said_to_be_noise() -> None:
    """Against a tolerance, one end of an interval decides; against no difference, both do."""
    noisy = change((12_100, 12_700, 13_300), (7_500, 5_000, 3_300))
    judged = gate([noisy], 0.05)
    assert noisy.difference.seen is False
    assert judged.judged[0].finding is Finding.WORSE
    (line,) = verdict_lines(Comparison([noisy], [], [], [], [], [], [], ([], [])), judged, 0.05)
    assert "~" not in line
    assert line.endswith("); " + ONE_SIDED)


NOISES = {"iops": 0.01, "response_mean": 0.03, "response_p99": 0.08}


@pytest.mark.parametrize("tolerance", [0.05, 0.2])
def test_the_power_of_a_gate_is_what_it_says(tolerance: float) -> None:
    """Of figures with unlike noise: the noisiest that alone is worse, and all at once, are found in four of five cases.
    The test of a family is wary, so that it may be more."""
    draw = np.random.default_rng(3)

    def judged(worse: float, which: Collection[str]) -> Gate:
        changes = []
        for name, noise in NOISES.items():
            share = 0.0 if name not in which else -worse if FIGURES[name].more_is_better else worse
            before, after = (100 * by * np.exp(noise * draw.standard_normal(5)) for by in (1.0, 1 + share))
            changes.append(change(tuple(before), tuple(after), name))
        return gate(changes, tolerance)

    told = [judged(0.0, ()) for _ in range(30)]
    every, noisiest = median(one.all_share or 0 for one in told), median(one.lone_shares[-1] for one in told)
    all_found = [len(judged(every, NOISES).of(Finding.WORSE)) == len(NOISES) for _ in range(200)]
    alone = [bool(judged(noisiest, ("response_p99",)).of(Finding.WORSE)) for _ in range(200)]
    assert 0.72 < fmean(all_found) < 0.97  # 0.8, less three standard errors of 200 cases
    assert 0.72 < fmean(alone) < 0.97


def test_one_new_run_is_held_against_what_the_others_let_expect() -> None:
    near, far = difference(made(103), made(100, 102, 98, 101)), difference(made(120), made(100, 102, 98, 101))
    assert near is not None
    assert near.seen is False
    assert far is not None
    assert far.seen is True


def test_a_gate_judges_no_single_run_whatever_the_noise_of_its_day() -> None:
    failed, believed = aa.one_new_run(UNEQUAL)
    assert failed == 0
    assert believed > 0.5, "the interval of one run is no ground for a verdict"
    once = gate([change((100, 101, 99, 100), (50,)), change((50,), (100, 101, 99, 100))], 0.05)
    assert [item.finding for item in once.judged] == [Finding.ONCE, Finding.ONCE]
    assert (once.lone_shares, once.all_share) == ([], None)


def test_single_runs_get_their_own_noise_and_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for base in (1000, 1040):
            spans = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * (base + 37 * n % 50))) for n in range(40)]
            add_run(store, [*spans, phase_end()])
        one, other = (store.record(run.id) for run in store.runs())
    (rate,) = compare([one], [other], names=["iops"]).changes
    assert rate.difference.seen is None
    assert rate.within is not None
    assert 0 < rate.within < 0.05
    assert main(["compare", "1", "2"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "between runs unknown; ±" in told
    assert "within the runs" in told


@pytest.mark.parametrize(("levels", "n"), [(4, 10), (6, 5)])
def test_a_study_of_equal_levels_seldom_calls_its_best_and_worst_different(levels: int, n: int) -> None:
    assert aa.false_answers(levels, n) <= 0.06


def test_one_request_more_in_each_of_two_runs_is_no_difference() -> None:
    with Store() as store:
        for requests in (300, 300, 301, 301):
            add_run(store, [interval(0, SECOND, cell([MS] * requests)), phase_end()])
        runs = [store.record(run.id) for run in store.runs()]
    (rate,) = compare(runs[:2], runs[2:], names=["iops"]).changes
    assert rate.difference.seen is False


def test_the_document_has_the_figures_of_the_harness() -> None:
    """Those that these tests compute anyway; `python tests/aa.py` writes all of them."""
    text = aa.DOC.read_text("utf-8")
    for noise in (EQUAL, UNEQUAL):
        for n in (3, 5, 10):
            assert aa.percent(aa.coverage(noise, n, n)) in text
        for n in (3, 5):
            found = aa.gates(noise, n)
            row = f"| {noise.name} | {n} | {aa.percent(found.failed)} | {aa.percent(found.seen)} |"
            assert row in text, f"{row}: run python tests/aa.py"
        once = f"| {noise.name} | {' | '.join(aa.percent(share) for share in aa.one_new_run(noise))} |"
        assert once in text, f"{once}: run python tests/aa.py"
    assert aa.percent(aa.false_answers(6, 5)) in text
    held, _ = aa.limits("p99", 0.75, 10_000)
    assert f"| {aa.percent(held)}, " in text


PROFILE = """
title = "A tiny load"
interval = "20ms"
[[phase]]
name = "measure"
duration = "300ms"
warmup = "40ms"
[[phase.stream]]
name = "reader"
request = "4KiB"
address = "random"
depth = 4
"""
RUNS, SIDE, SPLITS = 12, 5, 300


def test_equal_runs_of_the_real_engine_are_seldom_called_different(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A/A: runs of one load on one file, dealt at random to two sides, again and again."""
    load, file = tmp_path / "tiny.toml", tmp_path / "file"
    load.write_text(PROFILE)
    assert main(["run", str(load), str(file), "--size", "16MiB", "--repeat", str(RUNS), "--json"]) in (0, 1)
    capsys.readouterr()
    with Store() as store:
        records = [store.record(run.id) for run in store.runs()]
    assert len(records) == RUNS
    dice = random.Random(11)
    lone, failed, seen = 0, 0, 0
    for _ in range(SPLITS):
        dealt: list[Record] = dice.sample(records, 2 * SIDE)
        found = compare(dealt[:SIDE], dealt[SIDE:])
        tests = [item.difference.test for item in found.changes]
        assert len(tests) == 3
        assert tests[0] is not None
        lone += welch(found.changes[0].after.values, found.changes[0].before.values).p < 0.05  # type: ignore[union-attr]
        seen += any(item.difference.seen for item in found.changes)
        failed += bool(gate(found.changes, 0.05).of(Finding.WORSE))
    # 15 of 300 are expected; the splits share twelve runs, so that it may be some more in one test, never most.
    assert lone <= 0.15 * SPLITS
    assert seen <= 0.15 * SPLITS
    assert failed <= 0.05 * SPLITS


def test_the_rate_within_a_limit_holds_the_true_rate_of_a_queue() -> None:
    held, above = aa.limits("p99", 0.75, 10_000)
    assert held >= 0.92
    assert abs(above) <= 0.02
    # A step of a thousand requests sees too little of a queue: what the manual says, and why steps are longer.
    assert aa.limits("p99", 0.9, 1000)[0] < 0.8
    assert enough("p99") == 10_000


def answered(study: str, figure: str, cells: Mapping[Any, float]) -> str:
    """What a shipped study says of cells with these figures, in the order of its first table's factors."""
    design = read_design(study_text(study))
    tables = [spec for spec in design.tables if spec.figure == figure]
    names = (*tables[0].rows, *tables[0].columns)
    made = [
        Observation(dict(zip(names, levels, strict=True)), turn, 2 * at + turn, value * (1 + turn / 10_000))
        for at, (levels, value) in enumerate(cells.items())
        for turn in range(2)
    ]
    pivots = [pivot(spec, design.axes, made) for spec in tables]
    found = study_answer("", design.answer, pivots, [], [], design.answer_by, design.answer_levels)
    return " ".join(found.sentences)


def test_shipped_studies_answer_with_the_levels_of_their_questions() -> None:
    arrays = {("scsi", "blocks"): 1735.0, ("raid5", "blocks"): 434.0, ("raid10", "blocks"): 1173.0}
    said = answered("openbench-2003", "iops_within", arrays)
    assert "compared with SCSI RAID-5, 4 disks: ATA RAID-10, 8 disks -32 % (seen beyond noise)" in said
    assert "3 disks" not in said
    # The median of all seven sizes is none; the penalty is that of the large ones.
    rates = {"512": (31.0, 31.0), "4KiB": (175.0, 175.0), "64KiB": (382.0, 465.0), "1MiB": (397.0, 513.0)}
    cells = {
        ("read", size, level): rate
        for size, both in rates.items()
        for level, rate in zip(("raid6", "raid5"), both, strict=True)
    }
    assert (
        "RAID-6 -23 % to -18 % (request size: 64KiB, 1MiB; seen beyond noise), "
        "0 % (request size: 512, 4KiB; not seen beyond noise)"
    ) in answered("overland-raid-levels", "mib_per_s", cells)
    phases = {"sequential-write": (12.0, 54.0), "random-write": (0.83, 1.06), "random-read": (2.0, 2.04)}
    cells = {
        ("jbod", cache, phase): rate
        for phase, both in phases.items()
        for cache, rate in zip(("off", "on"), both, strict=True)
    }
    said = answered("kirkwood-2003", "mib_per_s", cells)
    assert "sequential-write: throughput compared with cache off: cache on 4.5 ×" in said
    assert "random-write:" in said
    assert "median" not in said


def test_equal_percentiles_of_two_runs_have_an_interval_as_wide_as_what_is_lost_in_reading() -> None:
    """Both ended in one bucket of their histograms: that is no certainty."""
    read = sample([26.3e6, 26.3e6], whole=26.3e6, resolution=1 / 128)
    assert read is not None
    assert read.low is not None
    assert read.high is not None
    error = math.log1p(1 / 128) / math.sqrt(12 * 2)
    reach = stats.t.ppf(0.975, 1) * error
    assert math.log(read.high / 26.3e6) == pytest.approx(reach)
    assert math.log(26.3e6 / read.low) == pytest.approx(reach)
    exact = sample([26.3e6, 26.3e6])
    assert exact is not None
    assert exact.low == pytest.approx(26.3e6), "of figures that are read exactly"


def test_two_cells_have_no_median() -> None:
    differences = [Difference(share, None, None, None) for share in (9.8, 0.007)]
    assert change_words(differences) == "+0.7 % and 10.8 × (2 cells)"
    assert change_words([*differences, Difference(0.5, None, None, None)]).startswith("+50 % (median of 3 cells")


@pytest.mark.parametrize(
    ("text", "remedy"), [("100%", ""), ("1", "; write 1% for 1 %"), ("95", "; write 95% for 95 %")]
)
def test_a_share_of_100_percent_is_refused_in_its_own_words(text: str, remedy: str) -> None:
    with pytest.raises(BadInputError) as refused:
        parse_share("--tolerance", text)
    assert str(refused.value) == f"--tolerance {text}: from 0 to below 100 %{remedy}"
