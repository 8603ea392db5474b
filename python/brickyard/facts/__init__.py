"""Facts about host and target, what happened beside a run, and the warnings that follow.

Duty: know the circumstances of a measurement. Refusal: it changes nothing on the system, and it never raises: a fact
that cannot be had is null, with the reason under `unknown` beside it.
"""

from .cache import cache_bytes
from .caveats import warnings
from .checkup import doctor
from .gather import collect
from .health import endurance
from .roots import NoTools, Roots, Tools
from .server_io import ServerIo
from .target import store_facts
from .watch import Watch

__all__ = [
    "NoTools",
    "Roots",
    "ServerIo",
    "Tools",
    "Watch",
    "cache_bytes",
    "collect",
    "doctor",
    "endurance",
    "store_facts",
    "warnings",
]
