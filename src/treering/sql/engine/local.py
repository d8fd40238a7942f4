"""The engine in this process: for programs of one's own, where whoever asks may as well wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Final

import duckdb
import pyarrow as pa

from treering.sql.engine.database import opened, selected
from treering.sql.engine.limits import SLICE, Clock, Limits

_SHARED: Final[ContextVar[list[duckdb.DuckDBPyConnection] | None]] = ContextVar("shared", default=None)
"""The database of the block of `Local.together` that this thread is in, once there is one."""


class Local:
    """Works statements out in this process.

    The time limit interrupts DuckDB between two of its vectors, and the memory limit is on what DuckDB counts: a
    statement that makes one huge text holds longer and takes more. `Workers` bounds that too.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits: Final = Limits() if limits is None else limits

    def run(self, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a SELECT over some tables, in a database that has nothing else."""
        with self._database() as connection, _interrupted(connection, Clock(self.limits)) as clock:
            return selected(connection, statement, tables, self.limits, clock.check)

    @contextmanager
    def together(self) -> Iterator[None]:
        """The runs of this thread, within the block, belong to one user's statement, and share a database."""
        if _SHARED.get() is not None:
            yield
            return
        shared: list[duckdb.DuckDBPyConnection] = []
        token = _SHARED.set(shared)
        try:
            yield
        finally:
            _SHARED.reset(token)
            for connection in shared:
                connection.close()

    @contextmanager
    def _database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        shared = _SHARED.get()
        if shared is not None:
            if not shared:
                shared.append(opened(self.limits))
            yield shared[0]
            return
        with opened(self.limits) as connection:
            yield connection


@contextmanager
def _interrupted(connection: duckdb.DuckDBPyConnection, clock: Clock) -> Iterator[Clock]:
    """Whatever the connection does within the block is interrupted when the time is up, or the caller has gone."""
    done = threading.Event()
    context = copy_context()

    def watch() -> None:
        while not done.wait(SLICE):
            if clock.left <= 0:
                connection.interrupt()

    watcher = threading.Thread(target=context.run, args=(watch,), daemon=True)
    clock.check()
    watcher.start()
    try:
        yield clock
    finally:
        done.set()
        watcher.join()
