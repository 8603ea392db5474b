"""Duty: `brickyard census`. Refusal: who is slow is decided by `analysis.studies.census` alone."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from brickyard import profiles
from brickyard.analysis.studies.census_answer import PEERS, census_answer, censused
from brickyard.cli.parts import options
from brickyard.cli.parts.on_hosts import HOSTS
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.tables import print_answer, print_table
from brickyard.cli.parts.target import aim_at
from brickyard.errors import BAD_INPUT, DONE, FAILED, BadInputError
from brickyard.report.study_tables import census_tables
from brickyard.schema.plan import Plan
from brickyard.store import Store, StudyAbout, check_place, command_on
from brickyard.study.running.check import check_run
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Runner, RunResult, RunSpec


def run(
    *targets: str,
    hosts: Annotated[
        str | None,
        Parameter(name="--hosts", group=HOSTS, help="Hosts of the fleet, such as a,b,c, or all (docs/fleet.md)."),
    ] = None,
    profile: Annotated[str, Parameter(help="The workload for every unit; the profile census only reads.")] = "census",
    overrides: options.Overrides = (),
    peers: Annotated[str, Parameter(help="What units must have in common to be compared, such as model.")] = PEERS,
    one_at_a_time: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Never measure two hosts at the same time; for volumes that share an array.",
        ),
    ] = False,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Exit with 1 if a unit is slow, has errors or was not measured, or if no unit was judged.",
        ),
    ] = False,
    placing: options.Placing = options.AS_IT_IS,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Find slow hosts and volumes: run the same short workload on every volume, and compare each volume with its peers.

    Parameters
    ----------
    targets
        Volumes. With --hosts: paths that every host has, or HOST:PATH for the volume of one host. Without --hosts:
        volumes of this host, which are measured one after another. Modelled bricks (sim:NAME) may be named too.
    """
    if not targets:
        raise BadInputError("name the volumes, such as /dev/sdb, or with --hosts a:/dev/sdb")
    if len(set(targets)) < len(targets):
        raise BadInputError("a volume is named twice")
    if placing.scratch is not None or placing.keep:
        raise BadInputError("--scratch and --keep: a census measures the volumes that are named")
    text = profiles.read(profile)
    plan = profiles.changed(text, overrides)
    check_place(store)
    with Store(store) as kept:
        if hosts is None:
            study, outcomes, runs = _here(kept, text.name, plan, targets, placing, peers)
            refused: dict[str, str] = {}
        else:
            study, outcomes, runs, refused = _on_hosts(
                kept, text.name, plan, targets, hosts, placing, one_at_a_time, peers
            )
        records = [kept.record(run) for run in runs]
        result = censused(kept.studies(study)[0], records)
    found, missing = result.census, result.missing
    said = census_answer(result, records)
    if json:
        emit({**said.document(), "study": study, "runs": runs, "missing": missing, **found.document()})
    else:
        console = stdout()
        print_answer(console, said)
        for made in census_tables(found, records):
            print_table(console, made)
            console.print()
        print_line(
            console, f"All runs: {command_on(kept.place, f'export s{study} --format parquet -o census.parquet')}"
        )
    if refused and all(outcome == "done" for outcome in outcomes):
        return FAILED
    if any(outcome != "done" for outcome in outcomes):
        return next(EXIT_CODES.get(outcome, BAD_INPUT) for outcome in outcomes if outcome != "done")
    return FAILED if check and (found.slow or found.errors or missing or found.too_few) else DONE


def _on_hosts(
    store: Store,
    name: str,
    plan: Plan,
    targets: tuple[str, ...],
    hosts: str,
    placing: options.Placing,
    one_at_a_time: bool,
    peers: str,
) -> tuple[int, list[str], list[int], dict[str, str]]:
    from brickyard.fleet import cluster
    from brickyard.fleet.drive import Fleets, each_volume, rounds
    from brickyard.fleet.head import FleetWishes

    words = [*(["--size", placing.size] if placing.size else [])]
    words += ["--i-know-this-destroys-data"] if placing.i_know_this_destroys_data else []
    ray = cluster.enter(cluster.load())
    up, down = cluster.up_and_down(ray) if hosts == "all" else (cluster.chosen(ray, hosts), [])
    if not up:
        raise BadInputError(f"--hosts all: {', '.join(down)} is down; see `brickyard fleet status`")
    every = rounds([*up, *down], targets, one_at_a_time=one_at_a_time)
    refused = {f"{host}:{target}": f"{host} is down" for some in every for host, target in some if host in down}
    units = [f"{host}:{target}" for some in every for host, target in some]
    about = StudyAbout(census=name, units=units, peers=peers)
    together = [here for some in every if (here := [unit for unit in some if unit[0] not in down])]
    with Interrupt() as interrupt, Terminal() as terminal:
        on = Fleets(store, terminal, interrupt, ray, FleetWishes(words=tuple(words)), placing.overwrite)
        notes = [f"{host}: is down; its volumes are not measured" for host in down]
        for note in notes:
            terminal.note(note)
        study, results, unmeasured = each_volume(on, name, plan, about, together, notes)
    outcomes, runs = [result.outcome for result in results], [result.run for result in results]
    return study, outcomes, runs, refused | unmeasured


def _here(
    store: Store, name: str, plan: Plan, targets: tuple[str, ...], placing: options.Placing, peers: str
) -> tuple[int, list[str], list[int]]:
    """One volume after another."""
    results: list[RunResult] = []
    units: list[str] = []
    for target in targets:  # all are checked before the first is measured
        with aim_at((target,), placing) as aimed:
            check_run(plan, aimed.targets, aimed.options)
            units += aimed.targets
    about = StudyAbout(census=name, units=units, peers=peers)
    study = store.add_study(f"census of {len(targets)}", msgspec.to_builtins(about))
    with Interrupt() as interrupt, Terminal() as terminal:
        terminal.expect(len(targets))
        runner = Runner(store, terminal, interrupt)
        for target in targets:
            with aim_at((target,), placing) as aimed:
                spec = RunSpec(name, plan, aimed.targets, aimed.options, condition=aimed.condition)
                results.append(runner.run(spec, lambda: study))
            if results[-1].outcome == "interrupted":
                break
    worst = next((result.outcome for result in results if result.outcome != "done"), "done")
    store.end_study(study, worst, [])
    return study, [result.outcome for result in results], [result.run for result in results]
