"""Versions of a schema: the next one refines the last, so that every old cell is a union of new ones.

A version is public: what it adds must come from general knowledge, from a question that somebody asked, or from what
was released. A value that is listed leaves *other*; an edge cuts a bin; a longer calendar or range cuts what lay
outside. Nothing moves, so what was released stays true, and every question that could be asked still can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, TypeAlias

from treering.domain.attribute import Attribute, Bins, Categories, Integers
from treering.domain.axis import coarser
from treering.domain.calendar import Dates
from treering.domain.numeric import Numbers
from treering.domain.schema import Schema
from treering.errors import SchemaError

Limits: TypeAlias = tuple[float, float]


def refined(
    schema: Schema,
    *,
    add: Mapping[str, Sequence[str | int | bool]] | None = None,
    edges: Mapping[str, Iterable[float]] | None = None,
    until: Mapping[str, str | date] | None = None,
    bounds: Mapping[str, Limits] | None = None,
    attributes: Mapping[str, Attribute] | None = None,
) -> Schema:
    """The next version of a schema.

    - ``add``: values to list, of categories that have a cell for values not listed
    - ``edges``: more edges of bins and numbers
    - ``until``: a later last date
    - ``bounds``: a wider range of numbers or integers
    - ``attributes``: more attributes, of columns that are kept already

    >>> from treering.domain.attribute import bins, categories
    >>> old = Schema({"ward": categories("north", "south", other=True), "cost": bins([0, 100], other=True)})
    >>> new = refined(old, add={"ward": ["telehealth"]}, edges={"cost": [1000]})
    >>> old.shape, new.shape
    ((3, 3), (4, 4))
    """
    found = dict(schema.attributes)
    for change, make in ((add, _listing), (edges, _cutting), (until, _lengthening), (bounds, _widening)):
        _change(found, change or {}, make)
    for name, attribute in (attributes or {}).items():
        if name in found:
            raise SchemaError(f"attribute {name!r} is there already: give the new one another name")
        found[name] = attribute
    new = Schema(found)
    if new == schema:
        raise SchemaError("this refines nothing: give values, edges, dates, bounds or attributes that are new")
    _check(new, schema)
    return new


def _change(
    found: dict[str, Attribute], change: Mapping[str, Any], make: Callable[[Attribute, Any], Attribute]
) -> None:
    for name, wanted in change.items():
        if name not in found:
            raise SchemaError(f"no attribute {name!r}; there are {', '.join(found)}")
        try:
            found[name] = make(found[name], wanted)
        except SchemaError as error:
            raise SchemaError(f"attribute {name!r}: {error}") from None


def _listing(attribute: Attribute, values: Sequence[str | int | bool]) -> Attribute:
    """Categories with more values."""
    if not isinstance(attribute, Categories):
        raise SchemaError("has no list that values could be added to")
    if not attribute.other:
        raise SchemaError("has no cell for values not listed (other=True) that new ones could leave")
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise SchemaError("takes a list of values")
    return replace(attribute, values=(*attribute.values, *values))


def _cutting(attribute: Attribute, edges: Iterable[float]) -> Attribute:
    """Bins, or numbers, with more edges."""
    if not isinstance(attribute, Bins):
        raise SchemaError("has no edges: only bins and numbers have")
    wanted = list(edges) if isinstance(edges, Iterable) else []
    if not wanted or any(
        isinstance(each, bool) or not isinstance(each, int | float) or each != each for each in wanted
    ):
        raise SchemaError("takes a list of numbers as edges")
    if not attribute.other and not all(attribute.edges[0] <= each <= attribute.edges[-1] for each in wanted):
        raise SchemaError("refuses rows outside its edges (other=True is not declared): no edge can be added there")
    return attribute.cut(float(each) for each in wanted)


def _lengthening(attribute: Attribute, last: str | date) -> Attribute:
    """Dates with a later end."""
    if not isinstance(attribute, Dates):
        raise SchemaError("has no last date")
    changed: dict[str, Any] = {"last": last}
    longer = replace(attribute, **changed)
    if longer.last < attribute.last:
        raise SchemaError(f"ends on {attribute.last} already: an end can only be later")
    return longer


def _widening(attribute: Attribute, limits: Limits) -> Attribute:
    """Numbers, or integers, with a wider range."""
    try:
        low, high = limits
    except (TypeError, ValueError):
        raise SchemaError("takes bounds as a pair: low and high") from None
    if not isinstance(attribute, Numbers | Integers):
        raise SchemaError("has no bounds: only numbers and integers have")
    if isinstance(attribute, Integers) and not attribute.other:
        raise SchemaError("refuses rows outside its bounds (other=True is not declared)")
    if not low <= attribute.low or not attribute.high <= high:
        raise SchemaError(f"has the bounds {attribute.low:g} and {attribute.high:g} already: they can only be wider")
    changed: dict[str, Any] = {"low": low, "high": high}
    return replace(attribute, **changed)


def _check(new: Schema, old: Schema) -> None:
    """Refuse a schema that does not refine the old one."""
    for position, name in enumerate(old.names):
        if coarser(old, new, position) is None:
            raise SchemaError(
                f"attribute {name!r} would not refine what it was: a value is in two places, or has moved"
            )
