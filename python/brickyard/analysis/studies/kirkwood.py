"""Duty: the tables that Kirkwood published in 2003 beside what was measured now: ratios, and the shape over clients.

Refusal: no figure of his is held against one of ours as such. Disks and hosts differ by twenty years, ratios do not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean

import msgspec

from brickyard import shipped
from brickyard.analysis.figures.cells import DASH, Told
from brickyard.analysis.figures.named import FIGURES, measured
from brickyard.analysis.figures.samples import sample
from brickyard.ready import ready
from brickyard.store import Record
from brickyard.units import three_digits

STUDY = "kirkwood-pgbench"
CLIENTS = ("1", "2", "4", "8", "16")
SINGLE, STRIPE = "jbod", "raid0 x2, 128 KiB stripe"
PUBLISHED_HOST = "Dell 410, ATA-133 7200 rpm"
Row = Mapping[str, float]


class Published(msgspec.Struct, frozen=True, rename={"mb_per_s": "MBps"}):
    """A row of a table of his: `pgbench` by clients, `iowork` by operation."""

    system: str
    layout: str
    write_cache: str
    clients: str = ""
    tps: float = 0.0
    operation: str = ""
    mb_per_s: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.system, self.layout, self.write_cache


@cache
def published(name: str) -> list[Published]:
    return msgspec.convert(shipped.rows("brickyard.studies", f"kirkwood_2003_{name}"), list[Published], strict=False)


def tables(study: str, records: Sequence[Record]) -> list[Told]:
    """Title, columns and rows; none for another study."""
    if study != STUDY or not records:
        return []
    ours = _measured(records)
    return [_shapes(ours), _ratios(ours), _iowork()]


def _published_rows() -> dict[tuple[str, str, str], dict[str, float]]:
    found: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in published("pgbench"):
        found[row.key][row.clients] = row.tps
    return dict(found)


def _measured(records: Sequence[Record]) -> dict[tuple[tuple[str, str], ...], dict[str, float]]:
    """Mean tps over repetitions by clients, as the study's own tables have it, for each combination of the other
    factors."""
    values: dict[tuple[tuple[str, str], ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        levels = dict(record.info.marks.levels or {})
        clients = levels.pop("clients")
        for item in measured(record, FIGURES["tps"]):
            if item.value is not None:
                values[tuple(levels.items())][clients].append(item.value)
    return {
        key: {clients: mean.centre for clients, told in row.items() if (mean := sample(told))}
        for key, row in values.items()
    }


def _named(key: tuple[tuple[str, str], ...]) -> str:
    told = [f"{name} {level}" for name, level in key if level not in ("default", "as_it_is", "found", "here")]
    return ", ".join(part.replace("_", " ") for part in told) or "defaults"


def shape(row: Row) -> dict[str, float]:
    """Each rate as a multiple of that of one client."""
    one = row.get("1")
    return {clients: value / one for clients, value in row.items()} if one else {}


def rank_agreement(one: Row, other: Row) -> float | None:
    """Spearman's rank correlation over the clients that both have; None for fewer than three, or where all tie."""
    both = [clients for clients in CLIENTS if clients in one and clients in other]
    if len(both) < 3:
        return None
    ranks = [_ranks([row[clients] for clients in both]) for row in (one, other)]
    means = [fmean(values) for values in ranks]
    shifted = [[value - mean for value in values] for values, mean in zip(ranks, means, strict=True)]
    size = (sum(v * v for v in shifted[0]) * sum(v * v for v in shifted[1])) ** 0.5
    return sum(a * b for a, b in zip(*shifted, strict=True)) / size if size else None


def _ranks(values: list[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def _shapes(ours: Mapping[tuple[tuple[str, str], ...], Row]) -> Told:
    columns = ("", *(f"{clients} cl." for clients in CLIENTS), "best at", "rank agreement")
    his = {_his_name(key): row for key, row in _published_rows().items()}
    rows = [_shape_cells(f"published: {name}", row, DASH) for name, row in his.items()]
    for key, row in ours.items():
        rows.append(_shape_cells(f"measured: {_named(key)}", row, nearest(row, his)))
    return "Scaling with clients: tps relative to one client, compared with Kirkwood's figures of 2003", columns, rows


def nearest(row: Row, his: Mapping[str, Row]) -> str:
    """The published rows whose ranks agree best: all that tie, or that none of them is nearer than another."""
    agreed = {name: value for name, theirs in his.items() if (value := rank_agreement(row, theirs)) is not None}
    if not agreed:
        return DASH
    best = max(agreed.values())
    names = [name for name, value in agreed.items() if math.isclose(value, best, abs_tol=1e-9)]
    if len(names) == len(his) > 1:
        return f"{best:+.2f} with every row, so the rows cannot be distinguished"
    return f"{best:+.2f} with {' and with '.join(names)}"


def _his_name(key: tuple[str, str, str]) -> str:
    system, layout, cache_state = key
    if system != PUBLISHED_HOST:
        return "Sun, one FCAL disk"
    return f"{'RAID-0' if layout == STRIPE else 'one disk'}, {cache_state}"


def _shape_cells(name: str, row: Row, agreed: str) -> list[str]:
    made = shape(row)
    best = max(row, key=lambda clients: row[clients], default=None)
    cells = [three_digits(made[clients]) if clients in made else DASH for clients in CLIENTS]
    return [name, *cells, best or DASH, agreed]


def _ratios(ours: Mapping[tuple[tuple[str, str], ...], Row]) -> Told:
    his = {(layout, state): row for (host, layout, state), row in _published_rows().items() if host == PUBLISHED_HOST}
    on, off = "write cache on", "write cache off"
    rows = [
        _ratio_cells("published: cache on ÷ off, one disk", his[SINGLE, on], his[SINGLE, off]),
        _ratio_cells("published: cache on ÷ off, RAID-0", his[STRIPE, on], his[STRIPE, off]),
        _ratio_cells("published: RAID-0 ÷ one disk, cache off", his[STRIPE, off], his[SINGLE, off]),
        _ratio_cells("published: RAID-0 ÷ one disk, cache on", his[STRIPE, on], his[SINGLE, on]),
    ]
    for factor, upper, lower, words in (
        ("write_cache", "on", "off", "cache on ÷ off"),
        ("layout", "raid0", "jbod", "RAID-0 ÷ one disk"),
    ):
        for key, row in ours.items():
            levels = dict(key)
            other = tuple((name, lower if name == factor else level) for name, level in key)
            if levels.get(factor) == upper and other in ours:
                rest = tuple((name, level) for name, level in key if name != factor)
                rows.append(_ratio_cells(f"measured: {words}, {_named(rest)}", row, ours[other]))
    if len(rows) == 4:
        rows.append(["measured: neither factor had two levels", *[DASH] * len(CLIENTS)])
    return "Ratios by clients, compared with Kirkwood's of 2003", ("", *(f"{c} cl." for c in CLIENTS)), rows


def _ratio_cells(name: str, upper: Row, lower: Row) -> list[str]:
    return [name, *(three_digits(upper[c] / lower[c]) if c in upper and c in lower else DASH for c in CLIENTS)]


def _iowork() -> Told:
    """The disks alone, by which his rates of transactions are to be understood."""
    found: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in published("iowork"):
        found[row.key][row.operation] = row.mb_per_s
    operations = ("sequential write", "sequential read", "random write", "random read")
    rows = [[_his_name(key), *(three_digits(row[name]) for name in operations)] for key, row in found.items()]
    return "Kirkwood's disks without a database, MB/s (iowork; brickyard study kirkwood-2003)", ("", *operations), rows


ready(list[Published])
