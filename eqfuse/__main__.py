"""`python -m eqfuse`: the command line where the script `eqfuse` is not on the path."""

import sys

from eqfuse.cli import main

sys.exit(main())
