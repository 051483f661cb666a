"""What a look makes of what it saw, without a process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from resurge_launcher.core.findings import How
from resurge_launcher.processes import inspection


@pytest.mark.parametrize(
    ("looks", "how"), [(inspection.LOOKS, How.LIVELOCK), (inspection.LOOKS - 1, How.UNKNOWN)], ids=["watched", "brief"]
)
def test_a_look_too_short_to_see_who_runs_tells_of_no_livelock(looks: int, how: How):
    late = [2 * inspection.BYTECODE_ANSWER_S] * inspection.ANSWERS
    subject = inspection.Subject(0, 1, 0, Path("/none"), 0, None, looks=looks, running=looks, answers_s=late)
    stat = SimpleNamespace(is_stopped=False, waits_for_device=False)
    assert inspection._how(subject, stat, None) is how  # type: ignore[arg-type]
