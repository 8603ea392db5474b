"""Duty: the arrays of this host: what they are, what state they are in, and the commands that change them.

Refusal: it measures nothing, keeps no condition and undoes nothing (`brickyard.conditions` does), and changes an array
only in functions whose callers were allowed to (`--manage`).
"""

from __future__ import annotations

from brickyard.arrays.array import Array, Member, Scrub, Sheet, State
from brickyard.arrays.find import all_arrays, every_array, find, named
from brickyard.arrays.host import Host

__all__ = ["Array", "Host", "Member", "Scrub", "Sheet", "State", "all_arrays", "every_array", "find", "named"]
