"""Duty: `brickyard advise`: buy, charts and parts. Refusal: no figures are computed here."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import bricks, rulers
from brickyard.advise import buy as buying
from brickyard.advise import parts as parts_of
from brickyard.advise.answer import advice, chance_words
from brickyard.advise.assumptions import assumptions
from brickyard.advise.candidates import MEMBERS, Candidate, candidates
from brickyard.advise.costs import Terms
from brickyard.advise.simulate import here, unverified
from brickyard.analysis.figures.workload import plan_words
from brickyard.analysis.judging.idle import idle_switch_lines
from brickyard.analysis.judging.verdict import Finding
from brickyard.analysis.judging.verdict_words import figure_text, threshold_text
from brickyard.cli.parts import conditioning, options
from brickyard.cli.parts.judging import sold_capacity
from brickyard.cli.parts.on_hosts import ComputedOn, sweeping
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import Working
from brickyard.cli.parts.tables import print_answer
from brickyard.errors import BadInputError
from brickyard.outputs import folder
from brickyard.report.picture import Picture, room_for
from brickyard.store import Json
from brickyard.units import format_iops, format_mib_per_s, format_seconds, three_digits

LEAST_MTTF_HOURS = 8_766
LEAST_YEARS = 0.1  # volumes are charged by the month, and nobody buys drives for less
MOST_YEARS = 30
PartWords = Annotated[
    tuple[str, ...],
    Parameter(
        name="--parts",
        negative="",
        show_default=False,
        consume_multiple=True,
        help="Drives, controllers and volumes by name, or a TOML file with prices; by default those of `advise "
        "parts --template`.",
    ),
]


def buy(
    profile: str,
    /,
    *,
    require: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            consume_multiple=True,
            help="Requirements to meet: the name of a ruler, or 'p99<=20ms'.",
        ),
    ],
    parts: PartWords = (),
    price: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="Price of a part, as NAME=USD. May be repeated."),
    ] = (),
    capacity: Annotated[
        str | None,
        Parameter(
            help="Usable capacity that is needed, such as 1TB (10^12 bytes) or 1TiB. Without it, volumes have the "
            "smallest size that meets the requirements."
        ),
    ] = None,
    budget: Annotated[float | None, Parameter(help="USD that may be spent over --years.")] = None,
    years: Annotated[float, Parameter(help="Number of years over which costs are summed.")] = Terms.years,
    kwh: Annotated[float, Parameter(help="USD per kilowatt hour, including cooling.")] = Terms.usd_a_kwh,
    sure: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Require that the requirements are also met at the worse end of the models' interval.",
        ),
    ] = False,
    fastest: Annotated[
        bool, Parameter(negative="", show_default=False, help="The fastest instead of the cheapest.")
    ] = False,
    level: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            consume_multiple=True,
            help="RAID levels; by default all except those of ZFS, limited to those with redundancy if a condition "
            "needs it.",
        ),
    ] = (),
    members: Annotated[
        tuple[int, ...],
        Parameter(negative="", show_default=False, consume_multiple=True, help="Numbers of drives to try."),
    ] = (),
    condition: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            consume_multiple=True,
            help=f"Conditions; by default normal, degraded and rebuilding. Possible are {options.CONDITION_WORDS}.",
        ),
    ] = (),
    mttf: Annotated[
        float | None,
        Parameter(help="Mean time to failure of every drive in hours; by default that published for its class."),
    ] = None,
    duration: Annotated[
        str | None,
        Parameter(
            help="Virtual time of each simulation; by default until the rate no longer falls, at most 16 minutes, and "
            "for a ramp until its end."
        ),
    ] = None,
    runners_up: Annotated[int, Parameter(help="How many more bricks to find after the best.")] = 3,
    most: Annotated[int, Parameter(help="The most bricks to simulate.")] = 120,
    overrides: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            negative="",
            show_default=False,
            help="Change a key of the profile, such as --set depth=8. May be repeated.",
        ),
    ] = (),
    hosts: ComputedOn = None,
    output: options.Pictures = None,
    json: options.Json = False,
) -> int:
    """The cheapest (or fastest) modelled brick that meets the requirements in every condition.

    Parameters
    ----------
    profile
        The workload: the name of a profile that ships with Brickyard, or the path of a TOML file.
    """
    if not LEAST_YEARS <= years <= MOST_YEARS or not 0 <= kwh < float("inf"):
        raise BadInputError(f"--years must be at least 0.1 and at most {MOST_YEARS}, and --kwh 0 USD or more")
    terms = Terms(years, kwh)
    wanted = _wanted(profile, require, condition, capacity, budget, mttf, duration, list(overrides))
    wanted = replace(wanted, terms=terms, sure=sure)
    if runners_up < 0 or most < 1 or any(count < 1 for count in members):
        raise BadInputError("--runners-up must be 0 or more, --most and --members 1 or more")
    known = (*parts_of.LEVELS, *parts_of.ZFS_LEVELS)
    if wrong := sorted(set(level) - set(known)):
        raise BadInputError(f"--level {wrong[0]}: there are {', '.join(known)}")
    chosen = parts_of.read(parts, price)
    console = stderr()
    if output is not None and output.is_dir():
        from brickyard.report.advice import PICTURE

        room_for(output, PICTURE)
    unpriced = [] if fastest and budget is None else chosen.unpriced()
    levels = level or buying.default_levels(wanted.conditions)
    among = candidates(
        chosen,
        levels,
        members or MEMBERS,
        wanted.conditions,
        terms=terms,
        capacity_bytes=wanted.room_bytes,
        plan=wanted.plan,
    )
    fitting = [c for c in among if (c.usd is not None or not unpriced) and buying.is_worth_it(c, wanted)]
    if not fitting:
        raise BadInputError(
            f"none of {len(among)} bricks has a price, fits the budget and has the capacity; add parts or --price"
        )
    console.print(f"{len(fitting)} combinations are possible; at most {most} of them are simulated", markup=False)
    notes = [*_idle(fitting, wanted), *_summed(wanted)]
    for line in notes:
        print_line(console, line)
    with Working("modelled bricks", console) as working, sweeping(hosts) as sweep:
        carry = sweep.events if sweep else here
        progress = _Progress(working, min(most, len(fitting)))

        def evaluated(candidate: Candidate) -> buying.Trial:
            progress.begins(candidate.name)
            return buying.evaluate(candidate, wanted, carry)

        found = buying.search(
            fitting,
            evaluated,
            fastest=fastest,
            throughput=wanted.throughput,
            enough=1 + runners_up,
            most=most,
            cores=sweep.cores if sweep else os.cpu_count() or 1,
            progress=progress,
        )
    from brickyard.report.advice import cost_against_rate

    written = _write(cost_against_rate(found, throughput=wanted.throughput, required=wanted.required_rate), output)
    assumed = assumptions(found, wanted)
    if json:
        emit(
            {
                **advice(found, wanted, fastest=fastest).document(),
                "assumptions": assumed,
                "years": years,
                "usd_a_kwh": kwh,
                "profile": profile,
                "workload": plan_words(wanted.plan),
                "rulers": [ruler.name for ruler in wanted.rulers],
                "conditions": list(wanted.conditions),
                "by": "rate" if fastest else "cost",
                "found": [trial.document() for trial in found.ranked],
                "simulated": [trial.document() for trial in found.trials],
                "not_simulated": found.left_out,
                "without_price": unpriced,
                "mttf_hours": mttf,
                "notes": notes,
                "pictures": written,
            }
        )
    else:
        print_answer(stdout(), advice(found, wanted, fastest=fastest))
        _print_found(found, wanted, profile, unpriced, written)
        stdout().print()
        stdout().print("Assumptions", style="bold", markup=False)
        for line in assumed:
            print_line(stdout(), f"- {line}")
    return 0 if found.ranked else 1


def _wanted(
    profile: str,
    require: tuple[str, ...],
    conditions: tuple[str, ...],
    capacity: str | None,
    budget: float | None,
    mttf: float | None,
    duration: str | None,
    overrides: list[str],
) -> buying.Wanted:
    if not require:
        raise BadInputError("--require: at least one ruler, such as --require 'p99<=50ms'")
    if (mttf is not None and not 0 < mttf < float("inf")) or (budget is not None and not 0 <= budget < float("inf")):
        raise BadInputError("--mttf must be above 0 hours, and --budget 0 USD or more")
    if mttf is not None and mttf < LEAST_MTTF_HOURS:
        raise BadInputError(
            f"--mttf {mttf:g}: at least {LEAST_MTTF_HOURS:,} (a year) is needed; data sheets state 1,000,000 hours and"
            " more"
        )
    if capacity is not None and capacity.strip().isdigit() and int(capacity) > 0:
        raise BadInputError(f"--capacity {capacity}: needs a unit; write {capacity}GB or {capacity}TB")
    conditions = conditioning.modelled_words(conditions)
    plan = buying.plan_of(profile, [*unverified(profile), *overrides], duration)
    timed = duration is not None or any(_is_duration(text) for text in overrides)
    return buying.Wanted(
        plan=plan,
        rulers=tuple(rulers.read(word) for word in require),
        conditions=conditions or buying.CONDITIONS,
        capacity_bytes=sold_capacity(capacity) or 0,
        budget_usd=budget,
        mttf_hours=mttf or 0.0,
        is_timed=timed,
    )


def _is_duration(change: str) -> bool:
    """Whether a change of a profile is one of how long it runs."""
    return change.split("=", 1)[0].strip().rsplit(".", 1)[-1] in ("duration", "requests", "bytes", "passes")


def _write(picture: Picture | None, output: Path | None) -> list[str]:
    if picture is None or output is None:
        return []
    try:
        folder(output)
        picture.write(output)
    except OSError as error:
        raise BadInputError(f"--output {output}: cannot be written: {error.strerror}") from error
    return [str(output / f"{picture.name}.{ending}") for ending in ("png", "svg")]


def _idle(candidates: Sequence[Candidate], wanted: buying.Wanted) -> list[str]:
    """One line for each brick that a requested condition leaves as it is, named by its drive."""
    if "write_cache_off" not in wanted.conditions:
        return []
    return idle_switch_lines((f"{c.drive.name} on {c.keeper.name}", c.resolved.brick) for c in candidates)


def _summed(wanted: buying.Wanted) -> list[str]:
    """A rate of several closed loops is a sum in which one that is quick hides one that starves."""
    names = [s.name or str(n) for phase in wanted.plan.phase for n, s in enumerate(phase.stream, 1)]
    rulers = [r.figure for ruler in wanted.rulers for r in ruler.requirements if r.is_rate and r.stream is None]
    if len(names) < 2 or not rulers:
        return []
    return [
        f"{rulers[0]} is the sum over {len(names)} streams ({', '.join(names)}); a brick with a higher sum can be "
        "slower in one of them: a ruler file can set a limit for each stream (stream = …, see `brickyard rulers show "
        "exchange`)"
    ]


class _Progress:
    """How many bricks are done, which was begun last, and how long the rest takes at the pace so far."""

    def __init__(self, working: Working, total: int) -> None:
        self.working, self.total = working, total
        self.began = time.monotonic()
        self.done, self.name = 0, ""

    def begins(self, name: str) -> None:
        self.name = name
        self._show()

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self._show()

    def _show(self) -> None:
        spent_s = time.monotonic() - self.began
        left = f", at most {spent_s / self.done * (self.total - self.done):.0f} s left" if self.done else ""
        self.working.says(
            f"{self.done} of at most {self.total} bricks simulated in {spent_s:.0f} s{left}; now {self.name}"
        )


UNKNOWN = "unknown"
MOST_TOLD = 3
"""Requirements of a ruler that are shown; of more, its name."""


def _asked(wanted: buying.Wanted) -> list[str]:
    """Every requirement, and in which conditions it has to be met."""
    asked = [
        ruler.name if len(ruler.requirements) > MOST_TOLD else ", ".join(map(threshold_text, ruler.requirements))
        for ruler in wanted.rulers
    ]
    return [*asked, f"when {', '.join(c.replace('_', ' ') for c in wanted.conditions)}"]


def _print_found(
    found: buying.Found, wanted: buying.Wanted, profile: str, unpriced: list[str], written: list[str]
) -> None:
    out = stdout()
    count = f"{len(found.trials)} simulated, {found.left_out} not simulated"
    shown = found.ranked or sorted(found.trials, key=_nearness, reverse=True)[:4]
    head = (
        f"Meet the requirements ({count})" if found.ranked else f"None meets the requirements ({count}); the nearest:"
    )
    out.print(head, style="bold", markup=False)
    print_line(out, f"workload: {wanted.plan.title or profile}: {plan_words(wanted.plan)}")
    print_line(out, f"required: {'; '.join(_asked(wanted))}")
    for number, trial in enumerate(shown, 1):
        print_line(out, f"{number}  {trial.candidate.name}")
        for line in [] if trial.met else _failures(trial):
            print_line(out, f"   {line}")
    over = f"USD, {wanted.terms.years:g} y"
    names = (
        "",
        over,
        "once",
        "a month",
        "usable",
        "rebuild",
        "data loss",
        *(c.replace("_", " ") for c in wanted.conditions),
    )
    columns = [(name, "right") for name in names]
    if found.ranked:
        columns.append(("least headroom", "left"))
    out.print()
    out.print(table("", columns, [_row(n, t, wanted) for n, t in enumerate(shown, 1)], keys=1))
    for line in _footnotes(shown, wanted):
        print_line(out, line)
    if unpriced:
        print_line(out, f"left out, no price: {', '.join(unpriced)}; --price NAME=USD gives one")
    for path in written[:1]:
        out.print(f"picture: {path}", markup=False, soft_wrap=True)


def _footnotes(shown: Sequence[buying.Trial], wanted: buying.Wanted) -> list[str]:
    """What the cells of the table mean."""
    said = [
        f"rates in {'MiB/s' if wanted.throughput else 'requests/s'}; in brackets: the models' interval",
        *_capped(shown, wanted),
    ]
    if any(trial.candidate.assumed_prices for trial in shown):
        said.append("USD with ≈: a price in it is assumed, and is nobody's offer")
    if any(trial.loss_chance is not None for trial in shown):
        said.append(f"data loss: mean time to it; in brackets: its probability within {wanted.terms.years:g} years")
    if unknown := [str(number) for number, trial in enumerate(shown, 1) if trial.failures is None]:
        said.append(f"data loss unknown: no failure rate is known of {', '.join(unknown)}; --mttf gives one")
    if any(len(t.states) < len(buying.conditions_of(t.candidate, wanted)) for t in shown):
        said.append("–: not simulated, since an earlier condition failed")
    if any(trial.candidate.setting for trial in shown):
        said.append("a cloud volume has no degraded or rebuilding state that is visible to its user")
    return said


def _capped(shown: Sequence[buying.Trial], wanted: buying.Wanted) -> list[str]:
    """Where the intervals that are shown end before their factor does."""
    spreads = {
        trial.spread.kind: trial.spread
        for trial in shown
        if trial.spread and any(trial.is_capped(s, throughput=wanted.throughput) for s in trial.states.values())
    }
    return [f"the interval of {kind} ends at {spread.cap_words}" for kind, spread in spreads.items()]


def _nearness(trial: buying.Trial) -> tuple[int, float]:
    last = list(trial.states.values())[-1]
    return len(trial.states), last.decided.head_room or 0.0


def _failures(trial: buying.Trial) -> list[str]:
    """Every requirement that fails in the condition that was the last, and by how much."""
    name, state = list(trial.states.items())[-1]
    lines = []
    for finding in state.failing:
        value = "not measured" if finding.value is None else figure_text(finding.requirement, finding.value)
        times = "" if not finding.head_room else f", {three_digits(1 / finding.head_room)} times too {_too(finding)}"
        times += "" if state.holds else f", and still falling after {format_seconds(state.simulated_s)}"
        asked = threshold_text(finding.requirement)
        lines.append(f"{name.replace('_', ' ')}: {value}, {asked} required{times}")
    return lines


def _too(finding: Finding) -> str:
    return "low" if finding.requirement.is_rate else "long"


def _row(number: int, trial: buying.Trial, wanted: buying.Wanted) -> list[str]:
    def rate(state: buying.State) -> str:
        form = format_mib_per_s if wanted.throughput else format_iops
        value = state.bytes_per_s if wanted.throughput else state.iops
        ends = trial.ends(state, throughput=wanted.throughput)
        return f"{form(value)} ({form(ends[0])} to {form(ends[1])})" if ends else form(value)

    made = trial.candidate
    usd, years, hours = made.cost_usd, trial.data_loss_years, trial.rebuild_hours
    row = [
        str(number),
        UNKNOWN if usd is None else f"{'≈ ' if made.assumed_prices else ''}{usd:,.0f}",
        "–" if made.usd is None else f"{made.usd:,.0f}",
        f"{made.usd_a_month:,.2f}" if made.usd_a_month else "–",
        _capacity(trial.capacity_bytes),
        "–" if hours is None else f"{'' if trial.rebuild_is_simulated else '≈ '}{_span(hours)}",
        UNKNOWN if years is None else f"{three_digits(years)} y ({chance_words(trial.loss_chance or 0.0)})",
        *(rate(trial.states[c]) if c in trial.states else "–" for c in wanted.conditions),
    ]
    if trial.met:
        name, state = min(trial.states.items(), key=lambda item: item[1].decided.head_room or 0.0)
        row.append(f"{three_digits(state.decided.head_room or 0.0)} × {name.replace('_', ' ')}")
    return row


def _capacity(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.0f} GB" if size_bytes < 1e13 else f"{size_bytes / 1e12:,.1f} TB"


def _span(hours: float) -> str:
    return f"{three_digits(hours)} h" if hours < 48 else f"{three_digits(hours / 24)} d"


def parts(
    *,
    template: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print a price file for you to fill in, for --parts.")
    ] = False,
    json: options.Json = False,
) -> int:
    """The drives, controllers and volumes that a search may use, which of them fit together, and prices with their
    dates."""
    if template:
        stdout().out(parts_of.template(), end="", highlight=False)
        return 0
    places = [place for place in bricks.texts() if place.startswith(("drives/", "controllers/"))]
    known = parts_of.read([place.split("/", 1)[1] for place in places])
    offered = parts_of.read(())
    if json:
        documents: dict[str, list[Json]] = {
            kind: [
                {
                    "name": p.name,
                    "usd": p.usd,
                    "dated": p.dated or None,
                    "source": p.source or None,
                    "fits": list(p.fits),
                    "levels": list(p.levels),
                }
                for p in group
            ]
            for kind, group in (
                ("drives", known.drives),
                ("controllers", known.controllers),
                ("volumes", offered.volumes),
            )
        }
        emit({**documents})
        return 0
    rows = [
        [p.name, kind, ", ".join(p.fits) or "any", _usd(p), p.dated, p.source]
        for kind, group in (("drive", known.drives), ("controller", known.controllers), ("volume", offered.volumes))
        for p in group
    ]
    columns = [
        ("part", "left"),
        ("kind", "left"),
        ("interface", "left"),
        ("USD", "right"),
        ("of", "left"),
        ("price from", "left"),
    ]
    stdout().print(table("", columns, rows, wrapped=("interface", "price from")))
    return 0


def _usd(part: parts_of.Part) -> str:
    if part.volume is not None:
        return f"{part.volume.usd_a_gib_month:g} per GiB and month"
    return "–" if part.usd is None else f"{part.usd:,.0f}"
