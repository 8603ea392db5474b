"""Duty: command lines of SQLIO 1.5 → a profile, one phase for each in their order.

Refusal: a switch that a profile can't express is refused by its letter.
"""

from __future__ import annotations

import re
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.formats.batch_file import commands, pause_notes
from brickyard.formats.command_load import KIB, MIB, Load, profile_of, refusal, whole_number
from brickyard.formats.fio_job import Imported


def import_sqlio(name: str, text: str, directory: Path, parameters: str | None = None) -> Imported:
    """Command lines of SQLIO 1.5; `-F` files are read beside them, or `parameters` is the text of one."""
    loads = [_sqlio(words, directory) for words in commands(text, "sqlio")]
    if parameters is not None:
        for load in loads:
            load.files = read_parameter_file(parameters)
    loads[0].notes += pause_notes(text)
    return profile_of(name, "SQLIO", loads)


def _sqlio(words: list[str], directory: Path) -> Load:
    # SQLIO's own defaults: -kR -t1 -s30 -f64 -b2 -i64 -BN testfile.dat; -BN is neither the cache nor the drive's.
    load = Load(request_bytes=2 * KIB, write_through=True)
    if not any(word[:2] in ("-f", "/f") for word in words):
        load.notes.append("Without -f, SQLIO goes in stripes of 64 blocks (-f64 -i64); here it is sequential.")
    drives = ""
    for word in sorted(words, key=lambda word: word[1:2] == "S"):  # -S counts blocks of -b
        if word[0] not in "-/":
            load.files.append((word, None, None))
        elif word[1:2] == "F" and word[2:]:
            load.files += _parameter_file(directory / word[2:])
        elif word[1:2] == "d" and word[2:].isalpha() and word[2:].isascii():
            drives += word[2:]  # the same names on each drive
        elif word[1:2] not in "LU":  # latencies and utilization are always measured
            _sqlio_switch(load, word, word[1:2], word[2:])
    if not load.files:
        load.files.append(("testfile.dat", None, None))  # SQLIO's own default
    if drives:
        load.files = [(f"{drive}:{name}", first, size) for drive in drives for name, first, size in load.files]
    return load


def _sqlio_switch(load: Load, word: str, letter: str, value: str) -> None:
    # Name, smallest, largest; SQLIO takes up to 256 threads.
    counts = {"t": ("threads", 1, 256), "s": ("duration_s", 1, 1 << 31), "o": ("depth", 1, 4096)}
    if letter in counts:
        name, low, high = counts[letter]
        setattr(load, name, whole_number(f"-{letter}", value, low, high))
    elif letter == "b":
        load.request_bytes = whole_number("-b", value, 1, 1 << 20) * KIB
    elif letter == "k" and value.upper() in ("R", "W"):
        load.write_percent = 100 if value.upper() == "W" else 0
    elif letter == "f" and value.lower() in ("random", "sequential"):
        load.is_random = value.lower() == "random"
    elif letter == "B" and value.upper() in ("N", "H", "Y", "S"):
        load.buffered = value.upper() in ("Y", "S")
        load.write_through = value.upper() in ("N", "S")
    elif letter == "S":
        load.from_bytes = whole_number("-S", value, 0, 1 << 40) * load.request_bytes
    elif letter in ("p", "a"):
        load.notes.append(f"{word}: threads are not bound to processors.")
    else:
        raise refusal("SQLIO", word)


def _parameter_file(path: Path) -> list[tuple[str, int | None, int | None]]:
    try:
        return read_parameter_file(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInputError(f"-F{path.name}: cannot be read: {reason}") from error


def read_parameter_file(text: str) -> list[tuple[str, int | None, int | None]]:
    """Lines `file threads [mask [sizeMB]]` of SQLIO's param.txt; the mask binds to processors and is left to the OS."""
    found: list[tuple[str, int | None, int | None]] = []
    for raw in text.splitlines():
        words = raw.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) < 2 or len(words) > 4:
            raise BadInputError(f"`{raw.strip()}`: a line of param.txt is FILE THREADS [MASK [SIZE_MB]]")
        if len(words) > 2 and not re.fullmatch(r"(?i)(0x)?[0-9a-f]{1,16}", words[2]):
            raise BadInputError(f"`{words[2]}`: not a mask of processors such as 0x0")
        size = whole_number("size in MB ", words[3], 1, 1 << 30) * MIB if len(words) > 3 else None
        found.append((words[0], whole_number("threads ", words[1], 1, 256), size))
    if not found:
        raise BadInputError("param.txt names no file")
    return found
