"""`python -m tests.arch [FILE ...]`: the rules that look at one file at a time, on these files or on all."""

from __future__ import annotations

import sys

from tests.arch import house, repo


def main() -> int:
    """Prints what is wrong, one line each; 1 if there is anything."""
    wrong = [line for lines in house.found(sys.argv[1:] or repo.files()).values() for line in lines]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
