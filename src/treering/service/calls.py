"""One request's work: it ends when its time is up, when its caller has gone, and when the server closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Final, TypeVar

from starlette.types import Receive

from treering.deadline import Deadline, check, until

Result = TypeVar("Result")

RECEIVE: Final[ContextVar[Receive | None]] = ContextVar("receive", default=None)
"""How the request that is being answered learns that its caller has gone."""


class Call:
    """The work of one request, in a thread, with a deadline from when it begins."""

    def __init__(self, seconds: float, take: Callable[[int], None] | None = None) -> None:
        """``take``: see `Deadline`."""
        self._seconds, self._take = seconds, take
        self._deadline: Deadline | None = None
        self._gone = False

    def run(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``, unless it takes too long or the caller goes."""
        self._deadline = Deadline(self._seconds, self._take)
        if self._gone:
            self._deadline.cancel()
        with until(self._deadline):
            check()
            return work()

    def leave(self) -> None:
        """The caller has gone: end the work, or do not begin it."""
        self._gone = True
        if self._deadline is not None:
            self._deadline.cancel()


@asynccontextmanager
async def watched(call: Call) -> AsyncIterator[None]:
    """Within the block, the call ends when the connection of the current request does."""
    receive = RECEIVE.get()
    if receive is None:
        yield
        return
    watching = asyncio.create_task(_watch(receive, call))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(receive: Receive, call: Call) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    call.leave()
