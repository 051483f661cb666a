"""What mutants were judged to be, so that a run which was broken off goes on where it ended.

One JSON line for each, written when it is judged. A mutant is known by the text of its module: what has changed in
other modules since is not looked at. That one lives is held to be so while its tests are the same; that one was
noticed whatever becomes of them, so after taking tests away use `--anew`, which judges all again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.running import SURVIVED

BESIDE = Path(".cache/mutants.jsonl")


class Remembered:
    """The outcomes of earlier runs, and of this one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes = dict(_read(path))

    def forget(self) -> None:
        """All of them."""
        self._path.unlink(missing_ok=True)
        self._outcomes.clear()

    def outcome(self, mutant: Mutant, tests: str) -> str | None:
        """Under tests of this text; None where it is to be judged."""
        outcome, before = self._outcomes.get(_digest(mutant.source), (None, ""))
        return None if outcome == SURVIVED and before != _digest(tests) else outcome

    def note(self, mutant: Mutant, tests: str, outcome: str) -> None:
        """At once."""
        key, under = _digest(mutant.source), _digest(tests)
        self._outcomes[key] = outcome, under
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            line = {"mutant": key, "tests": under, "outcome": outcome, "line": mutant.line, "what": mutant.what}
            file.write("\n" + json.dumps(line))  # whatever the last line came to


def _read(path: Path) -> Iterable[tuple[str, tuple[str, str]]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            told = json.loads(line)
        except json.JSONDecodeError:  # the first one is empty, another broken off while it was written
            continue
        yield told["mutant"], (told["outcome"], told["tests"])


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
