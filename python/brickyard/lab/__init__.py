"""Duty: emulated disks under real software, and the states that a power cut can leave on them.

The requests are served by a program of its own, `brickyard-lab` (crates/lab); here are the loop devices and file
systems on top of it, the workloads that are recorded, and the checks that judge each state.

Refusal: no model, no cache and no log is here, and nothing that was not made here is unmounted or detached.
"""
