"""ContinualHistogram: noisy counts of every cell of a growing database, kept current for ever.

It is the series of all cells (``mechanisms/series``). ``theory/continual.py`` proves the errors of its answers.
"""

from __future__ import annotations

import bisect
import math
import threading
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from treering.answer import Answer, Guarantee
from treering.arrays import Floats
from treering.budget.promise import Promise
from treering.domain.groups import Groups
from treering.domain.language.parse import Question, understand_all
from treering.domain.query import Query
from treering.errors import GuaranteeError, ParameterError, TreeringError
from treering.mechanisms.base import Counting
from treering.mechanisms.series.base import Series
from treering.mechanisms.series.leaves import LeafSeries
from treering.mechanisms.series.root import RootSeries
from treering.mechanisms.series.tree import TreeSeries
from treering.mechanisms.series.view import ROUNDING, View, share
from treering.params import Number, probability, whole
from treering.protocols import Database
from treering.theory.continual import (
    Law,
    StructuredBound,
    bound,
    by_roots,
    leaf_beta,
    start_noise,
)
from treering.theory.rings import margin, spectrum
from treering.words import counted

MAX_CELLS: Final = 2**22
"""The most cells: for each of them many numbers are kept, and one or two are drawn for each batch."""


class ContinualHistogram(Counting):
    """The histogram over all cells, current after every append, for an endless stream of batches and questions.

    It starts at its first query: the rows there are become the first batch, and all of epsilon is charged. From then
    on each append is a batch of its own, and every answer is free: about all rows, or with ``since`` about those that
    came after an earlier size. New rows bring a budget of their own, so no row is ever charged again.

    *Formal guarantee.* Privacy: (epsilon, delta)-DP for the whole transcript, for ever, for databases that differ in
    one row, replaced, which keeps its arrival time (see ``operations/combine.py``). Accuracy: with probability at
    least 1 − beta every answer ever given, to whatever queries, chosen however adaptively, is within its ``error``
    (``theory/continual.py``). A query that names few attributes, or that few cells meet (or all but a few), has a small
    error. In rows errors grow with the logarithm of the number of batches alone; as shares they fall as 1/size.

    Answers are of kind "measured": sums of noisy counts of the rows themselves, clipped to [0, 1]. With ``since`` they
    are shares of the rows after that size, and ``answer.size`` is the number of those rows. Sizes at which ``since``
    may point are in `boundaries`: all recent ones, and fewer the longer ago.

    Under delta > 0 and with up to 32,768 cells a number is kept for each cell and batch, up to 2^25 of them; otherwise
    trees need some 4·log2(batches) numbers for each cell. An append draws one number of noise for each cell (trees:
    two, on average), which takes some 15 µs a cell. For large universes use `PMWG`.

    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that any answer, ever, is outside its error
    - ``windows``: True if questions are about the latest batches rather than about all rows: each batch is counted by
      itself, at the whole price. ``since`` may then name the end of every batch (of the last 2^25/cells batches), and a
      batch alone has the least noise there can be; in rows, errors grow as the square root of the number of batches

    >>> import treering as tr
    >>> from treering.mechanisms.continual import ContinualHistogram
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 9000 + [{"late": "no"}] * 1000)
    10000
    >>> histogram = ContinualHistogram(db, epsilon=1.0, beta=1e-9)
    >>> answer = histogram.ask("late = 'yes'")
    >>> abs(answer.value - 0.9) <= answer.error < 0.01
    True
    >>> db.append([{"late": "no"}] * 1000)
    11000
    >>> recent = histogram.ask("late = 'yes'", since=10_000)
    >>> recent.value <= recent.error < 0.15, recent.size, histogram.boundaries
    (True, 1000, (0, 10000))
    """

    notes = (*RootSeries.notes, *TreeSeries.notes, *LeafSeries.notes)

    def __init__(
        self,
        db: Database,
        epsilon: Number | Promise,
        delta: Number = 0.0,
        beta: Number = 0.05,
        *,
        windows: bool = False,
    ) -> None:
        promise = Promise.of(epsilon, delta)
        self._beta = float(probability(beta, "beta"))
        if not isinstance(windows, bool):
            raise ParameterError("windows", f"must be True or False, not {type(windows).__name__}")
        self._by_leaf = windows
        start_noise(promise.budget)  # Refuses an epsilon that is too small.
        if db.schema.cells > MAX_CELLS:
            raise ParameterError(
                "db",
                f"has {db.schema.cells:,} cells, and all of them are kept, with noise drawn for each: at most "
                f"{MAX_CELLS:,} (2^22) can be; use coarser bins(), fewer attributes, or Rings, which count only what "
                "is asked",
            )
        super().__init__(db, promise)
        self._lock = threading.RLock()
        self._resume()
        db.watch(self._grown)

    def _resume(self) -> None:
        """See `Mechanism._resume`."""
        self._views: dict[int, View] = {}
        self._series = self._new_series()
        for event in self._gate.history:
            self._series.follow(event)

    def ask(self, query: Question, since: int | None = None) -> Answer:
        """The share of the rows that match ``query``, with its error.

        With ``since``, a size that is in `boundaries`: the share of the rows that came after the database had this
        size.
        """
        return self.ask_many([query], since)[0]

    def ask_many(self, queries: Iterable[Question], since: int | None = None) -> list[Answer]:
        """`ask` for a batch: all answers are about the same rows."""
        if since is not None:
            whole(since, "since", 0)
        found = understand_all(queries, self._gate.schema)
        return self._answer(found, since) if found else []

    def _answer(self, queries: Sequence[Query], since: int | None = None) -> list[Answer]:
        """See `Counting._answer`."""
        with self._lock:
            self._check_start(since)
            self._catch_up()
            view = self._view(since or 0)
        return view.answers(queries)

    def _known(self, queries: Sequence[Query]) -> list[Answer] | None:
        """See `Counting._known`."""
        with self._lock:
            current = self.batches > 0 and self._series.size == self._gate.size
            return self._answer(queries) if current else None

    def _prospect(self, queries: Sequence[Query]) -> float:
        """See `Counting._prospect`: the margins that these queries will have."""
        with self._lock:
            size = self._rows_to_share()
            law = self._next_law(size)
            return max((share(margin(law, spectrum(query)), size) for query in queries), default=0.0)

    def counts(self, since: int = 0) -> Floats:
        """The estimate of how many rows there are in each cell, in the order of cells; with ``since``, one of the
        `boundaries`, of rows after that size. They sum to the number of rows."""
        with self._lock:
            self._check_start(since)
            self._catch_up()
            return self._view(whole(since, "since", 0)).counts

    def _price(self, queries: Sequence[Query]) -> Fraction:
        """See `Counting._price`: the whole budget for the first query, then 0."""
        self._check_start(None)
        return Fraction(0) if self.batches else self._gate.budget.total

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The sizes that ``since`` may be, increasing: 0, all recent ends of batches, and fewer the longer ago."""
        return self._series.boundaries if self._series.leaf else (0,)

    @property
    def batches(self) -> int:
        """How many batches there have been; the rows present at the first query are the first batch."""
        return self._series.leaf

    @property
    def settled(self) -> bool:
        """Whether the first question was asked, which has paid for all to come."""
        return self.batches > 0

    @property
    def halted(self) -> bool:
        """False: all answers to come are paid for."""
        return False

    @property
    def state(self) -> tuple[int, int, str]:
        """The public state: number of batches, size at the end of the last one, and a fingerprint of all estimates."""
        return self.batches, self._series.size, self._series.fingerprint()

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the present size for queries about all rows. Most queries have smaller errors."""
        size = self._rows()
        leaf = self.batches + (size > self._series.size)
        return Guarantee(
            float(self._promise.epsilon),
            float(self._promise.delta),
            min(1.0, share(self._coming_bound(size).worst, size)),
            self._beta,
            size,
            "every answer, to whatever queries and at whatever time, is within its own error of the true share; "
            f"about all rows, after {leaf:,} batches, no error is above alpha, which falls as log(batches)/size",
        )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _new_series(self) -> Series:
        """The series of all cells, at the price of the whole budget."""
        groups, budget = Groups.marginal(self._gate.schema), self._gate.budget
        if self._by_leaf:
            return LeafSeries(groups, budget)
        return (RootSeries if by_roots(budget, groups.number) else TreeSeries)(groups, budget)

    def _grown(self) -> None:
        """Called by the database after each append. An error here is left to the next query, which meets it again."""
        with self._lock:
            if self.batches:
                try:
                    self._catch_up()
                except TreeringError:
                    return

    def _check_start(self, since: int | None) -> None:
        """Raise, before anything is charged, if starting at this size would promise nothing."""
        if self.batches:
            return
        size = self._rows_to_share()
        if since:
            raise ParameterError(
                "since", "must be 0 before the first answer: the rows there are become the first batch"
            )
        rows = float(self._coming_bound(size).every.radius(1)) * ROUNDING
        if rows >= size:
            raise GuaranteeError(
                "with this epsilon not even the count of a single cell is known within "
                f"{counted(size, 'row')}, all there are; "
                f"it takes at least {math.floor(rows) + 1:,} rows, or a larger epsilon"
            )

    def _catch_up(self) -> None:
        """Make the rows that are in no batch yet the next batch."""
        with self._taking_up():
            if self._gate.size > self._series.size:
                self._gate.prepare([self._series.coming])
                self._views.clear()
                with self._gate.transaction():
                    self._series.advance(self._gate)

    def _coming_bound(self, size: int) -> StructuredBound:
        """The bound about all rows once the batch that ends at this size is taken in."""
        leaf = max(1, self.batches + (size > self._series.size))
        part = leaf_beta(self._beta, leaf, len(self._series.next_starts(size)))
        return bound(self._next_law(size), self._gate.schema.shape, part)

    def _next_law(self, size: int) -> Law:
        """The law of a cell's noise in the estimate of all rows once the batch that ends at this size is taken in."""
        return self._series.next_law(size, self._series.start)

    def _view(self, since: int) -> View:
        if since not in self._views:
            self._check_since(since)
            part = leaf_beta(self._beta, self.batches, len(self.boundaries))
            window = self._series.window(since)
            self._views[since] = View(self._gate.schema, window, bound(window.law, self._gate.schema.shape, part))
        return self._views[since]

    def _check_since(self, since: int) -> None:
        sizes = self.boundaries
        if since in sizes:
            return
        place = bisect.bisect(sizes, since)
        nearest = " or ".join(f"{size:,}" for size in sizes[max(0, place - 1) : place + 1])
        raise ParameterError("since", f"must be a size at which a batch ended that is still told apart: {nearest}")
