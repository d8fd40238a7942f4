"""What a history of events has cost: a budget's filter, and at times one for a part of it that was set aside."""

from __future__ import annotations

from fractions import Fraction

from treering.budget.cost import Cost
from treering.budget.filter import Filter
from treering.budget.promise import Budget
from treering.gate import (
    Condensed,
    Event,
    ForeignReleased,
    HistogramReleased,
    Measured,
    Minimised,
    ReservationEnded,
    Reserved,
    RowsDrawn,
    RunEnded,
    RunStarted,
    Selected,
    TreeStarted,
)

_CHARGED = RunStarted | Measured | HistogramReleased | Selected | RowsDrawn | ForeignReleased | TreeStarted | Minimised


class Charges:
    """The charges of one kernel: a filter over its budget and, within a reservation, one over the reserved part.

    A part is charged to the whole when it is set aside; what is done with it costs the whole nothing more. Following
    the events of a history makes the charges that were made when they happened, so ``spent`` is the same again.

    >>> from treering.gate import Laplace
    >>> from treering.budget.cost import laplace
    >>> charges = Charges(Budget("pure", Fraction(1)))
    >>> charges.follow(Measured(10, laplace(1, 4), (), Laplace(4.0), ()))
    >>> charges.spent
    Fraction(1, 4)
    """

    __slots__ = ("_part", "_whole")

    def __init__(self, budget: Budget) -> None:
        self._whole = Filter(budget)
        self._part: Filter | None = None

    @property
    def budget(self) -> Budget:
        """The whole."""
        return self._whole.budget

    @property
    def spent(self) -> Fraction:
        """What has been charged to the whole."""
        return self._whole.spent

    @property
    def reserved(self) -> bool:
        """Whether a part is set aside now."""
        return self._part is not None

    @property
    def present(self) -> Budget:
        """What operations are paid from now: the part, or the whole."""
        return (self._part or self._whole).budget

    def charge(self, cost: Cost) -> None:
        """Charge what operations are paid from now, or raise `BudgetExceeded` and change nothing."""
        (self._part or self._whole).charge(cost)

    def refund(self, amount: Fraction) -> None:
        """Take back part of an earlier charge: see `Filter.refund` for when that is sound."""
        (self._part or self._whole).refund(amount)

    def set_aside(self, cost: Cost) -> None:
        """Charge the whole for a part."""
        self._whole.charge(cost)

    def open(self, part: Budget) -> None:
        """From now on operations are paid from the part."""
        self._part = Filter(part)

    def close(self) -> None:
        """From now on operations are paid from the whole."""
        self._part = None

    def follow(self, event: Event) -> None:
        """Make the charge, or the refund, that an event of the past stands for."""
        if isinstance(event, Condensed):
            self._whole.restore(event.spent)
        elif isinstance(event, Reserved):
            self.set_aside(event.cost)
            self.open(event.part)
        elif isinstance(event, ReservationEnded):
            self.close()
        elif isinstance(event, RunEnded):
            self.refund(event.refund)
        elif isinstance(event, _CHARGED):
            self.charge(event.cost)
