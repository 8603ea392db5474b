"""`compare` and its gate: which runs count, what a missing figure, failed requests and another load come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brickyard.cli import main
from brickyard.store import Json, Store

SIM = ["sim:msr-2003-maxtor", "--set", "duration=2s", "--set", "warmup=0s"]


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Json:
    capsys.readouterr()
    assert main([*words, "--json"]) == code
    found: Json = json.loads(capsys.readouterr().out)
    return found


def test_each_repetition_has_a_seed_of_its_own_and_the_first_has_the_profile_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "sqlio-random-read-4", *SIM, "--repeat", "3", "--set", "seed=20"]) == 0
    with Store() as store:
        runs = [store.record(run.id) for run in store.runs()]
    assert [run.info.seed for run in runs] == [20, 21, 22]
    assert [run.info.plan["seed"] for run in runs] == [20, 21, 22]
    totals = [sum(item.requests for item in run.intervals) for run in runs]
    assert len(set(totals)) > 1, "other addresses take other times"


def test_runs_of_one_seed_on_a_modelled_target_count_once(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("1", "1", "1", "2", "2", "2"):
        assert main(["run", "sqlio-random-read-4", *SIM, "--set", f"seed={seed}"]) == 0
    found = document(capsys, "compare", "1-3", "4-6")
    assert {(change["n_before"], change["n_after"]) for change in found["changes"]} == {(1, 1)}
    assert found["repeats"] == [{"run": 1, "by": [2, 3]}, {"run": 4, "by": [5, 6]}]
    assert [item["label"] for item in found["differing"]] == ["Seed"]
    assert found["loads_differ"] == []
    assert main(["compare", "1-3", "4-6"]) == 0
    told = capsys.readouterr().out
    assert "runs 2-3 repeat run 1 (same seed, modelled target): counted once" in told
    assert main(["compare", "1-3", "4-6", "--check"]) == 2
