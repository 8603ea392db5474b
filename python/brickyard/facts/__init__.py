"""Facts about host and target, and what happened beside a run.

Duty: know the circumstances of a measurement, as sheets (`schema.host_sheet`, `target_sheet`, `watch_sheet`). Refusal:
it changes nothing on the system, warns of nothing, and never raises: a fact that cannot be had is None, with the reason
under `unknown` beside it.
"""

from .cache import cache_bytes
from .checkup import Ability, doctor
from .foreign import OwnIo, foreign_of
from .gather import collect, collect_target
from .health import endurance
from .host import host_facts
from .roots import NoTools, Roots, Tools
from .server_io import NotCounted, ServerCounts, ServerIo
from .stack import tops
from .target import store_facts
from .watch import Watch

__all__ = [
    "Ability",
    "NoTools",
    "NotCounted",
    "OwnIo",
    "Roots",
    "ServerCounts",
    "ServerIo",
    "Tools",
    "Watch",
    "cache_bytes",
    "collect",
    "collect_target",
    "doctor",
    "endurance",
    "foreign_of",
    "host_facts",
    "store_facts",
    "tops",
]
