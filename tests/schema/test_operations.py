"""Which operations a figure is of: one answer, wherever the figure is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brickyard import profiles, rulers
from brickyard.advise.predict import Limited, shares, step
from brickyard.advise.simulate import Brick, rates, simulate
from brickyard.analysis.figures import ramp
from brickyard.analysis.figures.conditions import condition_spans
from brickyard.analysis.figures.load_curve import curve_point
from brickyard.analysis.figures.moments import moments
from brickyard.analysis.figures.named import FIGURES, RATES_BY_OPERATION, figure_of, measured
from brickyard.analysis.figures.price import Price, costs
from brickyard.analysis.figures.ramp import steps
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.figures.totals import phase_rates, totals
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.slow import unlisted_words
from brickyard.analysis.judging.targets import target_rows
from brickyard.analysis.judging.verdict import verdict
from brickyard.analysis.judging.verdict_words import verdict_line
from brickyard.analysis.studies.characterization import characterization
from brickyard.cli.parts.progress import figures
from brickyard.report.tables import slowest_table
from brickyard.schema import Counted, Interval, RampStep, RunWarning, in_rate, is_on_data, is_request, typed
from brickyard.store import Json, Record, Store
from brickyard.study.running import circumstances
from brickyard.study.shipped.interference import MapAsked, point_of
from brickyard.units import format_ns, format_percent
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

SPAN = 2
DONE = {"read": 100, "write": 60, "flush": 60, "trim": 10, "unlink": 30, "chain": 20, "read_file": 5, "frame": 7}
"""So many in each second, all of 1 ms but the flushes, which take 9."""
ASKED = 100 + 60 + 10


def second(number: int, **changes: object) -> Json:
    cells = [cell([(9 if name == "flush" else 1) * MS] * count, operation=name) for name, count in DONE.items()]
    for told in cells:
        told["bytes"] = 0 if told["operation"] in ("flush", "unlink") else told["bytes"]
    return interval(number * SECOND, (number + 1) * SECOND, *cells, index=number, **changes)


def mixed(tmp_path: Path, *more: Json, **changes: object) -> Record:
    two = [stream(), stream(name="other", target=1)]
    with Store(tmp_path / "runs.db") as store:
        told = [*more, *(second(number, **changes) for number in range(SPAN)), phase_end(end_ns=SPAN * SECOND)]
        return store.record(add_run(store, told, plan_=plan(*two), targets=["/data/a file", "/data/b"]))


def test_every_room_counts_the_same_operations_in_iops(tmp_path: Path) -> None:
    changed = {"event": "brick_condition", "at_ns": SECOND, "condition": "degraded", "target": 0}
    record = mixed(tmp_path, changed, knob={"depth": 4})
    found = {
        "closing line": phase_rates(record)[0].iops,
        "tables of studies": measured(record, FIGURES["iops"])[0].value,
        "verdict": verdict(record, rulers.read("iops>=1")).findings[0].value,
        "price": 1 / (costs(record, Price(1.0))[0].usd_per_iops or 0),
        "advice": rates(record)[0],
        "targets": target_rows(record)[-1].iops,
        "steps": steps(record)[0].iops,
        "conditions": condition_spans(record)[0].iops,
        "conditions later": condition_spans(record)[1].iops,
    }
    assert found == {name: pytest.approx(ASKED) for name in found}
    assert shares(record, Limited(rulers.read("p99<=1s"), (0,))) == {0: 1.0}
    told = typed(second(0))
    assert isinstance(told, Interval)
    assert f"{ASKED} IOPS" in figures(told)


def test_times_are_of_every_request_wherever_they_are_asked_for(tmp_path: Path) -> None:
    record = mixed(tmp_path, knob={"depth": 4})
    requests = sum(count for name, count in DONE.items() if is_request(name))
    mean_ns = (requests - DONE["flush"] + 9 * DONE["flush"]) / requests * MS
    found = {
        "tables of studies": measured(record, FIGURES["response_mean"])[0].value,
        "verdict": verdict(record, rulers.read("mean<=1s")).findings[0].value,
        "targets": target_rows(record)[-1].mean_ns,
        "steps": (step := steps(record)[0].response) and step.mean_ns,
    }
    assert found == {name: pytest.approx(mean_ns, rel=1e-6) for name in found}


def test_failures_are_those_of_every_request(tmp_path: Path) -> None:
    failed = {**cell([MS] * 5, operation="flush"), "errors": 3}
    with Store(tmp_path / "runs.db") as store:
        told = [interval(0, SECOND, cell([MS] * 50, operation="write"), failed), phase_end()]
        record = store.record(add_run(store, told))
    assert measured(record, FIGURES["errors"])[0].value == 3.0


def commits(*changes: str) -> Record:
    text = profiles.read("group-commit")
    asked = ["duration=2s", "flush_every={writes=1}", *changes]
    return simulate(profiles.validate(text, asked), Brick("nvme-tlc-3840"))


def test_a_model_that_flushes_each_write_has_one_rate_and_one_time() -> None:
    record = commits()
    rows = {row.operation: row for row in totals(record)}
    assert rows["flush"].requests == pytest.approx(rows["write"].requests, rel=0.01)
    assert steps(record) == []
    rate = phase_rates(record)[0].iops
    assert rate == pytest.approx(rows["write"].iops)
    assert measured(record, FIGURES["iops"])[0].value == pytest.approx(rate)
    told = verdict(record, rulers.read("p99<=5ms")).findings[0].value
    assert measured(record, FIGURES["response_p99"])[0].value == told


def test_whoever_commits_waits_for_a_write_and_its_flush() -> None:
    record = commits()
    rows = {row.operation: row for row in totals(record)}
    means = {name: row.response.mean_ns for name, row in rows.items() if row.response}
    assert rows["commit"].requests == rows["flush"].requests
    assert means["commit"] == pytest.approx(means["write"] + means["flush"], rel=0.005)
    told = verdict(record, rulers.read("mean<=1s")).findings[0].value
    assert measured(record, FIGURES["response_mean"])[0].value == told == means["commit"]
    assert curve_point(record, 1.0).mean_ns == pytest.approx(means["commit"])
    first = moments(record.info, record.intervals, list(enumerate(record.costs)))[0]
    assert first.response_max_ns >= means["commit"]
    limit = f"{round((means['commit'] + max(means['write'], means['flush'])) / 2)}ns"
    passed = {name: verdict(record, rulers.read(f"{name}mean<={limit}")).passed for name in ("", "commit.", "flush.")}
    assert passed == {"": False, "commit.": False, "flush.": True}
    shared = simulate(profiles.validate(profiles.read("group-commit"), ["duration=2s"]), Brick("nvme-tlc-3840"))
    assert {row.operation for row in totals(shared)} == {"write", "flush"}
    assert slowest_table([record]).note == unlisted_words([record]) != ""
    assert slowest_table([record]).columns[:2] == ["run", "operation"], "of one stream on one target"
    assert unlisted_words([shared]) == ""


def test_a_run_that_measured_no_commits_has_no_time_of_all_requests(tmp_path: Path) -> None:
    """Versions before: the mean of writes and flushes is no commit's."""
    log = stream(flush_every={"writes": 1, "call": "fdatasync"}, operations={"read": 0, "write": 100})
    cells = [cell([MS] * 50, operation="write"), cell([9 * MS] * 50, operation="flush")]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [interval(0, SECOND, *cells), phase_end()], plan_=plan(log)))
    assert measured(record, FIGURES["response_mean"]) == []
    assert measured(record, FIGURES["iops"])[0].value == pytest.approx(50)
    finding = verdict(record, rulers.read("mean<=1s")).findings[0]
    assert (finding.value, finding.passed) == (None, False)
    words = verdict_line(verdict(record, rulers.read("p99<=1s")))
    assert words == "Requirement p99<=1s: not met: nothing was measured for p99 <= 1s."


def test_flushes_are_a_rate_where_nothing_else_was_done(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        told = [interval(0, SECOND, cell([MS] * 50, operation="flush")), phase_end()]
        record = store.record(add_run(store, told))
    assert phase_rates(record)[0].iops == pytest.approx(50)
    assert measured(record, FIGURES["iops"])[0].value == pytest.approx(50)
    assert verdict(record, rulers.read("iops>=1")).passed


@pytest.mark.parametrize("counted", list(Counted))
def test_each_operation_is_of_one_kind(counted: Counted) -> None:
    """A new one is in the sums until somebody says otherwise, and never in a rate that it is no request of."""
    assert is_request(counted) or not is_on_data(counted)
    assert (counted in in_rate(Counted)) == (is_on_data(counted) and counted is not Counted.FLUSH)


CHAINED = [
    stream(name="log", chain=["read", "write", "write"], pace={"loop": "open", "rate": 100.0, "arrivals": "constant"})
]
FLUSHED = [
    stream(
        name="log",
        flush_every={"writes": 1, "call": "fdatasync"},
        pace={"loop": "open", "rate": 100.0, "arrivals": "constant"},
    )
]


@pytest.mark.parametrize(
    ("streams", "counts", "noun"),
    [
        (CHAINED, {"chain": 100, "read": 100, "write": 200}, "chains"),
        (FLUSHED, {"write": 100, "flush": 100}, "requests"),
    ],
)
def test_what_was_not_sent_is_a_share_of_what_was_due(
    tmp_path: Path, streams: list[Json], counts: dict[str, int], noun: str
) -> None:
    """In the units of the pace, with the warm-up, in every place."""
    cells = [cell([MS] * count, operation=name) for name, count in counts.items()]
    seconds = [interval(n * SECOND, (n + 1) * SECOND, *cells, index=n, warmup=n == 0) for n in range(2)]
    with Store(tmp_path / "runs.db") as store:
        number = add_run(store, [*seconds, phase_end(unsent=3)], plan_=plan(*streams))
        record = store.record(number)
        told = sent(record, 0)
        assert (told.sent, told.unsent, told.kept_up, told.noun) == (200, 3, False, noun)
        (warned,) = [item for item in circumstances.warnings(store, record, []) if item.id == "overloaded"]
        assert f"3 of 203 {noun} that were due (1.5%)" in warned.text
    assert curve_point(record, 100.0).overloaded
    assert not step(record, Limited(rulers.read("p99<=1s"), (0,)), 100.0).kept_up
    assert not point_of(record, MapAsked(4096, 4096), 1.0, 1.0).kept_up


def test_a_warm_up_is_in_what_was_sent_wherever_it_is_said(tmp_path: Path) -> None:
    text = profiles.read("kafka-log")
    changes = ["io=direct", "duration=4s", "warmup=4s"]
    record = simulate(profiles.validate(text, changes), Brick("barracuda-es-500"))
    told = sent(record, 0)
    unsent, due = (sum(getattr(one, name) for one in told.behind) for name in ("unsent", "due"))
    warned = f"{unsent} of {due} requests of partitions that were due"
    with Store(tmp_path / "runs.db") as store:
        found = [item.text for item in circumstances.warnings(store, record, [])]
    assert any(warned in text for text in found)
    partitions = sum(row.requests for row in totals(record, with_transient=True) if row.stream == 0)
    assert partitions < told.sent, "the warm-up counts too"
    info = replace(
        record.info, outcome="done", warnings=[RunWarning(id="overloaded", severity="warning", text=warned, remedy="")]
    )
    said = answer([replace(record, info=info)], {})
    assert f"Only {format_percent(1 - unsent / due)} of the requests of partitions" in " ".join(said.sentences)


@pytest.mark.parametrize("counted", list(Counted))
def test_the_rate_of_everything_that_is_counted_has_a_name(counted: Counted) -> None:
    unit = figure_of(FIGURES["iops"], counted).unit
    assert unit == RATES_BY_OPERATION[counted]
    replays = counted in (Counted.CALL, Counted.LOAD)
    assert (unit == "IOPS") == (is_on_data(counted) and counted is not Counted.FLUSH and not replays)


def test_a_write_profile_that_flushes_is_charted_by_its_writes() -> None:
    sizes = (4096, 8192)
    records = [commits(f"request={size}B") for size in sizes]
    cells = characterization([replace(r, info=replace(r.info, outcome="done")) for r in records])["sequential", "write"]
    assert [item.cell.request_bytes for item in cells] == list(sizes)
    for item, record in zip(cells, records, strict=True):
        (wrote,) = [row for row in totals(record) if row.operation == "write"]
        assert item.cell.row == wrote
        assert item.cell.row.bytes_per_s > 0


MIXED = "operations = { read = 50, write = 50 }"
RAMPED = """
[[phase]]
name = "climb"
duration = "60s"
ramp = { knob = "depth", from = 1, to = 8, step = 1, every = "1s", limit = LIMIT }

[[phase.stream]]
name = "a"
request = "4KiB"
address = "random"
STREAM
"""


def ramped(limit: str, stream: str) -> Record:
    text = RAMPED.replace("LIMIT", limit).replace("STREAM", stream)
    return simulate(profiles.validate(profiles.ProfileText("climb", text, ""), []), Brick("barracuda-es-500"))


@pytest.mark.parametrize(
    ("limit", "stream", "words", "is_drawn"),
    [
        ('{ when = "mean", above = "900ms" }', MIXED, "mean", True),
        ('{ when = "p99", above = "900ms" }', 'chain = ["read", "write"]', "p99", False),
        ('{ when = "p99", above = "900ms", operation = "read" }', MIXED, "read p99", False),
        ('{ when = "mean", above = "900ms", of = "service" }', MIXED, "service mean", False),
    ],
)
def test_a_step_shows_what_the_ramp_judged(limit: str, stream: str, words: str, is_drawn: bool) -> None:
    record = ramped(limit, stream)
    found = steps(record)
    told = record.of(RampStep)
    assert [step.judged for step in found] == [event.figure for event in told]
    column = ramp.COLUMNS.index("judged")
    assert [row[column] for row in ramp.step_rows(found)] == [f"{words} {format_ns(e.figure)}" for e in told]
    assert (ramp.limit_of(record, 0) is not None) == is_drawn
    if is_drawn:
        shown = [step.response.mean_ns for step in found if step.response]
        assert shown == [pytest.approx(event.figure, rel=0.01) for event in told]


def test_an_invalid_run_is_no_cell_and_has_no_headline() -> None:
    record = commits()
    good = replace(record.info, outcome="done")
    bad = replace(good, invalid="the condition did not last")
    assert characterization([replace(record, info=good)])
    assert characterization([replace(record, info=bad)]) == {}
    told = answer([replace(record, info=bad)], {})
    assert told.sentences == ()
    assert "invalid, so no figure of it is quoted here: the condition did not last." in told.belief
