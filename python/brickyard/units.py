"""Duty: figures as people read them: thousands separators, binary prefixes, the most readable unit of time.

Refusal: no parsing; sizes and time spans that people write are read by the core alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from brickyard import _core

MIB, GIB = 1 << 20, 1 << 30
MB = 1e6
SECTOR_BYTES = 512  # in which the kernel, and traces of it, count offsets and sizes
NS = 1e9  # of a second
ROUNDING = 1e-9  # of a sum of shares that is one
_FRACTION = re.compile(r"(-?\d+\.\d+(?:e[-+]?\d+)?)(/s .*)?")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MORE_DIGITS = 12
_TIME = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def format_size(size_bytes: float) -> str:
    """`4 KiB`, `1.5 GiB`: at most one decimal, none where it would be zero."""
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(_BINARY) - 1:
        value, unit = value / 1024, unit + 1
    text = f"{value:,.1f}".removesuffix(".0")
    return f"{text} {_BINARY[unit]}"


def format_size_tenths(size_bytes: float) -> str:
    """`4.0 KiB`, `1.5 GiB`: always with one decimal, so that two sizes beside each other look alike."""
    value, unit = float(size_bytes), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.{1 if unit else 0}f} {_BINARY[unit]}"


def format_mean_size(size_bytes: float) -> str:
    """`35.9 KiB`, `66.0 KiB`: three significant digits, which tell two means apart that differ by a per cent."""
    value, unit = size_bytes, 0
    while value >= 1024 and unit < len(_BINARY) - 1:
        value, unit = value / 1024, unit + 1
    return f"{three_digits(value)} {_BINARY[unit]}"


def format_ns(time_ns: float | None, more: int = 0) -> str:
    """`87.3 µs`, `1.25 ms`: three significant digits, or `more`; a dash where there is nothing to say."""
    if time_ns is None:
        return "–"
    if time_ns <= 0:
        return "0"
    for unit_ns, unit in _TIME:
        # 999.6 µs would be rounded to 1000 µs, so it is already 1 ms.
        if time_ns >= unit_ns * 0.9995 or unit_ns == 1:
            return f"{three_digits(time_ns / unit_ns, more)} {unit}"
    raise AssertionError("the last unit takes everything")


def three_digits(value: float, more: int = 0) -> str:
    """Three significant digits, or `more`, with thousands separators: `1.25`, `87.3`, `1,234`."""
    size = abs(value)
    if size >= 99.95 or value == 0:
        return f"{value:,.{more}f}"
    return f"{value:.{1 + more}f}" if size >= 9.995 else f"{value:.{2 + more}f}"


def told_apart(form: Callable[[float, int], str], value: float, other: float) -> str:
    """A value with as many more digits as tell it from another; with none where both are equal."""
    differing = (form(value, more) for more in range(_MORE_DIGITS) if form(value, more) != form(other, more))
    return next(differing, form(value, 0))


def format_iops(per_s: float, more: int = 0) -> str:
    return three_digits(per_s, more)


def format_mib_per_s(bytes_per_s: float, more: int = 0) -> str:
    return three_digits(bytes_per_s / MIB, more)


def format_count(count: int) -> str:
    return f"{count:,}"


def format_percent(share: float | None) -> str:
    """Neither almost nothing nor almost all is rounded to nothing or all."""
    if share is None:
        return "–"
    if 0.995 <= share < 1 - ROUNDING:
        return ">99 %"
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def format_share_tenths(share: float) -> str:
    if 0.9995 <= share < 1 - ROUNDING:
        return ">99.9%"
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def only_percent(share: float) -> str:
    """`only 12 %`, or `less than 1 %`."""
    shown = format_percent(share)
    return "less than 1 %" if shown.startswith("<") else f"only {shown}"


def format_variation(share: float) -> str:
    """Of rates between intervals: `3.25 %`."""
    return f"{three_digits(share * 100)} %"


def format_coverage(share: float) -> str:
    """A coverage of 99.96 % is not all."""
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


def format_label(value: object) -> str:
    """What a run was labelled with: 78.1, not 78.10000000000001, and no powers of ten."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_name(parts: Iterable[str]) -> str:
    """A load by its parts, of which fractions are labels: rounded where it is shown, exact where it is compared."""
    return ", ".join(map(_rounded, parts))


def _rounded(part: str) -> str:
    found = _FRACTION.fullmatch(part)
    if found is None:
        return part
    value, unit = float(found[1]), found[2]
    return f"{format_iops(value)}{unit}" if unit else format_label(value)


def format_runs(runs: Sequence[int]) -> str:
    """`run 3`, `runs 3-7, 9`."""
    spans: list[tuple[int, int]] = []
    for run in sorted(set(runs)):
        if spans and run == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], run
        else:
            spans.append((run, run))
    said = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"run {said}" if len(set(runs)) == 1 else f"runs {said}"


def format_seconds(seconds: float) -> str:
    """`8 s`, `1 min 20 s`, `2 h 5 min` for remaining times and durations."""
    return _core.format_seconds(seconds)


def postgresql_bytes(text: str) -> int:
    """A size as PostgreSQL shows it, such as 128MB: powers of 1024. Raises ValueError."""
    units = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "B": 1}
    number = text.strip().rstrip("kKMGTB")
    return int(float(number) * units[text.strip()[len(number) :]])


def format_counted(count: int, nouns: str) -> str:
    """`nouns` is a plural in -s, such as requests."""
    return f"{format_count(count)} {nouns.removesuffix('s') if count == 1 else nouns}"


def named_words(count: int) -> str:
    """How many targets, devices or the like the user named."""
    return f"{format_count(count)} {'was' if count == 1 else 'were'} named"


def plural(operation: str) -> str:
    """Of an operation's name."""
    return operation + ("es" if operation.endswith("sh") else "s")
