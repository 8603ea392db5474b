"""Duty: burn-in of many devices at once: a run for each, an error log for each, health before and after, and an account
that outlives a kill or a restart, so that the next session goes on where this one ended.

Refusal: no device's failure ends another's burn-in, and no error is left out of the account for want of a description.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from brickyard import _core, facts, outputs
from brickyard.analysis.judging.caveats_run import DAMAGE_WORDS, damage_text
from brickyard.errors import BadInputError, one_line
from brickyard.facts.target import drives
from brickyard.ready import ready
from brickyard.schema import (
    CoreSilent,
    Counted,
    End,
    ErrorEvent,
    ErrorKind,
    Fill,
    HangEvent,
    Interval,
    PhaseEnd,
    PhaseStart,
    RunFacts,
    RunOptions,
    RunOutcome,
    Start,
    Told,
    encode,
    failed_end,
    plan_text,
    told,
    words_of,
)
from brickyard.schema.plan import Plan
from brickyard.schema.target_sheet import HealthSheet
from brickyard.store import Store
from brickyard.store.damage import DamagedRunError
from brickyard.store.process import own_process
from brickyard.store.record import ended_as
from brickyard.study.running import circumstances, summaries
from brickyard.study.running.interrupt import Interrupt
from brickyard.units import format_count, format_size

ROUND_MS = 20  # of each device's events in turn; an interval of a burn-in lasts 10 s
WORSE = ("passed", "reallocated_sectors", "media_errors", "critical_warning")  # a change of these fails the device
TEXT_MARK = re.compile(rb"\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ ")
LINES_MARK = re.compile(rb'\A{"time": "')
ACCOUNT_MARK = re.compile(rb'\A{"device": "')


class DriveHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What a drive says of itself, of which `WORSE` fail it."""

    passed: bool | None = None
    reallocated_sectors: int | None = None
    media_errors: int | None = None
    critical_warning: int | None = None
    available_spare_percent: int | None = None
    percentage_used: int | None = None
    temperature_celsius: int | None = None
    power_on_hours: int | None = None
    bytes_written: int | None = None


class BurnCounts(msgspec.Struct):
    """What was done and found, over all sessions."""

    filled_bytes: int = 0
    """Written before a session's first phase, where nothing was written yet; in no other count."""
    written_bytes: int = 0
    read_bytes: int = 0
    errors: int = 0
    hangs: int = 0
    undescribed_failures: int = 0
    """Reads of damaged blocks or errors; which of both is known when a phase ends, so they stay after a kill."""
    checked_blocks: int = 0
    damaged_blocks: int = 0


class Damage(msgspec.Struct, frozen=True):
    """A line of the error log: what a person reads, and the document that other programs read."""

    kind: str
    text: str
    document: dict[str, object]
    where: str = ""
    """Empty of what has no place."""


class _Judged(msgspec.Struct):
    """What counts of an earlier account."""

    verdict: str | None = None


@dataclass
class Account:
    """What is known of one device over all its sessions; a JSON file."""

    device: str
    planned_ns: int
    burned_ns: int = 0
    counts: BurnCounts = field(default_factory=BurnCounts)
    runs: list[int] = field(default_factory=list)
    before: list[DriveHealth] = field(default_factory=list)
    after: list[DriveHealth] = field(default_factory=list)
    refused: str = ""
    data_bytes: int = 0
    """What of the device is burned in; 0 in accounts from before this was kept."""
    blocks: int = 0
    """Of what is burned in; 0 before a session has ended in order, and in older accounts."""
    checked_once_blocks: int = 0
    """Over all sessions; each counts once, however often it was checked."""
    earlier: list[dict[str, object]] = field(default_factory=list)
    """Accounts of burn-ins of this device that were over or given up when this one began, with their verdicts."""

    @property
    def is_over(self) -> bool:
        return self.burned_ns >= self.planned_ns

    @property
    def changed(self) -> list[str]:
        """Health that differs, one text a value."""
        return [
            f"{key} {getattr(was, key)} → {getattr(now, key)}"
            for was, now in zip(self.before, self.after, strict=False)
            for key in DriveHealth.__struct_fields__
            if getattr(was, key) != getattr(now, key)
        ]

    @property
    def verdict(self) -> str:
        """`pass` only when all of the time is burned, something was checked, and no earlier burn-in failed."""
        counts = self.counts
        failures = counts.errors + counts.hangs + counts.damaged_blocks + counts.undescribed_failures
        worse = any(
            getattr(was, key) != getattr(now, key)
            for was, now in zip(self.before, self.after, strict=False)
            for key in WORSE
        )
        if self.refused or failures or worse:
            return "fail"
        if not self.is_over:
            return "unfinished"
        if not self.counts.checked_blocks:
            return "not checked"
        return "failed before" if self.failed_before else "pass"

    @property
    def read_share(self) -> float | None:
        """Bytes read ÷ bytes of the device, however often each was read."""
        return self.counts.read_bytes / self.data_bytes if self.data_bytes else None

    @property
    def checked_share(self) -> float | None:
        """Of the blocks, those that were held at least once against what had been written there: a read checks nothing
        before the block was written."""
        return self.checked_once_blocks / self.blocks if self.blocks else None

    @property
    def failed_before(self) -> int:
        """Earlier burn-ins that failed."""
        return sum(msgspec.convert(one, _Judged).verdict == "fail" for one in self.earlier)

    def anew(self, planned_ns: int) -> Account:
        """The account of another burn-in of the device, which keeps this one."""
        if not self.runs:
            return Account(self.device, planned_ns, earlier=self.earlier)
        own = {key: value for key, value in msgspec.to_builtins(self.document()).items() if key != "earlier"}
        return Account(self.device, planned_ns, earlier=[*self.earlier, own])

    @property
    def tells_health(self) -> bool:
        """Whether any of its drives said anything of itself at the end."""
        return any(value is not None for drive in self.after for value in structs.astuple(drive))

    def document(self) -> dict[str, object]:
        judged = {
            "changed": self.changed,
            "read_share": self.read_share,
            "checked_share": self.checked_share,
            "verdict": self.verdict,
        }
        return {**self.__dict__, **judged}


class Log:
    """The error log of one device: a line a person reads, and the same as a line of JSON; and its account."""

    def __init__(self, place: Path, device: str) -> None:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", device).strip("-")
        self.text, self.lines, self.account = (place / f"{name}.{end}" for end in ("log", "jsonl", "json"))
        # What was written last to every block, so that the next session checks what this one wrote.
        self.generations = place / f"{name}.generations"
        self._aside = place / f"{name}.generations.old"
        self._made = False

    def make_room(self, *, anew: bool) -> None:
        """A place for generations. Those of an earlier burn-in are put aside until the new one has begun."""
        if anew and self.generations.exists():
            _remove_folder(self._aside)
            outputs.rename_folder(self.generations, self._aside.name)
        self._made = not self.generations.exists()
        outputs.folder(self.generations)

    def begun(self, *, anew: bool) -> None:
        if anew:
            # The error log stays: what was found once may not come up again, and is true nevertheless.
            _remove_folder(self._aside)

    def refused(self) -> None:
        """As if nobody had asked."""
        if self._made:
            _remove_folder(self.generations)
        if self._aside.exists():
            outputs.rename_folder(self._aside, self.generations.name)

    def add(self, found: Damage, unix_ns: int) -> None:
        moment = datetime.fromtimestamp(unix_ns / 1e9, UTC)
        words = ": ".join(filter(None, (found.kind, found.where, one_line(found.text))))
        said = f"{moment:%Y-%m-%d %H:%M:%S.%f} {words}\n"
        kept = {"time": moment.isoformat(), **found.document}
        outputs.append_to(self.text, said.encode(), TEXT_MARK)
        outputs.append_to(self.lines, (json.dumps(kept) + "\n").encode(), LINES_MARK)

    def load(self) -> Account | None:
        try:
            return msgspec.json.decode(self.account.read_bytes(), type=Account)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise BadInputError(
                f"{self.account}: not an account of a burn-in ({one_line(error)}); move it away to begin anew"
            ) from error

    def save(self, account: Account) -> None:
        """Whole or not at all, also when the power fails."""
        text = json.dumps(account.__dict__, default=msgspec.to_builtins)
        outputs.write_whole(self.account, text, ACCOUNT_MARK, durable=True)


def _remove_folder(path: Path) -> None:
    """Of generations that no longer count; what cannot be removed is removed by hand."""
    with suppress(OSError):
        held = outputs.held_folder(path)
        try:
            outputs.remove_folder(path, held)
        finally:
            os.close(held)


@dataclass
class BurnFailures:
    """Requests of the phase under way that failed: those that read damaged blocks, those that did not, and those of
    which it is not known yet."""

    damaged: int = 0
    other: int = 0
    undescribed: int = 0

    @property
    def total(self) -> int:
        return self.damaged + self.other + self.undescribed


@dataclass
class Burning:
    """One device under way. `note` is for the moment at which its burn-in begins."""

    account: Account
    log: Log
    note: str = ""
    handle: Any = None
    run: int = 0
    start_unix_ns: int = 0
    burned_before_ns: int = 0
    phase_start_ns: int = 0
    fill: Fill | None = None
    """What the last event said of it; None once the first phase has begun."""
    told: BurnFailures = field(default_factory=BurnFailures)
    """Those that were described."""
    counted: BurnFailures = field(default_factory=BurnFailures)
    """As they are in the account."""
    over: bool = False


def health_of(device: str) -> list[DriveHealth]:
    """What the drives below a target say of themselves; empty where they say nothing."""
    sheets = [drive.health or HealthSheet() for drive in drives(facts.collect_target(device))]
    return [msgspec.convert(sheet, DriveHealth, from_attributes=True) for sheet in sheets]


class BurnIn:
    """All devices of one session, in one loop."""

    def __init__(
        self, store: Store, interrupt: Interrupt, say: Callable[[Burning], None], note: Callable[[str], None]
    ) -> None:
        self.store, self.interrupt, self.say, self.note = store, interrupt, say, note
        self.burning: list[Burning] = []

    # A second signal abandons what the first one stopped; both reach every device.
    def stop(self) -> None:
        for one in self.burning:
            if one.handle is not None:
                one.handle.stop()

    def abandon(self) -> None:
        for one in self.burning:
            if one.handle is not None:
                one.handle.abandon()

    def run(self, plan_of: Callable[[int], Plan], burning: list[Burning], options: RunOptions) -> list[Account]:
        """`plan_of` makes the plan for the time that is left."""
        self.burning = burning
        for one in self.burning:
            one.account.refused = ""
            if not one.account.is_over:
                self._begin(one, plan_of(one.account.planned_ns - one.account.burned_ns), options)
        self.interrupt.attach(self)
        try:
            while live := [one for one in self.burning if one.handle is not None and not one.over]:
                for one in live:
                    self._listen(one)
                self.interrupt.heed(self.note)
        finally:
            self.interrupt.attach(None)
            self.abandon()
        for one in self.burning:
            if one.handle is not None:
                one.account.after = health_of(one.account.device)
                one.log.save(one.account)
        return [one.account for one in self.burning]

    def _begin(self, one: Burning, plan: Plan, options: RunOptions) -> None:
        device = one.account.device
        # Each session has addresses of its own; with one seed, each would do again what the first one did.
        plan = structs.replace(plan, seed=plan.seed + len(one.account.runs))
        one.burned_before_ns, text = one.account.burned_ns, plan_text(plan)
        if not one.account.before:
            one.account.before = health_of(device)
        anew = not one.account.runs
        try:
            one.log.make_room(anew=anew)
            kept = structs.replace(options, verify_keep=str(one.log.generations))
            one.handle = _core.start(text, [device], encode(kept))
        except (ValueError, RuntimeError, OSError) as error:
            one.account.refused = one_line(error)
            one.log.refused()
            return
        one.log.begun(anew=anew)
        if one.note:
            self.note(one.note)
        found = facts.collect(device)
        one.run = self.store.add_run(
            profile="burn-in",
            profile_hash=hashlib.sha256(text.encode()).hexdigest(),
            plan=plan,
            condition="normal",
            targets=[device],
            options=options,
            software_version=_core.version(),
            facts=RunFacts(host=found.host, targets=[found.target], process=own_process()),
        )
        one.account.runs.append(one.run)
        one.log.save(one.account)

    def _listen(self, one: Burning) -> None:
        events = [told(text) for text in one.handle.events(ROUND_MS)]
        end = next((item.event for item in events if isinstance(item.event, End)), None)
        kept = [item for item in events if not isinstance(item.event, End)]
        if kept:
            self.store.add_events(one.run, kept)
        for item in kept:
            self._take(one, item)
        if end is not None or one.handle.finished():
            end = end or failed_end(CoreSilent())
            if end.outcome is RunOutcome.FAILED:
                one.account.refused = words_of(end.message)
            self._keep_end(one.run, end)
            one.over = True
            one.log.save(one.account)

    def _keep_end(self, run: int, end: End) -> None:
        """With the warnings and figures that any run is kept with. Nothing is watched beside it: the devices burn at
        once, and each would be foreign load beside the others."""
        try:
            record = self.store.record(run)
        except DamagedRunError:
            self.store.end_run(run, end, None, [])
            return
        self.store.end_run(run, end, None, circumstances.warnings(self.store, record, []))
        if end.outcome is not RunOutcome.FAILED:
            ended = replace(record.info, outcome=ended_as(end.outcome))
            summaries.keep(self.store, replace(record, info=ended))

    def _take(self, one: Burning, item: Told) -> None:
        match item.event:
            case Start() as start:
                one.start_unix_ns = start.start_unix_ns
                one.account.data_bytes = start.targets[0].data_bytes
            case Fill() as fill:
                self._fill(one, fill)
            case PhaseStart() as phase:
                one.phase_start_ns, one.fill = phase.start_ns, None
                one.told, one.counted = BurnFailures(), BurnFailures()
            case Interval() as interval:
                self._interval(one, interval)
            case ErrorEvent() as error:
                is_damage = error.kind is ErrorKind.DAMAGE
                one.told.damaged += is_damage
                one.told.other += not is_damage
                # Before the first phase the device is filled, which tells no intervals.
                one.account.counts.errors += not one.phase_start_ns
                found = Damage(error.kind, damage_text(error.text), json.loads(item.text), _place(error))
                one.log.add(found, one.start_unix_ns + error.at_ns)
            case HangEvent() as hang:
                one.account.counts.hangs += 1
                said = f"outstanding for {hang.outstanding_ns / 1e9:.1f} s"
                document = {**json.loads(item.text), "kind": "hang", "text": said}
                found = Damage("hang", said, document, _place(hang))
                one.log.add(found, one.start_unix_ns + hang.at_ns)
            case PhaseEnd() as end:
                self._phase_end(one, end)

    def _fill(self, one: Burning, fill: Fill) -> None:
        if one.fill is None:
            size = format_size(fill.total_bytes - fill.done_bytes)
            self.note(
                f"{one.account.device}: {size} that are not known to hold data are filled before the burn-in begins"
            )
        else:
            one.account.counts.filled_bytes += fill.done_bytes - one.fill.done_bytes
            one.fill = fill
            self.say(one)
        one.fill = fill

    def _interval(self, one: Burning, interval: Interval) -> None:
        counts = one.account.counts
        failed = one.counted.total + sum(cell.errors for cell in interval.cells)
        damaged = min(failed, one.told.damaged)
        other = min(failed - damaged, one.told.other)
        _count(one, BurnFailures(damaged, other, failed - damaged - other))
        for cell in interval.cells:
            if cell.operation is Counted.READ:
                counts.read_bytes += cell.bytes
            elif cell.operation is Counted.WRITE:
                counts.written_bytes += cell.bytes
        if not interval.drain:
            one.account.burned_ns = one.burned_before_ns + interval.end_ns - one.phase_start_ns
        one.log.save(one.account)
        self.say(one)

    def _phase_end(self, one: Burning, end: PhaseEnd) -> None:
        damaged = sum(number for kind, number in end.errors_by_kind.items() if kind in DAMAGE_WORDS)
        failed = BurnFailures(damaged, sum(end.errors_by_kind.values()) - damaged)
        _count(one, failed)
        if end.verified is not None:
            one.account.counts.checked_blocks += end.verified.checked_blocks
            # What came back damaged counts by its blocks.
            one.account.counts.damaged_blocks += end.verified.damaged_blocks - failed.damaged
            if (covered := end.verified.covered) is not None:
                one.account.blocks, one.account.checked_once_blocks = covered.blocks, covered.checked_once_blocks
        for noun, more in (
            ("reads of damaged blocks", failed.damaged - one.told.damaged),
            ("failed requests", failed.other - one.told.other),
        ):
            if more > 0:
                rest = f"{format_count(more)} further {noun} were counted and not described"
                one.log.add(Damage("more", rest, {"kind": "more", "text": rest}), time.time_ns())


def _count(one: Burning, failed: BurnFailures) -> None:
    """In the place of what was counted of the phase so far."""
    counts = one.account.counts
    counts.damaged_blocks += failed.damaged - one.counted.damaged
    counts.errors += failed.other - one.counted.other
    counts.undescribed_failures += failed.undescribed - one.counted.undescribed
    one.counted = failed


def _place(event: ErrorEvent | HangEvent) -> str:
    return f"{event.operation} of {event.request_bytes} bytes at {event.offset_bytes}"


ready(DriveHealth, Account, _Judged)
