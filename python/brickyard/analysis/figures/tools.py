"""Duty: the figures of a run in the order and units of a tool that people know: Bonnie, iowork, Jetstress, mdtest,
PostMark, SQLIOSim.

Refusal: nothing is measured anew; every figure is a sum of a record's rows over the time of its phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brickyard.analysis.figures.totals import Totals, errors_of, phase_name, profile_phase, rated_intervals, totals
from brickyard.schema import Document, tag_of
from brickyard.schema.plan import Plan, Stream
from brickyard.store import Record

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class ToolFigure:
    """A line or column of a tool's table. `per_s` is in `unit`; None where nothing was measured."""

    group: str
    name: str
    count: int | None
    per_s: float | None
    unit: str
    cpu_percent: float | None = None


def tool_of(record: Record) -> str | None:
    """The tool that the profile names, if any."""
    plan = record.info.plan
    name = plan.table if isinstance(plan, Plan) else None
    return name if name in TOOLS else None


def tool_figures(record: Record) -> list[ToolFigure]:
    tool = tool_of(record)
    return TOOLS[tool](record) if tool else []


def tool_document(record: Record) -> Document:
    """`{"table": …}` for a run of such a profile, else nothing."""
    tool = tool_of(record)
    if tool is None:
        return {}
    return {"table": {"tool": tool, "figures": tool_figures(record)}}


class _Phases:
    """The rows of a record by phase, with the time over which each phase's rates are taken."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows = totals(record)
        self.count = len(record.info.plan.phase)

    def of_kind(self, kind: str, by: str = "") -> list[int]:
        """The phases in which a program of this kind runs, and passes bytes in this unit."""

        def is_wanted(stream: Stream) -> bool:
            program = stream.program
            return (
                program is not None and tag_of(type(program)) == kind and (not by or getattr(program, "by", "") == by)
            )

        phases = [profile_phase(self.record, phase) for phase in range(self.count)]
        return [n for n, phase in enumerate(phases) if phase and any(map(is_wanted, phase.stream))]

    def seconds(self, phases: Iterable[int]) -> float:
        spans = [span for phase in phases for span in rated_intervals(self.record, phase)]
        return sum(span.end_ns - span.start_ns for span in spans) / 1e9

    def cpu_seconds(self, phases: Iterable[int]) -> float:
        spans = [span for phase in phases for span in rated_intervals(self.record, phase)]
        return sum(span.cpu_user_ns + span.cpu_system_ns for span in spans) / 1e9

    def chosen(self, phases: Iterable[int], *operations: str) -> list[Totals]:
        among = set(phases)
        return [row for row in self.rows if row.phase in among and row.operation in operations]

    def requests(self, phases: Iterable[int], *operations: str) -> int:
        """All that ended, as in the totals."""
        return sum(row.requests for row in self.chosen(phases, *operations))

    def bytes(self, phases: Iterable[int], *operations: str) -> int:
        return sum(row.bytes for row in self.chosen(phases, *operations))

    def errors(self, phases: Iterable[int], *operations: str) -> int:
        return errors_of(self.chosen(phases, *operations)) or 0

    def any_errors(self, phases: Iterable[int]) -> bool:
        among = set(phases)
        return any(row.errors for row in self.rows if row.phase in among)

    def requests_per_s(self, phases: Iterable[int], over: Iterable[int], *operations: str) -> float | None:
        return self.rate(sum(row.phase_requests for row in self.chosen(phases, *operations)), over)

    def bytes_per_s(self, phases: list[int], *operations: str) -> float | None:
        return self.rate(sum(row.phase_bytes for row in self.chosen(phases, *operations)), phases)

    def rate(self, amount: float, phases: Iterable[int]) -> float | None:
        seconds = self.seconds(phases)
        return amount / seconds if seconds else None

    def cpu_percent(self, phases: list[int]) -> float | None:
        if self.seconds(phases) < CPU_LEAST_S:
            return None
        share = self.rate(self.cpu_seconds(phases), phases)
        return None if share is None else share * 100


def scaled(per_s: float | None, unit: int) -> float | None:
    return None if per_s is None else per_s / unit


# The kernel charges processor time by ticks of 4 ms, a thread at a time: below this, per cents are mostly chance.
CPU_LEAST_S = 0.5

BONNIE = (
    ("output", "per char", "write_file", "character", "put"),
    ("output", "block", "write_file", "block", "write"),
    ("output", "rewrite", "rewrite_file", "", "write"),
    ("input", "per char", "read_file", "character", "get"),
    ("input", "block", "read_file", "block", "read"),
    ("random", "seeks", "seek_file", "", "chain"),
)
"""Bonnie's columns from left to right, and what they are made of; its runs have them in another order."""


def _bonnie(record: Record) -> list[ToolFigure]:
    """K/s are KiB of the file a second, a rewritten block once; % CPU is that of one processor."""
    phases, found = _Phases(record), []
    for group, name, kind, by, operation in BONNIE:
        where = phases.of_kind(kind, by)
        count = phases.requests(where, operation)
        if kind == "seek_file":
            per_s, unit = phases.requests_per_s(where, where, operation), "/s"
        else:
            per_s, unit = scaled(phases.bytes_per_s(where, operation), KIB), "K/s"
        found.append(ToolFigure(group, name, count, per_s, unit, phases.cpu_percent(where)))
    return found


def _iowork(record: Record) -> list[ToolFigure]:
    """The four figures of the study, each a phase of its profile, in its order."""
    phases = _Phases(record)
    found = []
    for phase in range(phases.count):
        per_s = scaled(phases.bytes_per_s([phase], "read", "write"), MIB)
        name = phase_name(record, phase).replace("-", " ")
        count = phases.requests([phase], "read", "write")
        found.append(ToolFigure("", name, count, per_s, "MiB/s", phases.cpu_percent([phase])))
    return found


MDTEST = (
    ("directories", "creation", "make_directories", "mkdir"),
    ("directories", "stat", "stat_directories", "stat"),
    ("directories", "removal", "remove_directories", "rmdir"),
    ("files", "creation", "create_files", "create"),
    ("files", "stat", "stat_files", "stat"),
    ("files", "removal", "delete_files", "unlink"),
)


def _mdtest(record: Record) -> list[ToolFigure]:
    phases, found = _Phases(record), []
    for group, name, kind, operation in MDTEST:
        if where := phases.of_kind(kind):
            count = phases.requests(where, operation)
            # A call that fails is over at once: the rate of the others in the time of all is nobody's.
            per_s = None if phases.any_errors(where) else phases.requests_per_s(where, where, operation)
            found.append(ToolFigure(group, name, count, per_s, "/s", phases.cpu_percent(where)))
    return found


def _postmark(record: Record) -> list[ToolFigure]:
    """PostMark's report. Rates of what happens in several phases are over all of them, as there."""
    phases = _Phases(record)
    create, mixed, delete = (phases.of_kind(kind) for kind in ("create_files", "transactions", "delete_files"))
    whole = sorted({*create, *mixed, *delete})

    def files(name: str, where: list[int], over: list[int], *operations: str) -> ToolFigure:
        count = phases.requests(where, *operations)
        tried = (*operations, *(("create",) if "create_file" in operations else ()))
        per_s = None if phases.errors(where, *tried) else phases.requests_per_s(where, over, *operations)
        return ToolFigure("files", name, count, per_s, "/s")

    def data(name: str, *operations: str) -> ToolFigure:
        per_s = scaled(phases.bytes_per_s(whole, *operations), MIB)
        return ToolFigure("data", name, phases.bytes(whole, *operations), per_s, "MiB/s")

    def failed(name: str, count: int) -> list[ToolFigure]:
        """A line only where something failed; what failed has no rate."""
        return [ToolFigure("files", name, count, None, "/s")] if count else []

    made, written = phases.requests(whole, "create"), phases.requests(whole, "create_file")
    return [
        _transactions(phases, mixed),
        files("created", whole, whole, "create_file"),
        files("creation alone", create, create, "create_file"),
        files("mixed with transactions", mixed, mixed, "create_file"),
        *failed(INCOMPLETE, made - written),
        *failed(NOT_CREATED, phases.errors(whole, "create")),
        files("read", mixed, mixed, "read_file"),
        *failed(NOT_READ, phases.errors(mixed, "read_file")),
        files("appended", mixed, mixed, "append_file"),
        *failed(NOT_APPENDED, phases.errors(mixed, "append_file")),
        files("deleted", whole, whole, "unlink"),
        files("deletion alone", delete, delete, "unlink"),
        files("mixed with transactions", mixed, mixed, "unlink"),
        *failed(NOT_DELETED, phases.errors(whole, "unlink")),
        data("read", "read"),
        data("written", "write", "append"),
    ]


INCOMPLETE, NOT_CREATED = "left incomplete", "not created"
NOT_READ, NOT_APPENDED, NOT_DELETED = "not read in full", "not appended in full", "not deleted"
FAILED_LINES = frozenset({INCOMPLETE, NOT_CREATED, NOT_READ, NOT_APPENDED, NOT_DELETED})


def _transactions(phases: _Phases, mixed: list[int]) -> ToolFigure:
    """A transaction has at most one of each pair. Where calls failed, which of the transactions they belonged to is
    not known: the count is of all that began, and there is no rate."""
    pairs = (("read_file", "append_file"), ("create_file", "unlink"))
    begun = max(phases.requests(mixed, *pair) + phases.errors(mixed, *pair) for pair in pairs)
    failed = any(phases.errors(mixed, *pair) for pair in pairs)
    rates = [] if failed else [phases.requests_per_s(mixed, mixed, *pair) or 0.0 for pair in pairs]
    return ToolFigure("time", "transactions", begun, max(rates) if rates and phases.seconds(mixed) else None, "/s")


def has_failures(record: Record) -> bool:
    phases = _Phases(record)
    return phases.any_errors(range(phases.count))


def postmark_seconds(record: Record) -> tuple[float, float]:
    """Of the whole, and of its transactions."""
    phases = _Phases(record)
    return phases.seconds(range(phases.count)), phases.seconds(phases.of_kind("transactions"))


def _sqliosim(record: Record) -> list[ToolFigure]:
    from brickyard.analysis.figures.server_tables import sqliosim_figures

    return sqliosim_figures(record)


def _jetstress(record: Record) -> list[ToolFigure]:
    from brickyard.analysis.figures.server_tables import jetstress_figures

    return jetstress_figures(record)


TOOLS: dict[str, Callable[[Record], list[ToolFigure]]] = {
    "bonnie": _bonnie,
    "iowork": _iowork,
    "jetstress": _jetstress,
    "mdtest": _mdtest,
    "postmark": _postmark,
    "sqliosim": _sqliosim,
}
