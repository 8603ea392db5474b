"""Duty: the Ray cluster that a fleet is: where it is known from, how it is entered, which hosts it has.

A token is mandatory. A cluster that answers without one is refused, since everybody who reaches its ports could run
programs on all of its hosts.

Refusal: nothing is started on hosts here, and no load is known.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.fleet import needs_ray, tls
from brickyard.fleet.hosts import MOST_PORT
from brickyard.outputs import Mark
from brickyard.ready import ready
from brickyard.store import default_place

MARK = re.compile(rb'^\{\s*"brickyard_fleet"')
TOKEN_MARK: Mark = re.compile(rb"^[0-9a-f]{64}\s*$")
RESOURCE = "brickyard:"
CONNECT_S = 3.0
PROBE_S = 15.0
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    # Ray takes a busy host for dead after some 30 s; ours are busy by intent. Who is dead is told by the stream of a
    # host's own words, within 5 s.
    "RAY_health_check_period_ms": "5000",
    "RAY_health_check_timeout_ms": "20000",
    "RAY_health_check_failure_threshold": "10",
}
PROBE = """
import sys
from ray._raylet import GcsClient
keys = GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, 5)
print("answered", len(keys))
"""
OURS = {
    # Ray's defaults are 30 s and 20 attempts.
    "RAY_py_gcs_connect_timeout_s": "5",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}
"""Of this process, which waits for the head, and of no node."""
LOG_HEAD = re.compile(r"^\[[^]]*\] \S+:\d+: ")  # time, process and place in Ray's own files
ANSWERED, REFUSED = "answered", "InvalidAuthToken"


@dataclass(frozen=True)
class Node:
    """Ray on one host: what runs a shell there, and the folder that all of it knows itself by."""

    name: str
    address: str
    command: list[str]
    folder: str


@dataclass(frozen=True)
class Cluster:
    """What `fleet up` keeps of a fleet: where Ray listens, and how each host was reached."""

    address: str
    node_address: str = ""
    """Of the host that starts the others, among the addresses that it has."""
    hosts: list[Node] = field(default_factory=list)
    head: Node | None = None
    joined: dict[str, str] = field(default_factory=dict)
    """The hosts of a cluster that somebody else runs, when it was joined: addresses by name."""

    @property
    def nodes(self) -> list[Node]:
        """The head last, as the others need it to the end."""
        return [*self.hosts, *([self.head] if self.head else [])]


def home() -> Path:
    """Where the fleet of this user is kept."""
    return default_place().parent / "fleet"


def token_file() -> Path:
    return home() / "token"


def certificate_file() -> Path:
    """Of a fleet that speaks TLS."""
    return home() / "fleet.pem"


def state_file() -> Path:
    return home() / "fleet.json"


def save(fleet: Cluster) -> None:
    outputs.folder(home())
    outputs.write_whole(state_file(), json.dumps({"brickyard_fleet": 1, **asdict(fleet)}, indent=1), MARK)


def load() -> Cluster:
    try:
        return msgspec.json.decode(state_file().read_bytes(), type=Cluster)
    except OSError as error:
        raise BadInputError("there is no fleet; start one with `brickyard fleet up --hosts hosts.toml`") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadInputError(
            f"{state_file()}: is not what `fleet up` wrote ({one_line(error)}), so it is not known which hosts run "
            f"Ray; end Ray there by hand, and remove the file"
        ) from error


def forget() -> None:
    """Removes what `save` wrote, and the token."""
    outputs.remove_ours(state_file(), MARK)
    outputs.remove_ours(token_file(), TOKEN_MARK)
    outputs.remove_ours(certificate_file(), tls.MARK)


def environment() -> dict[str, str]:
    """What Ray has to find around this process."""
    place = certificate_file()
    secret = tls.settings(place) if place.is_file() else {}
    return {**SETTINGS, **OURS, **secret, "RAY_AUTH_TOKEN_PATH": str(token_file())}


def refuse_silent(address: str) -> None:
    """Refuses a head whose port nobody answers; Ray would try again for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MOST_PORT:
        raise BadInputError(f"{address}: is not HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        raise _unreached(address, error.strerror or one_line(error)) from error


def refuse_open(address: str) -> None:
    """Refuses a cluster that answers whoever has no token. One that refuses says so at once and again and again."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH") and name not in OURS}
    words = [sys.executable, "-P", "-c", PROBE, address]
    with subprocess.Popen(
        words,
        env={**bare, "RAY_AUTH_MODE": "disabled"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as probe:
        ending = threading.Timer(PROBE_S, probe.kill)
        ending.start()
        said, until_s = "", time.monotonic() + PROBE_S
        try:
            for line in probe.stdout or ():
                said = line.strip() or said
                if REFUSED in line:
                    return
        finally:
            ending.cancel()
            probe.kill()
    if said.startswith(ANSWERED):
        raise BadInputError(
            f"the Ray cluster at {address} answers without a token, so anybody can run programs on its hosts; start it"
            " with RAY_AUTH_MODE=token"
        )
    why = LOG_HEAD.sub("", one_line(said))[-200:] or "no reason given"
    if time.monotonic() >= until_s:
        why = f"nothing within {PROBE_S:.0f} s"
    raise _unreached(address, why)


def _unreached(address: str, why: str) -> BrickyardError:
    remedy = "clear what is left with `brickyard fleet down`" if state_file().exists() else "check the address"
    return BrickyardError(
        f"the fleet's head at {address} does not answer: {why}; see whether Ray runs there, or {remedy}"
    )


def enter(fleet: Cluster) -> Any:
    """Ray, connected to the fleet."""
    if not token_file().is_file():
        raise BadInputError(f"{token_file()}: there is no token; start the fleet with `brickyard fleet up`")
    ray = needs_ray()
    if ray.is_initialized():
        return ray
    refuse_silent(fleet.address)
    refuse_open(fleet.address)
    own = {"_node_ip_address": fleet.node_address} if fleet.node_address else {}
    try:
        ray.init(
            address=fleet.address,
            namespace="brickyard",
            log_to_driver=False,
            configure_logging=False,
            logging_level="critical",
            **own,
        )
    except Exception as error:
        raise _unreached(fleet.address, one_line(error)[:200]) from error
    _silence(ray)
    return ray


def _silence(ray: Any) -> None:
    """Ray's driver prints what happens in its cluster to standard output, amid our documents, and has no switch for it.

    A lost host is named by us.
    """
    ray._private.worker.print_to_stdstream = lambda *_args, **_words: None


class FarNode(msgspec.Struct, frozen=True):
    """A host as Ray knows it."""

    address: str
    alive: bool


class _RayNode(msgspec.Struct, frozen=True, rename="pascal"):
    """What Ray says of a node; a dead one has no resources, and so no name."""

    alive: bool
    node_manager_address: str
    resources: dict[str, float]
    node_id: str = msgspec.field(default="", name="NodeID")

    @property
    def names(self) -> list[str]:
        return [name.removeprefix(RESOURCE) for name in self.resources if name.startswith(RESOURCE)]


def _nodes(ray: Any) -> list[_RayNode]:
    return msgspec.convert(ray.nodes(), list[_RayNode])


def hosts_of(ray: Any) -> dict[str, FarNode]:
    """By name."""
    found: dict[str, FarNode] = {}
    for node in _nodes(ray):
        for name in node.names:
            if node.alive or name not in found:
                found[name] = FarNode(node.node_manager_address, node.alive)
    return dict(sorted(found.items()))


def nodes_of(ray: Any) -> dict[str, set[str]]:
    """The numbers of the nodes that Ray believes alive, by the name of their host."""
    found: dict[str, set[str]] = {}
    for node in _nodes(ray):
        for name in node.names if node.alive else ():
            found.setdefault(name, set()).add(node.node_id)
    return found


def alive(ray: Any) -> list[str]:
    """Those that Ray has now."""
    return [name for name, node in hosts_of(ray).items() if node.alive]


def known_hosts(ray: Any, fleet: Cluster) -> dict[str, FarNode]:
    """The hosts that Ray has, and those that this fleet was started or joined with: Ray forgets a dead one's name."""
    known = {host.name: host.address for host in fleet.hosts} | fleet.joined
    found = {name: FarNode(address, False) for name, address in known.items()}
    return dict(sorted((found | hosts_of(ray)).items()))


def up_and_down(ray: Any) -> tuple[list[str], list[str]]:
    """The hosts of the fleet that are there, and those that are not."""
    known = known_hosts(ray, load())
    living = [name for name, host in known.items() if host.alive]
    return living, [name for name in known if name not in living]


def chosen(ray: Any, hosts: str) -> list[str]:
    """The hosts of `a,b,c` or `all`; one that is not there is refused."""
    living, down = up_and_down(ray)
    if hosts == "all" and down:
        leave_out = f"; to leave it out, name the others: --hosts {','.join(living)}" if living else ""
        raise BadInputError(f"--hosts all: {', '.join(down)} is down{leave_out}")
    names = living if hosts == "all" else [name.strip() for name in hosts.split(",") if name.strip()]
    if not names:
        raise BadInputError("--hosts: no host is there; see `brickyard fleet status`")
    for name in names:
        if name not in living:
            state = "is down" if name in down else "is no host of the fleet"
            raise BadInputError(f"--hosts {name}: {state}; the fleet has {', '.join(living) or 'none'}")
    if len(set(names)) != len(names):
        raise BadInputError(f"--hosts {hosts}: a host is named twice")
    return names


def agent_on(ray: Any, host: str) -> Any:
    """Our hand on a host; Ray gets its code by value, so that the host needs nothing of ours."""
    from ray import cloudpickle

    from brickyard.fleet import agent

    cloudpickle.register_pickle_by_value(agent)
    remote = ray.remote(
        num_cpus=0, resources={f"{RESOURCE}{host}": 0.001}, max_restarts=0, max_task_retries=0, max_concurrency=6
    )
    return remote(agent.Agent).remote(host)


ready(list[_RayNode])
