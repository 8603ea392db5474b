"""Duty: `brickyard array watch`. Refusal: what is worth a notice is decided in `brickyard.arrays.watching`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from brickyard import conditions
from brickyard.arrays import notify
from brickyard.arrays.alarms import AlarmBook
from brickyard.arrays.guarding import Guard, Schedule, serve_metrics
from brickyard.arrays.health import channel_test
from brickyard.arrays.scrubs import ScrubBook
from brickyard.arrays.trends import TrendBook
from brickyard.arrays.watching import ArrayWatcher
from brickyard.cli.parts import options
from brickyard.cli.parts.conditioning import parse_rate
from brickyard.cli.parts.output import emit, print_line, stderr
from brickyard.conditions import journal
from brickyard.errors import DONE, FAILED, BadInputError, BrickyardError
from brickyard.managing import alarm_place
from brickyard.reading import span_seconds
from brickyard.store import default_place

ONCE_EVERY_S = 300.0
"""Whoever starts single checks by a timer may do so this seldom, and still counts as a watch."""


def watch(
    *,
    every: Annotated[str, Parameter(help="Time between checks, such as 30s or 5min.")] = "30s",
    once: Annotated[
        bool, Parameter(negative="", show_default=False, help="Check once, send the resulting notices, and end.")
    ] = False,
    full: Annotated[float, Parameter(help="Used space from which a file system counts as full, in per cent.")] = 95,
    mail_to: Annotated[
        tuple[str, ...], Parameter(negative="", show_default=False, help="A recipient of mail. May be repeated.")
    ] = (),
    mail_from: Annotated[str | None, Parameter(help="The sender of the mail.")] = None,
    smtp: Annotated[
        str, Parameter(help="The mail server: HOST or HOST:PORT; 465 is TLS from the start.")
    ] = "localhost",
    smtp_user: Annotated[
        str | None,
        Parameter(help="The user on the mail server; the password is read from BRICKYARD_SMTP_PASSWORD or a file."),
    ] = None,
    smtp_password_file: Annotated[
        Path | None,
        Parameter(
            validator=options.READ,
            help="File with the password of the mail server; only its owner may be able to read it.",
        ),
    ] = None,
    webhook: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="A URL to which each notice is posted as JSON."),
    ] = (),
    run: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="A command to run for each notice, which it gets on standard input; without a shell, so > and | need "
            "`sh -c`.",
        ),
    ] = (),
    listen: Annotated[str | None, Parameter(help="Serve Prometheus metrics at HOST:PORT/metrics.")] = None,
    apprise_file: Annotated[
        Path | None,
        Parameter(
            validator=options.READ,
            help="A file of Apprise addresses (mailto://, ntfy:// …), one per line; only its owner may be able to "
            "read it.",
        ),
    ] = None,
    test: Annotated[
        bool, Parameter(negative="", show_default=False, help="Send one test message through every channel, and end.")
    ] = False,
    remind_every: Annotated[
        str | None, Parameter(help="Send an alarm again at this interval, such as 24h, until somebody acknowledges it.")
    ] = None,
    scrub_every: Annotated[
        str | None, Parameter(help="Scrub each array at this interval, such as 30d; needs --manage.")
    ] = None,
    scrub_rate: Annotated[
        str | None, Parameter(help="The most bytes per second that a scrub reads, such as 20MiB.")
    ] = None,
    manage: options.Manage = False,
    store: options.StorePlace = None,
    state: Annotated[
        Path | None, Parameter(validator=options.FILE, help="File that records which events were already reported.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Watch for degraded arrays, rebuilds, errors, failing drives, full and read-only file systems; report each event
    once.

    Ends with Ctrl-C.
    """
    if not 1 <= full <= 100:
        raise BadInputError(f"--full {full:g}: a share between 1 and 100 per cent")
    if scrub_every and not manage:
        raise BadInputError("--scrub-every: scrubs arrays, which needs --manage")
    if scrub_every and once:
        raise BadInputError("--scrub-every: a scrub takes longer than one check; leave --once out")
    if scrub_rate and not scrub_every:
        raise BadInputError("--scrub-rate: needs --scrub-every")
    every_s = span_s("--every", every)
    channels: list[notify.Channel] = []
    if mail_to:
        channels.append(notify.mail(mail_to, mail_from, smtp, smtp_user, smtp_password_file))
    channels += [notify.webhook(address) for address in webhook]
    channels += [notify.command(line) for line in run]
    channels += [] if apprise_file is None else [notify.relay(apprise_file)]
    console = stderr()

    def say(text: str) -> None:
        print_line(console, text)

    if test:
        return _test(channels, say)
    schedule = None
    home = state.parent if state is not None else journal.user_home().parent
    place = state or home / "watch.json"
    if manage and not once:
        rate = parse_rate(scrub_rate, "--scrub-rate")
        schedule = Schedule(
            span_s("--scrub-every", scrub_every) if scrub_every else None,
            lambda name, own: conditions.hold(
                name, "scrubbing", manage=True, rate_bytes_per_s=own or rate, array=name, say=say, verb="array watch"
            ),
            book=ScrubBook(home / "scrubs.json"),
        )
    # A state of its own has alarms of its own; the page shows those of the usual place.
    book = AlarmBook(alarm_place() if state is None else state.with_suffix(".alarms.json"))
    remind_s = None if remind_every is None else span_s("--remind-every", remind_every)
    guard = Guard(
        ArrayWatcher(full / 100),
        channels,
        say,
        place,
        schedule=schedule,
        book=book,
        every_s=max(every_s, ONCE_EVERY_S) if once else every_s,
        remind_s=remind_s,
        trends=TrendBook(home / "health.json"),
        store=store or default_place(),
        left=_left,
    )
    guard.load()
    looks = _look_until_stopped(guard, every_s, once, listen)
    if json:
        emit({"looks": looks, "notices": msgspec.to_builtins(guard.told, enc_hook=str)})
    return DONE


def _test(channels: list[notify.Channel], say: Callable[[str], None]) -> int:
    if not channels:
        raise BadInputError("--test: name a channel to send it through, such as --mail-to or --apprise-file")
    failed = 0
    for channel in channels:
        try:
            channel.send(channel_test("a test message of brickyard array watch; nothing is wrong"))
            say(f"{channel.name}: sent")
        except BrickyardError as error:
            failed += 1
            say(f"{channel.name}: {error}")
    return FAILED if failed else DONE


def _left() -> dict[str, str]:
    known = {identity for entry in conditions.leftovers() for identity in entry.identities}
    return {identity: conditions.left_of(identity) for identity in known}


def _look_until_stopped(guard: Guard, every_s: float, once: bool, listen: str | None) -> int:
    looks = 0
    with _stopped() as stopped:
        server = serve_metrics(guard, listen) if listen else None
        try:
            while not stopped.is_set():
                guard.look()
                looks += 1
                if looks == 1 and server is not None:
                    guard.say("metrics are served at http://{}:{}/metrics".format(*server.server_address[:2]))
                if once:
                    break
                stopped.wait(every_s)
        finally:
            if guard.schedule is not None:
                guard.schedule.stop()
            if server is not None:
                server.shutdown()
                server.server_close()
    return looks


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    event = threading.Event()
    before = {number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def span_s(option: str, text: str) -> float:
    if not (seconds := span_seconds(text)):
        raise BadInputError(f"{option} {text}: write a duration such as 30s, 5min, 12h or 30d")
    return float(seconds)
