"""Duty: the answers of `advise buy`, `predict` and `fit`, in a sentence or two.

Refusal: no figure that the search did not give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.advise.buy import Found, Trial
from brickyard.analysis.answers import SENTENCES_MAX, Answer
from brickyard.analysis.samples import Sample
from brickyard.units import format_iops, three_digits

COMPUTED = "All figures are computed by models, not measured."


def advice(found: Found, *, fastest: bool) -> Answer:
    best = "fastest" if fastest else "cheapest"
    question = f"Which is the {best} storage that meets the requirements in every condition?"
    count = f"{len(found.trials)} simulated"
    belief = COMPUTED
    if found.left_out:
        belief += f" {found.left_out} combinations were not simulated."
    if not found.ranked:
        return Answer(question, (f"None of {count} combinations meets them; the nearest are below.",), belief)
    first = found.ranked[0]
    said = [f"{_named(first)} is the {best} of {count} combinations, {_room(first)}."]
    if len(found.ranked) > 1:
        second = found.ranked[1]
        said.append(f"Next: {_named(second)}, {_room(second)}.")
    return Answer(question, tuple(said), belief)


def _named(trial: Trial) -> str:
    usd = trial.candidate.usd
    return trial.candidate.name if usd is None else f"{trial.candidate.name} at {usd:,.0f} USD"


def _room(trial: Trial) -> str:
    """The least headroom, and in which condition."""
    name, state = min(trial.states.items(), key=lambda item: item[1].decided.head_room or 0.0)
    room = three_digits(state.decided.head_room or 0.0)
    return f"with a headroom of at least {room} × (least when {name.replace('_', ' ')})"


@dataclass(frozen=True)
class Sustained:
    """The rate within a limit in one condition, and the rate without one."""

    condition: str
    rates: Sample | None
    unlimited_per_s: float


def prediction(question: str, found: Sequence[Sustained], doubts: Sequence[str], *, is_modelled: bool) -> Answer:
    """A sentence for each condition; of many, the best and the worst."""
    shown = list(found)
    if len(shown) > SENTENCES_MAX:
        ranked = sorted(shown, key=lambda item: item.rates.centre if item.rates else 0.0, reverse=True)
        shown = [ranked[0], ranked[-1]]
    several = len(found) > 1 or found[0].condition != "normal"
    said = [_sustained(item, named=several) for item in shown]
    parts = [*([COMPUTED] if is_modelled else []), *(_sentence(text) for text in doubts)]
    return Answer(question, tuple(said), " ".join(parts) or "Storage changes with age and fill; measure it again then.")


def _sustained(item: Sustained, *, named: bool) -> str:
    where = f"{item.condition.replace('_', ' ').capitalize()}: " if named else ""
    unlimited = f"without a limit and in a closed loop it does {format_iops(item.unlimited_per_s)}/s"
    if item.rates is None:
        return f"{where}No rate keeps the limit; {unlimited}."
    rates = item.rates
    between = ""
    if rates.low is not None and rates.high is not None:
        between = f" (95 % interval {format_iops(rates.low)} to {format_iops(rates.high)})"
    return f"{where}{format_iops(rates.centre)} requests/s{between}; {unlimited}."


def fitted(target: str, sentence: str, spoken: str, doubts: Sequence[str]) -> Answer:
    """Which model was found, how well it predicts, and how it is used."""
    said = (_sentence(sentence), f"Use it as {spoken}.")
    belief = " ".join(_sentence(text) for text in doubts)
    known = "It predicts loads like those that were measured; others are extrapolated."
    return Answer(f"Which model describes {target}, and how well does it predict?", said, belief or known)


def _sentence(text: str) -> str:
    whole = f"{text[:1].upper()}{text[1:]}"
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."
