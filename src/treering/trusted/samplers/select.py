"""The exponential mechanism, sampled exactly (Ilvento 2020): integer scores, a rational base, no floats.

*Formal guarantee.* `exponential` draws i with probability exactly m_i·b^{−u_i} / Σ_j m_j·b^{−u_j}, for scores u,
public multiplicities m and the public rational b = `base`(scale) in [e^{−1/scale}, 1). If neighbours change no score
by more than Δ, then every term in that fraction changes by a factor within b^{±Δ}, hence so do its numerator and its
denominator, and the probability changes by a factor within b^{±2Δ}, that is e^{±2Δ·log(1/b)}, where log(1/b) ≤
1/scale: (2Δ/scale)-DP. Since this is the exponential mechanism of another scale, 1/log(1/b) ≥ ``scale``, its bounded
range makes it ε²/8-zCDP for ε = 2Δ/scale as well (Rogers and Steinke 2021).

*How.* The answer is a function of one uniform real number in [0, 1): the level of scores into whose share of [0, 1)
the number falls. Only as many of its bits are drawn, and the shares computed to only as many, as make that certain. So
the result is exact although no weight is ever written out, and a gap of a million between scores costs hardly more
than a gap of one. No score can make it fail. How long it takes may depend on the scores: timing is not defended.
"""

from __future__ import annotations

import operator
import secrets
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil, floor
from typing import Final

from treering.errors import ParameterError

SHARPEST: Final = Fraction(1, 1024)
"""Smaller scales are treated as this one: a lead of one has odds of e^1024 then, and more would only cost digits."""

_PRECISION: Final = 64
"""The number of bits to which log(1/base) agrees with 1/scale."""


def exponential(scores: Sequence[int], scale: Fraction, multiplicities: Sequence[int] | None = None) -> int:
    """An index drawn with probability ∝ multiplicity·e^{score/scale}, exactly as this module's guarantee states.

    A multiplicity stands for that many candidates of the same score. Scores are private and may be any integers; the
    number of candidates, the scale and the multiplicities are public.

    >>> exponential([0, 10**9, 5], Fraction(3))
    1
    """
    counts = [1] * len(scores) if multiplicities is None else list(multiplicities)
    _check(len(scores), counts)
    ratio = base(scale)
    # Plain integers: the difference of two 64-bit ones may not fit into 64 bits.
    exact = [operator.index(score) for score in scores]
    top = max(exact)
    levels: defaultdict[int, list[int]] = defaultdict(list)
    for index, score in enumerate(exact):
        levels[top - score].append(index)
    depths = sorted(levels)
    sizes = [sum(counts[index] for index in levels[depth]) for depth in depths]
    chosen = levels[depths[_draw_level(ratio, depths, sizes)]]
    ends = list(accumulate(counts[index] for index in chosen))
    return chosen[bisect_right(ends, secrets.randbelow(ends[-1]))]


def _check(candidates: int, counts: Sequence[int]) -> None:
    """Refuse invalid arguments; the decision depends on public quantities only."""
    if not candidates:
        raise ParameterError("scores", "must be those of at least one candidate")
    if len(counts) != candidates:
        raise ParameterError("multiplicities", f"must be as many as the scores: {candidates}, not {len(counts)}")
    if any(isinstance(count, bool) or not isinstance(count, int) or count < 1 for count in counts):
        raise ParameterError("multiplicities", "must be positive whole numbers")


@lru_cache(maxsize=64)
def base(scale: Fraction) -> Fraction:
    """A rational b with e^{−1/scale} ≤ b < 1, and close: log(1/b)·scale is above 1 − 2^−60.

    Privacy rests on the bound, accuracy on the closeness. Scales below 1/1024 have the base of 1/1024.

    >>> round(float(base(Fraction(10))), 9)
    0.904837418
    """
    if scale <= 0:
        raise ParameterError("scale", f"must be positive, not {scale}")
    scale = max(scale, SHARPEST)
    # log2 of 1/(1 − b) and of 1/b: the bits of closeness that large and small scales lose.
    bits = _PRECISION + floor(scale).bit_length() + ceil(3 / (2 * scale))
    guard = 32
    work = bits + guard
    return Fraction(_ceil_shift(_exponential_above(floor(2**work / scale), work), guard), 2**bits)


def _exponential_above(x: int, bits: int) -> int:
    """An integer not below 2^bits·e^{−x/2^bits}, for x ≥ 0. Every rounding is upwards.

    For y = x/2^(bits+h) in [0, 1) the alternating series of e^{−y} has decreasing terms, so a partial sum that ends in
    a positive term is not below e^{−y}. That is then squared h times.
    """
    halvings = (x >> bits).bit_length()
    y = x >> halvings
    low = high = total = 1 << bits
    order = 0
    while order % 2 or high > 1:
        order += 1
        low = low * y // (order << bits)
        high = -(-high * y // (order << bits))
        total += -low if order % 2 else high
    for _ in range(halvings):
        total = _ceil_shift(total * total, bits)
    return total


def _draw_level(ratio: Fraction, depths: Sequence[int], sizes: Sequence[int]) -> int:
    """A position drawn with probability exactly ∝ size·ratio^depth. The depths increase from 0: the sum is 1 or more.

    At first the numbers are long enough that fewer than one draw in 2^100 is uncertain; each time one is, their length
    doubles.
    """
    bits = 64 + ratio.denominator.bit_length() + 2 * len(depths).bit_length() + sum(sizes).bit_length()
    uniform = secrets.randbits(bits)
    while True:
        position = _locate(uniform, bits, ratio, depths, sizes)
        if position is not None:
            return position
        uniform = uniform << bits | secrets.randbits(bits)
        bits *= 2


def _locate(uniform: int, bits: int, ratio: Fraction, depths: Sequence[int], sizes: Sequence[int]) -> int | None:
    """The position whose share of [0, 1) holds all of [uniform, uniform + 1)/2^bits, or None where that is not certain.

    With C the cumulative weights and T their sum, position i has the share [C_{i−1}/T, C_i/T).
    """
    lows, highs = _powers(ratio, depths, bits)
    low = list(accumulate(map(operator.mul, sizes, lows)))
    high = list(accumulate(map(operator.mul, sizes, highs)))
    # The first i with (uniform + 1)/2^bits ≤ C_i/T for certain; the last share ends at 1 and needs no check.
    position = min(bisect_left(low, _ceil_shift((uniform + 1) * high[-1], bits)), len(low) - 1)
    begins = position == 0 or uniform * low[-1] >= high[position - 1] << bits
    return position if begins else None


def _powers(ratio: Fraction, depths: Sequence[int], bits: int) -> tuple[list[int], list[int]]:
    """Integers just below and just above 2^bits·ratio^depth for increasing depths, each from the one before.

    The power of a gap is a product of ratio^(2^rung); every product is rounded down in the lower bound and up in the
    upper.
    """
    square = floor(ratio * 2**bits), ceil(ratio * 2**bits)
    ladder = [square]
    for _ in range(depths[-1].bit_length()):
        square = square[0] ** 2 >> bits, _ceil_shift(square[1] ** 2, bits)
        ladder.append(square)
    low = high = 1 << bits
    lows, highs = [], []
    for depth, previous in zip(depths, (0, *depths), strict=False):
        # Once a power is known to lie between 0 and 1, so do all deeper ones: a lower score costs nothing more.
        gap = depth - previous if low or high > 1 else 0
        for rung in range(gap.bit_length()):
            if gap >> rung & 1:
                low, high = low * ladder[rung][0] >> bits, _ceil_shift(high * ladder[rung][1], bits)
        lows.append(low)
        highs.append(high)
    return lows, highs


def _ceil_shift(value: int, bits: int) -> int:
    """⌈value/2^bits⌉."""
    return -(-value >> bits)
