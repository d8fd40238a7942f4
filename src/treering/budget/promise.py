"""The privacy promise that a data steward makes, the budget that keeps it, and the filter that guards the budget.

A filter charges an operation to a budget, or refuses it, by public values alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from treering.budget.convert import rho_of
from treering.budget.cost import Cost
from treering.errors import BudgetExceeded, ParameterError
from treering.params import Number, exact, probability, share_of

BudgetKind: TypeAlias = Literal["pure", "zcdp"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A total that charges may not exceed: Σε under ``pure``, Σρ under ``zcdp``. Per row: neighbours replace one row.

    ``kind`` is "pure" or "zcdp", ``total`` the ε or ρ as an exact rational.

    >>> Budget("pure", Fraction(3, 10)).split([0.5, 0.25])
    (Budget(kind='pure', total=Fraction(3, 20)), Budget(kind='pure', total=Fraction(3, 40)))
    """

    kind: BudgetKind
    total: Fraction

    def __post_init__(self) -> None:
        if self.kind not in ("pure", "zcdp"):
            raise ParameterError("kind", f"must be 'pure' or 'zcdp', not {self.kind!r}")
        object.__setattr__(self, "total", exact(self.total, "total"))

    @property
    def unit(self) -> Literal["epsilon", "rho"]:
        """The unit of the total."""
        return "epsilon" if self.kind == "pure" else "rho"

    def amount(self, cost: Cost) -> Fraction:
        """A cost in this budget's unit."""
        if self.kind == "zcdp":
            return cost.rho
        if cost.epsilon is None:
            raise ParameterError(
                "noise",
                "without a pure guarantee, such as Gaussian noise, needs a promise with delta > 0; "
                "under delta = 0 use Laplace noise",
            )
        return cost.epsilon

    def share(self, fraction: Number) -> Budget:
        """A part of this budget, as a budget of the same kind; ``fraction`` is in (0, 1]."""
        return Budget(self.kind, self.total * share_of(fraction, "fraction"))

    def split(self, shares: Sequence[Number]) -> tuple[Budget, ...]:
        """Parts that together spend no more than the whole: the shares sum to at most 1, exactly.

        Mechanisms that each keep to their part may run side by side, interleaved as they like: both kinds of cost add
        up under concurrent composition (see `treering.budget.promise`).
        """
        fractions = [share_of(share, "shares") for share in shares]
        if sum(fractions) > 1:
            raise ParameterError("shares", f"must sum to at most 1, not {float(sum(fractions)):.6g}")
        return tuple(Budget(self.kind, self.total * fraction) for fraction in fractions)


@dataclass(frozen=True, slots=True)
class Promise:
    """(ε, δ)-differential privacy for a person who contributes up to ``rows_per_person`` rows, for ever.

    ``epsilon``          ε, positive
    ``delta``            δ in [0, 1); 0 for pure differential privacy
    ``rows_per_person``  the most rows of one person
    ``share``            the part, in (0, 1], of the promise's budget that `budget` is
    ``aside``            the part, in [0, 1), of δ that is set aside for discoveries (``operations/discover.py``)

    Formal guarantee. Two streams are neighbours when one row is replaced (it keeps its arrival time); the size is
    public. For any two streams that differ in the values of at most ``rows_per_person`` rows, and any set S of
    transcripts of all that is ever released under `budget`, P(S) ≤ e^ε·P'(S) + δ.

    Why. Let k be ``rows_per_person``. Such streams are k steps of neighbours apart.
    δ = 0: releases that are together (ε/k)-DP per row are ε-DP for k rows (group privacy of pure differential privacy).
    δ > 0: releases that are together (ρ/k²)-zCDP per row are ρ-zCDP for k rows (Bun and Steinke 2016, Proposition 1.9),
    and ρ = `rho_of` (ε, δ) makes that (ε, δ)-DP.

    With some of δ ``aside``, D = `failure`, ρ is that of (ε, δ − D). Let the chances δ′ of the discoveries that read a
    row sum to at most D. With probability at least 1 − D nothing fails, and what is left is ρ-zCDP (the proof is in
    docs/theory/discovery.md): the whole is (ε, δ)-DP. It is for persons with one row: δ′ has no group privacy by k.

    With a ``share``, `budget` is that part of what keeps the promise: mechanisms whose shares sum to at most 1 keep it
    together, side by side (see `Budget.split`). A mechanism takes a promise in place of its ``epsilon``.

    >>> Promise(1.0, rows_per_person=4).budget
    Budget(kind='pure', total=Fraction(1, 4))
    >>> Promise(1.0, share=0.25).budget
    Budget(kind='pure', total=Fraction(1, 4))
    """

    epsilon: Number
    delta: Number = 0.0
    rows_per_person: int = 1
    share: Number = 1
    aside: Number = 0

    def __post_init__(self) -> None:
        exact(self.epsilon, "epsilon")
        if isinstance(self.delta, bool) or self.delta != 0:
            probability(self.delta, "delta")
        if isinstance(self.rows_per_person, bool) or not isinstance(self.rows_per_person, int):
            raise ParameterError("rows_per_person", f"must be an integer, not {type(self.rows_per_person).__name__}")
        if self.rows_per_person < 1:
            raise ParameterError("rows_per_person", f"must be at least 1, not {self.rows_per_person}")
        share_of(self.share, "share")
        if self.aside != 0:
            self._check_aside()

    def _check_aside(self) -> None:
        probability(self.aside, "aside")
        if self.delta == 0 or self.rows_per_person != 1:
            raise ParameterError("aside", "can be set only for a promise with delta > 0, and one row a person")

    @classmethod
    def of(cls, epsilon: Number | Promise, delta: Number = 0.0) -> Promise:
        """A promise as mechanisms take it: ``epsilon`` is ε, or a whole `Promise` in place of ε and δ."""
        if not isinstance(epsilon, Promise):
            return cls(epsilon, delta)
        if delta != 0 and delta != epsilon.delta:
            raise ParameterError("delta", "is part of the promise that was given in place of epsilon: leave it out")
        return epsilon

    @property
    def plain(self) -> bool:
        """Whether epsilon and delta say it all: one row per person, and the whole share."""
        return self.rows_per_person == 1 and self.share == 1 and self.aside == 0

    @property
    def failure(self) -> Fraction:
        """D, the part of δ that is set aside for discoveries."""
        return exact(self.delta, "delta") * exact(self.aside, "aside") if self.aside else Fraction(0)

    @property
    def budget(self) -> Budget:
        """The budget that all releases together may cost, per row."""
        delta = exact(self.delta, "delta") - self.failure if self.aside else self.delta
        return _budget(self.epsilon, delta, self.rows_per_person, self.share)


@lru_cache(maxsize=64, typed=True)
def _budget(epsilon: Number, delta: Number, rows: int, share: Number) -> Budget:
    """Remembered, because the conversion takes long and every question needs the result."""
    if delta == 0:
        return Budget("pure", exact(epsilon, "epsilon") / rows).share(share)
    return Budget("zcdp", rho_of(epsilon, delta) / rows**2).share(share)


# -- the filter: charge or refuse --------------------------------------------------------------------------------------


_DENOMINATOR_BITS: Final = 512
"""Sums are exact while their denominators have no more bits than this, as with all decimals that people write."""

_GRID_BITS: Final = 256
"""Sums with longer denominators are rounded up to multiples of a power of two below 2^-256 of the total."""


def rounded_up(value: Fraction, total: Fraction) -> Fraction:
    """A sum of charges that is at most ``total``: the same, or rounded up within the total if its denominator is long.
    It depends on its arguments alone. (Of a sum above the total the cap would cut something off: see `on_grid`.)"""
    grid = on_grid(value, total)
    return grid if grid is value else min(total, grid)


def on_grid(value: Fraction, total: Fraction) -> Fraction:
    """A sum of charges, also one above ``total``: the same, or rounded up if its denominator is long; never less."""
    if value.denominator.bit_length() <= _DENOMINATOR_BITS:
        return value
    # a/b ≥ 2^(bits(a) − 1 − bits(b)), strictly: the grid is finer than the total by more than _GRID_BITS bits.
    exponent = total.numerator.bit_length() - 1 - total.denominator.bit_length() - _GRID_BITS
    (top, bottom), (unit, parts) = value.as_integer_ratio(), (Fraction(2) ** exponent).as_integer_ratio()
    steps = -(-top * parts // (bottom * unit))
    return Fraction(steps * unit, parts)


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

    __slots__ = ("_budget", "_spent")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._spent = Fraction(0)

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
        self._spent = rounded_up(after, self.total)
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
        self._spent = rounded_up(self._spent - amount, self.total)

    def __repr__(self) -> str:
        return f"Filter({self._budget.unit}: spent {float(self.spent):.6g} of {float(self.total):.6g})"
