"""Duty: a report that a verb writes after it measured, and what becomes of it where it is cut short.

Refusal: nothing is drawn here, and no measurement waits for a report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brickyard.cli.parts.output import print_line, stderr
from brickyard.errors import INTERRUPTED
from brickyard.store import Store, command_on
from brickyard.study.running.interrupt import ends_like_ctrl_c


@dataclass(frozen=True)
class Drawn:
    """The page, where there is one."""

    page: Path | None = None
    is_skipped: bool = False

    def code(self, code: int) -> int:
        """The exit code: who asked for the end of a report has ended the verb."""
        return code or (INTERRUPTED if self.is_skipped else code)


def report_command(store: Store, study: int | None) -> str:
    return command_on(store.place, "report" if study is None else f"report s{study}")


def drawn(draw: Callable[[], Path | None], again: str) -> Drawn:
    """The page that `draw` writes; a signal leaves it out, and the answer is told all the same. `again` is the command
    that writes it later."""
    with ends_like_ctrl_c():
        try:
            print_line(stderr(), "writing the report (Ctrl-C skips it and keeps the runs)")
            return Drawn(draw())
        except KeyboardInterrupt:
            print_line(stderr(), f"the report was skipped; {again} writes it")
            return Drawn(is_skipped=True)
