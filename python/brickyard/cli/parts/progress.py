"""Duty: show a run while it happens, on stderr: a live bar in a terminal, plain lines elsewhere.

Refusal: it only listens. What it shows is never what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from brickyard.analysis import PhaseRate
from brickyard.analysis.figures.marked import marks_words
from brickyard.analysis.figures.moments import planned_ns
from brickyard.analysis.figures.totals import STUB_SHARE
from brickyard.cli.parts.output import print_line, stderr
from brickyard.conditions import written
from brickyard.schema import (
    COMMIT,
    Event,
    Fill,
    HangEvent,
    Interval,
    PhaseStart,
    Start,
    Steady,
    in_rate,
    is_on_data,
    is_request,
    words_of,
)
from brickyard.schema.plan import Plan
from brickyard.study.running.runner import RunResult, RunSpec
from brickyard.units import (
    format_counted,
    format_iops,
    format_mib_per_s,
    format_name,
    format_ns,
    format_seconds,
    format_size,
)

PLAIN_EVERY_S = 5.0  # plain lines go to logs; one every few seconds is enough to see that it lives


PHASES_TOLD = 4  # in the line of a finished run


def describe(spec: RunSpec) -> str:
    """`random read 4 KiB` for a cell of a study, `300/s offered` for a level of a load curve, for any other run the
    profile's name."""
    marks = spec.marks
    number = "" if marks.repetition is None else f" #{marks.repetition}"
    if marks.levels is not None:
        levels = ", ".join(f"{factor}={written(level)}" for factor, level in marks.levels.items())
        return levels + (number if marks.repetition != 1 else "")
    return (format_name(marks_words(marks)) or spec.profile) + number


IOPS, CALLS, TRANSACTIONS = "IOPS", "calls/s", "transactions/s"


def _rates(rate: PhaseRate, words: str) -> str:
    """What moves data and what is done to names are different things, and so are their rates. Of a transaction it is
    not known what it moves."""
    data = f"{format_iops(rate.iops)} {words}"
    if words != TRANSACTIONS:
        data += f"  {format_mib_per_s(rate.bytes_per_s)} MiB/s"
    if not rate.metadata_per_s:
        return data
    named = f"{format_iops(rate.metadata_per_s)} metadata/s"
    return f"{data}  {named}" if rate.iops else named


def figures(interval: Interval, words: str = IOPS) -> str:
    """Rates over an interval, and the worst p99 of its operations."""
    seconds = max((interval.end_ns - interval.start_ns) / 1e9, 1e-9)
    cells = [cell for cell in interval.cells if is_request(cell.operation)]
    timed = [*cells, *(cell for cell in interval.cells if cell.operation == COMMIT)]
    counted = in_rate({cell.operation for cell in cells})
    rated = [cell for cell in cells if cell.operation in counted]
    requests, moved = sum(cell.requests for cell in rated), sum(cell.bytes for cell in rated)
    errors = sum(cell.errors for cell in cells)
    named = sum(cell.requests for cell in cells if not is_on_data(cell.operation))
    text = _rates(PhaseRate("", requests / seconds, moved / seconds, 0, True, named / seconds), words)
    p99 = [cell.measures.response.p99_ns for cell in timed if cell.measures.response is not None]
    if any(p99):
        text += f"  {'worst ' if len(p99) > 1 else ''}p99 {format_ns(max(p99))}"
    return f"{text}  {format_counted(errors, 'errors')}" if errors else text


def closing(rates: Sequence[PhaseRate], words: str = IOPS) -> str:
    """The rates of a finished run as its table has them, phase by phase; of many phases the lowest and the highest."""
    if len(rates) > PHASES_TOLD:
        known = sorted(rate.iops for rate in rates if rate.is_rated)
        span = f", {format_iops(known[0])} to {format_iops(known[-1])} {words}" if known else ""
        errors = sum(rate.errors or 0 for rate in rates)
        failed = f", {format_counted(errors, 'errors')}" if errors else ""
        return f"{len(rates)} phases{span}{failed}"
    said = []
    for rate in rates:
        text = _rates(rate, words) if rate.is_rated else "–"
        text += f"  {format_counted(rate.errors, 'errors')}" if rate.errors else ""
        text += f" ({rate.of})" if rate.of else ""
        said.append(f"{rate.phase_name}: {text}" if len(rates) > 1 else text)
    return "; ".join(said)


class Working:
    """What a computation is at: in place in a terminal, a line every few seconds elsewhere."""

    def __init__(self, what: str, console: Console | None = None) -> None:
        self.console = console or stderr()
        self._status = self.console.status(escape(what))
        self._spoke_s = time.monotonic()

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def says(self, text: str) -> None:
        self._status.update(escape(text))
        now = time.monotonic()
        if not self.console.is_terminal and now - self._spoke_s >= PLAIN_EVERY_S:
            self._spoke_s = now
            print_line(self.console, text)


class Terminal:
    """A listener for a person."""

    def __init__(self, console: Console | None = None, words: str = IOPS) -> None:
        self.console = console or stderr()
        self._words = words
        self._live = self.console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._expected: int | None = None
        self._ended = 0
        self._counted_from_s = time.monotonic()
        self._planned_ns: int | None = None
        self._interval_ns = 0
        self._began_ns: int | None = None
        self._spoke_s = time.monotonic()
        self._last = ""
        self._name = ""
        self._phases: list[str] = []
        self._noted: set[str] = set()
        self._is_modelled = False
        self._run_from_s = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._progress.stop()

    def expect(self, runs: int) -> None:
        """How many runs there are in all; until then, and for a single run, the bar is that of the run itself."""
        self._expected = runs
        self._counted_from_s = time.monotonic()
        if self._task is not None and runs > 1:
            self._progress.update(self._task, total=runs * 1000)

    def describe(self, spec: RunSpec) -> str:
        return describe(spec)

    def run_begins(self, spec: RunSpec) -> None:
        self._name = self.describe(spec)
        self._last = ""
        self._began_ns = None
        self._planned_ns = planned_ns(spec.plan)
        interval = spec.plan.interval
        self._interval_ns = interval.ns if interval is not None else 0
        self._phases = [phase.name for phase in spec.plan.phase] if isinstance(spec.plan, Plan) else []
        self._is_modelled = spec.options.is_modelled
        self._run_from_s = time.monotonic()
        if self._task is None or not self._many:
            if self._task is not None:
                self._progress.remove_task(self._task)
            total = (self._expected or 1) * 1000 if self._many or self._planned_ns else None
            self._task = self._progress.add_task(self._name, total=total, figures="")
        self._progress.update(self._task, description=self._title(), figures="preparing")

    @property
    def _many(self) -> bool:
        return (self._expected or 1) > 1

    def _title(self) -> str:
        return f"{self._ended + 1}/{self._expected} {self._name}" if self._many else self._name

    def event(self, event: Event) -> None:
        match event:
            case Fill():
                share = event.done_bytes / max(event.total_bytes, 1)
                self._say(f"filling {format_size(event.total_bytes)}: {share:.0%}", None)
            case Start():
                self._note_new(map(words_of, event.notes))
            case PhaseStart() if self._began_ns is None:
                self._began_ns = event.start_ns
            case Interval():
                if self._is_rest(event):
                    return
                self._last = figures(event, self._words)
                spent_ns = event.end_ns - (self._began_ns or 0)
                done = min(spent_ns / self._planned_ns, 1.0) if self._planned_ns else None
                said = self._phase(event.phase) + ("warm-up: " if event.warmup else "") + self._last
                self._say(said, done, self._at(spent_ns, done))
            case HangEvent():
                self.note(
                    f"hanging: {event.operation} of {format_size(event.request_bytes)} at offset"
                    f" {event.offset_bytes:,} has been outstanding for {format_ns(event.outstanding_ns)}"
                )
            case Steady():
                self.note("steady state reached" if event.reached else "steady state left again")

    def _is_rest(self, event: Interval) -> bool:
        """Whether an interval is what an end left of one: nothing is sent in a drain, and a few ms have no rate. In
        both, requests that waited end as fast as the storage serves them, whatever rate is offered."""
        return event.drain or event.end_ns - event.start_ns < STUB_SHARE * self._interval_ns

    def run_ended(self, result: RunResult) -> None:
        self._ended += 1
        if self._live and self._task is not None and self._many:
            self._progress.update(self._task, completed=self._ended * 1000)
        elif not self._live:
            said = f": {closing(result.rates, self._words)}" if result.rates else ""
            why = f" ({result.outcome}{': ' + result.message if result.message else ''})"
            count = f"{self._ended}/{self._expected} " if self._many else ""
            self._line(f"{count}{self._name}{said}{why if result.outcome != 'done' else self._left()}")

    def _left(self) -> str:
        """How long the other runs will take, if they take as long as those before; only where that is worth a word."""
        runs = (self._expected or 1) - self._ended
        left_s = (time.monotonic() - self._counted_from_s) / self._ended * runs
        return f"  (about {format_seconds(left_s)} left)" if runs > 0 and left_s >= PLAIN_EVERY_S else ""

    def _note_new(self, texts: Iterable[str]) -> None:
        """What every run of a command has in common is said once."""
        for text in dict.fromkeys(texts):
            if text not in self._noted:
                self._noted.add(text)
                self.note(text)

    def note(self, text: str) -> None:
        if self._live:
            self._progress.console.print(f"note: {text}", markup=False, style="cyan")
        else:
            self._line(f"note: {text}")

    def _phase(self, number: int) -> str:
        """Which of several phases a run is in."""
        count = len(self._phases)
        if count < 2 or number >= count:
            return ""
        name = f" ({self._phases[number]})" if self._phases[number] else ""
        return f"phase {number + 1} of {count}{name}: "

    def _at(self, spent_ns: int, done: float | None) -> str:
        """For lines alone: a bar shows it. A model has a time of its own, so that of this computer is said as well."""
        # The last answers come after the planned time.
        spent = format_seconds(min(spent_ns, self._planned_ns or spent_ns) / 1e9)
        of = f" of {format_seconds(self._planned_ns / 1e9)}" if self._planned_ns else ""
        if not self._is_modelled:
            return f"{spent}{of}: "
        left_s = (time.monotonic() - self._run_from_s) * (1 - done) / done if done else 0.0
        left = f", about {format_seconds(left_s)} left" if left_s >= 1 else ""
        return f"{spent}{of} of modelled time{left}: "

    def _say(self, text: str, done: float | None, at: str = "") -> None:
        if self._live and self._task is not None:
            self._progress.update(self._task, figures=text)
            if done is not None:
                before = self._ended if self._many else 0
                self._progress.update(self._task, completed=(before + done) * 1000)
        elif not self._live and time.monotonic() - self._spoke_s >= PLAIN_EVERY_S:
            self._line(f"{self._title()}: {at}{text}")

    def _line(self, text: str) -> None:
        self._spoke_s = time.monotonic()
        print_line(self.console, text)
