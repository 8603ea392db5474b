"""Duty: the tests of SNIA's Solid State Storage Performance Test Specification as lists of loads.

Source: SNIA SSS PTS 2.0.2 (2020) and, for write saturation, DIRTH and cross-stimulus recovery, PTS Enterprise 1.1
(2013), the latter also as CloudHarmony's and ADATA's open implementations carry them out. PTS measures for one minute
a load and goes round them until the figure of one load is steady over five rounds, at most 25.

Refusal: what the specification leaves to the tester (threads and queue of the IOPS test) is a choice here and is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from brickyard.analysis.studies.pts_points import queue_words
from brickyard.schema import in_flight_total
from brickyard.units import format_size

KIB, MIB = 1 << 10, 1 << 20
BASIC, FURTHER = "SNIA SSS PTS 2.0.2", "PTS Enterprise 1.1"
SOURCE = f"{BASIC}; write saturation, DIRTH and cross-stimulus recovery: {FURTHER}"
ROUND_S = 60.0
ROUNDS_MAX = 25
WINDOW = 5
PRECONDITION_BYTES, PRECONDITION_PASSES = 128 * KIB, 2
MIXES = (100, 95, 65, 50, 35, 5, 0)
SIZES = (1024 * KIB, 128 * KIB, 64 * KIB, 32 * KIB, 16 * KIB, 8 * KIB, 4 * KIB, 512)
DEMAND = (32, 16, 8, 6, 4, 2, 1)
DEMAND_BYTES, DEMAND_READS = 8 * KIB, 65
ART_MAX_NS = 5_000_000  # the mean response time up to which a rate counts as the most (DIRTH)
PREWRITE_ROUNDS = 5  # minutes of writes between two rounds of DIRTH
DIRTH = "dirth"
POINTS = 3  # MinIOPS, MidIOPS, MaxIOPS
POINT_ROUNDS = 10  # minutes at each of DIRTH's operating points
SATURATION_ROUNDS = 24 * 60  # a day of minutes, or four times the capacity, whichever comes first
SATURATION_FILLS = 4
STIMULI = (("A", 1024 * KIB, False, 8 * 60), ("B", 8 * KIB, True, 6 * 60), ("C", 1024 * KIB, False, 8 * 60))


@dataclass(frozen=True)
class Cell:
    """One load of a round; `reads` in per cent."""

    reads: int
    size_bytes: int
    is_random: bool
    workers: int
    depth: int
    rounds: int = 1
    """How many rounds long it is measured."""

    @property
    def mix(self) -> str:
        return f"{self.reads}/{100 - self.reads}"

    @property
    def words(self) -> str:
        return f"{format_size(self.size_bytes)} {self.mix}"

    @property
    def queue_words(self) -> str:
        return queue_words(self.workers, self.depth)


@dataclass(frozen=True)
class Queue:
    """Threads and requests in flight of each, where PTS leaves them to the tester."""

    workers: int
    depth: int


@dataclass(frozen=True)
class Kind:
    """PTS for clients or for enterprises: how much of the drive is used, and what is asked of it."""

    name: str
    title: str
    range_percent: float
    queue: Queue
    write_cache: str


CLIENT = Kind("client", "PTS-C", 75, Queue(2, 16), "enabled")
ENTERPRISE = Kind("enterprise", "PTS-E", 100, Queue(4, 32), "disabled")
KINDS = {kind.name: kind for kind in (CLIENT, ENTERPRISE)}


@dataclass(frozen=True)
class RoundTest:
    """A test of rounds: its cells in their order, and the cell whose figure must become steady."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    steady: Cell
    figure: str
    """`iops`, `bytes_per_s` or `mean_ns`."""
    prewrite: Cell | None = None
    """Written before each round."""

    def words(self, cell: Cell) -> str:
        """What tells a cell from the others of its test."""
        return cell.words if len({(one.size_bytes, one.mix) for one in self.cells}) > 1 else cell.queue_words


def iops_test(queue: Queue) -> RoundTest:
    cells = tuple(Cell(reads, size, True, queue.workers, queue.depth) for reads in MIXES for size in SIZES)
    steady = next(cell for cell in cells if (cell.reads, cell.size_bytes) == (0, 4 * KIB))
    return RoundTest("iops", "IOPS", cells, steady, "iops")


def throughput_test(queue: Queue) -> RoundTest:
    cells = tuple(
        Cell(reads, size, False, 1, in_flight_total(queue)) for size in (1024 * KIB, 128 * KIB) for reads in (100, 0)
    )
    steady = next(cell for cell in cells if (cell.reads, cell.size_bytes) == (0, 1024 * KIB))
    return RoundTest("throughput", "Throughput", cells, steady, "bytes_per_s")


def latency_test() -> RoundTest:
    cells = tuple(Cell(reads, size, True, 1, 1) for reads in (100, 65, 0) for size in (8 * KIB, 4 * KIB, 512))
    steady = next(cell for cell in cells if (cell.reads, cell.size_bytes) == (0, 4 * KIB))
    return RoundTest("latency", "Latency", cells, steady, "mean_ns")


def demand_test() -> RoundTest:
    """DIRTH's demand variation: every number of threads with every queue, writes between the rounds."""
    cells = tuple(Cell(DEMAND_READS, DEMAND_BYTES, True, tc, qd) for tc in DEMAND for qd in DEMAND)
    prewrite = Cell(0, DEMAND_BYTES, True, DEMAND[0], DEMAND[0], PREWRITE_ROUNDS)
    return RoundTest(DIRTH, "Demand intensity and response time histogram", cells, cells[0], "iops", prewrite)


TESTS = ("iops", "throughput", "latency", "write-saturation", "dirth", "cross-stimulus")
TITLES = {
    "iops": "IOPS",
    "throughput": "Throughput",
    "latency": "Latency",
    "write-saturation": "Write saturation",
    "dirth": "Demand intensity and response time histogram",
    "cross-stimulus": "Cross-stimulus recovery",
}


def round_test(name: str, queue: Queue) -> RoundTest:
    """One of the tests that go in rounds."""
    if name == "iops":
        return iops_test(queue)
    if name == "throughput":
        return throughput_test(queue)
    return latency_test() if name == "latency" else demand_test()
