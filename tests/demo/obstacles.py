"""Stands in the way of everything that the demo's job writes for people: records, reports, traces, workers' output."""

from __future__ import annotations

from pathlib import Path

from tests.demo.cluster import NODES, DemoFailed


class Obstacles:
    """Directories where files should go, and files where directories should; what must be said about each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cycles = folder / "cycles"
        self.reports = [folder / "state" / name for name in ("recoveries.jsonl", "spans.jsonl", "job.json")]
        self.logs = [folder / f"logs-{node}" for node in NODES]

    def before_the_start(self) -> None:
        """What the control plane writes."""
        for path in self.reports:
            path.mkdir(parents=True)
            (path / "in the way").touch()
        self.cycles.write_text("in the way")

    def once_it_runs(self) -> None:
        """What launchers write: a log directory that cannot be used at their start is refused there."""
        for path in self.logs:
            if path.exists():
                path.rename(path.with_name(f"{path.name}-before"))
            path.write_text("in the way")

    def said(self) -> list[str]:
        """The places that were named as ones that cannot be written. Raises DemoFailed where one was not."""
        texts = [(self.folder / f"{name}.log").read_text(errors="replace") for name in ("control", *NODES)]
        lines = [line for text in texts for line in text.splitlines() if "record_not_written" in line]
        silent = [path for path in (*self.reports, self.cycles) if not any(f"path={path}" in line for line in lines)]
        if silent:
            raise DemoFailed(f"nothing was said about {', '.join(map(str, silent))}")
        if not any(f"path={path}/" in line for path in self.logs for line in lines):
            raise DemoFailed("nothing was said about the workers' output")
        if not any("cycle_record_not_there" in text for text in texts):
            raise DemoFailed("no launcher said that a cycle has no record")
        return [line.partition("sentence=")[2].strip('"') for line in lines]
