"""Duty: the user's own command line as a remedy has it: whole, with their targets, profile and options, to be pasted.

Refusal: no error is found here; where nothing is known to be written instead, a message stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

NO_NAMES = ("--save", "-o", "--output", "--save-trace", "--profile", "--store", "--scratch")
"""Options whose value may end as a workload does."""
WORKLOADS = (".toml", ".byt")
UNSAID = {"run": ("--rw", "randread", "--bs", "4k")}
"""What is put before a target where no workload is named: fio's words, or else a profile."""
A_PROFILE = ("random-4k-qd32",)

HELP = re.compile(r"( Available commands: .*)? See brickyard [\w -]*--help\.$")

Words = list[str]


def with_command(given: Sequence[str], said: str) -> str:
    """A message with the command that follows its remedy; none where it would show a password."""
    if any("://" in word or "password" in word for word in given):
        return said
    for pattern, change in CHANGES:
        if found := pattern.search(said):
            words = change(list(given), found)
            if words and words != list(given):
                said = HELP.sub("", said).removesuffix(".")
                return f"{said}{'' if said.endswith('?') else ':'} `{shlex.join(['brickyard', *words])}`"
    return said


def _workload_first(given: Words, found: re.Match[str]) -> Words:
    """Swapped with a workload that stands behind it, or behind one that is common."""
    target = found[1]
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


def _meant(given: Words, found: re.Match[str]) -> Words:
    """The name that was misspelt is replaced, also behind the sign of a model, a setting's key or a comma."""
    wrong, right = found[1], found[2]
    pattern = re.compile(rf"(?<![\w-]){re.escape(wrong)}(?![\w-])")
    places = [place for place, word in enumerate(given) if pattern.search(word)]
    if len(places) != 1:
        return []
    changed = pattern.sub(lambda _: right, given[places[0]])
    return [*given[: places[0]], changed, *given[places[0] + 1 :]]


def _allowed(given: Words, found: re.Match[str]) -> Words:
    consent = ["--i-know-this-destroys-data"] if found[2] else []
    return [*given, *([] if "--overwrite" in given else ["--overwrite", found[1]]), *consent]


def _added(*more: str) -> Callable[[Words, re.Match[str]], Words]:
    return lambda given, _: [*given, *more]


def _size(given: Words, found: re.Match[str]) -> Words:
    return [found[2] if word in (found[1], f"--size={found[1]}") else word for word in given]


def _file_in(given: Words, found: re.Match[str]) -> Words:
    scratch = [word for word in given if word != found[1]]
    return [*scratch, "--scratch", found[1]] if len(scratch) + 1 == len(given) else []


def _unit(given: Words, found: re.Match[str]) -> Words:
    whole = found[1].removesuffix(found[2]) + found[3]
    return [word.replace(found[1], whole) for word in given]


def _limited(given: Words, found: re.Match[str]) -> Words:
    return [f"p99:{word}" if word == found[1] else word for word in given]


def _set(given: Words, found: re.Match[str]) -> Words:
    """An option of fio beside a profile: a key of the profile instead."""
    option, change = found[1], found[2]
    for at, word in enumerate(given):
        if word.partition("=")[0] == option:
            rest = given[at + (1 if "=" in word else 2) :]
            return [*given[:at], "--set", change, *rest]
    return []


def _without(given: Words, found: re.Match[str]) -> Words:
    return [word for word in given if word != found[1]]


def _with_latest(given: Words, _: re.Match[str]) -> Words:
    return [*given, "latest"] if len(given) > 1 and given[-1] != "latest" else []


def _below_advise(given: Words, _: re.Match[str]) -> Words:
    return ["advise", *given]


CHANGES: tuple[tuple[re.Pattern[str], Callable[[Words, re.Match[str]], Words]], ...] = (
    (re.compile(r"^(.+): is a target, and the workload comes first"), _workload_first),
    (re.compile(r"^sim:([\w-]+): no such brick; did you mean `([\w-]+)`\?"), _meant),
    (re.compile(r"--set ([\w.]+)[=:].*did you mean `?([\w.]+)`?\?"), _meant),
    (re.compile(r"^([^\s:]+): (?!line \d).*did you mean `?([^\s`?]+)`?\?"), _meant),
    (re.compile(r'[Uu]nknown option: "?(--[\w-]+).*Did you mean (--[\w-]+)\?'), _meant),
    (re.compile(r'[Uu]nknown command "([\w-]+)".*Did you mean "([\w-]+)"\?'), _meant),
    (re.compile(r"written only with --overwrite (\S+)( and --i-know-this-destroys-data)?"), _allowed),
    (re.compile(r"no such file or device; --size 2GiB makes"), _added("--size", "2GiB")),
    (re.compile(r"^--size (\d+): .* write (\d+MiB)"), _size),
    (re.compile(r"^(.+): is a directory; .*--scratch"), _file_in),
    (re.compile(r"^--limit (\w[\w.]*:(\d[\d.]*)): .* write (\S+),"), _unit),
    (re.compile(r"^--limit (\d[\w.]*): write FIGURE:TIME"), _limited),
    (re.compile(r"^(--[\w-]+) is for a workload .* write --set (\S+)\.$"), _set),
    (re.compile(r"^Unknown option: (--[\w-]+)\. To change a key of the profile, write --set (\S+)\.$"), _set),
    (re.compile(r"^Unknown option: (--json)\. See"), _without),
    (re.compile(r"^name BEFORE and AFTER"), _with_latest),
    (re.compile(r"^--rw=(\w+) has no .* did you mean (\w+)\?"), _meant),
    (re.compile(r"^--condition (\S+): .* did you mean (\S+)\?"), _meant),
    (re.compile(r'^Unknown command "\w+"\. It is a command of advise'), _below_advise),
    (re.compile(r"nothing to verify; remove verify"), _added("--set", "verify=false")),
)
"""By what a message says; the first that fits."""
