"""One update of the public histogram: y′ ∝ y·e^{−rate·f}, as plain numbers that can be stored and replayed.

A query takes few values: 0 and 1 for a counting query, its distinct weights otherwise. An update has one factor for
each value, computed from the histogram's *spectrum*: its mass at each value. Nothing here has the size of the universe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from treering.arrays import Floats
from treering.domain.query import Query
from treering.errors import ParameterError

Spectrum: TypeAlias = tuple[Floats, Floats]
"""The values that a query takes, increasing, and the histogram's mass at each: all positive, with the sum one."""

_ROUNDS: Final = 200
"""The search for a rate ends after this many rounds at the latest. A rate that misses its target is no error: `Step`
holds for the rate used."""

_CLOSE: Final = 1e-14
"""The precision, in log-odds, at which the search for a rate ends earlier."""


@dataclass(frozen=True, slots=True)
class Step:
    """An update of the histogram y: each cell is multiplied by the factor of the query's value there.

    For any data x, RE(x‖y) changes by ``rate·f(x) + log_normaliser``: see `change`. That holds for the rate used,
    however well it meets its target.
    """

    query: Query
    factors: tuple[float, ...]
    """One for each value that the query takes, in increasing order of values: for a counting query two, outside and
    inside."""
    rate: float
    """λ: positive if the step lowers the query's answer."""
    log_normaliser: float
    """log Z(λ), Z(λ) = Σ y·e^{−λf} over all cells."""

    def __post_init__(self) -> None:
        if not all(0 <= factor < math.inf for factor in self.factors):
            raise ParameterError("factors", "must be finite and not negative")
        if self.query.counting and len(self.factors) != 2:
            raise ParameterError("factors", f"of a counting query must be two, not {len(self.factors)}")

    def change(self, answer: float) -> float:
        """By how much RE(x‖y) changes for data x with f(x) = ``answer``: λ·answer + log Z(λ); negative is progress."""
        return self.rate * answer + self.log_normaliser


def projection(query: Query, spectrum: Spectrum, target: float) -> Step:
    """The entropic projection of y onto {y : f(y) = target}.

    RE(x‖y) falls by at least kl(target‖f(y)) ≥ 2·(target − f(y))² for all data x beyond the target: those with
    f(x) ≤ target if f(y) was above it, with f(x) ≥ target if it was below.
    """
    values, masses = spectrum
    low, high = float(values[0]), float(values[-1])
    if not low < target < high:
        raise ParameterError("target", f"must lie strictly between {low:g} and {high:g}, not be {target}")
    if not query.counting:
        return tilting(query, spectrum, _rate(values, masses, target))
    outside, inside = (1 - target) / float(masses[0]), target / float(masses[1])
    return Step(query, (outside, inside), math.log(outside) - math.log(inside), -math.log(outside))


def tilting(query: Query, spectrum: Spectrum, rate: float) -> Step:
    """The update at a given rate."""
    values, masses = spectrum
    # Exponents are relative to the end that gains mass, so that those that matter are small.
    anchor = float(values[0] if rate > 0 else values[-1])
    exponents = -rate * (values - anchor)
    logs = np.log(masses) + exponents
    top = float(logs.max())
    log_sum = top + math.log(float(np.exp(logs - top).sum()))
    factors = np.exp(exponents - log_sum)
    # Exponents have rounding errors in proportion to their size; normalising takes these out of the total mass.
    factors /= float(factors @ masses)
    return Step(query, tuple(factors.tolist()), rate, log_sum - rate * anchor)


# -- the rate that meets a target --------------------------------------------------------------------------------------


def _rate(values: Floats, masses: Floats, target: float) -> float:
    """The rate at which the mean of the values is the target.

    The mean is expressed as log-odds between the smallest and the largest value. They fall with the rate, by at most
    one per unit, and linearly for two values, or far out: Newton's method converges fast.
    """
    low, high = float(values[0]), float(values[-1])
    spread = high - low
    unit, rest, logs = (values - low) / spread, (high - values) / spread, np.log(masses)
    goal = math.log((target - low) / spread) - math.log((high - target) / spread)

    def excess(rate: float) -> tuple[float, float]:
        """How far the log-odds are above the goal at this rate, and how fast they fall."""
        tilted = logs - rate * unit if rate > 0 else logs + rate * rest
        weights = np.exp(tilted - tilted.max())
        above, below = float(weights @ unit), float(weights @ rest)
        if min(above, below) == 0:
            return (-math.inf if above == 0 else math.inf), 0.0
        total = above + below
        variance = float(weights @ (unit - above / total) ** 2) * total
        return math.log(above) - math.log(below) - goal, variance / (above * below)

    return _falling_root(excess) / spread


def _falling_root(excess: Callable[[float], tuple[float, float]]) -> float:
    """The zero of a function that falls by at most one per unit: Newton's method, and bisection where it stalls."""
    start, _ = excess(0.0)
    near, far = 0.0, start
    while excess(far)[0] * start > 0:
        near, far = far, 2 * far
    point, before = near, math.inf
    for _ in range(_ROUNDS):
        value, slope = excess(point)
        if abs(value) <= _CLOSE or near == far:
            break
        near, far = (point, far) if value * start > 0 else (near, point)
        guess = point + value / slope if slope > 0 else math.inf
        stalled = abs(value) > before / 2 or not min(near, far) < guess < max(near, far)
        point, before = near + (far - near) / 2 if stalled else guess, abs(value)
    return point
