"""Duty: one driver of a replay as a process of its own: orders through a pipe, events on standard output.

Standard input is left to a log. Refusal: no argument but the pipe's descriptor, so that nothing of its orders,
passwords among them, can be seen from outside.
"""

from __future__ import annotations

import sys


def main() -> int:
    from brickyard import _core

    return _core.replay_serve(int(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
