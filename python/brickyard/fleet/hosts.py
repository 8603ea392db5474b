"""Duty: the hosts of a fleet as `hosts.toml` names them. Refusal: nothing is reached."""

from __future__ import annotations

import ipaddress
import re
import socket
import tomllib
from pathlib import Path

import msgspec

from brickyard.errors import BadInputError, one_line

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:%-]*")
MOST_PORT = 65_535
SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
REPLACED = ("127.0.0.1", "::1", "localhost")  # Ray puts the host's own address in place of these
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


class HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[host]]`."""

    name: str
    address: str
    """At which the other hosts reach it."""
    reach: list[str] = []
    """The command that runs another there: `sh -s` is put after it; ssh with the address unless set."""
    python: str = ""
    """A Python that has Ray; an environment is made on the host unless set."""


class HeadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[head]`: where Ray's head runs, on this host."""

    address: str
    port: int = 6399
    reach: list[str] = []


class HostsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    head: HeadEntry
    host: list[HostEntry]


def read_hosts(path: Path) -> HostsFile:
    try:
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), HostsFile)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise BadInputError(f"{path}: {one_line(error)}; docs/fleet.md shows such a file") from error
    names = [host.name for host in found.host]
    if not names or len(set(names)) != len(names):
        raise BadInputError(f"{path}: name each host once, at least one")
    for name in names:
        if not NAME.fullmatch(name) or name in ("all", "sim"):
            raise BadInputError(f"{path}: {name!r} is no name for a host; letters, digits, '.', '_' and '-'")
    if not 0 < found.head.port <= MOST_PORT:
        raise BadInputError(f"{path}: [head]: port {found.head.port} is not between 1 and {MOST_PORT}")
    _refuse_shells(path, found)
    by_address: dict[str, str] = {}
    for name, address in [("[head]", found.head.address), *((host.name, host.address) for host in found.host)]:
        if not ADDRESS.fullmatch(address):
            raise BadInputError(f"{path}: {name}: {address!r} is no address; an IP address or the name of a host")
        if name != "[head]" and (other := by_address.setdefault(address, name)) != name:
            raise BadInputError(f"{path}: {other} and {name} have one address, {address}; each host needs its own")
    return found


def _refuse_shells(path: Path, found: HostsFile) -> None:
    for name, reach in [("[head]", found.head.reach), *((host.name, host.reach) for host in found.host)]:
        if reach and Path(reach[-1]).name in SHELLS:
            raise BadInputError(
                f"{path}: {name}: reach ends with {reach[-1]}, and `sh -s` is put after it; leave the shell out; for"
                ' this host itself, write reach = ["env"]'
            )


def refuse_near(hosts: HostsFile) -> None:
    """Addresses by which a host is reached from itself alone, where there are others; a name may stand for one."""
    found = {"[head]": hosts.head.address, **{host.name: host.address for host in hosts.host}}
    resolved = {name: _resolved(address) for name, address in found.items()}
    near = {name for name, address in resolved.items() if _is_near(address)}
    if not near or len(near) == len(found):
        return
    name = min(near, key=lambda name: (name != "[head]", name))
    said = found[name] if found[name] == resolved[name] else f"{found[name]}, which is {resolved[name]} here,"
    others = ", ".join(other for other in found if other not in near)
    raise BadInputError(
        f"{name}: {said} is reached from its own host alone; name the address by which the others reach it ({others})"
    )


def refuse_replaced(hosts: HostsFile) -> None:
    """Addresses that do not work with TLS: nodes would connect to an address that the certificate does not have."""
    found = {"[head]": hosts.head.address, **{host.name: host.address for host in hosts.host}}
    if named := {name: address for name, address in found.items() if address in REPLACED}:
        raise BadInputError(
            f"{' and '.join(named)}: {next(iter(named.values()))} does not work with TLS: Ray uses the host's own"
            " address in its place, which the certificate does not have; name another address of the host, or add"
            " --no-tls"
        )


def _resolved(address: str) -> str:
    """The address that a name stands for here; the name itself where nobody knows it."""
    try:
        return str(socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return address


def _is_near(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return ip.is_loopback or ip.is_unspecified


def command_of(host: HostEntry) -> list[str]:
    """What runs `sh -s` on the host."""
    return [*(host.reach or [*SSH, host.address]), "sh", "-s"]
