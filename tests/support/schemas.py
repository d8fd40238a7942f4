"""Hypothesis strategies for schemas, queries and rows, and a query's weights by brute force."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from treering.domain.attribute import Attribute, Bins, Categories, Integers, Value, bins, categories, integers
from treering.domain.calendar import UNITS, DatePart, Dates, dates, floor, following
from treering.domain.query import Query
from treering.domain.schema import Schema

Row: TypeAlias = dict[str, Value]

NAMES = (
    "a",
    "b2",
    "_c",
    "Delay",
    "order",
    "select",
    "month of year",
    "null",
    "true",
    "é",
    "semi;colon",
    "it's",
    "-- x",
)
"""Names that are simple, in mixed case, reserved, or need quotes."""

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(
    ["it's", "''", '"', "{#", "--", "NULL", " "]
)
_FLAGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"other": st.booleans(), "missing": st.booleans()})
_INTEGERS = st.integers(-(2**63), 2**63 - 1)
_EDGES = st.integers(-50, 50).map(float) | st.floats(-1e6, 1e6) | st.sampled_from([0.1, 0.2, 0.3, 1e-7, 1e15])


@st.composite
def attributes(draw: st.DrawFn, most_values: int = 6) -> Attribute:
    """One attribute of any kind."""
    flags = draw(_FLAGS)
    kind = draw(st.sampled_from(["texts", "integers", "booleans", "range", "bins", "dates", "part"]))
    if kind == "part":
        return dates(part="weekday")
    if kind == "dates":
        first, unit = draw(st.dates(date(2, 1, 1), date(9990, 1, 1))), draw(st.sampled_from(UNITS))
        last = first
        for _ in range(draw(st.integers(0, most_values - 2))):
            last = following(unit, floor(unit, last))
        return dates(first, last, by=unit)
    if kind == "range":
        low = draw(st.integers(-30, 30) | st.integers(-(2**53), 2**53 - most_values))
        return integers(low, low + draw(st.integers(0, most_values - 1)), **flags)
    if kind == "bins":
        edges = draw(st.lists(_EDGES, min_size=2, max_size=most_values + 1, unique=True))
        return bins(sorted(edges), **flags)
    values: dict[str, st.SearchStrategy[Any]] = {"texts": _TEXTS, "integers": _INTEGERS, "booleans": st.booleans()}
    most = 2 if kind == "booleans" else most_values
    return categories(*draw(st.lists(values[kind], min_size=1, max_size=most, unique=True)), **flags)


@st.composite
def schemas(draw: st.DrawFn, *, most_attributes: int = 4, most_values: int = 6) -> Schema:
    """A schema of at most (most_values + 3)^most_attributes cells."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=most_attributes, unique_by=str.lower))
    return Schema({name: draw(attributes(most_values)) for name in names})


def sets(size: int) -> st.SearchStrategy[npt.NDArray[np.bool_]]:
    """Flags, any of them."""
    return st.integers(0, 2**size - 1).map(
        lambda bits: np.array([bits >> code & 1 for code in range(size)], dtype=np.bool_)
    )


@st.composite
def conjunctions(draw: st.DrawFn, schema: Schema) -> Query:
    """A conjunction of sets, the empty and the full one included."""
    positions = draw(st.sets(st.integers(0, len(schema.shape) - 1)))
    return Query.conjunction(schema, {position: draw(sets(schema.shape[position])) for position in positions})


@st.composite
def queries(draw: st.DrawFn, schema: Schema) -> Query:
    """A counting query: an OR of conjunctions, or any table over at most three attributes."""
    if draw(st.booleans()):
        parts = draw(st.lists(conjunctions(schema), min_size=1, max_size=3))
        query = parts[0]
        for part in parts[1:]:
            query = query | part
        return query
    most = min(3, len(schema.shape))
    positions = sorted(draw(st.sets(st.integers(0, len(schema.shape) - 1), min_size=1, max_size=most)))
    shape = [schema.shape[position] for position in positions]
    table = draw(sets(int(np.prod(shape)))).reshape(shape)
    return Query.weighted(schema, table, attributes=[schema.names[position] for position in positions], resolution=1)


@st.composite
def weighted_queries(draw: st.DrawFn, schema: Schema) -> Query:
    """A query with weights in small steps over at most two attributes."""
    most = min(2, len(schema.shape))
    positions = sorted(draw(st.sets(st.integers(0, len(schema.shape) - 1), max_size=most)))
    size = int(np.prod([schema.shape[position] for position in positions]))
    resolution = draw(st.integers(1, 12))
    weights = draw(st.lists(st.integers(0, resolution), min_size=size, max_size=size))
    names = [schema.names[position] for position in positions]
    return Query.weighted(schema, np.array(weights) / resolution, attributes=names, resolution=resolution)


def values(attribute: Attribute) -> st.SearchStrategy[Value]:
    """What a row may hold in this column: regular values, and others and nulls where there is a cell for them."""
    regular: st.SearchStrategy[Any]
    other: st.SearchStrategy[Any]
    if isinstance(attribute, Categories):
        listed = attribute.values
        plain = {str: _TEXTS, int: _INTEGERS, bool: st.booleans()}[type(listed[0])]
        regular = st.sampled_from(listed)
        other = st.nothing() if set(listed) == {True, False} else plain.filter(lambda value: value not in listed)
    elif isinstance(attribute, Integers):
        regular = st.integers(attribute.low, attribute.high)
        far = 2**60
        other = st.integers(-far, attribute.low - 1) | st.integers(attribute.high + 1, far)
    elif isinstance(attribute, Dates):
        regular = st.dates(attribute.edges[0], attribute.edges[-1] - timedelta(days=1))
        other = st.dates(max_value=attribute.edges[0] - timedelta(days=1)) | st.dates(min_value=attribute.edges[-1])
    elif isinstance(attribute, DatePart):
        regular = st.sampled_from(range(attribute.low, attribute.high + 1))
        other = st.nothing()
    else:
        assert isinstance(attribute, Bins)
        low, high = attribute.edges[0], attribute.edges[-1]
        regular = st.sampled_from(attribute.edges) | st.floats(low, high)
        other = st.floats(max_value=low, exclude_max=True) | st.floats(min_value=high, exclude_min=True)
    strategy = regular
    if attribute.other:
        strategy = strategy | other
    return strategy | st.none() if attribute.missing else strategy


def rows(schema: Schema, *, most: int = 20) -> st.SearchStrategy[list[Row]]:
    """Rows that fit the schema."""
    columns = {name: values(attribute) for name, attribute in schema.attributes.items()}
    return st.lists(st.fixed_dictionaries(columns), max_size=most)


def cell_weights(query: Query) -> npt.NDArray[np.int64]:
    """The weight of every cell of the universe, in units of 1/scale, straight from what a query's fields say."""
    codes = np.indices(query.schema.shape).reshape(len(query.schema.shape), -1)[list(query.attributes)]
    if query.table is not None:
        return np.asarray(query.table[tuple(codes)] if query.attributes else np.full(query.schema.cells, query.table))
    weights = np.ones(query.schema.cells, dtype=np.int64)
    for mask, column in zip(query.masks or (), codes, strict=True):
        weights *= mask[column]
    return weights
