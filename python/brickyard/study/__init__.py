"""Duty: factors × levels → runs. A study is a list of runs; `characterize` is one that ships with Brickyard.

Refusal: nothing is drawn or printed here. The runner emits what happens; the store and the terminal listen.
"""
