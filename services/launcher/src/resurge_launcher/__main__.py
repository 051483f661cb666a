"""`python -m resurge_launcher` is the `resurge` command."""

import sys

from resurge_launcher.cli import main

sys.exit(main())
