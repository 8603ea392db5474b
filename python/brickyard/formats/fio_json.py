"""Duty: the JSON or JSON+ that fio (3.x) prints → types, as far as anything is read of it.

Refusal: a document that does not fit is refused with the field that does not. So is fio 2, whose times are in µs under
other names. No figure is made here.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import structs

from brickyard.errors import BadInputError
from brickyard.formats.fio_options import override
from brickyard.formats.fio_units import LARGEST
from brickyard.formats.tool_result import garbled
from brickyard.ready import ready
from brickyard.schema import Counted, RunWarning, Unit, warned
from brickyard.store.record import FIO

MS_NS, SECOND_MS = 1_000_000, 1_000
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST // 4)]
Share = Annotated[float, msgspec.Meta(ge=0)]
CUT = warned(
    "fio-cut",
    "warning",
    "fio's last document is cut off; these figures are of the status before it, and what came later is missing.",
)
BEGIN_OF_RESULT = re.compile(r'^\{\s*"fio version"', re.MULTILINE)
"""Where fio's first document begins, also behind text with braces in it (`--output-format=normal,json`)."""
DOCUMENT = re.compile(r'^\{(?=\s*("|\Z))', re.MULTILINE)
"""A further one, perhaps cut off; fio's lines of text may begin with a brace that is of a job's name."""


class FioTimes(msgspec.Struct, frozen=True):
    """Latencies in ns; without `N`, all requests were timed."""

    mean: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
    min: Count
    max: Count
    timed: Count | None = msgspec.field(name="N", default=None)
    percentile: dict[float, Count] | None = None
    bins: dict[Count, Count] | None = None
    """Of JSON+: how many requests took so long."""


class FioDirection(msgspec.Struct, frozen=True):
    """Reads, writes or trims of a job; of one that failed, `total_ios` are those that were issued."""

    total_ios: Count
    io_bytes: Count
    runtime: Annotated[int, msgspec.Meta(ge=0, le=LARGEST // MS_NS)] = 0
    """In ms."""
    drop_ios: Count = 0
    short_ios: Count = 0
    clat_ns: FioTimes | None = None
    lat_ns: FioTimes | None = None

    @property
    def times(self) -> FioTimes:
        """With the call that submits a request (`lat_ns`), as our service time; percentiles and bins without it
        (`clat_ns`) where fio has no others."""
        clat, lat = (one if one and one.timed else None for one in (self.clat_ns, self.lat_ns))
        if clat is not None and lat is not None:
            whole = structs.replace(clat, mean=lat.mean, min=lat.min, max=max(lat.max, clat.max))
            return whole if self.is_completion else lat
        found = clat or lat or self.lat_ns
        if found is None:
            raise BadInputError("fio's JSON has requests and no times of them (clat_ns, lat_ns)")
        return found

    @property
    def is_completion(self) -> bool:
        """Whether percentiles leave out the call that submits a request, although fio has its mean."""
        lat = self.lat_ns
        has_more = self.clat_ns is not None and self.clat_ns.timed and (self.clat_ns.percentile or self.clat_ns.bins)
        return bool(lat and lat.timed and has_more and not (lat.percentile or lat.bins))

    @property
    def lacks_totals(self) -> bool:
        """Whether fio has no time but that without the call (`disable_lat`)."""
        return bool(self.clat_ns and self.clat_ns.timed) and not (self.lat_ns and self.lat_ns.timed)

    @property
    def submission_ns(self) -> float:
        """The mean of what lies before the completion latency, where `is_completion`."""
        return max(0.0, self.lat_ns.mean - self.clat_ns.mean) if self.lat_ns and self.clat_ns else 0.0


class FioSyncs(msgspec.Struct, frozen=True):
    """What fsync and fdatasync took, apart from the writes before them."""

    total_ios: Count = 0
    lat_ns: FioTimes | None = None

    @property
    def counted_as_short(self) -> int:
        """fio counts fsync and has no count of fdatasync: it adds each fdatasync to the place behind that count, which
        is that of short reads."""
        timed = (self.lat_ns and self.lat_ns.timed) or 0
        return max(0, timed - self.total_ios)


class FioJobResult(msgspec.Struct, frozen=True):
    jobname: str
    read: FioDirection
    write: FioDirection
    trim: FioDirection
    sync: FioSyncs | None = None
    groupid: int | None = None
    job_runtime: Annotated[int, msgspec.Meta(ge=0, le=LARGEST // MS_NS)] = 0
    """In ms, of all threads of the row together."""
    error: int = 0
    """Of the first request that failed, as errno has it."""
    usr_cpu: float = 0.0
    sys_cpu: float = 0.0
    iodepth_level: dict[str, Share] | None = None
    """Requests in flight: the classes that fio has for them, and the share of each in per cent."""
    own_options: dict[str, str] | None = msgspec.field(name="job options", default=None)

    @property
    def ran_ms(self) -> int:
        """Until the last of its directions ended."""
        return max(one.runtime for one in self.directions.values())

    @property
    def directions(self) -> dict[Counted, FioDirection]:
        no_reads = self.sync.counted_as_short if self.sync else 0
        read = structs.replace(self.read, short_ios=max(0, self.read.short_ios - no_reads))
        return {Counted.READ: read, Counted.WRITE: self.write, Counted.TRIM: self.trim}

    @property
    def flushes(self) -> FioDirection:
        """As if they were a direction; fio has no run time of them."""
        times = None if self.sync is None else self.sync.lat_ns
        return FioDirection(total_ios=(times and times.timed) or 0, io_bytes=0, lat_ns=times)


class FioDocument(msgspec.Struct, frozen=True):
    version: str = msgspec.field(name="fio version")
    jobs: list[FioJobResult]
    timestamp_ms: Annotated[int, msgspec.Meta(ge=0, le=LARGEST // MS_NS)] = 0
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=LARGEST // MS_NS // SECOND_MS)] = 0
    """In seconds, which is all that early versions print."""
    common_options: dict[str, str] | None = msgspec.field(name="global options", default=None)

    @property
    def printed_unix_ns(self) -> int:
        return (self.timestamp_ms or self.timestamp * SECOND_MS) * MS_NS

    @property
    def names(self) -> list[str]:
        return [job.jobname for job in self.jobs]

    @property
    def issued(self) -> int:
        """How far fio was when it printed this."""
        return sum(one.total_ios for job in self.jobs for one in job.directions.values())

    def options_of(self, job: FioJobResult) -> dict[str, str]:
        """Those of all jobs and the job's own, by the names that fio has first."""
        return override(override({}, (self.common_options or {}).items()), (job.own_options or {}).items())


@dataclass(frozen=True)
class PrintedByFio:
    """The last whole document, and how many came before it (`--status-interval`)."""

    document: FioDocument
    digest: str
    """Alike for the same result, whatever its file is called."""
    before: int = 0
    is_cut: bool = False
    """Another document begins after it and does not end."""

    @property
    def warnings(self) -> list[RunWarning]:
        if self.is_cut:
            return [CUT]
        if not self.before:
            return []
        return [
            warned(
                "fio-status",
                "note",
                f"fio printed {{before}} status document{'' if self.before == 1 else 's'} before the final one, which "
                "alone was imported, since its figures are over the whole time.",
                before=Unit.NUMBER.of(self.before),
            )
        ]


def read_result(text: str) -> PrintedByFio:
    """Also where fio has written lines of text around its documents. Raises BadInputError where they are not of one run
    of fio."""
    found: list[tuple[FioDocument, object]] = []
    is_cut = False
    first = BEGIN_OF_RESULT.search(text)
    begin: int | None = first.start() if first else text.find("{")
    while begin is not None:
        try:
            told, end = json.JSONDecoder().raw_decode(text[begin:] if begin >= 0 else "")
        except (ValueError, RecursionError) as error:
            if not found:
                raise BadInputError("fio's JSON is cut off or damaged; copy the file again") from error
            is_cut = True
            break
        found.append((_typed(told), told))
        further = DOCUMENT.search(text, begin + end)
        begin = further.start() if further else None
    for (earlier, _), (later, _) in pairwise(found):
        if earlier.names != later.names or earlier.issued > later.issued:
            raise BadInputError(f"{len(found)} results of different runs of fio; import each from a file of its own")
    document, told = found[-1]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return PrintedByFio(document, digest, len(found) - 1, is_cut)


def _typed(told: object) -> FioDocument:
    jobs = told.get("jobs") if isinstance(told, dict) else None
    if isinstance(told, dict) and "client_stats" in told:
        raise BadInputError(
            "these are results of fio's client/server mode (fio --client), which are not read; run the job on each "
            "host with `fio --output-format=json+ --output=FILE` and import each file, or import the job file as a "
            "profile and measure all hosts together (`brickyard run --hosts`)"
        )
    if not isinstance(told, dict) or "fio version" not in told or not isinstance(jobs, list):
        raise BadInputError("not fio's JSON: it has no `fio version` and jobs")
    if any(isinstance(job, dict) and "mixed" in job and "read" not in job for job in jobs):
        raise BadInputError(
            "fio counted reads and writes together (unified_rw_reporting=1); run it without that option, or with "
            "unified_rw_reporting=both"
        )
    try:
        return msgspec.convert(told, FioDocument, str_keys=True)
    except msgspec.ValidationError as error:
        raise garbled(FIO, error) from error


ready(FioDocument)
