"""What current series say about items: answers, estimates, and the noise in them. Free; only public values are read."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from treering.answer import Answer, Estimate, Tail
from treering.budget.promise import BudgetKind
from treering.domain.attribute import Attribute
from treering.domain.language.items import Item
from treering.domain.query import Query
from treering.domain.sums import Grid
from treering.mechanisms.series import estimates
from treering.mechanisms.series.drawing import Drawing, Portion, Source, Stream
from treering.mechanisms.series.estimates import Cells
from treering.mechanisms.series.policy import nothing
from treering.mechanisms.series.ring import combined, weights_of
from treering.mechanisms.series.shelf import Shelf
from treering.mechanisms.series.view import Reading, answer, constant
from treering.theory.continual import Law
from treering.theory.rings import chosen_groups

_EXACT = Reading(0.0, 0.0, 0.0, 0.0)


class Findings:
    """What the series of a shelf, as they are now, say about items. (See `treering.mechanisms.plan.Outcome`.)"""

    def __init__(
        self, shelf: Shelf, kind: BudgetKind, size: int, items: Sequence[Item], since: int | None = None
    ) -> None:
        self._shelf, self._kind, self.size, self._items, self._since = shelf, kind, size, items, since

    def answers(self) -> list[Answer]:
        """See `Outcome.answers`."""
        queries = [item.query for item in self._items]
        told, rows = self._shares(queries), self.size - (self._since or 0)
        return [constant(query, rows) if query.constant else answer(told[query], rows) for query in queries]

    def estimates(self) -> list[Estimate]:
        """See `Outcome.estimates`."""
        shares = self._shares(item.query for item in self._items if item.kind in ("count", "total", "average"))
        sums: dict[int, dict[Query, None]] = {}
        for item in self._items:
            if item.kind in ("sum", "total", "average") and not nothing(item.query):
                sums.setdefault(item.position, {})[item.query] = None
        totals = {
            (position, query): read
            for position, queries in sums.items()
            for query, read in self._totals(position, list(queries)).items()
        }
        return [self._estimate(item, shares, totals) for item in self._items]

    def _estimate(self, item: Item, shares: dict[Query, Reading], totals: dict[tuple[int, Query], Reading]) -> Estimate:
        """An item with its reading, and what is known of the reading's noise."""
        tail: Tail = "log-concave" if self._kind == "pure" else "normal"
        total = totals.get((item.position, item.query), _EXACT)
        if item.kind == "sum":
            return replace(estimates.plain(total), reading=total.value, tail=tail)
        if item.by_cells:
            attribute, cells = _attribute(item), self._cells(item.cells())
            if item.kind == "mean":
                return replace(estimates.average(attribute, cells), tail=tail)
            # An interval of cells has no scale.
            return replace(
                estimates.quantile(estimates.limits_of(attribute, item.cuts), item.level, cells), tail="together"
            )
        rows = self._rows(item.query, shares)
        if item.kind == "count":
            shown = estimates.count(rows, self.size) if item.query.counting else estimates.plain(rows)
            return replace(shown, reading=rows.value, tail=tail)
        grid, normal = Grid.of(_attribute(item)), self._kind != "pure"
        assert grid is not None
        if item.kind == "average":
            return estimates.mean(grid, total, rows, normal)
        return estimates.summed(grid, total, rows, normal, self.size)

    # -- readings -----------------------------------------------------------------------------------------------------

    def _rows(self, query: Query, shares: dict[Query, Reading]) -> Reading:
        """How many rows match a query."""
        if query.constant:
            return _EXACT._replace(value=self.size * int(query.weights()) / query.scale)
        return shares[query].times(self.size)

    def _shares(self, queries: Iterable[Query]) -> dict[Query, Reading]:
        """What all current series say about each query whose answer is not public, combined."""
        asked = [query for query in dict.fromkeys(queries) if not query.constant]
        said: dict[Query, list[tuple[Reading, float]]] = {query: [] for query in asked}
        for ring, able in self._shelf.counting(asked, self._since):
            view = ring.view(self._since or 0)
            variance = view.law.deviation**2
            for query, told in zip(able, ring.readings(able, view), strict=True):
                said[query].append((told, variance * ring.spread(query)))
        return {query: combined(told, self._kind) for query, told in said.items()}

    def _totals(self, position: int, asked: Sequence[Query]) -> dict[Query, Reading]:
        """What all current series say about the sum of an attribute over each query's rows, combined: in rows at the
        bound."""
        said: dict[Query, list[tuple[Reading, float]]] = {query: [] for query in asked}
        for ring, able in self._shelf.summing(position, asked):
            for query, told in zip(able, ring.sum_readings(able, 0), strict=True):
                said[query].append((told, ring.next_sum_variance(query, self.size)))
        return {query: combined(told, self._kind) for query, told in said.items()}

    def _cells(self, queries: Sequence[Query]) -> Cells:
        """What the sharpest series that knows them all says about the cells of a group."""
        real = [query for query in queries if not query.constant]
        if not real:  # No row can match, or all lie in one cell: everything is public.
            counts = [self._rows(query, {}).value for query in queries]
            none = np.zeros(len(queries))
            return Cells(np.array(counts), [0] * len(queries), 1, Law(0.0), none, none)
        rings = (ring for ring, able in self._shelf.counting(real, None) if len(able) == len(real))
        ring = min(rings, key=lambda each: each.next_variance(real[0], self.size))
        view, reduced = ring.view(0), [ring.reduced(query) for query in queries]
        numbers = [chosen_groups(query) for query in reduced]
        below = list(itertools.accumulate(reduced, operator.or_))
        above = [
            *reversed(list(itertools.accumulate(reversed(reduced[1:]), operator.or_))),
            Query.none(below[0].schema),
        ]
        radii = (view.radii(below), view.radii(above))
        return Cells(np.array(view.sums(reduced)), numbers, ring.series.groups.number, view.law, *radii)

    # -- noise --------------------------------------------------------------------------------------------------------

    def drawing(self, sources: Sequence[Source] | None = None) -> Drawing:
        """See `Outcome.drawing`. With the ``sources`` of an earlier drawing of the same items, the noise of what was
        told then."""
        chosen = tuple(self._sources()) if sources is None else sources
        taken = [self._taken(source) for source in chosen]
        variances: dict[int, list[float]] = {}
        for each in taken:
            for place, _, variance in each:
                variances.setdefault(place, []).append(variance)
        weights = {place: iter(weights_of(each, self._kind)) for place, each in variances.items()}
        streams = [
            Stream(
                source,
                self._shelf.rings[source.series].shape,
                [Portion(place, query, next(weights[place])) for place, query, _ in each],
            )
            for source, each in zip(chosen, taken, strict=True)
        ]
        return Drawing(streams, [place for place, item in enumerate(self._items) if item.by_cells])

    def _sources(self) -> Iterator[Source]:
        """The series that are up to date and know some of the items, each with the law of its noise."""
        for kind, position in dict.fromkeys((item.kind, item.position) for item in self._items):
            asked = [item.query for item in self._items if (item.kind, item.position) == (kind, position)]
            if kind == "count":
                yield from (Source(each.number, -1, each.view(0).law) for each, _ in self._shelf.counting(asked, None))
            elif kind == "sum":
                found = self._shelf.summing(position, asked)
                yield from (Source(each.number, position, each.sum_law) for each, _ in found)

    def _taken(self, source: Source) -> list[tuple[int, Query, float]]:
        """What the items take of a source: the place of each, its groups, and the variance that it has there."""
        ring, counts = self._shelf.rings[source.series], source.position < 0
        variance = source.law.deviation**2
        found = []
        for place, item in enumerate(self._items):
            if (item.kind, item.position) != (("count", -1) if counts else ("sum", source.position)):
                continue
            if counts and not item.query.constant and ring.covers(item.query):
                found.append((place, ring.reduced(item.query), variance * ring.spread(item.query)))
            elif not counts and ring.sums_up(self._shelf.sums(source.position), item.query):
                reduced = ring.reduced(item.query)
                if groups := chosen_groups(reduced):
                    found.append((place, reduced, variance * groups))
        return found


def _attribute(item: Item) -> Attribute:
    schema = item.query.schema
    return schema.attributes[schema.names[item.position]]
