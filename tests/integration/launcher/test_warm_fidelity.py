"""A forked worker is what an exec'd one is: every scene is played both ways, and what the workers saw is compared."""

from __future__ import annotations

import json
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.launcher.warm_stage import Scene, play

pytestmark = pytest.mark.integration


def both(folder: Path, scene: Scene) -> tuple[dict, dict]:
    """The first worker of a scene: exec'd, and forked (it must have been)."""
    cold = play(folder, replace(scene, warm=False))["workers"][0]
    found = play(folder, replace(scene, warm=True))
    assert found["cold"] == "", found["cold"] + found["log"]
    return cold, found["workers"][0]


def program(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


def plain(text: str) -> str:
    """Without what differs between any two processes; a worker's stack begins a few frames below its program."""
    text = re.sub(r"repeated \d+ more", "repeated N more", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x", re.sub(r"\bpid \d+", "pid N", text))


SURROUNDINGS = """
import json, os, resource, signal, stat, sys, threading
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
def kind(fd):
    mode = os.fstat(fd).st_mode
    return "pipe" if stat.S_ISFIFO(mode) else os.readlink(f"/proc/self/fd/{fd}")
def stream(s):
    return [s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, type(s.buffer).__name__,
            s.newlines, s.isatty(), s.fileno(), os.get_inheritable(s.fileno()), s.seekable()]
listing = set()
for name in os.listdir("/proc/self/fd"):
    try:
        os.fstat(int(name))
        listing.add(int(name))
    except OSError:
        pass
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": str(sys.flags), "exe": sys.executable,
    "prefix": sys.prefix, "warnoptions": sys.warnoptions, "main": sorted(sys.modules["__main__"].__dict__),
    "main_here": sys.modules["__main__"].__dict__ is globals(), "name": __name__,
    "file": __file__, "doc": __doc__, "builtins": type(__builtins__).__name__,
    "spec": [getattr(__spec__, "name", None), getattr(__spec__, "origin", None)],
    "package": __package__, "loader": type(__loader__).__name__,
    "cwd": os.getcwd(), "environ": dict(os.environ), "umask": status["Umask"],
    "signals": {name: status[name] for name in ("SigBlk", "SigIgn", "SigCgt")},
    "handlers": {int(n): str(signal.getsignal(n)) for n in signal.valid_signals()},
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "cpus": sorted(os.sched_getaffinity(0)), "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "session": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid(),
    "fds": sorted(listing), "kinds": [kind(fd) for fd in (0, 1, 2)],
    "streams": [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "recursion": sys.getrecursionlimit(), "trace": sys.gettrace(), "switch": sys.getswitchinterval(),
    "threads": [t.name for t in threading.enumerate()],
    "main_thread": threading.main_thread().ident == threading.get_ident(),
    "native": threading.main_thread().native_id == os.getpid(),
}))
"""


@pytest.mark.parametrize(
    "scene",
    [
        Scene(True, "train.py", ["--epochs", "3", "a b", "ü"]),
        Scene(True, "sub/train.py"),
        Scene(True, "pkg.train", ["x"], kind="module"),
        Scene(True, "pkg", kind="module"),
        Scene(True, "train.py", env={"PYTHONSAFEPATH": "1"}),
        Scene(True, "train.py", env={"PYTHONWARNINGS": "error::UserWarning", "PYTHONOPTIMIZE": "1", "TZ": "UTC+3"}),
        Scene(True, "train.py", umask=0o027, ignored=[signal.SIGHUP, signal.SIGUSR1, signal.SIGINT], nice=3),
        Scene(True, "train.py", limits={"RLIMIT_CORE": (0, 0), "RLIMIT_AS": (8 << 30, -1), "RLIMIT_NOFILE": (99, 99)}),
        Scene(True, "train.py", cpus=[0]),
    ],
    ids=["script", "in-a-folder", "module", "package", "safe-path", "flags", "signals", "limits", "cpus"],
)  # fmt: skip
def test_what_a_worker_finds(tmp_path: Path, scene: Scene):
    for name in ("train.py", "sub/train.py", "pkg/train.py", "pkg/__main__.py"):
        program(tmp_path, SURROUNDINGS, name)
    program(tmp_path, "", "pkg/__init__.py")
    cold, warm = (json.loads(worker["out"]) for worker in both(tmp_path, scene))
    assert set(cold) == set(warm)
    for key in cold:
        assert warm[key] == cold[key], key


def test_an_absolute_path_and_a_link_to_a_script(tmp_path: Path):
    real = tmp_path / "real" / "deep.py"
    real.parent.mkdir()
    real.write_text(SURROUNDINGS)
    (tmp_path / "link.py").symlink_to(real)
    for name in (str(real), "link.py"):
        cold, warm = (json.loads(worker["out"]) for worker in both(tmp_path, Scene(True, name)))
        assert [warm[key] for key in ("path", "file", "argv")] == [cold[key] for key in ("path", "file", "argv")]


ENDS = {
    "returns": "print('done')",
    "exit-0": "import sys; sys.exit()",
    "exit-3": "import sys; sys.exit(3)",
    "exit-text": "import sys; sys.exit('what went wrong')",
    "exit-big": "import sys; sys.exit(300)",
    "os-exit": "import os; print('x', end=''); os._exit(7)",
    "raises": "def f(n):\n    return 1 / n\n\nprint('before')\nf(0)\n",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('ü') from e\n",
    "interrupt": "raise KeyboardInterrupt",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "segfault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "import os; os.abort()",
    "hook": "import sys\nsys.excepthook = lambda t, v, tb: print(t, tb.tb_lineno, sys.exc_info())\nraise KeyError(1)",
    "bad-hook": "import sys\ndef h(*_):\n    raise OSError('h')\nsys.excepthook = h\nraise KeyError(1)\n",
    "exit-in-hook": "import sys\nsys.excepthook = lambda *_: sys.exit(5)\nraise KeyError(1)",
    "atexit": "import atexit\natexit.register(print, 'bye')\nraise KeyError(1)",
    "atexit-raises": "import atexit\natexit.register(lambda: 1 / 0)\nprint('x')",
    "thread": "import threading\nthreading.Thread(target=print, args=('late',)).start()",
    "thread-raises": "import threading\nthreading.Thread(target=lambda: {}['k'], name='t').start()",
    "unraisable": "class C:\n    def __del__(self):\n        raise OSError('del')\nc = C()\n",
    "warning": "import warnings\nwarnings.warn('careful')",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "recursion": "def f():\n    f()\nf()",
    "no-newline": "import sys; sys.stdout.write('half'); sys.stderr.write('err')",
    "faulthandler": "import faulthandler, os, signal\nfaulthandler.enable()\nos.kill(os.getpid(), signal.SIGABRT)",
    "closed-stdout": "import sys, os\nprint('x')\nos.close(1)",
    "memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2 << 30, -1))\nx = bytearray(3 << 30)",
}  # fmt: skip


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict, dict]]:
    """Every end, exec'd and forked: each rank of one program takes its own."""
    folder = tmp_path_factory.mktemp("ends")
    lines = ["import os", 'rank = int(os.environ["RANK"])']
    for rank, text in enumerate(ENDS.values()):
        lines += [f"if rank == {rank}:", *("    " + line for line in text.splitlines())]
    scene = Scene(True, program(folder, "\n".join(lines)), workers=len(ENDS))
    forked, execed = play(folder, scene), play(folder, replace(scene, warm=False))
    assert forked["cold"] == "", forked["cold"]
    return dict(zip(ENDS, zip(execed["workers"], forked["workers"], strict=True), strict=True))


@pytest.mark.parametrize("end", ENDS)
def test_how_it_ends(ends: dict[str, tuple[dict, dict]], end: str):
    cold, warm = ends[end]
    assert (warm["code"], warm["signal"]) == (cold["code"], cold["signal"])
    assert plain(warm["out"]) == plain(cold["out"])
    if end == "faulthandler":  # it shows every frame of the stack, those below the program too
        cold["err"], warm["err"] = (text[: text.index("in <module>")] for text in (cold["err"], warm["err"]))
    assert plain(warm["err"]) == plain(cold["err"])


@pytest.mark.parametrize(
    "text",
    ["print('never')\nif True\n    pass\n", "# -*- coding: latin-1 -*-\nprint('\xe9')\n", "\ufeffprint(1)"],
)
def test_source_that_is_odd(tmp_path: Path, text: str):
    path = tmp_path / "train.py"
    path.write_text(text, encoding="latin-1" if "latin" in text else "utf-8")
    cold, warm = both(tmp_path, Scene(True, "train.py"))
    assert (warm["code"], warm["out"], plain(warm["err"])) == (cold["code"], cold["out"], plain(cold["err"]))


@pytest.mark.parametrize("name", ["missing", "pkg.raises", "pkg.syntax", "pkg"])
def test_how_a_module_ends(tmp_path: Path, name: str):
    program(tmp_path, "", "pkg/__init__.py")
    program(tmp_path, "import sys\ndef f():\n    raise OSError(sys.argv[0])\nf()", "pkg/raises.py")
    program(tmp_path, "if True\n", "pkg/syntax.py")
    cold, warm = both(tmp_path, Scene(True, name, kind="module"))
    assert (warm["code"], warm["out"], plain(warm["err"])) == (cold["code"], cold["out"], plain(cold["err"]))
    assert cold["code"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV])
def test_a_signal_from_outside(tmp_path: Path, number: int):
    forever = "import sys, threading\nprint('up', flush=True)\nthreading.Event().wait()"
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, forever), signal_workers=number))
    assert (warm["code"], warm["signal"]) == (cold["code"], cold["signal"])
    first_and_last = [text.splitlines()[:: max(1, len(text.splitlines()) - 1)] for text in (warm["err"], cold["err"])]
    assert first_and_last[0] == first_and_last[1]


def test_what_multiprocessing_and_pickle_do(tmp_path: Path):
    text = """
import multiprocessing as mp, os, pickle, sys
class Point:
    def __init__(self, x): self.x = x
def square(p): return p.x * p.x, __name__, os.getppid() > 0
def show(queue, parent): queue.put((os.getppid() == parent, mp.parent_process() is not None))
if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Point(3))).x == 3
    print(pickle.dumps(Point(3)))
    for method in ("spawn", "fork", "forkserver"):
        context = mp.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.map(square, [Point(2), Point(4)]))
        queue = context.Queue()
        child = context.Process(target=show, args=(queue, os.getpid()))
        child.start()
        print(method, queue.get()[1])
        child.join()
        print(child.exitcode, mp.parent_process())
"""
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, text), preload=["multiprocessing"]))
    assert (warm["code"], warm["out"], warm["err"]) == (0, cold["out"], cold["err"]) and "forkserver" in warm["out"]


def test_seeds_and_secrets_differ_between_workers_and_starts(tmp_path: Path):
    text = """
import json, random, multiprocessing, numpy, uuid, tempfile
print(json.dumps([random.random(), numpy.random.rand(), numpy.random.default_rng().random(), uuid.uuid4().hex,
                  multiprocessing.current_process().authkey.hex()]))
"""
    preload = ["random", "numpy", "uuid", "multiprocessing", "tempfile"]
    found = play(tmp_path, Scene(True, program(tmp_path, text), preload=preload, workers=3))
    assert found["cold"] == ""
    drawn = [json.loads(worker["out"]) for worker in found["workers"]]
    for column in zip(*drawn, strict=True):
        assert len(set(column)) == 3
    seeded = "import random, numpy\nrandom.seed(7)\nnumpy.random.seed(7)\nprint(random.random(), numpy.random.rand())"
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, seeded), preload=preload))
    assert warm["out"] == cold["out"]


@pytest.mark.parametrize("env", [{}, {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"}, {"OPENBLAS_NUM_THREADS": "2"}])
def test_blas_has_the_threads_it_would_have(tmp_path: Path, env: dict[str, str]):
    pytest.importorskip("threadpoolctl", reason="tells how many threads BLAS uses")
    text = """
import numpy, threadpoolctl
a = numpy.ones((300, 300))
print([(p["internal_api"], p["num_threads"]) for p in threadpoolctl.threadpool_info()], float((a @ a).sum()))
"""
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, text), preload=["numpy"], env=env))
    assert warm["out"] == cold["out"] and "openblas" in warm["out"]


def test_the_environment_is_read_after_the_fork_by_c_as_well(tmp_path: Path):
    text = """
import ctypes, os, time
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(getenv(b"RANK"), getenv(b"ONLY_SERVER"), os.environ.get("ONLY_SERVER"), time.tzname)
"""
    scene = Scene(True, program(tmp_path, text), env={"TZ": "Asia/Tokyo"}, server_env={"ONLY_SERVER": "1", "TZ": "UTC"})
    cold, warm = both(tmp_path, scene)
    assert warm["out"] == cold["out"] == "b'0' None None ('JST', 'JST')\n"


@pytest.mark.skipif(shutil.which("numactl") is None, reason="numactl is not installed")
def test_memory_policy_is_inherited(tmp_path: Path):
    text = "print([w for w in open('/proc/self/numa_maps').read().split() if ':' in w][:1])"
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, text)))
    assert warm["out"] == cold["out"]


@pytest.mark.torch
@pytest.mark.slow
def test_torch_has_the_threads_and_seeds_it_would_have(tmp_path: Path):
    pytest.importorskip("torch", reason="torch is not installed")
    text = """
import torch
a = torch.ones(400, 400)
print(torch.initial_seed(), torch.rand(1).item())
print(torch.get_num_threads(), torch.get_num_interop_threads(), (a @ a).sum().item(), torch.cuda._is_in_bad_fork())
torch.manual_seed(3)
print(torch.rand(1).item())
"""
    for env in ({}, {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"}):
        scene = Scene(True, program(tmp_path, text), preload=["numpy?", "torch?"], env=env, workers=2)
        cold, warm = (play(tmp_path, replace(scene, warm=warm)) for warm in (False, True))
        assert warm["cold"] == ""
        outs = [worker["out"].splitlines() for worker in (*cold["workers"], *warm["workers"])]
        assert len({lines[0] for lines in outs}) == 4, "every worker drew a seed of its own"
        assert len({tuple(lines[1:]) for lines in outs}) == 1, outs


def test_what_a_module_seeds_when_it_is_imported_stays_seeded(tmp_path: Path):
    program(tmp_path, "import random, numpy\nrandom.seed(1)\nnumpy.random.seed(2)", "seeds.py")
    text = "import seeds, random, numpy\nprint(random.random(), numpy.random.rand())"
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, text), preload=["numpy?", "seeds"]))
    assert warm["out"] == cold["out"]


def test_no_descriptor_of_the_server_is_left_and_the_modules_own_stay(tmp_path: Path):
    program(tmp_path, "file = open('/etc/passwd')", "opens.py")
    text = """
import opens, os
print([fd for fd in range(200) if os.path.exists(f"/proc/self/fd/{fd}") and fd != opens.file.fileno()])
print(opens.file.readline())
"""  # fmt: skip
    cold, warm = both(tmp_path, Scene(True, program(tmp_path, text), preload=["opens"]))
    assert warm["out"] == cold["out"] and warm["out"].startswith("[0, 1, 2]\n")
