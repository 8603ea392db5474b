"""The watch: what is told, how often, by which way; with a real mail server, web server and commands on this host."""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from brickyard.arrays import Member, Sheet, State, notify
from brickyard.arrays.array import StateName
from brickyard.arrays.guarding import Guard
from brickyard.arrays.health import Notice
from brickyard.arrays.keys import AlarmKey
from brickyard.arrays.looking import Drive, FileSystem, Seen
from brickyard.arrays.metrics import exposition
from brickyard.arrays.watching import ArrayWatcher
from brickyard.cli import main
from brickyard.errors import BadInputError, BrickyardError
from brickyard.schema.target_sheet import HealthSheet
from brickyard.store import Json
from mirrors import restarted

NOTICE = Notice(AlarmKey.read("array /dev/md0"), "begins", "error", "/dev/md0 (raid5) is degraded: a member is missing")


def array(state: StateName = "normal", missing: int = 0, errors: int = 0, share: float | None = None) -> Sheet:
    members = (Member("/dev/sda", "active", 0, errors), Member("/dev/sdb", "active", 1, 0))
    return Sheet("md", "/dev/md0", "raid1", 1 << 30, State(state, share, missing=missing), members, 2)


def drive(**told: object) -> Drive:
    return Drive("sda", msgspec.convert(told, HealthSheet))


def texts(watcher: ArrayWatcher, *looks: Seen) -> list[list[str]]:
    return [[notice.text for notice in watcher.look(seen)] for seen in looks]


def test_an_array_is_told_of_when_it_degrades_rebuilds_and_is_whole() -> None:
    whole, hurt = Seen((array(),)), Seen((array("degraded", 1),))
    busy = Seen((array("rebuilding", 1, share=0.5),))
    told = texts(ArrayWatcher(), whole, hurt, hurt, busy, busy, whole, whole, whole)
    assert told == [
        [],
        ["/dev/md0 (raid1) is degraded: a member is missing"],
        [],
        ["/dev/md0: a rebuild has begun"],
        [],
        [],
        ["/dev/md0: the rebuild is over", "/dev/md0 has all its members again"],
        [],
    ]


def test_a_state_that_flaps_is_told_once() -> None:
    whole, hurt = Seen((array(),)), Seen((array("degraded", 1),))
    assert texts(ArrayWatcher(), hurt, whole, hurt, whole, hurt)[1:] == [[], [], [], []]


def test_a_full_file_system_must_have_room_again_before_it_is_told_anew() -> None:
    def at(share: float) -> Seen:
        return Seen(file_systems=(FileSystem("/srv", "ext4", False, share),))

    told = texts(ArrayWatcher(), *(at(share) for share in (0.94, 0.96, 0.96, 0.94, 0.94, 0.94, 0.92, 0.92, 0.96)))
    assert [line for look in told for line in look] == [
        "the file system at /srv is 96 % full",
        "the file system at /srv has room again",
    ]


def test_read_only_is_told_of_what_could_be_written_before() -> None:
    def mounted(*, read_only: bool) -> Seen:
        return Seen(file_systems=(FileSystem("/srv", "ext4", read_only, 0.5), FileSystem("/iso", "xfs", True, 1.0)))

    watcher = ArrayWatcher(full_share=1.01)
    told = texts(watcher, mounted(read_only=False), mounted(read_only=True), mounted(read_only=True))
    assert told == [[], [], ["the file system at /srv has become read-only"]]


def test_drive_errors_are_told_as_they_grow_and_smart_once() -> None:
    watcher = ArrayWatcher()
    failing = Seen((array(errors=7),), (drive(passed=False, media_errors=3, percentage_used=101),))
    assert texts(watcher, Seen((array(errors=7),), (drive(passed=True, media_errors=3),))) == [
        ["media errors of the drive sda: 3 when the watch looked for the first time"]
    ], "old errors of members are none of its business"
    assert texts(watcher, failing, failing, failing) == [
        [],
        [
            "the drive sda says that it will fail soon (SMART)",
            "the drive sda has used up 101 % of its rated life",
        ],
        [],
    ]
    assert texts(watcher, Seen((array(errors=9),), (drive(passed=False, media_errors=3, percentage_used=101),))) == [
        ["errors of /dev/sda in /dev/md0: 2 more, 9 in all"]
    ]


def test_a_restart_tells_nothing_twice(tmp_path: Path) -> None:
    first = ArrayWatcher()
    assert len(first.look(Seen((array("degraded", 1),)))) == 1
    again = ArrayWatcher(memory=restarted(first.memory))
    assert again.look(Seen((array("degraded", 1),))) == []


class MailHandler(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as a client needs; what comes is kept."""

    server: MailServer

    def handle(self) -> None:
        def say(line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        say("220 here")
        while line := self.rfile.readline().decode().strip():
            self.server.lines.append(line)
            word = line.split()[0].upper()
            if word == "EHLO":
                say("250-here")
                say("250 AUTH PLAIN")
            elif word == "AUTH":
                say("235 welcome")
            elif word == "DATA":
                say("354 go on")
                while (row := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    self.server.mails.append(row)
                say("250 kept")
            elif word == "QUIT":
                say("221 bye")
                return
            else:
                say("250 ok")


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MailHandler)
        self.lines: list[str] = []
        self.mails: list[str] = []


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def test_mail_goes_out_with_a_password_that_no_one_sees(mail_server: MailServer, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    secret.chmod(0o644)
    place = f"127.0.0.1:{mail_server.server_address[1]}"
    with pytest.raises(BadInputError, match="others can read it"):
        notify.mail(["root@example.org"], None, place, "brick", secret)
    secret.chmod(0o600)
    sender = notify.mail(["root@example.org"], "array@example.org", place, "brick", secret)
    assert "sesame" not in repr(sender)
    sender.send(NOTICE)
    assert "RCPT TO:<ROOT@EXAMPLE.ORG>" in [line.upper() for line in mail_server.lines]
    assert any(line.startswith("AUTH PLAIN") for line in mail_server.lines)
    text = "\n".join(mail_server.mails)
    assert "is degraded" in text
    assert f"[brickyard {socket.gethostname()}]" in text.replace("\n ", " ")


def test_addresses_for_mail_are_looked_at(tmp_path: Path) -> None:
    for bad in ("nobody", "a@b\r\nBcc: c@d", "a@b,c@d"):
        with pytest.raises(BadInputError, match="is no address for mail"):
            notify.mail([bad], None, "localhost", None, None)
    with pytest.raises(BadInputError, match="BRICKYARD_SMTP_PASSWORD"):
        notify.mail(["a@b"], None, "localhost", "brick", None)


@pytest.fixture
def posted() -> Iterator[tuple[str, list[Json]]]:
    documents: list[Json] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            documents.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", documents
        server.shutdown()
        thread.join(10)


def test_a_webhook_gets_the_notice_as_json(posted: tuple[str, list[Json]]) -> None:
    address, documents = posted
    notify.webhook(address).send(NOTICE)
    assert documents == [{"host": socket.gethostname(), **asdict(NOTICE), "key": str(NOTICE.key)}]


def test_a_command_gets_the_notice_and_its_failure_is_told(tmp_path: Path) -> None:
    place = tmp_path / "told"
    notify.command(f"sh -c 'cat > {place}; echo \" $BRICKYARD_SEVERITY\" >> {place}'").send(NOTICE)
    told = place.read_text()
    assert json.loads(told.rsplit(" ", 1)[0])["text"] == NOTICE.text
    assert told.endswith(" error\n")
    with pytest.raises(BrickyardError, match="exit code 3: no way"):
        notify.command("sh -c 'echo no way >&2; exit 3'").send(NOTICE)


class Sometimes:
    """A channel that is down at first."""

    name = "sometimes"

    def __init__(self) -> None:
        self.down = True
        self.got: list[str] = []

    def send(self, notice: Notice) -> None:
        if self.down:
            raise BrickyardError("it is down")
        self.got.append(notice.text)


def test_what_could_not_be_sent_is_sent_later_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen((array("degraded", 1),))
    monkeypatch.setattr("brickyard.arrays.guarding.look", lambda *_, **__: seen)
    channel, said = Sometimes(), list[str]()
    guard = Guard(ArrayWatcher(), [channel], said.append, tmp_path / "watch.json")
    guard.look()
    assert any("it is tried again" in line for line in said)
    again = Guard(ArrayWatcher(), [channel], said.append, tmp_path / "watch.json")
    again.load()
    channel.down = False
    again.look()
    again.look()
    assert channel.got == ["/dev/md0 (raid1) is degraded: a member is missing"]


def test_metrics_have_the_names_that_dashboards_know() -> None:
    text = exposition(
        Seen(
            (array("rebuilding", 1, errors=2, share=0.25),),
            (drive(passed=False, temperature_celsius=41, percentage_used=7),),
            (FileSystem('/srv/"odd"', "ext4", True, 0.5),),
        )
    )
    for line in (
        'node_md_state{device="md0",state="recovering"} 1',
        'node_md_state{device="md0",state="active"} 0',
        'node_md_disks{device="md0",state="active"} 2',
        'node_md_disks_required{device="md0"} 2',
        'smartctl_device_smart_status{device="sda"} 0',
        'smartctl_device_temperature{device="sda",temperature_type="current"} 41',
        'node_filesystem_readonly{mountpoint="/srv/\\"odd\\"",fstype="ext4"} 1',
        'brickyard_array_progress_ratio{array="/dev/md0",kind="md"} 0.25',
    ):
        assert line in text.splitlines()
    kinds = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds)), "each name once"


def test_watch_as_its_user_starts_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "brickyard",
        "array",
        "watch",
        "--every",
        "1s",
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]
    command += ["--state", str(tmp_path / "watch.json"), "--full", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "metrics are served" in line)
            with urllib.request.urlopen(line.split(" at ")[1].strip(), timeout=30) as answer:
                assert "node_filesystem_readonly" in answer.read().decode()
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert json.loads(out)["looks"] >= 1
    assert json.loads((tmp_path / "watch.alarms.json").read_bytes())["every_s"] == 1.0


def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for options, words in (
        (["--every", "soon"], "write a duration"),
        (["--full", "0"], "between 1 and 100"),
        (["--scrub-every", "30d"], "needs --manage"),
        (["--scrub-every", "30d", "--manage"], "a scrub takes longer than one check"),
        (["--scrub-rate", "1MiB"], "needs --scrub-every"),
        (["--webhook", "file:///etc/passwd"], "write http://"),
        (["--listen", "nowhere"], "write HOST:PORT"),
    ):
        assert main(["array", "watch", "--once", "--state", str(tmp_path / "w.json"), *options]) == 2
        assert words in capsys.readouterr().err
    (tmp_path / "w.json").write_text("[]")
    assert main(["array", "watch", "--once", "--state", str(tmp_path / "w.json")]) == 2
    assert "is not what a watch keeps" in capsys.readouterr().err


def test_a_real_full_and_read_only_file_system_is_seen(tmp_path: Path) -> None:
    """On a loop device in a mount namespace of its own; the watch is started anew for each look, as cron would."""
    script = f"""
        set -e
        cd {tmp_path}
        truncate -s 64M image
        mkfs.ext4 -q -m 0 image
        mkdir place
        mount -o loop image place
        trap 'umount place' EXIT
        watch() {{ {sys.executable} -m brickyard array watch --once --state w.json --full 90; }}
        watch
        head -c 54M /dev/zero > place/filler || true
        watch; watch
        mount -o remount,ro place
        watch; watch; watch
    """
    environment = {**os.environ, "NO_COLOR": "1"}
    command = ["unshare", "-m", "bash", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    mine = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert len(mine) == 2, mine
    assert "% full" in mine[0]
    assert "has become read-only" in mine[1]
    until = time.monotonic() + 10
    while str(tmp_path) in subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout:
        assert time.monotonic() < until, "a loop device is left"
        time.sleep(0.1)
