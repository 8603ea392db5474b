"""Results as the page has them, thresholds and baselines beside a run, replays, and what becomes of it all on a full
disk, by TLS and with many browsers."""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import brickyard
from brickyard import browsing
from brickyard.analysis.figures.latency import FEW_EVENTS_WORDS
from brickyard.analysis.judging.run_figures import PartFigures
from brickyard.cli import main
from brickyard.report.matrix_tables import NOISE_UNKNOWN
from brickyard.web import tokens
from brickyard.web.sessions import Sessions
from support import SECOND, add_run, cell, interval, phase_end
from web_support import OPERATOR, READER, TOKENS, Client, Served, serving

FILETIME = 128166372003061629
MANY = 100


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """200 reads within 2 MiB and 0.2 s, in the form of the MSR Cambridge traces."""
    home = tmp_path_factory.mktemp("trace")
    lines = [f"{FILETIME + 10_000 * n},hm,0,Read,{(n * 7 % 500) * 4096},4096,80000" for n in range(200)]
    (home / "load.csv").write_text("\n".join(lines) + "\n")
    assert main(["trace", "import", str(home / "load.csv"), "-o", str(home / "load.byt")]) == 0
    return str(home / "load.byt")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, trace: str) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("web"), traces=(trace,)) as found:
        with brickyard.Store(found.web.store) as store:
            load = brickyard.profile("sqlio-random-read-4", "duration=5s")
            brickyard.run(store, load, ["sim:terraserver-2003"], repetitions=3)
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Client:
    return served.login()


def test_the_list_has_the_figures_of_each_run(client: Client) -> None:
    rows = client.get("/api/runs").json["rows"]
    assert [row["run"] for row in rows][-3:] == [3, 2, 1]
    for row in rows[-3:]:
        (part,) = row["parts"]
        shown = client.get(f"/api/runs/{row['run']}").json
        assert part["operation"] == "read"
        assert f"{part['iops']:,.0f}" in shown["answer"]["answer"][0]
        assert part["response_p50_ns"] < part["response_p99_ns"]
    page = client.get("/results").text
    assert f"{rows[-1]['parts'][0]['iops']:,.0f}" in page


def test_a_flush_has_no_bytes_in_the_list() -> None:
    def shown(operation: str, **values: float) -> float | None:
        return browsing._row_figures(PartFigures("measure", "log", operation, values)).mib_per_s

    assert shown("flush", iops=300.0, mib_per_s=0.0) is None
    assert shown("write", iops=300.0, mib_per_s=0.0) == 0.0


def test_a_key_that_an_address_does_not_know_is_refused(client: Client) -> None:
    """A misspelt filter gave all runs, with status 200."""
    for place, said in (
        ("/api/runs?outcom=failed", "outcom: no such key; did you mean outcome?"),
        ("/api/runs?lable=x&count=1", "lable: no such key; did you mean label?"),
        ("/results?profle=x", "profle: no such key; did you mean profile?"),
        ("/download/csv?runs=1&row=totals", "row: no such key; there are runs"),
        ("/api/compare?before=1&after=2&tolerance=1", "tolerance: no such key; there are before, after"),
        ("/api/runs/3?outcome=failed", "outcome: no such key; there are none here"),
        ("/api/audit?arry=x", "arry: no such key; did you mean array?"),
    ):
        refused = client.get(place)
        assert (refused.status, said in html.unescape(refused.text)) == (400, True), (place, refused.text[:300])


def test_a_run_stands_beside_its_thresholds_the_baseline_and_the_run_before(client: Client) -> None:
    page = client.get("/results/3").text
    assert "Difference to the last run of this load" in page
    assert "None are set for the profile" in page
    assert "Repetitions together" in page
    require = ["p99<=1ms", "iops>=1", "errors<=1%"]
    kept = client.post("/api/thresholds", {"profile": "sqlio-random-read-4", "require": require})
    assert kept.json["require"] == require
    verdicts = client.get("/api/runs/3").json["thresholds"]
    assert [one["verdict"] for one in verdicts] == ["fail", "pass", "pass"]
    page = client.get("/results/3").text
    assert page.index("Thresholds") < page.index("Difference to the last run") < page.index("Circumstances")
    assert client.post("/api/baselines", {"name": "old", "runs": [1, 2]}).status == 200
    again = client.post("/api/baselines", {"name": "old", "runs": [3]})
    assert again.status == 400
    assert "old: is a baseline already, of runs 1-2" in again.text
    page = client.get("/results/3").text
    assert "Difference to the baseline old" in page
    assert "/compare?before=1,2&amp;after=3" in page
    assert "Difference to the baseline old" not in client.get("/results/1").text
    assert client.post("/api/thresholds", {"profile": "sqlio-random-read-4", "require": []}).status == 200
    assert client.get("/api/thresholds").json["thresholds"] == {}


def test_a_comparison_names_the_condition_that_differs(client: Client, served: Served) -> None:
    with brickyard.Store(served.web.store) as store:
        load = brickyard.profile("sqlio-random-read-4", "duration=5s")
        (found,) = brickyard.run(store, load, ["sim:terraserver-2003"], condition="degraded")
        cut = add_run(store, [], outcome="interrupted")
    side = client.get(f"/api/compare?before=1&after={found.run},{cut}").json
    assert (side["after"], side["left_out"]) == ([found.run], {"BEFORE": [], "AFTER": [cut]})
    assert f"run {cut}" in client.get(f"/compare?before=1&after={found.run},{cut}").text
    (told,) = [one["words"] for one in side["differing"] if one["label"] == "Condition"]
    assert "normal" in told
    assert "degraded" in told
    page = client.get(f"/compare?before=1&after={found.run}").text
    assert ("SQLIO: random reads, 8 KiB, 4 deep" in page, re.search("load [0-9a-f]{8}", page)) == (True, None)
    # The page of the run itself compares it with no run in another condition, and says so.
    own = client.get(f"/results/{found.run}").text
    assert "condition degraded. There is no run to compare with: the last 3 valid runs" in own
    assert "this run</th>" not in own
    assert "Both runs: condition normal." in client.get("/results/3").text
    same = client.get("/api/compare?before=1&after=2").json["differing"]
    assert "Condition" not in {one["label"] for one in same}


def test_a_comparison_says_all_that_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One part is not measured any more, a percentile is lost, and a run came to no valid end."""
    with serving(tmp_path) as served:
        place = str(served.web.store)
        with brickyard.Store(served.web.store) as store:
            for requests in (2000, 2001, 2002, 200, 201, 202):
                parts = [cell([10**6] * requests, operation=name) for name in ("read", "write")]
                add_run(store, [interval(0, SECOND, *parts[: 2 if requests >= 2000 else 1]), phase_end()])
            cut = add_run(store, [], outcome="interrupted")
        client = served.login()
        asked = f"before=1-3&after=4-6,{cut}"
        side = client.get(f"/api/compare?{asked}").json
        page = html.unescape(client.get(f"/compare?{asked}").text)
    capsys.readouterr()
    assert main(["compare", "1-3", f"4-{cut}", "--store", place, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    for key in ("lacking", "only_before", "only_after", "power", "notes", "worse", "passed", "left_out", "repeats"):
        assert side[key] == said[key], key
    assert side.keys() - said.keys() == {"lines"}
    assert side["only_before"]
    assert [lack["lost"] for lack in side["lacking"]]
    assert main(["compare", "1-3", f"4-{cut}", "--store", place]) == 0
    told = capsys.readouterr().out
    for line in (*side["lines"], *side["notes"]):
        assert line in told
        assert re.sub("load [0-9a-f]{8}", "", line) in re.sub("load [0-9a-f]{8}", "", page)
    assert any(line.startswith("not measured: ") for line in side["lines"])
    assert any(line.startswith("power against ") for line in side["lines"])
    assert "of 3 and 3 runs" in page


def test_marks_in_tables_are_explained(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        with brickyard.Store(served.web.store) as store:
            for _ in range(2):
                cells = [cell([10**6] * 500 + ([10**8] * 150 if second == 4 else [])) for second in range(20)]
                course = [interval(second * SECOND, (second + 1) * SECOND, one) for second, one in enumerate(cells)]
                add_run(store, [*course, phase_end()])
        client = served.login()
        page = client.get("/results/1").text
        assert "*</td>" in page
        assert FEW_EVENTS_WORDS in html.unescape(page)
        compared = client.get("/compare?before=1&after=2").text
        assert NOISE_UNKNOWN in html.unescape(compared)


def test_no_threshold_opens_a_file_and_a_reader_sets_none(client: Client, served: Served, tmp_path: Path) -> None:
    place = tmp_path / "mine.toml"
    place.write_text("x")
    for word in (str(place), "../mine.toml", "mine.toml", "p99<=soon", "<", "nothing>=1", "x" * 200):
        found = client.post("/api/thresholds", {"profile": "x", "require": [word]})
        assert found.status == 400, word
    assert client.post("/api/thresholds", {"profile": "x", "require": ["iops>=1"] * 11}).status == 400
    reader = served.login(READER)
    assert reader.post("/api/thresholds", {"profile": "x", "require": ["iops>=1"]}).status == 403
    assert client.get("/api/thresholds").json["thresholds"] == {}


def test_a_trace_is_replayed_from_the_form_and_no_other_file(client: Client, trace: str) -> None:
    assert client.get("/api/profiles").json["traces"] == [trace]
    order = {"kind": "replay", "name": trace, "target": "sim:terraserver-2003"}
    for wrong, status in (
        ({"name": "/etc/passwd"}, 404),
        ({"name": trace + "/../load.csv"}, 404),
        ({"speed": 0}, 400),
        ({"timing": "now"}, 400),
        ({"changes": ["depth=0"]}, 400),
    ):
        assert client.post("/api/jobs", {**order, **wrong}).status == status, wrong
    assert client.post("/api/check", order).json == {"ok": True, "error": ""}
    name = client.post("/api/jobs", {**order, "timing": "fire_hose"}).json["name"]
    job = client.job_of(name, ("done", "failed", "refused"))
    assert job["outcome"] == "done", job
    (run,) = job["runs"]
    course = client.get(f"/api/runs/{run}/course").json["moments"]
    assert sum(one["requests"] for one in course) == 200


def test_no_kind_of_job_reads_a_file_that_changes_name(client: Client, trace: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.byt"
    shutil.copy(trace, secret)
    for kind, name in (("replay", trace), ("run", "sqlio-random-read-4"), ("characterize", "")):
        for change in (f'file="{secret}"', f'trace.file="{secret}"'):
            order = {"kind": kind, "name": name, "target": "sim:terraserver-2003", "changes": [change]}
            told = client.post("/api/check", order)
            assert not told.json["ok"], (kind, change)
            assert client.post("/api/jobs", order).status in (400, 404), (kind, change)
    for change in ("script=/etc/passwd", f"server={tmp_path}"):
        order = {"kind": "study", "name": "kirkwood-pgbench", "changes": [change]}
        assert not client.post("/api/check", order).json["ok"], change
        assert client.post("/api/jobs", order).status in (400, 404), change


def test_a_check_looks_at_all_that_it_says_ok_for(client: Client) -> None:
    bad = ["nonsense=1"]
    for order in (
        {"kind": "study", "name": "sata-2003", "changes": bad},
        {"kind": "study", "name": "sata-2003", "only": ["nonsense=1"]},
        {"kind": "characterize", "target": "sim:terraserver-2003", "changes": bad},
        {"kind": "run", "name": "sqlio-random-read-4", "condition": "degraded"},
        {"kind": "characterize", "target": "sim:terraserver-2003", "condition": "degraded"},
        {"kind": "run", "name": "sqlio-random-read-4", "target": "sim:terraserver-2003", "condition": "broken"},
    ):
        told = client.post("/api/check", order).json
        assert (told["ok"], bool(told["error"])) == (False, True), order
        assert client.post("/api/jobs", order).status == 400, order
    for order in (
        {"kind": "study", "name": "sata-2003"},
        {"kind": "characterize", "target": "sim:terraserver-2003", "changes": ["depth=2"]},
        {"kind": "run", "name": "sqlio-random-read-4", "target": "sim:terraserver-2003", "condition": "degraded"},
    ):
        assert client.post("/api/check", order).json == {"ok": True, "error": ""}, order


def test_a_full_disk_is_said_and_people_can_still_look(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(room)], check=True)
    try:
        with serving(room) as served:
            with brickyard.Store(served.web.store) as store:
                load = brickyard.profile("sqlio-random-read-4", "duration=1s")
                brickyard.run(store, load, ["sim:terraserver-2003"])
            client = served.login()
            served.web.sessions = Sessions(TOKENS, served.web.state / "sessions.json")
            with (room / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 4096):
                    pass
            client = served.login()  # no session can be kept on disk, and people log in all the same
            for path in ("/api/runs", "/results/1", "/arrays", "/alarms", "/"):
                assert client.get(path).status == 200, path
            words = "x" * 9000
            kept = [
                client.post("/api/runs/1/annotation", {"note": words, "labels": [], "seen": 0}),
                client.post("/api/thresholds", {"profile": "p", "require": ["iops>=1"]}),
                client.post("/api/jobs", {"kind": "run", "name": "sqlio-random-read-4", "size": "32MiB"}),
            ]
            for one in kept:
                assert one.status in (400, 409, 500, 503), one.text
                assert len(one.json["error"]) < 300
            (room / "filler").unlink()
            assert client.post("/api/runs/1/annotation", {"note": "room", "labels": [], "seen": 0}).status == 200
            assert client.get("/api/thresholds").json["thresholds"] == {}
    finally:
        subprocess.run(["umount", str(room)], check=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    home = tmp_path_factory.mktemp("tls")
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*words.split(), *names], cwd=home, check=True, capture_output=True)
    return home / "cert.pem", home / "key.pem"


def test_by_tls_from_the_login_to_the_events(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    with serving(tmp_path, certificate=certificate) as served:
        context = ssl.create_default_context(cafile=str(certificate[0]))

        def asked(method: str, path: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
            connection = http.client.HTTPSConnection("localhost", served.port, timeout=30, context=context)
            raw = None if body is None else json.dumps(body)
            connection.request(method, path, raw, {"Content-Type": "application/json", **headers})
            return connection.getresponse()

        origin = f"https://localhost:{served.port}"
        found = asked("POST", "/api/login", {"token": OPERATOR}, Origin=origin)
        assert found.status == 200
        cookie = found.headers["set-cookie"]
        assert "secure" in cookie.lower()
        assert "max-age=" in found.headers["strict-transport-security"]
        session = {"Cookie": cookie.split(";")[0]}
        assert asked("GET", "/api/runs", **session).status == 200
        events = asked("GET", "/api/events", **session)
        assert events.headers["content-type"].startswith("text/event-stream")
        assert events.readline().startswith(b"retry: ")
        events.close()
        # The same page by the plain scheme is another origin, and plain requests are not answered.
        assert asked("POST", "/api/login", {"token": OPERATOR}, Origin=origin.replace("https", "http")).status == 403
        with pytest.raises((http.client.BadStatusLine, ConnectionError)):
            served.ask("GET", "/api/runs")
        stranger = http.client.HTTPSConnection("localhost", served.port, timeout=30)
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.request("GET", "/")


def test_a_first_start_with_tokens_elsewhere_lets_people_log_in(tmp_path: Path) -> None:
    """The folder of the state is not there yet."""
    sessions = Sessions(TOKENS, tmp_path / "not" / "there" / "sessions.json")
    made = sessions.login(OPERATOR, "a")
    assert made is not None
    again = Sessions(tokens.Tokens(TOKENS.of), tmp_path / "not" / "there" / "sessions.json")
    assert again.find(made[0]) is not None


def test_what_is_not_there_and_what_somebody_else_changed_have_codes_of_their_own(client: Client) -> None:
    """By the kind of the error; its words may change."""

    def note(run: int, seen: int, text: str = "slow today") -> int:
        return client.post(f"/api/runs/{run}/annotation", {"note": text, "labels": [], "seen": seen}).status

    assert note(1_000_000, 0) == 404
    assert note(2, 0) == 200
    assert note(2, 0) == 409, "somebody has changed it since"
    assert client.get("/api/runs/1000000").status == 404
    assert client.get("/api/compare?before=1&after=1").status == 400
    assert client.get("/api/compare?before=1&after=1000000").status == 404


def test_what_draws_is_loaded_before_anybody_asks_for_a_picture() -> None:
    """The server does this beside its first requests."""
    script = (
        "import sys; from brickyard import browsing; browsing.load(); print('brickyard.report.page' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
