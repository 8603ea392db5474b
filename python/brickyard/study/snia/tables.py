"""Duty: the standard's own tables of PTS, as titles, columns and rows for terminal and page.

Throughput is in decimal megabytes, as PTS states it.

Refusal: no figure is computed here.
"""

from __future__ import annotations

from brickyard.analysis.studies.pts import Measured, Point, complete
from brickyard.study.snia import tests
from brickyard.study.snia.test import Found, Rounds
from brickyard.study.snia.tests import Cell
from brickyard.units import MB, format_iops, format_ns, format_seconds, format_size, three_digits

SHOWN_POINTS = 12
Table = tuple[str, list[str], list[list[str]], int]
"""Title, columns, rows, and how many of the columns are texts."""


def pts_tables(found: Found) -> list[Table]:
    """All of a study but its operating points."""
    tables = [
        table
        for name, rounds in found.rounds.items()
        for table in (*round_tables(name, rounds), *steady_tables(name, rounds))
    ]
    tables += [saturation_table(found.saturation)] if found.saturation else []
    return tables + ([stimuli_table(found)] if found.stimuli else [])


def round_tables(name: str, rounds: Rounds) -> list[Table]:
    """Of a test that goes in rounds; a table whose state was not steady says so."""
    mark = "" if rounds.is_steady else " (NOT steady: no result)"
    return [(title + mark, columns, rows, texts) for title, columns, rows, texts in _TABLES[name](rounds)]


def cell_words(cell: Cell) -> str:
    """`0/100, 4 KiB, 2 × 16 in flight`."""
    return f"{cell.mix}, {format_size(cell.size_bytes)}, {cell.workers} × {cell.depth} in flight"


def window_words(rounds: Rounds) -> str:
    """Which rounds the figures are the means of, and whether their state was steady."""
    last = len(rounds.rounds)
    first = max(1, last - tests.WINDOW + 1)
    mark = "" if rounds.is_steady else " (NOT steady: no result)"
    return f"mean of rounds {first} to {last}{mark}"


def value_words(figure: str, value: float) -> str:
    """A figure of a steady state in its unit."""
    if figure == "bytes_per_s":
        return f"{three_digits(value / MB)} MB/s"
    return format_ns(value) if figure == "mean_ns" else format_iops(value)


def steady_tables(name: str, rounds: Rounds) -> list[Table]:
    """PTS's verification of the steady state: the rounds of the window, and both criteria."""
    window, figure = rounds.window, rounds.test.figure
    if window is None:
        return []

    def text(value: float) -> str:
        return value_words(figure, value)

    first = len(rounds.rounds) - len(window.values) + 1
    of = f"{tests.TITLES[name]}: {cell_words(rounds.test.steady)}"
    values = [[str(number), text(value)] for number, value in enumerate(window.values, first)]
    criteria = [
        ["mean of the window", text(window.mean), "", ""],
        [
            "range",
            text(window.excursion),
            text(window.excursion_allowed),
            _met(window.excursion, window.excursion_allowed),
        ],
        [
            "slope of the best-fit line over the window",
            text(abs(window.slope)),
            text(window.slope_allowed),
            _met(abs(window.slope), window.slope_allowed),
        ],
    ]
    heads = {"iops": "IOPS", "bytes_per_s": "throughput", "mean_ns": "mean response time"}
    state = "steady" if window.is_steady else f"NOT steady after {len(rounds.rounds)} rounds: no result"
    return [
        (f"Measurement window of {of}", ["round", heads[figure]], values, 0),
        (f"Steady state of {of}: {state}", ["criterion", "found", "allowed", "met"], criteria, 1),
    ]


def _met(found: float, allowed: float) -> str:
    return "yes" if found <= allowed else "no"


def _matrix(rounds: Rounds, *, by_demand: bool = False) -> tuple[list[str], list[str], dict[tuple[str, str], Measured]]:
    """Rows, columns, and the mean of the measurement window at each crossing."""
    cells = {}
    for cell in rounds.test.cells:
        at = (str(cell.workers), str(cell.depth)) if by_demand else (format_size(cell.size_bytes), cell.mix)
        cells[at] = rounds.of(cell)
    rows = list(dict.fromkeys(row for row, _ in cells))
    return rows, list(dict.fromkeys(column for _, column in cells)), cells


def _iops(rounds: Rounds) -> list[Table]:
    rows, columns, cells = _matrix(rounds)
    lines = [[row, *(format_iops(cells[row, column].iops) for column in columns)] for row in reversed(rows)]
    return [("IOPS by block size and read/write mix, random", ["block size", *columns], lines, 1)]


def _throughput(rounds: Rounds) -> list[Table]:
    rows, columns, cells = _matrix(rounds)
    lines = [[row, *(three_digits(cells[row, column].bytes_per_s / MB) for column in columns)] for row in rows]
    title = "Throughput by block size and read/write mix, sequential, in 10^6 bytes/s"
    return [(title, ["block size", *(f"{column} MB/s" for column in columns)], lines, 1)]


def _latency(rounds: Rounds) -> list[Table]:
    lines = []
    for cell in rounds.test.cells:
        figures = rounds.of(cell)
        times = [format_ns(value) for value in (figures.mean_ns, figures.nines_ns, figures.max_ns)]
        lines.append([format_size(cell.size_bytes), cell.mix, *times, format_iops(figures.iops)])
    columns = ["block size", "read/write", "average", "99.999 %", "maximum", "IOPS"]
    title = "Response time, random, 1 thread × 1 in flight, each figure a mean over rounds, so IOPS is not 1 / average"
    return [(title, columns, lines, 2)]


def _demand(rounds: Rounds) -> list[Table]:
    rows, columns, cells = _matrix(rounds, by_demand=True)
    what = f"random, {format_size(tests.DEMAND_BYTES)}, {tests.DEMAND_READS}/{100 - tests.DEMAND_READS}"
    heads = ["threads", *(f"QD {column}" for column in columns)]
    rates = [[row, *(format_iops(cells[row, column].iops) for column in columns)] for row in rows]
    times = [[row, *(format_ns(cells[row, column].mean_ns) for column in columns)] for row in rows]
    return [
        (f"Demand variation: IOPS by threads and queue depth, {what}", heads, rates, 1),
        ("Demand intensity: mean response time by threads and queue depth", heads, times, 1),
    ]


_TABLES = {"iops": _iops, "throughput": _throughput, "latency": _latency, "dirth": _demand}


def saturation_table(points: list[Point]) -> Table:
    step = max(1, -(-len(points) // SHOWN_POINTS))
    shown = [*points[::step], *([points[-1]] if (len(points) - 1) % step else [])]
    lines = [
        [
            format_seconds(point.end_s) + partial_words(point),
            format_size(point.written_bytes),
            format_iops(point.figures.iops),
            format_ns(point.figures.mean_ns),
            format_ns(point.figures.nines_ns),
            format_ns(point.figures.max_ns),
        ]
        for point in shown
    ]
    columns = ["after", "written", "IOPS", "average", "99.999 %", "maximum"]
    return ("Write saturation: random writes of 4 KiB, without preconditioning of its own", columns, lines, 0)


def partial_words(point: Point) -> str:
    return "" if point.partial_s is None else f" (partial round of {format_ns(point.partial_s * 1e9)})"


def stimuli_table(found: Found) -> Table:
    lines = []
    for name, size, is_random, _ in tests.STIMULI:
        group = found.stimuli.get(name, [])
        if not group:
            continue
        rounds = complete(group)
        rates = [point.figures.bytes_per_s / MB for point in rounds]
        requests = sum(point.figures.iops for point in rounds)
        mean_ns = sum(point.figures.mean_ns * point.figures.iops for point in rounds) / requests
        lines.append(
            [
                name,
                f"{'random' if is_random else 'sequential'} writes of {format_size(size)}",
                *(three_digits(value) for value in (rates[0], sum(rates) / len(rates), rates[-1])),
                format_ns(mean_ns),
                format_ns(max(point.figures.max_ns for point in group)),
            ]
        )
    columns = ["group", "stimulus", "first MB/s", "mean MB/s", "last MB/s", "mean latency", "max latency"]
    return ("Cross-stimulus recovery (MB: 10^6 bytes)", columns, lines, 2)
