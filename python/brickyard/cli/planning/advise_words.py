"""Duty: what `brickyard advise buy` found, in words for the terminal and the page. Refusal: no figures are computed
here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard.advise import buy as buying
from brickyard.advise.answer import advice, chance_words
from brickyard.advise.assumptions import assumptions
from brickyard.analysis.figures.workload import plan_words
from brickyard.analysis.judging.answers import Answer
from brickyard.analysis.judging.verdict import Finding
from brickyard.analysis.judging.verdict_words import measured_text, threshold_text
from brickyard.cli.parts.output import print_line, stdout, table
from brickyard.cli.parts.tables import print_answer
from brickyard.units import format_iops, format_mib_per_s, format_seconds, three_digits, told_apart

NEAREST = 4
"""So many are shown where none meets the requirements."""
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


@dataclass(frozen=True)
class Bought:
    """What a search found for whom it was made."""

    found: buying.Found
    wanted: buying.Wanted
    profile: str
    fastest: bool
    unpriced: list[str]

    @property
    def answer(self) -> Answer:
        return advice(self.found, self.wanted, fastest=self.fastest)

    @property
    def assumptions(self) -> list[str]:
        return assumptions(self.found, self.wanted)

    @property
    def shown(self) -> list[buying.Trial]:
        return self.found.ranked or sorted(self.found.trials, key=_nearness, reverse=True)[:NEAREST]

    @property
    def title(self) -> str:
        count = f"{len(self.found.trials)} simulated, {self.found.left_out} not simulated"
        if self.found.ranked:
            return f"Meet the requirements ({count})"
        return f"None meets the requirements ({count}); the nearest:"

    @property
    def asked(self) -> list[str]:
        plan = self.wanted.plan
        return [
            f"workload: {plan.title or self.profile}: {plan_words(plan)}",
            f"required: {'; '.join(_asked(self.wanted))}",
        ]

    @property
    def named(self) -> list[str]:
        """Each brick with its number in the table, and what it fails."""
        lines = []
        for number, trial in enumerate(self.shown, 1):
            lines.append(f"{number}  {trial.candidate.name}")
            lines += [f"   {line}" for line in ([] if trial.met else _failures(trial))]
        return lines

    @property
    def columns(self) -> list[str]:
        conditions = [condition.replace("_", " ") for condition in self.wanted.conditions]
        over = f"USD, {self.wanted.terms.years:g} y"
        least = ["least headroom"] if self.found.ranked else []
        return ["", over, "once", "a month", "usable", "rebuild", "data loss", *conditions, *least]

    def named_table(self) -> tuple[list[str], list[list[str]]]:
        """Columns and rows of a table that has the names of the bricks as well, and what they fail."""
        fails = [] if self.found.ranked else ["fails"]
        rows = [
            [row[0], trial.candidate.name, *("; ".join(_failures(trial)) for _ in fails), *row[1:]]
            for row, trial in zip(self.rows, self.shown, strict=True)
        ]
        return ["", "brick", *fails, *self.columns[1:]], rows

    @property
    def rows(self) -> list[list[str]]:
        return [_row(number, trial, self.wanted) for number, trial in enumerate(self.shown, 1)]

    @property
    def notes(self) -> list[str]:
        lines = _footnotes(self.shown, self.wanted)
        if self.unpriced:
            lines.append(f"left out, no price: {', '.join(self.unpriced)}; --price NAME=USD gives one")
        return lines

    def print(self, written: str) -> None:
        """`written`: where the report or the picture is."""
        out = stdout()
        print_answer(out, self.answer)
        out.print(self.title, style="bold", markup=False)
        for line in (*self.asked, *self.named):
            print_line(out, line)
        out.print()
        columns = [(name, "left" if name == "least headroom" else "right") for name in self.columns]
        out.print(table("", columns, self.rows, keys=1))
        for line in self.notes:
            print_line(out, line)
        if written:
            out.print(written, markup=False, soft_wrap=True)
        out.print()
        out.print("Assumptions", style="bold", markup=False)
        for line in self.assumptions:
            print_line(out, f"- {line}")


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
        value = measured_text(finding) or finding.reason
        times = f", {_times_too(finding, finding.head_room)}" if finding.head_room else ""
        times += "" if state.holds else f", and still falling after {format_seconds(state.simulated_s)}"
        asked = threshold_text(finding.requirement)
        lines.append(f"{name.replace('_', ' ')}: {value}, {asked} required{times}")
    return lines


def _times_too(finding: Finding, head_room: float) -> str:
    least = "at least " if finding.bound else ""
    times = told_apart(three_digits, 1 / head_room, 1.0)
    return f"{least}{times} times too {'low' if finding.requirement.is_rate else 'long'}"


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
