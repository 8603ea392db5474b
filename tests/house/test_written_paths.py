"""Every path that any verb writes: only regular files of ours, checked before anything is measured."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
import socket
import sqlite3
import subprocess
import threading
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App, Parameter

from brickyard import outputs
from brickyard.cli import main
from brickyard.cli.app import app
from brickyard.cli.parts.options import READ, Written
from brickyard.errors import BadInputError
from brickyard.honesty.slots import opened_target
from brickyard.store import Store
from brickyard.study.running import scratch

HOUSE = Path(__file__).parents[2]
RUN = ["run", "sqlio-random-read-1", "sim:msr-2003-wd", "--set", "duration=1s"]

WORDS = {
    "advise buy": ["sqlio-random-read-4", "--require", "iops>=1"],
    "advise predict": ["sqlio-random-read-4", "sim:msr-2003-wd", "--limit", "p99<=1s"],
    "advise fit": ["sim:msr-2003-wd"],
    "burn-in": ["none"],
    "characterize": [],
    "compare": ["1", "2"],
    "crosscheck": ["sqlio-random-read-4"],
    "baseline save": ["name"],
    "baseline show": ["name"],
    "baseline remove": ["name"],
    "history": ["none"],
    "durable": ["none"],
    "honesty": ["none"],
    "honesty write": ["none", "--recorder", "127.0.0.1:1"],
    "import": ["--command", "diskspd -b8K -d6 x.dat"],
    "interference": ["sim:msr-2003-wd"],
    "lab crash explore": ["--log", "none", "--check", "postgres"],
    "lab up": ["none"],
    "load-curve": ["sqlio-random-read-4", "sim:msr-2003-wd"],
    "pts": ["client"],
    "replay": ["log", "--map", "map", "--to", "postgresql://x@y/z"],
    "run": ["sqlio-random-read-4"],
    "show": ["1"],
    "study": ["sata-2003-disks"],
    "store salvage": ["--output", "new"],
    "trace import": ["none"],
    "trace profile": ["none"],
    "terraserver load": ["--to", "postgresql://x@127.0.0.1:1/z"],
    "terraserver traffic": ["--size", "1MiB"],
    "watch": ["none"],
}
"""What a verb needs beside the option; a verb that is not here needs nothing."""


def verbs(parent: App = app, name: str = "") -> Iterator[tuple[str, Any]]:
    for word in parent:
        if word.startswith("-"):
            continue
        child = parent[word]
        whole = f"{name} {word}".strip()
        if child.default_command is not None:
            yield whole, child.default_command
        yield from verbs(child, whole)


def hinted(function: Any) -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(function, include_extras=True)
    for name in inspect.signature(function).parameters:
        yield name, hints[name]


def paths_of(function: Any) -> Iterator[tuple[str, Parameter | None]]:
    """Parameters that are paths, also those of a group of options."""
    for name, hint in hinted(function):
        bare = typing.get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        if is_dataclass(bare):
            inner = typing.get_type_hints(bare, include_extras=True)
            found = [(field.name, inner[field.name]) for field in fields(bare)]
        else:
            found = [(name, hint)]
        for own, kind in found:
            if "Path" in str(kind):
                marks = [mark for mark in getattr(kind, "__metadata__", ()) if isinstance(mark, Parameter)]
                yield own, marks[0] if marks else None


OPTIONS = [(verb, name, mark) for verb, function in verbs() for name, mark in paths_of(function)]


def checks_of(mark: Parameter | None) -> tuple[Any, ...]:
    found: Any = mark.validator if mark is not None else None
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def spoken(name: str, mark: Parameter) -> str:
    names = (mark.name,) if isinstance(mark.name, str) else tuple(mark.name or ())
    return str(names[0]) if names else f"--{name.replace('_', '-')}"


WRITTEN = [
    (verb, spoken(name, mark))
    for verb, name, mark in OPTIONS
    if mark is not None and any(isinstance(check, Written) for check in checks_of(mark))
]


def test_every_path_that_an_option_names_is_guarded_or_only_read() -> None:
    assert len(WRITTEN) > 30
    for verb, name, mark in OPTIONS:
        assert any(isinstance(check, Written) or check is READ for check in checks_of(mark)), (
            f"{verb}: {name} has no guard"
        )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, Path]]]:
    """Loop devices with something on them, by what that is: the device and its backing file. One is mounted."""
    home = tmp_path_factory.mktemp("disks")
    made: dict[str, tuple[Path, Path]] = {}
    mounted = home / "mounted"
    mounted.mkdir()
    try:
        for name, command in (("ext4", "mkfs.ext4 -q"), ("used", "mkfs.ext4 -q"), ("swap", "mkswap -q")):
            backing = home / name
            backing.touch()
            os.truncate(backing, 8 << 20)
            subprocess.run([*command.split(), str(backing)], check=True, capture_output=True)
            found = subprocess.run(
                ["losetup", "-f", "--show", str(backing)], check=True, capture_output=True, text=True
            )
            made[name] = (Path(found.stdout.strip()), backing)
        subprocess.run(["mount", "-o", "ro", str(made["used"][0]), str(mounted)], check=True)
        yield made
    finally:
        subprocess.run(["umount", str(mounted)], check=False, capture_output=True)
        for device, _ in made.values():
            subprocess.run(["losetup", "-d", str(device)], check=False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, disks: dict[str, tuple[Path, Path]]) -> Iterator[list[Path]]:
    home = tmp_path_factory.mktemp("hostile")
    fifo, listening, link, dangling = home / "fifo", home / "socket", home / "link", home / "dangling"
    os.mkfifo(fifo)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(listening))
    link.symlink_to(disks["ext4"][0])
    dangling.symlink_to("/dev/brickyard-none")
    (home / "root").symlink_to("/proc/self/root/dev")
    nowhere = ("/dev/brickyard-none", "/proc/none", "/sys/none", "/proc/self/root/sys/none")
    yield [
        *(device for device, _ in disks.values()),
        *(Path(name) for name in ("/dev/null", "/dev/tty", *nowhere)),
        *(fifo, listening, link, dangling, home / "root" / "none"),
    ]
    server.close()


@pytest.mark.parametrize(("verb", "option"), WRITTEN, ids=[" ".join(pair) for pair in WRITTEN])
def test_what_is_no_file_of_ours_is_refused_before_anything_happens(
    verb: str,
    option: str,
    hostile: list[Path],
    disks: dict[str, tuple[Path, Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {name: digest(backing) for name, (_, backing) in disks.items()}
    for place in hostile:
        needed = WORDS.get(verb, [])
        code = main([*verb.split(), *([] if option in needed else needed), option, str(place)])
        said = capsys.readouterr().err
        assert code == 2, f"{place}: {said}"
        assert str(place) in said, said
        assert len(said.splitlines()) == 1
    assert {name: digest(backing) for name, (_, backing) in disks.items()} == before
    assert list(tmp_path.iterdir()) == []
    assert not Path("/dev/brickyard-none").exists()


def test_a_reading_verb_makes_no_store_of_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, text, other = tmp_path / "empty", tmp_path / "text", tmp_path / "other.db"
    empty.touch()
    text.write_text("precious")
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE theirs (a)")
    database.commit()
    database.close()
    before = {path: path.read_bytes() for path in (empty, text, other)}
    for path in before:
        for words in (["runs"], ["show", "1"], RUN):
            assert main([*words, "--store", str(path)]) == 2
            assert "not a store of Brickyard" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_lies_beside_a_store_is_sqlites_own_or_stays(suffix: str, tmp_path: Path) -> None:
    place, beside = tmp_path / "runs.db", tmp_path / f"runs.db{suffix}"
    beside.write_text("precious, and longer than a head of eight bytes")
    with pytest.raises(BadInputError, match="would be lost"):
        Store(place)
    beside.unlink()
    Store(place).close()
    for make in (lambda: beside.write_text("precious, too"), lambda: beside.symlink_to("/dev/null")):
        make()
        with pytest.raises(BadInputError, match=r"is not what SQLite keeps|is a (symbolic link|character device)"):
            Store(place)
        beside.unlink()


def test_a_mistyped_device_becomes_no_file_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    for more in (["--size", "16MiB"], [], ["--size", "16MiB", "--dry-run"]):
        for path in ("/dev/brickyard-none", "/proc/self/root/dev/brickyard-none"):
            assert main(["run", "sqlio-random-read-4", path, *more]) == 2
            said = capsys.readouterr().err
            assert "no such" in said
            assert "--size" not in said
            assert not Path(path).exists()


def test_a_scratch_file_that_was_replaced_stays(tmp_path: Path) -> None:
    with scratch.scratch_file(tmp_path, 16 << 20) as made:
        made.path.rename(tmp_path / "ours")
        made.path.write_text("precious")
    assert made.path.read_text() == "precious"
    with scratch.scratch_file(tmp_path, 16 << 20) as made:
        (tmp_path / "folder").mkdir()
        made.path.unlink()
        made.path.symlink_to(tmp_path / "folder")
    assert made.path.is_symlink()


def test_a_folder_that_was_replaced_stays() -> None:
    with outputs.temporary_folder("brickyard-test-") as path:
        (path / "ours").write_text("ours")
        path.rename(f"{path}-moved")
        path.mkdir()
        (path / "precious").write_text("precious")
    assert (path / "precious").read_text() == "precious"
    assert list(Path(f"{path}-moved").iterdir()) == []
    (path / "precious").unlink()
    path.rmdir()
    Path(f"{path}-moved").rmdir()


def test_fio_writes_to_the_file_that_was_checked(tmp_path: Path) -> None:
    """A racer that swaps the target for a link to somebody's file, all the time; something is always at its path."""
    target, theirs, kept, link = (tmp_path / name for name in ("target", "theirs", "kept", "link"))
    words = ["run", "sqlio-random-write-4", str(target), "--engine", "fio", "--set", "duration=100ms"]
    assert main([*words, "--size", "4MiB"]) == 0
    size = target.stat().st_size
    theirs.write_bytes(os.urandom(size))
    before, stop = digest(theirs), threading.Event()

    def race() -> None:
        while not stop.is_set():
            kept.hardlink_to(target)
            link.symlink_to(theirs)
            link.replace(target)
            stop.wait(0.003)
            kept.replace(target)
            stop.wait(0.003)

    racer = threading.Thread(target=race)
    racer.start()
    try:
        codes = [main(words) for _ in range(8)]
    finally:
        stop.set()
        racer.join()
    assert set(codes) <= {0, 2}
    assert digest(theirs) == before


def test_a_dry_run_refuses_what_the_run_refuses(
    disks: dict[str, tuple[Path, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, text = tmp_path / "theirs", tmp_path / "text"
    theirs.write_bytes(bytes(4 << 20))
    text.write_text("no store")
    write, read = "sqlio-random-write-4", "sqlio-random-read-4"
    device, used = (str(disks[name][0]) for name in ("ext4", "used"))
    for words in (
        [write, str(theirs)],
        [write, device],
        [write, device, "--overwrite", device],
        [write, used, "--overwrite", used, "--i-know-this-destroys-data"],
        [read, str(theirs), "--store", str(text)],
        [read, str(theirs), "--set", "request=8MiB"],
        [read, str(theirs), "--condition", "degraded", "--manage"],
        [read, str(tmp_path / "new"), "--size", "900TiB"],
        [read, "--scratch", "/proc"],
        [read, "--overwrite", "none"],
        [read, "sim:none"],
        ["postmark", "/proc"],
    ):
        said = []
        for more in ([], ["--dry-run"]):
            assert main(["run", *words, *more]) == 2, (words, more)
            said.append(re.sub(r"\d+", "N", capsys.readouterr().err.splitlines()[-1]))  # free space changes
        assert said[0].replace(" --dry-run", "") == said[1].replace(" --dry-run", "")  # a remedy repeats all options
    file = tmp_path / "mine.toml"
    file.write_text(
        f'[base]\nprofile = "{write}"\ntarget = "{theirs}"\n'
        '[factor.outstanding]\n[factor.outstanding.levels]\none = { value = "1" }\n'
    )
    assert main(["study", str(file), "--dry-run"]) == 2
    assert "was not made by Brickyard" in capsys.readouterr().out


def test_a_dry_run_that_can_go_on_leaves_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["sqlio-random-write-4"], ["sqlio-random-write-4", str(tmp_path / "new"), "--size", "16MiB"]):
        assert main(["run", *words, "--dry-run"]) == 0, capsys.readouterr().err
    assert main(["run", "postmark", "--dry-run"]) == 0, capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert list(Path(os.environ["HOME"]).rglob("*")) == []


def test_a_second_writer_on_the_target_of_the_witness_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    asked = json.dumps({"create_bytes": 4 << 20})
    with opened_target(str(target), write=True, options=asked):
        with pytest.raises(BadInputError, match="another run is using it"), opened_target(str(target), write=True):
            pass
        with pytest.raises(BadInputError, match="another run is writing it"), opened_target(str(target), write=False):
            pass
        assert main(["run", "sqlio-random-write-4", str(target)]) == 2
        assert "another run is using it" in capsys.readouterr().err
    with opened_target(str(target), write=False) as found:
        assert found.data_bytes == 4 << 20


def test_terminal_html_and_csv_get_no_control_and_no_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "=cmd|'x'!A1\x1b]0;owned\x07\x9b31m\u202etxt"
    profile = tmp_path / f"{evil.replace('/', '')}.toml"
    profile.write_text(
        'title = "=1+1\\u001b[31m"\n[[phase]]\nname = "@phase\\u001b]0;x\\u0007"\nrequests = 20\n'
        '[[phase.stream]]\nname = "-stream"\nrequest = "4KiB"\n'
    )
    for words in (["run", str(profile), "sim:msr-2003-wd"], ["show", "latest"], ["runs"], ["run", f"{evil}.none"]):
        main(words)
        out, err = capsys.readouterr()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out + err), words
    for words in (["show", "latest", "--json"], ["export", "latest", "-f", "json"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out), words
        assert "\x1b" in json.dumps(json.loads(out), ensure_ascii=False).encode().decode("unicode_escape")
    assert main(["export", "latest", "-o", str(tmp_path / "rows.csv")]) == 0
    cells = [cell for line in (tmp_path / "rows.csv").read_text().splitlines() for cell in line.split(",")]
    assert "'-stream" in cells
    assert any(cell.startswith("HIST") for cell in cells)
    assert not [cell for cell in cells if cell[:1] in "=+@\t\r" and cell]
    assert main(["report", "latest", "-o", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)


def test_numbers_stay_numbers_where_formulas_are_made_text() -> None:
    from brickyard.printable import csv_cell

    for same in (-3.5, "-3.5", "+1e9", "-1,000", "-5 %", "text", ""):
        assert csv_cell(same) == same
    for formula in ("=1+1", "-1+2", "+A1", "@SUM(A1)", "\tx", "-"):
        assert str(csv_cell(formula)).startswith("'")


# Names that write, make, rename or remove, by what they are attributes of; `open` and `os.open` are looked at closer.
WRITERS = {
    "os": "replace rename renames unlink remove mkdir makedirs rmdir link symlink mknod mkfifo truncate removedirs",
    "shutil": "rmtree copy copy2 copyfile copytree move",
    "tempfile": "mkstemp mkdtemp TemporaryFile NamedTemporaryFile TemporaryDirectory SpooledTemporaryFile",
    "sqlite3": "connect",
}
METHODS = {"write_text", "write_bytes", "mkdir", "touch", "unlink", "rmdir", "symlink_to", "hardlink_to", "rename"}
OPENING = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")
ELSEWHERE = {
    "databases/memory.py": "makes and removes control groups, which are folders of the kernel's own",
    "facts/checkup.py": "opens the nameless file that outputs gave, once more, with O_DIRECT",
    "fleet/agent.py": "runs on hosts that have nothing of ours; its files have no name but its worker's record",
    "lab/files.py": "its files are on a disk of the lab",
    "lab/kernel.py": "attaches loop devices to disks of the lab, and detaches those",
    "lab/sqlite.py": "its database is on a disk of the lab",
}


def writes(node: ast.Call) -> bool:
    text, called = ast.unparse(node), node.func
    if isinstance(called, ast.Name):
        return called.id == "open" and bool(re.search(r"""['"][rbt+]*[wax+][bt+]*['"]""", text))
    if not isinstance(called, ast.Attribute):
        return False
    owner = ast.unparse(called.value)
    if called.attr in WRITERS.get(owner, "").split():
        return True
    if called.attr == "open":
        return bool(OPENING.search(text) or re.search(r"""\(['"][rbt]*[wax+][bt+]*['"]""", text))
    if called.attr == "replace":  # of a path; that of a text takes two arguments, that of a moment none but named ones
        return len(node.args) == 1 and not node.keywords
    return called.attr in METHODS and owner not in ("outputs", "re")


def test_only_the_guard_of_paths_writes_makes_and_removes() -> None:
    found = []
    root = HOUSE / "python" / "brickyard"
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        if name.startswith("outputs/") or name in ELSEWHERE:
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        found += [f"{name}:{node.lineno}: {ast.unparse(node)[:80]}" for node in calls if writes(node)]
    assert not found, "\n".join(found)


RUST_WRITERS = re.compile(
    r"OpenOptions|File::(create|options)|fs::(write|rename|remove_\w+|create_dir\w*|copy|hard_link)|unlinkat|mkdirat"
    r"|renameat|OFlags::(WRONLY|RDWR|CREATE)|O_(WRONLY|RDWR|CREAT)\b"
)
RUST_ELSEWHERE = ("place/src/", "block/src/guard", "files/src/workplace.rs", "files/src/device.rs")
RUST_NEW_FILES = (
    "lab/src/log.rs",
    "lab/src/main.rs",
    "worker/src/kept.rs",
)  # only under names that are free, in folders made for them
RUST_MAPS = "engine/src/verify/map_file.rs"


def test_the_core_writes_through_its_guards_alone() -> None:
    found = []
    crates = HOUSE / "crates"
    for path in sorted(crates.glob("*/src/**/*.rs")):
        name = str(path.relative_to(crates))
        if name.startswith((*RUST_ELSEWHERE, RUST_MAPS)) or name.endswith("tests.rs"):
            continue
        text = path.read_text("utf-8").partition("#[cfg(test)]\nmod")[0]
        if name in RUST_NEW_FILES:
            assert text.count("File::options()") == text.count("create_new(true)")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if RUST_WRITERS.search(line) and not line.lstrip().startswith("//"):
                found.append(f"{name}:{number}: {line.strip()}")
    assert not [line for line in found if "mkdirat(&found" not in line], "\n".join(found)
