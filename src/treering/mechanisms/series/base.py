"""What a series is: counts of disjoint groups of a growing table, kept current at a price that each row pays once.

Rows between two calls of `Series.advance` are a leaf. New rows bring the price with them, so a series never ends, and
rows that came after its last leaf have paid nothing. ``trusted/combining.py`` has the privacy proof, for any weights;
which weights are used, and how estimates are made of what is released, is in ``root`` and ``tree``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from treering.arrays import Floats
from treering.budget.promise import Budget
from treering.domain.groups import Groups
from treering.gate import Event, Gate
from treering.theory.continual import Law


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """An estimate of the rows from size ``start`` to size ``end`` in each group, and the law of its noise."""

    start: int
    end: int
    counts: Floats
    law: Law

    def __add__(self, later: Window) -> Window:
        """The rows of this window and of one that begins where this one ends, whose noise is independent."""
        assert self.end == later.start
        return Window(self.start, later.end, self.counts + later.counts, self.law + later.law)


class Series(ABC):
    """The counts of some groups, kept current: a fold over the events of a gate.

    - ``groups``: disjoint sets of cells
    - ``price``: what each row pays, once, as a budget of the gate's kind
    - ``start``: rows after this position are counted
    - ``number``: tells the series of one gate apart
    """

    def __init__(self, groups: Groups, price: Budget, start: int = 0, number: int = 0) -> None:
        self.groups, self.price, self.start, self.number = groups, price, start, number

    @property
    @abstractmethod
    def leaf(self) -> int:
        """How many leaves there are."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size at the end of the last leaf."""

    @property
    @abstractmethod
    def boundaries(self) -> tuple[int, ...]:
        """The sizes from which on rows can be asked about, increasing; the first is where the series starts."""

    @abstractmethod
    def advance(self, gate: Gate) -> None:
        """Make the rows since the last leaf, if there are any, the next leaf. They pay the price, and no other row
        does."""

    @abstractmethod
    def follow(self, event: Event) -> None:
        """Take up an event of the gate; events of others change nothing."""

    @abstractmethod
    def window(self, since: int) -> Window:
        """The estimate of the rows since one of the `boundaries`."""

    @abstractmethod
    def close(self, gate: Gate) -> None:
        """End the series: its rows get back what they paid for releases that will not come. What is known stays."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the public state."""

    def cost(self, gate: Gate) -> Fraction:
        """What the next leaf's rows, if there are any, will pay, in the budget's unit: at most the price."""
        return self.price.total if gate.size > self.size else Fraction(0)
