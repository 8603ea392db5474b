"""Records that hosts kept: what is collected, and what is removed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from brickyard.analysis.figures.hosts import host_rows
from brickyard.cli import main
from brickyard.errors import BrickyardError
from brickyard.fleet import agent, collect
from brickyard.fleet.answers import HostFacts, Taken, answer_of
from brickyard.fleet.shares import divide
from brickyard.schema import LoadShare, ProcessMark, RunFacts, Start, StartReasons, encode, plan_document, reasons_of
from brickyard.store import Store
from brickyard.store.process import own_process
from fleet_parts import load, of_host, told_to_all, two_hosts
from support import MS, start_event


def test_a_record_that_the_head_has_goes_even_where_its_worker_ended_long_ago(tmp_path: Path) -> None:
    ended = agent.Agent("a")
    ended._code = 0
    for text, stays in (('{"brickyard_record": 1, "run": "x"}\n', False), ("somebody's own\n", True)):
        record = tmp_path / "x-1" / "a.jsonl"
        record.parent.mkdir(exist_ok=True)
        record.write_text(text)
        ended._record = str(record)
        ended.forget()
        assert (record.exists(), record.parent.exists()) == (stays, stays)


def test_what_an_agent_answers_is_read_as_a_type_and_anything_else_names_the_host() -> None:
    hand = agent.Agent("a")
    hand._code = 0
    assert answer_of("a", hand.facts([]), HostFacts).cpus >= 1
    assert answer_of("a", hand.take(0, 0.0), Taken) == Taken([], 0, 0, "")
    for told, kind, said in (
        ({"cpus": "many"}, HostFacts, "a: its answer cannot be read: Expected `int`, got `str`"),
        ({"lines": [], "next": 0, "code": 0}, Taken, "missing required field `errors`"),
        (None, Taken, "got `null`"),
    ):
        with pytest.raises(BrickyardError, match=said):
            answer_of("a", told, kind)  # type: ignore[type-var]


def kept_record(folder: Path, run: str, host: str, intervals: int) -> Path:
    """As a worker writes it; without intervals it never began."""
    parts = divide("x", load(), ["a", "b"], ["/f"], LoadShare.COPIES)
    note = {
        "brickyard_record": 1,
        "run": run,
        "plan": plan_document(parts.plan),
        "targets": parts.targets,
        "host": host,
    }
    note |= {"share": "copies", "parts": msgspec.to_builtins(parts.parts)}
    events = [start_event(), {"event": "phase", "phase": 0, "name": "m", "start_ns": 0}] if intervals else []
    events += [told_to_all()] if intervals else []
    events += [json.loads(encode(of_host([MS] * 100, index))) for index in range(intervals)]
    place = folder / f"{run}-{host}.jsonl"
    place.write_text("".join(json.dumps(line) + "\n" for line in [note, *events]))
    return place


def test_a_record_of_an_earlier_worker_is_read(tmp_path: Path) -> None:
    """Until version 2 of the events, a start had its reasons as texts."""
    place = kept_record(tmp_path, "m-1", "a", 1)
    note, start, *rest = map(json.loads, place.read_text().splitlines())
    texts = {"schema": 1, "engine_reason": "the kernel offers it", "io_reason": "", "submit_reason": "asked for"}
    lines = [json.dumps(item) for item in (note, start | texts, *rest)]
    (found,) = [event for event in collect.read_kept(lines, "a").events if isinstance(event, Start)]
    assert reasons_of(found) == StartReasons(engine="the kernel offers it", io="", submit="asked for")


def test_collect_leaves_out_what_says_nothing_new_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.db"
    with Store(place) as store:
        two_hosts(store)  # x-1, of which three intervals of b came
    (kept := tmp_path / "kept").mkdir()
    kept_record(kept, "a-0", "a", 0)
    kept_record(kept, "x-1", "b", 3)
    kept_record(kept, "z-9", "a", 4)
    words = ["fleet", "collect", str(kept), "--store", str(place), "--json"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert list(json.loads(said.out)["runs"]) == ["z-9"]
    assert "a-0: no host had begun; nothing was measured" in said.err
    assert "x-1: is run 1 already, with all that was kept" in said.err
    (kept / "x").mkdir()
    (kept / "x" / "b.jsonl").touch()
    (kept / "x" / "c.jsonl").write_text("5\n")
    assert main(words) == 0, "what is no record costs no other its place"
    said = capsys.readouterr()
    assert f"{kept}/x/b.jsonl: is no record that a host of a fleet kept" in said.err
    assert f"{kept}/x/c.jsonl: is no record that a host of a fleet kept" in said.err
    assert json.loads(said.out)["runs"] == {}
    (bare := tmp_path / "bare.jsonl").write_text('{"brickyard_record": 1}\n')
    assert main(["fleet", "collect", str(bare), "--store", str(place)]) == 2
    assert "is no record that a host of a fleet kept" in capsys.readouterr().err
    kept_record(kept, "x-1", "b", 12)  # b came back, and has what nobody heard
    assert main(words) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == ["x-1"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}


def test_only_what_the_store_has_is_removed_unless_more_is_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    (kept := tmp_path / "kept").mkdir()
    whole = str(kept_record(kept, "x-1", "b", 3))
    new = str(kept_record(kept, "z-9", "a", 4))
    never = str(kept_record(kept, "n-0", "a", 0))
    going = str(kept_record(kept, "g-1", "a", 2))
    (empty := kept / "e-0-a.jsonl").touch()
    with Store(place) as store:
        two_hosts(store)  # x-1, of which three intervals of b came
        begun_on_hosts(store, "g-1", own_process())
        found = collect.from_files([kept])
        removal = collect.to_remove(store, found)
        assert set(removal.goes) == {whole}
        assert removal.stays[new] == "not collected"
        assert removal.stays[never] == "no host had begun; nothing was measured"
        assert removal.stays[going] == "is run 2, which goes on"
        assert str(empty) in removal.stays
        asked = collect.to_remove(store, found, uncollected=True)
        assert set(asked.goes) == {whole, new, never, str(empty)}
        assert set(asked.stays) == {going}, "never what is still written"


def test_a_host_removes_only_the_record_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    hand = agent.Agent("a")
    home = tmp_path / "brickyard" / "fleet" / "x-1"
    home.mkdir(parents=True)
    record = kept_record(tmp_path, "x-1", "a", 3).rename(home / "a.jsonl")
    (other := home / "notes.txt").write_text("mine")
    size = record.stat().st_size
    assert hand.remove("x-1/a.jsonl", size - 1) == "has become longer since it was read"
    with record.open("a"):
        assert hand.remove("x-1/a.jsonl", size) == "a worker is still writing it"
    assert hand.remove("../../../etc/passwd", 1) == "is gone already"
    assert record.exists()
    assert hand.remove("x-1/a.jsonl", size) == ""
    assert not record.exists()
    assert other.exists()
    record.write_text("something else")
    assert hand.remove("x-1/a.jsonl", 14) == "is no record that a host of a fleet kept"


def begun_on_hosts(store: Store, name: str, runner: ProcessMark) -> None:
    store.add_run(
        profile="x",
        profile_hash="",
        plan=divide("x", load(), ["a", "b"], ["/f"], LoadShare.COPIES).plan,
        condition="normal",
        targets=["a:/f", "b:/f"],
        options={"hosts": ["a", "b"], "share": "copies", "fleet_run": name},
        software_version="",
        facts=RunFacts(process=runner),
    )


def test_a_run_that_goes_on_is_not_collected_and_one_collected_too_early_is_collected_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs.db"
    (kept := tmp_path / "kept").mkdir()
    words = ["fleet", "collect", str(kept), "--store", str(place), "--json"]
    for name, runner in (("g-1", own_process()), ("k-1", ProcessMark(pid=1, start_ticks=1, boot_id="another"))):
        with Store(place) as store:
            begun_on_hosts(store, name, runner)
        kept_record(kept, name, "a", 3)
    assert main(words) == 0
    said = capsys.readouterr()
    assert "g-1: is run 1, which goes on" in said.err
    assert list(json.loads(said.out)["runs"]) == ["k-1"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}, "all of it is collected already"
    kept_record(kept, "k-1", "a", 9)  # it went on at that time, on another host
    assert main(words) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == ["k-1"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}


def test_a_run_whose_head_died_is_collected_up_to_the_last_interval_that_all_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept := tmp_path / "kept").mkdir()
    words = ["fleet", "collect", str(kept), "--store", str(tmp_path / "runs.db"), "--json"]
    kept_record(kept, "k-1", "a", 9)
    kept_record(kept, "k-1", "b", 7)
    kept_record(kept, "l-1", "a", 20)
    kept_record(kept, "l-1", "b", 3)  # its host died long before
    assert main(words) == 0
    numbers = json.loads(capsys.readouterr().out)["runs"]
    with Store(tmp_path / "runs.db") as store:
        whole, partly = store.record(numbers["k-1"]), store.record(numbers["l-1"])
    rows = {row.host: row for row in host_rows(whole)}
    assert [(rows[name].state, rows[name].requests) for name in ("a", "b", "")] == [
        ("interrupted", 700),
        ("interrupted", 700),
        ("", 1400),
    ]
    assert whole.info.outcome == "interrupted"
    assert rows[""].iops == pytest.approx(200)
    assert "up to the last interval that a and b have" in whole.info.message
    assert {row.host: row.state for row in host_rows(partly)} == {"a": "interrupted", "b": "lost", "": "without b"}
    assert partly.info.outcome == "failed"
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {}, "what was cut is not new"
