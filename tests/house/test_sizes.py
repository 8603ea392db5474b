"""A size means the same wherever it is written: in profiles, bricks and rulers, after `--set`, in every option."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brickyard import _core, bricks, profiles, rulers
from brickyard.cli.parts.conditioning import parse_rate
from brickyard.cli.parts.judging import sold_capacity
from brickyard.errors import BadInputError
from brickyard.study.running.aim import parse_size

POWERS = {letter: number for number, letter in enumerate("KMGTPE", 1)}
MEANT = {
    **{f"3{letter}{end}": 3 << (10 * power) for letter, power in POWERS.items() for end in ("", "i", "iB")},
    **{f"3{letter}B": 3 * 1000**power for letter, power in POWERS.items() if letter != "K"},
    "3 gib": 3 << 30,
    "3 gb": 3 * 10**9,
    "1.5TiB": 3 << 39,
    "1.5TB": 15 * 10**11,
    "4096": 4096,
    "4096B": 4096,
}
NO_SIZES = ["64KB", "64 kb", "1.5KB", "8Q", "GiB", "-1GiB", "1e9B", "1,000", "16EiB", "19EB", "0.3", "3GGB", "∞"]
PROFILE = "title = 't'\n[[phase]]\n[[phase.stream]]\nrequest = '512'\n"


def of_a_profile(text: str) -> int:
    told = profiles.validate(profiles.ProfileText("t", PROFILE, "here"), [f"bytes={text}"])
    return int(told.phase[0].bytes or 0)


def of_a_brick(text: str) -> int:
    told = bricks.resolve("sim:wd2500jd", [f"drive.cache_bytes={text}"])
    return told.brick.drive.cached_bytes


def of_a_ruler(text: str) -> int:
    return round(
        rulers.read(f"throughput>={text}B/s" if text.isdigit() else f"throughput>={text}/s").requirements[0].threshold
    )


def of_a_capacity(text: str) -> int | None:
    return sold_capacity(f"{text}B" if text.isdigit() else text)


def of_a_rate(text: str) -> int | None:
    return parse_rate(f"{text}B/s" if text.isdigit() else f"{text}/s")


READERS: list[Callable[[str], int | None]] = [
    _core.parse_bytes,
    of_a_profile,
    of_a_brick,
    of_a_ruler,
    parse_size,
    of_a_capacity,
    of_a_rate,
]


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_sizes_reads_the_same(reader: Callable[[str], int | None]) -> None:
    # A file of --size has room for requests.
    meant = {text: size for text, size in MEANT.items() if reader is not parse_size or size >= 1 << 20}
    assert meant
    assert {text: reader(text) for text in meant} == meant
    for text in NO_SIZES:
        if text == "0.3" and reader in (of_a_rate, of_a_ruler):
            continue  # a rate has parts of a byte
        with pytest.raises((ValueError, BadInputError)) as refused:
            reader(text)
        assert len(str(refused.value).splitlines()) == 1
        assert text in str(refused.value)


def test_kilobytes_are_refused_with_the_word_to_write() -> None:
    with pytest.raises(BadInputError, match=r"--size: `64KB`: KB is 1024 bytes to some and 1000 to others; write KiB"):
        parse_size("64KB")
