"""Duty: clients that pgbench gave up in the middle of a run, by what it writes on stderr, with when each line came.

Its log has no line of them. Refusal: why a whole run failed is said elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from brickyard.errors import one_line

GIVEN_UP = re.compile(r"client (\d+)\b.*\baborted\b")
LINE_MOST = 1 << 16  # of a line without an end, no more is kept


@dataclass(frozen=True)
class Abort:
    client: int
    at_us: int
    """Of the wall clock, as in pgbench's log."""
    text: str


class AbortReader:
    """Takes stderr as it comes. A client is given up once, whatever else is written of it."""

    def __init__(self) -> None:
        self._rest = b""
        self._clients: set[int] = set()
        self._new: list[Abort] = []

    def take(self, data: bytes, now_us: int) -> None:
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest[:LINE_MOST]
        for line in (whole + newline).decode("utf-8", "replace").splitlines():
            found = GIVEN_UP.search(line)
            if found is not None and int(found[1]) not in self._clients:
                self._clients.add(int(found[1]))
                self._new.append(Abort(int(found[1]), now_us, one_line(line)))

    def new(self) -> list[Abort]:
        """Those since the last call."""
        taken, self._new = self._new, []
        return taken
