"""From the command line to the store and back, with the real core on real files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from brickyard.analysis.judging.differing import asked_hash
from brickyard.store import Record, Store
from support import events_of

MIB = 1 << 20
SHORT = ("--set", "duration=60ms", "--set", "interval=12ms", "--set", "warmup=10ms")
PATIENCE_S = 60
WITH_SBIN = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}


@dataclass
class Home:
    """A store and a cache of their own, and the command that uses them."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        places = {"XDG_DATA_HOME": str(self.path / "data"), "XDG_CACHE_HOME": str(self.path / "cache")}
        return {**os.environ, **places}

    @property
    def store(self) -> Path:
        return self.path / "data" / "brickyard" / "runs.db"

    @property
    def scratch_files(self) -> list[Path]:
        return sorted((self.path / "cache" / "brickyard").glob("*.brick"))

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "brickyard", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.path,
        )

    def run(self, *arguments: str, code: int = 0) -> Any:
        """The document of a verb's `--json`."""
        process = self.begin(*arguments, "--json")
        out, err = process.communicate(timeout=10 * PATIENCE_S)
        assert process.returncode == code, err
        return json.loads(out)

    def record(self) -> Record:
        with Store(self.store) as store:
            return store.record(store.runs()[-1].id)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="module")
def characterized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, dict[str, Any]]:
    home = Home(tmp_path_factory.mktemp("characterized"))
    return home, home.run("characterize", "--quick", "--size", "64MiB", *SHORT)


def wait_until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def has_intervals(home: Home, count: int) -> Callable[[], bool]:
    def check() -> bool:
        if not home.store.exists():
            return False
        with Store(home.store) as store:
            runs = store.runs()
            return bool(runs) and len(store.record(runs[-1].id).costs) >= count

    return check


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_characterization_measures_every_cell_without_an_error(characterized: tuple[Home, dict[str, Any]]) -> None:
    home, document = characterized
    assert document["outcome"] == "done"
    align = home.record().info.engine["targets"][0]["align_bytes"]
    sizes = [512 << step for step in range(12) if 512 << step >= align]
    found = {(c["address"], c["operation"], c["request_bytes"]) for c in document["cells"]}
    assert found == {(a, o, s) for a in ("sequential", "random") for o in ("read", "write") for s in sizes}
    length = r"\d+(\.\d+)? ms"
    assert re.search(rf"Measured for only {length}( to {length})? in \d+ of \d+ runs: too short", document["belief"])
    assert all(cell["requests"] > 0 and cell["errors"] == 0 for cell in document["cells"])
    assert all(cell["bytes"] == cell["requests"] * cell["request_bytes"] for cell in document["cells"])
    for pattern in {(c["address"], c["operation"]) for c in document["cells"]}:
        shares = [c["throughput_share_of_best"] for c in document["cells"] if (c["address"], c["operation"]) == pattern]
        # A cell of a busy host may have had no request that ended within its time, and has no rate then.
        assert max(share for share in shares if share is not None) == 1.0


def test_a_characterization_leaves_a_report_and_no_scratch_file(characterized: tuple[Home, dict[str, Any]]) -> None:
    home, document = characterized
    page = Path(document["report"])
    assert page.parent.parent == home.path
    assert 'id="characterization-graph"' in page.read_text()
    assert len(list((page.parent / "pictures").glob("*.png"))) in (12, 13)  # the bar of causes where requests were slow
    assert home.scratch_files == []


def test_a_report_of_real_runs_fits_a_phone(characterized: tuple[Home, dict[str, Any]]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 360, "height": 740})
        tab.goto(Path(characterized[1]["report"]).as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 360
        browser.close()


def test_the_record_holds_the_circumstances(characterized: tuple[Home, dict[str, Any]]) -> None:
    record = characterized[0].record()
    info = record.info
    assert info.engine["engine"] in ("io_uring", "psync")
    assert info.engine["clock"]["source"] in ("tsc", "monotonic")
    assert info.facts.host is not None
    assert info.facts.host.kernel == os.uname().release
    assert info.facts.targets[0].mount is not None
    assert info.facts.targets[0].mount.file_system
    assert info.condition == "normal"
    assert len(info.profile_hash) == 64
    (end,) = events_of(record, "phase_end")
    assert 0 <= end["loop_busy_share"] <= 1.01
    [watch] = info.watch.targets
    assert watch is not None
    assert watch.duration_ns > 0


def test_a_run_by_name_and_its_record_agree(home: Home) -> None:
    document = home.run("run", "sqlio-random-read-4", "--size", "64MiB", "--set", "requests=2000")
    (row,) = document["totals"]
    assert row["requests"] == 2000
    assert row["bytes"] == 2000 * 8192
    assert row["measures"]["service"]["count"] == 2000
    assert row["measures"]["response"]["p50_ns"] >= row["measures"]["service"]["min_ns"]
    assert row["depth_max"] <= 4
    assert home.run("show", "latest")["totals"] == document["totals"]


def test_repetitions_are_a_study_of_one_load_with_a_seed_each(home: Home) -> None:
    short = ("--size", "64MiB", "--set", "requests=500", "--repeat", "3")
    document = home.run("run", "sqlio-random-write-1", *short)
    assert [run["labels"]["repetition"] for run in document["runs"]] == [1, 2, 3]
    with Store(home.store) as store:
        records = [store.record(info.id) for info in store.runs()]
    assert len({asked_hash(record) for record in records}) == 1
    assert len({record.info.seed for record in records}) == 3
    assert len({run["study"] for run in document["runs"]}) == 1


def test_ctrl_c_ends_in_good_order_with_the_partial_record_kept(home: Home) -> None:
    process = home.begin("run", "sqlio-random-read-4", "--size", "64MiB", "--set", "interval=50ms", "--json")
    wait_until(has_intervals(home, 5))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["outcome"] == "interrupted"
    assert document["totals"][0]["requests"] > 0
    assert document["generator"][0]["reason"] == "interrupted"
    assert "Traceback" not in err
    assert home.record().info.outcome == "interrupted"
    assert home.scratch_files == []


def test_ctrl_c_between_two_requests_of_a_low_rate_is_no_overload(home: Home) -> None:
    """The loop sleeps until the next one is due, and could have sent it."""
    load = ("--rw", "randread", "--rate", "20", "--runtime", "60", "--size", "64MiB")
    process = home.begin("run", *load, "--json")
    wait_until(has_intervals(home, 1))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["totals"][0]["requests"] >= 4
    assert {warning["id"] for warning in document["warnings"]} & {"overloaded", "backlog", "late"} == set()


def test_ctrl_c_during_a_characterization_still_reports_what_was_measured(home: Home) -> None:
    process = home.begin("characterize", "--quick", "--size", "64MiB", "--json")

    def third_run() -> bool:
        if not home.store.exists():
            return False
        with Store(home.store) as store:
            return len(store.runs()) >= 3

    wait_until(third_run)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["outcome"] == "interrupted"
    assert 2 <= len(document["cells"]) <= len(document["runs"]) < 48
    assert Path(document["report"]).exists()


def test_ctrl_c_during_the_tests_of_pts_names_the_study_that_has_what_was_measured(home: Home) -> None:
    process = home.begin("pts", "client", "--test", "latency", "--round", "1s", "--size", "16MiB")
    wait_until(has_intervals(home, 2))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "interrupted; study s1 has what was measured; `brickyard report s1`" in err


def test_killed_without_warning_the_record_is_there_to_the_last_interval(home: Home) -> None:
    process = home.begin("run", "sqlio-random-read-4", "--size", "64MiB", "--set", "interval=50ms")
    wait_until(has_intervals(home, 8))
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    record = home.record()
    assert record.info.outcome == "interrupted"
    assert len(record.costs) >= 8
    assert home.run("show")["totals"][0]["requests"] > 0
    # What the killed run could not take away, the next one does.
    assert len(home.scratch_files) == 1
    home.run("run", "sqlio-random-read-4", "--size", "64MiB", "--set", "requests=10")
    assert home.scratch_files == []


def test_a_file_of_the_users_own_is_read_and_never_written(home: Home, tmp_path: Path) -> None:
    mine = tmp_path / "mine.img"
    mine.write_bytes(os.urandom(32 * MIB))
    before = digest(mine)
    document = home.run("characterize", str(mine), "--quick", *SHORT)
    assert {cell["operation"] for cell in document["cells"]} == {"read"}
    assert any("writes are left out" in note and str(mine) in note for note in document["notes"])
    for consent in ((), ("--overwrite", str(mine), "--i-know-this-destroys-data")):
        refused = home.run("run", "sqlio-random-write-4", str(mine), *consent, "--set", "requests=10", code=2)
        assert "not made by Brickyard" in refused["error"]
    assert digest(mine) == before


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    backing = tmp_path / "backing"
    backing.write_bytes(bytes(32 * MIB))
    made = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], check=True, capture_output=True, text=True, env=WITH_SBIN
    )
    device = made.stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True, env=WITH_SBIN)


def test_a_device_is_written_only_with_the_consent_that_it_needs(home: Home, loop_device: str, tmp_path: Path) -> None:
    load = ("run", "sqlio-random-write-4", loop_device, "--set", "requests=100")
    backing = tmp_path / "backing"
    empty = digest(backing)
    assert "--overwrite" in home.run(*load, code=2)["error"]
    assert digest(backing) == empty
    (row,) = home.run(*load, "--overwrite", loop_device)["totals"]
    assert (row["operation"], row["requests"], row["errors"]) == ("write", 100, 0)
    assert digest(backing) != empty
    subprocess.run(["mkfs.ext4", "-q", "-F", loop_device], check=True, capture_output=True, env=WITH_SBIN)
    formatted = digest(backing)
    assert "--i-know-this-destroys-data" in home.run(*load, "--overwrite", loop_device, code=2)["error"]
    assert digest(backing) == formatted
    home.run(*load, "--overwrite", loop_device, "--i-know-this-destroys-data")


def test_a_device_that_others_trimmed_since_is_not_all_written(home: Home, loop_device: str) -> None:
    """Its header was believed: reads that reached no medium were the rate of the device."""
    read = ("run", "--rw", "randread", "--bs", "4k", "--runtime", "200ms", loop_device)

    def told() -> str:
        show = home.begin("show")
        return " ".join(show.communicate(timeout=PATIENCE_S)[0].split())

    home.run("run", "--rw", "write", "--bs", "1m", "--runtime", "100ms", loop_device, "--overwrite", loop_device)
    home.run(*read, "--check", "iops>=1")
    assert "all of it written before the run, by its header" in told()
    subprocess.run(["blkdiscard", "-o", "17MiB", "-l", "2MiB", loop_device], check=True, env=WITH_SBIN)
    home.run(*read)
    assert re.search(r"unwritten share unknown \([345] of 64 blocks that were looked at are blank\)", told())
    assert "This is not the rate of the storage: 6 % of the blocks that were looked at hold only zeros" in told()
    filled = home.run(*read, "--overwrite", loop_device, "--dry-run")["forecast"]["fill_bytes"]
    assert 14 * MIB <= filled <= 16 * MIB
    home.run(*read, "--overwrite", loop_device)
    assert "all of it written before the run, by its header" in told()


def test_nothing_is_judged_by_reads_of_a_device_that_holds_nothing(home: Home, loop_device: str) -> None:
    """They met requirements and held in comparisons, as nobody knew what was ever written."""
    read = ("run", "--rw", "randread", "--bs", "4k", "--runtime", "200ms", "--repeat", "2", loop_device)
    home.run(*read, "--check", "iops>=1", code=1)
    home.run(*read)
    compared = home.begin("compare", "1-2", "3-4", "--check", "--tolerance", "90%")
    out, _ = compared.communicate(timeout=PATIENCE_S)
    assert compared.returncode == 2
    assert "100 % of the blocks that were looked at hold only zeros" in " ".join(out.split())
    listed, _ = home.begin("runs", "--each").communicate(timeout=PATIENCE_S)
    assert listed.count("reads of blank blocks") >= 4
    with open(loop_device, "r+b") as device:
        device.write(os.urandom(32 * MIB))
    home.run(*read, "--check", "iops>=1")


def test_of_a_device_the_blocks_are_looked_at_that_a_run_reads(home: Home, loop_device: str) -> None:
    """Blocks of the whole device were looked at: a region that holds nothing met requirements among others that hold
    data, and one that was written whole did not."""
    with open(loop_device, "r+b") as device:
        device.write(os.urandom(16 * MIB))
    read = ("run", "--rw", "randread", "--bs", "4k", "--runtime", "200ms", loop_device, "--check", "iops>=1")
    written = home.run(*read, "--set", "region=0B..16MiB")
    assert "none_blank" in {warning["id"] for warning in written["warnings"]}
    blank = home.run(*read, "--set", "region=18MiB..24MiB", code=1)
    (said,) = (warning["text"] for warning in blank["warnings"] if warning["id"] == "blank_blocks")
    assert "64 of 64 blocks" in said
    tiny = home.run(*read, "--set", "region=20MiB..20608KiB", code=1)  # 128 KiB
    assert any("32 of 32 blocks" in warning["text"] for warning in tiny["warnings"])
    home.run("run", "--rw", "write", "--bs", "1m", "--runtime", "100ms", loop_device, "--overwrite", loop_device)
    subprocess.run(["blkdiscard", "-o", "17MiB", "-l", "6MiB", loop_device], check=True, env=WITH_SBIN)
    home.run(*read, "--set", "region=0B..15MiB")
    home.run(*read, "--set", "region=17MiB..21MiB", code=1)


def test_failed_requests_are_counted_apart_and_end_a_run_only_when_asked(
    home: Home, loop_device: str, tmp_path: Path
) -> None:
    os.truncate(tmp_path / "backing", 8 * MIB)  # what lies beyond answers EIO from now on
    load = ("run", "sqlio-random-read-4", loop_device, "--set", "requests=400")
    document = home.run(*load)
    (row,) = document["totals"]
    assert row["errors"] > 100
    assert row["requests"] + row["errors"] == 400
    assert row["bytes"] == row["requests"] * 8192
    assert document["errors_by_errno"] == {"EIO": row["errors"]}
    assert all(error["offset_bytes"] + 8192 > 8 * MIB for error in document["errors"])
    assert any("failed" in warning["text"] for warning in document["warnings"])
    stopped = home.run(*load, "--stop-on-error", code=1)
    assert stopped["outcome"] == "failed"
    assert stopped["generator"][0]["reason"] == "error"


def test_a_file_that_is_asked_for_is_made_and_stays(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "made"
    home.run("run", "sqlio-random-write-4", str(target), "--size", "32MiB", "--set", "requests=100")
    assert target.stat().st_size >= 32 * MIB
    # It is ours now, so that it needs neither a size nor consent.
    home.run("run", "sqlio-random-write-4", str(target), "--set", "requests=100")


def test_a_kept_scratch_file_stays_where_it_was_asked_for(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "scratch here"
    place.mkdir()
    load = ("--set", "requests=10", "--size", "32MiB", "--scratch", str(place))
    home.run("run", "sqlio-random-read-4", *load, "--keep")
    assert len(list(place.iterdir())) == 1


def test_plain_output_has_progress_on_stderr_and_tables_on_stdout(home: Home) -> None:
    process = home.begin("run", "sqlio-random-read-4", "--size", "32MiB", "--set", "requests=2000")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "Throughput" in out
    assert "sqlio-random-read-4: " in err
    assert "\x1b" not in out + err


@pytest.mark.parametrize("others", [True, False])
def test_what_a_device_held_before_it_was_ours_is_looked_at(home: Home, loop_device: str, others: bool) -> None:
    """Of a device that others had filled, "100 % was never written" was said after a run that filled nothing."""
    size = int(subprocess.check_output(["blockdev", "--getsize64", loop_device]))
    with open(loop_device, "r+b") as device:
        device.write(os.urandom(size) if others else bytes(size))
        os.fsync(device.fileno())
    words = ("--rw", "randrw", "--bs", "4k", "--runtime", "200ms", "--overwrite", loop_device, "--set", "fill=never")
    for _ in range(2):
        told = home.run("run", loop_device, *words, "--set", "region=8MiB..16MiB")
        (said,) = {"unwritten", "unwritten_unknown", "none_blank", "blank_blocks"} & {
            warning["id"] for warning in told["warnings"]
        }
        assert said == ("none_blank" if others else "blank_blocks")


def test_what_a_device_holds_behind_trims_is_not_known(home: Home, loop_device: str, tmp_path: Path) -> None:
    """A whole device was called "100 % never written" after a profile with trims, which it had not even sent."""
    consent = ("--overwrite", loop_device)
    home.run("run", "sqlio-random-read-4", loop_device, *consent, "--set", "requests=100")
    trims = tmp_path / "trims.toml"
    trims.write_text(
        "title = 't'\n[[phase]]\nduration = '200ms'\n[[phase.stream]]\nrequest = '4KiB'\naddress = 'random'\n"
        "pace = { loop = 'open', rate = 20, arrivals = 'constant' }\noperations = { read = 98, write = 1, trim = 1 }\n"
    )
    home.run("run", str(trims), loop_device, *consent)
    told = home.run("run", "sqlio-random-read-4", loop_device, "--set", "requests=100")
    said = {"unwritten", "unwritten_unknown", "none_blank", "blank_blocks"}
    assert said & {warning["id"] for warning in told["warnings"]} <= {"none_blank", "blank_blocks"}
    again = home.run("run", "sqlio-random-read-4", loop_device, *consent, "--set", "requests=100")
    assert not said & {warning["id"] for warning in again["warnings"]}, "it was filled again"
