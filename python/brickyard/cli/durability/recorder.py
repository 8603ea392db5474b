"""Duty: `brickyard recorder`. Refusal: what is kept, and when it is answered, is decided in `brickyard.honesty`."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr
from brickyard.errors import one_line
from brickyard.honesty.journal import Journal
from brickyard.honesty.recorder import DEFAULT_ADDRESS, Recorder, parse_address


def recorder(
    *,
    listen: Annotated[str, Parameter(help="Address to which writers connect: HOST:PORT.")] = DEFAULT_ADDRESS,
    file: Annotated[Path, Parameter(validator=options.FILE, help="File for the record.")] = Path(
        "brickyard-recorder.log"
    ),
    json: options.Json = False,
) -> int:
    """Record, on another host, which writes the writers report as acknowledged; ends with Ctrl-C."""
    host, port = parse_address(listen)
    journal = Journal(file)
    try:
        service = Recorder(journal)
        asyncio.run(_until_signal(service, host, port))
    finally:
        journal.close()
    served = service.served
    if json:
        emit({"file": str(file), "runs": served.runs, "writes": served.writes, "known_before": journal.known})
    else:
        _say(f"{served.writes:,} acknowledged writes of {served.runs:,} runs are in {file}")
    return 0


async def _until_signal(service: Recorder, host: str, port: int) -> None:
    def listening(at: str, on: int) -> None:
        torn = (
            f"; {service.journal.torn_bytes} bytes of an incomplete record at the end were cut off"
            if service.journal.torn_bytes
            else ""
        )
        _say(f"listening on {at}:{on}, {service.journal.known:,} writes known from earlier sessions{torn}")

    task = asyncio.ensure_future(service.serve(host, port, listening))
    loop = asyncio.get_running_loop()
    said: set[str] = set()

    def once(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """What goes wrong with single connections, one line a kind; what the file cannot take ends the recorder."""
        text = one_line(context.get("exception") or context["message"])
        if text not in said:
            said.add(text)
            _say(f"a connection failed: {text}")

    loop.set_exception_handler(once)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


def _say(text: str) -> None:
    print_line(stderr(), text)
