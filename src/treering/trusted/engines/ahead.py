"""PRIVATE: what an engine counts ahead of an operation, before anything is charged for it.

A statement takes an engine as long as it takes, and nobody is to wait for it who wants nothing of it. So it is not run
while a vault is locked: an operation that finds its rows uncounted raises `Uncounted`, before it charges anything; they
are counted without the lock; then it is tried again, finds the exact numbers in place, and goes on in the kernel's
order. The numbers are for just these groups, intervals and sums, are used once, and are dropped when rows come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, TypeVar

from treering.errors import EngineError, TreeringError
from treering.trusted.rows.kept import Need, Rows
from treering.trusted.rows.tally import Numbers
from treering.trusted.sealed import Sealed

Result = TypeVar("Result")

MOST_HELD: Final = 64
"""The most results that wait for their operations; the oldest are dropped first."""

MOST_ATTEMPTS: Final = 16
"""How often an engine counts for one question: rows that come meanwhile make it count again."""


class Uncounted(EngineError):
    """Rows that an operation needs are in an engine, and are not counted yet: nothing was charged."""

    def __init__(self, needs: Sequence[Need]) -> None:
        super().__init__("rows came while others were counted, and nothing was answered: ask again")
        self.needs = tuple(needs)


class Ahead(Sealed):
    """PRIVATE: numbers that wait for their operations. An operation without its numbers waits for the engine."""

    __slots__ = ("_numbers", "_rows")

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._numbers: dict[tuple[Any, ...], Numbers] = {}

    def take(self, need: Need) -> Numbers | None:
        """The numbers of a need, once; None if they are not here."""
        return self._numbers.pop(_key(need), None)

    def absent(self, needs: Sequence[Need]) -> list[Need]:
        """The needs whose numbers are not here."""
        return [need for need in needs if _key(need) not in self._numbers]

    def prepare(self, needs: Sequence[Need]) -> None:
        """Have numbers here for what reads them next."""
        for need in self.absent(needs):
            self._put(need, self._rows.counting(need)(), self._rows.size)

    def _put(self, need: Need, numbers: Numbers, size: int) -> None:
        """Keep numbers that were counted at this size, unless rows came since."""
        if size == self._rows.size:
            self._numbers[_key(need)] = numbers
            while len(self._numbers) > MOST_HELD:
                del self._numbers[next(iter(self._numbers))]

    def clear(self) -> None:
        """Rows came: what was counted before them is of no use."""
        self._numbers = {}


def _key(need: Need) -> tuple[Any, ...]:
    """Equal for needs that are alike."""
    table = need.groups.table
    return need.groups.axes, None if table is None else (table.shape, table.tobytes()), need.edges, need.sums


class Patient(Ahead):
    """PRIVATE: the same for a vault, whose threads do not wait for each other's statements. ``alone`` is its lock, in
    which ``check`` refuses a vault that is closed."""

    __slots__ = ("_alone", "_check", "_counting", "_missing")

    def __init__(
        self, rows: Rows, alone: Callable[[], AbstractContextManager[object]], check: Callable[[], None]
    ) -> None:
        super().__init__(rows)
        self._alone, self._check = alone, check
        self._counting = threading.Lock()
        self._missing: tuple[Need, ...] = ()
        """What the last operation needed that raised `Uncounted`."""

    def prepare(self, needs: Sequence[Need]) -> None:
        """Raise `Uncounted` unless all numbers are here."""
        if absent := self.absent(needs):
            self._missing = tuple(absent)
            raise Uncounted(absent)

    def patiently(self, work: Callable[[], Result]) -> Result:
        """The result of work in the vault. Where it needs rows counted, others go on meanwhile, and it is done
        again."""
        attempts = 0
        while True:
            try:
                return work()
            except Uncounted as missing:
                needs = missing.needs
            if attempts == MOST_ATTEMPTS:
                raise Uncounted(needs)
            attempts += self._count(needs)

    def again(self, tell: Callable[[], None]) -> None:
        """Tell who watches that rows have come: again, for as long as they need some counted. An error is left to the
        next question."""
        with suppress(TreeringError):
            for _ in range(MOST_ATTEMPTS):
                with self._alone():
                    self._missing = ()
                    tell()
                    needs = self._missing
                if not needs:
                    return
                self._count(needs)

    def _count(self, needs: Sequence[Need]) -> bool:
        """Have the engine count, without the vault's lock; one statement at a time. False after a wait for another's:
        what that has told may be enough."""
        if self._counting.locked():
            with self._counting:
                return False
        with self._counting:
            with self._alone():
                self._check()
                size, counting = self._rows.size, [self._rows.counting(need) for need in needs]
            numbers = [count() for count in counting]
            with self._alone():
                for need, each in zip(needs, numbers, strict=True):
                    self._put(need, each, size)
        return True
