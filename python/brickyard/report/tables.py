"""Duty: analysed figures as tables of text for the page. Refusal: no markup; the template escapes and lays out."""

from __future__ import annotations

from dataclasses import dataclass

from brickyard import analysis
from brickyard.analysis import RankedCell, Totals
from brickyard.analysis import summary as summaries
from brickyard.store import Record
from brickyard.units import (
    format_count,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    format_size,
    three_digits,
)


@dataclass(frozen=True)
class Table:
    """`text_columns` leading columns hold words, all others figures. Columns may be grouped under one heading."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    text_columns: int = 0
    groups: tuple[tuple[str, int], ...] = ()


def _latency_cells(figures: analysis.Latency | None) -> list[str]:
    if figures is None:
        return ["–"] * (len(analysis.PERCENTILES) + 2)
    values = [figures.percentiles[analysis.percentile_name(p)] for p in analysis.PERCENTILES]
    return [format_ns(value) for value in (figures.mean_ns, *values, figures.max_ns)]


LATENCY_COLUMNS = ["mean", *(analysis.percentile_name(p) for p in analysis.PERCENTILES), "max"]


def characterization_tables(patterns: dict[tuple[str, str], list[RankedCell]]) -> list[Table]:
    """One table for each pattern; "% of best" compares with the best request size of the same pattern."""
    columns = ["request size", "IOPS", "% of best", "MiB/s", "% of best", *LATENCY_COLUMNS, "variation", "errors"]
    groups = (("", 1), ("requests a second", 2), ("throughput", 2), ("service time", len(LATENCY_COLUMNS)), ("", 2))
    return [
        Table(
            title=f"{address} {operation}".capitalize(),
            columns=columns,
            rows=[
                [
                    format_size(item.cell.request_bytes),
                    format_iops(item.cell.row.iops),
                    format_percent(item.iops_share),
                    format_mib_per_s(item.cell.row.bytes_per_s),
                    format_percent(item.throughput_share),
                    *_latency_cells(item.cell.service),
                    variation(item.cell.row),
                    format_count(item.cell.row.errors),
                ]
                for item in cells
            ],
            text_columns=1,
            groups=groups,
        )
        for (address, operation), cells in patterns.items()
    ]


def variation(row: Totals) -> str:
    """Coefficient of variation of the throughput between intervals."""
    return "–" if row.variation is None else f"{three_digits(row.variation * 100)} %"


def totals_table(records: list[Record]) -> Table:
    """One row for each run, stream, operation and measure; "% of best" compares rows of the same operation."""
    rows = [(record, row) for record in records for row in analysis.totals(record)]
    best = {
        operation: max(row.iops for _, row in rows if row.operation == operation)
        for operation in {row.operation for _, row in rows}
    }
    return Table(
        title="Figures",
        columns=[
            "run",
            "profile",
            "stream",
            "operation",
            "IOPS",
            "% of best",
            "MiB/s",
            "time",
            *LATENCY_COLUMNS,
            "variation",
            "errors",
        ],
        rows=[
            [
                str(record.info.id),
                record.info.profile,
                row.stream_name,
                row.operation,
                format_iops(row.iops),
                format_percent(row.iops / best[row.operation] if best[row.operation] else None),
                format_mib_per_s(row.bytes_per_s),
                measure,
                *_latency_cells(row.measures.get(measure)),
                variation(row),
                format_count(row.errors),
            ]
            for record, row in rows
            for measure in (row.measures or ("service",))
        ],
        text_columns=4,
    )


def failure_table(records: list[Record]) -> Table | None:
    rows = [
        [
            str(record.info.id),
            f"{error['at_ns'] / 1e9:.3f} s",
            str(error["operation"]),
            format_count(error["offset_bytes"]),
            format_size(error["request_bytes"]),
            str(error["text"]),
        ]
        for record in records
        for error in [
            *record.errors,
            *({**h, "text": f"outstanding for {format_ns(h['outstanding_ns'])}"} for h in record.events_of("hang")),
        ]
    ]
    columns = ["run", "at", "operation", "offset", "size", "what happened"]
    return Table("Failed and hung requests", columns, rows[:100]) if rows else None


def slowest_table(records: list[Record]) -> Table:
    found = [(item, record) for record in records for item in summaries.slowest(record)]
    found.sort(key=lambda pair: -int(pair[0]["response_ns"]))
    return Table(
        "Slowest requests",
        ["run", "at", "operation", "offset", "size", "service", "response"],
        [
            [
                str(record.info.id),
                f"{item['at_ns'] / 1e9:.3f} s",
                str(item["operation"]),
                format_count(item["offset_bytes"]),
                format_size(item["request_bytes"]),
                format_ns(item["service_ns"]),
                format_ns(item["response_ns"]),
            ]
            for item, record in found[: summaries.SLOWEST_SHOWN]
        ],
    )
