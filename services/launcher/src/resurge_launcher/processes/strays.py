"""Ends what workers left behind, and says when nothing is left.

A stray is a child of this launcher that it did not start (orphans come to it: it is their subreaper), or any process
whose environment carries this job and node, with descendants, unless another launcher lives that started it. Strays
are signalled by pidfd only, after a second look through that pidfd's process; the launcher, its ancestors and its
control plane are exempt. Every process's environment is read in a thread, for a machine may have thousands; all else
runs in the event loop, and nothing here waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Collection

from resurge_launcher.node_environment import LAUNCHER
from resurge_launcher.processes import kernel

RESCAN_S = 0.02
"""Pause between two looks while known strays are alive: new orphans may have come."""
RESCAN_MAX_S = 0.5


class Strays:
    """Looks for strays of one (job, node)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, marks: Collection[bytes], exempt: Callable[[], set[int]]
    ) -> None:
        self._loop = loop
        self._marks = frozenset(marks)
        self._launcher_mark = f"{LAUNCHER}=".encode()
        self._exempt = exempt
        self._own: Callable[[int], bool] = lambda pid: False
        self._watched: dict[int, int] = {}
        self._signal = 0
        self._on_gone: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Future[frozenset[int]] | None = None
        """The look that is under way."""
        self._wait_s = RESCAN_S

    def leave_to_others(self, reaped_elsewhere: Callable[[int], bool]) -> None:
        """Children for which the callable is true are reaped by their own watch."""
        self._own = reaped_elsewhere

    def sweep(self, signal: int, on_gone: Callable[[], None]) -> None:
        """End all strays by the signal, and call back when a full look finds none. A second call replaces the first."""
        self._signal, self._on_gone, self._wait_s = signal, on_gone, RESCAN_S
        for pidfd in self._watched.values():
            kernel.send(pidfd, signal)
        self._drop_look()
        self._look()

    def stop(self) -> None:
        """Look no further."""
        self._on_gone = None
        self._drop_look()
        self._cancel_timer()
        for pid in list(self._watched):
            self._forget(pid)

    def reap_orphans(self) -> None:
        """Reap adopted children that have ended, so that they do not pile up while workers run."""
        for pid in kernel.children_of(os.getpid()):
            if not self._own(pid) and pid not in self._watched and pid not in self._exempt():
                stat = kernel.stat_of(pid)
                if stat is not None and stat.is_over:
                    kernel.reap_pid(pid)

    def marked(self) -> frozenset[int]:
        """Every process that carries (job, node), and that no other living launcher started. Reads all of them."""
        return frozenset(pid for pid in kernel.all_pids() if self._is_marked(pid))

    def find(self, marked: Collection[int]) -> dict[int, int]:
        """Every stray that lives now, given those that are marked: its pid, and when it was started, which names it for
        good."""
        children = set(kernel.children_of(os.getpid()))
        # asked after the look: whatever is exempt is known to be so before it can be seen as a child
        exempt = self._exempt() | {os.getpid(), *kernel.ancestors_of(os.getpid())}
        roots = (children | self._still_marked(marked, children)) - exempt
        found = set(roots)
        for root in roots:
            found |= {pid for pid in kernel.descendants_of(root) if pid not in exempt}
        return {pid: stat.started for pid in found if (stat := kernel.stat_of(pid)) and not self._is_over(pid, stat)}

    def _still_marked(self, marked: Collection[int], children: Collection[int]) -> set[int]:
        """A number may have become another process's while the others were read."""
        return {pid for pid in marked if pid not in children and self._is_marked(pid)}

    def _is_marked(self, pid: int) -> bool:
        """Whether it carries (job, node), and no other launcher lives that it belongs to."""
        variables = set(kernel.environ_of(pid).split(b"\0"))
        if not self._marks <= variables:
            return False
        named = next((v[len(self._launcher_mark) :] for v in variables if v.startswith(self._launcher_mark)), b"")
        launcher = named.decode(errors="replace")
        number = launcher.partition(":")[0]
        is_ours = number == str(os.getpid())
        return is_ours or not number.isdecimal() or kernel.process_name(int(number)) != launcher

    def _is_over(self, pid: int, stat: kernel.ProcessStat) -> bool:
        if not stat.is_over:
            return False
        # a zombie of ours that nobody else reaps is reaped here; one that another watch reaps is still to be told
        if stat.parent == os.getpid():
            if self._own(pid):
                return False
            kernel.reap_pid(pid)
        return True

    def _look(self) -> None:
        self._cancel_timer()
        if self._on_gone is None or self._reading is not None:
            return
        self._reading = _read_in_thread(self._loop, self.marked)
        self._reading.add_done_callback(self._looked)

    def _looked(self, reading: asyncio.Future[frozenset[int]]) -> None:
        if reading is not self._reading:
            return  # of a sweep that another has replaced
        self._reading = None
        found = self.find(reading.result())
        for pid, started in found.items():
            if pid not in self._watched:
                self._take(pid, started)
        if not found and not self._watched:
            on_gone, self._on_gone = self._on_gone, None
            assert on_gone is not None, "a sweep that was stopped has no look under way"
            on_gone()
            return
        self._timer = self._loop.call_later(self._wait_s, self._look)
        self._wait_s = min(self._wait_s * 2, RESCAN_MAX_S)

    def _take(self, pid: int, started: int) -> None:
        pidfd = kernel.open_pidfd(pid)
        if pidfd is None:
            return
        # the number means this process for good now; was it this one that was found?
        stat = kernel.stat_of(pid)
        if stat is None or stat.started != started:
            os.close(pidfd)
            return
        self._watched[pid] = pidfd
        kernel.send(pidfd, self._signal)
        self._loop.add_reader(pidfd, self._ended, pid)

    def _ended(self, pid: int) -> None:
        self._forget(pid)
        if not self._own(pid):
            kernel.reap_pid(pid)
        if not self._watched:
            self._wait_s = RESCAN_S
            self._cancel_timer()
            self._drop_look()  # it began before this end, and may have missed what was forked just before that
            # after the other callbacks of this moment: a worker's own watch may have to reap it first
            self._timer = self._loop.call_later(0, self._look)

    def _forget(self, pid: int) -> None:
        pidfd = self._watched.pop(pid, None)
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def _drop_look(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _read_in_thread(
    loop: asyncio.AbstractEventLoop, read: Callable[[], frozenset[int]]
) -> asyncio.Future[frozenset[int]]:
    """In a thread that nothing waits for at the launcher's end, as it would for one of the loop's own: the kernel may
    hold the reader of a process that a file system holds."""
    answer: asyncio.Future[frozenset[int]] = loop.create_future()

    def tell(found: frozenset[int] | BaseException) -> None:
        if answer.done():
            return
        if isinstance(found, BaseException):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def go() -> None:
        found: frozenset[int] | BaseException
        try:
            found = read()
        except BaseException as error:  # task root: raised again where the answer is taken
            found = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=go, name="strays", daemon=True).start()
    return answer
