"""Duty: verdicts and prices as headings and rows of text, for terminal and report alike. Refusal: no layout."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.analysis.figures.price import Price, costs
from brickyard.analysis.judging.verdict import Finding, Verdict
from brickyard.rulers import Requirement
from brickyard.store import Record
from brickyard.units import format_iops, format_mib_per_s, format_ns, three_digits

VERDICT_COLUMNS = ("requirement", "required", "measured", "headroom", "verdict")
PRICE_COLUMNS = ("phase", "USD per IOPS", "USD per MiB/s", "USD per TB", "USD per port")


def figure_text(requirement: Requirement, value: float) -> str:
    if requirement.figure == "iops":
        return f"{format_iops(value)} IOPS"
    if requirement.figure == "throughput":
        return f"{format_mib_per_s(value)} MiB/s"
    if requirement.is_share:
        return f"{value * 100:.3g} % failed"
    if requirement.is_count:
        return f"{value:,.0f} dropped"
    return f"{requirement.figure} {format_ns(value)}"


def threshold_text(requirement: Requirement) -> str:
    condition = f" while {requirement.condition.replace('_', ' ')}" if requirement.condition else ""
    return f"{'≥' if requirement.is_rate else '≤'} {figure_text(requirement, requirement.threshold)}{condition}"


def verdict_rows(found: Verdict) -> list[list[str]]:
    return [
        [
            f.requirement.name,
            threshold_text(f.requirement),
            "–" if f.value is None else figure_text(f.requirement, f.value),
            "–" if f.head_room is None else f"× {three_digits(f.head_room)}",
            _outcome(f),
        ]
        for f in found.findings
    ]


def _outcome(found: Finding) -> str:
    return f"{found.word}: {found.reason}" if found.reason else found.word


def verdict_title(found: Verdict) -> str:
    """`hd-video: fail, 5 of 8; decided by 1080i 10-bit`."""
    word = found.word
    many = len(found.findings)
    count = f", {sum(f.passed for f in found.findings)} of {many} requirements are met" if many > 1 else ""
    return f"{found.ruler.name}: {word}{count}; decided by {found.decided.requirement.name}"


WORDS = {"pass": "met", "fail": "not met"}


def verdict_line(found: Verdict) -> str:
    """`Requirement p99<=5ms: not met, p99 27.0 ms.`: the verdict in the answer of a run."""
    many, decided = len(found.findings), found.decided
    if found.word == "fail" and decided.value is None and decided.reason == "not measured":
        few = ", or fewer than ten lie beyond the percentile" if decided.requirement.is_percentile else ""
        name = decided.requirement.name
        return f"Requirement {found.ruler.name}: not met, because {name} was not measured: there were none{few}."
    said = [WORDS.get(found.word, found.word)]
    if many > 1 and found.word in WORDS:
        said.append(f"{sum(f.passed for f in found.findings)} of {many} are; decided by {decided.requirement.name}")
    if decided.value is not None:
        said.append(figure_text(decided.requirement, decided.value))
    if decided.reason and decided.reason != found.word:
        said.append(decided.reason)
    return f"Requirement{'s' if many > 1 else ''} {found.ruler.name}: {', '.join(said)}."


def together_line(found: Sequence[tuple[int, Verdict]]) -> str:
    """`Requirement mean<=5ms: met in all 3 runs, least headroom × 1.22 in run 7.`: verdicts of runs by one ruler."""
    run, worst = min(found, key=lambda item: (item[1].decided.passed, item[1].decided.head_room or 0.0))
    ruler, decided = worst.ruler.name, worst.decided
    met = sum(verdict.passed for _, verdict in found)
    if met == len(found):
        room = "" if decided.head_room is None else f", least headroom × {three_digits(decided.head_room)} in run {run}"
        return f"Requirement {ruler}: met in all {len(found)} runs{room}."
    value = "" if decided.value is None else f", {figure_text(decided.requirement, decided.value)}"
    return f"Requirement {ruler}: met in {met} of {len(found)} runs; run {run}: {_outcome(decided)}{value}."


def price_rows(record: Record, price: Price) -> list[list[str]]:
    return [
        [
            cost.phase,
            *(_usd(v) for v in (cost.usd_per_iops, cost.usd_per_mib_per_s, cost.usd_per_tb, cost.usd_per_port)),
        ]
        for cost in costs(record, price)
    ]


def _usd(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if value >= 0.995 else f"{value:.3g}"
