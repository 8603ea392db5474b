"""Duty: `brickyard profiles`. Refusal: no parsing; titles come out of the core's validation."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from brickyard import profiles
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_text, stdout, table
from brickyard.errors import BadInputError, one_line
from brickyard.schema import plan_document
from brickyard.schema.plan import Plan

app = App(name="profiles", help="List the workloads that ship with Brickyard.")


@app.default
def list_profiles(*, json: options.Json = False) -> int:
    """List the profiles that ship with Brickyard."""
    found = [(name, profiles.validate(profiles.read(name), [])) for name in profiles.names()]
    if json:
        told = [{"name": name, "title": plan.title, "source": plan.source, "about": plan.about} for name, plan in found]
        emit({"profiles": told})
    else:
        rows = [[name, plan.title] for name, plan in found]
        stdout().print(table("", [("profile", "left"), ("title", "left")], rows))
    return 0


@app.command(name="show", help="The text of one profile.")
def show_profile(
    name: str,
    /,
    *,
    format: Annotated[  # noqa: A002
        Literal["toml", "fio"], Parameter(name=["--format", "-f"], help="fio: write the profile as a fio job file.")
    ] = "toml",
    overrides: options.Overrides = (),
    json: options.Json = False,
) -> int:
    """Show the text of one profile, or the same workload as a fio job file.

    Parameters
    ----------
    name
        The name of a shipped profile, or a path.
    """
    profile = profiles.read(name)
    plan = profiles.validate(profile, list(overrides))
    if overrides and format == "toml" and not json:
        raise BadInputError("--set changes the plan, not the text of the profile; add --format fio or --json")
    text = profile.text if format == "toml" else _as_fio(profile.name, plan)
    if json:
        emit({"name": profile.name, "place": profile.place, "text": text, "plan": plan_document(plan)})
    else:
        print_text(text if text.endswith("\n") else text + "\n")
    return 0


def _as_fio(name: str, plan: Plan) -> str:
    from brickyard.formats.fio_export import export_fio

    try:
        return export_fio(plan)
    except BadInputError as error:
        raise BadInputError(f"{name}: {one_line(error)}") from error
