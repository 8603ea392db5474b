"""Kirkwood's question on emulated disks of his time: pgbench with the drive's write cache on and off, on one ATA disk
and on a stripe over two, beside what he published.

    python benches/kirkwood.py [--repetitions 3] [--smoke]

Needs root, /dev/fuse and loop devices. A disk is `brickyard lab up --model sim:kirkwood-2003`: its model decides how
long each request takes. *Cache on* is a disk that ignores flushes, since the kernels of 2003 sent none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.studies.kirkwood import CLIENTS, published, rank_agreement
from brickyard.store import Store
from brickyard.units import three_digits

ONE, STRIPE = "one disk", "RAID-0 over two"
MODELS = {ONE: "sim:kirkwood-2003,level=jbod,members=1", STRIPE: "sim:kirkwood-2003"}
CACHES = {"off": "off", "on": "lying"}
HIS_LAYOUTS = {ONE: "jbod", STRIPE: "raid0 x2, 128 KiB stripe"}
Row = dict[str, float]


def brickyard(*words: str) -> str:
    """What it printed; its errors go to the terminal."""
    done = subprocess.run([sys.executable, "-m", "brickyard", *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


@contextmanager
def disk(model: str, cache: str, folder: Path) -> Iterator[None]:
    brickyard(
        "lab",
        "up",
        "kirkwood",
        "--model",
        model,
        "--size",
        "2GiB",
        "--cache",
        cache,
        "--fs",
        "ext4",
        "--at",
        str(folder),
    )
    try:
        yield
    finally:
        brickyard("lab", "down", "kirkwood")


def measure(folder: Path, store: Path, clients: str, transactions: int, scale: int) -> float:
    said = brickyard(
        *("run", "pgbench", str(folder), "--store", str(store), "--json", "--set", f"scale={scale}"),
        *("--set", "preset=kirkwood-2003", "--set", f"clients={clients}", "--set", f"transactions={transactions}"),
    )
    with Store(store) as kept:
        figure = measured(kept.record(json.loads(said)["run"]), FIGURES["tps"])[0].value
    assert figure is not None
    return figure


def his(layout: str, cache: str) -> Row:
    wanted = HIS_LAYOUTS[layout], f"write cache {cache}"
    return {row.clients: row.tps for row in published("pgbench") if (row.layout, row.write_cache) == wanted}


def line(name: str, row: Row, last: str = "") -> str:
    cells = [three_digits(row[clients]) if clients in row else "–" for clients in CLIENTS]
    return f"| {' | '.join([name, *cells, last])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a small database, too short for a figure")
    options = parser.parse_args()
    layouts, clients = ([ONE], CLIENTS[:1]) if options.smoke else ([ONE, STRIPE], CLIENTS)
    repetitions, transactions, scale = (1, 50, 1) if options.smoke else (options.repetitions, 1000, 10)
    told: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="bench-") as room:
        folder, store = Path(room, "disk"), Path(room, "runs.db")
        folder.mkdir()
        Path(room).chmod(0o755)
        for _ in range(repetitions):
            for layout in layouts:
                for cache, lab in CACHES.items():
                    with disk(MODELS[layout], lab, folder):
                        for number in clients:
                            told[layout, cache][number].append(measure(folder, store, number, transactions, scale))
    means = {key: {number: fmean(values) for number, values in row.items()} for key, row in told.items()}
    print(f"| tps | {' | '.join(f'{number} cl.' for number in CLIENTS)} | rank agreement |")
    print("|---" * (len(CLIENTS) + 2) + "|")
    for (layout, cache), row in means.items():
        theirs = his(layout, cache)
        agreed = rank_agreement(row, theirs)
        print(line(f"{layout}, cache {cache}: published", theirs))
        print(line(f"{layout}, cache {cache}: here", row, "" if agreed is None else f"{agreed:+.2f}"))
    for layout in layouts:
        for whose, off, on in (
            ("published", his(layout, "off"), his(layout, "on")),
            ("here", means[layout, "off"], means[layout, "on"]),
        ):
            print(line(f"{layout}, on ÷ off: {whose}", {n: on[n] / off[n] for n in CLIENTS if n in off and n in on}))
    if len(layouts) > 1:
        for cache in CACHES:
            for whose, one, two in (
                ("published", his(ONE, cache), his(STRIPE, cache)),
                ("here", means[ONE, cache], means[STRIPE, cache]),
            ):
                print(line(f"RAID-0 ÷ one disk, cache {cache}: {whose}", {n: two[n] / one[n] for n in CLIENTS}))
    spread = [max(v) / min(v) - 1 for row in told.values() for v in row.values() if len(v) > 1]
    if spread:
        print(f"Repetitions of a cell: {len(spread)} cells, largest ÷ smallest at most {1 + max(spread):.2f}")


if __name__ == "__main__":
    main()
