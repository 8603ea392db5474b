"""What Brickyard costs and reaches, side by side with its peers in one run.

Every comparison alternates its contestants, each round beginning with another, so that a drift of the machine falls on
all of them. Tables show medians, and of rates the least and the most as well. How a contestant does against a peer is
the median of the rounds' own ratios, since the two of a round are nearest in time.
Whole-process CPU comes from wait4, which sees the kernel workers of a ring; the generator's own time is measured by
the clock around its loop. Without root or a RAM-backed block device the comparisons that need one are left out by name.

    python benches/compare.py [--rounds N] [--seconds S] [--only NAME] [--write FILE] [--smoke]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release"
WORKER = BUILT / "brickyard-worker"
TIMER = BUILT / "examples" / "timer_loop"
# An older worker, to have it beside this one.
BEFORE = os.environ.get("BRICKYARD_BEFORE", "")
SIZE_BYTES = 1 << 30
SMOKE_BYTES = 64 << 20
# One pass of a verifying fio may end long before the duration of a measurement.
PASSES_MAX = 100

FIO_TUNED = [
    "--fixedbufs", "--registerfiles", "--norandommap", "--iodepth_batch_submit=32",
    "--iodepth_batch_complete_min=32", "--iodepth_batch_complete_max=32",
]  # fmt: skip


@dataclass
class Figures:
    """One contestant's result: rates and costs, by name, with their unit last."""

    values: dict[str, float] = field(default_factory=dict)


Contestant = tuple[str, Callable[[], Figures]]


def run(command: list[str]) -> tuple[str, float]:
    """Standard output and CPU ns of a command, its threads and kernel workers included."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors = child.stderr.read().decode() if child.stderr else ""
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)} failed: {errors.strip()}")
        out.seek(0)
        return out.read().decode(), (usage.ru_utime + usage.ru_stime) * 1e9


class Bench:
    """How long a measurement lasts, and where temporary things go."""

    def __init__(self, seconds: float, size_bytes: int, folder: Path) -> None:
        self.seconds = seconds
        self.size_bytes = size_bytes
        self.folder = folder

    def brickyard(
        self, target: Path, stream: str, *sets: str, nop: bool = False, worker: Path = WORKER, whole: bool = False
    ) -> Figures:
        """One run of the worker on a target that is not ours: reads, or writes of a scratch file.

        `whole` makes one interval of it, so that its p99 is that of all requests.
        """
        profile = self.folder / "bench.toml"
        interval = f'interval = "{self.seconds}s"\n' if whole else ""
        profile.write_text(
            f'title = "bench"\n{interval}[[phase]]\nduration = "{self.seconds}s"\nwarmup = "200ms"\n'
            f"[[phase.stream]]\n{stream}\n"
        )
        command = [str(worker), str(profile), str(target), *(w for s in sets for w in ("--set", s))]
        output, cpu_ns = run(command + (["--nop"] if nop else []))
        return figures_of(output, cpu_ns)

    def fio(self, target: Path, *options: str) -> Figures:
        """One run of fio with JSON output."""
        command = [
            "fio", "--name=bench", f"--filename={target}", f"--size={self.size_bytes}", "--time_based",
            "--ramp_time=200ms",
            f"--runtime={round(self.seconds * 1000)}ms", "--output-format=json", *options,
        ]  # fmt: skip
        output, cpu_ns = run(command)
        job = json.loads(output[output.index("{") :])["jobs"][0]
        side = job["write"] if job["write"]["total_ios"] else job["read"]
        whole = side["total_ios"] * (1 + 0.2 / self.seconds)
        values = {"iops": side["iops"], "cpu_ns": cpu_ns / whole, "mean_us": side["lat_ns"]["mean"] / 1000}
        if "percentile" in side["lat_ns"]:
            values["p99_us"] = side["lat_ns"]["percentile"]["99.000000"] / 1000
        values["user_ns"] = job["usr_cpu"] / 100 * self.seconds * 1e9 / side["total_ios"]
        return Figures(values)


def figures_of(output: str, cpu_ns: float) -> Figures:
    """Rates, own cost, lateness out of the worker's events."""
    requests, own_ns, start_ns, end_ns, everything, service_ns = 0, 0.0, None, 0, 0, 0.0
    lateness: list[dict[str, float]] = []
    p99_us: list[float] = []
    for line in output.splitlines():
        event = json.loads(line)
        if event["event"] == "end" and event["outcome"] != "done":
            sys.exit(f"a run failed: {event['message']}")
        if event["event"] != "interval":
            continue
        everything += sum(c["requests"] for c in event["cells"])
        if event["warmup"] or event["drain"]:
            continue
        start_ns = event["start_ns"] if start_ns is None else start_ns
        end_ns = event["end_ns"]
        own_ns += event["loop_busy_share"] * (event["end_ns"] - event["start_ns"])
        for cell in event["cells"]:
            requests += cell["requests"]
            service_ns += cell["measures"]["service"]["mean_ns"] * cell["requests"]
            p99_us.append(cell["measures"]["service"]["p99_ns"] / 1e3)
            if "lateness" in cell["measures"]:
                lateness.append(cell["measures"]["lateness"])
    if not requests or start_ns is None:
        sys.exit("a run measured nothing")
    rate = requests * 1e9 / (end_ns - start_ns)
    values = {
        "iops": rate,
        "cpu_ns": cpu_ns / everything,
        "own_ns": own_ns / requests,
        "mean_us": service_ns / requests / 1e3,
    }
    if len(p99_us) == 1:
        values["p99_us"] = p99_us[0]
    if lateness:
        values["late_p50_ns"] = statistics.median(x["p50_ns"] for x in lateness)
        values["late_p99_ns"] = statistics.median(x["p99_ns"] for x in lateness)
    return Figures(values)


def give_back_zram() -> None:
    """The kernel lets go of a ring's files a moment after its process has ended, and refuses the reset until then."""
    for _ in range(50):
        try:
            Path("/sys/block/zram0/reset").write_text("1")
        except OSError:
            time.sleep(0.1)
        else:
            return
    print("zram0 could not be reset; echo 1 > /sys/block/zram0/reset", file=sys.stderr)


def ram_disk(stack: ExitStack, size_bytes: int) -> tuple[Path, str]:
    """A RAM-backed block device full of data that does not compress: zram where one is free, else a loop on tmpfs."""
    zram = Path("/sys/block/zram0/disksize")
    if zram.exists() and zram.read_text().strip() == "0":
        zram.write_text(str(size_bytes))
        device, kind = Path("/dev/zram0"), "zram"
        stack.callback(give_back_zram)
    else:
        backing = Path(tempfile.mkdtemp(dir="/dev/shm")) / "disk"
        backing.touch()
        os.truncate(backing, size_bytes)
        found = subprocess.run(["losetup", "-f", "--show", str(backing)], capture_output=True, text=True, check=True)
        device, kind = Path(found.stdout.strip()), "loop on tmpfs"
        stack.callback(lambda: shutil.rmtree(backing.parent))
        stack.callback(lambda: subprocess.run(["losetup", "-d", str(device)], check=False))
    fill(device, size_bytes)
    return device, kind


def fill(target: Path, size_bytes: int) -> None:
    """Different data in every block, since never-written blocks answer too fast."""
    with target.open("r+b" if target.exists() else "w+b", buffering=0) as out:
        for _ in range(size_bytes >> 20):
            out.write(os.urandom(1 << 20))
        os.fsync(out.fileno())


COMPARED = ("iops", "mean_us", "p99_us", "cpu_ns")


def duel(name: str, contestants: list[Contestant], rounds: int) -> list[str]:
    """Alternates the contestants and returns the lines of a table: medians, spread, and each against every peer."""
    results: dict[str, list[Figures]] = {label: [] for label, _ in contestants}
    for number in range(rounds):
        turn = number % len(contestants)
        for label, contestant in contestants[turn:] + contestants[:turn]:
            print(f"  {name}: round {number + 1}/{rounds}, {label}          ", end="\r", file=sys.stderr, flush=True)
            results[label].append(contestant())
    keys = list(dict.fromkeys(key for runs in results.values() for f in runs for key in f.values))
    rated = [label for label, runs in results.items() if "iops" in runs[0].values]
    peers = [label for label in rated if not label.startswith("Brickyard")] or rated[:1]
    lines = ["", f"### {name}", "", f"| | {' | '.join([*keys, *(f'against {peer}' for peer in peers)])} |"]
    lines.append("|---" * (len(keys) + len(peers) + 1) + "|")
    for label, runs in results.items():
        cells = [spread([f.values[key] for f in runs if key in f.values], key == "iops") for key in keys]
        cells += [against(runs, results[peer]) if label in rated and label != peer else "" for peer in peers]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    for label in (label for label in rated if label not in peers):
        both = [*results[label], *results[peers[0]]]
        measured = [key for key in COMPARED if all(key in run.values for run in both)]
        ratios = [f"{key} {against(results[label], results[peers[0]], key)}" for key in measured]
        lines += ["", f"{label}, of {peers[0]}: {', '.join(ratios)}."]
    print("\n".join(lines), flush=True)
    return lines


def against(runs: list[Figures], others: list[Figures], key: str = "iops") -> str:
    """The median of the rounds' own ratios, with the least and the most; nothing where the other measured nothing."""
    ratios = [f.values[key] / g.values[key] for f, g in zip(runs, others, strict=True) if g.values[key]]
    if not ratios:
        return ""
    return f"{statistics.median(ratios):.2f} ({extremes(ratios, '.2f')})"


def extremes(values: list[float], form: str) -> str:
    """The least and the most."""
    return f"{min(values):{form}} to {max(values):{form}}"


def spread(values: list[float], whole: bool) -> str:
    """The median; of a rate also the least and the most."""
    if not values:
        return ""
    middle = statistics.median(values)
    return f"{middle:,.0f} ({extremes(values, ',.0f')})" if whole else f"{middle:,.1f}"


READ = 'request = "4KiB"\naddress = "random"\n'
WRITE = 'request = "4KiB"\naddress = "random"\noperations = { read = 0, write = 100 }\n'


def random_reads(bench: Bench, device: Path, kind: str, rounds: int) -> list[str]:
    """4 KiB random reads, 32 deep, one worker."""
    common = ["--rw=randread", "--bs=4k", "--iodepth=32", "--direct=1", "--ioengine=io_uring"]
    contestants: list[Contestant] = [
        ("fio, defaults", lambda: bench.fio(device, *common)),
        ("fio, tuned, batches of 32", lambda: bench.fio(device, *common, *FIO_TUNED)),
        ("Brickyard", lambda: bench.brickyard(device, READ + "depth = 32")),
        ("Brickyard, reap = 32", lambda: bench.brickyard(device, READ + "depth = 32", "reap=32")),
    ]
    if BEFORE:
        contestants.append(
            ("Brickyard, before", lambda: bench.brickyard(device, READ + "depth = 32", worker=Path(BEFORE)))
        )
    loop = os.environ.get("FIO_T_IO_URING")
    if loop:
        contestants.append(("fio's t/io_uring -t1", lambda: t_io_uring(loop, device, bench.seconds, "-p0", "-O1")))
    return duel(f"4 KiB random reads, depth 32, {kind}", contestants, rounds)


def t_io_uring(program: str, target: Path, seconds: float, *options: str, batch: int = 32, depth: int = 32) -> Figures:
    """fio's bare loop, latencies by batch; its rate is the median of its lines without the first."""
    sizes = ["-b4096", f"-d{depth}", f"-s{batch}", f"-c{batch}"]
    duration = f"-r{max(2, int(seconds))}"
    output, cpu_ns = run([program, *sizes, "-B1", "-F1", "-t1", *options, duration, str(target)])
    rates = [
        parse_kilo(line.split("IOPS=")[1].split(",")[0]) for line in output.splitlines() if line.startswith("IOPS=")
    ]
    rate = statistics.median(rates[1:] or rates)
    return Figures({"iops": rate, "cpu_ns": cpu_ns / (rate * max(2, int(seconds)))})


def parse_kilo(text: str) -> float:
    """`539K` or `1.2M` as a number."""
    scale = {"K": 1e3, "M": 1e6}.get(text[-1], 1.0)
    return float(text.rstrip("KM")) * scale


def warm(file: Path) -> None:
    """Reads a file into the page cache, from which the kernel may have taken it since."""
    with file.open("rb", buffering=0) as source:
        while source.read(1 << 20):
            pass


def page_cache(bench: Bench, file: Path, rounds: int) -> list[str]:
    """4 KiB random reads that the page cache answers inline."""
    common = ["--rw=randread", "--bs=4k", "--iodepth=32", "--direct=0", "--ioengine=io_uring", "--invalidate=0"]
    sets = ("reap=32", "io=buffered", "cache=as_is")

    def warmed(measure: Callable[[], Figures]) -> Callable[[], Figures]:
        def measure_warm() -> Figures:
            warm(file)
            return measure()

        return measure_warm

    return duel(
        "4 KiB random reads, depth 32, file in the page cache",
        [
            ("fio, defaults", warmed(lambda: bench.fio(file, *common))),
            ("fio, tuned, batches of 32", warmed(lambda: bench.fio(file, *common, *FIO_TUNED))),
            ("Brickyard, reap = 32", warmed(lambda: bench.brickyard(file, READ + "depth = 32", *sets))),
            *(
                [
                    (
                        "Brickyard, reap = 32, before",
                        warmed(lambda: bench.brickyard(file, READ + "depth = 32", *sets, worker=Path(BEFORE))),
                    )
                ]
                if BEFORE
                else []
            ),
        ],
        rounds,
    )


def page_cache_writes(bench: Bench, scratch: Path, rounds: int) -> list[str]:
    """4 KiB random writes into the page cache, one at a time: what a hand-over to the kernel's workers costs.

    All on one file, behind its header, which each finds in memory and with nothing left to be written back.
    """
    common = ["--rw=randwrite", "--bs=4k", "--direct=0", "--invalidate=0", "--offset=1m"]
    write = "operations = { read = 0, write = 100 }\n" + READ
    sets = ("io=buffered", "cache=as_is")

    def clean(measure: Callable[[], Figures]) -> Callable[[], Figures]:
        def measure_clean() -> Figures:
            os.sync()
            warm(scratch)
            return measure()

        return measure_clean

    return duel(
        "4 KiB random writes into the page cache, depth 1",
        [
            ("fio, psync", clean(lambda: bench.fio(scratch, *common, "--ioengine=psync"))),
            ("fio, io_uring", clean(lambda: bench.fio(scratch, *common, "--ioengine=io_uring"))),
            ("Brickyard", clean(lambda: bench.brickyard(scratch, write, *sets))),
            ("Brickyard, io_uring", clean(lambda: bench.brickyard(scratch, write, *sets, "engine=io_uring"))),
        ],
        rounds,
    )


def real_disk(bench: Bench, file: Path, scratch: Path, order: str, rounds: int) -> list[str]:
    """The disk below, where the storage is the limit: what matters is that it is not slowed, and the cost."""
    lines: list[str] = []
    for operation, depth in product(("read", "write"), (1, 4, 32)):
        mode = ("rand" if order == "random" else "") + operation
        common = ["--bs=4k", "--direct=1", "--ioengine=io_uring", "--lat_percentiles=1", f"--rw={mode}"]
        common += [f"--iodepth={depth}", *(["--refill_buffers"] if operation == "write" else [])]
        stream = f'address = "{order}"\nrequest = "4KiB"\ndepth = {depth}\n'
        stream += "operations = { read = 0, write = 100 }" if operation == "write" else ""
        target = scratch if operation == "write" else file

        def ours(*sets: str, t: Path = target, s: str = stream) -> Figures:
            return bench.brickyard(t, s, *sets, whole=True)

        contestants: list[Contestant] = [
            (f"fio, {'refill_buffers' if operation == 'write' else 'defaults'}", lambda c=common: bench.fio(file, *c)),  # type: ignore[misc]
            ("Brickyard", lambda o=ours: o()),  # type: ignore[misc]
        ]
        if depth > 1:
            contestants.append(("Brickyard, whole batches", lambda o=ours: o("submit=4096")))  # type: ignore[misc]
        elif mode == "randread" and (loop := os.environ.get("FIO_T_IO_URING")):
            # What a request at this depth costs without anything of a benchmark around it.
            contestants.append(
                ("fio's t/io_uring", lambda p=loop: t_io_uring(p, file, bench.seconds, "-p0", "-O1", batch=1, depth=1))  # type: ignore[misc]
            )
        what = f"4 KiB {order} {operation}s{' of unique data' if operation == 'write' else ''}"
        lines += duel(f"{what}, depth {depth}, file on this machine's disk, O_DIRECT", contestants, rounds)
    return lines


def depth_one(bench: Bench, device: Path, kind: str, rounds: int) -> list[str]:
    """One request at a time with pread."""
    return duel(
        f"4 KiB random reads, psync, depth 1, {kind}",
        [
            ("fio, psync", lambda: bench.fio(device, "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync")),
            ("Brickyard, psync", lambda: bench.brickyard(device, READ + "depth = 1", "engine=psync")),
        ],
        rounds,
    )


def nop(bench: Bench, file: Path, rounds: int) -> list[str]:
    """No-operations of the ring: what the loop and the ring cost, every address drawn and every latency recorded."""
    name = "io_uring no-operations in place of 4 KiB random reads, depth 32, one core"
    stream = READ + "depth = 32"
    contestants: list[Contestant] = [
        ("Brickyard", lambda: bench.brickyard(file, stream, nop=True)),
        ("Brickyard, reap = 32", lambda: bench.brickyard(file, stream, "reap=32", nop=True)),
    ]
    if BEFORE:
        contestants.append(("Brickyard, before", lambda: bench.brickyard(file, stream, nop=True, worker=Path(BEFORE))))
    loop = os.environ.get("FIO_T_IO_URING")
    if loop:
        contestants += [
            ("fio's t/io_uring -N1 -t1", lambda: t_io_uring(loop, file, bench.seconds, "-N1")),
            ("fio's t/io_uring -N1 -t1 -s1 -c1", lambda: t_io_uring(loop, file, bench.seconds, "-N1", batch=1)),
        ]
    return duel(name, contestants, rounds)


def verify_in_memory(bench: Bench, rounds: int, stack: ExitStack) -> list[str]:
    """Verified requests one at a time on tmpfs: the kernel answers inside the call, without its workers."""
    room = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm", prefix="brickyard-bench-")))
    scratch_file(room / "ours", bench.size_bytes // 4)
    return verify(bench, (room / "theirs", room / "ours"), "psync, files on tmpfs", rounds, inline=True)


def verify(bench: Bench, targets: tuple[Path, Path], kind: str, rounds: int, inline: bool) -> list[str]:
    """Verified writes, and verified reads of what was written, on storage in memory: fio's target and Brickyard's."""
    theirs, target = targets
    depth = 1 if inline else 32
    fio = ["--bs=4k", "--verify=crc32c", "--norandommap=0"]
    if inline:
        fio += ["--ioengine=psync", "--direct=0", "--invalidate=0"]
    else:
        fio += ["--ioengine=io_uring", f"--iodepth={depth}", "--direct=1"]
    blocks_bytes = bench.size_bytes // 4

    def until_long_enough(one_pass: Callable[[], dict[str, float]]) -> Figures:
        """Passes until the phase has run for the duration of a measurement; their requests over their seconds."""
        sums: dict[str, float] = {}
        for _ in range(PASSES_MAX):
            for name, value in one_pass().items():
                sums[name] = sums.get(name, 0.0) + value
            if sums["phase_s"] >= bench.seconds:
                break
        rates = {"iops": sums["requests"] / sums["phase_s"], "phase_s": sums["phase_s"]}
        return Figures(rates | ({"own_ns": sums["own_ns"] / sums["requests"]} if "own_ns" in sums else {}))

    def fio_phase(mode: str) -> dict[str, float]:
        """Writes one pass of a quarter of the size, then reads and verifies it: requests and seconds of `mode`."""
        options = [f"--size={blocks_bytes}", "--rw=randwrite", f"--do_verify={1 if mode == 'read' else 0}", *fio]
        output, _ = run(["fio", "--name=v", f"--filename={theirs}", "--output-format=json", *options])
        side = json.loads(output[output.index("{") :])["jobs"][0][mode]
        return {"requests": float(side["total_ios"]), "phase_s": side["runtime"] / 1000}

    def ours(mode: str) -> dict[str, float]:
        """The same with a permutation, so that each block is written once and then read once."""
        profile = bench.folder / "verify.toml"
        phases = "".join(
            f'[[phase]]\nname = "{name}"\npasses = 1\n[[phase.stream]]\n'
            f"operations = {{ read = {r}, write = {100 - r} }}\n"
            f'request = "4KiB"\naddress = "permutation"\nregion = "0..{blocks_bytes >> 20}MiB"\n'
            f"depth = {depth}\nverify = true\n"
            for name, r in (("write", 0), ("read", 100))
        )
        ways = 'engine = "psync"\nio = "buffered"\ncache = "as_is"\n' if inline else ""
        profile.write_text(f'title = "verify"\n{ways}{phases}')
        allowed = [] if inline else ["--overwrite", str(target), "--i-know-this-destroys-data"]
        output, _ = run([str(WORKER), str(profile), str(target), *allowed])
        return phase_totals(output, 0 if mode == "write" else 1)

    lines: list[str] = []
    for mode in ("write", "read"):
        lines += duel(
            f"verified {mode}s of 4 KiB blocks, depth {depth}, {kind}",
            [
                ("fio, verify=crc32c", lambda m=mode: until_long_enough(lambda: fio_phase(m))),  # type: ignore[misc]
                ("Brickyard, verify", lambda m=mode: until_long_enough(lambda: ours(m))),  # type: ignore[misc]
            ],
            rounds,
        )
    return lines


def phase_totals(output: str, phase: int) -> dict[str, float]:
    """Requests, seconds and the loop's own ns of one phase that ran to its end."""
    requests, start_ns, end_ns, own_ns = 0, None, 0, 0.0
    for line in output.splitlines():
        event = json.loads(line)
        if event["event"] == "interval" and event["phase"] == phase:
            start_ns = event["start_ns"] if start_ns is None else start_ns
            end_ns = max(end_ns, event["end_ns"])
            own_ns += event["loop_busy_share"] * (event["end_ns"] - event["start_ns"])
            requests += sum(c["requests"] for c in event["cells"])
    if start_ns is None:
        sys.exit("a verified run has no such phase")
    return {"requests": float(requests), "phase_s": (end_ns - start_ns) / 1e9, "own_ns": own_ns}


def open_loop(bench: Bench, device: Path, kind: str, rounds: int) -> list[str]:
    """Rates kept and lateness, beside a bare timer loop that does no I/O."""

    def timer(rate: int) -> Figures:
        output, _ = run([str(TIMER), str(rate), str(bench.seconds)])
        found = json.loads(output)
        return Figures({"late_p50_ns": found["p50_ns"], "late_p99_ns": found["p99_ns"]})

    def fio_rate(rate: int, process: str) -> Figures:
        options = ["--rw=randread", "--bs=4k", "--iodepth=32", "--direct=1", "--ioengine=io_uring"]
        return bench.fio(device, *options, f"--rate_iops={rate}", f"--rate_process={process}")

    lines: list[str] = []
    for rate, arrivals in ((1_000, "constant"), (10_000, "constant"), (100_000, "poisson")):
        pace = f'pace = {{ loop = "open", rate = {rate}, arrivals = "{arrivals}" }}\ndepth = 128'
        process = "linear" if arrivals == "constant" else "poisson"
        contestants: list[Contestant] = [
            ("Brickyard", lambda p=pace: bench.brickyard(device, READ + p)),  # type: ignore[misc]
            ("fio, rate_iops", lambda r=rate, p=process: fio_rate(r, p)),  # type: ignore[misc]
        ]
        if arrivals == "constant":
            contestants.insert(1, ("bare timer loop", lambda r=rate: timer(r)))  # type: ignore[misc]
        lines += duel(f"open loop, {rate:,} requests/s, {arrivals}, {kind}", contestants, rounds)
    return lines


def machine() -> str:
    """One line about this machine."""
    model = next(
        (x.split(":", 1)[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), "?"
    )
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, {time.strftime('%Y-%m-%d')}"


def scratch_file(place: Path, size_bytes: int) -> None:
    """A file of ours, filled, which may be written."""
    profile = b'title = "make"\n[[phase]]\nrequests = 1\n[[phase.stream]]\nrequest = "4KiB"\n'
    command = [str(WORKER), "-", str(place), "--size", str(size_bytes)]
    subprocess.run(command, input=profile, stdout=subprocess.DEVNULL, check=True)


def compare(bench: Bench, rounds: int, only: str, stack: ExitStack) -> list[str]:
    """All comparisons whose name contains `only`, as the lines of a Markdown document."""
    file, scratch = bench.folder / "file", bench.folder / "scratch"
    fill(file, bench.size_bytes)
    scratch_file(scratch, bench.size_bytes)
    comparisons: dict[str, Callable[[], list[str]]] = {"nop": lambda: nop(bench, file, rounds)}
    if os.geteuid() == 0:
        device, kind = ram_disk(stack, bench.size_bytes)
        comparisons |= {
            "reads": lambda: random_reads(bench, device, kind, rounds),
            "psync": lambda: depth_one(bench, device, kind, rounds),
            "open": lambda: open_loop(bench, device, kind, rounds),
        }
    else:
        print("left out without root: everything on a RAM-backed block device", file=sys.stderr)
    comparisons |= {
        "cache": lambda: page_cache(bench, file, rounds),
        "cache-writes": lambda: page_cache_writes(bench, scratch, rounds),
        "disk-random": lambda: real_disk(bench, file, scratch, "random", rounds),
        "disk-sequential": lambda: real_disk(bench, file, scratch, "sequential", rounds),
    }
    comparisons["verify-memory"] = lambda: verify_in_memory(bench, rounds, stack)
    if os.geteuid() == 0:
        # Last, since it makes the device ours and writes it.
        comparisons["verify-device"] = lambda: verify(bench, (device,) * 2, kind, rounds, inline=False)
    return [line for name, comparison in comparisons.items() if only in name for line in comparison()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--only", default="", help="only comparisons whose name contains this word")
    parser.add_argument("--write", type=Path, help="file that gets the tables as Markdown")
    parser.add_argument("--smoke", action="store_true", help="everything once, too short for a figure")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds, arguments.seconds = 1, 0.1
    size_bytes = SMOKE_BYTES if arguments.smoke else SIZE_BYTES
    if shutil.which("fio") is None:
        sys.exit("fio is needed as the peer; apt-get install fio")
    # As `make programs` builds them, so that what is measured is what ships.
    build = ["cargo", "build", "--release", "--workspace", "--bins", "--example", "timer_loop"]
    subprocess.run(build, cwd=ROOT, check=True)
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    lines = [
        "# Benchmarks",
        "",
        f"Medians (least to most) of {arguments.rounds} alternating rounds of {arguments.seconds} s; {version}.",
        f"Machine: {machine()}.",
        "`own_ns` is the generator's own time a request; `cpu_ns` all CPU of the process, kernel workers included.",
    ]
    # Ended by a signal, it must still give back the devices that it took.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brickyard-bench-")))
        lines += compare(Bench(arguments.seconds, size_bytes, folder), arguments.rounds, arguments.only, stack)
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
