"""Connections that send no request are closed: the late ones, the most idle ones if there are too many, and those whose
heads do not end.

uvicorn has no limit for how long the head of a request takes or is, and refuses everybody's requests if there are too
many connections. Here who sends a request is answered, and who holds connections open loses them.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PAUSE: Final = 0.2
"""Seconds between two looks at the connections."""
RESERVED: Final = 120
"""File descriptors that are not for connections: the vault, files of rows, processes, libraries."""
FEWEST: Final = 16
"""Connections that there are at least."""
LONGEST: Final = 2**16
"""Bytes of the head of a request, or of what stands between the parts of a body: names, lengths, trailers."""

_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncache-control: no-store\r\n"
    b"content-type: application/problem+json\r\ncontent-length: %d\r\n\r\n%s"
)
_PROBLEM: Final = (
    b'{"type": "urn:treering:problem:head_too_large", "title": "Too large", "status": 431, "code": "head_too_large", '
    b'"detail": "the head of a request has at most %d bytes"}' % LONGEST
)


class Connection(HttpToolsProtocol):
    """A connection that is closed when more than `LONGEST` bytes have come, and neither a head has ended nor a part of
    a body begun. (The parser keeps all of a head, whatever its length.)"""

    _unended = 0

    def data_received(self, data: bytes) -> None:
        """See uvicorn."""
        self._unended += len(data)
        super().data_received(data)
        if self._unended > LONGEST and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_TOO_LONG % (len(_PROBLEM), _PROBLEM))
            self.transport.close()

    def on_headers_complete(self) -> None:
        """See uvicorn."""
        self._unended = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See uvicorn."""
        self._unended = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See uvicorn."""
        self._unended = 0
        super().on_message_complete()


def most_connections(wanted: int) -> int:
    """How many connections there may be: as many as wanted, if the process may open that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft < needed and (hard == resource.RLIM_INFINITY or hard > soft):
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(FEWEST, min(wanted, soft - RESERVED))


class Keeper:
    """Closes connections without a request: after ``seconds``, and the oldest above ``most``."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._idle: WeakKeyDictionary[Any, tuple[object, float]] = WeakKeyDictionary()

    async def run(self, connections: Iterable[Any]) -> None:
        """Look at the server's connections now and then, until cancelled."""
        while True:
            self.look(list(connections), time.monotonic())
            await asyncio.sleep(PAUSE)

    def look(self, connections: list[Any], now: float) -> None:
        """Close what is to be closed."""
        idle = [self._since(each, now) for each in connections]
        waiting = sorted((since, number) for number, since in enumerate(idle) if since is not None)
        excess = len(connections) - self._most
        for place, (since, number) in enumerate(waiting):
            if place < excess or now - since > self._seconds:
                connections[number].transport.close()

    def _since(self, connection: Any, now: float) -> float | None:
        """Since when a connection has had no request; None if one is being answered."""
        cycle = connection.cycle
        if connection.transport is None or (cycle is not None and not cycle.response_complete):
            self._idle.pop(connection, None)
            return None
        last, since = self._idle.get(connection, (None, now))
        if last is not cycle or connection not in self._idle:
            since = now
        self._idle[connection] = cycle, since
        return since
