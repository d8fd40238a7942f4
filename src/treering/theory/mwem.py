"""MWEM's accuracy, proven, and the number of rounds that makes it best.

The setting: k queries with values in [0, 1], n rows, N cells, T rounds. Round t has a public distribution y, at first
uniform, and its integer estimates E of the counts, rounded; it *selects* a query by the exponential mechanism with
score |C − E| and scale s rows, *measures* its count as A with noise, and *projects* y onto the distributions that
answer A ± (e + ½), the end on the side of y, if y lies beyond it (`treering.mechanisms.histogram.step.projection`).

**Theorem.** With probability at least 1 − β, in all rounds together: the selected score is at least the largest one
less ξ = s·log((k−1)·2T/β), and |A − C| ≤ e, the noise's radius at β/(2T). Then, in rows:

1. *What a round certifies.* Every query q has |C_q − n·y(q)| ≤ H + ½ + ξ + e, with H = |A − E|: its score is within ½
   of it, the selected score is at least every score less ξ, and at most H + e. H is public, so the best round is known.
2. *What a round achieves.* If H > e + 1, then y is beyond the target by at least H − e − 1 (E is within ½ of n·y, the
   target ½ off e) and the truth on the target's other side, so the relative entropy RE(x‖y) falls by at least
   2·((H − e − 1)/n)². It starts at log N or less, is never negative, and no projection here raises it. So some round
   has H ≤ e + 1 + n·√(log N/(2T)), and the best round's distribution has error at most

       α = √(log N/(2T)) + (3/2 + ξ + 2e)/n.

Failure: k − 1 queries are not the best one; each is drawn with probability at most e^{−ξ/s} if its score is lower by ξ.
Further projections onto the same intervals A ± (e + ½), in any order, do not raise RE(x‖y) either.

(Hardt, Ligett and McSherry 2012 prove 2√(log N/T) + 10T·log k/(nε) for the average of the rounds and a fixed rate.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.promise import Budget, BudgetKind
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, probability, root_at_least, whole
from treering.theory.static import answer_radius

MOST_ROUNDS: Final = 4096
"""No more rounds than this are planned."""

_ROUNDS: Final = np.array(sorted({math.ceil(1.04**step) for step in range(212)} | {*range(1, 40), MOST_ROUNDS}))
"""The numbers of rounds that are tried."""

_GRID: Final = 2**30
"""A round's budget is divided in multiples of one over this."""

_SHARPEST: Final = 2.0**-10
"""The exponential mechanism's least scale: smaller ones act as this one."""

_ROUNDING: Final = 1 + 1e-12
_FLOATS: Final = 1e-10
"""What the floats of a public distribution may be off: its cells sum to one within 10^-12."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """A plan: the same in every round."""

    rounds: int
    selection_scale: float
    """The exponential mechanism's, in rows."""
    noise: Noise
    """That of the measurement."""
    selection_error: float
    """ξ, in rows."""
    share: float
    """The chance that one round's measurement may fail with."""

    def alpha(self, cells: int, size: int) -> float:
        """The accuracy that is sure before the first round."""
        rest = 1.5 + self.selection_error + 2 * answer_radius(self.noise, self.share)
        return math.sqrt(math.log(cells) / (2 * self.rounds)) + rest / size + 2 * _FLOATS

    def certified(self, gap: float, radius: float, size: int) -> float:
        """The accuracy that a round certifies: the gap H that it saw, and its noise's radius e, both in rows."""
        return (gap + 0.5 + self.selection_error + radius) / size + _FLOATS


def plan(
    cells: int, queries: int, spread: Fraction, size: int, budget: Budget, beta: float, rounds: int | None = None
) -> Rounds:
    """The plan for a budget, all of which it costs (or a hair less), with the number of rounds that is best, or given.

    With r the largest spread of a query: T·(2r/s + r/b) = ε, b the scale of Laplace noise; or T·((r/s)² + (r/σ)²)/2 = ρ
    with Gaussian noise. (The exponential mechanism of scale s is 2r/s-DP, and (2r/s)²/8-zCDP.)

    >>> plan(10**6, 1000, Fraction(1), 10**6, Budget("pure", Fraction(1)), 0.05).rounds
    511
    """
    whole(size, "size"), whole(cells, "cells"), whole(queries, "queries")
    chance = float(probability(beta, "beta"))
    if rounds is None:
        expected = _expected(_ROUNDS, queries, float(spread), budget, chance)
        worth = np.sqrt(math.log(cells) / (2 * _ROUNDS)) + expected / size
        rounds = int(_ROUNDS[int(np.argmin(worth))])
    return _exact(queries, spread, budget, chance, whole(rounds, "rounds"))


def _exact(queries: int, spread: Fraction, budget: Budget, chance: float, rounds: int) -> Rounds:
    """Budgets are divided exactly, and scales rounded up."""
    share = chance / (2 * rounds)
    tail = math.log(max(1, queries - 1) / share)
    part = float(_selecting(budget.kind, np.array([tail]), np.array([math.log(2 / share)]))[0])
    selecting = Fraction(round(part * _GRID), _GRID) * budget.total / rounds
    measuring = budget.total / rounds - selecting
    noise: Noise
    if budget.kind == "pure":
        scale = at_least(2 * spread / selecting)
        noise = Laplace(at_least(spread / measuring))
    else:
        scale = root_at_least(spread**2 / (2 * selecting))
        noise = Gaussian(root_at_least(spread**2 / (2 * measuring)))
    error = max(scale, _SHARPEST) * tail * _ROUNDING if queries > 1 else 0.0
    return Rounds(rounds, scale, noise, error, share)


def _expected(rounds: Floats, queries: int, spread: float, budget: Budget, chance: float) -> Floats:
    """About ξ + 2e for each number of rounds, in closed form: to choose by, not to promise."""
    tail = np.log(max(1, queries - 1) * 2 * rounds / chance)
    measured = np.log(4 * rounds / chance)
    part = _selecting(budget.kind, tail, measured)
    each = float(budget.total) / rounds / spread
    if budget.kind == "pure":
        return 2 * tail / (part * each) + 2 * measured / ((1 - part) * each)
    each = each / spread
    expected: Floats = tail / np.sqrt(2 * part * each) + 2 * np.sqrt(measured / ((1 - part) * each))
    return expected


def _selecting(kind: BudgetKind, tail: Floats, measured: Floats) -> Floats:
    """The part x of a round's budget that its selection gets, best for log-tails of these lengths.

    Pure: 2·tail/x + 2·measured/(1−x) is least. zCDP: tail/√x + 2·√(2·measured)/√(1−x). Any part would be sound.
    """
    ratio = np.sqrt(tail / measured) if kind == "pure" else (tail / (2 * np.sqrt(2 * measured))) ** (2 / 3)
    part: Floats = np.clip(ratio / (1 + ratio), 0.01, 0.99)
    return part
