"""Duty: gives the figures of many runs out of their summaries, and computes those that are missing, damaged or of an
older formula out of their records.

Refusal: no figure is computed here, and none is taken from a summary whose check sum disagrees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from brickyard.analysis.judging.run_figures import FORMULA, RunFigures, run_figures
from brickyard.store import IN_MEMORY, Record, Store
from brickyard.store.damage import DamagedRunError

KEPT_AT_ONCE = 100  # runs in one transaction, so that others can write between two


def keep(store: Store, record: Record) -> None:
    """At the end of a run; what a store in memory holds is read once, if at all."""
    if str(store.place) != IN_MEMORY:
        store.keep_summaries(FORMULA, {record.info.id: _text(run_figures(record))})


def figures_of_runs(
    store: Store, runs: Sequence[int], damaged: Callable[[DamagedRunError], None], note: Callable[[int], None]
) -> dict[int, RunFigures]:
    """By run, in the order given. `note` hears how many have to be computed; `damaged` of each that cannot be read."""
    kept = store.summaries(FORMULA, runs)
    found = {run: figures for run, text in kept.items() if (figures := _read(text)) is not None}
    missing = [run for run in runs if run not in found]
    if missing:
        note(len(missing))
    for first in range(0, len(missing), KEPT_AT_ONCE):
        made: dict[int, RunFigures] = {}
        for run in missing[first : first + KEPT_AT_ONCE]:
            try:
                made[run] = run_figures(store.record(run))
            except DamagedRunError as error:
                damaged(error)
        store.keep_summaries(FORMULA, {run: _text(one) for run, one in made.items()})
        found |= made
    return {run: found[run] for run in runs if run in found}


def kept_figures(store: Store, runs: Sequence[int]) -> dict[int, RunFigures]:
    """Those that are kept already; none is computed."""
    kept = store.summaries(FORMULA, runs)
    return {run: figures for run, text in kept.items() if (figures := _read(text)) is not None}


def _text(figures: RunFigures) -> str:
    return msgspec.json.encode(figures).decode()


_DECODER = msgspec.json.Decoder(RunFigures)


def _read(text: str) -> RunFigures | None:
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        return None
