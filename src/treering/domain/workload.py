"""Common families of counting queries: marginals, ranges, prefixes, random conjunctions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from treering.arrays import Flags
from treering.domain.attribute import Categories
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import ParameterError

MAX_QUERIES: Final = 10_000_000
"""The most queries of one workload."""

_MOST_WAYS: Final = 3
"""The most attributes that a random conjunction names by default."""


def marginals(schema: Schema, ways: int) -> list[Query]:
    """All ``ways``-way marginals: for every set of ``ways`` attributes, one query for each joint value.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> [len(marginals(schema, ways)) for ways in (1, 2)]
    [14, 24]
    """
    _check_ways(ways, "ways", len(schema.shape))
    _check_count("ways", _joint_values(schema.shape, ways))
    points = [_points(size) for size in schema.shape]
    queries: list[Query] = []
    for positions in itertools.combinations(range(len(schema.shape)), ways):
        # An attribute of one value does not matter.
        kept = tuple(position for position in positions if schema.shape[position] > 1)
        masks = itertools.product(*(points[position] for position in kept))
        queries += [Query(schema, kept, masks=each) for each in masks]
    return queries


def ranges(schema: Schema, name: str) -> list[Query]:
    """All intervals of the regular values of the attribute ``name``, of integers or bins, the shortest first."""
    position, regular = _ordered(schema, name)
    _check_count("name", regular * (regular + 1) // 2)
    return [
        _interval(schema, position, strip, start)
        for strip in (_strip(schema.shape[position], length) for length in range(1, regular + 1))
        for start in range(regular - int(strip.sum()) + 1)
    ]


def prefixes(schema: Schema, name: str) -> list[Query]:
    """All intervals that start at the lowest value of the attribute ``name``, of integers or bins."""
    position, regular = _ordered(schema, name)
    size = schema.shape[position]
    return [_interval(schema, position, _strip(size, length), 0) for length in range(1, regular + 1)]


def random_conjunctions(
    schema: Schema, count: int, generator: np.random.Generator, ways: tuple[int, int] | None = None
) -> list[Query]:
    """``count`` conjunctions over random attributes: each condition a random set of values, neither empty nor all.

    ``ways`` are the fewest and the most attributes that one names, by default 1 and 3 (or as many as the schema has).
    ``generator`` makes the random choices, which are public.
    The number of attributes, the attributes and the sets are uniform.
    """
    if type(count) is not int or count < 0:
        raise ParameterError("count", "must be an integer, at least 0")
    _check_count("count", count)
    if not isinstance(generator, np.random.Generator):
        raise ParameterError("generator", "must be a numpy.random.Generator")
    usable = [position for position, size in enumerate(schema.shape) if size > 1]
    fewest, most = _ways(ways, len(usable))
    queries: list[Query] = []
    for number in generator.integers(fewest, most, size=count, endpoint=True).tolist():
        chosen = generator.permutation(len(usable))[:number].tolist()
        positions = sorted(usable[index] for index in chosen)
        masks = tuple(_random_set(schema.shape[position], generator) for position in positions)
        queries.append(Query(schema, tuple(positions), masks=masks))
    return queries


def _joint_values(sizes: Sequence[int], ways: int) -> int:
    """The sum, over all choices of ``ways`` of the sizes, of their product, without listing the choices."""
    sums = [1] + [0] * ways
    for size in sizes:
        for chosen in range(ways, 0, -1):
            sums[chosen] += sums[chosen - 1] * size
    return sums[ways]


def _ways(ways: tuple[int, int] | None, usable: int) -> tuple[int, int]:
    if usable == 0:
        raise ParameterError("schema", "must have an attribute of more than one value")
    if ways is None:
        return 1, min(_MOST_WAYS, usable)
    if not isinstance(ways, Sequence) or len(ways) != 2:
        raise ParameterError("ways", "must be two integers, the fewest and the most attributes")
    fewest, most = ways
    _check_ways(fewest, "ways", usable)
    _check_ways(most, "ways", usable)
    if fewest > most:
        raise ParameterError("ways", f"must not decrease, as {fewest} to {most} do")
    return fewest, most


def _random_set(size: int, generator: np.random.Generator) -> Flags:
    while True:
        mask = generator.integers(0, 2, size=size, dtype=np.bool_)
        if mask.any() and not mask.all():
            return mask


def _points(size: int) -> list[Flags]:
    """The flags of each single value: slices of one strip, which can be shared, as queries never change them."""
    strip = _strip(size, 1)
    return [strip[size - code : 2 * size - code] for code in range(size)]


def _strip(size: int, length: int) -> Flags:
    """``length`` set flags between unset ones, so that the flags of every interval of this length are a slice."""
    strip = np.zeros(2 * size + length, dtype=np.bool_)
    strip[size : size + length] = True
    return strip


def _interval(schema: Schema, position: int, strip: Flags, start: int) -> Query:
    size = schema.shape[position]
    mask = strip[size - start : 2 * size - start]
    return Query.all(schema) if mask.all() else Query(schema, (position,), masks=(mask,))


def _ordered(schema: Schema, name: str) -> tuple[int, int]:
    """The position of an attribute that has an order, and the number of its regular values."""
    position = schema.index(name)
    attribute = schema.attributes[name]
    if isinstance(attribute, Categories):
        raise ParameterError(
            "name", f"must be an attribute of integers or bins; the categories of {name!r} have no order"
        )
    return position, attribute.regular


def _check_ways(ways: int, parameter: str, most: int) -> None:
    if type(ways) is not int or not 1 <= ways <= most:
        raise ParameterError(parameter, f"must lie within 1 to {most}, the number of attributes, not {ways}")


def _check_count(parameter: str, count: int) -> None:
    if count > MAX_QUERIES:
        raise ParameterError(parameter, f"asks for {count:,} queries; at most {MAX_QUERIES:,} are made at once")
