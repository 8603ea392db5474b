"""Duty: runs as an HdrHistogram log (format 1.3), which HistogramLogReader, HdrHistogramVisualizer and others read.

A line for each interval, stream, operation and measure, with a tag that says which; times in ns, the maximum in ms.

Refusal: what has no distribution, such as the percentiles of another program, is refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from brickyard.analysis.figures.conditions import Stood
from brickyard.analysis.figures.totals import phase_name, stream_name
from brickyard.analysis.judging.summary import changed
from brickyard.errors import BadInputError
from brickyard.printable import printable
from brickyard.schema import Imported
from brickyard.store import Interval, Record
from brickyard.units import NS

HDR_HEAD = "#[Histogram log format version 1.3]\n#[Written by Brickyard]\n"
MAX_UNIT = 1e6  # readers take the maximum column to be in ms of values in ns


def histogram_log(records: list[Record]) -> str:
    """Times count from the start of the first run, which the head of the log gives."""
    for record in records:
        if any(not printed.has_bins for printed in record.of(Imported)):
            raise BadInputError(
                f"run {record.info.id}: {record.info.tool} printed no distribution, so there is no histogram to write"
            )
    starts = [began_ns for record in records if (began_ns := record.info.began_unix_ns) is not None]
    base_ns = min(starts, default=0)
    said = datetime.fromtimestamp(base_ns / NS, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = [
        HDR_HEAD.rstrip("\n"),
        f"#[StartTime: {base_ns / NS:.3f} (seconds since epoch), {said}]",
        f"#[BaseTime: {base_ns / NS:.3f} (seconds since epoch)]",
        *(f"#[run-{record.info.id}: {printable(said_of(record))}]" for record in records),
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for record in records:
        shift_ns = (record.info.began_unix_ns or base_ns) - base_ns
        for item in sorted(record.intervals, key=lambda item: item.start_ns):
            if item.histogram:
                start, length = (shift_ns + item.start_ns) / NS, (item.end_ns - item.start_ns) / NS
                figures = f"{start:.9f},{length:.9f},{item.max_ns / MAX_UNIT:.6f},{item.histogram}"
                lines.append(f"Tag={tag(record, item)},{figures}")
    return "\n".join(lines) + "\n"


def said_of(record: Record) -> str:
    """What tags of a run do not say: its workload and target, with what was set of them, and its condition."""
    info = record.info
    said = [
        ("profile", info.profile),
        ("target", ",".join(info.targets)),
        ("condition", Stood(record).throughout),
        *changed(info).items(),
    ]
    return "; ".join(f"{name} {words}" for name, words in said if words)


def tag(record: Record, item: Interval) -> str:
    """`run-12/phase/stream/read/service`; a tag holds no comma and no space."""
    parts = [
        f"run-{record.info.id}",
        *(["warm-up"] if item.warmup else []),
        phase_name(record, item.phase),
        stream_name(record, item.phase, item.stream),
        item.operation,
        item.measure,
    ]
    return "/".join(re.sub(r"[\s,/]+", "_", part) for part in parts)
