"""The candidates of SmallDB: all synthetic databases of so many rows, told apart only as a class of queries does.

A candidate is a multiset of atoms. Which ways there are to draw one exactly, and up to which number of rows, follows
from the class alone: it is public, and known before anything private is touched.

- *Prefixes and intervals.* The atoms stand in a circle, in the order of their first cells, and each query is an *arc*:
  so many atoms in a row (or all but these, which is as good: |f(x) − f(y)| is the same for 1 − f). An arc is a pair of
  *cuts*. If one cut is in every pair, as in the thresholds of an ordered attribute, the class is one of **prefixes**;
  if every two cuts are a pair, one of all **intervals**. A candidate is then a path of cumulative counts, and paths
  within a band are counted without being listed.
- *Anything else* is listed: all C(atoms + rows − 1, rows) candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from treering.domain.atoms import Atoms
from treering.domain.query import Query
from treering.errors import ParameterError
from treering.params import whole

Method: TypeAlias = Literal["prefixes", "intervals", "enumeration"]

MOST_LISTED: Final = 10**6
"""The most candidates that are listed."""

MOST_PRODUCTS: Final = 10**10
"""Listed candidates × atoms × queries: what scoring them takes."""

MOST_STEPS: Final[dict[Method, int]] = {"prefixes": 2**18, "intervals": 2**21}
"""Atoms × rows for prefixes, atoms² × rows for intervals: what counting paths once takes at the most."""

MOST_ROWS: Final = 2**20
"""The most synthetic rows."""


@dataclass(frozen=True)
class Arcs:
    """A class of arcs on a circle of atoms, cut open at one cut: prefixes, and for ``every`` pair of cuts intervals."""

    start: int
    """The atom behind the cut, which comes first."""
    spokes: tuple[tuple[int, bool], ...]
    """For j = 1, 2, …: the query that holds the first j atoms, and whether it holds all the others instead."""
    every: bool


def arcs(atoms: Atoms) -> Arcs | None:
    """How the class is one of prefixes or of intervals; None if it is neither."""
    weights = atoms.weights
    if atoms.number < 2 or any(not query.counting for query in atoms.queries):
        return None
    changes = weights != np.roll(weights, 1, axis=1)
    if (changes.sum(axis=1) != 2).any():
        return None
    cuts = np.nonzero(changes)[1].reshape(-1, 2)
    pairs = {(int(low), int(high)): index for index, (low, high) in enumerate(cuts)}
    every = len(pairs) == math.comb(atoms.number, 2)
    shared = set.intersection(*map(set, pairs))
    if not every and not shared:
        return None
    start = 0 if every else min(shared)
    spokes: list[tuple[int, bool]] = []
    for length in range(1, atoms.number):
        end = (start + length) % atoms.number
        query = pairs[min(start, end), max(start, end)]
        spokes.append((query, not weights[query, start]))
    # With two atoms, one pair of cuts is both: a band is then the simpler way.
    return Arcs(start, tuple(spokes), every and not shared)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What can be drawn for a class, as a function of the number of rows."""

    atoms: Atoms
    arcs: Arcs | None

    @classmethod
    def of(cls, atoms: Atoms) -> Candidates:
        """The candidates over these atoms."""
        return cls(atoms, arcs(atoms))

    @property
    def prefixes(self) -> Candidates | None:
        """For intervals: the same candidates, as prefixes, whose differences the intervals are. None for others."""
        if self.arcs is None or not self.arcs.every:
            return None
        return Candidates(self.atoms, replace(self.arcs, every=False))

    @property
    def asked(self) -> tuple[Query, ...]:
        """The queries whose counts tell all scores."""
        queries = self.atoms.queries
        return queries if self.arcs is None else tuple(queries[place] for place, _ in self.arcs.spokes)

    @property
    def method(self) -> Method:
        """How they are drawn."""
        if self.arcs is None:
            return "enumeration"
        return "intervals" if self.arcs.every else "prefixes"

    def number(self, rows: int) -> int:
        """How many there are with so many rows."""
        return math.comb(self.atoms.number + rows - 1, rows)

    def feasible(self, rows: int) -> bool:
        """Whether one with so many rows can be drawn: public arithmetic."""
        if rows > MOST_ROWS:
            return False
        if self.method != "enumeration":
            return rows * math.prod([self.atoms.number] * self._power) <= MOST_STEPS[self.method]
        # C(a + r, r) is above 2^min(a, r): no need to write out a number of millions of digits.
        if min(self.atoms.number - 1, rows) > MOST_LISTED.bit_length():
            return False
        number = self.number(rows)
        work = self.atoms.number * max(1, len(self.atoms.queries))
        return number <= MOST_LISTED and number * work <= MOST_PRODUCTS

    @property
    def most_rows(self) -> int:
        """The largest feasible number of rows, 0 if there is none."""
        low, high = 0, MOST_ROWS + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.feasible(middle) else (low, middle)
        return low

    @property
    def _power(self) -> int:
        return 2 if self.method == "intervals" else 1

    def check(self, rows: int) -> None:
        """Refuse a number of rows that cannot be drawn."""
        whole(rows, "rows")
        if not self.feasible(rows):
            raise ParameterError("rows", f"is {rows:,}, and {self.limit}")

    @property
    def limit(self) -> str:
        """Why not more rows: for messages."""
        most, number = self.most_rows, self.atoms.number
        kind = "any class" if self.method == "enumeration" else f"a class of {self.method}"
        how = (
            f"all C({number:,} + rows − 1, rows) candidates are listed, at most {MOST_LISTED:,}"
            if self.method == "enumeration"
            else f"atoms{'² ' if self._power == 2 else ' '}× rows may be at most {MOST_STEPS[self.method]:,}"
        )
        return f"with {number:,} atoms at most {most:,} are possible ({kind}: {how})"
