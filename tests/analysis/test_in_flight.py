"""Requests in flight: what a load may have, and what it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.analysis.figures.moments import moments
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.figures.traced import done_of
from brickyard.schema import in_flight_total
from brickyard.schema.plan import OtherStream, Stream
from brickyard.store import Record, Store
from support import add_run, cell, interval, phase_end, plan, stream

MS, SECOND = 10**6, 10**9


def two_streams(tmp_path: Path) -> Record:
    """The second has a depth of 2 and reaches it."""
    asked = plan()
    asked["phase"] = [{**asked["phase"][0], "stream": [stream(), {**stream(), "name": "other", "depth": 2}]}]
    late = cell([MS] * 2000, stream=1, depth_max=2)
    late["measures"]["lateness"] = late["measures"]["service"]
    events = [
        interval(0, SECOND, cell([MS] * 100, depth_max=3), late),
        interval(SECOND, 2 * SECOND, cell([MS] * 100, depth_max=1), cell([MS] * 100, stream=1, depth_max=1)),
        phase_end(),
    ]
    with Store(tmp_path / "runs.db") as store:
        return store.record(add_run(store, events, plan_=asked))


def test_what_is_in_flight_adds_up_over_streams_and_not_over_time(tmp_path: Path) -> None:
    record = two_streams(tmp_path)
    assert [row.in_flight_bound for row in totals(record)] == [3, 2]
    assert [m.in_flight_bound for m in moments(record.info, record.intervals, list(enumerate(record.costs)))] == [
        5,
        2,
    ]


def test_a_stream_of_several_that_reached_its_limit_is_why_a_trace_was_late(tmp_path: Path) -> None:
    assert "the limit of 2 requests in flight was reached" in done_of(two_streams(tmp_path)).late_because


@pytest.mark.parametrize(
    ("load", "total"),
    [
        (Stream(workers=3, depth=4), 12),
        (OtherStream(name="a", workers=None, depth=4), 4),
        (OtherStream(name="a", workers=3, depth=None), 0),
    ],
)
def test_in_flight_in_total_are_workers_times_depth(load: Stream | OtherStream, total: int) -> None:
    assert in_flight_total(load) == total
