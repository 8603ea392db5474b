"""Figures against calculations by hand."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from brickyard import analysis
from brickyard._core import Histogram
from brickyard.analysis.figures import cells, ramp
from brickyard.analysis.figures.all_rows import all_rates, all_times
from brickyard.analysis.figures.latency import FEW_EVENTS_WORDS, as_one, together
from brickyard.analysis.figures.moments import moments
from brickyard.analysis.figures.series import latency_edges, pieces
from brickyard.analysis.judging import summary
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.repetitions import repeated, together_words
from brickyard.analysis.judging.run_figures import run_figures
from brickyard.analysis.judging.verdict import verdict
from brickyard.analysis.judging.verdict_words import verdict_line
from brickyard.analysis.studies.characterization import characterization
from brickyard.cli import main
from brickyard.cli.parts.progress import closing
from brickyard.cli.parts.tables import print_characterization, print_run, print_slowest
from brickyard.facts import OwnIo
from brickyard.percentiles import is_supported
from brickyard.report import export
from brickyard.report import page as page_of_runs
from brickyard.report.tables import repetitions_table, slowest_table, totals_tables
from brickyard.rulers import read as ruler
from brickyard.schema import (
    AllWritten,
    TargetFacts,
    TargetKind,
    TargetSheet,
    Unwritten,
    UnwrittenBytes,
    UnwrittenUnknown,
)
from brickyard.schema.target_sheet import MountSheet
from brickyard.store import Json, Record, Store
from brickyard.study.running.circumstances import ours
from brickyard.units import format_iops, format_ns
from support import MS, SECOND, US, add_run, cell, histogram, interval, phase_end, plan, slow, stream


def record_of(tmp_path: Path, *events: object, **circumstances: object) -> Record:
    with Store(tmp_path / "runs.db") as store:
        return store.record(add_run(store, list(events), **circumstances))  # type: ignore[arg-type]


def test_totals_are_sums_of_intervals_over_all_measured_time(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        interval(0, SECOND, cell([MS] * 500), warmup=True),
        interval(SECOND, 2 * SECOND, cell([MS] * 100, errors=3)),
        interval(2 * SECOND, 3 * SECOND),  # a stall: nothing completed, and its second counts
        interval(3 * SECOND, 4 * SECOND, cell([3 * MS] * 300, depth_max=9)),
    )
    (row,) = analysis.totals(record)
    assert row.requests == 400
    assert row.bytes == 400 * 4096
    assert row.errors == 3
    assert row.in_flight_bound == 9
    assert row.rated_ns == 3 * SECOND
    assert row.iops == pytest.approx(400 / 3)
    assert row.bytes_per_s == pytest.approx(400 * 4096 / 3)
    assert row.variation == pytest.approx(math.sqrt(((100 - 400 / 3) ** 2 + (400 / 3) ** 2 + (300 - 400 / 3) ** 2) / 2)
                                          / (400 / 3))  # fmt: skip
    service = row.measures["service"]
    assert service.count == 400
    assert service.mean_ns == pytest.approx((100 * MS + 300 * 3 * MS) / 400, rel=0.01)


def test_percentiles_come_from_merged_histograms_not_from_averages(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        interval(0, SECOND, cell([100 * US] * 9900)),
        interval(SECOND, 2 * SECOND, cell([10 * MS] * 100)),
    )
    service = analysis.totals(record)[0].measures["service"]
    # 1 % of 10,000 took 10 ms, so p99 is still 100 µs; the average of both intervals' p99 would be 5.05 ms.
    assert service.percentiles["p50"] == pytest.approx(100 * US, rel=0.01)
    assert service.percentiles["p99"] == pytest.approx(100 * US, rel=0.01)
    assert service.percentiles["p99.9"] == pytest.approx(10 * MS, rel=0.01)
    assert service.percentiles["p99.99"] is None
    assert service.max_ns == pytest.approx(10 * MS, rel=0.01)


@pytest.mark.parametrize(
    ("percentile", "enough"), [(50.0, 20), (90.0, 100), (99.0, 1000), (99.9, 10_000), (99.99, 100_000)]
)
def test_a_percentile_needs_ten_samples_beyond_it(percentile: float, enough: int) -> None:
    assert is_supported(enough, percentile)
    assert not is_supported(enough - 1, percentile)


def test_streams_and_operations_are_told_apart(tmp_path: Path) -> None:
    both = plan(stream(name="log"), stream(name="data", target=1))
    record = record_of(
        tmp_path,
        interval(
            0,
            SECOND,
            cell([MS] * 10, stream=0, operation="write"),
            cell([MS] * 20, stream=1, operation="read"),
            cell([MS] * 30, stream=1, operation="write"),
        ),
        plan_=both,
    )
    rows = [(row.stream_name, row.operation, row.requests) for row in analysis.totals(record)]
    assert rows == [("log", "write", 10), ("data", "read", 20), ("data", "write", 30)]
    assert ours(record, 1) == OwnIo(read_bytes=20 * 4096, read_requests=20, write_bytes=30 * 4096, write_requests=30)


def test_errors_alone_give_a_row_without_latencies(tmp_path: Path) -> None:
    failed = {"stream": 0, "operation": "read", "requests": 0, "bytes": 0, "errors": 7, "depth_max": 1, "measures": {}}
    (row,) = analysis.totals(record_of(tmp_path, interval(0, SECOND, failed)))
    assert (row.requests, row.errors, row.measures) == (0, 7, {})


def test_variation_by_hand() -> None:
    assert analysis.variation([10, 20, 30]) == pytest.approx(10 / 20)
    assert analysis.variation([10, 20]) is None
    assert analysis.variation([0, 0, 0]) is None


def test_shares_of_best() -> None:
    assert analysis.shares_of_best([50, 200, 100]) == [0.25, 1.0, 0.5]
    assert analysis.shares_of_best([0, 0]) == [None, None]


def test_a_stall_is_a_point_at_zero(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        interval(5 * SECOND, 7 * SECOND, cell([MS] * 100)),
        interval(7 * SECOND, 9 * SECOND),
        interval(9 * SECOND, 11 * SECOND, cell([MS] * 50)),
    )
    points = analysis.throughput([record])
    # One run keeps its clock, which its tables have too.
    assert [(p.start_s, p.end_s, p.iops) for p in points] == [(5, 7, 50), (7, 9, 0), (9, 11, 25)]
    assert pieces(points) == [0, 0, 0]
    assert pieces([points[0], points[2]]) == [0, 1]


def test_parts_of_an_interval_that_are_told_apart_are_summed(tmp_path: Path) -> None:
    parts = [interval(0, SECOND, cell([MS] * 100)), interval(0, SECOND, cell([MS] * 50))]
    record = record_of(tmp_path, *parts, interval(SECOND, 2 * SECOND, cell([MS] * 150)))
    (row,) = analysis.totals(record)
    assert (row.requests, row.rated_ns, row.iops) == (300, 2 * SECOND, 150)
    assert [point.iops for point in analysis.throughput([record])] == [150, 150]
    assert [item.requests for item in summary.interval_sums(record)] == [150, 150]


def test_the_drain_at_the_end_is_counted_but_is_no_part_of_a_rate(tmp_path: Path) -> None:
    """The plan lasts 3 s; after it nothing is issued, and the slowest request in flight takes another two."""
    seconds = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 100)) for n in range(3)]
    drain = interval(3 * SECOND, 5 * SECOND, cell([MS] * 64), drain=True)
    record = record_of(tmp_path, *seconds, drain, phase_end())
    (row,) = analysis.totals(record)
    assert row.requests == 364
    assert row.measures["service"].count == 364
    assert row.iops == 100
    assert row.variation == 0
    assert [point.iops for point in analysis.throughput([record])] == [100, 100, 100]


def test_a_phase_that_its_requests_ended_is_rated_to_its_last_completion(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        interval(0, SECOND, cell([MS] * 100)),
        interval(SECOND, SECOND + SECOND // 2, cell([MS] * 50)),
        phase_end(reason="requests"),
    )
    assert analysis.totals(record)[0].iops == 100
    # The stub is drawn by no line: its rate would be that of a moment.
    assert [point.iops for point in analysis.throughput([record])] == [100]


def test_runs_are_laid_end_to_end_without_their_warm_up(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        runs = [
            add_run(
                store,
                [
                    interval(0, 2 * SECOND, cell([MS]), warmup=True),
                    interval(2 * SECOND, 5 * SECOND, cell([MS])),
                ],
            )
            for _ in range(2)
        ]
        records = [store.record(run) for run in runs]
    assert [(p.run, p.start_s, p.end_s) for p in analysis.throughput(records)] == [(1, 0, 3), (2, 3, 6)]


@given(st.lists(st.integers(min_value=1, max_value=SECOND), min_size=1, max_size=60))
def test_the_heat_map_counts_every_request_once(values_ns: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        record = record_of(Path(place), interval(0, SECOND, cell(values_ns)))
    cells = analysis.heat_map([record], columns=10)
    assert sum(item.count for item in cells) == len(values_ns)
    assert sum(item.share for item in cells) == pytest.approx(1.0)


def test_the_heat_map_has_the_lateness_in_it(tmp_path: Path) -> None:
    late = cell([US] * 30)
    late["measures"]["response"] = cell([9 * MS] * 30)["measures"]["response"]
    record = record_of(tmp_path, interval(0, SECOND, late))
    (found,) = analysis.heat_map([record], columns=10)
    assert found.low_ns <= 9 * MS <= found.high_ns


def test_the_heat_map_puts_latencies_where_they_belong(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        interval(0, SECOND, cell([100 * US] * 30)),
        interval(SECOND, 2 * SECOND, cell([5 * MS] * 10)),
    )
    early, late = sorted(analysis.heat_map([record], columns=100), key=lambda item: item.start_s)
    assert (early.start_s, early.end_s, early.count) == (0, 1, 30)
    assert early.low_ns <= 100 * US <= early.high_ns
    assert late.low_ns <= 5 * MS <= late.high_ns


@given(st.integers(min_value=1, max_value=10**13), st.integers(min_value=1, max_value=10**13))
def test_latency_edges_cover_what_they_should(a: int, b: int) -> None:
    low, high = min(a, b), max(a, b)
    edges = latency_edges(low, high)
    assert edges[0] <= low
    assert edges[-1] >= high
    assert all(x < y for x, y in pairwise(edges))


def load(size: int, address: str = "random", **operations: float) -> dict[str, object]:
    shares = {"read": 0.0, "write": 0.0, "flush": 0.0, "trim": 0.0, **operations}
    return plan(stream(request=[{"size": size, "share": 100.0}], address={"kind": address}, operations=shares))


def test_characterization_orders_sizes_and_ranks_within_a_pattern(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        for size, count in ((65536, 100), (512, 400), (4096, 300)):
            add_run(store, [interval(0, SECOND, cell([MS] * count, request_bytes=size))], plan_=load(size, read=100.0))
        write = cell([MS] * 10, request_bytes=4096, operation="write")
        add_run(store, [interval(0, SECOND, write)], plan_=load(4096, write=100.0))
        records = [store.record(run.id) for run in store.runs()]
    found = analysis.characterization(records)
    assert list(found) == [("random", "read"), ("random", "write")]
    reads = found["random", "read"]
    assert [item.cell.request_bytes for item in reads] == [512, 4096, 65536]
    assert [item.iops_share for item in reads] == [1.0, 0.75, 0.25]
    best = 100 * 65536
    assert [item.throughput_share for item in reads] == pytest.approx([400 * 512 / best, 300 * 4096 / best, 1.0])
    assert analysis.is_graph(found)


def test_of_a_size_measured_twice_the_latest_run_speaks(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        for count in (100, 200):
            add_run(store, [interval(0, SECOND, cell([MS] * count))], plan_=load(4096, read=100.0))
        found = analysis.characterization([store.record(run.id) for run in store.runs()])
    assert [item.cell.row.requests for item in found["random", "read"]] == [200]


def test_mixed_loads_are_no_cell(tmp_path: Path) -> None:
    mixed = record_of(tmp_path, interval(0, SECOND, cell([MS])), plan_=load(4096, read=70.0, write=30.0))
    every = record_of(tmp_path, interval(0, SECOND, cell([MS])), plan_=load(4096, "permutation", read=100.0))
    assert analysis.cell_of(mixed) is None
    assert analysis.cell_of(every) is None


def test_cpu_per_request_leaves_the_warm_up_out(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        interval(0, SECOND, cell([MS] * 1000), warmup=True, cpu={"user_ns": 10**12, "system_ns": 10**12}),
        interval(SECOND, 2 * SECOND, cell([MS] * 900, errors=100), cpu={"user_ns": 5_000_000, "system_ns": 20_000_000}),
    )
    assert summary.cpu_per_request_ns(record) == (5000.0, 20000.0)


def test_the_document_counts_errors_of_all_phases(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        phase_end(errors_by_errno={"EIO": 3}, slowest=[slow(5)]),
        phase_end(phase=1, errors_by_errno={"EIO": 2, "ENOSPC": 1}, slowest=[slow(9)]),
    )
    document: Any = summary.run_document(record)
    assert document["errors_by_errno"] == {"EIO": 5, "ENOSPC": 1}
    assert [item["response_ns"] for item in document["slowest"]] == [9, 5]


def test_the_slowest_requests_have_their_stream_and_target_where_there_are_several(tmp_path: Path) -> None:
    several = plan(stream(name="log"), stream(name="data", target=1))
    end = phase_end(slowest=[slow(9) | {"stream": 1}, slow(5)])
    record = record_of(
        tmp_path, interval(0, SECOND, cell([MS] * 9)), end, plan_=several, targets=["/data/a", "/data/b"]
    )
    table = slowest_table([record])
    assert table.columns[:4] == ["run", "stream", "target", "operation"]
    assert [row[1:3] for row in table.rows] == [["data", "/data/b"], ["log", "/data/a"]]
    shown = Console(width=120, record=True)
    print_slowest(shown, record)
    assert re.search(r"stream +target +at .*\n *data +/data/b .*\n *log +/data/a ", shown.export_text())


def test_the_core_reads_histograms_of_other_tools() -> None:
    figures = analysis.latency(Histogram(histogram([1 * US, 2 * US, 4 * US])))
    assert figures is not None
    assert figures.count == 3
    assert figures.mean_ns == pytest.approx(7 / 3 * US, rel=0.01)
    assert figures.min_ns == pytest.approx(1 * US, rel=0.01)


def test_the_maximum_is_exact_and_bounds_every_percentile(tmp_path: Path) -> None:
    exact = 123_456_789
    first = cell([MS] * 5000)
    slow = cell([exact] * 5000)
    record = record_of(tmp_path, interval(0, SECOND, first), interval(SECOND, 2 * SECOND, slow))
    figures = analysis.totals(record)[0].measures["service"]
    assert figures.max_ns == exact
    assert figures.percentiles["p99.9"] == exact
    found = verdict(record, ruler("max<=124ms"))
    assert found.findings[0].value == exact


def two_phases(tmp_path: Path, outcome: str = "done") -> Record:
    """Two phases of 100 and 300 requests a second; the second begins with a warm-up and ends with a drain."""
    phases = [{"name": name, "duration": "1s", "stream": [stream()]} for name in ("first", "second")]
    events = [
        interval(0, SECOND, cell([MS] * 100)),
        interval(SECOND, 3 * SECOND, cell([MS] * 900), phase=1, warmup=True),
        interval(3 * SECOND, 4 * SECOND, cell([MS] * 300), phase=1),
        interval(4 * SECOND, 6 * SECOND, cell([MS] * 4), phase=1, drain=True),
        phase_end(),
        phase_end(phase=1),
    ]
    with Store(tmp_path / "runs.db") as store:
        return store.record(add_run(store, events, plan_={**plan(), "phase": phases}, outcome=outcome))


def test_the_closing_line_has_the_rates_of_the_table(tmp_path: Path) -> None:
    record = two_phases(tmp_path)
    rates = analysis.phase_rates(record)
    assert [rate.iops for rate in rates] == [row.iops for row in analysis.totals(record)] == [100, 300]
    assert [rate.bytes_per_s for rate in rates] == [row.bytes_per_s for row in analysis.totals(record)]
    assert closing(rates) == "first: 100 IOPS  0.39 MiB/s; second: 300 IOPS  1.17 MiB/s"
    assert analysis.full_stream_name(record, 1, 0) == "second / cell"


@pytest.mark.parametrize(("length_ns", "rated"), [(SECOND // 20, False), (SECOND // 2, True)])
def test_a_stub_that_an_interruption_left_has_no_rate(tmp_path: Path, length_ns: int, rated: bool) -> None:
    with Store(tmp_path / "runs.db") as store:
        record = store.record(add_run(store, [interval(0, length_ns, cell([MS] * 100))], outcome="interrupted"))
    (row,) = analysis.totals(record)
    assert row.is_rated is rated
    assert row.requests == 100
    assert (summary.totals_document(row)["iops"] is not None) is rated
    assert analysis.characterization([record]) == {}


def test_a_ramp_is_told_step_by_step(tmp_path: Path) -> None:
    def at(second: int, requests: int, depth: int, **changes: Any) -> Json:
        knob = {"depth": depth, "workers": None, "rate_per_s": None}
        span = second * SECOND, (second + 1) * SECOND
        return interval(*span, cell([depth * MS] * requests), knob=knob, **changes)

    record = record_of(tmp_path, at(0, 100, 1), at(1, 300, 1), at(2, 400, 2), at(3, 9, 2, drain=True), phase_end())
    found = ramp.steps(record)
    assert [(s.knob, s.value, s.iops) for s in found] == [("depth", 1, 200), ("depth", 2, 400)]
    assert [s.response.max_ns for s in found if s.response] == [MS, 2 * MS]
    assert ramp.step_rows(found)[1][:3] == ["depth", "2", "400"]
    (row,) = analysis.totals(record)
    assert not any(times.few_events for times in row.measures.values()), "a step is no stall"
    document: Any = summary.run_document(record)
    assert [s["value"] for s in document["ramp"]] == [1, 2]
    shown = Console(width=200, record=True)
    print_run(shown, record)
    assert "Ramp of measure" in shown.export_text()


def test_what_verification_checked_is_told(tmp_path: Path) -> None:
    counts = {"checked_blocks": 12, "unchecked_blocks": 3000, "damaged_blocks": 1, "covered": None}
    with Store(tmp_path / "runs.db") as store:
        events = [interval(0, SECOND, cell([MS] * 50)), phase_end(verified=counts, errors_by_kind={"bits": 1})]
        record = store.record(add_run(store, events))
    assert summary.run_document(record)["verified"] == counts
    words = "12 blocks checked, 1 damaged, 3,000 read without being checked, because this run had not written them"
    assert ("Verified", words) in summary.circumstances([record])
    shown = Console(width=200, record=True)
    print_run(shown, record)
    text = shown.export_text()
    assert "Damaged data: changed bits: 1" in text
    assert "Errors" not in text.replace("errors", "")


def test_unwritten_is_a_count_of_bytes() -> None:
    def words(unwritten: Unwritten | None, sheet: TargetSheet | None = None) -> str:
        opened = TargetFacts(kind=TargetKind.FILE, path="/a", size_bytes=4 << 30, data_bytes=4 << 30)
        return summary.unwritten_words(msgspec.structs.replace(opened, unwritten=unwritten), sheet)

    assert words(UnwrittenBytes(bytes=1 << 30)) == "1 GiB (25 %) of it never written"
    assert words(AllWritten()) == "all of it written before the run"
    assert words(UnwrittenUnknown()) == words(None) == "unwritten share unknown"
    # Of a file that has no header, its file system knows it.
    full = TargetSheet(path="/a", mount=MountSheet(file_system="ext4"), hole_bytes=0, unwritten_bytes=0)
    assert words(UnwrittenUnknown(), full) == "all of it written before the run"
    sparse = msgspec.structs.replace(full, hole_bytes=4 << 30)
    assert words(UnwrittenUnknown(), sparse) == "4 GiB (100 %) of it never written"
    packed = msgspec.structs.replace(full, mount=MountSheet(file_system="btrfs"))
    assert words(UnwrittenUnknown(), packed) == "unwritten share unknown"


def test_the_p99_of_a_moment_is_of_all_its_requests(tmp_path: Path) -> None:
    """Many fast reads and one slow write, whose own p99 is that one."""
    asked = [cell([MS] * 9_999), cell([100 * MS], operation="write")]
    record = record_of(tmp_path, interval(0, SECOND, *asked))
    (moment,) = moments(record.info, record.intervals, list(enumerate(record.costs)))
    assert moment.response_p99_ns == pytest.approx(MS, rel=0.02)
    assert moment.response_max_ns == pytest.approx(100 * MS, rel=0.02)


def test_streams_and_operations_together_have_a_row_with_the_figures_that_lists_of_runs_show(tmp_path: Path) -> None:
    mixed = plan(stream(name="a"), stream(name="b"))
    reads, writes = cell([MS] * 950 + [9 * MS] * 50), cell([2 * MS] * 500, operation="write", stream=1, errors=3)
    record = record_of(tmp_path, interval(0, SECOND, reads, writes), phase_end(), plan_=mixed)
    (listed,) = run_figures(record).phases
    rows = analysis.totals(record)
    (rate,), (times,) = all_rates(record, rows), all_times(record, rows)
    assert rate.figures == ["1,500", "1,500", "5.86", cells.DASH, cells.DASH, "3"]
    assert rate.figures[1] == format_iops(listed.rate_per_s or 0)
    assert times.figures[3] == format_ns(listed.response_p99_ns)
    requirement = verdict(record, ruler("p99<=5ms"))
    shown = Console(width=80, record=True)
    print_run(shown, record, [verdict_line(requirement)])
    text = shown.export_text()
    assert re.search(r"^all +all +1,500 +1,500 +5.86 ", text, re.MULTILINE)
    assert re.search(r"^all +all +response ", text, re.MULTILINE)
    words = " ".join(text.split())
    assert words.index(f"Requirement p99<=5ms: not met, p99 {times.figures[3]}, 3 requests failed. Before you") > 0
    tables = {table.title: table.rows for table in totals_tables([record])}
    assert tables["Throughput"][-1] == ["all", "all", *rate.figures]
    assert tables["Latency"][-1] == ["all", "all", "response", *times.figures]
    document: dict[str, Any] = {**summary.run_document(record)}
    (rates,), (waits,) = document["all_rates"], document["all_times"]
    assert (rates["stream"], rates["operation"], rates["requests"], rates["errors"]) == ("all", "all", 1_500, 3)
    assert rates["iops"] == listed.rate_per_s
    assert waits["measures"]["response"]["p99_ns"] == listed.response_p99_ns
    more = cell([MS] * 2_000)
    again = record_of(tmp_path, interval(0, SECOND, more, writes), phase_end(), plan_=mixed)
    together = [item for item in repeated([record, again]) if item.name[-2:] == ("all", "all")]
    assert [item.figure.name for item in together] == ["iops", "response_mean", "response_p99"]
    rates_of_both, _, p99 = (item.sample for item in together)
    assert rates_of_both
    assert rates_of_both.values == (1_500, 2_500)
    assert p99
    assert p99.centre == pytest.approx(9 * MS, rel=0.02)  # of the 4,000 requests of both, 50 took 9 ms
    # Of 600 requests, 6 lie beyond the p99; of the 1,200 of both runs, 12 do.
    few = [record_of(tmp_path, interval(0, SECOND, cell([MS] * 600)), phase_end()) for _ in range(2)]
    merged = repetitions_table(few, repeated(few))
    assert [row[1] for row in merged.rows] == ["IOPS", "mean response time", "p99 of the response time"]
    assert merged.rows[2][2:] == ["2", format_ns(MS), cells.DASH, cells.DASH]
    assert merged.note.endswith("of the response time; all requests together have them")
    (said,) = together_words(repeated(few))
    assert said.startswith("2 runs together, a-load, read: IOPS 600 (95 % interval 600 to 600); mean response time 1.")
    assert f"<p>{said}</p>" in page_of_runs.render(few, None, [])
    # One row alone is all there is.
    assert not all_rates(record, rows[:1])
    assert not all_times(record, rows[:1])


def test_a_percentile_that_a_slow_run_lacks_has_no_interval_of_the_others(tmp_path: Path) -> None:
    fast = [record_of(tmp_path, interval(0, SECOND, cell([MS] * count)), phase_end()) for count in (2_000, 2_100)]
    fast.append(record_of(tmp_path, interval(0, SECOND, cell([9 * MS] * 600)), phase_end()))
    some = repetitions_table(fast, repeated(fast))
    assert some.rows[2][2:] == ["3", format_ns(9 * MS), cells.DASH, cells.DASH]
    assert cells.DASH not in some.rows[1]
    assert (
        f"run {fast[2].info.id} has fewer than ten requests beyond the p99 of the response time; without these, "
        in some.note
    )


def test_a_chain_has_no_throughput_of_its_own(tmp_path: Path) -> None:
    chain = cell([MS] * 100, operation="chain")
    record = record_of(tmp_path, interval(0, SECOND, chain, cell([MS] * 100)), phase_end())
    assert [cells.mib_per_s(row) for row in analysis.totals(record)] == ["–", "0.39"]
    assert {point.operation for point in analysis.throughput([record])} == {"read"}


def rows_of(spans: list[list[int]], length_ns: int = SECOND) -> list[analysis.Peak]:
    """One peak an interval, in order."""
    return [
        analysis.Peak(number * length_ns, (number + 1) * length_ns, max(values), len(values))
        for number, values in enumerate(spans)
    ]


def latency_shown(tmp_path: Path, spans: list[list[int]]) -> analysis.Latency:
    with Store(tmp_path / "runs.db") as store:
        told = [interval(n * SECOND, (n + 1) * SECOND, cell(values)) for n, values in enumerate(spans)]
        record = store.record(add_run(store, told))
    [row] = analysis.totals(record)
    return row.measures["service"]


def test_a_percentile_of_one_stall_is_marked(tmp_path: Path) -> None:
    figures = latency_shown(tmp_path, [[MS] * 5000 for _ in range(3)] + [[MS] * 400 + [5 * SECOND] * 64])
    assert figures.percentiles["p99.9"] == pytest.approx(5 * SECOND, rel=0.01)
    assert figures.few_events == {"p99.9"}


def test_a_rarer_percentile_than_a_marked_one_is_marked(tmp_path: Path) -> None:
    """Two of three intervals have all samples beyond p99.9. The twelve beyond p99.99 might miss one by chance."""
    quiet, stalled = [MS] * 40_000, [MS] * 39_900 + [50 * MS] * 100
    rows = [interval(n * SECOND, (n + 1) * SECOND, cell(values)) for n, values in enumerate([stalled, quiet, stalled])]
    (row,) = analysis.totals(record_of(tmp_path, *rows))
    assert row.measures["service"].few_events == {"p99.9", "p99.99"}


def test_events_of_every_interval_are_events_of_their_own(tmp_path: Path) -> None:
    figures = latency_shown(tmp_path, [[MS] * 990 + [50 * MS] * 10 for _ in range(20)])
    assert figures.percentiles["p99.9"] == pytest.approx(50 * MS, rel=0.01)
    assert not figures.few_events


def test_one_interval_cannot_tell_events_apart(tmp_path: Path) -> None:
    figures = latency_shown(tmp_path, [[MS] * 990 + [50 * MS] * 10])
    assert not figures.few_events


def test_an_interval_that_even_samples_may_leave_out_is_no_sign_of_a_stall(tmp_path: Path) -> None:
    evenly = [MS] * 100 + [3 * MS] * 150
    figures = latency_shown(tmp_path, [evenly, evenly, [MS] * 4])
    assert not figures.few_events


def test_the_wait_for_the_last_answers_is_no_event_that_a_median_lacks(tmp_path: Path) -> None:
    """Of 32 last requests half are beyond the median, and all of them began before the end of the only interval."""
    values = [80 * US, 90 * US, 100 * US] * 10_000
    events = [
        interval(0, SECOND, cell(values)),
        interval(SECOND, SECOND + 120 * US, cell([90 * US] * 16 + [120 * US] * 16), drain=True),
    ]
    (row,) = analysis.totals(record_of(tmp_path, *events))
    assert not row.measures["service"].few_events


def test_streams_that_share_their_only_interval_cannot_tell_events_apart(tmp_path: Path) -> None:
    values = [80 * US, 90 * US, 100 * US] * 10_000
    rows = analysis.totals(record_of(tmp_path, interval(0, SECOND, cell(values), cell(values, stream=1))))
    together = as_one(row.measures["service"] for row in rows)
    assert together is not None
    assert not together.few_events


def test_a_stall_that_outlasts_intervals_is_one_event() -> None:
    quiet, late = [MS] * 100, [MS] * 50 + [3 * SECOND] * 16
    assert analysis.events_beyond(rows_of([quiet, late, late, quiet]), 10 * MS) == 1
    assert analysis.events_beyond(rows_of([late, quiet, quiet, quiet, quiet, late]), 10 * MS) == 2
    assert analysis.events_beyond(rows_of([[50 * MS], [50 * MS], quiet, [50 * MS]]), 10 * MS) == 3
    assert analysis.events_beyond([], 10 * MS) == 0


def test_a_mark_stands_in_the_table_with_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "runs.db"
    with Store(place) as store:
        spans = [[MS] * 5000 for _ in range(3)] + [[MS] * 400 + [5 * SECOND] * 264]
        add_run(store, [interval(n * SECOND, (n + 1) * SECOND, cell(v)) for n, v in enumerate(spans)])
    assert main(["show", "1", "--store", str(place)]) == 0
    told = capsys.readouterr().out
    assert "5.00 s*" in told
    assert "*: the samples beyond this percentile come from one or two events, such as a single stall" in told
    assert "and 99 % within 5.00 s*" in told.partition("Before you rely on it")[0]


def test_marks_stand_in_the_tables_of_a_characterization(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "runs.db"
    with Store(place) as store:
        for size in (4096, 65536):
            asked = stream(request=[{"size": size, "share": 100.0}], address={"kind": "random"})
            spans = [[MS] * 5000 for _ in range(3)] + [[MS] * 400 + [5 * SECOND] * 264]
            cells_of = [cell(values, request_bytes=size) for values in spans]
            told = [interval(n * SECOND, (n + 1) * SECOND, one) for n, one in enumerate(cells_of)]
            add_run(store, [*told, phase_end()], plan_=plan(asked))
        records = [store.record(run.id) for run in store.runs()]
    found = characterization(records)
    print_characterization(Console(width=200), found, records)
    shown = capsys.readouterr().out
    assert shown.count("5.00 s*") == 4, "p99 and p99.9 of two sizes"
    assert shown.count(FEW_EVENTS_WORDS) == 1
    assert "and 99 % within 5.00 s*" in answer(records, found).sentences[0]


def test_the_record_of_a_run_holds_no_histogram(tmp_path: Path) -> None:
    """What takes the room is read one at a time, also after the store is closed; figures are those of all of it."""
    with Store(tmp_path / "runs.db") as store:
        told = [interval(n * SECOND, (n + 1) * SECOND, cell([k * US for k in range(1, 400)])) for n in range(100)]
        run = add_run(store, told)
    with Store(tmp_path / "runs.db") as store:
        record = store.record(run)
    for item in record.intervals:
        held = [getattr(item, name) for name in item.__slots__]
        assert not any(isinstance(value, str) and len(value) > 16 for value in held)
        assert len(item.histogram) > 100
    [row] = analysis.totals(record)
    assert row.measures["service"].count == 399 * 100


def test_no_mean_and_no_percentile_lies_beyond_the_extremes(tmp_path: Path) -> None:
    """64,000 ns stand in a bucket of 63,488 to 64,511 whose middle and top no request had taken."""
    same = cell([64_000] * 20_000)
    wrong = {**same["measures"]["service"], "mean_ns": 64_128.0, "p50_ns": 64_511, "p99_ns": 64_511}
    merged = {**same, "stream": 1, "measures": {"service": wrong, "response": wrong}}
    record = record_of(tmp_path, interval(0, SECOND, same, merged), plan_=plan(stream(), stream(name="b")))
    rows = analysis.totals(record)
    figures = [row.measures["service"] for row in rows]
    for found in (*figures, together(figures), as_one(figures)):
        assert found is not None
        assert (found.mean_ns, found.max_ns) == (64_000, 64_000)
        assert found.min_ns is not None
        assert found.min_ns <= 64_000
        assert set(found.percentiles.values()) - {None} == {64_000}
    for row in (*exported(record, "totals"), *exported(record, "intervals")):
        assert row["mean_ns"] <= row["max_ns"]
        assert row.get("p99_ns", 0) <= row["max_ns"]


def test_a_mean_is_that_of_the_requests_and_not_of_their_buckets(tmp_path: Path) -> None:
    record = record_of(
        tmp_path, interval(0, SECOND, cell([64_000] * 30)), interval(SECOND, 2 * SECOND, cell([65_001] * 10))
    )
    (row,) = analysis.totals(record)
    assert row.measures["service"].mean_ns == pytest.approx((30 * 64_000 + 10 * 65_001) / 40, rel=1e-12)


def exported(record: Record, which: export.Rows) -> list[dict[str, Any]]:
    return list(export.rows([record], which))


def stream_that_ends_early(tmp_path: Path, *events: Json, **changes: Any) -> dict[str, Any]:
    """The rows of a phase that a count ends, of two closed loops of which the second lasts longer."""
    two = [stream(name="small", depth=16), stream(name="large", depth=1)]
    with Store(tmp_path / "runs.db") as store:
        run = add_run(
            store,
            [*events, phase_end(**{"reason": "passes", **changes})],
            plan_=plan(*two, duration=None, passes=1.0),
        )
        record = store.record(run)
    return {"record": record, **{row.stream_name: row for row in analysis.totals(record)}}


def test_a_stream_that_ended_before_its_phase_has_its_rate_over_its_own_time(tmp_path: Path) -> None:
    """It did 200 requests a second for two seconds and a part of the third, of five."""
    done = [200, 200, 50, 0, 0]
    events = [
        interval(
            n * SECOND,
            (n + 1) * SECOND,
            *([cell([80 * MS] * requests)] if requests else []),
            cell([10 * MS] * 100, stream=1),
        )
        for n, requests in enumerate(done)
    ]
    found = stream_that_ends_early(tmp_path, *events, end_ns=5 * SECOND)
    small, large = found["small"], found["large"]
    assert (small.iops, small.rated_ns, small.requests) == (200, 2 * SECOND, 450)
    assert small.ended_ns == 2 * SECOND + SECOND // 4  # 50 requests of 80 ms at a depth of 16
    assert (large.iops, large.ended_ns) == (100, None)
    assert small.variation is None  # two values have none, and the time after its end has no rate
    # Rates of the phase stay over the phase.
    together = 950 / 5
    assert [rate.iops for rate in analysis.phase_rates(found["record"])] == [together]
    (whole,) = verdict(found["record"], ruler("iops>=100")).findings
    assert whole.value == together
    shown = Console(width=200, record=True)
    print_run(shown, found["record"])
    text = shown.export_text()
    assert "small ended 2.25 s into its phase of 5.00 s; its rate is over its own time." in text
    assert "2.25 s of 5.00 s" in text.split("Throughput")[1]


def test_the_end_of_a_stream_within_its_first_interval_is_known_of_a_closed_loop(tmp_path: Path) -> None:
    """4,096 requests of 80 µs at a depth of 16 take 20.48 ms."""
    events = [
        interval(0, SECOND, cell([80 * US] * 4096), cell([10 * MS] * 100, stream=1), loop_busy_share=0.0),
        interval(SECOND, 2 * SECOND, cell([10 * MS] * 100, stream=1)),
    ]
    small = stream_that_ends_early(tmp_path, *events, end_ns=2 * SECOND)["small"]
    assert small.iops == pytest.approx(200_000)
    assert small.ended_ns == pytest.approx(20_480_000)
    # A phase of one interval does not hide it.
    (tmp_path / "one").mkdir()
    small = stream_that_ends_early(tmp_path / "one", events[0], end_ns=SECOND)["small"]
    assert small.iops == pytest.approx(200_000)


def test_a_stream_whose_end_is_not_known_has_no_rate(tmp_path: Path) -> None:
    """Between its requests the loop itself was busy for half of the time."""
    first = interval(0, SECOND, cell([80 * US] * 4096), cell([10 * MS] * 100, stream=1), loop_busy_share=0.5)
    then = interval(SECOND, 2 * SECOND, cell([10 * MS] * 100, stream=1))
    found = stream_that_ends_early(tmp_path, first, then, end_ns=2 * SECOND)
    assert not found["small"].is_rated
    shown = Console(width=200, record=True)
    print_run(shown, found["record"])
    assert "its rate is not given: set a shorter interval" in shown.export_text()
    assert verdict(found["record"], ruler("iops>=100")).findings[0].value == (4096 + 200) / 2


def test_a_stall_until_the_end_of_a_phase_is_no_end_of_a_stream(tmp_path: Path) -> None:
    """The time ended the phase, and requests of the stream were still in flight."""
    both = [interval(0, SECOND, cell([MS] * 100), cell([MS] * 100, stream=1))]
    then = interval(SECOND, 2 * SECOND, cell([MS] * 100, stream=1))
    drain = interval(2 * SECOND, 3 * SECOND, cell([SECOND] * 4), drain=True)
    found = stream_that_ends_early(tmp_path, *both, then, drain, reason="duration", end_ns=3 * SECOND)
    assert (found["small"].iops, found["small"].ended_ns) == (50, None)
