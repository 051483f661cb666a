"""The environment of a forked worker: the one place of the fork server that sees it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping


def replace_environment(variables: Mapping[str, str]) -> None:
    """Make this the whole environment, for Python and for the C library alike."""
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
