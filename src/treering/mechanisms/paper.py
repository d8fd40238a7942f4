"""The paper's profile of PMWG: its noise, threshold and learning rate, exactly as in its theorems and proofs.

Cummings, Krehbiel, Lai and Tantipongpipat, algorithm "PMWG", with our errata: one threshold draw a run, and noise
fixed in rows for the run (E1); of the two one-sided questions the second is asked only if the first was below (E2);
past its bound on hard queries the mechanism is over for ever (E9); growth composes into one uniform update (E10); the
side of an update is the side that was found above (E17). Errata are numbered as on ``docs/errata.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Final

from treering.answer import Answer
from treering.domain.query import Query
from treering.errors import EngineError, GuaranteeError, Halted
from treering.gate import Compared, Event, Noted, RunEnded, RunRequest, RunStarted
from treering.mechanisms.adaptive import Outlook
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.state import Grown
from treering.noise import Laplace
from treering.protocols import Gate
from treering.theory.pmwg import (
    alpha as paper_alpha,
    alpha_start,
    check_paper,
    hard_bound,
    noise,
    query_budget,
    static_hard,
    static_noise,
    static_start,
)
from treering.theory.sparse import paper_scales
from treering.words import counted

_MANY: Final = 10**15
"""A number of queries that is not written out."""

_query_budget: Final = lru_cache(maxsize=64)(query_budget)

_BLOCK: Final = 256
"""How many queries are compared at once. Those after a hard query are compared again, with the updated histogram."""


@dataclass(frozen=True, slots=True)
class Updated:
    """NOTE: the histogram took a multiplicative weights step."""

    step: Step


@dataclass(frozen=True, slots=True)
class Over:
    """NOTE: more queries were hard than the theorem allows; no answer is given any more."""


@dataclass(frozen=True, slots=True)
class PaperState:
    """The public state without the histogram: a fold over the gate's history."""

    start: int = 0
    size: int = 0
    asked: int = 0
    """Comparisons made: up to two a query."""
    questions: int = 0
    """Queries compared: the theorem's ℓ, which its query budget bounds."""
    hard: int = 0
    run: int | None = None
    over: bool = False
    beyond: bool = False
    """Whether more queries were asked, at some size, than the budget of that size: the theorem covers no later ones."""


@dataclass(frozen=True, slots=True)
class PaperParameters:
    """The parameters of the paper's formulas; ``p`` is the exponent of its noise, ``kappa`` κ ≥ 1, the factor of its
    query budget: a larger one asks for a larger alpha."""

    epsilon: float
    delta: float
    alpha: float
    beta: float
    p: float
    kappa: float = 1.0


class Paper:
    """The paper's profile over a gate. `PMWG` is its public face."""

    notes: Final = (Grown, Updated, Over, Step)
    potential: Final = None
    backlog: Final = None

    def __init__(self, gate: Gate, parameters: PaperParameters, hypothesis: Hypothesis) -> None:
        self.gate = gate
        self.parameters = parameters
        self.hypothesis = hypothesis
        self.state = PaperState()
        for event in gate.history:
            self._follow(event)

    def ask_many(self, queries: Sequence[Query], answers: list[Answer]) -> None:
        """See `Engine.ask_many`."""
        self._check_alive()
        self._grow()
        while len(answers) < len(queries):
            block = queries[len(answers) : len(answers) + _BLOCK]
            if block[0].constant:
                share = float(block[0].weights()) / block[0].scale
                answers.append(Answer(share, 0.0, self.state.size, "easy"))
                continue
            self._compare(list(takewhile(lambda query: not query.constant, block)), answers)
            self._check_alive()

    def _compare(self, queries: Sequence[Query], answers: list[Answer]) -> None:
        """Answer queries from the histogram up to the first hard one; answer that one with noise."""
        size, alpha = self.state.size, self.parameters.alpha
        shares = self.hypothesis.answer_many(queries).tolist()
        estimates = [round(share * size * query.scale) for share, query in zip(shares, queries, strict=True)]
        sides: list[Query] = []
        bars: list[int] = []
        for query, estimate in zip(queries, estimates, strict=True):
            # f − f(y) first, then f(y) − f, which in counts is the complement: rows·W − C against rows·W − E.
            bar = round(2 / 3 * alpha * size * query.scale)
            sides += [query, ~query]
            bars += [estimate + bar, size * query.scale - estimate + bar]
        allowed = (self._allowed(size) if self._covered else 0.0) - self.state.questions

        def error(number: int) -> float:
            """The proven error of the n-th of these answers: 1 where the theorem is silent, as shares lie in [0, 1]."""
            return alpha if number <= allowed else 1.0

        with self.gate.transaction():
            compared = self.gate.first_exceeding(self._run(), sides, bars)
            self._follow(compared)
            hit = compared.crossing
            easy = shares if hit is None else shares[: hit.index // 2]
            answers += [
                Answer(min(1.0, max(0.0, share)), error(number), size, "easy") for number, share in enumerate(easy, 1)
            ]
            if hit is None or hit.value is None:
                return
            query, too_high = queries[hit.index // 2], hit.index % 2 == 1
            if self.state.hard > self._hard_bound(size):
                self._follow(self.gate.note(Over()))
                return
            # r = f where the histogram is too high, otherwise 1 − f.
            step = self.hypothesis.exponential_step(query, alpha / 6, complement=not too_high)
            self._follow(self.gate.note(Updated(step)))
        share = hit.value / (size * query.scale)
        value = min(1.0, max(0.0, 1 - share if too_high else share))
        answers.append(Answer(value, error(hit.index // 2 + 1), size, "hard"))

    @property
    def covered(self) -> bool:
        """Whether the accuracy theorem covers alpha at the starting size, for its query budget with κ."""
        given, start = self.parameters, self.state.start or self.gate.size
        least = paper_alpha(start, self.gate.schema.cells, given.epsilon, given.delta, given.beta, given.kappa, given.p)
        return given.alpha >= least

    @cached_property
    def _covered(self) -> bool:
        """`covered`, once the start is known."""
        return self.covered

    def _allowed(self, size: int) -> float:
        """How many queries the accuracy theorem covers by the time there are this many rows."""
        if self.state.beyond:
            return 0.0
        given = self.parameters
        privacy = self.gate.schema.cells, given.epsilon, given.delta, given.alpha
        return _query_budget(self.state.start or size, size, *privacy, given.kappa, given.p)

    @property
    def over(self) -> bool:
        """Whether more queries were hard than the theorem allows."""
        return self.state.over

    def price(self, query: Query) -> Fraction:
        """The most that asking this query next could cost: all that is left of the budget."""
        return self.gate.budget.total - self.gate.spent

    def price_many(self, queries: Sequence[Query]) -> Fraction:
        """`price`: the paper's theorem bounds the sum of all charges."""
        return max((self.price(query) for query in queries), default=Fraction(0))

    def recall(self, query: Query) -> Answer | None:
        """None: every query is compared."""
        return None

    def condense(self) -> None:
        """Nothing to do: the paper's profile replays its whole journal."""

    def outlook(self) -> Outlook:
        """What is promised at the present size, and for how long."""
        given, size, cells = self.parameters, self.gate.size, self.gate.schema.cells
        start = self.state.start or size
        left = max(0.0, self._hard_bound(size) - self.state.hard)
        queries = max(0, math.floor(self._allowed(size)) - self.state.questions) if self.covered else 0
        if not self.covered:
            needed = alpha_start(given.alpha, cells, given.epsilon, given.delta, given.beta, given.kappa, given.p)
            statement = (
                f"no accuracy is proven for this alpha from a start of {counted(start, 'row')}; "
                f"the paper's theorem would cover it from {counted(needed, 'row')}"
            )
        elif self.state.beyond:
            statement = "no accuracy is proven any more: more queries were asked than the paper's theorem allows"
        else:
            more = f"{queries:,}" if queries < _MANY else "more than 10^15"
            statement = (
                f"every answer is within alpha, for ever, within the paper's query budget (kappa = {given.kappa:g}): "
                f"{more} more at this size, and growth adds to it"
            )
        return Outlook(statement, self.covered and not self.state.beyond, math.floor(left), left, queries)

    def _run(self) -> int:
        """The run in progress; begins one if there is none. ξ is that of its first size; its noise is fixed in rows."""
        if self.state.run is None:
            threshold, query, answer = paper_scales(self.state.size, self._xi())
            self._follow(self.gate.begin_run(RunRequest(threshold, query, Laplace(answer))))
        assert self.state.run is not None
        return self.state.run

    def _xi(self) -> float:
        """ξ at the present size."""
        given, state = self.parameters, self.state
        privacy = self.gate.schema.cells, given.epsilon, given.delta, given.alpha
        return noise(state.size, state.start, *privacy, given.p)

    def _hard_bound(self, size: int) -> float:
        """The most queries that can be hard by this size."""
        return hard_bound(self.state.start or size, size, self.gate.schema.cells, self.parameters.alpha)

    def _check_alive(self) -> None:
        if self.state.over:
            raise Halted(
                "more queries were hard than the theorem allows for (an event of probability at most beta); "
                "this was the last answer"
            )

    def _check_start(self, size: int) -> None:
        """Refuse to start where the theorems do not hold."""
        given = self.parameters
        check_paper(size, self.gate.schema.cells, given.epsilon, given.delta, given.beta, given.p)

    def _grow(self) -> None:
        size = self.gate.size
        if size < self.state.size:
            raise EngineError("the database has fewer rows than before: it was replaced, and the promise with it")
        if not self.state.start:
            self._check_start(size)
        if size > self.state.size:
            self._follow(self.gate.note(Grown(size)))

    def _follow(self, event: Event) -> None:
        """Update the state by an event that is in the journal. State changes nowhere else."""
        state = self.state
        if isinstance(event, RunStarted):
            self.state = replace(state, run=event.run)
        elif isinstance(event, Compared):
            hit = event.crossing is not None
            self.state = replace(
                state,
                asked=state.asked + event.asked,
                questions=state.questions + (event.asked + 1) // 2,  # two comparisons each, one if the first was above
                hard=state.hard + hit,
                run=None if hit else state.run,
            )
            if self.state.questions > self._allowed(event.size):
                self.state = replace(self.state, beyond=True)
        elif isinstance(event, RunEnded):  # By an interrupt, which may have shown a crossing: it counts as one.
            self.state = replace(state, hard=state.hard + 1, run=None)
        elif isinstance(event, Noted) and isinstance(event.note, Grown):
            size = event.note.size
            if state.start:
                self.hypothesis.grow((size - state.size) / size)
            self.state = replace(state, start=state.start or size, size=size)
        elif isinstance(event, Noted) and isinstance(event.note, Updated):
            self.hypothesis.apply(event.note.step)
        elif isinstance(event, Noted) and isinstance(event.note, Over):
            self.state = replace(state, over=True)


# -- the static mechanism ----------------------------------------------------------------------------------------------


class StaticPaper(Paper):
    """The paper's profile of PMW: the same mechanism on rows that stay as they are, for a number of ``queries``.

    Threshold 2α/3 and rate α/6 as above; `theory.pmwg.static_noise`, and at most ⌊36·log N/α²⌋ hard queries.
    """

    def __init__(self, gate: Gate, parameters: PaperParameters, hypothesis: Hypothesis, queries: int) -> None:
        self.queries = queries
        super().__init__(gate, parameters, hypothesis)

    def ask_many(self, queries: Sequence[Query], answers: list[Answer]) -> None:
        """See `Engine.ask_many`. Queries past the limit are not asked."""
        asked = list(_within(queries, self.queries - self.state.questions))
        if asked:
            super().ask_many(asked, answers)
        if len(asked) < len(queries):
            raise Halted(f"this was made for {counted(self.queries, 'query', 'queries')} and has given its last answer")

    @property
    def covered(self) -> bool:
        """True: nothing begins where it would not be."""
        return True

    def check_start(self, size: int) -> None:
        """Refuse a size at which the accuracy theorem does not cover alpha, with the one that it would take."""
        given = self.parameters
        privacy = self.gate.schema.cells, given.epsilon, given.delta, given.beta
        needed = static_start(given.alpha, *privacy, self.queries)
        if size < needed:
            raise GuaranteeError(
                f"the paper's theorem covers alpha={given.alpha:g} for {counted(self.queries, 'query', 'queries')} "
                f"with this epsilon and delta from {counted(needed, 'row')} on; there are {size:,}. Fewer queries or a "
                "larger alpha would do too"
            )

    _check_start = check_start

    def _allowed(self, size: int) -> float:
        return float(self.queries)

    def _xi(self) -> float:
        given = self.parameters
        return static_noise(self.state.size, self.gate.schema.cells, given.epsilon, given.delta, given.alpha)

    def _hard_bound(self, size: int) -> float:
        return static_hard(self.gate.schema.cells, self.parameters.alpha)


def _within(queries: Sequence[Query], limit: int) -> Iterator[Query]:
    """The queries before the first that would be one too many; constant ones do not count."""
    left = limit
    for query in queries:
        left -= not query.constant
        if left < 0:
            return
        yield query
