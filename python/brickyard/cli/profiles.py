"""Duty: `brickyard profiles`. Refusal: no parsing; titles come out of the core's validation."""

from __future__ import annotations

import json as jsonlib
import sys

from brickyard import profiles
from brickyard.cli import options
from brickyard.cli.output import emit, stdout, table


def list_profiles(*, json: options.Json = False) -> int:
    """List the profiles that ship with Brickyard."""
    found = [(name, jsonlib.loads(profiles.validate(profiles.read(name), []))) for name in profiles.names()]
    if json:
        keys = ("title", "source", "about")
        emit({"profiles": [{"name": name, **{key: plan[key] for key in keys}} for name, plan in found]})
    else:
        rows = [[name, plan["title"]] for name, plan in found]
        stdout().print(table("", [("profile", "left"), ("title", "left")], rows))
    return 0


def show_profile(name: str, /, *, json: options.Json = False) -> int:
    """Show the text of one profile.

    Parameters
    ----------
    name
        The name of a shipped profile, or a path.
    """
    profile = profiles.read(name)
    plan = jsonlib.loads(profiles.validate(profile, []))
    if json:
        emit({"name": profile.name, "place": profile.place, "text": profile.text, "plan": plan})
    else:
        sys.stdout.write(profile.text if profile.text.endswith("\n") else profile.text + "\n")
    return 0
