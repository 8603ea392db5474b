"""Duty: `brickyard advise charts`. Refusal: no figures are computed here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stdout, table
from brickyard.cli.parts.progress import Working
from brickyard.errors import BadInputError

if TYPE_CHECKING:
    from brickyard.advise.charts import Charts


def charts(
    *,
    price: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Price of one drive of a class, in any unit: fc=3, sas=2.5, sata=1. May be repeated.",
        ),
    ] = (),
    response: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Mean response time that OLTP requires: high-end=10ms, mid-range=50ms. May be repeated.",
        ),
    ] = (),
    dear: Annotated[
        float,
        Parameter(
            help="Rate a class NO (cost) if another class meets the requirements for less than this fraction of "
            "its cost."
        ),
    ] = 0.5,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"), validator=options.REPORT, help="Folder for a page with every chart as a picture."
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """The rule-of-thumb charts of the studies, computed from the models, next to the published ratings."""
    from brickyard import _core
    from brickyard.advise import charts as computing
    from brickyard.advise import suitability

    prices = {word: _number("--price", text, value) for word, value, text in _pairs("--price", price)}
    limits: dict[str, float] = {}
    for word, value, text in _pairs("--response", response):
        try:
            limits[word] = float(_core.parse_limit_ns(value))
        except ValueError as error:
            raise BadInputError(f"--response {text}: {error}") from error
    given = suitability.assumed(prices, limits, dear)
    with Working("rules of thumb") as working:
        found = computing.compute(given, working.says)
    whole = computing.document(found)
    if output is not None:
        from brickyard.report.advice_charts import write_charts

        whole["page"] = str(write_charts(found, output))
    if json:
        emit(whole)
    else:
        _print(found)
        if output is not None:
            stdout().print(f"report: {whole['page']}", markup=False, soft_wrap=True)
    return 0


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str, str]]:
    found = []
    for text in texts:
        word, sign, value = text.partition("=")
        if not sign:
            raise BadInputError(f"{option} {text}: write NAME=VALUE, such as {EXAMPLES[option]}")
        found.append((word.strip(), value.strip(), text))
    return found


EXAMPLES = {"--price": "sas=2.5", "--response": "mid-range=20ms"}


def _number(option: str, text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise BadInputError(f"{option} {text}: {value} is not a number") from error


def _print(found: Charts) -> None:
    from brickyard.advise.charts import SUITABILITY, footnotes

    out = stdout()
    for study, chart in dict.fromkeys((cell.study, cell.chart) for cell in found.cells):
        cells = [c for c in found.cells if (c.study, c.chart) == (study, chart)]
        rows = [[c.item, c.criterion, c.published, c.computed or "–", c.agrees_word, c.figure] for c in cells]
        names = ["", "criterion", "published", "computed", "agrees", "from"]
        if chart == SUITABILITY:
            names.append("price at which it changes")
            rows = [[*row, cell.why] for row, cell in zip(rows, cells, strict=True)]
        out.print(table(f"{chart} ({study})", [(name, "left") for name in names], rows, keys=2))
        for line in footnotes(found, chart):
            print_line(out, line)
        judged = [cell.agrees for cell in cells if cell.agrees is not None]
        out.print(f"{sum(judged)} of {len(judged)} ratings agree.", style="bold", markup=False)
        out.print()
