"""Duty: `brickyard run --hosts`: from what was typed to a run on many hosts. Refusal: it divides and starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from brickyard.cli.parts import judging as judges
from brickyard.cli.parts import options
from brickyard.cli.parts.again import answer_of
from brickyard.cli.parts.output import emit, print_line, stderr, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.told import tell
from brickyard.errors import BadInputError
from brickyard.schema import LoadShare
from brickyard.schema.plan import Plan
from brickyard.store import Store, check_place
from brickyard.study.replays.drivers import STDIN
from brickyard.study.running.interrupt import Interrupt

if TYPE_CHECKING:
    from brickyard.fleet.replaying import ReplayHosts
    from brickyard.fleet.sweeping import Sweep
    from brickyard.schema.logs import ReplayKnown
    from brickyard.study.designs.cells import StudyCell
    from brickyard.study.replays.run import ReplaySpec
    from brickyard.study.running.runner import RunSpec
    from brickyard.traces import Replay

HOSTS = Group("Many hosts", sort_key=5)
TOLERANCE = "1ms"


ComputedOn = Annotated[
    str | None,
    Parameter(
        name="--hosts",
        group=HOSTS,
        help="Hosts of the fleet that run the simulations, such as a,b,c, or all; by default this host.",
    ),
]


DrivenOn = Annotated[
    str | None,
    Parameter(
        name="--hosts",
        group=HOSTS,
        help="Hosts of the fleet on which drivers run, such as a,b,c, or all (docs/fleet.md).",
    ),
]
WhenLost = Annotated[
    Literal["keep", "end"],
    Parameter(name="--lost", group=HOSTS, help="When a host is lost, keep the others running or end the run."),
]


def hosts_of_drivers(hosts: str | None, drivers: int) -> tuple[str, ...]:
    """The host of each driver, in turn: one each at least."""
    if hosts is None:
        return ()
    from brickyard.fleet import cluster

    chosen = cluster.chosen(cluster.enter(cluster.load()), hosts)
    return tuple(chosen[number % len(chosen)] for number in range(max(drivers, len(chosen))))


def places_of(spec: ReplaySpec, known: ReplayKnown, lost: Literal["keep", "end"]) -> ReplayHosts | None:
    """Where the drivers of a replay run; None for this host. `known` is what `check` gave."""
    if not spec.hosts:
        if lost != HERE.lost:
            raise BadInputError("--lost: needs --hosts")
        return None
    from brickyard.fleet import cluster
    from brickyard.fleet.replaying import ReplayHosts, refuse_near

    if STDIN in spec.logs:
        raise BadInputError("--hosts: standard input can be read by one driver only; give files")
    refuse_near(known.databases)
    ray = cluster.enter(cluster.load())
    return ReplayHosts(ray, spec.hosts, spec.to, _on_stderr, seed=spec.seed, lost=lost)


def _on_stderr(text: str) -> None:
    print_line(stderr(), text)


@contextmanager
def sweeping(hosts: str | None) -> Iterator[Sweep | None]:
    """The cores of the hosts that were named."""
    if hosts is None:
        yield None
        return
    from brickyard.fleet import cluster
    from brickyard.fleet.sweeping import Sweep

    ray = cluster.enter(cluster.load())
    found = Sweep(ray, cluster.chosen(ray, hosts), _on_stderr)
    try:
        yield found
    finally:
        found.close()


@Parameter(name="*")
@dataclass(frozen=True)
class Hosts:
    """On which hosts of the fleet, and how they share the load."""

    hosts: Annotated[
        str | None,
        Parameter(name="--hosts", group=HOSTS, help="Hosts of the fleet, such as a,b,c, or all (docs/fleet.md)."),
    ] = None
    share: Annotated[
        LoadShare,
        Parameter(
            name="--share",
            group=HOSTS,
            help="copies: every host runs the whole workload; split: its part of the rate or of the workers; partition:"
            " its part of the region as well, for one target that all hosts see.",
        ),
    ] = LoadShare.COPIES
    clock_tolerance: Annotated[
        str,
        Parameter(name="--clock-tolerance", group=HOSTS, help="How far apart two hosts may start."),
    ] = TOLERANCE
    late_start: Annotated[
        Literal["mark", "refuse"],
        Parameter(
            name="--late-start",
            group=HOSTS,
            help="If hosts may start farther apart than --clock-tolerance: mark the run, or refuse it.",
        ),
    ] = "mark"
    lost: Annotated[
        Literal["keep", "end"],
        Parameter(name="--lost", group=HOSTS, help="When a host is lost, keep the others running or end the run."),
    ] = "keep"

    @property
    def is_asked(self) -> bool:
        if self.hosts is None:
            for name in ("share", "clock_tolerance", "late_start", "lost"):
                if getattr(self, name) != getattr(HERE, name):
                    raise BadInputError(f"--{name.replace('_', '-')}: needs --hosts")
        return self.hosts is not None

    def refuse(self, name: str) -> None:
        if self.is_asked:
            raise BadInputError(f"{name}: runs on one host; leave --hosts out")


HERE = Hosts()


@dataclass(frozen=True)
class HostsLoad:
    """What is run, and on what; `replay` where it is a trace."""

    name: str
    plan: Plan
    targets: tuple[str, ...]
    replay: Replay | None = None


def run_on_hosts(
    load: HostsLoad,
    asked: Hosts,
    placing: options.Placing,
    judge: judges.Judging,
    times: int,
    store: options.StorePlace,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    from brickyard.fleet import cluster
    from brickyard.fleet.drive import Fleets, drive
    from brickyard.fleet.head import FleetWishes
    from brickyard.fleet.shares import divide
    from brickyard.schema import plan_document

    if placing.scratch is not None or placing.keep:
        raise BadInputError("--scratch and --keep: with --hosts name the target of each host")
    name, plan, targets = load.name, load.plan, load.targets
    if not targets:
        raise BadInputError("--hosts: name a target that every host has, or one of each, such as a:/dev/sdb")
    check_place(store)
    wishes = FleetWishes(
        asked.share, tolerance_of(asked.clock_tolerance), asked.late_start, asked.lost, _words_of(placing)
    )
    ray = cluster.enter(cluster.load())
    hosts = cluster.chosen(ray, str(asked.hosts))
    if dry_run:
        division = divide(name, plan, hosts, targets, asked.share, placing.overwrite)
        document = {
            part.host: {"targets": part.targets, "plan": plan_document(own)}
            for part, own in zip(division.parts, division.plans, strict=True)
        }
        if as_json:
            emit({"dry_run": True, "hosts": document, "plan": plan_document(division.plan)})
        else:
            for part in division.parts:
                streams = ", ".join(stream for phase in part.names for stream in phase)
                print_line(stdout(), f"{part.host}: {', '.join(part.targets)}: {streams}")
        return 0
    with Store(store) as kept, Interrupt() as interrupt, Terminal() as terminal:
        on = Fleets(kept, terminal, interrupt, ray, wishes, placing.overwrite)
        results = drive(on, name, plan, hosts, targets, times)
        records = [kept.record(result.run) for result in results]
    answer = answer_of(records[-1], load.replay, None, len(hosts)) if load.replay is not None else None
    return tell(records, judge, repetitions=times, as_json=as_json, trace=answer)


def hosting_of(
    store: Store, terminal: Terminal, interrupt: Interrupt, placing: options.Placing
) -> Callable[[StudyCell, RunSpec], RunSpec]:
    """Runs of a study over the hosts that its cells name."""
    from brickyard.fleet import cluster
    from brickyard.fleet.drive import Fleets
    from brickyard.fleet.head import FleetWishes

    ray = cluster.enter(cluster.load())
    words = _words_of(placing)

    def hosting(cell: StudyCell, spec: RunSpec) -> RunSpec:
        wishes = FleetWishes(cell.share, tolerance_of(TOLERANCE), words=words)
        hosts = cluster.chosen(ray, str(cell.recipe.hosts))
        return Fleets(store, terminal, interrupt, ray, wishes, placing.overwrite).over(spec, hosts)

    return hosting


def _words_of(placing: options.Placing) -> tuple[str, ...]:
    words = ["--size", placing.size] if placing.size else []
    words += ["--i-know-this-destroys-data"] if placing.i_know_this_destroys_data else []
    return tuple(words)


def tolerance_of(text: str) -> int:
    from brickyard import _core

    try:
        return _core.parse_duration_ns(text)
    except ValueError as error:
        raise BadInputError(f"--clock-tolerance {text}: a time with its unit, such as 1ms") from error
