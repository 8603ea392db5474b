"""Duty: whether a row of fio's JSON is of several jobs, whose options are not all there.

With `group_reporting`, fio prints the jobs of a group as one row, with the name of the first of them and the options of
the last. The option itself has no value, so that it is not in the JSON; what the row did contradicts its options.

Refusal: nothing is guessed of the other jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from brickyard.errors import BadInputError
from brickyard.formats.fio_json import FioDocument, FioJobResult
from brickyard.formats.fio_options import FioOptions, understood
from brickyard.formats.fio_stream import DIRECTIONS
from brickyard.formats.fio_units import by_direction, fio_bytes, fio_int, fio_time_us
from brickyard.schema import Counted

SLACK, SLACK_MS, LATE_MS = 1.05, 20, 1_000
"""Times of one job agree within a few ms; the last requests may end after its runtime."""

LEVELS = {"1": 1, "2": 2, "4": 4, "8": 8, "16": 16, "32": 32, ">=64": 64}
"""fio's classes of requests in flight, each with the least that it holds."""


def merged_rows(document: FioDocument) -> list[FioJobResult]:
    """Those that are of several jobs."""
    groups = [job.groupid for job in document.jobs]
    # Where a group has several rows, its jobs are printed apart.
    return [job for job in document.jobs if groups.count(job.groupid) == 1 and _is_merged(document, job)]


def _is_merged(document: FioDocument, job: FioJobResult) -> bool:
    asked = understood(document.options_of(job))
    try:
        jobs = fio_int("numjobs", asked.numjobs, low=1)
        return any(_contradictions(job, asked, jobs))
    except BadInputError:
        return False


def _contradictions(job: FioJobResult, asked: FioOptions, jobs: int) -> Iterator[bool]:
    is_verified = asked.verify not in ("0", "none")
    # What is read back follows the writes; else a job reads and writes at the same time.
    each_ms = sum(one.runtime for one in job.directions.values()) if is_verified else job.ran_ms
    yield job.job_runtime > jobs * (SLACK * each_ms + SLACK_MS)
    runtime_ms = fio_time_us("runtime", asked.runtime, default="s") / 1000
    yield runtime_ms > 0 and not is_verified and job.ran_ms > SLACK * runtime_ms + LATE_MS
    depth = fio_int("iodepth", asked.iodepth, low=1)
    levels = job.iodepth_level or {}
    yield any(levels.get(name) and least > depth for name, least in LEVELS.items())
    if not is_verified:
        yield from (_is_other(job, asked, kind, depth * jobs) for kind in job.directions)


def _is_other(job: FioJobResult, asked: FioOptions, kind: Counted, in_flight: int) -> bool:
    """Whether the requests of a direction cannot be those of these options; of requests that were in flight when the
    warm-up ended, fio may count bytes alone."""
    done = job.directions[kind]
    allowed = DIRECTIONS.get(asked.rw.partition(":")[0].lower(), ("any",))[0]
    if done.total_ios and allowed not in (kind, "any") and (allowed != "mixed" or kind == "trim"):
        return True
    has_one_size = asked.bssplit is None and asked.bsrange is None
    if job.error or done.short_ios or done.drop_ios or not done.total_ios or not has_one_size:
        return False
    size_bytes = fio_bytes("bs", by_direction(asked.bs, "4k")[kind])
    return bool(abs(done.io_bytes - done.total_ios * size_bytes) > in_flight * size_bytes)
