"""Duty: that models computed figures, how far models of such storage are off by what was published, and which verdicts
that leaves open.

Refusal: no interval for a kind of storage of which too little is published; no figure is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import bricks
from brickyard.analysis.judging import cached
from brickyard.analysis.judging.groups import in_runs
from brickyard.analysis.judging.verdict import Verdict
from brickyard.bricks import far_off, fitted
from brickyard.bricks.spread import basis_words, kinds_of, limited_words, spread_of
from brickyard.schema.plan import IoMode, Plan
from brickyard.store import Record

ALL_MODELLED = "All figures were computed by models, not measured."


def modelled_words(records: Sequence[Record]) -> list[str]:
    """That models computed figures, and how far models of such storage are off."""
    modelled = sum(record.info.is_modelled for record in records)
    if not modelled:
        emulated, faulty = (
            sum(any(warning.id == told for warning in record.info.warnings) for record in records)
            for told in (cached.EMULATED, cached.EMULATED_FAULT)
        )
        said = f"The disk{in_runs(emulated, records)} was emulated by Brickyard: no drive was measured."
        faults = f"It had faults{in_runs(faulty, records)}, which a warning lists."
        return [said, *([faults] if faulty else [])] if emulated else []
    if modelled == len(records):
        # How far a rate of a controller's cache is off is not asked; in buffered runs, a cache is what is modelled.
        lasting = [record for record in records if cached.mark(record) is None or _is_buffered(record)]
        return [ALL_MODELLED, *(_held_against(lasting) if lasting else [])]
    return [f"{modelled} of {len(records)} runs were computed by models, not measured."]


def _is_buffered(record: Record) -> bool:
    plan = record.info.plan
    return isinstance(plan, Plan) and plan.io is IoMode.BUFFERED


@dataclass(frozen=True)
class _Basis:
    """What the figures of models rest on."""

    kinds: frozenset[str]
    """Of storage, as `bricks.spread` has them."""
    own: frozenset[str]
    """Sentences of models that were fitted."""
    far: frozenset[str]
    """Sentences of products whose models are far off."""


def _basis(records: Sequence[Record]) -> _Basis:
    known: dict[str, set[str]] = {}
    own: set[str] = set()
    far: set[str] = set()
    for record in records:
        plan = record.info.plan
        known_plan = plan if isinstance(plan, Plan) else None
        asked = f"{record.info.targets} {record.info.asked.changes} {record.info.load_hash}"
        if asked not in known:
            known[asked] = set()
            for made in bricks.made_of(record.info.targets, record.info.asked):
                of_fit = fitted.words(made.texts, known_plan)
                own |= {of_fit} if of_fit else set()
                known[asked] |= set() if of_fit else set(kinds_of(made.brick, known_plan))
        far |= set(far_off.words(known[asked])) if known_plan else set()
    return _Basis(frozenset().union(*known.values()), frozenset(own), frozenset(far))


def _held_against(records: Sequence[Record]) -> list[str]:
    """How far figures of such models are off, by the kinds of storage and of loads that these are; of a fitted model,
    what its fit found."""
    basis = _basis(records)
    is_search = any(record.info.marks.searched_per_s is not None for record in records)
    limited = limited_words(basis.kinds) if is_search else []
    said = [*map(basis_words, sorted(basis.kinds)), *sorted(basis.own), *sorted(basis.far)]
    return [f"{text[:1].upper()}{text[1:]}." for text in said] + limited


def near_words(record: Record, found: Verdict) -> str:
    """That storage of which models are off as far as published figures were may be on the other side of the limit that
    decided; empty where its headroom is larger, or was measured."""
    decided = found.decided
    is_figure = not decided.requirement.is_share and not decided.requirement.is_count
    # With a note, something else than the figure's distance from its limit decided.
    is_close = is_figure and not decided.note and found.word in ("pass", "fail")
    if not is_close or not decided.head_room or not record.info.is_modelled:
        return ""
    spreads = [spread for kind in _basis([record]).kinds if (spread := spread_of(kind)) is not None]
    widest = max(spreads, key=lambda spread: spread.factor, default=None)
    if widest is None or not 1 / widest.factor < decided.head_room < widest.factor:
        return ""
    other = "fail" if found.passed else "meet"
    return f"models of {widest.kind} may be off by {widest.words}, so a real one may {other} it"
