"""Queries against marginals: exact on integers, plain arithmetic on floats.

A marginal is an array over the joint values of some attributes. The same functions serve the private counts (integers,
inside ``trusted/``) and the public histogram (floats): neither needs more than the marginal over the attributes that a
query names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from treering.domain.query import Query

Number = TypeVar("Number", np.int64, np.float64)
Marginal: TypeAlias = npt.NDArray[Number]
Attributes: TypeAlias = tuple[int, ...]

_BLOCK: Final = 2**22
"""Intermediate products are kept below this many entries."""


def evaluate(query: Query, marginal: Marginal[Number]) -> Number:
    """Σ weight·marginal, in units of 1/scale: an exact integer for integer marginals."""
    if query.table is not None:
        return marginal.dtype.type(np.vdot(query.table.astype(marginal.dtype, copy=False), marginal))
    assert query.masks is not None
    # From the last attribute to the first, each product contracts one axis: Π sizes in all.
    result: Any = marginal
    for mask in reversed(query.masks):
        result = result @ mask.astype(marginal.dtype)
    return marginal.dtype.type(result)


def evaluate_many(
    queries: Sequence[Query], marginal_of: Callable[[Attributes], Marginal[Number]], dtype: type[Number]
) -> npt.NDArray[Number]:
    """`evaluate` for a batch: one product per set of attributes."""
    values = np.empty(len(queries), dtype=dtype)
    groups: defaultdict[tuple[Attributes, bool], list[int]] = defaultdict(list)
    for index, query in enumerate(queries):
        groups[query.attributes, query.table is None].append(index)
    for (attributes, _), indices in groups.items():
        marginal = marginal_of(attributes)
        step = max(1, _BLOCK // max(1, marginal.size))
        for start in range(0, len(indices), step):
            block = indices[start : start + step]
            values[block] = _evaluate_group([queries[index] for index in block], marginal)
    return values


def _evaluate_group(queries: Sequence[Query], marginal: Marginal[Number]) -> npt.NDArray[Number]:
    """Queries of one form over the same attributes."""
    if len(queries) == 1 or not queries[0].attributes:
        return np.array([evaluate(query, marginal) for query in queries], dtype=marginal.dtype)
    if queries[0].table is not None:
        tables = np.stack([query.weights().ravel() for query in queries])
        product: npt.NDArray[Number] = tables.astype(marginal.dtype, copy=False) @ marginal.ravel()
        return product
    result: Any = marginal
    for axis in reversed(range(marginal.ndim)):
        masks = np.stack([query.masks[axis] for query in queries if query.masks is not None], axis=-1)
        masks = masks.astype(marginal.dtype)
        last = axis == marginal.ndim - 1
        result = result @ masks if last else (result * masks).sum(axis=-2)
    contracted: npt.NDArray[Number] = result
    return contracted
