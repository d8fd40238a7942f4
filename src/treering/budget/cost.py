"""The cost of one operation, from its noise and its sensitivity.

Neighbours replace one row (it keeps its arrival time). A cost states two guarantees at once: pure differential privacy
where there is one, and zero-concentrated differential privacy (zCDP) always. Both add up under adaptive composition.
Arithmetic is exact, a float being its binary value, and in integers up to the last step: intermediate rationals would
each be reduced.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an operation that is ``epsilon``-DP (None: for no epsilon) and ``rho``-zCDP.

    >>> laplace(1, 10) + laplace(1, 10)
    Cost(epsilon=Fraction(1, 5), rho=Fraction(1, 100))
    """

    epsilon: Fraction | None
    rho: Fraction

    def __post_init__(self) -> None:
        if self.rho.numerator < 0 or (self.epsilon is not None and self.epsilon.numerator < 0):
            raise ValueError("a cost is not negative")

    def __add__(self, other: Cost) -> Cost:
        rho = self.rho + other.rho
        if self.epsilon is None or other.epsilon is None:
            return Cost(None, rho)
        return Cost(self.epsilon + other.epsilon, rho)


FREE = Cost(Fraction(0), Fraction(0))


def pure(epsilon: Fraction) -> Cost:
    """The cost of any ε-DP operation: it is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4)."""
    top, bottom = epsilon.as_integer_ratio()
    return Cost(epsilon, Fraction(top**2, 2 * bottom**2))


def laplace(sensitivity: Fraction | int, scale: Fraction | int) -> Cost:
    """The cost of discrete Laplace noise of this scale on integers of this L1 sensitivity: (sensitivity/scale)-DP."""
    return pure(Fraction(sensitivity) / Fraction(scale))


def gaussian(squared_sensitivity: Fraction | int, scale: Fraction | float) -> Cost:
    """The cost of discrete Gaussian noise N(0, scale²) on integers; it has no pure guarantee.

    ρ = Δ²/(2σ²) (Canonne, Kamath and Steinke 2020, Theorem 4). ``squared_sensitivity`` is Δ², the square of the L2
    sensitivity: Δ itself, such as √2, need not be rational.
    """
    (squared, parts), (top, bottom) = squared_sensitivity.as_integer_ratio(), scale.as_integer_ratio()
    return Cost(None, Fraction(squared * bottom**2, 2 * parts * top**2))


def exponential(sensitivity: Fraction | int, scale: Fraction | int) -> Cost:
    """The cost of the exponential mechanism with weights e^{score/scale}: ε = 2·sensitivity/scale.

    ``sensitivity`` is the most that a replaced row moves a score.

    Its privacy loss has range ε, not 2ε, hence ρ = ε²/8 (Rogers and Steinke 2021, Cesar and Rogers 2021).
    """
    epsilon = 2 * Fraction(sensitivity) / Fraction(scale)
    return Cost(epsilon, epsilon**2 / 8)


def sparse_run(threshold_scale: Fraction | float, query_scale: Fraction | float) -> Cost:
    """The cost of a sparse-vector run, whatever it is asked and however the data grow: ε = 1/s1 + 2/s2.

    Scales are in counts and stay fixed for the run; a query of weight scale W gets noise of scale W·s2 and is compared
    with a threshold whose noise is W times the run's one integer draw.
    """
    (first, parts), (second, others) = threshold_scale.as_integer_ratio(), query_scale.as_integer_ratio()
    return pure(Fraction(parts * second + 2 * others * first, first * second))


def silent_run(threshold_scale: Fraction | int) -> Fraction:
    """The pure loss of a run that has answered only "below" so far: ε = 1/s1, whatever the number of queries."""
    return 1 / Fraction(threshold_scale)
