"""What a replay refuses, and what it says of a log without a database."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from brickyard.analysis.databases import replay_head_room
from brickyard.cli import main
from replay_support import (
    items,
    w3c,
)

REFUSED = {
    "no such table": ("select * from nothing where id = :id", "42P01"),
    "no such function": ("select nothing(:id)", "42883"),
    "other types": ("select id from item where name = :id", "42883"),
    "no statement": ("selct :id", "42601"),
    "no parameter": ("select :missing", ":missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_database_lacks_is_said_in_one_line(
    case: str, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql, said = REFUSED[case]
    mapping, log = tmp_path / "m.toml", tmp_path / "a.log"
    mapping.write_text(f'[[call]]\npage = "item"\npath = "/item"\nsql = "{sql}"\nparameters.id = {{ type = "int4" }}\n')
    log.write_text(w3c(items(5, 1.0)))
    assert main(["replay", str(log), "--map", str(mapping), "--to", shop, "--store", str(tmp_path / "s.db")]) == 2
    err = capsys.readouterr().err.strip()
    assert said in err
    assert "item" in err
    assert "\n" not in err


def test_bad_input_is_one_line_and_exit_code_2(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, other = tmp_path / "a.log", tmp_path / "b.log"
    log.write_text(w3c(items(5, 1.0)))
    other.write_text("#Fields: date time c-ip\n2003-06-02 10:00:00 a\n")
    good = [str(log), "--map", str(mapping), "--to", shop]
    cases = [
        ([str(log), "--map", str(mapping), "--to", "postgresql://x@127.0.0.1:1/x"], "08001"),
        ([str(log), "--map", str(mapping), "--to", "postgresql://u:s3cret@h:x/"], "connection string"),
        ([str(log), "--map", str(mapping)], "--to"),
        ([str(log), "--map", str(tmp_path / "none.toml"), "--to", shop], "none.toml"),
        ([str(tmp_path / "none.log"), "--map", str(mapping), "--to", shop], "does not exist"),
        ([str(other), "--map", str(mapping), "--to", shop], "cs-uri-stem"),
        ([*good, "--pace", "fast"], "--pace fast"),
        ([*good, "--pace", "fixed:-5"], "rate"),
        ([*good, "--speed", "0"], "speed"),
        ([*good, "--in-order", "cookie:id"], "cs(Cookie)"),
        ([*good, "--drivers", "0"], "at least 1"),
        ([*good, "--sessions", "0"], "sessions"),
        ([*good, "--again"], "--again"),
        ([*good, "--field", "colour=red"], "colour"),
        ([*good, "--from", "yesterday"], "yesterday"),
        (["-", "--map", str(mapping), "--to", shop, "--drivers", "2"], "standard input"),
        ([*good, "--duration", "0"], "--duration 0"),
        ([*good, str(tmp_path / "." / "a.log")], "named twice"),
        ([*good, "--pace", "both", "--from", "2010-01-01T00:00:00Z"], "the log runs from 2003-06-02T10:00:00Z to"),
        ([*good, "--until", "2003-01-01T00:00:00Z"], "lies before 2003-01-01"),
        ([str(log), "--map", str(mapping), "--to", "postgresql://u:Wrong@s3cret@127.0.0.1:1/x"], "%40"),
    ]
    for arguments, said in cases:
        code = main(["replay", *arguments, "--store", str(tmp_path / "s.db")])
        err = capsys.readouterr().err.strip().splitlines()[-1:]
        assert code == 2, (arguments, err)
        assert said in err[0], (arguments, err)
        assert "s3cret" not in err[0]


def test_explain_shows_a_log_without_a_database(
    mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(w3c([*items(97, 600.0), *[(36_700.0, "/logo.gif")] * 3]) + "garbage\n")
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "97 (97.0 % of the requests)" in out
    assert "/logo.gif" in out
    assert "select id, name from item where id = $1" in out
    assert "garbage" in out
    assert main(["replay", str(log), "--map", str(mapping), "--explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["document"]
    assert told["covered_share"] == 0.97
    assert sum(point["calls"] for point in told["course"]) == 97


@pytest.mark.parametrize(("seconds", "said"), [(1, "100"), (2, "100"), (60, "100"), (90, "100")])
def test_no_average_is_above_the_busiest_second(
    seconds: int, said: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a log with stamps of whole seconds, whose last one lasts as long as the others."""
    log = tmp_path / "a.log"
    log.write_text(re.sub(r"\.\d{6} ", " ", w3c([(36_030 + n // 100, "/item?id=1") for n in range(100 * seconds)])))
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    rate = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Rate"))
    assert f"{said} calls/s on average" in rate
    assert rate.endswith("100 in the busiest second")
    assert replay_head_room.average_per_s(100, 0.99, 97) == 97


def test_a_torn_log_is_said(mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log.gz"
    whole = gzip.compress(w3c(items(20_000, 100.0)).encode())
    log.write_bytes(whole[: len(whole) // 2])
    assert main(["replay", str(log), "--map", str(mapping), "--explain"]) == 0
    out = capsys.readouterr().out
    assert "Warning" in out
    assert "a.log.gz is damaged" in out
