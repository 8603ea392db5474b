"""Tables in narrow terminals: no figure is cut, no word is broken, nothing is left out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from brickyard.cli import main
from brickyard.cli.parts.output import table
from brickyard.store import Store
from support import MS, SECOND, add_run, cell, interval, phase_end

NAMES = ["page", "calls", "calls/s", "response mean", "response p99", "longest response of all", "errors"]
ROWS = [
    ["imageinfo", "1,234", "98.7", "12.5 ms", "101 ms", "1.25 s", "0"],
    ["download of a picture", "56", "4.48", "7.31 ms", "22.4 ms", "80.1 ms", "3"],
]


def printed(width: int, **options: object) -> list[str]:
    console = Console(width=width, force_terminal=False, color_system=None)
    columns = [(name, "left" if place == 0 else "right") for place, name in enumerate(NAMES)]
    with console.capture() as captured:
        console.print(table("Response time by page", columns, ROWS, **options))  # type: ignore[arg-type]
    return [line.rstrip() for line in captured.get().splitlines()]


def test_headings_take_more_lines_before_anything_else() -> None:
    assert printed(120)[1].split("  ")[0] == "page"
    lines = printed(80)
    assert len([line for line in lines if "1,234" in line]) == 1
    assert lines[1].split() == ["longest"] or "longest" in lines[1]
    assert lines[-2:] == [line for line in lines if "calls/s" not in line][-2:]
    assert max(map(len, lines)) <= 80


def test_what_does_not_fit_goes_on_below_with_the_first_column_again() -> None:
    lines = printed(40)
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("imageinfo") for line in lines) > 1
    assert "" in lines


@given(
    st.integers(30, 200),
    st.lists(st.text("abc de", min_size=1, max_size=30).map(str.strip).filter(bool), min_size=1, max_size=9),
    st.lists(st.integers(0, 10**12), min_size=9, max_size=9),
)
def test_no_figure_is_cut_in_any_width(width: int, names: list[str], figures: list[int]) -> None:
    cells = [f"{figure:,}" for figure in figures[: len(names)]]
    columns = [("brick", "left"), *((name, "right") for name in names)]
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table("", columns, [["a drive of seven words, one by one", *cells]]))
    out = captured.get()
    assert "…" not in out
    words = re.split(r"\s+", out)
    for shown in cells:
        assert words.count(shown) >= cells.count(shown)
    assert all(word in words for name in names for word in name.split())
    assert all(len(line.rstrip()) <= width for line in out.splitlines())


@pytest.mark.parametrize("columns", [80, 120])
def test_long_lists_are_readable_in_a_narrow_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    capsys.readouterr()
    asked = ["advise", "buy", "sqlio-random-read-4", "--require", "iops>=100", "--duration", "1s", "--most", "4"]
    conditions = ["normal", "degraded", "rebuilding", "neighbour-rebuilding", "scrubbing", "write-cache-off"]
    assert main([*asked, "--condition", *conditions]) in (0, 1)
    for verb in (["advise", "parts"], ["bricks"], ["profiles"], ["study"]):
        assert main(verb) == 0
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= columns
    assert "…" not in out


def test_runs_keep_one_row_each_at_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    target = "sim:terraserver-2003"
    assert main(["run", "--rw", "randread", "--bs", "4k", "--iodepth", "32", "--runtime", "1", target, *store]) == 0
    assert main(["run", "sqlio-random-read-4", target, "--set", "duration=1s", "--condition", "degraded", *store]) == 0
    assert main(["load-curve", "sqlio-random-read-4", target, "--each", "1s", "--max-rate", "100", *store]) == 0
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    for wanted in (["--each"], ["--profile", "ad-hoc"]):
        assert main(["runs", *wanted, *store]) == 0
        lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert max(map(len, lines)) <= 80
        assert sum("outcome" in line for line in lines) == 1  # one heading: no table below the table
        numbers = [int(found[1]) for line in lines if (found := re.match(r" {0,2}(\d+)  ", line))]
        assert numbers == sorted(set(numbers))
        assert numbers
    assert main(["runs", *store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (folded,) = [line for line in lines if "load curve of" in line]
    assert re.match(r" *s1 ", folded)
    assert main(["history", target, *store]) == 0
    history = capsys.readouterr().out
    assert max(map(len, history.splitlines())) <= 80
    assert "sqlio-random-read-4, closed loop, " in history
    assert "workloads whose rates were chosen by a search or load curve are left out" in history
    assert not re.search(r"\d\.\d{4}", history)


def test_addresses_break_behind_their_signs() -> None:
    console = Console(width=34, color_system=None)
    rows = [["1", "/data/measured/first-of-all", "1,000"], ["2", "sqlio-random-read-4", "20"]]
    columns = [("run", "right"), ("target", "left"), ("rate", "right")]
    with console.capture() as captured:
        console.print(table("", columns, rows, wrapped=("target",), keys=1))
    pieces = [line[5:].split("  ")[0].strip() for line in captured.get().splitlines()[1:]]
    assert pieces == ["/data/measured/first-", "of-all", "sqlio-random-read-4"]


def test_a_pipe_has_one_line_for_each_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["bricks", "--json"]) == 0
    count = len(json.loads(capsys.readouterr().out)["bricks"])
    assert main(["bricks"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == count + 1


def test_a_run_is_printed_in_the_order_of_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "runs.db"
    with Store(place) as store:
        warning = {"id": "caution", "severity": "warning", "text": "take care of this"}
        add_run(store, [interval(0, SECOND, cell([MS] * 2000)), phase_end()], warnings=[warning])
    assert main(["show", "1", "--store", str(place)]) == 0
    said = capsys.readouterr().out
    order = ("Before you rely on it", "take care of this", "Throughput", "Latency", "Target")
    assert [said.index(words) for words in order] == sorted(said.index(words) for words in order), said
