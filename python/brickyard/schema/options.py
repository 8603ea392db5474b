"""What a run is allowed and wishes beside its plan: what the core takes (`block::session::Options`,
`sim::session::Options`), and what a store keeps of it."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from brickyard.ready import ready


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is unset is not written: real storage, models, hosts and servers have other options each."""

    create_bytes: int | UnsetType | None = UNSET
    """Room for data in a target file that does not exist yet."""
    overwrite: list[str] | UnsetType = UNSET
    """Targets that `--overwrite` names."""
    destroys_data: bool | UnsetType = UNSET
    bricks: dict[str, str] | UnsetType = UNSET
    """Of models: the texts that they are made of."""
    overrides: list[str] | UnsetType = UNSET
    """Of models: `key=value` for every brick."""
    hosts: str | list[str] | UnsetType = UNSET
    """Of a load over many hosts: which, and what each of them does of it."""
    share: str | UnsetType = UNSET
    fleet_run: str | UnsetType = UNSET
    rate_parts: list[float] | UnsetType = UNSET
    """Of a replay at a rate that drivers share: the part of each."""
    room_bytes: int | UnsetType = UNSET
    """Of pgbench: what its own server may take of the memory."""
    take: str | UnsetType = UNSET
    """An empty file that gets every request as a trace."""
    verify_keep: str | UnsetType = UNSET
    """Where a burn-in keeps what was written."""

    @property
    def is_modelled(self) -> bool:
        return self.bricks is not UNSET

    @property
    def texts(self) -> dict[str, str]:
        return {} if isinstance(self.bricks, UnsetType) else self.bricks

    @property
    def changes(self) -> list[str]:
        return [] if isinstance(self.overrides, UnsetType) else self.overrides

    @property
    def size_bytes(self) -> int | None:
        """Of a file that is to be made."""
        return None if isinstance(self.create_bytes, UnsetType) else self.create_bytes

    @property
    def room(self) -> int | None:
        return None if isinstance(self.room_bytes, UnsetType) else self.room_bytes


ready(RunOptions)
