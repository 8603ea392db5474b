"""Duty: how much reads suffer from writes: the latency of reads at rates of reads and writes, each pair a run from
rest.

For some rates of writes the highest rate of reads is searched that keeps a limit, and confirmed by runs with arrivals
of their own; every run is a point of the map, and tells of other limits, too. Further rates of writes are put where the
reads that are left change most.

Refusal: rates and latencies are those of `analysis`, and summed or picked here at the most.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from brickyard.analysis.figures.search import enough
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.figures.totals import totals
from brickyard.store import Record

COLUMNS = (0.0, 0.25, 0.5, 0.75, 0.9)  # of the most writes that the target takes alone
MORE_COLUMNS = 2
TOLERANCE = 0.10  # between the rate of reads that holds and the one that does not
MOST_STEPS = 7  # of a column
CONFIRMED_BY = 3  # runs at a rate, each with arrivals of its own; all of them have to keep the limit
MOST_LOWERED = 5  # times that a rate which was not confirmed is lowered
LEAST_SHARE = 0.01  # of the most reads: less is none
DEPTH = 256
CLOSED_DEPTH = 32
INTERVALS = 60  # of a run of more seconds than that: to keep one for each second costs more than to simulate it


RESPONSE = "response"


class StoppedError(Exception):
    """A run was interrupted; what was found before it stays in the map."""


@dataclass(frozen=True)
class MapAsked:
    """What is asked of the target in every run."""

    read_bytes: int
    write_bytes: int
    figure: str = "p99"
    seed: int = 1


@dataclass(frozen=True)
class MapPoint:
    """One run."""

    reads_per_s: float
    writes_per_s: float
    value_ns: float | None
    """The figure of the reads' response times; None with too few of them, or where they were overloaded."""
    write_value_ns: float | None
    kept_up: bool
    run: int = 0
    reads: int = 0
    """How many reads the figure rests on."""

    def holds(self, limit_ns: float) -> bool:
        return self.kept_up and self.value_ns is not None and self.value_ns <= limit_ns


@dataclass
class InterferenceMap:
    figure: str
    limit_ns: float
    most_reads_per_s: float = 0.0
    most_writes_per_s: float = 0.0
    points: list[MapPoint] = field(default_factory=list)
    cut_short: bool = False
    interrupted: bool = False

    @property
    def columns(self) -> list[float]:
        return sorted({point.writes_per_s for point in self.points})

    def at(self, reads_per_s: float, writes_per_s: float) -> list[MapPoint]:
        return [p for p in self.points if (p.reads_per_s, p.writes_per_s) == (reads_per_s, writes_per_s)]

    def reads_beside(self, writes_per_s: float, limit_ns: float) -> float | None:
        """The highest rate of reads at which every run held a limit beside so many writes."""
        rates = {p.reads_per_s for p in self.points if p.writes_per_s == writes_per_s}
        return max((rate for rate in rates if _all_hold(self.at(rate, writes_per_s), limit_ns)), default=None)

    def too_many_beside(self, writes_per_s: float, limit_ns: float) -> float | None:
        """The lowest rate of reads above that one at which a run did not hold it; None where none was tried."""
        held = self.reads_beside(writes_per_s, limit_ns) or 0.0
        rates = {p.reads_per_s for p in self.points if p.writes_per_s == writes_per_s and p.reads_per_s > held}
        return min((rate for rate in rates if not _all_hold(self.at(rate, writes_per_s), limit_ns)), default=None)

    def is_confirmed(self, reads_per_s: float, writes_per_s: float) -> bool:
        """Whether as many runs as that takes held the limit at these rates, and none broke it."""
        points = self.at(reads_per_s, writes_per_s)
        return len(points) >= CONFIRMED_BY and _all_hold(points, self.limit_ns)

    def frontier(self, limit_ns: float) -> list[tuple[float, float | None]]:
        """For each rate of writes the reads that are left."""
        return [(writes, self.reads_beside(writes, limit_ns)) for writes in self.columns]

    def document(self) -> dict[str, object]:
        points = [
            {
                "reads_per_s": p.reads_per_s,
                "writes_per_s": p.writes_per_s,
                "read_ns": p.value_ns,
                "write_ns": p.write_value_ns,
                "kept_up": p.kept_up,
                "run": p.run,
                "reads": p.reads,
            }
            for p in self.points
        ]
        frontier = [
            {
                "writes_per_s": w,
                "reads_per_s": r,
                "too_many_per_s": self.too_many_beside(w, self.limit_ns),
                "confirmed": r is not None and self.is_confirmed(r, w),
            }
            for w, r in self.frontier(self.limit_ns)
        ]
        return {
            "figure": self.figure,
            "limit_ns": self.limit_ns,
            "most_reads_per_s": self.most_reads_per_s,
            "most_writes_per_s": self.most_writes_per_s,
            "frontier": frontier,
            "points": points,
            "cut_short": self.cut_short,
            "interrupted": self.interrupted,
        }


def _all_hold(points: list[MapPoint], limit_ns: float) -> bool:
    return all(point.holds(limit_ns) for point in points)


def plan_of(asked: MapAsked, reads_per_s: float | None, writes_per_s: float | None, seconds: float) -> str:
    """A profile as text; a rate of None is as fast as it goes, and one of 0 nothing."""
    lines = [f"seed = {asked.seed}"]
    if seconds > INTERVALS:
        lines.append(f'interval = "{seconds / INTERVALS:.3f}s"')
    lines += ["[[phase]]", f'duration = "{seconds:.3f}s"', f'warmup = "{seconds / 5:.3f}s"']
    streams = (
        ("reads", reads_per_s, "{ read = 100 }", asked.read_bytes),
        ("writes", writes_per_s, "{ read = 0, write = 100 }", asked.write_bytes),
    )
    for name, rate, operations, size in streams:
        if rate == 0:
            continue
        lines += ["[[phase.stream]]", f'name = "{name}"', f"operations = {operations}", f'request = "{size}B"']
        lines += ['address = "random"', f"depth = {CLOSED_DEPTH if rate is None else DEPTH}"]
        if rate is not None:
            lines.append(f'pace = {{ loop = "open", rate = {float(rate)!r}, arrivals = "poisson" }}')
    return "\n".join(lines) + "\n"


def seconds_for(asked: MapAsked, reads_per_s: float, each_s: float, most_s: float) -> float:
    """Long enough for the figure."""
    return min(max(each_s, enough(asked.figure) / max(reads_per_s, 1e-9)), most_s)


def rate_of(record: Record, operation: str) -> float:
    return sum(row.iops for row in totals(record) if row.operation == operation)


def point_of(record: Record, asked: MapAsked, reads_per_s: float, writes_per_s: float) -> MapPoint:
    rows = totals(record)

    def value(operation: str) -> float | None:
        told = (row.measures.get(RESPONSE) for row in rows if row.operation == operation)
        found = next((one for one in told if one is not None), None)
        if found is None:
            return None
        return found.mean_ns if asked.figure == "mean" else found.percentiles.get(asked.figure)

    kept_up = sent(record).is_sustained
    reads = sum(row.requests for row in rows if row.operation == "read")
    return MapPoint(reads_per_s, writes_per_s, value("read"), value("write"), kept_up, record.info.id, reads)


Measure = Callable[[float, float, int], MapPoint]
"""Reads and writes a second, and the number of the run at these rates, from 0: each has arrivals of its own."""


def explore(found: InterferenceMap, measure: Measure, time_left: Callable[[], bool]) -> InterferenceMap:
    """Fills a map whose most reads and writes are known."""
    for share in COLUMNS:
        _column(found, share * found.most_writes_per_s, measure, time_left)
    for _ in range(MORE_COLUMNS):
        if (between := _steepest(found)) is None:
            break
        _column(found, between, measure, time_left)
    return found


def _column(found: InterferenceMap, writes_per_s: float, measure: Measure, time_left: Callable[[], bool]) -> None:
    _search(found, writes_per_s, measure, time_left)
    for _ in range(MOST_LOWERED):
        held = found.reads_beside(writes_per_s, found.limit_ns)
        if held is None:
            return
        for number in range(len(found.at(held, writes_per_s)), CONFIRMED_BY):
            if not time_left():
                found.cut_short = True
                return
            found.points.append(measure(held, writes_per_s, number))
        if found.reads_beside(writes_per_s, found.limit_ns) == held:
            return
        found.points.append(measure(held * (1 - TOLERANCE), writes_per_s, 0))


def _search(found: InterferenceMap, writes_per_s: float, measure: Measure, time_left: Callable[[], bool]) -> None:
    """Between no reads and the most: from the rate that would be left if reads and writes shared evenly."""
    low, high = 0.0, found.most_reads_per_s
    share = writes_per_s / found.most_writes_per_s if found.most_writes_per_s else 0.0
    rate = max(high * (1 - share) * 0.8, high * 0.05)
    for _ in range(MOST_STEPS):
        if not time_left():
            found.cut_short = True
            return
        point = measure(rate, writes_per_s, 0)
        found.points.append(point)
        if point.holds(found.limit_ns):
            low = rate
        else:
            high = rate
        if high <= low * (1 + TOLERANCE) or high < found.most_reads_per_s * LEAST_SHARE:
            return
        # Far below nothing is known: rates are halved by their logarithm there.
        rate = (low + high) / 2 if low else high / 3


def _steepest(found: InterferenceMap) -> float | None:
    """Halfway between the two rates of writes where the most reads are lost."""
    reads = [(writes, rate or 0.0) for writes, rate in found.frontier(found.limit_ns)]
    pairs = list(itertools.pairwise(reads))
    if not pairs:
        return None
    (first, before), (second, after) = max(pairs, key=lambda pair: pair[0][1] - pair[1][1])
    if before - after <= TOLERANCE * found.most_reads_per_s:
        return None
    return (first + second) / 2
