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

from brickyard import outputs
from brickyard.arrays.lock import OVERRIDE
from brickyard.errors import BrickyardError
from brickyard.store import Json
from brickyard.store.process import is_alive, own_process

MARK = re.compile(rb'\A{"process": ')
SYSTEM_HOMES = (Path("/var/lib/brickyard/undo"), Path("/run/brickyard/undo"))


def user_home() -> Path:
    """`$XDG_STATE_HOME/brickyard/undo`, after the XDG Base Directory Specification."""
    state = os.environ.get("XDG_STATE_HOME", "")
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

    @property
    def identities(self) -> set[str]:
        """The arrays that it has changed or was about to change."""
        return {str(of["identity"]) for of in [self.about, *self.steps] if of.get("identity")}

    @property
    def words(self) -> str:
        """What was left of it, and the command that undoes it."""
        done = [found for step in self.steps if (found := _step_words(step))]
        who = f"a run that was killed (condition {self.about.get('condition')}, pid {self.process.get('pid')})"
        what = "; ".join(dict.fromkeys(done)) or "nothing yet"
        name = self.about.get("array") or self.about.get("target")
        return f"{name}: left by {who}: {what}; `brickyard array restore` undoes it"


def _step_words(step: Json) -> str:
    kind = step.get("do")
    if kind == "member":
        return f"{step.get('member')} was taken out"
    if kind == "file":
        return f"{os.path.basename(str(step.get('path')))} was set (before: {step.get('value')})"
    if kind == "write_cache":
        return f"the write cache of {step.get('drive')} was switched (before: {step.get('value')})"
    if kind == "mount":
        return f"{step.get('place')} was mounted without a member"
    return "a scrub was begun" if kind in ("scrub", "check") else ""


def begin(about: Json) -> Entry:
    process = own_process()
    refused = []
    for home in homes():
        try:
            first = json.dumps({"process": process, "about": about}) + "\n"
            path = outputs.fresh_file(outputs.folder(home), f"{process['pid']}-", ".jsonl", first.encode())
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


def _read(path: Path) -> Entry | None:
    """A line that a crash has torn stands for a change that was not made."""
    rows: list[Json] = []
    for line in _trusted_text(path).splitlines():
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
