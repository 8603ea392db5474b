"""Duty: records → totals, percentiles, series and shares, as pure functions.

Refusal: nothing is read from or written to anywhere.
"""

from brickyard.analysis.figures.latency import (
    Latency,
    Peak,
    events_beyond,
    latency,
    latency_of,
)
from brickyard.analysis.figures.series import (
    HeatCell,
    Point,
    are_apart,
    heat_map,
    heat_operations,
    lay_out,
    several,
    throughput,
)
from brickyard.analysis.figures.tools import ToolFigure, tool_document, tool_figures, tool_of
from brickyard.analysis.figures.totals import (
    PhaseRate,
    Totals,
    errors_of,
    full_stream_name,
    phase_rates,
    shares_of_best,
    totals,
    variation,
)
from brickyard.analysis.studies.characterization import Cell, RankedCell, cell_of, characterization, is_graph

__all__ = [
    "Cell",
    "HeatCell",
    "Latency",
    "Peak",
    "PhaseRate",
    "Point",
    "RankedCell",
    "ToolFigure",
    "Totals",
    "are_apart",
    "cell_of",
    "characterization",
    "errors_of",
    "events_beyond",
    "full_stream_name",
    "heat_map",
    "heat_operations",
    "is_graph",
    "latency",
    "latency_of",
    "lay_out",
    "phase_rates",
    "several",
    "shares_of_best",
    "throughput",
    "tool_document",
    "tool_figures",
    "tool_of",
    "totals",
    "variation",
]
