"""Duty: which host does what of a load: the plan of the whole run, and the plan that each host gets of it.

In the whole plan each stream stands once for each of its hosts, on that host's targets, so that a run on many hosts is
read like one on many targets. Shares are arithmetic: rates, workers and regions are divided, nothing is negotiated.

Refusal: it starts nothing, and knows no host but its name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from brickyard.bricks import is_modelled
from brickyard.errors import BadInputError, one_line
from brickyard.schema import plan_document, plan_text, read_plan
from brickyard.schema.plan import Plan
from brickyard.store import Json
from brickyard.study.cells import Share

END = re.compile(r"(?P<number>[0-9.]+)(?P<unit>%|[A-Za-z]*)")


@dataclass(frozen=True)
class HostPart:
    """What one host does. Numbers of its own phases, streams and targets lead to those of the whole run."""

    host: str
    plan: Json
    targets: list[str]
    overwrite: list[str]
    phases: list[int]
    streams: list[list[int]]
    whole_targets: list[int]
    names: list[list[str]] = field(default_factory=list)
    """Of its streams, by its own phases, as the whole run calls them."""

    def document(self) -> Json:
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "plan"}


def part_of(document: Json) -> HostPart:
    return HostPart(**document, plan={})


@dataclass(frozen=True)
class Division:
    """A load over hosts."""

    plan: Plan
    targets: list[str]
    parts: list[HostPart]
    has_named_hosts: bool = False
    """Hosts have different streams, so that they may share a target."""


def divide(
    name: str, plan: Plan, hosts: Sequence[str], targets: Sequence[str], share: Share, overwrite: Sequence[str] = ()
) -> Division:
    """The load over its hosts; raises BadInputError where its arithmetic has no answer."""
    document = plan_document(plan)
    _check(name, document)
    places = {host: targets_of(host, hosts, targets) for host in hosts}
    allowed = {host: _overwrite_of(host, hosts, overwrite) for host in hosts}
    wanted = 1 + max(stream.get("target", 0) for phase in document["phase"] for stream in phase["stream"])
    for host, own in places.items():
        if len(own) != wanted:
            named = ", ".join(own) or "none"
            raise BadInputError(
                f"{host}: the workload has {wanted} targets on each host, {named} named; write HOST:PATH"
            )
    first = {host: sum(len(places[before]) for before in hosts[:number]) for number, host in enumerate(hosts)}
    whole = {**deepcopy(document), "each": False}
    own_plans = {host: {**deepcopy(document), "each": False, "phase": []} for host in hosts}
    made: dict[str, list[list[int]]] = {host: [] for host in hosts}
    names: dict[str, list[list[str]]] = {host: [] for host in hosts}
    phases: dict[str, list[int]] = {host: [] for host in hosts}
    for number, phase in enumerate(document["phase"]):
        streams: list[Json] = []
        mine: dict[str, list[Json]] = {host: [] for host in hosts}
        numbers: dict[str, list[int]] = {host: [] for host in hosts}
        for stream_number, stream in enumerate(phase["stream"]):
            on = _hosts_of(stream, hosts)
            for position, host in enumerate(on):
                one = _shared(stream, share, position, len(on))
                one["name"] = f"{stream.get('name') or f'stream {stream_number + 1}'} on {host}"
                one.pop("hosts", None)
                mine[host].append(one)
                numbers[host].append(len(streams))
                streams.append({**one, "target": first[host] + one.get("target", 0)})
        whole["phase"][number]["stream"] = streams
        for host in hosts:
            if mine[host]:
                own_plans[host]["phase"].append({**phase, "stream": mine[host]})
                made[host].append(numbers[host])
                names[host].append([stream["name"] for stream in mine[host]])
                phases[host].append(number)
    parts = []
    for host in hosts:
        if not phases[host]:
            raise BadInputError(f"{host}: no stream of {name} is for this host; leave it out of --hosts")
        own_plans[host]["seed"] = seed_of(document["seed"], host)
        numbered = [first[host] + number for number in range(wanted)]
        parts.append(
            HostPart(
                host,
                plan_document(_plan(own_plans[host], f"{name} on {host}")),
                places[host],
                allowed[host],
                phases[host],
                made[host],
                numbered,
                names[host],
            )
        )
    targets_of_all = [f"{host}:{path}" for host in hosts for path in places[host]]
    has_named = any(stream.get("hosts") for phase in document["phase"] for stream in phase["stream"])
    return Division(_plan(whole, name), targets_of_all, parts, has_named)


def seed_of(seed: int, host: str) -> int:
    """Hosts with one seed would ask for the same addresses, which a shared cache knows by then."""
    return int.from_bytes(hashlib.sha256(f"{seed} {host}".encode()).digest()[:7], "big")


def _plan(document: Json, name: str) -> Plan:
    try:
        plan = read_plan(json.dumps(document))
        plan_text(plan)  # the core's own rules, such as how many workers a plan may have
    except ValueError as error:
        raise BadInputError(f"{name}: {one_line(error)}") from error
    return plan


def _check(name: str, document: Json) -> None:
    """What hosts would each decide for themselves, and then end apart."""
    for phase in document["phase"]:
        ramp = phase.get("ramp") or {}
        steady = phase.get("steady") or {}
        for key, found in (
            ("requests", phase.get("requests")),
            ("bytes", phase.get("bytes")),
            ("passes", phase.get("passes")),
            ("stop", phase.get("stop")),
            ("steady.stop", steady.get("stop")),
            ("ramp.limit", ramp.get("limit")),
            ("lockstep", phase.get("lockstep")),
        ):
            if found:
                raise BadInputError(
                    f"{name}: {key} would end or pace each host apart; with --hosts only `duration` does"
                )
        if phase.get("duration") is None:
            raise BadInputError(f"{name}: with --hosts every phase needs a duration, such as --set duration=60s")
        if any(stream.get("program") for stream in phase["stream"]):
            raise BadInputError(f"{name}: programs over files and servers run on one host; leave --hosts out")


def _hosts_of(stream: Json, hosts: Sequence[str]) -> list[str]:
    """The hosts of a stream, by name or by number."""
    found = []
    for word in stream.get("hosts") or hosts:
        number = int(word) if word.isdigit() and word not in hosts else None
        if number is not None and number >= len(hosts):
            raise BadInputError(f"stream {stream.get('name')}: is for host {number}, counted from 0; name more --hosts")
        if number is None and word not in hosts:
            raise BadInputError(f"stream {stream.get('name')}: is for host {word}; name it with --hosts")
        found.append(word if number is None else hosts[number])
    return found


def targets_of(host: str, hosts: Sequence[str], targets: Sequence[str]) -> list[str]:
    """`HOST:PATH` is one host's; what names no host is every host's that has none of its own."""
    own, common = split_targets(host, hosts, targets)
    return own or common


def split_targets(host: str, hosts: Sequence[str], targets: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is named for one host, and what is named for all; raises BadInputError for a host that is not there."""
    own, common = [], []
    for text in targets:
        name, colon, path = text.partition(":")
        if is_modelled(text) or not colon or "/" in name:
            common.append(text)
        elif name not in hosts:
            raise BadInputError(f"{text}: {name} is not among the hosts {', '.join(hosts)}; a path with a colon is /…")
        elif name == host:
            own.append(path)
    return own, common


def _overwrite_of(host: str, hosts: Sequence[str], named: Sequence[str]) -> list[str]:
    for text in named:
        if text.partition(":")[0] not in hosts or not text.partition(":")[2]:
            raise BadInputError(f"--overwrite {text}: with --hosts name host and device, such as {hosts[0]}:/dev/sdb")
    return [text.partition(":")[2] for text in named if text.partition(":")[0] == host]


def _shared(stream: Json, share: Share, position: int, count: int) -> Json:
    """One host's part of a stream."""
    one = deepcopy(stream)
    if share == "copies" or count == 1:
        return one
    pace = one.get("pace")
    if isinstance(pace, dict) and pace.get("loop") == "open":
        pace["rate"] = pace["rate"] / count
    elif one.get("frames") or one["workers"] >= count:
        one["workers"] = _divided(one, "workers", position, count)
    else:
        one["depth"] = _divided(one, "depth", position, count)
    if share == "partition":
        one["region"] = _part_of_region(str(one.get("region") or "0..100%"), position, count)
    return one


def _divided(stream: Json, key: str, position: int, count: int) -> int:
    whole = int(stream[key])
    if whole < count:
        raise BadInputError(
            f"stream {stream.get('name')}: {stream['workers']} workers × depth {stream['depth']} cannot be divided over"
            f" {count} hosts; raise workers or depth, or use --share copies"
        )
    return whole // count + (1 if position < whole % count else 0)


def _part_of_region(region: str, position: int, count: int) -> str:
    """One of `count` equal parts of a region, both ends of which are shares or both sizes."""
    low, _, high = region.partition("..")
    ends = [END.fullmatch(low or "0"), END.fullmatch(high or "100%")]
    if ends[0] is None or ends[1] is None:
        raise BadInputError(f"region {region} cannot be divided over hosts; write both ends in %")
    units = {end["unit"] for end in ends if end is not None and float(end["number"]) > 0}
    if len(units) != 1:
        raise BadInputError(f"region {region} cannot be divided over hosts; write both ends in % or both in one unit")
    unit = units.pop()
    start, end = float(ends[0]["number"]), float(ends[1]["number"])
    cut = [start + (end - start) * number / count for number in (position, position + 1)]
    return "..".join(f"{edge:.9g}{unit}" for edge in cut)
