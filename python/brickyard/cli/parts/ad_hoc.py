"""Duty: a load in fio's words on the command line → the text of a profile.

Refusal: what the words mean is for `brickyard.formats` to say.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from brickyard import _core, bricks, profiles
from brickyard.cli.parts.habits import split_range
from brickyard.cli.parts.options import STREAM
from brickyard.errors import BadInputError, Edit, Remedy, one_line
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_job import Imported, import_jobs
from brickyard.formats.fio_options import FioOptions, understood
from brickyard.formats.fio_stream import DIRECTIONS, job_rate
from brickyard.formats.fio_units import TIME_US, fio_bytes, fio_int, fio_letters, fio_number, fio_time_us
from brickyard.outputs import write_whole
from brickyard.schema.fio_words import RW, fio_title
from brickyard.schema.titles import BY_OPTIONS
from brickyard.units import format_iops

NAME = "ad-hoc"
RUNTIME = "30s"
DECIMAL = re.compile(r"\d([kmgtp]b)\b", re.IGNORECASE)
BINARY = re.compile(r"\d([kmgtp]ib)\b", re.IGNORECASE)
RANGE = re.compile(r"[^\s,-]+-[^\s,-]+")
OPTION = re.compile(r"\w+=")
BARE = re.compile(r"\s*(\d+\.?\d*)\s*([kmgtp])(/s)?\s*", re.IGNORECASE)
"""Bytes/s to fio, of which k is 1024; people also write thousands of requests/s so."""
FRACTION = re.compile(r"(\d*\.\d+)\s*([a-z]*)", re.IGNORECASE)
TIMES = ("runtime", "ramp_time")


GROUP = Group("A workload given with fio's options", sort_key=5)


def _word(about: str, *names: str) -> Parameter:
    return Parameter(name=[f"--{name}" for name in names] or None, help=about, group=GROUP)


def _flag(*names: str) -> Parameter:
    """What a line of fio often has, and a run here does anyway or not at all: it is taken, and the run says so."""
    return Parameter(name=[f"--{name}" for name in names], negative="", show=False, group=GROUP)


@Parameter(name="*")
@dataclass(frozen=True)
class AdHoc:
    """Options of fio under their own names; what they mean is what fio means by them, but for `rate`."""

    rw: Annotated[
        str | None, _word("read, write, randread, randwrite, rw, randrw, trim or randtrim.", "rw", "readwrite")
    ] = None
    bs: Annotated[str | None, _word("Size of a request: 4k, or 4k,64k (reads,writes).", "bs", "blocksize")] = None
    bssplit: Annotated[str | None, _word("Sizes with their shares, such as 4k/60:64k/40.")] = None
    iodepth: Annotated[str | None, _word("Requests in flight per job.")] = None
    numjobs: Annotated[str | None, _word("Number of identical jobs that run at the same time.")] = None
    rwmixread: Annotated[str | None, _word("Share of reads in rw and randrw, in per cent.")] = None
    rate: Annotated[
        str | None,
        _word("Requests/s of all jobs together, or bytes/s with a unit such as 20MiB."),
    ] = None
    rate_iops: Annotated[
        str | None, _word("Requests/s of each job and direction, as in fio.", "rate-iops", "rate_iops")
    ] = None
    runtime: Annotated[
        str | None, _word(f"How long to run, such as 30 (seconds), 0.5 or 5m; {RUNTIME} by default.")
    ] = None
    ramp_time: Annotated[str | None, _word("Warm-up time, which no figure includes.", "ramp-time", "ramp_time")] = None
    direct: Annotated[str | None, _word("1 (default) bypasses the page cache, 0 uses it.")] = None
    fsync: Annotated[str | None, _word("fsync after every N writes.")] = None
    fdatasync: Annotated[str | None, _word("fdatasync after every N writes.")] = None
    sync: Annotated[str | None, _word("sync or dsync for each write.")] = None
    thinktime: Annotated[str | None, _word("Pause after each request, in µs or with a unit.")] = None
    random_distribution: Annotated[
        str | None,
        _word("zipf:1.1, pareto:0.2, normal:10 or zoned:60/10:40/90.", "random-distribution", "random_distribution"),
    ] = None
    percentage_random: Annotated[
        str | None, _word("Share of random offsets, in per cent.", "percentage-random", "percentage_random")
    ] = None
    name: Annotated[str | None, _word("What the run is called in lists and headings.")] = None
    filename: Annotated[str | None, _word("The target, as an option.")] = None
    ioengine: Annotated[
        str | None, _word("fio's engine: psync and its like send one request per job; --engine chooses the program.")
    ] = None
    norandommap: Annotated[bool | None, _flag("norandommap")] = None
    end_fsync: Annotated[bool | None, _flag("end_fsync", "end-fsync")] = None
    time_based: Annotated[bool | None, _flag("time_based", "time-based")] = None
    group_reporting: Annotated[bool | None, _flag("group_reporting", "group-reporting")] = None
    thread: Annotated[bool | None, _flag("thread")] = None
    randrepeat: Annotated[bool | None, _flag("randrepeat")] = None
    gtod_reduce: Annotated[bool | None, _flag("gtod_reduce", "gtod-reduce")] = None
    refill_buffers: Annotated[bool | None, _flag("refill_buffers", "refill-buffers")] = None
    save: Annotated[
        Path | None,
        Parameter(validator=STREAM, help="Write the profile that these options make to this file.", group=GROUP),
    ] = None

    @property
    def given(self) -> list[str]:
        return [item.name for item in fields(self) if getattr(self, item.name) is not None]

    @property
    def is_asked(self) -> bool:
        return bool(self.given)


NO_WORDS = AdHoc()
NO_EFFECT = {
    "time_based": "a run always lasts for --runtime",
    "group_reporting": "all workers of a run are reported together",
    "thread": "workers share the process",
    "randrepeat": "the same seed gives the same requests",
    "gtod_reduce": "every latency is kept",
    "refill_buffers": "what is written is always unique data",
}
"""Taken from a line of fio, and why a run is the same without it."""
FLAGS = frozenset(
    f"--{spelt}" for name in (*NO_EFFECT, "end_fsync", "norandommap") for spelt in (name, name.replace("_", "-"))
)
QUEUING = "windowsaio"
"""An engine of fio's that leaves ours open, and whose queue holds for buffered I/O too."""
OF_RANDOM = ("random_distribution", "percentage_random")
"""What they mean is meant of random offsets alone."""
NOT_OF_THE_JOB = ("save", "rate", "name", "filename", *NO_EFFECT)


def joined_flags(given: list[str]) -> list[str]:
    """`--randrepeat 0` as one word, as fio reads it; the parser would take the 0 for a target."""
    joined: list[str] = []
    for word in given:
        if joined and joined[-1] in FLAGS and word in ("0", "1"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def made_profile(words: AdHoc) -> tuple[profiles.ProfileText, list[str]]:
    """The profile and what has to be said of it; `--save` writes it."""
    if words.rw is None:
        raise BadInputError("a workload given with fio's options needs --rw, such as --rw randread; or name a profile")
    given = {name: _text(getattr(words, name)) for name in words.given}
    if wrong := wrong_values(given):
        raise wrong[0] if len(wrong) == 1 else BadInputError(f"Wrong values: {'; '.join(map(str, wrong))}")
    notes = [f"--{key} has no effect: {why}" for key, why in NO_EFFECT.items() if key in given]
    options = _job(given)
    asked = understood(options)
    if words.rate is not None:
        if words.rate_iops is not None:
            raise BadInputError("--rate and --rate-iops are two rates; leave one of them out")
        options["rate_iops"] = _rate(_total_per_s(words.rate, asked), asked)
    job = Job(NAME, options, rates_requests=words.rate is not None)
    notes += _several(job) if words.rate_iops is not None else []
    unnamed = profiles.ProfileText(NAME, _imported(job, NAME).text, "")
    title = fio_title(profiles.validate(unnamed, []))
    imported = _imported(job, f"{words.name}: {title}" if words.name else title)
    if words.save is not None:
        try:
            write_whole(words.save, imported.text, stream=True)
        except OSError as error:
            raise BadInputError(f"{words.save}: cannot be written: {one_line(error.strerror)}") from error
    place = str(words.save or "")
    return profiles.ProfileText(words.save.stem if words.save else NAME, imported.text, place), imported.notes + notes


def _job(given: Mapping[str, str]) -> dict[str, str]:
    """The options of fio's job, with Brickyard's defaults: direct I/O, this host's best engine, limited by time."""
    options = {name: _whole_us(name, text) for name, text in given.items() if name not in NOT_OF_THE_JOB}
    return {"direct": "1", "ioengine": QUEUING, "runtime": RUNTIME, **options, "time_based": "1", "filename": NAME}


def _imported(job: Job, title: str) -> Imported:
    try:
        return import_jobs(NAME, [job], BY_OPTIONS, title=title)
    except BadInputError as error:
        said = str(error).removeprefix(f"job {NAME}: ")
        raise BadInputError(f"--{said}" if OPTION.match(said) else said) from error


def _whole_us(name: str, text: str) -> str:
    """A time with a fraction in fio's words, which have none: 0.5 is 500 ms."""
    found = FRACTION.fullmatch(text.strip()) if name in TIMES else None
    unit_us = TIME_US.get((found[2] or "s").lower()) if found else None
    return f"{round(float(found[1]) * unit_us)}us" if found and unit_us else text


def wrong_values(given: Mapping[str, str]) -> list[BadInputError]:
    """What is wrong with each option by itself, whatever the others are; `rw` is the first of them."""
    rw, found = "randrw", []
    for name, text in given.items():
        try:
            _check(name, text, rw)
            if name not in NOT_OF_THE_JOB:
                _imported(Job(NAME, _job({"rw": rw, name: text})), NAME)
            rw = text if name == "rw" else rw
        except BadInputError as error:
            found.append(error)
    return found


def fio_word(profile: str) -> BadInputError | None:
    """What is said of a word of fio's `rw` that stands where a profile does."""
    if profile not in DIRECTIONS or os.path.lexists(profile):
        return None
    shipped = profiles.OF_FIO.get(profile)
    named = f"name the shipped profile {shipped}, or " if shipped else ""
    remedy = Remedy(f"{named}write --rw {profile}", Edit((profile,), ("--rw", profile)))
    return BadInputError(f"{profile}: is a word of fio's --rw, not a profile", remedy)


def targets_of(words: AdHoc, named: tuple[str, ...]) -> tuple[str, ...]:
    """The targets, of which --filename names one; fio's list of files is one load spread over all of them."""
    if words.filename is None:
        return named
    if named:
        raise BadInputError(f"--filename {words.filename} and {named[0]} both name a target; leave one of them out")
    path = words.filename.replace("\\:", ":")
    is_list = ":" in words.filename.replace("\\:", "")
    if is_list and not bricks.is_modelled(path) and not os.path.lexists(path):
        raise BadInputError(
            f"--filename {words.filename}: fio spreads one load over these files, which one run here does not; name "
            "them as targets and add --each, which gives each of them the whole load, or import the job with "
            "`brickyard import`"
        )
    return (path,)


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _check_units(name: str, text: str) -> None:
    """fio's KB is 1024 bytes and its KiB 1000; Brickyard's are the standard's. So sizes of requests have neither."""
    sizes = ("bs", "bssplit")
    if name in (*sizes, "rate") and (found := DECIMAL.search(text)):
        unit, fio, ours = found[1].upper(), 1024, 1000
    elif name in sizes and (found := BINARY.search(text)):
        unit, fio, ours = f"{found[1][0].upper()}iB", 1000, 1024
    else:
        return
    meant = fio_letters(text) if name in sizes else f"{unit[0]}iB"
    if unit == "KB":
        raise BadInputError(f"--{name} {text}: KB is 1024 bytes to fio and 1000 to others; write {meant}")
    raise BadInputError(f"--{name} {text}: {unit} is a power of {fio} to fio and of {ours} to Brickyard; write {meant}")


def _check(name: str, text: str, rw: str) -> None:
    if name == "rate" and "," in text:
        raise BadInputError(
            f"--rate {text}: is one rate, of reads and writes together, which --rwmixread divides",
            Remedy(
                "in a profile, give each direction a stream with its own `pace`; here, --rate-iops takes requests/s of "
                "each direction (reads,writes)",
                Edit(("--rate", text), ("--rate-iops", text)) if all(map(_is_number, text.split(","))) else None,
            ),
        )
    if name == "bs" and RANGE.fullmatch(text.strip()):
        raise BadInputError(f"--bs {text}: is one size, or one each for reads and writes", _of_range(text.strip()))
    _check_units(name, text)
    if name == "rate":
        _check_rate(text)
    if name == "runtime" and not fio_time_us("--runtime", _whole_us(name, text), default="s"):
        raise BadInputError(f"--runtime {text}: must be above 0, such as 30 (seconds) or 5m")
    if name == "time_based" and text == "0":
        raise BadInputError(
            "--time_based=0: a run here lasts for --runtime; in a profile, a phase can end after passes"
        )
    kind, is_random = DIRECTIONS.get(rw, ("mixed", True))
    if name == "rwmixread" and kind != "mixed":
        raise BadInputError(f"--rwmixread {text}: --rw {rw} does not mix; --rw randrw and rw do")
    if name == "rwmixread" and re.fullmatch(r"0?\.\d*[1-9]\d*", text):
        percent = f"{float(text) * 100:g}"
        edit = Remedy(f"write {percent}", Edit(("--rwmixread", text), ("--rwmixread", percent)))
        raise BadInputError(f"--rwmixread {text}: is in per cent, as in fio", edit)
    if name in OF_RANDOM and not is_random:
        random = RW[kind, True]
        option = name.replace("_", "-")
        edit = Remedy(f"write --rw {random}", Edit(("--rw", rw), ("--rw", random)))
        raise BadInputError(f"--{option} {text}: --rw {rw} is sequential, and fio ignores the option there", edit)


def _of_range(text: str) -> Remedy:
    """The sizes of a range as a mix, as fio's bsrange has them; a range of many sizes is for a job file."""
    try:
        words = split_range(text)
    except BadInputError:
        words = ()
    if not words:
        return Remedy("Write --bssplit 4k/60:64k/40.")
    return Remedy(f"Write {shlex.join(words)}.", Edit(("--bs", text), words))


def _check_rate(text: str) -> None:
    """A letter alone is refused, with the command for the likelier load: few are of 5 KiB/s or 20 million IOPS."""
    if found := BARE.fullmatch(text):
        number, unit = found[1], found[2].upper()
        requests, size = f"{float(number) * 1000 ** (1 + 'KMGTP'.index(unit)):.0f}", f"{number}{unit}iB"
        edit = Edit(("--rate", text), ("--rate", requests if unit == "K" else size))
        raise BadInputError(
            f"--rate {text}: is bytes/s in fio", Remedy(f"write {requests} for requests/s or {size} for bytes/s", edit)
        )
    if _is_number(text):
        fio_number("--rate", text, low=0.001, high=1e9)
    else:
        _bytes_per_s(text)


def _several(job: Job) -> list[str]:
    """What a rate of several jobs or directions comes to."""
    asked = job.asked
    jobs = fio_int("numjobs", asked.numjobs, low=1, high=1024)
    if jobs == 1 and DIRECTIONS.get(asked.rw, ("",))[0] != "mixed":
        return []
    per_s = format_iops(job_rate(job) * jobs)
    return [f"--rate-iops is the rate of each job and direction, as in fio: {per_s} requests/s together"]


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdigit()


def _total_per_s(text: str, asked: FioOptions) -> float:
    """Requests/s of all jobs."""
    if _is_number(text):
        return float(text)
    if asked.bssplit is not None or "," in asked.bs:
        raise BadInputError(f"--rate {text}: with requests of several sizes, give requests/s")
    return _bytes_per_s(text) / fio_bytes("bs", asked.bs)


def _bytes_per_s(text: str) -> float:
    try:
        return _core.parse_bytes_per_s(text)
    except ValueError as error:
        raise BadInputError(f"--rate {text}: {one_line(error)}") from error


def _rate(total: float, asked: FioOptions) -> str:
    """All jobs' requests/s as fio's rates of one job and direction."""
    each = total / fio_int("numjobs", asked.numjobs, low=1, high=1024)
    if DIRECTIONS.get(asked.rw, ("",))[0] != "mixed":
        return repr(each)
    reads = fio_number("rwmixread", asked.rwmixread, high=100) / 100
    return f"{each * reads!r},{each * (1 - reads)!r}"
