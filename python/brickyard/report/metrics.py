"""Duty: what runs measured as Prometheus text (0.0.4) or OpenMetrics (1.0), for a textfile collector or a push.

Refusal: no time series. A run is one sample of each metric; its intervals are in the other exports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from brickyard.analysis.figures.conditions import Stood
from brickyard.analysis.figures.totals import Totals, asked_stream, totals
from brickyard.analysis.judging.marks import marks_of
from brickyard.analysis.judging.summary import changed
from brickyard.percentiles import percentile_of
from brickyard.store import Record
from brickyard.units import NS

RUN = "brickyard_run"  # the first of the metrics
Labels = dict[str, str]
Sample = tuple[str, Labels, float]  # suffix of the family's name, labels, value


@dataclass(frozen=True)
class Family:
    """A metric with its samples. `unit` is the last part of the name, where it has one."""

    name: str
    kind: str
    unit: str
    about: str
    samples: Callable[[Record], Iterator[Sample]]


def metrics_text(records: list[Record], *, openmetrics: bool) -> str:
    lines = []
    for family in FAMILIES:
        samples = [sample for record in records for sample in family.samples(record)]
        if samples:
            lines += _head(family, openmetrics=openmetrics)
            lines += [f"{family.name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in samples]
    return "\n".join([*lines, *(["# EOF"] if openmetrics else [])]) + "\n"


def _head(family: Family, *, openmetrics: bool) -> list[str]:
    if openmetrics:
        unit = [f"# UNIT {family.name} {family.unit}"] if family.unit else []
        return [f"# TYPE {family.name} {family.kind}", *unit, f"# HELP {family.name} {family.about}"]
    # The older format names a counter as its samples are named, and knows no information metrics.
    name = family.name + {"counter": "_total", "info": "_info"}.get(family.kind, "")
    return [f"# HELP {name} {family.about}", f"# TYPE {name} {'gauge' if family.kind == 'info' else family.kind}"]


def _labels(labels: Labels) -> str:
    escaped = (
        (key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, value in labels.items()
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _of_run(record: Record) -> Labels:
    return {"run": str(record.info.id)}


def _of_row(record: Record, row: Totals) -> Labels:
    return {**_of_run(record), "phase": row.phase_name, "stream": row.stream_name, "operation": row.operation}


def _info(record: Record) -> Iterator[Sample]:
    info = record.info
    said = {
        "profile": info.profile,
        "profile_hash": info.profile_hash,
        "condition": Stood(record).throughout,
        "outcome": info.outcome,
        "target": ",".join(info.targets),
        **changed(info),
        "engine": info.start.engine if info.start else "",
        "io": info.start.io if info.start else "",
        "software_version": info.software_version,
        "hostname": (info.facts.host.name if info.facts.host else None) or "",
    }
    yield "_info", {**_of_run(record), **said}, 1


def _start(record: Record) -> Iterator[Sample]:
    if (began_ns := record.info.began_unix_ns) is not None:
        yield "", _of_run(record), began_ns / NS


def _warnings(record: Record) -> Iterator[Sample]:
    yield "", _of_run(record), len(record.info.warnings)


def _marks(record: Record) -> Iterator[Sample]:
    for mark in marks_of(record.info):
        yield "", {**_of_run(record), "mark": mark}, 1


def _each(value: Callable[[Totals], float | None], suffix: str = "") -> Callable[[Record], Iterator[Sample]]:
    def samples(record: Record) -> Iterator[Sample]:
        for row in totals(record):
            found = value(row)
            if found is not None:
                yield suffix, _of_row(record, row), found

    return samples


def _asked(key: str) -> Callable[[Record], Iterator[Sample]]:
    """A key of the streams' plan."""

    def samples(record: Record) -> Iterator[Sample]:
        for row in totals(record):
            value = getattr(asked_stream(record, row.phase, row.stream), key, None)
            if isinstance(value, int):
                yield "", _of_row(record, row), value

    return samples


def _latency(record: Record) -> Iterator[Sample]:
    for row in totals(record):
        for measure, found in row.measures.items():
            labels = {**_of_row(record, row), "measure": measure}
            for name, value in found.percentiles.items():
                if value is not None:
                    quantile = f"{percentile_of(name) / 100:.6g}"
                    yield "", {**labels, "quantile": quantile}, value / NS
            yield "_sum", labels, found.mean_ns * found.count / NS
            yield "_count", labels, found.count


def _maximum(record: Record) -> Iterator[Sample]:
    for row in totals(record):
        for measure, found in row.measures.items():
            yield "", {**_of_row(record, row), "measure": measure}, found.max_ns / NS


FAMILIES = (
    Family(RUN, "info", "", "Circumstances of a run.", _info),
    Family("brickyard_run_start_timestamp_seconds", "gauge", "seconds", "When a run began.", _start),
    Family("brickyard_run_warnings", "gauge", "", "Warnings about a run.", _warnings),
    Family("brickyard_run_mark", "gauge", "", "Why figures of a run are not what they seem.", _marks),
    Family("brickyard_workers", "gauge", "", "Workers of a stream.", _asked("workers")),
    Family("brickyard_depth", "gauge", "", "Queue depth of each worker.", _asked("depth")),
    Family("brickyard_requests", "counter", "", "Requests that ended well.", _each(lambda r: r.requests, "_total")),
    Family("brickyard_transferred_bytes", "counter", "bytes", "Bytes moved.", _each(lambda r: r.bytes, "_total")),
    Family("brickyard_errors", "counter", "", "Requests that failed.", _each(lambda r: r.errors, "_total")),
    Family("brickyard_rated_seconds", "gauge", "seconds", "Time of the rates.", _each(lambda r: r.rated_ns / NS)),
    Family(
        "brickyard_requests_per_second", "gauge", "", "Requests/s.", _each(lambda r: r.iops if r.is_rated else None)
    ),
    Family(
        "brickyard_bytes_per_second", "gauge", "", "Bytes/s.", _each(lambda r: r.bytes_per_s if r.is_rated else None)
    ),
    Family("brickyard_latency_seconds", "summary", "seconds", "Time of a request, by measure.", _latency),
    Family("brickyard_latency_max_seconds", "gauge", "seconds", "The slowest request.", _maximum),
)
