"""Duty: `brickyard advise`: buy, charts and parts. Refusal: no figures are computed here."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import bricks, rulers
from brickyard.advise import buy as buying
from brickyard.advise import parts as parts_of
from brickyard.advise.candidates import MEMBERS, Candidate, candidates
from brickyard.advise.costs import Terms
from brickyard.advise.simulate import here, unverified
from brickyard.analysis.figures.workload import plan_words
from brickyard.analysis.judging.applying import unfit
from brickyard.analysis.judging.idle import idle_switch_lines
from brickyard.cli.parts import conditioning, options
from brickyard.cli.parts.judging import sold_capacity
from brickyard.cli.parts.on_hosts import ComputedOn, sweeping
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import Working
from brickyard.cli.planning.advise_words import Bought
from brickyard.errors import BadInputError
from brickyard.outputs import check_folder, check_parent, folder, report_place
from brickyard.report.picture import Picture, is_picture, room_for
from brickyard.store import Json

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


def _check_place(place: Path) -> None:
    if not is_picture(place):
        options.check_report(place)
        return
    check_parent(place)
    check_folder(place.parent)
    room_for(place.parent, place.stem)


AdvicePlace = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        group=options.OUTPUT,
        validator=options.Written(_check_place),
        help="A folder for the report, its page when the name ends in .html, or the picture alone when it ends in .svg "
        "or .png.",
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
    output: AdvicePlace = None,
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
    bought = Bought(found, wanted, profile, fastest, unpriced)
    written = Written() if output is None else _written(bought, output)
    if json:
        emit(
            {
                **bought.answer.document(),
                "assumptions": bought.assumptions,
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
                "report": written.report,
                "pictures": list(written.pictures),
            }
        )
    else:
        bought.print(written.words)
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
    conditions = conditioning.modelled_words(conditions)
    plan = buying.plan_of(profile, [*unverified(profile), *overrides], duration)
    asked = tuple(rulers.read(word) for word in require)
    for ruler in asked:
        if said := unfit(plan, ruler):
            raise BadInputError(
                f"--require {ruler.name}: not applicable to {profile}: {said}; name a profile with such a load, or "
                "write a requirement, such as --require 'p99<=20ms'"
            )
    timed = duration is not None or any(_is_duration(text) for text in overrides)
    return buying.Wanted(
        plan=plan,
        rulers=asked,
        conditions=conditions or buying.CONDITIONS,
        capacity_bytes=sold_capacity(capacity) or 0,
        budget_usd=budget,
        mttf_hours=mttf or 0.0,
        is_timed=timed,
    )


def _is_duration(change: str) -> bool:
    """Whether a change of a profile is one of how long it runs."""
    return change.split("=", 1)[0].strip().rsplit(".", 1)[-1] in ("duration", "requests", "bytes", "passes")


@dataclass(frozen=True)
class Written:
    """The page and the pictures; without a price there is none to draw."""

    report: str | None = None
    pictures: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"report: {self.report}" if self.report else f"picture: {self.pictures[0]}" if self.pictures else ""


def _written(bought: Bought, output: Path) -> Written:
    """A report, or the picture alone where the name is that of a picture."""
    from brickyard.report.advice import AdviceWords, cost_against_rate, write_advice
    from brickyard.report.tables import Table

    wanted = bought.wanted
    draw = partial(cost_against_rate, bought.found, throughput=wanted.throughput, required=wanted.required_rate)
    drawn = draw()
    if is_picture(output):
        return _alone(drawn, output) if drawn else Written()
    columns, rows = bought.named_table()
    words_of = 2 if bought.found.ranked else 3
    made = Table(bought.title.rstrip(":"), columns, rows, text_columns=words_of, keys=2)
    words = AdviceWords(bought.answer, bought.asked, made, bought.notes, bought.assumptions)
    page = write_advice(output, words, drawn, draw(narrow=True))
    return Written(str(page), drawn.paths(report_place(output).pictures) if drawn else ())


def _alone(drawn: Picture, output: Path) -> Written:
    named = replace(drawn, name=output.stem)
    try:
        folder(output.parent)
        named.write(output.parent)
    except OSError as error:
        raise BadInputError(f"--output {output}: cannot be written: {error.strerror}") from error
    return Written(pictures=named.paths(output.parent))


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
