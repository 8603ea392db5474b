"""Duty: a comparison in words and as a document, the same for the command and for the page: what got worse, what was
not measured, what the runs could have shown, what is taken for granted. Refusal: no figure is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from brickyard.analysis.figures.difference_words import EXACTLY_NONE, UNKNOWN, WITHIN_NOISE, difference_text
from brickyard.analysis.figures.named import LATENCY, LATENCY_TOLD
from brickyard.analysis.figures.workload import workload_words
from brickyard.analysis.judging.comparison import Change, Comparison, Failures, Lack
from brickyard.analysis.judging.conclusions import least_words
from brickyard.analysis.judging.differing import Differing
from brickyard.analysis.judging.gate import Finding, Gate
from brickyard.report.matrix_tables import NOISE_UNKNOWN, NOT_SEEN, SAME_COMPUTATION
from brickyard.schema import Document
from brickyard.store import Record
from brickyard.units import format_name, format_runs

ONE_RUN = (
    "the intervals of one run against several assume that it is as noisy as the others; on a noisier day they are too "
    "narrow, so --check judges none of these figures"
)
SITTING = (
    "were made within one hour, so they do not show how much results differ between days; add runs from other days"
)
SITTING_NS = 3600 * 10**9  # runs that began within an hour share what the host did in it
INCONCLUSIVE_SHOWN = 5  # lines of what may be worse; the table has all


def mark_words(differences: Sequence[str]) -> list[str]:
    """What the marks in texts of differences mean."""
    marks = ((WITHIN_NOISE, NOT_SEEN), (UNKNOWN, NOISE_UNKNOWN), (EXACTLY_NONE, SAME_COMPUTATION))
    return [words for mark, words in marks if any(mark in text for text in differences)]


def unrecorded_lines(differing: Sequence[Differing], records: Sequence[Record]) -> list[tuple[str, str]]:
    """Of which runs something is not known since their tools do not record it, and what: one line for all of it."""
    found: dict[tuple[int, ...], list[str]] = {}
    for item in differing:
        if item.unrecorded:
            found.setdefault(item.unrecorded, []).append(item.label)
    return [(_unrecorded_words(runs, len(labels), records), _labels_words(labels)) for runs, labels in found.items()]


def _unrecorded_words(runs: Sequence[int], count: int, records: Sequence[Record]) -> str:
    tools = dict.fromkeys(record.info.tool for record in records if record.info.id in runs)
    them = "it" if count == 1 else "them"
    return f"not known of {format_runs(runs)} (results of {' and '.join(tools)} do not record {them})"


def _labels_words(labels: Sequence[str]) -> str:
    """`test area, device vda, version of Brickyard`: as they stand within a sentence."""
    return ", ".join(
        "version of Brickyard" if label == "Brickyard" else f"{label[0].lower()}{label[1:]}" for label in labels
    )


def repeat_lines(found: Comparison) -> list[str]:
    """Runs that say the same again, such as a model with the same seed."""
    return [
        f"{format_runs(repeat.by)} {'repeats' if len(repeat.by) == 1 else 'repeat'} run {repeat.run}"
        f" ({repeat.why}): counted once"
        for repeat in found.repeats
    ]


def assumptions(judged: Gate, baseline: list[Record]) -> list[str]:
    """What the figures take for granted."""
    once = any(
        item.finding is Finding.ONCE and max(item.change.before.n, item.change.after.n) > 1 for item in judged.judged
    )
    of_two_programs = any(item.change.figure.measure == LATENCY for item in judged.judged)
    return [*([ONE_RUN] if once else []), *([LATENCY_TOLD] if of_two_programs else []), *sitting_words(baseline)]


def sitting_words(baseline: list[Record]) -> list[str]:
    began = [record.info.created_unix_ns for record in baseline]
    return [f"the baseline's runs {SITTING}"] if began and max(began) - min(began) < SITTING_NS else []


def verdict_lines(found: Comparison, judged: Gate, tolerance: float) -> list[str]:
    """What the gate fails for; nothing that was measured before may be missing."""
    said = [f"worse: {format_name(c.name)}, {c.figure.title}: {_worse_words(c)}" for c in judged.of(Finding.WORSE)]
    said += [_failed_words(item) for item in found.failures if item.is_worse(tolerance)]
    said += [f"not measured: {lack_words(item)}; the earlier runs have it" for item in found.lacking if item.is_lost]
    said += [f"not measured: {format_name(name)}, which was measured before" for name in found.only_before]
    return said + ([f"not measured: {_unlike_words(found.unlike[0], 'AFTER')}"] if found.unlike[0] else [])


def _worse_words(change: Change) -> str:
    """The mark of the table would deny what the gate found, as its test has both sides."""
    said = _words(change)
    unmarked = said.removesuffix(f" {WITHIN_NOISE}")
    return said if unmarked == said else f"{unmarked}; {ONE_SIDED}"


ONE_SIDED = (
    "found by the gate's test, which asks only whether it is worse; that of the table asks whether it differs in "
    "either direction, and does not see it"
)


def unlike_words(found: Comparison) -> list[str]:
    """Runs after that have no counterpart; of those before, `verdict_lines` tells."""
    return [f"AFTER: {_unlike_words(found.unlike[1], 'BEFORE')}"] if found.unlike[1] else []


def _unlike_words(runs: Sequence[int], other: str) -> str:
    which = "its storage in its condition" if len(runs) == 1 else "their storage in their condition"
    return f"left out, as {other} has no run on {which}: {format_runs(runs)}"


def _failed_words(item: Failures) -> str:
    if not item.failed[0]:
        return f"failed requests: {format_name(item.name)}: {item.failed[1]:,}, and none in the earlier runs"
    sides = [
        f"{failed:,} of {sent:,} ({share * 100:.3g} %)"
        for failed, sent, share in zip(item.failed, item.sent, item.shares, strict=True)
    ]
    return f"failed requests: {format_name(item.name)}: {' → '.join(sides)}"


def errors_unknown_lines(found: Comparison) -> list[str]:
    """Why failed requests of the two sides are not compared."""
    words = list(dict.fromkeys(why for item in found.failures for why in item.unknown))
    return [f"failed requests are not compared: {' and '.join(words)}"] if words else []


def lack_words(item: Lack) -> str:
    sides = [
        f"{format_runs(runs)} ({side}) {'lacks' if len(runs) == 1 else 'lack'} it"
        for side, runs in zip(("before", "after"), item.runs, strict=True)
        if runs
    ]
    return f"{format_name(item.name)}, {item.figure.title}: {', '.join(sides)}"


def lack_lines(found: Comparison) -> list[str]:
    """Figures that some runs lack; those that are lost are among the verdicts."""
    return [
        f"inconclusive: {lack_words(item)}{TOO_SHORT if item.is_of_all else SELECTED if item.is_partial else ''}"
        for item in found.lacking
        if not item.is_lost
    ]


TOO_SHORT = "; make longer runs, which have more requests"
SELECTED = "; runs without it may be the slow ones, so the others alone are not judged"


def _power_words(judged: Gate, tolerance: float) -> str:
    """What the gate would find. Of a figure with more noise, it finds only a larger change."""
    least, most = least_words(judged.lone_shares[0]), least_words(judged.lone_shares[-1])
    head = f"power against {_share(tolerance)}: in four of five cases, these runs would find"
    if (count := len(judged.tested)) == 1:
        return f"{head} a figure that is worse by {least}"
    one = f"one figure that is worse by {least}"
    if least != most:
        one += f" (the steadiest) to {most} (the noisiest)"
    every = least_words(judged.all_share or 0.0)
    return f"{head} {one}, or {'both' if count == 2 else f'all {count}'} if each is worse by {every}"


def gate_lines(judged: Gate, tolerance: float) -> list[str]:
    """What was judged, what it could have seen, and what is open."""
    if judged.barred:
        return [f"not judged: {judged.barred}"]
    once, unclear = judged.of(Finding.ONCE), judged.unclear
    if same := judged.of(Finding.SAME):
        return [f"not judged: both sides are one computation, so no figure can differ ({_figures(len(same))})"]
    said = []
    if judged.tested:
        parts = [(len(judged.of(Finding.WORSE)), "worse"), (len(judged.of(Finding.HELD)), "held")]
        told = ", ".join(f"{number} {word}" for number, word in (*parts, (len(unclear), "inconclusive")))
        lacking = len(judged.of(Finding.INCONCLUSIVE)) - len(unclear)
        them = "it" if lacking == 1 else "them"
        more = f"; {lacking} more not judged and inconclusive, as not all runs have {them}" if lacking else ""
        said.append(f"{_figures(len(judged.tested))} judged together against {_share(tolerance)}: {told}{more}")
        said.append(_power_words(judged, tolerance))
    said += [
        f"inconclusive: {format_name(c.name)}, {c.figure.title}: {_words(c)}{_why_open(c, judged)}"
        for c in sorted(unclear, key=lambda change: -change.worse_by)[:INCONCLUSIVE_SHOWN]
    ]
    if len(unclear) > INCONCLUSIVE_SHOWN:
        said.append(f"inconclusive: {len(unclear) - INCONCLUSIVE_SHOWN} more figures, of those that are less worse")
    return [*said, *_repetition_lines(judged, len(unclear)), *_once_lines(once, len(judged.judged))]


def _why_open(change: Change, judged: Gate) -> str:
    """Why a figure neither fails the gate nor is shown to have held."""
    least, share = change.least_worse_by, _share(judged.tolerance)
    if change.worse_by <= judged.tolerance:
        return f"; that it is worse by more than {share} cannot be excluded"
    if least is None or least <= judged.tolerance:
        return f"; that it is worse by more than {share} is not certain"
    return (
        f"; all of its interval is above {share}, but of {_figures(len(judged.tested))} some intervals are so by chance"
    )


def _repetition_lines(judged: Gate, unclear: int) -> Iterator[str]:
    """How many would decide what is open."""
    needed = judged.repetitions
    if needed:
        about = f"{needed[0]}" if needed[0] == needed[-1] else f"{needed[0]} to {needed[-1]}"
        which = "the inconclusive figures" if len(needed) == unclear else f"{len(needed)} of the inconclusive figures"
        yield (
            f"about {about} repetitions per side would decide {which} with 80 % probability, if differences and noise "
            "stay as seen"
        )
    if unclear > len(needed):
        yield (
            f"{_figures(unclear - len(needed))} may stay inconclusive with any number of repetitions, if differences "
            "and noise stay as seen"
        )


def _once_lines(once: list[Change], count: int) -> list[str]:
    """What is not judged, by name: the table has the figures."""
    if not once:
        return []
    if len(once) == count:
        return [f"measured once, not judged: {'the one figure' if count == 1 else f'all {count} figures'}"]
    figures: dict[str, list[str]] = {}
    for change in once:
        figures.setdefault(format_name(change.name), []).append(change.figure.title)
    return [f"measured once, not judged: {name}: {', '.join(titles)}" for name, titles in figures.items()]


def _figures(count: int) -> str:
    return "1 figure" if count == 1 else f"{count} figures"


def _share(tolerance: float) -> str:
    return f"{tolerance * 100:g} %"


def _words(change: Change) -> str:
    return (
        f"{change.figure.text(change.before.centre)} → {change.figure.text(change.after.centre)}, "
        + difference_text(change.difference)
        + ("" if change.difference.seen is not None else f", {noise_words(change)}")
    )


def noise_words(change: Change) -> str:
    """What the difference was held against."""
    if change.difference.is_exact:
        return "the same computation"
    if change.is_partial:
        of_all = change.before.n == change.after.n == 0
        return f"not known, as {'no run has' if of_all else 'some runs lack'} the figure"
    if change.difference.seen is not None:
        return f"of {change.before.n} and {change.after.n} runs"
    within = f"; ± {change.within * 100:.1f} % within the runs" if change.within is not None else ""
    return f"noise between runs unknown{within}"


def comparison_document(
    found: Comparison,
    judged: Gate,
    before: list[Record],
    after: list[Record],
    differing: list[Differing],
    bad: list[str],
    pictures: list[str],
) -> Document:
    return {
        "before": [record.info.id for record in before],
        "after": [record.info.id for record in after],
        "workload": {"before": workload_words(before), "after": workload_words(after)},
        "differing": [{"label": item.label, "values": [list(value) for value in item.values]} for item in differing],
        "lacking": [lack.document() for lack in found.lacking],
        "repeats": found.repeats,
        "sizes_differ": [sizes.document() for sizes in found.sizes],
        "changes": [{**item.change.document(), "verdict": item.finding.value} for item in judged.judged],
        "power": {
            "lone_share": median(judged.lone_shares) if judged.lone_shares else None,
            "lone_most": max(judged.lone_shares, default=None),
            "all_share": judged.all_share,
            "repetitions": judged.repetitions[-1] if judged.repetitions else None,
        },
        "distributions": [shift.document() for shift in found.shifts],
        "only_before": [list(name) for name in found.only_before],
        "only_after": [list(name) for name in found.only_after],
        "unlike": {"before": found.unlike[0], "after": found.unlike[1]},
        "worse": bad,
        "passed": False if bad else True if judged.is_decided else None,
        "pictures": pictures,
    }
