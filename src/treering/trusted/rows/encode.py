"""Rows → cells. Whatever speaks Arrow (pandas, polars, DuckDB) goes in vectors, a list of dicts row by row.

A bad row is reported by position and column, never by its content; an exception of a library that quotes a value is
neither passed on nor chained.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from treering.arrays import Flags, Ints
from treering.domain.attribute import Attribute
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.trusted.columns import accepts, check_type, encode_column

Faults: TypeAlias = Iterator[tuple[int, str]]

BLOCK_ROWS: Final = 2**18
"""Rows are encoded in blocks: small enough for a core's cache, large enough that calls cost nothing."""

INVALID: Final = -1
"""The cell, or code, of what does not fit."""


def encode(frame: Any, schema: Schema, *, drop: bool) -> tuple[Ints, int]:
    """The cell of every row, and how many rows were left out because they do not fit (only with ``drop``)."""
    cells = encode_all(frame, schema, drop=drop)
    fits = cells != INVALID
    return (cells, 0) if fits.all() else (cells[fits], int((~fits).sum()))


def encode_all(frame: Any, schema: Schema, *, drop: bool) -> Ints:
    """The cell of every row; `INVALID` for a row that does not fit (only with ``drop``: else it is an error)."""
    cells, bad, faults = (
        _encode_dicts(frame, schema) if comes_as_dicts(frame) else _encode_table(as_table(frame), schema)
    )
    if bad and not drop:
        row, column = next(faults)
        raise DataError(
            f"row {row}, column {column!r}: the value is not among {schema.attributes[column].describe()}"
            f"{_hint(schema.attributes[column])}; nothing of the batch was taken",
            row=row,
            column=column,
        )
    return cells


def comes_as_dicts(frame: Any) -> bool:
    """Whether rows are given one by one."""
    return isinstance(frame, Sequence) and not isinstance(frame, str | bytes)


def _hint(attribute: Attribute) -> str:
    absent = [f"{flag}=True" for flag, on in (("other", attribute.other), ("missing", attribute.missing)) if not on]
    return f" (values outside and nulls need {' and '.join(absent)} in the schema)" if absent else ""


def _check_columns(given: Collection[str], schema: Schema, row: int | None = None) -> None:
    absent = [name for name in schema.names if name not in given]
    extra = [name for name in given if name not in schema.attributes]
    twice = len(set(given)) < len(given)
    if absent or extra or twice:
        place = "" if row is None else f"row {row}: "
        problems = [
            f"{label}: {', '.join(map(repr, names))}"
            for label, names in (("missing", absent), ("extra", extra))
            if names
        ]
        raise DataError(
            f"{place}the columns must be {', '.join(schema.names)}; {'; '.join(problems) or 'one is there twice'}",
            row=row,
            column=next(iter([*absent, *extra]), None),
        )


# -- Arrow ------------------------------------------------------------------------------------------------------------


def as_table(frame: Any) -> pa.Table:
    """Any object that speaks Arrow, as an Arrow table."""
    try:
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatch):
            return pa.Table.from_batches([frame])
        if type(frame).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
        problem = (
            f"rows come as an Arrow table, a pandas or polars frame or a list of dicts, not as {type(frame).__name__}"
        )
    except Exception:  # whatever the library raises may quote a value, so it is replaced, outside this block
        problem = "the rows cannot be read as columns of one type each: does a column mix types?"
    raise DataError(problem)


def _encode_table(table: pa.Table, schema: Schema) -> tuple[Ints, int, Faults]:
    """The cells, `INVALID` where a row does not fit, the number of such rows, and what is wrong with them, lazily."""
    _check_columns(table.column_names, schema)
    table = table.select(list(schema.names))
    for name, attribute in schema.attributes.items():
        check_type(name, attribute, table.schema.field(name).type)
    cells = np.empty(table.num_rows, dtype=np.int64)
    batches = table.to_batches(max_chunksize=BLOCK_ROWS)
    ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)

    def work(index: int) -> int:
        batch = batches[index]
        return _encode_block(batch, schema, cells[ends[index] - batch.num_rows : ends[index]])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = sum(pool.map(work, range(len(batches))) if len(batches) > 1 else map(work, range(len(batches))))
    return cells, bad, _table_faults(table, schema, cells)


def _encode_block(batch: pa.RecordBatch, schema: Schema, cells: Ints) -> int:
    """Write one block's cells in place; the number of rows that do not fit."""
    invalid: Flags | None = None
    for position, (column, attribute) in enumerate(zip(batch.columns, schema.attributes.values(), strict=True)):
        codes, bad = encode_column(attribute, column)
        if position == 0:
            cells[:] = codes
        else:
            cells *= attribute.size
            cells += codes
        if bad is not None:
            invalid = bad if invalid is None else invalid | bad
    if invalid is None:
        return 0
    cells[invalid] = INVALID
    return int(invalid.sum())


def _table_faults(table: pa.Table, schema: Schema, cells: Ints) -> Faults:
    for row in np.flatnonzero(cells == INVALID).tolist():
        for name, attribute in schema.attributes.items():
            _, bad = encode_column(attribute, table.column(name).slice(row, 1).combine_chunks())
            if bad is not None and bad[0]:
                yield row, name


# -- lists of dicts ---------------------------------------------------------------------------------------------------


def _encode_dicts(rows: Sequence[Any], schema: Schema) -> tuple[Ints, int, Faults]:
    cells = np.zeros(len(rows), dtype=np.int64)
    faults: list[tuple[int, str]] = []
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"row {position} is a {type(row).__name__}; each row is a dict", row=position)
        if row.keys() != schema.attributes.keys():
            _check_columns([str(name) for name in row], schema, position)
    for name, attribute in schema.attributes.items():
        codes = np.array([_code(attribute, row[name]) for row in rows], dtype=np.int64)
        bad = codes == INVALID
        faults += [(row, name) for row in np.flatnonzero(bad).tolist()]
        cells = np.where(bad | (cells == INVALID), INVALID, cells * attribute.size + codes)
    return cells, int((cells == INVALID).sum()), iter(sorted(faults, key=lambda fault: fault[0]))


def _code(attribute: Attribute, value: Any) -> int:
    plain = value.item() if isinstance(value, np.generic) else value
    if not accepts(attribute, plain):
        return INVALID
    if plain is None or plain != plain:
        code = attribute.missing_code
    else:
        code = attribute.regular_code(plain)
        code = attribute.other_code if code is None else code
    return INVALID if code is None else code
