"""Verbs that answer before anything is measured or bought, and the catalogue."""
