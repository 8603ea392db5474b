"""A fleet over real ssh: a server in each of two network namespaces, with keys that the test made."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fleet_support import Fleet, network, ray_left
from support import OWN_MOUNTS

pytest.importorskip("ray", reason="Ray is not installed: make .venv/.fleet")
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
if os.geteuid() != 0 or shutil.which("ip") is None:
    pytest.skip("network namespaces need root and iproute2", allow_module_level=True)
if SSHD is None or shutil.which("ssh") is None:
    pytest.skip("openssh-server and openssh-client are not installed: tests/install-programs", allow_module_level=True)


def key(place: Path) -> str:
    """Makes a key; its public part."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(place)]
    subprocess.run(words, check=True, capture_output=True)
    return place.with_suffix(".pub").read_text().strip()


@contextmanager
def ssh_server(fleet: Fleet, host: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    """Takes the key of the test alone, and gives what it starts the places of this test."""
    settings = place / f"sshd-{host}"
    variables = " ".join(
        f"{name}={fleet.env[name]}" for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME")
    )
    settings.write_text(f"""
HostKey {place}/host-{host}
AuthorizedKeysFile {place}/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
SetEnv {variables}
""")
    # The folder that sshd locks itself into is made where nobody else sees it.
    script = 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"'
    inside = ["ip", "netns", "exec", fleet.namespace(host), *OWN_MOUNTS, "sh", "-c", script, "sh"]
    told = place / f"log-{host}"
    with told.open("w") as log:
        server = subprocess.Popen(
            [*inside, str(SSHD), "-D", "-e", "-f", str(settings)], stdin=subprocess.DEVNULL, stderr=log, text=True
        )
        try:
            deadline = time.monotonic() + 20
            while "Server listening" not in told.read_text():
                assert server.poll() is None, told.read_text()
                assert time.monotonic() < deadline, told.read_text()
                time.sleep(0.02)
            yield server
        finally:
            server.terminate()
            server.wait(20)


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[Fleet]:
    """Hosts without a word on how they are reached, and a place of ssh's settings that only this test sees."""
    place = tmp_path / "ssh"
    place.mkdir(mode=0o700)
    (place / "authorized").write_text(key(place / "key") + "\n")
    with network(tmp_path, ["a", "b"]) as made, ExitStack() as servers:
        known = []
        for number, host in enumerate(made.names):
            known.append(f"{made.subnet}.{number + 2} {key(place / f'host-{host}')}")
            servers.enter_context(ssh_server(made, host, place))
        (place / "known").write_text("\n".join(known) + "\n")
        (place / "ssh_config").write_text(
            f"Host *\n  IdentityFile {place}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile {place}/known\n"
        )
        lines = ["[head]", f'address = "{made.head}"']
        for number, name in enumerate(made.names):
            lines += ["[[host]]", f'name = "{name}"', f'address = "{made.subnet}.{number + 2}"']
            lines += [f'python = "{sys.executable}"']
        (tmp_path / "by-ssh.toml").write_text("\n".join(lines))
        try:
            yield made
        finally:
            over_ssh(made, place, "fleet", "down", "--forget", codes=(0, 1, 2))
            for _ in range(50):
                if not ray_left(tmp_path):
                    break
                time.sleep(0.1)
            assert ray_left(tmp_path) == [], "nothing of Ray is left"


def over_ssh(
    fleet: Fleet, place: Path, *words: object, codes: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    """A command, for which the settings of ssh lie where ssh looks for them."""
    command = fleet.command(*words)
    own = [*OWN_MOUNTS, "sh", "-c", f'mount --bind {place} /etc/ssh && exec "$@"', "sh"]
    done = subprocess.run(
        [*command[:4], *own, *command[4:]],
        env={**fleet.env, "USER": getpass.getuser()},
        capture_output=True,
        text=True,
        check=False,
        cwd=fleet.home,
        timeout=200,
    )
    logs = "".join(log.read_text()[-800:] for log in place.glob("log-*"))
    assert done.returncode in codes, (done.returncode, done.stdout[-1000:], done.stderr[-2000:], logs)
    return done


def test_a_fleet_comes_up_runs_and_ends_over_ssh(reached: Fleet) -> None:
    place, hosts = reached.home / "ssh", reached.home / "by-ssh.toml"
    over_ssh(reached, place, "fleet", "up", "--hosts", hosts)
    known = json.loads(next(reached.home.rglob("fleet.json")).read_text())
    assert [node["command"][0] for node in known["hosts"]] == ["ssh", "ssh"]
    files = [f"{host}:{reached.home}/{host}.dat" for host in reached.names]
    words = ["sqlio-random-read-4", *files, "--hosts", "all", "--size", "8MiB", "--set", "duration=2s", "--json"]
    told = json.loads(over_ssh(reached, place, "run", *words).stdout)
    assert told["outcome"] == "done"
    assert all(row["requests"] > 0 for row in told["hosts"])
    over_ssh(reached, place, "fleet", "down")
    assert not any(reached.pids(host, "raylet") for host in reached.names)
    assert not list(reached.home.rglob("fleet.json"))


def test_a_host_that_takes_no_key_is_named_and_nothing_stays(reached: Fleet) -> None:
    place, hosts = reached.home / "ssh", reached.home / "by-ssh.toml"
    (place / "key").unlink()
    key(place / "key")  # another one than the servers take
    done = over_ssh(reached, place, "fleet", "up", "--hosts", hosts, codes=(1, 2))
    assert done.stderr.splitlines()[:-1] == ["checking 2 hosts"], done.stderr
    assert "Permission denied" in done.stderr
    assert not any(reached.pids(host, "raylet") for host in ("head", *reached.names))
