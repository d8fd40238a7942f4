"""Rings: sharp answers that are paid for once and kept current.

A question that is new opens a *series* over the groups of rows that its batch tells apart (``mechanisms/series``), at a
price that every row pays once. From then on every question that is a union of those groups is free; rows that came
since pay the same price when it is asked again, and nothing while it is not. ``theory/rings.py`` has the statements:
the margin of one answer, the error of all, the prices.
"""

from __future__ import annotations

import bisect
import hashlib
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from treering.answer import Answer, Guarantee
from treering.budget.promise import Budget, Promise
from treering.domain.attribute import OTHER, Attribute, Bins, Outside, Value
from treering.domain.language.items import Item
from treering.domain.language.measures import Measure, Request
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query, alike
from treering.errors import ParameterError, QueryError
from treering.gate import Advanced, Condensed, Event, Noted, SegmentBegun, SegmentCondensed, SegmentEnded
from treering.mechanisms.base import Quote, wished
from treering.mechanisms.measuring import Known, Measuring
from treering.mechanisms.series.drawing import Drawing, Portion, Source, Stream
from treering.mechanisms.series.policy import Asked, Planned, batches
from treering.mechanisms.series.ring import KeptRing, KeptRings, Opened, Ring, SeriesState, combined, weights_of
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.tree import TreeSeries
from treering.mechanisms.series.view import Reading, answer, constant, share
from treering.params import Number, probability, whole
from treering.protocols import Database
from treering.theory import rings as theory

__all__ = ["MOST_ROWS_OF_A_TABLE", "Rings", "batches", "wished"]

MOST_ROWS_OF_A_TABLE: Final = 2**16
"""The most groups that `Rings.table` lists."""


class Rings(Measuring):
    """Counts with small margins, paid for once and kept current, for ever.

    The first question about some groups of rows opens a series: every row pays its price, once. Later questions about
    the same groups, or unions of them, are free, and rows that have come since pay the same price when they are asked.
    New rows bring a budget of their own, so a series never ends, and old answers never wear out.

    *Formal guarantee.* Privacy: (epsilon, delta)-DP for the whole transcript, for ever, for databases that differ in
    one row, replaced, which keeps its arrival time (``budget/rows.py``, ``operations/combine.py``). Accuracy: each
    answer alone is within its ``margin`` with 95%, if the question was not chosen by looking at noise that the answer
    uses; all answers together, chosen however adaptively, are within their ``error`` with probability at least 1 − beta
    (``theory/rings.py``).

    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that any answer, ever, is outside its error
    - ``pace``: about how many different groups of questions there will be. The first so many series get equal parts of
      four fifths of the budget; later ones get ever smaller parts of the rest, so questions never end. From 100 on,
      questions are taken to share nothing: one that is asked by itself is a series of two groups, it and the rest

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)}))
    >>> db.append([{"late": "yes", "month": 1}] * 9000 + [{"late": "no", "month": 2}] * 1000)
    10000
    >>> rings = Rings(db, epsilon=1.0, delta=1e-9, beta=1e-9)
    >>> first = rings.ask("late = 'yes'")
    >>> abs(first.value - 0.9) <= first.error, first.margin < 0.01
    (True, True)
    >>> rings.price("late = 'no'")  # the complement is known now
    Fraction(0, 1)
    """

    follows_schema = True
    notes = (KeptRings, KeptRing, Opened, *RootSeries.notes, *TreeSeries.notes)

    def __init__(
        self,
        db: Database,
        epsilon: Number | Promise,
        delta: Number = 0.0,
        beta: Number = 0.05,
        pace: int = 25,
    ) -> None:
        self._beta = float(probability(beta, "beta"))
        self._pace = whole(pace, "pace")
        super().__init__(db, Promise.of(epsilon, delta))
        self._lock = threading.RLock()
        self._resume()

    def _resume(self) -> None:
        """See `Mechanism._resume`."""
        self._rings: list[Ring] = []
        self._segments: dict[int, Ring] = {}
        self._condensed = 0
        """How many numbers the last checkpoint holds."""
        for event in self._gate.history:
            self._follow(event)

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask(self, query: Question, within: float | None = None, since: int | None = None) -> Answer:
        """The share of the rows that match ``query``, with its margin and its error.

        - ``within``: the margin that is wanted, in rows if it is 1 or more, otherwise as a share of the rows. What is
          known already is used if it is sharp enough; if not, no more is paid than the wish needs
        - ``since``: only rows after this size, which is one of `boundaries`
        """
        return self.answer([understand(query, self._gate.schema, finer=True)], within, since)[0]

    def ask_many(
        self, queries: Iterable[Question], within: float | None = None, since: int | None = None
    ) -> list[Answer]:
        """`ask` for a batch, which is paid for together: the groups of a GROUP BY cost what one count costs, twice."""
        return self.answer(understand_all(queries, self._gate.schema, finer=True), within, since)

    def answer(self, queries: Sequence[Query], within: float | None = None, since: int | None = None) -> list[Answer]:
        """See `Answering.answer`."""
        if not queries:
            return []
        queries = alike(queries)
        with self._lock, self._taking_up():
            size = self._rows_to_share()
            if since is not None:
                self._check_since(queries, since)
            rows = size - (since or 0)
            wanted = None if within is None else wished(within, rows)
            asked = [query for query in dict.fromkeys(queries) if not query.constant]
            self._carry_out(self._plan(Asked(asked), wanted, since))
            told = self._read(asked, since)
            return [constant(query, rows) if query.constant else answer(told[query], rows) for query in queries]

    def answer_within(self, queries: Sequence[Query], within: float | None) -> list[Answer]:
        """See `Answering.answer_within`."""
        return self.answer(queries, within)

    def price_within(self, queries: Sequence[Query], within: float | None) -> Fraction:
        """See `Answering.price_within`."""
        return self.price_many(queries, within)

    def table(
        self,
        attributes: Sequence[str],
        where: Question | None = None,
        within: float | None = None,
        measures: Mapping[str, Measure] | None = None,
    ) -> pa.Table:
        """The counts of all groups that some attributes make, as an Arrow table: a column for each attribute, then
        ``count`` and ``margin`` in rows.

        ``where`` counts only rows that match it; ``within`` is as in `ask`. Values that are not listed are shown as the
        text "other", and all values of such an attribute as text, then. With ``measures`` (a `Count`, `Sum`, `Mean` or
        `Quantile` for each name) there are four columns for each instead: its name, and the name with ``_margin``,
        ``_low`` and ``_high``.
        """
        schema = self._gate.schema
        names = [attributes] if isinstance(attributes, str) else list(dict.fromkeys(attributes))
        positions = [schema.index(name) for name in names]
        groups = math.prod(schema.shape[position] for position in positions)
        if groups > MOST_ROWS_OF_A_TABLE:
            raise QueryError(f"a table of {groups:,} groups is too long: at most {MOST_ROWS_OF_A_TABLE:,} are listed")
        condition = Query.all(schema) if where is None else understand(where, schema, finer=True)
        rows: list[tuple[Value, ...]] = [()]
        for name in names:
            attribute = schema.attributes[name]
            rows = [(*row, attribute.value(code)) for row in rows for code in range(attribute.size)]
        listed = zip(names, zip(*rows, strict=True), strict=True)
        found: list[tuple[str, list[Any]]] = [
            (name, [_shown(value, schema.attributes[name]) for value in column]) for name, column in listed
        ]
        if measures is None:
            queries = [Query.where(schema, **dict(zip(names, row, strict=True))) & condition for row in rows]
            answers = self.answer(queries, within)
            found += [("count", [each.count for each in answers]), ("margin", [each.count_margin for each in answers])]
        else:
            request = Request.of(schema, measures.values(), names, condition)
            found += self._measured_columns(request, measures, within).items()
        return pa.Table.from_arrays([pa.array(column) for _, column in found], names=[name for name, _ in found])

    def _measured_columns(
        self, request: Request, names: Iterable[str], within: float | None
    ) -> dict[str, list[float | None]]:
        """Four columns for each measure of a request."""
        columns: dict[str, list[float | None]] = {}
        for name, estimates in zip(names, zip(*self.release(request, within).rows, strict=True), strict=True):
            columns[name] = [each.value for each in estimates]
            columns[f"{name}_margin"] = [each.margin for each in estimates]
            columns[f"{name}_low"] = [each.low for each in estimates]
            columns[f"{name}_high"] = [each.high for each in estimates]
        return columns

    def price(self, query: Question, within: float | None = None) -> Fraction:
        """The most that asking this query next costs a row, in the budget's unit, but for rounding: free to ask."""
        return self.price_many([query], within)

    def price_many(self, queries: Iterable[Question], within: float | None = None) -> Fraction:
        """`price` for a batch. Rows that are new since a series was last asked pay its price; to open a series, all
        rows do."""
        with self._lock:
            return self._planned_for(understand_all(queries, self._gate.schema, finer=True), within).price

    def quote(self, queries: Sequence[Query], within: float | None = None) -> Quote:
        """See `Answering.quote`. What the budget does not cover has no price: rows that are new to a series pay for it
        with a budget of their own."""
        with self._lock:
            return Quote(self._planned_for(queries, within).price, enough=True, exact=True)

    def _planned_for(self, queries: Sequence[Query], within: float | None) -> Planned:
        """The plan for a batch as it would be asked next."""
        asked = [query for query in dict.fromkeys(alike(queries)) if not query.constant]
        return self._plan(Asked(asked), self._wished(within), None)

    def known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """See `Answering.known`."""
        return self.known_within(queries, None)

    def known_within(self, queries: Sequence[Query], within: float | None) -> list[Answer] | None:
        """See `Answering.known_within`."""
        with self._lock:
            return self.answer(queries, within) if self.price_many(queries, within) == 0 else None

    def drawing(self, items: Sequence[Item], sources: Sequence[Source] | None = None) -> Drawing:
        """See `Measuring.drawing`."""
        with self._lock:
            chosen = tuple(self._sources(items)) if sources is None else sources
            taken = [self._taken(items, source) for source in chosen]
            variances: dict[int, list[float]] = {}
            for each in taken:
                for place, _, variance in each:
                    variances.setdefault(place, []).append(variance)
            weights = {place: iter(weights_of(each, self._gate.budget.kind)) for place, each in variances.items()}
            streams = [
                Stream(
                    source,
                    self._rings[source.series].shape,
                    [Portion(place, query, next(weights[place])) for place, query, _ in each],
                )
                for source, each in zip(chosen, taken, strict=True)
            ]
        return Drawing(streams, [place for place, item in enumerate(items) if item.kind in ("quantile", "mean")])

    def _sources(self, items: Sequence[Item]) -> Iterator[Source]:
        """The series that are up to date and know some of the items, each with the law of its noise."""
        for kind, position in dict.fromkeys((item.kind, item.position) for item in items):
            asked = [item.query for item in items if (item.kind, item.position) == (kind, position)]
            if kind == "count":
                yield from (Source(ring.number, -1, ring.view(0).law) for ring, _ in self._current(asked, None))
            elif kind == "sum":
                yield from (Source(ring.number, position, ring.sum_law) for ring, _ in self._summing(position, asked))

    def _taken(self, items: Sequence[Item], source: Source) -> list[tuple[int, Query, float]]:
        """What items take of a source: the place of each, its groups, and the variance that it has there."""
        ring, counts = self._rings[source.series], source.position < 0
        variance = source.law.deviation**2
        found = []
        for place, item in enumerate(items):
            if (item.kind, item.position) != (("count", -1) if counts else ("sum", source.position)):
                continue
            if counts and not item.query.constant and ring.covers(item.query):
                found.append((place, ring.reduced(item.query), variance * ring.spread(item.query)))
            elif not counts and ring.sums_up(self._sums(source.position), item.query):
                reduced = ring.reduced(item.query)
                if groups := theory.chosen_groups(reduced):
                    found.append((place, reduced, variance * groups))
        return found

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    def series(self) -> tuple[SeriesState, ...]:
        """The series that were opened, the oldest first."""
        return tuple(ring.described(self._gate.schema, self._gate.size) for ring in self._rings)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes that ``since`` may be for some question, increasing."""
        return tuple(sorted({0, *(since for ring in self._rings for since in ring.starts(self._gate.size))}))

    @property
    def halted(self) -> bool:
        """False: there is always something left to ask with."""
        return False

    @property
    def state(self) -> tuple[int, str]:
        """The public state: how many series there are, and a fingerprint of them."""
        prints = [(ring.series.price.total, ring.series.fingerprint()) for ring in self._rings]
        return len(self._rings), hashlib.sha256(repr(prints).encode()).hexdigest()

    @property
    def spare(self) -> Fraction:
        """What the series that are open do not need, now or ever: rows to come pay no more than the sum of the prices.

        (A charge is rounded up by far less than 2^-64 of itself.)
        """
        prices = sum((ring.series.price.total for ring in self._rings), Fraction(0))
        return max(Fraction(0), self._gate.budget.total - max(prices, self._gate.spent) * (1 + Fraction(1, 2**64)))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the present size for the next new question about one condition."""
        size = self._rows()
        price = self._usual(self._least_left, len(self._rings))
        law = theory.first_law(Budget(self._gate.budget.kind, price), 2)
        part = theory.estimate_share(self._beta, len(self._rings) + 1, 1, 1) / 2
        alpha = min(1.0, share(theory.registered_radius(law, ((0.5, 2),), 1, part), size))
        return Guarantee(
            float(self._promise.epsilon),
            float(self._promise.delta),
            alpha,
            self._beta,
            size,
            "each answer alone is within its margin with 95%, and all answers ever given, however chosen, are within "
            "their own errors together; alpha is the error of the next new question about one condition",
        )

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`."""
        size = self._gate.size
        listed = [ring.described(self._gate.schema, size) for ring in self._rings]
        return {
            **super().describe(),
            "series": [
                {
                    "attributes": list(each.attributes),
                    "groups": each.groups,
                    "price": each.price,
                    "answers": each.answers,
                    "size": each.size,
                    "margin": each.margin,
                    "sums": each.sums,
                }
                for each in listed
            ],
            "left": {"oldest": self.left(1), "newest": self.left(max(1, size)), "next": self.left(size + 1)},
        }

    def _check_since(self, queries: Sequence[Query], since: int) -> None:
        """Refuse a size since which some query cannot be answered."""
        whole(since, "since", 0)
        for query in queries:
            if query.constant or since == 0:
                continue
            able = [ring for ring in self._rings if ring.covers(query)]
            sizes = sorted({size for ring in able for size in ring.starts(self._gate.size)})
            if since not in sizes:
                place = bisect.bisect(sizes, since)
                nearest = " or ".join(f"{size:,}" for size in sizes[max(0, place - 1) : place + 1])
                raise ParameterError(
                    "since",
                    f"must be a size at which this question was asked before: {nearest}"
                    if nearest
                    else "must be 0 for a question that was never asked: ask it without since first",
                )

    # -- doing it -----------------------------------------------------------------------------------------------------

    def _carry_out(self, planned: Planned) -> None:
        """Bring series up to date, and open new ones, in one step."""
        if planned.stale or planned.fresh:
            new = [self._ring(opened) for opened in planned.fresh]
            self._gate.prepare([ring.series.coming for ring in (*planned.stale, *new)])
        with self._gate.transaction():
            for ring in planned.stale:
                self._advance(ring)
            for opened in planned.fresh:
                self._open(opened)

    def _planned(self, asked: Asked, wanted: float | None) -> Planned:
        with self._lock:
            return self._plan(asked, wanted, None)

    def _measured(self, asked: Asked, wanted: float | None) -> Known:
        with self._lock, self._taking_up():
            self._carry_out(self._plan(asked, wanted, None))
            sums = {
                (position, query): told
                for position, queries in asked.sums.items()
                for query, told in self._read_sums(position, queries).items()
            }
            summed = [query for queries in asked.sums.values() for query in queries if not query.constant]
            counted = list(dict.fromkeys([*asked.counts, *chain.from_iterable(asked.cells), *summed]))
            return Known(self._gate.size, self._read(counted, None), sums)

    def _advance(self, ring: Ring) -> None:
        ring.series.advance(self._gate)
        ring.clear()

    def _open(self, opened: Opened) -> None:
        self._follow(self._gate.note(opened))
        self._advance(self._rings[-1])

    def _follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, Advanced):
            self._segments[event.segment].series.follow(event)
        elif isinstance(event, Noted) and isinstance(event.note, Opened):
            self._rings.append(self._ring(event.note))
        elif isinstance(event, SegmentBegun | SegmentEnded):
            ring = self._rings[event.series]
            self._segments[event.segment] = ring
            ring.series.follow(event)
        elif isinstance(event, SegmentCondensed):
            self._segments[event.segment].series.follow(event)
        elif isinstance(event, Condensed):
            self._restore(event)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> int:
        """How many numbers a checkpoint would hold."""
        return sum(ring.series.kept for ring in self._rings)

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`. A checkpoint holds all releases of segments in progress, so none is due before a
        quarter as many were made since the last: all checkpoints together hold at most five times what was released."""
        fresh = sum(ring.series.fresh for ring in self._rings)
        return 0 if self._rings and 4 * fresh >= self._condensed else None

    def condense(self) -> None:
        """See `Mechanism.condense`."""
        with self._lock:
            self._gate.condense(KeptRings(tuple(ring.keep() for ring in self._rings)))
            self._condensed = self._kept

    def _restore(self, event: Condensed) -> None:
        self._rings, self._segments = [], {}
        for kept in event.note.rings:
            ring = self._ring(kept.opened)
            segments = [each.begun for each in event.segments if each.begun.series == ring.number]
            ring.restore(kept.state, segments)
            self._segments |= dict.fromkeys((each.segment for each in segments), ring)
            self._rings.append(ring)
        self._condensed = self._kept

    def _current(self, asked: Sequence[Query], since: int | None) -> Iterator[tuple[Ring, list[Query]]]:
        """The series that are up to date, each with the queries that it answers."""
        for ring in self._rings:
            if ring.series.size == self._gate.size and ring.reaches(since, self._gate.size):
                able = [query for query in asked if ring.covers(query)]
                if able:
                    yield ring, able

    def _read(self, asked: Sequence[Query], since: int | None) -> dict[Query, Reading]:
        """What all current series say about each query, combined."""
        said: dict[Query, list[tuple[Reading, float]]] = {query: [] for query in asked}
        for ring, able in self._current(asked, since):
            view = ring.view(since or 0)
            variance = view.law.deviation**2
            for query, told in zip(able, ring.readings(able, view), strict=True):
                said[query].append((told, variance * ring.spread(query)))
        return {query: combined(told, self._gate.budget.kind) for query, told in said.items()}

    def _summing(self, position: int, asked: Sequence[Query]) -> Iterator[tuple[Ring, list[Query]]]:
        """The series that are up to date and sum an attribute, each with the queries that it answers."""
        for ring in self._rings:
            able = [query for query in asked if ring.sums_up(self._sums(position), query)]
            if ring.series.size == self._gate.size and able:
                yield ring, able

    def _read_sums(self, position: int, asked: Sequence[Query]) -> dict[Query, Reading]:
        """What all current series say about the sum of an attribute over each query's rows, combined."""
        said: dict[Query, list[tuple[Reading, float]]] = {query: [] for query in asked}
        for ring, able in self._summing(position, asked):
            for query, told in zip(able, ring.sum_readings(able, 0), strict=True):
                said[query].append((told, ring.next_sum_variance(query, self._gate.size)))
        return {query: combined(told, self._gate.budget.kind) for query, told in said.items()}


def _shown(value: Value, attribute: Attribute) -> Any:
    if isinstance(attribute, Bins):
        return attribute.label(attribute.code(value))
    if value is None or not attribute.other:
        return value
    if isinstance(value, date | Outside):
        return "other" if value is OTHER else attribute.label(attribute.code(value))
    return str(value)
