"""Verbs about replays and the TerraServer database."""
