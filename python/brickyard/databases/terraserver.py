"""Duty: the TerraServer database in a PostgreSQL: make its schema, know it again, take it away, write its mapping.

Refusal: a schema `terraserver` without our mark is neither filled nor dropped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from brickyard.databases.connect import connected, spoken
from brickyard.databases.jpeg import AERIAL, MAP, URBAN
from brickyard.databases.layout import SCALES, Image, Layout, places
from brickyard.errors import BadInputError
from brickyard.ready import ready

if TYPE_CHECKING:
    import psycopg

MARK = "made by Brickyard: TerraServer 1"
LICENCE = "public domain"
DEFAULT_SEED = 1
TAKEN = {AERIAL: "1994-05-12", MAP: "1986-07-01", URBAN: "2002-03-29"}  # plausible for each kind of source


@dataclass(frozen=True)
class Brick:
    """One of the databases over which tiles are spread, and what it should hold."""

    layout: Layout
    seed: int
    number: int

    def described(self) -> dict[str, int]:
        return {
            "size_bytes": self.layout.size_bytes,
            "seed": self.seed,
            "bricks": self.layout.bricks,
            "brick": self.number,
        }

    def images(self) -> list[Image]:
        """Those whose tiles are here."""
        return [image for image in self.layout.images if self.layout.brick_of(image.theme, image.scene) == self.number]


def text_of(name: str) -> str:
    return resources.files("brickyard.databases").joinpath(name).read_text("utf-8")


class _Marked(msgspec.Struct, frozen=True):
    """What a database says of the brick in it."""

    size_bytes: int
    bricks: int
    seed: int
    brick: int


ready(_Marked)


def found_in(connection: psycopg.Connection[Any], name: str) -> Brick | None:
    """The brick that a database holds, or None where there is no schema terraserver."""
    row = connection.execute(
        "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = 'terraserver'"
    ).fetchone()
    if row is None:
        return None
    if row[0] != MARK:
        raise BadInputError(f"{name}: has a schema terraserver that Brickyard did not make; name another database")
    told = connection.execute("select value from terraserver.brick where name = 'brick'").fetchone()
    try:
        known = msgspec.convert(told[0] if told else {}, _Marked)
        return Brick(Layout(known.size_bytes, known.bricks), known.seed, known.brick)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadInputError(
            f"{name}: its schema terraserver is damaged; brickyard terraserver drop, then load"
        ) from error


def bricks_of(dsns: Sequence[str]) -> list[Brick]:
    """What the databases hold, which must be the bricks of one layout, in their order."""
    found = []
    for number, dsn in enumerate(dsns):
        with connected(dsn) as connection:
            brick = found_in(connection, spoken(dsn))
        if brick is None:
            raise BadInputError(f"{spoken(dsn)}: no TerraServer here; load it first with brickyard terraserver load")
        if brick.layout.bricks != len(dsns) or brick.number != number:
            raise BadInputError(
                f"{spoken(dsn)}: is brick {brick.number + 1} of {brick.layout.bricks}, here number {number + 1} of"
                f" {len(dsns)}; name them all and in the order in which they were loaded"
            )
        found.append(brick)
    if len({(brick.layout.size_bytes, brick.seed) for brick in found}) > 1:
        raise BadInputError("--to: bricks of different databases; name those that were loaded together")
    return found


def prepare(connection: psycopg.Connection[Any], brick: Brick, name: str) -> bool:
    """Makes the schema where there is none; says whether it was there already, of the same brick."""
    there = found_in(connection, name)
    if there is not None:
        if there.described() != brick.described():
            raise BadInputError(
                f"{name}: holds another TerraServer (size {there.layout.size_bytes:,} bytes, seed {there.seed}, brick"
                f" {there.number + 1} of {there.layout.bricks}); brickyard terraserver drop first, or ask for the same"
            )
        return True
    with connection.transaction():
        connection.execute(text_of("terraserver.sql"))
        connection.execute(f"comment on schema terraserver is '{MARK}'")
        _fill_small_tables(connection, brick)
    return False


def _fill_small_tables(connection: psycopg.Connection[Any], brick: Brick) -> None:
    cursor = connection.cursor()
    cursor.execute("insert into terraserver.brick values ('brick', %s)", (json.dumps(brick.described()),))
    metres = {theme: 2.0 ** (scales[0] - 10) for theme, scales in SCALES.items()}
    with cursor.copy(
        "copy terraserver.image (image_id, theme, scene, title, state, taken, metres_per_pixel, scale, x_first,"
        " y_first, x_last, y_last) from stdin"
    ) as copy:
        for image in brick.images():
            base = image.base
            corner = (base.x, base.y, base.x + base.width - 1, base.y + base.height - 1)
            head = (image.number, image.theme, image.scene, image.title, image.state, TAKEN[image.theme])
            copy.write_row((*head, metres[image.theme], base.scale, *corner))
    with cursor.copy("copy terraserver.download_area (image_id, tiles, licence) from stdin") as copy:
        for image in brick.images():
            copy.write_row((image.number, image.base.count, LICENCE))
    with cursor.copy(
        "copy terraserver.place (place_id, name, state, latitude, longitude, scene, easting_m, northing_m, is_famous)"
        " from stdin"
    ) as copy:
        for number, place in enumerate(places()):
            spot = (place.latitude, place.longitude, place.scene, place.easting_m, place.northing_m)
            copy.write_row((number, place.name, place.state, *spot, True))


def drop(dsn: str) -> bool:
    """Takes our schema away; says whether there was one."""
    with connected(dsn) as connection:
        if found_in(connection, spoken(dsn)) is None:
            return False
        connection.execute("drop schema terraserver cascade")
        return True


def mapping_text(layout: Layout) -> str:
    """The mapping of web pages to calls, with a route for each theme and zone where there are several bricks."""
    text = text_of("terraserver.toml")
    if layout.bricks == 1:
        return text
    lines = [text, f"# {layout.bricks} bricks: each theme of each UTM zone is whole on one of them."]
    for brick, theme, scene in layout.routes():
        lines.append(f'[[route]]\nbrick = {brick}\nwhere = {{ T = "{theme}", Z = "{scene}" }}\n')
    lines.append("# All else, the gazetteer too, which every brick has.\n[[route]]\nbrick = 0\n")
    return "\n".join(lines)
