"""Duty: SQLIOSim's configuration file (`.cfg.ini`) → a profile.

Keys, defaults and the unit of percentages (hundredths) are those that Microsoft documents, and the keys of the
configurations that it publishes. What those ask for and a profile cannot express is said in a note. Refusal: a key that
is neither documented nor published, and any other setting that a profile cannot express, is refused by its name.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from brickyard.errors import BadInputError
from brickyard.formats.fio_job import Imported
from brickyard.formats.profile_parts import Inline, Limits, ProfilePhase, ProfileStream
from brickyard.formats.toml_text import profile_text
from brickyard.units import MIB

MOST_AUTOMATIC_USERS = 8

CONFIG: dict[str, str] = {
    "ErrorFile": "sqliosim.log.xml",
    "CPUCount": "0",
    "Affinity": "0",
    "IOAffinity": "0",
    "MaxMemoryMB": "256",
    "StopOnError": "true",
    "TestCycles": "1",
    "TestCycleDuration": "300",
    "CacheHitRatio": "1000",
    "MaxOutstandingIO": "0",
    "TargetIODuration": "100",
    "AllowIOBursts": "true",
    "NoBuffering": "true",
    "WriteThrough": "true",
    "ScatterGather": "true",
    "UseScatterGather": "true",
    "ForceReadAhead": "true",
    "DeleteFilesAtStartup": "true",
    "DeleteFilesAtShutdown": "false",
    "StampFiles": "false",
}
"""As documented, but for what depends on the machine: CPUCount (0 is this machine's) and MaxMemoryMB (ours)."""
RANDOM: dict[str, str] = {
    "UserCount": "-1",
    "JumpToNewRegionPercentage": "500",
    "MinIOChainLength": "1",
    "MaxIOChainLength": "100",
    "RandomUserReadWriteRatio": "9000",
    "MinLogPerBuffer": "64",
    "MaxLogPerBuffer": "8192",
    "RollbackChance": "100",
    "SleepAfter": "5",
    "YieldPercentage": "0",
    "CPUSimulation": "false",
    "CPUCyclesMin": "0",
    "CPUCyclesMax": "0",
}
AUDIT = {"UserCount": "2", "BuffersValidated": "64", "DelayAfterCycles": "2", "AuditDelay": "200"}
READ_AHEAD = {
    "UserCount": "2",
    "BuffersRAMin": "32",
    "BuffersRAMax": "64",
    "DelayAfterCycles": "2",
    "RADelay": "200",
}
BULK = {"UserCount": "-1", "BuffersBUMin": "64", "BuffersBUMax": "128", "DelayAfterCycles": "2", "BUDelay": "10"}
SHRINK = {"MinShrinkInterval": "120", "MaxShrinkInterval": "600", "MinExtends": "1", "MaxExtends": "20"}
FILE = {
    "FileName": "",
    "InitialSize": "",
    "MaxSize": "",
    "Increment": "0",
    "Shrinkable": "false",
    "Sparse": "false",
    "LogFile": "false",
}
SECTIONS: dict[str, dict[str, str]] = {
    "CONFIG": CONFIG,
    "RandomUser": RANDOM,
    "AuditUser": AUDIT,
    "ReadAheadUser": READ_AHEAD,
    "BulkUpdateUser": BULK,
    "ShrinkUser": SHRINK,
}


def is_sqliosim(text: str) -> bool:
    """Whether a section is there that only SQLIOSim has, or its own keys below `[CONFIG]`: every other section may be
    missing. `FileName` is a key of fio's as well."""
    if re.search(r"(?mi)^\s*\[(RandomUser|AuditUser|ReadAheadUser|BulkUpdateUser|ShrinkUser)\]\s*$", text):
        return True
    keys = "|".join([*CONFIG, *(key for key in FILE if key != "FileName")])
    return bool(re.search(r"(?mi)^\s*\[CONFIG\]\s*$", text) and re.search(rf"(?mi)^\s*({keys})\s*=", text))


class _Section:
    """One section with its defaults; keys are found whatever their case."""

    def __init__(self, name: str, given: Mapping[str, str], defaults: dict[str, str]) -> None:
        self.name = name
        self.given = frozenset(given)
        spelled = {key.lower(): key for key in defaults}
        seen: set[str] = set()
        for key in given:
            if key.lower() in seen:
                raise BadInputError(f"[{name}] {key}: is given twice; leave one of them")
            seen.add(key.lower())
            if key.lower() not in spelled:
                raise BadInputError(f"[{name}] {key}: no key of SQLIOSim's; its keys are {', '.join(defaults)}")
        self.values = {**defaults, **{spelled[key.lower()]: value.strip() for key, value in given.items()}}

    def text(self, key: str) -> str:
        return self.values[key]

    def number(self, key: str, low: int = 0, high: int = 1 << 40) -> int:
        text = self.values[key]
        hint = ", and a comment on a line of its own" if ";" in text else ""
        if not re.fullmatch(r"-?\d+", text) or not low <= int(text) <= high:
            raise BadInputError(f"[{self.name}] {key}={text}: a whole number from {low} to {high} is needed{hint}")
        return int(text)

    def percent(self, key: str) -> float:
        return self.number(key, 0, 10_000) / 100

    def flag(self, key: str) -> bool:
        text = self.values[key].lower()
        if text not in ("true", "false"):
            raise BadInputError(f"[{self.name}] {key}={self.values[key]}: true or false is needed")
        return text == "true"

    def users(self, processors: int) -> int:
        count = self.number("UserCount", -1, 1000)
        return min(processors * 2, MOST_AUTOMATIC_USERS) if count < 0 else count


@dataclass(frozen=True)
class _Sections:
    """In the order of SECTIONS."""

    config: _Section
    random: _Section
    audit: _Section
    read_ahead: _Section
    bulk: _Section
    shrink: _Section


def import_sqliosim(name: str, text: str) -> Imported:
    parser = configparser.RawConfigParser(comment_prefixes=(";",), strict=True, interpolation=None)
    parser.optionxform = lambda key: key  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise BadInputError(f"not a configuration file: {str(error).splitlines()[0]}") from error
    known = {section.lower(): section for section in SECTIONS}
    for section in parser.sections():
        if section.lower() not in known and not re.fullmatch(r"(?i)file\d+", section):
            raise BadInputError(f"[{section}]: no section of SQLIOSim's; those are {', '.join(SECTIONS)} and File1 …")
    names = [section.lower() for section in parser.sections()]
    if twice := next((section for section in parser.sections() if names.count(section.lower()) > 1), None):
        raise BadInputError(f"[{twice}]: is given twice, written differently; leave one of them")
    given = {known.get(section.lower(), section): dict(parser.items(section)) for section in parser.sections()}
    sections = _Sections(*(_Section(key, given.get(key, {}), defaults) for key, defaults in SECTIONS.items()))
    files = [_Section(key, values, FILE) for key, values in given.items() if key not in SECTIONS]
    notes: list[str] = []
    database, log = _files(files, notes)
    config = sections.config
    _of_cycles_and_pages(config, notes)
    _of_processors(sections, notes)
    top: dict[str, str | bool] = {"table": "sqliosim"}
    if config.flag("StopOnError"):
        top["stop_on_error"] = True
    if not config.flag("NoBuffering"):
        top["io"] = "buffered"
    if config.text("CPUCount") == "0":
        notes.append("CPUCount is this machine's, where the file names none.")
    if "MaxMemoryMB" not in config.given:
        notes.append("MaxMemoryMB is the memory of SQLIOSim's machine; here it is 256, set buffer_pool for another.")
    phases = _phases(sections, database, log)
    written = profile_text(name, f"{name}, imported from SQLIOSim", "SQLIOSim", notes, phases, **top)
    return Imported(written, [], notes)


def _of_cycles_and_pages(config: _Section, notes: list[str]) -> None:
    cycles = config.number("TestCycles", 0, 1 << 31)
    if not cycles:
        raise BadInputError("[CONFIG] TestCycles=0: there is no endless test; name how many, a profile is one of them")
    if cycles > 1:
        notes.append(f"TestCycles is {cycles}: the profile is one cycle; run it with `--repeat {cycles}`.")
    for key in ("ScatterGather", "UseScatterGather"):
        if not config.flag(key):
            raise BadInputError(
                f"[CONFIG] {key}=FALSE: SQLIOSim then sends a request for each page of 8 KiB; those of a profile have "
                "up to 32 pages, and would be fewer and larger"
            )


def _of_processors(sections: _Sections, notes: list[str]) -> None:
    config, random = sections.config, sections.random
    for key in ("Affinity", "IOAffinity"):
        if config.text(key) != "0":
            notes.append(f"{key} is {config.text(key)}: a profile names no processors; taskset does.")
    works = random.number("UserCount", -1, 1000) != 0
    is_computing, yields = random.flag("CPUSimulation"), random.percent("YieldPercentage")
    least, most = (random.number(key, 0, 1 << 62) for key in ("CPUCyclesMin", "CPUCyclesMax"))
    if works and is_computing:
        notes.append(
            f"CPUSimulation is TRUE: SQLIOSim's random users also compute ({least} to {most} CPUCycles); those of "
            "Brickyard do not, and may send more requests."
        )
    if works and yields:
        notes.append(
            f"YieldPercentage is {yields:g} %: SQLIOSim's random users also yield the processor; those of Brickyard "
            "do not."
        )


def _named(file: _Section) -> str:
    return os.path.basename(file.text("FileName").replace(chr(92), "/"))


def _files(files: list[_Section], notes: list[str]) -> tuple[Inline, int]:
    """The data file as the keys of a database, and the size of the log in bytes."""
    for file in files:
        _check(file, notes)
    if not files:
        notes.append(
            "No file is named: the database has 500 MiB and may grow to 1000 MiB, 50 MiB at a time, and the log has "
            "50 MiB."
        )
        return {"size": "500MiB", "most": "1000MiB", "increment": 50 * MIB}, 50 * MIB
    logs = [file for file in files if file.flag("LogFile")]
    data = [file for file in files if not file.flag("LogFile")]
    if len(data) != 1 or len(logs) != 1:
        raise BadInputError(
            f"{len(data)} data files and {len(logs)} logs: a profile has one of each; import a file for each database"
        )
    notes.append(f"{_named(data[0])} and {_named(logs[0])}: one target has both, or a second target the log.")
    file = data[0]
    size, most = file.number("InitialSize", 1) * MIB, file.number("MaxSize", 1) * MIB
    increment = file.number("Increment") * MIB if file.flag("Shrinkable") else 0
    return {"size": size, "most": max(size, most), "increment": increment}, logs[0].number("MaxSize", 1) * MIB


def _check(file: _Section, notes: list[str]) -> None:
    for key in ("InitialSize", "MaxSize"):
        if not file.values[key]:
            raise BadInputError(f"[{file.name}] {key}: is missing; it has no default")
    if file.number("MaxSize", 1) < file.number("InitialSize", 1):
        raise BadInputError(f"[{file.name}] MaxSize={file.text('MaxSize')}: is below InitialSize")
    if file.number("Increment") and not file.flag("Shrinkable") and not file.flag("LogFile"):
        notes.append(f"{file.name}: Shrinkable is false, so the file neither grows nor shrinks.")
    if file.flag("Sparse"):
        raise BadInputError(f"[{file.name}] Sparse: sparse files are not available")


def _phases(sections: _Sections, database: Inline, log_bytes: int) -> list[ProfilePhase]:
    config, shrink = sections.config, sections.shrink
    processors = config.number("CPUCount", 0, 64) or os.cpu_count() or 1
    file = {
        "kind": "database_file",
        **database,
        "log_size": log_bytes,
        "increments_min": shrink.number("MinExtends", 1, 1 << 20),
        "increments_max": shrink.number("MaxExtends", 1, 1 << 20),
        "every_min": f"{shrink.number('MinShrinkInterval')}s",
        "every_max": f"{shrink.number('MaxShrinkInterval')}s",
        "stamp": config.flag("StampFiles"),
        "buffer_pool": config.number("MaxMemoryMB", 1, 1 << 24) * MIB,
        "cache_hits": config.percent("CacheHitRatio"),
        "target_io": f"{config.number('TargetIODuration', 1)}ms",
        "most_io": config.number("MaxOutstandingIO", 0, 140_000) or 140_000,
    }
    sync = "dsync" if config.flag("WriteThrough") else "none"
    users = [  # each with how its writes are made durable; the last two only read
        ("random-users", sections.random, _random(sections.random), sync),
        ("bulk-update", sections.bulk, _bulk(sections.bulk), sync),
        ("read-ahead", sections.read_ahead, _read_ahead(sections.read_ahead, config), "none"),
        ("audit", sections.audit, _audit(sections.audit), "none"),
    ]
    streams = [_stream("file", file, sync)]
    for name, section, program, durably in users:
        if count := section.users(processors):
            streams.append(_stream(name, program, durably, workers=count))
    burst = config.flag("AllowIOBursts")
    checkpoint: Inline = {"kind": "checkpoint", "whole": True}
    test = [
        *streams,
        _stream("checkpoint", {"kind": "checkpoint", "every": "1min"}, sync, depth=32),
        _stream("lazy-writer", {"kind": "lazy_writer", "dirty": 75}, sync, depth=16),
        _stream("log", {"kind": "log_writer"}, sync),
    ]
    audits = [
        _stream("audit", {"kind": "audit", "pages": 64, "whole": True}, "none", workers=2),
        _stream("log-audit", {"kind": "audit", "pages": 8, "whole": True, "log": True}, "none"),
    ]
    return [
        ProfilePhase("test", Limits(duration=f"{config.number('TestCycleDuration', 1)}s"), test),
        ProfilePhase("last-checkpoint", Limits(), [_stream("checkpoint", checkpoint, sync, depth=64 if burst else 1)]),
        ProfilePhase("last-audit", Limits(), audits),
    ]


def _stream(name: str, program: Inline, sync: str, workers: int = 1, depth: int = 1) -> ProfileStream:
    return ProfileStream(name=name, program=program, workers=workers, depth=depth, sync=sync, verify=True)


def _random(section: _Section) -> Inline:
    least, most = section.number("MinLogPerBuffer", 1, 64_000), section.number("MaxLogPerBuffer", 1, 64_000)
    return {
        "kind": "random_user",
        "jump": section.percent("JumpToNewRegionPercentage"),
        "chain_min": section.number("MinIOChainLength", 1),
        "chain_max": section.number("MaxIOChainLength", 1),
        "update": section.percent("RandomUserReadWriteRatio"),
        "log_record": f"{least}..{most}",
        "rollback": section.percent("RollbackChance"),
        "sleep": f"{section.number('SleepAfter')}ms",
    }


def _bulk(section: _Section) -> Inline:
    return {
        "kind": "bulk_update",
        "pages_min": section.number("BuffersBUMin", 1),
        "pages_max": section.number("BuffersBUMax", 1),
        "delay_after": section.number("DelayAfterCycles"),
        "delay": f"{section.number('BUDelay')}ms",
    }


def _read_ahead(section: _Section, config: _Section) -> Inline:
    return {
        "kind": "read_ahead",
        "pages_min": section.number("BuffersRAMin", 1),
        "pages_max": section.number("BuffersRAMax", 1),
        "delay_after": section.number("DelayAfterCycles"),
        "delay": f"{section.number('RADelay')}ms",
        "force": config.flag("ForceReadAhead"),
    }


def _audit(section: _Section) -> Inline:
    return {
        "kind": "audit",
        "pages": section.number("BuffersValidated", 1),
        "delay_after": section.number("DelayAfterCycles"),
        "delay": f"{section.number('AuditDelay')}ms",
    }
