"""What current series say about persons: answers, estimates, and the noise in them. Free; only public values are
read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from treering.answer import Answer, Estimate, Tail
from treering.budget.promise import BudgetKind
from treering.domain.language.items import Item
from treering.domain.query import Query
from treering.mechanisms.series import estimates
from treering.mechanisms.series.drawing import PERSONS, Drawing, Portion, Source, Stream
from treering.mechanisms.series.families import Family, families, family_of, public
from treering.mechanisms.series.ring import Ring, combined, meaning, weights_of
from treering.mechanisms.series.view import Reading, share
from treering.theory.continual import Law

Told: TypeAlias = Callable[[Family, Query], Sequence[Ring]]
"""The series that tell one question of a family."""


class PersonsFindings:
    """What series, as they are now, say about items of persons. (See `treering.mechanisms.plan.Outcome`.)"""

    def __init__(
        self, told: Told, kind: BudgetKind, size: int, persons: int, items: Sequence[Item], limit: int
    ) -> None:
        self._told, self._kind, self.size, self.persons = told, kind, size, persons
        self._items, self._limit = items, limit
        self._families = families(items, limit)

    def answers(self) -> list[Answer]:
        """See `Outcome.answers`: shares of the persons or, of rows, of all rows."""
        return [self._answer(item) for item in self._items]

    def _answer(self, item: Item) -> Answer:
        persons, of = item.kind == "persons", what(item)
        rows = self.persons if persons else self.size
        reading = self._reading(item)
        value = min(1.0, max(0.0, reading.value / rows))
        margin, error = (min(1.0, share(each, rows)) if each else 0.0 for each in (reading.margin, reading.error))
        return Answer(value, error, rows, "measured", margin, of)

    def estimates(self) -> list[Estimate]:
        """See `Outcome.estimates`."""
        tail: Tail = "log-concave" if self._kind == "pure" else "normal"
        return [replace(self._estimate(item), reading=self._reading(item).value, tail=tail) for item in self._items]

    def _estimate(self, item: Item) -> Estimate:
        reading = self._reading(item)
        if item.kind == "sum":
            return estimates.plain(reading)
        return estimates.count(reading, self.persons if item.kind == "persons" else self.size)

    def _reading(self, item: Item) -> Reading:
        """How many persons or rows an item counts."""
        if public(item):
            return Reading(float(int(item.query.weights()) * self.persons), 0.0, 0.0, 0.0)
        said = [
            (ring.group_reading(ring.places[meaning(item.query)]), ring.next_law(self.size).deviation ** 2)
            for ring in self._current(item)
        ]
        return combined(said, self._kind)

    def _current(self, item: Item) -> list[Ring]:
        family = family_of(item, self._families, self._limit)
        return [ring for ring in self._told(family, item.query) if ring.series.size == self.size]

    # -- noise --------------------------------------------------------------------------------------------------------

    def drawing(self, sources: Sequence[Source] | None = None) -> Drawing:
        """See `Outcome.drawing`. With the ``sources`` of an earlier drawing of the same items, the noise of what was
        told then."""
        known = None if sources is None else {each.series: each.law for each in sources}
        taken = self._taken(known)
        laws = {number: listed[0][1].sum_law if known is None else known[number] for number, listed in taken.items()}
        variances: dict[int, list[float]] = {}
        for number, listed in taken.items():
            for place, _ in listed:
                variances.setdefault(place, []).append(laws[number].deviation ** 2)
        weights = {place: iter(weights_of(each, self._kind)) for place, each in variances.items()}
        streams = [
            Stream(
                Source(number, PERSONS, laws[number]),
                listed[0][1].shape,
                [Portion(place, self._group(place, ring), next(weights[place])) for place, ring in listed],
            )
            for number, listed in taken.items()
        ]
        return Drawing(streams, [])

    def _taken(self, known: Mapping[int, Law] | None) -> dict[int, list[tuple[int, Ring]]]:
        """The places of the items that each series tells: those that are current, or these."""
        taken: dict[int, list[tuple[int, Ring]]] = {}
        for place, item in enumerate(self._items):
            if public(item):
                continue
            family = family_of(item, self._families, self._limit)
            for ring in self._told(family, item.query):
                if ring.series.size == self.size if known is None else ring.number in known:
                    taken.setdefault(ring.number, []).append((place, ring))
        return taken

    def _group(self, place: int, ring: Ring) -> Query:
        """The group of an item, as a query about the groups of a series."""
        return Query.where(ring.series.groups.classes, group=ring.places[meaning(self._items[place].query)])


def what(item: Item) -> str:
    """What an item counts, in words."""
    if item.kind == "persons":
        return "persons" if not item.cap else f"persons, each in at most {item.cap:,} of the groups"
    return f"rows, at most {item.cap:,} of each person"
