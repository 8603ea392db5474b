"""A time in which nothing ended although requests were in flight is named; percentiles do not show it."""

from __future__ import annotations

from pathlib import Path

from brickyard.analysis.figures.stalls import Stall, stalls
from brickyard.analysis.judging.answers import answer
from brickyard.store import Record, Store
from brickyard.store.record import Json
from brickyard.study.running import circumstances
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

QUIET = [MS] * 100


def run(path: Path, *seconds: list[int], drain: list[int] | None = None, asked: Json | None = None) -> Record:
    told = [
        interval(n * SECOND, (n + 1) * SECOND, *([cell(values)] if values else []), index=n)
        for n, values in enumerate(seconds)
    ]
    end = len(seconds)
    last = [interval(end * SECOND, (end + 3) * SECOND, cell(drain), index=end, drain=True)] if drain else []
    with Store(path) as store:
        return store.record(add_run(store, [*told, *last, phase_end()], plan_=asked or plan(stream())))


def test_a_stall_is_named_in_the_answer_and_warned_of(tmp_path: Path) -> None:
    waited = [MS] * 20 + [2400 * MS] * 8
    record = run(tmp_path / "1.db", QUIET, QUIET, [], [], waited, QUIET, QUIET)
    assert stalls(record) == [Stall(0, 2 * SECOND, 2 * SECOND)]
    said = answer([record], {}).belief
    assert "No request ended for at least 2.00 s, from 2.00 s of the run on, although requests were in flight." in said
    with Store(tmp_path / "2.db") as store:
        (told,) = [one for one in circumstances.warnings(store, record, []) if one.id == "stalled"]
    assert "no request ended for at least 2.00 s, from 2.00 s of the run on" in told.text


def test_what_is_no_stall_is_not_called_one(tmp_path: Path) -> None:
    def found(name: str, *seconds: list[int], **more: object) -> list[Stall]:
        return stalls(run(tmp_path / f"{name}.db", *seconds, **more))  # type: ignore[arg-type]

    assert not found("nothing was in flight", QUIET, QUIET, [], [], QUIET, QUIET)
    assert not found("slow requests", [], [2 * SECOND], [], [2 * SECOND], [], [2 * SECOND])
    assert not found("drain", QUIET, QUIET, QUIET, drain=[3 * SECOND] * 4)
    assert found("to the end", QUIET, QUIET, QUIET, [], [], drain=[3 * SECOND] * 4)
    ramp = {"knob": "workers", "from": 1, "to": 4, "factor": 2, "every": "1s"}
    waited = [2 * SECOND] * 4
    assert not found("ramp", QUIET, [], waited, QUIET, asked=plan(stream(), ramp=ramp))
