"""Duty: `brickyard runs`: what is in the store, the newest last. Refusal: no figures; `show` has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal

from cyclopts import Parameter

from brickyard.analysis.summary import when
from brickyard.cli import options
from brickyard.cli.ad_hoc import NAME as AD_HOC
from brickyard.cli.output import emit, stdout, table
from brickyard.cli.selection import open_store
from brickyard.errors import BadInputError
from brickyard.schema import stored
from brickyard.store import Json, RunHead, RunInfo
from brickyard.store.damage import DAMAGED

Outcome = Literal["done", "interrupted", "failed", "running", "damaged"]
READ_AT_ONCE = 200  # runs whose facts are in memory
CONDITION, NORMAL = 6, "normal"
"""The column of conditions, which is left out where there is nothing else to say."""
SPAN_S = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def runs(
    *,
    profile: Annotated[str | None, Parameter(help="Only runs of this profile.")] = None,
    target: Annotated[str | None, Parameter(help="Only runs whose target contains this text.")] = None,
    since: Annotated[str | None, Parameter(help="Only runs since a day (2026-01-31) or for a span (2h, 7d).")] = None,
    outcome: Annotated[Outcome | None, Parameter(help="Only these.")] = None,
    limit: Annotated[int, Parameter(help="Show at most N runs, the newest; 0 shows all.")] = 50,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """List the runs in the store."""
    if limit < 0:
        raise BadInputError(f"--limit {limit}: 0 for all, or more")
    since_ns = since_unix_ns(since) if since else 0
    with open_store(store) as kept:
        # What is shown is read whole, so that a damaged run is seen; of the others only what is filtered by.
        listed: Sequence[RunHead] = kept.runs() if outcome == DAMAGED else kept.heads()
        found = [
            run
            for run in listed
            if (profile is None or run.profile == profile)
            and (target is None or any(target in path for path in run.targets))
            and run.created_unix_ns >= since_ns
            and (outcome is None or run.outcome == outcome)
        ]
        shown = [run.id for run in (found[-limit:] if limit else found)]
        groups = (kept.runs(shown[first : first + READ_AT_ONCE]) for first in range(0, len(shown), READ_AT_ONCE))
        whole = (run for group in groups for run in group)
        if json:
            emit({"runs": [_document(run) for run in whole], "found": len(found)})
            return 0
        rows = [_row(run) for run in whole]
    names = ["run", "study", "started", "outcome", "profile", "load", "condition", "target"]
    if all(row[CONDITION] == NORMAL for row in rows):
        del names[CONDITION]
        rows = [[*row[:CONDITION], *row[CONDITION + 1 :]] for row in rows]
    console = stdout()
    console.print(table("", [(name, "right" if name == "run" else "left") for name in names], rows))
    if len(shown) < len(found):
        console.print(f"{len(found) - len(shown)} older runs are not shown; --limit 0 shows all")
    return 0


def _row(run: RunInfo) -> list[str]:
    study = f"s{run.study}" if run.study else ""
    return [str(run.id), study, when(run), run.outcome, run.profile, _load(run), run.condition, ", ".join(run.targets)]


def since_unix_ns(text: str, now: datetime | None = None) -> int:
    """The beginning of a span that ends now, or of a day."""
    if match := re.fullmatch(r"(\d{1,6})(s|min|m|h|d|w)", text):
        moment = (now or datetime.now().astimezone()) - timedelta(seconds=int(match[1]) * SPAN_S[match[2]])
    else:
        try:
            moment = datetime.fromisoformat(text).astimezone()
        except ValueError as error:
            raise BadInputError(
                f"--since {text}: write a day such as 2026-01-31, or a span such as 2h or 7d"
            ) from error
    return int(moment.timestamp() * 1e9)


def _load(run: RunInfo) -> str:
    """What sets a run apart from others of its profile; an ad-hoc load has no other name than its title."""
    title = str(run.plan_document.get("title", "")) if run.profile == AD_HOC else ""
    return ", ".join(words for words in (title, _labels(run)) if words)


def _labels(run: RunInfo) -> str:
    from brickyard.units import format_size

    labels = run.labels
    if "request_bytes" in labels:
        return f"{labels['address']} {labels['operation']} {format_size(labels['request_bytes'])}"
    if "levels" in labels:
        return ", ".join([*labels["levels"].values(), f"repetition {labels['repetition']}"])
    return ", ".join(f"{key} {_rounded(value)}" for key, value in labels.items())


def _rounded(value: object) -> object:
    """78.1, not 78.10000000000001, and no powers of ten for what has more digits before the point."""
    if not isinstance(value, float):
        return value
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _document(run: RunInfo) -> Json:
    return {
        "run": run.id,
        "study": run.study,
        "labels": run.labels,
        "profile": run.profile,
        "title": run.plan_document.get("title"),
        "profile_hash": run.profile_hash,
        "condition": run.condition,
        "targets": run.targets,
        "created_unix_ns": run.created_unix_ns,
        "outcome": run.outcome,
        "message": run.message,
        "warnings": stored(run.warnings),
    }
