"""Brickyard puts a known load on a brick of storage and keeps what happened to every request.

Refusal: nothing is imported here, so that `import brickyard` costs nothing and needs no compiled core.
"""
