"""Duty: from one look after another to notices: each event once, with hysteresis, also across restarts of the watch.

Refusal: it looks at nothing and sends nothing; `looking` and `notify` do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from brickyard.arrays.health import LOOKS_TO_END, ArrayMemory, Health, Notice, Sighting, step
from brickyard.arrays.looking import Seen
from brickyard.store import Json
from brickyard.units import format_percent

# Figures of drives and file systems may be off once.
LOOKS_TO_BEGIN = 2
CLEAR_BELOW = 0.02  # a file system counts as full until it is this much below the limit
WORN_PERCENT = 100  # NVM Express Base Specification: 100 says that the rated life is used up


@dataclass(frozen=True)
class Finding:
    key: str
    severity: str
    text: str
    end_text: str


@dataclass
class Watcher:
    """`memory` is plain data; whoever keeps it keeps the watch from telling twice."""

    full_share: float = 0.95
    memory: Json = field(
        default_factory=lambda: {"open": {}, "pending": {}, "counts": {}, "writable": [], "arrays": {}}
    )

    def look(self, seen: Seen, *, with_drives: bool = True) -> list[Notice]:
        """The notices of one look. Without drives, what is open about them stays as it is."""
        findings = {finding.key: finding for finding in self._findings(seen)}
        told = [*self._arrays(seen), *self._begins(findings)]
        told += [*self._ends(findings, seen, with_drives=with_drives), *self._counts(seen)]
        writable = {system.place for system in seen.file_systems if not system.read_only}
        self.memory["writable"] = sorted(writable | set(self.memory["writable"]))
        return told

    def healths(self) -> dict[str, Health]:
        """What was told last of each array, by its name; also of those that are gone."""
        kept = [ArrayMemory.of(told) for told in self.memory["arrays"].values()]
        return {memory.name: memory.told for memory in kept if memory.told is not None}

    def _arrays(self, seen: Seen) -> Iterator[Notice]:
        kept: Json = self.memory["arrays"]
        sheets = {sheet.key: sheet for sheet in seen.arrays}
        for key in [*sheets, *(key for key in kept if key not in sheets)]:
            memory = ArrayMemory.of(kept.get(key) or {})
            sheet = sheets.get(key)
            name = memory.name if sheet is None else sheet.name
            problem = seen.problem_of(key, name)
            yield from step(memory, Sighting(name, sheet, problem, seen.holders.get(key), seen.left.get(key, "")))
            kept[key] = memory.document()

    def _findings(self, seen: Seen) -> Iterator[Finding]:
        yield from drive_findings(seen)
        for system in seen.file_systems:
            key = f"file system {system.place} full"
            limit = self.full_share - (CLEAR_BELOW if key in self.memory["open"] else 0.0)
            if system.used_share is not None and system.used_share >= limit:
                words = f"the file system at {system.place} is {format_percent(system.used_share)} full"
                yield Finding(key, "warning", words, f"the file system at {system.place} has room again")
            if system.read_only and system.place in self.memory["writable"]:
                words = f"the file system at {system.place} has become read-only"
                end = f"the file system at {system.place} can be written again"
                yield Finding(f"file system {system.place} read-only", "error", words, end)

    def _begins(self, findings: dict[str, Finding]) -> Iterator[Notice]:
        pending = self.memory["pending"]
        for key in [key for key in pending if key not in findings]:
            del pending[key]
        for key, finding in findings.items():
            if key in self.memory["open"]:
                self.memory["open"][key]["absent"] = 0
                continue
            pending[key] = pending.get(key, 0) + 1
            if pending[key] >= LOOKS_TO_BEGIN:
                del pending[key]
                self.memory["open"][key] = {"absent": 0, "end_text": finding.end_text}
                yield Notice(key, "begins", finding.severity, finding.text)

    def _ends(self, findings: dict[str, Finding], seen: Seen, *, with_drives: bool) -> Iterator[Notice]:
        for key, kept in list(self.memory["open"].items()):
            if key.startswith(("array ", "member ")):  # kept by an earlier version, which took silence for recovery
                del self.memory["open"][key]
                continue
            if key in findings or (key.startswith("drive ") and not with_drives) or not _shows_end(key, seen):
                continue
            kept["absent"] += 1
            if kept["absent"] >= LOOKS_TO_END:
                del self.memory["open"][key]
                yield Notice(key, "ends", "note", kept["end_text"])

    def _counts(self, seen: Seen) -> Iterator[Notice]:
        """Errors are told when there are more of them than were told; the first look only takes note of old ones."""
        for key, words, count in error_counts(seen):
            before = self.memory["counts"].get(key)
            self.memory["counts"][key] = count
            if before is not None and count > before:
                yield Notice(key, "counts", "error", f"{words}: {count - before:,} more, {count:,} in all")


def _shows_end(key: str, seen: Seen) -> bool:
    """Whether what a finding is about is seen to be well: a drive that is gone or asleep passes no test."""
    for drive in seen.drives:
        told = drive.told
        if key == f"drive {drive.name} smart":
            return told.passed is True
        if key == f"drive {drive.name} critical":
            return told.critical_warning == 0
        if key == f"drive {drive.name} worn":
            return told.percentage_used is not None
    return any(key.startswith(f"file system {system.place} ") for system in seen.file_systems)


def drive_findings(seen: Seen) -> Iterator[Finding]:
    for drive in seen.drives:
        told, name = drive.told, drive.name
        if told.passed is False:
            words = f"the drive {name} says that it will fail soon (SMART)"
            yield Finding(f"drive {name} smart", "error", words, f"the drive {name} passes its own test again")
        if told.critical_warning:
            words = f"the drive {name} warns of itself: critical warning {told.critical_warning:#04x}"
            yield Finding(f"drive {name} critical", "error", words, f"the drive {name} warns no more")
        if (told.percentage_used or 0) >= WORN_PERCENT:
            words = f"the drive {name} has used up {told.percentage_used} % of its rated life"
            yield Finding(f"drive {name} worn", "warning", words, f"the drive {name} is not worn")


def error_counts(seen: Seen) -> Iterator[tuple[str, str, int]]:
    for sheet in seen.arrays:
        for member in sheet.members:
            if member.errors is not None and member.name != "–":
                yield f"errors {sheet.name} {member.name}", f"errors of {member.name} in {sheet.name}", member.errors
    for drive in seen.drives:
        told = drive.told
        if told.media_errors is not None:
            yield f"drive {drive.name} media_errors", f"media errors of the drive {drive.name}", told.media_errors
        if told.reallocated_sectors is not None:
            words = f"reallocated sectors of the drive {drive.name}"
            yield f"drive {drive.name} reallocated_sectors", words, told.reallocated_sectors
