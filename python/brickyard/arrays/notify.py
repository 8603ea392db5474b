"""Duty: send a notice by mail, to a webhook, or to a command.

Refusal: no password is taken from a command line, and none is ever told or kept.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import smtplib
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from brickyard.arrays.health import Notice
from brickyard.errors import BadInputError, BrickyardError, one_line

PASSWORD_VARIABLE = "BRICKYARD_SMTP_PASSWORD"  # noqa: S105
TIMEOUT_S = 20.0  # a mail server that takes longer to answer is taken for dead; it is tried again at the next look
SMTP_PORT, SMTPS_PORT = 25, 465  # RFC 5321; RFC 8314


class Channel(Protocol):
    @property
    def name(self) -> str: ...

    def send(self, notice: Notice) -> None:
        """Raises BrickyardError where the notice has not gone out."""


def document(notice: Notice) -> str:
    return json.dumps({"host": socket.gethostname(), **asdict(notice)}, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class Mail:
    recipients: Sequence[str]
    sender: str
    host: str
    port: int
    user: str | None = None
    password: str | None = None
    name: str = "mail"

    def __repr__(self) -> str:
        return f"Mail(to={self.recipients}, by={self.host}:{self.port})"

    def send(self, notice: Notice) -> None:
        message = EmailMessage()
        # A mount point may have any name; a header must be one line.
        message["Subject"] = one_line(f"[brickyard {socket.gethostname()}] {notice.severity}: {notice.text}")
        message["From"], message["To"] = self.sender, ", ".join(self.recipients)
        message.set_content(f"{notice.text}\n\nhost: {socket.gethostname()}\nevent: {notice.key} ({notice.kind})\n")
        try:
            with self._connected() as server:
                if self.user:
                    server.login(self.user, self.password or "")
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            raise BrickyardError(f"mail by {self.host}:{self.port}: {one_line(error)}") from error

    def _connected(self) -> smtplib.SMTP:
        """With a password only through TLS, except to this very host."""
        if self.port == SMTPS_PORT:
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=ssl.create_default_context())
        server = smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S)
        try:
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls(context=ssl.create_default_context())
                server.ehlo()
            elif self.user and self.host not in ("127.0.0.1", "::1", "localhost"):
                raise smtplib.SMTPException("the server offers no TLS, and the password is not sent in the clear")
        except BaseException:
            server.close()
            raise
        return server


@dataclass(frozen=True)
class Webhook:
    address: str
    name: str = "webhook"

    def send(self, notice: Notice) -> None:
        request = urllib.request.Request(  # noqa: S310
            self.address, data=document(notice).encode(), headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310
                return
        except (OSError, urllib.error.URLError, ValueError) as error:
            raise BrickyardError(f"webhook at {urlsplit(self.address).hostname}: {one_line(error)}") from error


@dataclass(frozen=True)
class Command:
    words: Sequence[str]
    name: str = "command"

    def send(self, notice: Notice) -> None:
        """The notice is on its standard input as JSON, and its parts are in the environment."""
        parts = {f"BRICKYARD_{key.upper()}": str(value) for key, value in asdict(notice).items()}
        environment = {key: value for key, value in os.environ.items() if key != PASSWORD_VARIABLE}
        try:
            done = subprocess.run(
                list(self.words),
                input=document(notice).encode(),
                capture_output=True,
                timeout=TIMEOUT_S,
                env={**environment, **parts},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrickyardError(f"{self.words[0]}: {one_line(error)}") from error
        if done.returncode != 0:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise BrickyardError(f"{self.words[0]}: exit code {done.returncode}{f': {said}' if said else ''}")


@dataclass(frozen=True)
class Relay:
    """By Apprise, to whatever its addresses name. They hold passwords and are never told."""

    addresses: tuple[str, ...]
    name: str = "apprise"

    def __repr__(self) -> str:
        return f"Relay({len(self.addresses)} addresses)"

    def send(self, notice: Notice) -> None:
        import apprise

        sender = apprise.Apprise()
        for address in self.addresses:
            sender.add(address)
        kinds = {"error": apprise.NotifyType.FAILURE, "warning": apprise.NotifyType.WARNING}
        title = one_line(f"[brickyard {socket.gethostname()}] {notice.severity}")
        if not sender.notify(body=notice.text, title=title, notify_type=kinds.get(notice.severity, "info")):
            raise BrickyardError(f"Apprise: not all of {len(self.addresses)} addresses took the message")


def relay(file: Path) -> Relay:
    """Apprise's addresses, one a line; lines that begin with # are comments."""
    try:
        import apprise
    except ImportError as error:
        raise BadInputError("--apprise-file: needs Apprise; install brickyard[alarms]") from error
    lines = [line.strip() for line in _private(file).splitlines()]
    addresses = tuple(line for line in lines if line and not line.startswith("#"))
    wrong = next((n for n, one in enumerate(addresses, 1) if not apprise.Apprise.instantiate(one)), None)
    if wrong is not None or not addresses:
        which = "no address is in it" if wrong is None else f"address {wrong} is not one that Apprise knows"
        raise BadInputError(f"{file}: {which}; write lines such as mailto://user:password@example.org")
    return Relay(addresses)


def mail(
    recipients: Sequence[str], sender: str | None, server: str, user: str | None, password_file: Path | None
) -> Mail:
    host, _, port = server.rpartition(":") if ":" in server else (server, "", str(SMTP_PORT))
    if not port.isdigit() or not host:
        raise BadInputError(f"--smtp {server}: write HOST or HOST:PORT")
    named = [*recipients, *([sender] if sender else [])]
    bad = next((word for word in named if not re.fullmatch(r"[^@\s,]{1,64}@[^@\s,]{1,255}", word)), None)
    if bad is not None:
        raise BadInputError(f"{bad!r}: is no address for mail")
    password = None
    if user is not None:
        password = _password(password_file)
    return Mail(recipients, sender or f"brickyard@{socket.gethostname()}", host, int(port), user, password)


def _password(file: Path | None) -> str:
    if file is None:
        password = os.environ.get(PASSWORD_VARIABLE)
        if password is None:
            raise BadInputError(f"--smtp-user: needs the password in {PASSWORD_VARIABLE} or in --smtp-password-file")
        return password
    return _private(file).rstrip("\n")


def _private(file: Path) -> str:
    """The text of a file that only its owner can read."""
    try:
        if file.stat().st_mode & 0o077:
            raise BadInputError(f"{file}: others can read it; chmod 600 {file}")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: cannot be read; check the path") from error


def webhook(address: str) -> Webhook:
    if not address.startswith(("http://", "https://")):
        raise BadInputError(f"--webhook {address}: write http://… or https://…")
    return Webhook(address)


def command(line: str) -> Command:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise BadInputError(f"--run {line}: {error}") from error
    if not words:
        raise BadInputError("--run: names no program")
    return Command(words)
