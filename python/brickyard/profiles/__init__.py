"""Duty: find a profile by name or path and give its text.

Refusal: no parsing. What a profile may say is known to `crates/plan` alone, except that verified regions fit each
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from brickyard import shipped
from brickyard.errors import BadInputError, Remedy, WorkloadFirst, meant, nearest, one_line
from brickyard.profiles.verified import refuse_unlike
from brickyard.schema import read_plan
from brickyard.schema.fio_words import title_of_options
from brickyard.schema.plan import Plan
from brickyard.schema.titles import BY_OPTIONS, CHANGED, changes_in

SAME_LOAD = ("title", "source", "about", "seed", "engine", "interval", "hang_after", "stop_on_error", "each")
"""Keys that change what is shown or how it is carried out, and not what is asked of the storage."""


FOREIGN = (".fio", ".job", ".ini", ".icf", ".bat", ".cmd")
"""Endings of other tools' workloads."""


@dataclass(frozen=True)
class ProfileText:
    name: str
    text: str
    place: str


def names() -> list[str]:
    """The profiles that ship with Brickyard."""
    return shipped.names(shipped.folder(__name__))


OF_FIO = {"randread": "random-4k-qd32", "randrw": "mixed-70-30"}
"""What ships for a word of fio's `rw`, which is not alike."""


PGBENCH = "pgbench"
"""A workload of `run` and `study` that is no profile: its keys are its own."""


def read(name_or_path: str) -> ProfileText:
    """A shipped profile by its name, or any file by its path."""
    file = Path(name_or_path)
    if file.suffix.lower() in FOREIGN:
        made = f"`brickyard import {file} -o {file.stem}.toml` makes a profile of it"
        raise BadInputError(f"{file}: another tool's file, by its ending; {made}")
    found = None if _is_target(file) else shipped.read("profile", __name__, name_or_path)
    if found is None and (_is_target(file) or file.exists()):
        raise BadInputError(f"{file}: is a target", Remedy("the workload comes first", WorkloadFirst(str(file))))
    if found is None and name_or_path == PGBENCH:
        raise BadInputError(
            "pgbench: only `brickyard run` and `brickyard study` run it, since it is no profile; for an offered rate, "
            "write `brickyard run pgbench DIRECTORY --set rate=500`, once for each rate"
        )
    if found is None:
        remedy = nearest(name_or_path, names(), "`brickyard profiles` lists them")
        if name_or_path in OF_FIO:
            remedy = meant(name_or_path, OF_FIO[name_or_path])
        raise BadInputError(f"{name_or_path}: no such profile, and a path needs a slash or the ending .toml", remedy)
    return ProfileText(found.name, found.text, found.place)


def _is_target(file: Path) -> bool:
    """A model, a device, a directory, or a file that is no text: whoever names it where a profile is expected means the
    target."""
    if file.name.startswith("sim:") and len(file.parts) == 1:
        return True
    try:
        if not file.is_file():
            return file.is_relative_to("/dev") and not file.is_fifo() and str(file) != "/dev/stdin"
        with file.open("rb") as opened:
            return b"\0" in opened.read(4096)
    except OSError:
        return False


def validate(profile: ProfileText, overrides: list[str]) -> Plan:
    """The plan of a profile with its overrides."""
    try:
        return _titled(profile, _checked(profile, overrides))
    except ValueError as error:
        at_fault = _override_at_fault(profile, overrides)
        said = one_line(error)
        # A message may name the override itself; a message about a value alone would leave its key open.
        if at_fault and at_fault.partition("=")[0].strip() not in said:
            said = f"--set {at_fault}: {said}"
        is_own = at_fault is None and profile.name not in names()
        raise BadInputError(f"{profile.place if is_own and profile.place else profile.name}: {said}") from error


def _checked(profile: ProfileText, overrides: list[str]) -> Plan:
    """ValueError for what no target could make a run."""
    from brickyard import _core

    plan = read_plan(_core.validate(profile.text, overrides))
    refuse_unlike(plan)
    return plan


def _titled(profile: ProfileText, plan: Plan) -> Plan:
    """A profile that options made has its title from its load, also where its file was changed since."""
    if plan.source != BY_OPTIONS or not plan.title:
        return plan
    name, colon, _ = plan.title.rpartition(": ")
    return msgspec.structs.replace(plan, title=f"{name}{colon}{title_of_options(plan) or profile.name}")


def changed(profile: ProfileText, overrides: Sequence[str], own: Sequence[str] = ()) -> Plan:
    """The plan with a user's overrides, and before them those that follow from the target; the title names what the
    user changed, so that no figure bears the name of a load that was not run."""
    plan = validate(profile, [*own, *overrides])
    last = {change.partition("=")[0].strip(): change for change in overrides}
    said = [
        change.replace(" ", "")
        for key, change in last.items()
        if key not in SAME_LOAD and _without(profile, own, overrides, key) != plan
    ]
    if not said or "title" in last:
        return plan
    if plan.source == BY_OPTIONS:
        plan = msgspec.structs.replace(plan, title=validate(profile, list(own)).title)
    title = plan.title or profile.name
    further = ", " if changes_in(title) else CHANGED  # a replay's own title names changes too
    return msgspec.structs.replace(plan, title=f"{title}{further}{', '.join(said)}")


def _without(profile: ProfileText, own: Sequence[str], overrides: Sequence[str], key: str) -> Plan | None:
    """The plan without what the user said of one key; None where others need it."""
    try:
        return validate(profile, [*own, *(change for change in overrides if change.partition("=")[0].strip() != key)])
    except BadInputError:
        return None


def _override_at_fault(profile: ProfileText, overrides: list[str]) -> str | None:
    """The override that makes a valid profile invalid; None where it was invalid before."""
    for count in range(len(overrides) + 1):
        try:
            _checked(profile, overrides[:count])
        except ValueError:
            return overrides[count - 1] if count else None
    return None
