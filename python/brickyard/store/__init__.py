"""Duty: append-only records in SQLite. Refusal: nothing is changed, deleted or computed here."""

from brickyard.schema import CHAIN, CHAINS, FRAME, METADATA, READS, WRITES
from brickyard.store.place import IN_MEMORY, command_on, default_place
from brickyard.store.record import (
    Annotation,
    Baseline,
    Cursor,
    FailedRequest,
    Interval,
    IntervalCost,
    Json,
    News,
    Proof,
    Record,
    RunHead,
    RunInfo,
    StudyAbout,
    StudyInfo,
)
from brickyard.store.schema import APPLICATION_ID
from brickyard.store.store import Store, check_place

__all__ = [
    "APPLICATION_ID",
    "CHAIN",
    "CHAINS",
    "FRAME",
    "IN_MEMORY",
    "METADATA",
    "READS",
    "WRITES",
    "Annotation",
    "Baseline",
    "Cursor",
    "FailedRequest",
    "Interval",
    "IntervalCost",
    "Json",
    "News",
    "Proof",
    "Record",
    "RunHead",
    "RunInfo",
    "Store",
    "StudyAbout",
    "StudyInfo",
    "check_place",
    "command_on",
    "default_place",
]
