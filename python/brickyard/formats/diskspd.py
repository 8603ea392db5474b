"""Duty: command lines of diskspd 2.1 → a profile, one phase for each in their order.

What switches mean is read from its own parser (CmdLineParser.cpp): without -S the file cache is on.

Refusal: a switch that a profile can't express is refused by its letter.
"""

from __future__ import annotations

import re

from brickyard.errors import BadInputError
from brickyard.formats.batch_file import commands, pause_notes
from brickyard.formats.command_load import KIB, LARGEST, MIB, Load, profile_of, refusal, whole_number
from brickyard.formats.fio_job import Imported
from brickyard.formats.fio_stream import zones

# Output, affinity, tracing, buffers of the program itself: nothing of what is asked of the storage.
SILENT = ("L", "D", "R", "v", "n", "a", "x", "P", "l", "e", "y")
PATTERN_NOTE = "diskspd writes one repeating pattern; what is written here can't be compressed or deduplicated."


def import_diskspd(name: str, text: str) -> Imported:
    loads = [_diskspd(words) for words in commands(text, "diskspd")]
    loads[0].notes += pause_notes(text)
    return profile_of(name, "diskspd", loads)


def _size(switch: str, text: str, block_bytes: int) -> int:
    """diskspd's sizes: a number with K, M, G, T, or b for blocks."""
    match = re.fullmatch(r"([0-9]{1,15})([kmgtb]?)", text.lower())
    scale = {"": 1, "k": KIB, "m": MIB, "g": 1 << 30, "t": 1 << 40, "b": block_bytes}
    if not match or int(match[1]) * scale[match[2]] > LARGEST:
        raise BadInputError(f"{switch}{text}: not a size as diskspd writes it, such as 64K")
    return int(match[1]) * scale[match[2]]


def _diskspd(words: list[str]) -> Load:
    # diskspd's own defaults: 64 KiB, 10 s after 5 s of warm-up, 2 in flight, cached, each thread its own cursor.
    load = Load(
        request_bytes=64 * KIB, depth=2, duration_s=10, warmup_s=5, buffered=True, apart=False, each_its_cursor=True
    )
    switches = [word for word in words if word[0] in "-/"]
    load.files = [(word, None, None) for word in words if word[0] not in "-/"]
    if not load.files:
        raise BadInputError("diskspd needs a file to work on")
    sizes = [word[2:] for word in switches if word[1:2] == "b"]
    if sizes:
        load.request_bytes = _size("-b", sizes[-1], 0)
    for word in switches:
        if word[1:2] != "b":
            _switch(load, word, word[1:2], word[2:])
    if load.write_percent and not any(word[1:2] == "Z" for word in switches):
        load.notes.append(PATTERN_NOTE)
    if load.is_random and not load.each_its_cursor:
        load.notes.append("-si has no effect beside -r: offsets are random.")
    # Usage text of diskspd 2.1, -rs: "sequential IO runs will be homogeneous if a mixed ratio is specified".
    if load.random_percent is not None and load.random_percent < 100 and 0 < load.write_percent < 100:
        load.notes.append(
            "-rs with -w: each run of diskspd is all reads or all writes; here, reads and writes alternate at random "
            "within a run, so read-ahead and merging have less to do."
        )
    if load.threads > 1 and not load.is_random and load.each_its_cursor and not load.between_threads_bytes:
        load.notes.append(
            "Sequential threads go through the same blocks, each with a cursor of its own, as in diskspd."
        )
    return load


def _switch(load: Load, word: str, letter: str, value: str) -> None:
    counts = {"d": ("duration_s", 1), "W": ("warmup_s", 0), "o": ("depth", 1), "t": ("threads", 1)}
    if letter in counts:
        name, low = counts[letter]
        setattr(load, name, whole_number(f"-{letter}", value, low, 4096 if letter in "ot" else 1 << 31))
    elif letter == "w":
        load.write_percent = whole_number("-w", value or "0", 0, 100)
    elif letter == "z":
        if value:
            load.seed = whole_number("-z", value, 0, (1 << 31) - 1)
        else:
            load.notes.append("-z: diskspd draws a new seed each time; here the seed stays the same.")
    elif letter in ("S", "h"):
        _caching(load, word, value if letter == "S" else "h")
    elif letter == "g":
        # bytes a millisecond, or with i requests a second, for each thread and target
        rate = whole_number("-g", value.removesuffix("i"), 1)
        load.rate_per_thread = float(rate) if value.endswith("i") else rate * 1000 / max(1, load.request_bytes)
        load.notes.append("-g: rates are open loops here: a late request keeps its due time.")
    elif letter in ("r", "s", "B", "f", "T", "c"):
        _place(load, word, letter, value)
    else:
        _said(load, word, letter, value)


def _caching(load: Load, word: str, flags: str) -> None:
    if set(flags) - set("bhuw"):
        raise refusal("diskspd", word)
    load.buffered = bool(flags) and not set(flags) & set("uh")  # -S alone is -Su
    load.write_through = load.write_through or bool(set(flags) & set("wh"))


def _said(load: Load, word: str, letter: str, value: str) -> None:
    """What changes nothing of the load, or something that is said."""
    if letter == "F":
        load.threads = whole_number("-F", value, 1, 4096)
        load.notes.append("-F: each of the threads works on all files; here each file has threads of its own.")
    elif letter == "C" and value.isdigit():
        load.notes.append(f"{word}: the workload ends with the measured time; there is no cool-down.")
    elif letter == "I":
        load.notes.append(f"{word}: no priority is set.")
    elif letter == "Z":
        if word[1:] != "Zr":
            load.notes.append(f"{word}: what is written is pseudo-random and can't be compressed or deduplicated.")
    elif letter not in SILENT:
        raise refusal("diskspd", word)


def _place(load: Load, word: str, letter: str, value: str) -> None:
    block = load.request_bytes
    if letter == "B":
        start, _, length = value.partition(":")
        load.from_bytes = _size("-B", start, block)
        if length:
            load.to_bytes = load.from_bytes + _size("-B", length, block)
    elif letter == "f" and value[:1].isdigit():
        load.to_bytes = _size("-f", value, block)
    elif letter == "f" and set(value) <= set("rst") and value:
        load.notes.append(f"{word}: the operating system gets no hint of the access pattern.")
    elif letter == "T":
        load.between_threads_bytes = _size("-T", value, block)
        load.notes.append("-T: a thread's part begins where it starts; diskspd's goes on at the start of the file.")
    elif letter == "c":
        size_bytes = _size("-c", value, block)
        load.to_bytes = load.to_bytes or size_bytes
        made = f"{size_bytes // MIB}MiB" if not size_bytes % MIB else f"{size_bytes}B"
        load.notes.append(f"{word}: diskspd makes the file; run this with --size {made}.")
    elif letter == "s":
        load.each_its_cursor = not value.startswith("i")
        step = value.removeprefix("i")
        if step and _size("-s", step, block) != block:
            load.stride_bytes = _size("-s", step, block)
    elif letter == "r":
        _random(load, word, value)
    else:
        raise refusal("diskspd", word)


def _random(load: Load, word: str, value: str) -> None:
    load.is_random = True
    if value.startswith("s"):
        load.random_percent = float(whole_number("-rs", value[1:], 0, 100))
    elif value.startswith("d"):
        match = re.fullmatch(r"d(pct|abs)([0-9/:.a-zA-Z]+)", value)
        if not match:
            raise refusal("diskspd", word)
        items = [item.partition("/")[::2] for item in match[2].split(":")]
        load.zones = zones(word, _with_rest(word, items, match[1]), is_absolute=match[1] == "abs")
    elif value:
        load.align_bytes = _size("-r", value, load.request_bytes)


def _with_rest(word: str, items: list[tuple[str, str]], kind: str) -> list[tuple[str, str]]:
    """What the zones leave of requests goes to what they leave of the target."""
    if any(not re.fullmatch(r"[0-9.]{1,9}", share) for share, _ in items):
        raise BadInputError(f"{word}: zones are REQUESTS%/SIZE, one behind the other")
    left = 100 - sum(float(share) for share, _ in items)
    if left > 1e-9 and kind == "abs":
        raise BadInputError(f"{word}: how large the rest of the target is, is not known here; write its size out")
    return [*items, (f"{left:g}", "")] if left > 1e-9 else items
