"""Duty: `brickyard honesty write` and `honesty verify`. Refusal: both are done in `brickyard.honesty`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import _core
from brickyard.cli.parts import options
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stderr, stdout
from brickyard.errors import BAD_INPUT, DONE, FAILED, BadInputError, one_line
from brickyard.honesty.proof import NOT_STARTED, has_started_since
from brickyard.honesty.recorder import parse_address
from brickyard.honesty.verify import Verified
from brickyard.honesty.verify import verify as verify_target
from brickyard.honesty.writers import Writers, new_layout
from brickyard.reading import parsed_bytes
from brickyard.study.running.aim import aim
from brickyard.study.running.interrupt import Interrupt


def write(
    target: str,
    /,
    *,
    recorder: Annotated[str, Parameter(help="Where `brickyard recorder` listens, on another host: HOST:PORT.")],
    writers: Annotated[int, Parameter(help="Number of writers that write at the same time.")] = 4,
    slots: Annotated[int, Parameter(help="Number of blocks that each writer overwrites in turn.")] = 64,
    block: Annotated[str, Parameter(help="Size of a block.")] = "4KiB",
    sync: Annotated[str, Parameter(help="How a write is made durable: dsync, fdatasync, fsync.")] = "dsync",
    duration: Annotated[
        str | None, Parameter(help="End after this time; by default at the power cut or Ctrl-C.")
    ] = None,
    writes: Annotated[int | None, Parameter(help="End after N writes of each writer.")] = None,
    size: options.Size = None,
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    json: options.Json = False,
) -> int:
    """Make durable writes until the power is cut, and report to a recorder each write that the storage acknowledged.

    Parameters
    ----------
    target
        A file made by Brickyard, or a block device.
    """
    address = parse_address(recorder)
    layout = new_layout(writers, slots, block_bytes := parsed_bytes(block, "--block"))
    Writers(target, address, layout, sync)  # refuses what cannot be, before the target is looked at
    duration_s = _seconds(duration)
    with aim(
        (target,),
        size=size,
        scratch=None,
        keep=False,
        overwrite=overwrite,
        destroys_data=i_know_this_destroys_data,
    ) as aimed:
        group = Writers(target, address, layout, sync, aimed.options)
    with Interrupt() as interrupt:
        interrupt.attach(group)
        print_line(
            stderr(),
            f"run {layout.run}: {writers} writers; cut the power, then run `brickyard honesty verify` with the"
            " recorder's file",
        )
        done = group.run(writes=writes, duration_s=duration_s)
    total = sum(done.acknowledged)
    if json:
        emit(
            {
                "run": layout.run,
                "outcome": done.outcome,
                "message": done.message,
                "acknowledged": done.acknowledged,
                "elapsed_s": done.elapsed_s,
                "direct": done.direct,
                "sync": sync,
                "block_bytes": block_bytes,
                "slots": slots,
            }
        )
    else:
        said = f": {done.message}" if done.message else ""
        print_line(
            stdout(),
            f"{done.outcome}{said}; {total:,} writes were acknowledged and recorded (the rate is not a benchmark "
            "figure)",
        )
    return EXIT_CODES.get(done.outcome, BAD_INPUT)


def verify(
    target: str,
    /,
    *,
    recorder_file: Annotated[Path, Parameter(validator=options.READ, help="The recorder's file.")],
    json: options.Json = False,
) -> int:
    """After a power cut, check that every acknowledged write is there. Exit code 1 if one is missing.

    Parameters
    ----------
    target
        What `honesty write` wrote to.
    """
    found = verify_target(target, recorder_file)
    if json:
        emit(
            {
                "run": found.run,
                "acknowledged": found.acknowledged,
                "missing_count": found.missing_count,
                "missing": [{"writer": writer, "sequence": sequence} for writer, sequence in found.missing],
                "foreign_count": found.foreign_count,
                "torn_bytes": found.torn_bytes,
                "gaps": [{"writer": writer, "after": sequence} for writer, sequence in found.gaps],
                "host_started_since": has_started_since(recorder_file),
                "kept": not found.missing_count,
            }
        )
    else:
        for line in [*_lines(found), *_doubts(found, recorder_file)]:
            print_line(stdout(), line)
    return FAILED if found.missing_count else DONE


def _doubts(found: Verified, recorder_file: Path) -> list[str]:
    """What keeps an all-clear from proving anything."""
    lines = []
    if found.gaps:
        writer, after = found.gaps[0]
        lines.append(
            f"the recorder's file has {len(found.gaps):,} holes, the first after writer {writer}'s write {after:,}:"
            " writes recorded there are not checked"
        )
    if not found.missing_count and not has_started_since(recorder_file):
        lines.append(f"but {NOT_STARTED}")
    return lines


def _lines(found: Verified) -> list[str]:
    torn = (
        [
            f"the last {found.torn_bytes:,} bytes of the recorder's file are damaged; writes recorded there are "
            "not checked"
        ]
        if found.torn_bytes
        else []
    )
    if not found.missing_count:
        said = (
            f"run {found.run}: all {found.acknowledged:,} acknowledged writes are there, or later ones in their place"
        )
        return [said, *torn]
    lines = [f"run {found.run}: {found.missing_count:,} of {found.acknowledged:,} acknowledged writes are missing"]
    if found.foreign_count:
        lines.append(
            f"the places of {found.foreign_count:,} of them hold data that no run known to the recorder wrote: if "
            f"another program has written to the target since, such as `brickyard run`, this is no evidence about "
            f"the storage"
        )
    lines += [f"  writer {writer}, sequence {sequence:,}" for writer, sequence in found.missing[:NAMES_SHOWN]]
    more = found.missing_count - len(found.missing[:NAMES_SHOWN])
    return [*lines, *([f"  and {more:,} more; --json names up to a thousand"] if more else []), *torn]


NAMES_SHOWN = 20


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return _core.parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise BadInputError(f"--duration: {one_line(error)}") from error
