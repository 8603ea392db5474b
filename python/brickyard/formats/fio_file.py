"""Duty: the text of a fio job file → jobs as options by name: sections, [global], include, ${ENV}, comments.

Refusal: what the options mean is `fio_job`'s business. A variable that is not set is refused, not taken as empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.formats.fio_options import KB_BASE, FioOptions, canonical, override, understood

INCLUDE_DEPTH = 16  # as fio itself allows


@dataclass(frozen=True)
class Job:
    name: str
    options: dict[str, str]
    rates_requests: bool = False
    """Whether `rate_iops` counts requests of any size; fio's own counts bytes as if all had the smallest size."""

    @cached_property
    def asked(self) -> FioOptions:
        """To be read when the options are complete."""
        return understood(self.options)


Pairs = list[tuple[str, str]]


def read_jobs(
    text: str,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> list[Job]:
    """`given` are options of the command line, which fio takes for a first [global] section."""
    jobs: list[Job] = []
    common = dict(given or {})
    lines = _lines(text, directory, os.environ if environment is None else environment, 0)
    for section, pairs in _sections(lines):
        # fio reads a section's kb_base before its other options.
        pairs.sort(key=lambda pair: canonical(pair[0]) != KB_BASE)
        if section == "global":
            override(common, pairs)
        else:
            jobs.append(Job(section, override(dict(common), pairs)))
    if not jobs:
        raise BadInputError("this fio job file has no job, only [global]")
    return jobs


def _sections(lines: Iterable[str]) -> list[tuple[str, Pairs]]:
    found: list[tuple[str, Pairs]] = []
    for line in lines:
        if section := re.fullmatch(r"\[(.+)\]", line):
            found.append((section[1], []))
        elif not found:
            raise BadInputError(f"`{line}` stands before any section; a fio job file begins with [global] or [a job]")
        else:
            name, _, value = line.partition("=")
            found[-1][1].append((name, value.strip()))
    return found


# Switches of fio's command line that say where results go and how they look.
SWITCHES = frozenset(
    [
        "output",
        "output-format",
        "minimal",
        "append-terse",
        "terse-version",
        "eta",
        "eta-newline",
        "eta-interval",
        "status-interval",
        "bandwidth-log",
        "warnings-fatal",
        "max-jobs",
        "aux-path",
        "alloc-size",
        "readonly",
    ]
)

OPTION = re.compile(r"--?[A-Za-z_]")


def read_command_line(words: list[str]) -> list[Job]:
    """`--option=value` words of a fio command line, also with one dash. What stands before the first `--name`, or
    behind `--name=global`, holds for the jobs that follow."""
    jobs: list[Job] = []
    common: dict[str, str] = {}
    current = common
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not OPTION.match(word):
            raise BadInputError(f"`{word}`: a fio command line here is made of --option=value; import job files apart")
        name, has_value, value = word.lstrip("-").partition("=")
        if not has_value and rest and not OPTION.match(rest[0]):
            value = rest.pop(0)
        if name == "name" and value == "global":
            current = common
        elif name == "name":
            current = dict(common)
            jobs.append(Job(value, current))
        elif name not in SWITCHES:
            override(current, [(name, value.strip())])
    if not jobs:
        raise BadInputError("this fio command line has no --name, so no job")
    return jobs


def _lines(text: str, directory: Path, environment: Mapping[str, str], depth: int) -> list[str]:
    found: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        line = re.split(r"\s[#;]", line, maxsplit=1)[0].rstrip()
        if include := re.fullmatch(r"include\s+(.+)", line):
            found += _included(include[1].strip(), directory, environment, depth)
            continue
        found.append(re.sub(r"\$\{([^}]*)\}", lambda m: _variable(m[1], environment), line))
    return found


def _included(name: str, directory: Path, environment: Mapping[str, str], depth: int) -> list[str]:
    if depth >= INCLUDE_DEPTH:
        raise BadInputError(f"include {name}: nested more than {INCLUDE_DEPTH} deep; does it include itself?")
    path = directory / name
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInputError(f"include {name}: cannot be read: {reason}") from error
    return _lines(text, path.parent, environment, depth + 1)


def _variable(name: str, environment: Mapping[str, str]) -> str:
    if name not in environment:
        raise BadInputError(f"${{{name}}} is not set; set it in the environment, as for fio")
    return environment[name]
