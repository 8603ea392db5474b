"""The store: what is committed stays, whatever happens; what cannot be read is refused in one line."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.schema import PhaseEnd, stored
from brickyard.store import Store, command_on, default_place
from brickyard.store.process import _start_ticks, own_process
from brickyard.store.schema import APPEND_ONLY, MIGRATIONS, migrate
from support import MS, SECOND, add_run, cell, events_of, interval, phase_end, told

WRITER = """
import sys
from dataclasses import asdict
from support import *
from brickyard.schema import RunFacts
from brickyard.store import Store
store = Store(sys.argv[1])
run = store.add_run(profile="p", profile_hash="h", plan=plan(), condition="normal", targets=["t"], options={},
                    software_version="0", facts=RunFacts())
for number in range(int(sys.argv[2])):
    store.add_events(run, [told(interval(number * SECOND, (number + 1) * SECOND, cell([1000 * (number + 1)] * 20)))])
    print(number + 1, flush=True)
"""


def writer(place: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(place), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )


def test_a_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    error = {"event": "error", "at_ns": 5, "phase": 0, "stream": 0, "operation": "read", "offset_bytes": 8192,
             "request_bytes": 4096, "kind": "errno", "errno": 5, "text": "EIO"}  # fmt: skip
    with Store(tmp_path / "runs.db") as store:
        written = [interval(0, SECOND, cell([1000, 3000], errors=2)), error, phase_end(reason="stop")]
        run = add_run(store, written, labels={})
    with Store(tmp_path / "runs.db") as store:
        record = store.record(run)
    assert record.info.outcome == "done"
    assert record.info.seed == 7
    assert record.info.engine["clock"]["read_cost_ns"] == 16.0
    assert [(i.measure, i.requests, i.bytes, i.errors) for i in record.intervals] == [
        ("response", 2, 8192, 2),
        ("service", 2, 8192, 2),
    ]
    assert record.costs[0].cpu_system_ns == 30_000_000
    assert asdict(record.errors[0]) == {key: value for key, value in error.items() if key != "event"}
    assert events_of(record, "phase_end")[0]["reason"] == "stop"


def test_a_run_is_modelled_where_each_of_its_targets_is(tmp_path: Path) -> None:
    of = {"model": ["sim:a", "sim:b,members=2"], "both": ["sim:a", "/data/a"], "real": ["/data/sim:a"]}
    with Store(tmp_path / "runs.db") as store:
        for targets in of.values():
            add_run(store, [phase_end()], targets=targets)
        assert [run.is_modelled for run in store.runs()] == [True, False, False]
        assert [head.is_modelled for head in store.heads()] == [True, False, False]


def test_events_are_decoded_once(tmp_path: Path) -> None:
    """A study of 250 phases asks for its phases' ends 2,000 times; decoding each time took it ten times as long."""
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [interval(0, SECOND, cell([1000, 3000])), phase_end(reason="stop")]))
    (first,), again = record.of(PhaseEnd), record.of(PhaseEnd)
    assert again[0] is first
    again.clear()
    assert record.of(PhaseEnd) == [first]


def test_failures_are_kept_where_nothing_succeeded(tmp_path: Path) -> None:
    failed = {"stream": 0, "operation": "write", "requests": 0, "bytes": 0, "errors": 9, "depth_max": 1, "measures": {}}
    with Store(tmp_path / "runs.db") as store:
        run = add_run(store, [interval(0, SECOND, failed)])
        assert [(i.operation, i.errors) for i in store.record(run).intervals] == [("write", 9)]


def test_a_seed_above_the_signed_range_is_kept(tmp_path: Path) -> None:
    from support import plan

    with Store(tmp_path / "runs.db") as store:
        run = add_run(store, [], plan_={**plan(), "seed": 2**64 - 1})
        assert store.record(run).info.seed == 2**64 - 1


def test_a_run_without_an_end_is_interrupted(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        run = add_run(store, [interval(0, SECOND, cell([1000]))], outcome=None)
        info = store.record(run).info
    assert info.outcome == "interrupted"
    assert "killed" in info.message


@pytest.mark.parametrize("verb", ["UPDATE {} SET rowid = rowid", "DELETE FROM {}"])
def test_nothing_can_be_changed_or_deleted(tmp_path: Path, verb: str) -> None:
    with Store(tmp_path / "runs.db") as store:
        study = store.add_study("s", {})
        run = add_run(store, [interval(0, SECOND, cell([1000])), phase_end()], study=study)
        error = {"event": "error", "at_ns": 0, "phase": 0, "stream": 0, "operation": "read", "offset_bytes": 0}
        store.add_events(run, [told({**error, "request_bytes": 512, "kind": "short", "text": ""})])
        store.end_study(study, "done", [])
        store.add_baseline("b", [run])
    database = sqlite3.connect(tmp_path / "runs.db")
    for table in APPEND_ONLY:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        statement = verb.format(table).replace("rowid", columns[0])
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)


def test_killed_without_warning_every_committed_interval_is_there(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    process = writer(place, 100_000)
    assert process.stdout is not None
    told = 0
    while told < 25:
        told = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    told = max([told, *(int(line) for line in process.stdout.read().split())])
    process.wait()
    process.stdout.close()
    with Store(place) as store:
        record = store.record(1)
    found = [item for item in record.intervals if item.measure == "service"]
    # The one that was being written when the signal came may be there as well, but whole.
    assert len(found) in (told, told + 1)
    assert [item.max_ns for item in found] == [1000 * (number + 1) for number in range(len(found))]
    assert record.info.outcome == "interrupted"


def test_several_runs_write_to_one_store_at_a_time(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    processes = [writer(place, 40) for _ in range(4)]
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0, out
    with Store(place) as store:
        records = [store.record(run.id) for run in store.runs()]
    assert len(records) == 4
    assert all(len(record.costs) == 40 for record in records)


def test_an_older_store_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    with Store(place) as store:
        run = add_run(store, [interval(0, SECOND, cell([1000]))])
    database = sqlite3.connect(place, isolation_level=None)
    migrate(
        database, str(place), (*MIGRATIONS, "CREATE TABLE later (a INTEGER) STRICT;\nINSERT INTO later VALUES (4);")
    )
    assert database.execute("SELECT a FROM later").fetchall() == [(4,)]
    assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
    assert database.execute("SELECT requests FROM interval WHERE run = ?", (run,)).fetchall() == [(1,), (1,)]
    migrate(database, str(place), (*MIGRATIONS, "CREATE TABLE later (a INTEGER) STRICT;"))


def test_a_migration_happens_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    Store(place).close()
    database = sqlite3.connect(place, isolation_level=None)
    with pytest.raises(sqlite3.Error):
        migrate(database, str(place), (*MIGRATIONS, "CREATE TABLE half (a INTEGER);\nINSERT INTO nowhere VALUES (1);"))
    database.close()
    database = sqlite3.connect(place)
    assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert database.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").fetchone() == (0,)


def test_a_newer_store_is_refused_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    Store(place).close()
    database = sqlite3.connect(place)
    database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.commit()
    database.close()
    with pytest.raises(BadInputError) as refused:
        Store(place)
    assert "newer Brickyard" in str(refused.value)
    assert "--store" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE theirs (a)")
    database.commit()
    database.close()
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be looked at " * 30)
    for place in (other, text, tmp_path):
        with pytest.raises(BadInputError):
            Store(place)
    assert text.read_text().startswith("not a database")
    database = sqlite3.connect(other)
    assert database.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_default_place_follows_the_xdg_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_place() == tmp_path / "brickyard" / "runs.db"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/invalid")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_place() == tmp_path / ".local" / "share" / "brickyard" / "runs.db"


def test_a_store_with_other_columns_is_said_to_be_of_a_development_version(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    Store(place).close()
    database = sqlite3.connect(place)
    database.execute("DROP TRIGGER interval_cost_summed")
    database.execute("ALTER TABLE interval_cost DROP COLUMN drain")
    database.close()
    with pytest.raises(BadInputError) as refused:
        Store(place)
    assert "development version" in str(refused.value)
    assert "--store" in str(refused.value)


def test_a_store_on_a_read_only_medium_can_be_read(tmp_path: Path) -> None:
    medium = tmp_path / "medium"
    medium.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(medium)], check=True)
    try:
        with Store(medium / "runs.db") as store:
            run = add_run(store, [interval(0, SECOND, cell([1000] * 7))])
        subprocess.run(["mount", "-o", "remount,ro", str(medium)], check=True)
        with Store(medium / "runs.db", must_exist=True) as store:
            assert store.record(run).intervals[0].requests == 7
        with pytest.raises(BadInputError, match="cannot be used as a store"):
            Store(medium / "runs.db")
    finally:
        subprocess.run(["umount", str(medium)], check=True)


def test_commands_carry_the_store_unless_it_is_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_on(default_place(), "runs") == "`brickyard runs`"
    place = tmp_path / "the fleet.db"
    with Store(place) as store:
        add_run(store, [])
    assert main(["show", "99", "--store", str(place)]) == 2
    assert f"`brickyard runs --store '{place}'` lists what there is" in capsys.readouterr().err


def test_only_the_default_place_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no directory; make it first"):
        Store(tmp_path / "new" / "runs.db")
    assert list(tmp_path.iterdir()) == []
    Store().close()
    assert default_place().exists()


def test_a_run_that_goes_on_is_told_from_one_that_was_killed(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        owner = {**stored(own_process()), "pid": sleeper.pid, "start_ticks": _start_ticks(sleeper.pid)}
        known: dict[str, Any] = {"host": {}, "targets": [], "process": owner}
        with Store(tmp_path / "runs.db") as store:
            run = add_run(store, [], outcome=None, facts=known)
            assert store.record(run).info.outcome == "running"
            sleeper.kill()
            sleeper.wait()
            assert store.record(run).info.outcome == "interrupted"
            reused = {**known, "process": {**stored(own_process()), "start_ticks": 1}}
            assert store.record(add_run(store, [], outcome=None, facts=reused)).info.outcome == "interrupted"
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="it is a directory; name a file in it"):
        Store(tmp_path)


def test_a_second_look_at_an_open_store_leaves_its_locks(tmp_path: Path) -> None:
    """Without them, another process that closes the store takes itself for the last, and deletes the log below us."""
    place = tmp_path / "runs.db"
    look = "import sys; from brickyard.store import Store\nwith Store(sys.argv[1]) as store: store.runs()"
    with Store(place) as store:
        run = add_run(store, [interval(0, SECOND, cell([MS] * 20))])
        with Store(place) as second:
            assert second.runs([run])
        log = Path(f"{place}-wal")
        before = log.stat().st_ino
        subprocess.run([sys.executable, "-c", look, str(place)], check=True)
        assert log.stat().st_ino == before
        later = add_run(store, [interval(0, SECOND, cell([MS] * 20))])
    with Store(place) as again:
        assert [info.id for info in again.runs([run, later])] == [run, later]
