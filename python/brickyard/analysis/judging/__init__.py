"""What is concluded of runs: warnings, comparisons, verdicts, answers."""
