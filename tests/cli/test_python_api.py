"""Brickyard as a library: the examples of docs/python.md run, and what a program gets is what the commands show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import brickyard
from brickyard.api import plans_of_characterization
from brickyard.cli import main
from brickyard.errors import BadInputError
from support import MS, SECOND, add_run, cell, interval, phase_end

EXAMPLES = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs/python.md").read_text(), re.DOTALL)
MODEL = ["sim:terraserver-2003"]


def test_the_examples_of_the_documentation_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == 4
    said = []
    for text in EXAMPLES:
        exec(compile(text, "docs/python.md", "exec"), {})  # our own documentation
        said.append(capsys.readouterr().out)
    assert "4 requests in flight" in said[0]
    assert re.search(r"read \d+ IOPS, mean \d+\.\d ms", said[0])
    assert re.search(r"mean of each interval in ms: \[(\d+\.\d, ){4}", said[1])
    assert re.search(r"IOPS: -\d+\.\d% .*, a difference", said[2]), "an array that rebuilds reads less"
    assert (tmp_path / "report/report.html").exists()


def test_importing_brickyard_loads_nothing_else() -> None:
    code = "import sys, brickyard; print([name for name in sys.modules if name.startswith('brickyard.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert set(brickyard.__all__) == set(brickyard._HOMES)
    with pytest.raises(AttributeError, match="no attribute 'benchmark'"):
        brickyard.benchmark  # noqa: B018


def test_figures_and_tables_are_those_of_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "runs.db"
    load = brickyard.profile("mine", "duration=2s", text='title = "t"\n[[phase]]\n[[phase.stream]]\nrequest = "8K"\n')
    with brickyard.Store(place) as store:
        (run,) = brickyard.run(store, load, MODEL, condition="degraded")
        table = brickyard.table([run])
    assert (run.outcome, run.record.info.condition) == ("done", "degraded")
    assert main(["show", str(run.run), "--json", "--store", str(place)]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    told = shown.get("runs", [shown])[0]["totals"][0]
    (row,) = run.figures
    assert (row.requests, row.iops) == (told["requests"], told["iops"])
    (service,) = [entry for entry in table.rows if entry["measure"] == "service"]
    assert service["mean_ns"] == row.measures["service"].mean_ns
    assert set(table.columns) == set(table.types)
    assert table.arrow().column("requests").to_pylist() == table.columns["requests"]


def test_a_real_file_is_made_and_removed_from_any_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load = brickyard.profile("sqlio-random-read-4", "duration=300ms", "interval=100ms")
    requests: list[int] = []
    notes: list[str] = []

    def measure() -> None:
        with brickyard.Store(tmp_path / "runs.db") as store:
            (run,) = brickyard.run(store, load, size="16MiB", say=notes.append)
            requests.append(run.figures[0].requests)

    worker = threading.Thread(target=measure)
    worker.start()
    worker.join()
    assert requests[0] > 0
    assert any("scratch" in note or "16" in note for note in notes), notes
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
    assert left == []


@pytest.mark.parametrize(
    ("targets", "more", "words"),
    [
        (["/nowhere/file"], {}, "the directory /nowhere does not exist"),
        ([__file__], {"condition": "degraded"}, "of modelled bricks alone"),
        (MODEL, {"condition": "upside-down"}, "upside"),
        (MODEL, {"repetitions": 0}, "at least 1"),
        (MODEL, {"brick_changes": "members=4"}, "a text; write a list"),
    ],
)
def test_what_the_command_refuses_is_refused(targets: list[str], more: dict[str, Any], words: str) -> None:
    with brickyard.Store(":memory:") as store, pytest.raises(BadInputError, match=words):
        brickyard.run(store, "sqlio-random-read-4", targets, **more)
    with brickyard.Store(":memory:") as store, pytest.raises(BadInputError, match="a program over files"):
        brickyard.run(store, "postmark", targets)


def test_arguments_without_a_counterpart_on_the_command_line_are_refused_alike(tmp_path: Path) -> None:
    quick: Any = "qick"
    total: Any = "total"
    with brickyard.Store(":memory:") as store:
        with pytest.raises(BadInputError, match=r"mode = 'qick': not a mode.*quick"):
            brickyard.characterize(store, MODEL[0], mode=quick)
        with pytest.raises(BadInputError, match=r"mode = 'qick'"):
            plans_of_characterization(MODEL[0], mode=quick)
        with pytest.raises(BadInputError, match=r"which = 'total': not a table.*totals"):
            brickyard.table([], total)
        with pytest.raises(BadInputError, match="a report needs at least one run"):
            brickyard.draw([], tmp_path / "report")
        with pytest.raises(BadInputError, match=r"a text; write a list of texts, \['sim:terraserver-2003'\]"):
            brickyard.run(store, "sqlio-random-read-4", MODEL[0])
        with pytest.raises(BadInputError, match="only = 'disks=4': a text"):
            brickyard.run_study(store, "sata-2003-disks", only="disks=4")


def test_runs_that_did_not_end_validly_are_not_compared() -> None:
    """As `brickyard compare` and the page do it."""
    with brickyard.Store(":memory:") as store:
        told = [interval(0, SECOND, cell([MS] * 2000)), phase_end()]
        good, also_good, cut = (add_run(store, told, outcome=outcome) for outcome in ("done", "done", "interrupted"))
        runs = {number: brickyard.measured(store, [number]) for number in (good, also_good, cut)}
        found = brickyard.compare(runs[good], runs[also_good] + runs[cut])
        assert found.sides.left_out == {"BEFORE": [], "AFTER": [cut]}
        assert [record.info.id for record in found.sides.after] == [also_good]
        with pytest.raises(BadInputError, match="comparing a run with itself"):
            brickyard.compare(runs[good], runs[good] + runs[cut])
        with pytest.raises(BadInputError, match=f"{also_good}: on both sides, whose runs must be independent"):
            brickyard.compare(runs[good] + runs[also_good], runs[also_good])
        with pytest.raises(BadInputError, match="AFTER: none of its runs ended validly"):
            brickyard.compare(runs[good], runs[cut])
