"""Duty: `brickyard baseline`: runs that later ones are compared with, by name. Refusal: nothing is compared here."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from brickyard.analysis.judging.failing import damaged_words
from brickyard.analysis.judging.gate import not_storage_words
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_text, stdout, table
from brickyard.cli.parts.selection import kept_baseline, open_store, select
from brickyard.cli.results.runs import documents, print_runs
from brickyard.errors import BadInputError, Edit, Remedy
from brickyard.report.comparison_words import sitting_words
from brickyard.schema import Document
from brickyard.store import Baseline, Store, command_on
from brickyard.units import format_runs

NAME = re.compile(r"[A-Za-z][\w.-]*")

app = App(name="baseline", help="Runs that later runs are compared with.")


@app.default
@app.command(name="list")
def list_baselines(*, store: options.StorePlace = None, json: options.Json = False) -> int:
    """List the baselines in the store."""
    with open_store(store) as kept:
        found = kept.baselines()
    if json:
        emit({"baselines": [_document(name, baseline) for name, baseline in found.items()]})
        return 0
    rows = [[name, _saved(baseline), format_runs(baseline.runs)] for name, baseline in found.items()]
    stdout().print(table("", [(name, "left") for name in ("baseline", "saved", "runs")], rows))
    return 0


@app.command(name="show")
def show_baseline(name: str, /, *, store: options.StorePlace = None, json: options.Json = False) -> int:
    """List the runs of a baseline, each with the figures that were kept at its end.

    Parameters
    ----------
    name
        The baseline's name.
    """
    with open_store(store) as kept:
        baseline = kept_baseline(kept, name)
        if json:
            emit({**_document(name, baseline), "runs": documents(kept, baseline.runs)})
            return 0
        print_text(f"baseline {name}: {format_runs(baseline.runs)}, saved {_saved(baseline)}\n")
        wanted = set(baseline.runs)
        print_runs(kept, [[run] for run in kept.heads() if run.id in wanted], {})
    return 0


@app.command(name="save")
def save_baseline(
    name: str,
    /,
    *runs: str,
    replace: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Save these runs instead of those that the name has."),
    ] = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Save runs under a name for `compare --baseline NAME`.

    Parameters
    ----------
    name
        The baseline's name.
    runs
        Runs (12 or 3-7,9), a study (s2, NAME or NAME@LABEL) or latest; without any, the newest study or run.
    """
    if not NAME.fullmatch(name):
        raise BadInputError(f"{name}: a name is a letter and then letters, digits, - . or _")
    with Store(store, must_exist=True) as kept:
        records = select(kept, runs).records
        good = [record.info.id for record in records if record.info.is_valid]
        if not good:
            raise BadInputError("none of these runs is finished and valid; name others for the baseline")
        replaced = kept.baselines().get(name)
        if replaced and replaced.runs != good and not replace:
            said = f"{name}: is a baseline already, of {format_runs(replaced.runs)}, saved {_saved(replaced)}"
            remedy = "--replace saves these runs instead; or choose another name"
            raise BadInputError(said, Remedy(remedy, Edit((), ("--replace",))))
        kept.add_baseline(name, good)
        study = next((head.study for head in kept.heads(good[0], good[0])), None) if len(records) == 1 else None
        all_of_it = command_on(kept.place, f"baseline save {name} s{study} --replace")
    saved = [record for record in records if record.info.id in good]
    notes = sitting_words(saved)
    if empty := not_storage_words(saved):
        notes.append(f"{empty}; `compare --check` judges nothing by them")
    if damaged := damaged_words(saved):
        notes.append(damaged)
    if study is not None:
        notes.append(f"run {good[0]} alone; {all_of_it} saves all runs of its study")
    if json:
        emit({"baseline": name, "runs": good, "replaced": replaced.runs if replaced else None, "notes": notes})
    else:
        instead = f", instead of {format_runs(replaced.runs)}" if replaced else ""
        print_text(f"baseline {name}: {format_runs(good)}{instead}\n")
        for words in notes:
            print_text(f"note: {words}\n")
    return 0


@app.command(name="remove")
def remove_baseline(name: str, /, *, store: options.StorePlace = None, json: options.Json = False) -> int:
    """Remove a baseline; its runs stay in the store.

    Parameters
    ----------
    name
        The baseline's name.
    """
    with Store(store, must_exist=True) as kept:
        removed = kept_baseline(kept, name)
        kept.remove_baseline(name)
    if json:
        emit({"baseline": None, "removed": name, "runs": removed.runs})
    else:
        print_text(f"baseline {name} is removed; {format_runs(removed.runs)} {_stay(removed.runs)} in the store\n")
    return 0


def _stay(runs: list[int]) -> str:
    return "stays" if len(runs) == 1 else "stay"


def _saved(baseline: Baseline) -> str:
    return datetime.fromtimestamp(baseline.created_unix_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _document(name: str, baseline: Baseline) -> Document:
    return {"name": name, "created_unix_ns": baseline.created_unix_ns, "runs": baseline.runs}
