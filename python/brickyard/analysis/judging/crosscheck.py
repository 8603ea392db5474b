"""Duty: the same load by two programs: how far apart their figures are, and whether the runs are enough to tell.

A rate or a mean of repeated runs is their geometric mean; percentiles are those of the merged histograms.

Refusal: which of them is right is not decided, and a difference that the runs are too few to see is not called none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from brickyard.analysis.figures import samples
from brickyard.analysis.figures.difference_words import WITHIN_NOISE, difference_text
from brickyard.analysis.figures.latency import Latency, as_one
from brickyard.analysis.figures.named import FIGURES
from brickyard.analysis.figures.samples import Difference, Sample, in_family, repetitions_for, sample
from brickyard.analysis.figures.totals import Totals, asked_stream, shared_latency, totals
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.analysis.judging.conclusions import sees_words
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.schema import Document
from brickyard.schema.fio_words import CURSORS, has_other_cursors
from brickyard.schema.plan import OpenPace, Plan, Stream
from brickyard.store import Record
from brickyard.store.record import FIO

DECIDES = 0.2  # two engines that differ by less do the same for most purposes; five runs find 14 % at a noise of 6 %
OURS = "brickyard"
APART = 2.0  # means that differ by this factor are said to
TIMES = ("mean", *MEDIAN_AND_P99)
JUDGED = {"iops": "IOPS", "latency_mean": "Mean latency", "latency_p99": "p99 of the latency"}
"""Figures that sentences are about, by their names in `figures.named`."""


@dataclass(frozen=True)
class Side:
    """One program's figures for one operation of one stream."""

    runs: int
    requests: int
    """Of the run with the fewest."""
    iops: float
    bytes_per_s: float
    latency: Latency | None
    """Of Brickyard the response time, or the service time where the profile sets the rate; of fio its `lat`."""
    mean_ns: float | None
    samples: dict[str, Sample | None]
    """Of `JUDGED`."""
    is_paced: bool = False
    """Whether the profile sets the rate."""

    def time_ns(self, name: str) -> float | None:
        if name == "mean":
            return self.mean_ns
        return None if self.latency is None else self.latency.percentiles.get(name)


@dataclass(frozen=True)
class Judged:
    """How far theirs are above ours in one figure, as one of all places that are compared."""

    found: Difference | None
    runs: tuple[int, int]

    @property
    def is_decided(self) -> bool | None:
        """Whether the runs see a difference, or would see one of `DECIDES`; None where noise is unknown."""
        if self.found is None or self.found.seen is None:
            return None
        return self.found.seen or (self.found.sees is not None and self.found.sees <= DECIDES)

    @property
    def repetitions(self) -> int | None:
        """How many runs of each would find a difference as large as this one, or as `DECIDES` if it is smaller."""
        test = self.found.test if self.found else None
        if self.found is None or test is None or not test.is_log:
            return None
        spread = test.error / math.sqrt(sum(1 / runs for runs in self.runs))
        return repetitions_for(spread, max(DECIDES, math.expm1(abs(test.apart))), self.found.level)


@dataclass(frozen=True)
class Comparison:
    phase: str
    stream: str
    operation: str
    ours: Side
    theirs: Side
    judged: dict[str, Judged]
    """Of `JUDGED`."""

    def difference_of(self, figure: str) -> Difference | None:
        return self.judged[figure].found

    def time_difference(self, name: str) -> float | None:
        return difference(self.ours.time_ns(name), self.theirs.time_ns(name))


def difference(ours: float | None, theirs: float | None) -> float | None:
    """How much theirs is above ours, as a share of ours."""
    return None if ours is None or theirs is None or not ours else theirs / ours - 1


def compare(ours: list[Record], theirs: list[Record]) -> list[Comparison]:
    """The differences of one figure are judged as one family; each figure has a sentence of its own."""
    mine, other = _by_place(ours), _by_place(theirs)
    sides = [(rows[0][1], _side(rows), _side(other[key])) for key, rows in mine.items() if key in other]
    found = {name: in_family([_apart_in(name, one, two) for _, one, two in sides]) for name in JUDGED}
    return [
        Comparison(
            row.phase_name,
            row.stream_name,
            row.operation,
            one,
            two,
            {name: Judged(family[number], (one.runs, two.runs)) for name, family in found.items()},
        )
        for number, (row, one, two) in enumerate(sides)
    ]


def _apart_in(name: str, ours: Side, theirs: Side) -> Difference | None:
    base, value = ours.samples[name], theirs.samples[name]
    if base is None or value is None:
        return None
    resolution = max(map(_rate_resolution, (ours, theirs))) if name == "iops" else FIGURES[name].resolution
    return samples.difference(value, base, resolution=resolution)


CLOCK_S = 0.002  # fio's times are whole milliseconds, at both ends


def _rate_resolution(of: Side) -> float:
    """How far apart, as a share, two equal rates may be read: by a request, or by fio's clock."""
    lasts_s = of.requests / of.iops if of.iops else 0.0
    return max(1 / max(1, of.requests), CLOCK_S / lasts_s if lasts_s else 0.0)


_Found = list[tuple[Record, Totals]]


def _by_place(records: list[Record]) -> dict[tuple[int, int, str], _Found]:
    found: dict[tuple[int, int, str], _Found] = {}
    for record in records:
        for row in totals(record):
            found.setdefault((row.phase, row.stream, row.operation), []).append((record, row))
    return found


def _side(found: _Found) -> Side:
    rows = [row for _, row in found]
    each = [shared_latency(record, row) for record, row in found]
    times = [one for one in each if one is not None]
    merged = as_one(times)
    points = [None if one is None else one.p99 for one in each]
    known = [float(point) for point in points if point is not None]
    asked = asked_stream(found[0][0], rows[0].phase, rows[0].stream)
    return Side(
        runs=len(rows),
        requests=min(row.requests for row in rows),
        iops=_mean(row.iops for row in rows) or 0.0,
        bytes_per_s=_mean(row.bytes_per_s for row in rows) or 0.0,
        latency=merged,
        mean_ns=_mean(item.mean_ns for item in times),
        samples={
            "iops": sample([row.iops for row in rows]),
            "latency_mean": sample([item.mean_ns for item in times], lacking=len(rows) - len(times)),
            "latency_p99": sample(
                known,
                whole=merged.p99 if merged else None,
                lacking=len(rows) - len(known),
                resolution=FIGURES["latency_p99"].resolution,
            ),
        },
        is_paced=isinstance(asked, Stream) and isinstance(asked.pace, OpenPace),
    )


def _mean(values: Iterable[float]) -> float | None:
    found = sample(tuple(values))
    return found.centre if found else None


def verdict(judged: Judged) -> str:
    """What the runs say of a figure of both, in words that never read as agreement where they cannot tell."""
    found = judged.found
    if found is None:
        return "not compared: one of them has no requests, or too few for it"
    fewest = min(judged.runs)
    runs = f"{fewest} run{'' if fewest == 1 else 's'} each"
    if judged.is_decided is None:
        if fewest > 1:
            return "cannot be decided: some runs have too few requests for it; measure for longer"
        return f"{_apart(found)}{runs} cannot decide, since noise between runs is unknown; --repeat 5"
    if found.seen:
        return f"seen over {runs}"
    sees = sees_words(found.sees) if found.sees is not None else ""
    if judged.is_decided:
        return f"no difference seen over {runs} ({sees} would be seen)"
    needed = judged.repetitions
    remedy = (
        f"--repeat {max(needed, fewest + 1)} may decide" if needed else "the runs vary too much; see each by itself"
    )
    return f"{_apart(found)}{runs} cannot decide (only {sees} would be seen); {remedy}"


def _apart(found: Difference) -> str:
    ratio = 1 + found.share
    apart = max(ratio, 1 / ratio) if ratio > 0 else 0.0
    return f"they differ {apart:.3g}-fold; " if apart >= APART else ""


@dataclass(frozen=True)
class TwoPrograms:
    """The runs of each program, and what was compared of those that came to their end."""

    ours: list[Record]
    theirs: list[Record]
    found: list[Comparison]

    @property
    def version(self) -> str:
        return self.theirs[0].info.software_version if self.theirs else FIO


def is_crosscheck(records: Sequence[Record]) -> bool:
    """Whether `crosscheck` made them: each is marked with the program that ran it."""
    return bool(records) and all(record.info.marks.engine for record in records)


def crosschecked(records: Sequence[Record]) -> TwoPrograms:
    good = [record for record in records if record.info.is_valid]
    ours = [record for record in good if record.info.marks.engine == OURS]
    theirs = [record for record in good if record.info.marks.engine == FIO]
    return TwoPrograms(ours, theirs, compare(ours, theirs))


def crosscheck_answer(of: TwoPrograms, records: Sequence[Record]) -> Answer:
    """Of each operation of each stream what is known of the two rates."""
    said = [place_words(item, of.version) for item in of.found]
    if not said:
        said = ["Nothing was compared: no run of each program came to its end."]
    said = [*cursor_words(records), *said]
    return Answer(f"Do {of.version} and Brickyard measure the same?", tuple(said), belief(records))


def cursor_words(records: Sequence[Record]) -> list[str]:
    """That the places of some requests are not those of both, before any figure."""
    plan = records[0].info.plan if records else None
    if not isinstance(plan, Plan):
        return []
    places = [(phase.name, stream.name) for phase in plan.phase for stream in phase.stream if has_other_cursors(stream)]
    named = "; ".join(", ".join(filter(None, place)) for place in places)
    of = f" of {named}" if named.strip("; ") else ""
    return [f"The places of requests{of} differ: {CURSORS}."] if places else []


def place_words(item: Comparison, version: str) -> str:
    """What is known of one operation of one stream, a sentence for each figure."""
    said = [
        f"{title}{f' of {version}' if name == 'iops' else ''}{_difference_words(item.judged[name])}: "
        f"{verdict(item.judged[name])}."
        for name, title in JUDGED.items()
    ]
    paced = " The profile sets the rate, so the times tell more." if item.ours.is_paced else ""
    return f"{', '.join((item.phase, item.stream, item.operation))}: {said[0]}{paced} {' '.join(said[1:])}"


def _difference_words(judged: Judged) -> str:
    found = judged.found
    return f" {difference_text(found).removesuffix(f' {WITHIN_NOISE}')}" if found else ""


def comparison_document(found: Comparison) -> Document:
    return {
        "phase": found.phase,
        "stream": found.stream,
        "operation": found.operation,
        "brickyard": _document(found.ours),
        "fio": _document(found.theirs),
        "difference": {
            **{f"latency_{name}": found.time_difference(name) for name in TIMES},
            **{key: value for name, one in found.judged.items() for key, value in _judged_document(name, one)},
        },
    }


def _judged_document(name: str, judged: Judged) -> Iterator[tuple[str, object]]:
    found = judged.found
    yield name, found.share if found else None
    yield f"{name}_low", found.low if found else None
    yield f"{name}_high", found.high if found else None
    yield f"{name}_seen", found.seen if found else None
    yield f"{name}_sees", found.sees if found else None
    yield f"{name}_decided", judged.is_decided


def _document(side: Side) -> Document:
    times = {f"latency_{name}_ns": side.time_ns(name) for name in TIMES}
    return {"runs": side.runs, "iops": side.iops, "bytes_per_s": side.bytes_per_s, **times}
