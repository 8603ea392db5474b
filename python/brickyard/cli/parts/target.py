"""Duty: from what a person typed to targets and options for the core; a scratch file where no target was named.

Refusal: it gives no consent to write; that is in the options, and the core decides.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations

from brickyard import bricks, outputs
from brickyard.cli.parts import conditioning
from brickyard.cli.parts.options import Placing
from brickyard.cli.parts.output import print_line, stderr
from brickyard.errors import BadInputError, meant
from brickyard.schema import RunOptions
from brickyard.study.running.aim import Aim, aimed
from brickyard.study.running.check import nearest_folder
from brickyard.study.running.interrupt import ends_like_ctrl_c
from brickyard.study.running.scratch import cache_home
from brickyard.units import named_words

LOCKED = "another run is using it"
"""What `block::session` says of a file that is locked."""


def named(target: str | None) -> tuple[str, ...]:
    """None where no target was named; an empty name is refused, since a scratch file is not what was meant."""
    if target == "":
        raise BadInputError("the target's name is empty; is a shell variable not set?")
    return () if target is None else (target,)


def split_overrides(targets: tuple[str, ...], overrides: list[str]) -> tuple[list[str], list[str]]:
    """What changes the profile, and what changes modelled bricks."""
    modelled = any(bricks.is_modelled(target) for target in targets)
    of_bricks = [change for change in overrides if modelled and bricks.is_override(change)]
    of_profile = [change for change in overrides if change not in of_bricks]
    for change in of_profile if modelled else ():
        if (key := bricks.meant(change)) is not None:
            given = change.partition("=")[0].strip()
            raise BadInputError(f"--set {change}: not a key of a profile or of a brick", meant(given, key))
    return of_profile, of_bricks


@contextmanager
def aim_directories(wanted: int, targets: tuple[str, ...], placing: Placing, *, makes: bool = True) -> Iterator[Aim]:
    """Directories for programs, which make one of their own in each; the cache directory where none is named.

    Unless it `makes` that one, the nearest directory above it stands for it.
    """
    scratch = placing.scratch
    if placing.keep or placing.overwrite:
        raise BadInputError("--keep and --overwrite: a program works in a directory of its own, removed at the end")
    if targets and scratch is not None:
        raise BadInputError("--scratch: a program makes its own directory in the target; leave one of them out")
    if len(targets) != wanted and (targets or wanted > 1):
        raise BadInputError(f"the workload needs {wanted} directories, but {named_words(len(targets))}")
    for path in targets:
        if not os.path.isdir(path):
            said = (
                "is not a directory; a program over files needs one" if os.path.lexists(path) else "no such directory"
            )
            raise BadInputError(f"{path}: {said}")
    home = scratch or cache_home()
    if not targets and scratch is None:
        if makes:
            outputs.folder(home)
        else:
            home = nearest_folder(outputs.check_folder(home))
    yield Aim(list(targets) or [str(home)], RunOptions(), ())


@contextmanager
def _one_file_twice(targets: tuple[str, ...]) -> Iterator[None]:
    """A file that is written is locked: under its second name, a run meets its own lock, not that of another run."""
    try:
        yield
    except BadInputError as error:
        there = [path for path in targets if os.path.exists(path)]
        same = next((pair for pair in combinations(there, 2) if os.path.samefile(*pair)), None)
        if same is None or LOCKED not in str(error):
            raise
        said = f"{same[0]} is named twice" if same[0] == same[1] else f"{same[0]} and {same[1]} are the same file"
        raise BadInputError(f"{said}, and a run that writes a file opens it once; name it once") from error


@contextmanager
def aim_at(
    targets: tuple[str, ...], placing: Placing, *, brick_changes: Sequence[str] = (), quick: bool = False
) -> Iterator[Aim]:
    """`aimed` with the options that verbs share; no signal that can be heeded leaves a scratch file."""
    for target in filter(bricks.is_modelled, targets):
        for note in conditioning.without_effect(target, placing.size):
            print_line(stderr(), f"note: {note}")
    with (
        _one_file_twice(targets),
        ends_like_ctrl_c(),
        aimed(
            targets,
            brick_changes=brick_changes,
            size=placing.size,
            scratch=placing.scratch,
            keep=placing.keep,
            overwrite=placing.overwrite,
            destroys_data=placing.i_know_this_destroys_data,
            quick=quick,
        ) as aim,
    ):
        yield aim
