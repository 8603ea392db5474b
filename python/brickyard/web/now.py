"""Duty: handlers of what goes on now: runs, jobs, the forms that start them. Refusal: nothing is measured in this
process; a job has one of its own.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brickyard import api, forms
from brickyard.errors import BadInputError
from brickyard.following import Follower
from brickyard.jobs import NoJobError, Order, StartedJob, check_order, shown_targets, web_log_of
from brickyard.web.context import SCRATCH, Body, Nothing, ProblemError, Target, Web, operates, path_of, reads, typed
from brickyard.web.hub import run_state
from brickyard.web.render import page
from brickyard.web.sessions import Session

CHANGES_MAX = 50
REPETITIONS_MAX = 100
DRIVERS_MAX, SESSIONS_MAX = 32, 1000
WORDS_MAX = 200
JOBS_SHOWN = 10
MODES = ("quick", "default", "full")


class JobRow(msgspec.Struct, frozen=True):
    name: str
    kind: str
    what: str
    targets: list[str]
    outcome: str
    message: str
    notes: list[str]
    runs: list[int]
    by: str


class Asked(msgspec.Struct, frozen=True):
    """What a form asks to be run."""

    kind: Literal["run", "characterize", "study", "replay", "web-log"] = "run"
    name: str = ""
    target: str = SCRATCH
    changes: list[str] = []
    condition: str = ""
    size: str = ""
    repetitions: int = 1
    mode: Literal["quick", "default", "full"] = "quick"
    only: list[str] = []
    timing: Literal["timed", "dependent", "fire_hose"] = "timed"
    speed: float = 1.0
    fit: Literal["exact", "scale", "wrap"] = "exact"
    logs: list[str] = []
    databases: list[str] = []
    pace: str = "time-synchronized"
    log_speed: str = "1x"
    drivers: int = 1
    sessions: int = 20
    duration: str = ""
    confirm: str = ""
    """The name of a target that may be written over, typed by a person."""


def job_row(job: StartedJob) -> JobRow:
    state, order = job.state, job.order
    return JobRow(
        job.name,
        order.kind,
        ", ".join(os.path.basename(log) for log in order.logs) or order.name,
        shown_targets(order) or ["a scratch file"],
        job.outcome,
        state.message if state else "",
        state.notes if state else [],
        state.runs if state else [],
        order.by,
    )


def job_rows(web: Web) -> list[JobRow]:
    """Those that go on and the newest others, the newest first."""
    found = web.jobs.all()
    shown = [job for job in found if job.is_running] + [job for job in found if not job.is_running][-JOBS_SHOWN:]
    order = {job.name: number for number, job in enumerate(found)}
    return [job_row(job) for job in sorted(shown, key=lambda job: -order[job.name])]


@reads
def now_page(request: Request, web: Web) -> Response:
    values = {
        "title": "Now",
        "profiles": forms.profile_rows(),
        "studies": forms.study_rows(),
        "targets": list(web.targets().values()),
        "modes": MODES,
        "traces": web.traces,
        "logs": web.logs,
        "mappings": web.mappings,
        "databases": list(web.named_databases()),
    }
    return page(request, "now.html", values)


@reads
def api_now(request: Request, web: Web) -> Any:
    follower = Follower(web.store)
    try:
        follower.look()
        runs = [run_state(followed) for followed in follower.runs.values()]
    finally:
        follower.close()
    return {"runs": runs, "jobs": job_rows(web)}


@reads
def api_targets(request: Request, web: Web) -> Any:
    targets = [{"target": one.word, "title": one.title, "kind": one.kind} for one in web.targets().values()]
    return {"targets": targets, "databases": list(web.named_databases())}


@reads
def api_profiles(request: Request, web: Web) -> Any:
    return {
        "profiles": forms.profile_rows(),
        "studies": forms.study_rows(),
        "traces": list(web.traces),
        "logs": list(web.logs),
        "mappings": list(web.mappings),
    }


def _shipped(name: str) -> str:
    if name not in {row.name for row in forms.profile_rows()}:
        raise ProblemError(404, "no such profile; choose one of the list")
    return name


@reads
def api_profile(request: Request, web: Web) -> Any:
    return forms.profile_form(_shipped(path_of(request).name))


@operates
def api_check(request: Request, web: Web, body: Body, session: Session) -> Any:
    """Whether a run would be taken; the words are the core's."""
    asked = typed(body, Asked)
    try:
        _order(web, asked, session)
    except BadInputError as error:
        return {"ok": False, "error": str(error)}
    except ProblemError as problem:
        return {"ok": False, "error": problem.text}
    return {"ok": True, "error": ""}


@operates
def api_start(request: Request, web: Web, body: Body, session: Session) -> Any:
    with web.starting:
        order = _order(web, typed(body, Asked), session)
        try:
            return job_row(web.jobs.start(order))
        except BadInputError as error:
            raise ProblemError(409, str(error)) from error


def _order(web: Web, asked: Asked, session: Session) -> Order:
    """Everything that can be refused now is."""
    _refuse_wrong(asked)
    if asked.kind == "web-log":
        return _log_order(web, asked, session)
    target = web.target(asked.target)
    if asked.condition and (target.kind != "model" or asked.kind not in ("run", "replay")):
        raise ProblemError(400, "condition: of a run or a replay on a modelled target alone; leave it empty")
    overwrite = _overwritten(target, asked)
    targets = list(target.paths)
    if asked.kind == "study":
        if asked.name not in {row.name for row in forms.study_rows()}:
            raise ProblemError(404, "no such study; choose one of the list")
        targets = [] if target.kind == "scratch" else targets
    if asked.kind == "run":
        _shipped(asked.name)
    if asked.kind == "replay" and asked.name not in web.traces:
        raise ProblemError(404, "no such trace; start the server with --allow-trace FILE")
    if not 0.001 <= asked.speed <= 1000:
        raise ProblemError(400, "speed: from 0.001 to 1000 times that of the trace")
    order = Order(
        kind=asked.kind,
        name=asked.name if asked.kind != "characterize" else "",
        changes=asked.changes,
        targets=targets,
        condition=asked.condition or None,
        size=(asked.size or None) if target.kind == "scratch" and asked.kind in ("run", "replay") else None,
        repetitions=asked.repetitions,
        mode=asked.mode,
        only=asked.only,
        timing=asked.timing,
        speed=asked.speed,
        fit=asked.fit,
        overwrite=overwrite,
        store=None if web.store is None else str(web.store),
        by=session.who,
    )
    check_order(order, web.traces)
    return order


def _refuse_wrong(asked: Asked) -> None:
    if len(asked.changes) > CHANGES_MAX or any(len(one) > 1000 or "=" not in one for one in asked.changes):
        raise ProblemError(400, f"at most {CHANGES_MAX} changes, each written as key=value")
    if not 1 <= asked.repetitions <= REPETITIONS_MAX:
        raise ProblemError(400, f"repetitions: from 1 to {REPETITIONS_MAX}")
    if asked.only and asked.kind != "study":
        raise ProblemError(400, "only: of a study alone; leave it empty")


def _log_order(web: Web, asked: Asked, session: Session) -> Order:
    """A replay of web logs; files and databases are those that the server was started with."""
    databases = web.named_databases()
    known = (
        (asked.logs, web.logs, "log", "--allow-log FILE"),
        ([asked.name], web.mappings, "mapping", "--allow-mapping FILE.toml"),
        (asked.databases, databases, "database", "--allow-database DSN"),
    )
    for chosen, allowed, what, option in known:
        if not chosen:
            raise ProblemError(400, f"choose a {what}")
        if not set(chosen) <= set(allowed):
            raise ProblemError(404, f"no such {what}; choose one of the list, or start the server with {option}")
    if not 1 <= asked.drivers <= DRIVERS_MAX or not 1 <= asked.sessions <= SESSIONS_MAX:
        raise ProblemError(400, f"drivers: from 1 to {DRIVERS_MAX}; sessions of each: from 1 to {SESSIONS_MAX}")
    if any(len(word) > WORDS_MAX for word in (asked.pace, asked.log_speed, asked.duration)):
        raise ProblemError(400, f"pace, speed, duration: at most {WORDS_MAX} letters")
    order = Order(
        kind="web-log",
        name=asked.name,
        logs=asked.logs,
        targets=[databases[name] for name in asked.databases],
        pace=asked.pace,
        log_speed=asked.log_speed,
        drivers=asked.drivers,
        sessions=asked.sessions,
        duration=asked.duration or None,
        repetitions=asked.repetitions,
        store=None if web.store is None else str(web.store),
        by=session.who,
    )
    api.check_replay(web_log_of(order), order.pace, order.repetitions)
    return order


def _overwritten(target: Target, asked: Asked) -> list[str]:
    """An allowed target may be written over only where its name was typed."""
    if target.kind != "allowed" or not asked.confirm:
        return []
    if asked.confirm != target.word:
        raise ProblemError(400, f"type {target.word} to confirm that it may be written over, or leave the field empty")
    return list(target.paths)


@reads
def api_jobs(request: Request, web: Web) -> Any:
    return {"jobs": job_rows(web)}


@operates
def api_stop(request: Request, web: Web, body: Body, session: Session) -> Any:
    typed(body, Nothing)
    try:
        return job_row(web.jobs.stop(path_of(request).name))
    except NoJobError as error:
        raise ProblemError(404, str(error)) from error
    except BadInputError as error:
        raise ProblemError(409, str(error)) from error
