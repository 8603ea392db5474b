"""Duty: the answer of a search for storage, in a sentence or two. Refusal: no figure that the search did not give."""

from __future__ import annotations

from brickyard.advise.buy import Found, Trial
from brickyard.analysis.answers import Answer
from brickyard.units import three_digits


def advice(found: Found, *, fastest: bool) -> Answer:
    best = "fastest" if fastest else "cheapest"
    question = f"Which is the {best} storage that meets the requirements in every condition?"
    count = f"{len(found.trials)} simulated"
    belief = "All figures are computed by models, not measured."
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
