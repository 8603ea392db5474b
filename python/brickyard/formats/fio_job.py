"""Duty: fio jobs → a profile. Jobs that run together are streams of a phase; `stonewall` begins the next one.

Refusal: an option that changes the load and has no counterpart is refused by its name, as is what no profile can say.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_cache import CacheUse
from brickyard.formats.fio_file import Job, read_command_line, read_jobs
from brickyard.formats.fio_files import each_file, file_names, shared_words
from brickyard.formats.fio_limits import Ends, read_ends
from brickyard.formats.fio_options import INVERSE, check_options
from brickyard.formats.fio_stream import ENGINES, Work, is_direct, plain_name, read_region, read_work
from brickyard.formats.fio_units import fio_bytes, fio_flag, fio_int, fio_number
from brickyard.formats.fio_verify import each_loop, read_back
from brickyard.formats.profile_parts import SEQUENTIAL, Limits, ProfilePhase, ProfileStream
from brickyard.schema.duration import duration_text
from brickyard.schema.fio_words import FILE_OF_FIO
from brickyard.units import format_counted

MAX_CLONES = 256  # that are streams of their own; 1024 workers are all that a phase has


@dataclass
class Imported:
    """A profile, and what its source would have called its targets, in their order."""

    text: str
    targets: list[str]
    notes: list[str]
    are_named: bool = False
    """Whether the source names them itself; otherwise the names are those of files that the other tool makes."""


def named_targets(targets: list[str], profile: str = "PROFILE", needed: int | None = None) -> str:
    """That a profile holds no target, which those of its source were, and how a run names them. `needed` is how many
    targets the profile has streams for, where that may differ: a tool may print only what several did together."""
    command = f"`brickyard run {profile} {_target_words(targets, needed or len(targets))}`"
    if len(targets) == 1:
        return (
            f"The profile holds no target. In its source, the target is {targets[0]}; name it in each run: {command}; "
            "without it, a run measures a scratch file."
        )
    if needed is not None and needed != len(targets):
        has, them = format_counted(needed, "targets"), "it" if needed == 1 else "them"
        return (
            f"The profile holds no target. The source has only what {', '.join(targets)} did together, so the profile "
            f"needs {has}; name {them} in each run: {command}."
        )
    return (
        f"The profile holds no targets. In its source, they are, in this order: {', '.join(targets)}. Name them in "
        f"each run: {command}."
    )


def _target_words(targets: list[str], needed: int) -> str:
    """Those of the source where they may be paths of this host, else as many placeholders as are needed."""
    if needed == len(targets) and all(target.startswith("/") for target in targets):
        return " ".join(map(shlex.quote, targets))
    return "TARGET" if needed == 1 else " ".join(f"TARGET{number}" for number in range(1, needed + 1))


@dataclass(frozen=True)
class _Load:
    """A job: its streams, when it starts, and what ends it."""

    job: Job
    streams: list[ProfileStream]
    ends: Ends


@dataclass
class _Import:
    targets: list[str] = field(default_factory=list)
    are_named: bool = False
    notes: list[str] = field(default_factory=list)
    top: dict[str, str | int] = field(default_factory=dict)
    cache: CacheUse = field(default_factory=CacheUse)

    def target(self, name: str) -> int:
        if name not in self.targets:
            self.targets.append(name)
        return self.targets.index(name)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def agree(self, job: Job, key: str, value: str | int) -> None:
        """What holds for a whole profile must be the same in every job."""
        if self.top.setdefault(key, value) != value:
            option = OPTION_OF.get(key, key)
            raise BadInputError(
                f"job {job.name}: {option} differs between jobs, and a profile has one {key} for all of them; set one "
                f"{option} in all jobs, or import each part from a file of its own"
            )


def import_fio(name: str, text: str, directory: Path) -> Imported:
    """A job file as a profile."""
    return import_jobs(name, read_jobs(text, directory), f"fio job file {name}")


def import_fio_command(name: str, words: list[str], directory: Path = Path()) -> Imported:
    """A fio command line of `--option=value` words, without the program's name; beside them may stand one job file."""
    files = [word for word in words if not word.startswith("-") and (directory / word).is_file()]
    if len(files) != 1 or any(word.lstrip("-").startswith("name") for word in words):
        return import_jobs(name, read_command_line(words), "fio command line")
    try:
        text = (directory / files[0]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{files[0]}: cannot be read: {error}") from error
    words = [word for word in words if word != files[0]]
    (common,) = read_command_line(["--name=all", *words])
    place = (directory / files[0]).parent
    jobs = read_jobs(text, place, given=common.options)
    made = import_jobs(name, jobs, f"fio command line with {files[0]}")
    own = {option for job in read_jobs(text, place) for option in job.options}
    both = [option for option in sorted(common.options) if {option, INVERSE.get(option)} & own]
    said = []
    if FILE_OF_FIO in both:
        both.remove(FILE_OF_FIO)
        said.append("as in fio, a job works on the files of both filenames, the job file's and the command line's")
    if both:
        said.append(f"as in fio, the job file's own options hold, not those of the command line: {', '.join(both)}")
    return replace(made, notes=[*made.notes, *said])


OPTION_OF = {
    "cache": "invalidate",
    "engine": "ioengine",
    "io": "direct",
    "reap": "iodepth_batch_complete_min",
    "seed": "randseed",
}
"""fio's option for a key that holds for a whole profile."""
NAMELESS = ("fio", "command")
"""What files and command lines are called that have no name of their own; their jobs' names say more."""
NAMES_LENGTH_MAX = 200


def job_names(names: Iterable[str]) -> str:
    """Clones share one name."""
    return ", ".join(dict.fromkeys(names))[:NAMES_LENGTH_MAX]


def import_jobs(name: str, jobs: list[Job], source: str, title: str | None = None) -> Imported:
    state = _Import()
    phases: list[ProfilePhase] = []
    for number, group in enumerate(each_loop(_groups(jobs))):
        loads = [_load(state, one, is_first=number == 0) for job in group for one in _files(state, job)]
        for phase in _phases(state, loads):
            phases.append(replace(phase, name=_unique(phase.name or "", phases)))
        for load in loads:
            back, notes = read_back(load.job, load.streams, load.ends)
            phases += [replace(phase, name=_unique(phase.name or "", phases)) for phase in back]
            for note in notes:
                state.note(note)
    for said in state.cache.notes():
        state.note(said)
    about = [f"Imported from a {source.removesuffix(f' {name}')}."] if title is None else []
    about += state.notes
    if state.are_named and title is None:
        about.append(named_targets(state.targets))
    called = job_names(job.name for job in jobs) if name in NAMELESS else name
    made = toml_text.profile_text(name, title or f"fio: {called}", source, about, phases, **state.top)
    return Imported(made, state.targets, state.notes, state.are_named)


def _groups(jobs: list[Job]) -> Iterator[list[Job]]:
    """Jobs that fio runs at the same time: `stonewall`, or waiting for all of those before, begins the next."""
    group: list[Job] = []
    for job in jobs:
        waited = job.asked.wait_for
        if waited is not None and [other.name for other in group] != [waited]:
            raise _at(job, BadInputError(f"wait_for={waited}: phases follow each other whole; use stonewall"))
        walls = job.asked.stonewall is not None and fio_flag("stonewall", job.asked.stonewall)
        if group and (walls or waited is not None):
            yield group
            group = []
        group.append(job)
    yield group


def _at(job: Job, error: BadInputError) -> BadInputError:
    return BadInputError(f"job {job.name}: {str(error).removeprefix(f'job {job.name}: ')}")


def _files(state: _Import, job: Job) -> list[Job]:
    try:
        made = each_file(job)
    except BadInputError as error:
        raise _at(job, error) from error
    if len(made) > 1:
        state.note(shared_words(job, len(made)))
    return made


def _load(state: _Import, job: Job, *, is_first: bool) -> _Load:
    try:
        return _read(state, job, is_first=is_first)
    except BadInputError as error:
        raise _at(job, error) from error


def _read(state: _Import, job: Job, *, is_first: bool) -> _Load:
    asked = job.asked
    engine = asked.ioengine
    if engine not in ENGINES:
        raise BadInputError(f"ioengine={engine} has no counterpart here; there are {', '.join(ENGINES)}")
    for said in check_options(job.options):
        state.note(said)
    is_passing = is_direct(job.asked)
    if not is_passing and fio_flag("pre_read", asked.pre_read):
        raise BadInputError("fio's pre_read with buffered I/O: its reads come from the cache, and here they would not")
    state.agree(job, "io", "direct" if is_passing else "buffered")
    state.agree(job, "engine", ENGINES[engine])
    # A profile drops the cache before its first phase alone.
    if not fio_flag("invalidate", asked.invalidate) and is_first:
        state.agree(job, "cache", "as_is")
    reap = fio_int("iodepth_batch_complete_min", asked.iodepth_batch_complete_min, high=4096)
    if reap > 1:
        state.agree(job, "reap", reap)
    if asked.randseed is not None:
        state.agree(job, "seed", fio_int("randseed", asked.randseed, high=(1 << 63) - 1))
    jobs = fio_int("numjobs", asked.numjobs, low=1, high=1024)
    work = read_work(job, jobs)
    for said in work.notes:
        state.note(said)
    if not is_passing:
        state.cache.add(job, is_first=is_first, reads=work.reads)
    streams = _clones(state, job, work, jobs)
    ends = read_ends(asked, depth=work.depth, clones=jobs, lanes=streams[0].workers or 1, passes=work.passes)
    for said in ends.notes:
        state.note(said)
    return _Load(job, streams, ends)


def _clones(state: _Import, job: Job, work: Work, jobs: int) -> list[ProfileStream]:
    """The `numjobs` clones: workers of one stream where that is the same, otherwise streams of their own."""
    asked, stream = job.asked, work.stream
    names = file_names(job, jobs)
    state.are_named |= bool(asked.filename or asked.directory)
    step = asked.offset_increment
    has_step = bool(step.rstrip("%").strip("0"))
    if jobs > 1 and len(names) == 1 and stream.address == SEQUENTIAL and not has_step:
        state.note("Clones of a sequential job go through the same blocks, each with a cursor of its own, as in fio.")
    has_cursor = stream.address is not None and stream.address.has_cursor
    each_its_own = jobs > 1 and (len(names) > 1 or has_step or has_cursor)
    if not each_its_own:
        if jobs > 1 and stream.address is not None and stream.address.kind == "permutation":
            state.note(
                f"The {jobs} clones of job {job.name} go through the blocks together, in one random order; in fio, each"
                " clone goes through all of them in an order of its own. The number of requests is the same."
            )
        return [replace(stream, target=state.target(names[0]), region=read_region(asked))]
    if jobs > MAX_CLONES:
        raise BadInputError(f"numjobs={jobs}: at most {MAX_CLONES} clones with cursors, files or regions of their own")
    return [
        replace(
            stream,
            name=f"{stream.name}-{n + 1}",
            target=state.target(names[min(n, len(names) - 1)]),
            workers=1,
            region=read_region(asked, _times(step, n) if has_step else ""),
            pace=stream.pace and replace(stream.pace, rate=stream.pace.rate / jobs),
        )
        for n in range(jobs)
    ]


def _times(step: str, count: int) -> str:
    if step.endswith("%"):
        return f"{fio_number('offset_increment', step.removesuffix('%'), high=100) * count:g}%"
    return str(fio_bytes("offset_increment", step) * count)


def _phases(state: _Import, loads: list[_Load]) -> list[ProfilePhase]:
    """One phase where all jobs begin and end alike; phases in turn where their times tell who runs when."""
    first = loads[0].ends
    if len({load.ends.start_us for load in loads}) == 1:
        if first.start_us:
            state.note("The pause before the first request (startdelay) is left out.")
        loads = [replace(load, ends=replace(load.ends, start_us=0)) for load in loads]
    if any(fio_flag("exitall", load.job.asked.exitall) for load in loads):
        loads = _ending_together(loads)
    alike = all(load.ends.limits == first.limits for load in loads)
    if alike and not any(load.ends.start_us for load in loads):
        streams = [stream for load in loads for stream in load.streams]
        if len(loads) > 1 and (first.limits.bytes or first.limits.requests):
            state.note(
                "Amounts of jobs that run together (io_size, number_ios) are one amount of their phase here: where one"
                " is faster than the others, it does more of it than in fio."
            )
        return [ProfilePhase(plain_name(loads[0].job.name), first.of_jobs(len(loads)), streams)]
    if not all(load.ends.is_timed() for load in loads):
        raise _at_other_times(loads)
    state.note(
        "Jobs that begin or end at different times are phases in turn here: at each border requests in flight end, and"
        " sequential streams begin anew."
    )
    edges = sorted({at for load in loads for at in (load.ends.start_us, load.ends.end_us())})
    made = []
    for begin, end in pairwise(edges):
        at_work = [load for load in loads if load.ends.start_us <= begin and load.ends.end_us() >= end]
        if not at_work:
            state.note("A pause in which no job runs is left out.")
            continue
        streams = [stream for load in at_work for stream in load.streams]
        lasting = Limits(duration=duration_text(end - begin))
        made.append(ProfilePhase(f"from-{begin / 1e6:g}s", lasting, streams))
    return made


LIMITED_BY = {
    "duration": "runtime",
    "requests": "number_ios",
    "bytes": "io_size",
    "passes": "size, loops",
    "stop": "max_latency, latency_target",
    "steady": "steadystate",
    "warmup": "ramp_time",
}
"""The options that make each limit of a phase."""


def _at_other_times(loads: list[_Load]) -> BadInputError:
    first = loads[0].ends
    late = next(load for load in loads if load.ends.limits != first.limits or load.ends.start_us)
    names = [
        option
        for limit, option in LIMITED_BY.items()
        if getattr(late.ends.limits, limit) != getattr(first.limits, limit)
    ]
    names += ["startdelay"] if late.ends.start_us else []
    beside = f"begins or ends otherwise than the jobs it runs beside ({', '.join(names)})"
    if names == ["ramp_time"]:
        return BadInputError(f"job {late.job.name}: {beside}; give them the same ramp_time, or import them apart")
    without = " without ramp_time" if any(load.ends.limits.warmup for load in loads) else ""
    return BadInputError(
        f"job {late.job.name}: {beside}, and how long each runs is not known beforehand; give them a runtime and"
        f" time_based{without}, or import them apart"
    )


def _ending_together(loads: list[_Load]) -> list[_Load]:
    """`exitall`: the first job that ends is the end of all."""
    if not all(load.ends.is_timed() for load in loads):
        if all(load.ends.limits == loads[0].ends.limits for load in loads):
            return loads
        raise BadInputError(f"job {loads[0].job.name}: exitall, and which job ends first is not known beforehand")
    end_us = min(load.ends.end_us() for load in loads)
    return [
        replace(load, ends=load.ends.lasting(end_us - load.ends.start_us))
        for load in loads
        if load.ends.start_us < end_us
    ]


def _unique(name: str, phases: list[ProfilePhase]) -> str:
    taken = {phase.name for phase in phases}
    return name if name not in taken else next(f"{name}-{n}" for n in range(2, 10_000) if f"{name}-{n}" not in taken)
