"""Duty: `brickyard trace`: traces of other tools become ours, what is in one, how two differ, and the profile of one.

Refusal: nothing is run; `brickyard run FILE.byt` issues a trace again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.again import MARK, comparison_document, distance_lines
from brickyard.cli.parts.output import emit, print_labelled, print_line, print_text, stderr, stdout
from brickyard.errors import DONE, FAILED, BadInputError, one_line
from brickyard.outputs import whole_file, write_whole
from brickyard.units import format_count, format_seconds, plural

app = App(name="trace", help="Traces of requests: import, show, compare, and make profiles of them.")

Device = Annotated[
    int | None, Parameter(name="--trace-device", help="Only the device with this number, counted from 0.")
]
Format = Literal["blktrace", "blkparse", "fio", "msr", "alibaba", "tencent", "systor", "spc", "vscsi"]


@app.command(name="import")
def import_trace(
    *files: Annotated[str, Parameter(help="")],
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], group=options.OUTPUT, validator=options.FILE, help="The trace (.byt).")
    ],
    format: Annotated[  # noqa: A002
        Format | None, Parameter(name=["--format", "-f"], help="Format; by default recognized by its content.")
    ] = None,
    device: Annotated[str | None, Parameter(help="Only the device with this name in the file.")] = None,
    json: options.Json = False,
) -> int:
    """Write another tool's trace in Brickyard's form.

    Parameters
    ----------
    files
        A trace by blktrace (all of its files, one for each CPU), blkparse, fio (write_iolog), or in the form of
        the MSR Cambridge, Alibaba, Tencent, Systor '17, SPC (UMass) or CloudPhysics traces; also compressed by gzip or
        zstd.
    """
    from brickyard import traces

    if not files:
        raise BadInputError("name the file to import")
    with whole_file(output, MARK) as file:
        found = traces.import_trace(
            list(files), f"/proc/self/fd/{file.fileno()}", format, device, f"{Path(files[0]).name}"
        )
    if json:
        emit({"output": str(output), **msgspec.to_builtins(found)})
        return DONE
    summary = found.summary
    lasts = format_seconds(summary.duration_ns / 1e9)
    line = f"{output}: {format_count(summary.requests)} requests in {lasts}, read as {found.format}"
    print_line(stdout(), line)
    if summary.bad:
        print_line(stderr(), f"{format_count(summary.bad)} lines or records could not be read; the first of them:")
        for bad in found.bad:
            print_line(stderr(), f"  {bad.number}: {bad.why}{f': {bad.text}' if bad.text else ''}")
    if found.left_out:
        print_line(stderr(), f"{format_count(found.left_out)} requests of other devices were left out")
    for note in found.notes:
        print_line(stderr(), f"note: {note}")
    return DONE


@app.command
def show(file: str, /, *, trace_device: Device = None, json: options.Json = False) -> int:
    """Sizes, mix, alignment, order, arrivals, depth and locality of a trace.

    Parameters
    ----------
    file
        A trace of Brickyard's (.byt).
    """
    from brickyard import traces

    found = traces.examine(file, trace_device)
    if json:
        emit({"contents": msgspec.to_builtins(found.contents), "figures": msgspec.to_builtins(found.figures)})
    elif not found.contents.summary.requests:
        torn = found.contents.torn
        print_line(stdout(), f"{file}: holds no request{f'; cut off: {torn}' if torn else ''}")
    else:
        print_labelled(stdout(), traces.figure_lines(found))
    return DONE


@app.command
def compare(
    first: str,
    second: str,
    /,
    *,
    tolerance: Annotated[str, Parameter(help="Distance up to which a figure counts as reproduced.")] = "10%",
    trace_device: Device = None,
    json: options.Json = False,
) -> int:
    """Report whether one trace reproduces another, by distances of sizes, order, gaps, depths, reuse and latencies.

    The exit code is 1 if it does not, or if too few values leave no verdict.

    Parameters
    ----------
    first
        The trace that was to be reproduced.
    second
        The trace of the replay, such as one by `brickyard run --save-trace`.
    trace_device
        Only the device with this number, counted from 0, of each trace that has several.
    """
    from brickyard import traces

    theirs = traces.examine(second)
    if trace_device is not None and len(theirs.contents.devices) > 1:
        theirs = traces.examine(second, trace_device)
    found = traces.compare(traces.examine(first, trace_device), theirs, _share(tolerance))
    for name, torn in zip((first, second), found.torn, strict=True):
        if torn:
            print_line(stderr(), f"note: {name}: cut off: {torn}; only the part before that is compared")
    if json:
        emit(comparison_document(found))
    else:
        console = stdout()
        print_line(console, f"{second} against {first}: {found.verdict}")
        for line in distance_lines(found):
            print_line(console, f"  {line}")
        for item in found.counts:
            print_line(
                console, f"  {plural(item.operation)}: {format_count(item.first)} and {format_count(item.second)}"
            )
    return DONE if found.reproduces else FAILED


@app.command
def profile(
    file: str,
    /,
    *,
    output: options.Output = None,
    trace_device: Device = None,
    json: options.Json = False,
) -> int:
    """Make a profile whose workload is similar to that of a trace.

    Parameters
    ----------
    file
        A trace of Brickyard's (.byt).
    """
    from brickyard import traces

    made = traces.make_profile(traces.examine(file, trace_device), Path(file).stem)
    if output is not None:
        try:
            write_whole(output, made.text, stream=True)
        except OSError as error:
            raise BadInputError(f"{output}: cannot be written: {one_line(error.strerror)}") from error
    if json:
        emit({"output": str(output) if output else None, "text": made.text, "notes": made.notes})
    elif output is None:
        print_text(made.text)
    for note in made.notes:
        print_line(stderr(), f"note: {note}")
    return DONE


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise BadInputError(f"--tolerance {text}: a share such as 10% or 0.1")
    return share
