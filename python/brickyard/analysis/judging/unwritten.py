"""Duty: how much of a target was never written before a run, as its header or else its file system reports it.

Refusal: no guess; of a file without a header on a file system that compresses, nobody knows.
"""

from __future__ import annotations

from brickyard.schema import AllWritten, TargetFacts, TargetSheet, UnwrittenBytes

COMPRESSING = ("btrfs", "zfs", "bcachefs", "f2fs", "ntfs", "ntfs3")
"""File systems on which a file that was written in full may have fewer blocks than its size."""


def never_written_bytes(opened: TargetFacts, sheet: TargetSheet | None) -> int | None:
    """None where nobody knows. A file that no header of ours describes is one that the run did not write: what the file
    system said of it before the run still holds, but for file systems whose blocks are fewer since they compress."""
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
