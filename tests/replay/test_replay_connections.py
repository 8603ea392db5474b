"""How a replay reaches its databases: passwords, TLS, names, the link to a server."""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from brickyard import _core
from brickyard.cli import main
from brickyard.databases.connect import refuse_second_at, split_dsns, spoken
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.errors import BadInputError
from brickyard.schema import LinkFacts
from brickyard.study.replays.run import link_to
from replay_support import (
    MAPPING,
    command_lines,
    fill,
    items,
    pages,
    parent_of,
    replayed,
    w3c,
)


def test_passwords_are_nowhere(mapping: Path, tmp_path: Path) -> None:
    with ephemeral_postgres(settings={"fsync": "off"}, tcp=True) as server:
        fill(server.dsn)
        secret = server.password
        assert secret is not None
        log, place, report = tmp_path / "a.log", tmp_path / "s.db", tmp_path / "report.html"
        log.write_text(w3c(items(300, 3.0)))
        command = [sys.executable, "-m", "brickyard", "replay", str(log), "--map", str(mapping), "--to", server.dsn]
        command += ["--drivers", "2", "--store", str(place)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen: set[int] = set()
        try:
            until = time.monotonic() + 60
            own = Path(f"/proc/{process.pid}/cmdline")
            while b":xxxxxxxx" not in own.read_bytes() and time.monotonic() < until:
                time.sleep(0.05)  # it overwrites them first of all; an interpreter takes a moment to begin
            while process.poll() is None and time.monotonic() < until:
                for pid, line in command_lines():
                    assert secret.encode() not in line, f"process {pid} shows the password"
                    if b"replays.driver" in line and parent_of(pid) == process.pid:
                        seen.add(pid)
                time.sleep(0.05)
            out, _ = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        assert process.returncode == 0, out
        assert len(seen) == 2
        assert main(["report", "--store", str(place), "-o", str(report)]) == 0
        wrong = server.dsn.replace(secret, "wr0ng-" + secret[:4])
        failed = subprocess.run(
            [*command[:7], "--to", wrong, "--store", str(place)], capture_output=True, text=True, check=False
        )
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1
    assert "password" in failed.stderr
    assert secret[:4] not in failed.stderr
    assert secret not in out
    for file in [*tmp_path.rglob("*")]:
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def relay(server: Server, certificate: Path) -> tuple[socket.socket, int]:
    """TLS as a server with it speaks it (by OpenSSL), before one whose programs were built without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain = listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=_relayed, args=(plain, context, server), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listening, listening.getsockname()[1]


def _relayed(plain: socket.socket, context: ssl.SSLContext, server: Server) -> None:
    with suppress(OSError), plain:
        assert plain.recv(8) == b"\0\0\0\x08\x04\xd2\x16\x2f"  # SSLRequest of the protocol
        plain.sendall(b"S")
        with context.wrap_socket(plain, server_side=True) as outer, socket.socket(socket.AF_UNIX) as inner:
            inner.connect(f"{server.host}/.s.PGSQL.{server.port}")
            while True:
                ready = [outer] if outer.pending() else select.select([outer, inner], [], [])[0]
                for one, other in ((outer, inner), (inner, outer)):
                    if one in ready:
                        data = one.recv(65536)
                        if not data:
                            return
                        other.sendall(data)


def certificate(place: Path, name: str) -> Path:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE",
         "-keyout", str(place.with_suffix(".key")), "-out", str(place)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return place


def test_tls_encrypts_and_checks_whom_it_speaks_with(
    postgres: Server, shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = certificate(tmp_path / "own.pem", "localhost"), certificate(tmp_path / "other.pem", "localhost")
    log = tmp_path / "a.log"
    log.write_text(w3c(items(50, 0.5)))
    name = shop.partition("@/")[2].partition("?")[0]
    listening, port = relay(postgres, own)
    with listening:
        base = f"postgresql://{postgres.user}@localhost:{port}/{name}?hostaddr=127.0.0.1&"
        for mode in ("sslmode=require", f"sslmode=verify-full&sslrootcert={own}"):
            document, _ = replayed(
                capsys, log, "--map", mapping, "--to", base + mode, "--pace", "fire-hose", store=tmp_path / "s.db"
            )
            assert pages(document, "fire hose")["item"]["calls"] == 50
        arguments = ["replay", str(log), "--map", str(mapping), "--store", str(tmp_path / "s.db"), "--to"]
        elsewhere = base.replace("@localhost", "@elsewhere.example")
        for wrong in (
            f"{base}sslmode=verify-full&sslrootcert={other}",
            f"{elsewhere}sslmode=verify-full&sslrootcert={own}",
            f"{base}sslmode=verify-full&sslrootcert={tmp_path / 'none.pem'}",
        ):
            assert main([*arguments, wrong]) == 2
            err = capsys.readouterr().err.strip()
            assert "certificate" in err
            assert "\n" not in err


def test_no_part_of_a_password_with_an_at_is_shown() -> None:
    dsn = "postgresql://shop:Wrong@Pw99@127.0.0.1:5432/shop"
    for tried in (spoken, refuse_second_at):
        with pytest.raises(BadInputError, match="%40") as caught:
            tried(dsn)
        assert "Pw99" not in str(caught.value)
    assert spoken(dsn.replace("g@P", "g%40P")) == "postgresql://shop@127.0.0.1:5432/shop"
    refuse_second_at("postgresql://a@h/x?application_name=b@c@d")


def test_databases_are_told_apart_and_routes_agree_with_the_core() -> None:
    assert split_dsns("postgresql://a,b/x,postgresql://c/y", "host=h dbname=d") == [
        "postgresql://a,b/x",
        "postgresql://c/y",
        "host=h dbname=d",
    ]
    for wrong in ("", "postgresql://a/x,,postgresql://b/x", "postgresql://a/x,postgresql://a/x"):
        with pytest.raises(BadInputError):
            split_dsns(wrong)
    routes = MAPPING + '[[route]]\nbrick = 2\nwhere = { id = "7..9" }\n'
    assert _core.replay_route(routes, "item", {"id": "8"}, 3) == 2
    spread = {_core.replay_route(routes, "item", {"id": str(n)}, 3) for n in range(10, 40)}
    assert spread == {0, 1, 2}


def test_the_link_to_a_server_is_that_of_the_most_special_route(tmp_path: Path) -> None:
    route = tmp_path / "route"
    route.write_text(
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
        "eth1\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    )
    (tmp_path / "eth1").mkdir()
    (tmp_path / "eth1" / "speed").write_text("100\n")
    (tmp_path / "eth0").mkdir()
    (tmp_path / "eth0" / "speed").write_text("-1\n")
    assert link_to("10.0.2.9", str(tmp_path), str(route)) == LinkFacts(device="eth1", megabit_per_s=100)
    assert link_to("9.9.9.9", str(tmp_path), str(route)) == LinkFacts(device="eth0")
    assert link_to("127.0.0.1", str(tmp_path), str(route)) is None
