"""Duty: a study as its TOML file says it: factors with levels, repetitions, order, stop rules, tables.

Every mistake is told with the key at which it stands, and an unknown key with the known one that is nearest.

Refusal: nothing is expanded or run here, and what a profile or a brick may say is known to the core alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from brickyard.analysis.figures.named import FIGURES, OF_ONE_PROGRAM, PARTS
from brickyard.analysis.figures.pivot import Axis, TableSpec, Where
from brickyard.analysis.studies.published import Conclusion, Published
from brickyard.conditions.verdict import STATE_OF
from brickyard.errors import BadInputError, Remedy, nearest
from brickyard.study.designs.keys import Keys
from brickyard.study.designs.texts import StudyText

CONDITIONS = tuple(STATE_OF)
SHOWN = ("value", "percent_of_best", "difference", "penalty", "rank")
RESERVED = (*PARTS, "value", "repetition")
NAME = re.compile(r"[A-Za-z][\w-]*")
PLACE = re.compile(r"\{([\w-]+)\}")
"""A place in a text where a level's value is put; TOML's inline tables have blanks within their braces."""


@dataclass(frozen=True)
class Recipe:
    """What a level, a factor or the whole study says about a run. Later ones win; changes add up."""

    profile: str | None = None
    targets: tuple[str, ...] | None = None
    condition: str | None = None
    neighbour: str | None = None
    array: str | None = None
    rebuild_rate: str | None = None
    hosts: str | None = None
    """Names with commas between them, or `all`; None where this host alone carries the load."""
    share: str | None = None
    changes: tuple[str, ...] = ()
    modelled_changes: tuple[str, ...] = ()

    def under(self, other: Recipe) -> Recipe:
        """This one with another on top of it."""
        return Recipe(
            profile=other.profile or self.profile,
            targets=other.targets or self.targets,
            condition=other.condition or self.condition,
            neighbour=other.neighbour or self.neighbour,
            array=other.array or self.array,
            rebuild_rate=other.rebuild_rate or self.rebuild_rate,
            hosts=other.hosts or self.hosts,
            share=other.share or self.share,
            changes=(*self.changes, *other.changes),
            modelled_changes=(*self.modelled_changes, *other.modelled_changes),
        )

    def places(self) -> set[str]:
        """The factors (or `value`) that its texts ask for."""
        texts = [self.profile, self.condition, self.neighbour, self.array, self.rebuild_rate, self.hosts, self.share]
        texts += self.targets or ()
        return {name for text in (*texts, *self.changes, *self.modelled_changes) for name in PLACE.findall(text or "")}


@dataclass(frozen=True)
class Level:
    """`value` is put into places such as {drive}; levels of one `group` compare with each other in "% of best".

    One that `needs_target` is left out unless --target names something for it: no model can stand for it.
    """

    name: str
    label: str
    value: str
    group: str
    recipe: Recipe
    usd: float | None = None
    needs_target: bool = False
    is_asked_for: bool = False
    """It is left out unless --only names it."""


@dataclass(frozen=True)
class Factor:
    name: str
    title: str
    levels: tuple[Level, ...]
    recipe: Recipe

    def level(self, name: str) -> Level:
        return next(level for level in self.levels if level.name == name)

    @property
    def changes_load(self) -> bool:
        """Whether levels are loads of their own, whose figures answer different questions, so that none is "best"."""
        return self.recipe.profile is not None or any(level.recipe.profile for level in self.levels)


@dataclass(frozen=True)
class Override:
    where: Where
    recipe: Recipe
    usd: float | None


@dataclass(frozen=True)
class Stop:
    """When no further run begins."""

    after: str | None = None
    failed_runs: int = 1
    errors: bool = False
    precision: float | None = None


@dataclass(frozen=True)
class Design:
    name: str
    text: str
    title: str
    source: str
    about: str
    question: str
    answer: tuple[str, ...]
    """The factors that the question is about."""
    answer_by: str
    """A factor, or a part of a run, whose levels are answered one by one; empty for none."""
    answer_levels: Where
    """Of a factor of the answer, the levels that the question is about; they are compared with the last of them."""
    repetitions: int
    order: str
    blocks: tuple[str, ...]
    seed: int
    settle: str
    retries: int
    base: Recipe
    factors: tuple[Factor, ...]
    exclude: tuple[Where, ...]
    overrides: tuple[Override, ...]
    stop: Stop
    tables: tuple[TableSpec, ...]
    trades: tuple[tuple[str, str, str], ...]
    published: tuple[Published, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()

    def factor(self, name: str) -> Factor:
        return next(factor for factor in self.factors if factor.name == name)

    @property
    def axes(self) -> list[Axis]:
        """The factors as tables need them."""
        return [
            Axis(
                factor.name,
                factor.title,
                {level.name: level.label for level in factor.levels},
                {level.name: level.group for level in factor.levels},
                factor.changes_load,
            )
            for factor in self.factors
        ]


def read_design(text: StudyText) -> Design:
    keys = Keys.parse(text.text, text.place)
    title = keys.text("title", text.name)
    source, about = keys.text("source", ""), keys.text("about", "")
    question, asked = keys.text("question", ""), tuple(keys.words("answer", ()))
    repetitions = keys.whole("repetitions", 1, at_least=1)
    order = keys.choice("order", ("random", "written"), "random")
    seed, settle = keys.whole("seed", 1, at_least=0), keys.duration("settle", "0s")
    retries = keys.whole("retries", 2, at_least=0)
    base = _recipe(keys.table("base"), closed=True)
    factors = tuple(_factor(name, table) for name, table in keys.tables("factor").items())
    if not factors:
        raise BadInputError(f"{text.place}: names no factor; write [factor.NAME] with levels")
    blocks = tuple(keys.words("blocks", ()))
    for name in blocks:
        _known_factor(name, factors, keys.place("blocks"))
    for name in asked:
        _known_factor(name, factors, keys.place("answer"))
    answer_by = keys.text("answer_by", "")
    if answer_by:
        _known_factor(answer_by, factors, keys.place("answer_by"), PARTS)
    answer_levels = _where(keys.table("answer_levels"), factors)
    exclude = tuple(_where(table, factors) for table in keys.list_of_tables("exclude"))
    overrides = tuple(_override(table, factors) for table in keys.list_of_tables("override"))
    stop = _stop(keys.table("stop"))
    tables = _tables(keys, factors)
    trades = tuple(_trade(table, tables) for table in keys.list_of_tables("trade"))
    published = tuple(_published(table, tables, factors) for table in keys.list_of_tables("published"))
    drawn = tuple(_conclusion(table, tables, factors) for table in keys.list_of_tables("conclusion"))
    keys.done()
    _check_places(text.place, base, factors, overrides)
    return Design(
        name=text.name,
        text=text.text,
        title=title,
        source=source,
        about=about,
        question=question,
        answer=asked,
        answer_by=answer_by,
        answer_levels=answer_levels,
        repetitions=repetitions,
        order=order,
        blocks=blocks,
        seed=seed,
        settle=settle,
        retries=retries,
        base=base,
        factors=factors,
        exclude=exclude,
        overrides=overrides,
        stop=stop,
        tables=tables or (_plain_table(factors),),
        trades=trades,
        published=published,
        conclusions=drawn,
    )


def _recipe(keys: Keys, *, closed: bool = False) -> Recipe:
    """Reads what is about a run and leaves the other keys; `closed` says that there may be none."""
    targets = keys.words("target", ())
    condition = keys.text("condition", "").replace("-", "_") or None
    if condition is not None and condition not in CONDITIONS and not PLACE.search(condition):
        raise keys.wrong("condition", f"{condition} is not a condition; there are {', '.join(CONDITIONS)}")
    recipe = Recipe(
        profile=keys.text("profile", "") or None,
        targets=tuple(targets) or None,
        condition=condition,
        neighbour=keys.text("neighbour", "") or None,
        array=keys.text("array", "") or None,
        rebuild_rate=keys.text("rebuild_rate", "") or None,
        hosts=keys.text("hosts", "") or None,
        share=keys.text("share", "") or None,
        changes=tuple(keys.changes("set")),
        modelled_changes=tuple(keys.changes("set_on_models")),
    )
    if closed:
        keys.done()
    return recipe


def _factor(name: str, keys: Keys) -> Factor:
    if not NAME.fullmatch(name):
        raise BadInputError(f"{keys.where}: a factor's name is a letter and then letters, digits, - or _")
    if name in RESERVED:
        raise BadInputError(f"{keys.where}: {name} is a reserved name; choose another name for the factor")
    title = keys.text("title", name.replace("_", " ").replace("-", " "))
    recipe = _recipe(keys)
    plain = keys.values_or_tables("levels")
    levels = []
    for level_name, table in plain:
        if table is None:
            levels.append(Level(level_name, level_name, level_name, level_name, Recipe()))
            continue
        levels.append(
            Level(
                name=level_name,
                label=table.text("label", level_name),
                value=table.text("value", level_name),
                group=table.text("group", level_name),
                usd=table.number("usd", None),
                needs_target=table.truth("needs_target", False),
                is_asked_for=table.truth("asked_for", False),
                recipe=_recipe(table),
            )
        )
        table.done()
    keys.done()
    if not levels:
        raise keys.wrong("levels", "names none")
    names = [level.name for level in levels]
    if doubled := next((n for n in names if names.count(n) > 1), None):
        raise keys.wrong("levels", f"{doubled} is named twice")
    return Factor(name, title, tuple(levels), recipe)


def _known_factor(name: str, factors: tuple[Factor, ...], place: str, also: tuple[str, ...] = ()) -> None:
    names = [factor.name for factor in factors]
    if name not in names and name not in also:
        raise BadInputError(f"{place}: {name} is not a factor", Remedy(nearest(name, [*names, *also]).words))


def _where(keys: Keys, factors: tuple[Factor, ...], also: tuple[str, ...] = ()) -> Where:
    found: Where = {}
    for name in keys.left():
        _known_factor(name, factors, keys.where, also)
        wanted = tuple(keys.words(name, ()))
        if name not in also:
            levels = [level.name for level in next(f for f in factors if f.name == name).levels]
            for level in wanted:
                if level not in levels:
                    raise keys.wrong(name, f"{level} is not a level of {name}", nearest(level, levels))
        found[name] = wanted
    return found


def _override(keys: Keys, factors: tuple[Factor, ...]) -> Override:
    where = _where(keys.table("where"), factors)
    found = Override(where, _recipe(keys), keys.number("usd", None))
    keys.done()
    return found


def _stop(keys: Keys) -> Stop:
    found = Stop(
        after=keys.duration("after", "") or None,
        failed_runs=keys.whole("failed_runs", 1, at_least=1),
        errors=keys.truth("errors", False),
        precision=keys.share("precision"),
    )
    keys.done()
    return found


def _tables(keys: Keys, factors: tuple[Factor, ...]) -> tuple[TableSpec, ...]:
    """Pictures and trades go by a table's name, so that no two may share one."""
    found: dict[str, TableSpec] = {}
    for number, table in enumerate(keys.list_of_tables("table"), 1):
        spec = _table(number, table, factors)
        if spec.name in found:
            raise table.wrong("name", f"{spec.name} is the name of an earlier table; give this table another name")
        found[spec.name] = spec
    return tuple(found.values())


def _table(number: int, keys: Keys, factors: tuple[Factor, ...]) -> TableSpec:
    figure = keys.choice("figure", OF_ONE_PROGRAM, "iops")
    name = keys.text("name", f"table-{number}")
    rows, columns = tuple(keys.words("rows", ())), tuple(keys.words("columns", ()))
    for key, names in (("rows", rows), ("columns", columns)):
        for factor in names:
            _known_factor(factor, factors, keys.place(key), PARTS)
    shown = tuple(keys.words("show", ("value",)))
    for word in shown:
        if word not in SHOWN:
            raise keys.wrong("show", f"{word} is not one of {', '.join(SHOWN)}", nearest(word, SHOWN))
    within = tuple(keys.words("within", ())) if keys.has("within") else None
    for factor in within or ():
        _known_factor(factor, factors, keys.place("within"), PARTS)
    spec = TableSpec(
        name=name,
        title=keys.text("title", name),
        figure=figure,
        rows=rows or (factors[0].name,),
        columns=columns,
        where=_where(keys.table("where"), factors, PARTS),
        show=shown,
        best_of=_where(keys.table("best_of"), factors, PARTS),
        within=within,
        baseline=_where(keys.table("baseline"), factors, PARTS),
        centre=keys.choice("centre", ("mean", "median"), "mean"),
        limit=keys.limit("limit"),
    )
    keys.done()
    if not spec.baseline and {"difference", "penalty"} & set(shown):
        raise keys.wrong("show", "a difference or penalty needs baseline = { FACTOR = LEVEL }")
    if figure == "iops_within" and spec.limit is None:
        raise keys.wrong("figure", 'iops_within needs limit = "100ms", the mean response time up to which rates count')
    return spec


def _trade(keys: Keys, tables: tuple[TableSpec, ...]) -> tuple[str, str, str]:
    """Two tables that are drawn against each other: x, y and a title."""
    names = [table.name for table in tables]
    found = keys.text("x", ""), keys.text("y", "")
    for key, name in zip(("x", "y"), found, strict=True):
        if name not in names:
            raise keys.wrong(key, f"{name or 'missing'}: name a table", nearest(name, names))
    title = keys.text("title", f"{found[1]} against {found[0]}")
    keys.done()
    return *found, title


def _of_table(keys: Keys, tables: tuple[TableSpec, ...]) -> str:
    names = [table.name for table in tables]
    found = keys.text("table", "")
    if found not in names:
        raise keys.wrong("table", f"{found or 'missing'}: name a table", nearest(found, names))
    return found


def _published(keys: Keys, tables: tuple[TableSpec, ...], factors: tuple[Factor, ...]) -> Published:
    """A figure that the source printed; times in ms."""
    table = _of_table(keys, tables)
    value = keys.number("value", None)
    if value is None:
        raise keys.wrong("value", "is missing")
    figure = FIGURES[next(spec.figure for spec in tables if spec.name == table)]
    scale = 1e6 if figure.kind == "time" else 1.0
    found = Published(table, _where(keys.table("at"), factors, PARTS), value * scale, keys.text("of", ""))
    keys.done()
    return found


def _conclusion(keys: Keys, tables: tuple[TableSpec, ...], factors: tuple[Factor, ...]) -> Conclusion:
    """`ahead` is better than `behind`, or by a ratio from `least` to `most`."""
    found = Conclusion(
        says=keys.text("says", ""),
        table=_of_table(keys, tables),
        ahead=_where(keys.table("ahead"), factors, PARTS),
        behind=_where(keys.table("behind"), factors, PARTS),
        at=_where(keys.table("at"), factors, PARTS),
        low=keys.number("least", 1.0) or 0.0,
        high=keys.number("most", None) or float("inf"),
        than=_where(keys.table("than"), factors, PARTS),
        why=keys.text("why", ""),
        given=keys.text("given", ""),
    )
    keys.done()
    if not found.says or not found.ahead or not found.behind:
        raise keys.wrong("says", "a conclusion needs a sentence (says) and the levels that are ahead and behind")
    return found


def _plain_table(factors: tuple[Factor, ...]) -> TableSpec:
    """Where a file names no table: IOPS, the last factor across, the others down."""
    names = [factor.name for factor in factors]
    rows, columns = (names[:-1], names[-1:]) if len(names) > 1 else (names, [])
    return TableSpec("table-1", "IOPS", "iops", tuple(rows), tuple(columns), {}, ("value",), {}, None, {}, "mean", None)


def _check_places(place: str, base: Recipe, factors: tuple[Factor, ...], overrides: tuple[Override, ...]) -> None:
    names = [factor.name for factor in factors]
    said = [(f"{place}: base", base, names)]
    for factor in factors:
        said.append((f"{place}: factor.{factor.name}", factor.recipe, [*names, "value"]))
        said += [(f"{place}: factor.{factor.name}.levels.{i.name}", i.recipe, [*names, "value"]) for i in factor.levels]
    said += [(f"{place}: override {n}", o.recipe, names) for n, o in enumerate(overrides, 1)]
    for where, recipe, known in said:
        for name in sorted(recipe.places()):
            if name not in known:
                raise BadInputError(f"{where}: {{{name}}} names no factor", Remedy(nearest(name, known).words))
