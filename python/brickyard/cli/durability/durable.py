"""Duty: `brickyard durable`: one verdict on the write path of a target, for whoever runs a database on it.

Refusal: the measuring, the figures and the judgement are in `brickyard.honesty`, etcd's rule is a ruler.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from brickyard import bricks, rulers
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.judging.verdict import Verdict, verdict_document
from brickyard.analysis.judging.verdict import verdict as held_against
from brickyard.cli.durability.honesty import DEFAULT_SIZE, STYLE, Protected, cache_of
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_labelled, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_circumstances, print_warnings
from brickyard.cli.parts.target import aim_at, named
from brickyard.databases import pg_test_fsync
from brickyard.databases.pg_test_fsync import FsyncTest
from brickyard.errors import BAD_INPUT, FAILED, BadInputError
from brickyard.honesty import SILENT, SUSPICIOUS, Figures, Finding, figures, findings, verdict
from brickyard.honesty.durable import ETCD, PAGE_BYTES, SIZES_BYTES, WRITERS, Method, WriteCell, measure
from brickyard.honesty.durable_figures import Commits, DurableWrite, commits, durable_writes, faster, find, methods
from brickyard.honesty.log_rule import judged
from brickyard.honesty.proof import LOST, PROVED, Proof, prove
from brickyard.schema import Document, IoPath, stored
from brickyard.schema.target_sheet import WriteCaches
from brickyard.store import Record, Store
from brickyard.study.running.interrupt import Interrupt
from brickyard.units import format_count, format_iops, format_mib_per_s, format_ns, format_percent, format_size

QUESTION = "What does a durable write cost here, and is it durable?"
LINUX_DEFAULT = Method.FDATASYNC
STYLES = {**STYLE, PROVED: "green", LOST: "bold red"}


@dataclass(frozen=True)
class WritePath:
    """All that the verdict rests on."""

    study: int
    records: list[Record]
    writes: list[DurableWrite]
    measured: Figures
    cache: WriteCaches
    findings: list[Finding]
    etcd: Verdict | None
    postgres: FsyncTest | None
    proof: Proof | None

    @property
    def word(self) -> str:
        """A power cut outweighs what speeds suggest, if it shows anything."""
        return self.proof.word if self.proof and self.proof.word else verdict(self.findings)

    @property
    def commits(self) -> list[Commits]:
        found = find(self.writes, WriteCell(LINUX_DEFAULT, PAGE_BYTES))
        return commits(found) if found else []


def durable(
    target: str | None = None,
    /,
    *,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Exit with 1 if the write path is suspicious, or writes are missing.",
        ),
    ] = False,
    protected: Protected = False,
    recorder_file: Annotated[
        Path | None,
        Parameter(
            validator=options.READ,
            help="File that the recorder of `honesty write` wrote before a power cut; the target is compared with it "
            "before anything is written.",
        ),
    ] = None,
    postgres: Annotated[
        bool, Parameter(name="--pg-test-fsync", help="Also run PostgreSQL's pg_test_fsync, if it is installed.")
    ] = True,
    placing: options.Placing = options.AS_IT_IS,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """One verdict on the write path, in a minute: what durable writes cost, and whether they are durable.

    Parameters
    ----------
    target
        A file, a block device, or a directory in which a scratch file is made, and removed at the end.
    """
    targets = named(target)
    if target and bricks.is_modelled(target):
        raise BadInputError(f"{target}: a modelled brick does what its model says; name a file or a device")
    proof = None
    if recorder_file is not None:
        if not target or os.path.isdir(target):
            raise BadInputError("--recorder-file: name the file or device that `honesty write` wrote")
        proof = prove(target, recorder_file)
    if target and os.path.isdir(target):
        if placing.scratch is not None:
            raise BadInputError("--scratch: the target is a directory; leave one of them out")
        targets, placing = (), replace(placing, scratch=Path(target))
    with (
        Store(store) as kept,
        aim_at(targets, placing if targets or placing.size else replace(placing, size=DEFAULT_SIZE)) as aimed,
    ):
        with Interrupt() as interrupt, Terminal() as terminal:
            study, results = measure(kept, terminal, interrupt, aimed)
        records = [kept.record(result.run) for result in results]
        done = results[-1].outcome == "done"
        beside = _postgres(aimed.targets[0]) if postgres and done else None
    found = _found(study, records, beside, proof, protected=protected)
    if json:
        emit(_document(found))
    else:
        _print(stdout(), found)
    code = EXIT_CODES.get(records[-1].info.outcome, BAD_INPUT)
    is_bad = found.word in (SUSPICIOUS, LOST) or bool(proof and proof.missing)
    return FAILED if check and code == 0 and is_bad else code


def _postgres(target: str) -> FsyncTest | None:
    """Beside a file, in its directory; on a block device there is no file to give it."""
    if not os.path.isfile(target):
        return None
    stderr().print("pg_test_fsync …", markup=False)
    return pg_test_fsync.run(Path(target).resolve().parent)


def _found(
    study: int, records: list[Record], beside: FsyncTest | None, proof: Proof | None, *, protected: bool
) -> WritePath:
    measured = figures(records)
    # The flushed methods go through the page cache on purpose, as PostgreSQL's log does.
    measured = replace(measured, buffered_reason="" if _is_direct(records[0]) else measured.buffered_reason)
    cache = cache_of(records)
    etcd = next((record for record in records if record.info.profile == ETCD), None)
    return WritePath(
        study,
        records,
        durable_writes(records),
        measured,
        cache,
        findings(measured, cache, protected=protected),
        judged(etcd, held_against(etcd, rulers.read("etcd"))) if etcd and etcd.info.outcome == "done" else None,
        beside,
        proof,
    )


def _is_direct(record: Record) -> bool:
    return record.info.start is not None and record.info.start.io is IoPath.DIRECT


def _answer(found: WritePath) -> Answer:
    sentences = [_verdict_words(found)]
    page = find(found.writes, WriteCell(LINUX_DEFAULT, PAGE_BYTES))
    if page:
        most = found.commits[-1]
        sentences.append(
            f"PostgreSQL's log writes pages of {format_size(PAGE_BYTES)} through the page cache and flushes each commit"
            f" with fdatasync. It limits one client to at most {format_iops(page.per_s)} commits/s (95 % "
            f"interval {_interval(page)}), {format_ns(page.each_ns)} each, and {most.clients} clients that share every"
            f" flush to at most {most.clients} times as many; `brickyard run pgbench` measures how much of that a "
            "server reaches."
        )
    if page:
        sentences.append(_faster_words(found))
    sentences.append(f"etcd's rule (p99 of fdatasync within 10 ms): {_etcd_words(found.etcd)}.")
    return Answer(QUESTION, tuple(sentences), belief(found.records))


def _etcd_words(held: Verdict | None) -> str:
    if held is None:
        return "not measured, because the run ended before that"
    decided = held.decided
    return (
        f"{held.word}, {decided.reason}" if decided.value is None else f"{held.word}, with {format_ns(decided.value)}"
    )


def _faster_words(found: WritePath) -> str:
    better = faster(found.writes, LINUX_DEFAULT)
    if not better:
        return f"No other wal_sync_method was faster beyond noise than {LINUX_DEFAULT}, PostgreSQL's default on Linux."
    said = " and ".join(f"{method} by {format_percent(item.share)}" for method, item in better)
    return f"Faster than {LINUX_DEFAULT}, PostgreSQL's default on Linux, beyond noise: wal_sync_method = {said}."


def _verdict_words(found: WritePath) -> str:
    if found.proof and found.proof.word:
        return f"Verdict: {found.word}. {found.proof.text}"
    reasons = [item.text for item in found.findings if item.state == found.word]
    # Where nothing is judged, the reason is said after what the kernel knows.
    reason = reasons[-1 if found.word == SILENT else 0] if reasons else ""
    missing = found.proof.text if found.proof and found.proof.missing else ""
    return " ".join(filter(None, (f"Verdict: {found.word}.", reason, missing)))


def _print(console: Console, found: WritePath) -> None:
    print_answer(console, _answer(found))
    print_warnings(console, found.records)
    if found.writes:
        _print_costs(console, found.writes)
        _print_methods(console, found)
        _print_writers(console, found)
    if found.measured.dirty:
        rows = [
            [format_size(d.dirty_bytes), format_ns(d.writes_ns), format_ns(d.flush_ns), _together(d.bytes_per_s)]
            for d in found.measured.dirty
        ]
        columns = [(name, "right") for name in ("dirty data", "writes", "flush", "MiB/s with flush")]
        console.print(table("Flush time against dirty data", columns, rows))
        console.print()
    lines = [(Text(item.state, STYLES[item.state]), item.text) for item in found.findings]
    if found.proof:
        word = found.proof.word
        lines.append((Text(word or "no proof", STYLES.get(word, "dim")), found.proof.text))
    print_labelled(console, lines, "right")
    console.print()
    print_circumstances(console, found.records)
    last = found.records[-1].info
    if last.outcome != "done":
        print_line(console, f"{last.outcome}: {last.message}; the figures above were measured before that")


def _together(bytes_per_s: float) -> str:
    return format_mib_per_s(bytes_per_s) if bytes_per_s else "–"


def _print_costs(console: Console, writes: list[DurableWrite]) -> None:
    rows = []
    for size in SIZES_BYTES:
        of_size = [find(writes, WriteCell(method, size)) for method in Method]
        if any(of_size):
            rows.append([format_size(size), *(format_ns(item.each_ns) if item else "–" for item in of_size)])
    columns = [("write", "right"), *((str(method), "right") for method in Method)]
    console.print(table("What a durable write costs (one writer; mean of write and flush)", columns, rows))
    if any("–" in row for row in rows):
        print_line(console, "–: smaller than the target's sector, or not measured", "dim")
    console.print()


def _print_methods(console: Console, found: WritePath) -> None:
    beside = found.postgres.per_s if found.postgres else {}
    rows = [
        [
            f"{method}{' (default on Linux)' if method is LINUX_DEFAULT else ''}",
            format_iops(item.per_s),
            _interval(item),
            format_ns(item.each_ns),
            format_count(item.writes),
            *([format_iops(beside[method])] if method in beside else ["–"] if beside else []),
        ]
        for method, item in methods(found.writes)
    ]
    names = ["writes/s", "95 % interval", "each", "writes"] + (["pg_test_fsync, writes/s"] if beside else [])
    columns = [("wal_sync_method", "left"), *((name, "right") for name in names)]
    console.print(table("PostgreSQL's choices, for a page of 8 KiB", columns, rows))
    if found.postgres and found.postgres.reason:
        print_line(console, f"pg_test_fsync gave no figures: {found.postgres.reason}", "dim")
    elif found.postgres:
        print_line(
            console,
            f"{found.postgres.program}, one second per method, not at the same time as Brickyard's measurement",
            "dim",
        )
    console.print()


def _interval(item: DurableWrite) -> str:
    if item.rates.low is None or item.rates.high is None:
        return "–"
    return f"{format_iops(item.rates.low)} to {format_iops(item.rates.high)}"


def _print_writers(console: Console, found: WritePath) -> None:
    rows = []
    for number, writers in enumerate(WRITERS):
        sides = [
            find(found.writes, WriteCell(m, PAGE_BYTES, writers)) for m in (Method.FDATASYNC, Method.OPEN_DATASYNC)
        ]
        group = found.commits[number] if found.commits else None
        rows.append(
            [
                format_count(writers),
                *(format_iops(item.per_s) if item else "–" for item in sides),
                _range(group) if group else "–",
            ]
        )
    names = ("each with its own fdatasync", "each with O_DSYNC", "commits/s at most")
    columns = [("clients", "right"), *((name, "right") for name in names)]
    console.print(table("Many writers, in durable writes/s", columns, rows))
    print_line(
        console,
        "commits/s at most: a server makes one log flush at a time, and every fdatasync serves one commit of each "
        "client (95 % interval of its rate in brackets); the server's processors, locks and data files allow fewer, "
        "on a fast device far fewer. Writers that each flush their own place have several flushes in flight, so they "
        "may reach more than that.",
        "dim",
    )
    console.print()


def _range(group: Commits) -> str:
    if group.low_per_s is None or group.high_per_s is None:
        return format_iops(group.most_per_s)
    return f"{format_iops(group.most_per_s)} ({format_iops(group.low_per_s)} to {format_iops(group.high_per_s)})"


def _document(found: WritePath) -> Document:
    last = found.records[-1].info
    return {
        **_answer(found).document(),
        "study": found.study,
        "runs": [record.info.id for record in found.records],
        "outcome": last.outcome,
        "message": last.message,
        "warnings": stored(distinct_warnings(found.records)),
        "verdict": found.word,
        "findings": [asdict(item) for item in found.findings],
        "writes": [
            {
                "method": str(item.cell.method),
                "request_bytes": item.cell.request_bytes,
                "writers": item.cell.writers,
                "per_s": item.per_s,
                "low_per_s": item.rates.low,
                "high_per_s": item.rates.high,
                "each_ns": item.each_ns,
                "writes": item.writes,
            }
            for item in found.writes
        ],
        "commits": [asdict(item) for item in found.commits],
        "figures": found.measured.document(),
        "write_cache": msgspec.to_builtins(found.cache),
        "etcd": verdict_document(found.etcd) if found.etcd else None,
        "pg_test_fsync": asdict(found.postgres) if found.postgres else None,
        "proof": asdict(found.proof) if found.proof else None,
    }
