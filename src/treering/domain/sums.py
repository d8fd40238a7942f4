"""Sums of a numeric attribute, in integers.

A value v of an attribute with the bounds low … high and a step is kept as a whole number of steps above ``low``,

    k = ⌊(v − low)/step + ½⌋, clipped to 0 … R,        R = (high − low)/step,

computed in doubles, operation by operation as written: every engine then has the same k, bit for bit. What is summed is
u = 2k − R, in *half steps* from the middle of the range, so |u| ≤ R whatever the value. A row whose value is missing,
or is not a number of the attribute's order, has u = 0 and is not among the rows that an average divides by.

With c rows that have a value, and U the sum of their u,

    SUM = (high + low)/2·c + step/2·U,        AVG = (high + low)/2 + step/2·U/c.

`Sums` is what a release of the kernel says about an attribute; ``operations/combine.py`` has the privacy proof.

`Capped` is what a series says of the first rows of each person. Rows are taken in their order: one counts if fewer than
``each`` rows of its person counted before it in its group, and fewer than ``most`` in all groups of the series. With
``each`` = 1 a person raises a *flag* in a group, once and for ever: how many flags there are is how many persons the
group has. A row counts for 1, or for the steps of its value above the lower bound; ``operations/persons.py`` has the
proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from treering.arrays import Flags, Ints
from treering.domain.attribute import Attribute, Integers, Ordered
from treering.domain.axis import Scalar, scalar_of
from treering.domain.numeric import Numbers
from treering.domain.schema import Schema


@dataclass(frozen=True, slots=True)
class Grid:
    """The values of a numeric attribute as whole steps.

    >>> from treering.domain.attribute import integers
    >>> grid = Grid.of(integers(1, 12))
    >>> grid.steps, grid.middle, grid.half_steps(np.array([1.0, 6.6, 99.0])).tolist()
    (11, Fraction(13, 2), [-11, 1, 11])
    """

    low: float
    high: float
    step: float
    steps: int
    """R, how many steps there are from ``low`` to ``high``."""

    @classmethod
    def of(cls, attribute: Attribute) -> Grid | None:
        """The grid of an attribute; None for one that has no sums."""
        if isinstance(attribute, Numbers):
            return cls(attribute.low, attribute.high, attribute.step, attribute.steps)
        if isinstance(attribute, Integers):
            return cls(float(attribute.low), float(attribute.high), 1.0, max(1, attribute.high - attribute.low))
        return None

    @property
    def middle(self) -> Fraction:
        """(low + high)/2."""
        return (Fraction(self.low) + Fraction(self.high)) / 2

    @property
    def half(self) -> Fraction:
        """Half a step, the unit of u."""
        return (Fraction(self.high) - Fraction(self.low)) / (2 * self.steps)

    def half_steps(self, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Ints:
        """u of each value, none of which is NaN."""
        clipped = np.clip(values, self.low, self.high)
        steps = np.floor((clipped - self.low) / self.step + 0.5).astype(np.int64)
        return 2 * np.clip(steps, 0, self.steps) - self.steps


@dataclass(frozen=True, slots=True)
class Sums:
    """What a release says about each group: the sum of u over its rows and, with ``counts``, R times its rows first.

    With counts there are twice as many numbers as groups: first R × the rows of each group, then the sums. A series
    keeps the grid that it was opened with, whatever bounds later versions of the schema have.
    """

    scalar: Scalar
    """What is summed."""
    grid: Grid
    clipped: bool
    """Whether values beyond the bounds count as the nearest bound; otherwise they count as 0."""
    counts: bool

    @property
    def reach(self) -> int:
        """R, the most that |u| can be."""
        return self.grid.steps

    def same_values(self, other: Sums) -> bool:
        """Whether both add up the same values."""
        return (self.scalar, self.grid, self.clipped) == (other.scalar, other.grid, other.clipped)

    def numbers(self, groups: int) -> int:
        """How many numbers a release about so many groups has."""
        return 2 * groups if self.counts else groups


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


def summable(schema: Schema) -> tuple[int, ...]:
    """The positions of the attributes that have sums.

    >>> from treering.domain.attribute import categories, integers
    >>> summable(Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)}))
    (1,)
    """
    attributes = enumerate(schema.attributes.values())
    return tuple(position for position, attribute in attributes if Grid.of(attribute) is not None)


@lru_cache(maxsize=64)
def valued(attribute: Attribute) -> Flags:
    """Which codes of an attribute stand for values that are summed: those of `numbers` that are not missing, as values
    outside the bounds are clipped to them; of other attributes, the regular ones.

    >>> from treering.domain.attribute import integers
    >>> valued(integers(1, 2, other=True, missing=True)).tolist()
    [True, True, False, False, False]
    """
    flags = np.arange(attribute.size) < attribute.regular
    if isinstance(attribute, Numbers):
        flags[list(attribute.line)] = True
    return flags


@lru_cache(maxsize=256)
def of_codes(attribute: Attribute) -> Ints:
    """u for each code of an attribute that has sums: of an integer, of the middle of a cell of `numbers`, of the bound
    where such a cell lies outside; and 0 where there is no value."""
    grid = Grid.of(attribute)
    assert grid is not None
    assert isinstance(attribute, Ordered)
    units = np.zeros(attribute.size, dtype=np.int64)
    for code in np.flatnonzero(valued(attribute)).tolist():
        if code < attribute.regular:
            value = attribute.regular_value(code)
            assert isinstance(value, int | float)
            units[code] = grid.half_steps(np.array([float(value)]))[0]
        else:
            units[code] = -grid.steps if code == attribute.below_code else grid.steps
    units.setflags(write=False)
    return units


@lru_cache(maxsize=256)
def sums_of(schema: Schema, position: int, *, counts: bool) -> Sums:
    """The sums of the attribute at a position, which has some."""
    name = schema.names[position]
    attribute = schema.attributes[name]
    grid = Grid.of(attribute)
    assert grid is not None
    return Sums(scalar_of(name, attribute), grid, isinstance(attribute, Numbers), counts)
