"""Emulated disks are made and taken away without harm to what others have mounted, open, or under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.lab import disks
from brickyard.lab.explore import record
from brickyard.lab.orders import Setup
from lab_support import left_behind, refused, until, up

__all__ = ["up"]

ROUNDS = 8
RESCUE_S = 10.0


@contextmanager
def tmpfs(place: Path) -> Iterator[Path]:
    """A file system of the user's with a file in it."""
    subprocess.run(["mount", "-t", "tmpfs", "mine", place], check=True)
    try:
        (place / "mine").write_text("mine")
        yield place
        assert (place / "mine").read_text() == "mine"
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "at").mkdir()
    return tmp_path / "at"


@pytest.mark.parametrize("place", ["at/below", "at", "."], ids=["below", "on top", "over it"])
def test_what_a_user_mounted_on_a_disk_stays_and_the_disk_with_it(
    up: Callable[..., disks.About], tmp_path: Path, folder: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    up("--fs", "ext4", "--at", str(folder))
    (folder / "below").mkdir()
    with tmpfs(tmp_path / place):
        said = refused(capsys, "down", "disk")
        assert str(tmp_path / place) in said
        assert "unmount" in said
        assert [about.name for about in disks.listed()] == ["disk"]
    assert (folder / "below").is_dir()
    assert main(["lab", "status", "disk"]) == 0


def test_what_a_user_mounted_stays_where_the_disk_was_killed(
    up: Callable[..., disks.About], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = up("--fs", "ext4", "--at", str(folder))
    (folder / "below").mkdir()
    with tmpfs(folder / "below"):
        killed(about)
        assert main(["lab", "list"]) == 0
        assert f"tmpfs is mounted on {folder / 'below'}; unmount it first" in capsys.readouterr().err
        assert "unmount it first" in refused(capsys, "status", "disk")
        assert "unmount it first" in refused(capsys, "up", "disk")
    assert disks.listed() == []
    assert left_behind(str(folder)) == []


def killed(about: disks.About) -> None:
    process = os.pidfd_open(about.pid)
    os.kill(about.pid, signal.SIGKILL)
    os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
    os.close(process)


def test_a_disk_in_use_stays_up(up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]) -> None:
    about = up("--fs", "ext4")
    with (Path(about.at) / "file").open("w") as file:
        assert f"{about.at}: is in use" in refused(capsys, "down", "disk")
        file.write("more")
    with Path(about.device).open("rb"):
        assert f"{about.device}: is in use" in refused(capsys, "down", "disk")
    assert main(["lab", "down", "disk"]) == 0


def test_a_disk_goes_down_while_a_log_is_explored(up: Callable[..., disks.About], tmp_path: Path) -> None:
    """Whoever judges states has mounts of his own, which began as copies of all that were there."""
    log, began = tmp_path / "log", tmp_path / "began"
    record(
        Setup("command", size_bytes=64 << 20, load_s=0.2, command=["sh", "-c", "echo 1 > a; sync -f .; echo 1"]), log
    )
    about = up("--fs", "ext4")
    words = [sys.executable, "-m", "brickyard", "lab", "crash", "explore", "--log", str(log), "--states", "1", "--"]
    process = subprocess.Popen([*words, "sh", "-c", f"touch {began}; sleep 30"], stdout=subprocess.DEVNULL)
    try:
        until(began.exists, "no state is judged")
        assert main(["lab", "down", "disk"]) == 0
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()
    assert left_behind(about.at) == []


def test_a_disk_that_is_mounted_for_others_stays_mounted(
    up: Callable[..., disks.About], capsys: pytest.CaptureFixture[str]
) -> None:
    about = up("--fs", "ext4")
    own = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo here; exec sleep 600"]
    process = subprocess.Popen(own, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert f"is mounted for process {process.pid} (sleep) too" in refused(capsys, "down", "disk")
        assert os.path.ismount(about.at)
        assert disks.named("disk").at == about.at
    finally:
        process.kill()
        process.communicate()
    assert main(["lab", "down", "disk"]) == 0


def test_a_disk_that_does_not_answer_goes_down(up: Callable[..., disks.About], monkeypatch: pytest.MonkeyPatch) -> None:
    about = up("--fs", "ext4")
    (Path(about.at) / "dirty").write_text("dirty")
    process = os.pidfd_open(about.pid)
    rescued: list[bool] = []

    def rescue() -> None:
        """Without an end of the daemon, unmounting waits for ever, and no signal ends that."""
        rescued.append(True)
        signal.pidfd_send_signal(process, signal.SIGKILL)

    watch = threading.Timer(RESCUE_S, rescue)
    try:
        signal.pidfd_send_signal(process, signal.SIGSTOP)
        monkeypatch.setattr(disks, "ANSWER_S", 0.2)
        watch.start()
        assert main(["lab", "down", "disk"]) == 0
        assert not rescued
        assert disks.listed() == []
    finally:
        watch.cancel()
        watch.join()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)


def test_a_home_too_long_for_a_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / ("long" * 30)
    monkeypatch.setenv("BRICKYARD_STATE_HOME", str(home))
    assert "set BRICKYARD_STATE_HOME to a shorter folder" in refused(capsys, "up", "disk", "--size", "64MiB")
    assert not home.exists()


MAKE = """
import sys
import threading
from brickyard.cli import main
for line in sys.stdin:
    print(main(["lab", "up", "disk", "--size", "64MiB", "--json"]), file=sys.stderr, flush=True)
"""


def test_of_several_that_make_a_disk_of_one_name_one_does(up: Callable[..., disks.About]) -> None:
    with ExitStack() as ending:
        makers = [
            ending.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", MAKE],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                )
            )
            for _ in range(4)
        ]
        for _ in range(ROUNDS):
            for maker in makers:
                assert maker.stdin is not None
                maker.stdin.write("\n")
            said = [heard(maker) for maker in makers]
            assert sorted(code for code, _ in said) == [0, 2, 2, 2], said
            for code, why in said:
                assert not code or "is up already" in why or "another brickyard lab command" in why, said
            assert [about.name for about in disks.listed()] == ["disk"]
            disks.down("disk")


def heard(maker: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a command, and what it said before."""
    assert maker.stderr is not None
    said = ""
    for line in maker.stderr:
        if line.strip().isdecimal():
            return int(line), said
        said += line
    raise AssertionError(said)


def test_errors_name_their_cause_and_remedy(
    up: Callable[..., disks.About], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up()
    assert "make the disk with --model" in refused(capsys, "slow", "disk", "4")
    assert "make the disk with --model" in refused(capsys, "slow", "disk", "4", "--when", "flush:9")
    said = refused(capsys, "up", "other", "--size", "16MiB", "--fs", "xfs")
    assert said.endswith("Filesystem must be larger than 300MB; use a larger --size"), said
    recording = ["crash", "record", "command", "--log", str(tmp_path / "log")]
    assert "needs one; give it after --" in refused(capsys, *recording)
    said = refused(capsys, *recording, "--size", "64MiB", "--mount-options", "nonsense", "--", "true")
    assert "--mount-options nonsense: ext4 does not take them" in said
