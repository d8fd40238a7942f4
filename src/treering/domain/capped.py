"""What a series counts of each person: the first rows, up to a cap.

Rows are taken in their order. A row counts if fewer than ``each`` rows of its person counted before it in its group,
and fewer than ``most`` in all groups of the series. With ``each`` = 1 a person raises a *flag* in a group, once and for
ever: how many flags there are is how many persons the group has.

A row counts for 1, or, with ``sums``, for the steps of its value above the lower bound: never for less than nothing.
``operations/persons.py`` has the privacy proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from treering.domain.sums import Sums


@dataclass(frozen=True, slots=True)
class Capped:
    """The first rows of each person, up to a cap.

    >>> flags = Capped(1, 12, 30, Fraction(1, 1000))
    >>> flags.reach, flags.numbers(36), flags.moved
    (1, 36, 12)
    """

    each: int
    """The most rows of a person that count in one group."""
    most: int
    """The most that count in all groups together."""
    limit: int
    """The most rows that a person can have."""
    price: Fraction
    """What each person pays, once, for the whole series; in the unit of the budget of a row."""
    sums: Sums | None = None

    @property
    def reach(self) -> int:
        """The most that a row counts for."""
        return 1 if self.sums is None else self.sums.reach

    @property
    def counts(self) -> bool:
        """Whether rows come beside sums: never."""
        return False

    @property
    def moved(self) -> int:
        """Half the squared distance between two worlds that differ in a person, where weights square to 1."""
        return self.each * self.most * self.reach**2

    def numbers(self, groups: int) -> int:
        """How many numbers a release about so many groups has."""
        return groups


Kept: TypeAlias = Sums | Capped
"""What a series keeps of its groups other than their rows."""
