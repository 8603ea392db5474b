"""Duty: what a figure costs: dollars for a request a second, a MiB/s, a terabyte, a port.

Refusal: no price is known here; it is what the user paid or was quoted.
"""

from __future__ import annotations

from dataclasses import dataclass

from brickyard.analysis.figures.totals import Rate, rate_of, rated_rows, totals
from brickyard.schema import Document
from brickyard.store import Record
from brickyard.units import MIB

TB = 10**12  # capacities are sold in powers of ten


@dataclass(frozen=True)
class Price:
    usd: float
    capacity_bytes: int | None = None
    ports: int | None = None


@dataclass(frozen=True)
class Cost:
    """One phase of a run; None where nothing was measured or not said."""

    phase: str
    usd_per_iops: float | None
    usd_per_mib_per_s: float | None
    usd_per_tb: float | None
    usd_per_port: float | None


def costs(record: Record, price: Price) -> list[Cost]:
    """What all streams of a phase do together, held against the price."""
    rows = rated_rows(totals(record))
    phases = {row.phase: row.phase_name for row in rows}
    rates = {phase: rate_of(row for row in rows if row.phase == phase) or Rate(0.0, 0.0, 0) for phase in phases}
    return [
        Cost(
            phase=name,
            usd_per_iops=_per(price.usd, rates[phase].iops),
            usd_per_mib_per_s=_per(price.usd, rates[phase].bytes_per_s / MIB),
            usd_per_tb=_per(price.usd, (price.capacity_bytes or 0) / TB),
            usd_per_port=_per(price.usd, price.ports or 0),
        )
        for phase, name in sorted(phases.items())
    ]


def _per(usd: float, amount: float) -> float | None:
    return usd / amount if amount else None


def price_document(record: Record, price: Price) -> Document:
    return {
        "usd": price.usd,
        "capacity_bytes": price.capacity_bytes,
        "ports": price.ports,
        "phases": [
            {
                "phase": cost.phase,
                "usd_per_iops": cost.usd_per_iops,
                "usd_per_mib_per_s": cost.usd_per_mib_per_s,
                "usd_per_tb": cost.usd_per_tb,
                "usd_per_port": cost.usd_per_port,
            }
            for cost in costs(record, price)
        ],
    }
