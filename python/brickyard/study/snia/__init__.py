"""SNIA's tests of solid state storage."""
