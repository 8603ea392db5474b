"""Duty: an Iometer configuration (.icf) → a profile: a phase for each access specification and each queue depth.

Refusal: network workers, replies, bursts, cycling over workers or targets, and lines of one specification that differ
in more than size are refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_job import Imported
from brickyard.store import Json

SECTOR_BYTES = 512
MAX_LINES = 100  # of an access specification, as in Iometer
MAX_STEPS = 64


@dataclass(frozen=True)
class AccessLine:
    size_bytes: int
    share: float
    reads: float
    random: float
    delay_ms: float
    burst: int
    align_bytes: int


@dataclass
class Setup:
    """What a file says; lists are empty and numbers at Iometer's defaults where it is silent."""

    specs: dict[str, list[AccessLine]] = field(default_factory=dict)
    assigned: list[str] = field(default_factory=list)
    run_s: int = 0
    ramp_s: int = 0
    workers: int = 0
    depth: int = 1
    sectors: int = 0
    start_sector: int = 0
    cycling: tuple[int, int, int, str] = (1, 1, 1, "LINEAR")
    test_type: str = "NORMAL"


def import_icf(name: str, text: str) -> Imported:
    setup = read_icf(text)
    chosen = [spec for spec in dict.fromkeys(setup.assigned) if spec in setup.specs] or list(setup.specs)
    if not chosen:
        raise BadInputError("this Iometer file has no access specification")
    notes = []
    if not setup.run_s:
        notes.append("The test set-up runs until it is stopped; a minute stands here.")
    phases: list[Json] = []
    for spec in chosen:
        for depth in _depths(setup):
            phase: Json = {
                "name": f"{_plain(spec)}-{len(phases) + 1}" + (f"-depth-{depth}" if len(_depths(setup)) > 1 else ""),
                "duration": f"{setup.run_s or 60}s",
                "stream": [_stream(spec, setup.specs[spec], setup, depth)],
            }
            if setup.ramp_s:
                phase["warmup"] = f"{setup.ramp_s}s"
            phases.append(phase)
    about = ["Imported from an Iometer configuration.", *notes]
    made = toml_text.profile_text(name, f"Iometer: {name}", f"Iometer configuration {name}", about, phases)
    return Imported(made, [], notes)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "spec"


def read_icf(text: str) -> Setup:
    """Values stand below comment lines (') that say what they are."""
    setup = Setup()
    heading, spec = "", ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("'"):
            heading = re.sub(r"[\s=]+$", "", line[1:]).strip().lower()
            continue
        if not line:
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if heading.startswith("access specification name"):
            # A name may hold commas; the default assignment is the last cell.
            spec = line.rpartition(",")[0].strip() or line
            setup.specs[spec] = []
        elif heading.startswith("size,% of size"):
            _access_line(setup, spec, line, cells)
        else:
            _setting(setup, heading, line, cells)
    for name, lines in setup.specs.items():
        if abs(sum(item.share for item in lines) - 100) > 1e-6:
            raise BadInputError(f"access specification {name}: the sizes don't sum to 100 %")
    return setup


def _access_line(setup: Setup, spec: str, line: str, cells: list[str]) -> None:
    if spec not in setup.specs or len(cells) != 8:
        raise BadInputError(f"`{line}`: not size,% of size,% reads,% random,delay,burst,align,reply")
    if len(setup.specs[spec]) >= MAX_LINES:
        raise BadInputError(f"access specification {spec}: more than {MAX_LINES} lines")
    size, share, reads, random, delay, burst, align, reply = (_number(line, cell) for cell in cells)
    if max(share, reads, random) > 100:
        raise BadInputError(f"`{line}`: more than 100 %")
    if reply:
        raise BadInputError(f"access specification {spec}: a reply belongs to network tests, which have no counterpart")
    setup.specs[spec].append(AccessLine(int(size), share, reads, random, delay, int(burst), int(align)))


def _setting(setup: Setup, heading: str, line: str, cells: list[str]) -> None:
    words = line.split()
    if heading.startswith("hours"):
        hours, minutes, seconds = (int(_number(line, word)) for word in _exactly(line, words, 3))
        setup.run_s = hours * 3600 + minutes * 60 + seconds
    elif heading.startswith("ramp up time"):
        setup.ramp_s = int(_number(line, line))
    elif heading.startswith("test type"):
        setup.test_type = line.upper()
    elif re.match(r"start\s+end\s+step", heading):
        start, end, step, kind = _exactly(line, words, 4)
        setup.cycling = (*(int(_number(line, word)) for word in (start, end, step)), kind.upper())  # type: ignore[assignment]
    elif heading.startswith("worker type"):
        if line.upper() != "DISK":
            raise BadInputError(f"worker type {line}: only DISK workers have a counterpart here")
        setup.workers += 1
    elif heading.startswith("number of outstanding ios"):
        setup.depth = int(_number(line, cells[0]))
    elif heading.startswith("disk maximum size"):
        setup.sectors, setup.start_sector = (int(_number(line, cell)) for cell in _exactly(line, cells[:2], 2))
    elif heading.startswith("assigned access specs"):
        setup.assigned.append(line)


def _exactly(line: str, words: list[str], count: int) -> list[str]:
    if len(words) != count:
        raise BadInputError(f"`{line}`: {count} values are wanted")
    return words


def _number(line: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text):
        raise BadInputError(f"`{line}`: `{text}` is not a number")
    return float(text)


def _depths(setup: Setup) -> list[int]:
    if setup.test_type == "NORMAL":
        return [setup.depth]
    if setup.test_type != "CYCLE_OUTSTANDING_IOS":
        raise BadInputError(f"test type {setup.test_type}: there are NORMAL and CYCLE_OUTSTANDING_IOS here")
    start, end, step, kind = setup.cycling
    if kind not in ("LINEAR", "EXPONENTIAL") or start < 1 or step < (1 if kind == "LINEAR" else 2):
        raise BadInputError(f"queue depth cycling {start} {end} {step} {kind}: it would never end")
    depths, depth = [], start
    while depth <= end:
        depths.append(depth)
        depth = depth + step if kind == "LINEAR" else depth * step
        if len(depths) > MAX_STEPS:
            raise BadInputError(f"queue depth cycling {start} {end} {step} {kind}: more than {MAX_STEPS} steps")
    return depths


def _stream(spec: str, lines: list[AccessLine], setup: Setup, depth: int) -> Json:
    first = lines[0]
    alike = {(item.reads, item.random, item.delay_ms, item.burst, item.align_bytes) for item in lines}
    if len(alike) > 1:
        raise BadInputError(f"access specification {spec}: its lines differ in more than size, a stream has one mix")
    if first.delay_ms and first.burst > 1:
        raise BadInputError(f"access specification {spec}: bursts of {first.burst} have no counterpart here")
    sizes: dict[int, float] = {}
    for item in lines:
        sizes[item.size_bytes] = sizes.get(item.size_bytes, 0) + item.share
    address: object = {0: "sequential", 100: "random"}.get(int(first.random) if first.random in (0, 100) else -1)
    length = setup.sectors * SECTOR_BYTES or None
    return {
        "name": _plain(spec),
        "operations": toml_text.operations(first.reads),
        "request": toml_text.request({size: share for size, share in sizes.items() if share} or sizes),
        # 0 is "on a sector boundary" in Iometer
        "align": toml_text.size(first.align_bytes or SECTOR_BYTES),
        "address": address or {"kind": "mixed", "random": first.random},
        "region": toml_text.region(setup.start_sector * SECTOR_BYTES, length),
        "workers": max(1, setup.workers),
        "depth": depth,
        "think": f"{first.delay_ms:g}ms" if first.delay_ms else None,
    }
