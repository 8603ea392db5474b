"""Duty: is what storage acknowledges as durable really durable? Figures that make it suspicious, and a witness.

Refusal: no accusation. A speed can be suspicious; only a power cut, with a recorder on another host, proves anything.
"""

from brickyard.honesty.figures import DirtyFigures, Figures, GroupFigures, OverwriteFigures, figures
from brickyard.honesty.findings import PLAUSIBLE, SILENT, SUSPICIOUS, Finding, findings, verdict

__all__ = [
    "PLAUSIBLE",
    "SILENT",
    "SUSPICIOUS",
    "DirtyFigures",
    "Figures",
    "Finding",
    "GroupFigures",
    "OverwriteFigures",
    "figures",
    "findings",
    "verdict",
]
