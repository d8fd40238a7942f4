"""PRIVATE: the one way to count: exact integers of disjoint groups over intervals of positions, by one GROUP BY.

Rows lie in *pieces*, one after another: Arrow tables in memory, Parquet files, which number their rows, or codes of
cells. A piece knows its first position, so no position is stored. DuckDB counts files and large tables in one
statement. Small tables, for which a statement takes longer than its rows, and codes are counted here.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from treering.arrays import Array, Ints
from treering.domain.axis import Scalar
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import Sums, of_codes, summable, sums_of
from treering.errors import DamagedVault, EngineError, QueryError
from treering.trusted.cells import project
from treering.trusted.dialect import EMBEDDED, MOST_CUTS, Dialect
from treering.trusted.distinct import few_valued
from treering.trusted.rows.lens import Key, classes_of, half_steps, key_of, units_of, value_of, values_of
from treering.trusted.rows.typed import field_of, kept
from treering.trusted.sealed import Sealed

if TYPE_CHECKING:
    import duckdb

_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "disabled_optimizers": "statistics_propagation",  # Parquet's statistics leave NaN out, and DuckDB trusts them.
    "threads": "2",
}


class Engine(Sealed):
    """A DuckDB of one store. It reads files of ``folder`` only, and what does not fit into memory goes there, too."""

    __slots__ = ("_connection", "many")

    def __init__(self, folder: Path | None = None) -> None:
        import duckdb  # Opening a vault does not need it, and it takes long to load.

        self.many: Final[set[str]] = set()
        """Columns that were found to have many values."""
        spill = "" if folder is None else str(folder / "spills")
        self._connection = duckdb.connect(":memory:", config={**_SETTINGS, "temp_directory": spill})
        if folder is not None:
            self._connection.execute("SET allowed_directories = ?", [[str(folder)]])
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own to the database, for one statement."""
        with self._connection.cursor() as cursor:
            yield cursor

    def close(self) -> None:
        """Give its memory back."""
        self._connection.close()


_SHARED: Final[list[Engine]] = []
_MAKING: Final = threading.Lock()


def shared_engine() -> Engine:
    """The DuckDB of this process for rows in memory, made when it is first needed. It goes before this process is
    forked, and is made anew: a child that had it could not let it go, as it has not its threads."""
    with _MAKING:
        if not _SHARED:
            _SHARED.append(Engine())
        return _SHARED[0]


os.register_at_fork(before=_SHARED.clear)


Numbers: TypeAlias = tuple[Ints, Ints, Ints]
"""PRIVATE: intervals, places in a release, and numbers."""


class Codes(Sealed):
    """PRIVATE: rows given by their cells. Each has the value of its cell: of `numbers`, the middle."""

    __slots__ = ("cells",)

    def __init__(self, cells: Array) -> None:
        self.cells = cells


class Elsewhere(Sealed, ABC):
    """PRIVATE: rows that stay in an engine, which counts them."""

    __slots__ = ()

    @abstractmethod
    def lines(self, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int]) -> Lines:
        """The rows of all intervals between neighbouring edges, grouped; the ``pieces`` are all of one table."""

    @abstractmethod
    def firsts(self, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int], each: int) -> Any:
        """The first rows, up to ``each``, of each person and group (``operations/firsts.py``)."""


@dataclass(frozen=True, repr=False, eq=False)
class Piece(Sealed):
    """PRIVATE: rows that came one after another: the positions ``first`` + 1 on."""

    first: int
    rows: int
    content: pa.Table | Path | Codes | Elsewhere
    """Typed rows (``rows/typed.py``) in memory or in a Parquet file, codes of cells, or rows in an engine."""

    @property
    def last(self) -> int:
        """The position of the last row."""
        return self.first + self.rows


class Statement(Sealed):
    """One SELECT over pieces, with what it names: tables and parameters."""

    __slots__ = ("parameters", "tables")

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}
        self.parameters: dict[str, Any] = {}

    def rows(self, pieces: Sequence[Piece], edges: Sequence[int], columns: Sequence[str]) -> str:
        """Some columns of the rows of all intervals between neighbouring edges, and ``leaf``, the number of each row's
        interval. Files that lie whole in one interval are read together, and their rows are not numbered."""
        names = "".join(f"{EMBEDDED.quoted(column)}, " for column in columns)
        whole: dict[int, list[str]] = {}
        sources = []
        for piece in pieces:
            start, end = max(piece.first, edges[0]), min(piece.last, edges[-1])
            leaf, after = bisect_right(edges, start) - 1, bisect_left(edges, end)
            if isinstance(piece.content, pa.Table):
                sources.append(f"SELECT {names}leaf FROM {self._table(piece, start, end, edges)}")
            elif after == leaf + 1 and end - start == piece.rows:
                whole.setdefault(leaf, []).append(str(piece.content))
            else:
                sources.append(self._cut(piece, start, end, edges[leaf + 1 : after], leaf, names))
        for leaf, paths in whole.items():
            self.parameters[f"files{leaf}"] = paths
            sources.append(f"SELECT {names}{leaf} AS leaf FROM read_parquet($files{leaf})")
        return sources[0] if len(sources) == 1 else " UNION ALL ".join(f"({each})" for each in sources)

    def _table(self, piece: Piece, start: int, end: int, edges: Sequence[int]) -> str:
        """The name of a table in memory, with the numbers of intervals."""
        assert isinstance(piece.content, pa.Table)
        name, rows = f"rows{piece.first}", piece.content.slice(start - piece.first, end - start)
        self.tables[name] = rows.append_column("leaf", pa.array(_leaves(start, end, edges)))
        return name

    def _cut(self, piece: Piece, start: int, end: int, inner: Sequence[int], leaf: int, names: str) -> str:
        """Rows of a file by their numbers in it: the first are of interval ``leaf``, and at each of the ``inner`` edges
        the next one begins."""
        self.parameters[f"file{piece.first}"] = str(piece.content)
        source = f"read_parquet($file{piece.first}, file_row_number = true) AS r"
        within = f"file_row_number >= {start - piece.first} AND file_row_number < {end - piece.first}"
        if len(inner) <= MOST_CUTS:
            arms = (f"WHEN file_row_number < {edge - piece.first} THEN {leaf + k}" for k, edge in enumerate(inner))
            number = f"CASE {' '.join(arms)} ELSE {leaf + len(inner)} END" if inner else str(leaf)
            return f"SELECT {names}{number} AS leaf FROM {source} WHERE {within}"
        starts = pa.array(np.array([start, *inner], dtype=np.int64) - piece.first)
        table = f"leaves{piece.first}"
        self.tables[table] = pa.table({"start": starts, "leaf": pa.array(np.arange(leaf, leaf + len(starts)))})
        joined = f"ASOF JOIN {table} ON r.file_row_number >= {table}.start"
        return f"SELECT {names}{table}.leaf AS leaf FROM {source} {joined} WHERE {within}"

    def run(self, engine: Engine, text: str) -> pa.Table:
        """Its result. What DuckDB says may quote a value, so it is neither passed on nor chained."""
        import duckdb

        try:
            with engine.cursor() as cursor:
                for name, table in self.tables.items():
                    cursor.register(name, table)
                return cursor.sql(text, params=self.parameters).to_arrow_table()
        except duckdb.IOException:
            problem: Exception = DamagedVault("a part of rows is missing, or not what was written; restore a backup")
        except duckdb.Error as error:
            problem = EngineError(f"the rows could not be counted ({type(error).__name__})")
        raise problem


# -- counting ----------------------------------------------------------------------------------------------------------


class Lines(NamedTuple):
    """PRIVATE: rows grouped by interval and place: how many they are, and the sum of their u."""

    leaf: Ints
    """The number of the interval."""
    place: Ints
    """The group; −1 for rows in none."""
    rows: Ints
    total: Ints


SMALL: Final = 2**14
"""Tables in memory of up to this many rows are counted without DuckDB."""


def tally(
    engine: Callable[[], Engine],
    pieces: Sequence[Piece],
    schema: Schema,
    groups: Groups,
    edges: Sequence[int],
    sums: Sums | None,
) -> tuple[Ints, Ints, Ints]:
    """PRIVATE: for each interval between two neighbouring edges, the numbers of the groups that `Sums` says, or counts
    of rows: intervals, places in a release, and numbers, in this order, without zeros. Raises unless it has seen just
    the rows of these intervals."""
    grouping = Grouping(schema, groups, sums)
    within = [piece for piece in pieces if piece.first < edges[-1] and edges[0] < piece.last]
    here = [piece for piece in within if _counted_here(piece)]
    lines = [_by_hand(piece, grouping, edges) for piece in here]
    others = [piece for piece in within if not _counted_here(piece)]
    if others and isinstance(others[0].content, Elsewhere):
        lines.append(others[0].content.lines(others, grouping, edges))
    elif others:
        lines.append(_by_statement(engine(), others, grouping, edges))
    seen = sum(int(each.rows.sum()) for each in lines)
    if seen != edges[-1] - edges[0]:
        raise EngineError(f"there are {seen:,} rows where {edges[-1] - edges[0]:,} were taken in: nothing was answered")
    return _added(lines, groups, sums)


def _counted_here(piece: Piece) -> bool:
    return isinstance(piece.content, Codes) or (isinstance(piece.content, pa.Table) and piece.rows <= SMALL)


def _added(lines: Sequence[Lines], groups: Groups, sums: Sums | None) -> tuple[Ints, Ints, Ints]:
    """The numbers of a release: Σ rows of each group, or `Sums.reach` times that and Σu."""
    leaf, place, rows, total = (np.concatenate(each) for each in zip(_NO_LINES, *lines, strict=True))
    inside = place >= 0
    leaf, place, rows, total = leaf[inside], place[inside], rows[inside], total[inside]
    if sums is None:
        return _sorted(leaf, place, rows)
    if not sums.counts:
        return _sorted(leaf, place, total)
    both = np.concatenate([place, place + groups.number])
    return _sorted(np.concatenate([leaf, leaf]), both, np.concatenate([sums.reach * rows, total]))


_NO_LINES: Final = Lines(*(np.empty(0, dtype=np.int64) for _ in range(4)))


def _sorted(leaf: Ints, place: Ints, number: Ints) -> tuple[Ints, Ints, Ints]:
    """The numbers added up, in the order of intervals and places."""
    order = np.lexsort((place, leaf))
    leaf, place, number = leaf[order], place[order], number[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(leaf) != 0) | (np.diff(place) != 0)
    starts = np.flatnonzero(first)
    return leaf[starts], place[starts], np.add.reduceat(number, starts) if len(starts) else number


def _by_hand(piece: Piece, grouping: Grouping, edges: Sequence[int]) -> Lines:
    """The rows of codes, or of a small table."""
    low, high = max(0, edges[0] - piece.first), min(piece.rows, edges[-1] - piece.first)
    if isinstance(piece.content, pa.Table):
        table = piece.content.slice(low, high - low)
        place, units = grouping.of_table(table)
        return Lines(_leaves(piece.first + low, piece.first + high, edges), place, np.ones_like(place), units)
    assert isinstance(piece.content, Codes)
    place, units = grouping.of_codes(piece.content, slice(low, high))
    return Lines(_leaves(piece.first + low, piece.first + high, edges), place, np.ones_like(place), units)


def _leaves(start: int, end: int, edges: Sequence[int]) -> Ints:
    """The number of the interval of each of the positions ``start`` + 1 to ``end``."""
    inner = np.clip(np.asarray(edges), start, end)
    return np.repeat(np.arange(len(edges) - 1), np.diff(inner))


MOST_LINES: Final = 2**17
"""A statement that groups by values as they are, and has more lines than this, is run again by classes."""


def _by_statement(engine: Engine, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int]) -> Lines:
    """The rows of files and large tables."""
    contents = [piece.content for piece in pieces if isinstance(piece.content, pa.Table | Path)]
    few = few_valued(contents, [name for name in grouping.grouped if name not in engine.many])
    lines = _grouped(engine, pieces, grouping, edges, few)
    if few and lines.num_rows > MOST_LINES:
        engine.many.update(few)
        few = frozenset()
        lines = _grouped(engine, pieces, grouping, edges, few)
    pa.default_memory_pool().release_unused()  # what the samples took
    return grouping.of_lines(lines, grouping.keys(few))


def _grouped(
    engine: Engine, pieces: Sequence[Piece], grouping: Grouping, edges: Sequence[int], few: frozenset[str]
) -> pa.Table:
    """Rows by interval and keys; ``few`` are the columns whose values are keys. What there is only one of, or what is
    always 0, is no column."""
    statement = Statement()
    source = statement.rows(pieces, edges, [field_of(each) for each in grouping.scalars])
    keys = grouping.keys(few)
    named = {f"k{place}": key.expression for place, key in enumerate(keys)}
    if len(edges) > 2:
        named["leaf"] = "leaf"
    grouped = f"GROUP BY {', '.join(named)}" if named else ""
    joins = " ".join(grouping.join(place, key, statement) for place, key in enumerate(keys))
    named["rows"] = "count(*)"
    if unit := grouping.unit():
        named["total"] = f"CAST(sum({unit}) AS BIGINT)"
    listed = ", ".join(f"{expression} AS {name}" for name, expression in named.items())
    limit = f"LIMIT {MOST_LINES + 1}" if few else ""
    return statement.run(engine, f"SELECT {listed} FROM ({source}) AS r {joins} {grouped} {limit}")


class Grouping(Sealed):
    """What rows are grouped by, and what is added up: as keys of a statement, or for rows that are counted here."""

    __slots__ = ("_groups", "_schema", "_sums", "axes")

    def __init__(self, schema: Schema, groups: Groups, sums: Sums | None) -> None:
        self._schema, self._groups, self._sums = schema, groups, sums
        self.axes = groups.axes
        """The axes whose classes tell the groups apart."""

    # -- by statement -------------------------------------------------------------------------------------------------

    def keys(self, few: frozenset[str] = frozenset(), dialect: Dialect = EMBEDDED) -> list[Key]:
        """The key of each axis, where the columns ``few`` have few distinct values."""
        return [
            key_of(axis, f"listed{place}", dialect, few=axis.scalar.part is None and field_of(axis.scalar) in few)
            for place, axis in enumerate(self.axes)
        ]

    @property
    def grouped(self) -> list[str]:
        """The columns whose values, as they are, may be keys."""
        return list(dict.fromkeys(field_of(axis.scalar) for axis in self.axes if axis.scalar.part is None))

    @property
    def scalars(self) -> list[Scalar]:
        """The scalars that are read, as they are kept."""
        summed = [] if self._sums is None else [self._sums.scalar]
        return list(dict.fromkeys(kept(each) for each in [*(axis.scalar for axis in self.axes), *summed]))

    def unit(self, dialect: Dialect = EMBEDDED) -> str | None:
        """u of a row in SQL, which is 0 where the attribute does not add its value up; None if none does."""
        if self._sums is None:
            return None
        scalar, grid = self._sums.scalar, self._sums.grid
        unit, value = half_steps(scalar, grid, dialect), value_of(scalar, dialect)
        low, high = dialect.literal(float(grid.low)), dialect.literal(float(grid.high))
        return unit if self._sums.clipped else f"CASE WHEN {value} BETWEEN {low} AND {high} THEN {unit} ELSE 0 END"

    def join(self, place: int, key: Key, statement: Statement) -> str:
        """The join with the listed values of an axis, if there is one; and the parameters of its key."""
        statement.parameters.update(key.parameters)
        if key.listed is None:
            return ""
        alias = f"listed{place}"
        statement.tables[alias] = key.listed
        name = EMBEDDED.quoted(alias)
        return f"LEFT JOIN {name} ON {name}.value = {value_of(self.axes[place].scalar)}"

    def of_lines(self, lines: pa.Table, keys: Sequence[Key]) -> Lines:
        """The lines of a statement's result, and the keys that it has."""
        labels = [key.classify(lines.column(f"k{place}").combine_chunks()) for place, key in enumerate(keys)]
        nothing = pa.array(np.zeros(lines.num_rows, dtype=np.int64))
        named = {"leaf": nothing, "total": nothing, **dict(zip(lines.column_names, lines.columns, strict=True))}
        leaf, rows, total = (np.asarray(named[name], dtype=np.int64) for name in ("leaf", "rows", "total"))
        return Lines(leaf, self._place(labels, lines.num_rows), rows, total)

    # -- by hand ------------------------------------------------------------------------------------------------------

    def of_table(self, table: pa.Table) -> tuple[Ints, Ints]:
        """The group of each row of a typed table, and its u."""
        place = self._place([classes_of(axis, table) for axis in self.axes], table.num_rows)
        if self._sums is None:
            return place, np.zeros_like(place)
        grid = self._sums.grid
        units = units_of(self._sums.scalar, grid, table)
        if not self._sums.clipped:
            values = np.asarray(values_of(self._sums.scalar, table).cast(pa.float64(), safe=False).fill_null(0.0))
            units[(values < grid.low) | (values > grid.high)] = 0
        return place, units

    def of_codes(self, codes: Codes, part: slice) -> tuple[Ints, Ints]:
        """The group of each row of some codes, and its u."""
        cells = codes.cells[part].astype(np.int64, copy=False)
        by_codes = self._groups.by_codes(self._schema)
        if by_codes is None:
            raise QueryError("rows that were given as cells cannot be told apart within a cell")
        labels = [each[project(self._schema, cells, (position,))] for position, each in by_codes]
        place = self._place(labels, len(cells))
        if self._sums is None:
            return place, np.zeros_like(place)
        position = self._summed(self._sums)
        units = of_codes(self._schema.attributes[self._schema.names[position]])
        return place, units[project(self._schema, cells, (position,))]

    def _summed(self, sums: Sums) -> int:
        """The position of the attribute that is summed."""
        for position in summable(self._schema):
            if sums_of(self._schema, position, counts=sums.counts) == sums:
                return position
        raise QueryError("rows that were given as cells have the sums of their schema's attributes, and no others")

    def _place(self, labels: Sequence[Ints], rows: int) -> Ints:
        """The group of each row, given by its labels; −1 for a row in none."""
        place, inside = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.bool_)
        for label, size in zip(labels, self._groups.shape, strict=True):
            place, inside = place * size + label, inside & (label >= 0)
        if self._groups.table is not None:
            place[inside] = self._groups.table.reshape(-1)[place[inside]]
        place[~inside] = -1
        return place
