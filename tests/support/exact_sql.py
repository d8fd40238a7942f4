"""SQL answered without noise, beside DuckDB on the same rows: what a statement means, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from treering.answer import Answer
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.sql.answer import answer, draws_for, split


class Rows:
    """Public rows, as cells of a schema and as a table of DuckDB."""

    def __init__(self, schema: Schema, table: pa.Table) -> None:
        self.schema, self.table = schema, table
        self._codes = [
            np.array([schema.attributes[name].code(value) for value in table[source].to_pylist()])
            for name, source in zip(schema.names, schema.sources, strict=True)
        ]

    def count(self, query: Query) -> float:
        """The weights of all rows together."""
        if query.constant:
            return float(query.weights()) / query.scale * self.table.num_rows
        codes = [self._codes[position] for position in query.attributes]
        places = np.ravel_multi_index(codes, query.shape)
        return float(query.weights().ravel()[places].sum()) / query.scale

    def ask(self, queries: Sequence[Query]) -> list[Answer]:
        """Exact answers."""
        size = self.table.num_rows
        return [Answer(self.count(query) / size, 0.0, size, "measured", 0.0) for query in queries]

    def sql(self, text: str) -> pa.Table:
        """The result of a statement from exact answers."""
        statement = split(text, self.schema)
        noise = np.zeros((draws_for(statement), len(statement.queries)))
        return answer(statement, self.ask(statement.queries), noise)

    def duckdb(self, text: str, name: str = "flights") -> pa.Table:
        """DuckDB's own result on the rows."""
        with duckdb.connect(":memory:") as connection:
            connection.register(name, self.table)
            return connection.sql(text).to_arrow_table()


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
