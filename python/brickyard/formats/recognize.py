"""Duty: which tool a text belongs to, and the importer for it. Refusal: no guess where nothing tells."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from brickyard.errors import BadInputError
from brickyard.formats.diskspd import import_diskspd
from brickyard.formats.diskspd_result import read_diskspd
from brickyard.formats.elbencho_result import read_elbencho
from brickyard.formats.fio_job import Imported, import_fio, import_fio_command
from brickyard.formats.fio_json import BEGIN_OF_RESULT
from brickyard.formats.icf import import_icf
from brickyard.formats.iometer_result import read_iometer
from brickyard.formats.sqlio import import_sqlio
from brickyard.formats.sqliosim import import_sqliosim, is_sqliosim
from brickyard.formats.tool_result import ToolResult
from brickyard.formats.vscsistats import import_vscsistats, is_vscsistats

FORMATS = ("fio", "fio-command", "icf", "sqlio", "sqlio-param", "sqliosim", "diskspd", "vscsistats")
RESULT_FORMATS = ("fio-json", "diskspd-result", "iometer-result", "elbencho-result")

COMMAND = re.compile(r"\s*([$#]\s+)?((sudo|time|nohup)\s+)*([^\s|;&]*/)?fio\s+(-|\S+\s+-|\S+\.(fio|ini|job)\s*$)")
"""A fio command line, also as it stands in notes: behind a prompt, by sudo, with a path; a job file may be first."""
RESULTS = {
    "elbencho": r"(?m)^OPERATION +RESULT TYPE\b",
    "SQLIO": r"(?m)^(using system counter for timing|CUMULATIVE DATA:)",
    "Iozone": r"Iozone: Performance Test",
    "Vdbench": r"(?m)^Vdbench distribution:|Vdbench summary report",
}
"""How results that are not read begin, or what stands in them alone."""
READ_RESULTS = {
    "diskspd-result": r"\A\s*(Command Line: .*\n\s*)?Input parameters:|\A\s*(<\?xml.*\?>\s*)?(<!DOC.*\s*)?<Results>",
    "iometer-result": r"(?m)^'(Results|Target Type,Target Name)\b",
    "elbencho-result": r"(?i)\AISO DATE,LABEL\b|\A\s*\{\s*\"phase_type\"",
}
FIO_RESULTS = r"(?m)^\S+: \(g=\d+\): rw=|^\d;fio-\d"
REDIRECTION = re.compile(r"([12&]?>>?|<)(.*)", re.DOTALL)


def recognize(text: str) -> str | None:
    if (result := _recognize_result(text)) is not None:
        return result
    if is_vscsistats(text):
        return "vscsistats"
    if re.search(r"(?mi)^'(access specification|test setup)", text):
        return "icf"
    for program in ("sqlio", "diskspd"):
        # In a batch file the name stands first in a line, or behind `call`, `do` and the like.
        if re.search(rf'(?mi)(^|[\s@"\\/]){program}(64)?(\.exe)?"?\s', text):
            return program
    if is_sqliosim(text):
        return "sqliosim"
    if COMMAND.match(text):
        return "fio-command"
    if re.search(r"(?m)^\s*\[.+\]\s*$", text):
        return "fio"
    if re.search(r"(?mi)^\s*\S+[ \t]+\d+([ \t]+0x[0-9a-f]+([ \t]+\d+)?)?[ \t]*(#.*)?$", text):
        return "sqlio-param"
    return None


def _recognize_result(text: str) -> str | None:
    if '"fio version"' in text:
        return "fio-json"
    return next((name for name, sign in READ_RESULTS.items() if re.search(sign, text)), None)


def refuse_results(text: str) -> None:
    """Raises BadInputError where a text is what a tool measured, in a form that is not read."""
    for tool, sign in RESULTS.items():
        if re.search(sign, text):
            raise BadInputError(
                f"these are results of {tool} in a form that is not read; read are fio's JSON, diskspd's XML and text, "
                f"Iometer's CSV, and elbencho's --csvfile and --jsonfile. Import {tool}'s workload and run it here"
            )
    if re.search(FIO_RESULTS, text) and not BEGIN_OF_RESULT.search(text):
        raise BadInputError("these are results of fio as text; run fio with --output-format=json+ and import that")


def read_tool_result(found: str, name: str, text: str) -> ToolResult:
    readers = {"diskspd-result": read_diskspd, "iometer-result": read_iometer, "elbencho-result": read_elbencho}
    return readers[found](name, text)


def import_profile(found: str, name: str, text: str, directory: Path) -> Imported:
    if found == "fio":
        return import_fio(name, text, directory)
    if found == "fio-command":
        return import_fio_command(name, _command_words(text), directory)
    if found == "icf":
        return import_icf(name, text)
    if found == "sqliosim":
        return import_sqliosim(name, text)
    if found == "vscsistats":
        return import_vscsistats(name, text)
    if found == "diskspd":
        return import_diskspd(name, text)
    if found == "sqlio-param":
        # A param.txt alone says where, not what: SQLIO's defaults, reads of 2 KiB for 30 s, as it would run them.
        return import_sqlio(name, "sqlio", directory, text)
    return import_sqlio(name, text, directory)


def _command_words(text: str) -> list[str]:
    """The words behind fio's name, without what becomes of its output."""
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise BadInputError(f"fio command line: {error}") from error
    names = [place for place, word in enumerate(words) if Path(word).name == "fio"]
    if len(names) > 1 and any(words[place - 1][-1:] in ("&", ";", "|") for place in names[1:]):
        raise BadInputError("several command lines of fio; import each of them apart")
    found: list[str] = []
    rest = words[names[0] + 1 if names else 1 :]
    while rest:
        word = rest.pop(0)
        if word in ("|", "||", "&&", "&", ";"):
            break
        if redirected := REDIRECTION.fullmatch(word):
            if not redirected[2]:
                rest = rest[1:]
            continue
        found.append(word)
    return found
