"""Duty: everything that Brickyard writes to paths, made through one guard, and everything that it removes.

A path is written only where nothing bears its name, or where a file with our mark does. It is looked at before anything
is measured, opened once, checked by its descriptor, and given its name when it is whole. Devices, pipes, sockets and
the file systems of the kernel are never written, whatever links lead there.

Refusal: targets have a guard of their own, in `crates/block`; it knows nothing of what is in a file but its mark.
"""

from brickyard.outputs.database import (
    check_database,
    connect,
    connect_for_reading,
    in_memory,
    make_database,
)
from brickyard.outputs.files import (
    PAGE_MARK,
    Mark,
    append_to,
    check_file,
    check_place,
    fresh_file,
    open_journal,
    whole_file,
    write_whole,
)
from brickyard.outputs.folders import (
    check_folder,
    check_parent,
    copy_tree,
    folder,
    fresh_folder,
    may_hold_files,
    remove_empty,
    rename_folder,
    temporary_folder,
)
from brickyard.outputs.groups import make_group, remove_abandoned_groups, remove_group
from brickyard.outputs.nameless import nameless_file, write_knob
from brickyard.outputs.pages import ReportPlace, check_report, report_place
from brickyard.outputs.removal import held_folder, remove, remove_file, remove_folder, remove_ours, set_aside
from brickyard.outputs.streams import private_pipe, silence_stdout

__all__ = [
    "PAGE_MARK",
    "Mark",
    "ReportPlace",
    "append_to",
    "check_database",
    "check_file",
    "check_folder",
    "check_parent",
    "check_place",
    "check_report",
    "connect",
    "connect_for_reading",
    "copy_tree",
    "folder",
    "fresh_file",
    "fresh_folder",
    "held_folder",
    "in_memory",
    "make_database",
    "make_group",
    "may_hold_files",
    "nameless_file",
    "open_journal",
    "private_pipe",
    "remove",
    "remove_abandoned_groups",
    "remove_empty",
    "remove_file",
    "remove_folder",
    "remove_group",
    "remove_ours",
    "rename_folder",
    "report_place",
    "set_aside",
    "silence_stdout",
    "temporary_folder",
    "whole_file",
    "write_knob",
    "write_whole",
]
