"""What a log that is far larger than memory costs: peak memory and speed of `brickyard replay` over many gigabytes.

No such log is on any disk: hours of traffic go down a pipe into standard input, each with its own stamps, clients and
paths, so that everything that a replay remembers of a log grows as it would. `--explain` maps nearly all of it to
calls; the replay, as fast as a database takes them, one line in a thousand.

    python benches/large_log.py [--gigabytes N] [--write FILE] [--smoke]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from brickyard.databases.ephemeral import ephemeral_postgres
from brickyard.store import Json

HOUR_LINES = 200_000  # 43 MB; 56 calls a second, a busy site
MEMORY_MAX_MIB = 200  # what a log of 10 GB may need
FIELDS = (
    b"#Fields: date time s-sitename s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip"
    b" cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status sc-bytes time-taken\n"
)
ALL = """
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
FEW = """
[[call]]
page = "rare"
path = "/rare"
sql = "select :X * 2"
parameters.X = { type = "int4" }
"""
DAY, CLIENT, PAGE = b"@day@", b"@net@", b"@page@"


def hour() -> bytes:
    """One hour's lines, with marks where hours differ: 97 % tiles, one in a thousand rare, paths that nothing maps."""
    chosen = random.Random(2)
    lines = []
    for n in range(HOUR_LINES):
        s = n * 3600 // HOUR_LINES
        x, y = chosen.randint(1, 5000), chosen.randint(1, 50000)
        query = f"T={n % 4}&S={10 + n % 8}&X={x}&Y={y}&Z=10"
        target = f"/rare {query}" if n % 1000 == 0 else f"/tile.ashx {query}"
        if n % 33 == 1:
            target = f"/page/@page@/{n}.html -"
        lines.append(
            f"@day@:{s // 60:02}:{s % 60:02} W3SVC1 10.1.1.1 GET {target} 80 -"
            f" 66.@net@.{chosen.randrange(256)}.{chosen.randrange(256)}"
            " Mozilla/4.0+(compatible;+MSIE+6.0;+Windows+NT+5.1) http://maps.example/image.aspx?T=1 200 0 0 9120 31\n"
        )
    return "".join(lines).encode()


def pour(pipe: IO[bytes], total_bytes: int, poured: list[int]) -> None:
    """Hour after hour, until so many bytes went down."""
    template = hour()
    sent, number = pipe.write(FIELDS), 0
    try:
        while sent < total_bytes:
            stamp = time.strftime("%Y-%m-%d %H", time.gmtime(1_054_512_000 + 3600 * number)).encode()
            text = template.replace(DAY, stamp).replace(CLIENT, b"%d" % (number % 250))
            sent += pipe.write(text.replace(PAGE, b"%d" % number))
            number += 1
        pipe.close()
    except BrokenPipeError:
        pass
    poured.append(sent)


def replayed(arguments: list[str], total_bytes: int) -> tuple[Json, dict[str, float]]:
    """Standard output as a document, and what it took; memory is that of the largest process."""
    with tempfile.TemporaryFile() as out:
        command = [sys.executable, "-m", "brickyard", "replay", "-", *arguments, "--json"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out)
        assert child.stdin is not None
        began_s, poured = time.perf_counter(), list[int]()
        pouring = threading.Thread(target=pour, args=(child.stdin, total_bytes, poured))
        pouring.start()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        length_s = time.perf_counter() - began_s
        pouring.join()
        out.seek(0)
        document = json.loads(out.read() or "{}")
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    figures = {
        "GB": poured[0] / 1e9,
        "seconds": length_s,
        "CPU seconds": cpu_s,
        "MB a CPU second": poured[0] / 1e6 / cpu_s,
        "peak memory MiB": usage.ru_maxrss / 1024,
    }
    return document, figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--write", type=Path, help="file that gets the table as Markdown")
    parser.add_argument("--smoke", action="store_true", help="everything once, too short for a figure")
    given = parser.parse_args()
    total_bytes = 1 << 20 if given.smoke else int(given.gigabytes * 1e9)  # an hour of the log at least
    rows: list[tuple[str, str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as folder:
        every, few = Path(folder, "all.toml"), Path(folder, "few.toml")
        every.write_text(ALL)
        few.write_text(FEW)
        told, figures = replayed(["--map", str(every), "--explain"], total_bytes)
        rows.append(("--explain", f"{told['document']['calls']:,}", figures))
        with ephemeral_postgres(settings={"fsync": "off"}) as server:
            arguments = ["--map", str(few), "--to", server.dsn, "--pace", "fire-hose", "--store", f"{folder}/s.db"]
            told, figures = replayed(arguments, total_bytes)
        pages = told["replay"]["paces"]["fire hose"]["pages"]
        rows.append(("fire hose, one call in 1,000 lines", f"{pages[0]['calls']:,}", figures))
    names = list(rows[0][2])
    lines = [f"| | calls | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    lines += [f"| {label} | {calls} | {' | '.join(f'{f[n]:,.1f}' for n in names)} |" for label, calls, f in rows]
    print("\n".join(lines))
    if given.write:
        given.write.write_text("\n".join(lines) + "\n")
    worst = max(figures["peak memory MiB"] for _, _, figures in rows)
    if worst > MEMORY_MAX_MIB:
        print(f"more than {MEMORY_MAX_MIB} MiB", file=sys.stderr)
    return int(worst > MEMORY_MAX_MIB)


if __name__ == "__main__":
    sys.exit(main())
