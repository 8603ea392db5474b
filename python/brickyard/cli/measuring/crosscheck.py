"""Duty: `brickyard crosscheck`: the same load by our engine and by fio. Refusal: no word on which of them is right."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from brickyard import bricks, profiles
from brickyard.analysis.judging.crosscheck import comparison_document, crosscheck_answer, crosschecked
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_table
from brickyard.cli.parts.target import aim_at
from brickyard.errors import BAD_INPUT, BadInputError
from brickyard.report.study_tables import crosscheck_tables
from brickyard.schema import plan_document
from brickyard.store import Store
from brickyard.study.running.by_fio import refuse_by_fio
from brickyard.study.running.fit import refuse_programs
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import RunSpec
from brickyard.study.shipped.crosscheck import crosscheck as run_crosscheck


def crosscheck(
    profile: str,
    /,
    *targets: str,
    overrides: options.Overrides = (),
    repeat: Annotated[int, Parameter(help="Number of runs with each engine; the two alternate.")] = 5,
    placing: options.Placing = options.AS_IT_IS,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Run a profile with Brickyard's engine and with an installed fio in turn, and report the difference.

    Parameters
    ----------
    profile
        The name of a profile that ships with Brickyard, or the path of a TOML file.
    targets
        Files or block devices; without one, a scratch file is made, filled, and removed at the end.
    """
    if repeat < 1:
        raise BadInputError(f"--repeat {repeat}: at least 1")
    if any(bricks.is_modelled(target) for target in targets):
        raise BadInputError("fio cannot run on a modelled brick; name a file or a device")
    text = profiles.read(profile)
    plan = profiles.changed(text, overrides)
    refuse_programs(text.name, plan, "crosscheck")
    refuse_by_fio(plan)
    with (
        Store(store) as kept,
        aim_at(targets, placing) as aimed,
    ):
        spec = RunSpec(profile=text.name, plan=plan, targets=aimed.targets, options=aimed.options)
        with Interrupt() as interrupt, Terminal() as terminal:
            for note in aimed.notes:
                terminal.note(note)
            done = run_crosscheck(kept, terminal, interrupt, spec, repeat)
            if done.outcome != "done":
                terminal.note(
                    f"{done.outcome}{': ' + done.message if done.message else ''}; its figures cannot be compared"
                )
        records = [kept.record(run) for run in sorted((*done.ours, *done.theirs))]
    found = crosschecked(records)
    said = crosscheck_answer(found, records)
    if json:
        emit(
            {
                **said.document(),
                "study": done.study,
                "outcome": done.outcome,
                "message": done.message,
                "profile": text.name,
                "plan": plan_document(plan),
                "runs": {"brickyard": done.ours, "fio": done.theirs},
                "fio_version": found.version if found.theirs else None,
                "comparisons": [comparison_document(item) for item in found.found],
            }
        )
    else:
        print_answer(stdout(), said)
        for made in crosscheck_tables(found, records):
            print_table(stdout(), made)
    return EXIT_CODES.get(done.outcome, BAD_INPUT)
