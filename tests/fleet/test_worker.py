"""The static worker: a run without Python, for guests, containers and far hosts."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from support import OWN_MOUNTS

ROOT = Path(__file__).resolve().parents[2]
PLAN = b"""
title = "worker"
[[phase]]
requests = 100
[[phase.stream]]
request = "4KiB"
address = "random"
operations = { read = 50, write = 50 }
verify = true
"""
PT_INTERP = 3
HOUSE = ROOT / "python/brickyard"
WORKER = HOUSE / "fleet/brickyard-worker"


def asks_for_an_interpreter(program: Path) -> bool:
    """Whether an ELF-64 program names a dynamic loader."""
    image = program.read_bytes()
    table, size, count = (
        int.from_bytes(image[32:40], "little"),
        *(int.from_bytes(image[a : a + 2], "little") for a in (54, 56)),
    )
    return any(int.from_bytes(image[table + i * size :][:4], "little") == PT_INTERP for i in range(count))


def test_runs_without_anything_else_on_the_host(tmp_path: Path) -> None:
    for room in ("fleet/brickyard-worker", "lab/brickyard-lab", "watch/brickyard-watch"):
        assert not asks_for_an_interpreter(HOUSE / room), f"{room}: `make programs` links it statically"
    scratch = tmp_path / "scratch"
    command = ["env", "-i", str(WORKER), "-", str(scratch), "--size", "4MiB"]
    done = subprocess.run(command, input=PLAN, capture_output=True, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    requests = sum(c["requests"] for e in events if e["event"] == "interval" for c in e["cells"])
    assert requests == 100
    assert events[-1]["outcome"] == "done"


def test_a_disk_that_is_full_from_the_start_costs_the_copy_and_not_the_run(tmp_path: Path) -> None:
    """Without room for a name, and without room for its first line; what there was no room for is gone."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    (home := tmp_path / "full").mkdir()
    (order := tmp_path / "order").write_text('{"brickyard_record": 1}')
    command = [WORKER, "-", tmp_path / "f", "--size", "1MiB", "--record", home / "x" / "a.jsonl", "--order", order]
    words = " ".join(map(str, command))
    for size, filling in (("nr_inodes=1", ":"), ("size=4k", f"head -c 4096 /dev/zero >{home}/filled")):
        script = f"mount -t tmpfs -o {size} none {home} && {filling} && {words} && find {home} -type f >&2"
        done = subprocess.run([*OWN_MOUNTS, "sh", "-c", script], input=PLAN, capture_output=True, check=True)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        assert said[0] == {"word": "record_lost", "message": "No space left on device (os error 28)"}
        assert said[-1]["outcome"] == "done"
        assert "a.jsonl" not in done.stderr.decode()


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for words, cause in (
        ([], "usage"),
        (["-", str(tmp_path / "nothing")], "does not exist"),
        (["--bad"], "unknown option"),
    ):
        done = subprocess.run([str(WORKER), *words], input=PLAN, capture_output=True, check=False)
        assert done.returncode == 2
        assert cause in done.stderr.decode()
        assert "panicked" not in done.stderr.decode()


def test_a_modelled_brick_is_the_same_every_time() -> None:
    plan = b'title = "sim"\n[[phase]]\nduration = "5s"\n[[phase.stream]]\nrequest = "8KiB"\naddress = "random"\n'
    bricks = ROOT / "python" / "brickyard" / "bricks"
    command = [str(WORKER), "-", "sim:terraserver-2003,condition=rebuilding", "--bricks", str(bricks)]
    first, second = (subprocess.run(command, input=plan, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    events = [json.loads(line) for line in first.splitlines()]
    assert events[0]["engine"] == "sim"
    assert events[-1]["outcome"] == "done"
    without = subprocess.run(command[:3], input=plan, capture_output=True, check=False)
    assert without.returncode == 2
    assert b"--bricks DIR" in without.stderr


PACED = """
title = "paced"
interval = "500ms"
[[phase]]
duration = "60s"
[[phase.stream]]
request = "4KiB"
address = "random"
pace = { loop = "open", rate = 100 }
"""


def together(tmp_path: Path) -> subprocess.Popen[str]:
    """A worker that has begun at the word of whoever started it."""
    plan = tmp_path / "plan.toml"
    plan.write_text(PACED)
    words = [
        str(plan),
        str(tmp_path / "file"),
        "--size",
        "1MiB",
        "--together",
        "--record",
        str(tmp_path / "a" / "kept"),
    ]
    begun = subprocess.Popen([str(WORKER), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert begun.stdout is not None
    assert begun.stdin is not None
    for line in begun.stdout:
        if '"ready"' in line:
            break
    begun.stdin.write(f"go 0 {time.time_ns() + 200_000_000}\n")
    begun.stdin.flush()
    for line in begun.stdout:
        if '"interval"' in line:
            return begun
    raise AssertionError("no interval")


def test_a_worker_to_which_nobody_speaks_stops_by_itself_and_keeps_its_record(tmp_path: Path) -> None:
    begun = together(tmp_path)
    silent_s = time.monotonic()
    assert begun.stdout is not None
    said = []
    for line in begun.stdout:
        said.append(json.loads(line))
        if said[-1].get("event") == "end":
            break
    took_s = time.monotonic() - silent_s
    begun.communicate(timeout=15)  # closes its standard input: nobody will tell it to forget
    assert 7 < took_s < 13, f"stopped after {took_s:.1f} s"
    assert any(item.get("word") == "head_lost" for item in said)
    assert said[-1]["outcome"] == "interrupted"
    kept = [json.loads(line) for line in (tmp_path / "a" / "kept").read_text().splitlines()]
    assert kept[-1]["event"] == "end"
    assert sum(item.get("event") == "interval" for item in kept) > 10


def test_a_worker_whose_words_end_stops_at_once_and_forgets_when_told(tmp_path: Path) -> None:
    begun = together(tmp_path)
    out, _ = begun.communicate("alive\n", timeout=8)  # and closes its standard input
    assert json.loads(out.splitlines()[-1])["outcome"] == "interrupted"
    assert (tmp_path / "a" / "kept").exists()
    (tmp_path / "again").mkdir()
    begun = together(tmp_path / "again")
    out, _ = begun.communicate("stop\nforget\n", timeout=8)
    assert json.loads(out.splitlines()[-1])["outcome"] == "interrupted"
    assert not (tmp_path / "again" / "a").exists(), "neither the record nor its folder is left"
