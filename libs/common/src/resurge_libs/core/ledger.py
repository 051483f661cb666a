"""Where the wall time of a job went: every second in exactly one account. Pure; times are given.

A ledger is told only two things: what the job does from now on, and which steps are committed or restored. Training
time is kept in stretches of steps. A restore to an earlier step takes the time of the steps beyond it back from the
newest stretches, in proportion, and books it as lost: the steps are done once more. So the sum of all accounts is
always the time between `begun` and `reached`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from resurge_libs.core.instant import Wall
from resurge_libs.core.values import replace

STRETCHES_MAX = 64
"""Stretches that are remembered apart; older ones are merged, as a restore so far back is rare."""


class Doing(StrEnum):
    """What a job spends its time on."""

    WAITING = "WAITING"
    """For nodes, for a backoff, for a scheduler between two attempts."""
    RENDEZVOUS = "RENDEZVOUS"
    START = "START"
    """From a formed round to the last rank's process group."""
    RESTORE = "RESTORE"
    TRAINING = "TRAINING"
    DETECTION = "DETECTION"
    TEARDOWN = "TEARDOWN"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Training without a break: the step it went on from, and the last one committed; None where nobody said."""

    seconds: float
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Booking:
    """From `at` on the job does `doing`; and what is known of its steps by then."""

    doing: Doing
    at: Wall
    committed: int | None = None
    restored: int | None = None
    has_restored: bool = False
    """A generation went on from `restored`; None there means that it did not say."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """All accounts of one job id, over its attempts."""

    begun: Wall | None = None
    reached: Wall = Wall(0.0)
    """All time up to here is booked."""
    doing: Doing = Doing.WAITING
    spent_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds by `Doing`, training aside."""
    settled_s: float = 0.0
    """Training that is too old to be taken back."""
    lost_s: float = 0.0
    lost_steps: int = 0
    stretches: tuple[Stretch, ...] = ()
    resumed_from: int | None = None
    committed: int | None = None
    """The highest step committed since the last restore, as far as anybody said."""

    @property
    def productive_s(self) -> float:
        """Training whose steps still count, that which goes on included."""
        return self.settled_s + sum(stretch.seconds for stretch in self.stretches) + self.of(Doing.TRAINING)

    @property
    def unmeasured_s(self) -> float:
        """The part of the productive time whose steps nobody reported: what was lost of it is not known."""
        going_on = self.of(Doing.TRAINING) if self.resumed_from is None else 0.0
        return going_on + sum(s.seconds for s in self.stretches if s.first is None or s.last is None)

    @property
    def wall_s(self) -> float:
        """All time that is booked."""
        return 0.0 if self.begun is None else self.reached - self.begun

    def of(self, doing: Doing) -> float:
        """Seconds booked for one kind; of training only those of the stretch that goes on."""
        return self.spent_s.get(doing, 0.0)

    def booked(self, booking: Booking) -> Ledger:
        """The ledger after one more booking; a time before `reached` counts as `reached`."""
        after = self._until(booking.at)
        if booking.doing is not self.doing:
            after = after._left() if self.doing is Doing.TRAINING else after
            after = replace(after, doing=booking.doing)
        if booking.committed is not None:
            after = after._committed(booking.committed)
        return after._restored(booking.restored) if booking.has_restored else after

    def _until(self, at: Wall) -> Ledger:
        if self.begun is None:
            return replace(self, begun=at, reached=at)
        took_s = max(0.0, at - self.reached)
        if took_s == 0.0:
            return self
        spent_s = {**self.spent_s, self.doing: self.spent_s.get(self.doing, 0.0) + took_s}
        return replace(self, reached=at, spent_s=spent_s)

    def _left(self) -> Ledger:
        """Training ends: its time becomes a stretch."""
        seconds = self.spent_s.get(Doing.TRAINING, 0.0)
        rest = {name: took for name, took in self.spent_s.items() if name != Doing.TRAINING}
        stretches = (*self.stretches, Stretch(seconds, self.resumed_from, self.committed))
        settled = stretches[:-STRETCHES_MAX]
        return replace(
            self,
            spent_s=rest,
            stretches=stretches[-STRETCHES_MAX:],
            settled_s=self.settled_s + sum(old.seconds for old in settled),
        )

    def _committed(self, step: int) -> Ledger:
        if self.committed is not None and step <= self.committed:
            return self
        after = replace(self, committed=step)
        if self.doing is Doing.TRAINING or not self.stretches:
            return after
        newest = replace(self.stretches[-1], last=step)
        return replace(after, stretches=(*self.stretches[:-1], newest))

    def _restored(self, step: int | None) -> Ledger:
        is_first = not self.stretches and self.settled_s == 0.0 and self.lost_s == 0.0
        if step is None:
            return replace(self, resumed_from=0 if is_first else None, committed=None)
        kept, lost_s, lost_steps = list(self.stretches), 0.0, 0
        while kept and (taken := _beyond(kept[-1], step)) is not None:
            left, seconds, steps = taken
            lost_s, lost_steps = lost_s + seconds, lost_steps + steps
            kept.pop()
            if left is not None:
                kept.append(left)
                break
        return replace(
            self,
            stretches=tuple(kept),
            lost_s=self.lost_s + lost_s,
            lost_steps=self.lost_steps + lost_steps,
            resumed_from=step,
            committed=None,
        )


def _beyond(stretch: Stretch, step: int) -> tuple[Stretch | None, float, int] | None:
    """What a restore to `step` leaves of a stretch, and the seconds and steps it takes; None when it takes nothing.

    A stretch without a committed step is lost whole: what was under way at its end is done once more.
    """
    if stretch.first is None or stretch.last is None:
        return None
    if stretch.last <= stretch.first:
        return (None, stretch.seconds, 0) if step <= stretch.first else None
    if stretch.last <= step:
        return None
    if step <= stretch.first:
        return None, stretch.seconds, stretch.last - stretch.first
    steps = stretch.last - step
    seconds = stretch.seconds * steps / (stretch.last - stretch.first)
    return Stretch(stretch.seconds - seconds, stretch.first, step), seconds, steps
