"""Duty: one hash for the content of logs, wherever they lie, in whatever order they are named, gzipped or not.

Refusal: what their lines mean is known to the core alone. Logs in zstd are taken packed: Python cannot unpack them.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from brickyard.errors import BadInputError

PIECE = 1 << 20
GZIP = b"\x1f\x8b"


def logs_hash(logs: Sequence[str]) -> str:
    return hashlib.sha256(b"".join(sorted(map(_log_hash, logs)))).hexdigest()


def _log_hash(log: str) -> bytes:
    found = hashlib.sha256()
    try:
        with Path(log).open("rb") as file:
            is_packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            whole = gzip.GzipFile(fileobj=file) if is_packed else file
            try:
                while piece := whole.read(PIECE):
                    found.update(piece)
            except (EOFError, gzip.BadGzipFile, zlib.error):  # torn: the core reads what came before, and says so
                pass
    except OSError as error:
        raise BadInputError(f"{log}: {error.strerror}; check the path") from error
    return found.digest()
