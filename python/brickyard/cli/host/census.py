"""Duty: `brickyard census`. Refusal: who is slow is decided by `analysis.studies.census` alone."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from brickyard import profiles
from brickyard.analysis.studies.census import FEWEST_PEERS, Census, census, units_of
from brickyard.cli.parts import options
from brickyard.cli.parts.on_hosts import HOSTS
from brickyard.cli.parts.output import EXIT_CODES, emit, print_line, stdout, table
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.target import aim_at
from brickyard.errors import BAD_INPUT, DONE, FAILED, BadInputError
from brickyard.schema.plan import Plan
from brickyard.store import Json, Store, check_place, command_on
from brickyard.study.running.check import check_run
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.runner import Runner, RunResult, RunSpec
from brickyard.units import format_ns, three_digits

SHOWN = 20


def run(
    *targets: str,
    hosts: Annotated[
        str | None,
        Parameter(name="--hosts", group=HOSTS, help="Hosts of the fleet, such as a,b,c, or all (docs/fleet.md)."),
    ] = None,
    profile: Annotated[str, Parameter(help="The workload for every unit; the profile census only reads.")] = "census",
    overrides: options.Overrides = (),
    peers: Annotated[str, Parameter(help="What units must have in common to be compared, such as model.")] = "model",
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
            study, outcomes, runs = _here(kept, text.name, plan, targets, placing)
            refused: dict[str, str] = {}
        else:
            study, outcomes, runs, refused = _on_hosts(kept, text.name, plan, targets, hosts, placing, one_at_a_time)
        records = [kept.record(run) for run in runs]
    measured = [record for record in records if record.info.is_valid]
    found = census([unit for record in measured for unit in units_of(record)], peers)
    missing = [target for record in records if record.info.outcome != "done" for target in record.info.targets]
    missing += refused
    if json:
        emit({"study": study, "runs": runs, "missing": missing, **found.document()})
    else:
        export = command_on(kept.place, f"export s{study} --format parquet -o census.parquet")
        _print(stdout(), found, missing, export)
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
    together = [here for some in every if (here := [unit for unit in some if unit[0] not in down])]
    with Interrupt() as interrupt, Terminal() as terminal:
        on = Fleets(store, terminal, interrupt, ray, FleetWishes(words=tuple(words)), placing.overwrite)
        notes = [f"{host}: is down; its volumes are not measured" for host in down]
        for note in notes:
            terminal.note(note)
        study, results, unmeasured = each_volume(on, name, plan, together, notes)
    outcomes, runs = [result.outcome for result in results], [result.run for result in results]
    return study, outcomes, runs, refused | unmeasured


def _here(
    store: Store, name: str, plan: Plan, targets: tuple[str, ...], placing: options.Placing
) -> tuple[int, list[str], list[int]]:
    """One volume after another."""
    results: list[RunResult] = []
    units: Json = {"census": name, "units": list(targets)}
    for target in targets:  # all are checked before the first is measured
        with aim_at((target,), placing) as aimed:
            check_run(plan, aimed.targets, aimed.options)
    study = store.add_study(f"census of {len(targets)}", units)
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


def _print(console: Console, found: Census, missing: list[str], export: str) -> None:
    for line in words(found, missing):
        print_line(console, line, "bold")
    console.print()
    if found.findings:
        rows = [
            [item.unit, item.figure, f"{three_digits(item.factor)} ×", three_digits(item.score)]
            for item in found.findings[:SHOWN]
        ]
        columns = [("unit", "left"), ("figure", "left"), ("slower than its peers", "right"), ("score", "right")]
        console.print(table("Slow units, the slowest first", columns, rows))
        console.print()
    rows = [
        [
            item.name,
            str(item.count),
            *(_value(value, item.unit) for value in (item.low, item.median, item.high)),
            f"{item.mad_share:.1%}",
        ]
        for item in found.spreads
    ]
    names = ("units", "least", "median", "most", "spread (MAD)")
    console.print(table("All units", [("figure", "left"), *((name, "right") for name in names)], rows))
    print_line(console, f"All runs: {export}")


def _value(value: float, unit: str) -> str:
    return format_ns(value) if unit == "ns" else three_digits(value)


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def words(found: Census, missing: list[str]) -> list[str]:
    """The answer."""
    said = [f"Not measured: {', '.join(missing)}."] if missing else []
    if found.errors:
        counts = [f"{unit} ({errors:,})" for unit, errors in found.errors.items()]
        said.append(f"Requests failed on {_some(counts)}. Units with errors are not compared with other units.")
    if found.not_judged:
        kinds = [f"{kind or 'of no known kind'} ({count})" for kind, count in found.not_judged.items()]
        said.append(f"Not judged, since at least {FEWEST_PEERS} units of a kind are needed: {_some(kinds)}.")
    slow = found.slow
    if found.too_few:
        return [*said, "No unit was judged."]
    if not slow:
        said.append(f"None of {found.judged} units is slower than chance explains for identical units.")
    else:
        said.append(f"{len(slow)} of {found.judged} units are slow: {_some(slow)}.")
    for common in found.common:
        said.append(
            f"In common: {common.trait} {common.value}: {common.slow_with} of the {common.slow} slow units have it, "
            f"and {common.others_with} of the {common.others} others."
        )
    if slow and not found.common:
        said.append("No recorded trait distinguishes the slow units from the others.")
    return said
