"""Duty: what several hosts are warned of, as one warning with their names. Refusal: it judges nothing itself."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from brickyard.analysis.figures.hosts import named
from brickyard.analysis.judging import caveats
from brickyard.analysis.judging.judged import Judged
from brickyard.analysis.judging.merging import grouped, kind_of, merged
from brickyard.schema import RunWarning
from brickyard.schema.warning import TARGET


@dataclass(frozen=True)
class _Met:
    """A warning of one host."""

    host: str
    warning: RunWarning
    is_lone: bool
    """Of several targets of a host the name is needed."""

    def key(self) -> Hashable:
        return self.warning.severity, kind_of(self.warning, (TARGET,) if self.is_lone else ())


def hosts_alike(hosts: Mapping[str, Judged]) -> list[RunWarning]:
    """Each host by the rules for one; warnings that differ in their figures or targets alone become one, figures as
    their range."""
    met = [
        _Met(host, warning, judged.start is not None and len(judged.start.targets) == 1)
        for host, judged in hosts.items()
        for warning in caveats.warnings(judged, caveats.OF_HOST)
    ]
    return [_one(own) for own in grouped(met, _Met.key)]


def _one(own: Sequence[_Met]) -> RunWarning:
    """With the hosts before its text; where the worst one speaks, its host as well."""
    told = merged([one.warning for one in own])
    said = told.warning.wording
    if said is None:
        raise ValueError(f"the warning {told.warning.id} has no wording")
    whose, names = "{hosts}: ", {"hosts": [named(list(dict.fromkeys(one.host for one in own)))]}
    if told.is_worst:
        whose = "{hosts} (figures of {worst}, the worst): "
        names["worst"] = [next(one.host for one in own if one.warning.wording is said)]
    worded = msgspec.structs.replace(said, template=f"{whose}{said.template}", names={**said.names, **names})
    return msgspec.structs.replace(told.warning, text=worded.words(), wording=worded)
