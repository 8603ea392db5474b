"""Duty: `brickyard report`. Refusal: what a report holds is decided in `brickyard.report`."""

from __future__ import annotations

from brickyard.cli import judging as judges
from brickyard.cli import options
from brickyard.cli.output import emit, stdout
from brickyard.cli.selection import open_store, select
from brickyard.errors import BadInputError


def report(
    *runs: str,
    output: options.ReportPlace = None,
    ruler: judges.Rulers = (),
    check: judges.Check = False,
    price: judges.Usd = None,
    capacity: judges.Capacity = None,
    ports: judges.Ports = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Write a self-contained HTML report, and every picture as PNG and SVG beside it.

    Parameters
    ----------
    runs
        Runs (12, 3-7), a study (s2) or latest; without any, the newest study or run.
    """
    from brickyard.report import default_directory, write_report

    judge = judges.judging(ruler, check, price, capacity, ports)
    with open_store(store) as kept:
        chosen = select(kept, runs)
    if not any(record.intervals for record in chosen.records):
        raise BadInputError("these runs measured nothing; choose others with `brickyard runs`")
    page = write_report(
        chosen.records, chosen.study, output or default_directory(chosen.records, chosen.study), judge.tables
    )
    if json:
        judged = [{"run": r.info.id, **judge.document(r)} for r in chosen.records] if judge.is_asked else []
        emit(
            {"report": str(page), "runs": [r.info.id for r in chosen.records], **({"judged": judged} if judged else {})}
        )
    else:
        stdout().print(f"report: {page}", markup=False, soft_wrap=True)
    return judge.exit_code(chosen.records, 0)
