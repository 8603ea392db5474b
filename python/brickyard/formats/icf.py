"""Duty: an Iometer configuration (.icf) → a profile.

Workers run together: step k runs the k-th access specification of every worker at the same time, so a step is a phase
and each worker a stream (on each of its targets). Queue depth cycling makes a phase for each depth.

Refusal: network workers, replies, bursts, cycling over workers or targets, connection tests, and lines of one
specification that differ in what a stream has once are refused by name.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from brickyard.errors import BadInputError
from brickyard.formats import toml_text
from brickyard.formats.fio_job import Imported, named_targets
from brickyard.formats.profile_parts import RANDOM, SEQUENTIAL, Address, Limits, ProfilePhase, ProfileStream
from brickyard.units import SECTOR_BYTES

MAX_LINES = 100  # of an access specification, as in Iometer
MAX_STEPS = 64
FLAGS = {"ENABLED": True, "DISABLED": False}
PATTERN_NOTE = "Iometer writes repeating bytes; what is written here can't be compressed or deduplicated."
DATA_PATTERNS = {1: "", 2: ""}  # pseudo-random and full random are what is written here; 0 is repeating bytes


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
class Worker:
    """One line of execution; its requests in flight are those on each of its targets."""

    name: str = ""
    manager: int = 0
    """Place of its manager, which is a host."""
    depth: int = 1
    sectors: int = 0
    start_sector: int = 0
    repeats_bytes: bool = False
    seed: int | None = None
    specs: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)


@dataclass
class Setup:
    """What a file says; lists are empty and numbers at Iometer's defaults where it is silent."""

    specs: dict[str, list[AccessLine]] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    managers: list[str] = field(default_factory=list)
    run_s: int = 0
    ramp_s: int = 0
    cycling: tuple[int, int, int, str] = (1, 1, 1, "LINEAR")
    test_type: str = "NORMAL"


def import_icf(name: str, text: str) -> Imported:
    setup = read_icf(text)
    if not setup.specs:
        raise BadInputError("this Iometer file has no access specification with a name, as files since 1999 have")
    notes: list[str] = []
    if not setup.run_s:
        notes.append("The test set-up runs until it is stopped; the profile runs for a minute.")
    workers = _at_work(setup, notes)
    _apart(setup, workers, notes)
    targets = list(dict.fromkeys(target for worker in workers for target in worker.targets))
    top: dict[str, int] = {}
    seeds = {worker.seed for worker in workers if worker.seed is not None}
    if len(seeds) == 1:
        top["seed"] = seeds.pop()
    elif seeds:
        notes.append("Workers have fixed seeds that differ; a profile has one seed, and draws each stream apart.")
    if any(worker.repeats_bytes for worker in workers) and _writes(setup, workers):
        notes.append(PATTERN_NOTE)
    depths = _depths(setup)
    phases: list[ProfilePhase] = []
    for step in range(max(len(worker.specs) for worker in workers)):
        together = [worker for worker in workers if step < len(worker.specs)]
        specs = list(dict.fromkeys(worker.specs[step] for worker in together))
        for depth in depths:
            title = "-".join(_plain(spec) for spec in specs[:2]) + f"-{len(phases) + 1}"
            streams = [
                _stream(worker.specs[step], setup.specs[worker.specs[step]], worker, target, depth or worker.depth)
                for worker in together
                for target in ([targets.index(t) for t in worker.targets] or [0])
            ]
            limits = Limits(duration=f"{setup.run_s or 60}s", warmup=f"{setup.ramp_s}s" if setup.ramp_s else None)
            name_of = title + (f"-depth-{depth}" if len(depths) > 1 else "")
            phases.append(ProfilePhase(name_of, limits, _merged(streams)))
    about = ["Imported from an Iometer configuration.", *notes]
    if targets:
        about.append(named_targets(targets))
    made = toml_text.profile_text(name, f"Iometer: {name}", f"Iometer configuration {name}", about, phases, **top)
    return Imported(made, targets, notes, are_named=bool(targets))


def _at_work(setup: Setup, notes: list[str]) -> list[Worker]:
    """The workers that have something to do; without any, one that does all specifications in turn."""
    unknown = [spec for worker in setup.workers for spec in worker.specs if spec not in setup.specs]
    if unknown:
        raise BadInputError(f"a worker is assigned the access specification {unknown[0]}, which the file does not have")
    at_work = [worker for worker in setup.workers if worker.specs]
    if not at_work:
        notes.append("No worker has an access specification assigned: one does all of them in turn.")
        first = setup.workers[0] if setup.workers else Worker()
        return [replace(first, specs=list(setup.specs))]
    if len(at_work) < len(setup.workers):
        idle = len(setup.workers) - len(at_work)
        notes.append(f"{idle} of {len(setup.workers)} workers have no access specification assigned, and do nothing.")
    return at_work


def _apart(setup: Setup, workers: list[Worker], notes: list[str]) -> None:
    """A target of one host is another than that of the same name on another host."""
    managers = list(dict.fromkeys(setup.managers[worker.manager - 1] for worker in workers if worker.manager))
    if len({worker.manager for worker in workers}) < 2:
        return
    for worker in workers:
        if worker.manager:
            worker.targets = [f"{setup.managers[worker.manager - 1]}:{target}" for target in worker.targets]
    notes.append(
        f"The managers {', '.join(managers)} are hosts of their own in Iometer; here one host runs all workers, and"
        " each manager's targets are targets of their own. `hosts` of a stream spreads them over hosts again."
    )


def _writes(setup: Setup, workers: list[Worker]) -> bool:
    return any(line.reads < 100 for worker in workers for spec in worker.specs for line in setup.specs[spec])


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "spec"


def _merged(streams: list[ProfileStream]) -> list[ProfileStream]:
    """Workers that do the same at random places are workers of one stream; those with a cursor stay apart."""
    made: list[ProfileStream] = []
    for stream in streams:
        same = next((at for at, other in enumerate(made) if _same(other, stream)), None)
        if same is not None and stream.address == RANDOM:
            made[same] = replace(made[same], workers=(made[same].workers or 1) + 1)
        else:
            made.append(stream)
    taken: Counter[str] = Counter()
    named = []
    for stream in made:
        taken[stream.name] += 1
        again = taken[stream.name]
        named.append(replace(stream, name=f"{stream.name}-{again}") if again > 1 else stream)
    return named


def _same(a: ProfileStream, b: ProfileStream) -> bool:
    return replace(a, name="", workers=1) == replace(b, name="", workers=1)


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
        elif heading == "worker":
            setup.workers.append(Worker(line, len(setup.managers)))
        elif setup.workers and _of_worker(setup.workers[-1], heading, line, cells):
            pass
        else:
            _setting(setup, heading, line)
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


def _setting(setup: Setup, heading: str, line: str) -> None:
    words = line.split()
    if heading.startswith("manager id"):
        setup.managers.append(line.partition(",")[2].strip() or line)
    elif heading.startswith("hours"):
        hours, minutes, seconds = (int(_number(line, word)) for word in _exactly(line, words, 3))
        setup.run_s = hours * 3600 + minutes * 60 + seconds
    elif heading.startswith("ramp up time"):
        setup.ramp_s = int(_number(line, line))
    elif heading.startswith("test type"):
        setup.test_type = line.upper()
    elif re.match(r"start\s+end\s+step", heading):
        start, end, step, kind = _exactly(line, words, 4)
        setup.cycling = (*(int(_number(line, word)) for word in (start, end, step)), kind.upper())  # type: ignore[assignment]


def _of_worker(worker: Worker, heading: str, line: str, cells: list[str]) -> bool:
    """Whether the line is one that belongs to a worker."""
    if heading.startswith("worker type"):
        if line.upper() != "DISK":
            raise BadInputError(f"worker type {line}: only DISK workers have a counterpart here")
    elif heading.startswith("number of outstanding ios"):
        _outstanding(worker, heading, line, cells)
    elif heading.startswith("disk maximum size"):
        if len(cells) not in (2, 3):
            raise BadInputError(f"`{line}`: maximum size and starting sector, and perhaps a data pattern")
        worker.sectors, worker.start_sector = (int(_number(line, cell)) for cell in cells[:2])
        worker.repeats_bytes = len(cells) > 2 and int(_number(line, cells[2])) not in DATA_PATTERNS
    elif heading.startswith("assigned access specs"):
        worker.specs.append(line)
    elif heading == "target":
        # A drive letter says enough; the number of a physical disk does not without its name.
        worker.targets.append(line if line[:1].isdigit() else re.sub(r'\s*"[^"]*"$', "", line))
    else:
        return False
    return True


def _outstanding(worker: Worker, heading: str, line: str, cells: list[str]) -> None:
    """Requests in flight, whether targets are opened anew all the time, and the seed."""
    worker.depth = int(_number(line, cells[0]))
    names = [name.strip() for name in heading.split(",")]
    values = dict(zip(names, cells, strict=False))
    for name, value in values.items():
        if name in ("test connection rate", "use fixed seed") and value.upper() not in FLAGS:
            raise BadInputError(f"`{line}`: {name} is {value}; there are ENABLED and DISABLED")
    if FLAGS[values.get("test connection rate", "DISABLED").upper()]:
        raise BadInputError(
            f"worker {worker.name}: opens its target anew every {values.get('transactions per connection', '?')}"
            " transactions (test connection rate), which has no counterpart here"
        )
    if FLAGS[values.get("use fixed seed", "DISABLED").upper()]:
        worker.seed = int(_number(line, values.get("fixed seed value", "")))


def _exactly(line: str, words: list[str], count: int) -> list[str]:
    if len(words) != count:
        raise BadInputError(f"`{line}`: needs {count} values")
    return words


def _number(line: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text):
        raise BadInputError(f"`{line}`: `{text}` is not a number")
    return float(text)


def _depths(setup: Setup) -> list[int | None]:
    """The depths of all workers in turn; None where each has its own."""
    if setup.test_type == "NORMAL":
        return [None]
    if setup.test_type != "CYCLE_OUTSTANDING_IOS":
        raise BadInputError(f"test type {setup.test_type}: there are NORMAL and CYCLE_OUTSTANDING_IOS here")
    start, end, step, kind = setup.cycling
    if kind not in ("LINEAR", "EXPONENTIAL") or start < 1 or step < (1 if kind == "LINEAR" else 2):
        raise BadInputError(f"queue depth cycling {start} {end} {step} {kind}: it would never end")
    depths: list[int | None] = []
    depth = start
    while depth <= end:
        depths.append(depth)
        depth = depth + step if kind == "LINEAR" else depth * step
        if len(depths) > MAX_STEPS:
            raise BadInputError(f"queue depth cycling {start} {end} {step} {kind}: more than {MAX_STEPS} steps")
    return depths


def _sizes(lines: list[AccessLine]) -> dict[str, dict[int, float]]:
    """By operation: a line's share falls to reads and writes as it says, so lines may differ in that."""
    found: dict[str, dict[int, float]] = {"read": {}, "write": {}}
    for line in lines:
        for name, percent in (("read", line.reads), ("write", 100 - line.reads)):
            if line.share * percent:
                found[name][line.size_bytes] = found[name].get(line.size_bytes, 0) + line.share * percent
    return {name: sizes for name, sizes in found.items() if sizes}


def _align(lines: list[AccessLine]) -> int:
    """0 is "on a sector boundary" in Iometer."""
    return lines[0].align_bytes or SECTOR_BYTES


def _stream(spec: str, lines: list[AccessLine], worker: Worker, target: int, depth: int) -> ProfileStream:
    first = lines[0]
    used = [line for line in lines if line.share] or lines
    for what in ("random", "delay_ms", "burst", "align_bytes"):
        if len({getattr(line, what) for line in used}) > 1:
            said = {"random": "% random", "delay_ms": "delay", "burst": "burst", "align_bytes": "alignment"}[what]
            raise BadInputError(
                f"access specification {spec}: its lines differ in {said}, which a stream has once; "
                "lines may differ in size and % reads"
            )
    if first.delay_ms and first.burst > 1:
        raise BadInputError(f"access specification {spec}: bursts of {first.burst} have no counterpart here")
    sizes = _sizes(used)
    reads = sum(line.share * line.reads for line in used) / sum(line.share for line in used)
    alike = len({line.reads for line in used}) == 1
    one = {line.size_bytes: 0.0 for line in used}
    for line in used:
        one[line.size_bytes] += line.share
    mixed = Address("runs", random=first.random)
    return ProfileStream(
        name=_plain(spec),
        target=target,
        operations=toml_text.operations(reads),
        request=toml_text.request(one) if alike else toml_text.request_by_operation(sizes),
        align=toml_text.size(_align(used)),
        address={0.0: SEQUENTIAL, 100.0: RANDOM}.get(first.random, mixed),
        region=toml_text.region(worker.start_sector * SECTOR_BYTES, worker.sectors * SECTOR_BYTES or None),
        workers=1,
        depth=depth,
        think=f"{first.delay_ms:g}ms" if first.delay_ms else None,
    )
