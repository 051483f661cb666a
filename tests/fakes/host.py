"""A real host process for tests: started with arguments, waited for, killed and started again on the same directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc.aio

from resurge_libs.testing.wait import wait_until

READY = " ready endpoint="
READY_LIMIT_S = 30.0


@dataclass
class HostProcess:
    """One process that serves; `with` starts it and makes sure that it ends."""

    state_dir: Path
    targets: str = "all"
    module: str = "resurge_host"
    listen: str = ""
    """A Unix socket in a short directory of its own, unless given."""
    more: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    max_file_bytes: int | None = None
    """Files cannot grow beyond this: a full disk."""

    process: subprocess.Popen[str] | None = None
    endpoint: str = ""
    ready_after_s: float = 0.0
    cpu_until_ready_s: float = 0.0
    """What the start cost the processor: on a busy machine the wall clock tells more of the others."""

    def __post_init__(self) -> None:
        self._own_dir = tempfile.TemporaryDirectory(prefix="rsg")  # paths of sockets are short
        if not self.listen:
            self.listen = f"unix:{self._own_dir.name}/host.sock"
        self.log_path = Path(self._own_dir.name) / "host.log"

    def __enter__(self) -> HostProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if kind is not None:
            print(f"--- log of {self.module} ---\n{self.log()}", file=sys.stderr)
        self._own_dir.cleanup()

    def command(self) -> list[str]:
        """The command line."""
        words = [*self.more]
        if self.module == "resurge_host":
            words += ["--targets", self.targets]
        words += ["--listen", self.listen, "--state-dir", str(self.state_dir), "--log-json"]
        if self.max_file_bytes is None:
            return [sys.executable, "-m", self.module, *words]
        script = (
            "import resource, runpy, sys; "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({self.max_file_bytes}, {self.max_file_bytes})); "
            f"sys.argv[0] = {self.module!r}; runpy.run_module({self.module!r}, run_name='__main__')"
        )
        return [sys.executable, "-c", script, *words]

    def launch(self) -> HostProcess:
        """Start without waiting."""
        assert self.process is None or self.process.poll() is not None, "still running"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("RESURGE_", "OTEL_"))}
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**environment, **self.env},
                start_new_session=True,
            )
        return self

    def start(self) -> HostProcess:
        """Start and wait until it says ready. Raises AssertionError with its log when it ends instead."""
        began = time.monotonic()
        self.launch()
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        assert READY in line, f"not ready but {line!r}, code {self.process.wait()}:\n{self.log()}"
        self.ready_after_s = time.monotonic() - began
        self.cpu_until_ready_s = cpu_s(self.pid)
        self.endpoint = line.partition(READY)[2].split()[0]
        return self

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None
        return self.process.pid

    def channel(self) -> grpc.aio.Channel:
        """A plain channel, quick to reconnect."""
        options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
        return grpc.aio.insecure_channel(
            self.endpoint, [*options, ("grpc.min_reconnect_backoff_ms", 50), ("grpc.use_local_subchannel_pool", 1)]
        )

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def wait(self, limit_s: float = 20.0) -> int:
        """Wait until it ends by itself; the exit code."""
        assert self.process is not None
        return self.process.wait(limit_s)

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        code = self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def log(self) -> str:
        """All that it wrote to stderr."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log events by this name."""
        found = []
        for line in self.log().splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                if record.get("event") == name:
                    found.append(record)
        return found

    def wait_event(self, name: str, limit_s: float = 10.0) -> dict[str, Any]:
        """The first event by this name, once it is there."""
        return wait_until(lambda: self.events(name), limit_s, f"event {name}")[0]


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
