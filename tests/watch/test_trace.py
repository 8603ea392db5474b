"""Traces of requests: those of other tools as they write them, on models and a loop device whose kernel counts."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from brickyard import _core, traces
from brickyard.cli import main
from brickyard.cli.measuring.interference import _exit_code, _row, _sentence
from brickyard.errors import BadInputError
from brickyard.schema import PhaseEnd
from brickyard.store import Json, Record, Store
from brickyard.study.shipped.interference import InterferenceMap, MapAsked, MapPoint, point_of
from brickyard.traces.compared import distance_of, levy
from brickyard.units import format_iops
from support import OWN_MOUNTS

MIB = 1 << 20
MODEL = "sim:msr-2003-maxtor"
WITH_SBIN = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
FILETIME = 128166372003061629


def ran(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main([*words, "--json"]) == code, capsys.readouterr().err
    found: Json = json.loads(capsys.readouterr().out)
    return found


def table(path: Path, requests: int = 3000, gap_us: float = 20_000.0, span: int = 20_000) -> Path:
    """Requests at random in the form of the MSR Cambridge traces."""
    rng = random.Random(3)
    at, lines = FILETIME, []
    for _ in range(requests):
        at += int(rng.expovariate(1 / gap_us) * 10)
        kind = "Read" if rng.random() < 0.7 else "Write"
        size = rng.choice([4096, 4096, 8192])
        lines.append(f"{at},hm,0,{kind},{rng.randrange(span) * 8192},{size},{rng.randrange(50_000, 90_000)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    out = tmp_path / "load.byt"
    ran(capsys, "trace", "import", str(table(tmp_path / "load.csv")), "-o", str(out))
    return out


class TestImport:
    def test_bad_lines_are_counted_and_shown(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = table(tmp_path / "load.csv", 200)
        source.write_text(source.read_text().replace("Write", "Wrote", 2) + "\x1b[31mno line\n")
        packed = tmp_path / "load.csv.gz"
        packed.write_bytes(gzip.compress(source.read_bytes()))
        out = tmp_path / "load.byt"
        assert main(["trace", "import", str(packed), "-o", str(out)]) == 0
        said = capsys.readouterr()
        assert "198 requests" in said.out
        assert "read as msr" in said.out
        assert "3 lines or records could not be read" in said.err
        assert "no line" in said.err
        assert "\x1b" not in said.err
        assert traces.contents(str(out)).summary.bad == 3

    def test_a_time_far_from_all_others_is_doubted(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, out, made = (tmp_path / name for name in ("load.csv", "load.byt", "load.toml"))
        table(source, 200)
        assert main(["trace", "import", str(source), "-o", str(out)]) == 0
        assert "note" not in capsys.readouterr().err
        with source.open("a") as file:
            file.write(f"{2 * FILETIME},hm,0,Read,8192,4096,60000\n")
        assert main(["trace", "import", str(source), "-o", str(out)]) == 0
        assert "100 % of the trace; check the times on both sides of it" in capsys.readouterr().err
        assert main(["trace", "profile", str(out), "-o", str(made)]) == 2
        assert "years, longer than a phase may last; a time in it is wrong" in capsys.readouterr().err

    def test_nothing_is_written_where_nothing_is_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = tmp_path / "notes.txt"
        source.write_text("dear diary\n")
        out = tmp_path / "out.byt"
        assert main(["trace", "import", str(source), "-o", str(out)]) == 2
        assert "--format" in capsys.readouterr().err
        assert not out.exists()
        out.write_text("mine")
        assert main(["trace", "import", str(table(tmp_path / "a.csv", 10)), "-o", str(out)]) == 2
        assert out.read_text() == "mine"

    def test_a_trace_that_was_cut_off_is_shown_up_to_there(
        self, trace: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        content = trace.read_bytes()
        torn = trace.with_name("torn.byt")
        torn.write_bytes(content[:-40])
        assert main(["trace", "show", str(torn)]) == 0
        shown = capsys.readouterr().out
        assert "cut off" in shown
        assert "longest about " in shown, "it is the end of a bucket"
        for words in (["profile", str(torn)], ["compare", str(trace), str(torn)]):
            main(["trace", *words])
            said = capsys.readouterr().err
            assert "cut off" in said, words
            assert str(trace) not in said
        torn.write_bytes(content[:200])
        main(["trace", "show", str(torn)])
        assert "holds no request; cut off" in capsys.readouterr().out
        torn.write_bytes(b"BYTRACE\x63")
        assert main(["trace", "show", str(torn)]) == 2
        assert "version 99" in capsys.readouterr().err

    def test_what_is_no_file_is_refused_at_once(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        os.mkfifo(tmp_path / "pipe")
        for place in (tmp_path / "pipe", tmp_path):
            assert main(["trace", "show", str(place)]) == 2
            assert "is no file; name a trace" in capsys.readouterr().err

    def test_what_fio_writes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        log = tmp_path / "io.log"
        subprocess.run(
            ["fio", "--name=a", f"--filename={tmp_path}/data", "--size=4m", "--rw=randrw", "--bs=4k", "--fsync=8",
             "--rate_iops=400,400", "--number_ios=200", f"--write_iolog={log}", "--output=/dev/null"],
            check=True,
        )  # fmt: skip
        lines = [line.split() for line in log.read_text().splitlines()[1:]]
        wrote = {word: sum(line[2] == word for line in lines) for word in ("read", "write", "sync")}
        found = ran(capsys, "trace", "import", str(log), "-o", str(tmp_path / "io.byt"))["summary"]
        assert (found["reads"], found["writes"], found["flushes"]) == tuple(wrote.values())
        assert found["flushes"] > 5
        assert found["bad"] == 0
        # 200 requests at twice 400/s.
        assert 0.1e9 < found["last_arrival_ns"] - found["first_ns"] < 5e9


class TestReplayOnModels:
    @pytest.mark.parametrize("timing", ["timed", "dependent", "fire_hose"])
    def test_every_request_is_issued_once(
        self, trace: Path, capsys: pytest.CaptureFixture[str], timing: str, tmp_path: Path
    ) -> None:
        taken = tmp_path / "taken.byt"
        found = ran(capsys, "run", str(trace), MODEL, "--timing", timing, "--save-trace", str(taken))["trace"]
        assert found["missing"] == {}
        assert sum(found["ended"].values()) == 3000
        ours, theirs = (traces.contents(str(path)).summary for path in (trace, taken))
        assert (ours.reads, ours.writes, ours.read_bytes, ours.write_bytes) == (
            theirs.reads, theirs.writes, theirs.read_bytes, theirs.write_bytes,
        )  # fmt: skip
        if timing == "timed":
            # In virtual time a free slot issues at the very instant; a queue only forms in the brick.
            assert abs(theirs.duration_ns - ours.duration_ns) < 1e-3 * ours.duration_ns
        if timing == "fire_hose":
            assert theirs.duration_ns < ours.duration_ns

    def test_speed_and_places(self, trace: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        taken = tmp_path / "taken.byt"
        ran(capsys, "run", str(trace), MODEL, "--speed", "0.5", "--save-trace", str(taken))
        ours, theirs = (traces.contents(str(path)).summary for path in (trace, taken))
        assert theirs.duration_ns == pytest.approx(2 * ours.duration_ns, rel=1e-3)
        found = ran(capsys, "run", str(trace), MODEL, "--fit", "scale", "--save-trace", str(taken))
        assert found["trace"]["missing"] == {}
        # 156 MiB are spread over 234 GiB.
        assert traces.contents(str(taken)).summary.end_bytes > 200 << 30

    def test_what_a_replay_changed_is_in_its_name(
        self, trace: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        first = tmp_path / "first.byt"
        ran(capsys, "run", str(trace), MODEL, "--save-trace", str(first))
        for words in (
            [], ["--speed", "0.5"], ["--timing", "dependent", "--fit", "scale"],
            ["--timing", "fire_hose", "--speed", "2"], ["--speed", "0.5", "--set", "seed=3", "--set", "depth=300"],
        ):  # fmt: skip
            ran(capsys, "run", str(first), MODEL, *words)
        out = tmp_path / "totals.csv"
        assert main(["export", "2-6", "--rows", "totals", "-o", str(out)]) == 0
        with out.open() as file:
            told = {row["run"]: row["workload_changes"] for row in csv.DictReader(file)}
        assert list(told.values()) == [
            "",
            "speed=0.5",
            "timing=dependent, fit=scale",
            "timing=fire_hose",
            "speed=0.5, depth=300",
        ]
        capsys.readouterr()
        assert main(["runs"]) == 0
        assert "speed=0.5" in capsys.readouterr().out
        # The gaps are those that were asked for, and the sentence says of what.
        said = "Compared with the trace at 0.5 times its speed: "
        assert main(["show", "3"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "the requests of first.byt, timed, but speed=0.5" in shown
        assert said in shown
        assert "gap" not in shown.partition(said)[2].partition(".")[0]
        # It is a difference of the plans, told once, and no other load by its name.
        assert main(["compare", "2", "3"]) in (0, 1)
        assert " ".join(capsys.readouterr().out.split()).count("trace speed: 1.0 → 0.5") == 1

    def test_dependent_requests_wait_for_those_before(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """One after the other in the trace, and so on a drive that is 100 times slower."""
        at, lines = FILETIME, []
        for number in range(300):
            lines.append(f"{at},hm,0,Read,{(number * 7919) % 10_000 * 8192},4096,1000")
            at += 2000  # 200 us: the request takes 100 of them, and 100 are between two
        (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
        one, taken = tmp_path / "one.byt", tmp_path / "taken.byt"
        ran(capsys, "trace", "import", str(tmp_path / "one.csv"), "-o", str(one))
        ran(capsys, "run", str(one), MODEL, "--timing", "dependent", "--save-trace", str(taken))
        found = traces.examine(str(taken))
        assert found.figures.depth_max == 0
        assert found.contents.summary.requests == 300
        # The 100 us between an end and the next request stay.
        latency_ns = float(np.mean(found.samples.latencies))
        assert found.figures.gap_mean_ns == pytest.approx(latency_ns + 100_000, rel=0.02)
        ran(capsys, "run", str(one), MODEL, "--save-trace", str(taken))
        assert traces.examine(str(taken)).figures.depth_max > 50

    def test_a_target_that_is_too_small_is_named(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        far = trace.with_name("far.csv")
        far.write_text(f"{FILETIME},hm,0,Read,{1 << 50},4096,10\n{FILETIME + 900},hm,0,Read,0,4096,10\n")
        ran(capsys, "trace", "import", str(far), "-o", str(trace.with_name("far.byt")))
        assert main(["run", str(trace.with_name("far.byt")), MODEL]) == 2
        assert "--fit wrap" in capsys.readouterr().err
        assert main(["run", "mixed-70-30", MODEL, "--timing", "timed"]) == 2
        assert "--timing needs a trace" in capsys.readouterr().err

    def test_the_same_brick_reproduces_the_trace(
        self, trace: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        first, second = tmp_path / "first.byt", tmp_path / "second.byt"
        ran(capsys, "run", str(trace), MODEL, "--save-trace", str(first))
        found = ran(capsys, "run", str(first), MODEL, "--save-trace", str(second))["trace"]["comparison"]
        assert found["reproduces"] is True
        assert found["verdict"] == "reproduces within 10 %"
        assert all(item["distance"] < 0.02 for item in found["distances"])
        slower = ran(capsys, "run", str(first), "sim:overland-2007-sas")["trace"]["comparison"]
        assert slower["reproduces"] is False
        assert "latency" in slower["verdict"]
        assert "size" not in slower["verdict"]
        # The page and `show` say it as well, out of what the store keeps, and count it among no notes.
        for run, said in (("2", "reproduces within 10 %"), ("3", slower["verdict"])):
            assert main(["report", run, "-o", str(tmp_path / f"page-{run}")]) == 0
            page = (tmp_path / f"page-{run}" / "report.html").read_text()
            assert page.count(f"Compared with the trace: {said}.") == 1
            capsys.readouterr()
            assert main(["show", run]) == 0
            assert f"Compared with the trace: {said}." in " ".join(capsys.readouterr().out.split())
        # A run says it once, in its answer; the distances follow at the end.
        assert main(["run", str(first), "sim:overland-2007-sas"]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert out.count("reproduce within 10 %") == 1
        assert out.index("reproduce within 10 %") < out.index("Distances from the trace (10 % is allowed): size of")
        assert main(["trace", "compare", str(first), str(second)]) == 0
        assert main(["trace", "compare", str(first), str(trace)]) == 1


def test_a_trace_that_lost_all_of_an_operation_is_not_reproduced_however_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = logged(tmp_path / "whole", [(("read", "write")[n % 2], n << 20, 4096) for n in range(2000)])
    short = logged(tmp_path / "short", [("read", n << 20, 4096) for n in range(60)])
    for first, second in ((whole, short), (short, whole)):
        capsys.readouterr()
        assert main(["trace", "compare", str(first), str(second)]) == 1
        said = capsys.readouterr().out
        assert "does not reproduce within 10 %: number of reads, number of writes; not compared: " in said
    assert main(["trace", "compare", str(short), str(short)]) == 1
    assert "no verdict: no figure has 100 values in both traces" in capsys.readouterr().out


class TestComparison:
    def test_distances_are_those_of_the_formula(self) -> None:
        rng = np.random.default_rng(1)
        values = np.sort(rng.exponential(1e6, 5000))
        assert levy(values, values) == 0.0
        # 5 % longer, each: a factor of 1.05.
        assert levy(values, values * 1.05) <= 0.05 + 1e-6
        exact = np.full(1000, 100.0)
        assert levy(exact, exact * 1.01) == pytest.approx(0.01, abs=1e-6)
        assert levy(exact, exact * 50) > 0.9
        # Shares off by 20 %, far apart.
        mixed = np.sort(np.concatenate([np.full(800, 100.0), np.full(200, 1e6)]))
        assert levy(exact, mixed) == pytest.approx(0.2, abs=1e-3)
        found = distance_of("gap", values, np.sort(rng.exponential(1e6, 5000)))
        assert found.ks is not None
        assert found.distance is not None
        assert found.distance <= found.ks < 0.05
        assert distance_of("gap", values[:10], values).distance is None

    def test_means_are_judged_where_a_wide_distribution_hides_them(self) -> None:
        gaps = np.sort(np.random.default_rng(1).exponential(1e6, 5000))
        longer = distance_of("gap", gaps, gaps * 1.4)
        assert longer.distance is not None
        assert longer.distance < 0.1, "the distance alone takes gaps that are 40 % longer for the same"
        assert longer.mean_difference == pytest.approx(0.4)
        assert longer.beyond(0.1) == ["mean gap"]
        # A few large requests that are not there: 4 per mille of the requests, half of the bytes.
        sizes = np.sort(np.concatenate([np.full(9960, 4096.0), np.full(40, 1 << 20)]))
        assert distance_of("size of reads", sizes, np.full(9960, 4096.0)).beyond(0.1) == ["mean size of reads"]
        # One more in flight now and then is no multiple of none.
        alone, seldom = np.zeros(1000), np.sort(np.r_[np.zeros(980), np.ones(20)])
        assert distance_of("depth", alone, seldom).beyond(0.1) == []
        unending = np.r_[np.sort(gaps), np.full(5000, np.inf)]
        assert distance_of("reuse", unending, unending).mean_difference is None


def logged(path: Path, actions: list[tuple[str, int, int]]) -> Path:
    """A trace by way of fio's own form: action, offset, size; 1 ms apart."""
    lines = ["fio version 3 iolog", "0 /data add", "0 /data open"]
    lines += [f"{at} /data {name} {offset} {size}" for at, (name, offset, size) in enumerate(actions)]
    source, out = path.with_suffix(".log"), path.with_suffix(".byt")
    source.write_text("\n".join(lines) + "\n")
    assert main(["trace", "import", str(source), "-o", str(out)]) == 0
    return out


SCATTERED = random.Random(5).sample(range(100_000), 2000)
UNLIKE = {
    "order": (
        [("read", number * 4096, 4096) for number in range(2000)],
        [("read", place * 4096, 4096) for place in SCATTERED],
        "sequential reads",
    ),
    "sizes": (
        [("write", n << 20, 65536) if n % 2 else ("read", n << 20, 4096) for n in SCATTERED],
        [("write", n << 20, 4096) if n % 2 else ("read", n << 20, 65536) for n in SCATTERED],
        "size of reads, size of writes",
    ),
    "flushes": (
        [("write", n << 20, 4096) for n in SCATTERED] + [("sync", 0, 0)] * 9,
        [("write", n << 20, 4096) for n in SCATTERED],
        "number of flushes",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_loads_that_are_nothing_alike_are_not_reproduced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs, figures = UNLIKE[name]
    first, second = logged(tmp_path / "first", ours), logged(tmp_path / "second", theirs)
    capsys.readouterr()
    assert main(["trace", "compare", str(first), str(second)]) == 1
    assert f"does not reproduce within 10 %: {figures}" in capsys.readouterr().out
    assert main(["trace", "compare", str(first), str(first)]) == 0


def test_flushes_have_their_plural(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = logged(tmp_path / "taken", [("write", n << 20, 4096) for n in range(81)] + [("sync", 0, 0)] * 19)
    capsys.readouterr()
    assert main(["trace", "show", str(taken)]) == 0
    assert "81 % writes (324 KiB), 19 % flushes" in capsys.readouterr().out


def shown(source: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The lines of `trace show` of an imported file, by their labels."""
    out = source.with_suffix(".byt")
    assert main(["trace", "import", str(source), "-o", str(out)]) == 0
    capsys.readouterr()
    assert main(["trace", "show", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return dict(line.split("  ", 1) for line in lines)


def test_a_form_without_marks_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    iolog = tmp_path / "iolog"
    iolog.write_text(
        "fio version 3 iolog\n0 /f add\n0 /f open\n1 /f read 0 4096\n2 /f write 4096 4096\n3 /f sync 0 0\n"
    )
    found = shown(iolog, capsys)
    assert {"read sizes", "write sizes"} <= set(found)
    assert not [label for label in found if label.endswith("marks")]
    text = tmp_path / "marked.txt"
    text.write_text(
        "  8,0  0  1  0.000000000  697  D  RS 2048 + 8 [dd]\n"
        "  8,0  0  2  0.000100000  697  D  WS 4096 + 8 [dd]\n"
        "  8,0  0  3  0.000200000  697  D  W 8192 + 8 [dd]\n"
    )
    found = shown(text, capsys)
    marks = {label: words.strip() for label, words in found.items() if label.endswith("marks")}
    assert marks == {"read marks": "100 % synchronous", "write marks": "50 % synchronous"}


def test_blocks_and_range_of_locality_are_of_reads_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = [("read", MIB, 4096), ("write", 2 * MIB, MIB), ("trim", 4 * MIB, MIB)]
    taken = logged(tmp_path / "taken", requests)
    capsys.readouterr()
    assert main(["trace", "show", str(taken)]) == 0
    said = capsys.readouterr().out
    assert "reads and writes lie from 1 MiB to 3 MiB and begin in 2 blocks of 4 KiB" in said
    assert "5 MiB" not in said


PROFILES = {
    "random": """
[[phase.stream]]
operations = { read = 70, write = 30 }
request = "8KiB"
address = "random"
region = "0..2GiB"
depth = 64
pace = { loop = "open", rate = 60, arrivals = "poisson" }
""",
    "bursts": """
[[phase.stream]]
request = [{ size = "4KiB", share = 60 }, { size = "64KiB", share = 40 }]
address = { kind = "zipf", theta = 0.9 }
region = "0..64MiB"
depth = 64
pace = { loop = "open", rate = 40, arrivals = "poisson", burst = 4 }
""",
    "one after the other": """
[[phase.stream]]
request = "16KiB"
address = { kind = "runs", random = 20 }
region = "0..4GiB"
depth = 1
think = "2ms"
""",
    "log": """
[[phase.stream]]
operations = { read = 0, write = 100 }
request = "4KiB"
address = "sequential"
region = "0..512MiB"
depth = 1
flush_every = { writes = 4 }
""",
    "a flush after each write, at its own times": """
[[phase.stream]]
operations = { read = 0, write = 100 }
request = "4KiB"
address = "random"
region = "0..1GiB"
depth = 64
pace = { loop = "open", rate = 30, arrivals = "poisson" }
flush_every = { writes = 1 }
""",
    "two flushes for three writes": """
[[phase.stream]]
operations = { read = 0, write = 60, flush = 40 }
request = "4KiB"
address = "random"
region = "0..1GiB"
depth = 64
pace = { loop = "open", rate = 30, arrivals = "poisson" }
""",
    "more flushes than writes": """
[[phase.stream]]
operations = { read = 50, write = 20, flush = 30 }
request = "4KiB"
address = "random"
region = "0..1GiB"
depth = 64
pace = { loop = "open", rate = 30, arrivals = "poisson" }
""",
    "few writes among reads, one at a time": """
[[phase.stream]]
operations = { read = 95, write = 5 }
request = "4KiB"
address = "random"
region = "0..4GiB"
depth = 1
""",
    "reads and larger writes, eight at a time": """
[[phase.stream]]
operations = { read = 70, write = 30 }
request = [{ size = "4KiB", of = "read" }, { size = "64KiB", of = "write" }]
address = "random"
region = "0..4GiB"
depth = 8
""",
    "reads and writes in one order, with flushes and pauses": """
[[phase.stream]]
operations = { read = 50, write = 50 }
request = "8KiB"
address = "sequential"
region = "0..2GiB"
depth = 1
think = "200us"
flush_every = { writes = 5 }
""",
    "deep": """
[[phase.stream]]
request = "4KiB"
address = "random"
region = "0..8GiB"
depth = 8
""",
    "apart": """
[[phase.stream]]
operations = { read = 100, write = 0 }
request = "4KiB"
address = { kind = "zipf", theta = 1.1 }
region = "0..64MiB"
depth = 64
pace = { loop = "open", rate = 40, arrivals = "poisson" }
[[phase.stream]]
operations = { read = 0, write = 100 }
request = "8KiB"
address = "random"
region = "4GiB..6GiB"
depth = 64
pace = { loop = "open", rate = 20, arrivals = "poisson" }
""",
}


class TestProfiles:
    @pytest.mark.parametrize("name", PROFILES)
    def test_a_profile_of_a_trace_reproduces_it(
        self, name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        load, taken, made, again = (tmp_path / name for name in ("load.toml", "a.byt", "made.toml", "b.byt"))
        load.write_text('[[phase]]\nduration = "120s"\n' + PROFILES[name])
        ran(capsys, "run", str(load), MODEL, "--save-trace", str(taken))
        ran(capsys, "trace", "profile", str(taken), "-o", str(made))
        ran(capsys, "run", str(made), MODEL, "--save-trace", str(again))
        found = traces.compare(traces.examine(str(taken)), traces.examine(str(again)))
        assert found.reproduces, f"{found.verdict}\n{found.distances}\n{made.read_text()}"

    def test_each_stream_has_the_region_and_the_locality_of_its_own_requests(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        load, taken, made = (tmp_path / name for name in ("load.toml", "a.byt", "made.toml"))
        load.write_text('[[phase]]\nduration = "120s"\n' + PROFILES["apart"])
        ran(capsys, "run", str(load), MODEL, "--save-trace", str(taken))
        ran(capsys, "trace", "profile", str(taken), "-o", str(made))
        reads, writes = tomllib.loads(made.read_text())["phase"][0]["stream"]
        (read_from, read_to), (write_from, write_to) = (
            [int(end.removesuffix("B")) for end in stream["region"].split("..")] for stream in (reads, writes)
        )
        assert 0 <= read_from < read_to <= 64 * MIB
        assert 4096 * MIB <= write_from < write_to <= 6144 * MIB
        assert reads["address"]["theta"] == pytest.approx(1.1, abs=0.1)
        assert writes["address"] == "random"

    def test_few_large_requests_keep_their_bytes(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """4 per mille of the requests, half of the bytes."""
        sizes = [4 << 20 if at % 250 == 0 else 4096 for at in range(2500)]
        taken = logged(tmp_path / "few", [("read", at * 8 * MIB, size) for at, size in enumerate(sizes)])
        made = tomllib.loads(ran(capsys, "trace", "profile", str(taken))["text"])
        (stream,) = made["phase"][0]["stream"]
        shares = {item["size"]: item["share"] for item in stream["request"]}
        assert shares == {"4096B": pytest.approx(99.6), "4194304B": pytest.approx(0.4)}

    @pytest.mark.parametrize(("reads", "words"), [(999, "no p99 of fewer than 1,000 requests"), (1000, "p99 5")])
    def test_a_p99_needs_ten_requests_beyond_it(
        self, reads: int, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        lines = [f"{FILETIME + at * 10_000},host,0,Read,{at * 8192},4096,5000" for at in range(reads)]
        source, out = tmp_path / "few.csv", tmp_path / "few.byt"
        source.write_text("\n".join(lines) + "\n")
        ran(capsys, "trace", "import", str(source), "--format", "msr", "-o", str(out))
        assert words in dict(traces.figure_lines(traces.examine(str(out))))["read latency"]

    def test_a_request_that_no_profile_has_is_said(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        actions = [("read", at * 8 * MIB, 4096) for at in range(200)] + [("write", 0, 3 << 30)] * 2
        found = ran(capsys, "trace", "profile", str(logged(tmp_path / "huge", actions)))
        assert any("mean size of 3 GiB" in note and "1 GiB" in note for note in found["notes"]), found["notes"]

    def test_devices_of_one_trace_are_kept_apart(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """The same offsets on two devices in turn: each device reads on, none comes back to a block."""
        lines = [f"{FILETIME + at * 10_000},host,{at % 2},Read,{at // 2 * 4096},4096,5000" for at in range(1000)]
        source, out = tmp_path / "two.csv", tmp_path / "two.byt"
        source.write_text("\n".join(lines) + "\n")
        ran(capsys, "trace", "import", str(source), "--format", "msr", "-o", str(out))
        figures = traces.examine(str(out)).figures
        assert figures.read.sequential == 998
        assert figures.locality.reused == 0
        assert figures.seeks == [(0, 998)]
        with pytest.raises(BadInputError, match=r"several devices: 0 .*--trace-device"):
            traces.make_profile(traces.examine(str(out)), "two")
        assert "sequential" in traces.make_profile(traces.examine(str(out), 1), "two").text
        with pytest.raises(BadInputError, match="2 devices, numbers 0 to 1"):
            traces.examine(str(out), 7)

    def test_bursts_keep_their_rate(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        load, taken = tmp_path / "load.toml", tmp_path / "a.byt"
        load.write_text('[[phase]]\nduration = "200s"\n' + PROFILES["bursts"])
        ran(capsys, "run", str(load), MODEL, "--save-trace", str(taken))
        found = traces.examine(str(taken)).figures
        assert 1e9 / found.gap_mean_ns == pytest.approx(40, rel=0.1)
        assert found.gap_variation**2 == pytest.approx(2 * 4 - 1, rel=0.3)


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    if os.geteuid() != 0 or shutil.which("losetup", path=WITH_SBIN["PATH"]) is None:
        pytest.skip("loop devices need root and losetup")
    backing = tmp_path / "backing"
    with backing.open("wb") as file:
        file.truncate(66 * MIB)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, env=WITH_SBIN, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True, env=WITH_SBIN)


def kernels(device: str) -> dict[str, int]:
    words = Path(f"/sys/class/block/{Path(device).name}/stat").read_text().split()
    numbers = dict(enumerate(map(int, words)))
    return {"reads": numbers[0], "writes": numbers[4], "write_bytes": numbers[6] * 512, "flushes": numbers[15]}


class TestReplayOnDevices:
    def test_the_kernel_counts_every_request_and_flush(
        self, loop_device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines = ["fio version 3 iolog"]
        rng = random.Random(2)
        for number in range(600):
            at_us = number * 1500
            place = rng.randrange(8000) * 8192
            lines.append(f"{at_us} /f {'write' if number % 3 else 'read'} {place} 4096")
            if number % 10 == 9:
                lines.append(f"{at_us + 700} /f sync 0 0")
        log, trace = tmp_path / "io.log", tmp_path / "io.byt"
        log.write_text("\n".join(lines) + "\n")
        ran(capsys, "trace", "import", str(log), "-o", str(trace))
        Path(f"/sys/class/block/{Path(loop_device).name}/queue/nomerges").write_text("2")
        # The first run makes the device ours and fills it.
        ran(capsys, "run", "dd-write", loop_device, "--overwrite", loop_device)
        before = kernels(loop_device)
        found = ran(capsys, "run", str(trace), loop_device, "--overwrite", loop_device, "--set", "fill=never")["trace"]
        after = kernels(loop_device)
        told = {key: after[key] - before[key] for key in before}
        assert found["missing"] == {}
        assert found["ended"] == {"read": 200, "write": 400, "flush": 60}
        # The kernel counts a flush as an empty write as well; Brickyard's mark is taken away and written again, and a
        # flush before the run writes back what an earlier one left.
        assert (told["writes"], told["write_bytes"]) == (400 + 60 + 1 + 2 * 2, (400 + 2) * 4096)
        # Flushes that wait at the same time are carried out as one.
        assert 30 <= told["flushes"] <= 60 + 1 + 2
        # The guard reads the device's beginning, too, and 64 blocks of it whenever it is opened or described.
        assert 200 <= told["reads"] <= 300 + 4 * 64
        assert found["late_ns"]["p50"] is not None
        with Store(None) as store:
            last = store.record(store.runs()[-1].id)
        assert sum(end.unsent for end in last.of(PhaseEnd)) == 0

    def test_requests_go_where_the_trace_has_them_up_to_the_last_block(
        self, loop_device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Also to the first block, where our mark is; behind the replay the device is ours again, and still filled."""
        places = (0, 65536, 10 * MIB, 66 * MIB - 4096)
        log, trace = tmp_path / "io.log", tmp_path / "io.byt"
        log.write_text("fio version 3 iolog\n" + "".join(f"{n} /f write {at} 4096\n" for n, at in enumerate(places)))
        ran(capsys, "trace", "import", str(log), "-o", str(trace))
        before = kernels(loop_device)
        assert main(["run", str(trace), loop_device, "--overwrite", loop_device]) == 0
        captured = capsys.readouterr()
        assert "writes: at most 16 KiB, after filling 65 MiB that are not known to hold data" in captured.err
        assert "66 MiB of a block device" in " ".join(captured.out.split())
        # The fill, the erased first and last MiB, the mark, and the trace.
        written = kernels(loop_device)["write_bytes"] - before["write_bytes"]
        assert 65 * MIB + 4 * 4096 <= written <= 68 * MIB
        was = (tmp_path / "backing").read_bytes()
        assert was.startswith(b"BRICKYARD SCRATCH")
        before = kernels(loop_device)
        assert main(["run", str(trace), loop_device, "--overwrite", loop_device, "--set", "seed=2"]) == 0
        assert "filling" not in capsys.readouterr().err
        assert kernels(loop_device)["write_bytes"] - before["write_bytes"] == (4 + 2) * 4096, "nothing is filled again"
        now = (tmp_path / "backing").read_bytes()
        changed = [at for at in range(0, len(was), 4096) if was[at : at + 4096] != now[at : at + 4096]]
        assert changed == list(places[1:])
        assert now.startswith(b"BRICKYARD SCRATCH")

    def test_a_trace_of_the_whole_device_is_replayed_on_it(
        self, loop_device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        load, taken = tmp_path / "load.toml", tmp_path / "taken.byt"
        load.write_text(MIXED.replace('"random"', '"sequential"').replace("4KiB", "64KiB").replace("1000", "1040"))
        ran(capsys, "run", str(load), loop_device, "--overwrite", loop_device, "--save-trace", str(taken))
        summary = traces.contents(str(taken)).summary
        assert summary.end_bytes == 66 * MIB, "offsets of the device, behind the mark"
        found = ran(capsys, "run", str(taken), loop_device, "--overwrite", loop_device, "--timing", "fire_hose")
        assert found["outcome"] == "done"
        assert found["trace"]["missing"] == {}

    def test_what_the_kernel_traces_is_what_the_run_did(
        self, loop_device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The kernel's block tracer writes blktrace's records; blktrace itself needs debugfs, which is often closed."""
        ran(capsys, "run", "dd-write", loop_device, "--overwrite", loop_device)
        load, taken, raw, out = (tmp_path / name for name in ("load.toml", "taken.byt", "raw", "kernel.byt"))
        load.write_text(MIXED)
        with traced_by_the_kernel(loop_device, raw):
            ran(capsys, "run", str(load), loop_device, "--overwrite", loop_device, "--save-trace", str(taken))
        told = ran(capsys, "trace", "import", str(raw), "-o", str(out))
        assert told["format"] == "blktrace"
        ours, theirs = (traces.contents(str(path)).summary for path in (taken, out))
        assert (theirs.writes, theirs.write_bytes) == (ours.writes, ours.write_bytes)
        # Before a run, one flush writes back what is dirty of the target; not every kernel sends it to a clean device.
        assert 10 < ours.flushes <= theirs.flushes <= ours.flushes + 1
        # The guard looks through the first MiB, block by block, and for signatures.
        assert ours.reads <= theirs.reads <= ours.reads + 400
        assert theirs.completed == theirs.requests
        compared = traces.compare(traces.examine(str(taken)), traces.examine(str(out)))
        of_the_guard = {"number of reads", "mean size of reads", "reuse"}
        assert set(compared.failing) <= {"gap", "latency", *of_the_guard}


MIXED = """
[[phase]]
requests = 1000
[[phase.stream]]
operations = { read = 50, write = 50 }
request = "4KiB"
address = "random"
think = "500us"
flush_every = { writes = 10 }
"""
TRACER = """
mount -t tracefs none /sys/kernel/tracing || exit 77
cd /sys/kernel/tracing
[ "$(cat current_tracer)" = nop ] && grep -qw blk available_tracers || exit 77
end() {
    echo 0 >"$1/trace/enable"
    kill "$reader"; wait "$reader"  # the tracer cannot be changed while its pipe is open
    echo nop >current_tracer; echo 0 >options/bin; echo 1 >options/context-info
}
echo 1 >options/bin; echo 0 >options/context-info; echo blk >current_tracer
cat trace_pipe >"$2" & reader=$!
trap 'end "$1"' EXIT
echo 1 >"$1/trace/enable"
echo ready
read -r line
sleep 0.5
"""
"""In a mount namespace of its own, so that nothing stays mounted."""


@contextmanager
def traced_by_the_kernel(device: str, raw: Path) -> Iterator[None]:
    place = f"/sys/class/block/{Path(device).name}"
    command = [*OWN_MOUNTS, "sh", "-c", TRACER, "sh", place, str(raw)]
    tracer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=WITH_SBIN)
    try:
        assert tracer.stdout is not None
        if tracer.stdout.readline().strip() != "ready":
            pytest.skip("the kernel's block tracer cannot be used here")
        yield
    finally:
        tracer.communicate("\n", timeout=20)


def test_formats_are_those_that_the_command_line_names() -> None:
    from typing import get_args

    from brickyard.cli.watching.trace import Format

    assert list(get_args(Format)) == _core.trace_formats()


def test_reads_are_left_less_the_more_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One drive: beside more writes fewer reads keep the limit, and each point that is said to hold it does."""
    found = ran(capsys, "interference", MODEL, "--limit", "p99:60ms", "-o", str(tmp_path / "map"))
    held = [item["reads_per_s"] or 0.0 for item in found["frontier"]]
    assert held[0] > 0
    assert held[-1] < held[0] / 2
    assert all(after <= before * 1.1 for before, after in itertools.pairwise(held))
    for item in found["frontier"]:
        points = [p for p in found["points"] if p["writes_per_s"] == item["writes_per_s"]]
        if item["reads_per_s"] is not None:
            best = [p for p in points if p["reads_per_s"] == item["reads_per_s"]]
            assert len(best) == 3, "with arrivals of their own"
            assert len({p["read_ns"] for p in best}) > 1
            assert all(p["kept_up"] and p["read_ns"] <= 60e6 for p in best)
            assert item["confirmed"]
        if item["too_many_per_s"] is not None:
            (worse, *_) = [p for p in points if p["reads_per_s"] == item["too_many_per_s"]]
            assert not worse["kept_up"] or worse["read_ns"] is None or worse["read_ns"] > 60e6 or len(points) > 7
    assert found["answer"].startswith("At 60.0 ms p99 of reads you can have")
    assert (tmp_path / "map/pictures/interference.svg").stat().st_size > 2_000
    page = (tmp_path / "map/report.html").read_text("utf-8")
    assert "How many reads remain beside writes?" in page
    assert found["answer"] in page
    assert "too many reads/s" in page
    assert "longer intervals" not in page, "the command chooses them"
    assert main(["interference", MODEL, "--limit", "10ms"]) == 2
    assert main(["interference", MODEL, "--limit", "p99:0ms"]) == 2
    # No record has this percentile.
    assert main(["interference", MODEL, "--limit", "p97:60ms"]) == 2


def test_a_rate_at_which_one_run_broke_the_limit_does_not_keep_it() -> None:
    def point(reads: float, value_ms: float) -> MapPoint:
        return MapPoint(reads, 10.0, value_ms * 1e6, None, kept_up=True, reads=1000)

    broken = [point(136.0, value) for value in (45.6, 49.0, 58.7)]
    found = InterferenceMap("p99", 50e6, 200.0, 20.0, [*broken, point(100.0, 40.0)])
    assert _exit_code(found) == 0
    kept = InterferenceMap("p99", 50e6, 200.0, 20.0, [point(100.0, 40.0)])
    assert "at least 100 reads/s beside" in _sentence(kept)
    assert "at least" not in _sentence(found)
    assert _exit_code(InterferenceMap("p99", 1e3, 200.0, 20.0, found.points)) == 1, "no rate keeps the limit"
    assert found.reads_beside(10.0, 50e6) == 100.0
    assert found.too_many_beside(10.0, 50e6) == 136.0
    assert "100 reads/s beside 10.0 writes/s (not confirmed)" in _sentence(found)
    assert _row(found, 10.0, 100.0)[-1] == "not confirmed: 1 run"
    found.points += [point(100.0, 41.0), point(100.0, 42.0)]
    assert "not confirmed" not in _sentence(found)
    assert _row(found, 10.0, 100.0)[-1] == ""


def test_what_was_not_tried_is_not_said_to_leave_no_reads() -> None:
    def point(reads: float, writes: float, value_ms: float) -> MapPoint:
        return MapPoint(reads, writes, value_ms * 1e6, None, kept_up=True, reads=1000)

    tried = [point(500.0, 0.0, 5.0), point(30.0, 862.0, 80.0), point(9.07, 862.0, 70.0)]
    said = _sentence(InterferenceMap("p99", 10e6, 900.0, 958.0, tried))
    assert said.endswith(
        "; beside 862 writes/s, not even 9.07 reads/s kept the limit; higher rates of writes were not tried."
    )
    more = [point(20.0, 900.0, 70.0), point(500.0, 950.0, 5.0)]
    said = _sentence(InterferenceMap("p99", 10e6, 900.0, 958.0, [*tried, *more]))
    both = "beside 862 writes/s, not even 9.07 reads/s, and beside 900 writes/s, not even 20.0 reads/s kept the limit"
    assert said.endswith(f"; {both}.")


def test_an_interrupted_search_says_what_it_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C behind the first rate of reads that is tried beside writes."""
    seen: list[float] = []

    def interrupted(record: Record, asked: MapAsked, reads: float, writes: float) -> MapPoint:
        seen.append(writes)
        if writes:
            os.kill(os.getpid(), signal.SIGINT)
        return point_of(record, asked, reads, writes)

    monkeypatch.setattr("brickyard.cli.measuring.interference.point_of", interrupted)
    store = ["--store", str(tmp_path / "runs.db")]
    found = ran(capsys, "interference", MODEL, "--limit", "p99:60ms", *store, code=130)
    assert found["interrupted"]
    assert seen[-1] > 0 == seen[-2]
    assert len(found["points"]) == len(seen)
    alone, beside = found["frontier"]
    assert alone["reads_per_s"] > 0
    answer = found["answer"]
    assert answer.startswith("At 60.0 ms p99 of reads you can have")
    assert "reads/s without writes" in answer
    assert f"The search beside {format_iops(beside['writes_per_s'])} writes/s was interrupted" in answer
    assert "none" not in answer, "what was not searched is not said to be none"
    with Store(tmp_path / "runs.db") as kept:
        assert kept.studies()[0].outcome == "interrupted"


def test_a_file_that_may_not_be_written_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mine, store = tmp_path / "mine", tmp_path / "runs.db"
    mine.write_bytes(b"mine" * (4 << 20))
    assert main(["interference", str(mine), "--store", str(store)]) == 2
    assert "was not made by Brickyard" in capsys.readouterr().err
    with Store(store) as kept:
        assert [run.outcome for run in kept.runs()] in ([], ["failed"])
    assert mine.read_bytes() == b"mine" * (4 << 20)


def test_a_replay_and_another_run_cannot_be_compared(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended with an unexpected error, and with the exit code of a figure that got worse."""
    store = ["--store", str(tmp_path / "runs.db")]
    assert main(["run", str(trace), "sim:msr-2003-wd", *store]) == 0
    assert main(["run", "sqlio-random-read-4", "sim:msr-2003-wd", "--set", "duration=1s", *store]) == 0
    for sides in (["1", "2"], ["2", "1"]):
        capsys.readouterr()
        assert main(["compare", *sides, "--check", *store]) == 2
        assert "nothing can be compared" in capsys.readouterr().err
