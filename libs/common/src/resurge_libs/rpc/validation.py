"""Collects everything that is wrong with one request, so that its caller learns all of it at once. Pure."""

from __future__ import annotations

import math

from resurge_libs.core.refusals import BadRequest, FieldViolation

MAX_VIOLATIONS = 32
"""A request that is wrong in more places is answered with the first ones."""
SHOWN_CHARACTERS = 64
MAX_SENTENCE_CHARACTERS = 1_024
"""Of what one side tells the other in a sentence, as a reason; most are cut to it."""


class Violations:
    """The violations of one request; `check` raises BadRequest when there is any."""

    def __init__(self) -> None:
        self._found: list[FieldViolation] = []

    @property
    def found(self) -> bool:
        """Whether anything was wrong so far."""
        return bool(self._found)

    def add(self, field: str, right: str) -> None:
        """Name one wrong field and what would be right."""
        if len(self._found) < MAX_VIOLATIONS:
            self._found.append(FieldViolation(field, right))

    def check(self) -> None:
        """Raise BadRequest with all that was found, if anything was."""
        if self._found:
            raise BadRequest(tuple(self._found))

    def name(self, field: str, value: str, max_bytes: int) -> None:
        """The value names something: not empty, printable, not longer than allowed."""
        if not value:
            self.add(field, "is empty; a name is needed")
        self.text(field, value, max_bytes)
        if not value[: max_bytes + 1].isprintable():
            self.add(field, f"is {value[:SHOWN_CHARACTERS]!r}; must hold printable characters only")

    def text(self, field: str, value: str, max_bytes: int) -> None:
        """The value is not longer than allowed; it may be empty."""
        if len(value.encode()) > max_bytes:
            self.add(field, f"has {len(value.encode())} bytes; at most {max_bytes} are allowed")

    def count(self, field: str, found: int, most: int) -> None:
        """A list is not longer than allowed."""
        if found > most:
            self.add(field, f"has {found} items; at most {most} are allowed")

    def between(self, field: str, value: float, least: float, most: float) -> None:
        """A number lies within its bounds, both included; NaN does not."""
        if not (math.isfinite(value) and least <= value <= most):
            self.add(field, f"is {value:g}; must be within {least:g} and {most:g}")
