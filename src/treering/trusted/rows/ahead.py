"""PRIVATE: what an engine has counted ahead of an operation, before anything is charged for it.

A statement takes an engine as long as it takes. So that nobody waits meanwhile who wants nothing of it, it is not run
while a vault is locked: an operation that finds its rows uncounted raises `Uncounted`, before it charges anything; they
are counted without the lock; and then the operation is tried again, finds the exact numbers in place, and goes on in
the kernel's order. The numbers are for just these groups, intervals and sums, are used once, and are dropped when rows
come. They leave this object for the operation alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from treering.arrays import Ints
from treering.domain.groups import Groups
from treering.domain.sums import Sums
from treering.errors import EngineError
from treering.trusted.sealed import Sealed

Numbers: TypeAlias = tuple[Ints, Ints, Ints]
"""PRIVATE: what `Rows.tally` gives."""

MOST_HELD: Final = 64
"""The most results that wait for their operations; the oldest are dropped first."""


class Need(NamedTuple):
    """What an operation reads of the rows: public."""

    groups: Groups
    edges: tuple[int, ...]
    sums: Sums | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for needs that are alike."""
        table = self.groups.table
        return self.groups.axes, None if table is None else (table.shape, table.tobytes()), self.edges, self.sums


class Uncounted(EngineError):
    """Rows that an operation needs are in an engine, and are not counted yet: nothing was charged."""

    def __init__(self, needs: Sequence[Need]) -> None:
        super().__init__("rows came while others were counted, and nothing was answered: ask again")
        self.needs = tuple(needs)


class Ahead(Sealed):
    """PRIVATE: numbers that wait for their operations."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], Numbers] = {}

    def holds(self, need: Need) -> bool:
        """Whether the numbers of a need are here."""
        return need.key in self._numbers

    def put(self, need: Need, numbers: Numbers) -> None:
        """Keep numbers until they are taken."""
        self._numbers[need.key] = numbers
        while len(self._numbers) > MOST_HELD:
            del self._numbers[next(iter(self._numbers))]

    def take(self, need: Need) -> Numbers | None:
        """The numbers of a need, once; None if they are not here."""
        return self._numbers.pop(need.key, None) if self._numbers else None

    def clear(self) -> None:
        """Rows came: what was counted before them is of no use."""
        self._numbers = {}
