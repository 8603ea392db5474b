"""Duty: start Ray on the hosts of a file, look at it, and end it; print what does the same on Kubernetes.

A script goes to each host's shell by standard input, the token in it, so that it is in no list of processes. It makes
a folder of its own below /tmp for Ray, which goes with the fleet.

Refusal: no Ray that it did not start is ended; `ray stop` would end them all.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata, resources
from itertools import repeat
from pathlib import Path
from typing import Any

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.fleet import LEAST_RAY, cluster, needs_ray, tls
from brickyard.fleet.cluster import Cluster, Node
from brickyard.fleet.hosts import HostEntry, HostsFile, command_of, refuse_near
from brickyard.printable import printable

UP_S = 600.0  # an environment is made on the host, the first time
MEMBERS_S = 120.0
REACH_S = 5.0  # a connection to the head, before Ray is started on a host
DOWN_S = 40.0
STORE_BYTES = 100_000_000  # of Ray's objects; ours are the worker and answers
MARK = "brickyard-fleet-"
FOLDER = re.compile(rf"/tmp/{MARK}[0-9A-Za-z]+")  # noqa: S108 - a pattern; what is made there is new, or refused
ENVIRONMENT = "brickyard/fleet/env"
RETRIES = 3  # of a pod
QUANTITY = re.compile(r"[1-9][0-9]*(Mi|Gi|Ti|M|G|T)")
CLASS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
IMAGE_USER = 1000  # Ray's images run as this user, who has to read the token and to write to the volume

PYTHON = (
    """
env="${XDG_STATE_HOME:-$HOME/.local/state}/"""
    + ENVIRONMENT
    + """"
if [ ! -x "$env/bin/ray" ]; then
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
@PYTHON@
@FIRST@
cd '@DIR@'  # whoever ends the fleet meanwhile takes it away, and nothing starts
printf %s '@TOKEN@' >"$dir/token"
cat >"$dir/fleet.pem" <<'PEM'
@CERTIFICATE@
PEM
mkdir "$dir/ray"  # Ray opens its folder to everybody; the one around it stays ours
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


VOLUME_MOUNT = "            - {name: brick, mountPath: /brick}\n"
CLAIM = """        - name: brick
          ephemeral:
            volumeClaimTemplate:
              spec:
                accessModes: [ReadWriteOnce]
@CLASS@                resources: {requests: {storage: @SIZE@}}
"""


@dataclass(frozen=True)
class PodVolume:
    """What each pod of a Job gets of its own, at `/brick`; it goes with the pod."""

    size: str
    storage_class: str | None

    def __post_init__(self) -> None:
        if not QUANTITY.fullmatch(self.size):
            raise BadInputError(f"--volume {self.size}: is no size as Kubernetes writes it, such as 100Gi")
        if self.storage_class is not None and not CLASS_NAME.fullmatch(self.storage_class):
            raise BadInputError(f"--storage-class {self.storage_class}: is no name of a storage class")

    def claim(self) -> str:
        own = f"                storageClassName: {self.storage_class}\n" if self.storage_class else ""
        return _filled(CLAIM, CLASS=own, SIZE=self.size)


@dataclass(frozen=True)
class Secret:
    """What all nodes of a fleet have and nobody else."""

    token: str
    certificate: str
    """PEM with its key; empty where the fleet speaks no TLS."""


def up(hosts: HostsFile, *, with_tls: bool = True) -> Cluster:
    """Starts the head here and a node on each host; what was started is ended again where one of them fails."""
    if cluster.state_file().exists():
        raise BadInputError(
            f"{cluster.state_file()}: there is a fleet already; end it with `brickyard fleet down`, or join its hosts"
        )
    refuse_near(hosts)
    certificate = tls.made([hosts.head.address, *(host.address for host in hosts.host)]) if with_tls else ""
    secret = Secret(secrets.token_hex(32), certificate)
    head = hosts.head
    planned = Cluster(
        f"{head.address}:{head.port}",
        head.address,
        [_planned(host.name, host.address, command_of(host)) for host in hosts.host],
        _planned("head", head.address, [*head.reach, "sh", "-s"]),
    )
    _keep_secret(secret)
    try:
        cluster.save(planned)  # before anything runs, so that whatever dies meanwhile, `down` knows where it was
        words = f"--head --node-ip-address {head.address} --port {head.port} --num-cpus 0"
        words += " --include-dashboard false --no-monitor"
        assert planned.head is not None
        pid = _start(planned.head, f"python={shlex.quote(sys.executable)}", words, secret)
        _await_port(planned.head, pid)
        with ThreadPoolExecutor(16) as pool:
            addresses, secrets_ = repeat(planned.address), repeat(secret)
            list(pool.map(_start_host, hosts.host, planned.hosts, addresses, secrets_))
        _await_members(planned, [host.name for host in hosts.host])
    except BaseException:
        _end_all(planned)
        raise
    return planned


def _keep_secret(secret: Secret) -> None:
    """Ray reads its settings once, so that it is imported when all of them are there."""
    try:
        outputs.folder(cluster.home())
        outputs.write_whole(cluster.token_file(), secret.token, cluster.TOKEN_MARK, mode=0o600)
        if secret.certificate:
            outputs.write_whole(cluster.certificate_file(), secret.certificate, tls.MARK, mode=0o600)
        needs_ray()
    except BaseException:
        cluster.forget()
        raise


def _planned(name: str, address: str, command: list[str]) -> Node:
    return Node(name, address, command, f"/tmp/{MARK}{secrets.token_hex(8)}")  # noqa: S108 - made there, or refused


def join(address: str, token: Path) -> Cluster:
    """A cluster that somebody else runs; its nodes are hosts where they have a resource `brickyard:NAME`."""
    needs_ray()
    if cluster.state_file().exists():
        raise BadInputError(f"{cluster.state_file()}: there is a fleet already; leave it with `brickyard fleet down`")
    try:
        text = token.read_text("utf-8").strip()
    except OSError as error:
        raise BadInputError(f"{token}: the token cannot be read: {error.strerror}") from error
    if not cluster.TOKEN_MARK.search(text.encode()):
        raise BadInputError(f"{token}: is no token of 64 hexadecimal digits, as `ray get-auth-token --generate` makes")
    outputs.folder(cluster.home())
    outputs.write_whole(cluster.token_file(), text, cluster.TOKEN_MARK, mode=0o600)
    fleet = Cluster(address)
    try:
        ray = cluster.enter(fleet)
        hosts = cluster.hosts_of(ray)
        if not hosts:
            raise BadInputError(
                f"{address}: no node has a resource `brickyard:NAME`; start nodes with --resources"
                """ '{"brickyard:NAME": 1}'"""
            )
        fleet = replace(fleet, joined={name: host.address for name, host in hosts.items() if host.alive})
        cluster.save(fleet)
    except BaseException:
        cluster.forget()
        raise
    return fleet


def down(*, forget: bool = False) -> list[str]:
    """Ends what `up` started; gives back what could not be reached, which stays known unless it is to be forgotten."""
    failures = _end_all(cluster.load())
    if failures and forget:
        cluster.forget()
    return failures


def _end_all(fleet: Cluster) -> list[str]:
    """Ends all nodes. Those that cannot be ended stay known; without any, the fleet is forgotten."""
    with ThreadPoolExecutor(16) as pool:
        said = list(zip(fleet.nodes, pool.map(_end, fleet.nodes), strict=True))
    left = [node for node, failure in said if failure]
    if left:
        hosts = [node for node in left if node is not fleet.head]
        cluster.save(replace(fleet, hosts=hosts, head=fleet.head if fleet.head in left else None))
    else:
        cluster.forget()
    return [f"{node.name}: {failure}" for node, failure in said if failure]


def _start_host(host: HostEntry, node: Node, address: str, secret: Secret) -> None:
    python = f"python={shlex.quote(host.python)}" if host.python else PYTHON.replace("@LOCK@", _lock())
    resource = shlex.quote(json.dumps({f"{cluster.RESOURCE}{host.name}": 1}))
    words = f"--address {address} --node-ip-address {host.address} --num-cpus 1 --resources {resource}"
    head, _, port = address.rpartition(":")
    first = _filled(REACHES, ADDRESS=shlex.quote(head), PORT=shlex.quote(port), WITHIN=f"{REACH_S:.0f}")
    _start(node, python, words, secret, first)


def _lock() -> str:
    """What is installed on hosts, each file by its hash."""
    return (resources.files("brickyard.fleet") / "hosts.lock").read_text("utf-8").strip()


def _start(node: Node, python: str, words: str, secret: Secret, first: str = "") -> int:
    """The number of its first process; `first` is what has to succeed before anything starts."""
    given = {**cluster.SETTINGS, **(tls.settings("$dir/fleet.pem") if secret.certificate else {})}
    script = _filled(
        START,
        PYTHON=python,
        FIRST=first.strip(),
        TOKEN=secret.token,
        CERTIFICATE=secret.certificate.strip(),
        SETTINGS=" ".join(f'{key}="{value}"' for key, value in given.items()),
        WORDS=words,
        STORE=str(STORE_BYTES),
        DIR=node.folder,
    )
    said = _told(node, script, UP_S)
    last = said.splitlines()[-1].split() if said.strip() else []
    if len(last) != 2 or last[0] != "started" or not last[1].isdecimal():
        raise BrickyardError(f"{node.name}: Ray did not start: {one_line(said)[-200:]}")
    return int(last[1])


def _filled(script: str, **values: str) -> str:
    for key, value in values.items():
        script = script.replace(f"@{key}@", value)
    return script


def _told(node: Node, script: str, within_s: float) -> str:
    name = node.name
    try:
        done = subprocess.run(node.command, input=script, capture_output=True, text=True, timeout=within_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrickyardError(f"{name}: cannot be reached: {one_line(error)}") from error
    if done.returncode != 0:
        cause = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BrickyardError(f"{name}: {one_line(cause)} (exit code {done.returncode})")
    return done.stdout


def _end(node: Node) -> str:
    """Ends one node; why it could not, or nothing."""
    if not FOLDER.fullmatch(node.folder):
        return f"{printable(node.folder)}: is no folder that `fleet up` makes; nothing was ended there"
    try:
        _told(node, _filled(END, DIR=node.folder, MARK=MARK), DOWN_S)
    except BrickyardError as error:
        return str(error)
    return ""


def _await_port(head: Node, pid: int) -> None:
    """Waits until the head says that it runs."""
    script = f"for _ in $(seq 500); do grep -q 'Ray runtime started' {head.folder}/log && exit 0; " + (
        f"kill -0 {pid} || break; sleep 0.2; done; tail -n 3 {head.folder}/log >&2; exit 1"
    )
    _told(head, script, MEMBERS_S)


def _await_members(fleet: Cluster, names: list[str]) -> None:
    ray: Any = cluster.enter(fleet)
    deadline_s = time.monotonic() + MEMBERS_S
    while missing := [name for name in names if name not in cluster.alive(ray)]:
        if time.monotonic() > deadline_s:
            raise BrickyardError(
                f"{', '.join(missing)}: did not join within {MEMBERS_S:.0f} s; see whether they reach {fleet.address}"
            )
        time.sleep(0.2)


def _image() -> str:
    """Ray wants its own version and that of Python to be the same on all nodes; the head is like this host."""
    try:
        ray = metadata.version("ray")
    except metadata.PackageNotFoundError:
        ray = ".".join(map(str, (*LEAST_RAY, 0)))
    return f"rayproject/ray:{ray}-py{sys.version_info.major}{sys.version_info.minor}"


def manifest(count: int, address: str, volume: PodVolume | None = None) -> str:
    """Kubernetes: an indexed Job whose pods are hosts `k0` to `kN`, which join the head at an address.

    A pod that fails takes no other with it, and is made again some times, since a Ray node may fail to start on a busy
    host. `volume` is claimed once for each pod.
    """
    settings = "".join(f'            - {{name: {key}, value: "{value}"}}\n' for key, value in cluster.SETTINGS.items())
    token = cluster.token_file() if cluster.token_file().is_file() else "TOKEN_FILE"
    mounts, volumes = (VOLUME_MOUNT, volume.claim()) if volume else ("", "")
    return f"""# kubectl create secret generic brickyard-token --from-file=token={token}
apiVersion: batch/v1
kind: Job
metadata:
  name: brickyard-fleet
spec:
  completionMode: Indexed
  completions: {count}
  parallelism: {count}
  backoffLimitPerIndex: {RETRIES}
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext: {{fsGroup: {IMAGE_USER}}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {{matchLabels: {{job-name: brickyard-fleet}}}}
      containers:
        - name: host
          image: {_image()}
          command: ["sh", "-c"]
          args:
            - >-
              exec ray start --block --address {address} --num-cpus 1 --include-log-monitor false
              --disable-usage-stats --object-store-memory {STORE_BYTES}
              --resources "{{\\"brickyard:k$JOB_COMPLETION_INDEX\\": 1}}"
          env:
            - {{name: RAY_AUTH_TOKEN_PATH, value: /token/token}}
{settings}          volumeMounts:
            - {{name: token, mountPath: /token, readOnly: true}}
            - {{name: memory, mountPath: /dev/shm}}
{mounts}      volumes:
        - name: token
          secret: {{secretName: brickyard-token, defaultMode: 0440}}
        - name: memory
          emptyDir: {{medium: Memory, sizeLimit: 256Mi}}
{volumes}"""
