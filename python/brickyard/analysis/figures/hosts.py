"""Duty: what each host of a run on many did, the slowest first; what a reader must know of their clocks and losses.

Refusal: histograms of hosts are merged, no percentile is averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from brickyard.analysis.figures import cells
from brickyard.analysis.figures.latency import Latency, as_one
from brickyard.analysis.figures.totals import (
    Totals,
    asked_phase,
    errors_of,
    phase_name,
    rate_of,
    rated_intervals,
    rated_rows,
    totals,
    waited,
)
from brickyard.bricks import all_modelled
from brickyard.percentiles import MEDIAN_AND_P99, PERCENTILE_NAMES, TO_P99
from brickyard.schema import (
    Document,
    Fleet,
    HostBack,
    HostBegan,
    HostEnd,
    HostLost,
    RunOutcome,
    RunWarning,
    Unit,
    is_request,
    is_timed,
    warned,
    words_of,
)
from brickyard.schema.warning import Value
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns

COLUMNS = ("host", "state", "requests", "IOPS", "MiB/s", "mean", *MEDIAN_AND_P99, "max", "errors")
ALL = "all"
LOST = "lost"
NOTABLY = 1.1
"""Hosts whose rates or percentiles differ by less are called alike."""
FEWEST = 2
NAMED_MAX = 16
REMEDY_OF_LOST = (
    "If the host comes back, `brickyard fleet collect` makes a run of what the hosts kept; `brickyard fleet up --hosts "
    "hosts.toml` takes the host into the fleet again."
)
FAR_FACTS = (("processor", ""), ("cpus", " cores"), ("kernel", ""))


@dataclass(frozen=True)
class HostRow:
    """One host in one phase; `host` is empty for all of them together. Latencies are response times."""

    phase: int
    phase_name: str
    host: str
    state: str
    requests: int
    errors: int
    iops: float
    bytes_per_s: float
    response: Latency | None

    def percentile(self, name: str) -> int | None:
        return self.response.percentiles[name] if self.response else None

    @property
    def mean_ns(self) -> float:
        return self.response.mean_ns if self.response else 0

    def document(self) -> Document:
        shown = self.response
        return {
            "phase": self.phase_name,
            "host": self.host,
            "state": self.state,
            "requests": self.requests,
            "errors": self.errors,
            "iops": self.iops,
            "bytes_per_s": self.bytes_per_s,
            "mean_ns": shown.mean_ns if shown else None,
            "max_ns": shown.max_ns if shown else None,
            **{f"{name}_ns": shown.percentiles[name] if shown else None for name in PERCENTILE_NAMES},
        }


def fleet_of(record: Record) -> Fleet | None:
    return next(iter(record.of(Fleet)), None)


def far_host_lines(record: Record) -> list[tuple[str, str]]:
    """Processor and kernel of the hosts that ran the load; hosts that are alike stand together."""
    fleet = fleet_of(record)
    alike: dict[str, list[str]] = {}
    for host in fleet.hosts if fleet else []:
        told = [host.facts[name] + unit for name, unit in FAR_FACTS if name in host.facts]
        alike.setdefault(", ".join(told) or "not known", []).append(host.host)
    return [(f"Host{'s' if len(names) > 1 else ''} {', '.join(names)}", told) for told, names in alike.items()]


def host_rows(record: Record) -> list[HostRow]:
    """For each phase a row a host, the slowest first, then all of them together; none for a run on one host.

    A host that was lost has its rates over the time that it delivered; it is not among all hosts.
    """
    fleet = fleet_of(record)
    if fleet is None or not any(host.targets for host in fleet.hosts):  # hosts of drivers have no target of their own
        return []
    states = states_of(record)
    rows = [row for row in totals(record) if is_timed(row.operation)]
    of_target = {target: host.host for host in fleet.hosts for target in host.targets}
    found: list[HostRow] = []
    for phase in sorted({row.phase for row in rows}):
        asked = asked_phase(record, phase)
        hosts = [of_target.get(stream.target, "") for stream in asked.stream] if asked else []
        own = [row for row in rows if row.phase == phase]
        counted = {row.operation for row in rated_rows(own)}
        by_host = {host.host: [row for row in own if hosts[row.stream] == host.host] for host in fleet.hosts}
        mine = [
            _row(record, phase, name, states.get(name, ""), some, counted)
            for name, some in by_host.items()
            if name in hosts
        ]
        name = _judged_by([row for row in mine if row.state != LOST]) or "p99"
        found += sorted(mine, key=lambda row: (row.state == LOST, -(row.percentile(name) or 0), -row.mean_ns))
        lost = [name for name in by_host if name in hosts and states.get(name) == LOST]
        others = [row for row in own if hosts[row.stream] not in lost]
        found.append(_row(record, phase, "", f"without {', '.join(lost)}" if lost else "", others, counted))
    return found


def _row(record: Record, phase: int, host: str, state: str, rows: list[Totals], counted: set[str]) -> HostRow:
    """Totals have rates over the whole phase, in part of which a lost host was dead."""
    share = _delivered_share(record, phase, {row.stream for row in rows}) if state == LOST else 1.0
    rated = [row for row in rows if row.operation in counted]
    # What a lost host delivered is counted over the phase, and that corrected by the share above.
    over_phase = [
        replace(r, rated_ns=r.phase_ns, rated_requests=r.phase_requests, rated_bytes=r.phase_bytes) for r in rated
    ]
    rate = rate_of(over_phase if state == LOST else rated)
    return HostRow(
        phase=phase,
        phase_name=phase_name(record, phase),
        host=host,
        state=state,
        requests=sum(row.requests for row in rows if is_request(row.operation)),
        errors=errors_of(row for row in rows if is_request(row.operation)) or 0,
        iops=rate.iops / share if rate else 0.0,
        bytes_per_s=rate.bytes_per_s / share if rate else 0.0,
        response=as_one(row.response for row in waited(record, rows) if row.response is not None),
    )


def _delivered_share(record: Record, phase: int, streams: set[int]) -> float:
    """Of the time over which a phase is rated, the part up to the last interval with anything of these streams."""
    last_ns = max((i.start_ns for i in record.intervals if i.phase == phase and i.stream in streams), default=0)
    spans = rated_intervals(record, phase)
    whole_ns = sum(span.end_ns - span.start_ns for span in spans)
    delivered_ns = sum(span.end_ns - span.start_ns for span in spans if span.start_ns <= last_ns)
    return delivered_ns / whole_ns if delivered_ns else 1.0


def states_of(record: Record) -> dict[str, str]:
    """How each host ended, in a word or two."""
    lost = {event.host for event in record.of(HostLost)}
    back = {event.host for event in record.of(HostBack)}
    ends = {event.host: event.outcome for event in record.of(HostEnd)}
    found = {}
    for host, outcome in ends.items():
        if outcome is RunOutcome.DONE:
            found[host] = "done, disconnected for a time" if host in lost else "done"
        elif host in lost and host not in back:
            found[host] = LOST
        else:
            found[host] = str(outcome.value)
    return found


def row_cells(rows: list[HostRow]) -> list[list[str]]:
    return [
        [
            row.host or ALL,
            row.state,
            format_count(row.requests),
            format_iops(row.iops),
            format_mib_per_s(row.bytes_per_s),
            format_ns(row.response.mean_ns if row.response else None),
            cells.percentile_cell(row.response, "p50"),
            cells.percentile_cell(row.response, "p99"),
            format_ns(row.response.max_ns if row.response else None),
            format_count(row.errors),
        ]
        for row in rows
    ]


def host_words(record: Record) -> list[str]:
    """The slowest host and the spread, a sentence for each phase; what is missing comes first."""
    found = []
    lost = [host for host, state in states_of(record).items() if state == LOST]
    if lost:
        found.append(f"Lost, and not included in the figures of all hosts: {', '.join(lost)}.")
    rows = [row for row in host_rows(record) if row.host and row.state != LOST]
    phases = list(dict.fromkeys(row.phase for row in rows))
    for phase in phases:
        mine = [row for row in rows if row.phase == phase]
        head = f"{mine[0].phase_name}: " if len(phases) > 1 else ""
        if len(mine) >= FEWEST and (words := _spread_words(mine)):
            found.append(f"{head}{words}")
    return found


def _judged_by(rows: list[HostRow]) -> str | None:
    """The highest percentile that all hosts have enough samples for."""
    return next((name for name in reversed(TO_P99) if all(row.percentile(name) for row in rows)), None)


def _spread_words(rows: list[HostRow]) -> str:
    name = _judged_by(rows)
    if name is None:
        return ""
    fastest, *_, slowest = sorted(rows, key=lambda row: row.percentile(name) or 0)
    fastest_ns, slowest_ns = fastest.percentile(name) or 0, slowest.percentile(name) or 0
    middle_ns = median(row.percentile(name) or 0 for row in rows)
    low, high = min(row.iops for row in rows), max(row.iops for row in rows)
    rates = f"{format_iops(low)} to {format_iops(high)} IOPS a host"
    if slowest_ns < fastest_ns * NOTABLY and high < low * NOTABLY:
        return f"All {len(rows)} hosts agree within 10 %: {rates}."
    within, least = (cells.percentile_cell(row.response, name) for row in (slowest, fastest))
    return (
        f"Slowest host: {slowest.host}, {name.removeprefix('p')} % within {within},"
        f" {slowest_ns / middle_ns:.2g} × the median of {len(rows)} hosts; hosts range from {least} to {within}, and "
        f"{rates}."
    )


def host_documents(record: Record) -> Document:
    """Hosts, clocks and losses of a run on many; nothing for a run on one."""
    if fleet_of(record) is None:
        return {}
    return {
        "fleet": next(iter(record.documents_of(Fleet))),
        "hosts": [row.document() for row in host_rows(record)],
        "hosts_began": record.documents_of(HostBegan),
        "hosts_lost": record.documents_of(HostLost),
        "hosts_back": record.documents_of(HostBack),
        "hosts_ended": record.documents_of(HostEnd),
    }


def host_note(text: str) -> RunWarning:
    """What was said while the run went on, and no event has."""
    return warned("fleet_note", "note", "{said}", said=text if text.endswith(".") else f"{text}.")


def unwatched(record: Record) -> list[str]:
    """Hosts of which nobody knows what else ran there; models have nothing beside them."""
    watched = {one.host for one in record.info.watch.hosts if not one.why}
    names = record.info.targets
    return [
        host.host
        for fleet in (fleet_of(record),)
        if fleet is not None
        for host in fleet.hosts
        if host.host not in watched and not all_modelled([names[at].partition(":")[2] for at in host.targets])
    ]


def host_warnings(record: Record, unseen: Mapping[str, str] | None = None) -> list[RunWarning]:
    """`unseen`: hosts beside whose load nobody looked, and why; None where nobody looked at any host."""
    fleet = max(record.of(Fleet), key=lambda event: event.bound_ns, default=None)  # one for each loose start
    if fleet is None:
        return []
    found = []
    if not fleet.within_tolerance:
        found.append(
            warned(
                "fleet_start",
                "warning",
                "The hosts may have started up to {apart} apart; {allowed} is allowed.",
                "Use a faster or quieter network to the hosts, or refuse such runs with --late-start refuse.",
                apart=Unit.NS.of(fleet.bound_ns),
                allowed=Unit.NS.of(fleet.tolerance_ns),
            )
        )
    late = [event for event in record.of(HostBegan) if event.late_ns > fleet.tolerance_ns]
    if late:
        each: dict[str, Value] = {f"host_{at}": event.host for at, event in enumerate(late)}
        each |= {f"late_{at}": Unit.NS.of(event.late_ns) for at, event in enumerate(late)}
        shown = ", ".join(f"{{host_{at}}} {{late_{at}}}" for at in range(len(late)))
        found.append(
            warned(
                "fleet_late",
                "warning",
                f"Hosts began after the common start: {shown}; {{allowed}} is allowed.",
                "They were busy; leave each host a free core, or refuse such runs with --late-start refuse.",
                allowed=Unit.NS.of(fleet.tolerance_ns),
                also=each,
            )
        )
    if moved := [event for event in record.of(HostBegan) if abs(event.clock_moved_ns) > fleet.tolerance_ns]:
        names = ", ".join(dict.fromkeys(event.host for event in moved))
        largest = max(abs(event.clock_moved_ns) for event in moved)
        found.append(
            warned(
                "fleet_clock",
                "warning",
                "The clock of {hosts} was set by up to {largest} during the run.",
                "Let clocks be slewed, not stepped (chrony's makestep only at boot).",
                hosts=names,
                largest=Unit.NS.of(largest),
            )
        )
    states = states_of(record)
    keeps = any(host.targets for host in fleet.hosts)  # drivers of a replay have no target on their host
    for event in record.of(HostLost):
        if states.get(event.host, "") not in ("", LOST):
            found.append(
                warned(
                    "host_cut_off",
                    "note",
                    "{host} was disconnected for a time ({why}); its requests during that time are in the figures.",
                    host=event.host,
                    why=words_of(event.reason),
                )
            )
            continue
        found.append(
            warned(
                "host_lost",
                "error",
                "{host} was lost: {why}. Its part of these streams is missing from then on: {streams}.",
                REMEDY_OF_LOST if keeps else "A driver keeps no record on its host; repeat the replay.",
                host=event.host,
                why=words_of(event.reason),
                streams=", ".join(event.streams),
            )
        )
    found += _circumstances(unseen)
    crowded = [host.host for host in fleet.hosts if not host.core_free]
    if crowded:
        found.append(
            warned(
                "fleet_cores",
                "note",
                "No core is left free for Ray and the network on {hosts}: fewer than three cores.",
                hosts=", ".join(crowded),
            )
        )
    return found


def _circumstances(unseen: Mapping[str, str] | None) -> list[RunWarning]:
    """Hosts with the same reason are told together."""
    by_why: dict[str, list[str]] = {}
    for host, why in (unseen or {}).items():
        by_why.setdefault(why, []).append(host)
    remedy = "Make sure that nothing else runs there."
    if unseen is None:
        text = "Other load on the hosts and their devices during the run was not recorded."
        return [warned("fleet_circumstances", "note", text, remedy)]
    text = "Other load on {hosts} during the run was not recorded: {why}."
    return [
        warned("fleet_circumstances", "note", text, remedy, hosts=named(hosts), why=why)
        for why, hosts in by_why.items()
    ]


def named(hosts: Sequence[str]) -> str:
    """All of them, or the first and how many more."""
    more = f" and {len(hosts) - NAMED_MAX} more hosts" if len(hosts) > NAMED_MAX else ""
    return ", ".join(hosts[:NAMED_MAX]) + more
