"""Verbs about requests that block devices get from others."""
