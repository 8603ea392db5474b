"""Duty: Ray on one host: its start, whether it runs, its end.

A script goes to the host's shell by standard input, the token in it, so that it is in no list of processes. It makes a
folder of its own below /tmp for Ray, which goes with the fleet.

Refusal: no Ray that it did not start is ended; `ray stop` would end them all.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from typing import Any

from brickyard.errors import BrickyardError, one_line
from brickyard.fleet import cluster, fitness, tls
from brickyard.fleet.cluster import Cluster, Node
from brickyard.fleet.hosts import HostEntry
from brickyard.fleet.shells import ShellError, answer, filled
from brickyard.printable import printable

UP_S = 600.0  # an environment is made on the host, the first time
MEMBERS_S = 120.0
REACH_S = 5.0  # a connection to the head, before Ray is started on a host
DOWN_S = 40.0
RUNS_S = 15.0  # to see whether a process is there
LOOK_S = 2.0  # so often the nodes that have not joined are looked at
STORE_BYTES = 100_000_000  # of Ray's objects; ours are the worker and answers
MARK = "brickyard-fleet-"
FOLDER = re.compile(rf"/tmp/{MARK}[0-9A-Za-z]+")  # noqa: S108 - a pattern; what is made there is new, or refused
ENVIRONMENT = "brickyard/fleet/env"

PYTHON = (
    """
env="${XDG_STATE_HOME:-$HOME/.local/state}/"""
    + ENVIRONMENT
    + """"
if ! "$env/bin/python" -c 'import importlib.metadata as m, sys; sys.exit(m.version("ray") != "@RAY@")' 2>/dev/null; then
  python3 -m venv "$env"
  "$env/bin/pip" install -q --disable-pip-version-check --require-hashes -r /dev/stdin <<'LOCK'
@LOCK@
LOCK
fi
python="$env/bin/python"
"""
)
START = """
set -eu
umask 077
dir='@DIR@'
mkdir "$dir"
echo begun
@PYTHON@
@FIRST@
cd '@DIR@'  # whoever ends the fleet meanwhile takes it away, and nothing starts
printf %s '@TOKEN@' >"$dir/token"
cat >"$dir/fleet.pem" <<'PEM'
@CERTIFICATE@
PEM
mkdir "$dir/ray"  # Ray opens its folder to everybody; the one around it stays ours
unset @OURS@  # which a shell on this host inherits
export RAY_AUTH_TOKEN_PATH="$dir/token" @SETTINGS@
setsid "$python" -m ray.scripts.scripts start --block @WORDS@ --temp-dir "$dir/ray" --disable-usage-stats \\
  --include-log-monitor false --object-store-memory @STORE@ >"$dir/log" 2>&1 </dev/null &
echo $! >"$dir/pid"
echo "started $!"
"""
REACHES = """
if ! why=$("$python" -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), @WITHIN@)' \\
  @ADDRESS@ @PORT@ 2>&1 </dev/null); then
  rm -rf "$dir"
  echo does not reach the head at @ADDRESS@:@PORT@: "$(echo "$why" | tail -n 1)" >&2
  exit 1
fi
"""
END = """
case '@DIR@' in /tmp/@MARK@*[!0-9A-Za-z]*) exit 2 ;; /tmp/@MARK@?*) ;; *) exit 2 ;; esac
real=$(cd '@DIR@' 2>/dev/null && pwd -P)
pids() {
  {
    grep -slz '^RAY_AUTH_TOKEN_PATH=@DIR@/token$' /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
    # Processes of Ray that gave themselves a title wrote it over their environment; where they were started stays.
    [ -z "$real" ] || for comm in $(grep -sl '^ray::' /proc/[0-9]*/comm); do
      [ "$(readlink "${comm%/comm}/cwd" 2>/dev/null)" = "$real" ] && echo "$comm" | cut -d/ -f3
    done
  } | sort -u
}
first=$(cat '@DIR@/pid' 2>/dev/null)  # it ends the others in their order
for pid in $(pids); do [ "$pid" = "$first" ] && kill -TERM "$pid" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
  [ -z "$(pids)" ] && break
  sleep 0.3
done
for pid in $(pids); do kill -KILL "$pid" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
  [ -z "$(pids)" ] && break
  sleep 0.1
done
if [ -n "$(pids)" ]; then
  echo processes of Ray do not end: $(pids) >&2
  exit 1
fi
rm -rf '@DIR@'
echo ended
"""
RUNS = """
kill -0 "$(cat '@DIR@/pid' 2>/dev/null)" 2>/dev/null && echo runs || echo gone
"""
ENDED = """
pid=$(cat '@DIR@/pid' 2>/dev/null) || exit 0  # not started yet
kill -0 "$pid" 2>/dev/null && exit 0
echo "Ray ended as it was started: $(grep -v '^ *$' '@DIR@/log' 2>/dev/null | tail -n 1)" >&2
exit 1
"""


@dataclass(frozen=True)
class Secret:
    """What all nodes of a fleet have and nobody else."""

    token: str
    certificate: str
    """PEM with its key; empty where the fleet speaks no TLS."""


def planned(name: str, address: str, command: list[str]) -> Node:
    return Node(name, address, command, f"/tmp/{MARK}{secrets.token_hex(8)}")  # noqa: S108 - made there, or refused


def runs(node: Node) -> bool | None:
    """Whether its Ray still runs there; None where nobody answers."""
    try:
        return answer(node.name, node.command, filled(RUNS, DIR=node.folder), RUNS_S).strip() == "runs"
    except BrickyardError:
        return None


def start_all(
    hosts: Sequence[HostEntry], nodes: Sequence[Node], address: str, secret: Secret
) -> dict[str, BrickyardError]:
    """All at once; why it failed, of those on which it did."""

    def start(pair: tuple[HostEntry, Node]) -> BrickyardError | None:
        try:
            start_host(*pair, address, secret)
        except BrickyardError as error:
            return error
        return None

    with ThreadPoolExecutor(16) as pool:
        found = zip(hosts, pool.map(start, zip(hosts, nodes, strict=True)), strict=True)
        return {host.name: error for host, error in found if error is not None}


def start_host(host: HostEntry, node: Node, address: str, secret: Secret) -> None:
    lock = _lock()
    ray = fitness.RAY_IN_LOCK.search(lock)
    made = filled(PYTHON, LOCK=lock, RAY=ray[1] if ray else "")
    python = f"python={shlex.quote(host.python)}" if host.python else made
    resource = shlex.quote(json.dumps({f"{cluster.RESOURCE}{host.name}": 1}))
    words = f"--address {address} --node-ip-address {host.address} --num-cpus 1 --resources {resource}"
    head, _, port = address.rpartition(":")
    first = filled(REACHES, ADDRESS=shlex.quote(head), PORT=shlex.quote(port), WITHIN=f"{REACH_S:.0f}")
    start(node, python, words, secret, first)


def _lock() -> str:
    """What is installed on hosts, each file by its hash."""
    return (resources.files("brickyard.fleet") / "hosts.lock").read_text("utf-8").strip()


def start(node: Node, python: str, words: str, secret: Secret, first: str = "") -> int:
    """The number of its first process; `first` is what has to succeed before anything starts."""
    given = {**cluster.SETTINGS, **(tls.settings("$dir/fleet.pem") if secret.certificate else {})}
    script = filled(
        START,
        PYTHON=python,
        FIRST=first.strip(),
        TOKEN=secret.token,
        CERTIFICATE=secret.certificate.strip(),
        SETTINGS=" ".join(f'{key}="{value}"' for key, value in given.items()),
        OURS=" ".join(cluster.OURS),
        WORDS=words,
        STORE=str(STORE_BYTES),
        DIR=node.folder,
    )
    said = answer(node.name, node.command, script, UP_S)
    last = said.splitlines()[-1].split() if said.strip() else []
    if len(last) != 2 or last[0] != "started" or not last[1].isdecimal():
        raise BrickyardError(f"{node.name}: Ray did not start: {one_line(said)[-200:]}")
    return int(last[1])


def end(node: Node) -> str:
    """Ends one node; why it could not, or nothing."""
    if not FOLDER.fullmatch(node.folder):
        return f"{printable(node.folder)}: is no folder that `fleet up` makes; nothing was ended there"
    try:
        answer(node.name, node.command, filled(END, DIR=node.folder, MARK=MARK), DOWN_S)
    except BrickyardError as error:
        return str(error)
    return ""


def await_port(head: Node, pid: int) -> None:
    """Waits until the head says that it runs."""
    script = f"for _ in $(seq 500); do grep -q 'Ray runtime started' {head.folder}/log && exit 0; " + (
        f"kill -0 {pid} || break; sleep 0.2; done; tail -n 3 {head.folder}/log >&2; exit 1"
    )
    answer(head.name, head.command, script, MEMBERS_S)


def await_members(fleet: Cluster, nodes: Sequence[Node], before: Mapping[str, set[str]] | None = None) -> None:
    """Waits until Ray has a new node of each, and none of those that were `before`. One that ends is told at once."""
    ray: Any = cluster.enter(fleet)
    old = before or {}
    deadline_s = time.monotonic() + MEMBERS_S
    look_s = time.monotonic() + LOOK_S
    while True:
        found = cluster.nodes_of(ray)
        missing = [node for node in nodes if not found.get(node.name) or found[node.name] & old.get(node.name, set())]
        if not missing:
            return
        if time.monotonic() > look_s:
            refuse_ended(missing)
            look_s = time.monotonic() + LOOK_S
        if time.monotonic() > deadline_s:
            raise BrickyardError(
                f"{', '.join(node.name for node in missing)}: did not join within {MEMBERS_S:.0f} s; see whether they"
                f" reach {fleet.address}"
            )
        time.sleep(0.2)


def refuse_ended(nodes: Sequence[Node]) -> None:
    def why(node: Node) -> str:
        try:
            answer(node.name, node.command, filled(ENDED, DIR=node.folder), RUNS_S)
        except ShellError as error:
            return str(error) if error.said is not None else ""
        return ""

    with ThreadPoolExecutor(16) as pool:
        if whys := [said for said in pool.map(why, nodes) if said]:
            raise BrickyardError("; ".join(whys))
