"""Duty: append-only records in SQLite. Refusal: nothing is changed, deleted or computed here."""

from brickyard.schema import CHAIN, CHAINS, FRAME, METADATA, READS, WRITES
from brickyard.store.record import (
    Interval,
    IntervalCost,
    Json,
    Record,
    RunInfo,
    StudyInfo,
)
from brickyard.store.store import Store, default_place

__all__ = [
    "CHAIN",
    "CHAINS",
    "FRAME",
    "METADATA",
    "READS",
    "WRITES",
    "Interval",
    "IntervalCost",
    "Json",
    "Record",
    "RunInfo",
    "Store",
    "StudyInfo",
    "default_place",
]
