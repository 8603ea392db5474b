"""Duty: `brickyard import`: loads of other tools become profiles, their results become records.

Refusal: what the formats mean is known in `brickyard.formats` alone.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from brickyard import _core
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, print_text, stderr
from brickyard.errors import BadInputError, one_line
from brickyard.formats.fio_job import named_targets
from brickyard.formats.recognize import (
    FORMATS,
    RESULT_FORMATS,
    import_profile,
    read_tool_result,
    recognize,
    refuse_results,
)
from brickyard.outputs import write_whole
from brickyard.schema import read_plan, target_count, writes_data
from brickyard.store import Store

Format = Literal[
    "fio",
    "fio-command",
    "icf",
    "sqlio",
    "sqlio-param",
    "sqliosim",
    "diskspd",
    "vscsistats",
    "fio-json",
    "diskspd-result",
    "iometer-result",
    "elbencho-result",
]

PROFILE = re.compile(r"(?m)^\s*\[\[\s*phase\s*\]\]")


def import_(
    file: str,
    /,
    *,
    format: Annotated[  # noqa: A002
        Format | None, Parameter(name=["--format", "-f"], help="Format; by default recognized by its content.")
    ] = None,
    command: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="FILE is itself a command line of fio, SQLIO or diskspd, in quotes."
        ),
    ] = False,
    output: options.Output = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Print another tool's workload as a profile, or store its results as a run.

    Parameters
    ----------
    file
        A fio job file or command line, an Iometer .icf, a batch file or command lines of SQLIO or diskspd, param.txt,
        SQLIOSim's .cfg.ini, histograms of vscsiStats (-p all -c); results: fio's JSON or JSON+, diskspd's XML or text,
        Iometer's CSV, elbencho's --csvfile or --jsonfile.
    """
    place = Path("." if command else file)
    text = file if command else _read(place)
    name = "command" if command else place.stem
    found = _format(file, text, format)
    if found == "fio-json":
        if output is not None:
            raise BadInputError(
                "a result of fio becomes a run in the store; for a profile with -o, import its job file"
            )
        with _of_file(place):
            return _import_result(name, text, store, as_json=json)
    if found in RESULT_FORMATS:
        return _import_tool_result(found, place, text, store, output, as_json=json)
    with _of_file(Path("command") if command else place):
        imported = import_profile(found, name, text, place.parent)
    if output is not None:
        _write(output, imported.text)
    notes = [*imported.notes, *_of_targets(imported.targets if imported.are_named else [], imported.text, output)]
    if json:
        emit(
            {
                "format": found,
                "output": str(output) if output else None,
                "text": imported.text,
                "targets": imported.targets,
                "notes": notes,
            }
        )
    elif output is None:
        print_text(imported.text)
    for note in notes:
        print_line(stderr(), f"note: {note}")
    if len(imported.targets) > 1 and not imported.are_named:
        print_line(stderr(), f"note: targets in this order: {', '.join(imported.targets)}")
    return 0


def _of_targets(targets: list[str], text: str, output: Path | None) -> list[str]:
    """The note on targets, with the profile that was written."""
    if not targets:
        return []
    plan = read_plan(_core.validate(text, []))
    told = named_targets(targets, shlex.quote(str(output)) if output else "PROFILE", target_count(plan))
    is_writing = any(writes_data(stream) for phase in plan.phase for stream in phase.stream)
    new = (
        " The profile writes, and no run writes into a file that another program made: name a new one."
        if is_writing
        else ""
    )
    return [f"{told}{new}"]


@contextmanager
def _of_file(place: Path) -> Iterator[None]:
    """What is wrong with a file begins with its name."""
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{place.name}: {one_line(error)}") from error


def _format(file: str, text: str, asked: str | None) -> str:
    """Raises BadInputError where a text is no load, or nothing tells whose it is."""
    with _of_file(Path(file)):
        refuse_results(text)
    if asked is None and PROFILE.search(text):
        raise BadInputError(f"{file}: is a profile of Brickyard already; run it: `brickyard run {shlex.quote(file)}`")
    known_as = recognize(text)
    if asked and known_as in RESULT_FORMATS and asked != known_as:
        raise BadInputError(f"{Path(file).name}: these are results, of the format {known_as}; leave --format out")
    found = asked or known_as
    known = (*FORMATS, *RESULT_FORMATS)
    if found not in known:
        if re.match(r"\s*(sudo\s+)?dd\s", text):
            raise BadInputError("dd is not read: write brickyard run --rw write --bs 1M --size 1GiB FILE")
        if re.match(r"\s*(sudo\s+)?(\S*/)?elbencho\s", text):
            raise BadInputError(
                "command lines of elbencho are not read, only its results: import the file of --csvfile or --jsonfile"
            )
        raise BadInputError(f"{file}: the format is not recognized; name it with --format: {', '.join(known)}")
    return found


def _write(output: Path, profile: str) -> None:
    try:
        write_whole(output, profile, stream=True)
    except OSError as error:
        raise BadInputError(f"{output}: cannot be written: {one_line(error.strerror)}") from error


def _read(place: Path) -> str:
    try:
        found = place.read_bytes()
    except OSError as error:
        raise BadInputError(f"{place}: cannot be read: {one_line(error.strerror)}") from error
    # Notepad begins with a byte order mark. Without one Windows tools write the code page of their time; names in it
    # are all that could suffer.
    is_utf16 = found.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = found.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")
    if "\0" in text:
        raise BadInputError(f"{place}: is not text; name a job file, a command line or a result of another tool")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _import_result(name: str, text: str, store: Path | None, *, as_json: bool) -> int:
    from brickyard.formats.fio_json import read_result
    from brickyard.formats.fio_result import store_result, stored_result

    printed = read_result(text)
    with Store(store) as kept:
        known = stored_result(kept, printed)
        run = known or store_result(kept, printed, profile=f"fio-{name}", warnings=printed.warnings)
        return _show(kept, run, is_known=known is not None, as_json=as_json)


def _import_tool_result(
    found: str, place: Path, text: str, store: Path | None, output: Path | None, *, as_json: bool
) -> int:
    from brickyard.formats.tool_result import store_result

    with _of_file(place):
        result = read_tool_result(found, place.stem, text)
    if output is not None:
        if not result.profile:
            why = f" ({result.unclear})" if result.unclear else ""
            raise BadInputError(
                f"{place.name}: does not describe its workload well enough for a profile{why}; leave --output out"
            )
        _write(output, result.profile)
        for note in _of_targets(result.targets, result.profile, output):
            print_line(stderr(), f"note: {note}")
    with Store(store) as kept:
        name = place.stem if place.stem.startswith(result.tool) else f"{result.tool}-{place.stem}"
        with _of_file(place):
            run, is_known = store_result(kept, result, text, profile=name)
        return _show(kept, run, is_known=is_known, as_json=as_json)


def _show(kept: Store, run: int, *, is_known: bool, as_json: bool) -> int:
    from brickyard.analysis.judging.summary import run_document
    from brickyard.cli.parts.output import stdout
    from brickyard.cli.parts.tables import print_run
    from brickyard.study.running.summaries import keep

    if is_known:
        print_line(stderr(), f"note: this result is already run {run}; nothing was stored")
    record = kept.record(run)
    keep(kept, record)  # for the table of runs
    if as_json:
        emit(run_document(record))
    else:
        print_run(stdout(), record)
    return 0
