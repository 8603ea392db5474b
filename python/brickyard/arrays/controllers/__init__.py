"""Duty: arrays of hardware controllers, by the output of the vendors' own tools. Refusal: what a tool cannot do safely
(such as dropping a member by ssacli) is refused by name, never imitated."""

from __future__ import annotations

from collections.abc import Iterator

from brickyard.arrays.array import Array
from brickyard.arrays.controllers.arcconf import Arcconf
from brickyard.arrays.controllers.ssacli import Ssacli
from brickyard.arrays.controllers.storcli import Storcli
from brickyard.arrays.controllers.tw_cli import TwCli
from brickyard.arrays.host import Host

CLASSES: dict[str, type[Array]] = {
    "storcli": Storcli,
    "perccli": Storcli,
    "tw_cli": TwCli,
    "arcconf": Arcconf,
    "ssacli": Ssacli,
}
CONTROLLERS = tuple(CLASSES)

__all__ = ["CLASSES", "CONTROLLERS", "controller_arrays", "controller_of"]


def controller_of(kind: str, rest: str, host: Host) -> Array:
    if kind in ("storcli", "perccli"):
        return Storcli(kind, rest, host)
    return {"tw_cli": TwCli, "arcconf": Arcconf, "ssacli": Ssacli}[kind](rest, host)


def controller_arrays(host: Host, kind: str) -> Iterator[Array]:
    """Of one kind's tool, where it is installed. A tool that answers nothing is an error: its arrays are not gone."""
    if kind in ("storcli", "perccli"):
        return Storcli.all_of(kind, host)
    kinds: dict[str, type[TwCli | Arcconf | Ssacli]] = {"tw_cli": TwCli, "arcconf": Arcconf, "ssacli": Ssacli}
    return kinds[kind].all_of(host)
