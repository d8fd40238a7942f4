"""The promise a steward makes, and the budget that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from treering.budget.convert import rho_of
from treering.budget.cost import Cost
from treering.errors import ParameterError
from treering.params import Number, exact, probability, share_of

BudgetKind: TypeAlias = Literal["pure", "zcdp"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A total that charges may not exceed: Σε under ``pure``, Σρ under ``zcdp``. Per row: neighbours replace one row.

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
        """What the total counts."""
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
        """A part of this budget, as a budget of the same kind; the fraction is in (0, 1]."""
        return Budget(self.kind, self.total * share_of(fraction, "fraction"))

    def split(self, shares: Sequence[Number]) -> tuple[Budget, ...]:
        """Parts that together spend no more than the whole: the shares sum to at most 1, exactly.

        Mechanisms that each keep to their part may run side by side, interleaved as they like: both kinds of cost add
        up under concurrent composition (see `treering.budget.filter`).
        """
        fractions = [share_of(share, "shares") for share in shares]
        if sum(fractions) > 1:
            raise ParameterError("shares", f"must sum to at most 1, not {float(sum(fractions)):.6g}")
        return tuple(Budget(self.kind, self.total * fraction) for fraction in fractions)


@dataclass(frozen=True, slots=True)
class Promise:
    """(ε, δ)-differential privacy for a person who contributes up to ``rows_per_person`` rows, for ever.

    Formal guarantee. Two streams are neighbours when one row is replaced (it keeps its arrival time); the size is
    public. For any two streams that differ in the values of at most ``rows_per_person`` rows, and any set S of
    transcripts of all that is ever released under `budget`, P(S) ≤ e^ε·P'(S) + δ.

    Why. Let k be ``rows_per_person``. Such streams are k steps of neighbours apart.
    δ = 0: releases that are together (ε/k)-DP per row are ε-DP for k rows (group privacy of pure differential privacy).
    δ > 0: releases that are together (ρ/k²)-zCDP per row are ρ-zCDP for k rows (Bun and Steinke 2016, Proposition 1.9),
    and ρ = `rho_of` (ε, δ) makes that (ε, δ)-DP.

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

    def __post_init__(self) -> None:
        exact(self.epsilon, "epsilon")
        if isinstance(self.delta, bool) or self.delta != 0:
            probability(self.delta, "delta")
        if isinstance(self.rows_per_person, bool) or not isinstance(self.rows_per_person, int):
            raise ParameterError("rows_per_person", f"must be an integer, not {type(self.rows_per_person).__name__}")
        if self.rows_per_person < 1:
            raise ParameterError("rows_per_person", f"must be at least 1, not {self.rows_per_person}")
        share_of(self.share, "share")

    @classmethod
    def of(cls, epsilon: Number | Promise, delta: Number = 0.0) -> Promise:
        """The promise that a mechanism is given: in full, or by epsilon and delta."""
        if not isinstance(epsilon, Promise):
            return cls(epsilon, delta)
        if delta != 0 and delta != epsilon.delta:
            raise ParameterError("delta", "is part of the promise that was given in place of epsilon: leave it out")
        return epsilon

    @property
    def plain(self) -> bool:
        """Whether epsilon and delta are all there is to it: one row a person, and nothing shared."""
        return self.rows_per_person == 1 and self.share == 1

    @property
    def budget(self) -> Budget:
        """What all releases together may cost per row."""
        return _budget(self.epsilon, self.delta, self.rows_per_person, self.share)


@lru_cache(maxsize=64, typed=True)
def _budget(epsilon: Number, delta: Number, rows: int, share: Number) -> Budget:
    """Remembered, because the conversion takes long and every question needs the result."""
    if delta == 0:
        return Budget("pure", exact(epsilon, "epsilon") / rows).share(share)
    return Budget("zcdp", rho_of(epsilon, delta) / rows**2).share(share)
