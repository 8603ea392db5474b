"""Duty: `brickyard study`. Refusal: no figures are computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from brickyard.analysis.figures.observe import Observed
from brickyard.analysis.judging.conclusions import conclusions
from brickyard.analysis.judging.differing import differing_in_study
from brickyard.cli.parts import options
from brickyard.cli.parts.drawing import Drawn, drawn, report_command
from brickyard.cli.parts.on_hosts import ComputedOn, hosting_of, sweeping
from brickyard.cli.parts.output import emit, print_line, print_text, stderr, stdout, table
from brickyard.cli.parts.progress import IOPS, TRANSACTIONS, Terminal, Working
from brickyard.cli.parts.tables import print_answer, print_table, print_warnings
from brickyard.databases.pgbench_plan import KIND
from brickyard.errors import BAD_INPUT, DONE, FAILED, INTERRUPTED, BadInputError, one_line
from brickyard.report.matrix_tables import footnotes
from brickyard.report.study_page import study_document, view_tables, write_study_report
from brickyard.schema import Document
from brickyard.store import Json, Record, Store, check_place
from brickyard.study.designs.cells import Layout, Wishes, combinations_words
from brickyard.study.designs.design import Design, read_design
from brickyard.study.designs.matrix import Matrix, MatrixResult, PlannedStudy, Step, planned_study
from brickyard.study.designs.results import StudyView
from brickyard.study.designs.texts import names, read
from brickyard.study.running.aim import parse_size
from brickyard.study.running.interrupt import Interrupt

REFERENCE = "reference"
COMPARISONS_SHOWN = 4  # more than that is a wall of text
EXIT_CODES = {"done": DONE, "stopped": DONE, "failed": FAILED, "interrupted": INTERRUPTED}

study_app = App(name="study", help="Factors × levels × repetitions, and the tables made from them.")


@study_app.default
def study(
    name: str | None = None,
    /,
    *,
    target: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Target: PATH for all runs, LEVEL=PATH, or LEVEL,LEVEL=PATH. May be repeated.",
        ),
    ] = (),
    only: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="FACTOR=LEVEL: run only these levels. May be repeated."),
    ] = (),
    overrides: options.Overrides = (),
    repetitions: Annotated[int | None, Parameter(help="Number of repetitions, instead of the file's.")] = None,
    label: Annotated[str, Parameter(help="Label that keeps these runs separate from others, such as monday.")] = "",
    price: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="Price of a level, as LEVEL=USD. May be repeated."),
    ] = (),
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the plan and its duration; touch nothing.")
    ] = False,
    no_run: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Measure nothing; only show the tables of the runs in the store."
        ),
    ] = False,
    manage: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Allow arrays to be degraded and rebuilt to set up a condition."
        ),
    ] = False,
    size: options.Size = None,
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    output: options.ReportPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Run a study: measure the runs that are missing; finished runs are not measured again.

    Parameters
    ----------
    name
        A study that ships with Brickyard (without one, they are listed), or the path of a TOML file.
    """
    if name is None:
        return list_studies(json=json)
    if repetitions is not None and repetitions < 1:
        raise BadInputError(f"--repetitions {repetitions}: at least 1")
    text = read(name, (REFERENCE,))
    wishes = Wishes(
        targets=target,
        only=only,
        changes=overrides,
        repetitions=repetitions,
        label=label,
        create_bytes=parse_size(size),
        overwrite=overwrite,
        destroys_data=i_know_this_destroys_data,
        manage=manage,
        prices=price,
    )
    study = planned_study(text, wishes)
    design, layout, planned = study.design, study.layout, study.steps
    if dry_run:
        return _dry_run(design, layout, planned, store, manage=manage, as_json=json)
    with Store(store) as kept, Interrupt() as interrupt:
        with Terminal(words=TRANSACTIONS if design.base.profile == KIND else IOPS) as terminal:
            for note in layout.notes:
                terminal.note(note)
            far = not no_run and any(step.cell.recipe.hosts for step in planned)
            placing = options.Placing(
                size=size, overwrite=overwrite, i_know_this_destroys_data=i_know_this_destroys_data
            )
            hosting = hosting_of(kept, terminal, interrupt, placing) if far else None
            matrix = Matrix(kept, terminal, interrupt, design, wishes, planned, hosting)
            result = MatrixResult(None) if no_run else matrix.run(_expected(design, planned, store))
        return _told(kept, study, wishes, result, output, as_json=json)


def _expected(design: Design, planned: list[Step], place: Path | None) -> list[str]:
    from brickyard.study.designs.planning import plan_of

    return plan_of(design, planned, place).forecast_lines()


def _told(
    store: Store,
    study: PlannedStudy,
    wishes: Wishes,
    result: MatrixResult,
    output: Path | None,
    *,
    as_json: bool,
) -> int:
    from brickyard.study.designs.results import results, view_of

    design, layout, planned = study.design, study.layout, study.steps
    found = results(store, design, [step.identity for step in planned])
    if result.study is None:
        # Nothing was measured now: it is the newest study that these runs were measured in.
        result.study = max((r.info.study for r in found.counted if r.info.study is not None), default=None)
    code = EXIT_CODES.get(result.outcome, BAD_INPUT)
    view = view_of(design, found, layout.cells, wishes.changes, [*layout.notes, *result.notes])
    again = report_command(store, result.study)
    made = drawn(lambda: write_study_report(view, output), again) if output and found.counted else Drawn()
    code, page = made.code(code), made.page
    if as_json:
        told = _document(design, layout, planned, result, found.observed, found.invalid)
        emit({**told, **study_document(view), **({"report": str(page)} if page else {})})
        return code
    console = stdout()
    if found.counted:
        print_answer(console, view.answer)
    print_warnings(console, found.counted)
    print_matrix(console, view)
    _print_comparisons(console, conclusions(found.observed.pivots, found.counted))
    print_differing(console, found.counted)
    for record in found.invalid:
        print_line(console, f"invalid, excluded from the tables: run {record.info.id}: {record.info.invalid}")
    for line in _closing(planned, result, len(found.counted)):
        print_line(console, line)
    if page:
        console.print(f"report: {page}", markup=False, soft_wrap=True)
    return code


def _print_comparisons(console: Console, lines: list[str]) -> None:
    """The first of them; a report has all."""
    for line in lines[:COMPARISONS_SHOWN]:
        print_line(console, line)
    if len(lines) > COMPARISONS_SHOWN:
        more = len(lines) - COMPARISONS_SHOWN
        noun = "comparison is" if more == 1 else "comparisons are"
        print_line(console, f"{more} more {noun} in --json and in the report (-o FOLDER)", "dim")
    if lines:
        console.print()


def print_differing(console: Console, records: list[Record]) -> None:
    """What was not alike between the runs, although no level says so."""
    for item in differing_in_study(records):
        print_line(console, f"differed between the runs: {item.line}")


def print_matrix(console: Console, view: StudyView) -> None:
    observed = view.observed
    for made in view_tables(view):
        print_table(console, made)
        console.print()
    for line in (*footnotes(observed.pivots), *observed.troubles):
        print_line(console, line, "dim")


def _closing(planned: list[Step], result: MatrixResult, counted: int) -> list[str]:
    lines = [f"{counted} of {len(planned)} runs are in the tables"]
    if result.study is not None:
        lines[0] += f"; study s{result.study}"
    if result.outcome != "done":
        head = f"{result.outcome}: {result.message}" if result.message else result.outcome
        lines.append(f"{head}; the same command continues it")
    return lines


def _document(
    design: Design,
    layout: Layout,
    planned: list[Step],
    result: MatrixResult,
    observed: Observed,
    invalid: list[Record],
) -> Document:
    from brickyard.report.matrix_documents import pivot_document

    return {
        "study": design.name,
        "title": design.title,
        "id": result.study,
        "outcome": result.outcome,
        "message": result.message,
        "notes": [*layout.notes, *result.notes],
        "planned": len(planned),
        "made": result.made,
        "reused": result.reused,
        "excluded": layout.excluded,
        "invalid": [{"run": r.info.id, "reason": r.info.invalid, **r.info.labels} for r in invalid],
        "tables": [pivot_document(pivot) for pivot in observed.pivots],
        "troubles": observed.troubles,
    }


def _dry_run(
    design: Design, layout: Layout, planned: list[Step], place: Path | None, *, manage: bool, as_json: bool
) -> int:
    from brickyard.study.designs.planning import plan_of, refusals

    check_place(place)
    plan = plan_of(design, planned, place)
    refused = refusals(plan, manage=manage)
    code = BAD_INPUT if plan.missing_targets or refused else DONE
    if as_json:
        about = {"study": design.name, "title": design.title, "excluded": layout.excluded, "refused": refused}
        emit({**about, **plan.document()})
        return code
    console = stdout()
    columns = [("#", "right"), *((factor.title, "left") for factor in design.factors), ("repetition", "right")]
    columns += [("target", "left"), ("profile", "left"), ("condition", "left"), ("lasts", "right"), ("", "left")]
    console.print(table(design.title, columns, [line.words(design) for line in plan.lines]))
    left = f", {combinations_words(layout.excluded)} excluded" if layout.excluded else ""
    print_line(console, f"{len(planned)} runs, {plan.done} of them in the store{left}")
    for note in layout.notes:
        print_line(console, note)
    if plan.done < len(planned):
        print_line(console, f"duration of the missing runs: {plan.duration_words()}")
    for target in plan.missing_targets:
        remedy = "check the path" if target.startswith("/dev/") else "check the path, or make it with --size"
        print_line(console, f"{target}: does not exist, so its runs would be refused; {remedy}")
    for line in refused:
        print_line(console, f"would be refused: {line}")
    console.print("nothing was touched (--dry-run)")
    return code


@study_app.command(name="show")
def show_study(name: str, /, *, json: options.Json = False) -> int:
    """Show the text of a study.

    Parameters
    ----------
    name
        A study that ships with Brickyard, or the path of a TOML file.
    """
    text = read(name, (REFERENCE,))
    design = read_design(text)
    if json:
        emit({"study": text.name, "title": design.title, "text": text.text})
    else:
        print_text(text.text)
    return 0


def list_studies(*, json: bool) -> int:
    designs = [read_design(read(name)) for name in names()]
    if json:
        documents: list[Json] = [
            {
                "name": d.name,
                "title": d.title,
                "source": d.source,
                "factors": {f.name: len(f.levels) for f in d.factors},
            }
            for d in designs
        ]
        documents.append({"name": REFERENCE, "title": REFERENCE_TITLE})
        emit({"studies": documents})
        return 0
    rows = [[d.name, " × ".join(f"{len(f.levels)} {f.title}" for f in d.factors), d.title] for d in designs]
    rows.append([REFERENCE, "", REFERENCE_TITLE])
    stdout().print(table("", [(name, "left") for name in ("study", "levels", "title")], rows))
    return 0


REFERENCE_TITLE = "Every published block-level table on modelled bricks: published, simulated, error"


@study_app.command(name=REFERENCE)
def reference(
    *,
    output: options.Pictures = None,
    truth: Annotated[Path | None, Parameter(validator=options.FILE)] = None,
    hosts: ComputedOn = None,
    errors: Annotated[Path | None, Parameter(validator=options.FILE)] = None,
    json: options.Json = False,
) -> int:
    """Repeat every published block-level table on modelled bricks: published, simulated and error side by side.

    Parameters
    ----------
    truth
        Write the page of errors, with tables fitted and with tables left out, to this Markdown file.
    errors
        Write the left-out figures, from which `advise` computes its intervals, to this CSV file.
    """
    from brickyard.outputs import write_whole
    from brickyard.study.shipped.reference import (
        ERRORS_MARK,
        TRUTH_MARK,
        left_out_rows,
        rankings,
        run_reference,
        tables,
    )
    from brickyard.study.shipped.reference import truth as truth_page

    console = stderr()
    with Working("published tables on modelled bricks", console) as working, sweeping(hosts) as sweep:
        outcomes = run_reference(
            lambda done, total: working.says(f"{done} of {total} published figures"),
            figure=sweep.reference if sweep else None,
            cores=sweep.cores if sweep else None,
        )
    ranked = rankings(outcomes)
    page = None
    if output is not None:
        from brickyard.report.reference import write_reference

        console.print("drawing", markup=False)
        page = write_reference(tables(outcomes), ranked, output)
    for place, text, mark in ((truth, truth_page, TRUTH_MARK), (errors, left_out_rows, ERRORS_MARK)):
        if place is None:
            continue
        try:
            write_whole(place, text(outcomes), mark)
        except OSError as error:
            raise BadInputError(f"{place}: cannot be written: {one_line(error.strerror)}") from error
    if json:
        disagreements = [{"higher": high.name, "lower": low.name} for high, low in ranked.disagreements]
        emit(
            {
                "tables": [item.document() for item in tables(outcomes)],
                "rankings": {"pairs": ranked.pairs, "disagreements": disagreements},
                "report": str(page) if page else None,
            }
        )
        return 0
    columns = [(name, "right") for name in ("published", "simulated", "of seeds", "error", "left out")]
    out = stdout()
    for item in tables(outcomes):
        # What all labels end with stands in the heading.
        ends = {o.label.rpartition(", ")[2] for o in item.outcomes}
        unit = f" ({ends.pop()})" if len(ends) == 1 else ""
        labels = [o.label.rpartition(", ")[0] if unit else o.label for o in item.outcomes]
        rows = [
            [
                label,
                f"{o.published:g}",
                f"{o.simulated:.1f}",
                f"{min(o.figures):.1f} to {max(o.figures):.1f}",
                f"{o.error:+.1%}",
                f"{o.left_out_error:+.1%}",
            ]
            for label, o in zip(labels, item.outcomes, strict=True)
        ]
        fitted = "fitted" if item.fitted else "nothing fitted"
        heading = (
            f"{item.name}{unit}: {fitted}, median error {item.median_error:.1%}, largest {item.largest_error:.1%}; "
            f"left out {item.left_out_median:.1%} and {item.left_out_largest:.1%}"
        )
        out.print(table(heading, [("", "left"), *columns], rows))
        out.print()
    agreed = ranked.pairs - len(ranked.disagreements)
    print_line(
        out,
        f"rankings: {agreed} of {ranked.pairs} pairs whose published figures differ by more than 10 % have the "
        f"published order",
    )
    if page:
        out.print(f"report: {page}", markup=False, soft_wrap=True)
    return 0
