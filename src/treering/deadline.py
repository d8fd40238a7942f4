"""One deadline for a request: everything that works for it, however deep, ends when the time is up or the caller left.

Work that may take long calls `check` now and then; what waits for another process or the disk waits for `left` seconds
at most. What grows with the values that a question names, and not with its text alone, calls `take` before it is made.
Without a deadline nothing is limited: in a program of one's own, one may wait as long as one likes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from treering.errors import TimeLimit


class Deadline:
    """The moment at which a request must have ended; `cancel` makes that now."""

    __slots__ = ("_cancelled", "_until", "seconds", "take")

    def __init__(self, seconds: float, take: Callable[[int], None] | None = None) -> None:
        self.seconds = seconds
        """How long the request may take altogether."""
        self.take = take or (lambda _: None)
        """Counts bytes that the request is about to hold; raises an error if there are too many."""
        self._until = time.monotonic() + seconds
        self._cancelled = False

    def cancel(self) -> None:
        """The caller has gone: the next `check` ends the work. (From any thread.)"""
        self._cancelled = True

    @property
    def left(self) -> float:
        """Seconds that are left; 0 if there are none."""
        return 0.0 if self._cancelled else max(0.0, self._until - time.monotonic())

    def check(self) -> None:
        """Raise `TimeLimit` if the time is up, or the caller has gone."""
        if self._cancelled:
            raise TimeLimit("the caller has gone: the work was ended")
        if time.monotonic() > self._until:
            raise TimeLimit(f"this takes more than {self.seconds:g} seconds to work out: ask for less at once")


_CURRENT: Final[ContextVar[Deadline | None]] = ContextVar("deadline", default=None)


@contextmanager
def until(deadline: Deadline | None) -> Iterator[None]:
    """Work in this thread, within the block, has this deadline."""
    token = _CURRENT.set(deadline)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check() -> None:
    """Raise `TimeLimit` if this thread's work has a deadline that has passed.

    >>> with until(Deadline(3600)):
    ...     check()
    """
    deadline = _CURRENT.get()
    if deadline is not None:
        deadline.check()


def left() -> float:
    """Seconds that are left to this thread's work; infinite without a deadline."""
    deadline = _CURRENT.get()
    return math.inf if deadline is None else deadline.left


def take(size: int) -> None:
    """Count ``size`` bytes, which this thread's work is about to hold; raise an error if its request may not."""
    deadline = _CURRENT.get()
    if deadline is not None:
        deadline.take(size)
