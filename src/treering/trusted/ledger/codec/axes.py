"""Axes as JSON: the conditions on values that groups and questions are made of.

    {"column": "delay", "kind": "number", "cuts": [15.0], "classes": [0, 1, 0, 0]}
    {"column": "origin", "kind": "text", "listed": ["JFK"], "classes": [1, 0, 0, 0]}

The classes are those of the intervals between the cuts, or of the listed values and of all others; then of missing
values, and of rows that came before the column was recorded. Long lists are packed.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, get_args

import numpy as np

from treering.arrays import Array, Ints
from treering.domain.axis import Axis, Cuts, Kind, Scalar
from treering.errors import SchemaError
from treering.trusted.ledger.codec.numbers import Unfit, read_array, write_array

Raw: TypeAlias = dict[str, Any]

_READABLE: Final = 64
"""Up to this many cuts or classes are listed."""

_KINDS: Final = get_args(Kind)
_LISTED: Final[dict[str, type]] = {"text": str, "boolean": bool, "code": int}


def write_axis(axis: Any) -> Raw:
    """An axis as JSON; equal axes give equal JSON."""
    if type(axis) is not Axis:
        raise Unfit(f"is {type(axis).__name__}, not an axis")
    scalar = axis.scalar
    named = {"column": scalar.column, "kind": scalar.kind, "zone": scalar.zone, "part": scalar.part}
    return {**{name: value for name, value in named.items() if value is not None}, **write_classes(axis)}


def read_axis(raw: Any) -> Axis:
    """The axis that `write_axis` wrote."""
    if type(raw) is not dict:
        raise Unfit("is not an axis")
    named = {name: raw[name] for name in ("column", "kind", "zone", "part") if name in raw}
    if not {"column", "kind"} <= named.keys() or any(type(each) is not str for each in named.values()):
        raise Unfit("is an axis without a column or a kind")
    if named["kind"] not in _KINDS:
        raise Unfit("is an axis of an unknown kind")
    axis = read_classes({name: value for name, value in raw.items() if name not in named}, Scalar(**named))
    if list(write_axis(axis)) != list(raw):
        raise Unfit("has its fields in another order")
    return axis


def write_classes(axis: Axis) -> Raw:
    """What an axis says about the values of its scalar."""
    values = {"listed": list(axis.listed)} if axis.by_list else {"cuts": _written(axis.cuts)}
    return {**values, "classes": _written(axis.classes)}


def read_classes(raw: Any, scalar: Scalar) -> Axis:
    """The axis about a scalar that `write_classes` wrote."""
    if type(raw) is not dict or list(raw) != ["cuts" if scalar.ordered else "listed", "classes"]:
        raise Unfit("is no condition on values of its type")
    classes = _read(raw["classes"], np.dtype(np.int64))
    try:
        if scalar.ordered:
            return Axis(scalar, _cuts(raw["cuts"], scalar), (), classes)
        return Axis(scalar, np.empty(0, dtype=np.int64), _values(raw["listed"], scalar), classes)
    except SchemaError:
        raise Unfit("is no condition on values") from None


def _cuts(raw: Any, scalar: Scalar) -> Cuts:
    cuts = _read(raw, np.dtype(np.float64 if scalar.kind == "number" else np.int64))
    if not np.isfinite(cuts).all():
        raise Unfit("has a cut that is no number")
    return cuts


def _values(raw: Any, scalar: Scalar) -> tuple[Any, ...]:
    if type(raw) is not list or any(type(each) is not _LISTED[scalar.kind] for each in raw):
        raise Unfit("lists values of another type")
    return tuple(raw)


def _written(array: Array) -> Any:
    return array.tolist() if len(array) <= _READABLE else write_array(array)


def _read(raw: Any, dtype: np.dtype[Any]) -> Ints:
    if type(raw) is not list:
        array = read_array(raw)
        if array.dtype != dtype or array.ndim != 1 or len(array) <= _READABLE:
            raise Unfit("is no packed list of its type")
        return array
    kind = float if dtype.kind == "f" else int
    if len(raw) > _READABLE or any(type(each) is not kind for each in raw):
        raise Unfit("lists numbers of another type")
    try:
        return np.array(raw, dtype=dtype)
    except OverflowError:
        raise Unfit("has a number that is too large") from None
