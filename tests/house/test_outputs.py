"""What is written replaces nothing that is not ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from brickyard import outputs
from brickyard.cli import main
from brickyard.errors import BadInputError
from support import OWN_MOUNTS

RUN = ["run", "sqlio-random-read-1", "sim:msr-2003-wd", "--set", "duration=5s"]
STUDY = ["study", "sata-2003-disks", "--only", "disks=1"]


def refused(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> None:
    path.write_text("precious")
    capsys.readouterr()
    assert main([*words]) == 2
    assert f"{path}: exists and would be lost" in capsys.readouterr().err
    assert path.read_text() == "precious"


def test_files_of_the_user_s_own_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == 0
    page, rows, profile = tmp_path / "page.html", tmp_path / "rows.csv", tmp_path / "load.toml"
    refused(capsys, page, "report", "latest", "-o", str(page))
    refused(capsys, rows, "export", "latest", "--format", "csv", "-o", str(rows))
    refused(capsys, profile, "import", "--command", "diskspd -b8K -d6 x.dat", "-o", str(profile))
    refused(capsys, profile, "terraserver", "mapping", "-o", str(profile))
    for words in (["report", "latest"], STUDY, ["characterize", "sim:gp3", "--quick"]):
        assert main([*words, "-o", str(tmp_path / "mistyped" / "page")]) == 2
        assert "page: cannot be written: its directory does not exist; make it first" in capsys.readouterr().err
    assert not (tmp_path / "mistyped").exists()
    folder = tmp_path / "study"
    folder.mkdir()
    refused(capsys, folder / "report.html", *STUDY, "-o", str(folder))
    (folder / "report.html").unlink()
    (folder / "mine").touch()
    capsys.readouterr()
    assert main([*STUDY, "-o", str(folder)]) == 2
    assert f"{folder}: is not empty and has no report of Brickyard; name a new folder" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["mine"]
    # Beside a page of ours nothing else is replaced either.
    (folder / "mine").unlink()
    assert main([*STUDY, "-o", str(folder)]) == 0
    refused(capsys, folder / "cells.csv", *STUDY, "-o", str(folder))
    pictures = tmp_path / "report" / "pictures"
    assert main(["report", "latest", "-o", str(pictures.parent)]) == 0
    refused(capsys, pictures / "latency-over-time.png", "report", "latest", "-o", str(pictures.parent))
    bought = ["advise", "buy", "sqlio-random-read-4", "--require", "iops>=1", "--parts", "wd2500jd", "3ware-8506-8"]
    chart = tmp_path / "cost.svg"
    assert main([*bought, "-o", str(chart)]) == 0
    refused(capsys, chart, *bought, "-o", str(chart))
    chart.unlink()
    refused(capsys, chart.with_suffix(".png"), *bought, "-o", str(chart))


def test_reports_of_ours_are_made_again_in_the_same_place(tmp_path: Path) -> None:
    assert main(RUN) == 0
    for words in (["report", "latest"], STUDY):
        place = str(tmp_path / words[0])
        assert main([*words, "-o", place]) == 0
        assert main([*words, "-o", place]) == 0


FULL = """
set -e
mount -t tmpfs -o size=4k tmpfs "$1"
"$2" -m brickyard export latest -f json -o "$1/rows.json" && exit 9
"$2" -m brickyard report latest -o "$1/page" && exit 9
find "$1" -type f | wc -l
"""


def test_a_full_disk_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that nothing stays mounted whatever happens."""
    assert main(RUN) == 0
    words = [*OWN_MOUNTS, "bash", "-c", FULL, "full", str(tmp_path), sys.executable]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout.split()[-1] == "0"


def test_a_link_to_nothing_is_no_place_for_a_file(tmp_path: Path) -> None:
    """Nobody named the file that would be made."""
    link = tmp_path / "link"
    link.symlink_to("gone")
    with pytest.raises(BadInputError, match="is a symbolic link to nothing"):
        outputs.check_file(link)
    with pytest.raises(BadInputError, match="is a symbolic link to nothing"), outputs.whole_file(link) as file:
        file.write(b"x")
    assert [place.name for place in tmp_path.iterdir()] == ["link"]


def test_no_folder_is_made_through_a_link_to_nothing(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone")
    for path in (link, link / "below"):
        for made in (outputs.folder, outputs.check_folder):
            with pytest.raises(BadInputError, match="is a symbolic link to nothing"):
                made(path)
    assert not (tmp_path / "gone").exists()
