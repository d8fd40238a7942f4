"""The static boxes that release noisy counts: what noise a budget buys, and the accuracy that is proven for it.

Neighbours replace one row. Accuracies are functions of the *noise*, in rows; divide by the size. They are what a box
promises before it runs, so they keep the law that schedules for the whole future rest on: noise c times as wide gives
a bound at most c times as large (c ≥ 1), never a smaller one. A release may state less: see `drawn_radius`.

Marginals released side by side under one budget: how it is split over them, and how far they stray.

Neighbours replace one row, which moves two cells of every marginal by one each: a marginal with discrete Laplace noise
of scale 2/ε is ε-DP, one with discrete Gaussian noise of variance 1/ρ is ρ-zCDP, and they add up.

*Accuracy.* Let S run over the sets of attributes whose marginals are released, with c cells each. `subsets.all_subsets`
bounds the error of all queries over S at once. A query or its complement has at most half of the mass, and the total is
public, so r_S, the bound at mass c/2, bounds them all. The statements for all sets of 1 to ``ways`` attributes share
beta equally; those for the smaller sets, which are read off a released marginal by adding up cells, only tighten what
the released ones already say.

*Split.* In units of its noise scale, r_S is nearly a number κ_S of its own. Scales are proportional to 1/w for a share
w of a pure budget, to 1/√w for one of a zCDP budget; the largest error is smallest where all are equal, at w ∝ κ and at
w ∝ κ². The shares are exact rationals that sum to 1. They depend neither on the budget nor on beta (κ is taken at a
fixed one), so that the bounds, at given shares, keep the law of scaling of `cell_noise.smooth`.

MWEM's accuracy, proven, and the number of rounds that makes it best.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.promise import Budget, BudgetKind
from treering.domain.query import Attributes
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, probability, root_at_least, whole
from treering.theory.cells import (
    CellNoise,
    LaplaceSumCell,
    SmoothLaplaceCell,
    SubGaussianCell,
    SubsetBound,
    all_subsets,
    exact,
    smooth,
)
from treering.theory.tails import gaussian_radius, laplace_radius

_ROUNDING: Final = 1 + 1e-12

_ONE_WIDTH: Final = math.erfc(1 / math.sqrt(2))
"""P(|N(0, 1)| > 1)."""

LARGEST_BETA: Final = 0.5
"""A rate's constant holds for failure probabilities up to here. The paper's schedules take none above."""

# -- noise that a budget buys ------------------------------------------------------------------------------------------


def answers_noise(budget: Budget, spreads: Iterable[Fraction], laplace: bool = False) -> Noise:
    """The noise with which answers to these queries together cost the budget, or a hair less.

    A replaced row moves the answers by their spreads (in rows) at most. Pure: Laplace noise, Σ spread/s = ε. zCDP:
    Gaussian noise, Σ spread²/(2σ²) = ρ; Laplace noise costs the same, Σ (spread/s)²/2.
    """
    moved = tuple(spreads)
    if budget.kind == "pure":
        return Laplace(at_least(sum(moved, Fraction(0)) / budget.total))
    scale = root_at_least(sum((spread**2 for spread in moved), Fraction(0)) / (2 * budget.total))
    return Laplace(scale) if laplace else Gaussian(scale)


def histogram_noise(budget: Budget, laplace: bool = False) -> Noise:
    """The noise with which a histogram costs the budget: a replaced row moves two cells by one each."""
    return answers_noise(budget, (Fraction(1), Fraction(1)), laplace)


# -- accuracy, in rows -------------------------------------------------------------------------------------------------


def answer_radius(noise: Noise, beta: float) -> float:
    """A draw exceeds this, in absolute value, with probability at most beta.

    Laplace: P(|X| > r) = 2p^{⌊r⌋+1}/(1+p) ≤ β for r = s·(log(2/β) − log(1+p)), and r/s falls as s grows.
    Gaussian, the smaller of two: σ·√(2·log(2/β)) by Chernoff; and σ·z + ½ with P(|N(0, 1)| > z) = β where z ≥ 1, since
    ⌊r⌋ + 1 ≥ σ + ½ (see `treering.theory.tails.gaussian_tail`, whose argument needs no more).
    """
    chance = float(probability(beta, "beta"))
    if isinstance(noise, Laplace):
        return noise.scale * (math.log(2 / chance) - math.log1p(math.exp(-1 / noise.scale))) * _ROUNDING
    chernoff = noise.scale * math.sqrt(2 * math.log(2 / chance))
    normal = noise.scale * -NormalDist().inv_cdf(min(chance, _ONE_WIDTH) / 2) * (1 + 1e-9) + 0.5
    return min(chernoff * _ROUNDING, normal)


@lru_cache(maxsize=1024)
def drawn_radius(noise: Noise, scale: int, beta: float) -> int:
    """The least integer that a draw for a query of this weight scale exceeds with probability at most beta, in units of
    1/scale rows: what a release states, where a promise states `answer_radius`."""
    radius = laplace_radius if isinstance(noise, Laplace) else gaussian_radius
    return radius(noise.scale * scale, beta)


def histogram_radius(noise: Noise, cells: int, beta: float) -> float:
    """With probability at least 1 − beta every query, chosen after the release, is answered within so many rows.

    The total is public, so a query is answered by the lighter of it and its complement: the mass is at most N/2 (see
    `treering.theory.cells`).
    """
    return float(all_subsets(smooth(noise), whole(cells, "cells"), beta).radius(cells / 2))


# -- the paper's rates -------------------------------------------------------------------------------------------------


def histogram_rate(cells: int) -> float:
    """g such that `histogram_radius` of a pure ε is at most g·log(1/β)/ε, for β ≤ ½ and every ε.

    In units of the scale the bound is largest for the narrowest noise, and concave in log(1/β) (a minimum of affine
    functions), so its ratio to log(1/β) is largest at β = ½.
    """
    narrow = 2.0**-20
    bound = all_subsets(SmoothLaplaceCell(narrow), cells, LARGEST_BETA).radius(cells / 2)
    return rate_of(float(bound) / narrow, 2)


def answers_rate(queries: int, moved: Fraction) -> float:
    """g such that `answer_radius` at beta over the number of queries is at most g·log(1/β)/ε, β ≤ ½: log(2k/β) ≤
    (1 + log(2k)/log 2)·log(1/β)."""
    return rate_of(math.log(2 * whole(queries, "queries") / LARGEST_BETA), moved)


def rate_of(units: float, moved: Fraction | int) -> float:
    """The constant of a bound of ``units`` noise scales at β = ½, the scale being ``moved``/ε."""
    return float(moved) * units / math.log(1 / LARGEST_BETA) * (1 + 1e-9)


# -- marginals ---------------------------------------------------------------------------------------------------------


_WIDE: Final = 2.0**20
_USUAL_BETA: Final = 1e-4
"""Where κ is taken: wide noise, and a beta that a few hundred sets leave to each."""

_NARROW: Final = 2.0**-20
"""Where the bound is largest in units of the scale."""

_STEPS: Final = 256
"""κ is rounded to so many parts of one: finer would be of no use."""

_LONGEST_SUM: Final = 1024
"""Sums of more cells than this get no bound of their own."""


@dataclass(frozen=True)
class Marginals:
    """All sets of ``ways`` attributes of a universe, attributes of a single value left out.

    >>> Marginals((3, 1, 4, 2), 2).sets
    ((0, 2), (0, 3), (2, 3))
    """

    shape: tuple[int, ...]
    ways: int

    def __post_init__(self) -> None:
        whole(self.ways, "ways")
        if self.ways > len(self.positions):
            raise ParameterError(
                "ways", f"must be at most {len(self.positions)}, the number of attributes with more than one value"
            )

    @cached_property
    def positions(self) -> Attributes:
        """The attributes that have more than one value."""
        return tuple(position for position, size in enumerate(self.shape) if size > 1)

    @property
    def number(self) -> int:
        """How many sets there are; known before they are listed."""
        return math.comb(len(self.positions), self.ways)

    @cached_property
    def sets(self) -> tuple[Attributes, ...]:
        """The sets of attributes."""
        return tuple(combinations(self.positions, self.ways))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each marginal."""
        return tuple(self.cells(each) for each in self.sets)

    def cells(self, attributes: Attributes) -> int:
        """The number of joint values of some attributes."""
        return math.prod(self.shape[position] for position in attributes)

    def noises(self, budget: Budget) -> tuple[Noise, ...]:
        """The noise of each marginal: together they cost the budget, to within the rounding of scales, and no more."""
        return tuple(histogram_noise(budget.share(share)) for share in shares(budget.kind, self.sizes))

    def radius(self, budget: Budget, beta: float) -> float:
        """The error in rows that no query within a set exceeds, but with probability beta.

        It falls, or stays, when the budget or beta grows, and grows at most c-fold when a pure budget is divided by c,
        a zCDP one by c².
        """
        pairs = set(zip(self.noises(budget), self.sizes, strict=True))
        return max(_half(smooth(noise), cells, self._part(beta)) for noise, cells in pairs)

    @cached_property
    def rate(self) -> float:
        """g such that `radius` of a pure ε is at most g·log(1/β)/ε, for β ≤ ½: as `static.histogram_rate`."""
        split = dict(zip(self.sizes, shares("pure", self.sizes), strict=True))
        law, part = SmoothLaplaceCell(_NARROW), self._part(LARGEST_BETA)
        return max(rate_of(_half(law, cells, part) / _NARROW, 2 / share) for cells, share in split.items())

    def bound(self, noise: Noise, cells: int, beta: float) -> SubsetBound:
        """The bound for all queries over one released marginal. At half of the mass it is at most `radius`."""
        law, above = exact(noise), smooth(noise)
        part = self._part(beta)
        better = _half(law, cells, part) <= _half(above, cells, part)
        return all_subsets(law if better else above, cells, part)

    def projected_bound(self, noise: Noise, cells: int, summed: int, beta: float) -> SubsetBound | None:
        """The bound for all queries over a marginal of ``cells`` cells, each the sum of ``summed`` released ones.

        None where the sums are too long to be worth one: then what `bound` says of the released cells has to do.
        """
        if summed > _LONGEST_SUM:
            return None
        law: CellNoise = (
            LaplaceSumCell([(1.0, noise.scale)] * summed)
            if isinstance(noise, Laplace)
            else SubGaussianCell(noise.scale * math.sqrt(summed) * (1 + 1e-12))
        )
        return all_subsets(law, cells, self._part(beta))

    @cached_property
    def _statements(self) -> int:
        return sum(math.comb(len(self.positions), few) for few in range(1, self.ways + 1))

    def _part(self, beta: float) -> float:
        return beta / self._statements


def shares(kind: BudgetKind, sizes: Sequence[int]) -> tuple[Fraction, ...]:
    """How marginals of these sizes share a budget so that their largest errors are alike: positive, 1 in all.

    >>> shares("pure", [24, 24, 24])
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
    """
    weights = [_weight(kind, cells) for cells in sizes]
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def _weight(kind: BudgetKind, cells: int) -> int:
    """κ or κ², in steps."""
    noise: Noise = Laplace(_WIDE) if kind == "pure" else Gaussian(_WIDE)
    width = max(1, round(_half(smooth(noise), cells, _USUAL_BETA) / _WIDE * _STEPS))
    return width if kind == "pure" else width**2


@lru_cache(maxsize=2**12)
def _half(law: CellNoise, cells: int, beta: float) -> float:
    """The bound at half of the mass, the most that a query or its complement has."""
    return float(all_subsets(law, cells, beta).radius(cells / 2))


# -- MWEM --------------------------------------------------------------------------------------------------------------


MOST_ROUNDS: Final = 4096
"""No more rounds than this are planned."""

_ROUNDS: Final = np.array(sorted({math.ceil(1.04**step) for step in range(212)} | {*range(1, 40), MOST_ROUNDS}))
"""The numbers of rounds that are tried."""

_GRID: Final = 2**30
"""A round's budget is divided in multiples of one over this."""

_SHARPEST: Final = 2.0**-10
"""The exponential mechanism's least scale: smaller ones act as this one."""

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


def mwem_plan(
    cells: int, queries: int, spread: Fraction, size: int, budget: Budget, beta: float, rounds: int | None = None
) -> Rounds:
    """The plan for a budget, all of which it costs (or a hair less), with the number of rounds that is best, or given.

    With r the largest spread of a query: T·(2r/s + r/b) = ε, b the scale of Laplace noise; or T·((r/s)² + (r/σ)²)/2 = ρ
    with Gaussian noise. (The exponential mechanism of scale s is 2r/s-DP, and (2r/s)²/8-zCDP.)

    >>> mwem_plan(10**6, 1000, Fraction(1), 10**6, Budget("pure", Fraction(1)), 0.05).rounds
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
