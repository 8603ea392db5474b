"""Duty: command lines of SQLIO and diskspd → a profile, one phase for each line in their order.

Refusal: a switch that a profile can't express is refused by its letter.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_job import Imported
from brickyard.store import Json

KIB, MIB = 1 << 10, 1 << 20
LARGEST = 1 << 50


@dataclass
class _Load:
    """What both programs ask for, in their common terms."""

    files: list[tuple[str, int | None, int | None]] = field(default_factory=list)  # name, own threads, own size
    write_percent: float = 0
    request_bytes: int = 0
    align_bytes: int | None = None
    is_random: bool = False
    random_percent: float | None = None
    apart: bool = True
    threads: int = 1
    depth: int = 1
    duration_s: int = 30
    warmup_s: int = 0
    buffered: bool = False
    write_through: bool = False
    from_bytes: int = 0
    to_bytes: int | None = None
    rate_per_thread: float | None = None
    seed: int | None = None


def import_sqlio(name: str, text: str, directory: Path, parameters: str | None = None) -> Imported:
    """Command lines of SQLIO 1.5; `-F` files are read beside them, or `parameters` is the text of one."""
    loads = [_sqlio(words, directory) for words in _commands(text, "sqlio")]
    if parameters is not None:
        for load in loads:
            load.files = read_parameter_file(parameters)
    return _profile(name, "SQLIO", loads)


def import_diskspd(name: str, text: str) -> Imported:
    return _profile(name, "diskspd", [_diskspd(words) for words in _commands(text, "diskspd")])


def _commands(text: str, program: str) -> list[list[str]]:
    found = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line or re.match(r"(?i)(#|::|rem\b|@?echo\b|timeout\b|pause\b)", line):
            continue
        try:
            # Windows paths have backslashes, which are no escapes there.
            words = [word.strip('"') for word in shlex.split(line, posix=False)]
        except ValueError as error:
            raise BadInputError(f"`{line}`: {error}") from error
        if re.fullmatch(rf"(?i)(.*[\\/])?{program}(64)?(\.exe)?", words[0]):
            words = words[1:]
        elif words[0][0] not in "-/":
            raise BadInputError(f"`{words[0]}` is not {program}; give command lines of {program} alone")
        found.append(words)
    if not found:
        raise BadInputError(f"no command line of {program} in it")
    return found


def _number(switch: str, text: str, low: int = 0, high: int = LARGEST) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not low <= int(text) <= high:
        raise BadInputError(f"{switch}{text}: must be a whole number from {low} to {high}")
    return int(text)


def _size(switch: str, text: str, block_bytes: int) -> int:
    """diskspd's sizes: a number with K, M, G, T, or b for blocks."""
    match = re.fullmatch(r"([0-9]{1,15})([kmgtb]?)", text.lower())
    scale = {"": 1, "k": KIB, "m": MIB, "g": 1 << 30, "t": 1 << 40, "b": block_bytes}
    if not match or int(match[1]) * scale[match[2]] > LARGEST:
        raise BadInputError(f"{switch}{text}: not a size as diskspd writes it, such as 64K")
    return int(match[1]) * scale[match[2]]


def _refuse(program: str, switch: str) -> BadInputError:
    return BadInputError(f"{program}'s {switch} has no counterpart here; take it out of the command line")


def _sqlio(words: list[str], directory: Path) -> _Load:
    load = _Load(request_bytes=2 * KIB)  # SQLIO's own default
    for word in words:
        if word[0] not in "-/":
            load.files.append((word, None, None))
        elif word[1:2] == "F" and word[2:]:
            load.files += _parameter_file(directory / word[2:])
        elif word[1:2] != "L":  # latencies are always measured
            _sqlio_switch(load, word, word[1:2], word[2:])
    if not load.files:
        load.files.append(("testfile.dat", None, None))  # SQLIO's own default
    return load


def _sqlio_switch(load: _Load, word: str, letter: str, value: str) -> None:
    # Name, smallest, largest; SQLIO takes up to 256 threads.
    counts = {"t": ("threads", 1, 256), "s": ("duration_s", 1, 1 << 31), "o": ("depth", 1, 4096)}
    if letter in counts:
        name, low, high = counts[letter]
        setattr(load, name, _number(f"-{letter}", value, low, high))
    elif letter == "b":
        load.request_bytes = _number("-b", value, 1, 1 << 20) * KIB
    elif letter == "k" and value.upper() in ("R", "W"):
        load.write_percent = 100 if value.upper() == "W" else 0
    elif letter == "f" and value.lower() in ("random", "sequential"):
        load.is_random = value.lower() == "random"
    elif letter == "B" and value.upper() in ("N", "H", "Y", "S"):
        load.buffered = value.upper() in ("Y", "S")
        load.write_through = value.upper() in ("N", "S")
    else:
        raise _refuse("SQLIO", word)


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
        size = _number("size in MB ", words[3], 1, 1 << 30) * MIB if len(words) > 3 else None
        found.append((words[0], _number("threads ", words[1], 1, 256), size))
    if not found:
        raise BadInputError("param.txt names no file")
    return found


def _diskspd(words: list[str]) -> _Load:
    # diskspd's own defaults: 64 KiB, 10 s after 5 s of warm-up, 2 requests in flight.
    load = _Load(request_bytes=64 * KIB, depth=2, duration_s=10, warmup_s=5)
    sizes = [word[2:] for word in words if word[:2] in ("-b", "/b")]
    if sizes:
        load.request_bytes = _size("-b", sizes[-1], 0)
    for word in words:
        if word[0] not in "-/":
            load.files.append((word, None, None))
        elif word[1:2] != "b":
            _diskspd_switch(load, word, word[1:2], word[2:])
    if not load.files:
        raise BadInputError("diskspd needs a file to work on")
    return load


def _diskspd_switch(load: _Load, word: str, letter: str, value: str) -> None:
    counts = {"d": ("duration_s", 1), "W": ("warmup_s", 0), "o": ("depth", 1), "t": ("threads", 1)}
    if letter in counts:
        name, low = counts[letter]
        setattr(load, name, _number(f"-{letter}", value, low, 4096 if letter in "ot" else 1 << 31))
    elif letter == "w":
        load.write_percent = _number("-w", value or "0", 0, 100)
    elif letter == "z" and value:
        load.seed = _number("-z", value, 0, (1 << 31) - 1)
    elif letter in "rs" or (letter in "Bf" and value[:1].isdigit() and "-" not in value):
        _diskspd_place(load, word, letter, value)
    elif word[1:] == "h" or (letter == "S" and set(value) <= set("uhbw")):
        load.buffered = letter == "S" and bool(value) and not set(value) & set("uh")
        load.write_through = letter == "h" or bool(set(value) & set("wh"))
    elif letter == "g":
        # bytes a millisecond, or with i requests a second, for each thread
        rate = _number("-g", value.removesuffix("i"), 1)
        load.rate_per_thread = float(rate) if value.endswith("i") else rate * 1000 / max(1, load.request_bytes)
    elif letter not in list("LDRvnc") and word[1:] not in ("Z", "Zr"):
        # Those are output, affinity and how the file is made: nothing of what is asked of the storage.
        raise _refuse("diskspd", word)


def _diskspd_place(load: _Load, word: str, letter: str, value: str) -> None:
    block = load.request_bytes
    if letter == "B":
        load.from_bytes = _size("-B", value, block)
    elif letter == "f":
        load.to_bytes = _size("-f", value, block)
    elif letter == "s" and value in ("", "i"):
        load.apart = value != "i"
    elif letter == "r" and value.startswith("s"):
        load.is_random, load.random_percent = True, float(_number("-rs", value[1:], 0, 100))
    elif letter == "r":
        load.is_random = True
        load.align_bytes = _size("-r", value, block) if value else None
    else:
        raise _refuse("diskspd", word)


def _profile(name: str, program: str, loads: list[_Load]) -> Imported:
    targets: list[str] = []
    phases: list[Json] = []
    notes = []
    top: Json = {"io": "buffered" if loads[0].buffered else "direct"}
    if any(load.buffered != loads[0].buffered for load in loads):
        raise BadInputError("some lines go through the cache of the operating system and some don't; import them apart")
    seeds = {load.seed for load in loads}
    if len(seeds) > 1:
        raise BadInputError("the lines have different seeds, and a profile has one; import them apart")
    if loads[0].seed is not None:
        top["seed"] = loads[0].seed
    if program == "diskspd" and any(load.threads > 1 and load.apart and not load.is_random for load in loads):
        notes.append("Sequential threads have parts of the file to themselves; diskspd's would read over each other.")
    for number, load in enumerate(loads, 1):
        phase: Json = {"name": f"line-{number}", "duration": f"{load.duration_s}s", "stream": []}
        if load.warmup_s:
            phase["warmup"] = f"{load.warmup_s}s"
        for file, threads, size_bytes in load.files:
            if file not in targets:
                targets.append(file)
            phase["stream"].append(_stream(load, targets.index(file), threads or load.threads, size_bytes))
        phases.append(phase)
    about = [f"Imported from {'a command line' if len(loads) == 1 else 'command lines'} of {program}.", *notes]
    made = toml_text.profile_text(name, f"{program}: {name}", f"{program} command line", about, phases, **top)
    return Imported(made, targets, notes)


def _stream(load: _Load, target: int, threads: int, size_bytes: int | None) -> Json:
    address: object = "random" if load.is_random else {"kind": "sequential", "apart": True}
    if not load.is_random and (threads == 1 or not load.apart):
        address = "sequential"
    if load.random_percent is not None:
        address = {"kind": "mixed", "random": load.random_percent}
    end = size_bytes if size_bytes is not None else load.to_bytes
    if end is not None and end <= load.from_bytes:
        raise BadInputError(f"the part from {load.from_bytes} to {end} bytes is empty")
    stream: Json = {
        "name": f"file-{target + 1}",
        "target": target,
        "operations": toml_text.operations(100 - load.write_percent),
        "request": toml_text.size(load.request_bytes),
        "align": None if load.align_bytes is None else toml_text.size(load.align_bytes),
        "address": address,
        "region": toml_text.region(load.from_bytes, None if end is None else end - load.from_bytes),
        "workers": threads,
        "depth": load.depth,
    }
    if load.rate_per_thread is not None:
        stream["pace"] = {"loop": "open", "rate": load.rate_per_thread * threads}
    if load.write_through and load.write_percent:
        stream["sync"] = "dsync"
    return stream
