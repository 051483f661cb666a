"""What policy was asked in this life of the service. Values only; see asking.py."""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.values import replace

ANEW_MAX = 3
"""So often in one round is a question put anew."""
WITHDRAWN_MAX = 16
"""Questions that are remembered as withdrawn: an answer comes within seconds, or never."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Each question has a number, which its answer names."""

    newest: int = 0
    anew: int = 0
    """How often the present round was put in another way than at its fence."""
    withdrawn: tuple[int, ...] = ()

    def asked(self) -> Questions:
        """One more was asked."""
        return replace(self, newest=self.newest + 1)

    def put_anew(self, was_asked: bool) -> Questions:
        """The round is about to be put in another way; `was_asked`: what was asked before is withdrawn."""
        withdrawn = (*self.withdrawn, self.newest)[-WITHDRAWN_MAX:] if was_asked else self.withdrawn
        return replace(self, anew=self.anew + 1, withdrawn=withdrawn)

    def of_new_round(self) -> Questions:
        """Another round begins."""
        return replace(self, anew=0)


NOTHING_ASKED = Questions()
