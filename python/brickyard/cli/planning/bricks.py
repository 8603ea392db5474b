"""Duty: `brickyard bricks`. Refusal: no parsing; what a brick is comes out of the core."""

from __future__ import annotations

from cyclopts import App
from msgspec import structs

from brickyard import bricks
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_text, stdout, table
from brickyard.units import format_size

app = App(name="bricks", help="List the modelled targets.")


@app.default
def list_bricks(*, json: options.Json = False) -> int:
    """List the modelled bricks that ship with Brickyard: whole arrays, and drives by themselves."""
    places = [place for place in bricks.texts() if not place.startswith("controllers/")]
    found = [(place, bricks.resolve(place.split("/", 1)[1], [])) for place in places]
    if json:
        documents = [
            {
                "name": item.brick.name,
                "kind": "own" if place.startswith("files/") else place.split("/", 1)[0].removesuffix("s"),
                "title": item.brick.title,
                "level": item.brick.level,
                "members": item.brick.members,
                "capacity_bytes": item.capacity_bytes,
            }
            for place, item in found
        ]
        keys, parts = bricks.override_keys()
        emit({"bricks": documents, "keys": keys, "parts": parts})
        return 0
    rows = [
        [
            f"sim:{item.brick.name}",
            f"{item.brick.members} × {item.brick.level}",
            format_size(item.capacity_bytes),
            "one drive" if item.brick.title == f"one {item.brick.name}" else item.brick.title,
        ]
        for _, item in found
    ]
    columns = [("target", "left"), ("members", "left"), ("capacity", "right"), ("title", "left")]
    stdout().print(table("", columns, rows, wrapped=("title",)))
    return 0


@app.command(name="show", help="The parts of one modelled target.")
def show_brick(name: str, /, *, overrides: options.BrickOverrides = (), json: options.Json = False) -> int:
    """Show the files that define a brick; every value states its origin, such as a data sheet.

    Parameters
    ----------
    name
        The name of a brick, such as terraserver-2003, with or without sim: before it.
    """
    found = bricks.describe(name, overrides)
    if json:
        emit({"name": found.brick["name"], **structs.asdict(found)})
        return 0
    for place, text in found.texts.items():
        print_text(f"# {place}\n{text}\n")
    return 0
