"""`python -m brickyard` is the command line."""

import sys

from brickyard.cli import main

sys.exit(main())
