"""Duty: a study of `census` → who is slow, and the question and its answer in words.

Refusal: who is slow is decided by `analysis.studies.census` alone, and what an older study has not kept is said, not
guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.studies.census import FEWEST_PEERS, Census, census, units_of
from brickyard.store import Record, StudyInfo

QUESTION = "Which of these units are slow beside their peers?"
PEERS = "model"
"""What units must have in common to be compared, unless the user says otherwise."""
SHOWN = 20
NOT_KEPT = (
    "An earlier version of Brickyard made this study and did not keep its --peers, nor which units could not be "
    f"measured: units are compared by {PEERS} here."
)


@dataclass(frozen=True)
class Censused:
    """A census, and its units that no run measured."""

    census: Census
    missing: list[str]
    limits: str = ""
    """What an older study did not keep."""


def is_census(study: StudyInfo) -> bool:
    return study.kept.census is not None


def censused(study: StudyInfo, records: Sequence[Record]) -> Censused:
    measured = [record for record in records if record.info.is_valid]
    units = [unit for record in measured for unit in units_of(record)]
    kept, known = study.kept, {target for record in measured for target in record.info.targets}
    if kept.peers is None:
        bad = [target for record in records if not record.info.is_valid for target in record.info.targets]
        return Censused(census(units, PEERS), bad, NOT_KEPT)
    return Censused(census(units, kept.peers), [unit for unit in kept.units if unit not in known])


def census_answer(found: Censused, records: Sequence[Record]) -> Answer:
    return Answer(QUESTION, tuple(words(found.census, found.missing)), belief(records, found.limits))


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def words(found: Census, missing: list[str]) -> list[str]:
    """The answer."""
    said = [f"Not measured: {', '.join(missing)}."] if missing else []
    if found.errors:
        counts = [f"{unit} ({errors:,})" for unit, errors in found.errors.items()]
        said.append(f"Requests failed on {_some(counts)}. Units with errors are not compared with other units.")
    if found.not_judged:
        kinds = [f"{kind or 'of no known kind'} ({count})" for kind, count in found.not_judged.items()]
        said.append(f"Not judged, since at least {FEWEST_PEERS} units of a kind are needed: {_some(kinds)}.")
    slow = found.slow
    if found.too_few:
        return [*said, "No unit was judged."]
    if not slow:
        said.append(f"None of {found.judged} units is slower than chance explains for identical units.")
    else:
        said.append(f"{len(slow)} of {found.judged} units are slow: {_some(slow)}.")
    for common in found.common:
        said.append(
            f"In common: {common.trait} {common.value}: {common.slow_with} of the {common.slow} slow units have it, "
            f"and {common.others_with} of the {common.others} others."
        )
    if slow and not found.common:
        said.append("No recorded trait distinguishes the slow units from the others.")
    return said
