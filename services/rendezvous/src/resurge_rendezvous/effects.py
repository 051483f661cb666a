"""One handler per action of the core. Decides nothing; the engine calls in order, after the step is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, assert_never

from resurge_libs.core.machine import Reply
from resurge_libs.obs import log
from resurge_rendezvous.clients import NoVerdict, PolicyPort, PolicySilent
from resurge_rendezvous.core.model import (
    Action,
    AnnounceKey,
    AnswerBeat,
    AskPolicy,
    CloseStream,
    ExportRecovery,
    PublishJob,
    SendDesired,
    VerdictArrived,
    VerdictUnavailable,
)
from resurge_rendezvous.desk import Desk
from resurge_rendezvous.export import RecoveryExport
from resurge_rendezvous.wire_out import beat_reply


class RdzvEffects:
    """Carries out actions on streams, waits, policy and export; belongs to one event loop."""

    def __init__(self, desk: Desk, policy: PolicyPort, export: RecoveryExport, changed: Callable[[], None]) -> None:
        self._desk, self._policy, self._export, self._changed = desk, policy, export, changed
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, action: Action) -> None:
        """Start one action. Never raises: one that fails must not keep the others of its step from happening."""
        try:
            self._run(action)
        except Exception as error:  # task root: one action; the others of its step go on
            log.event("action_failed", action=type(action).__name__, error=repr(error))

    def _run(self, action: Action) -> None:
        match action:
            case SendDesired(stream=name, desired=desired):
                stream = self._desk.streams.get(name)
                if stream is not None:
                    stream.put_desired(desired)
            case AnswerBeat(stream=name):
                stream = self._desk.streams.get(name)
                if stream is not None:
                    stream.put_beat_reply(beat_reply(action, self._desk.clock.wall()))
            case CloseStream(stream=name, refusal=refusal):
                stream = self._desk.streams.get(name)
                if stream is not None:
                    stream.end(refusal)
            case AskPolicy():
                self._begin(self._ask_policy(action))
            case PublishJob():
                self._changed()
            case AnnounceKey(key=key):
                self._desk.waits.wake(key)
            case ExportRecovery(record=record):
                self._export.export(record)
            case Reply():
                raise AssertionError("the engine answers replies itself")
            case _:
                assert_never(action)

    async def stop(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_policy(self, asked: AskPolicy) -> None:
        view, limit_s = asked.view, asked.deadline_s
        try:
            verdict = await self._policy.decide(view, limit_s)
        except PolicySilent:
            log.event("policy_silent", incident=view.incident, round=view.round, limit_s=limit_s)
        except NoVerdict as problem:
            log.event("policy_unavailable", incident=view.incident, round=view.round, sentence=str(problem))
            self._unavailable(asked, str(problem))
        except Exception as error:  # the root of this task: without an answer the core's deadline decides at the latest
            log.event("policy_call_failed", incident=view.incident, round=view.round, error=repr(error))
            self._unavailable(asked, repr(error))
        else:
            stamp = self._desk.stamp()
            self._desk.post_if_ready(VerdictArrived(stamp, view.incident, view.round, verdict, asked.question))

    def _unavailable(self, asked: AskPolicy, why: str) -> None:
        stamp, view = self._desk.stamp(), asked.view
        self._desk.post_if_ready(VerdictUnavailable(stamp, view.incident, view.round, why, asked.question))
