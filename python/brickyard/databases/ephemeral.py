"""Duty: a PostgreSQL server of our own, with its own data directory, for as long as a context lasts.

It listens on a socket that nobody else can reach, or with `tcp` on 127.0.0.1 with a password. It is gone afterwards:
the kernel tells it to end when we die, and what a killed one has left is removed by the next start in the same place.

Refusal: no server that is running is touched, no directory removed that does not carry our marker.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec

from brickyard import outputs
from brickyard.databases.memory import MemoryGroup
from brickyard.databases.programs import (
    Account,
    Programs,
    brought_within_reach,
    find_programs,
    helper_account,
    reachable,
)
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.ready import ready

PREFIX = "brickyard-postgres-"
MARKER = "brickyard-owner.json"
NOTHING, CONFIGURATION = re.compile(rb"\A\Z"), re.compile(rb"PostgreSQL configuration file")
LOG_HEAD, LOG = b"server log\n", re.compile(rb"\Aserver log\n")
# On a disk, other than /tmp may be; every account may enter it; the room in it is made by mkdtemp.
DEFAULT_PLACE = Path("/var/tmp")  # noqa: S108
USER = "brickyard"
DATABASE = "postgres"
START_S, STOP_S, POLL_S = 60.0, 20.0, 0.02
SOCKET_PATH_BYTES = 107  # sun_path of unix(7), less its NUL
LOG_LINES = 200  # of the server's log that are looked through for why it did not start


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says of a server of our own; never a password."""

    version: str
    programs: str
    data_directory: str
    listens: str
    account: str | None
    settings: dict[str, str]


class Server:
    """A server of our own. `stop` and `start` keep its data; `kill` ends it as a crash would."""

    def __init__(
        self, room: Path, programs: Programs, account: Account | None, settings: Mapping[str, str], password: str | None
    ) -> None:
        self.room = room
        self.data = room / "data"
        self.programs = programs
        self.settings = dict(settings)
        self.password = password
        self.user, self.database = USER, DATABASE
        self.notes: list[str] = []
        self.memory_group: MemoryGroup | None = None
        self.version = programs.version()
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets = _socket_directory(room, account)
        self.host = str(self._sockets) if password is None else "127.0.0.1"
        self.port = 5432 if password is None else _free_port()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def dsn(self) -> str:
        """As a URI that libpq and tokio-postgres both take; with `tcp` it holds the password."""
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        if self.password is None:
            return f"postgresql://{USER}@/{database}?host={quote(self.host, safe='')}&port={self.port}"
        return f"postgresql://{USER}:{self.password}@{self.host}:{self.port}/{database}"

    def facts(self) -> ServerFacts:
        return ServerFacts(
            version=self.version,
            programs=self.programs.origin,
            data_directory=str(self.data),
            listens="unix socket" if self.password is None else "127.0.0.1",
            account=self._account.name if self._account else None,
            settings=dict(self.settings),
        )

    def initialize(self, checksums: str = "default") -> None:
        """Makes the data directory; its place on the volume is where measured data will lie."""
        command = [str(self.programs.path("initdb")), "-D", str(self.data), "-U", USER, "--encoding=UTF8"]
        command += ["--locale=C", "--auth-local=trust", "--no-sync", "--no-instructions"]
        # Versions before 18 make none unless they are asked, and do not know the option that leaves them out.
        major = int(self.version.split(".")[0]) if self.version[:1].isdigit() else 0
        if checksums == "on" or (checksums == "off" and major >= 18):
            command.append("--data-checksums" if checksums == "on" else "--no-data-checksums")
        if self.password is None:
            self._call([*command, "--auth-host=reject"])
        else:
            file = self.room / "password"
            outputs.write_whole(file, self.password + "\n", mode=0o600)
            self._give(file)
            self._call([*command, "--auth-host=scram-sha-256", f"--pwfile={file}"])
            outputs.remove_ours(file, re.compile(re.escape(self.password.encode())))
        listen = "" if self.password is None else self.host
        own = {"listen_addresses": listen, "port": str(self.port), "unix_socket_directories": str(self._sockets)}
        lines = []
        for name, value in {**self.settings, **own}.items():
            quoted = value.replace("\\", "\\\\").replace("'", "''")
            lines.append(f"{name} = '{quoted}'\n")
        outputs.append_to(self.data / "postgresql.conf", "".join(lines).encode(), CONFIGURATION)

    def start(self) -> None:
        """Starts the server and waits until it answers. It dies with the thread that called this."""
        if self.pid is not None:
            return
        log = self.room / "server.log"
        outputs.remove_ours(log, LOG)
        sink = outputs.open_journal(log, LOG, LOG_HEAD)
        os.lseek(sink, 0, os.SEEK_END)
        try:
            self._process = subprocess.Popen(
                [
                    *self._in_group(),
                    *self._as_account("INT"),
                    str(self.programs.path("postgres")),
                    "-D",
                    str(self.data),
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self.room,
                env=_environment(),
                start_new_session=True,  # Ctrl-C at the terminal is ours to handle
            )
        finally:
            os.close(sink)
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            if self._process.poll() is not None:
                raise BadInputError(f"PostgreSQL {self.version} did not start: {_reason(log)}")
            if time.monotonic() > deadline:
                self._end(signal.SIGQUIT)
                raise BrickyardError(
                    f"PostgreSQL {self.version} was not ready within {START_S:.0f} s; see the host's load"
                )
            time.sleep(POLL_S)

    def stop(self) -> None:
        """A clean shutdown, with everything in its files."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """At once and without a word to its clients; the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def end(self) -> None:
        """Ends it; its room is for whoever made that."""
        self.kill()
        if self._sockets.parent != self.room:
            _remove_sockets(self._sockets)

    def _end(self, first: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number in (first, signal.SIGQUIT, signal.SIGKILL):
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
                return

    def _is_ready(self) -> bool:
        with suppress(OSError):
            # The eighth line of postmaster.pid is the server's own word; older files do not have its number in line 1.
            lines = (self.data / "postmaster.pid").read_text("utf-8", "replace").splitlines()
            return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"
        return False

    def _in_group(self) -> list[str]:
        """A shell that enters the group and then becomes the server, which keeps its process number."""
        if self.memory_group is None:
            return []
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.memory_group.entrance)]

    def _as_account(self, death_signal: str) -> list[str]:
        command = ["setpriv", "--pdeathsig", death_signal]
        if self._account is not None:
            command += ["--reuid", str(self._account.uid), "--regid", str(self._account.gid), "--clear-groups"]
        return command

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid)

    def _call(self, command: list[str]) -> None:
        done = subprocess.run(
            [*self._as_account("KILL"), *command],
            capture_output=True,
            text=True,
            cwd=self.room,
            env=_environment(),
            start_new_session=True,
            check=False,
        )
        if done.returncode:
            said = one_line(done.stderr or done.stdout) or f"exit code {done.returncode}"
            raise BadInputError(f"{self.room.parent}: no database can be made here: {said}")


@contextmanager
def ephemeral_postgres(
    place: Path | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    tcp: bool = False,
    programs: Path | None = None,
    group: MemoryGroup | None = None,
    checksums: str = "default",
) -> Iterator[Server]:
    """A running server whose data lie in `place`, the directory of the volume to measure; without one, in /var/tmp.

    With `group`, what it and its page cache take counts against that.
    """
    home = (place or DEFAULT_PLACE).resolve()
    if not home.is_dir():
        raise BadInputError(f"{home}: no such directory; make it first")
    if shutil.which("setpriv") is None:
        raise BadInputError("setpriv is missing, without which a server would outlive us; apt-get install util-linux")
    found, account = find_programs(programs), helper_account()
    notes = remove_leftovers(home)
    room = _make_room(home, account)
    held = outputs.held_folder(room)
    marker = outputs.open_journal(room / MARKER, NOTHING, b"")
    # Whoever owns a room holds this lock; a process of another container can't be seen, its lock can.
    fcntl.flock(marker, fcntl.LOCK_EX)
    with ExitStack() as ending:
        ending.callback(os.close, marker)
        ending.callback(os.close, held)
        ending.callback(outputs.remove_folder, room, held, MARKER)
        server = None
        try:
            server = Server(
                room,
                brought_within_reach(found, account, room),
                account,
                settings or {},
                secrets.token_urlsafe(18) if tcp else None,
            )
            server.notes += notes
            server.memory_group = group
            about = {"brickyard": "postgres", "pid": os.getpid(), "sockets": str(server._sockets)}
            os.write(marker, json.dumps(about).encode())
            server.initialize(checksums)
            server.start()
            yield server
        finally:
            if server is not None:
                server.end()


class _Marked(msgspec.Struct, frozen=True):
    """What stands in the marker of a room."""

    brickyard: str
    sockets: str = ""


ready(_Marked)


def remove_leftovers(home: Path) -> list[str]:
    """Takes away rooms in `home` whose owners were killed, and ends servers that still run in them."""
    notes = []
    for room in sorted(home.glob(PREFIX + "*")):
        with suppress(OSError, ValueError), ExitStack() as ending:
            held = outputs.held_folder(room)
            ending.callback(os.close, held)
            handle = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=held)
            marker = ending.enter_context(os.fdopen(handle, "r", encoding="utf-8"))
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            told = msgspec.json.decode(marker.read(), type=_Marked)
            if told.brickyard != "postgres":
                continue
            _end_orphan(room)
            sockets = Path(told.sockets)
            if sockets.name.startswith(PREFIX) and sockets.parent == Path(tempfile.gettempdir()):
                _remove_sockets(sockets)
            # The marker goes last: what is half removed is still known for ours.
            if outputs.remove_folder(room, held, MARKER):
                notes.append(f"removed {room}, the database of a run that was killed")
    return notes


def _remove_sockets(path: Path) -> None:
    """A folder outside of the room, in which nothing but PostgreSQL's sockets has a place."""
    with suppress(OSError):
        held = outputs.held_folder(path)
        try:
            if all(name.startswith(".s.PGSQL.") for name in os.listdir(held)):
                outputs.remove_folder(path, held)
        finally:
            os.close(held)


def _end_orphan(room: Path) -> None:
    """Ends the server of a room if it is alive: the process must itself name this very data directory."""
    data = room / "data"
    try:
        pid = int((data / "postmaster.pid").read_text("utf-8").split("\n", 1)[0])
        words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return
    if os.fsencode(data) not in words:
        return
    deadline = time.monotonic() + STOP_S
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT)
        while Path("/proc", str(pid)).exists() and time.monotonic() < deadline:
            time.sleep(POLL_S)


def _make_room(home: Path, account: Account | None) -> Path:
    try:
        room = outputs.fresh_folder(PREFIX, home)
    except OSError as error:
        raise BadInputError(f"{home}: no database can be made here: {error.strerror}; name another place") from error
    if account is not None:
        os.chown(room, account.uid, account.gid)
    if not reachable(room, account, "w"):
        outputs.remove_empty(room)
        name = account.name if account else "that runs this"
        raise BadInputError(
            f"{home}: the account {name} may not enter; chmod o+x it and what is above, or name another"
        )
    return room


def _socket_directory(room: Path, account: Account | None) -> Path:
    """In the room, where its path is short enough for a socket."""
    inside = room / "socket"
    if len(os.fsencode(inside / ".s.PGSQL.65535.lock")) <= SOCKET_PATH_BYTES:
        outputs.folder(inside)
        inside.chmod(0o700)
    else:
        inside = outputs.fresh_folder(PREFIX, Path(tempfile.gettempdir()))
    if account is not None:
        os.chown(inside, account.uid, account.gid)
    return inside


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment() -> dict[str, str]:
    """Nothing of ours: PGDATA, PGPASSWORD and their like would reach the server."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}


def _reason(log: Path) -> str:
    """Why it ended. Where its settings are at fault, the fatal line only counts them, and the first one names one."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines()[:LOG_LINES] if ":  " in line]
    fatal = [line for line in lines if "FATAL:" in line and "configuration file" not in line]
    told = (fatal or lines or ["it:  said nothing"])[0]
    return one_line(told.split(":  ", 1)[1]) + "; check its settings"
