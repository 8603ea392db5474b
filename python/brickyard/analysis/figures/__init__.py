"""Figures of runs, each with its one formula. They know nothing of judgements."""
