"""Duty: the runs of a load curve's study as one curve: its levels, its limit, and the steps of its searches.

Refusal: no words, and no figure that `analysis.figures.load_curve` did not give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from brickyard import _core
from brickyard.analysis.figures.load_curve import CurvePoint, Limit, curve_point, step_of, stream_rates
from brickyard.analysis.figures.search import Carried, Step, carried, rates
from brickyard.analysis.studies.sustained import Sustained
from brickyard.bricks.spread import spread_of
from brickyard.store import Record, StudyInfo


@dataclass(frozen=True)
class Curve:
    maximum_per_s: float
    """What the closed loop reached, from which the offered rates were taken."""
    points: list[CurvePoint]
    limit: Limit | None = None
    searches: list[Carried] = field(default_factory=list)
    is_cut: bool = False
    """It was interrupted or failed: rates that it would have offered were not."""
    noun: str = "requests"
    model: tuple[str, float | None] | None = None
    """As `of_model` has it."""

    @property
    def sustained(self) -> Sustained:
        kind, cap_per_s = self.model or (None, None)
        spread = spread_of(kind) if kind else None
        found = rates(self.searches)
        return Sustained("", found, self.maximum_per_s, False, spread, kind, cap_per_s, noun=self.noun)

    @property
    def steps(self) -> list[Step]:
        return [step for found in self.searches for step in found.steps]


def curve_of(study: StudyInfo | None, records: Sequence[Record]) -> Curve | None:
    """The curve whose runs these are; None where they are none, or too few to draw one."""
    closed = [record for record in records if record.info.marks.loop == "closed"]
    if study is None or study.kept.curve is None or len(closed) != 1:
        return None
    maximum = sum(stream_rates(closed[0]).values())
    points = [
        curve_point(record, offered)
        for record in records
        if record.info.is_valid and (offered := record.info.marks.offered_per_s) is not None
    ]
    points.sort(key=lambda point: point.offered_per_s)
    limit = limit_of(study)
    if not any(point.mean_ns for point in points):
        return None
    searches = searches_of(records, limit) if limit else []
    return Curve(maximum, points, limit, searches, is_cut=study.outcome != "done")


def searches_of(records: Sequence[Record], limit: Limit) -> list[Carried]:
    """The searches whose steps are among these runs."""
    steps: dict[int, list[Step]] = {}
    for record in records:
        number, rate = record.info.marks.search, record.info.marks.searched_per_s
        if number is not None and rate is not None and record.info.is_valid:
            steps.setdefault(number, []).append(step_of(curve_point(record, rate), limit))
    return [carried(found) for _, found in sorted(steps.items())]


def is_of_search(record: Record) -> bool:
    """Whether a run is a step of a search for a limit, and no level of the curve."""
    return record.info.marks.searched_per_s is not None


def limit_of(study: StudyInfo) -> Limit | None:
    curve = study.kept.curve
    if curve is None or not curve.limit:
        return None
    figure, _, above = curve.limit.partition(":")
    return Limit(figure, _core.parse_duration_ns(above))
