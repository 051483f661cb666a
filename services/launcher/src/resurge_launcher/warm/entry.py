"""The file that the fork server is started with, and that its workers go on from: both are this one `__main__`.

Run as `python -u entry.py SOURCE_ROOT DEATH_LOCK FD LAUNCHER_PID KIND PRELOAD PROGRAM ARGS...`. The package is found
through SOURCE_ROOT at the end of the path and only while it is imported, so that no name of ours hides one of the
program's.
"""

import sys

_at_start = frozenset(sys.modules)
if not sys.flags.safe_path:
    del sys.path[0]
sys.path.append(sys.argv[1])
import socket  # noqa: E402

from resurge_launcher.warm.program import Program, run  # noqa: E402
from resurge_launcher.warm.server import Host, serve  # noqa: E402

del sys.path[-1]
_, _, _death_lock, _fd, _launcher, _kind, _preload, _name, *_args = sys.argv
_program = Program(_kind, _name, tuple(_args))
_host = Host(tuple(filter(None, _preload.split(","))), _at_start, _death_lock)
serve(socket.socket(fileno=int(_fd)), int(_launcher), _program, _host)
run(_program)
