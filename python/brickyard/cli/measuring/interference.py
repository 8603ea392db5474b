"""Duty: `brickyard interference`. Refusal: no figures are computed here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import _core, bricks, profiles
from brickyard.advise.simulate import filled
from brickyard.analysis.figures.workload import time_words
from brickyard.analysis.judging.answers import Answer, belief
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_circumstances, print_warnings
from brickyard.cli.parts.target import aim_at
from brickyard.errors import (
    DONE,
    FAILED,
    INTERRUPTED,
    BadInputError,
    BrickyardError,
    one_line,
)
from brickyard.percentiles import PERCENTILE_NAMES
from brickyard.reading import parsed_bytes, read_limit
from brickyard.store import Record, Store
from brickyard.store.record import RunMarks
from brickyard.study.running.aim import Aim
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Runner, RunSpec
from brickyard.study.shipped.interference import (
    COLUMNS,
    CONFIRMED_BY,
    InterferenceMap,
    MapAsked,
    MapPoint,
    StoppedError,
    explore,
    plan_of,
    point_of,
    rate_of,
    seconds_for,
)
from brickyard.study.shipped.load_curve import brick_of
from brickyard.units import format_count, format_iops, format_ns, format_size

QUESTION = "How many reads remain beside writes?"
FIGURES = ("mean", *PERCENTILE_NAMES[:-1])
REAL_S, REAL_MOST_S = 4.0, 15.0
MODEL_S, MODEL_MOST_S = 30.0, 600.0
MapPlace = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o", "--picture"],
        group=options.OUTPUT,
        validator=options.REPORT,
        help="A folder for the report with the map, or its page when the name ends in .html.",
    ),
]


def interference(
    target: str,
    /,
    *,
    limit: Annotated[str, Parameter(help="Limit on the response time of reads: p99:10ms, mean:5ms.")] = "p99:10ms",
    read_size: Annotated[str, Parameter(help="Size of a read.")] = "4KiB",
    write_size: Annotated[str, Parameter(help="Size of a write.")] = "4KiB",
    budget: Annotated[
        str, Parameter(help="The most time to use on a real target; the output says what was left out.")
    ] = "15min",
    overrides: options.BrickOverrides = (),
    placing: options.Placing = options.AS_IT_IS,
    output: MapPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Search how many reads remain beside writes within a latency limit.

    Parameters
    ----------
    target
        A modelled brick such as sim:terraserver-2003, or a file or device, which is written.
    """
    figure, limit_ns = _limit(limit)
    asked = MapAsked(_request_bytes(read_size, "--read-size"), _request_bytes(write_size, "--write-size"), figure)
    try:
        budget_s = _core.parse_duration_ns(budget) / 1e9
    except ValueError as error:
        raise BadInputError(f"--budget: {one_line(error)}") from error
    modelled = bricks.is_modelled(target)
    if overrides and not modelled:
        raise BadInputError("--set changes modelled bricks only; leave it out")
    aiming = aim_at((target,), placing, brick_changes=overrides)
    with Store(store) as kept, aiming as aimed, Interrupt() as interrupt, Terminal() as terminal:
        found, records = _mapped(
            kept, Runner(kept, terminal, interrupt), aimed, asked, limit_ns, None if not modelled else target, budget_s
        )
    page: Path | None = None
    if output is not None and records:
        from brickyard.report.interference import interference_picture, write_interference
        from brickyard.report.tables import Table

        title, columns, rows = _told(found, asked, records)
        drawn = interference_picture(found, target, _load_words(asked, records)) if found.points else None
        page = write_interference(output, records, _answer(found, records), Table(title, columns, rows), drawn)
    if json:
        emit({"target": target, "answer": _sentence(found), **found.document()})
    else:
        _print(found, asked, records)
        if page is not None:
            print_line(stdout(), f"report: {page}")
    return _exit_code(found)


def _exit_code(found: InterferenceMap) -> int:
    if found.interrupted:
        return INTERRUPTED
    is_kept = any(reads is not None for _, reads in found.frontier(found.limit_ns))
    return DONE if is_kept and not found.cut_short else FAILED


def _request_bytes(text: str, option: str) -> int:
    size = parsed_bytes(text, option)
    if advice := _core.sector_advice(size):
        raise BadInputError(f"{option} {text}: {advice}")
    return size


def _limit(text: str) -> tuple[str, float]:
    figure, limit_ns = read_limit(text, FIGURES)
    return figure, float(limit_ns)


def _mapped(
    store: Store, runner: Runner, aimed: Aim, asked: MapAsked, limit_ns: float, model: str | None, budget_s: float
) -> tuple[InterferenceMap, list[Record]]:
    each_s, most_s = (REAL_S, REAL_MOST_S) if model is None else (MODEL_S, MODEL_MOST_S)
    brick = brick_of(aimed.targets, aimed.options, "normal")
    study: int | None = None
    began = time.monotonic()

    def noted() -> int:
        nonlocal study
        if study is None:
            about: dict[str, object] = {"targets": aimed.targets, "limit": f"{asked.figure}:{limit_ns}ns"}
            study = store.add_study(f"interference on {aimed.targets[0]}", about)
        return study

    def record_of(reads: float | None, writes: float | None, marks: RunMarks, number: int = 0) -> Record:
        seconds = seconds_for(asked, reads, each_s, most_s) if reads else each_s
        drawn = replace(asked, seed=asked.seed + number)
        text = profiles.ProfileText("interference", plan_of(drawn, reads, writes, seconds), "")
        plan = profiles.validate(text, [])
        plan = filled(plan, brick) if brick is not None else plan
        result = runner.run(RunSpec("interference", plan, aimed.targets, aimed.options, marks=marks), noted)
        if result.outcome == "interrupted":
            raise StoppedError
        if result.outcome != "done":
            raise BrickyardError(f"{aimed.targets[0]}: {result.message or 'the run failed'}")
        record = store.record(result.run)
        records.append(record)
        return record

    records: list[Record] = []
    found = InterferenceMap(asked.figure, limit_ns)

    def measure(reads: float, writes: float, number: int) -> MapPoint:
        marks = RunMarks(reads_per_s=reads, writes_per_s=writes)
        point = point_of(record_of(reads, writes, marks, number), asked, reads, writes)
        said = format_ns(point.value_ns) if point.kept_up else "not all requests that were due were sent"
        line = f"{format_iops(reads)} reads/s beside {format_iops(writes)} writes/s: {asked.figure} {said}"
        print_line(stderr(), line)
        return point

    def time_left() -> bool:
        return model is not None or time.monotonic() - began < budget_s

    try:
        _alone(found, record_of, aimed.targets[0])
        explore(found, measure, time_left)
    except StoppedError:
        if not records:
            raise KeyboardInterrupt from None
        found.interrupted = True
    store.end_study(noted(), "interrupted" if found.interrupted else "done", [])
    return found, records


def _alone(found: InterferenceMap, record_of: Callable[..., Record], target: str) -> None:
    """Writes come first: a target that may not be written is refused before anything is measured."""
    found.most_writes_per_s = rate_of(record_of(0, None, RunMarks(alone="writes")), "write")
    found.most_reads_per_s = rate_of(record_of(None, 0, RunMarks(alone="reads")), "read")
    if found.most_reads_per_s <= 0 or found.most_writes_per_s <= 0:
        raise BrickyardError(f"{target}: no read or no write was completed; there is nothing to compare")


def _sentence(found: InterferenceMap) -> str:
    if not found.points:
        return "The search was interrupted before any rate of reads beside writes was tried."
    held = [(writes, reads) for writes, reads in found.frontier(found.limit_ns) if reads is not None]
    within = f"At {format_ns(found.limit_ns)} {found.figure} of reads"
    if not held:
        return f"{within}, no tried rate of reads is possible."
    parts = [
        ("" if found.too_many_beside(writes, found.limit_ns) else "at least ")
        + f"{format_iops(reads)} reads/s "
        + (f"beside {format_iops(writes)} writes/s" if writes else "without writes")
        + ("" if found.is_confirmed(reads, writes) else " (not confirmed)")
        for writes, reads in held
    ]
    open_at = found.points[-1].writes_per_s if found.interrupted or found.cut_short else None
    return f"{within} you can have {', or '.join(parts)}{_lost_words(found, open_at)}.{_rest_words(found)}"


def _lost_words(found: InterferenceMap, open_at: float | None) -> str:
    """Beside what rates of writes no tried rate of reads kept the limit."""
    lost = [writes for writes, reads in found.frontier(found.limit_ns) if reads is None and writes != open_at]
    if not lost:
        return ""
    least = {writes: min(p.reads_per_s for p in found.points if p.writes_per_s == writes) for writes in lost}
    said = [f"beside {format_iops(writes)} writes/s, not even {format_iops(least[writes])} reads/s" for writes in lost]
    untried = "; higher rates of writes were not tried" if lost[-1] == found.columns[-1] else ""
    return f"; {', and '.join(said)} kept the limit{untried}"


def _rest_words(found: InterferenceMap) -> str:
    """What an interrupted search has left open."""
    if not found.interrupted:
        return ""
    last = found.points[-1].writes_per_s
    beside = f"beside {format_iops(last)} writes/s" if last else "without writes"
    more = last == max(found.columns) < COLUMNS[-1] * found.most_writes_per_s
    untried = ", and higher rates of writes were not tried" if more else ""
    return f" The search {beside} was interrupted, so its rate is not confirmed{untried}."


def _load_words(asked: MapAsked, records: list[Record]) -> str:
    """What every figure of the map depends on."""
    sizes = f"random reads of {format_size(asked.read_bytes)} beside random writes of {format_size(asked.write_bytes)}"
    return f"{sizes}, open loops with Poisson arrivals, {time_words(records)}"


def _row(found: InterferenceMap, writes: float, reads: float | None) -> list[str]:
    many = found.too_many_beside(writes, found.limit_ns)
    tried = [format_iops(writes), "none" if reads is None else format_iops(reads), format_iops(many) if many else "–"]
    points = found.at(reads, writes) if reads is not None else []
    values = [point.value_ns for point in points if point.value_ns is not None]
    if not values:
        return [*tried, "–", "–", ""]
    span = f"{format_ns(min(values))} to {format_ns(max(values))}"
    runs = f"{len(points)} run{'' if len(points) == 1 else 's'}"
    mark = "" if reads is not None and found.is_confirmed(reads, writes) else f"not confirmed: {runs}"
    return [*tried, span, format_count(min(p.reads for p in points)), mark]


def _answer(found: InterferenceMap, records: list[Record]) -> Answer:
    return Answer(QUESTION, (_sentence(found),), belief(records))


def _told(found: InterferenceMap, asked: MapAsked, records: list[Record]) -> tuple[str, list[str], list[list[str]]]:
    """Title, columns and rows of the table."""
    columns = ["beside writes/s", "reads/s", "too many reads/s", f"{found.figure} of {CONFIRMED_BY} runs"]
    rows = [_row(found, writes, reads) for writes, reads in found.frontier(found.limit_ns)]
    limit = f"{found.figure} within {format_ns(found.limit_ns)}"
    return f"Reads with {limit}: {_load_words(asked, records)}", [*columns, "reads per run, at least", ""], rows


def _print(found: InterferenceMap, asked: MapAsked, records: list[Record]) -> None:
    out = stdout()
    print_answer(out, _answer(found, records))
    print_warnings(out, records)
    title, columns, rows = _told(found, asked, records)
    if rows:
        aligned = [*((name, "right") for name in columns[:-1]), (columns[-1], "left")]
        out.print(table(title, aligned, rows))
    most = ((found.most_reads_per_s, "reads/s"), (found.most_writes_per_s, "writes/s"))
    alone = " and ".join(f"{format_iops(rate)} {unit}" for rate, unit in most if rate)
    print_line(out, f"Alone and without a limit: {alone}. {len(found.points)} runs with Poisson arrivals.")
    if found.cut_short:
        print_line(out, "The time ended before all rates were tried; allow more with --budget.")
    out.print()
    print_circumstances(out, records)
