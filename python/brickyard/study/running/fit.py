"""Duty: what a load leaves open until its host is known: a size that follows from the memory.

Refusal: whatever the user has set stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from brickyard import facts
from brickyard.errors import BadInputError
from brickyard.profiles.room import is_in_bytes, used_bytes
from brickyard.reading import parsed_bytes
from brickyard.schema.plan import (
    Audit,
    BulkUpdate,
    Checkpoint,
    DatabaseFile,
    LazyWriter,
    LogWriter,
    MailboxUser,
    Plan,
    Program,
    RandomUser,
    ReadAhead,
    Table,
    WriteFile,
)
from brickyard.study.running.scratch import ALIGN_BYTES, MIN_BYTES
from brickyard.units import format_size

MEMORY_FACTOR = 2  # iowork's file was twice the memory (Kirkwood 2003); a smaller one measures the cache
OF_MEMORY = (Table.IOWORK, Table.BONNIE)


def own_size(plan: Plan) -> str | None:
    """The size that a profile's file has where nobody says another."""
    whole = -(-used_bytes(plan) // ALIGN_BYTES) * ALIGN_BYTES
    if _database_files(plan):
        return str(max(whole, MIN_BYTES))
    if plan.table not in OF_MEMORY:
        return str(max(whole, MIN_BYTES)) if is_in_bytes(plan) else None
    memory = facts.host_facts(facts.Roots()).memory_bytes
    return str(MEMORY_FACTOR * memory) if memory else None


SERVER = (
    DatabaseFile,
    RandomUser,
    BulkUpdate,
    ReadAhead,
    Audit,
    Checkpoint,
    LazyWriter,
    LogWriter,
    MailboxUser,
)
"""Programs that are parts of a database server: their target is a file, a device or a model."""
GROWTH = 1.1  # room in Jetstress's file for the records that a test inserts


def _programs(plan: Plan) -> list[Program]:
    return [stream.program for phase in plan.phase for stream in phase.stream if stream.program]


def has_programs(plan: Plan) -> bool:
    """Whether the load is programs over the files of a directory."""
    return any(not isinstance(program, SERVER) for program in _programs(plan))


def has_server(plan: Plan) -> bool:
    return any(isinstance(program, SERVER) for program in _programs(plan))


def _database_files(plan: Plan) -> list[DatabaseFile]:
    return [program for program in _programs(plan) if isinstance(program, DatabaseFile)]


def _on_log(program: Program | None) -> bool:
    return isinstance(program, LogWriter) or (isinstance(program, Audit) and program.log)


def server_changes(plan: Plan, targets: Sequence[str], *, modelled: bool) -> list[str]:
    """Overrides of a server's load, before those of the user: pages are checked where there are pages, a database holds
    its mailboxes, and of two targets the second has the log."""
    changes = ["verify=false"] if modelled else []
    for users in [program for program in _programs(plan) if isinstance(program, MailboxUser)][:1]:
        size = users.mailboxes * users.mailbox_size
        changes += [f"size={size}", f"most={int(size * GROWTH)}"]
    if len(targets) == 2:
        for phase in plan.phase:
            for stream in phase.stream:
                if _on_log(stream.program):
                    at = f"{phase.name}.{stream.name}"
                    changes += [f"{at}.target=1", f"{at}.database=0"]
    return changes


def _large_files(plan: Plan) -> list[WriteFile]:
    programs = [stream.program for phase in plan.phase for stream in phase.stream]
    return [program for program in programs if isinstance(program, WriteFile)]


def sized(plan: Plan, size: str | None) -> list[str]:
    """`--size` as overrides of a load that is programs; they come before those of the user."""
    if not _large_files(plan):
        if size is not None:
            raise BadInputError("--size: this load has no large file; its files are set by --set size=4KiB and files=N")
        return []
    if size is not None:
        parsed_bytes(size, "--size")
    wanted = size or own_size(plan)
    return [f"size={wanted}"] if wanted else []


def check_room(plan: Plan, targets: list[str]) -> None:
    """A large file that cannot fit is refused before hours are spent on filling the disk."""
    wanted = max((program.size for program in _large_files(plan)), default=0)
    for path in targets:
        free = shutil.disk_usage(path).free if os.path.isdir(path) else wanted
        if wanted > free:
            raise BadInputError(
                f"{path}: a file of {format_size(wanted)} does not fit into {format_size(free)} of free space;"
                " choose a smaller --size"
            )


def refuse_programs(name: str, plan: Plan, verb: str) -> None:
    if has_programs(plan):
        raise BadInputError(f"{name}: {verb} cannot run a program over files; use `brickyard run {name} DIRECTORY`")
