"""Duty: the options that several verbs share, each defined once. Refusal: no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from brickyard import outputs
from brickyard.errors import BadInputError
from brickyard.store import APPLICATION_ID, IN_MEMORY

LOAD = Group("Workload", sort_key=1)
CONDITIONS = Group("Condition of the target", sort_key=2)
PLACES = Group("Target, and permission to overwrite it", sort_key=3)
JUDGING = Group("Requirements and prices", sort_key=4)
OUTPUT = Group("Output", sort_key=9)

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        group=OUTPUT,
        negative="",
        show_default=False,
        help="One machine-readable document on stdout; progress on stderr.",
    ),
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


def _check_folder(path: Path) -> None:
    outputs.check_parent(path)
    outputs.check_folder(path)


def check_report(path: Path) -> None:
    outputs.check_parent(path)
    outputs.check_report(path)


def _check_export(path: Path) -> None:
    from brickyard.report.export import EXPORT_MARK

    outputs.check_file(path, EXPORT_MARK, stream=True)


FILE_ENDINGS = (".html", ".htm", ".png", ".svg", ".pdf")


def _check_pictures(path: Path) -> None:
    if path.suffix.lower() in FILE_ENDINGS and not path.is_dir():
        raise BadInputError(f"{path}: pictures are written into a folder; name one, such as {path.with_suffix('')}")
    _check_folder(path)


@dataclass(frozen=True)
class Count:
    """Refuses a number outside of a range, both ends of which are in it."""

    least: int
    most: int

    def __call__(self, _type: object, value: int | None) -> None:
        if value is not None and not self.least <= value <= self.most:
            raise ValueError(f"from {self.least} to {self.most}, not {value}")


READ = Read()
STORE = Written(_check_store)
FILE, STREAM = Written(outputs.check_place), Written(partial(outputs.check_file, stream=True))
FOLDER, REPORT, PICTURES = Written(_check_folder), Written(check_report), Written(_check_pictures)

StorePlace = Annotated[
    Path | None,
    Parameter(
        name="--store",
        group=OUTPUT,
        validator=STORE,
        help="Store to use instead of the one in your data directory.",
    ),
]
Overrides = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        group=LOAD,
        negative="",
        show_default=False,
        help="Change a key of the profile, or of a modelled brick, such as --set depth=8. May be repeated.",
    ),
]
BrickOverrides = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        group=LOAD,
        negative="",
        show_default=False,
        help="Change a key of the brick, such as --set members=8. May be repeated.",
    ),
]
Searches = Annotated[
    int,
    Parameter(
        name="--searches",
        group=LOAD,
        validator=Count(1, 100),
        help="Number of searches for the rate within a limit, each with different arrivals; three give an interval.",
    ),
]
CONDITION_WORDS = (
    "normal, degraded, rebuilding, neighbour-rebuilding, scrubbing, initializing, write-cache-on or write-cache-off"
)
Condition = Annotated[
    str | None,
    Parameter(
        name="--condition", group=CONDITIONS, help=f"State of the array or of a modelled brick: {CONDITION_WORDS}."
    ),
]
Manage = Annotated[
    bool,
    Parameter(
        name="--manage",
        group=CONDITIONS,
        negative="",
        show_default=False,
        help="Allow changes to the array, never beyond its redundancy; it is restored to normal afterwards.",
    ),
]
RebuildRate = Annotated[
    str | None,
    Parameter(name="--rebuild-rate", group=CONDITIONS, help="How fast the array rebuilds or scrubs, such as 20MiB/s."),
]
Neighbour = Annotated[
    str | None,
    Parameter(
        name="--neighbour", group=CONDITIONS, help="The array that rebuilds in --condition neighbour-rebuilding."
    ),
]
ArrayAddress = Annotated[
    str | None,
    Parameter(
        name="--array",
        group=CONDITIONS,
        help="The array of the target, if the kernel does not show it, such as storcli:/c0/v1.",
    ),
]
Size = Annotated[
    str | None,
    Parameter(
        name="--size",
        group=PLACES,
        help="Size of the test area of the file that is made, such as 2GiB; the file is 1 MiB larger, for its header.",
    ),
]
Scratch = Annotated[
    Path | None,
    Parameter(
        name="--scratch", group=PLACES, validator=FOLDER, help="Directory for the scratch file when no target is named."
    ),
]
Keep = Annotated[
    bool, Parameter(name="--keep", group=PLACES, negative="", show_default=False, help="Keep the scratch file.")
]
Overwrite = Annotated[
    tuple[str, ...],
    Parameter(
        name="--overwrite",
        group=PLACES,
        negative="",
        show_default=False,
        help="A target that may be overwritten. May be repeated.",
    ),
]
DestroysData = Annotated[
    bool,
    Parameter(
        name="--i-know-this-destroys-data",
        group=PLACES,
        negative="",
        show_default=False,
        help="Also needed if the target carries a file system, a partition table, or a RAID or LVM signature.",
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


Output = Annotated[
    Path | None, Parameter(name=["--output", "-o"], group=OUTPUT, validator=STREAM, help="Where to write.")
]
ExportPlace = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        group=OUTPUT,
        validator=Written(_check_export),
        help="Where to write. A file that an export wrote is replaced; any other existing file is refused.",
    ),
]
Pictures = Annotated[
    Path | None, Parameter(name=["--output", "-o"], group=OUTPUT, validator=PICTURES, help="Folder for the pictures.")
]
ReportPlace = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        group=OUTPUT,
        validator=REPORT,
        help="A folder for the report, or its page when the name ends in .html.",
    ),
]
