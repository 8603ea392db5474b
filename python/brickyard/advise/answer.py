"""Duty: the answers of `advise buy`, `predict` and `fit`, in a sentence or two.

Refusal: no figure that the search did not give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.advise.buy import Found, Trial, Wanted
from brickyard.analysis.answers import SENTENCES_MAX, Answer
from brickyard.analysis.samples import Sample
from brickyard.bricks import far_off
from brickyard.bricks.spread import Spread
from brickyard.units import format_iops, three_digits

COMPUTED = "All figures are computed by models, not measured."


def advice(found: Found, wanted: Wanted, *, fastest: bool) -> Answer:
    best = "fastest" if fastest else "cheapest"
    over = f" over {wanted.terms.years:g} years"
    question = f"Which is the {best} storage{'' if fastest else over} that meets the requirements in every condition?"
    count = f"{len(found.trials)} simulated"
    belief = COMPUTED
    if not found.ranked:
        none = f"None of {count} combinations meets them; the nearest are below."
        return Answer(question, (none,), f"{belief} {_untried(found)}".strip())
    first = found.ranked[0]
    # What differs by less than a dollar is of one price to a reader.
    price = _dollars(first)
    alike = [] if fastest or price is None else [trial for trial in found.ranked[1:] if _dollars(trial) == price]
    place = f"one of the {len(alike) + 1} {best}" if alike else f"the {best}"
    said = [f"{_named(first, over)} is {place} of {count} combinations, {_room(first)}."]
    said.append(_sureness(found))
    if len(found.ranked) > 1:
        second = found.ranked[1]
        said.append(f"{'At the same price' if alike else 'Next'}: {_named(second, over)}, {_room(second)}.")
    far = [_sentence(text) for text in far_off.words(first.candidate.drive_kind, wanted.plan)]
    parts = [_prices(found.ranked), belief, *far, _untried(found)]
    return Answer(question, tuple(filter(None, said)), " ".join(filter(None, parts)))


def _dollars(trial: Trial) -> str | None:
    """The price as it is shown."""
    usd = trial.candidate.cost_usd
    return None if usd is None else f"{usd:,.0f}"


def _untried(found: Found) -> str:
    return f"{found.left_out} combinations were not simulated." if found.left_out else ""


def _sureness(found: Found) -> str:
    """Whether the first is surely enough, and else which of those found is."""
    first = found.ranked[0]
    if first.spread is None:
        return (
            "How sure that is cannot be said: too few published tables were compared with models of such storage"
            " (docs/truth.md)."
        )
    if first.is_sure:
        return f"It does so at the worse end of the models' interval too ({first.spread.words})."
    sure = next((trial for trial in found.ranked if trial.is_sure), None)
    instead = f"; {sure.candidate.name} is surely enough" if sure else "; --sure asks for a brick that surely is"
    off = f"models of {first.spread.kind} may be off by {first.spread.words}"
    return f"It may fall short, as {off}{instead}."


def _prices(trials: Sequence[Trial]) -> str:
    """Of when the prices are, and whether they are anybody's."""
    parts = {part.name: part for trial in trials for part in trial.candidate.parts if part.priced and part.usd != 0}
    assumed = [name for name, part in parts.items() if part.is_assumed]
    years = {part.dated[:4] for part in parts.values() if part.dated[:4].isdigit()}
    undated = [name for name, part in parts.items() if not part.dated]
    said = [f"Prices are of {' and '.join(sorted(years))}"] if years else []
    if undated:
        said.append(f"no date is known of the price of {', '.join(undated)}")
    if assumed:
        said.append(f"those of {', '.join(assumed)} are assumed, nobody's offer")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _named(trial: Trial, over: str) -> str:
    usd = trial.candidate.cost_usd
    return trial.candidate.name if usd is None else f"{trial.candidate.name} at {usd:,.0f} USD{over}"


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
    is_open: bool = False
    """Whether the profile has rates of its own: the rate without a limit is then the one that it asks for."""
    spread: Spread | None = None


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
    how = "at the profile's own rate, an open loop," if item.is_open else "without a limit and in a closed loop"
    unlimited = f"{how} it does {format_iops(item.unlimited_per_s)}/s"
    if item.rates is None:
        return f"{where}No rate keeps the limit; {unlimited}."
    rates = item.rates
    off = ""
    if item.spread is not None:
        low, high = item.spread.ends(rates.centre)
        off = f", and {format_iops(low)} to {format_iops(high)} with what models of {item.spread.kind} are off by"
    between = ""
    if rates.low is not None and rates.high is not None:
        between = f" (95 % interval {format_iops(rates.low)} to {format_iops(rates.high)})"
    return f"{where}{format_iops(rates.centre)} requests/s{between}{off}; {unlimited}."


def fitted(target: str, sentence: str, spoken: str, doubts: Sequence[str]) -> Answer:
    """Which model was found, how well it predicts, and how it is used."""
    said = (_sentence(sentence), f"Use it as {spoken}.")
    belief = " ".join(_sentence(text) for text in doubts)
    known = "It predicts loads like those that were measured; others are extrapolated."
    return Answer(f"Which model describes {target}, and how well does it predict?", said, belief or known)


def _sentence(text: str) -> str:
    whole = f"{text[:1].upper()}{text[1:]}"
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."
