"""Duty: database servers as bricks: an ephemeral PostgreSQL, and the TerraServer database to fill one with.

Refusal: logs are replayed by the core; no server that was not started here is stopped, nothing else is dropped.
"""
