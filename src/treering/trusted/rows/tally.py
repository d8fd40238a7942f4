"""PRIVATE: the one way to count: exact integers of disjoint groups over intervals of positions, by one GROUP BY.

Rows lie in *pieces*, one after another: Arrow tables in memory, or Parquet files, which number their rows. A piece
knows its first position, so no position is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from treering.arrays import Ints
from treering.domain.axis import Axis, scalar_of
from treering.domain.groups import Groups
from treering.domain.schema import Schema
from treering.domain.sums import Grid, Sums, valued
from treering.errors import DamagedVault, EngineError
from treering.trusted.rows.lens import MOST_CUTS, Key, half_steps, key_of, quoted, value_of
from treering.trusted.sealed import Sealed

_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "disabled_optimizers": "statistics_propagation",  # Parquet's statistics leave NaN out, and DuckDB trusts them.
    "threads": "2",
}


class Engine(Sealed):
    """A DuckDB of one store. It reads files of ``folder`` only, and what does not fit into memory goes there, too."""

    __slots__ = ("_connection",)

    def __init__(self, folder: Path | None = None) -> None:
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


@dataclass(frozen=True, repr=False, eq=False)
class Piece(Sealed):
    """PRIVATE: rows that came one after another, typed (``rows/typed.py``): the positions ``first`` + 1 on."""

    first: int
    rows: int
    content: pa.Table | Path

    @property
    def last(self) -> int:
        """The position of the last row."""
        return self.first + self.rows


class Statement(Sealed):
    """One SELECT over pieces, with what it names: tables and parameters."""

    __slots__ = ("parameters", "tables")

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}
        self.parameters: list[Any] = []

    def rows(self, pieces: Sequence[Piece], start: int, end: int) -> str:
        """The rows of an interval of positions, each with its position."""
        return " UNION ALL BY NAME ".join(
            f"({self._piece(number, piece, start, end)})"
            for number, piece in enumerate(pieces)
            if piece.first < end and start < piece.last
        )

    def _piece(self, number: int, piece: Piece, start: int, end: int) -> str:
        low, high = max(0, start - piece.first), min(piece.rows, end - piece.first)
        if isinstance(piece.content, Path):
            self.parameters.append(str(piece.content))
            place = f"file_row_number >= {low} AND file_row_number < {high}"
            numbered = f"SELECT *, file_row_number + {piece.first + 1} AS position"
            return f"{numbered} FROM read_parquet(?, file_row_number = true) WHERE {place}"
        table = piece.content.slice(low, high - low)
        positions = pa.array(np.arange(piece.first + low + 1, piece.first + high + 1))
        self.tables[f"piece{number}"] = table.append_column("position", positions)
        return f"SELECT * FROM piece{number}"

    def run(self, engine: Engine, text: str) -> pa.Table:
        """Its result. What DuckDB says may quote a value, so it is neither passed on nor chained."""
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


def tally(
    engine: Engine, pieces: Sequence[Piece], schema: Schema, groups: Groups, edges: Sequence[int], sums: Sums | None
) -> Ints:
    """For each interval between two neighbouring edges, the numbers of the groups that `Sums` says, or counts of rows:
    an array of intervals by numbers. Raises unless it has seen just the rows of these intervals."""
    asked = _Asked(schema, groups, sums)
    found = np.zeros((len(edges) - 1, asked.numbers), dtype=np.int64)
    statement = Statement()
    source = statement.rows(pieces, edges[0], edges[-1])
    if not source:
        return _checked(found, 0, edges)
    leaf, joined = _leaf(statement, edges)
    keys = "".join(f"{key.expression} AS k{place}, " for place, key in enumerate(asked.keys))
    names = ", ".join(["leaf", *(f"k{place}" for place in range(len(asked.keys)))])
    joins = " ".join(asked.join(place, key, statement) for place, key in enumerate(asked.keys))
    inner = f"SELECT {leaf} AS leaf, {keys}{asked.unit} AS u FROM ({source}) AS r {joined} {joins}"
    text = f"SELECT {names}, count(*) AS rows, CAST(sum(u) AS BIGINT) AS total FROM ({inner}) GROUP BY {names}"
    return _checked(found, asked.add(statement.run(engine, text), found), edges)


def _checked(found: Ints, seen: int, edges: Sequence[int]) -> Ints:
    if seen != edges[-1] - edges[0]:
        raise EngineError(f"there are {seen:,} rows where {edges[-1] - edges[0]:,} were taken in: nothing was answered")
    return found


def _leaf(statement: Statement, edges: Sequence[int]) -> tuple[str, str]:
    """The number of the interval that a position lies in, and what that is joined with."""
    if len(edges) <= MOST_CUTS:
        arms = " ".join(f"WHEN position <= {edge} THEN {place}" for place, edge in enumerate(edges[1:-1]))
        return (f"CASE {arms} ELSE {len(edges) - 2} END" if arms else "0"), ""
    starts = pa.array(np.array(edges[:-1], dtype=np.int64))
    statement.tables["leaves"] = pa.table({"start": starts, "leaf": pa.array(np.arange(len(edges) - 1))})
    return "leaves.leaf", "ASOF JOIN leaves ON r.position > leaves.start"


class _Asked(Sealed):
    """The groups, and what is added up, as keys of a statement."""

    __slots__ = ("_axes", "_grid", "_groups", "_schema", "_sums", "keys", "unit")

    def __init__(self, schema: Schema, groups: Groups, sums: Sums | None) -> None:
        self._schema, self._groups, self._sums = schema, groups, sums
        self._axes = [self._axis(*each) for each in zip(groups.attributes, groups.labels, strict=True)]
        self.keys = [key_of(axis, f"listed{place}") for place, axis in enumerate(self._axes)]
        self.unit = "0" if sums is None else self._unit(sums)

    def _axis(self, position: int, labels: Ints) -> Axis:
        """The axis whose classes are the groups' labels, with no more pieces than they tell apart."""
        name = self._schema.names[position]
        axis = Axis.of(name, self._schema.attributes[name]).relabelled(labels)
        return axis if (labels < 0).any() else axis.merged

    def _unit(self, sums: Sums) -> str:
        """u of a row, which is 0 where the attribute does not add its value up."""
        name = self._schema.names[sums.attribute]
        attribute = self._schema.attributes[name]
        grid = Grid.of(attribute)
        assert grid is not None
        scalar = scalar_of(name, attribute)
        unit = half_steps(scalar, grid)
        if valued(attribute)[attribute.regular :].any():
            return unit
        value = value_of(scalar)
        return f"CASE WHEN {value} BETWEEN {int(grid.low)} AND {int(grid.high)} THEN {unit} ELSE 0 END"

    @property
    def numbers(self) -> int:
        """How many numbers there are about an interval."""
        return self._groups.number if self._sums is None else self._sums.numbers(self._groups.number)

    def join(self, place: int, key: Key, statement: Statement) -> str:
        """The join with the listed values of an axis."""
        if key.listed is None:
            return ""
        alias = f"listed{place}"
        statement.tables[alias] = key.listed
        return f"LEFT JOIN {quoted(alias)} ON {quoted(alias)}.value = {value_of(self._axes[place].scalar)}"

    def _place(self, lines: pa.Table) -> Ints:
        """The group of each line; −1 for one in no group."""
        place, inside = np.zeros(lines.num_rows, dtype=np.int64), np.ones(lines.num_rows, dtype=np.bool_)
        for number, (key, size) in enumerate(zip(self.keys, self._groups.shape, strict=True)):
            label = key.classify(lines.column(f"k{number}").combine_chunks())
            place, inside = place * size + label, inside & (label >= 0)
        if self._groups.table is not None:
            place[inside] = self._groups.table.reshape(-1)[place[inside]]
        place[~inside] = -1
        return place

    def add(self, lines: pa.Table, found: Ints) -> int:
        """Add the lines of a result to the numbers; returns how many rows they are about."""
        rows = np.asarray(lines.column("rows"), dtype=np.int64)
        place = self._place(lines)
        inside = place >= 0
        leaf = np.asarray(lines.column("leaf"), dtype=np.int64)[inside]
        if self._sums is None:
            np.add.at(found, (leaf, place[inside]), rows[inside])
            return int(rows.sum())
        totals = np.asarray(lines.column("total"), dtype=np.int64)[inside]
        behind = self._groups.number if self._sums.counts else 0
        if self._sums.counts:
            np.add.at(found, (leaf, place[inside]), self._sums.reach * rows[inside])
        np.add.at(found, (leaf, place[inside] + behind), totals)
        return int(rows.sum())
