"""Trees of AND and OR over sets of one attribute's values: what a predicate means, until it is one query.

Sets of the same attribute are merged as soon as they meet, so ``x >= 0 AND x < 15`` is one set, and a long OR over one
column never becomes a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np

from treering.arrays import Flags
from treering.domain.attribute import Attribute
from treering.domain.language.condition import coarse, cuts
from treering.domain.language.words import Operand, complaint
from treering.domain.query import MAX_TABLE, Query, too_large
from treering.domain.schema import Schema
from treering.errors import QueryError


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A set of one attribute's codes, possibly fine (see `condition`), and the word to blame if it cannot be coarse."""

    position: int
    attribute: Attribute
    flags: Flags
    word: Operand


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All of, or any of, its parts: at most one leaf per attribute, and groups of the other kind."""

    every: bool
    leaves: tuple[Leaf, ...]
    groups: tuple[Group, ...]


Formula: TypeAlias = bool | Leaf | Group


def join(every: bool, parts: Iterable[Formula]) -> Formula:
    """The AND (or, unless ``every``, the OR) of formulas, whose sets it takes over: they are merged in place."""
    leaves: dict[int, Leaf] = {}
    groups: list[Group] = []
    settled = False
    for part in parts:
        if isinstance(part, bool):
            # The parts to come are read all the same: what is wrong with them does not depend on their order.
            settled = settled or part != every
        elif isinstance(part, Leaf):
            _merge(every, leaves, part)
        elif part.every == every:
            groups += part.groups
            for leaf in part.leaves:
                _merge(every, leaves, leaf)
        else:
            groups.append(part)
    kept = [leaf for leaf in leaves.values() if not (leaf.flags.all() if every else not leaf.flags.any())]
    if settled or any(not leaf.flags.any() if every else leaf.flags.all() for leaf in kept):
        return not every
    if len(kept) + len(groups) == 1:
        return (kept + groups)[0]
    return Group(every, tuple(kept), tuple(groups)) if kept or groups else every


def _merge(every: bool, leaves: dict[int, Leaf], leaf: Leaf) -> None:
    known = leaves.get(leaf.position)
    if known is not None:
        blamed = known if cuts(known.attribute, known.flags) else leaf
        (np.bitwise_and if every else np.bitwise_or)(known.flags, leaf.flags, out=known.flags)
        leaf = Leaf(leaf.position, leaf.attribute, known.flags, blamed.word)
    leaves[leaf.position] = leaf


@dataclass(frozen=True, slots=True)
class Meaning:
    """Turns formulas into queries; complaints point into the text."""

    text: str
    schema: Schema

    def query(self, formula: Formula) -> Query:
        """The query of a formula: a conjunction of sets if it is one, else a table."""
        if isinstance(formula, bool):
            return Query.all(self.schema) if formula else Query.none(self.schema)
        if isinstance(formula, Leaf):
            return self._conjunction((formula,))
        if formula.every and not formula.groups:
            return self._conjunction(formula.leaves)
        positions = tuple(sorted(_positions(formula)))
        if math.prod(self.schema.shape[position] for position in positions) <= MAX_TABLE:
            return self._from_table(formula, positions)
        # The sets of an AND need no table, and that of the rest may turn out to be a product of sets as well.
        named = set().union(*map(_positions, formula.groups))
        free = [leaf for leaf in formula.leaves if leaf.position not in named]
        if not formula.every or not free:
            raise too_large(self.schema, positions)
        bound = [leaf for leaf in formula.leaves if leaf.position in named]
        return self._conjunction(free) & self.query(join(True, [*bound, *formula.groups]))

    def _conjunction(self, leaves: Iterable[Leaf]) -> Query:
        return Query.conjunction(self.schema, {leaf.position: self._codes(leaf) for leaf in leaves})

    def _from_table(self, group: Group, positions: tuple[int, ...]) -> Query:
        axes = {position: axis for axis, position in enumerate(positions)}
        shape = tuple(self.schema.shape[position] for position in positions)
        table = np.broadcast_to(self._table(group, axes), shape)
        names = [self.schema.names[position] for position in positions]
        return Query.weighted(self.schema, table, attributes=names, resolution=1)

    def _table(self, group: Group, axes: Mapping[int, int]) -> Flags:
        """A group's joint flags, of length 1 along the attributes that it does not name."""
        combine = np.bitwise_and if group.every else np.bitwise_or
        # Sizes decrease along this list, so small tables meet while they are small and only one is ever large.
        tables: list[Flags] = []
        for table in self._parts(group, axes):
            merged = table
            while tables and tables[-1].size <= merged.size:
                merged = combine(tables.pop(), merged)
            tables.append(merged)
        return reduce(combine, reversed(tables))

    def _parts(self, group: Group, axes: Mapping[int, int]) -> Iterator[Flags]:
        for leaf in group.leaves:
            shape = [1] * len(axes)
            shape[axes[leaf.position]] = leaf.attribute.size
            yield self._codes(leaf).reshape(shape)
        for each in group.groups:
            yield self._table(each, axes)

    def _codes(self, leaf: Leaf) -> Flags:
        try:
            return coarse(self.schema.names[leaf.position], leaf.attribute, leaf.flags)
        except QueryError as error:
            raise complaint(self.text, leaf.word.start, leaf.word.end, str(error)) from None


def _positions(group: Group) -> set[int]:
    return {leaf.position for leaf in group.leaves}.union(*map(_positions, group.groups))
