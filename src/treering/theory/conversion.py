"""The paper's conversions between ρ-zCDP and (ε, δ)-DP, which ``budget/convert.py`` improves on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from treering.budget.convert import HUGE, MARGIN, is_zero, largest, log_inverse, lower, upper
from treering.errors import GuaranteeError
from treering.params import Number, exact, probability


def paper_epsilon_of(rho: Number, delta: Number) -> float:
    """The paper's conversion (Bun and Steinke 2016, Proposition 1.3): ε = ρ + 2√(ρ log(1/δ)), rounded up.

    >>> round(paper_epsilon_of(0.5, 1e-5), 4)
    5.2985
    """
    tail = log_inverse(delta)
    if is_zero(rho):
        return 0.0
    if exact(rho, "rho") > HUGE:
        return math.inf
    cost = upper(rho, "rho")
    return (cost + 2 * math.sqrt(cost * tail)) * (1 + MARGIN)


def paper_rho_of(epsilon: Number, delta: Number) -> Fraction:
    """The ρ with paper_epsilon_of(ρ, δ) = ε, rounded down: (√(L+ε) − √L)², L = log(1/δ)."""
    goal = lower(epsilon, "epsilon")
    tail = log_inverse(delta)
    best = (goal / (math.sqrt(tail + goal) + math.sqrt(tail))) ** 2
    return largest(best, lambda rho: paper_epsilon_of(rho, delta) <= goal)


def paper_composition(epsilons: Iterable[Number], delta: Number) -> float:
    """Theorem "CDP composition" of the paper: ε_i-DP mechanisms together have ε = ½Σε_i² + √(2Σε_i² log(1/δ))."""
    return paper_epsilon_of(_sum_of_squares(epsilons) / 2, delta)


def paper_composition_simple(epsilons: Iterable[Number], delta: Number) -> float:
    """The theorem's second form, ε = 2√(Σε_i² log(1/δ)): a larger ε, valid for δ ≤ 1/e and Σε_i² ≤ 1 only."""
    squares = _sum_of_squares(epsilons)
    if probability(delta, "delta") > math.exp(-1) or squares > 1:
        raise GuaranteeError(
            f"the simple form of CDP composition needs delta <= 1/e and a sum of squares <= 1, "
            f"not {float(delta):.6g} and {float(squares):.6g}; paper_composition has no such conditions"
        )
    return 2 * math.sqrt(float(squares) * log_inverse(delta)) * (1 + MARGIN)


def _sum_of_squares(epsilons: Iterable[Number]) -> Fraction:
    return sum((exact(epsilon, "epsilons") ** 2 for epsilon in epsilons), Fraction(0))
