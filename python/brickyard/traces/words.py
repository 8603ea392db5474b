"""Duty: what a trace is like, in lines of text. Refusal: nothing is printed, and no figure is computed anew."""

from __future__ import annotations

from brickyard.percentiles import is_supported, least_count
from brickyard.traces.contents import Buckets, Contents, Examined, OperationFigures, TraceFigures
from brickyard.units import SECTOR_BYTES, format_count, format_ns, format_percent, format_seconds, format_size, plural

SIZES_SHOWN = 6
SHARE_SHOWN = 0.005
ALIGNED_FROM = 4096


def figure_lines(examined: Examined) -> list[tuple[str, str]]:
    """Label and text."""
    contents, figures = examined.contents, examined.figures
    lines = [("trace", _origin(contents))]
    if contents.torn:
        lines.append(("cut off", f"{contents.torn}; only the part before that is shown"))
    if contents.summary.lost:
        lines.append(("lost", f"events lost while it was taken: {format_count(contents.summary.lost)}"))
    if contents.summary.bad:
        lines.append(("not read", f"{format_count(contents.summary.bad)} lines could not be read"))
    lines.append(("mix", _mix(figures)))
    failed = [f"{format_count(item.failed)} {plural(name)}" for name, item in figures.operations.items() if item.failed]
    if failed:
        lines.append(("failed", f"{', '.join(failed)} ended with an error"))
    has_marks = _has_marks(figures)
    for name, item in figures.operations.items():
        if item.requests and name != "flush":
            lines += [
                (f"{name} sizes", _sizes(item)),
                (f"{plural(name)} aligned", _aligned(item)),
                (f"{name} order", _order(item)),
            ]
        marks = _marks(item) if has_marks else ""
        if marks:
            lines.append((f"{name} marks", marks))
        if item.service:
            lines.append((f"{name} latency", _latencies(item)))
    lines.append(("arrivals", _arrivals(contents, figures)))
    lines.append(("depth", _depth(contents, figures)))
    lines.append(("locality", _locality(figures)))
    return lines


def _origin(contents: Contents) -> str:
    summary = contents.summary
    names = [contents.name_of(number) for number in contents.counted]
    devices = ", ".join(names[:4]) or "unknown device"
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    lasts = format_seconds(summary.duration_ns / 1e9)
    source = f" ({contents.header.source})" if contents.header.source else ""
    return f"{format_count(summary.requests)} requests in {lasts} on {devices}{more}{source}"


def _mix(figures: TraceFigures) -> str:
    total = sum(item.requests for item in figures.operations.values())
    parts = [
        f"{format_percent(item.requests / total)} {name}{'es' if name == 'flush' else 's'}"
        + (f" ({format_size(item.bytes)})" if item.bytes else "")
        for name, item in figures.operations.items()
        if item.requests
    ]
    return ", ".join(parts)


def _sizes(item: OperationFigures) -> str:
    largest = sorted(item.sizes, key=lambda pair: (-pair[1], pair[0]))
    shown = [(size, n / item.requests) for size, n in largest[:SIZES_SHOWN] if n / item.requests >= SHARE_SHOWN]
    text = ", ".join(f"{format_size(size)} {format_percent(share)}" for size, share in sorted(shown))
    rest = 1 - sum(share for _, share in shown)
    mean = format_size(item.bytes / item.requests)
    return f"{text}{f', others {format_percent(rest)}' if rest >= SHARE_SHOWN else ''}; mean {mean}"


def _aligned(item: OperationFigures) -> str:
    shares = [(SECTOR_BYTES << bit, count / item.requests) for bit, count in enumerate(item.aligned)]
    return ", ".join(
        f"{format_size(boundary)} {format_percent(share)}" for boundary, share in shares if boundary >= ALIGNED_FROM
    )


def _order(item: OperationFigures) -> str:
    runs = item.requests - item.sequential
    length = item.requests / max(runs, 1)
    share = format_percent(item.sequential / item.requests)
    return f"{share} go on where an earlier one ended; {length:,.1f} requests a run"


def _has_marks(figures: TraceFigures) -> bool:
    """Whether what took the trace marked requests. Of a form without marks, such as fio's iolog, the import marks all
    reads or none, and all flushes, as synchronous and nothing else."""
    waited = (figures.read, figures.flush)
    return any(item.fua or item.read_ahead or item.meta for item in figures.operations.values()) or bool(
        figures.write.sync or figures.discard.sync or any(0 < item.sync < item.requests for item in waited)
    )


def _marks(item: OperationFigures) -> str:
    counts = {"FUA": item.fua, "synchronous": item.sync, "read-ahead": item.read_ahead, "metadata": item.meta}
    return ", ".join(f"{format_percent(n / item.requests)} {name}" for name, n in counts.items() if n)


def percentile(buckets: Buckets, share: float) -> int | None:
    """The end of the bucket in which it lies."""
    total = sum(count for _, count in buckets)
    below = 0
    for end, count in buckets:
        below += count
        if below >= share * total:
            return end
    return None


def _latencies(item: OperationFigures) -> str:
    most, known = item.service[-1][0], (_known("median", item.service, 50.0), _known("p99", item.service, 99.0))
    return f"{', '.join(known)}, longest about {format_ns(most)} (issue to end)"


def _known(name: str, service: Buckets, percent: float) -> str:
    if is_supported(sum(count for _, count in service), percent):
        return f"{name} {format_ns(percentile(service, percent / 100))}"
    return f"no {name} of fewer than {least_count(percent):,} requests"


def _arrivals(contents: Contents, figures: TraceFigures) -> str:
    seconds = contents.summary.duration_ns / 1e9
    rate = f"{contents.summary.requests / seconds:,.1f}/s, " if seconds > 0 else ""
    median = format_ns(percentile(figures.gaps, 0.5)) if figures.gaps else "unknown"
    bursts = "; ".join(
        f"variance over mean {item.dispersion:,.1f} in windows of {format_ns(item.window_ns)}"
        for item in figures.bursts
    )
    variation = f"variation of gaps {figures.gap_variation:.2f} (1 of independent arrivals)"
    return f"{rate}median gap {median}, {variation}{f'; {bursts}' if bursts else ''}"


def _depth(contents: Contents, figures: TraceFigures) -> str:
    if not contents.summary.completed:
        return "unknown: the trace does not say when requests ended"
    return f"{figures.depth_mean:.2f} other requests in flight when a request arrives, at most {figures.depth_max}"


def _locality(figures: TraceFigures) -> str:
    found = figures.locality
    if not found.requests:
        return "no reads or writes"
    one, ten, twenty = map(format_percent, found.hottest)
    hot = f"1 % of the blocks get {one}, 10 % get {ten}, 20 % get {twenty}"
    # `figures.from_bytes` and `to_bytes` are of discards as well, which the blocks are not of.
    counted = [item for item in (figures.read, figures.write) if item.requests]
    span = f"from {format_size(min(item.from_bytes for item in counted))}"
    span += f" to {format_size(max(item.to_bytes for item in counted))}"
    return (
        f"reads and writes lie {span} and begin in {format_count(found.blocks)} blocks of 4 KiB; "
        f"{format_percent(found.reused)} of them return to such a block; {hot}"
    )
