"""What one statement may take: time, memory, and the size of its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Final

import pyarrow as pa

from treering.deadline import check as check_deadline, left as seconds_left
from treering.errors import ParameterError, QueryError, TimeLimit

SLICE: Final = 0.05
"""How long, in seconds, something waits before it looks again whether the caller has gone."""

_MIB: Final = 2**20


class TooLargeError(QueryError):
    """A statement that needs more memory than it may have."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of each statement of the second stage.

    ``memory`` and ``bytes`` are in bytes. ``processes`` is how many statements are worked out at once, where each has a
    process of its own.
    """

    seconds: float = 30.0
    memory: int = 1024 * _MIB
    rows: int = 1_000_000
    bytes: int = 64 * _MIB
    processes: int = 2

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            whole = each.name != "seconds"
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ParameterError(each.name, f"is a {'whole ' if whole else ''}number, not {type(value).__name__}")
            if not 0 < value < math.inf:
                raise ParameterError(each.name, f"is {value}; it must be positive and finite")
        if self.memory < 64 * _MIB:
            raise ParameterError("memory", f"is {self.memory:,} bytes; DuckDB needs {64 * _MIB:,} at least")

    def too_slow(self) -> TimeLimit:
        """The refusal of a statement that takes too long."""
        return TimeLimit(f"the statement takes more than {self.seconds:g} seconds to work out: ask for less at once")

    def too_large(self) -> TooLargeError:
        """The refusal of a statement that needs too much memory."""
        return TooLargeError(
            f"the statement needs more than {self.memory // _MIB:,} MiB of memory to work out: ask for less at once"
        )


class Clock:
    """The time that is left to one statement: of its own limit, and of the request that it belongs to."""

    def __init__(self, limits: Limits, waiting: float = 0.0) -> None:
        """``waiting`` are the seconds that a process may take until it has the statement: see `begin`."""
        self._limits = limits
        self._until = time.monotonic() + limits.seconds + waiting

    def begin(self) -> None:
        """The statement is being worked out: it has its own limit from now on."""
        self._until = time.monotonic() + self._limits.seconds

    @property
    def left(self) -> float:
        """Seconds that are left; 0 also when the caller has gone."""
        return max(0.0, min(self._until - time.monotonic(), seconds_left()))

    def check(self) -> None:
        """Raise `TimeLimit` if nothing is left."""
        check_deadline()
        if self.left <= 0:
            raise self._limits.too_slow()


def gathered(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, limits: Limits, check: Callable[[], None]
) -> pa.Table:
    """The table of some batches; refused as soon as it has too many rows or bytes. ``check`` may end the work."""
    rows = size = 0
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        check()
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > limits.rows:
            raise QueryError(f"the result has more than {limits.rows:,} rows: add a LIMIT, or group by less")
        if size > limits.bytes:
            raise QueryError(f"the result has more than {limits.bytes:,} bytes: select fewer columns or shorter texts")
        kept.append(batch)
    return pa.Table.from_batches(kept, schema)
