"""Duty: every check that a run makes before it begins, for a dry run. Refusal: nothing is made, written or changed."""

from __future__ import annotations

from pathlib import Path

from brickyard import _core
from brickyard.errors import BadInputError, core_refusals
from brickyard.schema import RunOptions, encode, plan_text
from brickyard.schema.plan import Plan
from brickyard.study.running.by_fio import refuse_by_fio


def check_run(plan: Plan, targets: list[str], options: RunOptions, *, by_fio: bool = False) -> None:
    """Refuses what the run would refuse: its build, its engine, the guard of its targets, its streams on them."""
    if not _core.is_release_build():
        raise BadInputError("the core is a debug build, which measures itself; build it with `make run`")
    if by_fio:
        refuse_by_fio(plan)
    with core_refusals():
        _core.check(plan_text(plan), targets, encode(options))
    if by_fio:
        refuse_by_fio(plan, targets)  # of targets that may be opened


def nearest_folder(path: Path) -> Path:
    """The folder itself, or the innermost one above it that is there: where it would be made."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
