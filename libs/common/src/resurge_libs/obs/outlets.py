"""Standard streams that are not as a program expects them: closed from the start, or without a reader.

One that was closed is opened on nothing, before a socket gets its number: what anybody prints would go into that, and
a child would inherit it. A reader that leaves early, as `head` does, ends a command quietly.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator

LAST_STREAM = 2
"""The number of standard error."""
EXIT_READER_LEFT = 141
"""As a shell names the end by SIGPIPE: 128 + 13."""


def open_closed_streams() -> None:
    """Standard streams that this process was started without lead nowhere from now on. To be called first of all."""
    try:
        while (opened := os.open(os.devnull, os.O_RDWR)) <= LAST_STREAM:
            os.set_inheritable(opened, True)
        os.close(opened)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    except OSError:
        return  # without so much as this nothing that follows will work either, and says so better


class ReaderLeft(Exception):
    """Nobody reads what the command prints."""


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Raises ReaderLeft where the block could not print for want of a reader."""
    try:
        yield
    except BrokenPipeError as error:
        if not any(_has_no_reader(stream) for stream in (sys.stdout, sys.stderr)):
            raise RuntimeError("a connection of this program's own broke") from error
        raise ReaderLeft from None
    except SystemExit as leave:  # a console of rich's leaves so
        if isinstance(leave.__context__, BrokenPipeError):
            raise ReaderLeft from None
        raise


def settled(code: int) -> int:
    """The exit code, once everything is written that can be: what cannot would be complained of at the very end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except ValueError:  # it is closed
            continue
        except OSError as error:
            _discard(stream)
            if not isinstance(error, BrokenPipeError):
                code = code or 1
                with contextlib.suppress(OSError, ValueError):
                    print(f"resurge: the output cannot be written: {error.strerror}", file=sys.stderr)
    return code


def _has_no_reader(stream: object) -> bool:
    poll = select.poll()
    try:
        poll.register(stream, 0)  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError):
        return False
    return bool(poll.poll(0))


def _discard(stream: object) -> None:
    """What the stream holds goes to nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
