"""The runner and Ctrl-C, with a core that does as it is told."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.schema import RunOptions, plan_of
from brickyard.store import Json, Store
from brickyard.study.running.circumstances import warnings
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Runner, RunSpec, Silent
from brickyard.study.shipped.characterize import Characterization, Mode
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, start_event, stream


class Core:
    """A run whose events are given beforehand."""

    def __init__(self, *batches: list[Json]) -> None:
        self.batches = [[json.dumps(event) for event in batch] for batch in batches]
        self.said: list[str] = []

    def events(self, timeout_ms: int) -> list[str]:
        if not self.batches:
            raise RuntimeError("the device went away")
        return self.batches.pop(0)

    def stop(self) -> None:
        self.said.append("stop")

    def abandon(self) -> None:
        self.said.append("abandon")

    def finished(self) -> bool:
        return False


def use(monkeypatch: pytest.MonkeyPatch, *cores: Core) -> None:
    waiting = list(cores)
    monkeypatch.setattr(_core, "start", lambda *_: waiting.pop(0))


BEGIN = [start_event(), {"event": "phase", "phase": 0, "name": "measure", "start_ns": 0}]
END: Json = {"event": "end", "end_ns": 3 * SECOND, "outcome": "done"}
SPEC = RunSpec(profile="p", plan=plan_of(plan()), targets=["/nowhere/a"])


def test_each_batch_is_committed_before_the_next_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "runs.db"
    seen: list[int] = []

    class Watched(Core):
        def events(self, timeout_ms: int) -> list[str]:
            seen.append(sqlite3.connect(place).execute("SELECT count(*) FROM interval_cost").fetchone()[0])
            return super().events(timeout_ms)

    first, second = (interval(n * SECOND, (n + 1) * SECOND, cell([MS])) for n in range(2))
    use(monkeypatch, Watched(BEGIN, [first], [second], [phase_end(), END]))
    with Store(place) as store:
        result = Runner(store, Silent(), Interrupt()).run(SPEC)
        record = store.record(result.run)
    assert seen == [0, 0, 1, 2]
    assert record.info.outcome == "done"
    assert len(record.info.profile_hash) == 64


def test_a_run_that_fails_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Core(BEGIN, [interval(0, SECOND, cell([MS] * 5))]))
    with Store(tmp_path / "runs.db") as store:
        result = Runner(store, Silent(), Interrupt()).run(SPEC)
        record = store.record(result.run)
    assert (result.outcome, result.message) == ("failed", "the device went away")
    assert record.info.message == "the device went away"
    assert record.intervals[0].requests == 5


def test_what_the_core_refuses_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("region: ends\nbeyond the target")

    monkeypatch.setattr(_core, "start", refuse)
    with Store(tmp_path / "runs.db") as store:
        with pytest.raises(BadInputError, match="region: ends beyond the target"):
            Runner(store, Silent(), Interrupt()).run(SPEC)
        with pytest.raises(BadInputError):
            Characterization(store, Silent(), Interrupt(), Mode.QUICK).run("/nowhere/a", RunOptions(), [])
        assert store.runs() == []
        assert store.studies() == []


def test_the_first_ctrl_c_stops_the_second_abandons_the_third_ends(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    core = Core()
    with Interrupt() as interrupt:
        interrupt.attach(core)
        os.kill(os.getpid(), signal.SIGINT)
        assert core.said == ["stop"]
        os.kill(os.getpid(), signal.SIGINT)
        assert core.said == ["stop", "abandon"]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        later = Core()
        interrupt.attach(later)
        assert later.said == ["stop"]
    assert signal.getsignal(signal.SIGINT) == before


def test_sizes_below_the_alignment_are_left_out_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = start_event()
    start["targets"][0]["align_bytes"] = 4096
    asked: list[int] = []

    def begin(plan_json: str, *_: object) -> Core:
        (stream,) = json.loads(plan_json)["phase"][0]["stream"]
        asked.append(stream["request"][0]["size"])
        return Core([start, interval(0, SECOND, cell([MS])), phase_end(), END])

    monkeypatch.setattr(_core, "start", begin)
    with Store(tmp_path / "runs.db") as store:
        result = Characterization(store, Silent(), Interrupt(), Mode.QUICK).run("/nowhere/a", RunOptions(), [])
        assert store.studies()[0].outcome == "done"
    assert len(asked) == len(result.runs) == 36
    assert min(asked) == 4096
    assert result.notes == ["512 B, 1 KiB, 2 KiB left out: below the target's alignment of 4 KiB"]


def test_a_volatile_cache_is_told_by_what_the_run_writes_and_flushes(tmp_path: Path) -> None:
    drive = {"name": "sda", "major_minor": "8:0", "type": "disk", "queue": {"write_cache": "write back"}, "below": []}
    known = {"host": {}, "targets": [{"path": "/data/a file", "kind": "file", "stack": [drive]}]}
    with Store(tmp_path / "runs.db") as store:
        for operation, severity in (("read", "note"), ("write", "warning")):
            run = add_run(store, [interval(0, SECOND, cell([MS], operation=operation)), phase_end()], facts=known)
            found = {item.id: item.severity for item in warnings(store, store.record(run), [])}
            assert found["volatile_write_cache"] == severity
        for flushes, severities in ({"sync": "dsync"}, []), ({"flush_every": {"writes": 16}}, ["note"]):
            asked = plan(stream(operations={"write": 100}, **flushes))
            told = [interval(0, SECOND, cell([MS], operation="write")), phase_end()]
            run = add_run(store, told, facts=known, plan_=asked)
            found_now = warnings(store, store.record(run), [])
            assert [item.severity for item in found_now if item.id == "volatile_write_cache"] == severities


def test_a_full_disk_under_the_store_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from brickyard.cli import main

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "add_events", full)
    use(monkeypatch, Core(BEGIN, [END]))
    target = tmp_path / "target"
    target.write_bytes(bytes(1 << 20))
    assert main(["run", "sqlio-random-read-4", str(target)]) == 1
    assert capsys.readouterr().err.startswith("brickyard: the store: database or disk is full; ")
    with Store() as store:
        (run,) = store.runs()
    assert (run.outcome, run.message) == ("failed", "the store: database or disk is full")
