"""Duty: which files a fio job works on: one for each clone, one for all, or several that share the job's depth.

A job with several files (`nrfiles`, or names with a colon between) takes turns between them with one depth. Here each
file is a stream with its part of the depth, of the size and of the rate.

Refusal: a depth that cannot be divided, and an order of files other than by turns.
"""

from __future__ import annotations

import re
from dataclasses import replace

from brickyard.errors import BadInputError
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_stream import one_at_a_time
from brickyard.formats.fio_units import by_direction, fio_bytes, fio_int, fio_rate
from brickyard.schema.fio_words import file_name, split_names

FILES_MOST = 256
DIVIDED = ("size", "io_size", "number_ios", "rate", "rate_iops")
"""Options of a job that its files have together."""


def each_file(job: Job) -> list[Job]:
    """A job for each file of a job that has several; the job itself where it has one."""
    asked = job.asked
    listed = split_names(asked.filename)
    count = len(listed) or fio_int("nrfiles", asked.nrfiles, low=1, high=1 << 20)
    if count == 1:
        return [job]
    depth = _depth(
        job, f"filename={asked.filename} (fio takes all names together)" if listed else f"nrfiles={count}", count
    )
    form = asked.filename_format.replace("$jobname", job.name)
    options = {name: text for name, text in job.options.items() if name not in ("nrfiles", "openfiles")}
    options |= {name: _part(name, options[name], count) for name in DIVIDED if name in options}
    made = []
    for number in range(count):
        place = {"filename": listed[number]} if listed else {"filename_format": form.replace("$filenum", str(number))}
        made.append(replace(job, name=f"{job.name}-f{number + 1}", options={**options, **place, "iodepth": str(depth)}))
    return made


def shared_words(job: Job, count: int) -> str:
    """What differs from fio where a job has several files."""
    return (
        f"The {count} files of job {job.name} are streams with a part of its depth each; fio has one depth for all of "
        "them and takes turns between them."
    )


def _depth(job: Job, said: str, count: int) -> int:
    """Of each file."""
    asked = job.asked
    if count > FILES_MOST:
        raise BadInputError(f"{said}: at most {FILES_MOST} files; make fewer, larger ones")
    order = asked.file_service_type.partition(":")[0]
    if order not in ("roundrobin", "random"):
        raise BadInputError(f"file_service_type={order}: files are taken by turns here; write a job for each file")
    depth = fio_int("iodepth", asked.iodepth, low=1, high=4096)
    is_single = bool(one_at_a_time(job)) and asked.ioengine != "posixaio"  # which has a thread for each file
    if is_single or depth % count:
        why = "one request in flight" if is_single or depth == 1 else f"iodepth={depth}"
        raise BadInputError(
            f"{said}: {why} cannot be divided among {count} files; random requests ask the same of one file of that "
            f"size (nrfiles=1); or write a job for each file, or, with io_uring, or libaio and direct=1, an iodepth "
            f"that {count} divides"
        )
    return depth // count


def _part(name: str, text: str, count: int) -> str:
    if text.endswith("%"):
        return text
    if name.startswith("rate"):
        parts = by_direction(text, "0")
        whole = [parts[direction] for direction in ("read", "write", "trim")]
        each = [(fio_rate(name, part) if name == "rate_iops" else fio_bytes(name, part)) / count for part in whole]
        return ",".join(f"{value:.10g}" if name == "rate_iops" else str(round(value)) for value in each)
    return str((fio_bytes(name, text) if "size" in name else fio_int(name, text, high=1 << 50)) // count)


def file_names(job: Job, jobs: int) -> list[str]:
    """What fio calls the file of each clone; one name where all share it."""
    asked = job.asked
    filename = asked.filename
    if "$" in filename:
        raise BadInputError(f"filename={filename}: fio's keywords in names have no counterpart here")
    directory = asked.directory
    if re.search(r"(?<!\\):", directory):
        raise BadInputError(f"directory={directory}: several directories; name the file of each job with filename")
    start = f"{directory.rstrip('/')}/" if directory else ""
    if filename:
        return [start + file_name(filename)]
    form = asked.filename_format
    names = [
        form.replace("$jobname", job.name).replace("$jobnum", str(number)).replace("$filenum", "0")
        for number in range(jobs)
    ]
    if any("$" in name for name in names):
        raise BadInputError(f"filename_format={form}: there are $jobname, $jobnum and $filenum here")
    return [start + name for name in dict.fromkeys(names)]
