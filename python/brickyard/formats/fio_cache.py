"""Duty: what fio does with the page cache around buffered jobs, and what to say where a profile does otherwise.

fio drops the cache of a job's file before the job and whenever the job begins its file anew (`invalidate`), and tells
the kernel whether offsets are random (`fadvise_hint`), which turns read-ahead off or doubles it. A profile drops the
cache once, before its first phase, and gives no hint.

Refusal: no job is changed or refused here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brickyard.formats.fio_file import Job
from brickyard.formats.fio_options import FioOptions
from brickyard.formats.fio_units import fio_flag

NAMES_SHOWN = 5  # of a note; a job file may hold hundreds of jobs
REMEDY = "Jobs with direct=1 bypass the cache and compare the storage alone."


@dataclass
class CacheUse:
    """The buffered jobs of an import whose cache fio would treat otherwise."""

    dropped: list[str] = field(default_factory=list)
    hinted: list[str] = field(default_factory=list)

    def add(self, job: Job, *, is_first: bool, reads: bool) -> None:
        """A buffered job; `is_first` where it runs in the first phase, before which a profile drops the cache too."""
        asked = job.asked
        if reads and fio_flag("invalidate", asked.invalidate) and (not is_first or _begins_anew(asked)):
            self.dropped.append(job.name)
        hint = ("1" if reads else "0") if asked.fadvise_hint is None else asked.fadvise_hint
        if hint not in ("0", "none", "false") and job.name not in self.hinted:
            self.hinted.append(job.name)

    def notes(self) -> list[str]:
        found = []
        if self.dropped:
            found.append(
                f"{_jobs(self.dropped)}: fio drops the page cache of the file before each job and each time a job"
                " begins its file anew (invalidate=1); here it is dropped once, before the first phase, so that later"
                f" reads may come from the cache and be many times faster. {REMEDY}"
            )
        if self.hinted:
            found.append(
                f"{_jobs(self.hinted)}: fio tells the kernel whether a job is random or sequential (fadvise_hint=1),"
                " which turns read-ahead off or doubles it; here the kernel gets no hint and reads ahead as it sees"
                f" fit. {REMEDY}"
            )
        return found


def _begins_anew(asked: FioOptions) -> bool:
    """Whether a job may go through its file more than once."""
    return asked.loops not in ("0", "1") or asked.io_size is not None or fio_flag("time_based", asked.time_based)


def _jobs(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"Buffered {'job' if len(names) == 1 else 'jobs'} {shown}{more}"
