"""Linear queries: an integer weight for every cell; and their evaluation against marginals.

A query is one of two forms, and always the simpler one that says the same:

- a *conjunction*: for each attribute it names, the set of values that match (the product of these sets matches);
- a *table*: an integer weight 0..scale for each joint value of the attributes it names, at most 2^20 of them.

Attributes that do not matter are dropped, weights are reduced by their common divisor, and a table that is a product of
sets becomes a conjunction. So two queries of one schema are equal exactly when they weigh every cell the same.

*Evaluation.* A marginal is an array over the joint values of some attributes. `evaluate` is exact on the private counts
(integers, inside ``treering.trusted``) and plain arithmetic on the public histogram (floats): neither needs more than
the marginal over the attributes that a query names.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from treering.arrays import Array, Flags, Ints
from treering.domain.attribute import Attribute, Outside, Value
from treering.domain.axis import coarser
from treering.domain.schema import Schema
from treering.errors import QueryError, SchemaError
from treering.lazy import provided

_ITSELF: Final = 500
"""The bytes of a query without its weights."""
MAX_TABLE: Final = 2**20
"""The most joint values a table may have."""

RESOLUTION: Final = 2**16
"""The default number of steps a weight in [0, 1] is quantised to."""


class Query:
    """A linear query f with values in [0, 1]: a cell's value is its integer weight over ``scale``.

    Make one with `treering.parse`, `Query.where`, `Query.weighted` or `Query.all`, and combine counting queries with
    ``&``, ``|`` and ``~``. Immutable, hashable, compared by meaning.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> winter = Query.where(schema, month=[12, 1, 2])
    >>> print(winter & Query.where(schema, origin="JFK"))
    origin = 'JFK' AND month IN (1, 2, 12)
    >>> winter == ~Query.where(schema, month=range(3, 12))
    True
    """

    schema: Schema
    attributes: tuple[int, ...]
    """The positions of the attributes that matter, increasing."""
    masks: tuple[Flags, ...] | None
    """A conjunction's sets, one per attribute; None for a table."""
    table: Ints | None
    """A table's weights over the attributes' joint values; None for a conjunction."""
    scale: int
    """W, the weight that stands for 1; a counting query has 1."""
    _hash: int | None = None
    _digest: bytes | None = None

    def __init__(
        self,
        schema: Schema,
        attributes: tuple[int, ...],
        *,
        masks: tuple[Flags, ...] | None = None,
        table: Ints | None = None,
        scale: int = 1,
    ) -> None:
        """Internal: expects the canonical form, which `_from_masks` and `of_table` make. (The kernel checks it.)"""
        self.__dict__.update(schema=schema, attributes=attributes, masks=masks, table=table, scale=scale)
        for array in (*(masks or ()), *(() if table is None else (table,))):
            array.setflags(write=False)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a query does not change: make another one")

    # -- making queries -------------------------------------------------------------------------------------------

    @classmethod
    def all(cls, schema: Schema) -> Query:
        """The query that every row matches."""
        return cls(schema, (), masks=())

    @classmethod
    def none(cls, schema: Schema) -> Query:
        """The query that no row matches."""
        return cls(schema, (), table=np.zeros((), dtype=np.int64))

    @classmethod
    def where(cls, schema: Schema, /, **sets: Value | Iterable[Value]) -> Query:
        """The conjunction of "attribute is this value" or "is one of these values".

        Each keyword is an attribute's name, with a value or several. ``None`` stands for the missing cell,
        `treering.OTHER` for the cell of values not listed, `treering.BELOW` and `treering.ABOVE` for those out of
        range, and any number in a bin for the bin.
        """
        masks: dict[int, Flags] = {}
        for name, wanted in sets.items():
            position = schema.index(name)
            attribute = schema.attributes[name]
            several = wanted if isinstance(wanted, Iterable) and not isinstance(wanted, str) else (wanted,)
            mask = np.zeros(attribute.size, dtype=np.bool_)
            try:
                mask[[_asked_code(attribute, value) for value in several]] = True
            except SchemaError as error:
                raise QueryError(f"attribute {name!r}: {error}") from None
            masks[position] = mask
        return cls._from_masks(schema, masks)

    @classmethod
    def conjunction(cls, schema: Schema, masks: Mapping[int, Flags]) -> Query:
        """The conjunction of sets of codes: ``masks`` maps an attribute's position to one flag per code."""
        for position, mask in masks.items():
            if not 0 <= position < len(schema.shape):
                raise QueryError(f"there is no attribute at position {position}")
            if mask.dtype != np.bool_ or mask.shape != (schema.shape[position],):
                raise QueryError(f"attribute {schema.names[position]!r} needs {schema.shape[position]:,} flags")
        return cls._from_masks(schema, masks)

    @classmethod
    def weighted(
        cls,
        schema: Schema,
        weights: npt.ArrayLike,
        *,
        attributes: Sequence[str] | None = None,
        resolution: int = RESOLUTION,
    ) -> Query:
        """Any linear query: weights in [0, 1], one per cell, or one per joint value of ``attributes``.

        ``attributes`` are names in the schema's order; the last one runs fastest in ``weights``.

        The weights are quantised, once and publicly, to multiples of ``1/resolution``: the query asked is at most
        ``1/(2·resolution)`` away from the one given, in every cell.
        """
        positions = tuple(range(len(schema.names))) if attributes is None else schema.positions(attributes)
        if attributes is not None and [schema.names[i] for i in positions] != list(attributes):
            raise QueryError("attributes must be named once each, in the schema's order")
        if type(resolution) is not int or not 1 <= resolution <= 2**31:
            raise QueryError("resolution must be an integer from 1 to 2^31")
        # An attribute of one value never matters, and numpy has room for 64 axes only.
        positions = tuple(position for position in positions if schema.shape[position] > 1)
        shape = tuple(schema.shape[position] for position in positions)
        try:
            given = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise QueryError("weights must be numbers") from None
        if given.size != math.prod(shape):
            raise QueryError(f"{math.prod(shape):,} weights are needed, {given.size:,} were given")
        if not np.all((given >= 0) & (given <= 1)):
            raise QueryError("weights must lie in [0, 1]")
        table = np.rint(given.reshape(shape) * resolution).astype(np.int64)
        return cls.of_table(schema, positions, table, resolution)

    @classmethod
    def _from_masks(cls, schema: Schema, masks: Mapping[int, Flags]) -> Query:
        """The canonical query of a product of sets."""
        if not all(mask.any() for mask in masks.values()):
            return cls.none(schema)
        kept = sorted(position for position, mask in masks.items() if not mask.all())
        return cls(schema, tuple(kept), masks=tuple(masks[position].copy() for position in kept))

    @classmethod
    def of_table(cls, schema: Schema, positions: tuple[int, ...], table: Ints, scale: int) -> Query:
        """The query of integer weights 0..scale over the attributes' joint values."""
        axes = [axis for axis in range(table.ndim) if _matters(table, axis)]
        table = table[tuple(slice(None) if axis in axes else 0 for axis in range(table.ndim))]
        kept = tuple(positions[axis] for axis in axes)
        if table.size > MAX_TABLE:
            raise too_large(schema, kept)
        divisor = math.gcd(scale, int(np.gcd.reduce(table, axis=None)))
        table, scale = table // divisor, scale // divisor
        if scale == 1 and table.any():
            sets = tuple(_support(table, axis) for axis in range(table.ndim))
            if math.prod(int(each.sum()) for each in sets) == int(table.sum()):
                return cls(schema, kept, masks=sets)
        return cls(schema, kept, table=np.array(table, dtype=np.int64), scale=scale)

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt by `_restore`: a plain copy would have writable arrays, and a hash that holds in this process only.
        return _restore, (self.schema, self.attributes, self.masks, self.table, self.scale)

    # -- what a query is ------------------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the attributes that matter."""
        return tuple(self.schema.shape[position] for position in self.attributes)

    @cached_property
    def joint(self) -> int:
        """The number of joint values of the attributes that matter."""
        return math.prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes that matter."""
        return tuple(self.schema.names[position] for position in self.attributes)

    @property
    def counting(self) -> bool:
        """Whether every row weighs 0 or 1."""
        return self.scale == 1

    @property
    def constant(self) -> bool:
        """Whether every row weighs the same: the answer is public."""
        return not self.attributes

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        arrays = self.masks or () if self.table is None else (self.table,)
        return _ITSELF + sum(array.nbytes for array in arrays)

    @cached_property
    def spread(self) -> int:
        """The largest weight less the smallest: replacing one row moves the weighted count by at most this."""
        if self.table is None:
            return 0 if self.constant else 1
        return int(self.table.max() - self.table.min())

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value of a cell, and so of any database."""
        if self.table is None:
            return (1.0, 1.0) if self.constant else (0.0, 1.0)
        return float(self.table.min()) / self.scale, float(self.table.max()) / self.scale

    def weights(self) -> Ints:
        """The weights, in units of 1/scale, over the joint values of the attributes that matter, as one table."""
        if self.table is not None:
            return self.table
        if self.joint > MAX_TABLE:
            raise too_large(self.schema, self.attributes)
        assert self.masks is not None
        table = np.ones((), dtype=np.int64)
        for mask in self.masks:
            table = table[..., np.newaxis] * mask
        return table

    def _key(self) -> tuple[Any, ...]:
        sets = None if self.masks is None else [mask.tobytes() for mask in self.masks]
        table = None if self.table is None else self.table.tobytes()
        return self.attributes, self.scale, None if sets is None else tuple(sets), table

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        if self is other:
            return True
        # By digests, which are kept: thousands of large queries are compared while a vault is held.
        return hash(self) == hash(other) and self.digest == other.digest and self.schema == other.schema

    def __hash__(self) -> int:
        # Cached by hand: in a batch of thousands a cached_property, which takes a lock, would be half of the cost.
        found = self._hash
        if found is None:
            found = self.__dict__["_hash"] = hash((self.schema.fingerprint, self._key()))
        return found

    @property
    def digest(self) -> bytes:
        """32 bytes that identify this query among those of its schema, in any process: SHA-256 of its weights."""
        found = self._digest
        if found is None:
            head = f"{self.attributes} {self.scale} {self.table is None}\n".encode()
            arrays = self.masks if self.table is None else (self.table,)
            found = sha256(b"".join([head, *[array.tobytes() for array in arrays or ()]])).digest()
            self.__dict__["_digest"] = found
        return found

    def __str__(self) -> str:
        return str(provided("query_text")(self))

    def __repr__(self) -> str:
        return f"Query({str(self)!r})"

    # -- lenses ---------------------------------------------------------------------------------------------------

    def under(self, lens: Schema) -> Query:
        """The same query as one about the codes of a lens, which tells at least as much apart."""
        if lens is self.schema or lens == self.schema:
            return self
        maps = [coarser(self.schema, lens, position) for position in self.attributes]
        codes = [each for each in maps if each is not None]
        if len(codes) < len(maps) or lens.names[: len(self.schema.names)] != self.schema.names:
            raise QueryError("the query tells more apart than the schema that it is asked about")
        if self.masks is not None:
            sets = tuple(mask[each] for mask, each in zip(self.masks, codes, strict=True))
            return Query(lens, self.attributes, masks=sets)
        table = self.weights()[np.ix_(*codes)] if codes else self.weights()
        if table.size > MAX_TABLE:
            raise too_large(lens, self.attributes)
        return Query(lens, self.attributes, table=table, scale=self.scale)

    def seen_by(self, coarse: Schema) -> Query:
        """The same query as one about the codes of a schema that this one's refines; refused where that does not tell
        it."""
        if coarse is self.schema or coarse == self.schema:
            return self
        known = len(coarse.names)
        maps = [coarser(coarse, self.schema, each) if each < known else None for each in self.attributes]
        codes = [each for each in maps if each is not None]
        if len(codes) < len(maps):
            raise QueryError("the question is about something that this mechanism was not opened with")
        firsts = [np.unique(each, return_index=True)[1] for each in codes]
        weights = self.weights()
        table = weights[np.ix_(*firsts)] if codes else weights
        if codes and (table[np.ix_(*codes)] != weights).any():
            raise QueryError(
                f"the question tells more apart in {', '.join(self.names)} than this mechanism was opened with: a "
                "mechanism of kind 'rings' answers it"
            )
        return Query.of_table(coarse, self.attributes, table, self.scale)

    # -- algebra --------------------------------------------------------------------------------------------------

    def __and__(self, other: Query) -> Query:
        one, other = self._partners(other)
        for constant, rest in ((one, other), (other, one)):
            if constant.constant:
                return constant if constant.masks is None else rest
        if one.masks is None or other.masks is None:
            return one._combine(other, np.minimum)
        sets = dict(zip(one.attributes, one.masks, strict=True))
        for position, mask in zip(other.attributes, other.masks, strict=True):
            sets[position] = sets[position] & mask if position in sets else mask
        return Query._from_masks(one.schema, sets)

    def __or__(self, other: Query) -> Query:
        one, other = self._partners(other)
        for constant, rest in ((one, other), (other, one)):
            if constant.constant:
                return rest if constant.masks is None else constant
        return one._combine(other, np.maximum)

    def __invert__(self) -> Query:
        """The complement 1 − f: for a counting query, the rows that do not match."""
        if self.masks is not None and len(self.masks) == 1:
            return Query._from_masks(self.schema, {self.attributes[0]: ~self.masks[0]})
        return Query.of_table(self.schema, self.attributes, self.scale - self.weights(), self.scale)

    def _partners(self, other: Query) -> tuple[Query, Query]:
        """Both queries, about one lens."""
        if not isinstance(other, Query):
            raise QueryError(f"a query combines with a query, not with {type(other).__name__}")
        if not (self.counting and other.counting):
            raise QueryError("AND and OR combine counting queries; a weighted query has only a complement")
        one, another = (self, other) if self.schema == other.schema else alike([self, other])
        return one, another

    def _combine(self, other: Query, operation: np.ufunc) -> Query:
        union = tuple(sorted({*self.attributes, *other.attributes}))
        if math.prod(self.schema.shape[position] for position in union) > MAX_TABLE:
            raise too_large(self.schema, union)
        table = operation(self._spread_over(union), other._spread_over(union))
        return Query.of_table(self.schema, union, table, 1)

    def _spread_over(self, positions: tuple[int, ...]) -> Ints:
        """The weights as a table over more attributes (broadcastable along the new ones)."""
        shape = tuple(self.schema.shape[p] if p in self.attributes else 1 for p in positions)
        full = tuple(self.schema.shape[p] for p in positions)
        return np.broadcast_to(self.weights().reshape(shape), full)


def alike(queries: Sequence[Query]) -> list[Query]:
    """The same queries about one lens, which tells apart whatever any of their lenses does."""
    schemas = list(dict.fromkeys(query.schema for query in queries))
    if len(schemas) < 2:
        return list(queries)
    try:
        lens = reduce(Schema.joined, schemas)
    except SchemaError:
        raise QueryError("the queries are about different schemas") from None
    return [query.under(lens) for query in queries]


def _matters(table: Ints, axis: int) -> bool:
    return bool((table != np.take(table, [0], axis=axis)).any())


def _support(table: Ints, axis: int) -> Flags:
    """Which codes of one attribute have a positive weight somewhere."""
    rest = tuple(each for each in range(table.ndim) if each != axis)
    return np.asarray(table.any(axis=rest), dtype=np.bool_)


def _asked_code(attribute: Attribute, value: Value) -> int:
    """The code of a value in a query. A value not listed is refused: its cell holds other values, too."""
    code = attribute.code(value)
    if attribute.regular <= code and value is not None and not isinstance(value, Outside) and value == value:
        cells = " and ".join(map(repr, attribute.outside)) or "None"
        raise SchemaError(f"{value!r} is not among {attribute.describe()}; the cells of other values are {cells}")
    return code


def _restore(
    schema: Schema, attributes: tuple[int, ...], masks: tuple[Flags, ...] | None, table: Ints | None, scale: int
) -> Query:
    return Query(schema, attributes, masks=masks, table=table, scale=scale)


def too_large(schema: Schema, positions: tuple[int, ...]) -> QueryError:
    """The error for a query that needs too large a table over these attributes."""
    names = ", ".join(schema.names[position] for position in positions)
    joint = math.prod(schema.shape[position] for position in positions)
    return QueryError(
        f"this query needs a table over {joint:,} joint values of {names}; at most {MAX_TABLE:,} are possible. "
        "A conjunction of conditions on single attributes has no such limit"
    )


# -- evaluation against marginals --------------------------------------------------------------------------------------


Number = TypeVar("Number", np.int64, np.float64)
Marginal: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[Number]]
Attributes: TypeAlias = tuple[int, ...]

_BLOCK: Final = 2**18
"""Intermediate products are kept below this many entries (unless one query has more), within a core's cache."""

_SERIAL: Final = 2**18
"""A matrix product with at most this many multiplications runs on one core: waking others would take longer."""

_FEW: Final = 32
"""The number of queries that share one pass over a marginal too large for `_SERIAL`."""

_EXACT: Final = 2.0**52
"""Integers whose sums stay below this are added exactly by floats, in any order."""


def evaluate(query: Query, marginal: Marginal[Number]) -> Number:
    """Σ weight·marginal, in units of 1/scale: an exact integer for integer marginals.

    ``marginal`` is over the attributes that the query names.
    """
    if query.table is not None:
        return marginal.dtype.type(np.vdot(query.table.astype(marginal.dtype, copy=False), marginal))
    assert query.masks is not None
    # Each sum is over one axis and reads matching codes only; it leaves an array with one axis less.
    result: Any = marginal
    for mask in query.masks:
        result = result.compress(mask, axis=0).sum(axis=0)
    return marginal.dtype.type(result)


def evaluate_many(
    queries: Sequence[Query], marginal_of: Callable[[Attributes], Marginal[Number]], dtype: type[Number]
) -> Marginal[Number]:
    """`evaluate` for a batch: one matrix product per set of attributes, whose marginal ``marginal_of`` gives."""
    values = np.empty(len(queries), dtype=dtype)
    groups: defaultdict[tuple[Attributes, bool], list[int]] = defaultdict(list)
    for index, query in enumerate(queries):
        groups[query.attributes, query.table is None].append(index)
    for (attributes, _), indices in groups.items():
        values[indices] = _evaluate_group([queries[index] for index in indices], marginal_of(attributes))
    return values


def widest(queries: Sequence[Query]) -> int:
    """The largest number of joint values among the queries (of one schema)."""
    if not queries:
        return 1
    shape = queries[0].schema.shape
    # By sets of attributes, of which there are few, however many queries there are.
    return max(math.prod(shape[each] for each in attributes) for attributes in {query.attributes for query in queries})


def _evaluate_group(queries: Sequence[Query], marginal: Marginal[Number]) -> Marginal[Number]:
    """The values of queries of one form over the same attributes."""
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
    """Conjunctions, with the marginal as a matrix of leading by trailing attributes.

    A matrix product sums over the leading sets of all queries, then an inner product over the trailing sets of each.
    """
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
    """rows @ matrix, in parts small enough for one core."""
    step = max(_FEW, _SERIAL // matrix.size)
    return np.concatenate([rows[start : start + step] @ matrix for start in range(0, len(rows), step)])


def _members(sets: Sequence[Flags]) -> Flags:
    """Which joint values are in the product of each query's sets: a row for each query."""
    product = sets[0]
    for each in sets[1:]:
        product = (product[:, :, np.newaxis] & each[:, np.newaxis, :]).reshape(len(product), -1)
    return product


def _split(shape: Sequence[int]) -> tuple[int, int]:
    """The fewest intermediate entries per query, and the number of leading attributes with which they are fewest."""
    return min((math.prod(shape[:lead]) + 2 * math.prod(shape[lead:]), lead) for lead in range(1, len(shape) + 1))
