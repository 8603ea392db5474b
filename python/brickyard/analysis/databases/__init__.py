"""Figures of replays, pgbench and the TerraServer database."""
