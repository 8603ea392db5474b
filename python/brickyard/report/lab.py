"""Duty: crash states that were judged → a page with pictures. Refusal: it judges nothing and changes no verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt

from brickyard import _core
from brickyard.lab.explain import LossExplained, explain
from brickyard.lab.explore import LOGS_GONE, Exploration, Outcome, bound_words, read_recording
from brickyard.lab.orders import CORRUPT, KEPT, LOST, NOT_JUDGED, Describe, Recording, WritePart
from brickyard.lab.program import describe
from brickyard.outputs import report_place
from brickyard.report import theme
from brickyard.report.picture import Pair, Picture, pair
from brickyard.report.pictures import draw
from brickyard.report.tables import Table
from brickyard.report.written import templates, write_page

NARROW = 380
WIDTHS = 700, NARROW
ROW = 24
NAMES = 150  # pixels of the names of rows
TICKS, TICKS_NARROW = 8, 4
PARTS = 180  # of a log, side by side
NEAR = 240  # records that a picture of one cut shows at most
VERDICT_COLOURS = {KEPT: theme.GREEN, LOST: theme.VERMILLION, CORRUPT: theme.PURPLE, NOT_JUDGED: "#8a8f98"}
CUTS = {kind: f"cuts: {kind}" for kind in VERDICT_COLOURS}
DURABLE, SURVIVED, TORN, GONE, NEEDED = "durable", "survived", "torn", "gone", "gone and needed"
FATES = {DURABLE: theme.BLUE, SURVIVED: theme.SKY, TORN: theme.ORANGE, GONE: theme.VERMILLION, NEEDED: theme.BLACK}
WORKED, IGNORED, UNDER_WAY = "worked", "ignored by the disk", "under way"
FLUSHES = {WORKED: theme.BLUE, IGNORED: theme.VERMILLION, UNDER_WAY: theme.ORANGE}
TOLD, MISSING = "acknowledged", "missing"
COLUMNS = ("states", "distinct", "cuts", "kept", "lost", "corrupt", "not judged")


@dataclass(frozen=True)
class Explored:
    """A heading, and what was looked at and found."""

    title: str
    wanted: Exploration
    outcome: Outcome


@dataclass(frozen=True)
class Section:
    title: str
    numbers: tuple[str, ...]
    bound: str
    """What a search that found nothing says of what it did not see; else empty."""
    pictures: list[Pair]
    findings: list[tuple[str, list[str], Pair, str]]
    """Of each: a heading, sentences, a picture, and how to see it again."""


def write_lab_report(
    explored: Sequence[Explored], place: Path, tell: Callable[[str, int], None] = lambda _what, _done: None
) -> Path:
    """States are judged again for it, to find the writes that each first one needed."""
    where = report_place(place)
    sections = [_section(number, one, tell) for number, one in enumerate(explored)]
    versions = ", ".join(sorted({read_recording(one.wanted.log).version for one in explored}))
    pairs = [pair for s in sections for pair in [*s.pictures, *(found[2] for found in s.findings)]]
    html = (
        templates()
        .get_template("lab.html.j2")
        .render(
            title=f"Crash states of {versions}",
            counts=Table(
                "Counts",
                ["configuration", *COLUMNS],
                [[section.title, *section.numbers] for section in sections],
                text_columns=1,
            ),
            sections=sections,
            gone="" if all(one.wanted.log_stays for one in explored) else LOGS_GONE,
            version=_core.version(),
            pictures=where.pictures.name,
        )
    )
    return write_page(where, html, (picture for pair in pairs for picture in pair))


def _section(number: int, one: Explored, tell: Callable[[str, int], None]) -> Section:
    recording = read_recording(one.wanted.log)
    parts, _ = describe(Describe(one.wanted.drawing(recording), PARTS))
    findings = []
    for found in explain(one.wanted, one.outcome, lambda done: tell(one.title, done)):
        name = f"crash-{number + 1}-{found.verdict.kind.replace(' ', '-')}"
        heading, drawn = f"First state that is {found.verdict.kind}", partial(_cut, name, found, recording)
        findings += [(heading, found.sentences, both, again(one.wanted, found)) for both in pair(drawn, WIDTHS)]
    line = pair(partial(_time_line, f"crash-{number + 1}-time", one, parts, recording), WIDTHS)
    counts = one.outcome
    searched = (counts.states, counts.distinct, len(counts.cuts))
    judged = (counts.kept, counts.lost, counts.corrupt, counts.not_judged)
    numbers = tuple(f"{n:,}" for n in (*searched, *judged))
    return Section(one.title, numbers, bound_words(counts), line, findings)


def again(wanted: Exploration, found: LossExplained) -> str:
    """The command that shows the state again; empty where its log is gone."""
    return f"brickyard lab crash look {wanted.named(found.state.seed)}" if wanted.log_stays else ""


def _time_line(
    name: str, one: Explored, parts: list[WritePart], recording: Recording, width: int, suffix: str
) -> Picture | None:
    """What the log holds from its beginning to its end, and what was found at cuts there."""
    if not parts:
        return None
    counts: dict[tuple[str, int], int] = {}

    def add(row: str, record: int, much: int = 1) -> None:
        part = min(max(record - parts[0].begin, 0) // max(1, parts[0].end - parts[0].begin), len(parts) - 1)
        counts[row, part] = counts.get((row, part), 0) + much

    for part in parts:
        add("flushes", part.begin, part.flushes)
    for promise in recording.promises:
        add("acknowledgements", promise.at)
    for begin, end in recording.story.marks:
        for part in parts:
            if part.begin < end and begin < part.end:
                add("checkpoints", part.begin)
    for state in one.outcome.drawn:
        add(CUTS[one.outcome.verdicts[state.seed].kind], state.cut)
    colours = {"flushes": theme.BLUE, "acknowledgements": theme.BLACK, "checkpoints": theme.ORANGE}
    colours |= {CUTS[kind]: colour for kind, colour in VERDICT_COLOURS.items()}
    present = [row for row in colours if any(key == row for key, _ in counts)]
    most = {row: max(count for (key, _), count in counts.items() if key == row) for row in present}
    rows = [
        {
            "row": row,
            "from": parts[at].begin,
            "to": parts[at].end,
            "count": count,
            "shade": 0.25 + 0.75 * count / most[row],
        }
        for (row, at), count in counts.items()
        if count
    ]
    title = theme.folded("Where the cuts lie, and what was found", width - NAMES)
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=_along(alt.Scale(nice=False, zero=False), width, "from"),
            x2="to:Q",
            y=alt.Y("row:N", title=None, sort=present, axis=alt.Axis(labelLimit=200)),
            color=alt.Color(
                "row:N", scale=alt.Scale(domain=present, range=[colours[row] for row in present]), legend=None
            ),
            opacity=alt.Opacity("shade:Q", scale=None, legend=None),
        )
        .properties(
            width=width - NAMES,
            height=ROW * len(present),
            title=title,
        )
    )
    found = one.outcome
    said = f"{found.kept:,} states kept everything, {found.lost:,} lost something, {found.corrupt:,} were corrupt"
    return draw(name + suffix, f"Flushes, acknowledgements and cuts along the log: {said}", chart, width=width - NAMES)


def _along(scale: alt.Scale, width: int, field: str) -> alt.X:
    ticks = TICKS_NARROW if width == NARROW else TICKS
    return alt.X(f"{field}:Q", title="record of the log", scale=scale, axis=alt.Axis(tickCount=ticks))


def _fate(write: Any, needed: frozenset[int]) -> str:
    if not write.volatile:
        return DURABLE
    if write.kept_bytes == write.bytes:
        return SURVIVED
    if write.record in needed:
        return NEEDED
    return TORN if write.kept_bytes else GONE


def _cut(name: str, found: LossExplained, recording: Recording, width: int, suffix: str) -> Picture:
    """The records before one cut: what each write became, what each flush did, what was acknowledged."""
    cut = found.state.cut
    begin = max(found.around.begin, cut - NEAR)
    needed = frozenset(found.needed or ())
    if found.promise is not None:
        begin = min(begin, max(found.around.begin, found.promise.at - NEAR // 2))
    if needed:
        begin = min(begin, min(needed) - 2)
    near = [write for write in found.around.writes if write.record >= begin]
    fates = [_fate(write, needed) for write in near]
    writes = [{"record": w.record, "row": "writes", "fate": fate} for w, fate in zip(near, fates, strict=True)]
    seen = [flush for flush in found.around.flushes if flush.end is None or flush.end >= begin]
    did = [UNDER_WAY if flush.end is None else WORKED if flush.works else IGNORED for flush in seen]
    flushes = [
        {
            "from": max(flush.start, begin),
            "to": cut if flush.end is None else flush.end + 1,
            "row": "flushes",
            "did": word,
        }
        for flush, word in zip(seen, did, strict=True)
    ]
    lost = found.promise
    promised = [promise for promise in recording.promises if begin <= promise.at <= cut]
    said = [
        MISSING if lost and promise.client == lost.client and promise.number >= lost.number else TOLD
        for promise in promised
    ]
    told = [
        {"record": promise.at, "row": "acknowledgements", "what": word}
        for promise, word in zip(promised, said, strict=True)
    ]
    rows = ["writes", "flushes", "acknowledgements"]
    along = partial(_along, alt.Scale(domain=[begin, cut + 1], nice=False, zero=False), width)
    y = alt.Y("row:N", title=None, sort=rows, scale=alt.Scale(domain=rows))

    def colour(field: str, title: str, colours: dict[str, str], used: Iterable[object]) -> Any:
        found = set(used)
        present = [word for word in colours if word in found]
        scale = alt.Scale(domain=present, range=[colours[word] for word in present])
        # Where three legends have no room side by side, writes have the line below the picture.
        above = width == NARROW and field != "fate"
        legend = alt.Legend(orient="top") if above else alt.Legend()
        return alt.Color(f"{field}:N", title=title, scale=scale, legend=legend)

    layers = [
        alt.Chart(alt.InlineData(values=flushes))
        .mark_bar(size=9, opacity=1)
        .encode(
            x=along("from"),
            x2="to:Q",
            y=y,
            color=colour("did", "flushes", FLUSHES, did),
        ),
        alt.Chart(alt.InlineData(values=writes))
        .mark_tick(thickness=2.4, size=20, opacity=1)
        .encode(
            x=along("record"),
            y=y,
            color=colour("fate", "writes", FATES, fates),
        ),
        alt.Chart(alt.InlineData(values=told))
        .mark_point(shape="triangle-down", filled=True, size=80, opacity=1)
        .encode(
            x=along("record"),
            y=y,
            color=colour("what", "clients", {TOLD: "#8a8f98", MISSING: theme.VERMILLION}, said),
        ),
        alt.Chart(alt.InlineData(values=[{"record": cut, "what": "power cut"}]))
        .mark_rule(color=theme.INK, strokeWidth=1.6, strokeDash=[5, 3])
        .encode(x=along("record")),
    ]
    title = theme.folded(f"Before the power cut after record {cut:,} (dashed)", width - NAMES)
    chart = (
        alt.layer(*[layer for layer, data in zip(layers, (flushes, writes, told, [cut]), strict=True) if data])
        .resolve_scale(color="independent")
        .properties(
            width=width - NAMES,
            height=3 * 34,
            title=title,
        )
    )
    return draw(name + suffix, " ".join(found.sentences), chart, width=width - NAMES)
