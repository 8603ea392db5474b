"""Duty: `brickyard advise charts`. Refusal: no figures are computed here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from brickyard.cli import options
from brickyard.cli.output import emit, print_line, stderr, stdout, table
from brickyard.errors import BadInputError

if TYPE_CHECKING:
    from brickyard.advise.charts import Charts

_AGREES = {True: "yes", False: "no", None: "–"}


def charts(
    *,
    price: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="fc=3, sas=2.5, sata=1: of one drive, in any unit. May be repeated."
        ),
    ] = (),
    response: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="high-end=10ms, mid-range=50ms: the mean that OLTP asks for. May be repeated.",
        ),
    ] = (),
    dear: Annotated[
        float, Parameter(help="NO (cost) where another class does it for less than this part of the cost.")
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
    with stderr().status("rules of thumb") as status:
        found = computing.compute(given, status.update)
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
        rows = [[c.item, c.criterion, c.published, c.computed or "–", _AGREES[c.agrees], c.figure] for c in cells]
        names = ["", "criterion", "published", "computed", "agrees", "from"]
        if chart == SUITABILITY:
            names.append("turns at a price")
            rows = [[*row, cell.why] for row, cell in zip(rows, cells, strict=True)]
        out.print(table(f"{chart} ({study})", [(name, "left") for name in names], rows, keys=2))
        for line in footnotes(found, chart):
            print_line(out, line)
        told = [cell.agrees for cell in cells if cell.agrees is not None]
        out.print(f"{sum(told)} of {len(told)} ratings agree.", style="bold", markup=False)
        out.print()
