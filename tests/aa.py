"""The A/A harness: how often the product's own statistics are right where the truth is known, by simulation.

Equal things are compared (A/A), and things that differ by a known share; each trial goes through the functions that
`compare`, its gate and `history` use. `python tests/aa.py` writes the figures into docs/statistics.md, and
`test_statistics.py` holds both against what is claimed. Seeds are fixed, so that a figure is the same in every run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from brickyard.analysis.figures.batches import batch_means
from brickyard.analysis.figures.named import FIGURES
from brickyard.analysis.figures.pivot import Axis, Observation, TableSpec, pivot
from brickyard.analysis.figures.samples import Sample, adjusted_p, difference, in_family, sample
from brickyard.analysis.figures.search import Step, rates, searched
from brickyard.analysis.judging.comparison import Change
from brickyard.analysis.judging.gate import Finding, Gate, gate
from brickyard.analysis.judging.history import change_points
from brickyard.analysis.studies.answer import study_answer

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
TRIALS = 3000
FAMILIES = 200
CELLS = 30
SPREAD = 0.06
TOLERANCE = 0.05
DOC = Path(__file__).parent.parent / "docs" / "statistics.md"
BEGIN, END = "<!-- written by tests/aa.py -->", "<!-- end -->"


def normal(dice: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return dice.standard_normal(shape)


def heavy(dice: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student's t with three degrees of freedom, scaled to a standard deviation of 1."""
    return dice.standard_t(3, shape) / math.sqrt(3)


def spoiled(dice: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """One run in ten has five times the noise of the others."""
    return np.where(dice.random(shape) < 0.1, 5.0, 1.0) * dice.standard_normal(shape)


@dataclass(frozen=True)
class Noise:
    """Logarithms of a figure on two sides: their standard deviations, and their distribution."""

    name: str
    one: float
    other: float
    draw: Draw


NOISES = (
    Noise("lognormal, 6 % on both sides", SPREAD, SPREAD, normal),
    Noise("lognormal, 2 % and 20 %", 0.02, 0.20, normal),
    Noise("heavy-tailed (t with 3 degrees of freedom), 6 %", SPREAD, SPREAD, heavy),
    Noise("one run in ten five times as noisy, 6 %", SPREAD, SPREAD, spoiled),
)
SIDES = ((2, 2), (3, 3), (5, 5), (10, 10), (3, 10), (5, 1))


def _sample(values: Array) -> Sample:
    made = sample([float(value) for value in values])
    assert made is not None
    return made


@cache
def coverage(noise: Noise, n: int, m: int) -> float:
    """The share of intervals of a ratio that hold the true one."""
    dice = np.random.default_rng([n, m, NOISES.index(noise)])
    truth = 0.10
    ones = 1000 * (1 + truth) * np.exp(noise.one * noise.draw(dice, (TRIALS, n)))
    others = 1000 * np.exp(noise.other * noise.draw(dice, (TRIALS, m)))
    held = 0
    for one, other in zip(ones, others, strict=True):
        found = difference(_sample(one), _sample(other))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    return held / TRIALS


@cache
def single_coverage(n: int, draw: Draw) -> float:
    """The share of intervals of one side's figure that hold the true one."""
    dice = np.random.default_rng([n, 77])
    found = [_sample(1000 * np.exp(SPREAD * values)) for values in draw(dice, (TRIALS, n))]
    return _held(found, 1000.0)


@lru_cache(maxsize=1)  # several tolerances ask for the same ones, one after the other
def families(noise: Noise, n: int, worse: float = 0.0, cells: int = CELLS, seed: int = 0) -> list[list[Change]]:
    """Comparisons of `CELLS` cells by IOPS, mean and p99. The first `cells` cells are worse by a share after than
    before; IOPS and mean response of a closed loop are one thing seen twice, the p99 has noise of its own."""
    dice = np.random.default_rng([n, NOISES.index(noise), seed])
    kinds = ("iops", "response_mean", "response_p99")
    found = []
    for _ in range(FAMILIES):
        changes = []
        for cell in range(CELLS):
            loss = math.log1p(worse) if cell < cells else 0.0
            sides = []
            for spread, shift in ((noise.one, 0.0), (noise.other, loss)):
                rate = spread * noise.draw(dice, (n,)) - shift
                tail = spread * noise.draw(dice, (n,)) + shift
                sides.append((1000 * np.exp(rate), 1e6 * np.exp(-rate), 5e6 * np.exp(tail)))
            for number, kind in enumerate(kinds):
                before, after = _sample(sides[0][number]), _sample(sides[1][number])
                figure = FIGURES[kind]
                apart = difference(after, before, resolution=figure.resolution)
                assert apart is not None
                changes.append(Change((str(cell),), figure, before, after, apart))
        found.append(changes)
    return found


@dataclass(frozen=True)
class Rates:
    """Shares of families: the gate failed; any difference was called seen; and of single figures."""

    failed: float
    seen: float
    held: float
    found: float


@cache
def gates(noise: Noise, n: int, worse: float = 0.0, cells: int = CELLS, tolerance: float = TOLERANCE) -> Rates:
    failed = seen = held = found = 0
    for changes in families(noise, n, worse, cells):
        judged: Gate = gate(changes, tolerance)
        failed += bool(judged.of(Finding.WORSE))
        held += len(judged.of(Finding.HELD))
        found += sum(int(change.name[0]) < cells for change in judged.of(Finding.WORSE))
        seen += any(item is not None and item.seen for item in in_family([c.difference for c in changes]))
    whole = FAMILIES * CELLS * 3
    return Rates(failed / FAMILIES, seen / FAMILIES, held / whole, found / (FAMILIES * cells * 3))


@cache
def power(n: int) -> tuple[float, float]:
    """The change that `n` repetitions are said to see at this noise (the median), and how often they do."""
    dice = np.random.default_rng([n, 5])
    equal = 1000 * np.exp(SPREAD * dice.standard_normal((TRIALS // 3, 2, n)))
    said = [difference(_sample(a), _sample(b)) for a, b in equal]
    shift = math.log1p(median(item.sees for item in said if item is not None and item.sees is not None))
    ones = 1000 * np.exp(shift + SPREAD * dice.standard_normal((TRIALS, n)))
    others = 1000 * np.exp(SPREAD * dice.standard_normal((TRIALS, n)))
    found = [difference(_sample(a), _sample(b)) for a, b in zip(ones, others, strict=True)]
    return math.expm1(shift), sum(item is not None and item.seen is True for item in found) / TRIALS


@cache
def one_new_run(noise: Noise, n: int = 5) -> tuple[float, float]:
    """Of families of equal things, the new side measured once: in how many the gate fails, and in how many the interval
    would have called a figure worse by more than the tolerance, had it been believed."""
    dice = np.random.default_rng([n, 1, NOISES.index(noise)])
    failed = believed = 0
    for _ in range(FAMILIES):
        befores = 1000 * np.exp(noise.one * noise.draw(dice, (CELLS, n)))
        afters = 1000 * np.exp(noise.other * noise.draw(dice, (CELLS, 1)))
        changes = []
        for before, after in zip(befores, afters, strict=True):
            sides = _sample(before), _sample(after)
            apart = difference(sides[1], sides[0])
            assert apart is not None
            changes.append(Change(("",), FIGURES["iops"], *sides, apart))
        failed += bool(gate(changes, TOLERANCE).of(Finding.WORSE))
        tests = [c.difference.test for c in changes if c.difference.test is not None]
        believed += min(adjusted_p([test.p_of(test.below(-TOLERANCE)) for test in tests])) < 0.05
    return failed / FAMILIES, believed / FAMILIES


ANSWERS = 400
LEVELS = (2, 4, 6, 10)


@cache
def false_answers(levels: int, n: int) -> float:
    """Share of studies of equal levels, in one cell, whose answer calls its two ends different."""
    dice = np.random.default_rng([levels, n, 11])
    axis = Axis("name", "name", {f"v{i}": f"v{i}" for i in range(levels)}, {})
    spec = TableSpec("t", "t", "iops", (), ("name",), {}, ("value",), {}, None, {}, "mean", None)
    found = 0
    for _ in range(ANSWERS):
        values = 1000 * np.exp(SPREAD * dice.standard_normal((levels, n)))
        runs = [
            Observation({"name": level}, turn, turn * levels + row, float(values[row, turn]))
            for row, level in enumerate(axis.labels)
            for turn in range(n)
        ]
        answer = study_answer("", ["name"], [pivot(spec, [axis], runs)], [], [])
        found += "(seen beyond noise)" in " ".join(answer.sentences)
    return found / ANSWERS


@cache
def falsely_held(n: int, worse: float = 0.055) -> float:
    """The share of families of 30 figures, all truly worse by a little more than the tolerance, in which one or more is
    called held."""
    told = 0
    for changes in families(NOISES[0], n, worse, seed=8):
        rates = [change for change in changes if change.figure.name == "iops"]
        told += bool(gate(rates, TOLERANCE).of(Finding.HELD))
    return told / FAMILIES


def following(dice: np.random.Generator, shape: tuple[int, int], correlation: float) -> Array:
    """Rows of values that follow each other with this correlation (AR(1)), with a standard deviation of 1."""
    steps = dice.standard_normal(shape) * math.sqrt(1 - correlation**2)
    steps[:, 0] /= math.sqrt(1 - correlation**2)
    for at in range(1, shape[1]):
        steps[:, at] += correlation * steps[:, at - 1]
    return steps


@cache
def correlated_coverage(n: int, correlation: float) -> float:
    """The share of intervals of one figure that hold the true one, where repetitions follow each other."""
    values = following(np.random.default_rng([n, 21]), (TRIALS, n), correlation)
    return _held([_sample(1000 * np.exp(SPREAD * row)) for row in values], 1000.0)


@cache
def bimodal_coverage(n: int) -> float:
    """The same for runs of which one in five is half as fast: the true figure is their geometric mean."""
    dice = np.random.default_rng([n, 22])
    slow = dice.random((TRIALS, n)) < 0.2
    logs = math.log(1000) + np.where(slow, math.log(0.5), 0.0) + 0.01 * dice.standard_normal((TRIALS, n))
    return _held([_sample(np.exp(row)) for row in logs], 1000 * 0.5**0.2)


def _held(found: list[Sample], truth: float) -> float:
    return sum(s.low is not None and s.high is not None and s.low <= truth <= s.high for s in found) / len(found)


HISTORIES = 400


@cache
def false_changes_following(n: int, correlation: float) -> float:
    """The share of histories without a change in which one is reported, where runs follow each other."""
    series = 1000 * np.exp(SPREAD * following(np.random.default_rng([n, 23]), (HISTORIES, n), correlation))
    return sum(bool(change_points([float(v) for v in values])) for values in series) / HISTORIES


@cache
def false_changes(n: int, draw: Draw) -> float:
    """The share of histories of `n` runs without a change in which one is reported."""
    dice = np.random.default_rng([n, 9])
    series = 1000 * np.exp(SPREAD * draw(dice, (HISTORIES, n)))
    return sum(bool(change_points([float(v) for v in values])) for values in series) / HISTORIES


@cache
def found_changes(spreads: float, after: int, before: int = 12) -> float:
    """The share of histories in which a fall of that many standard deviations is reported `after` runs later."""
    dice = np.random.default_rng([after, before])
    series = SPREAD * dice.standard_normal((HISTORIES, before + after))
    series[:, before:] -= spreads * SPREAD
    values = 1000 * np.exp(series)
    return sum(bool(change_points([float(v) for v in one])) for one in values) / HISTORIES


WITHIN = 600


@cache
def within(intervals: int, correlation: float) -> tuple[float, float]:
    """Of runs whose intervals follow each other with this correlation: the share that has an interval for the run's
    own noise, and the share of these that hold the true mean."""
    dice = np.random.default_rng([intervals, int(100 * correlation)])
    steps = dice.standard_normal((WITHIN, intervals + 60)) * math.sqrt(1 - correlation**2)
    values = np.empty_like(steps)
    values[:, 0] = steps[:, 0] / math.sqrt(1 - correlation**2)
    for at in range(1, steps.shape[1]):
        values[:, at] = correlation * values[:, at - 1] + steps[:, at]
    rates = 1000 * (1 + 0.05 * values[:, 60:])
    told = held = 0
    for run in rates:
        ends = np.cumsum(run)

        def means(count: int, ends: Array = ends) -> list[float]:
            edges = [number * len(ends) // count for number in range(count + 1)]
            sums = [float(ends[edge - 1]) if edge else 0.0 for edge in edges]
            return [(b - a) / (j - i) for a, b, i, j in zip(sums, sums[1:], edges, edges[1:], strict=False)]

        found = batch_means(intervals, means, 0.95)
        if found is not None:
            told += 1
            held += abs(float(run.mean()) - 1000) <= found.share * float(run.mean())
    return told / WITHIN, held / told if told else math.nan


def percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share * 100:.1f} %"


def report() -> str:
    """The tables of the document."""
    lines = [
        "Share of 95 % intervals of a ratio that contain the true ratio (3,000 trials each; the columns give the "
        "number of",
        "repetitions on each side):",
        "",
    ]
    lines += ["| noise | " + " | ".join(f"{n} and {m}" for n, m in SIDES) + " |", "|---|" + "---|" * len(SIDES)]
    lines += [
        f"| {noise.name} | " + " | ".join(percent(coverage(noise, n, m)) for n, m in SIDES) + " |" for noise in NOISES
    ]
    lines += [
        "",
        "Share of 95 % intervals of one figure that contain the true figure, by number of repetitions:",
        "",
        "| noise | 2 | 3 | 5 | 10 |",
        "|---|---|---|---|---|",
    ]
    for name, draw in (("lognormal, 6 %", normal), ("heavy-tailed, 6 %", heavy)):
        lines.append(f"| {name} | " + " | ".join(percent(single_coverage(n, draw)) for n in (2, 3, 5, 10)) + " |")
    lines += [
        "",
        f"`compare --check --tolerance 5%` of two equal sides, {CELLS} cells × 3 figures as one family"
        f" ({FAMILIES} families each):",
        "",
        "| noise | repetitions | gate fails | any difference called seen | figures shown to have held |",
        "|---|---|---|---|---|",
    ]
    for noise in NOISES:
        for n in (3, 5):
            found = gates(noise, n)
            lines.append(
                f"| {noise.name} | {n} | {percent(found.failed)} | {percent(found.seen)} | {percent(found.held)} |"
            )
    lines += [
        "",
        "What the same gate finds if figures got worse (lognormal noise of 6 %):",
        "",
        "| worse | repetitions | gate fails | worse figures found |",
        "|---|---|---|---|",
    ]
    for words, worse, cells in WORSE:
        for n in (3, 5, 10):
            found = gates(NOISES[0], n, worse, cells)
            lines.append(f"| {words} | {n} | {percent(found.failed)} | {percent(found.found)} |")
    lines += [
        "",
        "The change that one comparison claims to detect in 80 % of cases, and how often it does (lognormal noise "
        "of 6 %):",
        "",
        "| repetitions | change | seen |",
        "|---|---|---|",
    ]
    lines += [f"| {n} | {percent(power(n)[0])} | {percent(power(n)[1])} |" for n in (3, 5, 10)]
    lines += [
        "",
        "How often the answer of a study with equal levels calls the best and the worst level different "
        f"({ANSWERS} studies each,",
        "lognormal noise of 6 %):",
        "",
        "| levels | 2 repetitions | 3 | 5 | 10 |",
        "|---|---|---|---|---|",
    ]
    for levels in LEVELS:
        lines.append(f"| {levels} | " + " | ".join(percent(false_answers(levels, n)) for n in (2, 3, 5, 10)) + " |")
    lines += [
        "",
        f"`history`: change points reported where nothing changed ({HISTORIES} histories each):",
        "",
        "| noise | 10 runs | 20 runs | 50 runs |",
        "|---|---|---|---|",
    ]
    for name, draw in (("lognormal", normal), ("heavy-tailed", heavy)):
        lines.append(f"| {name} | " + " | ".join(percent(false_changes(n, draw)) for n in (10, 20, 50)) + " |")
    lines += [
        "",
        "Change points found where the figure fell after 12 runs, by the size of the fall in standard deviations of "
        "the noise",
        "and the number of runs since then:",
        "",
        "| fall | 3 runs later | 5 | 8 |",
        "|---|---|---|---|",
    ]
    for fall in (2.0, 3.0, 5.0):
        lines.append(f"| {fall:.0f} | " + " | ".join(percent(found_changes(fall, after)) for after in (3, 5, 8)) + " |")
    lines += [
        "",
        "Noise within one run: how often the interval contains the run's true mean, of the runs that get an "
        "interval (the second",
        "percentage), by the correlation between neighbouring intervals:",
        "",
        "| correlation | 30 intervals | 60 | 300 |",
        "|---|---|---|---|",
    ]
    for correlation in (0.0, 0.5, 0.8):
        cells_ = ["{1} of {0}".format(*(percent(x) for x in within(m, correlation))) for m in (30, 60, 300)]
        lines.append(f"| {correlation:.1f} | " + " | ".join(cells_) + " |")
    return "\n".join([*lines, *rates_within(), *outside()]) + "\n"


def outside() -> list[str]:
    """What happens where the assumptions do not hold, or a rule is needed instead of them."""
    lines = [
        "",
        f"One new run against five, nothing changed, {CELLS} figures ({FAMILIES} families): how often the gate "
        "fails, which judges none of",
        "them, and how often it would fail if it used the interval:",
        "",
        "| noise | gate fails | would fail |",
        "|---|---|---|",
    ]
    for noise in NOISES[:3]:
        lines.append(f"| {noise.name} | " + " | ".join(percent(share) for share in one_new_run(noise)) + " |")
    lines += [
        "",
        "*Held* is judged for each figure by itself. Share of families of 30 figures, all worse by 5.5 %, in which "
        "one or more",
        "figures are called held at a tolerance of 5 % (lognormal noise of 6 %):",
        "",
        "| 3 repetitions | 5 | 10 |",
        "|---|---|---|",
        "| " + " | ".join(percent(falsely_held(n)) for n in (3, 5, 10)) + " |",
        "",
        "Share of 95 % intervals of one figure that contain the true figure, where the assumptions do not hold:",
        "",
        "| repetitions | 2 | 3 | 5 | 10 |",
        "|---|---|---|---|---|",
        "| one run in five is half as fast, 1 % | " + " | ".join(percent(bimodal_coverage(n)) for n in NS) + " |",
    ]
    for correlation in (0.4, 0.7):
        shares = " | ".join(percent(correlated_coverage(n, correlation)) for n in NS)
        lines.append(f"| neighbours correlated by {correlation} (AR(1)), 6 % | {shares} |")
    lines += [
        "",
        "`history`: change points reported where nothing changed and consecutive runs are correlated"
        f" ({HISTORIES} histories each):",
        "",
        "| correlation | 10 runs | 20 runs | 50 runs |",
        "|---|---|---|---|",
    ]
    for correlation in (0.2, 0.4, 0.7):
        shares = " | ".join(percent(false_changes_following(n, correlation)) for n in (10, 20, 50))
        lines.append(f"| {correlation} | {shares} |")
    return lines


@cache
def limits(figure: str, load: float, requests: int) -> tuple[float, float]:
    """Of an M/M/1 queue that is loaded to a share of its capacity where its response time is at a limit: the share of
    intervals of three searches that hold the true rate, and how far above it the searches end on average."""
    service_per_s = 1000.0
    mean_s = 1 / (service_per_s * (1 - load))
    limit_s = mean_s if figure == "mean" else mean_s * math.log(100)
    held, above = 0, 0.0
    for trial in range(SEARCHED):

        def attempt(rate: float, number: int, trial: int = trial) -> Step:
            dice = np.random.default_rng((trial, number))
            arrived = np.cumsum(dice.exponential(1 / rate, requests))
            served = dice.exponential(1 / service_per_s, requests)
            done = np.cumsum(served)
            # Lindley: a request ends when the server has done all since it was last idle.
            times = done + np.maximum.accumulate(arrived - (done - served)) - arrived
            value = times.mean() if figure == "mean" else np.quantile(times, 0.99, method="higher")
            return Step(rate, value * 1e9, bool(value <= limit_s))

        found = rates(searched(attempt, service_per_s / 2, 3))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= load * service_per_s <= found.high
        above += found.centre / (load * service_per_s) - 1
    return held / SEARCHED, above / SEARCHED


def rates_within() -> list[str]:
    lines = [
        "",
        "The rate within a limit (`load-curve --limit`, `advise predict`), against an M/M/1 queue with a known true",
        f"rate ({SEARCHED} answers, each of three searches): how often the 95 % interval contains that rate, and "
        "how far the answer is",
        "above it on average, by the number of requests per step and the share of the capacity at which the limit "
        "is reached:",
        "",
        "| limit, reached at | 1,000 requests a step | 2,000 | 10,000 |",
        "|---|---|---|---|",
    ]
    for figure, load in LIMITS:
        told = [limits(figure, load, requests) for requests in STEP_REQUESTS]
        cells_ = " | ".join(
            f"{percent(held)}, {above:+.1%}".replace("%", " %").replace("  ", " ") for held, above in told
        )
        lines.append(f"| {figure}, {percent(load)} | {cells_} |")
    return lines


SEARCHED = 200
STEP_REQUESTS = (1000, 2000, 10_000)
LIMITS = (("mean", 0.75), ("mean", 0.9), ("p99", 0.55), ("p99", 0.75), ("p99", 0.9))
NS = (2, 3, 5, 10)
WORSE = (("one cell of 30 by 30 %", 0.30, 1), ("all cells by 15 %", 0.15, CELLS), ("all cells by 30 %", 0.30, CELLS))


def main() -> int:
    text = DOC.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    DOC.write_text(f"{before}{BEGIN}\n\n{report()}\n{END}{after}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
