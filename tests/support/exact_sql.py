"""SQL answered without noise, beside DuckDB on the same rows: what a statement means, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from treering.answer import Estimate
from treering.arrays import Ints
from treering.domain.attribute import Attribute
from treering.domain.calendar import DatePart
from treering.domain.language.items import Item
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Grid
from treering.mechanisms.series.estimates import bounds
from treering.sql.answer import answer, draws_for, split


class Rows:
    """Public rows, as cells of a schema and as a table of DuckDB."""

    def __init__(self, schema: Schema, table: pa.Table) -> None:
        self.schema, self.table = schema, table
        self._known: dict[tuple[str, Attribute], Ints] = {}

    def _codes(self, query: Query) -> list[Ints]:
        """The codes of the rows, of each attribute that a query names, as its lens has them."""
        return [self._of(query.schema.names[each], query.schema, each) for each in query.attributes]

    def _of(self, name: str, lens: Schema, position: int) -> Ints:
        key = name, lens.attributes[name]
        if key not in self._known:
            values = self.table[lens.sources[position]].to_pylist()
            self._known[key] = np.array([_code(key[1], value) for value in values])
        return self._known[key]

    def count(self, query: Query) -> float:
        """The weights of all rows together."""
        if query.constant:
            return float(query.weights()) / query.scale * float(self.table.num_rows)
        places = np.ravel_multi_index(self._codes(query), query.shape)
        return float(query.weights().ravel()[places].sum()) / query.scale

    def tell(self, item: Item) -> Estimate:
        """What an item is, exactly."""
        if item.kind in ("quantile", "mean"):
            return self._in_bins(item)
        value = self._total(item) if item.kind == "sum" else self.count(item.query)
        return Estimate(round(value) if item.kind == "count" and item.query.counting else value, value, value, 0.0)

    def _in_bins(self, item: Item) -> Estimate:
        """What the bins tell of a quantile, or of a mean, if their counts are known exactly."""
        lens = item.query.schema
        limits = np.array(bounds(lens.attributes[lens.names[item.position]]))
        counts = np.array([self.count(query) for query in item.cells()])
        if counts.sum() == 0:
            return Estimate(None, *limits[[0, -1], [0, 1]].tolist())
        if item.kind == "mean":
            low, high = (limits.T @ counts / counts.sum()).tolist()
        else:
            place = int(np.searchsorted(np.cumsum(counts), item.level * counts.sum()))
            low, high = limits[place].tolist()
        return Estimate((low + high) / 2, low, high)

    def _total(self, item: Item) -> float:
        """The sum of a column's values over the rows of an item, from −1 for its lower end to 1 for its upper one."""
        grid = Grid.of(self.schema.attributes[self.schema.names[item.position]])
        assert grid is not None
        values = self.table[self.schema.sources[item.position]].to_pylist()
        half = (grid.high - grid.low) / 2
        clipped = [min(max(value or 0.0, grid.low), grid.high) for value in values]
        return sum(
            (each - float(grid.middle)) / half
            for each, kept in zip(clipped, self._matching(item.query), strict=True)
            if kept
        )

    def _matching(self, query: Query) -> list[bool]:
        if query.constant:
            return [bool(query.weights())] * self.table.num_rows
        places = np.ravel_multi_index(self._codes(query), query.shape)
        return [bool(each) for each in query.weights().ravel()[places]]

    def sql(self, text: str) -> pa.Table:
        """The result of a statement from exact numbers."""
        statement = split(text, self.schema)
        noise = np.zeros((draws_for(statement), len(statement.items)))
        return answer(statement, [self.tell(item) for item in statement.items], noise, self.table.num_rows)

    def duckdb(self, text: str, name: str = "flights") -> pa.Table:
        """DuckDB's own result on the rows."""
        with duckdb.connect(":memory:") as connection:
            connection.register(name, self.table)
            return connection.sql(text).to_arrow_table()


def _code(attribute: Attribute, value: Any) -> int:
    """The code of a row's value: a part of a date is taken from its date."""
    return attribute.code(attribute.part_of(value) if isinstance(attribute, DatePart) else value)


def numbers_of(table: pa.Table) -> pa.Table:
    """A result without its margins."""
    names = table.column_names
    kept = [place for place, name in enumerate(names) if not (place and name == f"{names[place - 1]}_margin")]
    return table.select(kept)


def rows_of(table: pa.Table, *, ordered: bool) -> list[tuple[Any, ...]]:
    """The rows of a result, floats rounded, in the order given or sorted."""
    listed = [tuple(map(_rounded, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return listed if ordered else sorted(listed, key=lambda row: [(value is None, str(value)) for value in row])


def _rounded(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if hasattr(value, "date") and callable(value.date):
        return value.date()
    return value if hasattr(value, "year") else float(f"{float(value):.9g}")


def as_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Columns as an Arrow table."""
    return pa.table({name: pa.array(list(values)) for name, values in columns.items()})
