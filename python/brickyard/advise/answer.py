"""Duty: the answers of `advise buy`, `predict` and `fit`, in a sentence or two.

Refusal: no figure that the search did not give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from brickyard.advise.buy import RISKY, Found, Trial, Wanted
from brickyard.analysis.judging.answers import SENTENCES_MAX, Answer
from brickyard.analysis.studies.sustained import Sustained, sustained_words
from brickyard.bricks import far_off
from brickyard.bricks.spread import KINDS, limited_words
from brickyard.units import format_iops, format_seconds, three_digits

COMPUTED = "All figures are computed by models, not measured."
SMALLEST = (
    "No capacity was required: volumes have the smallest size that meets the requirements, and cost more with more; "
    "--capacity sets one."
)


def advice(found: Found, wanted: Wanted, *, fastest: bool) -> Answer:
    best = "fastest" if fastest else "cheapest"
    over = f" over {wanted.terms.years:g} years"
    question = f"Which is the {best} storage{'' if fastest else over} that meets the requirements in every condition?"
    count = f"{len(found.trials)} simulated"
    belief = COMPUTED
    if not found.ranked:
        none = f"None of {count} combinations meets the requirements; the nearest are below."
        return Answer(question, (none,), f"{belief} {untried(found, fastest=fastest)}".strip())
    first = found.ranked[0]
    kept = ""
    if first.is_risky:
        kept = f", but it {_loses(first, wanted)}"
    elif any(trial.met and trial.is_risky for trial in found.trials):
        kept = f" that lose data within {_years(wanted)} with a chance of at most {RISKY * 100:.0f} %"
    last = f"{kept}. {_capital(_room(first))}" if first.is_risky else f"{kept}, {_with_room(first)}"
    price = first.candidate.dollars
    same = [trial for trial in found.ranked[1:] if trial.candidate.dollars == price < math.inf and not fastest]
    alike = [trial for trial in same if trial.is_risky == first.is_risky]
    place = f"one of the {len(alike) + 1} {best}" if alike else f"the {best}"
    said = [f"{_named(first, over)} is {place} of {count} combinations{last}."]
    said.append(_sureness(found))
    riskier = min(
        (trial for trial in found.trials if trial.met and trial.is_risky and not first.is_risky),
        key=lambda trial: (trial.candidate.cost_usd or 0.0, trial.candidate.name),
        default=None,
    )
    if riskier is not None and (riskier.candidate.cost_usd or 0.0) < (first.candidate.cost_usd or 0.0):
        said.append(f"{_named(riskier, over)} costs less, but it {_loses(riskier, wanted)}.")
    elif len(found.ranked) > 1:
        second = found.ranked[1]
        risk = f", but it {_loses(second, wanted)}" if second.is_risky else ""
        said.append(
            f"{'At the same price' if second in alike else 'Next'}: {_named(second, over)}, {_with_room(second)}{risk}."
        )
    if any(trial.candidate.setting for trial in found.ranked) and not wanted.capacity_bytes:
        said.append(SMALLEST)
    far = [_sentence(text) for text in far_off.words([] if first.of_fit else [first.kind])]
    parts = [_prices(found.ranked), belief, *far, untried(found, fastest=fastest)]
    return Answer(question, tuple(filter(None, said)), " ".join(filter(None, parts)))


def _loses(trial: Trial, wanted: Wanted) -> str:
    return f"loses data within {_years(wanted)} with a chance of {chance_words(trial.loss_chance or 0.0)}"


def chance_words(share: float) -> str:
    return "< 0.01 %" if share < 0.0001 else f"{three_digits(share * 100)} %"


def _years(wanted: Wanted) -> str:
    years = wanted.terms.years
    return f"{years:g} year{'' if years == 1 else 's'}"


def untried(found: Found, *, fastest: bool) -> str:
    """How many combinations were not simulated, and why not."""
    if not found.left_out:
        return ""
    count = f"{found.left_out:,} combinations were not simulated"
    if not found.is_complete:
        return f"{count}, since the limit on simulations was reached: there may be a better one (raise --most)."
    if fastest:
        return f"{count}: they are smaller than simulated ones of their families, and are assumed to be slower."
    if found.ranked:
        return f"{count}: they cost more, or a larger one of their family does not meet the requirements."
    return f"{count}: a larger one of the same family does not meet the requirements."


def _sureness(found: Found) -> str:
    """Whether the first is surely enough, and else which of those found is."""
    first = found.ranked[0]
    falling = [_while(name) for name, state in first.states.items() if not state.holds]
    if falling:
        seconds = max(state.simulated_s for state in first.states.values() if not state.holds)
        return (
            f"It is not known how sure that is: its rate {' and '.join(falling)} was still falling after"
            f" {format_seconds(seconds)} of virtual time."
        )
    if first.of_fit:
        return f"It is not known how sure that is: {first.of_fit}."
    if first.spread is None:
        return (
            "It is not known how sure that is: too few published tables were compared with models of"
            f" {KINDS[first.kind]} (docs/truth.md)."
        )
    if first.is_sure:
        return f"It meets the requirements even if the models are wrong by {first.spread.words}."
    sure = next((trial for trial in found.ranked if trial.is_sure), None)
    find = "; use --sure to find a brick that is enough even then"
    instead = f"; {sure.candidate.name} is enough even then" if sure else find
    off = f"models of {first.spread.kind} may be off by {first.spread.words}"
    return f"It may fall short, as {off}{instead}."


def _prices(trials: Sequence[Trial]) -> str:
    """Of when the prices are, and whether they are anybody's."""
    parts = {part.name: part for trial in trials for part in trial.candidate.parts if part.priced and part.usd != 0}
    assumed = list(dict.fromkeys(name for trial in trials for name in trial.candidate.assumed_prices))
    years = {part.dated[:4] for part in parts.values() if part.dated[:4].isdigit()}
    undated = [name for name, part in parts.items() if not part.dated]
    said = [f"Prices are of {' and '.join(sorted(years))}"] if years else []
    if undated:
        said.append(f"the price of {', '.join(undated)} has no date")
    if assumed:
        said.append(f"the prices of {', '.join(assumed)} are assumptions, not offers")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _named(trial: Trial, over: str) -> str:
    """With its price, and what of it is assumed or unknown."""
    usd = trial.candidate.cost_usd
    doubts = [
        *(["price unknown"] if usd is None else []),
        *(["price assumed"] if trial.candidate.assumed_prices else []),
        *(["data loss unknown"] if trial.loss_chance is None else []),
    ]
    at = "" if usd is None else f" at {usd:,.0f} USD{over}"
    return f"{trial.candidate.name}{at}" + (f" ({', '.join(doubts)})" if doubts else "")


AMPLE = 10
"""With a headroom above this, requirements do not decide which combination is the best."""


def _room(trial: Trial) -> str:
    """The least headroom, and in which condition."""
    name, state = min(trial.states.items(), key=lambda item: item[1].decided.head_room or 0.0)
    room = state.decided.head_room or 0.0
    if room > AMPLE:
        return f"its headroom is more than {AMPLE} × in every condition"
    where = f", {_while(name)}" if len(trial.states) > 1 else ""
    return f"its least headroom is {three_digits(room)} ×{where}"


def _while(condition: str) -> str:
    words = condition.replace("_", " ")
    if words == "normal":
        return "in normal condition"
    return f"with the {words}" if words.startswith("write cache") else f"while {words}"


def _with_room(trial: Trial) -> str:
    return (
        _room(trial)
        .replace("its least headroom is", "with a headroom of at least")
        .replace("its headroom is", "with a headroom of")
    )


def prediction(question: str, found: Sequence[Sustained], doubts: Sequence[str], *, is_modelled: bool) -> Answer:
    """A sentence for each condition; of many, the best and the worst."""
    shown = list(found)
    if len(shown) > SENTENCES_MAX:
        ranked = sorted(shown, key=lambda item: item.rates.centre if item.rates else 0.0, reverse=True)
        shown = [ranked[0], ranked[-1]]
    several = len(found) > 1 or found[0].condition != "normal"
    said = [_sustained(item, named=several) for item in shown]
    limited = limited_words(item.kind for item in found if item.kind)
    parts = [*([COMPUTED] if is_modelled else []), *limited, *(_sentence(text) for text in doubts)]
    return Answer(question, tuple(said), " ".join(parts) or "Storage changes with age and fill; measure it again then.")


def _sustained(item: Sustained, *, named: bool) -> str:
    where = f"{item.condition.replace('_', ' ').capitalize()}: " if named else ""
    how = "at the profile's own rate, an open loop," if item.is_open else "without a limit and in a closed loop"
    unlimited = f"{how} it does {format_iops(item.unlimited_per_s)}/s"
    if item.rates is None:
        return f"{where}No rate keeps the limit; {unlimited}."
    said = f"{where}{sustained_words(item, item.rates)}"
    said = f"{said[0].upper()}{said[1:]}"
    return f"{said}." if item.is_overlapping else f"{said}; {unlimited}."


def fitted(target: str, sentence: str, spoken: str, doubts: Sequence[str], first: Sequence[str]) -> Answer:
    """Which model was found, how well it predicts, and how it is used; before that, `first`: the condition that it is
    of, if not the normal one, and, if what was measured leaves it open, what kind of storage it could be."""
    alike = first[-1]
    use = f"Use it as {spoken}" + (", for the depths that were measured." if alike else ".")
    said = (*map(_sentence, filter(None, first)), _sentence(sentence), use)
    belief = " ".join(_sentence(text) for text in doubts)
    known = "It predicts loads like those that were measured; others are extrapolated."
    return Answer(f"Which model describes {target}, and how well does it predict?", said, belief or known)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _sentence(text: str) -> str:
    whole = _capital(text)
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."
