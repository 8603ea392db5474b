"""Warnings about the run itself: its generator and its failures.

Duty: rules over events. Refusal: nothing about host or device; those are `caveats_site`. How steady a run was is
judged by `analysis.steadiness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from brickyard.schema import CHAINS, Bound, bound_of
from brickyard.units import format_count, format_ns, format_percent

from .roots import Json

# Above this a record says `overloaded`: one request in a hundred that was due was never sent.
UNSENT_SHARE_MAX = 0.01
# Verification samples the data: where it looked at less than a tenth, nine in ten blocks may be damaged unseen.
CHECKED_SHARE_MIN = 0.10

# Where the storage has half of the requests at most, the figures are those of another depth on every scale of depths,
# which go up by doubling.
DEPTH_REACHED_SHARE = 0.5

NO_ROOM = ("ENOSPC", "EDQUOT")
NO_DESCRIPTORS = ("EMFILE", "ENFILE")

DAMAGE_WORDS = {
    "bits": "changed bits",
    "torn": "blocks torn between two writes",
    "misplaced": "blocks from elsewhere",
    "stale": "blocks of an older write",
    "unwritten": "no stamp: overwritten by something else or never written",
}
"""What verification found, by the core's name for it."""


def item(identifier: str, severity: str, text: str, remedy: str) -> Json:
    return {"id": identifier, "severity": severity, "text": text, "remedy": remedy}


def rows(record: Json, key: str) -> list[Json]:
    value = record.get(key)
    if isinstance(value, dict):
        return [value]
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def section(value: Any, *keys: str) -> Json:
    """A nested dictionary, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def is_replay(record: Json) -> bool:
    return section(record, "plan").get("kind") == "replay"


def asked(record: Json) -> str:
    return "calls" if is_replay(record) else "requests"


def simulated(record: Json) -> bool:
    return section(record, "start").get("engine") == "sim"


def cell_sum(interval: Json, key: str) -> int:
    if key in interval:
        return int(interval[key] or 0)
    # Requests of chains and frames are counted by operation; these count whole ones beside them.
    return sum(int(cell.get(key) or 0) for cell in rows(interval, "cells") if cell.get("operation") not in CHAINS)


def phase_name(record: Json, index: int) -> str:
    phases = rows(section(record, "start"), "phases") or rows(section(record, "plan"), "phase")
    name = phases[index].get("name") if 0 <= index < len(phases) else None
    return f"phase {name}" if name else f"phase {index + 1}"


def total_requests(record: Json, phase: int | None = None) -> int:
    return sum(
        cell_sum(interval, "requests")
        for interval in rows(record, "intervals")
        if phase is None or int(interval.get("phase") or 0) == phase
    )


def debug_build(record: Json) -> Iterator[Json]:
    if record.get("release_build") is False:
        yield item(
            "debug_build",
            "warning",
            "The program is a debug build, whose own cost for a request is many times that of a release.",
            "Build with `make` or `maturin develop --release` and measure again.",
        )


def failures(record: Json) -> Iterator[Json]:
    by_name: dict[str, int] = {}
    damage: dict[str, int] = {}
    counted = 0
    for end in rows(record, "phase_ends"):
        errnos, kinds = section(end, "errors_by_errno"), section(end, "errors_by_kind")
        # An error with an errno is in both counts.
        counted += max(sum(map(int, errnos.values())), sum(map(int, kinds.values())))
        for name, count in {**{k: v for k, v in kinds.items() if k != "errno"}, **errnos}.items():
            of = damage if name in DAMAGE_WORDS else by_name
            of[name] = of.get(name, 0) + int(count)
    intervals = sum(cell_sum(interval, "errors") for interval in rows(record, "intervals"))
    damaged = sum(damage.values())
    count = max(counted, intervals, int(section(record, "totals").get("errors") or 0)) - damaged
    if damaged:
        kinds_found = ", ".join(f"{DAMAGE_WORDS[name]}: {number}" for name, number in sorted(damage.items()) if number)
        yield item(
            "damage",
            "warning",
            f"{damaged} damaged blocks were read, with other data than what was written ({kinds_found}); the requests "
            "that read them are in no throughput figure.",
            "Do not trust this storage with data before the cause is known; the errors name each offset.",
        )
    if count > 0:
        names = ", ".join(f"{name} {number}" for name, number in sorted(by_name.items()) if number)
        good = int(section(record, "totals").get("requests") or total_requests(record))
        lacking = sum(by_name.get(name, 0) for name in NO_ROOM)
        # A device has no room where it is provisioned thinly, or compresses.
        places = {str(target.get("kind")) for target in rows(section(record, "start"), "targets")}
        full_words = "The device had no room left: " if places == {"block"} else "The file system was full: "
        lacks = any(by_name.get(name) for name in NO_DESCRIPTORS)
        is_full = 2 * lacking > sum(by_name.values())
        yield item(
            "no_room" if is_full else "errors",
            "warning",
            f"{'No more files may be open: ' if lacks else full_words if is_full else ''}{count} {asked(record)} failed"
            f"{f' ({names})' if names else ''} beside {good} that succeeded; they are in no throughput figure.",
            failure_remedy(record, is_full=is_full, lacks_descriptors=lacks, count=count),
        )


def failure_remedy(record: Json, *, is_full: bool, lacks_descriptors: bool = False, count: int = 0) -> str:
    if is_replay(record):
        return "Look at the failed calls by SQLSTATE, and at the server's log, before comparing this run with another."
    if simulated(record):
        cut = sum(int(event.get("failed_requests") or 0) for event in rows(record, "power_cuts"))
        if cut and count <= cut:
            return "The power cut failed them: they were under way. Leave power_cut_at out to run without one."
        return (
            "A model fails requests to data that are lost: more members failed (fail_at) than the level bears. Choose "
            "a level with more redundancy, or spares and failures further apart."
        )
    if lacks_descriptors:
        return "That is a limit of this process, not of the storage: raise it, such as with `ulimit -n 65536`."
    if is_full:
        return "Free some room, or use fewer or smaller files or a smaller --size, and measure again."
    return "Look at the errors with their offsets, and at the kernel's log, before comparing this run with another."


def seconds_of(at_ns: int) -> str:
    return f"{at_ns / 1e9:,.3f}".rstrip("0").rstrip(".")


def never_failed(record: Json) -> Iterator[Json]:
    """Failures of a modelled brick that come after the run's end."""
    ended_ns = max((int(interval.get("end_ns") or 0) for interval in rows(record, "intervals")), default=0)
    late = [at_ns for at_ns in record.get("failures_ns") or [] if at_ns >= ended_ns]
    if late:
        when = ", ".join(f"{seconds_of(at_ns)} s" for at_ns in late)
        yield item(
            "never_failed",
            "warning",
            f"The run ended after {seconds_of(ended_ns)} s, so what was to fail at {when} never failed.",
            "Let the run last longer, such as --set duration=5min, or let members fail earlier by fail_at.",
        )


def never_cut(record: Json) -> Iterator[Json]:
    """A power cut of a modelled brick that comes after the run's end."""
    ended_ns = max((int(interval.get("end_ns") or 0) for interval in rows(record, "intervals")), default=0)
    late = [at_ns for at_ns in record.get("power_cuts_ns") or [] if at_ns >= ended_ns]
    if late and not rows(record, "power_cuts"):
        when = ", ".join(f"{seconds_of(at_ns)} s" for at_ns in late)
        yield item(
            "never_cut",
            "warning",
            f"The run ended after {seconds_of(ended_ns)} s, so the power that was to fail at {when} never failed.",
            "Let the run last longer, such as --set duration=5min, or let the power fail earlier by power_cut_at.",
        )


def hangs(record: Json) -> Iterator[Json]:
    found = rows(record, "hangs")
    if found:
        longest = max(int(hang.get("outstanding_ns") or 0) for hang in found)
        yield item(
            "hung_requests",
            "warning",
            f"{len(found)} requests hung; the longest was named when it had been outstanding for {format_ns(longest)}.",
            "Look for resets and timeouts of the device in the kernel's log.",
        )
    left = sum(int(end.get("outstanding") or 0) for end in rows(record, "phase_ends"))
    if left:
        yield item(
            "outstanding",
            "warning",
            f"{left} {asked(record)} had not come back when the run ended; what became of them is not known.",
            "Let the run drain instead of interrupting it twice, or look for a "
            f"{'server' if is_replay(record) else 'device'} that no longer answers.",
        )


def generator(record: Json) -> Iterator[Json]:
    for end in rows(record, "phase_ends"):
        if end.get("generator_bound"):
            words, remedy = _bound_words(record)(end)
            yield item(
                "generator_bound",
                "warning",
                f"In {phase_name(record, int(end.get('phase') or 0))} {words}.",
                remedy,
            )


def _bound_words(record: Json) -> Callable[[Json], tuple[str, str]]:
    kind = section(record, "plan").get("kind")
    return {"replay": driver_words, "load": loader_words, "pgbench": pgbench_words}.get(str(kind), generator_words)


def driver_words(end: Json) -> tuple[str, str]:
    """The same of a replay's drivers, which are one thread each."""
    why = "a driver used a whole core" if bound_of(end) is Bound.CPU else "a driver waited for its log"
    return (
        f"the drivers were the limit, not the database: {why}",
        "Use more drivers, and read the figures as a lower bound.",
    )


def loader_words(_: Json) -> tuple[str, str]:
    """The same of the loader, whose threads share one core."""
    return (
        "the loader was the limit, not the database: it used all of the one core that it can use",
        "Load from several hosts, and read the figures as a lower bound.",
    )


def pgbench_words(_: Json) -> tuple[str, str]:
    """The same of pgbench."""
    return (
        "pgbench was the limit, not the database: its threads used nearly all of their time on processors",
        "Give it more threads (--set threads=4), and read the figures as a lower bound.",
    )


def generator_words(end: Json) -> tuple[str, str]:
    """Why the generator was the limit, and what to do; the core tells its own work from the kernel's."""
    if bound_of(end) is Bound.CPU:
        return (
            "the generator's threads used a whole core each, the kernel's work on behalf of the storage included, so "
            "the figures may be those of the processor",
            "Use more workers, which may show more, or larger requests; read the figures as a lower bound.",
        )
    share = end.get("loop_busy_share")
    figure = f"its own work took {share:.0%} of its loop's time" if share is not None else "its loop had no idle time"
    return (
        f"the generator was the limit, not the storage: {figure}",
        "Use more workers, larger requests or a faster processor, and read the figures as a lower bound.",
    )


def depth_reached(record: Json) -> Iterator[Json]:
    """Phases whose requests end in the call that submits them, so that the storage never has as many as were asked."""
    for end in rows(record, "phase_ends"):
        depth = section(end, "depth")
        asked_for, at_once = float(depth.get("in_flight") or 0), float(depth.get("at_once") or 0)
        if not depth or at_once > DEPTH_REACHED_SHARE * asked_for:
            continue
        yield item(
            "depth_not_reached",
            "warning",
            f"In {phase_name(record, int(end.get('phase') or 0))} the storage had {at_once:.1f} requests at once, not "
            f"{asked_for:.1f}: requests ended inside the call that submits them, and each waited for those before it.",
            'Use more workers, or engine = "psync" with a thread for each request, to reach the depth; read these '
            f"figures as those of depth {max(1, round(at_once))}.",
        )


def verification(record: Json) -> Iterator[Json]:
    """Each verifying phase that read blocks of which it could check none, or only few."""
    before = {"checked_blocks": 0, "unchecked_blocks": 0}
    for end in rows(record, "phase_ends"):
        counts = section(end, "verified")
        if not counts:
            continue
        # The counts are those of the run so far.
        checked, unchecked = (int(counts.get(key) or 0) - before[key] for key in before)
        before = {key: int(counts.get(key) or 0) for key in before}
        if not unchecked or checked >= CHECKED_SHARE_MIN * (checked + unchecked):
            continue
        name, read = phase_name(record, int(end.get("phase") or 0)), checked + unchecked
        what = "none of them" if not checked else f"only {format_percent(checked / read)} of them"
        yield item(
            "unverified",
            "warning",
            f"{name.capitalize()} verifies, but of {format_count(read)} blocks that it read {what} could be checked: "
            "only what this very run wrote is known.",
            "Let a phase before it write the region, or let the same phase write and read it.",
        )


def searches(record: Json, phase: int) -> bool:
    phases = section(record, "plan").get("phase") or []
    ramp = phases[phase].get("ramp") if phase < len(phases) else None
    return bool(ramp and ramp.get("limit"))


def overload(record: Json) -> Iterator[Json]:
    for end in rows(record, "phase_ends"):
        unsent, phase = int(end.get("unsent") or 0), int(end.get("phase") or 0)
        due = unsent + total_requests(record, phase)
        if searches(record, phase):
            continue  # it asks for more than the storage does on purpose
        if unsent and unsent > UNSENT_SHARE_MAX * due:
            yield item(
                "overloaded",
                "warning",
                f"In {phase_name(record, phase)} {unsent} of {due} {asked(record)} that were due ({unsent / due:.1%}) "
                f"were never sent: the {'database' if is_replay(record) else 'storage'} did not keep up.",
                "Lower the rate, or read this run as the answer that the rate is too high.",
            )


def fallbacks(record: Json) -> Iterator[Json]:
    start, plan = section(record, "start"), section(record, "plan")
    reason = str(start.get("io_reason") or "no reason was given").rstrip(".")
    if start.get("io") == "buffered" and plan.get("io", "direct") == "direct":
        yield item(
            "not_direct",
            "warning",
            f"O_DIRECT was not possible ({reason}), so the page cache is part of all figures.",
            'Use a file system with O_DIRECT, or say `io = "buffered"` if the page cache is what you want to measure.',
        )
    reason = str(start.get("engine_reason") or "no reason was given").rstrip(".")
    if start.get("engine") == "psync" and plan.get("engine", "auto") != "psync":
        yield item(
            "psync",
            "warning",
            f"The engine fell back from io_uring to psync ({reason}), which takes a thread for each request in flight.",
            "Allow io_uring (sysctl kernel.io_uring_disabled=0, the container's seccomp profile), or compare "
            "only with other psync runs.",
        )
