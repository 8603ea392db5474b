"""The disks below a replay's server: what the server did there, and what others did."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.databases.ephemeral import ephemeral_postgres
from brickyard.facts import ServerIo
from brickyard.store import Json, Store
from test_replay import execute, fill, items, measured, w3c

MIB = 1 << 20
MAPPING = """
[[call]]
page = "rename"
path = "/item"
sql = "update item set name = md5(random()::text) where id = :id"
parameters.id = { type = "int4" }
"""


def shell(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, on a loop device."""
    assert os.geteuid() == 0, "this test mounts a loop device: run it as root"
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(1024 * MIB)
    with ExitStack() as undo:
        # The server has an account of its own, which may not enter pytest's directories.
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="brickyard-volume-", dir="/var/tmp")))
        device = shell("losetup", "--find", "--show", image)
        undo.callback(shell, "losetup", "--detach", device)
        shell("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
        place.chmod(0o755)
        shell("mount", device, place)
        undo.callback(shell, "umount", place)
        place.chmod(0o755)
        yield place


def replayed(capsys: pytest.CaptureFixture[str], dsn: str, folder: Path, store: Path) -> tuple[Json, Json]:
    """The run and what was seen of the server's devices."""
    log, mapping = folder / "a.log", folder / "m.toml"
    log.write_text(w3c(items(500, 1.0)))
    mapping.write_text(MAPPING)
    command = ["replay", str(log), "--map", str(mapping), "--to", dsn, "--pace", "fire-hose", "--again"]
    code = main([*command, "--duration", "4s", "--sessions", "4", "--store", str(store), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    document: Json = json.loads(out)
    with Store(store, must_exist=True) as kept:
        watch = kept.record(document["runs"][0]["run"]).info.watch
    assert watch is not None
    return document["runs"][0], watch["targets"][0]["foreign"]


def test_others_on_the_servers_disk_are_named_and_the_server_itself_is_not(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ephemeral_postgres(volume) as server:
        fill(server.dsn)
        execute(server.dsn, "checkpoint")
        os.sync()
        run, foreign = replayed(capsys, server.dsn, tmp_path, tmp_path / "alone.db")
        assert foreign["known"] is True
        # The server commits to its log and waits for it: the device has carried what the kernel says the server wrote.
        assert foreign["write"]["ours_bytes"] > MIB
        assert foreign["write"]["device_bytes"] > foreign["write"]["ours_bytes"] / 2
        assert not {"foreign_io", "foreign_unknown"} & {w["id"] for w in run["warnings"]}

        def neighbour() -> None:
            """No child of ours: the kernel adds what children did to our own account."""
            measured(tmp_path / "beside.db")
            writing = f"dd if=/dev/zero of={volume}/neighbour bs=1M count=384 oflag=direct"
            shell("sh", "-c", f"({writing}) >/dev/null 2>&1 &")

        os.sync()
        beside = threading.Thread(target=neighbour)
        beside.start()
        run, foreign = replayed(capsys, server.dsn, tmp_path, tmp_path / "beside.db")
        beside.join()
        told = next(w["text"] for w in run["warnings"] if w["id"] == "foreign_io")
        assert 100 * MIB < foreign["write"]["foreign_bytes"] < 500 * MIB
        assert "written beside the server's" in told


def test_a_server_that_cannot_be_seen_accuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n")
    io = ServerIo(str(tmp_path))
    io.start()
    io.stop()
    assert io.told() == {"known": False, "reason": "not known: the server's processes are not seen from here"}
