"""Response times of an open loop whose rate the storage does not keep up with are no figures of that rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brickyard import profiles, rulers
from brickyard.advise.simulate import Brick, simulate
from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.figures.sending import sent
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.comparison import compare
from brickyard.analysis.judging.pairing import length_lines
from brickyard.analysis.judging.repetitions import repeated
from brickyard.analysis.judging.run_figures import run_figures
from brickyard.analysis.judging.verdict import verdict
from brickyard.analysis.judging.verdict_words import verdict_line
from brickyard.schema import RunWarning
from brickyard.schema.plan import Plan
from brickyard.store import Record, Store
from brickyard.study.running import circumstances
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

DRIVE = "msr-2003-wd"
"""Does 75 random reads of 4 KiB a second, whatever waits."""


def paced(rate: int, *, depth: int = 256, name: str = "reads") -> str:
    loop = f"pace = {{ loop = 'open', rate = {rate}, arrivals = 'poisson' }}"
    return f"[[phase.stream]]\nname = '{name}'\nrequest = '4KiB'\naddress = 'random'\ndepth = {depth}\n{loop}\n"


def plan_of(text: str) -> Plan:
    return profiles.validate(profiles.ProfileText("t", text, ""), [])


def simulated(*streams: str, seconds: int = 20, seed: int = 1) -> Record:
    text = f"title = 't'\nseed = {seed}\n[[phase]]\nduration = '{seconds}s'\n" + "".join(streams)
    return simulate(plan_of(text), Brick(DRIVE))


def warned(record: Record, tmp_path: Path, number: int = 1) -> tuple[Record, list[RunWarning]]:
    """As a run that has ended, with its warnings."""
    with Store(tmp_path / "runs.db") as store:
        found = circumstances.warnings(store, record, [])
    info = replace(record.info, id=number, outcome="done", warnings=found)
    return replace(record, info=info), [one for one in found if one.id in ("overloaded", "backlog")]


def test_a_queue_grows_where_more_comes_than_is_answered_and_not_where_chance_raises_it() -> None:
    above = [bool(sent(simulated(paced(80), seed=seed)).growing) for seed in range(8)]
    below = [bool(sent(simulated(paced(62), seed=seed)).growing) for seed in range(12)]
    assert sum(above) >= 7
    assert sum(below) <= 1


def test_the_growth_is_what_is_not_answered() -> None:
    (grew,) = sent(simulate(plan_of(PROVISIONED), Brick("gp3"))).growing
    assert grew.share == pytest.approx(3300 / 3000 - 1, rel=0.15), "gp3 answers 3,000 a second"
    assert grew.last_mean_ns > 4 * grew.first_mean_ns


PROVISIONED = "title = 't'\n[[phase]]\nduration = '8s'\n" + paced(3300, depth=4096)


def test_a_stall_is_no_growth(tmp_path: Path) -> None:
    def run(store: Store, slow: set[int]) -> Record:
        seconds = [
            interval(n * SECOND, (n + 1) * SECOND, cell([400 * MS if n in slow else MS] * 100), index=n)
            for n in range(12)
        ]
        return store.record(add_run(store, [*seconds, phase_end()], plan_=plan(stream(pace=PACE))))

    with Store(tmp_path / "runs.db") as store:
        assert not sent(run(store, {7, 8})).growing
        assert not sent(run(store, {1, 6})).growing
        assert sent(run(store, {6, 7, 8, 9, 10, 11})).growing, "from the middle on, all requests were slow"


PACE = {"loop": "open", "rate": 100, "arrivals": "poisson"}


@pytest.fixture(scope="module")
def grown() -> Record:
    return simulated(paced(80))


@pytest.fixture(scope="module")
def unsent() -> Record:
    """A slow stream that does not keep up beside one that does."""
    return simulated(paced(20, name="few", depth=8), paced(300, name="many", depth=4))


def test_a_requirement_on_times_is_not_met_by_a_rate_that_was_not_kept(grown: Record, unsent: Record) -> None:
    (finding,) = verdict(grown, rulers.read("p99<=60s")).findings
    assert (finding.word, finding.passed) == ("not known", False)
    assert "the queue grew" in verdict_line(verdict(grown, rulers.read("p99<=60s")))
    (finding,) = verdict(unsent, rulers.read("p99<=60s")).findings
    assert (finding.word, finding.stream) == ("fail", "many")
    assert "of the requests that were due could be sent" in finding.reason
    assert verdict(unsent, rulers.read("iops>=60")).passed, "a rate is what it is"
    sound = simulated(paced(60))
    assert verdict(sound, rulers.read("p99<=60s")).passed


def test_only_the_stream_that_fell_behind_has_no_times(unsent: Record, tmp_path: Path) -> None:
    record, (told,) = warned(unsent, tmp_path)
    assert "requests of many that were due" in told.text
    said = " ".join(answer([record], {}).sentences)
    assert "few: read" in said
    assert "answered within" in said
    assert "of the requests of many that were due could be sent, so its response time is not known" in said
    found = {(item.part.stream, item.value is None) for item in measured(record, MEAN, split=("stream",))}
    assert found == {("few", False), ("many", True)}


MEAN = FIGURES["response_mean"]


def test_a_run_whose_queue_grew_says_so_and_not_that_the_profile_set_its_rate(grown: Record, tmp_path: Path) -> None:
    record, (told,) = warned(grown, tmp_path)
    assert told.id == "backlog"
    found = answer([record], {})
    assert "The queue grew: the mean response time was" in " ".join(found.sentences)
    assert "neither the storage nor the generator" not in " ".join(found.belief)
    assert all(phase.response_p99_ns is None for phase in run_figures(record).phases)


def test_times_that_tell_the_length_of_runs_are_not_compared_nor_averaged(tmp_path: Path) -> None:
    before, after = (
        [warned(simulated(paced(rate, depth=4), seed=seed), tmp_path, first + seed)[0] for seed in range(3)]
        for first, rate in ((1, 120), (11, 121))
    )
    assert {one.figure.name for one in repeated(before)} == {"iops"}
    assert {change.figure.name for change in compare(before, after).changes} == {"iops"}
    assert length_lines(before) == [
        "runs 1-3 are overloaded: response times depend on how long they were, so none are compared"
    ]


def ramped(above: str) -> Record:
    limit = f'limit = {{ when = "mean", above = "{above}" }}'
    ramp = f'ramp = {{ knob = "rate", from = 60, to = 150, factor = 1.05, every = "10s", {limit}, search = 2 }}'
    return simulate(plan_of(f"title = 't'\n[[phase]]\n{ramp}\n{paced(60)}"), Brick(DRIVE))


def test_the_step_that_a_ramp_found_may_have_a_queue_that_grows() -> None:
    record = ramped("1s")
    found = answer([record], {})
    assert "The queue grew" in " ".join(found.sentences), "the single search ends above the 75 that the drive does"
    assert "of the step" in " ".join(found.sentences)
    assert "neither the storage nor the generator" not in " ".join(found.belief)
    assert verdict(record, rulers.read("mean<=1s")).word == "not known"
    assert verdict(ramped("40ms"), rulers.read("mean<=40ms")).passed


def ended(record: Record, number: int) -> Record:
    return replace(record, info=replace(record.info, id=number, outcome="done"))


def test_neither_one_run_nor_one_target_named_twice_is_a_repetition(tmp_path: Path) -> None:
    single = ended(simulated(paced(20, name="a"), paced(20, name="b"), seconds=30), 1)
    assert repeated([single]) == [], "it has a row of rates and one of times for all streams"
    load = plan(stream(name="reads"), stream(name="reads", target=1))
    with Store(tmp_path / "runs.db") as store:
        cells = interval(0, SECOND, cell([MS] * 2000), cell([MS] * 2000, stream=1))
        number = add_run(store, [cells, phase_end()], plan_=load, targets=["/a", "/a"])
        assert repeated([store.record(number)]) == []


def test_times_of_some_repetitions_alone_are_none() -> None:
    """Those of the others would be of the runs that happened to be faster."""
    every = [ended(simulated(paced(75), seed=seed), seed) for seed in range(1, 9)]
    grew = [record for record in every if sent(record).growing]
    sound = [record for record in every if record not in grew]
    assert len(sound) > 1
    assert {one.figure.name for one in repeated(sound)} >= {"iops", "response_mean"}
    assert {one.figure.name for one in repeated([*sound, grew[0]])} == {"iops"}
    (line,) = length_lines([*sound, grew[0]])
    assert line.endswith("so those of no run are compared")


def test_a_time_that_a_cache_may_have_met_is_not_known_however_much_of_the_rate_lasts() -> None:
    load = "operations = { read = 0, write = 100 }\nrequest = '8KiB'\naddress = 'random'\ndepth = 16\n"
    pace = "pace = { loop = 'open', rate = 1500, arrivals = 'poisson' }\n"
    text = f"title = 't'\n[[phase]]\nduration = '20s'\n[[phase.stream]]\n{load}{pace}"
    record = ended(simulate(plan_of(text), Brick("overland-2007-sata")), 1)
    times, rate = (verdict(record, rulers.read(word), lasting=True) for word in ("p99<=10ms", "iops>=100"))
    assert (times.word, rate.word) == ("not known", "pass"), "after 30 s, the p99 is seconds"
    assert "may be a figure of a cache" in verdict_line(times)
