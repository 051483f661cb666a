"""A real launcher under a rendezvous that does what the test says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from resurge_launcher.pages import remove_pages
from resurge_libs.testing import wait_until, wait_until_async
from resurge_libs.testing.process_faults import is_alive
from tests.fakes.rendezvous import FakeRendezvous


class Launched:
    """`resurge run` of one node as a process; everything it leaves is ended by `end`."""

    def __init__(self, folder: Path, rendezvous: FakeRendezvous, endpoint: str) -> None:
        self.folder = folder
        self.rendezvous = rendezvous
        self.endpoint = endpoint
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "launcher.log"
        # the path of a socket must be short, and pytest's folders are not
        self.run_dir = Path(tempfile.mkdtemp(prefix="resurge-"))
        self._pids: set[int] = set()

    def start(self, program: str, *flags: str, workers: int = 1, args: tuple[str, ...] = ()) -> None:
        """Start it on a training script of this text."""
        script = self.folder / "train.py"
        script.write_text(program)
        command = [sys.executable, "-m", "resurge_launcher", "run", "--rdzv-endpoint", self.endpoint]
        command += ["--rdzv-conf", "is_host=false", "--rdzv-id", "job", "--node-id", "n0", "--local-addr", "127.0.0.1"]
        command += ["--run-dir", str(self.run_dir), "--log-dir", str(self.folder / "logs")]
        if "--warm" not in flags:
            command += ["--warm", "off"]
        command += ["--nproc-per-node", str(workers), *flags, str(script), str(self.folder), *args]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def running(self, generation: int = 1, workers: int = 1) -> list[int]:
        """Start a generation; the workers' pids once each has written its own."""
        await self.rendezvous.until("READY")
        await wait_until_async(lambda: self.rendezvous.told.store_offer.port, 20, "an offer of a store")
        self.rendezvous.want_run(generation, workers)
        await self.rendezvous.until("RUNNING", generation)
        return await self.pids(generation, workers)

    async def pids(self, generation: int, workers: int) -> list[int]:
        files = [self.folder / f"pid-{generation}-{rank}" for rank in range(workers)]
        await wait_until_async(
            lambda: all(f.exists() and f.read_text().endswith("\n") for f in files), 20, "worker pids"
        )
        pids = [int(file.read_text()) for file in files]
        self._pids |= set(pids)
        return pids

    def pid_in(self, name: str) -> int:
        """A pid that a worker wrote into a file."""
        path = self.folder / name
        text = wait_until(lambda: path.exists() and path.read_text(), 20, name)
        self._pids.add(int(text))
        return int(text)

    async def exit_code(self, limit_s: float = 20.0) -> int:
        assert self.process is not None
        await wait_until_async(lambda: self.process.poll() is not None, limit_s, "the launcher's end")
        return int(self.process.returncode)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        for pid in (self.process.pid if self.process and self.process.poll() is None else 0, *self._pids):
            if pid and is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(10)
        remove_pages(self.run_dir)  # a killed launcher leaves them to its successor
        shutil.rmtree(self.run_dir, ignore_errors=True)


def end_control_plane(state_dir: Path) -> None:
    """End the control plane that holds this state directory, whoever started it last."""
    try:
        pid = int((state_dir / "control.lock").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return
    if str(state_dir).encode() in command:
        os.kill(pid, signal.SIGKILL)


PREAMBLE = """
import os, signal, sys, time, threading
folder = sys.argv[1]
me = "%s-%s" % (os.environ["RESURGE_GENERATION"], os.environ["RANK"])
def said(name, text):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        file.write("%s\\n" % text)
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))
"""
SAY_PID = PREAMBLE + "said('pid-' + me, os.getpid())\n"
FOREVER = SAY_PID + "threading.Event().wait()\n"
