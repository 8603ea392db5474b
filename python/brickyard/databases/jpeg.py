"""Duty: image tiles, 200 × 200 pixels, each a real JPEG that no other tile equals and no compressor makes smaller.

A few base pictures are coded once: a smooth relief in the DC coefficients, noise in the AC coefficients. A Huffman
code in a JPEG says how many bits of an AC coefficient follow, and any value of these bits is legal. So a new tile is a
base picture with all of these bits, about half of the file, drawn anew, which costs a few operations on long integers
instead of an encoder. What is drawn is the sum of one number out of each of three pools: 16.7 million different ones.

Refusal: no picture of a place. What counts is that a tile decodes, looks like terrain, and has a tile's size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from random import Random

EDGE_PIXELS = 200
BLOCKS = EDGE_PIXELS // 8
BASES = 24  # pictures a kind; sizes spread over them as below
POOLS, POOLED = 3, 256
AERIAL, MAP, URBAN = 1, 2, 4
# TerraServer's tiles are about 8 to 10 KB; the number of AC coefficients in a block is chosen so that these kinds span
# it.
COEFFICIENTS = {AERIAL: (15.5, 19.5), MAP: (14.5, 18.5), URBAN: (14.5, 18.5)}
SIZES = (5, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3)  # bits of the coefficients, in zigzag order; then as the last
IS_COLOUR = {AERIAL: False, MAP: True, URBAN: True}
CHROMA_STEP = {AERIAL: 0, MAP: 3, URBAN: 4}
BRIGHTNESS = {AERIAL: 2, MAP: 22, URBAN: 2}

# Huffman tables of our own, as T.81 allows: how many codes there are of each length, then their symbols. Short codes
# for long coefficients, so that most of a file is bits that may be any. Table 0 is for brightness, table 1 for colour.
END_OF_BLOCK = 0x00
DC_TABLES = ((bytes([0, 2, 2, 2, 1, 1, 1]), bytes(range(9))), (bytes([1, 1, 1, 1, 1, 1, 1]), bytes(range(7))))
AC_TABLES = ((bytes([0, 3, 1, 1]), bytes([4, 3, 5, 2, END_OF_BLOCK])), (bytes([1]), bytes([END_OF_BLOCK])))
QUANTIZERS = bytes([16, *(1 + k // 8 for k in range(1, 64))])  # fine ones: many bits a coefficient, little contrast


@dataclass(frozen=True)
class Base:
    """A picture as one integer, and which of its bits may be drawn anew."""

    picture: int
    free: int
    size_bytes: int


def tile_key(seed: int, theme: int, scale: int, scene: int, x: int, y: int, version: int) -> int:
    packed = struct.pack(">qHHHiiI", seed, theme, scale, scene, x, y, version)
    return int.from_bytes(blake2b(packed, digest_size=16).digest(), "big")


def make_tile(theme: int, key: int) -> bytes:
    """The tile of a theme that a key stands for: the same key, the same bytes."""
    bases = base_pictures(theme)
    base = bases[key % len(bases)]
    a, b, c = pools()
    drawn = a[key >> 8 & 0xFF] ^ b[key >> 16 & 0xFF] ^ c[key >> 24 & 0xFF]
    return (base.picture ^ (drawn & base.free)).to_bytes(base.size_bytes, "big")


def mean_tile_bytes(theme: int) -> float:
    bases = base_pictures(theme)
    return sum(base.size_bytes for base in bases) / len(bases)


@cache
def base_pictures(theme: int) -> tuple[Base, ...]:
    low, high = COEFFICIENTS[theme]
    return tuple(
        _base(theme * 1000 + number, theme, low + (high - low) * number / (BASES - 1)) for number in range(BASES)
    )


@cache
def pools() -> tuple[list[int], ...]:
    longest = max(base.size_bytes for theme in COEFFICIENTS for base in base_pictures(theme))
    random = Random(POOLS)  # noqa: S311
    return tuple([random.getrandbits(8 * longest) for _ in range(POOLED)] for _ in range(POOLS))


def _base(seed: int, theme: int, coefficients: float) -> Base:
    """One picture, coded; `coefficients` is how many AC coefficients a block has, on average."""
    random = Random(seed)  # noqa: S311
    bits = _Bits()
    planes = [_relief(random, 300, BRIGHTNESS[theme] * 4)]
    if IS_COLOUR[theme]:
        planes += [_relief(random, CHROMA_STEP[theme] * 12, 0) for _ in range(2)]
    before = [0] * len(planes)
    for block in range(BLOCKS * BLOCKS):
        for plane, values in enumerate(planes):
            value = values[block]
            _code_dc(bits, _dc_codes(min(plane, 1)), value - before[plane])
            before[plane] = value
            count = int(coefficients - 3 + 7 * random.random()) if plane == 0 else 0
            _code_ac(bits, _ac_codes(min(plane, 1)), random, count)
    picture, free = bits.packed()
    head = _head(len(planes))
    whole = head + picture + b"\xff\xd9"
    mask = bytes(len(head)) + free + bytes(2)
    return Base(int.from_bytes(whole, "big"), int.from_bytes(mask, "big"), len(whole))


def _relief(random: Random, height: int, level: int) -> list[int]:
    """Hills as DC coefficients, block by block: three octaves of corners, each smoothed between its corners."""
    found = [0.0] * (BLOCKS * BLOCKS)
    for cells, share in ((3, 0.6), (6, 0.3), (12, 0.1)):
        corners = [[random.random() - 0.5 for _ in range(cells + 2)] for _ in range(cells + 2)]
        for index in range(BLOCKS * BLOCKS):
            down, right = divmod(index, BLOCKS)
            v, u = down * cells / BLOCKS, right * cells / BLOCKS
            i, j = int(v), int(u)
            a, b = v - i, u - j
            top = corners[i][j] * (1 - b) + corners[i][j + 1] * b
            low = corners[i + 1][j] * (1 - b) + corners[i + 1][j + 1] * b
            found[index] += share * (top * (1 - a) + low * a)
    return [int(value * height / 2) + level // 2 for value in found]


def _code_dc(bits: _Bits, codes: dict[int, tuple[int, int]], difference: int) -> None:
    size = abs(difference).bit_length()
    bits.put(*codes[size])
    # Negative values are sent as value - 1 in the low bits (T.81, F.1.2.1).
    bits.put((difference if difference >= 0 else difference - 1) & ((1 << size) - 1), size)


def _code_ac(bits: _Bits, codes: dict[int, tuple[int, int]], random: Random, count: int) -> None:
    """The first coefficients of the zigzag; sizes vary by one bit, so that codes do not repeat from block to block."""
    for place in range(count):
        size = SIZES[min(place, len(SIZES) - 1)] - int(2 * random.random())
        bits.put(*codes[size])
        bits.put(random.getrandbits(size), size, is_free=True)
    bits.put(*codes[END_OF_BLOCK])


class _Bits:
    """The entropy-coded part under construction, with a mark on each bit that may be any."""

    def __init__(self) -> None:
        self.value = self.free = self.count = 0
        self.bytes, self.masks = bytearray(), bytearray()

    def put(self, code: int, length: int, *, is_free: bool = False) -> None:
        self.value = self.value << length | code
        self.free = self.free << length | ((1 << length) - 1 if is_free else 0)
        self.count += length
        while self.count >= 8:
            self.count -= 8
            self._byte(self.value >> self.count & 0xFF, self.free >> self.count & 0xFF)
            self.value &= (1 << self.count) - 1
            self.free &= (1 << self.count) - 1

    def _byte(self, value: int, free: int) -> None:
        if value == 0xFF:  # a marker to a decoder unless a zero byte follows
            self.bytes += b"\xff\x00"
            self.masks += b"\0\0"
            return
        if value | free == 0xFF:  # one zero bit stays as it is, so that the byte never becomes 0xFF
            zero = ~value & 0xFF
            free &= ~(zero & -zero)
        self.bytes.append(value)
        self.masks.append(free)

    def packed(self) -> tuple[bytes, bytes]:
        if self.count:
            pad = 8 - self.count
            self.put((1 << pad) - 1, pad)  # the last byte is filled with ones (T.81, F.1.2.3)
        return bytes(self.bytes), bytes(self.masks)


def _codes(lengths: bytes, symbols: bytes) -> dict[int, tuple[int, int]]:
    """Symbol → (code, length), by the procedure of T.81, annex C."""
    made, code, index = {}, 0, 0
    for length, count in enumerate(lengths, start=1):
        for _ in range(count):
            made[symbols[index]] = (code, length)
            code += 1
            index += 1
        code <<= 1
    return made


@cache
def _dc_codes(table: int) -> dict[int, tuple[int, int]]:
    return _codes(*DC_TABLES[table])


@cache
def _ac_codes(table: int) -> dict[int, tuple[int, int]]:
    return _codes(*AC_TABLES[table])


def _head(components: int) -> bytes:
    """Everything before the entropy-coded part: JFIF, quantizers, frame, Huffman tables, scan."""
    tables = min(components, 2)
    numbers = range(1, components + 1)
    frame = struct.pack(">BHHB", 8, EDGE_PIXELS, EDGE_PIXELS, components)
    frame += b"".join(bytes((number, 0x11, 0)) for number in numbers)
    used = b"".join(bytes((number, 0x11 * min(number - 1, 1))) for number in numbers)
    huffman = b"".join(
        bytes((kind << 4 | number,)) + lengths.ljust(16, b"\0") + symbols
        for kind, of_kind in enumerate((DC_TABLES, AC_TABLES))
        for number, (lengths, symbols) in enumerate(of_kind[:tables])
    )
    return b"\xff\xd8" + b"".join(
        struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
        for marker, body in (
            (0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"),
            (0xDB, b"\0" + QUANTIZERS),
            (0xC0, frame),
            (0xC4, huffman),
            (0xDA, bytes((components,)) + used + bytes((0, 63, 0))),
        )
    )
