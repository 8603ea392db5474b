"""Duty: `brickyard advise predict`. Refusal: no figures are computed here."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from brickyard import bricks, profiles
from brickyard.advise import predict as predicting
from brickyard.advise.answer import prediction
from brickyard.advise.predict import Limited
from brickyard.advise.simulate import Brick, dearest, filled, simulate, unverified
from brickyard.analysis.figures import search
from brickyard.analysis.figures.samples import Sample
from brickyard.analysis.figures.search import SEARCHES
from brickyard.analysis.judging.groups import with_changes
from brickyard.analysis.studies.curve_limit import growing_words, search_words
from brickyard.analysis.studies.sustained import Sustained, differ_words, is_wide
from brickyard.bricks import far_off, fitted
from brickyard.bricks.caps import caps_of
from brickyard.bricks.spread import KINDS, Spread, kind_of, spread_of
from brickyard.cli.parts import conditioning, options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer
from brickyard.cli.parts.target import split_overrides
from brickyard.errors import BadInputError, BrickyardError
from brickyard.schema import Document
from brickyard.schema.plan import Plan
from brickyard.schema.titles import CHANGED, changes_in
from brickyard.store import Record, Store
from brickyard.study.running.aim import aim
from brickyard.study.running.caches import cache_bytes, into_caches
from brickyard.study.running.computing import computing_lines, slowed_s
from brickyard.study.running.fit import refuse_programs
from brickyard.study.running.forecast import change_lines, forecast
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Runner, RunSpec
from brickyard.study.running.searching import searching_s
from brickyard.units import format_iops, format_ns, format_seconds

Measure = Callable[[Plan], Record]


def predict(
    profile: str,
    target: str,
    /,
    *,
    limit: Annotated[str, Parameter(help="Limit on the response time: mean:100ms, p99:20ms, max:50ms.")],
    per_mailbox: Annotated[float | None, Parameter(help="Requests per second of one mailbox, such as 0.5.")] = None,
    per_page: Annotated[float | None, Parameter(help="Requests that one page view makes.")] = None,
    stream: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            consume_multiple=True,
            help="Streams whose requests are counted, and each of which has to keep the limit, such as 'database-*'; "
            "the others run as in the profile. By default all streams together.",
        ),
    ] = (),
    phase: Annotated[str | None, Parameter(help="Which phase of the profile.")] = None,
    condition: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            consume_multiple=True,
            help=f"Condition of a modelled brick, or several: {options.CONDITION_WORDS}.",
        ),
    ] = (),
    duration: Annotated[
        str | None, Parameter(help="Duration at each rate; by default 60s of virtual time, or 10s on a real target.")
    ] = None,
    searches: options.Searches = SEARCHES,
    overrides: options.Overrides = (),
    overwrite: options.Overwrite = (),
    i_know_this_destroys_data: options.DestroysData = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """How many requests per second a target sustains before its response time exceeds a limit.

    Parameters
    ----------
    profile
        The workload. Its mix is kept; its pace becomes an open loop with Poisson arrivals.
    target
        A modelled brick such as sim:terraserver-2003, or a file or device that exists.
    """
    from brickyard import _core

    modelled = bricks.is_modelled(target)
    if condition and not modelled:
        raise BadInputError("--condition: only a modelled brick (sim:NAME) can be put into a condition here")
    _check_shares(per_mailbox, per_page)
    ruler = predicting.limit(limit)
    try:
        length_s = _core.parse_duration_ns(duration or ("60s" if modelled else "10s")) / 1e9
    except ValueError as error:
        raise BadInputError(f"--duration: {error}") from error
    if length_s <= 0:
        raise BadInputError("--duration: must be above 0")
    changes, of_brick = split_overrides((target,), list(overrides))
    whole = profiles.changed(profiles.read(profile), changes, own=unverified(profile) if modelled else ())
    refuse_programs(profile, whole, "advise predict")
    plan = predicting.named(predicting.one_phase(whole, phase))
    predicting.refuse_chains(plan)
    asked = predicting.asked(plan, ruler, stream)
    if not asked.names:
        _refuse_all_streams(plan, per_mailbox, per_page)
    if modelled:
        conditioning.refuse_idle_switch((target,), condition, of_brick)
    kind, of_fit = _known_of(target, of_brick, plan)
    states = conditioning.modelled_words(condition) or ("normal",)
    loads = [_loaded(plan, asked, target, state, list(of_brick)) for state in states]
    for line in _forecast(plan, target, loads, asked, length_s, searches):
        print_line(stderr(), line)
    found = []
    for load in loads:
        with (
            _modelled(load) if modelled else _real(profile, target, overwrite, i_know_this_destroys_data, store) as (
                measure,
                of_caches,
            )
        ):
            one = _predicted(load.plan, target, load.condition, asked, length_s, measure, searches)
            spread = spread_of(kind) if kind else None
            is_open = predicting.is_open(plan, asked)
            found.append(dataclasses.replace(one, is_open=is_open, spread=spread, kind=kind, cap=load.cap))
            cached = of_caches()
    far = [*of_fit, *(far_off.words([kind]) if kind else [])]
    said = changes_in(whole.title or "")
    names = Names(profile, target, said, ", ".join(of_brick))
    _answer(names, limit, found, per_mailbox, per_page, cached, far, as_json=json)
    return 0 if all(item.known for item in found) else 1


def _refuse_all_streams(plan: Plan, per_mailbox: float | None, per_page: float | None) -> None:
    """Mailboxes and pages make the requests of some streams, and a backup or a scan beside them is no request of
    theirs."""
    names = [stream.name for stream in plan.phase[0].stream]
    options = [o for o, n in (("--per-mailbox", per_mailbox), ("--per-page", per_page)) if n is not None]
    if options and len(names) > 1:
        raise BadInputError(
            f"{options[0]}: the profile has the streams {_listed(names)}; name those whose requests it counts with "
            f"--stream, such as --stream {shlex.quote(names[0])} (--stream '*' counts all)"
        )


def _check_shares(per_mailbox: float | None, per_page: float | None) -> None:
    for name, value in (("--per-mailbox", per_mailbox), ("--per-page", per_page)):
        if value is not None and not 0 < value < float("inf"):
            raise BadInputError(f"{name} {value:g}: must be above 0")


def _known_of(target: str, of_brick: Sequence[str], plan: Plan) -> tuple[str | None, list[str]]:
    """The kind of models whose errors are those of this one, if any; of a fitted model, what its fit found."""
    if not bricks.is_modelled(target):
        return None, []
    made = bricks.resolve(target, of_brick)
    of_fit = fitted.words(made.texts, plan)
    return (None, [of_fit]) if of_fit else (kind_of(made.brick, plan), [])


@dataclass(frozen=True)
class InCondition:
    """The plan in one condition, and the brick that it runs on; None where the storage is real."""

    plan: Plan
    condition: str
    brick: Brick | None = None
    overrides: list[str] = dataclasses.field(default_factory=list)
    cap: float | None = None

    def measure(self, plan: Plan) -> Record:
        assert self.brick is not None
        return simulate(plan, self.brick, self.condition, self.overrides)


def _loaded(plan: Plan, asked: Limited, target: str, state: str, of_brick: list[str]) -> InCondition:
    """A model's caches are filled before each run."""
    if not bricks.is_modelled(target):
        return InCondition(plan, state)
    brick = bricks.resolve(target, [*of_brick, bricks.condition_override(state)]).brick
    changed = [*of_brick, *dearest(state, brick, (target, *of_brick))]
    cap = caps_of(brick, predicting.counted_alone(plan, asked)).requests_per_s
    return InCondition(filled(plan, brick), state, Brick(target.removeprefix(bricks.MODELLED)), changed, cap)


def _forecast(
    plan: Plan, target: str, loads: list[InCondition], asked: Limited, length_s: float, searches: int
) -> list[str]:
    """How long the searches take, and what they write."""
    if bricks.is_modelled(target):
        return computing_lines(
            slowed_s(lambda: sum(searching_s(load.plan, asked, length_s, load.measure, searches) for load in loads))
        )
    runs = 1 + search.expected_steps(searches)
    expected = forecast(predicting.for_time(plan, length_s), [None])
    lasts = format_seconds(runs * (expected.duration_s or length_s))
    lines = [f"duration: about {lasts}: some {runs} runs, one for each rate that the search tries"]
    return [*lines, *change_lines(expected.writes, expected.trims)]


@dataclass(frozen=True)
class _Streams:
    """Whose requests are counted, and which part of them each stream has."""

    parts: list[tuple[str, float]]
    are_named: bool

    @property
    def words(self) -> str:
        """Of several, with their parts."""
        if len(self.parts) == 1:
            return self.parts[0][0]
        return _listed([f"{name} ({part * 100:.2g} %)" for name, part in self.parts])


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


@dataclass(frozen=True)
class Predicted:
    """What a brick carries in one condition, beside what it does when nothing limits the rate."""

    condition: str
    unlimited_per_s: float
    searches: list[search.Carried]
    streams: _Streams
    is_open: bool = False
    spread: Spread | None = None
    kind: str | None = None
    cap: float | None = None
    """Requests/s that the storage can have at most."""

    @property
    def sustained(self) -> Sustained:
        of = self.condition, self.rates, self.unlimited_per_s
        whose = self.streams.words if self.streams.are_named else ""
        return Sustained(*of, self.is_open, self.spread, self.kind, self.cap, whose)

    @property
    def rates(self) -> Sample | None:
        return search.rates(self.searches)

    @property
    def known(self) -> Sample | None:
        """The rates, unless the searches differ too much."""
        return self.rates if self.rates and not is_wide(self.rates) else None

    @property
    def steps(self) -> list[search.Step]:
        return [step for carried in self.searches for step in carried.steps]


def _predicted(
    plan: Plan, target: str, condition: str, asked: Limited, length_s: float, measure: Measure, searches: int
) -> Predicted:
    console = stderr()
    figure = asked.figure
    print_line(console, f"{condition}: measuring the brick without a rate limit …")
    unlimited = measure(predicting.for_time(plan, length_s))
    parts = predicting.shares(unlimited, asked)
    if not parts or (asked.names and not all(parts.values())):
        names = f" of {_listed(list(asked.names))}" if asked.names else ""
        raise BrickyardError(f"{target}: no request{names} was completed; there is nothing to predict from")

    def attempt(rate: float, number: int) -> search.Step:
        drawn = replace(plan, seed=plan.seed + number)
        record = measure(predicting.at_rate(drawn, rate, parts, asked, length_s, virtual=bricks.is_modelled(target)))
        step = predicting.step(record, asked, rate)
        said = f"{condition}, {format_iops(rate)} requests/s: {figure} {format_ns(step.value_ns)}"
        why = "" if step.holds else ", too slow" if step.kept_up else ", not all requests that were due were sent"
        print_line(console, said + why)
        return step

    most = sum(row.iops for row in predicting.counted(unlimited, asked))
    of = _Streams([(plan.phase[0].stream[number].name, part) for number, part in parts.items()], bool(asked.names))
    return Predicted(condition, most, search.searched(attempt, max(1.0, most / 2), searches), of)


@contextmanager
def _modelled(load: InCondition) -> Iterator[tuple[Measure, Callable[[], str | None]]]:
    """Its caches are filled before each run, so there is nothing to be said of them."""
    yield load.measure, lambda: None


@contextmanager
def _real(
    profile: str, target: str, overwrite: tuple[str, ...], destroys_data: bool, store: Path | None
) -> Iterator[tuple[Measure, Callable[[], str | None]]]:
    """Every rate is a run of its own in the store, with its circumstances. Beside it, what is to be said of caches."""
    with (
        Store(store) as kept,
        aim((target,), size=None, scratch=None, keep=False, overwrite=overwrite, destroys_data=destroys_data) as aimed,
        Interrupt() as interrupt,
        Terminal() as terminal,
    ):
        runner = Runner(kept, terminal, interrupt)
        runs: list[int] = []

        def measure(plan: Plan) -> Record:
            result = runner.run(RunSpec(profile, plan, aimed.targets, aimed.options))
            if result.outcome == "interrupted":
                raise KeyboardInterrupt
            if result.outcome != "done":
                raise BrickyardError(f"{target}: {result.message or 'the run failed'}")
            runs.append(result.run)
            return kept.record(result.run)

        def of_caches() -> str | None:
            held = cache_bytes(aimed.targets[0], aimed.options)
            return into_caches((kept.record(run) for run in runs), held, "--duration")

        yield measure, of_caches


@dataclass(frozen=True)
class Names:
    """Of the workload and the target, each with what was changed of it."""

    profile: str
    target: str
    of_load: str
    of_model: str

    @property
    def workload(self) -> str:
        return f"{self.profile}{CHANGED}{self.of_load}" if self.of_load else self.profile

    @property
    def place(self) -> str:
        return f"{self.target}{with_changes(self.of_model)}"

    def document(self) -> Document:
        changed = {"workload_changes": self.of_load, "model_changes": self.of_model}
        return {"profile": self.profile, "target": self.target, **{k: words for k, words in changed.items() if words}}


def _answer(
    names_of: Names,
    limit: str,
    found: list[Predicted],
    per_mailbox: float | None,
    per_page: float | None,
    cached: str | None,
    far: list[str],
    *,
    as_json: bool,
) -> None:
    figure, _, most = limit.partition(":")
    doubts = [*_doubts(found, figure), *([cached] if cached else []), *far]
    carried = [item.sustained for item in found]
    names = [name for name, _ in found[0].streams.parts] if found[0].streams.are_named else []
    whose, each = f" of {_listed(names)}" if names else "", " of each" if len(names) > 1 else ""
    question = (
        f"How many requests/s{whose} does {names_of.place} sustain {'in' if names else 'of'} {names_of.workload} with"
        f" the {figure} response time{each} within {most}?"
    )
    answer = prediction(question, carried, doubts, is_modelled=bricks.is_modelled(names_of.target))
    documents = [_document(item, per_mailbox, per_page) for item in found]
    if as_json:
        said = {"caches": cached} if cached else {}
        asked = {**answer.document(), **names_of.document(), "limit": limit}
        emit({**asked, **documents[0], **said, "conditions": documents})
        return
    out = stdout()
    print_answer(out, answer)
    rows = [["requests per second", *(_rates(item, 1, format_iops) for item in found)]]
    if per_mailbox is not None:
        rows.append([f"mailboxes, {per_mailbox:g}/s each", *(_rates(item, per_mailbox, _whole) for item in found)])
    if per_page is not None:
        pages = [_rates(item, per_page, format_iops) for item in found]
        rows.append([f"page views per second, {per_page:g} requests each", *pages])
    alone = "at the profile's own rate (open loop)" if found[0].is_open else "closed loop (set by the profile)"
    rows.append([alone, *(format_iops(item.unlimited_per_s) for item in found)])
    print_line(out, f"What {names_of.place} sustains of {names_of.workload} with {figure} within {most}", "bold")
    out.print(table("", [("", "left"), *((item.condition, "right") for item in found)], rows))
    for item in found:
        if item.rates is None:
            lowest = min(item.steps, key=lambda step: step.rate_per_s)
            print_line(
                out,
                f"{item.condition}: no rate keeps {figure} within {most}; at {format_iops(lowest.rate_per_s)}/s it is "
                f"{format_ns(lowest.value_ns)}",
            )
    for note in _notes(found):
        print_line(out, note)


def _notes(found: list[Predicted]) -> list[str]:
    """What the table's words mean."""
    counts = {rates.n for item in found if (rates := item.rates)}
    last = "as in the profile, no limit" if found[0].is_open else "the profile's own queue depth, no limit"
    notes = [f"open loop with Poisson arrivals in the profile's mix; last line: {last}"]
    if found[0].streams.are_named:
        mix = "; ".join(f"{item.condition}: {item.streams.words}" for item in found)
        notes.append(f"requests that are counted: {mix}; the other streams run as in the profile")
    notes += sorted(
        {
            f"models of {spread.kind}: nine of ten published figures {spread.claim}. {spread.basis}. Almost all of "
            "them are rates without a limit on the response time (docs/truth.md)"
            for item in found
            if (spread := item.spread)
        }
    )
    notes += sorted(
        {
            f"the interval of {spread.kind} ends at {spread.cap_words}"
            for item in found
            if (spread := item.spread) and item.sustained.is_capped
        }
    )
    notes += sorted(
        f"no factor for models of {KINDS[kind]}: too few published tables were compared with them (docs/truth.md)"
        for kind in {item.kind for item in found if item.kind and item.spread is None}
    )
    if counts - {1}:
        notes.append(f"in brackets: the 95 % interval, {search.COVERED} ({max(counts)} searches, {search.OWN})")
    return notes


def _doubts(found: list[Predicted], figure: str) -> list[str]:
    """What limits belief in the rates."""
    of = found[0].streams
    together = []
    if len(of.parts) > 1 and not of.are_named:
        together.append(
            f"rate and limit are of all streams' requests together, {of.words}: many fast requests of one stream hide "
            "slow ones of another; --stream counts those that you name, each of which has to keep the limit"
        )
    counts = {rates.n for item in found if (rates := item.rates)}
    doubts = ["a single search gives no interval: use --searches 3"] if 1 in counts else []
    every = [carried for item in found for carried in item.searches]
    few, grew = search.fewest(every, figure), growing_words(every)
    doubts = [*together, *doubts, *([f"{grew}: use a longer --duration"] if grew else [])]
    return doubts if few is None else [*doubts, f"{search_words(few, figure)}: use a longer --duration"]


def _whole(value: float) -> str:
    return f"{math.floor(value):,}"


def _rates(item: Predicted, each: float, form: Callable[[float], str]) -> str:
    """The rate over what one mailbox or page takes of it, with its interval."""
    rates = item.known
    if rates is None:
        return "not known" if item.rates else "none"
    said = form(rates.centre / each)
    if rates.low is None or rates.high is None:
        return said
    return f"{said} ({form(rates.low / each)} to {form(rates.high / each)})"


def _document(item: Predicted, per_mailbox: float | None, per_page: float | None) -> Document:
    rates = item.known
    ends = item.sustained.ends if rates else None
    rate = rates.centre if rates else None
    return {
        "condition": item.condition,
        "not_known": differ_words(item.sustained, item.rates) if item.rates and not rates else None,
        "rate_per_s": rate,
        "low_per_s": rates.low if rates else None,
        "high_per_s": rates.high if rates else None,
        "mailboxes": None if per_mailbox is None or rate is None else math.floor(rate / per_mailbox),
        "pages_per_s": None if per_page is None or rate is None else rate / per_page,
        "unlimited_per_s": item.unlimited_per_s,
        "streams": dict(item.streams.parts),
        "each_stream_within_limit": item.streams.are_named,
        "unlimited_is_open_loop": item.is_open,
        "interval_factor": item.spread.factor if item.spread else None,
        "low_with_model_per_s": ends[0] if ends else None,
        "high_with_model_per_s": ends[1] if ends else None,
        "searches": [carried.document() for carried in item.searches],
    }
