"""Rulers, verdicts and prices: figures that can be checked by hand, and exit codes that scripts rely on."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard import _core, rulers
from brickyard.analysis.figures.latency import bucket_start_ns
from brickyard.analysis.figures.price import Price, costs
from brickyard.analysis.figures.ramp_result import closing_rates
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.run_figures import run_figures
from brickyard.analysis.judging.verdict import Verdict, all_pass, verdict, verdict_document
from brickyard.analysis.judging.verdict_words import verdict_line, verdict_rows
from brickyard.cli import main
from brickyard.cli.parts.progress import closing
from brickyard.errors import BadInputError
from brickyard.store import Json, Record, Store, default_place
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

MIB = 1 << 20
FEW_SLOTS = "with at most 4 requests in flight, which the profile sets; more may reach the rate"
VIDEO = {
    "hd-video": {
        "DVCPRO HD": 5.49,
        "720p 24 fps": 42.19,
        "720p 30 fps": 52.73,
        "720p 60 fps": 105.47,
        "1080 24p 8-bit": 94.92,
        "1080 24p 10-bit": 126.56,
        "1080i 8-bit": 118.65,
        "1080i 10-bit": 158.2,
    },
    "sd-video": {
        "MiniDV": 3.43,
        "DVCAM": 3.43,
        "DVCPRO": 3.43,
        "DVCPRO 50": 6.87,
        "Uncompressed SD 8-bit": 20.02,
        "Uncompressed SD 10-bit": 26.7,
    },
}


def record_of(
    tmp_path: Path, *cells: Json, plan_: Json | None = None, seconds: int = 1, outcome: str = "done"
) -> Record:
    with Store(tmp_path / "runs.db") as store:
        events = [interval(0, seconds * SECOND, *cells), phase_end(reason="requests")]
        run = add_run(store, events, plan_=plan_, outcome=outcome)
        return store.record(run)


def judged(record: Record, word: str) -> Verdict:
    return verdict(record, rulers.read(word))


@pytest.mark.parametrize("name", rulers.names())
def test_every_shipped_ruler_names_its_source(name: str) -> None:
    ruler = rulers.read(name)
    assert ruler.title
    assert ruler.source
    assert ruler.about


@pytest.mark.parametrize("name", VIDEO)
def test_video_rulers_are_the_table_and_agree_with_its_formula(name: str) -> None:
    found = {r.name: r.threshold / MIB for r in rulers.read(name).requirements}
    assert found == pytest.approx(VIDEO[name])
    picture = {"720p": 1280 * 720, "1080": 1920 * 1080, "1080i": 1920 * 1080, "Uncompressed": 720 * 486}
    for line, mib_per_s in found.items():
        words = line.split()
        if words[0] in picture:
            frames = next((int(w.removesuffix("p")) for w in words[1:] if w in ("24", "30", "60", "24p")), 30)
            pixel = 8 / 3 if "10-bit" in line else 2
            assert picture[words[0]] * pixel * frames / MIB == pytest.approx(mib_per_s, abs=0.006)


def test_head_room_of_a_rate(tmp_path: Path) -> None:
    # 200 requests of 1 MiB in a second: 200 MiB/s.
    load = plan(stream(**VIDEO_STREAM))
    record = record_of(tmp_path, cell([MS] * 200, request_bytes=MIB), plan_=load)
    found = judged(record, "hd-video")
    assert found.passed
    assert found.decided.requirement.name == "1080i 10-bit"
    assert found.decided.head_room == pytest.approx(200 / 158.2)
    assert not judged(record, "throughput>=200.1MiB/s").passed
    assert judged(record, "throughput >= 200MiB/s").passed
    assert judged(record, "iops>=200").decided.head_room == pytest.approx(1)


def test_one_line_of_a_ruler(tmp_path: Path) -> None:
    load = plan(stream(**VIDEO_STREAM))
    record = record_of(tmp_path, cell([MS] * 120, request_bytes=MIB), plan_=load)
    assert not judged(record, "hd-video").passed
    assert judged(record, "hd-video:1080i-8-bit").passed
    assert not judged(record, "hd-video:1080i 10-bit").passed
    with pytest.raises(BadInputError, match="it has DVCPRO HD, 720p 24 fps"):
        rulers.read("hd-video:1080k")


def test_reads_and_writes_add_up_to_a_rate_and_merge_to_a_time(tmp_path: Path) -> None:
    both = record_of(tmp_path, cell([2 * MS] * 30), cell([8 * MS] * 10, operation="write"))
    assert judged(both, "iops>=40").passed
    mean = judged(both, "mean<=5ms").decided
    assert mean.value == pytest.approx(3.5 * MS, rel=0.01)
    assert mean.head_room == pytest.approx(5 / 3.5, rel=0.01)


def test_exchange_looks_at_each_stream_by_its_name(tmp_path: Path) -> None:
    load = plan(stream(name="database-read"), stream(name="database-write"), stream(name="log-write"))

    def exchange(read_ms: list[int], log_ms: int) -> Verdict:
        cells = (
            cell([ms * MS for ms in read_ms]),
            cell([90 * MS] * 20, stream=1, operation="write"),  # nobody waits for these
            cell([log_ms * MS] * 20, stream=2, operation="write"),
        )
        return judged(record_of(tmp_path, *cells, plan_=load), "exchange")

    good = exchange([10] * 40, 4)
    assert good.passed
    assert good.decided.requirement.name == "database read, mean"
    assert good.decided.head_room == pytest.approx(2, rel=0.01)
    assert exchange([10] * 39 + [60], 4).decided.requirement.name == "database read, maximum"
    slow_log = exchange([10] * 40, 12)
    assert not slow_log.passed
    assert slow_log.decided.requirement.name == "log write, mean"


def test_a_fast_stream_does_not_hide_a_slow_one_of_the_same_pattern(tmp_path: Path) -> None:
    """The scan of the database reads often and fast; users wait for the other stream's reads."""
    load = plan(stream(name="database-read"), stream(name="database-scan"), stream(name="log-write"))
    cells = (
        cell([39 * MS] * 20),
        cell([MS] * 2000, stream=1),
        cell([MS] * 20, stream=2, operation="write"),
    )
    found = judged(record_of(tmp_path, *cells, plan_=load), "exchange")
    assert not found.passed
    mean = found.findings[0]
    assert mean.value == pytest.approx(39 * MS, rel=0.01)
    assert mean.stream == "database-read"
    assert "database-read" in verdict_rows(found)[0][-1]
    flushes = [cell([ms * MS] * n, operation="flush", stream=s) for s, (ms, n) in enumerate([(20, 100), (1, 20_000)])]
    etcd = judged(record_of(tmp_path, *flushes, plan_=plan(stream(name="wal"), stream(name="other"))), "etcd")
    assert (etcd.passed, etcd.decided.stream) == (False, "wal")


VIDEO_STREAM = {"address": {"kind": "sequential"}, "request": [{"size": MIB, "share": 100.0}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"address": {"kind": "random"}}, "stream cell is random"),
        ({"request": [{"size": 8192, "share": 100.0}]}, "stream cell has requests of 8 KiB"),
    ],
)
def test_a_video_format_needs_the_load_of_video(tmp_path: Path, changes: Json, said: str) -> None:
    load = plan(stream(**{**VIDEO_STREAM, **changes}))
    found = judged(record_of(tmp_path, cell([MS] * 900, request_bytes=MIB), plan_=load), "hd-video")
    assert found.word == "not applicable"
    assert not found.passed
    assert said in found.decided.reason
    assert said in verdict_rows(found)[0][-1]


def test_what_was_not_measured_or_failed_does_not_pass(tmp_path: Path) -> None:
    few = record_of(tmp_path, cell([MS] * 50))
    found = judged(few, "write.p99<=5ms")
    assert (found.passed, found.decided.value, found.decided.reason) == (False, None, "not measured")
    assert not judged(few, "exchange").passed
    for word in ("mean<=5ms", "p99<=5ms"):
        broken = judged(record_of(tmp_path, cell([MS] * 50, errors=2)), word)
        assert (broken.passed, broken.word, broken.decided.reason) == (False, "fail", "2 requests failed")


@pytest.mark.parametrize(
    ("word", "told", "room"),
    [
        ("p99.99<=20ms", "met, max 12.0 ms.", "× 1.67 or more"),
        ("p99.99<=11ms", "not known, fewer than ten samples lie beyond p99.99, and the maximum is 12.0 ms.", "–"),
        ("p99.99<=11.99ms", "not known, fewer than ten samples lie beyond p99.99, and the maximum is 12.00 ms.", "–"),
        ("p99.99<=1ms", "not met, p50 2.01 ms.", "× 0.50 or less"),
        ("mean<=2.49999ms", "not met, mean 2.50000 ms.", "× 0.999996"),
        ("iops>=20.001", f"not met, 20.000 IOPS, {FEW_SLOTS}.", "× 0.99995"),
    ],
)
def test_other_figures_decide_a_percentile_that_is_not_known(tmp_path: Path, word: str, told: str, room: str) -> None:
    found = judged(record_of(tmp_path, cell([2 * MS] * 19 + [12 * MS]), plan_=plan()), word)
    assert verdict_line(found) == f"Requirement {word}: {told}"
    assert verdict_rows(found)[0][3] == room
    (document,) = narrowed(verdict_document(found)["findings"])
    assert found.passed == (document["bound"] == {"figure": "max", "value": 12.0 * MS})
    assert found.word == {"met": "pass", "not met": "fail"}.get(told.partition(",")[0], "not known")


def narrowed(findings: object) -> list[Json]:
    assert isinstance(findings, list)
    return findings


@pytest.mark.parametrize("outcome", ["interrupted", "failed"])
def test_what_a_part_of_a_run_met_is_not_known_of_the_whole(tmp_path: Path, outcome: str) -> None:
    record = record_of(tmp_path, cell([MS] * 50), outcome=outcome)
    met = judged(record, "mean<=5ms")
    assert (met.passed, met.word, met.decided.head_room) == (False, "not known", 5.0)
    assert outcome in met.decided.reason
    assert (judged(record, "mean<=10us").word, judged(record, "mean<=10us").decided.reason) == ("fail", "")
    whole = judged(record_of(tmp_path, cell([MS] * 50)), "mean<=5ms")
    assert all_pass([whole])
    assert not all_pass([whole, met])


def test_what_a_cache_or_a_hole_met_is_not_known_of_the_storage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write = ["run", "sqlio-random-write-4", "sim:overland-2007-sas"]
    assert main([*write, "--check", "iops>=1800"]) == 1
    assert "not known, 1,990 IOPS, it may be a figure of a cache: 27 % of the" in capsys.readouterr().out
    # 73 % of the rate is the storage's own, at the least.
    assert main(["show", "latest", "--check", "iops>=1400"]) == 0
    assert main(["show", "latest", "--check", "errors<=1%"]) == 0
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(MIB)
    read = ["run", "--rw", "randread", "--bs", "4k", "--direct", "0", "--runtime", "300ms", str(sparse)]
    assert main([*read, "--check", "iops>=1"]) == 1
    said = capsys.readouterr().out
    assert "This is not the rate of the storage: 100 % of what may be read was never written." in said
    assert "not known" in said
    sparse.write_bytes(os.urandom(MIB))
    os.sync()
    assert main([*read, "--check", "iops>=1"]) == 0
    assert "never" not in capsys.readouterr().out


def test_the_worst_phase_decides(tmp_path: Path) -> None:
    load = plan()
    load["phase"] = [{**load["phase"][0], "name": name} for name in ("fast", "slow")]
    with Store(tmp_path / "runs.db") as store:
        events = [
            interval(0, SECOND, cell([MS] * 100)),
            phase_end(reason="requests"),
            interval(SECOND, 2 * SECOND, cell([9 * MS] * 20), phase=1),
            phase_end(phase=1, reason="requests"),
        ]
        record = store.record(add_run(store, events, plan_=load))
    found = judged(record, "iops>=50")
    assert found.decided.phase == "slow"
    assert verdict_line(found) == f"Requirement iops>=50: not met, phase slow: 20.0 IOPS, {FEW_SLOTS}."
    assert judged(record, "mean<=10ms").decided.value == pytest.approx(9 * MS, rel=0.01)


def test_price_beside_the_figures(tmp_path: Path) -> None:
    record = record_of(tmp_path, cell([MS] * 100, request_bytes=MIB))
    (cost,) = costs(record, Price(500.0, capacity_bytes=2 * 10**12, ports=4))
    assert (cost.usd_per_iops, cost.usd_per_mib_per_s, cost.usd_per_tb, cost.usd_per_port) == (5, 5, 250, 125)
    (bare,) = costs(record, Price(500.0))
    assert (bare.usd_per_tb, bare.usd_per_port) == (None, None)


BAD = [
    ("hd-vidoe", "did you mean hd-video"),
    ("p98<=5ms", "figure p98"),
    ("p99>=5ms", "a time is a limit"),
    ("p99<5ms", "a limit itself is within it, so < is not accepted; write 'p99<=5ms'"),
    ("iops>1000", "write 'iops>=1000'"),
    ("errors<0%", "write 'errors<=0%'"),
    ("iops<=5", "a rate must be reached"),
    ("p99<=soon", "not a time span"),
    ("iops>=1.5k", "1.5k is not a number of requests a second; write 1500"),
    ("iops>=fast", "fast is not a number of requests a second"),
    ("p99<=20", "20 of what? write 20ms, 20us or 20s"),
    ("iops>=many", "not a number"),
    ("throughput>=5parsec", "not a throughput"),
    ("iops>=0", "above 0"),
    ("./nothing.toml", "cannot be read"),
]


@pytest.mark.parametrize(("word", "said"), BAD)
def test_bad_rulers_are_refused_before_anything_is_measured(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "sqlio-random-read-4", "--ruler", word]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
    assert not default_place().exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one"),
        ("title = ", "ruler x: "),
        ("[[require]]\nfigure = 'p99'", "needs at_most"),
        ("[[require]]\nfigure = 'iops'\nat_least = '5'\nlimit = 3", "unknown key limit"),
        ("[[require]]\nfigure = 'mean'\nat_most = '5ms'\nmeasure = 'total'", "measure total"),
    ],
)
def test_bad_ruler_files(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        rulers.parse("x", text)


@given(st.text(max_size=60))
def test_any_text_is_a_ruler_or_refused(text: str) -> None:
    with suppress(BadInputError):
        assert rulers.parse("x", text).requirements
    for word in (f"p99<={text}", f"throughput>={text}", text):
        with suppress(BadInputError):
            assert rulers.read(word).requirements


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> None:
    with Store() as store:
        add_run(store, [interval(0, SECOND, cell([MS] * 100)), phase_end(reason="requests")])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--ruler", "iops>=500"], 0),
        (["--ruler", "iops>=500", "--check"], 1),
        (["--check", "iops>=500"], 1),
        (["--check=iops>=500"], 1),
        (["--check", "iops>=50"], 0),
        (["--check", "iops>=50", "--ruler", "mean<=1us"], 1),
        (["--check", "obl-load"], 0),
        (["--check", "iops>=50", "--check", "mean<=1s"], 0),
        (["--check", "iops>=50", "--check=iops>=500"], 1),
        (["--check"], 2),
        (["--ports", "2"], 2),
        (["--price", "0"], 2),
        (["--price", "10", "--capacity", "much"], 2),
    ],
)
def test_check_sets_the_exit_code(arguments: list[str], code: int, run: None) -> None:
    assert main(["show", "1", *arguments]) == code
    assert main(["show", *arguments]) == code  # and the ruler is not taken for the run


def test_what_follows_check_and_is_no_ruler_is_named(run: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "1", "--check", "nope"]) == 2
    assert "--check: nope is no ruler; `brickyard rulers` lists them" in capsys.readouterr().err
    assert main(["show", "1", "--check", "hd-vidio"]) == 2
    assert "did you mean hd-video?" in capsys.readouterr().err
    assert main(["show", "1", "--check", "iops>=1", "--check", "nope"]) == 2
    assert "nope: no such ruler" in capsys.readouterr().err


def test_verdicts_stand_in_table_document_and_report(
    run: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--ruler", "obl-load", "--price", "1000", "--capacity", "2TB"]
    assert main(["show", *asked]) == 0
    out = capsys.readouterr().out
    assert "obl-load: pass; decided by mean response" in out
    assert "Price: 1,000.00 USD" in out
    assert main(["show", *asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["verdicts"]
    assert (found["passed"], found["head_room"]) == (True, pytest.approx(100, rel=0.01))
    assert document["price"]["phases"][0]["usd_per_iops"] == 10
    assert document["price"]["phases"][0]["usd_per_tb"] == 500
    assert main(["report", "--output", str(tmp_path / "r"), *asked]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert 'id="verdicts"' in page
    assert "obl-load: pass; decided by mean response" in page
    summary = page[page.index('id="summary"') : page.index("Before you rely on it")]
    assert "<p>Requirement obl-load: met, mean " in summary
    assert main(["report", "--output", str(tmp_path / "r")]) == 0
    assert 'id="verdicts"' not in (tmp_path / "r" / "report.html").read_text()


def test_a_run_is_judged_when_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["run", "sqlio-random-read-4", str(tmp_path / "brick"), "--size", "16MiB", "--set", "duration=100ms"]
    assert main([*base, "--check", "iops>=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"][0]["passed"] is True
    assert main([*base, "--check", "mean<=1ns", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdicts"][0]["passed"] is False


def test_rulers_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rulers", "--json"]) == 0
    assert [r["name"] for r in json.loads(capsys.readouterr().out)["rulers"]] == rulers.names()
    assert main(["rulers"]) == 0
    assert main(["rulers", "show", "hd-video:1080i-8-bit"]) == 0
    assert "≥ 119 MiB/s" in capsys.readouterr().out
    assert main(["rulers", "show", "p99<=5ms", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requirements"][0]["threshold"] == 5 * MS
    assert main(["rulers", "show", "nonsense"]) == 2


def test_a_misspelt_address_in_a_ruler_is_refused(tmp_path: Path) -> None:
    """It would make the requirement one for no load at all."""
    text = '[[require]]\nfigure = "iops"\nat_least = "1"\naddress = "%s"\n'
    rulers.parse("mine", text % "sequential")
    with pytest.raises(BadInputError, match=r"address sequental is not one of sequential, random"):
        rulers.parse("mine", text % "sequental")


def test_addresses_of_rulers_are_those_of_profiles() -> None:
    schema = json.loads(_core.schema())
    kinds = {one["properties"]["kind"]["const"] for one in schema["$defs"]["Address"]["oneOf"]}
    assert set(rulers.ADDRESSES) == kinds


def ramped(tmp_path: Path, limit: Json | None, found: int | None = 2) -> Record:
    """Three steps of 100, 300 and 500 requests a second, of which the third takes 200 ms for each, most of it late."""

    def at(step: int, requests: int, time_ns: int) -> Json:
        knob = {"workers": step, "depth": None, "rate_per_s": None}
        told = cell([time_ns] * requests)
        told["measures"]["lateness"] = cell([max(time_ns - 20 * MS, 0)] * requests)["measures"]["service"]
        return interval((step - 1) * SECOND, step * SECOND, told, knob=knob)

    steps = [(1, 100, 10 * MS), (2, 300, 20 * MS), (3, 500, 200 * MS)]
    told = {
        step: {
            "phase": 0,
            "knob": "workers",
            "value": step,
            "start_ns": (step - 1) * SECOND,
            "end_ns": step * SECOND,
            "rate_per_s": requests,
            "bytes_per_s": requests * 4096,
            "figure": time_ns,
            "overloaded": False,
            "within": step < 3,
        }
        for step, requests, time_ns in steps
    }
    events: list[Json] = [at(*step) for step in steps]
    if limit is not None:
        end = {"event": "ramp_end", "phase": 0, "knob": "workers", "beyond": 3.0 if found else 1.0}
        events += [{"event": "ramp_step", **one} for one in told.values()]
        events += [end | ({"found": told[found]} if found else {})]
    asked = {"knob": "workers", "from": 1, "to": 3, "every": "1s", **({"limit": limit} if limit else {})}
    with Store(tmp_path / "runs.db") as store:
        return store.record(add_run(store, [*events, phase_end(reason="ramp")], plan_=plan(ramp=asked)))


WITHIN: Json = {"when": "mean", "above": "100ms"}


def test_a_ramp_is_judged_by_the_step_that_it_found(tmp_path: Path) -> None:
    record = ramped(tmp_path, WITHIN)
    assert judged(record, "iops>=250").findings[0].value == 300
    (time,) = judged(record, "mean<=100ms").findings
    assert (time.value, time.head_room) == (20 * MS, 5)
    told = answer([record], {})
    said = "at workers 2, the step that the ramp found, since workers 3 had mean 200 ms: read 300 requests/s"
    assert said in told.sentences[0]
    assert "Lateness" not in told.belief, "only the step that was rejected had any"
    assert closing(closing_rates(record)).startswith("300 IOPS")
    (part,) = run_figures(record).parts
    assert part.values["iops"] == 300


def test_a_ramp_without_a_limit_has_no_verdict_and_its_headline_says_what_it_is(tmp_path: Path) -> None:
    record = ramped(tmp_path, None)
    (finding,) = judged(record, "iops>=250").findings
    assert (finding.word, finding.value) == ("not measured", None)
    assert "a ramp without a limit has no single figure" in finding.reason
    told = answer([record], {})
    assert "mean over the 3 steps of the ramp, workers 1 to 3: read 300 requests/s" in told.sentences[0]
    assert "Lateness is 84 % of the mean response time" in told.belief
    assert "(mean over the 3 steps of the ramp, workers 1 to 3)" in closing(closing_rates(record))
    assert judged(record, "errors<=1%").passed


def test_a_ramp_that_no_step_kept_has_no_verdict(tmp_path: Path) -> None:
    record = ramped(tmp_path, WITHIN, found=None)
    (finding,) = judged(record, "mean<=100ms").findings
    assert (finding.passed, finding.reason) == (False, "no step of the ramp kept its limit")
    assert run_figures(record).parts == []


@pytest.mark.parametrize(
    ("limit_ms", "word"), [(27.1, "pass"), (27.0, "not known"), (26.9, "not known"), (26.8, "fail"), (20, "fail")]
)
def test_a_verdict_is_no_finer_than_the_histogram(tmp_path: Path, limit_ms: float, word: str) -> None:
    """27 ms lie in a bucket from 26.87 to 27.001 ms, and nothing tells where."""
    with Store(tmp_path / "runs.db") as store:
        times = [*[MS] * 980, *[26_950_000] * 15, *[40 * MS] * 5]
        record = store.record(add_run(store, [interval(0, SECOND, cell(times)), phase_end()]))
    found = verdict(record, rulers.read(f"p99<={limit_ms}ms"))
    assert found.word == word
    if word == "not known":
        assert "lies between 26.9 ms and 27.0 ms" in found.decided.reason


@pytest.mark.parametrize(("limit", "word"), [("p95<=2ms", "pass"), ("p95<=1ms", "fail"), ("p99<=2ms", "fail")])
def test_a_requirement_may_be_of_p95(tmp_path: Path, limit: str, word: str) -> None:
    """Of 1,000 requests, 940 take half a millisecond, 20 more 1.5 ms, and 40 take 40 ms."""
    with Store(tmp_path / "runs.db") as store:
        times = [*[MS // 2] * 940, *[3 * MS // 2] * 20, *[40 * MS] * 40]
        record = store.record(add_run(store, [interval(0, SECOND, cell(times)), phase_end()]))
    assert verdict(record, rulers.read(limit)).word == word


@given(st.integers(min_value=1, max_value=3_600 * SECOND))
def test_a_bucket_holds_the_time_and_the_one_before_it_does_not(time_ns: int) -> None:
    """Against the histogram itself, up to the longest time that it holds."""

    def end_of(value_ns: int) -> int:
        return _core.Histogram.of_counts([(value_ns, 1), (1 << 46, 1)]).percentiles_ns([50.0])[0]

    end = end_of(time_ns)
    start = bucket_start_ns(end)
    assert start <= time_ns <= end
    assert end_of(start) == end
    assert start == 1 or end_of(start - 1) < end
