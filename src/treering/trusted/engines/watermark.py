"""How far a table in an engine has been taken in, and what a refresh adds: all of it public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from treering.domain.schema import Schema
from treering.errors import DataError, EngineError
from treering.trusted.rows.frames import hint
from treering.words import counted

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names and types of columns."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a table has been taken in: public, as the order column and the number of rows are."""

    value: int | None
    """The largest order value taken in; None if the table was empty."""
    rows: int
    """How many rows the table has at or below ``value``, those left out included."""
    dropped: int
    """How many of them did not fit the schema and were left out."""
    columns: Columns
    """Name and type of each column that is read: a table whose types change is refused."""

    def to_dict(self) -> dict[str, Any]:
        """The watermark as JSON values; `from_dict` reads them."""
        return {**asdict(self), "columns": [list(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Watermark:
        """The watermark that `to_dict` wrote; raises `EngineError` for anything else."""
        try:
            columns = tuple((str(name), str(kind)) for name, kind in plain["columns"])
            value = None if plain["value"] is None else int(plain["value"])
            mark = cls(value=value, rows=int(plain["rows"]), dropped=int(plain["dropped"]), columns=columns)
        except (KeyError, TypeError, ValueError):
            raise EngineError("not a watermark: it has value, rows, dropped and columns") from None
        if not 0 <= mark.dropped <= mark.rows or (mark.value is None) != (mark.rows == 0):
            raise EngineError("not a watermark: its numbers contradict each other")
        return mark


class Counts(NamedTuple):
    """What a refresh finds, in one snapshot of the table: all of it public."""

    unplaced: int
    """The rows whose order value is null."""
    below: int
    """The rows at or below the watermark."""
    top: int | None
    """The largest order value among them."""
    past: int
    """The rows past the watermark."""
    first: int
    """The smallest order value past the watermark; 0 if there are no such rows."""
    last: int
    """The largest."""
    unfit: Mapping[str, int]
    """The rows past the watermark that do not fit, by the first attribute that they do not fit."""

    def check(self, after: Watermark | None, order: str) -> None:
        """Raise `EngineError` for a table that did not only grow at its end."""
        if self.unplaced:
            unplaced = counted(self.unplaced, "row")
            raise EngineError(f"{unplaced} without a value in the order column {order!r}: give each of them one")
        if self.past and self.past > self.last - self.first + 1:
            raise repeated(order)
        if after is None or after.value is None:
            return
        if self.below != after.rows:
            lost = after.rows - self.below
            change = f"lost {lost:,}" if lost > 0 else f"gained {-lost:,}"
            raise EngineError(
                f"the table has {change} of the {counted(after.rows, 'row')} up to {order} = {after.value} that were "
                "taken in, and nothing more was: rows may only be added, past the largest order value so far (a "
                "transaction that committed late must give its rows new order values)"
            )
        if self.top != after.value:
            raise EngineError(
                f"the row with {order} = {after.value}, the last that was taken in, is gone from the table"
            )

    def refusal(self, schema: Schema) -> DataError:
        """The error for rows that do not fit: names columns and numbers of rows, never values."""
        found = {name: rows for name, rows in self.unfit.items() if rows}
        problems = [
            f"column {name!r}: {counted(rows, 'row')} with a value that is not among {attribute.describe()}"
            f"{hint(attribute)}"
            for name, rows in found.items()
            for attribute in [schema.attributes[name]]
        ]
        return DataError(
            f"{'; '.join(problems)}; nothing was taken in (a row counts for its first such column)",
            column=next(iter(found)),
        )


def repeated(order: str) -> EngineError:
    """The error for an order column that is not unique."""
    return EngineError(f"the order column {order!r} repeats values: it must be unique, such as an identity column")


@dataclass(frozen=True, slots=True)
class Increment:
    """The rows past a watermark."""

    rows: int
    """How many rows came."""
    dropped: int
    """How many rows did not fit and were left out."""
    watermark: Watermark
    """How far the table is taken in with these rows."""

    @classmethod
    def past(cls, after: Watermark | None, counts: Counts, columns: Columns) -> Increment:
        """The rows that a refresh has counted; those that do not fit are left out."""
        before = after or Watermark(value=None, rows=0, dropped=0, columns=columns)
        value, dropped = counts.last if counts.past else before.value, sum(counts.unfit.values())
        mark = Watermark(value, before.rows + counts.past, before.dropped + dropped, columns)
        return cls(counts.past - dropped, dropped, mark)
