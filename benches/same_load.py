"""Whether a load that was seen comes again: captured, issued again as a trace and as a profile, and compared.

Each load runs on a brick of its own: an emulated disk (`brickyard lab`: a model that real time drives, below a loop
device), a file, or a modelled brick. What the device was asked is captured by `brickyard watch`, on files and models by
`--save-trace`. Then the trace, by its times and by its dependences, and the profile of it run on the same brick. They
are captured in the same way, since a program knows of an end later than the device does. `brickyard trace compare` says
how far each is from what was captured first. The table is the one in docs/trace.md.

    python benches/same_load.py [--seconds S] [--only NAME] [--smoke]

Needs root, FUSE and fio; pgbench needs an installed server. About ten minutes: each of the five programs is captured
twice, and each load is issued three times.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brickyard import traces
from brickyard.databases.ephemeral import ephemeral_postgres
from brickyard.lab import disks

BRICKYARD = [sys.executable, "-m", "brickyard"]
WITH_SBIN = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
DISK, MODEL, SPEED, SIZE = "same-load", "sim:msr-2003-wd", 4.0, 1 << 30
TIMEOUT_S = 600
FIGURES = {
    "size": "size of",
    "order": "sequential",
    "gap": "gap",
    "depth": "depth",
    "reuse": "reuse",
    "latency": "latency",
}
"""Columns, and how the figures of each begin: the largest of their distances and differences of means is shown."""


def shell(*words: str, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(words, capture_output=True, text=True, env=WITH_SBIN, timeout=TIMEOUT_S, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def brickyard(*words: str) -> Any:
    """Exit code 1 says that a comparison or a run did not hold; what was found is printed all the same."""
    return json.loads(shell(*BRICKYARD, *words, "--json", codes=(0, 1)))


@contextmanager
def emulated(speed: float) -> Iterator[str]:
    about = disks.up(disks.Wanted(DISK, MODEL, SIZE, "honest", 8 << 20, None, None, speed))
    try:
        # Each request reaches the disk as it was asked for, in the capture and again.
        Path(f"/sys/block/{Path(about.device).name}/queue/nomerges").write_text("2")
        yield about.device
    finally:
        disks.down(DISK)


@contextmanager
def mounted(device: str) -> Iterator[Path]:
    shell("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    with ExitStack() as undo:
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        shell("mount", device, str(place))
        undo.callback(shell, "umount", str(place))
        place.chmod(0o755)
        yield place


@contextmanager
def captured(device: str, trace: Path) -> Iterator[None]:
    words = [*BRICKYARD, "watch", device, "--method", "bpf", "--save", str(trace), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            if not any(line.startswith("watching") for line in process.stderr):
                raise SystemExit("the watch did not begin")
            yield
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=TIMEOUT_S)
            lost = json.loads(out)["lost"]
            if lost["ring"] or lost["entries"]:
                raise SystemExit(f"requests were lost: {lost}")
        finally:
            if process.poll() is None:
                process.kill()


def fio(place: str, seconds: int, *words: str) -> None:
    common = ["--name=load", f"--filename={place}", "--time_based", f"--runtime={seconds}", "--output=/dev/null"]
    shell("fio", *common, "--direct=1", "--size=512m", *words)


def pgbench(device: str, trace: Path, seconds: int) -> None:
    with (
        mounted(device) as place,
        ephemeral_postgres(place, settings={"shared_buffers": "16MB", "max_wal_size": "64MB"}) as server,
    ):
        environment = {**WITH_SBIN}
        words = [server.dsn]
        subprocess.run(["pgbench", "-i", "-q", "-s", "5", *words], env=environment, check=True, capture_output=True)
        os.sync()
        with captured(device, trace):
            subprocess.run(["pgbench", "-n", "-c", "4", "-j", "2", "-T", str(seconds), *words], env=environment,
                           check=True, capture_output=True)  # fmt: skip


def mixed(device: str, trace: Path, seconds: int) -> None:
    with captured(device, trace):
        fio(device, seconds, "--rw=randrw", "--rwmixread=70", "--bs=8k", "--ioengine=libaio", "--iodepth=64",
            "--rate_iops=70,30", "--rate_process=poisson")  # fmt: skip


def deep(device: str, trace: Path, seconds: int) -> None:
    with captured(device, trace):
        fio(device, seconds, "--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=8")


def log(device: str, trace: Path, seconds: int) -> None:
    with captured(device, trace):
        fio(device, seconds, "--rw=write", "--bs=8k", "--ioengine=psync", "--fsync=4")


def copied(device: str, trace: Path, seconds: int) -> None:
    """Files of 16 KiB to 1 MiB are written through the page cache and read back."""
    with mounted(device) as place, captured(device, trace):
        shell("fio", "--name=load", f"--directory={place}", "--nrfiles=64", "--filesize=16k-1m", "--rw=rw", "--bs=16k",
              "--size=64m", "--time_based", f"--runtime={seconds}", "--rate=4m,4m", "--invalidate=1", "--fsync=32",
              "--output=/dev/null")  # fmt: skip


TWO_SIZES = """
operations = { read = 60, write = 40 }
request = [{ size = "4KiB", share = 70 }, { size = "32KiB", share = 30 }]
address = { kind = "zipf", theta = 0.9 }
region = "0..64MiB"
depth = 64
"""
PROFILES = {
    "random": TWO_SIZES + 'pace = { loop = "open", rate = 60, arrivals = "poisson" }',
    "bursts": TWO_SIZES + 'pace = { loop = "open", rate = 40, arrivals = "poisson", burst = 4 }',
    "runs": """
request = "16KiB"
address = { kind = "runs", random = 20 }
region = "0..4GiB"
think = "2ms"
""",
    "appends": """
operations = { read = 0, write = 100 }
request = "4KiB"
address = "sequential"
region = "0..512MiB"
flush_every = { writes = 4 }
""",
    "in flight": """
request = "4KiB"
address = "random"
region = "0..8GiB"
depth = 8
""",
    "file": TWO_SIZES + 'pace = { loop = "open", rate = 200, arrivals = "poisson" }',
}


@dataclass
class Brick:
    """Where a load runs, with the words of `brickyard run` for it."""

    target: str
    words: list[str]


def own(brick: Brick, trace: Path, seconds: int, profile: str) -> None:
    """A run of ours, which keeps its requests itself."""
    load = trace.with_suffix(".own.toml")
    load.write_text(f'[[phase]]\nduration = "{seconds}s"\n[[phase.stream]]\n{PROFILES[profile]}')
    brickyard("run", str(load), brick.target, *brick.words, "--save-trace", str(trace))


@dataclass
class Load:
    about: str
    kind: str
    capture: Callable[[str, Path, int], None] | None = None
    """None: the profile of the same name."""
    speed: float = SPEED
    """Of the emulated disk, as a factor. At its own speed it sets the pace of a database, and not this host's cores."""


PROFILE, ITSELF = "profile", "the program itself"
WAYS = {
    "trace, timed": ["--fit", "wrap", "--timing", "timed"],
    "trace, dependent": ["--fit", "wrap", "--timing", "dependent"],
    PROFILE: [],
}
EMULATED, FILE, MODEL_KIND = "emulated disk", "file", "model"
LOADS = {
    "pgbench": Load("pgbench, 4 clients, scale 5, on ext4", EMULATED, pgbench, 1.0),
    "mixed": Load("fio, 70/30 random 8 KiB, 100/s with random gaps", EMULATED, mixed),
    "deep": Load("fio, random reads 4 KiB, 8 in flight", EMULATED, deep),
    "log": Load("fio, appends 8 KiB, fsync after each 4", EMULATED, log),
    "files": Load("fio, 64 files through the page cache, fsync, on ext4", EMULATED, copied),
    "file": Load("60/40, two sizes, Zipf, 200/s with random gaps", FILE),
    "random": Load("60/40, two sizes, Zipf, 60/s with random gaps", MODEL_KIND),
    "bursts": Load("60/40, two sizes, Zipf, 40/s in bursts of 4", MODEL_KIND),
    "runs": Load("sequential runs of reads, one at a time, 2 ms between", MODEL_KIND),
    "appends": Load("appends 4 KiB, a flush after each 4", MODEL_KIND),
    "in flight": Load("random reads 4 KiB, 8 in flight", MODEL_KIND),
}


@contextmanager
def brick_of(load: Load, folder: Path) -> Iterator[Brick]:
    store = ["--store", str(folder / "runs.db")]
    if load.kind == MODEL_KIND:
        yield Brick("sim:msr-2003-maxtor", store)
        return
    if load.kind == FILE:
        # Not in memory: a file system of a disk.
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            target = f"{place}/data"
            brickyard("run", "dd-write", target, "--size", "128MiB", *store)
            yield Brick(target, [*store, "--set", "fill=never"])
        return
    with emulated(load.speed) as device:
        consent = ["--overwrite", device, "--i-know-this-destroys-data"]
        yield Brick(device, [*store, *consent, "--set", "fill=never"])


def shown(found: dict[str, Any]) -> str:
    known = [
        (item["figure"], max(item["distance"], item["mean_difference"] or 0.0))
        for item in found["distances"]
        if item["distance"] is not None
    ]
    largest = [
        max((apart for figure, apart in known if figure.startswith(begin)), default=None) for begin in FIGURES.values()
    ]
    cells = ["–" if apart is None else f"{apart:.1%}".replace("%", " %") for apart in largest]
    return f"{' | '.join(cells)} | {found['verdict']}"


def issued(brick: Brick, kind: str, again: Path, *words: str) -> Any:
    """Captured where the load itself was."""
    asked = ["run", *words[:1], brick.target, *brick.words, *words[1:]]
    if kind != EMULATED:
        return brickyard(*asked, "--save-trace", str(again))
    with captured(brick.target, again):
        return brickyard(*asked)


def measured(name: str, folder: Path, seconds: int) -> Iterator[str]:
    load = LOADS[name]
    trace, made, again = folder / "seen.byt", folder / "made.toml", folder / "again.byt"
    with brick_of(load, folder) as brick:
        if load.capture is None:
            own(brick, trace, seconds, name)
        else:
            load.capture(brick.target, trace, seconds)
        requests = traces.contents(str(trace)).summary.requests
        head = f"| {load.about} | {load.kind} | {requests:,}"
        if load.capture is not None:
            load.capture(brick.target, again, seconds)
            yield f"{head} | {ITSELF} | {shown(brickyard('trace', 'compare', str(trace), str(again)))} |"
            head = "| | |"
            again.unlink()
        brickyard("trace", "profile", str(trace), "-o", str(made))
        if load.kind == EMULATED:
            # A first run reads the beginning of a device and writes a header to it, which is no part of the load.
            brickyard("run", str(made), brick.target, *brick.words, "--set", "duration=500ms")
        for way, words in WAYS.items():
            found = issued(brick, load.kind, again, str(made if way == PROFILE else trace), *words)
            missing = found["trace"]["missing"] if way != PROFILE else {}
            if missing:
                raise SystemExit(f"{way}: requests are missing: {missing}")
            yield f"{head} | {way} | {shown(brickyard('trace', 'compare', str(trace), str(again)))} |"
            head = "| | |"
            again.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=18)
    parser.add_argument("--only", choices=LOADS, action="append")
    parser.add_argument("--smoke", action="store_true", help="one load, too short for a figure")
    asked = parser.parse_args()
    names = ["bursts"] if asked.smoke else (asked.only or list(LOADS))
    if os.geteuid() != 0 and any(LOADS[name].kind == EMULATED for name in names):
        print("left out: emulated disks need root")
        return
    print(f"| workload | target | requests | replayed as | {' | '.join(FIGURES)} | verdict |\n|{'---|' * 11}")
    for name in names:
        with tempfile.TemporaryDirectory(prefix="same-load-") as folder:
            for line in measured(name, Path(folder), 5 if asked.smoke else asked.seconds):
                print(line, flush=True)


if __name__ == "__main__":
    main()
