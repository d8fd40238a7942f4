"""Neighbouring streams: rows that arrive in batches; in the neighbour one row is another, with the same arrival time.

A `Stream` is made up by the auditor, so nothing in it is private. `grow` appends it to a real `GrowingDatabase`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from treering.arrays import Ints
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError
from treering.trusted.store import GrowingDatabase


@dataclass(frozen=True)
class Stream:
    """A stream of rows: ``batches`` are appended one after another, and a row is the number of its cell in ``schema``.

    >>> from treering.domain.attribute import categories
    >>> schema = Schema({"late": categories("no", "yes")})
    >>> stream = Stream(schema, ((0, 1), (1,)))
    >>> stream.sizes, stream.counts(Query.where(schema, late="yes"))
    ((2, 3), (1, 2))
    """

    schema: Schema
    batches: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.batches:
            raise ParameterError("batches", "must be at least one")
        for cells in self.batches:
            if not all(0 <= cell < self.schema.cells for cell in cells):
                raise ParameterError("batches", f"must hold cells, numbers in 0..{self.schema.cells - 1}")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The size of the database after each batch."""
        return tuple(accumulate(len(cells) for cells in self.batches))

    @cached_property
    def arrays(self) -> tuple[Ints, ...]:
        """The batches as arrays."""
        return tuple(np.array(cells, dtype=np.int64) for cells in self.batches)

    def counts(self, query: Query) -> tuple[int, ...]:
        """A query's exact weighted count after each batch, in units of 1/``query.scale`` rows."""
        if query not in self._counts:
            if query.schema != self.schema:
                raise QueryError("the query is about another schema than this stream")
            added = (int(_weights(query, cells).sum()) for cells in self.arrays)
            self._counts[query] = tuple(accumulate(added))
        return self._counts[query]

    @cached_property
    def _counts(self) -> dict[Query, tuple[int, ...]]:
        return {}


def grow(stream: Stream) -> Iterator[GrowingDatabase]:
    """One real database, yielded after each batch of the stream: advancing the iterator appends the next batch."""
    database = GrowingDatabase(stream.schema)
    for cells in stream.arrays:
        database.append_cells(cells)
        yield database


def neighbour(stream: Stream, batch: int, position: int, cell: int) -> Stream:
    """The stream with one row replaced: the one at ``position`` of batch number ``batch`` is now in ``cell``.

    >>> from treering.domain.attribute import categories
    >>> stream = Stream(Schema({"late": categories("no", "yes")}), ((0, 1), (1,)))
    >>> neighbour(stream, batch=1, position=0, cell=0).batches
    ((0, 1), (0,))
    """
    if not 0 <= batch < len(stream.batches):
        raise ParameterError("batch", f"must lie in 0..{len(stream.batches) - 1}, not {batch}")
    cells = stream.batches[batch]
    if not 0 <= position < len(cells):
        raise ParameterError(
            "position", f"must be that of one of the {len(cells)} entries of batch {batch}, not {position}"
        )
    replaced = (*cells[:position], cell, *cells[position + 1 :])
    return Stream(stream.schema, (*stream.batches[:batch], replaced, *stream.batches[batch + 1 :]))


def random_neighbours(schema: Schema, generator: np.random.Generator, batches: int, rows: int) -> tuple[Stream, Stream]:
    """A uniformly random stream of ``batches`` batches of ``rows`` rows, and a neighbour with a random row replaced."""
    if schema.cells < 2:
        raise ParameterError("schema", "must have at least two cells: with one, no entry can be replaced by another")
    if batches < 1 or rows < 1:
        raise ParameterError("batches" if batches < 1 else "rows", "must be at least 1")
    cells = generator.integers(schema.cells, size=(batches, rows))
    left = Stream(schema, tuple(tuple(batch) for batch in cells.tolist()))
    batch, position = int(generator.integers(batches)), int(generator.integers(rows))
    other = (left.batches[batch][position] + int(generator.integers(1, schema.cells))) % schema.cells
    return left, neighbour(left, batch, position, other)


def worst_pair(
    schema: Schema, inside: int, outside: int, gaps: Sequence[int], arrival: int = 0
) -> tuple[Stream, Stream]:
    """The worst case for sparse vector with threshold ½: every count is one higher on the right than on the left.

    The rows are in two cells, ``inside`` and ``outside``. On the left, after batch i, half of the rows and ``gaps[i]``
    more are in ``inside`` (fewer, if it is negative). On the right one row that arrives with batch ``arrival`` is
    inside instead of outside, so from then on every query that tells the two cells apart has another count.

    >>> from treering.domain.attribute import categories
    >>> left, right = worst_pair(Schema({"late": categories("no", "yes")}), inside=1, outside=0, gaps=[-1, -1, -2])
    >>> late = Query.where(left.schema, late="yes")
    >>> left.sizes, left.counts(late), right.counts(late)
    ((4, 6, 10), (1, 2, 3), (2, 3, 4))
    """
    if not gaps:
        raise ParameterError("gaps", "must be at least one")
    if inside == outside:
        raise ParameterError("outside", "must be another cell than inside")
    # Batches have an even number of rows, so that half the size is whole, and one pair of rows more than the gap needs,
    # so that there is a row to replace.
    changes = (gaps[0], *(after - before for before, after in pairwise(gaps)))
    halves = [abs(change) + 1 for change in changes]
    batches = tuple(
        (outside,) * (half - change) + (inside,) * (half + change) for half, change in zip(halves, changes, strict=True)
    )
    left = Stream(schema, batches)
    return left, neighbour(left, arrival, 0, inside)


def _weights(query: Query, cells: Ints) -> Ints:
    """The weight of each row, in units of 1/scale."""
    codes = np.unravel_index(cells, query.schema.shape)
    chosen = tuple(codes[position] for position in query.attributes)
    if query.table is not None:
        return np.broadcast_to(query.table[chosen], cells.shape)
    weights = np.ones(len(cells), dtype=np.int64)
    for mask, code in zip(query.masks or (), chosen, strict=True):
        weights *= mask[code]
    return weights
