"""PRIVATE: rows that stay in an engine, as pieces of a database. What one refresh takes in is an interval of order
values, and is counted where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from treering.arrays import Ints
from treering.errors import EngineError
from treering.trusted.engines.watermark import Watermark
from treering.trusted.rows.tally import Elsewhere, Grouping, Lines, Piece

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.trusted.rows.persons import Persons


class Counting(Protocol):
    """What counts the rows of a table in an engine."""

    def count(self, grouping: Grouping, bounds: list[int | None], *, fitting: bool) -> Lines:
        """PRIVATE: the rows between neighbouring order values, by interval and group; ``fitting``: without those that
        do not fit."""

    def first_rows(
        self, grouping: Grouping, bounds: list[int | None], person: str, each: int, *, fitting: bool
    ) -> tuple[pa.Table, Lines]:
        """PRIVATE: the first rows, up to ``each``, of each person and group between two order values."""


class Stretch(Elsewhere):
    """PRIVATE: the rows of one refresh."""

    __slots__ = ("_after", "_mark", "_persons", "_source")

    def __init__(
        self,
        source: Callable[[], Counting],
        after: Watermark | None,
        mark: Watermark,
        persons: Persons | None = None,
    ) -> None:
        """The rows past the watermark ``after``, up to ``mark``. ``source`` is called when rows are counted, and not
        before: until then its engine may be away. ``persons`` are whose they are, if that is known."""
        self._source, self._after, self._mark, self._persons = source, after, mark, persons

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

    def firsts(self, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int], each: int) -> Any:
        """See `Elsewhere`. Within a refresh rows are numbered in their order, without those that cannot count."""
        from treering.trusted.operations.firsts import Firsts
        from treering.trusted.rows.persons import halves

        if self._persons is None:
            raise EngineError("nobody knows whose the rows of this table are")
        self.lines(pieces, grouping, edges)
        bounds, fitting = _bounds(pieces, edges), _of(pieces[-1])._mark.dropped > 0
        ends = [bounds[0], bounds[-1]]
        found, lines = self._source().first_rows(grouping, ends, self._persons.column, each, fitting=fitting)
        order = np.asarray(found.column("position"), dtype=np.int64)
        words = halves(self._persons.digests(found.column("person")))
        return Firsts(words, lines.place, _numbered(pieces, order), lines.total)


def _numbered(pieces: Sequence[Piece], order: Ints) -> Ints:
    """A position for each order value, increasing with it, within the piece that it is in."""
    known, of = np.unique(order, return_inverse=True)
    ends = [_of(each)._mark.value or 0 for each in pieces]
    piece = np.searchsorted(np.array(ends, dtype=np.int64), known)
    firsts = np.array([each.first for each in pieces], dtype=np.int64)
    place = np.arange(len(known)) - np.searchsorted(piece, piece)
    return (firsts[piece] + 1 + place)[of.reshape(-1)]


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
