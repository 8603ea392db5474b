"""Duty: the figures that tables of studies show, each one number of a run: rates, times, what they cost.

Histograms of streams, operations and repetitions are merged before a percentile is taken.

Refusal: phases are never mixed; whoever has several must say which one is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from brickyard.analysis.figures.background import rebuild_pace
from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.figures.condition import condition_samples
from brickyard.analysis.figures.latency import Latency, together
from brickyard.analysis.figures.ramp import steps
from brickyard.analysis.figures.sending import FROM_DUE, Length, length_told
from brickyard.analysis.figures.totals import Totals, errors_of, rate_of, rated_rows, totals, waited
from brickyard.percentiles import MEDIAN, TO_P99_9
from brickyard.schema import Counted, is_on_data, is_request, is_timed
from brickyard.store import CHAIN, Record
from brickyard.units import MIB, format_iops, format_ns, format_seconds, three_digits

BUCKET_SHARE = 1 / 128  # of HdrHistogram's buckets with two digits, at most


@dataclass(frozen=True)
class Figure:
    """`kind` says how it is shown and what it is made of."""

    name: str
    title: str
    unit: str
    more_is_better: bool
    kind: str
    measure: str = ""
    per_usd: bool = False

    def text(self, value: float | None) -> str:
        if value is None:
            return DASH
        if self.kind == "time":
            return format_ns(value)
        if self.kind == "span":
            return format_seconds(value)
        return three_digits(value) if self.kind != "rate" else format_iops(value)

    def words(self, value: float | None) -> str:
        """With its unit, where the text alone would not say it."""
        text = self.text(value)
        return text if value is None or not self.unit else f"{text} {self.unit}"

    @property
    def point(self) -> str:
        return self.name.removeprefix(f"{self.measure}_")

    @property
    def is_of_requests(self) -> bool:
        """Of every single request, not of a rate alone."""
        return self.kind in ("time", "errors")

    @property
    def is_percentile(self) -> bool:
        return self.kind == "time" and self.point not in ("mean", "max")

    def of_time(self, whose: str) -> Figure:
        """A percentile, as it is called where it is of the time `whose`; where that is empty, of its measure."""
        return replace(self, title=self.title.replace(f"the {time_words(self.measure)}", whose)) if whose else self

    @property
    def resolution(self) -> float:
        """How far apart, as a share, two equal figures may be read: percentiles come from buckets of histograms."""
        return BUCKET_SHARE if self.is_percentile else 0.0

    @property
    def heading(self) -> str:
        return self.unit or self.title


LATENCY = "latency"
"""A measure for two programs of which one knows no due instants; see `shared_latency`."""
LATENCY_TOLD = (
    "latency: of Brickyard, the response time, or the service time where the workload has a rate; of other programs, "
    "the time that they report, such as fio's lat"
)


def time_words(measure: str) -> str:
    return measure if measure == LATENCY else f"{measure} time"


def _times() -> list[Figure]:
    return [
        Figure(
            f"{measure}_{point}",
            f"{words} {time_words(measure)}" if point != "max" else f"longest {time_words(measure)}",
            "",
            more_is_better=False,
            kind="time",
            measure=measure,
        )
        for measure in ("response", "service", LATENCY)
        for point, words in (
            ("mean", "mean"),
            *((name, "median" if name == MEDIAN else f"{name} of the") for name in TO_P99_9),
            ("max", ""),
        )
    ]


IOPS = "IOPS"
RATES_BY_OPERATION: dict[str, str] = {
    **dict.fromkeys((name for name in Counted if is_on_data(name)), IOPS),
    Counted.FLUSH: "flushes/s",
    Counted.CREATE: "creations/s",
    Counted.OPEN: "opens/s",
    Counted.CLOSE: "closes/s",
    Counted.STAT: "lookups/s",
    Counted.UNLINK: "deletions/s",
    Counted.MKDIR: "directories made/s",
    Counted.RMDIR: "directories removed/s",
    Counted.CHAIN: "chains/s",
    Counted.CREATE_FILE: "files created/s",
    Counted.READ_FILE: "files read/s",
    Counted.APPEND_FILE: "files appended/s",
    Counted.FRAME: "frames/s",
    Counted.COMMIT: "commits/s",
    Counted.CALL: "calls/s",
    Counted.LOAD: "tiles/s",
}
"""Only requests on data have IOPS; what else is counted has a rate of its own name."""


def figure_of(figure: Figure, operation: str) -> Figure:
    """A figure as it is called for an operation: nobody's calls are IOPS."""
    title = RATES_BY_OPERATION.get(operation, IOPS)
    return replace(figure, title=title, unit=title) if figure.name == "iops" else figure


_FIGURES = (
    Figure("iops", "IOPS", "IOPS", more_is_better=True, kind="rate"),
    Figure("tps", "transactions", "transactions/s", more_is_better=True, kind="rate"),
    Figure("mib_per_s", "throughput", "MiB/s", more_is_better=True, kind="mib"),
    Figure("chains_per_s", "chains", "chains/s", more_is_better=True, kind="rate"),
    Figure("iops_within", "IOPS within the limit", "", more_is_better=True, kind="within"),
    *_times(),
    Figure("errors", "failed requests", "", more_is_better=False, kind="errors"),
    Figure("usd_per_iops", "price", "USD per IOPS", more_is_better=False, kind="rate_price", per_usd=True),
    Figure("usd_per_mib_per_s", "price", "USD per MiB/s", more_is_better=False, kind="mib_price", per_usd=True),
    Figure("usd_per_iops_within", "price", "USD per IOPS within the limit", False, kind="within_price", per_usd=True),
    Figure("time_to_redundancy", "time to redundancy", "", more_is_better=False, kind="span"),
)
FIGURES: dict[str, Figure] = {figure.name: figure for figure in _FIGURES}
PARTS = ("phase", "stream", "operation")
"""What one run has several of, and every way to split its figures; tables may use them like factors."""
OF_ONE_PROGRAM = tuple(name for name, figure in FIGURES.items() if figure.measure != LATENCY)
COMPARABLE = tuple(name for name in OF_ONE_PROGRAM if FIGURES[name].kind in ("rate", "mib", "time"))


@dataclass(frozen=True)
class Part:
    """What of a run a value is about; empty where it is about all of it."""

    phase: str = ""
    stream: str = ""
    operation: str = ""

    def named(self, names: Iterable[str]) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Measured:
    """A figure of one part of a run, of percentiles with the times it is of. `trouble` says why there is no value."""

    part: Part
    value: float | None
    trouble: str = ""
    times: Latency | None = None


def measured(
    record: Record,
    figure: Figure,
    *,
    split: tuple[str, ...] = (),
    where: dict[str, tuple[str, ...]] | None = None,
    limit_ns: int | None = None,
    usd: float | None = None,
) -> list[Measured]:
    """The figure for each part that `split` tells apart (phase, stream, operation), of what `where` lets through."""
    if figure.kind == "span":
        return [Measured(Part(), _redundancy_s(record))]
    return measured_of(record, totals(record), figure, split=split, where=where, limit_ns=limit_ns, usd=usd)


def measured_of(
    record: Record,
    rows: Iterable[Totals],
    figure: Figure,
    *,
    split: tuple[str, ...] = (),
    where: dict[str, tuple[str, ...]] | None = None,
    limit_ns: int | None = None,
    usd: float | None = None,
    lengths: Mapping[tuple[int, int], Length] | None = None,
) -> list[Measured]:
    """As `measured`, of the rows of `totals`, for whoever needs several figures of one record. Times from when requests
    were due are none where they tell how long the run was, as in `lengths`, or else in `length_told` of the record."""
    chosen = [row for row in _of_figure(record, rows, figure, split, where or {}) if _is_asked(row, where or {})]
    groups: dict[Part, list[Totals]] = {}
    for row in chosen:
        groups.setdefault(_part(row, split), []).append(row)
    if figure.kind != "time" or figure.measure not in FROM_DUE:
        return [_one(record, figure, part, same, limit_ns, usd) for part, same in groups.items()]
    known = length_told(record) if lengths is None else lengths
    found = []
    for part, same in groups.items():
        told = next((known[key] for row in same if (key := (row.phase, row.stream)) in known), None)
        found.append(Measured(part, None, told.words) if told else _one(record, figure, part, same, limit_ns, usd))
    return found


def _of_figure(
    record: Record, rows: Iterable[Totals], figure: Figure, split: tuple[str, ...], where: dict[str, tuple[str, ...]]
) -> list[Totals]:
    """Rows that a figure is of where nobody names operations: rates of what IOPS counts, failures of every request,
    times of what was waited for."""
    if figure.name == "chains_per_s":
        return [row for row in rows if row.operation == CHAIN]
    if "operation" in where:
        return list(rows)
    if figure.kind == "time":
        return [row for row in rows if is_timed(row.operation)] if "operation" in split else waited(record, rows)
    return [row for row in rows if is_request(row.operation)] if figure.is_of_requests else rated_rows(rows)


def _is_asked(row: Totals, where: dict[str, tuple[str, ...]]) -> bool:
    named = {"phase": row.phase_name, "stream": row.stream_name, "operation": row.operation}
    return all(named[key] in where[key] for key in named if key in where)


def _part(row: Totals, split: tuple[str, ...]) -> Part:
    return Part(
        row.phase_name if "phase" in split else "",
        row.stream_name if "stream" in split else "",
        row.operation if "operation" in split else "",
    )


def _one(
    record: Record, figure: Figure, part: Part, rows: list[Totals], limit_ns: int | None, usd: float | None
) -> Measured:
    phases = list(dict.fromkeys(row.phase_name for row in rows))
    if len(phases) > 1:
        return Measured(part, None, f"the run has the phases {', '.join(phases)}; name one, or use phase as a factor")
    if figure.kind.removesuffix("_price") == "mib" and (unknown := record.info.bytes_unknown_words):
        return Measured(part, None, unknown)
    times = _times_of(figure, rows) if figure.is_percentile else None
    value = _value(record, figure, rows, limit_ns)
    if figure.per_usd:
        value = usd / value if usd is not None and value else None
    return Measured(part, value, times=times)


def _value(record: Record, figure: Figure, rows: list[Totals], limit_ns: int | None) -> float | None:
    kind = figure.kind.removesuffix("_price")
    if kind == "errors":
        return _float(errors_of(rows))
    if kind == "within":
        return _within(record, rows[0].phase, limit_ns)
    if kind == "time":
        return _time(figure, rows)
    rate = rate_of(rows)
    if rate is None:
        return None
    return rate.bytes_per_s / MIB if kind == "mib" else rate.iops


def _within(record: Record, phase: int, limit_ns: int | None) -> float | None:
    """The highest rate of a ramp's steps whose mean response keeps the limit."""
    kept = [
        step.iops
        for step in steps(record)
        if step.phase == phase and step.response and limit_ns is not None and step.response.mean_ns <= limit_ns
    ]
    return max(kept, default=None)


def _time(figure: Figure, rows: list[Totals]) -> float | None:
    whole = _times_of(figure, rows)
    if whole is None:
        return None
    if figure.is_percentile:
        return _float(whole.percentiles[figure.point])
    return whole.mean_ns if figure.point == "mean" else float(whole.max_ns)


def _times_of(figure: Figure, rows: list[Totals]) -> Latency | None:
    return together(row.measures[figure.measure] for row in rows if figure.measure in row.measures)


def percentile_of_all(figure: Figure, times: Iterable[Latency | None]) -> float | None:
    """Of several runs as of one: their histograms are merged. None where the figure is no percentile."""
    whole = together(item for item in times if item is not None) if figure.is_percentile else None
    return None if whole is None else _float(whole.percentiles[figure.point])


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _redundancy_s(record: Record) -> float | None:
    """From nothing to whole at the pace of the run: that of the modelled rebuild, or the one seen between the first
    and the last look at an array."""
    pace = rebuild_pace(record)
    if pace is not None:
        return pace.whole_s()
    told = [(s.unix_ns, s.progress_share) for s in condition_samples(record) if s.progress_share is not None]
    if len(told) < 2 or told[-1][0] <= told[0][0] or told[-1][1] <= told[0][1]:
        return None
    return (told[-1][0] - told[0][0]) / 1e9 / (told[-1][1] - told[0][1])
