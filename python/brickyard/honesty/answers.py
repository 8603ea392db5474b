"""Duty: a study of `honesty` or `durable` → what its verdict rests on, and its question and answer in words.

Of a study in a store everything is computed again from its runs, and from what it has kept of the command line: whether
the cache survives a power cut, and what a power cut had shown.

Refusal: nothing is measured, and what an older study has not kept is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brickyard import rulers
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.verdict import Verdict
from brickyard.analysis.judging.verdict import verdict as held_against
from brickyard.facts import Roots
from brickyard.facts.write_cache import write_cache_facts
from brickyard.honesty.durable import ETCD, PAGE_BYTES, Method, WriteCell
from brickyard.honesty.durable_figures import Commits, DurableWrite, commits, durable_writes, faster, find
from brickyard.honesty.figures import Figures, figures
from brickyard.honesty.findings import SILENT, Finding, findings, verdict
from brickyard.honesty.log_rule import judged
from brickyard.schema import IoPath
from brickyard.schema.target_sheet import TargetSheet, WriteCaches
from brickyard.store import Proof, Record, StudyInfo
from brickyard.units import format_iops, format_ns, format_percent, format_size

DURABLE, HONESTY = "durable", "honesty"
"""The names of the two kinds of study."""
DURABLE_QUESTION = "What does a durable write cost here, and is it durable?"
HONESTY_QUESTION = "Are flushes and durable writes as slow here as the medium makes them?"
NOWHERE = Roots(sys="/nonexistent")
LINUX_DEFAULT = Method.FDATASYNC


@dataclass(frozen=True)
class WritePath:
    """All that a verdict rests on."""

    records: Sequence[Record]
    measured: Figures
    cache: WriteCaches
    findings: list[Finding]
    writes: list[DurableWrite]
    etcd: Verdict | None
    proof: Proof | None
    limits: str = ""
    """What an older study did not keep."""

    @property
    def word(self) -> str:
        """A power cut outweighs what speeds suggest, if it shows anything."""
        return self.proof.word if self.proof and self.proof.word else verdict(self.findings)

    @property
    def commits(self) -> list[Commits]:
        found = find(self.writes, WriteCell(LINUX_DEFAULT, PAGE_BYTES))
        return commits(found) if found else []


def is_of_write_path(study: StudyInfo) -> bool:
    """Whether `honesty` or `durable` made it; a file of a design may have the same name."""
    return study.name in (DURABLE, HONESTY) and study.kept.text is None


def write_path(study: StudyInfo, records: Sequence[Record]) -> WritePath:
    kept, measured, cache = study.kept, figures(records), cache_of(study, records)
    if study.name == DURABLE and _is_direct(records[0]):
        # The flushed methods go through the page cache on purpose, as PostgreSQL's log does.
        measured = replace(measured, buffered_reason="")
    etcd = next((record for record in records if record.info.profile == ETCD), None)
    return WritePath(
        records,
        measured,
        cache,
        findings(measured, cache, protected=bool(kept.protected)),
        durable_writes(records),
        judged(etcd, held_against(etcd, rulers.read("etcd"))) if etcd and etcd.info.outcome == "done" else None,
        kept.proof,
        _not_kept(study) if kept.protected is None else "",
    )


def _not_kept(study: StudyInfo) -> str:
    given = "--protected or --recorder-file was" if study.name == DURABLE else "--protected was"
    return (
        f"An earlier version of Brickyard made this study and did not keep whether {given} given, nor what the drive "
        "itself reported of its cache: the verdict is that of the speeds and of the kernel's facts alone."
    )


def cache_of(study: StudyInfo, records: Sequence[Record]) -> WriteCaches:
    """What was known of the write caches below the one target of these runs; never what is there today."""
    sheets = records[0].info.facts.targets
    return study.kept.caches or write_cache_facts(sheets[0] if sheets else TargetSheet(), NOWHERE)


def _is_direct(record: Record) -> bool:
    return record.info.start is not None and record.info.start.io is IoPath.DIRECT


def write_path_answer(study: StudyInfo, found: WritePath) -> Answer:
    is_durable = study.name == DURABLE
    said = (_verdict_words(found), *(_cost_words(found) if is_durable else ()))
    question = DURABLE_QUESTION if is_durable else HONESTY_QUESTION
    return Answer(question, said, belief(found.records, found.limits))


def _cost_words(found: WritePath) -> list[str]:
    said = []
    if page := find(found.writes, WriteCell(LINUX_DEFAULT, PAGE_BYTES)):
        most = found.commits[-1]
        said.append(
            f"PostgreSQL's log writes pages of {format_size(PAGE_BYTES)} through the page cache and flushes each commit"
            f" with fdatasync. It limits one client to at most {format_iops(page.per_s)} commits/s (95 % "
            f"interval {interval_words(page)}), {format_ns(page.each_ns)} each, and {most.clients} clients that share "
            f"every flush to at most {most.clients} times as many; `brickyard run pgbench` measures how much of that a "
            "server reaches."
        )
        said.append(_faster_words(found))
    return [*said, f"etcd's rule (p99 of fdatasync within 10 ms): {_etcd_words(found.etcd)}."]


def interval_words(item: DurableWrite) -> str:
    if item.rates.low is None or item.rates.high is None:
        return "–"
    return f"{format_iops(item.rates.low)} to {format_iops(item.rates.high)}"


def _etcd_words(held: Verdict | None) -> str:
    if held is None:
        return "not measured, because the run ended before that"
    decided = held.decided
    return (
        f"{held.word}, {decided.reason}" if decided.value is None else f"{held.word}, with {format_ns(decided.value)}"
    )


def _faster_words(found: WritePath) -> str:
    better = faster(found.writes, LINUX_DEFAULT)
    if not better:
        return f"No other wal_sync_method was faster beyond noise than {LINUX_DEFAULT}, PostgreSQL's default on Linux."
    said = " and ".join(f"{method} by {format_percent(item.share)}" for method, item in better)
    return f"Faster than {LINUX_DEFAULT}, PostgreSQL's default on Linux, beyond noise: wal_sync_method = {said}."


def _verdict_words(found: WritePath) -> str:
    if found.proof and found.proof.word:
        return f"Verdict: {found.word}. {found.proof.text}"
    reasons = [item.text for item in found.findings if item.state == found.word]
    # Where nothing is judged, the reason is said after what the kernel knows.
    judged_last = [item.text for item in found.findings if item.id == "not_judged"]
    reason = next(iter(judged_last or reasons[-1:]), "") if found.word == SILENT else next(iter(reasons), "")
    missing = found.proof.text if found.proof and found.proof.missing else ""
    return " ".join(filter(None, (f"Verdict: {found.word}.", reason, missing)))
