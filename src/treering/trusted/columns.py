"""One Arrow column → codes of its attribute, vectorised.

Every function returns the codes and which rows do not fit (None: all fit). Codes of rows that do not fit are
arbitrary but harmless.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Array, Flags
from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.errors import DataError
from treering.trusted import short_text

Encoded: TypeAlias = tuple[Array, Flags | None]


def accepts(attribute: Attribute, value: Any) -> bool:
    """Whether a single value has a type that the attribute can hold (None and NaN always)."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    if isinstance(attribute, Categories):
        return type(value) is type(attribute.values[0])
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_type(name: str, attribute: Attribute, given: pa.DataType) -> None:
    """Refuse a column whose type cannot hold the attribute's values."""
    kind = given.value_type if pa.types.is_dictionary(given) else given
    if pa.types.is_null(kind):
        return
    if isinstance(attribute, Categories):
        wanted = type(attribute.values[0]).__name__
        fits = {"str": _is_text, "int": pa.types.is_integer, "bool": pa.types.is_boolean}[wanted](kind)
    else:
        wanted = "int or float"
        fits = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not fits:
        raise DataError(f"column {name!r} has Arrow type {given}, the schema wants {wanted}", column=name)


def encode_column(attribute: Attribute, column: pa.Array) -> Encoded:
    """The codes of a block of values."""
    if pa.types.is_dictionary(column.type):
        return _encode_dictionary(attribute, column)
    missing = np.asarray(column.is_null()) if column.null_count else None
    if pa.types.is_null(column.type):
        return _place_missing(attribute, np.zeros(len(column), dtype=np.int64), missing, None)
    if isinstance(attribute, Categories):
        codes, outside = _category_codes(attribute, _without_views(column))
        return _place_missing(attribute, codes, missing, outside)
    values = np.asarray(column.fill_null(0) if missing is not None else column)
    if values.dtype.kind == "f":
        # Half and single precision too: compared as they are, the schema's own numbers would be rounded to them.
        values = values.astype(np.float64, copy=False)
        nan = np.isnan(values)
        if nan.any():
            missing = nan if missing is None else missing | nan
    if isinstance(attribute, Integers):
        codes, outside = _integer_codes(attribute, values)
    else:
        assert isinstance(attribute, Bins)
        codes, outside = _bin_codes(attribute, values)
    return _place_missing(attribute, codes, missing, outside)


def _encode_dictionary(attribute: Attribute, column: pa.DictionaryArray) -> Encoded:
    """Encode the dictionary once, then look up; a null index is looked up behind its end."""
    entries, indices = _without_views(column.dictionary), column.indices
    if len(entries) > len(column):
        return encode_column(attribute, entries.take(indices))
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(entries))
        entries = pa.concat_arrays([entries, pa.nulls(1, entries.type)])
    codes, bad = encode_column(attribute, entries)
    index = np.asarray(indices)
    return codes.take(index), None if bad is None else bad.take(index)


def _place_missing(attribute: Attribute, codes: Array, missing: Flags | None, outside: Flags | None) -> Encoded:
    """Send what is missing or outside to its cell, or mark it as not fitting."""
    bad: Flags | None = None
    # Missing values come last: they may look like a regular value or like one outside.
    for flags, code in ((outside, attribute.other_code), (missing, attribute.missing_code)):
        if flags is None or not flags.any():
            continue
        if code is None:
            bad = flags if bad is None else bad | flags
            continue
        codes = np.where(flags, code, codes)
        bad = None if bad is None else bad & ~flags
    return codes, bad


def _category_codes(attribute: Categories, column: pa.Array) -> Encoded:
    """The position of each value among the categories."""
    if short_text.fits(attribute.values, column):
        codes = short_text.find(attribute.values, column)
        return codes, codes < 0
    found = pc.index_in(column, value_set=_value_set(attribute, column.type))
    return np.asarray(found.fill_null(0)), np.asarray(found.is_null()) if found.null_count else None


def _integer_codes(attribute: Integers, values: Array) -> Encoded:
    """Within the range and whole. (NaN is outside too, and then missing.)"""
    outside = (values < attribute.low) | (values > attribute.high)
    if values.dtype.kind == "f":
        outside |= values != np.floor(values)
    inside = np.where(outside, attribute.low, values) if outside.any() else values
    return inside.astype(np.int64, copy=False) - attribute.low, outside


def _bin_codes(attribute: Bins, values: Array) -> Encoded:
    """The number of inner edges at or below a value: comparisons beat a binary search for the few edges of a schema."""
    outside = ~((values >= attribute.edges[0]) & (values <= attribute.edges[-1]))
    inner = attribute.edges[1:-1]
    if len(inner) > 32:
        return np.searchsorted(np.array(inner), values, side="right"), outside
    codes = np.zeros(len(values), dtype=np.int8)
    for edge in inner:
        codes += values >= edge
    return codes, outside


@lru_cache(maxsize=256)
def _value_set(attribute: Categories, kind: pa.DataType) -> pa.Array:
    """The categories as the column's type; those that it cannot hold become null, which no regular value equals."""

    def held(value: str | int | bool) -> pa.Scalar:
        try:
            return pa.scalar(value, kind)
        except (pa.ArrowInvalid, OverflowError):
            return pa.scalar(None, kind)

    return pa.array([held(value) for value in attribute.values], kind)


def _without_views(column: pa.Array) -> pa.Array:
    """String views as strings: Arrow has few functions for views."""
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
