"""Duty: the arrays of this host for whoever watches and manages them: how they stand, the worst first, the actions that
change them, and an audit log of who did what.

Refusal: nothing is changed without consent (`manage`), and no action goes beyond what `brickyard array` would do: one
manager at a time, never beyond the array's redundancy, devices with a signature only where that is given up by name.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from brickyard import arrays, conditions, outputs
from brickyard.arrays import Array, Host, Sheet, life, lock
from brickyard.arrays.alarms import Alarm, AlarmBook
from brickyard.arrays.array import UNDER_WAY
from brickyard.arrays.find import KINDS
from brickyard.arrays.health import Health, Sighting, mismatch_words, observed, severity_of
from brickyard.arrays.inventory import Controller, Disk, controllers, disks, set_locate
from brickyard.arrays.keys import OF_ARRAYS, AlarmKey, AlarmKind
from brickyard.arrays.looking import DRIVES_EVERY_S, Drive, FileSystem, Seen, look
from brickyard.arrays.scrubs import ScrubBook, ScrubPlan, window_minutes
from brickyard.arrays.trends import HealthSample, TrendBook
from brickyard.auditing import AuditLog
from brickyard.conditions import journal
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.facts.counters import difference, parse_stat
from brickyard.facts.roots import binary
from brickyard.reading import parsed_bytes_per_s
from brickyard.schema.target_sheet import HealthSheet
from brickyard.schema.watch_sheet import disk_counts
from brickyard.units import format_mib_per_s, format_seconds

__all__ = [
    "DRIVES_EVERY_S",
    "OF_ARRAYS",
    "UNDER_WAY",
    "Alarm",
    "AlarmBook",
    "AlarmKey",
    "AlarmKind",
    "AuditLog",
    "Controller",
    "Deed",
    "Disk",
    "Drive",
    "Estate",
    "FileSystem",
    "HealthSample",
    "HealthSheet",
    "Host",
    "PaceSample",
    "ScrubBook",
    "ScrubPlan",
    "Sheet",
    "Standing",
    "TrendBook",
    "UserLoad",
    "add_spare",
    "alarm_place",
    "begin_scrub",
    "controllers",
    "create_md",
    "destroy",
    "devices",
    "disks",
    "do",
    "estate",
    "failed_look",
    "findings",
    "locked",
    "remaining_words",
    "remembered",
    "remove",
    "replace",
    "set_rebuild_rate",
    "state_home",
    "take_out",
    "user_counters",
    "user_load",
]

ACTIONS = (
    "scrub", "stop-scrub", "schedule", "rebuild-rate", "spare", "fail", "remove", "replace", "create", "destroy",
    "locate", "locate-off",
)  # fmt: skip
"""What can be done from a page: to an array, and to the LED of a disk."""
LEDS = ("locate", "locate-off")
METHODS = {
    "scrub": "start_scrub",
    "stop-scrub": "stop_scrub",
    "schedule": "start_scrub",
    "rebuild-rate": "limit_settings",
    "fail": "fail",
    "remove": "remove",
}
"""What a kind of array must have of its own for an action."""
DAY_S = 86_400.0
NEEDS_DEVICE = ("spare", "fail", "remove", "replace")


def state_home() -> Path:
    """Where alarms, the audit log and jobs are kept: `$XDG_STATE_HOME/brickyard`."""
    return journal.user_home().parent


@dataclass(frozen=True)
class Standing:
    """One array with what is to be known of it."""

    sheet: Sheet
    health: Health
    findings: list[str]
    holder: str
    left_s: float | None
    """Until its work is over, at the present pace."""

    @property
    def rank(self) -> int:
        return list(Health).index(self.health)

    @property
    def severity(self) -> str:
        """`well`, `note`, `warning` or `error`."""
        return "well" if self.health is Health.WELL else severity_of(self.health)


@dataclass(frozen=True)
class Estate:
    """All arrays, drives and file systems at one look, what is worst first."""

    standings: list[Standing]
    drives: list[Drive]
    file_systems: list[FileSystem]
    problems: list[str]
    left: list[str]
    """What killed runs have left, and the command that undoes it."""
    unix_s: float
    unread: dict[str, str] = field(default_factory=dict)
    """The problems by what they are about: an array, or a kind of arrays."""
    lost: list[Standing] = field(default_factory=list)
    """Arrays that cannot be looked at now, as they were when they last could be."""

    def named(self, key: str) -> Standing:
        found = next((one for one in self.standings if one.sheet.key == key), None)
        if found is None:
            raise BadInputError("no such array; it may be gone")
        return found


def estate(*, drives: bool = True) -> Estate:
    """One look at this host."""
    seen = look(arrays.Host(), drives=drives)
    standings = sorted((_standing(sheet, seen) for sheet in seen.arrays), key=lambda one: (-one.rank, one.sheet.name))
    left = [entry.words for entry in conditions.leftovers()]
    drives_found, systems, problems = list(seen.drives), list(seen.file_systems), list(seen.problems)
    return Estate(standings, drives_found, systems, problems, left, time.time(), seen.unread)


def remembered(found: Estate, before: Estate) -> Estate:
    """The newest look with the arrays of earlier ones that it could not look at; one that is merely gone is gone."""
    here = {one.sheet.key for one in found.standings}
    lost = [
        one
        for one in [*before.standings, *before.lost]
        if one.sheet.key not in here
        and (one.sheet.name in found.unread or one.sheet.kind in found.unread or EVERYTHING in found.unread)
    ]
    return dataclasses.replace(found, lost=lost)


EVERYTHING = "the host"
"""Under this name stands in `unread` why a whole look failed."""


def failed_look(problem: str) -> Estate:
    """A look that found nothing, and why."""
    return Estate([], [], [], [problem], [], time.time(), {EVERYTHING: problem})


def _standing(sheet: Sheet, seen: Seen) -> Standing:
    holder, left = seen.holders.get(sheet.key), conditions.left_of(sheet.key)
    sighting = Sighting(sheet.name, sheet, holder=holder, left=left)
    found = observed(sighting, sheet.scrub.mismatches or 0)
    held = "" if holder is None else holder.words
    return Standing(sheet, found or Health.WELL, findings(sheet, held, left), held, remaining_s(sheet))


def possible(sheet: Sheet) -> list[str]:
    """The actions that arrays of its kind can do; every other is refused by name."""
    kind = KINDS.get(sheet.kind, Array)
    able = {action for action, method in METHODS.items() if getattr(kind, method) is not getattr(Array, method)}
    able |= {"spare", "replace", "destroy"} if issubclass(kind, life.REBUILT) else set()
    return [action for action in ACTIONS if action in able]


def findings(sheet: Sheet, holder: str, left: str) -> list[str]:
    """What is to be known of an array beside its state: who holds it, what a killed run left, what a scrub found."""
    found = [f"held by {holder}"] if holder else []
    if left:
        found.append(left)
    elif sheet.frozen and not holder:
        found.append(sheet.frozen)
    if sheet.scrub.mismatches:
        found.append(mismatch_words(sheet, sheet.scrub.mismatches))
    if sheet.scrub.complete is False:
        found.append("the last scrub was stopped before its end")
    return found


def remaining_s(sheet: Sheet) -> float | None:
    """How long its work still takes; a rate is of one member, whose part of the array is what is worked through."""
    component, state = sheet.extra.component_bytes, sheet.state
    if not component or not state.rate_bytes_per_s or state.progress_share is None:
        return None
    return float(component) * (1 - state.progress_share) / state.rate_bytes_per_s


@dataclass(frozen=True)
class UserLoad:
    """What the users of an array did between two looks, as the kernel counts requests of the array's device."""

    requests_per_s: float
    bytes_per_s: float
    service_ns: float | None
    """The mean; None where there was no request."""


class PaceSample(msgspec.Struct, frozen=True):
    """The pace of an array's own work beside what its users get."""

    unix_s: float
    state: str
    progress_share: float | None
    work_bytes_per_s: int | None
    requests_per_s: float
    bytes_per_s: float
    service_ns: float | None


def user_counters(sheet: Sheet, host: arrays.Host | None = None) -> dict[str, int] | None:
    """The counters of an array's own device; None where the kernel has none of that name."""
    place = host or arrays.Host()
    name = os.path.basename(os.path.realpath(sheet.extra.device or sheet.name))
    return parse_stat(binary(place.roots.at_sys("class", "block", name, "stat")))


def user_load(before: dict[str, int], after: dict[str, int], span_s: float) -> UserLoad | None:
    counted = difference(before, after)
    if counted is None or span_s <= 0:
        return None
    told = disk_counts([counted])
    return UserLoad(told.requests / span_s, told.size_bytes / span_s, told.service_ns)


def remaining_words(sheet: Sheet) -> str:
    left_s = remaining_s(sheet)
    return "" if left_s is None else f", {format_seconds(left_s)} left"


def devices(host: arrays.Host | None = None) -> list[str]:
    """Whole disks of this host and their partitions, by what the kernel lists; what is in use is refused later."""
    place = host or arrays.Host()
    base = Path(place.roots.at_sys("class", "block"))
    try:
        names = sorted(entry.name for entry in base.iterdir())
    except OSError:
        return []
    kept = [name for name in names if not re.match(r"(loop|ram|zram|sr|fd|dm-|md)\d*", name) and _bytes(base / name)]
    return [f"{place.roots.dev}/{name}" for name in kept]


def _bytes(place: Path) -> int:
    try:
        return int((place / "size").read_text())
    except (OSError, ValueError):
        return 0


def locked(array: Array, verb: str, *names: str) -> AbstractContextManager[None]:
    """One manager at a time: whoever holds this repeats its checks under it."""
    return lock.held([array.identity(), *map(lock.device_key, names)], verb, array.name)


def begin_scrub(array: Array) -> None:
    with locked(array, "array scrub"):
        if array.state().name != "normal":
            raise BadInputError(f"{array.name}: is {array.state().name}; a scrub begins when it is normal")
        array.prepare_work()
        array.start_scrub()


def take_out(array: Array, member: str | None) -> str:
    """Fails a member, the last active one where none is named; never beyond the redundancy."""
    with locked(array, "array fail"):
        array.check_redundant()
        chosen = member or array.failable()
        array.fail(chosen)
    return chosen


def add_spare(array: Array, device: str, *, destroys_data: bool) -> None:
    with locked(array, "array spare", device):
        life.add_spare(array, device, destroys_data=destroys_data)


def replace(array: Array, old: str, new: str, *, destroys_data: bool) -> str:
    with locked(array, "array replace", new):
        return life.replace(array, old, new, destroys_data=destroys_data)


def remove(array: Array, member: str) -> None:
    with locked(array, "array remove"):
        array.remove(member)


def create_md(place: str, level: str, names: Sequence[str], *, destroys_data: bool) -> Array:
    with lock.held([lock.device_key(name) for name in [*names, place]], "array create", place):
        return life.create_md(place, level, names, destroys_data=destroys_data)


def destroy(array: Array, *, destroys_data: bool) -> list[str]:
    with locked(array, "array destroy"):
        return life.destroy(array, destroys_data=destroys_data)


def set_rebuild_rate(array: Array, rate: str) -> None:
    """The pace of rebuilds and scrubs from now on, until somebody sets another or the array is stopped."""
    settings = array.limit_settings(parsed_bytes_per_s(rate, "rate"))
    with locked(array, "array rate"):
        for path, value in settings:
            outputs.write_knob(path, value)


@dataclass(frozen=True)
class Deed:
    """An action as it was asked for. `confirmed` is what was typed: the name of the array."""

    action: str
    array: str
    """The key of an array that is there; of one that is to be made, its device."""
    name: str = field(default="", kw_only=True)
    """What people call the array."""
    confirmed: str
    device: str = ""
    other: str = ""
    """The device that takes the place of `device`."""
    names: tuple[str, ...] = ()
    level: str = ""
    rate: str = ""
    days: str = ""
    """Of a schedule: a scrub each so many days, 0 or nothing for none."""
    window: str = ""
    """Of a schedule: when in the day, such as 22:00-06:00."""
    destroys_data: bool = False


def do(
    deed: Deed,
    by: str,
    audit: AuditLog,
    *,
    manage: bool,
    plans: ScrubBook | None = None,
    host: arrays.Host | None = None,
) -> str:
    """Carries an action out and gives back what was done, in words; what was asked and what became of it is in the
    audit log, also where it was refused."""
    asked = {key: value for key, value in vars(deed).items() if value}
    audit.note(by, "asked", asked)
    try:
        if not manage:
            raise BadInputError("arrays are only changed where `brickyard web` was started with --manage")
        words = _done(deed, by, plans, host or arrays.Host())
    except BrickyardError as error:
        audit.note(by, "refused" if isinstance(error, BadInputError) else "failed", asked, one_line(error))
        raise
    except OSError as error:
        audit.note(by, "failed", asked, one_line(error))
        raise BrickyardError(f"{deed.array}: {error.strerror}") from error
    audit.note(by, "done", asked, words)
    return words


def _done(deed: Deed, by: str, plans: ScrubBook | None, host: arrays.Host) -> str:
    if deed.action not in ACTIONS:
        raise BadInputError(f"no such action; there are {', '.join(ACTIONS)}")
    if deed.action in LEDS:
        slot = set_locate(host, deed.array, on=deed.action == "locate")
        now = "blinks" if deed.action == "locate" else "is off"
        return f"the LED of {deed.array}, {slot.slot} of {slot.enclosure}, {now}"
    known = devices()
    for name in (deed.other, *deed.names, deed.device if deed.action == "spare" else ""):
        if name and name not in known:
            raise BadInputError("no such device; choose one of the list")
    if deed.action == "create":
        _refuse_unconfirmed(deed, deed.array)
        made = create_md(deed.array, deed.level, deed.names, destroys_data=deed.destroys_data)
        return f"{made.name} was made of {', '.join(deed.names)}"
    array = _there(deed.array)
    _refuse_unconfirmed(deed, array.name)
    if deed.action in NEEDS_DEVICE and not deed.device and deed.action != "fail":
        raise BadInputError("name the device")
    members = [member.name for member in array.sheet().members]
    if deed.action in ("fail", "remove", "replace") and deed.device and deed.device not in members:
        raise BadInputError(f"{array.name}: has no such member")
    if deed.action == "schedule":
        if plans is None:
            raise BadInputError("no schedule is kept here")
        return _planned(plans, array, deed, by)
    return _changed(array, deed)


def _planned(plans: ScrubBook, array: Array, deed: Deed, by: str) -> str:
    if deed.days.strip() in ("", "0"):
        plans.set(array.identity(), None)
        return f"{array.name} is scrubbed by no schedule of its own"
    if not re.fullmatch(r"[0-9]{1,3}", deed.days.strip()):
        raise BadInputError("days: a whole number from 0 to 999")
    begin, end = window_minutes(deed.window)
    rate = parsed_bytes_per_s(deed.rate, "rate") if deed.rate.strip() else None
    if rate is not None:
        array.limit_settings(rate)  # refused now, where this kind of array cannot be told a pace
    plan = ScrubPlan(int(deed.days) * DAY_S, begin, end, rate, by)
    plans.set(array.identity(), plan)
    pace = "" if rate is None else f" at {format_mib_per_s(rate)} MiB/s"
    return f"{array.name} is scrubbed every {int(deed.days)} days{f', {plan.window}' if plan.window else ''}{pace}"


def _changed(array: Array, deed: Deed) -> str:
    match deed.action:
        case "scrub":
            begin_scrub(array)
            return f"a scrub of {array.name} has begun"
        case "stop-scrub":
            array.stop_scrub()
            return f"the scrub of {array.name} was stopped"
        case "rebuild-rate":
            set_rebuild_rate(array, deed.rate)
            return f"{array.name} rebuilds and scrubs at {deed.rate} from now on"
        case "spare":
            add_spare(array, deed.device, destroys_data=deed.destroys_data)
            return f"{deed.device} was given to {array.name}"
        case "fail":
            return f"{take_out(array, deed.device or None)} was taken out of {array.name}"
        case "remove":
            remove(array, deed.device)
            return f"{deed.device} is not a member of {array.name} any more"
        case "replace":
            return replace(array, deed.device, deed.other, destroys_data=deed.destroys_data)
        case _:
            freed = destroy(array, destroys_data=deed.destroys_data)
            return f"{array.name} is gone; free again: {', '.join(freed)}"


def _there(key: str) -> Array:
    """The array with this key, among those that are there."""
    unread: dict[str, str] = {}
    for array in arrays.every_array(arrays.Host(), unread):
        try:
            if array.sheet().key == key:
                return array
        except BrickyardError:
            continue
    raise BadInputError("no such array; it may be gone")


def _refuse_unconfirmed(deed: Deed, name: str) -> None:
    if deed.confirmed != name:
        raise BadInputError(f"type the name of the array, {name}, to confirm")


def alarm_place() -> Path:
    return state_home() / "alarms.json"
