"""Duty: records → one self-contained HTML page and a folder of pictures beside it.

Refusal: the page makes no network request and runs no script; its own policy header forbids both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import altair as alt

from brickyard import _core, analysis
from brickyard.analysis.databases.pgbench import is_pgbench
from brickyard.analysis.databases.replay_runs import is_replay
from brickyard.analysis.figures import ramp
from brickyard.analysis.figures.conditions import stretches
from brickyard.analysis.figures.series import has_drain, phase_spans, pieces, rate_shown
from brickyard.analysis.figures.workload import io_words, workload_words
from brickyard.analysis.judging import slow
from brickyard.analysis.judging import summary as summaries
from brickyard.analysis.judging.answers import Answer, Patterns, answer, cautions, counted_words
from brickyard.analysis.judging.groups import target_words
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.judging.repetitions import repeated, together_words
from brickyard.analysis.judging.replay_answer import replay_answer
from brickyard.analysis.judging.without_rate import Key, asked_cell, reasons, without_rate
from brickyard.analysis.studies import pts_points
from brickyard.analysis.studies.characterization import latency_name, pattern_words
from brickyard.analysis.studies.curve_words import (
    curve_answer,
    curve_circumstances,
    curve_columns,
    curve_marks,
    curve_notes,
    curve_row,
    run_names,
)
from brickyard.analysis.studies.curves import curve_of, is_of_search
from brickyard.analysis.studies.pts_points import point_rows
from brickyard.outputs import report_place
from brickyard.report import charts, pgbench, pts, replay
from brickyard.report.durable_chart import durable_costs
from brickyard.report.load_curve import load_curve
from brickyard.report.picture import Picture
from brickyard.report.pictures import draw
from brickyard.report.study_answers import answered
from brickyard.report.tables import (
    Table,
    characterization_tables,
    failure_table,
    repetitions_table,
    slowest_table,
    totals_tables,
)
from brickyard.report.written import templates, write_page
from brickyard.schema import COMMIT
from brickyard.store import Record, StudyInfo
from brickyard.study.snia.stored import pts_answer, stored
from brickyard.study.snia.tables import pts_tables

Judge = Callable[[Record], list[tuple[str, tuple[str, ...], list[list[str]]]]]
"""Titles, columns and rows of the verdicts about a record."""

WIDE, NARROW = 820, 330  # widths in CSS pixels: a page's column, and a phone of 360 less its margins
MOST_BARS = 30
WIDE_COLUMNS, NARROW_COLUMNS = 120, 60  # heat map cells across; more is finer than a reader sees


@dataclass(frozen=True)
class Figure:
    """Pictures in the page. `narrow` is another drawing of the same for phones, where one size does not fit both."""

    title: str
    caption: str
    pictures: list[Picture]
    """All of them are shown in the page."""
    narrow: list[Picture]
    whole: Picture | None = None
    """All of `pictures` in one, a file beside the page for slides and papers."""
    evidence: str = ""
    """The part of the page that shows what the picture follows from."""

    @property
    def files(self) -> list[Picture]:
        return [*self.pictures, self.whole] if self.whole else self.pictures


@dataclass(frozen=True)
class Lead:
    """What stands before all else in the report of a study that has an answer and a picture of its own."""

    answer: Answer
    figures: list[Figure]
    tables: list[Table]
    circumstances: list[tuple[str, str]] | None = None
    """Where they are not those of all runs in the page."""
    is_whole: bool = False
    """Whether no picture of the runs is needed beside these."""
    is_of_tables: bool = False
    """Whether the answer stands on its tables, so that pictures of the runs follow them."""


def default_directory(records: Sequence[Record], study: StudyInfo | None) -> Path:
    """`brickyard-report-20260131-142233` below the working directory, by the time at which the first run began."""
    began_ns = study.created_unix_ns if study else min(record.info.created_unix_ns for record in records)
    moment = datetime.fromtimestamp(began_ns / 1e9).astimezone()
    return Path(f"brickyard-report-{moment:%Y%m%d-%H%M%S}")


def write_report(
    records: list[Record],
    study: StudyInfo | None,
    place: Path,
    judge: Judge | None = None,
    judged: Sequence[str] = (),
) -> Path:
    """Writes `report.html` and `pictures/` into a directory, and gives back the page's absolute path.

    A place that ends in .html is the page itself, with its pictures beside it. `judged` are the verdicts of `judge` in
    words, which end the answer.
    """
    lead, every = _lead(records, study), records
    records = [record for record in records if not is_of_search(record)] or records
    of_runs = [] if lead and lead.is_whole else draw_figures(records, _planned(study))
    figures = [*(lead.figures if lead else []), *of_runs]
    where = report_place(place)
    if lead and lead.is_of_tables:
        shown, after = lead.figures, of_runs
    else:
        shown, after = figures, []
    html = render(
        records, study, shown, judge, lead, judged=judged, every=every, pictures=where.pictures.name, of_runs=after
    )
    return write_page(where, html, (picture for figure in figures for picture in figure.files))


def _lead(records: list[Record], study: StudyInfo | None) -> Lead | None:
    """Of a load curve, of SNIA's tests, or of a study whose answer stands on tables."""
    curve = curve_of(study, records)
    if curve is None:
        return (_pts_lead(study, records) or _table_lead(study, records)) if study else None
    levels = [record for record in records if not is_of_search(record)] or records
    workload = workload_words(levels)
    marks = curve_marks(curve)
    wide, narrow = (
        load_curve(curve.points, marks, curve.limit, note=workload, narrow=is_narrow, steps=curve.steps)
        for is_narrow in (False, True)
    )
    rows = [curve_row(point, curve.maximum_per_s, curve.limit) for point in curve.points]
    columns = curve_columns(curve.limit)
    caption = "Each point is a rate that was offered, in a run of its own."
    caption += " Crosses are the steps of the searches for the limit." if curve.steps else ""
    groups = tuple((head, len(list(names))) for head, names in groupby(columns, key=itemgetter(1)))
    title = "Response time against offered rate"
    note = "; ".join([workload, *curve_notes(levels, rows, curve)])
    return Lead(
        curve_answer(curve, records, study.notes if study else ()),
        [Figure(title, caption, [wide], [narrow])],
        [Table(title, [name for name, _ in columns], rows, groups=groups, note=note, keys=2)],
        curve_circumstances(records),
    )


def _pts_lead(study: StudyInfo, records: list[Record]) -> Lead | None:
    found = stored(study, records)
    if found is None:
        return None
    tables = [Table(title, columns, rows, text_columns=texts) for title, columns, rows, texts in pts_tables(found)]
    if found.operating:
        rows = point_rows(found.operating)
        tables.insert(0, Table(pts_points.TITLE, list(pts_points.COLUMNS), rows, text_columns=1))
    drawn = pts.figures(found, io_words(records))
    figures = [Figure(title, caption, [wide], [narrow]) for title, caption, wide, narrow in drawn]
    return Lead(pts_answer(found, records), figures, tables, is_whole=bool(figures))


def _table_lead(study: StudyInfo, records: list[Record]) -> Lead | None:
    """Of `durable`, `honesty`, `census` and `crosscheck`."""
    found = answered(study, records)
    if found is None:
        return None
    figures = []
    if found.write_path is not None and found.write_path.writes:
        wide, narrow = (durable_costs(found.write_path.writes, width) for width in (WIDE, NARROW))
        caption = "Mean time of a write and what makes it durable, by one writer; lower is better."
        figures.append(Figure("What a durable write costs", caption, [wide], [narrow]))
    return Lead(found.answer, figures, found.tables, is_of_tables=True)


def draw_figures(records: list[Record], planned: int | None = None) -> list[Figure]:
    if all(is_replay(record) for record in records):
        return [
            Figure(title, caption, [wide], [narrow])
            for title, caption, wide, narrow in replay.figures(records, WIDE, NARROW)
        ]
    if all(is_pgbench(record) for record in records):
        return [
            Figure(title, caption, [wide], [narrow])
            for title, caption, wide, narrow in pgbench.figures(records, WIDE, NARROW)
        ]
    patterns = analysis.characterization(records)
    figures = []
    if analysis.is_graph(patterns):
        without = without_rate(records, planned)
        figures += [_graph(patterns, records, without), _latency(patterns, records, without)]
    return figures + _ramps(records) + _over_time(records, patterns) + _slow(records, patterns)


def _slow(records: list[Record], patterns: Patterns) -> list[Figure]:
    """One bar of causes for each run, or for each pattern of a characterization, whose runs nobody knows by number;
    nothing where all of it is the model's."""
    names = run_names(records, lambda record: f"run {record.info.id}")  # as the table of its evidence has them
    bars: dict[str, list[slow.SlowCause]] = {}
    for record in records:
        asked = asked_cell(record) if analysis.is_graph(patterns) else None
        bar = charts.pattern_name(asked[:2]) if asked else names[record.info.id]
        if bar in bars or len(bars) < MOST_BARS:
            bars.setdefault(bar, []).extend(slow.slow_causes(record))
    told = {bar: slow.cause_shares(causes) for bar, causes in bars.items()}
    if not any(one.cause != slow.MODEL for shares in told.values() for one in shares):
        return []
    words = list(dict.fromkeys(line for record in records for line in slow.slow_words(record)))
    caption = "Shares of the response time of the slowest requests (at most 100 of each phase). " + " ".join(words[:2])
    if not analysis.is_graph(patterns) and len(records) > len(bars):
        caption += f" The picture has the first {len(bars)} of {len(records)} runs."

    def drawn(name: str, width: int) -> Picture:
        return draw(name, "Shares of causes of slow requests", charts.causes(told, width=width), width=width)

    wide, narrow = drawn("slow-causes", WIDE), drawn("slow-causes-narrow", NARROW)
    title = "Why the slowest requests were slow"
    return [Figure(title, caption, [wide], [narrow], evidence="slowest")]


def _ramps(records: list[Record]) -> list[Figure]:
    """Response times against the knob, for each phase of a run that turned one."""
    figures = []
    for record in records:
        for number, (phase, found) in enumerate(ramp.by_phase(ramp.steps(record)).items(), 1):
            points = [point for step in found if (point := ramp.as_point(record, step)) is not None]
            if len(points) < 2:
                continue
            points.sort(key=lambda point: point.offered_per_s)
            knob = found[0].knob
            limit, marks = ramp.limit_of(record, found[0].phase), ramp.found_marks(record, found[0].phase)
            name = f"ramp-{record.info.id}-{number}"
            unit, note = " in 1/s" if knob == "rate" else "", workload_words([record], phase=found[0].phase)
            wide, narrow = (
                load_curve(
                    points,
                    marks,
                    limit,
                    name=name,
                    against=knob,
                    unit=unit,
                    note=note,
                    narrow=is_narrow,
                    is_whole=ramp.is_whole(knob),
                )
                for is_narrow in (False, True)
            )
            caption = " ".join(ramp.found_words(record)) or "Each point is a step of the ramp."
            run = f", {run_names(records)[record.info.id]}" if len(records) > 1 else ""
            figures.append(Figure(f"Ramp of {phase}{run}", caption, [wide], [narrow]))
    return figures


def _facets(
    patterns: Patterns, chart: Callable[..., Any], name: str, what: str, records: list[Record], without: dict[Key, str]
) -> tuple[list[Picture], Picture]:
    """One picture for each pattern, and one of all together for slides and papers."""
    sizes = [item.cell.request_bytes for cells in patterns.values() for item in cells]
    span = min(sizes), max(sizes)
    made = {pattern: chart(pattern, cells, sizes=span, without=without) for pattern, cells in patterns.items()}
    pictures = [
        draw(
            f"{name}-{'-'.join(pattern)}",
            f"{what}, {charts.pattern_name(pattern)}",
            drawing,
            note=pattern_words(records, patterns[pattern]),
        )
        for pattern, drawing in made.items()
    ]
    whole = alt.concat(*made.values(), columns=2, spacing=36)
    return pictures, draw(name, what, whole, width=WIDE, note=workload_words(records, "cell"))


def _graph(patterns: Patterns, records: list[Record], without: dict[Key, str]) -> Figure:
    what = "IOPS and MiB/s against request size"
    pictures, whole = _facets(patterns, charts.characterization, "characterization", what, records, without)
    caption = "IOPS (left, blue, solid) and throughput (right, orange, dashed) against request size."
    if any(item.cell.fills_caches for cells in patterns.values() for item in cells):
        caption += " Hollow points: not in steady state, so this rate may not last."
    if without:
        caption += f" Lines have gaps where a cell has no rate: {reasons(without)}."
    return Figure("Characterization graph", caption, pictures, [], whole)


def _latency(patterns: Patterns, records: list[Record], without: dict[Key, str]) -> Figure:
    measure = latency_name(patterns)
    what = f"Percentiles of the {measure} against request size"
    pictures, whole = _facets(patterns, charts.latency, "latency", what, records, without)
    no_rate = "a cell has no rate, or " if without else ""
    caption = (
        f"Latency is the {measure}. A line has a gap where {no_rate}fewer than ten samples lie beyond its percentile."
    )
    return Figure("Latency against request size", caption, pictures, [], whole)


COMMITS = " A commit is a write and the flush after it; neither is in the map by itself."


def _over_time(records: list[Record], patterns: Patterns) -> list[Figure]:
    """Throughput and latency over time, all runs laid end to end. Another tool's result is one figure for the whole
    time, so that nothing of it is known over time."""
    records = [record for record in records if not record.info.is_by_tool]
    if not records:
        return []
    series_of = _series(records, patterns)
    clock = _clock(records)
    bands = _bands(records, series_of) if len(records) > 1 else _phases(records[0], clock)
    points = analysis.throughput(records)
    many, note = len(records) > 1, workload_words(records, "cell" if analysis.is_graph(patterns) else "run")
    ends = "Runs are laid end to end, without warm-up and pauses. " if many else "Warm-up is left out. "
    is_apart = analysis.are_apart(points)
    unit, why = rate_shown(points)
    axis = " The axis is logarithmic, since the streams are far apart." if is_apart else ""
    broken = " Lines have gaps where intervals are not counted." if any(pieces(points)) else ""
    marked = " Dashed lines mark changes of the condition." if clock.changes else ""
    timed = analysis.heat_operations(records)
    names = " and ".join(f"{name}s" for name in timed) if COMMIT in timed else "requests"
    mixed = " All streams and operations of a run are in one map." if analysis.several(points) else ""
    mixed = COMMITS if COMMIT in timed else mixed

    def rates(name: str, width: int) -> Picture:
        log = analysis.is_graph(patterns) or is_apart
        chart = charts.throughput(
            points, series_of, unit, clock, log=log, width=width, bands=bands if len(records) == 1 else ()
        )
        return draw(name, "Throughput over time", chart, width=width, note=note)

    figures = [
        Figure(
            "Throughput over time",
            f"{unit}{why}. {ends}A run that holds its rate is a flat line.{axis}{broken}{marked}",
            [rates("throughput-over-time", WIDE)],
            [rates("throughput-over-time-narrow", NARROW)],
        )
    ]

    def heat(name: str, width: int, columns: int) -> Picture | None:
        cells = analysis.heat_map(records, columns=columns)
        if not cells:
            return None
        return draw(
            name,
            "Response times over time as a heat map",
            charts.heat_map(cells, bands, clock, names, width=width),
            width=width,
            note=note,
        )

    wide, narrow = (
        heat("latency-over-time", WIDE, WIDE_COLUMNS),
        heat("latency-over-time-narrow", NARROW, NARROW_COLUMNS),
    )
    if wide and narrow:
        darker = f"The darker a cell, the larger the share of the {names} of that moment that took that long."
        last = has_drain(records)
        drain = " The narrow column at the end of a run has the requests that ended after its time." if last else ""
        caption = f"{ends}{darker}{drain}{mixed}{marked}"
        figures.append(Figure("Latency over time", caption, [wide], [narrow]))
    return figures


def _clock(records: list[Record]) -> charts.Clock:
    """That of a run's tables, with its changes of condition; the measured time of several runs, which has none."""
    if len(records) > 1:
        return charts.Clock()
    changes = [(name.replace("_", " "), start_ns / 1e9) for _, name, start_ns, _ in stretches(records[0]) if start_ns]
    return charts.Clock(charts.SINCE_START, tuple(dict.fromkeys(changes)))


def _series(records: list[Record], patterns: Patterns) -> dict[int, str]:
    """Which line a run belongs to: that of its pattern in a characterization, else its own."""
    cells = {record.info.id: analysis.cell_of(record) for record in records}
    if analysis.is_graph(patterns):
        return {
            run: charts.pattern_name((cell.address, cell.operation)) if cell else f"run {run}"
            for run, cell in cells.items()
        }
    return run_names(records) if len(records) > 1 else {r.info.id: "" for r in records}


PHASES_NAMED = 12


def _phases(record: Record, clock: charts.Clock) -> list[charts.Band]:
    """None where they would be crowded, by each other or by changes of the condition."""
    found = phase_spans(record)
    return found if len(found) <= PHASES_NAMED and not clock.changes else []


def _bands(records: list[Record], series_of: dict[int, str]) -> list[tuple[str, float, float]]:
    """Neighbouring runs of one series as (name, start, end) in laid-out seconds; none where they would be crowded."""
    shifts = analysis.lay_out(records)
    bands = []
    for name, group in groupby(records, key=lambda record: series_of[record.info.id]):
        members = list(group)
        spans = [
            ((cost.start_ns / 1e9) + shifts[r.info.id], (cost.end_ns / 1e9) + shifts[r.info.id])
            for r in members
            for cost in r.costs
            if not cost.warmup
        ]
        if spans:
            bands.append((name.replace(" ", "\n"), min(s[0] for s in spans), max(s[1] for s in spans)))
    return bands if len(bands) <= 6 else []


def render(
    records: list[Record],
    study: StudyInfo | None,
    figures: list[Figure],
    judge: Judge | None = None,
    lead: Lead | None = None,
    *,
    judged: Sequence[str] = (),
    every: list[Record] | None = None,
    pictures: str = "pictures",
    of_runs: Sequence[Figure] = (),
) -> str:
    """The page as text; `every` run is warned of, also those that have no row of their own. `of_runs` are pictures that
    follow the tables."""
    every = every or records
    patterns = analysis.characterization(records)
    graph = analysis.is_graph(patterns)
    replayed = all(is_replay(record) for record in records)
    workload = workload_words(records, "cell" if graph else "run")
    tables: list[Table] = characterization_tables(patterns, records) if graph else totals_tables(records)
    if of_databases(records):
        tables = database_tables(records)
    together = [] if lead or graph or replayed else repeated(records)
    outcomes = [r for r in records if r.info.outcome != "done"]
    said = _answer(records, patterns, lead, _planned(study))
    first = cautions(records) if together else []
    others = [sentence for sentence in said.sentences if sentence not in first]
    said = replace(said, sentences=(*first, *together_words(together), *others, *judged))
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            title=_title(records, study, graph=graph),
            when=summaries.when(records[0].info),
            version=next((r.info.software_version for r in records if not r.info.is_by_tool), _core.version()),
            warnings=distinct_warnings(every),
            notes=study.notes if study else [],
            unfinished=[
                ": ".join(filter(None, (f"Run {r.info.id} {r.info.outcome}", r.info.message))) for r in outcomes
            ],
            circumstances=lead.circumstances if lead and lead.circumstances else summaries.circumstances(records),
            workload=workload,
            counted=counted_words(every, study.notes if study else [], len(outcomes)),
            answer=said,
            together=repetitions_table(records, together) if together else None,
            figures=figures,
            of_runs=of_runs,
            tables=lead.tables if lead else tables,
            of_each_run=tables if lead else [],
            verdicts=_verdicts(records, judge),
            failures=None if replayed else failure_table(records),
            slowest=slowest_table(records),
            pictures=pictures,
        )
    )


def of_databases(records: list[Record]) -> bool:
    """Whether all of them are replays, or all of them pgbench: their figures are calls and transactions."""
    return all(is_replay(record) for record in records) or all(is_pgbench(record) for record in records)


def database_tables(records: list[Record]) -> list[Table]:
    return pgbench.tables(records) if is_pgbench(records[0]) else replay.tables(records)


def database_answer(records: list[Record]) -> Answer:
    return pgbench.pgbench_answer(records) if is_pgbench(records[0]) else replay_answer(records)


def _planned(study: StudyInfo | None) -> int | None:
    """How many cells a characterization was to have."""
    return study.kept.planned if study else None


def _answer(records: list[Record], patterns: Patterns, lead: Lead | None, planned: int | None) -> Answer:
    if lead:
        return lead.answer
    return database_answer(records) if of_databases(records) else answer(records, patterns, planned)


def _verdicts(records: list[Record], judge: Judge | None) -> list[Table]:
    """What each run was held against; which run it is stands in the title where there are several."""
    return [
        Table(
            title=f"Run {record.info.id}: {title}" if len(records) > 1 else title,
            columns=list(columns),
            rows=rows,
            text_columns=1,
        )
        for record in records
        for title, columns, rows in (judge(record) if judge else [])
    ]


def _title(records: list[Record], study: StudyInfo | None, *, graph: bool) -> str:
    where = target_words(records)
    if graph:
        return f"Characterization of {where}"
    if study:
        # A profile keeps its name.
        is_profiles = study.name.startswith(records[0].info.profile)
        return f"{study.name if is_profiles else f'{study.name[:1].upper()}{study.name[1:]}'} on {where}"
    titles = sorted({record.info.plan.title or record.info.profile for record in records})
    return f"{titles[0] if len(titles) == 1 else f'{len(records)} runs'} on {where}"
