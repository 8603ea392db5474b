"""Duty: the table of verbs. Refusal: what is slow to import is imported by the verb that needs it."""

from __future__ import annotations

from cyclopts import App

from brickyard.cli.bricks import list_bricks, show_brick
from brickyard.cli.profiles import list_profiles, show_profile
from brickyard.cli.rulers import list_rulers, show_ruler


def _version() -> str:
    from brickyard import _core

    return f"brickyard {_core.version()}"


app = App(
    name="brickyard",
    help="Puts a known load on a brick of storage and keeps what happened to every request.",
    version=_version,
    version_flags=["--version"],
    default_parameter=None,
)

MEASURE, LOOK, HOST = "Measure", "What was measured", "This host"

for _verb, _place, _help, _group in (
    ("characterize", "characterize:characterize", "Request sizes × {sequential, random} × {read, write}.", MEASURE),
    ("run", "run:run", "One profile on its targets.", MEASURE),
    ("replay", "replay:replay", "Web logs against a database, each request as the call that its page makes.", MEASURE),
    ("crosscheck", "crosscheck:crosscheck", "The same load by our engine and by fio, and the difference.", MEASURE),
    ("import", "import_:import_", "Loads of other tools as profiles; results of fio as runs.", MEASURE),
    ("study", "study:study_app", "Factors × levels × repetitions, and the tables that come out.", MEASURE),
    ("load-curve", "load_curve:load_curve", "Response time against offered rate, with the knee.", MEASURE),
    ("pts", "pts:pts", "SNIA's tests of solid state storage (PTS-C and PTS-E), with the standard's tables.", MEASURE),
    ("burn-in", "burn_in:burn_in", "Random I/O with every block checked, on many devices at once.", MEASURE),
    ("terraserver", "terraserver:app", "The TerraServer database: fill one, make its traffic.", MEASURE),
    ("honesty", "honesty:app", "Flushes and durable writes, held against what the medium can do.", MEASURE),
    ("recorder", "recorder:recorder", "The witness of `honesty write`, on another host.", MEASURE),
    ("lab", "lab:app", "Emulated disks under real software, and what a power cut leaves on them.", MEASURE),
    ("runs", "runs:runs", "List the runs in the store.", LOOK),
    ("show", "show:show", "Everything about a run: circumstances, warnings, figures, errors.", LOOK),
    ("compare", "compare:compare", "Two runs, studies or labels, or today against a baseline; a gate.", LOOK),
    ("baseline", "compare:baseline_app", "Runs that later ones are held against.", LOOK),
    ("history", "history:history", "A target's figures over time, and where they changed.", LOOK),
    ("report", "report:report", "An HTML report with pictures, of runs or a study.", LOOK),
    ("export", "export:export", "Runs as CSV, Parquet, JSON, HdrHistogram log, Prometheus text.", LOOK),
    ("store", "store:store", "Check the store of runs, and save what a damaged one still holds.", LOOK),
    ("array", "array:app", "Arrays: states, members, rebuilds, and what is done to them.", HOST),
    ("doctor", "doctor:doctor", "What this host can and cannot measure, and why.", HOST),
):
    app.command(f"brickyard.cli.{_place}", name=_verb, help=_help, group=_group)

profiles_app = App(name="profiles", help="The loads there are.", group=MEASURE)
profiles_app.default(list_profiles)
profiles_app.command(show_profile, name="show", help="The text of one profile.")
app.command(profiles_app)

rulers_app = App(name="rulers", help="The requirements that a run can be held against.", group=LOOK)
rulers_app.default(list_rulers)
rulers_app.command(show_ruler, name="show", help="What one ruler requires.")
app.command(rulers_app)

bricks_app = App(name="bricks", help="The modelled bricks there are.", group=MEASURE)
bricks_app.default(list_bricks)
bricks_app.command(show_brick, name="show", help="What one modelled brick is made of.")
app.command(bricks_app)

advise_app = App(name="advise", help="Which brick to buy, and what load it carries.", group=MEASURE)
advise_app.command("brickyard.cli.advise:buy", name="buy", help="The cheapest or fastest brick that meets the rulers.")
advise_app.command("brickyard.cli.predict:predict", name="predict", help="What load a brick carries within a limit.")
advise_app.command(
    "brickyard.cli.fit:fit_brick", name="fit", help="A model of a measured brick, and how well it predicts."
)
advise_app.command(
    "brickyard.cli.advise_charts:charts", name="charts", help="The rules of thumb of the studies, computed."
)
advise_app.command("brickyard.cli.advise:parts", name="parts", help="The drives and controllers there are; prices.")
app.command(advise_app)
