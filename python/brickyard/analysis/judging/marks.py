"""Duty: marks of a run wherever its figures stand in a row, without which they would be taken for what they are not.

Refusal: warnings say how much and what to do.
"""

from __future__ import annotations

from brickyard.analysis.databases.durability import is_unknown, undurable
from brickyard.analysis.judging.cached import BLANK, EMULATED_FAULT, NEVER_WRITTEN, TRIMMED_READS
from brickyard.analysis.judging.caveats_run import BACKLOG, NOT_DIRECT, OVERLOADED
from brickyard.analysis.judging.caveats_site import LOOP_CACHED
from brickyard.store import RunInfo

TOLD = {
    BACKLOG: OVERLOADED,
    OVERLOADED: OVERLOADED,
    NEVER_WRITTEN: "never written",
    TRIMMED_READS: "reads of trimmed blocks",
    BLANK: "reads of blank blocks",
    LOOP_CACHED: "page cache",
    NOT_DIRECT: "page cache",
    EMULATED_FAULT: "faults",
    "damage": "damaged data",
}
"""Warnings without which a row would be taken for what it is not."""
UNDURABLE = "not durable"
UNKNOWN = "durability not known"

MARKS = {
    OVERLOADED: "part of what was due was never sent, or the queue grew, so response times depend on how long "
    "the run was",
    TOLD[NEVER_WRITTEN]: "reads of parts that were never written do not reach the medium",
    TOLD[TRIMMED_READS]: "the run read what it had trimmed, and such reads do not reach the medium",
    TOLD[BLANK]: "blocks that hold only zeros do not reach the medium if they were never written or were trimmed",
    TOLD[LOOP_CACHED]: "the requests went through the page cache of the host, which may have taken writes and answered "
    "reads, although the workload does not say so",
    TOLD[EMULATED_FAULT]: "the emulated disk had faults during the run, which a warning of the run lists",
    TOLD["damage"]: "blocks came back with other data than were written",
    UNDURABLE: "the server did not wait until what it committed was on the medium, so this is not a rate of durable "
    "commits",
    UNKNOWN: "the script of pgbench itself sets synchronous_commit, so which of its commits were durable is not known",
}
"""What each of them means."""


def marks_of(run: RunInfo) -> list[str]:
    told = [TOLD[warning.id] for warning in run.warnings if warning.id in TOLD]
    durability = [UNDURABLE] if undurable(run) else [UNKNOWN] if is_unknown(run) else []
    return list(dict.fromkeys([*told, *durability]))
