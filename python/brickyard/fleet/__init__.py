"""Duty: one load over many hosts as one run, on Ray, which starts, places and watches; our worker runs the load there.

Ray is an extra. Everything here that needs it asks `needs_ray` first, which says in one line how to get it.

Refusal: nothing is measured in Python, and no request passes through it: hosts send intervals.
"""

from __future__ import annotations

import os
from typing import Any

from brickyard.errors import BadInputError

LEAST_RAY = (2, 60)


def needs_ray() -> Any:
    """Ray, or the line that says how to install it."""
    from brickyard.fleet.cluster import environment

    os.environ.update(environment())  # Ray reads it when it is imported, and never again
    try:
        import ray
    except ImportError as error:
        raise BadInputError("many hosts need Ray, which is not installed: pip install 'brickyard[fleet]'") from error
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < LEAST_RAY:
        raise BadInputError(
            f"Ray {ray.__version__} is installed, 2.60 or later is needed: pip install --upgrade 'brickyard[fleet]'"
        )
    return ray
