"""Loads in the words of other tools, and what fio makes of them: what the tests of interchange share."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from brickyard import _core
from brickyard.formats.fio_job import Imported, import_fio

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HERE = Path(".")


def plan_of(imported: Imported) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(_core.validate(imported.text, []))
    return plan


def fio(text: str) -> dict[str, Any]:
    return plan_of(import_fio("sample", text, HERE))


def streams(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [stream for phase in plan["phase"] for stream in phase["stream"]]


def sizes(stream: dict[str, Any]) -> dict[tuple[str | None, int], float]:
    return {(item.get("of"), item["size"]): item["share"] for item in stream["request"]}


def notes_of(text: str) -> list[str]:
    return import_fio("x", text, HERE).notes


QUEUE = "rw=randread\nsize=1m\niodepth=16\nnorandommap\n"


# ---- fio itself as the judge

CHECKED = {
    "mix": "rw=randrw\nrwmixread=70\nbs=4k\nnorandommap",
    "sizes by direction": "rw=randrw\nbs=4k,64k\nnorandommap",
    "bssplit": "rw=randread\nbssplit=4k/60:16k/30:64k/10\nnorandommap",
    "bsrange": "rw=randread\nbsrange=4k-10k\nnorandommap",
    "bsrange in order": "rw=read\nbsrange=16k-100k",
    "bssplit that is rounded": "rw=randread\nbssplit=4k/50:10k/50\nnorandommap",
    "zoned": "rw=randread\nbs=4k\nnorandommap\nrandom_distribution=zoned:50/5:30/15:20/",
    "zoned_abs": "rw=randread\nbs=4k\nnorandommap\nrandom_distribution=zoned_abs:60/4m:40/60m",
    "normal": "rw=randread\nbs=4k\nrandom_distribution=normal:20",
    "zipf": "rw=randread\nbs=4k\nrandom_distribution=zipf:1.2",
    "strided": "rw=read:60k\nbs=4k",
    "sequential": "rw=write\nbs=128k",
    "map": "rw=randwrite\nbs=4k",
    "partly random": "rw=randread\nbs=4k\npercentage_random=40\nnorandommap",
    "region": "rw=randread\nbs=4k\noffset=16m\nsize=16m\nnorandommap",
    "less than the file": "rw=randread\nbs=4k\nfilesize=32m\nsize=8m\nnorandommap",
    "more than the file": "rw=randread\nbs=4k\nfilesize=16m\nsize=32m\nnorandommap",
    "the first part": "rw=read\nbs=64k\nfilesize=64m\nsize=16m",
}
FILE_BYTES = 64 * MIB


def fio_json(directory: Path, form: str, options: str) -> Path:
    """What fio printed of a job on a file of this directory."""
    job = directory / "shop.fio"
    job.write_text(f"[shop]\nfilename={directory / 'data'}\n{options}\n")
    out = directory / f"result.{form.replace('+', 'plus')}.json"
    subprocess.run(
        ["fio", f"--output-format={form}", f"--output={out}", str(job)], cwd=directory, check=True, capture_output=True
    )
    return out


def requests_of_fio(options: str, directory: Path) -> list[tuple[str, int, int]]:
    """Operation, offset and size of each request that fio draws; its null engine moves nothing."""
    size = "" if "size=" in options else f"size={FILE_BYTES}\n"
    job, log = directory / "job.fio", directory / "io.log"
    log.unlink(missing_ok=True)  # fio adds to it
    with (directory / "x").open("wb") as file:
        file.truncate(FILE_BYTES)
    job.write_text(f"[job]\n{options}\n{size}filename=x\nioengine=null\nwrite_iolog={log}\n")
    subprocess.run(["fio", str(job)], cwd=directory, check=True, capture_output=True)
    words = (line.split() for line in log.read_text().splitlines())
    kinds = ("read", "write")
    return [(w[-3], int(w[-2]), int(w[-1])) for w in words if len(w) >= 4 and w[-3] in kinds]


def counts_of_fio(jobs: str, directory: Path) -> Counter[tuple[str, str]]:
    """Requests by job and operation."""
    job = directory / "job.fio"
    job.write_text(jobs)
    done = subprocess.run(["fio", "--output-format=json", job.name], cwd=directory, check=True, capture_output=True)
    found: Counter[tuple[str, str]] = Counter()
    for item in json.loads(done.stdout[done.stdout.index(b"{") :])["jobs"]:
        for operation in ("read", "write"):
            found[item["jobname"], operation] += item[operation]["total_ios"]
    return +found
