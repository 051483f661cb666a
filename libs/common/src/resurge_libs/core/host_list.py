"""Host names as Slurm writes many of them in one word: `node[001-004,007]`. Pure, and the inverse of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_EXPANDED = 1_000_000
"""Hosts that one list may name."""
_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$", re.DOTALL)
_BRACKETS = re.compile(r"^([^\[\]]*)\[([0-9,\-]+)\]([^\[\]]*)$")


class BadHostList(Exception):
    """Text that is no host list."""


def compressed(hosts: Iterable[str]) -> str:
    """The hosts, each once, in one word; those without a number stand by themselves. Empty for none."""
    alone: list[str] = []
    numbered: dict[tuple[str, str], list[str]] = {}
    for host in sorted(set(hosts)):
        found = _NUMBERED.match(host)
        if found is None or any(sign in host for sign in "[],"):
            alone.append(host)
        else:
            numbered.setdefault((found[1], found[3]), []).append(found[2])
    groups = [_group(prefix, suffix, digits) for (prefix, suffix), digits in numbered.items()]
    return ",".join(sorted([*alone, *groups]))


def _group(prefix: str, suffix: str, digits: list[str]) -> str:
    if len(digits) == 1:
        return f"{prefix}{digits[0]}{suffix}"
    spans: list[list[str]] = []
    for number in sorted(digits, key=lambda text: (len(text), text)):
        if spans and number == _after(spans[-1][-1]):
            spans[-1].append(number)
        else:
            spans.append([number])
    told = (span[0] if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
    return f"{prefix}[{','.join(told)}]{suffix}"


def _after(number: str) -> str:
    return f"{int(number) + 1:0{len(number)}d}"


def expanded(text: str) -> tuple[str, ...]:
    """Every host of a list, in its order. Raises BadHostList."""
    hosts: list[str] = []
    for word in _words(text):
        found = _BRACKETS.match(word)
        if found is None:
            if "[" in word or "]" in word:
                raise BadHostList(f"{word!r} is no host list; write prefix[001-004,007]")
            hosts.append(word)
            continue
        for span in found[2].split(","):
            hosts += [f"{found[1]}{number}{found[3]}" for number in _numbers(span, MAX_EXPANDED - len(hosts))]
    return tuple(hosts)


def _numbers(span: str, room: int) -> Iterable[str]:
    first, dash, last = span.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise BadHostList(f"{span!r} is no range of numbers; write 001-004")
    end = int(last) if dash else int(first)
    if not 0 <= end - int(first) < room:
        raise BadHostList(f"the range {span!r} ends before it begins, or names more than {MAX_EXPANDED} hosts")
    return (f"{number:0{len(first)}d}" for number in range(int(first), end + 1))


def _words(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    words, depth, word = [], 0, ""
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            words.append(word)
            word = ""
        else:
            word += sign
    return [part for part in (*words, word) if part]
