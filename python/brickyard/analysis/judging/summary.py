"""Duty: a run as one plain document, and its circumstances as labelled lines, for table, report and `--json` alike.

Refusal: no layout; whoever shows it decides how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import msgspec

from brickyard import bricks, schema
from brickyard.analysis.figures.all_rows import AllRow, all_rates, all_times
from brickyard.analysis.figures.condition import condition_check, condition_words
from brickyard.analysis.figures.conditions import condition_spans
from brickyard.analysis.figures.hosts import far_host_lines, unwatched
from brickyard.analysis.figures.latency import Latency
from brickyard.analysis.figures.marked import marks_words
from brickyard.analysis.figures.tools import tool_document
from brickyard.analysis.figures.totals import Totals, totals
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging import slow
from brickyard.analysis.judging.crowding import CPU_SHARED, CPU_WAITED, is_limit, wait_share
from brickyard.analysis.judging.further import further_document
from brickyard.analysis.judging.judged import IntervalSums
from brickyard.analysis.judging.unwritten import never_written_bytes
from brickyard.bricks import caches, layout
from brickyard.bricks.resolved import ModelledBrick
from brickyard.facts.stack import devices
from brickyard.ready import ready
from brickyard.schema import (
    Bound,
    Cpu,
    DeviceSheet,
    Document,
    HangEvent,
    HostSheet,
    PhaseEnd,
    PhaseReason,
    TargetFacts,
    TargetKind,
    TargetSheet,
    Timed,
    VerifiedEvent,
    is_request,
)
from brickyard.schema import Steady as SteadyEvent
from brickyard.schema.changes import HASH_SHOWN
from brickyard.schema.host_sheet import VirtualizationSheet
from brickyard.schema.plan import OtherPlan, Plan
from brickyard.schema.target_sheet import EmulatedSheet, MdSheet, MountSheet, QueueSheet
from brickyard.store import Json, Record, RunInfo
from brickyard.store.record import FIO
from brickyard.units import format_count, format_ns, format_percent, format_runs, format_size

SLOWEST_SHOWN = 10
SCRIPT_SHOWN = 200
KINDS = {"block": "block device", "sim": "modelled brick"}
DIRECTORY = "directory"


def run_document(record: Record) -> Document:
    """Everything about a run but its intervals."""
    info, told, rows = record.info, slow.slow_causes(record), totals(record)
    found = {
        "run": info.id,
        "study": info.study,
        "labels": info.labels,
        "profile": info.profile,
        "profile_hash": info.profile_hash,
        "plan": info.plan_document,
        "seed": info.seed,
        "condition": info.condition,
        "condition_check": condition_check(record),
        "conditions": [span.document() for span in condition_spans(record)],
        "targets": info.targets,
        **changed(info),
        "created_unix_ns": info.created_unix_ns,
        "start_unix_ns": info.began_unix_ns,
        "end_ns": info.end_ns,
        "outcome": info.outcome,
        "message": info.message,
        "software_version": info.software_version,
        "host": info.facts_document.get("host", {}),
        "target_facts": info.facts_document.get("targets", []),
        "engine": schema.start_document(info.engine, info.start),
        "watch": info.watch_document,
        "warnings": schema.stored(info.warnings),
        "totals": [totals_document(row) for row in rows],
        "totals_with_transient": [totals_document(row) for row in with_transient(record)],
        "all_rates": [all_document(row) for row in all_rates(record, rows)],
        "all_times": [all_document(row) for row in all_times(record, rows)],
        **tool_document(record),
        **further_document(record),
        "verified": verified(record),
        "generator": [generator_document(end) for end in record.of(PhaseEnd)],
        "errors": record.errors,
        "errors_by_errno": known_errors_by(record, "errors_by_errno"),
        "errors_by_kind": known_errors_by(record, "errors_by_kind"),
        "hangs": record.documents_of(HangEvent),
        "steady": record.documents_of(SteadyEvent),
        "slowest": [asdict(one) for one in told],
        "slow_causes": [asdict(one) for one in slow.cause_shares(told)],
    }
    plain: Json = msgspec.to_builtins(found)
    return plain


def totals_document(row: Totals) -> Document:
    return {
        "phase": row.phase_name,
        "stream": row.stream_name,
        "operation": row.operation,
        "requests": row.requests,
        "bytes": row.bytes,
        "errors": row.errors,
        "rated_ns": row.rated_ns,
        "rated_requests": row.rated_requests,
        "rated_bytes": row.rated_bytes,
        "ended_ns": row.ended_ns,
        "depth_max": row.in_flight_bound or None,
        "iops": row.iops if row.is_rated else None,
        "bytes_per_s": row.bytes_per_s if row.is_rated else None,
        "variation": row.variation,
        "steady": row.steady.document() if row.steady else None,
        "measures": {name: latency_document(figures) for name, figures in row.measures.items()},
    }


def all_document(row: AllRow) -> Document:
    """What several streams or operations of a phase did together, as the tables have it in their row `all`."""
    names = {"phase": row.phase_name, "stream": row.stream_name, "operation": row.operation}
    if row.times is not None:
        return {**names, "measures": {Timed.RESPONSE: latency_document(row.times)}}
    return {
        **names,
        "requests": row.requests,
        "errors": row.errors,
        "iops": row.iops,
        "bytes_per_s": row.bytes_per_s,
    }


def with_transient(record: Record) -> list[Totals]:
    """The rows of phases whose figures are of the steady state, over the whole of these phases; none for those that
    were steady from their beginning."""
    begins: dict[int, int] = {}
    for cost in record.costs:
        if not cost.warmup:
            begins[cost.phase] = min(begins.get(cost.phase, cost.start_ns), cost.start_ns)

    def had_transient(row: Totals) -> bool:
        from_ns = row.steady.from_ns if row.steady else None
        return from_ns is not None and from_ns > begins.get(row.phase, 0)

    return [row for row in totals(record, with_transient=True) if had_transient(row)]


def latency_document(figures: Latency) -> Document:
    return {
        "count": figures.count,
        "mean_ns": figures.mean_ns,
        "min_ns": figures.min_ns,
        "max_ns": figures.max_ns,
        **{f"{name}_ns": value for name, value in figures.percentiles.items()},
        "few_events": sorted(figures.few_events),
        "histogram": figures.histogram_text,
    }


class GeneratorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the generator cost in one phase, and whether it was the limit; fields as in `PhaseEnd`."""

    phase: int
    reason: PhaseReason
    unsent: int
    outstanding: int
    cpu: Cpu
    loop_busy_share: float
    loop_cpu_share: float | None
    cpu_wait_share: float | None
    generator_bound: bool
    generator_bound_reason: Bound


def generator_document(end: PhaseEnd) -> GeneratorDocument:
    return msgspec.convert(end, GeneratorDocument, from_attributes=True)


def verified(record: Record) -> VerifiedEvent | None:
    """Blocks that verification held against what was written; None where nothing verifies. The core counts on through
    all phases, so the last word is the whole."""
    told = [end.verified for end in record.of(PhaseEnd) if end.verified]
    return told[-1] if told else None


def verified_words(record: Record) -> str:
    counts = verified(record)
    if counts is None:
        return ""
    unchecked = counts.unchecked_blocks
    return _joined(
        f"{format_count(counts.checked_blocks)} blocks checked",
        f"{format_count(counts.damaged_blocks)} damaged",
        f"{format_count(unchecked)} read without being checked, because this run had not written them"
        if unchecked
        else "",
    )


def known_errors_by(record: Record, key: str) -> dict[str, int] | None:
    """None where it is not known whether requests failed."""
    return errors_by(record, key) if record.info.knows_errors else None


def errors_by(record: Record, key: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for end in record.of(PhaseEnd):
        found.update(getattr(end, key))
    return dict(found.most_common())


def cpu_per_request_ns(record: Record) -> tuple[float, float] | None:
    """User and system CPU that the generator used for one request, warm-up left out."""
    # As `totals` has them, without reading a histogram.
    counted = (i for i in record.intervals if not i.warmup and i.measure == "service" and is_request(i.operation))
    requests = sum(interval.requests + interval.errors for interval in counted)
    spans = [cost for cost in record.costs if not cost.warmup]
    if not requests or not spans:
        return None
    return sum(c.cpu_user_ns for c in spans) / requests, sum(c.cpu_system_ns for c in spans) / requests


def when(info: RunInfo) -> str:
    if not info.created_unix_ns:
        return "unknown"  # its record is damaged
    moment = datetime.fromtimestamp((info.began_unix_ns or info.created_unix_ns) / 1e9, UTC)
    if info.is_by_wall_clock:
        return f"{moment:%Y-%m-%d %H:%M:%S} (local time of its host)"
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


ENGINE = "Engine"
MODEL_SET = "Model, set"
EMULATED_DISK = "Emulated disk"
"""What `--set` changed of a modelled target."""


def model_changes(info: RunInfo) -> list[str]:
    """Without the condition, which is a circumstance of its own; studies set it in this way. Write caches are one."""
    of_condition = ("condition=", "write_cache=") if info.condition.startswith("write_cache") else ("condition=",)
    return [change for change in info.asked.changes if not change.startswith(of_condition)]


def emulated_disks(info: RunInfo) -> list[str]:
    """How the disks that `brickyard lab` emulates below the targets were made: `sim:msr-2003-wd, cache lying`."""
    sheets = (node.loop.emulated for sheet in info.facts.targets for node in devices(sheet.stack) if node.loop)
    return list(dict.fromkeys(_emulated_words(sheet) for sheet in sheets if sheet is not None))


def _emulated_words(sheet: EmulatedSheet) -> str:
    timed = "no delays" if sheet.model == "none" else sheet.model
    return _joined(timed, f"cache {sheet.cache}", f"{sheet.speed:g} times as fast" if sheet.speed != 1 else "")


def changed(info: RunInfo) -> dict[str, str]:
    """What was set of the workload and of the model, and which cell of a study or step of a load curve it is, in words,
    which the names of profile and target do not say; empty where there is nothing to say."""
    return {
        "workload_changes": info.called,
        "model_changes": ", ".join(model_changes(info)),
        "study_cell": ", ".join(marks_words(info.marks)),
    }


def circumstance_lines(record: Record) -> list[tuple[str, str]]:
    """What a figure is worth depends on these: label and text, the most telling first."""
    info = record.info
    lines = [
        ("Target", ", ".join(info.targets)),
        (EMULATED_DISK, "; ".join(emulated_disks(info))),
        *_target_lines(record),
        ("Condition", condition_words(record)),
        ("Workload", workload_words([record])),
        ("Started", when(info)),
        ("Profile", f"{info.plan.title or info.profile} ({info.profile}, {info.profile_hash[:12]})"),
        ("Script", _script_words(info.plan)),
        ("Seed", str(info.seed) if info.tool in ("", FIO) else ""),  # others print none
        ("Verified", verified_words(record)),
        *_engine_lines(record),
        *(far_host_lines(record) or _host_lines(info.facts.host)),
        ("Brickyard", "" if info.is_by_tool else info.software_version),  # a tool's version stands beside the engine
    ]
    return [(label, text) for label, text in lines if text]


def _script_words(plan: Plan | OtherPlan) -> str:
    """A file that pgbench ran, in one line, so that a report tells its load when the file is another."""
    asked = plan.pgbench if isinstance(plan, OtherPlan) else None
    if asked is None or asked.script_hash is None:
        return ""
    text = " ".join((asked.script_text or "").split())
    shown = text if len(text) <= SCRIPT_SHOWN else f"{text[:SCRIPT_SHOWN]} …"
    return f"{asked.script} (SHA-256 {asked.script_hash[:HASH_SHOWN]}): {shown}"


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, "", False))


def _with_reason(text: str, reason: str | None) -> str:
    return f"{text} ({reason})" if reason else text


def _target_lines(record: Record) -> list[tuple[str, str]]:
    overrides = model_changes(record.info)
    lines = [(MODEL_SET, ", ".join(overrides))] if overrides else []
    modelled = bricks.resolved_of(record.info.targets, record.info.asked)
    if not record.info.opened:  # another program opened them
        return [*lines, *(line for sheet in record.info.facts.targets for line in _device_lines(sheet))]
    for number, opened in enumerate(record.info.opened):
        told = record.info.facts.targets
        facts = told[number] if number < len(told) else None
        if opened.kind is TargetKind.POSTGRESQL:
            lines += [("Database", _database_words(opened)), *_device_lines(facts)]
            continue
        kind = KINDS.get(opened.kind, opened.kind)
        if kind == DIRECTORY:
            lines.append(("Test area", f"a directory made for the run, {format_size(opened.data_bytes)} free"))
            lines += _device_lines(facts)
            continue
        lines.append(
            (
                "Test area",
                _joined(
                    f"{format_size(opened.data_bytes or opened.size_bytes)} of a {kind}",
                    f"alignment {format_size(opened.align_bytes)}" if opened.align_bytes else "",
                    unwritten_words(opened, facts),
                ),
            )
        )
        if opened.kind is TargetKind.SIM:
            lines += _model_lines(modelled[number]) if number < len(modelled) else []
        else:
            lines += _device_lines(facts)
    return lines


def _model_lines(brick: ModelledBrick) -> list[tuple[str, str]]:
    arranged = layout.words(brick)
    return [*([("Array", arranged)] if arranged else []), ("Cache", caches.words(brick))]


def _database_words(opened: TargetFacts) -> str:
    """What a server says of itself."""
    if opened.unreachable:
        return f"{opened.path}: not reachable, {opened.unreachable}"
    settings = ", ".join(f"{name} {value}" for name, value in opened.settings or [])
    hidden = "its data directory is hidden from this role (grant pg_read_all_settings)"
    where = f"data in {opened.data_directory}" if opened.data_directory else hidden
    return _joined(
        f"PostgreSQL {opened.version}",
        format_size(opened.size_bytes) if opened.size_bytes else "",
        where if opened.is_local or not opened.data_directory else "on another host, or its disks are not visible",
        settings,
    )


def unwritten_words(opened: TargetFacts, sheet: TargetSheet | None) -> str:
    """How much of a target was never written."""
    whole, never = opened.data_bytes or opened.size_bytes, never_written_bytes(opened, sheet)
    if never is None:
        looked = sheet.looked_at_blocks if sheet else None
        found = f" ({sheet.blank_blocks} of {looked} blocks that were looked at are blank)" if sheet and looked else ""
        return f"unwritten share unknown{found}"
    share = f" ({format_percent(min(never / whole, 1.0))})" if whole else ""
    if never:
        return f"{format_size(never)}{share} of it never written"
    # Of a device nobody else keeps a record; another program may have trimmed a little of it.
    by = ", by its header" if opened.kind is TargetKind.BLOCK else ""
    return f"all of it written before the run{by}"


def _device_lines(facts: TargetSheet | None) -> list[tuple[str, str]]:
    mount = (facts.mount if facts else None) or MountSheet()
    place = " ".join(str(x) for x in (mount.file_system, "on", mount.mount_point)) if mount.file_system else ""
    lines = [("File system", _joined(place, mount.options))]
    if facts is None:
        return lines
    lines += [(f"Device {node.name}", _device_words(node)) for node in facts.stack]
    held = facts.cache_bytes
    return [*lines, ("Cache", "unknown" if held is None else format_size(held) if held else "none (in memory)")]


def _device_words(node: DeviceSheet) -> str:
    queue, array = node.queue or QueueSheet(), node.md or MdSheet()
    return _joined(
        node.maker_and_model or ("virtual disk" if node.virtual else node.type),
        f"firmware {node.firmware}" if node.firmware else "",
        format_size(node.size_bytes) if node.size_bytes else "",
        node.transport,
        {True: "rotational", False: "not rotational", None: ""}[queue.rotational],
        f"scheduler {queue.scheduler}" if queue.scheduler else "",
        f"write cache: {queue.write_cache}" if queue.write_cache else "",
        f"{array.level}, {array.sync_action or array.array_state or ''}" if array.level else "",
    )


def _engine_lines(record: Record) -> list[tuple[str, str]]:
    start = record.info.start
    if start is None:
        return []
    clock, said = start.clock, schema.reasons_of(start)
    ends = record.of(PhaseEnd)
    bound = any(is_limit(record, end) for end in ends)
    busy = "" if record.info.is_by_tool else work_words(ends)
    cost = cpu_per_request_ns(record)
    cost_ns = clock.read_cost_ns  # 0 where it was not measured
    return [
        (
            ENGINE,
            _joined(
                _with_reason(start.engine, said.engine),
                _with_reason(f"{start.io} I/O", said.io) if start.io else "",
                _reap(start.reap),
                _submitted(record),
            ),
        ),
        (
            "Clock",
            _joined(clock.source, f"reading it costs {format_ns(cost_ns)}" if cost_ns else ""),
        ),
        (
            "Generator",
            ""
            if cost == (0, 0) and not busy  # a model's requests cost the host nothing
            else _joined(
                f"{format_ns(cost[0])} user and {format_ns(cost[1])} system CPU per request" if cost else "",
                busy,
                "the generator was the limit" if bound else "",
            ),
        ),
    ]


def work_words(ends: Sequence[PhaseEnd]) -> str:
    """What the generator's own work took, and how long it waited for a CPU; nothing where both are below 0.5 %."""
    waited = max((end.cpu_wait_share or 0.0 for end in ends), default=0.0)
    wait = f"waited for a CPU {waited:.0%} of the time" if waited >= 0.005 else ""
    on_cpu = [end.loop_cpu_share for end in ends if end.loop_cpu_share is not None]
    if on_cpu or not ends:
        return _joined(
            f"own work on a CPU {max(on_cpu):.0%} of the time" if max(on_cpu, default=0) >= 0.005 else "", wait
        )
    # An older record has the time alone in which a loop was at work or waited for a CPU.
    busy = max(end.loop_busy_share for end in ends)
    return _joined(f"own work and waits for a CPU {busy:.0%} of the time" if busy >= 0.005 else "", wait)


def _reap(count: int | None) -> str:
    if count is None:
        return ""
    return "completions are reaped one at a time (reap = 1)" if count == 1 else f"reap = {count}"


def _submitted(record: Record) -> str:
    """How many requests one call submits, and why; nothing where no ring submits."""
    start = record.info.start
    if start is None or start.submit_reason is None:
        return ""
    count, reason = start.submit, schema.reasons_of(start).submit
    most = "all waiting requests are" if count is None else f"at most {count} requests are"
    return _with_reason(f"{'at most 1 request is' if count == 1 else most} submitted in one call", reason)


def _host_lines(host: HostSheet | None) -> list[tuple[str, str]]:
    if host is None:
        return []
    cores = host.cpu.logical_cores if host.cpu else None
    virtual = host.virtualization or VirtualizationSheet()
    governors = host.frequency.governors if host.frequency else None
    return [
        (
            "Host",
            _joined(
                host.name,
                host.cpu.model if host.cpu else None,
                f"{format_count(cores)} cores" if cores else "",
                f"{format_size(host.memory_bytes)} of memory" if host.memory_bytes else "",
                "virtual machine" if virtual.virtual_machine else "",
                f"in {virtual.container}" if virtual.container else "",
            ),
        ),
        ("Kernel", _joined(host.kernel, host.os)),
        ("Governor", _joined(*(governors or {}))),
    ]


def interval_sums(record: Record) -> list[IntervalSums]:
    """Each interval with its sums over all streams and operations, also where nothing completed."""
    requests: Counter[tuple[int, int]] = Counter()
    errors: Counter[tuple[int, int]] = Counter()
    for item in record.intervals:
        if item.measure == "service" and is_request(item.operation):
            requests[item.phase, item.start_ns] += item.requests
            errors[item.phase, item.start_ns] += item.errors
    return [
        IntervalSums(
            phase=cost.phase,
            end_ns=cost.end_ns,
            requests=requests[cost.phase, cost.start_ns],
            errors=errors[cost.phase, cost.start_ns],
            measured=not (cost.warmup or cost.drain),
        )
        for cost in record.spans()
    ]


def circumstances(records: list[Record]) -> list[tuple[str, str]]:
    """The lines of one run; or what several have in common, over what their differences range, and which run has what
    where it differs otherwise."""
    lines = circumstance_lines(records[0])
    if len(records) == 1:
        return lines
    profiles = Counter(record.info.profile for record in records)
    targets = list(dict.fromkeys(path for record in records for path in record.info.targets))
    changed = {
        "Target": ", ".join(targets),
        "Workload": workload_words(records),
        "Profile": ", ".join(f"{count} × {name}" for name, count in profiles.items()),
        "Started": f"{when(records[0].info)}, the last run {when(records[-1].info)}",
        "Clock": _clock_range(records),
        "Generator": _generator_range(records),
        "Seed": _seeds(records),
    }
    each = [(record.info.id, _by_label(circumstance_lines(record))) for record in records]
    submitted = [_submitted(record) for record in records]
    engines = {
        own.get(ENGINE, "").removesuffix(said).rstrip(", ") for (_, own), said in zip(each, submitted, strict=True)
    }
    if len(set(submitted)) > 1 and len(engines) == 1:
        changed |= {ENGINE: engines.pop() + _submitted_range(records)}
    labels = list(dict.fromkeys(label for _, own in each for label in own))
    # Figures of arrays in different conditions are no repetitions of one another, so that this comes first.
    ordered = [*labels[:1], *APART, *(label for label in labels[1:] if label not in APART)]
    said = ((label, changed[label] if label in changed else _of_runs(each, label)) for label in ordered)
    return [(label, text) for label, text in said if text]


APART = {"Condition": "normal", MODEL_SET: "none"}
"""What is told run by run where it differs, and what runs have that do not say it."""
APART_MOST = 3
"""Other circumstances are told for so many; more of them hide which one matters."""


def _by_label(lines: Sequence[tuple[str, str]]) -> dict[str, str]:
    """A run with several targets has a line for each under one label."""
    found: dict[str, str] = {}
    for label, text in lines:
        found[label] = f"{found[label]}; {text}" if label in found else text
    return found


def _of_runs(each: Sequence[tuple[int, Mapping[str, str]]], label: str) -> str:
    """The text that all runs have; where they differ, which runs have which."""
    had: dict[str, list[int]] = {}
    for run, lines in each:
        had.setdefault(lines.get(label, APART.get(label, "")), []).append(run)
    if len(had) == 1:
        return "" if had == {APART.get(label): [run for run, _ in each]} else next(iter(had))
    told = [f"{text} ({format_runs(runs)})" for text, runs in had.items() if text]
    if label in APART or len(told) <= APART_MOST:
        return "; ".join(told)
    return "; ".join([*told[: APART_MOST - 1], f"{len(told) - APART_MOST + 1} others in other runs"])


def _clock_range(records: list[Record]) -> str:
    clocks = [record.info.start.clock for record in records if record.info.start]
    costs = [clock.read_cost_ns for clock in clocks if clock.read_cost_ns]  # 0 where it was not measured
    sources = ", ".join(dict.fromkeys(clock.source for clock in clocks))
    ranged = f"reading it costs {format_ns(min(costs))} to {format_ns(max(costs))}" if costs else ""
    return _joined(sources, ranged)


def _seeds(records: list[Record]) -> str:
    seeds = sorted({record.info.seed for record in records})
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _submitted_range(records: list[Record]) -> str:
    counts = Counter(said for record in records if (said := _submitted(record)))
    return "".join(f"; in {count} of {len(records)} runs {said}" for said, count in counts.items())


CPU_TAKEN = frozenset(("steal", "cpu_quota", "cpu_throttled", CPU_SHARED, CPU_WAITED))
"""Warnings of a generator that did not have its processors for itself."""


def is_cpu_taken(record: Record) -> bool:
    """Processes beside a generator that hardly waited for a CPU took none from it."""
    found = CPU_TAKEN.intersection(warning.id for warning in record.info.warnings)
    return bool(found - {CPU_SHARED}) or (CPU_SHARED in found and wait_share(record.of(PhaseEnd)) is None)


def _generator_range(records: list[Record]) -> str:
    costs = [sum(cost) for record in records if (cost := cpu_per_request_ns(record))]
    ends = [record.of(PhaseEnd) for record in records]
    busy = work_words([end for own in ends for end in own])
    bound = sum(any(is_limit(record, end) for end in record.of(PhaseEnd)) for record in records)
    if not busy and not any(costs):
        return ""
    known = not any(record.info.is_by_tool for record in records)
    taken = sum(map(is_cpu_taken, records))
    bound_words = f"the generator was the limit in {bound} of {len(records)} runs" if bound else "never the limit"
    if (taken or any(map(unwatched, records))) and not bound:
        bound_words = "whether it was the limit is not known"
    if taken:
        bound_words += f", in {taken} of {len(records)} runs without all the CPU time that it wanted"
    return _joined(
        f"{format_ns(min(costs))} to {format_ns(max(costs))} of CPU per request" if costs else "",
        *((busy, bound_words) if known else ()),
    )


ready(GeneratorDocument)
