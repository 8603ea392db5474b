"""Duty: what fio printed of a run → the events of a run, so that it can stand in the store beside ours.

Means, maxima and percentiles stay those that fio printed (event `imported`). Bins of JSON+ become a histogram as they
are; plain JSON has percentiles only, whose histogram has steps, and a warning says so. Our service time begins before
the call that submits a request, as fio's `lat` does. fio prints percentiles of that only with `lat_percentiles=1`;
those of `clat` leave the call out, except with synchronous engines, and a warning says so. fio knows no due instant, so
there is no response time. The times of `fsync` and `fdatasync` are in `sync`, apart from the writes; they become the
stream's flushes, with their times where the engine has no queue.

Refusal: what fio's JSON means is for `fio_json` to say.
"""

from __future__ import annotations

import errno
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_json import MS_NS, FioDirection, FioDocument, FioJobResult, FioTimes, PrintedByFio
from brickyard.formats.fio_layout import Layout, lay_out
from brickyard.formats.fio_options import override, understood
from brickyard.formats.fio_stream import (
    ENGINES,
    FLUSHES_ONCE_FROM,
    flushes_again,
    is_direct,
    one_at_a_time,
    version_words,
)
from brickyard.formats.fio_units import LARGEST
from brickyard.schema import (
    SCHEMA,
    CellEvent,
    CellEventMeasures,
    Counted,
    Cpu,
    End,
    Engine,
    EngineOfImport,
    Event,
    Imported,
    Interval,
    IoPath,
    Measure,
    PhaseEnd,
    PhaseReason,
    PhaseStart,
    RunFacts,
    RunOutcome,
    RunWarning,
    RunWatch,
    Start,
    StreamUnsent,
    Timed,
    Unit,
    other_end,
    warned,
)
from brickyard.schema.fio_words import CURSORS, FILE_OF_FIO, file_name, has_other_cursors, split_names
from brickyard.schema.plan import Arrivals, OpenPace, OtherPlan, Phase, Plan, RandomAddress
from brickyard.schema.request_sizes import MovedSizes, asked_sizes
from brickyard.schema.warning import Quantity
from brickyard.store import Store
from brickyard.store.record import CALLS, COMPLETIONS, NO_TOTALS, Record, RunMarks
from brickyard.units import format_ns

CPU_MAX_PERCENT = 1e6  # more than any host has
DEPTHS = {"1": 1, "2": 3, "4": 7, "8": 15, "16": 31, "32": 63, ">=64": LARGEST}
"""fio's classes of requests in flight, each with the most that it holds."""
REBUILT = warned(
    "fio-percentiles",
    "warning",
    "fio printed percentiles and no distribution; these are fio's own figures, nothing is known between them.",
    "run fio with --output-format=json+",
)
NO_PERCENTILES = warned(
    "fio-percentiles",
    "warning",
    "fio printed no percentiles of some requests.",
    "leave disable_clat=1 out of the job, or set lat_percentiles=1",
)
FLAGS_UNKNOWN = warned(
    "fio-flags",
    "note",
    "The workload is read from fio's JSON, which omits options without a value (norandommap, group_reporting).",
    "import the job file as well to see the whole load",
)
SEVERAL_JOBS = warned(
    "fio-group-reporting",
    "note",
    "fio printed several jobs as one row (group_reporting), with the name of the first and the options of the last: "
    "their files, workers, depths, sizes and rates are not known.",
    "run fio without group_reporting",
)


FLUSHES_UNTIMED = "fio-flush-times"


def _is_synchronous(engine: str) -> bool:
    """Whether a request is one call, which fio's `clat` begins before (`td_io_queue` in its sources: `issue_time` of
    engines with FIO_SYNCIO); of others, it begins when the call that submits has ended."""
    return ENGINES.get(engine) == "psync"


def _times_flushes(engine: str) -> bool:
    """Whether fio's times of flushes are those of the call: with libaio they include the wait for the write before it
    (402 + 124 µs in cycles of 481 µs), and with io_uring they leave out the call that submits (182 + 145 µs of 377)."""
    return _is_synchronous(engine)


def _flushes_untimed(
    jobs: Sequence[FioJobResult], options_of: Callable[[FioJobResult], dict[str, str]]
) -> list[RunWarning]:
    engines = [understood(options_of(job)).ioengine for job in jobs if job.flushes.total_ios]
    without = [engine for engine in dict.fromkeys(engines) if not _times_flushes(engine)]
    return [
        warned(
            FLUSHES_UNTIMED,
            "warning",
            "fio's times of flushes are left out: with ioengine={engines} they are not those of the flush alone, but "
            "include a wait for other requests, or leave out the call. Their number and rate are kept.",
            "use ioengine=psync, or let Brickyard run the job, which times each flush",
            engines=without,
        )
    ][: len(without)]


def _mixed_io(jobs: Sequence[tuple[str, dict[str, str]]]) -> list[RunWarning]:
    """Of jobs of which only some pass the page cache by."""
    found = {is_direct(understood(options)): name for name, options in reversed(jobs)}
    if len(found) < 2:
        return []
    return [
        warned(
            "fio-mixed-io",
            "warning",
            "{direct} had direct I/O, and {buffered} went through the page cache: rates and times of such jobs are "
            "those of memory, too.",
            "set direct=1 in all jobs",
            direct=found[True],
            buffered=found[False],
        )
    ]


def _one_at_a_time(jobs: list[Job]) -> list[RunWarning]:
    """fio's own queue is part of its times where what it asks issues one request after another."""
    found = [(why, job) for job in jobs if job.asked.iodepth != "1" and (why := one_at_a_time(job))]
    return [
        warned(
            "fio-one-in-flight",
            "warning",
            "iodepth={depth} of job {job} has no effect with {why}; fio's times include the wait in its own queue.",
            "use ioengine=io_uring, or libaio with direct=1",
            job=job.name,
            depth=Unit.NUMBER.of(_whole(job.asked.iodepth)),
            why=why,
        )
        for why, job in found[:1]
        if ENGINES[job.asked.ioengine] != "psync"  # which has no queue
    ]


FLUSHES_APART_SHARE = 0.1
"""Our choice: a job that ends before its next flush is due has hardly fewer."""


def _flushes(plan: Plan | OtherPlan, phases: Sequence[_Phase]) -> list[RunWarning]:
    """That fio flushed more or less often than its job says."""
    found = []
    if not isinstance(plan, Plan):
        return []
    for phase, asked_phase in ((phase, plan.phase[phase.number]) for phase in phases):
        counts = Counter[tuple[int, Counted]]()
        for one in phase.moved:
            counts[one.cell.stream, one.cell.operation] += one.cell.requests
        for number, stream in enumerate(asked_phase.stream):
            asked = stream.flush_every
            writes, flushes = counts[number, Counted.WRITE], counts[number, Counted.FLUSH]
            due = writes / asked.writes if asked else 0.0
            if asked and abs(flushes - due) > max(FLUSHES_APART_SHARE * due, stream.workers):
                found.append(
                    warned(
                        "fio-flushes",
                        "warning",
                        "fio flushed {flushes} times in {writes} writes, not once after every {every} of them: this is "
                        "another load than the job says.",
                        _flushes_remedy(reads=stream.operations.read > 0),
                        flushes=Unit.NUMBER.of(flushes),
                        writes=Unit.NUMBER.of(writes),
                        every=Unit.NUMBER.of(asked.writes),
                    )
                )
    return found


def _flushes_remedy(*, reads: bool) -> str:
    newer = f"use fio {version_words(FLUSHES_ONCE_FROM)} or later"
    if reads:
        return f"{newer}; before, fio flushed again {flushes_again(reads=True, depth=1, writes=1)}, with any ioengine"
    return f"{newer}, or ioengine=libaio"


EARLY_SHARE = 0.9
"""Our choice: what a job did in less of its time or of its bytes than this is not what was asked for."""


def _ended_early(plan: Plan, layout: Layout) -> list[RunWarning]:
    """That fio ended a job long before its time was over: it does so at a request that lies behind its region."""
    found = []
    for asked, members in zip(plan.phase, layout.phases, strict=True):
        if not asked.duration or asked.bytes or asked.passes or asked.requests:
            continue
        for stream, part in members:
            job = part.job
            ran_ns = max(job.ran_ms, job.job_runtime // asked.stream[stream].workers) * MS_NS
            if ran_ns < EARLY_SHARE * asked.duration.ns:
                found.append(
                    warned(
                        "fio-ended-early",
                        "warning",
                        "fio ended job {job} after {ran}, and {asked} were asked for: its figures are of that time.",
                        "run the job file by fio itself to see why: `brickyard profiles show PROFILE --format fio`",
                        job=job.jobname,
                        ran=Unit.NS.of(ran_ns),
                        asked=Unit.NS.of(asked.duration.ns),
                    )
                )
    return found


UNSENT_SHARE_MIN = 0.01
"""As for runs of ours (`analysis.figures.sending`)."""
FEW_UNSENT = 10
"""So many are due at the end of a job all the same."""
BY_CHANCE = 3
"""Standard deviations: in as many as this from the mean lie all but 0.3 % of what Poisson arrivals draw."""


@dataclass(frozen=True)
class _Missed:
    """A stream whose rate fio did not reach. It does not say so: what was due is the rate over the time that it ran."""

    stream: int
    rate: float
    done: int
    ran_ns: int

    @property
    def unsent(self) -> int:
        return round(self.rate * self.ran_ns / 1e9) - self.done


def _missed(asked: Plan | OtherPlan, number: int, moved: Sequence[_Moved]) -> list[_Missed]:
    phase = asked.phase[number]
    if not isinstance(phase, Phase) or phase.ramp is not None:
        return []
    found = []
    for stream, told in enumerate(phase.stream):
        own = [one for one in moved if one.cell.stream == stream and one.cell.operation is not Counted.FLUSH]
        if not own or not isinstance(told.pace, OpenPace):
            continue
        done = sum(one.cell.requests + one.cell.errors for one in own)
        missed = _Missed(stream, told.pace.rate, done, max(one.ran_ns for one in own))
        due = missed.done + missed.unsent
        chance = 0.0 if told.pace.arrivals is Arrivals.CONSTANT else BY_CHANCE * math.sqrt(max(0, due))
        if missed.unsent > max(FEW_UNSENT, UNSENT_SHARE_MIN * due, chance):
            found.append(missed)
    return found


def _rates_missed(plan: Plan, phases: Sequence[_Phase]) -> list[RunWarning]:
    found = [(phase.number, missed) for phase in phases for missed in phase.missed]
    return [
        warned(
            "overloaded",
            "warning",
            "fio was asked for {asked} requests/s of {stream} and completed {done} ({share}).",
            "allow more in flight (iodepth with an asynchronous engine, or numjobs); if the rate is still not reached, "
            "it is too high",
            gravity=missed.unsent / (missed.unsent + missed.done),
            stream=plan.phase[number].stream[missed.stream].name or plan.phase[number].name or "the job",
            asked=Unit.COUNT.of(round(missed.rate)),
            done=Unit.COUNT.of(round(missed.done / missed.ran_ns * 1e9)),
            share=Unit.PERCENT.of(missed.done / (missed.unsent + missed.done)),
        )
        for number, missed in found
    ]


def _other_sizes(plan: Plan, phases: Sequence[_Phase]) -> list[RunWarning]:
    """That fio moved other sizes than those of its job, as its map makes it do: one note for each mean that was asked
    for."""
    off: dict[tuple[float, bool], list[tuple[str, float]]] = {}
    for phase in phases:
        asked_phase = plan.phase[phase.number]
        for (number, operation), moved in phase.sizes.items():
            stream = asked_phase.stream[number]
            asked = asked_sizes(stream, operation)
            if asked is None or not moved.is_known or not moved.is_off(asked):
                continue
            by_map = isinstance(stream.address, RandomAddress) and moved.mean_bytes < asked.mean_bytes
            name = stream.name or asked_phase.name or "the job"
            off.setdefault((asked.mean_bytes, by_map), []).append((name, moved.mean_bytes))
    return [
        warned(
            "fio-sizes",
            "note",
            SHORTENED if by_map else OTHER_SIZES,
            "set norandommap=1 in the job, and fio moves whole requests" if by_map else "",
            streams=list(dict.fromkeys(name for name, _ in rows)),
            moved=Quantity(min(mean for _, mean in rows), max(mean for _, mean in rows), Unit.MEAN_BYTES),
            asked=Unit.MEAN_BYTES.of(mean_bytes),
        )
        for (mean_bytes, by_map), rows in off.items()
    ]


SHORTENED = (
    "fio's map (no norandommap) shortened requests of {streams}: {moved} in the mean, where the job's sizes give "
    "{asked}. IOPS are of these shorter requests."
)
OTHER_SIZES = (
    "fio moved {moved} a request of {streams} in the mean, where the job's sizes give {asked}: this is another load "
    "than the job says."
)


def _cursors(plan: Plan) -> list[RunWarning]:
    streams = [stream for phase in plan.phase for stream in phase.stream if has_other_cursors(stream)]
    return [
        warned(
            "fio-cursors",
            "warning",
            "Stream {streams}: {cursors}, in this run too.",
            streams=list(dict.fromkeys(stream.name or "stream" for stream in streams)),
            cursors=CURSORS,
        )
    ][: len(streams)]


@dataclass(frozen=True)
class SeenBeside:
    """What was seen beside fio, and what a reader is warned of."""

    watch: RunWatch | None = None
    warnings: list[RunWarning] = field(default_factory=list)


def _completions(document: FioDocument, merged: Sequence[FioJobResult]) -> list[RunWarning]:
    """What percentiles are of where fio has none of `lat`, by the names of the jobs where others have such. Of the
    jobs of a row of several, the engines are not known: their `clat` may leave the call out."""
    moved = [(job, one) for job in document.jobs for one in job.directions.values() if one.total_ios]
    calls, queued, lacking = list[_Timed](), list[_Timed](), list[_Timed]()
    for job, one in moved:
        is_call = job not in merged and _is_synchronous(understood(document.options_of(job)).ioengine)
        if one.lacks_totals and not is_call:
            lacking.append((job, one))
        elif one.is_completion:
            (calls if is_call else queued).append((job, one))
    return [
        *_of_clat(
            COMPLETIONS,
            queued,
            len(moved),
            "which leaves out the call that submits a request (on average {call}{span}); means, minima and maxima "
            "include it.",
            "set lat_percentiles=1 in the {jobs}, and percentiles include it too",
        ),
        *_of_clat(
            CALLS,
            calls,
            len(moved),
            "which with a synchronous engine is the time of the whole call; means, minima and maxima have fio's own "
            "work before the call as well (on average {call}{span}).",
            "set lat_percentiles=1 in the {jobs}, and percentiles have it too",
        ),
        *_without_totals(lacking),
    ]


_Timed = tuple[FioJobResult, FioDirection]


def _names(found: Sequence[_Timed]) -> list[str]:
    return list(dict.fromkeys(job.jobname for job, _ in found))


def _of_clat(identifier: str, found: Sequence[_Timed], of: int, which: str, remedy: str) -> list[RunWarning]:
    """`of` so many rows of fio's."""
    if not found:
        return []
    names, is_all = _names(found), len(found) == of
    calls_ns = [one.submission_ns for _, one in found]
    mean_ns = sum(ns * one.total_ios for ns, (_, one) in zip(calls_ns, found, strict=True))
    mean_ns /= sum(one.total_ios for _, one in found)
    several = format_ns(min(calls_ns)) != format_ns(max(calls_ns))
    span = ", and {least} to {most} by job and direction" if several else ""
    said = "Percentiles are" if is_all else "Percentiles of {streams} are"
    return [
        warned(
            identifier,
            "warning",
            f"{said} of fio's completion latency (clat), {which.replace('{span}', span)}",
            remedy.replace("{jobs}", "job" if len(names) == 1 else "jobs"),
            call=Unit.NS.of(mean_ns),
            also=({} if is_all else {"streams": names})
            | ({"least": Unit.NS.of(min(calls_ns)), "most": Unit.NS.of(max(calls_ns))} if several else {}),
        )
    ]


def _without_totals(found: Sequence[_Timed]) -> list[RunWarning]:
    return [
        warned(
            NO_TOTALS,
            "warning",
            "Times of {streams} are of fio's completion latency (clat), which leaves out the call that submits a "
            "request; fio printed no others (disable_lat=1).",
            "leave disable_lat=1 out of the job and set lat_percentiles=1",
            streams=_names(found),
        )
    ][: len(found)]


def stored_result(store: Store, printed: PrintedByFio) -> int | None:
    """The run that this result has become before."""
    began_ns = printed.document.printed_unix_ns
    ids = [head.id for head in store.heads() if head.start_unix_ns == began_ns]
    return next((run.id for run in store.runs(ids) if run.profile_hash == printed.digest), None)


def store_result(
    store: Store,
    printed: PrintedByFio,
    *,
    profile: str,
    profile_hash: str = "",
    plan: Plan | None = None,
    targets: Sequence[str] = (),
    facts: RunFacts | None = None,
    opened: Start | None = None,
    study: int | None = None,
    labels: RunMarks | None = None,
    warnings: Sequence[RunWarning] = (),
    watched: Callable[[Record], SeenBeside] = lambda _: SeenBeside(),
    is_stopped: bool = False,
) -> int:
    """Appends a run with what fio measured; gives back its number. What is not given is taken from what fio printed.

    `opened`: how the targets were opened and prepared for fio. `watched` is asked when all figures are kept."""
    document = printed.document
    layout = lay_out(document, plan)
    phases = _phases(document, layout)
    run = store.add_run(
        profile=profile,
        profile_hash=profile_hash or printed.digest,
        plan=layout.plan,
        condition="normal",
        targets=list(targets) or _targets(document, layout.merged),
        options={},
        software_version=document.version,
        facts=facts or RunFacts(),
        study=study,
        labels=labels,
    )
    store.add_events(run, [_start(document, layout, opened), *(event for phase in phases for event in phase.events())])
    failed = next((job for job in document.jobs if job.error), None)
    outcome = RunOutcome.INTERRUPTED if is_stopped else RunOutcome.FAILED if failed else RunOutcome.DONE
    message = f"fio: job {failed.jobname} ended with error {failed.error}" if failed else ""
    of_percentiles = [one.lacks for phase in phases for one in phase.moved if one.lacks is not None]
    found = [*layout.said, *of_percentiles[:1], *_completions(document, layout.merged)]
    found += [SEVERAL_JOBS] * bool(layout.merged) + [FLAGS_UNKNOWN] * layout.is_guessed
    known = [job for job in document.jobs if job not in layout.merged]
    found += _mixed_io([(job.jobname, document.options_of(job)) for job in known])
    found += _flushes_untimed(document.jobs, document.options_of)
    found += _one_at_a_time([Job(job.jobname, document.options_of(job)) for job in known])
    if not layout.merged:
        found += _flushes(layout.plan, phases)
    if isinstance(layout.plan, Plan):
        found += _cursors(layout.plan) + _other_sizes(layout.plan, phases)
        found += _ended_early(layout.plan, layout) if outcome is RunOutcome.DONE else []
    seen = watched(store.record(run))
    if isinstance(layout.plan, Plan) and not any(warning.id == "overloaded" for warning in seen.warnings):
        found += _rates_missed(layout.plan, phases)
    end = End(end_ns=phases[-1].end_ns, outcome=outcome, message=other_end(message))
    store.end_run(run, end, seen.watch, [*warnings, *seen.warnings, *found])
    return run


def _targets(document: FioDocument, merged: Sequence[FioJobResult]) -> list[str]:
    """A relative name is that of a file here where there is one: fio does not print its directory. A row of several
    jobs (`merged`) has the file of the last of them only."""
    own = [job.own_options or {} for job in document.jobs if job not in merged]
    options = [document.common_options or {}, *own]
    named = [file_name(name) for each in options for name in split_names(each.get(FILE_OF_FIO, ""))]
    found = [os.path.abspath(name) if os.path.lexists(name) else name for name in named]
    # Names for all jobs and those of one add up: the other jobs of a row may have further ones, too.
    is_open = any(FILE_OF_FIO not in options[0] or FILE_OF_FIO in (job.own_options or {}) for job in merged)
    # A target that is not known keeps the row of several jobs from the file of another job.
    return [*dict.fromkeys(found), *["fio"] * (is_open or not found)]


@dataclass(frozen=True)
class _Moved:
    """One operation of one job."""

    cell: CellEvent
    times: FioTimes
    ran_ns: int
    """0 where fio has no time of it."""
    lacks: RunWarning | None
    """What fio did not print of the times."""
    failed_as: str


@dataclass(frozen=True)
class _Phase:
    number: int
    start_ns: int
    span_ns: int
    moved: list[_Moved]
    cpu: Cpu
    missed: list[_Missed]

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.span_ns

    @property
    def sizes(self) -> dict[tuple[int, Counted], MovedSizes]:
        """By stream and operation, with all clones of a job."""
        found: dict[tuple[int, Counted], MovedSizes] = {}
        for cell in (one.cell for one in self.moved):
            place = cell.stream, cell.operation
            moved = MovedSizes(cell.requests, cell.bytes, cell.depth_max + cell.errors)
            found[place] = found[place].with_other(moved) if place in found else moved
        return found

    def events(self) -> list[Event]:
        rows: dict[tuple[int, Counted], list[_Moved]] = {}
        for one in self.moved:
            if one.times.timed != 0:
                rows.setdefault((one.cell.stream, one.cell.operation), []).append(one)
        figures = [_imported(self.number, clones) for clones in rows.values()]
        begin = PhaseStart(phase=self.number, name=f"phase-{self.number + 1}", start_ns=self.start_ns)
        return [*figures, begin, *self._intervals(), self._end()]

    def _intervals(self) -> list[Interval]:
        """fio takes its rates over the time that each job ran, which may be shorter than that of the phase. A job that
        began later is placed at the start as well: intervals at other starts would be other parts of the phase."""
        ran: dict[int, list[CellEvent]] = {self.span_ns: []}
        for one in self.moved:
            ran.setdefault(one.ran_ns or self.span_ns, []).append(one.cell)
        return [
            Interval(
                phase=self.number,
                index=0,
                start_ns=self.start_ns,
                end_ns=self.start_ns + own_ns,
                warmup=False,
                drain=False,
                cells=cells,
                cpu=self.cpu if own_ns == self.span_ns else Cpu(user_ns=0, system_ns=0),
                loop_busy_share=0.0,
            )
            for own_ns, cells in sorted(ran.items())
        ]

    def _end(self) -> PhaseEnd:
        failures: Counter[str] = Counter()
        for one in self.moved:
            failures[one.failed_as] += one.cell.errors
        return PhaseEnd(
            phase=self.number,
            end_ns=self.end_ns,
            reason=PhaseReason.REQUESTS,
            unsent=sum(one.unsent for one in self.missed),
            unsent_by_stream=[StreamUnsent(stream=one.stream, unsent=one.unsent) for one in self.missed],
            outstanding=0,
            errors_by_errno=dict(+failures),
            errors_by_kind={},
            slowest=[],
            generator_bound=False,
            cpu=self.cpu,
            loop_busy_share=0.0,
        )


def _phases(document: FioDocument, layout: Layout) -> list[_Phase]:
    rows = Counter(document.names)
    found: list[_Phase] = []
    at_ns = 0
    for number, members in enumerate(layout.phases):
        jobs = [part.job for _, part in members]
        if not jobs:
            continue
        # What all of them wait for first is no part of the phase.
        began_ms = min(part.start_ms for _, part in members)
        span_ns = max(MS_NS, *((part.end_ms - began_ms) * MS_NS for _, part in members))
        moved = [
            one
            for stream, job in ((stream, part.job) for stream, part in members)
            for one in _moved(
                stream,
                job,
                0 if job in layout.merged else _depth_of(job, document.options_of(job), rows[job.jobname]),
                times_flushes=_times_flushes(understood(document.options_of(job)).ioengine),
            )
        ]
        if not moved:
            raise BadInputError("fio's JSON has no request")
        found.append(_Phase(number, at_ns, span_ns, moved, _cpu(jobs, span_ns), _missed(layout.plan, number, moved)))
        at_ns += span_ns
    if at_ns > LARGEST:
        raise BadInputError("fio's JSON has run times that no run can have")
    return found


def _moved(stream: int, job: FioJobResult, depth: int, *, times_flushes: bool) -> list[_Moved]:
    longest_ms = max(one.runtime for one in job.directions.values())
    found = []
    for operation, one in {**job.directions, Counted.FLUSH: job.flushes}.items():
        if not one.total_ios:
            continue
        has_failed = bool(job.error) and operation is not Counted.FLUSH
        cell, lacks = _cell(stream, operation, one, depth, has_failed=has_failed)
        ran_ms = longest_ms if operation is Counted.FLUSH else one.runtime
        # fio names the first error of a job only.
        failed_as = errno.errorcode.get(job.error, "unknown") if has_failed else "unknown"
        times = one.times
        if operation is Counted.FLUSH and not times_flushes:
            times, lacks = structs.replace(times, timed=0), None
            cell = structs.replace(cell, measures=CellEventMeasures(service=None))
        found.append(_Moved(cell, times, ran_ms * MS_NS, lacks, failed_as))
    return found


def _imported(phase: int, clones: list[_Moved]) -> Imported:
    """The figures that fio printed, as it printed them; those of a job whose clones have a row each are put together.
    Percentiles cannot be: only bins tell those of all clones."""
    times = [one.times for one in clones]
    counts = [one.times.timed or one.cell.requests for one in clones]
    percentiles = (times[0].percentile or {}) if len(clones) == 1 else {}
    return Imported(
        phase=phase,
        stream=clones[0].cell.stream,
        operation=clones[0].cell.operation,
        measure=Timed.SERVICE,
        mean_ns=times[0].mean if len(clones) == 1 else _mean(times, counts),
        min_ns=min(one.min for one in times),
        max_ns=max(one.max for one in times),
        percentiles={f"p{percent:g}": value for percent, value in percentiles.items()},
        has_bins=all(one.bins for one in times),
    )


def _mean(times: list[FioTimes], counts: list[int]) -> float:
    return sum(one.mean * count for one, count in zip(times, counts, strict=True)) / max(1, sum(counts))


def _start(document: FioDocument, layout: Layout, opened: Start | None) -> Start:
    """Whether the page cache is passed by as it is known beside fio; else as the jobs ask for it."""
    return Start(
        schema=SCHEMA,
        start_unix_ns=document.printed_unix_ns,
        engine=Engine.FIO,
        engine_reason=EngineOfImport(version=_version(document, layout)),
        io=opened.io if opened else _asked_io(document, layout),
        io_reason=opened.io_reason if opened else None,
        targets=opened.targets if opened else [],
    )


def _version(document: FioDocument, layout: Layout) -> str:
    """With the engines of the jobs: requests of another one reach the storage in another way."""
    known = [understood(document.options_of(job)).ioengine for job in document.jobs if job not in layout.merged]
    return ", ".join([document.version, *dict.fromkeys(known)])


def _asked_io(document: FioDocument, layout: Layout) -> IoPath:
    """Where the options of some jobs are not known, those of all jobs together tell, if they do. One word for jobs that
    differ in it would be false of some."""
    common = override({}, (document.common_options or {}).items())
    asked = [understood(common if job in layout.merged else document.options_of(job)) for job in document.jobs]
    if layout.merged and not any({one.direct, one.buffered} != {None} for one in asked):
        return IoPath.UNKNOWN
    found = set(map(is_direct, asked))
    return IoPath.UNKNOWN if len(found) > 1 else IoPath.DIRECT if True in found else IoPath.BUFFERED


def _cpu(jobs: list[FioJobResult], span_ns: int) -> Cpu:
    def busy_ns(shares: list[tuple[FioJobResult, float]]) -> int:
        """fio's shares are of the time of all threads of a row; of a job that did not run, they are no numbers."""
        return sum(
            round(percent / 100 * (job.job_runtime * MS_NS or span_ns))
            for job, percent in shares
            if 0 <= percent <= CPU_MAX_PERCENT
        )

    return Cpu(
        user_ns=busy_ns([(job, job.usr_cpu) for job in jobs]), system_ns=busy_ns([(job, job.sys_cpu) for job in jobs])
    )


def _depth_of(job: FioJobResult, options: Mapping[str, str], rows: int) -> int:
    """A job's iodepth, or what was in flight at most where that was less, as with a synchronous engine; times its
    clones where fio printed all of them as one row (`group_reporting`)."""
    asked = _whole(options.get("iodepth", "1"))
    seen = [DEPTHS[name] for name, share in (job.iodepth_level or {}).items() if name in DEPTHS and share]
    depth = max(1, min(asked, max(seen, default=asked)))
    return depth * (_whole(options.get("numjobs", "1")) if rows == 1 else 1)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1


def _cell(
    stream: int, operation: Counted, found: FioDirection, depth: int, *, has_failed: bool
) -> tuple[CellEvent, RunWarning | None]:
    """Of a job that failed, fio counts all requests that it issued and times those that succeeded: the others failed.
    Without times, at least the last one did."""
    requests = found.total_ios
    errors = found.drop_ios + found.short_ios
    times = found.times
    if has_failed:
        timed = times.timed or 0
        succeeded = timed if timed or not found.io_bytes else requests - 1
        failed = max(0, requests - succeeded)
        requests, errors = requests - failed, errors + failed
    is_timed = bool(requests if times.timed is None else times.timed)
    measure, lacks = _measure(times, requests) if is_timed else (None, None)
    cell = CellEvent(
        stream=stream,
        operation=operation,
        requests=requests,
        bytes=found.io_bytes,
        errors=errors,
        depth_max=depth,
        measures=CellEventMeasures(service=measure),
    )
    return cell, lacks


def _measure(times: FioTimes, requests: int) -> tuple[Measure, RunWarning | None]:
    pairs = list(times.bins.items()) if times.bins else _pairs(times, times.timed or requests)
    try:
        histogram = _core.Histogram.of_counts(pairs)
    except (ValueError, OverflowError) as error:
        raise BadInputError(f"fio's JSON has latencies that no run can have: {error}") from error
    p50, p99 = histogram.percentiles_ns([50.0, 99.0])
    measure = Measure(mean_ns=times.mean, p50_ns=p50, p99_ns=p99, max_ns=times.max, histogram=histogram.text())
    return measure, None if times.bins else REBUILT if times.percentile else NO_PERCENTILES


def _pairs(times: FioTimes, total: int) -> list[tuple[int, int]]:
    """All that lies between two percentiles stands at the upper one, so that each reads as fio printed it."""
    pairs, placed = [], 0
    for percent, value in [*sorted((times.percentile or {}).items()), (100.0, times.max)]:
        if not 0 <= percent <= 100:
            raise BadInputError(f"fio's JSON is not as fio 3 writes it: {percent} is not a percentile")
        upto = round(total * percent / 100)
        pairs.append((value, max(0, upto - placed)))
        placed = max(placed, upto)
    return [pair for pair in pairs if pair[1]] or [(times.max, total)]
