"""Duty: how the health of each drive went: samples over months, kept beside the watch's memory. Refusal: nothing is
looked at or judged here.

A sample is kept where a count has changed, else every six hours, and of each drive the newest 1,500: about a year.
While the clock stands before a drive's last sample, none is added and none is dropped: which of both is wrong is not
known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.ready import ready
from brickyard.schema.target_sheet import HealthSheet

MARK = re.compile(rb'\A{"trends":')
EVERY_S = 6 * 3600.0
SAMPLES_KEPT = 1500


class HealthSample(msgspec.Struct, frozen=True):
    unix_s: float
    passed: bool | None = None
    temperature_celsius: int | None = None
    percentage_used: int | None = None
    reallocated_sectors: int | None = None
    media_errors: int | None = None
    available_spare_percent: int | None = None

    @property
    def counts(self) -> tuple[object, ...]:
        """What a change of is kept at once; a temperature changes all the time."""
        return (
            self.passed,
            self.percentage_used,
            self.reallocated_sectors,
            self.media_errors,
            self.available_spare_percent,
        )


class _Trends(msgspec.Struct):
    trends: str = "health"
    drives: dict[str, list[HealthSample]] = {}


class TrendBook:
    """The samples of this host's drives, by what stays the same when names change."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def of(self, identity: str) -> list[HealthSample]:
        return self.all().get(identity, [])

    def all(self) -> dict[str, list[HealthSample]]:
        try:
            return self._read().drives
        except (OSError, msgspec.DecodeError):
            return {}  # the watch says so; a page shows no trend

    def take(self, told: Mapping[str, HealthSheet], now_s: float) -> list[str]:
        """One look at the drives; what somebody should know of it. Raises OSError where it cannot be kept."""
        said = []
        try:
            book = self._read()
        except msgspec.DecodeError:
            aside = outputs.set_aside(self.place).name
            said.append(f"{self.place}: cannot be read; it is now {aside}, and the samples begin anew")
            book = _Trends()
        is_changed = False
        for identity, sheet in told.items():
            sample = HealthSample(
                now_s,
                sheet.passed,
                sheet.temperature_celsius,
                sheet.percentage_used,
                sheet.reallocated_sectors,
                sheet.media_errors,
                sheet.available_spare_percent,
            )
            kept = book.drives.get(identity, [])
            if kept and now_s < kept[-1].unix_s:
                said.append(
                    f"{identity}: its health has a sample of a later time; none is added before that by the clock"
                )
                continue
            if kept and kept[-1].counts == sample.counts and now_s - kept[-1].unix_s < EVERY_S:
                continue
            book.drives[identity] = [*kept, sample][-SAMPLES_KEPT:]
            is_changed = True
        if is_changed:
            outputs.folder(self.place.parent)
            outputs.write_whole(self.place, msgspec.json.encode(book), MARK)
        return said

    def _read(self) -> _Trends:
        try:
            return msgspec.json.decode(self.place.read_bytes(), type=_Trends)
        except FileNotFoundError:
            return _Trends()


ready(_Trends)
