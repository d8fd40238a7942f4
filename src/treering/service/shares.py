"""Engines for statements, shared fairly: one token never has all of the processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from treering.deadline import check, until
from treering.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.sql.engine.workers import Workers

SLICE: Final = 0.05
"""Seconds after which one who waits for a process looks whether the caller has gone."""


class Share:
    """One token's part of the processes: an engine for its statements."""

    def __init__(self, workers: Workers, processes: int) -> None:
        self._workers = workers
        self._room = threading.BoundedSemaphore(processes)

    def run(self, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of one SELECT."""
        with self._turn():
            try:
                return self._workers.run(statement, tables)
            except QueryError:
                self._warm()
                raise

    def _warm(self) -> None:
        """A process may have been killed: wait in the caller's own turn until the one in its place has started, so that
        nobody else does."""
        with until(None), suppress(QueryError):
            self._workers.run("SELECT 1", {})

    def together(self) -> AbstractContextManager[None]:
        """See `treering.sql.engine.current.Engine`."""
        return self._workers.together()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        while not self._room.acquire(timeout=SLICE):
            check()
        try:
            yield
        finally:
            self._room.release()


class Shares:
    """The shares of all tokens."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._each = max(1, workers.limits.processes // 2)
        self._lock = threading.Lock()
        self._known: dict[str, Share] = {}

    def of(self, token: str) -> Share:
        """The share of a token."""
        with self._lock:
            return self._known.setdefault(token, Share(self._workers, self._each))

    def close(self) -> None:
        """End the processes."""
        self._workers.close()
