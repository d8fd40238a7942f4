"""Checks of numeric parameters: each returns the parameter as an exact rational, a float or an integer, or refuses it.

``name`` is the parameter's name, for the message of the `ParameterError`.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from treering.errors import GuaranteeError, ParameterError

Number: TypeAlias = int | float | Fraction | Decimal
Profile: TypeAlias = Literal["tight", "paper"]
"""How a mechanism is calibrated: by this package's tight bounds, or by the paper's own constants."""

_LEAST: Final = sys.float_info.min


def exact(value: Number, name: str) -> Fraction:
    """A positive number as the rational of its shortest decimal text: 0.1 is 1/10, so three times 0.1 is 3/10.

    NaN, infinities, zero, negatives, denormal floats and anything that is not a number are refused.
    """
    _check(value, name)
    return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)


def exact_scale(value: float, name: str) -> Fraction:
    """A noise scale as the exact binary rational that the sampler gets (not its decimal text)."""
    return Fraction(positive(value, name))


def positive(value: Number, name: str) -> float:
    """A positive number as a float; refuses a rational whose float would be 0 or denormal."""
    if type(value) is float and _LEAST <= value < math.inf:  # the usual case, in less time
        return value
    _check(value, name)
    _check(float(value), name)
    return float(value)


def _check(value: Number, name: str) -> None:
    wanted = "must be a positive finite number"
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        raise ParameterError(name, f"{wanted}, not {type(value).__name__}")
    try:
        finite = math.isfinite(value)
    except (OverflowError, ValueError):  # a rational beyond the floats, or a signalling NaN
        raise ParameterError(name, f"{wanted}, within the range of floats") from None
    if not finite or value <= 0:
        raise ParameterError(name, f"{wanted}, not {value}")
    if isinstance(value, float) and value < _LEAST:
        raise ParameterError(name, f"{wanted}, and {value} is denormal: too small to be exact")


def share_of(value: Number, name: str) -> Fraction:
    """A number in (0, 1], as a rational."""
    share = exact(value, name)
    if share > 1:
        raise ParameterError(name, f"must be at most 1, not {value}")
    return share


def probability(value: Number, name: str) -> Fraction:
    """A number strictly between 0 and 1, as a rational."""
    chance = exact(value, name)
    if chance >= 1:
        raise ParameterError(name, f"must be below 1, not {value}")
    return chance


def whole(value: int, name: str, least: int = 1) -> int:
    """An integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(name, f"must be an integer of at least {least}, not {value!r}")
    return value


def at_least(value: Fraction) -> float:
    """The smallest float that is not below a rational: rounding a noise scale up never costs privacy."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def root_at_least(value: Fraction) -> float:
    """The smallest float whose square is not below a positive rational."""
    # The integer root of about 64 bits is at most a few floats away from the result, however large or small the value.
    bits = 64 - (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    root = at_least(math.isqrt(int(value * Fraction(4) ** bits)) / Fraction(2) ** bits)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    while Fraction(below := math.nextafter(root, 0.0)) ** 2 >= value:
        root = below
    return root


def chance(value: Number, name: str) -> float:
    """A number strictly between 0 and 1, as a float."""
    probability(value, name)
    return positive(value, name)


def nonempty(size: int, needing: str) -> int:
    """The size of a database, which must have rows; ``needing`` says what they are needed for."""
    if size == 0:
        raise GuaranteeError(f"the database is empty: {needing}")
    return size


A_SHARE: Final = "a share of its rows needs at least one"


def check_profile(profile: object) -> None:
    """Refuse anything but "tight" and "paper"."""
    if profile not in ("tight", "paper"):
        raise ParameterError("profile", f'must be "tight" or "paper", not {profile!r}')
