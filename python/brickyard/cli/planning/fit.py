"""Duty: `brickyard advise fit`. Refusal: `brickyard.advise.fitting` decides what is measured, fitted to, kept back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from brickyard import bricks
from brickyard.advise.fitting import grid
from brickyard.advise.fitting.course import falls
from brickyard.advise.fitting.hints import hint, span
from brickyard.advise.fitting.search import fit
from brickyard.advise.fitting.seen import usable
from brickyard.advise.simulate import Brick, rates, simulate
from brickyard.analysis.judging.groups import with_changes
from brickyard.analysis.judging.summary import model_changes
from brickyard.bricks.fitted import MARK
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit
from brickyard.cli.parts.progress import Terminal, Working
from brickyard.cli.parts.selection import open_store, select
from brickyard.cli.planning.fit_words import Outcome
from brickyard.errors import BadInputError, BrickyardError
from brickyard.outputs import check_file, check_place, folder, write_whole
from brickyard.schema.plan import Plan
from brickyard.store import Record, Store
from brickyard.study.running.aim import Aim, aim
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Runner, RunSpec
from brickyard.units import format_runs

BRICK_MARK = re.compile(MARK.encode())
_RUN = r"(?:latest|s?\d+|\d+-\d+)"
RUNS = re.compile(rf"{_RUN}(?:,{_RUN})*")


def fit_brick(
    *words: str,
    name: Annotated[
        str | None,
        Parameter(help="Save the fitted brick under this name among your own, as sim:NAME; for a file, use -o."),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            validator=options.FILE,
            help="File for the fitted brick; by default fitted-brick.toml.",
        ),
    ] = None,
    each: Annotated[
        str | None, Parameter(help="How long each workload is measured; by default 1s, or up to 10s on slow storage.")
    ] = None,
    long: Annotated[
        str | None,
        Parameter(help="Add one workload of this duration, such as 10m, long enough to spend credits or fill a cache."),
    ] = None,
    long_load: Annotated[
        Literal["random-writes", "sequential-writes", "random-reads"] | None,
        Parameter(
            help="Workload that --long adds; by default random writes, or random reads if no writes are measured."
        ),
    ] = None,
    reads_only: Annotated[bool, Parameter(negative="", show_default=False, help="Do not measure writes.")] = False,
    size: options.Size = None,
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Estimate a model of a measured target, and report how well it predicts workloads to which it was not fitted.

    Parameters
    ----------
    words
        Runs (12 or 3-7,9), a study (s2) or latest; or a target that is measured first: a file, a device, or a modelled
        brick.
    """
    if not words:
        raise BadInputError("name a target to be measured, or runs such as s2")
    place = check_place(_place(name, output))
    if place.exists():
        check_file(place, BRICK_MARK)
    wanted = _wanted(each, long, long_load, reads_only=reads_only)
    if all(RUNS.fullmatch(word) for word in words):
        if long is not None:
            raise BadInputError("--long measures a target; name a target, or include a long run among the runs")
        with open_store(store) as kept:
            records = select(kept, words).records
    elif len(words) == 1:
        records = _measure(words[0], wanted, size, overwrite, i_know_this_destroys_data, store)
    else:
        raise BadInputError(f"{' '.join(words)}: name runs, or one target")
    known = usable(records)
    if not known.loads:
        raise BadInputError(f"nothing to fit to: {known.refused[0] if known.refused else 'no runs'}")
    target, capacity_bytes = _one_target(known.records)
    with Working("fitting") as working:
        found = fit(known.loads, capacity_bytes, lambda at: working.says(f"fitting {at}"))
    if not found:
        raise BadInputError("nothing to fit to: no run has a rate of a single kind of request")
    best = found[0]
    longer = hint(best.model, known.loads, capacity_bytes)
    outcome = Outcome(found, target, place, spoken(place), known, falls(known.records), longer)
    _write(outcome)
    if json:
        emit(outcome.document())
    else:
        outcome.print()
    return 1 if best.verdict == "does not fit" else 0


def _place(name: str | None, output: Path | None) -> Path:
    if name is None:
        return output or Path("fitted-brick.toml")
    if output is not None:
        raise BadInputError("--name and --output exclude each other")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name.endswith(".toml"):
        raise BadInputError(f"--name {name}: letters, digits, -, _ and . only")
    if any(f"{kind}/{name}" in bricks.texts() for kind in ("arrays", "drives")):
        raise BadInputError(f"--name {name}: a brick of this name ships with Brickyard; choose another")
    return bricks.own_directory() / f"{name}.toml"


@dataclass(frozen=True)
class _Wanted:
    """What is measured; `each_s` None leaves it to the target's pace, `long_s` None measures no long load."""

    each_s: float | None
    long_s: float | None
    long_load: str | None
    writes: bool

    def long_plan(self, *, writes: bool) -> list[Plan]:
        load = self.long_load or ("random-writes" if writes else "random-reads")
        return [] if self.long_s is None else [grid.long_plan(load, self.long_s)]


def _wanted(each: str | None, long: str | None, long_load: str | None, *, reads_only: bool) -> _Wanted:
    if long is None and long_load is not None:
        raise BadInputError("--long-load needs --long DURATION")
    if reads_only and long_load not in (None, "random-reads"):
        raise BadInputError(f"--long-load {long_load} and --reads-only exclude each other")
    long_s = None if long is None else _seconds("--long", long, LEAST_LONG_S)
    return _Wanted(None if each is None else _seconds("--each", each, SHORTEST_S), long_s, long_load, not reads_only)


def _measure(
    target: str, wanted: _Wanted, size: str | None, overwrite: tuple[str, ...], destroys_data: bool, store: Path | None
) -> list[Record]:
    """Every load is a run of its own; those of real targets are kept in the store."""
    if bricks.is_modelled(target):
        return _measure_model(target, wanted)
    seconds = wanted.each_s or 1.0
    plans = grid.plans(seconds, writes=wanted.writes)
    records: list[Record] = []
    with (
        Store(store) as kept,
        aim((target,), size=size, scratch=None, keep=False, overwrite=overwrite, destroys_data=destroys_data) as aimed,
        Interrupt() as interrupt,
        Terminal() as terminal,
    ):
        for note in (*aimed.notes, _how_long(plans, seconds, wanted)):
            terminal.note(note)
        terminal.expect(len(plans) + (wanted.long_s is not None))
        study = _Measuring(kept, Runner(kept, terminal, interrupt), aimed, terminal.note)
        outcome, message = study.run(plans[:1], records)
        if wanted.each_s is None and records:
            plans = grid.plans(grid.longer(seconds, _rate(records[0])), writes=wanted.writes)
        if outcome == "done":
            outcome, message = study.run(plans[1:], records)
        if outcome == "done":
            # Last, since it leaves caches full and credits spent.
            outcome, message = study.run(wanted.long_plan(writes=wanted.writes and not study.notes), records)
        study.end(outcome)
    if outcome == "interrupted":
        raise KeyboardInterrupt
    if outcome != "done":
        raise BrickyardError(f"{target}: {message or 'a run failed'}")
    return records


def _how_long(plans: list[Plan], seconds: float, wanted: _Wanted) -> str:
    whole_s, long_s = len(plans) * (seconds + grid.WARMUP_S), wanted.long_s or 0.0
    most_s = whole_s * grid.MOST_LONGER + long_s
    slow = "" if wanted.each_s is not None else f", on slow storage up to {most_s / 60:.0f} min"
    added = f" and one of {span(long_s)}" if long_s else ""
    about = f"{len(plans)} loads of {seconds:g} s{added}: about {whole_s + long_s:.0f} s{slow}"
    return f"{about}; then the fit, up to some minutes"


class _Measuring:
    """Runs of one study; where writes are refused the reads stand."""

    def __init__(self, kept: Store, runner: Runner, aimed: Aim, note: Callable[[str], None]) -> None:
        self.kept, self.runner, self.aimed, self.note = kept, runner, aimed, note
        self.study: int | None = None
        self.notes: list[str] = []

    def run(self, plans: list[Plan], records: list[Record]) -> tuple[str, str]:
        for plan in plans:
            try:
                result = self.runner.run(RunSpec("fit", plan, self.aimed.targets, self.aimed.options), self._study)
            except BadInputError as error:
                if not records:
                    raise
                self.notes.append(f"writes are left out: {error}")
                self.note(self.notes[-1])
                break
            if result.outcome != "done":
                return result.outcome, result.message
            records.append(self.kept.record(result.run))
        return "done", ""

    def end(self, outcome: str) -> None:
        if self.study is not None:
            self.kept.end_study(self.study, outcome, self.notes)

    def _study(self) -> int:
        if self.study is None:
            self.study = self.kept.add_study("fit", {"target": self.aimed.targets[0]})
        return self.study


def _seconds(option: str, text: str, least_s: float) -> float:
    from brickyard import _core

    try:
        seconds = _core.parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise BadInputError(f"{option}: {error}") from error
    if seconds < least_s:
        raise BadInputError(f"{option} {text}: at least {least_s:g}s")
    return seconds


SHORTEST_S, LEAST_LONG_S = 0.2, 2.0


def _rate(record: Record) -> float:
    return rates(record)[0]


def _measure_model(target: str, wanted: _Wanted) -> list[Record]:
    """In virtual time a long load costs little, so that there is always one."""
    brick = Brick(target.removeprefix(bricks.MODELLED))
    plans = grid.plans(wanted.each_s or grid.MODELLED_S, writes=wanted.writes, requests=grid.MODELLED_REQUESTS)
    if wanted.long_s is None and wanted.each_s is None:
        load = "random-writes" if wanted.writes else "random-reads"
        plans.append(grid.long_plan(load, grid.MODELLED_LONG_S, requests=grid.MODELLED_LONG_REQUESTS))
    plans += wanted.long_plan(writes=wanted.writes)
    records = []
    with Working("measuring the modelled brick") as working:
        for number, plan in enumerate(plans, 1):
            working.says(f"measuring the modelled brick: load {number} of {len(plans)}")
            record = simulate(plan, brick, None)
            info = replace(record.info, id=number, outcome="done", targets=[target])
            records.append(replace(record, info=info))
    return records


def _one_target(records: list[Record]) -> tuple[str, int]:
    """All loads have to be of one brick."""
    places: dict[str, list[int]] = {}
    for record in records:
        words = f"{record.info.targets[0]}{with_changes(', '.join(model_changes(record.info)))}"
        places.setdefault(words, []).append(record.info.id)
    if len(places) > 1:
        told = "; ".join(f"{words} ({format_runs(ids)})" for words, ids in places.items())
        raise BadInputError(f"the runs are of several bricks: {told}; name those of one")
    targets = [records[0].info.targets[0]]
    sizes = [record.info.opened[0].data_bytes for record in records if record.info.opened]
    if not sizes:
        raise BadInputError("the size of the runs' target is not known; measure the target with `advise fit TARGET`")
    return targets[0], max(sizes)


def _write(outcome: Outcome) -> None:
    best, place, target = outcome.best, outcome.place, outcome.target
    told = "\n".join(outcome.about)
    text = best.model.text(f"{target}, fitted", told, f"`brickyard advise fit` of {target}", best.fitted_to)
    try:
        folder(place.parent)
        write_whole(place, text, BRICK_MARK)
    except OSError as error:
        raise BadInputError(f"{place}: cannot be written: {error.strerror}") from error


def spoken(place: Path) -> str:
    """How the file is named as a target."""
    if place.parent == bricks.own_directory():
        return f"sim:{place.stem}"
    return f"sim:{place}"
