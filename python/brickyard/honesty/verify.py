"""Duty: after the power cut: is every write on the target that the recorder knows was acknowledged?

A write is there if its slot holds it or a later one of the same writer. Slots are read first; then the recorder's file
goes by line by line, so memory is bounded by the number of slots.

Refusal: of another target than the recorder's it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from brickyard.errors import BadInputError, BrickyardError
from brickyard.honesty.journal import Extent, RunEntry, WriteEntry, entries
from brickyard.honesty.slots import Layout, aligned_read, is_foreign, opened_target, sequence_in

NAMED_MAX = 1000  # more names tell no more than their number


@dataclass
class Verified:
    """`missing` are (writer, sequence) in the order in which they were recorded, the first thousand of them."""

    run: str
    acknowledged: int = 0
    missing_count: int = 0
    missing: list[tuple[int, int]] = field(default_factory=list)
    torn_bytes: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Writer and the last number before a hole. A writer waits for each answer, so its numbers follow each other."""
    foreign_count: int = 0
    """Of the missing, those in whose slot lies what no run that the recorder knows put there: from before, if the
    storage lost the write, or written since by somebody else."""


def verify(target: str, recorder_file: Path) -> Verified:
    with opened_target(target, write=False) as opened:
        layout, earlier = _last_run(target, recorder_file, opened.uuid)
        present, foreign = _present(target, opened.file, layout, earlier)
    found, extent, newest = Verified(layout.run), Extent(), [0] * layout.writers
    for entry in entries(recorder_file, extent):
        if not isinstance(entry, WriteEntry) or entry.run != layout.run:
            continue
        if not 0 <= entry.writer < layout.writers or entry.sequence < 1:
            raise BadInputError(f"{recorder_file}: writer {entry.writer} has no place in run {layout.run}")
        if entry.sequence > newest[entry.writer] + 1 and len(found.gaps) < NAMED_MAX:
            found.gaps.append((entry.writer, newest[entry.writer]))
        newest[entry.writer] = max(newest[entry.writer], entry.sequence)
        found.acknowledged += 1
        if present[entry.writer][entry.sequence % layout.slots] < entry.sequence:
            found.missing_count += 1
            found.foreign_count += foreign[entry.writer][entry.sequence % layout.slots]
            if len(found.missing) < NAMED_MAX:
                found.missing.append((entry.writer, entry.sequence))
    if not found.acknowledged:
        raise BadInputError(f"{recorder_file}: has no acknowledged write of run {layout.run}, so it proves nothing")
    found.torn_bytes = extent.torn_bytes
    return found


def _last_run(target: str, recorder_file: Path, uuid: str) -> tuple[Layout, frozenset[str]]:
    """Later runs write over the slots of earlier ones, so only the last one on a target can be verified; and which
    earlier ones there were."""
    earlier: set[str] = set()
    last: RunEntry | None = None
    others = 0
    for entry in entries(recorder_file):
        if isinstance(entry, RunEntry):
            if entry.target_uuid != uuid:
                others += 1
                continue
            if last is not None:
                earlier.add(last.run)
            last = entry
    if last is None:
        said = f"{others} runs on other targets" if others else "no run"
        raise BadInputError(f"{target}: is not the recorder's target; {recorder_file} knows of {said}")
    return Layout(last.run, last.writers, last.slots, last.block_bytes), frozenset(earlier - {last.run})


def _present(
    target: str, file: int, layout: Layout, earlier: frozenset[str]
) -> tuple[list[list[int]], list[list[bool]]]:
    """By writer and slot: the sequence number that is there, and whether something foreign is."""
    found, foreign = [], []
    for writer in range(layout.writers):
        row, foreign_row = [], []
        for slot in range(layout.slots):
            try:
                content = aligned_read(file, layout.block_bytes, layout.offset(writer, slot))
            except OSError as error:
                at = layout.offset(writer, slot)
                raise BrickyardError(f"{target}: cannot be read at {at:,}: {error.strerror}") from error
            row.append(sequence_in(layout, writer, slot, content))
            foreign_row.append(is_foreign(layout, content, earlier))
        found.append(row)
        foreign.append(foreign_row)
    return found, foreign
