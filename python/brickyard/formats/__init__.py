"""Duty: speak with other tools: their loads become profiles, profiles become theirs, their results become records.

Refusal: nothing is dropped in silence. What a profile can't say is refused by its name.
"""
