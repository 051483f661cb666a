"""Runs the training program in a forked worker as `python -u PROGRAM` or `python -u -m PROGRAM` would.

Standard library only. `arrange` is called once in the server, before anything is preloaded, `run` in the worker; what
the program raises leaves `run` as it would leave the interpreter's own start.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import runpy
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from resurge_launcher.warm.orders import MODULE

_OWN = str(Path(__file__).parent) + os.sep


@dataclass(frozen=True, slots=True)
class Program:
    """What the workers run."""

    kind: str
    name: str
    args: tuple[str, ...]

    @property
    def search_path(self) -> str:
        """The first place where it imports from."""
        return os.getcwd() if self.kind == MODULE else os.path.dirname(os.path.realpath(self.name))

    @property
    def command_line(self) -> list[str]:
        """The words it would have been started with."""
        middle = ["-m"] if self.kind == MODULE else []
        return [sys.executable, "-u", *middle, self.name, *self.args]


def arrange(program: Program) -> None:
    """Let modules be found as the program will find them."""
    if not sys.flags.safe_path:
        sys.path.insert(0, program.search_path)


def shadowed(program: Program, at_start: frozenset[str]) -> tuple[str, ...]:
    """Modules that are loaded by now and that the program would have taken from its own folder instead."""
    if sys.flags.safe_path:
        return ()
    try:
        entries = list(Path(program.search_path).iterdir())
    except OSError:
        return ()
    here = {entry.stem for entry in entries if entry.suffix == ".py"}
    here |= {entry.name for entry in entries if (entry / "__init__.py").is_file()}
    loaded = {name.partition(".")[0] for name in sys.modules.keys() - at_start}
    return tuple(sorted(here & (loaded - {"__main__", "resurge_launcher", *sys.builtin_module_names})))


def run(program: Program) -> None:
    """Become `__main__` and run it. Whatever it raises is shown as the interpreter shows it, and raised again."""
    error = _outcome(program)
    if error is None:
        return
    if not isinstance(error, SystemExit):
        _show(error)
        # the interpreter still ends as it does after any uncaught exception, an interrupt by its signal
        sys.excepthook = lambda *_: None
    raise error


def _outcome(program: Program) -> BaseException | None:
    """Run the program; what it raised. The exception hook must not run while an exception is being handled."""
    sys.orig_argv[:] = program.command_line
    try:
        if program.kind == MODULE:
            sys.argv[:] = ["-m", *program.args]
            _new_main()
            runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]
        else:
            sys.argv[:] = [program.name, *program.args]
            _run_script(os.path.abspath(program.name))
    except BaseException as error:  # task root: handed to the caller, which raises it again
        return error
    return None


def _run_script(path: str) -> None:
    main = _new_main()
    main.__file__ = path
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _new_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    main.__annotations__ = {}
    main.__loader__ = importlib.machinery.BuiltinImporter
    sys.modules["__main__"] = main
    return main


def _show(error: BaseException) -> None:
    """Call the exception hook without the frames that stand below the program."""
    trace = error.__traceback__ = _from_program_on(error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    try:
        sys.excepthook(type(error), error, trace)
        return
    except SystemExit:
        raise
    except BaseException as raised:  # task root: the hook is the user's; the interpreter shows both and goes on
        second = raised
    _show_broken_hook(error, second, trace)


def _from_program_on(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        trace = trace.tb_next
    return trace


def _show_broken_hook(error: BaseException, second: BaseException, trace: TracebackType | None) -> None:
    second.__traceback__ = _from_program_on(second.__traceback__)
    print("Error in sys.excepthook:", file=sys.stderr)
    sys.__excepthook__(type(second), second, second.__traceback__)
    print("\nOriginal exception was:", file=sys.stderr)
    sys.__excepthook__(type(error), error, trace)
