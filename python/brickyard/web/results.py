"""Duty: handlers of what was measured: the list, one run, two sides, files to take away, notes and baselines.

Refusal: see `brickyard.browsing`, which has all of it.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brickyard import browsing
from brickyard.browsing import Download, RunQuery
from brickyard.errors import ChangedMeanwhileError
from brickyard.units import format_iops, format_ns, three_digits
from brickyard.web.context import Body, ProblemError, Web, asks, operates, path_of, query_of, reads, reads_costly, typed
from brickyard.web.guard import PICTURE_POLICY
from brickyard.web.render import page
from brickyard.web.sessions import Session

OUTCOMES = ("done", "running", "interrupted", "failed", "invalid", "damaged")
PER_PAGE = 50
RUNS_MAX = 200
NUMBER_MAX = (1 << 63) - 1


def number_of(text: str, what: str, least: int = 0, most: int = NUMBER_MAX) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or not least <= int(text) <= most:
        raise ProblemError(400, f"{what}: write a whole number from {least} to {most}")
    return int(text)


def runs_of(text: str, what: str = "runs") -> list[int]:
    """`1,2,5-7` as numbers."""
    found: list[int] = []
    for word in text.replace(" ", ",").split(","):
        if not word:
            continue
        first, _, last = word.partition("-")
        low = number_of(first, what, 1)
        high = number_of(last, what, low) if last else low
        if high - low >= RUNS_MAX:
            raise ProblemError(400, f"{what}: at most {RUNS_MAX} runs at once")
        found += range(low, high + 1)
    unique = list(dict.fromkeys(found))
    if not unique or len(unique) > RUNS_MAX:
        raise ProblemError(400, f"{what}: name from 1 to {RUNS_MAX} runs, such as 3,5-7")
    return unique


LISTED = ("q", "profile", "outcome", "label", "first", "count")


def _wanted(request: Request) -> RunQuery:
    asked = query_of(request)
    if asked.outcome and asked.outcome not in OUTCOMES:
        raise ProblemError(400, f"outcome: there are {', '.join(OUTCOMES)}")
    return RunQuery(asked.q[:200], asked.profile[:200], asked.outcome, asked.label[:200])


def _page_of(request: Request, web: Web) -> browsing.Page:
    first, count = part_of(request, PER_PAGE, browsing.PAGE_RUNS_MAX)
    return web.listing.page(_wanted(request), first, count)


def part_of(request: Request, usual: int, most: int) -> tuple[int, int]:
    """Of a list: behind so many so many more."""
    asked = query_of(request)
    count = str(usual) if asked.count is None else asked.count
    return number_of(asked.first, "first"), number_of(count, "count", 1, most)


@reads
@asks(*LISTED)
def results_page(request: Request, web: Web) -> Response:
    found = _page_of(request, web)
    wanted = _wanted(request)
    last_page = max(1, math.ceil(found.found / PER_PAGE))
    values = {
        "title": "Results",
        "found": found,
        "wanted": wanted,
        "outcomes": OUTCOMES,
        "per_page": PER_PAGE,
        "number": found.first // PER_PAGE + 1,
        "last_page": last_page,
        "baselines": _baselines(web),
        "iops": format_iops,
        "ns": format_ns,
        "digits": three_digits,
    }
    return page(request, "results.html", values)


@reads
@asks(*LISTED)
def api_runs(request: Request, web: Web) -> Any:
    return _page_of(request, web)


class StoredBaseline(msgspec.Struct, frozen=True):
    """A baseline as the store has it."""

    name: str
    created_unix_ns: int
    runs: list[int]


def _baselines(web: Web) -> list[StoredBaseline]:
    with web.opened() as store:
        known = store.baselines()
    return [StoredBaseline(name, at, runs) for name, (at, runs) in known.items()]


@reads
def run_page(request: Request, web: Web) -> Response:
    number = number_of(path_of(request).run, "run", 1)
    with web.opened() as store:
        shown = browsing.shown(store, number, web.listing)
        info = shown.record.info
        is_good = info.is_valid
        together = browsing.together(store, shown.record, web.listing)
        against = _against(store, [shown.last], number) if is_good and shown.last is not None else None
        baseline = _against(store, shown.alike_baseline[1], number) if is_good and shown.alike_baseline else None
    required = web.thresholds.all().get(info.profile, [])
    values = {
        "title": f"Run {number}",
        "shown": shown,
        "info": info,
        "tables": [*together, *shown.tables],
        "against": against,
        "baseline": baseline,
        "required": required,
        "judged": browsing.judged(shown.record, required) if shown.record.intervals else [],
        "requirements": browsing.requirement_names(),
        "draws": bool(shown.record.intervals) and info.outcome != "running",
        "text_of": table_cells,
    }
    return page(request, "run.html", values)


def _against(store: Any, before: list[int], number: int) -> browsing.TwoSides | None:
    """The difference to other runs of an equal load; None where nothing can be compared."""
    try:
        return browsing.compared(store, before, [number])
    except browsing.BadInputError:
        return None


def table_cells(table: Any) -> list[list[tuple[str, bool]]]:
    """Cells with whether they are words."""
    return [[(cell, place < table.text_columns) for place, cell in enumerate(row)] for row in table.rows]


@reads
def api_run(request: Request, web: Web) -> Any:
    number = number_of(path_of(request).run, "run", 1)
    with web.opened() as store:
        shown = browsing.shown(store, number, web.listing)
        document = shown.document
    info = shown.record.info
    required = web.thresholds.all().get(info.profile, [])
    return {
        **document,
        "thresholds": [
            {"title": one.title, "verdict": one.word, "rows": one.rows}
            for one in (browsing.judged(shown.record, required) if shown.record.intervals else [])
        ],
        "answer": shown.answer.document(),
        "annotation": {
            "number": shown.said.number,
            "note": shown.said.note,
            "labels": shown.said.labels,
            "author": shown.said.author,
        },
        "baselines": shown.baselines,
        "last_alike": shown.last,
    }


@reads
def api_course(request: Request, web: Web) -> Any:
    with web.opened() as store:
        number = number_of(path_of(request).run, "run", 1)
        store.record(number) if not store.runs([number]) else None
        return {"run": number, "moments": browsing.course(store, number), "edges_ns": browsing.HEAT_EDGES_NS}


@reads_costly("pictures")
def api_pictures(request: Request, web: Web) -> Any:
    number = number_of(path_of(request).run, "run", 1)
    drawn = [
        {"name": name, "title": title, "caption": caption, "url": f"/pictures/{number}/{name}.svg"}
        for name, title, caption in web.pictures.names([number])
    ]
    return {"run": number, "pictures": drawn}


@reads_costly("pictures")
def picture(request: Request, web: Web) -> Response:
    number = number_of(path_of(request).run, "run", 1)
    svg = web.pictures.svg([number], path_of(request).name)
    return Response(svg, media_type="image/svg+xml", headers={"Content-Security-Policy": PICTURE_POLICY})


@reads_costly("downloads")
@asks("runs")
def download(request: Request, web: Web) -> Response:
    form: Download | None = next((one for one in get_args(Download) if one == path_of(request).form), None)
    if form is None:
        raise ProblemError(404, f"there are {', '.join(get_args(Download))}")
    runs = runs_of(query_of(request).runs)
    with web.opened() as store:
        content = browsing.downloaded(store, runs, form)
    name = f"run-{runs[0]}.{form}" if len(runs) == 1 else f"runs-{runs[0]}-{runs[-1]}.{form}"
    headers = {
        "Content-Disposition": f'attachment; filename="brickyard-{name}"',
        "Content-Security-Policy": PICTURE_POLICY,
    }
    return Response(content, media_type=browsing.TYPES[form], headers=headers)


@reads_costly("comparisons")
@asks("before", "after")
def compare_page(request: Request, web: Web) -> Response:
    asked = query_of(request)
    before, after = asked.before[:500], asked.after[:500]
    values: dict[str, Any] = {"title": "Compare", "before": before, "after": after, "side": None, "error": ""}
    values["baselines"] = _baselines(web)
    if before or after:
        try:
            with web.opened() as store:
                values["side"] = browsing.compared(store, runs_of(before, "before"), runs_of(after, "after"))
        except ProblemError as problem:
            values["error"] = problem.text
        except browsing.BadInputError as error:
            values["error"] = str(error)
    values |= {"ns": format_ns, "noise": browsing.noise_words}
    return page(request, "compare.html", values)


@reads_costly("comparisons")
@asks("before", "after")
def api_compare(request: Request, web: Web) -> Any:
    asked = query_of(request)
    with web.opened() as store:
        before = runs_of(asked.before, "before")
        after = runs_of(asked.after, "after")
        side = browsing.compared(store, before, after)
    return {**side.document, "lines": [*side.worse, *side.told]}


class Annotated(msgspec.Struct, frozen=True):
    note: str
    labels: list[str]
    seen: int
    """The number of the annotation that the page has."""


@operates
def api_annotate(request: Request, web: Web, body: Body, session: Session) -> Any:
    asked = typed(body, Annotated)
    number = number_of(path_of(request).run, "run", 1)
    with web.opened() as store:
        try:
            kept = browsing.annotate(store, number, asked.note, asked.labels, session.who, asked.seen)
        except ChangedMeanwhileError as error:
            raise ProblemError(409, str(error)) from error
    return {"number": kept.number, "note": kept.note, "labels": kept.labels, "author": kept.author}


class Pinned(msgspec.Struct, frozen=True):
    name: str
    runs: list[int]


@reads
def api_baselines(request: Request, web: Web) -> Any:
    return {"baselines": _baselines(web)}


@operates
def api_pin(request: Request, web: Web, body: Body, session: Session) -> Any:
    asked = typed(body, Pinned)
    if not 1 <= len(asked.runs) <= RUNS_MAX:
        raise ProblemError(400, f"runs: from 1 to {RUNS_MAX}")
    with web.opened() as store:
        browsing.pin(store, asked.name, asked.runs)
    return {"baselines": _baselines(web)}


@reads
def api_thresholds(request: Request, web: Web) -> Any:
    return {"thresholds": web.thresholds.all(), "requirements": browsing.requirement_names()}


class Required(msgspec.Struct, frozen=True):
    profile: str
    require: list[str]


@operates
def api_keep_thresholds(request: Request, web: Web, body: Body, session: Session) -> Any:
    asked = typed(body, Required)
    if not 0 < len(asked.profile) <= 200:
        raise ProblemError(400, "profile: name one")
    return {"profile": asked.profile, "require": web.thresholds.keep(asked.profile, asked.require)}
