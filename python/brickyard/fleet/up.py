"""Duty: a fleet over the hosts of a file: it comes up, takes hosts back that it lost, and ends.

Refusal: what is started on a host, and how, is for `nodes`; no host is touched before all of them can have a node.
"""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError
from brickyard.fleet import cluster, fitness, needs_ray, nodes, tls
from brickyard.fleet.cluster import Cluster, Node
from brickyard.fleet.hosts import HostEntry, HostsFile, command_of, refuse_near, refuse_replaced
from brickyard.fleet.shells import ShellError

CLEAR = (
    "end the rest with `brickyard fleet down`, or give it up with `brickyard fleet down --forget` if a host does not "
    "come back"
)


@dataclass(frozen=True)
class Started:
    """A fleet that is up, and the hosts on which something was started for it."""

    fleet: Cluster
    hosts: list[str]


def _silent(text: str) -> None:
    """Nobody waits for progress."""


def up(hosts: HostsFile, *, with_tls: bool = True, tell: Callable[[str], None] = _silent) -> Started:
    """Starts the head here and a node on each host; what was started is ended again where one of them fails. A fleet
    that is up gets the hosts again that it lost. `tell` is called with each step as it begins."""
    refuse_near(hosts)
    if cluster.state_file().exists():
        fleet = cluster.load()
        if fleet.joined:
            raise BadInputError(
                f"{cluster.state_file()}: the fleet is a cluster that was joined with --address; leave it first with"
                " `brickyard fleet down`"
            )
        if fleet.head is not None:
            tell(f"looking for hosts that the fleet at {fleet.address} has lost")
            return _again(fleet, hosts)
        if left := _end_all(fleet).failures:  # of a fleet that ended
            raise BrickyardError(f"an earlier fleet has not ended on all hosts: {'; '.join(left)}; {CLEAR}")
    if with_tls:
        refuse_replaced(hosts)
    on = hosts.host[0].name if len(hosts.host) == 1 else f"{len(hosts.host)} hosts"
    tell(f"checking {on}")
    _refuse_unfit(hosts)
    certificate = tls.made([hosts.head.address, *(host.address for host in hosts.host)]) if with_tls else ""
    secret = nodes.Secret(secrets.token_hex(32), certificate)
    head = hosts.head
    planned = Cluster(
        f"{head.address}:{head.port}",
        head.address,
        [nodes.planned(host.name, host.address, command_of(host)) for host in hosts.host],
        nodes.planned("head", head.address, [*head.reach, "sh", "-s"]),
    )
    _keep_secret(secret)
    begun: set[str] = set()
    try:
        cluster.save(planned)  # before anything runs, so that whatever dies meanwhile, `down` knows where it was
        words = f"--head --node-ip-address {head.address} --port {head.port} --num-cpus 0"
        words += " --include-dashboard false --no-monitor"
        assert planned.head is not None
        begun.add("head")
        tell(f"starting the head at {planned.address}")
        pid = nodes.start(planned.head, f"python={shlex.quote(sys.executable)}", words, secret)
        nodes.await_port(planned.head, pid)
        begun |= {host.name for host in hosts.host}
        tell(f"starting Ray on {on}")
        failures = nodes.start_all(hosts.host, planned.hosts, planned.address, secret)
        begun -= {name for name, error in failures.items() if isinstance(error, ShellError) and error.said == ""}
        if failures:
            raise BrickyardError("; ".join(map(str, failures.values())))
        tell(f"waiting until the head sees {on}")
        nodes.await_members(planned, planned.hosts)
    except BaseException as error:
        left = _end_all(replace(planned, hosts=[node for node in planned.hosts if node.name in begun])).failures
        if left and isinstance(error, BrickyardError):
            raise type(error)(
                f"{error}; what was started has not ended on all hosts: {'; '.join(left)}; {CLEAR}"
            ) from error
        raise
    return Started(planned, [host.name for host in hosts.host])


def _refuse_unfit(hosts: HostsFile) -> None:
    """Before anything is started: what would fail later, or never end."""
    if find_spec("ray") is None:
        needs_ray()  # which says how to install it; where it is there, its settings have to be known first
    if causes := fitness.unfit(hosts.host, nodes.ENVIRONMENT):
        raise BrickyardError("; ".join(causes.values()))


def _again(fleet: Cluster, hosts: HostsFile) -> Started:
    """Hosts of the file that the fleet has lost, or has not had, get a node; the others are left alone. Token and
    certificate stay."""
    own = f"{hosts.head.address}:{hosts.head.port}"
    if own != fleet.address:
        raise BadInputError(
            f"a fleet is up at {fleet.address}, and the file has its head at {own}; end that fleet first with"
            " `brickyard fleet down`"
        )
    ray = cluster.enter(fleet)
    known = {node.name: node for node in fleet.hosts}
    before = cluster.nodes_of(ray)
    with ThreadPoolExecutor(16) as pool:
        runs = dict(zip(known, pool.map(nodes.runs, known.values()), strict=True))
    missing = [host for host in hosts.host if not before.get(host.name) or runs.get(host.name) is False]
    _refuse_strange(fleet, missing)
    failures = fitness.unfit(missing, nodes.ENVIRONMENT)
    fit = [host for host in missing if host.name not in failures]
    remains = [known[host.name] for host in fit if host.name in known]
    with ThreadPoolExecutor(16) as pool:
        left = {node.name: why for node, why in zip(remains, pool.map(nodes.end, remains), strict=True) if why}
    failures |= left
    fit = [host for host in fit if host.name not in left]
    planned = [nodes.planned(host.name, host.address, command_of(host)) for host in fit]
    names = {host.name for host in fit}
    fleet = replace(fleet, hosts=[*(node for node in fleet.hosts if node.name not in names), *planned])
    cluster.save(fleet)
    started = _started(fleet, fit, planned, before, failures)
    if failures:
        raise BrickyardError("; ".join(failures.values()))
    return Started(fleet, started)


def _started(
    fleet: Cluster,
    hosts: Sequence[HostEntry],
    planned: Sequence[Node],
    before: Mapping[str, set[str]],
    failures: dict[str, str],
) -> list[str]:
    """Starts nodes of a fleet that is up; what fails is ended, and its cause goes to `failures`."""
    found = nodes.start_all(hosts, planned, fleet.address, _secret_kept())
    failures |= {name: str(error) for name, error in found.items()}
    waiting = [node for node in planned if node.name not in found]
    try:
        nodes.await_members(fleet, waiting, before)
    except BrickyardError as error:
        joined = cluster.nodes_of(cluster.enter(fleet))
        late = [node for node in waiting if not joined.get(node.name)]
        failures |= {node.name: str(error) for node in (late or waiting)[:1]}  # it names all of them
        waiting = [node for node in waiting if node not in late]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(nodes.end, (node for node in planned if node not in waiting)))
    return [node.name for node in waiting]


def _refuse_strange(fleet: Cluster, hosts: Sequence[HostEntry]) -> None:
    """The certificate names the addresses that the fleet began with, and no other is believed."""
    if not cluster.certificate_file().is_file():
        return
    known = {node.address for node in fleet.nodes}
    if strange := [host for host in hosts if host.address not in known]:
        named = ", ".join(f"{host.name} ({host.address})" for host in strange)
        raise BadInputError(
            f"{named}: the certificate of the fleet that is up does not have this address; end the fleet with"
            " `brickyard fleet down` and start it with all of its hosts"
        )


def _secret_kept() -> nodes.Secret:
    place = cluster.certificate_file()
    return nodes.Secret(
        cluster.token_file().read_text("utf-8").strip(), place.read_text("utf-8") if place.is_file() else ""
    )


def _keep_secret(secret: nodes.Secret) -> None:
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


@dataclass(frozen=True)
class Stopped:
    """The fleet that was ended, the names of the hosts that were, and why others were not."""

    fleet: Cluster
    names: list[str]
    failures: list[str]


def down(*, forget: bool = False) -> Stopped:
    """Ends what `up` started; what could not be reached stays known unless it is to be forgotten."""
    stopped = _end_all(cluster.load())
    if stopped.failures and forget:
        cluster.forget()
    return stopped


def _end_all(fleet: Cluster) -> Stopped:
    """Ends all nodes. Those that cannot be ended stay known; without any, the fleet is forgotten."""
    with ThreadPoolExecutor(16) as pool:
        said = list(zip(fleet.nodes, pool.map(nodes.end, fleet.nodes), strict=True))
    left = [node for node, failure in said if failure]
    if left:
        hosts = [node for node in left if node is not fleet.head]
        cluster.save(replace(fleet, hosts=hosts, head=fleet.head if fleet.head in left else None))
    else:
        cluster.forget()
    names = [node.name for node, failure in said if not failure and node is not fleet.head]
    return Stopped(fleet, names, [f"{node.name}: {failure}" for node, failure in said if failure])
