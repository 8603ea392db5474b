"""Duty: what goes to and from `brickyard-lab` and our own workers, as types. Refusal: no process is started here."""

from __future__ import annotations

import msgspec

CHECKSUMS = "data_checksums"  # PostgreSQL has it as a setting that only shows what initdb was told
KEPT, LOST, CORRUPT, NOT_JUDGED = "kept", "lost", "corrupt", "not judged"


class Story(msgspec.Struct):
    """What a workload did to a log: cuts lie between two records, acknowledgements and stretches are record counts."""

    begin: int = 0
    end: int = 0
    promises: list[int] = []
    marks: list[tuple[int, int]] = []


class Promise(msgspec.Struct):
    """What a client was told is durable: its number, and how many records the log had then."""

    at: int
    client: int
    number: int


class Setup(msgspec.Struct):
    """What is recorded: a workload on a file system on a disk."""

    workload: str = "postgres"
    file_system: str = "ext4"
    mount_options: str = ""
    settings: dict[str, str] = {}
    load_s: float = 10.0
    clients: int = 4
    size_bytes: int = 1 << 30
    command: list[str] = []


class Recording(msgspec.Struct):
    """A log's story, as `story.json` in its folder."""

    setup: Setup
    story: Story
    promises: list[Promise]
    data: str = ""
    """Where the workload's data lie on the file system."""
    version: str = ""
    """Of the software that was recorded."""
    log_version: int = 1
    log_hash: str = ""
    """Of the log's records."""
    records: int = 0
    """How many there are; recordings of older versions do not say."""
    story_hash: str = ""
    """SHA-256 of this file with nothing between these quotes."""


class Serve(msgspec.Struct):
    mount: str
    medium: str
    cache: str = "honest"
    cache_bytes: int = 8 << 20
    size_bytes: int | None = None
    log: str | None = None
    socket: str | None = None
    model: str | None = None
    bricks: dict[str, str] = {}
    speed: float = 1.0
    lives_with_input: bool = True


class States(msgspec.Struct):
    """How states are drawn; with a seed, each is the same every time."""

    log: str
    story: Story
    cache: str = "honest"
    aim: str = "mixed"
    torn_bytes: int = 0


class Plan(msgspec.Struct):
    states: States
    count: int
    seed: int = 1
    only: list[str] = []


class Describe(msgspec.Struct):
    """Asks what a log holds, and what lies around the cuts of some of its states."""

    states: States
    parts: int = 200
    only: list[str] = []
    before: int = 20


class WritePart(msgspec.Struct):
    """A stretch of a log: its records, and how many of them are what."""

    begin: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    writes: int
    flushes: int


class Write(msgspec.Struct):
    record: int
    offset_bytes: int
    bytes: int
    volatile: bool
    kept_bytes: int


class Flush(msgspec.Struct):
    """By its records; without an end it was under way at the cut."""

    start: int
    end: int | None
    works: bool


class Surroundings(msgspec.Struct):
    """What lies around a cut, from this record on."""

    begin: int = msgspec.field(name="from")
    writes: list[Write]
    flushes: list[Flush]


class Show(msgspec.Struct):
    states: States
    mount: str


class State(msgspec.Struct):
    seed: str
    cut: int
    durable: int
    volatile_writes: int
    kept_writes: int
    promised: int
    image: str


class LogFacts(msgspec.Struct):
    records: int
    writes: int
    flushes: int
    hash: str
    torn_bytes: int


class Ready(msgspec.Struct):
    ready: bool = True
    size_bytes: int = 0
    pid: int = 0
    is_over_ring: bool = False


class Refused(msgspec.Struct):
    error: str


class RecordOrder(msgspec.Struct, tag=True):
    setup: Setup
    log: str
    room: str = ""
    """An empty folder for a worker's mounts, which whoever starts it removes."""


class CheckOrder(msgspec.Struct, tag=True):
    recording: str
    states: States
    check: str
    command: list[str] = []
    timeout_s: float = 60.0
    room: str = ""


class Verdict(msgspec.Struct):
    seed: str
    kind: str
    why: str = ""
    missing: Missing | None = None
    is_last: bool = False
    """The worker cannot judge another state: something of this one stays."""


class Missing(msgspec.Struct):
    """The first number that a client was told is durable, and that is not there."""

    client: int
    number: int
