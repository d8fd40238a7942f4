"""Margins of numbers that are worked out from released ones.

The statement is worked out again with other numbers in the place of the readings, and a margin says how far its results
move.

**Draws.** Where the law of the noise is known, noise is drawn from it many times and added to the readings: the margin
is the distance from the result that 95% of the draws keep. A result that is linear in the readings errs by the same
function of the noise, and draws are independent of it: the error and n distances are n + 1 numbers of one law, each as
likely as any other to be among the k smallest. So the k-th smallest distance holds the error with k/(n + 1) or, where
there are ties, more often, and k is the least for which that is 95%. This holds for any law and any n from 19 on; fewer
draws give margins that vary more, not ones that hold less often.

Where noise has part in what rows there are, the noise is drawn wider, by the factor of margins that hold for all groups
together. If a number depends on what was chosen (a maximum, or how many groups are above a threshold), two *corners*
come to the draws: all numbers at the upper, and all at the lower ends of their joint intervals. A number that never
falls when a released one grows is between its values at the corners if all released ones are within their intervals,
which they are with 95%.

**One by one.** Where no law is known, all that holds is that every released number is within its error, together, with
1 − beta. Each is moved to both ends of its interval, alone, and the margin is the sum of the largest changes: by the
triangle inequality a result that is linear, however numbers depend on each other, is within it whenever they all are
within theirs. Of quotients and products it is the margin to first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Floats, Ints
from treering.theory.rings import CONFIDENCE

UNDEFINED: Final = (1 - CONFIDENCE) / 2
"""A quotient is not told if more than this share of the draws leaves it without a value."""


@dataclass(frozen=True, eq=False, slots=True)
class Moves:
    """What is added to the readings, a row for each time that the statement is worked out again."""

    noise: Floats
    draws: int
    """How many of the rows, the first ones, are draws; 0 if numbers are moved one by one, up and down. Others are
    corners."""


@dataclass(frozen=True, eq=False, slots=True)
class Again:
    """The rows of a result, and those of its being worked out again."""

    groups: Ints
    """For each row of the latter, the row of the result that it is."""
    moves: Ints
    """And the row of the moves."""
    rows: int
    by: Moves

    @classmethod
    def of(cls, result: Sequence[Any], again: Sequence[Any], moves: Ints, rows: int, by: Moves) -> Again:
        """Rows are told apart by the columns ``result``, and found by the columns ``again``."""
        codes = np.zeros(rows + len(moves), dtype=np.int64)
        for first, second in zip(result, again, strict=True):
            codes = codes * (rows + len(moves) + 1) + _codes(first, second)
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
        place = np.full(rows + len(moves), -1, dtype=np.int64)
        place[codes[:rows]] = np.arange(rows)
        return cls(place[codes[rows:]], moves, rows, by)

    def margins(self, centres: Floats, values: Floats) -> tuple[Floats, Floats]:
        """The margins of a column of the result, NaN where none is known; and the share of the moves that leave a
        number without a value."""
        there = self.groups >= 0
        groups, moves, moved = self.groups[there], self.moves[there], values[there]
        known = np.isfinite(moved)
        unknown = np.bincount(groups[~known], minlength=self.rows) / np.maximum(
            1, np.bincount(groups, minlength=self.rows)
        )
        known &= np.isfinite(centres[groups])
        groups, moves = groups[known], moves[known]
        far = np.abs(moved[known] - centres[groups])
        if not self.by.draws:
            return self._added(groups, moves // 2, far), unknown
        drawn = moves < self.by.draws
        found = _quantiles(groups[drawn], far[drawn], self.rows)
        corners = np.full(self.rows, -np.inf)
        np.maximum.at(corners, groups[~drawn], far[~drawn])
        return np.where(np.isnan(found) & np.isfinite(corners), corners, np.maximum(found, corners)), unknown

    def _added(self, groups: Ints, items: Ints, far: Floats) -> Floats:
        """The sum of the largest changes by each item."""
        several = len(self.by.noise) // 2 + 1
        keys, place = np.unique(groups * several + items, return_inverse=True)
        most = np.zeros(len(keys))
        np.maximum.at(most, place.reshape(-1), far)
        total = np.zeros(self.rows)
        np.add.at(total, keys // several, most)
        return total


def _quantiles(groups: Ints, far: Floats, rows: int) -> Floats:
    """The distance that one more draw is within with 95%, for each group; the largest where there are fewer than 19
    draws, and NaN where there are none."""
    order = np.lexsort((far, groups))
    numbers = np.bincount(groups, minlength=rows)
    starts = np.cumsum(numbers) - numbers
    found = np.full(rows, np.nan)
    some = numbers > 0
    places = starts[some] + _least(numbers[some]) - 1
    found[some] = far[order][places]
    return found


def _least(draws: Ints) -> Ints:
    """The least k, up to the number n of draws, for which k/(n + 1) is 95%."""
    found: Ints = np.minimum(draws, np.ceil(CONFIDENCE * (draws + 1) - 1e-9).astype(np.int64))
    return found


def _codes(first: Any, second: Any) -> Ints:
    """Numbers for the values of two columns of one kind: the same for the same."""
    both = pa.chunked_array([*_chunks(first), *_chunks(second, first.type)])
    encoded = pc.dictionary_encode(both, null_encoding="encode").combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _chunks(column: Any, kind: pa.DataType | None = None) -> list[Any]:
    plain = column if kind is None or column.type == kind else column.cast(kind)
    return list(plain.chunks) if isinstance(plain, pa.ChunkedArray) else [plain]
