"""pgbench as a run: PostgreSQL's own program does the work, and its figures and ours agree."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from brickyard import cli, rulers
from brickyard.analysis.databases import pgbench
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.marks import marks_of
from brickyard.analysis.judging.steadiness import steadiness_warnings
from brickyard.analysis.judging.verdict import verdict as judged
from brickyard.analysis.judging.verdict_words import verdict_rows
from brickyard.analysis.studies import kirkwood
from brickyard.databases.ephemeral import Server, ephemeral_postgres
from brickyard.databases.pgbench_aborts import AbortReader
from brickyard.databases.pgbench_home import MARK, PREFIX
from brickyard.databases.pgbench_log import LogReader
from brickyard.databases.pgbench_plan import check_unseen_room, read_changes
from brickyard.errors import BadInputError
from brickyard.report import pgbench as report
from brickyard.report import theme
from brickyard.report.tables import failure_table
from brickyard.schema import PhaseEnd, ServerSample, plan_document
from brickyard.store import Record, Store
from brickyard.study.designs import texts
from support import MS, SECOND, add_run, cell, interval, phase_end


def run(place: Path, *arguments: str) -> int:
    return cli.main(["run", "pgbench", *arguments, "--store", str(place / "store.db")])


def latest(place: Path) -> Record:
    with Store(place / "store.db") as store:
        return store.record(max(run.id for run in store.runs()))


def databases(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {name for (name,) in connection.execute("select datname from pg_database").fetchall()}


@pytest.fixture
def own(postgres: Server, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A running server in which nothing of ours is left behind."""
    before = databases(postgres.dsn)
    yield postgres.dsn, tmp_path
    assert databases(postgres.dsn) == before


def test_figures_agree_with_pgbench_s_own_summary(own: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    dsn, place = own
    assert run(place, dsn, "--set", "scale=1", "--set", "clients=4", "--set", "duration=3s") == 0
    progress = capsys.readouterr().err
    assert "transactions/s" in progress
    assert "MiB/s" not in progress, "what a transaction moves is not known"
    record = latest(place)
    row, told = pgbench.call_totals(record), pgbench.own_summary(record)
    assert row is not None
    assert told is not None
    assert row.requests == told.transactions
    assert row.iops == pytest.approx(told.transactions_per_s, rel=0.01)
    # pgbench takes its mean from the time and the clients; its log has each transaction without what lies between.
    assert row.measures["response"].mean_ns == pytest.approx(told.latency_mean_ns, rel=0.05)
    assert row.measures["response"].percentiles["p99"]
    assert cli.main(["history", record.info.targets[0], "--store", str(place / "store.db")]) == 0
    said = capsys.readouterr().out
    assert "calls/s" in said
    assert "IOPS" not in said
    assert cli.main(["show", "--store", str(place / "store.db")]) == 0
    shown = capsys.readouterr().out
    assert shown.index("transactions/s, half of them") < shown.index("Before you rely on it: No transaction failed.")
    settings = pgbench.settings_of(record)
    assert {"autovacuum", "data_checksums", "shared_buffers", "wal_sync_method"} <= set(settings)
    assert settings["fsync"] == "off"
    assert {"fits_in_memory", "clients_contend"} <= {warning.id for warning in record.info.warnings}


def test_with_a_rate_response_counts_from_the_schedule(own: tuple[str, Path]) -> None:
    dsn, place = own
    assert run(place, dsn, "--set", "scale=1", "--set", "clients=1", "--set", "rate=400", "--set", "duration=2s") == 0
    record = latest(place)
    row, told = pgbench.call_totals(record), pgbench.own_summary(record)
    assert row is not None
    assert told is not None
    late, service = row.measures["lateness"], row.measures["service"]
    assert told.lateness_mean_ns is not None
    assert late.mean_ns == pytest.approx(told.lateness_mean_ns, rel=0.02, abs=2_000)
    assert row.measures["response"].mean_ns == pytest.approx(late.mean_ns + service.mean_ns, rel=0.02)
    assert row.measures["response"].mean_ns == pytest.approx(told.latency_mean_ns, rel=0.01)


def test_a_server_of_our_own_with_kirkwood_s_settings_and_its_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path("/var/tmp") / f"pgbench-test-{os.getpid()}"
    place.mkdir(mode=0o755)
    words = ("scale=1", "clients=2", "transactions=300", "preset=kirkwood-2003", "checksums=off", "pg.fsync=off")
    try:
        assert run(tmp_path, str(place), *(word for item in words for word in ("--set", item)), "--json") == 0
        assert list(place.iterdir()) == []
    finally:
        place.rmdir()
    told = json.loads(capsys.readouterr().out)
    record = latest(tmp_path)
    settings = pgbench.settings_of(record)
    assert (settings["shared_buffers"], settings["max_wal_size"]) == ("40000kB", "480MB")
    assert (settings["autovacuum"], settings["data_checksums"]) == ("off", "off")
    called = "scale=1, clients=2, transactions=300, preset=kirkwood-2003, checksums=off, pg.fsync=off"
    assert record.info.called == called
    assert marks_of(record.info) == ["not durable"]
    samples = record.of(ServerSample)
    assert samples[-1].wal_records > samples[0].wal_records
    assert [seen.at_ns for seen in samples] == sorted(seen.at_ns for seen in samples)
    assert told["totals"][0]["requests"] == 600
    assert told["pgbench"]["own_summary"]["transactions"] == 600
    assert told["pgbench"]["server"] == [], "a run of a second or two has no course of late counts"
    assert told["pgbench"]["server_total"]["wal_bytes_per_s"] > 0
    assert cli.main(["report", "latest", "--store", str(tmp_path / "store.db"), "-o", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert "transactions/s" in page
    assert "WAL flushes/s" in page
    assert "PostgreSQL reports its counters up to a second late" in page
    # Its disk was idle: locks and processors of the server are on the other side of the generator, too.
    assert "The storage, not the generator" not in " ".join(answer([record], {}).belief)


def sampled(place: Path, *counts: tuple[float, int], checkpoint_s: float = 1e9, took_ns: int = MS) -> Record:
    """A run whose server had told of so many flushes at each time, and of a checkpoint from one on."""
    last_s = max(at_s for at_s, _ in counts)

    def seen(at_s: float, flushes: int) -> ServerSample:
        known = {"target": 0, "at_ns": round(at_s * SECOND), "wal_flushes": flushes}
        known["checkpoints_timed"] = int(at_s >= checkpoint_s)
        rest = {f.name: 0 for f in msgspec.structs.fields(ServerSample) if f.required and f.name not in known}
        return ServerSample(**{**rest, **known})

    seconds = range(int(last_s) or 1)
    calls = [interval(n * SECOND, (n + 1) * SECOND, cell([took_ns] * 20, operation="call")) for n in seconds]
    told = [*calls, *(msgspec.to_builtins(seen(*count)) for count in counts)]
    plan = plan_document(read_changes("/data", ["clients=2", f"duration={len(seconds)}s"]).plan())
    with Store(place / "store.db") as store:
        return store.record(add_run(store, [*told, phase_end(end_ns=len(seconds) * SECOND)], plan_=plan))


def late_counts(last_s: int, rate: int) -> list[tuple[float, int]]:
    """What a server that makes so many flushes a second tells of them: nothing before the second second, then what it
    had done up to half a second or more before, and at the end of its processes the rest."""
    whole = [n * 1.02 for n in range(last_s) if n * 1.02 < last_s - 0.06]
    samples = [(at, 0 if at < 2 else round(rate * (at - (0.4 if n % 2 else 0.9)))) for n, at in enumerate(whole)]
    return [*samples, (last_s - 0.06, round(rate * (last_s - 0.9))), (float(last_s), rate * last_s)]


def test_rates_of_the_server_take_the_whole_time_whatever_order_its_counts_were_told_in(tmp_path: Path) -> None:
    total = pgbench.server_total(sampled(tmp_path, (1, 237), (0, 0), (5, 1185)))
    assert total is not None
    assert total.wal_flushes_per_s == 237


@pytest.mark.parametrize(("last_s", "spans"), [(30, 3), (60, 6), (63, 6)])
def test_the_course_of_the_server_has_no_rate_that_comes_of_late_counts(
    last_s: int, spans: int, tmp_path: Path
) -> None:
    record = sampled(tmp_path, *late_counts(last_s, 2000))
    course = pgbench.server_course(record)
    assert len(course) == spans
    assert (course[0].start_s, course[-1].end_s) == (0.0, last_s)
    assert [one.end_s for one in course[:-1]] == [other.start_s for other in course[1:]]
    assert [span.wal_flushes_per_s for span in course] == [pytest.approx(2000, rel=1 / 9)] * len(course)
    told = pgbench.document(record)
    assert told is not None
    assert told.server == course
    ((title, caption, *_),) = report.figures([record], 900, 400)
    assert "Over time" in title
    assert "Each step of the server's log is the mean of at least 9.2 s, since" in caption
    assert pgbench.no_course_words(record) == ""


def test_a_run_too_short_for_a_course_of_the_server_says_why_and_keeps_its_mean(tmp_path: Path) -> None:
    record = sampled(tmp_path, *late_counts(20, 2000), checkpoint_s=7)
    told = pgbench.document(record)
    assert told is not None
    assert told.server == []
    assert told.server_total is not None
    assert told.server_total.wal_flushes_per_s == 2000
    assert told.server_total.checkpoints == 1
    ((_, caption, wide, _),) = report.figures([record], 900, 400)
    said = "PostgreSQL reports its counters up to a second late, so a run under about 27 s has only their mean"
    assert caption == f"{said} over the run. Dashed lines are where a checkpoint had begun."
    assert "WAL" not in wide.svg
    assert theme.VERMILLION in wide.svg, "the checkpoint is marked on the transactions"


def test_transactions_of_seconds_need_longer_spans(tmp_path: Path) -> None:
    """What one does counts at its end."""
    record = sampled(tmp_path, *late_counts(60, 2000), took_ns=4 * SECOND)
    assert pgbench.server_course(record) == []
    said = "PostgreSQL reports its counters at the end of a transaction, so a run under about 1 min 48 s"
    assert pgbench.no_course_words(record).startswith(said)


def test_a_server_that_dies_leaves_what_was_measured(tmp_path: Path) -> None:
    with ephemeral_postgres(settings={"fsync": "off"}) as server:

        def die() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with psycopg.connect(server.dsn) as connection:
                    query = "select count(*) from pg_stat_activity where application_name = 'pgbench'"
                    row = connection.execute(query + " and query like 'END%'").fetchone()
                if row is not None and row[0]:
                    break
                time.sleep(0.02)
            time.sleep(1.5)
            server.kill()

        killer = threading.Thread(target=die)
        killer.start()
        code = run(tmp_path, server.dsn, "--set", "scale=1", "--set", "clients=2", "--set", "duration=30s")
        killer.join()
    assert code == 1
    record = latest(tmp_path)
    assert record.info.outcome == "failed"
    assert "pgbench" in record.info.message
    row = pgbench.call_totals(record)
    assert row is not None
    assert row.requests > 100
    assert sum(end.errors_by_kind.get("aborted", 0) for end in record.of(PhaseEnd)) == 2


@pytest.mark.parametrize(
    ("which", "said", "verdict"),
    [
        ("= 1", "1 of 3 clients aborted (at ", "not known"),
        (">= 0", "All 3 clients aborted (", "fail"),
    ],
)
def test_a_client_that_aborts_is_a_failed_transaction_and_the_figures_are_of_the_others(
    which: str, said: str, verdict: str, own: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, place = own
    script = place / "aborting.sql"
    script.write_text(f"SELECT 1/(CASE WHEN :client_id {which} THEN 0 ELSE 1 END);\n")
    words = ("scale=1", "clients=3", "duration=2s", f"script={script}")
    assert run(place, dsn, *(word for item in words for word in ("--set", item))) == 1
    capsys.readouterr()
    record = latest(place)
    row, count = pgbench.call_totals(record), 1 if which == "= 1" else 3
    assert row is not None
    assert row.errors == len(record.errors) == count
    if count == 1:
        assert record.errors[0].at_ns < record.of(PhaseEnd)[0].end_ns, "the others went on"
    assert cli.main(["show", "--check", "errors<=1%", "--json", "--store", str(place / "store.db")]) == 1
    told = json.loads(capsys.readouterr().out)
    (finding,) = told["verdicts"][0]["findings"]
    assert (finding["verdict"], finding["value"]) == (verdict, count / (row.requests + count))
    assert cli.main(["show", "--store", str(place / "store.db")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    assert ("from then on the figures are of 2 clients." in shown) == (count == 1)
    assert "cover only a part of it" not in shown
    assert f"{count} transaction{'s' if count > 1 else ''} failed (aborted {count}) beside" in shown
    assert "No request failed" not in shown
    made = failure_table([record])
    assert made is not None
    assert (made.title, made.columns) == ("Failed transactions", ["run", "operation", "what happened", "at"])
    assert len(made.rows) == count
    assert {len(cells) for cells in made.rows} == {4}
    assert "No transaction failed" not in shown
    assert "offsets" not in shown


def test_intervals_do_not_wait_for_a_thread_whose_clients_aborted() -> None:
    (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
    for handle in (read_a, read_b):
        os.set_blocking(handle, False)
    log = LogReader([read_a, read_b], has_rate=False, clients=2)
    os.write(write_a, b"0 0 1000 0 100 1000\n0 1 1000 0 102 0\n")
    log.look()
    log.abort(100_500_000, 0)
    assert list(log.whole()) == []
    os.close(write_b)
    log.look()
    first, _ = log.whole()
    assert [(cell.requests, cell.errors) for cell in first.cells] == [(1, 1)]
    log.close()
    os.close(write_a)


def test_rates_of_transactions_are_no_iops(tmp_path: Path) -> None:
    plan = plan_document(read_changes("/data", ["clients=4", "duration=5s"]).plan())
    rates = (1000, 1300, 700, 1000, 1300)
    calls = [cell([MS] * rate, operation="call") for rate in rates]
    told = [interval(n * SECOND, (n + 1) * SECOND, call) for n, call in enumerate(calls)]
    with Store(tmp_path / "store.db") as store:
        record = store.record(add_run(store, [*told, phase_end(end_ns=5 * SECOND)], plan_=plan))
    (warning,) = steadiness_warnings(record)
    assert "is noisy: transactions/s vary by 2" in warning.text
    ((_, required, measured, *_),) = verdict_rows(judged(record, rulers.read("iops>=2000")))
    assert (required, measured) == ("≥ 2,000 transactions/s", "1,060 transactions/s")


def test_a_run_whose_aborted_clients_are_known_at_its_end_alone_names_no_time(tmp_path: Path) -> None:
    """As older versions stored it."""
    plan = read_changes("/data", ["clients=4", "transactions=10"]).plan()
    error = {"event": "error", "at_ns": SECOND, "phase": 0, "stream": 0, "operation": "call", "offset_bytes": 0}
    end = phase_end(end_ns=SECOND, errors_by_kind={"aborted": 1})
    told = [
        interval(0, SECOND, cell([MS] * 10, operation="call")),
        error | {"request_bytes": 0, "kind": "aborted", "text": "x"},
        end,
    ]
    with Store(tmp_path / "store.db") as store:
        record = store.record(add_run(store, told, plan_=plan_document(plan), outcome="failed"))
    said = answer([record], {}).belief
    assert "1 of 4 clients aborted: from then on the figures are of 3 clients. 1 transaction failed;" in said


def test_clients_are_given_up_once_and_when_their_line_is_whole() -> None:
    reader = AbortReader()
    reader.take(b"pgbench: error: client 1 script 0 aborted in comm", 1)
    assert reader.new() == []
    reader.take(b"and 1 query 0: ERROR: x\npgbench: error: client 1 aborted in state 3\npgbench: client 12", 2)
    reader.take(
        b" aborted in command 4 (SQL) of script 0; perhaps the backend died\npgbench: error: Run was aborted\n", 3
    )
    assert [(one.client, one.at_us) for one in reader.new()] == [(1, 2), (12, 3)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scale=20000"], "are free; take a smaller scale"),
        (["clints=3"], "did you mean clients?"),
        (["pg.wal_sync_method=fsync"], "belongs to the whole server"),
        (["pg.no_such=1"], "has no such setting"),
        (["threads=3"], "at most one a client"),
        (["pg.external_pid_file=/etc/passwd"], "leads outside the folder of the server"),
        (["pg.data_directory=/var/lib/postgresql"], "leads outside the folder of the server"),
        (["pg.log_directory=/tmp"], "leads outside the folder of the server"),
        (["pg.archive_command=rm x"], "leads outside the folder of the server"),
        (["pg.include=/etc/x.conf"], "leads outside the folder of the server"),
    ],
)
def test_what_cannot_be_is_one_line(
    own: tuple[str, Path], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, place = own
    assert run(place, dsn, *(part for word in words for part in ("--set", word))) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_an_account_without_rights_is_told_which_and_nothing_is_made(
    own: tuple[str, Path], postgres: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    _, place = own
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create role guest login password 'secret word'")
        try:
            dsn = postgres.dsn.replace("postgresql://brickyard@", "postgresql://guest:secret%20word@")
            assert run(place, dsn) == 2
        finally:
            connection.execute("drop role guest")
    err = capsys.readouterr().err
    assert "alter role guest createdb; grant pg_checkpoint to guest" in err
    assert "secret" not in err


@pytest.mark.parametrize(
    "dsn", ["host=/tmp user=bob password=SEKRIT", "password=SEKRIT host=/tmp", "service=none password = 'SEKRIT'"]
)
@pytest.mark.parametrize(
    "verb", [["run", "pgbench"], ["study", "kirkwood-pgbench", "--only", "layout=here", "--target"]]
)
def test_no_password_is_shown_or_stored_whatever_form_a_dsn_has(
    dsn: str, verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*verb, dsn, "--store", str(tmp_path / "store.db")]) != 0
    shown = capsys.readouterr()
    assert "SEKRIT" not in shown.out + shown.err
    for place in tmp_path.iterdir():
        assert b"SEKRIT" not in place.read_bytes(), place


def small_study(place: Path) -> str:
    """Kirkwood's study with a scale that is loaded in no time."""
    shipped = texts.read(kirkwood.STUDY).text
    assert '["10", "100"]' in shipped
    path = place / f"{kirkwood.STUDY}.toml"
    path.write_text(shipped.replace('["10", "100"]', '["1", "10"]'))
    return str(path)


def test_a_study_keeps_no_password(own: tuple[str, Path], postgres: Server) -> None:
    _, place = own
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create role guest login createdb password 'SEKRIT'")
        connection.execute("grant pg_checkpoint to guest")
        try:
            dsn = postgres.dsn.replace("postgresql://brickyard@", "postgresql://guest:SEKRIT@")
            words = ["--only", "layout=here", "--only", "scale=1", "--only", "clients=1", "--only", "settings=default"]
            only = [
                "--only",
                "write_cache=as_it_is",
                "--set",
                "transactions=10",
                "--repetitions",
                "1",
            ]
            told = cli.main(
                ["study", small_study(place), "--target", dsn, *words, *only, "--store", str(place / "s.db")]
            )
            assert told == 0
        finally:
            connection.execute("drop owned by guest")
            connection.execute("drop role guest")
    for file in place.glob("s.db*"):
        assert b"SEKRIT" not in file.read_bytes()


def test_one_client_has_one_commit_a_flush_or_no_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of some milliseconds: the server's counts are of a longer time."""
    place = Path("/var/tmp") / f"pgbench-short-{os.getpid()}"
    place.mkdir(mode=0o755)
    try:
        assert run(tmp_path, str(place), "--set", "scale=1", "--set", "transactions=20", "--json") == 0
    finally:
        place.rmdir()
    record = latest(tmp_path)
    row, server = pgbench.call_totals(record), pgbench.server_total(record)
    assert row is not None
    assert server is not None
    carried = pgbench.commits_a_flush(row, server)
    assert carried is None or carried <= 1.05


def test_commits_a_flush_are_of_one_time_or_no_figure(own: tuple[str, Path]) -> None:
    """A server that dies in mid-run leaves transactions behind its last sample."""
    dsn, place = own
    assert run(place, dsn, "--set", "scale=1", "--set", "duration=2s") == 0
    row = pgbench.call_totals(latest(place))
    assert row is not None
    span_s = row.rated_ns / 1e9

    def carried(share: float) -> float | None:
        flushes_per_s = row.requests / span_s / 2
        server = pgbench.ServerSpan(0.0, span_s * share, flushes_per_s, None, 0.0, None, None, 0, 0)
        return pgbench.commits_a_flush(row, server)

    assert carried(1.0) == pytest.approx(2)
    assert carried(0.87) is None
    assert carried(1.15) is None


def test_settings_that_give_up_durability_are_warned_of(own: tuple[str, Path]) -> None:
    dsn, place = own
    words = ["--set", "scale=1", "--set", "transactions=10", "--set", "pg.synchronous_commit=off"]
    assert run(place, dsn, *words) == 0
    info = latest(place).info
    assert "not_durable" in [warning.id for warning in info.warnings]
    assert marks_of(info) == ["not durable"]
    assert info.called == "scale=1, transactions=10, pg.synchronous_commit=off"


def test_pgbench_has_the_settings_of_pgoptions_as_our_own_session_has(
    own: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, place = own
    script = place / "own.sql"
    asked = "(current_setting('synchronous_commit') = 'off' and current_setting('work_mem') = '3MB')"
    script.write_text(f"SELECT 1 / {asked}::int;\n")
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off -c work_mem=3MB")
    assert run(place, dsn, "--set", "scale=1", "--set", "transactions=10", "--set", f"script={script}") == 0
    settings = pgbench.settings_of(latest(place))
    assert (settings["synchronous_commit"], settings["work_mem"]) == ("off", "3MB")
    assert "application_name" not in settings


def test_a_setting_that_pgoptions_would_overrule_is_refused(
    own: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, place = own
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off")
    assert run(place, dsn, "--set", "pg.synchronous_commit=on") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "pg.synchronous_commit: PGOPTIONS, or `options` of the DSN, sets it as well" in said


def test_a_database_whose_encoding_is_sql_ascii_is_no_worse(
    own: tuple[str, Path], postgres: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its texts come as bytes unless the client says otherwise."""
    _, place = own
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create database ascii encoding 'SQL_ASCII' template template0")
        connection.execute("create role guest login password 'x'")
        try:
            dsn = psycopg.conninfo.make_conninfo(postgres.dsn, dbname="ascii")
            words = ["--set", "scale=1", "--set", "transactions=10", "--set", "pg.synchronous_commit=off"]
            assert run(place, dsn, *words) == 0
            assert "and stays" not in capsys.readouterr().err
            weak = psycopg.conninfo.make_conninfo(postgres.dsn, dbname="ascii", user="guest", password="x")
            assert run(place, weak) == 2
            assert "alter role guest createdb; grant pg_checkpoint to guest" in capsys.readouterr().err
        finally:
            connection.execute("drop database ascii")
            connection.execute("drop role guest")
    assert "not_durable" in [warning.id for warning in latest(place).info.warnings]
    assert pgbench.settings_of(latest(place))["fsync"] in ("on", "off")


def test_a_scale_that_no_volume_holds_is_refused_behind_a_dsn_too(
    own: tuple[str, Path], postgres: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """With no more rights than the manual asks for: the server does not tell such an account where its data lie."""
    _, place = own
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("create role guest login createdb password 'x'")
        connection.execute("grant pg_checkpoint to guest")
        try:
            dsn = psycopg.conninfo.make_conninfo(postgres.dsn, user="guest", password="x")
            assert run(place, dsn, "--set", "scale=20000") == 2
        finally:
            connection.execute("drop role guest")
    assert "scale 20000 takes about 279.4 GiB" in capsys.readouterr().err


def test_transactions_and_a_duration_are_refused_together() -> None:
    with pytest.raises(BadInputError, match="pgbench ends at one of them; leave the other out"):
        read_changes("/tmp", ["transactions=5", "duration=5s"])
    assert read_changes("/tmp", ["duration=5s"]).duration_ns == 5 * 10**9


def test_behind_a_volume_that_cannot_be_seen_a_large_scale_needs_the_user_s_word() -> None:
    def checked(*words: str) -> str:
        try:
            check_unseen_room(read_changes("postgresql://far/shop", words), "postgresql://far/shop")
        except BadInputError as error:
            return str(error)
        return ""

    assert checked("scale=10") == ""
    assert "cannot be seen" in checked("scale=100")
    assert checked("scale=100", "room=10GiB") == ""
    assert "but 1 GiB are free" in checked("scale=100", "room=1GiB")


def test_a_passphrase_that_would_stand_in_the_list_of_processes_is_refused(
    own: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, place = own
    assert run(place, f"{dsn}&sslpassword=KeyPhrase" if "?" in dsn else f"{dsn}?sslpassword=KeyPhrase") == 2
    err = capsys.readouterr().err
    assert "list of processes" in err
    assert "KeyPhrase" not in err


def test_databases_of_killed_runs_are_named(
    own: tuple[str, Path], postgres: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, place = own
    name = PREFIX + "killed"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        connection.execute(f"comment on database {name} is '{MARK}'")
        try:
            assert run(place, dsn, "--set", "scale=1", "--set", "transactions=10") == 0
        finally:
            connection.execute(f"drop database {name}")
    assert f"drop database {name}" in " ".join(capsys.readouterr().err.split())


def test_a_database_that_bears_no_mark_of_ours_is_not_dropped(own: tuple[str, Path], postgres: Server) -> None:
    """A database with a name like ours stands beside the run, and stays."""
    dsn, place = own
    name = PREFIX + "of_somebody"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        try:
            assert run(place, dsn, "--set", "scale=1", "--set", "transactions=10") == 0
            assert name in databases(postgres.dsn)
        finally:
            connection.execute(f"drop database {name}")
    assert MARK


def test_intervals_wait_for_the_slowest_thread_and_lose_no_line() -> None:
    """Threads write when their buffers are full, so that one is far ahead of another."""
    (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
    for handle in (read_a, read_b):
        os.set_blocking(handle, False)
    log = LogReader([read_a, read_b], has_rate=False, clients=2)
    os.write(write_a, b"".join(b"0 %d 1000 0 100 %d\n" % (n, n * 1000 + 1000) for n in range(900)))
    os.write(write_a, b"0 900 500 0 102 0\n")
    log.look()
    assert list(log.whole()) == []
    os.write(write_b, b"1 0 2000 0 101 500000\n1 1 fai")
    log.look()
    first = list(log.whole())
    assert [cell.requests for item in first for cell in item.cells] == [900]
    os.write(write_b, b"led 0 101 600000\n")
    log.look()
    rest = list(log.whole(is_over=True))
    assert [(cell.requests, cell.errors) for item in rest for cell in item.cells] == [(2, 1)]
    assert rest[-1].end_ns == 2_000_000_000
    log.close()
    os.close(write_a)
    os.close(write_b)


def test_the_study_shares_a_database_and_stands_beside_the_published_tables(
    own: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, place = own
    small = small_study(place)
    words = ["--only", "scale=1", "--only", "settings=default", "--only", "layout=here", "--repetitions", "1"]
    words += ["--only", "clients=1", "--only", "clients=2", "--set", "transactions=30"]
    store = ["--store", str(place / "store.db"), "--json"]
    assert cli.main(["study", small, *words, "--target", dsn, *store]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["made"]) == 2
    shapes, ratios, _ = told["published"]
    published = {row[0]: row[1:] for row in shapes["rows"]}
    assert published["published: one disk, write cache on"][:5] == ["1.00", "1.67", "2.02", "1.56", "1.43"]
    measured = next(row for name, row in published.items() if name.startswith("measured"))
    assert measured[0] == "1.00"
    assert ratios["rows"][0] == ["published: cache on ÷ off, one disk", "3.04", "3.61", "3.02", "2.21", "1.77"]
    # What is finished is not measured again.
    assert cli.main(["study", small, *words, "--target", dsn, *store]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] == 2


def test_a_dry_run_of_the_study_speaks_of_databases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--target", str(tmp_path), "--only", "layout=here", "--dry-run", "--store", str(tmp_path / "store.db")]
    words += ["--set", "duration=10s", "--repetitions", "1", "--only", "settings=default", "--only", "scale=10"]
    assert cli.main(["study", kirkwood.STUDY, *words, "--only", "clients=1", "--only", "clients=2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "missing runs: about 21 s, without the time for making servers and loading databases" in said
    assert "never written" not in said
    words = [word if word != "duration=10s" else "transactions=10" for word in words]
    assert cli.main(["study", kirkwood.STUDY, *words, "--only", "clients=1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "missing runs: 1 run that ends at its limit, without the time for making servers" in said


def test_the_published_tables_are_those_of_the_reference() -> None:
    root = Path(__file__).parents[2]
    for name in ("pgbench", "iowork"):
        file = f"kirkwood_2003_{name}.csv"
        assert (root / "python/brickyard/studies" / file).read_bytes() == (root / "reference" / file).read_bytes()


def test_rates_beside_the_published_ones_are_the_study_s_own_means(tmp_path: Path) -> None:
    """Of 100 and 400 the study's figure is 200, as its noise is a share of the rate."""
    with Store(tmp_path / "store.db") as store:
        study = store.add_study(kirkwood.STUDY, {})
        for clients, rates in (("1", (100, 400)), ("2", (600, 600))):
            for rate in rates:
                call = cell([MS] * rate, operation="call")
                labels = {"levels": {"clients": clients, "scale": "10"}, "repetition": 1}
                add_run(store, [interval(0, SECOND, call), phase_end(end_ns=SECOND)], study=study, labels=labels)
        records = [store.record(run.id) for run in store.runs()]
    (_, _, rows), *_ = kirkwood.tables(kirkwood.STUDY, records)
    measured = next(row for row in rows if row[0].startswith("measured"))
    assert measured[1:3] == ["1.00", "3.00"]


def test_a_row_that_is_as_near_to_several_is_said_to_be() -> None:
    rising, falling = {"1": 1.0, "2": 2.0, "4": 3.0}, {"1": 3.0, "2": 2.0, "4": 1.0}
    his = {"one disk": rising, "RAID-0": {clients: 7 * rate for clients, rate in rising.items()}, "Sun": falling}
    assert kirkwood.nearest(rising, his) == "+1.00 with one disk and with RAID-0"
    assert kirkwood.nearest(falling, his) == "+1.00 with Sun"
    assert (
        kirkwood.nearest(rising, {"one disk": rising, "RAID-0": rising})
        == "+1.00 with every row, so the rows cannot be distinguished"
    )
    assert kirkwood.nearest({"1": 1.0}, his) == "–"


def test_ranks_of_equal_values_are_shared() -> None:
    assert kirkwood.rank_agreement({"1": 1, "2": 2, "4": 3}, {"1": 10, "2": 20, "4": 30}) == pytest.approx(1.0)
    assert kirkwood.rank_agreement({"1": 3, "2": 2, "4": 1}, {"1": 10, "2": 20, "4": 30}) == pytest.approx(-1.0)
    assert kirkwood.rank_agreement({"1": 1, "2": 1, "4": 1}, {"1": 10, "2": 20, "4": 30}) is None
    assert kirkwood.rank_agreement({"1": 1, "2": 2}, {"1": 10, "2": 20}) is None
