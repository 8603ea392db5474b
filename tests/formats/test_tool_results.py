"""Results of diskspd, Iometer and elbencho: their own figures stay theirs, and are compared with runs of ours.

Samples: diskspd's texts are those of microsoft/VirtualClient (DiskSpdExample-ReadWrite.txt and
DiskSpdExample-WriteOnly-v2.2.0.txt, with fewer threads and CPUs), its XML is that of GoogleCloudPlatform/
PerfKitBenchmarker (tests/data/diskspd_result.xml, without its CPUs), the elements of latency are as diskspd's own
XmlResultParser.cpp writes them. elbencho's CSV is the run of version 3.1 in the tests of elbencho_harness; its JSON was
made here after what elbencho's own Statistics.cpp writes in v3.1-9. No file of Iometer's results is public in the
places that were searched: iometer-1.1.csv was made here after what Iometer's own ManagerList.cpp, Manager.cpp and
PageSetup.cpp write.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from brickyard import _core, rulers
from brickyard.analysis.figures.latency import as_one
from brickyard.analysis.figures.moments import moments
from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.figures.totals import Totals, totals
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.comparison import compare
from brickyard.analysis.judging.gate import gate
from brickyard.analysis.judging.run_figures import whole_figures
from brickyard.analysis.judging.summary import when
from brickyard.analysis.judging.verdict import verdict
from brickyard.analysis.judging.verdict_words import measured_text
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.formats.recognize import import_profile, read_tool_result, recognize
from brickyard.formats.tool_result import ToolResult, store_result
from brickyard.report.comparison_words import verdict_lines
from brickyard.report.export import Form, Rows, documents, rows, write_export
from brickyard.report.page import write_report
from brickyard.report.tables import totals_tables
from brickyard.schema import read_plan
from brickyard.schema.load_hash import load_hash
from brickyard.schema.plan import Stream
from brickyard.store import Record, Store
from support import MS

SAMPLES = Path(__file__).parents[1] / "samples" / "results"
NAMES = sorted(path.name for path in SAMPLES.iterdir())
SIM = "sim:terraserver-2003"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def read(text: str) -> ToolResult:
    found = recognize(text)
    assert found is not None
    return read_tool_result(found, "a", text)


def stored(tmp_path: Path, text: str) -> Record:
    with Store(tmp_path / "runs.db") as store:
        run, _ = store_result(store, read(text), text, profile="a")
        return store.record(run)


def by_operation(record: Record) -> dict[tuple[int, str], Totals]:
    return {(row.phase, row.operation): row for row in totals(record)}


def test_figures_of_diskspds_text_stay_its_own(tmp_path: Path) -> None:
    record = stored(tmp_path, sample("diskspd-2.0-mixed.txt"))
    rows = by_operation(record)
    reads, writes = rows[0, "read"], rows[0, "write"]
    assert (reads.requests, reads.bytes, writes.requests, writes.bytes) == (25060, 102645760, 10626, 43524096)
    assert (f"{reads.iops:.2f}", f"{writes.iops:.2f}") == ("834.98", "354.05")
    service = reads.measures["service"]
    assert (service.mean_ns, service.min_ns, service.max_ns) == (272_000, 36_000, 7_990_000)
    named = {"p50": 232_000, "p90": 458_000, "p99": 877_000, "p99.9": 1_608_000}
    assert {name: service.percentiles[name] for name in named} == named
    assert service.percentiles["p99.99"] is None, "2.5 requests lie beyond it"
    assert "response" not in reads.measures
    assert (record.info.tool, record.info.start and record.info.start.io) == ("diskspd", "direct")
    assert record.info.start_unix_ns == 1_618_599_818 * 10**9
    assert record.info.targets == ["diskspd.dat"]


@pytest.mark.parametrize(
    ("name", "began"), [("elbencho-3.1.csv", "2026-05-22 16:09:38"), ("iometer-1.1.csv", "2010-10-19 09:30:12")]
)
def test_a_local_time_without_a_zone_is_called_that(
    name: str, began: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert when(stored(tmp_path, sample(name)).info) == f"{began} (local time of its host)"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_diskspds_command_line_is_the_load(tmp_path: Path) -> None:
    """Version 2.2 prints it."""
    record = stored(tmp_path, sample("diskspd-2.2-write.txt"))
    (stream,) = record.info.plan.phase[0].stream
    assert (stream.workers, stream.depth) == (160, 3)
    row = by_operation(record)[0, "write"]
    assert row.in_flight_bound == 480, "all that is in flight, as for runs of Brickyard"
    assert f"{row.iops:.2f}" == "2242082.85"
    assert row.measures["service"].percentiles["p99.99"] == 62_504_000


def test_diskspds_xml_without_latencies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = stored(tmp_path, sample("diskspd-2.0-read.xml"))
    row = by_operation(record)[0, "read"]
    assert (row.requests, row.bytes, row.measures) == (90970, 5961809920, {})
    assert row.iops == pytest.approx(90970 / 30.02)
    assert {"tool-no-times"} <= {warning.id for warning in record.info.warnings}
    assert main(["show", "1", "--store", str(tmp_path / "runs.db")]) == 0
    out = capsys.readouterr().out
    assert "4 workers × queue depth 2" in out
    assert "Latency" not in out


LATENCY = """<Latency>
<AverageReadMilliseconds>0.250</AverageReadMilliseconds>
<AverageTotalMilliseconds>0.250</AverageTotalMilliseconds>
<Bucket><Percentile>0</Percentile><ReadMilliseconds>0.050</ReadMilliseconds></Bucket>
<Bucket><Percentile>50</Percentile><ReadMilliseconds>0.200</ReadMilliseconds></Bucket>
<Bucket><Percentile>99</Percentile><ReadMilliseconds>1.500</ReadMilliseconds></Bucket>
<Bucket><Percentile>99.9</Percentile><ReadMilliseconds>4.000</ReadMilliseconds></Bucket>
<Bucket><Percentile>100</Percentile><ReadMilliseconds>9.125</ReadMilliseconds></Bucket>
</Latency>
<Thread>"""


def test_diskspds_xml_with_latencies(tmp_path: Path) -> None:
    text = sample("diskspd-2.0-read.xml").replace("<Thread>", LATENCY, 1)
    service = by_operation(stored(tmp_path, text))[0, "read"].measures["service"]
    assert (service.mean_ns, service.min_ns, service.max_ns) == (250_000, 50_000, 9_125_000)
    found = {name: service.percentiles[name] for name in ("p50", "p90", "p99", "p99.9")}
    assert found == {"p50": 200_000, "p90": None, "p99": 1_500_000, "p99.9": 4_000_000}


def test_figures_of_iometer_stay_its_own(tmp_path: Path) -> None:
    record = stored(tmp_path, sample("iometer-1.1.csv"))
    rows = by_operation(record)
    reads, writes, scan = rows[0, "read"], rows[0, "write"], rows[1, "read"]
    assert (reads.requests, writes.requests, scan.requests, scan.errors) == (40200, 19800, 120000, 2)
    assert [reads.iops, writes.iops, scan.iops] == pytest.approx([670, 330, 2000])
    service = reads.measures["service"]
    assert (service.mean_ns, service.max_ns) == (6_250_000, 91_250_000)
    assert set(service.percentiles.values()) == {None}
    assert record.info.targets == ["PHYSICALDRIVE:1"]
    first, second = record.info.plan.phase
    assert (first.name, second.name) == ("1: 67% read", "2: seq read")
    assert first.stream[0].depth == 8


def iometer(places: dict[str, tuple[str, str]], align: int = 0) -> str:
    """The first test of the sample, whose rows have these starting sectors and maximum sizes."""
    text = sample("iometer-1.1.csv")
    text = text[: text.index("'Access specifications", text.index("'Results"))]
    text = text.replace("4096,100,67,100,0,1,0,0", f"4096,100,67,100,0,1,{align},0")
    lines = text.splitlines()
    names = next(line for line in lines if line.startswith("'Target Type")).split(",")
    at = names.index("Starting Sector")
    for number, line in enumerate(lines):
        cells = line.split(",")
        if cells[0] in ("ALL", "MANAGER", "WORKER", "DISK") and len(cells) > at:
            cells[at : at + 2] = places.get(cells[0], ("", ""))
            lines[number] = ",".join(cells)
    return "\n".join(lines) + "\n"


GIB_2_TO_3 = ("4194304", "2097152")


@pytest.mark.parametrize(
    ("places", "region"),
    [
        (dict.fromkeys(("ALL", "MANAGER", "WORKER", "DISK"), GIB_2_TO_3), "2GiB..3GiB"),
        (dict.fromkeys(("WORKER", "DISK"), GIB_2_TO_3), "2GiB..3GiB"),
        ({"ALL": GIB_2_TO_3}, "2GiB..3GiB"),
        ({"ALL": ("0", "4194304")}, "0B..2GiB"),
        ({"ALL": ("4194304", "0")}, "2GiB..100%"),
        ({"ALL": ("0", "0"), "DISK": ("0", "0")}, "0B..100%"),
    ],
)
def test_the_part_of_the_disk_that_iometer_used_is_that_of_the_profile(
    places: dict[str, tuple[str, str]], region: str, tmp_path: Path
) -> None:
    for align, said in ((0, "512B"), (4096, "4KiB")):
        text = iometer(places, align)
        asked = read_plan(_core.validate(read(text).profile, [])).phase[0].stream[0]
        stored_as = stored(tmp_path, text).info.plan.phase[0].stream[0]
        assert isinstance(stored_as, Stream)
        assert (asked.region, asked.align) == (stored_as.region, stored_as.align)
        assert f'align = "{said}"' in read(text).profile
        assert asked.region == region


def test_a_result_of_iometer_asks_for_what_its_configuration_does() -> None:
    text = iometer({"ALL": GIB_2_TO_3})
    setup = (
        "'Run Time\n'\thours minutes seconds\n\t0 1 0\n'Access specification name,default assignment\n\ta,NONE\n"
        "'size,% of size,% reads,% random,delay,burst,align,reply\n\t4096,100,67,100,0,1,0,0\n'Worker\n\tWorker 1\n"
        "'Number of outstanding IOs\n\t8\n'Disk maximum size,starting sector\n\t2097152,4194304\n"
        "'Assigned access specs\n\ta\n"
    )
    asked = import_profile("icf", "a", setup, Path()).text
    theirs, ours = (json.loads(_core.validate(profile, [])) for profile in (read(text).profile, asked))
    assert load_hash(theirs) == load_hash(ours)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({}, "test 1: neither Starting Sector nor Maximum Size is in a row of it"),
        ({"WORKER": GIB_2_TO_3, "DISK": ("0", "2097152")}, "test 1: Starting Sector and Maximum Size differ between"),
        ({"ALL": ("-2", "-2")}, "test 1: Starting Sector and Maximum Size differ between"),
        ({"ALL": ("18446744073709551614", "2097152")}, "test 1: Starting Sector and Maximum Size differ between"),
        ({"ALL": ("-2", "-2"), "DISK": GIB_2_TO_3}, "test 1: Starting Sector and Maximum Size differ between"),
    ],
)
def test_a_result_of_iometer_whose_part_of_the_disk_is_not_known_becomes_no_profile(
    places: dict[str, tuple[str, str]], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, profile, store = tmp_path / "r.csv", tmp_path / "r.toml", ["--store", str(tmp_path / "runs.db")]
    place.write_text(iometer(places))
    assert main(["import", str(place), "-o", str(profile), *store]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not profile.exists()
    assert main(["import", str(place), *store]) == 0, "its figures are known"


def test_a_test_of_iometer_that_is_missing_is_said(tmp_path: Path) -> None:
    text = sample("iometer-1.1.csv")
    record = stored(tmp_path, text[: text.rindex("ALL,All")])
    assert list(by_operation(record)) == [(0, "read"), (0, "write")]
    assert any("last test" in warning.text for warning in record.info.warnings)


def test_figures_of_elbencho_stay_its_own(tmp_path: Path) -> None:
    text = sample("elbencho-3.1.csv")
    record = stored(tmp_path, text)
    rows = by_operation(record)
    assert list(rows) == [(0, "write"), (1, "read")]
    assert (f"{rows[0, 'write'].iops:.1f}", f"{rows[1, 'read'].iops:.1f}") == ("2941.0", "9048.0")
    service = rows[0, "write"].measures["service"]
    assert (service.mean_ns, service.min_ns, service.max_ns) == (9_383_000, 1_661_000, 120_903_000)
    assert set(service.percentiles.values()) == {None}
    assert any("MKDIRS" in warning.text for warning in record.info.warnings)


def test_elbenchos_json_has_mixed_phases_and_says_what_was_not_aligned(tmp_path: Path) -> None:
    text = sample("elbencho-3.1.json")
    record = stored(tmp_path, text)
    rows = by_operation(record)
    assert {key: (row.requests, row.bytes, row.iops) for key, row in rows.items()} == {
        (0, "read"): (70_000, 286_720_000, 70_000),
        (0, "write"): (30_000, 122_880_000, 30_000),
        (1, "read"): (98_000, 401_408_000, 98_000),
    }
    times = [rows[0, operation].measures["service"] for operation in ("read", "write")]
    assert [(one.min_ns, one.mean_ns, one.max_ns) for one in times] == [
        (61_000, 280_000, 4_100_000),
        (20_000, 400_000, 9_000_000),
    ]
    assert "service" not in rows[1, "read"].measures
    assert [phase.name for phase in record.info.plan.phase] == [
        "1: random read and write 4 KiB, mixed",
        "2: random read 4 KiB",
    ]
    assert (record.info.start and record.info.start.io, record.info.software_version) == ("direct", "elbencho 3.1-9")
    said = " ".join(warning.text for warning in record.info.warnings)
    assert "MKDIRS" in said
    assert "--norandalign" in said
    aligned = read(text.replace('"random_aligned":"false"', '"random_aligned":"true"'))
    assert "read = 70" in aligned.profile
    assert not read(text).profile, "no profile has offsets that are aligned otherwise"
    # Before 3.0-37 there was no config.
    (phase,) = read(re.sub(r'"config":{[^}]*},', "", text.splitlines()[2])).phases
    assert (phase.name, phase.asked.size_bytes, phase.asked.workers) == ("1: read", None, None)
    assert phase.moved[0].requests == 98_000


def test_errors_are_said_as_far_as_the_tool_reported_them(tmp_path: Path) -> None:
    for name, said in (
        ("elbencho-3.1.csv", "Whether requests failed is not known: elbencho does not report it."),
        ("diskspd-2.0-read.xml", "Whether requests failed is not known: diskspd does not report it."),
        ("iometer-1.1.csv", "2 requests failed"),
    ):
        belief = answer([stored(tmp_path, sample(name))], {}).belief
        assert said in belief
        assert "No request failed" not in belief
    # Iometer has no error in its first test.
    text = sample("iometer-1.1.csv")
    first = stored(tmp_path, text[: text.index("'Access specifications", text.index("'Results"))])
    assert "Iometer reported no error." in answer([first], {}).belief
    assert by_operation(first)[0, "read"].measures["service"].min_ns is None, "Iometer prints no minimum"


def test_a_page_without_pictures_speaks_of_none(tmp_path: Path) -> None:
    """Its footer named a folder that held "every picture" and was empty."""
    page = write_report([stored(tmp_path, sample("diskspd-2.0-mixed.txt"))], None, tmp_path / "page")
    assert "pictures" not in page.read_text()
    assert [path.name for path in page.parent.iterdir()] == [page.name]


SILENT = ("diskspd-2.0-mixed.txt", "diskspd-2.0-read.xml", "elbencho-3.1.csv", "elbencho-3.1.json")
"""Results of tools that do not report whether requests failed."""


@pytest.fixture(params=SILENT)
def silent(request: pytest.FixtureRequest, tmp_path: Path) -> Record:
    return stored(tmp_path, sample(request.param))


def test_no_requirement_of_errors_is_met_where_a_tool_does_not_report_them(silent: Record) -> None:
    for asked in ("errors<=0%", "errors<=50%", "read.errors<=0%"):
        (found,) = verdict(silent, rulers.read(asked)).findings
        why = f"{silent.info.tool} does not report whether requests failed"
        assert (found.word, found.reason, found.value, found.errors) == ("not known", why, None, None)
    assert verdict(silent, rulers.read("iops>=1")).word == "pass"
    (known,) = verdict(silent, rulers.read("iops>=1e9")).findings
    assert (known.word, known.errors) == ("fail", None)


def test_such_a_requirement_ends_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.txt").write_text(sample(SILENT[0]))
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(tmp_path / "r.txt"), *store]) == 0
    capsys.readouterr()
    assert main(["show", "latest", "--check", "errors<=0%", *store]) == 1
    said = capsys.readouterr().out
    assert "Requirement errors<=0%: not known, diskspd does not report whether requests failed." in said
    # The rows of the throughput end with the errors, also that of several operations.
    assert re.findall(r"^file-1 +(read|write|all) +\d.* (\S+)$", said, re.MULTILINE) == [
        ("read", "–"),
        ("write", "–"),
        ("all", "–"),
    ]


def test_errors_that_a_tool_does_not_report_are_a_dash_in_a_report(silent: Record) -> None:
    throughput = next(table for table in totals_tables([silent]) if table.title == "Throughput")
    assert throughput.rows
    assert throughput.columns[-1] == "errors"
    assert {row[-1] for row in throughput.rows} == {"–"}


def test_errors_that_a_tool_does_not_report_are_null_in_json(silent: Record) -> None:
    (document,) = documents([silent])
    for key in ("totals", "intervals"):
        assert document[key], key
    found = json.loads(json.dumps([document[key] for key in ("totals", "intervals", "all_rates")]))
    assert {row["errors"] for part in found for row in part} == {None}
    assert (document["errors_by_errno"], document["errors_by_kind"]) == (None, None)


@pytest.mark.parametrize("which", ["intervals", "totals"])
def test_errors_that_a_tool_does_not_report_are_empty_in_tables(silent: Record, which: Rows) -> None:
    file = io.BytesIO()
    write_export([silent], "csv", file, which)
    found = list(csv.DictReader(io.StringIO(file.getvalue().decode())))
    assert found
    assert {row["errors"] for row in found} == {""}
    file = io.BytesIO()
    write_export([silent], "parquet", file, which)
    column = parquet.read_table(io.BytesIO(file.getvalue())).column("errors")
    assert column.null_count == len(column) > 0


@pytest.mark.parametrize("form", ["prometheus", "openmetrics"])
def test_errors_that_a_tool_does_not_report_have_no_sample(silent: Record, form: Form) -> None:
    file = io.BytesIO()
    write_export([silent], form, file)
    text = file.getvalue().decode()
    assert "brickyard_requests_total{" in text
    assert "brickyard_errors" not in text


def test_errors_that_a_tool_does_not_report_are_unknown_on_pages_and_in_studies(silent: Record) -> None:
    whole = whole_figures(silent)
    assert whole is not None
    assert whole.errors is None
    found = moments(silent.info, silent.intervals, list(enumerate(silent.costs)))
    assert {one.errors for one in found} == {None}
    assert [one.value for one in measured(silent, FIGURES["errors"], split=("phase",))] == [None] * len(found)


def test_errors_that_a_tool_reports_are_counted(tmp_path: Path) -> None:
    record = stored(tmp_path, sample("iometer-1.1.csv"))
    assert [row.errors for row in totals(record)] == [0, 0, 2]
    assert verdict(record, rulers.read("errors<=0%")).word == "fail"
    assert verdict(record, rulers.read("errors<=1%")).word == "pass"
    file = io.BytesIO()
    write_export([record], "prometheus", file)
    assert file.getvalue().count(b"brickyard_errors_total{") == 3


def test_failures_are_not_compared_with_those_that_a_tool_does_not_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = sample("diskspd-2.0-mixed.txt")
    (tmp_path / "r.txt").write_text(text)
    store, profile = ["--store", str(tmp_path / "runs.db")], str(tmp_path / "same.toml")
    assert main(["import", str(tmp_path / "r.txt"), "-o", profile, *store]) == 0
    assert main(["run", profile, SIM, *store]) == 0
    with Store(tmp_path / "runs.db") as kept:
        theirs, ours = kept.record(1), kept.record(2)
    failing = replace(ours, intervals=[replace(item, errors=5) for item in ours.intervals])
    for before, after in ((theirs, failing), (failing, theirs)):
        found = compare([before], [after])
        assert found.failures
        assert not any(item.is_worse(0.0) for item in found.failures)
        assert not any("failed requests" in line for line in verdict_lines(found, gate(found.changes, 0.05), 0.05))
    assert any(item.is_worse(0.0) for item in compare([ours], [failing]).failures)
    capsys.readouterr()
    assert main(["baseline", "save", "theirs", "1", *store]) == 0
    assert main(["compare", "2", "--baseline", "theirs", *store]) == 0
    said = capsys.readouterr().out
    assert "note: failed requests are not compared: diskspd does not report whether requests failed" in said


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("diskspd-2.0-mixed.txt", str),
        ("iometer-1.1.csv", lambda text: text[: text.index("'Access specifications", text.index("'Results"))]),
        ("elbencho-3.1.csv", lambda text: text.replace(",dir,", ",file,")),
    ],
)
def test_a_result_is_compared_with_a_run_of_ours(
    name: str, change: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(change(sample(name)))
    store, profile = ["--store", str(tmp_path / "runs.db")], str(tmp_path / "same.toml")
    assert main(["import", str(tmp_path / name), "-o", profile, *store]) == 0
    assert main(["run", profile, SIM, *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "2", "--json", *store]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["changes"]
    assert {change["figure"] for change in found["changes"]} >= {"iops"}
    assert not found["only_before"]
    assert not found["only_after"]
    # A shorter run of the same load is compared, too, and the comparison says so first.
    assert main(["run", profile, SIM, "--set", "duration=2s", *store]) == 0
    capsys.readouterr()
    assert main(["compare", "1", "3", "--json", *store]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["changes"]
    (differ,) = found["loads_differ"]
    assert "duration: " in differ
    assert main(["run", profile, SIM, "--set", "duration=2s", "--set", "depth=3", *store]) == 0
    assert main(["compare", "1", "4", *store]) == 2
    told = capsys.readouterr().err
    assert "no workload was measured on both sides" in told
    assert "their plans differ in " in told
    assert "queue depth: " in told
    # A result that is there already is not stored again.
    assert main(["import", str(tmp_path / name), *store]) == 0
    assert "is already run 1" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_was_cut_or_garbled_is_one_clear_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = sample(name)
    broken = [text[: len(text) * part // 23] for part in range(1, 23)]
    numbers = list(re.finditer(r"\d+", text))
    for at in range(0, len(numbers), max(1, len(numbers) // 40)):
        for instead in ("x", "-7", "9" * 30, ""):
            broken.append(text[: numbers[at].start()] + instead + text[numbers[at].end() :])
    with Store(tmp_path / "runs.db") as store:
        for one in broken:
            if (found := recognize(one) or "").endswith("-result"):
                with suppress(BadInputError):
                    store_result(store, read_tool_result(found, "a", one), one, profile="a")
    (tmp_path / name).write_text(text[: len(text) // 5])
    assert main(["import", str(tmp_path / name), "--store", str(tmp_path / "more.db")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert name in said
    assert not re.search(r"JSON|`\$|Expected|column \d|Error|Object|token|char \d", said.replace("elbencho's JSON", ""))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!DOCTYPE a [<!ENTITY b 'c'>]>\n<Results>&b;</Results>", "no document type"),
        ("<Results>\n</Results>", "no Results with a TimeSpan"),
        ("<Results><TimeSpan><Error>The test was interrupted</Error></TimeSpan></Results>", "measured nothing"),
        ("ISO Date,Label,Phase,RuntimeMS,Rank\n2026-04-25T10:00:01,a,READ,1000,Total\n", "--csvfile"),
        ("ISO date,label,operation\n2026-04-25T10:00:01,,STAT\n", "only STAT"),
        ("ISO date,label,operation,threads\n2026-04-25T10:00:01,,READ,x\n", "`threads` is missing or garbled"),
        ('{"phase_type":"READ","iso_start_date":"2026-06-22T16:09:40.000+0200"}', "`last_done` is missing or garbled"),
        ("'Results\n'Target Type,Target Name\n", "cut off"),
    ],
)
def test_what_is_no_result_is_said(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r").write_text(text)
    assert main(["import", str(tmp_path / "r"), "--store", str(tmp_path / "runs.db")]) == 2
    assert said in capsys.readouterr().err


def test_a_longest_time_below_a_percentile_is_kept_as_printed() -> None:
    """diskspd's extremes are those of its table."""
    (phase,) = read(sample("diskspd-2.0-mixed.txt")).phases
    assert [one.times.max_ns for one in phase.moved if one.times] == [7_990_000, round(35.257 * MS)]


def test_the_page_of_a_result_draws_nothing_that_was_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One figure for the whole time is no course, and percentiles are no distribution."""
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["import", str(SAMPLES / "diskspd-2.0-mixed.txt"), *store]) == 0
    assert "Seed" not in capsys.readouterr().out
    assert main(["report", "1", "-o", str(tmp_path / "page"), *store]) == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert "over time" not in page
    assert "834" in page or "835" in page
    capsys.readouterr()
    assert main(["export", "1", "--format", "hdr", *store]) == 2
    assert "diskspd printed no distribution" in capsys.readouterr().err


def test_exports_of_a_result_have_its_own_percentiles_and_no_histogram(tmp_path: Path) -> None:
    record = stored(tmp_path, sample("diskspd-2.0-mixed.txt"))
    intervals, whole = list(rows([record])), list(rows([record], "totals"))
    (document,) = documents([record])
    assert [(row["p50_ns"], row["p99_ns"]) for row in intervals] == [(232_000, 877_000), (1_833_000, 6_107_000)]
    assert [(row["p50_ns"], row["p99_ns"]) for row in whole] == [(232_000, 877_000), (1_833_000, 6_107_000)]
    parts = document["intervals"]
    assert isinstance(parts, list)
    assert [row["p99_ns"] for row in parts] == [877_000, 6_107_000]
    assert {row["histogram"] for row in [*intervals, *whole, *parts]} == {""}


def test_means_alone_give_no_percentile_in_an_export(tmp_path: Path) -> None:
    record = stored(tmp_path, sample("iometer-1.1.csv"))
    assert {(row["p50_ns"], row["p99_ns"], row["histogram"]) for row in rows([record])} == {(None, None, "")}


def test_percentiles_of_several_operations_are_not_known_without_a_distribution(tmp_path: Path) -> None:
    times = [row.measures["service"] for row in totals(stored(tmp_path, sample("diskspd-2.0-mixed.txt")))]
    both, one = as_one(times), as_one(times[:1])
    assert both
    assert set(both.percentiles.values()) == {None}
    assert one
    assert one.p99 == 877_000


@pytest.mark.parametrize(
    ("asked", "word", "said"),
    [
        ("read.p99<=1ms", "pass", "p99 877 µs (diskspd's latency)"),
        ("write.p99<=1ms", "fail", "p99 6.11 ms (diskspd's latency)"),
        ("p99<=37ms", "pass", "max 35.3 ms (diskspd's latency)"),
        ("p99<=10ms", "pass", "p99 6.11 ms (diskspd's latency)"),
        ("p99<=800us", "fail", "p99 877 µs (diskspd's latency)"),
        ("p99<=3ms", "not known", None),
        ("commit.p99<=1s", "not known", None),
    ],
)
def test_a_limit_on_a_time_is_judged_by_diskspds_latency(
    asked: str, word: str, said: str | None, tmp_path: Path
) -> None:
    """Without a rate, it is the response time. The p99 of reads and writes together is not known, but lies between
    theirs."""
    found = verdict(stored(tmp_path, sample("diskspd-2.0-mixed.txt")), rulers.read(asked))
    assert (found.word, measured_text(found.decided)) == (word, said)


def test_at_a_rate_diskspds_latency_meets_no_limit(tmp_path: Path) -> None:
    text = sample("diskspd-2.0-read.xml").replace("<Thread>", LATENCY, 1)
    paced = text.replace("<RequestCount>", '<Throughput unit="IOPS">100</Throughput><RequestCount>')
    assert paced != text
    (tmp_path / "paced").mkdir()
    for record, word in ((stored(tmp_path, text), "pass"), (stored(tmp_path / "paced", paced), "not known")):
        assert verdict(record, rulers.read("p99<=2ms")).word == word
        assert verdict(record, rulers.read("p99<=1ms")).word == "fail", "it is at least as long"
    reason = verdict(record, rulers.read("p99<=2ms")).decided.reason
    assert reason.startswith("diskspd's times leave out how late a request was sent, and ")
