"""Released tables as they are published: each number with its margin, low and high, and a table of notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from treering.errors import ParameterError, QueryError
from treering.shown import MARGIN, holding, notes

NOTES: Final = "treering_notes"
"""The table that says what the others are. It lists the tables that a refresh may replace: no other is touched."""
LOW: Final = "_low"
HIGH: Final = "_high"
LONGEST: Final = 63
"""The longest name, in bytes: PostgreSQL cuts what is longer."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(names: Sequence[str]) -> None:
    """Refuse names of tables that some database would take for others."""
    if not names:
        raise ParameterError("statements", "must name a table at least: {'by_ward': 'SELECT ward, COUNT(*) …'}")
    for name in names:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None or len(name) > LONGEST:
            raise ParameterError("statements", f"must have names of at most {LONGEST} letters, digits and _: {name!r}")
    lower = [name.lower() for name in names]
    if len(set(lower)) < len(lower) or NOTES in lower:
        raise ParameterError("statements", f"must have names that differ, also from {NOTES}")


def check_columns(name: str, columns: Sequence[str]) -> None:
    """Refuse columns whose names a database would confuse, also with those of margins, lows and highs."""
    taken: set[str] = set()
    for column in columns:
        own = {f"{column.lower()}{end}" for end in ("", MARGIN, LOW, HIGH)}
        if taken & own or len(f"{column}{MARGIN}".encode()) > LONGEST or not column or "\0" in column:
            raise QueryError(f"the table {name} needs other names for its columns: write {column[:40]!r} AS something")
        taken |= own


def published(table: pa.Table) -> pa.Table:
    """A released table with a column for the low and the high end of each number that has a margin.

    >>> published(pa.table({"a": ["x"], "n": [5], "n_margin": [2.5]})).to_pydict()
    {'a': ['x'], 'n': [5], 'n_margin': [2.5], 'n_low': [2.5], 'n_high': [7.5]}
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for place, name in enumerate(table.column_names):
        columns[name] = table.column(place)
        number = table.column_names[place - 1] if place else None
        if number is not None and name == number + MARGIN:
            value, margin = (table.column(each).cast(pa.float64()) for each in (place - 1, place))
            columns[number + LOW], columns[number + HIGH] = pc.subtract(value, margin), pc.add(value, margin)
    return pa.table(columns)


def noted(tables: Mapping[str, pa.Table], statements: Mapping[str, str], promise: str, size: int) -> pa.Table:
    """The table of notes: for each table its statement, the promise, how many rows it is about, as of when, and what a
    reader should know."""
    moment = datetime.now(UTC).replace(tzinfo=None)
    said = [" ".join([f"± for {holding(table)}, with 95%.", *notes(table)]) for table in tables.values()]
    columns = {
        "table_name": pa.array(list(tables), pa.string()),
        "statement": pa.array([statements[name] for name in tables], pa.string()),
        "promise": pa.array([promise] * len(tables), pa.string()),
        "rows": pa.array([size] * len(tables), pa.int64()),
        "as_of": pa.array([moment] * len(tables), pa.timestamp("us")),
        "notes": pa.array(said, pa.string()),
    }
    return pa.table(columns)
