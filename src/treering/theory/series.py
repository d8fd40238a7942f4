"""A series: how many rows of each group there are, kept current for ever at a fixed price a row.

Groups are disjoint sets of cells. Leaves are the rows between two asks, cut at public moments. The first leaf, which is
often the only one, is a segment by itself; from then on segments have 2^20 leaves (fewer where there are many groups:
`segment_length`). In a segment of T leaves, with x_s rows of a group in leaf s, the release of leaf t is, for each
group,

    y_t = Σ_{s≤t} w_{t−s}·x_s + z_t,

w the integers of `treering.budget.weights`, and z_t fresh discrete Gaussian noise of scale σ, both in units of 1/UNIT
rows. Summing up is done half before the noise and half after it (the square root factorisation: Bennett 1977;
Fichtenberger, Henzinger and Upadhyay 2023). Where T is known, w_k near UNIT·r_k is best, r_k the coefficients of
(1−x)^{−1/2}: the last of T answers has the deviation S(T) = Σ_{k<T} r_k², near (log T)/π + 1.07, in units of 1/√price.
But then the t-th answer has √(S(T)·S(t)), and who does not know T must take it far too large, or begin anew again and
again. So the weights *fade*: w_k near UNIT·r_k/(1 + H_k/6), H_k the harmonic numbers (`Weights.FADING`). The sum of
their squares is 1.93 after 2^10 leaves and 2.23 after 2^20 (r: 3.27 and 5.48), so that T hardly matters, and the t-th
answer is known nearly as well as if T = t had been known: `deviation`. (That weights which decay by a power of a
logarithm do it was shown by Jacobsen and Fawaz, arXiv 2506.15018; nothing below depends on which weights are taken.)
Segments after that one have w_k near UNIT·r_k: what counts from then on is how sharp a segment is when it is complete.

*Privacy.* Neighbours replace one row, which keeps its place. Let c be the price and σ that of `release_noise`. **All
releases of a series, for ever, are c-zCDP.** Proof: the replaced row lies in the same leaf s of both streams, since
leaves are cut at public moments, and so in one segment; the releases of all others are the same function of the same
rows. The release of leaf t ≥ s of its own segment, of T leaves, has the row with weight w_{t−s}. At most two numbers
change by that, as the row moves from one group to another: the release costs 2w²/(2σ²), given all before it. These add
up to Σ_{k≤T−s} w_k²/σ² ≤ squares(T)/σ² ≤ c. With a single group one number changes, at half the cost: so σ² is half. ∎
Segments hold different rows, so *each has the whole price*, and nothing is split over infinite time.

*Estimates.* Let l(x) = 1/((1−x)·w(x)) as a power series (`inverse`). **Σ_{k<t} l_k·y_{t−k} is unbiased for
x_1 + … + x_t, with variance at most σ²·Σ_{k<t} l_k².** Proof: l(x)·w(x) = 1/(1−x), so x_s has the weight Σ_{k≤t−s}
l_k·w_{t−s−k} = 1 for every s ≤ t. The noise is symmetric, independent from leaf to leaf, and of variance at most σ²
(Canonne, Kamath and Steinke 2020). ∎ It is the only unbiased linear estimate there is: the matrix of the w_{t−s} is
triangular with w_0 on its diagonal, hence invertible. Since integers were released, l is computed from them.

*Windows.* The rows of leaves f to t are the difference of two prefixes, and these have noise in common: y_i counts with
l_{t−i} − l_{f−1−i} (`window_coefficients`), and the variance is σ² times the sum of *their* squares. A difference of
the variances would be far too small: for a leaf alone, f = t, it is σ²·l_{t−1}², which goes to 0, and the truth is
above σ²/UNIT², that leaf's own noise.

*Several segments.* Their noise is independent and their leaves are disjoint: estimates add up, and variances too.

*Tails.* dGauss(σ) is σ²-sub-Gaussian, E e^{λz} ≤ e^{λ²σ²/2} (Canonne, Kamath and Steinke 2020). So Σ a_i·z_i is so with
v = Σ a_i²·σ_i², its moments being products: with probability at least 1 − β an estimate fixed beforehand, whose
`variance` is v, is within √(2v·log(2/β)) of the truth.

*The l_k are positive and at most 1/w_0.* (1−x)·w(x) = w_0 − Σ d_k·x^k with d_k = w_{k−1} − w_k ≥ 0 and Σ d_k < w_0, so
l_k = Σ_{j≤k} (d_j/w_0)·l_{k−j}: a mean of earlier ones, times less than 1, with d_1 > 0. The variance of a prefix rises
with every leaf of a segment.

*Arithmetic.* If p are the first n coefficients of l, then (1−x)·w(x)·p(x) = 1 + e(x)·x^n, and the next n of l are those
of −e(x)·p(x): Newton's step, which doubles them. Those known stay as they are, so l_k does not depend on how many are
asked for. By fast Fourier transforms, 2^20 take half a second. Rounding leaves (1−x)·w(x)·l(x) within 2^−50 of 1 in
each coefficient, and the weight of a row, which should be 1, within 2^−40: tests look at both.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.weights import LONGEST, UNIT, Weights
from treering.errors import ParameterError
from treering.noise import Gaussian
from treering.params import exact, root_at_least, whole

# -- segments ----------------------------------------------------------------------------------------------------------

LIMIT: Final = 2**25
"""The most numbers that a segment keeps: its releases, one for each group and leaf."""

SHORTEST: Final = 2**10
"""The fewest leaves of a segment, after the first."""

MOST_GROUPS: Final = LIMIT // SHORTEST
"""With more groups than these, segments would have fewer than `SHORTEST` leaves: then trees are used instead."""


KEPT: Final = 4
"""How many recent starts of each power of two are kept: each period that can be asked about is then at most half as
long again as the next shorter one."""


@lru_cache(maxsize=4096, typed=True)
def rooted(groups: int) -> bool:
    """Whether so many groups are kept current as here, rather than by trees.

    >>> rooted(32_768), rooted(32_769)
    (True, False)
    """
    return whole(groups, "groups") <= MOST_GROUPS


def segment_length(segment: int, groups: int) -> int:
    """How many leaves a segment has; they are numbered from 0.

    Each later segment adds the same variance. Where many groups make them short that is felt in the end: with 32,768
    groups the deviation after 10^4 leaves is 10.5, above the 9.4 of trees; with up to 32, 5.1.

    >>> [segment_length(segment, 12) for segment in range(4)], segment_length(1, 1728)
    ([1, 1048576, 1048576, 1048576], 19418)
    """
    if not rooted(groups):
        raise ParameterError("groups", f"must be at most {MOST_GROUPS}, not {groups}: use trees")
    return min(LONGEST, LIMIT // groups) if whole(segment, "segment", 0) else 1


@lru_cache(maxsize=64, typed=True)
def segment_weights(segment: int) -> Weights:
    """The rule of a segment's weights."""
    return Weights.FADING if whole(segment, "segment", 0) < 2 else Weights.ROOT


def segment_rule(room: int, groups: int) -> tuple[Weights, int]:
    """The weights, and the number of leaves, of a segment that was begun with a room, which is the sum of the squares
    of its weights.

    >>> segment_rule(Weights.FADING.squares(2**20), 12), segment_rule(Weights.FADING.squares(1), 12)[1]
    ((<Weights.FADING: 'fading'>, 1048576), 1)
    """
    found = _rules(segment_length(1, groups)).get(room)
    if found is None:
        raise ParameterError("room", f"of a segment is none that a series of {groups:,} groups has")
    return found


@lru_cache(maxsize=1024)
def _rules(longest: int) -> dict[int, tuple[Weights, int]]:
    """The segments that a series may have, by their room."""
    rules = [(Weights.ROOT, longest), *((Weights.FADING, length) for length in (1, longest))]
    return {weights.squares(length): (weights, length) for weights, length in rules}


def place(leaf: int, groups: int) -> tuple[int, int]:
    """The segment that a leaf lies in, from 0, and its position there, from 1.

    >>> [place(leaf, 2) for leaf in (1, 2, 17, 2**20 + 1, 2**20 + 2)]
    [(0, 1), (1, 1), (1, 16), (1, 1048576), (2, 1)]
    """
    if whole(leaf, "leaf") == 1:
        return 0, 1
    before, position = divmod(leaf - 2, segment_length(1, groups))
    return before + 1, position + 1


def starts(leaf: int, groups: int) -> tuple[int, ...]:
    """The leaves at which a period that is asked about may begin, once ``leaf`` is cut: increasing, from leaf 1.

    The first leaf of each segment; and in the current segment and the two before it (one, once the current segment is
    complete), the last `KEPT` leaves, the last `KEPT` odd positions, the last `KEPT` of every four, and so on: all
    recent ones, and fewer the longer ago.

    >>> starts(5, 2), starts(100, 2)[:7]
    ((1, 2, 3, 4, 5), (1, 2, 34, 50, 66, 74, 82))
    """
    current, position = place(leaf, groups)
    oldest = current - (1 if position == segment_length(current, groups) else 2)
    found: list[int] = []
    first = 1
    for segment in range(current + 1):
        length = segment_length(segment, groups)
        last = position if segment == current else length
        found += [first + each - 1 for each in (recent(last) if segment >= oldest else (1,))]
        first += length
    return tuple(found)


@lru_cache(maxsize=1024)
def recent(position: int) -> tuple[int, ...]:
    """The positions of a segment, up to this one, at which a period may begin."""
    found = {1}
    for level in range(position.bit_length()):
        last = (position - 1) >> level
        found.update((index << level) + 1 for index in range(max(0, last - KEPT + 1), last + 1))
    return tuple(sorted(found))


# -- noise -------------------------------------------------------------------------------------------------------------

LEAST_PRICE: Final = Fraction(1, 2**69)
"""The least price: noise then has a scale of up to 2^48, which is 2^36 rows. It does not depend on the segment, so that
a series which has begun is never refused its next segment."""


@lru_cache(maxsize=1024)
def release_noise(price: Fraction, length: int, groups: int, weights: Weights = Weights.FADING) -> Gaussian:
    """The noise of each release of a segment, in units of 1/UNIT rows: of the least scale that keeps to the price.

    Guarantee: squares(length)/scale² ≤ price, exactly; half of that for a single group.

    >>> release_noise(Fraction(1, 4), 1, 2), release_noise(Fraction(1, 8), 1, 1)
    (Gaussian(scale=8192.0), Gaussian(scale=8192.0))
    """
    if exact(price, "price") < LEAST_PRICE:
        raise ParameterError("price", "is too small: the noise would be wider than any database that can be")
    moved = 1 if whole(groups, "groups") == 1 else 2
    return Gaussian(root_at_least(Fraction(moved * weights.squares(length), 2) / price))


# -- estimates ---------------------------------------------------------------------------------------------------------


def inverse(length: int, weights: Weights = Weights.FADING) -> Floats:
    """The coefficients l_k of 1/((1−x)·w(x)) for k < ``length``, positive; read-only.

    >>> [float(each) for each in UNIT * inverse(4, Weights.ROOT)]
    [1.0, 0.5, 0.375, 0.3125]
    """
    if whole(length, "length") > LONGEST:
        raise ParameterError("length", f"must be at most 2^20, not {length}")
    return _inverse(1 << (length - 1).bit_length(), weights)[:length]


@cache
def _inverse(length: int, weights: Weights) -> Floats:
    """The same for a power of two."""
    if length == 1:
        found: Floats = np.array([1 / UNIT])
    else:
        half = _inverse(length // 2, weights)
        spectrum = np.fft.rfft(half, length)
        steps = np.fft.rfft(np.diff(weights.first(length), prepend=0))
        # Of the 3/2·length coefficients of the product, those beyond the length come round onto the first half.
        excess = np.fft.irfft(spectrum * steps, length)[length // 2 :]
        rest = np.fft.irfft(spectrum * np.fft.rfft(-excess, length), length)[: length // 2]
        found = np.concatenate([half, rest])
    found.setflags(write=False)
    return found


def prefix_coefficients(last: int, weights: Weights = Weights.FADING) -> Floats:
    """How much the releases of leaves 1 to ``last`` of a segment count in the estimate of their rows; read-only.

    >>> [float(each) for each in UNIT * prefix_coefficients(3, Weights.ROOT)]
    [0.375, 0.5, 1.0]
    """
    return inverse(last, weights)[::-1]


def window_coefficients(first: int, last: int, weights: Weights = Weights.FADING) -> Floats:
    """How much they count in the estimate of the rows of leaves ``first`` to ``last``, positions of one segment.

    >>> [float(each) for each in UNIT * window_coefficients(3, 3, Weights.ROOT)]
    [-0.125, -0.5, 1.0]
    """
    if not whole(first, "first") <= whole(last, "last"):
        raise ParameterError("first", f"must be at most {last}, the last leaf, not {first}")
    coefficients = prefix_coefficients(last, weights).copy()
    if first > 1:
        coefficients[: first - 1] -= prefix_coefficients(first - 1, weights)
    return coefficients


# -- accuracy ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def energy(first: int, last: int, weights: Weights = Weights.FADING) -> float:
    """The sum of the squares of the `window_coefficients`: times the noise's variance, that of the estimate."""
    return float(np.sum(window_coefficients(first, last, weights) ** 2))


def variance(first: int, last: int, price: Fraction, groups: int) -> float:
    """The variance, in rows², of a group's estimated rows in the leaves ``first`` to ``last`` of a series.

    An upper bound, since that of the noise is; right to about 1e-12 relative. Estimates from all segments between are
    added up.

    >>> variance(1, 1, Fraction(1, 4), 12), variance(1, 18, Fraction(1), 2) > variance(18, 18, Fraction(1), 2)
    (4.0, True)
    """
    if not whole(first, "first") <= whole(last, "last"):
        raise ParameterError("first", f"must be at most {last}, the last leaf, not {first}")
    (start, begin), (end, stop) = place(first, groups), place(last, groups)
    if start == end:
        return _variance(start, begin, stop, price, groups)
    # From the third segment on, all are alike.
    between = Counter(min(segment, 2) for segment in range(start + 1, end))
    return math.fsum(
        [
            _variance(start, begin, segment_length(start, groups), price, groups),
            *(
                number * _variance(segment, 1, segment_length(segment, groups), price, groups)
                for segment, number in between.items()
            ),
            _variance(end, 1, stop, price, groups),
        ]
    )


def _variance(segment: int, first: int, last: int, price: Fraction, groups: int) -> float:
    """The variance within one segment, whose positions ``first`` and ``last`` are."""
    weights = segment_weights(segment)
    noise = release_noise(price, segment_length(segment, groups), groups, weights)
    return noise.scale**2 * energy(first, last, weights)


def deviation(leaf: int, groups: int = 2) -> float:
    """The standard deviation, in rows, of a group's estimated rows up to ``leaf``, at price 1: in units of 1/√price.

    Had it been known how many answers there would be, the best would have 1.25 after two, 2.94 after 365 and 4.00
    after 10,000 (`Weights.ROOT`): here it is at most 1.44 times, and from 30 to 10,000 answers less than 1.3 times, as
    much. The trees of `treering.theory.continual` have 6.7 after 365.

    >>> [round(deviation(leaf), 2) for leaf in (1, 2, 7, 17, 100, 245, 365, 1000, 10_000, 10**6)]
    [1.0, 1.8, 2.3, 2.59, 3.19, 3.52, 3.67, 4.07, 5.07, 7.34]
    """
    return math.sqrt(variance(1, leaf, Fraction(1), groups))
