"""Duty: DIRTH's operating points beside the cells that they were chosen by, in words and rows, for terminal and page.

Refusal: no figure is mended. Where a point is not what its cell promised, the answer says so and names no point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.studies.pts import RANGE_MAX, Measured
from brickyard.store import Record
from brickyard.units import format_iops, format_ns

QUESTION = "What does the target sustain at the lowest, middle and highest demand (DIRTH)?"
REMEDY = "The table was not steady; measure with longer rounds (PTS: a minute)."
COLUMNS = ("point", "threads", "QD", "cell IOPS", "IOPS", "difference", "average", "99.999 %", "maximum", "run")
TITLE = (
    "Operating points: the cell by which each was chosen, and its longer measurement (`brickyard report RUN` "
    "draws histograms)"
)


def queue_words(workers: int, depth: int) -> str:
    return f"{workers} thread{'' if workers == 1 else 's'} × QD {depth}"


@dataclass(frozen=True)
class OperatingPoint:
    """A cell of the table, what it had there, and what a longer measurement of it gave."""

    name: str
    workers: int
    depth: int
    promised: Measured
    figures: Measured
    run: int

    @property
    def load(self) -> str:
        return queue_words(self.workers, self.depth)

    @property
    def difference(self) -> float:
        """As a share of the cell's IOPS."""
        return self.figures.iops / self.promised.iops - 1 if self.promised.iops else 0.0

    @property
    def is_as_promised(self) -> bool:
        """Within the range that PTS allows a steady state."""
        return abs(self.difference) <= RANGE_MAX


def troubles(points: Sequence[OperatingPoint], *, is_steady: bool) -> list[str]:
    """Why these are no operating points; nothing where they are."""
    said = [
        f"{point.name} does not match its cell: {format_iops(point.figures.iops)} IOPS, while the cell ({point.load}) "
        "had"
        f" {format_iops(point.promised.iops)} ({_percent(point.difference)})."
        for point in points
        if not point.is_as_promised
    ]
    if not all(one.figures.iops < other.figures.iops for one, other in pairwise(points)):
        order = ", ".join(f"{point.name} {format_iops(point.figures.iops)}" for point in points)
        said.append(f"The operating points are not in ascending order: {order} IOPS.")
    if not is_steady:
        said.append("The steady state that PTS requires was not reached.")
    return [*said, REMEDY] if said else []


def points_answer(points: Sequence[OperatingPoint], records: Sequence[Record], *, is_steady: bool) -> Answer:
    """With the names of the points only where they hold."""
    wrong = troubles(points, is_steady=is_steady)
    if wrong:
        figures = ", ".join(f"{format_iops(point.figures.iops)} with {point.load}" for point in points)
        said = [
            f"Warning: {' '.join(wrong)}",
            f"IOPS of the longer measurements, which are not a valid result: {figures}.",
        ]
    else:
        figures = ", ".join(f"{point.name} {format_iops(point.figures.iops)} ({point.load})" for point in points)
        said = [f"{figures}; each within {RANGE_MAX * 100:.0f} % of the cell by which it was chosen."]
    return Answer(QUESTION, tuple(said), belief(records))


def point_rows(points: Sequence[OperatingPoint]) -> list[list[str]]:
    """Rows for `COLUMNS`."""
    return [
        [
            point.name,
            str(point.workers),
            str(point.depth),
            format_iops(point.promised.iops),
            format_iops(point.figures.iops),
            _percent(point.difference),
            format_ns(point.figures.mean_ns),
            format_ns(point.figures.nines_ns),
            format_ns(point.figures.max_ns),
            str(point.run),
        ]
        for point in points
    ]


def _percent(share: float) -> str:
    return f"{share * 100:+.1f} %"
