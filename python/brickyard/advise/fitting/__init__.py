"""Duty: from measurements of a real brick to a model of it, and how far that model can be trusted.

Refusal: no model of its own: parameters are those of `crates/sim`, figures come out of runs of the ordinary core.
"""
