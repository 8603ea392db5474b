"""Duty: what is judged of a run before its figures are believed, as plain data. Refusal: no rule and no figure."""

from __future__ import annotations

from dataclasses import dataclass, field

from brickyard.analysis.figures.sending import Sent, asked_noun
from brickyard.analysis.figures.stalls import Stall
from brickyard.analysis.figures.trimmed import TrimmedReads
from brickyard.schema import (
    Engine,
    HangEvent,
    HostSheet,
    PageCache,
    PhaseEnd,
    PowerCut,
    Start,
    StorePlace,
    TargetSheet,
    WatchSheet,
)
from brickyard.schema.plan import OtherKind, OtherPlan, Plan


@dataclass(frozen=True)
class IntervalSums:
    """Of all streams; chains and frames count beside their requests and are in neither."""

    phase: int
    end_ns: int
    requests: int
    errors: int
    measured: bool = True
    """Whether figures include it: neither warm-up nor what ended after the phase."""


@dataclass(frozen=True)
class VolatileCaches:
    """A modelled target with caches that a power cut empties."""

    path: str
    caches: list[str]
    """In words."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is absent is not judged."""

    host: HostSheet = field(default_factory=HostSheet)
    targets: list[TargetSheet] = field(default_factory=list)
    watches: list[WatchSheet] = field(default_factory=list)
    start: Start | None = None
    intervals: list[IntervalSums] = field(default_factory=list)
    sent: dict[int, Sent] = field(default_factory=dict)
    """Of each phase, what of that which was due was sent."""
    stalls: list[Stall] = field(default_factory=list)
    phase_ends: list[PhaseEnd] = field(default_factory=list)
    hangs: list[HangEvent] = field(default_factory=list)
    power_cuts: list[PowerCut] = field(default_factory=list)
    power_cuts_ns: list[int] = field(default_factory=list)
    """When the power of modelled targets was to fail."""
    failures_ns: list[int] = field(default_factory=list)
    """When members of modelled targets were to fail."""
    page_caches: list[PageCache] = field(default_factory=list)
    """What modelled page caches did."""
    read_caches_bytes: list[int] = field(default_factory=list)
    """What the caches of each modelled target hold that answer reads."""
    volatile_caches: list[VolatileCaches] = field(default_factory=list)
    trimmed_reads: list[TrimmedReads] = field(default_factory=list)
    write_bytes: int | None = None
    """By the run itself; None where that is not known."""
    plan: Plan | OtherPlan | None = None
    is_of_curve: bool = False
    """Whether it is an open loop of a load curve, which offers more than the storage does on purpose."""
    store: StorePlace | None = None
    is_release_build: bool | None = None

    @property
    def is_simulated(self) -> bool:
        return self.start is not None and self.start.engine is Engine.SIM

    @property
    def is_replay(self) -> bool:
        return self.other_kind is OtherKind.REPLAY

    @property
    def other_kind(self) -> OtherKind | None:
        return self.plan.kind if isinstance(self.plan, OtherPlan) else None

    @property
    def asked(self) -> str:
        return asked_noun(self.plan)

    @property
    def ended_ns(self) -> int:
        return max((interval.end_ns for interval in self.intervals), default=0)

    @property
    def measured_until_ns(self) -> int:
        """Before the drain, in which nothing is sent any more."""
        return max((interval.end_ns for interval in self.intervals if interval.measured), default=self.ended_ns)

    def phase_name(self, index: int) -> str:
        """Or its number."""
        phases = self.start.phases if self.start and self.start.phases else self.plan.phase if self.plan else []
        name = phases[index].name if 0 <= index < len(phases) else None
        return name or str(index + 1)

    def requests(self, phase: int | None = None) -> int:
        return sum(interval.requests for interval in self.intervals if phase is None or interval.phase == phase)
