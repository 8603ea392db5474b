"""Duty: files without a name, gone with their descriptor; and values for the kernel's own files.

Refusal: a value is only written to a file that is there, and nothing of it is cut off.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

from brickyard.outputs.folders import check_folder


def nameless_file(directory: Path | None = None) -> IO[bytes]:
    """In the directory for temporary files, or in this one."""
    if directory is not None:
        check_folder(directory)
    return tempfile.TemporaryFile(dir=directory, prefix=".brickyard-")


def write_knob(path: str, value: str) -> None:
    """What /sys and /proc take as a command; the only writing to the file systems of the kernel."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)
