"""Duty: `brickyard advise predict`. Refusal: no figures are computed here."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import bricks, profiles
from brickyard.advise import predict as predicting
from brickyard.advise.simulate import FILL_S, Brick, absorbs_writes, rates, simulate
from brickyard.cli import options
from brickyard.cli.output import emit, stderr, stdout, table
from brickyard.cli.progress import Terminal
from brickyard.cli.target import aim, split_overrides
from brickyard.errors import BadInputError, BrickyardError
from brickyard.store import Json, Record, Store
from brickyard.study.fit import refuse_programs
from brickyard.study.interrupt import Interrupt
from brickyard.study.runner import Runner, RunSpec
from brickyard.units import format_iops, format_ns

Measure = Callable[[str], Record]


def predict(
    profile: str,
    target: str,
    /,
    *,
    limit: Annotated[str, Parameter(help="Of the response time: mean:100ms, p99:20ms, max:50ms.")],
    per_mailbox: Annotated[float | None, Parameter(help="Requests a second of one mailbox, such as 0.5.")] = None,
    per_page: Annotated[float | None, Parameter(help="Requests that one page view makes.")] = None,
    phase: Annotated[str | None, Parameter(help="Which phase of the profile.")] = None,
    condition: options.Condition = None,
    duration: Annotated[
        str | None, Parameter(help="Of each rate; else 60s of virtual time, or 10s on a real target.")
    ] = None,
    overrides: options.Overrides = (),
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """How many requests a second a brick carries before its response time passes a limit.

    Parameters
    ----------
    profile
        The load, whose mix is kept; its pace becomes an open loop with Poisson arrivals.
    target
        A modelled brick such as sim:terraserver-2003, or a file or device that exists.
    """
    from brickyard import _core

    modelled = bricks.is_modelled(target)
    if condition is not None and not modelled:
        raise BadInputError("--condition: only a modelled brick (sim:NAME) can be put into a condition here")
    for name, value in (("--per-mailbox", per_mailbox), ("--per-page", per_page)):
        if value is not None and not 0 < value < float("inf"):
            raise BadInputError(f"{name} {value:g}: must be above 0")
    ruler = predicting.limit(limit)
    try:
        length_s = _core.parse_duration_ns(duration or ("60s" if modelled else "10s")) / 1e9
    except ValueError as error:
        raise BadInputError(f"--duration: {error}") from error
    if length_s <= 0:
        raise BadInputError("--duration: must be above 0")
    changes, of_brick = split_overrides((target,), list(overrides))
    whole: Json = jsonlib.loads(profiles.validate(profiles.read(profile), changes))
    refuse_programs(profile, whole, "advise predict")
    plan = predicting.one_phase(whole, phase)
    if modelled and _fills(plan, target, of_brick):
        plan["phase"][0]["warmup"] = f"{FILL_S}s"
    console = stderr()
    with (
        _modelled(target, condition, of_brick)
        if modelled
        else _real(profile, target, overwrite, i_know_this_destroys_data, store)
    ) as measure:
        console.print("what the brick does when nothing limits the rate …", markup=False)
        unlimited = measure(predicting.for_time(plan, length_s))
        parts = predicting.shares(unlimited)
        if not parts:
            raise BrickyardError(f"{target}: no request was completed; there is nothing to predict from")

        def attempt(rate: float) -> predicting.Step:
            record = measure(predicting.at_rate(plan, rate, parts, ruler.requirements[0].figure, length_s))
            step = predicting.step(record, ruler, rate)
            console.print(
                f"{format_iops(rate)} requests/s: {limit.partition(':')[0]} {format_ns(step.value_ns)}"
                f"{'' if step.holds else ', too slow'}",
                markup=False,
            )
            return step

        carried = predicting.highest(attempt, max(1.0, rates(unlimited)[0] / 2))
    _answer(profile, target, condition or "normal", limit, carried, per_mailbox, per_page, as_json=json)
    return 0 if carried.best else 1


def _fills(plan: Json, target: str, overrides: list[str]) -> bool:
    writes = any(stream["operations"]["write"] > 0 for stream in plan["phase"][0]["stream"])
    return writes and absorbs_writes(bricks.resolve(target, overrides)["brick"])


@contextmanager
def _modelled(target: str, condition: str | None, overrides: list[str]) -> Iterator[Measure]:
    brick = Brick(target.removeprefix(bricks.MODELLED))
    yield lambda plan: simulate(plan, brick, condition or "normal", overrides)


@contextmanager
def _real(
    profile: str, target: str, overwrite: tuple[str, ...], destroys_data: bool, store: Path | None
) -> Iterator[Measure]:
    """Every rate is a run of its own in the store, with its circumstances."""
    with (
        Store(store) as kept,
        aim((target,), size=None, scratch=None, keep=False, overwrite=overwrite, destroys_data=destroys_data) as aimed,
        Interrupt() as interrupt,
        Terminal() as terminal,
    ):
        runner = Runner(kept, terminal, interrupt)

        def measure(plan: str) -> Record:
            result = runner.run(RunSpec(profile, plan, aimed.targets, aimed.options))
            if result.outcome == "interrupted":
                raise KeyboardInterrupt
            if result.outcome != "done":
                raise BrickyardError(f"{target}: {result.message or 'the run failed'}")
            return kept.record(result.run)

        yield measure


def _answer(
    profile: str,
    target: str,
    condition: str,
    limit: str,
    carried: predicting.Carried,
    per_mailbox: float | None,
    per_page: float | None,
    *,
    as_json: bool,
) -> None:
    best = carried.best
    rate = best.rate_per_s if best else 0.0
    mailboxes = None if per_mailbox is None else math.floor(rate / per_mailbox)
    pages = None if per_page is None else rate / per_page
    if as_json:
        emit(
            {
                "profile": profile,
                "target": target,
                "condition": condition,
                "limit": limit,
                "rate_per_s": best.rate_per_s if best else None,
                "value_ns": best.value_ns if best else None,
                "mailboxes": mailboxes,
                "pages_per_s": pages,
                "steps": [step.document() for step in carried.steps],
            }
        )
        return
    out = stdout()
    if best is None:
        out.print(f"{target}, {condition}: no rate keeps {limit.replace(':', ' within ')}", markup=False)
        return
    rows = [
        ["requests a second", format_iops(rate)],
        [f"response, {limit.partition(':')[0]}", format_ns(best.value_ns)],
    ]
    rows += [] if mailboxes is None else [["mailboxes", f"{mailboxes:,}"]]
    rows += [] if pages is None else [["page views a second", format_iops(pages)]]
    out.print(f"{profile} on {target}, {condition}, within {limit.replace(':', ' ')}", style="bold", markup=False)
    out.print(table("", [("carries", "left"), ("", "right")], rows))
