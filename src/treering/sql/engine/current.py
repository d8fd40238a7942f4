"""Which engine works out the second stage of this thread's statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

import pyarrow as pa

from treering.sql.engine.local import Local


class Engine(Protocol):
    """Works out statements over released tables, within its limits."""

    def run(self, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of one SELECT; nothing of it is left for later statements."""

    def together(self) -> AbstractContextManager[None]:
        """The runs of this thread, within the block, belong to one user's statement: they may share a database."""


_HERE: Final = Local()
_ENGINE: Final[ContextVar[Engine]] = ContextVar("engine", default=_HERE)


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Statements of this thread, within the block, are worked out by ``engine``."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


def current() -> Engine:
    """The engine of this thread's statements: `Local` unless another is in use."""
    return _ENGINE.get()
