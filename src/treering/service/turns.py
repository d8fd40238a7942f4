"""Turns: worker threads for what blocks, shared fairly among callers.

Each caller has a line of its own, and free threads take from the lines in rotation: one who sends a thousand requests
waits for these, and does not make others wait for them. (The vault answers threads that ask at the same time in one
commit.)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from treering.service.problems import Problem

Result = TypeVar("Result")


def stopping() -> Problem:
    """The refusal of what comes while the server stops."""
    return Problem(503, "stopping", "the server is stopping: try again shortly", {"Retry-After": "5"})


class Turns:
    """So many ``threads``, and at most ``waiting`` requests in the line of one caller. For one event loop."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._executor = ThreadPoolExecutor(threads, "treering")
        self._free = threads
        self._waiting = waiting
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.stopped = False

    async def run(self, who: str, work: Callable[[], Result]) -> Result:
        """The result of ``work``, done in a thread when it is this caller's turn."""
        if self.stopped:
            raise stopping()
        if self._free and not self._lines:
            self._free -= 1
        else:
            await self._turn(who)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._next()

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
                self._next()
            raise

    def _next(self) -> None:
        """A thread is free: the caller whose turn it is gets it."""
        self._free += 1
        while self._lines:
            who, line = self._lines.popitem(last=False)
            turn = line.popleft()
            if line:
                self._lines[who] = line
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
                return

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
