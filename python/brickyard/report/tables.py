"""Duty: analysed figures as tables of text for the page. Refusal: no markup; the template escapes and lays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import analysis
from brickyard.analysis import RankedCell, Totals
from brickyard.analysis.figures import background, cells, power
from brickyard.analysis.figures.all_rows import AllRow, all_rates, all_times
from brickyard.analysis.figures.cells import LATENCY_COLUMNS, latency_cells
from brickyard.analysis.figures.sending import asked_noun, length_told
from brickyard.analysis.figures.tool_cells import tool_table
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging import slow
from brickyard.analysis.judging import summary as summaries
from brickyard.analysis.judging.cached import empty_reads
from brickyard.analysis.judging.caveats_run import damage_text
from brickyard.analysis.judging.further import further_tables
from brickyard.analysis.judging.groups import apart_words
from brickyard.analysis.judging.marks import marks_of
from brickyard.analysis.judging.pairing import length_lines
from brickyard.analysis.judging.repetitions import Repeated
from brickyard.analysis.studies.characterization import footnotes, latency_name, pattern_words
from brickyard.schema import HangEvent, Timed, is_on_data, is_request
from brickyard.store import METADATA, FailedRequest, Record
from brickyard.units import (
    format_count,
    format_name,
    format_ns,
    format_percent,
    format_runs,
    format_size,
)

PHONE = 318
"""Pixels of a table on a phone of 360 px, less the margins."""
LETTER, BESIDE = 7.6, 10  # pixels of a letter of a table on a phone, and of the room beside a cell
SHORT = 12
"""Letters of words that stand beside figures on a phone, and that are never broken."""
ABREAST, ABREAST_WIDE = 4, 3
"""Figures of a block that stand side by side, and where one of them is wide."""
NARROW, BROAD = 9, 15  # letters of a figure of which four stand side by side, and three
LISTED = 6
"""So many rows are compared down their columns rather than read one by one."""


@dataclass(frozen=True)
class TableCell:
    """A cell as it is laid out: with the name of its column, for where no heading stands above it."""

    name: str
    text: str
    looks: str


@dataclass(frozen=True)
class Table:
    """`text_columns` leading columns hold words, all others figures. Columns may be grouped under one heading."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 0
    groups: tuple[tuple[str, int], ...] = ()
    note: str = ""
    """What its figures depend on, below the title."""
    keys: int | None = None
    """Leading columns that name a row, words or figures; by default those of words."""
    far: frozenset[tuple[int, int]] = frozenset()
    """Rows and columns of figures that stand out as far off."""

    @property
    def stacks(self) -> bool:
        """Whether a phone shows each row as a block, since its words would leave no room for its figures, or figures
        name it. Else a table that does not fit scrolls below its first column."""
        widths = [
            max(len(text) for text in (*heading.split(), *(row[number] for row in self.rows), ""))
            for number, heading in enumerate(self.columns)
        ]
        if sum(widths) * LETTER + len(widths) * BESIDE <= PHONE:
            return False
        words = sum(max((len(row[number]) for row in self.rows), default=0) for number in range(self.text_columns))
        return words > SHORT or len(self.rows) < LISTED or self._keys > self.text_columns

    @property
    def abreast(self) -> int:
        """How many figures of a block stand side by side."""
        figures = (text for row in self.rows for text in row[self._keys :] if len(text) <= BROAD)
        return ABREAST if all(len(text) <= NARROW for text in figures) else ABREAST_WIDE

    @property
    def _keys(self) -> int:
        return self.text_columns if self.keys is None else self.keys

    @property
    def cells(self) -> list[list[TableCell]]:
        names = self._names()
        shown: list[list[TableCell]] = []
        for number, row in enumerate(self.rows):
            again = self._again(row) if shown else 0
            texts = [*(cell.text for cell in shown[-1][:again]), *row[again:]] if again else row
            shown.append(
                [
                    TableCell(name, text, self._looks(number, at, text, is_again=at < again))
                    for at, (name, text) in enumerate(zip(names, texts, strict=True))
                ]
            )
        return shown

    def _names(self) -> list[str]:
        """Of each column, with that of its group."""
        above = [heading for heading, span in self.groups for _ in range(span)] or [""] * len(self.columns)
        return [f"{group} {column}".strip() for group, column in zip(above, self.columns, strict=True)]

    def _again(self, row: Sequence[str]) -> int:
        """How many words at its beginning a row leaves to the row above."""
        words = row[: self.text_columns]
        return next((number for number, text in enumerate(words) if text), 0)

    def _looks(self, row: int, at: int, text: str, *, is_again: bool) -> str:
        """Classes of the page."""
        is_text, is_key = at < self.text_columns, at < self._keys
        looks = {
            "text": is_text,
            "short": is_text and len(text) <= SHORT,
            "long": len(text) > (SHORT if is_text else BROAD),
            "key": is_key,
            "last": at == self._keys - 1,
            "named": is_key and (not is_text or text.isdigit()),
            "again": is_again,
            "far": (row, at) in self.far,
            "best": text == "100 %" and self.columns[at] == "% of best",
        }
        return " ".join(name for name, is_so in looks.items() if is_so)


TOGETHER = ("load", "figure", "runs", "together", "95 % interval", "lowest to highest run")


def repetitions_table(records: Sequence[Record], found: Sequence[Repeated]) -> Table:
    """The figures that the repetitions among `records` have together."""
    rows = []
    for item in found:
        rows.append([format_name(item.name), item.figure.title, str(item.runs), *_together_cells(item)])
    counted = [record for record in records if record.info.is_valid]
    note = [
        workload_words(counted),
        *length_lines(counted),
        T_INTERVAL,
        *([OUTSIDE] if any(i.sample and i.sample.is_outside for i in found) else []),
        *_lacking_words(found),
    ]
    return Table("Repetitions together", list(TOGETHER), rows, 2, note="; ".join(words for words in note if words))


def _together_cells(item: Repeated) -> list[str]:
    """The figure of all, its interval, its range. Those that some runs lack have neither."""
    text, of = item.figure.text, item.sample
    if of is None or of.low is None or of.high is None:
        return [text(of.centre if of else None), cells.DASH, cells.DASH]
    return [text(of.centre), f"{text(of.low)} to {text(of.high)}", f"{text(min(of.values))} to {text(max(of.values))}"]


def _lacking_words(found: Sequence[Repeated]) -> list[str]:
    """Which runs lack a figure, and why there is then no interval."""
    said = list(dict.fromkeys(_lack_words(item) for item in found if item.lacking))
    return [f"{cells.DASH}: {', and '.join(said)}"] if said else []


def _lack_words(item: Repeated) -> str:
    title = item.figure.title
    if not item.figure.is_percentile:
        return f"{format_runs(item.lacking)} {'has' if len(item.lacking) == 1 else 'have'} no {title}"
    if len(item.lacking) == item.runs:
        return f"no run has ten requests beyond the {title}; all requests together have them"
    few = f"{'has' if len(item.lacking) == 1 else 'have'} fewer than ten requests beyond the {title}"
    why = "without these, which may be the slow ones, there is no interval and no range"
    return f"{format_runs(item.lacking)} {few}; {why}"


T_INTERVAL = "the interval is Student's t, computed on the logarithms of the figures of the single runs"
OUTSIDE = "a percentile over all requests may lie outside the interval, which comes from those of the single runs"


def characterization_tables(patterns: dict[tuple[str, str], list[RankedCell]], records: list[Record]) -> list[Table]:
    """One table for each pattern; "% of best" compares with the best request size of the same pattern."""
    over = cells.over_columns(item.cell.row for ranked in patterns.values() for item in ranked)
    measure = latency_name(patterns)
    columns = [
        "request size",
        *over,
        "IOPS",
        "% of best",
        "MiB/s",
        "% of best",
        *LATENCY_COLUMNS,
        "variation",
        "errors",
    ]
    groups = (
        ("", 1 + len(over)),
        ("requests per second", 2),
        ("throughput", 2),
        (measure, len(LATENCY_COLUMNS)),
        ("", 2),
    )
    return [
        Table(
            title=f"{address} {operation}".capitalize(),
            columns=columns,
            rows=[
                [
                    format_size(item.cell.request_bytes),
                    *([cells.over(item.cell.row)] if over else []),
                    cells.iops(item.cell.row) + item.cell.mark,
                    format_percent(item.iops_share),
                    cells.mib_per_s(item.cell.row) + item.cell.mark,
                    format_percent(item.throughput_share),
                    *latency_cells(item.cell.row.latency),
                    cells.variation(item.cell.row.variation),
                    cells.errors(item.cell.row.errors),
                ]
                for item in ranked
            ],
            text_columns=1 + len(over),
            groups=groups,
            note="; ".join(filter(None, (pattern_words(records, ranked), f"latency: {measure}", *_footnotes(ranked)))),
        )
        for (address, operation), ranked in patterns.items()
    ]


def totals_tables(records: list[Record]) -> list[Table]:
    """Throughput and latency apart, so that each fits a page; a column that says the same everywhere is left out."""
    rows_of = [(record, analysis.totals(record)) for record in records]
    every = [(record, row) for record, rows in rows_of for row in rows]
    named = [(record, row) for record, row in every if row.operation in METADATA and (row.requests or row.errors)]
    chains = [(record, row) for record, row in every if not is_request(row.operation)]
    found = [(record, row) for record, row in every if is_on_data(row.operation)]
    many_runs = len(records) > 1
    many_phases = any(len(record.info.plan.phase) > 1 for record in records)
    shares = _shares(found)
    names = [*(["run", "workload"] if many_runs else []), *(["phase"] if many_phases else []), "stream", "operation"]

    def run_cells(record: Record, phase: str) -> list[str]:
        workload = ", ".join(filter(None, (record.info.profile, apart_words(record.info), *marks_of(record.info))))
        run = [str(record.info.id), workload] if many_runs else []
        return [*run, *([phase] if many_phases else [])]

    def name_cells(record: Record, row: Totals) -> list[str]:
        return [*run_cells(record, row.phase_name), row.stream_name, row.operation]

    def all_cells(record: Record, row: AllRow) -> list[str]:
        return [*run_cells(record, row.phase_name), row.stream_name, row.operation]

    best = ["% of best"] if any(share is not None for share in shares) else []
    best_dash = [cells.DASH for _ in best]
    over = cells.over_columns(row for _, row in found)
    whole = [
        (record, row, None, cells.WHOLE)
        for record in records
        for row in summaries.with_transient(record)
        if is_on_data(row.operation)
    ]
    shown = [(record, row, share, cells.over(row)) for (record, row), share in zip(found, shares, strict=True)]
    throughput = [
        [
            *name_cells(record, row),
            *([words] if over else []),
            format_count(row.requests),
            cells.iops(row),
            *([format_percent(share)] if best else []),
            cells.mib_per_s(row),
            cells.variation(row.variation),
            cells.in_flight(row),
            cells.errors(row.errors),
        ]
        for record, row, share, words in [*shown, *whole]
    ]
    throughput += [
        [*all_cells(record, row), *([row.over] if over else []), *row.figures[:2], *best_dash, *row.figures[2:]]
        for record, rows in rows_of
        for row in all_rates(record, rows)
    ]
    lengths = {record.info.id: length_told(record) for record in records}
    latency = [
        [*name_cells(record, row), *cells.timed_cells(row, measure, lengths[record.info.id])]
        for record, row in [*found, *chains, *named]
        for measure in row.measures
    ]
    latency += [
        [*all_cells(record, row), Timed.RESPONSE, *row.figures]
        for record, rows in rows_of
        for row in all_times(record, rows)
    ]
    note = workload_words(records)
    apart = [
        Table(
            title,
            [*names, noun, *cells.RATE_COLUMNS],
            [[*name_cells(record, row), format_count(row.requests), *cells.rate_cells(row)] for record, row in rows],
            text_columns=len(names),
            note=note,
        )
        for title, noun, rows in (
            (cells.chains_title(row.operation for _, row in chains), "count", chains),
            ("Metadata", "operations", named),
        )
        if rows
    ]
    columns = [*names, *over, "requests", "IOPS", *best, "MiB/s", "variation", cells.IN_FLIGHT, "errors"]
    return [
        *tool_tables(records),
        *(
            [Table("Throughput", columns, throughput, text_columns=len(names) + len(over), note=note)]
            if throughput or not apart
            else []
        ),
        *apart,
        Table(
            "Latency",
            [*names, "time", *LATENCY_COLUMNS],
            latency,
            text_columns=len(names) + 1,
            note="; ".join(filter(None, [note, *cells.mark_words(latency)])),
        ),
        *more_tables(records),
    ]


def _footnotes(ranked: list[RankedCell]) -> list[str]:
    return [*footnotes(ranked), *cells.mark_words(latency_cells(item.cell.row.latency) for item in ranked)]


def tool_tables(records: list[Record]) -> list[Table]:
    made = [(record, tool_table(record)) for record in records]
    return [
        Table(
            title=found.title + (f", run {record.info.id}" if len(records) > 1 else ""),
            columns=found.columns,
            rows=found.rows,
            text_columns=found.text_columns,
            groups=found.groups,
        )
        for record, found in made
        if found is not None
    ]


def _shares(found: list[tuple[Record, Totals]]) -> list[float | None]:
    """Of the best among finished runs of the same profile, phase, stream and operation; nothing else compares. Reads
    that the medium did not answer are not compared."""

    def load(record: Record, row: Totals) -> tuple[str, str, str, str]:
        return record.info.profile, row.phase_name, row.stream_name, row.operation

    empty = {id(record) for record in {id(record): record for record, _ in found}.values() if empty_reads(record)}

    def may_compare(record: Record, row: Totals) -> bool:
        return record.info.is_valid and not (row.operation == "read" and id(record) in empty)

    groups: dict[tuple[str, str, str, str], list[float]] = {}
    for record, row in found:
        if may_compare(record, row):
            groups.setdefault(load(record, row), []).append(row.iops)  # of what has no rate it is 0
    shares: list[float | None] = []
    for record, row in found:
        rates = groups.get(load(record, row), [])
        compared = may_compare(record, row) and row.is_rated and len(rates) > 1 and max(rates) > 0
        shares.append(row.iops / max(rates) if compared else None)
    return shares


def more_tables(records: list[Record]) -> list[Table]:
    """Rebuilds, power cuts, targets, frames and ramps of the runs that have them."""
    # The terminal says these in lines of words.
    of_models = (
        ("Rebuilds and the like", background.COLUMNS, background.background_rows),
        ("Power cuts", power.CUT_COLUMNS, power.cut_rows),
    )
    found = [
        Table(
            title=title + (f", run {record.info.id}" if len(records) > 1 else ""),
            columns=list(columns),
            rows=rows,
            text_columns=1,
        )
        for record in records
        for title, columns, rows_of in of_models
        if (rows := rows_of(record))
    ]
    return found + [
        Table(
            title=title + (f", run {record.info.id}" if len(records) > 1 else ""),
            columns=list(columns),
            rows=rows,
            text_columns=1,
            note="; ".join(cells.mark_words(rows)),
        )
        for record in records
        for title, columns, rows in further_tables(record)
    ]


def failure_table(records: list[Record]) -> Table | None:
    rows: list[list[str]] = []
    for record in records:
        rows += [_failure(record, error, damage_text(error.text)) for error in record.errors]
        hangs = record.of(HangEvent)
        rows += [_failure(record, hang, f"outstanding for {format_ns(hang.outstanding_ns)}") for hang in hangs]
    columns = ["run", "operation", "what happened", "at", "size", "offset"]
    nouns = {asked_noun(record.info.plan) for record in records}
    if len(nouns) == 1 and "requests" not in nouns:  # of a database's transactions and calls there is no place
        columns, rows = columns[:4], [row[:4] for row in rows]
        return Table(f"Failed {nouns.pop()}", columns, rows[:100], text_columns=3) if rows else None
    return Table("Failed and hung requests", columns, rows[:100], text_columns=3) if rows else None


def _failure(record: Record, of: FailedRequest | HangEvent, text: str) -> list[str]:
    place = [f"{of.at_ns / 1e9:.3f} s", format_size(of.request_bytes), format_count(of.offset_bytes)]
    return [str(record.info.id), str(of.operation), text, *place]


def slowest_table(records: list[Record]) -> Table:
    found = [(item, record) for record in records for item in slow.slow_causes(record)]
    found.sort(key=lambda pair: -pair[0].response_ns)
    places = slow.places(records, [item for item, _ in found])
    # Where all waited for the storage, the service time says the same.
    explains = any(item.cause not in (slow.MODEL, slow.STORAGE) for item, _ in found)
    columns = ["run", *(name for name, _ in places), "operation", *(["cause", "evidence"] if explains else [])]
    return Table(
        "Slowest requests",
        [*columns, "response", "service", "at", "size", "offset"],
        [
            [
                str(record.info.id),
                *(of(item) for _, of in places),
                item.operation,
                *([item.cause, item.evidence] if explains else []),
                format_ns(item.response_ns),
                format_ns(item.service_ns),
                f"{item.at_ns / 1e9:.3f} s",
                format_size(item.request_bytes),
                format_count(item.offset_bytes),
            ]
            for item, record in found[: summaries.SLOWEST_SHOWN]
        ],
        text_columns=len(columns),
        note=slow.unlisted_words(records),
    )
