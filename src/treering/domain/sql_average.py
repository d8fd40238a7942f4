"""AVG from shares: an average as one weighted query, or as a ratio of two, with an interval that is proven.

The values that a matching row can have are scaled to weights in [0, 1]: the least is 0, the greatest 1. With N the
share of the rows that match, each times its weight, and D the share that matches, the average of the matching rows is

    low + (high − low)·N/D.

*Interval.* Let n and d be answers with |n − N| ≤ e and |d − D| ≤ f. As 0 ≤ N ≤ D ≤ 1,

    max(0, n − e) / min(1, d + f)  ≤  N/D  ≤  min(1, (n + e) / (d − f)),

the right side only where d − f > 0. Otherwise D may be 0, nothing can be said, and the interval is the whole range.
Weights that are not multiples of 1/W for a W up to 2^20 are rounded to multiples of 2^-16: each row's weight moves by
at most 2^-17, so N/D, a mean of weights, does too, and the interval is widened by that. All of this is computed in
exact rationals; only its ends are rounded to floats, outwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from treering.answer import Answer
from treering.arrays import Flags, Floats
from treering.domain.attribute import Attribute, Integers
from treering.domain.query import MAX_TABLE, RESOLUTION
from treering.domain.sql_table import Estimate

_MOST_FRACTIONS: Final = 4096
"""For so many values the common step is looked for; more are rounded."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An attribute's regular values as weights in [0, 1]; the optional cells weigh nothing."""

    low: Fraction
    high: Fraction
    weights: Floats
    """One for each code, multiples of 1/resolution."""
    resolution: int
    rounding: Fraction
    """How far a weight may be from the value it stands for; 0 if all are exact."""

    @property
    def span(self) -> Fraction:
        """The greatest value less the least."""
        return self.high - self.low


def scale(attribute: Attribute, possible: Flags) -> Scale:
    """The scale of an integer or binned attribute of which only these codes are possible.

    The fewer values are possible, the smaller the span, and with it the error of an average.
    """
    codes = [int(code) for code in np.flatnonzero(possible[: attribute.regular])]
    if not codes:  # no row matches: nothing is averaged
        codes = list(range(attribute.regular))
    weights = np.zeros(attribute.size)
    if isinstance(attribute, Integers):
        low, resolution = codes[0], max(1, codes[-1] - codes[0])
        weights[codes] = (np.array(codes) - low) / resolution
        least, most = (Fraction(attribute.low + code) for code in (codes[0], codes[-1]))
        return Scale(least, most, weights, resolution, Fraction(0))
    values = [representative(attribute, code) for code in codes]
    steps, resolution, rounding = _steps(values)
    weights[codes] = np.array(steps) / resolution
    return Scale(min(values), max(values), weights, resolution, rounding)


def representative(attribute: Attribute, code: int) -> Fraction:
    """The number that a regular code stands for in an average."""
    value = attribute.regular_value(code)
    assert isinstance(value, int | float)
    return Fraction(value)


def _steps(values: list[Fraction]) -> tuple[list[int], int, Fraction]:
    """The values as whole steps above the least, how many steps there are in all, and by how much that is rounded."""
    low, high = min(values), max(values)
    if low == high:
        return [0] * len(values), 1, Fraction(0)
    if len(values) <= _MOST_FRACTIONS:
        denominator = math.lcm(*(value.denominator for value in values))
        above = [int((value - low) * denominator) for value in values]
        step = math.gcd(*above)
        if max(above) // step <= MAX_TABLE:
            return [each // step for each in above], max(above) // step, Fraction(0)
    rounded = [round((value - low) / (high - low) * RESOLUTION) for value in values]
    return rounded, RESOLUTION, Fraction(1, 2 * RESOLUTION)


def average(scale: Scale, numerator: Answer, denominator: Answer | None = None) -> Estimate:
    """The average of the rows that match; without a denominator, of all rows.

    Formal guarantee: if both answers are within their errors, the average (by representatives) lies within the
    estimate's ``low`` and ``high``, or no row matches; then the interval is the whole range and there is no value.
    """
    n, e = Fraction(numerator.value), Fraction(numerator.error)
    d, f = (Fraction(denominator.value), Fraction(denominator.error)) if denominator else (Fraction(1), Fraction(0))
    if d - f <= 0:
        return Estimate(None, None, floor_float(scale.low), ceiling_float(scale.high))
    lowest = min(Fraction(1), max(Fraction(0), n - e) / min(Fraction(1), d + f))
    highest = min(Fraction(1), (n + e) / (d - f))
    point = min(max(n / d, lowest), highest)
    low = floor_float(scale.low + scale.span * max(Fraction(0), lowest - scale.rounding))
    high = ceiling_float(scale.low + scale.span * min(Fraction(1), highest + scale.rounding))
    value = float(scale.low + scale.span * point)
    error = max(Fraction(value) - Fraction(low), Fraction(high) - Fraction(value))
    return Estimate(value, ceiling_float(error), low, high)


def floor_float(value: Fraction) -> float:
    """The greatest float that is not above."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def ceiling_float(value: Fraction) -> float:
    """The least float that is not below."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
