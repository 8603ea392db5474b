"""Duty: which phase and stream of a plan each job of fio's JSON is; the plan itself is made from the jobs' own options.

fio's JSON leaves out options without a value: whether a job had norandommap is not known, a job that ran for all of its
runtime is taken to be time_based, and jobs of different groups are taken to have run in turn (stonewall), though
new_group would have let them run together. What a job reads back once it has written (`verify`) is a phase of its own,
as the import of the job file has it; beside other jobs, it is a later part of their phase.

Refusal: where the options are not all known, as with group_reporting over several jobs, the plan names the jobs only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_groups import merged_rows
from brickyard.formats.fio_job import import_jobs, job_names
from brickyard.formats.fio_json import FioDocument, FioJobResult
from brickyard.formats.fio_options import understood
from brickyard.formats.fio_rows import FioPart, FioRow, row_of
from brickyard.formats.fio_units import fio_int, fio_time_us
from brickyard.schema import RunWarning, read_plan
from brickyard.schema.fio_words import FILE_OF_FIO
from brickyard.schema.plan import ClosedPace, OtherKind, OtherPhase, OtherPlan, OtherStream, Plan

Place = tuple[int, int, int]
"""Phase, stream and its workers."""


@dataclass(frozen=True)
class Layout:
    """A plan, and for each of its phases the jobs with the number of the stream that each is."""

    plan: Plan | OtherPlan
    phases: list[list[tuple[int, FioPart]]]
    is_guessed: bool = False
    """Whether the plan was made from what fio's JSON tells of the options."""
    merged: Sequence[FioJobResult] = ()
    """Rows that are of several jobs, of whose own options nothing is known."""
    said: Sequence[RunWarning] = ()


def lay_out(document: FioDocument, plan: Plan | None) -> Layout:
    """With a plan of ours the jobs are its streams in order."""
    jobs = document.jobs
    if not jobs:
        raise BadInputError("fio's JSON has no job")
    if plan is not None:
        counts = [len(phase.stream) for phase in plan.phase]
        if sum(counts) != len(jobs):
            raise BadInputError(f"fio reports {len(jobs)} jobs for {sum(counts)} streams")
        rest = map(FioPart, jobs)
        return Layout(plan, [[(stream, next(rest)) for stream in range(count)] for count in counts])
    merged = merged_rows(document)
    rows = [FioRow(FioPart(job)) if job in merged else row_of(document, job) for job in jobs]
    found = (None if merged else _by_options(document, rows)) or _by_names(document, rows, merged)
    said = {warning.id: warning for row in rows for warning in row.said}
    return replace(found, said=list(said.values()))


def _starts_a_phase(document: FioDocument, before: FioJobResult | None, job: FioJobResult) -> bool:
    """A group of its own (fio numbers them), or the option itself where it stands there."""
    return before is None or "stonewall" in document.options_of(job) or before.groupid != job.groupid


def _by_options(document: FioDocument, rows: list[FioRow]) -> Layout | None:
    """The plan that importing the jobs' own options gives; None where that is not possible."""
    # Without group_reporting, clones stand there one by one, with the same name and options.
    pairs = zip(document.jobs, rows, strict=True)
    clones = [list(group) for _, group in groupby(pairs, key=lambda pair: (pair[0].jobname, pair[0].own_options))]
    firsts = [group[0][0] for group in clones]
    if not all(job.own_options for job in firsts):
        return None
    try:
        read = _jobs(document, firsts)
        plan = read_plan(_core.validate(import_jobs("fio", read, document.version).text, []))
    except (BadInputError, ValueError):
        return None
    phases: list[list[tuple[int, FioPart]]] = [[] for _ in plan.phase]
    places = _places(plan)
    for job, group in zip(read, clones, strict=True):
        own = [row for _, row in group]
        mains = [row.main for row in own if row.main is not None]
        backs = [row.back for row in own if row.back is not None]
        if backs and not _is_alone(document, firsts, group[0][0]):
            return None
        for parts in (mains, backs) if backs else (mains,):
            placed = _placed(job, parts, places)
            if placed is None:
                return None
            for phase, stream, part in placed:
                phases[phase].append((stream, part))
    if next(places, None) is not None or not all(phases):
        return None
    return Layout(plan, phases, is_guessed=True)


def _placed(job: Job, parts: list[FioPart], places: Iterator[Place]) -> list[tuple[int, int, FioPart]] | None:
    """Of a job and its clones; None where there are other streams than rows."""
    wanted = fio_int("numjobs", job.options.get("numjobs") or "1")
    first = next(places, None)
    if first is None or len(parts) not in (1, wanted):
        return None
    phase, stream, workers = first
    own = [(phase, stream)]
    while workers == 1 and len(own) < wanted:  # each clone is a stream of its own
        following = next(places, None)
        if following is None:
            return None
        own.append(following[:2])
    if len(own) > len(parts):
        return None
    return [(*own[min(number, len(own) - 1)], part) for number, part in enumerate(parts)]


def _is_alone(document: FioDocument, firsts: list[FioJobResult], job: FioJobResult) -> bool:
    """Whether no other job ran at the same time; its clones are no others."""
    at = firsts.index(job)
    following = firsts[at + 1 : at + 2]
    starts = _starts_a_phase(document, firsts[at - 1] if at else None, job)
    return starts and all(_starts_a_phase(document, job, after) for after in following)


def _jobs(document: FioDocument, firsts: list[FioJobResult]) -> list[Job]:
    """As their job file had them, one for all clones."""
    pairs = zip([None, *firsts], firsts, strict=False)
    starts = [_starts_a_phase(document, before, job) for before, job in pairs]
    return [
        Job(job.jobname, _timed(document.options_of(job), job) | ({"stonewall": ""} if begins else {}))
        for job, begins in zip(firsts, starts, strict=True)
    ]


def _timed(options: dict[str, str], job: FioJobResult) -> dict[str, str]:
    """With time_based, which the JSON does not tell, where the time ended the job."""
    runtime_us = fio_time_us("runtime", understood(options).runtime, default="s")
    ended = runtime_us and job.ran_ms * 1000 >= runtime_us
    return {**options, "time_based": "1"} if ended else options


def _places(plan: Plan) -> Iterator[Place]:
    for phase, item in enumerate(plan.phase):
        for stream, found in enumerate(item.stream):
            yield phase, stream, found.workers


def _by_names(document: FioDocument, rows: list[FioRow], merged: list[FioJobResult]) -> Layout:
    groups: list[list[tuple[FioJobResult, FioRow]]] = []
    for before, job, row in zip([None, *document.jobs], document.jobs, rows, strict=False):
        if _starts_a_phase(document, before, job):
            groups.append([])
        groups[-1].append((job, row))
    phases: list[OtherPhase] = []
    parts: list[list[tuple[int, FioPart]]] = []
    for group in groups:
        jobs = [job for job, _ in group]
        for name, own in _in_turn(group, _called(jobs[0], merged)):
            phases.append(OtherPhase(name=name, stream=_streams(document, jobs, merged)))
            parts.append(own)
    plan = OtherPlan(
        kind=OtherKind.IMPORT,
        title=f"fio: {job_names(_called(job, merged) for job in document.jobs)}",
        source=document.version,
        about="Imported from fio's JSON.",
        seed=0,
        phase=phases,
    )
    return Layout(plan, parts, is_guessed=len(merged) < len(document.jobs), merged=merged)


def _called(job: FioJobResult, merged: list[FioJobResult]) -> str:
    """fio calls a row of several jobs by the first of them."""
    return f"{job.jobname} and others" if job in merged else job.jobname


def _in_turn(group: list[tuple[FioJobResult, FioRow]], name: str) -> Iterator[tuple[str, list[tuple[int, FioPart]]]]:
    """The phases of a group. Jobs beside each other read back when each has written, while others may still write."""
    every = [[(at, part) for part in row.parts] for at, (_, row) in enumerate(group)]
    if len({job.jobname for job, _ in group}) > 1:
        yield name, [one for own in every for one in own]
        return
    mains = [(at, row.main) for at, (_, row) in enumerate(group) if row.main is not None]
    backs = [(at, row.back) for at, (_, row) in enumerate(group) if row.back is not None]
    if mains:
        yield name, mains
    if backs:
        yield f"{name}-verify", backs


PACED = frozenset({"flow", "latency_target", "rate", "rate_iops", "read_iolog"})
"""Options with which a request is not sent as soon as the one before it has ended."""


def _streams(document: FioDocument, group: list[FioJobResult], merged: list[FioJobResult]) -> list[OtherStream]:
    """With the names of the jobs; clones, which share one, are numbered. Of several jobs, the first has its name here,
    and the last its options."""
    names = [job.jobname for job in group]
    streams = []
    for at, (name, job) in enumerate(zip(names, group, strict=True)):
        number = f" ({names[: at + 1].count(name)})" if names.count(name) > 1 else ""
        if job in merged:
            streams.append(OtherStream(name=_called(job, merged)))
        else:
            pace = ClosedPace() if PACED.isdisjoint(document.options_of(job)) else None
            streams.append(OtherStream(name=name + number, pace=pace, options=_own_options(document, job)))
    return streams


def _own_options(document: FioDocument, job: FioJobResult) -> dict[str, str]:
    """With all files of the job, if jobs differ in these: those that are named for all jobs are its own as well."""
    own, names = job.own_options or {}, document.options_of(job).get(FILE_OF_FIO)
    differ = any(FILE_OF_FIO in (one.own_options or {}) for one in document.jobs)
    return {**own, FILE_OF_FIO: names} if names and differ else own
