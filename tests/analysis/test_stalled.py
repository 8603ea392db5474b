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


def test_a_stream_of_several_phases_has_its_times_in_each(tmp_path: Path) -> None:
    names = ("before", "during", "after")
    load = plan(stream())
    load["phase"] = [{**load["phase"][0], "name": name, "stream": [stream(name=s) for s in "abc"]} for name in names]
    told = []
    for phase, slower in enumerate((1, 20, 1)):
        cells = [cell([slower * MS] * 100, stream=0), *(cell([MS] * 100, stream=number) for number in (1, 2))]
        told += [
            interval(phase * SECOND, (phase + 1) * SECOND, *cells, phase=phase),
            phase_end(phase=phase, end_ns=(phase + 1) * SECOND),
        ]
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, told, plan_=load))
    said = answer([record], {}).sentences[0]
    assert "9 streams in 3 phases" in said
    assert "Mean response times over the phases: a 1.00 ms in before, 20.0 ms in during, 1.00 ms in after; b " in said
