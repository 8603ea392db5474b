"""Duty: which units of a census are slow, by robust statistics and by regression over peers; what they share.

A unit is one target of one host. All units did the same load. Of each figure the median and the spread of the peers are
taken robustly (median, MAD), so that the bad ones do not hide themselves. Units that are slow only now and then are
found as Perseus does (Lu et al., FAST '23): response times of single intervals are regressed over the load on all
peers, and a unit whose intervals lie beyond the prediction for a window of them is named. Perseus regresses over
throughput; in a closed loop that is the reciprocal of the response time, so here the load is what is in flight.

Units with errors are named as such and are nobody's peers: what fails at once looks fast.

Refusal: nothing is read or written, nobody is called broken.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from brickyard.analysis.figures.hosts import fleet_of
from brickyard.analysis.figures.named import IOPS, RATES_BY_OPERATION
from brickyard.analysis.figures.samples import MAD_TO_SIGMA
from brickyard.analysis.figures.totals import asked_phase, totals
from brickyard.analysis.figures.workload import request_words
from brickyard.schema import Document, TargetSheet, in_flight_total, is_request
from brickyard.schema.plan import OtherStream, Stream
from brickyard.store import Record
from brickyard.units import format_size

FALSE_ALARMS = 0.05
"""Of a census of healthy units, at most this share names any of them, were their figures log-normal."""
DRAWS, MOST_DRAWN = 20_000, 200
"""Censuses of healthy units that are drawn to know how far the farthest of them lies; larger ones are computed."""
SEED = 7
LEAST_SCORE = 3.5  # Iglewicz and Hoaglin, How to detect and handle outliers, 1993
LEAST_FACTOR = 1.10
"""A unit that is nearer to its peers is called like them, however alike these are."""
FEWEST_PEERS = 5
"""With fewer nobody can be told from the rest."""
WINDOW = 3
"""Intervals in a row whose median has to lie beyond the prediction."""
PREDICTED = 0.999  # Perseus' upper bound
DEGREE = 2
FEWEST_POINTS = 20
COMMON_P = 0.01


@dataclass(frozen=True)
class Peer:
    """One target of one host: what it did and what it is. `series` has, for each kind of request and each
    interval, how many were in flight and their mean response time in ns."""

    name: str
    figures: Mapping[str, float]
    """Rates; more is better."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Response times in ns; less is better."""
    traits: Mapping[str, str] = field(default_factory=dict)
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    errors: int = 0
    """Requests that failed."""
    loads: Mapping[str, str] = field(default_factory=dict)
    """What was asked for each figure: how large the requests were, and how many at a time."""


@dataclass(frozen=True)
class FigureSpread:
    """One figure over all units."""

    name: str
    unit: str
    count: int
    low: float
    median: float
    high: float
    mad_share: float
    """Robust standard deviation over the median."""
    load: str = ""
    """What was asked for it."""

    def document(self) -> Document:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Finding:
    """Why a unit is called slow; `factor` is how many times slower than the median of its peers."""

    unit: str
    figure: str
    factor: float
    score: float
    how: str
    """`figure` or `intervals`."""

    def document(self) -> Document:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Common:
    """A trait that slow units have more often than the others."""

    trait: str
    value: str
    slow_with: int
    slow: int
    others_with: int
    others: int
    p: float

    def document(self) -> Document:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Census:
    units: int
    spreads: list[FigureSpread]
    findings: list[Finding]
    common: list[Common]
    too_few: bool
    """Nobody can be told from the rest."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Requests that failed, of the units that have any; the worst first."""
    not_judged: Mapping[str, int] = field(default_factory=dict)
    """Kinds that are too few to judge, and how many units each has."""

    @property
    def judged(self) -> int:
        return self.units - len(self.errors) - sum(self.not_judged.values())

    @property
    def slow(self) -> list[str]:
        """Units by how slow they are, the slowest first."""
        worst: dict[str, float] = defaultdict(float)
        for found in self.findings:
            worst[found.unit] = max(worst[found.unit], found.factor)
        return sorted(worst, key=lambda name: (-worst[name], name))

    def document(self) -> Document:
        return {
            "units": self.units,
            "slow": self.slow,
            "too_few": self.too_few,
            "judged": self.judged,
            "not_judged": dict(self.not_judged),
            "errors": dict(self.errors),
            "figures": [spread.document() for spread in self.spreads],
            "findings": [found.document() for found in self.findings],
            "common": [common.document() for common in self.common],
        }


def census(units: Sequence[Peer], peers_by: str = "model") -> Census:
    """All of it. Units without errors are compared with those that have the same `peers_by`, where these are enough."""
    whole = [unit for unit in units if not unit.errors]
    failing = sorted((unit for unit in units if unit.errors), key=lambda unit: (-unit.errors, unit.name))
    groups = peer_groups(whole, peers_by)
    judged = [group for group in groups.values() if len(group) >= FEWEST_PEERS]
    families = sum(len(_names(group)) + len({kind for unit in group for kind in unit.series}) for group in judged)
    findings: list[Finding] = []
    for group in judged:
        findings += _by_figure(group, families)
        named = {found.unit for found in findings}
        findings += _by_intervals([unit for unit in group if unit.name not in named], group, families)
    return Census(
        units=len(units),
        spreads=spreads(whole),
        findings=findings,
        common=in_common(units, {found.unit for found in findings} | {unit.name for unit in failing}),
        too_few=not judged,
        errors={unit.name: unit.errors for unit in failing},
        not_judged={kind: len(group) for kind, group in groups.items() if len(group) < FEWEST_PEERS},
    )


def peer_groups(units: Sequence[Peer], peers_by: str) -> dict[str, list[Peer]]:
    """Units by their kind."""
    by_kind: dict[str, list[Peer]] = defaultdict(list)
    for unit in units:
        by_kind[unit.traits.get(peers_by, "")].append(unit)
    return dict(sorted(by_kind.items()))


@cache
def least_score(count: int, chance: float) -> float:
    """How far from the median, in robust sigmas, the farthest of so many alike units lies with this chance.

    The MAD of few units is often far too small, so that the normal distribution's quantile would name a healthy unit in
    a fifth of the censuses. Up to 200 units such censuses are drawn. Beyond, median and MAD are normal about what they
    estimate, with variances of 1.57 and 1.36 over the count (Serfling, Approximation Theorems, 1980, 2.3 and 2.8).
    """
    if count <= MOST_DRAWN:
        values = np.random.default_rng(SEED).standard_normal((DRAWS, count))
        far = values - np.median(values, axis=1, keepdims=True)
        sigma = MAD_TO_SIGMA * np.median(np.abs(far), axis=1)
        return max(LEAST_SCORE, float(np.quantile(far.max(axis=1) / sigma, 1 - chance)))
    from scipy import optimize, stats

    at, weights = np.polynomial.hermite_e.hermegauss(15)
    shares = np.outer(weights, weights) / weights.sum() ** 2
    middles, sigmas = np.meshgrid(at * math.sqrt(1.571 / count), 1 + at * math.sqrt(1.36 / count), indexing="ij")

    def beyond(score: float) -> float:
        return float(np.sum(shares * -np.expm1(count * stats.norm.logcdf(middles + score * sigmas)))) - chance

    return max(LEAST_SCORE, float(optimize.brentq(beyond, 1.0, 50.0)))


def _names(units: Sequence[Peer]) -> list[tuple[str, bool]]:
    """Figures, and whether more of each is better."""
    rates = {name: True for unit in units for name in unit.figures}
    times = {name: False for unit in units for name in unit.times}
    return [*rates.items(), *times.items()]


def _values(units: Sequence[Peer], name: str, *, more_is_better: bool) -> tuple[list[Peer], np.ndarray]:
    having = [unit for unit in units if (unit.figures if more_is_better else unit.times).get(name, 0) > 0]
    return having, np.array([(unit.figures if more_is_better else unit.times)[name] for unit in having], dtype=float)


def _by_figure(units: Sequence[Peer], families: int) -> list[Finding]:
    found = []
    for name, more_is_better in _names(units):
        having, values = _values(units, name, more_is_better=more_is_better)
        if len(having) < FEWEST_PEERS:
            continue
        score = least_score(len(having), FALSE_ALARMS / families)
        slowness = -np.log(values) if more_is_better else np.log(values)
        middle, sigma = _middle_and_sigma(slowness)
        for unit, far in zip(having, slowness - middle, strict=True):
            if far / sigma > score and math.exp(far) > LEAST_FACTOR:
                found.append(Finding(unit.name, name, math.exp(far), float(far / sigma), "figure"))
    return sorted(found, key=lambda item: -item.factor)


def _middle_and_sigma(values: np.ndarray) -> tuple[float, float]:
    """Of identical peers the MAD is 0; a hundredth of a figure is in nobody's hand."""
    middle = float(np.median(values))
    return middle, max(MAD_TO_SIGMA * float(np.median(np.abs(values - middle))), 0.01)


def _by_intervals(units: Sequence[Peer], peers: Sequence[Peer], families: int) -> list[Finding]:
    """Units with a window of intervals beyond what peers' response times predict for the load, and farther beyond than
    the worst windows of peers are by chance."""
    worst: dict[str, Finding] = {}
    for kind in dict.fromkeys(name for unit in peers for name in unit.series):
        points = [point for unit in peers for point in unit.series.get(kind, ())]
        if len(points) < FEWEST_POINTS:
            continue
        curve, limit = _predicted(np.log([load for load, _ in points]), np.log([time for _, time in points]))
        all_ = {unit.name: _worst_window(unit.series.get(kind, ()), curve) for unit in peers}
        known = np.array([far for far in all_.values() if far is not None])
        if len(known) < FEWEST_PEERS:
            continue
        middle, sigma = _middle_and_sigma(known)
        limit = max(limit, middle + least_score(len(known), FALSE_ALARMS / families) * sigma)
        for unit in units:
            far = all_[unit.name]
            if far is None:
                continue
            found = Finding(unit.name, f"{kind}, response time at times", math.exp(far), far / limit, "intervals")
            is_worst = unit.name not in worst or worst[unit.name].factor < found.factor
            if far > limit and found.factor > LEAST_FACTOR and is_worst:
                worst[unit.name] = found
    return sorted(worst.values(), key=lambda item: -item.factor)


def _worst_window(series: Sequence[tuple[float, float]], curve: np.ndarray) -> float | None:
    if len(series) < WINDOW:
        return None
    above = np.log([time for _, time in series]) - np.polyval(curve, np.log([load for load, _ in series]))
    return float(np.median(np.lib.stride_tricks.sliding_window_view(above, WINDOW), axis=1).max())


def _predicted(load: np.ndarray, slow: np.ndarray) -> tuple[np.ndarray, float]:
    """A polynomial of the logarithms, and by how much a point may be above it. Points beyond the limit are left out
    and both are found again, so that slow units do not widen it."""
    from scipy import stats

    keep = np.ones(len(load), dtype=bool)
    degree = min(DEGREE, len(np.unique(load)) - 1)
    factor = float(stats.norm.isf(1 - PREDICTED))
    curve, limit = np.array([0.0]), 0.0
    for _ in range(5):
        curve = np.polyfit(load[keep], slow[keep], degree)
        rest = slow - np.polyval(curve, load)
        middle = float(np.median(rest[keep]))
        sigma = max(MAD_TO_SIGMA * float(np.median(np.abs(rest[keep] - middle))), 0.01)
        limit = middle + factor * sigma
        now = np.abs(rest - middle) <= factor * sigma
        if np.array_equal(now, keep):
            break
        keep = now
    return curve, limit


def spreads(units: Sequence[Peer]) -> list[FigureSpread]:
    found = []
    loads = {name: load for unit in units for name, load in unit.loads.items()}
    for name, more_is_better in _names(units):
        _, values = _values(units, name, more_is_better=more_is_better)
        if len(values):
            middle = float(np.median(values))
            mad = MAD_TO_SIGMA * float(np.median(np.abs(values - middle))) / middle
            found.append(
                FigureSpread(
                    name,
                    "" if more_is_better else "ns",
                    len(values),
                    float(values.min()),
                    middle,
                    float(values.max()),
                    mad,
                    loads.get(name, ""),
                )
            )
    return found


def in_common(units: Sequence[Peer], slow: set[str]) -> list[Common]:
    """Traits by Fisher's exact test, Bonferroni's correction over all that were tried; the rarest chance first."""
    from scipy import stats

    traits = {(name, value) for unit in units for name, value in unit.traits.items() if value}
    others = [unit for unit in units if unit.name not in slow]
    bad = [unit for unit in units if unit.name in slow]
    if not bad or not others:
        return []
    found = []
    for name, value in sorted(traits):
        slow_with = sum(unit.traits.get(name) == value for unit in bad)
        others_with = sum(unit.traits.get(name) == value for unit in others)
        if slow_with == 0 or slow_with + others_with == len(units):
            continue
        chance = float(stats.hypergeom.sf(slow_with - 1, len(units), slow_with + others_with, len(bad)))
        if chance * len(traits) < COMMON_P:
            found.append(Common(name, value, slow_with, len(bad), others_with, len(others), chance))
    return sorted(found, key=lambda item: (item.p, item.trait))


def units_of(record: Record) -> list[Peer]:
    """The units of a run: the targets of its hosts, or of this host."""
    fleet = fleet_of(record)
    if fleet is None:
        sheets = record.info.facts.targets
        own = [_sheet_traits(sheet) for sheet in sheets] or [{}] * len(record.info.targets)
        return [_unit(record, number, name, own[number]) for number, name in enumerate(record.info.targets)]
    return [
        _unit(record, target, record.info.targets[target], _fact_traits(host.facts, number))
        for host in fleet.hosts
        for number, target in enumerate(host.targets)
    ]


def _fact_traits(facts: Mapping[str, str], number: int) -> dict[str, str]:
    """Of the host and of one of its targets."""
    mine, others = f"target {number} ", "target "
    return {
        **{name: value for name, value in facts.items() if not name.startswith(others)},
        **{name.removeprefix(mine): value for name, value in facts.items() if name.startswith(mine)},
    }


def _sheet_traits(sheet: TargetSheet) -> dict[str, str]:
    device = sheet.stack[-1] if sheet.stack else None
    found = {"model": device.model, "firmware": device.firmware, "controller": device.controller} if device else {}
    return {name: value for name, value in found.items() if value}


def _unit(record: Record, target: int, name: str, traits: Mapping[str, str]) -> Peer:
    rates: dict[str, float] = {}
    times: dict[str, float] = {}
    loads: dict[str, str] = {}
    errors = 0
    for row in totals(record):
        asked = asked_phase(record, row.phase)
        if not is_request(row.operation) or asked is None or asked.stream[row.stream].target != target:
            continue
        errors += row.errors or 0
        if not row.is_rated:
            continue
        rate, p99_name = (
            f"{row.phase_name}, {row.operation} {figure}"
            for figure in (RATES_BY_OPERATION.get(row.operation, IOPS), "p99")
        )
        rates[rate] = row.iops
        loads[rate] = loads[p99_name] = _load(asked.stream[row.stream])
        if p99 := row.response.p99 if row.response else None:
            times[p99_name] = float(p99)
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in record.intervals:
        asked = asked_phase(record, item.phase)
        own = asked.stream[item.stream] if asked else None
        timed = item.measure == "response" and is_request(item.operation)
        counts = timed and not item.warmup and item.requests and item.mean_ns
        if own is not None and own.target == target and counts:
            kind = f"{item.operation} {format_size(round(item.bytes / item.requests))}"
            series[kind].append((float(in_flight_total(own) or 1), item.mean_ns))
    return Peer(name, rates, times, traits, dict(series), errors, loads)


def _load(stream: Stream | OtherStream) -> str:
    """`random 4 KiB, 4 in flight`."""
    at_once = in_flight_total(stream)
    return ", ".join(filter(None, (request_words([stream]), f"{at_once:,} in flight" if at_once else "")))
