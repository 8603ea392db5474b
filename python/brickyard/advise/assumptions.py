"""Duty: what an answer of `advise buy` rests on, a line each: prices with their dates, costs, failures, intervals, and
what is in no figure.

Refusal: nothing is computed but what the search found.
"""

from __future__ import annotations

from brickyard.advise.buy import Found, Trial, Wanted
from brickyard.advise.lasting import LENGTHS_S
from brickyard.advise.parts import Part
from brickyard.bricks import far_off
from brickyard.bricks.spread import KINDS
from brickyard.units import format_seconds

SHOWN = 4  # of bricks that do not meet the rulers, the nearest


def assumptions(found: Found, wanted: Wanted) -> list[str]:
    trials = found.ranked or found.trials[-SHOWN:]
    made = [trial.candidate for trial in trials]
    parts = _parts(trials)
    lines = [_price(part) for part in parts]
    terms = wanted.terms
    lines.append(
        f"costs are sums over {terms.years:g} years: purchase, monthly charges, and power under load all the time at"
        f" {terms.usd_a_kwh:g} USD a kWh"
    )
    if silent := sorted({part.name for part in parts if part.watts is None and part.volume is None and part.usd != 0}):
        lines.append(f"no power is known, and none counted, of {', '.join(silent)}")
    lines.append(
        "not in the costs: servers, ports, racks, people, replaced drives, discounts, and traffic and snapshots of"
        " clouds"
    )
    if any(one.setting for one in made):
        lines += _of_volumes(trials)
    lines += sorted({trial.failures.source for trial in trials if trial.failures})
    lines.append(_lengths(trials, wanted))
    lines += _of_rebuilds(trials)
    if any(trial.data_loss_years is not None for trial in trials):
        lines.append(
            "data loss: mean time, failures independent of each other, sectors unreadable as the data sheet states; it"
            " ranks and promises nothing"
        )
    lines += sorted({_interval(trial) for trial in trials})
    lines += sorted(far_off.words({trial.kind for trial in trials if not trial.of_fit}))
    if any(trial.candidate.software for trial in trials):
        lines.append(
            "software RAID costs nothing here; the processor time that it takes is in the rates, not in the cost"
        )
    lines.append(
        "within a family (same drive, level and controller) a larger brick is taken to be no slower; two smaller counts"
        " below each answer were tried all the same"
    )
    return lines


def _lengths(trials: list[Trial], wanted: Wanted) -> str:
    """How long each condition was simulated, and why so long."""
    seconds: dict[str, list[float]] = {}
    for trial in trials:
        for condition, state in trial.states.items():
            seconds.setdefault(condition.replace("_", " "), []).append(state.simulated_s)
    said = "; ".join(f"{name} {_span(found)}" for name, found in seconds.items())
    if wanted.is_timed:
        why = "the time that was given"
    else:
        why = (
            "until the rate no longer fell, for at most"
            f" {format_seconds(LENGTHS_S[-1])} besides the filling of caches; rates are those of the second half"
        )
    falling = sorted({trial.candidate.name for trial in trials if not trial.holds})
    still = f"; still falling at the end: {'; '.join(falling)}" if falling else ""
    return f"simulated, virtual time: {said}: {why}{still}"


def _span(seconds: list[float]) -> str:
    least, most = format_seconds(min(seconds)), format_seconds(max(seconds))
    return least if least == most else f"{least} to {most}"


def _of_rebuilds(trials: list[Trial]) -> list[str]:
    """Where the times of rebuilds are from."""
    lines = []
    if any(trial.rebuild_is_simulated for trial in trials):
        lines.append(
            "rebuild: the pace of the simulated rebuild beside this workload, at the beginning of the drives, for the"
            " whole member"
        )
    assumed = [trial for trial in trials if trial.rebuild_hours is not None and not trial.rebuild_is_simulated]
    if assumed:
        lines.append(
            "rebuild with ≈: no rebuild was simulated; assumed is the pace beside users who always have requests for"
            f" each drive ({'; '.join(trial.candidate.name for trial in assumed)})"
        )
    return lines


def _parts(trials: list[Trial]) -> list[Part]:
    return list({part.name: part for trial in trials for part in trial.candidate.parts}.values())


def _price(part: Part) -> str:
    if part.volume is not None:
        return f"price of {part.name}, {part.dated or 'no date given'}: {part.source or 'no source given'}"
    if part.usd is None:
        return f"price of {part.name}: none"
    monthly = f" and {part.usd_a_month:,g} a month" if part.usd_a_month else ""
    said = f"{part.usd:,.0f} USD{monthly}, {part.dated or 'no date given'}, {part.source or 'no source given'}"
    return f"price of {part.name}: {said}"


def _of_volumes(trials: list[Trial]) -> list[str]:
    volumes = {t.candidate.drive.name: t.candidate.drive.volume for t in trials if t.candidate.drive.volume}
    lines = [f"limits of {name}: {volume.limits_from}" for name, volume in volumes.items() if volume.limits_from]
    lines.append(
        "volumes are held to what is provisioned and never below it; the limits of the instance that they are"
        " attached to"
        " are not modelled, and latency is that of the provider's description, not measured"
    )
    return lines


def _interval(trial: Trial) -> str:
    spread = trial.spread
    if trial.of_fit:
        return f"{trial.candidate.name}: {trial.of_fit}"
    if spread is None:
        kind = KINDS[trial.kind]
        return f"no interval for {kind}: too few published tables were compared with models of them (docs/truth.md)"
    return f"models of {spread.kind}: nine of ten published figures {spread.claim}. {spread.basis} (docs/truth.md)"
