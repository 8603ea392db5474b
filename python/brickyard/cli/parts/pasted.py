"""Duty: the user's own command line as a remedy has it: whole, with their targets, profile and options, to be pasted.

Refusal: no error is found here and no message is read; an error without an edit stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from brickyard.errors import BrickyardError, Edit, edit_of, one_line

NO_NAMES = ("--save", "-o", "--output", "--save-trace", "--profile", "--store", "--scratch")
"""Options whose value may end as a workload does."""
WORKLOADS = (".toml", ".byt")
UNSAID = {"run": ("--rw", "randread", "--bs", "4k")}
"""What is put before a target where no workload is named: fio's words, or else a profile."""
A_PROFILE = ("random-4k-qd32",)

Words = list[str]


def with_command(given: Sequence[str], error: BrickyardError) -> str:
    """An error's message with the command that its remedy comes to; none where it would show a password."""
    said, edit = one_line(error), edit_of(error)
    if edit is None or any("://" in word or "password" in word for word in given):
        return said
    words = _changed(list(given), edit) if isinstance(edit, Edit) else _workload_first(list(given), edit.target)
    if words in ([], given):
        return said
    said = said.removesuffix(".")
    return f"{said}{'' if said.endswith('?') else ':'} `{shlex.join(['brickyard', *words])}`"


def _workload_first(given: Words, target: str) -> Words:
    """Swapped with a workload that stands behind it, or behind one that is common."""
    if target not in given:
        return []
    at = given.index(target)
    for place in range(at + 1, len(given)):
        if _is_workload(given[place]) and given[place - 1] not in NO_NAMES:
            return [*given[:at], given[place], *given[at:place], *given[place + 1 :]]
    return [*given[:at], *UNSAID.get(given[0], A_PROFILE), *given[at:]]


def _is_workload(word: str) -> bool:
    from brickyard import profiles

    return word.endswith(WORKLOADS) or word in profiles.names() or word == "pgbench"


def _changed(given: Words, edit: Edit) -> Words:
    """Whole words first; else a part of one, such as a model behind its sign or a setting's key. Empty where it is not
    in one place."""
    if not edit.given:
        return [*given, *edit.meant]
    count, old = len(edit.given), "=".join(edit.given)
    places = [(at, count) for at in range(len(given)) if tuple(given[at : at + count]) == edit.given]
    places = places or [(at, 1) for at, word in enumerate(given) if word == old]
    meant = edit.meant
    if not places and len(meant) == 1:
        part = re.compile(rf"(?<![\w-]){re.escape(old)}(?![\w-])")
        places = [(at, 1) for at, word in enumerate(given) if part.search(word)]
        meant = tuple(part.sub(lambda _: edit.meant[0], given[at]) for at, _ in places)
    if len(places) != 1:
        return []
    at, count = places[0]
    # Where an option takes the place of a target, so it does of the option that named the target.
    is_option = bool(meant) and meant[0].startswith("-") and not edit.given[0].startswith("-")
    before = at - 1 if is_option and given[max(0, at - 1)] == "--filename" else at
    return [*given[:before], *meant, *given[at + count :]]
