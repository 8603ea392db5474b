"""Duty: the JSON or JSON+ that fio (3.x) wrote → the events of a run, so that it can stand in the store beside ours.

Means, maxima and percentiles stay those that fio printed (event `imported`). Bins of JSON+ become a histogram as they
are; plain JSON has percentiles only, whose histogram has steps, and a warning says so. `clat` runs from submission to
completion, as our service time does; fio knows no due instant, so there is no response time. The times of `fsync` and
`fdatasync` are in `sync`, apart from the writes; they become the stream's flushes.

Refusal: fio 2, whose times are in µs under other names, is refused.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.fio_layout import Layout, lay_out, options_of
from brickyard.ready import ready
from brickyard.schema import SCHEMA, RunFacts, RunWarning
from brickyard.schema.plan import Plan
from brickyard.store import Json, Store

DIRECTIONS = ("read", "write", "trim")
LARGEST = 1 << 62
DEPTHS = {"1": 1, "2": 3, "4": 7, "8": 15, "16": 31, "32": 63, ">=64": LARGEST}
"""fio's classes of requests in flight, each with the most that it holds."""
REBUILT = RunWarning(
    id="fio-percentiles",
    severity="warning",
    text="fio printed percentiles and no distribution; these are fio's own figures, nothing is known between them.",
    remedy="run fio with --output-format=json+",
)
FLAGS_UNKNOWN = RunWarning(
    id="fio-flags",
    severity="note",
    text="The workload is read from fio's JSON, which omits options without a value (norandommap, time_based).",
    remedy="import the job file as well to see the whole load",
)
CUT = RunWarning(
    id="fio-cut",
    severity="warning",
    text="fio's last document is cut off; these figures are of the status before it, and what came later is missing.",
)
DOCUMENT = re.compile(r"^\{", re.MULTILINE)


def read_result(text: str) -> Json:
    """The last whole document, also where fio has written lines of text before it."""
    return read_results(text).document


@dataclass(frozen=True)
class Printed:
    """What fio printed: its last whole document, and how many came before it (`--status-interval`)."""

    document: Json
    before: int = 0
    is_cut: bool = False
    """Another document begins after it and does not end."""

    @property
    def warnings(self) -> list[RunWarning]:
        if self.is_cut:
            return [CUT]
        said = f"fio printed {self.before} status document{'' if self.before == 1 else 's'} before the final one, which"
        text = f"{said} alone was imported, since its figures are over the whole time."
        return [RunWarning(id="fio-status", severity="note", text=text)] if self.before else []


def read_results(text: str) -> Printed:
    """Raises BadInputError where the documents are not of one run of fio."""
    found: list[Json] = []
    is_cut = False
    begin: int | None = text.find("{")
    while begin is not None:
        try:
            document, end = json.JSONDecoder().raw_decode(text[begin:] if begin >= 0 else "")
        except (ValueError, RecursionError) as error:
            if not found:
                raise BadInputError(f"not fio's JSON: {error}") from error
            is_cut = True
            break
        if "fio version" not in document or not isinstance(document.get("jobs"), list):
            raise BadInputError("not fio's JSON: it has no `fio version` and jobs")
        found.append(document)
        further = DOCUMENT.search(text, begin + end)
        begin = further.start() if further else None
    for earlier, later in pairwise(map(_progress, found)):
        if earlier.names != later.names or earlier.issued > later.issued:
            raise BadInputError(f"{len(found)} results of different runs of fio; import each from a file of its own")
    return Printed(found[-1], len(found) - 1, is_cut)


class _Direction(msgspec.Struct):
    total_ios: int = 0


class _Job(msgspec.Struct):
    jobname: str = ""
    read: _Direction = msgspec.field(default_factory=_Direction)
    write: _Direction = msgspec.field(default_factory=_Direction)
    trim: _Direction = msgspec.field(default_factory=_Direction)


class _Progress(msgspec.Struct):
    """How far fio was when it printed a document."""

    jobs: list[_Job]

    @property
    def names(self) -> list[str]:
        return [job.jobname for job in self.jobs]

    @property
    def issued(self) -> int:
        return sum(one.total_ios for job in self.jobs for one in (job.read, job.write, job.trim))


def _progress(document: object) -> _Progress:
    try:
        return msgspec.convert(document, _Progress)
    except msgspec.ValidationError as error:
        raise BadInputError(f"fio's JSON is not as fio 3 writes it: {error}") from error


def result_hash(document: object) -> str:
    """Alike for the same result, whatever its file is called."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def stored_result(store: Store, document: object) -> int | None:
    """The run that this result has become before."""
    try:
        wanted, began_ns = result_hash(document), _began_ns(document)
    except (TypeError, ValueError, OverflowError):
        return None  # it cannot be stored either
    ids = [head.id for head in store.heads() if head.start_unix_ns == began_ns]
    return next((run.id for run in store.runs(ids) if run.profile_hash == wanted), None)


def store_result(store: Store, document: Json, *, profile: str, plan: Plan | None = None, **circumstances: Any) -> int:
    """Appends a run with what fio measured; gives back its number."""
    try:
        layout = lay_out(document, plan)
        events, is_rebuilt = _events(document, layout)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadInputError(f"fio's JSON is not as fio 3 writes it: {type(error).__name__} {error}") from error
    run = store.add_run(
        profile=profile,
        profile_hash=circumstances.get("profile_hash") or result_hash(document),
        plan=layout.plan,
        condition="normal",
        targets=circumstances.get("targets") or _targets(document),
        options={},
        software_version=str(document["fio version"]),
        facts=circumstances.get("facts") or RunFacts(),
        study=circumstances.get("study"),
        labels=circumstances.get("labels"),
    )
    events[0].update({name: value for name, value in circumstances.items() if name == "io"})
    store.add_events(run, events)
    failed = [job for job in document["jobs"] if job.get("error")]
    outcome = "interrupted" if circumstances.get("is_stopped") else "failed" if failed else "done"
    message = f"fio: job {failed[0]['jobname']} ended with error {failed[0]['error']}" if failed else ""
    end_ns = max(event["end_ns"] for event in events if event["event"] == "phase_end")
    found = [REBUILT] * is_rebuilt + [FLAGS_UNKNOWN] * layout.is_guessed
    end = {"end_ns": end_ns, "outcome": outcome, "message": message}
    store.end_run(run, end, None, [*circumstances.get("warnings", []), *found])
    return run


def _targets(document: Json) -> list[str]:
    options = [document.get("global options") or {}, *(job.get("job options") or {} for job in document["jobs"])]
    named = [str(item["filename"]) for item in options if item.get("filename")]
    return list(dict.fromkeys(named)) or ["fio"]


def _events(document: Json, layout: Layout) -> tuple[list[Json], bool]:
    events: list[Json] = [_start(document)]
    rows = Counter(msgspec.convert(document, _Progress).names)
    is_rebuilt = False
    at_ns = 0
    for phase, members in enumerate(layout.phases):
        jobs = [job for _, job in members]
        if not jobs:
            continue
        runtimes_ns = [{d: _count(job[d]["runtime"]) * 1_000_000 for d in DIRECTIONS} for job in jobs]
        span_ns = max(1_000_000, *(own_ns for found in runtimes_ns for own_ns in found.values()))
        cells: list[Json] = []
        failures: Counter[str] = Counter()
        ran: dict[int, list[Json]] = {}
        for (stream, job), runtime_ns in zip(members, runtimes_ns, strict=True):
            options = options_of(document, job)
            depth = _depth(options.get("iodepth", "1"), job.get("iodepth_level") or {})
            depth *= _clones(rows[job["jobname"]], options.get("numjobs", "1"))
            times = _under(job, "sync", "lat_ns")
            flushes = {"total_ios": _under(times, "N") or 0, "io_bytes": 0, "lat_ns": times}
            runtime_ns["flush"] = max(runtime_ns.values())  # fio has none for them
            for operation, found in [*((name, job[name]) for name in DIRECTIONS), ("flush", flushes)]:
                if _count(found["total_ios"]):
                    has_failed = bool(job.get("error")) and operation in DIRECTIONS
                    cell, rebuilt = _cell(stream, operation, found, depth, has_failed=has_failed)
                    cells.append(cell)
                    failures[_errno(job["error"]) if has_failed else "unknown"] += cell["errors"]
                    ran.setdefault(runtime_ns[operation] or span_ns, []).append(cell)
                    is_rebuilt |= rebuilt
                    events += _imported(phase, stream, operation, found)
        if not cells:
            raise BadInputError("fio's JSON has no request")
        busy = [_cpu(job, span_ns) for job in jobs]
        cpu = {"user_ns": sum(user for user, _ in busy), "system_ns": sum(system for _, system in busy)}
        common = {"phase": phase, "end_ns": at_ns + span_ns, "cpu": cpu, "loop_busy_share": 0.0}
        events.append({"event": "phase", "phase": phase, "name": f"phase-{phase + 1}", "start_ns": at_ns})
        interval = {"event": "interval", "index": 0, "start_ns": at_ns, "warmup": False, "drain": False, "knob": None}
        # fio takes its rates over the time that each job ran, which may be shorter than that of the phase.
        ran.setdefault(span_ns, [])
        for own_ns, some in sorted(ran.items()):
            used = cpu if own_ns == span_ns else dict.fromkeys(cpu, 0)
            events.append({**interval, **common, "end_ns": at_ns + own_ns, "cells": some, "cpu": used})
        events.append(
            {
                "event": "phase_end",
                "reason": "requests",
                "unsent": 0,
                "outstanding": 0,
                "errors_by_errno": dict(+failures),
                "errors_by_kind": {},
                "slowest": [],
                "generator_bound": False,
                **common,
            }
        )
        at_ns += span_ns
    return events, is_rebuilt


def _under(found: Any, *keys: str) -> Any:
    """What stands under a path of keys; None where it is not there."""
    for key in keys:
        found = found.get(key) if found else None
    return found


def _errno(number: object) -> str:
    """fio names the first error of a job only."""
    return errno.errorcode.get(_count(number), "unknown")


def _imported(phase: int, stream: int, direction: str, found: Json) -> list[Json]:
    """The figures that fio printed, as it printed them."""
    times = _times(found)
    if not _count(times.get("N", 1)):
        return []
    percentiles = {f"p{float(p):g}": _count(v) for p, v in (times.get("percentile") or {}).items()}
    return [
        {
            "event": "imported",
            "phase": phase,
            "stream": stream,
            "operation": direction,
            "measure": "service",
            "mean_ns": float(times["mean"]),
            "min_ns": _count(times["min"]),
            "max_ns": _count(times["max"]),
            "percentiles": percentiles,
            "has_bins": bool(times.get("bins")),
        }
    ]


def _start(document: Json) -> Json:
    direct = {options_of(document, job).get("direct", "") for job in document["jobs"]}
    return {
        "event": "start",
        "schema": SCHEMA,
        "start_unix_ns": _began_ns(document),
        "engine": "fio",
        "engine_reason": {"kind": "import", "version": str(document["fio version"])},
        "io": "direct" if "1" in direct else "buffered",
        "targets": [],
        "phases": [],
    }


class _Printed(msgspec.Struct):
    """When fio printed a document; older versions know the second alone."""

    timestamp_ms: int = 0
    timestamp: int = 0


def _began_ns(document: object) -> int:
    try:
        when = msgspec.convert(document, _Printed)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    return _count(when.timestamp_ms or when.timestamp * 1000) * 1_000_000


def _count(value: Any) -> int:
    number = int(value)
    if isinstance(value, bool) or not 0 <= number <= LARGEST:
        raise ValueError(f"{value} is not a count")
    return number


def _cpu(job: Json, span_ns: int) -> tuple[int, int]:
    shares = [float(job.get(key, 0)) for key in ("usr_cpu", "sys_cpu")]
    user, system = (round(share / 100 * span_ns) if math.isfinite(share) else 0 for share in shares)
    return user, system


def _depth(asked: str, levels: Mapping[str, float]) -> int:
    """A job's iodepth, or what was in flight at most where that was less, as with a synchronous engine."""
    depth = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 1
    seen = [DEPTHS[name] for name, share in levels.items() if name in DEPTHS and share]
    return max(1, min(depth, max(seen, default=depth)))


def _clones(rows: int, asked: str) -> int:
    """How many clones of a job a row has: all of them where fio printed them as one (`group_reporting`)."""
    return int(asked) if rows == 1 and asked.isascii() and asked.isdigit() and 0 < len(asked) < 7 else 1


def _cell(stream: int, direction: str, found: Json, depth: int, *, has_failed: bool) -> tuple[Json, bool]:
    """Of a job that failed, fio counts all requests that it issued and times those that succeeded: the others failed.
    Without times, at least the last one did."""
    requests = _count(found["total_ios"])
    errors = _count(found.get("drop_ios", 0)) + _count(found.get("short_ios", 0))
    times = _times(found)
    if has_failed:
        timed = _count(times.get("N", 0))
        succeeded = timed if timed or not _count(found["io_bytes"]) else requests - 1
        failed = max(0, requests - succeeded)
        requests, errors = requests - failed, errors + failed
    cell: Json = {
        "stream": stream,
        "operation": direction,
        "requests": requests,
        "bytes": _count(found["io_bytes"]),
        "errors": errors,
        "depth_max": depth,
        "measures": {},
    }
    if not _count(times.get("N", requests)):
        return cell, False
    pairs, is_rebuilt = _pairs(times, requests)
    histogram = _core.Histogram.of_counts(pairs)
    p50, p99 = histogram.percentiles_ns([50.0, 99.0])
    figures = {
        "mean_ns": float(times["mean"]),
        "p50_ns": p50,
        "p99_ns": p99,
        "max_ns": _count(times["max"]),
        "histogram": histogram.text(),
    }
    return {**cell, "measures": {"service": figures}}, is_rebuilt


def _times(found: Json) -> Json:
    times: Json = found["clat_ns"] if _count(found.get("clat_ns", {}).get("N", 0)) else found["lat_ns"]
    return times


def _pairs(times: Json, requests: int) -> tuple[list[tuple[int, int]], bool]:
    if bins := times.get("bins"):
        return [(_count(value), _count(count)) for value, count in bins.items()], False
    total = _count(times.get("N") or requests)
    points = sorted((float(p), _count(v)) for p, v in (times.get("percentile") or {}).items())
    ranks = [(0.0, _count(times["min"])), *points, (100.0, _count(times["max"]))]
    pairs, placed = [], 0
    for percent, value in ranks[1:]:
        if not 0 <= percent <= 100:
            raise ValueError(f"{percent} is not a percentile")
        upto = round(total * percent / 100)
        # All that lies between two percentiles stands at the upper one, so that each reads as fio printed it.
        pairs.append((value, max(0, upto - placed)))
        placed = max(placed, upto)
    return [pair for pair in pairs if pair[1]] or [(_count(times["max"]), total)], True


ready(_Progress, _Printed)
