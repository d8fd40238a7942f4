"""What a statement answers: rows of labels and of numbers with their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from treering.domain.attribute import OTHER, Attribute, Bins, plain_number

Label: TypeAlias = str | int | bool | None
"""A group: a category, an integer, a bin as text, None for the missing cell."""

OTHER_LABEL = "(other)"
"""The label of the cell of values not listed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, how far it may be off, and the interval that the truth lies in.

    Formal guarantee: but with the mechanism's beta, for all of its answers together, the truth lies between ``low`` and
    ``high``, which are within ``error`` of the value. Without a value nothing is known but that.
    """

    value: float | None
    error: float | None
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """The plain form."""
        return {"value": self.value, "error": self.error, "low": self.low, "high": self.high}


Entry: TypeAlias = Label | Estimate


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The answer to a statement."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    size: int
    """The size of the database that it speaks about."""
    notes: tuple[str, ...]
    """What a reader has to know, in plain words."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON: labels as they are, an estimate as value, error, low and high."""
        return {
            "columns": list(self.columns),
            "rows": [[each.to_dict() if isinstance(each, Estimate) else each for each in row] for row in self.rows],
            "size": self.size,
            "notes": list(self.notes),
        }


def label(attribute: Attribute, code: int) -> Label:
    """What a group is called.

    >>> from treering.domain.attribute import bins
    >>> [label(bins([0, 15, 60], missing=True), code) for code in range(3)]
    ['[0, 15)', '[15, 60]', None]
    """
    if isinstance(attribute, Bins) and code < attribute.regular:
        low, high = (plain_number(edge) for edge in attribute.edges[code : code + 2])
        return f"[{low}, {high}{']' if code + 1 == attribute.regular else ')'}"
    value = attribute.value(code)
    if value is OTHER:
        return OTHER_LABEL
    assert value is None or isinstance(value, str | int | bool)
    return value
