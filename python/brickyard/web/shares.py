"""Duty: requests that cost much run beside all others: so many of a kind at once, a few more wait, and one beyond that
is refused at once. Refusal: nothing else ever waits for them, neither another page nor the end of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from threading import Thread
from typing import Any


class BusyError(Exception):
    """So many are under way that this one is not even waited for."""


class Share:
    """One kind of costly requests of a server."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._most = at_once + waiting
        self._inside = 0
        self._turn = asyncio.Semaphore(at_once)

    async def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        """What the function gives back, from a thread of its own. Whoever waits here holds no thread."""
        if self._inside >= self._most:
            raise BusyError
        self._inside += 1
        try:
            async with self._turn:
                return await _beside(function, *arguments)
        finally:
            self._inside -= 1


async def _beside(function: Callable[..., Any], *arguments: object) -> Any:
    """In a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[Any] = loop.create_future()

    def tell(made: Any, error: BaseException | None) -> None:
        if told.cancelled():
            return
        if error is None:
            told.set_result(made)
        else:
            told.set_exception(error)

    def work() -> None:
        made, failed = None, None
        try:
            made = function(*arguments)
        except Exception as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(tell, made, failed)

    Thread(target=work, name="costly", daemon=True).start()
    return await told
