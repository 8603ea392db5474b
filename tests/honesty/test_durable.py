"""`durable` on real files: every method is measured, claims need more than noise, a power cut outweighs speeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brickyard import rulers
from brickyard._core import Histogram
from brickyard.analysis import Totals
from brickyard.analysis.figures.latency import Latency
from brickyard.analysis.figures.samples import sample
from brickyard.analysis.figures.totals import totals
from brickyard.analysis.judging.verdict import Finding
from brickyard.cli import main
from brickyard.databases import pg_test_fsync, programs
from brickyard.honesty import durable
from brickyard.honesty.durable import PAGE_BYTES, SIZES_BYTES, WRITERS, Method, WriteCell, plan_of
from brickyard.honesty.durable_figures import DurableWrite, commits, faster
from brickyard.honesty.log_rule import without_p99
from brickyard.schema import is_request
from brickyard.schema.plan import FlushCall, IoMode, SyncMode
from brickyard.store import Record, Store
from support import MS, SECOND

SAID = """1 second per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                       278.987 ops/sec    3584 usecs/op
        fdatasync                           220.141 ops/sec    4543 usecs/op
        fsync                               299.817 ops/sec    3335 usecs/op
        fsync_writethrough                              n/a
        open_sync                           267.970 ops/sec    3732 usecs/op

Compare file sync methods using two 8kB writes:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                        77.400 ops/sec   12920 usecs/op
"""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs, each as short as shows that it is made."""
    monkeypatch.setattr(durable, "EACH_NS", 40 * MS)
    monkeypatch.setattr(durable, "WARMUP_NS", 10 * MS)
    monkeypatch.setattr(durable, "INTERVAL_NS", 10 * MS)
    monkeypatch.setattr(durable, "HONESTY_NS", 100 * MS)
    monkeypatch.setattr(durable, "DIRTY_NS", 200 * MS)
    monkeypatch.setattr(durable, "ETCD_NS", SECOND // 2)


def test_each_method_makes_a_write_durable_as_postgresql_does() -> None:
    """open_* by the write itself and past the page cache, the others by a call after a write into it."""
    opened = plan_of((Method.OPEN_DATASYNC, Method.OPEN_SYNC), 512, IoMode.DIRECT)
    flushed = plan_of((Method.FDATASYNC, Method.FSYNC), 1, IoMode.BUFFERED)
    assert {phase.stream[0].sync for phase in opened.phase} == {SyncMode.DSYNC, SyncMode.SYNC}
    assert not any(phase.stream[0].flush_every for phase in opened.phase)
    calls = [phase.stream[0].flush_every for phase in flushed.phase]
    assert {call.call for call in calls if call} == {FlushCall.FDATASYNC, FlushCall.FSYNC}
    assert all(call and call.writes == 1 for call in calls)
    sizes = {phase.stream[0].request[0].size for phase in plan_of((Method.OPEN_SYNC,), 4096, IoMode.DIRECT).phase}
    assert sizes == set(SIZES_BYTES) - {512}, "nothing smaller than a sector is asked for"


@pytest.mark.usefixtures("brief")
def test_a_directory_gets_one_verdict_and_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "data"
    place.mkdir()
    given = ["durable", str(place), "--no-pg-test-fsync", "--store", str(tmp_path / "runs.db")]
    assert main([*given, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = {(item["method"], item["request_bytes"], item["writers"]): item for item in document["writes"]}
    assert {method for method, _, _ in found} == set(Method)
    assert {size for method, size, _ in found if method == "fdatasync"} == set(SIZES_BYTES)
    for method in ("fdatasync", "open_datasync"):
        assert {writers for name, _, writers in found if name == method} == set(WRITERS)
    for item in found.values():
        assert item["per_s"] > 0
    usual = found["fdatasync", PAGE_BYTES, 1]
    page = usual["per_s"]
    assert usual["low_per_s"] < page < usual["high_per_s"]
    assert [c["clients"] for c in document["commits"]] == [1, 8, 64]
    assert [c["most_per_s"] for c in document["commits"]] == pytest.approx([page * n for n in (1, 8, 64)])
    assert document["etcd"]["ruler"] == "etcd"
    assert "etcd's rule" in document["answer"][-1], "also where half a second has too few flushes for a p99"
    assert document["verdict"] in ("suspicious", "plausible", "no verdict")
    assert not list(place.iterdir())
    assert main(["show", "s1", "--store", str(tmp_path / "runs.db"), "--json"]) == 0
    answer = {name: document[name] for name in ("question", "answer", "belief")}
    assert json.loads(capsys.readouterr().out)["of_study"] == answer
    assert main(["report", "s1", "--store", str(tmp_path / "runs.db"), "-o", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page/report.html").read_text()
    ours = ("<svg", "PostgreSQL&#39;s choices", "The figures of each run")
    marks = (answer["question"], answer["answer"][0][:20], *ours)
    where = [page.index(mark) for mark in marks]
    assert where == sorted(where), "the answer, its picture and tables, and only then single runs"
    with Store(tmp_path / "runs.db") as store:
        records = [store.record(run) for run in document["runs"]]
    engines = {record.info.profile: record.info.engine for record in records}
    assert engines["durable-direct"]["engine"] == engines["durable-buffered"]["engine"] == "psync"
    assert engines["durable-buffered"]["io"] == "buffered"
    # Times are counted apart from rates: a writer spends its time in its writes and their flushes, and on nothing else.
    flushed = [record for record in records if record.info.profile == "durable-buffered"]
    assert len(flushed) == durable.REPETITIONS
    rows = [[r for r in totals(record) if r.phase == PHASE and is_request(r.operation)] for record in flushed]
    spent = [sum(map(time_of, of_record)) for of_record in rows]
    shares = [spent_ns / cell_ns for spent_ns, cell_ns in zip(spent, rates_of(flushed), strict=True)]
    assert all(0.3 < share < 1.5 for share in shares), shares


PHASE = list(durable.cells(Method.FDATASYNC, 1)).index(WriteCell(Method.FDATASYNC, PAGE_BYTES))


def time_of(row: Totals) -> float:
    return row.measures["service"].mean_ns


def rates_of(records: list[Record]) -> list[float]:
    """Time from one flush to the next."""
    rows = [row for record in records for row in totals(record) if (row.phase, row.operation) == (PHASE, "flush")]
    return [SECOND / row.iops for row in rows]


@pytest.mark.usefixtures("brief")
@pytest.mark.skipif(pg_test_fsync.program() is None, reason="pg_test_fsync is not installed")
def test_pg_test_fsync_stands_beside_in_its_own_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "data.brick"
    assert main(["durable", str(target), "--size", "64MiB", "--store", str(tmp_path / "runs.db")]) == 0
    shown = capsys.readouterr().out
    table = shown[shown.index("PostgreSQL's choices") :].splitlines()[3:7]
    assert [line.split()[0] for line in table] == list(Method)
    assert all(float(line.split()[-1].replace(",", "")) > 0 for line in table), "each has a figure of pg_test_fsync"
    assert "commits/s at most" in shown
    assert sorted(path.name for path in tmp_path.iterdir() if "runs.db" not in path.name) == ["data.brick"]


@pytest.mark.skipif(programs.from_wheel() is None, reason="the extra brickyard[database] is not installed")
def test_pg_test_fsync_of_the_wheel_does_where_no_other_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "DEBIAN", tmp_path)
    found = pg_test_fsync.program()
    assert found is not None
    assert found.endswith("/pginstall/bin/pg_test_fsync")


def test_lines_of_pg_test_fsync_are_read_by_method() -> None:
    assert pg_test_fsync.read(SAID) == {
        "open_datasync": 278.987,
        "fdatasync": 220.141,
        "fsync": 299.817,
        "open_sync": 267.970,
    }
    assert pg_test_fsync.read("") == {}


def write(method: Method, *rates: float) -> DurableWrite:
    told = sample(rates)
    assert told is not None
    return DurableWrite(WriteCell(method, PAGE_BYTES), told, 1000)


def test_a_method_is_called_faster_only_beyond_noise() -> None:
    usual = write(Method.FDATASYNC, 1000, 1020, 990)
    noisy = write(Method.OPEN_DATASYNC, 900, 1900, 1300)
    clear = write(Method.OPEN_SYNC, 2000, 2010, 1990)
    slower = write(Method.FSYNC, 500, 505, 495)
    assert faster([usual, noisy, slower], Method.FDATASYNC) == []
    ((method, told),) = faster([noisy, usual, clear, slower], Method.FDATASYNC)
    assert method is Method.OPEN_SYNC
    assert told.share == pytest.approx(0.99, abs=0.02)


def test_the_log_allows_at_most_a_commit_of_each_client_a_write() -> None:
    """With the interval of the rate that the bound rests on."""
    usual = write(Method.FDATASYNC, 90.0, 100.0, 110.0)
    for found, clients in zip(commits(usual), (1, 8, 64), strict=True):
        assert found.clients == clients
        assert found.most_per_s == pytest.approx(usual.per_s * clients)
        assert usual.rates.low is not None
        assert found.low_per_s == pytest.approx(usual.rates.low * clients)


def test_a_disk_too_slow_for_a_p99_fails_etcd_s_rule_all_the_same() -> None:
    ruler = rulers.read("etcd")
    unknown = Finding(ruler.requirements[0], "measure", None, None, 0, passed=False)

    def judged(count: int, p50: int | None, p90: int | None, least_ns: int = MS) -> tuple[str, str]:
        points = {"p50": p50, "p90": p90, **dict.fromkeys(("p95", "p99", "p99.9", "p99.99"))}
        found = without_p99(unknown, Latency(count, 5.0 * MS, least_ns, 90 * MS, points, Histogram.of_counts([])))
        return found.word, found.reason

    assert judged(480, 4 * MS, 12 * MS) == ("fail", "p90 of 480 flushes is 12.0 ms already")
    assert judged(15, None, None, 200 * MS) == ("fail", "the fastest of 15 flushes is 200 ms already")
    assert judged(480, 4 * MS, 8 * MS) == ("not measured", "480 flushes were measured, and p99 needs 1,000")
    assert without_p99(unknown, None).word == "not measured"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["sim:wd2500jd"], "a modelled brick does what its model says"),
        ([".", "--recorder-file", "witness.log"], "name the file or device"),
        ([".", "--scratch", "."], "the target is a directory; leave one of them out"),
    ],
)
def test_what_cannot_be_judged_is_one_line(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["durable", *given]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
