"""Looks at a file with one number in it whenever it is asked, as a process of its own.

Started by path with the bare interpreter: the standard library is all there is. A file system that hangs, hangs only
this process, which its launcher kills. One line in, its number; one line out: the number, the iteration or nothing, and
why there is nothing. Ends with its launcher, whose end closes the pipe.
"""

import os
import stat
import sys
import time

LONGEST_BYTES = 64
LARGEST = 2**53
FRESH_S = 0.1
"""A file written so lately may be half written: it is read until two looks agree."""
AGAIN_S = 0.005
LOOKS = 12


class NoNumber(Exception):
    """Why the file says nothing."""


def look(path: str) -> int:
    """The iteration in the file. Raises NoNumber."""
    try:
        text, written = _read(path)
        for _ in range(LOOKS):
            if abs(time.time() - written) > FRESH_S:
                break
            time.sleep(AGAIN_S)
            before = text
            text, written = _read(path)
            if text == before and text.strip():
                break
    except FileNotFoundError:
        raise NoNumber("does not exist") from None
    except OSError as error:
        raise NoNumber(f"cannot be read: {error.strerror or error}") from None
    return _number(text)


def _read(path: str) -> tuple[bytes, float]:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        about = os.fstat(opened)
        if stat.S_ISDIR(about.st_mode):
            raise NoNumber("is a directory")
        if stat.S_ISFIFO(about.st_mode) or stat.S_ISSOCK(about.st_mode):
            raise NoNumber("is no file with a content of its own")
        return os.read(opened, LONGEST_BYTES + 1), about.st_mtime
    finally:
        os.close(opened)


def _number(text: bytes) -> int:
    word = text.decode("ascii", errors="replace").strip()
    if not word:
        raise NoNumber("is empty")
    if len(text) > LONGEST_BYTES or not word.isdecimal():
        raise NoNumber(f"holds {word[:24]!r}, which is no iteration")
    if int(word) > LARGEST:
        raise NoNumber(f"holds {word[:24]}, which no iteration reaches")
    return int(word)


def main() -> None:
    """Answer until nobody asks any more."""
    path = sys.argv[1]
    while asked := sys.stdin.buffer.readline():
        number = asked.decode("ascii").strip()
        try:
            answer = f"{number}\t{look(path)}\t\n"
        except NoNumber as why:
            answer = f"{number}\t\t{why}\n"
        sys.stdout.buffer.write(answer.encode("utf-8", errors="replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
