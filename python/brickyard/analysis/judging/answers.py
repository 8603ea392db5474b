"""Duty: what was found, in a reader's terms: a question, its answer in at most three sentences, and what limits belief.

Refusal: no judgement beyond the figures, and no sentence whose figures were not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brickyard import analysis
from brickyard.analysis import RankedCell, Totals
from brickyard.analysis.figures import cells
from brickyard.analysis.figures.hosts import host_words, unwatched
from brickyard.analysis.figures.named import FIGURES, Measured, measured_of
from brickyard.analysis.figures.ramp_result import at_result, headline_words, ramp_results
from brickyard.analysis.figures.sending import (
    FewSlots,
    Sent,
    SentStream,
    asked_noun,
    few_slots,
    length_told,
    sent,
)
from brickyard.analysis.figures.stalls import stalls
from brickyard.analysis.figures.totals import asked_stream, asked_targets, profile_phase, rate_of, rated_rows
from brickyard.analysis.figures.traced import verdict_words
from brickyard.analysis.figures.workload import demand_words
from brickyard.analysis.judging import cached
from brickyard.analysis.judging import summary as summaries
from brickyard.analysis.judging.aborted import aborted_uncounted, aborted_words
from brickyard.analysis.judging.caveats_run import BACKLOG, OVERLOADED
from brickyard.analysis.judging.caveats_site import FOREIGN_IO
from brickyard.analysis.judging.crowding import CPU_SHARED, CPU_WAITED, is_host_full, is_limit
from brickyard.analysis.judging.failing import damaged_blocks
from brickyard.analysis.judging.groups import in_runs, target_words
from brickyard.analysis.judging.merging import distinct_warnings
from brickyard.analysis.judging.models import ALL_MODELLED, modelled_words
from brickyard.analysis.judging.page_cached import PAGE_CACHE, has_page_cache, page_cache_words
from brickyard.analysis.judging.remembered import remembered_words
from brickyard.analysis.judging.sharing import joined
from brickyard.analysis.judging.without_rate import Key, without_rate, without_words
from brickyard.schema import COMMIT, Bound, Document, HangEvent, PhaseEnd, is_request
from brickyard.schema.plan import OpenPace, Phase, Plan, Stream, TraceTiming
from brickyard.schema.warning import LISTED_MAX, listed
from brickyard.store import CHAINS, FRAME, Record
from brickyard.units import (
    format_count,
    format_counted,
    format_iops,
    format_mib_per_s,
    format_ns,
    format_percent,
    format_size,
    only_percent,
)

OPERATIONS = ("read", "write")
SENTENCES_MAX = 3
Patterns = dict[tuple[str, str], list[RankedCell]]
TYPICAL_BYTES = 4096  # the page of most file systems and of memory
NEAR_BEST = 0.9
LEVEL_SIZES = 2  # request sizes that have one rate, so that it is called the storage's
IDLE_IN_FLIGHT = 0.5
"""With so few requests in flight on average, none is for at least half of the time."""
QUICK = 2
"""Times the shortest service time; a mean below had little waiting in it."""
PHASES_COMPARED = 4
"""Phases of which a sentence compares a stream's times."""
STREAMS_TOLD = 6
"""Streams of one run that have a sentence each."""
LISTED_FROM = 3
"""Streams of one run whose sentences stand one below the other."""
RUNS_TOLD = 6  # sentences that a reader still takes in; the others are in the table
QUALIFYING = (
    "steal",
    "noisy",
    "cpu_quota",
    "cpu_throttled",
    CPU_SHARED,
    CPU_WAITED,
    "smaller_than_memory",
    *cached.EMPTY,
)
"""Warnings that name a third limit beside storage and generator."""
MOMENT_NS = 900_000_000
"""Rates are per second; the last interval of a run of one second may end a little early."""
REQUESTS_MIN = 30
"""Of independent arrivals, two standard deviations of a count of 30 are more than a third of it."""
CPU_LACKED = "The generator did not have all the CPU time that it wanted"
HOST_FULL = (
    "The CPUs of this host were busy nearly all of the time, so whether they, the database or the storage were the "
    "limit is not known."
)
MEMORY_LIMITED = "The storage was not the limit: memory took the writes."
HANDED_LIMITED = "The storage was not the limit: memory took the writes, as fast as io_uring handed them over."
DISTURBED_SHARE = 0.1
"""Our choice: where others used the devices in fewer of the runs, the answer says nothing of it."""
LATE_SHARE = 0.1
"""Lateness of a smaller share of the mean response time changes no conclusion."""


@dataclass(frozen=True)
class Answer:
    """What stands before all else, in a page and in the terminal. The question may be empty: a single run asks none."""

    question: str
    sentences: tuple[str, ...]
    belief: str
    """What limits belief, in one line."""

    def document(self) -> Document:
        return {"question": self.question, "answer": list(self.sentences), "belief": self.belief}


CHARACTERIZED = "How fast is this target, by request size, pattern and operation?"


def answer(records: list[Record], patterns: Patterns, planned: int | None = None) -> Answer:
    """Of runs that no study file asked for; `planned` cells, where they were to characterize a target."""
    done = [record for record in records if record.info.is_valid]
    if analysis.is_graph(patterns):
        found = cached.doubted(done)
        doubts = cached.words(found, done, ". With --full, each cell is measured until it is steady")
        without = without_rate(records, planned)
        lacking = without_words(records, without)
        said_of_all = _characterized(patterns, demand_words(done) if done else "", found, without)
        said_of_all += cached.unwritten_words(done)
        others = _of_memory(done), _of_reads(done), _moments(done)
        if cached.unknown(done):  # the headline has figures that may be those of a cache
            return Answer(CHARACTERIZED, (*said_of_all, doubts), belief(records, lacking, *others))
        return Answer(CHARACTERIZED, tuple(said_of_all), belief(records, lacking, doubts, *others))
    # What a user with many hosts asks first; it is said of a run that did not finish too.
    said = host_words(records[0]) if len(records) == 1 else []
    names_target = len(records) == 1 or len({(*r.info.targets, *r.info.asked.changes) for r in records}) > 1
    said += [words for record in done[:RUNS_TOLD] for words in _run_words(record, names_target=names_target)]
    said += [words for record in done[:RUNS_TOLD] if (words := verdict_words(record))]
    if len(done) > RUNS_TOLD:
        said.append(f"The other {len(done) - RUNS_TOLD} runs are in the table.")
    # Before the figures of several runs, which would be read without it.
    said = [*said, *cautions(records)] if len(records) == 1 else [*cautions(records), *said]
    return Answer(
        "", tuple(said), belief(records, *_ended(done), _moments(done), _few(done), *_cached(done), _of_caches(done))
    )


def cautions(records: Sequence[Record]) -> list[str]:
    """Why the rates of runs are not those of the storage."""
    done = [record for record in records if record.info.is_valid]
    return [*cached.marked_words(done), *cached.unwritten_words(done)]


def belief(records: Sequence[Record], *others: str) -> str:
    """What a careful reader must know before a figure is believed: one line. `others` come first. How many warnings
    there are is said where they are listed, and nowhere else."""
    found = list(records)
    of_memory = bool(found) and all(map(_is_of_memory, found))
    memory = HANDED_LIMITED if any(map(cached.may_hand_over, found)) else MEMORY_LIMITED
    has_figures = any(item.requests for record in found for item in record.intervals)
    limits = [memory if of_memory else _limit(found) if has_figures else "", *_late(found)]
    moments = _moments([record for record in found if record.info.is_valid])
    first = () if moments in others else (moments,)
    others = (*first, *others, *cached.unknown_reads_words(found))
    said = [*others, *_unfinished(found), *_disturbed(found), *_failures(found), *_stalled(found), *limits]
    said += modelled_words(found)
    return " ".join(text for text in said if text)


def _disturbed(records: Sequence[Record]) -> list[str]:
    """Of several runs, whose warnings stand further down; that of a single run stands right below."""
    those = sum(any(warning.id == FOREIGN_IO for warning in record.info.warnings) for record in records)
    if len(records) < 2 or those < DISTURBED_SHARE * len(records):
        return []
    return [f"Something else used the devices during {those} of {len(records)} runs: measure again when nothing does."]


def _warned_words(records: Sequence[Record], notes: int) -> str:
    """How many warnings and notes there are."""
    warned = distinct_warnings(list(records))
    grave = sum(item.severity != "note" for item in warned)
    gentle = len(warned) - grave + notes
    counted = [
        *([_count(grave, "warning")] if grave else []),
        *([_count(gentle, "note")] if gentle else []),
    ]
    return " and ".join(counted)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _unfinished(records: Sequence[Record]) -> list[str]:
    """What did not come to its end is in the tables, but no headline; so is what was not what it was meant to be."""
    left = [record.info for record in records if not record.info.is_valid]
    if not left:
        return []
    if len(records) == 1 and left[0].invalid:
        return [f"The run is invalid, so no figure of it is quoted here: {left[0].invalid}."]
    if len(records) == 1 and (gone := aborted_words(records[0])):
        return [gone] if left[0].outcome == "failed" else [f"The run did not finish ({left[0].outcome}).", gone]
    if len(records) == 1:
        return [f"The run did not finish ({left[0].outcome}), so its figures cover only a part of it."]
    names = ", ".join(f"run {info.id} ({'invalid' if info.invalid else info.outcome})" for info in left)
    why = "did not end validly" if any(info.invalid for info in left) else "did not finish"
    return [f"Left out because they {why}: {names}."]


def _characterized(patterns: Patterns, demand: str, doubts: dict[int, str], without: dict[Key, str]) -> list[str]:
    """A headline is of cells that last; where the one it would name does not, there is none."""
    at = f" at {demand}" if demand else ""
    sequential = {o: c for o in OPERATIONS if (c := patterns.get(("sequential", o)))}
    random = {o: c for o in OPERATIONS if (c := patterns.get(("random", o)))}
    said = []
    if sequential:
        parts = [_sequential_words(operation, cells, doubts, without) for operation, cells in sequential.items()]
        parts += _none_at_all("sequential", sequential, without)
        said.append(f"Sequential requests{at}: {'; '.join(parts)}.")
    if random:
        parts = [_random_words(operation, cells, doubts, without) for operation, cells in random.items()]
        parts += _none_at_all("random", random, without)
        said.append(f"Random requests{at}: {'; '.join(parts)}.")
    return said


def _none_at_all(address: str, known: dict[str, list[RankedCell]], without: dict[Key, str]) -> list[str]:
    """Operations of which no cell was measured."""
    lacking = {o: _lacking(address, o, without) for o in OPERATIONS if o not in known}
    return [f"{o}: no figure ({', '.join(dict.fromkeys(why.values()))})" for o, why in lacking.items() if why]


def _lacking(address: str, operation: str, without: dict[Key, str]) -> dict[int, str]:
    """Sizes of a pattern without a rate."""
    return {size: why for (of, by, size), why in without.items() if (of, by) == (address, operation)}


def _none_words(operation: str, cells: list[RankedCell], doubts: dict[int, str]) -> str:
    count = sum(item.cell.run in doubts for item in cells)
    return f"{operation}: no figure, because {count} of {len(cells)} cells were not in steady state"


def _sequential_words(operation: str, cells: list[RankedCell], doubts: dict[int, str], without: dict[Key, str]) -> str:
    best = max(cells, key=lambda item: item.cell.row.bytes_per_s)
    lacking = _lacking("sequential", operation, without)
    sizes = {item.cell.request_bytes for item in cells} | set(lacking)
    if len(lacking) == len(sizes):
        return f"{operation}: no figure, because no size has a rate ({', '.join(dict.fromkeys(lacking.values()))})"
    level = _level(cells, doubts)
    if best.cell.run in doubts:
        return (
            _none_words(operation, cells, doubts) if level is None else _lasting_words(operation, level, cells, doubts)
        )
    figures = f"{format_mib_per_s(best.cell.row.bytes_per_s)} MiB/s"
    of_size = f"with requests of {format_size(best.cell.request_bytes)}"
    if lacking:
        # The highest of those that are left is no answer for all.
        rated = len(sizes) - len(lacking)
        return f"{operation} {figures} {of_size}, the highest of the {rated} of {len(sizes)} sizes that have a rate"
    text = f"{operation} up to {figures} {of_size}"
    if level is None:
        return text
    if (level.least.throughput_share or 0) < NEAR_BEST:
        return f"{text}, and {level.words} from {format_size(level.from_bytes)} on"
    larger = [size for size in sizes if size > best.cell.request_bytes]
    if level.from_bytes in (best.cell.request_bytes, min(larger, default=None)):
        return f"{text}, and at least 90 % of it with all larger ones"
    return f"{text}, and at least 90 % of it from {format_size(level.from_bytes)} on"


@dataclass(frozen=True)
class _Level:
    """The rate that the storage has from some size on: of the largest sizes, those within 10 % of their best."""

    from_bytes: int
    best: RankedCell
    least: RankedCell

    @property
    def words(self) -> str:
        ends = [format_mib_per_s(item.cell.row.bytes_per_s) for item in (self.least, self.best)]
        return f"{' to '.join(dict.fromkeys(ends))} MiB/s"


def _level(cells: list[RankedCell], doubts: dict[int, str]) -> _Level | None:
    """None where fewer than two sizes have it, and where the largest size may show a cache."""
    found: list[RankedCell] = []
    for item in reversed(cells):
        rates = [one.cell.row.bytes_per_s for one in (*found, item)]
        if item.cell.run in doubts or not item.cell.row.is_rated or min(rates) < NEAR_BEST * max(rates):
            break
        found.append(item)
    if len(found) < LEVEL_SIZES:
        return None
    found.sort(key=lambda item: item.cell.row.bytes_per_s)
    return _Level(min(item.cell.request_bytes for item in found), found[-1], found[0])


def _lasting_words(operation: str, level: _Level, cells: list[RankedCell], doubts: dict[int, str]) -> str:
    """Of the sizes whose rate is the storage's, where the fastest is a cache's."""
    count = sum(item.cell.run in doubts for item in cells)
    return (
        f"{operation} {level.words} from {format_size(level.from_bytes)} on ({count} of {len(cells)} cells were not in "
        "steady state and are left out)"
    )


def _random_words(operation: str, cells: list[RankedCell], doubts: dict[int, str], without: dict[Key, str]) -> str:
    typical = next((i for i in cells if i.cell.request_bytes == TYPICAL_BYTES), cells[0])
    if why := without.get(("random", operation, TYPICAL_BYTES)):
        return f"{operation} no figure of {format_size(TYPICAL_BYTES)} ({why})"
    if typical.cell.run in doubts:
        return _none_words(operation, cells, doubts)
    size = format_size(typical.cell.request_bytes)
    if why := without.get(("random", operation, typical.cell.request_bytes)):
        return f"{operation} no figure of {size} ({why})"
    return f"{operation} {format_iops(typical.cell.row.iops)} IOPS of {size}{_latency_words(typical.cell.row.latency)}"


def _latency_words(figures: analysis.Latency | None) -> str:
    if figures is None or figures.p50 is None:
        return ""
    if figures.percentiles_of:
        most = f" and {cells.percentile_cell(figures, 'p99')} of 99 %" if figures.p99 is not None else ""
        return f", {figures.percentiles_of} of half of them at most {cells.percentile_cell(figures, 'p50')}{most}"
    text = f", half of them answered within {cells.percentile_cell(figures, 'p50')}"
    return text + (f" and 99 % within {cells.percentile_cell(figures, 'p99')}" if figures.p99 is not None else "")


def _run_words(record: Record, *, names_target: bool) -> list[str]:
    """One sentence for each stream, with its name and that of its phase where there are several. Three or more are a
    list, since nobody finds a figure in such a paragraph."""
    results = ramp_results(record)
    at = at_result(record, results)
    rows, of_phase = analysis.totals(at), headline_words(record, results)
    streams: dict[tuple[int, int], list[Totals]] = {}
    for row in rows:
        streams.setdefault((row.phase, row.stream), []).append(row)
    head = f"Run {record.info.id}, {record.info.plan.title or record.info.profile}"
    if names_target and isinstance(record.info.plan, Plan):
        head += f" on {target_words([record])}"
    if record.info.condition != "normal":
        head += f", {record.info.condition.replace('_', ' ')}"
    lengths, unsent = length_told(at), _unsent_words(record) or _backlog_words(at)

    def words(group: list[Totals]) -> str:
        of = f"{said}: " if group and (said := of_phase.get(group[0].phase)) else ""
        return of + "; ".join(
            _row_words(
                row,
                with_times=(told := lengths.get((row.phase, row.stream))) is None or told.kept_up,
                is_cached=bool(remembered_words(record, row)),
            )
            for row in group
        )

    if len(streams) == 1:
        return [f"{head}: {words(rows)}.{unsent}"]
    if len(streams) > STREAMS_TOLD:
        return [f"{head}: {_many_words(streams)}{_over_phases(record, rows)}{unsent}"]
    sentences = [f"{analysis.full_stream_name(record, *key)}: {words(group)}." for key, group in streams.items()]
    if not sentences:
        return []
    said = [f"{head}:", *sentences[:-1], sentences[-1] + unsent]
    return said if len(streams) >= LISTED_FROM else [" ".join(said)]


def _cached(records: Sequence[Record]) -> list[str]:
    """Reads that memory may have answered and writes that it took; of many runs their warnings say it, which results of
    other tools do not have."""
    if len(records) != 1:
        by_tool = [record for record in records if record.info.is_by_tool]
        found = [record for record in by_tool if any(remembered_words(record, row) for row in analysis.totals(record))]
        return [f"Buffered reads{in_runs(len(found), records)} may have come from {PAGE_CACHE}."] if found else []
    (record,) = records
    rows = analysis.totals(record)
    names = [analysis.full_stream_name(record, row.phase, row.stream) for row in rows]
    remembered: dict[tuple[str, str], list[str]] = {}
    taken: dict[str, list[str]] = {}
    for name, row in zip(names, rows, strict=True):
        if words := remembered_words(record, row):
            remembered.setdefault((_page_cache(record, row), words), []).append(name)
        if into := cached.taken_by(record, row):
            taken.setdefault(into, []).append(name)
    said = [
        f"Reads of {listed(list(dict.fromkeys(own)))} may have come from {cache}: {words}."
        for (cache, words), own in remembered.items()
    ]
    whose = (
        "rate and times are those of memory and of io_uring, which hands each write to a thread of the kernel on most"
        " file systems (--engine psync does not),"
        if cached.may_hand_over(record)
        else "rate and times are those of memory,"
    )
    return said + [
        f"Writes of {listed(list(dict.fromkeys(own)))} went into {into} without flushes: {whose} until far more is "
        "written than it holds."
        for into, own in taken.items()
    ]


def _of_memory(records: Sequence[Record]) -> str:
    """Of several runs: where their writes ended, if that is no storage."""
    rows = [(record, row) for record in records for row in analysis.totals(record) if row.operation == "write"]
    taken = [into for record, row in rows if (into := cached.taken_by(record, row))]
    if not taken:
        return ""
    which = "Writes" if len(taken) == len(rows) else f"Writes of {len(taken)} of {len(rows)} cells"
    into = listed(list(dict.fromkeys(taken)))
    return f"{which} went into {into} without flushes: their rates and times are those of memory."


def _page_cache(record: Record, row: Totals) -> str:
    asked = asked_stream(record, row.phase, row.stream)
    return page_cache_words(record, asked.target) if asked else PAGE_CACHE


def _of_caches(records: Sequence[Record]) -> str:
    """Writes to storage that a cache may have taken, where it was not the host's own memory, and reads that it may have
    answered."""
    return " ".join(filter(None, (_of_writes(records), _of_reads(records), _of_trims(records), _of_sharing(records))))


def _of_sharing(records: Sequence[Record]) -> str:
    found = [shares for record in records if (shares := cached.sharing(record))]
    if not found:
        return ""
    most = max(shares.streams for shares in found)
    return (
        f"{most} streams went through the same blocks in order{in_runs(len(found), records)}, so that caches may have "
        f"{joined(found).caches_may_have}."
    )


def _of_trims(records: Sequence[Record]) -> str:
    shares = [share for record in records if (share := cached.trimmed_again_share(record)) > cached.CACHED_SHARE_MAX]
    if not shares:
        return ""
    where = in_runs(len(shares), records)
    return (
        f"{cached.again_words(min(shares)).capitalize()} of the trims{where} were of blocks that the run had trimmed "
        "before, which is less work: one pass over the target shows what trims of data take."
    )


def _of_reads(records: Sequence[Record]) -> str:
    whys = [why for record in records if (why := cached.of_reads(record))]
    if not whys:
        return ""
    where = in_runs(len(whys), records)
    return f"The rate of reads may be that of a cache{where} ({whys[0]}): a larger part may show a lower one."


def _of_writes(records: Sequence[Record]) -> str:
    whys = [
        why
        for record in records
        if (why := cached.of_writes(record))
        and not any(cached.is_taken_by_memory(record, row) for row in analysis.totals(record))
    ]
    if not whys:
        return ""
    where = in_runs(len(whys), records)
    return f"The rate of writes may be that of a cache{where} ({whys[0]}): a longer run may show a lower one."


def _many_words(streams: dict[tuple[int, int], list[Totals]]) -> str:
    """Of more streams than a reader takes in."""
    phases = len({phase for phase, _ in streams})
    how = f"{len(streams)} streams" + (f" in {phases} phases" if phases > 1 else "")
    rates = [rate.iops for group in streams.values() if (rate := rate_of(rated_rows(group)))]
    span = f", {format_iops(min(rates))} to {format_iops(max(rates))} requests/s each" if rates else ""
    return f"{how}{span}; the table has the figures of each."


def _over_phases(record: Record, rows: Sequence[Totals]) -> str:
    """What became of the response times of streams that several phases have, for which such profiles are made."""
    found: dict[str, list[Measured]] = {}
    for item in measured_of(record, rows, FIGURES["response_mean"], split=("phase", "stream")):
        found.setdefault(item.part.stream, []).append(item)
    shared = {name: times for name, times in found.items() if 1 < len(times) <= PHASES_COMPARED}
    if not shared or len(shared) > SENTENCES_MAX:
        return ""
    said = "; ".join(
        f"{name} {', '.join(f'{format_ns(one.value)} in {one.part.phase}' for one in times if one.value is not None)}"
        for name, times in shared.items()
    )
    return f" Mean response times over the phases: {said}."


def _ended(records: Sequence[Record]) -> list[str]:
    """Streams whose rate is over their own time, each once; of many runs their tables say it."""
    if len(records) != 1:
        return []
    return list(dict.fromkeys(filter(None, map(cells.ended_words, analysis.totals(records[0])))))


def _moments(records: Sequence[Record]) -> str:
    """Rates per second that were taken over less than one second are those of a moment, also on a model: its caches
    fill, and its arms and cells change, from one moment to the next."""
    whole: list[list[Totals]] = []
    in_phases: list[list[Totals]] = []
    for record in records:
        if rows := _brief_rows(record):
            is_whole = len({row.phase for row in rows}) == len(record.info.plan.phase)
            (whole if is_whole else in_phases).append(rows)
    said = [
        f"{whose}{_lengths(rows)}{in_runs(len(runs), records)}"
        for whose, runs in (("measured for only ", whole), (_brief_phases(in_phases, records), in_phases))
        if (rows := [row for each in runs for row in each])
    ]
    if not said:
        return ""
    words = "; ".join(said)
    return f"{words[0].upper()}{words[1:]}: too short to say what the target sustains."


def _lengths(rows: Sequence[Totals]) -> str:
    """For how long rates were measured, as a range where they differ."""
    ends = (format_ns(of(row.rated_ns for row in rows)) for of in (min, max))
    return " to ".join(dict.fromkeys(ends))


def _brief_phases(runs: Sequence[Sequence[Totals]], records: Sequence[Record]) -> str:
    """The phases of runs whose other phases were longer; of many in one run, their number says more."""
    found = {row.phase: row.phase_name for rows in runs for row in rows}
    names = list(dict.fromkeys(found.values()))
    if len(records) == 1 and len(found) > LISTED_MAX:
        return f"{len(found)} of {len(records[0].info.plan.phase)} phases were measured for only "
    whose = f"phases {listed(names)} were" if len(names) > 1 else f"phase {listed(names)} was"
    return f"{whose} measured for only "


def _brief_rows(record: Record) -> list[Totals]:
    """Rows whose rate was taken over less than a second; programs end by themselves."""
    if not isinstance(record.info.plan, Plan):
        return []
    return [
        row
        for row in analysis.totals(at_result(record))
        if row.rated_requests and row.rated_ns < MOMENT_NS and not _has_program(profile_phase(record, row.phase))
    ]


def _few(records: Sequence[Record]) -> str:
    """Rates that one request more or less would change."""
    counts = [fewest for record in records if (fewest := _fewest(record))]
    if not counts:
        return ""
    where = in_runs(len(counts), records)
    return f"A rate is based on only {_count(min(counts), 'request')}{where}: measure for longer."


def _fewest(record: Record) -> int:
    """Requests of the rate that the fewest were counted for, where they are too few."""
    if not isinstance(record.info.plan, Plan):
        return 0
    counts = [
        row.rated_requests
        for row in rated_rows(analysis.totals(at_result(record)))
        if not _has_program(profile_phase(record, row.phase))
    ]
    return min((count for count in counts if 0 < count < REQUESTS_MIN), default=0)


def _has_program(phase: Phase | None) -> bool:
    return phase is not None and any(stream.program for stream in phase.stream)


def _unsent_words(record: Record) -> str:
    """Where much that was due was never sent, the times of the rest say how long the run was, and little else."""
    if not any(warning.id == OVERLOADED for warning in record.info.warnings):
        return ""
    phases = [told for end in record.of(PhaseEnd) if not (told := sent(record, end.phase)).kept_up] or [sent(record)]
    noun = phases[0].noun if len({told.noun for told in phases}) == 1 else "requests and chains"
    behind = [one for told in phases for one in told.behind]
    known = bool(behind) and all(told.behind for told in phases)
    parts: Sequence[Sent | SentStream] = behind if known else phases
    only = only_percent(sum(told.sent for told in parts) / max(1, sum(told.due for told in parts)))
    only = f" {only[0].upper()}{only[1:]}"
    if not known:
        return f"{only} of the {noun} that were due could be sent, so the response time of the others is not known."
    times = "its response time is" if len(behind) == 1 else "their response times are"
    of = listed(list(dict.fromkeys(one.name for one in behind)))
    return f"{only} of the {noun} of {of} that were due could be sent, so {times} not known."


def _backlog_words(at: Record) -> str:
    """Where requests came faster than they were answered, the times say how long the run or the ramp's step was."""
    grew = [one for end in at.of(PhaseEnd) for one in sent(at, end.phase).growing]
    if not grew:
        return ""
    worst = max(grew, key=lambda one: one.share)
    plan = at.info.plan
    of = f" of {worst.name}" if len(plan.phase) > 1 or len(plan.phase[0].stream) > 1 else ""
    what = "step" if (asked := profile_phase(at, worst.phase)) and asked.ramp else "run"
    return (
        f" The queue{of} grew: the mean response time was {format_ns(worst.first_mean_ns)} in the first quarter of the "
        f"{what} and {format_ns(worst.last_mean_ns)} in the last, so it depends on how long the {what} was."
    )


_NOUNS: dict[str, str] = {FRAME: " frames", COMMIT: ""}
"""What a second has so many of, where the operation does not say it."""


def _row_words(row: Totals, *, with_times: bool = True, is_cached: bool = False) -> str:
    if row.requests and not row.phase_requests and is_request(row.operation):
        return f"{row.operation}: {_count(row.requests, 'request')} ended after the measured time, so no rate is given"
    measure = row.latency if with_times else None
    if row.requests and not row.is_rated:
        times = _latency_words(measure)
        return f"{row.operation}: {_count(row.requests, 'request')}, no rate is given{times}"
    noun = _NOUNS.get(row.operation, " chains" if row.operation in CHAINS else " requests")
    moved = "" if row.operation in CHAINS else f", {cells.mib_per_s(row)} MiB/s"
    if row.requests and not row.bytes and is_request(row.operation):
        noun, moved = "", ""  # flushes and operations on names move no data
    moved += " (may have come from the page cache)" if is_cached else ""
    times = _latency_words(measure)
    since = " of when they were due" if times and "lateness" in row.measures else ""
    return f"{row.operation} {cells.iops(row)}{noun}/s{moved}{times}{since}"


def _failures(records: Sequence[Record]) -> list[str]:
    rows = [row for record in records for row in analysis.totals(record) if is_request(row.operation)]
    damaged = sum(map(damaged_blocks, records))
    errors = max(sum(row.errors or 0 for row in rows) - damaged, 0)
    hangs = sum(len(record.of(HangEvent)) for record in records)
    errors += sum(map(aborted_uncounted, records))
    said = []
    if errors:
        are = "it is" if errors == 1 else "they are"
        said.append(f"{format_counted(errors, _asked(records))} failed; {are} not counted in any throughput figure.")
    if damaged:
        said.append(f"{format_count(damaged)} reads returned data other than what was written.")
    if hangs:
        said.append(f"{format_count(hangs)} requests hung for longer than the limit.")
    return said or _none_failed(records)


def _asked(records: Sequence[Record]) -> str:
    """The noun of what was asked for; that of all runs where they differ."""
    nouns = {asked_noun(record.info.plan) for record in records}
    return nouns.pop() if len(nouns) == 1 else "requests"


def _stalled(records: Sequence[Record]) -> list[str]:
    """The longest of all: a percentile does not show a time in which nothing was counted."""
    found = [(stall, record) for record in records for stall in stalls(record)]
    if not found:
        return []
    worst, record = max(found, key=lambda pair: pair[0].lasted_ns)
    where = "" if len(records) == 1 else _where_words(record)
    return [
        f"No request ended for at least {format_ns(worst.lasted_ns)}, from {format_ns(worst.at_ns)} of the run on"
        f"{where}, although requests were in flight."
    ]


def _none_failed(records: Sequence[Record]) -> list[str]:
    """As far as whoever did the work counted failures."""
    by = {record.info.tool: record.info.knows_errors for record in records}
    failed = {record.info.tool for record in records if record.info.outcome == "failed"}
    said = [
        f"{tool} counted no failed request, although a run failed." if tool in failed else f"{tool} reported no error."
        for tool, is_known in by.items()
        if tool and is_known
    ]
    if silent := [tool for tool, is_known in by.items() if not is_known]:
        do = "does" if len(silent) == 1 else "do"
        said.append(f"Whether requests failed is not known: {' and '.join(silent)} {do} not report it.")
    if not said:
        return [f"No {_asked(records).removesuffix('s')} failed."]
    return ["No request of Brickyard's runs failed.", *said] if "" in by else said


def _is_of_memory(record: Record) -> bool:
    """Whether nothing was done but writes that ended in the page cache, at a rate that did not fall."""
    rows = [row for row in analysis.totals(record) if row.requests]
    return bool(rows) and all(cached.is_taken_by_memory(record, row) for row in rows) and cached.doubt(record) is None


def _limit(records: Sequence[Record]) -> str:
    tools = dict.fromkeys(record.info.tool for record in records if record.info.is_by_tool)
    if tools:
        do = "does" if len(tools) == 1 else "do"
        return f"Whether storage or generator was the limit is not known: {' and '.join(tools)} {do} not report it."
    rows = [row for record in records for row in analysis.totals(record)]
    if rows and all(row.requests and not row.phase_requests for row in rows):
        return "What the limit was is not known, since no request ended within the measured time: measure for longer."
    bound = [r for r in records if any(is_limit(r, end) for end in r.of(PhaseEnd))]
    if not bound and any(map(unwatched, records)):
        return (
            "No worker was at its limit. Other load on the hosts is not recorded, so whether storage or generator was "
            "the limit is not known."
        )
    return _bound_words(bound, records) if bound else _unbound_words(records)


def _unbound_words(records: Sequence[Record]) -> str:
    found = {warning.id for record in records for warning in record.info.warnings}
    paced = sum(map(_is_paced, records))
    if any(map(summaries.is_cpu_taken, records)):
        if paced == len(records):
            far = "how close the rate is to the storage's limit"
            return f"The profile set the rate. {CPU_LACKED}, so {far} is not known."
        return f"{CPU_LACKED}, so whether storage or generator was the limit is not known."
    if any(map(is_host_full, records)):
        return HOST_FULL
    qualified = found.intersection(QUALIFYING) or any(map(cached.mark, records))
    if qualified or _lateness(records) or 0 < paced < len(records) or any(map(_may_be_elsewhere, records)):
        return "The generator was not the limit."
    if paced:
        if not all(map(_is_idle_or_quick, records)):
            return "The profile set the rate; how close it is to the storage's limit is not known."
        return "The profile set the rate, and neither the storage nor the generator was at its limit."
    if any(map(_pauses, records)):
        return "The profile pauses between requests, and neither the storage nor the generator was at its limit."
    return f"The storage, not the generator, was the limit{_with_slots(records)}."


def _with_slots(records: Sequence[Record]) -> str:
    """How many requests closed loops could have in flight, where more may find storage that does more."""
    phases = [(record, end.phase) for record in records for end in record.of(PhaseEnd)]
    each = [few_slots(record, phase, range(len(asked_targets(record, phase)))) for record, phase in phases]
    found = [few for few in each if few is not None]
    if not found or len(found) < len(each):
        return ""
    low, high = min(few.slots for few in found), max(few.slots for few in found)
    of = found[0].of if len({few.of for few in found}) == 1 else ""
    if low == high:
        return f" with {FewSlots(high, of).words}"
    return f" with at most {low} to {high} requests in flight{of}"


def _bound_words(bound: Sequence[Record], records: Sequence[Record]) -> str:
    """Of runs among which some were limited by the generator."""
    ends = [end for record in bound for end in record.of(PhaseEnd) if is_limit(record, end)]
    who = "the generator, not the storage, was the limit"
    if any(end.generator_bound_reason is Bound.CPU or not end.generator_bound for end in ends):
        who = "the processor was the limit, including the kernel's work for the storage"
    if len(bound) == len(records):
        faster = "" if any(map(_is_past_storage, bound)) else ": the storage may be faster than shown"
        return f"{who[0].upper()}{who[1:]}{faster}."
    taken = sum(summaries.is_cpu_taken(record) for record in records if record not in bound)
    faster = "" if any(map(_is_past_storage, bound)) else ": there the storage may be faster than shown"
    said = f"In {len(bound)} of {len(records)} runs {who}{faster}."
    if not taken:
        return said
    where = f"in {taken} of {len(records)} runs"
    return f"{said} {CPU_LACKED} {where}, so there the limit is not known."


def _is_past_storage(record: Record) -> bool:
    """Whether the rate may have nothing to do with the storage's."""
    start = record.info.start
    opened = range(len(start.targets)) if start else ()
    return any(has_page_cache(record, target) for target in opened) or cached.empty_reads(record) is not None


def _is_paced(record: Record) -> bool:
    """Whether every request was due at an instant of its own, and all were sent."""
    plan = record.info.plan
    if not isinstance(plan, Plan) or any(warning.id in (OVERLOADED, BACKLOG) for warning in record.info.warnings):
        return False
    at = at_result(record)
    if any(sent(at, end.phase).growing for end in at.of(PhaseEnd)):
        return False
    streams = [stream for phase in plan.phase for stream in phase.stream]
    return bool(streams) and all(
        stream.trace.timing is TraceTiming.TIMED
        if stream.trace
        else isinstance(stream.pace, OpenPace) and not stream.frames and not stream.program
        for stream in streams
    )


def _in_flight(record: Record) -> dict[int, float]:
    """How many requests were in flight on average, by phase (Little's law)."""
    found: dict[int, float] = {}
    for row in analysis.totals(record):
        if is_request(row.operation) and row.response and row.service and row.phase_ns:
            own = row.service.mean_ns * row.phase_requests / row.phase_ns
            found[row.phase] = found.get(row.phase, 0.0) + own
    return found


def _may_be_elsewhere(record: Record) -> bool:
    """Whether the limit may be neither storage nor generator: the locks and processors of a database; and a program,
    which paces itself as a mail server's users do, if it left the storage idle for most of a phase."""
    return not isinstance(record.info.plan, Plan) or any(
        busy <= IDLE_IN_FLIGHT and _has_program(profile_phase(record, phase))
        for phase, busy in _in_flight(record).items()
    )


def _is_idle_or_quick(record: Record) -> bool:
    """Whether requests that were due hardly waited: the mean response time is below twice the shortest service time, or
    so few were in flight on average that the storage had none for most of the time."""
    rows = [row for row in analysis.totals(record) if is_request(row.operation) and row.response and row.service]
    if max(_in_flight(record).values(), default=0.0) <= IDLE_IN_FLIGHT:
        return True
    return all(row.response.mean_ns < QUICK * (row.service.min_ns or 0) for row in rows if row.response and row.service)


def _pauses(record: Record) -> bool:
    """Whether a closed loop waited by itself between requests."""
    streams = [stream for phase in record.info.plan.phase for stream in phase.stream]
    return any(isinstance(stream, Stream) and stream.think.ns for stream in streams)


def _lateness(records: Sequence[Record]) -> list[tuple[float, Record]]:
    """Its share of each mean response time, with the run that had it, where one of them is a good part. Of a ramp, the
    step counts that its answer is of."""
    shares = [
        (late.mean_ns / response.mean_ns, record)
        for record in records
        for row in analysis.totals(at_result(record))
        if (late := row.lateness) and (response := row.response) and response.mean_ns
    ]
    return shares if max((share for share, _ in shares), default=0.0) >= LATE_SHARE else []


def _late(records: Sequence[Record]) -> list[str]:
    shares = _lateness(records)
    if not shares:
        return []
    most, latest = max(shares, key=lambda item: item[0])
    low, high = format_percent(min(share for share, _ in shares)), format_percent(most)
    share = high if low == high else f"up to {high}"
    where = _where_words(latest) if len(records) > 1 and low != high else ""
    # A model's requests need no processor.
    cause = "" if modelled_words(records)[:1] == [ALL_MODELLED] else " or until a processor of this host was free"
    return [
        f"Lateness is {share} of the mean response time{where}: requests that were due waited until another one had "
        f"ended{cause}."
    ]


def _where_words(record: Record) -> str:
    """Which of several runs this is, as their tables name them; steps of a search are in none."""
    marks = record.info.marks
    if marks.searched_per_s is not None:
        return f" (in a search, at {format_iops(marks.searched_per_s)}/s)"
    if marks.offered_per_s is not None:
        return f" (at {format_iops(marks.offered_per_s)}/s)"
    return f" (in run {record.info.id})"


def counted_words(records: Sequence[Record], notes: Sequence[str], unfinished: int) -> str:
    """The one line behind which warnings and notes are folded."""
    told = _warned_words(records, len(notes))
    left = f"{unfinished} run{'' if unfinished == 1 else 's'} left out" if unfinished else ""
    return f"Warnings and notes: {', '.join(part for part in (left, told) if part)}"
