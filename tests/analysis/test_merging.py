"""Warnings of several runs, each once: by what they hold, never by how they read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.analysis.judging.differing import differing_between
from brickyard.analysis.judging.merging import distinct_warnings, kind_of, merged
from brickyard.schema import RunWarning, Unit, stored, warned
from brickyard.schema.warning import WRITTEN, Quantity, Wording
from brickyard.store import Record, Store
from support import add_run, plan


def records_with(tmp_path: Path, *warnings: Sequence[RunWarning], names: Sequence[str] = ()) -> list[Record]:
    """A run for each list of warnings."""
    asked = plan()
    if names:
        asked["phase"] = [{**asked["phase"][0], "name": name} for name in names]
    tmp_path.mkdir(exist_ok=True)
    with Store(tmp_path / "runs.db") as store:
        return [store.record(add_run(store, [], plan_=asked, warnings=stored(list(own)))) for own in warnings]


def noisy(phase: str, share: float, size: float = 4096) -> RunWarning:
    return warned(
        "noisy",
        "warning",
        "{phase:Phase|Phases} {phase} {phase:is|are} noisy: IOPS vary by {share} on {device}; {size}.",
        phase=phase,
        share=Unit.SHARE_TENTHS.of(share),
        device="sda1",
        size=Unit.BYTES_TENTHS.of(size),
    )


def unsent(phase: str, count: int, due: int) -> RunWarning:
    return warned(
        "overloaded",
        "warning",
        "In {phase:phase|phases} {phase} {unsent} of {due} requests were never sent.",
        "Send {fewer}.",
        gravity=count / due,
        phase=phase,
        unsent=Unit.COUNT.of(count),
        due=Unit.COUNT.of(due),
        fewer=Unit.COUNT.of(due - count),
    )


def texts(found: Sequence[RunWarning]) -> list[str]:
    return [warning.text for warning in found]


def test_warnings_of_several_runs_are_told_once_and_come_before_notes(tmp_path: Path) -> None:
    always, once = warned("cache", "note", "Cache unknown."), warned("noisy", "warning", "Noisy.")
    found = distinct_warnings(records_with(tmp_path, [always], [always, once]))
    assert texts(found) == ["Noisy. (1 of 2 runs)", "Cache unknown."]


def test_merged_warnings_give_the_range_of_their_figures_and_the_names_of_their_phases(tmp_path: Path) -> None:
    names = ["fsync 512 B", "fsync 4096 B", "2"]
    own = [
        noisy(name, share, size)
        for name, share, size in zip(names, (0.125, 0.09, 0.04), (900, 1 << 20, 9), strict=True)
    ]
    (found,) = distinct_warnings(records_with(tmp_path, own[:2], own[1:], names=names))
    said = "Phases fsync 512 B, fsync 4096 B and 1 more are noisy: IOPS vary by 4.0% to 12.5% on sda1; 9 B to 1.0 MiB."
    assert found.text == said
    (alone,) = distinct_warnings(records_with(tmp_path / "one", own[:1]))
    assert alone.text == own[0].text == "Phase fsync 512 B is noisy: IOPS vary by 12.5% on sda1; 900 B."


def test_figures_that_belong_together_are_those_of_the_worst(tmp_path: Path) -> None:
    """A range would pair the figures of different runs: 1 to 9 of 10 to 1,000."""
    few, many = unsent("a", 9, 1000), unsent("b", 5, 10)
    two = records_with(tmp_path, [few], [many], [])
    (found,) = distinct_warnings(two)
    assert found.text == "In phase b 5 of 10 requests were never sent. (2 of 3 runs; the worst is shown)"
    assert found.remedy == "Send 5."
    assert texts(distinct_warnings(two[:2])) == [f"{many.text} (2 runs; the worst is shown)"]
    assert texts(distinct_warnings(two[1:2])) == [many.text]
    (one,) = distinct_warnings(records_with(tmp_path / "one", [few, many]))
    assert one.text == f"{many.text} (2 cases; the worst is shown)"
    (equal,) = distinct_warnings(records_with(tmp_path / "equal", [few], [unsent("b", 9, 1000)]))
    assert equal.text == "In phases a and b 9 of 1,000 requests were never sent."


def down(seconds: float) -> RunWarning:
    return warned("down", "warning", "It was down for {down} of the run.", down=Unit.DURATION.of(seconds))


def busy(array: str, done: float) -> RunWarning:
    return warned("busy", "warning", "{array} is at {done}.", array=array, done=Unit.SHARE.of(done))


def test_numbers_in_names_are_no_figures_and_long_durations_are(tmp_path: Path) -> None:
    records = records_with(tmp_path, [down(6600), busy("raid5-1", 0.2)], [down(7500), busy("raid5-2", 0.4)])
    assert texts(distinct_warnings(records)) == [
        "It was down for 1 h 50 min to 2 h 5 min of the run.",
        "raid5-1 is at 20%. (1 of 2 runs)",
        "raid5-2 is at 40%. (1 of 2 runs)",
    ]
    labels = [item.values[0][0] for item in differing_between(records[:1], records[1:]) if item.label == "Warning"]
    assert labels == ["raid5-1 is at 20%.", "raid5-2 is at 40%."], "other figures are no difference"


def test_texts_of_older_stores_are_alike_or_not(tmp_path: Path) -> None:
    """What they hold is not read out of them; of many, one is shown with the number of the others."""
    old: list[list[dict[str, Any]]] = [
        [{"id": "noisy", "severity": "warning", "text": f"Phase 1 is noisy: {share} %."}]
        for share in (12, 12, 13, 14, 15)
    ]
    with Store(tmp_path / "runs.db") as store:
        records = [store.record(add_run(store, [], warnings=own)) for own in old]
    assert texts(distinct_warnings(records[:3])) == [
        "Phase 1 is noisy: 12 %. (2 of 3 runs)",
        "Phase 1 is noisy: 13 %. (1 of 3 runs)",
    ]
    assert texts(distinct_warnings(records)) == ["Phase 1 is noisy: 12 %. (3 more like it)"]


def test_a_warning_comes_back_from_a_store_with_its_figures(tmp_path: Path) -> None:
    said = noisy("{a}", 0.125)
    (record,) = records_with(tmp_path, [said])
    assert record.info.warnings == [said]
    assert said.wording is not None
    assert said.wording.figures["share"] == Quantity(0.125, 0.125, Unit.SHARE_TENTHS)
    assert "Phase {a} is noisy" in said.text, "braces of a name are no place"


@pytest.mark.parametrize("unit", list(Unit))
def test_every_unit_is_written(unit: Unit) -> None:
    assert WRITTEN[unit](0.5)


UNITS = st.sampled_from(list(Unit))
NAMES = st.sampled_from(["raid5-1", "raid5-2", "md0", "a{b}", "4 KiB"])
VALUES = st.one_of(st.integers(0, 10**12), st.floats(0, 1e6, allow_nan=False))


@given(unit=UNITS, values=st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=12))
def test_merging_keeps_least_and_most_and_never_a_part_of_a_name(unit: Unit, values: list[tuple[str, float]]) -> None:
    def had(name: str, value: float) -> RunWarning:
        return warned("w", "note", "{name} had {figure}.", name=name, figure=unit.of(value))

    warnings = [had(name, value) for name, value in values]
    for name in {name for name, _ in values}:
        own = [value for other, value in values if other == name]
        alike = [warning for warning in warnings if kind_of(warning) == kind_of(had(name, 0))]
        assert len(alike) == len(own)
        found = merged(alike).warning
        low, high = WRITTEN[unit](min(own)), WRITTEN[unit](max(own))
        assert found.text == f"{name} had {low if low == high else f'{low} to {high}'}."
        assert isinstance(found.wording, Wording)
        assert found.text == found.wording.words()
    assert merged(warnings[:1] * 3).warning == warnings[0]
