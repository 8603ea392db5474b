"""Duty: the drivers of a replay on the hosts of a fleet: their logs are sent there, all begin at one instant, and one
that falls silent is named. What they tell is merged as that of drivers on one host.

Refusal: no log is read for what it means, no figure computed. A password goes to a host only where the fleet speaks
TLS.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import structs

from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.fleet import cluster
from brickyard.fleet.agent import OTHER_CORES
from brickyard.fleet.answers import HostFacts, Taken, answer_of
from brickyard.fleet.clocks import Offset, offset_of, start_bound
from brickyard.fleet.head import (
    AGENT_S,
    LEAD_NS,
    SILENT_S,
    TAKE_S,
    TRIP_S,
    TRIPS,
    WELL_KNOWN_SHARE,
    Lost,
    worker_program,
)
from brickyard.fleet.sending import pieces
from brickyard.schema import (
    Fleet,
    FleetHost,
    HostAsWritten,
    HostDied,
    HostDriverEnded,
    HostEnd,
    HostLost,
    HostReason,
    HostReasons,
    HostSilent,
    LoadShare,
    RunOutcome,
    encode,
    words_of,
)
from brickyard.study.replays.drivers import Driver

if TYPE_CHECKING:
    from brickyard.study.replays.run import DriverOrder

TOLERANCE_NS = 1_000_000
CLOCK_S = 2.0  # of a driver's round trips
RETRY_S = 0.2
PATIENCE_S = 5.0  # longer than a silent host needs to be named
HANDED_ON = ("PGUSER", "PGDATABASE", "PGPASSWORD")
PASSWORD = re.compile(r"://[^/?@]*:[^/?@]+@|\bpassword\s*=")


@dataclass
class DriverPlace:
    """What is known of the host of one driver."""

    host: str
    agent: Any
    facts: HostFacts
    offset: Offset
    clock: tuple[bool, int]
    why: HostReason | None = None


class FarDriver:
    """A driver on a host: a thread here asks for its lines, and gives it up where it is not heard."""

    def __init__(
        self, ray: Any, place: DriverPlace, names: Mapping[str, str], tell: Callable[[str | None], None]
    ) -> None:
        """`names`: what logs are called here, by the paths that they have there."""
        self.host = place.host
        self._ray = ray
        self._place = place
        self._names = names
        self._tell = tell
        self._ends: list[Any] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        since, heard_s = 0, time.monotonic()
        while not self._over.is_set():
            patience_s = heard_s + SILENT_S - time.monotonic()
            if patience_s <= 0:
                self._place.why = HostSilent(silent_ns=round(SILENT_S * 1e9))
                break
            try:
                asked = self._place.agent.take.remote(since, TAKE_S)
                taken = answer_of(self._place.host, self._ray.get(asked, timeout=patience_s), Taken)
            except BrickyardError as error:
                self._place.why = HostAsWritten(text=str(error))
                break
            except self._ray.exceptions.ActorDiedError:
                self._place.why = HostDied()
                break
            except self._ray.exceptions.RayError:  # cut off for a moment, or for longer
                self._over.wait(RETRY_S)
                continue
            since, heard_s = taken.next, time.monotonic()
            for line in taken.lines:
                self._tell(self._named(line))
            if taken.code is not None:
                self._place.why = HostDriverEnded(exit_code=taken.code, said=one_line(taken.errors)[-200:])
                break
        self._tell(None)

    def _named(self, line: str) -> str:
        """Intervals name no log."""
        if line.startswith('{"event":"interval"'):
            return line
        for there, here in self._names.items():
            line = re.sub(re.escape(there) + r"(?!\d)", lambda _, here=here: json.dumps(here)[1:-1], line)  # type: ignore[misc]
        return line

    def send(self, text: str) -> None:
        with suppress(Exception):
            self._place.agent.say.remote(text)

    def why_ended(self) -> HostReason:
        return self._place.why or HostAsWritten(text="")

    def kill(self) -> None:
        with suppress(Exception):
            self._ray.kill(self._place.agent)

    def hang_up(self) -> None:
        """A host that is not heard ends its driver by itself."""
        self._over.set()
        with suppress(Exception):
            self._ends.append(self._place.agent.end.remote())

    def close(self) -> None:
        with suppress(Exception):
            self._ray.get(self._ends, timeout=SILENT_S)
        self.kill()
        self._thread.join(SILENT_S)


class ReplayHosts:
    """The hosts of a replay: one for each driver, in turn."""

    lead_ns = LEAD_NS
    patience_s = PATIENCE_S

    def __init__(
        self, ray: Any, hosts: Sequence[str], to: Sequence[str], say: Callable[[str], None], *, seed: int, lost: Lost
    ) -> None:
        refuse_in_the_clear(to)
        self.hosts = hosts
        self.say = say
        self._ray = ray
        self._seed = seed
        self._when_lost = lost
        self._places: dict[int, DriverPlace] = {}
        self._gone: dict[int, HostReason] = {}
        self._begins_ns = 0
        self._program: Any = None
        self._agents: list[Any] = []

    def begin(self, number: int, order: DriverOrder, tell: Callable[[str | None], None]) -> Driver:
        if number == 0:  # all at once, since each takes a second or more to start
            self._places, self._gone = {}, {}
            self._program = self._ray.put(worker_program())
            self._agents = [cluster.agent_on(self._ray, host) for host in self.hosts]
        host, agent = self.hosts[number], self._agents[number]
        try:
            self._answer(host, agent.place.remote(self._program))
            facts = answer_of(host, self._answer(host, agent.facts.remote([])), HostFacts)
            there = {log: self._sent(host, agent, at, log) for at, log in enumerate(order.logs)}
            left_out = {there[log]: pieces for log, pieces in order.left_out.items() if log in there}
            words = encode(structs.replace(order, logs=list(there.values()), left_out=left_out))
            variables = {name: value for name in HANDED_ON if (value := os.environ.get(name))}
            variables.setdefault("PGUSER", os.environ.get("USER", "postgres"))
            clock = self._answer(host, agent.clock.remote())
            self._answer(host, agent.drive.remote(words, variables))
        except BaseException:
            for waiting in self._agents[number:]:
                with suppress(Exception):
                    self._ray.kill(waiting)
            raise
        self._places[number] = DriverPlace(host, agent, facts, Offset(0, 0, 0), clock)
        return FarDriver(self._ray, self._places[number], {path: log for log, path in there.items()}, tell)

    def _answer(self, host: str, asked: Any) -> Any:
        try:
            return self._ray.get(asked, timeout=AGENT_S)
        except self._ray.exceptions.GetTimeoutError as error:
            raise BrickyardError(f"{host}: does not answer; see `brickyard fleet status`") from error
        except self._ray.exceptions.RayTaskError as error:
            raise BrickyardError(f"{host}: {one_line(error.cause)[:300]}") from error
        except self._ray.exceptions.RayError as error:
            raise BrickyardError(f"{host}: no driver can be started: {one_line(error)[:300]}") from error

    def _sent(self, host: str, agent: Any, number: int, log: str) -> str:
        """The path by which the host opens a log that lies here; it is sent piece by piece, as it is packed."""
        path = ""
        for piece in pieces(log):
            path = str(self._answer(host, agent.keep_log.remote(number, piece)))
        return path

    def instants(self, drivers: Sequence[Driver]) -> list[int]:
        """The common start by each host's own monotonic clock, which nobody sets."""
        known: dict[str, Offset] = {}
        for place in self._places.values():  # drivers on one host have one clock
            known[place.host] = known.get(place.host) or self._compared(place)
            place.offset = known[place.host]
        self._begins_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + self.lead_ns
        return [self._begins_ns + self._places[number].offset.offset_ns for number in range(len(drivers))]

    def _compared(self, place: DriverPlace) -> Offset:
        trips: list[tuple[int, int, int]] = []
        until_s = time.monotonic() + CLOCK_S
        while not trips or time.monotonic() < until_s:
            sent_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            try:
                reading_ns = int(self._ray.get(place.agent.monotonic.remote(), timeout=TRIP_S))
            except self._ray.exceptions.RayError as error:
                raise BrickyardError(f"{place.host}: did not answer when clocks were compared") from error
            trips.append((sent_ns, reading_ns, time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
            found = offset_of(trips)
            if len(trips) >= TRIPS and found.bound_ns <= WELL_KNOWN_SHARE * TOLERANCE_NS:
                break
        return offset_of(trips)

    def started(self) -> list[str]:
        """The hosts, and how closely they begin together."""
        by_host = {place.host: place for place in self._places.values()}
        bound_ns = start_bound([place.offset for place in by_host.values()])
        if bound_ns > TOLERANCE_NS:
            self.say(f"the start may be apart by {bound_ns / 1e6:.2f} ms, {TOLERANCE_NS / 1e6:g} ms allowed")
        hosts = [
            FleetHost(
                host=place.host,
                targets=[],
                seed=self._seed,
                offset_ns=place.offset.offset_ns,
                bound_ns=place.offset.bound_ns,
                round_trip_ns=place.offset.round_trip_ns,
                synchronized=place.clock[0],
                max_error_ns=place.clock[1],
                core_free=place.facts.cpus >= OTHER_CORES,
                facts=place.facts.facts,
            )
            for place in by_host.values()
        ]
        told = Fleet(
            share=LoadShare.SPLIT,
            bound_ns=bound_ns,
            tolerance_ns=TOLERANCE_NS,
            within_tolerance=bound_ns <= TOLERANCE_NS,
            hosts=hosts,
        )
        return [encode(told)]

    def lost(self, number: int, why: HostReason) -> list[str] | None:
        host = self._places[number].host
        self._gone[number] = why
        share = f"driver {number + 1}"
        self.say(f"{host}: lost: {words_of(why)}; its share is missing: {share}")
        if self._when_lost == "end":
            self.say(f"ending the run without {host}")
            return None
        at_ns = max(0, time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self._begins_ns)
        return [encode(HostLost(host=host, at_ns=at_ns, reason=why, streams=[share]))]

    def ended(self, outcomes: Mapping[int, RunOutcome]) -> list[str]:
        found = []
        for host in dict.fromkeys(place.host for place in self._places.values()):
            own = [number for number, place in self._places.items() if place.host == host]
            said = [outcomes.get(number, RunOutcome.FAILED) for number in own]
            bad = (word for word in (RunOutcome.FAILED, RunOutcome.INTERRUPTED) if word in said)
            gone = [self._gone[number] for number in own if number in self._gone]
            message = HostReasons(reasons=gone) if len(gone) > 1 else next(iter(gone), None)
            found.append(encode(HostEnd(host=host, outcome=next(bad, RunOutcome.DONE), message=message, kept="")))
        return found


def refuse_in_the_clear(to: Sequence[str]) -> None:
    """A password is sent to hosts only where nobody on the way can read it."""
    has_one = bool(os.environ.get("PGPASSWORD")) or any(PASSWORD.search(dsn) for dsn in to)
    if has_one and not cluster.certificate_file().is_file():
        raise BadInputError(
            "--hosts: this fleet does not use TLS, so the database's password would cross the network unencrypted; "
            "put it into ~/.pgpass of each host, or start the fleet with TLS"
        )


def refuse_near(databases: Sequence[str]) -> None:
    """A socket or an address of this host alone, as they are shown, would be another host's own."""
    for number, shown in enumerate(databases, 1):
        host = urlsplit(shown).hostname or ""
        if host in ("", "localhost") or host.startswith("/") or _is_loopback(host):
            raise BadInputError(
                f"--to, database {number}: {shown} is an address that only this host reaches; with --hosts, give an "
                f"address that all hosts reach"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
