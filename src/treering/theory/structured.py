"""How far answers stray to queries that name few attributes: there are far fewer of them than sets of cells.

As `treering.theory.centred`: all cells carry independent symmetric noise, the total is known, and the bounds hold for
all queries at once, so for those asked after the noise was seen. That page's bound for all sets of cells must allow for
2^N of them. A query that names attributes with n_1, …, n_a values is one of fewer:

- a *conjunction* whose sets have k_1, …, k_a values, each at least one and not all, is one of Π C(n_i, k_i), and there
  are Π (n_i − 1) such sizes;
- a *table* over the J joint values of these attributes is a query about a histogram of J cells, each the sum of N/J
  cells: J takes the place of N in the bound for subsets one by one, with rarity weights for the set sizes, and the
  bound for masses between two sizes lies on the line between theirs.

Which of the d attributes are named: a of them with weight 1/(d+1), each choice of a alike. Conjunctions and tables have
half of β each, both signs included. For a set of m cells each bound is `set_radius`; the lowest one counts, the bound
for all queries among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from treering.arrays import Floats
from treering.domain.query import Query
from treering.params import probability
from treering.theory.centred import CentredBound, log_choose, set_radius
from treering.theory.pmwg.tight import rarity

Form: TypeAlias = tuple[tuple[int, ...], tuple[int, ...] | float]
"""The attributes that a query names, and the sizes of its sets; for a table, the sum of its weights."""


@dataclass(frozen=True)
class StructuredBound:
    """The bound for all queries of a schema at once, by what they name.

    Guarantee: with probability at least 1 − every.beta − beta, the error of each query, in rows, is within `radius`.
    """

    every: CentredBound
    """The bound for all queries, whatever they name."""
    shape: tuple[int, ...]
    beta: float

    def __post_init__(self) -> None:
        probability(self.beta, "beta")

    @property
    def worst(self) -> float:
        """A bound on the radius of every query."""
        return self.every.worst

    def radius(self, queries: Sequence[Query]) -> Floats:
        """The bound for each query; a constant one has none to fear."""
        forms = [form(query) for query in queries]
        fresh = [each for each in dict.fromkeys(forms) if each not in self._known]
        if fresh:
            lowest = np.minimum(self.every.radius([self._mass(each) for each in fresh]), self._named(fresh))
            self._known.update(zip(fresh, lowest.tolist(), strict=True))
        return np.array([self._known[each] for each in forms])

    @cached_property
    def _known(self) -> dict[Form, float]:
        return {}

    def _joint(self, attributes: tuple[int, ...]) -> int:
        return math.prod(self.shape[position] for position in attributes)

    def _mass(self, each: Form) -> float:
        attributes, sets = each
        cells = self.every.cells // self._joint(attributes)
        return float(cells * (math.prod(sets) if isinstance(sets, tuple) else sets))

    def _named(self, forms: Sequence[Form]) -> Floats:
        """The bounds by what is named: two sets for each form, and how they are weighed."""
        sides = [self._sides(each) for each in forms]
        sizes = np.array([size for pair in sides for size, _, _ in pair])
        tails = np.array([tail for pair in sides for _, tail, _ in pair])
        weights = np.array([weight for pair in sides for _, _, weight in pair])
        bounds = np.zeros(len(sizes))
        real = np.flatnonzero((sizes > 0) & (weights > 0))
        bounds[real] = set_radius(self.every.noise, self.every.cells, sizes[real], tails[real])
        lowest: Floats = (weights * bounds).reshape(-1, 2).sum(axis=1)
        return lowest

    def _sides(self, each: Form) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """The two sets that a query lies between: how many cells, the tail, and the weight of each."""
        attributes, sets = each
        cells, joint = self.every.cells, self._joint(attributes)
        start = math.log(4 / self.beta) + _choosing(len(self.shape), len(attributes))
        if isinstance(sets, tuple):
            size = self._mass(each)
            tail = start + sum(
                _choosing_sets(self.shape[position], chosen) for position, chosen in zip(attributes, sets, strict=True)
            )
            return (min(size, cells - size), tail, 1.0), (0.0, tail, 0.0)
        mass = min(sets, joint - sets)
        low = math.floor(mass)
        part = mass - low
        return (
            self._table_side(start, joint, low, 1 - part),
            self._table_side(start, joint, low + 1 if part > 0 else low, part),
        )

    def _table_side(self, start: float, joint: int, number: int, weight: float) -> tuple[float, float, float]:
        number = min(number, joint - number)
        if number == 0:
            return 0.0, start, weight
        tail = start + log_choose(joint, number) + rarity(math.log(number))
        return float(number * (self.every.cells // joint)), tail, weight


def form(query: Query) -> Form:
    """What the bound of a query depends on. It is its complement's, too, which may be a conjunction: as of a = 1 OR
    b = 2."""
    if query.masks is None and query.counting and not query.constant:
        complement = ~query
        query = query if complement.masks is None else complement
    if query.masks is None:
        assert query.table is not None
        return query.attributes, float(query.table.sum()) / query.scale
    return query.attributes, tuple(int(np.count_nonzero(mask)) for mask in query.masks)


@lru_cache(maxsize=4096)
def _choosing(dimension: int, named: int) -> float:
    """−log of the weight of one choice of attributes."""
    return math.log(dimension + 1) + log_choose(dimension, named)


@lru_cache(maxsize=65536)
def _choosing_sets(values: int, chosen: int) -> float:
    """−log of the weight of one set of values of an attribute."""
    return math.log(values - 1) + log_choose(values, chosen)
