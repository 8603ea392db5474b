"""Duty: the options that several verbs share, each defined once. Refusal: no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import outputs
from brickyard.store import APPLICATION_ID, IN_MEMORY

Json = Annotated[
    bool, Parameter(name="--json", negative="", help="One machine-readable document on stdout; progress on stderr.")
]


@dataclass(frozen=True)
class Written:
    """Marks an option that names a path to be written, with the check that refuses it before anything else happens."""

    check: Callable[[Path], object]

    def __call__(self, _type: object, value: Path | None) -> None:
        if value is not None:
            self.check(value)


@dataclass(frozen=True)
class Read:
    """Marks an option that names a path which is only read."""

    def __call__(self, _type: object, value: Path | None) -> None: ...


def _check_store(path: Path) -> None:
    if str(path) != IN_MEMORY and path.parent.is_dir() and not path.is_dir():  # the store has more to say of these
        outputs.check_database(path, APPLICATION_ID)


READ = Read()
STORE = Written(_check_store)
FILE, STREAM = Written(outputs.check_place), Written(partial(outputs.check_file, stream=True))
FOLDER, REPORT = Written(outputs.check_folder), Written(outputs.check_report)

StorePlace = Annotated[
    Path | None,
    Parameter(
        name="--store",
        validator=STORE,
        help="Store to use instead of the one in your data directory.",
    ),
]
Overrides = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        negative="",
        help="Change a key of the profile, or of a modelled brick, such as --set depth=8. May be repeated.",
    ),
]
BrickOverrides = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", help="Change a key of the brick, such as --set members=8. May be repeated."),
]
CONDITION_WORDS = (
    "normal, degraded, rebuilding, neighbour-rebuilding, scrubbing, initializing, write-cache-on or write-cache-off"
)
Condition = Annotated[
    str | None,
    Parameter(name="--condition", help=f"State of the array or of a modelled brick: {CONDITION_WORDS}."),
]
Manage = Annotated[
    bool,
    Parameter(
        name="--manage",
        negative="",
        help="The array may be changed, never beyond its redundancy, and is brought back to normal.",
    ),
]
RebuildRate = Annotated[
    str | None, Parameter(name="--rebuild-rate", help="How fast the array rebuilds or checks, such as 20MiB a second.")
]
Neighbour = Annotated[
    str | None,
    Parameter(name="--neighbour", help="The array that rebuilds in --condition neighbour-rebuilding."),
]
ArrayAddress = Annotated[
    str | None,
    Parameter(name="--array", help="The target's array where the kernel cannot tell it, such as storcli:/c0/v1."),
]
Size = Annotated[str | None, Parameter(name="--size", help="Size of the file that is made, such as 2GiB.")]
Scratch = Annotated[
    Path | None,
    Parameter(name="--scratch", validator=FOLDER, help="Directory for the scratch file when no target is named."),
]
Keep = Annotated[bool, Parameter(name="--keep", negative="", help="Leave the scratch file behind.")]
Overwrite = Annotated[
    tuple[str, ...],
    Parameter(name="--overwrite", negative="", help="Name a target that may be written over. May be repeated."),
]
DestroysData = Annotated[
    bool,
    Parameter(
        name="--i-know-this-destroys-data",
        negative="",
        help="Needed as well where the target carries a file system, partition table, RAID or LVM signature.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Placing:
    """What a verb may make, keep and write over: the same options wherever a target is measured."""

    size: Size = None
    scratch: Scratch = None
    keep: Keep = False
    overwrite: Overwrite = ()
    i_know_this_destroys_data: DestroysData = False


AS_IT_IS = Placing()


Output = Annotated[Path | None, Parameter(name=["--output", "-o"], validator=STREAM, help="Where to write.")]
Pictures = Annotated[Path | None, Parameter(name=["--output", "-o"], validator=FOLDER, help="Folder for the pictures.")]
ReportPlace = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        validator=REPORT,
        help="A folder for the report, or its page when the name ends in .html.",
    ),
]
