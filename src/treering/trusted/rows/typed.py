"""PRIVATE: rows as a store keeps them: a typed column for each scalar that the schema's attributes are about.

| kind | Arrow type | what comes |
|---|---|---|
| text | string | texts |
| boolean | bool | booleans; true, t, 1, false, f and 0 as texts |
| code | int64 | integers in any type, or as texts |
| integer | int64 | whole numbers in any type, or as texts; beyond 64 bits, the nearest |
| number | double | numbers, decimals and texts of numbers, as the nearest doubles |
| moment | timestamp, in microseconds | dates, timestamps, and texts in ISO 8601 |

What is none of these, NaN, and a code beyond 64 bits become null: they are missing.

Types follow the attribute, never the first batch, so every part of a store has the same. A moment is kept as the clocks
of the attribute's zone show it: an instant is dated here, once, by the time zone database of this process, and not
again by every engine. Days outside the years 1 to 9999 are kept as the first moment before them, or after them.

A value is never refused here for what it says; a column is, for a type that cannot hold the attribute's values. No
message shows a value.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Flags, Ints
from treering.domain.axis import Scalar, scalar_of
from treering.domain.schema import Schema
from treering.errors import DataError
from treering.trusted.rows.frames import NEEDS_ZONE
from treering.trusted.rows.moments import DAY, EPOCH, FIRST, LAST, is_dated, is_text, local_seconds

TYPES: Final[dict[str, pa.DataType]] = {
    "text": pa.string(),
    "boolean": pa.bool_(),
    "code": pa.int64(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "moment": pa.timestamp("us"),
}
"""The type of a stored column, by the kind of its scalar."""

_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
NUMBER: Final = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(inf|infinity|nan)$"
"""A text that is a number, in small letters."""
NOT_A_NUMBER: Final = "^[+-]?nan$"
"""One of these that is missing."""
_SHORT: Final = "^[-]?[0-9]{1,18}$"
_WHOLE: Final = "^[-]?[0-9]{1,19}$"
_PLUS: Final = "^[+]0*([0-9])|^([-]?)0+([0-9])"
"""A plus, and leading zeros: Arrow reads neither."""
_MICROSECOND: Final = 10**6
_LOW, _HIGH = (FIRST - EPOCH) * DAY, (LAST + 1 - EPOCH) * DAY
EARLY: Final = (_LOW - 1) * _MICROSECOND
LATE: Final = _HIGH * _MICROSECOND
"""The moments that stand for all before the year 1, and for all after the year 9999."""


@lru_cache(maxsize=64)
def stored(schema: Schema) -> tuple[Scalar, ...]:
    """The scalars that are kept: of parts of dates, the moment that they are parts of. In the schema's order."""
    scalars = (scalar_of(name, attribute) for name, attribute in schema.attributes.items())
    return tuple(dict.fromkeys(kept(each) for each in scalars))


def kept(scalar: Scalar) -> Scalar:
    """The scalar that is kept of this one."""
    return scalar if scalar.part is None else Scalar(scalar.column, "moment", scalar.zone)


def field_of(scalar: Scalar) -> str:
    """The name of a kept scalar's column: one column of the rows may be kept in several types."""
    return f"{scalar.column}:{scalar.kind}{'' if scalar.zone is None else f'@{scalar.zone}'}"


def typed(table: pa.Table, schema: Schema, *, texts: bool = False) -> pa.Table:
    """The rows of a table in the types that are kept. ``texts``: all columns are texts of a file."""
    scalars = stored(schema)
    columns = [column_of(table.column(each.column), each, texts=texts) for each in scalars]
    return pa.Table.from_arrays(columns, names=[field_of(each) for each in scalars])


def column_of(column: pa.ChunkedArray, scalar: Scalar, *, texts: bool = False) -> pa.ChunkedArray:
    """A column in the type of a scalar."""
    check_type(column.type, scalar, texts=texts)
    return pa.chunked_array([array_of(each, scalar) for each in column.chunks], TYPES[scalar.kind])


def array_of(values: pa.Array, scalar: Scalar) -> pa.Array:
    """An array, of a type that `check_type` lets pass, in the type of a scalar."""
    return _chunk(decoded(values), scalar).cast(TYPES[scalar.kind])


def check_type(given: pa.DataType, scalar: Scalar, *, texts: bool = False) -> None:
    """Refuse a column of a type that cannot hold the values of a scalar."""
    kind = given.value_type if pa.types.is_dictionary(given) else given
    if _holds(kind, scalar, texts=texts):
        return
    problem = f"has Arrow type {given}, the schema wants {WANTED[scalar.kind]}"
    if scalar.kind == "moment" and pa.types.is_timestamp(kind):
        problem = f"has timestamps with a time zone{NEEDS_ZONE}"
    raise DataError(f"column {scalar.column!r} {problem}", column=scalar.column)


WANTED: Final = {
    "text": "str",
    "boolean": "bool",
    "code": "int",
    "integer": "int or float",
    "number": "int or float",
    "moment": "dates, timestamps or texts",
}
"""What a column must hold, by the kind of its scalar, in words."""


def decoded(column: pa.Array) -> pa.Array:
    """An array without dictionaries and views, for which Arrow has few functions."""
    if pa.types.is_dictionary(column.type):
        return decoded(column.dictionary).take(column.indices)
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _holds(kind: pa.DataType, scalar: Scalar, *, texts: bool) -> bool:
    """Whether a column of this type may hold values of a scalar."""
    if pa.types.is_null(kind) or (texts and is_text(kind)):
        return True
    if scalar.kind == "text":
        return is_text(kind)
    if scalar.kind == "boolean":
        return bool(pa.types.is_boolean(kind))
    if scalar.kind == "code":
        return bool(pa.types.is_integer(kind))
    if scalar.kind == "moment":
        instants = pa.types.is_timestamp(kind) and kind.tz is not None
        return is_dated(kind) and not (instants and scalar.zone is None)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _chunk(values: pa.Array, scalar: Scalar) -> pa.Array:
    if pa.types.is_null(values.type) or scalar.kind == "text":
        return values
    if scalar.kind == "moment":
        return _moments(values, scalar.zone)
    if scalar.kind == "boolean":
        return _booleans(values) if is_text(values.type) else values
    if scalar.kind == "code":
        return _codes(values) if is_text(values.type) else _listed(values)
    numbers = _read_numbers(values) if is_text(values.type) else values
    return _integers(numbers) if scalar.kind == "integer" else _numbers(numbers)


# -- texts -------------------------------------------------------------------------------------------------------------


def _booleans(texts: pa.Array) -> pa.Array:
    """The truth values that texts mean; null for others."""
    word = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    yes, no = (pc.is_in(word, pa.array(words, word.type)) for words in (_TRUE, _FALSE))
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _codes(texts: pa.Array) -> pa.Array:
    """The whole numbers of 64 bits that texts mean; null for others."""
    plain = pc.utf8_trim_whitespace(texts)
    if pc.match_substring_regex(plain, _SHORT).false_count:
        plain = pc.replace_substring_regex(plain, _PLUS, r"\2\1\3")
        fits = pc.match_substring_regex(plain, _WHOLE).fill_null(False)
        digits = pc.if_else(fits, plain, pa.scalar(None, plain.type)).cast(pa.decimal128(19))
        # Here, because Arrow loads pandas to look at an object that it does not know.
        least, most = (pa.scalar(Decimal(bound), pa.decimal128(19)) for bound in (-(2**63), 2**63 - 1))
        within = pc.and_(pc.greater_equal(digits, least), pc.less_equal(digits, most)).fill_null(False)
        plain = pc.if_else(within, digits, pa.scalar(None, digits.type))
    return plain.cast(pa.int64())


def _read_numbers(texts: pa.Array) -> pa.Array:
    """The numbers that texts mean; null for others."""
    small = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    try:
        return small.cast(pa.float64())
    except pa.ArrowInvalid:
        pass  # it quotes a value
    fits = pc.match_substring_regex(small, NUMBER).fill_null(False)
    return pc.if_else(fits, small, pa.scalar(None, small.type)).cast(pa.float64())


# -- numbers -----------------------------------------------------------------------------------------------------------


def _numbers(values: pa.Array) -> pa.Array:
    """Numbers as doubles; NaN as null."""
    if pa.types.is_decimal(values.type):
        return decimals_as_doubles(values)
    doubles = values.cast(pa.float64(), safe=False)
    absent = pc.is_nan(doubles)
    return pc.if_else(absent, pa.scalar(None, pa.float64()), doubles) if absent.true_count else doubles


def _listed(values: pa.Array) -> pa.Array:
    """Integers that may be listed: null for those beyond 64 bits, none of which is."""
    if pa.types.is_uint64(values.type):
        listed = pc.less_equal(values, pa.scalar(2**63 - 1, pa.uint64()))
        values = pc.if_else(listed, values, pa.scalar(None, pa.uint64()))
    return values.cast(pa.int64())


def decimals_as_doubles(column: Any) -> Any:
    """PRIVATE: decimals as the doubles nearest to them, as engines have them. (Arrow's own cast multiplies by a rounded
    power of ten; its text of a decimal is exact, and its reading of that text is right.)"""
    return column.cast(pa.string()).cast(pa.float64())


def _integers(values: pa.Array) -> pa.Array:
    """Whole numbers in 64 bits, the nearest of them where there are none so large; null for what is not whole."""
    if pa.types.is_uint64(values.type):
        return pc.min_element_wise(values, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False).cast(pa.int64())
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    doubles = _numbers(values)
    absent = np.asarray(doubles.is_null())
    numbers = np.asarray(doubles.fill_null(0.0))
    absent |= (numbers != np.floor(numbers)) & np.isfinite(numbers)
    large, small = numbers >= 2.0**63, numbers < -(2.0**63)
    whole = np.where(large | small | absent, 0.0, numbers).astype(np.int64)
    whole[large], whole[small] = 2**63 - 1, -(2**63)
    return pa.array(whole, mask=absent)


# -- moments -----------------------------------------------------------------------------------------------------------


def _moments(values: pa.Array, zone: str | None) -> pa.Array:
    """Moments in microseconds since 1970, as clocks of the zone show them; null for what is no valid date."""
    seconds, fraction, valid = local_seconds(values, zone)
    return _within(seconds, fraction, valid)


def _within(seconds: Ints, fraction: Ints, valid: Flags) -> pa.Array:
    inside = np.clip(seconds, _LOW, _HIGH) * _MICROSECOND + fraction
    moments = np.where(seconds < _LOW, EARLY, np.where(seconds >= _HIGH, LATE, inside))
    return pa.array(moments, pa.int64(), mask=~valid).cast(pa.timestamp("us"))


def clipped(seconds: int, fraction: int) -> int:
    """A single moment, in seconds since 1970 and microseconds after them, as it is kept."""
    inside = seconds * _MICROSECOND + fraction
    return EARLY if seconds < _LOW else LATE if seconds >= _HIGH else inside
