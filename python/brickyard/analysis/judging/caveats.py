"""The warnings that a record deserves: what a reader must know before believing its figures.

Duty: a pure function from what is known of a run to warnings, each one sentence with the figure in it and one sentence
of remedy. Refusal: it reads nothing but that, and says nothing where that does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from brickyard.analysis.judging import caveats_run, caveats_site
from brickyard.analysis.judging.judged import Judged
from brickyard.schema import RunWarning, warned

Rule = Callable[[Judged], Iterator[RunWarning]]

RULES: tuple[Rule, ...] = (
    caveats_run.debug_build,
    caveats_run.failures,
    caveats_run.nothing_measured,
    caveats_run.verification,
    caveats_run.nothing_read_back,
    caveats_run.hangs,
    caveats_run.stalled,
    caveats_run.generator,
    caveats_run.depth_reached,
    caveats_run.overload,
    caveats_run.backlog,
    caveats_run.fallbacks,
    caveats_run.never_failed,
    caveats_run.never_cut,
    caveats_site.replaced,
    caveats_site.write_cache,
    caveats_site.modelled_write_cache,
    caveats_site.arrays_busy,
    caveats_site.memory,
    caveats_site.modelled_page_cache,
    caveats_site.device_cache,
    caveats_site.modelled_read_cache,
    caveats_site.unwritten,
    caveats_site.trimmed_reads,
    caveats_site.shared_blocks,
    caveats_site.neighbours,
    caveats_site.processor,
    caveats_site.heat,
    caveats_site.store,
    caveats_site.virtual,
    caveats_site.late,
    caveats_site.faults,
)


OF_HOST: tuple[Rule, ...] = (
    caveats_run.fallbacks,
    caveats_site.replaced,
    caveats_site.write_cache,
    caveats_site.arrays_busy,
    caveats_site.memory,
    caveats_site.device_cache,
    caveats_site.unwritten,
    caveats_site.neighbours,
    caveats_site.processor,
    caveats_site.heat,
    caveats_site.records,
    caveats_site.virtual,
    caveats_site.late,
    caveats_site.faults,
)
"""What is asked of each host of a run on many."""
OF_RUN: tuple[Rule, ...] = tuple(rule for rule in RULES if rule not in (*OF_HOST, caveats_site.store))
"""What is asked of all of a run on many hosts; its store lies elsewhere."""


def warnings(run: Judged, rules: Sequence[Rule] | None = None) -> list[RunWarning]:
    """Warnings before notes, each text once; by all `RULES` where none are named."""
    found: dict[tuple[str, str], RunWarning] = {}
    for rule in RULES if rules is None else rules:
        try:
            for told in rule(run):
                found.setdefault((told.id, told.text), told)
        except Exception as error:
            # A run must come to its end on record, with the warnings that can be told.
            told = warned(
                "unreadable",
                "note",
                "The warning rule {rule} could not process this record ({error}).",
                "Show the record with the version of Brickyard that made it.",
                rule=rule.__name__,
                error=f"{type(error).__name__}: {error}",
            )
            found.setdefault((told.id, told.text), told)
    return sorted(found.values(), key=lambda told: told.severity != "warning")
