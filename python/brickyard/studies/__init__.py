"""Duty: the studies that ship with Brickyard, one TOML file each, with its source. Refusal: no code."""
