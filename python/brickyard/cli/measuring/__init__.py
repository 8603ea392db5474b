"""Verbs that put a workload on a target."""
