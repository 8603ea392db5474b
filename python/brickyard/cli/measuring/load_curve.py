"""Duty: `brickyard load-curve`. Refusal: the runs are in `brickyard.study`, the arithmetic in `brickyard.analysis`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from brickyard import _core, bricks, profiles
from brickyard.analysis.figures.load_curve import Limit, capacity, knee
from brickyard.analysis.figures.search import SEARCHES, expected_steps
from brickyard.analysis.figures.search import rates as rates_of
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.studies.curve_limit import is_known, not_known
from brickyard.analysis.studies.curve_words import (
    curve_answer,
    curve_circumstances,
    curve_columns,
    curve_notes,
    curve_row,
)
from brickyard.analysis.studies.curves import Curve, is_of_search, searches_of
from brickyard.cli.parts import conditioning, options
from brickyard.cli.parts.drawing import drawn, report_command
from brickyard.cli.parts.output import EXIT_CODES, emit, print_labelled, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_warnings, titled
from brickyard.cli.parts.target import aim_at, split_overrides
from brickyard.errors import BAD_INPUT, FAILED, BadInputError, Edit, Remedy, one_line
from brickyard.reading import read_limit
from brickyard.rulers import TIMES
from brickyard.schema import Document
from brickyard.schema.plan import Phase, Plan
from brickyard.store import Record, Store
from brickyard.study.running.fit import refuse_programs
from brickyard.study.running.forecast import change_lines, forecast
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.shipped.load_curve import (
    LEVELS_PERCENT,
    STEP_GROWTH_MAX,
    CurveResult,
    LoadCurve,
    closed_plan,
    one_phase,
)
from brickyard.units import format_ns, format_seconds

EACH = "3s"
LEVELS = ",".join(str(level) for level in LEVELS_PERCENT)
EACH_MIN_NS = 100_000_000  # ten intervals of 10 ms, the shortest that there are
LEVEL_MAX_PERCENT = 1000


ModelCondition = Annotated[
    str | None,
    Parameter(
        name="--condition", group=options.CONDITIONS, help=f"State of a modelled brick: {options.CONDITION_WORDS}."
    ),
]


def load_curve(
    profile: str,
    /,
    *targets: str,
    limit: Annotated[
        str | None, Parameter(help="Also search for the highest rate within a limit, such as mean:100ms or p99:20ms.")
    ] = None,
    each: Annotated[
        str, Parameter(help="How long each rate is measured; on a model, longer if its percentiles need more requests.")
    ] = EACH,
    levels: Annotated[str, Parameter(help="Rates to offer, in per cent of the closed loop's.")] = LEVELS,
    max_rate: Annotated[
        float | None,
        Parameter(
            help="Continue beyond the levels, each rate a quarter higher, until the storage does not keep up, up to "
            "this many requests (or chains) per second."
        ),
    ] = None,
    searches: options.Searches = SEARCHES,
    phase: Annotated[str | None, Parameter(help="Which phase to use, if the profile has several.")] = None,
    condition: ModelCondition = None,
    overrides: options.Overrides = (),
    placing: options.Placing = options.AS_IT_IS,
    output: options.ReportPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Measure the response time at increasing offered rates up to saturation, and find the knee.

    Parameters
    ----------
    profile
        The name of a profile that ships with Brickyard, or the path of a TOML file.
    targets
        Files, devices, modelled bricks (sim:NAME); without one, a scratch file is made, filled, and removed at the end.
    """
    _refuse_levels(levels, targets)
    text = profiles.read(profile)
    changes, brick_changes = split_overrides(targets, list(overrides))
    brick_changes += _conditioned(targets, condition, brick_changes)
    plan = profiles.changed(text, changes)
    refuse_programs(text.name, plan, "load-curve")
    if max_rate is not None and not max_rate > 0:
        raise BadInputError(f"--max-rate {max_rate:g}: must be above 0 per second")
    only, asked, each_ns, shares = one_phase(plan, phase), parse_limit(limit), _each_ns(each), parse_levels(levels)
    if not targets and any(stream.target for stream in only.stream):
        raise BadInputError(f"{text.name}: uses several targets; name them")
    with (
        Store(store) as kept,
        aim_at(targets, placing, brick_changes=brick_changes) as aimed,
    ):
        with Interrupt() as interrupt, Terminal() as terminal:
            for note in aimed.notes:
                terminal.note(note)
            if len(shares) == 1:
                terminal.note(
                    f"--levels {levels} is one level, in per cent of the closed loop's rate; 10,50,90 are three"
                )
            if not aimed.options.is_modelled:
                for line in _forecast(plan, only, each_ns, 1 + len(shares), searches if asked else 0):
                    print_line(stderr(), line)
            result = LoadCurve(kept, terminal, interrupt, each_ns).run(
                text.name, plan, only, aimed.targets, aimed.options, shares, asked, aimed.condition, max_rate, searches
            )
        records = [kept.record(run) for run in result.runs]
        made = drawn(lambda: _draw(kept, result, records, output), report_command(kept, result.study))
    is_cut = result.outcome != "done"
    tried = searches_of(records, asked) if is_cut and asked else result.searches
    curve = Curve(result.maximum_per_s, result.points, asked, tried, is_cut=is_cut)
    if json:
        emit({**curve_answer(curve, records, result.notes).document(), **_document(result, curve, made.page)})
    else:
        _print(stdout(), result, records, curve, made.page)
    if result.outcome == "done" and asked is not None and not is_known(curve, asked):
        return FAILED
    return made.code(EXIT_CODES.get(result.outcome, BAD_INPUT))


def _conditioned(targets: tuple[str, ...], condition: str | None, brick_changes: Sequence[str]) -> list[str]:
    """The change that puts modelled bricks into a condition."""
    if condition is None:
        return []
    if not targets or not all(map(bricks.is_modelled, targets)):
        raise BadInputError(
            "--condition: only modelled bricks (sim:NAME) are put into a condition here; put a real array into it first"
            " (`brickyard array --help`), and then measure it"
        )
    conditioning.refuse_idle_switch(targets, conditioning.modelled_words((condition,)), brick_changes)
    return [bricks.condition_override(condition)]


def _forecast(plan: Plan, phase: Phase, each_ns: int, rates: int, searches: int) -> list[str]:
    """How long a curve of so many rates takes on real storage, and whether it writes."""
    expected = forecast(closed_plan(plan, phase, each_ns), [None])
    one_s = expected.duration_s or 0.0
    line = f"duration: at most {format_seconds(rates * one_s)} for {rates} rates"
    if searches:
        longest_s, steps = one_s * STEP_GROWTH_MAX, expected_steps(searches)
        least, most = (format_seconds(rates * one_s + steps * each_s) for each_s in (one_s, longest_s))
        line += (
            f", then about {steps} rates of {format_seconds(one_s)} to {format_seconds(longest_s)} in the searches for "
            f"the limit: {least} to {most} in all"
        )
    return [line, *change_lines(expected.writes, expected.trims)]


def parse_limit(text: str | None) -> Limit | None:
    """`mean:100ms`, `p99:20ms`, `max:50ms`."""
    return None if text is None else Limit(*read_limit(text, TIMES))


def parse_levels(text: str) -> tuple[int, ...]:
    words = [word.strip().removesuffix("%").strip() for word in text.split(",")]
    if not all(re.fullmatch(r"\d{1,4}", word) and 1 <= int(word) <= LEVEL_MAX_PERCENT for word in words):
        raise BadInputError(f"--levels {text}: whole per cent from 1 to {LEVEL_MAX_PERCENT}, such as 10,50,90")
    return tuple(sorted({int(word) for word in words}))


def _refuse_levels(levels: str, targets: tuple[str, ...]) -> None:
    """Levels that were written without commas, and so are targets."""
    more = [word for word in targets if re.fullmatch(r"\d{1,4}%?,?", word) and not os.path.lexists(word)]
    if more and levels != LEVELS:
        together = ",".join(word.strip(",") for word in (levels, *more))
        edit = Edit(("--levels", levels, *more), ("--levels", together))
        said = f"--levels {levels} {' '.join(more)}: levels are separated by commas"
        raise BadInputError(said, Remedy(f"write --levels {together}", edit))


def _each_ns(text: str) -> int:
    try:
        found = _core.parse_duration_ns(text)
    except ValueError as error:
        raise BadInputError(f"--each: {one_line(error)}") from error
    if found < EACH_MIN_NS:
        raise BadInputError(f"--each {text}: at least {format_ns(EACH_MIN_NS)}")
    return found


def _draw(store: Store, result: CurveResult, records: list[Record], output: Path | None) -> Path | None:
    """The report of the curve; gives back the page, beside which every picture lies."""
    if not any(point.mean_ns for point in result.points):
        return None
    from brickyard.report.page import default_directory, write_report

    study = store.studies(result.study)[0]
    return write_report(records, study, output or default_directory(records, study))


def _picture(page: Path) -> Path:
    folder = "pictures" if page.name == "report.html" else f"{page.stem}-pictures"
    return page.parent / folder / "load-curve.png"


def _document(result: CurveResult, curve: Curve, page: Path | None) -> Document:
    found, limit = knee(result.points), curve.limit
    steps = [step for one in result.searches for step in one.steps]
    return {
        "study": result.study,
        "runs": result.runs,
        "outcome": result.outcome,
        "message": result.message,
        "closed_loop_per_s": result.maximum_per_s,
        "points": [point.document() for point in result.points],
        "knee": found.point.document() if found.point else None,
        "bend": found.bend.value,
        "capacity_per_s": capacity(result.points, result.maximum_per_s, steps),
        "limit": {"figure": limit.figure, "above_ns": limit.above_ns} if limit else None,
        "usable": _usable(curve, limit) if limit else None,
        "usable_not_known": (not_known(curve, limit) or None) if limit else None,
        "searches": [one.document() for one in result.searches],
        "picture": str(_picture(page)) if page else None,
        "report": str(page) if page else None,
    }


def _usable(curve: Curve, limit: Limit) -> Document | None:
    """The rate within the limit; None where no rate keeps it, and where it is not known."""
    rates = rates_of(curve.searches) if is_known(curve, limit) else None
    return {"rate_per_s": rates.centre, "low_per_s": rates.low, "high_per_s": rates.high} if rates else None


def _print(console: Console, result: CurveResult, records: list[Record], curve: Curve, page: Path | None) -> None:
    print_answer(console, curve_answer(curve, records, result.notes))
    print_warnings(console, records)
    rows = [curve_row(point, curve.maximum_per_s, curve.limit) for point in curve.points]
    named = curve_columns(curve.limit)
    columns, heads = [(name, "right" if name else "left") for name, _ in named], [head for _, head in named]
    levels = [record for record in records if not is_of_search(record)]
    title = titled("Response time against offered rate", workload_words(levels))
    console.print(table(title, columns, rows, heads=heads, keys=2))
    for note in curve_notes(levels, rows, curve):
        print_line(console, note, "dim")
    console.print()
    print_labelled(console, curve_circumstances(records))
    if result.outcome != "done":
        ended = ": ".join(filter(None, (result.outcome, result.message)))
        said = f"{ended}; its measurements are kept as study s{result.study}"
        print_line(console, said)
    if page:
        console.print(f"report: {page}", markup=False, soft_wrap=True)
