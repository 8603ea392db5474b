"""Duty: replays as tables in the terminal. Refusal: no figure that `analysis.databases` did not give."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from brickyard.analysis.databases import (
    replay_disks,
    replay_head_room,
    replay_pages,
    replay_runs,
    replay_served,
    replay_warnings,
    terraserver,
)
from brickyard.analysis.figures.load_curve import Limit
from brickyard.analysis.judging.replay_answer import replay_answer
from brickyard.cli.parts.output import print_labelled, print_line, table
from brickyard.cli.parts.tables import print_answer, print_marks, print_warnings
from brickyard.schema.logs import CoursePoint, LogCounts, LogsExplained
from brickyard.store import Record
from brickyard.units import format_count, format_iops, format_runs, format_seconds

LEFT, RIGHT = "left", "right"
REPETITIONS_SHOWN = 3  # with tables of their own
PACES_SHOWN = 3  # with all their tables; more would scroll away what they have in common


def _columns(names: list[str], text_columns: int = 1) -> list[tuple[str, str]]:
    return [(name, LEFT if place < text_columns else RIGHT) for place, name in enumerate(names)]


def print_replay(console: Console, records: list[Record], limit: Limit | None = None) -> None:
    """The runs of one command: the answer, warnings, calls/s by driver, figures by page."""
    print_answer(console, replay_answer(records, limit))
    print_warnings(console, records)
    columns, rows = replay_pages.throughput_rows(records)
    console.print(table("Calls per second", _columns(columns), rows))
    _print_curve(console, records)
    for title, names, told in terraserver.study_tables(records):
        console.print()
        console.print(table(title, _study_columns(names), told))
        print_marks(console, told)
    if terraserver.study_tables(records):
        print_line(console, terraserver.NOTE, "dim")
    groups = replay_runs.by_pace(records)
    if len(groups) > PACES_SHOWN:
        console.print(Text("`show` of a single run has its pages", style="dim"))
        groups = {}
    for name, group in groups.items():
        console.print()
        repeated = f", {len(group)} repetitions" if len(group) > 1 else ""
        title = f"{name[0].upper()}{name[1:]}{repeated}: response time by page"
        pages = replay_pages.page_rows(group)
        console.print(table(title, _columns(replay_pages.PAGE_COLUMNS), pages))
        print_marks(console, pages)
        columns, bricks = replay_pages.brick_table(group)
        if bricks:
            console.print()
            console.print(table("By database", _columns(columns), bricks))
            print_marks(console, bricks)
        _print_rest(console, group)


def _study_columns(names: list[str]) -> list[tuple[str, str]]:
    return [(name, LEFT if name in ("server", "page", "study: server") else RIGHT) for name in names]


def _print_curve(console: Console, records: list[Record]) -> None:
    points = replay_head_room.offered_points(records)
    if len(points) > 1:
        console.print()
        title = "Response time against offered rate"
        rows = [replay_head_room.curve_row(point) for point in points]
        console.print(table(title, _columns(replay_head_room.CURVE_COLUMNS, 0), rows))
        print_marks(console, rows)


def _print_rest(console: Console, group: list[Record]) -> None:
    late = replay_pages.late_rows(group)
    if late:
        console.print()
        console.print(table("How late calls were sent", _columns(replay_pages.LATE_COLUMNS), late))
        print_marks(console, late)
    errors = replay_pages.error_rows(group)
    if errors:
        console.print()
        columns = [("SQLSTATE", LEFT), ("what it is", LEFT), ("calls", RIGHT)]
        console.print(table("Failed calls, not included in any figure above", columns, errors))
        for error in next((record.errors[:3] for record in group if record.errors), []):
            print_line(console, f"  {error.at_ns / 1e9:.3f} s  {error.text}")
    for record in group[:REPETITIONS_SHOWN]:
        _print_disks(console, record, f"Run {record.info.id}: " if len(group) > 1 else "")
    if len(group) > REPETITIONS_SHOWN:
        more = [record.info.id for record in group[REPETITIONS_SHOWN:]]
        print_line(console, f"`show` has the first seconds and the disks of {format_runs(more)}", "dim")
    slow = replay_pages.slow_rows(group)
    if slow:
        console.print()
        columns = [(n, LEFT if n in ("page", "parameters") else RIGHT) for n in replay_pages.SLOW_COLUMNS]
        console.print(table("Slowest calls", columns, slow))
    served = replay_served.served_words(replay_served.served(group))
    print_line(console, f"Served: {served}")
    said = replay_warnings.coverage_words(group)
    if said:
        print_line(console, f"Coverage: {said}")


def _print_disks(console: Console, record: Record, whose: str) -> None:
    """Of one repetition: another one may have found the server's cache warm."""
    cold = replay_disks.cold_rows(record)
    if len(cold) > 1:
        console.print()
        title = f"{whose}The first seconds (shows whether it was a cold start)"
        console.print(table(title, _columns(replay_disks.COURSE_COLUMNS), cold))
    if said := replay_served.cold_words(record):
        print_line(console, f"{whose}{said}")
    disk = replay_disks.disk_total(record)
    if disk is not None:
        console.print()
        title = f"{whose}The server's disks meanwhile: {replay_disks.WHOLE_DEVICE}"
        console.print(table(title, _columns(replay_disks.DISK_COLUMNS, 0), [replay_disks.disk_cells(disk)]))


def print_explained(console: Console, found: LogsExplained) -> None:
    """What a log would do."""
    told = found.document
    span_s = replay_head_room.log_span_s(told.first_ns, told.last_ns)
    lines = [
        ("Logs", ", ".join(f"{log.path} ({log.format})" for log in told.logs)),
        ("Lines", format_count(told.lines)),
        ("Requests", format_count(told.requests)),
        ("Calls", f"{format_count(told.calls)} ({replay_runs.share_words(told.covered_share)} of the requests)"),
        ("Time", _span_words(told, span_s)),
        ("Rate", _rate_words(told, span_s)),
        ("Sessions", _sessions(told)),
        ("Out of order", _order_words(found)),
        *(("Left out", words) for words in replay_warnings.outlier_words(found.look.outliers)),
    ]
    torn = [
        (Text("Warning", "yellow"), f"{log.path} is damaged: {log.torn}; only the part before that was read")
        for log in told.logs
        if log.torn
    ]
    print_labelled(console, [*((label, text) for label, text in lines if text), *torn])
    _print_pages(console, told)
    _print_left_out(console, told)


def _span_words(told: LogCounts, span_s: float) -> str:
    if told.first_ns is None:
        return ""
    from datetime import UTC, datetime

    first = datetime.fromtimestamp(told.first_ns / 1e9, UTC)
    return f"from {first:%Y-%m-%d %H:%M:%S} UTC on, {format_seconds(span_s)}"


def _rate_words(told: LogCounts, span_s: float) -> str:
    if not told.calls:
        return ""
    average = replay_head_room.average_per_s(told.calls, span_s, told.peak_second_calls)
    busiest = max(told.course, key=lambda point: point.calls, default=None)
    text = f"{format_iops(average)} calls/s on average"
    # The first minute and the last may be partly outside the log: such a one says nothing.
    if busiest and len(told.course) > 1 and busiest.calls / busiest.length_s >= average:
        text += f", {format_iops(busiest.calls / busiest.length_s)} in the busiest"
        text += " minute" if busiest.length_s == 60 else f" {format_seconds(busiest.length_s)}"
    return f"{text}, {format_count(told.peak_second_calls)} in the busiest second"


def _sessions(told: LogCounts) -> str:
    if told.sessions is None:
        return ""
    return f"{'more than ' if told.sessions_are_lower_bound else ''}{format_count(told.sessions)}"


def _order_words(found: LogsExplained) -> str:
    told = found.document
    if not told.out_of_order:
        return ""
    if found.sort:
        back_s = found.look.disorder_ns / 1e9
        return f"{format_count(told.out_of_order)} lines, by up to {format_seconds(back_s)}: sorted"
    late = f", {format_count(told.late)} of them later than the window" if told.late else ""
    return f"{format_count(told.out_of_order)} lines{late}"


def _print_pages(console: Console, told: LogCounts) -> None:
    total = max(told.calls, 1)
    rows = [
        [page.page, format_count(page.calls), replay_runs.share_words(page.calls / total), page.example or ""]
        for page in told.pages
    ]
    console.print()
    columns = [("page", LEFT), ("calls", RIGHT), ("share", RIGHT), ("its first call", LEFT)]
    console.print(table("Pages", columns, rows))
    if len(told.calls_by_brick) > 1:
        rows = [
            [f"brick {number}", format_count(calls), replay_runs.share_words(calls / total)]
            for number, calls in enumerate(told.calls_by_brick)
        ]
        console.print()
        console.print(table("Databases", _columns(["database", "calls", "share"]), rows))
    if len(told.course) > 1:
        console.print()
        console.print(
            table("Over time", _columns(["from (UTC)", "requests/s", "calls/s", ""]), _course_rows(told.course))
        )


def _course_rows(points: list[CoursePoint], most: int = 24) -> list[list[str]]:
    """A day is told in hours, an hour in minutes: at most `most` lines."""
    from datetime import UTC, datetime

    width = -(-len(points) // most)
    rows = []
    for start in range(0, len(points), width):
        piece = points[start : start + width]
        length_s = sum(point.length_s for point in piece)
        when = datetime.fromtimestamp(piece[0].unix_s, UTC)
        requests, calls = sum(p.requests for p in piece) / length_s, sum(p.calls for p in piece) / length_s
        rows.append((f"{when:%Y-%m-%d %H:%M}", requests, calls))
    peak = max((calls for _, _, calls in rows), default=0) or 1
    return [[w, format_iops(r), format_iops(c), "█" * round(24 * c / peak) or "·"] for w, r, c in rows]


def _print_left_out(console: Console, told: LogCounts) -> None:
    if told.unmatched_paths:
        rows = [[replay_runs.unmapped_words(item), format_count(item.requests)] for item in told.unmatched_paths]
        least = ", at least" if told.unmatched_paths_are_lower_bounds else ""
        console.print()
        console.print(table("Not mapped, the most frequent", _columns(["request", f"requests{least}"]), rows))
    if told.unusable:
        rows = [[item.page, item.parameter, format_count(item.requests)] for item in told.unusable]
        console.print()
        console.print(
            table("Parameter missing or of the wrong type", _columns(["page", "parameter", "requests"], 2), rows)
        )
    if told.bad_lines:
        rows = [[why, format_count(count)] for why, count in told.bad_by_reason.items()]
        console.print()
        console.print(table("Lines that could not be read", _columns(["reason", "lines"]), rows))
        for sample in told.bad_samples[:5]:
            print_line(console, f"  {sample.log}:{sample.line}: {sample.text}")
