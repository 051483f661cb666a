"""Runs rendezvous under cProfile and writes the profile when it ends: what does the service spend its time on?

    SCALE_PROFILE=/path/profile python -m tests.bench.scale --sizes 1000
"""

from __future__ import annotations

import cProfile
import runpy
import sys


def main() -> None:
    path, rest = sys.argv[1], sys.argv[2:]
    sys.argv = ["resurge_rendezvous", *rest]
    profile = cProfile.Profile()
    profile.enable()
    try:
        runpy.run_module("resurge_rendezvous", run_name="__main__")
    finally:
        profile.disable()
        profile.dump_stats(path)


if __name__ == "__main__":
    main()
