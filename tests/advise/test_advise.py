"""What to buy and what it carries: arithmetic by hand, searches among made-up figures, and small real simulations."""

from __future__ import annotations

import csv
import html
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from msgspec import structs

import support
from brickyard import bricks, modelling, profiles, rulers
from brickyard.advise import buy, charts, drive_chart, level_chart, parts, predict, simulate, suitability
from brickyard.advise.buy import Trial
from brickyard.advise.candidates import Candidate, candidates
from brickyard.advise.lifetime import assumed_rebuild_hours, data_loss_hours, rebuild_fails, unreadable
from brickyard.analysis.figures.search import Carried, Step, highest
from brickyard.analysis.judging.verdict import Finding, Verdict
from brickyard.bricks.resolved import RotatingDrive
from brickyard.cli import main
from brickyard.cli.planning.predict import Predicted, _document, _Streams
from brickyard.errors import BadInputError
from brickyard.report import advice
from brickyard.schema import Duration, plan_of
from brickyard.schema.plan import OpenPace, Plan
from brickyard.store import Json, Record, Store
from brickyard.study.running import searching
from brickyard.units import format_iops

RULER = rulers.read("iops>=100")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main(["advise", *arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("level", "members", "hours"),
    [
        ("raid0", 8, 12_500),  # 100,000 / 8
        ("raid1", 2, 500_000_000),  # 10^10 / (2 * 10)
        ("raid10", 8, 125_000_000),  # 10^10 / (8 * 10)
        ("raid5", 5, 50_000_000),  # 10^10 / (5 * 4 * 10)
        ("raid6", 6, 10**15 / 12_000),  # 10^15 / (6 * 5 * 4 * 10^2)
    ],
)
def test_mean_time_to_data_loss_by_hand(level: str, members: int, hours: float) -> None:
    assert data_loss_hours(level, members, 100_000, 10) == pytest.approx(hours)


def test_unreadable_sectors_by_hand() -> None:
    # 750 GB are 6 * 10^12 bits: at one error in 10^14 bits 5.8 % of such drives cannot be read whole.
    share = unreadable(750e9, 1e14)
    assert share == pytest.approx(0.0582, abs=1e-4)
    assert unreadable(750e9, None) == 0
    # Seven of them are read: 1 - 0.9418^7, where without errors 7 * 10 / 100,000 is all that can happen.
    assert rebuild_fails("raid5", 8, 100_000, 10, share) == pytest.approx(0.3430 + 0.0007 * 0.657, abs=5e-4)
    assert rebuild_fails("raid10", 8, 100_000, 10, share) == pytest.approx(0.0582 + 0.0001, abs=5e-4)
    # RAID-6 corrects them as long as only one drive is missing.
    assert rebuild_fails("raid6", 8, 100_000, 10, share) == pytest.approx(0.0007 * 0.3025, rel=0.01)
    assert rebuild_fails("raid0", 8, 100_000, 10, 0) == 1


def test_zfs_loses_data_by_its_tolerated_failures_and_resilvers_at_the_pace_of_its_disks() -> None:
    share = unreadable(1e12, 1e15)
    for level, like in (("zmirror", "raid10"), ("raidz1", "raid5"), ("draid1", "raid5"), ("raidz2", "raid6")):
        assert rebuild_fails(level, 8, 1e6, 10, share) == rebuild_fails(like, 8, 1e6, 10, share)
    assert rebuild_fails("raidz3", 8, 100_000, 10, 0) == pytest.approx(7 * 6 * 5 * 1e-12)
    assert data_loss_hours("draid3", 8, 1e6, 10) > 1e3 * data_loss_hours("draid2", 8, 1e6, 10)
    raidz = bricks.resolve("zfs-raidz2", []).brick
    hours = assumed_rebuild_hours(raidz, writes=True)
    assert hours is not None
    # 16 of 20 TB, each MiB behind a user's request on each disk.
    assert hours == pytest.approx(16e12 / 1_048_576 * (2 * 0.01217 + 1_048_576 / 190e6) / 3600, rel=0.15)
    draid = ["level=draid2", "draid_spares=1"]
    of = [bricks.resolve("zfs-raidz2", [*draid, f"members={n}"]).brick for n in (11, 21, 91)]
    wide = [assumed_rebuild_hours(brick, writes=True) for brick in of]
    assert wide == pytest.approx([hours, hours / 2, hours / 9])


def test_advice_takes_zfs_where_its_levels_are_named() -> None:
    chosen = parts.read(["nearline-20tb", "linux-zfs", "linux-md"])
    made = candidates(chosen, ["raidz2", "zmirror", "draid1", "raid6"], (4, 7, 12), ("normal", "rebuilding"))
    names = {f"{c.level} of {c.members} by {c.keeper.name}" for c in made}
    assert names == {
        *(f"raidz2 of {n} by linux-zfs" for n in (4, 7, 12)),
        *(f"zmirror of {n} by linux-zfs" for n in (4, 12)),
        *(f"draid1 of {n} by linux-zfs" for n in (4, 7, 12)),
        *(f"raid6 of {n} by linux-md" for n in (4, 7, 12)),
    }
    rooms = {(c.level, c.members): c.capacity_bytes for c in made}
    # Data, parity and padding, and a fifth that stays free; slop and the log's metaslab besides.
    assert 0.72 * 10 * 20e12 < rooms["raidz2", 12] < 0.8 * 10 * 20e12
    assert rooms["raid6", 12] > rooms["raidz2", 12]
    assert not candidates_of_zfs(parts.LEVELS)


def candidates_of_zfs(levels: tuple[str, ...]) -> list[Candidate]:
    found = candidates(parts.read(["nearline-20tb", "linux-zfs", "linux-md"]), levels, (4,), ("normal",))
    return [c for c in found if c.keeper.name == "linux-zfs"]


def test_an_assumed_rebuild_takes_the_pace_beside_users_and_never_more_than_the_drive() -> None:
    known = bricks.resolve("terraserver-2003", ["members=8", "level=raid5"]).brick
    assert isinstance(known.drive, RotatingDrive)
    assert known.controller is not None
    drive = structs.replace(known.drive, capacity_bytes=36_000_000_000, outer_mb_per_s=60.0, inner_mb_per_s=40.0)
    keeper = structs.replace(
        known.controller, rebuild_min_mb_per_s=10.0, rebuild_writing_mb_per_s=1.0, rebuild_drains=False
    )
    brick = structs.replace(known, drive=drive, software=None, controller=keeper)
    assert assumed_rebuild_hours(brick, writes=False) == pytest.approx(1)
    assert assumed_rebuild_hours(brick, writes=True) == pytest.approx(10)
    unbounded = structs.replace(brick, controller=structs.replace(keeper, rebuild_min_mb_per_s=500.0))
    assert assumed_rebuild_hours(unbounded, writes=False) == pytest.approx(0.2)  # 36 GB at 50 MB/s
    assert assumed_rebuild_hours(structs.replace(brick, level="raid0"), writes=False) is None


def candidate(usd: float | None, members: int = 2) -> Candidate:
    return Candidate(parts.Part("d", None if usd is None else usd / members), parts.Part("c", 0.0), "raid1", members)


def trial(made: Candidate, iops: dict[str, float]) -> Trial:
    """A trial with given rates, judged against `iops>=100` as the search itself would."""
    states = {}
    for name, rate in iops.items():
        finding = Finding(RULER.requirements[0], "measure", rate, rate / 100, 0, passed=rate >= 100)
        states[name] = buy.State(rate, rate * 4096, (Verdict(RULER, (finding,)),))
    return Trial(made, 10**9, 1.0, 1.0, states, all(state.met for state in states.values()))


def found(figures: dict[Candidate, dict[str, float]], *, fastest: bool, enough: int = 1, cores: int = 2) -> buy.Found:
    return buy.search(
        list(figures),
        lambda made: trial(made, figures[made]),
        fastest=fastest,
        throughput=False,
        enough=enough,
        most=100,
        cores=cores,
        progress=lambda *_: None,
    )


def test_the_cheapest_that_meets_the_rulers_in_every_condition_wins() -> None:
    figures = {
        candidate(900): {"normal": 900.0, "rebuilding": 500.0},
        candidate(100): {"normal": 90.0},
        candidate(200): {"normal": 300.0, "rebuilding": 50.0},  # enough on a good day only
        candidate(300): {"normal": 200.0, "rebuilding": 120.0},
        candidate(400): {"normal": 190.0, "rebuilding": 180.0},
    }
    assert [t.candidate.usd for t in found(figures, fastest=False).ranked] == [300]
    assert [t.candidate.usd for t in found(figures, fastest=True, enough=2).ranked] == [900, 400]
    both = found(figures, fastest=False, enough=9)
    assert [t.candidate.usd for t in both.ranked] == [300, 400, 900]


def test_a_search_stops_when_it_has_enough_and_is_the_same_on_any_number_of_cores() -> None:
    figures = {candidate(100.0 * n): {"normal": 100.0 + n} for n in range(1, 30)}
    one, four = (found(figures, fastest=False, enough=2, cores=cores) for cores in (1, 4))
    assert one == four
    assert [t.candidate.usd for t in one.ranked] == [100, 200]
    assert len(one.trials) + one.left_out == 29
    assert one.left_out > 20


def test_names_that_would_cover_each_other_become_one() -> None:
    rows = [
        advice._PricedBrick(usd, worst, worst, True, "", place, str(place))
        for place, (usd, worst) in enumerate([(480.0, 391.0), (480.0, 335.0), (480.0, 333.0), (900.0, 333.0)], 1)
    ]
    advice._join_names(rows, advice._scale_of(rows))
    assert [row.label for row in rows] == ["1", "2, 3", "", "4"]
    # On a log axis, 100 and 200 lie apart although both are far below the fastest.
    rows = [
        advice._PricedBrick(480.0, rate, rate, True, "", place, str(place))
        for place, rate in enumerate([100.0, 200.0, 30_000.0], 1)
    ]
    advice._join_names(rows, advice._scale_of(rows))
    assert [row.label for row in rows] == ["1", "2", "3"]


def test_every_shipped_part_is_a_modelled_one_and_has_its_price_from_a_source() -> None:
    names = [place.split("/", 1)[1] for place in bricks.texts() if not place.startswith("arrays/")]
    known = parts.read(names)
    assert len(known.drives) + len(known.controllers) + len(known.volumes) == len(names)
    assert all(part.fits for part in (*known.drives, *known.controllers))
    priced = [part for part in (*known.drives, *known.controllers) if part.usd is not None]
    assert len(priced) > 5
    assert all(part.source for part in priced)


def test_parts_of_ones_own(tmp_path: Path) -> None:
    place = tmp_path / "mine.toml"
    place.write_text("[drives.nearline-20tb]\nusd = 400\n[controllers.linux-md]\n")
    read = parts.read([str(place)])
    assert [(p.name, p.usd, p.fits) for p in read.drives] == [("nearline-20tb", 400.0, ("sata",))]
    assert read.controllers[0].usd == 0
    assert parts.read([str(place)], ["nearline-20tb=350"]).drives[0].usd == 350
    place.write_text("[drives.nothing]\nusd = 1\n")
    with pytest.raises(BadInputError, match="nothing"):
        parts.read([str(place)])
    with pytest.raises(BadInputError, match="--parts"):
        parts.read(["wd2500jd"], ["cheetah-x15=100"])


def test_what_does_not_fit_is_no_candidate() -> None:
    chosen = parts.read(["wd2500jd", "cheetah-x15", "3ware-8506-8"])
    made = candidates(chosen, buy.REDUNDANT, (2, 4, 10, 16), buy.CONDITIONS)
    assert {c.drive.name for c in made} == {"wd2500jd"}  # no SCSI drive on a SATA controller
    assert {c.level for c in made} == {"raid1", "raid5", "raid10"}  # the product has no RAID-6
    by_count = {(c.level, c.members): c.controllers for c in made}
    assert by_count["raid10", 16] == 2  # mirrors are striped over two controllers
    assert ("raid5", 10) not in by_count  # one controller keeps parity, and has 8 ports
    with pytest.raises(BadInputError, match="no drive"):  # without redundancy nothing can be rebuilt
        candidates(chosen, ("raid0",), (2,), buy.CONDITIONS)


def test_a_brick_without_a_price_is_in_no_ranking_by_price() -> None:
    assert candidate(None).usd is None
    assert replace(candidate(None), drive=parts.Part("d", 10.0)).usd == 20


BUY = ["buy", "sqlio-random-read-4", "--parts", "wd2500jd", "--parts", "3ware-8506-8", "--members", "2"]
BUY += ["--members", "4", "--members", "8", "--duration", "5s"]


def test_a_small_search_from_end_to_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = answer(capsys, *BUY, "--require", "iops>=150", "--output", str(tmp_path / "report"))
    best = document["found"][0]
    # A mirror does 138 random reads a second (MSR TR-2003-70, table 1), so two drives are too few.
    assert best["members"] > 2
    assert best["usd"] == best["cost_usd"] == 580 + 250 * best["members"]
    assert {price["dated"] for price in best["prices"]} == {"2003"}
    assert document["belief"].startswith("Prices are of 2003."), "nobody should take them for prices of today"
    assert all(state["iops"] >= 150 for state in best["conditions"].values())
    assert best["conditions"]["rebuilding"]["iops"] < best["conditions"]["normal"]["iops"]
    same = [item for item in document["simulated"] if (item["level"], item["usd"]) < (best["level"], best["usd"])]
    assert not any(item["met"] for item in same if item["level"] == best["level"])
    assert all(Path(path).is_file() for path in document["pictures"])
    page = html.unescape(Path(document["report"]).read_text("utf-8"))
    for said in (document["question"], *document["answer"], document["belief"], *document["assumptions"], "<svg"):
        assert said in page
    assert re.search(rf'<td data-name="brick" class="[^"]*">{re.escape(best["name"])}</td>', page)
    # A name of a picture is the picture alone.
    alone = answer(capsys, *BUY, "--require", "iops>=150", "--output", str(tmp_path / "cost.svg"))
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    assert alone == {**document, "report": None, "pictures": [str(tmp_path / f"cost.{end}") for end in ("png", "svg")]}
    (tmp_path / "own.png").write_bytes(b"somebody's")
    assert main(["advise", *BUY, "--require", "iops>=150", "--output", str(tmp_path / "own.png")]) == 2


def test_when_nothing_is_enough_the_nearest_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *BUY, "--require", "iops>=100000"]) == 1
    said = capsys.readouterr().out
    assert "None meets the requirements" in said
    assert "≥ 100,000 IOPS required" in said
    assert "times too low" in said


FEW = ("--parts", "wd2500jd", "--parts", "linux-md")


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["predict", "sqlio-random-read-4", "sim:wd2500jd", "--limit", "p98:1ms"], "p98"),
        (
            ["predict", "overland-oltp", "sim:wd2500jd", "--limit", "p99:1ms"],
            "`brickyard load-curve overland-oltp sim:wd2500jd --limit p99:1ms`",
        ),
        (["predict", "sqlio-random-read-4", "sim:wd2500jd", "--limit", "p99:1ms", "--phase", "x"], "--phase x"),
        (["predict", "sqlio-random-read-4", "sim:wd2500jd", "--limit", "p99:1ms", "--per-page", "0"], "--per-page"),
        (
            ["predict", "overland-exchange", "sim:wd2500jd", "--limit", "p99:1ms", "--per-mailbox", "0.5"],
            "name those whose requests it counts with --stream",
        ),
        (
            ["predict", "overland-exchange", "sim:wd2500jd", "--limit", "p99:1ms", "--stream", "x"],
            "no such stream; there are database-read",
        ),
        (
            ["buy", "sqlio-random-read-4", "--require", "exchange"],
            "is for streams named database*, and the profile has",
        ),
        (
            ["buy", "sqlio-random-read-4", "--require", "etcd"],
            "is for operation flush, which the profile does not have",
        ),
        (["buy", "sqlio-random-read-4", "--require", "hd-video:720p 24 fps"], "is for sequential streams, and stream"),
        (
            ["buy", "sqlio-random-read-4", "--require", "video"],
            "counts dropped frames, and the profile has no streams of",
        ),
        (
            ["buy", "sqlio-random-read-4", "--require", "write.p99<=9ms"],
            "is for operation write, which the profile does",
        ),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--parts", "floppy"], "floppy"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--level", "raid7"], "raid7"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--condition", "sleepy"], "sleepy"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", *FEW, "--capacity", "900PB"], "capacity"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--capacity", "500"], "needs a unit; write 500GB"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--parts", "gp2", "--parts", "linux-md"], "--price"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--years", "0"], "--years"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--years", "0.000001"], "at least 0.1"),
        (["buy", "sqlio-random-read-4", "--require", "iops>=1", "--mttf", "1"], "at least 8,766 (a year)"),
    ],
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], cause: str) -> None:
    assert main(["advise", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert cause in said
    assert len(said.splitlines()) == 1


PREDICT = ["predict", "sqlio-random-read-4"]


def test_a_brick_carries_less_within_a_tighter_limit_and_while_it_is_rebuilt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = "sim:msr-2003-wd-hardware-mirror"
    loose = answer(capsys, *PREDICT, target, "--limit", "mean:50ms", "--per-mailbox", "0.5", "--per-page", "4")
    # 138 random reads a second is all that it does with four in flight (MSR TR-2003-70, table 1).
    assert 100 < loose["rate_per_s"] < 150
    assert all(found["value_ns"] <= 50e6 for found in loose["searches"])
    assert len({found["rate_per_s"] for found in loose["searches"]}) > 1, "each search has arrivals of its own"
    assert loose["low_per_s"] < loose["rate_per_s"] < loose["high_per_s"]
    assert loose["mailboxes"] == int(loose["rate_per_s"] / 0.5)
    assert loose["pages_per_s"] == pytest.approx(loose["rate_per_s"] / 4)
    for found in loose["searches"]:
        failed = [step["rate_per_s"] for step in found["steps"] if not step["holds"]]
        assert min(failed) <= found["rate_per_s"] * 1.01
    once = ["--searches", "1"]
    tight = answer(capsys, *PREDICT, target, "--limit", "mean:20ms", *once)
    assert tight["low_per_s"] is None
    assert tight["rate_per_s"] < loose["rate_per_s"]
    both = answer(capsys, *PREDICT, target, "--limit", "mean:50ms", "--condition", "normal", "rebuilding", *once)
    assert both["rate_per_s"] == loose["searches"][0]["rate_per_s"]
    assert both["conditions"][1]["condition"] == "rebuilding"
    assert both["conditions"][1]["rate_per_s"] < loose["rate_per_s"]
    # A rebuild is at its mildest in the middle of the drives; nobody should buy by that.
    said = ["--limit", "mean:50ms", "--condition", "rebuilding", *once]
    begun, middle = (answer(capsys, *PREDICT, f"{target},rebuild_position={at}", *said)["rate_per_s"] for at in (0, 50))
    assert both["conditions"][1]["rate_per_s"] == begun
    assert begun < 0.9 * middle
    assert answer(capsys, *PREDICT, "sim:wd2500jd", "--limit", "mean:1ms", code=1)["rate_per_s"] is None


def test_a_prediction_begins_with_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    target = "sim:msr-2003-wd-hardware-mirror"
    asked = [*PREDICT, target, "--limit", "mean:50ms", "--searches", "1", "--duration", "20s"]
    states = ["--condition", "normal", "rebuilding"]
    found = answer(capsys, *asked, *states)
    normal, rebuilding = (format_iops(item["rate_per_s"]) for item in found["conditions"])
    assert found["answer"][0].startswith(f"Normal: {normal} requests/s")
    assert found["answer"][1].startswith(f"Rebuilding: {rebuilding} requests/s")
    assert "computed by models" in found["belief"]
    assert "--searches 3" in found["belief"]
    assert main(["advise", *asked, *states]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(found["question"])
    assert out.index(found["answer"][1]) < out.index(f"What {target} sustains")
    none = answer(capsys, *PREDICT, "sim:wd2500jd", "--limit", "mean:1ms", "--duration", "5s", code=1)
    assert none["answer"][0].startswith("No rate keeps the limit")


def test_what_was_set_is_named_by_every_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    changes = ["--set", "request=256KiB", "--set", "members=4"]
    asked = [*PREDICT, "sim:terraserver-2003", *changes, "--limit", "mean:1s", "--searches", "1", "--duration", "1s"]
    assert main(["advise", *asked]) == 0
    out = " ".join(capsys.readouterr().out.split())
    named = "sim:terraserver-2003 with members=4", "sqlio-random-read-4, but request=256KiB"
    assert all(out.count(words) == 2 for words in named), "question and table"
    found = answer(capsys, *asked)
    assert (found["workload_changes"], found["model_changes"]) == ("request=256KiB", "members=4")
    buy_it = ["buy", "sqlio-random-read-4", "--set", "request=256KiB", "--require", "iops>=1", "--duration", "1s"]
    assert main(["advise", *buy_it, "--parts", "nearline-20tb", "linux-md", "--condition", "normal"]) == 0
    assert "SQLIO: random reads, 8 KiB, 4 deep, but request=256KiB" in " ".join(capsys.readouterr().out.split())
    store = ["--store", str(tmp_path / "runs.db")]
    for members in ("4", "8"):
        given = ["--set", f"members={members}", "--set", "duration=1s"]
        assert main(["run", "sqlio-random-read-4", "sim:terraserver-2003", *given, *store]) == 0
        assert f"on sim:terraserver-2003 with members={members}: read" in " ".join(capsys.readouterr().out.split())
    assert main(["report", "1-2", *store, "-o", str(tmp_path / "r")]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert all(page.count(f"members={members}") >= 3 for members in ("4", "8")), "answer, throughput, latency"


def test_what_if_says_what_a_run_says_of_its_models(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Also of the drive that would be there instead."""
    load, given = "sqlio-random-read-4", ["--set", "duration=1s", "--store", str(tmp_path / "runs.db")]
    assert main(["run", load, "sim:terraserver-2003", *given]) == 0
    ran = " ".join(capsys.readouterr().out.split())
    assert (said := modelling.what_if(modelling.WhatIf("terraserver-2003", load)).belief) in ran
    assert "published figures of disks lie within a factor of" in said
    changed = modelling.what_if(modelling.WhatIf("terraserver-2003", load, drive="nvme-tlc-3840")).belief
    assert "published figures of reads and mixes of flash lie within a factor of" in changed


def test_ctrl_c_during_a_computation_is_one_line() -> None:
    command = [sys.executable, "-m", "brickyard", "advise", *PREDICT, "sim:wd2500jd", "--limit", "mean:50ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        while "without a rate limit" not in started.stderr.readline():
            assert started.poll() is None
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err.splitlines()[-1]) == (130, "", "brickyard: interrupted")


def test_the_time_of_a_search_is_that_of_the_rates_that_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within its limit, the log of etcd does 15 times what its one request in flight does. A second of CPU time is one
    request here, so that forecast and search are the same on every host."""
    spent = [0]
    monkeypatch.setattr(time, "process_time", lambda: float(spent[0]))
    monkeypatch.setattr(searching, "STEP_REQUESTS", 1_000)
    plan = predict.one_phase(profiles.validate(profiles.read("etcd-fdatasync"), []), None)
    brick, asked_of = simulate.Brick("nvme-tlc-3840"), predict.asked(plan, predict.limit("mean:10ms"), ())

    def measure(asked: Plan) -> Record:
        record = simulate.simulate(asked, brick)
        spent[0] += sum(item.requests for item in record.intervals if item.measure == "service")
        return record

    def both(drawn: Plan) -> tuple[float, float]:
        forecast = searching.searching_s(drawn, asked_of, 0.1, measure, 1)
        spent[0] = 0
        unlimited = measure(predict.for_time(drawn, 0.1))
        parts = predict.shares(unlimited, asked_of)

        def attempt(rate: float) -> Step:
            offered = predict.at_rate(drawn, rate, parts, asked_of, 0.1, virtual=True)
            return predict.step(measure(offered), asked_of, rate)

        highest(attempt, simulate.rates(unlimited)[0] / 2)
        return forecast, float(spent[0])

    # How many rates one search tries depends on its arrivals.
    forecasts, took = zip(*(both(structs.replace(plan, seed=seed)) for seed in (1, 2, 3)), strict=True)
    assert 1 / 1.5 < sum(forecasts) / sum(took) < 1.5, (forecasts, took)


def test_the_mix_of_streams_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    asked = plan_of(support.plan(support.stream(name="a"), support.stream(name="b"), requests=9))
    assert isinstance(asked, Plan)
    plan = predict.one_phase(asked, None)
    both, one = (predict.asked(plan, predict.limit("p99:1s"), patterns) for patterns in ((), ("b*",)))
    virtual = predict.at_rate(plan, 100.0, {0: 1.0, 1: 0.0}, both, 1.0, virtual=True).phase[0]
    assert virtual.duration == Duration(100_000_000_000)  # 10,000 requests, of which 100 lie beyond the percentile
    assert [stream.name for stream in virtual.stream] == ["a"]  # one that sent nothing is left out
    streams = predict.at_rate(plan, 100.0, {0: 0.75, 1: 0.25}, both, 1.0).phase[0]
    assert [stream.pace.rate for stream in streams.stream if isinstance(stream.pace, OpenPace)] == [75.0, 25.0]
    assert streams.requests is None
    assert streams.duration == Duration(20_000_000_000)  # 1,000 have ten beyond p99; twice that at 100 a second
    # Of a stream that is named, its own rate is offered and its own response time limited, beside the other as it is.
    first, second = predict.at_rate(plan, 100.0, {1: 1.0}, one, 1.0).phase[0].stream
    assert first == plan.phase[0].stream[0]
    assert isinstance(second.pace, OpenPace)
    assert second.pace.rate == 100.0
    assert (one.streams, [r.stream for r in one.ruler.requirements]) == ((1,), ["b"])


def test_mailboxes_are_counted_by_the_requests_that_they_cause(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Beside a scan, whose many fast requests would be most of the rate and would keep the limit for all."""
    profile = tmp_path / "mail.toml"
    profile.write_text(
        '[[phase]]\nduration = "1s"\n'
        '[[phase.stream]]\nname = "users"\nrequest = "4KiB"\naddress = "random"\ndepth = 4\n'
        '[[phase.stream]]\nname = "scan"\nrequest = "64KiB"\naddress = "sequential"\n',
        "utf-8",
    )
    asked = ["predict", str(profile), "sim:wd2500jd", "--limit", "mean:60ms", "--searches", "1", "--duration", "1s"]
    both = answer(capsys, *asked)
    assert set(both["streams"]) == {"users", "scan"}
    assert "Rate and limit are of all streams' requests together" in both["belief"]
    found = answer(capsys, *asked, "--per-mailbox", "0.5", "--stream", "us*")
    assert (found["streams"], found["each_stream_within_limit"]) == ({"users": 1.0}, True)
    assert found["mailboxes"] == int(found["rate_per_s"] / 0.5)
    # A disk of 7,200 rpm does some 70 random reads a second, and fewer beside a scan.
    assert 5 < found["rate_per_s"] < 70
    assert found["question"].startswith("How many requests/s of users does sim:wd2500jd sustain in ")
    assert " requests/s of users" in found["answer"][0]


def test_a_real_file_is_predicted_from_runs_that_are_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.write_bytes(bytes(8 << 20))
    document = answer(
        capsys, *PREDICT, str(place), "--limit", "mean:1s", "--duration", "200ms", "--set", "warmup=0s", code=0
    )
    assert document["rate_per_s"] > 0
    with Store() as store:
        assert len(store.runs()) == sum(len(found["steps"]) for found in document["searches"]) + 1


def test_published_charts_are_the_ones_of_the_reference() -> None:
    ours = Path(buy.__file__).with_name("advice_charts.csv").read_text("utf-8")
    reference = Path(__file__).parents[2] / "reference" / "advice_charts.csv"
    assert ours == reference.read_text("utf-8")
    assert [asdict(rating) for rating in charts.published()] == list(csv.DictReader(ours.splitlines()))


def test_a_share_of_the_best_is_a_rating() -> None:
    # The usable shares of RAID-0, 5, 6 and 10 for four drives' worth of data, and their published ratings.
    shares = (1.0, 4 / 5, 4 / 6, 4 / 8)
    assert [level_chart.rating(share) for share in shares] == ["Best", "Good", "Moderate", "Poor"]
    assert drive_chart.agrees(3.4, 3.5, "3-5")
    assert not drive_chart.agrees(5.1, 6, "3-5")
    assert drive_chart.agrees(104, 104, "130")
    assert not drive_chart.agrees(76, 77, "50")


def test_the_order_of_levels_is_counted_by_pairs_and_ties_claim_nothing() -> None:
    def levels(**rates: float) -> dict[str, level_chart.LevelFigures]:
        return {name: level_chart.LevelFigures(rate, rate, 0.5, 0.5) for name, rate in rates.items()}

    said = {"raid0": "Good", "raid1": "Best", "raid5": "Good"}
    figures = {"SAS": levels(raid0=3, raid1=5, raid5=9), "SATA": levels(raid0=3, raid1=5, raid5=1)}
    found = level_chart.ordered(figures, said, level_chart.TRANSACTIONS)
    assert (found.agree, found.pairs) == (1, 2)  # RAID 0 and RAID 5 are rated alike
    assert found.against == (("raid1", "raid5", ("SAS",)),)
    # Half of the rebuilds fail, so half of the rate is left; bought drives are twice as many as hold data.
    assert figures["SAS"]["raid1"].figure(level_chart.FAILURE) == 2.5
    assert figures["SAS"]["raid1"].figure(level_chart.TRANSACTIONS, level_chart.PER_DRIVE) == 2.5


def suited(
    offers: dict[str, tuple[int, tuple[str, ...]] | None], **given: dict[str, float]
) -> dict[str, suitability.Suited]:
    """The rule on made-up offers at the first application: drives, and levels that last."""
    assumed = suitability.assumed(given.get("prices", {}), {})
    found = {
        (kind.item, application.criterion): suitability.Sought(
            None
            if (offer := offers[kind.word]) is None
            else suitability.Offer("raid6", offer[0], 0, 9e6, 500, offer[1]),
            12e6,
        )
        for kind in assumed.classes
        for application in assumed.applications
    }
    return {item.item: item for item in suitability.judge(assumed, found)[:3]}


def test_suitability_follows_from_requirements_lasting_and_cost() -> None:
    either = ("raid5", "raid6")
    found = suited({"fc": (10, either), "sas": (10, either), "sata": (14, ("raid6",))})
    # 30, 25 and 14: FC costs more than twice as much as SATA, SAS does not, and SATA lasts with RAID 6 alone.
    assert {item: s.verdict for item, s in found.items()} == {
        "Fibre Channel": "NO (cost)",
        "SAS": "YES",
        "SATA II": "YES with RAID 6",
    }
    assert found["SAS"].flips_at == pytest.approx(14 / 0.5 / 10)
    dearer = suited({"fc": (10, either), "sas": (10, either), "sata": (14, either)}, prices={"sas": 2.81})
    assert dearer["SAS"].verdict == "NO (cost)"
    alone = suited({"fc": None, "sas": (10, either), "sata": None})
    assert [alone[item].verdict for item in ("Fibre Channel", "SAS", "SATA II")] == ["NO", "YES", "NO"]
    assert alone["SAS"].flips_at is None
    assert alone["SATA II"].flips_at is None


def test_what_is_assumed_can_be_changed_and_nothing_else() -> None:
    given = suitability.assumed({"fc": 9.0}, {"mid-range": 20e6}, 0.7)
    assert [kind.price for kind in given.classes] == [9.0, 2.5, 1.0]
    assert [application.response_ns for application in given.applications] == [10e6, 20e6, None]
    assert "800 requests/s" in given.applications[1].asked
    for prices, limits, dear in (
        ({"ide": 1.0}, {}, 0.5),
        ({"fc": 0.0}, {}, 0.5),
        ({}, {"nearline": 1e6}, 0.5),
        ({}, {}, 0),
    ):
        with pytest.raises(BadInputError):
            suitability.assumed(prices, limits, dear)


def test_rules_of_thumb_are_computed_beside_the_published_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    document = answer(capsys, "charts", "--output", str(tmp_path / "charts"))
    cells = {(cell["item"], cell["criterion"]): cell for cell in document["cells"]}
    assert len(document["cells"]) == len(charts.published())
    assert all(cells[f"RAID {n}", "capacity"]["agrees"] for n in (0, 1, 5, 6, 10))

    def figure(level: int, criterion: str) -> float:
        return float(cells[f"RAID {level}", criterion]["figure"].split()[1].removesuffix("/s,"))

    # Two arms hold the same data on mirrors; each write costs four accesses on RAID-5 and six on RAID-6.
    by_level = [figure(level, "transactional I/O") for level in (10, 0, 5, 6)]
    assert by_level == sorted(by_level, reverse=True)
    assert by_level[1] > 1.2 * by_level[2]
    assert figure(0, "failure and rebuild") == 0
    per_drive = next(item for item in document["pairs"] if item["basis"] == level_chart.PER_DRIVE)
    # With the same number of drives nothing is faster than writing once.
    assert {pair["published_worse"] for pair in per_drive["against"]} <= {"raid0", "raid5"}
    assert cells["Enterprise", "average seek ms"]["agrees"]
    assert document["agree"] <= document["compared"] == len(document["cells"])
    _check_suitability(document)
    page = Path(document["page"])
    text = page.read_text("utf-8")
    assert text.count("<svg") == 6
    assert "<script" not in text
    for picture in (page.parent / "pictures").glob("*.svg"):
        assert picture.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def _check_suitability(document: Json) -> None:
    """The rule, cell by cell, from the figures that are told."""
    prices = document["assumed"]["prices"]
    words = {"Fibre Channel": "fc", "SAS": "sas", "SATA II": "sata"}
    for cell in document["suitability"]:
        others = [
            other["offer"]["cost"]
            for other in document["suitability"]
            if other["criterion"] == cell["criterion"] and other["item"] != cell["item"] and other["offer"]
        ]
        offer = cell["offer"]
        if offer is None:
            assert cell["verdict"] == "NO"
            continue
        assert offer["cost"] == pytest.approx(offer["members"] * prices[words[cell["item"]]])
        assert (cell["verdict"] == "NO (cost)") == (min(others) < document["rule"]["too_dear"] * offer["cost"])
        assert offer["loss_years"] >= (10 if cell["criterion"].startswith("nearline") else 100)
    # A single read of a drive of 7,200 rpm takes 12.7 ms, so no number of them answers within 10.
    seen = {(cell["item"], cell["criterion"]): cell for cell in document["suitability"]}
    assert seen["SATA II", "high-end OLTP"]["verdict"] == "NO"
    assert seen["SAS", "high-end OLTP"]["offer"]["value"] <= 10e6


def test_a_cache_flatters_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["buy", "sqlio-random-write-4", "--require", "iops>=1", "--parts", "cheetah-15k5-300"]
    arguments += [
        "--parts",
        "intel-srcasj4",
        "--fastest",
        "--condition",
        "normal",
        "--members",
        "4",
        "--level",
        "raid5",
    ]
    arguments += ["--duration", "10s"]
    iops = answer(capsys, *arguments)["found"][0]["conditions"]["normal"]["iops"]
    # Four arms, four accesses a write: a rate of a single drive. A cache that is not full would show thousands.
    assert iops < 1000


def test_the_caches_of_drives_are_filled_before_anything_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """1,024 entries in each of four drives: at first they take more than the arms do."""
    arguments = ["buy", "sqlio-random-write-4", "--require", "iops>=1", "--fastest", "--parts", "nearline-20tb"]
    arguments += ["--parts", "linux-md", "--members", "4", "--level", "raid10", "--condition", "normal"]
    for setting in ("request=4KiB", "depth=32"):
        arguments += ["--set", setting]
    iops = answer(capsys, *arguments, "--duration", "5s")["found"][0]["conditions"]["normal"]["iops"]
    assert 700 < iops < 1000  # two writes each; it stays at 840 however long it lasts


def test_only_caches_that_end_writes_are_filled() -> None:
    def seconds(name: str, *overrides: str) -> int:
        return simulate.fill_s(bricks.resolve(name, overrides).brick)

    assert seconds("nearline-20tb") == 21
    assert seconds("nearline-20tb", "write_cache=false") == 0
    assert seconds("cheetah-15k5-300") == 0  # its cache is off as delivered
    assert seconds("cheetah-15k5-300", "write_cache=true") == 1
    assert seconds("overland-2007-sata") == simulate.FILL_S
    assert seconds("nvme-tlc-3840") == 0


def test_conditions_are_in_the_words_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "buy",
        "sqlio-random-write-1",
        "--require",
        "iops>=1",
        "--parts",
        "wd2500jd",
        "--parts",
        "3ware-8506-8",
    ]
    arguments += ["--members", "2", "--level", "raid1", "--duration", "5s"]
    for word in ("write-cache-on", "write-cache-off", "scrubbing", "neighbour-rebuilding"):
        arguments += ["--condition", word]
    states = answer(capsys, *arguments)["simulated"][0]["conditions"]
    assert list(states) == ["write_cache_on", "write_cache_off", "scrubbing", "neighbour_rebuilding"]
    assert states["write_cache_off"]["iops"] < states["write_cache_on"]["iops"]


def test_each_further_copy_of_a_mirror_keeps_data_longer() -> None:
    """Without unreadable sectors three copies lose data after F³ / (3 · 2 · R²), as any three that must all fail."""
    of = [data_loss_hours("raid1", members, 640_000, 2_100, 0.148) for members in (2, 3, 4)]
    assert of[0] * 50 < of[1] < of[2] / 50
    assert data_loss_hours("raid1", 3, 640_000, 2_100) == pytest.approx(640_000**3 / (3 * 2 * 2_100**2))


def test_a_prediction_whose_searches_differ_too_much_has_no_rate() -> None:
    """It was a number for whoever reads the JSON, and exit code 0, beside an answer that said "not known"."""
    searches = [Carried(Step(rate, support.MS, holds=True), []) for rate in (3012.0, 3605.0, 15207.0)]
    found = Predicted("normal", 100.0, searches, _Streams([("reads", 1.0)], are_named=False))
    assert found.known is None
    document = _document(found, 0.5, None)
    assert (document["rate_per_s"], document["high_per_s"], document["mailboxes"]) == (None, None, None)
    assert str(document["not_known"]).startswith("the searches differ too much (95 % interval 605 to ")
    agreed = replace(found, searches=searches[:2])
    assert _document(agreed, None, None)["not_known"] is None
