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
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from treering.answer import Answer, Guarantee
from treering.budget.promise import Budget, Promise
from treering.domain.attribute import OTHER, Attribute, Value
from treering.domain.groups import Groups
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import BudgetExceeded, GuaranteeError, ParameterError, QueryError
from treering.gate import Advanced, Database, Event, Noted, SegmentBegun, SegmentCondensed, SegmentEnded
from treering.mechanisms.base import Answering, Quote
from treering.mechanisms.series.ring import Opened, Ring, SeriesState, combined, reduced_to, sharp
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.tree import TreeSeries
from treering.mechanisms.series.view import Reading, answer, constant, share
from treering.params import Number, probability, whole
from treering.theory import rings as theory
from treering.words import counted

MOST_ROWS_OF_A_TABLE: Final = 2**16
"""The most groups that `Rings.table` lists."""


class Rings(Answering):
    """Counts with small margins, paid for once and kept current, for ever.

    The first question about some groups of rows opens a series: every row pays its price, once. Later questions about
    the same groups, or unions of them, are free, and rows that have come since pay the same price when they are asked.
    New rows bring a budget of their own, so a series never ends, and old answers never wear out.

    *Formal guarantee.* Privacy: (epsilon, delta)-DP for the whole transcript, for ever, for databases that differ in
    one row, replaced, which keeps its arrival time (``budget/rows.py``, ``trusted/combining.py``). Accuracy: each
    answer alone is within its ``margin`` with 95%, if the question was not chosen by looking at noise that the answer
    uses; all answers together, chosen however adaptively, are within their ``error`` with probability at least 1 − beta
    (``theory/rings.py``).

    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that any answer, ever, is outside its error
    - ``pace``: about how many different groups of questions there will be. The first so many series get equal parts of
      four fifths of the budget; later ones get ever smaller parts of the rest, so questions never end

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

    notes = (Opened, *RootSeries.notes, *TreeSeries.notes)

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
        self._rings: list[Ring] = []
        self._segments: dict[int, Ring] = {}
        self._lock = threading.RLock()
        for event in self._gate.history:
            self._follow(event)

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask(self, query: Question, within: float | None = None, since: int | None = None) -> Answer:
        """The share of the rows that match ``query``, with its margin and its error.

        - ``within``: the margin that is wanted, in rows if it is 1 or more, otherwise as a share of the rows. What is
          known already is used if it is sharp enough; if not, no more is paid than the wish needs
        - ``since``: only rows after this size, which is one of `boundaries`
        """
        return self.answer([understand(query, self._gate.schema)], within, since)[0]

    def ask_many(
        self, queries: Iterable[Question], within: float | None = None, since: int | None = None
    ) -> list[Answer]:
        """`ask` for a batch, which is paid for together: the groups of a GROUP BY cost what one count costs, twice."""
        return self.answer(understand_all(queries, self._gate.schema), within, since)

    def answer(self, queries: Sequence[Query], within: float | None = None, since: int | None = None) -> list[Answer]:
        """See `Answering.answer`."""
        if not queries:
            return []
        with self._lock:
            size = self._rows_to_share()
            if since is not None:
                self._check_since(queries, since)
            rows = size - (since or 0)
            wanted = wished(within, rows)
            asked = [query for query in dict.fromkeys(queries) if not query.constant]
            stale, fresh = self._plan(asked, wanted, since)
            with self._gate.transaction():
                for ring in stale:
                    self._advance(ring)
                for opened in fresh:
                    self._open(opened)
            told = self._read(asked, since)
            return [constant(query, rows) if query.constant else answer(told[query], rows) for query in queries]

    def answer_within(self, queries: Sequence[Query], within: float | None) -> list[Answer]:
        """See `Answering.answer_within`."""
        return self.answer(queries, within)

    def price_within(self, queries: Sequence[Query], within: float | None) -> Fraction:
        """See `Answering.price_within`."""
        return self.price_many(queries, within)

    def table(self, attributes: Sequence[str], where: Question | None = None, within: float | None = None) -> pa.Table:
        """The counts of all groups that some attributes make, as an Arrow table: a column for each attribute, then
        ``count`` and ``margin`` in rows.

        ``where`` counts only rows that match it; ``within`` is as in `ask`. Values that are not listed are shown as the
        text "other", and all values of such an attribute as text, then.
        """
        schema = self._gate.schema
        names = [attributes] if isinstance(attributes, str) else list(dict.fromkeys(attributes))
        positions = [schema.index(name) for name in names]
        groups = math.prod(schema.shape[position] for position in positions)
        if groups > MOST_ROWS_OF_A_TABLE:
            raise QueryError(f"a table of {groups:,} groups is too long: at most {MOST_ROWS_OF_A_TABLE:,} are listed")
        condition = Query.all(schema) if where is None else understand(where, schema)
        rows: list[tuple[Value, ...]] = [()]
        for name in names:
            attribute = schema.attributes[name]
            rows = [(*row, attribute.value(code)) for row in rows for code in range(attribute.size)]
        queries = [Query.where(schema, **dict(zip(names, row, strict=True))) & condition for row in rows]
        answers = self.answer(queries, within)
        columns = [
            [_shown(value, schema.attributes[name]) for value in column]
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        ]
        columns += [[each.count for each in answers], [each.count_margin for each in answers]]
        return pa.Table.from_arrays([pa.array(column) for column in columns], names=[*names, "count", "margin"])

    def price(self, query: Question, within: float | None = None) -> Fraction:
        """The most that asking this query next costs a row, in the budget's unit, but for rounding: free to ask."""
        return self.price_many([query], within)

    def price_many(self, queries: Iterable[Question], within: float | None = None) -> Fraction:
        """`price` for a batch. Rows that are new since a series was last asked pay its price; to open a series, all
        rows do."""
        with self._lock:
            return _price_of(*self._planned(understand_all(queries, self._gate.schema), within))

    def quote(self, queries: Sequence[Query], within: float | None = None) -> Quote:
        """See `Answering.quote`. What the budget does not cover has no price: rows that are new to a series pay for it
        with a budget of their own. Where a segment of the series ends, they get back what was not used of it."""
        with self._lock:
            stale, fresh = self._planned(queries, within)
            return Quote(_price_of(stale, fresh), enough=True, exact=not stale)

    def known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """See `Answering.known`."""
        with self._lock:
            return self.answer(queries) if self.price_many(queries) == 0 else None

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    def series(self) -> tuple[SeriesState, ...]:
        """The series that were opened, the oldest first."""
        return tuple(ring.described(self._gate.schema.names, self._gate.size) for ring in self._rings)

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
        names = self._gate.schema.names
        size = self._gate.size
        listed = [ring.described(names, size) for ring in self._rings]
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
                }
                for each in listed
            ],
            "left": {"oldest": self.left(1), "newest": self.left(max(1, size)), "next": self.left(size + 1)},
        }

    # -- the policy ---------------------------------------------------------------------------------------------------

    @property
    def _least_left(self) -> Fraction:
        return self._gate.budget.total - self._gate.spent

    def _usual(self, left: Fraction, opened: int) -> Fraction:
        return theory.usual_price(self._gate.budget.total, left, opened, self._pace)

    def _plan(self, asked: Sequence[Query], wanted: float | None, since: int | None) -> tuple[list[Ring], list[Opened]]:
        """Which series to bring up to date, and which to open, so that each query can be answered: from public values.

        Nothing is charged here; a plan that the budget does not cover raises.
        """
        size = self._gate.size
        stale: list[Ring] = []
        missing: list[Query] = []
        able_of = self._able(asked, wanted, since)
        # Those with the fewest series come first: what they need is then there for the others.
        for query in sorted(asked, key=lambda each: len(able_of[each])):
            able = able_of[query]
            if len(able) > 1:
                able.sort(key=lambda ring: (ring.next_variance(query, size, since), ring.number))
            current = [ring for ring in able if ring.series.size == size or ring in stale]
            for ring in able:
                if sharp(query, current, size, wanted, since):
                    break
                if ring not in current:
                    stale.append(ring)
                    current.append(ring)
            if not sharp(query, current, size, wanted, since):
                missing.append(query)
        if missing and since:
            raise self._too_wide(missing, wanted)
        return stale, self._openings(missing, wanted)

    def _planned(self, queries: Sequence[Query], within: float | None) -> tuple[list[Ring], list[Opened]]:
        """The plan for a batch as it would be asked next."""
        asked = [query for query in dict.fromkeys(queries) if not query.constant]
        return self._plan(asked, wished(within, self._rows_to_share()), None)

    def _able(self, asked: Sequence[Query], wanted: float | None, since: int | None) -> dict[Query, list[Ring]]:
        """The series that can answer each query.

        Without a wish, and before there are ``pace`` series, those that a query would have to sum very many groups of
        do not count: it gets a series of its own.
        """
        rings = [ring for ring in self._rings if ring.reaches(since, self._gate.size)]
        able = {query: [ring for ring in rings if ring.covers(query)] for query in asked}
        if wanted is not None or since or len(self._rings) >= self._pace or self._least_left <= 0:
            return able
        usual = self._usual(self._least_left, len(self._rings))
        own = _spreads(tuple(asked), self._gate.schema)
        most = {ring: ring.most_spread(usual) for ring in rings}
        return {
            query: [ring for ring in each if ring.spread(query) <= most[ring] * own[query]]
            for query, each in able.items()
        }

    def _openings(self, missing: Sequence[Query], wanted: float | None) -> list[Opened]:
        """The series that must be opened for some queries, and their prices."""
        left = self._least_left
        opened: list[Opened] = []
        for batch in batches(missing):
            groups = Groups.atoms(batch)
            number = len(self._rings) + len(opened)
            usual = self._usual(left, number)
            price = usual if wanted is None else self._price(batch, groups, wanted)
            if price <= 0 or price > left:
                raise self._unaffordable(batch, groups, wanted, price, left)
            self._check_worth(batch, groups, price)
            opened.append(Opened(number, groups, price, tuple(batch)))
            left -= price
        return opened

    def _price(self, batch: Sequence[Query], groups: Groups, wanted: float) -> Fraction:
        """What it takes for every query of a batch to be within what is wanted, given what is known already.

        At least as much as the dearest series that knows one of them: otherwise a question asked again and again with
        the same wish would open ever smaller ones.
        """
        kind, classes = self._gate.budget.kind, groups.classes(self._gate.schema)
        prices = [Fraction(0)]
        for query in batch:
            reduced = reduced_to(groups, query, classes)
            known = [ring for ring in self._rings if ring.covers(query)]
            dearest = max((ring.series.price.total for ring in known), default=Fraction(0))
            rest = theory.missing(wanted, [ring.next_variance(query, self._gate.size) for ring in known], kind)
            prices.append(max(theory.price_of(rest, theory.spectrum(reduced), groups.number, kind), dearest))
        return max(prices)

    def _check_worth(self, batch: Sequence[Query], groups: Groups, price: Fraction) -> None:
        """Refuse to pay for an answer whose margin is all rows there are."""
        size, classes = self._gate.size, groups.classes(self._gate.schema)
        law = theory.first_law(Budget(self._gate.budget.kind, price), groups.number)
        least = min(theory.margin(law, theory.spectrum(reduced_to(groups, query, classes))) for query in batch)
        if least >= size:
            raise GuaranteeError(
                f"with what is left of epsilon a count is known within {least:,.0f} rows, and there are {size:,}; it "
                f"takes at least {counted(math.floor(least) + 1, 'row')}, or a larger epsilon"
            )

    def _unaffordable(
        self, batch: Sequence[Query], groups: Groups, wanted: float | None, price: Fraction, left: Fraction
    ) -> BudgetExceeded:
        """The refusal of a batch that ``left`` does not pay for, with what would do."""
        budget = self._gate.budget
        remedy = "questions that were answered before stay free"
        if wanted is not None and left > 0:
            classes = groups.classes(self._gate.schema)
            law = theory.first_law(Budget(budget.kind, left), groups.number)
            best = max(theory.margin(law, theory.spectrum(reduced_to(groups, query, classes))) for query in batch)
            at = math.ceil(self._gate.size * best / wanted)
            remedy = (
                f"with all that is left a margin of {best:,.0f} rows can be had instead of {wanted:,.0f}, and the same "
                f"share of the rows from {at:,} rows on"
            )
        return BudgetExceeded(
            budget.unit, spent=budget.total - left, requested=price, total=budget.total, remedy=remedy
        )

    def _too_wide(self, missing: Sequence[Query], wanted: float | None) -> ParameterError:
        return ParameterError(
            "within" if wanted is not None else "since",
            f"cannot be had for {len(missing)} of the queries: the rows of a period that is over are counted once",
        )

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

    def _advance(self, ring: Ring) -> None:
        ring.series.advance(self._gate)
        ring.views.clear()

    def _open(self, opened: Opened) -> None:
        self._follow(self._gate.note(opened))
        self._advance(self._rings[-1])

    def _follow(self, event: Event) -> None:
        """Take up an event of the gate."""
        if isinstance(event, Noted) and isinstance(event.note, Opened):
            self._rings.append(Ring(event.note, self._gate.budget.kind, self._gate.schema, self._beta))
        elif isinstance(event, SegmentBegun | SegmentEnded):
            ring = self._rings[event.series]
            self._segments[event.segment] = ring
            ring.series.follow(event)
        elif isinstance(event, Advanced | SegmentCondensed):
            self._segments[event.segment].series.follow(event)

    def _read(self, asked: Sequence[Query], since: int | None) -> dict[Query, Reading]:
        """What all current series say about each query, combined."""
        said: dict[Query, list[tuple[Reading, float]]] = {query: [] for query in asked}
        for ring in self._rings:
            if ring.series.size != self._gate.size or not ring.reaches(since, self._gate.size):
                continue
            able = [query for query in asked if ring.covers(query)]
            if able:
                view = ring.view(since or 0)
                variance = view.law.deviation**2
                for query, told in zip(able, ring.readings(able, view), strict=True):
                    said[query].append((told, variance * ring.spread(query)))
        return {query: combined(told, self._gate.budget.kind) for query, told in said.items()}


def wished(within: float | None, size: int) -> float | None:
    """The margin that is wanted, in rows."""
    if within is None:
        return None
    if isinstance(within, bool) or not isinstance(within, int | float) or not within > 0 or math.isinf(within):
        raise ParameterError("within", f"must be a positive number: rows, or a share of them below 1; not {within!r}")
    rows = float(within) if within >= 1 else float(within) * size
    if rows > size:
        raise ParameterError("within", f"must be at most {size:,}, the number of rows, not {within:,}")
    return rows


def _price_of(stale: Iterable[Ring], fresh: Iterable[Opened]) -> Fraction:
    """What the newest row pays for bringing some series up to date and opening others."""
    opening = sum((each.price for each in fresh), Fraction(0))
    return opening + sum((ring.series.price.total for ring in stale), Fraction(0))


def batches(queries: Sequence[Query]) -> list[list[Query]]:
    """Queries that are answered by one series: for each set of attributes that lies in no other, all within it."""
    sets = sorted({frozenset(query.attributes) for query in queries}, key=lambda each: (-len(each), sorted(each)))
    widest: list[frozenset[int]] = []
    for each in sets:
        if not any(each < other for other in widest):
            widest.append(each)
    found: dict[frozenset[int], list[Query]] = {each: [] for each in widest}
    for query in queries:
        home = next(each for each in widest if set(query.attributes) <= each)
        found[home].append(query)
    return list(found.values())


@lru_cache(maxsize=256)
def _spreads(asked: tuple[Query, ...], schema: Schema) -> dict[Query, float]:
    """The spread that each query would have in a series opened for this batch."""
    spreads: dict[Query, float] = {}
    for batch in batches(asked):
        groups = Groups.atoms(batch)
        classes = groups.classes(schema)
        spreads |= {query: theory.spread(theory.spectrum(reduced_to(groups, query, classes))) for query in batch}
    return spreads


def _shown(value: Value, attribute: Attribute) -> Any:
    if value is None or not attribute.other:
        return value
    return "other" if value is OTHER else str(value)
