"""Duty: one driver of a replay as a process of its own: orders on standard input, events on standard output.

Refusal: no arguments, so that nothing of its orders, passwords among them, can be seen from outside.
"""

from __future__ import annotations

import sys


def main() -> int:
    from brickyard import _core

    return _core.replay_serve()


if __name__ == "__main__":
    sys.exit(main())
