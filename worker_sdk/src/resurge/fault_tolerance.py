"""`RankMonitorClient` under the names that users of NVIDIA's resiliency extension know; scripts switch by the import.

    from resurge.fault_tolerance import RankMonitorClient

Heartbeats and sections go to the worker's page instead of a monitor process, so that a call waits for nobody, and the
launcher notices the end of a limit when it is there. Decides which limits run: of the heartbeats, of each open section
that has one, and outside of sections; they are independent of each other. Without a launcher the calls keep their books
and nobody looks. Effects: the session.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from typing import Any

from resurge.control import WorkloadAction, WorkloadControlRequest
from resurge.frames import ControlAnswer
from resurge.learned_limits import (
    HeartbeatTimeouts,
    LongestTimes,
    SectionTimeouts,
    learned_heartbeats,
    learned_sections,
)
from resurge.limits import STEP, WARMUP, limit_of
from resurge.worker_session import Session, session

__all__ = [
    "HeartbeatTimeouts",
    "RankMonitorClient",
    "RankMonitorClientError",
    "SectionTimeouts",
    "WorkloadAction",
    "WorkloadControlRequest",
]
NS_PER_S = 1_000_000_000


class RankMonitorClientError(Exception):
    """A call that does not fit what was called before; the sentence says what would."""


class RankMonitorClient:
    """One worker's limits; `init_workload_monitoring` begins."""

    CURRENT_TIMEOUTS_STATE_KEY = "current_timeouts"

    def __init__(self) -> None:
        self.is_initialized = False
        self.hb_timeouts = HeartbeatTimeouts()
        self.section_timeouts = SectionTimeouts()
        self._loaded: tuple[HeartbeatTimeouts | None, SectionTimeouts | None] = (None, None)
        self._times = LongestTimes()
        self._open: dict[str, tuple[int, contextlib.AbstractContextManager[None]]] = {}
        self._begun_ns = self._last_beat_ns = self._outside_since_ns = 0
        self._steps = 0
        self._warmup_steps = 0
        self._session: Session | None = None

    def init_workload_monitoring(self, num_warmup_iters: int | None = None) -> None:
        """Begin: the limits are those that the launcher was told, or that were learned and loaded.

        While `num_warmup_iters` steps run (without it, as the launcher was told), section `step` has the limit of
        `warmup`. Raises RankMonitorClientError when it has begun already.
        """
        if self.is_initialized:
            raise RankMonitorClientError("the monitoring has begun already; end it with shutdown_workload_monitoring()")
        own = self._session = session()
        given = own.limits
        self._warmup_steps = given.warmup_steps if num_warmup_iters is None else max(0, num_warmup_iters)
        self.hb_timeouts = self._loaded[0] or HeartbeatTimeouts(given.first_beat_s, given.beat_s)
        self.section_timeouts = self._loaded[1] or SectionTimeouts(dict(given.sections_s), given.out_of_section_s)
        self._times = LongestTimes()
        self._open, self._steps, self._last_beat_ns = {}, 0, 0
        self._begun_ns = self._outside_since_ns = time.monotonic_ns()
        self.is_initialized = True
        # the end of a section is a sign of life as well: only a script that sends heartbeats has their limit
        own.set_beat_limit(0)
        own.set_first_beat_limit(None)
        self._show()

    def shutdown_workload_monitoring(self) -> None:
        """No limit runs any more; it may begin anew."""
        if self.is_initialized and self._session is not None:
            for _, scope in self._open.values():
                scope.__exit__(None, None, None)
            self._open = {}
            self._session.set_beat_limit(0)
            self._session.set_section_deadline(0)
        self.is_initialized = False

    def send_heartbeat(self) -> None:
        """The worker is alive."""
        own = self._ready()
        now_ns = time.monotonic_ns()
        if self._last_beat_ns:
            self._times.beat_gap((now_ns - self._last_beat_ns) / NS_PER_S)
            own.beat()
        else:
            self._times.first_beat((now_ns - self._begun_ns) / NS_PER_S)
            own.beat()
            own.set_beat_limit(self.hb_timeouts.subsequent or 0)
        is_first, self._last_beat_ns = not self._last_beat_ns, now_ns
        if is_first:
            self._show()

    def start_section(self, section: str) -> None:
        """Open a section. One without a limit is not watched. Raises RankMonitorClientError where it is open."""
        own = self._ready()
        if section not in self.section_timeouts.section:
            return
        if section in self._open:
            raise RankMonitorClientError(f"section {section!r} is open already; end it first")
        now_ns = time.monotonic_ns()
        if not self._open:
            self._times.outside((now_ns - self._outside_since_ns) / NS_PER_S)
        scope = own.phase(section, limit=0)
        scope.__enter__()
        self._open[section] = (now_ns, scope)
        self._steps += section == STEP
        self._show()

    def end_section(self, section: str) -> None:
        """Close a section. Raises RankMonitorClientError where it is not open."""
        self._ready()
        if section not in self.section_timeouts.section:
            return
        if section not in self._open:
            raise RankMonitorClientError(f"section {section!r} is not open; start it first")
        self._close(section)
        self._show()

    def end_all_sections(self) -> None:
        """Close what is open."""
        self._ready()
        for section in tuple(self._open):
            self._close(section)
        self._show()

    def calculate_and_set_hb_timeouts(self, skip_if_not_ready: bool = False) -> bool:
        """Learn the limits of the heartbeats: the longest times of all ranks, times `--ft-safety-factor`.

        To be called by all ranks. Too little to learn from: False where that may be skipped, else
        RankMonitorClientError.
        """
        own = self._ready()
        times = self._times.of_all_ranks()
        learned = learned_heartbeats(times, own.limits.safety_factor, self.hb_timeouts)
        if learned is None:
            return self._too_little("two heartbeats", skip_if_not_ready)
        self.hb_timeouts = learned
        self._apply()
        return True

    def calculate_and_set_section_timeouts(
        self,
        selected_sections: Collection[str] | None = None,
        calc_out_of_section: bool = True,
        skip_if_not_ready: bool = False,
    ) -> bool:
        """Learn the limits of these sections, of all that are watched without a choice, and outside of sections.

        As `calculate_and_set_hb_timeouts`.
        """
        own = self._ready()
        if not self._open:
            self._times.outside((time.monotonic_ns() - self._outside_since_ns) / NS_PER_S)
        times = self._times.of_all_ranks()
        chosen = tuple(self.section_timeouts.section) if selected_sections is None else tuple(selected_sections)
        factor = own.limits.safety_factor
        learned = learned_sections(times, factor, self.section_timeouts, chosen, calc_out_of_section)
        if learned is None:
            return self._too_little("the end of every section", skip_if_not_ready)
        self.section_timeouts = learned
        self._apply()
        return True

    def state_dict(self) -> Mapping[str, Any]:
        """What was learned, for a checkpoint; the same on all ranks."""
        learned: dict[str, Any] = {}
        if self.hb_timeouts.are_valid and self.hb_timeouts.were_calculated:
            learned["heartbeat"] = self.hb_timeouts.as_dict()
        if self.section_timeouts.calculated_sections or self.section_timeouts.is_out_of_section_calculated:
            learned["section"] = self.section_timeouts.as_dict()
        return {self.CURRENT_TIMEOUTS_STATE_KEY: learned}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what was learned, before the monitoring begins or after."""
        told = state.get(self.CURRENT_TIMEOUTS_STATE_KEY, {})
        beats, sections = told.get("heartbeat"), told.get("section")
        self._loaded = (
            HeartbeatTimeouts(**beats) if beats is not None else self._loaded[0],
            SectionTimeouts.of(sections) if sections is not None else self._loaded[1],
        )
        if self.is_initialized:
            self.hb_timeouts = self._loaded[0] or self.hb_timeouts
            self.section_timeouts = self._loaded[1] or self.section_timeouts
            self._apply()

    def send_workload_control_request(self, req: WorkloadControlRequest) -> ControlAnswer:
        """Ask to stop restarting, or to go on without this node; the answer says what came of it."""
        return (self._session or session()).send_workload_control_request(req)

    def _ready(self) -> Session:
        if not self.is_initialized or self._session is None:
            raise RankMonitorClientError("call init_workload_monitoring() first")
        return self._session

    def _close(self, section: str) -> None:
        opened_ns, scope = self._open.pop(section)
        now_ns = time.monotonic_ns()
        self._times.section(section, (now_ns - opened_ns) / NS_PER_S)
        scope.__exit__(None, None, None)
        if not self._open:
            self._outside_since_ns = now_ns

    def _apply(self) -> None:
        if self._last_beat_ns:
            self._ready().set_beat_limit(self.hb_timeouts.subsequent or 0)
        self._show()

    def _show(self) -> None:
        """Put the earliest end of all limits on the page."""
        ends = [opened_ns + _ns(self._section_limit_s(name)) for name, (opened_ns, _) in self._open.items()
                if self._section_limit_s(name)]  # fmt: skip
        outside_s = self.section_timeouts.out_of_section
        if not self._open and outside_s and self._watches_outside:
            ends.append(self._outside_since_ns + _ns(outside_s))
        if not self._last_beat_ns and self.hb_timeouts.initial:
            ends.append(self._begun_ns + _ns(self.hb_timeouts.initial))
        self._ready().set_section_deadline(min(ends, default=0))

    @property
    def _watches_outside(self) -> bool:
        """Not before the first step, unless there is a limit for the warm-up: what comes first takes its time."""
        sections = self.section_timeouts.section
        return not sections or WARMUP in sections or self._steps > 0

    def _section_limit_s(self, name: str) -> float | None:
        return limit_of(self.section_timeouts.section, name, max(0, self._steps - 1), self._warmup_steps)

    @staticmethod
    def _too_little(what: str, may_skip: bool) -> bool:
        if may_skip:
            return False
        raise RankMonitorClientError(f"there is too little to learn limits from: every rank needs {what}")


def _ns(limit_s: float | None) -> int:
    return int((limit_s or 0.0) * NS_PER_S)
