"""Duty: `brickyard watch`. Refusal: figures, causes and verdicts are computed in `brickyard.watch`."""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import Parameter
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from brickyard import _core, outputs
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.errors import DONE, FAILED, BadInputError, BrickyardError, one_line
from brickyard.watch import figures, metrics
from brickyard.watch.devices import found
from brickyard.watch.figures import Watched
from brickyard.watch.watching import AUTO, METHODS, LiveWatch

RIGHT, LEFT = "right", "left"
TRACE_SUFFIX, PROFILE_SUFFIX = ".byt", ".toml"
LIVE_OWNERS = 6
LEAST_S = 0.1


def watch(
    *devices: str,
    for_: Annotated[
        str | None, Parameter(name="--for", help="How long to watch, such as 60s; until Ctrl-C unless given.")
    ] = None,
    every: Annotated[
        str, Parameter(help="How often the display is redrawn and figures are reported, such as 1s.")
    ] = "1s",
    stripe: Annotated[str | None, Parameter(help="Width of a full stripe of the array, such as 256KiB.")] = None,
    method: Annotated[
        str,
        Parameter(
            help="bpf or tracepoints: every request, needs root; counters: only rates, needs no privileges; auto: "
            "the best that works."
        ),
    ] = AUTO,
    read_ahead: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Also show how much of what is read ahead is used later; needs bpf, and costs time for each read"
            " that the page cache answers.",
        ),
    ] = False,
    save: Annotated[
        Path | None,
        Parameter(
            validator=options.FILE,
            group=options.OUTPUT,
            help="Keep every request in a trace, NAME.byt, or make a profile of them, NAME.toml.",
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        Parameter(validator=options.STREAM, group=options.OUTPUT, help="Write each interval to a CSV file."),
    ] = None,
    parquet: Annotated[
        Path | None,
        Parameter(validator=options.FILE, group=options.OUTPUT, help="Write each interval to a Parquet file."),
    ] = None,
    report: Annotated[
        Path | None,
        Parameter(validator=options.REPORT, group=options.OUTPUT, help="Write a report with pictures into a folder."),
    ] = None,
    listen: Annotated[
        str | None, Parameter(help="Serve Prometheus metrics at HOST:PORT/metrics, such as 127.0.0.1:9778.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Show which requests block devices get, where their time goes, and why some were slow.

    Parameters
    ----------
    devices
        Disks or partitions, such as /dev/sdb; all disks unless given.
    """
    _check(method, save)
    watched_devices = found(devices)
    if save is not None and save.suffix == PROFILE_SUFFIX and len(watched_devices) > 1:
        names = ", ".join(one.name for one in watched_devices[:8])
        raise BadInputError(f"--save {save}: a profile is made from one device; name it ({names})")
    for_s = _seconds("--for", for_) if for_ else None
    every_s = _seconds("--every", every)
    stripe_bytes = _stripe(stripe)
    console = stderr()

    def note(text: str) -> None:
        print_line(console, f"note: {text}", "cyan")

    kept = _Keeping(console, save, csv, parquet, report)
    unprinted: OSError | None = None
    with ExitStack() as files:
        trace = files.enter_context(_kept(save)) if save else None
        fd = trace.fileno() if trace else None
        watching = LiveWatch(watched_devices, every_s, method, stripe_bytes, fd, read_ahead, note)
        with ExitStack() as ending:
            if listen:
                ending.enter_context(_served(watching, listen, note))
            stopped = ending.enter_context(_stopped())
            with _page(watching, console) as shown:
                watching.run(stopped, for_s, shown, lambda: _started(console, watching, for_s))
        watched = watching.watched()
        if watching.broken:
            kept.failed(watching.broken)
        try:
            if not json:
                print_watched(stdout(), watched)
        except OSError as error:
            unprinted = error  # what is written does not depend on what can be printed
        told = kept.write(watching, watched, trace, note)
        kept.ends(files)
    if unprinted is not None:
        raise unprinted
    if json:
        problems = {"problems": kept.problems} if kept.problems else {}
        emit({**figures.document(watched), **told.document(), **problems})
    else:
        for line in told.lines():
            print_line(stdout(), line)
    return FAILED if kept.problems else DONE


@dataclass
class _Kept:
    """What was written of a watch."""

    report: str = ""
    save: Path | None = None
    traced: int = 0

    def document(self) -> dict[str, object]:
        saved = {_kind(self.save): str(self.save), "traced": self.traced} if self.save else {}
        return {**({"report": self.report} if self.report else {}), **saved}

    def lines(self) -> list[str]:
        saved = [f"{_kind(self.save)}: {self.save}, of {self.traced:,} requests"] if self.save else []
        return [*saved, *([f"report: {self.report}"] if self.report else [])]


@dataclass
class _Keeping:
    """What is written of a watch that is over, each by itself: one that fails takes no other with it."""

    console: Console
    save: Path | None
    csv: Path | None
    parquet: Path | None
    report: Path | None
    problems: list[str] = field(default_factory=list)

    def failed(self, text: str) -> None:
        self.problems.append(text)
        print_line(self.console, f"brickyard: {text}")

    def write(
        self, watching: LiveWatch, watched: Watched, trace: BinaryIO | None, note: Callable[[str], None]
    ) -> _Kept:
        """What of it could be written."""
        csv, parquet, report, save = self.csv, self.parquet, self.report, self.save
        told = _Kept()
        if csv:
            with self._trying("--csv", csv):
                outputs.write_whole(csv, figures.csv_text(watched.totals), stream=True)
        if parquet:
            with self._trying("--parquet", parquet):
                _write_parquet(watched, parquet)
        if report:
            with self._trying("--report", report):
                told.report = str(_reported(watched, report))
        if save and trace:
            with self._trying("--save", save):
                traced = _requests_in(trace) if watching.broken else watching.traced
                if save.suffix == PROFILE_SUFFIX:
                    _make_profile(save, trace, note)
                told.save, told.traced = save, traced
        return told

    def ends(self, files: ExitStack) -> None:
        """The trace takes its name."""
        if self.save:
            with self._trying("--save", self.save):
                files.close()

    @contextmanager
    def _trying(self, option: str, place: Path) -> Iterator[None]:
        try:
            yield
        except BrickyardError as error:
            self.failed(f"{option} {place}: {one_line(error)}")
        except OSError as error:
            self.failed(
                f"{option} {place}: {one_line(error.strerror or error)}; the file is not written; choose another place"
            )


def _requests_in(trace: BinaryIO) -> int:
    from brickyard import traces

    return traces.contents(f"/proc/self/fd/{trace.fileno()}").summary.requests


def _check(method: str, save: Path | None) -> None:
    if method not in METHODS:
        raise BadInputError(f"--method {method}: must be one of {', '.join(METHODS)}")
    if save is not None and save.suffix not in (TRACE_SUFFIX, PROFILE_SUFFIX):
        raise BadInputError(f"--save {save}: a trace is named NAME{TRACE_SUFFIX}, a profile NAME{PROFILE_SUFFIX}")


def _kind(save: Path) -> str:
    return "profile" if save.suffix == PROFILE_SUFFIX else "trace"


@contextmanager
def _kept(save: Path) -> Iterator[BinaryIO]:
    """Where requests are written: the trace that was asked for, or one that lasts until a profile is made of it."""
    if save.suffix == TRACE_SUFFIX:
        with outputs.whole_file(save) as file:
            yield file
        return
    outputs.check_file(save, stream=True)
    with outputs.temporary_folder("brickyard-watch-") as folder, outputs.whole_file(folder / "seen.byt") as file:
        yield file


def _make_profile(save: Path, trace: BinaryIO, note: Callable[[str], None]) -> None:
    from brickyard import traces

    made = traces.make_profile(traces.examine(f"/proc/self/fd/{trace.fileno()}"), save.stem)
    for text in made.notes:
        note(text)
    outputs.write_whole(save, made.text, stream=True)


def _stripe(text: str | None) -> int:
    try:
        found_bytes = _core.parse_bytes(text) if text else 0
    except ValueError as error:
        raise BadInputError(f"--stripe {text}: {error}") from error
    if text and (not found_bytes or found_bytes % 512):
        raise BadInputError(f"--stripe {text}: must be a multiple of 512 bytes")
    return found_bytes


def _write_parquet(watched: Watched, place: Path) -> None:
    from brickyard.report.watch import watch_table

    table = watch_table(watched)
    import pyarrow.parquet as pq

    with outputs.whole_file(place) as file:
        pq.write_table(table, file)


def _reported(watched: Watched, place: Path) -> Path:
    from brickyard.report.watch import write_watch_report

    return write_watch_report(watched, place)


def _seconds(option: str, text: str) -> float:
    try:
        seconds = _core.parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise BadInputError(f"{option} {text}: write a duration such as 500ms, 60s or 5min") from error
    if seconds < LEAST_S:
        raise BadInputError(f"{option} {text}: must be at least 100ms")
    return seconds


def _started(console: Console, watching: LiveWatch, for_s: float | None) -> None:
    names = ", ".join(device.name for device in watching.devices)
    until = f"for {for_s:g} s" if for_s else "until Ctrl-C"
    if not console.is_terminal:
        print_line(console, f"watching {names} {until}")


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    event = threading.Event()
    before = {number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _page(watching: LiveWatch, console: Console) -> Iterator[Callable[[], None]]:
    """A live page in a terminal; elsewhere nothing until the end."""
    if not console.is_terminal:
        yield lambda: None
        return
    with Live(console=console, auto_refresh=False, transient=True, screen=False) as live:
        yield lambda: live.update(_drawn(watching), refresh=True)


def _drawn(watching: LiveWatch) -> Group:
    watched = watching.watched()
    latest, seconds = watching.latest()
    parts: list[object] = [
        Text(f"watching with {watched.method}, {watched.totals.seconds:.0f} s; Ctrl-C ends it", style="dim")
    ]
    columns = [(name, LEFT if number == 0 else RIGHT) for number, name in enumerate(figures.OPERATION_COLUMNS)]
    for name, device in latest.items():
        rows = figures.operation_rows(device, seconds)
        if rows or len(latest) == 1:
            parts.append(table(f"{name}, last {seconds:.1f} s", columns, rows))
            shape = figures.shape_rows(device, watched.stripe_bytes)[:4]
            if shape:
                parts.append(table("", [("", LEFT), ("reads", RIGHT), ("writes", RIGHT)], shape))
            sizes = figures.size_rows(device)
            if sizes:
                parts.append(Text("sizes of reads, writes: " + "; ".join(f"{n} {r}, {w}" for n, r, w in sizes[:8])))
    ahead = [figures.ahead_line(watched, device) for device in watched.totals.devices.values()]
    parts += [Text(line) for line in ahead if line]
    owners = figures.owner_rows(watched)[:LIVE_OWNERS]
    if owners:
        sides = [(name, LEFT if number < 3 else RIGHT) for number, name in enumerate(figures.OWNER_COLUMNS)]
        parts.append(table("Since the beginning, by process", sides, owners))
    causes = figures.cause_rows(watched)
    if causes:
        parts.append(Text("slow requests: " + "; ".join(f"{cause} {share}" for cause, _, share, _ in causes)))
    parts += [Text(f"{one.device}: {one.text}", style="yellow") for one in watched.opinions]
    return Group(*parts)  # type: ignore[arg-type]


def print_watched(console: Console, watched: Watched) -> None:
    """The verdicts first, then what they follow from."""
    for one in watched.opinions:
        print_line(console, f"{one.device}: {one.text}", "bold")
    for device in watched.totals.devices.values():
        seconds, name = watched.totals.seconds, device.name
        rows = figures.operation_rows(device, seconds)
        if not rows:
            print_line(console, f"{device.name}: no requests in {seconds:.1f} s")
            continue
        _table(console, f"{name}: requests in {seconds:.1f} s (time from arrival)", figures.OPERATION_COLUMNS, rows)
        _table(console, f"{name}: where the time goes", figures.STAGE_COLUMNS, figures.stage_rows(device), texts=2)
        for title, head, found_rows in (
            ("shape of requests", "", figures.shape_rows(device, watched.stripe_bytes)),
            ("request sizes", "size", figures.size_rows(device)),
            ("begin on a boundary", "boundary", figures.alignment_rows(device)),
            ("distance from the request before", "distance", figures.seek_rows(device)),
            ("sequential runs that ended", "length", figures.run_rows(device)),
        ):
            _table(console, f"{device.name}: {title}", (head, "reads", "writes"), found_rows)
        _table(console, f"{name}: read ahead", figures.AHEAD_COLUMNS, figures.ahead_rows(watched, device))
        merged = (
            f"{device.name}: {device.merged_bios:,} bios merged into requests, {device.merged_requests:,} requests"
            f" merged, {device.splits:,} split, {device.requeues:,} requeued, {device.turned_away:,} rejected"
        )
        print_line(console, merged)
    _table(console, "By process", figures.OWNER_COLUMNS, figures.owner_rows(watched), texts=3)
    _table(console, "Causes of slow requests", figures.CAUSE_COLUMNS, figures.cause_rows(watched))
    _table(console, "The slowest requests", figures.SLOW_COLUMNS, figures.slow_rows(watched), texts=7)
    for text in figures.notes(watched):
        print_line(console, text, "dim")


def _table(console: Console, title: str, names: tuple[str, ...], rows: figures.Rows, texts: int = 1) -> None:
    if rows:
        sides = [(name, LEFT if number < texts else RIGHT) for number, name in enumerate(names)]
        console.print(table(title, sides, rows))


@contextmanager
def _served(watching: LiveWatch, address: str, note: Callable[[str], None]) -> Iterator[None]:
    """Answers GET /metrics."""
    host, _, port = address.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535 or not host:
        raise BadInputError(f"--listen {address}: write HOST:PORT, such as 127.0.0.1:9778")

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            is_metrics = self.path.split("?")[0] == "/metrics"
            is_protobuf = is_metrics and metrics.wants_protobuf(self.headers.get("Accept", ""))
            with watching.lock:
                totals, how = watching.totals, watching.method
                if is_protobuf:
                    body = metrics.protobuf_exposition(totals, how)
                else:
                    body = (metrics.exposition(totals, how) if is_metrics else "metrics are at /metrics\n").encode()
            self.send_response(200 if is_metrics else 404)
            self.send_header("Content-Type", metrics.PROTOBUF_TYPE if is_protobuf else metrics.TEXT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Scrapes are not worth a line each."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise BadInputError(f"--listen {address}: {error.strerror}; choose another address") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    note(f"metrics are served at http://{host}:{server.server_address[1]}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
