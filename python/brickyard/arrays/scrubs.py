"""Duty: when which array is to be scrubbed: a span, a window of the day, and a pace for each, kept in one file that the
page writes and the watch reads. Refusal: nothing is scrubbed here.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError
from brickyard.ready import ready

MARK = re.compile(rb'\A{"plans":')
SPAN_MIN_S = 3600.0
MINUTES = 24 * 60


class ScrubPlan(msgspec.Struct, frozen=True):
    """Of one array. Minutes are those of the local day; a window may go beyond midnight; equal ends mean any time."""

    every_s: float
    begin_minute: int = 0
    end_minute: int = 0
    rate_bytes_per_s: int | None = None
    by: str = ""

    @property
    def window_s(self) -> float:
        return ((self.end_minute - self.begin_minute) % MINUTES or MINUTES) * 60.0

    @property
    def window(self) -> str:
        if self.begin_minute == self.end_minute:
            return ""
        return f"{_clock(self.begin_minute)}-{_clock(self.end_minute)}"

    def is_open(self, now_s: float) -> bool:
        """Whether the window is open now, by this host's clock on the wall."""
        here = time.localtime(now_s)
        gone = (here.tm_hour * 60 + here.tm_min - self.begin_minute) % MINUTES
        return gone * 60.0 < self.window_s


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def window_minutes(text: str) -> tuple[int, int]:
    """`22:00-06:00` as minutes of the day; empty text is any time."""
    if not text.strip():
        return 0, 0
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)\s*[-–]\s*([01]?\d|2[0-3]):([0-5]\d)", text.strip())
    if match is None:
        raise BadInputError(f"window {text[:40]}: write a time of day as 22:00-06:00, or nothing for any time")
    begin, end = int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])
    if begin == end:
        raise BadInputError(f"window {text[:40]}: begins where it ends; leave it empty for any time")
    return begin, end


class _Plans(msgspec.Struct):
    plans: str = "scrubs"
    arrays: dict[str, ScrubPlan] = {}


class ScrubBook:
    """The plans of this host, by the arrays' keys."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def all(self) -> dict[str, ScrubPlan]:
        try:
            return msgspec.json.decode(self.place.read_bytes(), type=_Plans).arrays
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise BrickyardError(f"{self.place}: the scrub schedule cannot be read ({error}); move it away") from error

    def set(self, key: str, plan: ScrubPlan | None) -> None:
        """A plan, or none any more. Two at once: the last one counts, and the audit log has both."""
        found = {**self.all()}
        found.pop(key, None)
        if plan is not None:
            if plan.every_s < SPAN_MIN_S:
                raise BadInputError("a scrub by schedule: at most once an hour")
            found[key] = plan
        try:
            outputs.folder(self.place.parent)
            outputs.write_whole(self.place, msgspec.json.encode(_Plans(arrays=found)), MARK)
        except OSError as error:
            raise BrickyardError(f"{self.place}: the scrub schedule cannot be kept: {error.strerror}") from error


ready(_Plans)
