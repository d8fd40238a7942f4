"""SmallDB's exponential mechanism over synthetic databases, drawn exactly.

*Formal guarantee.* With n the public size, m the number of synthetic rows and R the multisets of m atoms of the class
(``domain.candidates``), `Synthesis` draws y ∈ R with probability exactly ∝ b^{m·W·s(y)}, where s(y) = max_f |C_f(x) −
(n/m)·C_f(y)|/W_f is the score in rows, W the common multiple of the queries' scales W_f (so that m·W·s is a whole
number), and b = `base`(scale·m·W) ≥ e^{−1/(scale·m·W)}. Replacing one row of x moves C_f(x)/W_f by at most r_f =
spread/W_f rows, hence s(y) by at most r = max r_f, hence each weight and their sum by a factor within e^{±r/scale}: the
draw is (2r/scale)-DP and, by its bounded range, (2r/scale)²/8-zCDP (``select`` has the proof).

Both factors are needed. A replaced row moves the scores of different candidates in different directions, so that the
sum of the weights may fall while a weight rises: the mechanism is not "monotone", and the ½ stays.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Protocol

from treering.domain.atoms import collapse
from treering.domain.candidates import Candidates
from treering.domain.query import Query
from treering.errors import ParameterError
from treering.params import exact_scale, whole
from treering.trusted.bands import Intervals, Prefixes
from treering.trusted.layers import draw_level
from treering.trusted.multisets import Multisets, check_scores, unit
from treering.trusted.select import SHARPEST, base

_FARTHEST: Final = 10**18
"""The logarithms of all weights stay below this, and fit into a decimal's exponent."""


class Family(Protocol):
    """PRIVATE: candidates by their scores, which are whole numbers."""

    levels: Sequence[int]

    def count(self, level: int) -> int:
        """How many candidates have a score of at most this."""

    def member(self, rank: int, level: int) -> list[int]:
        """One of them: each rank in range(count) gives another. Its count in each atom."""


class Synthesis:
    """One draw of a class, as far as it is public: it refuses before anything is charged."""

    def __init__(self, queries: Sequence[Query], rows: int, size: int, scale: float) -> None:
        whole(rows, "rows")
        self._scale = exact_scale(scale, "scale")
        if size == 0:
            raise ParameterError("size", "is 0: a database of no rows cannot be copied")
        self._candidates = Candidates.of(collapse(queries))
        self._candidates.check(rows)
        self._rows, self._size = rows, size
        if self._candidates.arcs is None:
            check_scores(self._candidates.atoms, size, rows)
        if size * rows * self._grid >= _FARTHEST * max(SHARPEST, self._scale * rows * self._grid):
            raise ParameterError("scale", f"is too small for {size:,} rows: the weights have no end of digits")

    @property
    def asked(self) -> Sequence[Query]:
        """The queries whose counts `draw` needs, in this order."""
        return self._candidates.asked

    def draw(self, counts: Sequence[int]) -> tuple[int, ...]:
        """From the exact counts of the queries `asked`: the cells of the synthetic rows, increasing.

        Each row is the first cell of its atom.
        """
        atoms, family = self._candidates.atoms, self.family(counts)
        level = draw_level(family.levels, family.count, self.ratio)
        drawn = family.member(secrets.randbelow(family.count(level)), level)
        start = 0 if self._candidates.arcs is None else self._candidates.arcs.start
        cells = (*atoms.cells[start:], *atoms.cells[:start])
        return tuple(sorted(cell for cell, times in zip(cells, drawn, strict=True) for _ in range(times)))

    @property
    def ratio(self) -> Fraction:
        """b: what one unit of score is worth."""
        return base(self._scale * self._rows * self._grid)

    @property
    def _grid(self) -> int:
        """Scores are whole numbers in units of 1/(rows·grid) rows."""
        return unit(self._candidates.atoms)

    def family(self, counts: Sequence[int]) -> Family:
        """PRIVATE: the candidates by their scores."""
        arcs = self._candidates.arcs
        if arcs is None:
            return Multisets(self._candidates.atoms, counts, self._size, self._rows)
        cumulative = [
            self._size - int(count) if others else int(count)
            for count, (_, others) in zip(counts, arcs.spokes, strict=True)
        ]
        kind = Intervals if arcs.every else Prefixes
        return kind(cumulative, self._size, self._rows)
