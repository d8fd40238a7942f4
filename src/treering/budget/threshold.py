"""The threshold of a discovery: exact tails of the discrete Gaussian, of which nothing is rounded down.

P(X ≥ k) = Σ_{j ≥ k} e^{−j²/2σ²} / Σ_{all j} e^{−j²/2σ²}. The denominator is at least σ·√(2π) (Poisson's summation: what
is left out is positive), and at least the sum of any of its terms. The numerator's terms fall, and the quotients of
neighbours fall, too: each term is the one before it times such a quotient, every product is rounded up, and what comes
after the last term is at most the geometric series with its quotient.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from treering.errors import ParameterError
from treering.params import exact_scale

LARGEST: Final = 2.0**12
"""The largest noise of a discovery: at this scale a value needs some 20,000 rows."""

_DIGITS: Final = 40
_UP: Final = Context(prec=_DIGITS, rounding=ROUND_UP)
_DOWN: Final = Context(prec=_DIGITS, rounding=ROUND_DOWN)
_ULP: Final = Decimal(10) ** (2 - _DIGITS)
"""More than the error of a value that was rounded to the nearest, in parts of it."""
_TWO_PI: Final = Decimal("6.2831853071795864769252867665590057683943387987")
"""Rounded down."""


@lru_cache(maxsize=64)
def tail(scale: float, least: int) -> Fraction:
    """A number that is at least P(X ≥ ``least``), and above it by less than 1e-15 of it where ``scale`` is at least 3;
    X is discrete Gaussian noise of this scale.

    >>> float(tail(14.3, 82))
    5.974195319820092e-09
    """
    if least <= 0:
        return Fraction(1)
    variance = exact_scale(scale, "scale") ** 2
    term, quotient, fall = _power(-Fraction(least**2) / (2 * variance)), *_quotients(least, variance)
    total = Decimal(0)
    while term > total * _ULP and term > 0:
        total = _UP.add(total, term)
        term, quotient = _UP.multiply(term, quotient), _UP.multiply(quotient, fall)
    rest = _UP.divide(term, _DOWN.subtract(Decimal(1), quotient))
    return min(Fraction(1), Fraction(_UP.divide(_UP.add(total, rest), _mass(variance))))


def threshold(scale: float, failure: Fraction) -> int:
    """T, the least integer with P(X ≥ T − 1) ≤ ``failure``: a value that one row alone has is told with at most this
    probability.

    >>> threshold(14.3, Fraction(1, 10**8))
    82
    """
    if not 0 < scale <= LARGEST:
        raise ParameterError("scale", f"of a discovery is at most {LARGEST:,.0f} rows, not {scale:,.6g}: give it more")
    if not 0 < failure < Fraction(1, 2):
        raise ParameterError("failure", "must lie between 0 and 1/2")
    return 1 + least_beyond(scale, failure)


def least_beyond(scale: float, chance: Fraction) -> int:
    """The least integer k ≥ 0 with P(X ≥ k) ≤ ``chance``."""
    low, high = 0, 1
    while tail(scale, high) > chance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail(scale, middle) > chance else (low, middle)
    return high


def _power(exponent: Fraction) -> Decimal:
    """e to a negative exponent, rounded up. (`Decimal.exp` is right to the last digit for its argument.)"""
    argument = _UP.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    nearer = _UP.multiply(argument, Decimal(1) - _ULP)
    return _UP.multiply(_UP.exp(nearer), Decimal(1) + _ULP)


def _quotients(least: int, variance: Fraction) -> tuple[Decimal, Decimal]:
    """What the first term is multiplied by, and what that factor is multiplied by each time, rounded up."""
    return _power(-Fraction(2 * least + 1) / (2 * variance)), _power(-1 / variance)


def _mass(variance: Fraction) -> Decimal:
    """The sum of all terms, rounded down."""
    root = _DOWN.sqrt(_DOWN.multiply(_TWO_PI, _DOWN.divide(Decimal(variance.numerator), Decimal(variance.denominator))))
    few = Decimal(1) + 2 * _power(-1 / (2 * variance)) * (Decimal(1) - 8 * _ULP)
    return max(_DOWN.multiply(root, Decimal(1) - _ULP), few)
