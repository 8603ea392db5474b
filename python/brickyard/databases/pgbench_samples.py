"""Duty: what the server counts (log, checkpoints, blocks) once a second, and its settings that are not the default.

Refusal: nothing is reset or changed, and no setting that may hold a password is read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from brickyard.schema import ServerSample

SAMPLE_EVERY_S = 1.0  # a server's processes report about once a second; more often would tell no more

NAMED = (
    "shared_buffers",
    "synchronous_commit",
    "wal_sync_method",
    "full_page_writes",
    "fsync",
    "wal_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "checkpoint_completion_target",
    "autovacuum",
    "data_checksums",
    "io_method",
    "huge_pages",
)
"""Told whatever they are: what a commit costs depends on them."""
DIFFERING = """select name, current_setting(name) from pg_settings
 where name = any(%(named)s) or (setting is distinct from boot_val and context <> 'internal'
   and source not in ('default', 'dynamic default', 'override', 'session') and not name = any(%(left_out)s)
   and name !~ '(password|passphrase|secret|token|conninfo|_command|_file|_director)')
 order by not name = any(%(named)s), name"""
LEFT_OUT = (
    *("port", "listen_addresses", "application_name", "client_encoding", "TimeZone", "log_timezone", "DateStyle"),
    *("lc_messages", "lc_monetary", "lc_numeric", "lc_time", "default_text_search_config", "cluster_name"),
)

LOG_SINCE_18 = """(select coalesce(sum(writes), 0)::bigint from pg_stat_io where object = 'wal'),
 (select coalesce(sum(fsyncs), 0)::bigint from pg_stat_io where object = 'wal')"""
BLOCKS = ", ".join(
    f"(select coalesce(sum({what}), 0)::bigint from pg_stat_io where object = 'relation')"  # noqa: S608
    for what in ("reads", "writes", "extends", "fsyncs")
)
CHECKPOINTER = "num_timed, num_requested, write_time, sync_time, buffers_written from pg_stat_wal, pg_stat_checkpointer"
BACKGROUND_WRITER = (
    "checkpoints_timed, checkpoints_req, checkpoint_write_time, checkpoint_sync_time, buffers_checkpoint"
    " from pg_stat_wal, pg_stat_bgwriter"
)


def sample_query(version: int) -> str:
    """For `server_version_num`; views moved between versions. In the order of what `sample` reads."""
    log = LOG_SINCE_18 if version >= 180_000 else "wal_write, wal_sync"
    blocks = BLOCKS if version >= 160_000 else "null, null, null, null"
    rest = CHECKPOINTER if version >= 170_000 else BACKGROUND_WRITER
    return f"select wal_records, wal_fpi, wal_bytes::bigint, wal_buffers_full, {log}, {blocks}, {rest}"


def sample(connection: Any, query: str, at_ns: int) -> ServerSample:
    row = connection.execute(query).fetchone()
    return ServerSample(
        target=0,
        at_ns=max(at_ns, 0),
        wal_records=row[0],
        wal_full_page_images=row[1],
        wal_bytes=row[2],
        wal_buffers_full=row[3],
        wal_writes=row[4],
        wal_flushes=row[5],
        block_reads=row[6],
        block_writes=row[7],
        block_extends=row[8],
        block_flushes=row[9],
        checkpoints_timed=row[10],
        checkpoints_requested=row[11],
        checkpoint_write_ms=row[12],
        checkpoint_sync_ms=row[13],
        checkpoint_blocks=row[14],
    )


def settings(connection: Any) -> list[tuple[str, str]]:
    rows = connection.execute(DIFFERING, {"named": list(NAMED), "left_out": list(LEFT_OUT)}).fetchall()
    return [(str(name), str(value)) for name, value in rows]


def version_number(connection: Any) -> int:
    with suppress(ValueError):
        return int(connection.execute("show server_version_num").fetchone()[0])
    return 0
