"""What is said of a replay's figures: headroom, percentiles, rates of drivers, warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import support
from brickyard.analysis.databases import replay_disks, replay_head_room, replay_pages, replay_served, replay_warnings
from brickyard.analysis.figures.load_curve import Limit
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.judging.replay_answer import replay_answer
from brickyard.analysis.judging.run_figures import run_figures
from brickyard.cli.results.runs import _figures
from brickyard.report import replay as replay_report
from brickyard.schema.facts import RunWatch
from brickyard.schema.watch_sheet import ForeignIo, ForeignPart, WatchedDevice, WatchSheet
from brickyard.store import Json, Store
from brickyard.study.replays.series import why_failed
from replay_support import (
    driver_end,
    lag,
    replay_record,
)


def test_head_room_is_that_of_the_whole_log_or_says_of_what(tmp_path: Path) -> None:
    """A log that begins quietly: two calls in the first four seconds, then 100 a second."""
    whole = {"first_ns": 0, "last_ns": 63 * 10**9, "calls": 6002, "peak_second_calls": 100, "peak_second_unix_s": 9}
    timed: Json = {"kind": "time_synchronized", "speed": "1x"}
    with Store(tmp_path / "s.db") as store:
        piece = replay_record(store, timed, 2, 4.0, "duration")
        cut = replay_record(store, {"kind": "fire_hose"}, 6000, 6.0, "duration")
        short = replay_record(store, {"kind": "fire_hose"}, 600, 0.6, logs=whole)
        long = replay_record(store, {"kind": "fire_hose"}, 6002, 6.002, logs=whole)
    room = replay_head_room.head_room([long, piece])
    assert room is not None
    assert (room.of, room.is_judged) == ("log", True)
    assert room.normal_per_s == pytest.approx(6002 / 64)
    [said] = replay_head_room.verdict_lines([long, piece])
    assert "the log's average load (93.8 calls/s over 1 min 4 s)" in said
    assert "1000 % of its busiest second (100 calls)" in said
    [said] = replay_head_room.verdict_lines([cut, piece])
    assert "the part of the log that was replayed (its first 4.0 s: 0.50" in said
    [said] = replay_head_room.verdict_lines([short, piece])
    assert "too short to judge" in said


def test_head_room_is_not_told_of_calls_that_failed_or_of_a_database_that_was_down(tmp_path: Path) -> None:
    timed, hose = {"kind": "time_synchronized", "speed": "1x"}, {"kind": "fire_hose"}
    with Store(tmp_path / "s.db") as store:
        sound = replay_record(store, hose, 6000, 6.0, "duration")
        few = replay_record(store, timed, 995, 10.0, "duration", errors=5)
        failed = replay_record(store, timed, 750, 10.0, "duration", errors=250)
        down = replay_record(store, hose, 6000, 6.0, "duration", away_ns=2 * 10**9)
    # What is failed within a per cent is due all the same.
    room = replay_head_room.head_room([sound, few])
    assert room is not None
    assert room.normal_per_s == pytest.approx(100)
    assert replay_head_room.head_room([sound, failed]) is None
    [said] = replay_head_room.verdict_lines([sound, failed])
    assert "Headroom: not computed, because 250 of 1,000 calls failed in run" in said
    assert replay_head_room.head_room([down, few]) is None
    [said] = replay_head_room.verdict_lines([down, few])
    assert "could not be reached for 2.0 s of run" in said


def test_a_last_piece_of_an_interval_draws_no_drop(tmp_path: Path) -> None:
    end = support.phase_end(replay={"drivers": [driver_end()], "by_stream": []})
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    spans = [(0, support.SECOND), (support.SECOND, 2 * support.SECOND)]
    for last_ns, kept in ((5 * support.MS, 2), (700 * support.MS, 3)):
        pieces = [*spans, (2 * support.SECOND, 2 * support.SECOND + last_ns)]
        events = [support.interval(*piece, support.cell([1_000_000] * 10)) for piece in pieces]
        with Store(tmp_path / "s.db") as store:
            record = store.record(support.add_run(store, [*events, end], plan_=plan))
        assert len(replay_disks.course(record)) == kept


def test_a_percentile_of_too_few_calls_is_not_measured(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        few = replay_record(store, {"kind": "fixed", "rate_per_s": 10.0}, 40, 4.0)
        many = replay_record(store, {"kind": "fixed", "rate_per_s": 500.0}, 2000, 4.0)
    limit = Limit("p99", 500_000)
    assert replay_head_room.verdict_lines([few], limit) == [
        "p99 response within 500 µs: not measured: too few calls for p99 at 10.0 calls/s."
    ]
    assert replay_head_room.verdict_lines([many], limit) == ["p99 response within 500 µs: not at any offered rate."]
    assert replay_head_room.verdict_lines([many], Limit("p99", 2_000_000)) == [
        "p99 response within 2.00 ms: at least 500 calls/s, the highest rate tried."
    ]


def test_states_of_the_server_say_who_ended_the_connection() -> None:
    said = {state: replay_pages.sqlstate_words(state) for state in ("57P01", "57P02", "57P03", "57014", "42P01")}
    assert said == {
        "57P01": "server shut down, or connection ended by an administrator",
        "57P02": "server crashed",
        "57P03": "server starting or shutting down",
        "57014": "canceled, as by statement_timeout",
        "42P01": "syntax or access rule",
    }


def test_times_of_a_rate_that_was_not_kept_tell_how_long_the_run_was(tmp_path: Path) -> None:
    pace = {"kind": "fixed", "rate_per_s": 1000.0}
    with Store(tmp_path / "s.db") as store:
        behind = replay_record(store, pace, 2440, 4.0, "duration", unsent=1560)
        kept_up = replay_record(store, pace, 4000, 4.0, "duration")
    (said,) = replay_answer([behind]).sentences
    assert "610 calls/s, but only 61 % of the calls that were due could be sent, so response times depend" in said
    assert "99 % within" not in said
    assert "could be sent in 1 of 2 repetitions" in replay_answer([behind, kept_up]).sentences[0]
    assert "99 % within 1.00 ms" in replay_answer([kept_up]).sentences[0]
    ((*_, row),) = [replay_pages.page_rows([behind])]
    told = dict(zip(replay_pages.PAGE_COLUMNS, row, strict=True))
    times = ("mean", "p50", "p95", "p99", "max", "mean of max")
    assert {told[name] for name in times} == {"1.00 ms‡"}
    assert told["last byte"] == "1.00 ms"
    assert not any("‡" in cell for cell in replay_pages.page_rows([kept_up])[-1])
    points = replay_head_room.offered_points([behind, kept_up])
    marked = [[cell.endswith("‡") for cell in replay_head_room.curve_row(point)[2:-3]] for point in points]
    assert marked == [[True] * 4, [False] * 4]
    page = {table.title: table for table in replay_report.tables([behind])}
    assert page["Measure 1,000/s: response time by page"].note.startswith(
        "‡: the queue grew, or requests that were due"
    )


def test_calls_that_a_driver_had_not_read_when_it_ended_were_due_as_well(tmp_path: Path) -> None:
    """A driver that is behind reads only so far ahead: of 4,000 calls that were due it knew 3,000."""
    pace = {"kind": "fixed", "rate_per_s": 1000.0}
    with Store(tmp_path / "s.db") as store:
        behind = replay_record(store, pace, 1000, 4.0, "duration", unsent=2000)
        ended = replay_record(store, pace, 1000, 4.0, "end of log", unsent=2000)
        few = replay_record(store, pace, 3900, 4.0, "duration", unsent=10)
    assert [sent(one).unsent for one in (behind, ended, few)] == [3000, 2000, 10]
    assert "only 25 % of the calls that were due" in replay_answer([behind]).sentences[0]
    assert replay_head_room.offered_points([behind])[0].unsent == 3000


def test_calls_with_other_rows_are_in_the_answer_and_fail_the_check(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        record = replay_record(store, {"kind": "fire_hose"}, 2698, 27.0, diverged=300)
        sound = replay_record(store, {"kind": "fire_hose"}, 2698, 27.0)
    said = "300 of 2,698 calls returned another number of rows than expected"
    assert f"No call failed. {said}" in replay_answer([record]).belief
    assert _figures(run_figures(sound).phases[0])[0] == "99.9 calls/s"
    assert "number of rows" not in replay_answer([sound]).belief
    assert said in why_failed([record], 0.01, check=True)[0]
    assert why_failed([record], 0.01, check=False) == why_failed([sound], 0.01, check=True) == []


@pytest.mark.parametrize(
    ("early", "late", "ours", "said"),
    [
        (1000, 10, 1.0, "A cold start: 1,000 disk reads per 100 calls and 100 calls/s in the first 10 s, 10.0 and"),
        (1000, 10, 0.1, "A cold start: at least 91.0 disk reads per 100 calls"),  # of 10,000 reads, 9,090 by others
        (1000, 10, 0.02, ""),
        (1000, 300, 1.0, "A cold start: 1,000 disk reads"),
        (1000, 300, 0.5, ""),  # 6,500 reads of the server, which may have been spread evenly
        (1000, 10, 0.95, "A cold start: at least 949 disk reads per 100 calls"),
        (1000, 900, 1.0, ""),
    ],
)
def test_reads_of_others_are_no_cold_start(tmp_path: Path, early: int, late: int, ours: float, said: str) -> None:
    """100 calls/s for 20 s; the device reads so many a second, of which the server made a part."""
    reads = [0]
    for second in range(20):
        reads.append(reads[-1] + (early if second < 10 else late))
    total = {"read_requests": reads[-1], "read_bytes": reads[-1] * 4096}
    series = {"at_ns": [at * support.SECOND for at in range(21)], "read_requests": reads}
    part = ForeignPart(
        device_bytes=total["read_bytes"], device_requests=reads[-1], ours_bytes=round(total["read_bytes"] * ours),
        ours_requests=0, copies=1, foreign_bytes=None, seen=None,
    )  # fmt: skip
    device = WatchedDevice(name="sdb", roles=["target"], delta=total, series=series)
    sheet = WatchSheet(devices={"8:16": device}, foreign=ForeignIo(known=True, read=part))
    cell = support.cell([1_000_000] * 100, operation="call")
    spans = [(at * support.SECOND, (at + 1) * support.SECOND) for at in range(20)]
    events = [support.interval(*span, cell, index=at) for at, span in enumerate(spans)]
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    with Store(tmp_path / "s.db") as store:
        events.append(support.phase_end(end_ns=spans[-1][1]))
        record = store.record(support.add_run(store, events, plan_=plan, watch=RunWatch(targets=[sheet])))
    found = replay_served.cold_words(record)
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("reads", "others_share", "calls_said"),
    [
        (40, 0.0, "served from the disks: 40.0 disk reads per 100 calls"),
        (40, 0.4, "served from the disks: 24.0 disk reads per 100 calls, estimated by bytes"),
        # By bytes the server made 4 of 40 reads; of 4 KiB each they were 32.
        (40, 0.9, "not known whether from memory or from disks: other programs read more from the servers' devices"),
        (40, 0.99, "served from memory: 0.40 disk reads per 100 calls, estimated by bytes; the figures show nothing"),
    ],
)
def test_reads_of_a_server_beside_greater_readers_have_no_verdict(
    tmp_path: Path, reads: int, others_share: float, calls_said: str
) -> None:
    """100 calls, and reads of 32 KiB: at the most, the server's bytes are eight times as many reads."""
    size = reads << 15
    part = ForeignPart(
        device_bytes=size, device_requests=reads, ours_bytes=round(size * (1 - others_share)), ours_requests=0,
        copies=1, foreign_bytes=None, seen=None,
    )  # fmt: skip
    total = {"read_requests": reads, "read_bytes": size}
    device = WatchedDevice(name="sdb", roles=["target"], delta=total)
    sheet = WatchSheet(devices={"8:16": device}, foreign=ForeignIo(known=True, read=part))
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    events = [support.interval(0, support.SECOND, support.cell([1_000_000] * 100, operation="call"))]
    with Store(tmp_path / "s.db") as store:
        record = store.record(
            support.add_run(store, [*events, support.phase_end()], plan_=plan, watch=RunWatch(targets=[sheet]))
        )
    found = replay_served.served([record])
    assert replay_served.served_words(found).startswith(calls_said)
    unknown = calls_said.startswith("not known")
    assert (found.document().where == "unknown") is unknown
    assert ("stop these programs and replay again" in replay_served.served_words(found)) is unknown
    warned = {warning.id for warning in replay_warnings.replay_warnings(record, [sheet])}
    assert ("served_from_memory" in warned) is calls_said.startswith("served from memory")


def driver_shares(intervals: dict[int, int], drivers: int) -> list[Json]:
    """What drivers did in intervals of 1 s, of which each has sent calls in so many."""
    return [
        {
            "event": "drivers", "phase": 0, "start_ns": at * support.SECOND, "end_ns": (at + 1) * support.SECOND,
            "drivers": [
                {"driver": driver, "requests": 1, "errors": 0, "bytes": 0, "loop_busy_share": 0.0,
                 "drain": at >= intervals.get(driver, 0)}
                for driver in range(drivers)
            ],
        }
        for at in range(20)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "share", "said"),
    [
        ({0: 20, 2: 20}, 2 / 3, "Only 200 of 300 calls/s were offered on average: driver 2 had no calls"),
        ({0: 20, 1: 8, 2: 20}, 0.8, "Only 240 of 300 calls/s were offered on average: the calls of driver 2 ended"),
        ({0: 20, 1: 19, 2: 20}, 1.0, ""),
    ],
)
def test_a_rate_that_drivers_without_calls_did_not_offer_is_not_called_offered(
    tmp_path: Path, sent: dict[int, int], share: float, said: str
) -> None:
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fixed", "rate_per_s": 300.0}}}
    told = [driver_end(driver=driver, calls=2000 if driver in sent else 0) for driver in range(3)]
    end = support.phase_end(end_ns=20 * support.SECOND, replay={"drivers": told, "by_stream": []})
    seconds = [
        support.interval(at * support.SECOND, (at + 1) * support.SECOND, support.cell([1_000_000] * 200), index=at)
        for at in range(20)
    ]
    with Store(tmp_path / "s.db") as store:
        events = [*seconds, *driver_shares(sent, 3), end]
        record = store.record(support.add_run(store, events, plan_=plan))
    (point,) = replay_head_room.offered_points([record])
    assert point.offered_per_s == pytest.approx(300 * share)
    warned = [warning.text for warning in replay_warnings.replay_warnings(record, []) if warning.id == "rate_unoffered"]
    failed = why_failed([record], 0.01, check=True)
    assert (bool(warned), len(failed)) == (bool(said), bool(said))
    assert all(text.startswith(said) for text in warned)
    assert why_failed([record], 0.01, check=False) == []


@pytest.mark.parametrize(
    ("changes", "megabytes", "said"),
    [
        ({}, 1, None),
        ({"keeps_pace": False, "driver_lag": lag(30_000_000)}, 1, "Driver 1 did not keep its pace"),
        ({"starved_share": 0.4}, 1, "for its log to be read"),
        ({"calls": 0, "errors": 0}, 1, "No call was made"),
        (
            {"logs": {"requests": 9, "calls": 9, "logs": [{"path": "/a.gz", "torn": "early end"}]}},
            1,
            "/a.gz is damaged: early end",
        ),
        ({"logs": {"requests": 100, "calls": 40}}, 1, "Only 40.0 % of the requests"),
        ({}, 11, "88 Mbit/s of results over eth1, which has 100"),
    ],
)
def test_what_spoils_a_replay_is_said(tmp_path: Path, changes: Json, megabytes: int, said: str | None) -> None:
    """The study's driver behind 100 Mbit/s, and its like."""
    link = {"device": "eth1", "megabit_per_s": 100}
    target = {"path": "postgresql://a@h:1/b", "kind": "postgresql", "size_bytes": 0, "link": link, "unreachable": None}
    share: Json = {"driver": 0, "requests": 10, "errors": 0, "bytes": megabytes * 10**6, "drain": False}
    share["loop_busy_share"] = 0.1
    told = {"event": "drivers", "phase": 0, "start_ns": 0, "end_ns": 10**9, "drivers": [share]}
    events = [told, support.phase_end(replay={"drivers": [driver_end(**changes)], "by_stream": []})]
    plan = {**support.plan(), "kind": "replay", "replay": {"pace": {"kind": "fire_hose"}}}
    with Store(tmp_path / "s.db") as store:
        record = store.record(support.add_run(store, events, plan_=plan))
    record = replace(record, info=replace(record.info, engine=support.start_event(targets=[target])))
    texts = [warning.text for warning in replay_warnings.replay_warnings(record, [])]
    assert len(texts) == (said is not None)
    assert said is None or said in texts[0]
