"""Duty: the page: runs as they go on, results, modelled bricks and arrays in a browser, and all of it as JSON.

Refusal: nothing is measured, computed or changed here but by the functions for programs; no path that a browser names
is ever opened, and nothing runs without a session that may ask for it.
"""
