"""Duty: replays in the layout of the SATA study's tables 7 and 8, with its figures beside ours. Pure.

Refusal: no other figures than `replay_pages` has. The study's are facts of its paper, on two bricks of 2003.
"""

from __future__ import annotations

from brickyard.analysis.databases.replay_pages import pages
from brickyard.analysis.databases.replay_runs import by_pace, calls_per_s, driver_rates, is_replay
from brickyard.analysis.figures.cells import DASH, OF_LENGTH
from brickyard.schema import Drivers
from brickyard.store import Record
from brickyard.units import format_count

# Barclay, Chong, Gray: A Quick Look at SATA Disk Performance, MSR-TR-2003-70; also in reference/msr_2003_replay_*.csv.
STUDY_THROUGHPUT = {
    "TS-WEB": (79, 1_892_377),
    "TWEB1": (94, 1_748_869),
    "TWEB3": (91, 1_696_663),
    "TWEB4": (90, 1_891_869),
}
STUDY_AVERAGE = (89, 1_799_739)
STUDY_TOGETHER = 360
STUDY_RESPONSE = {
    "tile": (39, 16_094, 7_245),
    "image": (63, 8_188, 5_417),
    "download": (160, 12_484, 4_481),
    "imageinfo": (42, 1_531, 252),
    "famous": (9, 1_781, 289),
    "all": (41, 16_094, 9_581),
}

STUDY_CALLS = {
    "tile": 1_606_854,
    "image": 132_900,
    "download": 1_513,
    "imageinfo": 199,
    "famous": 105,
}
"""Of table 8, by page."""
STUDY_ALL_CALLS = 1_741_540
"""As the table has it; its pages come to 31 more."""

THROUGHPUT_COLUMNS = ["server", "calls/s", "DB calls", "study: server", "calls/s", "DB calls"]
RESPONSE_COLUMNS = ["page", "calls", "mean", "max", "study: calls", "mean", "max", "mean of max"]
NOTE = (
    "The study's figures are for two bricks of 2003 (MSR-TR-2003-70); four drivers replayed the logs of one day once. "
    "The study does not say which maxima its mean of max averages, so this table has no such column for your runs."
)


def is_terraserver(record: Record) -> bool:
    """Whether the calls are those of the study's web site."""
    return is_replay(record) and "MSR-TR-2003-70" in record.info.plan.source


def study_tables(records: list[Record]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of tables 7 and 8 where the records are TerraServer's."""
    if not records or not all(is_terraserver(record) for record in records):
        return []
    paces = by_pace(records)
    found = []
    if "fire hose" in paces:
        title = f"Table 7. Calls per second, fire hose{_repeated(paces['fire hose'])}"
        found.append((title, THROUGHPUT_COLUMNS, throughput_rows(paces["fire hose"])))
    for number, (name, group) in enumerate(paces.items()):
        letter = "ab"[number] if len(paces) == 2 else ""
        title = f"Table 8{letter}. Response time in ms, {name}{_repeated(group)}"
        found.append((title, RESPONSE_COLUMNS, response_rows(group)))
    return found


def _repeated(group: list[Record]) -> str:
    return f", mean of {len(group)} repetitions" if len(group) > 1 else ""


def throughput_rows(fire_hose: list[Record]) -> list[list[str]]:
    """Table 7: calls a second of each driver, and how many calls it made in one run; then their average."""
    rates = driver_rates(fire_hose)
    calls = _driver_calls(fire_hose)
    theirs = list(STUDY_THROUGHPUT.items())
    rows = []
    for place, (driver, rate) in enumerate(rates.items()):
        name, (study_rate, study_calls) = theirs[place] if place < len(theirs) else ("", (None, None))
        rows.append(
            [
                f"driver {driver + 1}",
                _number(rate),
                _number(calls.get(driver)),
                name,
                _number(study_rate),
                _number(study_calls),
            ]
        )
    if rates:
        mean_rate = sum(rates.values()) / len(rates)
        mean_calls = sum(calls.values()) / len(rates)
        study_rate, study_calls = STUDY_AVERAGE
        rows.append(
            ["average", _number(mean_rate), _number(mean_calls), "average", _number(study_rate), _number(study_calls)]
        )
    total = calls_per_s(fire_hose)
    rows.append(["together", _number(total), _number(sum(calls.values())), "together", _number(STUDY_TOGETHER), ""])
    return rows


def _driver_calls(records: list[Record]) -> dict[int, float]:
    """On average over the repetitions: a table of one run is what the study printed."""
    found: dict[int, int] = {}
    for record in records:
        for event in record.of(Drivers):
            for share in event.drivers:
                found[share.driver] = found.get(share.driver, 0) + share.requests
    return {driver: calls / len(records) for driver, calls in found.items()}


def response_rows(records: list[Record]) -> list[list[str]]:
    """Table 8: calls of one run, mean and maximum in ms, beside those of the study."""
    rows = []
    for item in pages(records, by_brick=False):
        ours = (
            item.response.mean_ns if item.response else None,
            item.response.max_ns if item.response else None,
        )
        theirs = (
            STUDY_ALL_CALLS if item.page == "all" else STUDY_CALLS.get(item.page),
            *STUDY_RESPONSE.get(item.page, (None, None, None)),
        )
        told = [_ms(one, of_length=item.is_of_length) for one in ours]
        rows.append([item.page, format_count(round(item.calls / len(records))), *told, *map(_number, theirs)])
    return rows


def _ms(value_ns: float | None, *, of_length: bool = False) -> str:
    if value_ns is None:
        return DASH
    value = value_ns / 1e6
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return shown + (OF_LENGTH if of_length else "")


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"
