"""Duty: what a run of pgbench is to do: its keys with their defaults, its plan, the room that its database takes.

Refusal: no server is touched here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from brickyard import _core
from brickyard.analysis.databases.pgbench import SCALE_BYTES
from brickyard.databases.connect import is_dsn
from brickyard.databases.pgbench_script import read_script
from brickyard.databases.settings import refuse_outside
from brickyard.errors import BadInputError, nearest, one_line
from brickyard.reading import parsed_bytes
from brickyard.schema.changes import PGBENCH, PRESETS, SETTING, usual_threads
from brickyard.schema.duration import Duration
from brickyard.schema.plan import ClosedPace, OtherKind, OtherPhase, OtherPlan, OtherStream, PgbenchAsked
from brickyard.units import format_size, postgresql_bytes

KIND = "pgbench"
INTERVAL_NS = 1_000_000_000
SERVER_BYTES = 64 << 20  # what initdb makes, and the first file of the log
UNSEEN_SCALE = 10
"""150 MB and the log: the most that is loaded into a server whose volume nobody has looked at."""
WAL_BYTES = 1 << 30  # PostgreSQL's default of max_wal_size
BUILT_IN = ("tpcb-like", "simple-update", "select-only")
PROTOCOLS = ("prepared", "extended", "simple")
MOST = {"scale": 20_000, "clients": 1_000, "threads": 1_000, "transactions": 1_000_000_000}


@dataclass(frozen=True)
class PgbenchSpec:
    """One run. `server`: wheel, the `bin` directory of another PostgreSQL, or a running one by its DSN."""

    target: str
    scale: int = PGBENCH.scale
    clients: int = PGBENCH.clients
    threads: int = PGBENCH.threads
    """0: the usual ones."""
    transactions: int = PGBENCH.transactions
    """Of each client, where no `duration` is given."""
    duration_ns: int | None = None
    rate_per_s: float | None = None
    script: str = PGBENCH.script
    script_hash: str | None = None
    script_text: str | None = None
    """Without passwords, as the record keeps it."""
    protocol: str = PGBENCH.protocol
    server: str = PGBENCH.server
    checksums: str = PGBENCH.checksums
    preset: str = PGBENCH.preset
    seed: int = 1
    settings: dict[str, str] = field(default_factory=dict)
    room_bytes: int | None = None
    """On the server's volume, as the user says where it cannot be seen; no part of the plan."""

    @property
    def own(self) -> dict[str, str]:
        """The settings that the server is given; those of the preset give way."""
        return {**PRESETS[self.preset], **self.settings}

    @property
    def threads_used(self) -> int:
        return self.threads or usual_threads(self.clients, len(os.sched_getaffinity(0)))

    @property
    def is_dsn(self) -> bool:
        return is_dsn(self.target)

    def set_key(self) -> tuple[object, ...]:
        """Runs that agree in this use one database, one after the other."""
        return self.target, self.scale, self.server, self.checksums, tuple(sorted(self.own.items()))

    def plan(self) -> OtherPlan:
        stream = OtherStream(
            name=Path(self.script).name,
            workers=self.clients,
            depth=1,
            pace=ClosedPace() if self.rate_per_s is None else None,
        )
        lasts = Duration(self.duration_ns) if self.duration_ns else None
        asked = PgbenchAsked(
            scale=self.scale,
            clients=self.clients,
            threads=self.threads_used,
            transactions=self.transactions,
            rate_per_s=self.rate_per_s,
            script=self.script,
            script_hash=self.script_hash,
            script_text=self.script_text,
            protocol=self.protocol,
            server=self.server,
            checksums=self.checksums,
            preset=self.preset,
            settings=self.own,
        )
        return OtherPlan(
            kind=OtherKind.PGBENCH,
            title=f"pgbench, scale {self.scale}, {self.clients} client{'s' if self.clients > 1 else ''}",
            source="PostgreSQL's own pgbench",
            seed=self.seed,
            interval=Duration(INTERVAL_NS),
            pgbench=asked,
            phase=[OtherPhase(name="transactions", duration=lasts, stream=[stream])],
        )

    def needed_bytes(self) -> int:
        """What the database and its log may take: refused beforehand where there is less."""
        wal = WAL_BYTES
        if "max_wal_size" in self.own:
            wal = _setting_bytes("max_wal_size", self.own["max_wal_size"])
        return self.scale * SCALE_BYTES + wal + SERVER_BYTES


def spec_of(plan: OtherPlan, target: str) -> PgbenchSpec:
    """The run that a plan asks for."""
    asked, (phase,) = plan.pgbench, plan.phase
    if asked is None:
        raise BadInputError(f"{plan.title}: is no run of pgbench")
    lasts_ns = phase.duration.ns if phase.duration else None
    return PgbenchSpec(target=target, seed=plan.seed or 0, duration_ns=lasts_ns, **structs.asdict(asked))


LIMITS = frozenset({"transactions", "duration"})
"""pgbench ends at one of them."""


def changed_by(changes: Iterable[str], own: Sequence[str]) -> list[str]:
    """The changes of a study with those of a user behind them, whose limit takes the place of the study's."""
    replaced = LIMITS if LIMITS & set(map(_key_of, own)) else frozenset()
    return [*(change for change in changes if _key_of(change) not in replaced), *own]


def _key_of(change: str) -> str:
    return change.partition("=")[0].strip()


def read_changes(target: str, changes: Iterable[str], seed: int = 1) -> PgbenchSpec:
    """`KEY=VALUE` of --set; `pg.NAME=VALUE` is a setting of the server."""
    spec = PgbenchSpec(target, seed=seed)
    limits: set[str] = set()
    for change in changes:
        name, equals, value = (part.strip() for part in change.partition("="))
        if not equals or not value:
            raise BadInputError(f"--set {change}: write KEY=VALUE")
        limits |= {name} & LIMITS
        spec = _changed(spec, name, value)
    if len(limits) > 1:
        raise BadInputError("--set transactions, --set duration: pgbench ends at one of them; leave the other out")
    _check(spec)
    if spec.script in BUILT_IN:
        return spec
    content_hash, text = read_script(spec.script)
    return replace(spec, script_hash=content_hash, script_text=text)


def _changed(spec: PgbenchSpec, name: str, value: str) -> PgbenchSpec:
    if name.startswith(SETTING):
        setting = name.removeprefix(SETTING)
        if not setting.replace("_", "").replace(".", "").isalnum():
            raise BadInputError(f"--set {name}={value}: {setting} is no name of a setting of PostgreSQL")
        refuse_outside(setting, f"--set {name}={value}")
        return replace(spec, settings={**spec.settings, setting: value})
    if name in ("scale", "clients", "threads", "transactions", "seed"):
        return replace(spec, **{name: _whole(name, value)})  # type: ignore[arg-type]
    if name == "duration":
        return replace(spec, duration_ns=_duration_ns(value))
    if name == "room":
        return replace(spec, room_bytes=parsed_bytes(value, f"--set room={value}"))
    if name == "rate":
        return replace(spec, rate_per_s=_rate(value))
    choices = {"protocol": PROTOCOLS, "checksums": ("default", "on", "off"), "preset": tuple(PRESETS)}
    if name in choices:
        if value not in choices[name]:
            raise BadInputError(f"--set {name}={value}: one of {', '.join(choices[name])}")
        return replace(spec, **{name: value})  # type: ignore[arg-type]
    if name in ("script", "server"):
        return replace(spec, **{name: value})  # type: ignore[arg-type]
    known = ["scale", "clients", "threads", "transactions", "seed", "duration", "rate", "script", "server", "room"]
    known += choices
    raise BadInputError(f"--set {name}: pgbench has no such key; settings are pg.NAME=VALUE", nearest(name, known))


def _whole(name: str, value: str) -> int:
    least = 0 if name in ("threads", "seed") else 1
    most = MOST.get(name, 1 << 31)
    if not value.isdecimal() or not least <= int(value) <= most:
        raise BadInputError(f"--set {name}={value}: a whole number from {least} to {most:,}")
    return int(value)


def _rate(value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if not 0 < rate < float("inf"):
        raise BadInputError(f"--set rate={value}: write transactions/s, such as 500")
    return rate


def _duration_ns(value: str) -> int:
    try:
        found = _core.parse_duration_ns(value)
    except ValueError as error:
        raise BadInputError(f"--set duration={value}: {one_line(error)}") from error
    if found < 1_000_000_000 or found % 1_000_000_000:
        raise BadInputError(f"--set duration={value}: pgbench takes whole seconds, one or more")
    return found


def _check(spec: PgbenchSpec) -> None:
    if spec.threads > spec.clients:
        raise BadInputError(f"--set threads={spec.threads}: at most one a client, of which there are {spec.clients}")
    if spec.script not in BUILT_IN and not Path(spec.script).is_file():
        raise BadInputError(f"--set script={spec.script}: {', '.join(BUILT_IN)}, or the path of a script of pgbench")
    if spec.is_dsn and spec.server != "wheel":
        raise BadInputError("--set server: the target is a running server; leave server out")
    if spec.is_dsn and spec.checksums != "default":
        raise BadInputError("--set checksums: a running server has them or not; leave checksums out")


def _setting_bytes(name: str, value: str) -> int:
    try:
        return postgresql_bytes(value)
    except (ValueError, KeyError):
        raise BadInputError(f"--set pg.{name}={value}: a size with its unit, such as 480MB") from None


def check_room(spec: PgbenchSpec, place: Path) -> None:
    """Refuses a scale that does not fit before anything is loaded."""
    _refuse_beyond(shutil.disk_usage(place).free, spec, place)


def check_unseen_room(spec: PgbenchSpec, shown: str) -> None:
    """The same where the server's volume cannot be seen: what the user says, or a small scale."""
    if spec.room_bytes is not None:
        _refuse_beyond(spec.room_bytes, spec, shown)
    elif spec.scale > UNSEEN_SCALE:
        raise BadInputError(
            f"{shown}: how much room its volume has cannot be seen from here, and scale {spec.scale} takes about"
            f" {format_size(spec.needed_bytes())}; look there, and say what is free with --set room=SIZE"
        )


def _refuse_beyond(free: int, spec: PgbenchSpec, place: Path | str) -> None:
    needed = spec.needed_bytes()
    if free < needed:
        raise BadInputError(
            f"{place}: scale {spec.scale} takes about {format_size(spec.scale * SCALE_BYTES)} and its log the rest of"
            f" {format_size(needed)}, but {format_size(free)} are free; take a smaller scale or another place"
        )
