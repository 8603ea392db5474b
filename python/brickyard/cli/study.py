"""Duty: `brickyard study`. Refusal: no figures are computed here."""

from __future__ import annotations

from brickyard.cli import options
from brickyard.cli.output import emit, stderr, stdout, table
from brickyard.errors import BadInputError
from brickyard.study.reference import Outcome, rankings, run_reference, tables


def study(name: str, /, *, json: options.Json = False) -> int:
    """Repeat the published studies on modelled bricks.

    Parameters
    ----------
    name
        `reference`: every published block-level table, with published, simulated and error side by side.
    """
    if name != "reference":
        raise BadInputError(f"{name}: no such study; there is `reference`, the published tables on modelled bricks")
    console = stderr()
    with console.status("published tables on modelled bricks") as status:
        outcomes = run_reference(lambda done, total: status.update(f"{done} of {total} published figures"))
    ranked = rankings(outcomes)
    if json:
        disagreements = [{"higher": _name(high), "lower": _name(low)} for high, low in ranked.disagreements]
        emit(
            {
                "tables": [item.document() for item in tables(outcomes)],
                "rankings": {"pairs": ranked.pairs, "disagreements": disagreements},
            }
        )
        return 0
    columns = [(name, "right") for name in ("published", "simulated", "error")]
    out = stdout()
    for item in tables(outcomes):
        rows = [[_label(o), f"{o.cell['published']:g}", f"{o.simulated:.1f}", f"{o.error:+.1%}"] for o in item.outcomes]
        heading = f"{item.name}: median error {item.median_error:.1%}, largest {item.largest_error:.1%}"
        out.print(table(heading, [("", "left"), *columns], rows))
        out.print()
    agreed = ranked.pairs - len(ranked.disagreements)
    out.print(
        f"rankings: {agreed} of {ranked.pairs} pairs that differ by more than 10 % as published are ordered alike"
    )
    return 0


def _label(outcome: Outcome) -> str:
    condition = outcome.cell["condition"]
    state = "" if condition == "normal" else f" ({condition.replace('_', ' ')})"
    return f"{outcome.cell['label']}{state}, {outcome.cell['unit']}"


def _name(outcome: Outcome) -> str:
    return f"{outcome.cell['table']}: {_label(outcome)}"
