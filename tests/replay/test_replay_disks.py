"""The disks below a replay's server: what the server did there, and what others did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brickyard.analysis.databases.replay_disks import COURSE_COLUMNS, target_devices, watched_targets
from brickyard.analysis.databases.replay_served import served
from brickyard.cli import main
from brickyard.databases.ephemeral import ephemeral_postgres
from brickyard.facts import NotCounted, ServerIo
from brickyard.store import Json, Store
from replay_support import execute, fill, items, measured, w3c

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


def arguments(dsn: str, folder: Path, duration: str, store: Path) -> list[str]:
    log, mapping = folder / "a.log", folder / "m.toml"
    log.write_text(w3c(items(500, 1.0)))
    mapping.write_text(MAPPING)
    command = ["replay", str(log), "--map", str(mapping), "--to", dsn, "--pace", "fire-hose", "--again"]
    return [*command, "--duration", duration, "--sessions", "4", "--store", str(store), "--json"]


def told_by(document: Json, store: Path) -> tuple[Json, Any]:
    """The run and what was seen of the server's devices."""
    with Store(store, must_exist=True) as kept:
        [watch] = kept.record(document["runs"][0]["run"]).info.watch.targets
    assert watch is not None
    return document["runs"][0], watch.foreign


def test_others_on_the_servers_disk_are_named_and_the_server_itself_is_not(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ephemeral_postgres(volume) as server:
        fill(server.dsn)
        execute(server.dsn, "checkpoint")
        os.sync()
        alone = tmp_path / "alone.db"
        assert main(arguments(server.dsn, tmp_path, "4s", alone)) == 0
        run, foreign = told_by(json.loads(capsys.readouterr().out), alone)
        assert foreign.known is True
        # The server commits to its log and waits for it: the device has carried what the kernel says the server wrote.
        assert foreign.write.ours_bytes > MIB
        assert foreign.write.device_bytes > foreign.write.ours_bytes / 2
        assert not {"foreign_io", "foreign_unknown"} & {w["id"] for w in run["warnings"]}

        os.sync()
        run, foreign = replayed_beside(volume, server.dsn, tmp_path)
        told = next(w["text"] for w in run["warnings"] if w["id"] == "foreign_io")
        assert 380 * MIB < foreign.write.foreign_bytes < 450 * MIB
        assert "written, besides the server's" in told
        with Store(tmp_path / "beside.db", must_exist=True) as kept:
            record = kept.record(run["run"])
        # A verdict counts the server's part of the device's writes, as it does of the reads.
        found = served([record])
        assert found.writes_per_call is not None
        whole = sum((d.delta or {})["write_requests"] for d in target_devices(watched_targets(record)))
        assert found.writes_per_call * found.calls < 0.9 * whole
        rows = "\n".join(COURSE_COLUMNS)
        assert "whole device, others included" in rows


def replayed_beside(volume: Path, dsn: str, folder: Path) -> tuple[Json, Any]:
    """A neighbour writes while a replay goes on, which is ended by Ctrl-C when the neighbour has."""
    store, done = folder / "beside.db", folder / "done"
    command = [sys.executable, "-m", "brickyard", *arguments(dsn, folder, "120s", store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        measured(store)
        # No child of ours: the kernel adds what children did to our own account.
        writing = f"dd if=/dev/zero of={volume}/neighbour bs=1M count=384 oflag=direct"
        shell("sh", "-c", f"({writing}; touch {done}) >/dev/null 2>&1 &")
        ended_by = time.monotonic() + 110
        while not done.exists() and time.monotonic() < ended_by:
            time.sleep(0.1)
        assert done.exists(), "the neighbour is still writing"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 130
    return told_by(json.loads(out), store)


def test_a_server_that_cannot_be_seen_accuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n")
    io = ServerIo(str(tmp_path))
    io.start()
    io.stop()
    assert io.told() == NotCounted("not known: the server's processes are not seen from here")
