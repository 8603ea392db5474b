"""Duty: types that threads read are made ready before two of them read one for the first time.

msgspec works out what it needs of a type when it is first used, and shows it to other threads before it is whole: two
threads that are the first to read a type end the process with a segmentation fault (msgspec 0.22).
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec

_READY: set[Any] = set()
_LOCK = threading.Lock()


def ready(*kinds: Any) -> None:
    """With all types within them. To be called where types are defined, so that their import does it."""
    for kind in kinds:
        if kind not in _READY:
            with _LOCK:
                msgspec.json.Decoder(kind)
                _READY.add(kind)
