"""Sentences that a reader understands at once: what was counted, of what, and in which direction."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.analysis.figures.samples import Difference
from brickyard.analysis.judging.answers import answer, belief
from brickyard.analysis.judging.conclusions import Duel
from brickyard.analysis.studies.answer import _cell_words
from brickyard.analysis.studies.characterization import characterization
from brickyard.bricks.spread import spread_of
from brickyard.cli import main
from brickyard.store import Store
from support import add_characterization


def test_cells_that_differ_are_counted_with_those_that_differ_the_opposite_way() -> None:
    def cell(share: float, *, seen: bool) -> tuple[float, Duel]:
        apart = Difference(share, share - 0.01, share + 0.01, seen)
        return 0.2, Duel("a", "b", more_is_better=True, apart=apart, levels={})

    cells = [cell(0.52, seen=True), cell(0.3, seen=True), cell(-0.047, seen=True), cell(0.02, seen=False)]
    told = "; single cells -4.7 % to +52 %: "
    assert _cell_words(cells) == f"{told}3 of 4 differ beyond noise, 1 of them in the direction opposite to its median"
    assert _cell_words(cells[:2]) == "; single cells +30 % to +52 %: 2 of 2 differ beyond noise"


def test_the_end_of_an_interval_at_a_limit_is_explained_after_it_is_named() -> None:
    volumes, disks = spread_of("cloud"), spread_of("rotating")
    assert volumes is not None
    assert disks is not None
    limits = "the most that links, controllers and their own limits allow"
    assert disks.cap_words == limits
    assert volumes.cap_words == (
        f"{limits}, plus {volumes.above_cap - 1:.0%} (nine of ten figures above a limit exceed it by at most that); "
        "sequential requests that a provider merges count as one"
    )


@pytest.mark.parametrize(("io", "is_said"), [("buffered", True), ("direct", False)])
def test_a_characterization_of_memory_says_so_in_its_answer(io: str, is_said: bool, tmp_path: Path) -> None:
    """Only the warnings below it and the runs by themselves did."""
    with Store(tmp_path / "runs.db") as store:
        add_characterization(store, io=io)
        records = [store.record(run) for run in range(1, 13)]
    said = answer(records, characterization(records)).belief
    assert (
        "Writes went into the page cache without flushes: their rates and times are those of memory." in said
    ) == is_said


def phases(**lengths: str) -> str:
    return "\n".join(
        f"""[[phase]]
name = "{name}"
duration = "{length}"
[[phase.stream]]
request = "4KiB"
address = "random"
"""
        for name, length in lengths.items()
    )


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([phases(a="300ms"), phases(a="2s")], "Measured for only 300 ms in 1 of 2 runs: too short"),
        (
            [phases(a="50ms"), phases(a="300ms"), phases(a="2s")],
            "Measured for only 50.0 ms to 300 ms in 2 of 3 runs",
        ),
        ([phases(long="2s", short="50ms")] * 2, "Phase short was measured for only 50.0 ms in 2 of 2 runs: too"),
        (
            [phases(a="300ms"), phases(a="300ms"), phases(long="2s", short="50ms")],
            "Measured for only 300 ms in 2 of 3 runs; phase short was measured for only 50.0 ms in 1 of 3 runs: too",
        ),
        (
            [phases(long="2s", short="50ms", brief="80ms"), phases(a="2s")],
            "Phases short and brief were measured for only 50.0 ms to 80.0 ms in 1 of 2 runs: too",
        ),
        ([phases(long="2s", short="50ms")], "Phase short was measured for only 50.0 ms: too"),
        ([phases(a="50ms", b="80ms")], "Measured for only 50.0 ms to 80.0 ms: too"),
    ],
)
def test_times_that_are_too_short_are_those_of_the_runs_and_phases_that_had_them(
    runs: list[str], said: str, tmp_path: Path
) -> None:
    """The shortest of all was given as the time of all: "only 18.0 ms in 7 of 9 runs", six of which had 300 ms."""
    place = tmp_path / "runs.db"
    for number, phase in enumerate(runs):
        (tmp_path / f"{number}.toml").write_text(f'title = "t"\ninterval = "10ms"\n{phase}')
        assert main(["run", str(tmp_path / f"{number}.toml"), "sim:iodrive-160-slc", "--store", str(place)]) == 0
    with Store(place) as store:
        told = belief([store.record(run) for run in range(1, len(runs) + 1)])
    assert said in told
