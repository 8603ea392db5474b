"""Tables of studies, differences and their noise, comparisons, histories: figures that can be checked by hand."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard import schema
from brickyard.analysis.figures.observe import observations, observe
from brickyard.analysis.figures.pivot import Axis, Observation, Pivot, TableSpec, pivot
from brickyard.analysis.figures.samples import sample
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.conclusions import conclusions
from brickyard.analysis.judging.history import change_points, histories
from brickyard.analysis.judging.summary import circumstances
from brickyard.arrays import Host, State
from brickyard.cli import main
from brickyard.conditions import Held
from brickyard.errors import BadInputError
from brickyard.report.matrix_charts import matrix_picture, trade_picture
from brickyard.report.matrix_tables import entry_text, footnotes, matrix_table
from brickyard.report.study_page import cells_csv, write_study_report
from brickyard.schema import SampledState, Start, Told
from brickyard.store import Json, Store
from brickyard.study.designs.cells import Specs, Wishes, lay_out
from brickyard.study.designs.design import read_design
from brickyard.study.designs.holding import Keeper, SetUp
from brickyard.study.designs.matrix import Matrix, steps
from brickyard.study.designs.results import StudyView, results, view_of
from brickyard.study.designs.texts import StudyText
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Silent
from brickyard.study.running.summaries import figures_of_runs
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream, told

RATES = st.floats(1, 1e6)
MIRROR = Axis("mirror", "mirror", {"software": "software", "hardware": "3ware", "none": "none"},
              {"software": "mirrored", "hardware": "mirrored", "none": "unmirrored"})  # fmt: skip
STATE = Axis("condition", "condition", {"normal": "Normal", "rebuilding": "Volume Rebuild"}, {})
LOAD = Axis("load", "load", {"read": "reads", "write": "writes"}, {}, changes_load=True)


def spec(**changes: object) -> TableSpec:
    plain: dict[str, object] = {
        "name": "t", "title": "T", "figure": "iops", "rows": ("mirror",), "columns": ("condition",), "where": {},
        "show": ("value", "percent_of_best"), "best_of": {"condition": ("normal",)}, "within": ("mirror",),
        "baseline": {}, "centre": "mean", "limit": None,
    }  # fmt: skip
    return TableSpec(**{**plain, **changes})  # type: ignore[arg-type]


def seen(values: Mapping[Any, float | list[float]], *names: str) -> list[Observation]:
    found: list[Observation] = []
    for levels, value in values.items():
        for number, one in enumerate(value if isinstance(value, list) else [value], 1):
            found.append(Observation(dict(zip(names, levels, strict=True)), number, len(found), one))
    return found


def shares(made: Pivot) -> dict[tuple[str, ...], float | None]:
    return {(*row, *column): entry.share_of_best for (row, column), entry in made.entries.items()}


def test_percent_of_best_divides_by_the_best_normal_cell_of_its_group() -> None:
    """As the SATA study does: a rebuild cell may read 102 %, and the unmirrored have a best of their own."""
    values = {
        ("software", "normal"): 146.0, ("hardware", "normal"): 137.0, ("software", "rebuilding"): 149.0,
        ("none", "normal"): 72.0, ("none", "rebuilding"): 36.0,
    }  # fmt: skip
    found = shares(pivot(spec(), [MIRROR, STATE], seen(values, "mirror", "condition")))
    assert found["software", "rebuilding"] == pytest.approx(149 / 146)
    assert found["hardware", "normal"] == pytest.approx(137 / 146)
    assert found["none", "normal"] == 1
    assert found["none", "rebuilding"] == 0.5


@given(st.lists(RATES, min_size=3, max_size=3), st.lists(RATES, min_size=3, max_size=3))
def test_the_best_is_one_hundred_per_cent_and_first(normal: list[float], rebuilding: list[float]) -> None:
    mirrors = ("software", "hardware", "none")
    values = {(m, "normal"): v for m, v in zip(mirrors, normal, strict=True)}
    values |= {(m, "rebuilding"): v for m, v in zip(mirrors, rebuilding, strict=True)}
    made = pivot(spec(within=(), best_of={}), [MIRROR, STATE], seen(values, "mirror", "condition"))
    found = [share for share in shares(made).values() if share is not None]
    assert max(found) == 1
    assert min(found) > 0
    for column in made.columns:
        ranked = sorted((e for (_, c), e in made.entries.items() if c == column), key=lambda e: -e.sample.centre)
        assert ranked[0].rank == 1
        assert [e.rank for e in ranked] == sorted(e.rank or 0 for e in ranked)


@given(RATES, RATES)
def test_of_times_the_shortest_is_best(one: float, other: float) -> None:
    values = {("software", "normal"): one, ("hardware", "normal"): other}
    made = pivot(spec(figure="response_mean"), [MIRROR, STATE], seen(values, "mirror", "condition"))
    found = shares(made)
    best = "software" if one <= other else "hardware"
    assert found[best, "normal"] == 1
    assert max(share or 0 for share in found.values()) == 1


def test_loads_are_never_compared_and_never_averaged() -> None:
    """A factor that the table does not show becomes a row, and each load has a best of its own."""
    values = {(load, m): v for load, a, b in (("read", 100.0, 50.0), ("write", 10.0, 5.0))
              for m, v in (("software", a), ("hardware", b))}  # fmt: skip
    made = pivot(spec(columns=(), within=None, best_of={}), [LOAD, MIRROR], seen(values, "load", "mirror"))
    assert [axis.name for axis in made.row_axes] == ["mirror", "load"]
    assert shares(made) == {("software", "read"): 1, ("software", "write"): 1,
                            ("hardware", "read"): 0.5, ("hardware", "write"): 0.5}  # fmt: skip


def test_difference_and_penalty_are_against_the_counterpart() -> None:
    """Overland: RAID-6 penalty = (RAID-5 - RAID-6) / RAID-5, with equal request sizes."""
    level = Axis("level", "level", {"raid5": "RAID-5", "raid6": "RAID-6"}, {})
    size = Axis("size", "size", {"4KiB": "4 KiB", "64KiB": "64 KiB"}, {})
    values = {
        ("raid5", "4KiB"): 168.45,
        ("raid6", "4KiB"): 166.07,
        ("raid5", "64KiB"): 438.85,
        ("raid6", "64KiB"): 386.0,
    }
    made = pivot(
        spec(rows=("size",), columns=("level",), baseline={"level": ("raid5",)}, show=("penalty",), within=None),
        [level, size],
        seen(values, "level", "size"),
    )  # fmt: skip
    assert made.entries[("4KiB",), ("raid6",)].penalty == pytest.approx(0.0141, abs=1e-4)
    assert made.entries[("64KiB",), ("raid6",)].penalty == pytest.approx(0.1204, abs=1e-4)
    assert made.entries[("64KiB",), ("raid5",)].difference is None
    table = matrix_table(made)
    assert table.columns == ["size", "RAID-6"]  # a baseline has no column of dashes
    assert [row[-1] for row in table.rows] == ["1.4 % ?", "12.0 % ?"]
    assert "measured once" in footnotes([made])[0]


def test_a_percentile_of_repetitions_is_of_their_merged_histograms(capsys: pytest.CaptureFixture[str]) -> None:
    """One repetition of few requests is slow; the mean of the three p99s would be a third of its."""
    many, few = [MS] * 40_000, [100 * MS] * 1200
    with Store() as store:
        for times in (many, many, few, many, many, few, few[:900]):
            add_run(store, [interval(0, SECOND, cell(times)), phase_end()])
        records = [store.record(run) for run in (1, 2, 3)]
        lacking = [*records, store.record(7)]
    shown = spec(figure="response_p99", rows=("phase",), columns=(), within=None, best_of={}, centre="mean")
    made = pivot(shown, [], observations(records, shown).values)
    (entry,) = made.entries.values()
    assert entry.sample.centre == pytest.approx(100 * MS, rel=0.02), "1,200 of 81,200 are more than one in a hundred"
    assert entry.sample.n == 3
    assert main(["compare", "1-3", "4-6", "--json"]) == 0
    change = next(c for c in json.loads(capsys.readouterr().out)["changes"] if c["figure"] == "response_p99")
    assert change["before"] == entry.sample.centre
    assert change["n_before"] == 3
    # One with too few requests is among them all the same, and without it the others have no interval.
    found = observe(lacking, [shown], [])
    (entry,) = found.pivots[0].entries.values()
    assert not entry.sample.has_interval
    assert entry.runs == (1, 2, 3, 7)
    assert "run 7 has fewer than ten requests beyond the figure" in found.troubles[0]
    assert observe(lacking, [replace(shown, figure="iops")], []).troubles == []


def test_a_figure_outside_its_repetitions_interval_shows_the_range() -> None:
    found = sample([90.0 * MS, 100.0 * MS, 110.0 * MS], whole=50.0 * MS)
    assert found is not None
    assert found.is_outside
    shown = pivot(
        spec(figure="response_p99"), [MIRROR, STATE], seen({("software", "normal"): 1.0}, "mirror", "condition")
    )
    (entry,) = shown.entries.values()
    told = entry_text(shown, replace(entry, sample=found), "value")
    assert told.startswith("50")
    assert " to " in told
    assert "±" not in told


def test_sentences_count_who_beats_whom() -> None:
    states = ("normal", "rebuilding")
    values: dict[tuple[str, ...], float | list[float]] = {}
    for number, state in enumerate(states):
        values["software", state] = [100.0 + number, 101.0, 102.0]
        values["hardware", state] = [80.0, 81.0, 82.0] if state == "normal" else [101.0, 100.0, 102.5]
    made = pivot(spec(), [MIRROR, STATE], seen(values, "mirror", "condition"))
    said = conclusions([made])
    (line,) = (line for line in said if line.startswith("Mirror, by IOPS: software beats 3ware in 1 of 2 cells; in"))
    assert re.search(
        r"; in 1, no difference seen \(these runs see one of [\d.]+ % or more with 80 % probability\)\.$", line
    ), line
    assert any(s.startswith("Volume Rebuild compared with Normal, by IOPS: ") for s in said)
    once = pivot(spec(), [MIRROR, STATE], seen({("software", "normal"): 100.0, ("hardware", "normal"): 80.0,
                                                ("software", "rebuilding"): 50.0, ("hardware", "rebuilding"): 50.1},
                                               "mirror", "condition"))  # fmt: skip
    (line, *_) = [s for s in conclusions([once]) if s.startswith("Mirror")]
    assert line == (
        "Mirror, by IOPS: software is ahead of 3ware in 1 of 2 cells; less than 1 % apart in 1 (noise unknown)."
    )


def test_the_median_of_a_summary_counts_every_cell() -> None:
    """Cells that are alike are cells as well: of -60, -40, 0, 0 and 0 % the median is 0 %."""
    rebuilding = {"a": 40.0, "b": 60.0, "c": 100.0, "d": 100.0, "e": 100.0}
    values = {(name, "normal"): 100.0 for name in rebuilding}
    values |= {(name, "rebuilding"): value for name, value in rebuilding.items()}
    volume = Axis("volume", "volume", {name: name for name in rebuilding}, {}, changes_load=True)
    made = pivot(spec(rows=("volume",), within=None), [volume, STATE], seen(values, "volume", "condition"))
    (line,) = [text for text in conclusions([made]) if text.startswith("Volume Rebuild compared with Normal")]
    assert line == (
        "Volume Rebuild compared with Normal, by IOPS: between -60 % and +0 %, median +0 %; less than 1 % apart in 3"
        " of 5 cells (noise unknown)."
    )


def test_each_figure_has_a_conclusion_of_its_own_whatever_the_order_of_tables() -> None:
    rates = pivot(spec(), [MIRROR, STATE], seen({("software", "normal"): [100.0, 101.0, 102.0],
                                                 ("hardware", "normal"): [80.0, 81.0, 82.0]},
                                                "mirror", "condition"))  # fmt: skip
    times = pivot(spec(figure="response_p99"), [MIRROR, STATE], seen({("software", "normal"): 9.0 * MS,
                                                                      ("hardware", "normal"): 5.0 * MS},
                                                                     "mirror", "condition"))  # fmt: skip
    said = {
        "Mirror, by IOPS: software beats 3ware.",
        "Mirror, by p99 of the response time: 3ware is ahead of software (noise unknown).",
    }
    assert set(conclusions([rates, times])) == set(conclusions([times, rates])) == said


@pytest.mark.parametrize("seed", range(5))
def test_a_lasting_change_is_found_where_it_is_and_noise_has_none(seed: int) -> None:
    import random

    dice = random.Random(seed)
    level = [dice.gauss(1000, 10) for _ in range(12)]
    assert change_points(level) == []
    assert change_points([*level, *(dice.gauss(900, 10) for _ in range(8))]) == [12]
    assert change_points([*level[:6], 700.0, *level[6:]]) == [], "one bad run is no change for good"
    assert change_points(level[:3]) == []


def test_a_change_of_less_than_a_thousandth_is_none() -> None:
    assert change_points([1000.0, 1000.1] * 4 + [1002.0, 1002.1] * 4) == [8]
    assert change_points([1000.0, 1000.1] * 4 + [1000.5, 1000.6] * 4) == [], "modelled runs have hardly any noise"


def test_loads_shown_together_share_the_level_of_their_changes(tmp_path: Path) -> None:
    """A change that one load alone would show is too weak among forty."""
    falls = (1000, 985, 1015, 990, 1010, 1000, 982, 960, 988, 965, 978, 970)
    flat = (1000, 990, 1010) * 4
    assert _turns(tmp_path / "alone.db", falls) == [1]
    assert _turns(tmp_path / "forty.db", falls, *[flat] * 39) == [0] * 40


def _turns(place: Path, *loads: tuple[int, ...]) -> list[int]:
    """Of runs whose streams served so many requests in a second; one stream a load."""
    asked = plan(*(stream(name=f"load {number}") for number in range(len(loads))))
    with Store(place) as store:
        for served in zip(*loads, strict=True):
            cells = [cell([MS] * count, stream=number) for number, count in enumerate(served)]
            add_run(store, [interval(0, SECOND, *cells), phase_end(end_ns=SECOND)], plan_=asked)
        heads = {head.id: head for head in store.heads()}
        figures = figures_of_runs(store, list(heads), lambda _: None, lambda _: None)
        found = histories([(heads[run], one) for run, one in figures.items()], "iops", store.record)
    return [len(history.turns) for history in found]


SIM = """
title = "Two mirrors"
source = "a test"
repetitions = 3
[base]
profile = "sqlio-random-read-4"
target = "sim:msr-2003-wd{mirror}"
set = ["duration=5s"]
[factor.mirror.levels]
software = { value = "-software-mirror", usd = 100 }
none = { value = "", usd = 50 }
[factor.condition]
condition = "{value}"
[factor.condition.levels]
normal = { label = "Normal" }
rebuilding = { label = "Volume Rebuild" }
[[exclude]]
mirror = "none"
condition = "rebuilding"
[[table]]
name = "rate"
rows = "mirror"
columns = "condition"
show = ["value", "percent_of_best"]
[[table]]
name = "price"
figure = "usd_per_iops"
rows = "mirror"
columns = "condition"
[[table]]
name = "answer"
figure = "response_mean"
rows = "mirror"
columns = "condition"
[[trade]]
x = "rate"
y = "answer"
"""


def carried_out(store: Store, text: str = SIM, wishes: Wishes | None = None) -> tuple[StudyView, Matrix]:
    wishes = wishes or Wishes()
    design = read_design(StudyText("mirrors", text, "mirrors.toml"))
    layout = lay_out(design, wishes)
    planned = steps(design, layout, wishes, Specs(design, wishes, None))
    matrix = Matrix(store, Silent(), Interrupt(), design, wishes, planned)
    result = matrix.run()
    found = results(store, design, [step.identity for step in planned])
    return view_of(design, found, layout.cells, wishes.changes, result.notes), matrix


def test_a_study_becomes_a_page_with_pictures_and_all_its_cells(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        view, _ = carried_out(store)
    page = write_study_report(view, tmp_path / "report").read_text("utf-8")
    assert (
        page.index("<h2>Summary") < page.index("<svg") < page.index("<h2>All figures") < page.index("<h2>Circumstances")
    )
    assert "Cheapest by USD per IOPS" in page
    assert "<script" not in page
    names = {path.name for path in (tmp_path / "report" / "pictures").iterdir()}
    assert {"table-rate.png", "table-rate.svg", "table-answer.png", "trade-answer-rate.png"} <= names
    rows = list(csv.DictReader(io.StringIO((tmp_path / "report" / "cells.csv").read_text())))
    assert len(rows) == 9
    price = next(row for row in rows if row["table"] == "price" and row["mirror"] == "none")
    rate = next(row for row in rows if row["table"] == "rate" and row["mirror"] == "none")
    assert float(price["value"]) == pytest.approx(50 / float(rate["value"]), rel=0.01)
    assert rate["n"] == "3"
    assert cells_csv(view.observed.pivots).count("\n") == 10


def test_pictures_have_a_bar_for_each_cell(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        view, _ = carried_out(store)
    rate, _, answered = view.observed.pivots
    picture = matrix_picture(rate)
    assert picture is not None
    assert picture.svg.count('aria-roledescription="bar"') == 3
    assert matrix_picture(Pivot(rate.spec, rate.figure, rate.row_axes, rate.column_axes, (), (), {})) is None
    assert trade_picture(rate, answered, "t") is not None


def test_an_invalid_run_is_repeated_and_in_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that did not last is told in the run's own event, as it is on a real array."""
    spoiled: list[int] = []
    add_events = Store.add_events

    def spoil(self: Store, run: int, events: list[Told]) -> None:
        add_events(self, run, events)
        if any(isinstance(one.event, Start) for one in events) and (not spoiled or run == spoiled[0]):
            spoiled.append(run)
            reason = "the rebuild ended 2 s before the run did"
            lost = {"event": "condition", "condition": "rebuilding", "valid": False, "reason": reason}
            add_events(self, run, [told(lost)])

    monkeypatch.setattr(Store, "add_events", spoil)
    with Store(tmp_path / "runs.db") as store:
        view, matrix = carried_out(store)
        assert spoiled
        assert [record.info.id for record in view.invalid] == spoiled[:1]
        assert matrix.result.outcome == "done"
        again, second = carried_out(store)
        assert second.result.made == []
    counted = {run for made in view.observed.pivots for entry in made.entries.values() for run in entry.runs}
    assert spoiled[0] not in counted
    assert len(counted) == 9
    assert "the rebuild ended 2 s before the run did" in write_study_report(view, tmp_path / "r").read_text("utf-8")
    assert len(again.records) == 9


def test_a_label_keeps_measurements_apart_and_they_can_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        carried_out(store, wishes=Wishes(label="before"))
        carried_out(store, wishes=Wishes(label="after", changes=("drive=maxtor-250-sata",)))
    capsys.readouterr()
    assert main(["compare", "mirrors@before", "mirrors@after", "--check", "--tolerance", "1%", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["before"] == list(range(1, 10))
    assert document["after"] == list(range(10, 19))
    assert {tuple(change["load"][:2]) for change in document["changes"]} == {
        ("software", "normal"), ("software", "rebuilding"), ("none", "normal")
    }  # fmt: skip
    assert {item["label"] for item in document["differing"]} == {"Test area", "Model, set"}
    assert not document["passed"]
    assert main(["compare", "mirrors@before", "mirrors@before"]) == 2
    assert "both sides are runs 1-9" in capsys.readouterr().err
    assert main(["compare", "mirrors@after", "mirrors@before", "--check"]) == 0
    told = capsys.readouterr().out
    assert "~: not seen beyond noise" in told
    found = r"power against 5 %: in four of five cases, these runs would find one figure that is worse by "
    all_of = r"[\d.]+ % \(the steadiest\) to [\d.]+ % \(the noisiest\), or all \d+ if each is worse by [\d.]+ %"
    assert re.search(found + all_of, told)


def test_a_name_that_several_studies_bear_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        carried_out(store, SIM.replace("repetitions = 3", "repetitions = 1"))
        carried_out(store, SIM.replace("repetitions = 3", "repetitions = 1").replace("wd{mirror}", "maxtor{mirror}"))
    capsys.readouterr()
    for arguments in (["compare", "mirrors", "s1"], ["baseline", "save", "m", "mirrors"]):
        assert main(arguments) == 2
        assert "(s1, s2); name one of them" in capsys.readouterr().err
    assert main(["compare", "s1", "s2"]) == 0


def test_a_gate_judges_no_single_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for service_ms in (10, 12):
            add_run(store, [interval(0, SECOND, cell([service_ms * MS] * 200)), phase_end()])
    assert main(["compare", "1", "2", "--check"]) == 2
    assert "measured only once on both sides" in capsys.readouterr().err
    assert main(["compare", "1", "2"]) == 0
    told = capsys.readouterr().out
    assert "measured once, not judged" in told
    assert "between runs unknown" in told
    assert "worse:" not in told
    assert main(["compare", "1", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is None


def test_a_warning_of_one_side_is_a_circumstance(capsys: pytest.CaptureFixture[str]) -> None:
    def warned(size: int) -> Json:
        made = schema.warned(
            "foreign_io",
            "warning",
            "Other programs used {device} during the run: {read} read beside our own 40 MiB read.",
            "Stop them.",
            device="vda",
            read=schema.Unit.BYTES.of(size << 20),
        )
        return dict(msgspec.to_builtins(made))

    with Store() as store:
        for warnings in ([], [warned(50)], [warned(60)], [warned(200)]):
            add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()], warnings=warnings)
    assert main(["compare", "1", "2"]) == 0
    told = capsys.readouterr().out
    assert "differed: warning of run 2, not of run 1: Other programs used vda" in told
    assert "nothing differed" not in told
    assert main(["compare", "2", "3"]) == 0
    assert "circumstances: nothing differed" in capsys.readouterr().out, "a fifth more of the same is no difference"
    assert main(["compare", "2,3", "4"]) == 0
    told = capsys.readouterr().out
    assert (
        "differed: warning of both sides: Other programs used vda during the run: 50 MiB to 60 MiB read beside" in told
    )
    assert "(runs 2-3); Other programs used vda during the run: 200 MiB read beside" in told
    assert "(run 4) (more than the storage is in these figures)" in told


def test_the_speeds_of_replays_are_a_circumstance(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for speed in ("20x", "10x"):
            asked = {"pace": {"kind": "time_synchronized", "speed": speed}, "logs": ["a.log"], "mapping": "a\nb"}
            made = {**plan(), "kind": "replay", "replay": asked}
            add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()], plan_=made)
    assert main(["compare", "1", "2"]) == 0
    told = capsys.readouterr().out
    assert "differed: Replay pace speed: 20x (run 1); 10x (run 2)" in told
    assert "logs" not in told


def test_a_dry_run_names_the_target_that_the_run_would_refuse(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, missing = tmp_path / "mine.toml", tmp_path / "none.bin"
    file.write_text(
        f'[base]\nprofile = "sqlio-random-read-4"\ntarget = "{missing}"\nset = ["duration=1s"]\n'
        "[factor.outstanding]\n"
        '[factor.outstanding.levels]\none = { value = "1" }\n'
    )
    assert main(["study", str(file), "--dry-run"]) == 2
    told = capsys.readouterr().out
    assert f"{missing}: does not exist" in told
    assert "--size" in told
    assert main(["study", str(file), "--dry-run", "--size", "16MiB"]) == 0
    assert "does not exist" not in capsys.readouterr().out
    assert not missing.exists()


def test_tables_of_one_name_are_refused_with_the_key() -> None:
    with pytest.raises(BadInputError, match=r"name: rate is the name of an earlier table"):
        read_design(StudyText("m", SIM.replace('name = "price"', 'name = "rate"'), "m.toml"))


def test_tables_without_a_run_name_their_study(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mirrors.toml"
    file.write_text(SIM.replace("repetitions = 3", "repetitions = 1"))
    assert main(["study", str(file)]) == 0
    capsys.readouterr()
    assert main(["study", str(file), "--no-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 1
    assert main(["study", str(file), "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert ", 1 combination excluded" in told
    assert "duration of the missing runs" not in told, "none is missing"
    assert main(["baseline", "save", "m", "1"]) == 0
    assert main(["baseline", "save", "m", "1"]) == 0
    assert main(["baseline", "save", "m", "2"]) == 2
    assert "m: is a baseline already, of run 1, saved " in (refused := capsys.readouterr().err)
    assert "--replace" in refused
    assert main(["baseline", "save", "m", "2", "--replace"]) == 0
    assert "baseline m: run 2, instead of run 1" in capsys.readouterr().out


def test_today_is_held_against_a_baseline(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def measured(service_ms: int, errors: int = 0) -> None:
        spans = [
            interval(n * SECOND, (n + 1) * SECOND, cell([service_ms * MS + n % 3 * MS // 10] * 200, errors=errors))
            for n in range(10)
        ]
        with Store() as store:
            add_run(store, [*spans, phase_end()])

    for service_ms in (10, 10, 10, 12, 12):
        measured(service_ms)
    for _ in range(2):
        measured(10, errors=3)
    for _ in range(2):
        measured(10)
    assert main(["baseline", "save", "good", "1-3"]) == 0
    assert main(["compare", "8-9", "--baseline", "good", "--check"]) == 0
    capsys.readouterr()
    assert main(["compare", "4-5", "--baseline", "good", "--check", "--json", "-o", str(tmp_path / "p")]) == 1
    document = json.loads(capsys.readouterr().out)
    assert any("mean response time" in line for line in document["worse"])
    assert [Path(path).name for path in document["pictures"]] == ["compare.png", "distributions.png"]
    assert document["distributions"][0]["largest_distance"] == pytest.approx(1)
    # Within the tolerance it is good enough, and whoever fails requests is not; that needs no second run.
    assert main(["compare", "4-5", "--baseline", "good", "--check", "--tolerance", "30%"]) == 0
    for failing in ("6-7", "6"):
        assert main(["compare", failing, "--baseline", "good", "--check"]) == 1
        assert "failed requests" in capsys.readouterr().out
    assert main(["baseline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baselines"][0]["runs"] == [1, 2, 3]
    assert main(["baseline", "show", "good"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("baseline good: runs 1-3, saved ")
    assert [row.split()[0] for row in rows if "a-load" in row] == ["1", "2", "3"]
    assert main(["baseline", "show", "god"]) == 2
    assert "god: no such baseline; did you mean good? `brickyard baseline show good`" in capsys.readouterr().err
    assert main(["baseline", "list"]) == 0
    assert "good" in capsys.readouterr().out
    assert main(["baseline", "remove", "good"]) == 0
    assert capsys.readouterr().out == "baseline good is removed; runs 1-3 stay in the store\n"
    for words in (["baseline", "remove", "good"], ["compare", "4", "--baseline", "good"]):
        assert main(words) == 2
        assert "good: no such baseline; `brickyard baseline save NAME` makes one" in capsys.readouterr().err
    with Store() as store:
        assert store.baselines() == {}
        assert len(store.heads()) == 9


def test_a_history_names_the_run_at_which_it_changed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Store() as store:
        for number in range(12):
            count = 200 + number % 3 if number < 7 else 150 + number % 3
            add_run(store, [interval(0, SECOND, cell([MS] * count)), phase_end()])
    assert main(["history", "/data/a file", "--json", "-o", str(tmp_path)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["histories"]
    assert [turn["run"] for turn in found["changes"]] == [8]
    assert found["changes"][0]["share"] == pytest.approx(-0.25, abs=0.01)
    assert (tmp_path / "history-1.png").stat().st_size > 1000
    assert main(["history", "/data/a fil"]) == 2
    assert "did you mean /data/a file?" in capsys.readouterr().err


def test_runs_of_a_model_with_one_seed_are_no_evidence_of_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of them is the same run again. One with another seed is a run of its own, also if its figure is the same by
    chance, and counts for all of its operations."""
    with Store() as store:
        for seed, reads, writes in [*[(1, 200, 90)] * 5, *[(2, 203, 91)] * 3, (3, 200, 92)]:
            both = cell([MS] * reads), cell([MS] * writes, operation="write")
            asked = {**plan(), "seed": seed}
            add_run(store, [interval(0, SECOND, *both), phase_end()], targets=["sim:wd2500jd"], plan_=asked)
    assert main(["history", "sim:wd2500jd", "--json"]) == 0
    for found in json.loads(capsys.readouterr().out)["histories"]:
        assert found["changes"] == []
        assert ([point["run"] for point in found["points"]], found["repeats"]) == ([1, 6, 9], 6)
    assert main(["history", "sim:wd2500jd"]) == 0
    assert "each repeats an earlier run: runs 2-5, 7-8 (same seed" in " ".join(capsys.readouterr().out.split())


def test_a_page_of_runs_in_several_conditions_says_which_run_was_in_which() -> None:
    with Store() as store:
        runs = [
            add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()], condition=condition)
            for condition in ("normal", "rebuilding")
        ]
        records = [store.record(run) for run in runs]
    for order in (records, records[::-1]):
        said = dict(circumstances(order))["Condition"]
        assert "normal (run 1)" in said
        assert "rebuilding (run 2)" in said
    assert any(", rebuilding: " in text for text in answer(records, {}).sentences), answer(records, {}).sentences


def test_one_file_by_two_names_is_one_storage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Store() as store:
        for name, folder in (("data", "a"), (f"{tmp_path}/a/data", "a"), ("data", "b")):
            facts = {"targets": [{"real_path": f"{tmp_path}/{folder}/data"}]}
            add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()], targets=[name], facts=facts)
    assert main(["compare", "1", "2"]) == 0
    assert "Target" not in capsys.readouterr().out
    assert main(["compare", "1", "3"]) == 0
    assert f"Target: {tmp_path}/a/data (run 1); {tmp_path}/b/data (run 3)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "1"], "name BEFORE and AFTER"),
        (["compare", "1", "--baseline", "none"], "no such baseline"),
        (["compare", "1", "2", "--figure", "iop"], "did you mean iops?"),
        (["compare", "1", "1", "--tolerance", "much"], "--tolerance much"),
        (["compare", "1", "nothing@here"], "not a run"),
        (["baseline", "save", "4 you"], "a name is a letter"),
        (["history", "/data/a file", "--figure", "errors"], "is not a figure with a history"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        add_run(store, [interval(0, SECOND, cell([MS] * 30)), phase_end()])
    assert main(arguments) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert len(told.splitlines()) == 1


PLOTS = """
title = "Loads in conditions"
repetitions = 4
[base]
profile = "sqlio-random-read-4"
target = "/dev/md{array}"
[factor.array]
levels = ["1", "5"]
[factor.depth]
levels = [1, 2, 4, 8]
set = { depth = "{value}" }
[factor.condition]
condition = "{value}"
levels = ["normal", "degraded", "rebuilding"]
[[table]]
rows = "depth"
columns = "condition"
"""


def test_conditions_are_set_up_once_a_repetition_and_their_order_is_random() -> None:
    design = read_design(StudyText("plots", PLOTS, "plots.toml"))
    planned = steps(design, lay_out(design, Wishes()), Wishes(), Specs(design, Wishes(), None))
    orders, within = set(), set()
    for repetition in range(1, 5):
        own = [step for step in planned if step.repetition == repetition]
        changes = [b for a, b in zip([None, *own], own, strict=False) if a is None or a.cell.set_up != b.cell.set_up]
        assert len(changes) == 6, "each of two arrays in three conditions, once"
        orders.add(tuple(step.cell.set_up for step in changes))
        within.add(tuple(step.cell.levels["depth"] for step in own[:4]))
        held = [step.cell.set_up for step in changes]
        after = {what.targets: held[n + 1] for n, what in enumerate(held[:-1]) if what.condition == "degraded"}
        assert len(after) == 2, "neither array is degraded last"
        assert all((what.targets, what.condition) == (its, "rebuilding") for its, what in after.items())
    assert len(orders) > 1
    assert len(within) > 1


class Rebuild(Held):
    """A rebuild that is as far as somebody says."""

    def __init__(self, share: float = 0.0) -> None:
        super().__init__("rebuilding", "/dev/md0", None, Host())
        self.share = share

    def look(self) -> State:
        return State("rebuilding" if self.share < 1 else "normal", self.share)


def test_a_condition_is_held_for_as_many_runs_as_fit() -> None:
    made: list[Rebuild] = []
    undone: list[Rebuild] = []

    @contextmanager
    def hold(_: SetUp) -> Iterator[Held]:
        made.append(Rebuild())
        yield made[-1]
        undone.append(made[-1])

    def measured(held: Held | None, share: float) -> None:
        """A run of 10 s that takes the rebuild so much further."""
        assert held is made[-1]
        before, after = made[-1].share, made[-1].share + share
        held.samples[:] = [(0, SampledState.REBUILDING, before), (10 * SECOND, SampledState.REBUILDING, after)]
        made[-1].share += share

    keeper, what = Keeper(hold), SetUp(("/dev/md0",), "rebuilding")
    measured(keeper.keep(what, 10.0), 0.4)
    measured(keeper.keep(what, 10.0), 0.4)
    assert (len(made), len(undone)) == (1, 0)
    keeper.keep(what, 4.0)
    assert len(made) == 1, "0.8 done, and 4 s take 0.16 more"
    keeper.keep(what, 10.0)
    assert (len(made), len(undone)) == (2, 1), "it would have ended in the run"
    made[-1].share = 1.0
    keeper.keep(what, 1.0)
    assert (len(made), len(undone)) == (3, 2), "it ended between two runs"
    keeper.keep(SetUp(("/dev/md0",), "degraded"), 1.0)
    assert (len(made), len(undone)) == (4, 3), "another condition"
    keeper.close()
    keeper.close()
    assert (len(made), len(undone)) == (4, 4)
    with pytest.raises(OSError, match="gone"):
        Keeper(lambda _: (_ for _ in ()).throw(OSError("gone"))).keep(what, 1.0)


def test_an_array_that_was_degraded_is_rebuilt_once() -> None:
    done: list[str] = []

    @contextmanager
    def hold(what: SetUp) -> Iterator[Held]:
        done.append(what.condition)
        held = Held(what.condition, "/dev/md0", None, Host())
        if what.condition == "degraded":
            held.go_on = lambda rate: done.append(f"go on at {rate}")
        yield held
        done.append("undone")

    keeper = Keeper(hold)
    degraded = SetUp(("/dev/md0",), "degraded")
    keeper.keep(degraded, 1.0)
    held = keeper.keep(SetUp(("/dev/md0",), "rebuilding", rate_bytes_per_s=5), 1.0)
    assert held is not None
    assert (held.condition, keeper.set_ups) == ("rebuilding", 2)
    assert done == ["degraded", "go on at 5"], "neither undone nor set up anew"
    keeper.keep(degraded, 1.0)
    assert done[2:] == ["undone", "degraded"]
    keeper.keep(SetUp(("/dev/md1",), "rebuilding"), 1.0)
    assert done[4:] == ["undone", "rebuilding"], "another array"
    keeper.close()


def test_one_relative_name_in_two_directories_has_no_common_history(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store() as store:
        for folder in ("a", "a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
            facts = {"targets": [{"real_path": str(tmp_path / folder / "brick")}]}
            add_run(store, [interval(0, SECOND, cell([MS] * 200)), phase_end()], targets=["brick"], facts=facts)
    assert main(["history", "brick", "--json"]) == 2
    assert f"is the name of several files: {tmp_path}/a/brick (runs 1-2)" in capsys.readouterr().err
    for folder, runs in (("a", [1, 2]), ("b", [3])):
        monkeypatch.chdir(tmp_path / folder)
        for name in ("brick", str(tmp_path / folder / "brick")):
            assert main(["history", name, "--json"]) == 0
            (found,) = json.loads(capsys.readouterr().out)["histories"]
            assert [point["run"] for point in found["points"]] == runs
