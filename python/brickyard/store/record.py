"""Duty: the rows of the store as typed, immutable values.

Refusal: no arithmetic. Totals, percentiles and shares are the business of `brickyard.analysis`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

import msgspec

from brickyard.errors import BadInputError
from brickyard.ready import ready
from brickyard.schema import (
    Document,
    Engine,
    Event,
    KnobEvent,
    RunFacts,
    RunOptions,
    RunOutcome,
    RunWarning,
    RunWatch,
    Start,
    TargetFacts,
    event_document,
    facts_of,
    plan_of,
    tag_of,
    typed,
    watch_of,
)
from brickyard.schema.changes import changes_of
from brickyard.schema.load_hash import load_hash
from brickyard.schema.modelled import all_modelled
from brickyard.schema.plan import OtherKind, OtherPlan, Plan
from brickyard.schema.target_sheet import WriteCaches
from brickyard.schema.titles import PlanTitles

Json = dict[str, Any]
T = TypeVar("T")
E = TypeVar("E", bound=msgspec.Struct)


class Histograms(Protocol):
    """Where the histograms of a run's intervals are."""

    def text(self, row: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Interval:
    """What one operation of one stream did in one interval, by one measure (service, response, lateness).

    `histograms` is None where nothing was measured, as when every request of the interval failed.
    """

    phase: int
    stream: int
    operation: str
    measure: str
    start_ns: int
    end_ns: int
    warmup: bool
    requests: int
    bytes: int
    errors: int
    in_flight_bound: int
    """Never more of the stream's requests were in flight at once; a bound where several loops had them."""
    mean_ns: float
    p50_ns: int
    p99_ns: int
    max_ns: int
    row: int = 0
    histograms: Histograms | None = None

    @property
    def histogram(self) -> str:
        """HdrHistogram V2 in base64, empty where nothing was measured. Read anew each time: a long run of many streams
        has gigabytes of them, so nobody should keep more than one at a time."""
        return self.histograms.text(self.row) if self.histograms else ""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """As `schema.ErrorEvent` told it; the bytes of damaged data are with that event."""

    at_ns: int
    phase: int
    stream: int
    operation: str
    offset_bytes: int
    request_bytes: int
    kind: str
    errno: int | None
    text: str


@dataclass(frozen=True, slots=True)
class IntervalCost:
    """What the generator itself used in one interval; there is one of these also where nothing completed."""

    phase: int
    start_ns: int
    end_ns: int
    warmup: bool
    cpu_user_ns: int
    cpu_system_ns: int
    loop_busy_share: float
    knob: KnobEvent | None
    drain: bool
    """Nothing was issued any more: what completed then is in latencies and counts, in no rate."""

    def joined(self, other: IntervalCost) -> IntervalCost:
        """With another loop's part of the same interval."""
        return replace(
            self,
            end_ns=max(self.end_ns, other.end_ns),
            cpu_user_ns=self.cpu_user_ns + other.cpu_user_ns,
            cpu_system_ns=self.cpu_system_ns + other.cpu_system_ns,
            loop_busy_share=max(self.loop_busy_share, other.loop_busy_share),
        )


FIO, DISKSPD = "fio", "diskspd"
COMPLETIONS = "fio-clat"
"""The warning of a result whose percentiles leave out the call that submits a request."""
CALLS = "fio-clat-calls"
"""The warning of a result whose percentiles are of the call alone, as those of synchronous engines."""
NO_TOTALS = "fio-no-lat"
"""The warning of a result all of whose times leave out the call that submits a request."""
OF_CLAT = frozenset({COMPLETIONS, CALLS, NO_TOTALS})
"""The warnings of results whose percentiles are those of fio's `clat`."""
OTHER_TOOLS: dict[str, str] = {
    Engine.FIO: FIO,
    Engine.DISKSPD: DISKSPD,
    Engine.IOMETER: "Iometer",
    Engine.ELBENCHO: "elbencho",
}
"""Tools whose results are kept as runs: what the engine of such a run is called, and the tool's own name."""
WALL_CLOCKS = (Engine.IOMETER, Engine.ELBENCHO)
"""Print the local time of their host, and no zone."""


COUNT_ERRORS = frozenset({FIO, "Iometer"})
"""Tools whose results say how many requests failed; those of the others say nothing of it. Asked by
`RunInfo.knows_errors` alone."""


class RunMarks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a study, a load curve or a search says of its run; it is kept as the run's labels, in this order."""

    engine: str = ""
    """Of a crosscheck."""
    pace: str = ""
    """Of several replays."""
    test: str = ""
    """Of SNIA's tests, with the next three: the part of it, how many rounds a run has, or which it is. Which `round` it
    is has a run of a census too."""
    part: str = ""
    rounds: int | None = None
    round: int | None = None
    levels: dict[str, str] | None = None
    repetition: int | None = None
    study: str = ""
    label: str = ""
    usd: float | None = None
    rebuild_rate: str = ""
    cell: str = ""
    """What identifies one repetition of one cell of a study."""
    set_up: int | None = None
    """Runs with the same number were measured in one and the same condition."""
    address: str = ""
    """Of a cell of `characterize`, with the next two."""
    operation: str = ""
    request_bytes: int | None = None
    loop: str = ""
    """`closed` of the run that a load curve takes its rates from."""
    offered_per_s: float | None = None
    """The level of a load curve."""
    share_of_maximum: float | None = None
    searched_per_s: float | None = None
    """The step of a search for a limit."""
    search: int | None = None
    reads_per_s: float | None = None
    """The step of a search for the reads that are left beside writes."""
    writes_per_s: float | None = None
    alone: str = ""
    """`reads` or `writes`, of a run that has nothing beside them."""

    @property
    def is_step(self) -> bool:
        """Whether its rate was chosen by what runs before it reached, so that hardly another run has the same load."""
        return any(rate is not None for rate in (self.offered_per_s, self.searched_per_s, self.reads_per_s))


NO_MARKS = RunMarks()


Ended = Literal["done", "interrupted", "failed"]
"""How a run or a study came to its end, as it is kept."""
Outcome = Literal[Ended, "running", "damaged"]
"""What a run is now. One that neither ended nor lives is `interrupted`; of one that is `damaged` the record cannot be
read."""
ENDED: tuple[Ended, ...] = get_args(Ended)
OUTCOMES: tuple[Outcome, ...] = (*ENDED, "running", "damaged")
INTERRUPTED: Final = "interrupted"
RUNNING: Final = "running"
DAMAGED: Final = "damaged"


def ended_as(outcome: RunOutcome) -> Ended:
    """The plain word, as programs get it."""
    return next(word for word in ENDED if word == outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What lists and selections need of a run."""

    id: int
    created_unix_ns: int
    profile: str
    targets: list[str]
    real_paths: list[str | None] = field(default_factory=list)
    """Of each target the file that it was, without links; None where nobody looked, as of a model."""
    study: int | None
    labels: Json
    start_unix_ns: int | None
    outcome: Outcome
    invalid: str = ""
    """Why the run was not what it was meant to be: the condition did not last. Such a run is in no table of a study."""

    @property
    def began_unix_ns(self) -> int | None:
        """By the host's clock: virtual time counts from 0, which is when such a run was created. None where
        there is no beginning."""
        return None if self.start_unix_ns is None else self.start_unix_ns or self.created_unix_ns

    @property
    def is_valid(self) -> bool:
        """Whether it came to its end and was what it was meant to be: only such runs are compared and charted."""
        return self.outcome == "done" and not self.invalid

    @property
    def is_modelled(self) -> bool:
        """Whether models computed all of it, in virtual time, and nothing real was touched."""
        return all_modelled(self.targets)

    @property
    def marks(self) -> RunMarks:
        """Raises BadInputError where the labels are damaged."""
        try:
            return msgspec.convert(self.labels, RunMarks)
        except msgspec.ValidationError as error:
            raise BadInputError(f"run {self.id}: its labels are damaged: {error}") from error


@dataclass(frozen=True, kw_only=True)
class RunInfo(RunHead):
    """A run without its measurements: its circumstances and how it ended."""

    profile_hash: str
    plan_document: Json
    seed: int
    condition: str
    options: Json
    software_version: str
    facts_document: Json
    engine: Json
    ended_unix_ns: int | None
    end_ns: int | None
    message: str
    watch_document: Json
    warnings: list[RunWarning]

    @cached_property
    def facts(self) -> RunFacts:
        """The circumstances when it began. Raises BadInputError where the record of them is damaged."""
        try:
            return facts_of(self.facts_document)
        except msgspec.ValidationError as error:
            raise BadInputError(f"run {self.id}: its facts are damaged: {error}") from error

    @cached_property
    def watch(self) -> RunWatch:
        """What happened beside it. Raises BadInputError where the record of it is damaged."""
        try:
            return watch_of(self.watch_document)
        except msgspec.ValidationError as error:
            raise BadInputError(f"run {self.id}: what was watched is damaged: {error}") from error

    @property
    def tool(self) -> str:
        """The other tool that did the work, here or elsewhere; it knows no due instants and not what the limit was.
        Empty where Brickyard did it."""
        return "" if self.start is None else OTHER_TOOLS.get(self.start.engine, "")

    @property
    def is_by_wall_clock(self) -> bool:
        """Whether its beginning is a local time without a zone, kept as if it were of UTC."""
        return self.start is not None and self.start.engine in WALL_CLOCKS

    @property
    def is_by_tool(self) -> bool:
        return bool(self.tool)

    @property
    def is_imported(self) -> bool:
        """Whether it is a result of another tool that was imported: nobody looked at its targets then."""
        return self.is_by_tool and not self.facts.targets

    @property
    def knows_errors(self) -> bool:
        """Whether it is known how many requests failed: some tools do not report it, and the store has zeros then."""
        return not self.tool or self.tool in COUNT_ERRORS

    def known_errors(self, stored: int) -> int | None:
        """A count of failed requests as the store has it; None where it is not known."""
        return stored if self.knows_errors else None

    @property
    def is_pgbench(self) -> bool:
        return self._titles.kind == OtherKind.PGBENCH

    @property
    def knows_bytes(self) -> bool:
        """Whether it is known what requests moved: of pgbench's transactions it is not; the store has zeros then."""
        return not self.is_pgbench

    @property
    def bytes_unknown_words(self) -> str:
        """Why it is not known what requests moved; empty where it is."""
        return "" if self.knows_bytes else "it is not known how many bytes transactions move"

    @property
    def errors_unknown_words(self) -> str:
        """Why it is not known whether requests failed; empty where it is."""
        return "" if self.knows_errors else f"{self.tool} does not report whether requests failed"

    @property
    def title(self) -> str | None:
        """Of its plan, which nobody need read for it."""
        return self._titles.title

    @cached_property
    def called(self) -> str:
        """What tells its load from others of its profile; empty where that is the profile as it is."""
        return self._titles.called or ", ".join(self._changes)

    @property
    def called_beside_levels(self) -> str:
        """The same beside its marks: the levels of a study say by themselves what tells its runs apart."""
        return "" if "levels" in self.labels else self.called

    @property
    def load(self) -> str:
        """The name of the profile, and what tells its load from others of it."""
        return self._titles.load_of(self.profile, self.called)

    @property
    def _changes(self) -> list[str]:
        """What was set of a run of pgbench, whose title does not say it; of a damaged record nothing."""
        if not self.is_pgbench:
            return []
        try:
            plan, host = self.plan, self.facts.host
        except BadInputError:
            return []
        cores = host.cpu.usable_cores if host is not None and host.cpu is not None else None
        return changes_of(plan, cores or 1) if isinstance(plan, OtherPlan) else []

    @cached_property
    def _titles(self) -> PlanTitles:
        try:
            return msgspec.convert(self.plan_document, PlanTitles)
        except msgspec.ValidationError:
            return PlanTitles()

    @cached_property
    def load_hash(self) -> str:
        """Alike for plans that ask the same of the storage, whatever they are called."""
        return load_hash(self.plan_document)

    @cached_property
    def load_hash_of_any_length(self) -> str:
        """Alike for plans that ask the same for a longer or shorter time, too."""
        return load_hash(self.plan_document, of_any_length=True)

    @cached_property
    def plan(self) -> Plan | OtherPlan:
        """What was asked for. Raises BadInputError where the record of it is damaged."""
        try:
            return plan_of(self.plan_document)
        except (msgspec.ValidationError, ValueError) as error:
            raise BadInputError(f"run {self.id}: its plan is damaged: {error}") from error

    @cached_property
    def asked(self) -> RunOptions:
        """What it was allowed and wished beside its plan. Raises BadInputError where the record of it is damaged."""
        try:
            return msgspec.convert(self.options, RunOptions)
        except msgspec.ValidationError as error:
            raise BadInputError(f"run {self.id}: its options are damaged: {error}") from error

    @property
    def opened(self) -> list[TargetFacts]:
        """The targets as the run found them; none where it ended before it began."""
        return self.start.targets if self.start else []

    @cached_property
    def start(self) -> Start | None:
        """How requests reached the targets; None where the run ended before it began. Raises BadInputError where the
        record of it is damaged."""
        try:
            event = typed(self.engine) if self.engine else None
        except msgspec.ValidationError as error:
            raise BadInputError(f"run {self.id}: how it began is damaged: {error}") from error
        return event if isinstance(event, Start) else None


@dataclass(frozen=True, slots=True)
class Record:
    """All that is known of a run. Its lists are not changed once it is made."""

    info: RunInfo
    intervals: list[Interval] = field(default_factory=list)
    costs: list[IntervalCost] = field(default_factory=list)
    errors: list[FailedRequest] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    _decoded: dict[str, list[Event]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Events by tag. Figures of each phase ask for them, and a run may have hundreds of phases."""
    _spans: dict[int | None, list[IntervalCost]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _of_phases: dict[int, list[Interval]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is computed from the record alone, once: one answer asks for the same figures many times."""
        if key not in self._derived:
            self._derived[key] = make()
        found: T = self._derived[key]
        return found

    def of(self, kind: type[E]) -> list[E]:
        """Events of one type, in order: `record.of(PhaseEnd)`. Raises BadInputError where one of them is damaged."""
        tag = tag_of(kind)
        if tag not in self._decoded:
            try:
                self._decoded[tag] = [typed(event) for event in self.events if event.get("event") == tag]
            except msgspec.ValidationError as error:
                raise BadInputError(f"run {self.info.id}: its event {tag} is damaged: {error}") from error
        return [event for event in self._decoded[tag] if isinstance(event, kind)]

    def spans(self, phase: int | None = None) -> list[IntervalCost]:
        """The intervals of a phase, or of all, in order and each once. A loop that reports late has a row of its own
        for its part of an interval."""
        if not self._spans:
            whole: dict[tuple[int, int], IntervalCost] = {}
            for part in self.costs:
                first = whole.get((part.phase, part.start_ns))
                whole[part.phase, part.start_ns] = first.joined(part) if first else part
            self._spans[None] = list(whole.values())
            for span in self._spans[None]:
                self._spans.setdefault(span.phase, []).append(span)
        return list(self._spans.get(phase, ()))

    def intervals_of(self, phase: int) -> list[Interval]:
        """Those of one phase, in order."""
        if not self._of_phases:
            for item in self.intervals:
                self._of_phases.setdefault(item.phase, []).append(item)
        return self._of_phases.get(phase, [])

    def documents_of(self, kind: type[msgspec.Struct]) -> list[Document]:
        """The same as their writer gave them but for reasons, which are words: for exports and whoever shows an event
        whole."""
        tag = tag_of(kind)
        return [event_document(event) for event in self.events if event.get("event") == tag]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What people say of a run. `number` grows with each change, 0 where nobody has said anything."""

    number: int = 0
    note: str = ""
    labels: tuple[str, ...] = ()
    author: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a run has been read: the last row of each table."""

    interval: int = 0
    cost: int = 0
    event: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What a run's writer has added since a cursor. Costs have the number of their row."""

    intervals: list[Interval]
    costs: list[tuple[int, IntervalCost]]
    events: list[Event]
    until: Cursor


class CurveAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Of a load curve: what was asked for beside its levels."""

    limit: str | None = None


class Proof(msgspec.Struct, frozen=True):
    """What a power cut showed of a target; `word` is empty where nothing is shown."""

    word: str
    text: str
    acknowledged: int
    missing: int


class StudyAbout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a study of any kind has kept of itself and is read again."""

    text: str | None = None
    """The file of its design."""
    cells: list[str] | None = None
    """What identifies the repetitions of its cells."""
    targets: list[str] = []
    only: list[str] = []
    changes: list[str] = []
    """What the command line added to its file."""
    curve: CurveAsked | None = None
    planned: int | None = None
    """Cells that a characterization was to measure."""
    census: str | None = None
    """Of a census, its profile."""
    units: list[str] = []
    """Targets that a census was to measure."""
    peers: str | None = None
    """What units of a census must have in common to be compared; None in a study that did not keep it."""
    protected: bool | None = None
    """Of `honesty` and `durable`: whether the user said that the cache survives a power cut; None in a study that did
    not keep it."""
    proof: Proof | None = None
    caches: WriteCaches | None = None
    """Below the target of `honesty` and `durable`: what kernel and drive said of them then."""


class Baseline(NamedTuple):
    """Runs that later ones are compared with."""

    created_unix_ns: int
    runs: list[int]


@dataclass(frozen=True, slots=True)
class StudyInfo:
    id: int
    created_unix_ns: int
    name: str
    about: Json
    outcome: Ended
    notes: list[str]
    runs: list[int]

    @property
    def kept(self) -> StudyAbout:
        """Raises BadInputError where the record of it is damaged."""
        try:
            return msgspec.convert(self.about, StudyAbout)
        except msgspec.ValidationError as error:
            raise BadInputError(f"study s{self.id}: what it was about is damaged: {error}") from error


ready(RunMarks, StudyAbout)
