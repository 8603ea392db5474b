"""Duty: `brickyard run`. Refusal: what a profile may say is known to the core alone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from brickyard import _core, api, bricks, profiles
from brickyard.cli.parts import again as traces
from brickyard.cli.parts import conditioning, options
from brickyard.cli.parts import judging as judges
from brickyard.cli.parts.ad_hoc import NO_WORDS, AdHoc, fio_word, made_profile, targets_of
from brickyard.cli.parts.habits import profile_remedy
from brickyard.cli.parts.on_hosts import HERE, Hosts, HostsLoad, run_on_hosts
from brickyard.cli.parts.output import emit, print_line, stderr, stdout
from brickyard.cli.parts.progress import Terminal
from brickyard.cli.parts.target import aim_at, aim_directories, split_overrides
from brickyard.cli.parts.told import tell
from brickyard.errors import BadInputError, Edit, Remedy, one_line
from brickyard.schema import RunOptions, plan_document, plan_text, read_plan, target_count
from brickyard.schema.plan import Plan
from brickyard.store import Store, check_place
from brickyard.study.running.aim import Aim, aim_modelled, check_unnamed, missing_targets, parse_size
from brickyard.study.running.by_fio import refuse_by_fio
from brickyard.study.running.check import check_run
from brickyard.study.running.fit import check_room, has_programs, has_server, own_size, server_changes, sized
from brickyard.study.running.forecast import Forecast, forecast, forecast_lines
from brickyard.study.running.interrupt import Interrupt
from brickyard.study.running.sizes import area_of, to_fill
from brickyard.units import named_words

if TYPE_CHECKING:
    from brickyard.traces import Replay

LONG_WRITE_S = 60  # from here on it is said beforehand how much will be written


def run(
    profile: str | None = None,
    /,
    *targets: str,
    words: AdHoc = NO_WORDS,
    again: traces.Again = traces.NOT_AGAIN,
    overrides: options.Overrides = (),
    condition: options.Condition = None,
    manage: options.Manage = False,
    rebuild_rate: options.RebuildRate = None,
    neighbour: options.Neighbour = None,
    array: options.ArrayAddress = None,
    repeat: Annotated[int, Parameter(help="Number of runs.")] = 1,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Validate and show the plan; touch nothing.")
    ] = False,
    stop_on_error: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="End the run at the first failed request instead of counting it."
        ),
    ] = False,
    max_errors: Annotated[
        str | None,
        Parameter(
            help="Share of a stream's requests that may fail, such as 1%; above it the exit code is 1. Without this "
            "option, a run fails if nothing succeeded in more than 90 % of a stream's time."
        ),
    ] = None,
    each: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Run every stream of the profile on each of the targets, all at once."
        ),
    ] = False,
    engine: Annotated[
        Literal["auto", "io_uring", "psync", "fio"] | None,
        Parameter(help="Program that sends the requests; fio uses an installed fio, as a cross-check."),
    ] = None,
    on: Hosts = HERE,
    placing: options.Placing = options.AS_IT_IS,
    ruler: judges.Rulers = (),
    check: judges.Check = False,
    price: judges.Usd = None,
    capacity: judges.Capacity = None,
    ports: judges.Ports = None,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Run one profile on its targets.

    Parameters
    ----------
    profile
        The name of a profile that ships with Brickyard, the path of a TOML file, or the path of a trace (.byt), whose
        requests are replayed. Leave it out if you give the workload with fio's options, such as --rw randread --bs 4k
        --iodepth 32.
    targets
        Files, block devices, or modelled bricks such as sim:terraserver-2003 (`brickyard bricks` lists them). Programs
        over files (postmark, bonnie, mdtest) need directories, and make their own directory in each. pgbench needs a
        directory, in which it makes a server, or the DSN of a running server. sqliosim and jetstress need a file,
        device, model or directory, or two of them for database and log. Without a target, a scratch file or directory
        is made, and removed at the end.
    """
    _check_values(repeat, placing.size)
    if profile == "pgbench" and not words.is_asked:
        from brickyard.cli.measuring.pgbench import refuse_options, run_pgbench

        on.refuse("pgbench")
        refuse_options(condition=condition, engine=engine, each=each, stop_on_error=stop_on_error, size=placing.size)
        judge = _judge(ruler, check, price, capacity, ports, max_errors)
        return run_pgbench(targets, tuple(overrides), repeat, judge, store, dry_run=dry_run, as_json=json)
    replay = _trace(profile, words, again)
    text, targets, shown = (_replayed(replay), targets, []) if replay is not None else _load(profile, targets, words)
    judge = _judge(ruler, check, price, capacity, ports, max_errors)
    changes = _changes(overrides, engine, stop_on_error=stop_on_error, each=each)
    if on.is_asked:
        _refuse_beside_hosts(engine, again, condition=condition, manage=manage, each=each)
        _show(shown)
        return run_on_hosts(
            HostsLoad(text.name, profiles.changed(text, changes), targets, replay),
            on,
            placing,
            judge,
            repeat,
            store,
            dry_run=dry_run,
            as_json=json,
        )
    modelled = any(bricks.is_modelled(target) for target in targets)
    wish = conditioning.wish(targets, condition, manage, rebuild_rate, neighbour, array, modelled=modelled)
    if engine == "fio" and wish.is_asked:
        raise BadInputError("--engine fio: conditions work only with Brickyard's own engine; leave --engine out")
    changes, brick_changes = split_overrides(targets, changes)
    plan = spread(profiles.changed(text, changes), targets)
    if condition is not None:
        conditioning.refuse_idle_switch(targets, conditioning.modelled_words((condition,)), brick_changes)
        brick_changes.append(bricks.condition_override(condition))
    plan = _for_server(text, plan, targets, changes, modelled=modelled)
    targets, placing = _in_directory(plan, targets, placing)
    if has_programs(plan):
        _refuse_carriers(text.name, engine, modelled=modelled)
        traces.refuse_taking(again, text.name, "a program works on files, not on a device")
        plan = profiles.changed(text, changes, sized(plan, placing.size))
        aiming = aim_directories(target_count(plan), targets, placing, makes=not dry_run)
        asked = None if dry_run else (repeat, judge, wish, store)
        if dry_run:
            wish.check()
            check_place(store)
        return _run_programs(text.name, plan, aiming, asked, as_json=json)
    placing = _with_size(placing, plan, targets, modelled=modelled)
    if engine == "fio":
        traces.refuse_taking(again, text.name, "fio sends the requests")
        _check_fio(plan, modelled=modelled)
    if dry_run:
        check_place(store)
        wish.check()
        aimed = _aim_models(targets, brick_changes, rebuild_rate, placing.size) if modelled else None
        return _dry_run(text, plan, targets, placing, aimed, shown, by_fio=engine == "fio", as_json=json)
    if modelled:
        aimed = _aim_models(targets, brick_changes, rebuild_rate, placing.size)
        with Store(store) as kept, traces.taking(aimed, again, replay) as (aim, taken):
            return _measure(
                kept, text.name, plan, aim, repeat, judge, shown=shown, replay=replay, taken=taken, as_json=json
            )
    _refuse_count(text.name, plan, targets)
    with (
        Store(store) as kept,
        aim_at(targets, placing) as aimed,
    ):
        _announce(stderr(), plan, aimed)
        by = "fio" if engine == "fio" else "brickyard"
        with traces.taking(aimed, again, replay) as (aim, taken):
            return _measure(
                kept,
                text.name,
                plan,
                aim,
                repeat,
                judge,
                by,
                wish,
                shown=shown,
                replay=replay,
                taken=taken,
                as_json=json,
            )


def _with_size(placing: options.Placing, plan: Plan, targets: tuple[str, ...], *, modelled: bool) -> options.Placing:
    """Files that are made are as large as the load wants."""
    if placing.size is None and not modelled and not any(os.path.lexists(path) for path in targets):
        return replace(placing, size=own_size(plan))
    return placing


def _changes(overrides: Sequence[str], engine: str | None, *, stop_on_error: bool, each: bool) -> list[str]:
    """What options say as changes of the profile."""
    changes = [*overrides, "stop_on_error=true"] if stop_on_error else list(overrides)
    changes += [f"engine={engine}"] if engine not in (None, "fio") else []
    return changes + (["each=true"] if each else [])


def _refuse_beside_hosts(
    engine: str | None, again: traces.Again, *, condition: str | None, manage: bool, each: bool
) -> None:
    """What is held or counted on this host has no meaning on others."""
    if condition is not None or manage:
        raise BadInputError("--condition and --manage are for arrays of this host; with --hosts set it up there")
    if engine == "fio" or each:
        raise BadInputError("--hosts: cannot be combined with --engine fio or --each; leave one of them out")
    traces.refuse_taking(again, "--hosts", "requests stay on the hosts that issue them")


def _check_times(times: int) -> None:
    if times < 1:
        raise BadInputError(f"--repeat {times}: at least 1")


def _judge(
    ruler: judges.Rulers,
    check: judges.Check,
    price: judges.Usd,
    capacity: judges.Capacity,
    ports: judges.Ports,
    max_errors: str | None,
) -> judges.Judging:
    judge = judges.judging(ruler, check, price, capacity, ports)
    most_errors = None if max_errors is None else judges.most_errors(max_errors)
    return replace(judge, most_errors=most_errors, judges_errors=True)


def _check_values(repeat: int, size: str | None) -> None:
    _check_times(repeat)
    _check_size(size)


def _check_size(size: str | None) -> None:
    """fio's size may be a share of its file."""
    share = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", size or "")
    if share is None:
        return
    region = f"region=0..{share[1]}%"
    raise BadInputError(
        f"--size {size}: is the size of a file that is made, in bytes",
        Remedy(f"for a part of the target, write --set {region}", Edit(("--size", size or ""), ("--set", region))),
    )


def _load(
    profile: str | None, targets: tuple[str, ...], words: AdHoc
) -> tuple[profiles.ProfileText, tuple[str, ...], list[str]]:
    """The profile, the targets, and what is shown before the run; in fio's words the first name is a target, and the
    profile is shown."""
    if not words.is_asked:
        if profile is None:
            raise BadInputError("name a profile (`brickyard profiles` lists them), or a workload such as --rw randread")
        if refused := fio_word(profile):
            raise refused
        return profiles.read(profile), targets, []
    if profile is not None and _names_load(profile):
        raise _two_loads(profile, words)
    named = targets_of(words, (*([] if profile is None else [profile]), *targets))
    text, notes = made_profile(words)
    return text, named, [*(f"  {line}" for line in text.text.splitlines()), *(f"note: {note}" for note in notes)]


def _show(lines: Sequence[str]) -> None:
    """After its targets are checked, so that what is wrong with them is not behind these lines."""
    for line in lines:
        if line.startswith(" "):
            stderr().print(line, markup=False, soft_wrap=True)
        else:
            print_line(stderr(), line)


def _for_server(
    text: profiles.ProfileText, plan: Plan, targets: tuple[str, ...], changes: list[str], *, modelled: bool
) -> Plan:
    """The plan, where it is of a database server with what follows from its targets."""
    if not has_server(plan):
        return plan
    own = server_changes(plan, targets, modelled=modelled)
    return spread(profiles.changed(text, changes, own), targets)


def _in_directory(
    plan: Plan, targets: tuple[str, ...], placing: options.Placing
) -> tuple[tuple[str, ...], options.Placing]:
    """In a directory a server makes a file of its own, and takes it away."""
    named = len(targets) == 1 and os.path.isdir(targets[0]) and placing.scratch is None
    if named and has_server(plan):
        return (), replace(placing, scratch=Path(targets[0]))
    return targets, placing


def _trace(profile: str | None, words: AdHoc, again: traces.Again) -> Replay | None:
    """What issues a trace again, if the profile is one."""
    if profile is None or not traces.names_trace(profile) or words.is_asked:
        traces.refuse_without_trace(again)
        return None
    return traces.replay_of(profile, again)


def _replayed(replay: Replay) -> profiles.ProfileText:
    for note in replay.notes:
        print_line(stderr(), f"note: {note}")
    return profiles.ProfileText(replay.name, replay.text, replay.place)


def _names_load(word: str) -> bool:
    """A brick may have a file of the same ending."""
    is_file = word.endswith((".toml", traces.ENDING)) and not bricks.is_modelled(word)
    return is_file or word in profiles.names()


def _two_loads(profile: str, words: AdHoc) -> BadInputError:
    """A profile is named, and options of fio as well."""
    if words.rw is not None:
        return BadInputError(
            f"{profile} and --rw are two workloads, which cannot be given together; leave one of them out, or change"
            " the profile with --set KEY=VALUE"
        )
    option = words.given[0].replace("_", "-")
    remedy = profile_remedy(option, str(getattr(words, words.given[0])))
    return BadInputError(f"--{option} is for a workload given with fio's options (--rw)", remedy)


def _aim_models(targets: tuple[str, ...], changes: list[str], rebuild_rate: str | None, size: str | None) -> Aim:
    """Modelled bricks, with notes of what was asked for and has no effect on them."""
    aimed = aim_modelled(targets, changes, conditioning.parse_rate(rebuild_rate))
    notes = conditioning.without_effect(targets[0], size)
    if rebuild_rate is not None and conditioning.idle_rate(bricks.resolved_of(aimed.targets, aimed.options)):
        notes.append("--rebuild-rate has no effect: the brick does not rebuild, scrub or resync in this run")
    return replace(aimed, notes=(*aimed.notes, *notes))


def _check_fio(plan: Plan, *, modelled: bool) -> None:
    """What fio can't do or say is refused before anything is touched."""
    if modelled:
        raise BadInputError("--engine fio: fio cannot run on a modelled brick; name a file or a device")
    refuse_by_fio(plan)


def _refuse_carriers(name: str, engine: str | None, *, modelled: bool) -> None:
    if modelled or engine is not None:
        raise BadInputError(f"{name}: a program works on files; neither a model nor another engine can run it")


def _run_programs(
    name: str,
    plan: Plan,
    aiming: AbstractContextManager[Aim],
    asked: tuple[int, judges.Judging, conditioning.Wish, Path | None] | None,
    *,
    as_json: bool,
) -> int:
    """So many times, held against what, in which condition and store; or a dry run."""
    with aiming as aimed:
        check_room(plan, aimed.targets)
        if asked is None:
            check_run(plan, aimed.targets, aimed.options)
            return _dry_run_programs(name, plan, aimed, as_json=as_json)
        times, judge, wish, place = asked
        with Store(place) as kept:
            return _measure(kept, name, plan, aimed, times, judge, "brickyard", wish, as_json=as_json)


def _measure(
    store: Store,
    name: str,
    plan: Plan,
    aimed: Aim,
    times: int,
    judge: judges.Judging,
    by: str = "brickyard",
    wish: conditioning.Wish = conditioning.NONE,
    *,
    shown: Sequence[str] = (),
    replay: Replay | None = None,
    taken: str | None = None,
    as_json: bool,
) -> int:
    if shown:
        check_run(plan, aimed.targets, aimed.options, by_fio=by == "fio")
        _show(shown)
    with Interrupt() as interrupt, Terminal() as terminal:
        verdict = traces.TraceJudge(replay, taken)
        results = api.run_at(
            store,
            terminal,
            interrupt,
            api.Load(name, plan),
            replace(aimed, condition=wish.condition) if wish.is_asked else aimed,
            times,
            by,
            wish.holding(terminal.note, lambda: interrupt.requested),
            verdict.judge,
        )
    records = [store.record(result.run) for result in results]
    answer = traces.answer_of(records[-1], replay, taken, known=verdict.comparison) if replay is not None else None
    return tell(records, judge, repetitions=times, as_json=as_json, trace=answer)


def spread(plan: Plan, targets: Sequence[str]) -> Plan:
    """Every stream on each target, where the profile or the user asks for it."""
    if len(targets) < 2 or not plan.each:
        return plan
    try:
        return read_plan(_core.spread(plan_text(plan), list(targets)))
    except ValueError as error:
        raise BadInputError(one_line(error)) from error


def _announce(console: Console, plan: Plan, aimed: Aim) -> None:
    """Before a long run that writes, or fills what is there: how much, for how long, and what that is to the drive."""
    expected = _forecast(plan, aimed.targets, aimed.options.size_bytes, aimed.options.overwrite or [])
    is_long = expected.duration_s is None or expected.duration_s >= LONG_WRITE_S
    fills = bool(expected.fill_bytes) and any(map(os.path.exists, aimed.targets))
    if ((expected.writes or expected.trims) and is_long) or fills:
        for line in forecast_lines(expected, aimed.targets):
            print_line(console, line)


def _forecast(plan: Plan, targets: list[str], create_bytes: int | None, overwrite: Sequence[str]) -> Forecast:
    sizes = _sizes(targets, create_bytes)
    filled = [to_fill(path, size, overwrite) for path, size in zip(targets, sizes, strict=True)]
    return forecast(plan, sizes, filled)


def _sizes(targets: list[str], create_bytes: int | None) -> list[int | None]:
    """How much of each target is or will be for data."""
    return [create_bytes if (size := area_of(path)) is None else size for path in targets]


def _targets(count: int) -> str:
    return "1 target" if count == 1 else f"{count} targets"


def _refuse_count(name: str, plan: Plan, targets: tuple[str, ...]) -> None:
    wanted = target_count(plan)
    asked = next((word for word in targets if "<" in word or ">" in word), None)
    if asked is not None and not Path(asked).exists():
        said = f"{asked}: stands where a target is named; each requirement needs a --check (or --ruler) of its own"
        raise BadInputError(said, Remedy(f"write --check '{asked}'", Edit((asked,), ("--check", asked))))
    if targets and len(targets) != wanted:
        each = "; --each runs every stream on each of them" if wanted == 1 else ""
        raise BadInputError(f"{name}: uses {_targets(wanted)}, but {named_words(len(targets))}{each}")
    if not targets and wanted > 1:
        raise BadInputError(f"{name}: uses {_targets(wanted)}; name them")


def _check_targets(
    plan: Plan, targets: tuple[str, ...], placing: options.Placing, aimed: Aim | None, *, by_fio: bool
) -> None:
    """What the run would refuse of its targets; nothing is made or written."""
    if aimed is not None:
        check_run(plan, aimed.targets, aimed.options)
    elif targets:
        with aim_at(targets, placing) as named:
            check_run(plan, named.targets, named.options, by_fio=by_fio)
    else:
        path, size_bytes = check_unnamed(size=placing.size, scratch=placing.scratch, overwrite=placing.overwrite)
        wishes = RunOptions(
            create_bytes=size_bytes,
            overwrite=list(placing.overwrite),
            destroys_data=placing.i_know_this_destroys_data,
        )
        check_run(plan, [str(path)], wishes, by_fio=by_fio)


def _dry_run(
    text: profiles.ProfileText,
    plan: Plan,
    targets: tuple[str, ...],
    placing: options.Placing,
    aimed: Aim | None,
    shown: list[str],
    *,
    by_fio: bool,
    as_json: bool,
) -> int:
    size = placing.size
    if targets and aimed is None:
        missing_targets(targets, parse_size(size))
    _refuse_count(text.name, plan, targets)
    _check_targets(plan, targets, placing, aimed, by_fio=by_fio)
    _show(shown)
    expected = _forecast(plan, list(targets) or [""], parse_size(size), placing.overwrite)
    if as_json:
        emit(
            {
                "profile": text.name,
                "plan": plan_document(plan),
                "targets": list(targets),
                "forecast": expected.document(),
            }
        )
        return 0
    from brickyard.cli.parts.plan_text import plan_lines

    console = stdout()
    for line in [
        *plan_lines(plan),
        *forecast_lines(expected, list(targets), made=any(":" not in p and not os.path.exists(p) for p in targets)),
        "nothing was touched (--dry-run)",
    ]:
        print_line(console, line)
    return 0


def _dry_run_programs(name: str, plan: Plan, aimed: Aim, *, as_json: bool) -> int:
    if as_json:
        emit({"profile": name, "plan": plan_document(plan), "targets": aimed.targets, "forecast": None})
        return 0
    from brickyard.cli.parts.plan_text import plan_lines

    for line in [*plan_lines(plan), "nothing was touched (--dry-run)"]:
        print_line(stdout(), line)
    return 0
