"""PRIVATE: rows that are held out of learning, to test models.

A run of a minimiser over the rows of an interval can hold some of them out: a set S of positions, every set of its size
equally likely, drawn by fair coins and independent of all rows. The run learns from the rows outside of S. `Held` are
those within, until the next run; `tally` counts them by what public models say of them, plus noise. What all these
counts cost together stays within the *room*: what the run itself cost.

*Formal guarantee.* All rows of the interval are charged the cost c of the run, and nothing more for the counts: run and
counts together are c-DP (c-zCDP). Proof. Neighbours differ in the row at one position i. Fix S. If i is not in S, the
held-out rows are the same, and so is the law of all counts given the model: the loss is that of the run, c. If i is in
S, the run reads the same rows, and the loss is that of the counts: they are chosen adaptively under a filter of c. So
the pair is c-DP for each S; S is drawn alike for both neighbours, so it is for the mixture (and even if S were
released): probabilities are averages, and Rényi divergences quasi-convex in the pair of laws.

Over cells no position is known, and none is needed: rows are numbered by cell, and a set of numbers is drawn. As every
set is equally likely, the counts of what is held out have the same law as for positions by arrival.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.budget.promise import Budget, Filter
from treering.domain.loss import Labels
from treering.domain.problem import FEATURE_UNIT
from treering.domain.tally import TAKES, Tally
from treering.errors import ParameterError
from treering.noise import Noise
from treering.trusted.learning.points import Entries
from treering.trusted.noise import draw
from treering.trusted.samplers.coins import subset
from treering.trusted.sealed import Sealed


class Held(Sealed):
    """Held-out entries, the kind of their labels, and the room for counts of them."""

    __slots__ = ("_entries", "_labels", "_room")

    def __init__(self, entries: Entries, labels: Labels, room: Budget) -> None:
        self._entries = entries
        self._labels = labels
        self._room = Filter(room)

    def check(self, request: Tally) -> None:
        """Refuse what is no count of these entries."""
        if type(request) is not Tally:  # No subclass: it could sort an entry into many groups.
            raise ParameterError("request", f"must be a Tally, and no subclass, not a {type(request).__name__}")
        if len(request.theta) != self._entries.dimension:
            raise ParameterError("theta", f"must be {self._entries.dimension} numbers")
        if self._labels not in TAKES[request.of]:
            raise ParameterError("of", f"cannot be {request.of!r} for labels of kind {self._labels!r}")

    def charge(self, cost: Cost) -> None:
        """Take the cost out of the room, or raise `BudgetExceeded`."""
        self._room.charge(cost)

    def tally(self, request: Tally, noise: Noise) -> Ints:
        """The noisy counts. To be called once they are charged."""
        values = draw(noise, 1, request.groups)
        for grid, labels, weights in self._entries.blocks():
            np.add.at(values, request.sort(grid / FEATURE_UNIT, labels), 1 if weights is None else weights)
        values.setflags(write=False)
        return values


def check_held(held: int, size: int) -> None:
    """Refuse a number of rows to hold out that is none, or more than half of all."""
    if type(held) is not int or not 0 <= held <= size // 2:
        raise ParameterError("held", f"must be a number of rows, at most half of them, {size // 2:,}")


def room_of(cost: Cost, budget: Budget) -> Budget:
    """The room of a run: what it cost, in the budget's unit."""
    return Budget(budget.kind, Fraction(budget.amount(cost)))


def split(entries: Entries, number: int) -> tuple[Entries, Entries]:
    """PRIVATE: the entries to learn from, and ``number`` others, drawn at random."""
    drawn = np.array(subset(entries.size, number), dtype=np.int64)
    if entries.weights is None:
        return entries.without(drawn), entries.only(drawn)
    found = np.searchsorted(np.cumsum(entries.weights), drawn, side="right")
    held = np.bincount(found, minlength=len(entries.weights)).astype(np.int64)
    return entries.weighing(entries.weights - held), entries.weighing(held)
