"""What the replayer costs and reaches, side by side with pgbench in one run.

Rounds alternate between pgbench and Brickyard, so that a drift of the machine falls on both, and medians are taken. CPU
is that of the driver alone: pgbench's process by wait4, ours as the driver's own process counts it, both without the
server. Then the pace at 1,000 calls/s, and how fast a log is read through to calls.

    python benches/replay.py [--rounds N] [--seconds S] [--clients N] [--write FILE] [--smoke]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from brickyard import _core
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.store import Json
from brickyard.study.replays.drivers import Drivers
from brickyard.study.replays.run import ReplaySpec

SCALE = 1  # of pgbench's tables: 100,000 rows, all in memory, so that the drivers are what differs
ROWS = 100_000
LINES = {"calls": 200_000, "tiles": 400_000}  # of the logs; the tiles are about 80 MB
SMOKE_LINES = {"calls": 2_000, "tiles": 4_000}
MAPPING = """
[[call]]
page = "balance"
path = "/balance"
sql = "select abalance from pgbench_accounts where aid = :aid"
parameters.aid = { type = "int4" }
"""
TILES = """
[[call]]
page = "tile"
path = "/tile.ashx"
sql = "select * from tile(:T, :S, :X, :Y, :Z)"
parameters.T = { type = "int2" }
parameters.S = { type = "int2" }
parameters.X = { type = "int4" }
parameters.Y = { type = "int4" }
parameters.Z = { type = "int2" }
"""
Figures = dict[str, float]


def environment(server: Server) -> dict[str, str]:
    return {**os.environ, "PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.user}


def pgbench(server: Server, clients: int, seconds: float) -> Figures:
    """Its built-in single-row SELECT, prepared, all clients in one thread as ours are."""
    command = [str(server.programs.path("pgbench")), "-n", "-S", "-M", "prepared", "-c", str(clients), "-j", "1"]
    command += ["-T", str(max(1, round(seconds))), server.database]
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment(server))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if child.returncode:
        sys.exit(f"pgbench failed: {text}")
    calls = int(re.search(r"actually processed: (\d+)", text)[1])  # type: ignore[index]
    rate = float(re.search(r"tps = ([\d.]+)", text)[1])  # type: ignore[index]
    return {"calls/s": rate, "driver CPU µs a call": (usage.ru_utime + usage.ru_stime) * 1e6 / calls}


def warn(text: str) -> None:
    print(text, file=sys.stderr)


def drive(server: Server, log: Path, pace: str, clients: int, seconds: float) -> tuple[Figures, Json]:
    """One driver process, every call in its histograms."""
    lasts_ns = int(seconds * 1e9)
    spec = ReplaySpec([str(log)], MAPPING, [server.dsn], pace, sessions=clients, again=True, duration_ns=lasts_ns)
    drivers = Drivers(spec.orders(), warn)
    events: list[Json] = []
    try:
        drivers.go({"event": "start"}, "")
        while not drivers.finished():
            events += [json.loads(text) for text in drivers.events(100)]
    finally:
        drivers.abandon()
        drivers.close()
    ended = next(event for event in events if event["event"] == "end")
    if ended["outcome"] != "done":
        sys.exit(f"a replay failed: {ended['message']}")
    end = next(event for event in events if event["event"] == "phase_end")
    calls = sum(cell["requests"] for e in events if e["event"] == "interval" for cell in e["cells"])
    cpu_ns = end["cpu"]["user_ns"] + end["cpu"]["system_ns"]
    return {"calls/s": calls / end["end_ns"] * 1e9, "driver CPU µs a call": cpu_ns / calls / 1e3}, end


def small_log(folder: Path, lines: int) -> Path:
    chosen = random.Random(1)
    place = folder / "balance.log"
    written = [
        f"2003-06-02 10:{n // 6000 % 60:02}:{n // 100 % 60:02} 10.0.0.{n % 200} /balance aid={chosen.randint(1, ROWS)}"
        for n in range(lines)
    ]
    place.write_text("#Fields: date time c-ip cs-uri-stem cs-uri-query\n" + "\n".join(written) + "\n")
    return place


def large_log(folder: Path, lines: int) -> Path:
    """As IIS writes them, 200 bytes a line."""
    chosen = random.Random(2)
    place = folder / "tiles.log"
    with place.open("w") as out:
        out.write(
            "#Fields: date time s-sitename s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip"
            " cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status sc-bytes time-taken\n"
        )
        for n in range(lines):
            s = n // 200
            out.write(
                f"2003-06-02 {s // 3600 % 24:02}:{s // 60 % 60:02}:{s % 60:02} W3SVC1 10.1.1.1 GET /tile.ashx"
                f" T={n % 4}&S={10 + n % 8}&X={chosen.randint(1, 5000)}&Y={chosen.randint(1, 50000)}&Z=10 80 -"
                f" 66.249.{n % 200}.{n % 251} Mozilla/4.0+(compatible;+MSIE+6.0;+Windows+NT+5.1)"
                " http://maps.example/image.aspx?T=1 200 0 0 9120 31\n"
            )
    return place


def reading(log: Path, times: int) -> Figures:
    """The same log several times over, merged by time; CPU is of the whole process, which does nothing else."""
    spec = {"mapping": TILES, "logs": [str(log)] * times}
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    told = json.loads(_core.replay_explain(json.dumps(spec), 1))["document"]
    megabytes = sum(item["read_bytes"] for item in told["logs"]) / 1e6
    return {
        "MB/s": megabytes / (time.perf_counter() - began_s),
        "MB a CPU second": megabytes / (time.process_time() - began_cpu_s),
        "peak memory MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def table(title: str, rows: dict[str, list[Figures]]) -> list[str]:
    """Medians, and the spread as the least and the most."""
    names = list(dict.fromkeys(name for runs in rows.values() for run in runs for name in run))
    lines = ["", f"### {title}", "", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for label, runs in rows.items():
        cells = []
        for name in names:
            values = [run[name] for run in runs if name in run]
            spread = f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})" if values else ""
            cells.append(spread)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def compare(
    server: Server, folder: Path, rounds: int, seconds: float, clients: int, log_lines: dict[str, int]
) -> list[str]:
    log, large = small_log(folder, log_lines["calls"]), large_log(folder, log_lines["tiles"])
    rows: dict[str, list[Figures]] = {"pgbench -S -M prepared -j 1": [], "Brickyard, fire hose": []}
    for _ in range(rounds):
        rows["pgbench -S -M prepared -j 1"].append(pgbench(server, clients, seconds))
        rows["Brickyard, fire hose"].append(drive(server, log, "fire-hose", clients, seconds)[0])
    peer, ours = ({k: statistics.median(r[k] for r in runs) for k in runs[0]} for runs in rows.values())
    lines = table(f"single-row SELECT, {clients} clients, over a Unix socket", rows)
    lines += ["", f"Calls/s {ours['calls/s'] / peer['calls/s']:.2f} of pgbench's, driver CPU a call "]
    lines[-1] += f"{ours['driver CPU µs a call'] / peer['driver CPU µs a call']:.2f} of it."
    paced: list[Figures] = []
    for _ in range(rounds):
        figures, end = drive(server, log, "fixed:1000", clients, seconds)
        lag = end["replay"]["drivers"][0]["driver_lag"]
        paced.append({"late p50 µs": lag["p50_ns"] / 1e3, "late p99 µs": lag["p99_ns"] / 1e3, **figures})
    lines += table("due-time error at 1,000 calls/s", {"Brickyard, fixed:1000": paced})
    read = [reading(large, 1) for _ in range(rounds)]
    return lines + table("a W3C log through to calls", {"once": read, "eight at once": [reading(large, 8)]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--write", type=Path, help="file that gets the tables as Markdown")
    parser.add_argument("--smoke", action="store_true", help="everything once, too short for a figure")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.seconds, arguments.clients = 1, 0.2, 2
    model = next(
        (x.split(":", 1)[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), "?"
    )
    with (
        tempfile.TemporaryDirectory(prefix="brickyard-bench-") as folder,
        ephemeral_postgres(settings={"fsync": "off", "shared_buffers": "256MB"}) as server,
    ):
        initialize = [str(server.programs.path("pgbench")), "-i", "-q", "-s", str(SCALE), server.database]
        subprocess.run(initialize, check=True, capture_output=True, env=environment(server))
        lines = [
            "# Replay beside pgbench",
            "",
            f"Medians (least to most) of {arguments.rounds} alternating rounds of {arguments.seconds} s;"
            f" PostgreSQL {server.version}. Machine: {model}, {os.cpu_count()} cores, Linux {platform.release()},"
            f" {time.strftime('%Y-%m-%d')}.",
        ]
        log_lines = SMOKE_LINES if arguments.smoke else LINES
        lines += compare(server, Path(folder), arguments.rounds, arguments.seconds, arguments.clients, log_lines)
    print("\n".join(lines))
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
