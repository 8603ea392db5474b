"""Duty: `brickyard burn-in`. Refusal: the burning is in `brickyard.study`; nothing is judged here."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import _core, bricks, outputs, profiles
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.errors import BAD_INPUT, FAILED, INTERRUPTED, BadInputError, one_line
from brickyard.schema import RunOptions
from brickyard.store import Store, default_place
from brickyard.study.running.aim import missing_targets, parse_size
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.shipped.burn_in import Account, BurnIn, Burning, Log
from brickyard.units import format_count, format_ns, format_size

WHOLE_SHARE = 0.99
"""Our choice: of random addresses, the last blocks come late."""
HEAD_WORDS = "the first 1 MiB of each target holds Brickyard's mark and is neither written nor checked"
ANEW_WORDS = (
    "its burn-in is over, so a new one begins, which does not check what the earlier one wrote; a longer --duration "
    "continues it"
)
SAY_EVERY_S = 10.0  # as often as an interval of the profile ends
COLUMNS = (
    "device",
    "burned",
    "filled",
    "read",
    "written",
    "checked",
    "damaged reads",
    "errors",
    "hangs",
    "health",
    "verdict",
)
FILLED_WORDS = "filled: written before the burn-in where nothing was written yet; not part of written"


def burn_in(
    *devices: str,
    duration: Annotated[str, Parameter(help="How long each device is burned in, all sessions together.")] = "24h",
    fresh: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Start again instead of continuing an earlier session."),
    ] = False,
    logs: Annotated[
        Path | None,
        Parameter(
            name="--logs",
            validator=options.FOLDER,
            help="Directory for error logs and account files; by default beside the store.",
        ),
    ] = None,
    overrides: options.Overrides = (),
    size: options.Size = None,
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Random 8 KiB reads and writes that are checked when they are read, on many devices at once, for hours to weeks.

    Run the same command again to continue after an interruption, a kill or a reboot; a longer --duration continues
    one that is over. Each read is compared with what was last written there, by any of its sessions. Exit code 1: a
    device failed.

    Parameters
    ----------
    devices
        Block devices or files, each burned in on its own.
    """
    _check(devices, overwrite)
    size_bytes = parse_size(size)
    missing = missing_targets(devices, size_bytes)
    text, planned_ns = profiles.read("burn-in"), _duration(duration)
    profiles.validate(text, list(overrides))
    place = logs or (store or default_place()).parent / "burn-in"
    burning = [_burning(Log(place, device), device, planned_ns, fresh=fresh) for device in devices]
    wishes = RunOptions(
        create_bytes=size_bytes if missing else None,
        overwrite=list(overwrite),
        destroys_data=i_know_this_destroys_data,
    )
    console, spoken = stderr(), dict.fromkeys(devices, 0.0)

    def say(one: Burning) -> None:
        device = one.account.device
        if time.monotonic() - spoken[device] >= SAY_EVERY_S:
            spoken[device] = time.monotonic()
            print_line(console, _progress(one))

    with _folder(place), Store(store) as kept, Interrupt() as interrupt:
        burn = BurnIn(kept, interrupt, say, lambda text: print_line(console, f"note: {text}"))
        ended = burn.run(
            lambda left_ns: profiles.validate(text, [*overrides, f"duration={left_ns}ns"]), burning, wishes
        )
        interrupted = interrupt.requested
    if json:
        emit({"logs": str(place), "devices": [account.document() for account in ended]})
    else:
        _print(ended, place)
    return _exit_code(ended, interrupted=interrupted)


@contextmanager
def _folder(place: Path) -> Iterator[None]:
    """Of what was made for logs and accounts, nothing stays where none was written."""
    made = [folder for folder in (place, *place.parents) if not folder.exists()]
    try:
        outputs.folder(place)
        yield
    finally:
        for folder in made:
            outputs.remove_empty(folder)


def _check(devices: tuple[str, ...], overwrite: tuple[str, ...]) -> None:
    if not devices:
        raise BadInputError("burn-in: name at least one device or file")
    if len(set(devices)) < len(devices):
        raise BadInputError("burn-in: a device is named twice; name each once")
    if any(bricks.is_modelled(device) for device in devices):
        raise BadInputError("burn-in: a modelled brick holds no data to check; name devices or files")
    for path in overwrite:
        if path not in devices:
            raise BadInputError(f"--overwrite {path}: not among the devices; name it as a device as well")


def _print(ended: list[Account], place: Path) -> None:
    """The verdict of each device before its figures; of one device the path stands in that line alone."""
    out, alone = stdout(), len(ended) == 1
    for account in ended:
        print_line(out, _verdict_line(account), "bold")
        for line in [account.refused, *account.changed, _covered(account), _before(account)]:
            if line:
                print_line(out, f"  {line}")
    out.print()
    columns = [(name, "left" if name in ("device", "health", "verdict") else "right") for name in COLUMNS]
    rows = [_row(account) for account in ended]
    if alone:
        columns, rows = columns[1:], [row[1:] for row in rows]
    out.print(table("Burn-in", columns, rows, wrapped=("device",)))
    if any(account.counts.filled_bytes for account in ended):
        print_line(out, FILLED_WORDS, "dim")
    print_line(out, HEAD_WORDS, "dim")
    if place.exists():
        print_line(out, f"error logs and account files: {place}")


def _verdict_line(account: Account) -> str:
    share = "" if account.checked_share is None else f"{_share(account.checked_share)} of its blocks checked, "
    found = f"{format_count(account.counts.checked_blocks)} checks, {_failures(account)}"
    return f"{account.device}: {_verdict(account)} after {format_ns(account.burned_ns)}: {share}{found}"


def _failures(account: Account) -> str:
    counts = account.counts
    reads = "read of a damaged block" if counts.damaged_blocks == 1 else "reads of damaged blocks"
    errors, hangs = _counted(counts.errors, "error"), _counted(counts.hangs, "hang")
    found = f"{format_count(counts.damaged_blocks)} {reads}, {errors}, {hangs}"
    if not counts.undescribed_failures:
        return found
    return f"{found}, {format_count(counts.undescribed_failures)} further reads of damaged blocks or errors"


def _counted(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def _share(share: float) -> str:
    """Rounded down, so that 100 % is all of it."""
    return f"{math.floor(share * 1000) / 10:g} %"


def _verdict(account: Account) -> str:
    if not account.refused:
        return account.verdict
    return "fail: ended early" if account.runs else "fail: refused"


def _covered(account: Account) -> str:
    """A pass speaks only of what was checked."""
    if account.verdict != "pass" or account.checked_share is None or account.checked_share >= WHOLE_SHARE:
        return ""
    return (
        "the other blocks may be damaged: at random offsets, they were not written, or not read after that. A longer "
        "--duration checks more"
    )


def _before(account: Account) -> str:
    if not account.failed_before:
        return ""
    return (
        f"{account.failed_before} earlier burn-in(s) of this device failed; the error log and the account file keep "
        "what was found. Move both away only if another device has taken its place"
    )


def _exit_code(ended: list[Account], *, interrupted: bool) -> int:
    if all(account.refused and not account.runs for account in ended):
        return BAD_INPUT
    if any(account.verdict in ("fail", "failed before", "not checked") for account in ended):
        return FAILED
    return INTERRUPTED if interrupted else 0


def _burning(log: Log, device: str, planned_ns: int, *, fresh: bool) -> Burning:
    found = log.load()
    if found is None:
        return Burning(Account(device, planned_ns), log)
    is_repeated = found.is_over and planned_ns <= found.planned_ns
    if fresh or is_repeated:
        return Burning(found.anew(planned_ns), log, "" if fresh else f"{device}: {ANEW_WORDS}")
    found.planned_ns = planned_ns
    return Burning(found, log)


def _duration(text: str) -> int:
    try:
        found = _core.parse_duration_ns(text)
    except ValueError as error:
        raise BadInputError(f"--duration: {one_line(error)}") from error
    if not found:
        raise BadInputError("--duration: must be longer than 0")
    return found


def _progress(one: Burning) -> str:
    account = one.account
    if one.fill is not None:
        share = one.fill.done_bytes / max(one.fill.total_bytes, 1)
        return f"{account.device}: filling {format_size(one.fill.total_bytes)}: {share:.1%}"
    left_ns = max(account.planned_ns - account.burned_ns, 0)
    counts = account.counts
    return (
        f"{account.device}: {min(account.burned_ns / account.planned_ns, 1):.1%}, {format_ns(left_ns)} left,"
        f" {format_size(counts.read_bytes)} read, {format_size(counts.written_bytes)} written, {_failures(account)}"
    )


def _row(account: Account) -> list[str]:
    counts = account.counts
    health = "same" if account.tells_health else "not reported"
    return [
        account.device,
        f"{format_ns(account.burned_ns)} of {format_ns(account.planned_ns)}",
        format_size(counts.filled_bytes),
        format_size(counts.read_bytes),
        format_size(counts.written_bytes),
        "–" if account.checked_share is None else _share(account.checked_share),
        *map(format_count, (counts.damaged_blocks, counts.errors, counts.hangs)),
        "changed" if account.changed else health,
        _verdict(account),
    ]
