"""ContinualHistogram: every cell of a growing database, kept current for ever by a series over its batches.

Leaves are batches, closed at public moments. Under zCDP the series is one of square roots (`treering.theory.series`).
Where all periods are wanted, each leaf is counted by itself (`any_period`).
Under pure differential privacy, and with very many cells, it is one of binary trees, as follows.

*Trees.* `treering.theory.nodes` says which leaves a node holds. A leaf of segment k lies in k+1 nodes, each released
once, with Laplace noise of scale (k+1)·s or Gaussian noise of scale √(k+1)·σ in each cell: each costs a row of the leaf
1/(k+1) of 2/s or 1/σ², so all of them together cost what one histogram costs, s = 2/ε or σ = 1/√ρ. Segments hold
different rows, so no budget is split over infinite time.

*Estimates.* A node is seen twice: by its own noisy counts, of variance v, and by the sum of its children's estimates.
The best unbiased combination weighs them by the inverse of their variances (Honaker 2015, from below). All nodes of a
segment have the same v, so by induction the estimate of a node at level l has variance e_l = v·2^l/(2^{l+1} − 1): e_0 =
v, and 1/e_l = 1/v + 1/(2·e_{l−1}) = (1 + (2^l − 1)/2^l)/v. Its own counts get the weight e_l/v = 2^l/(2^{l+1} − 1), and
unrolled, each descendant at level m gets 2^m/(2^{l+1} − 1): the product of the weights (2^j − 1)/(2^{j+1} − 1) that the
children get on the way down telescopes. So a combined node has hardly more than half the variance of a plain one.

*All rows.* All rows up to leaf j are the roots of the earlier segments, and one node for each binary digit 1 of the
number of leaves closed in the present segment: k+1 segments of k+1 levels, so the variance of a cell grows like log² j.
Divided by t rows, the error falls as 1/t.

*Recent rows.* The last `KEPT` nodes of each level are kept. From the first leaf of any of them up to now the rows are a
union of kept nodes (`stretch`).

*Confidence.* At leaf j, all queries about all rows, and about the rows since each first leaf that is kept, fail
together with probability β·w_j (`leaf_beta`), and Σ w_j = 1: all answers ever given are within their errors but with
probability β. A query may be chosen after its noise was seen, so the bounds for one estimate hold for all queries at
once: `CentredBound` is for any query, `StructuredBound`, much lower, for queries that name few attributes.

**Any query.** The number of rows is public, so the total of the noise is known, too, and an N-th of it is taken off
each cell: X_i becomes X_i − X̄. Answers are then consistent (a query and its complement sum to 1), and a query of
weights w ∈ [0, 1]^N, mass m = Σw, has the error Σ (w_i − m/N)·X_i. Its variance is at most m(1 − m/N) times that of a
cell, and it is the same, but for its sign, for a query and its complement: m may be taken as at most N/2.

Two bounds are taken, and the lower counts. X is symmetric and independent from cell to cell; K(λ) ≥ log E e^{λX} is all
that is known of it.

*Subsets one by one.* For a set of m cells, x = m/N, and any λ > 0: P(Σ (w_i − x)·X_i > R) ≤ e^{−λR + m·K(λ(1−x)) +
(N−m)·K(λx)}. There are C(N, m) sets of m cells and two signs; set size m gets β·w_m of β, with the weights w of
`treering.theory.search.rarity`, which sum to 1. For a mass between m and m+1 the largest error is reached with at most
one weight that is neither 0 nor 1 (a linear program over the weights), and the m or m+1 largest cells: so it is at most
the value in between, on the line from the bound for m to that for m+1.

*All at once.* |Σ (w_i − x)·X_i| ≤ |Σ w_i·X_i| + x·|ΣX_i|. `treering.theory.cells` bounds the first for all w, and the
second is one sum.

K is tabulated. It is convex, so the line between two entries lies above it.

**Queries that name few attributes.** There are far fewer of them than sets of cells, of which the bound for any query
must allow for 2^N. A query that names attributes with n_1, …, n_a values is one of these:

- a *conjunction* whose sets have k_1, …, k_a values, each at least one and not all, is one of Π C(n_i, k_i), and there
  are Π (n_i − 1) such sizes;
- a *table* over the J joint values of these attributes is a query about a histogram of J cells, each the sum of N/J
  cells: J takes the place of N in the bound for subsets one by one, with rarity weights for the set sizes, and the
  bound for masses between two sizes lies on the line between theirs.

Which of the d attributes are named: a of them with weight 1/(d+1), each choice of a alike. Conjunctions and tables have
half of β each, both signs included. For a set of m cells each bound is `set_radius`; the lowest one counts, the bound
for any query among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from treering.arrays import Floats, Ints
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, probability, root_at_least, whole
from treering.theory import series
from treering.theory.cells import CellNoise, LaplaceCell, MomentCell, SubGaussianCell, all_subsets, exact, subset_radius
from treering.theory.nodes import Node, first_leaf, last_leaf, node_segment, prefix, segment_of
from treering.theory.search import rarity

KEPT: Final = 4
"""How many nodes of each level are kept: each period that can be asked about is then at most half as long again as the
next shorter one."""

LARGEST_SCALE: Final = 2.0**42
"""The largest scale of a node in segment 0: the kernel draws up to 2^48, and there are fewer than 2^6 segments."""

ANY_SHARE: Final = 0.8
"""The part of a leaf's beta for `CentredBound`, on any query; the rest is for `StructuredBound`."""

# -- the noise of a node -----------------------------------------------------------------------------------------------


def start_noise(budget: Budget) -> Noise:
    """The noise of a node in segment 0 when the whole budget is spent: Laplace of scale 2/ε, or Gaussian of scale 1/√ρ.

    >>> start_noise(Budget("pure", Fraction(1, 2))), start_noise(Budget("zcdp", Fraction(1, 16)))
    (Laplace(scale=4.0), Gaussian(scale=4.0))
    """
    square = 1 / budget.total if budget.kind == "zcdp" else (2 / budget.total) ** 2
    if square > Fraction(LARGEST_SCALE) ** 2:
        raise ParameterError("epsilon", "is too small: the noise would be wider than any database that can be")
    return Laplace(at_least(2 / budget.total)) if budget.kind == "pure" else Gaussian(root_at_least(square))


def node_noise(noise: Noise, node: Node) -> Noise:
    """The noise of a node when one in segment 0 has ``noise``."""
    return noise.shared(node_segment(node) + 1)


# -- estimates from noisy nodes ----------------------------------------------------------------------------------------


def own_weight(level: int) -> Fraction:
    """The weight of a node's own counts in its estimate; also the estimate's variance over that of the counts."""
    return Fraction(1 << level, (2 << level) - 1)


def kept_nodes(leaf: int) -> tuple[Node, ...]:
    """The nodes that are kept once ``leaf`` is closed: the last `KEPT` of each level, the lowest level first."""
    kept: list[Node] = []
    for level in range(segment_of(leaf) + 1):
        last = ((leaf + 1) >> level) - 1
        kept += [(level, index) for index in range(max(1, last - KEPT + 1), last + 1)]
    return tuple(kept)


@lru_cache(maxsize=1024)
def first_leaves(leaf: int) -> tuple[int, ...]:
    """The leaves at which a period that is asked about may begin, once ``leaf`` is closed: increasing, from leaf 1.

    >>> first_leaves(5), first_leaves(100)[:6]
    ((1, 2, 3, 4, 5), (1, 32, 48, 64, 72, 80))
    """
    return tuple(sorted({1, *(first_leaf(node) for node in kept_nodes(leaf))}))


def stretch(first: int, leaf: int) -> tuple[Node, ...]:
    """The fewest kept nodes that hold exactly the leaves from ``first``, one of `first_leaves`, up to ``leaf``.

    From the end, the largest kept node that fits is taken each time. It always fits: let ``first`` begin a kept node of
    level l. What is left ends with the last complete node of some level below l, which is kept, until it ends with one
    of level l; from then on the kept nodes of level l follow each other down to ``first``.
    """
    if first not in first_leaves(leaf):
        raise ParameterError("first", f"must be one of the leaves that answers can begin with, not {first}")
    if first == 1:
        return prefix(leaf)
    ends: dict[int, list[Node]] = {}
    for node in kept_nodes(leaf):
        if first_leaf(node) >= first:
            ends.setdefault(last_leaf(node), []).append(node)
    taken: list[Node] = []
    while leaf >= first:
        taken.append(ends[leaf][-1])
        leaf = first_leaf(taken[-1]) - 1
    return tuple(reversed(taken))


def deviation(noise: Noise, nodes: Iterable[Node]) -> float:
    """The standard deviation, in rows, of a cell in the sum of the nodes' estimates; for Gaussian noise an upper bound.

    ``noise`` is that of segment 0. At most 17.4 σ over the first 2^20 leaves; nodes by their own counts have 23.9 σ.

    >>> round(deviation(Gaussian(1.0), prefix(10**6)), 2), round(deviation(Gaussian(1.0), prefix(2**20 - 2)), 2)
    (13.28, 17.39)
    """
    return math.sqrt(math.fsum(_variance(node_noise(noise, node)) * own_weight(node[0]) for node in nodes))


def _variance(noise: Noise) -> float:
    """σ² bounds a discrete Gaussian's (Canonne, Kamath and Steinke 2020); a discrete Laplace's is 2p/(1−p)²."""
    if isinstance(noise, Gaussian):
        return noise.scale**2
    p = math.exp(-1 / noise.scale)
    return 2 * p / math.expm1(-1 / noise.scale) ** 2


# -- the law of a cell's noise -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeLaplaceCell(MomentCell):
    """Σ a_j·X_j for independent discrete Laplace noise X_j; ``parts`` are triples (weight a_j, scale, how many)."""

    parts: tuple[tuple[float, float, int], ...]

    @property
    def unit(self) -> float:
        return math.sqrt(math.fsum(number * (weight * scale) ** 2 for weight, scale, number in self.parts))

    @property
    def rates(self) -> Floats:
        return LaplaceCell(max(weight * scale for weight, scale, _ in self.parts)).rates

    def log_moment(self, rates: Floats) -> Floats:
        """The moment is tabulated where it exists. It is convex, so the line between two entries lies above it."""
        grid, moments = _moments(self)
        inside = np.interp(rates, grid, moments)
        return np.where(rates <= grid[-1], inside, np.inf)


@lru_cache(maxsize=256)
def _moments(noise: TreeLaplaceCell) -> tuple[Floats, Floats]:
    rates = noise.rates
    total = np.zeros(len(rates))
    for weight, scale, number in noise.parts:
        total += number * LaplaceCell(scale).log_moment(rates * weight)
    return np.concatenate([[0.0], rates]), np.concatenate([[0.0], total * (1 + 1e-12)])


@dataclass(frozen=True, slots=True)
class Law:
    """The law of a group's noise in an estimate: the ``variance`` of a sub-Gaussian part, and Laplace ``parts``, each a
    weight, a scale and how many there are. Laws of independent noise add up.

    >>> (Law(9.0) + Law(16.0)).deviation
    5.0
    """

    variance: float
    parts: tuple[tuple[float, float, int], ...] = ()
    step: float = 0.0
    """Where the sub-Gaussian part is drawn in whole rows, and may be no wider than a few of them: the largest step of
    its grid. 0 where the grid is so fine that it does not matter."""

    def __add__(self, other: Law) -> Law:
        return Law(self.variance + other.variance, self.parts + other.parts, max(self.step, other.step))

    def scaled(self, factor: float) -> Law:
        """The law of ``factor`` times this noise."""
        return Law(
            self.variance * factor**2,
            tuple((weight * factor, scale, number) for weight, scale, number in self.parts),
            self.step * factor,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation, or an upper bound on it."""
        spread = math.fsum(number * weight**2 * _variance(Laplace(scale)) for weight, scale, number in self.parts)
        return math.sqrt(self.variance + spread)

    @property
    def cell(self) -> CellNoise:
        """The law as the bounds take it: exact for one release of Laplace noise, else a bound on its moments."""
        if not self.parts:
            return SubGaussianCell(math.sqrt(self.variance) * (1 + 1e-12))
        assert self.variance == 0  # One promise is kept by one kind of noise.
        if len(self.parts) == 1 and self.parts[0][::2] == (1.0, 1):
            return exact(Laplace(self.parts[0][1]))
        return TreeLaplaceCell(self.parts)


def tree_law(noise: Noise, nodes: Iterable[Node]) -> Law:
    """The law of a group's noise in the sum of the nodes' estimates; ``noise`` is that of segment 0."""
    listed = tuple(nodes)
    if isinstance(noise, Gaussian):
        return Law(deviation(noise, listed) ** 2, step=1.0)
    return Law(
        0.0,
        tuple(
            ((1 << below) / ((2 << level) - 1), node_noise(noise, (level, index)).scale, 1 << (level - below))
            for level, index in listed
            for below in range(level + 1)
        ),
    )


def leaves_law(noise: Noise, leaves: int) -> Law:
    """The law of a group's noise in the sum of so many leaves that were each counted by itself.

    >>> leaves_law(Gaussian(3.0), 4).deviation, leaves_law(Laplace(5.0), 2).parts
    (6.0, ((1.0, 5.0, 2),))
    """
    if isinstance(noise, Gaussian):
        return Law(whole(leaves, "leaves") * noise.scale**2, step=1.0)
    return Law(0.0, ((1.0, noise.scale, whole(leaves, "leaves")),))


def kept_leaves(groups: int) -> int:
    """How many leaves, each counted by itself, are told apart where there are so many groups."""
    return max(1, series.LIMIT // whole(groups, "groups"))


def by_roots(budget: Budget, groups: int) -> bool:
    """Whether so many groups are kept current by square roots: under zCDP, unless there are too many. Trees otherwise.

    (Under pure differential privacy what counts is the sum of the weights, not of their squares.)
    """
    return budget.kind == "zcdp" and series.rooted(groups)


def prefix_law(budget: Budget, groups: int, leaf: int) -> Law:
    """The law of a group's noise in the estimate of all rows after ``leaf`` leaves, when each row pays the budget.

    >>> [round(prefix_law(Budget("zcdp", Fraction(1)), 12, leaf).deviation, 2) for leaf in (1, 2, 365)]
    [1.0, 1.8, 3.67]
    """
    return window_law(budget, groups, 1, leaf)


def window_law(budget: Budget, groups: int, first: int, leaf: int) -> Law:
    """The same for the rows since leaf ``first``, one of `starts`."""
    if by_roots(budget, groups):
        return Law(series.variance(first, leaf, budget.total, groups))
    return tree_law(start_noise(budget), stretch(first, leaf))


def starts(budget: Budget, groups: int, leaf: int) -> tuple[int, ...]:
    """The leaves at which a period that is asked about may begin, once ``leaf`` is cut."""
    return series.starts(leaf, groups) if by_roots(budget, groups) else first_leaves(leaf)


def windows(budget: Budget, groups: int, leaf: int) -> int:
    """How many periods can be asked about once ``leaf`` is cut."""
    return len(starts(budget, groups, leaf))


# -- guaranteed errors -------------------------------------------------------------------------------------------------


def leaf_beta(beta: float, leaf: int, windows: int) -> float:
    """The probability with which the bounds of one estimate at leaf j may fail: β·w_j over the number of estimates."""
    weight = math.exp(-rarity(math.log(whole(leaf, "leaf"))))
    return float(probability(beta, "beta")) * weight / windows


@lru_cache(maxsize=256)
def every_bound(law: Law, cells: int, beta: float) -> CentredBound:
    """The error bounds, in rows, of any query about an estimate; ``beta`` is that of `leaf_beta`."""
    return CentredBound(law.cell, cells, ANY_SHARE * beta)


@lru_cache(maxsize=256)
def bound(law: Law, shape: tuple[int, ...], beta: float) -> StructuredBound:
    """The error bounds, in rows, of the queries of a schema about one estimate, by the attributes that they name.

    ``law`` is that of a cell's noise in the estimate, ``shape`` the sizes of the attributes, ``beta`` the estimate's
    share by `leaf_beta`. Guarantee: with probability at least 1 − β all bounds, for all leaves and all periods, hold
    together.
    """
    return StructuredBound(every_bound(law, math.prod(shape), beta), shape, (1 - ANY_SHARE) * beta)


def any_period(noise: Noise, cells: int, beta: float, leaves: int) -> float:
    """The error of every query about every period of whole leaves, for ``leaves`` leaves, each counted by itself: in
    rows for each leaf of the period.

    A period of w leaves has w times the moments' logarithm of one, and each bound is min over λ of (that + a tail)/λ:
    so at most w times the bound for one leaf, when that is taken by moments, too. (The bound that is stated for a
    single leaf may be by its exact law; the larger of both counts.) The last leaf has the least share of beta.
    """
    share = leaf_beta(beta, leaves, min(leaves, kept_leaves(cells)))
    one = leaves_law(noise, 1)
    moments = one.cell if isinstance(noise, Gaussian) else TreeLaplaceCell(one.parts)
    bounds = (every_bound(one, cells, share), CentredBound(moments, cells, ANY_SHARE * share))
    return max(each.worst for each in bounds)


def alpha(budget: Budget, cells: int, size: int, beta: float, leaf: int = 1) -> float:
    """The guaranteed error of every query at ``size`` rows once ``leaf`` is closed, as a share of the rows; at most 1.

    >>> small, large = (alpha(Budget("pure", Fraction(1)), 64, size, 0.05) for size in (10_000, 20_000))
    >>> 0.01 < small < 0.02, math.isclose(small, 2 * large)
    (True, True)
    """
    share = leaf_beta(beta, leaf, windows(budget, cells, leaf))
    return min(1.0, every_bound(prefix_law(budget, cells, leaf), cells, share).worst / whole(size, "size"))


def expected_error(budget: Budget, cells: int, size: int, mass: float, leaf: int = 1) -> float:
    """The standard deviation, as a share of the rows, of an answer about ``mass`` cells chosen before the noise."""
    spread = math.sqrt(mass * (1 - mass / cells))
    return prefix_law(budget, cells, leaf).deviation * spread / whole(size, "size")


# -- the bound for any query -------------------------------------------------------------------------------------------


SMALL: Final = 4096
"""Up to this many cells the worst query is looked for among all masses; beyond, its bound is that of half the cells."""

_BLOCK: Final = 1024
_UP: Final = 1 + 1e-12
_LOG_MARGIN: Final = 1e-6
"""More than the error of the computed logarithm of a binomial coefficient of up to 2^26 cells."""


@dataclass(frozen=True)
class CentredBound:
    """The bound for all queries at once on a histogram of ``cells`` cells whose total is known.

    Guarantee: with probability at least 1 − beta, |Σ (w_i − m/N)·X_i| ≤ radius(m) for all w ∈ [0, 1]^N, m = Σw.
    """

    noise: CellNoise
    cells: int
    beta: float

    def __post_init__(self) -> None:
        whole(self.cells, "cells")
        probability(self.beta, "beta")

    def radius(self, masses: npt.ArrayLike) -> Floats:
        """The bound, in rows, for each mass, a number from 0 to the number of cells."""
        mass = np.asarray(masses, dtype=np.float64)
        mass = np.minimum(mass, self.cells - mass)
        below = np.floor(mass).astype(np.int64)
        needed, place = np.unique(np.concatenate([below.reshape(-1), below.reshape(-1) + 1]), return_inverse=True)
        low, high = self._sets(needed)[place.reshape(2, -1)]
        part = (mass - below).reshape(-1)
        one_by_one = ((1 - part) * low + part * high).reshape(mass.shape)
        bound: Floats = np.minimum(one_by_one, self._together(mass)) * _UP
        return bound

    @cached_property
    def worst(self) -> float:
        """A bound, in rows, on the error of every query."""
        together = float(self._together(np.array(self.cells / 2)))
        if self.cells > SMALL:
            return together * _UP
        steps = np.arange(self.cells // 2 + 2)
        sets = self._sets(steps)
        # Between two sizes the first bound is at most the larger of its ends, the second, which rises, its right end.
        ends = np.maximum(sets[:-1], sets[1:])
        return float(np.minimum(ends, self._together(np.minimum(steps[1:], self.cells / 2))).max()) * _UP

    def _together(self, mass: Floats) -> Floats:
        every = all_subsets(self.noise, self.cells, self.beta / 4)
        return every.radius(mass) + mass / self.cells * self._total

    @cached_property
    def _total(self) -> float:
        return subset_radius(self.noise, [1.0], [self.cells], self.beta / 4)

    def _sets(self, sizes: Ints) -> Floats:
        """The bound for sets of each size, sizes increasing; past half of the cells, that of the complement."""
        sizes = np.minimum(sizes, self.cells - sizes)
        bounds = np.zeros(len(sizes))
        chosen = np.flatnonzero(sizes > 0)
        for start in range(0, len(chosen), _BLOCK):
            part = chosen[start : start + _BLOCK]
            tails = [log_choose(self.cells, size) + rarity(math.log(size)) for size in sizes[part].tolist()]
            bounds[part] = set_radius(self.noise, self.cells, sizes[part], np.array(tails) + math.log(4 / self.beta))
        return bounds


def set_radius(noise: CellNoise, cells: int, sizes: npt.ArrayLike, tails: Floats) -> Floats:
    """r with P(Σ (w_i − m/N)·X_i > r) ≤ e^{−tail} for a set of m cells given beforehand, for each size and its tail.

    Sizes lie above 0 and at most at half of the cells; w is 1 in the set and 0 elsewhere.
    """
    rates, moments = _table(noise)
    size = np.asarray(sizes, dtype=np.float64)[:, np.newaxis]
    share = size / cells
    # With λ = rate/(1−x) the cells inside are at the table's rates, those outside at rate·x/(1−x) ≤ rate.
    outside = np.interp(rates * (share / (1 - share)), [0.0, *rates], [0.0, *moments])
    exponents = size * moments + (cells - size) * outside
    least: Floats = np.min((exponents + tails[:, np.newaxis]) * (1 - share) / rates, axis=1)
    return least * _UP


def log_choose(cells: int, size: int) -> float:
    """log C(cells, size), rounded up."""
    return math.lgamma(cells + 1) - math.lgamma(size + 1) - math.lgamma(cells - size + 1) + _LOG_MARGIN


@lru_cache(maxsize=256)
def _table(noise: CellNoise) -> tuple[Floats, Floats]:
    """The rates worth trying and K there, where it is finite."""
    rates = noise.rates
    moments = noise.log_moment(rates)
    finite = np.isfinite(moments)
    return rates[finite], moments[finite]


# -- the bound for queries that name few attributes --------------------------------------------------------------------


Form: TypeAlias = tuple[tuple[int, ...], tuple[int, ...] | float]
"""The attributes that a query names, by position, and the sizes of its sets; for a table, the sum of its weights."""


@dataclass(frozen=True)
class StructuredBound:
    """The bound for all queries of a schema at once, by the attributes that they name.

    Guarantee: with probability at least 1 − every.beta − beta, the error of each query, in rows, is within `radius`.
    """

    every: CentredBound
    """The bound for all queries, whatever they name."""
    shape: tuple[int, ...]
    beta: float

    def __post_init__(self) -> None:
        probability(self.beta, "beta")

    @property
    def worst(self) -> float:
        """A bound, in rows, on the error of every query."""
        return self.every.worst

    def radius(self, queries: Sequence[Query]) -> Floats:
        """The bound, in rows, for each query; that of a constant query is 0."""
        forms = [form(query) for query in queries]
        fresh = [each for each in dict.fromkeys(forms) if each not in self._known]
        if fresh:
            lowest = np.minimum(self.every.radius([self._mass(each) for each in fresh]), self._named(fresh))
            self._known.update(zip(fresh, lowest.tolist(), strict=True))
        return np.array([self._known[each] for each in forms])

    @cached_property
    def _known(self) -> dict[Form, float]:
        return {}

    def _joint(self, attributes: tuple[int, ...]) -> int:
        return math.prod(self.shape[position] for position in attributes)

    def _mass(self, each: Form) -> float:
        attributes, sets = each
        cells = self.every.cells // self._joint(attributes)
        return float(cells * (math.prod(sets) if isinstance(sets, tuple) else sets))

    def _named(self, forms: Sequence[Form]) -> Floats:
        """The bounds from the attributes named: a weighted mean of the bounds of two sets for each form."""
        sides = [self._sides(each) for each in forms]
        sizes = np.array([size for pair in sides for size, _, _ in pair])
        tails = np.array([tail for pair in sides for _, tail, _ in pair])
        weights = np.array([weight for pair in sides for _, _, weight in pair])
        bounds = np.zeros(len(sizes))
        real = np.flatnonzero((sizes > 0) & (weights > 0))
        bounds[real] = set_radius(self.every.noise, self.every.cells, sizes[real], tails[real])
        lowest: Floats = (weights * bounds).reshape(-1, 2).sum(axis=1)
        return lowest

    def _sides(self, each: Form) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """The two sets that a query lies between: how many cells, the tail, and the weight of each."""
        attributes, sets = each
        cells, joint = self.every.cells, self._joint(attributes)
        start = math.log(4 / self.beta) + _choosing(len(self.shape), len(attributes))
        if isinstance(sets, tuple):
            size = self._mass(each)
            tail = start + sum(
                _choosing_sets(self.shape[position], chosen) for position, chosen in zip(attributes, sets, strict=True)
            )
            return (min(size, cells - size), tail, 1.0), (0.0, tail, 0.0)
        mass = min(sets, joint - sets)
        low = math.floor(mass)
        part = mass - low
        return (
            self._table_side(start, joint, low, 1 - part),
            self._table_side(start, joint, low + 1 if part > 0 else low, part),
        )

    def _table_side(self, start: float, joint: int, number: int, weight: float) -> tuple[float, float, float]:
        number = min(number, joint - number)
        if number == 0:
            return 0.0, start, weight
        tail = start + log_choose(joint, number) + rarity(math.log(number))
        return float(number * (self.every.cells // joint)), tail, weight


@lru_cache(maxsize=2**16)
def form(query: Query) -> Form:
    """What the bound of a query depends on.

    A query and its complement have the same bound: where only the complement is a conjunction (as for a = 1 OR b = 2),
    its form is taken.
    """
    if query.masks is None and query.counting and not query.constant:
        complement = ~query
        query = query if complement.masks is None else complement
    if query.masks is None:
        assert query.table is not None
        return query.attributes, float(query.table.sum()) / query.scale
    return query.attributes, tuple(int(np.count_nonzero(mask)) for mask in query.masks)


@lru_cache(maxsize=4096)
def _choosing(dimension: int, named: int) -> float:
    """−log of the weight of one choice of attributes."""
    return math.log(dimension + 1) + log_choose(dimension, named)


@lru_cache(maxsize=65536)
def _choosing_sets(values: int, chosen: int) -> float:
    """−log of the weight of one set of values of an attribute."""
    return math.log(values - 1) + log_choose(values, chosen)
