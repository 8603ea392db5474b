"""Requests that cost much run beside all others: beyond a few they are refused at once, and nobody else waits for
them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from brickyard import browsing, modelling
from brickyard.errors import BadInputError
from brickyard.web import serve
from web_support import READER, Client, serving

MANY = 45
"""More than there are threads for all handlers together."""
ADVICE = {"workload": "exchange-2007", "require": ["p99<=20ms"]}


class Slow:
    """In the place of a function that takes long: it ends when it is told to."""

    def __init__(self) -> None:
        self.ends = Event()
        self.began = 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.began += 1
        assert self.ends.wait(60)
        raise BadInputError("it was made to end")


def advice(client: Client) -> int:
    return client.post("/api/advice", ADVICE).status


def report(client: Client) -> int:
    return client.get("/download/html?runs=1").status


def comparison(client: Client) -> int:
    return client.get("/api/compare?before=1&after=2").status


@pytest.mark.parametrize(
    ("room", "name", "ask", "at_once", "waiting"),
    [
        (modelling, "advise", advice, 1, 4),
        (browsing, "downloaded", report, 2, 4),
        (browsing, "compared", comparison, 2, 8),
    ],
    ids=["advice", "reports", "comparisons"],
)
def test_many_slow_requests_stop_no_page(
    room: Any,
    name: str,
    ask: Callable[[Client], int],
    at_once: int,
    waiting: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow()
    monkeypatch.setattr(room, name, slow)
    with serving(tmp_path) as served, ThreadPoolExecutor(MANY) as pool:
        operator, reader = served.login(), served.login(READER)
        who = operator if ask is advice else reader
        try:
            asked = [pool.submit(ask, who) for _ in range(MANY)]
            refused = MANY - at_once - waiting
            until_s = time.monotonic() + 20
            while sum(one.done() for one in asked) < refused and time.monotonic() < until_s:
                time.sleep(0.02)
            assert operator.post("/api/jobs/0123456789abcdef/stop", {}).status in (404, 409)
            assert reader.get("/alarms").status == 200
            assert [one.result() for one in asked if one.done()] == [503] * refused
            assert slow.began == at_once
        finally:
            slow.ends.set()
        assert sorted(one.result() for one in asked) == [400] * (at_once + waiting) + [503] * refused


def test_the_end_of_the_server_waits_for_no_slow_request_and_logs_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, logged = Slow(), list[logging.LogRecord]()
    monkeypatch.setattr(modelling, "advise", slow)
    monkeypatch.setattr(serve, "GRACE_S", 1)

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record)

    keeping = Keeping()
    with ThreadPoolExecutor(5) as pool:
        try:
            with serving(tmp_path) as served:
                logging.getLogger("uvicorn.error").addHandler(keeping)
                client = served.login()
                asked = [pool.submit(advice, client) for _ in range(5)]
                until_s = time.monotonic() + 20
                while not slow.began and time.monotonic() < until_s:
                    time.sleep(0.02)
            assert {one.result() for one in asked} == {503}
        finally:
            slow.ends.set()
            logging.getLogger("uvicorn.error").removeHandler(keeping)
    assert [record.exc_info for record in logged if record.exc_info] == []
