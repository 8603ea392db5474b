"""Duty: `brickyard advise fit`. Refusal: `brickyard.advise.fitting` decides what is measured, fitted to, kept back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import bricks
from brickyard.advise.fitting import grid
from brickyard.advise.fitting.course import Fall, falls
from brickyard.advise.fitting.search import FITS, Fitted, Predicted, fit
from brickyard.advise.fitting.seen import Seen, usable
from brickyard.advise.simulate import Brick, rates, simulate
from brickyard.cli import options
from brickyard.cli.output import emit, stderr, stdout, table
from brickyard.cli.progress import Terminal
from brickyard.cli.selection import open_store, select
from brickyard.cli.target import Aim, aim
from brickyard.errors import BadInputError, BrickyardError
from brickyard.outputs import new_file
from brickyard.store import Json, Record, Store
from brickyard.study.interrupt import Interrupt
from brickyard.study.runner import Runner, RunSpec
from brickyard.units import format_iops

RUNS = re.compile(r"latest|s?\d+|\d+-\d+")


def fit_brick(
    *words: str,
    name: Annotated[
        str | None, Parameter(help="Keeps the brick by this name among your own, as sim:NAME; see -o for a file.")
    ] = None,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="File of the fitted brick; else fitted-brick.toml.")
    ] = None,
    each: Annotated[
        str | None, Parameter(help="How long each load is measured; else 1s, or up to 10s on slow storage.")
    ] = None,
    reads_only: Annotated[bool, Parameter(negative="", help="Measures no writes.")] = False,
    size: options.Size = None,
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Estimate a model of a measured brick, and say how well it predicts what it was not fitted to.

    Parameters
    ----------
    words
        Runs (12, 3-7, s2, latest), or a target that is measured first: a file, a device, or a modelled brick.
    """
    if not words:
        raise BadInputError("name a target to be measured, or runs such as s2")
    place = _place(name, output)
    if all(RUNS.fullmatch(word) for word in words):
        with open_store(store) as kept:
            records = select(kept, words).records
    elif len(words) == 1:
        records = _measure(words[0], each, not reads_only, size, overwrite, i_know_this_destroys_data, store)
    else:
        raise BadInputError(f"{' '.join(words)}: name runs, or one target")
    loads, refused = usable(records)
    if not loads:
        raise BadInputError(f"nothing to fit to: {refused[0] if refused else 'no runs'}")
    target, capacity_bytes = _one_target([r for r in records if r.info.id in {s.run for s in loads}])
    with stderr().status("fitting") as status:
        found = fit(loads, capacity_bytes, status.update)
    if not found:
        raise BadInputError("nothing to fit to: no rate of a single kind of request")
    best = found[0]
    fallen = falls(records)
    _write(best, place, target)
    if json:
        emit({**_document(found, target, place, refused, loads), "falls": [fall.document() for fall in fallen]})
    else:
        _print(found, target, place, refused, loads)
        _print_falls(fallen)
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


def _measure(
    target: str,
    each: str | None,
    writes: bool,
    size: str | None,
    overwrite: tuple[str, ...],
    destroys_data: bool,
    store: Path | None,
) -> list[Record]:
    """Every load is a run of its own; those of real targets are kept in the store."""
    if bricks.is_modelled(target):
        return _measure_model(target, each, writes)
    seconds = 1.0 if each is None else _seconds(each)
    plans = grid.plans(seconds, writes=writes)
    records: list[Record] = []
    with (
        Store(store) as kept,
        aim((target,), size=size, scratch=None, keep=False, overwrite=overwrite, destroys_data=destroys_data) as aimed,
        Interrupt() as interrupt,
        Terminal() as terminal,
    ):
        for note in (*aimed.notes, _how_long(plans, seconds, fixed=each is not None)):
            terminal.note(note)
        terminal.expect(len(plans))
        study = _Measuring(kept, Runner(kept, terminal, interrupt), aimed, terminal.note)
        outcome, message = study.run(plans[:1], records)
        if each is None and records:
            plans = grid.plans(grid.longer(seconds, _rate(records[0])), writes=writes)
        if outcome == "done":
            outcome, message = study.run(plans[1:], records)
        study.end(outcome)
    if outcome == "interrupted":
        raise KeyboardInterrupt
    if outcome != "done":
        raise BrickyardError(f"{target}: {message or 'a run failed'}")
    return records


def _how_long(plans: list[str], seconds: float, *, fixed: bool) -> str:
    whole_s = len(plans) * (seconds + grid.WARMUP_S)
    slow = "" if fixed else f", on slow storage up to {whole_s * grid.MOST_LONGER / 60:.0f} min"
    return f"{len(plans)} loads of {seconds:g} s: about {whole_s:.0f} s{slow}; then the fit, up to some minutes"


class _Measuring:
    """Runs of one study; where writes are refused the reads stand."""

    def __init__(self, kept: Store, runner: Runner, aimed: Aim, note: Callable[[str], None]) -> None:
        self.kept, self.runner, self.aimed, self.note = kept, runner, aimed, note
        self.study: int | None = None
        self.notes: list[str] = []

    def run(self, plans: list[str], records: list[Record]) -> tuple[str, str]:
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


def _seconds(text: str) -> float:
    from brickyard import _core

    try:
        seconds = _core.parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise BadInputError(f"--each: {error}") from error
    if seconds < SHORTEST_S:
        raise BadInputError(f"--each {text}: at least {SHORTEST_S:g}s")
    return seconds


SHORTEST_S = 0.2


def _rate(record: Record) -> float:
    return rates(record)[0]


def _measure_model(target: str, each: str | None, writes: bool) -> list[Record]:
    brick = Brick(target.removeprefix(bricks.MODELLED))
    seconds = grid.MODELLED_S if each is None else _seconds(each)
    plans = grid.plans(seconds, writes=writes, requests=grid.MODELLED_REQUESTS)
    records = []
    with stderr().status("measuring the modelled brick") as status:
        for number, plan in enumerate(plans, 1):
            status.update(f"measuring the modelled brick: load {number} of {len(plans)}")
            record = simulate(plan, brick, None)
            info = replace(record.info, id=number, outcome="done", targets=[target])
            records.append(replace(record, info=info))
    return records


def _one_target(records: list[Record]) -> tuple[str, int]:
    """All loads have to be of one brick, in one condition."""
    targets = dict.fromkeys((r.info.targets[0], r.info.condition) for r in records)
    if len(targets) > 1:
        names = ", ".join(f"{target} ({condition})" for target, condition in targets)
        raise BadInputError(f"the runs are of several bricks: {names}; name those of one")
    facts = [r.info.engine.get("targets", []) for r in records]
    sizes = [int(found[0]["data_bytes"]) for found in facts if found]
    if not sizes:
        raise BadInputError("the runs do not say how large their target was; measure it with `advise fit TARGET`")
    return next(iter(targets))[0], max(sizes)


def _write(best: Fitted, place: Path, target: str) -> None:
    errors = f"median error {best.training_error:.1%} where fitted"
    if best.held_out_error is not None:
        errors += f", {best.held_out_error:.1%} where kept back"
    text = best.model.text(
        f"{target}, fitted", f"{best.verdict.capitalize()}: {errors}.", f"`brickyard advise fit` of {target}",
        best.fitted_to,
    )  # fmt: skip
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new_file(place, b"brickyard advise fit").write_text(text, "utf-8")
    except OSError as error:
        raise BadInputError(f"{place}: cannot be written: {error.strerror}") from error


def spoken(place: Path) -> str:
    """How the file is named as a target."""
    if place.parent == bricks.own_directory():
        return f"sim:{place.stem}"
    return f"sim:{place}"


def _caveats(loads: list[Seen]) -> list[str]:
    found = []
    if not any(s.in_flight == 1 for s in loads):
        found.append(
            "nothing was measured with one request in flight, so latency and parallelism cannot be told apart; "
            "`advise fit TARGET` measures that"
        )
    if not any(s.operation != "read" for s in loads):
        found.append("no writes were measured; the write path is assumed")
    return found


def _document(found: list[Fitted], target: str, place: Path, refused: list[str], loads: list[Seen]) -> Json:
    best = found[0]
    return {
        "target": target,
        "brick": str(place),
        "spoken": spoken(place),
        "class": best.model.name,
        "verdict": best.verdict,
        "training_error_percent": best.training_error * 100,
        "held_out_error_percent": None if best.held_out_error is None else best.held_out_error * 100,
        "kinds": [{"kind": kind, "median_error_percent": error * 100} for kind, error in best.kinds.items()],
        "classes": [{"class": f.model.name, "training_error_percent": f.training_error * 100} for f in found],
        "parameters": {
            key: {"value": value, "basis": f"fitted to {best.fitted_to[key]}" if key in best.fitted_to else "derived"}
            for key, value in best.model.values.items()
        },
        "fitted_to": [p.document() for p in best.training],
        "held_out": [p.document() for p in best.held_out],
        "left_out": refused,
        "caveats": _caveats(loads),
    }


def _print(found: list[Fitted], target: str, place: Path, refused: list[str], loads: list[Seen]) -> None:
    out = stdout()
    best = found[0]
    columns = [("load", "left"), ("measured /s", "right"), ("predicted /s", "right"), ("error", "right")]
    for title, rows in (("Fitted to", best.training), ("Kept back and predicted", best.held_out)):
        if rows:
            out.print(table(title, columns, [_row(p) for p in rows]))
            out.print()
    out.print(f"{target}: {_sentence(best)}", style="bold", markup=False, soft_wrap=True)
    if len(found) > 1:
        others = ", ".join(f"{f.model.name} {f.training_error:.0%}" for f in found[1:])
        out.print(f"other classes, median error where fitted: {others}", markup=False, soft_wrap=True)
    for text in (*_caveats(loads), *refused[:3]):
        out.print(text, markup=False, soft_wrap=True)
    if len(refused) > 3:
        out.print(f"and {len(refused) - 3} more runs left out", markup=False)
    out.print(f"brick: {place}; use it as {spoken(place)}", markup=False, soft_wrap=True)


def _print_falls(fallen: list[Fall]) -> None:
    if not fallen:
        return
    out = stdout()
    out.print("The rate fell within these runs; the model has their mean, and no burst:", markup=False)
    for fall in fallen[:MOST_FALLS]:
        out.print(f"  {fall.words}", markup=False, soft_wrap=True)
    if len(fallen) > MOST_FALLS:
        out.print(f"  and {len(fallen) - MOST_FALLS} more", markup=False)
    if any(fall.reads for fall in fallen):
        out.print(
            "  --set burst_ios=… --set peak_iops=… gives a capped volume its credits", markup=False, soft_wrap=True
        )


MOST_FALLS = 6


def _sentence(best: Fitted) -> str:
    words = f"median error {best.training_error:.1%} on {len(best.training)} loads that it was fitted to"
    if best.held_out_error is None:
        words += "; none was kept back, so nothing says how well it predicts"
    else:
        words += f", {best.held_out_error:.1%} on {len(best.held_out)} kept back"
    bad = ", ".join(f"{kind} {error:.0%}" for kind, error in best.kinds.items() if error > FITS)
    if best.verdict == "does not fit":
        return (
            f"no model class fits it. The nearest, {best.model.name}, has a {words}, but is off by {bad} (medians). "
            "Do not trust its predictions there."
        )
    return f"{best.verdict} {best.model.name}: {words}{f'; off by {bad} (medians)' if bad else ''}"


def _row(p: Predicted) -> list[str]:
    return [p.seen.label, format_iops(p.seen.iops), format_iops(p.iops), f"{p.error:+.1%}"]
