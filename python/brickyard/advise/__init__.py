"""Duty: answers before there is hardware: which brick to buy, what load it carries, rules of thumb from models.

Refusal: no model of its own. Every figure comes out of a run of the ordinary core on a modelled brick, or out of a
formula that is cited.
"""
