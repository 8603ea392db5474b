"""Which of the things that cells count are requests, and which are counted beside their requests."""

from __future__ import annotations

from brickyard.schema.generated import Counted
from brickyard.schema.plan import Operations

CHAIN, FRAME = Counted.CHAIN, Counted.FRAME
CHAINS: frozenset[str] = frozenset({CHAIN, Counted.CREATE_FILE, Counted.READ_FILE, Counted.APPEND_FILE, FRAME})
"""Whole chains and frames; their requests are counted by operation as well, so sums leave these out."""
METADATA: frozenset[str] = frozenset(
    {Counted.CREATE, Counted.OPEN, Counted.CLOSE, Counted.STAT, Counted.UNLINK, Counted.MKDIR, Counted.RMDIR}
)
"""Move no data of a file; never in one rate with those that do."""
READS: frozenset[str] = frozenset({Counted.READ, Counted.GET})
WRITES: frozenset[str] = frozenset({Counted.WRITE, Counted.APPEND, Counted.PUT})


def shares(operations: Operations) -> dict[str, float]:
    """Per cent of each operation that a stream mixes, as a profile lists them."""
    found = {Counted.READ: operations.read, Counted.WRITE: operations.write}
    found |= {Counted.FLUSH: operations.flush, Counted.TRIM: operations.trim}
    return {str(name): share for name, share in found.items()}
