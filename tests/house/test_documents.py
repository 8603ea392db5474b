"""The manual: every command in it is one that the command line takes, and every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts.exceptions import CycloptsError, MissingArgumentError

from brickyard import bricks, profiles
from brickyard.cli import main
from brickyard.cli.app import app
from brickyard.study.designs.texts import names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(brickyard [^`]+)`(?!`)")
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([\w-]+))?\)")


def commands(page: Path) -> Iterator[tuple[str, str, bool]]:
    """Page, command, and whether it is one to be copied: not where running text names a verb.

    Without comments, which two blanks set apart, and without what a shell does to them.
    """
    text = page.read_text("utf-8")
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    found = [(line, True) for line in lines if line.startswith("brickyard ")]
    for line in FENCE.sub("", text).splitlines():
        found += [(inline, line.startswith("|")) for inline in INLINE.findall(line)]
    for line, whole in found:
        yield page.name, re.split(r"\s{2,}|\s\|\|?\s|\s>\s", line.strip())[0], whole


SHOP = re.compile(r'^```toml\n(title = "A small shop".*?)^```', re.MULTILINE | re.DOTALL)
ABSENT = re.compile(r"my-array|load\.byt")
"""What a reader has made before."""
FIRST = "brickyard run sqlio-random-read-4 sim:terraserver-2003"
EXAMPLES = sorted({example for page in PAGES for example in commands(page)})


@pytest.mark.parametrize(("page", "command", "whole"), EXAMPLES)
def test_every_command_of_the_manual_is_one(page: str, command: str, whole: bool) -> None:
    words = shlex.split(command)[1:]
    if words[0] == "VERB":
        return
    try:
        app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        if isinstance(error, MissingArgumentError) and not whole:
            return
        pytest.fail(f"{page}: {command}: {error}")
    own = {name.removeprefix("files/").removeprefix("arrays/").removeprefix("drives/") for name in bricks.texts()}
    for word in words:
        if bricks.is_modelled(word) and not word.endswith(".toml") and word != "sim:NAME":
            assert word.removeprefix(bricks.MODELLED).split(",")[0] in own | {"my-disk", "my-array"}, (
                f"{page}: {command}"
            )
    if len(words) == 1 and not whole:
        return
    in_words_of_fio = words[0] == "run" and words[1] == "--rw"
    if (
        words[0] in ("run", "load-curve", "crosscheck")
        and not words[1].endswith((".toml", ".byt"))
        and not in_words_of_fio
    ):
        assert words[1] in (*profiles.names(), "pgbench"), f"{page}: {command}"
    if words[0] == "study" and len(words) > 1 and words[1] not in ("show", "reference", "mine.toml"):
        assert words[1] in names(), f"{page}: {command}"


def test_workloads_of_the_manual_run_on_their_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All are checked as a run checks them; the first of the README is run, and what is read of it is shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(SHOP.findall((ROOT / "docs" / "loads.md").read_text("utf-8"))[0])
    there = [command for _, command, whole in EXAMPLES if whole and command.startswith("brickyard run ")]
    modelled = sorted({c for c in there if bricks.MODELLED in c and not ABSENT.search(c)})
    assert len(modelled) > 8
    for command in modelled:
        assert main([*shlex.split(command)[1:], "--dry-run"]) == 0, command
    for command in (
        FIRST,
        "brickyard runs",
        "brickyard show latest",
        "brickyard export latest --format csv -o run.csv",
    ):
        assert command in {c for _, c, _ in EXAMPLES}
        assert main(shlex.split(command)[1:]) == 0, command
    assert "IOPS" in capsys.readouterr().out
    assert (tmp_path / "run.csv").stat().st_size


def test_the_manual_has_commands_of_every_verb() -> None:
    shown = {shlex.split(command)[1] for _, command, whole in EXAMPLES if whole}
    verbs = {name for name in app if not name.startswith("-")}
    assert verbs - shown == set()


def anchors(page: Path) -> set[str]:
    """As forges make them: lower case, blanks as dashes, no other signs."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_every_link_of_the_manual_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    for place, anchor in LINK.findall(text):
        there = (page.parent / place).resolve() if place else page
        assert there.exists(), f"{page.name} links to {place}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links to #{anchor} of {place}"


def test_every_guide_is_reached_from_the_readme() -> None:
    linked = {place for place, _ in LINK.findall(PAGES[0].read_text("utf-8"))}
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= linked


def test_the_image_is_made_of_what_is_there() -> None:
    """What it copies is in the tree, and what it runs is a target of the Makefile."""
    lines = (ROOT / "Containerfile").read_text("utf-8").splitlines()
    copies = [line for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = [word for line in copies for word in line.split()[1:-1]]
    assert len(copied) > 5
    assert [name for name in copied if not (ROOT / name).exists()] == []
    made = [word for line in lines if line.startswith("RUN make ") for word in line.split()[2:]]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert made
    assert set(made) <= set(targets)


def test_the_image_has_what_its_build_reads() -> None:
    """Files that are compiled into the programs lie in other folders as well; without one of them nothing is built."""
    lines = (ROOT / "Containerfile").read_text("utf-8").splitlines()
    copies = [line for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = [ROOT / word for line in copies for word in line.split()[1:-1]]
    read = re.compile(r'include_(?:str|bytes)!\(\s*"([^"]+)"')
    sources = [path for path in (ROOT / "crates").rglob("*.rs") if "target" not in path.parts]
    wanted = {(path.parent / name).resolve() for path in sources for name in read.findall(path.read_text("utf-8"))}
    assert len(wanted) > 10
    assert {path for path in wanted if not any(path.is_relative_to(place) for place in copied)} == set()
