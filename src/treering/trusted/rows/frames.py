"""Frames of rows as they are handed over: which objects are rows, and which columns they must have.

A bad row is reported by position and column, never by its content; an exception of a library that quotes a value is
neither passed on nor chained.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from treering.domain.attribute import Attribute
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.rowfile import RowFile
from treering.trusted import registry

NEEDS_ZONE: Final = (
    ": the schema has to say in which time zone they are dated, by tz='America/New_York' or tz='UTC', for example, in "
    "dates()"
)
"""The end of a message about instants that have no date, because the schema names no time zone."""

NO_HEADER: Final = "if a file has no header, its first row was taken for the names of columns"
"""Why columns may be missing. Then the names of the columns found are values of a row: no message shows them."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a block lie in a frame or a file, for messages."""

    before: int = 0
    """How many rows come before the block."""
    file: RowFile | None = None
    schema: Schema | None = None
    """The schema by which the file is read."""

    def row(self, row: int) -> int:
        """The number of a row, given by its number in the block."""
        return self.before + row

    def shown(self, row: int) -> str:
        """The place of a row in words: its line in a file of texts."""
        place = f"row {self.row(row)}"
        if self.file is None or self.schema is None:
            return place
        if self.file.separated:
            place = f"line {registry.part('line_of')(self.file, self.schema, self.row(row))}"
        return f"{self.file.path}, {place}"


def comes_as_dicts(frame: Any) -> bool:
    """Whether rows are given as a sequence of dicts."""
    return isinstance(frame, Sequence) and not isinstance(frame, str | bytes)


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


def hint(attribute: Attribute) -> str:
    """What the schema lacks for values that do not fit, for the end of a message."""
    absent = [f"{flag}=True" for flag, on in (("other", attribute.other), ("missing", attribute.missing)) if not on]
    return f" (values outside and nulls need {' and '.join(absent)} in the schema)" if absent else ""


def shown(names: Collection[str], schema: Schema) -> str:
    """Names of columns for a message: those of the schema, which are public, as they are; of others, how many."""
    known = [repr(name) for name in names if name in schema.columns]
    unknown = len(names) - len(known)
    number = f"{unknown:,} column{'s' if unknown > 1 else ''} that the schema does not name"
    return ", ".join([*known, number] if unknown else known)


def check_columns(given: Collection[str], schema: Schema, row: int | None = None) -> None:
    """Refuse rows, or one row, without one of the schema's columns, or with one of them twice. Further columns are left
    out: a table often has more of them than anyone will ask about."""
    absent = [name for name in schema.columns if name not in given]
    extra = [name for name in given if name not in schema.columns]
    twice = any(list(given).count(name) > 1 for name in schema.columns)
    if absent or twice:
        problems = [
            f"{label}: {shown(names, schema)}" for label, names in (("missing", absent), ("extra", extra)) if names
        ]
        raise DataError(
            f"{'' if row is None else f'row {row}: '}the columns must be {', '.join(schema.columns)}; "
            f"{'; '.join(problems) or 'one is there twice'}{f' ({NO_HEADER})' if absent and row is None else ''}",
            row=row,
            column=next(iter(absent), None),
        )
