"""First instructions of a worker: die with the launcher, then become the training program.

Run as `python -I -S shim.py LAUNCHER_PID [FD] -- ARGV...`; the descriptor is one that the program does not get. The
kernel ends this process when its parent ends; the order signal-then-check closes the gap in which the parent may have
ended already.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
ADOPTION_LIMIT_S = 5.0
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def main(launcher_pid: int, argv: list[str]) -> None:
    """Become the program, as a child that ends with the launcher."""
    give_up_at = time.monotonic() + ADOPTION_LIMIT_S
    while os.getppid() != launcher_pid:  # a fork server's grandchild is adopted a moment later
        if time.monotonic() > give_up_at:
            os._exit(NOT_EXECUTABLE)
        time.sleep(0.001)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher_pid:
        os._exit(NOT_EXECUTABLE)
    # Python ignores SIGPIPE and the launcher may have blocked signals: the program starts with the usual ones
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"resurge: cannot start {argv[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


if __name__ == "__main__":
    at = sys.argv.index("--")
    for own in sys.argv[2:at]:
        os.set_inheritable(int(own), False)
    main(int(sys.argv[1]), sys.argv[at + 1 :])
