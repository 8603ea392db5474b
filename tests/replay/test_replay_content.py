"""The logs of a replay are part of the load by their content, wherever the files are."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import support
from brickyard.analysis.judging.differing import asked_hash, differing_between, load_words
from brickyard.cli import main
from brickyard.store import Json, Record, Store
from brickyard.study.replays.content import logs_hash
from brickyard.study.replays.run import check
from brickyard.study.replays.series import spec_of
from replay_support import items, replayed, w3c


def test_another_log_at_the_same_path_is_another_load(
    shop: str, mapping: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, place = tmp_path / "shop.log", tmp_path / "s.db"
    common: list[str | Path] = [log, "--map", mapping, "--to", shop, "--pace", "fire-hose", "--repeat", "2"]
    for count in (60, 31):
        log.write_text(w3c(items(count, 2.0)))
        replayed(capsys, *common, store=place)
    moved = tmp_path / "elsewhere" / "moved.log.gz"
    moved.parent.mkdir()
    moved.write_bytes(gzip.compress(log.read_bytes()))
    replayed(capsys, moved, *common[1:], store=place)
    assert main(["compare", "1-2", "3-4", "--check", "--store", str(place)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "the load differs: replay-fire-hose: replayed log: 60 requests within 1.97 s (SHA-256 " in said
    assert "→ 31 requests within 1.94 s (SHA-256 " in said
    with Store(place, must_exist=True) as kept:
        records = [kept.record(run) for run in range(1, 7)]
    hashes = [asked_hash(record) for record in records]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(set(hashes[2:])) == 1, "the same log at another path, and gzipped"
    (logs,) = [item for item in differing_between(records[:2], records[2:4]) if item.label == "Replay logs"]
    assert logs.matters == "it is another load"
    assert not [item for item in differing_between(records[2:4], records[4:]) if item.label == "Replay logs"]
    assert main(["show", "1", "--json", "--store", str(place)]) == 0
    asked = json.loads(capsys.readouterr().out)["plan"]["replay"]
    assert asked["logs"] == [str(log)]
    assert asked["content"]["requests"] == 60


def test_the_same_filters_are_the_same_load_and_others_are_not(mapping: Path, tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    log.write_text(w3c(items(60, 60.0)))
    spec = spec_of([str(log)], mapping, [], None)
    whole, again = (check(spec).content for _ in range(2))
    assert whole is not None
    assert whole == again
    part = check(replace(spec, from_time="2003-06-02T10:00:30Z")).content
    assert part is not None
    assert (whole.requests, part.requests) == (60, 30)
    assert part.first_ns is not None
    assert whole.first_ns is not None
    assert part.first_ns - whole.first_ns == 30_000_000_000


def test_logs_have_one_hash_in_any_order_and_torn_ones_have_one_too(tmp_path: Path) -> None:
    one, other, torn = (str(tmp_path / name) for name in ("one.log", "other.log", "torn.log.gz"))
    Path(one).write_text("a" * 3_000_000)
    Path(other).write_text("b")
    assert logs_hash([one, other]) == logs_hash([other, one]) != logs_hash([one])
    shutil.copy(one, tmp_path / "copy.log")
    assert logs_hash([str(tmp_path / "copy.log")]) == logs_hash([one])
    Path(torn).write_bytes(gzip.compress(b"c" * 1000)[:-9])
    assert logs_hash([torn]) not in (logs_hash([one]), logs_hash([other]))


def kept(store: Store, plan: Json) -> Record:
    return store.record(support.add_run(store, [support.phase_end(end_ns=support.SECOND)], plan_=plan))


def test_records_without_the_content_keep_their_hash(tmp_path: Path) -> None:
    asked = {"pace": {"kind": "fire_hose"}, "logs": ["/data/a.log"], "first_ns": 5}
    plan = {**support.plan(), "kind": "replay", "replay": asked}
    held = {"hash": "a" * 64, "requests": 3, "first_ns": 5, "last_ns": 9}
    with Store(tmp_path / "s.db") as store:
        old = kept(store, plan)
        assert asked_hash(old) == asked_hash(kept(store, {**plan, "replay": {**asked, "content": None}}))
        assert asked_hash(old) == "54c93c57a403"
        new = kept(store, {**plan, "replay": {**asked, "content": held}})
        said = load_words(old, new)
        assert said.startswith("replayed log: /data/a.log → 3 requests within 4.00 ns (SHA-256 aaaaaaaaaaaa)")
