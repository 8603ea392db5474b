"""How fast traces of other tools are read, and how punctually one is issued again.

Every form is written here with as many requests, and imported in rounds; medians are taken. Then a trace of 1,000
requests a second is issued on a file in rounds, and what it was late by is shown: from the instant that each request
was due to its submission. The aim is a p99 of 100 us or less on an idle device, so the files of the imports are removed
first, and what waits to be written is written. A bare timer loop in the same rounds, without any I/O, shows how
punctual the machine is; `benches/compare.py` builds it. About four minutes.

    python benches/trace.py [--requests N] [--rounds N] [--seconds S] [--target FILE] [--smoke]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from brickyard import traces

REQUESTS, ROUNDS, SECONDS = 1_000_000, 3, 10.0
SMOKE_REQUESTS, SMOKE_SECONDS = 20_000, 1.0
RATE, LATE_ROUNDS = 1_000, 7
BUILT = Path(__file__).resolve().parent.parent / os.environ.get("CARGO_TARGET_DIR", "target") / "release"
START = 128_166_372_003_061_629
QUEUE, ISSUE, COMPLETE, WRITE = 1, 7, 8, 1 << 17


def places(count: int) -> Iterator[tuple[int, int, int]]:
    """Microseconds, block of 4 KiB, whether it writes."""
    rng = random.Random(1)
    for number in range(count):
        yield number * 37, rng.randrange(1 << 24), rng.randrange(2)


def write_all(folder: Path, count: int) -> dict[str, Path]:
    lines: dict[str, list[str]] = {name: [] for name in ("msr", "alibaba", "fio", "blkparse", "spc")}
    lines["fio"].append("fio version 3 iolog")
    record = struct.Struct("<IIQQIIIIIHH")
    raw, vscsi = bytearray(), bytearray()
    for us, block, writes in places(count):
        at, sector = us / 1e6, block * 8
        lines["msr"].append(f"{START + us * 10},hm,0,{('Read', 'Write')[writes]},{block * 4096},4096,1234")
        lines["alibaba"].append(f"3,{'RW'[writes]},{block * 4096},4096,{1_577_808_000_000_000 + us}")
        lines["fio"].append(f"{us} /dev/sda {('read', 'write')[writes]} {block * 4096} 4096")
        lines["spc"].append(f"0,{sector},4096,{'RW'[writes]},{at:.6f}")
        kind = "RW"[writes]
        for number, letter in enumerate("QDC"):
            event = f"  8,0    1 {us:8d} {at + number * 1e-6:14.9f}   697  {letter}   {kind} {sector} + 8 [fio]"
            lines["blkparse"].append(event)
        for number, action in enumerate((QUEUE, ISSUE, COMPLETE)):
            what = action | (WRITE if writes else 1 << 16)
            raw += record.pack(0x65617407, 1, us * 1000 + number * 300, sector, 4096, what, 42, 8 << 20, 0, 0, 0)
        vscsi += struct.pack("<IIIHHQQ", 1, 4096, 1, (0x28, 0x2A)[writes], 0x0100, sector, us)
    made = {name: folder / name for name in (*lines, "blktrace", "vscsi")}
    for name, text in lines.items():
        made[name].write_text("\n".join(text) + "\n")
    made["blktrace"].write_bytes(raw)
    made["vscsi"].write_bytes(vscsi)
    return made


def imported(path: Path, out: Path) -> traces.ImportedTrace:
    """The core writes only into a file that is open already."""
    with out.open("wb") as file:
        return traces.import_trace([str(path)], f"/proc/self/fd/{file.fileno()}")


def import_rate(path: Path, out: Path, count: int, rounds: int) -> float:
    """Requests a second."""
    rates = []
    for _ in range(rounds):
        began = time.perf_counter()
        found = imported(path, out)
        rates.append(found.summary.requests / (time.perf_counter() - began))
        if found.summary.requests != count or found.summary.bad:
            raise SystemExit(f"{path.name}: {found.summary.requests} requests and {found.summary.bad} bad lines")
    return statistics.median(rates)


def lateness(folder: Path, target: Path, seconds: float) -> dict[str, int]:
    log, trace = folder / "replay.log", folder / "replay.byt"
    lines = [
        f"{number * 1_000_000 // RATE} /f read {number * 7919 % 4000 * 4096} 4096"
        for number in range(int(RATE * seconds))
    ]
    log.write_text("fio version 3 iolog\n" + "\n".join(lines) + "\n")
    imported(log, trace)
    done = subprocess.run(
        [sys.executable, "-m", "brickyard", "run", str(trace), str(target), "--size", "32MiB", "--json",
         "--store", str(folder / "store")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = json.loads(done.stdout)["trace"]
    if found["missing"]:
        raise SystemExit(f"requests are missing: {found['missing']}")
    late: dict[str, int] = found["late_ns"]
    return late


def bare_timer(seconds: float) -> dict[str, int] | None:
    """Lateness of a loop that only waits; None where it is not built."""
    timer = BUILT / "examples" / "timer_loop"
    if not timer.exists():
        return None
    done = subprocess.run([timer, str(RATE), str(seconds)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return {"p50": found["p50_ns"], "p99": found["p99_ns"]}


def show(what: str, rounds: list[dict[str, int]]) -> None:
    for figure in rounds[0]:
        values = sorted(late[figure] / 1e3 for late in rounds)
        print(
            f"{what} at {RATE}/s, {figure}: {statistics.median(values):.1f} us"
            f" ({values[0]:.1f} to {values[-1]:.1f} of {len(values)} rounds)"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--target", type=Path, help="A file of ours or a new name; beside the traces unless set.")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    count = SMOKE_REQUESTS if given.smoke else given.requests
    with tempfile.TemporaryDirectory(prefix="brickyard-trace-bench-") as name:
        folder = Path(name)
        for form, path in write_all(folder, count).items():
            rate = import_rate(path, folder / "out.byt", count, 1 if given.smoke else given.rounds)
            mib_per_s = rate * path.stat().st_size / count / (1 << 20)
            print(f"{form:10} {rate / 1e6:6.2f} M requests/s, {mib_per_s:6.0f} MiB/s")
            path.unlink()
        began = time.perf_counter()
        traces.examine(str(folder / "out.byt"))
        print(f"{'figures':10} {count / (time.perf_counter() - began) / 1e6:6.2f} M requests/s")
        (folder / "out.byt").unlink()
        target, seconds = given.target or folder / "target", SMOKE_SECONDS if given.smoke else given.seconds
        late: list[dict[str, int]] = []
        bare: list[dict[str, int]] = []
        lateness(folder, target, SMOKE_SECONDS)  # makes the target
        for _ in range(1 if given.smoke else LATE_ROUNDS):
            os.sync()
            found = lateness(folder, target, seconds)
            late.append({figure: found[figure] for figure in ("p50", "p99", "max")})
            timer = bare_timer(seconds)
            bare += [timer] if timer else []
        show("late", late)
        if bare:
            show("a bare timer loop", bare)


if __name__ == "__main__":
    main()
