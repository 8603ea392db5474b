"""Verbs about this host, its arrays, other hosts, and the page."""
