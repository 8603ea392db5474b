"""Duty: keep on disk what must be undone, from before it is done until it is undone.

One file a hold, one JSON line a step; a step is on the medium before the change it stands for is made. Refusal: it
undoes nothing.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BrickyardError
from brickyard.store import Json
from brickyard.store.process import is_alive, own_process

MARK = re.compile(rb'\A{"process": ')


def journal_home() -> Path:
    """`$XDG_STATE_HOME/brickyard/undo`, after the XDG Base Directory Specification."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "brickyard" / "undo"


@dataclass(frozen=True)
class Entry:
    """What one hold has done and not yet undone; steps in the order in which they were done."""

    path: Path
    process: Json
    about: Json
    steps: list[Json]

    def note(self, step: Json) -> None:
        """Call before the change: it returns once the step is on the medium."""
        try:
            outputs.append_to(self.path, (json.dumps(step) + "\n").encode(), MARK)
        except OSError as error:
            raise BrickyardError(
                f"{self.path}: what would have to be undone cannot be noted ({error.strerror}), so nothing was changed"
            ) from error
        self.steps.append(step)

    def close(self) -> None:
        """Everything is undone."""
        outputs.remove_ours(self.path, MARK)

    @property
    def is_left_over(self) -> bool:
        return not is_alive(self.process)

    @property
    def same_boot(self) -> bool:
        return bool(self.process.get("boot_id") == own_process()["boot_id"])


def begin(about: Json) -> Entry:
    home = journal_home()
    process = own_process()
    try:
        first = json.dumps({"process": process, "about": about}) + "\n"
        path = outputs.fresh_file(outputs.folder(home), f"{process['pid']}-", ".jsonl", first.encode())
    except OSError as error:
        raise BrickyardError(
            f"{home}: what would have to be undone cannot be noted ({error.strerror}); set XDG_STATE_HOME to a place"
            " that can be written"
        ) from error
    return Entry(path, process, about, [])


def leftovers() -> list[Entry]:
    """Entries of processes that are gone, the newest first: what was done last is undone first."""
    found = [entry for path in journal_home().glob("*.jsonl") if (entry := _read(path)) is not None]
    found = [entry for entry in found if entry.is_left_over]
    return sorted(found, key=lambda entry: entry.path.stat().st_mtime_ns, reverse=True)


def _read(path: Path) -> Entry | None:
    """A line that a crash has torn stands for a change that was not made."""
    rows: list[Json] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict):
            break
        rows.append(row)
    if not rows or not isinstance(rows[0].get("process"), dict):
        return None
    return Entry(path, rows[0]["process"], rows[0].get("about") or {}, rows[1:])
