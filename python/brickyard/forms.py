"""Duty: what can be set of a profile, as the schema of the core has it, with the value that it has now: the fields of a
form. Refusal: nothing is validated here; the core says what is wrong with a value.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

from brickyard import profiles
from brickyard.ready import ready
from brickyard.schema import plan_document
from brickyard.schema.plan import Plan
from brickyard.study.designs.design import read_design
from brickyard.study.designs.texts import names as study_names
from brickyard.study.designs.texts import read as study_text

Kind = Literal["integer", "boolean", "choice", "text"]
SPELLED = ("Duration", "Bytes", "Percent", "Region", "Passes", "RequestSizes")
"""Types that are written as one word, such as `5min` or `64KiB`."""
LEVELS = ("Phase", "Stream")


class Choice(msgspec.Struct, frozen=True):
    value: str
    about: str


class Field(msgspec.Struct, frozen=True):
    """One key. `value` is empty where the streams of the profile differ in it."""

    key: str
    kind: Kind
    about: str
    value: str
    choices: list[Choice]
    part: Literal["run", "phase", "stream"]


class ProfileForm(msgspec.Struct, frozen=True):
    name: str
    title: str
    about: str
    source: str
    text: str
    writes: bool
    fields: list[Field]


class ProfileRow(msgspec.Struct, frozen=True):
    name: str
    title: str
    about: str
    writes: bool


class StudyRow(msgspec.Struct, frozen=True):
    name: str
    title: str
    about: str


def profile_rows() -> list[ProfileRow]:
    """Shipped profiles that run on files, devices and models; programs over directories are for the command line."""
    found = []
    for name in profiles.names():
        plan = profiles.validate(profiles.read(name), [])
        if not any(stream.program for phase in plan.phase for stream in phase.stream):
            found.append(ProfileRow(name, plan.title or name, plan.about, _writes(plan)))
    return found


@cache
def study_rows() -> list[StudyRow]:
    """Shipped studies."""
    designs = [read_design(study_text(name)) for name in study_names()]
    return [StudyRow(design.name, design.title, design.about) for design in designs]


def profile_form(name: str) -> ProfileForm:
    """Of a shipped profile; the caller has checked its name."""
    found = profiles.read(name)
    plan = profiles.validate(found, [])
    return ProfileForm(
        name, plan.title or name, plan.about, plan.source, found.text, _writes(plan), _fields(plan_document(plan))
    )


def _writes(plan: Plan) -> bool:
    return any(
        stream.operations.write > 0 or stream.operations.trim > 0 or bool(stream.chain)
        for phase in plan.phase
        for stream in phase.stream
    )


class SchemaPart(msgspec.Struct, frozen=True):
    """As much of JSON Schema as a form is made of."""

    type: str | list[str] = ""
    description: str = ""
    enum: list[object] | None = None
    const: object = None
    one_of: list[SchemaPart] = msgspec.field(name="oneOf", default_factory=list)
    any_of: list[SchemaPart] = msgspec.field(name="anyOf", default_factory=list)
    refers: str = msgspec.field(name="$ref", default="")
    properties: dict[str, SchemaPart] = msgspec.field(default_factory=dict)
    parts: dict[str, SchemaPart] = msgspec.field(name="$defs", default_factory=dict)


@cache
def _schema() -> SchemaPart:
    from brickyard import _core

    return msgspec.json.decode(_core.schema(), type=SchemaPart)


def _fields(plan: Any) -> list[Field]:
    whole = _schema()
    phases = plan["phase"]
    streams = [stream for phase in phases for stream in phase["stream"]]
    found = [field for key, said in whole.properties.items() if (field := _field(key, said, [plan], "run"))]
    parts: list[tuple[Literal["phase", "stream"], list[Any]]] = [("phase", phases), ("stream", streams)]
    for name, (part, items) in zip(LEVELS, parts, strict=True):
        listed = whole.parts[name].properties.items()
        found += [field for key, said in listed if (field := _field(key, said, items, part))]
    return [field for field in found if field.key not in LEFT_OUT]


LEFT_OUT = ("title", "about", "source", "name", "table", "target", "each")
"""Words about a profile, and what a form has otherwise."""


def _field(key: str, said: SchemaPart, items: list[Any], part: Literal["run", "phase", "stream"]) -> Field | None:
    """None for what is more than one word: tables and lists are changed as key=value."""
    kind, choices = _kind(said)
    if kind is None:
        return None
    values = {_spelled(item.get(key)) for item in items}
    value = values.pop() if len(values) == 1 else ""
    return Field(key, kind, said.description, value, choices, part)


def _kind(said: SchemaPart) -> tuple[Kind | None, list[Choice]]:
    if said.type == "boolean":
        return "boolean", []
    if said.type == "integer" or (isinstance(said.type, list) and "integer" in said.type):
        return "integer", []
    name = _named(said)
    if name in SPELLED:
        return "text", []
    choices = _choices(_schema().parts.get(name, SchemaPart()))
    return ("choice", choices) if choices else (None, [])


def _named(said: SchemaPart) -> str:
    refers = said.refers or next((one.refers for one in said.any_of if one.refers), "")
    return refers.rpartition("/")[2]


def _choices(said: SchemaPart) -> list[Choice]:
    if said.enum is not None:
        return [Choice(str(value), "") for value in said.enum]
    several = [(one, [one.const] if one.enum is None else one.enum) for one in said.one_of]
    if any(values == [None] for _, values in several):
        return []
    return [Choice(str(value), one.description) for one, values in several for value in values]


def _spelled(value: Any) -> str:
    """As a person would write it."""
    if value is None or isinstance(value, dict | list):
        return _sizes(value) if isinstance(value, list) else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return _duration(int(text[:-2])) if text.endswith("ns") and text[:-2].isdigit() else text


def _sizes(value: list[Any]) -> str:
    from brickyard import _core

    sizes = [one.get("size") for one in value if isinstance(one, dict)]
    return _core.format_bytes(sizes[0]).replace(" ", "") if len(sizes) == 1 and isinstance(sizes[0], int) else ""


def _duration(time_ns: int) -> str:
    for unit, size in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if time_ns and time_ns % size == 0:
            return f"{time_ns // size}{unit}"
    return f"{time_ns}ns" if time_ns else "0s"


ready(SchemaPart)
