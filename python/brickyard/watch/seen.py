"""Duty: what a capture reports, as types: those of `crates/watch`. Refusal: no arithmetic but where a bucket begins."""

from __future__ import annotations

import msgspec

Classes = list[tuple[int, int, int]]
"""Class of request sizes (a power of two), requests, and the sum of their times in the device in ns."""
Pairs = list[tuple[int, int]]
"""Bucket and count, without empty buckets."""
OPERATIONS = ("read", "write", "durable_write", "discard", "flush", "flush_command", "other", "write_zeroes")
UNASKED = ("flush_command", "other")
"""What no program asks for as storage: the kernel's own flush commands, and commands of a driver, such as the question
for a serial number."""
READS, WRITES = ("read",), ("write", "durable_write")
NS = 1_000_000_000


class SeenCell(msgspec.Struct, omit_defaults=True):
    """One operation of a device. `durable_write`: with FUA or a flush before; `flush`: as programs ask for it;
    `flush_command`: what the kernel makes of those.

    `ahead_…`, of reads: pages that were read ahead and followed in the page cache; used later; of these, mapped
    with a page that a program touched, which is one of them; dropped from the cache unused; and those that could not
    be followed.
    """

    operation: str
    requests: int = 0
    bytes: int = 0
    errors: int = 0
    before_ns: int = 0
    queue_ns: int = 0
    device_ns: int = 0
    total_ns: int = 0
    total_max_ns: int = 0
    sequential: int = 0
    sequential_bytes: int = 0
    read_ahead: int = 0
    read_ahead_bytes: int = 0
    sync: int = 0
    meta: int = 0
    stripe_aligned: int = 0
    stripe_full_bytes: int = 0
    queued: int = 0
    ahead_followed_bytes: int = 0
    ahead_used_bytes: int = 0
    ahead_mapped_bytes: int = 0
    ahead_dropped_bytes: int = 0
    ahead_unfollowed_bytes: int = 0
    classes: Classes = []
    sizes: Pairs = []
    alignments: Pairs = []
    seeks: Pairs = []
    gaps: Pairs = []
    depths: Pairs = []
    before: Pairs = []
    queue: Pairs = []
    device: Pairs = []
    total: Pairs = []


class SeenDevice(msgspec.Struct):
    name: str
    cells: list[SeenCell]
    in_flight: int = 0
    merged_bios: int = 0
    merged_requests: int = 0
    splits: int = 0
    requeues: int = 0
    turned_away: int = 0
    read_runs: Pairs = []
    write_runs: Pairs = []
    slow_from_ns: int = 0


class SeenOwner(msgspec.Struct):
    """A process that asked a device, or one of its partitions, from within a cgroup."""

    device: int
    part: int
    process: int
    comm: str
    cgroup: int
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    flushes: int
    discards: int
    total_ns: int


class SlowRequest(msgspec.Struct):
    """One of the slowest, with what was going on meanwhile. `done_unknown`: requests that ended while it was in the
    device, where it is not known whose they were; `cpu_wait_ns`: for so long any task of the host waited for a CPU
    around its time.
    """

    device: int
    operation: str
    arrived_ns: int
    before_ns: int
    queue_ns: int
    device_ns: int
    total_ns: int
    flush_ns: int
    offset_bytes: int
    bytes: int
    part: int
    process: int
    comm: str
    cgroup: int
    depth: int
    done_own: int
    done_others: int
    requeues: int
    failed: bool
    steal_share: float
    resync_per_s: int
    done_unknown: int = 0
    cpu_wait_ns: int = 0


class WatchLosses(msgspec.Struct):
    """`ring`: slow or exact records that found no room; `entries`: requests that are in no figure; `owners`: requests
    of processes beyond the table; `unknown`: requests whose beginning was not seen;
    `missed`: requests whose end was not, which are counted without their time.
    """

    ring: int = 0
    entries: int = 0
    owners: int = 0
    unknown: int = 0
    missed: int = 0


class ProgramsCost(msgspec.Struct):
    """The watch's programs in the kernel, while the kernel measured their time: a part of each interval. `left_out`:
    runs since the watch began that the kernel left out, since the same program was interrupted on that CPU.
    """

    ns: int = 0
    runs: int = 0
    measured_ns: int = 0
    left_out: int = 0

    def and_then(self, later: ProgramsCost) -> ProgramsCost:
        return ProgramsCost(
            self.ns + later.ns,
            self.runs + later.runs,
            self.measured_ns + later.measured_ns,
            max(self.left_out, later.left_out),
        )


class WatchInterval(msgspec.Struct):
    start_ns: int
    end_ns: int
    devices: list[SeenDevice]
    owners: list[SeenOwner] = []
    slow: list[SlowRequest] = []
    slow_count: int = 0
    lost: WatchLosses = msgspec.field(default_factory=WatchLosses)
    cpu_ns: int = 0
    programs: ProgramsCost = msgspec.field(default_factory=ProgramsCost)
    steal_share: float = 0.0
    resync_per_s: int = 0


def time_ns(bucket: int) -> int:
    """Where a bucket of times begins; eight an octave, so that a bucket is at most an eighth wide."""
    if bucket < 8:
        return bucket
    octave = bucket // 8 + 2
    return (1 << octave) + ((bucket % 8) << (octave - 3))


def class_of(size_bytes: int) -> int:
    """The class of request sizes, as the capture has it."""
    return min(max(size_bytes.bit_length() - 10, 0), 15)


def size_words(bucket: int) -> tuple[int, bool]:
    """Bytes of a bucket of sizes, and whether it holds exactly these or what lies up to the next power of two."""
    return 512 << (bucket // 2), bucket % 2 == 0


def depth_of(bucket: int) -> int:
    """The least depth of a bucket."""
    return bucket + 1 if bucket < 16 else (1 << (bucket - 12)) + 1
