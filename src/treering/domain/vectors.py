"""Public vectors for the joint values of some attributes: in a table, or made when needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, Protocol

import numpy as np

from treering.arrays import Floats, Ints
from treering.domain.schema import Schema
from treering.domain.text import identifier, set_text

FEATURE_UNIT: Final = 2**16
"""Features, and labels that are numbers, are integers in units of 1/FEATURE_UNIT."""


class Vectors(Protocol):
    """A vector on the integer grid for each joint value."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    def of_codes(self, codes: Ints) -> Ints:
        """One vector a row. ``codes`` has one row for each attribute, one column for each vector."""


@dataclass(frozen=True, eq=False)
class Table:
    """Any vectors: one row for each joint value, the last attribute running fastest."""

    shape: tuple[int, ...]
    grid: Ints

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.grid.shape[1])

    def of_codes(self, codes: Ints) -> Ints:
        """Rows of the table."""
        return np.asarray(self.grid[np.ravel_multi_index(tuple(codes), self.shape)])


@dataclass(frozen=True)
class OneHot:
    """For each attribute a coordinate per value, of which one is not 0; and one that never is, the intercept.

    All k of them that are not 0 are 1/√k, so a vector has norm 1 but for rounding (towards 0). No table is held.
    """

    sizes: tuple[int, ...]
    intercept: bool = True

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return sum(self.sizes) + self.intercept

    @cached_property
    def unit(self) -> int:
        """The coordinate that is not 0, in units of 1/`FEATURE_UNIT`."""
        ones = len(self.sizes) + self.intercept
        return math.isqrt(FEATURE_UNIT**2 // ones)

    @property
    def starts(self) -> tuple[int, ...]:
        """Each attribute's first coordinate; the intercept is the last."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    def of_codes(self, codes: Ints) -> Ints:
        """Zeros and ones, times the unit."""
        count = codes.shape[1]
        vectors = np.zeros((count, self.dimension), dtype=np.int64)
        for start, code in zip(self.starts, codes, strict=True):
            vectors[np.arange(count), start + code] = self.unit
        if self.intercept:
            vectors[:, -1] = self.unit
        return vectors

    def weights(self, theta: Floats, schema: Schema, positions: tuple[int, ...]) -> dict[str, float]:
        """What each value adds to a prediction, by its condition in words."""
        scaled = (np.asarray(theta, dtype=np.float64) * (self.unit / FEATURE_UNIT)).tolist()
        found = {"intercept": scaled[-1]} if self.intercept else {}
        for start, position in zip(self.starts, positions, strict=True):
            name = schema.names[position]
            for code, flags in enumerate(np.eye(schema.shape[position], dtype=bool)):
                alone = len(flags) == 1
                words = identifier(name) if alone else set_text(name, schema.attributes[name], flags)
                found[words] = scaled[start + code]
        return found
