"""Jobs from their first moment: what is stopped, killed or never begun is said, and blocks nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from brickyard import jobs as jobs_module
from brickyard.jobs import FIRST_WORD_S, MARK, ORDER, STATE, Jobs, JobState, Order, StartedJob
from brickyard.outputs import folder, write_whole


def ended(jobs: Jobs, name: str, within_s: float = 60) -> StartedJob:
    until_s = time.monotonic() + within_s
    while jobs.named(name).outcome in ("starting", "running"):
        assert time.monotonic() < until_s, "it goes on"
        time.sleep(0.02)
    return jobs.named(name)


def order_of(tmp_path: Path) -> Order:
    """One that would last for an hour."""
    changes = ["duration=1h"]
    file = tmp_path / "scratch.brick"
    return Order(kind="run", name="database-wal", targets=[str(file)], changes=changes, store=str(tmp_path / "runs.db"))


def test_a_job_that_is_stopped_at_once_is_interrupted_though_its_starter_ignores_the_signal(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job = jobs.start(order_of(tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)
    assert job.is_running, "before its first word"
    assert job.outcome == "starting"
    jobs.stop(job.name)
    found = ended(jobs, job.name)
    assert found.outcome == "interrupted", found.state


def test_a_job_that_is_killed_before_its_first_word_is_lost_and_frees_its_target(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs")
    job = jobs.start(order_of(tmp_path))
    assert job.state is not None
    os.kill(job.state.pid, signal.SIGKILL)
    assert ended(jobs, job.name).outcome == "lost"
    assert not (jobs.home / job.name / STATE).exists(), "it was to be killed before it said anything"
    assert list(jobs.running()) == []
    again = jobs.start(order_of(tmp_path))
    jobs.stop(again.name)
    assert ended(jobs, again.name).outcome == "interrupted"


def test_an_order_whose_writer_was_killed_is_lost_after_a_minute(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs")
    place = tmp_path / "jobs" / "0123456789abcdef"
    folder(jobs.home)
    folder(place)
    write_whole(place / ORDER, msgspec.json.encode(order_of(tmp_path)), MARK)
    assert jobs.named(place.name).outcome == "starting"
    assert [job.name for job in jobs.running()] == [place.name]
    then_s = time.time() - FIRST_WORD_S - 1
    os.utime(place / ORDER, (then_s, then_s))
    assert jobs.named(place.name).outcome == "lost"
    assert list(jobs.running()) == []


def over(jobs: Jobs, number: int) -> Path:
    """A job that has ended long ago."""
    folder(jobs.home)
    place = jobs.home / f"{number:016x}"
    folder(place)
    order = Order(kind="run", name="database-wal")
    state = JobState(pid=1, start_ticks=None, boot_id=None, outcome="done", runs=[number])
    write_whole(place / ORDER, msgspec.json.encode(order), MARK)
    write_whole(place / STATE, msgspec.json.encode(state), MARK)
    os.utime(place, (1e9 + number, 1e9 + number))
    return place


def test_a_job_that_has_ended_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, read = Jobs(tmp_path / "jobs"), list[str]()
    for number in range(20):
        over(jobs, number)
    reading = jobs_module._read

    def counted(place: Path) -> StartedJob | None:
        read.append(place.name)
        return reading(place)

    monkeypatch.setattr(jobs_module, "_read", counted)
    for _ in range(3):
        assert [job.state.runs for job in jobs.all() if job.state is not None] == [[number] for number in range(20)]
    assert len(read) == 20
    new = over(jobs, 20)
    assert jobs.all()[-1].name == new.name


def test_of_jobs_that_have_ended_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "OVER_KEPT", 5, raising=False)
    jobs = Jobs(tmp_path / "jobs")
    places = [over(jobs, number) for number in range(12)]
    (places[0] / "mine.txt").write_text("a stranger's file stays")
    os.utime(places[0], (1e9, 1e9))
    job = jobs.start(order_of(tmp_path))
    jobs.stop(job.name)
    assert ended(jobs, job.name).outcome == "interrupted"
    assert [place.exists() for place in places] == [True, *[False] * 6, *[True] * 5]
    assert [one.name for one in jobs.all()] == [*(place.name for place in places[7:]), job.name]
