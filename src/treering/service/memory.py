"""The memory of this process that questions hold while they are worked on, shared fairly among callers.

A short text may name many values: a predicate about a column of a million is a million flags, and a GROUP BY has such
flags for each of its groups. What is released and worked out in processes of their own is limited there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from treering.errors import QueryError
from treering.service.problems import Problem

FREE: Final = 2**20
"""Bytes that every request may have, whatever others have."""
PART: Final = 8
"""A request may have this part of all memory, and a caller half of it."""


class Memory:
    """Some bytes, for the requests of all callers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def share(self, who: str) -> Iterator[Callable[[int], None]]:
        """What a request of this caller calls before it holds more bytes; given back at its end."""
        held = 0

        def take(size: int) -> None:
            nonlocal held
            if held + size > self._most // PART:
                raise QueryError(
                    f"this names so many values that it needs more than {self._most // PART:,} bytes: ask about fewer "
                    "values, or in fewer groups, at once"
                )
            beyond = max(0, held + size - FREE) - max(0, held - FREE)
            self._add(who, beyond)
            held += size

        try:
            yield take
        finally:
            self._add(who, -max(0, held - FREE))

    def _add(self, who: str, size: int) -> None:
        with self._lock:
            if size > 0 and self._taken[who] + size > self._most // 2:
                words = "other requests of this token hold much memory: wait for their answers"
                raise Problem(429, "too_many_requests", words, {"Retry-After": "1"})
            if size > 0 and self._taken.total() + size > self._most:
                raise Problem(503, "too_busy", "other requests hold all memory: try again", {"Retry-After": "1"})
            self._taken[who] += size
            if not self._taken[who]:
                del self._taken[who]
