"""python -m tests.sim: see run.py."""

import sys

from tests.sim.run import main

if __name__ == "__main__":
    sys.exit(main())
