"""A required rate where the profile sets the rate, and verdicts that the models' error leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard import profiles, rulers
from brickyard.advise.simulate import Brick, simulate
from brickyard.analysis.figures.sending import SLOTS_MANY
from brickyard.analysis.judging.answers import answer
from brickyard.analysis.judging.models import near_words
from brickyard.analysis.judging.verdict import Finding, verdict
from brickyard.analysis.judging.verdict_words import verdict_line
from brickyard.store import Record, Store
from brickyard.study.running import circumstances
from support import MS, SECOND, add_run, cell, interval, phase_end, plan, stream

DRIVE = "msr-2003-wd"
"""Does 75 random reads of 4 KiB a second, whatever waits."""


def paced(
    rate: int, *, name: str = "reads", share: int = 100, target: int = 0, size: str = "4KiB", arrivals: str = "poisson"
) -> str:
    loop = f"pace = {{ loop = 'open', rate = {rate}, arrivals = '{arrivals}' }}"
    mix = f"operations = {{ read = {share}, write = {100 - share} }}"
    return (
        f"[[phase.stream]]\nname = '{name}'\ntarget = {target}\nrequest = '{size}'\naddress = 'random'\ndepth = 256\n"
        f"{loop}\n{mix}\n"
    )


CLOSED = "[[phase.stream]]\nname = 'closed'\nrequest = '4KiB'\naddress = 'random'\n"


def simulated(*streams: str, seconds: int = 20, seed: int = 1, ramp: str = "") -> Record:
    text = f"title = 't'\nseed = {seed}\n[[phase]]\nduration = '{seconds}s'\n{ramp}" + "".join(streams)
    return simulate(profiles.validate(profiles.ProfileText("t", text, ""), []), Brick(DRIVE))


def found(record: Record, wanted: str) -> Finding:
    return verdict(record, rulers.read(wanted)).decided


def line(record: Record, wanted: str) -> str:
    return verdict_line(verdict(record, rulers.read(wanted)))


def test_storage_that_answers_all_that_is_offered_meets_the_offered_rate() -> None:
    record = simulated(paced(60, arrivals="constant"), seconds=20)
    assert 59.4 < (found(record, "iops>=60").value or 0) < 60, "one was in flight at the end"
    assert found(record, "iops>=60").passed
    assert line(record, "iops>=60").endswith("the profile offers 60.0/s, and all that was due was sent and answered.")
    assert found(record, "throughput>=240KiB/s").passed
    assert found(record, "iops>=40").note == ""


@pytest.mark.parametrize(
    ("arrivals", "share", "wanted", "per_s"), [("poisson", 100, "iops>=60", 60), ("constant", 50, "read.iops>=30", 30)]
)
def test_a_run_that_was_offered_less_by_chance_does_not_show_the_average(
    arrivals: str, share: int, wanted: str, per_s: int
) -> None:
    """187 writes/s met "at least 199", with headroom, as the profile's 400/s are half writes on average."""
    records = [simulated(paced(60, share=share, arrivals=arrivals), seed=seed) for seed in range(8)]
    told = [found(record, wanted) for record in records]
    assert {(one.value or 0) >= 0.99 * per_s: one.word for one in told} == {True: "pass", False: "not known"}
    less = next(record for record, one in zip(records, told, strict=True) if one.word == "not known")
    assert "/s on average, but this run drew less, all of which was answered" in line(less, wanted)


def test_a_rate_above_the_offered_one_is_neither_met_nor_missed() -> None:
    record = simulated(paced(60))
    assert found(record, "iops>=100").word == "not known"
    assert not verdict(record, rulers.read("iops>=100")).passed
    assert "the profile offers only 60.0/s, which the storage kept up with" in line(record, "iops>=100")
    assert found(record, "throughput>=1MiB/s").word == "not known"


def test_a_rate_above_what_pauses_allow_is_neither_met_nor_missed() -> None:
    """With 100 ms between its requests, a depth of 4 does at most 40/s: "not met" blamed an idle disk."""
    pausing = CLOSED + "depth = 4\nthink = '100ms'\n"
    record = simulated(pausing)
    assert found(record, "iops>=50").word == "not known"
    words = "the profile's pauses allow at most 40.0/s (100 ms after each request, with up to 4 in flight)."
    assert line(record, "iops>=50").endswith(words)
    assert found(record, "throughput>=200KiB/s").word == "not known"
    assert found(record, "iops>=20").word == "pass"
    assert found(record, "iops>=39").word == "fail", "the pauses allow it, and it was not reached"
    assert found(simulated(pausing, CLOSED.replace("'closed'", "'other'")), "iops>=500").word == "fail"


@pytest.mark.parametrize(
    ("depths", "said"),
    [
        ((1,), "with at most 1 request in flight, which the profile sets; more may reach the rate"),
        ((4, 8), "with at most 12 requests in flight, which the profile sets; more may reach the rate"),
        ((256,), ""),
        ((4, None), "with at most 4 requests in flight in stream s0, which the profile sets; more may reach the rate"),
        (
            (4, 8, None),
            "with at most 12 requests in flight in streams s0 and s1, which the profile sets; more may reach the rate",
        ),
        ((256, None), ""),
    ],
)
def test_a_closed_loop_that_misses_a_rate_says_how_many_were_in_flight(
    depths: tuple[int | None, ...], said: str
) -> None:
    """An array of 16 drives was "not met, 293 IOPS" and "the limit" with 4 in flight; with 64 it does four times that.

    A stream with a rate of its own (None) beside them kept it, so the closed loops' number bounds the sum.
    """
    streams = [CLOSED.replace("'closed'", f"'s{n}'") + f"depth = {depth}\n" for n, depth in enumerate(depths) if depth]
    record = simulated(*streams, *([paced(20)] if None in depths else []))
    missed = found(record, "iops>=5000")
    assert (missed.word, missed.reason) == ("fail", said)
    assert found(record, "throughput>=20MiB/s").reason == said
    assert found(record, "p50<=1us").reason == ""
    assert found(record, "iops>=10").reason == ""
    assert_limit(record, said.partition(", which")[0])


def assert_limit(record: Record, in_flight: str) -> None:
    limit = f"The storage, not the generator, was the limit{in_flight and ' ' + in_flight}."
    assert limit in answer([record], {}).belief


OF_CLOSED = "[[require]]\nfigure = 'iops'\nat_least = 5000\nstream = 'closed'\n"
FRAMES = "[[phase.stream]]\nname = 'video'\nrequest = '64KiB'\nframes = { bytes = '64KiB', rate = 5 }\n"


def test_a_closed_loop_beside_frames_says_how_many_were_in_flight() -> None:
    record = simulated(CLOSED, FRAMES)
    said = "with at most 1 request in flight in stream closed"
    for wanted in ("iops>=5000", "throughput>=200MiB/s"):
        assert found(record, wanted).word == "fail"
        assert found(record, wanted).reason == f"{said}, which the profile sets; more may reach the rate"
    assert_limit(record, said)


def test_chains_of_a_closed_loop_say_how_many_were_in_flight() -> None:
    """A chain has one request at a time."""
    chain = CLOSED + "chain = ['read', 'write']\ndepth = 2\n"
    record = simulated(chain)
    said = "with at most 2 requests in flight"
    assert found(record, "read.iops>=600").reason == f"{said}, which the profile sets; more may reach the rate"
    assert_limit(record, said)
    assert found(simulated(chain.replace("depth = 2", "depth = 256")), "read.iops>=600").reason == ""


def test_a_stream_that_did_not_keep_its_rate_is_what_bounds_the_sum() -> None:
    """What is said of it stays; the closed loop's depth is said where the requirement is of the closed loop alone."""
    record = simulated(paced(90).replace("depth = 256", "depth = 2"), CLOSED)
    both = found(record, "iops>=5000")
    assert (both.word, both.note.partition(",")[0]) == (
        "not known",
        "with at most 2 requests in flight in stream reads",
    )
    assert "was the limit with" not in answer([record], {}).belief
    (alone,) = verdict(record, rulers.parse("r", OF_CLOSED)).findings
    assert alone.reason.startswith("with at most 1 request in flight, which the profile sets")


def test_a_rate_of_several_streams_says_that_it_is_their_sum() -> None:
    """A log without a rate of its own hid a database that starved."""
    record = simulated(paced(20), CLOSED)
    assert " IOPS of both streams together" in line(record, "iops>=10")
    assert "together" not in line(record, "p99<=500ms")


def test_runs_of_several_depths_name_the_least_and_the_most() -> None:
    records = [simulated(CLOSED + f"depth = {depth}\n") for depth in (2, 16)]
    assert "was the limit with at most 2 to 16 requests in flight." in answer(records, {}).belief


@pytest.mark.parametrize("wanted", ["iops>=90", "iops>=100", "throughput>=360KiB/s"])
def test_storage_that_does_not_keep_up_misses_the_rate(wanted: str) -> None:
    assert found(simulated(paced(90)), wanted).word == "fail"


@pytest.mark.parametrize(("unsent", "word"), [(2, "pass"), (30, "fail")])
def test_what_is_left_unsent_is_not_called_answered(tmp_path: Path, unsent: int, word: str) -> None:
    """Of 10,000 that were due; as much as counts as kept up, and yet less than what was required."""
    pace = {"loop": "open", "rate": 1000.0, "arrivals": "constant"}
    with Store(tmp_path / "runs.db") as store:
        seconds = [interval(n * SECOND, (n + 1) * SECOND, cell([MS] * 1000), index=n) for n in range(9)]
        last = interval(9 * SECOND, 10 * SECOND, cell([MS] * (1000 - unsent)), index=9)
        told = [*seconds, last, phase_end(unsent=unsent)]
        record = store.record(add_run(store, told, plan_=plan(stream(pace=pace))))
    finding = found(record, "iops>=1000")
    assert finding.word == word
    assert ("requests that were due were never sent" in finding.note) == (word == "fail")


@pytest.mark.parametrize(("depth", "reached", "word"), [(4, 4, "not known"), (4, 3, "fail"), (256, 256, "fail")])
def test_an_open_loop_whose_slots_were_all_taken_says_how_many(
    tmp_path: Path, depth: int, reached: int, word: str
) -> None:
    """A depth of 1 that left 74 % unsent was "proof that the rate is too high", and a depth of 64 kept it."""
    asked = stream(pace={"loop": "open", "rate": 2000.0, "arrivals": "constant"}, depth=depth)
    with Store(tmp_path / "runs.db") as store:
        ones = [cell([MS] * 1000, depth_max=reached) for _ in range(5)]
        told = [interval(n * SECOND, (n + 1) * SECOND, one, index=n) for n, one in enumerate(ones)]
        record = store.record(add_run(store, [*told, phase_end(unsent=5000)], plan_=plan(asked)))
        (warning,) = [one for one in circumstances.warnings(store, record, []) if one.id == "overloaded"]
    rate, time = found(record, "iops>=2000"), found(record, "p90<=0.5ms")
    assert (rate.word, time.word) == (word, "fail")
    assert "proof" not in warning.remedy
    said = f"at most {depth} requests in flight"
    assert [said in text for text in (warning.text, rate.note, time.note)] == [reached == depth] * 3
    is_bound = reached == depth < SLOTS_MANY
    assert warning.remedy.startswith("Allow more in flight (--iodepth" if is_bound else "Lower the rate")
    if reached == depth:
        assert said in found(record, "p90<=5ms").note, "a limit that those which were sent kept"


def test_of_several_streams_the_one_that_did_not_keep_up_is_named() -> None:
    record = simulated(paced(90).replace("depth = 256", "depth = 1"), CLOSED)
    (said,) = {found(record, wanted).note for wanted in ("p50<=1us", "p90<=2us")}
    assert said == "with at most 1 request in flight in stream reads, which the profile sets"


def test_a_share_of_the_offer_is_offered() -> None:
    record = simulated(paced(50, share=70, arrivals="constant"))
    assert found(record, "iops>=50").word == "pass"
    assert found(record, "iops>=51").word == "not known"
    assert found(record, "read.iops>=34").word == "pass"
    assert found(record, "read.iops>=45").word == "not known"


def test_streams_of_an_offer_add_up_and_a_closed_loop_has_none() -> None:
    both = simulated(*(paced(30, name=name, arrivals="constant") for name in "ab"))
    assert found(both, "iops>=60").passed
    assert found(both, "iops>=70").word == "not known"
    beside = simulated(paced(30), CLOSED)
    assert found(beside, "iops>=500").word == "fail"
    assert found(simulated(CLOSED), "iops>=500").word == "fail"


def test_a_verdict_that_the_models_error_leaves_open_says_so() -> None:
    record = simulated(CLOSED)
    rate = found(record, "iops>=1").value or 0.0
    for factor, said in ((0.9, "so a real one may fail it"), (1.1, "so a real one may meet it"), (0.2, ""), (5.0, "")):
        words = near_words(record, verdict(record, rulers.read(f"iops>={rate * factor:.2f}")))
        assert words.endswith(said) if said else not words
    near = verdict(record, rulers.read(f"iops>={rate:.0f}"))
    assert near_words(record, near).startswith("models of disks may be off by a factor of")
    offered = simulated(paced(60, arrivals="constant"))
    assert not near_words(offered, verdict(offered, rulers.read("iops>=60")))
