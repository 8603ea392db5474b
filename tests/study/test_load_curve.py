"""Knee and limit on curves made by hand, plans of the runs, and one small real curve."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard import profiles
from brickyard.analysis.figures.latency import FEW_EVENTS_WORDS
from brickyard.analysis.figures.load_curve import (
    WITHIN,
    Bend,
    CurvePoint,
    Knee,
    Limit,
    capacity,
    curve_point,
    knee,
    step_of,
    stream_rates,
    usable,
)
from brickyard.analysis.figures.search import Carried, Step, carried, enough, highest, rates, searched
from brickyard.analysis.studies.curve_limit import is_known, limit_line, not_known
from brickyard.analysis.studies.curve_words import (
    curve_circumstances,
    curve_columns,
    curve_marks,
    curve_notes,
    curve_row,
    found_lines,
    knee_words,
)
from brickyard.analysis.studies.curves import Curve, curve_of
from brickyard.cli import main
from brickyard.cli.measuring.load_curve import _forecast, load_curve, parse_levels, parse_limit
from brickyard.errors import BadInputError
from brickyard.report.load_curve import load_curve as picture_of
from brickyard.schema import Duration
from brickyard.schema.plan import Arrivals, ClosedPace, OpenPace, Plan
from brickyard.store import Json, Record, Store
from brickyard.store.record import RunMarks
from brickyard.study.running.caches import into_caches
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.shipped.load_curve import LoadCurve, closed_plan, one_phase, open_plan, step_ns
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream


def point(offered: float, mean_ns: float | None, **changes: Any) -> CurvePoint:
    base = CurvePoint(
        run=1,
        offered_per_s=offered,
        achieved_per_s=offered,
        requests=int(offered * 10) or 1,
        unsent=0,
        errors=0,
        mean_ns=mean_ns,
        max_ns=int((mean_ns or 0) * 8),
        percentiles={"p50": int((mean_ns or 0) * 0.7), "p99": int((mean_ns or 0) * 4.6)},
    )
    return replace(base, **changes)


def queue(
    service_per_s: float = 1000.0, shares: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90)
) -> list[CurvePoint]:
    """An M/M/1 queue: the mean response time is 1 / (service rate - arrival rate)."""
    return [
        point(service_per_s * share / 100, SECOND / (service_per_s - service_per_s * share / 100)) for share in shares
    ]


@pytest.mark.parametrize("figure", ["p90", "p95", "p99", "max"])
def test_a_table_has_the_percentile_that_its_limit_is_of(figure: str) -> None:
    limit = Limit(figure, 20 * MS)
    times = {name: (number + 1) * MS for number, name in enumerate(("p50", "p90", "p95", "p99", "p99.9"))}
    row = curve_row(point(1000, MS, percentiles=times, max_ns=9 * MS), 1000.0, limit)
    shown = dict(zip((name for name, _ in curve_columns(limit)), row, strict=True))
    wanted = {"p90": "2.00 ms", "p95": "3.00 ms", "p99": "4.00 ms", "max": "9.00 ms"}
    assert (shown[figure], shown["p50"], shown["p99"]) == (wanted[figure], "1.00 ms", "4.00 ms")


@pytest.mark.parametrize("written", ["p95<=20ms", "p95 <= 20ms", "p95:20ms"])
def test_a_limit_may_be_written_as_requirements_are(written: str) -> None:
    assert parse_limit(written) == Limit("p95", 20 * MS)


def test_the_knee_of_a_single_queue_is_at_half_its_capacity() -> None:
    # Power is a (c - a), greatest at a = c / 2: Kleinrock's own example.
    found = knee(queue())
    assert found.point is not None
    assert found.point.offered_per_s == 500
    assert found.bend is Bend.SEEN
    # Power at 400 and 600 is 96 % of that at 500, at 300 and 700 84 %: noise could have chosen any of the three.
    assert [near.offered_per_s for near in found.near] == [400, 500, 600]
    assert knee_words(found).endswith("; at the levels from 400 to 600/s, this power is at most 10 % smaller")


def test_a_knee_behind_a_slower_lower_rate_is_doubted() -> None:
    levels = [point(100.0, MS), point(200.0, 1.3 * MS), point(300.0, MS), point(400.0, 90 * MS, achieved_per_s=310.0)]
    found = knee(levels)
    assert found.point == levels[2]
    said = knee_words(found)
    assert "But the mean response time was 1.30 ms at 200/s and only 1.00 ms at 300/s" in said
    steady = [*levels[:1], point(200.0, 1.05 * MS), *levels[2:]]
    assert "But" not in knee_words(knee(steady))


def test_a_level_that_is_slower_than_a_higher_rate_is_named_wherever_the_knee_is() -> None:
    """11.1 ms at 36,017/s and 2.08 ms at 45,021/s stood beside each other, above the knee, in silence."""
    odd = "But the mean response time was 70.0 ms at {}/s and only 20.0 ms at {}/s, which load does not explain"
    above = [*queue(shares=(10, 30, 50)), point(900.0, 70 * MS), point(950.0, 20 * MS)]
    assert knee(above).bend is Bend.SEEN
    assert odd.format(900, 950) in knee_words(knee(above))
    below = [point(500.0, 1 * MS), point(900.0, 70 * MS), point(950.0, 20 * MS)]
    assert knee(below).bend is Bend.BELOW
    assert odd.format(900, 950) in knee_words(knee(below))
    rising = [point(100.0, 20 * MS), point(200.0, 70 * MS), point(900.0, 20 * MS)]
    assert knee(rising).bend is Bend.NOT_REACHED
    assert odd.format(200, 900) in knee_words(knee(rising))


def test_levels_near_the_knee_end_before_one_that_is_not() -> None:
    """A pause of the storage fell into one level: of it, too, the power was called at most a tenth smaller."""
    paused = [*queue(shares=(10, 30, 50)), point(510.0, 70 * MS), *queue(shares=(52, 80))]
    found = knee(paused)
    assert [near.offered_per_s for near in found.near] == [500]
    said = knee_words(found)
    assert "at most" not in said
    assert "But the mean response time was 70.0 ms at 510/s and only 2.08 ms at 520/s" in said
    below = [*queue(shares=(10, 48)), point(490.0, 70 * MS), *queue(shares=(50, 52, 80))]
    assert [near.offered_per_s for near in knee(below).near] == [500, 520]
    assert "But the mean response time was 70.0 ms at 490/s" in knee_words(knee(below))


def test_the_knee_does_not_depend_on_how_far_beyond_saturation_was_measured() -> None:
    beyond = point(1100, 900 * MS, achieved_per_s=1000.0)
    assert beyond.overloaded
    assert knee([*queue(), beyond]).point == knee(queue()).point


def test_a_flat_curve_has_no_knee_before_a_rate_that_it_does_not_keep_up_with() -> None:
    flat = [point(rate, MS) for rate in (100.0, 200.0, 300.0)]
    assert knee(flat) == Knee(Bend.NOT_REACHED, None, flat[-1])
    assert knee(queue(shares=(10, 20, 30, 40, 50))).bend is Bend.NOT_REACHED
    assert capacity(flat) is None
    beyond = point(400, 90 * MS, achieved_per_s=310.0)
    assert knee([*flat, beyond]) == Knee(Bend.SEEN, flat[-1], beyond, (flat[-1],))
    assert capacity([*flat, beyond]) == 310.0
    # Open loops that are overloaded far below the closed loop's rate contradict it.
    assert capacity([*flat, beyond], 380.0) == 380.0
    assert capacity([*flat, beyond], 2_690.0) is None
    assert "capacity: not known. The closed loop achieved 2,690/s, but open loops only 310/s" in "".join(
        found_lines(Curve(2_690.0, [*flat, beyond]))
    )
    assert knee(flat[:2]).bend is Bend.TOO_FEW
    assert knee([]).bend is Bend.TOO_FEW


def test_a_curve_that_is_bent_from_its_first_rate_has_its_knee_below() -> None:
    assert knee(queue(shares=(60, 70, 80, 90))).bend is Bend.BELOW


def test_a_curve_names_the_condition_and_all_that_was_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["load-curve", "sqlio-random-read-4", "--levels", "60", "--each", "2s", "-o", str(tmp_path / "r")]
    changed = ["--set", "request=64KiB", "--set", "members=6"]
    assert main([*asked, "sim:overland-2007-sata", "--condition", "degraded", *changed, "--json"]) == 0
    question = json.loads(capsys.readouterr().out)["question"]
    load = "sqlio-random-read-4, but request=64KiB"
    assert f"of {load} does sim:overland-2007-sata with members=6 (degraded) sustain" in question
    assert (
        f"Load curve of {load} on sim:overland-2007-sata with members=6" in (tmp_path / "r" / "report.html").read_text()
    )
    assert main(["runs", "--limit", "1"]) == 0
    assert "load curve of sqlio-random-read-4, but request=64KiB" in " ".join(capsys.readouterr().out.split())
    assert main([*asked, str(tmp_path), "--condition", "degraded"]) == 2
    assert "only modelled bricks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("further", "bend", "said"),
    [
        (("--max-rate", "10"), "not reached", "The target was not overloaded up to "),
        (("--max-rate", "5000"), "seen", "Knee: 7"),
    ],
)
def test_a_search_that_ends_before_saturation_says_where_to_go_on(
    further: tuple[str, ...], bend: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["load-curve", "sqlio-random-read-4", "sim:terraserver-2003", "--each", "5s", *further]
    assert main([*asked, "--json", "-o", str(tmp_path / "r")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bend"] == bend
    assert (document["knee"] is None) == (document["capacity_per_s"] is None) == (bend == "not reached")
    for drawn in document["points"]:
        # Arrivals are random: what exceeds the offered rate is chance, and no more than that.
        assert drawn["achieved_per_s"] <= drawn["offered_per_s"] * (1 + 3 / drawn["requests"] ** 0.5)
    assert main([*asked, "-o", str(tmp_path / "r")]) == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert ("Continue with --max-rate" in shown) == (bend == "not reached")
    # A highest rate below the levels limits none of them, which is said.
    assert ("--max-rate 10 had no effect, as it only continues" in shown) == (bend == "not reached")
    assert "which may be below the capacity" in " ".join(shown.split())


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**9)), min_size=3, max_size=20))
def test_no_other_point_has_more_power_than_the_knee(pairs: list[tuple[int, int]]) -> None:
    points = [point(float(rate), float(mean)) for rate, mean in pairs]
    found = knee(points).point
    if found is None:
        return
    assert found.mean_ns is not None
    assert all(found.achieved_per_s / found.mean_ns >= p.achieved_per_s / (p.mean_ns or 1) for p in points)


def test_the_usable_rate_is_the_highest_before_the_first_that_breaks_the_limit() -> None:
    # Means: 1.11, 1.25, 1.43, 1.67, 2, 2.5, 3.33, 5, 10 ms.
    best, worst = usable(list(reversed(queue())), Limit("mean", int(2.5 * MS)))
    assert best is not None
    assert worst is not None
    assert (best.offered_per_s, worst.offered_per_s) == (600, 700)
    points = queue()
    points[2] = point(300, 50 * MS)  # a rate above it that keeps the limit again proves nothing
    best, worst = usable(points, Limit("mean", 3 * MS))
    assert best == points[1]
    assert worst == points[2]
    assert usable(queue(), Limit("mean", MS)) == (None, queue()[0])
    assert usable(queue(), Limit("mean", SECOND)) == (queue()[-1], None)


def test_a_limit_is_not_kept_by_failures_overload_or_silence() -> None:
    limit = Limit("p99", 10 * MS)
    good = point(100, MS)
    assert limit.is_kept(good)
    assert not limit.is_kept(replace(good, errors=1))
    assert not limit.is_kept(replace(good, unsent=50))
    assert not limit.is_kept(replace(good, requests=0, mean_ns=None, max_ns=None))
    # Without enough samples for a p99 the largest of all must do.
    few = replace(good, percentiles={"p99": None})
    assert limit.is_kept(replace(few, max_ns=10 * MS))
    assert not limit.is_kept(replace(few, max_ns=11 * MS))


@pytest.mark.parametrize(
    ("changes", "overloaded"),
    [
        ({}, False),
        ({"unsent": 100}, False),  # 1 % of what was due
        ({"unsent": 103}, True),
        ({"achieved_per_s": 960.0}, False),
        ({"achieved_per_s": 940.0}, True),
        ({"achieved_per_s": 800.0, "requests": 100}, False),  # within three deviations of a hundred
        ({"achieved_per_s": 650.0, "requests": 100}, True),
        ({"requests": 0}, True),
    ],
)
def test_overload_is_what_chance_does_not_explain(changes: Json, overloaded: bool) -> None:
    assert point(1000, MS, **changes).overloaded is overloaded


def test_a_point_counts_streams_together_and_merges_their_response_times(tmp_path: Path) -> None:
    both = plan(stream(name="a"), stream(name="b", chain=["read", "write"]))
    events = [
        interval(
            0,
            SECOND,
            cell([MS] * 1500),
            cell([9 * MS] * 500, stream=1, operation="chain", request_bytes=0),
            cell([4 * MS] * 500, stream=1),
            cell([5 * MS] * 500, stream=1, operation="write", errors=2),
        ),
        phase_end(unsent=7, reason="requests"),
    ]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, events, plan_=both))
    assert stream_rates(record) == {0: 1500.0, 1: 500.0}
    found = curve_point(record, 2100.0)
    assert (found.offered_per_s, found.achieved_per_s) == (2100.0, 2000.0)
    assert (found.requests, found.unsent, found.errors) == (2000, 7, 2)
    assert found.mean_ns == pytest.approx((1500 * MS + 500 * 9 * MS) / 2000, rel=0.01)
    assert found.percentiles["p50"] == pytest.approx(MS, rel=0.01)
    assert found.percentiles["p99"] == pytest.approx(9 * MS, rel=0.01)


def test_flushes_that_writes_owe_are_not_offered_and_their_times_count(tmp_path: Path) -> None:
    load = plan(stream(flush_every={"writes": 2, "call": "fdatasync"}))
    events = [
        interval(0, SECOND, cell([MS] * 200, operation="write"), cell([30 * MS] * 100, operation="flush")),
        phase_end(reason="requests"),
    ]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, events, plan_=load))
    assert stream_rates(record) == {0: 200.0}
    point = curve_point(record, 200.0)
    assert point.achieved_per_s == 200
    assert point.mean_ns == pytest.approx((200 * MS + 100 * 30 * MS) / 300, rel=0.01)
    assert point.percentiles["p90"] == pytest.approx(30 * MS, rel=0.01)


def validated(name: str) -> Plan:
    return profiles.validate(profiles.read(name), [])


@pytest.mark.parametrize("name", ["characterize", "overland-oltp", "sqlio-random-write-4"])
def test_open_plans_keep_all_of_a_load_but_pace_and_depth(name: str) -> None:
    given_ = validated(name)
    phase = one_phase(given_, None)
    made = open_plan(given_, phase, SECOND, {0: 123.0}).phase[0]
    (before,), (after,) = phase.stream, made.stream
    assert after.pace == OpenPace(rate=123.0, arrivals=Arrivals.POISSON)
    assert after.depth >= before.depth
    changed = {key for key in before.__struct_fields__ if getattr(before, key) != getattr(after, key)}
    assert changed <= {"pace", "depth", "think"}
    closed = closed_plan(given_, phase, SECOND).phase[0].stream[0]
    assert closed.depth == before.depth
    assert closed.pace == ClosedPace()
    assert (made.requests, made.duration) == (None, Duration(SECOND))


def test_of_several_phases_one_must_be_named() -> None:
    several = validated("honesty-overwrite")
    with pytest.raises(BadInputError, match="name one of plain, flush, dsync"):
        one_phase(several, None)
    assert one_phase(several, "dsync").name == "dsync"
    with pytest.raises(BadInputError, match="no such phase"):
        one_phase(several, "other")


def test_limits_and_levels_are_read_or_refused() -> None:
    assert parse_limit("mean:100ms") == Limit("mean", 100 * MS)
    assert parse_limit("p99.9:1s") == Limit("p99.9", SECOND)
    assert parse_limit("max:50ms") == Limit("max", 50 * MS)
    slow = point(100, 2 * MS, max_ns=9 * MS)
    steps = [step_of(slow, Limit("max", most * MS)) for most in (9, 8)]
    assert [(step.value_ns, step.holds) for step in steps] == [(9 * MS, True), (9 * MS, False)]
    assert parse_levels("90, 10%,50,10") == (10, 50, 90)
    for wrong in ("p99", "p98:1ms", "mean:fast", ":1ms"):
        with pytest.raises(BadInputError, match="--limit"):
            parse_limit(wrong)
    for wrong in ("", "0", "10,,20", "ten", "2000", "-5"):
        with pytest.raises(BadInputError, match="--levels"):
            parse_levels(wrong)
    with pytest.raises(BadInputError, match=r"--levels 50 100 150: .* write --levels 50,100,150"):
        load_curve("sqlio-random-read-4", "sim:msr-2003-wd", "100", "150", levels="50")


def test_a_curve_that_was_cut_knows_nothing_of_higher_rates() -> None:
    limit = Limit("p99", 20 * MS)
    curve = Curve(1000.0, queue(shares=(10, 20, 30)), limit, is_cut=True)
    said = found_lines(curve)
    assert said[1] == "the measurement did not end: of rates above 300/s nothing is known"
    assert any("at least 300/s, the highest measured rate that kept it" in line for line in said)
    assert "knee: not known" in said
    assert not any("raise --max-rate" in line or "every offered rate" in line for line in said)
    assert curve_marks(curve) == []
    searched = replace(curve, searches=[carried([Step(900.0, None, holds=False, kept_up=False, requests=50)])])
    assert found_lines(searched)[1] == "the measurement did not end: of rates above 900/s nothing is known"


def test_a_search_that_was_cut_and_broke_the_limit_below_a_level_knows_no_rate() -> None:
    """ "At least 2,046/s" was said of steps at 2,046, 1,023 and 511/s that all broke the limit."""
    limit = Limit("p99", 20 * MS)
    broken = [Step(rate, 148 * MS, holds=False, requests=3000) for rate in (300.0, 150.0)]
    curve = Curve(1000.0, queue(shares=(10, 20, 30)), limit, [carried(broken)], is_cut=True)
    (said,) = [line for line in found_lines(curve) if line.startswith("p99 response time within")]
    assert said.startswith(
        "p99 response time within 20.0 ms: not known, since the target's performance varied over time. "
        "A step of a search at 150/s broke the limit, with 148 ms, but the level of 200/s kept it, with "
    )
    assert "at least" not in said
    above = replace(curve, searches=[carried([Step(600.0, 148 * MS, holds=False, requests=3000)])])
    (said,) = [line for line in found_lines(above) if line.startswith("p99 response time within")]
    assert "at least 300/s, the highest measured rate that kept it" in said


def test_a_search_that_was_cut_is_told_alike_by_the_command_and_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command left out the steps of a search that did not end, `show` and `report` had them."""

    attach, begun = Interrupt.attach, list[object]()

    def cut(interrupt: Interrupt, run: Any) -> None:
        begun.extend([run] if run else [])
        if len(begun) == 6:  # behind the closed loop, two levels and two steps of the first search
            interrupt.count = 1
        attach(interrupt, run)

    monkeypatch.setattr(Interrupt, "attach", cut)
    store = ["--store", str(tmp_path / "runs.db")]
    asked = ["load-curve", "sqlio-random-read-4", "sim:msr-2003-wd", "--limit", "p99:60ms", "--levels", "30,60"]
    assert main([*asked, "--each", "2s", "-o", str(tmp_path / "r"), *store]) == 130
    shown = " ".join(capsys.readouterr().out.split())
    assert main(["show", "s1", *store]) == 0
    again = " ".join(capsys.readouterr().out.split())
    said = re.search(r"P99 response time within 60\.0 ms: .*?/s", again)
    assert said is not None
    assert said[0] in shown, (said[0], shown)


def test_an_answer_that_rests_on_a_growing_queue_says_so(tmp_path: Path) -> None:
    load = plan(stream(pace={"loop": "open", "rate": 100.0, "arrivals": "poisson"}))

    def grown(*means_ms: int) -> CurvePoint:
        events = [
            interval(n * SECOND, (n + 1) * SECOND, cell([mean * MS] * 100), index=n) for n, mean in enumerate(means_ms)
        ]
        with Store(tmp_path / f"{len(means_ms)}-{means_ms[-1]}.db") as store:
            return curve_point(store.record(add_run(store, [*events, phase_end()], plan_=load)), 100.0)

    assert grown(100, 200, 400, 500).overloaded, "a backlog of more than 1 % of what was answered"
    queue_grew, steady, short = grown(1, 2, 4, 5), grown(1, 2, 1, 2), grown(1, 9)
    assert [queue_grew.growth, steady.growth] == pytest.approx([3.0, 1.0], rel=0.01)
    assert short.growth is None
    limit = Limit("mean", SECOND)
    searches = [carried([step_of(one, limit)]) for one in (queue_grew, steady, short)]
    said = limit_line(Curve(100.0, [steady], limit, searches), limit)
    assert "In 1 of 3 searches, response times more than doubled within the step" in said
    assert "more than doubled" not in limit_line(Curve(100.0, [steady], limit, searches[1:]), limit)
    kept = " ".join(found_lines(Curve(100.0, [queue_grew])))
    assert "kept up with at least 100/s for 4.0 s, with a mean response time of 3.00 ms (3" in kept
    assert "times as long in the second half as in the first: the queue may be growing)" in kept


@pytest.mark.parametrize(
    ("achieved", "said"),
    [
        (
            922.0,
            "the target keeps up with about 922/s, which steps of searches achieved that overloaded it. A step at 930",
        ),
        (
            950.0,
            "the target kept up with at least 930/s, with a p99 response time of 25.0 ms; a search overloaded it at",
        ),
        (600.0, "the target kept up with at least 930/s, with a p99"),
    ],
)
def test_a_short_step_shows_no_higher_rate_than_overloaded_ones_achieved(
    achieved: float, said: str, tmp_path: Path
) -> None:
    """Of a drive that did 922,000/s whenever it was overloaded: "kept up with at least 930,025/s, with a p99"."""
    load = plan(stream(pace={"loop": "open", "rate": 100.0, "arrivals": "poisson"}))
    events = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 100), index=n) for n in range(4)]
    with Store(tmp_path / "runs.db") as store:
        level = curve_point(store.record(add_run(store, [*events, phase_end()], plan_=load)), 100.0)
    steps = [
        Step(930.0, 25.0 * MS, holds=False, achieved_per_s=923.0),
        Step(1519.0, None, holds=False, kept_up=False, achieved_per_s=achieved),
    ]
    assert said in " ".join(found_lines(Curve(100.0, [level], Limit("p99", MS), [carried(steps)])))


@pytest.mark.parametrize(
    ("reads", "writes", "said"),
    [
        (0, 1, "response times are of commits, a write and its flush each"),
        (50, 1, "response times are of reads and commits, a write and its flush each"),
        (50, 2, "rates are of reads and writes, response times of reads, writes and flushes alike"),
    ],
)
def test_a_table_says_what_its_times_are_of(tmp_path: Path, reads: int, writes: int, said: str) -> None:
    asked = stream(
        operations={"read": reads, "write": 100 - reads}, flush_every={"writes": writes, "call": "fdatasync"}
    )
    events = [interval(0, SECOND, cell([MS] * 200, operation="write")), phase_end()]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, events, plan_=plan(asked)))
    assert curve_notes([record], [], Curve(1000.0, [])) == [said]
    stalled = replace(point(100, MS), few_events=("p99",))
    assert curve_row(stalled, 1000.0)[5].endswith(" ms*")
    assert [name for name, _ in curve_columns(None)][3:7] == ["mean", "p50", "p99", "max"]
    assert (
        "*: the samples beyond this percentile come from one or two events"
        in curve_notes([record], [], Curve(1000.0, [stalled]))[1]
    )
    step = Step(100, 3 * MS, holds=False, is_of_few_events=True)
    tried = Curve(1000.0, [], Limit("p99", MS), [Carried(None, [step])])
    assert "at 100/s it is 3.00 ms*" in " ".join(found_lines(tried))
    assert FEW_EVENTS_WORDS in curve_notes([record], [], tried)
    assert step_of(stalled, Limit("p99", MS)).is_of_few_events


def test_the_picture_names_knee_and_limit() -> None:
    points = [*queue(), point(1100, 900 * MS, achieved_per_s=1000.0)]
    marks = curve_marks(Curve(900.0, points, Limit("p99", 20 * MS)))
    drawn = picture_of(points, marks, Limit("p99", 20 * MS))
    within = usable(points, Limit("p99", 20 * MS))[0]
    assert within is not None
    answers = (f"within limit: {within.offered_per_s:.0f}/s", "knee: 500/s", "capacity: 1,000/s")
    assert set(answers) <= set(drawn.svg.replace("</text>", ">").split(">"))
    assert all(text in drawn.alt_text for text in answers)
    for text in ("limit of the p99", "offered rate in 1/s", "hollow: overloaded", "response time"):
        assert text in drawn.svg


def test_a_real_curve_is_measured_searched_and_drawn(tmp_path: Path) -> None:
    given_ = ("load-curve", "characterize", "--size", "32MiB", "--scratch", str(tmp_path), "--each", "200ms")
    more = ("--levels", "5,10,20,400", "--limit", "mean:1ns", "--store", str(tmp_path / "runs.db"), "--json")
    command = [sys.executable, "-m", "brickyard", *given_, *more, "-o", str(tmp_path / "curve")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    maximum = document["closed_loop_per_s"]
    assert maximum > 0
    offered = [item["offered_per_s"] for item in document["points"]]
    assert offered == sorted(offered)
    # On a busy machine a level may be overloaded; it is then the last.
    assert offered == pytest.approx([maximum * share for share in (0.05, 0.1, 0.2, 4.0)][: len(offered)])
    # Nothing answers within a nanosecond, not even at a hundredth of the lowest level; another search would be in vain.
    (search,) = document["searches"]
    tried = [step["rate_per_s"] for step in search["steps"]]
    assert (tried[0], search["rate_per_s"]) == (pytest.approx(offered[0] / 2), None)
    assert tried[-1] <= tried[0] / 64
    assert document["usable"] is None
    assert document["points"][-1]["errors"] == 0
    assert Path(document["picture"]).read_bytes().startswith(b"\x89PNG")
    page = Path(document["report"]).read_text("utf-8")
    assert "losed loop at the profile" in page
    assert "Knee: " in page, "whether it was seen or not"
    with Store(tmp_path / "runs.db") as store:
        (study,) = store.studies()
        assert study.runs == document["runs"]
        assert len(study.runs) == 1 + len(offered) + len(tried)
    assert not list(tmp_path.glob("*.brick"))


def run_json(command: list[str]) -> str:
    done = subprocess.run([sys.executable, "-m", "brickyard", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def card(page: str, identifier: str) -> str:
    """A section of a report, by its id."""
    found = re.search(rf'<section id="{identifier}">(.*?)</section>', page, re.DOTALL)
    assert found is not None, identifier
    return found[1]


def test_the_page_of_a_curve_shows_its_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given_ = ["load-curve", "sqlio-random-read-4", "sim:msr-2003-maxtor", "--each", "20s", "--max-rate", "2000"]
    places = ["--limit", "p99:100ms", "--store", str(tmp_path / "runs.db"), "-o", str(tmp_path / "curve"), "--json"]
    assert main([*given_, *places]) == 0
    page = Path(json.loads(capsys.readouterr().out)["report"]).read_text("utf-8")
    shown = card(page, "response-time-against-offered-rate")
    assert shown.count("<svg") == 2, "one for desks, one for phones"
    assert "mark-symbol" in shown, "no points"
    assert "95 % interval" in page


def test_a_modelled_brick_has_the_same_curve_every_time(tmp_path: Path) -> None:
    given_ = ("load-curve", "sqlio-random-read-4", "sim:msr-2003-maxtor", "--each", "20s", "--limit", "mean:100ms")

    def curve(name: str) -> Json:
        places = ("--store", str(tmp_path / f"{name}.db"), "-o", str(tmp_path / name), "--json")
        command = [sys.executable, "-m", "brickyard", *given_, "--levels", "20,50,80,130", *places]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: Json = json.loads(done.stdout)
        return found

    first, second = curve("a"), curve("b")
    assert first["points"] == second["points"]
    means = [item["mean_ns"] for item in first["points"]]
    assert means[0] < means[1] < means[-1]  # one disk: what waits, waits for the arm
    assert first["points"][-1]["overloaded"]
    assert first["usable"]["rate_per_s"] < first["points"][-1]["offered_per_s"]
    assert first["usable"]["low_per_s"] < first["usable"]["rate_per_s"] < first["usable"]["high_per_s"]
    assert len(first["searches"]) == 3
    assert len({found["rate_per_s"] for found in first["searches"]}) > 1, "with arrivals of its own"
    for found in first["searches"]:
        beyond = min(step["rate_per_s"] for step in found["steps"] if not step["holds"])
        assert found["rate_per_s"] == max(step["rate_per_s"] for step in found["steps"] if step["holds"])
        assert found["value_ns"] <= 100 * MS
        assert found["rate_per_s"] < beyond <= found["rate_per_s"] * 1.011
    with Store(tmp_path / "a.db") as store:
        (study,) = store.studies()
        records = [store.record(run) for run in study.runs]
    curve_again = curve_of(study, records)
    assert curve_again is not None
    assert [found.document() for found in curve_again.searches] == first["searches"]
    # Another way to the same figure, each of whose rates is a simulation that nothing else went before.
    command = ["advise", "predict", "sqlio-random-read-4", "sim:msr-2003-maxtor", "--limit", "mean:100ms", "--json"]
    predicted = json.loads(run_json(command))
    assert predicted["low_per_s"] <= first["usable"]["high_per_s"]
    assert predicted["high_per_s"] >= first["usable"]["low_per_s"]
    assert first["usable"]["rate_per_s"] == pytest.approx(predicted["rate_per_s"], rel=0.03)


def test_the_highest_rate_of_a_queue_that_is_known() -> None:
    """M/M/1 with a mean service time of 5 ms: the mean response is 20 ms at 150 requests a second."""

    def attempt(rate: float) -> Step:
        mean_ns = 5e6 / (1 - rate * 0.005) if rate < 200 else float("inf")
        return Step(rate, mean_ns, mean_ns <= 20e6)

    for first in (3.0, 150.0, 9000.0):
        best = highest(attempt, first).best
        assert best is not None
        assert 150 / 1.01 <= best.rate_per_s <= 150


def test_no_rate_is_invented_where_a_single_request_is_too_slow() -> None:
    carried = highest(lambda rate: Step(rate, 9e6, False), 100)
    assert carried.best is None
    assert 5 <= len(carried.steps) <= 10
    assert len(searched(lambda rate, _: Step(rate, 9e6, False), 100, 3)) == 1


def test_further_searches_draw_other_arrivals_near_the_first_rate() -> None:
    """Limits of 140, 150 and 160 requests a second, as three draws of arrivals may have them."""
    tried: dict[int, list[float]] = {0: [], 1: [], 2: []}

    def attempt(rate: float, number: int) -> Step:
        tried[number].append(rate)
        return Step(rate, rate, rate <= 140 + 10 * number)

    found = rates(searched(attempt, 10.0, 3))
    assert found is not None
    assert found.values == pytest.approx((140, 150, 160), rel=0.01)
    # Student's t with two degrees of freedom on the logarithms, worked out by hand, and 1 % above for the last step.
    assert (found.low, found.high) == pytest.approx((126.7, 179.0), rel=0.02)
    assert max(tried[1] + tried[2]) < 250
    assert rates([*searched(attempt, 10.0, 1), Carried(None, [])]) is None


def line_of(
    *rates_: float | None, points: list[CurvePoint] | None = None, requests: int = 20_000, broke_ns: int = MS
) -> str:
    """What is said of searches that found these rates."""
    steps = [Step(rate or 1.0, MS if rate else broke_ns, rate is not None, requests=requests) for rate in rates_]
    found = [carried([step]) for step in steps]
    return limit_line(
        Curve(200.0, points or [point(100, MS), point(200, 9 * MS)], searches=found), Limit("mean", 5 * MS)
    )


def test_a_limit_that_no_rate_keeps_has_the_lowest_rate_and_no_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broke = [point(100, 9 * MS), point(200, 19 * MS)]
    assert line_of(None, points=broke, requests=20) == (
        "mean response time within 5.00 ms: at no measured rate; at 1.00/s it is 1.00 ms"
    )
    asked = ["load-curve", "sqlio-random-read-4", "sim:terraserver-2003", "--each", "1s", "--levels", "10,50,90"]
    assert main([*asked, "--limit", "p99:1ms", "--json", "-o", str(tmp_path / "r")]) == 1
    said = " ".join(json.loads(capsys.readouterr().out)["answer"])
    assert "at no measured rate; at " in said
    assert "longer --each" not in said


def test_the_rate_within_a_limit_is_the_mean_of_the_searches_with_its_interval() -> None:
    said = line_of(140, 150, 160)
    assert said == (
        "mean response time within 5.00 ms: 150 requests/s (95 % interval 127 to 179, from the spread of the searches "
        "alone). The 3 searches, each with its own arrivals and offsets, found 140, 150 and 160"
    )
    apart = line_of(3012, 3605, 15207, points=[point(100, MS)])
    assert apart.startswith(
        "mean response time within 5.00 ms: not known, since the searches differ too much (95 % interval 605 to 50,"
    )
    assert "found 3,012, 3,605 and 15,207" in apart
    assert "95 % interval 150 to 152," in line_of(150, 150, 150), "a search tells its rate to 1 %"
    assert line_of(140).endswith(": 140 requests/s. A single search gives no interval: use --searches 3")
    varied = ": not known, since the target's performance varied over time. "
    some = line_of(140, None, broke_ns=9 * MS)
    assert f"{varied}A step of a search at 1.00/s broke the limit, with 9.00 ms, but the level of 100/s kept it" in some
    assert some.endswith("Of the 2 searches, each with its own arrivals and offsets, 1 found no rate, the others 140/s")
    none = line_of(None, None, broke_ns=9 * MS)
    assert varied in none
    assert none.endswith("The searches found no rate that keeps it; at 1.00/s it is 9.00 ms")
    failed = line_of(None, None)
    assert "at 1.00/s had requests that failed, but the level of 100/s kept it, with 1.00 ms. Measure again" in failed
    few = line_of(140, 150, 160, requests=200)
    assert (
        "The smallest step has 200 requests; with fewer than 1,000 for the mean, a search finds a rate that is" in few
    )
    one_at_a_time = Curve(100.0, [], Limit("mean", 5 * MS), [carried([Step(150.0, MS, True, requests=2000)])])
    assert found_lines(one_at_a_time)[1].startswith(
        "mean response time within 5.00 ms: 100 requests/s in the profile's own closed loop, where requests wait for "
        "one another; if they arrive independently of one another and overlap, 150 requests/s."
    )
    assert "smallest step" not in line_of(140, 150, 160, requests=950), "fewer than 1,000 by chance"
    assert "smallest step" in line_of(140, 150, 160, requests=900)
    assert line_of().endswith("up to 100/s; not at 200")
    kept = line_of(points=[point(100, MS)])
    assert "at least 100/s" in kept, "the limit was never reached"
    assert "raise --max-rate" in kept
    assert "smallest step has 500 requests" in line_of(points=[replace(point(100, MS), requests=500)]), (
        "no search was needed"
    )
    assert line_of(points=[point(200, 9 * MS)]).endswith("at no measured rate; at 200/s it is 9.00 ms")


def test_steps_of_searches_are_drawn_and_count_as_rates_that_the_target_keeps_up_with() -> None:
    limit = Limit("p99", 20 * MS)
    points = [point(rate, MS) for rate in (100, 200, 321)]
    steps = [Step(658, 18 * MS, True), Step(974, 25 * MS, False), Step(1300, 400 * MS, False, False)]
    curve = Curve(350.0, points, limit, [carried(steps)])
    (line,) = [line for line in found_lines(curve) if "kept up" in line]
    assert "at least 974/s, with a p99 response time of 25.0 ms; a search overloaded it at 1,300/s" in line
    drawn = picture_of(points, curve_marks(curve), limit, steps=curve.steps)
    assert "p99, steps of searches" in drawn.svg
    assert "hollow: overloaded" in drawn.svg
    assert "steps of searches" not in picture_of(points, curve_marks(curve), limit).svg


def test_a_search_that_levels_above_contradict_is_said() -> None:
    """A stall broke the limit in a search; the levels, measured before, kept it at many times the rate."""
    steps = [Step(54.0, MS, holds=True, requests=20_000), Step(56.0, None, holds=False, kept_up=False)]
    levels = [point(rate, MS) for rate in (52, 104, 520)]
    curve = Curve(520.0, levels, Limit("mean", 5 * MS), [carried(steps) for _ in range(3)])
    said = found_lines(curve)
    varied = "the target's performance varied over time"
    assert said[1].startswith(
        f"mean response time within 5.00 ms: not known, since {varied}. A step of a search at 56.0/s overloaded the "
        "target, but the level of "
    )
    assert "kept it, with 1.00 ms. Measure again when nothing else runs. The 3 searches, " in said[1]
    assert "95 % interval" not in said[1]
    assert any(f"But a search overloaded it at 56.0/s: {varied}" in line for line in said)
    calm = Curve(520.0, levels[:1], Limit("mean", 5 * MS), [carried(steps) for _ in range(3)])
    assert not any("varied" in line for line in found_lines(calm))


def test_times_that_do_not_follow_the_rate_decide_nothing() -> None:
    """Bisection ends wherever a busy host had its pauses; of a few requests the direction of its error is not known."""
    searched = [(255, 3.75, True), (259, 13.3, False), (265, 45.1, False), (679, 6.32, False)]
    steps = [Step(rate, ms * MS, holds, requests=1_687) for rate, ms, holds in searched]
    levels = [point(10_865, MS, percentiles={"p99": int(5.08 * MS)})]
    curve = Curve(54_325.0, levels, Limit("p99", 5 * MS), [carried(steps)])
    said = found_lines(curve)[1]
    assert said == (
        "p99 response time within 5.00 ms: not known, since the target's performance varied over time. A step of a "
        "search at 265/s broke the limit, with 45.1 ms, but the level of 10,865/s had only 5.08 ms. Measure again when "
        "nothing else runs. The search found 255/s"
    )
    in_order = [replace(step, value_ns=4 * MS) if step.rate_per_s < 679 else step for step in steps]
    assert "not known" not in found_lines(replace(curve, searches=[carried(in_order)]))[1]


def test_levels_that_contradict_the_searches_are_said() -> None:
    """Two levels below the rate that the searches found broke the limit; one of their steps overloaded the target."""
    steps = [Step(150.0, MS, holds=True, requests=20_000), Step(300.0, None, holds=False, kept_up=False)]
    levels = [point(90, MS), point(110, 9 * MS), point(120, 6 * MS), point(130, MS)]
    curve = Curve(200.0, levels, Limit("mean", 5 * MS), [carried(steps) for _ in range(3)])
    said = " ".join(found_lines(curve))
    assert (
        "not known, since the target's performance varied over time. The level of 110/s broke the limit, with" in said
    )
    assert "9.00 ms, but the level of 130/s kept it, with 1.00 ms." in said
    assert "a search overloaded it at 300/s" in said
    assert "knee: between 130/s, the highest level, and 300/s, where a search overloaded the target" in said
    assert "ended before saturation" not in said
    assert not any(mark.name == WITHIN for mark in curve_marks(curve)), "no rate is drawn as an answer"
    agreed = replace(curve, points=levels[-1:])
    (within, *_) = curve_marks(agreed)
    drawn = picture_of(agreed.points, curve_marks(agreed), curve.limit).svg
    assert within.value == pytest.approx(150)
    assert f"{within.name}: {within.words}" in unescape(drawn), "although no level was offered up to there"


def test_what_the_interval_of_the_searches_covers_is_no_contradiction() -> None:
    """Each search has arrivals of its own, so that one breaks the limit at a rate at which another keeps it."""
    searches = [
        carried([Step(best, MS, True, requests=20_000), Step(best * 1.01, 9 * MS, False, requests=20_000)])
        for best in (140.0, 150.0, 160.0)  # the interval is 127 to 179
    ]
    limit = Limit("mean", 5 * MS)
    levels = [point(90, MS), point(118, 6 * MS), point(130, MS), point(190, 4 * MS)]
    near = Curve(200.0, levels, limit, searches)
    assert not_known(near, limit) == ""
    assert is_known(near, limit)
    below = replace(near, points=[point(90, MS), point(110, 6 * MS)])
    assert not is_known(below, limit)
    assert "The level of 110/s broke the limit, with 6.00 ms, but a step of a search at 140/s kept it" in (
        not_known(below, limit)
    )
    above = replace(near, points=[point(90, MS), point(220, MS)])
    assert not is_known(above, limit)
    assert not_known(above, limit).endswith("but the level of 220/s kept it, with 1.00 ms")


def test_a_disk_that_is_slow_for_a_time_ends_with_no_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate and its interval stood in the answer, in the picture and as `usable`, with exit code 0, before "how much
    load keeps the limit is not known"."""
    one = LoadCurve._one

    def slower(self: LoadCurve, plan: Plan, marks: RunMarks) -> Any:
        name, targets, options, condition = self._about
        changes = ["drive.rpm=1800"] if marks.search else []
        self._about = name, targets, msgspec.structs.replace(options, overrides=changes), condition
        return one(self, plan, marks)

    monkeypatch.setattr(LoadCurve, "_one", slower)
    given_ = ["load-curve", "sqlio-random-read-4", "sim:msr-2003-wd", "--limit", "p99:100ms", "--levels", "10,40,70"]
    store = ["--store", str(tmp_path / "runs.db")]
    assert main([*given_, "--each", "5s", "--json", "-o", str(tmp_path / "r"), *store]) == 1
    found = json.loads(capsys.readouterr().out)
    why = "the target's performance varied over time. A step of a search at "
    assert found["usable"] is None
    assert found["usable_not_known"].startswith(why)
    assert any(search["rate_per_s"] for search in found["searches"]), "what the searches found is there"
    said = " ".join(found["answer"] + [found["belief"]])
    assert f"P99 response time within 100 ms: not known, since {why}" in said
    page = unescape((tmp_path / "r" / "report.html").read_text("utf-8"))
    assert "not known, since the target's performance varied over time" in page
    assert f"{WITHIN}: " not in page
    assert main(["show", "s1", *store]) == 0
    assert "not known, since the target's performance varied" in " ".join(capsys.readouterr().out.split())


def test_a_rate_that_the_closed_loop_achieved_is_within_the_capacity() -> None:
    """A short stall may leave requests unsent at a level that achieves no less than was offered."""
    last = point(19_173, 9 * MS, achieved_per_s=19_568.0, unsent=9_000)
    curve = Curve(23_966.0, [*queue(9_000.0), last])
    assert last.overloaded
    assert not last.saturated
    (line,) = [line for line in found_lines(curve) if line.startswith("capacity")]
    assert line == ("capacity: about 23,966/s, as achieved in the closed loop. Open loops achieved up to 19,568/s")
    assert curve_row(last, 23_966.0)[-1] == "overloaded: requests were left unsent"
    assert curve_row(point(1000, MS, achieved_per_s=900.0), 1000.0)[-1] == "overloaded"


def test_steps_of_searches_count_in_the_capacity_and_may_contradict_each_other() -> None:
    last = point(110, 900 * MS, achieved_per_s=100.0)
    levels = [*(point(rate, 5 * MS) for rate in (50.0, 100.0)), last]

    def said(*found: tuple[float, float, bool]) -> list[str]:
        steps = [Step(rate, 8 * MS, kept, kept, 500, 1.0, achieved) for rate, achieved, kept in found]
        best = max((step for step in steps if step.holds), key=lambda step: step.rate_per_s)
        return found_lines(Curve(100.0, levels, Limit("p99", 30 * MS), [Carried(best, steps)]))

    steady = said((118.0, 117.0, True), (125.0, 105.0, False))
    assert "capacity: about 117/s, the highest rate that was achieved" in steady
    assert any("From about this rate on, the target is overloaded" in line for line in steady)
    varied = said((140.0, 139.0, True), (90.0, 80.0, False))
    assert "capacity: about 139/s, the highest rate that was achieved" in varied
    assert "not known, since the target's performance varied over time." in varied[1]
    assert "overloaded the target, but a step of a search at 140/s kept it, with 8.00 ms." in varied[1]


def test_a_limit_that_every_level_keeps_is_searched_up_to_the_capacity(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["load-curve", "sqlio-random-read-4", "sim:terraserver-2003", "--each", "1s", "--levels", "10,50"]
    assert main([*asked, "--limit", "p99:10s", "--json", "-o", str(tmp_path / "r")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usable"]["rate_per_s"] > 2 * max(level["offered_per_s"] for level in found["points"])
    said = " ".join(found["answer"])
    assert "From about this rate on, the target is overloaded; below, it kept the limit" in said
    assert re.search(
        r"from the spread of the searches alone; [\d.,]+ to [\d.,]+ if the model's error is included", said
    )


def test_levels_that_are_left_out_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["load-curve", "sqlio-random-read-4", "sim:terraserver-2003", "--each", "1s", "--levels", "10,900,950,1000"]
    assert main([*asked, "-o", str(tmp_path / "r")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The levels above 900 % (950 %, 1000 %) were left out, since 900 % overloaded the target" in shown


def test_a_step_of_a_search_is_long_enough_for_the_figure() -> None:
    limit = Limit("p99", 20 * MS)
    assert enough("p99") == 10_000
    assert enough("p99.99") == 1_000_000
    assert enough("mean") == 1000
    assert step_ns(SECOND, limit, 100.0, is_modelled=True) * 100.0 / SECOND == pytest.approx(11_000)
    assert step_ns(SECOND, limit, 100_000.0, is_modelled=True) == SECOND
    assert step_ns(SECOND, limit, 1.0, is_modelled=False) == 10 * SECOND


RAMP = """
[[phase]]
ramp = { knob = "rate", from = 20, to = 120, factor = 2, every = "20s", settle = "4s", search = 2, \
limit = { when = "mean", above = "100ms" } }
[[phase.stream]]
request = "8KiB"
address = "random"
depth = 64
pace = { loop = "open", rate = 20 }
"""


def test_a_search_within_one_run_says_that_its_steps_have_no_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "ramp.toml"
    profile.write_text(RAMP)
    assert main(["run", str(profile), "sim:msr-2003-maxtor", "--store", str(tmp_path / "runs.db")]) == 0
    said = capsys.readouterr().out
    assert "highest rate 7" in said
    assert "whose steps follow each other without a pause, so a higher value may keep" in said
    profile.write_text(RAMP.replace("search = 2, ", "").replace("to = 120", "to = 40"))
    assert main(["run", str(profile), "sim:msr-2003-maxtor", "--store", str(tmp_path / "runs.db")]) == 0
    assert "without a pause" not in capsys.readouterr().out


def test_the_circumstances_count_the_steps_of_searches(tmp_path: Path) -> None:
    labels: list[Json] = [{"loop": "closed"}, {"offered_per_s": 10.0}, {"offered_per_s": 20.0}]
    labels += [{"searched_per_s": 15.0 + step, "search": 0} for step in range(4)]
    with Store(tmp_path / "runs.db") as store:
        study = store.add_study("load-curve", {})
        events = [interval(0, SECOND, cell([MS] * 10)), phase_end()]
        made = [add_run(store, events, study=study, labels=one) for one in labels]
        records = [store.record(run) for run in made]
    profile = dict(curve_circumstances(records))["Profile"]
    assert profile.endswith(": 1 closed loop, 2 levels, 4 steps of searches")
    profile = dict(curve_circumstances(records[:4]))["Profile"]
    assert profile.endswith(": 1 closed loop, 2 levels, 1 step of searches")


def test_a_modelled_cache_is_full_before_a_rate_is_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The brick's controller takes bursts of several thousand writes a second, and its drives 1,500."""
    given = ["load-curve", "sqlio-random-write-4", "sim:overland-2007-sas", "--levels", "50,130", "--each", "3s"]
    assert main([*given, "--store", str(tmp_path / "runs.db"), "-o", str(tmp_path / "r"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    kept_up, beyond = document["points"]
    assert beyond["max_ns"] > beyond["measured_ns"] > kept_up["max_ns"]
    assert beyond["warmup_ns"] > beyond["measured_ns"]
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "130 %: the " in page
    assert page.count("that were measured began with a backlog from the warm-up of") == 1
    lasting = ["run", "sqlio-random-write-4", "sim:overland-2007-sas", "--set", "depth=64", "--set", "warmup=100s"]
    assert main([*lasting, "--set", "duration=30s", "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    rate = json.loads(capsys.readouterr().out)["totals"][0]["iops"]
    assert document["closed_loop_per_s"] == pytest.approx(rate, rel=0.15)
    assert document["capacity_per_s"] == pytest.approx(rate, rel=0.15)


def written(tmp_path: Path, *bytes_: int) -> list[Record]:
    """Runs that wrote so much each."""
    with Store(tmp_path / "written.db") as store:
        runs = [
            add_run(store, [interval(0, SECOND, cell([MS] * (size >> 12), operation="write")), phase_end()])
            for size in bytes_
        ]
        return [store.record(run) for run in runs]


def test_rates_that_a_cache_may_have_made_are_said_to_be(tmp_path: Path) -> None:
    few = written(tmp_path, 1 << 20, 8 << 20)
    said = into_caches(few, 1 << 20, "--each")
    assert said is not None
    assert said.startswith("1 of 2 runs wrote less than 4 times the size of the write caches (1 MiB)")
    assert into_caches(few, 1 << 18, "--each") is None
    assert into_caches(few, 0, "--each") is None
    unknown = into_caches(few, None, "--each")
    assert unknown is not None
    assert "not known" in unknown
    assert into_caches([], None, "--each") is None


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("4KiB", "Nothing needs to be done: a load curve and its searches offer such rates on purpose."),
        ("16MiB", "Allow more in flight (--set depth=...)"),  # buffers of 256 MiB leave 16 in flight
    ],
)
def test_a_level_that_overloads_the_target_asks_for_no_option_that_the_verb_lacks(
    size: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It advised --iodepth, beside 256 requests in flight that were not the profile's depth."""
    asked = ["load-curve", "sqlio-random-read-4", "sim:msr-2003-wd", "--levels", "50,300", "--each", "30s"]
    assert main([*asked, "--set", f"request={size}", "--store", str(tmp_path / "r.db"), "-o", str(tmp_path / "r")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"\N{RIGHTWARDS ARROW} {said}" in shown
    assert "--iodepth" not in shown


def test_the_announced_time_of_a_search_has_one_total() -> None:
    asked = profiles.validate(profiles.read("sqlio-random-read-4"), [])
    (said, *_) = _forecast(asked, asked.phase[0], SECOND, 7, 3)
    assert said == (
        "duration: at most 8.4 s for 7 rates, then about 23 rates of 1.2 s to 12 s in the searches for the limit: 36 s "
        "to 4 min 44 s in all"
    )
