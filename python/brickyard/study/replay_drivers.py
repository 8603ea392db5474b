"""Duty: the drivers of a replay, each its own process, as one run: their intervals merge, their ends add up.

Refusal: nothing is measured here. A password goes down a pipe and nowhere else.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TextIO

from brickyard import _core
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.store import Json

READY_S = 120.0  # logs are probed and hundreds of sessions opened one after another
SORTED_BYTES_PER_S = 2_000_000  # of packed logs, by a busy processor; a sorting driver is waited for so much longer
PATIENCE_S = 1.0  # an interval is told so long after the first driver told it, even if another has not
GO_AFTER_NS = 20_000_000  # drivers begin together, this long after the last is ready
STDIN = "-"  # of the logs, the one that is read once
QUIT_S = 5.0  # a driver that was abandoned ends at once, or is killed
DRAIN_S = 5.0  # a database answers in this time what it was asked, or it hangs
SAY_AFTER_S = 0.5  # an end that needs longer than this is explained


class Drivers:
    """Drivers that are connected and wait; then a run under way, with the face of the core's."""

    def __init__(self, orders: list[Json], start: Json, say: Callable[[str], None], *, sorted_bytes: int = 0) -> None:
        """Starts a process for each order; what one of them refuses is bad input. `say` tells what is waited for.

        `sorted_bytes` is how much log each sorts before it is ready.
        """
        self._ready_s = READY_S + sorted_bytes / SORTED_BYTES_PER_S
        self._told: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self._processes: list[subprocess.Popen[str]] = []
        self._orders: list[TextIO] = []
        self._threads: list[threading.Thread] = []
        self._ended: dict[int, Json] = {}
        self._phase_ends: dict[int, Json] = {}
        self._parts: dict[int, dict[int, str]] = defaultdict(dict)
        self._since: dict[int, float] = {}
        self._told_up_to: dict[int, int] = {}
        self._streams: dict[int, Counter[str]] = defaultdict(Counter)
        self._pending: list[str] = []
        self._finished = False
        self._start = start
        self._say = say
        self._ending = Ending()
        self.ready: list[Json] = []
        try:
            for number, order in enumerate(orders):
                self._spawn(number, order)
            self.ready = [self._awaited() for _ in orders]
        except BaseException:
            self.close()
            raise

    def _spawn(self, number: int, order: Json) -> None:
        taken, given = os.pipe()
        self._orders.append(os.fdopen(given, "w", encoding="utf-8"))
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "brickyard.study.replay_driver", str(taken)],
                stdin=None if STDIN in order["logs"] else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env=os.environ,
                pass_fds=(taken,),
                start_new_session=True,  # Ctrl-C reaches a driver through us
            )
        finally:
            os.close(taken)
        self._processes.append(process)
        thread = threading.Thread(target=self._listen, args=(number, process), daemon=True)
        self._threads.append(thread)
        thread.start()
        self._order(number, json.dumps(order))

    def _listen(self, number: int, process: subprocess.Popen[str]) -> None:
        if process.stdout is not None:
            for line in process.stdout:
                self._told.put((number, line))
        self._told.put((number, None))

    def _order(self, number: int, text: str) -> None:
        with suppress(OSError, ValueError):
            self._orders[number].write(text + "\n")
            self._orders[number].flush()

    def _awaited(self) -> Json:
        """The next driver that is ready."""
        try:
            number, line = self._told.get(timeout=self._ready_s)
        except queue.Empty:
            raise BrickyardError(
                f"a driver was not ready within {self._ready_s:.0f} s; see the database's load"
            ) from None
        if line is None:
            code = self._processes[number].wait()
            raise BrickyardError(f"driver {number + 1} ended before it began (exit code {code}); see its memory")
        word: Json = json.loads(line)
        if word["event"] != "ready":
            kind = BadInputError if word.get("bad_input") else BrickyardError
            raise kind(one_line(str(word.get("message", "a driver refused"))))
        return word

    def go(self) -> None:
        """All begin at the same instant of the clock that the processes of a host share."""
        start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + GO_AFTER_NS
        for number in range(len(self._processes)):
            self._order(number, f"go {start_ns}")
        self._start["start_unix_ns"] = time.time_ns() + GO_AFTER_NS
        phase: Json = {"event": "phase", "phase": 0, "name": self._start.pop("phase_name", ""), "start_ns": 0}
        self._pending = [json.dumps(self._start), json.dumps(phase)]

    def stop(self) -> None:
        self._ending.begin()
        for number in range(len(self._processes)):
            self._order(number, "stop")

    def abandon(self) -> None:
        for number in range(len(self._processes)):
            self._order(number, "abandon")

    def finished(self) -> bool:
        return self._finished

    def events(self, timeout_ms: int) -> list[str]:
        """Events since the last call as JSON; waits up to `timeout_ms` for the first."""
        taken, self._pending = self._pending, []
        wait_s = 0.0 if taken else timeout_ms / 1000
        while not self._finished:
            try:
                number, line = self._told.get(timeout=wait_s) if wait_s else self._told.get_nowait()
            except queue.Empty:
                break
            wait_s = 0.0
            taken += self._heard(number, line)
        if not self._finished:
            self._hurry()
        taken += self._whole_intervals()
        if len(self._ended) == len(self._processes) and not self._finished:
            taken += self._closing()
            self._finished = True
            self.close()
        return taken

    def _hurry(self) -> None:
        """A database that hangs holds nobody: what it has not answered after a while is counted as outstanding."""
        due = self._ending.due()
        if due == "say":
            self._say(
                f"waiting up to {DRAIN_S:.0f} s for calls that the database has not answered; Ctrl-C again ends at once"
            )
        elif due == "abandon":
            self._say(f"the database has not answered within {DRAIN_S:.0f} s; its calls are counted as outstanding")
            self.abandon()
        elif due == "kill":
            for process in self._processes:
                process.kill()

    def _heard(self, number: int, line: str | None) -> list[str]:
        if line is None:
            if number not in self._ended:
                code = self._processes[number].wait()
                message = f"driver {number + 1} of {len(self._processes)} ended unexpectedly (exit code {code})"
                self._ended[number] = {"event": "end", "end_ns": 0, "outcome": "failed", "message": message}
                self.stop()
            return []
        event: Json = json.loads(line)
        kind = event["event"]
        if kind == "interval":
            self._parts[event["index"]][number] = line
            self._since.setdefault(event["index"], time.monotonic())
            self._told_up_to[number] = event["index"]
            return []
        if kind == "phase_end":
            self._phase_ends[number] = event
            return []
        if kind == "end":
            self._ended[number] = event
            if event["outcome"] == "failed":
                self.stop()
            return []
        if kind == "error" and len(self._processes) > 1:
            event["text"] = f"{event['text']} (driver {number + 1})"
        return [json.dumps(event)]

    def _whole_intervals(self) -> list[str]:
        """Intervals that all drivers have told, or for which the others have been waited for long enough."""
        taken = []
        now = time.monotonic()
        for index in sorted(self._parts):
            missing = [
                number
                for number in range(len(self._processes))
                if number not in self._ended and self._told_up_to.get(number, -1) < index
            ]
            if missing and now - self._since[index] < PATIENCE_S:
                break
            parts = self._parts.pop(index)
            self._since.pop(index, None)
            merged = _core.replay_merge([parts[number] for number in sorted(parts)])
            self._count(json.loads(merged))
            taken += [merged, json.dumps(_shares(parts))]
        return taken

    def _count(self, interval: Json) -> None:
        for cell in interval["cells"]:
            self._streams[cell["stream"]].update(rows=cell["rows"], diverged=cell["diverged"])

    def _closing(self) -> list[str]:
        ends = [self._phase_ends[number] for number in sorted(self._phase_ends)]
        failed = [end for end in self._ended.values() if end["outcome"] == "failed"]
        outcome = "failed" if failed else "interrupted"
        if all(end["outcome"] == "done" for end in self._ended.values()):
            outcome = "done"
        end: Json = {
            "event": "end",
            "end_ns": max(int(item["end_ns"]) for item in self._ended.values()),
            "outcome": outcome,
            "message": failed[0]["message"] if failed else "",
        }
        by_stream = [{"stream": stream, **counts} for stream, counts in sorted(self._streams.items())]
        return [*([json.dumps(merged_end(ends, by_stream))] if ends else []), json.dumps(end)]

    def close(self) -> None:
        """Ends all processes that still live."""
        for pipe in self._orders:
            with suppress(OSError, ValueError):
                pipe.close()
        for process in self._processes:
            try:
                process.wait(QUIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self._threads:
            thread.join(QUIT_S)
        for process in self._processes:
            if process.stdout is not None:
                process.stdout.close()


class Ending:
    """What is due, and when, once drivers were told to stop: a word, then no more patience, then force."""

    STEPS = (("say", SAY_AFTER_S), ("abandon", DRAIN_S), ("kill", DRAIN_S + QUIT_S))

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._done = 0

    def begin(self) -> None:
        self._since_s = self._since_s or time.monotonic()

    def due(self) -> str:
        """The next step, once; empty while nothing is due."""
        if self._since_s is None or self._done == len(self.STEPS):
            return ""
        step, after_s = self.STEPS[self._done]
        if time.monotonic() - self._since_s < after_s:
            return ""
        self._done += 1
        return step


def _shares(parts: dict[int, str]) -> Json:
    """What each driver did in one interval."""
    drivers = []
    span: list[int] = []
    for number, text in sorted(parts.items()):
        interval = json.loads(text)
        span += [interval["start_ns"], interval["end_ns"]]
        sums = {key: sum(int(cell[key]) for cell in interval["cells"]) for key in ("requests", "errors", "bytes")}
        busy = interval["loop_busy_share"]
        drivers.append({"driver": number, **sums, "drain": interval["drain"], "loop_busy_share": busy})
    return {"event": "drivers", "phase": 0, "start_ns": min(span), "end_ns": max(span), "drivers": drivers}


def merged_end(ends: list[Json], by_stream: list[Json]) -> Json:
    """The ends of all drivers as that of one phase."""
    replays = [driver for end in ends for driver in end["replay"]["drivers"]]
    bound = [end for end in ends if end["generator_bound"]]
    # The first that was cut off tells more than those whose logs had ended.
    reasons = sorted((str(end["reason"]) for end in ends), key=lambda reason: reason == "end of log")
    return {
        **ends[0],
        "end_ns": max(int(end["end_ns"]) for end in ends),
        "reason": next((reason for reason in reasons if reason not in ("end of log", "duration")), reasons[0]),
        "unsent": sum(int(end["unsent"]) for end in ends),
        "outstanding": sum(int(end["outstanding"]) for end in ends),
        "errors_by_errno": _sum(end["errors_by_errno"] for end in ends),
        "errors_by_kind": _sum(end["errors_by_kind"] for end in ends),
        "cpu": _sum(end["cpu"] for end in ends),
        "generator_bound": bool(bound),
        "generator_bound_reason": bound[0]["generator_bound_reason"] if bound else "",
        "loops": len(ends),
        "loop_busy_share": max(float(end["loop_busy_share"]) for end in ends),
        "replay": {"drivers": replays, "by_stream": by_stream},
    }


def _sum(counts: Iterable[Json]) -> Json:
    total: Counter[str] = Counter()
    for item in counts:
        total.update(item)
    return dict(sorted(total.items()))
