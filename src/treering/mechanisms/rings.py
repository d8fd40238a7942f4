"""Rings: sharp answers that are paid for once and kept current.

A question that is new opens a *series* over the groups of rows that its batch tells apart (``mechanisms/series``), at a
price that every row pays once. From then on every question that is a union of those groups is free; rows that came
since pay the same price when it is asked again, and nothing while it is not. ``theory/rings.py`` has the statements:
the margin of one answer, the error of all, the prices.
"""

from __future__ import annotations

import bisect
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from treering.answer import Answer, Estimate, Guarantee
from treering.budget.promise import Budget, Promise
from treering.domain.attribute import OTHER, Attribute, Bins, Outside, Value
from treering.domain.language.items import Item, counts, under_one_lens
from treering.domain.language.measures import Mean, Measure, Quantile, Release, Request, Sum
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query, alike
from treering.domain.schema import Schema
from treering.errors import BudgetExceeded, GuaranteeError, ParameterError, QueryError
from treering.gate import Discovered, Discovery
from treering.mechanisms.base import Answering
from treering.mechanisms.plan import Plan, Stale, wished
from treering.mechanisms.series import quantiles
from treering.mechanisms.series.changes import Changed
from treering.mechanisms.series.drawing import Drawing, Source
from treering.mechanisms.series.findings import Findings
from treering.mechanisms.series.picture import Picture, Sketch
from treering.mechanisms.series.policy import Policy, Steps, batches, needs_of
from treering.mechanisms.series.ring import KeptRing, KeptRings, Opened, SeriesState
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.shelf import Shelf, Shelving
from treering.mechanisms.series.tree import TreeSeries
from treering.mechanisms.series.view import share
from treering.params import Number, probability, whole
from treering.protocols import Database
from treering.theory import rings as theory

__all__ = ["MOST_ROWS_OF_A_TABLE", "Rings", "batches", "wished"]

MOST_ROWS_OF_A_TABLE: Final = 2**16
"""The most groups that `Rings.table` lists."""


class Work(NamedTuple):
    """What a plan of rings does: the series to move, and what is read off in the end."""

    steps: Steps
    items: Sequence[Item]
    undecided: bool
    """Whether finer cuts of quantiles are chosen by what the steps tell: a second step, which may not be taken."""


class Rings(Answering):
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
    notes = (KeptRings, KeptRing, Opened, Changed, *RootSeries.notes, *TreeSeries.notes)

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
        self._pictured: tuple[tuple[object, ...], Picture] | None = None
        self._resume()

    def _resume(self) -> None:
        """See `Mechanism._resume`."""
        self._shelf = Shelf(self._gate, self._beta)
        self._policy = Policy(self._gate, self._shelf, self._pace)

    # -- asking -------------------------------------------------------------------------------------------------------

    def ask(self, query: Question, within: float | None = None, since: int | None = None) -> Answer:
        """The share of the rows that match ``query``, with its margin and its error.

        - ``within``: the margin that is wanted, in rows if it is 1 or more, otherwise as a share of the rows. What is
          known already is used if it is sharp enough; if not, no more is paid than the wish needs
        - ``since``: only rows after this size, which is one of `boundaries`
        """
        return self._answered([understand(query, self._gate.schema, finer=True)], within, since)[0]

    def ask_many(
        self, queries: Iterable[Question], within: float | None = None, since: int | None = None
    ) -> list[Answer]:
        """`ask` for a batch, which is paid for together: the groups of a GROUP BY cost what one count costs, twice."""
        return self._answered(understand_all(queries, self._gate.schema, finer=True), within, since)

    def _answered(
        self, queries: Sequence[Query], within: float | None = None, since: int | None = None
    ) -> list[Answer]:
        """See `Answering._answered`."""
        with self._lock:
            return self.execute(self.plan(counts(queries), within, since)).answers() if queries else []

    def plan(self, items: Sequence[Item], within: float | None = None, since: int | None = None) -> Plan:
        """See `Answering.plan`. Rows that are new since a series was last asked pay its price; to open a series, all
        rows do. With ``since``, items are counts of the rows after that size.

        It waits for nobody: what others move meanwhile is noticed, and then it is made anew while they wait.
        """
        if self._torn:
            with self._lock, self._taking_up():
                pass
        items = under_one_lens(items)
        revision = self._revision
        try:
            found = self._made(items, within, since, revision)
            if revision == self._revision and not self._shelf.moves % 2:
                return found
        except Exception:
            if revision == self._revision and not self._shelf.moves % 2:
                raise
        with self._lock:
            return self._made(items, within, since, self._revision)

    def _made(self, items: Sequence[Item], within: float | None, since: int | None, revision: object) -> Plan:
        if items:
            self._rows_to_share()
        if since is not None:
            self._check_since([item.query for item in items], since)
        wanted = None if within is None else wished(within, self._between(since))
        work = self._work(quantiles.coarse(items), wanted, since)
        price = work.steps.price
        if work.undecided:
            price += self._policy.second(self._gate.budget.total - self._gate.spent - price)
        known = None if work.steps.moves else self._findings(work.items, since)
        return Plan(items, within, price, known, revision, exact=not work.undecided, steps=work)

    def _work(self, items: Sequence[Item], wanted: float | None, since: int | None) -> Work:
        """What to measure for items; if quantiles are known on their grids, for those that finer cuts tell better."""
        steps = self._steps(items, wanted, since)
        gridded = any(item.cuts for item in items)
        if steps.moves or not gridded:
            return Work(steps, items, undecided=gridded)
        sharp = quantiles.finer(items, self._findings(items, since).estimates(), self._shelf.rings)
        try:
            return Work(self._steps(sharp, wanted, since), sharp, undecided=False)
        except (BudgetExceeded, GuaranteeError):  # What is known already will do.
            return Work(steps, items, undecided=False)

    def _steps(self, items: Sequence[Item], wanted: float | None, since: int | None) -> Steps:
        return self._policy.steps(needs_of(items, pure=self._gate.budget.kind == "pure"), wanted, since)

    def execute(self, plan: Plan) -> Findings:
        """See `Answering.execute`."""
        work: Work = plan.steps
        with self._lock:
            if self._torn or plan.revision != self._revision:
                raise Stale
            since = work.steps.since
            with self._taking_up():
                self._shelf.move(work.steps.stale, work.steps.fresh)
                if work.undecided:
                    wanted = None if plan.within is None else wished(plan.within, self._gate.size - (since or 0))
                    second = self._work(work.items, wanted, since)
                    if second.steps.price <= plan.price - work.steps.price:
                        self._shelf.move(second.steps.stale, second.steps.fresh)
                        work = second
            return self._findings(work.items, since)

    @property
    def _revision(self) -> object:
        return self._shelf, self._shelf.moves, self._gate.size

    def drawing(self, items: Sequence[Item], sources: Sequence[Source]) -> Drawing:
        """The noise of what was told of these items, when the series were these ``sources``."""
        with self._lock:
            return self._findings(items, None).drawn(sources)

    def _findings(self, items: Sequence[Item], since: int | None) -> Findings:
        return Findings(self._shelf, self._gate.budget.kind, self._between(None), items, since, self._between(since))

    def _between(self, since: int | None) -> int:
        """How many rows are there, of those that came since a size."""
        return self._gate.rows_between(since or 0, self._gate.size)

    # -- sums, averages, quantiles, tables ----------------------------------------------------------------------------

    def release(self, request: Request, within: float | None = None) -> Release:
        """The measures of a request for each of its groups, paid for together.

        ``within`` is as in `ask`; of a sum, it is the number of rows of which each adds half of the range.
        """
        with self._lock:
            found = self.execute(self.plan(self.items_of(request), within))
            return Release(request, found.size, request.told(found.estimates()))

    def items_of(self, request: Request) -> list[Item]:
        """The items of a request, which must be about this schema."""
        if request.schema != self._gate.schema:
            raise QueryError("the request is about another schema than this database")
        request.check()
        return request.items()

    def sum(self, column: str, where: Question | None = None, within: float | None = None) -> Estimate:
        """The sum of a column of `integers` or `numbers`, over the rows that match ``where``."""
        return self._one(Sum(column), where, within)

    def mean(self, column: str, where: Question | None = None, within: float | None = None) -> Estimate:
        """The average of a column, over the rows that match ``where`` and have a value."""
        return self._one(Mean(column), where, within)

    def quantile(
        self, column: str, level: float = 0.5, where: Question | None = None, within: float | None = None
    ) -> Estimate:
        """The value of a column below which a share ``level`` of the rows lies, of those that match ``where``."""
        return self._one(Quantile(column, level), where, within)

    def _one(self, measure: Measure, where: Question | None, within: float | None) -> Estimate:
        return self.release(Request.of(self._gate.schema, [measure], (), where), within).rows[0][0]

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
            answers = self._answered(queries, within)
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

    # -- values that no list has --------------------------------------------------------------------------------------

    def discover(self, request: Discovery) -> Discovered:
        """See `Gate.discover`; `found` keeps it. The rows that are looked at pay, once, beside the prices of series."""
        with self._lock, self._taking_up():
            return self._shelf.discover(request)

    @property
    def found(self) -> tuple[Discovered, ...]:
        """What was discovered, the oldest first."""
        return tuple(self._shelf.found)

    # -- what was never asked -----------------------------------------------------------------------------------------

    def picture(self, lens: Schema | None = None) -> Picture:
        """A distribution fitted to what all series say now: public. It is fitted anew once they have moved, or where a
        ``lens`` tells more apart."""
        with self._lock:
            schema = self._gate.schema
            known = self._shelf, self._shelf.moves, lens or schema
            if self._pictured is not None and self._pictured[0] == known:
                return self._pictured[1]
            if all(ring.ended for ring in self._shelf.rings):
                raise QueryError("nothing was released yet that a distribution could be fitted to: ask something")
            sketch = Sketch.of(self._shelf.rings, schema, lens or schema)
        found = sketch.fitted()  # It may take a second: others ask meanwhile.
        self._pictured = known, found
        return found

    def estimates(self, queries: Sequence[Query]) -> list[Answer]:
        """See `Answering.estimates`: read off the `picture`."""
        asked, size = alike(queries), self._rows_to_share()
        picture = self.picture(asked[0].schema if asked else None)
        return [Answer(min(1.0, max(0.0, picture.share(query))), 1.0, size, "estimate") for query in asked]

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> pa.Table:
        """See `Mechanism.sample`: rows drawn from the `picture`."""
        return self.picture().sample(rows, generator)

    # -- the public state ---------------------------------------------------------------------------------------------

    @property
    def series(self) -> tuple[SeriesState, ...]:
        """The series that were opened, the oldest first."""
        return tuple(ring.described(self._gate.schema, self._gate.size) for ring in self._shelf.rings)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes that ``since`` may be for some question, increasing."""
        living = (ring for ring in self._shelf.rings if not ring.ended)
        return tuple(sorted({0, *(since for ring in living for since in ring.starts(self._gate.size))}))

    @property
    def halted(self) -> bool:
        """False: there is always something left to ask with."""
        return False

    @property
    def state(self) -> tuple[int, str]:
        """The public state: how many series there are, and a fingerprint of them."""
        return len(self._shelf.rings), self._shelf.fingerprint()

    @property
    def changing(self) -> Shelving:
        """See `Mechanism.changing`."""
        return Shelving(self._shelf, self._lock, self._taking_up)

    @property
    def spare(self) -> Fraction:
        """What the series that are open do not need, now or ever: rows to come pay no more than the sum of the prices.

        (A charge is rounded up by far less than 2^-64 of itself.)
        """
        return max(
            Fraction(0), self._gate.budget.total - max(self._shelf.prices, self._gate.spent) * (1 + Fraction(1, 2**64))
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the present size for the next new question about one condition."""
        size = self._rows()
        price = self._policy.usual(self._gate.budget.total - self._gate.spent, len(self._shelf.rings))
        law = theory.first_law(Budget(self._gate.budget.kind, price), 2)
        part = theory.estimate_share(self._beta, len(self._shelf.rings) + 1, 1, 1) / 2
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
        listed = [ring.described(self._gate.schema, size) for ring in self._shelf.rings]
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
                    "changed": each.changed,
                    "ended": each.ended,
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
            able = [ring for ring in self._shelf.rings if ring.covers(query)]
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

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int | None:
        """See `Mechanism.backlog`."""
        return 0 if self._shelf.due else None

    def condense(self) -> None:
        """See `Mechanism.condense`."""
        with self._lock:
            self._shelf.condense()


def _shown(value: Value, attribute: Attribute) -> Any:
    if isinstance(attribute, Bins):
        return attribute.label(attribute.code(value))
    if value is None or not attribute.other:
        return value
    if isinstance(value, date | Outside):
        return "other" if value is OTHER else attribute.label(attribute.code(value))
    return str(value)
