"""The privacy filter: it charges an operation to a budget, or refuses it, by public values alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.errors import BudgetExceeded, ParameterError

_DENOMINATOR_BITS: Final = 512
"""Sums are exact while their denominators have no more bits than this, as with all decimals that people write."""

_GRID_BITS: Final = 256
"""Sums with longer denominators are rounded up to multiples of a power of two below 2^-256 of the total."""


class Filter:
    """Adaptive composition under one budget: operations may be chosen, and priced, after seeing all earlier answers.

    Formal guarantee. If every operation is charged its cost here before it runs, and runs only if the charge was
    accepted, then the releases together are ε-DP (``pure``, ε the total) or ρ-zCDP (``zcdp``, ρ the total),
    neighbours replacing one row. Pure: basic composition, which holds for adaptively chosen costs. zCDP: the fully
    adaptive filter of Whitehouse, Ramdas, Rogers and Wu (ICML 2023). Operations may be interactive (a sparse-vector
    run), interleaved with each other and with appends: concurrent filters of Haney et al. (2023, arXiv 2309.05901),
    continual mechanisms of Henzinger, Safavi and Vadhan (2024, arXiv 2411.03299). A refusal depends on costs only,
    which are public.

    Arithmetic. ``spent`` is never below the exact sum S of charges less refunds, and never above the total. A charge
    c is accepted iff spent + c ≤ total; then S + c ≤ spent + c ≤ total, so both bounds survive when ``spent`` becomes
    the smaller of the total and spent + c rounded up. A refund r lowers S by r and ``spent`` by r before rounding up,
    so ``spent`` stays above S. Rounding adds less than 2^-256 of the total each time, so 2^64 charges waste less than
    2^-192 of it, and the denominators, hence the time of a charge, stay bounded. The result depends only on the
    sequence of calls: replaying it gives the same ``spent``.

    >>> from treering.budget.cost import laplace
    >>> filter = Filter(Budget("pure", Fraction(3, 10)))
    >>> [filter.charge(laplace(1, 10)) for _ in range(3)], filter.remaining
    ([Fraction(1, 10), Fraction(1, 10), Fraction(1, 10)], Fraction(0, 1))
    """

    __slots__ = ("_budget", "_grid", "_spent")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._spent = Fraction(0)
        total = budget.total
        # a/b ≥ 2^(bits(a) − 1 − bits(b)), strictly: the grid is finer than the total by more than _GRID_BITS bits.
        exponent = total.numerator.bit_length() - 1 - total.denominator.bit_length() - _GRID_BITS
        self._grid = Fraction(2) ** exponent

    @property
    def budget(self) -> Budget:
        """The budget that the filter keeps."""
        return self._budget

    @property
    def total(self) -> Fraction:
        """The most that may ever be spent, in the budget's unit (ε or ρ)."""
        return self._budget.total

    @property
    def spent(self) -> Fraction:
        """What has been charged and not refunded, possibly rounded up."""
        return self._spent

    @property
    def remaining(self) -> Fraction:
        """What may still be charged."""
        return self.total - self._spent

    def can_afford(self, cost: Cost) -> bool:
        """Whether `charge` would accept this cost now."""
        return self._spent + self._budget.amount(cost) <= self.total

    def charge(self, cost: Cost) -> Fraction:
        """Charge a cost and return it in the budget's unit, or raise `BudgetExceeded` and change nothing."""
        amount = self._budget.amount(cost)
        after = self._spent + amount
        if after > self.total:
            raise BudgetExceeded(self._budget.unit, spent=self._spent, requested=amount, total=self.total)
        self._spent = self._round_up(after)
        return amount

    def refund(self, amount: Fraction) -> None:
        """Return part of an earlier charge, ``amount`` in the budget's unit.

        Sound only when that part of the loss can no longer happen, whatever the transcript so far, and when that is
        decided by public values alone: in a pure budget, a sparse-vector run abandoned before it crossed has lost at
        most 1/s1, so the rest of its charge may come back, once; so may a numeric answer that was reserved and never
        drawn. Never in zCDP for a run's own charge: what its transcript has lost is not bounded by a smaller ρ.
        """
        if amount < 0 or amount > self._spent:
            raise ParameterError("amount", "of a refund must lie between 0 and what was spent")
        self._spent = self._round_up(self._spent - amount)

    def restore(self, spent: Fraction) -> None:
        """Continue an earlier filter of the same budget, of which ``spent`` had been spent."""
        if not 0 <= spent <= self.total:
            raise ParameterError("spent", "of an earlier life must lie between 0 and the total")
        self._spent = spent

    def _round_up(self, value: Fraction) -> Fraction:
        if value.denominator.bit_length() <= _DENOMINATOR_BITS:
            return value
        (top, bottom), (unit, parts) = value.as_integer_ratio(), self._grid.as_integer_ratio()
        steps = -(-top * parts // (bottom * unit))
        return min(self.total, Fraction(steps * unit, parts))

    def __repr__(self) -> str:
        return f"Filter({self._budget.unit}: spent {float(self.spent):.6g} of {float(self.total):.6g})"
