"""Figures as people read them."""

from __future__ import annotations

import pytest

from brickyard.units import (
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    format_seconds,
    format_share_tenths,
    format_size,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [(512, "512 B"), (4096, "4 KiB"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), (2 << 30, "2 GiB"), (0, "0 B"),
     (1023 << 40, "1,023 TiB")],
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(0, "0"), (16, "16.0 ns"), (999, "999 ns"), (999.9, "1.00 µs"), (1_250_000, "1.25 ms"), (87_340, "87.3 µs"),
     (15e9, "15.0 s"), (3600e9, "3,600 s"), (None, "–"), (999_499_999, "999 ms"), (999_600_000, "1.00 s")],
)  # fmt: skip
def test_times(time_ns: float | None, text: str) -> None:
    assert format_ns(time_ns) == text


def test_rates_have_three_digits_and_separators() -> None:
    assert format_iops(1_234_567.8) == "1,234,568"
    assert format_iops(72.53) == "72.5"
    assert format_mib_per_s(118.65 * (1 << 20)) == "119"
    assert format_mib_per_s(1.5 * (1 << 20)) == "1.50"
    assert format_percent(1.024) == "102 %"
    assert format_percent(0.995) == ">99 %"
    assert format_percent(sum([0.1] * 10)) == "100 %"
    assert [format_share_tenths(share) for share in (0.0004, 0.25, 0.9996, 1.0)] == [
        "<0.1%",
        "25.0%",
        ">99.9%",
        "100.0%",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.25, "1.2 s"), (59.4, "59 s"), (60, "1 min"), (80, "1 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
