"""PRIVATE: rows that stay in an engine, as pieces of a database. What one refresh takes in is an interval of order
values, and is counted where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from treering.errors import EngineError
from treering.trusted.engines.watermark import Watermark
from treering.trusted.rows.tally import Elsewhere, Grouping, Lines, Piece


class Counting(Protocol):
    """What counts the rows of a table in an engine."""

    def count(self, grouping: Grouping, bounds: list[int | None], *, fitting: bool) -> Lines:
        """PRIVATE: the rows between neighbouring order values, by interval and group; ``fitting``: without those that
        do not fit."""


class Stretch(Elsewhere):
    """PRIVATE: the rows of one refresh."""

    __slots__ = ("_after", "_mark", "_source")

    def __init__(self, source: Callable[[], Counting], after: Watermark | None, mark: Watermark) -> None:
        """The rows past the watermark ``after``, up to ``mark``. ``source`` is called when rows are counted, and not
        before: until then its engine may be away."""
        self._source, self._after, self._mark = source, after, mark

    def lines(self, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int]) -> Lines:
        """See `Elsewhere`. Intervals begin and end where refreshes did, and have as many rows as then."""
        bounds = _bounds(pieces, edges)
        lines = self._source().count(grouping, bounds, fitting=_of(pieces[-1])._mark.dropped > 0)
        found = np.zeros(len(edges) - 1, dtype=np.int64)
        np.add.at(found, lines.leaf, lines.rows)
        for rows, (start, end) in zip(found.tolist(), pairwise(edges), strict=True):
            if rows != end - start:
                raise EngineError(
                    f"the table has {rows:,} rows where {end - start:,} were taken in: rows were changed, deleted or "
                    "added below the watermark, and nothing was answered"
                )
        return lines


def _bounds(pieces: Sequence[Piece], edges: Sequence[int]) -> list[int | None]:
    """The largest order value up to each of some positions; None at the first, if there is none."""
    known = {pieces[0].first: _of(pieces[0])._after} | {piece.last: _of(piece)._mark for piece in pieces}
    if not known.keys() >= set(edges):
        raise EngineError("an interval begins or ends within rows that were taken in together")
    marks = [known[edge] for edge in edges]
    return [None if mark is None else mark.value for mark in marks]


def _of(piece: Piece) -> Stretch:
    assert isinstance(piece.content, Stretch)
    return piece.content
