"""Duty: which phase and stream of a plan each job of fio's JSON is; the plan itself is made from the jobs' own options.

fio's JSON leaves out options without a value: whether a job had norandommap is not known, a job that ran for all of its
runtime is taken to be time_based, and jobs of different groups are taken to have run in turn (stonewall), though
new_group would have let them run together.

Refusal: where the options are not all known, as with group_reporting over several jobs, the plan names the jobs only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_groups import merged_rows
from brickyard.formats.fio_job import import_jobs, job_names
from brickyard.formats.fio_json import FioDocument, FioJobResult
from brickyard.formats.fio_options import understood
from brickyard.formats.fio_units import fio_int, fio_time_us
from brickyard.schema import read_plan
from brickyard.schema.plan import OtherKind, OtherPhase, OtherPlan, OtherStream, Plan


@dataclass(frozen=True)
class Layout:
    """A plan, and for each of its phases the jobs with the number of the stream that each is."""

    plan: Plan | OtherPlan
    phases: list[list[tuple[int, FioJobResult]]]
    is_guessed: bool = False
    """Whether the plan was made from what fio's JSON tells of the options."""
    merged: Sequence[FioJobResult] = ()
    """Rows that are of several jobs, of whose own options nothing is known."""


def lay_out(document: FioDocument, plan: Plan | None) -> Layout:
    """With a plan of ours the jobs are its streams in order."""
    jobs = document.jobs
    if not jobs:
        raise BadInputError("fio's JSON has no job")
    if plan is not None:
        counts = [len(phase.stream) for phase in plan.phase]
        if sum(counts) != len(jobs):
            raise BadInputError(f"fio reports {len(jobs)} jobs for {sum(counts)} streams")
        rest = iter(jobs)
        return Layout(plan, [[(stream, next(rest)) for stream in range(count)] for count in counts])
    merged = merged_rows(document)
    found = None if merged else _by_options(document)
    return found or _by_names(document, merged)


def _starts_a_phase(document: FioDocument, before: FioJobResult | None, job: FioJobResult) -> bool:
    """A group of its own (fio numbers them), or the option itself where it stands there."""
    return before is None or "stonewall" in document.options_of(job) or before.groupid != job.groupid


def _by_options(document: FioDocument) -> Layout | None:
    """The plan that importing the jobs' own options gives; None where that is not possible."""
    # Without group_reporting, clones stand there one by one, with the same name and options.
    clones = [list(group) for _, group in groupby(document.jobs, key=lambda job: (job.jobname, job.own_options))]
    if not all(group[0].own_options for group in clones):
        return None
    firsts = [group[0] for group in clones]
    try:
        read = _jobs(document, firsts)
        plan = read_plan(_core.validate(import_jobs("fio", read, document.version).text, []))
    except (BadInputError, ValueError):
        return None
    phases: list[list[tuple[int, FioJobResult]]] = [[] for _ in plan.phase]
    places = _places(plan)
    for job, group in zip(read, clones, strict=True):
        wanted = fio_int("numjobs", job.options.get("numjobs") or "1")
        first = next(places, None)
        if first is None or len(group) not in (1, wanted):
            return None
        phase, stream, workers = first
        own = [(phase, stream)]
        while workers == 1 and len(own) < wanted:  # each clone is a stream of its own
            following = next(places, None)
            if following is None:
                return None
            own.append(following[:2])
        if len(own) > len(group):
            return None
        for number, entry in enumerate(group):
            at_phase, at_stream = own[min(number, len(own) - 1)]
            phases[at_phase].append((at_stream, entry))
    if next(places, None) is not None or not all(phases):
        return None
    return Layout(plan, phases, is_guessed=True)


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


def _places(plan: Plan) -> Iterator[tuple[int, int, int]]:
    for phase, item in enumerate(plan.phase):
        for stream, found in enumerate(item.stream):
            yield phase, stream, found.workers


def _by_names(document: FioDocument, merged: list[FioJobResult]) -> Layout:
    groups: list[list[FioJobResult]] = []
    for before, job in zip([None, *document.jobs], document.jobs, strict=False):
        if _starts_a_phase(document, before, job):
            groups.append([])
        groups[-1].append(job)
    phases = [OtherPhase(name=group[0].jobname, stream=_streams(group, merged)) for group in groups]
    plan = OtherPlan(
        kind=OtherKind.IMPORT,
        title=f"fio: {job_names(document.names)}",
        source=document.version,
        about="Imported from fio's JSON.",
        seed=0,
        phase=phases,
    )
    told = [list(enumerate(group)) for group in groups]
    return Layout(plan, told, is_guessed=len(merged) < len(document.jobs), merged=merged)


def _streams(group: list[FioJobResult], merged: list[FioJobResult]) -> list[OtherStream]:
    """With the names of the jobs; clones, which share one, are numbered. Of several jobs, the first has its name here,
    and the last its options."""
    names = [job.jobname for job in group]
    streams = []
    for at, (name, job) in enumerate(zip(names, group, strict=True)):
        number = f" ({names[: at + 1].count(name)})" if names.count(name) > 1 else ""
        if job in merged:
            streams.append(OtherStream(name=f"{name} and others"))
        else:
            streams.append(OtherStream(name=name + number, options=job.own_options or {}))
    return streams
