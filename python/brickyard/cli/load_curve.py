"""Duty: `brickyard load-curve`. Refusal: the runs are in `brickyard.study`, the arithmetic in `brickyard.analysis`."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from brickyard import _core, bricks, profiles
from brickyard.analysis import PERCENTILES, percentile_name
from brickyard.analysis.cells import DASH
from brickyard.analysis.load_curve import (
    Bend,
    CurvePoint,
    Knee,
    Limit,
    capacity,
    knee,
    samples_needed,
    usable,
    weakest_search,
)
from brickyard.cli import options
from brickyard.cli.characterize import EXIT_CODES
from brickyard.cli.output import emit, stderr, stdout, table
from brickyard.cli.progress import Terminal
from brickyard.cli.tables import print_circumstances, print_warnings
from brickyard.cli.target import aim_at, split_overrides
from brickyard.errors import BAD_INPUT, BadInputError, one_line
from brickyard.store import Json, Record, Store
from brickyard.study.aim import aim_modelled
from brickyard.study.fit import refuse_programs
from brickyard.study.interrupt import Interrupt
from brickyard.study.load_curve import LEVELS_PERCENT, CurveResult, LoadCurve, one_phase
from brickyard.units import format_count, format_iops, format_ns, format_percent

EACH = "3s"
NAMES = ("of closed loop", "offered/s", "achieved/s", "mean", "p50", "p99", "max", "unsent", "errors")
LEVELS = ",".join(str(level) for level in LEVELS_PERCENT)
EACH_MIN_NS = 100_000_000  # ten intervals of 10 ms, the shortest that there are
LEVEL_MAX_PERCENT = 1000
FURTHER = 4  # times the highest rate that was offered, as a proposal where it did not saturate


def load_curve(
    profile: str,
    /,
    *targets: str,
    limit: Annotated[
        str | None, Parameter(help="Also search the highest rate within a limit, such as mean:100ms or p99:20ms.")
    ] = None,
    each: Annotated[str, Parameter(help="How long each rate is measured.")] = EACH,
    levels: Annotated[str, Parameter(help="Rates to offer, in per cent of the closed loop's.")] = LEVELS,
    max_rate: Annotated[
        float | None,
        Parameter(
            help="Requests (or chains) a second up to which rates beyond the levels are offered, each a quarter higher,"
            " until the storage does not keep up."
        ),
    ] = None,
    phase: Annotated[str | None, Parameter(help="Which phase, where the profile has several.")] = None,
    overrides: options.Overrides = (),
    placing: options.Placing = options.AS_IT_IS,
    output: options.ReportPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Response time against offered rate up to saturation, with the knee.

    Parameters
    ----------
    profile
        The name of a profile that ships with Brickyard, or the path of a TOML file.
    targets
        Files, devices, modelled bricks (sim:NAME); without one, a scratch file is made, filled, and removed at the end.
    """
    text = profiles.read(profile)
    changes, brick_changes = split_overrides(targets, list(overrides))
    plan = profiles.validate(text, changes)
    refuse_programs(text.name, plan, "load-curve")
    if max_rate is not None and not max_rate > 0:
        raise BadInputError(f"--max-rate {max_rate:g}: above 0 a second")
    only, asked, each_ns, shares = one_phase(plan, phase), parse_limit(limit), _each_ns(each), parse_levels(levels)
    if not targets and any(stream.target for stream in only.stream):
        raise BadInputError(f"{text.name}: speaks of several targets; name them")
    with (
        Store(store) as kept,
        nullcontext(aim_modelled(targets, brick_changes))
        if any(bricks.is_modelled(target) for target in targets)
        else aim_at(targets, placing) as aimed,
    ):
        with Interrupt() as interrupt, Terminal() as terminal:
            for note in aimed.notes:
                terminal.note(note)
            curve = LoadCurve(kept, terminal, interrupt, each_ns)
            result = curve.run(
                text.name, plan, only, aimed.targets, aimed.options, shares, asked, aimed.condition, max_rate
            )
        records = [kept.record(run) for run in result.runs]
        page = _draw(kept, result, records, asked, output)
    if json:
        emit(_document(result, asked, page))
    else:
        _print(stdout(), result, records, asked, page)
    return EXIT_CODES.get(result.outcome, BAD_INPUT)


def parse_limit(text: str | None) -> Limit | None:
    """`mean:100ms`, `p99:20ms`."""
    if text is None:
        return None
    figure, _, time = text.partition(":")
    names = ["mean", *(percentile_name(p) for p in PERCENTILES)]
    if figure not in names or not time:
        raise BadInputError(f"--limit {text}: write FIGURE:TIME, such as p99:20ms; figures are {', '.join(names)}")
    try:
        return Limit(figure, _core.parse_limit_ns(time))
    except ValueError as error:
        raise BadInputError(f"--limit {text}: {one_line(error)}") from error


def parse_levels(text: str) -> tuple[int, ...]:
    words = [word.strip().removesuffix("%").strip() for word in text.split(",")]
    if not all(re.fullmatch(r"\d{1,4}", word) and 1 <= int(word) <= LEVEL_MAX_PERCENT for word in words):
        raise BadInputError(f"--levels {text}: whole per cent from 1 to {LEVEL_MAX_PERCENT}, such as 10,50,90")
    return tuple(sorted({int(word) for word in words}))


def _each_ns(text: str) -> int:
    try:
        found = _core.parse_duration_ns(text)
    except ValueError as error:
        raise BadInputError(f"--each: {one_line(error)}") from error
    if found < EACH_MIN_NS:
        raise BadInputError(f"--each {text}: at least {format_ns(EACH_MIN_NS)}")
    return found


def _draw(
    store: Store, result: CurveResult, records: list[Record], limit: Limit | None, output: Path | None
) -> Path | None:
    """The report of the curve; gives back the page, beside which every picture lies."""
    if not any(point.mean_ns for point in result.points):
        return None
    from brickyard.report import default_directory, write_report
    from brickyard.report.load_curve import load_curve as drawn
    from brickyard.report.page import Figure, Lead
    from brickyard.report.tables import Table

    stderr().print("writing the report", markup=False)
    study = next(s for s in store.studies() if s.id == result.study)
    picture = drawn(result.points, knee(result.points).point, limit)
    rows = [_row(point, result.maximum_per_s) for point in result.points]
    caption = "; ".join([*_found_lines(result, limit), *_notes(rows)]) + "."
    lead = Lead(
        [Figure("Response time against offered rate", caption, [picture], [])],
        [Table("Response time against offered rate", [*NAMES, ""], rows, text_columns=0)],
    )
    return write_report(records, study, output or default_directory(records, study), lead=lead)


def _picture(page: Path) -> Path:
    folder = "pictures" if page.name == "report.html" else f"{page.stem}-pictures"
    return page.parent / folder / "load-curve.png"


def _document(result: CurveResult, limit: Limit | None, page: Path | None) -> Json:
    found, best = knee(result.points), usable(result.points, limit)[0] if limit else None
    return {
        "study": result.study,
        "runs": result.runs,
        "outcome": result.outcome,
        "message": result.message,
        "closed_loop_per_s": result.maximum_per_s,
        "points": [point.document() for point in result.points],
        "knee": found.document(),
        "bend": found.bend.value,
        "capacity_per_s": most.achieved_per_s if (most := capacity(result.points)) else None,
        "limit": {"figure": limit.figure, "above_ns": limit.above_ns} if limit else None,
        "usable": best.document() if best else None,
        "picture": str(_picture(page)) if page else None,
        "report": str(page) if page else None,
    }


def _row(point: CurvePoint, maximum_per_s: float) -> list[str]:
    return [
        format_percent(point.offered_per_s / maximum_per_s),
        format_iops(point.offered_per_s),
        _achieved(point),
        format_ns(point.mean_ns),
        *(format_ns(point.percentiles.get(name)) for name in ("p50", "p99")),
        format_ns(point.max_ns),
        format_count(point.unsent),
        format_count(point.errors),
        "overloaded" if point.overloaded else "",
    ]


def _print(
    console: Console, result: CurveResult, records: list[Record], limit: Limit | None, page: Path | None
) -> None:
    print_warnings(console, records)
    console.print()
    print_circumstances(console, records)
    console.print()
    columns = [*((name, "right") for name in NAMES), ("", "left")]
    rows = [_row(point, result.maximum_per_s) for point in result.points]
    console.print(table("Response time against offered rate", columns, rows))
    for note in _notes(rows):
        console.print(note, markup=False, soft_wrap=True)
    console.print()
    lines = _found_lines(result, limit)
    if result.outcome != "done":
        lines.append(f"{result.outcome}: {result.message}; what was measured is kept as study s{result.study}")
    if page:
        lines.append(f"report: {page}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _achieved(point: CurvePoint) -> str:
    """Arrivals are random: what was achieved may be above what was offered, by chance."""
    if point.overloaded or point.chance is None:
        return format_iops(point.achieved_per_s)
    return f"{format_iops(point.achieved_per_s)} ± {format_percent(point.chance)}"


def _notes(rows: list[list[str]]) -> list[str]:
    """What the signs mean that are there."""
    said = []
    if any(DASH in row for row in rows):
        said.append(f"{DASH}: fewer than ten requests lie beyond the percentile")
    if any("±" in row[NAMES.index("achieved/s")] for row in rows):
        said.append("±: the chance of random (Poisson) arrivals in the time measured, two standard deviations")
    return said


def _found_lines(result: CurveResult, limit: Limit | None) -> list[str]:
    lines = [
        f"closed loop at the profile's depth: {format_iops(result.maximum_per_s)} a second; percentages are of it, and"
        " it is not the capacity"
    ]
    most = capacity(result.points)
    if most:
        lines.append(f"capacity: {format_iops(most.achieved_per_s)} a second was the most that was achieved")
    lines.append(f"knee: {_knee_words(knee(result.points))}")
    if limit:
        lines.append(_limit_line(result, limit))
    return lines


def _knee_words(found: Knee) -> str:
    if found.point:
        return (
            f"{format_iops(found.point.offered_per_s)} a second with a mean response of"
            f" {format_ns(found.point.mean_ns)} (greatest rate over mean response, after Kleinrock)"
        )
    if found.bend is Bend.TOO_FEW or found.end is None:
        return "none; it takes three rates that are not overloaded"
    if found.bend is Bend.BELOW:
        return "at or below the lowest rate that was offered; offer lower ones with --levels"
    return (
        f"not reached; the search ended before saturation, at {format_iops(found.end.offered_per_s)} a second; go on"
        f" with --max-rate {math.ceil(FURTHER * found.end.offered_per_s)}"
    )


def _limit_line(result: CurveResult, limit: Limit) -> str:
    best, worst = usable(result.points, limit)
    said = f"{limit.figure} within {format_ns(limit.above_ns)}"
    if best is None:
        return f"{said}: at no rate that was measured"
    until = (
        f"; no longer at {format_iops(worst.offered_per_s)}"
        if worst
        else "; every offered rate kept it, see --max-rate"
    )
    few = weakest_search(result.points, limit)
    if few is None:
        return f"{said}: up to {format_iops(best.offered_per_s)} a second{until}"
    return (
        f"{said}: about {format_iops(best.offered_per_s)} a second{until}; the {limit.figure} rests on"
        f" {format_count(few)} requests a step, of at least {format_count(samples_needed(limit))}: use a longer --each"
    )
