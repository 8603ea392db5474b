"""Duty: what a fio job with `verify` reads back once it has written → phases that follow its own, or what to say.

Refusal: what is written, and when, is for `fio_job`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.fio_file import Job
from brickyard.formats.fio_limits import Ends, is_time_based
from brickyard.formats.fio_options import FioOptions
from brickyard.formats.fio_passes import loops_of, size_bytes
from brickyard.formats.fio_stream import plain_name, verifies
from brickyard.formats.fio_units import fio_bytes, fio_flag
from brickyard.formats.profile_parts import SEQUENTIAL, Address, Limits, ProfilePhase, ProfileStream, Shares

LOOPS_MOST = 16
"""Loops that are phases of their own; a profile with more of them is no longer read by anybody."""


def each_loop(groups: Iterable[list[Job]]) -> Iterator[list[Job]]:
    """A job that reads back what it wrote after each of its loops is as many jobs in turn."""
    for group in groups:
        loops = loops_of(group[0].asked)
        if len(group) > 1 or not _reads_back(group[0].asked) or not 1 < loops <= LOOPS_MOST:
            yield group
            continue
        (job,) = group
        yield from [[replace(job, options={**job.options, "loops": "1"})]] * loops


def _reads_back(asked: FioOptions) -> bool:
    does = verifies(asked) and fio_flag("do_verify", asked.do_verify) and asked.rw.partition(":")[0].endswith("write")
    return does and not is_time_based(asked)


def read_back(job: Job, streams: list[ProfileStream], ends: Ends) -> tuple[list[ProfilePhase], list[str]]:
    """The phase in which a job reads back what it wrote, and what fio does otherwise."""
    asked = job.asked
    operations = streams[0].operations or Shares()
    if not (verifies(asked) and operations.write and fio_flag("do_verify", asked.do_verify)):
        return [], []
    if is_time_based(asked):
        return [], [
            f"Job {job.name}: nothing is read back after the writes (verify), as in fio: its time is over (time_based)."
        ]
    _check(job)
    if operations.read:
        return [], [
            f"Job {job.name}: fio reads back at its end the blocks that it wrote (verify); a profile cannot read those"
            " alone, so here only the reads of the mix are checked. Write the blocks in a job of their own to read"
            " them back."
        ]
    back = [
        ProfileStream(
            name=s.name,
            target=s.target,
            operations=Shares(read=100),
            request=s.request,
            align=s.align,
            address=_each_place(s),
            region=s.region,
            workers=s.workers,
            depth=s.depth,
            verify=s.verify,
        )
        for s in streams
    ]
    return [ProfilePhase(f"{plain_name(job.name)}-verify", _once(asked, streams, ends), back)], [
        *_notes(job, streams, ends)
    ]


def _each_place(written: ProfileStream) -> Address:
    """Each place where a write may have gone, once: a cursor goes from request to request, a stride from place to
    place."""
    items = [written.request] if isinstance(written.request, str) else [item.size for item in written.request or ()]
    align = written.align
    if align is None or not any(_core.parse_bytes(size) % _core.parse_bytes(align) for size in items):
        return SEQUENTIAL
    return Address("strided", stride=align)


def _check(job: Job) -> None:
    """Where fio's reads count as part of what it is to move, it depends on both how often it writes."""
    rw = job.asked.rw
    if ":" in rw:
        raise BadInputError(
            f"job {job.name}: rw={rw} with verify: how often fio writes and reads back depends on the size of its file;"
            " import it with do_verify=0"
        )
    moved, file_bytes = job.asked.io_size, size_bytes(job.asked)
    if moved is None or moved.endswith("%") or file_bytes is None or fio_bytes("io_size", moved) <= file_bytes:
        return
    raise BadInputError(
        f"job {job.name}: io_size={moved} above the size, with verify: fio counts what it reads back as part of"
        " io_size; write loops=N instead, which reads back after each loop"
    )


def _once(asked: FioOptions, streams: list[ProfileStream], ends: Ends) -> Limits:
    """All of the region; where the writes went in order, as much as they wrote."""
    address = streams[0].address
    if address == SEQUENTIAL and loops_of(asked) == 1:
        limits = ends.limits
        return Limits(requests=limits.requests, bytes=limits.bytes, passes=limits.passes)
    return Limits(passes=streams[0].workers or 1)


def _notes(job: Job, streams: list[ProfileStream], ends: Ends) -> Iterator[str]:
    if loops_of(job.asked) > 1:
        yield f"Job {job.name}: fio reads back after each of its loops (verify); here once, after the last."
    if ends.limits.duration is not None:
        yield (
            f"Job {job.name}: fio reads back in what is left of its runtime (verify), and nothing if the writes take"
            " all of it; here all of the region is read back, and what was not written counts as unchecked."
        )
    kind = streams[0].address and streams[0].address.kind
    is_whole = kind == "permutation" and not (ends.limits.bytes or ends.limits.requests) and job.asked.io_size is None
    if not (kind == "sequential" or is_whole):
        yield (
            f"Job {job.name}: fio reads back the blocks that it wrote (verify); here all of the region is read back,"
            " and what was not written counts as unchecked."
        )
