"""Duty: records → what a fit can use: single loads with their rates; and which of them are kept back to test the model.

Refusal: a load that has no counterpart on a modelled brick (buffered, paced, chained, ramped) is left out by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from brickyard import profiles
from brickyard.advise.fitting.rates import Course, Step, course, done_in, parts, step
from brickyard.analysis.figures.conditions import by_condition
from brickyard.analysis.figures.totals import Totals, rated_rows, totals
from brickyard.errors import BadInputError
from brickyard.schema import HeldCondition, in_flight_total, tag_of
from brickyard.schema.plan import (
    ClosedPace,
    IoMode,
    PermutationAddress,
    Phase,
    Plan,
    RandomAddress,
    SequentialAddress,
    Stream,
)
from brickyard.store import Record
from brickyard.units import format_size

READ, WRITE, MIXED = "read", "write", "mixed"
SEQUENTIAL = tag_of(SequentialAddress)
SCATTERED = tag_of(RandomAddress), tag_of(PermutationAddress)
"""Alike to a model, but that a permutation repeats no block before it has had all: it is simulated as one."""
ENOUGH_REQUESTS = 1_500  # a mean of random service times within about 1 %: their deviation is below half of it
FEWEST_REQUESTS = 16  # of which one more or less is 6 %
MOST_WRITES = 30_000  # beyond that a cache has shown what it does; the simulation need not go on
SHORTEST_S, LONGEST_S = 0.02, 60.0
PARTS = 8  # of a run whose rate changes; each is compared by itself
UNSTEADY = 1.15  # rate of the first part over that of the second half
NORMAL = str(HeldCondition.NORMAL)
INTERVALS_A_PART, MOST_INTERVALS = 5, 300  # of a simulation, so that it shows a step where there was one

LOAD = """title = "fit"
interval = "{interval}s"
[[phase]]
duration = "{seconds}s"
warmup = "{warmup}s"
[[phase.stream]]
operations = {{ read = {reads:g}, write = {writes:g} }}
request = {size}
address = "{address}"
region = "{region}"
workers = {workers}
depth = {depth}
sync = "{sync}"
"""


@dataclass(frozen=True)
class Seen:
    """One measured load: its shape, and what the brick did."""

    run: int
    address: str
    reads: float
    """Per cent."""
    request_bytes: int
    workers: int
    depth: int
    region: str
    sync: str
    seconds: float
    iops: float
    p90_ns: float
    p10_ns: float = 0.0
    parts: tuple[float, ...] = ()
    """Rates in equal parts of a run that was not steady; `seconds` and `iops` are then those of the whole of it."""
    step: Step | None = None

    @property
    def operation(self) -> str:
        return READ if self.reads == 100 else WRITE if self.reads == 0 else MIXED

    @property
    def is_random(self) -> bool:
        return self.address in SCATTERED

    @property
    def kind(self) -> str:
        durable = "durable " if self.is_durable else ""
        where = "random" if self.is_random else self.address
        return "mixes" if self.operation == MIXED else f"{durable}{where} {self.operation}s"

    @property
    def is_durable(self) -> bool:
        return self.sync != "none"

    @property
    def in_flight(self) -> int:
        return in_flight_total(self)

    @property
    def bytes_per_s(self) -> float:
        return self.iops * self.request_bytes

    @property
    def label(self) -> str:
        kind = self.operation if self.operation != MIXED else f"{self.reads:g} % reads"
        durable = "" if self.sync == "none" else f", {self.sync}"
        part = "" if self.region == WHOLE else f", {self.region}"
        return f"{self.address} {kind} {format_size(self.request_bytes)} × {self.in_flight}{durable}{part}"

    @cache  # noqa: B019  (a few dozen loads that live as long as the program)
    def plan(self, most_writes: int) -> Plan:
        """The same load, as long as it needs to be in virtual time: what changed in its course, as long as it was."""
        if self.parts:
            interval_s = self.seconds / (PARTS * INTERVALS_A_PART)
            if self.step:
                interval_s = min(interval_s, max(self.step.after_s / INTERVALS_A_PART, self.seconds / MOST_INTERVALS))
            return self._text(self.seconds, 0.0, interval_s)
        enough_s = ENOUGH_REQUESTS / self.iops
        wanted_s = enough_s if self.operation == READ else min(max(enough_s, self.seconds), most_writes / self.iops)
        seconds = min(max(wanted_s, SHORTEST_S), LONGEST_S)
        return self._text(seconds, seconds / 5, seconds)

    def _text(self, seconds: float, warmup_s: float, interval_s: float) -> Plan:
        text = LOAD.format(
            seconds=f"{seconds:.4f}",
            warmup=f"{warmup_s:.4f}",
            interval=f"{interval_s:.4f}",
            reads=self.reads,
            writes=100 - self.reads,
            size=self.request_bytes,
            address=self.address,
            region=self.region,
            workers=self.workers,
            depth=self.depth,
            sync=self.sync,
        )
        return profiles.validate(profiles.ProfileText("fit", text, ""), [])


WHOLE = "0B..100%"


def seen(record: Record) -> Seen | str:
    """What a run measured, or why a fit has no use for it."""
    plan = record.info.plan
    if record.info.outcome != "done":
        return f"run {record.info.id} did not come to its end"
    if not isinstance(plan, Plan):
        return f"run {record.info.id} is no load of the engine's"
    if len(plan.phase) != 1 or len(plan.phase[0].stream) != 1:
        return f"run {record.info.id} has more than one phase or stream"
    stream = plan.phase[0].stream[0]
    if reason := _unusable(plan, plan.phase[0], stream):
        return f"run {record.info.id}: {reason}"
    rows = rated_rows(totals(record))
    if not rows or not rows[0].is_rated or sum(row.iops for row in rows) <= 0:
        return f"run {record.info.id} has no rate"
    requests = sum(row.rated_requests for row in rows)
    if requests < FEWEST_REQUESTS:
        return f"run {record.info.id}: {requests} requests are too few for a rate; measure longer"
    taken = course(record)
    changing = unsteady(taken)
    whole_s = taken[-1][1] - taken[0][0] if taken else 0.0
    p10_ns, p90_ns = spread(rows)
    return Seen(
        run=record.info.id,
        address=tag_of(type(stream.address)),
        reads=stream.operations.read,
        request_bytes=stream.request[0].size,
        workers=stream.workers,
        depth=stream.depth,
        region=stream.region,
        sync=stream.sync,
        seconds=whole_s if changing else rows[0].rated_ns / 1e9,
        iops=done_in(taken) / whole_s if changing else sum(row.iops for row in rows),
        p90_ns=p90_ns,
        p10_ns=p10_ns,
        parts=changing,
        step=step(taken) if changing else None,
    )


def unsteady(taken: Course) -> tuple[float, ...]:
    """The rates in the parts of a run that slowed down, none where it did not or has too few intervals to tell."""
    if len(taken) < PARTS:
        return ()
    found = parts(taken, PARTS)
    return found if found[0] > UNSTEADY * fmean(found[PARTS // 2 :]) else ()


def spread(rows: Sequence[Totals]) -> tuple[float, float]:
    """The 10th and the 90th percentile of the service time; 0 where they are not known."""
    found = [row.service for row in rows if row.service is not None]
    p90_ns = max((figures.percentiles["p90"] or 0 for figures in found), default=0)
    p10_ns = min((figures.histogram.percentiles_ns([10.0])[0] for figures in found), default=0)
    return float(p10_ns), float(p90_ns)


def _unusable(plan: Plan, phase: Phase, stream: Stream) -> str | None:
    if plan.io is IoMode.BUFFERED:
        return "buffered: it measured the page cache"
    if phase.ramp or stream.chain or stream.program or stream.trace or stream.flush_every or stream.think:
        return "ramps, chains, programs, traces, flushes and pauses are not fitted to"
    if not isinstance(stream.pace, ClosedPace):
        return "an open loop shows its own rate, not the brick's"
    if stream.operations.read + stream.operations.write != 100 or len(stream.request) != 1:
        return "more than reads and writes of one size"
    if (address := tag_of(type(stream.address))) not in (SEQUENTIAL, *SCATTERED):
        return f"its addresses are {address}; models are fitted to {SEQUENTIAL}, {' and '.join(SCATTERED)} addresses"
    return None


@dataclass(frozen=True)
class Usable:
    """What can be fitted to, each load once (the latest run speaks), all in one condition; and what is left out, with
    reasons."""

    loads: list[Seen]
    records: list[Record]
    """All runs that can be fitted to, those of which a later one speaks among them."""
    condition: str
    in_others: list[str]
    """Runs that are left out since they are in other conditions, a sentence for each of these."""
    refused: list[str]


def usable(records: Iterable[Record]) -> Usable:
    """A model is one of storage in one condition: the normal one, wherever a run was in it."""
    found: list[tuple[Record, Seen]] = []
    refused = []
    for record in records:
        parts = list(dict.fromkeys(name for name, _ in by_condition(record)))
        if len(parts) > 1:
            refused.append(f"run {record.info.id} was left out: its condition changed ({', then '.join(parts)})")
            continue
        item = seen(record)
        if isinstance(item, str):
            refused.append(item)
        else:
            found.append((record, item))
    conditions = list(dict.fromkeys(record.info.condition for record, _ in found))
    if NORMAL not in conditions and len(conditions) > 1:
        named = ", ".join(map(condition_words, conditions))
        raise BadInputError(f"no run is in condition normal, but in {named}: name the runs of one condition")
    condition = NORMAL if NORMAL in conditions or not conditions else conditions[0]
    own = [(record, item) for record, item in found if record.info.condition == condition]
    latest = {item.label: item for _, item in own}
    for _, item in own:
        if (later := latest[item.label].run) != item.run:
            refused.append(f"run {item.run}: run {later}, of the same workload, is used instead")
    others = [_left_out(found, other, condition) for other in conditions if other != condition]
    return Usable(list(latest.values()), [record for record, _ in own], condition, others, refused)


def _left_out(found: Sequence[tuple[Record, Seen]], condition: str, used: str) -> str:
    runs = [str(item.run) for record, item in found if record.info.condition == condition]
    which = f"run {runs[0]} was" if len(runs) == 1 else f"runs {', '.join(runs)} were"
    other = condition_words(condition)
    return f"{which} left out: in condition {other}, and the fit is to runs in condition {condition_words(used)}"


def condition_words(condition: str) -> str:
    return condition.replace("_", " ")


def split(loads: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """Loads to fit to, and loads kept back. Of sizes and of depths the ends and every second one in between are fitted
    to, so that what is kept back lies between them. Of mixes one is fitted to, and of durable writes those that are
    sequential; the others and parts of the target are always kept back.
    """
    plain = [s for s in loads if s.operation != MIXED and s.sync == "none" and s.region == WHOLE]
    fitted = []
    for kind in dict.fromkeys((s.address, s.operation) for s in plain):
        group = [s for s in plain if (s.address, s.operation) == kind]
        sizes = _every_second(sorted({s.request_bytes for s in group}))
        for size in sorted({s.request_bytes for s in group}):
            of_size = sorted((s for s in group if s.request_bytes == size), key=lambda s: (s.in_flight, s.workers))
            depths = _every_second(sorted({s.in_flight for s in of_size}))
            fitted += [s for s in of_size if size in sizes and s.in_flight in depths]
    fitted += [s for s in loads if s.is_durable and s.address == "sequential" and s.in_flight == 1 and s.reads == 0][:1]
    mixes = [s for s in loads if s.operation == MIXED and s.sync == "none" and s.region == WHOLE]
    fitted += sorted(mixes, key=lambda s: (s.request_bytes, s.in_flight, s.label))[:1]
    if not any(s.step for s in fitted):
        fitted += [s for s in loads if s.step][:1]
    chosen = {s.label for s in fitted}
    return fitted, [s for s in loads if s.label not in chosen]


def _every_second(values: list[int]) -> set[int]:
    return set(values[::2]) | set(values[-1:])
