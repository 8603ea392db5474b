"""Duty: Brickyard's own store under runs, and what is left of it after a power cut.

A run on a modelled brick is a process of its own, as a user's is. When it has ended, the store is closed and durable:
that is what is acknowledged. Of a run that goes on, the last moments may be missing.

Refusal: the store is opened by its own room alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from brickyard import _core
from brickyard.errors import BrickyardError, one_line
from brickyard.lab.checks import Began, Corrupt, Lost, Stage, no_links
from brickyard.lab.ledger import Ledger, Owed
from brickyard.lab.orders import Missing, Recording, Setup, State
from brickyard.store import Store

NAME = "runs.db"
RUN = ("run", "sqlio-random-read-1", "sim:msr-2003-wd", "--set", "duration=20s", "--set", "warmup=0s")
RUN_S = 60.0


class StoreLoad:
    """One run after the other."""

    def run(self, stage: Stage, setup: Setup, ledger: Ledger, began: Began) -> tuple[str, str]:
        place = stage.mount / NAME
        words = [sys.executable, "-P", "-m", "brickyard", *RUN, "--store", str(place)]
        began()
        deadline, number = time.monotonic() + setup.load_s, 0
        while number == 0 or time.monotonic() < deadline:
            number += 1
            done = subprocess.run(
                ["setpriv", "--pdeathsig", "KILL", *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={**os.environ, "NO_COLOR": "1"},
                timeout=RUN_S,
                check=False,
            )
            if done.returncode:
                raise BrickyardError(f"the load failed: {one_line(done.stderr)[:200]}")
            ledger.acknowledged(0, number)
        return NAME, f"Brickyard {_core.version()}"


class StoreCheck:
    def __init__(self, recording: Recording) -> None:
        self._owed = Owed(recording.promises)

    def __call__(self, stage: Stage, recording: Recording, state: State) -> None:
        no_links(stage.mount)
        owed, place = self._owed.at(state.cut).get(0, 0), stage.mount / NAME
        if not place.is_file() or not place.stat().st_size:
            if owed:
                raise Lost(f"the store is gone; {owed} runs had ended", Missing(0, 1))
            return
        try:
            with Store(place, must_exist=True) as store:
                complaints, losses = store.examine()
                heads = store.heads()
                whole = [head.id for head in heads if head.outcome == "done"]
                read = sum(bool(store.record(run).intervals) for run in whole)
        except BrickyardError as error:
            raise Corrupt(one_line(error)) from error
        if complaints or losses:
            raise Corrupt(f"the store is damaged: {one_line(complaints[0] if complaints else losses[0].cause)}")
        if read < len(whole):
            raise Corrupt(f"{len(whole) - read} ended runs have no intervals")
        if len(whole) < owed:
            raise Lost(f"{owed} runs had ended; {len(whole)} are there", Missing(0, len(whole) + 1))
