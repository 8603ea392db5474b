"""Duty: `brickyard compare` and `brickyard baseline`. Refusal: no figures are computed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from brickyard import outputs
from brickyard.analysis.figures.difference_words import difference_text
from brickyard.analysis.figures.named import COMPARABLE
from brickyard.analysis.figures.samples import checked_confidence
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging.comparison import Comparison, Shift
from brickyard.analysis.judging.differing import Differing, asked_hash, differing_between, load_words
from brickyard.analysis.judging.gate import Compared, Gate, compared
from brickyard.analysis.judging.groups import NAMED_MOST, side_names
from brickyard.analysis.judging.pairing import Sides, left_out_words, length_lines, valid_sides
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.cli.parts.selection import kept_baseline, open_store, select
from brickyard.errors import BAD_INPUT, DONE, FAILED, BadInputError, Edit, Remedy, nearest
from brickyard.percentiles import TO_P99_9
from brickyard.report.comparison_words import (
    assumptions,
    comparison_document,
    errors_unknown_lines,
    gate_lines,
    lack_lines,
    lack_words,
    mark_words,
    noise_words,
    repeat_lines,
    unlike_words,
    unrecorded_lines,
    verdict_lines,
)
from brickyard.report.picture import Picture
from brickyard.store import Record, Store
from brickyard.store.record import OF_CLAT
from brickyard.units import format_name, format_ns, format_percent, format_runs


def compare(
    *runs: str,
    baseline: Annotated[str | None, Parameter(help="Compare the runs with this baseline.")] = None,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Exit code 1 if a figure got worse by more than the tolerance beyond noise, with all figures judged "
            "as one family; 2 if no figure was measured more than once on both sides, so that nothing can be judged. "
            "An inconclusive figure does not fail; --json has the verdict of each.",
        ),
    ] = False,
    across_loads: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="With --check: judge the two sides even if their workloads differ."
        ),
    ] = False,
    tolerance: Annotated[str, Parameter(help="How much worse a figure may be without failing, such as 5%.")] = "5%",
    confidence: Annotated[str, Parameter(help="Confidence of the intervals and tests, from 50%.")] = "95%",
    figure: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Figure to compare, such as iops, mib_per_s or response_p99. May be repeated.",
        ),
    ] = (),
    circumstances: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Show every circumstance that differed, not only those that can matter to the figures.",
        ),
    ] = False,
    output: options.Pictures = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Compare runs, like with like: what differed, then each figure with its interval, then whole distributions.

    Parameters
    ----------
    runs
        BEFORE and AFTER, each a run (12), several (3-7,9), a study (s2, NAME or NAME@LABEL) or latest; with --baseline
        only AFTER, without which it is the newest study or run.
    """
    _refuse_unknown(figure)
    allowed, sure = parse_share("--tolerance", tolerance), parse_confidence(confidence)
    with open_store(store) as kept:
        sides = _sides(kept, runs, baseline)
    outcome = compared(sides, allowed, sure, figure)
    before, after = outcome.sides.before, outcome.sides.after
    found, judged, loads = outcome.comparison, outcome.judged, outcome.loads_differ
    if not found.changes and figure and compared(sides, allowed, sure, ()).comparison.changes:
        none = " and ".join(figure)
        of_clat = any(warning.id in OF_CLAT for record in (*before, *after) for warning in record.info.warnings)
        needs = "a percentile needs ten samples beyond it" + (", and fio's clat compares with clat only" * of_clat)
        raise BadInputError(
            f"nothing can be compared: the sides do not both have {none}; {needs}. "
            "Leave --figure out to compare what both have"
        )
    _refuse_nothing(outcome)
    differing = differing_between(before, after)
    bad = verdict_lines(found, judged, allowed)
    if check and loads and not across_loads:
        raise BadInputError(
            f"--check: {_loads_words(loads)}; compare equal workloads, or judge these anyway with --across-loads"
        )
    open_words = _unjudged_words(found, judged) if check and not bad else ""
    notes = [
        *left_out_words(sides),
        *unlike_words(found),
        *length_lines([*before, *after]),
        *errors_unknown_lines(found),
        *assumptions(judged, before if baseline else []),
    ]
    note = "; ".join(_workload_lines(before, after))
    pictures = _draw(found, output, note, side_names(before, after)) if output else []
    code = FAILED if check and bad else BAD_INPUT if open_words else DONE
    if json:
        about = {"loads_differ": loads, "left_out": sides.left_out, "notes": notes, "not_judged": open_words or None}
        emit(comparison_document(found, judged, before, after, differing, bad, pictures) | about)
        return code
    console = stdout()
    print_line(console, f"before: {_runs(before)}; after: {_runs(after)}")
    for line in (
        *_workload_lines(before, after),
        *_differing_lines(differing, [*before, *after], everything=circumstances),
        *(f"the load differs: {words}" for words in loads),
        *([judged.barred] if judged.barred else []),
    ):
        print_line(console, line)
    for line in repeat_lines(found):
        print_line(console, line)
    console.print()
    _print(console, found)
    of_loads = [OF_LOADS] if loads else []
    for line in (
        *of_loads,
        *bad,
        *gate_lines(judged, allowed),
        *lack_lines(found),
        *(f"note: {words}" for words in notes),
    ):
        print_line(console, line)
    for path in pictures:
        console.print(f"picture: {path}", markup=False, soft_wrap=True)
    if open_words:
        print_line(stderr(), open_words)
    return code


OF_LOADS = "The loads differ, so what follows compares loads and not the storage:"


def _refuse_unknown(figures: tuple[str, ...]) -> None:
    for name in figures:
        if name not in COMPARABLE:
            raise BadInputError(f"--figure {name}: cannot be compared", nearest(name, COMPARABLE))


def _refuse_nothing(outcome: Compared) -> None:
    found, loads = outcome.comparison, outcome.loads_differ
    if found.changes:
        return
    sides = outcome.sides.before, outcome.sides.after
    if not loads and all(len(set(map(asked_hash, side))) == 1 for side in sides):
        differing = load_words(sides[0][0], sides[1][0], names=False)
        loads = [f"their plans differ in {differing}"] if differing else []
    none = "; ".join(["no workload was measured on both sides", *_only_words(found), *loads])
    none += "; compare runs of one profile, also with other --set"
    why = "; ".join(map(lack_words, found.lacking)) or none
    raise BadInputError(f"nothing can be compared: {why}")


def _only_words(found: Comparison) -> list[str]:
    """What each side has that the other has not, such as the steps of ramps of different rates."""
    said = []
    for side, names in (("before", found.only_before), ("after", found.only_after)):
        more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
        said += [f"only {side}: {' / '.join(format_name(name) for name in names[:NAMED_MOST])}{more}"] if names else []
    return said


def _unjudged_words(found: Comparison, judged: Gate) -> str:
    """Why no figure can be judged: of a side that was measured once, nobody knows the noise between runs."""
    if judged.is_decided:
        return ""
    if judged.barred:
        return f"--check: inconclusive: {judged.barred}; write what is read, and measure again"
    if partial := [lack for lack in found.lacking if lack.is_partial]:
        return (
            f"--check: inconclusive: no figure can be judged; {'; '.join(map(lack_words, partial))}; make longer runs, "
            "which have more requests"
        )
    sides = {item.change.before.n > 1 for item in judged.judged}, {item.change.after.n > 1 for item in judged.judged}
    once = [name for name, several in zip(("before", "after"), sides, strict=True) if several == {False}]
    where = "on both sides" if len(once) == 2 else once[0] if once else "on one of its sides"
    return (
        f"--check: inconclusive: every figure was measured only once {where}, so the noise between runs is unknown "
        "there and nothing can be judged; repeat the run, for example with --repeat 3, or judge it by your own limits "
        "with"
        " `run --ruler NAME --check`"
    )


def _sides(store: Store, words: tuple[str, ...], baseline: str | None) -> Sides:
    if baseline is None:
        if len(words) != 2:
            is_before = len(words) == 1 and words[0] != "latest"
            remedy = Remedy("", Edit((), ("latest",)) if is_before else None)
            raise BadInputError("name BEFORE and AFTER, or AFTER with --baseline NAME", remedy)
        before, after = (select(store, (word,)).records for word in words)
    else:
        before = [store.record(run) for run in kept_baseline(store, baseline, "--baseline ").runs]
        after = select(store, words).records
    return valid_sides(before, after)


def parse_share(option: str, text: str) -> float:
    value = _share_of(option, text)
    if not 0 <= value < 1:
        is_bare = not text.strip().endswith("%")
        percent = f"; write {value:g}% for {value:g} %" if is_bare and 1 <= value < 100 else ""
        raise BadInputError(f"{option} {text}: from 0 to below 100 %{percent}")
    return value


def parse_confidence(text: str) -> float:
    option = "--confidence"
    return checked_confidence(_share_of(option, text), f"{option} {text}")


def _share_of(option: str, text: str) -> float:
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError as error:
        raise BadInputError(f"{option} {text}: write a share such as 5% or 0.05") from error


def _loads_words(loads: list[str]) -> str:
    return "the load differs: " + "; ".join(loads)


def _runs(records: list[Record]) -> str:
    return format_runs([record.info.id for record in records])


def _workload_lines(before: list[Record], after: list[Record]) -> list[str]:
    """What the figures depend on."""
    one, other = workload_words(before), workload_words(after)
    if one == other:
        return [f"workload: {one}"] if one else []
    return [f"workload before: {one or 'unknown'}", f"workload after: {other or 'unknown'}"]


def _differing_lines(found: list[Differing], records: list[Record], *, everything: bool) -> list[str]:
    """What can matter to the figures, with the reason; what a tool does not record in one line; the rest as a count. Or
    all of it in full."""
    if not found:
        return ["circumstances: nothing differed"]
    told = [item for item in found if everything or not item.unrecorded]
    lines = [f"differed: {item.line} ({item.matters})" for item in told if item.matters]
    rest = [item for item in told if not item.matters]
    if everything:
        return [*lines, *(f"differed: {item.line}" for item in rest)]
    lines += [f"{of}: {what}" for of, what in unrecorded_lines(found, records)]
    if rest:
        labels = ", ".join(f"{n} × {name}" if n > 1 else name for name, n in Counter(i.label for i in rest).items())
        lines.append(f"differed, with no known effect on figures: {labels}; --circumstances lists them")
    return lines


def _print(console: Console, found: Comparison) -> None:
    rows = [
        [
            format_name(change.name),
            change.figure.heading,
            change.figure.text(change.before.centre),
            change.figure.text(change.after.centre),
            difference_text(change.difference),
            noise_words(change),
        ]
        for change in found.changes
    ]
    columns = [("load", "left"), ("figure", "left"), ("before", "right"), ("after", "right"), ("difference", "right")]
    console.print(table("", [*columns, ("noise", "left")], rows))
    for note in mark_words([row[4] for row in rows]):
        print_line(console, note, "dim")
    console.print()
    for words in dict.fromkeys(shift.words for shift in found.shifts):
        _print_shifts(console, words, [shift for shift in found.shifts if shift.words == words])
    for name in found.only_after:
        print_line(console, f"only after: {format_name(name)}")


def _print_shifts(console: Console, heading: str, shifts: list[Shift]) -> None:
    rows = [
        [
            format_name(shift.name),
            *(
                f"{format_ns(shift.before.percentiles.get(n))} → {format_ns(shift.after.percentiles.get(n))}"
                for n in TO_P99_9
            ),
            f"{format_percent(shift.distance)} of the requests at {format_ns(shift.at_ns)}"
            if shift.distance
            else "equal",
        ]
        for shift in shifts
    ]
    heads = [(heading, "left"), *((name, "right") for name in TO_P99_9), ("farthest apart", "left")]
    console.print(table("", heads, rows))
    said = "farthest apart: the time at which the shares of requests that had ended differ most, and by how much"
    if any(shift.distance for shift in shifts):
        print_line(console, said, "dim")
    console.print()


def _draw(found: Comparison, folder: Path, note: str, sides: tuple[str, str]) -> list[str]:
    from brickyard.report.compare_charts import changes_picture, shifts_picture

    return write_pictures([changes_picture(found, note, sides), shifts_picture(found, note, sides)], folder)


def write_pictures(pictures: Sequence[Picture | None], folder: Path) -> list[str]:
    try:
        outputs.folder(folder)
        for picture in pictures:
            if picture is not None:
                picture.write(folder)
    except OSError as error:
        raise BadInputError(f"{folder}: the pictures cannot be written: {error.strerror}; see --output") from error
    return [str((folder / f"{picture.name}.png").absolute()) for picture in pictures if picture is not None]
