"""Duty: hold a condition while a run goes on: bring it about, sample it, judge it, undo it, wait until all is normal.

Refusal: nothing is changed without `manage`; a change is journaled before it is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from brickyard.arrays import Array, Host, Sheet, State, find, lock, named
from brickyard.arrays.array import UNDER_WAY
from brickyard.arrays.find import of_target
from brickyard.arrays.md import Md, restored_value
from brickyard.arrays.steps import FileStep, MemberStep, ScrubStep, WriteCacheStep
from brickyard.conditions import journal, undo, write_cache
from brickyard.conditions.journal import Purpose
from brickyard.conditions.undo import Say, silent
from brickyard.conditions.verdict import STATE_OF, Sample, Validity, judge
from brickyard.errors import BadInputError, BrickyardError, nearest
from brickyard.facts.roots import text
from brickyard.schema import HeldCondition, SampledState
from brickyard.units import format_percent, format_seconds

NAMES = tuple(STATE_OF)
BEGIN_WAIT_S = 30.0  # md begins a rebuild within a second; a controller polls its drives first
SAY_EVERY_S = 5.0
LOOK_S = 0.1


def spoken(condition: str) -> str:
    """The name that the store keeps, of one that a person wrote."""
    name = condition.replace("-", "_")
    if name == "checking":
        raise BadInputError("--condition checking: is named scrubbing")
    if name not in NAMES:
        known = [written(word) for word in NAMES]
        raise BadInputError(f"--condition {condition}: no such condition", nearest(condition, known))
    return name


def written(name: str) -> str:
    """As a person writes it: `neighbour-rebuilding`; what is no condition, such as a level of a study, as it is."""
    return name.replace("_", "-") if name in NAMES else name


@dataclass
class Held:
    """A condition while it is held."""

    condition: str
    target: str
    array: Array | None
    host: Host
    neighbour: Array | None = None
    begin_work: Callable[[], None] | None = None
    go_on: Callable[[int | None], None] | None = None
    """Rebuilds, at a rate in bytes/s or the array's own, the member that the degraded array has lost."""
    samples: list[Sample] = field(default_factory=list)

    def begin(self) -> None:
        """The run's first phase begins: what was prepared (a rebuild that waits at its start) goes on from here."""
        if self.begin_work is not None:
            work, self.begin_work = self.begin_work, None
            work()
        self.samples.clear()
        self.sample()

    def becomes_rebuilding(self, rate_bytes_per_s: int | None) -> bool:
        """A degraded array is about to be rebuilt; false where it is not ours to do, and nothing was changed."""
        if self.go_on is None:
            return False
        go_on, self.go_on = self.go_on, None
        self.condition = "rebuilding"
        self.samples.clear()
        go_on(rate_bytes_per_s)
        return True

    def sample(self) -> State:
        """What the array says now."""
        if self.begin_work is not None:
            self.begin()
        state = self.look()
        self.samples.append((time.time_ns(), SampledState(state.name), state.progress_share))
        return state

    def look(self) -> State:
        """The same, kept nowhere."""
        if self.condition.startswith("write_cache"):
            return State(write_cache.state_of(self.target, self.host))
        if self.array is None:
            return State("normal", detail="no array is below the target")
        own = self.array.state()
        if self.neighbour is None:
            return own
        if own.name != "normal":
            return State(
                SampledState(f"target_{own.name}"), own.progress_share, f"{self.array.name} itself is {own.name}"
            )
        return self.neighbour.state()

    def verdict(self) -> Validity:
        return judge(HeldCondition(self.condition), self.samples)


@contextmanager
def hold(
    target: str,
    condition: str,
    *,
    manage: bool,
    rate_bytes_per_s: int | None = None,
    neighbour: str | None = None,
    array: str | None = None,
    say: Say = silent,
    stopped: Callable[[], bool] | None = None,
    host: Host | None = None,
    verb: str = "",
) -> Iterator[Held]:
    """The target in a condition. `array` names one that the kernel does not tell, such as `storcli:/c0/v1`.

    `verb` is the command that others are told of who find the array locked.

    Where `stopped` says so, a rebuild that is left at the end is not waited for.
    """
    place = host or Host()
    name = spoken(condition)
    if name == "normal":
        yield Held(name, target, named(array, place) if array else find(target, place), place)
        return
    if name.startswith("write_cache"):
        with _write_cache(target, name, manage, place, say) as held:
            yield held
        return
    own, other = _arrays(target, name, neighbour, array, place)
    held = Held(name, target, own, place, other)
    changed = other or own
    if not manage:
        _check_already(name, changed)
        yield held
        return
    finish_leftovers(place, say, changed.name)
    taken = int(STATE_OF[name] in ("degraded", "rebuilding"))
    keys = [array.identity() for array in (own, other) if array is not None]
    with lock.held(keys, verb or f"run --condition {name.replace('_', '-')}", changed.name, taken):
        about = Purpose(target=target, array=changed.name, identity=changed.identity(), condition=name)
        entry = journal.begin(about)
        try:
            Bringing(held, changed, entry, rate_bytes_per_s).bring()
            yield held
        finally:
            _undo(entry, place, say)
        wait_for_normal(changed, say, stopped)


def check(
    target: str,
    condition: str,
    *,
    manage: bool,
    rate_bytes_per_s: int | None = None,
    neighbour: str | None = None,
    array: str | None = None,
    host: Host | None = None,
) -> None:
    """Refuses what `hold` would refuse; looks, and changes nothing."""
    place = host or Host()
    name = spoken(condition)
    if name.startswith("write_cache"):
        if write_cache.state_of(target, place) != name and not manage:
            raise _caches_need_manage(name, target)
    elif name != "normal":
        own, other = _arrays(target, name, neighbour, array, place)
        if manage:
            for found in (own, other):
                if found is not None:
                    lock.check_free(found.identity(), found.name)
            _check_possible(name, other or own, rate_bytes_per_s)
        else:
            _check_already(name, other or own)


def _check_possible(name: str, array: Array, rate_bytes_per_s: int | None) -> None:
    """Whether the array can be brought into the condition from its state of now."""
    if name in ("degraded", "rebuilding", "neighbour_rebuilding"):
        array.check_redundant()
    elif array.state().name != "normal":
        raise BadInputError(f"{array.name}: is {array.state().name}; it must be normal to begin with")
    if rate_bytes_per_s:
        array.limit_settings(rate_bytes_per_s)  # a rate that cannot be had is refused first of all


def _arrays(target: str, name: str, neighbour: str | None, array: str | None, host: Host) -> tuple[Array, Array | None]:
    """The target's own array, and the neighbour where the condition is that of one."""
    own = named(array, host) if array else of_target(target, host)
    if own is None:
        raise BadInputError(f"{target}: is not on an array that is known here, so it cannot be {_plain(name)}")
    if (neighbour is None) == (name == "neighbour_rebuilding"):
        raise BadInputError(
            "--condition neighbour-rebuilding: name the other array with --neighbour"
            if neighbour is None
            else f"--neighbour {neighbour}: belongs to --condition neighbour-rebuilding"
        )
    other = named(neighbour, host) if neighbour else None
    if other is not None and other.identity() == own.identity():
        raise BadInputError(f"--neighbour {neighbour}: is the array of {target} itself; name another one")
    return own, other


def _caches_need_manage(name: str, target: str) -> BadInputError:
    return BadInputError(f"--condition {name}: the drives below {target} would be switched, which needs --manage")


def _undo(entry: journal.Entry, host: Host, say: Say) -> None:
    undo.undo(entry, host, say)
    entry.close()


def finish_leftovers(host: Host, say: Say, array: str) -> None:
    """What a killed run has left is undone before anything else is changed; of other arrays it is only told."""
    for told in undo.restore(host, say):
        if told.error:
            words = f"an earlier run left changes to undo: {told.error}"
            if told.about.array == array:
                raise BrickyardError(words)
            say(words)


def _check_already(name: str, array: Array) -> None:
    state = array.state()
    if state.name != STATE_OF[name]:
        raise BadInputError(
            f"--condition {name}: {array.name} is {state.name}; to bring it about, the array must be changed, which"
            " needs --manage"
        )


class Pace:
    """Looks at an array no more than half of the time: some tools take a second for an answer."""

    def __init__(self) -> None:
        self._cost_s = 0.0

    def __call__(self, array: Array) -> State:
        before = time.monotonic()
        state = array.state()
        self._cost_s = time.monotonic() - before
        return state

    def rest(self) -> None:
        time.sleep(max(LOOK_S, self._cost_s))


@dataclass
class Bringing:
    """How a condition is brought about on one array."""

    held: Held
    array: Array
    entry: journal.Entry
    rate_bytes_per_s: int | None

    def bring(self) -> None:
        work = "rebuilding" if self.held.condition == "neighbour_rebuilding" else self.held.condition
        _check_possible(work, self.array, self.rate_bytes_per_s)
        self.array.prepare_work()
        if work == "degraded":
            member = self._take_out()
            self.held.go_on = lambda rate: self._prepare("rebuilding", member, rate)
            return
        in_place = self.array.rebuilds_in_place
        member = "" if work != "rebuilding" else self.array.failable() if in_place else self._take_out()
        self._prepare(work, member, self.rate_bytes_per_s)

    def _prepare(self, work: str, member: str, rate_bytes_per_s: int | None) -> None:
        """The work waits at its start until the run begins; where it can't be paused, it is not begun before."""
        settings = self.array.limit_settings(rate_bytes_per_s) if rate_bytes_per_s else []
        pause = self.array.pause_settings()
        self._write([*settings, *pause])
        if pause:
            self._start(work, member)
            self.held.begin_work = lambda: self._release(pause, work)
        else:
            self.held.begin_work = lambda: self._start(work, member)

    def _take_out(self) -> str:
        if isinstance(self.array, Md):
            for spare in [member.name for member in self.array.members() if member.state == "spare"]:
                self._note_member(spare)
                self.array.remove(spare)
        member = self.array.failable()
        self._note_member(member)
        for step in self.array.fail_steps(member):
            self.entry.note(step)
        self.array.fail(member)
        self._wait_for(("degraded",), "the loss of a member")
        return member

    def _note_member(self, member: str) -> None:
        self.entry.note(MemberStep(array=self.array.name, identity=self.array.identity(), member=member))

    def _write(self, settings: list[tuple[str, str]]) -> None:
        for path, value in settings:
            self.entry.note(FileStep(path=path, value=restored_value(path, text(path))))
            self.held.host.write(path, value)

    def _start(self, work: str, member: str) -> None:
        if work == "rebuilding" and self.array.rebuilds_in_place:
            self.array.rebuild(member)
        elif work == "rebuilding":
            self.array.give_back(member)
        elif work == "scrubbing":
            self.entry.note(ScrubStep(array=self.array.name, identity=self.array.identity()))
            self.array.start_scrub()
        else:
            self.array.start_initialization()
        self._wait_for((work, "delayed"), f"{_plain(work)}")

    def _release(self, pause: list[tuple[str, str]], work: str) -> None:
        for path, _ in pause:
            noted = next(step for step in self.entry.steps if isinstance(step, FileStep) and step.path == path)
            self.held.host.write(path, noted.value)
        self._wait_for((work, "delayed", "normal"), _plain(work))

    def _wait_for(self, states: tuple[str, ...], what: str) -> None:
        until = time.monotonic() + BEGIN_WAIT_S
        look = Pace()
        while (state := look(self.array)).name not in states:
            if time.monotonic() > until:
                raise BrickyardError(
                    f"{self.array.name}: {what} did not begin within {format_seconds(BEGIN_WAIT_S)}: it is {state.name}"
                )
            look.rest()


@contextmanager
def _write_cache(target: str, name: str, manage: bool, host: Host, say: Say) -> Iterator[Held]:
    held = Held(name, target, None, host)
    if write_cache.state_of(target, host) == name:
        yield held
        return
    if not manage:
        raise _caches_need_manage(name, target)
    finish_leftovers(host, say, target)
    drives = write_cache.drive_names(target, host)
    keys = [lock.device_key(f"{host.roots.dev}/{drive}") for drive in drives]
    with lock.held(keys, f"run --condition {name.replace('_', '-')}", f"the write caches below {target}"):
        entry = journal.begin(Purpose(target=target, array=target, condition=name))
        wanted = write_cache.ON if name == "write_cache_on" else write_cache.OFF
        try:
            for drive in drives:
                before = write_cache.setting(host, drive)
                if before != wanted:
                    entry.note(WriteCacheStep(drive=drive, value=before or write_cache.ON))
                    write_cache.switch(host, drive, wanted)
            yield held
        finally:
            _undo(entry, host, say)


def wait_for_normal(array: Array, say: Say, stopped: Callable[[], bool] | None = None) -> None:
    """Until the array is normal again; Ctrl-C leaves it to go on by itself."""
    began = told = time.monotonic()
    idle_since: float | None = None
    look = Pace()
    try:
        while (state := look(array)).name != "normal":
            if stopped is not None and stopped():
                say(f"{array.name}: {state.name}, not waited for; it goes on by itself")
                return
            now = time.monotonic()
            if state.name in UNDER_WAY:
                idle_since = None
            elif idle_since is None:
                idle_since = now
            elif now - idle_since > BEGIN_WAIT_S:
                raise BrickyardError(f"{array.name}: stays {state.name}; look at it with `brickyard array show`")
            if now - told >= SAY_EVERY_S:
                told = now
                say(f"{array.name}: {state.name} {format_percent(state.progress_share)}, waiting until it is normal")
            look.rest()
    except KeyboardInterrupt:
        say(f"{array.name}: not waited for; it goes on by itself")
        return
    array.settle()
    if time.monotonic() - began >= SAY_EVERY_S:
        say(f"{array.name}: normal again after {format_seconds(time.monotonic() - began)}")


def scrub_through(array: Array, rate_bytes_per_s: int | None, say: Say) -> Sheet:
    """A scrub from its start to its end at a rate that is taken back afterwards, also where this is killed.

    Ctrl-C stops the scrub. Returns how the array stands then, with what the scrub found.
    """
    with hold(
        array.name,
        "scrubbing",
        manage=True,
        rate_bytes_per_s=rate_bytes_per_s,
        array=array.name,
        say=say,
        verb="array scrub",
    ) as held:
        held.begin()
        told, look = time.monotonic(), Pace()
        while (state := look(array)).name in UNDER_WAY:
            if time.monotonic() - told >= SAY_EVERY_S:
                told = time.monotonic()
                say(f"{array.name}: {state.name} {format_percent(state.progress_share)}")
            look.rest()
        return array.sheet()


def _plain(name: str) -> str:
    return name.replace("_", " ")
