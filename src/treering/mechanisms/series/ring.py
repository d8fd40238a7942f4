"""A series of `Rings`, with what is known about questions to it: which it covers, how sharply, since when."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from treering.arrays import Ints
from treering.budget.promise import Budget, BudgetKind
from treering.domain.axis import name_of
from treering.domain.groups import Groups
from treering.domain.query import MAX_TABLE, Attributes, Query
from treering.domain.schema import Schema
from treering.domain.sums import Capped, Kept, Sums
from treering.errors import DamagedVault
from treering.gate import Discovered, SegmentBegun
from treering.mechanisms.series.base import Window
from treering.mechanisms.series.root import NO_RELEASES, KeptRoots, RootSeries
from treering.mechanisms.series.tree import Estimates, TreeSeries
from treering.mechanisms.series.view import ROUNDING, Reading, Totals, View, wide_margin
from treering.theory import rings as theory
from treering.theory.continual import Law, bound, by_roots
from treering.theory.sums import union_radius

UNFIT: Final = 4
"""A question gets a series of its own if that, at the usual price, would have less than a quarter of the variance: a
sum of very many groups has a margin that nobody wants."""

_ONE: Final = ((1.0, 1),)
"""The weights of one group."""

_REMEMBERED: Final = 2**28
"""The most bytes of questions that are remembered as unions of groups, for each series."""


def _every(start: int, end: int) -> int:
    """All rows between two sizes."""
    return end - start


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """NOTE: a series was opened: over the ``groups`` of rows that a batch tells apart, at a ``price`` for each row. The
    questions of the batch are registered: they were named before the first noise."""

    series: int
    groups: Groups
    price: Fraction
    registered: tuple[Query, ...]
    sums: Kept | None = None
    """What is kept of each group instead of its rows, or beside them."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRing:
    """A series of a checkpoint: how it was opened, and its state."""

    opened: Opened
    state: KeptRoots | Estimates
    changed: int
    """How many rows were erased or corrected since they were counted."""
    ended: bool
    """Whether the series is over."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRings:
    """NOTE: the whole public state of `Rings`, in place of the events that led to it."""

    rings: tuple[KeptRing, ...]
    found: tuple[Discovered, ...] = ()
    """What was discovered."""

    def unloaded(self) -> tuple[KeptRings, tuple[bytes, ...]]:
        """This note without the releases of its series, and their bytes."""
        held = [each.state.releases for each in self.rings if isinstance(each.state, KeptRoots)]
        return self._with([NO_RELEASES] * len(held)), tuple(each.astype("<i8").tobytes() for each in held)

    def loaded(self, arrays: Sequence[bytes]) -> KeptRings:
        """This note with the releases whose bytes `unloaded` returned."""
        leaves = [len(each.state.edges) - 1 for each in self.rings if isinstance(each.state, KeptRoots)]
        flat = [np.frombuffer(each, "<i8").astype(np.int64, copy=False) for each in arrays]
        found = zip(leaves, flat, strict=True)
        return self._with([each.reshape(number, -1) if number else NO_RELEASES for number, each in found])

    def _with(self, releases: Iterable[Ints]) -> KeptRings:
        rest = iter(releases)
        states = [
            replace(each.state, releases=next(rest)) if isinstance(each.state, KeptRoots) else each.state
            for each in self.rings
        ]
        rings = tuple(replace(ring, state=state) for ring, state in zip(self.rings, states, strict=True))
        return KeptRings(rings, self.found)


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
    """The margin, in rows, of the count of one of its groups now, or when it is next asked. If it has no counts, that
    of a sum, in rows of which each adds half of the range."""
    sums: str | None = None
    """The attribute whose sums it keeps, if any."""
    changed: int = 0
    """How many rows were erased or corrected since they were counted: the margin is as much wider."""
    ended: bool = False
    """Whether it is over."""


class Ring:
    """A series with what is known about questions to it.

    Sums are told in rows: a row at either bound of the range adds ±1 (``theory/sums.py``). Counts that come with sums
    are those of a series at half the price.
    """

    def __init__(
        self, opened: Opened, kind: BudgetKind, beta: float, between: Callable[[int, int], int] = _every
    ) -> None:
        """``between`` says how many of the rows between two sizes were not erased."""
        price, sums = Budget(kind, opened.price), opened.sums
        numbers = opened.groups.number if sums is None else sums.numbers(opened.groups.number)
        make = RootSeries if by_roots(price, numbers) else TreeSeries
        self.number = opened.series
        self.opened = opened
        self.series: RootSeries | TreeSeries = make(opened.groups, price, 0, opened.series, sums)
        self.counted = sums is None or sums.counts
        """Whether rows are counted."""
        self.count_price = price.total if sums is None or not sums.counts else price.total / 2
        """The price at which a series of counts alone would know them as well."""
        self._unit = 1 if sums is None else sums.reach
        self.views: dict[int, View] = {}
        self.totals: dict[int, Totals] = {}
        self.changed, self.ended = 0, False
        self._between = between
        self._beta = beta
        self._classes = opened.groups.classes
        self._reduced: dict[Query, Query | None] = {}
        self._spreads: dict[Query, float] = {}
        self._memory = 0
        """About how many bytes these two have."""
        self._laws: dict[tuple[int, int], Law] = {}

    @cached_property
    def _registered(self) -> frozenset[Query]:
        """The questions that were named before the first noise, about the joint classes."""
        return frozenset(reduced_to(self.opened.groups, query, self._classes) for query in self.opened.registered)

    @cached_property
    def _named(self) -> frozenset[Attributes]:
        """The attributes of these questions."""
        return frozenset(query.attributes for query in self._registered)

    def _is_registered(self, query: Query) -> bool:
        """Whether it, or its complement, which has the same error, was named before the first noise."""
        if query in self._registered:
            return True
        return query.attributes in self._named and query.joint <= MAX_TABLE and ~query in self._registered

    def keep(self) -> KeptRing:
        """The series as a checkpoint has it."""
        return KeptRing(self.opened, self.series.keep(), self.changed, self.ended)

    def restore(self, state: KeptRoots | Estimates, segments: Sequence[SegmentBegun]) -> None:
        """Go on from the state in a checkpoint, with those segments of the gate that are open."""
        match self.series, state:
            case RootSeries() as roots, KeptRoots() as kept:
                roots.restore(kept, segments)
            case TreeSeries() as tree, Estimates() as kept:
                tree.restore(kept, segments)
            case _:
                raise DamagedVault("a checkpoint holds the state of another kind of series: delete the checkpoints")

    def covers(self, query: Query) -> bool:
        """Whether a query's rows are counted: it is a union of groups."""
        return self.counted and not self.ended and self._about(query) is not None

    def sums_up(self, wanted: Sums, query: Query) -> bool:
        """Whether these sums are known for a query: it is a union of groups."""
        sums = self.series.sums
        known = isinstance(sums, Sums) and not self.ended and sums.same_values(wanted)
        return known and self._about(query) is not None

    def clear(self) -> None:
        """The series has grown: make all estimates anew."""
        self.views.clear()
        self.totals.clear()

    def _about(self, query: Query) -> Query | None:
        """A query as one about the joint classes; None if it is no union of groups."""
        try:
            return self._reduced[query]
        except KeyError:
            reduced = self.series.groups.reduced(query, self._classes)
        memory = query.memory + (0 if reduced is None else reduced.memory)
        if self._memory + memory > _REMEMBERED:
            self._reduced.clear()
            self._spreads.clear()
            self._memory = 0
        self._reduced[query] = reduced
        self._memory += memory
        return reduced

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
        return UNFIT * float(self.count_price / usual) ** power

    def starts(self, size: int) -> tuple[int, ...]:
        """The sizes since which rows can be asked about, once the series is current."""
        return self.series.next_starts(size)

    def reaches(self, since: int | None, size: int) -> bool:
        """Whether rows since a size can be asked about, once the series is current."""
        return not since or since in self.starts(size)

    def next_variance(self, query: Query, size: int, since: int | None = None) -> float:
        """The variance of an answer about all rows since a size, once the series is current."""
        return self.next_law(size, since).deviation ** 2 * self.spread(query)

    def next_sum_variance(self, query: Query, size: int, since: int | None = None) -> float:
        """The same for a sum, in rows²."""
        return self.next_law(size, since).deviation ** 2 * theory.chosen_groups(self.reduced(query))

    def next_law(self, size: int, since: int | None = None) -> Law:
        """The law of the noise of a group's rows, or sum, about all rows since a size, once the series is current."""
        asked = size, since or 0
        found = self._laws.get(asked)
        if found is None:
            law = self.series.next_law(*asked)
            found = law if self._unit == 1 else law.scaled(1 / self._unit)
            self._laws = {asked: found}
        return found

    def view(self, since: int) -> View:
        """The estimate of the rows since a size."""
        if since not in self.views:
            window = self._window(since)
            counts = Window(window.start, window.end, window.counts[: self.series.groups.number], window.law)
            errors, rows = bound(window.law, self._classes.shape, self._part / 2), self._between(since, window.end)
            self.views[since] = View(self._classes, counts, errors, max(1, rows))
        return self.views[since]

    def _window(self, since: int) -> Window:
        """The numbers since a size, in rows."""
        found = self.series.window(since)
        if self._unit == 1:
            return found
        return Window(found.start, found.end, found.counts / self._unit, found.law.scaled(1 / self._unit))

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of classes of its attributes."""
        return self._classes.shape

    @property
    def sum_law(self) -> Law:
        """The law of the noise of a group's sum, in rows."""
        return self._window(0).law

    def sum_readings(self, queries: Sequence[Query], since: int) -> list[Reading]:
        """What is known of the sums of queries since a size, in rows."""
        groups = self.series.groups.number
        if since not in self.totals:
            window = self._window(since)
            self.totals[since] = Totals(self._classes, window.counts[-groups:], window.law)
        view, reduced, part = self.totals[since], [self.reduced(query) for query in queries], self._part / 2
        errors = [union_radius(view.law.cell, groups, theory.chosen_groups(query), part) for query in reduced]
        for place, query in enumerate(reduced):
            if query in self._registered:  # (The noise of a sum is not that of its complement.)
                sharp = theory.registered_radius(
                    view.law, theory.plain_spectrum(query), len(self.opened.registered), part
                )
                errors[place] = min(errors[place], sharp)
        return view.readings(reduced, errors)

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """The place of the group of each question that it was opened for, where each has a group of its own."""
        return {meaning(query): place for place, query in enumerate(self.opened.registered)}

    def group_reading(self, place: int) -> Reading:
        """What is known of one group, in rows (of sums: that add the whole range), where every question is about one:
        they were all named before the first noise. Nothing is centred: the total is private."""
        found, groups = self._window(0), self.series.groups.number
        margins = theory.margin(found.law, _ONE), theory.registered_radius(found.law, _ONE, groups, self._part)
        wide = wide_margin(found.law, _ONE)
        return Reading(float(found.counts[place]), *(each * ROUNDING for each in (*margins, wide)))

    @property
    def _part(self) -> float:
        """The share of beta of the counts of one estimate, or of its sums; if there are both, half for each."""
        series = self.series
        share = theory.estimate_share(self._beta, self.number + 1, series.leaf, len(series.boundaries))
        return share / 2 if series.sums is not None and self.counted else share

    def readings(self, queries: Sequence[Query], view: View) -> list[Reading]:
        """What the view says about queries; those that are registered have a smaller error."""
        reduced = [self.reduced(query) for query in queries]
        told = view.readings(reduced)
        return [
            self._sharpened(query, each, view) if self._is_registered(query) else each
            for query, each in zip(reduced, told, strict=True)
        ]

    def _sharpened(self, query: Query, told: Reading, view: View) -> Reading:
        radius = theory.registered_radius(view.law, theory.spectrum(query), len(self.opened.registered), self._part / 2)
        return told._replace(error=min(told.error, view.share(radius)))

    def described(self, schema: Schema, size: int) -> SeriesState:
        """The series, for people who know this schema."""
        groups, kept = self.series.groups, self.series.sums
        sums = kept.sums if isinstance(kept, Capped) else kept
        one = ((1 - 1 / groups.number, 1), (1 / groups.number, groups.number - 1)) if self.counted else ((1.0, 1),)
        return SeriesState(
            tuple(name_of(axis.scalar, schema) for axis in groups.axes),
            groups.number,
            float(self.series.price.total),
            self.series.leaf,
            self.series.size,
            theory.margin(self.next_law(self.series.size if self.ended else size), one) + self.changed,
            None if sums is None else name_of(sums.scalar, schema),
            self.changed,
            self.ended,
        )


@lru_cache(maxsize=2**14)
def meaning(query: Query) -> Hashable:
    """Equal for counting queries that match the same values, under whichever versions of a schema."""
    groups = Groups.of([query])
    return groups.axes, None if groups.table is None else (groups.table.shape, groups.table.tobytes())


def sharp_sum(query: Query, rings: Sequence[Ring], size: int, wanted: float | None, since: int | None) -> bool:
    """Whether some series together are as sharp about a sum, in rows, as is wanted."""
    if not rings or wanted is None:
        return bool(rings)

    def margin(some: Sequence[Ring]) -> float:
        if _added_up(some):
            return theory.NORMAL / math.sqrt(math.fsum(1 / ring.next_sum_variance(query, size, since) for ring in some))
        reduced = [(ring, theory.plain_spectrum(ring.reduced(query))) for ring in some]
        return min(theory.margin(ring.next_law(size, since), plain) for ring, plain in reduced)

    return _sharpest(rings, margin, 2) <= wanted * (1 + 1e-6)


def sharp(query: Query, rings: Sequence[Ring], size: int, wanted: float | None, since: int | None) -> bool:
    """Whether some series together are as sharp about a query as is wanted."""
    if not rings or wanted is None:
        return bool(rings)

    def margin(some: Sequence[Ring]) -> float:
        if _added_up(some):
            return theory.NORMAL / math.sqrt(math.fsum(1 / ring.next_variance(query, size, since) for ring in some))
        return min(theory.margin(ring.next_law(size, since), ring.spectrum(query)) for ring in some)

    return _sharpest(rings, margin, 1) <= wanted * (1 + 1e-6)


def _sharpest(rings: Sequence[Ring], margin: Callable[[Sequence[Ring]], float], unit: int) -> float:
    """The smallest margin of some of these series together, where a row that was changed adds up to ``unit``."""
    found = {ring.changed for ring in rings}
    return min(margin([ring for ring in rings if ring.changed <= most]) + unit * most for most in found)


def _added_up(rings: Sequence[Ring]) -> bool:
    """Whether what series know adds up to a margin by their precisions: normal noise, on a fine grid."""
    return all(isinstance(ring.series, RootSeries) for ring in rings)


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
    parts = [each.times(weight) for weight, (each, _) in zip(weights, told, strict=True)]
    return Reading(
        math.fsum(each.value for each in parts),
        math.sqrt(math.fsum(each.margin**2 for each in parts)),
        math.fsum(each.error for each in parts),
        math.sqrt(math.fsum(each.wide**2 for each in parts)),
    )


def reduced_to(groups: Groups, query: Query, classes: Schema) -> Query:
    """A query that is a union of groups, as one about their joint classes."""
    reduced = groups.reduced(query, classes)
    assert reduced is not None
    return reduced
