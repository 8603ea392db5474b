"""Warnings about the run itself: its generator and its failures.

Duty: rules over events. Refusal: nothing about host or device; those are `caveats_site`. How steady a run was is
judged by `analysis.judging.steadiness`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from brickyard.analysis.figures.sending import SLOTS_MANY, TRANSACTIONS, Sent, SentStream, in_flight_words
from brickyard.analysis.judging.crowding import CPU_WAITED, CROWDED, crowding, waited
from brickyard.analysis.judging.judged import Judged
from brickyard.schema import (
    Bound,
    Engine,
    EngineHandsOver,
    EngineHasNoTrim,
    EngineInMemory,
    IoPath,
    PhaseEnd,
    PhaseReason,
    RunWarning,
    Unit,
    VerifiedEvent,
    reasons_of,
    warned,
)
from brickyard.schema.plan import EngineChoice, IoMode, OtherKind, Plan, StepWord
from brickyard.schema.warning import Value, listed, tally

# Verification samples the data: where it looked at less than a tenth, nine in ten blocks may be damaged unseen.
CHECKED_SHARE_MIN = 0.10

# Where the storage has half of the requests at most, the figures are those of another depth on every scale of depths,
# which go up by doubling.
DEPTH_REACHED_SHARE = 0.5
ALONE = 1.1
"""No more requests at a time than this: each had ended before the next was submitted."""

NO_ROOM = ("ENOSPC", "EDQUOT")
NO_DESCRIPTORS = ("EMFILE", "ENFILE")

IN_PHASE = "In {phase:phase|phases} {phase}"

DAMAGE_WORDS = {
    "bits": "changed bits",
    "torn": "blocks torn between two writes",
    "misplaced": "blocks from elsewhere",
    "stale": "blocks of an older write",
    "unwritten": "no stamp: the write was lost, or something else overwrote it",
}
"""What verification found, by the core's name for it."""


def damage_text(text: str) -> str:
    """What the core says of a failed request, without calling a block unwritten of which it expected a write."""
    first, expected = "unwritten block ", "; expected generation "
    return f"lost or overwritten block {text[len(first) :]}" if text.startswith(first) and expected in text else text


def debug_build(run: Judged) -> Iterator[RunWarning]:
    if run.is_release_build is False:
        yield warned(
            "debug_build",
            "warning",
            "The program is a debug build; its own cost per request is many times that of a release build.",
            "Build with `make` or `maturin develop --release` and measure again.",
        )


def failures(run: Judged) -> Iterator[RunWarning]:
    by_name: Counter[str] = Counter()
    damage: Counter[str] = Counter()
    counted = 0
    for end in run.phase_ends:
        errnos, kinds = end.errors_by_errno, end.errors_by_kind
        # An error with an errno is in both counts.
        counted += max(sum(errnos.values()), sum(kinds.values()))
        for name, number in {**{k: v for k, v in kinds.items() if k != "errno"}, **errnos}.items():
            if number:
                (damage if name in DAMAGE_WORDS else by_name)[name] += number
    damaged = damage.total()
    count = max(counted, sum(interval.errors for interval in run.intervals)) - damaged
    if damaged:
        words, values = tally({DAMAGE_WORDS[name]: damage[name] for name in sorted(damage)}, "{name}: {number}")
        yield warned(
            "damage",
            "warning",
            f"{{damaged}} reads of blocks returned data other than what was written ({words}); the requests that read "
            "them are not counted in any throughput figure.",
            "Do not store data on this storage before the cause is known; the list of errors has each offset.",
            damaged=Unit.NUMBER.of(damaged),
            also=values,
        )
    if count > 0:
        names, values = tally({name: by_name[name] for name in sorted(by_name)}, "{name} {number}")
        lacking = sum(by_name[name] for name in NO_ROOM)
        # A device has no room where it is provisioned thinly, or compresses.
        places = {target.kind for target in run.start.targets} if run.start else set()
        full_words = "The device had no room left: " if places == {"block"} else "The file system was full: "
        lacks = any(by_name[name] for name in NO_DESCRIPTORS)
        is_full = 2 * lacking > by_name.total()
        yield warned(
            "no_room" if is_full else "errors",
            "warning",
            ("No more files may be open: " if lacks else full_words if is_full else "")
            + f"{{failed}} {{failed:{run.asked.removesuffix('s')}|{run.asked}}} failed{f' ({names})' if names else ''} "
            "beside {succeeded} that succeeded; {failed:it is|they are} not counted in any throughput figure.",
            failure_remedy(run, is_full=is_full, lacks_descriptors=lacks, count=count),
            failed=Unit.NUMBER.of(count),
            succeeded=Unit.NUMBER.of(run.requests()),
            also=values,
        )


NOTHING_MEASURED = "nothing_measured"
LOWER_OR_LONGER = "Lower the rate, or measure longer: a queue close to its limit grows and shrinks for a long time."
OF_CURVE = "Nothing needs to be done: a load curve and its searches offer such rates on purpose."
OVERLOADED, BACKLOG = "overloaded", "backlog"
NOT_DIRECT = "not_direct"
LIMITS = (PhaseReason.REQUESTS, PhaseReason.BYTES, PhaseReason.PASSES, PhaseReason.PROGRAM)


def nothing_measured(run: Judged) -> Iterator[RunWarning]:
    """Of phases that reached their limit before the warm-up was over."""
    phases = run.plan.phase if isinstance(run.plan, Plan) else []
    for end in run.phase_ends:
        mine = [of for of in run.intervals if of.phase == end.phase]
        if end.reason not in LIMITS or not mine or any(of.measured for of in mine):
            continue
        ended = "its program ended" if end.reason is PhaseReason.PROGRAM else f"it reached its limit of {end.reason}"
        warmup_ns = phases[end.phase].warmup.ns if end.phase < len(phases) else 0
        yield warned(
            NOTHING_MEASURED,
            "warning",
            f"{IN_PHASE} nothing was measured: {{ended}} during the warm-up of {{warmup}}, which no figure includes.",
            "Measure without a warm-up (`--set warmup=0s`), or raise the limit.",
            phase=run.phase_name(end.phase),
            ended=ended,
            warmup=Unit.EXACT_NS.of(warmup_ns),
        )


def failure_remedy(run: Judged, *, is_full: bool, lacks_descriptors: bool = False, count: int = 0) -> str:
    if run.other_kind in (OtherKind.PGBENCH, OtherKind.LOAD):
        return "Look at the list of errors, and at the server's log, before comparing this run with another."
    if run.is_replay:
        return "Look at the failed calls by SQLSTATE, and at the server's log, before comparing this run with another."
    if run.is_simulated:
        cut = sum(event.failed_requests for event in run.power_cuts)
        if cut and count <= cut:
            return (
                "They failed because they were in flight at the power cut. Leave power_cut_at out to run "
                "without a power cut."
            )
        return (
            "A model fails requests to lost data: more members failed (fail_at) than the RAID level tolerates. Choose "
            "a level with more redundancy, or use spares and failures that are further apart."
        )
    if lacks_descriptors:
        return "That is a limit of this process, not of the storage: raise it, for example with `ulimit -n 65536`."
    if is_full:
        return "Free some room, or use fewer or smaller files or a smaller --size, and measure again."
    return "Look at the errors with their offsets, and at the kernel's log, before comparing this run with another."


def never_came(ended_ns: int, due_ns: list[int]) -> tuple[str, dict[str, Value], float]:
    """What of a modelled brick came after the end: its times as a part of a template, and how much too late it is."""
    places = {f"due_{at}": Unit.EXACT_NS.of(at_ns) for at, at_ns in enumerate(due_ns)}
    values: dict[str, Value] = {"ended": Unit.EXACT_NS.of(ended_ns), **places}
    return ", ".join(f"{{{place}}}" for place in places), values, float(max(due_ns) - ended_ns)


def never_failed(run: Judged) -> Iterator[RunWarning]:
    """Failures of a modelled brick that come after what is measured."""
    late = [at_ns for at_ns in run.failures_ns if at_ns >= run.measured_until_ns]
    if late:
        when, values, gravity = never_came(run.measured_until_ns, late)
        yield warned(
            "never_failed",
            "warning",
            f"The measured time ended at {{ended}}, so no figure includes the failure of members at {when}.",
            "Make the run longer, for example with --set duration=5min, or set fail_at to an earlier time.",
            gravity=gravity,
            also=values,
        )


def never_cut(run: Judged) -> Iterator[RunWarning]:
    """A power cut of a modelled brick that comes after the run's end."""
    late = [at_ns for at_ns in run.power_cuts_ns if at_ns >= run.ended_ns]
    if late and not run.power_cuts:
        when, values, gravity = never_came(run.ended_ns, late)
        yield warned(
            "never_cut",
            "warning",
            f"The run ended after {{ended}}, so the power cut that was to come at {when} did not happen.",
            "Make the run longer, for example with --set duration=5min, or set power_cut_at to an earlier time.",
            gravity=gravity,
            also=values,
        )


def hangs(run: Judged) -> Iterator[RunWarning]:
    if found := run.hangs:
        longest = max(hang.outstanding_ns for hang in found)
        yield warned(
            "hung_requests",
            "warning",
            "{hung} requests hung; the longest had been outstanding for {longest} when it was reported.",
            "Look for resets and timeouts of the device in the kernel's log.",
            hung=Unit.NUMBER.of(len(found)),
            longest=Unit.NS.of(longest),
        )
    left = sum(end.outstanding for end in run.phase_ends)
    if left:
        yield warned(
            "outstanding",
            "warning",
            f"{{left}} {run.asked} had not completed when the run ended; their outcome is not known.",
            f"Interrupt the run only once, so that it can wait for the {run.asked} in flight; or look for a "
            f"{'server' if run.is_replay else 'device'} that no longer answers.",
            left=Unit.NUMBER.of(left),
        )


def stalled(run: Judged) -> Iterator[RunWarning]:
    """The longest of each phase."""
    for phase in dict.fromkeys(stall.phase for stall in run.stalls):
        worst = max((stall for stall in run.stalls if stall.phase == phase), key=lambda stall: stall.lasted_ns)
        yield warned(
            "stalled",
            "warning",
            f"{IN_PHASE} no request ended for at least {{lasted}}, from {{at}} of the run on, although requests were "
            "in flight.",
            "Look for resets and timeouts of the device at that time in the kernel's log; `brickyard watch` beside the "
            "next run shows what the device did.",
            gravity=worst.lasted_ns,
            phase=run.phase_name(phase),
            lasted=Unit.NS.of(worst.lasted_ns),
            at=Unit.NS.of(worst.at_ns),
        )


def generator(run: Judged) -> Iterator[RunWarning]:
    for end in run.phase_ends:
        if end.generator_bound:
            words, remedy = _bound_words(run)(end)
            yield warned(
                "generator_bound",
                "warning",
                f"{IN_PHASE} {words}.",
                remedy,
                phase=run.phase_name(end.phase),
                busy=Unit.SHARE.of(own_share(end)),
            )
        elif waited(end):
            others, values = _took_the_cpus(run)
            yield warned(
                CPU_WAITED,
                "warning",
                f"{IN_PHASE} the generator waited for a CPU {{waited}} of the time{others}; requests were sent, and "
                "their ends seen, later than without these waits.",
                "Stop what else runs on this host, and measure again; if nothing does, look at CPU quotas and at how "
                "long the CPUs take to wake from idle states.",
                phase=run.phase_name(end.phase),
                waited=Unit.SHARE.of(end.cpu_wait_share or 0.0),
                also=values,
            )


def _took_the_cpus(run: Judged) -> tuple[str, dict[str, Value]]:
    found = next(filter(None, (crowding(run.start, watch) for watch in run.watches)), None)
    return (f": something else used the CPUs ({CROWDED})", found.values) if found else ("", {})


def _bound_words(run: Judged) -> Callable[[PhaseEnd], tuple[str, str]]:
    by_kind: dict[OtherKind | None, Callable[[PhaseEnd], tuple[str, str]]] = {
        OtherKind.REPLAY: driver_words,
        OtherKind.LOAD: loader_words,
        OtherKind.PGBENCH: pgbench_words,
    }
    return by_kind.get(run.other_kind, generator_words)


def driver_words(end: PhaseEnd) -> tuple[str, str]:
    """The same of a replay's drivers, which are one thread each."""
    why = "a driver used a whole core" if end.generator_bound_reason is Bound.CPU else "a driver waited for its log"
    return (
        f"the drivers were the limit, not the database: {why}",
        "Use more drivers, and read the figures as a lower bound.",
    )


def loader_words(_: PhaseEnd) -> tuple[str, str]:
    """The same of the loader, whose threads share one core."""
    return (
        "the loader was the limit, not the database: it can use only one core, and used all of it",
        "Load from several hosts, and read the figures as a lower bound.",
    )


def pgbench_words(_: PhaseEnd) -> tuple[str, str]:
    """The same of pgbench."""
    return (
        "pgbench was the limit, not the database: its threads were on a processor nearly all of the time",
        "Give it more threads (--set threads=4), and read the figures as a lower bound.",
    )


def generator_words(end: PhaseEnd) -> tuple[str, str]:
    """Why the generator was the limit, and what to do; the core tells its own work from the kernel's."""
    if end.generator_bound_reason is Bound.CPU:
        return (
            "the generator used all the CPU time that its threads could have, including the kernel's work for the "
            "storage, so the processor may have been the limit",
            "Use more workers or larger requests: the rate may then be higher.",
        )
    return (
        "the generator was the limit, not the storage: its own work took {busy} of its loops' time",
        "Use more workers, larger requests or a faster processor: the rate may then be higher.",
    )


def own_share(end: PhaseEnd) -> float:
    """Of the loops' time, what their own work took on a CPU; older records do not tell that from waits for one."""
    return end.loop_busy_share if end.loop_cpu_share is None else end.loop_cpu_share


def depth_reached(run: Judged) -> Iterator[RunWarning]:
    """Phases whose requests end in the call that submits them, so that the storage never has as many as were asked."""
    for end in run.phase_ends:
        if end.depth is None or end.depth.at_once > DEPTH_REACHED_SHARE * end.depth.in_flight:
            continue
        # A thread that lost its CPU within the call finds requests ended that the storage did have at once, but not at
        # each look all but one.
        if waited(end) and end.depth.at_once > ALONE:
            continue
        at_once = end.depth.at_once
        yield warned(
            "depth_not_reached",
            "warning",
            f"{IN_PHASE} the storage had {{at_once}} requests at a time, not {{in_flight}}: requests ended inside the "
            "call that submits them, and each waited for the ones before it.",
            'Use more workers, or engine = "psync" with a thread for each request, to reach the depth; read these '
            "figures as those of depth {depth}.",
            gravity=end.depth.in_flight / at_once if at_once else end.depth.in_flight,
            phase=run.phase_name(end.phase),
            at_once=Unit.TENTHS.of(at_once),
            in_flight=Unit.TENTHS.of(end.depth.in_flight),
            depth=Unit.NUMBER.of(max(1, round(at_once))),
        )


CHECK_ANY = "Add an earlier phase that writes the region, or write and read the region in the same phase."
CHECK_READ = "Read as well (--rw randrw), or add a later phase that reads the region (docs/loads.md)."
CHECK_MORE = (
    "Measure longer, or in a smaller region (--size), so that more blocks are written before they are read; or name a "
    "new target, which the run fills with blocks that it can check."
)


def _stamps(run: Judged, phase: int) -> bool:
    """Whether the phase itself writes blocks that it can check."""
    if not isinstance(run.plan, Plan) or phase >= len(run.plan.phase):
        return False
    return any(s.verify and (s.operations.write or StepWord.WRITE in s.chain) for s in run.plan.phase[phase].stream)


def verification(run: Judged) -> Iterator[RunWarning]:
    """Each verifying phase that read blocks of which it could check none, or only few."""
    before = VerifiedEvent(checked_blocks=0, damaged_blocks=0, unchecked_blocks=0)
    for end in run.phase_ends:
        if end.verified is None:
            continue
        # The counts are those of the run so far.
        checked = end.verified.checked_blocks - before.checked_blocks
        unchecked = end.verified.unchecked_blocks - before.unchecked_blocks
        before = end.verified
        if not unchecked or checked >= CHECKED_SHARE_MIN * (checked + unchecked):
            continue
        read = checked + unchecked
        yield warned(
            "unverified",
            "warning",
            "{phase:Phase|Phases} {phase} {phase:verifies|verify}, but "
            + (("" if checked < 0.005 * read else "only ") + "{share}" if checked else "none")
            + " of the {read} blocks that {phase:it|they} read could be checked: a run can check only blocks that it "
            "wrote itself.",
            CHECK_MORE if _stamps(run, end.phase) else CHECK_ANY,
            gravity=1 - checked / read if checked else None,
            phase=run.phase_name(end.phase),
            share=Unit.PERCENT.of(checked / read),
            read=Unit.COUNT.of(read),
        )


def nothing_read_back(run: Judged) -> Iterator[RunWarning]:
    """A run that stamps blocks and reads none shows nothing by it."""
    told = [end.verified for end in run.phase_ends if end.verified is not None]
    if told and not told[-1].checked_blocks + told[-1].unchecked_blocks:
        yield warned(
            "unverified",
            "warning",
            "The run stamps the blocks that it writes for verification, and reads none of them: nothing was checked.",
            CHECK_READ,
        )


def searches(run: Judged, phase: int) -> bool:
    """Whether a phase asks for more than the storage does on purpose."""
    if not isinstance(run.plan, Plan) or phase >= len(run.plan.phase):
        return False
    ramp = run.plan.phase[phase].ramp
    return ramp is not None and ramp.limit is not None


def not_kept_up(run: Judged, phase: int, in_flight: int, otherwise: str) -> str:
    """The remedy, where a stream fell behind with that many requests in flight; 0 where it had a slot free."""
    if not in_flight or in_flight >= SLOTS_MANY:
        return OF_CURVE if run.is_of_curve else otherwise
    return more_in_flight(run, phase)


def more_in_flight(run: Judged, phase: int) -> str:
    if run.other_kind is OtherKind.PGBENCH:
        return "Use more clients (--set clients=...): if the rate is still not reached, it is too high."
    asked = run.plan.phase[phase] if isinstance(run.plan, Plan) and phase < len(run.plan.phase) else None
    is_trace = asked is not None and any(stream.trace for stream in asked.stream)
    how = "--trace-depth" if is_trace else "--set depth=..." if run.is_of_curve else "--iodepth or --set depth=..."
    return f"Allow more in flight ({how}): if the rate is still not reached, it is too high."


def overload(run: Judged) -> Iterator[RunWarning]:
    for end in run.phase_ends:
        told = run.sent.get(end.phase)
        if told is not None and not told.kept_up and not searches(run, end.phase):
            what = "database" if run.other_kind in (OtherKind.REPLAY, OtherKind.PGBENCH) else "storage"
            is_crowded = not run.is_simulated and any(crowding(run.start, watch) for watch in run.watches)
            most = told.most_in_flight
            remedy = not_kept_up(run, end.phase, most, "Lower the rate.")
            if is_crowded:
                what += ", or the generator beside other work on its CPUs,"
                remedy = "Stop what else runs on this host and measure again, or lower the rate."
            parts: Sequence[Sent | SentStream] = told.behind or [told]
            unsent, due = sum(part.unsent for part in parts), sum(part.due for part in parts)
            noun = f"{told.noun} of {{streams}}" if told.behind else told.noun
            never = "were sent too late" if told.in_time else "were never sent"
            yield warned(
                OVERLOADED,
                "warning",
                f"{IN_PHASE} {{unsent}} of {{due}} {noun} that were due ({{share}}) {never}: the {what} "
                f"did not keep up{' with ' + in_flight_words(most, told.noun) if most else ''}.",
                remedy,
                gravity=unsent / due,
                phase=run.phase_name(end.phase),
                streams=listed([one.name for one in told.behind]),
                unsent=Unit.NUMBER.of(unsent),
                due=Unit.NUMBER.of(due),
                share=Unit.SHARE_TENTHS.of(unsent / due),
            )


def backlog(run: Judged) -> Iterator[RunWarning]:
    for end in run.phase_ends:
        told = run.sent.get(end.phase)
        if told is None or not told.kept_up:
            continue
        noun = TRANSACTIONS if told.noun == TRANSACTIONS else "requests"
        for one in told.growing:
            most = told.slots.get(one.stream, 0)
            keep_up = f" with {in_flight_words(most, noun)}" if most else ""
            yield warned(
                BACKLOG,
                "warning",
                f"{IN_PHASE} {noun} of {{stream}} came faster than they were answered{keep_up}: the queue grew, so "
                "response times depend on how long the run was. Their mean was {first} in the first quarter and {last} "
                "in the last.",
                not_kept_up(run, end.phase, most, LOWER_OR_LONGER),
                gravity=one.share,
                phase=run.phase_name(end.phase),
                stream=one.name,
                first=Unit.NS.of(one.first_mean_ns),
                last=Unit.NS.of(one.last_mean_ns),
            )


def fallbacks(run: Judged) -> Iterator[RunWarning]:
    start, plan = run.start, run.plan if isinstance(run.plan, Plan) else Plan()
    if start is None:
        return
    said = reasons_of(start)
    reason = (said.io or "no reason was given").rstrip(".")
    if start.io is IoPath.BUFFERED and plan.io is IoMode.DIRECT:
        yield warned(
            NOT_DIRECT,
            "warning",
            "O_DIRECT was not possible ({why}), so all figures include the effect of the page cache.",
            'Use a file system with O_DIRECT, or set `io = "buffered"` if you want to measure the page cache.',
            why=reason,
        )
    reason = (said.engine or "no reason was given").rstrip(".")
    is_chosen = isinstance(start.engine_reason, EngineHandsOver | EngineInMemory)
    is_fallback = plan.engine is not EngineChoice.PSYNC and not is_chosen
    if start.engine is Engine.PSYNC and is_fallback:
        yield warned(
            "psync",
            "warning",
            "The engine fell back from io_uring to psync ({why}), which needs one thread per request in flight.",
            "Compare only with other psync runs."
            if isinstance(start.engine_reason, EngineHasNoTrim)
            else "Allow io_uring (sysctl kernel.io_uring_disabled=0, the container's seccomp profile), or compare "
            "only with other psync runs.",
            why=reason,
        )
