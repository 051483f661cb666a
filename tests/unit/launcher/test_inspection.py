"""What a look makes of what it saw, without a process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from resurge_launcher.core.findings import How
from resurge_launcher.processes import inspection
from resurge_launcher.processes.py_spy import PySpy


@pytest.mark.parametrize(
    ("looks", "how"), [(inspection.LOOKS, How.LIVELOCK), (inspection.LOOKS - 1, How.UNKNOWN)], ids=["watched", "brief"]
)
def test_a_look_too_short_to_see_who_runs_tells_of_no_livelock(looks: int, how: How):
    late = [2 * inspection.BYTECODE_ANSWER_S] * inspection.ANSWERS
    subject = inspection.Subject(0, 1, 0, Path("/none"), 0, None, looks=looks, running=looks, answers_s=late)
    stat = SimpleNamespace(is_stopped=False, waits_for_device=False)
    assert inspection._how(subject, stat, None) is how  # type: ignore[arg-type]


async def test_a_look_begins_with_its_call_so_that_what_is_ordered_behind_it_changes_no_stacks(tmp_path, monkeypatch):
    sent: list[tuple[int, int]] = []
    running = SimpleNamespace(is_stopped=False, is_over=False, is_running=False, waits_for_device=False)
    monkeypatch.setattr(inspection.kernel, "stat_of", lambda pid: running)
    monkeypatch.setattr(inspection.kernel, "catches", lambda pid, number: True)
    monkeypatch.setattr(inspection.kernel, "send", lambda pidfd, number: sent.append((pidfd, number)))
    stacks = tmp_path / "stacks"
    subject = inspection.Subject(0, 1, 7, stacks, 43, None)
    look = asyncio.create_task(inspection.inspect([subject], True, 10.0, PySpy(), is_brief=True))
    assert sent == [(7, 43)], "nothing was awaited yet"
    stacks.write_text('Current thread 0x1 (most recent call first):\n  File "a.py", line 1 in f\n')
    assert (await look).stacks[0].startswith("Current thread")
