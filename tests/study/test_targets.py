"""Video on real files and modelled bricks, several targets in lockstep with the kernel as witness, searches, and rulers
for a condition, as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brickyard import _core, profiles, rulers
from brickyard.analysis.judging.verdict import all_pass, verdict
from brickyard.cli import main
from brickyard.errors import BadInputError
from brickyard.schema import plan_text
from brickyard.store import Json, Record, Store, default_place
from support import SECOND, add_run, cell, events_of, interval, phase_end

MIB = 1 << 20
WITH_SBIN = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
SLOW_DISK = "sim:msr-2003-maxtor"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files of ours, full of data."""
    made = [tmp_path_factory.mktemp("targets") / name for name in ("one", "two")]
    for path in made:
        plan = profiles.validate(profiles.read("dd-write"), [])
        run = _core.start(plan_text(plan), [str(path)], json.dumps({"create_bytes": 24 * MIB}))
        while not run.finished():
            run.events(1000)
    return made


def ran(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main(["run", *words, "--json"]) == code, capsys.readouterr().err
    found: Json = json.loads(capsys.readouterr().out)
    return found


def totals(document: Json) -> dict[tuple[str, str], Json]:
    return {(row["stream"], row["operation"]): row for row in document["totals"]}


class TestVideo:
    def test_a_real_file_plays_at_the_rate_of_the_format(
        self, files: list[Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = ran(
            capsys, "video-playback", str(files[0]), "--set", "format=dvcam", "--set", "workers=2",
            "--set", "duration=2s", "--set", "warmup=0s", "--set", "buffer=1s", "--ruler", "video",
        )  # fmt: skip
        row = totals(found)["station", "frame"]
        assert row["requests"] == 2 * 25 * 2
        # A frame of 144,000 bytes is one request here, in whole pages.
        assert totals(found)["station", "read"]["bytes"] == row["requests"] * 36 * 4096
        players = found["frames"]
        assert [player["frames"] for player in players] == [50, 50]
        assert all(player["buffer_ns"] == SECOND for player in players)
        dropped = sum(player["dropped"] for player in players)
        assert found["verdicts"][0]["passed"] == (dropped == 0)
        assert found["verdicts"][0]["findings"][0]["value"] == dropped == len(found["dropped_frames"])

    def test_a_disk_of_2003_drops_hd_frames_and_the_verdict_says_when(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = ran(
            capsys,
            "video-playback",
            SLOW_DISK,
            "--set",
            "duration=20s",
            "--set",
            "warmup=0s",
            "--check",
            "video",
            code=1,
        )
        player = found["frames"][0]
        assert player["dropped"] > 300
        assert player["head_room"] < 1
        finding = found["verdicts"][0]["findings"][0]
        assert (finding["figure"], finding["value"], finding["unit"]) == ("dropped", player["dropped"], "frames")
        assert f"the first at {player['first_dropped_ns'] / 1e9:.3f} s" in finding["reason"]
        drops = found["dropped_frames"]
        assert drops[0]["at_ns"] == player["first_dropped_ns"] == drops[0]["due_ns"] + player["buffer_ns"]

    def test_the_same_disk_captures_dv_and_the_search_says_how_often(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = ran(capsys, "video-ingest", SLOW_DISK, "--set", "format=minidv", "--check", "video")
        assert found["frames"][0]["dropped"] == 0
        assert found["frames"][0]["frames"] == 60 * 25
        searched = ran(capsys, "video-streams", SLOW_DISK, "--set", "format=minidv", "--check", "video")
        end = searched["ramp_found"][0]
        assert end["found"]["value"] + 1 == end["beyond"]
        carried = int(end["found"]["value"])
        assert searched["verdicts"][0]["head_room"] == carried > 1
        for step in _told(searched["run"], "ramp_step"):
            assert step["within"] == (step["figure"] == 0) == (step["value"] <= carried)
        words = ["--set", "format=minidv", "--set", f"workers={carried // 2}", "--set", "duration=10s"]
        assert sum(p["dropped"] for p in ran(capsys, "video-playback", SLOW_DISK, *words)["frames"]) == 0

    def test_every_format_of_the_rulers_can_be_played(self) -> None:
        lines = {r.name: r.threshold for name in ("hd-video", "sd-video") for r in rulers.read(name).requirements}
        published = sorted(round(value / MIB, 2) for value in lines.values())
        made = sorted(round(size * rate / MIB, 2) for _, size, rate in _core.video_formats())
        assert made == pytest.approx(published, abs=0.0101)
        with pytest.raises(BadInputError, match="1080i-8-bit"):
            profiles.validate(profiles.read("video-playback"), ["format=4k"])


class TestSeveralTargets:
    def test_each_target_has_a_row_and_all_have_one(
        self, files: list[Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = ran(capsys, "xdd-read", *map(str, files), "--set", "requests=200", "--set", "warmup=0s")
        one, two, both = found["targets_together"]
        assert [one["target"], two["target"], both["target"]] == [*map(str, files), ""]
        assert one["requests"] == two["requests"] == 100
        assert both["bytes"] == one["bytes"] + two["bytes"] == 200 * (128 << 10)
        # Each over its own time, and both over the time of the phase, which the later one ended.
        assert both["iops"] <= (one["iops"] + two["iops"]) * 1.000001
        assert both["queue"] == 2

    def test_any_profile_of_one_target_can_be_spread(
        self, files: list[Path], capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["sqlio-random-read-4", *map(str, files), "--each", "--set", "requests=80", "--set", "warmup=0s"]
        assert set(totals(ran(capsys, *words))) == {("sqlio on one", "read"), ("sqlio on two", "read")}
        assert main(["run", "sqlio-random-read-4", *map(str, files)]) == 2

    @pytest.mark.parametrize("engine", ["io_uring", "psync"])
    def test_the_kernel_saw_the_same_number_of_requests_on_both(
        self, devices: list[str], engine: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One of the two devices is asked for 64 times as much a request, so it is slower; nothing ends by count."""
        profile = _lopsided()

        def reads(device: str) -> int:
            return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[0])

        def difference(*more: str) -> tuple[int, int]:
            before = [reads(device) for device in devices]
            found = ran(capsys, str(profile), *devices, "--set", f"engine={engine}", *more)
            seen = [reads(device) - was for device, was in zip(devices, before, strict=True)]
            told = [row["requests"] for row in found["totals"]]
            # Reads of the partition scan, of the header, and of 64 blocks whenever one is looked at are not ours.
            assert all(0 <= kernel - ours <= 64 + 4 * 64 for kernel, ours in zip(seen, told, strict=True)), (seen, told)
            return abs(told[0] - told[1]), min(told)

        try:
            apart, fewest = difference("--set", "lockstep.requests=1")
            assert apart <= 1
            assert fewest > 10
            assert difference()[0] > 1
        finally:
            profile.unlink()


def _lopsided() -> Path:
    place = Path(os.environ["HOME"]) / "lopsided.toml"
    place.write_text(
        """title = "One target is asked for much, the other for little"
[[phase]]
name = "both"
duration = "1s"
[[phase.stream]]
name = "little"
request = "4KiB"
address = "random"
[[phase.stream]]
name = "much"
target = 1
request = "256KiB"
address = "random"
"""
    )
    return place


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[list[str]]:
    with ExitStack() as undo:
        made = []
        for name in ("a", "b"):
            backing = tmp_path / name
            backing.write_bytes(os.urandom(16 * MIB))
            found = subprocess.run(
                ["losetup", "--find", "--show", "--direct-io=on", str(backing)],
                capture_output=True,
                text=True,
                check=True,
                env=WITH_SBIN,
            ).stdout.strip()
            undo.callback(subprocess.run, ["losetup", "--detach", found], check=True, env=WITH_SBIN)
            made.append(found)
        yield made


class TestSearch:
    def test_the_highest_rate_within_a_limit_on_a_modelled_disk(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = ran(
            capsys, "sqlio-random-read-4", SLOW_DISK, "--set", "pace={loop='open', rate=10, arrivals='poisson'}",
            "--set", "depth=64", "--set", "duration=1h", "--set",
            "ramp={knob='rate', from=10, to=320, factor=2, every='30s', settle='5s', search=5,"
            " limit={when='p99', above='100ms'}}",
        )  # fmt: skip
        end = found["ramp_found"][0]
        steps = found["ramp"]
        assert all(step["within"] == (step["value"] <= end["found"]["value"]) for step in steps)
        assert end["beyond"] / end["found"]["value"] <= 1.05
        for step in steps:
            # The table has the figures of exactly what was judged: the settling is in neither.
            told = next(s for s in _told(found["run"], "ramp_step") if s["value"] == step["value"])
            assert step["iops"] == pytest.approx(told["rate_per_s"])
            assert (step["response_p99_ns"] or told["figure"]) == told["figure"]

    def test_what_it_found_is_said_in_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "obl-load", SLOW_DISK]) == 0
        said = capsys.readouterr().out
        assert "mean within 100 ms: highest workers " in said
        assert "beyond" in said
        assert "highest workers 7, with" in said


def _told(run: int, kind: str) -> list[Json]:
    with Store(default_place()) as store:
        return events_of(store.record(run), kind)


class TestConditions:
    RULER = """title = "t"
source = "s"
[[require]]
name = "enough while it rebuilds"
figure = "iops"
at_least = 100
condition = "rebuilding"
"""

    def record(self, store: Store, requests: int, condition: str) -> Record:
        events = [interval(0, SECOND, cell([1000] * requests)), phase_end(reason="requests")]
        record = store.record(add_run(store, events))
        return replace(record, info=replace(record.info, condition=condition))

    def test_only_runs_in_that_condition_are_judged(self, tmp_path: Path) -> None:
        ruler = rulers.parse("rebuild", self.RULER)
        with Store(tmp_path / "runs.db") as store:
            normal = verdict(self.record(store, 500, "normal"), ruler)
            good, bad = (verdict(self.record(store, n, "rebuilding"), ruler) for n in (150, 50))
        assert (normal.word, good.word, bad.word) == ("not measured", "pass", "fail")
        assert normal.findings[0].value is None
        assert normal.findings[0].reason == "this run was normal, not rebuilding"
        assert all_pass([normal, good])
        assert not all_pass([normal])
        assert not all_pass([normal, good, bad])

    def test_a_modelled_rebuild_is_judged_and_the_exit_code_tells(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "rebuild.toml"
        path.write_text(self.RULER)
        words = ["sqlio-random-read-4", "sim:terraserver-2003", "--set", "duration=5s", "--check", "--ruler", str(path)]
        normal = ran(capsys, *words, code=1)["verdicts"][0]
        assert normal["verdict"] == "not measured"
        rebuilding = ran(capsys, *words, "--condition", "rebuilding")["verdicts"][0]
        assert rebuilding["verdict"] == "pass"

    @pytest.mark.parametrize("word", ["rebuildin", "3"])
    def test_an_unknown_condition_is_refused(self, word: str) -> None:
        with pytest.raises(BadInputError, match="condition"):
            rulers.parse("x", self.RULER.replace('"rebuilding"', f'"{word}"'))


def test_a_count_may_be_none_at_all() -> None:
    ruler: Any = rulers.read("dropped<=0").requirements[0]
    assert (ruler.figure, ruler.threshold, ruler.is_count) == ("dropped", 0, True)
    with pytest.raises(BadInputError):
        rulers.read("p99<=0ms")


def test_the_rate_of_video_is_that_of_its_phase_without_the_drain(capsys: pytest.CaptureFixture[str]) -> None:
    """Three stations ask more of a slow disk than it has, so requests are in flight when the phase ends."""
    found = ran(capsys, "video-playback", SLOW_DISK, "--set", "workers=3", "--set", "duration=5s", "--set", "warmup=0s")
    for row in found["totals"]:
        assert row["rated_ns"] == 5 * SECOND
        assert row["requests"] > row["rated_requests"], "a drain is what matters"
        assert row["iops"] == pytest.approx(row["rated_requests"] / 5)
        assert row["bytes_per_s"] == pytest.approx(row["rated_bytes"] / 5)


def test_the_table_of_targets_counts_what_the_totals_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Requests in flight at the end are in neither rate, and in both counts."""
    found = ran(capsys, "xdd-read", SLOW_DISK, SLOW_DISK, "--set", "duration=1s", "--set", "warmup=0s")
    rows = found["totals"]
    assert sum(row["requests"] for row in rows) > sum(row["rated_requests"] for row in rows), "a drain is what matters"
    *own, both = found["targets_together"]
    assert [row["requests"] for row in own] == [row["requests"] for row in rows]
    assert [row["bytes"] for row in own] == [row["bytes"] for row in rows]
    assert both["requests"] == sum(row["requests"] for row in rows)
    assert [row["iops"] for row in own] == [row["iops"] for row in rows]
