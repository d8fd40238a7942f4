"""A draft of a schema, from a public sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from treering.domain.attribute import Attribute
    from treering.domain.schema import Schema

WARNING: Final = (
    "A schema is public. Draw it up from general knowledge or from a sample that anyone may see, never from the "
    "private rows: the values that it lists, and the ends of its ranges, would tell on them. No epsilon covers that."
)

_MOST_CATEGORIES: Final = 50
_MOST_INTEGERS: Final = 64
_BINS: Final = 8


@dataclass(frozen=True)
class Draft:
    """What a sample suggests."""

    schema: Schema
    left_out: dict[str, str]
    """The columns that make no attribute, and why."""


def infer(table: Any) -> Draft:
    """An attribute for every column that has one: short lists, small ranges, and bins for other numbers.

    Every attribute has a cell for values that the sample does not show, and one for missing values if some are missing.
    """
    from treering.domain.schema import Schema
    from treering.errors import SchemaError

    attributes: dict[str, Attribute] = {}
    left_out: dict[str, str] = {}
    for name in table.column_names:
        found = _attribute(table.column(name))
        if isinstance(found, str):
            left_out[name] = found
        else:
            attributes[name] = found
    if not attributes:
        raise SchemaError("no column of the sample makes an attribute: write the schema by hand")
    return Draft(Schema(attributes), left_out)


def _attribute(column: Any) -> Attribute | str:
    """The attribute that a column suggests, or why it suggests none."""
    import pyarrow as pa

    from treering.domain.attribute import categories

    missing = column.null_count > 0
    kind = column.type
    if pa.types.is_boolean(kind):
        return categories(False, True, missing=missing)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _number(column, missing)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        values = sorted({value for value in column.to_pylist() if value is not None})
        if not values:
            return "it has no values"
        if len(values) > _MOST_CATEGORIES:
            return f"it has {len(values):,} different texts; at most {_MOST_CATEGORIES} are listed"
        return categories(*values, other=True, missing=missing)
    return f"its type is {kind}"


def _number(column: Any, missing: bool) -> Attribute | str:
    import pyarrow as pa

    from treering.domain.attribute import bins, integers

    values = sorted(value for value in column.to_pylist() if value is not None and math.isfinite(value))
    if not values:
        return "it has no values"
    low, high = values[0], values[-1]
    if pa.types.is_integer(column.type) and high - low < _MOST_INTEGERS:
        return integers(int(low), int(high), other=True, missing=missing)
    if low == high or max(abs(low), abs(high)) >= 2**53:
        return "its values make no bins"
    step = _round(high - low)
    first, last = math.floor(low / step), math.floor(high / step) + 1
    return bins([round(place * step, 12) for place in range(first, last + 1)], other=True, missing=missing)


def _round(span: float) -> float:
    """1, 2 or 5 times a power of ten: about so many of them make the span."""
    power = 10.0 ** math.floor(math.log10(span / _BINS))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= _BINS)
