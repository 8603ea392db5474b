"""One run, and what every run needs: a target, checks, circumstances, an orderly end."""
