"""A bounded look at a node's workers: are they stopped, does their interpreter run, where is the main thread.

Takes what the page, the kernel and the stacks say together into one finding for each; who is to blame is decided by
../core/hangs.py. A worker is disturbed by one signal that writes its stacks into memory, and by nothing else.
Where those cannot be had and py-spy is installed, it is asked. Effects: signals, files in memory, child processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resurge_launcher.core.findings import Finding, How
from resurge_launcher.processes import kernel, thread_stacks
from resurge_launcher.processes.probes import Probe
from resurge_launcher.processes.py_spy import PySpy
from resurge_libs.core.instant import Instant

LOOK_S = 0.005
"""Between two looks at what is still on its way."""
BRIEF_LOOK_S = 0.002
"""The same where workers are only kept until their stacks are there."""
WATCH_S = 0.05
"""How long main threads are watched at least: less says little of what they do."""
LOOKS = 6
ANSWERS = 4
"""So many looks, and answers to the probe, at least: a busy machine puts fewer into the same time."""
QUIET_S = 0.01
"""Stacks that have not grown for so long are whole, whatever they end with."""
GIL_SILENCE_S = 0.1
"""A probe that nobody answers for so long means that the interpreter does not run; otherwise it takes milliseconds."""
BUSY_SHARE = 0.5
"""A main thread that wants a processor in so many of the looks runs; one that waits for anything else does not."""
BYTECODE_ANSWER_S = 0.003
"""Python code gives the interpreter away each 5 ms: answers that hardly ever come sooner had to wait for such code."""
STACKS_LIMIT_BYTES = 256 * 1024
PY_SPY_S = 0.3


@dataclass
class Subject:
    """One living worker that is to be looked at."""

    local_rank: int
    pid: int
    pidfd: int
    stacks_path: Path
    stacks_signal: int
    probe: Probe | None
    looks: int = 0
    running: int = 0
    """In so many of the looks its main thread ran, or waited for a processor only."""
    stacks_from: int = 0
    grown_at: float = 0.0
    size: int = 0
    answers_s: list[float] = field(default_factory=list)
    stacks: str = ""
    is_signalled: bool = False
    is_mute: bool = False
    """Its interpreter did not run before the look began: the signal may have woken it since."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found, and the stacks of those that wrote them, by local rank."""

    findings: tuple[Finding, ...]
    stacks: dict[int, str]


def inspect(
    subjects: Sequence[Subject], with_stacks: bool, limit_s: float, spy: PySpy, is_brief: bool = False
) -> Coroutine[Any, Any, Look]:
    """Look at them all at once; takes at most the limit, and a moment. A brief look tells of no livelock.

    It begins with this call, the rest is awaited: what is done to the workers afterwards changes no stacks.
    """
    began = time.monotonic()
    for subject in subjects:
        _begin(subject, with_stacks)
    return _watched(subjects, with_stacks, began, limit_s, spy, is_brief)


async def _watched(
    subjects: Sequence[Subject], with_stacks: bool, began: float, limit_s: float, spy: PySpy, is_brief: bool
) -> Look:
    while not _is_enough(subjects, began, is_brief) and time.monotonic() < began + limit_s:  # bounded looks
        await asyncio.sleep(BRIEF_LOOK_S if is_brief else LOOK_S)
        for subject in subjects:
            _go_on(subject)
    left_s = limit_s - (time.monotonic() - began)
    if with_stacks:
        await _ask(spy, [s for s in subjects if not s.stacks], min(left_s, PY_SPY_S))
    findings = tuple(finding for s in subjects if (finding := _finding(s)) is not None)
    return Look(findings, {s.local_rank: s.stacks for s in subjects if s.stacks})


def _begin(subject: Subject, with_stacks: bool) -> None:
    if subject.probe is not None:
        subject.is_mute = _is_mute(subject.probe)
        subject.probe.ask(Instant(time.monotonic()))
    with contextlib.suppress(OSError):
        subject.stacks_from = subject.size = subject.stacks_path.stat().st_size
    stat, number = kernel.stat_of(subject.pid), subject.stacks_signal
    if with_stacks and number and stat is not None and not stat.is_stopped and kernel.catches(subject.pid, number):
        kernel.send(subject.pidfd, number)
        subject.is_signalled = True
        subject.grown_at = time.monotonic()


def _is_mute(probe: Probe) -> bool:
    since = probe.unanswered_since
    return since is not None and time.monotonic() >= since + GIL_SILENCE_S


def _go_on(subject: Subject) -> None:
    stat, probe = kernel.stat_of(subject.pid), subject.probe
    subject.looks += 1
    subject.running += stat is not None and stat.is_running
    if probe is not None and probe.answer_took_s is not None:
        subject.answers_s.append(probe.answer_took_s)
        probe.ask(Instant(time.monotonic()))
    with contextlib.suppress(OSError):
        size = subject.stacks_path.stat().st_size if subject.is_signalled else 0
        if size > subject.size:
            subject.size, subject.grown_at = size, time.monotonic()
    if subject.size > subject.stacks_from and not subject.stacks:
        stacks = _read(subject.stacks_path, subject.stacks_from)
        if thread_stacks.is_whole(stacks) or time.monotonic() >= subject.grown_at + QUIET_S:
            subject.stacks = stacks


def _is_enough(subjects: Sequence[Subject], began: float, is_brief: bool) -> bool:
    now = time.monotonic()
    is_watched = now >= began + WATCH_S and all(subject.looks >= LOOKS for subject in subjects)
    if not (is_watched or is_brief or any(_is_decided(subject) for subject in subjects)):
        return False
    answers = 1 if is_brief else ANSWERS
    return all(_is_known(subject, now, answers) for subject in subjects)


def _is_decided(subject: Subject) -> bool:
    """Whether its cause is among the clearest ones: watching the others for longer would change nothing."""
    stat = kernel.stat_of(subject.pid)
    return subject.is_mute or (stat is not None and stat.is_stopped)


def _is_known(subject: Subject, now: float, answers: int) -> bool:
    stat = kernel.stat_of(subject.pid)
    if stat is None or stat.is_over or stat.is_stopped:
        return True
    if subject.is_signalled and not subject.stacks:
        return False
    probe = subject.probe
    if probe is None or not probe.is_answerable or subject.is_mute or len(subject.answers_s) >= answers:
        return True
    return probe.unanswered_since is not None and now >= probe.unanswered_since + GIL_SILENCE_S


def _read(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(STACKS_LIMIT_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _finding(subject: Subject) -> Finding | None:
    stat = kernel.stat_of(subject.pid)
    if stat is None or stat.is_over:
        return None
    frames = thread_stacks.main_stack(subject.stacks)
    found = thread_stacks.place(frames)
    how = _how(subject, stat, found)
    return Finding(subject.local_rank, how, str(found) if found is not None else "")


def _how(subject: Subject, stat: kernel.ProcessStat, place: thread_stacks.Frame | None) -> How:
    if stat.is_stopped:
        return How.STOPPED
    if subject.is_mute or (subject.probe is not None and not subject.answers_s and _is_mute(subject.probe)):
        return How.GIL_HELD
    if place is not None and place.is_collective:
        return How.WAITS
    if subject.running > BUSY_SHARE * subject.looks:
        # native code that spins, as a device's driver does while it waits, leaves the interpreter to others
        is_watched = subject.looks >= LOOKS and len(subject.answers_s) >= ANSWERS
        return How.LIVELOCK if is_watched and _waits_for_bytecode(subject.answers_s) else How.UNKNOWN
    if stat.waits_for_device:
        return How.DEVICE
    return How.BLOCKED if place is not None and not place.is_framework else How.UNKNOWN


def _waits_for_bytecode(answers_s: Sequence[float]) -> bool:
    """Whether all but one in four came late: one may profit from another thread that had asked for the interpreter."""
    return bool(answers_s) and sorted(answers_s)[len(answers_s) // 4] >= BYTECODE_ANSWER_S


async def _ask(spy: PySpy, subjects: Sequence[Subject], limit_s: float) -> None:
    found = await asyncio.gather(*(spy.dump(subject.pid, limit_s) for subject in subjects))
    for subject, stacks in zip(subjects, found, strict=True):
        subject.stacks = stacks
