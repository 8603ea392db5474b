"""Duty: the witness on another host: keeps what writers say was acknowledged, and answers once it is durable here.

Each line that comes is appended to the file and flushed before it is answered; lines of several writers share a flush.
A connection has one line under way, so memory is bounded by the number of connections.

Refusal: it judges nothing, and trusts no line whose checksum does not fit.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable
from dataclasses import dataclass

from brickyard.errors import BadInputError, BrickyardError
from brickyard.honesty.journal import LINE_BYTES_MAX, Journal, RunEntry, parse

DEFAULT_ADDRESS = "127.0.0.1:7788"
CONNECTIONS_MAX = 1024  # a writer has one
DESCRIPTORS_KEPT = 32  # for the file, the listening socket, and whatever the interpreter opens
OK, REFUSED = b"ok\n", b"refused\n"


def parse_address(text: str) -> tuple[str, int]:
    """`host:port`, `[::1]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise BadInputError(f"{text}: not an address; write HOST:PORT, such as 192.0.2.7:7788")
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass
class Served:
    runs: int = 0
    writes: int = 0


class Recorder:
    """Serves until it is cancelled, or until its file fails."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.served = Served()
        self._waiting: asyncio.Queue[tuple[bytes, asyncio.Future[None]]] = asyncio.Queue(CONNECTIONS_MAX)
        self._connections = 0
        self._most = max(1, min(CONNECTIONS_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - DESCRIPTORS_KEPT))

    async def serve(self, host: str, port: int, listening: Callable[[str, int], None]) -> None:
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=LINE_BYTES_MAX)
        except OSError as error:
            why = error.strerror or str(error)
            raise BadInputError(f"{host}:{port}: cannot be listened on: {why}; name another with --listen") from error
        try:
            address = server.sockets[0].getsockname()
            listening(address[0], address[1])
            await self._commit()
        finally:
            # Not waited for: a writer that stays connected must not keep the recorder from ending.
            server.close()

    async def _commit(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            await asyncio.to_thread(self.journal.append, [line for line, _ in batch])
            for _, answered in batch:
                if not answered.done():
                    answered.set_result(None)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= self._most:
                await self._converse(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a writer that dies in the middle of a line has said nothing
        finally:
            self._connections -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            line = await reader.readuntil(b"\n")
            entry = parse(line)
            if entry is None:
                writer.write(REFUSED)
                await writer.drain()
                return
            answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            await self._waiting.put((line, answered))
            await answered
            if isinstance(entry, RunEntry):
                self.served.runs += 1
            else:
                self.served.writes += 1
            writer.write(OK)
            await writer.drain()


class RecorderError(BrickyardError):
    """The recorder cannot be reached, or did not keep what it was told."""
