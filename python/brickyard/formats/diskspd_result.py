"""Duty: results of diskspd, as XML (-Rxml) or text, → what was printed. Figures are those of all threads and targets.

Elements are those of its own writer (XmlResultParser.cpp); of the text, its tables of totals and percentiles are read.
Without -L diskspd prints no latencies.

Refusal: text that was cut off before its totals is no result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

import msgspec

from brickyard import _core
from brickyard.errors import BadInputError
from brickyard.formats.diskspd import import_diskspd
from brickyard.formats.tool_result import (
    Moved,
    Printed,
    PrintedLoad,
    PrintedTimes,
    ToolResult,
    count_of,
    garbled,
    ns_of,
    span_s,
)
from brickyard.ready import ready
from brickyard.schema import Counted, read_plan
from brickyard.schema.plan import ClosedPace, Plan

TOOL = "diskspd"
OPERATIONS = {Counted.READ: "Read", Counted.WRITE: "Write"}
SCALE = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
RANK = re.compile(r"(?:(\d)-nines|([\d.]+)(?:st|nd|rd|th))$")
COMMAND = re.compile(r"(?mi)^Command Line:.*?diskspd(?:64)?(?:\.exe)?\"?\s+(.*)$")
SEVERAL = (
    "diskspd's percentiles are of all files and threads together, and this load is not one stream; it is not compared "
    "with runs of Brickyard."
)
DATE = "%Y/%m/%d %H:%M:%S"


class _Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of the line of totals of a table, by the names of its columns."""

    bytes: int
    requests: int = msgspec.field(name="I/Os")
    rate_per_s: float = msgspec.field(name="I/O per s")
    mean_ms: float | None = msgspec.field(name="AvgLat", default=None)


@dataclass
class _Target:
    """A target of a timespan, with the switches that ask for the same."""

    path: str
    switches: list[str] = field(default_factory=list)
    is_cached: bool = True
    is_complete: bool = True
    """Whether the switches say all of it."""


@dataclass
class _Span:
    """A timespan: what it asked for, and what it printed."""

    targets: list[_Target] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    command: str = ""
    seconds: float = 0.0
    moved: list[Moved] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The command line that asks for this; empty where its targets differ."""
        if self.command:
            return f"diskspd {self.command}"
        own = {" ".join(target.switches) for target in self.targets}
        if len(own) != 1 or not all(target.is_complete for target in self.targets):
            return ""
        paths = " ".join(f'"{target.path}"' for target in self.targets)
        return f"diskspd {' '.join(self.switches)} {own.pop()} {paths}"


def read_diskspd(name: str, text: str) -> ToolResult:
    """Raises BadInputError where it is no result of diskspd, or only a part of one."""
    try:
        return _of_xml(name, text) if text.lstrip().startswith("<") else _of_text(name, text)
    except Xml.ParseError as error:
        raise BadInputError("diskspd's XML is cut off or damaged; copy the file again") from error
    except (ValueError, KeyError, IndexError, OverflowError, ZeroDivisionError) as error:
        raise garbled(TOOL, error) from error


def _result(name: str, version: str, began: str, spans: list[_Span]) -> ToolResult:
    moment = datetime.strptime(began.removesuffix(" UTC").strip(), DATE).replace(tzinfo=UTC)
    targets = list(dict.fromkeys(target.path for span in spans for target in span.targets))
    cached = {target.is_cached for span in spans for target in span.targets}
    io = {frozenset([True]): "buffered", frozenset([False]): "direct"}.get(frozenset(cached), "")
    lines = [span.line for span in spans]
    profile, plan = _load(name, lines)
    phases = []
    for number, span in enumerate(spans):
        streams = plan.phase[number].stream if plan else []
        workers, depth = sum(one.workers for one in streams), max((one.depth for one in streams), default=0)
        is_closed = bool(streams) and all(isinstance(one.pace, ClosedPace) for one in streams)
        stream = PrintedLoad(workers=workers or None, depth=depth or None, is_closed=is_closed)
        phases.append(Printed(f"timespan {number + 1}", span.seconds, stream, span.moved))
    notes = () if profile else (SEVERAL,)
    return ToolResult(TOOL, version, round(moment.timestamp()) * 10**9, targets, io, phases, profile, notes)


def _load(name: str, lines: list[str]) -> tuple[str, Plan | None]:
    """The profile that importing the command lines gives, where each is one stream; and its plan in any case."""
    if not all(lines):
        return "", None
    try:
        text = import_diskspd(name, "\n".join(lines)).text
        plan = read_plan(_core.validate(text, []))
    except (BadInputError, ValueError):
        return "", None
    if not isinstance(plan, Plan) or len(plan.phase) != len(lines):
        return "", None
    return (text if all(len(phase.stream) == 1 for phase in plan.phase) else ""), plan


# ---- XML


def _of_xml(name: str, text: str) -> ToolResult:
    if "<!DOCTYPE" in text:
        raise BadInputError("not diskspd's XML: it has no document type")
    root = Xml.fromstring(text.strip())  # noqa: S314 - without a document type there are no entities
    found = root.findall("TimeSpan")
    if root.tag != "Results" or not found:
        raise BadInputError("not diskspd's XML: it has no Results with a TimeSpan")
    asked = root.findall("Profile/TimeSpans/TimeSpan")
    spans = []
    for number, item in enumerate(found):
        if (error := item.findtext("Error")) is not None:
            raise BadInputError(f"diskspd measured nothing: {error.strip()}")
        span = _asked_xml(asked[number]) if number < len(asked) else _Span()
        span.seconds = float(_of(item, "TestTimeSeconds"))
        span.moved = [_moved_xml(item, operation, word) for operation, word in OPERATIONS.items()]
        spans.append(span)
    return _result(name, root.findtext("System/Tool/Version", ""), _of(root, "System/RunTime"), spans)


def _of(item: Xml.Element, name: str) -> str:
    found = item.findtext(name)
    if found is None:
        raise BadInputError(f"not as diskspd writes a result: {item.tag} has no {name}")
    return found.strip()


def _moved_xml(span: Xml.Element, operation: Counted, word: str) -> Moved:
    targets = span.findall("Thread/Target")
    requests, moved = (sum(count_of(_of(one, f"{word}{what}")) for one in targets) for what in ("Count", "Bytes"))
    mean = span.findtext(f"Latency/Average{word}Milliseconds")
    if mean is None or not requests:
        return Moved(operation, requests, moved)
    values = {
        float(_of(bucket, "Percentile")): ns_of(_of(bucket, f"{word}Milliseconds"))
        for bucket in span.findall("Latency/Bucket")
        if bucket.find(f"{word}Milliseconds") is not None
    }
    return Moved(operation, requests, moved, times=_times(float(mean) * 1e6, values))


def _times(mean_ns: float, values: dict[float, int]) -> PrintedTimes | None:
    """Of the ranks 0 and 100 are the extremes."""
    if 100.0 not in values:
        return None
    between = {rank: value for rank, value in values.items() if 0 < rank < 100}
    return PrintedTimes(mean_ns, values[100.0], values.get(0.0), between)


def _asked_xml(item: Xml.Element) -> _Span:
    def flag(target: Xml.Element, name: str) -> bool:
        return (target.findtext(name) or "false").strip() == "true"

    switches = [f"-d{_of(item, 'Duration')}", f"-W{item.findtext('Warmup') or '0'}"]
    if (seed := item.findtext("RandSeed") or "0") != "0":
        switches.append(f"-z{seed}")
    span = _Span(switches=switches)
    threads = int(item.findtext("ThreadCount") or 0)
    for target in item.findall("Targets/Target"):
        numbers = {name: int(target.findtext(name) or 0) for name in ("MaxFileSize", "BaseFileOffset", "FileSize")}
        is_cached, is_through = not flag(target, "DisableOSCache"), flag(target, "WriteThrough")
        words = [f"-b{_of(target, 'BlockSize')}", f"-w{target.findtext('WriteRatio') or 0}"]
        words += [f"-o{target.findtext('RequestCount') or 2}"]
        words += [f"-F{threads}" if threads else f"-t{target.findtext('ThreadsPerFile') or 1}"]
        words += [f"-S{'b' if is_cached else 'u'}{'w' if is_through else ''}"]
        words += [f"-{letter}{numbers[key]}" for letter, key in zip("fBc", numbers, strict=True) if numbers[key]]
        random = target.findtext("Random")
        if random is not None or flag(target, "RandomAccess"):
            ratio = target.findtext("RandomRatio")
            words.append(f"-rs{ratio}" if ratio is not None else f"-r{random or ''}")
        elif (stride := target.findtext("StrideSize")) is not None:
            words.append(f"-s{'i' if flag(target, 'InterlockedSequential') else ''}{stride}")
        rate = target.find("Throughput")
        if rate is not None and (rate.text or "0").strip() != "0":
            words.append(f"-g{(rate.text or '').strip()}{'i' if rate.get('unit') == 'IOPS' else ''}")
        if int(target.findtext("ThreadStride") or 0):
            words.append(f"-T{target.findtext('ThreadStride')}")
        more = [name for name in ("Distribution", "BurstSize", "ThinkTime") if target.find(name) is not None]
        span.targets.append(_Target(_of(target, "Path"), words, is_cached, is_complete=not more))
    return span


# ---- text


def _of_text(name: str, text: str) -> ToolResult:
    head, *parts = re.split(r"(?m)^Results for timespan \d+:", text)
    began = re.search(r"start time:\s*(\S+ \S+)", head)
    if not parts or began is None:
        raise BadInputError("diskspd's text ends before its results; it was cut off")
    asked = re.split(r"timespan:\s+\d+\s*\n", head)[1:]
    spans = []
    for number, part in enumerate(parts):
        span = _asked_text(asked[number]) if number < len(asked) else _Span()
        _printed_text(span, part)
        spans.append(span)
    if len(spans) == 1 and (command := COMMAND.search(head)):
        spans[0].command = command[1].strip()
    return _result(name, "", began[1], spans)


def _printed_text(span: _Span, part: str) -> None:
    lasted = re.search(r"actual test time:\s*([\d.]+)s", part)
    total = _totals_text(part, "Total IO")
    if lasted is None or total is None:
        raise BadInputError("diskspd's text ends before its totals; it was cut off")
    span.seconds = span_s(count_of(total.requests), total.rate_per_s, float(lasted[1]))
    ranks = _ranks_text(part)
    for operation, word in OPERATIONS.items():
        row = _totals_text(part, f"{word} IO")
        if row is None:
            raise BadInputError(f"diskspd's text has no total of {operation}s; it was cut off")
        requests, mean_ms = count_of(row.requests), row.mean_ms
        times = _times(mean_ms * 1e6, ranks.get(word, {})) if mean_ms is not None and requests else None
        span.moved.append(Moved(operation, requests, count_of(row.bytes), times=times))


def _totals_text(part: str, title: str) -> _Totals | None:
    table = re.search(rf"(?m)^{title}\s*\n(thread \|.*)\n(?:.*\n)*?total:(.*)$", part)
    if table is None:
        return None
    names = [name.strip() for name in table[1].split("|")][1:]
    cells = dict(zip(names, (cell.strip() for cell in table[2].split("|")), strict=False))
    return msgspec.convert({name: cell for name, cell in cells.items() if cell != "N/A"}, _Totals, strict=False)


def _ranks_text(part: str) -> dict[str, dict[float, int]]:
    """By operation and rank; 0 and 100 are the extremes."""
    table = re.search(r"%-ile \|(.*)\n-+\n((?:.*\|.*(?:\n|$))+)", part)
    if table is None:
        return {}
    words = [name.split("(")[0].strip() for name in table[1].split("|")]
    found: dict[str, dict[float, int]] = {word: {} for word in words}
    for line in table[2].splitlines():
        label, *cells = (cell.strip() for cell in line.split("|"))
        rank = RANK.match(label)
        at = {"min": 0.0, "max": 100.0}.get(label)
        if rank is not None:
            at = float(f"99.{'9' * (int(rank[1]) - 2)}") if rank[1] else float(rank[2])
        if at is None:
            raise BadInputError(f"diskspd's percentiles have a line {label!r}")
        for word, cell in zip(words, cells, strict=True):
            if cell != "N/A":
                found[word][at] = ns_of(cell)
    return found


def _asked_text(text: str) -> _Span:
    def said(pattern: str, within: str, default: str = "") -> str:
        found = re.search(pattern, within)
        return found[1] if found else default

    first, *blocks = re.split(r"(?m)^\s*path: ", text)
    switches = ["-d" + said(r"duration: (\d+)s", first, "10"), "-W" + said(r"warm up time: (\d+)s", first, "0")]
    if (seed := said(r"random seed: (\d+)", first, "0")) != "0":
        switches.append(f"-z{seed}")
    span = _Span(switches=switches)
    for block in blocks:
        is_cached, is_through = "software cache disabled" not in block, "writethrough on" in block
        writes = said(r"read/write ratio: \d+/(\d+)", block, "100" if "performing write test" in block else "0")
        words = [f"-b{_bytes(said('block size: (.*)', block))}", f"-w{writes}"]
        words += ["-o" + said(r"outstanding I/O operations[^:]*: (\d+)", block, "2")]
        words += ["-t" + said(r"threads per file: (\d+)", block, "1")]
        words += [f"-S{'b' if is_cached else 'u'}{'w' if is_through else ''}"]
        random, step = said(r"using random I/O \(alignment: (.*)\)", block), said(r"\(stride: (.*)\)", block)
        words += [f"-r{_bytes(random)}"] if random else [f"-s{_bytes(step)}"] if step else []
        more = "threads per file" not in block
        more = more or bool(re.search(r"throughput|distribution|% random", block, re.IGNORECASE))
        path = said(r"'(.*?)'", block)
        span.targets.append(_Target(path, words, is_cached, is_complete=not more))
    return span


def _bytes(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*(KiB|MiB|GiB|TiB)?\s*", text)
    if found is None:
        raise BadInputError(f"not a size as diskspd prints it: {text!r}")
    return int(found[1]) * SCALE[found[2] or ""]


ready(_Totals)
