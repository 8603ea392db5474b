"""Duty: runs of pgbench as figures: transactions, the server's log and checkpoints beside them, pgbench's own words.

Refusal: no drawing, and no figure of the server that its own counters do not give, nor of a time too short for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from brickyard.analysis.databases.durability import OF_PAGES, is_unknown, switched_off, undurable
from brickyard.analysis.databases.replay_disks import disk_cells, disk_total
from brickyard.analysis.figures.cells import DASH, Told, errors, half_and_most, marked_time, percentile_cell
from brickyard.analysis.figures.scheduled import pgbench_rate
from brickyard.analysis.figures.sending import Length, length_told
from brickyard.analysis.figures.totals import Totals, totals
from brickyard.errors import BadInputError
from brickyard.percentiles import SHOWN_NAMES
from brickyard.schema import PgbenchEnd, PhaseEnd, RunWarning, ServerSample, Unit, warned
from brickyard.schema.plan import OtherPlan, PgbenchAsked
from brickyard.store import Record
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_seconds,
    postgresql_bytes,
    three_digits,
)

AGREEMENT_MAX = 0.01  # of pgbench's own figures and those of its log; beyond it one of them is wrong
SPAN_OFF_MOST = 0.05  # by which a server's counts may be of a longer or shorter time than the transactions
SCALE_BYTES = 15_000_000  # a scale's 100,000 accounts with their index: 15 MB, as pgbench's own manual counts them


def is_pgbench(record: Record) -> bool:
    return record.info.is_pgbench


def asked_of(record: Record) -> PgbenchAsked:
    """What pgbench was asked; only of a record that `is_pgbench`."""
    plan = record.info.plan
    if not isinstance(plan, OtherPlan) or plan.pgbench is None:
        raise BadInputError(f"run {record.info.id} is not a pgbench run")
    return plan.pgbench


@dataclass(frozen=True)
class ServerSpan:
    """What the server did between two samples. Rates a second; None where its version does not count them."""

    start_s: float
    end_s: float
    wal_flushes_per_s: float | None
    wal_writes_per_s: float | None
    wal_bytes_per_s: float
    block_reads_per_s: float | None
    block_writes_per_s: float | None
    checkpoints: int
    wal_buffers_full: int


LATE_S = 1.0
"""A process of PostgreSQL reports what it counted at most once in this time (`PGSTAT_MIN_INTERVAL`), and only between
transactions."""
SPAN_OF_LATE = 9
"""A span lasts so many times as long as its counts may be late. What was done in the time before one of its ends may
count on the other side, so its rate is off by at most a ninth where the work is even. Ten would leave two spans of a
run of 30 s, since samples are a little more than a second apart."""
SPANS_MIN = 3
"""Fewer show no course."""


def server_course(record: Record) -> list[ServerSpan]:
    """Spans that the server's counts support; none where there are fewer than three, and then `server_total` stands
    alone. Between two samples of a second, the counts give rates that never happened: nothing in the first, twice the
    rate in the second, and of the moment after the last transaction what a whole second did."""
    seen = samples_of(record)
    if not seen:
        return []
    least_ns = round(SPAN_OF_LATE * _late_s(record) * 1e9)
    ends = seen[:1]
    for sample in seen[1:]:
        if sample.at_ns - ends[-1].at_ns >= least_ns:
            ends.append(sample)
    ends[-1] = seen[-1]  # what is left belongs to the last span
    return [_span(one, other) for one, other in pairwise(ends)] if len(ends) > SPANS_MIN else []


def _late_s(record: Record) -> float:
    """A transaction that takes longer than the server's processes wait counts at its end."""
    row = call_totals(record)
    service = row.service if row else None
    return max(LATE_S, service.mean_ns / 1e9) if service else LATE_S


def no_course_words(record: Record) -> str:
    """Why there is a total of the server and no course; empty where there is one, or neither."""
    if server_total(record) is None or server_course(record):
        return ""
    late_s = _late_s(record)
    late = "up to a second late" if late_s == LATE_S else "at the end of a transaction"
    shortest = format_seconds(SPANS_MIN * SPAN_OF_LATE * late_s)
    return f"PostgreSQL reports its counters {late}, so a run under about {shortest} has only their mean over the run."


def checkpoints_seen_s(record: Record) -> list[float]:
    """When samples first had another checkpoint; each had begun up to about a second before."""
    return [other.at_ns / 1e9 for one, other in pairwise(samples_of(record)) if _begun(other) > _begun(one)]


def _begun(sample: ServerSample) -> int:
    return sample.checkpoints_timed + sample.checkpoints_requested


def samples_of(record: Record) -> list[ServerSample]:
    """In the order of their instants; the first of a run may have been told after the second."""
    return sorted(record.of(ServerSample), key=lambda seen: seen.at_ns)


def server_total(record: Record) -> ServerSpan | None:
    seen = samples_of(record)
    return _span(seen[0], seen[-1]) if len(seen) > 1 and seen[-1].at_ns > seen[0].at_ns else None


def _span(one: ServerSample, other: ServerSample) -> ServerSpan:
    seconds = (other.at_ns - one.at_ns) / 1e9

    def rate(name: str) -> float | None:
        before, after = getattr(one, name), getattr(other, name)
        return None if before is None or after is None else (after - before) / seconds

    return ServerSpan(
        start_s=one.at_ns / 1e9,
        end_s=other.at_ns / 1e9,
        wal_flushes_per_s=rate("wal_flushes"),
        wal_writes_per_s=rate("wal_writes"),
        wal_bytes_per_s=rate("wal_bytes") or 0.0,
        block_reads_per_s=rate("block_reads"),
        block_writes_per_s=rate("block_writes"),
        checkpoints=_begun(other) - _begun(one),
        wal_buffers_full=other.wal_buffers_full - one.wal_buffers_full,
    )


def own_summary(record: Record) -> PgbenchEnd | None:
    """What pgbench printed; None where it did not come to its end."""
    return next((end.pgbench for end in record.of(PhaseEnd) if end.pgbench is not None), None)


def settings_of(record: Record) -> dict[str, str]:
    return dict(opened[0].settings or []) if (opened := record.info.opened) else {}


def call_totals(record: Record) -> Totals | None:
    return next((row for row in totals(record) if row.operation == "call"), None)


TPS_COLUMNS = ("clients", "transactions", "tps", *SHOWN_NAMES, "max", "failed")
OFFERED = "offered/s"
OWN_COLUMNS = ("", "tps", "mean latency", "transactions")
SERVER_COLUMNS = ("WAL flushes/s", "WAL writes/s", "WAL MiB/s", "commits/flush", "reads/s", "writes/s", "checkpoints")
DISK_TITLE = "The server's disks, whole device, others included"


def tables(record: Record) -> list[Told]:
    """Title, columns and rows of each."""
    row = call_totals(record)
    if row is None:
        return []
    rate, is_told = pgbench_rate(record), _length(record) is not None
    columns = TPS_COLUMNS if rate is None else (*TPS_COLUMNS[:2], OFFERED, *TPS_COLUMNS[2:])
    found: list[Told] = [("Transactions", columns, [_tps_cells(record, row)])]
    late = row.lateness
    if late is not None:
        told = [percentile_cell(late, name, of_length=is_told) for name in SHOWN_NAMES]
        told.append(marked_time(late.max_ns, of_length=is_told))
        found.append(("Lateness of transactions", (*SHOWN_NAMES, "max"), [told]))
    if (own := own_summary(record)) is not None:
        found.append(("Compared with pgbench's own summary", OWN_COLUMNS, _own_rows(row, own)))
    if (server := server_total(record)) is not None:
        found.append(("Server activity during the run", SERVER_COLUMNS, [_server_cells(row, server)]))
    if (disk := disk_total(record)) is not None:
        columns = ("reads/s", "writes/s", "MiB/s read", "MiB/s written", "queue", "service", "busy")
        found.append((DISK_TITLE, columns, [disk_cells(disk)]))
    return found


def _length(record: Record) -> Length | None:
    """Why the times from when transactions were due tell how long the run was; None where they do not."""
    return next(iter(length_told(record).values()), None)


def _tps_cells(record: Record, row: Totals) -> list[str]:
    response, rate, is_told = row.response, pgbench_rate(record), _length(record) is not None
    points = [percentile_cell(response, name, of_length=is_told) for name in SHOWN_NAMES]
    most = marked_time(response.max_ns if response else None, of_length=is_told)
    offered = [] if rate is None else [format_iops(rate)]
    counts = [str(asked_of(record).clients), format_count(row.requests), *offered]
    return [*counts, _rate(row), *points, most, errors(row.errors)]


def _rate(row: Totals) -> str:
    return format_iops(row.iops) if row.is_rated else DASH


def _own_rows(row: Totals, own: PgbenchEnd) -> list[list[str]]:
    response = row.response
    mean_ns = response.mean_ns if response else None
    ours = [
        "from every transaction's line in pgbench's log",
        _rate(row),
        format_ns(mean_ns),
        format_count(row.requests),
    ]
    theirs = format_iops(own.transactions_per_s), format_ns(own.latency_mean_ns), format_count(own.transactions)
    return [ours, ["as pgbench printed it", *theirs]]


def _server_cells(row: Totals, server: ServerSpan) -> list[str]:
    grouped = commits_a_flush(row, server)
    return [
        _per_s(server.wal_flushes_per_s),
        _per_s(server.wal_writes_per_s),
        format_mib_per_s(server.wal_bytes_per_s),
        DASH if grouped is None else three_digits(grouped),
        _per_s(server.block_reads_per_s),
        _per_s(server.block_writes_per_s),
        str(server.checkpoints),
    ]


def commits_a_flush(row: Totals, server: ServerSpan) -> float | None:
    """Transactions ÷ flushes, both as counts. None where they are of different times: flushes before the first
    transaction count as well, and those of a server that died count only to its last sample."""
    span_s, rated_s = server.end_s - server.start_s, row.rated_ns / 1e9
    flushes = (server.wal_flushes_per_s or 0.0) * span_s
    if not flushes or not row.is_rated or abs(span_s - rated_s) > SPAN_OFF_MOST * rated_s:
        return None
    return row.requests / flushes


def _per_s(value: float | None) -> str:
    return DASH if value is None else format_iops(value)


def words(record: Record) -> list[str]:
    """What the figures come to, in sentences."""
    row = call_totals(record)
    response = row.response if row else None
    if row is None or response is None or not row.is_rated:
        return []
    rate, length = pgbench_rate(record), _length(record)
    text = f"{format_iops(row.iops)} transactions/s"
    text += "" if rate is None else f" at an offered rate of {format_iops(rate)}/s"
    if length is not None:
        said = [f"{text}: {length.words}, so response times depend on how long the run was."]
    else:
        if told := half_and_most(response):
            text += f", half of them within {told[0]} and 99 % within {told[1]}"
        said = [f"{text}, the slowest after {format_ns(response.max_ns)}."]
    server = server_total(record)
    if server is not None and server.wal_flushes_per_s:
        text = f"The server made {format_iops(server.wal_flushes_per_s)} log flushes/s"
        carried = commits_a_flush(row, server)
        said.append(f"{text}; there were {three_digits(carried)} commits per flush." if carried else f"{text}.")
    return said


class PgbenchDocument(msgspec.Struct, frozen=True, kw_only=True):
    own_summary: PgbenchEnd | None
    server: list[ServerSpan]
    """Empty where the run is too short for a course."""
    server_total: ServerSpan | None
    settings: dict[str, str]


def document(record: Record) -> PgbenchDocument | None:
    """For `--json`: the course of the server and its total, and pgbench's own figures."""
    if not is_pgbench(record):
        return None
    return PgbenchDocument(
        own_summary=own_summary(record),
        server=server_course(record),
        server_total=server_total(record),
        settings=settings_of(record),
    )


def disagreement(record: Record) -> float | None:
    """How far tps of the log is from what pgbench printed, as a share."""
    row, own = call_totals(record), own_summary(record)
    if row is None or own is None or not own.transactions_per_s or not row.is_rated:
        return None
    return abs(row.iops / own.transactions_per_s - 1)


def pgbench_warnings(record: Record) -> list[RunWarning]:
    if not is_pgbench(record):
        return []
    return [*_undurable(record), *_unknown(record), *_fitting(record), *_contending(record), *_disagreeing(record)]


def _undurable(record: Record) -> Iterator[RunWarning]:
    """Settings with which a power cut loses what a client was told is committed, or damages the database."""
    lost = undurable(record.info)
    torn = switched_off(record.info, OF_PAGES)
    if lost or torn:
        yield warned(
            "not_durable",
            "warning",
            "The server ran with {settings}:"
            + (" commits were not durable, so this is not a rate of durable commits." if lost else "")
            + (" A power cut may leave torn pages that cannot be repaired." if torn else ""),
            "Compare such a run only with runs that have the same settings.",
            settings=" and ".join([*lost, *torn]),
        )


def _unknown(record: Record) -> Iterator[RunWarning]:
    if not is_unknown(record.info):
        return
    row, server = call_totals(record), server_total(record)
    carried = commits_a_flush(row, server) if row and server else None
    yield warned(
        "durability_unknown",
        "warning",
        "The script itself sets synchronous_commit, so which of its commits were durable is not known"
        + ("." if carried is None else "; there were {carried} commits per flush."),
        "For one answer, leave it out of the script and use --set pg.synchronous_commit.",
        carried=DASH if carried is None else three_digits(carried),
    )


def _fitting(record: Record) -> Iterator[RunWarning]:
    target = next(iter(record.info.opened), None)
    size = target.size_bytes if target and target.is_local else 0
    memory = (record.info.facts.host.memory_bytes if record.info.facts.host else None) or 0
    if not size or not memory or size >= memory:
        return
    try:
        buffers = postgresql_bytes(settings_of(record).get("shared_buffers", ""))
    except (ValueError, KeyError):
        buffers = 0
    also = " and even in shared_buffers ({buffers})" if buffers > size else ""
    yield warned(
        "fits_in_memory",
        "warning",
        f"Scale {{scale}} ({{size}}) fits in memory ({{memory}}){also}: reads are served from memory, so the figures "
        "show commits and checkpoints, not disk reads.",
        "To measure disk reads as well, use a scale of {enough}, twice the memory.",
        gravity=memory / size,
        scale=Unit.NUMBER.of(asked_of(record).scale),
        size=Unit.BYTES.of(size),
        memory=Unit.BYTES.of(memory),
        buffers=Unit.BYTES.of(buffers),
        enough=Unit.COUNT.of(2 * memory // SCALE_BYTES),
    )


def _contending(record: Record) -> Iterator[RunWarning]:
    """Each transaction of this script updates one of as many branches as the scale has units (pgbench's manual)."""
    asked = asked_of(record)
    if asked.script == "tpcb-like" and asked.clients > asked.scale:
        yield warned(
            "clients_contend",
            "warning",
            "{clients} clients update the rows of {scale} branches, so they wait for one another and not for the "
            "storage alone.",
            "Use a scale of at least the number of clients, or script=simple-update.",
            clients=Unit.NUMBER.of(asked.clients),
            scale=Unit.NUMBER.of(asked.scale),
        )


def _disagreeing(record: Record) -> Iterator[RunWarning]:
    share = disagreement(record)
    if share is not None and share > AGREEMENT_MAX and record.info.outcome != "interrupted":
        yield warned(
            "pgbench_disagrees",
            "warning",
            "The rate computed from pgbench's log differs by {share} from the rate that pgbench printed.",
            "Run for longer; the time to connect matters more in a short run.",
            share=Unit.SHARE_TENTHS.of(share),
        )
