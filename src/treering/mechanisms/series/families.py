"""What is asked about persons, as families of disjoint groups: a series counts the groups of one family.

A person may be in several groups, so a union of groups is not their sum, and what one series tells is its own groups
and nothing else. Questions that are asked together and do not overlap are one family, for one price.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from treering.domain.language.items import Item
from treering.domain.query import Query
from treering.domain.sums import Capped, Sums
from treering.errors import QueryError
from treering.mechanisms.series.ring import Ring, meaning


class Want(NamedTuple):
    """What counts of each person: at most ``each`` rows in a group, and ``most`` in all; or the sum of the attribute at
    a ``position`` over these rows."""

    each: int
    most: int
    limit: int
    """The most rows that a person can have."""
    position: int = -1

    @classmethod
    def of(cls, item: Item, limit: int) -> Want:
        """What an item counts, where a person has at most ``limit`` rows."""
        if not item.query.counting:
            raise QueryError(
                "persons are counted, or some rows of each: not weights, or values worked out from columns"
            )
        if item.kind == "persons":
            return cls(1, min(item.cap, limit) or limit, limit)
        if item.kind not in ("count", "sum"):
            raise QueryError(
                "what is capped for each person is COUNT, SUM and AVG of a column: quantiles are of all rows"
            )
        cap = min(item.cap, limit)
        return cls(cap, cap, limit, item.position if item.kind == "sum" else -1)


class Family(NamedTuple):
    """Disjoint questions about the same of each person, in order."""

    want: Want
    queries: tuple[Query, ...]

    def capped(self, price: Fraction, sums: Sums | None) -> Capped:
        """What a series of these groups counts: a person cannot count more often than the groups allow."""
        each, most, limit, _ = self.want
        return Capped(each, min(most, each * len(self.queries)), limit, price, sums)

    @property
    def bound(self) -> bool:
        """Whether what counts in one group depends on which others there are."""
        return self.want.most < min(self.want.limit, self.want.each * len(self.queries))

    def told(self, ring: Ring, query: Query, sums: Sums | None) -> bool:
        """Whether a series tells what this family asks about one of its questions."""
        kept = ring.series.sums
        assert isinstance(kept, Capped)
        if meaning(query) not in ring.places or kept.each != self.want.each or not _alike(kept.sums, sums):
            return False
        own = kept.most < min(kept.limit, kept.each * ring.series.groups.number)
        if not own and not self.bound:
            return True
        return kept.most == self.want.most and {meaning(each) for each in self.queries} == ring.places.keys()


def _alike(one: Sums | None, other: Sums | None) -> bool:
    return one is other is None or (one is not None and other is not None and one.same_values(other))


def public(item: Item) -> bool:
    """Whether an item's number is public: nothing can match, or all persons do."""
    if not item.query.constant:
        return False
    return int(item.query.weights()) == 0 or (item.kind == "persons" and not item.cap)


def families(items: Iterable[Item], limit: int) -> list[Family]:
    """The families of some items whose numbers are not public."""
    listed: dict[tuple[Want, tuple[int, ...]], dict[Query, None]] = {}
    for item in items:
        want = Want.of(item, limit)
        if not public(item):
            listed.setdefault((want, item.query.attributes), {})[item.query] = None
    return [Family(want, each) for (want, _), queries in listed.items() for each in _disjoint(list(queries))]


def family_of(item: Item, among: Sequence[Family], limit: int) -> Family:
    """The family of an item."""
    want = Want.of(item, limit)
    return next(each for each in among if each.want == want and item.query in each.queries)


def _disjoint(queries: Sequence[Query]) -> list[tuple[Query, ...]]:
    """Queries about the same attributes, in portions that do not overlap."""
    if _apart(queries):
        return [tuple(queries)]
    found: list[list[Query]] = []
    for query in queries:
        home = next((each for each in found if not any(_overlap(query, other) for other in each)), None)
        if home is None:
            found.append([query])
        else:
            home.append(query)
    return [tuple(each) for each in found]


def _apart(queries: Sequence[Query]) -> bool:
    """Whether each query is a set of its own values of one attribute, and equal to the others in all else: quickly."""
    if any(query.masks is None for query in queries):
        return len(queries) == 1
    for side in range(len(queries[0].attributes)):
        seen = queries[0].masks[side].copy() if queries[0].masks is not None else None
        for query in queries[1:]:
            assert query.masks is not None
            assert seen is not None
            if (seen & query.masks[side]).any():
                break
            seen |= query.masks[side]
        else:
            return True
    return len(queries) == 1


def _overlap(one: Query, other: Query) -> bool:
    both = one & other
    return not (both.constant and int(both.weights()) == 0)
