"""Duty: how much of a target was never written before a run, as its header or else its file system reports it: of all
of it, and of what the run may read.

Refusal: no guess; of a file without a header on a file system that compresses, nobody knows.
"""

from __future__ import annotations

from brickyard.analysis.figures.reach import overlap_bytes, places_bytes, read_places
from brickyard.schema import AllWritten, TargetFacts, TargetSheet, UnwrittenBytes
from brickyard.schema.plan import Plan

COMPRESSING = ("btrfs", "zfs", "bcachefs", "f2fs", "ntfs", "ntfs3")
"""File systems on which a file that was written in full may have fewer blocks than its size."""


def never_written_bytes(opened: TargetFacts, sheet: TargetSheet | None) -> int | None:
    """Of all of it. None where nobody knows. A file that no header of ours describes is one that the run did not write:
    what the file system said of it before the run still holds, but for file systems whose blocks are fewer since they
    compress."""
    match opened.unwritten:
        case UnwrittenBytes(bytes=never):
            return never
        case AllWritten():  # facts are gathered before preparation, which fills the holes
            return 0
    if sheet is None or sheet.mount is None or sheet.mount.file_system in COMPRESSING:
        return None
    told = (sheet.hole_bytes, sheet.unwritten_bytes)
    known = sum(size for size in told if size)
    return None if None in told and not known else known


def never_read_bytes(
    plan: object, target: int, opened: TargetFacts, sheet: TargetSheet | None
) -> tuple[int | None, int | None]:
    """Of what the streams of a run may read of a target: what was never written, and how much it is altogether. None
    where nobody knows."""
    whole, never = opened.data_bytes or opened.size_bytes, never_written_bytes(opened, sheet)
    if never == 0 or not whole or not isinstance(plan, Plan):
        return never, whole
    places = read_places(plan, target, whole)
    reached = places_bytes(places)
    if never is None or reached >= whole:
        return never, min(reached, whole)
    pieces = _pieces(opened, sheet, whole)
    if pieces is None:
        return None, reached
    start = opened.data_start_bytes or 0
    return overlap_bytes(places, [(first - start, last - start) for first, last in pieces]), reached


def _pieces(opened: TargetFacts, sheet: TargetSheet | None, whole: int) -> list[tuple[int, int]] | None:
    """Start and end on the target. Of a file of ours that the run left as it was, the file system's pieces add up to
    what the core counted; else what our header counts as filled is a prefix of the data."""
    told = sheet.never_written if sheet else None
    pieces = None if told is None else [(first, last) for first, last in told]
    if not isinstance(opened.unwritten, UnwrittenBytes):
        return pieces
    start = opened.data_start_bytes or 0
    if pieces is not None and overlap_bytes([(start, start + whole)], pieces) == opened.unwritten.bytes:
        return pieces
    return [(start + whole - opened.unwritten.bytes, start + whole)]
