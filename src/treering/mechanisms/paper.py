"""The paper's profile of PMWG: its noise, threshold and learning rate, exactly as in its theorems and proofs.

Cummings, Krehbiel, Lai and Tantipongpipat, algorithm "PMWG", with our errata: one threshold draw a run, and noise
fixed in rows for the run (E1); of the two one-sided questions the second is asked only if the first was below (E2);
past its bound on hard queries the mechanism is over for ever (E9); growth composes into one uniform update (E10); the
side of an update is the side that was found above (E17). Errata are numbered as on ``docs/errata.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from typing import Final

from treering.answer import Answer
from treering.domain.query import Query
from treering.errors import EngineError, Halted
from treering.gate import Compared, Event, Gate, Noted, RunRequest, RunStarted
from treering.mechanisms.base import Outlook
from treering.mechanisms.histogram.hypothesis import Hypothesis
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.state import Grown
from treering.noise import Laplace
from treering.theory.pmwg import alpha as paper_alpha
from treering.theory.pmwg import alpha_start, check_paper, hard_bound, noise
from treering.theory.sparse import paper_scales

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
    hard: int = 0
    run: int | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class PaperParameters:
    """The parameters of the paper's formulas; ``p`` is the exponent of its noise."""

    epsilon: float
    delta: float
    alpha: float
    beta: float
    p: float


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
        with self.gate.transaction():
            compared = self.gate.first_exceeding(self._run(), sides, bars)
            self._follow(compared)
            hit = compared.crossing
            easy = shares if hit is None else shares[: hit.index // 2]
            answers += [Answer(min(1.0, max(0.0, share)), self.error, size, "easy") for share in easy]
            if hit is None or hit.value is None:
                return
            query, too_high = queries[hit.index // 2], hit.index % 2 == 1
            if self.state.hard > hard_bound(self.state.start, size, self.gate.schema.cells, alpha):
                self._follow(self.gate.note(Over()))
                return
            # r = f where the histogram is too high, otherwise 1 − f.
            step = self.hypothesis.exponential_step(query, alpha / 6, complement=not too_high)
            self._follow(self.gate.note(Updated(step)))
        share = hit.value / (size * query.scale)
        answers.append(Answer(min(1.0, max(0.0, 1 - share if too_high else share)), self.error, size, "hard"))

    @property
    def covered(self) -> bool:
        """Whether the accuracy theorem covers alpha at the starting size, for its query budget with κ = 1."""
        given, start = self.parameters, self.state.start or self.gate.size
        least = paper_alpha(start, self.gate.schema.cells, given.epsilon, given.delta, given.beta, 1, given.p)
        return given.alpha >= least

    @cached_property
    def error(self) -> float:
        """The proven error of an answer: alpha where the theorem covers it, otherwise 1, as shares lie in [0, 1]."""
        return self.parameters.alpha if self.covered else 1.0

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
        given, start, cells = self.parameters, self.state.start or self.gate.size, self.gate.schema.cells
        left = max(0.0, hard_bound(start, self.gate.size, cells, given.alpha) - self.state.hard)
        if self.covered:
            statement = "every answer is within alpha, for ever, within the paper's query budget (kappa = 1)"
        else:
            needed = alpha_start(given.alpha, cells, given.epsilon, given.delta, given.beta, 1, given.p)
            statement = (
                f"no accuracy is proven for this alpha from a start of {start:,} rows; "
                f"the paper's theorem would cover it from {needed:,} rows"
            )
        return Outlook(statement, self.covered, math.floor(left), left)

    def _run(self) -> int:
        """The run in progress; begins one if there is none. ξ is that of its first size; its noise is fixed in rows."""
        if self.state.run is None:
            given, state = self.parameters, self.state
            cells = self.gate.schema.cells
            xi = noise(state.size, state.start, cells, given.epsilon, given.delta, given.alpha, given.p)
            threshold, query, answer = paper_scales(state.size, xi)
            self._follow(self.gate.begin_run(RunRequest(threshold, query, Laplace(answer))))
        assert self.state.run is not None
        return self.state.run

    def _check_alive(self) -> None:
        if self.state.over:
            raise Halted(
                "more queries were hard than the theorem allows for (an event of probability at most beta); "
                "PMWG has given its last answer"
            )

    def _grow(self) -> None:
        size = self.gate.size
        if size < self.state.size:
            raise EngineError("the database has fewer rows than before: it was replaced, and the promise with it")
        if not self.state.start:
            given = self.parameters
            check_paper(size, self.gate.schema.cells, given.epsilon, given.delta, given.beta, given.p)
        if size > self.state.size:
            self._follow(self.gate.note(Grown(size)))

    def _follow(self, event: Event) -> None:
        """Update the state by an event that is in the journal. State changes nowhere else."""
        state = self.state
        if isinstance(event, RunStarted):
            self.state = replace(state, run=event.run)
        elif isinstance(event, Compared):
            hit = event.crossing is not None
            run = None if hit else state.run
            self.state = replace(state, asked=state.asked + event.asked, hard=state.hard + hit, run=run)
        elif isinstance(event, Noted) and isinstance(event.note, Grown):
            size = event.note.size
            if state.start:
                self.hypothesis.grow((size - state.size) / size)
            self.state = replace(state, start=state.start or size, size=size)
        elif isinstance(event, Noted) and isinstance(event.note, Updated):
            self.hypothesis.apply(event.note.step)
        elif isinstance(event, Noted) and isinstance(event.note, Over):
            self.state = replace(state, over=True)
