"""What one refresh takes in from a table in an engine, and the watermark that it leaves.

A table grows at one end: its order column is a unique integer, and new rows have larger values than all before. The
watermark is how far the rows were taken in, and how many there were: an engine is asked for the rows past it, and a
table with another number of rows at or below it has changed where it may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from treering.arrays import Ints
from treering.domain.attribute import Attribute
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError
from treering.trusted.sealed import Sealed


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a table has been taken in. All of it is public, as the order column and the number of rows are."""

    value: int | None
    """The largest order value taken in; None as long as the table was empty."""
    rows: int
    """How many rows the table has at or below it, those left out included."""
    dropped: int
    """How many of them did not fit the schema and were left out."""
    columns: tuple[tuple[str, str], ...]
    """Name and type of each column that is read: a column that changes its type is refused."""

    def to_dict(self) -> dict[str, Any]:
        """A plain form for JSON; `from_dict` reads it back."""
        return {**asdict(self), "columns": [list(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Watermark:
        """Read what `to_dict` wrote; anything else is an `EngineError`."""
        try:
            columns = tuple((str(name), str(kind)) for name, kind in plain["columns"])
            value = None if plain["value"] is None else int(plain["value"])
            mark = cls(value=value, rows=int(plain["rows"]), dropped=int(plain["dropped"]), columns=columns)
        except (KeyError, TypeError, ValueError):
            raise EngineError("not a watermark: it has value, rows, dropped and columns") from None
        if not 0 <= mark.dropped <= mark.rows or (mark.value is None) != (mark.rows == 0):
            raise EngineError("not a watermark: its numbers contradict each other")
        return mark


class Increment(Sealed):
    """PRIVATE: the rows past a watermark as counts of cells; ``rows``, ``dropped`` and ``watermark`` are public."""

    __slots__ = ("cells", "counts", "dropped", "rows", "watermark")

    def __init__(self, cells: Ints, counts: Ints, watermark: Watermark, dropped: int) -> None:
        self.cells = cells
        """The occupied cells, in order."""
        self.counts = counts
        """How many rows came to each of them."""
        self.rows = int(counts.sum())
        """How many rows came."""
        self.dropped = dropped
        """How many rows did not fit and were left out."""
        self.watermark = watermark
        """How far the table is taken in with these rows."""


@dataclass(frozen=True, repr=False, eq=False)
class Reading(Sealed):
    """PRIVATE: what one statement found in a table, one snapshot of it."""

    cells: Ints
    """Cell numbers; -1 minus a column's position for the rows that do not fit there."""
    counts: Ints
    below: tuple[int, int] | None
    """The largest order value at or below the watermark and the number of such rows; None if there was no watermark."""
    first: int
    """The smallest order value past the watermark, or a lower bound of it."""
    last: int
    """The largest."""
    past: int
    """The number of rows past the watermark."""
    unplaced: int
    """The number of rows whose order value is null."""


def check_place(reading: Reading, after: Watermark | None, order: str) -> None:
    """Refuse a table that did not only grow at its end."""
    if reading.unplaced:
        raise EngineError(f"{reading.unplaced:,} rows have no value in the order column {order!r}: give them one")
    if reading.past != int(reading.counts.sum()):
        raise EngineError("the table changed while it was read, and nothing was taken in: try again")
    if reading.past and reading.past > reading.last - reading.first + 1:
        raise repeated(order)
    if after is None or after.value is None or reading.below is None:
        return
    top, rows = reading.below
    if rows != after.rows:
        change = f"lost {after.rows - rows:,}" if rows < after.rows else f"gained {rows - after.rows:,}"
        raise EngineError(
            f"the table has {change} of the {after.rows:,} rows up to {order} = {after.value} that were taken in, and "
            "nothing more was: rows may only be added, past the largest order value so far (a transaction that "
            "committed late must give its rows new order values)"
        )
    if top != after.value:
        raise EngineError(f"the row with {order} = {after.value}, the last that was taken in, is gone from the table")


def repeated(order: str) -> EngineError:
    """The order column is not unique."""
    return EngineError(f"the order column {order!r} repeats values: it must be unique, such as an identity column")


def make_increment(
    reading: Reading, after: Watermark | None, schema: Schema, columns: tuple[tuple[str, str], ...], *, drop: bool
) -> Increment:
    """The increment that a checked reading gives; rows that do not fit are refused, or left out and counted."""
    unfit = reading.cells < 0
    dropped = int(reading.counts[unfit].sum())
    if dropped and not drop:
        raise _refusal(reading.cells[unfit], reading.counts[unfit], schema)
    order = np.argsort(reading.cells[~unfit], kind="stable")
    before = after or Watermark(value=None, rows=0, dropped=0, columns=columns)
    return Increment(
        cells=reading.cells[~unfit][order],
        counts=reading.counts[~unfit][order],
        dropped=dropped,
        watermark=Watermark(
            value=reading.last if reading.past else before.value,
            rows=before.rows + reading.past,
            dropped=before.dropped + dropped,
            columns=columns,
        ),
    )


def _refusal(cells: Ints, counts: Ints, schema: Schema) -> DataError:
    """Says which columns and how many rows, never what is in them."""
    found = sorted(zip((-1 - cells).tolist(), counts.tolist(), strict=True))
    problems = [
        f"column {name!r}: {count:,} rows with a value that is not among {attribute.describe()}{_hint(attribute)}"
        for place, count in found
        for name, attribute in [list(schema.attributes.items())[place]]
    ]
    return DataError(
        f"{'; '.join(problems)}; nothing was taken in (a row counts for its first such column)",
        column=schema.names[found[0][0]],
    )


def _hint(attribute: Attribute) -> str:
    absent = [f"{flag}=True" for flag, on in (("other", attribute.other), ("missing", attribute.missing)) if not on]
    return f" (values outside and nulls need {' and '.join(absent)} in the schema)" if absent else ""
