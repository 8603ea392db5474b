"""Duty: what a study of PTS found, put together again out of its runs, and its answer in words.

Refusal: no figure is computed here, and a test that was not carried out to its end is in no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.cached import CACHE_TIMES, held_bytes
from brickyard.analysis.studies.pts import measured_phases, points, recovery, saturation_of
from brickyard.analysis.studies.pts_points import points_answer
from brickyard.store import Record, StudyInfo
from brickyard.study.snia import tests
from brickyard.study.snia.test import SHORTENED, Found, Rounds, stimuli_of, stored_points
from brickyard.study.snia.tests import DIRTH, KINDS, TITLES, Cell, Queue
from brickyard.units import MB, format_iops, format_ns, format_size, three_digits

QUESTION = "What does the target sustain by SNIA's Performance Test Specification, once its state is steady?"
QUESTION_SHORTENED = "What does the target sustain in a shortened form of SNIA's test, once its state is steady?"
NO_RESULT = "This is not a PTS result: its rounds or its range differ from what PTS requires."
TYPICAL_BYTES = 4 * tests.KIB
PREFIX = "pts-"


def stored(study: StudyInfo, records: Sequence[Record]) -> Found | None:
    """None where the study is no PTS, or none of its tests came to its end."""
    kind = KINDS.get(study.name.removeprefix(PREFIX)) if study.name.startswith(PREFIX) else None
    if kind is None:
        return None
    done = [record for record in records if record.info.outcome == "done"]
    found = Found(study.id, SHORTENED in study.notes, [record.info.id for record in records])
    for name in (name for name in tests.TESTS if name not in ("write-saturation", "cross-stimulus")):
        own = [record for record in done if _is_of(record, name)]
        if (rounds := _rounds(name, kind.queue, own)) is not None:
            found.rounds[name] = rounds
    if (operating := stored_points(records)) is not None and DIRTH in found.rounds:
        found.operating = operating[0]
    for record in done:
        if _is_of(record, "write-saturation"):
            found.saturation = points(record, 0)
        elif _is_of(record, "cross-stimulus"):
            found.stimuli = stimuli_of(record)
    return found if found.rounds or found.saturation or found.stimuli else None


def _is_of(record: Record, name: str) -> bool:
    return record.info.marks.test == name


def _rounds(name: str, queue: Queue, own: Sequence[Record]) -> Rounds | None:
    """Of a model all rounds are in one run, behind what preconditions it; of storage each is a run."""
    whole = [record for record in own if record.info.marks.rounds is not None][-1:]
    single = [record for record in own if record.info.marks.round is not None]
    rounds = Rounds(tests.round_test(name, queue))
    skipped = 1 if rounds.test.prewrite is not None else 0
    size = len(rounds.test.cells) + skipped
    for record in whole or single:
        phases = measured_phases(record)[len(whole) :]
        for start in range(0, len(phases) - size + 1, size):
            cells = [figures for figures in phases[start + skipped : start + size] if figures is not None]
            if len(cells) == size - skipped:
                rounds.rounds.append(cells)
    if not rounds.rounds:
        return None
    rounds.judge()
    return rounds


@dataclass(frozen=True)
class _Said:
    """A sentence for each group of tests, three in all, and which tests have no result."""

    found: Found

    def sentences(self, records: Sequence[Record]) -> list[str]:
        served = "; ".join(part for part in (self._iops(), self._throughput()) if part)
        waited = "; ".join(part for part in (self._latency(), self._points(records)) if part)
        lasted = "; ".join(part for part in (self._saturation(records), self._recovery()) if part)
        return [f"{part[0].upper()}{part[1:]}." for part in (served, waited, lasted) if part]

    def lacking(self) -> str:
        """Which tests have no result, and why: the first sentence, so that nobody takes their figures for one."""
        by_cause: dict[str, list[str]] = {}
        for name, cause in self.found.without_result.items():
            by_cause.setdefault(cause, []).append(TITLES[name])
        said = "; ".join(f"{' and '.join(names)}: {cause}" for cause, names in by_cause.items())
        return f"No result for {said}." if said else ""

    def _by(self, name: str, figure: str, *, largest: bool = False) -> tuple[str, float, float] | None:
        """A request size with its figure for reads alone and for writes alone: 4 KiB, or the largest there is. None of
        a test without a result: none of its figures is an answer."""
        rounds = self.found.rounds.get(name)
        if rounds is None or name in self.found.without_result:
            return None
        ends: dict[int, dict[int, Cell]] = {}
        for cell in rounds.test.cells:
            ends.setdefault(cell.size_bytes, {})[cell.reads] = cell
        both = {size: cells for size, cells in ends.items() if {0, 100} <= cells.keys()}
        if not both:
            return None
        size = max(both) if largest or TYPICAL_BYTES not in both else TYPICAL_BYTES
        reads, writes = (float(getattr(rounds.of(both[size][share]), figure)) for share in (100, 0))
        return format_size(size), reads, writes

    def cached(self, cache_bytes: int) -> str:
        """Rates of writes that caches of so many bytes may have taken: reads come before them in each round, in which a
        cache empties itself."""
        small: dict[str, int] = {}
        for name in ("iops", "throughput"):
            if (rounds := self.found.rounds.get(name)) is None or name in self.found.without_result:
                continue
            written = [
                rounds.rounds[-1][at].requests * cell.size_bytes
                for at, cell in enumerate(rounds.test.cells)
                if cell.reads == 0
            ]
            if written and min(written) < CACHE_TIMES * cache_bytes:
                small[name] = min(written)
        if not small:
            return ""
        where, least, cache = (
            " and ".join(TITLES[name] for name in small),
            min(small.values()),
            format_size(cache_bytes),
        )
        return (
            f"In {where}, a load wrote as little as {format_size(least)} into {cache} of write cache, so that rates of "
            "writes may be those of the cache; a longer --round shows what lasts."
        )

    def _iops(self) -> str:
        if (found := self._by(name := "iops", name)) is None:
            return ""
        size, reads, writes = found
        cell = self.found.rounds[name].test.steady
        with_words = f"{cell.workers} threads × {cell.depth} in flight"
        rates = f"{format_iops(reads)} reads/s or {format_iops(writes)} writes/s"
        return f"random requests of {size} with {with_words}: {rates}"

    def _throughput(self) -> str:
        if (found := self._by("throughput", "bytes_per_s", largest=True)) is None:
            return ""
        size, reads, writes = (found[0], three_digits(found[1] / MB), three_digits(found[2] / MB))
        return f"sequential requests of {size}: {reads} MB/s read or {writes} MB/s written"

    def _latency(self) -> str:
        if (found := self._by("latency", "mean_ns")) is None:
            return ""
        size, reads, writes = found
        return f"alone, a read of {size} takes {format_ns(reads)} on average and a write {format_ns(writes)}"

    def _points(self, records: Sequence[Record]) -> str:
        if not self.found.operating:
            return ""
        said = points_answer(self.found.operating, records, is_steady=self.found.is_steady)
        return " ".join(said.sentences).rstrip(".")

    def _saturation(self, records: Sequence[Record]) -> str:
        found = saturation_of(self.found.saturation, tests.WINDOW)
        if not self.found.saturation:
            return ""
        if found is None:
            return "write saturation ended before two rounds were complete; a shorter --round shows its course"
        ends = found.words(f"{format_iops(found.last)} writes/s")
        if all(record.info.is_modelled for record in records):  # a new drive with each run
            return f"written without a pause from its first byte on, the target ends at {ends}"
        before = "other tests had written to it before" if self.found.rounds else "it was not purged before"
        return f"written without a pause, the target ends at {ends} ({before}, so a new drive may begin faster)"

    def _recovery(self) -> str:
        stimuli = self.found.stimuli
        before, after = (stimuli.get(name) for name in ("A", "C"))
        if not before or not after:
            return ""
        back = recovery(before, after, tests.WINDOW)
        when = "never comes back" if back is None else f"is back in round {back}"
        return f"after random writes, the rate of sequential ones {when}"


def pts_answer(found: Found, records: Sequence[Record]) -> Answer:
    """Of operating points alone their own answer, else one sentence for each group of tests; first of all, which tests
    have no result, and that a shortened test is no result of PTS."""
    by_pts = _answer(found, records)
    if not found.is_shortened:
        return by_pts
    return replace(by_pts, question=QUESTION_SHORTENED, sentences=(NO_RESULT, *by_pts.sentences))


def _answer(found: Found, records: Sequence[Record]) -> Answer:
    said = _Said(found)
    if found.operating and list(found.rounds) == [DIRTH] and not found.saturation and not found.stimuli:
        return points_answer(found.operating, records, is_steady=found.is_steady)
    lacking = said.lacking()
    held = max((held_bytes(record)[0] or 0 for record in records), default=0)
    sentences = (*([lacking] if lacking else []), *said.sentences(records))
    return Answer(QUESTION, sentences, belief(records, said.cached(held)))
