"""Duty: a run of PostgreSQL's own pgbench with the face of the core's runs: load, VACUUM, CHECKPOINT, transactions.

Its log comes through pipes while it works, the server's counts are sampled beside it, and every event goes the way of
all runs.

Refusal: pgbench does the work and takes the times; nothing is measured here.
"""

from __future__ import annotations

import os
import queue
import re
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from brickyard import outputs
from brickyard.analysis.databases.pgbench import SCALE_BYTES
from brickyard.databases.connect import connected
from brickyard.databases.measured import BOUND_SHARE, MOST_ERRORS
from brickyard.databases.pgbench_aborts import AbortReader
from brickyard.databases.pgbench_home import Home
from brickyard.databases.pgbench_log import LogReader
from brickyard.databases.pgbench_plan import BUILT_IN, PgbenchSpec
from brickyard.databases.pgbench_samples import SAMPLE_EVERY_S, sample, sample_query, settings, version_number
from brickyard.databases.pgbench_script import script_hash
from brickyard.errors import BrickyardError, one_line
from brickyard.ready import ready
from brickyard.schema import (
    SCHEMA,
    Bound,
    ClockFacts,
    Counted,
    Cpu,
    End,
    Engine,
    EngineOfPgbench,
    ErrorEvent,
    ErrorKind,
    Event,
    Fill,
    IoPath,
    PgbenchEnd,
    PhaseEnd,
    PhaseReason,
    PhaseStart,
    RunOutcome,
    ServerSample,
    Start,
    TargetFacts,
    TargetKind,
    encode,
    other_end,
)
from brickyard.study.replays.run import local_volume

LOOK_S = 0.05  # pipes of 1 MiB hold what comes meanwhile
STOP_S = 10.0
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# The shell waits until the pipes are there, which bear its process number; then it becomes pgbench.
WAITING = ("sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh", "setpriv", "--pdeathsig", "KILL")
LOADED = re.compile(r"(\d+) of (\d+) tuples")
FIGURES = {
    "transactions": re.compile(r"^number of transactions actually processed: (\d+)", re.M),
    "failed": re.compile(r"^number of failed transactions: (\d+)", re.M),
    "skipped": re.compile(r"^number of transactions skipped: (\d+)", re.M),
    "transactions_per_s": re.compile(r"^tps = ([\d.]+)", re.M),
    "latency_ms": re.compile(r"^latency average = ([\d.]+) ms", re.M),
    "connect_ms": re.compile(r"^initial connection time = ([\d.]+) ms", re.M),
    "lateness_ms": re.compile(r"^rate limit schedule lag: avg ([\d.]+)", re.M),
}


class _OwnFigures(msgspec.Struct, frozen=True):
    """What pgbench prints of it, as numbers."""

    transactions: int = 0
    failed: int = 0
    skipped: int = 0
    transactions_per_s: float | None = None
    latency_ms: float = 0.0
    connect_ms: float = 0.0
    lateness_ms: float | None = None


ready(_OwnFigures)


class PgbenchRun:
    """A run under way."""

    def __init__(self, spec: PgbenchSpec, home: Home) -> None:
        self._spec, self._home = spec, home
        self._told: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = self._ended = False
        self._begun_unix_ns = time.time_ns()
        self._origin_unix_ns: int | None = None
        self._told_cpu = self._last_cpu = (0, 0)
        self._query = ""
        self._end_ns = 0
        self._aborts_told = 0
        self._thread = threading.Thread(target=self._drive, name="pgbench", daemon=True)
        self._thread.start()

    def events(self, timeout_ms: int) -> list[str]:
        """What has happened; waits so long if nothing has."""
        taken: list[str] = []
        with suppress(queue.Empty):
            taken.append(encode(self._told.get(timeout=timeout_ms / 1000)))
            while True:
                taken.append(encode(self._told.get_nowait()))
        return taken

    def stop(self) -> None:
        """With a time to run pgbench ends in good order at its alarm; with a number of transactions it is ended."""
        self._stopped = True
        self._signal(signal.SIGALRM if self._spec.duration_ns else signal.SIGTERM)

    def abandon(self) -> None:
        self._stopped = True
        self._signal(signal.SIGKILL)
        self._thread.join(STOP_S)

    def finished(self) -> bool:
        return self._ended and self._told.empty()

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(number)

    def _drive(self) -> None:
        outcome, message = RunOutcome.FAILED, ""
        try:
            self._prepare()
            message = "" if self._stopped else self._measure()
            outcome = RunOutcome.INTERRUPTED if self._stopped else RunOutcome.FAILED if message else RunOutcome.DONE
        except (BrickyardError, OSError) as error:
            message = one_line(error)
            outcome = RunOutcome.INTERRUPTED if self._stopped else RunOutcome.FAILED
        except Exception as error:  # a thread's traceback would reach nobody, and the run would never end
            message = f"unexpected {type(error).__name__}: {one_line(error)}"
        self._told.put(End(end_ns=self._end_ns, outcome=outcome, message=other_end(message)))
        self._ended = True

    def _prepare(self) -> None:
        """The tables, where they are not there yet; then VACUUM and CHECKPOINT, in this order."""
        if not self._home.loaded:
            self._load()
        if self._stopped:
            return
        with connected(self._home.dsn) as connection:
            connection.execute("vacuum")
            connection.execute("checkpoint")
            self._told.put(self._start_event(connection))

    def _load(self) -> None:
        whole = self._spec.scale * SCALE_BYTES
        self._told.put(Fill(target=0, done_bytes=0, total_bytes=whole))
        said: list[str] = []
        self._process = self._spawn(["-i", "-q", "-s", str(self._spec.scale)])
        assert self._process.stderr is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.close()
        with self._process.stderr as lines:
            for line in lines:
                text = line.decode("utf-8", "replace")
                if "error" in text.lower():
                    said.append(text)
                if found := LOADED.search(text):
                    done = whole * int(found[1]) // max(int(found[2]), 1)
                    self._told.put(Fill(target=0, done_bytes=done, total_bytes=whole))
        code = self._reap()
        if code and not self._stopped:
            raise BrickyardError(f"pgbench could not load scale {self._spec.scale}: {one_line(''.join(said[:1]))}")
        self._home.loaded = not code

    def _spawn(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        target, environment = self._home.arguments()
        return subprocess.Popen(
            [*WAITING, str(self._home.pgbench), *arguments, target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if "-l" in arguments else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C at the terminal is ours to handle
        )

    def _reap(self) -> int:
        assert self._process is not None
        code = self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code

    def _start_event(self, connection: Any) -> Start:
        row = connection.execute(
            "select pg_database_size(current_database()), host(inet_server_addr()), current_setting('server_version'),"
            " (select setting from pg_settings where name = 'data_directory')"
        ).fetchone()
        size, address, version, directory = row
        self._query = sample_query(version_number(connection))
        is_local = local_volume(directory, address) is not None
        said = subprocess.run([self._home.pgbench, "--version"], capture_output=True, text=True, check=False).stdout
        target = TargetFacts(
            path=self._home.shown,
            kind=TargetKind.POSTGRESQL,
            size_bytes=size,
            version=version,
            server_address=address,
            data_directory=directory,
            is_local=is_local,
            settings=settings(connection),
        )
        whose = one_line(said).replace("pgbench (PostgreSQL)", "of PostgreSQL")
        return Start(
            schema=SCHEMA,
            start_unix_ns=time.time_ns(),
            engine=Engine.PGBENCH,
            engine_reason=EngineOfPgbench(version=whose, server=self._home.origin),
            io=IoPath.NO,
            clock=ClockFacts(source="pgbench's own, in microseconds", read_cost_ns=0.0),
            targets=[target],
        )

    def _arguments(self, log: Path) -> list[str]:
        spec = self._spec
        words = ["-n", "-M", spec.protocol, "-c", str(spec.clients), "-j", str(spec.threads_used)]
        words += ["-T", str(spec.duration_ns // 1_000_000_000)] if spec.duration_ns else ["-t", str(spec.transactions)]
        words += ["-R", f"{spec.rate_per_s:.12g}"] if spec.rate_per_s else []
        words += ["-b", spec.script] if spec.script in BUILT_IN else ["-f", spec.script]
        # A script of one's own may use the scale, which pgbench does not look up for it.
        words += ["-s", str(spec.scale)] if spec.script not in BUILT_IN else []
        return [*words, f"--random-seed={spec.seed}", "-l", f"--log-prefix={log}"]

    def _measure(self) -> str:
        """Runs pgbench to its end, and gives back why it failed."""
        known = self._spec.script_hash
        if known is not None and script_hash(self._spec.script) != known:
            return f"{self._spec.script} was changed after the command had read it; run it again"
        with ExitStack() as ending:
            room = ending.enter_context(outputs.temporary_folder("brickyard-pgbench-"))
            connection = ending.enter_context(connected(self._home.dsn))
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            process = self._process = self._spawn(self._arguments(room / "log"))
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            names = [f"log.{process.pid}{f'.{number}' if number else ''}" for number in range(self._spec.threads_used)]
            log = LogReader(
                [outputs.private_pipe(room / name) for name in names],
                has_rate=self._spec.rate_per_s is not None,
                clients=self._spec.clients,
            )
            ending.callback(log.close)
            for stream in (process.stdout, process.stderr):
                os.set_blocking(stream.fileno(), False)
            self._told.put(PhaseStart(phase=0, name="transactions", start_ns=0))
            first = self._sampled(connection)
            self._begun_unix_ns = time.time_ns()
            with suppress(OSError):
                process.stdin.write(b"go\n")
                process.stdin.close()
            said = _Said()
            self._follow(process, log, connection, said, first)
            code = self._reap()
            log.look()
            self._give_up(log, said.aborts, is_over=True)
            self._cpu_of_the_dead(before)
            self._tell(log, is_over=True)
            self._close(log, connection, said)
            if code and not self._stopped:
                return self._why(said.err, code)
            return ""

    def _follow(
        self,
        process: subprocess.Popen[bytes],
        log: LogReader,
        connection: Any,
        said: _Said,
        first: ServerSample | None,
    ) -> None:
        sampled_s = time.monotonic()
        while process.poll() is None:
            _wait(process, said)
            log.look()
            _drain(process, said)
            self._give_up(log, said.aborts)
            if log.origin_us is not None and self._origin_unix_ns is None:
                self._origin_unix_ns = log.origin_us * 1000
            if first is not None and self._origin_unix_ns is not None:
                self._told.put(first)
                first = None
            self._tell(log)
            if time.monotonic() - sampled_s >= SAMPLE_EVERY_S:
                sampled_s = time.monotonic()
                if first is not None:  # the log may begin late; the counts from before the load come first all the same
                    self._told.put(first)
                    first = None
                if (seen := self._sampled(connection)) is not None:
                    self._told.put(seen)
        _drain(process, said)
        said.aborts.take(b"\n", _now_us())

    def _give_up(self, log: LogReader, aborts: AbortReader, *, is_over: bool = False) -> None:
        """Tells of clients that pgbench gave up; before its log has begun, nobody knows from when to count."""
        if log.origin_us is None and not is_over:
            return
        for abort in aborts.new():
            log.abort(abort.at_us, self._begun_unix_ns // 1000)
            assert log.origin_us is not None
            if self._aborts_told < MOST_ERRORS:
                self._aborts_told += 1
                self._told.put(
                    ErrorEvent(
                        at_ns=max(abort.at_us - log.origin_us, 0) * 1000,
                        phase=0,
                        stream=0,
                        operation=Counted.CALL,
                        offset_bytes=0,
                        request_bytes=0,
                        kind=ErrorKind.ABORTED,
                        text=abort.text,
                    )
                )

    def _sampled(self, connection: Any) -> ServerSample | None:
        """None where the server answers no more: pgbench itself will say so."""
        origin_ns = self._origin_unix_ns or self._begun_unix_ns
        with suppress(Exception):
            return sample(connection, self._query, time.time_ns() - origin_ns if self._process_began() else 0)
        return None

    def _process_began(self) -> bool:
        return self._process is not None and self._process.stdin is not None and self._process.stdin.closed

    def _tell(self, log: LogReader, *, is_over: bool = False) -> None:
        for interval in log.whole(is_over=is_over):
            cpu = self._cpu_since()
            span_ns = max(interval.end_ns - interval.start_ns, 1) * self._spec.threads_used
            busy = min((cpu.user_ns + cpu.system_ns) / span_ns, 1.0)
            self._told.put(replace(interval, cpu=cpu, loop_busy_share=busy))
            self._end_ns = interval.end_ns

    def _cpu_since(self) -> Cpu:
        """What pgbench has used since the last interval."""
        with suppress(OSError, ValueError, IndexError):
            if self._process is not None and self._process.returncode is None:
                words = Path("/proc", str(self._process.pid), "stat").read_text().rpartition(")")[2].split()
                self._last_cpu = int(words[11]) * TICK_NS, int(words[12]) * TICK_NS
        user, system = (max(now - then, 0) for now, then in zip(self._last_cpu, self._told_cpu, strict=True))
        self._told_cpu = self._last_cpu
        return Cpu(user_ns=user, system_ns=system)

    def _cpu_of_the_dead(self, before: resource.struct_rusage) -> None:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        self._last_cpu = int(spent[0] * 1e9), int(spent[1] * 1e9)

    def _close(self, log: LogReader, connection: Any, said: _Said) -> None:
        if (seen := self._sampled(connection)) is not None:
            self._told.put(seen)
        user_ns, system_ns = self._last_cpu
        share = (user_ns + system_ns) / max(self._end_ns * self._spec.threads_used, 1)
        is_bound = share > BOUND_SHARE and log.transactions > 0  # connecting in vain takes CPU time as well
        reason = PhaseReason.DURATION if self._spec.duration_ns else PhaseReason.REQUESTS
        if self._stopped or log.failures[ErrorKind.ABORTED]:
            reason = PhaseReason.INTERRUPTED if self._stopped else PhaseReason.ERROR
        self._told.put(
            PhaseEnd(
                phase=0,
                end_ns=self._end_ns,
                reason=reason,
                unsent=log.failures.get("skipped", 0),
                outstanding=0,
                errors_by_errno={},
                errors_by_kind=dict(log.failures),
                slowest=[],
                cpu=Cpu(user_ns=user_ns, system_ns=system_ns),
                generator_bound=is_bound,
                generator_bound_reason=Bound.CPU if is_bound else Bound.NO,
                loops=self._spec.threads_used,
                loop_busy_share=min(share, 1.0),
                loop_cpu_share=min(share, 1.0),
                pgbench=summary(said.out.decode("utf-8", "replace")),
            )
        )

    def _why(self, err: bytearray, code: int) -> str:
        told = next((line for line in _lines(err) if "error:" in line), "")
        remedy = "; --set pg.max_connections=1000 lets more clients connect" if "too many clients" in told else ""
        return f"pgbench: {told.partition('error:')[2].strip() or f'exit code {code}'}{remedy}"


def _lines(text: bytearray) -> list[str]:
    return [one_line(line) for line in text.decode("utf-8", "replace").splitlines()]


@dataclass
class _Said:
    """What pgbench has written so far."""

    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    aborts: AbortReader = field(default_factory=AbortReader)
    has_ended: bool = False
    """Whether stderr is closed."""


def _now_us() -> int:
    return time.time_ns() // 1000


def _wait(process: subprocess.Popen[bytes], said: _Said) -> None:
    """Until pgbench complains, whose complaints bear no time of their own, or for a look at the log."""
    if said.has_ended or process.stderr is None:
        time.sleep(LOOK_S)
    else:
        poll = select.poll()
        poll.register(process.stderr, select.POLLIN)
        poll.poll(LOOK_S * 1000)


def _drain(process: subprocess.Popen[bytes], said: _Said) -> None:
    """A pipe that nobody reads would hold pgbench up; what goes on beyond 256 KiB of complaints is dropped."""
    for kept, stream in ((said.out, process.stdout), (said.err, process.stderr)):
        is_err = kept is said.err
        with suppress(BlockingIOError):
            while stream is not None and (data := os.read(stream.fileno(), 1 << 16)):
                kept.extend(data)
                del kept[1 << 18 :]
                if is_err:
                    said.aborts.take(data, _now_us())
            said.has_ended |= is_err


def summary(text: str) -> PgbenchEnd | None:
    """pgbench's own figures; None where it ended without them."""
    matches = {name: match[1] for name, pattern in FIGURES.items() if (match := pattern.search(text))}
    found = msgspec.convert(matches, _OwnFigures, strict=False)
    if found.transactions_per_s is None:
        return None
    return PgbenchEnd(
        transactions=found.transactions,
        failed=found.failed,
        skipped=found.skipped,
        transactions_per_s=found.transactions_per_s,
        latency_mean_ns=found.latency_ms * 1e6,
        connect_ns=round(found.connect_ms * 1e6),
        lateness_mean_ns=None if found.lateness_ms is None else found.lateness_ms * 1e6,
    )


def starter(spec: PgbenchSpec, home: Home) -> Callable[[], PgbenchRun]:
    return lambda: PgbenchRun(spec, home)
