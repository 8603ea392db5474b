"""Duty: the table of verbs. Refusal: what is slow to import is imported by the verb that needs it."""

from __future__ import annotations

from cyclopts import App, Group


def _version() -> str:
    from brickyard import _core

    return f"brickyard {_core.version()}"


app = App(
    name="brickyard",
    help="Measures storage under a known workload and records every request.",
    version=_version,
    version_flags=["--version"],
    default_parameter=None,
    suppress_keyboard_interrupt=False,
)

MEASURE, LOOK, PLAN, HOST = (
    Group(name, sort_key=number)
    for number, name in enumerate(("Measure", "Read what was measured", "Plan", "This host"), 1)
)

for _verb, _place, _help, _group in (
    (
        "characterize",
        "measuring.characterize:characterize",
        "Measure request sizes, sequential and random, reads and writes.",
        MEASURE,
    ),
    (
        "run",
        "measuring.run:run",
        "Run one workload on its targets: a profile, or fio's options such as --rw randread.",
        MEASURE,
    ),
    (
        "replay",
        "databases.replay:replay",
        "Replay web logs against a database: each request becomes the call that its page makes.",
        MEASURE,
    ),
    (
        "crosscheck",
        "measuring.crosscheck:crosscheck",
        "The same workload with Brickyard's engine and with fio, and the difference.",
        MEASURE,
    ),
    ("trace", "watching.trace:app", "Traces of requests: import, show, compare, make profiles of them.", MEASURE),
    (
        "import",
        "measuring.importing:import_",
        "Import workloads of other tools as profiles, and their results as runs.",
        MEASURE,
    ),
    ("study", "measuring.study:study_app", "Factors × levels × repetitions, and the tables made from them.", MEASURE),
    (
        "load-curve",
        "measuring.load_curve:load_curve",
        "Response time at each offered rate, and the knee of the curve.",
        MEASURE,
    ),
    (
        "interference",
        "measuring.interference:interference",
        "How many reads remain beside writes within a latency limit.",
        MEASURE,
    ),
    (
        "pts",
        "measuring.pts:pts",
        "SNIA's tests of solid state storage (PTS-C and PTS-E), with the standard's tables.",
        MEASURE,
    ),
    ("burn-in", "measuring.burn_in:burn_in", "Random I/O, checked when it is read, on many devices at once.", MEASURE),
    (
        "terraserver",
        "databases.terraserver:app",
        "The TerraServer database: load it, generate its traffic, run a demonstration.",
        MEASURE,
    ),
    (
        "durable",
        "durability.durable:durable",
        "One verdict on the write path: what a durable write costs, and whether it is durable.",
        MEASURE,
    ),
    ("honesty", "durability.honesty:app", "Flushes and durable writes, compared with what the medium can do.", MEASURE),
    (
        "recorder",
        "durability.recorder:recorder",
        "Record, on another host, what `honesty write` reports as durable.",
        MEASURE,
    ),
    ("lab", "durability.lab:app", "Emulated disks under real software, and what a power cut leaves on them.", MEASURE),
    ("watch", "watching.watch:watch", "Which requests block devices get, and why requests were slow.", LOOK),
    ("runs", "results.runs:runs", "List the runs in the store.", LOOK),
    ("show", "results.show:show", "Everything about a run: figures, errors, circumstances, warnings.", LOOK),
    (
        "compare",
        "results.compare:compare",
        "The difference between two runs, studies or labels, or to a baseline; a gate for CI.",
        LOOK,
    ),
    ("baseline", "results.baseline:app", "Runs that later runs are compared with.", LOOK),
    ("history", "results.history:history", "A target's figures over time, and where they changed.", LOOK),
    ("report", "results.report:report", "An HTML report with pictures, of runs or a study.", LOOK),
    ("export", "results.export:export", "Runs as CSV, Parquet, JSON, HdrHistogram log, Prometheus text.", LOOK),
    ("store", "results.store:store", "Check the store of runs; recover what a damaged store still holds.", LOOK),
    (
        "census",
        "host.census:run",
        "Which of many hosts and volumes are slow, and what the slow ones have in common.",
        MEASURE,
    ),
    (
        "fleet",
        "host.fleet:app",
        "Many hosts: start Ray on them, show their state, collect or remove the records that they kept.",
        HOST,
    ),
    ("web", "host.web:web", "Runs, results, modelled targets and arrays in a browser.", HOST),
    ("array", "host.array:app", "Arrays: states, members, rebuilds; create, fail, replace, scrub.", HOST),
    ("profiles", "planning.profiles:app", "List the workloads that ship with Brickyard.", PLAN),
    ("rulers", "planning.rulers:app", "List the requirements (SLOs) that a run can be compared with.", PLAN),
    ("bricks", "planning.bricks:app", "List the modelled targets.", PLAN),
    ("completion", "host.completion:completion", "Print a completion script for your shell.", HOST),
    ("doctor", "host.doctor:doctor", "What this host can and cannot measure, and why.", HOST),
):
    app.command(f"brickyard.cli.{_place}", name=_verb, help=_help, group=_group)

advise_app = App(name="advise", help="Which storage to buy, and what load it sustains.", group=PLAN)
advise_app.command(
    "brickyard.cli.planning.advise:buy", name="buy", help="The cheapest or fastest array that meets the requirements."
)
advise_app.command(
    "brickyard.cli.planning.predict:predict", name="predict", help="What load a target sustains within a limit."
)
advise_app.command(
    "brickyard.cli.planning.fit:fit_brick", name="fit", help="A model of a measured target, and how well it predicts."
)
advise_app.command(
    "brickyard.cli.planning.advise_charts:charts", name="charts", help="The rules of thumb of the studies, computed."
)
advise_app.command(
    "brickyard.cli.planning.advise:parts", name="parts", help="List drives and controllers with their prices."
)
app.command(advise_app)
