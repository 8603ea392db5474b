"""Jobs from their first moment: what is stopped, killed or never begun is said, and blocks nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec

from brickyard.jobs import FIRST_WORD_S, MARK, ORDER, STATE, Jobs, Order, StartedJob
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
