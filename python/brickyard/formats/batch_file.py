"""Duty: a Windows batch file, or lines of it → the command lines of one program, as `cmd` would start them.

Understood are SET and %NAME%, FOR over words and FOR /L with blocks in parentheses, GOTO to a label further down,
`call`, `start`, `cmd /c`, redirections, pipes, `&`, and ^ at line ends.

Refusal: what decides by itself whether a line runs (IF, GOTO backwards) is refused, as are commands of other programs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from brickyard.errors import BadInputError

MAX_LINES = 4096  # that a FOR may become
# They wait, print or tidy up; nothing of the load.
IDLE = re.compile(
    r"(?i)(#|::|:\w|rem\b|echo\b|timeout\b|pause\b|sleep\b|ping\b|setlocal\b|endlocal\b|cls\b|title\b|exit\b|cd\b|chdir\b|"
    r"mkdir\b|md\b|del\b|copy\b|type\b|date\b|time\b|fsutil\b)"
)
PAUSE = re.compile(r"(?i)(?:^|[&(])\s*@?\s*((?:timeout|sleep|pause|ping)\b[^&|>)]*)")
END = re.compile(r"(?i)(exit\b|goto\s*:?eof\b)")
JUMP = re.compile(r"(?i)goto\s*:?\s*(\w+)$")
REDIRECTION = re.compile(
    r"(?:(?<=\s)|^)(?:[12]?>>?|<)\s*(?:&[12]|\"[^\"]*\"|[^\s&|]+)|(?<=[^\s])>>?\s*(?:\"[^\"]*\"|[^\s&|]+)"
)


def commands(text: str, program: str) -> list[list[str]]:
    """The words behind the program's name, a list for each time it is started."""
    variables: dict[str, str] = {}
    found: list[list[str]] = []
    for line in _reached(_whole(text)):
        for command in _expanded(line, variables):
            words = _words(command, program)
            if words is not None:
                found.append(words)
    if not found:
        raise BadInputError(f"no command line of {program} in it")
    return found


def pause_notes(text: str) -> list[str]:
    """That the profile does not wait where the file does."""
    found = [said[1].strip() for line in text.splitlines() if (said := PAUSE.search(line.strip()))]
    return [f"Pauses of the batch file are left out: {', '.join(dict.fromkeys(found))}."] if found else []


def _whole(text: str) -> list[str]:
    """Lines with their continuations; the lines of a FOR's block, which is in parentheses, are one."""
    made: list[str] = []
    depth = 0
    for raw in re.sub(r"\^[ \t]*\r?\n", " ", text).splitlines():
        line = raw.strip().lstrip("@").strip()
        inside = depth > 0
        if inside and IDLE.match(line):
            continue
        if inside or re.match(r"(?i)(for|if)\b", line):
            plain = re.sub(r"\"[^\"]*\"", "", line)
            depth += plain.count("(") - plain.count(")")
        if inside:
            made[-1] += f"\n{line}"
        else:
            made.append(line)
    if depth > 0:
        raise BadInputError(f"`{made[-1].splitlines()[0]}`: its block has no closing parenthesis")
    return made


def _reached(lines: list[str]) -> Iterator[str]:
    """Those that run: none behind the end of the file's work, and none between a GOTO and its label further down."""
    label = ""
    for number, line in enumerate(lines):
        if label:
            label = "" if re.match(rf"(?i):\s*{label}\b", line) else label
        elif END.match(line):
            return
        elif jump := JUMP.match(line):
            label = jump[1]
            if not any(re.match(rf"(?i):\s*{label}\b", later) for later in lines[number + 1 :]):
                raise BadInputError(f"`{line}`: only labels further down are followed; write the command lines out")
        else:
            yield line


def _expanded(line: str, variables: dict[str, str]) -> list[str]:
    """Single commands with their variables replaced; SET changes the variables."""
    line = line.lstrip("@").strip()
    if not line or IDLE.match(line):
        return []
    line = _replaced(line, variables)
    several = _lines_apart(line)
    if len(several) > 1:
        return [command for part in several for command in _expanded(part, variables)]
    if loop := re.match(r"(?is)for\s+(%%?\w)\s+in\s*\(([^)]*)\)\s*do\b\s*(.*)$", line):
        name, items, body = loop[1], re.split(r"[\s,;]+", loop[2].strip()), _body(loop[3])
        made = [part for item in items for part in _expanded(body.replace(name, item), variables)]
        if len(made) > MAX_LINES:
            raise BadInputError(f"`{line}`: more than {MAX_LINES} command lines")
        return made
    if re.match(r"(?i)for\s+/l\b", line):
        return _counted(line, variables)
    if re.match(r"(?i)(if|goto|for)\b", line):
        raise BadInputError(
            f"`{line.splitlines()[0]}`: only FOR over words or FOR /L is followed here; write the command lines out"
        )
    parts = _split(line)
    if len(parts) > 1:
        return [command for part in parts for command in _expanded(part, variables)]
    if setting := re.match(r'(?i)set\s+(?!/)("?)(\w[^="]*)=(.*)$', line):
        # Quotes around all of it are not part of the value; quotes around the value are.
        variables[setting[2].strip().lower()] = setting[3].strip().removesuffix(setting[1]).strip()
        return []
    return [line]


def _counted(line: str, variables: dict[str, str]) -> list[str]:
    found = re.match(r"(?is)for\s+/l\s+(%%?\w)\s+in\s*\(\s*(-?\d+)[\s,]+(-?\d+)[\s,]+(-?\d+)\s*\)\s*do\b\s*(.*)$", line)
    if not found or not int(found[3]):
        raise BadInputError(f"`{line}`: FOR /L is (START,STEP,END)")
    start, step, end = (int(found[k]) for k in (2, 3, 4))
    values = range(start, end + (1 if step > 0 else -1), step)
    if len(values) > MAX_LINES:
        raise BadInputError(f"`{line}`: more than {MAX_LINES} command lines")
    body = _body(found[5])
    return [command for value in values for command in _expanded(body.replace(found[1], str(value)), variables)]


def _lines_apart(text: str) -> list[str]:
    """The lines of a block; those of a block within it stay together."""
    made: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth > 0:
            made[-1] += f"\n{line}"
        elif line.strip():
            made.append(line)
        plain = re.sub(r"\"[^\"]*\"", "", line)
        depth += plain.count("(") - plain.count(")")
    return made


def _body(text: str) -> str:
    """What a FOR repeats, without the parentheses around all of it."""
    text = text.strip()
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text


def _replaced(line: str, variables: dict[str, str]) -> str:
    """A variable that was not set stays as it is, since its name may be part of a path."""
    return re.sub(r"%(\w+)%", lambda m: variables.get(m[1].lower(), m[0]), line)


def _split(line: str) -> list[str]:
    """At `&`, `&&` and `||` outside quotes; behind a pipe stands a reader of the output."""
    parts = re.findall(r"(?:\"[^\"]*\"|\d?>&\d|[^&|\"])+|&&?|\|\|?", line)
    kept: list[str] = []
    is_reader = False
    for part in parts:
        if part in ("&", "&&", "||", "|"):
            is_reader = part == "|"
        elif not is_reader and part.strip():
            kept.append(part.strip())
    return kept


def _words(command: str, program: str) -> list[str] | None:
    plain = REDIRECTION.sub(" ", command)
    plain = re.sub(r"(?i)^(call|cmd(\.exe)?\s+/c|start(\s+\"[^\"]*\")?(\s+/\w+)*)\s+", "", plain.strip())
    try:
        # Windows paths have backslashes, which are no escapes there.
        words = [word.strip('"') for word in shlex.split(plain, posix=False)]
    except ValueError as error:
        raise BadInputError(f"`{command}`: {error}") from error
    words = [word for word in words if word]
    if not words:
        return None
    if left := re.search(r"%\w+%|%%\w", plain):
        raise BadInputError(f"`{command}`: {left[0]} is not set in this file")
    if re.fullmatch(rf"(?i)(.*[\\/])?{program}(64)?(\.exe)?", words[0]):
        return words[1:]
    if words[0][0] not in "-/":
        raise BadInputError(f"`{words[0]}` is not {program}; give command lines of {program} alone")
    return words
