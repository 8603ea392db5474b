"""Duty: from targets and sizes as words to targets and options for the core; a scratch file where none is named. Every
verb and every function for programs takes its targets from here.

Refusal: it gives no consent to write; that is in the options, and the core decides.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from brickyard import _core, bricks, facts, outputs
from brickyard.errors import BadInputError, Edit, Remedy, one_line
from brickyard.reading import parsed_bytes
from brickyard.schema import RunOptions
from brickyard.study.running.scratch import cache_home, check_scratch, scratch_file
from brickyard.study.running.sizes import ROUND_BYTES, size_of
from brickyard.units import format_size


@dataclass(frozen=True)
class Aim:
    targets: list[str]
    options: RunOptions
    notes: tuple[str, ...]
    condition: str = "normal"
    capacity_bytes: int | None = None


def aim_modelled(targets: tuple[str, ...], brick_overrides: list[str], rebuild_bytes_per_s: int | None = None) -> Aim:
    """Modelled bricks: nothing is touched, so nothing has to be allowed."""
    if not bricks.all_modelled(targets):
        raise BadInputError("real and modelled targets have different clocks; name targets of one kind only")
    found = [bricks.resolve(target, brick_overrides) for target in targets]
    if rebuild_bytes_per_s is not None:
        brick_overrides = [*brick_overrides, *bricks.paced([item.brick for item in found], rebuild_bytes_per_s)]
    texts = {key: text for item in found for key, text in item.texts.items()}
    condition = "; ".join(dict.fromkeys(bricks.condition_of(item.brick, brick_overrides) for item in found))
    options = RunOptions(bricks=texts, overrides=brick_overrides)
    return Aim(list(targets), options, (), condition=condition, capacity_bytes=found[0].capacity_bytes)


def missing_targets(targets: Sequence[str], size_bytes: int | None) -> list[str]:
    """Those that are to be made; what can be no target is refused."""
    missing = [path for path in targets if not bricks.is_modelled(path) and not os.path.lexists(path)]
    for path in missing:
        _refuse_list(path)
        parent = os.path.dirname(path) or "."
        if not os.path.isdir(parent):
            raise BadInputError(f"{path}: the directory {parent} does not exist; make it first")
        if size_bytes is None:
            raise BadInputError(f"{path}: no such file or device", _remedy(path))
        if not outputs.may_hold_files(Path(parent)):
            raise BadInputError(f"{path}: no such device", _remedy(path))
    for path in targets:
        if os.path.isdir(path):
            scratch = Edit((path,), ("--scratch", path))
            there = "name a file in it, or use --scratch, which makes a file there and removes it"
            raise BadInputError(f"{path}: is a directory", Remedy(there, scratch))
        if os.path.islink(path) and not os.path.exists(path):
            raise BadInputError(
                f"{path}: a symbolic link to {os.readlink(path)}, which does not exist; name the file itself"
            )
        if os.path.lexists(path):
            _refuse_no_storage(path)
    return missing


def _refuse_no_storage(path: str) -> None:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        raise BadInputError(f"{path}: neither a file nor a block device; name one of these")
    if stat.S_ISREG(mode) and not outputs.may_hold_files(Path(os.path.realpath(path)).parent):
        raise BadInputError(
            f"{path}: the kernel produces its content, which is on no storage; name a file or a block device"
        )


def _refuse_list(path: str) -> None:
    """fio's way to name several files."""
    named = path.split(":")
    if len(named) > 1 and not os.path.lexists(path) and all(map(os.path.lexists, named)):
        each = f"name them one by one, {' '.join(named)}, with --each for the same load on each"
        raise BadInputError(f"{path}: no such file or device; if these are several files", Remedy(each))


def _remedy(path: str) -> Remedy:
    """No file is made among devices, so no size helps there."""
    if not outputs.may_hold_files(Path(os.path.dirname(path) or ".")):
        return Remedy("check the name, `lsblk` lists the devices")
    return Remedy("--size 2GiB makes a file of that size", Edit((), ("--size", "2GiB")))


def _size_notes(targets: Sequence[str], missing: list[str], size_bytes: int | None) -> tuple[str, ...]:
    """What becomes of --size where targets are named; one that exists already has a size."""
    if size_bytes is None:
        return ()
    for path in targets:
        size = size_of(path)
        whole = -(-size_bytes // ROUND_BYTES) * ROUND_BYTES
        # A file that this tool made with the same --size has its header before the data.
        if not missing and size not in (whole, whole + ROUND_BYTES):
            asked = f"--size {format_size(size_bytes)}"
            known = "" if size is None else f" with {format_size(size)}"
            raise BadInputError(f"{asked}: {path} exists{known}; name a new file or leave --size out")
    notes = [f"{path} exists, and keeps its size" for path in targets if missing and path not in missing]
    if missing and size_bytes % ROUND_BYTES:
        whole = -(-size_bytes // ROUND_BYTES) * ROUND_BYTES
        notes.append(f"{missing[0]} gets {format_size(whole)} of data: sizes are whole MiB")
    return tuple(notes)


def _refuse_unmakeable(missing: Sequence[str], size_bytes: int | None) -> None:
    """Before anything is said of what is going to be done."""
    for path in missing:
        try:
            _core.could_make_target(path, size_bytes or 0)
        except ValueError as error:
            raise BadInputError(one_line(error)) from error


def parse_size(text: str | None) -> int | None:
    if text is None:
        return None
    size_bytes = parsed_bytes(text, "--size")
    if size_bytes < ROUND_BYTES:
        number = text.strip()
        unit = None
        if number.strip("0").isdigit():
            mib = Edit(("--size", text), ("--size", f"{number}MiB"))
            unit = Remedy(f"a number alone is bytes: write {number}MiB or {number}GiB", mib)
        raise BadInputError(f"--size {number}: a file is at least {format_size(ROUND_BYTES)}", unit)
    return size_bytes


@contextmanager
def aim(
    targets: tuple[str, ...],
    *,
    size: str | None,
    scratch: Path | None,
    keep: bool,
    overwrite: tuple[str, ...],
    destroys_data: bool,
    quick: bool = False,
) -> Iterator[Aim]:
    """Targets that exist or are to be made. A scratch file lives as long as this context."""
    size_bytes = parse_size(size)
    options = RunOptions(create_bytes=None, overwrite=list(overwrite), destroys_data=destroys_data)
    for path in overwrite:
        if path not in targets:
            raise BadInputError(f"--overwrite {path}: not among the targets; name it as a target as well")
    if targets:
        if scratch is not None or keep:
            raise BadInputError(
                "--scratch and --keep are for a scratch file; leave out either these options or the target"
            )
        missing = missing_targets(targets, size_bytes)
        notes = _size_notes(targets, missing, size_bytes)
        if missing:
            _refuse_unmakeable(missing, size_bytes)
            options = structs.replace(options, create_bytes=size_bytes)
        yield Aim(list(targets), options, notes)
        return
    if scratch is not None and not scratch.is_dir():
        raise BadInputError(f"--scratch {scratch}: no such directory")
    home = scratch or cache_home()
    with scratch_file(scratch, size_bytes, keep=keep, quick=quick, cache_bytes=facts.cache_bytes(str(home))) as made:
        notes = (*made.notes, f"the scratch file is kept: {made.path}") if keep else made.notes
        yield Aim([str(made.path)], options, notes)


def aimed(
    targets: Sequence[str],
    *,
    brick_changes: Sequence[str] = (),
    rebuild_bytes_per_s: int | None = None,
    size: str | None = None,
    scratch: Path | None = None,
    keep: bool = False,
    overwrite: Sequence[str] = (),
    destroys_data: bool = False,
    quick: bool = False,
) -> AbstractContextManager[Aim]:
    """Modelled bricks with their changes, or else as `aim`."""
    if any(bricks.is_modelled(target) for target in targets):
        return nullcontext(aim_modelled(tuple(targets), list(brick_changes), rebuild_bytes_per_s))
    return aim(
        tuple(targets),
        size=size,
        scratch=scratch,
        keep=keep,
        overwrite=tuple(overwrite),
        destroys_data=destroys_data,
        quick=quick,
    )


def check_unnamed(*, size: str | None, scratch: Path | None, overwrite: Sequence[str]) -> tuple[Path, int]:
    """Refuses what `aim` would refuse where no target is named; nothing is made. A name for the file, and its size."""
    for path in overwrite:
        raise BadInputError(f"--overwrite {path}: not among the targets; name it as a target as well")
    if scratch is not None and not scratch.is_dir():
        raise BadInputError(f"--scratch {scratch}: no such directory")
    home = scratch or cache_home()
    return check_scratch(scratch, parse_size(size), facts.cache_bytes(str(home)))
