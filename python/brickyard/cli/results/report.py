"""Duty: `brickyard report`. Refusal: what a report holds is decided in `brickyard.report`."""

from __future__ import annotations

from pathlib import Path

from brickyard.cli.parts import judging as judges
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, stdout
from brickyard.cli.parts.selection import open_store, part_words, select
from brickyard.errors import BadInputError
from brickyard.store import Store, StudyInfo, command_on


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
        Runs (12 or 3-7,9), a study (s2) or latest; the newest study or run unless given.
    """
    from brickyard.report.page import default_directory, write_report

    judge = judges.judging(ruler, check, price, capacity, ports)
    with open_store(store) as kept:
        chosen = select(kept, runs)
        lone = chosen.records[0].info if chosen.study is None and len(chosen.records) == 1 else None
        part = f" ({words})" if lone and (words := part_words(kept, lone.id)) else ""
        page = _of_study(kept, chosen.study, output, is_judged=judge.is_asked) if chosen.study else None
    if page is not None:
        if json:
            emit({"report": str(page), "runs": [r.info.id for r in chosen.records]})
        else:
            stdout().print(f"report: {page}", markup=False, soft_wrap=True)
        return 0
    if not any(record.intervals for record in chosen.records):
        raise BadInputError(f"these runs have no measurements; {command_on(kept.place, 'runs')} lists all runs")
    place = output or default_directory(chosen.records, chosen.study)
    page = write_report(chosen.records, chosen.study, place, judge.tables, judge.summary(chosen.records))
    if json:
        judged = [{"run": r.info.id, **judge.document(r)} for r in chosen.records] if judge.is_asked else []
        emit(
            {"report": str(page), "runs": [r.info.id for r in chosen.records], **({"judged": judged} if judged else {})}
        )
    else:
        stdout().print(f"report: {page}{part}", markup=False, soft_wrap=True)
    return judge.exit_code(chosen.records, 0)


def _of_study(store: Store, study: StudyInfo, output: Path | None, *, is_judged: bool) -> Path | None:
    """The matrix of a study that came from a file; anything else is a report of its runs."""
    from brickyard.report.page import default_directory
    from brickyard.report.study_page import write_study_report
    from brickyard.study.designs.results import kept_view

    view = None if is_judged else kept_view(store, study)
    if view is None:
        return None
    if not view.records:
        raise BadInputError(
            f"s{study.id}: the study has no finished run yet; continue it with {command_on(store.place, 'study')}"
        )
    return write_study_report(view, output or default_directory(view.records, study))
