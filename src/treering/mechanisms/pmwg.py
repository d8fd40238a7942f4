"""Private multiplicative weights: `PMWG` on a growing database, `PMW` on one that does not grow.

PMWG answers adaptively chosen queries without a limit on their number, while the database grows, under one privacy
promise. PMW answers a bounded number of adaptively chosen queries. Both are thin: ``mechanisms/tight.py`` (our
calibration) and ``mechanisms/paper.py`` (the paper's) do the work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy.typing as npt

from treering.answer import Guarantee
from treering.budget.cost import gaussian, laplace
from treering.budget.promise import Promise
from treering.errors import GuaranteeError, Halted, ParameterError
from treering.mechanisms.adaptive import Adaptive, Engine
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.paper import Paper, PaperParameters, StaticPaper
from treering.mechanisms.tight import Tight, measuring_noise
from treering.noise import Laplace
from treering.params import Number, Profile, check_profile, probability, whole
from treering.protocols import Database
from treering.theory.pmwg import ForeverPlan, at_most, forever, query_tail, run_tail, static, static_hard, static_size
from treering.theory.pmwg.paper import check_kappa
from treering.theory.pmwg.tight import MOST_QUERIES, RENEWALS
from treering.words import counted

WARM_UNIFORM: Final = 0.1
"""The weight of the uniform distribution in a warm start, whose potential is then log(N/0.1)."""


@dataclass(frozen=True, slots=True)
class PMWGGuarantee(Guarantee):
    """A `Guarantee`, and how long it lasts."""

    forever: bool
    """Whether the budget provably lasts for ever, whatever the data and the queries (up to a billion)."""
    hard_left: int
    """How many more hard queries the rest of the budget pays for at the present size, if it is spent on nothing else:
    no measurement, and no run renewed because the number of queries has doubled. Growth makes each cheaper."""
    hard_possible: float
    """The most further hard queries that there can be on the present data, whatever is asked, but with probability
    beta. By the potential; with ``measure_first``, whose steps may raise that, by the ceiling that it stays under."""
    queries_left: float
    """How many more queries the accuracy is promised for at the present size; growth adds to it. Infinite for the tight
    profile, whose accuracy has no limit on queries."""


class PMWG(Adaptive):
    """Private multiplicative weights for growing databases.

    Keeps a public histogram of the database, answers from it where it is accurate, and pays only where it is not.

    Formal guarantees. *Privacy*: (epsilon, delta)-DP for the whole transcript of adaptively chosen queries while the
    database grows without bound, for databases that differ in one row, replaced. (The kernel's filter: pure for delta
    = 0, zCDP otherwise.) *Accuracy*: with probability at least 1 − beta, every answer is within its `Answer.error`,
    at most alpha, all answers together. When the budget is spent a query is refused (`BudgetExceeded`); `guarantee`
    says whether that can ever happen.

    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``alpha``: the largest error of an answer, as a share of the rows
    - ``beta``: the probability that any answer, ever, is outside its error
    - ``profile``: "tight" (our calibration) or "paper" (the paper's PMWG with its constants)
    - ``measure_first``: (tight) answer single queries with noise until a sparse-vector run is worth its cost;
      False: only use sparse-vector runs
    - ``p``: (paper) the exponent of its noise, in (0, 1)
    - ``kappa``: (paper) κ, the factor of its query budget, at least 1 (the default); a larger one needs a larger alpha.
      Answers beyond that budget have the error 1; `PMWGGuarantee.queries_left` says how many are within
    - ``warm_start``: (tight) a public distribution to start from, a non-negative number for each cell

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)}))
    >>> db.append([{"late": "no", "month": 1}] * 60_000 + [{"late": "yes", "month": 2}] * 40_000)
    100000
    >>> pmwg = PMWG(db, epsilon=1.0, delta=1e-9, alpha=0.05, beta=1e-9)
    >>> answer = pmwg.ask("late = 'yes'")
    >>> abs(answer.value - 0.4) <= answer.error <= 0.05
    True
    """

    notes = (*Tight.notes, *Paper.notes)
    _engine: Engine

    def __init__(
        self,
        db: Database,
        epsilon: Number | Promise,
        delta: Number = 0.0,
        *,
        alpha: Number,
        beta: Number,
        profile: Profile = "tight",
        measure_first: bool = True,
        p: float = 0.5,
        warm_start: npt.ArrayLike | None = None,
        kappa: Number | None = None,
    ) -> None:
        check_profile(profile)
        if profile == "tight" and kappa is not None:
            raise ParameterError("kappa", "belongs to the paper's profile: the tight one has no limit on queries")
        if profile == "paper" and warm_start is not None:
            raise ParameterError("warm_start", "belongs to the tight profile: the paper starts from uniform")
        super().__init__(db, epsilon, delta, alpha, beta)
        self._measure_first = bool(measure_first)
        self._paper: PaperParameters | None = None
        if profile == "paper":
            promise = self._promise
            if not promise.plain:
                raise ParameterError("profile", 'must be "tight" under a promise that is shared, or for several rows')
            privacy = float(promise.epsilon), float(promise.delta)
            factor = check_kappa(1 if kappa is None else kappa)
            self._paper = PaperParameters(*privacy, self._alpha, self._beta, float(probability(p, "p")), factor)
        histogram, self._start_potential = _start(db, warm_start)
        self._started = histogram.keep()
        self._engine = self._new_engine()

    def _new_engine(self) -> Engine:
        """See `Adaptive._new_engine`."""
        histogram = Hypothesis(self._gate.schema)
        histogram.restore(self._started)
        if self._paper is not None:
            return Paper(self._gate, self._paper, histogram)
        return Tight(
            self._gate, self._alpha, self._beta, histogram, self._start_potential, self._plan, self._measure_first
        )

    @property
    def halted(self) -> bool:
        """Whether the paper's profile has given its last answer. (The tight one ends only when its budget is spent.)"""
        return self._engine.over

    @property
    def guarantee(self) -> PMWGGuarantee:
        """What is promised at the present size, and for how long."""
        size, promise = self._rows(), self._promise
        return PMWGGuarantee(
            float(promise.epsilon), float(promise.delta), self._alpha, self._beta, size, *self._engine.outlook()
        )

    def _check_alive(self) -> None:
        if self.halted:
            raise Halted("PMWG has given its last answer: more queries were hard than the paper's theorem allows for")

    def _plan(self, start: int) -> ForeverPlan:
        """The plan of a PMWG that starts at this size; a `GuaranteeError` if not even one query could be answered."""
        if not self._can_start(start):
            needed = 2 * start
            while not self._can_start(needed):
                needed *= 2
            raise GuaranteeError(
                f"alpha={self._alpha:g} with this epsilon and delta needs a larger database: "
                f"{counted(start, 'row')} cannot pay for one answer, {needed:,} can. "
                "A larger alpha or epsilon would do too"
            )
        return self._forever(start)

    def _forever(self, start: int) -> ForeverPlan:
        """The plan for sparse-vector runs, with their part of the budget."""
        budget, potential = self._promise.budget, self._start_potential
        if self._measure_first:
            # Half of the budget is for measuring, and learning from measurements may double the initial potential.
            budget, potential = budget.share(Fraction(1, 2)), 2 * potential
        cells, queries = self._gate.schema.cells, at_most(MOST_QUERIES)
        return forever(start, cells, budget, self._alpha, self._beta, queries, potential=potential, renewals=RENEWALS)

    def _can_start(self, size: int) -> bool:
        """Whether a run is possible at this size, and the budget pays for the first measurement (or the first run)."""
        budget = self._promise.budget
        run = self._forever(size).guard.cost(size, run_tail(self._beta, 1), query_tail(self._beta, math.log(1000)))
        if not self._measure_first:
            return run <= float(budget.total)
        noise = measuring_noise(budget.kind, self._alpha, self._beta, size, 0)
        price = laplace if isinstance(noise, Laplace) else gaussian
        return math.isfinite(run) and budget.amount(price(1, Fraction(noise.scale))) <= budget.total / 2


def _start(db: Database, warm_start: npt.ArrayLike | None) -> tuple[Hypothesis, float]:
    """The initial histogram, and its potential."""
    if warm_start is None:
        return Hypothesis(db.schema), math.log(db.schema.cells)
    return Hypothesis.warm(db.schema, warm_start, WARM_UNIFORM), math.log(db.schema.cells / WARM_UNIFORM)


# -- PMW ---------------------------------------------------------------------------------------------------------------


class PMW(Adaptive):
    """Private multiplicative weights (Hardt and Rothblum 2010) on a database that does not change.

    Formal guarantees. *Privacy*: (epsilon, delta)-DP for the whole transcript of at most ``queries`` adaptively
    chosen queries, for databases that differ in one row, replaced. *Accuracy*: with probability at least 1 − beta
    every answer is within its error, at most alpha (theorem "static" of ``theory.pmwg.lifetime``; our constants. With
    ``profile="paper"`` the paper's: its proofs without growth, `treering.theory.pmwg.static_alpha`). Parameters that
    the theorem does not cover raise `GuaranteeError`, which names the size that would do. A database that has grown
    since the first query raises it, too: use `PMWG`.

    - ``epsilon``, ``delta``: the privacy promise
    - ``alpha``: the largest error of an answer, as a share of the rows
    - ``beta``: the probability that any answer is outside its error
    - ``queries``: the largest number of queries; those whose answer is already known do not count
    - ``profile``: "tight" (our calibration) or "paper" (its constants; an answer that is known is asked again)

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)}))
    >>> db.append([{"late": "no", "month": 1}] * 600_000 + [{"late": "yes", "month": 2}] * 400_000)
    1000000
    >>> answer = PMW(db, epsilon=1.0, delta=1e-9, alpha=0.2, beta=1e-9, queries=1000).ask("late = 'yes'")
    >>> abs(answer.value - 0.4) <= answer.error <= 0.2
    True
    """

    notes = (*Tight.notes, *Paper.notes)
    _engine: Tight | StaticPaper

    def __init__(
        self,
        db: Database,
        epsilon: Number,
        delta: Number,
        alpha: Number,
        beta: Number,
        queries: int,
        profile: Profile = "tight",
    ) -> None:
        check_profile(profile)
        super().__init__(db, epsilon, delta, alpha, beta)
        self._queries = whole(queries, "queries")
        self._profile = profile
        self._engine = self._new_engine()

    def _new_engine(self) -> Tight | StaticPaper:
        """See `Adaptive._new_engine`."""
        schema = self._gate.schema
        if self._profile == "paper":
            privacy = float(self._promise.epsilon), float(self._promise.delta)
            given = PaperParameters(*privacy, self._alpha, self._beta, 0.5)
            return StaticPaper(self._gate, given, Hypothesis(schema), self._queries)
        return Tight(
            self._gate,
            self._alpha,
            self._beta,
            Hypothesis(schema),
            math.log(schema.cells),
            self._plan,
            measure_first=False,
            limit=self._queries,
        )

    @property
    def halted(self) -> bool:
        """Whether ``queries`` queries have been asked, or the paper's profile has found too many of them hard."""
        engine = self._engine
        asked = engine.state.questions if isinstance(engine, StaticPaper) else engine.state.asked
        return asked >= self._queries or engine.over

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the size of the first query; before that, at the present size."""
        size, hard = self._promised()
        statement = (
            f"every answer is within its error, at most alpha, for {counted(self._queries, 'query', 'queries')}; "
            f"at most {hard:,} of them are hard"
        )
        promise = self._promise
        return Guarantee(float(promise.epsilon), float(promise.delta), self._alpha, self._beta, size, statement)

    def _promised(self) -> tuple[int, int]:
        """The size that the promise is about, and the most hard queries."""
        engine = self._engine
        if isinstance(engine, StaticPaper):
            size = engine.state.size or self._rows()
            engine.check_start(size)
            return size, math.floor(static_hard(self._gate.schema.cells, self._alpha))
        plan = engine.plan or self._plan(self._rows())
        return plan.start, plan.hard(plan.start)

    def _check_alive(self) -> None:
        size = self._engine.state.size
        if size and self._gate.size != size:
            raise GuaranteeError(
                f"the database has grown from {size:,} to {counted(self._gate.size, 'row')} since the first question: "
                "PMW is for one that stays as it is; use PMWG"
            )

    def _plan(self, size: int) -> ForeverPlan:
        cells, budget = self._gate.schema.cells, self._promise.budget
        plan = static(size, cells, budget, self._alpha, self._beta, self._queries)
        if not plan.fits:
            needed = static_size(cells, budget, self._alpha, self._beta, self._queries)
            raise GuaranteeError(
                f"alpha={self._alpha:g} for {counted(self._queries, 'query', 'queries')} needs at least "
                f"{counted(needed, 'row')} with this "
                f"epsilon and delta; there are {size:,}. Fewer queries or a larger alpha would do too"
            )
        return plan
