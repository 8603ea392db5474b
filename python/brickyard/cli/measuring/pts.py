"""Duty: `brickyard pts`: SNIA's tests of solid state storage, and the standard's own tables.

Refusal: the tests are in `study.snia`, the arithmetic in `analysis.studies.pts`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from brickyard import _core, bricks
from brickyard.analysis.figures.cells import DASH
from brickyard.analysis.studies.pts import Point, recovery
from brickyard.analysis.studies.pts_points import COLUMNS, TITLE, point_rows, troubles
from brickyard.cli.parts import options
from brickyard.cli.parts.drawing import Drawn, drawn, report_command
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table, warning_text
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_circumstances, print_warnings
from brickyard.cli.parts.target import aim_at, split_overrides
from brickyard.errors import DONE, FAILED, BadInputError, BrickyardError, CutShortError, Edit, Remedy, one_line
from brickyard.schema import RunOptions, warned
from brickyard.store import Record, Store, command_on
from brickyard.study.running.aim import Aim, check_unnamed, parse_size
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import RunResult, RunSpec
from brickyard.study.running.sizes import area_of
from brickyard.study.snia import tests
from brickyard.study.snia.loads import Forecast, Setting, extent, forecast
from brickyard.study.snia.stored import pts_answer
from brickyard.study.snia.tables import round_tables, saturation_table, steady_tables, stimuli_table
from brickyard.study.snia.test import Found, Specification, document
from brickyard.study.snia.tests import KINDS, TESTS, TITLES, Kind
from brickyard.units import format_ns, format_seconds


def pts(
    kind: Literal["client", "enterprise"],
    target: str | None = None,
    /,
    *,
    test: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help=f"Test to run: {', '.join(TESTS)}; all by default. May be repeated."
        ),
    ] = (),
    round: Annotated[str, Parameter(help="How long each workload is measured; a minute in PTS.")] = "60s",  # noqa: A002
    rounds: Annotated[
        int, Parameter(help="The most rounds in which the steady state must be reached.")
    ] = tests.ROUNDS_MAX,
    range: Annotated[  # noqa: A002
        str | None, Parameter(help="Part of the target that is used; 75% for clients and 100% for enterprises in PTS.")
    ] = None,
    overrides: options.BrickOverrides = (),
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show what would be done; touch nothing.")
    ] = False,
    placing: options.Placing = options.AS_IT_IS,
    output: options.ReportPlace = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Run SNIA's Performance Test Specification on one target, with the tables that it requires.

    Parameters
    ----------
    kind
        client (PTS-C) or enterprise (PTS-E).
    target
        A file, block device or modelled drive (sim:NAME); without one, a scratch file is made and removed at the end.
    """
    chosen = KINDS[kind]
    setting = Setting(chosen, _percent(range, chosen), _seconds(round), rounds)
    names = _names(test)
    if rounds < tests.WINDOW:
        raise BadInputError(f"--rounds {rounds}: steady state is judged over {tests.WINDOW} rounds")
    targets = () if target is None else (target,)
    modelled = bricks.is_modelled(target or "")
    if overrides and not modelled:
        raise BadInputError("--set changes keys of a modelled drive; the workloads are fixed by the specification")
    if target is not None and not modelled and placing.size is None:
        _refuse_word(target)
    others, changes = split_overrides(targets, list(overrides))
    if others:
        raise BadInputError(
            f"--set {others[0]}: not a key of a brick that --set knows; the workloads are fixed by the specification"
        )
    if dry_run:
        expected = _expected_of(setting, names, targets, placing, changes)
        return _dry_run(setting, names, expected, targets, as_json=json)
    with (
        Store(store) as kept,
        aim_at(targets, placing, brick_changes=changes) as aimed,
    ):
        found = _carry_out(kept, setting, names, aimed)
        records = [kept.record(run) for run in found.runs]
        again = report_command(kept, found.study)
        made = drawn(lambda: _draw(kept, found, records, output), again) if output else Drawn()
    answer = pts_answer(found, records)
    code, page = made.code(FAILED if found.without_result else DONE), made.page
    if json:
        emit(
            {
                **answer.document(),
                "kind": kind,
                "by_the_book": setting.is_by_the_book,
                "source": tests.SOURCE,
                **document(found),
                "report": str(page) if page else None,
            }
        )
        return code
    console = stdout()
    print_answer(console, answer)
    print_warnings(console, records)
    _print(console, setting, found)
    console.print()
    print_circumstances(console, records)
    how = page or f"{command_on(kept.place, f'report s{found.study}')} writes a page with pictures"
    console.print(f"report: {how}", markup=False, soft_wrap=True)
    return code


def _draw(store: Store, found: Found, records: list[Record], output: Path) -> Path:
    """The report of the study, as `brickyard report` writes it."""
    from brickyard.report.page import write_report

    study = store.studies(found.study)[0]
    return write_report(records, study, output)


def _names(asked: tuple[str, ...]) -> list[str]:
    for name in asked:
        if name not in TESTS:
            raise BadInputError(f"--test {name}: there are {', '.join(TESTS)}")
    return [name for name in TESTS if not asked or name in asked]


def _refuse_word(target: str) -> None:
    """A word without a slash that names no file is more likely a test."""
    if "/" in target or os.path.lexists(target):
        return
    if target in TESTS:
        named = Remedy("--test names a test", Edit((target,), ("--test", target)))
    else:
        named = Remedy(f"--test names a test ({', '.join(TESTS)}), and --size makes a file")
    raise BadInputError(f"{target}: no such file or device", named)


def _seconds(text: str) -> float:
    try:
        found = _core.parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise BadInputError(f"--round {text}: {one_line(error)}") from error
    if found < 0.001:
        raise BadInputError(f"--round {text}: at least 1ms")
    return found


def _percent(text: str | None, kind: Kind) -> float:
    if text is None:
        return kind.range_percent
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3})?%?", text) or not 0 < float(text.rstrip("%")) <= 100:
        raise BadInputError(f"--range {text}: a part of the target such as 75%")
    return float(text.rstrip("%"))


class _Rounds(Terminal):
    """A run has hundreds of loads here, whose rates are in the tables."""

    def describe(self, spec: RunSpec) -> str:
        name, marks = TITLES[spec.marks.test], spec.marks
        return f"{name}, {marks.part or f'round {marks.round}'}" if marks.part or marks.round else name

    def run_ended(self, result: RunResult) -> None:
        super().run_ended(replace(result, rates=()))


def _carry_out(store: Store, setting: Setting, names: list[str], aimed: Aim) -> Found:
    for line in _expected(setting, names, aimed).lines(aimed.targets):
        print_line(stderr(), line)
    with Interrupt() as interrupt, _Rounds() as terminal:
        for note in (*aimed.notes, *_notes(setting, modelled=aimed.options.is_modelled)):
            terminal.note(note)
        whole = Specification(store, terminal, interrupt, setting, aimed.targets, aimed.options, aimed.condition)
        outcome = "failed"
        try:
            for name in names:
                whole.carry_out(name)
            outcome = "done"
        except KeyboardInterrupt:
            outcome = "interrupted"
            if not whole.found.runs:
                raise
            report = command_on(store.place, f"report s{whole.found.study}")
            said = f"interrupted; study s{whole.found.study} has what was measured; {report} shows it"
            raise CutShortError(said) from None
        except BrickyardError as error:
            raise BrickyardError(f"{error}; what was measured is kept as study s{whole.found.study}") from error
        finally:
            whole.end(outcome)
    return whole.found


def _expected(setting: Setting, names: list[str], aimed: Aim) -> Forecast:
    size_bytes = aimed.capacity_bytes or area_of(aimed.targets[0]) or aimed.options.size_bytes
    return forecast(setting, names, aimed.targets, aimed.options, size_bytes)


def _expected_of(
    setting: Setting, names: list[str], targets: tuple[str, ...], placing: options.Placing, changes: list[str]
) -> Forecast:
    """What a run would expect; no scratch file is made, and a target that is not there may have no size yet."""
    if any(map(bricks.is_modelled, targets)):
        with aim_at(targets, placing, brick_changes=changes) as aimed:
            return _expected(setting, names, aimed)
    if targets:
        size_bytes = area_of(targets[0]) or parse_size(placing.size)
    else:
        _, size_bytes = check_unnamed(size=placing.size, scratch=placing.scratch, overwrite=placing.overwrite)
    return forecast(setting, names, list(targets), RunOptions(), size_bytes)


def _notes(setting: Setting, *, modelled: bool) -> list[str]:
    said = []
    if not setting.is_by_the_book:
        said.append("shorter rounds, fewer rounds or a different range than PTS requires: not a PTS result")
    if not modelled:
        cache = setting.kind.write_cache
        said.append(f"PTS begins by purging the drive and setting its write cache {cache}; Brickyard does neither")
    return said


def _dry_run(setting: Setting, names: list[str], expected: Forecast, targets: tuple[str, ...], *, as_json: bool) -> int:
    made = {name: extent(setting, name) for name in names}
    notes = _notes(setting, modelled=expected.is_modelled)
    if as_json:
        found = {name: item.document() for name, item in made.items()}
        book = {"by_the_book": setting.is_by_the_book, "notes": notes}
        emit({"kind": setting.kind.name, **book, "tests": found, "forecast": expected.document()})
        return DONE
    rows = []
    for name, item in made.items():
        takes = f"at most {format_seconds(item.seconds)}"
        if item.rounds is not None:
            takes = " to ".join(map(format_seconds, item.in_all_s))
        counted = DASH if item.rounds is None else f"{item.rounds[0]} to {item.rounds[1]}"
        rows.append([TITLES[name], str(item.loads), counted, takes])
    columns = [("test", "left"), ("loads", "right"), ("rounds", "right"), ("takes", "right")]
    console = stdout()
    console.print(table(f"{setting.kind.title}, range {setting.region}", columns, rows))
    said = [*expected.lines(targets), *(f"note: {note}" for note in notes), "nothing was touched (--dry-run)"]
    for line in said:
        print_line(console, line)
    return DONE


def _print(console: Console, setting: Setting, found: Found) -> None:
    console.print()
    print_line(console, _setting_words(setting, has_iops="iops" in found.rounds))
    for name, rounds in found.rounds.items():
        console.print()
        for title, columns, rows, texts in (*round_tables(name, rounds), *steady_tables(name, rounds)):
            heads = [(column, "left" if at < texts else "right") for at, column in enumerate(columns)]
            console.print(table(title, heads, rows, keys=texts))
    if found.operating:
        console.print()
        _print_points(console, found)
    if found.saturation:
        console.print()
        _print_saturation(console, found.saturation)
    if found.stimuli:
        console.print()
        _print_stimuli(console, found)
    print_line(console, f"study s{found.study}, runs {found.runs[0]}-{found.runs[-1]}")


def _setting_words(setting: Setting, *, has_iops: bool) -> str:
    kind = setting.kind
    said = f"{kind.title}, {tests.SOURCE}. Range {setting.region}, {format_ns(setting.round_s * 1e9)} a load"
    with_words = f"{kind.queue.workers} threads × {kind.queue.depth} in flight (PTS leaves both to the tester)"
    return f"{said}; IOPS with {with_words}." if has_iops else f"{said}."


def _print_points(console: Console, found: Found) -> None:
    heads = [(name, "left" if name == "point" else "right") for name in COLUMNS]
    console.print(table(TITLE, heads, point_rows(found.operating)))
    for text in troubles(found.operating, is_steady=found.is_steady):
        print_line(console, warning_text(warned("", "warning", "{said}", said=text)))


def _print_saturation(console: Console, points: list[Point]) -> None:
    title, columns, rows, _ = saturation_table(points)
    console.print(table(title, [(column, "right") for column in columns], rows))
    print_line(console, "all rounds: --json")


def _print_stimuli(console: Console, found: Found) -> None:
    title, columns, rows, texts = stimuli_table(found)
    heads = [(column, "left" if at < texts else "right") for at, column in enumerate(columns)]
    console.print(table(title, heads, rows))
    back = recovery(found.stimuli.get("A", []), found.stimuli.get("C", []), tests.WINDOW)
    said = "never" if back is None else f"in round {back}"
    print_line(console, f"C returns to within 10 % of A's last value: {said}")
