"""Events as types: those that the core emits, those that stores of earlier versions hold, those that are refused."""

from __future__ import annotations

import copy
import dataclasses
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import support
from brickyard import schema
from brickyard.cli import main
from brickyard.databases.measured import MeasuredLoad
from brickyard.errors import BadInputError
from brickyard.schema import generated, older
from brickyard.store import Store

ROOT = Path(__file__).resolve().parents[2]


def kept_store(folder: Path, sample: str) -> Path:
    place = folder / "old.db"
    with closing(sqlite3.connect(place)) as db:
        db.executescript((ROOT / "tests/samples" / sample).read_text())
    return place


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store of version 2, from before events had a version: a verified run, two models, PostMark, a loader."""
    return kept_store(tmp_path, "store-2.sql")


@pytest.fixture
def store_of_texts(tmp_path: Path) -> Path:
    """Events of version 1, whose reasons are texts: io_uring, psync, a model, and io_uring on tmpfs."""
    return kept_store(tmp_path, "events-1.sql")


def test_the_generated_types_are_those_of_the_schema() -> None:
    subprocess.run([sys.executable, ROOT / "tools/schema.py", "--check"], check=True)


def test_a_store_from_before_versions_opens_and_every_event_has_its_type(old_store: Path) -> None:
    with Store(old_store) as store:
        records = [store.record(info.id) for info in store.runs()]
    assert len(records) == 5
    events = [schema.typed(event) for record in records for event in record.events]
    assert {type(event) for event in events} >= {
        schema.PhaseEnd,
        schema.PowerCut,
        schema.BrickCondition,
        schema.BrickBackground,
        schema.HangEvent,
        schema.RampEnd,
        schema.Condition,
        schema.Drivers,
    }
    starts = [record.info.start for record in records]
    assert [start.engine for start in starts if start] == ["io_uring", "sim", "sim", "files", "postgresql"]
    verified = records[0].of(schema.PhaseEnd)[1].verified
    assert verified is not None
    assert (verified.checked_blocks, verified.damaged_blocks) == (512, 0)
    assert (records[1].of(schema.PowerCut)[0].lost_writes or 0) > 0


def test_what_loaders_said_in_words_has_its_name(old_store: Path) -> None:
    with Store(old_store) as store:
        (end,) = store.record(5).of(schema.PhaseEnd)
    assert (end.reason, end.generator_bound_reason) == (schema.PhaseReason.INTERRUPTED, schema.Bound.CPU)


def test_reasons_that_were_texts_are_types_with_the_same_words(store_of_texts: Path) -> None:
    with Store(store_of_texts) as store:
        infos = store.runs()
    starts = [info.start for info in infos]
    assert [(start.engine_reason, start.io_reason, start.submit_reason) for start in starts if start] == [
        (
            generated.EngineOffered(),
            None,
            generated.SubmitAsWritten(text="vda has the scheduler mq-deadline"),
        ),
        (generated.EngineRequested(), generated.BufferedRequested(), None),
        (generated.EngineModelled(), generated.BufferedModelled(), None),
        (generated.EngineOffered(), generated.BufferedInMemory(), generated.SubmitRequested()),
    ]
    for info in infos:
        assert schema.start_document(info.engine, info.start) == info.engine


REWORDED = {"io_uring has no trim for block devices": "Brickyard trims block devices by system calls"}
"""Linux 6.12 gave io_uring one, so the reason is another."""


def test_every_text_of_version_1_has_the_words_of_its_type() -> None:
    for key, kinds in older.START.items():
        for text in kinds:
            written = {"path": "/data/target", "kind": "file", "size_bytes": 4096, "unwritten": "none"}
            texts = {"engine_reason": "asked for", "io_reason": "", "targets": [written], key: text}
            kept = support.start_event() | texts
            start = schema.typed(kept)
            assert isinstance(start, schema.Start)
            assert schema.start_document(kept, start) == kept | {key: REWORDED.get(text, text)}


def test_texts_of_version_2_are_types_with_the_same_words(tmp_path: Path) -> None:
    """Notes of a model, two files that were never written or of which nobody knows, and two hosts of which one is lost
    while an array below them is in another condition."""
    with Store(kept_store(tmp_path, "events-2.sql")) as store:
        model, never, unknown, fleet = [store.record(info.id) for info in store.runs()]
    starts = [record.info.start for record in (model, never, unknown, fleet)]
    assert starts[0] is not None
    assert [schema.words_of(note) for note in starts[0].notes] == model.info.engine["notes"]
    assert [start.targets[0].unwritten for start in starts if start] == [
        generated.AllWritten(),
        generated.UnwrittenBytes(bytes=16 << 20),
        generated.UnwrittenUnknown(),
        generated.AllWritten(),
    ]
    for record in (model, never, unknown, fleet):
        shown = schema.start_document(record.info.engine, record.info.start)
        assert all(shown[key] == record.info.engine[key] for key in ("targets", "notes") if key in shown)
    (lost,), (first, _) = fleet.of(schema.HostLost), fleet.of(schema.HostEnd)
    assert (lost.reason, first.message) == (generated.HostAsWritten(text="killed"), None)
    (judged,) = fleet.of(schema.Condition)
    assert schema.words_of(judged.reason) == "the rebuild had not yet begun: the array was degraded"
    for kind in (schema.HostLost, schema.HostEnd, schema.Condition):
        tag = schema.tag_of(kind)
        assert fleet.documents_of(kind) == [event for event in fleet.events if event["event"] == tag]


def test_reasons_are_shown_in_words_whatever_the_version() -> None:
    lost = {"event": "host_lost", "host": "b", "at_ns": 5, "reason": {"kind": "silent", "silent_ns": 5_000_000_000}}
    assert schema.event_document({**lost, "streams": ["b"]})["reason"] == "it has not been heard for 5 s"
    late = schema.StartLate(late_ns=2_500_000, allowed_ns=500_000)
    assert schema.words_of(late) == "the start may be apart by 2.50 ms, 0.5 ms allowed"
    missing = [schema.HostNamed(host="b", reason=schema.HostWorkerEnded(exit_code=3, after=schema.HostDied()))]
    with Store(":memory:") as store:
        run = support.add_run(store, [], outcome=None)
        reason = schema.HostsMissing(ended=1, hosts=2, missing=missing)
        store.end_run(run, schema.failed_end(reason), None, [])
        assert store.record(run).info.message == schema.words_of(reason)
    assert schema.words_of(reason) == (
        "1 of 2 hosts to the end; b: its worker ended unexpectedly (exit code 3): "
        "its Ray node or our process on it has died"
    )


def test_a_reason_that_no_version_knew_keeps_its_words(old_store: Path) -> None:
    with Store(old_store) as store:
        start = store.record(5).info.start
    assert start is not None
    assert start.engine_reason == generated.EngineAsWritten(text="2 clients, one tile a transaction")
    assert schema.reasons_of(start).engine == "2 clients, one tile a transaction"


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ("store-2.sql", "terraserver-load"),
        ("events-1.sql", "vda has the scheduler"),
        ("events-2.sql", "NOT normal: the rebuild had not yet begun"),
    ],
)
def test_runs_of_an_old_store_are_shown(
    sample: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = kept_store(tmp_path, sample)
    with Store(place) as store:
        runs = [info.id for info in store.runs()]
    for run in runs:
        assert main(["show", str(run), "--store", str(place)]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_every_event_of_a_run_is_of_this_version(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    run = ["run", "sqlio-random-write-4", "sim:terraserver-2003", "--set", "duration=3s", "--store", str(place)]
    assert main([*run, "--set", "power_cut_at=1s"]) == 0
    with Store(place) as store:
        record = store.record(1)
    assert record.info.start is not None
    assert record.info.start.schema == schema.SCHEMA
    for event in record.events:
        again = msgspec.to_builtins(schema.typed(event))
        assert {key: again[key] for key in event} == event


@pytest.mark.parametrize(
    "change",
    [
        {"event": "surprise"},
        {"operation": "reed"},
        {"at_ns": "soon"},
        {"text": None},
    ],
)
def test_what_is_no_event_is_not_stored(change: dict[str, Any]) -> None:
    error = {
        "event": "error",
        "at_ns": 5,
        "phase": 0,
        "stream": 0,
        "operation": "read",
        "offset_bytes": 0,
        "request_bytes": 4096,
        "kind": "errno",
        "errno": 5,
        "text": "read failed",
    }
    with Store(":memory:") as store:
        run = support.add_run(store, [])
        store.add_events(run, [support.told(error)])
        with pytest.raises(msgspec.ValidationError):
            store.add_events(run, [support.told({**error, **change})])
        assert len(store.record(run).errors) == 1


def test_typed_events_are_stored_as_documents_are() -> None:
    document = support.phase_end()
    event = schema.typed(document)
    with Store(":memory:") as store:
        run = support.add_run(store, [])
        store.add_events(run, [support.told(document), event])
        first, second = store.record(run).of(schema.PhaseEnd)
    assert first == second == event


def test_fields_of_later_versions_are_left_out() -> None:
    document = support.phase_end()
    later = copy.deepcopy(document) | {"weather": "fine"}
    assert schema.decode(json.dumps(later)) == schema.typed(document)


def test_facts_and_what_was_watched_keep_their_stored_form() -> None:
    """As stores have them from before they were types: nothing is lost, renamed or added by reading and writing."""
    kept = json.loads((ROOT / "tests/samples/facts/stored.json").read_text())
    assert schema.facts_document(schema.facts_of(kept["facts"])) == kept["facts"]
    assert schema.watch_document(schema.watch_of(kept["watch"])) == kept["watch"]
    disk = schema.facts_of(kept["facts"]).targets[1].stack[0].below[0]
    assert (disk.transport, disk.why("vendor", "")) == ("sata", "")
    assert schema.watch_of({}).targets == []


def test_facts_that_are_damaged_name_their_run(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        info = store.record(support.add_run(store, [])).info
    assert info.facts.host is not None
    broken = dataclasses.replace(info, facts_document={"targets": "none"}, watch_document={"targets": 3})
    with pytest.raises(BadInputError, match=f"run {info.id}: its facts are damaged"):
        _ = broken.facts
    with pytest.raises(BadInputError, match=f"run {info.id}: what was watched is damaged"):
        _ = broken.watch


FIRST_READERS = """
import sys, threading
from brickyard.schema import facts_of

told = {"host": {"memory": {"MemTotal": 1}, "cpu": {}}, "targets": [{"path": "a", "mount": {"options": "rw"}}] * 3}

def read():
    together.wait()
    facts_of(told)

sys.setswitchinterval(1e-6)
together = threading.Barrier(16)
threads = [threading.Thread(target=read) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_threads_that_are_the_first_to_read_a_record_do_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_READERS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_loader_tells_a_failed_call_as_a_replay_does() -> None:
    """`sqlstate`, with the state before the text; the counts go by the state."""
    import psycopg

    start = schema.typed(support.start_event())
    assert isinstance(start, schema.Start)
    load = MeasuredLoad([], start.targets, None)
    load._count_error(0, psycopg.errors.UniqueViolation("twice"), 5)
    told = [schema.typed(json.loads(text)) for _ in range(2) for text in load.events(1)]
    (error,) = [event for event in told if isinstance(event, schema.ErrorEvent)]
    assert (error.kind, error.text) == ("sqlstate", "23505: twice")
    (end,) = [event for event in told if isinstance(event, schema.PhaseEnd)]
    assert end.errors_by_errno == {"23505": 1}


def test_a_run_out_of_its_condition_is_read_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is a type in the store and words everywhere else."""
    place = tmp_path / "runs.db"
    ended = schema.WorkEnded(work=schema.BackgroundWork.REBUILD, before_ns=3 * support.SECOND)
    with Store(place) as store:
        run = support.add_run(
            store, [support.interval(0, support.SECOND, support.cell([support.MS])), support.phase_end()]
        )
        store.add_events(run, [schema.Condition(condition=schema.HeldCondition.REBUILDING, valid=False, reason=ended)])
        assert store.record(run).info.invalid == "the rebuild ended 3.0 s before the run did"
        assert [head.invalid for head in store.runs()] == ["the rebuild ended 3.0 s before the run did"]
    assert main(["show", str(run), "--store", str(place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["condition_check"]
    assert (found["valid"], found["reason"]) == (False, "the rebuild ended 3.0 s before the run did")
