"""Duty: one look at the store for all browsers: what it finds is written once and read by each at its own pace.

A browser that connects gets the whole state, and then every change after it. One that comes back says how far it was;
what came since is sent, or the whole state where that is no longer known, so that nothing is missing and nothing comes
twice. Refusal: nothing is kept for a browser that does not read: it is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from brickyard.errors import BrickyardError, one_line
from brickyard.following import MOMENTS_MAX, Followed, Follower, Moment, RunChange, WholeFigures

LOOK_EVERY_S = 0.5
"""An interval is in the store within 250 ms of its end; a picture of it is wanted within a second."""
IDLE_EVERY_S = 2.0
"""While nobody watches."""
HEARTBEAT_S = 15.0
SEND_S = 10.0
"""A browser that has taken nothing for so long is let go."""
RETRY_MS = 1000
"""When a browser that has lost the server asks again; most take 3 s by themselves."""
KEPT = 2_000
BROWSERS_MAX = 250


class RunState(msgspec.Struct, frozen=True):
    """A run that goes on, or has just ended."""

    run: int
    profile: str
    title: str
    targets: list[str]
    condition: str
    outcome: str
    message: str
    phase: str
    began_ns: int
    planned_ns: int | None
    done_share: float | None
    left_s: float | None
    virtual: bool
    whole: WholeFigures | None
    notes: list[str]
    warnings: list[str]
    array: str
    created_unix_ns: int


def run_state(followed: Followed) -> RunState:
    info = followed.info
    return RunState(
        run=info.id,
        profile=info.profile,
        title=str(info.title or info.profile),
        targets=info.targets,
        condition=", then ".join([info.condition.replace("_", " "), *followed.conditions]),
        outcome=info.outcome,
        message=info.message if followed.is_over else "",
        phase=followed.phase,
        began_ns=followed.began_ns,
        planned_ns=followed.planned,
        done_share=followed.done_share,
        left_s=followed.left_s,
        virtual=followed.is_modelled,
        whole=followed.whole,
        notes=followed.notes,
        warnings=[warning.text for warning in info.warnings],
        array=followed.condition,
        created_unix_ns=info.created_unix_ns,
    )


class Hub:
    """Looks while the server runs. `others` tells what else is shown live: jobs, alarms."""

    def __init__(self, follower: Follower, others: Callable[[], Mapping[str, object]] = dict) -> None:
        self.follower = follower
        self.instance = secrets.token_hex(4)
        self.browsers = 0
        self.trouble = ""
        self._others = others
        self._told: dict[str, bytes] = {}
        self._log: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._shown: dict[int, tuple[RunState, list[Moment]]] = {}
        """Runs as the events up to the last number have them; the follower may be ahead."""
        self._number = 0
        self._news = asyncio.Event()
        self._is_over = False
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="looking")
        """One thread, since a connection of SQLite belongs to the thread that made it."""

    def close(self) -> None:
        """All streams end, so that the server need not wait for browsers."""
        self._is_over = True
        self._news.set()

    async def end(self) -> None:
        """After the last look."""
        await asyncio.get_running_loop().run_in_executor(self._looking, self.follower.close)
        self._looking.shutdown()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            began_s = time.monotonic()
            events = await asyncio.get_running_loop().run_in_executor(self._looking, self._look)
            for kind, body in events:
                self._number += 1
                self._keep(body)
                self._log.append((self._number, self._event(kind, body, self._number)))
            if events:
                self._news.set()
                self._news = asyncio.Event()
            every_s = LOOK_EVERY_S if self.browsers or self.follower.runs else IDLE_EVERY_S
            await asyncio.sleep(max(0.05, every_s - (time.monotonic() - began_s)))

    def _look(self) -> list[tuple[str, Any]]:
        events: list[tuple[str, Any]] = []
        trouble = ""
        try:
            before = set(self.follower.runs)
            changes = self.follower.look()
            after = set(self.follower.runs)
            # A run that came and went within one look, as the cells of a study may, is nobody's news.
            events += [("run", _told(change)) for change in changes if change.run.info.id in before | after]
            events += [("gone", Gone(run)) for run in sorted(before - after)]
        except (sqlite3.Error, BrickyardError, OSError) as error:
            trouble = f"the store cannot be read now: {one_line(error)}"
            self.follower.close()
        if trouble != self.trouble:
            self.trouble = trouble
            events.append(("trouble", {"text": trouble}))
        for name, value in self._others().items():
            encoded = msgspec.json.encode(value)
            if self._told.get(name) != encoded:
                self._told[name] = encoded
                events.append((name, value))
        return events

    def _keep(self, body: Any) -> None:
        if isinstance(body, RunNews):
            before = self._shown.get(body.state.run)
            moments = [*(before[1] if before else []), *body.moments][-MOMENTS_MAX:]
            self._shown[body.state.run] = (body.state, moments)
        elif isinstance(body, Gone):
            self._shown.pop(body.run, None)

    def runs(self) -> list[RunNews]:
        """With all that is shown of each."""
        return [RunNews(state, shown, True) for state, shown in self._shown.values()]

    def state(self) -> dict[str, object]:
        """Everything as it is now."""
        return {"runs": self.runs(), "trouble": self.trouble, **{k: msgspec.Raw(v) for k, v in self._told.items()}}

    def _event(self, kind: str, body: Any, number: int) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
            self.instance.encode(),
            number,
            kind.encode(),
            msgspec.json.encode(body),
        )

    async def events(self, last: str) -> AsyncIterator[bytes]:
        """From where a browser was, if that is known, else from the whole state."""
        at = self._known(last)
        if at is None:
            at = self._number
            yield self._event("state", self.state(), at)
        while not self._is_over:
            news = self._news
            if self._log and self._log[0][0] > at + 1:  # it was too slow, and what it missed is gone
                at = self._number
                yield self._event("state", self.state(), at)
                continue
            missed = [(number, body) for number, body in self._log if number > at]
            if missed:
                at = missed[-1][0]
                yield b"".join(body for _, body in missed)
                continue
            try:
                await asyncio.wait_for(news.wait(), HEARTBEAT_S)
            except TimeoutError:
                yield b": still here\n\n"

    def _known(self, last: str) -> int | None:
        instance, _, number = last.partition("-")
        if instance != self.instance or not number.isdecimal() or len(number) > 15:
            return None
        at = int(number)
        first = self._log[0][0] if self._log else self._number + 1
        return at if first - 1 <= at <= self._number else None


class RunNews(msgspec.Struct, frozen=True):
    """A run with what it has added; its notes are in its state."""

    state: RunState
    moments: list[Moment]
    new: bool


class Gone(msgspec.Struct, frozen=True):
    """A run that ended a while ago."""

    run: int


def _told(change: RunChange) -> RunNews:
    return RunNews(run_state(change.run), change.moments, change.is_new)


class EventStream:
    """An answer that lasts as long as the browser reads and its session is open."""

    def __init__(self, hub: Hub, last: str, is_open: Callable[[], bool]) -> None:
        self.hub, self.last, self.is_open = hub, last, is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self.hub.browsers += 1
        tasks = [asyncio.create_task(_disconnected(receive)), asyncio.create_task(self._pump(send))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.hub.browsers -= 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, send: Send) -> None:
        with contextlib.suppress(TimeoutError, OSError):  # it does not read
            head = b"retry: %d\n" % RETRY_MS
            async for chunk in self.hub.events(self.last):
                if not self.is_open():
                    break
                body = head + chunk
                await asyncio.wait_for(send({"type": "http.response.body", "body": body, "more_body": True}), SEND_S)
                head = b""
            await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SEND_S)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
