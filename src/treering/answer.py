"""What a mechanism answers, and what it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["easy", "hard", "measured", "cached", "synthetic"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One released answer: everything in it is public.

    >>> Answer(value=0.25, error=0.01, size=1000, kind="easy").count
    250
    """

    value: float
    """The share of the rows, within [0, 1]."""
    error: float
    """The bound on |value − truth| that holds, for all of a mechanism's answers together, but with probability beta."""
    size: int
    """The size of the database that it speaks about."""
    kind: Kind
    """Where it came from: the public histogram ("easy"), a measurement after a guard halted ("hard"), a measurement, an
    earlier one that still holds ("cached"), or released synthetic data."""

    @property
    def count(self) -> int:
        """The value in rows, rounded."""
        return round(self.value * self.size)

    @property
    def count_error(self) -> int:
        """The error in rows, the rounding of `count` included."""
        return math.ceil(self.error * self.size + 0.5)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A mechanism's promise at one size of the database.

    Privacy: (epsilon, delta), for databases that differ in one row, replaced; it covers the mechanism's whole life.
    Accuracy: ``statement`` holds with error at most ``alpha``, for all answers together, with probability at least 1 −
    beta.
    """

    epsilon: float
    delta: float
    alpha: float
    beta: float
    size: int
    statement: str
