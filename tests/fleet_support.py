"""Hosts that are network namespaces on one bridge, each with a Ray node of its own; all of it goes with the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RELAY = """
import socket, sys, threading

def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass

listening = socket.create_server(("", int(sys.argv[2])))
print("listens", flush=True)
while True:
    far, _ = listening.accept()
    near = socket.socket(socket.AF_UNIX)
    near.connect(sys.argv[1])
    for pair in ((far, near), (near, far)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)


@dataclass
class Fleet:
    """Hosts, and one more from which they are started."""

    home: Path
    tag: str
    subnet: str
    names: list[str]
    env: dict[str, str] = field(default_factory=dict)
    begun_s: float = 0.0
    """When the last run was begun, as files are stamped."""

    @property
    def head(self) -> str:
        return f"{self.subnet}.1"

    @property
    def address(self) -> str:
        return f"{self.head}:6399"

    def namespace(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def hosts_toml(self) -> Path:
        lines = ["[head]", f'address = "{self.head}"', ""]
        for number, name in enumerate(self.names):
            lines += [
                "[[host]]",
                f'name = "{name}"',
                f'address = "{self.subnet}.{number + 2}"',
                f'reach = ["ip", "netns", "exec", "{self.namespace(name)}"]',
                f'python = "{sys.executable}"',
                "",
            ]
        place = self.home / "hosts.toml"
        place.write_text("\n".join(lines))
        return place

    def command(self, *words: object) -> list[str]:
        words = (sys.executable, "-P", "-m", "brickyard", *words)
        return ["ip", "netns", "exec", self.namespace("head"), *map(str, words)]

    def call(self, *words: object, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), env=self.env, capture_output=True, text=True, check=False, cwd=self.home, timeout=300
        )
        assert done.returncode in codes, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
        return done

    def begin(self, *words: object) -> subprocess.Popen[str]:
        self.begun_s = time.time()
        return subprocess.Popen(
            self.command(*words),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
        )

    def run(self, *words: object, codes: tuple[int, ...] = (0,)) -> Any:
        """A run as its document."""
        return json.loads(self.call("run", *words, "--json", codes=codes).stdout)

    @contextmanager
    def served(self, host: str, socket_path: str, port: int) -> Iterator[None]:
        """A server that listens on a socket of the file system, at a port of a host."""
        words = ["ip", "netns", "exec", self.namespace(host), sys.executable, "-P", "-c", RELAY, socket_path, str(port)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as relay:
            try:
                assert relay.stdout is not None
                assert relay.stdout.readline() == "listens\n"
                yield
            finally:
                relay.kill()

    @contextmanager
    def within(self, host: str, *command: str) -> Iterator[None]:
        """Mounts what a command says where this host's Ray node sees it, and nobody else does."""
        raylet = str(self.pids(host, "raylet/raylet")[0])
        subprocess.run(["nsenter", "-t", raylet, "-m", "mount", *command], check=True, capture_output=True)
        try:
            yield
        finally:
            words = ["nsenter", "-t", raylet, "-m", "umount", "--lazy", command[-1]]
            subprocess.run(words, check=False, capture_output=True)

    @contextmanager
    def narrow(self, host: str, rate: str) -> Iterator[None]:
        """A slow link to a host, both ways."""
        outer, inner = f"{self.tag}{self.names.index(host) + 1}", f"{self.tag}i{self.names.index(host) + 1}"
        inside = ["ip", "netns", "exec", self.namespace(host)]
        queue = ["root", "tbf", "rate", rate, "burst", "3000", "latency", "2s"]
        try:
            subprocess.run(["tc", "qdisc", "add", "dev", outer, *queue], check=True, capture_output=True)
            subprocess.run([*inside, "tc", "qdisc", "add", "dev", inner, *queue], check=True, capture_output=True)
            yield
        finally:
            subprocess.run(["tc", "qdisc", "del", "dev", outer, "root"], check=False, capture_output=True)
            subprocess.run([*inside, "tc", "qdisc", "del", "dev", inner, "root"], check=False, capture_output=True)

    def link(self, host: str, state: str) -> None:
        ip("link", "set", f"{self.tag}{self.names.index(host) + 1}", state)

    def pids(self, host: str, word: str) -> list[int]:
        """Processes in a host's namespace whose command has a word."""
        found = subprocess.run(
            ["ip", "netns", "pids", self.namespace(host)], capture_output=True, text=True, check=True
        )
        pids = []
        for pid in map(int, found.stdout.split()):
            try:
                if word in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode():
                    pids.append(pid)
            except OSError:
                continue
        return pids


def ray_left(home: Path) -> list[str]:
    """Processes that Ray's nodes of this fleet left behind."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(home).encode() in place.read_bytes() and int(place.parent.name) != os.getpid():
                found.append((place.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120])
        except OSError:
            continue
    return found


def claimed(bridge: str) -> bool:
    """Makes a bridge; not where another run of these tests has one of that name."""
    made = subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], capture_output=True, check=False)
    return made.returncode == 0


@contextmanager
def network(home: Path, names: list[str]) -> Iterator[Fleet]:
    """A bridge of this host, and a namespace with a link to it for each host."""
    number = next(n for n in (*range(os.getpid() % 250, 250), *range(250)) if claimed(f"bk{n}br"))
    tag = f"bk{number}"
    fleet = Fleet(home, tag, f"10.213.{number}", names)
    fleet.env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTEST_"))},
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "BRICKYARD_STATE_HOME": str(home / "brickyard"),
        "NO_COLOR": "1",
        "COLUMNS": "160",
    }
    spaces = ["head", *names]
    try:
        ip("link", "set", f"{tag}br", "up")
        for position, name in enumerate(spaces):
            space, outer, inner = fleet.namespace(name), f"{tag}{position}", f"{tag}i{position}"
            ip("netns", "add", space)
            ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            ip("link", "set", inner, "netns", space)
            ip("link", "set", outer, "master", f"{tag}br", "up")
            ip("-n", space, "addr", "add", f"{fleet.subnet}.{position + 1}/24", "dev", inner)
            ip("-n", space, "link", "set", inner, "up")
            ip("-n", space, "link", "set", "lo", "up")
        yield fleet
    finally:
        for position, name in enumerate(spaces):
            ip("link", "del", f"{tag}{position}", check=False)
            ip("netns", "del", fleet.namespace(name), check=False)
        ip("link", "del", f"{tag}br", check=False)
