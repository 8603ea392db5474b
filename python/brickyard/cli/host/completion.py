"""Duty: `brickyard completion`: the script by which a shell completes verbs and options. Refusal: no installation."""

from __future__ import annotations

from typing import Literal

from brickyard.cli.parts.output import print_text


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a completion script: brickyard completion bash > ~/.local/share/bash-completion/completions/brickyard

    Parameters
    ----------
    shell
        The shell that completes: bash, zsh or fish.
    """
    from brickyard.cli.app import app

    print_text(app.generate_completion(shell=shell))
    return 0
