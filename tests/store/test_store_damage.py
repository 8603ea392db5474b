"""A store that is damaged, deleted or full: each run is judged by itself, and nothing is lost in silence."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.store import Json, Store
from brickyard.store.schema import APPEND_ONLY, MIGRATIONS, migrate
from brickyard.store.store import check_place
from support import MS, SECOND, add_run, cell, interval, phase_end

PATIENCE_S = 60


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Four runs."""
    made = tmp_path / "runs.db"
    with Store(made) as store:
        for number in range(4):
            told = [interval(n * SECOND, (n + 1) * SECOND, cell([MS * (number + 1)] * 50)) for n in range(3)]
            add_run(store, [*told, phase_end()])
    return made


def spoil(place: Path, *statements: str) -> None:
    with sqlite3.connect(place) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("PRAGMA ignore_check_constraints = 1")
        for statement in statements:
            db.execute(statement)
    db.close()


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main([*words, "--json"]) == code, capsys.readouterr().err
    found: Json = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("UPDATE run SET plan = '{broken' WHERE id = 2", "plan"),
        ("UPDATE run_end SET warnings = 'no' WHERE run = 2", "warnings"),
        ("UPDATE interval SET histogram = 'HISTnone' WHERE run = 2 AND start_ns = 0", "histogram"),
        ("UPDATE event SET body = '[' WHERE run = 2", "body"),
        ("UPDATE interval_cost SET knob = '{' WHERE run = 2 AND start_ns = 0", "knob"),
        ("UPDATE run_end SET outcome = 'dnne' WHERE run = 2", "outcome"),
        # One flipped byte: sound to SQLite's own check, and no UTF-8.
        ("UPDATE run SET facts = CAST(x'7bff7d' AS TEXT) WHERE id = 2", "facts"),
        ("UPDATE event SET body = CAST(x'7bff7d' AS TEXT) WHERE run = 2", "body"),
        ("UPDATE interval SET histogram = CAST(x'7bff7d' AS TEXT) WHERE run = 2 AND start_ns = 0", "histogram"),
    ],
)
def test_one_damaged_record_leaves_the_others_as_they_were(
    statement: str, cause: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--store", str(place))
    before = document(capsys, "show", "1", *at)
    spoil(place, statement)
    assert [run["run"] for run in document(capsys, "runs", *at)["runs"]] == [1, 2, 3, 4]
    assert document(capsys, "show", "1", *at) == before
    document(capsys, "compare", "1", "3", *at)
    assert main(["export", "1-4", "-o", str(tmp_path / "out.csv"), *at]) == 0
    assert "left out: run 2" in capsys.readouterr().err
    assert main(["show", "2", *at]) == 1
    said = capsys.readouterr().err
    assert said.startswith("brickyard: run 2: its record")
    assert said.count("\n") == 1
    found = document(capsys, "store", "check", *at, code=1)
    assert found["damaged_runs"] == [2]
    assert {row["run"] for row in found["rows"]} == {2}
    assert any(row["cause"].startswith(cause) for row in found["rows"])
    old, new = place.read_bytes(), tmp_path / "new.db"
    lost = document(capsys, "store", "salvage", *at, "-o", str(new), code=1)["lost"]
    assert {row["run"] for row in lost} == {2}
    assert place.read_bytes() == old
    assert document(capsys, "store", "check", "--store", str(new))["damaged_runs"] == []
    assert document(capsys, "show", "1", "--store", str(new)) == before
    kept = {run["run"]: run for run in document(capsys, "runs", "--store", str(new))["runs"]}
    if 2 in kept and cause not in ("warnings", "outcome"):  # with its end lost, it is an interrupted run
        assert kept[2]["warnings"][0]["id"] == "salvaged"
        assert kept[2]["outcome"] == "failed"
    assert main(["store", "salvage", *at, "-o", str(new)]) == 2


def test_pages_that_are_gone_take_only_their_runs(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page in the middle of the table of intervals is overwritten, as by a drive that lost it."""
    with Store(place) as store:
        for number in range(40):
            told = [interval(n * SECOND, (n + 1) * SECOND, cell([MS * (number + n + 1)] * 50)) for n in range(20)]
            add_run(store, [*told, phase_end()])
    with sqlite3.connect(place) as db:
        [(page,)] = db.execute(
            "SELECT pageno FROM dbstat WHERE name = 'interval' AND pagetype = 'leaf' ORDER BY pageno LIMIT 1 OFFSET 20"
        ).fetchall()
        [(size,)] = db.execute("PRAGMA page_size").fetchall()
    db.close()
    with place.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    found = document(capsys, "store", "check", "--store", str(place), code=1)
    assert found["file"]
    damaged = found["damaged_runs"]
    assert 0 < len(damaged) < 10
    well = next(run for run in range(1, 45) if run not in damaged)
    before = document(capsys, "show", str(well), "--store", str(place))
    new = tmp_path / "new.db"
    document(capsys, "store", "salvage", "--store", str(place), "-o", str(new), code=1)
    assert document(capsys, "show", str(well), "--store", str(new)) == before
    assert document(capsys, "store", "check", "--store", str(new))["damaged_runs"] == []
    with Store(new) as store:
        assert len(store.runs()) == 44


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("interval", "requests = requests + 16384"),
        ("interval", "mean_ns = mean_ns / 65536"),
        ("interval", "measure = 'responsE'"),
        ("interval_cost", "cpu_user_ns = cpu_user_ns + 1"),
        ("run_end", "end_ns = end_ns + 1024"),
        ("run", "targets = replace(targets, 'a', 'b')"),
        ("event", "body = body || ' '"),
    ],
)
def test_a_bit_that_turned_within_a_row_is_found_by_its_check_sum(
    table: str, change: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite takes such a row for sound."""
    row = "id = 1" if table in ("interval", "interval_cost", "run", "event") else "run = 1"
    spoil(place, f"UPDATE {table} SET {change} WHERE {row}")
    found = document(capsys, "store", "check", "--store", str(place), code=1)
    assert (found["file"], len(found["damaged_runs"])) == ([], 1)
    [run] = found["damaged_runs"]
    assert main(["show", str(run), "--store", str(place)]) == 1
    assert "not as it was written" in capsys.readouterr().err
    lost = document(capsys, "store", "salvage", "--store", str(place), "-o", str(tmp_path / "new.db"), code=1)["lost"]
    assert lost[0]["table"] == table


@pytest.mark.parametrize("share", [0.9, 0.5])
def test_a_store_that_lost_its_end_is_saved_as_far_as_it_goes(
    share: float, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(place) as store:
        for number in range(40):
            told = [interval(n * SECOND, (n + 1) * SECOND, cell([MS * (number + n + 1)] * 50)) for n in range(20)]
            add_run(store, [*told, phase_end()])
    before = document(capsys, "show", "1", "--store", str(place))
    whole = place.stat().st_size
    os.truncate(place, int(whole * share))
    assert main(["runs", "--store", str(place)]) == 2
    assert "store salvage" in capsys.readouterr().err
    assert document(capsys, "store", "check", "--store", str(place), code=1)["file"]
    new = tmp_path / "new.db"
    assert document(capsys, "store", "salvage", "--store", str(place), "-o", str(new), code=1)["lost"]
    assert place.stat().st_size == int(whole * share)
    kept = document(capsys, "runs", "--store", str(new))["runs"]
    assert 2 < len(kept) < 44
    assert document(capsys, "store", "check", "--store", str(new))["damaged_runs"] == []
    shown = document(capsys, "show", "1", "--store", str(new))
    assert {"outcome", "warnings"} | set(shown) == {"outcome", "warnings"} | set(before)
    os.truncate(place, 3000)
    assert main(["store", "salvage", "--store", str(place), "-o", str(tmp_path / "none.db")]) == 2
    assert not (tmp_path / "none.db").exists()


def test_a_sound_store_is_said_to_be_sound(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "store", "check", "--store", str(place))["rows"] == []
    new = tmp_path / "copy.db"
    assert document(capsys, "store", "salvage", "--store", str(place), "-o", str(new))["lost"] == []
    assert document(capsys, "show", "4", "--store", str(new)) == document(capsys, "show", "4", "--store", str(place))


TEXTS = ("run", "interval", "interval_cost", "error", "event", "study_run", "run_end", "run_summary")


def flipped(place: Path, new: Path, text: str, offset: int, bit: int) -> bytes:
    """A copy with one wrong bit, so far behind the place where a text begins in the file."""
    found = bytearray(place.read_bytes())
    assert found.count(text.encode()) == 1
    found[found.index(text.encode()) + offset] ^= 1 << bit
    new.write_bytes(found)
    return bytes(found)


def rows(place: Path) -> dict[str, list[object]]:
    with sqlite3.connect(place) as db:
        found = {table: list(db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")) for table in APPEND_ONLY}
    db.close()
    return found


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with two runs, and a row in every table."""
    made = tmp_path_factory.mktemp("made") / "two.db"
    error = {"event": "error", "at_ns": 5, "phase": 0, "stream": 0, "operation": "read", "offset_bytes": 8192,
             "request_bytes": 4096, "kind": "errno", "errno": 5, "text": "EIO"}  # fmt: skip
    with Store(made) as store:
        study = store.add_study("s", {})
        for number in range(2):
            told = [interval(n * SECOND, (n + 1) * SECOND, cell([MS * (number + 1)] * 50)) for n in range(3)]
            add_run(store, [*told, error, phase_end()], study=study)
        store.end_study(study, "done", [])
        store.add_baseline("b", [1, 2])
    assert all(rows(made).values())
    return made.read_bytes()


@pytest.fixture
def two_runs(made_once: bytes, tmp_path: Path) -> Path:
    made = tmp_path / "two.db"
    made.write_bytes(made_once)
    return made


PLACES = [
    *(
        (f"CREATE TABLE {table} (", offset, bit)
        for bit, table in enumerate(TEXTS)
        for offset in (14 if bit % 2 else 4, 64)
    ),
    ("CREATE TABLE error (", 14, 7),  # no UTF-8 any more
    ("CREATE TABLE error (", 25, 0),  # another column, to SQLite as good as the old one
    ("CREATE TABLE event (", 12, 5),  # a zero byte
    ("CREATE INDEX interval_of_run ON", 51, 1),
    ("CREATE INDEX event_condition ON", 64, 4),
    ("CREATE TRIGGER run_no_update BEFORE", 60, 7),
    ("CREATE TRIGGER run_place_noted AFTER", 130, 3),
    ("tablestudystudy", 2, 1),  # what SQLite keeps beside the text
    ("tablebaselinebaseline", 7, 6),
]


@pytest.mark.parametrize(("text", "offset", "bit"), PLACES)
def test_one_wrong_bit_in_the_description_of_the_tables_loses_no_row(
    text: str, offset: int, bit: int, two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, new = tmp_path / "bad.db", tmp_path / "new.db"
    bad = flipped(two_runs, place, text, offset, bit)
    at = ("--store", str(place))
    (line,) = document(capsys, "store", "check", *at, code=1)["file"]
    assert line.startswith("the description of ")
    assert line.endswith(" is damaged")
    told = document(capsys, "store", "salvage", *at, "-o", str(new))
    assert (told["file"], told["lost"]) == ([line], [])
    assert rows(new) == rows(two_runs)
    assert document(capsys, "store", "check", "--store", str(new))["file"] == []
    for words in (("runs",), ("show", "1"), ("export", "1", "-o", str(tmp_path / "out.csv"))):
        assert main([*words, *at]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"brickyard: {place}: the description of ")
        assert said.endswith(f"`brickyard store salvage -o NEW --store {place}` copies what can be read\n")
        assert said.count("\n") == 1
    with pytest.raises(BadInputError, match="store salvage"):
        check_place(place)
    assert place.read_bytes() == bad


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_store_with_a_damaged_description_is_saved(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, place, new = tmp_path / "old.db", tmp_path / "bad.db", tmp_path / "new.db"
    db = sqlite3.connect(old, isolation_level=None)
    migrate(db, str(old), MIGRATIONS[:version])
    db.execute("INSERT INTO study VALUES (7, 1, 'kept', '{}')")
    db.close()
    bad = flipped(old, place, "CREATE TABLE error (", 25, 0)
    document(capsys, "store", "salvage", "--store", str(place), "-o", str(new))
    assert rows(new)["study"] == [(7, 1, "kept", "{}")]
    assert main(["runs", "--store", str(place)]) == 2
    assert "the description of table error is damaged" in capsys.readouterr().err
    assert place.read_bytes() == bad


def test_a_damaged_description_is_restored_with_what_stands_in_the_log_alone(
    two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a process that was killed leaves it: the second part of the rows is not in the file yet."""
    folder = tmp_path / "killed"
    folder.mkdir()
    place, new = folder / "bad.db", tmp_path / "new.db"
    with Store(two_runs) as store:
        add_run(store, [interval(0, SECOND, cell([MS] * 50)), phase_end()])
        flipped(two_runs, place, "CREATE TABLE error (", 14, 7)
        place.with_name("bad.db-wal").write_bytes(two_runs.with_name("two.db-wal").read_bytes())
    before = {path.name: path.read_bytes() for path in (place, place.with_name("bad.db-wal"))}
    assert len(before["bad.db-wal"]) > 0
    document(capsys, "store", "check", "--store", str(place), code=1)
    document(capsys, "store", "salvage", "--store", str(place), "-o", str(new))
    assert rows(new) == rows(two_runs)
    assert len(rows(new)["run"]) == 3
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_description_that_is_overwritten_is_restored_too(
    two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, new = tmp_path / "bad.db", tmp_path / "new.db"
    found = bytearray(two_runs.read_bytes())
    for text in (b"CREATE TABLE interval (", b"CREATE TABLE event ("):
        at = found.index(text)
        found[at : at + 80] = b"\xa5" * 80
    place.write_bytes(found)
    assert main(["runs", "--store", str(place)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    told = document(capsys, "store", "salvage", "--store", str(place), "-o", str(new))
    assert told["file"] == [f"the description of table {name} is damaged" for name in ("interval", "event")]
    assert rows(new) == rows(two_runs)


def test_a_store_with_a_damaged_description_that_lost_its_end_is_saved_as_far_as_it_goes(
    two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, new = tmp_path / "bad.db", tmp_path / "new.db"
    with Store(two_runs) as store:
        for number in range(40):
            events = [interval(n * SECOND, (n + 1) * SECOND, cell([MS * (number + n + 1)] * 50)) for n in range(20)]
            add_run(store, [*events, phase_end()])
    flipped(two_runs, place, "CREATE TABLE error (", 14, 7)
    os.truncate(place, place.stat().st_size * 9 // 10)
    told = document(capsys, "store", "salvage", "--store", str(place), "-o", str(new), code=1)
    assert told["file"] == ["the description of table error is damaged"]
    assert 2 < len(rows(new)["run"]) <= 42


def test_a_store_that_was_rebuilt_or_changed_by_hand_is_not_called_damaged(
    two_runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """VACUUM writes the description in another order."""
    db = sqlite3.connect(two_runs, isolation_level=None)
    db.execute("VACUUM")
    db.execute("CREATE INDEX theirs ON error (errno)")
    db.close()
    assert document(capsys, "store", "check", "--store", str(two_runs))["file"] == []
    assert len(document(capsys, "runs", "--store", str(two_runs))["runs"]) == 2


Begin = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    made: list[subprocess.Popen[str]] = []

    def start(store: Path) -> subprocess.Popen[str]:
        profile = tmp_path / "reads.toml"
        profile.write_text(
            "title = 'r'\ninterval = '50ms'\n[[phase]]\nduration = '10min'\n[[phase.stream]]\nrequest = '4KiB'\n"
            "pace = { loop = 'open', rate = 100 }\n"
        )
        words = ["run", str(profile), str(tmp_path / "target"), "--size", "4MiB", "--store", str(store)]
        command = [sys.executable, "-m", "brickyard", *words]
        made.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        end_s = time.monotonic() + PATIENCE_S
        while not has_intervals(store):
            assert made[-1].poll() is None, made[-1].communicate()
            assert time.monotonic() < end_s
            time.sleep(0.05)
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


def has_intervals(place: Path) -> bool:
    if not place.exists():
        return False
    with Store(place) as store:
        runs = [run.id for run in store.runs() if run.profile != "a-load"]
        return bool(runs and store.record(runs[0]).costs)


def test_a_store_that_is_deleted_in_mid_run_fails_the_run_and_its_contents_are_saved(
    place: Path, begin: Begin, capsys: pytest.CaptureFixture[str]
) -> None:
    process = begin(place)
    for path in place.parent.glob("runs.db*"):
        path.unlink()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    rescued = place.with_name("runs-rescued-1.db")
    assert err.splitlines()[-1] == (
        f"brickyard: {place}: the store was deleted while it was written; all that it held is in {rescued} now: "
        "name it with --store"
    )
    assert not place.exists()
    with Store(rescued) as store:
        assert [run.outcome for run in store.runs()] == ["done"] * 4 + ["interrupted"]
        assert store.record(5).costs
        assert sum(interval.requests for interval in store.record(5).intervals) > 0


def test_a_store_that_is_replaced_in_mid_run_fails_the_run_and_the_other_file_stays(place: Path, begin: Begin) -> None:
    process = begin(place)
    other = place.with_name("other")
    other.write_bytes(b"somebody's")
    os.replace(other, place)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    assert "the store was replaced by another file while it was written" in err
    assert place.read_bytes() == b"somebody's"
    with Store(place.with_name("runs-rescued-1.db")) as store:
        assert len(store.runs()) == 5


def test_a_store_that_is_cut_short_in_mid_run_fails_the_run(place: Path, begin: Begin) -> None:
    process = begin(place)
    os.truncate(place, 8192)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, err
    assert "the store was cut short while it was written" in err.splitlines()[-1]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_file_system_that_fills_up_below_the_store_fails_the_run(tmp_path: Path, begin: Begin) -> None:
    room = tmp_path / "room"
    room.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(room)], check=True)
    try:
        process = begin(room / "runs.db")
        with (room / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1, err
        assert "database or disk is full" in err.splitlines()[-1]
        (room / "filler").unlink()
        with Store(room / "runs.db") as store:
            assert store.record(1).costs
    finally:
        subprocess.run(["umount", "--lazy", str(room)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_store_where_no_room_is_left_says_so(tmp_path: Path) -> None:
    """Wherever it runs out: while the file is made, or in what SQLite keeps beside it."""
    room = tmp_path / "room"
    room.mkdir()
    refused = []
    for kib in range(16, 512, 16):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", str(room)], check=True)
        try:
            Store(room / "runs.db").close()
        except BadInputError as error:
            refused.append(str(error))
        finally:
            subprocess.run(["umount", "--lazy", str(room)], check=True)
    assert len(refused) > 1
    assert all("no space" in text.lower() for text in refused), refused
