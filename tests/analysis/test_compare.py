"""`compare` and its gate: which runs count, what a missing figure, failed requests and another load come to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from brickyard.analysis.figures.samples import difference, sample
from brickyard.analysis.judging import differing, groups
from brickyard.analysis.judging.comparison import compare as compared
from brickyard.cli import main
from brickyard.report.compare_charts import changes_picture, shifts_picture
from brickyard.store import Json, Record, Store
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

SIM = ["sim:msr-2003-maxtor", "--set", "duration=2s", "--set", "warmup=0s"]


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main([*words, "--json"]) == code
    found: Json = json.loads(capsys.readouterr().out)
    return found


def test_each_repetition_has_a_seed_of_its_own_and_the_first_has_the_profile_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "sqlio-random-read-4", *SIM, "--repeat", "3", "--set", "seed=20"]) == 0
    with Store() as store:
        runs = [store.record(run.id) for run in store.runs()]
    assert [run.info.seed for run in runs] == [20, 21, 22]
    assert [run.info.plan.seed for run in runs] == [20, 21, 22]
    totals = [sum(item.requests for item in run.intervals) for run in runs]
    assert len(set(totals)) > 1, "other addresses take other times"


def test_runs_of_one_seed_on_a_modelled_target_count_once(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("1", "1", "1", "2", "2", "2"):
        assert main(["run", "sqlio-random-read-4", *SIM, "--set", f"seed={seed}"]) == 0
    found = document(capsys, "compare", "1-3", "4-6")
    assert {(change["n_before"], change["n_after"]) for change in found["changes"]} == {(1, 1)}
    assert [(item["run"], item["by"]) for item in found["repeats"]] == [(1, [2, 3]), (4, [5, 6])]
    assert [item["label"] for item in found["differing"]] == ["Seed"]
    assert found["loads_differ"] == []
    assert main(["compare", "1-3", "4-6"]) == 0
    told = capsys.readouterr().out
    assert "runs 2-3 repeat run 1 (same seed, modelled target): counted once" in told
    assert main(["compare", "1-3", "4-6", "--check"]) == 2
    capsys.readouterr()
    assert main(["compare", "1", "2", "--check"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "not judged: both sides are one computation, so no figure can differ (" in told
    assert "measured once" not in told
    assert "none: both sides are the same computation (same seed, modelled target)" in told
    assert "none the same computation" in told
    assert "%" not in told, "no interval and no noise"
    assert "may be anywhere" not in told


def test_a_run_that_ends_during_its_warm_up_fails_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "random-4k-qd32", "sim:nvme-tlc-3840", "--set", "requests=2000"]
    assert main(words) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "it reached its limit of requests during the warm-up of 5 s" in told
    assert "`--set warmup=0s`" in told
    assert main([*words, "--set", "warmup=0s"]) == 0
    assert main(["runs"]) == 0
    assert "ended during its warm-up" in " ".join(capsys.readouterr().out.split())


def kept(runs: list[Json]) -> None:
    """One run for each cell, and an end of its phase."""
    with Store() as store:
        for found in runs:
            add_run(store, [interval(0, SECOND, found), phase_end()])


def test_a_figure_that_the_new_side_lacks_fails_the_gate_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    kept([cell([MS] * (count + k)) for count in (2000, 2000, 200) for k in (0, 1, 2)])
    assert main(["compare", "1-3", "7-9", "--check", "--figure", "response_mean", "--figure", "response_p99"]) == 1
    told = capsys.readouterr().out
    assert (
        "not measured: a-load, read, p99 of the response time: runs 7-9 (after) lack it; the earlier runs have it"
        in told
    )
    assert main(["compare", "7-9", "1-3", "--check", "--figure", "response_mean", "--figure", "response_p99"]) == 0
    told = capsys.readouterr().out
    assert "inconclusive: a-load, read, p99 of the response time: runs 7-9 (before) lack it" in told
    # A side of which only some runs have the figure says which do not.
    assert main(["compare", "1-3", "6-8", "--figure", "response_mean", "--figure", "response_p99"]) == 0
    told = capsys.readouterr().out
    assert (
        "inconclusive: a-load, read, p99 of the response time: runs 7-8 (after) lack it; runs without it may be" in told
    )
    assert "1 figure judged together" in told
    found = document(capsys, "compare", "1-3", "5-7", "--figure", "response_mean", "--figure", "response_p99")
    assert [change["verdict"] for change in found["changes"]] == ["held", "inconclusive"], "two of three have it"
    p99 = found["changes"][1]
    assert (p99["n_after"], p99["difference"]["low"], p99["difference"]["high"]) == (2, None, None)
    assert main(["compare", "1-3", "5-7", "--check", "--figure", "response_p99"]) == 2
    assert "no figure can be judged; a-load, read, p99 of the response time: run 7 (after)" in capsys.readouterr().err
    found = document(capsys, "compare", "1-3", "7-9", "--figure", "response_mean", "--figure", "response_p99")
    (lack,) = found["lacking"]
    assert (lack["figure"], lack["runs_before"], lack["runs_after"]) == ("response_p99", [], [7, 8, 9])


def test_a_figure_that_only_all_runs_together_have_is_inconclusive_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 950 requests each, no run has a p99, and all have one: "0 inconclusive", with a p99 that was 63 % worse, and
    "measured only once" of twelve runs."""
    kept([cell([MS] * (950 + k)) for k in (0, 1, 2, 0, 1, 2)])
    figures = ("--figure", "response_mean", "--figure", "response_p99")
    assert main(["compare", "1-3", "4-6", "--check", *figures]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "0 inconclusive; 1 more not judged and inconclusive, as not all runs have it" in told
    lack = "p99 of the response time: runs 1-3 (before) lack it, runs 4-6 (after) lack it; make longer runs"
    assert f"inconclusive: a-load, read, {lack}" in told
    assert "not known, as no run has the figure" in told
    found = document(capsys, "compare", "1-3", "4-6", *figures)
    assert [change["verdict"] for change in found["changes"]] == ["held", "inconclusive"]
    assert [(one["runs_before"], one["runs_after"]) for one in found["lacking"]] == [([1, 2, 3], [4, 5, 6])]
    assert main(["compare", "1-3", "4-6", "--check", "--figure", "response_p99"]) == 2
    err = capsys.readouterr().err
    assert "no figure can be judged" in err
    assert "make longer runs" in err
    assert "only once" not in err


def test_a_larger_share_of_failed_requests_fails_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    kept([cell([MS] * (1000 + k), errors=errors) for errors in (100, 104, 400) for k in (0, 1, 2)])
    assert main(["compare", "1-3", "4-6", "--check"]) == 0, "4 % more failed, which the tolerance lets pass"
    capsys.readouterr()
    assert main(["compare", "1-3", "7-9", "--check", "--tolerance", "30%"]) == 1
    told = capsys.readouterr().out
    assert "failed requests: a-load, read: 300 of 3,303 (9.08 %) → 1,200 of 4,203 (28.6 %)" in told


def test_another_load_is_not_judged_unless_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for depth in (8, 8, 2, 2):
            changed = plan(stream(depth=depth))
            add_run(store, [interval(0, SECOND, cell([MS] * 2000)), phase_end()], plan_=changed)
    capsys.readouterr()
    assert main(["compare", "1-2", "3-4", "--check"]) == 2
    assert "the load differs: a-load: queue depth: 8 → 2" in capsys.readouterr().err
    assert main(["compare", "1-2", "3-4"]) == 0
    assert "the load differs: a-load: queue depth: 8 → 2" in capsys.readouterr().out
    assert main(["compare", "1-2", "3-4", "--check", "--across-loads"]) == 0


SPLIT = [{"size": 4096, "share": 50.0}, {"size": 131072, "share": 50.0}]


@pytest.mark.parametrize(
    ("asked", "requests", "sizes", "is_apart"),
    [
        (SPLIT, 40_000, (36_000, 67_000), True),
        (SPLIT, 40_000, (67_000, 68_000), False),
        (SPLIT, 100, (60_000, 75_000), False),
        ([{"size": 8192, "share": 100.0}], 100, (8192, 7000), True),
    ],
    ids=["shortened", "within two per cent", "so few differ by chance", "of one size"],
)
def test_requests_of_other_sizes_are_another_load(
    asked: list[Json], requests: int, sizes: tuple[int, int], is_apart: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One plan, two runs a side; the flushes beside the reads have no bytes."""
    with Store() as store:
        for size in (sizes[0], sizes[0], sizes[1], sizes[1]):
            reads = cell([MS] * requests, request_bytes=size)
            flushes = cell([MS] * 50, request_bytes=0, operation="flush")
            add_run(store, [interval(0, SECOND, reads, flushes), phase_end()], plan_=plan(stream(request=asked)))
    found = document(capsys, "compare", "1-2", "3-4")
    assert [one["load"] for one in found["sizes_differ"]] == [["a-load", "read"]] * is_apart
    assert len(found["loads_differ"]) == is_apart
    assert main(["compare", "1-2", "3-4", "--check"]) == (2 if is_apart else 0)


def test_sizes_that_a_trace_decides_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """How far a trace came in its time decides of which of its requests the mean is."""
    trace = {"file": "t.byt", "reads": 9, "writes": 0, "flushes": 0, "discards": 0, "largest": 8192, "reach": 8192}
    with Store() as store:
        for size in (4096, 8192):
            done = [interval(0, SECOND, cell([MS] * 2000, request_bytes=size)), phase_end()]
            add_run(store, done, plan_=plan(stream(request=[], trace=trace)))
    assert document(capsys, "compare", "1", "2")["loads_differ"] == []


def test_several_loads_of_one_name_are_never_pooled(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for depth, took in ((8, 1), (8, 1), (2, 4), (2, 4), (8, 1), (8, 1), (2, 4), (2, 4)):
            done = [interval(0, SECOND, cell([took * MS] * (2000 // took))), phase_end()]
            add_run(store, done, plan_=plan(stream(depth=depth)))
    found = document(capsys, "compare", "1-2", "3-6")
    told = {(", ".join(change["load"]), change["figure"]): change["after"] for change in found["changes"]}
    assert told["a-load, queue depth 8, read", "iops"] == pytest.approx(2000)  # not the mean of 2,000 and 500
    assert found["only_after"] == [["a-load", "queue depth 2", "read"]]
    assert found["loads_differ"] == [
        "a-load is the name of several workloads: queue depth 8 (runs 1-2, 5-6); queue depth 2 (runs 3-4)"
    ]
    assert main(["baseline", "save", "mixed", "1-4"]) == 0
    assert main(["compare", "5-6", "--baseline", "mixed", "--check"]) == 2
    assert "a-load is the name of several workloads" in capsys.readouterr().err
    assert main(["compare", "1-4", "5-8", "--check"]) == 0  # the same loads on both sides, each with its own
    assert main(["compare", "5", "3-4"]) == 0
    assert "the load differs: a-load: queue depth: 8 → 2" in capsys.readouterr().out
    assert main(["compare", "5-6", "3-4"]) == 0
    out = capsys.readouterr().out
    assert 0 < out.index("The loads differ, so what follows compares loads") < out.index("worse: ")


def test_runs_are_named_by_lists_and_ranges_as_they_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    kept([cell([MS] * 2000)] * 5)
    capsys.readouterr()
    assert main(["compare", "1", "2-400"]) == 0
    assert "is 5" in capsys.readouterr().err
    assert main(["compare", "1-2,5", "3, 4"]) == 0
    assert "before: runs 1-2, 5; after: runs 3-4" in capsys.readouterr().out
    assert main(["baseline", "save", "good", "1,3-4"]) == 0
    assert "baseline good: runs 1, 3-4" in capsys.readouterr().out
    for words, said in (
        ("1,", "nothing stands before or after a comma"),
        ("1,x", "x: not a run"),
        ("1,9", "run 9: not"),
    ):
        assert main(["report", words]) == 2
        assert said in capsys.readouterr().err


def test_one_new_run_against_a_baseline_gets_no_verdict_however_far_off_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept([cell([MS] * (2000 + k)) for k in range(3)] + [cell([MS] * 1000)])
    assert main(["baseline", "save", "good", "1-3"]) == 0
    assert "within one hour" in capsys.readouterr().out
    assert main(["compare", "4", "--baseline", "good"]) == 0
    assert "assume that it is as noisy as the others" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", "4", "--baseline", "good", "--check"]) == 2
    told = capsys.readouterr()
    assert "worse:" not in told.out
    assert re.search(r"(?m)^measured once, not judged: all \d+ figures$", told.out), "the table has them"
    assert "measured only once after, so the noise between runs is unknown there" in told.err
    assert "--repeat 3" in told.err
    assert "--ruler NAME --check" in told.err
    found = document(capsys, "compare", "4", "--baseline", "good", "--check", code=2)
    assert (found["passed"], found["worse"]) == (None, [])
    assert {change["verdict"] for change in found["changes"]} == {"measured once"}
    assert "measured only once after" in found["not_judged"]
    assert any("it is as noisy as the others" in note for note in found["notes"])
    assert any("within one hour" in note for note in found["notes"])


def test_the_absolute_ruler_judges_a_single_run(tmp_path: Path) -> None:
    """What a CI job with one run has instead of a comparison."""
    for rate, code in (("1", 0), ("1,000,000", 1)):
        ruler = tmp_path / "mine.toml"
        ruler.write_text(f'title = "Mine"\n[[require]]\nname = "rate"\nfigure = "iops"\nat_least = "{rate}"\n')
        assert main(["run", "sqlio-random-read-4", *SIM, "--ruler", str(ruler), "--check"]) == code


def test_no_interval_reaches_below_nothing_left() -> None:
    before, after = sample([90.0, 100.0, 110.0]), sample([100.0, 0.0, 0.0])
    assert before is not None
    assert after is not None
    found = difference(after, before)
    assert found is not None
    assert found.low == -1.0


def test_a_side_is_not_compared_with_itself_and_what_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        for outcome in ("interrupted", "done", "done", "done"):
            add_run(store, [interval(0, SECOND, cell([MS] * 2000)), phase_end()], outcome=outcome)
    assert main(["compare", "2", "1-2"]) == 2
    told = capsys.readouterr().err
    assert "AFTER: left out, as it did not end validly: run 1" in told
    assert "both sides are run 2" in told
    found = document(capsys, "compare", "4", "1-3")
    assert found["left_out"] == {"BEFORE": [], "AFTER": [1]}
    assert "AFTER: left out, as it did not end validly: run 1" in found["notes"]


def test_what_was_set_of_a_model_is_a_circumstance(capsys: pytest.CaptureFixture[str]) -> None:
    for spares in ("0", "1"):
        assert main(["run", "sqlio-random-read-4", *SIM, "--set", f"spares={spares}"]) == 0
    found = document(capsys, "compare", "1", "2")
    assert ["spares=0", [1]] in next(item["values"] for item in found["differing"] if item["label"] == "Model, set")


def test_runs_without_a_figure_are_named_with_their_side(capsys: pytest.CaptureFixture[str]) -> None:
    kept([cell([MS] * count) for count in (2000, 2001, 200, 2002, 2003, 201)])
    assert main(["baseline", "save", "good", "1-3"]) == 0
    assert main(["compare", "--baseline", "good", "4-6", "--figure", "response_p99"]) == 0
    told = capsys.readouterr().out
    assert "p99 of the response time: run 3 (before) lacks it, run 6 (after) lacks it" in told
    assert main(["compare", "3", "6", "--figure", "response_p99"]) == 2
    assert "the sides do not both have response_p99; a percentile needs" in capsys.readouterr().err
    assert main(["compare", "3", "6", "-o", "cmp.html"]) == 2
    assert "cmp.html: pictures are written into a folder; name one, such as cmp" in capsys.readouterr().err


def test_an_interval_that_the_picture_cuts_is_marked(tmp_path: Path) -> None:
    kept([cell([MS] * count) for count in (1000, 1010, 1000, 10_000)])
    for sides, cut in ((("1-2", "3-4"), True), (("1-2", "2-3"), False)):
        found = compared(*([record(run) for run in range(int(a[0]), int(a[-1]) + 1)] for a in sides))
        picture = changes_picture(found)
        assert picture is not None
        assert ("reach further than is shown" in picture.svg) is cut
        assert ("cut" in picture.alt_text) is cut


def record(run: int) -> Record:
    with Store() as store:
        return store.record(run)


def test_a_condition_that_only_one_side_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line that says so is missing on the other side, and a rebuild is no fault of the storage."""
    store = ("--store", str(tmp_path / "runs.db"))
    load = ("run", "sqlio-random-read-4", "sim:terraserver-2003", "--set", "duration=2s", *store)
    assert main([*load]) == 0
    assert main([*load, "--condition", "rebuilding"]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", *store]) == 0
    told = capsys.readouterr().out
    assert "differed: Condition: normal (run 1); rebuilding (run 2)" in told
    assert "nothing differed" not in told


def test_pictures_name_each_figure_and_what_each_side_was(tmp_path: Path) -> None:
    with Store() as store:
        for condition in ("normal", "normal", "rebuilding", "rebuilding"):
            for depth, title in ((4, "SQLIO: random reads, 8 KiB, 4 deep, " * 6 + "the first"), (8, "another")):
                load = plan(stream(depth=depth)) | {"title": title}
                took = [interval(0, SECOND, cell([MS] * 2000)), phase_end()]
                add_run(store, took, plan_=load, profile=title, condition=condition)
        runs = [store.record(info.id) for info in store.runs()]
    before, after = runs[:4], runs[4:]
    sides = groups.side_names(before, after)
    assert sides == ("before (normal)", "after (rebuilding)")
    several = changes_picture(compared(before, after), "", sides)
    assert several is not None
    labels = re.findall(r"<tspan[^>]*>([^<]*)</tspan>|<text[^>]*>([^<]+)</text>", several.svg)
    words = [one or other for one, other in labels]
    for figure in ("IOPS", "mean response time", "p99 of the response time"):
        assert words.count(figure) == 2
    assert "difference, after (rebuilding) against before (normal)" in words
    shifted = shifts_picture(compared(before, after), "", sides)
    assert shifted is not None
    assert {"before (normal)", "after (rebuilding)"} <= set(re.findall(r">([^<>]+)</text>", shifted.svg))


def test_what_can_change_the_figures_comes_first_and_the_rest_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    seen = {"id": "cpu_waited", "severity": "warning", "text": "It waited.", "remedy": ""}
    unknown = {"id": "unverified", "severity": "warning", "text": "Nothing was checked.", "remedy": ""}
    with Store() as store:
        for number, warnings in enumerate(([], [unknown, seen]), 1):
            events = [interval(0, SECOND, cell([MS] * 200)), phase_end()]
            add_run(store, events, warnings=warnings, targets=[f"/data/scratch-{number}-1.brick"])
    assert main(["compare", "1", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("differed")]
    assert "It waited." in told[0]
    assert "(more than the storage is in these figures)" in told[0]
    assert told[1:] == ["differed, with no known effect on figures: Target, Warning; --circumstances lists them"]
    assert main(["compare", "1", "2", "--circumstances"]) == 0
    every = [line for line in capsys.readouterr().out.splitlines() if line.startswith("differed")]
    assert len(every) == 3
    assert "It waited." in every[0]
    assert any("Nothing was checked." in line for line in every)


def test_times_of_plans_are_said_as_a_user_writes_them() -> None:
    said = [differing._value("duration", f"{ns}ns") for ns in (1_522 * 10**9, 1_500, 20 * 10**9, 1_234_567, 0)]
    assert said == ["1522s", "1.50us", "20.0s", "1234567ns", "0ns"]


def served(values_ns: list[int], **changes: Any) -> Json:
    """As fio measures, which knows no due instant."""
    found = cell(values_ns, **changes)
    return {**found, "measures": {"service": found["measures"]["service"]}}


@pytest.mark.parametrize(("before", "measure", "words"), [(1, "latency", "latency"), (3, "service", "service time")])
def test_latencies_are_shown_under_the_measure_that_they_are(
    before: int, measure: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of runs of which one has no response times, and of runs that both have none."""
    with Store() as store:
        for made in (cell([MS] * 2000), served([2 * MS] * 2000), served([MS] * 2000)):
            add_run(store, [interval(0, SECOND, made), phase_end()])
    capsys.readouterr()
    assert main(["compare", str(before), "2"]) == 0
    told = capsys.readouterr().out.partition("note: latency:")[0]
    assert f"mean {words} " in told
    assert "response time" not in told
    found = compared([record(before)], [record(2)])
    assert [shift.document()["measure"] for shift in found.shifts] == [measure]
    picture = shifts_picture(found)
    assert picture is not None
    assert "response" not in picture.svg + picture.alt_text
    assert words in picture.svg
    assert words in picture.alt_text


def test_loads_that_are_paired_by_what_they_ask_keep_the_names_of_their_streams(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Store() as store:
        for profile, log in (("shop", "log"), ("fio-shop", "log"), ("other", "journal")):
            asked = plan(stream(name="db"), stream(name=log))
            done = [cell([MS] * 2000), cell([MS] * 1000, stream=1)]
            add_run(store, [interval(0, SECOND, *done), phase_end()], plan_=asked, profile=profile)
    found = document(capsys, "compare", "1", "2")
    assert {tuple(change["load"]) for change in found["changes"]} == {("db", "read"), ("log", "read")}
    found = document(capsys, "compare", "1", "3")
    assert {tuple(change["load"]) for change in found["changes"]} == {("db", "read"), ("log / journal", "read")}


def test_the_panels_of_a_picture_bear_whole_names() -> None:
    with Store() as store:
        names = ("a stream of the database with a long name", "a stream of the database with a long name that goes on")
        asked = plan(*(stream(name=name) for name in names))
        for _ in range(2):
            done = [cell([MS] * 2000), cell([MS] * 1000, stream=1)]
            add_run(store, [interval(0, SECOND, *done), phase_end()], plan_=asked)
    picture = shifts_picture(compared([record(1)], [record(2)]))
    assert picture is not None
    assert "…" not in picture.svg
    assert "goes on, read" in picture.svg


def ramp_run(first: int, last: int, seed: int) -> None:
    turn = f'ramp={{ knob = "rate", from = {first}, to = {last}, step = 20, every = "2s" }}'
    pace = 'pace={ loop = "open", rate = 20, arrivals = "poisson" }'
    changes = [word for change in (turn, pace, f"seed={seed}") for word in ("--set", change)]
    assert main(["run", "sqlio-random-read-4", SIM[0], *changes]) == 0


def test_a_ramp_is_compared_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    """The mean over all steps is that of no load: rates of 20 and 60 are not one of 40."""
    ramp_run(20, 60, 1)
    ramp_run(20, 60, 2)
    ramp_run(30, 70, 3)
    capsys.readouterr()
    found = document(capsys, "compare", "1", "2")
    rates = {tuple(c["load"][-2:]): c["before"] for c in found["changes"] if c["figure"] == "iops"}
    assert list(rates) == [("rate 20", "read"), ("rate 40", "read"), ("rate 60", "read")]
    for number, rate in zip((20, 40, 60), rates.values(), strict=True):
        assert 0.6 * number < rate < 1.4 * number
    assert main(["compare", "1", "3"]) == 2
    refused = " ".join(capsys.readouterr().err.split())
    assert "only before: sqlio-random-read-4, rate 20, read / " in refused
    assert "only after: sqlio-random-read-4, rate 30, read / " in refused


def on(*targets: str, rates: tuple[int, ...] = (2000, 2010), levels: bool = False) -> None:
    """Runs of one load, as many as there are rates on each target; with levels, they are cells of a study."""
    with Store() as store:
        study = store.add_study("drives", {}) if levels else None
        for target in targets:
            for rate in rates:
                count = rate // (1 + ord(target[-1]) % 4)
                labels: Json = {"levels": {"drive": target}} if levels else {}
                events = [interval(0, SECOND, cell([MS] * count)), phase_end()]
                add_run(store, events, targets=[target], study=study, labels=labels)


def test_runs_on_other_storage_are_rows_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    on("/dev/a", "/dev/b", "/dev/a", "/dev/b")
    found = document(capsys, "compare", "1-4", "5-8")
    told = {tuple(c["load"]): (c["before"], c["n_before"]) for c in found["changes"] if c["figure"] == "iops"}
    assert told == {
        ("a-load", "/dev/a", "read"): (pytest.approx(1002, rel=0.01), 2),
        ("a-load", "/dev/b", "read"): (pytest.approx(668, rel=0.01), 2),
    }
    assert found["unlike"] == {"before": [], "after": []}
    found = document(capsys, "compare", "1-2", "5-8")
    assert {tuple(change["load"]) for change in found["changes"]} == {("a-load", "/dev/a", "read")}
    assert (found["after"], found["unlike"]["after"]) == ([5, 6], [7, 8])
    assert "AFTER: left out, as BEFORE has no run on their storage in their condition: runs 7-8" in found["notes"]
    assert [item["label"] for item in found["differing"]] == [], "what was left out is no circumstance"
    # A gate is not passed by what is no longer measured.
    assert main(["compare", "1-4", "5-6", "--check"]) == 1
    assert "not measured: left out, as AFTER has no run on their storage in their condition: runs 3-4" in (
        capsys.readouterr().out
    )
    # Two devices may be compared.
    found = document(capsys, "compare", "1-2", "7-8")
    assert {tuple(change["load"]) for change in found["changes"]} == {("a-load", "read")}


def test_a_study_over_drives_is_not_pooled_against_a_plain_run(capsys: pytest.CaptureFixture[str]) -> None:
    on("/dev/a")
    on("/dev/a", "/dev/b", "/dev/c", levels=True)
    on("/dev/d")
    found = document(capsys, "compare", "1-2", "3-8")
    assert {(change["n_before"], change["n_after"]) for change in found["changes"]} == {(2, 2)}
    assert found["unlike"]["after"] == [5, 6, 7, 8]
    capsys.readouterr()
    assert main(["compare", "3-8", "9-10"]) == 2
    (refused,) = capsys.readouterr().err.splitlines()
    assert (
        "BEFORE is /dev/a (runs 3-4); /dev/b (runs 5-6); /dev/c (runs 7-8) and AFTER is /dev/d (runs 9-10)" in refused
    )
    assert "name the runs of one on each side, such as 3-4 and 9-10" in refused


def test_conditions_are_not_pooled_and_scratch_files_of_one_place_are_one_storage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Store() as store:
        study = store.add_study("conditions", {})
        for number, condition in enumerate(
            ("normal", "normal", "rebuilding", "rebuilding", "rebuilding", "rebuilding")
        ):
            of_study: Json = {"study": study, "labels": {"levels": {"state": condition}}} if number < 4 else {}
            events = [interval(0, SECOND, cell([MS] * (2000 + number))), phase_end()]
            scratch = [f"/data/scratch-{number}-1.brick"]
            add_run(store, events, targets=scratch, condition=condition, **of_study)
    found = document(capsys, "compare", "1-4", "5-6")
    told = {(tuple(change["load"]), change["n_before"], change["n_after"]) for change in found["changes"]}
    assert told == {(("A load", "rebuilding", "read"), 2, 2)}
    assert found["unlike"] == {"before": [1, 2], "after": []}
