"""Duty: parse, call, print: one module a verb.

Refusal: no measuring and no arithmetic. An error is one line on stderr and an exit code, never a traceback.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from brickyard.errors import (
    BAD_INPUT,
    FAILED,
    INTERRUPTED,
    UNREAD,
    BadInputError,
    BrickyardError,
    NoRequirementError,
    Remedy,
    one_line,
)
from brickyard.printable import json_text, printable

if TYPE_CHECKING:
    from rich.console import Console

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
REMEDIES = {
    errno.EACCES: "choose a place where this account may write, or use an account that may write there",
    errno.EPERM: "choose a place where this account may write, or use an account that may write there",
    errno.EROFS: "choose a place that can be written",
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.ENOENT: "make it first, or name another",
    errno.ENOTDIR: "name another place",
}
DEBUG_VARIABLE = "BRICKYARD_DEBUG"
OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Records are many objects without circles: looking for these as often as is usual costs a report 7 % of its time, and
its peak of memory is the same."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; gives back the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        _hide_passwords(given)
        code = _run(given)
        sys.stdout.flush()
        return code
    except BrickyardError as error:
        return _complain(given, _with_command(given, error), error.exit_code, error)
    except KeyboardInterrupt as error:
        return _complain(given, "interrupted", INTERRUPTED, error)
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain again while it flushes at exit.
        from brickyard.outputs import silence_stdout

        silence_stdout()
        return UNREAD
    except sqlite3.Error as error:
        text = (
            f"the store: {one_line(error)}; its contents are kept; free some space, or name another store with --store"
        )
        return _complain(given, text, FAILED, error)
    except ImportError as error:
        if "_core" not in str(error):
            return _unexpected(given, error)
        return _complain(given, f"the compiled core is missing ({one_line(error)}); build it with `make run`", 2, error)
    except Exception as error:
        if isinstance(error, OSError) and (text := _system_words(error)):
            return _complain(given, text, FAILED, error)
        return _unexpected(given, error)


def _run(given: list[str]) -> int:
    import cyclopts

    from brickyard.cli.app import app

    if any(word.startswith("--check") for word in given):
        from brickyard.cli.parts.judging import spread_check

        given = spread_check(given)
    if given[:1] == ["run"] and {"0", "1"}.intersection(given):
        from brickyard.cli.parts.ad_hoc import joined_flags

        given = joined_flags(given)
    if said := _other_words(given):
        return _complain(given, said, BAD_INPUT, BadInputError(said))
    try:
        result = app(
            _with_stdin(given),
            console=_help_screen(given),
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
            result_action="return_value",
        )
    except NoRequirementError as error:
        from brickyard.cli.parts.judging import no_ruler

        raise no_ruler(given, error) from None
    except cyclopts.CycloptsError as error:
        from brickyard.cli.parts.habits import complaint

        refused = complaint(given, error, Remedy(_see(given)))
        return _complain(given, _with_command(given, refused), BAD_INPUT, error)
    return result if isinstance(result, int) else 0


def _help_screen(given: Sequence[str]) -> Console | None:
    """Where help goes, as other output does when nobody reads it; None where no help is asked for."""
    if given and not {"--help", "-h"}.intersection(given):
        return None
    from brickyard.cli.parts.output import Screen

    return Screen()


def _with_command(given: Sequence[str], error: BrickyardError) -> str:
    from brickyard.cli.parts.pasted import with_command

    return with_command(given, error)


def _other_words(given: list[str]) -> str:
    """Words of another tool that no parser refuses, since they could be names."""
    if not any("=" in word and not word.startswith("-") for word in given):
        return ""
    from brickyard.cli.parts.habits import dd_words

    return dd_words(given)


def _see(given: Sequence[str]) -> str:
    from brickyard.cli.app import app

    words, found = ["brickyard"], app
    for word in given:
        if word.startswith("-") or word not in list(found):
            break
        words, found = [*words, word], found[word]
    return f"See {' '.join(words)} --help."


def _hide_passwords(given: list[str]) -> None:
    """First of all: everybody on the host can read the arguments of a process."""
    dsns = [word for word in given if "://" in word or "password=" in word]
    if dsns:
        from brickyard import _core

        _core.replay_hide_passwords([text.removeprefix("--to=") for text in dsns])


def _with_stdin(given: list[str]) -> list[str]:
    """A lone hyphen is standard input; the parser of options takes it for one."""
    return ["/dev/stdin" if word == "-" else word for word in given] if given[:1] == ["replay"] else given


def _system_words(error: OSError) -> str:
    """What the system refused and what to do about it, for causes that are no mistake of ours."""
    if error.filename is None and error.errno in FULL and _stdout_is_closed():
        return f"standard output: {error.strerror}; free some space or choose another place; what was measured is kept"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many files are open; raise the limit, such as with `ulimit -n 1024`"
    remedy = REMEDIES.get(error.errno or 0)
    return f"{error.filename}: {error.strerror}; {remedy}" if error.filename is not None and remedy else ""


def _stdout_is_closed() -> bool:
    """Whether standard output takes nothing any more; if so, the rest goes nowhere, so that the exit is silent."""
    try:
        print(flush=True)  # what did not fit is forgotten by now, so only another try can tell
    except OSError:
        from brickyard.outputs import silence_stdout

        silence_stdout()
        return True
    return False


def _unexpected(given: list[str], error: BaseException) -> int:
    text = f"unexpected {type(error).__name__}: {one_line(error)}; {DEBUG_VARIABLE}=1 shows where"
    return _complain(given, text, FAILED, error)


def _complain(given: list[str], text: str, code: int, error: BaseException) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    if "--json" in given:
        print(json_text(json.dumps({"error": text, "exit_code": code}, ensure_ascii=False)))
    print(f"brickyard: {printable(text)}", file=sys.stderr)
    return code
