"""Turns: worker threads for what blocks, shared fairly among callers.

Each caller has a line of its own, and free threads take from the lines in rotation: one who sends a thousand requests
waits for these, and does not make others wait for them. (The vault answers threads that ask at the same time in one
commit.)
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from treering.service.problems import Problem

Result = TypeVar("Result")

PART: Final = 8
"""One caller has this part of the threads."""


def stopping() -> Problem:
    """The refusal of what comes while the server stops."""
    return Problem(503, "stopping", "the server is stopping: try again shortly", {"Retry-After": "5"})


class Turns:
    """Some ``threads``, of which one caller has an eighth (at least one), and at most ``waiting`` requests in the line
    of one caller. For one event loop.

    (Threads share one interpreter: whoever works in half of them makes everybody else half as fast.)"""

    def __init__(self, threads: int, waiting: int) -> None:
        self._executor = ThreadPoolExecutor(threads, "treering")
        self._free = threads
        self._each = max(1, threads // PART)
        self._running: Counter[str] = Counter()
        self._waiting = waiting
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.stopped = False

    async def run(self, who: str, work: Callable[[], Result]) -> Result:
        """The result of ``work``, done in a thread when it is this caller's turn."""
        if self.stopped:
            raise stopping()
        if self._free and self._running[who] < self._each and who not in self._lines:
            self._take(who)
        else:
            await self._turn(who)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._give_back(who)

    async def _turn(self, who: str) -> None:
        """Wait for a thread."""
        line = self._lines.setdefault(who, deque())
        if len(line) >= self._waiting:
            words = f"{self._waiting:,} requests of this token are waiting already: wait for their answers"
            raise Problem(429, "too_many_requests", words, {"Retry-After": "1"})
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(who)
            raise

    def _take(self, who: str) -> None:
        self._free -= 1
        self._running[who] += 1

    def _give_back(self, who: str) -> None:
        """A thread is free: the caller whose turn it is, and who has not its part already, gets it."""
        self._free += 1
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
        for each in list(self._lines):
            line = self._lines[each]
            while line and line[0].done():
                line.popleft()
            granted = line and self._free and self._running[each] < self._each
            if granted:
                self._take(each)
                line.popleft().set_result(None)
                self._lines.move_to_end(each)
            if not line:
                del self._lines[each]

    def stop(self) -> None:
        """Accept no more work, and refuse what still waits; what is under way goes on."""
        self.stopped = True
        for line in self._lines.values():
            for turn in line:
                if not turn.done():
                    turn.set_exception(stopping())
        self._lines.clear()

    def close(self) -> None:
        """Wait for what is under way."""
        self._executor.shutdown(wait=True)
