"""Duty: a row of fio's JSON → its parts, each with the time in which it ran.

fio prints what a job wrote and what it read back afterwards (`verify`) as one row, with a run time of each, and leaves
the `startdelay` of a job out of its times. The options tell: a job that only writes reads nothing but to verify.

Refusal: which phase and stream a part is, is for `fio_layout`.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from brickyard.errors import BadInputError
from brickyard.formats.fio_json import FioDirection, FioDocument, FioJobResult
from brickyard.formats.fio_options import FioOptions, understood
from brickyard.formats.fio_stream import verifies
from brickyard.formats.fio_units import fio_flag, fio_time_us
from brickyard.schema import Counted, RunWarning, warned

NOTHING = FioDirection(total_ios=0, io_bytes=0)
ONLY_WRITES = ("write", "randwrite")
READS_AMID = "verify_backlog"
SUM_SHARE, SUM_SLACK_MS = 0.9, 20
"""Our choice: fio's times of one job agree within a few ms."""
IN_BETWEEN = warned(
    "fio-verify-backlog",
    "warning",
    "fio read back while it wrote (verify_backlog) and printed the time of the last reads alone, so that its own rate "
    "of reads is too high; the rates of reads and writes here are over all of the job's time.",
)
NOT_WRITTEN = warned(
    "fio-verify-only",
    "note",
    "fio read back and wrote nothing (verify_only); the writes in its JSON are none that it issued, and are left out.",
)


@dataclass(frozen=True)
class FioPart:
    """What a job did at a time: all of it, its writes or what it read back."""

    job: FioJobResult
    start_ms: int = 0
    """From the start of its group."""

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.job.ran_ms


@dataclass(frozen=True)
class FioRow:
    main: FioPart | None
    """None where fio only read back."""
    back: FioPart | None = None
    """What it read back once it had written."""
    said: tuple[RunWarning, ...] = ()

    @property
    def parts(self) -> list[FioPart]:
        return [part for part in (self.main, self.back) if part is not None]


def row_of(document: FioDocument, job: FioJobResult) -> FioRow:
    options = document.options_of(job)
    asked = understood(options)
    start_ms = _start_ms(asked)
    if not _reads_back(asked, job):
        return FioRow(FioPart(job, start_ms))
    write, read = job.write.runtime, job.directions[Counted.READ]
    if options.get(READS_AMID, "0") != "0":
        whole_ms = write + read.runtime
        read, written = (structs.replace(one, runtime=whole_ms) for one in (job.read, job.write))
        return FioRow(FioPart(structs.replace(job, read=read, write=written), start_ms), said=(IN_BETWEEN,))
    back_ms = round(job.job_runtime * read.runtime / max(1, write + read.runtime))
    back = structs.replace(job, read=read, write=NOTHING, trim=NOTHING, sync=None, job_runtime=back_ms)
    if not write:
        return FioRow(None, FioPart(back, start_ms), (NOT_WRITTEN,))
    main = structs.replace(job, read=NOTHING, job_runtime=job.job_runtime - back_ms)
    return FioRow(FioPart(main, start_ms), FioPart(back, start_ms + write))


def _reads_back(asked: FioOptions, job: FioJobResult) -> bool:
    if not (verifies(asked) and asked.rw.partition(":")[0] in ONLY_WRITES):
        return False
    try:
        is_off = not fio_flag("do_verify", asked.do_verify)
    except BadInputError:
        return False
    read, write = job.directions[Counted.READ], job.write
    if is_off or not read.total_ios or not write.total_ios or read.io_bytes > write.io_bytes:
        return False
    in_turn_ms = SUM_SHARE * (write.runtime + read.runtime) - SUM_SLACK_MS
    return not job.job_runtime or job.job_runtime >= in_turn_ms


def _start_ms(asked: FioOptions) -> int:
    """0 where fio draws it by chance."""
    try:
        return fio_time_us("startdelay", asked.startdelay, default="s") // 1000
    except BadInputError:
        return 0
