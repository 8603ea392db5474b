"""Duty: a record held against a ruler: pass or fail, headroom as a factor, and the figure that decided.

Refusal: a figure that was not measured passes nothing, unless another one of the same samples proves it; neither do
requests of which some failed, and neither does a run that did not come to its end or was not what it was meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from brickyard.analysis.figures.conditions import BEFORE, NORMAL_AGAIN, by_condition
from brickyard.analysis.figures.frames import players
from brickyard.analysis.figures.latency import Latency, bucket_start_ns, together
from brickyard.analysis.figures.ramp import ramp_limit
from brickyard.analysis.figures.ramp_result import at_result, ramp_results
from brickyard.analysis.figures.sending import (
    SLOTS_MANY,
    FewSlots,
    Length,
    asked_noun,
    few_slots,
    in_flight_words,
    length_told,
)
from brickyard.analysis.figures.totals import (
    UNKNOWN_TARGET,
    Totals,
    asked_stream,
    asked_targets,
    errors_of,
    rate_of,
    rated_rows,
    stream_name,
    totals,
    waited,
)
from brickyard.analysis.judging.aborted import aborted_count_words
from brickyard.analysis.judging.applying import of_another_kind
from brickyard.analysis.judging.cached import Doubt, not_lasting
from brickyard.analysis.judging.offered import allowed, is_near, offer, rate_words
from brickyard.analysis.judging.tool_times import commits, tool_time, untimed_words
from brickyard.percentiles import PERCENTILE_NAMES, is_supported, percentile_of
from brickyard.rulers import TIMES, Requirement, Ruler
from brickyard.schema import Document, Knob, RampEnd, Timed, is_request, is_timed
from brickyard.schema.plan import LimitFigure
from brickyard.store import Record
from brickyard.units import format_count, format_counted, format_ns, told_apart


@dataclass(frozen=True)
class BoundFigure:
    """A figure of the same samples that decides where the percentile is not known: it is not above their maximum, and
    not below their minimum or a lower percentile. That of several operations together is between those of each."""

    figure: str
    value: float
    is_upper: bool = False


@dataclass(frozen=True)
class Finding:
    """One requirement. `value` is in the unit of its threshold, None where it could not be measured.

    `head_room` above 1 is how many times over the requirement is met, below 1 the share of it that is; with a `bound`,
    it is at least or at most that.
    """

    requirement: Requirement
    phase: str
    value: float | None
    head_room: float | None
    errors: int | None
    """None where it is not known whether requests failed."""
    passed: bool
    note: str = ""
    asked: bool = True
    """False where the requirement is one for runs in another condition."""
    applies: bool = True
    """False where the requirement is one for another load."""
    stream: str = ""
    """Which stream decided, where several were judged one by one."""
    condition: str = ""
    """In which condition the figure that decided was measured, where the run was in another one than it began with."""
    target: str = ""
    """Which target decided, where each was judged by itself."""
    targets_together: int = 1
    """Over how many targets a rate was added up."""
    streams_together: int = 1
    """Over how many streams; one that is quick hides one that starves."""
    alone: Finding | None = None
    """A stream, or an operation, that would not meet by itself what all requests together do."""
    operation: str = ""
    """Of a finding that is `alone`, where it is of one operation."""
    is_known: bool = True
    """False where a run met it that did not come to its end or was not what it was meant to be, or whose queue grew,
    where a cache may have met it, or where what was measured leaves it open."""
    bound: BoundFigure | None = None
    noun: str = "requests"
    """What failed."""
    is_of_few_events: bool = False
    """Of a percentile, as in `Latency`."""
    is_one_of_phases: bool = False
    """Whether the run has further phases."""
    by_tool: str = ""
    """Whose time it is, where a tool printed it and it stands for the time that is asked for: `fio's lat`."""
    few_slots: FewSlots | None = None
    """Of closed loops that missed a rate, alone or beside streams that kept theirs, where more in flight may help."""

    @property
    def word(self) -> str:
        if not self.is_known:
            return "not known"
        if not self.applies:
            return "not applicable"
        if not self.asked:
            return "not measured"
        return "pass" if self.passed else "fail"

    @property
    def reason(self) -> str:
        if self.note:
            return f"{self.note} in stream {self.stream}" if self.stream else self.note
        failed = (
            f"{format_counted(self.errors, self.noun)} failed" if self.errors and not self.requirement.is_share else ""
        )
        if self.value is None and self.bound is None and not failed:
            return "not measured"
        more = _more_may(_set_words(self.few_slots.words)) if self.few_slots else ""
        return ", ".join(filter(None, (self.stream and f"stream {self.stream}", failed, more)))

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The least decides: what fails, then what is not known, then the least headroom."""
        return self.passed, self.word != "fail", self.head_room or 0.0


@dataclass(frozen=True)
class Verdict:
    ruler: Ruler
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    @property
    def word(self) -> str:
        words = {finding.word for finding in self.findings}
        return next(word for word in ("fail", "not known", "not measured", "not applicable", "pass") if word in words)

    @property
    def decided(self) -> Finding:
        return min(self.findings, key=lambda finding: finding.rank)


@dataclass(frozen=True)
class _Part:
    """What of a run was measured in one condition; an empty one stands for all of the run."""

    condition: str
    rows: list[Totals]
    lengths: dict[tuple[int, int], Length]
    """By phase and stream, whose response times tell how long it was."""


def verdict(record: Record, ruler: Ruler, *, lasting: bool = False) -> Verdict:
    """`lasting`: a requirement is met only by figures that the storage sustains; whoever filled its caches before, as
    advice does, need not ask."""
    judge = _Judge(record)
    several = len(record.info.plan.phase) > 1
    found_of_all = [
        replace(_of_the_whole(record, judge.finding(requirement)), is_one_of_phases=several)
        for requirement in ruler.requirements
    ]
    doubt = not_lasting(record) if lasting and any(finding.passed for finding in found_of_all) else None
    return Verdict(ruler, tuple(_that_lasts(finding, doubt) for finding in found_of_all))


class _Judge:
    """Judges a record by one requirement after another."""

    def __init__(self, record: Record) -> None:
        self._record = record
        results = ramp_results(record)
        at = at_result(record, results)
        self._parts = _parts(at)
        # Failures count wherever they were.
        whole = [_Part("", totals(record), {}), *_parts(record)]
        self._every = whole if len(self._parts) != 1 or results else self._parts
        self._lacking = {phase: result.trouble for phase, result in results.items() if result.trouble}

    def finding(self, requirement: Requirement) -> Finding:
        record = self._record
        parts = self._of_condition(requirement)
        if not parts:
            stood = " and ".join(self._conditions(self._parts)) or record.info.condition
            apart = f"this run was {stood}, not {requirement.condition}"
            return _unasked(
                requirement, apart if requirement.condition else "no interval was in one condition throughout"
            )
        if requirement.is_count:
            return _dropped(record, requirement)
        asked = [(part, _asked(part.rows, requirement)) for part in parts]
        rows = [row for _, own in asked for row in own]
        if note := _other_load(record, rows, requirement):
            return replace(_unasked(requirement, note), applies=False)
        lacking = self._lacking
        if not requirement.is_share and (trouble := next((lacking[r.phase] for r in rows if r.phase in lacking), "")):
            return _unasked(requirement, trouble)
        judged = [self._judged(part, own, requirement) for part, own in asked if own or not rows]
        found = min(judged, key=lambda finding: finding.rank)
        alone = [finding.alone for finding in judged if finding.alone]
        return replace(found, alone=min(alone, key=lambda finding: finding.rank, default=None))

    def _judged(self, part: _Part, rows: list[Totals], requirement: Requirement) -> Finding:
        found = replace(_worst(self._record, rows, requirement, part), condition=self._told(part.condition))
        if requirement.is_response and any((row.phase, row.stream) in part.lengths for row in rows):
            found = replace(found, is_of_few_events=False)  # no stall explains the times of such a queue
        return _of_its_rate(found, rows, part.lengths) if requirement.is_response and found.passed else found

    def _of_condition(self, requirement: Requirement) -> list[_Part]:
        """Those that a requirement is for."""
        parts = self._every if requirement.is_share else self._parts
        if requirement.condition is None:
            return parts
        if requirement.is_count or not any(part.condition for part in parts):
            return parts if requirement.condition == self._record.info.condition else []
        return [part for part in parts if _plain(part.condition) == requirement.condition]

    @staticmethod
    def _conditions(parts: list[_Part]) -> list[str]:
        return [part.condition.replace("_", " ") for part in parts if part.condition]

    def _told(self, condition: str) -> str:
        return "" if [self._record.info.condition] == self._conditions(self._parts) else condition


def _of_its_rate(found: Finding, asked: list[Totals], lengths: dict[tuple[int, int], Length]) -> Finding:
    """There is no response time at a rate that was not kept; where it was, a longer run may have a greater one."""
    told = [(row, length) for row in asked if (length := lengths.get((row.phase, row.stream)))]
    if not told:
        return found
    row, length = min(told, key=lambda one: one[1].kept_up)
    stream = row.stream_name if len({one.stream for one in asked}) > 1 else ""
    return replace(found, passed=False, is_known=not length.kept_up, note=length.words, stream=stream)


def _parts(record: Record) -> list[_Part]:
    """What was left unsent is only known of the whole; whether a queue grew, of each part."""
    unsent = {key: told for key, told in length_told(record).items() if not told.kept_up}

    def lengths(part: Record) -> dict[tuple[int, int], Length]:
        return {key: told for key, told in length_told(part).items() if told.kept_up} | unsent

    return [_Part(condition, totals(part), lengths(part)) for condition, part in by_condition(record)]


def _plain(condition: str) -> str:
    return BEFORE if condition == NORMAL_AGAIN else condition


def _unasked(requirement: Requirement, note: str) -> Finding:
    return Finding(requirement, "", None, None, 0, passed=False, note=note, asked=False)


def _that_lasts(finding: Finding, doubt: Doubt | None) -> Finding:
    """A requirement that the lasting share of a rate would not meet is not known to be met. A time has no such share:
    what waits for the storage may wait for any time."""
    is_kept = finding.requirement.is_share or finding.requirement.is_count or finding.head_room is None
    lasting = (finding.head_room or 0) * doubt.lasting_share if doubt and finding.requirement.is_rate else 0
    if doubt is None or not finding.passed or is_kept or lasting >= 1:
        return finding
    return replace(finding, passed=False, is_known=False, note=doubt.text, stream="")


def _of_the_whole(record: Record, finding: Finding) -> Finding:
    """What failed in a part of a run has failed; what was met in a part may yet fail."""
    info = record.info
    if not finding.passed or info.is_valid or info.outcome == "running":
        return finding
    ended = {"interrupted": "the run was interrupted", "failed": "the run failed"}.get(info.outcome)
    note = f"{ended}, so only a part of it was measured" if ended else f"the run is not valid: {info.invalid}"
    if info.outcome == "failed" and (gone := aborted_count_words(record)):
        note = f"{ended}: {gone}"
    return replace(finding, passed=False, is_known=False, note=note, stream="")


def all_pass(verdicts: list[Verdict]) -> bool:
    """Verdicts of several runs by one ruler: each requirement holds in all the runs that it is asked of, and in one."""
    for findings in zip(*(item.findings for item in verdicts), strict=True):
        asked = [finding for finding in findings if finding.asked]
        if not asked or not all(finding.passed for finding in asked):
            return False
    return bool(verdicts)


def _searches_drops(record: Record, end: RampEnd) -> bool:
    limit = ramp_limit(record, end.phase)
    return end.knob is Knob.WORKERS and limit is not None and limit.when is LimitFigure.DROPPED


def _dropped(record: Record, requirement: Requirement) -> Finding:
    """Dropped frames of all players; the slowest frame against the buffer is the headroom."""
    ends = [end for end in record.of(RampEnd) if _searches_drops(record, end)]
    if ends:
        # The last step without a drop is the answer; those beyond were tried on purpose.
        found = min((end.found.value if end.found else 0.0 for end in ends), default=0.0)
        note = (
            f"{found:.0f} at the same time without a dropped frame"
            if found
            else "the first step already dropped frames"
        )
        return Finding(requirement, "", 0.0 if found else 1.0, found or None, 0, passed=found > 0, note=note)
    asked = [p for p in players(record) if requirement.stream is None or fnmatchcase(p.stream_name, requirement.stream)]
    if not sum(p.frames for p in asked):
        return Finding(requirement, "", None, None, 0, passed=False)
    dropped = sum(p.dropped for p in asked)
    room = min((p.head_room for p in asked if p.head_room is not None), default=None)
    said = [f"{p.first_dropped_ns / 1e9:.3f} s" for p in asked if p.first_dropped_ns is not None]
    note = f"the first at {min(said, key=len)}" if len(said) == 1 else ""
    if len(said) > 1:
        first = min(p.first_dropped_ns for p in asked if p.first_dropped_ns is not None)
        note = f"in {len(said)} of {len(asked)} players, the first at {first / 1e9:.3f} s"
    passed = dropped <= requirement.threshold
    return Finding(requirement, "", float(dropped), room, 0, passed=passed, note="" if passed else note)


def _other_load(record: Record, rows: list[Totals], requirement: Requirement) -> str:
    """Why a requirement says nothing of this load; empty where it does."""
    asked = ((asked_stream(record, row.phase, row.stream), row.stream_name) for row in rows)
    said = next(filter(None, (of_another_kind(stream, name, requirement) for stream, name in asked)), "")
    return said and f"this requirement {said}"


def _worst(record: Record, asked: list[Totals], requirement: Requirement, part: _Part) -> Finding:
    """A requirement holds for a run when it holds in each of its phases; phases without such requests are none.

    Rates add up. Times and shares have to be kept on each target by itself, and, where the requirement names streams,
    by each of them: many fast requests would hide the slow ones of another.
    """
    groups: dict[tuple[int, int, int], list[Totals]] = {}
    for row in asked:
        groups.setdefault(_group_of(record, row, requirement), []).append(row)
    found = [
        _of_the_offer(record, _of_group(record, rows, asked, requirement), rows, part)
        for _, rows in sorted(groups.items())
    ]
    if not found:
        unknown = untimed_words(record, [], requirement) if requirement.figure in TIMES else ""
        return Finding(requirement, "", None, None, 0, passed=False, is_known=not unknown, note=unknown)
    alone = [other for rows in groups.values() if (other := _alone(record, rows, requirement))]
    worst = min(found, key=lambda finding: finding.rank)
    return replace(worst, alone=min(alone, key=lambda finding: finding.rank, default=None)) if worst.passed else worst


def _of_the_offer(record: Record, found: Finding, rows: list[Totals], part: _Part) -> Finding:
    """Storage that answered all that the profile offers has not missed a required rate: it was offered that rate, or
    less than that."""
    if found.passed or found.errors or found.value is None or found.requirement.is_share:
        return found
    if behind := {key: part.lengths[key] for row in rows if (key := (row.phase, row.stream)) in part.lengths}:
        which = next(iter(behind)) if len(behind) == 1 and not found.stream else None
        of = f" in stream {stream_name(record, *which)}" if which and len(asked_targets(record, which[0])) > 1 else ""
        return _of_its_slots(found, list(behind.values()), of)
    if not found.requirement.is_rate:
        return found
    offered = offer(record, rows, found.requirement)
    if offered is None:
        return _of_the_pauses(record, found, rows)
    if offered.per_s < found.requirement.threshold:
        note = f"the profile offers only {offered.words}, which the storage kept up with"
        return replace(found, is_known=False, note=note)
    # What was sent is known of a whole phase; a part of it may have fallen behind, and the next have caught up.
    if offered.is_by_chance and offered.is_all_sent and not is_near(found.value, found.requirement.threshold):
        note = f"the profile offers {offered.words} on average, but this run drew less, all of which was answered"
        return replace(found, is_known=False, note=note)
    if offered.is_all_sent and (not part.condition or is_near(found.value, offered.per_s)):
        note = f"the profile offers {offered.words}, and all that was due was sent and answered"
        return replace(found, passed=True, head_room=offered.per_s / found.requirement.threshold, note=note)
    if not offered.is_all_sent and not found.note:
        return replace(found, note=f"{format_count(offered.unsent)} requests that were due were never sent")
    return found


def _of_its_slots(found: Finding, behind: list[Length], of: str) -> Finding:
    """`of`: which stream did not keep up, where there are others.

    Where every request that may be in flight was, more of them may reach the rate, unless they were many. A limit
    on a response time is of the load as it was asked for."""
    slots, noun = sum(length.slots for length in behind), behind[0].noun
    if not all(length.slots for length in behind) or found.note:
        return found
    said = _set_words(f"{in_flight_words(slots, noun)}{of}")
    if found.requirement.is_rate and slots < SLOTS_MANY:
        return replace(found, is_known=False, note=_more_may(said))
    return replace(found, note=said)


def _set_words(in_flight: str) -> str:
    return f"with {in_flight}, which the profile sets"


def _more_may(said: str) -> str:
    return f"{said}; more may reach the rate"


def _of_the_pauses(record: Record, found: Finding, rows: list[Totals]) -> Finding:
    """A rate that the profile's pauses rule out says nothing against the storage."""
    most = allowed(record, rows, found.requirement)
    if most is None or most.per_s >= found.requirement.threshold:
        return _of_the_depth(record, found, rows)
    note = f"the profile's pauses allow at most {rate_words(most.per_s, found.requirement)} ({most.words})"
    return replace(found, is_known=False, note=note)


def _of_the_depth(record: Record, found: Finding, rows: list[Totals]) -> Finding:
    """A closed loop is asked for with its depth, so that it missed the rate; another depth may reach it."""
    return replace(found, few_slots=few_slots(record, rows[0].phase, {row.stream for row in rows}))


def _group_of(record: Record, row: Totals, requirement: Requirement) -> tuple[int, int, int]:
    """Phase, target and stream, as far as rows of each are judged by themselves."""
    if requirement.is_rate:
        return row.phase, 0, 0
    return row.phase, _target(record, row), 0 if requirement.stream is None else row.stream


def _of_group(record: Record, rows: list[Totals], asked: list[Totals], requirement: Requirement) -> Finding:
    found = _finding(record, rows, requirement)
    if requirement.is_rate:
        targets, streams = {_target(record, row) for row in rows}, {row.stream for row in rows}
        return replace(found, targets_together=len(targets), streams_together=len(streams))
    several = len({_target(record, row) for row in asked}) > 1
    names_stream = requirement.stream is not None and len({(row.phase, row.stream) for row in asked}) > 1
    return replace(
        found,
        target=record.info.targets[of] if several and (of := _target(record, rows[0])) != UNKNOWN_TARGET else "",
        stream=rows[0].stream_name if names_stream else "",
    )


def _target(record: Record, row: Totals) -> int:
    targets = asked_targets(record, row.phase)
    return targets[row.stream] if row.stream < len(targets) else 0


def _alone(record: Record, rows: list[Totals], requirement: Requirement) -> Finding | None:
    """Of streams, of operations, and of the operations of streams that are judged together, the one that by itself is
    furthest from a limit that it does not meet; the first of these kinds that has one."""
    if requirement.figure not in TIMES:
        return None
    streams: dict[int, list[Totals]] = {}
    operations: dict[str, list[Totals]] = {}
    for row in rows:
        streams.setdefault(row.stream, []).append(row)
    each: dict[tuple[int, str], list[Totals]] = {}
    for row in waited(record, rows):
        operations.setdefault(row.operation, []).append(row)
        each.setdefault((row.stream, row.operation), []).append(row)
    of_streams = [replace(_finding(record, own, requirement), stream=own[0].stream_name) for own in streams.values()]
    of_operations = [
        replace(_finding(record, own, replace(requirement, operation=name)), requirement=requirement, operation=name)
        for name, own in operations.items()
    ]
    of_each = [
        replace(
            _finding(record, own, replace(requirement, operation=name)),
            requirement=requirement,
            operation=name,
            stream=own[0].stream_name,
        )
        for (_, name), own in each.items()
    ]
    for found in (of_streams, of_operations, of_each):
        failed = [finding for finding in found if finding.word == "fail" and measured_value(finding) is not None]
        if len(found) > 1 and failed:
            return min(failed, key=lambda finding: finding.rank)
    return None


def measured_value(found: Finding) -> float | None:
    """Of the figure that decides."""
    return found.bound.value if found.bound else found.value


def _asked(rows: list[Totals], requirement: Requirement) -> list[Totals]:
    """Rates of what IOPS counts, the rest of requests and commits, unless an operation is named."""
    if requirement.operation is not None:
        chosen = [row for row in rows if row.operation == requirement.operation]
    elif requirement.is_rate:
        chosen = rated_rows(rows)
    else:
        chosen = [row for row in rows if is_timed(row.operation)]
    return [row for row in chosen if requirement.stream is None or fnmatchcase(row.stream_name, requirement.stream)]


def _share_failed(record: Record, rows: list[Totals], requirement: Requirement) -> Finding:
    """Of all that was asked, what failed. Nothing asked passes nothing."""
    counted = [row for row in rows if requirement.operation or is_request(row.operation)]
    errors = errors_of(counted)
    if errors is None:
        note = record.info.errors_unknown_words
        return Finding(requirement, rows[0].phase_name, None, None, None, passed=False, is_known=False, note=note)
    asked = errors + sum(row.requests for row in counted)
    if not asked:
        return Finding(requirement, rows[0].phase_name, None, None, 0, passed=False)
    share = errors / asked
    # No multiple of none tells how far from a limit it is.
    head_room = requirement.threshold / share if share else None
    passed = share <= requirement.threshold
    note = "" if passed else f"{errors:,} of {asked:,} failed"
    return Finding(requirement, rows[0].phase_name, share, head_room, errors, passed=passed, note=note)


def _finding(record: Record, rows: list[Totals], requirement: Requirement) -> Finding:
    if requirement.is_share:
        return _share_failed(record, rows, requirement)
    errors = errors_of(row for row in rows if requirement.operation or is_request(row.operation))
    noun = asked_noun(record.info.plan)
    unmeasured = Finding(requirement, rows[0].phase_name, None, None, errors, passed=False, noun=noun)
    if requirement.is_rate:
        if requirement.figure != "iops" and (unknown := record.info.bytes_unknown_words):
            return replace(unmeasured, is_known=False, note=unknown)
        rate = _rate(rows, requirement)
        if rate is None:
            return unmeasured
        head_room = rate / requirement.threshold
        return replace(unmeasured, value=rate, head_room=head_room, passed=head_room >= 1 and not errors)
    each = _times(record, rows, requirement)
    times = together(each)
    if times is None:
        return _untimed(record, rows, unmeasured)
    value = _time(times, requirement.figure)
    bound = (_bound(times, requirement) or _bound_of_each(each, requirement)) if value is None else None
    decides = bound.value if bound else value
    if decides is None:
        return unmeasured if errors else replace(unmeasured, is_known=False, note=_left_open(times, requirement))
    head_room = requirement.threshold / max(decides, 1.0)
    passed = head_room >= 1 and not errors
    of_few = value is not None and requirement.figure in times.few_events
    found = replace(unmeasured, value=value, head_room=head_room, passed=passed, bound=bound, is_of_few_events=of_few)
    timed = [row for row in _timed(record, rows, requirement) if row.service]
    found = _as_printed(record, timed, times, found)
    if value is None or passed or errors or requirement.figure not in PERCENTILE_NAMES:
        return found
    least_ns = bucket_start_ns(round(value))
    if least_ns > requirement.threshold:
        return found
    span = f"{told_apart(format_ns, least_ns, value)} and {told_apart(format_ns, value, least_ns)}"
    return replace(found, is_known=False, note=f"the histogram tells only that it lies between {span}")


def _as_printed(record: Record, rows: list[Totals], times: Latency, found: Finding) -> Finding:
    """With whose time it is. One that leaves something out may miss a limit, but does not meet it, unless a maximum
    that leaves nothing out does. Where it is a percentile, the minimum of a longer time may miss the limit, too."""
    said = tool_time(record, rows, replace(found.requirement, figure=_figure_of(found)))
    if said is None or not said.lacks or not found.passed:
        return found if said is None else replace(found, by_tool=said.whose)
    if times.min_ns is not None and times.min_ns > found.requirement.threshold:
        least = tool_time(record, rows, replace(found.requirement, figure="min"))
        bound = BoundFigure("min", float(times.min_ns))
        whose = least.whose if least else said.whose
        return replace(_bounded(found, bound), passed=False, by_tool=whose)
    longest = tool_time(record, rows, replace(found.requirement, figure="max"))
    if longest is None or longest.lacks or times.max_ns > found.requirement.threshold:
        return replace(found, passed=False, is_known=False, note=said.lacks)
    return replace(_bounded(found, BoundFigure("max", float(times.max_ns), is_upper=True)), by_tool=longest.whose)


def _bounded(found: Finding, bound: BoundFigure) -> Finding:
    """With what decides in place of the value."""
    head_room = found.requirement.threshold / max(bound.value, 1.0)
    return replace(found, value=None, bound=bound, head_room=head_room, is_of_few_events=False)


def _figure_of(found: Finding) -> str:
    return found.bound.figure if found.bound else found.requirement.figure


def _untimed(record: Record, rows: list[Totals], found: Finding) -> Finding:
    """What another tool, such as fio, did not print says nothing against the storage."""
    unknown = "" if found.errors else untimed_words(record, rows, found.requirement)
    return replace(found, is_known=False, note=unknown) if unknown else found


def _rate(rows: list[Totals], requirement: Requirement) -> float | None:
    rate = rate_of(rows)
    if rate is None:
        return None
    return rate.iops if requirement.figure == "iops" else rate.bytes_per_s


def _timed(record: Record, rows: list[Totals], requirement: Requirement) -> list[Totals]:
    """The rows whose times a requirement is of."""
    return rows if requirement.operation else waited(record, rows)


def _times(record: Record, rows: list[Totals], requirement: Requirement) -> list[Latency]:
    timed, measure = _timed(record, rows, requirement), requirement.measure
    if not record.info.is_by_tool:
        return [row.measures[measure] for row in timed if measure in row.measures]
    stands_for = measure == Timed.SERVICE or tool_time(record, timed, requirement) is not None
    if not stands_for or (not requirement.operation and commits(rows)):
        return []
    return [row.service for row in timed if row.service]


def _time(times: Latency, figure: str) -> float | None:
    if figure == "mean":
        return times.mean_ns
    if figure == "max":
        return float(times.max_ns)
    percentile = times.percentiles[figure]
    return None if percentile is None else float(percentile)


def _bound(times: Latency, requirement: Requirement) -> BoundFigure | None:
    """What proves that a percentile is within the limit, or beyond it; None where nothing does."""
    if times.max_ns <= requirement.threshold:
        return BoundFigure("max", float(times.max_ns), is_upper=True)
    lower = PERCENTILE_NAMES[: PERCENTILE_NAMES.index(requirement.figure)]
    known = {"min": times.min_ns} | {name: times.percentiles[name] for name in lower}
    beyond = [
        BoundFigure(name, float(ns)) for name, ns in known.items() if ns is not None and ns > requirement.threshold
    ]
    return beyond[-1] if beyond else None


def _bound_of_each(each: list[Latency], requirement: Requirement) -> BoundFigure | None:
    known = [float(ns) for one in each if (ns := one.percentiles[requirement.figure]) is not None]
    if len(known) < max(2, len(each)):
        return None
    highest, least = max(known), min(known)
    if highest <= requirement.threshold:
        return BoundFigure(requirement.figure, highest, is_upper=True)
    return BoundFigure(requirement.figure, least) if least > requirement.threshold else None


def _left_open(times: Latency, requirement: Requirement) -> str:
    is_few = not is_supported(times.count, percentile_of(requirement.figure))
    why = f"fewer than ten samples lie beyond {requirement.figure}" if is_few else f"{requirement.figure} is not known"
    return f"{why}, and the maximum is {told_apart(format_ns, times.max_ns, requirement.threshold)}"


def _alone_document(found: Finding) -> Document:
    return {"stream": found.stream or None, "operation": found.operation or None, "value": measured_value(found)}


def verdict_document(found: Verdict) -> Document:
    return {
        "ruler": found.ruler.name,
        "title": found.ruler.title,
        "passed": found.passed,
        "verdict": found.word,
        "head_room": found.decided.head_room,
        "decided_by": found.decided.requirement.name,
        "findings": [
            {
                "name": f.requirement.name,
                "phase": f.phase or None,
                "figure": f.requirement.figure,
                "measure": None if f.requirement.is_rate or f.requirement.is_share else f.requirement.measure,
                "operation": f.requirement.operation,
                "stream": f.requirement.stream,
                "decided_by_stream": f.stream or None,
                "decided_by_target": f.target or None,
                "decided_by_condition": f.condition or None,
                "targets_together": f.targets_together,
                "streams_together": f.streams_together,
                "alone": _alone_document(f.alone) if f.alone else None,
                "unit": unit(f.requirement),
                "threshold": f.requirement.threshold,
                "value": f.value,
                "by_tool": f.by_tool or None,
                "head_room": f.head_room,
                "bound": {"figure": f.bound.figure, "value": f.bound.value} if f.bound else None,
                "errors": f.errors,
                "passed": f.passed,
                "condition": f.requirement.condition,
                "verdict": f.word,
                "reason": f.reason or None,
            }
            for f in found.findings
        ],
    }


def unit(requirement: Requirement) -> str:
    return {"iops": "requests/s", "throughput": "bytes/s", "dropped": "frames", "errors": "share of requests"}.get(
        requirement.figure, "ns"
    )
