"""Runs on many hosts, over real Ray: a node in each of three network namespaces, and one that starts them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard import _core, bricks, profiles
from brickyard.analysis.databases import replay_runs
from brickyard.databases.ephemeral import Server
from brickyard.fleet import tls
from brickyard.fleet.shares import divide
from brickyard.schema import LoadShare, plan_text
from brickyard.store import Store
from fleet_support import Fleet, network, ray_left
from replay_support import MAPPING, execute, fill, items, w3c

pytest.importorskip("ray", reason="Ray is not installed: make .venv/.fleet")
if os.geteuid() != 0 or shutil.which("ip") is None:
    pytest.skip("network namespaces need root and iproute2", allow_module_level=True)

NAMED_WITHIN_S = 5.0
PACED = ["--rw", "randread", "--bs", "4k", "--iodepth", "4", "--size", "8MiB"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    home = tmp_path_factory.mktemp("fleet")
    with network(home, ["a", "b", "c"]) as made:
        try:
            made.call("fleet", "up", "--hosts", made.hosts_toml())
            yield made
        finally:
            made.call("fleet", "down", codes=(0, 1, 2))
            for _ in range(50):
                if not ray_left(home):
                    break
                time.sleep(0.1)
        assert ray_left(home) == [], "nothing of Ray is left"


def files(fleet: Fleet, *hosts: str) -> list[str]:
    return [f"{host}:{fleet.home / host}.dat" for host in hosts]


def paced(fleet: Fleet, seconds: int, rate: int = 300) -> str:
    place = fleet.home / f"paced-{seconds}.toml"
    place.write_text(f"""
title = "paced"
interval = "500ms"
[[phase]]
name = "measure"
duration = "{seconds}s"
[[phase.stream]]
name = "reads"
request = "4KiB"
address = "random"
depth = 8
pace = {{ loop = "open", rate = {rate}, arrivals = "constant" }}
""")
    return str(place)


def test_one_start_one_record_and_shares_that_sum(fleet: Fleet) -> None:
    words = [paced(fleet, 4), *files(fleet, "a", "b", "c"), "--hosts", "a,b,c", "--share", "split", "--size", "8MiB"]
    run = fleet.run(*words)
    assert run["outcome"] == "done"
    whole = run["hosts"][-1]
    # A busy host leaves requests unsent, which were due all the same.
    due = whole["requests"] + run["generator"][0]["unsent"]
    assert due / 4 == pytest.approx(300, rel=0.005), "the shares sum to the rate of the profile"
    assert sorted(row["host"] for row in run["hosts"]) == ["", "a", "b", "c"]
    # All hosts of this test have one clock, so that what they were told as one instant shows the true error.
    instants = [event["instant_unix_ns"] for event in run["hosts_began"]]
    assert len(instants) == 3
    assert max(instants) - min(instants) <= run["fleet"]["bound_ns"]
    assert run["fleet"]["within_tolerance"] == (run["fleet"]["bound_ns"] <= 1_000_000)
    assert all(0 < host["bound_ns"] < 50_000_000 for host in run["fleet"]["hosts"])
    shown = fleet.call("show", "latest").stdout
    assert "the slowest first" in shown
    assert shown.index("Hosts") < shown.index("Targets")


def test_what_a_host_alone_would_be_warned_of_is_said_of_each_host(fleet: Fleet) -> None:
    load = fleet.home / "buffered.toml"
    load.write_text(Path(paced(fleet, 2)).read_text().replace("title", 'io = "buffered"\ntitle', 1))
    run = fleet.run(load, *files(fleet, "a", "b"), "--hosts", "a,b", "--size", "8MiB")
    warned = {warning["id"]: warning["text"] for warning in run["warnings"]}
    assert warned["smaller_than_memory"].startswith("a, b: "), warned
    assert "a.dat and " in warned["smaller_than_memory"]
    assert "b.dat have 8.0 MiB and the host " in warned["smaller_than_memory"]
    assert "fleet_circumstances" not in warned, "what else ran there is known"
    with Store(fleet.home / "data" / "brickyard" / "runs.db") as store:
        info = store.record(run["run"]).info
    assert [(host.host, host.why) for host in info.facts.hosts] == [("a", ""), ("b", "")]
    assert [host.targets[0].path for host in info.facts.hosts] == [str(fleet.home / f"{name}.dat") for name in "ab"]
    for host in info.watch.hosts:
        (watched,) = host.targets
        assert watched.duration_ns > 2e9
        assert watched.process is not None
        assert watched.process.user_ns + watched.process.system_ns > 0, "of the worker"


def test_the_merged_histogram_is_that_of_all_requests(fleet: Fleet) -> None:
    """Models are the same to the bit everywhere: each part is run again here, and all of it is merged."""
    target = "sim:terraserver-2003"
    changes = ["duration=2s"]
    run = fleet.run("sqlio-random-read-4", target, "--hosts", "all", "--set", changes[0])
    plan = profiles.validate(profiles.read("sqlio-random-read-4"), changes)
    own: list[str] = []
    for one in divide("sqlio-random-read-4", plan, ["a", "b", "c"], [target], LoadShare.COPIES).plans:
        handle = _core.start(plan_text(one), [target], json.dumps({"bricks": bricks.texts(), "overrides": []}))
        events: list[Any] = []
        while not handle.finished():
            events += [json.loads(text) for text in handle.events(50)]
        own += [
            item["measures"]["response"]["histogram"]
            for event in events
            if event["event"] == "interval" and not event["warmup"]
            for item in event["cells"]
        ]
    with Store(fleet.home / "data" / "brickyard" / "runs.db") as store:
        record = store.record(run["run"])
        merged = _core.Histogram.merged(
            item.histogram for item in record.intervals if item.measure == "response" and not item.warmup
        )
    everything = _core.Histogram.merged(own)
    assert merged is not None
    assert everything is not None
    assert merged == everything


def test_the_two_hosts_of_overlands_oltp(fleet: Fleet) -> None:
    """Both write one file in the place of the array, each its half, and check what they find there."""
    run = fleet.run(
        "overland-oltp-two-hosts",
        fleet.home / "array.dat",
        *("--hosts", "a,b", "--size", "16MiB"),
        *("--set", "duration=2s", "--set", "warmup=0s", "--set", "transactions.first.workers=2"),
    )
    assert run["outcome"] == "done", run["message"]
    rows = {row["host"]: row for row in run["hosts"]}
    assert rows["a"]["requests"] > 0
    assert rows["b"]["requests"] > 0
    assert run["verified"]["checked_blocks"] > 0
    assert run["verified"]["damaged_blocks"] == 0
    assert [stream["workers"] for stream in run["plan"]["phase"][0]["stream"]] == [2, 8]


def test_a_start_that_is_too_loose_is_refused(fleet: Fleet) -> None:
    words = [paced(fleet, 4), *files(fleet, "a", "b"), "--hosts", "a,b", "--clock-tolerance", "1ns"]
    done = fleet.call("run", *words, "--late-start", "refuse", "--size", "8MiB", codes=(1, 2))
    assert "may be apart by" in done.stdout + done.stderr
    last = max(json.loads(fleet.call("runs", "--json").stdout)["runs"], key=lambda run: run["run"])
    assert last["outcome"] == "failed"


def test_hosts_and_devices_are_named_together(fleet: Fleet) -> None:
    done = fleet.call("run", paced(fleet, 4), "/dev/sdx", "--hosts", "a,b", "--overwrite", "/dev/sdx", codes=(2,))
    assert "name host and device, such as a:/dev/sd" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    done = fleet.call("run", paced(fleet, 4), "/f", "--hosts", "a,z", codes=(2,))
    assert "--hosts z: is no host of the fleet; the fleet has a, b, c" in done.stderr


def test_who_has_no_token_gets_nothing(fleet: Fleet) -> None:
    """Neither by Ray's low-level calls nor by a token of his own, even with the certificate; no dashboard listens."""
    probe = (
        "import sys; from ray._raylet import GcsClient;"
        "print('got', GcsClient(address=sys.argv[1]).internal_kv_keys(b'', None, 3))"
    )
    wrong = fleet.home / "wrong"
    wrong.write_text("0" * 64)
    inside = ["ip", "netns", "exec", fleet.namespace("b")]
    clean = {name: value for name, value in fleet.env.items() if not name.startswith("RAY_")}
    certificate = next(fleet.home.rglob("fleet.pem"))
    assert certificate.stat().st_mode & 0o777 == 0o600
    clean |= tls.settings(certificate)
    for own in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(wrong)}):
        with subprocess.Popen(
            [*inside, sys.executable, "-P", "-c", probe, fleet.address],
            env={**clean, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as client:
            said = ""
            until = time.monotonic() + 15
            for line in client.stdout or ():
                said += line
                if "InvalidAuthToken" in line or "got" in line or time.monotonic() > until:
                    break
            client.kill()
        assert "InvalidAuthToken" in said, said[-2000:]
        assert "got" not in said
    for name in ("head", "a", "b", "c"):
        listening = subprocess.run(
            ["ip", "netns", "exec", fleet.namespace(name), "cat", "/proc/net/tcp", "/proc/net/tcp6"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        ports = {int(line.split()[1].rpartition(":")[2], 16) for line in listening.splitlines() if " 0A " in line}
        assert 8265 not in ports, "no dashboard"


def test_who_has_no_certificate_is_not_spoken_to(fleet: Fleet) -> None:
    """Every port of Ray that other hosts reach, without TLS and without the certificate."""
    plain = (
        "s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])); print(s.recv(99))"
    )
    bare = (
        "import ssl; c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE;"
        "c.set_alpn_protocols(['h2']); t = c.wrap_socket(s); print(t.version()); print(t.recv(99))"
    )
    inside = ["ip", "netns", "exec", fleet.namespace("b"), sys.executable, "-P", "-c"]
    begin = f"import socket; s = socket.create_connection(('{fleet.head}', 6399), 5); "
    spoken = subprocess.run([*inside, begin + plain], capture_output=True, text=True, check=False)
    assert spoken.returncode != 0 or spoken.stdout.strip() == "b''", spoken.stdout
    refused = subprocess.run([*inside, begin + bare], capture_output=True, text=True, check=False)
    assert refused.stdout.startswith("TLSv1"), refused.stderr
    # Whoever is accepted gets the settings of HTTP/2 at once; here the connection ends without a byte.
    closed = refused.stdout.endswith("b''\n") or "CERTIFICATE_REQUIRED" in refused.stderr.upper()
    assert closed, (refused.stdout, refused.stderr)


def wait_for(lines: Iterator[str], word: str, within_s: float) -> float:
    """How long until a line of standard error has a word."""
    began_s = time.monotonic()
    for line in lines:
        if word in line:
            return time.monotonic() - began_s
        assert time.monotonic() - began_s < within_s, f"{word!r} was not said within {within_s} s"
    raise AssertionError(f"{word!r} was never said")


def under_way(fleet: Fleet, host: str) -> int:
    """The worker of a host, once its record has an interval."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        every = fleet.home.glob(f"state/brickyard/fleet/*/{host}.jsonl")
        kept = [place for place in every if place.stat().st_mtime > fleet.begun_s + 1]  # not what earlier runs left
        pids = fleet.pids(host, "brickyard-worker")
        if pids and any('"event":"interval"' in place.read_text("utf-8") for place in kept):
            return pids[0]
        time.sleep(0.1)
    raise AssertionError(f"no load began on {host}")


def ended(run: subprocess.Popen[str]) -> Any:
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1, (run.returncode, err[-3000:])
    return json.loads(out)


SWEEP = """
from brickyard import _core, bricks
from brickyard.fleet import cluster
from brickyard.fleet.sweeping import Sweep
ray = cluster.enter(cluster.load())
sweep = Sweep(ray, cluster.chosen(ray, "all"), print)
for number in (0, 40, 80):
    for left_out in (False, True):
        there = sweep.reference(number, bricks.texts(), 2, left_out)
        assert there == _core.reference_simulate(number, bricks.texts(), 2, left_out), (number, there)
sweep.close()
print("alike")
"""


def test_sweeps_over_hosts_are_those_of_one_to_the_bit(fleet: Fleet) -> None:
    done = subprocess.run(
        [*fleet.command()[:4], sys.executable, "-P", "-c", SWEEP],
        env=fleet.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == "alike", done.stderr[-2000:]
    words = ["advise", "buy", "overland-exchange", "--require", "exchange", "--capacity", "500GB", "--most", "3"]
    words += ["--duration", "2s", "--json"]
    found = [json.loads(fleet.call(*words, *hosts, codes=(0, 1)).stdout) for hosts in (("--hosts", "all"), ())]
    assert found[0] == found[1]


def test_a_census_finds_the_slow_volume(fleet: Fleet) -> None:
    """Six modelled volumes on three hosts, one of which seeks slowly."""
    drive = "sim:barracuda-es-500,drive.seek_average_read"
    volumes = [f"{host}:{drive}={seek}ms" for host in ("a", "b", "c") for seek in (8.4, 8.5)][:-1]
    slow = "sim:barracuda-es-500,drive.seek_average_read=17ms,drive.seek_full_read=35ms"
    done = fleet.call("census", *volumes, f"c:{slow}", "--hosts", "a,b,c", "--check", "--json", codes=(1,))
    told = json.loads(done.stdout)
    assert told["units"] == 6, done.stderr[-2000:]
    assert told["slow"] == [f"c:{slow}"]
    assert told["missing"] == []
    assert told["findings"][0]["factor"] > 1.2
    shown = fleet.call("export", f"s{told['study']}", "--format", "csv", "-o", fleet.home / "census.csv")
    assert shown.returncode == 0


def test_a_killed_worker_and_a_cut_link_are_named(fleet: Fleet) -> None:
    words = [paced(fleet, 14), *files(fleet, "a", "b", "c"), "--hosts", "a,b,c", "--size", "8MiB", "--json"]
    run = fleet.begin("run", *words)
    assert run.stderr is not None
    pid = under_way(fleet, "c")
    os.kill(pid, signal.SIGKILL)
    assert wait_for(run.stderr, "c: lost: its worker ended", 20) < NAMED_WITHIN_S
    fleet.link("b", "down")
    assert wait_for(run.stderr, "b: lost: it has not been heard", 10) < NAMED_WITHIN_S + 0.5
    fleet.link("b", "up")
    wait_for(run.stderr, "b: answers again", 10)
    told = ended(run)
    assert told["outcome"] == "failed"
    assert "2 of 3 hosts to the end; c: its worker ended unexpectedly" in told["message"]
    assert [event["host"] for event in told["hosts_back"]] == ["b"]
    lost = next(event for event in told["hosts_lost"] if event["host"] == "c")
    assert lost["streams"] == ["reads on c"]
    rows = {row["host"]: row for row in told["hosts"]}
    assert rows["c"]["state"] == "lost"
    # What b did while nobody heard it has come after it.
    assert rows["b"]["requests"] == pytest.approx(rows["a"]["requests"], rel=0.02)


def test_a_worker_that_hangs_is_named_and_holds_nobody_up(fleet: Fleet) -> None:
    run = fleet.begin("run", paced(fleet, 20), *files(fleet, "a", "b"), "--hosts", "a,b", "--size", "8MiB", "--json")
    assert run.stderr is not None
    pid = under_way(fleet, "b")
    os.kill(pid, signal.SIGSTOP)
    assert wait_for(run.stderr, "b: lost: it has not been heard", 20) < NAMED_WITHIN_S
    for _ in range(2):  # the second is not to wait for anything
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
    told = ended(run)
    assert "1 of 2 hosts to the end; b: it has not been heard" in told["message"]
    assert {row["host"]: row["state"] for row in told["hosts"]}["b"] == "lost"
    assert pid not in fleet.pids("b", "brickyard-worker")


def test_a_dead_head_leaves_the_records_to_be_collected(fleet: Fleet) -> None:
    fleet.call("fleet", "collect", codes=(0, 1, 2))  # what earlier runs left
    run = fleet.begin("run", paced(fleet, 30), *files(fleet, "a", "b", "c"), "--hosts", "a,b,c", "--size", "8MiB")
    for host in ("a", "b", "c"):
        under_way(fleet, host)
    run.kill()
    run.communicate(timeout=20)
    died_s = time.monotonic()
    while any(fleet.pids(host, "brickyard-worker") for host in ("a", "b", "c")):
        assert time.monotonic() - died_s < 13, "workers stop by themselves"
        time.sleep(0.1)
    collected = json.loads(fleet.call("fleet", "collect", "--json").stdout)["runs"]
    (number,) = collected.values()
    told = json.loads(fleet.call("show", number, "--json").stdout)
    assert told["outcome"] in ("interrupted", "failed")
    assert "collected from 3 of 3 hosts" in told["message"]
    assert {row["host"] for row in told["hosts"] if row["requests"]} >= {"a", "b", "c"}
    assert all(row["requests"] > 0 for row in told["totals"])
    again = json.loads(fleet.call("fleet", "collect", "--json").stdout)["runs"]
    assert again == {}, "what was collected is not collected twice"
    kept = list(fleet.home.glob("state/brickyard/fleet/*/*.jsonl"))
    would = json.loads(fleet.call("fleet", "clean", "--dry-run", "--json", codes=(0, 1)).stdout)["would_remove"]
    assert len(would) >= 3
    assert all(place.exists() for place in kept)
    said = fleet.call("fleet", "clean", codes=(0, 1)).stdout
    for name, host in ((place.partition(":")[2], place.partition(":")[0]) for place in would):
        assert f"{host}:{name}: removed (" in said
        assert not (fleet.home / "state/brickyard/fleet" / name).exists()


@pytest.fixture
def far_shop(fleet: Fleet, postgres: Server) -> Iterator[str]:
    """The database of a shop, as hosts of the fleet reach it."""
    name = f"far_shop_{os.getpid()}"
    execute(postgres.dsn, f"create database {name}")
    fill(postgres.dsn_of(name))
    with fleet.served("head", f"{postgres.host}/.s.PGSQL.5432", 5432):
        yield f"postgresql://{postgres.user}@{fleet.head}:5432/{name}"
    execute(postgres.dsn, f"drop database {name} with (force)")


def test_drivers_on_two_hosts_are_one_replay_and_lose_no_call(fleet: Fleet, far_shop: str) -> None:
    """The study's four drivers on two servers, a log each."""
    mapping = fleet.home / "shop.toml"
    mapping.write_text(MAPPING)
    whole = items(300, 3.0)
    logs = [fleet.home / f"{number}.log" for number in range(4)]
    for number, log in enumerate(logs):
        log.write_text(w3c(whole[number::4]))
    words = ["--map", mapping, "--to", far_shop, "--hosts", "a,b", "--drivers", "4", "--pace", "fire-hose", "--json"]
    (told,) = json.loads(fleet.call("replay", *logs, *words).stdout)["runs"]
    assert told["plan"]["replay"]["hosts"] == ["a", "b", "a", "b"]
    assert _core.Histogram(told["totals"][0]["measures"]["service"]["histogram"]).count == 300
    assert [host["host"] for host in told["fleet"]["hosts"]] == ["a", "b"]
    assert 0 < told["fleet"]["bound_ns"] < 100_000_000
    assert {event["host"]: event["outcome"] for event in told["hosts_ended"]} == {"a": "done", "b": "done"}
    with Store(fleet.home / "data" / "brickyard" / "runs.db") as store:
        ends = replay_runs.ends(store.record(told["run"]))
    assert [end.calls for end in ends] == [75] * 4
    names = {log["path"] for end in ends if end.logs for log in end.logs["logs"]}
    assert names == {str(log) for log in logs}, "logs are named as they are here"
    near = fleet.call(
        "replay", logs[0], "--map", mapping, "--to", "postgresql://x@127.0.0.1/y", "--hosts", "a", codes=(2,)
    )
    assert "is an address that only this host reaches" in near.stderr


def test_a_driver_whose_host_is_cut_off_is_named_and_ends_by_itself(fleet: Fleet, far_shop: str) -> None:
    mapping, log = fleet.home / "shop.toml", fleet.home / "long.log"
    mapping.write_text(MAPPING)
    log.write_text(w3c(items(9000, 60.0), clients=50))
    words = ["--map", mapping, "--to", far_shop, "--hosts", "a,b", "--duration", "9s", "--json"]
    with Store(fleet.home / "data" / "brickyard" / "runs.db") as store:
        before = len(store.runs())
        run = fleet.begin("replay", log, *words)
        assert run.stderr is not None
        until = time.monotonic() + 60
        while len(runs := store.runs()) == before or not store.record(runs[-1].id).intervals:
            assert time.monotonic() < until
            assert run.poll() is None
            time.sleep(0.1)
    fleet.link("b", "down")
    try:
        assert wait_for(run.stderr, "b: lost: it has not been heard", 12) < 2 * NAMED_WITHIN_S
    finally:
        fleet.link("b", "up")
    until = time.monotonic() + 14
    while fleet.pids("b", "--replay"):
        assert time.monotonic() < until, "the driver ends, by itself if need be"
        time.sleep(0.1)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1, err[-3000:]
    (told,) = json.loads(out)["runs"]
    assert told["outcome"] == "failed"
    assert "driver 2 of 2 on b ended unexpectedly" in told["message"]
    assert {event["host"]: event["outcome"] for event in told["hosts_ended"]} == {"a": "done", "b": "failed"}
    assert told["hosts_lost"][0]["streams"] == ["driver 2"]


def test_a_full_disk_on_one_host_costs_its_copy_or_is_refused_by_name(fleet: Fleet) -> None:
    kept = fleet.home / "state/brickyard/fleet"
    kept.mkdir(parents=True, exist_ok=True)
    words = [paced(fleet, 2), *files(fleet, "a", "b"), "--hosts", "a,b", "--size", "8MiB", "--json"]
    with fleet.within("b", "-t", "tmpfs", "-o", "nr_inodes=1", "none", str(kept)):
        done = fleet.call("run", *words)
    assert "b: keeps no copy of its record: No space left" in done.stderr, "it was full from the start"
    told = json.loads(done.stdout)
    noted = [warning["text"] for warning in told["warnings"] if warning["id"] == "fleet_note"]
    assert any(text.startswith("b: keeps no copy of its record: No space left") for text in noted), "in the record too"
    assert "b: keeps no copy of its record" in fleet.call("show", told["run"]).stdout
    with fleet.within("b", "-t", "tmpfs", "-o", "size=4k", "none", str(kept)):
        done = fleet.call("run", *words)
    assert "b: keeps no copy of its record" in done.stderr
    assert "a: keeps no copy" not in done.stderr
    told = json.loads(done.stdout)
    assert told["outcome"] == "done", "the head has what the disk had no room for"
    rows = {row["host"]: row for row in told["hosts"]}
    assert rows["b"]["requests"] == pytest.approx(rows["a"]["requests"], rel=0.02)
    small = fleet.home / "small"
    small.mkdir(exist_ok=True)
    with fleet.within("b", "-t", "tmpfs", "-o", "size=1m", "none", str(small)):
        words = [paced(fleet, 2), f"a:{fleet.home}/a.dat", f"b:{small}/b.dat", "--hosts", "a,b", "--size", "8MiB"]
        refused = fleet.call("run", *words, codes=(1, 2))
    assert "b: " in refused.stderr
    assert "its file system has 1 MiB free" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not fleet.pids("a", "brickyard-worker"), "nobody goes on by himself"


def test_a_network_that_becomes_slow_loses_nothing(fleet: Fleet) -> None:
    """256 kbit/s to one host, once the load is under way: what it says comes late, and all of it comes."""
    run = fleet.begin("run", paced(fleet, 5), *files(fleet, "a", "b"), "--hosts", "a,b", "--size", "8MiB", "--json")
    under_way(fleet, "b")
    with fleet.narrow("b", "256kbit"):
        out, err = run.communicate(timeout=60)
    told = json.loads(out)
    assert told["outcome"] == "done", err[-2000:]
    rows = {row["host"]: row for row in told["hosts"]}
    assert rows["b"]["requests"] == pytest.approx(rows["a"]["requests"], rel=0.02)


def test_one_file_under_two_hosts_is_not_written_by_both(fleet: Fleet) -> None:
    """The hosts share a kernel, as two hosts on one array share its device."""
    shared = fleet.home / "shared.dat"
    shared.write_bytes(bytes(8 << 20))
    load = fleet.home / "writes.toml"
    load.write_text(Path(paced(fleet, 2)).read_text().replace("depth = 8", "depth = 8\noperations = { write = 100 }"))
    before = shared.read_bytes()
    done = fleet.call("run", load, shared, "--hosts", "a,b", codes=(2,))
    assert f"a:{shared} and b:{shared} are one and the same" in done.stderr
    assert "--share partition" in done.stderr
    assert shared.read_bytes() == before
    new = fleet.home / "yet-to-be-made.dat"
    done = fleet.call("run", load, new, "--hosts", "a,b", "--size", "8MiB", codes=(2,))
    assert f"a:{new} and b:{new} are one and the same" in done.stderr
    assert not new.exists()
    words = ["--hosts", "a,b", "--size", "8MiB", "--share", "partition"]
    run = fleet.run(load, new, *words)
    assert run["outcome"] == "done", "each writes its part of the file that both have"
    rows = {row["host"]: row for row in run["hosts"]}
    assert min(rows["a"]["requests"], rows["b"]["requests"]) > 200


def test_a_trace_is_issued_whole_by_each_host(fleet: Fleet) -> None:
    load = fleet.home / "load.byt"
    own = fleet.home / "of-the-trace.dat"
    fleet.call("run", paced(fleet, 2), own, "--size", "8MiB", "--save-trace", load)
    words = [load, *files(fleet, "a", "b"), "--hosts", "a,b", "--size", "8MiB"]
    run = fleet.run(*words)
    assert run["outcome"] == "done", run["message"]
    assert run["trace"]["missing"] == {}
    rows = {row["host"]: row for row in run["hosts"]}
    assert rows["a"]["requests"] == rows["b"]["requests"] == run["trace"]["expected"]["read"] / 2 > 500
    refused = fleet.call("run", *words, "--save-trace", fleet.home / "x.byt", codes=(2,))
    assert "requests stay on the hosts that issue them" in refused.stderr


def test_a_study_has_hosts_as_a_factor(fleet: Fleet) -> None:
    """An open loop of 300/s on each host: two hosts serve twice as many, and each cell knows its hosts."""
    design = fleet.home / "hosts.toml"
    paced(fleet, 2)
    design.write_text(f"""
title = "hosts"
order = "written"
[base]
profile = "paced-2.toml"
[factor.hosts]
hosts = "{{value}}"
[factor.hosts.levels]
one = {{ value = "a", target = {files(fleet, "a")} }}
two = {{ value = "a,b", target = {files(fleet, "a", "b")} }}
[[table]]
rows = ["hosts"]
""")
    told = json.loads(fleet.call("study", design, "--size", "8MiB", "--json").stdout)
    assert (told["outcome"], len(told["made"])) == ("done", 2)
    alone, both = (json.loads(fleet.call("show", number, "--json").stdout) for number in told["made"])
    assert [row["host"] for row in alone["hosts"] if row["host"]] == ["a"]
    assert sorted(row["host"] for row in both["hosts"] if row["host"]) == ["a", "b"]
    rates = [sum(row["iops"] for row in run["totals"]) for run in (alone, both)]
    assert rates == pytest.approx([300, 600], rel=0.02)
    again = json.loads(fleet.call("study", design, "--size", "8MiB", "--json").stdout)
    assert (again["made"], again["reused"]) == ([], 2)
    design.write_text(design.read_text().replace("[base]", '[base]\ncondition = "degraded"'))
    refused = fleet.call("study", design, "--size", "8MiB", codes=(2,))
    assert "condition: works on one host" in refused.stderr


def test_a_killed_raylet_is_named_the_others_go_on_and_it_is_taken_back(fleet: Fleet) -> None:
    words = [paced(fleet, 9), *files(fleet, "a", "b"), "--hosts", "a,b", "--size", "8MiB", "--json"]
    run = fleet.begin("run", *words)
    assert run.stderr is not None
    under_way(fleet, "b")
    raylet = fleet.pids("b", "raylet/raylet")[0]
    os.kill(raylet, signal.SIGKILL)
    assert wait_for(run.stderr, "b: lost", 20) < 2 * NAMED_WITHIN_S  # tests beside it take the processors
    told = ended(run)
    assert told["outcome"] == "failed"
    assert "b: " in told["message"]
    rows = {row["host"]: row for row in told["hosts"]}
    assert rows["a"]["requests"] > 2000
    until = time.monotonic() + 60  # Ray takes a while to say that a node is dead
    while fleet.call("fleet", "status", codes=(0, 1)).returncode == 0:
        assert time.monotonic() < until
    done = fleet.call("run", paced(fleet, 2), fleet.home / "f.dat", "--hosts", "all", "--size", "8MiB", codes=(2,))
    assert "--hosts all: b is down; to leave it out, name the others: --hosts a,c" in done.stderr
    words = ["sim:barracuda-es-500", "--hosts", "all", "--check", "--json"]
    done = fleet.call("census", *words, codes=(1,))
    assert json.loads(done.stdout)["missing"] == ["b:sim:barracuda-es-500"]
    assert "b: is down; its volumes are not measured" in done.stderr
    with Store(fleet.home / "data" / "brickyard" / "runs.db") as store:
        (study,) = store.studies(json.loads(done.stdout)["study"])
    assert "b: is down; its volumes are not measured" in study.notes, "also in the record"
    (fleet.home / "state/brickyard/fleet/x").mkdir()
    (fleet.home / "state/brickyard/fleet/x/a.jsonl").touch()
    done = fleet.call("fleet", "collect")
    assert "a:x/a.jsonl: is no record that a host of a fleet kept" in done.stderr
    assert "b: is down" in done.stderr
    assert "fleet up --hosts" in fleet.call("fleet", "status", codes=(1,)).stderr, "what to do"
    kept = {place: place.read_bytes() for place in fleet.home.glob("data/brickyard/fleet/*") if place.suffix != ".json"}
    raylets = {host: fleet.pids(host, "raylet/raylet") for host in ("a", "c")}
    again = fleet.call("fleet", "up", "--hosts", fleet.hosts_toml(), "--json")
    told = json.loads(again.stdout)
    assert told["started"] == ["b"]
    assert again.stderr.startswith("looking for hosts that the fleet at ")
    assert {host: fleet.pids(host, "raylet/raylet") for host in ("a", "c")} == raylets, "the others are left alone"
    assert all(place.read_bytes() == content for place, content in kept.items()), "token and certificate"
    fleet.call("fleet", "status")
    run = fleet.run(paced(fleet, 2), *files(fleet, "a", "b", "c"), "--hosts", "all", "--size", "8MiB")
    assert run["outcome"] == "done"
    told = json.loads(fleet.call("fleet", "up", "--hosts", fleet.hosts_toml(), "--json").stdout)
    assert told["started"] == [], "nothing is missing"


def test_without_a_fleet_one_line_says_how_to_start_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "brickyard", "run", "sqlio-random-read-4", "/f", "--hosts", "all"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [done.stderr.strip()]
    assert "brickyard fleet up" in done.stderr


def test_the_manifest_for_kubernetes_has_no_token(fleet: Fleet) -> None:
    text = fleet.call("fleet", "up", "--kubernetes", "10.0.0.1:6399", "--count", "5").stdout
    assert "completions: 5" in text
    assert "RAY_AUTH_MODE" in text
    assert (fleet.home / "data/brickyard/fleet/token").read_text().strip() not in text
