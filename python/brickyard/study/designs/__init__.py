"""Studies as files say them: factors × levels, cells, order, results."""
