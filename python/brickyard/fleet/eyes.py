"""Duty: what is sent to a host so that it can be looked at there: `brickyard.facts` as an archive of sources.

Refusal: nothing is installed or written on a host; what was sent goes with the run.
"""

from __future__ import annotations

import io
import marshal
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path

from brickyard.errors import BrickyardError

ROOMS = ("facts", "outputs", "schema")
MODULES = ("__init__", "errors", "printable", "ready", "units")
UNCHECKED = (1).to_bytes(4, "little")  # a hash stands where a time would, and nobody checks it
NATIVE = "_core"  # the compiled half of msgspec


@dataclass(frozen=True)
class Eyes:
    """What `brickyard.facts.far` needs beside a Python of the same version."""

    archive: bytes
    native: bytes


@cache
def eyes() -> Eyes:
    """Raises BrickyardError where they cannot be read."""
    ours, msgspec = _folder("brickyard"), _folder("msgspec")
    native = next((place for end in EXTENSION_SUFFIXES if (place := msgspec / f"{NATIVE}{end}").is_file()), None)
    if native is None:
        raise BrickyardError("this installation of msgspec has no compiled half that could be sent")
    sources = [ours / f"{name}.py" for name in MODULES]
    sources += [path for room in ROOMS for path in sorted((ours / room).glob("*.py"))]
    sources += sorted(msgspec.glob("*.py"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            home = ours if path.is_relative_to(ours) else msgspec
            name, source = f"{home.name}/{path.relative_to(home)}", path.read_bytes()
            archive.writestr(name, source)
            archive.writestr(f"{name}c", _compiled(name, source))
    return Eyes(packed.getvalue(), native.read_bytes())


def _compiled(name: str, source: bytes) -> bytes:
    """As Python keeps it (PEP 552), not to be checked against the source; another version of Python takes that."""
    code = compile(source, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + UNCHECKED + source_hash(source) + marshal.dumps(code)


def _folder(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise BrickyardError(f"the sources of {package} are not here")
    return Path(found.origin).parent
