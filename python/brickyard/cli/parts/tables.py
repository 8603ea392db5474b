"""Duty: records in the terminal: the answer, warnings, tables, circumstances, in the order of a report.

Refusal: no figure that `analysis` did not give.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

from rich.console import Console
from rich.text import Text

from brickyard import analysis
from brickyard.analysis.databases import pgbench
from brickyard.analysis.databases.replay_runs import is_replay
from brickyard.analysis.figures import cells
from brickyard.analysis.figures.all_rows import all_rates, all_times
from brickyard.analysis.figures.sending import length_told
from brickyard.analysis.figures.tool_cells import tool_table
from brickyard.analysis.figures.totals import Totals
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging import slow, summary
from brickyard.analysis.judging.answers import Answer, answer, belief
from brickyard.analysis.judging.caveats_run import DAMAGE_WORDS, damage_text
from brickyard.analysis.judging.further import further_tables, further_words
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.studies.characterization import RankedCell, footnotes, latency_name, pattern_words
from brickyard.cli.parts.output import print_labelled, print_line, table, warning_text
from brickyard.percentiles import MEDIAN_AND_TAILS
from brickyard.report.tables import Table
from brickyard.schema import HangEvent, PhaseStart, Timed, is_on_data, is_request
from brickyard.store import METADATA, Record
from brickyard.units import format_count, format_ns, format_percent, format_size

LEFT, RIGHT = "left", "right"
FILLED_NS = 1_000_000  # a millisecond, the last digit of the column
LATENCY = ("mean", *MEDIAN_AND_TAILS, "max")
"""Columns of the service time in a characterization."""


def print_warnings(console: Console, records: list[Record]) -> None:
    warnings = distinct_warnings(records)
    for warning in warnings:
        print_line(console, warning_text(warning))
    if warnings:
        console.print()


def titled(title: str, workload: str) -> str:
    """A heading with what its figures depend on."""
    return f"{title}: {workload}" if workload else title


def print_answer(console: Console, found: Answer, verdicts: Sequence[str] = ()) -> None:
    """Before everything else: the question, its answer, what was required of it, and what limits belief."""
    if found.question:
        print_line(console, found.question, "bold")
    for sentence in (*found.sentences, *verdicts):
        print_line(console, sentence)
    print_line(console, f"Before you rely on it: {found.belief}", "dim")
    console.print()


def print_table(console: Console, made: Table) -> None:
    """What columns have in common stands above the first of them, or with the title where it is all there is."""
    heads = [head for head, span in made.groups for _ in range(span)] or [""] * len(made.columns)
    told = list(dict.fromkeys(head for head in heads if head))
    many = len(told) > 1
    title = made.title if many or not told else _with_head(made.title, told[0])
    sides = ["left"] * made.text_columns + ["right"] * (len(made.columns) - made.text_columns)
    print_line(console, title, "bold")
    if made.note:
        print_line(console, made.note, "dim")
    console.print(table("", list(zip(made.columns, sides, strict=True)), made.rows, heads=heads if many else ()))


def _with_head(title: str, head: str) -> str:
    """A title that the head begins with is said once: IOPS by depth."""
    return head if head.startswith(title) else f"{title} ({head})"


def print_circumstances(console: Console, records: list[Record]) -> None:
    print_labelled(console, summary.circumstances(records))


def _is_named(row: Totals) -> bool:
    return row.operation in METADATA


def print_totals(console: Console, record: Record) -> None:
    """One row for each stream and operation, then its latencies by measure.

    Only requests have IOPS: whole files, chains and frames, and what is done to names, stand apart.
    """
    rows = [row for row in analysis.totals(record) if row.requests or row.errors or not _is_named(row)]
    requests = [row for row in rows if is_on_data(row.operation)]
    chains = [row for row in rows if not is_request(row.operation)]
    named = [row for row in rows if _is_named(row)]
    if requests or not named:
        _print_throughput(console, record, requests)
    for title, noun, apart in (
        (cells.chains_title(row.operation for row in chains), "count", chains),
        ("Metadata", "operations", named),
    ):
        if apart:
            if requests or (chains and apart is named):
                console.print()
            _print_apart(console, record, title, noun, apart)
    lengths = length_told(record)
    latencies = [
        [
            analysis.full_stream_name(record, row.phase, row.stream),
            row.operation,
            *cells.timed_cells(row, measure, lengths),
        ]
        for row in [*requests, *chains, *named]
        for measure in row.measures
    ]
    latencies += [[row.full_stream, row.operation, Timed.RESPONSE, *row.figures] for row in all_times(record, rows)]
    if not latencies:
        return  # another tool may have printed none
    columns = [("stream", LEFT), ("operation", LEFT), ("time", LEFT), *((n, RIGHT) for n in cells.LATENCY_COLUMNS)]
    console.print()
    console.print(table(titled("Latency", workload_words([record])), columns, latencies))
    print_dash(console, latencies, record.info.tool)


def _print_throughput(console: Console, record: Record, rows: list[Totals]) -> None:
    over = cells.over_columns(rows)
    whole = [row for row in summary.with_transient(record) if is_on_data(row.operation)]
    told = [(row, cells.over(row)) for row in rows] + [(row, cells.WHOLE) for row in whole]
    figures = [
        (
            row,
            [
                *([words] if over else []),
                format_count(row.requests),
                cells.iops(row),
                cells.mib_per_s(row),
                cells.variation(row.variation),
                cells.in_flight(row),
                cells.errors(row.errors),
            ],
        )
        for row, words in told
    ]
    _print_rows(
        console,
        record,
        titled("Throughput", workload_words([record])),
        (*over, "requests", "IOPS", "MiB/s", "variation", cells.IN_FLIGHT, "errors"),
        figures,
        [
            [row.full_stream, row.operation, *([row.over] if over else []), *row.figures]
            for row in all_rates(record, rows)
        ],
        texts=len(over),
    )


def _print_apart(console: Console, record: Record, title: str, noun: str, rows: list[Totals]) -> None:
    over = cells.over_columns(rows)
    told = [
        (row, [*([cells.over(row)] if over else []), format_count(row.requests), *cells.rate_cells(row)])
        for row in rows
    ]
    _print_rows(console, record, title, (*over, noun, *cells.RATE_COLUMNS), told, texts=len(over))


def _print_rows(
    console: Console,
    record: Record,
    title: str,
    names: Sequence[str],
    rows: list[tuple[Totals, list[str]]],
    last: Sequence[list[str]] = (),
    *,
    texts: int = 0,
) -> None:
    """The first `texts` of the columns are words. `last` are rows of several streams."""
    sides = [LEFT if number < texts else RIGHT for number in range(len(names))]
    columns = [("stream", LEFT), ("operation", LEFT), *zip(names, sides, strict=True)]
    told = [
        [analysis.full_stream_name(record, row.phase, row.stream), row.operation, *figures] for row, figures in rows
    ]
    console.print(table(title, columns, [*told, *last]))


def print_tool_table(console: Console, record: Record) -> None:
    """The same figures as the tool would print them that the profile names."""
    found = tool_table(record)
    if found is None:
        return
    headings = list(found.columns)
    at = 0
    for group, width in found.groups:
        for column in range(at, at + width):
            headings[column] = f"{group if column == at else ''}\n{headings[column]}"
        at += width
    columns = [(name, LEFT if index < found.text_columns else RIGHT) for index, name in enumerate(headings)]
    console.print(table(found.title, columns, found.rows))
    if found.note:
        console.print(Text(found.note, style="dim"))
    console.print()


def print_dash(console: Console, rows: list[list[str]], tool: str = "") -> None:
    """`tool` is the one whose figures they are, where that is not Brickyard."""
    if any(cells.DASH in row for row in rows):
        why = f"not printed by {tool}, or " if tool else ""
        console.print(Text(f"{cells.DASH}: {why}fewer than ten samples lie beyond that percentile", style="dim"))
    print_marks(console, rows)


def print_marks(console: Console, rows: Sequence[Sequence[str]]) -> None:
    for words in cells.mark_words(rows):
        console.print(Text(words, style="dim"))


def print_further(console: Console, record: Record) -> None:
    """Tables that only some runs have, and what follows from them."""
    for title, columns, rows in further_tables(record):
        console.print()
        console.print(table(title, [(name, RIGHT if number else LEFT) for number, name in enumerate(columns)], rows))
        print_marks(console, rows)
    for line in further_words(record):
        print_line(console, line)


def print_characterization(
    console: Console, patterns: dict[tuple[str, str], list[RankedCell]], records: list[Record]
) -> None:
    over = cells.over_columns(item.cell.row for ranked in patterns.values() for item in ranked)
    columns = [
        ("request", RIGHT),
        *((name, LEFT) for name in over),
        ("IOPS", RIGHT),
        ("% of best", RIGHT),
        ("MiB/s", RIGHT),
        ("% of best", RIGHT),
        *((name, RIGHT) for name in LATENCY),
        ("errors", RIGHT),
    ]
    for (address, operation), ranked in patterns.items():
        rows = []
        for item in ranked:
            row, latency = item.cell.row, item.cell.row.latency
            rows.append(
                [
                    format_size(item.cell.request_bytes),
                    *([cells.over(row)] if over else []),
                    cells.iops(row) + item.cell.mark,
                    format_percent(item.iops_share),
                    cells.mib_per_s(row) + item.cell.mark,
                    format_percent(item.throughput_share),
                    format_ns(latency.mean_ns if latency else None),
                    *(cells.percentile_cell(latency, name) for name in MEDIAN_AND_TAILS),
                    format_ns(latency.max_ns if latency else None),
                    cells.errors(row.errors),
                ]
            )
        heads = [latency_name(patterns) if name in LATENCY else "" for name, _ in columns]
        console.print(
            table(
                titled(f"{address.capitalize()} {operation}", pattern_words(records, ranked)),
                columns,
                rows,
                heads=heads,
                keys=1,
            )
        )
        print_dash(console, rows)
        for line in footnotes(ranked):
            print_line(console, line, "dim")
        console.print()


def print_slowest(console: Console, record: Record) -> None:
    told = slow.slow_causes(record)
    if not told:
        return
    console.print()
    shares = slow.cause_shares(told)
    # Where all waited for the storage, the service time says the same.
    explains = any(one.cause not in (slow.MODEL, slow.STORAGE) for one in shares)
    lines = slow.slow_words(record)
    if explains or lines:
        _print_causes(console, shares, len(told))
        for line in lines:
            print_line(console, line, "dim")
        console.print()
    places = slow.places([record], told)
    names = [
        *((name, LEFT) for name, _ in places),
        ("at", RIGHT),
        ("operation", LEFT),
        ("offset", RIGHT),
        ("size", RIGHT),
        ("service", RIGHT),
    ]
    names += [("response", RIGHT), *([("cause", LEFT), ("evidence", LEFT)] if explains else [])]
    rows = [
        [
            *(of(one) for _, of in places),
            f"{one.at_ns / 1e9:.3f} s",
            one.operation,
            format_count(one.offset_bytes),
            format_size(one.request_bytes),
            format_ns(one.service_ns),
            format_ns(one.response_ns),
            *([one.cause, one.evidence] if explains else []),
        ]
        for one in told[: summary.SLOWEST_SHOWN]
    ]
    console.print(table("Slowest requests", names, rows))
    if any(begin.phase == 0 and begin.start_ns > FILLED_NS for begin in record.of(PhaseStart)):
        print_line(console, "at: since the run began, with the time in which the target was filled", "dim")
    if said := slow.unlisted_words([record]):
        print_line(console, said, "dim")


CAUSE_STYLES = ("blue", "red", "green", "yellow", "cyan", "magenta", "white")
CAUSE_BAR = 50


def _print_causes(console: Console, shares: Sequence[slow.CauseShare], requests: int) -> None:
    """One bar of shares, and what each part of it is."""
    why = f"Why the {format_count(requests)} slowest requests were slow"
    if len(shares) == 1:
        print_line(console, f"{why}: {shares[0].cause}")
        return
    print_line(console, f"{why} (shares of their response time)")
    # Without colours a letter tells one part from the next.
    is_plain = console.no_color or console.color_system is None
    bar, legend = Text(), Text()
    for number, one in enumerate(shares):
        style = CAUSE_STYLES[number % len(CAUSE_STYLES)]
        begin, end = (
            round(CAUSE_BAR * sum(item.time_share for item in shares[:upto])) for upto in (number, number + 1)
        )
        mark = ascii_uppercase[number % len(ascii_uppercase)] if is_plain else "█"
        bar.append(mark * (end - begin), style)
        legend.append("  " if number else "").append(f"{mark} ", style)
        legend.append(f"{one.cause} {format_percent(one.time_share)}")
    console.print(bar)
    print_line(console, legend)


def print_errors(console: Console, record: Record) -> None:
    by_errno, by_kind = summary.errors_by(record, "errors_by_errno"), summary.errors_by(record, "errors_by_kind")
    hangs = record.of(HangEvent)
    if not (by_errno or by_kind or hangs or record.errors):
        return
    console.print()
    by_kind.pop("errno", None)  # these are told by name
    damage = [f"{DAMAGE_WORDS[name]}: {count:,}" for name, count in by_kind.items() if name in DAMAGE_WORDS]
    failed = {name: count for name, count in {**by_kind, **by_errno}.items() if name not in DAMAGE_WORDS}
    if damage:
        console.print(Text(f"Damaged data: {', '.join(damage)}; not included in any figure above", style="red"))
    if failed or not damage:
        counts = ", ".join(f"{name} {count:,}" for name, count in failed.items())
        console.print(Text(f"Errors: {counts or len(record.errors)}; not included in any figure above", style="red"))
    for error in record.errors[: summary.SLOWEST_SHOWN]:
        console.print(
            Text(
                f"  {error.at_ns / 1e9:.3f} s  {error.operation} of {format_size(error.request_bytes)} at"
                f" {error.offset_bytes:,}: {damage_text(error.text)}"
            )
        )
    for hang in hangs[: summary.SLOWEST_SHOWN]:
        console.print(
            Text(
                f"  {hang.at_ns / 1e9:.3f} s  {hang.operation} of {format_size(hang.request_bytes)} at"
                f" {hang.offset_bytes:,}: outstanding for {format_ns(hang.outstanding_ns)}"
            )
        )


def print_run(console: Console, record: Record, verdicts: Sequence[str] = ()) -> None:
    """The full table of one run: answer, warnings, figures, failures, slowest requests, circumstances."""
    info = record.info
    style = {"done": "green", "failed": "red"}.get(info.outcome, "yellow")
    said = f"{info.outcome}: {info.message}" if info.message else info.outcome
    console.print(Text.assemble((f"Run {info.id}  ", "bold"), (said, style)))
    has_answer = not is_replay(record) and not pgbench.is_pgbench(record)
    found = answer([record], {}) if has_answer else None
    if found and (found.sentences or not info.is_valid):
        print_answer(console, found, verdicts)
    else:
        for line in verdicts:
            print_line(console, line)
    if has_answer:  # else it is printed between the answer and its tables
        print_warnings(console, [record])
    _print_figures(console, record)
    console.print()
    print_circumstances(console, [record])


def _print_figures(console: Console, record: Record) -> None:
    if is_replay(record):
        from brickyard.cli.parts.replay_tables import print_replay

        print_replay(console, [record])
        return
    if pgbench.is_pgbench(record):
        _print_pgbench(console, record)
        return
    print_tool_table(console, record)
    print_totals(console, record)
    print_further(console, record)
    print_errors(console, record)
    print_slowest(console, record)


def _print_pgbench(console: Console, record: Record) -> None:
    print_answer(console, Answer("", tuple(pgbench.words(record)), belief([record])))
    print_warnings(console, [record])
    for title, names, rows in pgbench.tables(record):
        sides = [LEFT if name == "" else RIGHT for name in names]
        console.print(table(title, list(zip(names, sides, strict=True)), rows))
        print_marks(console, rows)
        console.print()
    for error in record.errors[: summary.SLOWEST_SHOWN]:
        print_line(console, f"  {error.at_ns / 1e9:.3f} s  {error.text}", "red")
