"""What a person is told when a command cannot go on: the field, what is wrong with it, what would be right.

Builds sentences; prints nothing and starts nothing. A problem found before anything was started ends with exit code 2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

EXIT_USAGE = 2
_DIALLED = re.compile(r"(?:ipv[46]:|(?=unix:))(\S+): ")  # as gRPC tells of a connection that failed

_FOREIGN = re.compile(r"http2 header with status: (\d+)|(http1\.x) server|(Trying to connect an http1)")


class UsageProblem(Exception):
    """Input that cannot be used; nothing was started."""

    def __init__(self, field: str, problem: str, right: str) -> None:
        super().__init__(f"{field}: {problem.removesuffix('.')}. {right}")
        self.field = field
        self.problem = problem
        self.right = right


class CommandFailed(Exception):
    """A command that understood its input and could not do it; carries the exit code."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class ConnectAttempt:
    """One try to reach the control plane."""

    address: str  # as dialled, for example 10.0.0.5:29400
    error: str
    after_s: float  # since the first try began


def attempt_of(endpoint: str, complaint: str, after_s: float) -> ConnectAttempt:
    """One failed try, from the transport's complaint: the address it dialled and its last words."""
    found = _DIALLED.search(complaint)
    why = re.split(r": | error: ", complaint)[-1].rstrip(".] ")
    return ConnectAttempt(unquote(found[1]) if found else endpoint, why or complaint, after_s)


def foreign_answer(endpoint: str, complaint: str) -> str:
    """What to say where something else than a control plane answered, as a web server or a proxy; empty where not."""
    found = _FOREIGN.search(complaint)
    if found is None:
        return ""
    what = f"answered with HTTP status {found[1]}" if found[1] else "speaks HTTP/1"
    return (
        f"what answers at {endpoint} is no control plane of Resurge: it {what}. Correct the host and the port, or keep "
        "a proxy out of the way by naming the host in no_proxy"
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant: one that it abbreviates, else the most similar; None if none is."""
    choices = sorted(set(known))
    bare = word.lstrip("-")
    if len(bare) >= 3:
        for choice in choices:
            if choice.lstrip("-").startswith(bare):
                return choice
    similar = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return similar[0] if similar else None


def unknown(field: str, what: str, word: str, known: Iterable[str]) -> UsageProblem:
    """An option or key that does not exist, with the one that was probably meant."""
    choices = sorted(set(known))
    meant = nearest(word, choices)
    right = f"Did you mean {meant}?" if meant else f"Known are: {', '.join(choices)}."
    return UsageProblem(field, f"no such {what}", right)


def unreachable(endpoint: str, attempts: Sequence[ConnectAttempt]) -> UsageProblem:
    """The control plane never answered at start: which addresses were tried, for how long, and why each failed."""
    if not attempts:
        tried = "no address could be tried"
    else:
        last_by_address = {item.address: item for item in attempts}
        whys = "; ".join(f"{address}: {item.error}" for address, item in last_by_address.items())
        tried = f"tried for {attempts[-1].after_s:.1f} s ({whys})"
    return UsageProblem(
        "--rdzv-endpoint",
        f"no control plane answered at {endpoint}: {tried}; nothing was started",
        "Start one there with `resurge serve`, correct the address, or wait longer with --connect-timeout.",
    )


def sentence_of(problem: UsageProblem, command: str) -> str:
    """The lines for the terminal."""
    return f"resurge {command}: {problem}" if command else f"resurge: {problem}"
