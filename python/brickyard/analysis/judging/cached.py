"""Duty: whether the writes of a run were still going into caches, so that its rates are none that last.

A run is in doubt where it wrote too little to pass the caches that end its writes. On real storage that is four times
what they hold. A model, whose caches are known, is in no doubt where they were full before anything was measured, and
where less than a twentieth of what was measured can be in them: it reports what was at the run's end. A run is in doubt
as well where its rate fell by a fifth from the first half of the measurement to the second, by more than its intervals
vary (Mann and Whitney's test of both halves). One that was measured in steady state is in no doubt.

The headline of a run on models is marked where it is in doubt, or where a page cache answered its reads.

Refusal: nothing is measured longer here, and a cache that nobody knows of is not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from brickyard import bricks
from brickyard.analysis.figures.conditions import by_condition
from brickyard.analysis.figures.load_curve import HALVES_MIN
from brickyard.analysis.figures.reach import reached_bytes
from brickyard.analysis.figures.steady import State, steady
from brickyard.analysis.figures.totals import Totals, asked_stream, full_intervals
from brickyard.analysis.judging.page_cached import has_page_cache, page_cache_words
from brickyard.analysis.judging.repeated import repeated_reads
from brickyard.analysis.judging.sharing import Sharing, joined, shared
from brickyard.bricks import caches
from brickyard.schema import (
    BrickCaches,
    BrickMembers,
    Engine,
    IoPath,
    PageCache,
    PageCacheFacts,
    Unit,
    flushes,
    flushes_each_write,
    is_request,
    writes_data,
)
from brickyard.schema.plan import Phase, Plan, Stream, SyncMode
from brickyard.store import Interval, Record
from brickyard.units import format_percent, format_runs, format_size

CACHE_TIMES = 4
"""So many times the write cache must be written before a rate is one of what lies behind it: Overland's guide, 2007."""
CACHED_SHARE_MAX = 0.05
"""What memory takes or answers makes a rate faster by at least this share."""
FALL = 0.2  # SNIA's rule allows a range of 20 % around the mean of a steady window
SLOWER_Z = 1.96


@dataclass(frozen=True)
class Doubt:
    """Why a rate may not be the storage's own, and the share of it that is so all the same."""

    text: str
    lasting_share: float = 0.0


def doubt(record: Record) -> str | None:
    """Why the rate of a run that writes may be that of a cache; None where there is no reason to think so."""
    found = _doubt(record)
    return found.text if found else None


def not_lasting(record: Record) -> Doubt | None:
    """Why no requirement may rest on the figures of a run: writes that are still in a cache, or reads of what was never
    written. None where there is no reason to think so."""
    found = _doubt(record)
    if found:
        return Doubt(f"it may be a figure of a cache: {found.text}", found.lasting_share)
    taken = next((item for item in record.intervals if is_taken_by_memory(record, item)), None)
    if taken is not None:
        into = taken_by(record, taken)
        return Doubt(f"its writes went into {into} without flushes, so it is a figure of memory")
    if any(w.id == SMALLER_THAN_CACHE for w in record.info.warnings) and any(
        item.operation == "read" and item.bytes for item in record.intervals
    ):
        return Doubt("its reads may have come from the caches of the target, since it works in a small part of it")
    if (shares := sharing(record)) is not None:
        said = f"{shares.streams} streams {shares.do} the same blocks in order, so that caches may {shares.caches_may}"
        return Doubt(said, 1 / shares.streams)
    if (again := trimmed_again_share(record)) > CACHED_SHARE_MAX:
        return Doubt(f"{again_words(again)} of its trims were of blocks trimmed before", 1 - again)
    empty = empty_reads(record)
    if empty is None:
        return None
    return Doubt(empty.text, 1 - empty.share)


def sharing(record: Record) -> Sharing | None:
    """The most streams that go through the same blocks in order."""
    told = [item.wording for item in record.info.warnings if item.id == SHARED_BLOCKS]
    figures = [figure for wording in told if wording for figure in wording.figures.values()]
    streams = max((int(figure.most) for figure in figures if figure.unit is Unit.NUMBER), default=0)
    in_phases = (shared(phase) for phase in record.info.plan.phase if isinstance(phase, Phase))
    own = joined(found for found in in_phases if found)
    return replace(own, streams=streams) if streams > 1 else None


def is_taken_by_memory(record: Record, row: Totals | Interval) -> bool:
    """Measured writes that end in the page cache."""
    return bool(taken_by(record, row))


def taken_by(record: Record, row: Totals | Interval) -> str:
    """The page cache in which measured writes end, in words; empty where they end in none."""
    asked = asked_stream(record, row.phase, row.stream)
    if row.operation != "write" or not isinstance(asked, Stream) or flushes(asked):
        return ""
    return page_cache_words(record, asked.target) if has_page_cache(record, asked.target) else ""


def may_hand_over(record: Record) -> bool:
    """Whether writes into the page cache may have waited for a thread of the kernel (io_uring_enter(2): a request that
    can't be done without waiting is done by a worker)."""
    start = record.info.start
    return start is not None and start.io is IoPath.BUFFERED and start.engine is Engine.IO_URING


@dataclass(frozen=True)
class EmptyReads:
    """Reads that no medium answered, and why."""

    share: float
    text: str


def empty_reads(record: Record) -> EmptyReads | None:
    """What was never written, or trimmed by the run itself, where it is most; None where a run read less of it than
    matters, and where that is not known."""
    if not any(item.operation == "read" and item.bytes for item in record.intervals):
        return None
    told = [item for item in record.info.warnings if item.id in EMPTY and item.wording]
    found = [
        EmptyReads(float(figure.most), f"{format_percent(float(figure.most))} {EMPTY[item.id]}")
        for item in told
        if item.wording
        for figure in item.wording.figures.values()
        if figure.unit is Unit.SHARE_TENTHS
    ]
    most = max(found, key=lambda one: one.share, default=None)
    return most if most and most.share > CACHED_SHARE_MAX else None


NEVER_WRITTEN, TRIMMED_READS, BLANK = "unwritten", "trimmed_reads", "blank_blocks"
EMPTY = {
    NEVER_WRITTEN: "of what may be read was never written",
    TRIMMED_READS: "of what was read may have been trimmed by the run itself before",
    BLANK: "of the blocks that were looked at hold only zeros, as blocks do that were never written or were trimmed",
}
"""What they mean for reads."""
SMALLER_THAN_CACHE, SHARED_BLOCKS = "smaller_than_cache", "shared_blocks"
EMULATED, EMULATED_FAULT = "emulated", "emulated_fault"
WRITTEN_UNKNOWN = "unwritten_unknown"
TARGETS_TOLD = 3


def _doubt(record: Record) -> Doubt | None:
    phases = record.info.plan.phase
    found = [one for number, phase in enumerate(phases) if (one := _of_phase(record, number, phase))]
    return min(found, key=lambda one: one.lasting_share, default=None)


def _of_phase(record: Record, number: int, asked: object) -> Doubt | None:
    if not isinstance(asked, Phase) or asked.ramp:
        return None
    state = steady(record, number)
    if state is not None and state.state is State.HELD:
        return None
    written = [i for i in record.intervals if i.phase <= number and i.operation == "write" and i.measure == "service"]
    if not any(item.bytes for item in written if item.phase == number):
        return None
    held, is_modelled = held_bytes(record)
    before = sum(item.bytes for item in written if item.warmup or item.phase < number)
    all_of_it = sum(item.bytes for item in written)
    if held and is_modelled and before < held:
        measured = sum(item.bytes for item in written if item.phase == number and not item.warmup)
        inside = min(held - before, measured, _in_caches(record, number, asked, all_of_it))
        if inside > CACHED_SHARE_MAX * measured:
            what = f"{format_percent(inside / measured)} of the {format_size(measured)} that were written"
            were = "were still" if record.of(BrickCaches) else "may still be"
            return Doubt(f"{what} {were} in {format_size(held)} of cache when the run ended", 1 - inside / measured)
    elif held and not is_modelled and all_of_it < CACHE_TIMES * held and not _is_durable(asked):
        return Doubt(f"{format_size(all_of_it)} were written into {format_size(held)} of cache")
    if held == 0 and is_modelled:
        return None
    fell = _fell(record, number)
    if fell is None or fell <= FALL:
        return None
    # The second half may still be on its way down; it is at most so much of the whole.
    return Doubt(f"its rate fell by {format_percent(fell)} while it was measured", 1 - fell)


def _is_durable(asked: Phase) -> bool:
    """Whether each write has reached the medium when it ends, or its flush does: a cache ends none of them."""
    writing = [stream for stream in asked.stream if writes_data(stream)]
    return bool(writing) and all(map(flushes_each_write, writing))


def held_bytes(record: Record) -> tuple[int | None, bool]:
    """What the caches below a run's targets hold that end writes, as far as its record knows; and whether they are of a
    model."""
    info = record.info
    if info.is_modelled:
        found = bricks.resolved_of(info.targets, info.asked)
        opened = info.start.targets if info.start else []
        of_host = sum(_dirty_bytes(target.page_cache) for target in opened if target.page_cache)
        return (sum(caches.to_write_bytes(brick) for brick in found) + of_host if found else None), True
    known = [sheet.cache_bytes for sheet in info.facts.targets]
    return (sum(size for size in known if size) if known and None not in known else None), False


def _in_caches(record: Record, number: int, asked: Phase, written: int) -> float:
    """How much of all that a run wrote was in caches when it ended, as its model reports it; all of it where it reports
    nothing, or where other phases wrote later."""
    told = record.of(BrickCaches)
    later = any(i.phase > number and i.operation == "write" and i.bytes for i in record.intervals)
    if not told or later:
        return math.inf
    arms = {event.target: sum(m.written_bytes for m in event.members) for event in record.of(BrickMembers)}
    hosts = {event.target: event for event in record.of(PageCache)}
    # ZFS ends a durable write when its log has it; what is dirty then is no cache's rate.
    syncs = [stream.sync for stream in asked.stream if stream.operations.write]
    is_logged = bool(syncs) and SyncMode.NONE not in syncs
    inside = 0.0
    for event in told:
        shares = [
            event.drive_bytes / arms[event.target] if arms.get(event.target) else 0.0,
            event.controller_bytes / written if written else 0.0,
            event.memory_bytes / event.memory_dirtied_bytes if event.memory_dirtied_bytes and not is_logged else 0.0,
        ]
        if (host := hosts.get(event.target)) and host.dirtied_pages:
            shares.append(host.dirty_pages / host.dirtied_pages)
        # What one cache has given away may be in the next.
        inside = max(inside, 1 - math.prod(1 - min(1.0, share) for share in shares))
    return inside * written


def _from_memory(record: Record) -> float:
    """The largest share of pages that a modelled page cache answered reads with."""
    asked = [(event.read_pages, event.hits + event.misses) for event in record.of(PageCache)]
    return max((1 - read / pages for read, pages in asked if pages), default=0.0)


def mark(record: Record) -> str | None:
    """Why the headline of a run on models is not the storage's own; None where it is, and on real storage."""
    if not record.info.is_modelled:
        return None
    found = doubt(record)
    share = _from_memory(record)
    if found is None and share > CACHED_SHARE_MAX:
        return f"{format_percent(share)} of the pages that were read came from memory"
    return found


def marked_words(records: Sequence[Record]) -> list[str]:
    """What stands behind the rates of runs on models that may be those of caches."""
    found = [text for record in records if (text := mark(record))]
    if not found:
        return []
    if len(records) == 1:
        return [f"This may be the rate of a cache, which the storage does not sustain: {found[0]}."]
    whose = f"{len(found)} of {len(records)} runs"
    return [f"{whose} may show the rate of a cache, which the storage does not sustain (in one, {found[0]})."]


def unwritten_words(records: Sequence[Record]) -> list[str]:
    """What stands behind rates of reads that the medium did not answer."""
    found = {record.info.id: empty for record in records if (empty := empty_reads(record))}
    if not found:
        return []
    runs = "" if len(records) == 1 else f" in {format_runs(list(found))}"
    most = max(found.values(), key=lambda one: one.share)
    return [f"This is not the rate of the storage{runs}: {most.text}."]


def unknown_reads_words(records: Sequence[Record]) -> list[str]:
    """Of targets that may be as good as empty, such as a new or trimmed device."""
    found = [
        record
        for record in records
        if any(w.id == WRITTEN_UNKNOWN for w in record.info.warnings)
        and any(item.operation == "read" and item.bytes for item in record.intervals)
    ]
    if not found:
        return []
    targets = list(dict.fromkeys(path for record in found for path in record.info.targets))
    which = ", ".join(targets) if len(targets) <= TARGETS_TOLD else f"{len(targets)} targets"
    return [
        f"What share of {which} was ever written is not known, and reads of the rest reach no medium: on a new or "
        "trimmed device, the rate of reads is not that of the storage."
    ]


def _dirty_bytes(cache: PageCacheFacts) -> int:
    """What a modelled page cache holds before a writer waits for the device."""
    return int(cache.memory_bytes * cache.dirty_percent / 100)


def _fell(record: Record, phase: int) -> float | None:
    """As `_fell_within`, the most in any condition: a rebuild is no cache that fills."""
    found = (_fell_within(part, phase) for _, part in by_condition(record))
    return max((fell for fell in found if fell is not None), default=None)


def _fell_within(record: Record, phase: int) -> float | None:
    """By which share the requests of the second half are fewer than those of the first, if more than by chance."""
    spans = sorted(full_intervals(record, phase), key=lambda span: span.start_ns)
    if len(spans) < HALVES_MIN:
        return None
    requests: dict[int, int] = {}
    for item in record.intervals:
        if item.phase == phase and item.measure == "service" and is_request(item.operation):
            requests[item.start_ns] = requests.get(item.start_ns, 0) + item.requests
    half = len(spans) // 2
    first, last = ([requests.get(span.start_ns, 0) for span in part] for part in (spans[:half], spans[-half:]))
    return 1 - sum(last) / sum(first) if sum(first) and _is_slower(first, last) else None


def _is_slower(first: Sequence[int], last: Sequence[int]) -> bool:
    """Mann and Whitney's one-sided test at 2.5 %, by its normal approximation."""
    pairs = [(one > other) + (one == other) / 2 for one in first for other in last]
    variance = len(pairs) * (len(first) + len(last) + 1) / 12
    return sum(pairs) - len(pairs) / 2 >= SLOWER_Z * math.sqrt(variance)


def wrote(record: Record) -> bool:
    return any(item.operation == "write" and item.bytes for item in record.intervals)


def doubted(records: Iterable[Record]) -> dict[int, str]:
    """Runs whose rate may be that of a cache, with why; the one of which the least lasts comes first."""
    found = [(one.lasting_share, record.info.id, one.text) for record in records if (one := _doubt(record))]
    return {run: text for _, run, text in sorted(found)}


def unknown(records: Iterable[Record]) -> int:
    """How many runs wrote to storage whose caches nobody knows, were not measured until they were steady, and showed
    nothing that speaks of a cache: nothing tells whether their rates last."""
    return sum(map(_is_unknown, records))


def _is_unknown(record: Record) -> bool:
    return wrote(record) and not _is_steady(record) and held_bytes(record)[0] is None


CACHE_UNKNOWN = "cache_unknown"


def of_writes(record: Record) -> str | None:
    """Why the rate of a run's writes to real storage may be that of a cache; None where there is no reason to think so,
    and on models, whose headline is marked."""
    if record.info.is_modelled:
        return None
    if found := doubt(record):
        return found
    phases = record.info.plan.phase
    is_durable = all(isinstance(phase, Phase) and _is_durable(phase) for phase in phases)
    is_noted = any(warning.id == CACHE_UNKNOWN for warning in record.info.warnings)
    return "its size is not known" if is_noted and _is_unknown(record) and not is_durable else None


def of_reads(record: Record) -> str | None:
    """Why the rate of a run's reads of real storage may be that of a cache: it read more than the part that it worked
    in has, or the same blocks of it again and again, and nobody knows what is below, or that holds them. None where
    there is no reason to think so."""
    start, plan = record.info.start, record.info.plan
    if record.info.is_modelled or start is None or not isinstance(plan, Plan):
        return None
    if empty_reads(record):  # which is said, and more
        return None
    is_noted = any(warning.id == CACHE_UNKNOWN for warning in record.info.warnings)
    area = sum(reached_bytes(plan, number, target.data_bytes) for number, target in enumerate(start.targets))
    read = sum(i.bytes for i in record.intervals if i.operation == "read" and i.measure == "service")
    if is_noted and 0 < area < read:
        return f"{format_size(read)} were read of {format_size(area)}, and its size is not known"
    return _of_repeated_reads(record, is_noted=is_noted)


def _of_repeated_reads(record: Record, *, is_noted: bool) -> str | None:
    found = repeated_reads(record)
    if found is None:
        return None
    read, distinct = format_size(found.read_bytes), format_size(found.distinct_bytes)
    what = f"{read} were read of about {distinct}, since the addresses favour some blocks"
    if found.cache_bytes is None:
        return f"{what}, and its size is not known" if is_noted else None
    is_small = found.distinct_bytes < CACHE_TIMES * found.cache_bytes
    return f"{what}, and it has {format_size(found.cache_bytes)}" if is_small else None


def trimmed_again_share(record: Record) -> float:
    """The least share of a run's trims that hit blocks that it had trimmed before, and had not written since."""
    start, plan = record.info.start, record.info.plan
    moved = [item for item in record.intervals if item.measure == "service"]
    trimmed = sum(item.bytes for item in moved if item.operation == "trim")
    written = sum(item.bytes for item in moved if item.operation == "write")
    if start is None or not isinstance(plan, Plan) or not trimmed:
        return 0.0
    area = sum(reached_bytes(plan, number, target.data_bytes) for number, target in enumerate(start.targets))
    return max(0.0, 1 - (area + written) / trimmed)


def again_words(share: float) -> str:
    """A least share is not rounded up."""
    return f"at least {math.floor(share * 100)} %"


def _is_steady(record: Record) -> bool:
    found = [steady(record, number) for number, _ in enumerate(record.info.plan.phase)]
    return any(state is not None and state.state is State.HELD for state in found)


def words(found: dict[int, str], records: Sequence[Record], more: str) -> str:
    """What stands behind rates that may be those of caches, among all runs that were made; `more` says what would
    help."""
    among = sum(map(wrote, records))
    others = unknown(record for record in records if record.info.id not in found)
    said = []
    if found:
        whys = list(dict.fromkeys(found.values()))
        one = whys[0] if len(whys) == 1 else f"in the worst, {whys[0]}"
        said.append(f"{len(found)} of {among} runs that wrote may show the rate of a cache ({one})")
    if others:
        if found:
            said.append(f"{others} more may show it as well: the size of their write cache is not known")
        else:
            why = "the size of the write cache is not known"
            said.append(f"{others} of {among} runs that wrote may show the rate of a cache: {why}")
    text = ". ".join(said)
    return f"{text}{more}." if text else ""
