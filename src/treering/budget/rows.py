"""The ledger by row: what each row of a growing database was charged, so that new rows bring a budget of their own.

Rows have positions 1, 2, … in the order they came; neighbours replace one row, which keeps its position. An operation
about the rows (a, b] costs those rows something, and no other row anything. The ledger keeps, for every position, the
sum of the charges of the operations that touched it, and refuses a charge that would lift any of these sums above the
budget.

*Formal guarantee.* If every operation is charged here, to all rows that it touches, before it runs, then the transcript
of all operations is (budget.total)-DP for a ``pure`` budget and (budget.total)-zCDP for a ``zcdp`` one, for databases
that differ in one row, replaced, whatever its position, also when operations, their rows and the rows that are appended
are chosen after seeing earlier answers.

*Proof.* Fix the replaced position j, and compare the two databases along one transcript. An operation that does not
touch row j reads the same rows in both, so given the transcript so far its answer has the same law: it adds nothing to
the loss. The operations that touch row j are an adaptively chosen sequence whose costs sum to at most the budget,
whatever happens: the sum for j is kept here and never exceeds the total, and charges and refusals depend on public
values alone (sizes, intervals, noise scales). So they are what `treering.budget.promise.Filter` is about, with the same
theorems. Since j was arbitrary, the bound holds for every neighbour.

An operation that lasts, such as a sparse-vector run, touches all rows that come while it lasts: it is *held*, on every
position from 1 to infinity. When it is over, at size t, rows after t have never met it, and it stays charged on (0, t].

A person with k rows, which may lie anywhere: each row has at most ρ (or ε), so the k rows together have at most k²·ρ
(or k·ε) by group privacy, and a budget of ρ/k² (or ε/k) for each row keeps the promise for the person
(`treering.budget.promise.Promise`). Nothing in that argument asks where the rows lie.

*Representation.* What was charged to everyone present is one running total E, with its value at each size: a row pays
what was charged since it came. Charges to some rows are a step function R of the position, and what is held is added up
apart. So the charge of row j is

    held + E − E(before row j came) + R(j),

and a charge to everyone takes constant time, however many steps there are. E is rounded up when its denominator grows
too long (see `Filter`), and E(before) is one of its earlier values: the difference is never below the exact sum of the
charges between. A step of R is the sum of its charges, exact where they are prices (`priced`), else rounded up.

*Lemma.* The sum above is never below what row j was charged and did not get back. Rounding up never lowers it. A charge
is accepted only if the sum with it is within the total, so that a cap at the total cuts nothing off. Where a charge
takes the place of what was reserved, both change R in one step, and no cap applies: on the way, with both of them, the
sum may lie above the total.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from treering.budget.promise import Budget, on_grid, rounded_up
from treering.errors import BudgetExceeded, ParameterError

_NOTHING: Final = Fraction(0)

_GRID: Final = math.factorial(30) * 2**100
"""Prices are whole multiples of 1/_GRID of the budget: halves, thirds and decimals of it are, and the rest is within
2^-200 of one."""

_ROUNDING: Final = 1 + Fraction(1, 2**200)
"""More than what rounding can add to a sum that was within the budget."""


def priced(amount: Fraction, budget: Budget) -> Fraction:
    """An amount as rows are charged for it: rounded up to a grid, one for all amounts, so that any number of charges
    add up exactly, in whatever order.

    What is set aside and given back in part is then, bit for bit, what the part that was used would have cost.
    """
    return Fraction(math.ceil(amount / budget.total * _GRID), _GRID) * budget.total


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount, in the budget's unit, on each of the rows ``start`` + 1 to ``end``."""

    start: int
    end: int
    amount: Fraction


MOST_BITS: Final = 1024
"""The numerator and the denominator of a budget have at most this many bits: the time of a charge is bounded so."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The state of a ledger, apart from what is held: what a condensed record keeps of it."""

    everyone: tuple[tuple[int, Fraction], ...]
    """The running total of the charges to everyone, at each size at which there was one."""
    rows: tuple[tuple[int, Fraction], ...]
    """The charges to some rows, as steps: each begins after a position, and ends where the next begins."""


class RowLedger:
    """Charges by row under one budget; the module has the guarantee, and its proof.

    >>> ledger = RowLedger(Budget("pure", Fraction(1)))
    >>> ledger.charge(Fraction(3, 4), size=100)
    >>> ledger.charge_rows([Charge(100, 250, Fraction(1, 2))])
    >>> ledger.spent, ledger.left(100), ledger.left(101), ledger.left(251)
    (Fraction(3, 4), Fraction(1, 4), Fraction(1, 2), Fraction(1, 1))
    """

    __slots__ = ("_amounts", "_budget", "_edges", "_everyone", "_held", "_most", "_sizes", "_spent", "_totals")

    def __init__(self, budget: Budget) -> None:
        total = budget.total
        if max(total.numerator.bit_length(), total.denominator.bit_length()) > MOST_BITS:
            raise ParameterError(
                "total",
                f"of a budget must be a fraction whose numerator and denominator have at most {MOST_BITS} bits each, "
                f"as every decimal between 1e-290 and 1e290 has: round it",
            )
        self._budget = budget
        self._held: dict[int, Fraction] = {}
        self._everyone = _NOTHING
        self._sizes: list[int] = []
        self._totals: list[Fraction] = []
        """E at the end of each size at which everyone was charged."""
        self._edges: list[int] = [0]
        self._amounts: list[Fraction] = [_NOTHING]
        """The steps of R: ``_amounts[i]`` is on the rows after ``_edges[i]``, up to the next edge."""
        self._most = _NOTHING
        """The maximum over all rows of R(j) − E(before row j came): at least 0, by row 1."""
        self._spent: Fraction | None = _NOTHING
        """What `spent` is; None if it must be added up again."""

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """The budget of each row."""
        return self._budget

    @property
    def spent(self) -> Fraction:
        """The most that any row has been charged, possibly rounded up."""
        if self._spent is None:
            self._spent = min(self._everyone + sum(self._held.values()) + self._most, self._budget.total)
        return self._spent

    def left(self, position: int) -> Fraction:
        """What the row at this position may still be charged; for a row to come, what it will bring with it."""
        step = self._amounts[bisect_left(self._edges, position) - 1]
        since = self._everyone - self._before(position - 1)
        return max(_NOTHING, self._budget.total - sum(self._held.values()) - since - step)

    def least_left(self, start: int, end: int) -> Fraction:
        """The least that any of the rows ``start`` + 1 to ``end`` has left."""
        return max(_NOTHING, self._budget.total - self._spent_in(start, end))

    @property
    def steps(self) -> Steps:
        """The state, apart from what is held."""
        return Steps(
            tuple(zip(self._sizes, self._totals, strict=True)), tuple(zip(self._edges, self._amounts, strict=True))
        )

    # -- charging -----------------------------------------------------------------------------------------------------

    def charge(self, amount: Fraction, size: int) -> None:
        """Charge every row there is at this size, or raise `BudgetExceeded` and change nothing."""
        after = self._check(self.spent, amount)
        if self._add(amount, size):
            self._spent = after

    def hold(self, name: int, amount: Fraction) -> None:
        """Charge every row there is and all rows to come, for as long as ``name`` is held; or raise `BudgetExceeded`
        and change nothing."""
        self._check(self.spent, amount)
        self._held[name] = amount
        self._spent = None

    def holds(self, name: int) -> bool:
        """Whether ``name`` is held."""
        return name in self._held

    def let_go(self, name: int, size: int, refund: Fraction = _NOTHING) -> None:
        """What is held under ``name`` is over, at this size: it stays charged to the rows there are, without the
        ``refund`` (`Filter.refund` says when that is sound), and no longer to rows to come."""
        amount = self._held[name]
        if not 0 <= refund <= amount:
            raise ParameterError("refund", "must lie between 0 and what was charged")
        self._add(amount - refund, size)  # Before it is no longer held: an interrupt leaves too much charged.
        del self._held[name]

    def charge_rows(self, charges: Sequence[Charge]) -> None:
        """Charge some rows, intervals that do not overlap; or raise `BudgetExceeded` and change nothing."""
        for charge in charges:
            self._check(self._spent_in(charge.start, charge.end), charge.amount)
        for charge in charges:
            self._raise(charge.start, charge.end, charge.amount)

    def settle_rows(self, reserved: Iterable[Charge], paid: Iterable[Charge]) -> None:
        """Put what rows have ``paid`` in the end in the place of what was ``reserved`` on them: sound for what was set
        aside and can no longer happen. Nothing is refused and nothing is cut off: what was paid was within the budget
        before, and `check` finds a record that says otherwise."""
        changes: dict[int, Fraction] = {}
        """How much more than the row before it the first row after each position is charged now."""
        for charges, sign in ((paid, 1), (reserved, -1)):
            for charge in charges:
                changes[charge.start] = changes.get(charge.start, _NOTHING) + sign * charge.amount
                changes[charge.end] = changes.get(charge.end, _NOTHING) - sign * charge.amount
        edges, amounts = self._changed(changes)
        most = max(amount - self._before(edge) for edge, amount in zip(edges, amounts, strict=True))
        # In one step: an interrupt leaves all of it or none.
        self._edges, self._amounts, self._most, self._spent = edges, amounts, most, None

    def check(self) -> None:
        """Raise `BudgetExceeded` if some row was charged more than the budget: by a record that no kernel can have
        written, or under another budget."""
        spent, total = self._everyone + sum(self._held.values()) + self._most, self._budget.total
        if spent > total * _ROUNDING:
            raise BudgetExceeded(self._budget.unit, spent=total, requested=spent - total, total=total)

    def restore(self, steps: Steps) -> None:
        """Continue an earlier ledger of the same budget."""
        self._sizes, self._totals = [size for size, _ in steps.everyone], [total for _, total in steps.everyone]
        self._edges, self._amounts = [edge for edge, _ in steps.rows], [amount for _, amount in steps.rows]
        self._everyone = self._totals[-1] if self._totals else _NOTHING
        if self._edges[:1] != [0]:
            raise ParameterError("steps", "of an earlier life must begin with the first row")
        self._most = max(self._above(place, edge) for place, edge in enumerate(self._edges))
        self._spent = None
        if self._everyone + self._most > self._budget.total * _ROUNDING:
            raise ParameterError("steps", "of an earlier life must lie within the budget")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _check(self, spent: Fraction, amount: Fraction) -> Fraction:
        """The sum of what was spent and an amount, if it is within the budget."""
        total, after = self._budget.total, spent + amount
        if after > total:
            raise BudgetExceeded(self._budget.unit, spent=min(spent, total), requested=amount, total=total)
        return after

    def _add(self, amount: Fraction, size: int) -> bool:
        """Add to the charges of everyone present; whether the sum is exact. (In an empty database, the first row to
        come stands for them.)"""
        exact = self._everyone + amount
        self._everyone, self._spent = rounded_up(exact, self._budget.total), None
        if self._sizes and self._sizes[-1] >= size:
            self._totals[-1] = self._everyone
        elif amount:
            last = len(self._sizes)  # In one step: an interrupt cannot leave one list longer than the other.
            self._sizes[last:], self._totals[last:] = [max(1, size)], [self._everyone]
        return self._everyone is exact

    def _before(self, size: int) -> Fraction:
        """What had been charged to everyone before the row after this size came."""
        place = bisect_right(self._sizes, size) - 1
        return self._totals[place] if place >= 0 else _NOTHING

    def _above(self, place: int, start: int) -> Fraction:
        """The most, over the rows of a step after position ``start``, of R(j) − E(before row j came)."""
        return self._amounts[place] - self._before(start)

    def _spent_in(self, start: int, end: int) -> Fraction:
        """The most that any of some rows has been charged. (E(before) grows with the position: within a step, the first
        row has been charged the most.)"""
        first, last = bisect_right(self._edges, start) - 1, bisect_left(self._edges, end)
        most = max(self._above(place, max(start, self._edges[place])) for place in range(first, last))
        return self._everyone + sum(self._held.values()) + most

    def _raise(self, start: int, end: int, amount: Fraction) -> None:
        """Add to R on some rows; then join neighbouring steps that are equal."""
        first, last, self._spent = self._split(start), self._split(end), None
        for place in range(first, last):
            self._amounts[place] = self._sum(self._amounts[place], amount)
            self._most = max(self._most, self._above(place, self._edges[place]))
        for place in (last, first):
            if place > 0 and self._amounts[place] == self._amounts[place - 1]:
                del self._edges[place], self._amounts[place]

    def _changed(self, changes: Mapping[int, Fraction]) -> tuple[list[int], list[Fraction]]:
        """The steps of R after changes at some positions, with equal neighbours as one."""
        old = dict(zip(self._edges, self._amounts, strict=True))
        edges: list[int] = []
        amounts: list[Fraction] = []
        before, more = _NOTHING, _NOTHING
        for edge in sorted({*old, *changes}):
            before, more = old.get(edge, before), more + changes.get(edge, _NOTHING)
            amount = self._sum(before, more) if more else before
            if not edges or amount != amounts[-1]:
                edges.append(edge)
                amounts.append(amount)
        return edges, amounts

    def _sum(self, step: Fraction, amount: Fraction) -> Fraction:
        """A step of R and an amount: exact for prices, whatever the budget, else rounded up if it is long."""
        exact, total = step + amount, self._budget.total
        rounded = on_grid(exact, total)
        return exact if rounded is exact or (exact / total * _GRID).denominator == 1 else rounded

    def _split(self, position: int) -> int:
        """The number of the step that begins after this position, made if there is none."""
        place = bisect_left(self._edges, position)
        if place == len(self._edges) or self._edges[place] != position:
            self._edges[place:place], self._amounts[place:place] = [position], [self._amounts[place - 1]]
        return place
