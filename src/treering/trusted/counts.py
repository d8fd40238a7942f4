"""Exact counts of the rows in each cell, sealed; sums beside them; marginals kept current as rows arrive; and rows told
apart by arrival.

Up to `DENSE_CELLS` cells the counts are one dense array; above, only occupied cells are stored. Either way a query
reads the marginal over the attributes it names, which is computed once and then maintained: an append touches the new
rows only.

Beside its count a cell has, for each attribute of `numbers`, the sum of u over its rows (``domain/sums.py``): a column
of sums for each of ``stored(schema)``, in this order. Where rows are given by their cells alone, each has the u of its
cell's middle.

`Stretches` are the rows between sizes at which somebody tells rows apart, kept for as long as they are needed.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from treering.arrays import Ints
from treering.domain.query import MAX_TABLE, Attributes, Query, evaluate, evaluate_many, widest
from treering.domain.schema import Schema
from treering.domain.sums import Grid, of_codes, stored
from treering.errors import DataError, QueryError, TreeringError, VaultError
from treering.trusted.sealed import Sealed

DENSE_CELLS: Final = 2**24
"""Universes up to this many cells are kept as a dense array (128 MiB at the most)."""

MARGINAL_CELLS: Final = 2**22
"""The largest marginal that is cached for a query; one over more joint values is evaluated on the stored cells."""

CACHED_CELLS: Final = 2**25
"""The most entries that all cached marginals have together; the least recently used are dropped first."""

LARGEST_WEIGHT: Final = 2**31
"""The largest scale of a query's weights, which is the finest resolution of `Query.weighted`."""

MAX_COUNT: Final = 2**61
"""Size times weight scale stays below this, so that no sum of 64-bit integers can overflow."""


# -- which queries are counted -----------------------------------------------------------------------------------------


_CHECKED: Final = object()
"""The mark of a query that was checked. Queries do not change."""


def check_query(query: Query, schema: Schema) -> None:
    """Refuse a query whose weights are not integers 0 … scale, one for each joint value of attributes of ``schema``.

    The cost of an answer is derived from the query's ``spread``, so no query is taken at its word: neither one that was
    made by hand, past the functions that make queries, nor one of a subclass, which could give other weights each time.
    """
    if type(query) is not Query:
        raise QueryError(f"a query must be a Query, and no subclass, not a {type(query).__name__}")
    if query.schema is not schema and (type(query.schema) is not Schema or query.schema != schema):
        raise QueryError("the query is about another schema than this database")
    known = query.__dict__
    if known.get("_checked") is not _CHECKED:
        known["spread"] = _checked_spread(query, schema)
        known["_checked"] = _CHECKED


def _checked_spread(query: Query, schema: Schema) -> int:
    """The largest weight less the smallest of a query that fits the schema; raises `QueryError` for any other."""
    shape, masks, table = _checked_shape(query.attributes, schema), query.masks, query.table
    if table is not None and masks is None:
        return _checked_range(table, shape, query.scale)
    if table is not None or type(masks) is not tuple or len(masks) != len(shape) or query.scale != 1:
        raise QueryError("a query has a table of weights, or a tuple of sets, one for each attribute, and scale 1")
    for mask, size in zip(masks, shape, strict=True):
        if type(mask) is not np.ndarray or mask.dtype.char != "?" or mask.shape != (size,):
            raise QueryError("a set of a query is a boolean array, one flag for each value of its attribute")
    return 1 if shape else 0


def _checked_shape(attributes: tuple[int, ...], schema: Schema) -> list[int]:
    """The number of values of each attribute that a query names."""
    sizes = schema.shape
    last, shape = -1, []
    for position in attributes:
        if type(position) is not int or not last < position < len(sizes):
            raise QueryError(f"the attributes of a query are increasing positions within 0..{len(sizes) - 1}")
        last = position
        shape.append(sizes[position])
    if type(attributes) is not tuple:
        raise QueryError("the attributes of a query are a tuple of positions")
    return shape


def _checked_range(table: Ints, shape: list[int], scale: int) -> int:
    """The largest weight of a table less the smallest."""
    if type(scale) is not int or not 1 <= scale <= LARGEST_WEIGHT:
        raise QueryError("the scale of a query is an integer from 1 to 2^31")
    if type(table) is not np.ndarray or table.dtype != np.int64 or [*table.shape] != shape or table.size > MAX_TABLE:
        raise QueryError("the weights of a query are 64-bit integers, one for each joint value of its attributes")
    least, most = int(table.min()), int(table.max())
    if least < 0 or most > scale:
        raise QueryError(f"the weights of a query lie within 0 and its scale, {scale:,}")
    return most - least


# -- the counts --------------------------------------------------------------------------------------------------------


Sums: TypeAlias = tuple[Ints, ...]
"""A column of sums for each attribute whose sums are stored."""

Counted: TypeAlias = tuple[Ints, Ints, *tuple[Ints, ...]]
"""Cells, how many rows are in each, and the columns of sums."""


class _Store(Protocol):
    """Storage for the counts and sums of all cells: dense or sparse."""

    def add(self, cells: Ints, sums: Sums) -> None: ...

    def add_counted(self, cells: Ints, counts: Ints, sums: Sums) -> None: ...

    def marginal(self, attributes: Attributes) -> Ints: ...

    def occupied(self) -> Counted: ...

    def count(self, query: Query) -> int: ...


class Counts(Sealed):
    """The sealed exact counts of one growing database. Only the kernel holds one; only its size is public."""

    __slots__ = ("_marginals", "_schema", "_size", "_store", "_stretches", "_torn", "lock")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._size = 0
        self._store: _Store = _Dense(schema) if schema.cells <= DENSE_CELLS else _Sparse(schema)
        self._marginals: OrderedDict[Attributes, Ints] = OrderedDict()
        self._stretches = Stretches()
        self.lock = threading.RLock()
        """Held while rows are taken in, and by every kernel while it works."""
        self._torn = False

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._schema

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._size

    def add(self, cells: Ints, then: Callable[[], None] | None = None, sums: Sums | None = None) -> None:
        """Take in rows that are already encoded, all of them or none.

        ``then`` is called as part of it: what it records must change if and only if the rows are taken in. ``sums`` are
        the u of each row; without them, those of the cells' middles.
        """
        if len(cells) and (int(cells.min()) < 0 or int(cells.max()) >= self._schema.cells):
            raise DataError(f"cell numbers must lie within 0..{self._schema.cells - 1}")
        units = self._checked(cells, None, sums)
        if len(cells) > self._schema.cells and not units:  # More rows than cells are counted first: so all is faster.
            counts = np.bincount(cells)
            self.add_counted(np.flatnonzero(counts), counts[counts > 0], then)
            return
        with self.whole():
            places = self._places(cells)
            with self.taking_in():
                if len(cells):
                    self._store.add(cells, units)
                    self._stretches.add(cells, None, units)
                    for marginal, index in places:
                        _tally(marginal, index)
                    self._size += len(cells)
                if then is not None:
                    then()

    def add_counted(
        self, cells: Ints, counts: Ints, then: Callable[[], None] | None = None, sums: Sums | None = None
    ) -> None:
        """Take in rows that are already encoded and counted, all of them or none: so many for each of these cells.

        ``then`` is as in `add`. ``sums`` are those of each cell; without them, each row has the u of its cell's middle.
        """
        if cells.ndim != 1 or cells.shape != counts.shape:
            raise DataError("cells and counts come as two arrays of one length")
        if len(cells) and (int(cells.min()) < 0 or int(cells.max()) >= self._schema.cells):
            raise DataError(f"cell numbers must lie within 0..{self._schema.cells - 1}")
        if len(cells) and (int(counts.min()) < 1 or self._size + counts.sum(dtype=np.float64) >= MAX_COUNT):
            raise DataError("counts must be positive, and below 2^61 together with the rows before")
        units = self._checked(cells, counts, sums)
        with self.whole():
            places = self._places(cells)
            with self.taking_in():
                if len(cells):
                    self._store.add_counted(cells, counts, units)
                    self._stretches.add(cells, counts, units)
                    for marginal, index in places:
                        np.add.at(marginal, index, counts)
                    self._size += int(counts.sum())
                if then is not None:
                    then()

    def _checked(self, cells: Ints, counts: Ints | None, sums: Sums | None) -> Sums:
        """PRIVATE: the columns of sums, none of which can be larger than its rows allow: sensitivity rests on that."""
        positions = stored(self._schema)
        if not positions:
            return ()
        attributes = [self._schema.attributes[self._schema.names[position]] for position in positions]
        rows = np.ones(len(cells), dtype=np.int64) if counts is None else counts
        steps = [grid.steps for grid in map(Grid.of, attributes) if grid is not None]
        if (self._size + int(rows.sum())) * max(steps) >= MAX_COUNT:
            raise DataError(
                f"rows times steps must stay below 2^61: {max(steps):,} steps are too many for so many rows"
            )
        if sums is None:
            codes = [project(self._schema, cells, (position,)) for position in positions]
            return tuple(rows * of_codes(each)[code] for each, code in zip(attributes, codes, strict=True))
        fitting = len(sums) == len(steps) and all(column.shape == cells.shape for column in sums)
        bounds = [most * rows for most in steps]
        if not fitting or any(
            ((column > bound) | (column < -bound)).any() for column, bound in zip(sums, bounds, strict=True)
        ):
            raise DataError("sums come as an array for each attribute of numbers, within what its rows can sum to")
        return sums

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The lock, for who is about to read or change the counts in the block: refuses them if they are torn. (An
        interrupt as the block begins or ends cannot leave the lock with its thread: a generator that is dropped ends
        its own blocks, where ``__enter__`` and ``__exit__`` of our own would not be called again.)"""
        with self.lock:
            self.check_whole()
            yield

    @contextmanager
    def taking_in(self) -> Iterator[None]:
        """Rows are counted in the block. If it does not come to its end (an interrupt, no memory), only some of them
        may be: the counts are *torn*, and `whole` refuses every further use. A retry must not count rows twice."""
        self._torn = True
        yield
        self._torn = False

    def check_whole(self) -> None:
        """Refuse counts that are torn."""
        if self._torn:
            raise TreeringError(
                "an append was interrupted while its rows were counted, and only some of them may be in: nothing more "
                "is answered from this database; make it anew (a vault: open it again)"
            )

    def _places(self, cells: Ints) -> list[tuple[Ints, Ints]]:
        """PRIVATE: each kept marginal, flat, and where in it the cells lie."""
        kept = self._marginals.items()
        return [(marginal.reshape(-1), project(self._schema, cells, attributes)) for attributes, marginal in kept]

    def marginal(self, attributes: Attributes) -> Ints:
        """PRIVATE: the exact counts over the joint values of some attributes."""
        if attributes in self._marginals:
            self._marginals.move_to_end(attributes)
            return self._marginals[attributes]
        marginal = self._store.marginal(attributes)
        self._marginals[attributes] = marginal
        while len(self._marginals) > 1 and sum(each.size for each in self._marginals.values()) > CACHED_CELLS:
            self._marginals.popitem(last=False)
        return marginal

    def count(self, query: Query) -> int:
        """PRIVATE: a query's exact weighted count, in units of 1/scale rows."""
        if self._size * query.scale >= MAX_COUNT:
            raise QueryError(f"size times the query's resolution must stay below 2^61: use one below {query.scale}")
        if query.joint > MARGINAL_CELLS:
            return self._store.count(query)
        return int(evaluate(query, self.marginal(query.attributes)))

    def count_many(self, queries: Sequence[Query]) -> Ints:
        """PRIVATE: `count` for a batch."""
        scale = max({query.scale for query in queries}, default=1)
        if len(queries) == 1 or widest(queries) > MARGINAL_CELLS or self._size * scale >= MAX_COUNT:
            return np.array([self.count(query) for query in queries], dtype=np.int64)
        return evaluate_many(queries, self.marginal, np.int64)

    def mark(self, journal: object) -> None:
        """Tell rows up to now and later ones apart for ``journal``, until `keep_marks` no longer names the size."""
        with self.lock:
            self._stretches.mark(journal, self._size, self._store.occupied)

    def keep_marks(self, journal: object, sizes: Collection[int]) -> None:
        """Forget the sizes that a journal has marked, except these."""
        self._stretches.keep(journal, sizes)

    def check_mark(self, journal: object, size: int) -> None:
        """Raise `VaultError` if a journal has not marked this size."""
        self._stretches.check(journal, size)

    def between(self, start: int, end: int, column: int | None = None) -> Iterator[tuple[Ints, Ints]]:
        """PRIVATE: the rows ``start`` + 1 to ``end``, both marked sizes: cells, in parts, and how many rows in each, or
        their sums in one of the columns. A cell may come several times."""
        return self._stretches.between(start, end, column)

    @property
    def marked(self) -> tuple[int, ...]:
        """The earlier sizes that are marked for any journal, increasing: public."""
        return tuple(size for size in self._stretches.marked if size < self._size)

    def stretches(self) -> dict[int, Counted]:
        """PRIVATE: the rows in stretches, by order of arrival: up to the first `marked` size, from there to the next,
        and so on to the current size. Keys are the sizes at which stretches end; values are a stretch's occupied cells,
        increasing, how many of its rows lie in each, and the columns of sums."""
        with self.lock:
            if not self.marked:
                return {self._size: self._store.occupied()}
            return self._stretches.all(self._size)


class _Dense:
    """One counter per cell."""

    def __init__(self, schema: Schema) -> None:
        self._counts = np.zeros(schema.shape, dtype=np.int64)
        self._sums = [np.zeros(schema.cells, dtype=np.int64) for _ in stored(schema)]

    def add(self, cells: Ints, sums: Sums) -> None:
        _tally(self._counts.reshape(-1), cells)
        self._add_sums(cells, sums)

    def add_counted(self, cells: Ints, counts: Ints, sums: Sums) -> None:
        np.add.at(self._counts.reshape(-1), cells, counts)
        self._add_sums(cells, sums)

    def _add_sums(self, cells: Ints, sums: Sums) -> None:
        for total, column in zip(self._sums, sums, strict=True):
            np.add.at(total, cells, column)

    def marginal(self, attributes: Attributes) -> Ints:
        others = tuple(axis for axis in range(self._counts.ndim) if axis not in attributes)
        # Always a new array, because the cache updates it in place.
        return np.array(self._counts.sum(axis=others, dtype=np.int64) if others else self._counts)

    def occupied(self) -> Counted:
        counts = self._counts.reshape(-1)
        cells = np.flatnonzero(counts)
        return cells, counts[cells], *(total[cells] for total in self._sums)

    def count(self, query: Query) -> int:
        return int(evaluate(query, self.marginal(query.attributes)))


class _Sparse:
    """Occupied cells only: sorted runs of (cell, count), merged as in a log-structured tree.

    Each run is at least twice as long as the next, so an append costs amortised O(rows · log), and nothing is as large
    as the universe.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._runs: list[Counted] = []

    def add(self, cells: Ints, sums: Sums) -> None:
        self.add_counted(cells, np.ones(len(cells), dtype=np.int64), sums)

    def add_counted(self, cells: Ints, counts: Ints, sums: Sums) -> None:
        # Merging sorts, and brings equal cells together.
        self._push(_merge([(cells, counts, *sums)]))

    def _push(self, run: Counted) -> None:
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            run = _merge([self._runs.pop(), run])
        self._runs.append(run)

    def marginal(self, attributes: Attributes) -> Ints:
        shape = tuple(self._schema.shape[position] for position in attributes)
        marginal = np.zeros(shape, dtype=np.int64)
        for cells, counts, *_ in self._runs:
            np.add.at(marginal.reshape(-1), project(self._schema, cells, attributes), counts)
        return marginal

    def occupied(self) -> Counted:
        return _merge(self._runs or [_nothing(len(stored(self._schema)))])

    def count(self, query: Query) -> int:
        """By a scan of the occupied cells, one attribute at a time: for conjunctions over a joint domain too large to
        tabulate."""
        assert query.masks is not None  # a table never has more joint values than a cached marginal
        total = 0
        for cells, counts, *_ in self._runs:
            match = np.ones(len(cells), dtype=np.bool_)
            for position, mask in zip(query.attributes, query.masks, strict=True):
                match &= mask[project(self._schema, cells, (position,))]
            total += int(counts[match].sum())
        return total


def project(schema: Schema, cells: Ints, attributes: Attributes) -> Ints:
    """The flat index of each cell within the marginal over some attributes."""
    index = np.zeros(len(cells), dtype=np.int64)
    stride, last = 1, len(schema.shape)
    for position in reversed(attributes):
        below = 1
        for size in schema.shape[position + 1 : last]:
            below *= size
        # Divide off the digits of the attributes behind this one, then take its own.
        cells = cells // below if below > 1 else cells
        cells, code = np.divmod(cells, schema.shape[position])
        index += stride * code
        stride *= schema.shape[position]
        last = position
    return index


def _tally(counts: Ints, index: Ints) -> None:
    """Add one to ``counts`` at each index, in time O(number of indices), however many counts there are."""
    if len(index) * 4 < len(counts):
        np.add.at(counts, index, 1)
    else:
        counts += np.bincount(index, minlength=len(counts))


def _nothing(columns: int) -> Counted:
    """No cells, with so many columns of sums."""
    empty = np.empty(0, dtype=np.int64)
    return empty, empty, *(empty for _ in range(columns))


def _merge(runs: Sequence[Counted]) -> Counted:
    """The cells of some runs, increasing, each once."""
    cells, inverse = np.unique(np.concatenate([run[0] for run in runs]), return_inverse=True)

    def total(column: int) -> Ints:
        sums = np.zeros(len(cells), dtype=np.int64)
        np.add.at(sums, inverse, np.concatenate([run[column] for run in runs]))
        return sums

    return cells, total(1), *(total(column) for column in range(2, len(runs[0])))


# -- rows told apart by arrival ----------------------------------------------------------------------------------------


_MANY: Final = 2**20
"""Rows since the last mark are counted by cell when there are this many, so that they need little memory."""

_Run: TypeAlias = tuple[Ints, Ints | None, *tuple[Ints, ...]]
"""Cells; how many rows are in each (None: one in each); and the columns of sums."""


class Stretches(Sealed):
    """The rows between neighbouring marks, by cell. Rows after the last mark are only listed: an append costs nothing.

    Marks belong to a journal, as a run's secret does: a kernel that continues the journal finds them, and they are
    forgotten with it (so a journal must allow weak references). Without marks nothing is kept.

    A durable store keeps its batches. When it is opened it takes them in by order of arrival and, before the kernel is
    made, calls `Counts.mark` at each of the sizes that ``sizes_to_mark(journal.events())`` names: a mark is made at the
    size after some batch, so the store passes each of these sizes.

    An interrupt cannot tear this: each change of what is kept is one step.
    """

    __slots__ = ("_ends", "_owned", "_runs", "_waiting")

    def __init__(self) -> None:
        self._owned: WeakKeyDictionary[object, set[int]] = WeakKeyDictionary()
        self._runs: list[_Run] = []
        """All rows in the order in which they came; those before the first mark as one run."""
        self._ends: list[tuple[int, int]] = []
        """For each mark, its size, and how many of the runs came before it."""
        self._waiting = 0
        """How many entries the runs after the last mark have."""

    @property
    def marked(self) -> tuple[int, ...]:
        """The sizes that any journal has marked, increasing."""
        return tuple(sorted(set().union(*self._owned.values())))

    def add(self, cells: Ints, counts: Ints | None, sums: Sums = ()) -> None:
        """Rows were appended."""
        if not any(self._owned.values()):
            self._ends, self._runs = [], []
            return
        self._runs.append((cells, counts, *sums))
        self._waiting += len(cells)
        if self._waiting > _MANY and len(self._runs) > self._ends[-1][1] + 1:
            recent = _together(self._runs[self._ends[-1][1] :])
            self._runs[self._ends[-1][1] :] = [recent]
            self._waiting = len(recent[0])

    def mark(self, owner: object, size: int, occupied: Callable[[], Counted]) -> None:
        """Tell rows up to ``size``, the current one, and later ones apart. ``occupied`` gives all rows by cell."""
        if size == 0:
            return
        if not any(self._owned.values()) or not self._ends:
            self._runs, self._ends = [occupied()], [(size, 1)]
        elif self._ends[-1][0] != size:
            self._ends.append((size, len(self._runs)))
        self._waiting = 0
        self._owned.setdefault(owner, set()).add(size)

    def between(self, start: int, end: int, column: int | None = None) -> Iterator[tuple[Ints, Ints]]:
        """PRIVATE: the rows between two marks, or from the first row on, or their sums in one of the columns."""
        first = 0 if start == 0 else self._runs_before(start)
        for run in self._runs[first : self._runs_before(end)]:
            cells, counts, *sums = _counted(run)
            yield cells, counts if column is None else sums[column]

    def all(self, size: int) -> dict[int, Counted]:
        """PRIVATE: all stretches by where they end, the last at the current ``size``."""
        wanted = {*self.marked, size}
        ends = [*(each for each in self._ends if each[0] in wanted and each[0] < size), (size, len(self._runs))]
        starts = [0, *(number for _, number in ends)]
        return {end: _together(self._runs[start:stop]) for start, (end, stop) in zip(starts, ends, strict=False)}

    def check(self, owner: object, size: int) -> None:
        """Raise `VaultError` if this size is not marked."""
        if size and size not in self._owned.get(owner, ()):
            raise VaultError(
                f"rows are told apart at size {size:,}, and it was not marked: take the batches in again, in order, "
                "and mark at the sizes that sizes_to_mark names"
            )

    def keep(self, owner: object, sizes: Collection[int]) -> None:
        """Forget the marks of ``owner``, except at these sizes."""
        owned = self._owned.get(owner)
        if owned is None or owned <= set(sizes):
            return
        owned &= set(sizes)
        wanted = set(self.marked)
        self._ends = [each for each in self._ends if each[0] in wanted]
        if not self._ends:
            self._runs = []
        recent = self._runs[self._ends[-1][1] :] if self._ends else []
        self._waiting = sum(len(run[0]) for run in recent)

    def _runs_before(self, size: int) -> int:
        place = bisect_left(self._ends, (size, 0))
        if place == len(self._ends) or self._ends[place][0] != size:
            raise VaultError(f"rows are not told apart at size {size:,}")
        return self._ends[place][1]


def _counted(run: _Run) -> Counted:
    cells, counts, *sums = run
    return cells, np.ones(len(cells), dtype=np.int64) if counts is None else counts, *sums


def _together(runs: Sequence[_Run]) -> Counted:
    """Occupied cells, increasing, how many rows in each, and the columns of sums."""
    last = max((int(run[0].max()) for run in runs if len(run[0])), default=0)
    if not runs or 4 * sum(len(run[0]) for run in runs) < last:
        return _merge([_counted(run) for run in runs] or [_nothing(0)])
    tally = np.zeros(last + 1, dtype=np.int64)  # A pass over all cells is faster than sorting.
    sums = [np.zeros(last + 1, dtype=np.int64) for _ in runs[0][2:]]
    for cells, counts, *columns in runs:
        if counts is None:
            _tally(tally, cells)
        else:
            np.add.at(tally, cells, counts)
        for total, column in zip(sums, columns, strict=True):
            np.add.at(total, cells, column)
    occupied = np.flatnonzero(tally)
    return occupied, tally[occupied], *(total[occupied] for total in sums)
