"""How well a census finds slow units: modelled fleets with planted faults, precision and recall.

Each unit is one modelled drive with parameters of its own (seeks ± 2 %, transfer ± 3 %) that carries the profile of
`brickyard census` in virtual time. A share of them has a fault, all of one firmware; others have that firmware and no
fault.

    python benches/census.py [--units 1000] [--bad 0.01] [--seed 1] [--smoke]
"""

from __future__ import annotations

import argparse
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor

from brickyard import profiles
from brickyard.advise.simulate import Brick, simulate
from brickyard.analysis.studies.census import Peer, census, units_of

DRIVE = "barracuda-es-500"
SEEKS = {"seek_track_read": 0.8, "seek_average_read": 8.5, "seek_full_read": 17.7}
TRANSFER = {"outer_mb_per_s": 72.0, "inner_mb_per_s": 36.0}
FAULTS: dict[str, tuple[float, float, int]] = {
    "seeks 1.1 × as long": (1.1, 1.0, 32),
    "seeks 1.25 × as long": (1.25, 1.0, 32),
    "seeks 1.5 × as long": (1.5, 1.0, 32),
    "seeks 2 × as long": (2.0, 1.0, 32),
    "transfer at 0.8": (1.0, 0.8, 32),
    "transfer at 0.5": (1.0, 0.5, 32),
    "no command queueing": (1.0, 1.0, 1),
}
SUSPECT, SOUND = "SN05", ("SN04", "SN06")


def unit(task: tuple[int, str, int]) -> Peer:
    """One drive, with a fault or none."""
    number, fault, seed = task
    draw = random.Random(f"{seed} {number}")
    seek, transfer, queue = FAULTS.get(fault, (1.0, 1.0, 32))
    seek *= draw.gauss(1, 0.02)
    transfer *= draw.gauss(1, 0.03)
    changes = [f"drive.{key}={value * seek:.6f}ms" for key, value in SEEKS.items()]
    changes += [f"drive.{key}={value * transfer:.6f}" for key, value in TRANSFER.items()]
    changes += [f"drive.queue_depth={queue}"] if queue != 32 else []
    plan = profiles.validate(profiles.read("census"), [f"seed={draw.randrange(1 << 40)}"])
    (found,) = units_of(simulate(plan, Brick(DRIVE), None, changes))
    firmware = SUSPECT if fault or draw.random() < 0.02 else draw.choice(SOUND)
    return Peer(f"host{number}", found.figures, found.times, {"model": DRIVE, "firmware": firmware}, found.series)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--bad", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    units = 24 if asked.smoke else asked.units
    faults = ["seeks 2 × as long"] if asked.smoke else list(FAULTS)
    bad = max(1, round(units * asked.bad))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        began_s = time.monotonic()
        sound = list(pool.map(unit, [(n, "", asked.seed) for n in range(units)], chunksize=8))
        print(f"{units} drives simulated in {time.monotonic() - began_s:.1f} s; faults in {bad} of them\n")
        print("| planted | found | wrongly named | precision | recall | in common | analysis |")
        print("|---|---|---|---|---|---|---|")
        for fault in ["", *faults]:
            count = bad if fault else 0
            faulty = list(pool.map(unit, [(n, fault, asked.seed + 1) for n in range(count)]))
            began_s = time.monotonic()
            found = census([*faulty, *sound[count:]])
            took_s = time.monotonic() - began_s
            named = set(found.slow)
            right = len(named & {item.name for item in faulty})
            precision = f"{right / len(named):.0%}" if named else "–"
            recall = f"{right / count:.0%}" if count else "–"
            common = ", ".join(f"{item.trait} {item.value}" for item in found.common) or "–"
            print(
                f"| {fault or 'nothing'} | {right} of {count} | {len(named) - right} | {precision} | {recall} |"
                f" {common} | {took_s:.2f} s |"
            )


if __name__ == "__main__":
    main()
