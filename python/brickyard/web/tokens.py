"""Duty: the file of tokens by which people log in: a line for each role. Refusal: a file that others can read, or whose
tokens could be guessed, is not taken.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from brickyard import outputs
from brickyard.errors import BadInputError

MARK = re.compile(rb"\A# tokens of brickyard web\n")
TOKEN_BYTES = 32
TOKEN_LETTERS_MIN = 32  # 128 bits as hexadecimal digits, more in any other alphabet
DISTINCT_MIN = 8
"""Different letters of a token: one that a person repeated is none."""


class Role(StrEnum):
    READER = "reader"
    """Sees everything, changes nothing."""
    OPERATOR = "operator"
    """Starts and stops runs, writes notes, and manages arrays where the server may."""


@dataclass(frozen=True)
class Tokens:
    """By role."""

    of: dict[Role, str]

    def role(self, given: str) -> Role | None:
        """Whose token it is; each comparison takes the same time, whatever was given."""
        shown = given.encode("utf-8", "replace")
        found = [role for role, token in self.of.items() if hmac.compare_digest(shown, token.encode())]
        return found[0] if found else None


def read_or_make(place: Path) -> Tokens:
    """The tokens of a file; one that is not there is made, for its owner alone."""
    if not os.path.lexists(place):
        outputs.folder(place.parent)
        lines = [f"{role} {secrets.token_hex(TOKEN_BYTES)}" for role in (Role.OPERATOR, Role.READER)]
        text = "# tokens of brickyard web\n" + "\n".join(lines) + "\n"
        outputs.write_whole(place, text, durable=True, mode=0o600)
    return read(place)


def read(place: Path) -> Tokens:
    try:
        with place.open(encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid not in (os.geteuid(), 0):
                raise BadInputError(f"{place}: others could read or write the tokens in it; chmod 600 {place}")
            lines = file.read(65_536).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{place}: the tokens cannot be read from it; check the path") from error
    known: dict[Role, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(operator|reader) (\S+)", line.strip())
        if match is None:
            raise BadInputError(f"{place}: line {number}: write operator TOKEN or reader TOKEN")
        if len(match[2]) < TOKEN_LETTERS_MIN or len(set(match[2])) < DISTINCT_MIN:
            raise BadInputError(
                f"{place}: line {number}: the token could be guessed; at least {TOKEN_LETTERS_MIN} random letters,"
                " such as from `openssl rand -hex 32`"
            )
        if Role(match[1]) in known:
            raise BadInputError(f"{place}: line {number}: a second token of the {match[1]}; leave one of them")
        known[Role(match[1])] = match[2]
    if not known:
        raise BadInputError(f"{place}: holds no token; write operator TOKEN or reader TOKEN")
    if len(set(known.values())) < len(known):
        raise BadInputError(f"{place}: operator and reader share a token; give each one of its own")
    return Tokens(known)
