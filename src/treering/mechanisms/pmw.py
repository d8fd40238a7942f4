"""PMW: a bounded number of adaptive queries on a database that does not grow."""

from __future__ import annotations

import math

from treering.answer import Guarantee
from treering.errors import GuaranteeError
from treering.gate import Database
from treering.mechanisms.base import Adaptive
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.tight import Tight
from treering.params import Number, whole
from treering.theory.pmwg import ForeverPlan, static, static_size


class PMW(Adaptive):
    """Private multiplicative weights (Hardt and Rothblum 2010) on a database that stays as it is.

    Formal guarantees. *Privacy*: (epsilon, delta)-DP for the whole transcript of at most ``queries`` adaptively
    chosen queries, for databases that differ in one row, replaced. *Accuracy*: with probability at least 1 − beta
    every answer is within its error, at most alpha (theorem "static" of ``theory.pmwg.lifetime``; our constants).
    Parameters that the theorem does not cover raise `GuaranteeError`, which names the size that would do; so does a
    database that has grown since the first question: use `PMWG`.

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)}))
    >>> db.append([{"late": "no", "month": 1}] * 600_000 + [{"late": "yes", "month": 2}] * 400_000)
    1000000
    >>> answer = PMW(db, epsilon=1.0, delta=1e-9, alpha=0.2, beta=1e-9, queries=1000).ask("late = 'yes'")
    >>> abs(answer.value - 0.4) <= answer.error <= 0.2
    True
    """

    notes = Tight.notes
    _engine: Tight

    def __init__(self, db: Database, epsilon: Number, delta: Number, alpha: Number, beta: Number, queries: int) -> None:
        super().__init__(db, epsilon, delta, alpha, beta)
        self._queries = whole(queries, "queries")
        potential = math.log(db.schema.cells)
        self._engine = Tight(
            self._gate,
            self._alpha,
            self._beta,
            Hypothesis(db.schema),
            potential,
            self._plan,
            measure_first=False,
            limit=self._queries,
        )

    @property
    def halted(self) -> bool:
        """Whether all queries have been asked."""
        return self._engine.state.asked >= self._queries

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        plan = self._engine.plan or self._plan(self._rows())
        statement = (
            f"every answer is within its error, at most alpha, for {self._queries:,} queries; "
            f"at most {plan.hard(plan.start):,} of them are hard"
        )
        promise = self._promise
        return Guarantee(float(promise.epsilon), float(promise.delta), self._alpha, self._beta, plan.start, statement)

    def _check_alive(self) -> None:
        size = self._engine.state.size
        if size and self._gate.size != size:
            raise GuaranteeError(
                f"the database has grown from {size:,} to {self._gate.size:,} rows since the first question: "
                "PMW is for one that stays as it is; use PMWG"
            )

    def _plan(self, size: int) -> ForeverPlan:
        cells, budget = self._gate.schema.cells, self._promise.budget
        plan = static(size, cells, budget, self._alpha, self._beta, self._queries)
        if not plan.fits:
            needed = static_size(cells, budget, self._alpha, self._beta, self._queries)
            raise GuaranteeError(
                f"alpha={self._alpha:g} for {self._queries:,} queries needs at least {needed:,} rows with this "
                f"epsilon and delta; there are {size:,}. Fewer queries or a larger alpha would do too"
            )
        return plan
