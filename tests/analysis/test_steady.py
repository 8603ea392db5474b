"""A phase that reached steady state has the figures of that state everywhere; one that did not says so beside them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from brickyard import analysis, rulers
from brickyard.analysis.figures import cells
from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.figures.price import Price, costs
from brickyard.analysis.judging.steadiness import steadiness_warnings
from brickyard.analysis.judging.verdict import verdict
from brickyard.cli import main
from brickyard.store import Json, Record, Store
from support import MS, SECOND, add_run, cell, events_of, interval, phase_end, plan, stream

RULE: Json = {"measure": "iops", "round": "1000000000ns", "rounds": 5, "range": 20.0, "slope": 10.0, "stop": False}
SLIDE = (900, 800, 700, 600, 500)
FLAT = (450, 455, 445, 450, 460)
TRANSIENT, STEADY = (5 * SECOND, sum(FLAT) / 5)


def told(reached: bool, from_s: int, at_s: int, **changes: object) -> Json:
    return {
        "event": "steady",
        "phase": 0,
        "from_ns": from_s * SECOND,
        "at_ns": at_s * SECOND,
        "reached": reached,
        "mean": 450.0,
        "range_percent": 3.3,
        "slope_percent": 1.1,
        **changes,
    }


REACHED = told(True, 5, 10)
LEFT = told(False, 8, 13, range_percent=31.0, slope_percent=12.0)


def run_of(store: Store, rates: tuple[int, ...], *events: Json, errors: int = 0) -> int:
    """A second each; a request of the transient takes longer than one of the steady state."""
    spans = [
        interval(
            n * SECOND,
            (n + 1) * SECOND,
            cell([(9 if n < len(SLIDE) else 2) * MS] * count, operation="write", errors=errors if n == 0 else 0),
        )
        for n, count in enumerate(rates)
    ]
    load = stream(operations={"read": 0.0, "write": 100.0, "flush": 0.0, "trim": 0.0})
    return add_run(store, [*spans, *events, phase_end()], plan_=plan(load, steady=RULE))


def record_of(rates: tuple[int, ...], *events: Json, errors: int = 0) -> Record:
    with Store() as store:
        return store.record(run_of(store, rates, *events, errors=errors))


def test_the_figures_are_those_of_the_steady_state_wherever_they_are_made() -> None:
    record = record_of((*SLIDE, *FLAT), REACHED, errors=3)
    (row,) = analysis.totals(record)
    assert row.iops == pytest.approx(STEADY)
    assert row.requests == sum(FLAT)
    assert row.errors == 3, "a failure before the steady state is a failure"
    assert row.measures["response"].mean_ns == pytest.approx(2 * MS, rel=0.01)
    assert row.variation == analysis.variation(FLAT)
    assert analysis.phase_rates(record)[0].iops == pytest.approx(STEADY)
    (figure,) = measured(record, FIGURES["iops"])
    assert figure.value == pytest.approx(STEADY)
    (cost,) = costs(record, Price(usd=1000.0))
    assert cost.usd_per_iops == pytest.approx(1000 / STEADY)
    (found,) = verdict(record, rulers.read("iops>=500")).findings
    assert found.value == pytest.approx(STEADY)
    assert not found.passed


def test_the_transient_stands_beside_and_the_window_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of((*SLIDE, *FLAT), REACHED)
    assert main(["show", str(record.info.id)]) == 0
    shown = capsys.readouterr().out
    (steady,) = (line for line in shown.splitlines() if "steady, from 5.0 s" in line)
    (whole,) = (line for line in shown.splitlines() if "all, including the transient" in line)
    assert " 452 " in steady
    assert " 576 " in whole
    assert main(["show", str(record.info.id), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["totals"]
    assert row["steady"] == {"state": "held", "from_ns": TRANSIENT, "changed_ns": 10 * SECOND}
    assert row["iops"] == pytest.approx(STEADY)
    assert document["totals_with_transient"][0]["iops"] == pytest.approx((sum(SLIDE) + sum(FLAT)) / 10)


def test_a_state_that_lasts_counts_to_its_end_and_one_that_was_left_counts_not() -> None:
    (lasting,) = analysis.totals(record_of((*SLIDE, *FLAT, 440, 440), REACHED))
    assert lasting.iops == pytest.approx((sum(FLAT) + 880) / 7)
    record = record_of((*SLIDE, *FLAT, 100, 100, 100), REACHED, LEFT)
    (left,) = analysis.totals(record)
    assert left.iops == pytest.approx((sum(SLIDE) + sum(FLAT) + 300) / 13)
    assert left.steady is not None
    assert left.steady.words == "all; left steady state at 13.0 s"
    again = record_of((*SLIDE, *FLAT, 100, 100, 100, 99, 101), REACHED, LEFT, told(True, 10, 15))
    (row,) = analysis.totals(again)
    assert row.iops == pytest.approx(100)


def test_a_phase_without_steady_state_says_so_beside_its_figure(capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of(SLIDE)
    (row,) = analysis.totals(record)
    assert row.iops == pytest.approx(700)
    assert main(["show", str(record.info.id)]) == 0
    assert "all; never steady" in capsys.readouterr().out


def test_exports_say_which_intervals_make_the_figure(tmp_path: Path) -> None:
    record = record_of((*SLIDE, *FLAT), REACHED)
    for form in ("csv", "parquet", "json"):
        place = tmp_path / f"x.{form}"
        assert main(["export", str(record.info.id), "--format", form, "-o", str(place)]) == 0
    rows = [row for row in csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())) if row["measure"] == "service"]
    assert [row["headline"] for row in rows] == ["False"] * 5 + ["True"] * 5
    assert sum(int(row["requests"]) for row in rows if row["headline"] == "True") / 5 == pytest.approx(STEADY)
    document = json.loads((tmp_path / "x.json").read_text())["runs"][0]
    assert document["totals"][0]["iops"] == pytest.approx(STEADY)


def test_comparisons_and_reports_take_the_steady_state(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Store() as store:
        run_of(store, (*SLIDE, *FLAT), REACHED)
        run_of(store, FLAT, told(True, 0, 5))
    assert main(["compare", "1", "2", "--json"]) == 0
    (rate,) = (c for c in json.loads(capsys.readouterr().out)["changes"] if c["figure"] == "iops")
    assert rate["before"] == pytest.approx(rate["after"])
    assert main(["report", "1", "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "steady, from 5.0 s" in page
    assert "all, including the transient" in page


def test_the_window_of_an_older_record_follows_from_its_rule() -> None:
    old = {key: value for key, value in REACHED.items() if key != "from_ns"}
    (row,) = analysis.totals(record_of((*SLIDE, *FLAT), old))
    assert row.iops == pytest.approx(STEADY)


def test_a_run_of_the_engine_records_its_window(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    profile = tmp_path / "fill.toml"
    profile.write_text(
        'title = "Fill"\ninterval = "100ms"\n[[phase]]\nname = "fill"\nduration = "60s"\n'
        'steady = { round = "500ms", rounds = 5, stop = true }\n'
        '[[phase.stream]]\nname = "w"\nrequest = "64KiB"\naddress = "random"\ndepth = 4\n'
        "operations = { read = 0, write = 100 }\n"
    )
    assert main(["run", str(profile), "sim:wd2500jd", "--json"]) == 0
    with Store() as store:
        record = store.record(store.runs()[-1].id)
    events = [event for event in events_of(record, "steady") if event["reached"]]
    capsys.readouterr()
    (row,) = analysis.totals(record)
    assert row.iops == pytest.approx(events[-1]["mean"], rel=1e-9)
    assert events[-1]["at_ns"] - events[-1]["from_ns"] == 5 * SECOND // 2


def test_warnings_of_the_course_each_by_its_cause() -> None:
    def found(*rates: int, events: tuple[Json, ...] = ()) -> list[tuple[str, str]]:
        return [(item.id, item.severity) for item in steadiness_warnings(record_of(rates, *events))]

    assert found(*FLAT, events=(told(True, 0, 5),)) == []
    assert found(*FLAT) == [("not_steady", "warning")]
    assert found(*FLAT[:4], events=(told(True, 0, 5),)) == [("short", "warning")]
    assert found(*FLAT, *FLAT, events=(told(True, 0, 5), told(False, 5, 10))) == [("left_steady", "warning")]
    assert found(1000, 1300, 700, 1000, 1300, events=(told(True, 0, 5),)) == [("noisy", "warning")]
    assert found(20, 26, 14, 20, 26, events=(told(True, 0, 5),)) == [("noisy", "note")]


def test_variation_is_one_figure_in_table_and_warning(capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of((1000, 1300, 700, 1000, 1300), told(True, 0, 5))
    (warning,) = steadiness_warnings(record)
    (row,) = analysis.totals(record)
    text = cells.variation(row.variation)
    assert f"IOPS vary by {text} between 5 intervals" in warning.text
    assert main(["show", str(record.info.id)]) == 0
    assert f" {text} " in capsys.readouterr().out


def test_a_ramp_a_warm_up_and_a_cut_interval_are_not_judged() -> None:
    spans = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 100), warmup=n < 2) for n in range(7)]
    cut = interval(7 * SECOND, 7 * SECOND + MS, cell([MS]))
    with Store() as store:
        plain = add_run(store, [*spans, cut, phase_end()], plan_=plan())
        ramped = [
            interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 100 * (n + 1)), knob={"depth": n + 1}) for n in range(5)
        ]
        turned = {"knob": "depth", "from": 1, "to": 4, "step": 1, "every": "1s"}
        ramp = add_run(store, [*ramped, phase_end()], plan_=plan(steady=RULE, ramp=turned))
        assert steadiness_warnings(store.record(plain)) == []
        assert steadiness_warnings(store.record(ramp)) == []
