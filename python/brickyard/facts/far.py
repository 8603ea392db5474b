"""What a host of a fleet tells of itself and of its targets: a process beside the load there, which sees what this
host's own would see. It is sent with what it imports, since nothing of ours is installed on such a host.

An order comes in as the first line, words after it; each has an answer of one line, but for `begin`.

Duty: the sheets of the host and its targets before the load, and of what happened there meanwhile. Refusal: nothing is
sampled while the load runs; it reads at both ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

import msgspec

from brickyard.ready import ready
from brickyard.schema.facts import HostKnown, HostWatched
from brickyard.schema.sheets import not_known, stored
from brickyard.schema.target_sheet import TargetSheet
from brickyard.schema.watch_sheet import ProcessUse

from . import blank
from .gather import collect_target
from .host import host_facts
from .roots import Roots, text
from .server_io import parse_process_io
from .target import store_facts
from .watch import Watch

BEGIN, END = "begin", "end"
NO_WATCH_BESIDE = not_known("hosts of a fleet are watched at the start and at the end only")
TIMES = slice(11, 15)
"""Of /proc/PID/stat behind the name: own and reaped children's time, for each of user and system."""


class LookOrder(msgspec.Struct, frozen=True):
    """What is looked at, and who belongs to the load beside its worker."""

    host: str
    targets: list[str]
    records: str
    """Where the worker keeps its record."""
    beside: list[int] = []
    """Processes."""


def used_by(pids: Iterable[int], roots: Roots) -> ProcessUse:
    """The sum over processes that are there. A parent has what its children used that have ended."""
    ticks = [0, 0]
    read_bytes = write_bytes = 0
    for pid in pids:
        status = (text(roots.at_proc(str(pid), "stat")) or "").rpartition(")")[2].split()
        for number, count in enumerate(status[TIMES]):
            ticks[number % 2] += int(count)
        if told := text(roots.at_proc(str(pid), "io")):
            counted = parse_process_io(told)
            read_bytes += counted.read_bytes or 0
            write_bytes += counted.write_bytes or 0
    ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return ProcessUse(user_ns=ticks[0] * ns, system_ns=ticks[1] * ns, read_bytes=read_bytes, write_bytes=write_bytes)


def _looked_at(sheet: TargetSheet) -> TargetSheet:
    """All of a device: nobody here knows what of it the run reads."""
    if sheet.kind != "block" or not sheet.size_bytes:
        return sheet
    return blank.keep(sheet, blank.look(sheet.path, blank.whole(sheet.size_bytes)))


def known(order: LookOrder, roots: Roots) -> HostKnown:
    return HostKnown(
        host=order.host,
        sheet=host_facts(roots),
        targets=[_looked_at(collect_target(target, False, roots)) for target in order.targets],
        records=store_facts(os.path.join(order.records, "record"), roots),
    )


def answers(words: Iterable[str], roots: Roots | None = None) -> Iterator[HostKnown | HostWatched]:
    """What is told for a line that says so; ends with the words."""
    place = roots or Roots()
    lines = iter(words)
    order = msgspec.json.decode(next(lines), type=LookOrder)
    yield known(order, place)
    watches: list[Watch] = []
    for line in lines:
        word, *numbers = line.split()
        if word == BEGIN and not watches:
            pids = [*order.beside, *map(int, numbers)]
            watches = [Watch(target, place, lambda: used_by(pids, place)) for target in order.targets]  # noqa: B023
            for watch in watches:
                watch.__enter__()
        elif word == END:
            for watch in watches:
                watch.stop()
            sheets = [watch.result() for watch in watches]
            for sheet in sheets:
                sheet.unknown["slow"] = NO_WATCH_BESIDE
            yield HostWatched(host=order.host, targets=sheets)
            return


def main(given: TextIO = sys.stdin, told: TextIO = sys.stdout) -> None:
    for answer in answers(given):
        told.write(msgspec.json.encode(stored(answer)).decode() + "\n")
        told.flush()


ready(LookOrder)
