"""Waiting for conditions, so that no test sleeps for a fixed time. The only module of tests that sleeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

FIRST_POLL_S = 0.001
LONGEST_POLL_S = 0.05


class NeverHappened(AssertionError):
    """The condition did not become true within its limit."""


def wait_until(condition: Callable[[], T], limit_s: float = 10.0, what: str = "") -> T:
    """The condition's first truthy value. Raises NeverHappened after `limit_s` seconds, naming what was awaited."""
    deadline, poll_s = time.monotonic() + limit_s, FIRST_POLL_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise NeverHappened(_sentence(condition, value, limit_s, what))
        time.sleep(poll_s)
        poll_s = min(LONGEST_POLL_S, poll_s * 1.5)


async def wait_until_async(condition: Callable[[], T | Awaitable[T]], limit_s: float = 10.0, what: str = "") -> T:
    """As `wait_until`, letting the event loop run; the condition may be a coroutine function."""
    deadline, poll_s = time.monotonic() + limit_s, FIRST_POLL_S
    while True:
        found = condition()
        value: T = await found if isinstance(found, Awaitable) else found
        if value:
            return value
        if time.monotonic() >= deadline:
            raise NeverHappened(_sentence(condition, value, limit_s, what))
        await asyncio.sleep(poll_s)
        poll_s = min(LONGEST_POLL_S, poll_s * 1.5)


def _sentence(condition: object, value: object, limit_s: float, what: str) -> str:
    name = what or getattr(condition, "__qualname__", repr(condition))
    return f"not within {limit_s:g} s: {name} (last value {value!r})"
