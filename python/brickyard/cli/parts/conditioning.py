"""Duty: from the options about a condition to what holds it. Refusal: `brickyard.conditions` knows arrays, not this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from brickyard import arrays, bricks, conditions
from brickyard.bricks import caches
from brickyard.bricks.resolved import CloudVolume, ModelledBrick
from brickyard.errors import BadInputError
from brickyard.reading import parsed_bytes_per_s
from brickyard.schema.conditions import ANY_AT_WORK


@dataclass(frozen=True)
class Wish:
    """In which condition a real target is to be measured, and what may be done for it."""

    target: str = ""
    condition: str = "normal"
    is_asked: bool = False
    manage: bool = False
    rate_bytes_per_s: int | None = None
    neighbour: str | None = None
    array: str | None = None

    def check(self) -> None:
        """Refuses what holding it would refuse; changes nothing."""
        if self.is_asked:
            conditions.check(
                self.target,
                self.condition,
                manage=self.manage,
                rate_bytes_per_s=self.rate_bytes_per_s,
                neighbour=self.neighbour,
                array=self.array,
            )

    def holding(
        self, say: Callable[[str], None], stopped: Callable[[], bool]
    ) -> Callable[[], AbstractContextManager[conditions.Held | None]]:
        """A target on an array is watched also where no condition was asked for: an array at work is not normal."""
        if not self.target or not (self.is_asked or arrays.find(self.target) is not None):
            return nullcontext
        return lambda: conditions.hold(
            self.target,
            self.condition,
            manage=self.manage,
            rate_bytes_per_s=self.rate_bytes_per_s,
            neighbour=self.neighbour,
            array=self.array,
            say=say,
            stopped=stopped,
        )


NONE = Wish()


def wish(
    targets: Sequence[str],
    condition: str | None,
    manage: bool,
    rebuild_rate: str | None,
    neighbour: str | None,
    array: str | None,
    *,
    modelled: bool,
) -> Wish:
    if modelled:
        if manage or neighbour or array:
            raise BadInputError("--manage, --neighbour and --array are for real arrays, not for sim:NAME")
        return NONE
    if condition is None:
        if manage or rebuild_rate or neighbour or array:
            raise BadInputError("--manage, --rebuild-rate, --neighbour and --array need a --condition; name one")
        return Wish(targets[0]) if len(targets) == 1 else NONE
    if len(targets) != 1:
        raise BadInputError("--condition: name exactly one target, whose array is to be changed")
    rate = parse_rate(rebuild_rate)
    return Wish(targets[0], conditions.spoken(condition), True, manage, rate, neighbour, array)


def modelled_words(spoken: Sequence[str]) -> tuple[str, ...]:
    """Conditions of modelled bricks in the words of `run --condition`, each once."""
    return tuple(dict.fromkeys(map(conditions.spoken, spoken)))


def refuse_idle_switch(targets: Sequence[str], spoken: Sequence[str], overrides: Sequence[str]) -> None:
    """A condition that would change nothing of a modelled brick, and yet be told as one."""
    if not any(word.replace("-", "_") == "write_cache_off" for word in spoken):
        return
    for target in filter(bricks.is_modelled, targets):
        brick = bricks.resolve(target, overrides).brick
        why = caches.cannot_switch_off(brick)
        if why is not None and not isinstance(brick.drive, CloudVolume):  # the core says that of volumes
            raise BadInputError(f"--condition write-cache-off has no effect on {target}: {why}")


def without_effect(target: str, size: str | None) -> list[str]:
    """What the command line offers and no modelled brick uses; what a profile sets is for the core to judge."""
    if size is None:
        return []
    return [f"--size has no effect: {target} is a modelled brick, with the capacity of its drives"]


def idle_rate(found: Sequence[ModelledBrick]) -> bool:
    """Whether nothing in these resolved bricks rebuilds, scrubs or initializes, so that no pace counts."""
    return not any(b.condition in ANY_AT_WORK or (b.failures and b.spares) for b in found)


def parse_rate(text: str | None, at: str = "--rebuild-rate") -> int | None:
    """`20MiB` or `20MiB/s`."""
    return None if text is None else parsed_bytes_per_s(text, at)
