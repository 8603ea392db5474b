"""Duty: who is logged in: sessions that end by themselves, kept across restarts by their hashes alone, and a limit on
how often a login may be tried. Refusal: no token and no session is written or logged.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import msgspec

from brickyard import outputs
from brickyard.errors import BrickyardError
from brickyard.ready import ready
from brickyard.web.tokens import Role, Tokens

MARK = re.compile(rb'\A{"sessions":')
IDLE_S = 3600.0
LIFE_S = 12 * 3600.0
SESSIONS_MAX = 500
SAVED_EVERY_S = 60.0
"""How old the instant of the last use may be on disk."""
TRIES, TRIES_S = 5, 60.0
"""Failed logins of one address in a minute, after which it has to wait."""
ALL_TRIES = 60
"""Of all addresses together."""


class Session(msgspec.Struct):
    """Kept by the hash of its identifier."""

    role: Role
    csrf: str
    began_s: float
    used_s: float
    name: str
    """A short word for logs: nobody can log in with it."""
    address: str = ""
    """From where it was logged in."""
    program: bool = False
    """Found by a token that came with the request itself; such a session is never kept."""

    @property
    def who(self) -> str:
        return f"{self.role} {self.name} at {self.address}" if self.address else f"{self.role} {self.name}"


class _Kept(msgspec.Struct):
    sessions: dict[str, Session]
    tokens: str = ""


class Sessions:
    """The sessions of one server."""

    def __init__(self, tokens: Tokens, place: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.tokens = tokens
        self._place = place
        self._clock = clock
        self._lock = Lock()
        self._open: dict[str, Session] = {}
        self._saved_s = 0.0
        self._tries: dict[str, deque[float]] = {}
        self._all_tries: deque[float] = deque(maxlen=ALL_TRIES)
        self._load()

    def login(self, token: str, address: str) -> tuple[str, Session] | None:
        """A new session, or None where the token is nobody's."""
        role = self.tokens.role(token)
        if role is None:
            self._failed(address)
            return None
        identifier = secrets.token_urlsafe(32)
        now = self._clock()
        session = Session(role, secrets.token_urlsafe(32), now, now, secrets.token_hex(3), address)
        with self._lock:
            self._end_old(now)
            if len(self._open) >= SESSIONS_MAX:
                del self._open[min(self._open, key=lambda key: self._open[key].used_s)]
            self._open[_hash(identifier)] = session
            self._save(now)
        return identifier, session

    def bearer(self, token: str, address: str) -> Role | None:
        """The role of a program that sends its token with each request."""
        role = self.tokens.role(token)
        if role is None:
            self._failed(address)
        return role

    def find(self, identifier: str, *, is_use: bool = True) -> Session | None:
        """The session of a cookie, which is used by this, unless a page only looked by itself."""
        if not identifier:
            return None
        now = self._clock()
        with self._lock:
            self._end_old(now)
            session = self._open.get(_hash(identifier))
            if session is not None and is_use:
                session.used_s = max(session.used_s, now)
                if now - self._saved_s > SAVED_EVERY_S:
                    self._save(now)
            return session

    def is_open(self, session: Session) -> bool:
        """Whether it has not ended meanwhile; this is no use of it."""
        now = self._clock()
        with self._lock:
            self._end_old(now)
            return any(one is session for one in self._open.values())

    def logout(self, identifier: str) -> None:
        with self._lock:
            self._open.pop(_hash(identifier), None)
            self._save(self._clock())

    def may_try(self, address: str) -> bool:
        now = self._clock()
        with self._lock:
            tries = self._tries.get(address, deque())
            recent = [moment for moment in tries if 0 <= now - moment < TRIES_S]
            of_all = [moment for moment in self._all_tries if 0 <= now - moment < TRIES_S]
            return len(recent) < TRIES and len(of_all) < ALL_TRIES

    def _failed(self, address: str) -> None:
        now = self._clock()
        with self._lock:
            self._tries.setdefault(address, deque(maxlen=TRIES)).append(now)
            self._all_tries.append(now)
            for old in [key for key, tries in self._tries.items() if now - tries[-1] > TRIES_S]:
                del self._tries[old]

    def _end_old(self, now: float) -> None:
        for key, session in list(self._open.items()):
            idle, life = now - session.used_s, now - session.began_s
            # A clock that was set back would let a session live on; one from the future has no age.
            if idle > IDLE_S or life > LIFE_S or life < -IDLE_S:
                del self._open[key]

    def _load(self) -> None:
        if self._place is None:
            return
        try:
            kept = msgspec.json.decode(self._place.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            return  # whoever was logged in logs in again
        if hmac.compare_digest(kept.tokens, self._of_tokens()):
            self._open = {key: one for key, one in kept.sessions.items() if one.role in self.tokens.of}

    def _save(self, now: float) -> None:
        self._saved_s = now
        if self._place is None:
            return
        kept = _Kept(self._open, self._of_tokens())
        # On a full disk people can log in all the same; they do so again after a restart.
        with contextlib.suppress(OSError, BrickyardError):
            outputs.folder(self._place.parent)
            outputs.write_whole(self._place, msgspec.json.encode(kept), MARK, mode=0o600)

    def _of_tokens(self) -> str:
        """New tokens end all sessions."""
        return _hash("\n".join(f"{role} {token}" for role, token in sorted(self.tokens.of.items())))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


ready(_Kept)
