"""Duty: the figures of one run that stand in lists of many runs, as one small value that can be kept.

They are what `figures.measured` says of the record; `FORMULA` is raised with every change that gives a record other
figures, so that kept ones are computed again. `tests/store/test_summaries.py` fails where that was forgotten.

Refusal: nothing is computed here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

import msgspec

from brickyard.analysis.figures.conditions import by_condition
from brickyard.analysis.figures.independent import determined_by
from brickyard.analysis.figures.latency import together
from brickyard.analysis.figures.named import (
    COMPARABLE,
    FIGURES,
    IOPS,
    PARTS,
    RATES_BY_OPERATION,
    Part,
    measured_of,
)
from brickyard.analysis.figures.ramp import ramp_limit
from brickyard.analysis.figures.ramp_result import at_result, closing_rates, ramp_results
from brickyard.analysis.figures.sending import length_told
from brickyard.analysis.figures.totals import Totals, asked_stream, rated_intervals, rated_rows, target_of, totals
from brickyard.analysis.judging.differing import asked_hash
from brickyard.analysis.judging.groups import state_of
from brickyard.analysis.judging.pairing import record_name
from brickyard.store import Record
from brickyard.units import MIB

FORMULA = 17
METADATA = "metadata/s"


class PartFigures(msgspec.Struct, frozen=True):
    """One operation of one stream of one phase in one condition: its figures by name; one that it has no value of is
    left out."""

    phase: str
    stream: str
    operation: str
    values: dict[str, float]
    condition: str = ""
    """Empty where none changed."""
    target: int | None = None
    """Which of the run's targets the stream worked on; None where several of its name worked on different ones."""


class PhaseFigures(msgspec.Struct, frozen=True):
    """A phase in one line of a list: the rate of all of its streams, what that counts, and the p99 of the response
    time of all of its requests. None where there is no value."""

    phase: str
    rate_per_s: float | None
    unit: str
    response_p99_ns: float | None
    of: str = ""
    """What of the phase it is, where that is not one load in one condition."""
    p99_is_of_few_events: bool = False
    """As in `Latency`."""


class WholeFigures(msgspec.Struct, frozen=True):
    """What a page shows of a run that has ended, as its tables have it: of its only phase, or else of its last. None
    where there is no value."""

    of: str
    per_s: float | None
    mib_per_s: float | None
    response_mean_ns: float | None
    response_max_ns: float | None
    cpu_share: float | None
    """What the generator used of one CPU."""
    errors: int | None
    """None where it is not known."""
    late_p99_ns: int | None


class RunFigures(msgspec.Struct, frozen=True):
    """`name`, `load` and `state` say which runs are alike: the levels or the profile, of which an imported result has
    none, the hash of what was asked, and what the storage was. Runs of one `measurement` repeat each other;
    it is empty where nothing but the run itself decides its figures."""

    name: tuple[str, ...]
    load: str
    state: tuple[str, str]
    """What `--set` changed of a model or how an emulated disk was made, and the condition."""
    measurement: str
    parts: list[PartFigures]
    phases: list[PhaseFigures]
    tool: str = ""
    """What made the run, where that was not Brickyard."""


def run_figures(record: Record) -> RunFigures:
    results = ramp_results(record)
    at = at_result(record, results)
    # Of a ramp that found no step within its limit, nothing compares.
    nothing = {phase for phase, result in results.items() if result.found is None and ramp_limit(record, phase)}
    rows = [row for row in totals(at) if row.phase not in nothing]
    return RunFigures(
        name=_name(record),
        load=asked_hash(record),
        state=state_of(record.info),
        measurement=_measurement(record),
        parts=[figures for condition, part in by_condition(at) for figures in _of_part(condition, part, nothing)],
        phases=_phases(record, at, rows),
        tool=record.info.tool,
    )


def _name(record: Record) -> tuple[str, ...]:
    """Without the name of the file of which a result was imported: each night may write one of its own."""
    name, info = record_name(record), record.info
    return name[1:] if info.is_imported and name[:1] == (info.profile,) else name


def _of_part(condition: str, part: Record, nothing: Collection[int]) -> list[PartFigures]:
    rows = [row for row in totals(part) if row.phase not in nothing]
    found: dict[Part, dict[str, float]] = {}
    lengths = length_told(part)
    for name in COMPARABLE:
        for item in measured_of(part, rows, FIGURES[name], split=PARTS, lengths=lengths):
            if item.value is not None:
                found.setdefault(item.part, {})[name] = item.value
    targets = _targets(part, rows)
    return [
        PartFigures(of.phase, of.stream, of.operation, values, condition, targets.get((of.phase, of.stream)))
        for of, values in found.items()
    ]


def _targets(record: Record, rows: Iterable[Totals]) -> dict[tuple[str, str], int]:
    """By the names of phase and stream, where these leave no doubt."""
    found: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        asked = asked_stream(record, row.phase, row.stream)
        if asked is not None:
            found.setdefault((row.phase_name, row.stream_name), set()).add(target_of(record, asked))
    return {names: targets.pop() for names, targets in found.items() if len(targets) == 1}


def _measurement(record: Record) -> str:
    what = determined_by(record)
    return "" if what is None else hashlib.sha256(what.encode()).hexdigest()


def _phases(record: Record, at: Record, rows: list[Totals]) -> list[PhaseFigures]:
    """The rate is that of a run's closing line."""
    p99 = FIGURES["response_p99"]
    times = {item.part.phase: item for item in measured_of(at, rows, p99, split=("phase",))}
    found = []
    for rate in closing_rates(record):
        counted = rated_rows(row for row in rows if row.phase_name == rate.phase_name)
        units = list(dict.fromkeys(RATES_BY_OPERATION.get(row.operation, IOPS) for row in counted))
        named = rate.metadata_per_s and not rate.iops
        per_s = rate.metadata_per_s if named else rate.iops
        unit = METADATA if named else units[0] if len(units) == 1 else IOPS
        rated = per_s if rate.is_rated and counted else None
        waited = times.get(rate.phase_name)
        is_of_few = waited is not None and waited.times is not None and p99.point in waited.times.few_events
        p99_ns = waited.value if waited else None
        found.append(PhaseFigures(rate.phase_name, rated, unit, p99_ns, rate.of, p99_is_of_few_events=is_of_few))
    return found


def whole_figures(record: Record) -> WholeFigures | None:
    """None where nothing was measured."""
    at = at_result(record)
    rates = closing_rates(record)
    if not rates:
        return None
    last = rates[-1]
    rows = [row for row in totals(at) if row.phase_name == last.phase_name]
    spans = rated_intervals(at, rows[0].phase)
    over_ns = sum(cost.end_ns - cost.start_ns for cost in spans)

    def value(name: str) -> float | None:
        return next((item.value for item in measured_of(at, rows, FIGURES[name])), None)

    late = together(row.lateness for row in rows if row.lateness)
    of_phase = f"phase {last.phase_name}" if len(rates) > 1 else "whole run"
    return WholeFigures(
        of=", ".join(filter(None, (of_phase, last.of))),
        per_s=last.iops if last.is_rated else None,
        mib_per_s=last.bytes_per_s / MIB if last.is_rated and record.info.knows_bytes else None,
        response_mean_ns=value("response_mean"),
        response_max_ns=value("response_max"),
        cpu_share=sum(cost.cpu_user_ns + cost.cpu_system_ns for cost in spans) / over_ns if over_ns else None,
        errors=last.errors,
        late_p99_ns=late.p99 if late else None,
    )
