"""Duty: the watch itself: look, tell, keep what was told, serve metrics, scrub when it is due.

Refusal: a notice that could not be sent is kept and sent later; nothing is told twice, also after a restart.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

import msgspec

from brickyard import outputs
from brickyard.arrays.alarms import AlarmBook
from brickyard.arrays.health import Notice, channel_test
from brickyard.arrays.host import Host
from brickyard.arrays.inventory import disks
from brickyard.arrays.keys import read_key
from brickyard.arrays.looking import DRIVES_EVERY_S, Seen, look, look_at_store
from brickyard.arrays.metrics import exposition
from brickyard.arrays.notify import Channel
from brickyard.arrays.scrubs import ScrubBook, ScrubPlan
from brickyard.arrays.trends import TrendBook
from brickyard.arrays.watching import ArrayWatcher, WatchMemory
from brickyard.errors import BadInputError, BrickyardError
from brickyard.ready import ready

RETRY_S = 3600.0  # whoever stopped a scrub, or a load that held it up, has an hour before it is begun anew
MARK = re.compile(rb'\A{"memory": ')
UNSENT_MAX = 1000  # of one channel; the oldest go first

Say = Callable[[str], None]


class Scrubbing(Protocol):
    """A scrub that goes on; entered it has begun, left it is over or given up."""

    def begin(self) -> None: ...


@dataclass
class Schedule:
    """Arrays are scrubbed in turn, one at a time, each again after a span; one that was interrupted is not done."""

    every_s: float | None
    """Of each array that has no plan of its own; None scrubs only those that have one."""
    start: Callable[[str, int | None], AbstractContextManager[Scrubbing]]
    """By the name of an array and the most bytes a second, None for as fast as the array goes."""
    running: tuple[str, AbstractContextManager[Scrubbing]] | None = None
    tried_s: dict[str, float] = field(default_factory=dict)
    """When each array's turn came last, whatever became of it."""

    book: ScrubBook | None = None
    """Plans of single arrays, which count before `every_s`; read at each look, since people change them."""

    def look(self, seen: Seen, last: dict[str, float], now_s: float, say: Say) -> None:
        """`last` says when each array was last scrubbed to the end; an array that is new is due at once."""
        plans = {} if self.book is None else self.book.all()
        of_all = None if self.every_s is None else ScrubPlan(self.every_s)
        planned = {sheet.name: plans.get(sheet.key, of_all) for sheet in seen.arrays}
        if self.running is not None:
            name = self.running[0]
            sheet = next((sheet for sheet in seen.arrays if sheet.name == name), None)
            plan = planned.get(name)
            if sheet is not None and sheet.state.name == "scrubbing":
                if plan is not None and plan.is_open(now_s):
                    return
                why = "its window of the day is over" if plan is not None else "it is scheduled no more"
                self.stop()
                say(f"{name}: the scheduled scrub was stopped before its end: {why}")
                return
            self.stop()
            done = sheet is not None and sheet.state.name == "normal" and sheet.scrub.complete is not False
            if done:
                last[name] = now_s
            say(f"{name}: the scheduled scrub {'is over' if done else 'is not complete; it is tried again'}")
        due = [
            sheet.name
            for sheet in seen.arrays
            if sheet.state.name == "normal" and self._is_due(sheet.name, planned[sheet.name], last, now_s)
        ]
        for name in sorted(due, key=lambda name: last.get(name, 0.0)):
            self.tried_s[name] = now_s
            plan = planned[name]
            entered = self.start(name, None if plan is None else plan.rate_bytes_per_s)
            try:
                entered.__enter__().begin()
            except BrickyardError as error:
                say(f"{name}: no scrub: {error}")
                continue
            self.running = (name, entered)
            say(f"{name}: the scheduled scrub has begun")
            return

    def _is_due(self, name: str, plan: ScrubPlan | None, last: dict[str, float], now_s: float) -> bool:
        """A clock that was set back makes nothing due for ever: what was last done in the future counts as never."""
        if plan is None or not plan.is_open(now_s):
            return False
        done_s, tried_s = last.get(name, 0.0), self.tried_s.get(name, 0.0)
        done_ago_s = now_s - done_s if done_s <= now_s else plan.every_s
        tried_ago_s = now_s - tried_s if tried_s <= now_s else RETRY_S
        return done_ago_s >= plan.every_s and tried_ago_s >= min(RETRY_S, plan.every_s)

    def stop(self) -> None:
        if self.running is not None:
            entered = self.running[1]
            self.running = None
            entered.__exit__(None, None, None)


class Kept(msgspec.Struct, kw_only=True):
    """What outlives the watch, as its file has it."""

    memory: WatchMemory
    scrubbed: dict[str, float] = msgspec.field(default_factory=dict)
    unsent: dict[str, list[Notice]] = msgspec.field(default_factory=dict)


@dataclass
class Guard:
    watcher: ArrayWatcher
    channels: Sequence[Channel]
    say: Say
    place: Path | None = None
    host: Host = field(default_factory=Host)
    schedule: Schedule | None = None
    book: AlarmBook | None = None
    """Where alarms are kept, with what people have said to them; without it each notice is sent as it comes."""
    every_s: float = 30.0
    """How often it looks, which whoever reads the alarms must know."""
    remind_s: float | None = None
    trends: TrendBook | None = None
    store: Path | None = None
    """The store of runs, which is looked at with the drives."""
    left: Callable[[], dict[str, str]] = dict
    """What killed runs have left, by the arrays' identities."""
    scrubbed: dict[str, float] = field(default_factory=dict)
    unsent: dict[str, list[Notice]] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    told: list[Notice] = field(default_factory=list)
    _drives_at_s: float = float("-inf")
    _complained: set[str] = field(default_factory=set)

    def load(self) -> None:
        """What was told before a restart; without a place nothing is kept."""
        if self.place is None or not self.place.exists():
            return
        try:
            kept = msgspec.json.decode(self.place.read_bytes(), type=Kept, dec_hook=read_key)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise BadInputError(
                f"{self.place}: is not what a watch keeps ({error}); move it away, or name another with --state"
            ) from error
        self.watcher.memory, self.scrubbed, self.unsent = kept.memory, kept.scrubbed, kept.unsent

    def save(self) -> None:
        if self.place is None:
            return
        kept = Kept(memory=self.watcher.memory, scrubbed=self.scrubbed, unsent=self.unsent)
        try:
            outputs.folder(self.place.parent)
            outputs.write_whole(self.place, json.dumps(msgspec.to_builtins(kept, enc_hook=str)), MARK)
        except OSError as error:
            raise BrickyardError(
                f"{self.place}: cannot be written: {error.strerror}; name another with --state"
            ) from error

    def look(self) -> list[Notice]:
        """One look, with everything that follows from it."""
        with_drives = time.monotonic() - self._drives_at_s >= DRIVES_EVERY_S
        seen = look(self.host, drives=with_drives)
        if with_drives:
            self._drives_at_s = time.monotonic()
            store = None if self.store is None else look_at_store(self.store)
            seen = replace(seen, store=store)
            self._keep_trends(seen)
        else:
            seen = replace(seen, drives=self.seen.drives, store=self.seen.store)
        self.seen = seen = replace(seen, left=self.left())
        fresh = seen if with_drives else replace(seen, drives=())
        if self.book is not None:
            self._test(self.book)
        notices = self.watcher.look(fresh, with_drives=with_drives)
        for problem in seen.problems:
            self._complain(problem)
        for notice in notices:
            self.say(f"{notice.severity}: {notice.text}")
        self.told += notices
        self._send(notices if self.book is None else self._alarmed(self.book, notices, seen))
        if self.schedule is not None:
            self.schedule.look(seen, self.scrubbed, time.time(), self.say)
        self.save()
        return notices

    def _keep_trends(self, seen: Seen) -> None:
        if self.trends is None or not seen.drives:
            return
        known = {disk.name: disk.identity for disk in disks(self.host)}
        try:
            told = {known.get(drive.name, drive.name): drive.told for drive in seen.drives}
            for text in self.trends.take(told, time.time()):
                self._complain(text)
        except OSError as error:
            self._complain(f"{self.trends.place}: the trends cannot be kept: {error.strerror}")

    def _test(self, book: AlarmBook) -> None:
        """A test message that somebody asked for on the page, by every way."""
        asked = book.begin(
            [channel.name for channel in self.channels], manages=self.schedule is not None, every_s=self.every_s
        )
        if asked is None:
            return
        lines = []
        for channel in self.channels:
            try:
                channel.send(channel_test(f"a test message for {asked.by}; nothing is wrong"))
                lines.append(f"{channel.name}: sent")
            except BrickyardError as error:
                lines.append(f"{channel.name}: {error}")
        book.tested(lines, time.time())

    def _alarmed(self, book: AlarmBook, notices: list[Notice], seen: Seen) -> list[Notice]:
        """What is to be sent: neither what is our own doing, nor what somebody has acknowledged."""
        names = {sheet.key: sheet.name for sheet in seen.arrays}
        silent = {names[key]: f"held by {holder.words}" for key, holder in seen.holders.items() if key in names}
        if self.schedule is not None and self.schedule.running is not None:
            silent.setdefault(self.schedule.running[0], "its scheduled scrub is under way")
        now_s = time.time()
        sent = book.take(notices, silent, now_s)
        return sent if self.remind_s is None else [*sent, *book.remind(self.remind_s, now_s)]

    def _send(self, notices: list[Notice]) -> None:
        for number, channel in enumerate(self.channels, 1):
            name = f"{channel.name} {number}"  # an address may hold a secret, which is not to be kept
            waiting = [*self.unsent.get(name, []), *notices]
            while waiting:
                try:
                    channel.send(waiting[0])
                except BrickyardError as error:
                    self._complain(f"{error}; it is tried again")
                    break
                waiting.pop(0)
            self.unsent[name] = waiting[-UNSENT_MAX:]

    def _complain(self, words: str) -> None:
        if words not in self._complained:
            self._complained.add(words)
            self.say(words)

    def metrics(self) -> str:
        return exposition(self.seen, self.watcher.healths())


def serve_metrics(guard: Guard, address: str) -> ThreadingHTTPServer:
    """Answers GET /metrics until it is shut down."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535 or not host:
        raise BadInputError(f"--listen {address}: write HOST:PORT, such as 127.0.0.1:9777")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_metrics = self.path.split("?")[0] == "/metrics"
            body = guard.metrics().encode() if is_metrics else b"metrics are at /metrics\n"
            self.send_response(200 if is_metrics else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Scrapes are not worth a line each."""

    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise BadInputError(f"--listen {address}: {error.strerror}; choose another address") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


ready(Kept)
