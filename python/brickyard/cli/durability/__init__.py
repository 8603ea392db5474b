"""Verbs about durable writes and what a power cut leaves."""
