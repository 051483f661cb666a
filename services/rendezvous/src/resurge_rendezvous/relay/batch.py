"""What goes up from a relay next: what its launchers have said since the last message, each at most once. Pure.

States are whole, so of several on one link only the newest goes up (with the hello of the first). A beat that says
nothing new besides goes up as a beat alone. Ends go last. Nothing is judged: whatever a launcher says is passed on.
Hellos, states and beats are any values that can be compared: `words.py` knows what they are on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from resurge_libs.core.values import quick

H = TypeVar("H")
O = TypeVar("O")  # noqa: E741
B = TypeVar("B")
V = TypeVar("V")


@quick
@dataclass(frozen=True, slots=True)
class Words(Generic[H, O, B]):
    """One message of a launcher: its whole state, perhaps with an introduction and a beat."""

    observed: O
    hello: H | None = None
    beat: B | None = None


@quick
@dataclass(frozen=True, slots=True)
class Upward(Generic[H, O, B]):
    """One message to the root, by link; the root takes its parts in this order."""

    said: tuple[tuple[int, Words[H, O, B]], ...] = ()
    beats: tuple[tuple[int, B], ...] = ()
    gone: tuple[tuple[int, bool], ...] = ()
    """Links that are over, and whether the launcher's kernel said so."""


class UpBatch(Generic[H, O, B]):
    """The open message of one stream to the root."""

    def __init__(self) -> None:
        self._said: dict[int, Words[H, O, B]] = {}
        self._beats: dict[int, B] = {}
        self._gone: dict[int, bool] = {}
        self._last: dict[int, O] = {}
        """What each link said last: what the root knows, or will with the next message."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self._said or self._beats or self._gone)

    @property
    def is_urgent(self) -> bool:
        """Whether there is more than beats, which may wait for others."""
        return bool(self._said or self._gone)

    def say(self, link: int, words: Words[H, O, B]) -> None:
        """A launcher's words arrived on its link."""
        if words.beat is not None:
            self._beats[link] = words.beat
            if words.hello is None and words.observed == self._last.get(link):
                return
        waiting = self._said.get(link)
        hello = words.hello if words.hello is not None or waiting is None else waiting.hello
        self._said[link] = Words(words.observed, hello)
        self._last[link] = words.observed

    def go(self, link: int, by_peer: bool) -> None:
        """A launcher's stream ended; nothing follows on its link."""
        self.forget(link)
        self._gone[link] = by_peer

    def forget(self, link: int) -> None:
        """The root ended the link: it wants to hear nothing more of it."""
        self._last.pop(link, None)
        self._beats.pop(link, None)
        said = self._said.get(link)
        if said is not None and said.hello is not None:
            del self._said[link]  # it never got as far as the root

    def take(self, most: int) -> Upward[H, O, B] | None:
        """The next message, of so many links at most in each of its parts; None when there is nothing to send.

        A link's beat and end stay until its words have gone up, as they may introduce it.
        """
        if self.is_empty:
            return None
        said = _first(self._said, most)
        beats = _first(self._beats, most, self._said)
        return Upward(said, beats, _first(self._gone, most, self._said, self._beats))


def _first(waiting: dict[int, V], most: int, *before: Mapping[int, object]) -> tuple[tuple[int, V], ...]:
    """Take so many that nothing of the same link waits before."""
    ahead = [others for others in before if others]
    if not ahead and len(waiting) <= most:
        whole = tuple(waiting.items())
        waiting.clear()
        return whole
    links = [link for link in waiting if not any(link in others for others in ahead)]
    return tuple([(link, waiting.pop(link)) for link in links[:most]])
