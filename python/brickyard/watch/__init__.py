"""Duty: what block devices are asked to do: capture by `brickyard-watch` or the kernel's counters, figures, causes,
verdicts.

Refusal: no request of its own, and no change to the host.
"""
