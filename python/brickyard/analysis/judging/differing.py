"""Duty: which circumstances differed between runs: what a comparison must be told before any figure.

Refusal: what a study varies on purpose is no circumstance; whoever asks names the runs that should be alike.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import msgspec
from msgspec.structs import replace

from brickyard import _core
from brickyard.analysis.judging.merging import kind_of, merged
from brickyard.analysis.judging.summary import EMULATED_DISK, MODEL_SET, circumstance_lines
from brickyard.facts.target import NO_PATH
from brickyard.ready import ready
from brickyard.schema import RunWarning, plan_values
from brickyard.schema.changes import HASH_SHOWN
from brickyard.schema.plan import OtherPlan, SizeShare
from brickyard.store import Record
from brickyard.units import format_ns, format_runs, format_size, plural

EVERYWHERE = ("Engine", "Host", "Kernel", "Governor", "Brickyard")
"""Alike for all runs of a study, whatever its targets are."""
MATTERS = {
    "Target": "it is other storage",
    MODEL_SET: "it is another model",
    EMULATED_DISK: "it is another disk",
    "Condition": "an array in another condition serves requests otherwise",
    "Array": "its level and members decide how many requests a request becomes",
    "Test area": "its size, and what of it was never written, decide how far arms move and what caches hold",
    "Cache": "it decides which requests reach the media",
    "File system": "each request goes through it",
    "Device": "its scheduler, queue and write cache order and hold requests",
    "Database": "it is in each call",
    "Replay ": "it is another load",
    "pgbench ": "it is another load",
    "Engine": "requests reach the storage in another way",
    "Governor": "the speed of the CPUs is in each short request",
    "Host": "its CPU and memory are in each short request",
    "Kernel": "each request goes through it",
    "Brickyard": "another version may send or count requests otherwise",
}
"""By the first words of a circumstance, why figures may differ by it."""
GRAVE = frozenset(
    (
        "array_degraded", "array_syncing", "backlog", "cpu_full", "cpu_quota", "cpu_shared", "cpu_throttled",
        "cpu_waited", "damage", "debug_build", "depth_not_reached", "drive_hot", "emulated_fault", "errors",
        "foreign_io", "generator_bound", "hung_requests", "loop_cached", "not_direct", "overloaded", "psync",
        "smaller_than_cache", "smaller_than_memory", "steal", "store_on_device", "trimmed_reads", "unwritten",
    )
)  # fmt: skip
"""Warnings of what acts on rates and times themselves; the others say what is not known, or how a run went."""
SCRATCH = re.compile(r"scratch-\d+-\d+\.brick")
"""The name of a scratch file: each run has its own, in one place."""
ROOM = re.compile(r"brickyard-postgres-[^/]+")
"""The folder of a server that was started for a run: each has its own, in one place."""
ABSENT = {"Condition": "normal"}
"""What a line that a record does not have means."""
NOT_KNOWN = "not known"
"""What it means of a result of another tool, which says little of its host and target."""
CHANGING = ("Started", "Generator", "Seed", "Verified", "Clock", "Profile", "Condition", "Target", "Workload", "Script")
"""Different in every run, or told otherwise."""
ONLY = ("phase 1 ", "stream 1 ")
"""Places that are not said where all plans have no second one."""
KEY_WORDS = {
    "address kind": "access pattern",
    "data compressible": "compressible share of the data",
    "data duplicate": "duplicate share of the data",
    "depth": "queue depth",
    "flush_every call": "flush call",
    "flush_every writes": "writes per flush",
    "hang_after": "warning of a hang after",
    "io": "I/O",
    "operations flush": "flushes",
    "operations read": "reads",
    "operations trim": "trims",
    "operations write": "writes",
    "pace arrivals": "arrivals",
    "pace burst": "requests due at once",
    "pace loop": "loop",
    "pace rate": "offered rate",
    "reap": "completion batch",
    "replay logs 1": "replayed log",
    "request": "request size",
    "submit": "requests per submission",
    "sync": "synchronous writes",
    "think": "pause after each request",
    "warmup": "warm-up",
}
"""What keys of a profile are called in headings and tables; others are called by their own words."""
SHARES = frozenset(("operations flush", "operations read", "operations trim", "operations write"))
"""Keys in per cent."""
ONE_SIZE = 100.0
NO = "no"
"""A switch that is off is as one that a plan does not have."""
SIZES = frozenset(("address stride", "bytes", "lockstep bytes", "program size"))
"""Keys in bytes."""
PLACE = re.compile(r"phase \d+ (?:stream \d+ )?")
OF_BOTH = "warning of both sides"
APART_FACTOR = 1.25
"""Our choice: where a figure of a warning is so many times as large in each run of one side as in any of the other, the
sides differ in it."""
LATER = {"pgbench": ("script_hash", "script_text"), "replay": ("content",)}
"""Keys that early versions did not record, and whose values stand in the place of paths here."""
NO_LOAD = ("seed", "title", "source", "about")
"""What a plan says besides the load: a seed only chooses among equal loads, the rest are words."""


@dataclass(frozen=True)
class Differing:
    """One circumstance with its values, each with the runs that had it."""

    label: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    warning: str = ""
    """The id of a warning that not all runs have."""

    @property
    def matters(self) -> str:
        """Why figures may differ by this; empty where they are not known to."""
        if self.warning:
            return "more than the storage is in these figures" if self.warning in GRAVE else ""
        if self.label == "Target" and len({SCRATCH.sub("", value) for value, _ in self.values}) == 1:
            return ""
        if self.label == "Target" and not all(map(_is_known, (value for value, _ in self.values))):
            return MAYBE_OTHER
        return next((why for name, why in MATTERS.items() if self.label.startswith(name)), "")

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """The runs of which this is not known, where all others are alike in it."""
        known = [value for value, _ in self.values if value != NOT_KNOWN]
        return next((runs for value, runs in self.values if value == NOT_KNOWN and len(known) == 1), ())

    @property
    def line(self) -> str:
        """With what it is, for a list."""
        if not self.warning or self.label == OF_BOTH:
            return f"{self.label}: {self.words}"
        (text, those), (_, others) = self.values
        return f"warning of {format_runs(those)}, not of {format_runs(others)}: {text}"

    @property
    def words(self) -> str:
        return "; ".join(f"{value} ({format_runs(runs)})" for value, runs in self.values)


def asked_hash(record: Record) -> str:
    """Of all that the run asked for, the names of phases and streams too, with files by what they hold; `load_hash` of
    a plan is of what reaches the storage."""
    return hashlib.sha256(json.dumps(_load(record), sort_keys=True).encode()).hexdigest()[:12]


def load_words(one: Record, other: Record, *, names: bool = True) -> str:
    """What differs between two plans, with both values: `queue depth: 8 → 2`; also their names, if these count."""
    keys, (before, after) = _differing_keys([one, other])
    told = {key: words for key, words in keys.items() if names or key.rpartition(" ")[2] != "name"}
    return ", ".join(f"{words}: {before.get(key, 'none')} → {after.get(key, 'none')}" for key, words in told.items())


def loads_apart(records: Sequence[Record]) -> list[str]:
    """By what the plans of these runs are told apart: `queue depth 4, request size 8 KiB`."""
    keys, sides = _differing_keys(records)
    without = f"without {' and '.join(keys.values())}" if keys else ""
    return [
        ", ".join(f"{words} {side[key]}" for key, words in keys.items() if key in side)
        or without
        or f"load {asked_hash(record)}"
        for record, side in zip(records, sides, strict=True)
    ]


def _differing_keys(records: Sequence[Record]) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The keys in which plans differ, each in words, and the values of each plan."""
    sides = [dict(_leaves(_load(record))) for record in records]
    keys = list(dict.fromkeys(key for side in sides for key in side))
    idle = [place for place in ONLY if not any(place.replace("1", "2") in key for key in keys)]
    differing = [key for key in keys if len({side.get(key, NO) for side in sides}) > 1]
    return {key: _key_words(key, idle) for key in differing}, sides


def _key_words(key: str, idle: Sequence[str]) -> str:
    """`phase 2 queue depth` of `phase 2 stream 1 depth`, where no phase has a second stream."""
    found = PLACE.match(key)
    place = found[0] if found else ""
    rest = key.removeprefix(place)
    name = KEY_WORDS.get(rest, rest.replace("_", " "))
    for part in idle:
        place = place.replace(part, "")
    return f"{place}{name}"


def _load(record: Record) -> dict[str, object]:
    """What was asked for, with the default of each key that its version did not write."""
    return {key: value for key, value in _asked(record).items() if key not in NO_LOAD}


def _asked(record: Record) -> dict[str, object]:
    """Files of the user by what they hold, and not by where they lay, as far as the record knows that."""
    plan = record.info.plan
    if not isinstance(plan, OtherPlan):
        return plan_values(plan)
    found = plan_values(_by_log(_by_script(plan)))
    for part, keys in LATER.items():
        if isinstance(asked := found.get(part), dict):
            found[part] = {key: value for key, value in asked.items() if key not in keys}
    return found


def _by_script(plan: OtherPlan) -> OtherPlan:
    """The name of its stream is that of the file."""
    asked = plan.pgbench
    if asked is None or asked.script_hash is None:
        return plan
    phases = [replace(phase, stream=[replace(stream, name="") for stream in phase.stream]) for phase in plan.phase]
    script = f"file of SHA-256 {asked.script_hash[:HASH_SHOWN]}"
    return replace(plan, pgbench=replace(asked, script=script), phase=phases)


def _by_log(plan: OtherPlan) -> OtherPlan:
    asked = plan.replay
    if asked is None or asked.content is None:
        return plan
    held = asked.content
    span = "" if held.first_ns is None or held.last_ns is None else f" within {format_ns(held.last_ns - held.first_ns)}"
    log = f"{held.requests:,} requests{span} (SHA-256 {held.hash[:HASH_SHOWN]})"
    outliers = [replace(outlier, log="") for outlier in asked.outliers]
    return replace(plan, replay=replace(asked, logs=[log], outliers=outliers, first_ns=None))


def _leaves(asked: object, place: str = "") -> list[tuple[str, str]]:
    """What is null is not asked for."""
    if isinstance(asked, dict):
        return [leaf for key, value in asked.items() for leaf in _leaves(value, f"{place} {key}")]
    if isinstance(asked, list) and place.endswith(" request"):
        return [(place.strip(), " + ".join(map(_size, asked)))]
    if isinstance(asked, list):
        return [leaf for number, value in enumerate(asked, 1) for leaf in _leaves(value, f"{place} {number}")]
    key = place.strip()
    return [] if asked is None else [(key, _value(PLACE.sub("", key), asked))]


def _size(asked: object) -> str:
    """`4 KiB (60 % of reads)`, of a size in a stream's mix."""
    one = msgspec.convert(asked, SizeShare)
    share = "" if one.share == ONE_SIZE else f"{one.share:g} %"
    part = " of ".join(filter(None, (share, plural(one.of) if one.of else "")))
    return f"{_bytes(one.size)}{f' ({part})' if part else ''}"


def _value(key: str, asked: object) -> str:
    """As a user would write it where three digits say it all: plans have times in whole ns, and sizes in bytes."""
    if isinstance(asked, bool):
        return "yes" if asked else NO
    if key in SHARES and isinstance(asked, int | float):
        return f"{asked:g} %"
    if key in SIZES and isinstance(asked, int):
        return _bytes(asked)
    if isinstance(asked, str) and asked.endswith("ns") and asked[:-2].isdigit():
        short = format_ns(int(asked[:-2])).replace(" ", "").replace(",", "").replace("µ", "u")
        return short if asked != "0ns" and _core.parse_duration_ns(short) == int(asked[:-2]) else asked
    return str(asked)


def _bytes(asked: int) -> str:
    unit_bits = (asked.bit_length() - 1) // 10 * 10
    return format_size(asked) if asked > 0 and asked % (1 << unit_bits) == 0 else f"{asked:,} B"


def differing_in_study(records: Sequence[Record]) -> list[Differing]:
    """What no level explains: circumstances of the whole, and those that changed while the target was the same."""
    found = _differing(records, lambda label: label in EVERYWHERE)
    by_target: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        by_target.setdefault(tuple(record.info.targets), []).append(record)
    for targets, same in by_target.items():
        changed = _differing(same, lambda label: label not in (*EVERYWHERE, *CHANGING, MODEL_SET))
        found += [Differing(f"{', '.join(targets)}: {item.label}", item.values) for item in changed]
    return found


def differing_between(one: Sequence[Record], other: Sequence[Record]) -> list[Differing]:
    """Between two sides that are compared: everything but what changes from run to run, and the load itself. What can
    matter to figures comes first.

    Other seeds are another choice among equal loads: shown, and no difference of the load.
    """
    both = [*one, *other]
    found = _differing(both, lambda label: label in ("Target", "Condition", "Seed") or label not in CHANGING)
    told = [item for item in (*found, *_asked_of_databases(both), *_warned(both)) if _parts(item, one)]
    told += _warned_otherwise(one, other)
    return sorted(told, key=lambda item: not item.matters)


def _asked_of_databases(records: Sequence[Record]) -> list[Differing]:
    """What replays and runs of pgbench were asked for; other loads are held against each other by their hash."""
    told = [
        (record.info.id, {f"{title} {key}": text for key, text in _flat(asked).items()})
        for record in records
        for values in [_asked(record)]
        for kind, title in (("replay", "Replay"), ("pgbench", "pgbench"))
        if isinstance(asked := values.get(kind), dict)
    ]
    found = []
    for key in dict.fromkeys(key for _, asked in told for key in asked):
        values: dict[str, list[int]] = {}
        for run, asked in told:
            values.setdefault(asked.get(key, "none"), []).append(run)
        if len(values) > 1:
            found.append(Differing(key, tuple((text, tuple(runs)) for text, runs in values.items())))
    return found


def _flat(asked: dict[str, object], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in asked.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{key} ")
        else:
            only = value[0] if isinstance(value, list) and len(value) == 1 else value
            text = "none" if only is None else str(only)
            # A mapping is a whole file.
            short = text if "\n" not in text else hashlib.sha256(text.encode()).hexdigest()[:12]
            found[f"{before}{key}".replace("_", " ")] = short
    return found


def _warned(records: Sequence[Record]) -> list[Differing]:
    """Warnings that not all runs have; the same one with other figures is the same."""
    first: dict[Hashable, RunWarning] = {}
    runs: dict[Hashable, list[int]] = {}
    for record in records:
        for warning in record.info.warnings:
            if warning.severity != "note":
                key = kind_of(warning)
                first.setdefault(key, warning)
                runs.setdefault(key, []).append(record.info.id)
    found = []
    for key, warned in runs.items():
        others = tuple(record.info.id for record in records if record.info.id not in warned)
        if others:
            sides = (first[key].text, tuple(warned)), ("without it", others)
            found.append(Differing("Warning", sides, first[key].id))
    return found


def _warned_otherwise(*sides: Sequence[Record]) -> list[Differing]:
    """Warnings of what acts on the figures that all runs have, and whose own figures lie apart between the sides, such
    as how long the generator waited for a CPU."""
    found = []
    of_sides = [_warnings_of_all(side) for side in sides]
    for key, own in of_sides[0].items():
        told = [merged(own).warning, merged(of_sides[1][key]).warning] if key in of_sides[1] else []
        if told and told[0].id in GRAVE and _lie_apart(*told):
            runs = [tuple(record.info.id for record in side) for side in sides]
            values = tuple((warning.text.removesuffix("."), of) for warning, of in zip(told, runs, strict=True))
            found.append(Differing(OF_BOTH, values, told[0].id))
    return found


def _warnings_of_all(records: Sequence[Record]) -> dict[Hashable, list[RunWarning]]:
    """By their kinds, those that each of the runs has."""
    found: dict[Hashable, list[RunWarning]] = {}
    having: dict[Hashable, set[int]] = {}
    for record in records:
        for warning in record.info.warnings:
            key = kind_of(warning)
            found.setdefault(key, []).append(warning)
            having.setdefault(key, set()).add(record.info.id)
    return {key: own for key, own in found.items() if len(having[key]) == len({record.info.id for record in records})}


def _lie_apart(one: RunWarning, other: RunWarning) -> bool:
    if one.wording is None or other.wording is None:
        return False
    pairs = [(figure, other.wording.figures[place]) for place, figure in one.wording.figures.items()]
    return any(max(a.least, b.least) > APART_FACTOR * min(a.most, b.most) for a, b in pairs)


def _parts(item: Differing, one: Sequence[Record]) -> bool:
    """Whether the two sides differ; what varies on both sides alike tells nothing."""
    mine = {record.info.id for record in one}
    sides = [(bool(mine & set(runs)), bool(set(runs) - mine)) for _, runs in item.values]
    return any(here != there for here, there in sides)


def places_of(record: Record) -> str:
    """The targets of a run by what they are, and not by how they were typed."""
    info = record.info
    places = zip_longest(info.targets, info.real_paths[: len(info.targets)])
    return ", ".join(_place(name, real) for name, real in places)


MAYBE_OTHER = "it may be other storage: where a relative name is from is not known"


def _is_known(places: str) -> bool:
    return all(NO_PATH.match(name) or os.path.isabs(name) for name in places.split(", "))


def _place(name: str, real: str | None) -> str:
    """A relative name is another file in each directory."""
    return name if NO_PATH.match(name) or os.path.isabs(name) else real or name


def _differing(records: Iterable[Record], is_asked: Callable[[str], bool]) -> list[Differing]:
    told = [(record.info, _lines(record)) for record in records]
    values: dict[str, dict[str, list[int]]] = {}
    for label in dict.fromkeys(label for _, lines in told for label in lines if is_asked(label)):
        for info, lines in told:
            absent = NOT_KNOWN if info.is_by_tool else ABSENT.get(label, "none")
            values.setdefault(label, {}).setdefault(lines.get(label, absent), []).append(info.id)
    return [
        Differing(label, tuple((text, tuple(runs)) for text, runs in texts.items()))
        for label, texts in values.items()
        if len(texts) > 1
    ]


def _lines(record: Record) -> dict[str, str]:
    lines = {label: ROOM.sub("brickyard-postgres-…", text) for label, text in circumstance_lines(record)}
    return {**lines, "Target": places_of(record)}


ready(SizeShare)
