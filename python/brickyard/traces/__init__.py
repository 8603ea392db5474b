"""Duty: traces of requests: what is in one, the profile that makes the same load, and how far two traces are apart.

Reading and counting is done in `crates/trace`; here are its results as types.

Refusal: nothing is run and nothing is printed.
"""

from brickyard.traces.compared import Distance, TraceComparison, compare
from brickyard.traces.contents import (
    Contents,
    Examined,
    ImportedTrace,
    OperationFigures,
    Samples,
    Summary,
    TraceFigures,
    contents,
    examine,
    import_trace,
    is_trace,
)
from brickyard.traces.made import Made, make_profile
from brickyard.traces.replayed import Replay, replay_profile
from brickyard.traces.words import figure_lines

__all__ = [
    "Contents",
    "Distance",
    "Examined",
    "ImportedTrace",
    "Made",
    "OperationFigures",
    "Replay",
    "Samples",
    "Summary",
    "TraceComparison",
    "TraceFigures",
    "compare",
    "contents",
    "examine",
    "figure_lines",
    "import_trace",
    "is_trace",
    "make_profile",
    "replay_profile",
]
