"""Duty: `brickyard show`: everything about a run, or each of several. Refusal: nothing that is not in the record."""

from __future__ import annotations

from brickyard import analysis
from brickyard.analysis.judging.answers import Answer, answer
from brickyard.analysis.judging.repetitions import repeated
from brickyard.analysis.judging.summary import run_document
from brickyard.cli.parts import judging as judges
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stdout
from brickyard.cli.parts.selection import named_runs, open_store, part_words, readable, whole_study
from brickyard.cli.parts.tables import print_answer, print_run
from brickyard.cli.parts.told import print_together
from brickyard.errors import BrickyardError
from brickyard.report.study_answers import study_answer
from brickyard.store import Record, Store, StudyInfo


def show(
    *runs: str,
    ruler: judges.Rulers = (),
    check: judges.Check = False,
    price: judges.Usd = None,
    capacity: judges.Capacity = None,
    ports: judges.Ports = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Show runs, each with its answer, warnings, figures, errors, slowest requests, and circumstances; of a study, its
    answer first.

    Parameters
    ----------
    runs
        Runs (12 or 3-7,9), a study (s2, NAME or NAME@LABEL) or latest; the newest run unless given.
    """
    judge = judges.judging(ruler, check, price, capacity, ports)
    with open_store(store) as kept:
        named, studies = named_runs(kept, runs or ("latest",))
        records = readable(kept, named)
        study = whole_study(named, studies)
        part = part_words(kept, named[0]) if len(named) == 1 else ""
        if not records:
            raise BrickyardError("none of these runs can be read")
        said = _answer(kept, study, records) if study is not None else None
    if json:
        documents = [{**run_document(record), **judge.document(record)} for record in records]
        of_study = {"of_study": said.document()} if said else {}
        emit({**of_study, **(documents[0] if len(named) == 1 else {"runs": documents})})
        return judge.exit_code(records, 0)
    console = stdout()
    if part:
        print_line(console, part, "dim")
    if said:
        print_answer(console, said)
    elif study is not None and (together := repeated(records)):
        print_together(console, records, together, judge.together_lines(records) if judge.is_asked else ())
    for number, record in enumerate(records):
        if number:
            console.print()
        print_run(console, record, judge.lines(record))
        judge.print(console, record)
    return judge.exit_code(records, 0)


def _answer(store: Store, study: StudyInfo, records: list[Record]) -> Answer | None:
    """Of a study from a file, and of a characterization, as their pages have it; of others by their kind."""
    from brickyard.study.designs.results import kept_view

    view = kept_view(store, study)
    if view is not None and view.records:
        return view.answer
    if said := study_answer(study, records):
        return said
    patterns = analysis.characterization(records)
    return answer(records, patterns, study.kept.planned) if analysis.is_graph(patterns) else None
