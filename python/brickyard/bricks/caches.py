"""Duty: which caches of a resolved brick end writes, in figures and in words. Refusal: no parsing; no files."""

from __future__ import annotations

from brickyard.store import Json
from brickyard.units import format_size


def keeper(brick: Json) -> Json | None:
    """Who keeps the volume: software, else a controller, else nobody."""
    found: Json | None = brick["software"] or brick["controller"]
    return found


def keeps_drive_caches_off(brick: Json) -> bool:
    found = keeper(brick)
    return found is not None and not found["drive_write_cache"]


def drives(brick: Json) -> list[Json]:
    return [drive for drive in (brick["drive"], brick["other_drive"]) if drive]


def caches_writes(brick: Json, drive: Json) -> bool:
    """Whether writes end in a drive's cache, as the drive, its controller and the brick's setting have it."""
    if not drive.get("write_cache") and brick["write_cache"] is None:
        return False
    if is_protected(drive):
        return bool(drive.get("write_cache"))
    if drive["kind"] == "cloud" or keeps_drive_caches_off(brick):
        return False
    return bool(drive.get("write_cache") if brick["write_cache"] is None else brick["write_cache"])


def is_protected(drive: Json) -> bool:
    return bool(drive.get("power_loss_protection"))


def write_back(brick: Json) -> Json | None:
    """The controller or software that ends writes in its own cache, if there is one."""
    keepers = (brick["controller"], brick["software"])
    return next((k for k in keepers if k and k["write_back"] and k["cache_bytes"]), None)


def to_write_bytes(brick: Json) -> int:
    """How much the caches that end writes hold: the controller's, and those of all drives."""
    from brickyard import _core

    def size(value: object) -> int:
        return int(value) if isinstance(value, int) else int(_core.parse_bytes(str(value)))

    back = write_back(brick)
    counts = [brick["members"] - brick["other_members"], brick["other_members"]]
    of_drives: int = sum(
        count * size(drive.get("cache_bytes") or drive.get("dram_cache_bytes") or 0)
        for drive, count in zip(drives(brick), counts, strict=False)
        if caches_writes(brick, drive)
    )
    return of_drives + (size(back["cache_bytes"]) if back else 0)


def words(brick: Json) -> str:
    """What a reader of figures must know of a brick's caches, in a line."""
    parts = [_of_drive(brick, drive) for drive in drives(brick)]
    found = keeper(brick)
    if found is not None and found["cache_bytes"]:
        kind = "write-back" if found["write_back"] else "for reads alone"
        battery = (", with a battery" if found["battery"] else ", no battery") if found["write_back"] else ""
        parts.append(f"controller: {format_size(found['cache_bytes'])} {kind}{battery}")
    return "; ".join(dict.fromkeys(parts))


def _of_drive(brick: Json, drive: Json) -> str:
    if drive["kind"] == "cloud":
        return "none of its own is modelled in the volume"
    size = drive.get("cache_bytes") or drive.get("dram_cache_bytes") or 0
    if not size:
        return "drives: none"
    if is_protected(drive) and drive["write_cache"]:
        state = "write cache on, protected against power loss"
    elif caches_writes(brick, drive):
        state = "write cache on"
    elif keeps_drive_caches_off(brick):
        state = "write cache kept off by the controller"
    else:
        state = "write cache off"
    return f"drives: {format_size(size)} each, {state}"


def volatile(brick: Json) -> list[str]:
    """The caches whose acknowledged writes a power cut takes."""
    found = []
    if any(caches_writes(brick, drive) and not is_protected(drive) for drive in drives(brick)):
        found.append("its drives cache writes without power-loss protection")
    back = write_back(brick)
    if back is not None and not back["battery"]:
        found.append("its controller caches writes without a battery")
    return found


def cannot_switch_off(brick: Json) -> str | None:
    """Why write_cache=false changes nothing, or None where it does."""
    back = write_back(brick)
    stays = f"; the {format_size(back['cache_bytes'])} write-back cache of its controller stays" if back else ""
    if keeps_drive_caches_off(brick) and not all(is_protected(drive) for drive in drives(brick)):
        return f"its controller keeps the write caches of its drives off already{stays}"
    if all(is_protected(drive) for drive in drives(brick)):
        return f"the cache of its drives is protected against power loss and cannot be switched{stays}"
    if not any(drive.get("write_cache") for drive in drives(brick)):
        return f"the write caches of its drives are off already{stays}"
    return None
