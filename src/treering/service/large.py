"""Large questions, one at a time for each caller: they hold memory of this process, and the vault while it plans them.

A short text may name many values: a predicate about a column of a million is a million flags, and a GROUP BY has such
flags for each of its groups. What is worked out in processes of their own has its limits there.

Answers under idempotency keys are large in another way: they stay. So a token has an allowance of them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from treering.deadline import check
from treering.errors import QueryError
from treering.service.problems import Problem

SMALL: Final = 2**18
"""Up to this many bytes a question is not large: some hundred groups."""
PLACES: Final = 8
"""How many large questions are worked on at a time."""
DAY: Final = 86_400.0
"""Seconds after which a token may put as much on record again."""
SLICE: Final = 0.05
"""Seconds after which one who waits looks whether the caller has gone."""


class Large:
    """Places for large questions, each of which has an equal part of some memory; a caller has one of them."""

    def __init__(self, memory: int) -> None:
        self._each = memory // PLACES
        self._places = threading.BoundedSemaphore(PLACES)
        self._lock = threading.Lock()
        self._callers: dict[str, threading.Lock] = {}

    @contextmanager
    def question(self, who: str) -> Iterator[Callable[[int], None]]:
        """What a question of this caller calls before it holds more bytes: it waits for a place when it becomes large,
        and is refused if it needs more than there are."""
        held = 0
        with ExitStack() as entered:

            def take(size: int) -> None:
                nonlocal held
                before, held = held, held + size
                if held > self._each:
                    raise QueryError(
                        f"this names so many values that it needs more than {self._each:,} bytes: ask about fewer "
                        "values, or in fewer groups, at once"
                    )
                if before <= SMALL < held:
                    for turn in (self._caller(who), self._places):
                        entered.enter_context(_acquired(turn))

            yield take

    def _caller(self, who: str) -> threading.Lock:
        with self._lock:
            return self._callers.setdefault(who, threading.Lock())


@contextmanager
def _acquired(turn: threading.Lock | threading.Semaphore) -> Iterator[None]:
    """Wait for a turn, as long as the request may."""
    while not turn.acquire(timeout=SLICE):
        check()
    try:
        yield
    finally:
        turn.release()


class Allowances:
    """How many numbers each token has put on record under idempotency keys within a day, of ``most``: the ledger keeps
    them for ever."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._used: dict[str, tuple[float, int]] = {}

    def take(self, who: str, numbers: int, now: float | None = None) -> None:
        """Count some numbers of a token; a `Problem` if there would be too many. ``now`` is the time in seconds."""
        now = time.monotonic() if now is None else now
        with self._lock:
            since, used = self._used.get(who, (now, 0))
            if now - since >= DAY:
                since, used = now, 0
            if used + numbers > self._most:
                words = (
                    f"under keys a token puts at most {self._most:,} numbers on record a day, and {used:,} are there: "
                    "ask without a key"
                )
                raise Problem(429, "too_many_keys", words, {"Retry-After": str(math.ceil(since + DAY - now))})
            self._used[who] = since, used + numbers
