"""Duty: a plan → a fio job file that asks for the same. Refusal: what fio can't express is refused by its name."""

from __future__ import annotations

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.fio_stream import FLUSHES_ONCE_FROM, flushes_again, plain_rate, version_words
from brickyard.schema import tag_of, target_count, writes_one_at_a_time
from brickyard.schema.fio_words import CURSORS, RW, distribution, has_other_cursors
from brickyard.schema.operations import shares
from brickyard.schema.plan import (
    Address,
    Arrivals,
    CacheState,
    EngineChoice,
    IoMode,
    Moves,
    NormalAddress,
    OpenPace,
    ParetoAddress,
    PermutationAddress,
    Phase,
    Plan,
    RandomAddress,
    RunsAddress,
    SequentialAddress,
    SizeShare,
    Stream,
    SyncMode,
    ZipfAddress,
    Zone,
    ZonesAddress,
)


def export_fio(plan: Plan, targets: list[str] | None = None, data_bytes: list[tuple[int, int]] | None = None) -> str:
    """One job for each stream; a phase after the first begins with `stonewall`.

    `data_bytes` gives where the data of each target begin and how many there are, so that fio leaves our header alone.
    """
    lines = [f"; {plan.title}".replace("\n", " "), "[global]", *_global(plan)]
    if targets is None:
        lines.insert(1, "; It names no target: run it with fio --filename=TARGET, where TARGET exists.")
    for number, phase in enumerate(plan.phase, 1):
        _refuse_phase(phase)
        for index, stream in enumerate(phase.stream):
            name = f"{phase.name or f'phase-{number}'}-{stream.name or f'stream-{index + 1}'}"
            lines += ["", f"[{name.replace('[', '').replace(']', '')}]"]
            if number > 1 and index == 0:
                lines.append("stonewall")
            if number > 1 and plan.cache is CacheState.COLD and plan.io is not IoMode.DIRECT:
                lines.append("invalidate=0")  # a profile drops the cache before its first phase alone
            lines += _job(phase, stream, targets, data_bytes)
    return "\n".join(lines) + "\n"


DIVISIBLE_BYTES = 45_045 << 40
"""Multiple of what requests are large, in as many parts as there usually are workers."""


def check_fio(plan: Plan) -> None:
    """Refuses what no target makes fio able to say; a region is in bytes as soon as the target is known."""
    count = target_count(plan)
    export_fio(plan, ["x"] * count, [(0, DIVISIBLE_BYTES)] * count)


def _refuse(what: str) -> BadInputError:
    return BadInputError(f"{what} can't be said in a fio job file; set it otherwise with --set")


def _global(plan: Plan) -> list[str]:
    engine = _engine(plan)
    return [
        f"ioengine={engine}",
        f"direct={1 if plan.io is IoMode.DIRECT else 0}",
        f"randseed={plan.seed}",
        "thread",
        "randrepeat=1",
        "invalidate=1" if plan.cache is CacheState.COLD else "invalidate=0",
        *([] if plan.io is IoMode.DIRECT else ["fadvise_hint=0"]),
        *_batches(plan.reap, engine),
        *_submitted(plan.submit, engine),
    ]


def _engine(plan: Plan) -> str:
    """The one that a run of the plan has where the kernel allows io_uring."""
    is_single = plan.io is IoMode.BUFFERED and plan.engine is EngineChoice.AUTO and writes_one_at_a_time(plan)
    return "psync" if plan.engine is EngineChoice.PSYNC or is_single else "io_uring"


def _batches(reap: int, engine: str) -> list[str]:
    """How many completions fio waits for at once (fio(1), iodepth_batch_complete_min)."""
    if reap == 1:
        return []
    if engine == "psync":
        raise BadInputError(f"reap = {reap} has no effect on psync; remove it")
    return [f"iodepth_batch_complete_min={reap}", f"iodepth_batch_complete_max={reap}"]


def _submitted(submit: int | None, engine: str) -> list[str]:
    """How many requests fio submits at once; one unless it is told (fio(1), iodepth_batch_submit)."""
    if submit is None:
        return []
    if engine == "psync":
        raise BadInputError("submit has no effect on psync; remove it")
    return [f"iodepth_batch_submit={submit}"]


def _refuse_phase(phase: Phase) -> None:
    for key in ("stop", "ramp", "steady", "lockstep"):
        if getattr(phase, key):
            raise _refuse(key)
    for key in ("program", "trace"):
        if any(getattr(stream, key) for stream in phase.stream):
            raise _refuse(key)
    if phase.bytes and len(phase.stream) > 1:
        raise _refuse("bytes of several streams together")
    if not (phase.duration or phase.bytes or phase.passes or phase.requests):
        raise _refuse("a phase without duration, requests, bytes or passes")


def _job(
    phase: Phase, stream: Stream, targets: list[str] | None, data_bytes: list[tuple[int, int]] | None
) -> list[str]:
    for key in ("chain", "frames"):
        if getattr(stream, key):
            raise _refuse(key)
    _check_hot(stream)
    if phase.bytes or phase.passes or phase.requests:
        _check_runs(stream)
    workers = stream.workers
    lines = [
        *([f"; {CURSORS}"] if has_other_cursors(stream) else []),
        *_operations(stream, is_random=not isinstance(stream.address, SequentialAddress)),
        *_request(stream),
        *_address(stream),
        f"numjobs={workers}",
        f"iodepth={stream.depth}",
        "group_reporting",
        "new_group",
    ]
    target = stream.target
    if targets is not None:
        lines.append(f"filename={targets[target].replace(':', chr(92) + ':')}")
    region = _region(stream.region, _align(stream), data_bytes[target] if data_bytes else None)
    lines += _parts(stream, region) if _is_apart(stream) else region
    lines += _limits(phase, stream, 1 if _is_apart(stream) else workers)
    return lines + _pace(stream, workers) + _rest(stream)


def _operations(stream: Stream, *, is_random: bool) -> list[str]:
    mixed = {name: share for name, share in shares(stream.operations).items() if share}
    if "flush" in mixed or ("trim" in mixed and len(mixed) > 1):
        raise _refuse("operations with a share of flush, or of trim beside others,")
    if len(mixed) == 1:
        return [f"rw={RW[next(iter(mixed)), is_random]}"]
    if stream.operations.read != int(stream.operations.read):
        raise _refuse("operations in fractions of a per cent")
    return [f"rw={RW['mixed', is_random]}", f"rwmixread={int(stream.operations.read)}"]


def _request(stream: Stream) -> list[str]:
    mix, align = stream.request, stream.align
    if any(item.of for item in mix):
        return _request_by_operation(mix, align)
    lines = [f"bs={mix[0].size}"]
    if len(mix) > 1:
        lines = [f"bssplit={_split(mix)}"]
    smallest = min(item.size for item in mix)
    return lines if align in (None, smallest) and len(mix) == 1 else [*lines, f"blockalign={align or smallest}"]


def _request_by_operation(mix: list[SizeShare], align: int | None) -> list[str]:
    """fio's lists are reads, writes, trims; an operation that the stream has not is left empty."""
    by_operation = [[item for item in mix if item.of is name] for name in (Moves.READ, Moves.WRITE, Moves.TRIM)]
    while not by_operation[-1]:
        by_operation.pop()
    if all(len(items) <= 1 for items in by_operation):
        lines = ["bs=" + ",".join(str(items[0].size) if items else "" for items in by_operation)]
    else:
        lines = ["bssplit=" + ",".join(_split(items) if items else "4k/100" for items in by_operation)]
    smallest = [str(align or min((item.size for item in items), default=512)) for items in by_operation]
    return [*lines, "blockalign=" + ",".join(smallest)]


def _split(mix: list[SizeShare]) -> str:
    return ":".join(f"{item.size}/{share}" for item, share in zip(mix, _whole(mix), strict=True))


def _whole(mix: list[SizeShare]) -> list[int]:
    """fio takes whole per cents: rounded so that they still sum to 100, none off by a whole one."""
    least = min((item.size for item in mix), default=1)
    if any(item.size % least for item in mix):
        raise _refuse("request sizes that are no multiples of the smallest (fio rounds them down)")
    whole = [int(item.share + 1e-9) for item in mix]
    by_rest = sorted(range(len(mix)), key=lambda k: whole[k] - mix[k].share)
    for k in by_rest[: 100 - sum(whole)]:
        whole[k] += 1
    if not all(whole):
        raise _refuse("a request size with a share below 1 %")
    return whole


def _address(stream: Stream) -> list[str]:
    kind = tag_of(type(stream.address))
    if kind in ("sequential", "permutation") and stream.workers > 1 and not _is_apart(stream):
        raise BadInputError(
            f"a {kind} stream of several workers can't be said in a fio job file: each of fio's would go through all of"
            " the region, and here they share it; write --set address=random, or --set workers=1 with a larger depth"
        )
    match stream.address:
        case SequentialAddress():
            return []
        case RandomAddress():
            return ["norandommap"]
        case PermutationAddress():
            return ["norandommap=0"]
        case RunsAddress(random=share) if share != int(share):
            raise _refuse("address runs in fractions of a per cent")
        case _:
            return ["norandommap", _distribution(stream.address)]


def _distribution(address: Address) -> str:
    match address:
        case RunsAddress(random=share):
            return f"percentage_random={int(share)}"
        case ZipfAddress() | ParetoAddress() | NormalAddress():
            return f"random_distribution={distribution(address)}"
        case ZonesAddress(apart=True):
            raise _refuse("zones in a part of the region for each worker (apart)")
        case ZonesAddress(zones=zones):
            return f"random_distribution={_zones(zones)}"
    raise _refuse(f"address {tag_of(type(address))}")


def _zones(zones: list[Zone]) -> str:
    """fio's zones lie one behind the other from the start, and have whole per cents."""
    edges = [zone.region.split("..") for zone in zones]
    if any(start.strip("0B%") and start != before[1] for (start, _), before in zip(edges[1:], edges, strict=False)):
        raise _refuse("zones with gaps between them, or in another order,")
    parts = [zone.requests for zone in zones]
    if any(share != int(share) for share in parts) or edges[0][0].strip("0B%"):
        raise _refuse("zones in fractions of a per cent, or not from the start,")
    is_percent = all(end.endswith("%") for _, end in edges)
    if not is_percent and any(end.endswith("%") for _, end in edges):
        raise _refuse("zones in bytes and in per cent")
    ends = [float(end.rstrip("%")) if is_percent else _core.parse_bytes(end) for _, end in edges]
    lengths = [end - before for end, before in zip(ends, [0, *ends], strict=False)]
    if is_percent and any(length != int(length) for length in lengths):
        raise _refuse("zones in fractions of a per cent")
    items = ":".join(f"{int(share)}/{int(length)}" for share, length in zip(parts, lengths, strict=True))
    return f"zoned:{items}" if is_percent else f"zoned_abs:{items}"


def _align(stream: Stream) -> int:
    return stream.align or min(item.size for item in stream.request)


def _region(region: str, align: int, data: tuple[int, int] | None) -> list[str]:
    """fio counts from the start of the file; where the data begin is known only with a target.

    A region begins at the next multiple of the alignment, as ours does; fio would ask for odd places, and fail.
    """
    start, _, end = region.partition("..")
    if data is None:
        if start in ("0", "0B", "0%", "") and end in ("100%", ""):
            return ["size=100%"]
        if (start.endswith("%") or start in ("0", "0B")) and end.endswith("%"):
            low, high = float(start.rstrip("%B") or 0), float(end.rstrip("%"))
            if low != int(low) or high != int(high):
                raise _refuse(f"region {region} in fractions of a per cent")
            return [f"offset={low:g}%", f"size={high - low:g}%"]
        if "%" not in region:
            low_bytes = -(-_core.parse_bytes(start or "0") // align) * align
            return _placed(region, low_bytes, (_core.parse_bytes(end) - low_bytes) // align * align)
        raise _refuse(f"region {region}")
    first, length = data

    def place(text: str, default: int) -> int:
        if not text:
            return default
        return int(length * float(text[:-1]) / 100) if text.endswith("%") else min(length, _core.parse_bytes(text))

    within = -(-place(start, 0) // align) * align
    return _placed(region, first + within, (place(end, length) - within) // align * align)


def _placed(region: str, low_bytes: int, size: int) -> list[str]:
    if size <= 0:
        raise BadInputError(f"region {region} has no room for a request; enlarge the region or the target")
    return [f"offset={low_bytes}", f"size={size}"]


def _is_apart(stream: Stream) -> bool:
    """Whether each worker goes through a part of the region by itself."""
    return stream.workers > 1 and isinstance(stream.address, SequentialAddress) and stream.address.apart


def _parts(stream: Stream, region: list[str]) -> list[str]:
    """A part of the region for each worker; ours differ by one request where they cannot be equal, and fio's are
    equal. fio takes whole per cents."""
    *before, last = region
    size, workers = last.removeprefix("size="), stream.workers
    if size.endswith("%"):
        share = float(size[:-1])
        if before not in ([], ["offset=0%"]) or share % workers:
            raise _refuse(f"a region in per cent in {workers} parts (apart); give the region in bytes:")
        part = f"{share / workers:g}%"
    else:
        requests = int(size) // _unit(stream)
        if requests % workers:
            raise _refuse(f"a sequential region of {requests:,} requests in {workers} parts (apart)")
        part = str(requests // workers * _unit(stream))
    return [*before, f"size={part}", f"offset_increment={part}"]


def _unit(stream: Stream) -> int:
    """What parts of a sequential region are multiples of, as ours are."""
    return stream.request[0].size if len(stream.request) == 1 else _align(stream)


def _check_hot(stream: Stream) -> None:
    """fio draws these addresses as blocks of the smallest size of all and multiplies their number by `blockalign`: with
    another alignment, requests lie elsewhere, and fio ends at the first that lies behind the region."""
    if not isinstance(stream.address, ZipfAddress | ParetoAddress | NormalAddress):
        return
    kind = tag_of(type(stream.address))
    least = {min(mix) for mix in _mixes(stream)}
    if len(least) > 1:
        raise _refuse(f"address {kind} with another smallest size for reads than for writes")
    if stream.align not in (None, *least):
        raise _refuse(f"address {kind} with align {stream.align:,}, which is not the smallest request size,")


def _check_runs(stream: Stream) -> None:
    """In a run of sequential requests, fio ends at the first that does not fit before the end of the region, unless it
    has a time to fill."""
    if not isinstance(stream.address, RunsAddress):
        return
    for mix in _mixes(stream):
        align = stream.align or min(mix)
        if min(mix) != align or any(size % align for size in mix):
            raise _refuse("address runs with requests larger than their alignment, in a phase without duration,")


def _mixes(stream: Stream) -> list[list[int]]:
    """Sizes of the operations that have sizes of their own."""
    return [[item.size for item in stream.request if item.of is of] for of in {item.of for item in stream.request}]


def _limits(phase: Phase, stream: Stream, workers: int) -> list[str]:
    """`workers` are those that share a pass."""
    lines = []
    if phase.duration:
        lines.append(f"runtime={max(1, phase.duration.ns // 1000)}us")
    if phase.bytes:
        lines.append(f"io_size={max(1, phase.bytes // stream.workers)}")
    elif phase.passes:
        if phase.passes != int(phase.passes):
            raise _refuse("a part of a pass")
        lines.append(f"loops={int(phase.passes)}")
        if workers > 1:
            raise _refuse("passes of several workers together")
    elif not phase.requests:
        lines.append("time_based")
    if phase.requests:
        lines += _requests(phase, stream, phase.requests)
    warmup_us = phase.warmup.ns // 1000
    return [*lines, f"ramp_time={warmup_us}us"] if warmup_us else lines


def _requests(phase: Phase, stream: Stream, total: int) -> list[str]:
    """Each worker has its share from the start, here and in fio. fio's number is of each loop, and the size of the file
    ends a job before it unless `io_size` is larger."""
    if phase.warmup.ns:
        raise _refuse("requests with a warmup")
    if stream.flush_every:
        raise _refuse("requests with flush_every (here a flush counts as one, and not in fio)")
    workers, loops = sum(one.workers for one in phase.stream), int(phase.passes or 1)
    each, rest = divmod(total, workers * loops)
    if rest:
        shared = f"{total:,} requests of {workers} worker{'' if workers == 1 else 's'}"
        raise _refuse(f"{shared}{f' in {loops} passes' if loops > 1 else ''}, which is no whole number for each,")
    if phase.bytes or phase.passes:
        return [f"number_ios={each}"]
    enough_bytes = min((each + 1) * max(item.size for item in stream.request), IO_SIZE_MAX)
    return [f"number_ios={each}", f"io_size={enough_bytes}"]


IO_SIZE_MAX = 1 << 62


def _pace(stream: Stream, workers: int) -> list[str]:
    lines = []
    if isinstance(stream.pace, OpenPace):
        if (stream.pace.burst or 1) > 1:
            raise _refuse("bursts")
        lines = _rate(stream, stream.pace, workers)
    think_us = stream.think.ns / 1000
    if think_us != int(think_us):
        raise _refuse(f"think {stream.think}")
    if think_us and stream.depth > 1:
        raise _refuse(f"think with depth {stream.depth}: fio would pause the whole job after each request")
    return [*lines, f"thinktime={int(think_us)}us"] if think_us else lines


def _rate(stream: Stream, pace: OpenPace, workers: int) -> list[str]:
    """fio's rate holds for each direction of each job. Where a direction has several sizes, fio's constant rate is one
    of bytes, and the sizes are those of fio's whole per cents."""
    each = [(kind, pace.rate / workers * share / 100) for kind, share in _directions(stream)]
    is_poisson = pace.arrivals is Arrivals.POISSON
    mixes = {kind: [item for item in stream.request if item.of in (None, kind)] for kind, _ in each}
    if is_poisson or all(len(mix) <= 1 for mix in mixes.values()):
        option, rates, said = "rate_iops", [rate for _, rate in each], "requests/s"
        is_whole = all(abs(rate - round(rate)) <= 1e-6 for rate in rates)
    else:
        means = [_mean_bytes(mixes[kind]) for kind, _ in each]
        option, rates, said = "rate", [rate * mean for (_, rate), mean in zip(each, means, strict=True)], "bytes/s"
        is_whole = all(
            not rate or abs(plain_rate(round(rate * mean), mean) - rate) <= 1e-6 * rate
            for (_, rate), mean in zip(each, means, strict=True)
        )
    if not is_whole:
        found = " and ".join(f"{rate:.12g}" for rate in rates if rate)
        raise _refuse(f"a rate of {found} {said} of a worker and direction")
    return [
        f"{option}=" + ",".join(str(round(rate)) for rate in rates),
        f"rate_process={'poisson' if is_poisson else 'linear'}",
    ]


def _mean_bytes(mix: list[SizeShare]) -> float:
    """Of requests as fio draws them."""
    return sum(item.size * share for item, share in zip(mix, _whole(mix), strict=True)) / 100 if mix else 0.0


def _directions(stream: Stream) -> list[tuple[Moves, float]]:
    """Shares of reads, writes and trims, as far as the last that there is; one value alone where only reads are."""
    found = [(kind, float(getattr(stream.operations, kind.value))) for kind in (Moves.READ, Moves.WRITE, Moves.TRIM)]
    while not found[-1][1]:
        found.pop()
    return found


def _rest(stream: Stream) -> list[str]:
    if stream.verify:
        raise _refuse("verify (fio's stamps are others)")
    lines = [] if stream.sync is SyncMode.NONE else [f"sync={stream.sync}"]
    if flush := stream.flush_every:
        lines.append(f"{flush.call}={flush.writes}")
        reads = bool(stream.operations.read)
        if again := flushes_again(reads=reads, depth=stream.depth, writes=flush.writes):
            lines.append(f"; before version {version_words(FLUSHES_ONCE_FROM)}, fio flushes again {again}")
    if stream.data.compressible:
        lines.append(f"buffer_compress_percentage={stream.data.compressible:g}")
    if stream.data.duplicate:
        lines.append(f"dedupe_percentage={stream.data.duplicate:g}")
    return lines if stream.data.compressible else [*lines, "refill_buffers"]
