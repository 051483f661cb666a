"""From resolved options to how a job's progress over restarts is judged. Pure."""

from __future__ import annotations

from resurge_launcher.commands.sources import Resolved
from resurge_libs.core.progress import ProgressRules, ProgressSource


def progress_of(resolved: Resolved) -> ProgressRules:
    """The job's rules; nothing is tracked where a marker would count and none is named."""
    source = ProgressSource(resolved["progress_source"].value)
    if source is ProgressSource.MARKER and not resolved["checkpoint_iteration_file"].is_given:
        source = ProgressSource.NONE
    return ProgressRules(source, resolved["min_progress_iterations"].value, resolved["max_no_progress_cycles"].value)


def progress_notices(resolved: Resolved) -> list[str]:
    """What is to be said once at start: that nothing is tracked, where it could be."""
    if progress_of(resolved).source is not ProgressSource.NONE or not resolved["max_no_progress_cycles"].value:
        return []
    asked = [name for name in ("min_progress_iterations", "max_no_progress_cycles") if resolved[name].is_given]
    if not asked and not resolved["max_restarts"].value:
        return []  # nothing is restarted, so nothing can go in circles
    named = f"{resolved[asked[0]].source} has no effect: " if asked else ""
    return [
        f"{named}progress over restarts is not tracked, and only --max-restarts bounds a job that goes in circles; "
        "name the marker of completed checkpoints with --ft-checkpoint-iteration-file."
    ]
