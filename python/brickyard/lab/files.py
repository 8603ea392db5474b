"""Duty: files that are replaced as programs do it safely (write, fsync, rename, fsync of the folder), and whether each
is whole after a power cut.

Refusal: it judges the file system's promises, not its structures; mounting it replays its journal.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from brickyard import outputs
from brickyard.lab.checks import Began, Corrupt, Lost, Stage, beneath
from brickyard.lab.ledger import Ledger, Owed
from brickyard.lab.orders import Missing, Recording, Setup, State

FILES = 8
HEAD = "brickyard-lab"
LARGEST = 40_000


def content(name: int, number: int) -> bytes:
    """Of a version of a file: it says which it is, and ends with a hash of all before."""
    bytes_ = (number * 7919) % LARGEST
    body = f"{HEAD} {name} {number}\n".encode() + hashlib.sha256(f"{name} {number}".encode()).digest() * (bytes_ // 32)
    return body + hashlib.sha256(body).digest()


def number_of(found: bytes, name: int) -> int:
    """Which version it is; raises `Corrupt` where it is none."""
    words = found.split(b"\n", 1)[0].split()
    if len(words) == 3 and words[0] == HEAD.encode() and words[2].isdigit():
        number = int(words[2])
        if found == content(name, number):
            return number
    raise Corrupt(f"file {name} is torn: {len(found)} bytes that were never its content")


def replace(folder: Path, name: str, content_: bytes, *, durable: bool) -> None:
    """Written beside, and moved over it by a plain rename: ext4 treats an exchange of names otherwise."""
    part = folder / f"{name}.part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(content_)
        file.flush()
        if durable:
            os.fsync(handle)
    part.replace(folder / name)
    if durable:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class FilesLoad:
    """`settings`: `fsync` off leaves the flushes out, which is the control that must fail."""

    def run(self, stage: Stage, setup: Setup, ledger: Ledger, began: Began) -> tuple[str, str]:
        folder = outputs.folder(stage.mount / "files")
        began()
        deadline, number = time.monotonic() + setup.load_s, 0
        while time.monotonic() < deadline:
            number += 1
            name = number % FILES
            durable = setup.settings.get("fsync") != "off"
            replace(folder, str(name), content(name, number), durable=durable)
            ledger.acknowledged(name, number)
        return "files", f"Linux {os.uname().release}"


class FilesCheck:
    def __init__(self, recording: Recording) -> None:
        self._owed = Owed(recording.promises)

    def __call__(self, stage: Stage, recording: Recording, state: State) -> None:
        owed = self._owed.at(state.cut)
        for name in range(FILES):
            place = beneath(stage.mount, f"files/{name}")
            try:
                found = place.read_bytes()
            except FileNotFoundError:
                if name in owed:
                    told = f"file {name} is gone; version {owed[name]} was acknowledged"
                    raise Lost(told, Missing(name, owed[name])) from None
                continue
            except OSError as error:
                raise Corrupt(f"file {name} cannot be read: {error.strerror}") from error
            number = number_of(found, name)
            if number < owed.get(name, 0):
                told = f"file {name} is of version {number}; {owed[name]} was acknowledged"
                raise Lost(told, Missing(name, number + FILES))
