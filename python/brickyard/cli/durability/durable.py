"""Duty: `brickyard durable`: one verdict on the write path of a target, for whoever runs a database on it.

Refusal: the measuring, the figures and the judgement are in `brickyard.honesty`, etcd's rule is a ruler.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from brickyard import bricks
from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.judging.verdict import verdict_document
from brickyard.cli.durability.honesty import DEFAULT_SIZE, STYLE, Protected
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_labelled, print_line, stderr, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_circumstances, print_table, print_warnings
from brickyard.cli.parts.target import aim_at, named
from brickyard.databases import pg_test_fsync
from brickyard.databases.pg_test_fsync import FsyncTest
from brickyard.errors import BAD_INPUT, FAILED, BadInputError
from brickyard.honesty import SUSPICIOUS
from brickyard.honesty.answers import WritePath, write_path, write_path_answer
from brickyard.honesty.durable import measure
from brickyard.honesty.measure import Declared
from brickyard.honesty.proof import LOST, PROVED, prove
from brickyard.report.study_tables import durable_tables
from brickyard.schema import Document, stored
from brickyard.store import Store
from brickyard.study.running.interrupt import Interrupt

STYLES = {**STYLE, PROVED: "green", LOST: "bold red"}


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
            study, results = measure(kept, terminal, interrupt, aimed, Declared(protected, proof))
        records = [kept.record(result.run) for result in results]
        done = results[-1].outcome == "done"
        beside = _postgres(aimed.targets[0]) if postgres and done else None
        made = kept.studies(study)[0]
    found = write_path(made, records)
    said = write_path_answer(made, found)
    if json:
        emit({**said.document(), **_document(study, found, beside)})
    else:
        _print(stdout(), said, found, beside)
    code = EXIT_CODES.get(records[-1].info.outcome, BAD_INPUT)
    is_bad = found.word in (SUSPICIOUS, LOST) or bool(proof and proof.missing)
    return FAILED if check and code == 0 and is_bad else code


def _postgres(target: str) -> FsyncTest | None:
    """Beside a file, in its directory; on a block device there is no file to give it."""
    if not os.path.isfile(target):
        return None
    stderr().print("pg_test_fsync …", markup=False)
    return pg_test_fsync.run(Path(target).resolve().parent)


def _print(console: Console, said: Answer, found: WritePath, beside: FsyncTest | None) -> None:
    records = list(found.records)
    print_answer(console, said)
    print_warnings(console, records)
    for made in durable_tables(found, beside.per_s if beside else {}, _beside_words(beside)):
        print_table(console, made)
        console.print()
    lines = [(Text(item.state, STYLES[item.state]), item.text) for item in found.findings]
    if found.proof:
        word = found.proof.word
        lines.append((Text(word or "no proof", STYLES.get(word, "dim")), found.proof.text))
    print_labelled(console, lines, "right")
    console.print()
    print_circumstances(console, records)
    last = records[-1].info
    if last.outcome != "done":
        print_line(console, f"{last.outcome}: {last.message}; the figures above were measured before that")


def _beside_words(beside: FsyncTest | None) -> str:
    if beside is None:
        return ""
    if beside.reason:
        return f"pg_test_fsync gave no figures: {beside.reason}"
    return f"{beside.program}, one second per method, not at the same time as Brickyard's measurement"


def _document(study: int, found: WritePath, beside: FsyncTest | None) -> Document:
    last = found.records[-1].info
    return {
        "study": study,
        "runs": [record.info.id for record in found.records],
        "outcome": last.outcome,
        "message": last.message,
        "warnings": stored(distinct_warnings(list(found.records))),
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
        "pg_test_fsync": asdict(beside) if beside else None,
        "proof": msgspec.to_builtins(found.proof),
    }
