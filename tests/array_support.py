"""Tools of arrays and controllers that answer as a test wants, and fail or hang."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brickyard.arrays.host import Host
from brickyard.facts.roots import Roots, Tools


def host(tmp_path: Path, answers: dict[str, str]) -> Host:
    """Programs that answer by their arguments and note down what they were asked."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for program in {words.split()[0] for words in answers}:
        cases = "".join(
            f"  {' '.join(words.split()[1:])!r}) cat <<'END'\n{answer}\nEND\n  ;;\n"
            for words, answer in answers.items()
            if words.split()[0] == program
        )
        path = folder / program
        path.write_text(
            f'#!/bin/sh\necho "{program} $*" >> {tmp_path}/asked\ncase "$*" in\n{cases}  *) exit 3;;\nesac\n'
        )
        path.chmod(0o755)

    class Own(Tools):
        def find(self, program: str) -> str | None:
            return str(folder / program) if (folder / program).exists() else None

    return Host(Roots(sys=str(tmp_path / "sys"), proc=str(tmp_path / "proc"), tools=Own()))


def asked(tmp_path: Path) -> list[str]:
    return (tmp_path / "asked").read_text().splitlines()


def storcli_reply(data: Any, status: str = "Success", description: str = "None") -> str:
    head = {"CLI Version": "007.1", "Controller": 0, "Status": status, "Description": description}
    return json.dumps({"Controllers": [{"Command Status": head, "Response Data": data}]})


def volume(state: str, drives: Sequence[str]) -> str:
    shown = [{"EID:Slt": f"252:{n}", "DID": n + 4, "State": word, "DG": 0} for n, word in enumerate(drives)]
    return storcli_reply(
        {
            "/c0/v1": [{"DG/VD": "0/1", "TYPE": "RAID5", "State": state, "Access": "RW", "Size": "1.8 TB"}],
            "PDs for VD 1": shown,
            "VD1 Properties": {
                "Number of Blocks": 3905945600,
                "Span Depth": 1,
                "Number of Drives Per Span": 3,
                "Write Cache(initial setting)": "WriteBack",
                "OS Drive Name": "/dev/sdb",
                "SCSI NAA Id": "600508e0",
            },
        }
    )


IDLE = storcli_reply([{"VD": 1, "Operation": "CC", "Progress%": "-", "Status": "Not in progress"}])


def storcli_host(tmp_path: Path, state: str, drives: Sequence[str], **more: str) -> Host:
    quiet = {f"storcli64 /c0/v1 show {operation} J": IDLE for operation in ("cc", "init", "migrate")}
    return host(tmp_path, {"storcli64 /c0/v1 show all J": volume(state, drives), **quiet, **more})


NAME = "storcli:/c0/v1"

LISTED = json.dumps(json.loads(storcli_reply({"Virtual Drives": [{"DG/VD": "0/1"}]})))

WHOLE, DEGRADED = ("Optl", ["Onln"] * 3), ("Dgrd", ["Onln", "Onln", "Offln"])


class Controller:
    """A controller's tool, first on the path, that answers, fails or hangs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def shows(self, state: tuple[str, list[str]]) -> None:
        storcli_host(self.folder, *state, **{"storcli64 /call/vall show J": LISTED})

    def does(self, script: str) -> None:
        place = self.folder / "bin" / "storcli64"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
