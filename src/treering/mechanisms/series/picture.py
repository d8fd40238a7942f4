"""A picture of the table: a public distribution fitted to everything that the series of `Rings` say now.

It is post-processing of what was released, so it costs nothing and says nothing new about any row. Synthetic rows are
drawn from it, and questions that were never asked are estimated by it, without a bound: how far a fitted number is off
is not known. Sums, differences and later fits never use a fitted number (theory, section 16.3).

*The fit.* Attributes that some series tells together are fitted together, others are independent: the distribution is
a product of tables. Each table starts even and is scaled towards one series after the other (iterative proportional
fitting, which has the largest entropy of all tables that agree with them), sharper series with a larger weight. The
shares of a series are first moved to the nearest ones that are not negative and add up to 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.domain.attribute import Attribute, Bins
from treering.domain.groups import Groups
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError
from treering.mechanisms.histogram.hypothesis import values_of
from treering.mechanisms.series.ring import Ring

MOST_CELLS: Final = 2**18
"""The most cells of one table: a series that would join attributes to a larger one is left out."""
SWEEPS: Final = 40
"""How often the fit goes through all series, at the most."""
WORK: Final = 2**26
"""About how many cells it visits in all: large tables are gone through less often, but 4 times at least."""
_RARE: Final = 1e-3
"""The weight, beside a listed value's, that a cell of unlisted, missing or outlying values begins with."""
_TINY: Final = 1e-15


@dataclass(frozen=True, slots=True)
class Shares:
    """What a series says: the share of each of its groups, and the group of each joint value of some attributes."""

    positions: tuple[int, ...]
    """The attributes, increasing."""
    group: Ints
    """The group of each joint value, as a table with an axis for each attribute; the last one stands for all others."""
    shares: Floats
    deviation: float
    """That of the noise in each share."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A fitted distribution over the joint values of some attributes."""

    positions: tuple[int, ...]
    cells: Floats


@dataclass(frozen=True, slots=True)
class Sketch:
    """What a picture is fitted to."""

    schema: Schema
    told: Sequence[Shares]
    begun: Sequence[Floats]
    """The distribution of each attribute before anything is said."""

    @classmethod
    def of(cls, rings: Sequence[Ring], schema: Schema, lens: Schema) -> Sketch:
        """What some series say of a table with a ``schema``, seen through a ``lens`` of it, or a finer one: the lens is
        cut wherever a series cuts a number."""
        counting = [ring for ring in rings if ring.counted and ring.series.size]
        lens = reduce(_cut_by, (ring.opened.groups for ring in counting), lens)
        told = (_shares(ring, lens) for ring in counting)
        begun = [_even(schema.attributes[name], lens.attributes[name]) for name in lens.names]
        return cls(lens, [each for each in told if each is not None], begun)

    def fitted(self) -> Picture:
        """The picture."""
        listed = sorted(self.told, key=lambda each: (each.deviation, each.positions))
        tables = [_fitted(self.schema, *each, self.begun) for each in _components(self.schema, listed)]
        return Picture(self.schema, tables)


class Picture:
    """A distribution over the cells of a schema, and what can be read off it."""

    def __init__(self, schema: Schema, tables: Sequence[_Table]) -> None:
        """Use `Sketch.fitted`."""
        self.schema = schema
        self._tables = tables

    def share(self, query: Query) -> float:
        """The share of the rows that match a query, by the picture: an estimate without a bound."""
        if query.constant:
            return int(query.weights()) / query.scale
        query = query.under(self.schema)
        if query.masks is not None:
            return math.prod(self._matched(query, table) for table in self._tables)
        if query.joint > MAX_TABLE:
            raise QueryError("the question is about too many joint values to be estimated")
        return float((self._marginal(query.attributes) * query.weights()).sum()) / query.scale

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """Synthetic rows, in the schema's own values. Without a generator, the same ones each time."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise ParameterError("rows", f"must be an integer of at least 0, not {rows!r}")
        codes: dict[int, Ints] = {}
        for number, table in enumerate(self._tables):
            edges = np.cumsum(table.cells.reshape(-1))
            places = _spread(rows, number) if generator is None else generator.random(rows)
            cells = np.searchsorted(edges, places * edges[-1], side="right")
            found = np.unravel_index(np.minimum(cells, len(edges) - 1), table.cells.shape)
            codes.update(zip(table.positions, (each.astype(np.int64) for each in found), strict=True))
        attributes = self.schema.attributes
        columns = {
            name: values_of(attributes[name]).take(pa.array(codes[place]))
            for place, name in enumerate(self.schema.names)
        }
        return pa.table(columns)

    def _matched(self, query: Query, table: _Table) -> float:
        """The share of a table that the query's sets of its attributes have."""
        assert query.masks is not None
        part = table.cells
        for position, mask in zip(query.attributes, query.masks, strict=True):
            if position in table.positions:
                part = part.compress(mask, axis=table.positions.index(position))
        return float(part.sum())

    def _marginal(self, attributes: Sequence[int]) -> Floats:
        """The joint distribution of some attributes."""
        found = np.ones((), dtype=np.float64)
        order: list[int] = []
        for table in self._tables:
            kept = [position for position in table.positions if position in attributes]
            others = tuple(axis for axis, position in enumerate(table.positions) if position not in attributes)
            found = np.multiply.outer(found, table.cells.sum(axis=others))
            order += kept
        return found.transpose([order.index(position) for position in attributes])


def _spread(rows: int, number: int) -> Floats:
    """Numbers in [0, 1), spread evenly, and for each table as if independent of the others: multiples of a root."""
    if number == 0:
        return (np.arange(rows) + 0.5) / max(1, rows)
    prime = next(each for each in itertools.count(2) if _prime(each) == number)
    found: Floats = np.modf((np.arange(rows) + 0.5) * math.sqrt(prime))[0]
    return found


def _prime(number: int) -> int:
    """Which prime a number is, from 1 on; 0 if it is none."""
    if any(number % each == 0 for each in range(2, math.isqrt(number) + 1)):
        return 0
    return 1 + sum(1 for each in range(2, number) if all(each % part for part in range(2, math.isqrt(each) + 1)))


def _cut_by(lens: Schema, groups: Groups) -> Schema:
    for axis in groups.axes:
        for name, attribute in lens.attributes.items():
            if isinstance(attribute, Bins) and (attribute.column or name) == axis.scalar.column and len(axis.cuts):
                within = axis.cuts[(axis.cuts > attribute.edges[0]) & (axis.cuts < attribute.edges[-1])]
                lens = lens.cut({name: within.tolist()})
    return lens


def _shares(ring: Ring, lens: Schema) -> Shares | None:
    """What a series says about the cells of a lens; None if that does not tell its groups apart."""
    groups = ring.opened.groups
    sides = groups.by_codes(lens)
    if sides is None or len({position for position, _ in sides}) < len(sides):
        return None
    order = sorted(range(len(sides)), key=lambda place: sides[place][0])
    positions = tuple(sides[place][0] for place in order)
    if math.prod(lens.shape[position] for position in positions) > MOST_CELLS:
        return None
    plain = np.arange(groups.number).reshape(groups.shape) if groups.table is None else groups.table
    group = plain[np.ix_(*(classes for _, classes in sides))].transpose(order)
    view = ring.view(0)
    shares = view.counts / view.size
    rest = max(0.0, 1.0 - float(shares.sum()))
    number = len(shares)
    return Shares(
        positions,
        np.where(group < 0, number, group),
        _projected(np.append(shares, rest)) if (group < 0).any() else np.append(_projected(shares), 0.0),
        view.law.deviation / view.size,
    )


def _projected(shares: Floats) -> Floats:
    """The nearest shares that are not negative and add up to 1."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(ordered) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    found: Floats = np.maximum(shares - excess[last], 0.0)
    return found


def _even(declared: Attribute, lens: Attribute) -> Floats:
    """The codes of a lens, evenly: each declared value or bin has as much, and parts of a bin have it by their widths.
    Cells of unlisted, missing and outlying values have very little."""
    found = np.where(np.arange(lens.size) < lens.regular, 1.0, _RARE)
    if isinstance(declared, Bins) and isinstance(lens, Bins):
        lows, widths = np.array(lens.edges[:-1]), np.diff(lens.edges)
        home = np.clip(np.searchsorted(declared.edges, lows, side="right") - 1, 0, declared.regular - 1)
        found[: lens.regular] = widths / np.bincount(home, widths, declared.regular)[home]
    even: Floats = found / found.sum()
    return even


# -- fitting -----------------------------------------------------------------------------------------------------------


def _components(schema: Schema, told: Sequence[Shares]) -> list[tuple[tuple[int, ...], list[Shares]]]:
    """The attributes that are fitted together, with what is said of them; the sharpest series first."""
    homes: list[tuple[set[int], list[Shares]]] = [({position}, []) for position in range(len(schema.names))]
    for each in told:
        met = [home for home in homes if home[0] & set(each.positions)]
        union = set().union(*(home[0] for home in met))
        if math.prod(schema.shape[position] for position in union) > MOST_CELLS:
            continue
        homes = [home for home in homes if home not in met]
        homes.append((union, [*(part for _, parts in met for part in parts), each]))
    return [(tuple(sorted(positions)), parts) for positions, parts in homes]


def _fitted(schema: Schema, positions: tuple[int, ...], told: Sequence[Shares], begun: Sequence[Floats]) -> _Table:
    """The distribution of some attributes that fits what is said."""
    shape = tuple(schema.shape[position] for position in positions)
    cells = reduce(np.multiply.outer, (begun[position] for position in positions), np.ones(()))
    spread = [np.broadcast_to(_along(each, positions), shape).reshape(-1) for each in told]
    flat = cells.reshape(-1)
    least = min((each.deviation for each in told), default=0.0)
    sweeps = max(4, min(SWEEPS, WORK // (flat.size * max(1, len(told))))) if told else 0
    for sweep in range(sweeps):
        for each, group in zip(told, spread, strict=True):
            now = np.bincount(group, flat, len(each.shares))
            weight = (least / each.deviation if each.deviation else 1.0) * (1.0 if sweep < sweeps // 2 else 0.5)
            flat = flat * (((each.shares + _TINY) / (now + _TINY)) ** weight)[group]
            flat /= flat.sum()
    return _Table(positions, flat.reshape(shape))


def _along(told: Shares, positions: tuple[int, ...]) -> Ints:
    """The groups of what is said, as a table with an axis for each of some attributes."""
    sizes = iter(told.group.shape)
    return told.group.reshape([next(sizes) if position in told.positions else 1 for position in positions])
