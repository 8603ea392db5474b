"""Duty: what a load is called besides its profile: what was changed of it, or the title of one that options made.

Refusal: no title is made here.
"""

from __future__ import annotations

import msgspec

from brickyard.ready import ready

CHANGED = ", but "
"""Between a profile's own title and the changes it was run with."""
BY_OPTIONS = "fio's options on the command line"
"""The source of a profile that has no other name than its title, whatever file it was saved to."""


def changes_in(title: str) -> str:
    """The changes that a run's title names: `depth=32, request=64KiB`."""
    return title.partition(CHANGED)[2]


class PlanTitles(msgspec.Struct, frozen=True):
    """Of a plan as it is kept, which nobody need read for it."""

    title: str | None = None
    source: str | None = None
    kind: str | None = None
    """Of a plan that no profile made."""

    @property
    def called(self) -> str:
        """What tells its load from others of its profile; empty where nothing was changed."""
        title = self.title or ""
        return title if self.source == BY_OPTIONS else changes_in(title)

    def load_of(self, profile: str, called: str) -> str:
        """The load with the name of its profile: `mix, but depth=32`; of one that options made, `mix (randrw, 4k)`."""
        if self.source == BY_OPTIONS:
            return f"{profile} ({self.title})" if self.title else profile
        return f"{profile}{CHANGED}{called}" if called else profile


ready(PlanTitles)
