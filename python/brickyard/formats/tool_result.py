"""Duty: what another tool printed of a run (diskspd, Iometer, elbencho) → the events of a run in the store.

Means, extremes and percentiles stay those that the tool printed (event `imported`), and a rate stays the one that it
printed: where it printed counts, a rate and a time, the time is the count over the rate, if both agree.

Refusal: no percentile that the tool did not print is known, and operations that it printed together stay together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_units import LARGEST
from brickyard.formats.profile_parts import Address, Limits, ProfilePhase, ProfileStream
from brickyard.schema import (
    CellEvent,
    CellEventMeasures,
    Counted,
    Cpu,
    End,
    Engine,
    EngineOfImport,
    Event,
    Imported,
    Interval,
    IoPath,
    Measure,
    PhaseEnd,
    PhaseReason,
    PhaseStart,
    RunFacts,
    RunOutcome,
    RunWarning,
    Start,
    Timed,
    in_flight_total,
    read_plan,
    warned,
)
from brickyard.schema.plan import ClosedPace, OtherKind, OtherPhase, OtherPlan, OtherStream, Plan
from brickyard.store import Store
from brickyard.store.record import OTHER_TOOLS

SECONDS_MAX, AT_ONCE_MAX = 3e8, 1 << 24  # ten years, and more requests in flight than any host keeps
FIELD, PLACE = re.compile(r"missing required field `([^`]+)`"), re.compile(r"(?:at|in) `\$\.?([^`]+)`")
"""How msgspec names what it refuses."""
AGREE_SHARE = 0.005
"""A count over a printed rate and a printed time differ by their digits alone; by more, they are not of one span."""
PERCENTILES = warned(
    "tool-percentiles",
    "note",
    "The tool printed percentiles and no distribution; these are its own figures, nothing is known between them.",
)
MEANS = warned(
    "tool-means",
    "note",
    "The tool printed means and maxima of latency, and no percentiles; none are known.",
)
NO_TIMES = warned("tool-no-times", "note", "The tool printed no latencies.", "diskspd does with -L")


@dataclass(frozen=True)
class PrintedTimes:
    """Latencies from submission to completion, as they were printed."""

    mean_ns: float
    max_ns: int
    min_ns: int | None = None
    percentiles: dict[float, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Moved:
    """One operation of a phase. `requests` are successes."""

    operation: Counted
    requests: int
    bytes: int
    errors: int = 0
    times: PrintedTimes | None = None


@dataclass(frozen=True)
class Ends:
    """What ends a phase, seconds or bytes, and the part of the target in which it works: all of it from its start,
    without a length."""

    seconds: int | None = None
    bytes: int | None = None
    region_bytes: int | None = None
    start_bytes: int = 0

    @property
    def region(self) -> str | None:
        """As a profile has it."""
        return toml_text.region(self.start_bytes, self.region_bytes)


@dataclass(frozen=True)
class PrintedLoad:
    """What was asked of the storage, as far as it was printed."""

    size_bytes: int | None = None
    reads: float | None = None
    """Per cent."""
    address: Address | None = None
    workers: int | None = None
    depth: int | None = None
    ends: Ends | None = None
    """None where it was not printed."""
    align_bytes: int | None = None
    is_closed: bool = False
    """Whether each request follows the end of another; false where it is not known."""

    @property
    def align(self) -> str | None:
        """As a profile has it."""
        return None if self.align_bytes is None else toml_text.size(self.align_bytes)


@dataclass(frozen=True)
class Printed:
    """A phase."""

    name: str
    seconds: float
    asked: PrintedLoad
    moved: list[Moved]


@dataclass(frozen=True)
class ToolResult:
    tool: str
    """As `OTHER_TOOLS` has it."""
    version: str
    began_unix_ns: int
    targets: list[str]
    io: str
    """`direct`, `buffered` or, where it was not printed, empty."""
    phases: list[Printed]
    profile: str = ""
    """A profile that asks for the same, one stream a phase; empty where none can."""
    notes: tuple[str, ...] = ()
    unclear: str = ""
    """Why there is no profile, where the result says more than that something was not printed."""


def garbled(tool: str, error: Exception) -> BadInputError:
    """What to say where a parser has refused a result; its own words would tell the user nothing."""
    if isinstance(error, BadInputError):
        return error
    said = str(error.args[0]) if isinstance(error, KeyError) else ""
    if isinstance(error, msgspec.ValidationError):
        found = (PLACE.search(str(error)), FIELD.search(str(error)))
        said = ".".join(part[1] for part in found if part)
    said = f"`{said}`" if said else "a value"
    return BadInputError(
        f"not a result as {OTHER_TOOLS[tool]} writes it: {said} is missing or garbled; import the file as "
        f"{OTHER_TOOLS[tool]} wrote it"
    )


def span_s(requests: int, rate_per_s: float, printed_s: float) -> float:
    """The time that the printed rate is over."""
    if not rate_per_s or not requests:
        return printed_s
    found = requests / rate_per_s
    return found if not printed_s or abs(found / printed_s - 1) <= AGREE_SHARE else printed_s


def ns_of(milliseconds: str | float) -> int:
    return count_of(round(float(milliseconds) * 1e6))


def count_of(text: str | float) -> int:
    number = int(text)
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{text} is not a count")
    return number


def profile_of(tool: str, name: str, io: str, phases: Sequence[Printed]) -> str:
    """Empty where what was printed does not say all of a load."""
    made: list[ProfilePhase] = []
    for phase in phases:
        asked = phase.asked
        if asked.ends is None or asked.size_bytes is None or asked.reads is None or asked.address is None:
            return ""
        ends = asked.ends
        stream = ProfileStream(
            name=phase.name,
            operations=toml_text.operations(asked.reads),
            request=toml_text.size(asked.size_bytes),
            align=asked.align,
            address=asked.address,
            workers=asked.workers or 1,
            depth=asked.depth or 1,
            region=ends.region,
        )
        lasts = None if ends.seconds is None else f"{ends.seconds}s"
        moves = None if ends.bytes is None else toml_text.size(ends.bytes)
        made.append(ProfilePhase(phase.name, Limits(duration=lasts, bytes=moves), [stream]))
    try:
        said = OTHER_TOOLS[tool]
        top = {"io": io} if io else {}
        return toml_text.profile_text(name, f"{said}: {name}", f"result of {said}", [], made, **top)
    except BadInputError:
        return ""


def store_result(store: Store, result: ToolResult, text: str, *, profile: str) -> tuple[int, bool]:
    """The number of the run that a result became, and whether it was stored before."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    ids = [head.id for head in store.heads() if head.start_unix_ns == result.began_unix_ns]
    known = next((run.id for run in store.runs(ids) if run.profile_hash == digest), None)
    if known is not None:
        return known, True
    _check(result)
    events = list(_events(result))
    end_ns = max(event.end_ns for event in events if isinstance(event, PhaseEnd))
    run = store.add_run(
        profile=profile,
        profile_hash=digest,
        plan=_plan(result),
        condition="normal",
        targets=result.targets or [result.tool],
        options={},
        software_version=f"{OTHER_TOOLS[result.tool]} {result.version}".rstrip(),
        facts=RunFacts(),
    )
    store.add_events(run, events)
    store.end_run(run, End(end_ns=end_ns, outcome=RunOutcome.DONE), None, _warnings(result))
    return run, False


def _check(result: ToolResult) -> None:
    said = OTHER_TOOLS[result.tool]
    every = [moved for phase in result.phases for moved in phase.moved]
    if not any(moved.requests for moved in every):
        raise BadInputError(f"the result of {said} has no request")
    counts = [count for moved in every for count in (moved.requests, moved.bytes, moved.errors)]
    counts += [one.max_ns for moved in every if (one := moved.times)]
    asked = [count or 0 for phase in result.phases for count in (phase.asked.workers, phase.asked.depth)]
    is_possible = sum(counts) <= LARGEST and max(asked) <= AT_ONCE_MAX
    is_possible &= all(0 < phase.seconds < SECONDS_MAX for phase in result.phases)
    if not is_possible or not 0 <= result.began_unix_ns <= LARGEST * 2 - 1:
        raise BadInputError(f"the result of {said} has a number that no run can have")


def _warnings(result: ToolResult) -> list[RunWarning]:
    times = [moved.times for phase in result.phases for moved in phase.moved if moved.times is not None]
    found = [warned(f"tool-note-{n}", "note", "{said}", said=said) for n, said in enumerate(result.notes, 1)]
    if any(one.percentiles for one in times):
        found.append(PERCENTILES)
    if not times:
        found.append(NO_TIMES)
    return [*found, MEANS] if any(not one.percentiles for one in times) else found


def _plan(result: ToolResult) -> Plan | OtherPlan:
    if result.profile:
        plan = read_plan(_core.validate(result.profile, []))
        if [len(phase.stream) for phase in plan.phase] == [1] * len(result.phases):
            return plan
    said = OTHER_TOOLS[result.tool]
    phases = [OtherPhase(name=phase.name, stream=[_stream(phase)]) for phase in result.phases]
    names = ", ".join(phase.name for phase in result.phases)
    return OtherPlan(
        kind=OtherKind.IMPORT,
        title=f"{said}: {names}"[:200],
        source=f"result of {said}",
        about=f"Imported from a result of {said}.",
        seed=0,
        phase=phases,
    )


def _stream(phase: Printed) -> OtherStream:
    asked = phase.asked
    options = {} if asked.size_bytes is None else {"request": toml_text.size(asked.size_bytes)}
    if asked.address is not None:
        options["address"] = toml_text.address_words(asked.address)
    if asked.align is not None:
        options["align"] = asked.align
    shares = None if asked.reads is None else {"read": asked.reads, "write": 100 - asked.reads}
    return OtherStream(
        name=phase.name,
        operations=shares,
        region=None if asked.ends is None else asked.ends.region,
        workers=asked.workers,
        depth=asked.depth,
        pace=ClosedPace() if asked.is_closed else None,
        options=options or None,
    )


def _events(result: ToolResult) -> Iterable[Event]:
    yield Start(
        start_unix_ns=result.began_unix_ns,
        engine=Engine(result.tool),
        engine_reason=EngineOfImport(version=result.version),
        io=IoPath(result.io or IoPath.UNKNOWN),
        targets=[],
    )
    at_ns, none = 0, Cpu(user_ns=0, system_ns=0)
    for number, phase in enumerate(result.phases):
        end_ns = at_ns + max(1_000_000, round(phase.seconds * 1e9))
        moved = [one for one in phase.moved if one.requests or one.errors]
        in_flight = in_flight_total(phase.asked)
        yield PhaseStart(phase=number, name=phase.name, start_ns=at_ns)
        yield from (_imported(number, one, one.times) for one in moved if one.times is not None)
        yield Interval(
            phase=number,
            index=0,
            start_ns=at_ns,
            end_ns=end_ns,
            warmup=False,
            drain=False,
            cells=[_cell(one, in_flight) for one in moved],
            cpu=none,
            loop_busy_share=0.0,
        )
        errors = sum(one.errors for one in moved)
        yield PhaseEnd(
            phase=number,
            end_ns=end_ns,
            reason=PhaseReason.REQUESTS,
            unsent=0,
            outstanding=0,
            errors_by_errno={"unknown": errors} if errors else {},
            errors_by_kind={},
            slowest=[],
            generator_bound=False,
            cpu=none,
            loop_busy_share=0.0,
        )
        at_ns = end_ns


def _imported(phase: int, moved: Moved, times: PrintedTimes) -> Imported:
    return Imported(
        phase=phase,
        stream=0,
        operation=moved.operation,
        measure=Timed.SERVICE,
        mean_ns=times.mean_ns,
        min_ns=times.min_ns,
        max_ns=times.max_ns,
        percentiles={f"p{share:.10g}": value for share, value in times.percentiles.items()},
        has_bins=False,
    )


def _cell(moved: Moved, in_flight: int) -> CellEvent:
    return CellEvent(
        stream=0,
        operation=moved.operation,
        requests=moved.requests,
        bytes=moved.bytes,
        errors=moved.errors,
        depth_max=in_flight,
        measures=CellEventMeasures(service=_measure(moved)),
    )


def _measure(moved: Moved) -> Measure | None:
    if moved.times is None or not moved.requests:
        return None
    histogram = _core.Histogram.of_counts(_pairs(moved.times, moved.requests))
    p50, p99 = histogram.percentiles_ns([50.0, 99.0])
    return Measure(
        mean_ns=moved.times.mean_ns, p50_ns=p50, p99_ns=p99, max_ns=moved.times.max_ns, histogram=histogram.text()
    )


def _pairs(times: PrintedTimes, requests: int) -> list[tuple[int, int]]:
    """All that lies between two percentiles stands at the upper one, so that each reads as it was printed; without
    percentiles, one request took the longest and the others the mean, which no figure is read from."""
    if not times.percentiles:
        return [pair for pair in ((round(times.mean_ns), requests - 1), (times.max_ns, 1)) if pair[1]]
    pairs, placed = [], 0
    for share, value in [*sorted(times.percentiles.items()), (100.0, times.max_ns)]:
        upto = round(requests * share / 100)
        pairs.append((value, max(0, upto - placed)))
        placed = max(placed, upto)
    return [pair for pair in pairs if pair[1]]
