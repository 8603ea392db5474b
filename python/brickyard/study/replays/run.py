"""Duty: a replay as a run: drivers started, circumstances gathered, every event into the store.

Refusal: what a log or mapping means is known to the core alone. No connection string with a password is ever kept.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
from msgspec import structs

from brickyard import _core
from brickyard.analysis.databases.replay_warnings import OUTLIERS_NAMED, outlier_words
from brickyard.databases.connect import refuse_second_at
from brickyard.databases.memory import drop_file_caches, memory_of_server
from brickyard.errors import BadInputError, one_line
from brickyard.schema import SCHEMA, Duration, EngineOfReplay, LinkFacts, RunOptions, encode
from brickyard.schema.logs import LogsExplained, ReplayKnown, logs_explained, replay_known
from brickyard.schema.plan import (
    LogContent,
    OrderKnown,
    OtherKind,
    OtherPhase,
    OtherPlan,
    OtherStream,
    PaceKind,
    ReplayAsked,
    ReplayPace,
)
from brickyard.store import Store
from brickyard.store.record import NO_MARKS, RunMarks
from brickyard.study.replays.content import logs_hash
from brickyard.study.replays.drivers import STDIN, Drivers, Places, ServerReached
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Listener, Runner, RunResult, RunSpec

INTERVAL_NS = 1_000_000_000
MORE_THAN_ONE = 2
NAMES = {
    PaceKind.FIRE_HOSE: "fire hose",
    PaceKind.TIME_SYNCHRONIZED: "time synchronized",
    PaceKind.FIXED: "fixed rate",
    PaceKind.POISSON: "Poisson",
}


class DriverPace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pace as the core reads it; what a kind does not have is left out."""

    kind: PaceKind
    speed: str | None = None
    rate_per_s: float | None = None
    origin_ns: int | None = None
    """The instant of the log at which all drivers begin."""


class DriverOrder(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What one driver is told; it holds passwords."""

    mapping: str
    logs: list[str]
    format: str
    fields: list[str]
    session: str | dict[str, str]
    in_order: bool
    window_s: int
    sort: str
    keep_outliers: bool
    seed: int
    from_: str | None
    until: str | None
    to: list[str]
    pace: DriverPace
    sessions: int
    duration_ns: int | None
    again: bool
    patience_ns: int
    interval_ns: int
    is_looked_at: bool = False
    left_out: dict[str, list[tuple[int, int]]] = msgspec.field(default_factory=dict)
    driver: int = 0
    drivers: int = 1
    share: bool = False


@dataclass(frozen=True)
class ReplaySpec:
    """What is replayed, against what, and how fast. `pace`: fire-hose, time-synchronized, fixed:RATE, poisson:RATE."""

    logs: list[str]
    mapping_text: str
    to: list[str]
    pace: str = "fire-hose"
    speed: str = "1x"
    drivers: int = 1
    sessions: int = 20
    mapping_name: str = ""
    in_order: str | None = None
    format: str = "auto"
    fields: tuple[str, ...] = ()
    window_s: int = 10
    sort: str = "auto"
    """`auto`: where a first look finds lines further out of order than the window; `always`; `never`."""
    keep_outliers: bool = False
    drop_caches: bool = False
    """The page cache of the servers' files is dropped before the run."""
    seed: int = 1
    from_time: str | None = None
    until_time: str | None = None
    duration_ns: int | None = None
    again: bool = False
    patience_ns: int = 30_000_000_000
    databases_named: tuple[str, ...] = ()
    """What records call databases whose address is another each time, so that their runs can be compared."""
    logs_named: tuple[str, ...] = ()
    """The same for logs."""
    hosts: tuple[str, ...] = ()
    """Of each driver, the host of the fleet on which it runs; empty where all run here."""

    def title(self) -> str:
        """The log's name, or how many there are."""
        first = "standard input" if self.logs[0] == STDIN else os.path.basename(self.logs[0])
        return first if len(self.logs) == 1 else f"{first} and {len(self.logs) - 1} more"

    def pace_order(self) -> DriverPace:
        """The pace as the core reads it."""
        kind, _, rate = self.pace.replace("_", "-").partition(":")
        if kind in ("fire-hose", "firehose") and not rate:
            return DriverPace(kind=PaceKind.FIRE_HOSE)
        if kind in ("time-synchronized", "log-timed") and not rate:
            return DriverPace(kind=PaceKind.TIME_SYNCHRONIZED, speed=self.speed)
        if kind in ("fixed", "poisson"):
            try:
                per_s = float(rate)
            except ValueError:
                per_s = 0.0
            if not 0 < per_s < math.inf:  # nor is nan
                raise BadInputError(f"--pace {self.pace}: write {kind}:RATE, with a rate above 0, such as {kind}:500")
            return DriverPace(kind=PaceKind(kind), rate_per_s=per_s)
        raise BadInputError(
            f"--pace {self.pace}: fire-hose, time-synchronized, both, fixed:RATE, poisson:RATE, or a speed such as 4x"
        )

    def order(self) -> DriverOrder:
        """What a single driver is told."""
        session: str | dict[str, str] = "client"
        if self.in_order is not None:
            kind, _, name = self.in_order.partition(":")
            if kind == "cookie" and name:
                session = {"cookie": name}
            elif self.in_order != "client":
                raise BadInputError(f"--in-order {self.in_order}: client, or cookie:NAME")
        return DriverOrder(
            mapping=self.mapping_text,
            logs=self.logs,
            format=self.format,
            fields=list(self.fields),
            session=session,
            in_order=self.in_order is not None,
            window_s=self.window_s,
            sort=self.sort,
            keep_outliers=self.keep_outliers,
            seed=self.seed,
            from_=self.from_time,
            until=self.until_time,
            to=self.to,
            pace=self.pace_order(),
            sessions=self.sessions,
            duration_ns=self.duration_ns,
            again=self.again,
            patience_ns=self.patience_ns,
            interval_ns=INTERVAL_NS,
        )

    def orders(self, known: ReplayKnown | None = None) -> list[DriverOrder]:
        """One order a driver: a log or more each, or each its share of the sessions of all logs.

        `known` is what `check` found: the log's beginning, whether its calls are sorted, which pieces are left out.
        """
        if self.drivers < 1:
            raise BadInputError(f"--drivers {self.drivers}: at least 1")
        if self.drivers > 1 and STDIN in self.logs:
            raise BadInputError("--drivers: standard input can be read by one driver only; give files")
        shares = len(self.logs) < self.drivers
        common = self.order()
        if known is not None:
            common = structs.replace(common, sort="always" if known.sort else "never", left_out=known.look.left_out)
            if common.pace.kind is PaceKind.TIME_SYNCHRONIZED:
                common = structs.replace(common, pace=structs.replace(common.pace, origin_ns=known.first_ns))
        parts = known.rate_parts() if known is not None else []
        return [
            structs.replace(
                common,
                pace=_paced(common.pace, parts[number], self.drivers) if parts else common.pace,
                logs=self.logs if shares else self.logs[number :: self.drivers],
                driver=number,
                drivers=self.drivers,
                share=shares and self.drivers > 1,
            )
            for number in range(self.drivers)
        ]


def _paced(pace: DriverPace, part: float, drivers: int) -> DriverPace:
    """A driver takes an equal part of the rate that it is given. One without calls sends none at whatever rate."""
    if pace.rate_per_s is None or not part:
        return pace
    return structs.replace(pace, rate_per_s=pace.rate_per_s * part * drivers)


def check(spec: ReplaySpec, looked: ReplayKnown | None = None) -> ReplayKnown:
    """Pages, databases (without passwords) and beginning of a replay; what can't be is refused in one line.

    Reads all logs once, but where `looked` is what this gave for a replay of the same logs at another pace.
    """
    if looked is None:
        found, calls = _known(spec, reads_logs=True), []
        found = structs.replace(found, content=log_content(spec, found))
    else:
        found, calls = _known(spec, reads_logs=False), looked.calls_by_driver
        found = structs.replace(
            found,
            first_ns=looked.first_ns,
            formats=looked.formats,
            sort=looked.sort,
            look=looked.look,
            content=looked.content,
        )
    return structs.replace(found, calls_by_driver=calls or driver_calls(spec, found))


def log_content(spec: ReplaySpec, known: ReplayKnown) -> LogContent | None:
    """What the logs hold, as the record says it; not known of what can be read only once."""
    if not all(os.path.isfile(log) for log in spec.logs):
        return None
    order = structs.replace(spec.order(), sort="never", left_out=known.look.left_out)
    told = _explained(order, len(spec.to)).document
    return LogContent(hash=logs_hash(spec.logs), requests=told.requests, first_ns=told.first_ns, last_ns=told.last_ns)


def driver_calls(spec: ReplaySpec, known: ReplayKnown) -> list[int]:
    """How many calls each driver has, where they share a rate; nothing else needs it. Reads the logs of each."""
    if spec.drivers < MORE_THAN_ONE or spec.pace_order().rate_per_s is None:
        return []
    found = []
    for order in spec.orders(known):
        found.append(_explained(structs.replace(order, sort="never"), len(spec.to)).document.calls)
    return found


def _explained(order: DriverOrder, databases: int) -> LogsExplained:
    try:
        told = logs_explained(_core.replay_explain(encode(order), max(databases, 1)))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error
    if told.interrupted:
        raise KeyboardInterrupt
    return told


def refuse(spec: ReplaySpec) -> None:
    """Raises BadInputError where `check` would, but for what only shows when whole logs are read."""
    _known(spec, reads_logs=False)


def _known(spec: ReplaySpec, *, reads_logs: bool) -> ReplayKnown:
    check_logs(spec)
    for dsn in spec.to:
        refuse_second_at(dsn)
    try:
        return replay_known(_core.replay_check(encode(structs.replace(spec.order(), is_looked_at=not reads_logs))))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error


def check_logs(spec: ReplaySpec) -> None:
    """The same log twice would double its load."""
    seen: set[str] = set()
    for log in spec.logs:
        place = log if log == STDIN else os.path.realpath(log)
        if place in seen and log != STDIN:
            raise BadInputError(f"{log}: the same log is named twice, which would double its calls; name it once")
        seen.add(place)


def explain(spec: ReplaySpec) -> str:
    """What the logs would do, and whether reading them was interrupted, as JSON; `logs_explained` reads it."""
    check_logs(spec)
    try:
        return _core.replay_explain(encode(spec.order()), max(len(spec.to), 1))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error


def why_no_call(spec: ReplaySpec) -> str:
    """Why a replay that ended well made no call, and what helps."""
    if STDIN in spec.logs:
        return "standard input held no request that became a call; see --explain, --from and --until"
    told = logs_explained(explain(spec)).document
    name = spec.title()
    if told.calls:
        return f"no call of {name} was due within --duration; make it longer"
    if told.requests:
        return f"{name}: none of its requests became a call; see --explain, and add them to the mapping"
    whole = logs_explained(explain(replace(spec, from_time=None, until_time=None))).document
    if whole.first_ns is None or whole.last_ns is None:
        return f"{name}: no requests in it"
    window = " and ".join(filter(None, (spec.from_time, spec.until_time)))
    where = f"between {window}" if spec.from_time and spec.until_time else f"from {window} on"
    where = where if spec.from_time else f"before {window}"
    span = f"from {_utc(whole.first_ns)} to {_utc(whole.last_ns)}"
    return f"no call of {name} lies {where}; the log runs {span}"


def _utc(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def replay(
    store: Store,
    listener: Listener,
    interrupt: Interrupt,
    spec: ReplaySpec,
    marks: RunMarks = NO_MARKS,
    study: int | None = None,
    known: ReplayKnown | None = None,
    places: Places | None = None,
) -> RunResult:
    """One run: all drivers, one pace, once. `known` is what `check` gave for it, where it has been called."""
    known = known or check(spec)
    for note in look_notes(known):
        listener.note(note)
    sorted_bytes = _log_bytes(spec) if known.sort else 0
    drivers = Drivers(spec.orders(known), listener.note, sorted_bytes=sorted_bytes, places=places)
    try:
        bricks = drivers.ready[0].bricks
        databases = list(spec.databases_named) or known.databases
        start = _start_event(spec, databases, bricks)
        plan = replay_plan(spec, known)
        run_spec = RunSpec(
            profile=f"replay-{spec.pace_order().kind.replace('_', '-')}",
            plan=plan,
            targets=databases,
            options=RunOptions(rate_parts=known.rate_parts()) if known.calls_by_driver else RunOptions(),
            marks=marks,
            places=tuple(place for brick in bricks if (place := _volume_of(brick))),
            start=lambda: _went(drivers, start, plan.phase[0].name),
        )
        if spec.drop_caches:
            drop_server_caches(databases, bricks)
        return Runner(store, listener, interrupt).run(run_spec, (lambda: study) if study is not None else None)
    finally:
        drivers.abandon()
        drivers.close()


def order_known(spec: ReplaySpec, known: ReplayKnown) -> OrderKnown:
    """What is known beforehand of the order in which the calls will be sent.

    `beyond_window`: requests that a first look found further out of order than the window, and that nobody sorts.
    `is_verified`: false where lines come from standard input and the run may end before the last of them.
    """
    unsorted = not known.sort
    return OrderKnown(
        beyond_window=known.look.beyond_window if unsorted else 0,
        is_verified=not (unsorted and STDIN in spec.logs and spec.duration_ns is not None),
    )


def look_notes(known: ReplayKnown) -> list[str]:
    """What a first look at the logs found, and what is done about it."""
    look, notes = known.look, []
    for words in outlier_words(look.outliers[:OUTLIERS_NAMED]):
        notes.append(f"{words}, a stamp far from all others; left out")
    if look.beyond_window:
        back_s = look.disorder_ns / 1e9
        done = "sorted" if known.sort else "not sorted, so their calls come late; sort them with --sort always"
        notes.append(
            f"{look.beyond_window:,} requests are out of order by up to {back_s:,.0f} s, more than --window: {done}"
        )
    calls = known.calls_by_driver
    if idle := [f"driver {number + 1}" for number, own in enumerate(calls) if not own]:
        have = "has no calls" if len(idle) == 1 else "have no calls"
        notes.append(f"{', '.join(idle)} {have}; the others send the whole rate")
    elif calls and max(known.rate_parts()) > min(known.rate_parts()):
        notes.append("the drivers have different numbers of calls; each sends a proportional part of the rate")
    return notes


def _log_bytes(spec: ReplaySpec) -> int:
    return sum(os.stat(log).st_size for log in spec.logs if log != STDIN)


def drop_server_caches(databases: list[str], bricks: list[ServerReached]) -> None:
    """Drops the page cache of the servers' files; a server elsewhere is refused."""
    for name, brick in zip(databases, bricks, strict=True):
        place = _volume_of(brick)
        if place is None:
            raise BadInputError(f"--drop-caches: {name} does not run on this host, and its caches are out of reach")
        drop_file_caches(place)


def _went(drivers: Drivers, start: dict[str, object], phase: str) -> Drivers:
    drivers.go(start, phase)
    return drivers


def replay_plan(spec: ReplaySpec, known: ReplayKnown) -> OtherPlan:
    """What was asked for, in the form of every plan; streams are pages, by brick where there are several."""
    pace = spec.pace_order()
    bricks = len(spec.to)
    streams = [
        OtherStream(name=page if bricks == 1 else f"{page} on brick {brick}", page=page, target=brick)
        for page in known.pages
        for brick in range(bricks)
    ]
    paths = ["standard input" if log == STDIN else os.path.abspath(log) for log in spec.logs]
    asked = ReplayAsked(
        pace=ReplayPace(kind=pace.kind, speed=pace.speed, rate_per_s=pace.rate_per_s),
        logs=list(spec.logs_named) or paths,
        formats=known.formats,
        mapping=spec.mapping_text,
        mapping_name=spec.mapping_name,
        drivers=spec.drivers,
        hosts=list(spec.hosts),
        sessions=spec.sessions,
        in_order=spec.in_order,
        window_s=spec.window_s,
        sorted=known.sort,
        order=order_known(spec, known),
        outliers=known.look.outliers,
        drop_caches=spec.drop_caches,
        from_=spec.from_time,
        until=spec.until_time,
        again=spec.again,
        first_ns=known.first_ns,
        content=known.content,
    )
    lasts = Duration(spec.duration_ns) if spec.duration_ns else None
    return OtherPlan(
        kind=OtherKind.REPLAY,
        title=known.title or f"Replay of {spec.title()}",
        source=known.source,
        seed=spec.seed,
        interval=Duration(INTERVAL_NS),
        replay=asked,
        phase=[OtherPhase(name=NAMES[pace.kind], duration=lasts, stream=streams)],
    )


def _start_event(spec: ReplaySpec, databases: list[str], bricks: list[ServerReached]) -> dict[str, object]:
    """The beginning of the run, but for its instant. It says of a server's memory what no other start does."""
    targets = []
    for shown, brick in zip(databases, bricks, strict=True):
        facts = brick.facts
        targets.append(
            {
                "path": shown,
                "kind": "postgresql",
                "size_bytes": facts.database_bytes or 0 if facts else 0,
                "unreachable": brick.failure,
                "is_local": _volume_of(brick) is not None,
                "link": None if spec.hosts else link_to(facts.server_address if facts else None),
                "memory": memory_of_server(place) if (place := _volume_of(brick)) else None,
                "version": facts.version if facts else None,
                "data_directory": facts.data_directory if facts else None,
                "server_address": facts.server_address if facts else None,
                "settings": facts.settings if facts else None,
            }
        )
    return {
        "event": "start",
        "schema": SCHEMA,
        "start_unix_ns": 0,
        "engine": "postgresql",
        "engine_reason": _engine_reason(spec),
        "io": "",
        "clock": {"source": "CLOCK_MONOTONIC", "read_cost_ns": 0.0},
        "features": [],
        "targets": targets,
        "phases": [],
    }


def _engine_reason(spec: ReplaySpec) -> EngineOfReplay:
    hosts = list(dict.fromkeys(spec.hosts))
    return EngineOfReplay(drivers=spec.drivers, sessions=spec.sessions, hosts=hosts, databases=len(spec.to))


def local_volume(data_directory: str | None, server_address: str | None) -> str | None:
    """Where a server's data lie, when it runs on this host and says so."""
    if not data_directory or (server_address and not _is_own(server_address)):
        return None
    return data_directory if os.path.isdir(data_directory) else None


def _volume_of(brick: ServerReached) -> str | None:
    return local_volume(brick.facts.data_directory, brick.facts.server_address) if brick.facts else None


def _is_own(address: str) -> bool:
    """Only an address of this host can be bound to."""
    with suppress(OSError, ValueError):
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((address, 0))
            return True
    return False


def link_to(address: str | None, net: str = "/sys/class/net", route: str = "/proc/net/route") -> LinkFacts | None:
    """The network device that leads to a server and its speed; None where there is none between."""
    if not address or _is_own(address):
        return None
    name = _device_of(address, route)
    if name is None:
        return None
    with suppress(OSError, ValueError):
        with open(os.path.join(net, name, "speed"), encoding="ascii") as file:
            speed = int(file.read())
        return LinkFacts(device=name, megabit_per_s=speed if speed > 0 else None)
    return LinkFacts(device=name)


def _device_of(address: str, route: str) -> str | None:
    """By the kernel's table: the most special route that fits."""
    with suppress(OSError, ValueError):
        wanted = int.from_bytes(ipaddress.IPv4Address(address).packed, "little")
        with open(route, encoding="ascii") as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
        fits = [row for row in rows if len(row) > 7 and wanted & int(row[7], 16) == int(row[1], 16)]
        if fits:
            return max(fits, key=lambda row: int(row[7], 16).bit_count())[0]
    return None


def with_pace(spec: ReplaySpec, pace: str) -> list[ReplaySpec]:
    """The runs that a pace asks for: `both` is two, a list of rates is one each, `4x` a speed."""
    if pace == "both":
        return [replace(spec, pace="fire-hose"), replace(spec, pace="time-synchronized")]
    if re.fullmatch(r"\s*[\d.]+\s*[x×]\s*|.*\bto\b.*\bover\b.*", pace):
        return [replace(spec, pace="time-synchronized", speed=pace)]
    kind, _, rates = pace.partition(":")
    if kind in ("fixed", "poisson") and "," in rates:
        return [replace(spec, pace=f"{kind}:{rate.strip()}") for rate in rates.split(",")]
    return [replace(spec, pace=pace)]
