"""Fleets without Ray: files of hosts, manifests, what `up` refuses, and what `down` ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.errors import BadInputError, BrickyardError
from brickyard.fleet import cluster, nodes
from brickyard.fleet import up as starting
from brickyard.fleet.cluster import Node
from brickyard.fleet.drive import rounds
from brickyard.fleet.hosts import read_hosts
from brickyard.store import Json


def test_the_manifest_claims_a_volume_for_each_pod(capsys: pytest.CaptureFixture[str]) -> None:
    yaml = pytest.importorskip("yaml")
    words = ["fleet", "up", "--kubernetes", "10.0.0.1:6399", "--count", "5"]
    assert main([*words, "--volume", "100Gi", "--storage-class", "gp3"]) == 0
    spec = yaml.safe_load(capsys.readouterr().out)["spec"]
    assert (spec["completions"], spec["parallelism"]) == (5, 5)
    assert spec["backoffLimitPerIndex"] > 0, "a pod that fails takes no other with it"
    pod = spec["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if "ephemeral" in volume]
    claim = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert (claim["resources"]["requests"]["storage"], claim["storageClassName"]) == ("100Gi", "gp3")
    (host,) = pod["containers"]
    assert {"name": volume["name"], "mountPath": "/brick"} in host["volumeMounts"]
    assert host["image"].endswith(f"-py{sys.version_info.major}{sys.version_info.minor}"), "as the head's Python"
    assert main(words) == 0
    plain = yaml.safe_load(capsys.readouterr().out)["spec"]["template"]["spec"]
    assert not any("ephemeral" in volume for volume in plain["volumes"])
    assert main([*words, "--volume", "100Gi\n      hostPID: true"]) == 2
    assert "is no size as Kubernetes writes it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing required field `head`"),
        ('[head]\naddress="h"\n', "missing required field `host`"),
        ('[head]\naddress="h"\n[[host]]\nname="all"\naddress="x"\n', "'all' is no name for a host"),
        ('[head]\naddress="h"\nport=70000\n[[host]]\nname="a"\naddress="x"\n', "port 70000 is not between 1 and 65535"),
        ('[head]\naddress=""\n[[host]]\nname="a"\naddress="x"\n', "'' is no address"),
        ('[head]\naddress="h"\n[[host]]\nname="a"\naddress="x; reboot"\n', "a: 'x; reboot' is no address"),
        (
            '[head]\naddress="h"\n[[host]]\nname="a"\naddress="x"\n[[host]]\nname="b"\naddress="x"\n',
            "a and b have one address, x",
        ),
        ('[head]\naddress="h"\n[[host]]\nname="a;b"\naddress="x"\n', "'a;b' is no name for a host"),
        ('[head]\naddress="h"\n[[host]]\nname="a"\naddress="x"\n' * 1 + '[[host]]\nname="a"\naddress="y"\n', "once"),
    ],
)
def test_a_file_of_hosts_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    place = tmp_path / "hosts.toml"
    place.write_text(text)
    with pytest.raises(BadInputError, match=words):
        read_hosts(place)


@pytest.mark.parametrize("words", [("--share", "split"), ("--lost", "end"), ("--clock-tolerance", "2ms")])
def test_what_needs_hosts_is_refused_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    own = ["run", "sqlio-random-read-4", f"{tmp_path}/f", "--size", "1MiB", "--store", f"{tmp_path}/s.db"]
    assert main([*own, *words]) == 2
    assert f"{words[0]}: needs --hosts" in capsys.readouterr().err
    assert not (tmp_path / "f").exists()


def test_without_ray_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('none')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from brickyard.fleet import needs_ray; needs_ray()"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "many hosts need Ray, which is not installed: pip install 'brickyard[fleet]'" in done.stderr.splitlines()[-1]


@pytest.fixture
def fleet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    cluster.home().mkdir(parents=True)
    cluster.token_file().write_text("0" * 64)
    return cluster.home()


def node(name: str, folder: str, *command: str) -> Json:
    return {"name": name, "address": "10.0.0.1", "command": list(command or ("sh", "-s")), "folder": folder}


def note_fleet(*hosts: Json, address: str = "10.0.0.1:1") -> None:
    head = node("head", "/tmp/brickyard-fleet-none0")
    told = {"brickyard_fleet": 1, "address": address, "node_address": "", "hosts": hosts, "head": head}
    cluster.state_file().write_text(json.dumps(told))


def test_down_ends_no_process_and_no_folder_that_is_not_the_fleets(fleet_home: Path, tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    mine = tmp_path / "mine"
    mine.mkdir()
    try:
        note_fleet(
            {**node("a", "/tmp/brickyard-fleet-none1"), "pid": bystander.pid},
            node("b", f"/tmp/brickyard-fleet-x/../..{mine}"),
        )
        (failure,) = starting.down().failures
        assert failure.startswith("b: ")
        assert "is no folder that `fleet up` makes" in failure
        assert bystander.poll() is None
        assert mine.is_dir()
        done = subprocess.run(
            ["sh", "-s"],
            input=nodes.END.replace("@DIR@", f"/tmp/brickyard-fleet-x/../..{mine}").replace("@MARK@", nodes.MARK),
            text=True,
            check=False,
        )
        assert (done.returncode, mine.is_dir()) == (2, True)
    finally:
        bystander.kill()
        bystander.wait()


def test_down_ends_what_wrote_its_title_over_its_environment(tmp_path: Path) -> None:
    """As Ray's agents do, which live on where their raylet was killed; whoever else is in the folder is left alone."""
    folder = Path(f"/tmp/brickyard-fleet-{os.urandom(8).hex()}")
    folder.mkdir()
    titled = "import time; open('/proc/self/comm', 'w').write('ray::Some'); print('named', flush=True); time.sleep(60)"
    agents = subprocess.Popen([sys.executable, "-c", titled], cwd=folder, stdout=subprocess.PIPE, text=True)
    elsewhere = subprocess.Popen([sys.executable, "-c", titled], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    bystander = subprocess.Popen(["sleep", "60"], cwd=folder, text=True)
    try:
        for one in (agents, elsewhere):
            assert one.stdout is not None
            assert one.stdout.readline() == "named\n"
        threading.Thread(target=agents.wait, daemon=True).start()  # as init does for those without a parent
        assert nodes.end(Node("a", "127.0.0.1", ["sh", "-s"], str(folder))) == ""
        assert agents.wait(5) == -signal.SIGKILL
        assert bystander.poll() is None
        assert elsewhere.poll() is None
        assert not folder.exists()
    finally:
        for one in (agents, elsewhere, bystander):
            one.kill()
            one.wait()
        shutil.rmtree(folder, ignore_errors=True)


class Nodes:
    """What Ray says of its nodes; a dead one has no resources, and so no name."""

    def __init__(self, **nodes: bool) -> None:
        self._nodes = nodes

    def nodes(self) -> list[Json]:
        return [
            {"Alive": alive, "NodeManagerAddress": "10.0.0.9", "Resources": {f"brickyard:{name}": 1} if alive else {}}
            for name, alive in self._nodes.items()
        ]


def test_all_hosts_are_those_of_the_fleet_and_one_that_is_down_is_named(fleet_home: Path) -> None:
    note_fleet(*(node(name, f"/tmp/brickyard-fleet-none{name}") for name in "abc"))
    assert cluster.chosen(Nodes(a=True, b=True, c=True), "all") == ["a", "b", "c"]
    with pytest.raises(BadInputError, match="--hosts all: c is down; to leave it out, name the others: --hosts a,b"):
        cluster.chosen(Nodes(a=True, b=True, c=False), "all")
    assert cluster.chosen(Nodes(a=True, b=True, c=False), "a,b") == ["a", "b"]
    with pytest.raises(BadInputError, match="--hosts c: is down; the fleet has a, b"):
        cluster.chosen(Nodes(a=True, b=True, c=False), "b,c")
    assert cluster.up_and_down(Nodes(a=True, b=True, c=False)) == (["a", "b"], ["c"])
    cluster.save(cluster.Cluster("10.0.0.1:1", joined={"k0": "10.0.0.2", "k1": "10.0.0.3"}))
    with pytest.raises(BadInputError, match="--hosts all: k1 is down"):
        cluster.chosen(Nodes(k0=True, k1=False), "all")


def test_what_cannot_be_ended_stays_known(fleet_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_fleet(node("a", "/tmp/brickyard-fleet-none1"), node("b", "/tmp/brickyard-fleet-none2", "false"))
    assert main(["fleet", "down"]) == 1
    said = capsys.readouterr()
    assert said.out == "Ray is stopped on a; the others are still on the list\n"
    assert "b: " in said.err
    assert [host.name for host in cluster.load().nodes] == ["b"]
    assert cluster.token_file().is_file()
    assert main(["fleet", "down", "--forget"]) == 1
    assert list(fleet_home.iterdir()) == []


def test_garbage_in_place_of_a_fleet_is_told_in_one_line(fleet_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.state_file().write_text('{"brickyard_fleet": 1, "hosts": [')
    for verb in ("status", "down"):
        assert main(["fleet", verb]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is not what `fleet up` wrote" in line


def test_the_hosts_of_a_fleet_without_an_answer_are_listed_as_not_known(
    fleet_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    note_fleet(node("a", "/tmp/brickyard-fleet-none1"), address="127.0.0.1:1")
    assert main(["fleet", "status"]) == 1
    said = capsys.readouterr()
    assert "not known" in said.out
    (line,) = said.err.splitlines()
    assert "the fleet's head at 127.0.0.1:1 does not answer: Connection refused" in line
    assert "clear what is left with `brickyard fleet down`" in line
    assert main(["fleet", "status", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [host["alive"] for host in document["hosts"].values()] == [None]
    monkeypatch.setattr(cluster, "PROBE_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        note_fleet(node("a", "/tmp/brickyard-fleet-none1"), address=f"127.0.0.1:{silent.getsockname()[1]}")
        words = ["run", "sqlio-random-read-4", f"{fleet_home}/f", "--size", "1MiB", "--store", f"{fleet_home}/s.db"]
        assert main([*words, "--hosts", "all"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "does not answer: nothing within 1 s" in line
    assert "brickyard fleet down" in line


def test_a_killed_up_leaves_a_fleet_that_down_ends(fleet_home: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    reached = tmp_path / "reached"
    way = tmp_path / "way"
    checked = tmp_path / "checked"
    way.write_text(
        f'#!/bin/sh\n[ -e {reached} ] || [ ! -e {checked} ] && touch {checked} && exec "$@"\n'
        f"touch {reached}\nexec sleep 20\n"
    )
    way.chmod(0o755)
    hosts = tmp_path / "hosts.toml"
    entry = f'address = "127.0.0.1"\nreach = ["{way}"]\n'
    hosts.write_text(f'[head]\n{entry}[[host]]\nname = "a"\n{entry}')
    words = [sys.executable, "-P", "-m", "brickyard", "fleet", "up", "--no-tls", "--hosts", str(hosts)]
    process = subprocess.Popen(words, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not reached.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert [one.name for one in cluster.load().nodes] == ["a", "head"]
    assert starting.down().failures == []
    assert not cluster.state_file().exists()


def of_host_file(tmp_path: Path, *hosts: str) -> Path:
    """A free port for the head, and hosts with addresses of their own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    entries = [
        f'[[host]]\nname = "{name}"\naddress = "127.0.0.{number}"\n{words}\n'
        for number, (name, words) in enumerate(zip("abcdef", hosts, strict=False), 2)
    ]
    place = tmp_path / "hosts.toml"
    place.write_text(f'[head]\naddress = "127.0.0.1"\nport = {port}\n' + "".join(entries))
    return place


def test_every_host_that_cannot_have_ray_is_named_with_its_cause_before_anything_starts(
    fleet_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    hosts = of_host_file(
        tmp_path,
        f'reach = ["env"]\npython = "{sys.executable}"',
        f'reach = ["env"]\npython = "{tmp_path}/bare/bin/python"',
        'reach = ["env"]\npython = "/no/such/python"',
        f'reach = ["env", "PATH={tmp_path}/bin", "XDG_STATE_HOME={tmp_path}"]',
        'reach = ["false"]',
    )
    begun_s = time.monotonic()
    assert main(["fleet", "up", "--no-tls", "--hosts", str(hosts)]) == 1
    assert time.monotonic() - begun_s < 60
    *steps, said = capsys.readouterr().err.splitlines()
    assert steps == ["checking 5 hosts"]
    assert f"b: its Python ({tmp_path}/bare/bin/python) has no Ray; install it with" in said
    assert "c: has no Python at /no/such/python; correct `python` in hosts.toml" in said
    assert "d: has no python3; install Python 3." in said
    assert "e: no reason given" in said
    assert " a: " not in said
    assert not cluster.state_file().exists(), "nothing is in the way of the next one"


def test_a_host_that_ends_as_it_is_started_is_named_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    folder = Path(f"/tmp/brickyard-fleet-{os.urandom(8).hex()}")
    folder.mkdir()
    try:
        (folder / "pid").write_text(f"{ended.pid}\n")
        (folder / "log").write_text("Traceback\n\nImportError: libc is too old\n\n")
        with pytest.raises(BrickyardError, match="a: Ray ended as it was started: ImportError: libc is too old"):
            nodes.refuse_ended([Node("a", "127.0.0.1", ["sh", "-s"], str(folder))])
    finally:
        shutil.rmtree(folder)


def test_an_up_that_failed_is_not_in_the_way_of_the_next_one(
    fleet_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host is lost between the look at it and the start; later what an earlier fleet left cannot be ended."""
    pytest.importorskip("ray")
    way, checked = tmp_path / "way", tmp_path / "checked"
    way.write_text(f'#!/bin/sh\n[ -e {checked} ] && echo gone >&2 && exit 255\ntouch {checked}\nexec "$@"\n')
    way.chmod(0o755)
    hosts = of_host_file(tmp_path, f'reach = ["{way}"]\npython = "{sys.executable}"')
    assert main(["fleet", "up", "--no-tls", "--hosts", str(hosts)]) == 1
    assert "a: gone (exit code 255)" in capsys.readouterr().err
    assert not cluster.state_file().exists()
    cluster.save(cluster.Cluster("127.0.0.1:1", hosts=[Node("z", "10.0.0.1", ["false"], "/tmp/brickyard-fleet-none1")]))
    assert main(["fleet", "up", "--no-tls", "--hosts", str(hosts)]) == 1
    said = capsys.readouterr().err
    assert "an earlier fleet has not ended on all hosts: z: " in said
    assert "brickyard fleet down --forget" in said
    assert main(["fleet", "down", "--forget"]) == 1
    assert not cluster.state_file().exists()


def test_a_fleet_that_is_up_takes_no_other_head_and_no_stranger(fleet_home: Path, tmp_path: Path) -> None:
    note_fleet(node("a", "/tmp/brickyard-fleet-none1"), address="127.0.0.1:1")
    hosts = read_hosts(of_host_file(tmp_path, 'reach = ["env"]'))
    with pytest.raises(BadInputError, match=r"a fleet is up at 127\.0\.0\.1:1, and the file has its head at"):
        starting.up(hosts)
    cluster.certificate_file().write_text("# brickyard fleet\n")
    with pytest.raises(BadInputError, match=r"a \(127\.0\.0\.2\): the certificate of the fleet that is up"):
        starting._refuse_strange(cluster.load(), hosts.host)


def test_each_host_has_the_volumes_of_all_and_its_own() -> None:
    together = rounds(["a", "b"], ["/dev/sdb", "a:/dev/sdc"], one_at_a_time=False)
    assert together == [[("a", "/dev/sdb"), ("b", "/dev/sdb")], [("a", "/dev/sdc")]]
    with pytest.raises(BadInputError, match="c is not among the hosts a, b"):
        rounds(["a", "b"], ["c:/dev/sdc"], one_at_a_time=False)
