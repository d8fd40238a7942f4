"""Queries against marginals: exact on integers, plain arithmetic on floats.

A marginal is an array over the joint values of some attributes. The same functions serve the private counts (integers,
inside ``trusted/``) and the public histogram (floats): neither needs more than the marginal over the attributes that a
query names.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from treering.arrays import Array, Flags
from treering.domain.query import Query

Number = TypeVar("Number", np.int64, np.float64)
Marginal: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[Number]]
Attributes: TypeAlias = tuple[int, ...]

_BLOCK: Final = 2**18
"""Intermediate products are kept below this many entries (unless one query has more), within a core's cache."""

_SERIAL: Final = 2**18
"""A product of matrices with so few multiplications is left to one core: waking the others would take longer."""

_FEW: Final = 32
"""So many queries share one pass over a marginal too large for that."""

_EXACT: Final = 2.0**52
"""Integers whose sums stay below this are added exactly by floats, in any order."""


def evaluate(query: Query, marginal: Marginal[Number]) -> Number:
    """Σ weight·marginal, in units of 1/scale: an exact integer for integer marginals."""
    if query.table is not None:
        return marginal.dtype.type(np.vdot(query.table.astype(marginal.dtype, copy=False), marginal))
    assert query.masks is not None
    # Each sum is over one axis, and looks only at what matches: the first leaves as much as one of its codes has.
    result: Any = marginal
    for mask in query.masks:
        result = result.compress(mask, axis=0).sum(axis=0)
    return marginal.dtype.type(result)


def evaluate_many(
    queries: Sequence[Query], marginal_of: Callable[[Attributes], Marginal[Number]], dtype: type[Number]
) -> Marginal[Number]:
    """`evaluate` for a batch: one product per set of attributes."""
    values = np.empty(len(queries), dtype=dtype)
    groups: defaultdict[tuple[Attributes, bool], list[int]] = defaultdict(list)
    for index, query in enumerate(queries):
        groups[query.attributes, query.table is None].append(index)
    for (attributes, _), indices in groups.items():
        values[indices] = _evaluate_group([queries[index] for index in indices], marginal_of(attributes))
    return values


def widest(queries: Sequence[Query]) -> int:
    """The largest number of joint values that one of the queries (of one schema) is about."""
    if not queries:
        return 1
    shape = queries[0].schema.shape
    # Few sets of attributes, however many queries.
    return max(math.prod(shape[each] for each in attributes) for attributes in {query.attributes for query in queries})


def _evaluate_group(queries: Sequence[Query], marginal: Marginal[Number]) -> Marginal[Number]:
    """Queries of one form over the same attributes."""
    if len(queries) == 1 or not queries[0].attributes:
        return np.array([evaluate(query, marginal) for query in queries], dtype=marginal.dtype)
    if queries[0].masks is None:
        product, width, scale = _tables, marginal.size, max(query.scale for query in queries)
    else:
        product, width, scale = _conjunctions, _split(marginal.shape)[0], 1
    step = max(1, _BLOCK // width)
    factor = _as_floats(marginal, scale)
    parts = [product(queries[start : start + step], factor) for start in range(0, len(queries), step)]
    return np.concatenate(parts).astype(marginal.dtype, copy=False)


def _as_floats(marginal: Array, scale: int) -> Array:
    """The marginal as floats if no sum over it with weights up to ``scale`` can be rounded, because products of floats
    are much faster than those of integers."""
    if marginal.dtype == np.float64:
        return marginal
    floats = marginal.astype(np.float64)
    return floats if float(np.abs(floats).sum()) * scale < _EXACT else marginal


def _tables(queries: Sequence[Query], marginal: Array) -> Array:
    tables = np.stack([query.weights().reshape(-1) for query in queries])
    product: Array = tables.astype(marginal.dtype, copy=False) @ marginal.reshape(-1)
    return product


def _conjunctions(queries: Sequence[Query], marginal: Array) -> Array:
    """The marginal as a matrix, leading attributes by trailing ones: a product of matrices contracts the leading sets
    of all queries, a product of vectors the trailing sets of each."""
    joined = b"".join([mask.tobytes() for query in queries for mask in query.masks or ()])
    flags = np.frombuffer(joined, dtype=np.bool_).reshape(len(queries), -1)
    ends = list(accumulate(marginal.shape))
    sets = [flags[:, end - size : end] for size, end in zip(marginal.shape, ends, strict=True)]
    _, leading = _split(marginal.shape)
    rows = _members(sets[:leading]).astype(marginal.dtype)
    contracted = _times(rows, marginal.reshape(rows.shape[1], -1))
    if leading < len(sets):
        contracted = np.einsum("qc,qc->q", contracted, _members(sets[leading:]).astype(marginal.dtype))
    return contracted.reshape(-1)


def _times(rows: Array, matrix: Array) -> Array:
    """rows @ matrix, in parts that are left to one core."""
    step = max(_FEW, _SERIAL // matrix.size)
    return np.concatenate([rows[start : start + step] @ matrix for start in range(0, len(rows), step)])


def _members(sets: Sequence[Flags]) -> Flags:
    """Which joint values are in the product of each query's sets: a row for each query."""
    product = sets[0]
    for each in sets[1:]:
        product = (product[:, :, np.newaxis] & each[:, np.newaxis, :]).reshape(len(product), -1)
    return product


def _split(shape: Sequence[int]) -> tuple[int, int]:
    """How many entries there are in between for each query, and how many attributes lead so that these are fewest."""
    return min((math.prod(shape[:lead]) + 2 * math.prod(shape[lead:]), lead) for lead in range(1, len(shape) + 1))
