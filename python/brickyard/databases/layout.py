"""Duty: which tiles a TerraServer database of a given size holds, how tiles are addressed, and which brick holds which.

A tile is 200 × 200 pixels; a pixel is 2^(scale - 10) metres wide; x and y are UTM easting and northing divided by the
tile's edge in metres, so that a tile of one scale covers four of the next finer one. A *city* is a square around a
famous place, present in all three themes with its whole pyramid of scales. Cities are taken in the order of the
gazetteer, then squares around them. Same size and seed, same tiles: nothing about them needs to be stored.

Refusal: no database, no pictures. Addresses are whole numbers throughout.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources

import msgspec

from brickyard.databases.jpeg import AERIAL, MAP, URBAN, mean_tile_bytes
from brickyard.errors import BadInputError
from brickyard.ready import ready
from brickyard.units import format_size

TILE_PIXELS = 200
SCALES = {AERIAL: range(10, 17), MAP: range(11, 22), URBAN: range(8, 17)}
# A map's finest scale is 2 m, so it has half the tiles along an edge. Urban pictures cover the middle of a city in
# 0.25 m.
EDGE_SHARE = {AERIAL: 1, MAP: 2, URBAN: 1}
EDGES = (4, 8, 16, 32, 64, 128, 256, 512)  # of a city's aerial picture in tiles; 512 tiles are 102 km
FEWEST_CITIES = 24  # enough for three bricks to share them, and for popularity to have ranks
UNIT_TILES = 512  # tiles that one transaction of the loader brings, about 5 MB
TRIES = 4  # to meet a size
MOST_BRICKS = 64
MOST_RINGS = 40  # squares around each place, 6,561 of them


@dataclass(frozen=True)
class Place:
    name: str
    state: str
    latitude: float
    longitude: float
    scene: int
    easting_m: int
    northing_m: int


@dataclass(frozen=True)
class Tiles:
    """A rectangle of tiles of one theme, scale and UTM zone: x and y from the first to the last."""

    image: int
    theme: int
    scale: int
    scene: int
    x: int
    y: int
    width: int
    height: int

    @property
    def count(self) -> int:
        return self.width * self.height

    def addresses(self) -> Iterator[tuple[int, int]]:
        for y in range(self.y, self.y + self.height):
            for x in range(self.x, self.x + self.width):
                yield x, y


@dataclass(frozen=True)
class Image:
    """A source picture: what one theme shows of one city, cut into tiles."""

    number: int
    theme: int
    scene: int
    title: str
    state: str
    base: Tiles


@dataclass(frozen=True)
class Group:
    """What never is divided between bricks: one theme in one UTM zone."""

    theme: int
    scene: int
    tiles: int
    brick: int


class _Places(msgspec.Struct, frozen=True):
    place: tuple[Place, ...]


ready(_Places)


@cache
def places() -> tuple[Place, ...]:
    text = resources.files("brickyard.databases").joinpath("places.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Places).place


def tile_of(theme: int, scale: int, easting_m: int, northing_m: int) -> tuple[int, int]:
    """x and y of the tile that a point lies in. `theme` only says which scales there are."""
    if scale not in SCALES[theme]:
        raise ValueError(f"theme {theme} has no scale {scale}")
    quarter_m = TILE_PIXELS << (scale - 8)  # an edge in quarters of a metre, as the finest scale is 0.25 m
    return easting_m * 4 // quarter_m, northing_m * 4 // quarter_m


class Layout:
    """All tiles of a database of about `size_bytes`, spread over `bricks`."""

    def __init__(self, size_bytes: int, bricks: int = 1) -> None:
        self.size_bytes, self.bricks = size_bytes, bricks
        mean = (mean_tile_bytes(AERIAL) * 4 + mean_tile_bytes(MAP) + mean_tile_bytes(URBAN) * 4) / 9
        wanted = size_bytes / mean
        self.edge = next((e for e in reversed(EDGES) if _city_tiles(e) * FEWEST_CITIES <= wanted), EDGES[0])
        cities = wanted / _city_tiles(self.edge)
        for _ in range(TRIES):
            if cities < 0.5:
                smallest = format_size(round(2 * _city_tiles(EDGES[0]) * mean))
                raise BadInputError(f"{format_size(size_bytes)}: a city alone has {smallest}; choose a larger size")
            self.images = _images(self.edge, max(round(cities), 1), format_size(size_bytes))
            self.pyramid = _pyramid(self.images)
            # The coarsest scales have more tiles than a quarter of the next finer ones: how many shows when laid out.
            cities *= wanted / self.tiles
        if not 1 <= bricks <= MOST_BRICKS:
            raise BadInputError(f"{bricks} bricks: a database can be divided into 1 to {MOST_BRICKS}")

    @property
    def cities(self) -> int:
        return len(self.images) // len(SCALES)

    @property
    def tiles(self) -> int:
        return sum(part.count for part in self.pyramid)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Themes and zones, each on a brick: the largest first, always onto the brick that has least."""
        counts: dict[tuple[int, int], int] = {}
        for part in self.pyramid:
            counts[part.theme, part.scene] = counts.get((part.theme, part.scene), 0) + part.count
        loads = [0] * self.bricks
        made = []
        for (theme, scene), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            brick = loads.index(min(loads))
            loads[brick] += count
            made.append(Group(theme, scene, count, brick))
        return tuple(sorted(made, key=lambda group: (group.theme, group.scene)))

    def brick_of(self, theme: int, scene: int) -> int:
        """Which brick answers; what there is no tile of is the first one's."""
        return next((g.brick for g in self.groups if (g.theme, g.scene) == (theme, scene)), 0)

    def units(self, brick: int) -> list[tuple[Tiles, ...]]:
        """What a loader brings in one transaction each, in an order that never changes."""
        made: list[tuple[Tiles, ...]] = []
        pending: list[Tiles] = []
        for part in self._strips(brick):
            pending.append(part)
            if sum(strip.count for strip in pending) >= UNIT_TILES:
                made.append(tuple(pending))
                pending = []
        return [*made, tuple(pending)] if pending else made

    def _strips(self, brick: int) -> Iterator[Tiles]:
        for part in self.pyramid:
            if self.brick_of(part.theme, part.scene) != brick:
                continue
            rows = max(UNIT_TILES // part.width, 1)
            for y in range(part.y, part.y + part.height, rows):
                yield replace(part, y=y, height=min(rows, part.y + part.height - y))

    def routes(self) -> list[tuple[int, int, int]]:
        """(brick, theme, zone), for a mapping: what no route names is the first brick's."""
        return [(group.brick, group.theme, group.scene) for group in self.groups if group.brick]


def _images(edge: int, cities: int, size: str) -> tuple[Image, ...]:
    """Three for each city; the finest scale of each is its base."""
    if cities > len(places()) * (2 * MOST_RINGS + 1) ** 2:
        raise BadInputError(f"{size}: more than there is room for around the places of the gazetteer")
    made: list[Image] = []
    taken: set[tuple[int, int, int, int]] = set()
    for place, name, dx, dy in _sites():
        bases = [_base(edge, len(made) + k, theme, place, dx, dy) for k, theme in enumerate(SCALES)]
        keys = {(base.theme, base.scene, base.x, base.y) for base in bases}
        if keys & taken:
            continue
        taken |= keys
        made += [Image(b.image, b.theme, b.scene, name, place.state, b) for b in bases]
        if len(made) == len(SCALES) * cities:
            return tuple(made)
    raise BadInputError(f"{size}: more than there is room for around the places of the gazetteer")


def _base(edge: int, number: int, theme: int, place: Place, dx: int, dy: int) -> Tiles:
    edge //= EDGE_SHARE[theme]
    scale = SCALES[theme][0]
    x, y = tile_of(theme, scale, place.easting_m, place.northing_m)
    return Tiles(number, theme, scale, place.scene, (x // edge + dx) * edge, (y // edge + dy) * edge, edge, edge)


def _pyramid(images: Sequence[Image]) -> tuple[Tiles, ...]:
    """Every tile once, in rectangles: coarse tiles that several cities share belong to the first of them."""
    made: list[Tiles] = []
    seen: set[tuple[int, int, int, int, int]] = set()
    for image in images:
        part = image.base
        for scale in SCALES[image.theme]:
            key = (part.theme, scale, part.scene, part.x, part.y)
            if part.count > 1 or key not in seen:
                seen.add(key)
                made.append(part)
            half = max(part.width // 2, 1)
            part = Tiles(part.image, part.theme, scale + 1, part.scene, part.x // 2, part.y // 2, half, half)
    return tuple(made)


def _city_tiles(edge: int) -> int:
    """About: 4/3 of the finest scale, for aerial, a quarter as much map, and urban."""
    return edge * edge * 3


def _sites() -> Iterator[tuple[Place, str, int, int]]:
    """Where cities may be: the places themselves, then the squares around all of them, ring by ring."""
    for place in places():
        yield place, place.name, 0, 0
    for ring in range(1, MOST_RINGS + 1):
        for dx, dy in _ring(ring):
            for place in places():
                yield place, f"{place.name} {_direction(dx, dy)}", dx, dy


def _ring(ring: int) -> Sequence[tuple[int, int]]:
    span = range(-ring, ring + 1)
    return [(dx, dy) for dy in span for dx in span if max(abs(dx), abs(dy)) == ring]


def _direction(dx: int, dy: int) -> str:
    north = f"{abs(dy)}{'N' if dy > 0 else 'S'}" if dy else ""
    east = f"{abs(dx)}{'E' if dx > 0 else 'W'}" if dx else ""
    return north + east
