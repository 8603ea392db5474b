"""What holds for every test: a home of its own, and properties that are checked the same way each time."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cyclopts import App, Argument, ArgumentCollection, Parameter

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from brickyard.databases.ephemeral import Server

# Those in the guest need md, and disks that may be written over; `tests/guest/run` makes both. Its emulated processor
# needs half a minute for imports that take a second elsewhere, so that each is made where it is used.
collect_ignore = [] if os.environ.get("BRICKYARD_GUEST") else ["guest"]

if collect_ignore:
    from hypothesis import settings

    # No deadline: this machine may be shared, and how long a check takes is not what is checked.
    settings.register_profile("brickyard", deadline=None, max_examples=60, derandomize=True)
    settings.load_profile("brickyard")


# A shell that starts tests in the background has SIGINT ignored, and each program that they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests keep much alive, and each full collection looks at all of it.
gc.set_threshold(50_000, 20, 100)


def _kept_arguments() -> None:
    """cyclopts takes a command's signature apart anew each time that `main` is called, which was a third of the time of
    tests that call it. Here, each signature is taken apart once, and a call gets a copy without tokens."""
    known: dict[tuple[object, bool], ArgumentCollection] = {}
    assemble = App.assemble_argument_collection

    def assembled(
        app: App, *, default_parameter: Parameter | None = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        if default_parameter is not None:
            return assemble(app, default_parameter=default_parameter, parse_docstring=parse_docstring)
        key = app.default_command, parse_docstring
        if key not in known:
            known[key] = assemble(app, parse_docstring=parse_docstring)
        return _without_tokens(known[key], {})

    App.assemble_argument_collection = assembled  # type: ignore[assignment,method-assign]


def _without_tokens(arguments: ArgumentCollection, made: dict[int, Argument]) -> ArgumentCollection:
    """A copy. Its arguments share nothing that a call changes: their children are among them."""
    fresh = ArgumentCollection()  # type: ignore[no-untyped-call]
    for argument in arguments:
        if id(argument) not in made:
            made[id(argument)] = same = copy.copy(argument)
            same.tokens = []
            same.children = _without_tokens(argument.children, made)
        fresh.append(made[id(argument)])
    return fresh


_kept_arguments()

LONGEST = (
    "fleet/test_fleet.py",
    "advise/test_fit.py",
    "cli/test_end_to_end.py",
    "report/test_pages.py",
    "bricks/test_bricks.py",
    "lab/test_lab.py",
    "study/test_load_curve.py",
    "study/test_pts.py",
    "advise/test_advise.py",
    "web/test_web_pages.py",
)
"""Files that take minutes: one that is begun last keeps a single process at work, and the others wait."""

_shops = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files go to processes (`--dist loadfile`) in this order, with --no-loadscope-reorder."""
    tests = Path(__file__).parent
    ranks = {tests / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONGEST)))


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing reads or writes the store and cache of whoever runs the tests."""
    home: Path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("BRICKYARD_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("BRICKYARD_DEBUG", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, one for all tests of a file."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    assert chromium, "tests/install-programs installs Chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def shop(postgres: Server) -> Iterator[str]:
    """A database of 100 items."""
    from replay_support import execute, fill

    name = f"shop_{os.getpid()}_{next(_shops)}"
    execute(postgres.dsn, f"create database {name}")
    dsn = postgres.dsn_of(name)
    fill(dsn)
    yield dsn
    execute(postgres.dsn, f"drop database {name} with (force)")


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    """The calls of the shop's pages."""
    from replay_support import MAPPING

    place = tmp_path / "shop.toml"
    place.write_text(MAPPING)
    return place


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real server that the tests of a session share; each makes a database of its own in it."""
    from brickyard.databases.ephemeral import ephemeral_postgres

    with ephemeral_postgres(settings={"fsync": "off", "shared_buffers": "64MB"}) as server:
        yield server
