"""Duty: the experiment of `brickyard lab durability`: configurations of a database and of its disk, each recorded and
its crash states judged; some must keep every promise, others are controls that must be found out.

Refusal: nothing is judged here; `explore` does that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from brickyard.errors import BadInputError
from brickyard.lab.explore import Exploration, Outcome, explore, record
from brickyard.lab.orders import CHECKSUMS, Setup

CONTROL_SHARE = 10  # a control gets a tenth of the states: what it breaks is found within few
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
    corrupt: bool | None = None
    """Where it matters for a control: whether damage is found, and not losses alone."""
    share: int = CONTROL_SHARE
    """It gets this part of the states: more where what it breaks is rare, or must be rarer."""

    def log_key(self) -> str:
        """Configurations with the same one share a recording."""
        return msgspec.json.encode((sorted(self.settings.items()), self.mount_options)).decode()


POSTGRES = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, share=1),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
    Configuration(f"cache loses 1 flush in {LOSSY.rpartition('/')[2]}", cache=LOSSY, share=2),
    Configuration("fsync=off", settings={"fsync": "off"}, aim=ACKNOWLEDGED),
    Configuration("synchronous_commit=off", settings={"synchronous_commit": "off"}, aim=ACKNOWLEDGED),
    Configuration("nobarrier", mount_options="nobarrier"),
    Configuration("full_page_writes=off, torn", settings={"full_page_writes": "off"}, aim="marks", torn_bytes=4096),
    Configuration(
        "the same without checksums",
        settings={"full_page_writes": "off", CHECKSUMS: "off"},
        aim="marks",
        torn_bytes=4096,
    ),
)
SQLITE = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, share=1),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
    # https://www.sqlite.org/pragma.html#pragma_synchronous: EXTRA also syncs the folder of a journal that was removed.
    Configuration("synchronous=full", settings={"synchronous": "FULL"}, aim=ACKNOWLEDGED),
    Configuration("synchronous=off", settings={"synchronous": "OFF"}, aim=ACKNOWLEDGED),
    Configuration("nobarrier", mount_options="nobarrier"),
)
FILES = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, share=1),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
    Configuration("without fsync", settings={"fsync": "off"}, aim=ACKNOWLEDGED),
    # https://bugs.launchpad.net/bugs/317781: as ext4 delays allocation, a file replaced by rename without an fsync is
    # empty after a power cut. auto_da_alloc, the default, orders the content before the rename, but only with
    # dioread_lock: with dioread_nolock, the default since Linux 5.6, blocks count as unwritten until their writes have
    # ended, and the rename does not wait for that. Without delayed allocation, or with dioread_lock, only new content
    # is lost.
    Configuration("rename, nodelalloc", settings={"fsync": "off"}, mount_options="commit=1,nodelalloc", corrupt=False),
    Configuration(
        "rename, dioread_lock", settings={"fsync": "off"}, mount_options="commit=1,dioread_lock", corrupt=False
    ),
    Configuration(
        "rename, noauto_da_alloc",
        settings={"fsync": "off"},
        mount_options="commit=1,noauto_da_alloc",
        corrupt=True,
    ),
)
EXT4_ONLY = ("nobarrier", "delalloc", "noauto_da_alloc", "dioread_lock")
"""Mount options of configurations that other file systems do not have."""
STORE = (
    Configuration("honest cache", torn_bytes=512, must_fail=False, share=1),
    Configuration("no cache", cache="off", must_fail=False),
    Configuration("lying cache", cache="lying:50"),
)
EXPERIMENTS = {"postgres": POSTGRES, "sqlite": SQLITE, "files": FILES, "store": STORE}


@dataclass(frozen=True)
class Result:
    configuration: Configuration
    wanted: Exploration
    outcome: Outcome
    version: str
    commits: int
    load_s: float
    judging_s: float

    @property
    def as_it_should(self) -> bool:
        """A control was found out; anything else kept every promise in every state. Of a state that was not judged
        neither is known."""
        return not self.why_not

    @property
    def why_not(self) -> str:
        """What is not as it should be, in words; empty where all is."""
        found, damaged = self.outcome, self.configuration.corrupt
        if found.not_judged or not found.states:
            return f"{found.not_judged:,} of {found.states:,} states could not be judged"
        if found.found and not self.configuration.must_fail:
            return f"it must keep everything, and {found.found:,} of {found.states:,} states did not"
        if self.configuration.must_fail and not found.found:
            return f"this control must lose something, and none of {found.states:,} states did"
        if damaged and not found.corrupt:
            return (
                f"this control must damage files, and its {found.states:,} states only lost versions that were "
                "acknowledged; draw more --states, or record for a longer --duration"
            )
        if damaged is False and found.corrupt:
            return f"this control may only lose versions, and {found.corrupt:,} of {found.states:,} states are damaged"
        return ""


def experiment(workload: str, file_system: str = "ext4") -> tuple[Configuration, ...]:
    if workload not in EXPERIMENTS:
        raise BadInputError(f"{workload}: no experiment of the lab; use {', '.join(EXPERIMENTS)}")
    has = file_system == "ext4"
    return tuple(
        one for one in EXPERIMENTS[workload] if has or not any(word in one.mount_options for word in EXT4_ONLY)
    )


def durability(
    setup: Setup, states: int, seed: int, logs: Path, tell: Callable[[str, int, int], None], *, logs_stay: bool
) -> Iterable[Result]:
    """A result for each configuration, in their order, with its logs in a folder, which may be gone at the end."""
    recorded: dict[str, tuple[Path, str, int]] = {}
    for configuration in experiment(setup.workload, setup.file_system):
        key = configuration.log_key()
        if key not in recorded:
            tell(f"{configuration.name}: recording", 0, 0)
            log = logs / f"log-{len(recorded) + 1}"
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
            max(1, states // configuration.share),
            seed,
            log_stays=logs_stay,
        )
        begun = time.monotonic()
        outcome = explore(wanted, lambda done, all_, name=configuration.name: tell(name, done, all_))  # type: ignore[misc]
        yield Result(configuration, wanted, outcome, version, commits, setup.load_s, time.monotonic() - begun)
