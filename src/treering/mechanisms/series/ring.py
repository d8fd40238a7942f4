"""A series of `Rings`, with what is known about questions to it: which it covers, how sharply, since when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.promise import Budget, BudgetKind
from treering.domain.groups import Groups
from treering.domain.query import MAX_TABLE, Query
from treering.domain.schema import Schema
from treering.mechanisms.series.base import Series
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.tree import TreeSeries
from treering.mechanisms.series.view import Reading, View
from treering.theory import rings as theory
from treering.theory.continual import Law, bound, by_roots, starts, window_law
from treering.theory.draws import group_noise

UNFIT: Final = 4
"""A question gets a series of its own if that, at the usual price, would have less than a quarter of the variance: a
sum of very many groups has a margin that nobody wants."""

_REMEMBERED: Final = 2**16
"""How many questions are remembered as unions of groups, for each series."""


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """NOTE: a series was opened: over the ``groups`` of rows that a batch tells apart, at a ``price`` for each row. The
    questions of the batch are registered: they were named before the first noise."""

    series: int
    groups: Groups
    price: Fraction
    registered: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class SeriesState:
    """A series as `Rings.series` shows it: all of it public."""

    attributes: tuple[str, ...]
    """The attributes that its groups tell apart."""
    groups: int
    price: float
    """What each row has paid, or will pay when it is asked again, in the budget's unit."""
    answers: int
    """How many times it was brought up to date."""
    size: int
    """The size up to which it is current."""
    margin: float
    """The margin, in rows, of the count of one of its groups now, or when it is next asked."""


class Ring:
    """A series with what is known about questions to it."""

    def __init__(self, opened: Opened, kind: BudgetKind, schema: Schema, beta: float) -> None:
        price = Budget(kind, opened.price)
        make = RootSeries if by_roots(price, opened.groups.number) else TreeSeries
        self.number = opened.series
        self.series: Series = make(opened.groups, price, 0, opened.series)
        self.views: dict[int, View] = {}
        self._beta = beta
        self._classes = opened.groups.classes(schema)
        named = [reduced_to(opened.groups, query, self._classes) for query in opened.registered]
        # A question and its complement have the same error.
        self._registered = frozenset(each for query in named for each in _with_complement(query))
        self._questions = len(named)
        """How many questions are registered."""
        self._reduced: dict[Query, Query | None] = {}
        self._spreads: dict[Query, float] = {}
        self._laws: dict[tuple[int, int], Law] = {}

    def covers(self, query: Query) -> bool:
        """Whether a query is a union of groups."""
        return self._about(query) is not None

    def _about(self, query: Query) -> Query | None:
        """A query as one about the joint classes; None if it is no union of groups."""
        if query not in self._reduced:
            if len(self._reduced) >= _REMEMBERED:
                self._reduced.clear()
                self._spreads.clear()
            self._reduced[query] = self.series.groups.reduced(query, self._classes)
        return self._reduced[query]

    def reduced(self, query: Query) -> Query:
        """A query that is a union of groups, as one about the joint classes."""
        found = self._about(query)
        assert found is not None
        return found

    def spectrum(self, query: Query) -> theory.Spectrum:
        """The centred weights of a query that is a union of groups."""
        return theory.spectrum(self.reduced(query))

    def spread(self, query: Query) -> float:
        """S of a query that is a union of groups."""
        found = self._spreads.get(query)
        if found is None:
            found = self._spreads[query] = theory.spread(self.spectrum(query))
        return found

    def most_spread(self, usual: Fraction) -> float:
        """How many times its spread in a series of its own, at the usual price, a query may have here before that one
        would be far better. (Under zCDP variances are spread over price; under a pure promise, over price squared.)"""
        power = 1 if self.series.price.kind == "zcdp" else 2
        return UNFIT * float(self.series.price.total / usual) ** power

    def starts(self, size: int) -> dict[int, int]:
        """The sizes since which rows can be asked about, once the series is current, each with the leaf that begins
        there: the next leaf begins where the last one ended, and for it some older start is forgotten."""
        series, groups = self.series, self.series.groups.number
        known = dict(zip(series.boundaries, starts(series.price, groups, max(1, series.leaf)), strict=True))
        if size > series.size:
            known[series.size] = series.leaf + 1
            kept = set(starts(series.price, groups, series.leaf + 1))
            known = {since: leaf for since, leaf in known.items() if leaf in kept}
        return known

    def reaches(self, since: int | None, size: int) -> bool:
        """Whether rows since a size can be asked about, once the series is current."""
        return not since or since in self.starts(size)

    def next_variance(self, query: Query, size: int, since: int | None = None) -> float:
        """The variance of an answer about all rows since a size, once the series is current."""
        return self.next_law(size, since).deviation ** 2 * self.spread(query)

    def next_law(self, size: int, since: int | None = None) -> Law:
        """The law of a group's noise about all rows since a size, once the series is current."""
        leaf = max(1, self.series.leaf + (size > self.series.size))
        first = self.starts(size)[since] if since else 1
        if (first, leaf) not in self._laws:
            self._laws = {(first, leaf): window_law(self.series.price, self.series.groups.number, first, leaf)}
        return self._laws[first, leaf]

    def view(self, since: int) -> View:
        """The estimate of the rows since a size."""
        if since not in self.views:
            window = self.series.window(since)
            self.views[since] = View(self._classes, window, bound(window.law, self._classes.shape, self._part / 2))
        return self.views[since]

    @property
    def _part(self) -> float:
        series = self.series
        return theory.estimate_share(self._beta, self.number + 1, series.leaf, len(series.boundaries))

    def readings(self, queries: Sequence[Query], view: View) -> list[Reading]:
        """What the view says about queries; those that are registered have a smaller error."""
        reduced = [self.reduced(query) for query in queries]
        told = view.readings(reduced)
        return [
            self._sharpened(query, each, view) if query in self._registered else each
            for query, each in zip(reduced, told, strict=True)
        ]

    def noise(self, queries: Sequence[Query], view: View, draws: int) -> Floats:
        """The noise of `readings`, in shares, drawn anew from its law: a row for each draw, a column for each query."""
        shape = self._classes.shape
        drawn = group_noise(view.law, draws, self.series.groups.number, f"series {self.number}")
        drawn -= drawn.mean(axis=1, keepdims=True)  # As the estimate is centred: the total is public.
        table = drawn.reshape(draws, *shape)
        sums: dict[tuple[int, ...], Floats] = {}
        found = np.empty((draws, len(queries)))
        for place, query in enumerate(self.reduced(each) for each in queries):
            if query.attributes not in sums:
                others = tuple(axis + 1 for axis in range(len(shape)) if axis not in query.attributes)
                sums[query.attributes] = table.sum(axis=others).reshape(draws, query.joint)
            weights = query.weights().ravel()
            chosen = np.flatnonzero(weights)
            found[:, place] = sums[query.attributes][:, chosen] @ weights[chosen] / (query.scale * view.size)
        return found

    def _sharpened(self, query: Query, told: Reading, view: View) -> Reading:
        radius = theory.registered_radius(view.law, theory.spectrum(query), self._questions, self._part / 2)
        return told._replace(error=min(told.error, view.share(radius)))

    def described(self, names: Sequence[str], size: int) -> SeriesState:
        """The series, for people."""
        groups = self.series.groups
        one = ((1 - 1 / groups.number, 1), (1 / groups.number, groups.number - 1))
        return SeriesState(
            tuple(names[position] for position in groups.attributes),
            groups.number,
            float(self.series.price.total),
            self.series.leaf,
            self.series.size,
            theory.margin(self.next_law(size), one),
        )


def sharp(query: Query, rings: Sequence[Ring], size: int, wanted: float | None, since: int | None) -> bool:
    """Whether some series together are as sharp about a query as is wanted."""
    if not rings or wanted is None:
        return bool(rings)
    if rings[0].series.price.kind == "zcdp":
        precision = math.fsum(1 / ring.next_variance(query, size, since) for ring in rings)
        return theory.NORMAL / math.sqrt(precision) <= wanted * (1 + 1e-6)
    margins = [theory.margin(ring.next_law(size, since), ring.spectrum(query)) for ring in rings]
    return min(margins) <= wanted * (1 + 1e-6)


def weights_of(variances: Sequence[float], kind: str) -> list[float]:
    """How much each of several independent readings counts: by inverse variance if the noise is normal, otherwise the
    best one alone."""
    if kind == "pure":
        best = min(range(len(variances)), key=variances.__getitem__)
        return [float(place == best) for place in range(len(variances))]
    total = math.fsum(1 / variance for variance in variances)
    return [1 / (variance * total) for variance in variances]


def combined(told: Sequence[tuple[Reading, float]], kind: str) -> Reading:
    """Readings of independent noise: combined by inverse variance if the noise is normal, otherwise the best one."""
    if len(told) == 1 or kind == "pure":
        return min(told, key=lambda each: each[1])[0]
    weights = weights_of([variance for _, variance in told], kind)
    value = math.fsum(weight * each.value for weight, (each, _) in zip(weights, told, strict=True))
    error = math.fsum(weight * each.error for weight, (each, _) in zip(weights, told, strict=True))
    margin = math.sqrt(math.fsum((weight * each.margin) ** 2 for weight, (each, _) in zip(weights, told, strict=True)))
    return Reading(value, margin, error)


def reduced_to(groups: Groups, query: Query, classes: Schema) -> Query:
    """A query that is a union of groups, as one about their joint classes."""
    reduced = groups.reduced(query, classes)
    assert reduced is not None
    return reduced


def _with_complement(query: Query) -> tuple[Query, ...]:
    """A query, and its complement unless that is too large to be written down."""
    return (query, ~query) if query.joint <= MAX_TABLE else (query,)
