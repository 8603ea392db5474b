"""Conditions, targets and streams of one run are judged and compared each by itself, so that none hides another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from brickyard import profiles, rulers
from brickyard.advise.simulate import Brick, simulate
from brickyard.analysis.figures.observe import observations
from brickyard.analysis.figures.pivot import TableSpec
from brickyard.analysis.figures.ramp_result import closing_rates
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.comparison import compare
from brickyard.analysis.judging.differing import loads_apart
from brickyard.analysis.judging.history import histories
from brickyard.analysis.judging.repetitions import repeated
from brickyard.analysis.judging.run_figures import run_figures
from brickyard.analysis.judging.verdict import Verdict, verdict, verdict_document
from brickyard.analysis.judging.verdict_words import verdict_line, verdict_rows
from brickyard.errors import BadInputError
from brickyard.schema.plan import Plan
from brickyard.store import Json, Record, Store
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

RAID5 = ["level=raid5", "controllers=1", "members=4", "spares=1"]
FAST, SLOW = [90_000] * 5000, [25 * MS] * 30


def loop(seconds: int, warmup: int, seed: int, depth: int = 4) -> Plan:
    head = f"title = 't'\nseed = {seed}\n[[phase]]\nduration = '{seconds}s'\nwarmup = '{warmup}s'\n"
    text = f"{head}[[phase.stream]]\nrequest = '8KiB'\naddress = 'random'\ndepth = {depth}\n"
    return profiles.validate(profiles.ProfileText("t", text, ""), [])


def failing(*changes: str, warmup: int = 0, seed: int = 1) -> Record:
    return simulate(loop(40, warmup, seed), Brick("terraserver-2003"), overrides=[*RAID5, *changes])


def of_four(condition: str, number: int, seed: int = 1) -> Record:
    return again(simulate(loop(40, 0, seed), Brick("terraserver-2003"), condition, RAID5), number)


def test_a_load_without_what_others_have_is_called_so(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        plans = [plan(stream()), plan(stream(), requests=5)]
        records = [store.record(add_run(store, [interval(0, SECOND, cell(FAST))], plan_=asked)) for asked in plans]
    assert loads_apart(records) == ["without requests", "requests 5"]


def again(record: Record, number: int) -> Record:
    """As a run of a store with others."""
    return replace(record, info=replace(record.info, id=number, profile="load", outcome="done"))


def judged(record: Record, word: str) -> Verdict:
    return verdict(record, rulers.read(word))


def document(found: Verdict) -> Json:
    findings = verdict_document(found)["findings"]
    assert isinstance(findings, list)
    (finding,) = findings
    return cast("Json", finding)


def test_each_condition_of_a_run_has_to_keep_a_requirement() -> None:
    record = failing("fail_at=10s")
    iops = judged(record, "iops>=100")
    assert verdict_line(iops).startswith("Requirement iops>=100: not met, rebuilding: 6"), "normal, it does 190"
    assert verdict_rows(iops)[0][2].startswith("rebuilding: 6")
    finding = document(iops)
    assert (finding["decided_by_condition"], finding["passed"]) == ("rebuilding", False)
    assert verdict_line(judged(record, "iops>=60")).startswith("Requirement iops>=60: met, rebuilding: 6")


@pytest.mark.parametrize(
    ("condition", "word", "figure"), [("rebuilding", "fail", 68.6), ("normal", "pass", 191), ("degraded", "fail", None)]
)
def test_a_requirement_for_a_condition_is_judged_by_that_part_of_a_run(
    condition: str, word: str, figure: float | None
) -> None:
    text = f"[[require]]\nfigure = 'iops'\nat_least = 150\ncondition = '{condition}'\n"
    found = verdict(failing("fail_at=10s"), rulers.parse("own", text))
    if figure is None:
        assert (found.word, found.decided.reason) == (
            "not measured",
            "this run was normal and rebuilding, not degraded",
        )
    else:
        assert found.word == word
        assert found.decided.value == pytest.approx(figure, rel=0.05)


def test_a_run_that_was_in_another_condition_throughout_says_so() -> None:
    record = failing("level=raid0", "spares=0", "fail_at=1s", warmup=2)
    assert [rate.of for rate in closing_rates(record)] == ["failed throughout"]
    assert "failed throughout: read" in answer([record], {}).sentences[0]
    assert verdict_line(judged(record, "iops>=1")).startswith("Requirement iops>=1: not met, failed: ")


def two_streams(tmp_path: Path, *, targets: int = 1) -> Record:
    load = plan(stream(name="light"), stream(name="heavy", target=targets - 1))
    with Store(tmp_path / "runs.db") as store:
        cells: list[Json] = [cell(FAST), cell(SLOW, stream=1)]
        event = [interval(0, SECOND, *cells), phase_end(reason="requests")]
        return store.record(add_run(store, event, plan_=load, targets=["/fast", "/slow"][:targets]))


def test_times_are_kept_on_each_target_and_rates_add_up(tmp_path: Path) -> None:
    record = two_streams(tmp_path, targets=2)
    p99 = judged(record, "p50<=1ms")
    assert verdict_line(p99).startswith("Requirement p50<=1ms: not met, /slow: p50 2")
    assert document(p99)["decided_by_target"] == "/slow"
    assert verdict_line(judged(record, "iops>=5000")).endswith("met, 5,030 IOPS of both targets together.")


def test_a_stream_that_would_not_meet_by_itself_what_all_requests_do_is_named(tmp_path: Path) -> None:
    record = two_streams(tmp_path)
    met = judged(record, "p50<=1ms")
    said = verdict_line(met)
    assert said.startswith("Requirement p50<=1ms: met over all requests together, p50 9")
    assert "; stream heavy alone has p50 2" in said
    assert document(met)["alone"]["stream"] == "heavy"
    assert verdict_rows(met)[0][4].startswith("pass over all requests together; stream heavy alone has p50 2")
    assert "alone" not in verdict_line(judged(record, "p50<=30ms"))


def test_an_operation_that_would_not_meet_by_itself_what_both_do_is_named(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        cells: list[Json] = [cell(FAST), cell(SLOW, operation="write")]
        record = store.record(add_run(store, [interval(0, SECOND, *cells), phase_end()], plan_=plan(stream())))
    met = judged(record, "p50<=1ms")
    assert "met over all requests together, p50 9" in verdict_line(met)
    assert "; its writes alone have p50 2" in verdict_line(met)
    assert document(met)["alone"]["operation"] == "write"
    assert judged(record, "write.p50<=1ms").word == "fail"


def test_an_operation_of_a_stream_that_would_not_meet_by_itself_is_named(tmp_path: Path) -> None:
    """Neither the stream nor all writes would break the limit, but a row of the table does."""
    load = plan(stream(name="db"), stream(name="log"))
    some: list[Json] = [cell(FAST), cell(SLOW, operation="write"), cell(FAST * 3, stream=1, operation="write")]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [interval(0, SECOND, *some), phase_end()], plan_=load))
    met = judged(record, "p50<=1ms")
    assert "; the writes of stream db alone have p50 2" in verdict_line(met)
    assert document(met)["alone"] == {"stream": "db", "operation": "write", "value": pytest.approx(25 * MS, rel=0.05)}


def test_each_condition_is_compared_averaged_and_listed_by_itself() -> None:
    early, late = ([again(failing(f"fail_at={at}s", seed=seed), seed + at) for seed in (1, 2)] for at in (10, 30))
    found = compare(early, late)
    names = [change.name for change in found.changes if change.figure.name == "iops"]
    assert [name[-2:] for name in names] == [("normal", "read"), ("rebuilding", "read")]
    rates = {change.name[-2]: change.difference for change in found.changes if change.figure.name == "iops"}
    assert all(abs(rate.share) < 0.1 for rate in rates.values()), "as one, rebuilding for a shorter time is faster"
    together = {one.name[-2]: one.sample.centre for one in repeated(early) if one.sample and one.figure.name == "iops"}
    assert together == {"normal": pytest.approx(191, rel=0.05), "rebuilding": pytest.approx(68.6, rel=0.05)}
    table = TableSpec("t", "IOPS", "iops", ("repetition",), (), {}, (), {}, None, {}, "mean", None)
    assert observations(early, table).troubles == ["mean over the conditions normal and rebuilding"]
    whole = again(failing(seed=7), 7)
    assert {change.name[-2] for change in compare(early, [whole]).changes} == {"normal"}
    listed = {part.condition: part.values["iops"] for part in run_figures(early[0]).parts}
    assert listed == {"normal": pytest.approx(191, rel=0.05), "rebuilding": pytest.approx(68.6, rel=0.05)}
    heads = [(record.info, run_figures(record)) for record in early]
    shown = histories(heads, "iops", lambda run: next(record for record in early if record.info.id == run))
    assert [one.name[-2:] for one in shown] == [("normal", "read"), ("rebuilding", "read")]


def test_several_storages_of_a_side_are_never_compared_with_another_one() -> None:
    """Decided over all of a side: in a condition of its own each has only one."""
    parts = again(failing("fail_at=10s"), 2)
    rebuilding = of_four("rebuilding", 3)
    with pytest.raises(BadInputError, match=r"BEFORE is .*\(run 1\); .*fail_at=10s \(run 2\) and AFTER is .*\(run 3\)"):
        compare([of_four("normal", 1), parts], [rebuilding])
    assert {one.name[-2] for one in compare([parts], [rebuilding]).changes} == {"rebuilding"}, "one storage each"
    found = compare([of_four("normal", 1), parts], [of_four("normal", 4, seed=2), rebuilding])
    assert {one.name[1:] for one in found.changes} == {("normal", ", ".join(RAID5), "read")}
    assert found.unlike == ([2], [3])
    found = compare([of_four("normal", 1), parts], [again(failing("fail_at=10s", seed=2), 5)])
    assert ({one.name[1] for one in found.changes}, found.unlike) == ({"normal", "rebuilding"}, ([1], []))


def test_repetitions_name_what_was_set_of_a_model_if_it_is_not_the_same_in_all() -> None:
    """Also if each load was on one model alone."""
    brick = Brick("terraserver-2003")
    runs = [again(simulate(loop(2, 0, seed), brick), seed) for seed in (1, 2)]
    runs += [again(simulate(loop(2, 0, seed, 8), brick, overrides=["members=8"]), 2 + seed) for seed in (1, 2)]
    assert {one.name[1:] for one in repeated(runs)} == {
        ("queue depth 4", "sim:terraserver-2003", "read"),
        ("queue depth 8", "members=8", "read"),
    }
    assert {one.name for one in repeated(runs[:2])} == {("load", "read")}
