"""Duty: the options of `brickyard run` for traces: one that is issued again, and one that is taken of the run.

Refusal: what a trace holds and how two of them differ is for `brickyard.traces` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter
from msgspec import structs
from rich.console import Console

from brickyard.cli.parts.options import FILE, Count
from brickyard.cli.parts.output import print_line
from brickyard.errors import BadInputError, BrickyardError
from brickyard.outputs import nameless_file, whole_file
from brickyard.schema import RunWarning, warned
from brickyard.schema.plan import OtherPlan, Plan, TraceTiming
from brickyard.store import Record
from brickyard.study.running.aim import Aim
from brickyard.units import format_count, format_percent, plural

if TYPE_CHECKING:
    from brickyard.analysis.figures.traced import Late
    from brickyard.traces import Replay, TraceComparison

GROUP = Group("Replay of a trace, and saving a run as a trace", sort_key=6)
MARK = re.compile(rb"\ABYTRACE")
ENDING = ".byt"
COMPARED_MOST = 50_000_000  # requests; beyond that a comparison takes minutes


def _option(about: str) -> Parameter:
    return Parameter(help=about, group=GROUP)


@Parameter(name="*")
@dataclass(frozen=True)
class Again:
    """How a trace is issued again."""

    timing: Annotated[
        Literal["timed", "dependent", "fire_hose"] | None,
        _option(
            "timed (default): at the trace's instants. dependent: each request waits for those that had ended before"
            " it arrived. fire_hose: as fast as --trace-depth allows."
        ),
    ] = None
    speed: Annotated[float | None, _option("Speed relative to the trace; 1 by default.")] = None
    fit: Annotated[
        Literal["exact", "wrap", "scale"] | None,
        _option("Offsets on a target of a different size: exact (default), wrap (modulo its size) or scale."),
    ] = None
    trace_device: Annotated[int | None, _option("The device of the trace, by its number, counted from 0.")] = None
    trace_depth: Annotated[
        int | None,
        Parameter(help="The most requests in flight.", group=GROUP, validator=Count(1, 4096)),
    ] = None
    save_trace: Annotated[
        Path | None,
        Parameter(help="Write every request of the run to this trace (.byt).", group=GROUP, validator=FILE),
    ] = None

    @property
    def given(self) -> list[str]:
        """Options that only a trace as the workload gives a meaning."""
        names = [item.name for item in fields(self) if item.name != "save_trace"]
        return [name for name in names if getattr(self, name) is not None]


NOT_AGAIN = Again()


def names_trace(profile: str | None) -> bool:
    return profile is not None and profile.endswith(ENDING)


def replay_of(path: str, words: Again) -> Replay:
    from brickyard.traces import replay_profile

    return replay_profile(
        path,
        timing=words.timing or "timed",
        speed=1.0 if words.speed is None else words.speed,
        fit=words.fit or "exact",
        device=words.trace_device,
        depth=words.trace_depth,
    )


def refuse_without_trace(words: Again) -> None:
    if words.given:
        option = words.given[0].replace("_", "-")
        raise BadInputError(f"--{option} needs a trace as the workload (a file that ends in {ENDING})")


def refuse_taking(words: Again, name: str, why: str) -> None:
    if words.save_trace is not None:
        raise BadInputError(f"{name}: --save-trace: {why}; leave it out")


@contextmanager
def taking(aimed: Aim, words: Again, replay: Replay | None) -> Iterator[tuple[Aim, str | None]]:
    """With a file for the run's requests, and its path, where somebody wants them or they are compared."""
    if words.save_trace is not None:
        unread: BrokenPipeError | None = None
        with whole_file(words.save_trace, MARK) as file:
            path = f"/proc/self/fd/{file.fileno()}"
            try:
                yield _with_take(aimed, path), path
            except BrokenPipeError as error:  # nobody reads the figures to their end; the trace is whole
                unread = error
        if unread is not None:
            raise unread
        return
    if replay is None or replay.contents.summary.requests > COMPARED_MOST:
        yield aimed, None
        return
    with nameless_file() as file:
        path = f"/proc/self/fd/{file.fileno()}"
        yield _with_take(aimed, path), path


def _with_take(aimed: Aim, path: str) -> Aim:
    return replace(aimed, options=structs.replace(aimed.options, take=path))


@dataclass(frozen=True)
class AgainAnswer:
    """What a replay has done of its trace."""

    expected: dict[str, int]
    issued: dict[str, int]
    late_ns: Late
    late_because: str
    comparison: TraceComparison | None
    is_timed: bool
    hosts: int = 1
    """Each of which issues all of the trace."""

    @property
    def missing(self) -> dict[str, int]:
        return {
            name: n - self.issued.get(name, 0) for name, n in self.expected.items() if n != self.issued.get(name, 0)
        }

    def lines(self) -> list[str]:
        from brickyard.analysis.figures.traced import late_line

        total, done = sum(self.expected.values()), sum(self.issued.values())
        parts = ", ".join(f"{format_count(n)} {plural(name)}" for name, n in self.issued.items() if n)
        name = "Trace" if self.hosts == 1 else f"Trace, on {self.hosts} hosts"
        if self.missing:
            lacking = ", ".join(f"{format_count(n)} {plural(name)}" for name, n in self.missing.items())
            found = [
                f"{name}: {format_count(done)} of {format_count(total)} requests ended ({parts}); missing: {lacking}."
            ]
        else:
            found = [f"{name}: all {format_count(total)} requests were issued and ended ({parts})."]
        if self.late_ns.p99 is not None and self.is_timed:
            found.append(late_line(self.late_ns, self.late_because))
        if self.comparison is not None:
            # The verdict is a sentence of the run's answer, which is above.
            against = self.comparison.held_against
            found.append(f"Distances from {against} ({format_percent(self.comparison.tolerance)} is allowed):")
            found += [f"  {line}" for line in distance_lines(self.comparison)]
        return found

    def document(self) -> dict[str, object]:
        found: dict[str, object] = {"expected": self.expected, "ended": self.issued, "missing": self.missing}
        found |= {"late_ns": asdict(self.late_ns), "late_because": self.late_because if self.is_timed else ""}
        if self.comparison is not None:
            found["comparison"] = comparison_document(self.comparison)
        return found


def distance_lines(comparison: TraceComparison) -> list[str]:
    lines = []
    for item in comparison.distances:
        if item.distance is None:
            lines.append(f"{item.figure}: {item.why}")
        else:
            mark = "  <- beyond the tolerance" if item.beyond(comparison.tolerance) else ""
            means = f", means {format_percent(item.mean_difference)} apart" if item.mean_difference is not None else ""
            lines.append(f"{item.figure}: distance {format_percent(item.distance)}{means}, KS {item.ks:.3f}{mark}")
    return lines


def comparison_document(comparison: TraceComparison) -> dict[str, object]:
    return {
        "verdict": comparison.verdict,
        "reproduces": comparison.reproduces,
        "tolerance": comparison.tolerance,
        "speed": comparison.speed,
        "torn": comparison.torn,
        "distances": [{item.name: getattr(d, item.name) for item in fields(d)} for d in comparison.distances],
        "counts": [{item.name: getattr(c, item.name) for item in fields(c)} for c in comparison.counts],
    }


class TraceJudge:
    """Whether a run reproduces its trace: found when the run ends, so that it is kept with it; and the last one."""

    def __init__(self, replay: Replay | None, taken: str | None) -> None:
        self._replay, self._taken = replay, taken
        self.comparison: TraceComparison | None = None

    def judge(self, record: Record) -> list[RunWarning]:
        if self._replay is None or self._taken is None:
            return []
        from brickyard.analysis.figures.traced import TRACE_VERDICT

        try:
            self.comparison = compared(record, self._replay, self._taken)
        except BrickyardError:
            return []  # the run is kept; `answer_of` raises the same error for whoever asks
        trace, verdict = self.comparison.held_against, self.comparison.verdict
        return [warned(TRACE_VERDICT, "note", "Compared with {trace}: {verdict}.", trace=trace, verdict=verdict)]


def compared(record: Record, replay: Replay, taken: str) -> TraceComparison:
    from brickyard.traces import compare, examine

    return compare(examine(replay.place, replay.device), examine(taken), speed=_speed_of(record.info.plan))


def _speed_of(plan: Plan | OtherPlan) -> float:
    """Relative to the trace; a fire hose has none."""
    streams = [stream for phase in plan.phase for stream in phase.stream] if isinstance(plan, Plan) else []
    of_traces = [stream.trace for stream in streams if stream.trace is not None]
    return next((trace.speed for trace in of_traces if trace.timing is not TraceTiming.FIRE_HOSE), 1.0)


OPERATIONS = {"read": "read", "write": "write", "flush": "flush", "trim": "discard"}


def answer_of(
    record: Record, replay: Replay, taken: str | None, hosts: int = 1, known: TraceComparison | None = None
) -> AgainAnswer:
    """Of the last run. `taken` is the trace of what it did; each of `hosts` issued the whole trace."""
    from brickyard.analysis.figures.traced import done_of

    summary = replay.contents.summary
    counts = {"read": summary.reads, "write": summary.writes, "flush": summary.flushes, "discard": summary.discards}
    expected = {name: n * hosts for name, n in counts.items() if n}
    done = done_of(record)
    ended = {OPERATIONS[name]: n for name, n in done.ended.items() if name in OPERATIONS}
    comparison = known
    if comparison is None and taken is not None:
        comparison = compared(record, replay, taken)
    is_timed = replay.timing == "timed"
    return AgainAnswer(expected, ended, done.late_ns, done.late_because, comparison, is_timed=is_timed, hosts=hosts)


def print_answer(console: Console, answer: AgainAnswer) -> None:
    for line in answer.lines():
        print_line(console, line)
