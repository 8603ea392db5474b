"""A script of one's own is part of the load of a run of pgbench by its content, and the record keeps its text."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from brickyard import cli
from brickyard.analysis.databases.pgbench import pgbench_warnings
from brickyard.analysis.judging.differing import asked_hash, differing_between, load_words
from brickyard.analysis.judging.marks import marks_of
from brickyard.analysis.judging.summary import circumstance_lines
from brickyard.databases.ephemeral import Server
from brickyard.databases.pgbench_plan import read_changes
from brickyard.databases.pgbench_script import without_passwords
from brickyard.errors import BadInputError
from brickyard.schema import plan_document
from brickyard.store import Json, Record, Store
from support import MS, SECOND, add_run, cell, interval, phase_end, start_event


def kept(place: Path, plan: Json) -> Record:
    with Store(place / "store.db") as store:
        told = cell([MS] * 20, operation="call") | {"bytes": 0}
        events = [interval(0, SECOND, told), phase_end(end_ns=SECOND)]
        return store.record(add_run(store, events, plan_=plan, profile="pgbench", engine="pgbench"))


def asked(place: Path, text: str, name: str = "own.sql") -> Json:
    script = place / name
    script.parent.mkdir(exist_ok=True)
    script.write_text(text)
    return plan_document(read_changes("/data/pg", [f"script={script}"]).plan())


def early(plan: Json) -> Json:
    """As versions kept it that knew a script by its path alone."""
    pgbench = {key: value for key, value in plan["pgbench"].items() if key not in ("script_hash", "script_text")}
    return {**plan, "pgbench": pgbench}


def test_another_content_of_one_file_is_another_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = "SELECT pg_sleep(0.003);\n", "SELECT 2;\n"
    records = [kept(tmp_path, asked(tmp_path, text)) for text in (first, first, second, second)]
    hashes = [asked_hash(record) for record in records]
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
    assert load_words(records[0], records[2]).startswith("pgbench script: file of SHA-256 ")
    assert cli.main(["compare", "1-2", "3-4", "--check", "--store", str(tmp_path / "store.db")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "the load differs: pgbench: pgbench script: file of SHA-256 " in said
    (script,) = [item for item in differing_between(records[:2], records[2:]) if item.label == "pgbench script"]
    assert script.matters == "it is another load"
    assert cli.main(["history", records[0].info.targets[0], "--store", str(tmp_path / "store.db")]) == 0
    assert capsys.readouterr().out.count("script=own.sql (SHA-256 ") >= 2
    assert dict(circumstance_lines(records[2]))["Script"].endswith("): SELECT 2;")
    assert cli.main(["show", "1", "--json", "--store", str(tmp_path / "store.db")]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["pgbench"]["script_text"] == first


def test_one_content_is_one_load_wherever_it_lies(tmp_path: Path) -> None:
    one, other = (kept(tmp_path, asked(tmp_path, "SELECT 1;\n", name)) for name in ("one.sql", "there/other.sql"))
    assert asked_hash(one) == asked_hash(other)
    assert not [item for item in differing_between([one], [other]) if "cript" in item.label]


def test_records_of_early_versions_and_loads_without_a_file_keep_their_hash(tmp_path: Path) -> None:
    plan = asked(tmp_path, "SELECT 1;\n")
    plan["pgbench"]["script"] = "/data/own.sql"
    old = [kept(tmp_path, early(plan)) for _ in range(2)]
    assert asked_hash(old[0]) == asked_hash(old[1]) != asked_hash(kept(tmp_path, plan))
    assert "Script" not in dict(circumstance_lines(old[0]))
    built_in = plan_document(read_changes("/data/pg", ["threads=1"]).plan())
    with_keys, without = kept(tmp_path, built_in), kept(tmp_path, early(built_in))
    assert asked_hash(with_keys) == asked_hash(without) == "0f46c4e24172"
    assert asked_hash(old[0]) == "949a88de715e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ALTER ROLE me PASSWORD 'it''s';", "ALTER ROLE me PASSWORD …;"),
        ("ALTER ROLE me PASSWORD $x$my $ word$x$;", "ALTER ROLE me PASSWORD …;"),
        ("SELECT dblink('host=a password=word dbname=b', 'x');", "SELECT dblink(…, …);"),
        ("SELECT crypt('word', salt) -- it's word\nFROM \"it's\";", 'SELECT crypt(…, salt) …\nFROM "it\'s";'),
        (r"SELECT E'a\'b', 'c\', 'word';", "SELECT …, …, …;"),
        ("SELECT 1; /* 'word */ SELECT 'word", "SELECT 1; … SELECT …"),
        (r"\setshell x psql postgresql://me:word@a/b", r"\setshell x psql postgresql://me:…@a/b"),
        (r"\setshell x f password=word -q", r"\setshell x f password=… -q"),
        ("SELECT password FROM t WHERE password = :p;", "SELECT password FROM t WHERE password = :p;"),
        ("SELECT 1 / :scale;", "SELECT 1 / :scale;"),
        ("SELECT set_config('synchronous_commit', 'off', 'f');", "SELECT set_config('synchronous_commit', …, …);"),
    ],
)
def test_no_password_of_a_script_is_kept(text: str, shown: str, tmp_path: Path) -> None:
    assert without_passwords(text) == shown
    assert asked(tmp_path, text)["pgbench"]["script_text"] == shown


@pytest.mark.parametrize(
    ("text", "settings", "marks"),
    [
        ("SET synchronous_commit = off; UPDATE t SET a = 1;", {}, ["durability not known"]),
        ("set local Synchronous_Commit to off;", {}, ["durability not known"]),
        ("SELECT set_config('synchronous_commit', 'off', false);", {}, ["durability not known"]),
        ("SET synchronous_commit = on;", {"synchronous_commit": "off"}, ["durability not known"]),
        ("SET synchronous_commit = on;", {"fsync": "off"}, ["not durable"]),
        ("SELECT 1; -- without synchronous_commit\n/* synchronous_commit */", {}, []),
    ],
)
def test_whether_commits_were_durable_is_not_known_of_a_script_that_sets_it(
    text: str, settings: dict[str, str], marks: list[str], tmp_path: Path
) -> None:
    own = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", **settings}
    (target,) = start_event()["targets"]
    plan = asked(tmp_path, text)
    with Store(tmp_path / "store.db") as store:
        told = cell([MS] * 20, operation="call") | {"bytes": 0}
        events = [interval(0, SECOND, told), phase_end(end_ns=SECOND)]
        start = {"targets": [{**target, "settings": list(own.items())}]}
        record = store.record(add_run(store, events, plan_=plan, profile="pgbench", engine="pgbench", start=start))
    assert marks_of(record.info) == marks
    warned = {warning.id: warning.text for warning in pgbench_warnings(record)}
    assert ("durability_unknown" in warned) == (marks == ["durability not known"])
    assert ("not_durable" in warned) == (marks == ["not durable"])


def test_the_warning_of_such_a_script_has_the_commits_per_flush(tmp_path: Path) -> None:
    script, place = tmp_path / "own.sql", Path("/var/tmp") / f"pgbench-script-test-{os.getpid()}"
    script.write_text("SET synchronous_commit = off; UPDATE pgbench_branches SET bbalance = bbalance + 1;\n")
    place.mkdir(mode=0o755)
    words = ["scale=1", "duration=3s", "protocol=simple", f"script={script}"]
    options = [word for item in words for word in ("--set", item)]
    try:
        assert cli.main(["run", "pgbench", str(place), *options, "--store", str(tmp_path / "store.db")]) == 0
    finally:
        place.rmdir()
    with Store(tmp_path / "store.db") as store:
        info = store.record(1).info
    (text,) = [warning.text for warning in info.warnings if warning.id == "durability_unknown"]
    found = re.search(r"is not known; there were ([\d.,]+) commits per flush\.", text)
    assert found is not None, text
    assert float(found[1].replace(",", "")) > 10
    assert marks_of(info) == ["durability not known"]


def test_a_script_that_changes_between_repetitions_ends_them(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, place = tmp_path / "own.sql", tmp_path / "store.db"
    script.write_text("SELECT 1;\n")
    monkeypatch.setattr("brickyard.databases.pgbench_run.script_hash", lambda _: "0" * 64)
    words = ["--set", "scale=1", "--set", "transactions=10", "--set", f"script={script}", "--store", str(place)]
    assert cli.main(["run", "pgbench", postgres.dsn, *words]) == 1
    assert "was changed after the command had read it" in " ".join(capsys.readouterr().out.split())


def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"nothing\.sql"):
        read_changes("/data/pg", [f"script={tmp_path}/nothing.sql"])
