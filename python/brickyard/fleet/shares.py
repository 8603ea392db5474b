"""Duty: which host does what of a load: the plan of the whole run, and the plan that each host gets of it.

In the whole plan each stream stands once for each of its hosts, on that host's targets, so that a run on many hosts is
read like one on many targets. Shares are arithmetic: rates, workers and regions are divided, nothing is negotiated.

Refusal: it starts nothing, and knows no host but its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from brickyard.bricks import is_modelled
from brickyard.errors import BadInputError, one_line
from brickyard.schema import Knob, LoadShare, plan_text, read_plan, target_count
from brickyard.schema.plan import OpenPace, Phase, Plan, Ramp, Stream
from brickyard.units import format_counted

END = re.compile(r"(?P<number>[0-9.]+)(?P<unit>%|[A-Za-z]*)")


class HostPart(msgspec.Struct, frozen=True):
    """What one host does. Numbers of its own phases, streams and targets lead to those of the whole run."""

    host: str
    targets: list[str]
    overwrite: list[str]
    phases: list[int]
    streams: list[list[int]]
    whole_targets: list[int]
    names: list[list[str]] = []
    """Of its streams, by its own phases, as the whole run calls them."""

    def named(self, message: str) -> str:
        """What its worker says of its own targets, as a user of many hosts has to write it."""
        for target in self.targets:
            message = message.replace(f"--overwrite {target}", f"--overwrite {self.host}:{target}")
        return message


@dataclass(frozen=True)
class Division:
    """A load over hosts."""

    plan: Plan
    targets: list[str]
    parts: list[HostPart]
    plans: list[Plan]
    """Of each part."""
    has_named_hosts: bool = False
    """Hosts have different streams, so that they may share a target."""


def divide(
    name: str, plan: Plan, hosts: Sequence[str], targets: Sequence[str], share: LoadShare, overwrite: Sequence[str] = ()
) -> Division:
    """The load over its hosts; raises BadInputError where its arithmetic has no answer."""
    _check(name, plan)
    _refuse_divided_traces(plan, hosts, share)
    places = {host: targets_of(host, hosts, targets) for host in hosts}
    _refuse_relative(places)
    allowed = {host: _overwrite_of(host, hosts, overwrite) for host in hosts}
    wanted = target_count(plan)
    for host, own in places.items():
        if len(own) != wanted:
            has, named = format_counted(wanted, "targets"), ", ".join(own) or "none"
            raise BadInputError(f"{host}: the workload has {has} on each host, {named} named; write HOST:PATH")
    first = {host: sum(len(places[before]) for before in hosts[:number]) for number, host in enumerate(hosts)}
    whole: list[Phase] = []
    own_phases: dict[str, list[Phase]] = {host: [] for host in hosts}
    made: dict[str, list[list[int]]] = {host: [] for host in hosts}
    names: dict[str, list[list[str]]] = {host: [] for host in hosts}
    phases: dict[str, list[int]] = {host: [] for host in hosts}
    for number, asked in enumerate(plan.phase):
        phase = replace(asked, ramp=_ramp_of(asked, hosts, share)) if asked.ramp else asked
        streams: list[Stream] = []
        mine: dict[str, list[Stream]] = {host: [] for host in hosts}
        numbers: dict[str, list[int]] = {host: [] for host in hosts}
        for stream_number, stream in enumerate(phase.stream):
            on = _hosts_of(stream, hosts)
            for position, host in enumerate(on):
                named = f"{stream.name or f'stream {stream_number + 1}'} on {host}"
                one = replace(_shared(stream, share, position, len(on)), name=named, hosts=[])
                mine[host].append(one)
                numbers[host].append(len(streams))
                streams.append(replace(one, target=first[host] + one.target))
        whole.append(replace(phase, stream=streams))
        for host in hosts:
            if mine[host]:
                own_phases[host].append(replace(phase, stream=mine[host]))
                made[host].append(numbers[host])
                names[host].append([stream.name for stream in mine[host]])
                phases[host].append(number)
    parts, plans = [], []
    for host in hosts:
        if not phases[host]:
            raise BadInputError(f"{host}: no stream of {name} is for this host; leave it out of --hosts")
        mine_alone = replace(plan, each=False, phase=own_phases[host], seed=seed_of(plan.seed, host))
        plans.append(_read(mine_alone, f"{name} on {host}"))
        numbered = [first[host] + number for number in range(wanted)]
        parts.append(
            HostPart(
                host,
                places[host],
                allowed[host],
                phases[host],
                made[host],
                numbered,
                names[host],
            )
        )
    targets_of_all = [f"{host}:{path}" for host in hosts for path in places[host]]
    has_named = any(stream.hosts for phase in plan.phase for stream in phase.stream)
    return Division(_read(replace(plan, each=False, phase=whole), name), targets_of_all, parts, plans, has_named)


def _refuse_relative(places: Mapping[str, Sequence[str]]) -> None:
    for host, own in places.items():
        for target in own:
            if not target.startswith("/") and not is_modelled(target):
                raise BadInputError(f"{host}:{target}: with --hosts write the whole path, which begins with /")


def seed_of(seed: int, host: str) -> int:
    """Hosts with one seed would ask for the same addresses, which a shared cache knows by then."""
    return int.from_bytes(hashlib.sha256(f"{seed} {host}".encode()).digest()[:7], "big")


def _read(plan: Plan, name: str) -> Plan:
    """As the core has it, by its own rules, such as how many workers a plan may have."""
    try:
        return read_plan(plan_text(plan))
    except ValueError as error:
        raise BadInputError(f"{name}: {one_line(error)}") from error


def _refuse_divided_traces(plan: Plan, hosts: Sequence[str], share: LoadShare) -> None:
    for stream in (stream for phase in plan.phase for stream in phase.stream):
        if stream.trace and share != "copies" and len(stream.hosts or hosts) > 1:
            raise BadInputError(
                f"stream {stream.name}: a trace is not divided; with --share copies each host issues all of it"
            )


def _check(name: str, plan: Plan) -> None:
    """What hosts would each decide for themselves, and then end apart; and what needs more than its target."""
    for stream in (stream for phase in plan.phase for stream in phase.stream):
        if stream.program:
            raise BadInputError(f"{name}: programs over files and servers run on one host; leave --hosts out")
    for phase in plan.phase:
        for key, found in (
            ("requests", phase.requests),
            ("bytes", phase.bytes),
            ("passes", phase.passes),
            ("stop", phase.stop),
            ("steady.stop", phase.steady and phase.steady.stop),
            ("ramp.limit", phase.ramp and phase.ramp.limit),
            ("lockstep", phase.lockstep),
        ):
            if found:
                raise BadInputError(
                    f"{name}: {key} would end or pace each host separately; with --hosts, use only `duration`"
                )
        if phase.duration is None and not all(stream.trace for stream in phase.stream):
            raise BadInputError(f"{name}: with --hosts every phase needs a duration, such as --set duration=60s")


def _hosts_of(stream: Stream, hosts: Sequence[str]) -> list[str]:
    """The hosts of a stream, by name or by number."""
    found = []
    for word in stream.hosts or hosts:
        number = int(word) if word.isdigit() and word not in hosts else None
        if number is not None and number >= len(hosts):
            raise BadInputError(f"stream {stream.name}: is for host {number}, counted from 0; name more --hosts")
        if number is None and word not in hosts:
            raise BadInputError(f"stream {stream.name}: is for host {word}; name it with --hosts")
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


def _shared(stream: Stream, share: LoadShare, position: int, count: int) -> Stream:
    """One host's part of a stream."""
    if share == "copies" or count == 1:
        return stream
    if isinstance(stream.pace, OpenPace):
        one = replace(stream, pace=replace(stream.pace, rate=stream.pace.rate / count))
    elif stream.frames or stream.workers >= count:
        one = replace(stream, workers=_divided(stream, stream.workers, position, count))
    else:
        one = replace(stream, depth=_divided(stream, stream.depth, position, count))
    if share == "partition":
        return replace(one, region=_part_of_region(one.region, position, count))
    return one


def _ramp_of(phase: Phase, hosts: Sequence[str], share: LoadShare) -> Ramp | None:
    """One host's part of a ramp, which turns its knob for every stream alike; a per cent of a rate is divided with the
    rate."""
    ramp = phase.ramp
    counts = {len(_hosts_of(stream, hosts)) for stream in phase.stream}
    if ramp is None or share == "copies" or counts == {1} or ramp.knob is Knob.LOAD:
        return ramp
    words = f"phase {phase.name or 'without a name'}: a ramp of {ramp.knob.value}"
    if len(counts) > 1:
        raise BadInputError(f"{words} cannot be divided, since its streams are on different numbers of hosts")
    (count,) = counts
    if ramp.knob is Knob.DEPTH and all(stream.workers >= count for stream in phase.stream):
        return ramp  # of each worker, and the workers are divided
    if ramp.knob is not Knob.RATE:
        raise BadInputError(f"{words} cannot be divided over {count} hosts; ramp the rate, or use --share copies")
    step = ramp.step / count if ramp.step is not None else None
    return replace(ramp, from_=ramp.from_ / count, to=ramp.to / count, step=step)


def _divided(stream: Stream, whole: int, position: int, count: int) -> int:
    if whole < count:
        raise BadInputError(
            f"stream {stream.name}: {stream.workers} workers × depth {stream.depth} cannot be divided over"
            f" {count} hosts; raise workers or depth, or use --share copies"
        )
    return whole // count + (1 if position < whole % count else 0)


def _part_of_region(region: str, position: int, count: int) -> str:
    """One of `count` equal parts of a region, both ends of which are shares or both sizes."""
    low, _, high = region.partition("..")
    ends = [END.fullmatch(low or "0"), END.fullmatch(high or "100%")]
    if ends[0] is None or ends[1] is None:
        raise BadInputError(f"region {region} cannot be divided over hosts; write both ends in %")
    units = {end.group("unit") for end in ends if end is not None and float(end.group("number")) > 0}
    if len(units) != 1:
        raise BadInputError(f"region {region} cannot be divided over hosts; write both ends in % or both in one unit")
    unit = units.pop()
    start, end = float(ends[0].group("number")), float(ends[1].group("number"))
    cut = [start + (end - start) * number / count for number in (position, position + 1)]
    return "..".join(f"{edge:.9g}{unit}" for edge in cut)


def shared_places(told: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[tuple[str, str, str]]:
    """Of hosts with their targets and the identities of these: each target that is what another is, or is within it, or
    has it within itself. The two hosts, and the words for it."""
    found: list[tuple[str, str, str]] = []
    seen: list[tuple[str, str, tuple[str, ...]]] = []
    for host, targets, identities in told:
        for target, identity in zip(targets, identities, strict=True):
            words = tuple(identity.split())
            place = f"{host}:{target}"
            for other, first, its in seen if words else []:
                if words == its:
                    found.append((other, host, f"{first} and {place} are one and the same"))
                elif host != other and _is_within(words, its):
                    found.append((other, host, f"{place} is a part of {first}"))
                elif host != other and _is_within(its, words):
                    found.append((other, host, f"{first} is a part of {place}"))
                else:
                    continue
                break
            if words:
                seen.append((host, place, words))
    return found


def _is_within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """By the words of `Agent.facts`: those of a partition begin with its disk's, those of a volume name its disks."""
    return part[: len(whole)] == whole or (len(whole) == 1 and whole[0] in part)
