"""Duty: verdicts and prices as headings and rows of text, for terminal and report alike. Refusal: no layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from brickyard.analysis.figures.latency import FEW_EVENTS
from brickyard.analysis.figures.price import Price, costs
from brickyard.analysis.judging.verdict import Finding, Verdict, measured_value
from brickyard.rulers import Requirement
from brickyard.store import Record
from brickyard.units import format_iops, format_mib_per_s, format_ns, three_digits, told_apart

VERDICT_COLUMNS = ("requirement", "required", "measured", "headroom", "verdict")
PRICE_COLUMNS = ("phase", "USD per IOPS", "USD per MiB/s", "USD per TB", "USD per port")


def _form(requirement: Requirement, noun: str) -> Callable[[float, int], str]:
    """What writes a figure of a requirement, with more digits where they are asked for."""
    if requirement.figure == "iops":
        rate = "IOPS" if noun == "requests" else f"{noun}/s"
        return lambda value, more: f"{format_iops(value, more)} {rate}"
    if requirement.figure == "throughput":
        return lambda value, more: f"{format_mib_per_s(value, more)} MiB/s"
    if requirement.is_share:
        return lambda value, more: f"{value * 100:.{3 + more}g} % failed"
    if requirement.is_count:
        return lambda value, _: f"{value:,.0f} dropped"
    return lambda value, more: f"{requirement.figure} {format_ns(value, more)}"


def measured_text(found: Finding) -> str | None:
    """The figure that decides and what it is of, with as many digits as tell one that fails from what is required."""
    asked, value = found.requirement, measured_value(found)
    if value is None:
        return None
    if found.bound:
        asked = replace(asked, figure=found.bound.figure)
    form = _form(asked, found.noun)
    text = form(value, 0) if found.passed else told_apart(form, value, asked.threshold)
    text += f" ({found.by_tool})" if found.by_tool else ""
    if found.is_of_few_events:
        text += FEW_EVENTS
    phase = f"phase {found.phase}" if found.is_one_of_phases and found.phase else ""
    of = ", ".join(filter(None, (phase, found.condition.replace("_", " "), "" if found.stream else found.target)))
    together = _together(found)
    return f"{of}: {text}{together}" if of else f"{text}{together}"


def _together(found: Finding) -> str:
    targets, streams = found.targets_together, found.streams_together
    count, what = (targets, "targets") if targets > 1 else (streams, "streams")
    return "" if count == 1 else f" of both {what} together" if count == 2 else f" of all {count} {what} together"


def _alone_words(found: Finding) -> str:
    """The part that would not meet by itself what all requests together do; empty where there is none."""
    alone = found.alone if found.passed else None
    if alone is None:
        return ""
    who = f"its {alone.operation}s alone have" if alone.operation else f"stream {alone.stream} alone has"
    if alone.operation and alone.stream:
        who = f"the {alone.operation}s of stream {alone.stream} alone have"
    return f"{who} {measured_text(alone)}"


def room_text(found: Finding) -> str | None:
    if found.head_room is None:
        return None
    bound = "" if found.bound is None else " or more" if found.bound.is_upper else " or less"
    room = three_digits(found.head_room) if found.passed else told_apart(three_digits, found.head_room, 1.0)
    return f"× {room}{bound}"


def threshold_text(requirement: Requirement, noun: str = "requests") -> str:
    condition = f" while {requirement.condition.replace('_', ' ')}" if requirement.condition else ""
    return f"{'≥' if requirement.is_rate else '≤'} {_form(requirement, noun)(requirement.threshold, 0)}{condition}"


def verdict_rows(found: Verdict) -> list[list[str]]:
    return [
        [
            f.requirement.name,
            threshold_text(f.requirement, f.noun),
            measured_text(f) or "–",
            room_text(f) or "–",
            _outcome(f),
        ]
        for f in found.findings
    ]


def _outcome(found: Finding) -> str:
    if alone := _alone_words(found):
        return f"{found.word} over all requests together; {alone}"
    return f"{found.word}: {found.reason}" if found.reason else found.word


def verdict_title(found: Verdict) -> str:
    """`hd-video: fail, 5 of 8; decided by 1080i 10-bit`."""
    word = found.word
    many = len(found.findings)
    count = f", {sum(f.passed for f in found.findings)} of {many} requirements are met" if many > 1 else ""
    return f"{found.ruler.name}: {word}{count}; decided by {found.decided.requirement.name}"


WORDS = {"pass": "met", "fail": "not met"}


def verdict_line(found: Verdict, doubt: str = "") -> str:
    """`Requirement p99<=5ms: not met, p99 27.0 ms.`: the verdict in the answer of a run, and what leaves it open."""
    many, decided = len(found.findings), found.decided
    if found.word == "fail" and decided.value is None and decided.reason == "not measured":
        name = decided.requirement.name
        return f"Requirement {found.ruler.name}: not met: nothing was measured for {name}."
    alone = next((words for finding in found.findings if (words := _alone_words(finding))), "")
    together = " over all requests together" if alone and found.passed else ""
    said = [f"{WORDS.get(found.word, found.word)}{together}"]
    if many > 1 and found.word in WORDS:
        said.append(f"{sum(f.passed for f in found.findings)} of {many} are; decided by {decided.requirement.name}")
    if measured := measured_text(decided):
        said.append(measured)
    if decided.reason and decided.reason != found.word:
        said.append(decided.reason)
    words = "; ".join(filter(None, (", ".join(said), alone, doubt)))
    return f"Requirement{'s' if many > 1 else ''} {found.ruler.name}: {words}."


def worst_of(found: Sequence[Verdict]) -> int:
    """Which of the verdicts by one ruler decides."""
    return min(range(len(found)), key=lambda number: found[number].decided.rank)


def together_line(runs: Sequence[int], found: Sequence[Verdict], doubt: str = "") -> str:
    """`Requirement mean<=5ms: met in each of 3 runs, least headroom × 1.22 in run 7.`: verdicts of runs by one ruler,
    and what leaves the one that decides open."""
    number = worst_of(found)
    run, worst = runs[number], found[number]
    ruler, decided = worst.ruler.name, worst.decided
    met = sum(verdict.passed for verdict in found)
    open_words = f"; {doubt}" if doubt else ""
    if met == len(found):
        least = f", least headroom {room} in run {run}" if (room := room_text(decided)) else ""
        said = (words for verdict in found for finding in verdict.findings if (words := _alone_words(finding)))
        alone = next((f"; {words}" for words in said), "")
        each = "both runs" if met == 2 else f"each of {met} runs"
        return f"Requirement {ruler}: met in {each}{least}{alone}{open_words}."
    reason = decided.reason if decided.reason != decided.word else ""
    words = ", ".join(filter(None, (decided.word, measured_text(decided), reason)))
    return f"Requirement {ruler}: met in {met} of {len(found)} runs; run {run}: {words}{open_words}."


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
