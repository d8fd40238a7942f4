"""Live status: what is public changed, and everyone who listens is told, at most a few times a second."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from treering.service.problems import Problem

PAUSE: Final = 0.25
"""The least time, in seconds, between two messages."""
BEAT: Final = 15.0
"""Seconds of silence after which a comment shows that the connection lives."""
MOST_EACH: Final = 16
MOST: Final = 1000
"""The most who may listen with one token, and with all."""


class Herald:
    """Tells all listeners the newest status, once something has changed."""

    def __init__(self, status: Callable[[], Awaitable[bytes]]) -> None:
        """``status`` is the message's text, in one line."""
        self._status = status
        self._changed = asyncio.Event()
        self._told = asyncio.Condition()
        self._number, self._newest = 0, b""
        self._listening: Counter[str] = Counter()
        self._stopped = False

    def ring(self) -> None:
        """Something has changed."""
        self._changed.set()

    @property
    def listening(self) -> int:
        """How many listen."""
        return self._listening.total()

    async def run(self) -> None:
        """Tell, whenever something has changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.listening:
                text = await self._status()
                async with self._told:
                    self._number, self._newest = self._number + 1, text
                    self._told.notify_all()
            await asyncio.sleep(PAUSE)

    async def stop(self) -> None:
        """End all streams."""
        self._stopped = True
        async with self._told:
            self._told.notify_all()

    def admit(self, who: str) -> None:
        """Refuse one listener too many."""
        if self._listening[who] >= MOST_EACH or self.listening >= MOST:
            raise Problem(429, "too_many_listeners", "too many listen already", {"Retry-After": "30"})

    async def listen(self, who: str, still: Callable[[], bool]) -> AsyncIterator[bytes]:
        """The stream of server-sent events: the status now, and at every change, while ``still`` holds."""
        self._listening[who] += 1
        try:
            seen = self._number
            yield _event(await self._status(), seen)
            while not self._stopped:
                news = await self._news(seen)
                if not still():
                    return
                seen, text = news or (seen, b"")
                yield _event(text, seen) if news else b": still here\n\n"
        finally:
            self._listening[who] -= 1

    async def _news(self, seen: int) -> tuple[int, bytes] | None:
        """The next message; None if none came for some time, or none will."""
        try:
            async with asyncio.timeout(BEAT), self._told:
                await self._told.wait_for(lambda: self._number > seen or self._stopped)
                return (self._number, self._newest) if self._number > seen else None
        except TimeoutError:
            return None


def _event(text: bytes, number: int) -> bytes:
    return b"event: status\nid: %d\ndata: %s\n\n" % (number, text)
