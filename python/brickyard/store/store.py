"""Duty: append what happens to the store, each event as it arrives, and read it back.

Every append is its own transaction in WAL mode with `synchronous=NORMAL`: what was committed survives the death of
this process by any signal, kill -9 included. It is not proof against a power cut or a crash of the kernel, after
which the last moments may be missing (the file stays consistent); a flush for each interval would disturb the very
device that is often being measured.

Refusal: nothing is changed or deleted (triggers in the schema see to it), and nothing is computed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import ref

import msgspec

from brickyard import outputs, schema
from brickyard.errors import BadInputError, ChangedMeanwhileError, NotFoundError, one_line
from brickyard.schema.plan import OtherPlan, Plan
from brickyard.store import damage
from brickyard.store.damage import (
    DamagedRunError,
    cause_of,
    check_histogram,
    check_outcome,
    is_damage,
    run_ids,
)
from brickyard.store.description import check_description, restored
from brickyard.store.heads import facts_head, invalid_reason, read_heads
from brickyard.store.histograms import InMemory, OnDisk
from brickyard.store.lost import StoreFile, StoreLostError, rescue
from brickyard.store.place import IN_MEMORY, command_on, default_place
from brickyard.store.process import is_alive
from brickyard.store.record import (
    DAMAGED,
    Annotation,
    Baseline,
    Cursor,
    FailedRequest,
    Histograms,
    Interval,
    IntervalCost,
    Json,
    News,
    Outcome,
    Record,
    RunHead,
    RunInfo,
    RunMarks,
    StudyInfo,
)
from brickyard.store.salvage import Loss, integrity, losses, salvage
from brickyard.store.schema import (
    APPLICATION_ID,
    BUSY_TIMEOUT_S,
    check_columns,
    check_readable,
    check_version,
    has_derived,
    has_table,
    migrate,
    migrate_if_whole,
)
from brickyard.store.summaries import read_summaries, write_summaries
from brickyard.store.sums import check_run, without

LOCKED_WAIT_S = 0.02  # between two tries where SQLite does not wait by itself
LAST_ID = (1 << 63) - 1  # SQLite's greatest

_RUN_COLUMNS = """
    SELECT run.id, run.created_unix_ns, run.profile, run.profile_hash, run.plan, run.seed, run.condition, run.targets,
           run.options, run.software_version, run.facts, study_run.study, study_run.labels, run_start.start_unix_ns,
           run_start.engine, run_end.ended_unix_ns, run_end.end_ns, run_end.outcome, run_end.message, run_end.watch,
           run_end.warnings,
           (SELECT body FROM event WHERE event.run = run.id AND event.kind = 'condition' ORDER BY event.id DESC LIMIT 1)
    FROM run LEFT JOIN study_run ON study_run.run = run.id LEFT JOIN run_start ON run_start.run = run.id
    LEFT JOIN run_end ON run_end.run = run.id
"""


def check_place(place: Path | None) -> None:
    """Refuses what a store for writing would refuse; nothing is made, and a store that is there is only read."""
    path = place or default_place()
    if str(path) == IN_MEMORY:
        return
    if place is None:
        outputs.check_folder(path.parent)
        if not path.parent.is_dir():
            return
    else:
        _refuse_folders(path)
    if not outputs.check_database(path, APPLICATION_ID):
        return
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise BadInputError(f"{path}: cannot be used as a store: it may not be written; name another with --store")
    try:
        with closing(outputs.connect_for_reading(path, APPLICATION_ID, BUSY_TIMEOUT_S, immutable=False)) as db:
            check_description(db, str(path))
            check_version(db, str(path))
    except sqlite3.Error as error:
        raise BadInputError(f"{path}: cannot be used as a store: {one_line(error)}") from error


def _refuse_folders(place: Path) -> None:
    if place.is_dir():
        raise BadInputError(
            f"{place}: cannot be used as a store: it is a directory; name a file in it, such as {place / 'runs.db'}"
        )
    if not place.parent.is_dir():
        raise BadInputError(f"{place}: cannot be used as a store: {place.parent} is no directory; make it first")


class Store:
    """An open store; safe to use beside other processes that have it open."""

    def __init__(self, place: Path | str | None = None, *, must_exist: bool = False, may_be_cut: bool = False) -> None:
        """`may_be_cut` opens a file that has lost its end as well, or the description of its tables, to save what is
        left of it."""
        self.place = Path(place) if place is not None else default_place()
        self._undescribed: list[str] = []
        """What of the file's tables was not described as it should be, so that a copy in memory is read."""
        try:
            if must_exist and not os.path.lexists(self.place):
                raise BadInputError(
                    f"{self.place}: no store here; measure something first or name another with --store"
                )
            if place is None:
                outputs.folder(self.place.parent)
            else:
                _refuse_folders(self.place)
            if str(self.place) != IN_MEMORY and not outputs.check_database(self.place, APPLICATION_ID):
                outputs.make_database(self.place, _blank(sums=True))
            self._db = self._opened(must_exist=must_exist, may_be_cut=may_be_cut)
            if str(self.place) != IN_MEMORY:
                check_columns(self._db, str(self.place))
            self._file = StoreFile(self.place)
            self._reader: ref[OnDisk] | None = None
        except sqlite3.Error as error:
            remedy = ""
            if is_damage(error):
                salvage_it = f"{command_on(self.place, 'store salvage -o NEW')} copies what can be read"
                remedy = "; too little of it is left to copy anything" if may_be_cut else f"; {salvage_it}"
            elif damage.is_full(self.place):
                remedy = "; no space is left on its file system: free some, or name another with --store"
            raise BadInputError(f"{self.place}: cannot be used as a store: {one_line(error)}{remedy}") from error
        except OSError as error:
            raise BadInputError(
                f"{self.place}: cannot be used as a store: {error.strerror}; name another with --store"
            ) from error

    def _opened(self, *, must_exist: bool, may_be_cut: bool) -> sqlite3.Connection:
        """For writing where that is possible; a store that is only to be read may lie where nothing can be written."""
        copy = restored(self.place) if may_be_cut else None
        if copy is not None:
            db, self._undescribed = copy
            return db
        try:
            return _open_for_writing(self.place)
        except sqlite3.OperationalError:
            if not must_exist:
                raise
        except sqlite3.DatabaseError as error:
            if not (may_be_cut and is_damage(error)):
                raise
            return _reading(self.place, immutable=False, is_cut=True)
        return _open_for_reading(self.place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        reader = self._reader() if self._reader is not None else None
        if reader is None:
            self._db.close()
        else:
            reader.owns = True

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._file.check()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def add_study(self, name: str, about: Mapping[str, object]) -> int:
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO study (created_unix_ns, name, about) VALUES (?, ?, ?)",
                (time.time_ns(), name, _text(about)),
            )
        return _new_id(cursor)

    def end_study(self, study: int, outcome: str, notes: list[str]) -> None:
        with self._transaction() as db:
            db.execute("INSERT INTO study_end VALUES (?, ?, ?, ?)", (study, time.time_ns(), outcome, _text(notes)))

    def add_run(
        self,
        *,
        profile: str,
        profile_hash: str,
        plan: Plan | OtherPlan | Json,
        condition: str,
        targets: list[str],
        options: schema.RunOptions | Json,
        software_version: str,
        facts: schema.RunFacts,
        study: int | None = None,
        labels: RunMarks | Mapping[str, object] | None = None,
    ) -> int:
        """Notes that a run is about to begin; from here on it is on record, whatever becomes of it."""
        asked = plan if isinstance(plan, dict) else schema.plan_document(plan)
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO run (created_unix_ns, profile, profile_hash, plan, seed, condition, targets, options,"
                " software_version, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    time.time_ns(),
                    profile,
                    profile_hash,
                    _text(asked),
                    # SQLite's integers are signed; the plan keeps the seed as it was written.
                    _signed(int(asked.get("seed") or 0)),
                    condition,
                    _text(targets),
                    _text(msgspec.to_builtins(options)),
                    software_version,
                    _text(schema.facts_document(facts)),
                ),
            )
            run = _new_id(cursor)
            if study is not None:
                db.execute(
                    "INSERT INTO study_run VALUES (?, ?, ?)", (study, run, _text(msgspec.to_builtins(labels or {})))
                )
        return run

    def add_events(self, run: int, events: Iterable[schema.Event | schema.Told]) -> None:
        """Commits events as one transaction; the end of a run comes with `end_run`."""
        with self._transaction() as db:
            for event in events:
                _append(db, run, event if isinstance(event, schema.Told) else schema.Told(event, schema.encode(event)))

    def end_run(
        self, run: int, ended: schema.End, watch: schema.RunWatch | None, warnings: list[schema.RunWarning]
    ) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT INTO run_end VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    run,
                    time.time_ns(),
                    ended.end_ns,
                    ended.outcome,
                    schema.words_of(ended.message),
                    _text(schema.watch_document(watch) if watch else {}),
                    _text(schema.stored(warnings)),
                ),
            )

    def examine(self) -> tuple[list[str], list[Loss]]:
        """What SQLite finds wrong with the file, and every row that cannot be read as what it should be."""
        return [*self.file_damage(), *integrity(self._db)], losses(self._db)

    def file_damage(self) -> list[str]:
        """What had to be set right, in a copy, before any row could be read."""
        return [f"the description of {name} is damaged" for name in self._undescribed]

    def salvage(self, place: Path) -> list[Loss]:
        """Copies all that can be read into a new store; gives back what was left behind."""
        return salvage(self._db, place)

    def rescued(self, error: StoreLostError) -> str:
        """Copies what can still be read of a lost store into a new one beside it; says in words what became of it."""
        return rescue(self._db, self.place, error)

    def add_baseline(self, name: str, runs: Iterable[int]) -> None:
        """Runs that later ones are held against; a name that is used again means the newer ones."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO baseline (created_unix_ns, name, runs) VALUES (?, ?, ?)",
                (time.time_ns(), name, _text(list(runs))),
            )

    def remove_baseline(self, name: str) -> None:
        """Nothing is ever deleted here: the name means no runs from now on."""
        self.add_baseline(name, [])

    def baselines(self) -> dict[str, Baseline]:
        """By name, without those that were removed."""
        rows = self._db.execute("SELECT name, created_unix_ns, runs FROM baseline ORDER BY id")
        found = {name: Baseline(created, json.loads(runs)) for name, created, runs in rows}
        return {name: baseline for name, baseline in found.items() if baseline.runs}

    def annotate(self, run: int, note: str, labels: Iterable[str], author: str, seen: int) -> Annotation:
        """What people say of a run, in the place of the annotation `seen`; refused where there is a newer one."""
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM run WHERE id = ?", (run,)).fetchone() is None:
                raise NotFoundError(f"run {run}: not in {self.place}")
            newest = db.execute("SELECT coalesce(max(id), 0) FROM annotation WHERE run = ?", (run,)).fetchone()[0]
            if newest != seen:
                raise ChangedMeanwhileError(f"run {run}: somebody else changed its note meanwhile; read it again first")
            kept = tuple(labels)
            cursor = db.execute(
                "INSERT INTO annotation (created_unix_ns, run, note, labels, author) VALUES (?, ?, ?, ?, ?)",
                (time.time_ns(), run, note, _text(list(kept)), author),
            )
        return Annotation(_new_id(cursor), note, kept, author)

    def annotations(self) -> dict[int, Annotation]:
        """By run, of those that have one."""
        if not has_table(self._db, "annotation"):
            return {}
        rows = self._db.execute(
            "SELECT run, id, note, labels, author FROM annotation"
            " WHERE id IN (SELECT max(id) FROM annotation GROUP BY run)"
        )
        return {row[0]: Annotation(row[1], row[2], tuple(json.loads(row[3])), row[4]) for row in rows}

    def unended(self, after: int = 0, since_unix_ns: int = LAST_ID) -> list[RunInfo]:
        """Runs later than `after` that have no end, since they go on or were killed, or that ended `since` then."""
        rows = self._db.execute(
            "SELECT id FROM run LEFT JOIN run_end ON run_end.run = run.id"
            " WHERE id > ? AND (run_end.run IS NULL OR ended_unix_ns > ?) ORDER BY id",
            (after, since_unix_ns),
        )
        numbers = [int(number) for (number,) in rows]
        return self.runs(numbers) if numbers else []

    def news(self, run: int, since: Cursor) -> News:
        """What was added to a run since a cursor, as of one moment. Its histograms are in memory."""
        self._db.execute("BEGIN")
        try:
            intervals = self._db.execute(
                "SELECT phase, stream, operation, measure, start_ns, end_ns, warmup, requests, bytes, errors,"
                " depth_max, mean_ns, p50_ns, p99_ns, max_ns, id, histogram FROM interval WHERE run = ? AND id > ?"
                " ORDER BY id",
                (run, since.interval),
            ).fetchall()
            costs = self._db.execute(
                "SELECT id, phase, start_ns, end_ns, warmup, cpu_user_ns, cpu_system_ns, loop_busy_share, knob, drain"
                " FROM interval_cost WHERE run = ? AND id > ? ORDER BY id",
                (run, since.cost),
            ).fetchall()
            events = self._db.execute(
                "SELECT id, body FROM event WHERE run = ? AND id > ? ORDER BY id", (run, since.event)
            ).fetchall()
        finally:
            self._db.execute("COMMIT")
        until = Cursor(
            interval=max((row[15] for row in intervals), default=since.interval),
            cost=max((row[0] for row in costs), default=since.cost),
            event=max((row[0] for row in events), default=since.event),
        )
        kept = InMemory({row[15]: row[16] for row in intervals})
        found = []
        for row in intervals:
            given = (*row[:6], bool(row[6]), *row[7:16], kept if row[16] else None)
            found.append(Interval(*given))
        told = [schema.typed(json.loads(body)) for _, body in events]
        return News(found, [(row[0], _cost(*row[1:])) for row in costs], told, until)

    def runs(self, ids: Iterable[int] | None = None) -> list[RunInfo]:
        """Runs in the order in which they began."""
        wanted = "" if ids is None else f"WHERE run.id IN ({','.join(str(int(i)) for i in ids)})"
        try:
            rows = self._db.execute(f"{_RUN_COLUMNS} {wanted} ORDER BY run.id").fetchall()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return damage.runs_one_by_one(self._db, _RUN_COLUMNS, _run_info, ids)
        return [damage.judged(row, _run_info) for row in rows]

    def heads(self, first: int = 1, last: int = LAST_ID) -> list[RunHead]:
        """As `runs`, with what lists and selections need. Only where a value cannot be read are runs read whole, so a
        damaged one may pass as sound here."""
        try:
            return read_heads(self._db, first, last)
        except (sqlite3.DatabaseError, ValueError, TypeError, AttributeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
        return list(self.runs(run for run in run_ids(self._db) if first <= run <= last))

    def newest(self) -> RunHead | None:
        ids = self._db.execute("SELECT max(id) FROM run").fetchone()
        found = self.heads(ids[0], ids[0]) if ids[0] is not None else []
        return found[0] if found else None

    def keep_summaries(self, formula: int, bodies: Mapping[int, str]) -> None:
        """Beside the records, in the place of older ones; a store that cannot be written stays as it is."""
        with suppress(sqlite3.OperationalError), self._transaction() as db:
            write_summaries(db, formula, bodies)

    def summaries(self, formula: int, runs: Iterable[int]) -> dict[int, str]:
        """What `keep_summaries` kept by this formula; a damaged one is left out."""
        return read_summaries(self._db, formula, runs) if has_derived(self._db) else {}

    def studies(self, number: int | None = None) -> list[StudyInfo]:
        """All, or the one of a number."""
        rows = self._db.execute(
            "SELECT study.id, created_unix_ns, name, about, outcome, notes FROM study"
            " LEFT JOIN study_end ON study_end.study = study.id WHERE ?1 IS NULL OR study.id = ?1 ORDER BY study.id",
            (number,),
        ).fetchall()
        return [
            StudyInfo(
                id=row[0],
                created_unix_ns=row[1],
                name=row[2],
                about=json.loads(row[3]),
                outcome=check_outcome(row[4]) or "interrupted",
                notes=json.loads(row[5] or "[]"),
                runs=[
                    r[0] for r in self._db.execute("SELECT run FROM study_run WHERE study = ? ORDER BY run", row[:1])
                ],
            )
            for row in rows
        ]

    def record(self, run: int) -> Record:
        """Reads all that is known of a run."""
        found = self.runs([run])
        if not found:
            raise NotFoundError(f"run {run}: not in {self.place}; {command_on(self.place, 'runs')} lists what there is")
        if found[0].outcome == DAMAGED:
            raise DamagedRunError(run, self.place, found[0].message)
        try:
            check_run(self._db, run)
            return self._read(found[0])
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            cause = cause_of(error) if isinstance(error, sqlite3.Error) else one_line(error)
            raise DamagedRunError(run, self.place, cause) from error

    def _read(self, info: RunInfo) -> Record:
        run = info.id
        intervals = self._db.execute(
            "SELECT phase, stream, operation, measure, start_ns, end_ns, warmup, requests, bytes, errors, depth_max,"
            " mean_ns, p50_ns, p99_ns, max_ns, id, histogram FROM interval WHERE run = ?"
            " ORDER BY phase, start_ns, stream, operation, measure, id",
            (run,),
        )
        costs = self._db.execute(
            "SELECT phase, start_ns, end_ns, warmup, cpu_user_ns, cpu_system_ns, loop_busy_share, knob, drain"
            " FROM interval_cost WHERE run = ? ORDER BY phase, start_ns, id",
            (run,),
        )
        errors = self._db.execute(
            "SELECT at_ns, phase, stream, operation, offset_bytes, request_bytes, kind, errno, text"
            " FROM error WHERE run = ? ORDER BY at_ns, id",
            (run,),
        )
        events = self._db.execute("SELECT body FROM event WHERE run = ? ORDER BY id", (run,))
        return Record(
            info=info,
            intervals=self._intervals(intervals),
            costs=[_cost(*row) for row in costs],
            errors=[FailedRequest(*row) for row in errors],
            events=[json.loads(body) for (body,) in events],
        )

    def _intervals(self, rows: Iterable[tuple[Any, ...]]) -> list[Interval]:
        """Each histogram is looked at, and none is kept but those of a store that is gone when it is closed."""
        kept: dict[int, str] = {}
        in_memory = str(self.place) == IN_MEMORY
        source: Histograms = InMemory(kept) if in_memory else self._histograms()
        found = []
        for row in rows:
            number, text = row[-2:]
            if text:
                check_histogram(text)
            if in_memory:
                kept[number] = text
            *counted, mean_ns, p50_ns, p99_ns, max_ns = row[:-2]
            # What another program or a merger read from buckets may be beyond the exact maximum.
            held = (min(mean_ns, float(max_ns)), min(p50_ns, max_ns), min(p99_ns, max_ns), max_ns)
            given = (*counted[:6], bool(counted[6]), *counted[7:], *held, number, source if text else None)
            found.append(Interval(*given))
        return found

    def _histograms(self) -> OnDisk:
        found = self._reader() if self._reader is not None else None
        if found is None:
            found = OnDisk(self.place, self._db)
            self._reader = ref(found)
        return found


@cache
def _blank(*, sums: bool) -> bytes:
    """A store without runs: each simulation has one in memory, and making its tables would take half of its time."""
    with closing(outputs.in_memory()) as made:
        migrate(made, IN_MEMORY)
        if not sums:
            without(made)
        return made.serialize()


def _open_for_writing(place: Path) -> sqlite3.Connection:
    is_kept = str(place) != IN_MEMORY
    db = outputs.connect(place, APPLICATION_ID, BUSY_TIMEOUT_S) if is_kept else outputs.in_memory()
    try:
        if is_kept:
            check_description(db, str(place))
            migrate_if_whole(db, str(place))
            _write_ahead(db)
        else:
            db.deserialize(_blank(sums=False))
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection) -> None:
    """SQLite does not wait by itself for this change where another process opens the same new store at this moment."""
    until_s = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until_s:
                raise
            time.sleep(LOCKED_WAIT_S)


def _open_for_reading(place: Path) -> sqlite3.Connection:
    try:
        return _reading(place, immutable=False)
    except sqlite3.OperationalError:
        return _reading(place, immutable=True)


def _reading(place: Path, *, immutable: bool, is_cut: bool = False) -> sqlite3.Connection:
    db = outputs.connect_for_reading(place, APPLICATION_ID, BUSY_TIMEOUT_S, immutable=immutable, is_cut=is_cut)
    try:
        if not is_cut:
            check_description(db, str(place))
        check_readable(db, str(place))
    except BaseException:
        db.close()
        raise
    return db


"""What an end that is given as a document may leave out."""
_NOTHING = schema.Measure(mean_ns=0.0, p50_ns=0, p99_ns=0, max_ns=0, histogram="")


def _append(db: sqlite3.Connection, run: int, told: schema.Told) -> None:
    event, body = told.event, told.text
    match event:
        case schema.Interval():
            _append_interval(db, run, event)
        case schema.ErrorEvent():
            _append_error(db, run, event)
            if event.dump is not None:
                # The bytes of damage stand beside the list of errors, which has no column for them.
                db.execute("INSERT INTO event (run, kind, body) VALUES (?, ?, ?)", (run, "error", body))
        case schema.Start():
            db.execute("INSERT INTO run_start VALUES (?, ?, ?)", (run, event.start_unix_ns, body))
        case schema.Fill(done_bytes=done, total_bytes=total) if done < total:
            pass  # of the preparation only its end is worth keeping
        case _:
            kind = schema.tag_of(type(event))
            db.execute("INSERT INTO event (run, kind, body) VALUES (?, ?, ?)", (run, kind, body))


def _append_error(db: sqlite3.Connection, run: int, error: schema.ErrorEvent) -> None:
    place = (error.at_ns, error.phase, error.stream, error.operation, error.offset_bytes, error.request_bytes)
    db.execute(
        "INSERT INTO error (run, at_ns, phase, stream, operation, offset_bytes, request_bytes, kind, errno, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (run, *place, error.kind, error.errno, error.text),
    )


def _append_interval(db: sqlite3.Connection, run: int, event: schema.Interval) -> None:
    span = (event.start_ns, event.end_ns, int(event.warmup))
    knob = "null" if event.knob is None else schema.encode(event.knob)
    db.execute(
        "INSERT INTO interval_cost VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            run,
            event.phase,
            *span,
            event.cpu.user_ns,
            event.cpu.system_ns,
            event.loop_busy_share,
            knob,
            int(event.drain),
        ),
    )
    db.executemany(
        f"INSERT INTO interval VALUES (NULL{', ?' * 17})",  # noqa: S608
        [
            (
                run,
                event.phase,
                cell.stream,
                cell.operation,
                name,
                *span,
                cell.requests,
                cell.bytes,
                cell.errors,
                cell.depth_max,
                measure.mean_ns,
                measure.p50_ns,
                measure.p99_ns,
                measure.max_ns,
                measure.histogram,
            )
            for cell in event.cells
            for name, measure in _measures(cell)
        ],
    )


def _measures(cell: schema.CellEvent) -> list[tuple[str, schema.Measure]]:
    """Where every request failed there is nothing to measure, yet the failures are data."""
    told = ((name, getattr(cell.measures, name)) for name in cell.measures.__struct_fields__)
    return [(name, measure) for name, measure in told if measure is not None] or [("service", _NOTHING)]


def _run_info(row: tuple[Any, ...]) -> RunInfo:
    plan, facts = json.loads(row[4]), json.loads(row[10])
    known = facts_head(facts)
    message = row[18]
    outcome: Outcome | None = check_outcome(row[17])
    if outcome is None and is_alive(known.process):
        outcome, message = "running", "has not ended yet"
    return RunInfo(
        id=row[0],
        created_unix_ns=row[1],
        profile=row[2],
        profile_hash=row[3],
        plan_document=plan,
        seed=int(plan.get("seed", row[5])),
        condition=row[6],
        targets=json.loads(row[7]),
        real_paths=known.real_paths,
        options=json.loads(row[8]),
        software_version=row[9],
        facts_document=facts,
        study=row[11],
        labels=json.loads(row[12] or "{}"),
        start_unix_ns=row[13],
        engine=json.loads(row[14] or "{}"),
        ended_unix_ns=row[15],
        end_ns=row[16],
        outcome=outcome or "interrupted",
        message=message if message is not None else "ended without a word: killed, or running on another host",
        watch_document=json.loads(row[19] or "{}"),
        warnings=_warnings(row[20] or "[]"),
        invalid=invalid_reason(row[21]),
    )


def _warnings(text: str) -> list[schema.RunWarning]:
    try:
        return msgspec.json.decode(text, type=list[schema.RunWarning])
    except msgspec.MsgspecError as error:
        raise ValueError(f"warnings: {error}") from error


_KNOB = msgspec.json.Decoder(schema.KnobEvent | None)


def _cost(  # the columns of its table
    phase: int, start: int, end: int, warmup: int, user: int, system: int, busy: float, knob: str, drain: int
) -> IntervalCost:
    return IntervalCost(phase, start, end, bool(warmup), user, system, busy, _KNOB.decode(knob), bool(drain))


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _new_id(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise sqlite3.DatabaseError("an insert gave no row id")
    return cursor.lastrowid
