"""Studies that are verbs of their own."""
