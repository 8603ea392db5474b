"""Duty: what a workload is and what a check is, and which of them ship. Refusal: none is carried out here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from brickyard.errors import BadInputError
from brickyard.lab.ledger import Ledger
from brickyard.lab.orders import CHECKSUMS, Missing, Recording, Setup, State
from brickyard.printable import printable

POSTGRES, SQLITE, FILES, COMMAND = "postgres", "sqlite", "files", "command"
SHIPPED = (POSTGRES, SQLITE, FILES, "store")


SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    SQLITE: {
        "synchronous": ("OFF", "NORMAL", "FULL", "EXTRA"),
        "journal_mode": ("DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL", "OFF"),
        "locking_mode": ("NORMAL", "EXCLUSIVE"),
        "auto_vacuum": ("NONE", "FULL", "INCREMENTAL"),
        "page_size": ("512", "1024", "2048", "4096", "8192", "16384", "32768", "65536"),
    },
    FILES: {"fsync": ("on", "off")},
    "store": {},
    COMMAND: {},
}
"""What may be set of a workload, and to what. PostgreSQL itself refuses what it does not know, but for these."""


class Lost(Exception):  # noqa: N818 - a finding, not an error of ours
    """Something that was acknowledged is not there; `missing` says what, where the check knows."""

    def __init__(self, why: str, missing: Missing | None = None) -> None:
        super().__init__(why)
        self.missing = missing


class Corrupt(Exception):  # noqa: N818
    """What is there is damaged, or cannot be opened."""


class NotJudged(Exception):  # noqa: N818
    """The check itself could not be carried out."""


@dataclass
class Stage:
    """Where a workload or a check works."""

    mount: Path
    """The file system."""
    room: Path
    """A folder elsewhere, for sockets and logs."""
    device: str


class Workload(Protocol):
    """Puts a load on a file system; makes what it needs, then calls `began`, then acknowledges to the ledger."""

    def run(self, stage: Stage, setup: Setup, ledger: Ledger, began: Began) -> tuple[str, str]:
        """Returns where its data lie on the file system, and the version of the software."""


class Began(Protocol):
    def __call__(self) -> None: ...


class Check(Protocol):
    """Judges a mounted state: returns, or raises `Lost`, `Corrupt` or `NotJudged`."""

    def __call__(self, stage: Stage, recording: Recording, state: State) -> None: ...


def beneath(mount: Path, name: str) -> Path:
    """A place on the disk. A log may come from anywhere: no name and no link of it leads off the disk."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise NotJudged(f"{printable(name)}: does not lie on the disk of the log")
    place = mount
    for part in parts:
        place /= part
        if place.is_symlink():
            raise NotJudged(
                f"{printable(str(place.relative_to(mount)))}: is a symbolic link, which may lead off the disk"
            )
    return place


def no_links(folder: Path) -> None:
    """Refuses links anywhere below: a program that works there would follow them."""
    for entry in os.scandir(folder):  # what a folder says of its entries; no file is looked at
        if entry.is_symlink():
            raise NotJudged(f"{printable(entry.name)}: is a symbolic link, which may lead off the disk")
        if entry.is_dir(follow_symlinks=False):
            no_links(Path(entry.path))


def found_program(command: Sequence[str]) -> list[str]:
    """A command whose program is found from any folder: it is started on the disk, where its path leads elsewhere."""
    if not command:
        return []
    name, *given = command
    if shutil.which(name) is None:
        remedy = "check PATH, or give its path, such as ./check.sh"
        if os.sep in name:
            remedy = "make it executable with chmod +x" if Path(name).is_file() else "check its path"
        raise BadInputError(f"{printable(name)}: not a program that can be run; {remedy}")
    return [os.path.abspath(name) if os.sep in name else name, *given]


def refuse_unknown(setup: Setup) -> None:
    """Before anything is made for a recording."""
    if setup.workload not in (*SHIPPED, COMMAND):
        raise unknown("workload", setup.workload)
    if setup.workload == COMMAND and not setup.command:
        raise BadInputError("the workload command needs one; give it after --")
    if setup.workload != COMMAND and setup.command:
        raise BadInputError(f"{setup.workload}: takes no command; leave out what stands after --")
    if setup.workload == POSTGRES:
        _refuse_of_postgres(setup.settings)
        return
    known = SETTINGS[setup.workload]
    for name, value in setup.settings.items():
        if name not in known:
            use = f"use {', '.join(known)}" if known else "it has none"
            raise BadInputError(f"--set {name}={value}: no setting of {setup.workload}; {use}")
        if value not in known[name]:
            raise BadInputError(f"--set {name}={value}: use {', '.join(known[name])}")


def _refuse_of_postgres(settings: dict[str, str]) -> None:
    """The server takes any name with a dot for an extension's; and checksums are an option of initdb."""
    for name, value in settings.items():
        if "." in name:
            raise BadInputError(f"--set {name}={value}: is of an extension, and the lab loads none; leave it out")
        if name == CHECKSUMS and value not in ("on", "off"):
            raise BadInputError(f"--set {name}={value}: use on, off")


def workload_of(setup: Setup) -> Workload:
    if setup.workload == "postgres":
        from brickyard.lab.postgres import PostgresLoad

        return PostgresLoad()
    if setup.workload == "sqlite":
        from brickyard.lab.sqlite import SqliteLoad

        return SqliteLoad()
    if setup.workload == "files":
        from brickyard.lab.files import FilesLoad

        return FilesLoad()
    if setup.workload == "store":
        from brickyard.lab.store import StoreLoad

        return StoreLoad()
    if setup.workload == COMMAND:
        from brickyard.lab.command import CommandLoad

        return CommandLoad()
    raise unknown("workload", setup.workload)


def check_of(name: str, recording: Recording, command: list[str]) -> Check:
    if name == "postgres":
        from brickyard.lab.postgres import PostgresCheck

        return PostgresCheck(recording)
    if name == "sqlite":
        from brickyard.lab.sqlite import SqliteCheck

        return SqliteCheck(recording)
    if name == "files":
        from brickyard.lab.files import FilesCheck

        return FilesCheck(recording)
    if name == "store":
        from brickyard.lab.store import StoreCheck

        return StoreCheck(recording)
    if name == COMMAND:
        from brickyard.lab.command import CommandCheck

        return CommandCheck(recording, command)
    raise unknown("check", name)


def unknown(what: str, name: str) -> BadInputError:
    return BadInputError(f"{name}: no {what} of the lab; use {', '.join(SHIPPED)} or a command")
