"""Duty: a record held against a ruler: pass or fail, head room as a factor, and the figure that decided.

Refusal: a figure that was not measured passes nothing, and neither do requests of which some failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from brickyard.analysis.latency import latency, merge, with_max
from brickyard.analysis.totals import Totals, totals
from brickyard.rulers import Requirement, Ruler
from brickyard.store import CHAINS, METADATA, Json, Record


@dataclass(frozen=True)
class Finding:
    """One requirement. `value` is in the unit of its threshold, None where it could not be measured.

    `head_room` above 1 is how many times over the requirement is met, below 1 the share of it that is.
    """

    requirement: Requirement
    phase: str
    value: float | None
    head_room: float | None
    errors: int
    passed: bool

    @property
    def reason(self) -> str:
        if self.value is None:
            return "not measured"
        return f"{self.errors:,} requests failed" if self.errors else ""


@dataclass(frozen=True)
class Verdict:
    ruler: Ruler
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    @property
    def decided(self) -> Finding:
        """The figure that decided: one that fails before one that passes, then the least head room."""
        return min(self.findings, key=lambda f: (f.passed, f.head_room if f.head_room is not None else 0.0))


def verdict(record: Record, ruler: Ruler) -> Verdict:
    rows = totals(record)
    return Verdict(ruler, tuple(_worst_phase(rows, requirement) for requirement in ruler.requirements))


def _worst_phase(rows: list[Totals], requirement: Requirement) -> Finding:
    """A requirement holds for a run when it holds in each of its phases; phases without such requests are none."""
    asked = [row for row in rows if _is_asked(row, requirement)]
    phases = sorted({row.phase for row in asked})
    found = [_finding([row for row in asked if row.phase == phase], requirement) for phase in phases]
    if not found:
        return Finding(requirement, "", None, None, 0, passed=False)
    return min(found, key=lambda f: (f.passed, f.head_room if f.head_room is not None else 0.0))


def _is_asked(row: Totals, requirement: Requirement) -> bool:
    if requirement.operation is None:
        # A chain is made of requests that are counted already; a flush and what is done to names move nothing.
        chosen = row.operation not in (CHAINS | METADATA | {"flush"} if requirement.is_rate else CHAINS)
    else:
        chosen = row.operation == requirement.operation
    return chosen and (requirement.stream is None or fnmatchcase(row.stream_name, requirement.stream))


def _finding(rows: list[Totals], requirement: Requirement) -> Finding:
    value = _value(rows, requirement)
    errors = sum(row.errors for row in rows)
    if value is None:
        return Finding(requirement, rows[0].phase_name, None, None, errors, passed=False)
    head_room = value / requirement.threshold if requirement.is_rate else requirement.threshold / max(value, 1.0)
    return Finding(requirement, rows[0].phase_name, value, head_room, errors, passed=head_room >= 1 and not errors)


def _value(rows: list[Totals], requirement: Requirement) -> float | None:
    if requirement.is_rate:
        if not any(row.rated_ns for row in rows):
            return None
        return sum(row.iops if requirement.figure == "iops" else row.bytes_per_s for row in rows)
    measured = [row.measures[requirement.measure] for row in rows if requirement.measure in row.measures]
    exact_ns = max((item.max_ns for item in measured), default=0)
    figures = with_max(latency(merge(item.histogram for item in measured)), exact_ns)
    if figures is None:
        return None
    if requirement.figure == "mean":
        return figures.mean_ns
    if requirement.figure == "max":
        return float(figures.max_ns)
    percentile = figures.percentiles[requirement.figure]
    return None if percentile is None else float(percentile)


def verdict_document(found: Verdict) -> Json:
    return {
        "ruler": found.ruler.name,
        "title": found.ruler.title,
        "passed": found.passed,
        "head_room": found.decided.head_room,
        "decided_by": found.decided.requirement.name,
        "findings": [
            {
                "name": f.requirement.name,
                "phase": f.phase or None,
                "figure": f.requirement.figure,
                "measure": None if f.requirement.is_rate else f.requirement.measure,
                "operation": f.requirement.operation,
                "stream": f.requirement.stream,
                "unit": unit(f.requirement),
                "threshold": f.requirement.threshold,
                "value": f.value,
                "head_room": f.head_room,
                "errors": f.errors,
                "passed": f.passed,
                "reason": f.reason or None,
            }
            for f in found.findings
        ],
    }


def unit(requirement: Requirement) -> str:
    return {"iops": "requests/s", "throughput": "bytes/s"}.get(requirement.figure, "ns")
