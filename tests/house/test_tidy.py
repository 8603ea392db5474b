"""What the house has agreed on and a reader would miss: the table of imports, types instead of documents, words, what
nobody uses.

Rooms whose events are documents still are named with how many literal keys they read and how many signatures have
`Json`; both may only fall.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from brickyard.arrays.array import STATE_NAMES
from brickyard.schema import RunOutcome, SampledState
from brickyard.store.record import ENDED

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "python/brickyard"
ROOMS = {path.name for path in HOUSE.iterdir() if path.is_dir() and path.name != "__pycache__"}
DOOR = "brickyard"
"""The modules above all rooms: the functions for programs, and what every room may use (errors, units)."""
BELOW = "the rooms below"
"""What ARCHITECTURE says of the room on top."""
MUTUAL = {("databases", "study")}
"""Rooms that know each other, as ARCHITECTURE says and why."""
GENERATED = ("schema/generated.py", "schema/plan.py")
READ_OF = ("get", "pop", "setdefault")

LITERAL_KEYS: dict[str, int] = {
    "advise": 9,
    "analysis": 12,
    "arrays": 2,
    "bricks": 1,
    "brickyard": 3,
    "cli": 10,
    "databases": 4,
    "fleet": 3,
    "formats": 9,
    "lab": 1,
    "report": 1,
    "schema": 12,
    "store": 9,
    "web": 15,
}
"""Reads by a literal key, by room. Foreign documents are among them: what fio, sysfs or a controller's tool says."""
JSON_SIGNATURES: dict[str, int] = {
    "schema": 5,
    "store": 1,
}
"""Functions whose signature has `Json`, by room, or `dict[str, Any]`, which is the same: mypy looks into neither. Rows
of charts are among them, and tables of TOML files before they are read."""
DOCUMENT_PARAMETERS: dict[str, int] = {
    "advise": 3,
    "analysis": 1,
    "arrays": 2,
    "brickyard": 3,
    "cli": 2,
    "formats": 1,
    "report": 4,
    "rulers": 2,
    "store": 4,
    "study": 4,
    "web": 3,
}
"""Functions that take one of DOCUMENTS: what is made to be printed goes no further. Foreign ones are among them before
they are read: tables of TOML, lines of a journal, rows of SQL."""
DOCUMENTS = ("Document", "dict[str, object]", "Mapping[str, object]")
LAG = 2
"""So many fewer than the number here are no fault, so that two changes at once need no third."""
EVENTS_AS_DOCUMENTS: tuple[str, ...] = ("analysis", "schema", "store")
"""Rooms that take an event as a document: to show it whole, or since nobody has converted them yet."""
BANNED = {
    r"\ban own\b": "of its own",
    r"\breap waits for one completion\b": "completions are reaped one at a time",
    r"\b\d+ ?KB(/s)?\b": "KiB or kB: half of the field means 1000 by KB, and `plan::parse_bytes` refuses it",
    r"\ba range of the target\b": "region, as STYLE has it",
}
"""Words in strings and docstrings, and what to write instead."""


@cache
def sources() -> dict[str, ast.Module]:
    found = sorted(path for path in HOUSE.rglob("*.py") if "__pycache__" not in path.parts)
    return {str(path.relative_to(HOUSE)): ast.parse(path.read_text()) for path in found}


def room_of(name: str) -> str:
    first = name.split("/", maxsplit=1)[0]
    return first if first in ROOMS else DOOR


def imports(tree: ast.Module) -> Iterator[str]:
    """The rooms that a module imports from, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "brickyard":
            parts = (node.module or "").split(".")
            names = [alias.name for alias in node.names] if len(parts) == 1 else [parts[1]]
            yield from (name for name in names if name in ROOMS)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "brickyard" and len(parts) > 1 and parts[1] in ROOMS:
                    yield parts[1]


def declared() -> dict[str, set[str]]:
    """The last column of ARCHITECTURE's table of rooms."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    found = {}
    for match in re.finditer(r"^\| `python/brickyard/(\w+)` \|.*\|([^|]*)\|$", text, re.MULTILINE):
        found[match[1]] = ROOMS - {match[1]} if match[2].strip() == BELOW else set(re.findall(r"\w+", match[2]))
    return found


def undeclared() -> list[str]:
    table = declared()
    found = {
        f"{room_of(name)} imports {target} ({name})"
        for name, tree in sources().items()
        for target in imports(tree)
        if room_of(name) != DOOR and target not in table.get(room_of(name), set()) | {room_of(name)}
    }
    return sorted(found)


def test_rooms_import_what_architecture_declares() -> None:
    assert set(declared()) == ROOMS, "each room has a line in ARCHITECTURE.md"
    assert undeclared() == []


def test_what_architecture_declares_is_imported() -> None:
    used = {(room_of(name), target) for name, tree in sources().items() for target in imports(tree)}
    told = {room: names for room, names in declared().items() if names | {room} != ROOMS}
    assert [f"{room}: {name}" for room, names in told.items() for name in names if (room, name) not in used] == []


CRATES = {path.name for path in (ROOT / "crates").iterdir()}


def crates_declared() -> dict[str, set[str]]:
    """Crate → those that it may depend on. `and above` adds what those that are named may depend on."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    cells = dict(re.findall(r"^\| `crates/(\w+)` \|.*\|([^|]*)\|$", text, re.MULTILINE))

    def of(name: str) -> set[str]:
        named = set(re.findall(r"\w+", cells[name])) & CRATES
        return named.union(*map(of, named)) if "and above" in cells[name] else named

    return {name: of(name) for name in cells}


def crates_used(name: str) -> set[str]:
    """What a crate's own code depends on; its tests may use others as well."""
    manifest = tomllib.loads((ROOT / "crates" / name / "Cargo.toml").read_text())
    return set(manifest.get("dependencies", {})) & CRATES


def test_crates_depend_on_what_architecture_declares() -> None:
    table = crates_declared()
    assert set(table) == CRATES, "each crate has a line in ARCHITECTURE.md"
    assert {name: more for name in CRATES if (more := crates_used(name) - table[name])} == {}


def test_crates_use_what_they_depend_on() -> None:
    """The name of each dependency stands in the code, or in that of tests where it is theirs."""
    idle = []
    for name in sorted(CRATES):
        manifest = tomllib.loads((ROOT / "crates" / name / "Cargo.toml").read_text())
        for table, where in (("dependencies", "src"), ("dev-dependencies", "")):
            code = "".join(path.read_text() for path in (ROOT / "crates" / name / where).rglob("*.rs"))
            names = (one.replace("-", "_") for one in manifest.get(table, {}))
            idle += [f"{name}: {one}" for one in names if not re.search(rf"\b{one}\b", code)]
    assert idle == []


def packages() -> dict[str, list[str]]:
    """ARCHITECTURE's table of packages: room → its packages, the lowest first."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text.split("packages, the lowest first")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    return {room: re.findall(r"`(\w+)`", cell) for room, cell in rows}


def test_packages_import_only_those_below_them() -> None:
    found, table = [], packages()
    for name, tree in sources().items():
        room, *inner = name.split("/")
        if room not in table or len(inner) < 2:
            continue
        order = table[room]
        assert inner[0] in order, f"{name}: ARCHITECTURE.md does not name this package"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"brickyard.{room}."):
                target = (node.module or "").split(".")[2]
                if target in order and order.index(target) > order.index(inner[0]):
                    found.append(f"{name}:{node.lineno} imports {target}")
    assert found == []


def test_rooms_have_no_circles() -> None:
    """A room below never imports one above it, by way of others either."""
    edges = {room: {n for n in names if (room, n) not in MUTUAL} for room, names in declared().items()}
    seen: list[str] = []

    def visit(room: str, way: tuple[str, ...]) -> None:
        assert room not in way, " → ".join((*way, room))
        for target in sorted(edges[room]):
            visit(target, (*way, room))
        seen.append(room)

    for room in sorted(edges):
        visit(room, ())


def literal_keys(tree: ast.Module) -> int:
    """How often a document is read by a key that stands in the code. Tables of the code's own (in capitals) and the
    environment are no documents."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            read, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READ_OF:
            read, key = node.func.value, node.args[0] if node.args else ast.Constant(None)
        else:
            continue
        is_literal = isinstance(key, ast.Constant) and isinstance(key.value, str)
        count += is_literal and not ast.unparse(read).isupper() and ast.unparse(read) != "os.environ"
    return count


def json_signatures(tree: ast.Module) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum(any(_is_json(kind) for kind in _annotations(function)) for function in functions)


def document_parameters(tree: ast.Module) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum(
        any(
            ast.unparse(node) in DOCUMENTS
            for argument in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)
            if argument.annotation is not None
            for node in ast.walk(argument.annotation)
        )
        for one in functions
    )


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    yield from (argument.annotation for argument in arguments if argument.annotation is not None)
    if function.returns is not None:
        yield function.returns


def _is_json(annotation: ast.expr) -> bool:
    return any(ast.unparse(node) in ("Json", "dict[str, Any]") for node in ast.walk(annotation))


def counted(count: object) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, tree in sources().items():
        if name not in GENERATED:
            found[room_of(name)] += count(tree)  # type: ignore[operator]
    return dict(sorted((room, number) for room, number in found.items() if number))


@pytest.mark.parametrize(
    ("count", "most"),
    [(literal_keys, LITERAL_KEYS), (json_signatures, JSON_SIGNATURES), (document_parameters, DOCUMENT_PARAMETERS)],
    ids=["keys", "signatures", "parameters"],
)
def test_documents_become_fewer(count: object, most: dict[str, int]) -> None:
    now = counted(count)
    assert {room: number for room, number in now.items() if number > most.get(room, 0)} == {}, "use the types"
    lower = {room: now.get(room, 0) for room, number in most.items() if now.get(room, 0) + LAG < number}
    assert lower == {}, "far fewer than the test allows; write the new numbers into it"


def event_documents(tree: ast.Module) -> Iterator[int]:
    """Lines that take events as documents: `record.documents_of(…)`, `event["event"]`, `event.get("event")`."""
    for node in ast.walk(tree):
        key: object = None
        if isinstance(node, ast.Subscript):
            key = getattr(node.slice, "value", None)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in READ_OF and node.args:
            key = getattr(node.args[0], "value", None)
        if isinstance(node, ast.expr) and (key == "event" or getattr(node, "attr", "") == "documents_of"):
            yield node.lineno


def test_converted_rooms_read_typed_events() -> None:
    told = [
        f"{name}:{line}"
        for name, tree in sources().items()
        if room_of(name) not in EVENTS_AS_DOCUMENTS
        for line in event_documents(tree)
    ]
    assert told == [], "use record.of(Type)"
    left = {room_of(name) for name, tree in sources().items() if any(event_documents(tree))}
    assert set(EVENTS_AS_DOCUMENTS) == left, "a room that is converted leaves this list"


OF_OPERATIONS = ("advise", "analysis")
"""Rooms whose figures are of operations."""
SETS_OF_OPERATIONS = ("CHAIN", "CHAINS", "METADATA", "FLUSH")


def sets_by_hand(name: str, tree: ast.Module) -> Iterator[int]:
    """Lines that choose operations for a figure by a set of their own: unions of sets and comparisons with their names
    anywhere, and with a word where figures are made."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides: list[ast.expr] = [node.left, node.right]
            words = False
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.NotIn | ast.NotEq) for op in node.ops):
            sides, words = [node.left, *node.comparators], room_of(name) in OF_OPERATIONS
        else:
            continue
        inside = [part for side in sides for part in ast.walk(side)]
        named = any(getattr(part, "id", getattr(part, "attr", "")) in SETS_OF_OPERATIONS for part in inside)
        if named or (words and any(getattr(part, "value", None) in ("flush", "trim") for part in inside)):
            yield node.lineno


def test_which_operations_a_figure_is_of_stands_in_one_place() -> None:
    """`schema/operations.py`: what is a request, what a rate counts, what a pace is of."""
    told = [
        f"{name}:{line}"
        for name, tree in sources().items()
        if name != "schema/operations.py"
        for line in sets_by_hand(name, tree)
    ]
    assert told == [], "use is_request, is_on_data, in_rate or is_paced"


def percentile_lists(tree: ast.Module) -> Iterator[int]:
    """Lines that list names of percentiles, or read the number out of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            inside = (node.keys if isinstance(node, ast.Dict) else node.elts) or []
            rows = [inner for part in inside for inner in (part.elts if isinstance(part, ast.Tuple) else [part])]
            words = [str(getattr(part, "value", "")) for part in rows]
            if sum(re.fullmatch(r"p\d+(\.\d+)?", word) is not None for word in words) > 1:
                yield node.lineno
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "float":
            yield from [node.lineno] * ast.unparse(node).endswith("removeprefix('p'))")


def test_names_of_percentiles_stand_in_one_place() -> None:
    """`percentiles.py`, as does how many samples each needs."""
    other = {name: tree for name, tree in sources().items() if name not in ("percentiles.py", *GENERATED)}
    told = [f"{name}:{line}" for name, tree in other.items() for line in percentile_lists(tree)]
    assert told == [], "use a list of brickyard.percentiles"


def constants(tree: ast.Module) -> Iterator[tuple[str, str, bool]]:
    """Name and value of each constant of a module, and whether it is a list, set or table of three or more."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            name, value = node.target.id, node.value
        else:
            continue
        inside = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
        yield name, ast.unparse(value), len(inside) > 2 and not any(isinstance(n, ast.Name) for n in ast.walk(value))


def test_a_list_is_kept_once() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in sources().items():
        for name, value, is_list in constants(tree):
            if is_list:
                homes.setdefault(value, []).append(f"{path}: {name}")
    assert [found for found in homes.values() if len(found) > 1] == [], "import it from one place"


def test_outcomes_are_those_of_the_schema() -> None:
    assert set(ENDED) == set(RunOutcome)
    assert set(STATE_NAMES) < set(SampledState)


NAMED_ALIKE = 20
"""Constants of one name that have one value in several modules; of some the likeness is chance. There are no more."""


def test_constants_of_one_name_and_value_become_fewer() -> None:
    found = Counter((name, value) for tree in sources().values() for name, value, _ in constants(tree))
    twice = sorted(name for (name, value), number in found.items() if number > 1 and "TypeVar(" not in value)
    assert NAMED_ALIKE - LAG <= len(twice) <= NAMED_ALIKE, twice


def test_a_valid_run_is_defined_once() -> None:
    """`RunHead.is_valid`: nobody else looks at both the outcome and the reason why a run is invalid."""
    told = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        if name != "store/record.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.BoolOp)
        and {"outcome", "invalid"} <= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        and any(getattr(part, "value", None) == "done" for part in ast.walk(node))
    ]
    assert told == [], "use is_valid"


ONE_THREAD = ("fleet", "lab", "watch")
"""Rooms where one thread alone reads types of its own."""


def types_read(tree: ast.Module) -> Iterator[str]:
    """What msgspec is asked to make of a document; a type in a variable is whoever calls's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("msgspec.convert", "msgspec.json.decode"):
            kinds = [word.value for word in node.keywords if word.arg == "type"]
            kinds += node.args[1:2] if ast.unparse(node.func) == "msgspec.convert" else []
            yield from (ast.unparse(kind).replace("schema.", "") for kind in kinds if ast.unparse(kind) != "kind")


def types_ready(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("ready", "msgspec.json.Decoder"):
            yield from map(ast.unparse, node.args)


def test_types_are_ready_before_threads_read_them() -> None:
    """`brickyard.ready` says why; a `Decoder` of a module makes its type ready as well."""
    made = {kind for tree in sources().values() for kind in types_ready(tree)}
    read = [(name, kind) for name, tree in sources().items() for kind in types_read(tree)]
    missing = [f"{name}: {kind}" for name, kind in read if kind not in made and room_of(name) not in ONE_THREAD]
    assert missing == []


def test_types_have_one_name_each() -> None:
    """Across rooms; private ones, and modules of one room, may use a word again."""
    homes: dict[str, set[str]] = {}
    for name, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(room_of(name))
    twice = {name: sorted(rooms) for name, rooms in homes.items() if len(rooms) > 1}
    assert {name: rooms for name, rooms in twice.items() if len(rooms) > SHARED.get(name, 1)} == {}
    assert {name for name in SHARED if len(twice.get(name, [])) < SHARED[name]} == set(), "no longer shared that often"


SHARED: dict[str, int] = {
    "Account": 2,
    "Answer": 2,
    "Brick": 2,
    "Cell": 3,
    "Channel": 2,
    "Drivers": 2,
    "Entry": 2,
    "Extent": 2,
    "Figure": 3,
    "Figures": 2,
    "Finding": 3,
    "Fitted": 2,
    "Found": 3,
    "Imported": 2,
    "Interval": 2,
    "Layout": 4,
    "Limit": 2,
    "Load": 2,
    "Measured": 2,
    "Outcome": 3,
    "Part": 2,
    "Place": 2,
    "Plan": 2,
    "Predicted": 2,
    "Seen": 2,
    "Served": 2,
    "Setup": 2,
    "Stage": 2,
    "State": 4,
    "Steady": 2,
    "Step": 3,
    "Stop": 3,
    "Table": 4,
    "Verdict": 2,
    "Wanted": 2,
    "Worker": 2,
    "Written": 2,
}
"""In so many rooms; for each a word of its own would be better, and there are no more of them."""


def words_used() -> Counter[str]:
    """Every name that the house, its other tests, benches and tools write."""
    folders = [HOUSE, *(ROOT / name for name in ("tests", "benches", "tools", "docs", "crates/python/src"))]
    found: Counter[str] = Counter()
    for folder in folders:
        for path in folder.rglob("*"):
            is_text = path.suffix in (".py", ".md", ".rs", ".html", ".j2", ".js")
            if is_text and "__pycache__" not in path.parts and path != Path(__file__):
                found.update(re.findall(r"\w+", path.read_text()))
    return found


IN_DOCUMENTS = (
    "honesty/figures.py: flushed_write_ns",
    "traces/compared.py: first_bytes",
    "traces/compared.py: second_bytes",
)
"""Fields that only whoever gets the document reads. There are no more of them."""


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes and constants of a module, and fields of its dataclasses; a private one as well as others."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            names = [part for target in node.targets for part in getattr(target, "elts", [target])]
            yield from ((part.id, node) for part in names if isinstance(part, ast.Name))
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
            yield from ((field.id, node) for field in fields if isinstance(field, ast.Name))


def test_everything_that_is_defined_is_used() -> None:
    used = words_used()
    unused = [
        f"{name}: {word}"
        for name, tree in sources().items()
        for word, node in definitions(tree)
        if not word.startswith("__")
        and used[word] < 2
        # Functions of the command line are commands: `cli/__init__.py` loads them by their names.
        and not (room_of(name) == "cli" and isinstance(node, ast.FunctionDef))
    ]
    assert sorted(unused) == sorted(IN_DOCUMENTS)


def test_every_module_is_imported() -> None:
    """The command line loads its modules by name."""
    texts = "\n".join(path.read_text() for path in HOUSE.rglob("*.py"))
    imported = set(re.findall(r"brickyard(?:\.\w+)+", texts)) | {"brickyard.api"}
    imported |= {f"brickyard.cli.{name}" for name in re.findall(r"([\w.]+):\w+", (HOUSE / "cli/app.py").read_text())}
    trees = [(f"brickyard/{name}", tree) for name, tree in sources().items()]
    trees += [("", ast.parse(path.read_text())) for path in (ROOT / "tests").rglob("*.py")]
    for name, tree in trees:
        here = name.split("/")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                home = ".".join([*(here[: len(here) + 1 - node.level] if node.level else []), node.module or ""])
                imported |= {home, *(f"{home.rstrip('.')}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    modules = {name: "brickyard." + name.removesuffix(".py").replace("/", ".") for name in sources()}
    assert [name for name, dotted in modules.items() if "__" not in name and dotted not in imported] == []


PURE = ("analysis",)
"""Rooms that touch no file, as ARCHITECTURE says."""
READERS = ("open", "read_text", "read_bytes", "iterdir", "scandir")


def test_rooms_that_touch_no_file_read_none() -> None:
    told = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        if room_of(name) in PURE
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in READERS
    ]
    assert told == [], "read it where the caller has it from, or by brickyard.shipped"


def test_every_bench_is_run_and_started() -> None:
    """By `make bench`, which names them in their order; `make bench-smoke` starts each file of the folder."""
    makefile = (ROOT / "Makefile").read_text()
    assert "$(wildcard benches/*.py)" in makefile
    for path in sorted((ROOT / "benches").glob("*.py")):
        assert makefile.count(f" benches/{path.name}") == 1, path.name


def test_no_test_is_imported_by_another() -> None:
    """What several share stands beside the folders, where it is found by its name alone."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("test_")
    ]
    assert found == []


def test_words_that_are_banned_stay_away() -> None:
    found = []
    for name, tree in sources().items():
        strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        found += [
            f"{name}:{node.lineno}: {match[0]} ({better})"
            for node in strings
            for words, better in BANNED.items()
            if (match := re.search(words, str(node.value)))
        ]
    assert found == []


def test_the_tools_own_rules_hold() -> None:
    """The types of events and plans are those of the schema in the tree."""
    subprocess.run([sys.executable, ROOT / "tools/schema.py", "--check"], check=True)


def test_a_warning_is_made_and_worded_in_one_place() -> None:
    """So that each has its figures and names."""
    made = [name for name, tree in sources().items() for node in ast.walk(tree) if is_made(node)]
    assert made == ["schema/warning.py"]


def is_made(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "RunWarning"


def test_what_is_in_flight_in_total_is_computed_in_one_place() -> None:
    factors = {"workers", "depth"}
    found = [
        name
        for name, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult)
        and factors <= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    ]
    assert found == ["schema/operations.py"]
