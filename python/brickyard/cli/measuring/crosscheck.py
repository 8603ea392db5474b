"""Duty: `brickyard crosscheck`: the same load by our engine and by fio. Refusal: no word on which of them is right."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from brickyard import bricks, profiles
from brickyard.analysis.judging.crosscheck import TIMES, Comparison, compare, comparison_document, verdict
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.target import aim_at
from brickyard.errors import BAD_INPUT, BadInputError
from brickyard.percentiles import MEDIAN_AND_P99
from brickyard.report.matrix_tables import WITHIN_NOISE, difference_text
from brickyard.schema import plan_document
from brickyard.store import Store
from brickyard.study.running.fit import refuse_programs
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import RunSpec
from brickyard.study.shipped.crosscheck import crosscheck as run_crosscheck
from brickyard.units import format_iops, format_mib_per_s, format_ns


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
        ours, theirs = ([kept.record(run) for run in runs] for runs in (done.ours, done.theirs))
    found = compare(ours, theirs)
    if json:
        emit(
            {
                "study": done.study,
                "outcome": done.outcome,
                "message": done.message,
                "profile": text.name,
                "plan": plan_document(plan),
                "runs": {"brickyard": done.ours, "fio": done.theirs},
                "fio_version": theirs[0].info.software_version if theirs else None,
                "comparisons": [comparison_document(item) for item in found],
            }
        )
    else:
        _print(stdout(), found, theirs[0].info.software_version if theirs else "fio")
    return EXIT_CODES.get(done.outcome, BAD_INPUT)


def _print(console: Console, found: list[Comparison], version: str) -> None:
    rows = []
    for item in found:
        place = (item.phase, item.stream, item.operation)
        for name, side in (("brickyard", item.ours), (version, item.theirs)):
            times = [format_ns(side.time_ns(time)) for time in TIMES]
            rows.append([*place, name, format_iops(side.iops), format_mib_per_s(side.bytes_per_s), *times])
        changes = [_percent(item.time_difference(time)) for time in TIMES]
        share = _percent(item.iops_difference)
        rows.append([*place, "difference", share, share, *changes])
    columns = [(name, "left") for name in ("phase", "stream", "operation", "by")]
    columns += [(name, "right") for name in ("IOPS", "MiB/s", "mean", *MEDIAN_AND_P99)]
    console.print(table("The same workload with both, medians of the runs", columns, rows))
    for item in found:
        words = ", ".join((item.phase, item.stream, item.operation))
        print_line(console, f"{words}: {rates_words(item, version)}: {verdict(item)}")


def rates_words(item: Comparison, version: str) -> str:
    """The difference that the runs are judged by is of their means; the table has that of their medians."""
    if item.rates is None:
        return f"IOPS of {version}"
    means = "" if item.rates.seen is None else ", means of the runs:"
    return f"IOPS of {version}{means} {difference_text(item.rates).removesuffix(f' {WITHIN_NOISE}')}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:+.1f} %"
