"""Duty: parse, call, print: one module a verb.

Refusal: no measuring and no arithmetic. An error is one line on stderr and an exit code, never a traceback.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import sqlite3
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from brickyard.errors import BAD_INPUT, FAILED, INTERRUPTED, BrickyardError, one_line
from brickyard.printable import json_text, printable

if TYPE_CHECKING:
    import cyclopts

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
        return _complain(given, one_line(error), error.exit_code, error)
    except KeyboardInterrupt as error:
        return _complain(given, "interrupted", INTERRUPTED, error)
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain again while it flushes at exit.
        from brickyard.outputs import silence_stdout

        silence_stdout()
        return FAILED
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
    try:
        result = app(
            _with_stdin(given),
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
            result_action="return_value",
        )
    except cyclopts.CycloptsError as error:
        said = _habit(given, error) or f"{_parse_words(error)} {_meant(given, error)}"
        return _complain(given, said, BAD_INPUT, error)
    return result if isinstance(result, int) else 0


def _verbs() -> list[str]:
    from brickyard.cli.app import app

    return [name for name in app if not name.startswith("-")]


KEYS_OF_OPTIONS = {
    "duration": "duration", "time": "duration", "depth": "depth", "qd": "depth", "queue-depth": "depth",
    "workers": "workers", "threads": "workers", "request": "request", "size-of-request": "request", "seed": "seed",
    "warmup": "warmup", "io": "io", "address": "address", "operations": "operations", "region": "region",
}  # fmt: skip
"""What people write as options of a run, with the key of a profile that means it."""
ENDS = (
    "--runtime ends a run; in a profile, a phase can also end after passes, bytes or requests (--save p.toml, "
    "then edit it)."
)
PROGRESS = (
    "Leave it out: progress is on stderr, as a bar in a terminal or a line every 5 s; brickyard export has each second."
)
HABITS = {
    "name": "A run has no job name here: leave it out.",
    "filename": "Name the file or device itself, without an option.",
    "directory": "Name the file itself, without an option; --scratch DIRECTORY makes one there and removes it.",
    "ioengine": "Write --engine, or leave it out: io_uring is used where the host has it.",
    "time-based": "Leave it out: --runtime alone ends the run.",
    "group-reporting": "Leave it out: all workers of a run are reported together.",
    "output-format": "Write --json, or export a run with brickyard export.",
    "output": "Write a report with brickyard report RUN -o NAME.",
    "norandommap": 'Leave it out, or write a profile with address = "random".',
    "rate-iops": "Write --rate 5000: requests/s of all jobs together.",
    "buffered": "Write --direct 0 to go through the page cache.",
    "rwmixwrite": "Write --rwmixread, the share of reads.",
    "verify": "Write a profile with verify = true (--save p.toml, then change it there).",
    "offset": 'Write a profile with region = "1GiB..100%" (--save p.toml, then change it there).',
    "io-size": ENDS,
    "loops": ENDS,
    "number-ios": ENDS,
    "write-lat-log": "Leave it out: every interval is in the record, and brickyard export writes it.",
    "write-bw-log": "Leave it out: every interval is in the record, and brickyard export writes it.",
    "write-iops-log": "Leave it out: every interval is in the record, and brickyard export writes it.",
    "percentile-list": "Leave it out: every latency is kept, and all percentiles that have enough samples are shown.",
    "lat-percentiles": "Leave it out: service and response time both have percentiles.",
    "refill-buffers": "Leave it out: the data written are always unique.",
    "randrepeat": "Leave it out: the same seed gives the same requests (--set seed=7 for others).",
    "thread": "Leave it out: workers share the process.",
    "eta": PROGRESS,
    "eta-newline": PROGRESS,
    "status-interval": PROGRESS,
    "minimal": "Write --json, or export a run with brickyard export.",
}
"""Options of fio that a load in its words does not have, with what to do instead."""


def _parse_words(error: cyclopts.CycloptsError) -> str:
    import cyclopts

    if isinstance(error, cyclopts.UnusedCliTokensError):
        return f"Too many arguments: {' '.join(error.unused_tokens or ())}."
    return one_line(error)


UNKNOWN = re.compile(r"[Uu]nknown option: \"?--([\w-]+)")


def _habit(given: Sequence[str], error: Exception) -> str:
    """What replaces an option of fio; a guess by its letters would name an option that means something else."""
    found = UNKNOWN.search(str(error))
    remedy = HABITS.get(found[1].replace("_", "-")) if found and given[:1] == ["run"] else None
    return f"Unknown option: --{found[1]}. {remedy}" if found and remedy else ""


def _meant(given: Sequence[str], error: Exception) -> str:
    """Where an unknown option is a key of a profile: how to set it."""
    found = UNKNOWN.search(str(error))
    key = KEYS_OF_OPTIONS.get(found[1]) if found else None
    if key is None or given[:1] == ["runs"]:
        verb = f" {given[0]}" if given and given[0] in _verbs() else ""
        return f"See brickyard{verb} --help."
    return f"To change a key of the profile, write --set {key}=VALUE."


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
