"""Duty: keep on disk what must be undone, from before it is done until it is undone.

One file a hold, one JSON line a step; a step is on the medium before the change it stands for is made. Refusal: it
undoes nothing, and believes no file that somebody else could have written.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.arrays.lock import OVERRIDE
from brickyard.arrays.steps import UndoStep, step_of
from brickyard.errors import BrickyardError
from brickyard.ready import ready
from brickyard.schema import ProcessMark, stored
from brickyard.store.process import is_alive, own_process

MARK = re.compile(rb'\A{"process": ')
SYSTEM_HOMES = (Path("/var/lib/brickyard/undo"), Path("/run/brickyard/undo"))


def user_home() -> Path:
    """`$XDG_STATE_HOME/brickyard/undo`, after the XDG Base Directory Specification."""
    state = os.getenv("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "brickyard" / "undo"


def homes() -> list[Path]:
    """Where a journal is begun, the first that can be written: for root the system's own, which no HOME hides."""
    named = os.environ.get(OVERRIDE, "")
    if os.path.isabs(named):
        return [Path(named) / "undo"]
    return [*SYSTEM_HOMES, user_home()] if os.geteuid() == 0 else [user_home()]


def _places() -> Iterator[Path]:
    """Where journals may lie, each once; earlier versions kept root's below whatever HOME it had."""
    found = [*homes(), user_home()]
    if os.geteuid() == 0 and OVERRIDE not in os.environ:
        found += [Path(user.pw_dir) / ".local" / "state" / "brickyard" / "undo" for user in pwd.getpwall()]
    yield from dict.fromkeys(found)


class Purpose(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a hold is for."""

    target: str | None = None
    array: str | None = None
    """Its name, or the target where drives are changed and no array."""
    identity: str | None = None
    """Of the array."""
    condition: str | None = None


@dataclass(frozen=True)
class Entry:
    """What one hold has done and not yet undone; steps in the order in which they were done."""

    path: Path
    process: ProcessMark
    about: Purpose
    steps: list[UndoStep]

    def note(self, step: UndoStep) -> None:
        """Call before the change: it returns once the step is on the medium."""
        try:
            outputs.append_to(self.path, (json.dumps(msgspec.to_builtins(step)) + "\n").encode(), MARK)
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
        return self.process.boot_id == own_process().boot_id

    @property
    def identities(self) -> set[str]:
        """The arrays that it has changed or was about to change."""
        return {name for name in (self.about.identity, *(step.array_identity for step in self.steps)) if name}

    @property
    def words(self) -> str:
        """What was left of it, and the command that undoes it."""
        done = [step.words for step in self.steps if step.words]
        who = f"a run that was killed (condition {self.about.condition}, pid {self.process.pid})"
        what = "; ".join(dict.fromkeys(done)) or "nothing yet"
        name = self.about.array or self.about.target
        return f"{name}: left by {who}: {what}; `brickyard array restore` undoes it"


def begin(about: Purpose) -> Entry:
    process = own_process()
    refused = []
    for home in homes():
        try:
            first = json.dumps({"process": stored(process), "about": stored(about)}) + "\n"
            path = outputs.fresh_file(outputs.folder(home), f"{process.pid}-", ".jsonl", first.encode())
        except OSError as error:
            refused.append(f"{home}: {error.strerror}")
        except BrickyardError as error:
            refused.append(str(error))
        else:
            return Entry(path, process, about, [])
    raise BrickyardError(
        f"what would have to be undone cannot be noted ({'; '.join(refused)}); name a place that can be written in"
        f" {OVERRIDE}"
    )


def leftovers() -> list[Entry]:
    """Entries of processes that are gone, the newest first: what was done last is undone first."""
    found = []
    for home in _places():
        try:
            paths = sorted(home.glob("*.jsonl"))
        except OSError:
            continue
        found += [entry for path in paths if (entry := _read(path)) is not None and entry.is_left_over]
    return sorted(found, key=lambda entry: _changed_ns(entry.path), reverse=True)


def left_of(identity: str) -> str:
    """What killed runs have left of one array; empty where nothing was."""
    return "; ".join(entry.words for entry in leftovers() if identity in entry.identities)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class _Head(msgspec.Struct):
    """The first line."""

    process: ProcessMark
    about: Purpose | None = None


def _read(path: Path) -> Entry | None:
    """A line that a crash has torn stands for a change that was not made."""
    rows: list[dict[str, object]] = []
    for line in _trusted_text(path).splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            break
        if not isinstance(row, dict):
            break
        rows.append(row)
    try:
        head = msgspec.convert(rows[0], _Head) if rows else None
    except msgspec.ValidationError:
        return None
    return Entry(path, head.process, head.about or Purpose(), list(map(step_of, rows[1:]))) if head else None


def _trusted_text(path: Path) -> str:
    """What root writes or we ourselves: a journal names files to write, so one that others could plant is not read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        told = os.fstat(file.fileno())
        ours = told.st_uid in (os.geteuid(), 0) and not told.st_mode & 0o002
        return file.read() if stat.S_ISREG(told.st_mode) and ours else ""


ready(_Head)
