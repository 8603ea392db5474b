"""Duty: what several hosts are warned of, as one warning with their names. Refusal: it judges nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from brickyard.analysis.figures.hosts import named
from brickyard.analysis.judging import caveats
from brickyard.analysis.judging.judged import Judged
from brickyard.analysis.judging.summary import FIGURE, ranged
from brickyard.schema import RunWarning

TARGET = "{target}"


@dataclass(frozen=True)
class _Met:
    """A warning of one host, without the name of its target."""

    warning: RunWarning
    text: str
    target: str


def hosts_alike(hosts: Mapping[str, Judged]) -> list[RunWarning]:
    """Each host by the rules for one; warnings that differ in their figures or targets alone become one, figures as
    their range."""
    found: dict[tuple[str, str, str], dict[str, _Met]] = {}
    for host, judged in hosts.items():
        for warning in caveats.warnings(judged, caveats.OF_HOST):
            met = _met(judged, warning)
            found.setdefault((warning.id, warning.severity, FIGURE.sub("#", met.text)), {}).setdefault(host, met)
    return [_one(own) for own in found.values()]


def _met(judged: Judged, warning: RunWarning) -> _Met:
    """Of several targets of a host the name is needed."""
    paths = [target.path for target in judged.start.targets] if judged.start else []
    target = paths[0] if len(paths) == 1 else ""
    return _Met(warning, warning.text.replace(target, TARGET) if target else warning.text, target)


def _one(own: Mapping[str, _Met]) -> RunWarning:
    targets = {met.target for met in own.values()}
    text = ranged([met.text for met in own.values()])
    if len(targets) > 1 and text.startswith(TARGET):
        text = f"The target{text.removeprefix(TARGET)}"
    text = text.replace(TARGET, targets.pop() if len(targets) == 1 else "the target")
    return msgspec.structs.replace(next(iter(own.values())).warning, text=f"{named(list(own))}: {text}")
