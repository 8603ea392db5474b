"""Replays of web logs as runs."""
