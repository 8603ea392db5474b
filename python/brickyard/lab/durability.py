"""Duty: the experiment of `brickyard lab durability`: configurations of a database and of its disk, each recorded and
its crash states judged; some must keep every promise, others are controls that must be found out.

Refusal: nothing is judged here; `explore` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.errors import BadInputError
from brickyard.lab.explore import Exploration, Outcome, explore, record
from brickyard.lab.orders import Setup

CONTROL_SHARE = 5  # a control gets a fifth of the states: what it breaks is found within few
LOSSY = "lossy:1/50"
ACKNOWLEDGED = "acknowledgements"


@dataclass(frozen=True)
class Configuration:
    """How a log is recorded, how its states are drawn, and whether anything may be found in them."""

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    mount_options: str = ""
    cache: str = "honest"
    aim: str = "mixed"
    torn_bytes: int = 0
    must_fail: bool = True
    whole: bool = False
    """All states and not a share of them: what it breaks is rare, or must be rare enough."""

    def log_key(self) -> str:
        """Configurations with the same one share a recording."""
        return msgspec.json.encode((sorted(self.settings.items()), self.mount_options)).decode()


POSTGRES = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, whole=True),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
    Configuration(f"cache loses 1 flush in {LOSSY.rpartition('/')[2]}", cache=LOSSY, whole=True),
    Configuration("fsync=off", settings={"fsync": "off"}, aim=ACKNOWLEDGED),
    Configuration("synchronous_commit=off", settings={"synchronous_commit": "off"}, aim=ACKNOWLEDGED),
    Configuration("nobarrier", mount_options="nobarrier"),
    Configuration("full_page_writes=off, torn", settings={"full_page_writes": "off"}, aim="marks", torn_bytes=4096),
)
SQLITE = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, whole=True),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
    # https://www.sqlite.org/pragma.html#pragma_synchronous: EXTRA also syncs the folder of a journal that was removed.
    Configuration("synchronous=full", settings={"synchronous": "FULL"}, aim=ACKNOWLEDGED),
    Configuration("synchronous=off", settings={"synchronous": "OFF"}, aim=ACKNOWLEDGED),
    Configuration("nobarrier", mount_options="nobarrier"),
)
FILES = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, whole=True),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
    Configuration("without fsync", settings={"fsync": "off"}, aim=ACKNOWLEDGED),
)
EXPERIMENTS = {"postgres": POSTGRES, "sqlite": SQLITE, "files": FILES}


@dataclass(frozen=True)
class Result:
    configuration: Configuration
    outcome: Outcome
    version: str
    commits: int
    load_s: float

    @property
    def as_it_should(self) -> bool:
        """A control was found out; anything else kept every promise in every state."""
        judged = self.outcome.states - self.outcome.not_judged
        return judged > 0 and (self.outcome.found > 0) == self.configuration.must_fail


def experiment(workload: str) -> tuple[Configuration, ...]:
    if workload not in EXPERIMENTS:
        raise BadInputError(f"{workload}: no experiment of the lab; use {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[workload]


def durability(
    setup: Setup,
    states: int,
    seed: int,
    logs: Path | None,
    tell: Callable[[str, int, int], None],
) -> Iterable[Result]:
    """A result for each configuration, in their order; logs stay where `logs` names a folder."""
    configurations = experiment(setup.workload)
    if logs is not None:
        outputs.folder(logs)
        yield from _in(logs, configurations, setup, states, seed, tell)
        return
    with outputs.temporary_folder("brickyard-lab-logs-") as place:
        yield from _in(place, configurations, setup, states, seed, tell)


def _in(
    place: Path,
    configurations: tuple[Configuration, ...],
    setup: Setup,
    states: int,
    seed: int,
    tell: Callable[[str, int, int], None],
) -> Iterable[Result]:
    recorded: dict[str, tuple[Path, str, int]] = {}
    for configuration in configurations:
        key = configuration.log_key()
        if key not in recorded:
            tell(f"{configuration.name}: recording", 0, 0)
            log = place / f"log-{len(recorded) + 1}"
            own = msgspec.structs.replace(
                setup, settings=configuration.settings, mount_options=configuration.mount_options
            )
            recording = record(own, log)
            recorded[key] = (log, recording.version, len(recording.promises))
        log, version, commits = recorded[key]
        wanted = Exploration(
            log,
            setup.workload,
            configuration.cache,
            configuration.aim,
            configuration.torn_bytes,
            states if configuration.whole else max(1, states // CONTROL_SHARE),
            seed,
        )
        outcome = explore(wanted, lambda done, all_, name=configuration.name: tell(name, done, all_))  # type: ignore[misc]
        yield Result(configuration, outcome, version, commits, setup.load_s)
