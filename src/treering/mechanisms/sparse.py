"""Sparse vector on a growing database: ATG, NATG and NSG.

Cummings, Krehbiel, Lai and Tantipongpipat, "Differential Privacy for Growing Databases", appendix "Sparse Vector
Algorithms for Growing Databases"; with the corrections of our errata page. A run draws one threshold noise and keeps
it until it halts (the paper's pseudocode redraws it at every time step, which is not private: erratum E1), and its
noise is fixed in rows, not in fractions, so that it shrinks as the database grows. With ``xi`` the noise is the paper's
own (``mechanisms/moving.py``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Generic, TypeAlias, TypeVar

from treering.answer import Guarantee
from treering.budget.promise import Promise
from treering.domain.language.parse import Question, understand, understand_all
from treering.domain.query import Query
from treering.errors import Halted, ParameterError
from treering.gate import FINE, Compared, Crossing, Event, RunEnded, RunRequest, RunStarted
from treering.mechanisms.base import Mechanism
from treering.mechanisms.moving import PaperNoise
from treering.noise import Laplace
from treering.params import exact, probability, whole
from treering.protocols import Database
from treering.theory.sparse import RunScales, nsg_accuracy, scales_for
from treering.words import counted

Reply = TypeVar("Reply")

OfSize: TypeAlias = Callable[[int], float]
"""A public function of the number of rows."""


@dataclass(frozen=True, slots=True)
class SparseState:
    """The public state of a sparse-vector mechanism: a fold over the gate's history."""

    asked: int = 0
    """Queries compared so far."""
    hard: int = 0
    """Queries found above the threshold, and runs that an interrupt ended."""
    run: RunStarted | None = None
    """The run in progress."""

    def after(self, event: Event) -> SparseState:
        """The state after an event."""
        if isinstance(event, RunStarted):
            return replace(self, run=event)
        if isinstance(event, Compared):
            hit = event.crossing is not None
            return SparseState(self.asked + event.asked, self.hard + hit, None if hit else self.run)
        if isinstance(event, RunEnded):  # By an interrupt, which may have shown a crossing: what it cost is spent.
            return replace(self, hard=self.hard + 1, run=None)
        return self


class _Sparse(Mechanism, Generic[Reply]):
    """The common part of ATG, NATG and NSG: one run after another, until ``hard`` queries were found above."""

    _numeric: ClassVar[bool]

    def __init__(
        self,
        db: Database,
        threshold: float,
        epsilon: float,
        *,
        hard: int | None,
        queries: int,
        beta: float,
        xi: OfSize | None,
        sensitivity: OfSize | None,
    ) -> None:
        promise = Promise(epsilon)
        self._threshold = _fraction(threshold, "threshold")
        self._hard = None if hard is None else whole(hard, "hard")
        self._queries = whole(queries, "queries")
        self._beta = float(probability(beta, "beta"))
        self._paper = None if xi is None else PaperNoise(xi, sensitivity)
        if self._paper is None:
            if sensitivity is not None:
                raise ParameterError("sensitivity", "belongs to the paper's noise: give xi, too")
            self._frozen = self._scales_for(promise)
        super().__init__(db, promise)
        self._resume()

    def _resume(self) -> None:
        """See `Mechanism._resume`."""
        self._state = SparseState()
        for event in self._gate.history:
            self._state = self._state.after(event)

    def ask(self, query: Question, estimate: float | None = None) -> Reply:
        """Whether the share of the rows that match ``query`` is above the threshold.

        With an ``estimate``, a share in [0, 1]: whether |share − estimate| is above the threshold.
        """
        asked = understand(query, self._gate.schema)
        return self.ask_many([asked], None if estimate is None else [estimate])[0]

    def ask_many(self, queries: Iterable[Question], estimates: Sequence[float] | None = None) -> list[Reply]:
        """`ask` for a batch, in order, with an estimate for each query if ``estimates`` are given.

        If the mechanism halts on the way, the list ends with its last answer.
        """
        asked = understand_all(queries, self._gate.schema)
        with self._taking_up():
            return self._replies(asked, estimates)

    def _replies(self, asked: list[Query], estimates: Sequence[float] | None) -> list[Reply]:
        if self.halted:
            raise Halted(
                f"{type(self).__name__} has given its last answer ({self._hard} above the threshold); make a new one"
            )
        size = self._rows_to_share()
        if self._paper is not None:
            for query in asked:
                self._paper.check(query, size)
        bars = [self._grid(query, self._threshold) for query in asked]
        guesses = None if estimates is None else self._guesses(asked, estimates)
        replies: list[Reply] = []
        while len(replies) < len(asked) and not self.halted:
            rest = slice(len(replies), None)
            compared = self._compare(asked[rest], bars[rest], None if guesses is None else guesses[rest])
            hit = compared.crossing
            replies += [self._reply(query, None) for query in asked[rest][: compared.asked - (hit is not None)]]
            if hit is not None:
                replies.append(self._reply(asked[len(replies)], hit))
        return replies

    @property
    def state(self) -> SparseState:
        """The public state."""
        return self._state

    @property
    def halted(self) -> bool:
        """Whether this mechanism has given its last answer."""
        return self._hard is not None and self._state.hard >= self._hard

    @property
    def guarantee(self) -> Guarantee:
        """What is promised at the present size. Noise is fixed in rows, so the error as a share falls with growth."""
        size = self._rows()
        alpha = self._frozen_alpha(size) if self._paper is None else self._paper_alpha(self._paper, size)
        return Guarantee(float(self._promise.epsilon), 0.0, alpha, self._beta, size, self._statement())

    # -- inside -------------------------------------------------------------------------------------------------------

    def _scales_for(self, promise: Promise) -> RunScales:
        """Our noise: every run costs the same."""
        if self._hard is None:
            raise ParameterError("hard", "must say how many queries are answered, unless the noise is the paper's (xi)")
        each = promise.budget.total / self._hard
        return scales_for(each, self._queries, self._beta, numeric=self._numeric, hard=self._hard)

    def _frozen_alpha(self, size: int) -> float:
        """For any mixture of counting and weighted queries, one- or two-sided."""
        scales, runs = self._frozen, self._hard or 1
        noise = scales.threshold, scales.query, scales.answer
        return nsg_accuracy(*noise, self._queries, self._beta, size, hard=runs, weight=None, two_sided=True)

    def _paper_alpha(self, paper: PaperNoise, size: int) -> float:
        """The same for the run in progress, and for one that begins at this size."""
        runs = [(size, paper.scales(size, self._numeric))]
        if self._state.run is not None:
            runs.append((self._state.run.size, _scales_of(self._state.run.request)))
        hard = self._queries if self._hard is None else self._hard
        return max(
            paper.alpha(scales, paper.reach(size, start, scales), size, self._queries, hard, self._beta)
            for start, scales in runs
        )

    def _compare(self, queries: list[Query], bars: list[int], guesses: list[int] | None) -> Compared:
        if self._state.run is None:
            scales = self._frozen if self._paper is None else self._paper.scales(self._gate.size, self._numeric)
            answer = None if scales.answer is None else Laplace(scales.answer)
            self._follow(self._gate.begin_run(RunRequest(scales.threshold, scales.query, answer)))
        run = self._state.run
        assert run is not None
        paper, scales = self._paper, _scales_of(run.request)
        reach = None if paper is None else paper.reach(self._gate.size, run.size, scales)
        compared = self._gate.first_exceeding(run.run, queries, bars, guesses, reach)
        self._follow(compared)
        return compared

    def _follow(self, event: Event) -> None:
        self._state = self._state.after(event)

    def _guesses(self, queries: list[Query], estimates: Sequence[float]) -> list[int]:
        if len(estimates) != len(queries):
            raise ParameterError("estimates", f"must be as many as the queries: {len(queries)}, not {len(estimates)}")
        shares = [_fraction(estimate, "estimate") for estimate in estimates]
        return [self._grid(query, share) for query, share in zip(queries, shares, strict=True)]

    def _grid(self, query: Query, share: Fraction) -> int:
        """A share of the rows in grid units of the query (see ``gate.py``), rounded to the nearest."""
        return round(share * self._gate.size * query.scale)

    @abstractmethod
    def _reply(self, query: Query, crossing: Crossing | None) -> Reply:
        """The reply to a query that was below the threshold (``crossing`` is None) or above."""

    def _statement(self) -> str:
        numeric = ", and a released share is within alpha of the true one" if self._numeric else ""
        return (
            f"above: the true share is at least threshold − alpha; below: at most threshold + alpha{numeric}; "
            f"for up to {counted(self._queries, 'query', 'queries')} in all"
        )


class ATG(_Sparse[bool]):
    """Above threshold on a growing database: True for the first query whose share of the rows is above, then `Halted`.

    Formal guarantee: epsilon-DP for the whole transcript of adaptively chosen queries, while the database grows
    without bound, for databases that differ in one row, replaced (paper: "Privacy of ATG"; here with one threshold
    draw and noise fixed in rows, 1/s1 + 2/s2 ≤ epsilon, for Laplace scales s1 of the threshold and s2 of a query).
    Accuracy: `guarantee`.

    - ``threshold``: the share of the rows, in [0, 1], that queries are compared with
    - ``queries``: the number of queries that accuracy is promised for; asking more costs accuracy, never privacy
    - ``beta``: the probability that some reply breaks the accuracy guarantee; it tunes the noise, as ``queries`` does
    - ``xi``: the paper's noise in place of ours: its ξ as a function of the size. It must not fall, and ξ·Δ must not
      rise. A run costs ξ·Δ at the size where it begins, which ``epsilon`` must pay for; its noise moves with the size
    - ``sensitivity``: with ``xi``, the paper's Δ as a function of the size: the most, as a share of the rows, by which
      a replaced row moves any query that will be asked; 1/size, which holds for every query, if none is given

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 9000 + [{"late": "no"}] * 1000)
    10000
    >>> alarm = tr.ATG(db, threshold=0.5, epsilon=1.0)
    >>> alarm.ask("late = 'no'"), alarm.ask("late = 'yes'"), alarm.halted
    (False, True, True)
    """

    _numeric = False

    def __init__(
        self,
        db: Database,
        threshold: float,
        epsilon: float,
        *,
        queries: int = 1000,
        beta: float = 0.05,
        xi: OfSize | None = None,
        sensitivity: OfSize | None = None,
    ) -> None:
        super().__init__(db, threshold, epsilon, hard=1, queries=queries, beta=beta, xi=xi, sensitivity=sensitivity)

    def _reply(self, query: Query, crossing: Crossing | None) -> bool:
        return crossing is not None


class _Numeric(_Sparse[float | None]):
    _numeric = True

    def _reply(self, query: Query, crossing: Crossing | None) -> float | None:
        if crossing is None or crossing.value is None:
            return None
        unit = query.scale * self._gate.size * (1 if self._paper is None else FINE)
        return min(1.0, max(0.0, crossing.value / unit))


class NATG(_Numeric):
    """Numeric above threshold: None below; the noisy share of the first query above, then `Halted`.

    Formal guarantee: as `ATG`, the numeric answer included: 1/s1 + 2/s2 + 1/s3 ≤ epsilon, for an answer's Laplace scale
    s3 (paper: "Privacy of NATG"). Parameters are those of `ATG`.

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 9000 + [{"late": "no"}] * 1000)
    10000
    >>> share = tr.NATG(db, threshold=0.5, epsilon=1.0).ask("late = 'yes'")
    >>> abs(share - 0.9) < 0.1
    True
    """

    def __init__(
        self,
        db: Database,
        threshold: float,
        epsilon: float,
        *,
        queries: int = 1000,
        beta: float = 0.05,
        xi: OfSize | None = None,
        sensitivity: OfSize | None = None,
    ) -> None:
        super().__init__(db, threshold, epsilon, hard=1, queries=queries, beta=beta, xi=xi, sensitivity=sensitivity)


class NSG(_Numeric):
    """Numeric sparse: one `NATG` after another, until ``hard`` queries were found above and answered; then `Halted`.

    Formal guarantee: each of the ``hard`` runs is (epsilon/hard)-DP, the whole is epsilon-DP (paper: "Privacy of
    NSG", basic composition). With ``xi`` a run begun at t rows costs 9/8·ξ_t·Δ_t, the paper's loss.

    - ``hard``: the number of queries above the threshold that are answered; with ``xi`` it may be left out, and runs go
      on for as long as ``epsilon`` pays for the next one
    - ``queries``: the number of queries, in all runs together, that accuracy is promised for

    The other parameters are those of `ATG`.

    >>> import treering as tr
    >>> db = tr.GrowingDatabase(tr.Schema({"late": tr.categories("no", "yes")}))
    >>> db.append([{"late": "yes"}] * 9000 + [{"late": "no"}] * 1000)
    10000
    >>> sparse = tr.NSG(db, threshold=0.5, epsilon=1.0, hard=2)
    >>> [answer is None for answer in sparse.ask_many(["late = 'yes'", "late = 'no'", "TRUE", "TRUE"])]
    [False, True, False]
    """

    def __init__(
        self,
        db: Database,
        threshold: float,
        epsilon: float,
        hard: int | None = None,
        *,
        queries: int = 1000,
        beta: float = 0.05,
        xi: OfSize | None = None,
        sensitivity: OfSize | None = None,
    ) -> None:
        super().__init__(db, threshold, epsilon, hard=hard, queries=queries, beta=beta, xi=xi, sensitivity=sensitivity)


def _scales_of(request: RunRequest) -> RunScales:
    answer = request.answer
    return RunScales(request.threshold_scale, request.query_scale, None if answer is None else answer.scale)


def _fraction(value: float, name: str) -> Fraction:
    """A share in [0, 1]. (`exact` refuses 0.)"""
    share = Fraction(0) if value == 0 else exact(value, name)
    if share > 1:
        raise ParameterError(name, f"must lie in [0, 1], not {value}")
    return share
