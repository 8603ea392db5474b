"""Duty: figures and the kernel's facts → findings: what was measured against what rotation and media allow. Pure.

Refusal: the word is "suspicious". A cache that survives a power cut is as fast as one that only pretends, and honest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from brickyard.honesty.figures import DirtyFigures, Figures, OverwriteFigures
from brickyard.schema.target_sheet import WriteCaches
from brickyard.units import MIB, format_counted, format_ns, format_size, three_digits

SUSPICIOUS, PLAUSIBLE, SILENT = "suspicious", "plausible", "no verdict"

FASTEST_ROTATION_PER_MIN = 15_000
"""The fastest disks ever sold in numbers (Seagate Cheetah X15, 2000, to Exos 15E900, 2017)."""
FASTEST_ROTATING_BYTES_PER_S = 554_000_000
"""Seagate Exos 2X18, two actuators, sustained on the outer tracks by its data sheet: the fastest rotating disk."""
FASTEST_PROGRAM_NS = 100_000
"""Programming a page of Z-NAND, the fastest NAND flash (Cheong et al., ISSCC 2018); usual flash takes far longer."""
TOLERANCE = 1.1  # speed tolerances, clocks and the choice of interval stay far below a tenth
GROWTH_MIN = 2.0  # a flush of 64 MiB that takes less than twice the time of an empty one has not grown

EITHER = (
    "Either the cache survives a power cut (power-loss protection, a battery: then this is honest),"
    " or flushes are not carried out. Only a power cut shows which of the two is true: `brickyard honesty write` "
    "with a recorder."
)


@dataclass(frozen=True)
class Finding:
    """One judgement in plain sentences with the figures in them."""

    id: str
    state: str
    text: str


def verdict(found: list[Finding]) -> str:
    """Suspicious if anything is; silent if nothing could be judged."""
    states = {finding.state for finding in found}
    return next((state for state in (SUSPICIOUS, PLAUSIBLE) if state in states), SILENT)


def findings(measured: Figures, facts: WriteCaches, *, protected: bool = False) -> list[Finding]:
    """`facts` as `write_cache_facts` gives them; `protected` is what the user knows of the cache from a data sheet."""
    found = list(_kernel(facts))
    medium = _medium(facts)
    if medium in ("rotating", "solid"):
        found += [*_overwrite(measured, facts, medium), *_latency(measured, facts), *_dirty(measured, facts, medium)]
    else:
        found.append(_unjudged(measured, facts, medium))
    found += _groups(measured)
    if measured.buffered_reason:
        text = f"I/O was buffered ({measured.buffered_reason}): plain writes went to memory, and a flush wrote them."
        found.append(Finding("buffered", SILENT, text))
    if measured.errors:
        text = (
            f"{format_counted(measured.errors, 'requests')} failed. All figures exclude them, so findings are weaker."
        )
        found.append(Finding("errors", SILENT, text))
    return [_forgiven(item) for item in found] if protected else found


def _medium(facts: WriteCaches) -> str:
    """What all drives below have in common; where kinds differ, the slowest is not the one that must be waited for."""
    kinds = {drive.medium for drive in facts.drives}
    for kind in ("memory", "virtual"):
        if kind in kinds:
            return kind
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "unknown"


def _names(facts: WriteCaches) -> str:
    names = [drive.name for drive in facts.drives]
    return names[0] if len(names) == 1 else f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}"


def _volatile(facts: WriteCaches) -> bool:
    return any(drive.write_cache == "write back" for drive in facts.drives)


def _kernel(facts: WriteCaches) -> Iterator[Finding]:
    for drive in facts.drives:
        name, cache, said = drive.name, drive.write_cache, drive.drive_cache_type
        fua = {True: "has FUA", False: "no FUA", None: "FUA unknown"}[drive.fua]
        if cache == "write through" and (said or "").startswith("write back"):
            text = (
                f"{name}: the drive reports its cache as {said}, but the kernel is set to treat it as write through, "
                f"so it sends no flushes: a power cut loses the data in an unprotected cache."
            )
            yield Finding("kernel_overruled", SUSPICIOUS, text)
        elif cache == "write back":
            text = (
                f"{name}: the kernel reports a volatile write cache (write back, {fua}). A write is safe only after "
                f"a flush, and only if the drive carries flushes out."
            )
            yield Finding("kernel_write_back", SILENT, text)
        elif cache == "write through":
            text = (
                f"{name}: the kernel reports no volatile write cache (write through, {fua}) and sends no flushes. By "
                f"this report, acknowledged writes are safe, as with a drive without a cache or with power-loss "
                f"protection."
            )
            yield Finding("kernel_write_through", SILENT, text)
        else:
            yield Finding(
                "kernel_unknown", SILENT, f"{name}: the kernel does not report whether there is a write cache."
            )
    if facts.no_barrier:
        text = (
            "The file system is mounted without barriers: its flushes do not reach the drive, and a power cut loses the"
            " data in an unprotected cache."
        )
        yield Finding("no_barrier", SUSPICIOUS, text)


def _unjudged(measured: Figures, facts: WriteCaches, medium: str) -> Finding:
    rate = ""
    if measured.overwrite:
        fastest, ways = _durable(measured.overwrite)
        block = format_size(measured.overwrite.request_bytes)
        rate = f" one block of {block} was overwritten durably up to {three_digits(fastest)} times per second ({ways});"
    said = {
        "virtual": f"{_names(facts)} is a virtual disk:{rate} its figures are no evidence about the disks of its "
        f"host, whose caches and flushes cannot be seen from here. Ask the operator of the host, or "
        f"measure on the host.",
        "memory": f"{_names(facts)} is in memory:{rate} its data do not survive a power cut.",
        "mixed": f"{_names(facts)} are of different kinds:{rate} no limit of one kind applies to all of them.",
    }
    why = facts.reason or "its kind is not known"
    other = f"No drive can be judged ({why}):{rate} there is no limit to compare this with."
    text = said.get(medium, other)
    return Finding("not_judged", SILENT, text)


def _rotation(facts: WriteCaches) -> tuple[int, str]:
    known = [drive.rotation_per_min for drive in facts.drives if drive.rotation_per_min]
    if known and len(known) == len(facts.drives):
        fastest = max(known)
        return fastest, f"at {fastest:,} rpm"
    fastest = FASTEST_ROTATION_PER_MIN
    return fastest, f"at {fastest:,} rpm, taken as the upper bound because the drive's own speed is not known"


def _durable(figures: OverwriteFigures) -> tuple[float, str]:
    """The rate of the faster way to make a write durable, and those of both."""
    ways = f"{three_digits(figures.durable_per_s)} with flushes" + (
        f", {three_digits(figures.dsync_per_s)} with O_DSYNC" if figures.dsync_per_s is not None else ""
    )
    return max(figures.durable_per_s, figures.dsync_per_s or 0.0), ways


def _overwrite(measured: Figures, facts: WriteCaches, medium: str) -> Iterator[Finding]:
    figures = measured.overwrite
    if figures is None:
        return
    rate, ways = _durable(figures)
    times = f"{three_digits(rate)} times per second ({ways})"
    said = f"{format_size(figures.request_bytes)} was overwritten durably {times}"
    if medium == "rotating":
        rotation, how = _rotation(facts)
        limit = rotation / 60
        bound = f"a block passes under the head {three_digits(limit)} times per second {how}"
        if rate > limit * TOLERANCE:
            text = f"{said}, but {bound}: {three_digits(rate / limit)} times too fast for the platter."
            yield Finding("overwrite_rate", SUSPICIOUS, f"{text} {EITHER}")
        else:
            yield Finding("overwrite_rate", PLAUSIBLE, f"{said}; {bound}, so every one may have reached the platter.")
        return
    each_ns = 1e9 / rate if rate else 0.0
    if not _volatile(facts):
        text = (
            f"{said}. No volatile cache was found, so the drive may answer as soon as a protected cache has the data;"
            " speed alone is no evidence against it."
        )
        yield Finding("overwrite_rate", PLAUSIBLE, text)
    elif 0 < each_ns < FASTEST_PROGRAM_NS:
        text = (
            f"{said}, {format_ns(each_ns)} each, but programming flash takes at least "
            f"{format_ns(FASTEST_PROGRAM_NS)}, and the drive reports its cache as volatile."
        )
        yield Finding("overwrite_rate", SUSPICIOUS, f"{text} {EITHER}")
    else:
        text = f"{said}, {format_ns(each_ns)} each; programming flash takes at least {format_ns(FASTEST_PROGRAM_NS)}."
        yield Finding("overwrite_rate", PLAUSIBLE, text)


def _latency(measured: Figures, facts: WriteCaches) -> Iterator[Finding]:
    figures = measured.overwrite
    if figures is None:
        return
    said = f"A flush takes {format_ns(figures.flush_ns)} on average, a plain write {format_ns(figures.plain_write_ns)}"
    if not _volatile(facts):
        text = f"{said}; without a volatile cache, the kernel sends no flush to the drive, so a flush may cost nothing."
        yield Finding("flush_latency", PLAUSIBLE, text)
    elif measured.buffered_reason:
        yield Finding(
            "flush_latency", SILENT, f"{said}; the plain write went to memory, so the two cannot be compared."
        )
    elif figures.flush_ns <= figures.plain_write_ns:
        text = (
            f"{said}: bringing the data from the cache to the medium takes no longer than bringing them to the cache."
        )
        yield Finding("flush_latency", SUSPICIOUS, f"{text} {EITHER}")
    else:
        ratio = three_digits(figures.flush_ns / figures.plain_write_ns) if figures.plain_write_ns else "–"
        yield Finding(
            "flush_latency",
            PLAUSIBLE,
            f"{said}: {ratio} times as long, as expected when data go from a cache to its medium.",
        )


def _dirty(measured: Figures, facts: WriteCaches, medium: str) -> Iterator[Finding]:
    if not measured.dirty:
        return
    most, growth = measured.dirty[-1], _growth(measured.dirty)
    if not most.dirty_bytes:
        return
    grown = (
        f"{three_digits(growth)} times the {format_ns(measured.dirty[0].flush_ns)} of the smallest"
        if growth
        else "alone"
    )
    said = (
        f"After {format_size(most.dirty_bytes)} a flush takes {format_ns(most.flush_ns)}, {grown}; writes and flush "
        f"together reach {three_digits(most.bytes_per_s / MIB)} MiB/s"
    )
    if medium != "rotating":
        yield Finding(
            "flush_growth", SILENT, f"{said}. The write rate of the flash is not known, so this shows nothing."
        )
        return
    limit = FASTEST_ROTATING_BYTES_PER_S * len(facts.drives)
    bound = f"the fastest rotating disks write at most {three_digits(limit / MIB)} MiB/s"
    if most.bytes_per_s > limit * TOLERANCE and (growth is None or growth < GROWTH_MIN):
        text = f"{said}, but {bound}, and the flush has not grown with the data."
        yield Finding("flush_growth", SUSPICIOUS, f"{text} {EITHER}")
    elif most.bytes_per_s > limit * TOLERANCE:
        text = f"{said}, but {bound}: only a part of it can have been on the medium."
        yield Finding("flush_growth", SUSPICIOUS, f"{text} {EITHER}")
    else:
        yield Finding("flush_growth", PLAUSIBLE, f"{said}; {bound}.")


def _growth(dirty: list[DirtyFigures]) -> float | None:
    """How many times longer the flush of the most data takes than that of the least."""
    first = dirty[0].flush_ns
    return dirty[-1].flush_ns / first if len(dirty) > 1 and first > 0 else None


def _groups(measured: Figures) -> Iterator[Finding]:
    if len(measured.groups) < 2:
        return
    first, last = measured.groups[0], measured.groups[-1]
    if first.writes_per_s <= 0:
        return
    gain = last.writes_per_s / first.writes_per_s
    what = f"grouping gains a factor of {three_digits(gain)}" if gain > 1 else "grouping gains nothing"
    text = (
        f"A log makes {three_digits(last.writes_per_s)} writes/s with a flush after {last.writes:,} writes, and "
        f"{three_digits(first.writes_per_s)} with a flush after each write: {what}."
    )
    yield Finding("group_commit", SILENT, text)


def _forgiven(item: Finding) -> Finding:
    if item.state != SUSPICIOUS:
        return item
    measured = item.text.removesuffix(EITHER).rstrip()
    text = f"{measured} Since the cache survives a power cut (--protected), this is fast and honest."
    return Finding(item.id, PLAUSIBLE, text)
