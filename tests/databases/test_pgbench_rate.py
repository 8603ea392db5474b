"""pgbench with a rate: a server that does not keep up is overloaded, as the target of any other open loop is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard import cli, rulers
from brickyard.analysis.databases import pgbench
from brickyard.analysis.figures.named import FIGURES, measured_of
from brickyard.analysis.figures.sending import length_told, sent
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.figures.workload import demand_words
from brickyard.analysis.judging.answers import belief
from brickyard.analysis.judging.caveats_site import processor
from brickyard.analysis.judging.differing import differing_between
from brickyard.analysis.judging.judged import Judged
from brickyard.analysis.judging.run_figures import run_figures
from brickyard.analysis.judging.verdict import verdict
from brickyard.databases.ephemeral import Server
from brickyard.databases.pgbench_plan import read_changes
from brickyard.schema import RunWatch, WatchSheet, plan_document
from brickyard.store import Record, Store
from support import MS, SECOND, add_run, cell, interval, phase_end


def measured(
    place: Path, *changes: str, waits_ms: list[list[int]], watch: RunWatch | None = None, **end: Any
) -> Record:
    """A run whose transactions of each second waited so many milliseconds in all, 1 of which the server took."""
    spans = []
    for second, waits in enumerate(waits_ms):
        response = cell([wait * MS for wait in waits])["measures"]["response"]
        measures = {**cell([MS] * len(waits))["measures"], "response": response, "lateness": response}
        told = cell([MS] * len(waits), operation="call", depth_max=2) | {"bytes": 0, "measures": measures}
        spans.append(interval(second * SECOND, (second + 1) * SECOND, told))
    plan = plan_document(read_changes("/data/pg", ["clients=2", *changes]).plan())
    with Store(place / "store.db") as store:
        run = add_run(
            store,
            [*spans, phase_end(end_ns=len(spans) * SECOND, **end)],
            plan_=plan,
            profile="pgbench",
            engine="pgbench",
            watch=watch,
        )
        return store.record(run)


def judged(record: Record, text: str) -> tuple[str, str]:
    found = verdict(record, rulers.read(text)).decided
    return found.word, found.note


def test_a_server_that_does_a_small_part_of_the_rate_is_overloaded(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "store.db")]
    changes = ("scale=1", "clients=1", "rate=1000000", "duration=1s", "script=select-only")
    words = [word for change in changes for word in ("--set", change)]
    assert cli.main(["run", "pgbench", postgres.dsn, *words, "--check", "p99<=10s", *store]) == 1
    shown = capsys.readouterr().out
    assert "transactions/s at an offered rate of 1,000,000/s: " in shown
    assert "of the transactions that were due could be sent with at most 1 transaction in flight" in shown
    assert "‡" in shown
    assert "*: the samples" not in shown
    assert "open loop at 1,000,000/s" in shown
    assert "were never sent: the database did not keep up with at most 1 transaction in flight" in shown
    assert cli.main(["runs", *store]) == 0
    assert "done, overloaded" in capsys.readouterr().out


def test_what_was_due_and_not_begun_counts_as_unsent(tmp_path: Path) -> None:
    record = measured(tmp_path, "rate=200", "duration=3s", waits_ms=[[5] * 60] * 3)
    told = sent(record, 0)
    assert (told.sent, told.unsent, told.noun) == (180, 420, "transactions")
    said = "only 30 % of the transactions that were due could be sent with at most 2 transactions in flight"
    assert judged(record, "p99<=10s") == ("fail", said)
    assert judged(record, "iops>=200")[0] == "not known"
    ((_, columns, (row,)), *_) = pgbench.tables(record)
    cells = dict(zip(columns, row, strict=True))
    assert (cells["offered/s"], cells["p50"], cells["max"]) == ("200", "5.00 ms‡", "5.00 ms‡")
    assert pgbench.words(record)[0].startswith(f"60.0 transactions/s at an offered rate of 200/s: {said}, so response")
    assert demand_words([record]) == "2 workers, open loop at 200/s"


def test_with_a_number_of_transactions_they_are_sent_too_late(tmp_path: Path) -> None:
    """300 of each of two clients at 200/s are due within 3 s, and took 10."""
    changes = ("rate=200", "transactions=300")
    record = measured(tmp_path, *changes, waits_ms=[[5] * 60] * 10, reason="requests")
    told = sent(record, 0)
    assert (told.sent, told.unsent, told.in_time) == (180, 420, True)
    assert "only 30 % of the transactions that were due could be sent in time" in pgbench.words(record)[0]


def test_what_chance_explains_is_no_overload(tmp_path: Path) -> None:
    """400 are due on average, give or take 20; 350 of them are 2.5 standard deviations less."""
    record = measured(tmp_path, "rate=200", "duration=2s", waits_ms=[[5] * 175] * 2)
    assert sent(record, 0).unsent == 0
    assert length_told(record) == {}
    assert judged(record, "p50<=10s") == ("pass", "")
    assert judged(record, "iops>=250") == (
        "not known",
        "the profile offers only 200/s, which the storage kept up with",
    )


def test_response_times_that_grow_are_a_queue_that_grows(tmp_path: Path) -> None:
    """19 of 20 that are due each second are done, which a count of 400 hardly tells from chance."""
    waits = [[50 + 1000 * second] * 48 for second in range(8)]
    record = measured(tmp_path, "rate=50", "duration=8s", waits_ms=waits)
    assert sent(record, 0).unsent == 0
    (told,) = length_told(record).values()
    assert told.kept_up
    assert told.words.startswith("the queue grew: ")
    assert judged(record, "p50<=10s")[0] == "not known"


def test_a_closed_loop_leaves_nothing_unsent(tmp_path: Path) -> None:
    record = measured(tmp_path, "duration=3s", waits_ms=[[5] * 60] * 3)
    assert sent(record, 0).unsent == 0
    assert demand_words([record]) == "2 workers × queue depth 1"
    assert pgbench.words(record)[0].startswith("60.0 transactions/s, the slowest")


def test_what_a_transaction_moves_is_not_known(tmp_path: Path) -> None:
    record = measured(tmp_path, "duration=3s", waits_ms=[[1] * 60] * 3)
    (found,) = measured_of(record, totals(record), FIGURES["mib_per_s"])
    assert (found.value, found.trouble) == (None, "it is not known how many bytes transactions move")
    assert [part.values["iops"] for part in run_figures(record).parts] == [pytest.approx(60)]
    assert [part for part in run_figures(record).parts if "mib_per_s" in part.values] == []
    assert judged(record, "throughput>=1MiB/s") == ("not known", "it is not known how many bytes transactions move")


def test_cpus_that_others_kept_busy_leave_the_limit_open(tmp_path: Path) -> None:
    """Four busy loops beside pgbench halved its rate, and "the generator was not the limit" was said."""

    def believed(busy: float) -> str:
        cpu = {"busy_share": busy, "each": {"cpu0": {}, "cpu1": {}}}
        place = tmp_path / f"{busy}"
        place.mkdir()
        watch = msgspec.convert({"targets": [{"cpu": cpu}]}, RunWatch)
        return belief([measured(place, "duration=3s", waits_ms=[[1] * 60] * 3, watch=watch)])

    assert "The CPUs of this host were busy nearly all of the time" in believed(0.99)
    assert "is not known" in believed(0.99 - 0.1)
    assert "The generator was not the limit." in believed(0.5)


def test_cpus_that_others_kept_busy_are_named_where_runs_are_compared(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "Differed: nothing of what is recorded" was said of a run beside busy loops and one on idle CPUs."""
    place = tmp_path / "store.db"
    words = [word for change in ("scale=1", "clients=1", "rate=50", "duration=2s") for word in ("--set", change)]
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as ending:
        for core in cores:
            loop = subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"])
            ending.callback(loop.wait)
            ending.callback(loop.kill)
        assert cli.main(["run", "pgbench", postgres.dsn, *words, "--store", str(place)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The CPUs of this host were" in shown
    with Store(place, must_exist=True) as store:
        full = store.record(1)
    (own,) = [warning for warning in full.info.warnings if warning.id == "cpu_full"]
    assert own.text.endswith("how long calls waited for a CPU is not known.")
    idle = replace(full, info=replace(full.info, id=2, warnings=[w for w in full.info.warnings if w is not own]))
    assert own.text in {item.values[0][0] for item in differing_between([full], [idle])}
    # A server that is made for one run has a folder of its own.
    engine = json.loads(re.sub("brickyard-postgres-[^/]+/", "brickyard-postgres-other/", json.dumps(idle.info.engine)))
    moved = replace(idle, info=replace(idle.info, engine=engine))
    assert moved.info.opened != idle.info.opened
    assert not [item for item in differing_between([idle], [moved]) if item.label == "Database"]


def test_cpus_that_were_idle_are_not_told_of() -> None:
    def said(busy: float) -> list[str]:
        cpu = {"busy_share": busy, "each": {"cpu0": {}, "cpu1": {}}}
        watches = msgspec.convert({"targets": [{"cpu": cpu}]}, RunWatch).targets
        plan = read_changes("/data/pg", ["clients=2"]).plan()
        return [warning.id for warning in processor(Judged(plan=plan, watches=[one for one in watches if one]))]

    assert said(0.8) == []
    assert said(0.9) == ["cpu_full"]
    cpu = {"busy_share": 0.9, "each": {"cpu0": {}}}
    assert not list(processor(Judged(watches=[msgspec.convert({"cpu": cpu}, WatchSheet)]))), (
        "the engine counts its waits"
    )
